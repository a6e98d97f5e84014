r"""Initial labels, and labels whose objective a fit must not exceed.

Initial labels come from k-means, and from single moves on a tempered, whitened between-cluster
scatter.

For rows Z of unit mean square and their second moment C, the points
:math:`\Phi = Z (C + \lambda)^{-1/2}` make every direction that the regulariser allows count alike.
Labels are sought that raise

.. math::
    J_p = \sum_h \Big| \sum_{i \in h} v_i \phi_i \Big|^2 / n_h^p

by moves of single rows. p = 1 is indifferent to the sizes of the clusters, p = 0 asks for even
ones; three values in between are tried, since no one of them is best on all data.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from .._data.source import all_equal
from .._threads import in_order
from ._numba import fill_clusters, tempered_ascent
from .dedup import FitInput
from .descent import CONVERGED, MAX_ITER, STALLED
from .lapack import eigh
from .model import Model, label_block
from .rows import Rows, cluster_means, scores

RIDGES = (0.01, 0.001)
POWERS = (0.5, 0.25, 0.75)
N_STARTS, N_SEEDED = 15, 6  # the k-means partition, then seeded as in k-means++, the rest random
N_KICKS, N_KEPT = 4, 3  # kicks of the best labels, and distinct labels kept, for each power
RANK = 100  # most components that the points have
ROUNDS = 50
KMEANS_ROWS = 2000  # that k-means sees; the other rows go to the nearest centre
KMEANS_RUNS = 2


def kmeans(
    X: Any,
    n_clusters: int,
    rng: np.random.Generator | int,
    weights: np.ndarray | None = None,
    n_init: int = 10,
) -> tuple[np.ndarray, np.ndarray]:
    """Labels and centres of the best of ``n_init`` runs of k-means.

    Its warning about few distinct rows is harmless here.

    Examples
    --------
    >>> X = np.array([[0.0], [0.1], [5.0], [5.1]])
    >>> labels, _ = kmeans(X, 2, np.random.default_rng(0))
    >>> bool(labels[0] == labels[1] != labels[2] == labels[3])
    True
    """
    seed = rng if isinstance(rng, int) else int(rng.integers(2**31 - 1))
    if X.shape[0] <= n_clusters:
        return np.arange(X.shape[0]), X
    # The scale of weights changes no partition; their products with squares can overflow.
    weights = None if weights is None else weights / weights.max()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = KMeans(n_clusters, n_init=n_init, random_state=seed)
        model.fit(X, sample_weight=weights)
    return model.labels_, model.cluster_centers_


def sampled_rows(known: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
    """Return about ``size`` random rows in order, and those of known label, at most as many.

    One row comes from each of ``size`` stretches: no permutation of all rows is made. Known rows
    come along because they name the clusters.

    Examples
    --------
    >>> sampled_rows(np.full(9, -1), 3, np.random.default_rng(0))
    array([1, 3, 6])
    """
    n = len(known)
    if size >= n:
        return np.arange(n)
    few = ((np.arange(size) + rng.random(size)) * (n / size)).astype(np.int64)
    few = few[np.diff(few, prepend=-1) > 0]
    if all_equal(known) and known[0] < 0:
        return few
    named_rows = np.flatnonzero(known >= 0)
    if len(named_rows) > size:
        at = ((np.arange(size) + 0.5) * (len(named_rows) / size)).astype(np.int64)
        named_rows = named_rows[at]
    return np.union1d(few, named_rows) if named_rows.size else few


def label_starts(
    rows: Rows,
    weights: np.ndarray,
    k: int,
    rng: np.random.Generator,
    *,
    known: np.ndarray,
    kmeans: np.ndarray,
    init: str = "auto",
    n_init: int | str = "auto",
    floor: float = 0.0,
) -> list[np.ndarray]:
    """Return distinct labels of large J_p, for two strengths of whitening and three powers p.

    The rows are few: they are brought to the host. ``n_init`` labels are improved for every
    strength of whitening. The search starts and the list ends with ``kmeans``, the k-means
    partition, unless ``init`` is "random", which has no other initial labels; "k-means" has no
    random ones. Labels that are ``known`` (not -1) stay, and no move leaves a cluster of a weight
    below ``floor``.

    Examples
    --------
    >>> Z = np.repeat([[-1.0, 0.0], [1.0, 0.0], [0.0, 1.0]], 5, axis=0)
    >>> found = label_starts(Rows(Z - Z.mean(axis=0)), np.ones(15), 3, np.random.default_rng(0),
    ...                      known=np.full(15, -1), kmeans=np.arange(15) % 3)
    >>> [len(np.unique(labels[5 * i : 5 * i + 5])) for labels in found[:1] for i in range(3)]
    [1, 1, 1]
    """
    n, share = len(weights), weights / weights.sum()
    points, spectrum = principal_points(rows, share)
    fixed = known >= 0
    found: dict[bytes, np.ndarray] = {}
    n_starts = N_STARTS if isinstance(n_init, str) else n_init
    n_seeded = {"k-means": n_starts, "random": 0}.get(init, N_SEEDED)
    first = [] if init == "random" else [kmeans]
    starts: list[np.ndarray] = []
    for ridge in RIDGES:
        phi = points / np.sqrt(spectrum + ridge)
        moved = phi * share[:, None]
        if not starts:  # the next ridge goes on from the labels of the last one
            starts = [named(labels, known, weights, k) for labels in first]
            for _ in range(min(n_seeded, n_starts - len(starts))):
                starts.append(named(seeded_labels(phi, share, k, rng), known, weights, k))
            while len(starts) < n_starts:
                starts.append(np.where(fixed, known, rng.permutation(n) % k))
        for power in POWERS:

            def improved(
                labels: np.ndarray, moved: np.ndarray = moved, power: float = power
            ) -> tuple[float, np.ndarray]:
                labels = labels.astype(np.int64)
                bound = floor * share.sum() / weights.sum()
                value = tempered_ascent(moved, share, fixed, labels, k, power, bound, ROUNDS)
                # Kicks go by numbers: equal partitions must have equal ones, whatever the rounding.
                return value, labels if fixed.any() else canonical(labels)

            pool = sorted(in_order(improved, starts, rows.n_jobs), key=lambda pair: -pair[0])
            kicks = [kicked(pool[0][1], fixed, k, rng) for _ in range(N_KICKS)]
            pool += in_order(improved, kicks, rows.n_jobs)
            pool.sort(key=lambda pair: -pair[0])
            starts = [labels for _, labels in pool[:n_starts]]
            kept = 0
            for at, (value, labels) in enumerate(pool):
                if at and value > pool[at - 1][0] * (1.0 - 1e-9):
                    continue  # the same labels by other numbers
                found.setdefault(canonical(labels).tobytes(), labels)
                kept += 1
                if kept == N_KEPT:
                    break
    return [*found.values(), *first]


def principal_points(rows: Rows, share: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows in their leading principal components, and the components' mean squares."""
    root = np.sqrt(share)
    wide = rows.is_sparse or rows.shape[1] > rows.shape[0]
    if wide:
        lam, vectors = eigh(row_products(rows) * np.outer(root, root))
    else:
        Z = rows.values().astype(np.float64, copy=False)
        weighted = Z * root[:, None]
        lam, vectors = eigh(weighted.T @ weighted)
    keep = np.flatnonzero(lam > 1e-9 * max(lam[-1], 1e-300))[::-1][:RANK]
    lam, vectors = lam[keep], vectors[:, keep]
    return vectors * np.sqrt(lam) / root[:, None] if wide else Z @ vectors, lam


