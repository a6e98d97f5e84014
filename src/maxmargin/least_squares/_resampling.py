"""Clusterings of subsamples and their agreement.

Labels of resamples are arrays of shape (n_resamples, n) with -1 where a row was not drawn.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import adjusted_rand_score

from .._threads import one_thread

ALIKE = 0.95  # adjusted Rand index of clusterings that count as the same
SHARE = 0.7  # of the rows in a resample: two of them have half of the rows in common


class Resamples:
    """Calibration and stability of a fit, from subsamples that are clustered when first needed.

    A copy by pickle has the results, not the rows.

    Parameters
    ----------
    compute : callable
        Returns the calibration and the stability.
    order : ndarray of shape (k,), optional
        Order of the clusters, if they were renumbered.
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


def subsamples(
    n: int, count: int, rng: np.random.Generator, share: float = SHARE
) -> list[np.ndarray]:
    """Random rows without replacement, sorted, ``count`` times.

    Examples
    --------
    >>> rows = subsamples(10, 2, np.random.default_rng(0))
    >>> [len(r) for r in rows]
    [7, 7]
    """
    size = max(int(share * n), 1)
    return [np.sort(rng.choice(n, size, replace=False)) for _ in range(count)]


def crossed(first: np.ndarray, second: np.ndarray, k: int) -> np.ndarray:
    """How many rows are in cluster a of the first and b of the second labelling, (k, k)."""
    return np.bincount(first * k + second, minlength=k * k).reshape(k, k)


def matched(reference: np.ndarray, labels: np.ndarray, k: int) -> np.ndarray:
    """Labels renamed so that they agree with the reference on as many rows as possible.

    Examples
    --------
    >>> matched(np.array([0, 0, 1, 1]), np.array([1, 1, 1, 0]), 2)
    array([0, 0, 0, 1])
    """
    renamed: np.ndarray = linear_sum_assignment(-crossed(labels, reference, k))[1][labels]
    return renamed


def worst_overlap(first: np.ndarray, second: np.ndarray, k: int) -> float:
    """Least Jaccard index over the clusters, each beside its counterpart.

    A cluster with an index below 1/2 counts as dissolved (Hennig 2008).

    Examples
    --------
    >>> worst_overlap(np.array([0, 0, 1, 1]), np.array([1, 1, 0, 1]), 2)
    0.5
    """
    common = crossed(first, second, k)
    either = common.sum(axis=1)[:, None] + common.sum(axis=0)[None, :] - common
    overlap = common / np.maximum(either, 1)
    return float(overlap[linear_sum_assignment(-overlap)].min())


def pair_agreement(resampled: np.ndarray, k: int) -> np.ndarray:
    """Adjusted Rand index and worst overlap of every pair of resamples, (n_pairs, 2)."""
    found = []
    for a, b in combinations(resampled, 2):
        both = (a >= 0) & (b >= 0)
        found.append((adjusted_rand_score(a[both], b[both]), worst_overlap(a[both], b[both], k)))
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
        agreement = float(adjusted_rand_score(mine, theirs))
        if agreement < ALIKE:
            renamed = np.full(len(labels), -1)
            renamed[rows] = matched(mine, theirs, k)
            return [Alternative(renamed, agreement, shortfall)]
    return []
