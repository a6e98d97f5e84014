"""Rows that are read block by block: from a file, or the chunks of a dask array.

``X[start:stop]`` and ``X[indices]`` load rows into memory. A block is checked when it is read for
the first time, so that checking needs no pass of its own.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from functools import partial
from threading import Lock
from typing import Any

import numpy as np
from scipy import sparse

from .source import LARGEST, LARGEST32, LocalRows, MemoryRows, available_memory

KEPT = 2  # blocks kept in memory: a slice of rows read in order spans at most two


class RowBlocks(LocalRows):
    """Rows in blocks.

    Parameters
    ----------
    read : callable
        ``read(i)`` gives block ``i``, an array or CSR matrix.
    sizes : sequence of int
        Rows in every block.
    n_columns : int
    dtype : dtype
        float32 or float64; other numbers are converted to it.
    is_sparse : bool
        Whether blocks are CSR matrices.
    name : str
        For messages.
    column_names : tuple of str or None

    Examples
    --------
    >>> X = RowBlocks(lambda i: np.full((2, 3), float(i)), [2, 2], 3, np.float64)
    >>> X.shape, X[1:3, ].tolist(), X[np.array([3])].tolist()
    ((4, 3), [[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]], [[1.0, 1.0, 1.0]])
    """

    in_memory = False
    ndim = 2
    room: float | None = None  # bytes available for mapped rows; None: a third of free memory

    def __init__(
        self,
        read: Callable[[int], Any],
        sizes: Any,
        n_columns: int,
        dtype: Any,
        *,
        is_sparse: bool = False,
        name: str = "X",
        column_names: tuple[str, ...] | None = None,
    ) -> None:
        self.read, self.is_sparse = read, is_sparse
        self.name, self.column_names = name, column_names
        self.sizes = np.asarray(sizes, np.int64)
        self.ends = np.cumsum(self.sizes)
        self.starts = self.ends - self.sizes
        self.shape = (int(self.ends[-1]) if len(self.ends) else 0, int(n_columns))
        self.dtype = np.dtype(dtype)
        self._forget()

    def _forget(self) -> None:
        self._kept: OrderedDict[int, Any] = OrderedDict()
        self._reading: dict[int, Lock] = {}
        self._lock = Lock()
        self._checked = np.zeros(len(self.sizes), bool)

    def __getstate__(self) -> dict[str, Any]:
        hidden = ("_kept", "_reading", "_lock", "_checked")
        return {name: value for name, value in self.__dict__.items() if name not in hidden}

    def __setstate__(self, state: Any) -> None:
        self.__dict__.update(state)
        self._forget()

    def __repr__(self) -> str:
        return f"RowBlocks({self.name}: {self.shape[0]} x {self.shape[1]} in {len(self.sizes)})"

    def __len__(self) -> int:
        return self.shape[0]

    def _block(self, i: int) -> Any:
        """Return block ``i``, kept for the next reader; it is read by one thread at a time."""
        with self._lock:
            if i in self._kept:
                self._kept.move_to_end(i)
                return self._kept[i]
            reading = self._reading.setdefault(i, Lock())
        with reading:
            with self._lock:
                if i in self._kept:
                    return self._kept[i]
            block = self._checked_block(i)
            with self._lock:
                self._kept[i] = block
                while len(self._kept) > KEPT:
                    self._kept.popitem(last=False)
                self._reading.pop(i, None)
        return block

    def _checked_block(self, i: int) -> Any:
        block = self.read(i)
        if not self._checked[i]:
            shape = int(self.sizes[i]), self.shape[1]
            check_block(block, shape, self.is_sparse, f"{self.name}, block {i}", self.starts[i])
            self._checked[i] = True
        if block.dtype != self.dtype:
            block = block.astype(self.dtype)
        return block

    def __array__(self, *_args: Any, **_kwargs: Any) -> None:
        raise TypeError(f"{self.name} is read block by block; X[:] loads all rows into memory.")

    def __getitem__(self, rows: Any) -> Any:
        if isinstance(rows, int | np.integer):
            return self._chosen(np.array([rows]))[0]
        if isinstance(rows, tuple):
            all_columns = isinstance(rows[-1], slice) and rows[-1] == slice(None)
            if len(rows) == 2 and not all_columns:
                return self.columns(rows[1])[rows[0]]
            rows = rows[0]
        if isinstance(rows, slice):
            start, stop, step = rows.indices(self.shape[0])
            if step == 1:
                return self._range(start, max(start, stop))
            rows = np.arange(start, stop, step)
        return self._chosen(np.asarray(rows))

    def _range(self, start: int, stop: int) -> Any:
        first = int(np.searchsorted(self.ends, start, side="right"))
        parts = []
        while first < len(self.sizes) and self.starts[first] < stop:
            begin = self.starts[first]
            parts.append(self._block(first)[max(start - begin, 0) : stop - begin])
            first += 1
        return self._joined(parts)

    def _chosen(self, indices: np.ndarray) -> Any:
        n = self.shape[0]
        if indices.dtype == bool:
            indices = np.flatnonzero(indices)
        if indices.size and (indices.min() < -n or indices.max() >= n):
            raise IndexError(f"row {int(np.abs(indices).max())} of {self.name}, which has {n} rows")
        indices = np.where(indices < 0, indices + n, indices)  # negative ones count from the end
        order = np.argsort(indices, kind="stable")
        rising = indices[order]
        block = np.searchsorted(self.ends, rising, side="right")
        numbers = np.unique(block).tolist()
        parts = self._picked({i: rising[block == i] - self.starts[i] for i in numbers})
        if self.is_sparse:
            found = self._joined(list(parts))
        else:
            found = np.empty((len(rising), self.shape[1]), self.dtype)  # a list would take as much
            for i, part in zip(numbers, parts):
                found[block == i] = part
        return found if (np.diff(order) == 1).all() else found[np.argsort(order)]

    def _picked(self, places: dict[int, np.ndarray]) -> Iterable[Any]:
        """Return the rows of each block at the given places."""
        return (self._block(i)[rows] for i, rows in places.items())

    def _joined(self, parts: list[Any]) -> Any:
        if len(parts) == 1:
            return parts[0]
        if not parts:
            empty = np.zeros((0, self.shape[1]), self.dtype)
            return sparse.csr_matrix(empty) if self.is_sparse else empty
        return sparse.vstack(parts, format="csr") if self.is_sparse else np.concatenate(parts)

    def take(self, rows: Any) -> Any:
        """Return the chosen rows, in memory."""
        return self[rows]

    def sample(self, rows: Any) -> Any:
        """Return the chosen rows in memory."""
        return MemoryRows(self[rows])

    def mapped(self, features: Any, n_jobs: int = 1) -> Any:
        """Return the features of all rows in memory, or None if there is too little memory."""
        room = available_memory() / 3 if self.room is None else self.room
        if self.shape[0] * features.rank * features.dtype.itemsize > room:
            return None
        return super().mapped(features, n_jobs)

    def part(self, indices: np.ndarray) -> RowBlocks:
        """Return some of the rows (ascending numbers), read block by block."""
        block = np.searchsorted(self.ends, indices, side="right")
        places = {int(i): indices[block == i] - self.starts[i] for i in np.unique(block)}
        return self._like(
            partial(_read_chosen, self.read, list(places.items())),
            [len(p) for p in places.values()],
        )

    def columns(self, chosen: Any) -> RowBlocks:
        """Return the same rows with some of the columns."""
        numbers = np.atleast_1d(np.arange(self.shape[1])[chosen])
        view = self._like(partial(_read_columns, self.read, numbers), self.sizes)
        view.shape = (self.shape[0], len(numbers))
        if self.column_names is not None:
            view.column_names = tuple(self.column_names[j] for j in numbers)
        return view

    def to_dask(self) -> Any:
        """Return the same rows as a dask array: a chunk per block, read by the worker."""
        import dask
        import dask.array as da

        if len(self) == 0:
            raise ValueError(f"{self.name} has no rows.")
        reader = dask.delayed(self.read, traverse=False)
        read = dask.delayed(lambda reader, i, dtype: reader(i).astype(dtype, copy=False))
        meta = np.empty((0, self.shape[1]), self.dtype)
        chunks = (read(reader, i, self.dtype) for i in range(len(self.sizes)))
        shapes = ((size, self.shape[1]) for size in self.sizes.tolist())
        return da.concatenate(
            [da.from_delayed(*given, self.dtype, meta=meta) for given in zip(chunks, shapes)]
        )

    def _like(self, read: Callable[[int], Any], sizes: Any) -> RowBlocks:
        return RowBlocks(
            read, sizes, self.shape[1], self.dtype,
            is_sparse=self.is_sparse, name=self.name, column_names=self.column_names,
        )  # fmt: skip


def _read_chosen(read: Callable[[int], Any], places: list[Any], i: int) -> Any:
    block, rows = places[i]
    return read(block)[rows]


def _read_columns(read: Callable[[int], Any], numbers: np.ndarray, i: int) -> Any:
    return read(i)[:, numbers]


def check_block(
    block: Any, shape: tuple[int, ...], is_sparse: bool, where: str, first_row: int
) -> None:
    """Raise an error that names the block and the row if a block is not as expected."""
    if sparse.issparse(block) != is_sparse:
        kinds = ("dense", "sparse")
        raise ValueError(
            f"{where} is {kinds[sparse.issparse(block)]}, the first block is {kinds[is_sparse]}."
        )
    if block.ndim != 2 or block.shape[1] != shape[1]:
        raise ValueError(f"{where} has shape {block.shape}; {shape[1]} columns were expected.")
    if block.shape[0] != shape[0]:
        raise ValueError(f"{where} has {block.shape[0]} rows; {shape[0]} were expected.")
    if block.dtype.kind not in "biuf":
        raise ValueError(f"{where} holds {block.dtype} values; numbers were expected.")
    values = block.data if sparse.issparse(block) else block
    if values.dtype.kind != "f" or not values.size:
        return
    low, high = float(values.min()), float(values.max())  # NaN and infinity show in one of them
    limit = LARGEST32 if values.dtype == np.float32 else LARGEST
    if low >= -limit and high <= limit:
        return
    if is_sparse:
        bad = int(np.searchsorted(block.indptr, _first_bad(values, limit), side="right")) - 1
    else:
        bad = _first_bad(values, limit) // values.shape[1]
    if np.isnan(low) or np.isnan(high) or np.isinf([low, high]).any():
        raise ValueError(
            f"{where}: row {bad} (row {first_row + bad} of all) contains NaN or infinity. Remove "
            "such rows or impute the values."
        )
    raise ValueError(
        f"{where}: row {bad} (row {first_row + bad} of all) has values above {limit:g}: squares "
        f"overflow or underflow in {values.dtype}. Rescale X."
    )


def _first_bad(values: np.ndarray, limit: float) -> int:
    good = np.abs(values) <= limit  # False for NaN
    return int(np.argmin(good.ravel()))
