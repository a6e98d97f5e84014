r"""Rows far from all fitted rows: how isolated a row is, compared with its neighbours.

.. math::
    s(x) = d_q(x) \,/\, \operatorname{quartile}_{j \in N_q(x)} d_q(x_j)

:math:`N_q` are the q nearest fitted rows other than the row itself and :math:`d_q` the distance to
the last of them, in the metric of the model: between the points of the Gaussian kernel (whitened if
the model whitens), else between the feature vectors of the kernel, :math:`|\phi(x) - \phi(x')|`.
The ratio treats wide and narrow clusters alike (as the local outlier factor of Breunig et al.
2000); the lower quartile, unlike a mean, is that of a cluster even if half of the neighbours are
outliers, too.

The p-value of a row is the fraction of fitted rows with a score at least as large (a conformal
p-value: of rows like the fitted ones, one in a hundred is below .01). Fitted rows that are far
beyond the others are no reference for it: those beyond a fence, which rows with an exponential tail
of log s would pass once in 6,000 times. Beyond the fence, the p-value is that of such a tail, so
that a few fitted rows are enough to tell a distant row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.metrics.pairwise import euclidean_distances

from .._core.features import kernel_diagonal, negative_squares
from .._core.rows import Block
from .._data.source import TILE, BlockResult
from .._threads import run_all
from ._graph import MixedMap
from ._numba import nearest
from ._similarity import STRIP

N_NEIGHBORS = 10
CENTRE, UPPER = 0.5, 0.9  # quantiles of log s that give location and scale, robust to 10 % noise
FENCE = 5.0  # in units of their difference
LEAST_SCALE = 0.05  # of log s
LEAST_SPACING = 1e-3  # of the median spacing


@dataclass(frozen=True)
class Outliers:
    """Scores of the fitted rows, which others are compared with."""

    n_neighbors: int
    level: float  # p-value from which on a row is no outlier
    spacing: np.ndarray  # (m,): d_q of each fitted row
    scores: np.ndarray  # (m,): s of each fitted row
    # reference, above: (r,) and (r + 1,): rising scores within the fence, and the weight of those
    # at least as large
    reference: np.ndarray
    above: np.ndarray
    unit: float  # weight of a new row
    # centre, scale: of log s
    centre: float
    scale: float

    def of_rows(self, fmap: MixedMap, X: Any) -> np.ndarray:
        """Scores and p-values (n, 2) of raw rows; fitted ones are compared with the others."""
        found = []
        for i in range(0, X.shape[0], TILE):
            tile = X[i : i + TILE]
            if self.has_neighbours_of(fmap):
                mapped = fmap.tile(tile)
                found.append(self.of_neighbours(fmap, tile, mapped.neighbours(), mapped.own))
                continue
            neighbours, distances = spacings(fmap, tile, self.n_neighbors)
            found.append(self._compared(neighbours, distances, fmap.own_places(tile)))
        return np.concatenate(found)

    def of_neighbours(
        self, fmap: MixedMap, X: Any, neighbours: np.ndarray, own: np.ndarray
    ) -> np.ndarray:
        """The same of rows whose nearest fitted rows are known."""
        rows = X.toarray() if sparse.issparse(X) else X
        distances = _last_distances(fmap.kernels[0].points(rows), fmap.landmarks, neighbours)
        return self._compared(neighbours, distances, own)

    def has_neighbours_of(self, fmap: MixedMap) -> bool:
        """Whether the nearest fitted rows are those that the scores of the clusters depend on."""
        dense = fmap.kernels[0].kernel == "rbf" and not sparse.issparse(fmap.landmarks)
        return dense and self.n_neighbors == fmap.n_neighbors

    def _compared(
        self, neighbours: np.ndarray, distances: np.ndarray, own: np.ndarray
    ) -> np.ndarray:
        scores = distances / lower_quartile(self.spacing[neighbours])
        scores = np.where(own >= 0, self.scores[own], scores)
        return np.column_stack([scores, self.p_values(scores, own >= 0)])

    def p_values(self, scores: np.ndarray, fitted: np.ndarray) -> np.ndarray:
        """Fraction of fitted rows, and the row itself, with scores as large."""
        new = np.where(fitted, 0.0, self.unit)
        count = self.above[np.searchsorted(self.reference, scores)]
        ranked = (count + new) / (self.above[0] + new)
        steps = (np.log(np.maximum(scores, 1e-300)) - self.centre) / self.scale
        # The exponential tail through both quantiles.
        tail = (1.0 - CENTRE) * ((1.0 - UPPER) / (1.0 - CENTRE)) ** np.maximum(steps, 0.0)
        return np.where(steps > FENCE, np.minimum(ranked, tail), ranked)

    @property
    def fitted_flags(self) -> np.ndarray:
        """Whether each fitted row is an outlier."""
        return self.p_values(self.scores, np.ones(len(self.scores), bool)) <= self.level

    def typicality(self, p_values: np.ndarray) -> np.ndarray:
        """1 for rows that are no outliers, falling to 0 with the p-value of the others."""
        return np.minimum(p_values, self.level) / self.level


def fit_outliers(
    fmap: MixedMap, X: Any, weights: np.ndarray, n_clusters: int, level: float, n_jobs: int = 1
) -> Outliers:
    """Scores of the raw rows X, which are the landmarks of the map, each without itself."""
    m = X.shape[0]
    # More neighbours than a small cluster has rows would be in other clusters.
    q = max(1, min(N_NEIGHBORS, m // (3 * n_clusters), m - 1))
    neighbours, spacing = np.zeros((m, q), np.int64), np.ones(m)

    def strip(i: int) -> None:
        tile = slice(i, min(i + STRIP, m))
        neighbours[tile], spacing[tile] = spacings(fmap, X[tile], q, first=i)

    run_all(strip, range(0, m if m > 1 else 0, STRIP), n_jobs)
    positive = spacing[spacing > 0]
    usual = float(np.median(positive)) if len(positive) else 1.0
    spacing = np.maximum(spacing, LEAST_SPACING * usual)
    scores = spacing / lower_quartile(spacing[neighbours])
    order = np.argsort(scores)
    values = np.log(np.maximum(scores[order], 1e-300))
    held = np.cumsum(weights[order]) / weights.sum()
    centre, upper = (float(values[np.searchsorted(held, at - 1e-12)]) for at in (CENTRE, UPPER))
    scale = max(upper - centre, LEAST_SCALE)
    order = order[values <= centre + FENCE * scale]
    above = np.append(np.cumsum(weights[order][::-1])[::-1], 0.0)
    unit = float(weights.min())
    return Outliers(q, level, spacing, scores, scores[order], above, unit, centre, scale)


def lower_quartile(values: np.ndarray) -> np.ndarray:
    """An element of every row with a quarter of them below it."""
    quarter = values.shape[1] // 4
    return np.asarray(np.partition(values, quarter, axis=1)[:, quarter])


def spacings(fmap: MixedMap, X: Any, count: int, first: int = -1) -> tuple[np.ndarray, np.ndarray]:
    """Nearest fitted rows (n, count) of a tile of raw rows, and the distance to the last of them.

    ``first`` is the fitted row that the first row is (and so on), which is not its own neighbour.
    """
    kernel, neighbours = fmap.kernels[0], np.empty((X.shape[0], count), np.int64)
    X = X.toarray() if fmap.dense and sparse.issparse(X) else X
    if kernel.kernel != "rbf":
        return _kernel_spacings(fmap, X, neighbours, first)
    points, landmarks = kernel.points(X), kernel.landmarks
    if sparse.issparse(points):
        closeness = -euclidean_distances(points, landmarks, squared=True)
    else:
        points, landmarks = (side.astype(kernel.dtype, copy=False) for side in (points, landmarks))
        closeness = negative_squares(points, landmarks)
    nearest(closeness, first, neighbours)
    return neighbours, _last_distances(points, landmarks, neighbours)


def _last_distances(points: Any, landmarks: Any, neighbours: np.ndarray) -> np.ndarray:
    """Distances to the last of the neighbours, more precise than those of the search."""
    apart = points - landmarks[neighbours[:, -1]]
    squares = apart.multiply(apart) if sparse.issparse(apart) else apart * apart
    return np.sqrt(np.asarray(squares.sum(axis=1), np.float64).ravel())


def _kernel_spacings(
    fmap: MixedMap, X: Any, neighbours: np.ndarray, first: int
) -> tuple[np.ndarray, np.ndarray]:
    """The same in the feature space of the kernel."""
    kernel, rows = fmap.kernels[0], np.arange(len(neighbours))
    K = kernel.kernel_values(X).astype(np.float64)
    nearest(2.0 * K - fmap.diagonal, first, neighbours)
    last = neighbours[:, -1]
    if kernel.kernel != "precomputed":
        own = kernel_diagonal(kernel.points(X), kernel.kernel, kernel.params)
    elif first >= 0:
        own = fmap.diagonal[first + rows]
    else:
        # Not in the matrix: that of the nearest row, or more by the inequality of Cauchy-Schwarz.
        used = fmap.diagonal > 1e-12 * fmap.diagonal.max()
        least = (K[:, used] ** 2 / fmap.diagonal[used]).max(axis=1, initial=0.0)
        own = np.maximum(fmap.diagonal[neighbours[:, 0]], least)
    squares = own + fmap.diagonal[last] - 2.0 * K[rows, last]
    return neighbours, np.sqrt(np.maximum(squares, 0.0))


def scored_block(
    block: Block, _parts: Any, coef: np.ndarray, levels: np.ndarray, _paths: Any, outliers: Outliers
) -> BlockResult:
    """Block function: scores of the clusters, score as an outlier and p-value, in one search."""
    columns, metric = block.send(coef.T), block.features.metric
    parts = []
    for where, tile in block.tiles():
        scores, neighbours = tile.scores_and_neighbours(columns)
        isolated = outliers.of_neighbours(metric, block.data[where], neighbours, tile.own)
        parts.append(np.hstack([scores.astype(np.float64) + levels, isolated]))
    return (), np.concatenate(parts)


def outlier_block(block: Block, _parts: Any, *_model: Any, outliers: Outliers) -> BlockResult:
    """Block function: score and p-value of every row."""
    return (), outliers.of_rows(block.features.metric, block.data)
