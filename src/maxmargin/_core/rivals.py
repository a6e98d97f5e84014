"""Labels whose objective a fit must not exceed: the k-means partition, and initial labels."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ._numba import fill_clusters
from .init import kmeans_labels, named
from .rows import Rows, cluster_means, scores

KMEANS_ROWS = 2000  # that k-means sees; the other rows go to the nearest centre
KMEANS_RUNS = 2


def kmeans_partition(
    rows: Rows,
    weights: np.ndarray,
    k: int,
    rng: np.random.Generator,
    some: np.ndarray | None = None,
    n_init: int = KMEANS_RUNS,
) -> np.ndarray:
    """Return the k-means partition of the rows, found on ``some`` of them.

    By default k-means sees all rows, or ``KMEANS_ROWS`` random ones if there are more; the others
    go to the nearest centre.

    Examples
    --------
    >>> X = np.array([[0.0], [0.1], [5.0], [5.1]])
    >>> labels = kmeans_partition(Rows(X), np.ones(4), 2, np.random.default_rng(0))
    >>> bool(labels[0] == labels[1] != labels[2] == labels[3])
    True
    """
    n = len(weights)
    if some is None:
        some = np.arange(n)
        if n > KMEANS_ROWS:
            some = np.sort(rng.choice(n, max(KMEANS_ROWS, k), replace=False))
    few, share = rows, weights
    if len(some) < n:
        few, share = rows.take(some), np.asarray(weights[some])
    points = few.source.take(slice(None)) if few.is_sparse else few.values()
    labels = kmeans_labels(points, k, share, rng, n_init)
    if len(some) < n:
        labels = nearness(rows, cluster_means(few, labels, share, k)).argmax(axis=1)
    return labels


def nearness(rows: Rows, centres: np.ndarray) -> np.ndarray:
    """Return scores (n, k) that are largest for the nearest centre of each row."""
    # About the middle of the centres: rows may be far from the origin.
    middle = centres.mean(axis=0)
    offset = middle / (rows.scale or 1.0) + (0.0 if rows.offset is None else rows.offset)
    about = centres - middle
    found: np.ndarray = 2.0 * scores(replace(rows, offset=offset), about)
    found -= (about**2).sum(axis=1)
    return found


def held_labels(
    rows: Rows, labels: np.ndarray, weights: np.ndarray, known: np.ndarray, k: int, floor: float
) -> np.ndarray:
    """Return labels that agree with known ones and keep the size floor, changed where needed.

    Examples
    --------
    >>> X = np.array([[0.0], [0.1], [0.2], [5.0]])
    >>> held_labels(Rows(X), np.array([0, 0, 0, 1]), np.ones(4), np.full(4, -1), 2, 2.0)
    array([0, 0, 1, 1])
    """
    labels = named(labels, known, weights, k).astype(np.int64)
    if np.bincount(labels, weights, minlength=k).min() < floor:
        near = nearness(rows, cluster_means(rows, labels, weights, k)).astype(np.float64)
        # No row is nearer to another cluster than to its own: shortest paths need that.
        near[np.arange(len(labels)), labels] = near.max(axis=1)
        weights = np.ascontiguousarray(weights, dtype=np.float64)
        fill_clusters(np.ascontiguousarray(near), weights, known >= 0, floor, labels)
    return labels


def agreement(first: np.ndarray, second: np.ndarray, k: int) -> float:
    """Return the adjusted Rand index; scikit-learn's takes a millisecond for checks alone.

    Examples
    --------
    >>> labels = np.array([0, 0, 1, 1])
    >>> agreement(labels, 1 - labels, 2), round(agreement(labels, np.array([0, 1, 0, 1]), 2), 9)
    (1.0, -0.5)
    """
    common = np.bincount(first * k + second, minlength=k * k).reshape(k, k).astype(np.float64)
    rows, columns, n = common.sum(axis=1), common.sum(axis=0), float(len(first))
    together = float((common * (common - 1)).sum())
    one, other = float((rows * (rows - 1)).sum()), float((columns * (columns - 1)).sum())
    expected, most = one * other / max(n * (n - 1), 1.0), 0.5 * (one + other)
    return (together - expected) / (most - expected) if most > expected else 1.0
