"""Rows of Z, and the passes over them that methods share.

Every method touches the data only through

    S = Z W' ;   A = rule(S) ;   G = A' Z

over blocks of rows (:mod:`maxmargin._data.source`). :class:`Rows` says which source the stored rows
come from and how Z is computed from them; a block function gets a :class:`Block`, rows in memory or
on a device with their array namespace ``xp``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import add
from typing import Any

import numpy as np
from scipy import sparse

from .._data.source import TILE, BlockFunc, BlockResult, Columns, MemoryRows, Pass, RowSource
from ._numba import csr_scores, csr_weighted_sum
from .lapack import eigh

# Centring in the products, x'w - o'w, loses precision if the offset is much larger than the rows.
FAR, FAR32 = 1e4, 10.0


@dataclass(frozen=True)
class Block:
    """Rows of ``Z = (features(data) - offset) * scale`` in memory or on a device."""

    data: Any = None  # stored rows; None in the recipe for all blocks of a pass
    offset: Any = None  # (r,)
    scale: float = 1.0
    features: Any = None  # maps stored rows; offset and scale apply to what it gives
    xp: Any = np  # array namespace of the rows
    n_jobs: int = 1  # threads of a pass over all blocks
    is_near: bool = True  # whether rows may be centred in the products; CSR rows always are
    dtype: Any = None  # floating type in which tiles are multiplied
    is_sparse: bool = False  # whether the products run over CSR rows

    def of(self, data: Any) -> Block:
        """Return the block of stored rows; ``replace`` takes several times as long."""
        block, stored = object.__new__(Block), data if self.features is None else self.features
        kind = {"dtype": stored.dtype, "is_sparse": sparse.issparse(stored)}
        block.__dict__.update(self.__dict__, data=data, **kind)
        return block

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of features."""
        width = self.data.shape[1] if self.features is None else self.features.rank
        return self.data.shape[0], width

    def send(self, array: Any, dtype: Any = None) -> Any:
        """Return an array of the host in the namespace and type of the rows."""
        kind = self.dtype if dtype is None else dtype
        if self.xp is np:
            return np.ascontiguousarray(array, kind)
        return self.xp.asarray(np.asarray(array), dtype=kind, device=self.data.device)

    def tiles(self) -> Iterator[tuple[slice, Any]]:
        """Yield the rows of Z tile by tile, each read once for all products."""
        xp, n = self.xp, self.data.shape[0]
        for i in range(0, n, TILE) if xp is np else (0,):
            where = slice(i, min(i + TILE, n) if xp is np else n)
            if self.is_sparse:
                yield where, CsrTile(self, where.start, where.stop)
                continue
            stored = self.data[where] if xp is np else self.data
            if hasattr(self.features, "tile"):
                yield where, self.features.tile(stored)
                continue
            if self.features is not None:
                values = self.features.values(stored, xp)
            else:
                values = np.ascontiguousarray(stored) if xp is np else stored
            if self.offset is not None:
                values = values - xp.asarray(self.offset, dtype=values.dtype)
            yield where, DenseTile(values if self.scale == 1.0 else values * self.scale, xp)

    def taken(self, rows: Any) -> Block:
        """Return the chosen rows."""
        return self.of(self.data[rows] if self.xp is np else self.xp.take(self.data, rows, axis=0))


@dataclass(frozen=True)
class DenseTile:
    """Rows of Z in memory, or on a device."""

    values: Any
    xp: Any = np

    def scores(self, columns: Any) -> Any:
        """Return ``Z @ columns`` for columns of shape (r, m)."""
        return self.values @ columns

    def weighted_sum(self, codes: Any) -> Any:
        """Return ``codes' Z`` for codes of shape (rows, m), as (m, r)."""
        return self.xp.asarray(codes, dtype=self.values.dtype).T @ self.values


@dataclass(frozen=True)
class CsrTile:
    """A range of CSR rows, centred in the products: X is never made dense."""

    block: Block
    start: int
    stop: int

    @property
    def values(self) -> Any:
        """The rows of Z made dense after all: for few columns."""
        block = self.block
        dense = block.data[self.start : self.stop].toarray()
        offset = 0.0 if block.offset is None else block.offset
        return ((dense - offset) * block.scale).astype(block.dtype, copy=False)

    def scores(self, columns: np.ndarray) -> Any:
        """Return ``Z @ columns`` for columns of shape (r, m)."""
        block, data = self.block, self.block.data
        out = np.empty((self.stop - self.start, columns.shape[1]), block.dtype)
        csr_scores(data.data, data.indices, data.indptr, self.start, self.stop, columns, out)
        if block.offset is not None:
            out -= block.offset @ columns
        return out * block.dtype.type(block.scale)

    def weighted_sum(self, codes: np.ndarray) -> Any:
        """Return ``codes' Z`` for codes of shape (rows, m), as (m, r)."""
        block, data = self.block, self.block.data
        codes = codes.astype(block.dtype, copy=False)
        out = np.zeros((block.shape[1], codes.shape[1]), block.dtype)
        csr_weighted_sum(data.data, data.indices, data.indptr, self.start, self.stop, codes, out)
        if block.offset is not None:
            out -= np.outer(block.offset, codes.sum(axis=0))
        return out.T * block.dtype.type(block.scale)


