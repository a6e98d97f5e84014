"""The one data pass: scores, a per-row rule, a weighted sum of rows.

Every method touches the data only through

    S = Z W' ;   A = rule(S) ;   G = A' Z

over tiles of rows. :class:`Rows` knows where Z lies (an array, a memory-mapped file, a CSR matrix,
blocks of a file, blocks of a dask array on other machines) and how it is centred; nothing else
does. Tiles are fixed and their sums are added in order, so on one machine the result has the same
bits on any number of threads. On other storage, blocks or CPUs it differs by rounding.

A pass is a *block kernel*: a function of a block in memory, of the parts of some columns (one entry
per row) that belong to it, and of arguments for all blocks. :func:`run` calls it wherever the
blocks are.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from ..kernels.sparse import csr_scores, csr_weighted_sum
from .blocks import RowBlocks

# OpenBLAS may change kernel with the row count: products of small tiles differ least.
TILE = 1024
TILES_PER_BLOCK = 16
BLOCK = TILE * TILES_PER_BLOCK
# Centring in the products, x'w - o'w, loses the digits by which the offset exceeds the rows' size.
FAR = {np.dtype(np.float32): 10.0, np.dtype(np.float64): 1e4}


@dataclass(frozen=True)
class Rows:
    """Rows of ``Z = (data - offset) * scale``, read tile by tile.

    Parameters
    ----------
    data : ndarray, memmap, csr_matrix or RowBlocks of shape (n, r)
        The stored rows. CSR rows are centred implicitly and never made dense.
    offset : ndarray of shape (r,) or None
        Subtracted from every row.
    scale : float
        Multiplies every row.
    n_jobs : int
        Threads over blocks of tiles.
    features : callable or None
        Maps a tile of the data when it is read; offset and scale apply to what it gives.

    Examples
    --------
    >>> import numpy as np
    >>> rows = Rows(np.array([[1.0, 2.0], [3.0, 4.0]]), offset=np.array([2.0, 3.0]))
    >>> scores(rows, np.array([[1.0, 1.0]])).ravel()
    array([-2.,  2.])
    """

    data: Any  # ndarray, memmap, csr_matrix or RowBlocks
    offset: np.ndarray | None = None
    scale: float = 1.0
    n_jobs: int = 1
    features: Any = None

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of features."""
        if self.features is not None:
            return self.data.shape[0], self.features.rank
        return self.data.shape

    @property
    def dtype(self) -> np.dtype:
        """Floating type in which tiles are multiplied."""
        return self.data.dtype if self.features is None else self.features.dtype

    @property
    def is_blocked(self) -> bool:
        """Whether the rows are read block by block, and must not be brought into memory whole."""
        return isinstance(self.data, RowBlocks)

    @property
    def is_sparse(self) -> bool:
        """Whether the products run over CSR rows."""
        return self.features is None and is_sparse(self.data)

    @property
    def is_near(self) -> bool:
        """Whether the stored rows may be centred in the products: always so for CSR rows."""
        if self.features is not None:
            return False
        far = 0.0 if self.offset is None else float(np.linalg.norm(self.offset) * self.scale)
        return self.is_sparse or far <= FAR[self.data.dtype]

    def block(self, start: int, stop: int) -> Rows:
        """Rows ``start:stop``, in memory: nothing is copied that is there already."""
        if start == 0 and stop == self.shape[0] and not self.is_blocked:
            return self
        part = self.data[start:stop] if not sparse.issparse(self.data) else None
        return replace(self, data=_csr_view(self.data, start, stop) if part is None else part)

    def tile(self, start: int, stop: int) -> Any:
        """Rows ``start:stop`` of Z as a DenseTile or CsrTile, read once for all products."""
        if self.is_sparse:
            return CsrTile(self, start, stop)
        if self.features is not None:
            values = self.features.values(self.data[start:stop])
        else:
            values = np.ascontiguousarray(self.data[start:stop])
        if self.offset is not None:
            values = values - self.offset.astype(values.dtype, copy=False)
        if self.scale != 1.0:
            values = values * values.dtype.type(self.scale)
        return DenseTile(values)

    def stored(self) -> Rows:
        """The same rows of Z, centred and scaled once and for all (dense), or as they are.

        CSR rows stay as they are, and so do rows that are too many for memory.
        """
        if self.is_sparse or self.is_blocked:
            return self
        tiles = [self.tile(i, j).values for i, j in tiles_of(self.shape[0])]
        return Rows(np.concatenate(tiles), n_jobs=self.n_jobs)

    def take(self, indices: np.ndarray) -> Rows:
        """Return the chosen rows, in memory and mapped."""
        data = self.data.sample(indices) if self.is_blocked else self.data[indices]
        if isinstance(data, RowBlocks):
            return replace(self, data=data)
        if self.features is not None:
            plain = replace(self, data=data, offset=None, scale=1.0)
            return replace(plain.stored(), offset=self.offset, scale=self.scale)
        return replace(self, data=data if sparse.issparse(data) else np.ascontiguousarray(data))

    def part(self, indices: np.ndarray) -> Rows:
        """The chosen rows, where these rows are: in memory, or to be read block by block."""
        if len(indices) == self.shape[0]:
            return self
        return replace(self, data=part_of(self.data, indices))


