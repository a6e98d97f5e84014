"""Clusterings of subsamples and their agreement.

Labels of resamples are arrays of shape (n_resamples, n) with -1 where a row was not drawn.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import adjusted_rand_score

SHARE = 0.7  # of the rows in a resample: two of them have half of the rows in common


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
