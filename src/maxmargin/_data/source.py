"""Where rows live: the one interface that methods see, and rows in memory.

A pass over the rows is a *block function*

    function(block, parts, *shared) -> (new_parts, sums)

of a block of rows that is at hand, of the parts of some columns (one entry per row) that belong to
it, and of arguments that are the same for all blocks. :meth:`RowSource.run` calls it where the
blocks are: on threads of this process, on the workers of a cluster, or on a device. Blocks are
fixed and their sums come in order, so the result has the same bits on any number of threads.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, runtime_checkable

import numpy as np
from scipy import sparse

# OpenBLAS changes kernel with the row count: with tiles of at most 1024 rows the last digits hardly
# depend on how the rows are blocked.
TILE = 1024
BLOCK = 16 * TILE
LARGEST, LARGEST32 = 1e150, 1e18  # squares of these and of their inverses are finite


class SchedulerLost(RuntimeError):
    """The scheduler of a cluster does not answer any more.

    ``found`` is the best model so far: features, coefficients and intercepts, if there is one.
    """

    found: tuple[Any, np.ndarray, np.ndarray] | None = None


@runtime_checkable
class RowSource(Protocol):
    """Rows, wherever they are stored."""

    shape: tuple[int, int]
    dtype: np.dtype
    is_sparse: bool
    in_memory: bool
    local: bool
    column_names: tuple[str, ...] | None

    def check(self) -> None:
        """Refuse values that are not finite, unless they are checked when they are read."""

    def take(self, rows: np.ndarray | slice) -> Any:
        """Return the chosen rows, an array or CSR matrix of the host."""

    def part(self, rows: np.ndarray) -> RowSource:
        """Return the chosen rows (rising numbers) where they are stored."""

    def sample(self, rows: np.ndarray) -> RowSource:
        """Return the chosen rows where several passes over them are fastest."""

    def columns(self, chosen) -> RowSource:
        """Return the same rows with some of the columns."""

    def mapped(self, features, n_jobs: int) -> RowSource | None:
        """Return stored features of all rows; None if there is no memory for them."""

    def run(
        self, function: Callable, view, shared: tuple, columns: tuple, made: tuple, n_jobs: int
    ) -> tuple[tuple, Iterator]:
        """Call a block function on every block; return the columns it makes and all sums."""

    def map(self, function: Callable, view, shared: tuple, width: int | None, n_jobs: int) -> Any:
        """Return what a block function gives for every row, in the user's container."""

    def like(self, column, names: np.ndarray | None = None) -> Any:
        """Return a column, renamed, in the user's container; None if only passes can read it."""


class LocalRows:
    """Rows that this process reads range by range: a base of rows in memory and in files."""

    in_memory = True
    local = True
    column_names: tuple[str, ...] | None = None
    shape: tuple[int, int]
    dtype: np.dtype

    def check(self) -> None:
        """Do nothing: rows are checked when they are read, or have been."""

    def take(self, rows):
        """Return the chosen rows."""
        raise NotImplementedError

    def run(self, function, view, shared=(), columns=(), made=(), n_jobs=1):
        """Call a block function on every block, on ``n_jobs`` threads."""
        n = self.shape[0]
        out = tuple(np.empty(n, dtype) for dtype in made)

        def work(start, stop):
            parts = tuple(part_of_column(column, start, stop) for column in columns)
            new, sums = function(view.of(self.take(slice(start, stop))), parts, *shared)
            for column, values in zip(out, new):
                column[start:stop] = values
            return sums

        return out, each_block(n, work, n_jobs)

    def map(self, function, view, shared, width=None, n_jobs=1):
        """Return what a block function gives for every row."""
        found = list(self.run(function, view, shared, n_jobs=n_jobs)[1])
        if not found:
            return np.zeros((0,) if width is None else (0, width))
        return np.concatenate(found)

    def like(self, column, names=None):
        """Return the column, its entries replaced by ``names[entry]`` if they are given."""
        if names is not None:
            for start, stop in blocks_of(len(column)):  # all at once would copy it twice
                column[start:stop] = names[column[start:stop]]
        return column


