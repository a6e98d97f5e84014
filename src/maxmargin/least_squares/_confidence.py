"""Probabilities of the clusters of a row, from its scores and the clusterings of subsamples.

A margin orders the rows of a cluster, but its value is not calibrated: a spurious cluster can have
wide margins, too. The probability of a row's own cluster is therefore the fraction of rows that
keep their cluster in the subsamples, fitted for each cluster by isotonic regression on the
leave-one-out margin; within each step of that curve it rises from the level below. The other
clusters share the rest by a softmax of their scores; its temperature is the maximum likelihood
estimate on the rows that changed their cluster.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax
from sklearn.isotonic import isotonic_regression

from .._core.dedup import FitInput
from .._core.model import Decided, Model, decisions, lead_of, margin_block
from .._core.rows import Block
from .._data.source import BlockResult, RowSource
from ._outliers import Outliers, outlier_block, scored_block
from ._resampling import Resamples, rematched

COLDEST, HOTTEST = 1e-2, 1e2  # temperatures; scores are of the order of 1
AHEAD = 1e-6  # relative lead of a row's own cluster over equally probable ones


@dataclass(frozen=True)
class Calibration:
    """For every cluster, its probability at rising margins; between them it is interpolated.

    Attributes
    ----------
    margins, levels : tuple of ndarray
        One pair of arrays of the same length per cluster, both rising.
    temperature : float
        Of the softmax of the other clusters.
    held_out : ndarray of shape (m, k)
        Leave-one-out scores of the fitted rows.
    """

    margins: tuple[np.ndarray, ...]
    levels: tuple[np.ndarray, ...]
    temperature: float
    held_out: np.ndarray

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
        """Probabilities (n, k) of all clusters; the largest is that of the labels.

        Examples
        --------
        >>> held_out = np.zeros((1, 3))
        >>> model = Calibration((np.zeros(1),) * 3, (np.full(1, 0.4),) * 3, 0.5, held_out)
        >>> model.probabilities(np.array([[1.0, 0.5, 0.0]]), np.array([0])).round(2)
        array([[0.4, 0.4, 0.2]])
        """
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
    """Probabilities as a function of scores.

    Parameters
    ----------
    scores : ndarray of shape (n, k)
        Leave-one-out scores of each row.
    labels : ndarray of shape (n,)
    resampled : ndarray of shape (n_resamples, n)
        Labels of the same rows in the subsamples, in any numbering; -1 if a row was not drawn.

    Examples
    --------
    >>> labels = np.array([0, 0, 0, 1, 1, 1])
    >>> resampled = np.array([[0, 1, 0, 1, 1, 1], [1, 0, 1, 0, 0, 0]])
    >>> margins = np.array([0.9, 0.1, 0.8, 0.2, 0.9, 0.3])
    >>> scores = np.where(labels[:, None] == np.arange(2), margins[:, None], 0.0)
    >>> surer = calibrate(scores, labels, resampled)
    >>> surer.confidence(np.array([0.1, 0.9, 0.9]), np.array([0, 0, 1])).round(2)
    array([0.5 , 0.8 , 0.93])
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


def probability_block(
    block: Block, parts: Any, *model: Any, calibration: Calibration
) -> BlockResult:
    """Block function: probabilities of the clusters, by leave-one-out scores of fitted rows."""
    scores = margin_block(block, parts, *model)[1]
    return (), calibration.of_scores(scores, block.features.own_places(block.data))


def certainty_block(
    block: Block,
    parts: Any,
    *model: Any,
    calibration: Calibration,
    outliers: Outliers,
    with_scores: bool,
) -> BlockResult:
    """Block function: scores of the clusters if asked for, confidence, p-value as an outlier.

    The confidence is the largest probability, reduced for outliers.
    """
    if outliers.has_neighbours_of(block.features.metric):
        found = partial(scored_block, outliers=outliers)(block, parts, *model)[1]
        scores, p_values = found[:, :-2], found[:, -1]
    else:
        scores = margin_block(block, parts, *model)[1]
        p_values = outliers.of_rows(block.features.metric, block.data)[:, 1]
    largest = calibration.of_scores(scores, block.features.own_places(block.data)).max(axis=1)
    columns = [largest * outliers.typicality(p_values), p_values]
    return (), np.column_stack([scores, *columns] if with_scores else columns)


def row_certainty(
    labels: np.ndarray, decided: Decided, rows: RowSource, data: FitInput, model: Model
) -> dict[str, np.ndarray]:
    """Return the attributes about outliers and confidence of rows in memory."""
    details, outliers = model.details, model.extras["_outliers"]
    places = details.places(data)
    fitted = places >= 0
    scores = outliers.scores[places]
    p_values = outliers.p_values(scores, fitted)
    others = np.flatnonzero(~fitted)
    if len(others):
        if decided.further is None:
            part = model.features.rows(rows.sample(others), data.n_jobs)
            blocks = part.run(partial(outlier_block, outliers=outliers))[1]
            columns = np.concatenate(list(blocks))
        else:
            columns = decided.further[others]
        scores[others], p_values[others] = columns.T
    found = {"outlier_score_": scores, "is_outlier_": p_values <= outliers.level}
    calibration = model.extras.get("_calibration")
    if calibration is None:
        return found
    typicality = outliers.typicality(p_values)
    if isinstance(calibration, Resamples):  # for the confidence, when it is first needed
        margins = np.where(fitted, details.margins[places], decided.lead)
        return found | {"_certainty": (margins, typicality)}
    assert model.scores is not None  # they are probabilities
    return found | {"confidence_": model.scores[np.arange(len(labels)), labels] * typicality}