def part_of(X, indices: np.ndarray):
    """Chosen rows of X (rising indices): in memory, or as blocks where X is in blocks."""
    return X.part(indices) if isinstance(X, RowBlocks) else X[indices]


def is_sparse(X) -> bool:
    """Whether rows are CSR rows, in memory or in blocks."""
    return X.is_sparse if isinstance(X, RowBlocks) else sparse.issparse(X)


def _csr_view(X, start: int, stop: int) -> sparse.csr_matrix:
    """Rows of a CSR matrix without copying them."""
    first, last = X.indptr[start], X.indptr[stop]
    view = sparse.csr_matrix((stop - start, X.shape[1]), dtype=X.dtype)
    view.data, view.indices = X.data[first:last], X.indices[first:last]
    view.indptr = X.indptr[start : stop + 1] - first
    return view


@dataclass(frozen=True)
class DenseTile:
    """Rows of Z in memory."""

    values: np.ndarray

    def scores(self, columns: np.ndarray) -> np.ndarray:
        """``Z @ columns`` for columns of shape (r, m)."""
        return self.values @ columns

    def weighted_sum(self, codes: np.ndarray) -> np.ndarray:
        """``codes' Z`` for codes of shape (rows, m), as (m, r)."""
        return codes.astype(self.values.dtype, copy=False).T @ self.values


@dataclass(frozen=True)
class CsrTile:
    """A range of CSR rows, centred in the products: X is never made dense."""

    rows: Rows
    start: int
    stop: int

    @property
    def values(self) -> np.ndarray:
        """The rows of Z made dense after all: for few columns."""
        rows = self.rows
        dense = rows.data[self.start : self.stop].toarray()
        offset = 0.0 if rows.offset is None else rows.offset
        return ((dense - offset) * rows.scale).astype(rows.dtype, copy=False)

    def scores(self, columns: np.ndarray) -> np.ndarray:
        """``Z @ columns`` for columns of shape (r, m)."""
        rows, data = self.rows, self.rows.data
        out = np.empty((self.stop - self.start, columns.shape[1]), rows.dtype)
        csr_scores(data.data, data.indices, data.indptr, self.start, self.stop, columns, out)
        if rows.offset is not None:
            out -= rows.offset @ columns
        return out * rows.dtype.type(rows.scale)

    def weighted_sum(self, codes: np.ndarray) -> np.ndarray:
        """``codes' Z`` for codes of shape (rows, m), as (m, r)."""
        rows, data = self.rows, self.rows.data
        codes = codes.astype(rows.dtype, copy=False)
        out = np.zeros((rows.shape[1], codes.shape[1]), rows.dtype)
        csr_weighted_sum(data.data, data.indices, data.indptr, self.start, self.stop, codes, out)
        if rows.offset is not None:
            out -= np.outer(rows.offset, codes.sum(axis=0))
        return out.T * rows.dtype.type(rows.scale)


# -- blocks ------------------------------------------------------------------------------


def tiles_of(n_rows: int) -> Iterator[tuple[int, int]]:
    """Bounds of the tiles of a block."""
    return ((i, min(i + TILE, n_rows)) for i in range(0, n_rows, TILE))


def blocks_of(n_rows: int) -> list[tuple[int, int]]:
    """Bounds of the blocks of all rows."""
    return [(i, min(i + BLOCK, n_rows)) for i in range(0, n_rows, BLOCK)]