@dataclass(frozen=True)
class Rows:
    """All rows of ``Z = (features(source) - offset) * scale``.

    Examples
    --------
    >>> import numpy as np
    >>> rows = Rows(np.array([[1.0, 2.0], [3.0, 4.0]]), offset=np.array([2.0, 3.0]))
    >>> scores(rows, np.array([[1.0, 1.0]])).ravel()
    array([-2.,  2.])
    """

    # The stored rows. CSR rows are centred implicitly and never made dense.
    source: Any  # a RowSource once made
    offset: np.ndarray | None = None  # (r,): subtracted from every row
    scale: float = 1.0  # multiplies every row
    n_jobs: int = 1  # threads over blocks of rows
    # maps a tile of the stored rows when it is read; offset and scale apply to what it gives
    features: Any = None
    shape: tuple[int, int] = field(init=False)  # number of rows and of features
    dtype: np.dtype[Any] = field(init=False)  # floating type in which tiles are multiplied
    is_sparse: bool = field(init=False)  # whether the products run over CSR rows
    block: Block = field(init=False)  # how Z follows from stored rows

    def __post_init__(self) -> None:
        source, features = self.source, self.features
        source = source if isinstance(source, RowSource) else MemoryRows(source)
        n, width = source.shape
        near = features is None
        if near and not source.is_sparse and self.offset is not None:
            limit = FAR if source.dtype == np.float64 else FAR32
            near = float(np.linalg.norm(self.offset)) * self.scale <= limit
        found = {
            "source": source,
            "shape": (n, width if features is None else features.rank),
            "dtype": source.dtype if features is None else features.dtype,
            "is_sparse": features is None and source.is_sparse,
            "block": Block(None, self.offset, self.scale, features, np, self.n_jobs, near),
        }
        for name, value in found.items():
            object.__setattr__(self, name, value)

    def run(
        self, function: BlockFunc, shared: Columns = (), columns: Columns = (), made: Columns = ()
    ) -> Pass:
        """Call a block function on every block, on the machine that stores it.

        ``function(block, parts, *shared) -> (new_parts, sums)`` is a module-level function, so that
        it can be pickled; ``columns`` are arrays, or were made by an earlier pass; ``made`` are the
        dtypes of those that the function makes. Returns these, stored with the blocks, and an
        iterator of the sums of every block, in order. The pass is over when it is exhausted.
        """
        source: RowSource = self.source
        return source.run(function, self.block, shared, columns, made)

    def values(self) -> Any:
        """Return all rows of Z in one array of the host."""
        block = self.block.of(self.source.take(slice(None)))
        plain = self.features is None and self.offset is None and self.scale == 1.0
        if plain and not block.is_sparse:
            return block.data
        return np.concatenate([tile.values for _, tile in block.tiles()])

    def stored(self) -> Rows:
        """Return the same rows of Z, centred and scaled in memory if they are dense and there."""
        if self.is_sparse or not self.source.in_memory:
            return self
        return Rows(self.values(), n_jobs=self.n_jobs)

    def take(self, indices: np.ndarray) -> Rows:
        """Return the chosen rows, mapped, where several passes over them are fastest."""
        source = self.source.sample(indices)
        if self.features is None:
            return replace(self, source=source)
        return replace(self, source=source.mapped(self.features, self.n_jobs), features=None)

    def part(self, indices: np.ndarray) -> Rows:
        """Return the chosen rows (rising numbers) where these rows are stored."""
        if len(indices) == self.shape[0]:
            return self
        return replace(self, source=self.source.part(indices))


# -- passes ----------------------------------------------------------------------------------------


def concat(parts: list[Any], xp: Any, axis: int = 0) -> Any:
    """Return arrays in one; numpy has had the standard's name only since 2.0."""
    return np.concatenate(parts, axis=axis) if xp is np else xp.concat(parts, axis=axis)


def scores(rows: Rows, weights: np.ndarray) -> np.ndarray:
    """Return ``Z W'`` for all rows, (n, m) in float64."""
    out = np.empty((rows.shape[0], weights.shape[0]))
    start = 0
    for part in rows.run(score_block, (weights,))[1]:
        out[start : start + len(part)] = part
        start += len(part)
    return out


def score_block(block: Block, _parts: Any, weights: np.ndarray) -> BlockResult:
    """Block function: scores."""
    columns = block.send(weights.T)
    return (), concat([tile.scores(columns) for _, tile in block.tiles()], block.xp)


