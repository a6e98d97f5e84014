"""Rows of a dask array.

Without a cluster this process reads the chunks one after another, like the blocks of a file. With a
``dask.distributed`` client a pass is one task per chunk: the columns it makes (labels, codes) stay
on the worker, and only sums are transferred. The columns are tasks that depend on earlier ones, so
dask computes them again if a worker is lost.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable
from concurrent.futures import CancelledError
from dataclasses import dataclass, replace
from functools import partial
from operator import getitem
from typing import Any

import numpy as np
from scipy import sparse

from .._threads import one_thread
from .blocks import RowBlocks, check_block
from .source import BLOCK, BlockFunc, Columns, MemoryRows, Pass, SchedulerLost, all_equal


def is_dask(X: Any) -> bool:
    """Return whether X is a dask array or dataframe, without importing dask."""
    named = type(X).__module__.partition(".")[0] in ("dask", "dask_expr")
    return named and hasattr(X, "ndim")


def as_dask_array(X: Any, lengths: bool = False) -> Any:
    """Return a dask array or dataframe as a dask array of numbers.

    If chunk sizes (``lengths``) must be known, unknown ones are computed.
    """
    if X.ndim != 2:
        raise ValueError(
            f"Expected 2D array, got {X.ndim}D array instead. Reshape your data: X.reshape(-1, 1) "
            "for one column."
        )
    if hasattr(X, "to_dask_array"):
        text = [name for name, kind in X.dtypes.items() if kind.kind not in "biuf"]
        if text:
            raise ValueError(
                f"X has columns that are not numbers: {', '.join(map(str, text))}. Drop them."
            )
        single = all(kind == np.float32 for kind in X.dtypes)
        X = X.astype(np.float32 if single else np.float64)
        X = X.to_dask_array(lengths=True if lengths else None)
    if X.dtype.kind not in "biuf":
        raise ValueError(f"X holds {X.dtype} values; numbers were expected.")
    if len(X.chunks[1]) > 1:
        warnings.warn(
            f"X is split over its columns into {len(X.chunks[1])} chunks; it is rechunked, which "
            "moves data. Use X.rechunk({1: -1}) once, before the fit.",
            UserWarning,
            stacklevel=2,
        )
        X = X.rechunk({1: -1})
    if lengths and np.isnan(X.shape[0]):
        try:
            X = X.compute_chunk_sizes()
        except Exception as error:
            raise ValueError(
                "X has chunks of unknown size, and X.compute_chunk_sizes() failed: "
                f"{' '.join(str(error).split())}"
            ) from error
    return X


class LazyRows:
    """Rows of a dask array of which nothing is computed, not even the number of rows."""

    column_names: tuple[str, ...] | None
    in_memory = False

    def __init__(self, X: Any, lengths: bool = False) -> None:
        names = tuple(getattr(X, "columns", ()))
        self.column_names = names if names and all(isinstance(n, str) for n in names) else None
        self.array = as_dask_array(X, lengths)
        self.shape = self.array.shape
        single = self.array.dtype == np.float32
        self.dtype = np.dtype(np.float32 if single else np.float64)

    def map(self, function: BlockFunc, view: Any, shared: Any, width: int | None = None) -> Any:
        """Return a lazy dask array of what a block function gives for every row."""
        found = np.empty(0, np.int32) if width is None else np.empty((0, width))
        shape: dict[str, Any] = {"drop_axis": 1}
        if width is not None:
            shape = {"chunks": (self.array.chunks[0], (width,))}
        given = function, view, shared, found, self.dtype
        return self.array.map_blocks(_mapped_chunk, *given, meta=found, dtype=found.dtype, **shape)


class DaskRows(LazyRows, RowBlocks):
    """The chunks of a dask array or dataframe, which are blocks of rows."""

    def __init__(self, X: Any, name: str = "X") -> None:
        LazyRows.__init__(self, X, lengths=True)
        X = self.array
        if 0 in X.chunks[0] and X.shape[0] > 0:
            X = X.rechunk({0: tuple(size for size in X.chunks[0] if size)})
        self.array = X
        self.client = current_client()
        RowBlocks.__init__(
            self,
            partial(_read_chunk, X, self.client),
            X.chunks[0],
            X.shape[1],
            self.dtype,
            is_sparse=self._first_is_sparse(),
            name=name,
            column_names=self.column_names,
        )

    @property
    def local(self) -> bool:  # type: ignore[override]
        """Whether this process reads the chunks."""
        return self.client is None

    def _first_is_sparse(self) -> bool:
        import dask

        if sparse.issparse(self.array._meta):
            return True
        first = dask.delayed(sparse.issparse)(self.array.blocks[0].to_delayed().ravel()[0])
        return bool(_computed([first], self.client)[0])

    def part(self, indices: np.ndarray) -> RowBlocks:
        """Return the chosen rows (ascending numbers) as a dask array."""
        return DaskRows(self.array[indices], self.name)

    def columns(self, chosen: Any) -> RowBlocks:
        """Return the same rows with some of the columns."""
        return DaskRows(self.array[:, chosen].rechunk({1: -1}), self.name)

    def _picked(self, places: dict[int, np.ndarray]) -> Iterable[Any]:
        if self.client is None:
            return super()._picked(places)
        import dask

        chunks, take = self.array.to_delayed().ravel(), dask.delayed(getitem)
        parts = _computed([take(chunks[i], rows) for i, rows in places.items()], self.client)
        return (part.astype(self.dtype, copy=False) for part in parts)

    def mapped(self, features: Any, n_jobs: int = 1) -> Any:
        """Return the features of all rows, computed once and kept on the cluster."""
        if self.client is None:
            return super().mapped(features, n_jobs)
        meta = np.empty((0, 0), features.dtype)
        chunks = self.array.chunks[0], (features.rank,)
        recipe = {"dtype": meta.dtype, "chunks": chunks, "meta": meta}
        Z = self.array.map_blocks(_map_chunk, features, self.dtype, **recipe)
        with _Connection(self.client):
            Z = self.client.persist(Z)
        return DaskRows(Z, self.name)

    def like(self, column: Any, names: np.ndarray | None = None) -> Any:
        """Return a column of this process as a dask array; None for one that stays on workers.

        Columns on the workers are for passes only: a user may compute with another scheduler.
        """
        import dask.array as da

        if isinstance(column, Kept):
            return None
        return da.from_array(super().like(column, names), chunks=(self.array.chunks[0],))

    # -- a pass on a cluster -----------------------------------------------------------------

    def check(self) -> None:
        """Raise an error for chunks that are not rows of numbers, in one pass."""
        if self.client is None:
            return
        import dask

        chunks, look = self.array.to_delayed().ravel(), dask.delayed(_complaint)
        kind = self.shape[1], self.is_sparse, self.name
        jobs = [
            look(chunk, int(self.sizes[i]), *kind, i, self.starts[i])
            for i, chunk in enumerate(chunks)
        ]
        for complaint in _computed(jobs, self.client):
            if complaint is not None:
                raise ValueError(complaint)

    def run(
        self, function: BlockFunc, view: Any, shared: Any = (), columns: Any = (), made: Any = ()
    ) -> Pass:
        """Call a block function on every chunk, as tasks of the cluster."""
        if self.client is None:
            return super().run(function, view, shared, columns, made)
        import dask

        # Everything that all chunks need is one task, sent once to every worker.
        recipe = dask.delayed((function, view, shared, self.dtype), traverse=False)
        work, first = dask.delayed(_on_chunk, pure=False), dask.delayed(getitem, pure=False)
        places = [column.place if isinstance(column, Kept) else None for column in columns]
        jobs = []
        for i, chunk in enumerate(self.array.to_delayed().ravel()):
            start, stop = self.starts[i], int(self.ends[i])
            parts = [_part_for(column, i, start, stop) for column in columns]
            jobs.append(work(recipe, chunk, places, *parts))
        with _Connection(self.client):
            kept = self.client.persist(jobs)
        new = tuple(Kept(tuple(kept), 1 + m) for m in range(len(made)))
        found = _computed([first(job, 0) for job in kept], self.client)
        return new, (sums for chunk in found for sums in chunk)


def _read_chunk(array: Any, client: Any, i: int) -> Any:
    """Read a chunk of a dask array into this process."""
    return _computed(array.blocks[i].to_delayed().ravel().tolist(), client)[0]


@dataclass(frozen=True)
class Kept:
    """A column that stays on the workers: one of the results of every task."""

    parts: tuple[Any, ...]
    place: int


@dataclass(frozen=True)
class _Same:
    """A part of a column that repeats one value."""

    value: Any
    count: int


def _part_for(column: Any, i: int, start: int, stop: int) -> Any:
    if isinstance(column, Kept):
        return column.parts[i]
    if all_equal(column):
        return _Same(column[0], stop - start)
    return column[start:stop]


def _on_chunk(recipe: Any, chunk: Any, places: Any, *parts: Any) -> tuple[Any, ...]:
    """Task: call a block function on one chunk; return the sums and the columns it makes."""
    function, view, shared, dtype = recipe
    columns = [part if place is None else part[place] for part, place in zip(parts, places)]
    columns = [np.full(c.count, c.value) if isinstance(c, _Same) else c for c in columns]
    chunk = MemoryRows(chunk.astype(dtype, copy=False))
    sums, made = [], []
    with one_thread():
        for start in range(0, chunk.shape[0], BLOCK):
            rows = slice(start, start + BLOCK)
            block = view.of(chunk.take(rows))
            new, block_sums = function(block, [c[rows] for c in columns], *shared)
            sums.append(block_sums)
            made.append(new)
    return sums, *(np.concatenate(column) for column in zip(*made))


def _mapped_chunk(
    chunk: Any, function: BlockFunc, view: Any, shared: Columns, nothing: Any, dtype: Any
) -> Any:
    """Return what a block function gives for the rows of one chunk."""
    if not chunk.shape[0]:
        return nothing
    check_block(chunk, chunk.shape, sparse.issparse(chunk), "X", 0)
    with one_thread():
        rows = MemoryRows(chunk.astype(dtype, copy=False))
        return rows.map(function, replace(view, n_jobs=1), shared)


def _map_chunk(chunk: Any, features: Any, dtype: Any) -> Any:
    with one_thread():
        return MemoryRows(chunk.astype(dtype, copy=False)).mapped(features).X


def _complaint(
    chunk: Any, size: int, width: int, is_sparse: bool, name: str, i: int, first_row: int
) -> str | None:
    try:
        check_block(chunk, (size, width), is_sparse, f"{name}, block {i}", first_row)
    except ValueError as error:
        return str(error)
    return None


def current_client() -> Any:
    """Return the current dask client, or None."""
    if "distributed" not in sys.modules:
        return None
    from distributed import default_client

    try:
        return default_client()
    except ValueError:
        return None


def _computed(tasks: list[Any], client: Any) -> Any:
    """Return the results of tasks, computed on the cluster or in this process."""
    import dask

    if client is None:
        return list(dask.compute(*tasks, scheduler="synchronous"))
    with _Connection(client):
        return client.gather(client.compute(tasks))


class _Connection:
    """Turns the different errors of a lost connection into SchedulerLost."""

    def __init__(self, client: Any) -> None:
        self.client = client

    def __enter__(self) -> _Connection:
        if self.client.status != "running":
            raise self._lost(self.client.status)
        return self

    def __exit__(self, kind: Any, error: Any, _trace: Any) -> None:
        if kind is None or not issubclass(kind, Exception):
            return
        # A task's own error of one of these kinds comes while the connection is up.
        ended = isinstance(error, CancelledError | TimeoutError | OSError)
        if ended and (isinstance(error, CancelledError) or self.client.status != "running"):
            raise self._lost(kind.__name__) from error

    @staticmethod
    def _lost(why: str) -> SchedulerLost:
        return SchedulerLost(
            f"The dask scheduler does not answer any more ({why}). Start a cluster again."
        )
