r"""Confidence in the cluster of a row: clusterings of subsamples, calibration, and outliers.

A margin orders the rows of a cluster, but its value is not calibrated: a spurious cluster can have
wide margins, too. The probability of a row's own cluster is therefore the fraction of rows that
keep their cluster in clusterings of subsamples, fitted for each cluster by isotonic regression on
the leave-one-out margin; within each step of that curve it rises from the level below. The other
clusters share the rest by a softmax of their scores; its temperature is the maximum likelihood
estimate on the rows that changed their cluster.

An outlier is a row that is isolated, compared with its neighbours:

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

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment, minimize_scalar
from scipy.special import log_softmax
from sklearn.isotonic import isotonic_regression

from .._core.dedup import FitInput
from .._core.init import agreement
from .._core.model import Decided, Model, decisions, lead_of, margin_block
from .._core.rows import Block
from .._data.source import TILE, BlockResult, RowSource
from .._threads import by_strips, one_thread
from ._graph import MixedMap, is_by_distance, metric_distances, spacings
from ._settings import neighbour_count

COLDEST, HOTTEST = 1e-2, 1e2  # temperatures; scores are of the order of 1
AHEAD = 1e-6  # relative lead of a row's own cluster over equally probable ones
CENTRE, UPPER = 0.5, 0.9  # quantiles of log s that give location and scale, robust to 10 % noise
FENCE = 5.0  # in units of their difference
LEAST_SCALE, LEAST_SPACING = 0.05, 1e-3  # of log s; of the median spacing
ALIKE = 0.95  # adjusted Rand index of clusterings that count as the same
SHARE = 0.7  # of the rows in a resample: two of them have half of the rows in common


# -- subsamples ------------------------------------------------------------------------------------


class Resamples:
    """Calibration and stability of a fit, from subsamples that are clustered when first needed.

    A copy by pickle has the results, not the rows.
    """

    def __init__(self, compute: Callable[[], tuple[Any, float]], order: np.ndarray | None = None):
        self._compute: Callable[[], tuple[Any, float]] | None = compute
        self._order = order

    def renumbered(self, order: np.ndarray) -> Resamples:
        """Return the same with the clusters in this order."""
        assert self._compute is not None and self._order is None
        return Resamples(self._compute, order)

    def found(self) -> tuple[Any, float]:
        """Return the calibration and the stability."""
        compute = self._compute  # another thread may be here, too, and find the same
        if compute is not None:
            with one_thread():
                calibration, stability = compute()
            if self._order is not None:
                calibration = calibration.renumbered(self._order)
            self._found = calibration, stability
            self._compute = None
        return self._found

    def __getstate__(self) -> dict[str, Any]:
        return {"found": self.found()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._compute, self._found = None, tuple(state["found"])


def subsamples(n: int, count: int, rng: np.random.Generator, least: int = 1) -> list[np.ndarray]:
    """Random rows without replacement, sorted, ``count`` times; ``least`` is their least number."""
    size = max(int(SHARE * n), least)
    return [np.sort(rng.choice(n, size, replace=False)) for _ in range(count)]


def crossed(first: np.ndarray, second: np.ndarray, k: int) -> np.ndarray:
    """How many rows are in cluster a of the first and b of the second labelling, (k, k)."""
    return np.bincount(first * k + second, minlength=k * k).reshape(k, k)


def matched(reference: np.ndarray, labels: np.ndarray, k: int) -> np.ndarray:
    """Labels renamed so that they agree with the reference on as many rows as possible."""
    renamed: np.ndarray = linear_sum_assignment(-crossed(labels, reference, k))[1][labels]
    return renamed


def worst_overlap(first: np.ndarray, second: np.ndarray, k: int) -> float:
    """Least Jaccard index over the clusters, each beside its counterpart.

    A cluster with an index below 1/2 counts as dissolved (Hennig 2008).
    """
    common = crossed(first, second, k)
    either = common.sum(axis=1)[:, None] + common.sum(axis=0)[None, :] - common
    overlap = common / np.maximum(either, 1)
    return float(overlap[linear_sum_assignment(-overlap)].min())


def pair_agreement(resampled: Iterable[np.ndarray], k: int) -> np.ndarray:
    """Adjusted Rand index and worst overlap of every pair of resamples, (n_pairs, 2)."""
    found = []
    for a, b in combinations(resampled, 2):
        both = (a >= 0) & (b >= 0)
        found.append((agreement(a[both], b[both], k), worst_overlap(a[both], b[both], k)))
    return np.array(found).reshape(-1, 2)


def rematched(labels: np.ndarray, resampled: np.ndarray, k: int) -> np.ndarray:
    """Labels of the resamples, each renamed to agree with the labels; -1 where not drawn.

    Examples
    --------
    >>> rematched(np.array([0, 0, 1, 1]), np.array([[1, 1, 0, -1], [0, 1, 1, -1]]), 2)
    array([[ 0,  0,  1, -1],
           [ 0,  1,  1, -1]])
    """
    renamed = np.full(resampled.shape, -1)
    for row, found in zip(renamed, resampled):
        drawn = np.flatnonzero(found >= 0)
        row[drawn] = matched(labels[drawn], found[drawn], k)
    return renamed


@dataclass(frozen=True)
class Alternative:
    """A second clustering that the search found.

    Parameters
    ----------
    labels : ndarray of shape (n_samples,)
        Labels, matched to ``labels_``; -1 for rows that were not in the fit.
    agreement : float
        Adjusted Rand index with ``labels_``.
    shortfall : float
        Relative difference of its objective to the best.
    """

    labels: np.ndarray
    agreement: float
    shortfall: float


def alternative_clusterings(
    labels: np.ndarray, places: np.ndarray, others: list[tuple[float, np.ndarray]], k: int
) -> list[Alternative]:
    """Return the best of other clusterings that differs from the labels, if there is one.

    ``others`` are the shortfalls and labels of the fitted rows; ``places`` says which of them each
    row is, or -1.
    """
    rows = np.flatnonzero(places >= 0)
    for shortfall, other in others:
        mine, theirs = labels[rows], other[places[rows]]
        alike = agreement(mine, theirs, k)
        if alike < ALIKE:
            renamed = np.full(len(labels), -1)
            renamed[rows] = matched(mine, theirs, k)
            return [Alternative(renamed, alike, shortfall)]
    return []


# -- calibration -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Calibration:
    """For every cluster, its probability at rising margins; between them it is interpolated."""

    # margins, levels: a pair of arrays of the same length for each cluster, both rising
    margins: tuple[np.ndarray, ...]
    levels: tuple[np.ndarray, ...]
    temperature: float  # of the softmax of the other clusters
    held_out: np.ndarray  # (m, k): leave-one-out scores of the fitted rows

    def renumbered(self, order: np.ndarray) -> Calibration:
        """Return the calibration with the clusters in this order."""
        curves = [tuple(curve[i] for i in order) for curve in (self.margins, self.levels)]
        return Calibration(curves[0], curves[1], self.temperature, self.held_out[:, order])

    def of_scores(self, scores: np.ndarray, own: np.ndarray) -> np.ndarray:
        """Probabilities (n, k) of rows with these scores; ``own`` are the places of fitted rows."""
        held_out = np.where(own[:, None] >= 0, self.held_out[own], scores)
        return self.probabilities(held_out, decisions(scores)[0])

    def confidence(self, margins: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Probability of the clusters of rows with these margins in them."""
        out = np.zeros(len(labels))
        for cluster, (at, level) in enumerate(zip(self.margins, self.levels)):
            mine = np.flatnonzero(labels == cluster)
            out[mine] = np.interp(margins[mine], at, level)
        return out

    def probabilities(self, scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Probabilities (n, k) of all clusters; the largest is that of the labels."""
        rows, k = np.arange(len(labels)), scores.shape[1]
        own = self.confidence(lead_of(scores, labels), labels)
        if k == 1:
            return np.ones((len(labels), 1))
        others: np.ndarray = np.exp(_log_shares(scores, labels, self.temperature))
        # Mixed with equal shares as far as needed for none to exceed the row's own cluster.
        most, equal = own * (1.0 - 0.5 * AHEAD) / (1.0 - own), 1.0 / (k - 1)
        largest = others.max(axis=1)
        excess = np.maximum(largest - most, 0.0) / np.maximum(largest - equal, AHEAD)
        others += excess[:, None] * (equal - others)
        others *= (1.0 - own)[:, None]
        others[rows, labels] = own
        return others


def _log_shares(scores: np.ndarray, labels: np.ndarray, temperature: float) -> np.ndarray:
    """Logarithm of the softmax over all clusters but a row's own."""
    scaled = scores / temperature
    scaled[np.arange(len(labels)), labels] = -np.inf
    shares: np.ndarray = log_softmax(scaled, axis=1)
    return shares


def calibrate(scores: np.ndarray, labels: np.ndarray, resampled: np.ndarray) -> Calibration:
    """Return the calibration of leave-one-out scores (n, k) by the labels in subsamples.

    ``resampled`` (n_resamples, n) are in any numbering; -1 if a row was not drawn.
    """
    k = scores.shape[1]
    found = rematched(labels, resampled, k)
    drawn, kept = (found >= 0).sum(axis=0), (found == labels).sum(axis=0)
    margins = lead_of(scores, labels)
    curves = [_rising(margins, kept, drawn, labels == cluster) for cluster in range(k)]
    least = min((1.0 + AHEAD) / k, 1.0)  # the row's own cluster is the most probable one
    levels = tuple(np.maximum(level, least) for _, level in curves)
    moved = np.nonzero((found >= 0) & (found != labels))
    temperature = _temperature(scores[moved[1]], labels[moved[1]], found[moved])
    return Calibration(tuple(at for at, _ in curves), levels, temperature, scores)


def _rising(
    margins: np.ndarray, kept: np.ndarray, drawn: np.ndarray, mine: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Distinct margins of some rows, and a rising curve close to the fractions kept."""
    used = np.flatnonzero(mine & (drawn > 0))
    if len(used) == 0:
        return np.zeros(1), np.zeros(1)
    at, place = np.unique(margins[used], return_inverse=True)
    times = np.bincount(place, drawn[used]).astype(np.float64)
    successes = np.bincount(place, kept[used]).astype(np.float64)
    level = isotonic_regression(successes / times, sample_weight=times, y_min=0.0, y_max=1.0)
    level = _within_steps(level, times)
    if at[0] > 0.0:  # at a margin of zero another cluster is as probable
        return np.append(0.0, at), np.append(min(0.5, level[0]), level)
    return at, level


def _within_steps(level: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Levels that rise within each step, from that of the step below.

    The level below counts as one observation beside those at smaller margins in the same step, so
    that the rows of a cluster that never changed are ordered by their margins, too.

    Examples
    --------
    >>> _within_steps(np.array([1.0, 1.0, 1.0]), np.array([4.0, 5.0, 10.0]))
    array([0.9  , 0.95 , 0.975])
    """
    step = np.cumsum(np.append(0, np.diff(level) > 0))
    first = np.flatnonzero(np.diff(step, prepend=-1))
    below = np.append(min(0.5, level[0]), level[first[1:] - 1])[step]
    seen = np.cumsum(times) - (np.cumsum(times) - times)[first][step]
    return np.asarray(level - (level - below) / (seen + 1.0))


def _temperature(scores: np.ndarray, labels: np.ndarray, found: np.ndarray) -> float:
    """Most likely temperature of rows that went from these labels to those found."""
    if len(labels) == 0 or scores.shape[1] < 3:
        return 1.0

    def loss(logarithm: float) -> float:
        shares = _log_shares(scores, labels, np.exp(logarithm))
        return float(-shares[np.arange(len(found)), found].mean())

    bounds = np.log(COLDEST), np.log(HOTTEST)
    return float(np.exp(minimize_scalar(loss, bounds=bounds, method="bounded").x))


# -- outliers --------------------------------------------------------------------------------------


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
        """Scores, p-values and places among the fitted rows, or -1, (n, 3) of raw rows."""
        found = []
        for rows in (X[i : i + TILE] for i in range(0, X.shape[0], TILE)):
            if self.has_neighbours_of(fmap):
                near = (tile := fmap.tile(rows)).neighbours()
                found.append((near, metric_distances(fmap, rows, near), tile.own))
            else:
                found.append((*spacings(fmap, rows, self.n_neighbors), fmap.own_places(rows)))
        return self.compared(*map(np.concatenate, zip(*found)))

    def has_neighbours_of(self, fmap: MixedMap) -> bool:
        """Whether the nearest fitted rows are those that the scores of the clusters depend on."""
        return is_by_distance(fmap) and self.n_neighbors == fmap.n_neighbors

    def compared(
        self, neighbours: np.ndarray, distances: np.ndarray, own: np.ndarray
    ) -> np.ndarray:
        """The same of rows whose nearest fitted rows, and distances to the last, are known."""
        scores = distances / lower_quartile(self.spacing[neighbours])
        scores = np.where(own >= 0, self.scores[own], scores)
        return np.column_stack([scores, self.p_values(scores, own >= 0), own])

    def p_values(self, scores: np.ndarray, fitted: np.ndarray | bool) -> np.ndarray:
        """Fraction of fitted rows, and the row itself, with scores as large."""
        new = np.where(fitted, 0.0, self.unit)
        count = self.above[np.searchsorted(self.reference, scores)]
        ranked = (count + new) / (self.above[0] + new)
        steps = (np.log(np.maximum(scores, 1e-300)) - self.centre) / self.scale
        # The exponential tail through both quantiles.
        tail = (1.0 - CENTRE) * ((1.0 - UPPER) / (1.0 - CENTRE)) ** np.maximum(steps, 0.0)
        return np.asarray(np.where(steps > FENCE, np.minimum(ranked, tail), ranked))

    def typicality(self, p_values: np.ndarray) -> np.ndarray:
        """1 for rows that are no outliers, falling to 0 with the p-value of the others."""
        return np.asarray(np.minimum(p_values, self.level) / self.level)


def fit_outliers(
    fmap: MixedMap,
    X: Any,
    weights: np.ndarray,
    n_clusters: int,
    level: float,
    n_jobs: int = 1,
    found: np.ndarray | None = None,
) -> Outliers:
    """Scores of the raw rows X, which are the landmarks of the map, each without itself.

    ``found`` are their nearest neighbours by distance, if a fit has found them.
    """
    m = X.shape[0]
    q = max(1, min(neighbour_count(m, n_clusters), m - 1))
    given = found if is_by_distance(fmap) and found is not None and found.shape[1] == q else None
    neighbours, spacing = np.zeros((m, q), np.int64) if given is None else given, np.ones(m)

    def strip(rows: slice) -> None:
        if given is None:
            neighbours[rows], spacing[rows] = spacings(fmap, X[rows], q, first=rows.start)
        else:
            spacing[rows] = metric_distances(fmap, X[rows], given[rows])

    by_strips(strip, m if m > 1 else 0, n_jobs)
    positive = spacing[spacing > 0]
    usual = float(np.median(positive)) if len(positive) else 1.0
    # More copies of a row than neighbours are counted have no spacing; few would look isolated.
    spacing = np.where(spacing > 0, np.maximum(spacing, LEAST_SPACING * usual), usual)
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


def scored_block(
    block: Block, _parts: Any, coef: np.ndarray, levels: np.ndarray, _paths: Any, outliers: Outliers
) -> BlockResult:
    """Block function: scores of the clusters, and the columns of ``Outliers.of_rows``."""
    columns, metric = block.send(coef.T), block.features.metric
    parts = []
    for where, tile in block.tiles():
        scores, neighbours = tile.scores_and_neighbours(columns)
        distances = metric_distances(metric, block.data[where], neighbours)
        parts.append((scores, neighbours, distances, tile.own))
    scores, *found = map(np.concatenate, zip(*parts))
    return (), np.hstack([scores.astype(np.float64) + levels, outliers.compared(*found)])


def outlier_block(block: Block, _parts: Any, *_model: Any, outliers: Outliers) -> BlockResult:
    """Block function: score, p-value and place among the fitted rows, or -1, of every row."""
    return (), outliers.of_rows(block.features.metric, block.data)


# -- rows in blocks --------------------------------------------------------------------------------


def probability_block(
    block: Block, parts: Any, *model: Any, calibration: Calibration
) -> BlockResult:
    """Block function: probabilities of the clusters, by leave-one-out scores of fitted rows."""
    scores = margin_block(block, parts, *model)[1]
    return (), calibration.of_scores(scores, block.features.metric.own_places(block.data))


def certainty_block(
    block: Block, parts: Any, coef: np.ndarray, levels: np.ndarray, paths: Any,
    calibration: Calibration, outliers: Outliers, with_scores: bool,
) -> BlockResult:  # fmt: skip
    """Block function: scores of the clusters if asked for, confidence, p-value as an outlier.

    The confidence is the largest probability, reduced for outliers.
    """
    model = coef, levels, paths
    if outliers.has_neighbours_of(block.features.metric):
        found = scored_block(block, parts, *model, outliers)[1]
        scores, (_, p_values, own) = found[:, :-3], found[:, -3:].T
    else:
        scores = margin_block(block, parts, *model)[1]
        _, p_values, own = outliers.of_rows(block.features.metric, block.data).T
    largest = calibration.of_scores(scores, own.astype(np.int64)).max(axis=1)
    columns = [largest * outliers.typicality(p_values), p_values]
    return (), np.column_stack([scores, *columns] if with_scores else columns)


def row_certainty(
    labels: np.ndarray, decided: Decided, rows: RowSource, data: FitInput, model: Model
) -> dict[str, np.ndarray]:
    """Return the attributes about outliers and confidence of rows in memory."""
    details, outliers = model.details, model.extras["_outliers"]
    own, chosen = details.places(data), data.source[details.chosen]
    first = model.features.metric.own_places(rows.take(chosen))  # of fitted rows that are equal
    own = np.where(own >= 0, first[own], -1)
    fitted, others = np.flatnonzero(own >= 0), np.flatnonzero(own < 0)
    scores, p_values = np.empty((2, len(own)))
    scores[fitted] = outliers.scores[own[fitted]]
    p_values[fitted] = outliers.p_values(scores[fitted], True)
    if len(others):  # some are equal to a fitted row
        if decided.further is None:
            part = model.features.rows(rows.sample(others), data.n_jobs)
            columns = np.concatenate(list(part.run(partial(outlier_block, outliers=outliers))[1]))
        else:
            columns = decided.further[others]
        scores[others], p_values[others], own[others] = columns.T
    found = {"outlier_score_": scores, "is_outlier_": p_values <= outliers.level}
    calibration = model.extras.get("_calibration")
    if calibration is None:
        return found
    typicality = outliers.typicality(p_values)
    if isinstance(calibration, Resamples):  # for the confidence, when it is first needed
        same = (own >= 0) & (labels == labels[chosen][own])
        margins = np.where(same, details.margins[own], decided.lead)
        return found | {"_certainty": (margins, typicality)}
    assert model.scores is not None  # they are probabilities
    return found | {"confidence_": model.scores[np.arange(len(labels)), labels] * typicality}