def over_blocks(n_rows: int, work: Callable, n_jobs: int = 1) -> list:
    """Call ``work(start, stop)`` on fixed blocks of rows; return the results in order.

    The blocks do not depend on ``n_jobs``: only who works on them does.

    Examples
    --------
    >>> over_blocks(20_000, lambda start, stop: stop - start)
    [16384, 3616]
    """
    return list(each_block(n_rows, work, n_jobs))


def each_block(n_rows: int, work: Callable, n_jobs: int = 1) -> Iterator:
    """:func:`over_blocks` for results that are added up: few of them wait for their turn.

    Nothing happens before the first result is asked for.
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


def run(
    rows: Rows, kernel: Callable, shared: tuple = (), columns: tuple = (), made: tuple = ()
) -> tuple[tuple, Iterator]:
    """One pass: a kernel on every block, wherever the blocks are.

    Parameters
    ----------
    rows : Rows
    kernel : callable
        ``kernel(block, parts, *shared) -> (new_parts, sums)`` for a block of rows in memory and the
        parts of the columns that belong to it; a function of a module, so that it can travel.
    shared : tuple
        Arguments that are the same for all blocks.
    columns : tuple of arrays with an entry for each row
        An array, or what an earlier pass made.
    made : tuple of dtypes
        Of the columns that the kernel makes.

    Returns
    -------
    columns : tuple
        What the kernel made. They stay where the blocks are.
    sums : iterator
        The sums of every block, in order. The pass is over when it is exhausted.
    """
    if rows.is_blocked and rows.data.is_remote:
        return rows.data.run(rows, kernel, shared, columns, len(made))
    out = tuple(np.empty(rows.shape[0], dtype) for dtype in made)

    def work(start, stop):
        parts = tuple(part_of_column(c, start, stop) for c in columns)
        new, sums = kernel(rows.block(start, stop), parts, *shared)
        for column, values in zip(out, new):
            column[start:stop] = values
        return sums

    return out, each_block(rows.shape[0], work, rows.n_jobs)


def part_of_column(column, start: int, stop: int) -> np.ndarray:
    """Entries of some rows; a column of one repeated value takes no memory before."""
    part = column[start:stop]
    return np.ascontiguousarray(part) if part.strides[0] == 0 else part


def repeated(value, n: int) -> np.ndarray:
    """A column of one value for all rows, without memory for it.

    Examples
    --------
    >>> repeated(np.int8(-1), 4)
    array([-1, -1, -1, -1], dtype=int8)
    """
    return np.broadcast_to(value, n)


def all_equal(column: np.ndarray) -> bool:
    """Whether a column is known to repeat one value."""
    return column.strides[0] == 0


# -- passes ------------------------------------------------------------------------------


def sweep(rows: Rows, weights: np.ndarray | None, rule: Callable):
    """One pass over the data with a rule that works on columns in memory.

    Parameters
    ----------
    rows : Rows
    weights : ndarray of shape (m, r) or None
        One row per score; None if the rule needs no scores.
    rule : callable
        ``rule(scores, where) -> (codes, sums)`` for the rows in the slice ``where``: ``codes`` is
        (rows, c) or None, ``sums`` an array (or number) that is added up over all tiles.

    Returns
    -------
    gathered : ndarray of shape (c, r) or None
        ``codes' Z`` over all rows, in float64.
    sums : ndarray or float
        The rule's sums.
    """
    if rows.is_blocked and rows.data.is_remote:
        return _sweep_apart(rows, weights, rule)
    columns = None if weights is None else np.ascontiguousarray(weights.T, dtype=rows.dtype)

    def work(start, stop):
        block = rows.block(start, stop)
        gathered, sums = None, 0.0
        for i, j in tiles_of(stop - start):
            tile = block.tile(i, j)
            tile_scores = None if columns is None else tile.scores(columns)
            codes, tile_sums = rule(tile_scores, slice(start + i, start + j))
            if codes is not None:
                part = tile.weighted_sum(codes).astype(np.float64, copy=False)
                gathered = part if gathered is None else gathered + part
            sums = sums + tile_sums
        return gathered, sums

    total, sums = None, 0.0
    for part, part_sums in each_block(rows.shape[0], work, rows.n_jobs):
        total = part if total is None else total + part
        sums = sums + part_sums
    return total, sums


def _sweep_apart(rows: Rows, weights, rule: Callable):
    """A pass over rows on other machines, with a rule that must be called here.

    Scores come here and codes go there, never the rows; the sums are added as in :func:`sweep`.
    """
    found = None if weights is None else scores(rows, weights).astype(rows.dtype, copy=False)
    kept: list[Any] = []
    sums = 0.0
    for start, stop in rows.data.blocks():
        block_sums = 0.0
        for i, j in tiles_of(stop - start):
            where = slice(start + i, start + j)
            codes, tile_sums = rule(None if found is None else found[where], where)
            kept.append(None if codes is None else np.array(codes))
            block_sums = block_sums + tile_sums
        sums = sums + block_sums
    if kept[0] is None:
        return None, sums
    return weighted_sum(rows, np.concatenate(kept)), sums


def scores(rows: Rows, weights: np.ndarray) -> np.ndarray:
    """``Z W'`` for all rows, (n, m) in float64."""
    out = np.empty((rows.shape[0], weights.shape[0]))
    start = 0
    for part in run(rows, score_block, (weights,))[1]:
        out[start : start + len(part)] = part
        start += len(part)
    return out