def weighted_sum(rows: Rows, codes: np.ndarray) -> np.ndarray:
    """Return ``codes' Z`` for codes of shape (n, c) or (n,), as (c, r) in float64."""
    return reduce(add, rows.run(sum_block, (), (codes,))[1])


def sum_block(block: Block, parts: Any) -> BlockResult:
    """Block function: weighted sum of rows."""
    codes = parts[0] if parts[0].ndim == 2 else parts[0][:, None]
    xp = block.xp
    tiles = (tile.weighted_sum(codes[where, :]) for where, tile in block.tiles())
    return (), reduce(add, (xp.asarray(tile, dtype=xp.float64) for tile in tiles))


def added(blocks: Iterator[Any]) -> Any:
    """Return the sums of several quantities over all blocks, in order."""
    return reduce(lambda total, block: tuple(map(add, total, block)), blocks)


def cluster_means(rows: Rows, labels: Any, weights: np.ndarray, k: int) -> np.ndarray:
    """Return the weighted mean row of every cluster, (k, r); zeros for one without rows."""
    sums, sizes = added(rows.run(member_block, (k,), (labels, weights))[1])
    return np.asarray(sums / np.maximum(sizes, 1e-300)[:, None])


def member_block(block: Block, parts: Any, k: int) -> BlockResult:
    """Block function: weighted sum of the rows of every cluster, and their weight."""
    labels, weights = parts
    xp = block.xp
    names = xp.arange(k, dtype=labels.dtype, device=labels.device) if xp is not np else np.arange(k)
    member = xp.where(labels[:, None] == names, weights[:, None], 0.0)
    return (), (sum_block(block, (member,))[1], xp.sum(member, axis=0))


def weighted_gram(rows: Rows, weights: np.ndarray) -> np.ndarray:
    """Return ``Z' diag(weights) Z`` in float64."""
    return reduce(add, rows.run(gram_block, (), (weights,))[1])


def gram_block(block: Block, parts: Any) -> BlockResult:
    """Block function: weighted products of columns."""
    weights = parts[0]
    if block.is_sparse:
        data = block.data.astype(np.float64)
        gram = (data.T @ data.multiply(weights[:, None]).tocsr()).toarray()
        if block.offset is not None:
            # sum w (x - o)(x - o)' = X'WX - m o' - o m' + W o o'  with  m = X'w
            cross = np.outer(data.T @ weights, block.offset)
            gram += weights.sum() * np.outer(block.offset, block.offset) - cross - cross.T
        return (), np.asarray(gram * block.scale**2)
    total = 0.0
    for where, tile in block.tiles():
        Z = tile.values
        weighted = Z * block.xp.asarray(weights[where, None], dtype=Z.dtype)
        total = total + block.xp.asarray(weighted.T @ Z, dtype=block.xp.float64)
    return (), total


# -- ridge regressions on one factorisation --------------------------------------------------------
#
#     min over w, b of   alpha/2 |w|^2 + sum_i share_i (y_i - w'z_i - b)^2
#
# with centred features (of others the result is only a start) and shares that add up to one. The
# spectrum of Z' diag(share) Z is computed once; it serves every alpha and labelling.


@dataclass(frozen=True)
class Factor:
    """Centred rows, their shares and the spectrum of their covariance."""

    rows: Rows
    shares: np.ndarray
    eigenvalues: np.ndarray
    eigenvectors: np.ndarray

    @property
    def noise(self) -> float:
        """Precision to which the eigenvalues are known."""
        return float(np.finfo(self.rows.dtype).eps * self.eigenvalues.max(initial=0.0))

    def ridge(self, right_sides: np.ndarray, shrinkage: float | np.ndarray) -> np.ndarray:
        """``right_sides (Z' diag(share) Z + shrinkage I)^-1``, a row and a shrinkage each."""
        V, lam = self.eigenvectors, self.eigenvalues
        # A smaller shrinkage would amplify rounding errors of the eigenvalues.
        shrinkage = np.reshape(np.maximum(shrinkage, self.noise), (-1, 1))
        return np.asarray(((right_sides @ V) / (lam + shrinkage)) @ V.T)


def factorise(rows: Rows, weights: np.ndarray) -> Factor:
    """Spectrum of the weighted covariance of centred rows."""
    shares = weights / weights.sum()
    lam, V = eigh(weighted_gram(rows, shares))
    return Factor(rows, shares, np.maximum(lam, 0.0), V)


def fit_squared(factor: Factor, targets: np.ndarray, alpha: float) -> tuple[np.ndarray, np.ndarray]:
    """LS-SVM with loss (f - y)^2 on each of m columns of targets: coefficients (m, r), biases (m,).

    Centred features keep the two apart.
    """
    codes = factor.shares[:, None] * targets
    return factor.ridge(weighted_sum(factor.rows, codes), 0.5 * alpha), codes.sum(axis=0)
