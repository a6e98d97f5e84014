"""The one data pass: scores, a per-row rule, a weighted sum of rows.

Every method touches the data only through

    S = Z W' ;   A = rule(S) ;   G = A' Z

over tiles of rows. :class:`Rows` knows where Z lies (an array, a memory-mapped file, a CSR matrix)
and how it is centred; nothing else does. Tiles are fixed and their sums are added in order, so the
result has the same bits on any number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from ..kernels.sparse import csr_scores, csr_weighted_sum

# OpenBLAS changes kernel with the row count: with tiles of at most 1024 rows the last digits do not
# depend on how the rows are blocked.
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
    data : ndarray, memmap or csr_matrix of shape (n, r)
        The stored rows. CSR rows are centred implicitly and never made dense.
    offset : ndarray of shape (r,) or None
        Subtracted from every row.
    scale : float
        Multiplies every row.
    n_jobs : int
        Threads over blocks of tiles.
    features : callable or None
        Maps a tile of the data to rows of Z when it is read (then offset and scale are not used).

    Examples
    --------
    >>> import numpy as np
    >>> rows = Rows(np.array([[1.0, 2.0], [3.0, 4.0]]), offset=np.array([2.0, 3.0]))
    >>> scores(rows, np.array([[1.0, 1.0]])).ravel()
    array([-2.,  2.])
    """

    data: Any  # ndarray, memmap or csr_matrix
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
    def is_sparse(self) -> bool:
        """Whether the products run over CSR rows."""
        return self.features is None and sparse.issparse(self.data)

    @property
    def is_near(self) -> bool:
        """Whether the stored rows may be centred in the products: always so for CSR rows."""
        if self.features is not None:
            return False
        far = 0.0 if self.offset is None else float(np.linalg.norm(self.offset) * self.scale)
        return self.is_sparse or far <= FAR[self.data.dtype]

    def tile(self, start: int, stop: int) -> Any:
        """Rows ``start:stop`` of Z as a DenseTile or CsrTile, read once for all products."""
        if self.features is not None:
            return DenseTile(self.features.values(self.data[start:stop]))
        if self.is_sparse:
            return CsrTile(self, start, stop)
        values = np.ascontiguousarray(self.data[start:stop])
        if self.offset is not None:
            values = values - self.offset.astype(values.dtype, copy=False)
        if self.scale != 1.0:
            values = values * values.dtype.type(self.scale)
        return DenseTile(values)

    def stored(self) -> Rows:
        """The same rows of Z, centred and scaled once and for all (dense), or as they are (CSR)."""
        if self.is_sparse:
            return self
        tiles = [self.tile(i, j).values for i, j in _tiles(0, self.shape[0])]
        return Rows(np.concatenate(tiles), n_jobs=self.n_jobs)

    def take(self, indices: np.ndarray) -> Rows:
        """Return the chosen rows, in memory."""
        data = self.data[indices]
        return replace(self, data=data if sparse.issparse(data) else np.ascontiguousarray(data))


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


def _tiles(start: int, stop: int) -> Iterator[tuple[int, int]]:
    return ((i, min(i + TILE, stop)) for i in range(start, stop, TILE))


def over_blocks(n_rows: int, work: Callable, n_jobs: int = 1) -> list:
    """Call ``work(start, stop)`` on fixed blocks of rows and return the results in order.

    The blocks do not depend on ``n_jobs``: only who works on them does.

    Examples
    --------
    >>> over_blocks(20_000, lambda start, stop: stop - start)
    [16384, 3616]
    """
    bounds = [(i, min(i + BLOCK, n_rows)) for i in range(0, n_rows, BLOCK)]
    if n_jobs == 1 or len(bounds) == 1:
        return [work(*b) for b in bounds]
    with ThreadPoolExecutor(n_jobs) as pool:
        futures = [pool.submit(work, *b) for b in bounds]
        try:
            return [f.result() for f in futures]
        except BaseException:
            for f in futures:
                f.cancel()
            raise


def sweep(rows: Rows, weights: np.ndarray | None, rule: Callable):
    """One pass over the data.

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
    columns = None if weights is None else np.ascontiguousarray(weights.T, dtype=rows.dtype)

    def block(start, stop):
        gathered, sums = None, 0.0
        for i, j in _tiles(start, stop):
            tile = rows.tile(i, j)
            tile_scores = None if columns is None else tile.scores(columns)
            codes, tile_sums = rule(tile_scores, slice(i, j))
            if codes is not None:
                part = tile.weighted_sum(codes).astype(np.float64, copy=False)
                gathered = part if gathered is None else gathered + part
            sums = sums + tile_sums
        return gathered, sums

    parts = over_blocks(rows.shape[0], block, rows.n_jobs)
    total = None if parts[0][0] is None else sum(p[0] for p in parts)
    return total, sum(p[1] for p in parts)


def sweep_stored(rows: Rows, weights: np.ndarray, work: Callable):
    """One pass over rows that may be centred in the products, by compiled functions for blocks.

    ``work(columns, shift, where) -> (gathered, code_sums, sums)`` works on ``rows.data`` as it is:
    scores are ``data @ columns + shift``, ``gathered`` is the sum of codes times stored rows,
    (c, r), and ``code_sums`` that of the codes. Returns what :func:`sweep` does.
    """
    wide = weights.T * rows.scale
    offset = np.zeros(rows.shape[1]) if rows.offset is None else rows.offset
    columns = np.ascontiguousarray(wide, rows.dtype)
    shift = (-(offset @ wide)).astype(rows.dtype)

    def block(start, stop):
        return work(columns, shift, slice(start, stop))

    parts = over_blocks(rows.shape[0], block, rows.n_jobs)
    gathered, code_sums, sums = (sum(p[j] for p in parts) for j in range(3))
    return (gathered - np.outer(code_sums, offset)) * rows.scale, sums


def scores(rows: Rows, weights: np.ndarray) -> np.ndarray:
    """``Z W'`` for all rows, (n, m) in float64."""
    out = np.empty((rows.shape[0], weights.shape[0]))

    def keep(tile_scores, where):
        out[where] = tile_scores
        return None, 0.0

    sweep(rows, weights, keep)
    return out


def weighted_sum(rows: Rows, codes: np.ndarray) -> np.ndarray:
    """``codes' Z`` for codes of shape (n, c), as (c, r) in float64."""
    gathered, _ = sweep(rows, None, lambda _, where: (codes[where], 0.0))
    return gathered


def weighted_gram(rows: Rows, weights: np.ndarray) -> np.ndarray:
    """``Z' diag(weights) Z`` in float64."""
    if rows.is_sparse:
        return _csr_gram(rows, weights)

    def block(start, stop):
        total = np.zeros((rows.shape[1],) * 2)
        for i, j in _tiles(start, stop):
            Z = rows.tile(i, j).values
            total += (Z * weights[i:j, None].astype(Z.dtype)).T @ Z
        return total

    return sum(over_blocks(rows.shape[0], block, rows.n_jobs))


def _csr_gram(rows: Rows, weights: np.ndarray) -> np.ndarray:
    data = rows.data.astype(np.float64)
    gram = (data.T @ data.multiply(weights[:, None]).tocsr()).toarray()
    if rows.offset is not None:
        # sum w (x - o)(x - o)' = X'WX - m o' - o m' + W o o'  with  m = X'w
        mass = data.T @ weights
        cross = np.outer(mass, rows.offset)
        gram += weights.sum() * np.outer(rows.offset, rows.offset) - cross - cross.T
    return gram * rows.scale**2
