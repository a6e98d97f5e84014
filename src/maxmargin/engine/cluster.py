"""Blocks of a dask array: read here, or worked on where they are.

Without a cluster the chunks are read one after another, as those of a file are. With a
``dask.distributed`` client every pass is one task per chunk: the columns it makes (labels, codes)
stay on the worker, and only sums travel. Lost workers are dask's business: a chunk's columns are
tasks that depend on those before them, so it can make them again.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from .blocks import RowBlocks, SchedulerLost, check_block
from .rows import Rows, all_equal, blocks_of, part_of_column, tiles_of
from .threads import one_thread


def is_dask(X) -> bool:
    """Whether X is a dask array or dataframe; dask is not imported for the question."""
    named = type(X).__module__.partition(".")[0] in ("dask", "dask_expr")
    return named and hasattr(X, "ndim")


def as_dask_array(X, lengths: bool = False):
    """A dask array of rows from an array or dataframe.

    Parameters
    ----------
    X : dask array or dataframe
    lengths : bool
        Whether chunk sizes must be known; they are computed where they are not.
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
                f"X has columns that are not numbers: {', '.join(map(str, text))}. Leave them out."
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


def dask_array(rows: RowBlocks):
    """A dask array with a chunk for each block, read on the worker."""
    import dask
    import dask.array as da

    if len(rows) == 0:
        raise ValueError(f"{rows.name} has no rows.")
    meta = np.empty((0, rows.shape[1]), rows.dtype)
    read = dask.delayed(_read)
    reader = dask.delayed(rows.read, traverse=False)
    chunks = [
        da.from_delayed(read(reader, i, rows.dtype), (size, rows.shape[1]), rows.dtype, meta=meta)
        for i, size in enumerate(rows.sizes.tolist())
    ]
    return da.concatenate(chunks)


def _read(reader, i: int, dtype):
    return reader(i).astype(dtype, copy=False)


def lazily(method: Callable, X, width: int | None = None, dtype=None):
    """A method on every chunk of a dask array, when it is asked for.

    It gives a number for each row (int32 unless dtype says otherwise), or ``width`` (float64).
    """
    if width is None:
        found = np.empty(0, dtype or np.int32)
        return X.map_blocks(
            _unless_empty, method, found, dtype=found.dtype, drop_axis=1, meta=found
        )
    scores, chunks = np.empty((0, width), dtype or np.float64), (X.chunks[0], (width,))
    return X.map_blocks(
        _unless_empty, method, scores, dtype=scores.dtype, chunks=chunks, meta=scores
    )


def _unless_empty(chunk, method, nothing):
    return method(chunk) if chunk.shape[0] else nothing


def like_dask(column: np.ndarray, X):
    """A column of this process as a dask array, in chunks like those of X where they are known."""
    import dask.array as da

    chunks = getattr(X, "chunks", ((np.nan,),))[0]
    return da.from_array(column, chunks="auto" if np.isnan(chunks).any() else (chunks,))