def row_products(rows: Rows) -> np.ndarray:
    """Return Z Z' of few rows; CSR rows are not made dense."""
    if not rows.is_sparse:
        Z = rows.values().astype(np.float64, copy=False)
        return np.asarray(Z @ Z.T)
    X = rows.source.take(slice(None)).astype(np.float64)
    gram = (X @ X.T).toarray()
    if rows.offset is not None:
        cross = X @ rows.offset
        gram += float(rows.offset @ rows.offset) - cross[:, None] - cross[None, :]
    return np.asarray(gram * rows.scale**2)


def seeded_labels(
    points: np.ndarray, share: np.ndarray, k: int, rng: np.random.Generator
) -> np.ndarray:
    """Return the nearest of k rows drawn far from one another, as k-means++ draws them."""
    nearest = np.full(len(points), np.inf)
    labels = np.zeros(len(points), np.int64)
    for h in range(k):
        chances = share if h == 0 or not (nearest * share).any() else nearest * share
        at = np.searchsorted(np.cumsum(chances), rng.random() * chances.sum(), side="right")
        seed = points[min(int(at), len(points) - 1)]
        distance = ((points - seed) ** 2).sum(axis=1)
        labels = np.where(distance < nearest, h, labels)
        nearest = np.minimum(nearest, distance)
    return labels


