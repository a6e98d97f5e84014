"""Clusterings of subsamples and their agreement.

Labels of resamples are arrays of shape (n_resamples, n) with -1 where a row was not drawn.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import combinations

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import adjusted_rand_score

from ._label_search import (
    GENTLE,
    SHAKES,
    LabelProblem,
    SearchSettings,
    random_labels,
    search_labels,
)
from ._links import repaired, search_with_links
from ._similarity import Similarity, project_out, scale_rows

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


def kept_cluster(labels: np.ndarray, resampled: np.ndarray, k: int) -> np.ndarray:
    """Whether each row kept its cluster in each resample; nan where it was not drawn.

    Examples
    --------
    >>> kept_cluster(np.array([0, 0, 1, 1]), np.array([[1, 1, 0, -1], [0, 1, 1, -1]]), 2)
    array([[ 1.,  1.,  1., nan],
           [ 1.,  0.,  1., nan]])
    """
    kept = np.full(resampled.shape, np.nan)
    for row, found in zip(kept, resampled):
        drawn = np.flatnonzero(found >= 0)
        row[drawn] = matched(labels[drawn], found[drawn], k) == labels[drawn]
    return kept


def resampled_labels(
    problem: LabelProblem,
    settings: SearchSettings,
    count: int,
    n_init: int = 4,
    given: np.ndarray | None = None,
    similarity: Callable[[np.ndarray], Similarity] | None = None,
    partition: Callable[[np.ndarray, LabelProblem], tuple[np.ndarray | None, bool]] | None = None,
) -> np.ndarray:
    """Labels of random parts of the rows.

    Parameters
    ----------
    problem, settings
    count : int
        Number of parts.
    n_init : int
        Random starts of each search.
    given : ndarray, optional
        Initial labels, if some labels are known.
    similarity : callable, optional
        Computes R of some of the rows. By default the submatrix of R is used, which depends on the
        other rows, so that the agreement is slightly too high, more so for few rows.
    partition : callable, optional
        Labels of some of the rows by another method, from which single rows are moved, and whether
        these labels are the result.
    """
    n = len(problem.known)
    resampled = np.full((count, n), -1)
    for row, part in zip(resampled, subsamples(n, count, settings.rng)):
        smaller = part_of(problem, part, None if similarity is None else similarity(part))
        labels, sure = (None, False) if partition is None else partition(part, smaller)
        if sure and labels is not None:
            row[part] = repaired(smaller, labels)
            continue
        if given is None:
            first_rounds = [0] * n_init + [SHAKES] * (n_init if problem.size_prior > 0 else 0)
            starts = [(random_labels(smaller, settings.rng), first) for first in first_rounds]
        else:
            starts = [(given[part], GENTLE)]
        starts += [] if labels is None else [(labels, SHAKES)]
        found = search_labels(smaller, starts, settings)
        row[part] = search_with_links(smaller, found, settings)[0].labels
    return resampled


def part_of(
    problem: LabelProblem, part: np.ndarray, similarity: Similarity | None = None
) -> LabelProblem:
    """The problem of some of the rows, on the R given or on their part of it, centred on them."""
    whole = problem.similarity
    if similarity is None:
        matrix = np.ascontiguousarray(whole.matrix[np.ix_(part, part)])
        weights, row_means = whole.weights[part], whole.row_means
        if row_means is not None:
            row_means, roots = row_means[part], np.sqrt(weights)
            q = roots / np.linalg.norm(roots)
            scale_rows(matrix, 1.0 / roots)
            project_out(matrix, q, (matrix @ q.astype(matrix.dtype)).astype(np.float64))
            scale_rows(matrix, roots)
        similarity = replace(whole, matrix=matrix, weights=weights, row_means=row_means)
    share = similarity.weights.sum() / whole.weights.sum()
    return replace(
        problem,
        similarity=similarity,
        targets=problem.targets * share,
        floor=problem.floor * share,
        known=problem.known[part],
        links=None if problem.links is None else problem.links.part(part),
    )