class MemoryRows(LocalRows):
    """Rows of an array, a memory-mapped file or a CSR matrix.

    Examples
    --------
    >>> rows = MemoryRows(np.arange(6.0).reshape(3, 2))
    >>> rows.part(np.array([0, 2])).take(slice(None)).tolist()
    [[0.0, 1.0], [4.0, 5.0]]
    """

    def __init__(self, X, column_names: tuple[str, ...] | None = None):
        self.X, self.column_names = X, column_names
        self.shape, self.dtype, self.is_sparse = X.shape, X.dtype, sparse.issparse(X)

    def replaced(self, X) -> MemoryRows:
        """Return other values for the same user's container."""
        return MemoryRows(X)

    def take(self, rows):
        """Return the chosen rows; ranges are not copied."""
        if not isinstance(rows, slice):
            return self.X[rows]
        start, stop, step = rows.indices(self.shape[0])
        if start == 0 and stop == self.shape[0] and step == 1:
            return self.X
        return _csr_range(self.X, start, stop) if self.is_sparse and step == 1 else self.X[rows]

    def part(self, rows):
        """Return the chosen rows."""
        return self if len(rows) == self.shape[0] else MemoryRows(self.X[rows])

    sample = part

    def columns(self, chosen):
        """Return the same rows with some of the columns."""
        return MemoryRows(self.X[:, chosen])

    def mapped(self, features, n_jobs=1):
        """Return the features of all rows, stored."""
        return store_mapped(self, features, n_jobs)


def store_mapped(source: LocalRows, features, n_jobs: int) -> MemoryRows:
    """Return the features of all rows in one array, mapped tile by tile."""
    Z = np.empty((source.shape[0], features.rank), features.dtype)

    def work(start, stop):
        part = source.take(slice(start, stop))
        for i, j in tiles_of(stop - start):
            Z[start + i : start + j] = features.values(part[i:j])

    for _ in each_block(len(Z), work, n_jobs):
        pass
    return MemoryRows(Z)


def _csr_range(X, start: int, stop: int) -> sparse.csr_matrix:
    """Return rows of a CSR matrix without copying them."""
    first, last = X.indptr[start], X.indptr[stop]
    view = sparse.csr_matrix((stop - start, X.shape[1]), dtype=X.dtype)
    view.data, view.indices = X.data[first:last], X.indices[first:last]
    view.indptr = X.indptr[start : stop + 1] - first
    return view


# -- blocks ----------------------------------------------------------------------------------------


def tiles_of(n_rows: int) -> Iterator[tuple[int, int]]:
    """Return the bounds of the tiles of a block."""
    return ((i, min(i + TILE, n_rows)) for i in range(0, n_rows, TILE))


def blocks_of(n_rows: int) -> list[tuple[int, int]]:
    """Return the bounds of the blocks of all rows."""
    return [(i, min(i + BLOCK, n_rows)) for i in range(0, n_rows, BLOCK)]


def each_block(n_rows: int, work: Callable, n_jobs: int = 1) -> Iterator:
    """Call ``work(start, stop)`` on fixed blocks of rows; yield the results in order.

    The blocks do not depend on ``n_jobs``. Few results wait for their turn, and nothing happens
    before the first one is asked for.

    Examples
    --------
    >>> list(each_block(20_000, lambda start, stop: stop - start))
    [16384, 3616]
    """
    bounds = blocks_of(n_rows)
    if n_jobs == 1 or len(bounds) == 1:
        yield from (work(*b) for b in bounds)
        return
    with ThreadPoolExecutor(n_jobs) as pool:
        waiting: deque = deque()
        try:
            for b in bounds:
                waiting.append(pool.submit(work, *b))
                if len(waiting) > 2 * n_jobs:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def part_of_column(column, start: int, stop: int) -> np.ndarray:
    """Return the entries of some rows; a repeated value takes no memory before."""
    part = column[start:stop]
    return np.ascontiguousarray(part) if part.strides[0] == 0 else part


def repeated(value, n: int) -> np.ndarray:
    """Return a column of one value for all rows, without memory for it.

    Examples
    --------
    >>> repeated(np.int8(-1), 4)
    array([-1, -1, -1, -1], dtype=int8)
    """
    return np.broadcast_to(value, n)


def all_equal(column: np.ndarray) -> bool:
    """Return whether a column is known to repeat one value."""
    return column.strides[0] == 0