def kicked(labels: np.ndarray, fixed: np.ndarray, k: int, rng: np.random.Generator) -> np.ndarray:
    """Merge two clusters and split a third one in their place; of only two, deal them out anew."""
    labels = labels.copy()
    a, b, c = rng.choice(k, 3, replace=False) if k > 2 else (0, 1, 0)
    labels[(labels == b) & ~fixed] = a
    rows = np.flatnonzero((labels == c) & ~fixed)
    labels[rows] = np.where(rng.random(len(rows)) < 0.5, b, c)
    return labels


def named(labels: np.ndarray, known: np.ndarray, weights: np.ndarray, k: int) -> np.ndarray:
    """Return the labels with the numbers that agree best with known ones, which replace them.

    Examples
    --------
    >>> named(np.array([0, 0, 1, 1]), np.array([1, -1, -1, -1]), np.ones(4), 2)
    array([1, 1, 0, 0])
    """
    fixed = known >= 0
    if not fixed.any():
        return labels
    shared = np.zeros((k, k))
    np.add.at(shared, (labels[fixed], known[fixed]), weights[fixed])
    return np.where(fixed, known, linear_sum_assignment(-shared)[1][labels])


def canonical(labels: np.ndarray) -> np.ndarray:
    """Return the same partition with clusters numbered by their first row.

    Examples
    --------
    >>> canonical(np.array([2, 0, 2, 1]))
    array([0, 1, 0, 2])
    """
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse]


# -- labels to compare with ---------------------------------------------------------------------


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
    labels, _ = kmeans(points, k, rng, share, n_init)
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


def fit_with_known(fit_model: Callable[[FitInput], Model], data: FitInput, k: int) -> Model:
    """Return the model of the lowest objective with known labels, which so cannot do harm.

    The search that starts from the known labels is compared with one that starts from the clusters
    found without them, renumbered to agree with them. With k < 2 there is no comparison.
    """
    rng = deepcopy(data.rng)  # of a fit without known labels
    model = fit_model(data)
    named_rows = data.known >= 0
    ended = model.stop_reason not in (CONVERGED, STALLED, MAX_ITER)  # there is no more time
    if k < 2 or ended or data.initial is not None or named_rows.all() or not named_rows.any():
        return model
    unknown = np.broadcast_to(np.int64(-1), len(data.known))
    free = fit_model(replace(data, known=unknown, rng=rng)).in_raw_rows()
    blocks = free.features.rows(data.X, data.n_jobs).run(label_block, free.shared())[1]
    labels = np.concatenate(list(blocks)).astype(np.int64)
    other = fit_model(replace(data, initial=named(labels, data.known, data.weights, k)))
    return other if other.objective < model.objective else model


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
    cells = first.astype(np.int64) * k + second  # labels of one byte would overflow
    common = np.bincount(cells, minlength=k * k).reshape(k, k).astype(np.float64)
    rows, columns, n = common.sum(axis=1), common.sum(axis=0), float(len(first))
    together = float((common * (common - 1)).sum())
    one, other = float((rows * (rows - 1)).sum()), float((columns * (columns - 1)).sum())
    pairs, expected = n * (n - 1), one * other  # times the number of pairs: integers are exact
    most = 0.5 * (one + other) * pairs
    return (together * pairs - expected) / (most - expected) if most > expected else 1.0