def score_block(block: Rows, _parts, weights):
    """Block kernel: scores."""
    columns = np.ascontiguousarray(weights.T, dtype=block.dtype)
    tiles = [block.tile(i, j).scores(columns) for i, j in tiles_of(block.shape[0])]
    return (), np.concatenate(tiles)


def weighted_sum(rows: Rows, codes: np.ndarray) -> np.ndarray:
    """``codes' Z`` for codes of shape (n, c) or (n,), as (c, r) in float64."""
    return added(run(rows, sum_block, (), (codes,))[1])


def sum_block(block: Rows, parts):
    """Block kernel: weighted sum of rows."""
    codes = parts[0] if parts[0].ndim == 2 else parts[0][:, None]
    tiles = (block.tile(i, j).weighted_sum(codes[i:j]) for i, j in tiles_of(block.shape[0]))
    return (), added(tile.astype(np.float64, copy=False) for tile in tiles)


def cluster_means(rows: Rows, labels, weights: np.ndarray, k: int) -> np.ndarray:
    """Weighted mean row of every cluster, (k, r); zeros for one without rows."""
    sums, sizes = 0.0, 0.0
    for part, part_sizes in run(rows, member_block, (k,), (labels, weights))[1]:
        sums, sizes = sums + part, sizes + part_sizes
    return sums / np.maximum(sizes, 1e-300)[:, None]


def member_block(block: Rows, parts, k: int):
    """Block kernel: weighted sum of the rows of every cluster, and their weight."""
    member = (parts[0][:, None] == np.arange(k)) * parts[1][:, None]
    return (), (sum_block(block, (member,))[1], member.sum(axis=0))


def weighted_gram(rows: Rows, weights: np.ndarray) -> np.ndarray:
    """``Z' diag(weights) Z`` in float64."""
    return added(run(rows, gram_block, (), (weights,))[1])


def gram_block(block: Rows, parts):
    """Block kernel: weighted products of columns."""
    if block.is_sparse:
        return (), _csr_gram(block, parts[0])
    total = np.zeros((block.shape[1],) * 2)
    for i, j in tiles_of(block.shape[0]):
        Z = block.tile(i, j).values
        total += (Z * parts[0][i:j, None].astype(Z.dtype)).T @ Z
    return (), total


def added(parts: Iterator):
    """Sum in order, without a zero to start from."""
    total = None
    for part in parts:
        total = part if total is None else total + part
    return total


def _csr_gram(rows: Rows, weights: np.ndarray) -> np.ndarray:
    data = rows.data.astype(np.float64)
    gram = (data.T @ data.multiply(weights[:, None]).tocsr()).toarray()
    if rows.offset is not None:
        # sum w (x - o)(x - o)' = X'WX - m o' - o m' + W o o'  with  m = X'w
        mass = data.T @ weights
        cross = np.outer(mass, rows.offset)
        gram += weights.sum() * np.outer(rows.offset, rows.offset) - cross - cross.T
    return gram * rows.scale**2
