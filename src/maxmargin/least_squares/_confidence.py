"""Confidence in the cluster of a row, from its margin and the clusterings of subsamples.

A margin orders the rows of a cluster, but its value is not calibrated: a spurious cluster can have
wide margins, too. For each cluster, the fraction of rows that keep their cluster in the subsamples
is fitted by isotonic regression on the margin.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.isotonic import isotonic_regression

from ._resampling import kept_cluster


@dataclass(frozen=True)
class Calibration:
    """For every cluster, the confidence at rising margins; between them it is interpolated.

    Attributes
    ----------
    margins, levels : tuple of ndarray
        One pair of arrays of the same length per cluster, both rising.
    """

    margins: tuple[np.ndarray, ...]
    levels: tuple[np.ndarray, ...]

    def renumbered(self, order: np.ndarray) -> Calibration:
        """Return the calibration with the clusters in this order."""
        return Calibration(
            tuple(self.margins[i] for i in order), tuple(self.levels[i] for i in order)
        )

    def confidence(self, margins: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Confidence in [0, 1] of rows with these margins in these clusters."""
        out = np.zeros(len(labels))
        for cluster, (at, level) in enumerate(zip(self.margins, self.levels)):
            mine = np.flatnonzero(labels == cluster)
            out[mine] = np.interp(margins[mine], at, level)
        return out


def calibrate(
    margins: np.ndarray, labels: np.ndarray, resampled: np.ndarray, k: int
) -> Calibration:
    """Confidence as a function of cluster and margin.

    Parameters
    ----------
    margins : ndarray of shape (n,)
        Leave-one-out margin of each row.
    labels : ndarray of shape (n,)
    resampled : ndarray of shape (n_resamples, n)
        Labels of the same rows in the subsamples, in any numbering; -1 if a row was not drawn.
    k : int

    Examples
    --------
    >>> labels = np.array([0, 0, 0, 1, 1, 1])
    >>> resampled = np.array([[0, 1, 0, 1, 1, 1], [1, 0, 1, 0, 0, 0]])
    >>> surer = calibrate(np.array([0.9, 0.1, 0.8, 0.2, 0.9, 0.3]), labels, resampled, 2)
    >>> surer.confidence(np.array([0.1, 0.9, 0.9]), np.array([0, 0, 1])).round(2)
    array([0.17, 0.83, 0.83])
    """
    kept = kept_cluster(labels, resampled, k)
    drawn = np.isfinite(kept).sum(axis=0)
    share = np.nansum(kept, axis=0) / np.maximum(drawn, 1)
    curves = [_rising(margins, share, drawn, labels == cluster) for cluster in range(k)]
    # b subsamples cannot distinguish 1 from 1 - 1/b: Jeffreys' estimate of a proportion.
    b = len(resampled)
    levels = tuple((b * level + 0.5) / (b + 1.0) for _, level in curves)
    return Calibration(tuple(at for at, _ in curves), levels)


def _rising(
    margins: np.ndarray, share: np.ndarray, drawn: np.ndarray, mine: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Distinct margins of some rows and the rising curve nearest to their shares."""
    used = np.flatnonzero(mine & (drawn > 0))
    if len(used) == 0:
        return np.zeros(1), np.zeros(1)
    at, place = np.unique(margins[used], return_inverse=True)
    weight = np.bincount(place, drawn[used])
    mean = np.bincount(place, drawn[used] * share[used]) / weight
    level = isotonic_regression(mean, sample_weight=weight, y_min=0.0, y_max=1.0)
    # The ends of each step are enough.
    inner = np.zeros(len(at), bool)
    inner[1:-1] = (level[1:-1] == level[:-2]) & (level[1:-1] == level[2:])
    return at[~inner], level[~inner]