class DaskBlocks(RowBlocks):
    """The chunks of a dask array, which are blocks of rows."""

    def __init__(self, X, name: str = "X", column_names: tuple[str, ...] | None = None):
        if 0 in X.chunks[0] and X.shape[0] > 0:
            X = X.rechunk({0: tuple(size for size in X.chunks[0] if size)})
        self.array = X
        self.client = current_client()
        is_sparse = self._first_is_sparse()
        dtype = X.dtype if X.dtype in (np.float32, np.float64) else np.dtype(np.float64)
        super().__init__(
            _Chunks(X, self.client),
            X.chunks[0],
            X.shape[1],
            dtype,
            is_sparse=is_sparse,
            name=name,
            column_names=column_names,
        )

    @property
    def is_remote(self) -> bool:  # type: ignore[override]
        """Whether the chunks are worked on by a cluster."""
        return self.client is not None

    def _first_is_sparse(self) -> bool:
        import dask

        if sparse.issparse(self.array._meta):
            return True
        first = dask.delayed(sparse.issparse)(self.array.blocks[0].to_delayed().ravel()[0])
        return bool(_computed([first], self.client)[0])

    def part(self, indices: np.ndarray) -> RowBlocks:
        """Some of the rows (rising indices), where they are."""
        return DaskBlocks(self.array[indices], self.name)

    def columns(self, chosen) -> RowBlocks:
        """The same rows with some of the columns."""
        return DaskBlocks(self.array[:, chosen].rechunk({1: -1}), self.name)

    def _chosen(self, indices: np.ndarray):
        if not self.is_remote:
            return super()._chosen(indices)
        import dask

        indices = self._places(indices)

        order = np.argsort(indices, kind="stable")
        rising = indices[order]
        block = np.searchsorted(self.ends, rising, side="right")
        chunks = self.array.to_delayed().ravel()
        take = dask.delayed(_take)
        parts = [
            take(chunks[i], rising[block == i] - self._start(int(i))) for i in np.unique(block)
        ]
        found = self._joined(
            [part.astype(self.dtype, copy=False) for part in _computed(parts, self.client)]
        )
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        return found[back]

    def mapped(self, features) -> DaskBlocks:
        """Features of all rows, computed once and kept on the cluster."""
        meta = np.empty((0, 0), features.dtype)
        chunks = self.array.chunks[0], (features.rank,)
        recipe = {"dtype": meta.dtype, "chunks": chunks, "meta": meta}
        Z = self.array.map_blocks(_map_chunk, features, self.dtype, **recipe)
        with _Connection(self.client):
            Z = self.client.persist(Z)
        return DaskBlocks(Z, self.name)

    def like(self, column: np.ndarray):
        """A column of this process as a dask array with the same chunks."""
        import dask.array as da

        return da.from_array(column, chunks=(self.array.chunks[0],))

    # -- a pass on a cluster -----------------------------------------------------------------

    def blocks(self) -> list[tuple[int, int]]:
        """Bounds of the blocks that a pass works on, chunk by chunk."""
        return [
            (self._start(i) + a, self._start(i) + b)
            for i in range(len(self.sizes))
            for a, b in blocks_of(int(self.sizes[i]))
        ]

    def check(self) -> None:
        """One pass that looks at every chunk: refuse what is not rows of numbers."""
        import dask

        chunks, look = self.array.to_delayed().ravel(), dask.delayed(_complaint)
        kind = self.shape[1], self.is_sparse, self.name
        jobs = [
            look(chunk, int(self.sizes[i]), *kind, i, self._start(i))
            for i, chunk in enumerate(chunks)
        ]
        for complaint in _computed(jobs, self.client):
            if complaint is not None:
                raise ValueError(complaint)

    def run(
        self, rows: Rows, kernel: Callable, shared: tuple, columns: tuple, n_made: int
    ) -> tuple[tuple, Iterator]:
        """A block kernel on every chunk, as tasks of the cluster: see :func:`.rows.run`."""
        import dask

        # Everything that all chunks need is one task, sent once to every worker.
        recipe = dask.delayed(
            (kernel, replace(rows, data=None), shared, self.dtype), traverse=False
        )
        work, first = dask.delayed(_on_chunk, pure=False), dask.delayed(_first, pure=False)
        places = [column.place if isinstance(column, Kept) else None for column in columns]
        jobs = []
        for i, chunk in enumerate(self.array.to_delayed().ravel()):
            start, stop = self._start(i), int(self.ends[i])
            parts = [_part_for(column, i, start, stop) for column in columns]
            jobs.append(work(recipe, chunk, places, *parts))
        with _Connection(self.client):
            kept = self.client.persist(jobs)
        made = tuple(Kept(tuple(kept), 1 + m) for m in range(n_made))
        found = _computed([first(job) for job in kept], self.client)
        return made, (sums for chunk in found for sums in chunk)


class _Chunks:
    """Reads chunks of a dask array into this process."""

    def __init__(self, array, client):
        self.array, self.client = array, client

    def __call__(self, i: int):
        return _computed(self.array.blocks[i].to_delayed().ravel().tolist(), self.client)[0]


@dataclass(frozen=True)
class Kept:
    """A column that stays on the workers: one of the results of every task."""

    parts: tuple
    place: int


@dataclass(frozen=True)
class _Same:
    """A part of a column that repeats one value."""

    value: Any
    count: int


def _part_for(column, i: int, start: int, stop: int):
    if isinstance(column, Kept):
        return column.parts[i]
    if all_equal(column):
        return _Same(column[0], stop - start)
    return part_of_column(column, start, stop)


def _on_chunk(recipe, chunk, places, *parts):
    """The task: a kernel on the blocks of one chunk; its sums and the columns that it makes."""
    kernel, rows, shared, dtype = recipe
    columns = [part if place is None else part[place] for part, place in zip(parts, places)]
    columns = [np.full(c.count, c.value) if isinstance(c, _Same) else c for c in columns]
    rows = replace(rows, data=chunk.astype(dtype, copy=False), n_jobs=1)
    sums, made = [], []
    with one_thread():
        for start, stop in blocks_of(chunk.shape[0]):
            cut = [column[start:stop] for column in columns]
            new, block_sums = kernel(rows.block(start, stop), cut, *shared)
            sums.append(block_sums)
            made.append(new)
    return sums, *(np.concatenate(column) for column in zip(*made))


def _map_chunk(chunk, features, dtype):
    with one_thread():
        tiles = [features.values(chunk[i:j].astype(dtype)) for i, j in tiles_of(chunk.shape[0])]
    return np.concatenate(tiles)


def _first(results):
    return results[0]


def _take(chunk, rows):
    return chunk[rows]


def _complaint(chunk, size, width, is_sparse, name, i, first_row) -> str | None:
    try:
        check_block(chunk, (size, width), is_sparse, f"{name}, block {i}", first_row)
    except ValueError as error:
        return str(error)
    return None


def current_client():
    """The current dask client; None without a cluster."""
    if "distributed" not in sys.modules:
        return None
    from distributed import default_client

    try:
        return default_client()
    except ValueError:
        return None


def _computed(tasks: list, client) -> list:
    """Results of tasks, on the cluster or here."""
    import dask

    if client is None:
        return list(dask.compute(*tasks, scheduler="synchronous"))
    with _Connection(client):
        return client.gather(client.compute(tasks))


class _Connection:
    """Turns the many errors of a lost connection into one."""

    def __init__(self, client):
        self.client = client

    def __enter__(self):
        if self.client.status != "running":
            raise self._lost(self.client.status)
        return self

    def __exit__(self, kind, error, _trace):
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
