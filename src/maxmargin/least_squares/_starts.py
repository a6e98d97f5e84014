"""Initial labels of a fit: random ones, those that known labels give, and other partitions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components, minimum_spanning_tree

from .._core.dedup import FitInput
from .._core.features import fit_features, mapped_rows, negative_squares
from .._core.init import held_labels, kmeans_partition
from .._core.rows import Rows
from .._data.source import MemoryRows
from .._threads import later, one_thread, run_all
from ._graph import MixedMap
from ._label_search import (
    SHAKES,
    LabelProblem,
    grown_labels,
    random_labels,
    supervised_labels,
)
from ._numba import joined_links, nearest
from ._similarity import STRIP

AUTO_STARTS, TEMPERED_STARTS = 10, 8
KMEANS_RANK = 100  # features of a kernel matrix that k-means works on
WIDEST_MIXTURE = 100  # columns
ROUNDS = 200  # of the mixture
SHRINKAGE = 0.05
SETTLED = 1e-6  # change of the mean log-likelihood
CORE, LINKED = 3, 10  # the neighbour that a row must reach, and neighbours that may be linked
LEAST, LEAST_ROWS = 0.2, 10  # rows of a group: share of n / k, and number
COVERED = 0.95  # share of the rows in the groups
TIE = 1e-6  # weight of the distance beside the reachability
EQUAL = 1e-10  # difference of squared distances that is rounding, as a share of the largest square


def random_starts(problem, s, rng) -> list[tuple[np.ndarray, int]]:
    """Return random labels, and the first round of shaking for each.

    Shaking leads most of them to the same clusters; with ``size_prior`` > 0, as many again are used
    without shaking, for diversity.
    """
    n_init = s.n_init
    if n_init == "auto":
        n_init = TEMPERED_STARTS if s.tempered else AUTO_STARTS
    starts = [(random_labels(problem, rng), 0) for _ in range(n_init)]
    if s.tempered:
        starts += [(random_labels(problem, rng), SHAKES) for _ in range(n_init)]
    return starts


def starts_from_known(problem, fmap, X, s) -> list[np.ndarray]:
    """Return initial labels that follow from the known ones."""
    starts = []
    if s.partial_start != "supervised":
        starts.append(grown_labels(problem))
    if s.partial_start != "grow":
        rows = np.flatnonzero(problem.known >= 0)
        if isinstance(fmap, MixedMap):
            fmap, X = fmap.kernels[0], X.toarray() if fmap.dense else X
        values = mapped_rows(fmap, X).values()
        K = values[:, rows] if fmap.projection is None else values @ values[rows].T
        starts.append(supervised_labels(K, rows, problem, s.ridge))
    return starts


def kmeans_rival(X, weights: np.ndarray, data: FitInput, s) -> Callable[[], Any]:
    """Return a function for rows and their k-means partition, which a thread begins to find."""
    rng = data.rng.spawn(1)[0]  # the search goes on as it would without

    def found() -> tuple[Rows, np.ndarray]:
        rows = Rows(X)
        with one_thread():
            if s.precomputed:
                rows = fit_features(
                    MemoryRows(X), weights, kernel="precomputed", params={},
                    n_components=KMEANS_RANK, rng=rng,
                )[1]  # fmt: skip
            return rows, kmeans_partition(rows, weights, s.n_clusters, rng)

    return later(found, data.n_jobs)


def rivals_of(rival, problem: LabelProblem, data: FitInput, chosen) -> list[np.ndarray]:
    """Return labels that the search must not be worse than: of k-means, and the initial ones."""
    weights, known = problem.similarity.weights, problem.known
    rows, labels = rival()
    found = [labels]
    if data.initial is not None:
        found.append(data.initial[chosen])
    held = (held_labels(rows, f, weights, known, problem.k, problem.floor) for f in found)
    return [labels.astype(np.int32) for labels in held]


def partitions_of(fmap, problem: LabelProblem, data: FitInput, s) -> list[np.ndarray]:
    """Return partitions of the points that kernels compare: k-means, and a mixture of scales."""
    points, weights, k = fmap.landmarks, problem.similarity.weights, s.n_clusters
    if s.precomputed or sparse.issparse(points):
        return []
    rows, rng, found = Rows(points), data.rng.spawn(1)[0], []
    if fmap.axes is not None:  # else the k-means partition is among the rivals
        found.append(kmeans_partition(rows, weights, k, rng))
    if points.shape[1] <= WIDEST_MIXTURE:
        start = found[-1] if found else kmeans_partition(rows, weights, k, rng)
        found.append(spread_clusters(points, start, weights, k)[0])
    held = (held_labels(rows, f, weights, problem.known, k, problem.floor) for f in found)
    return [labels.astype(np.int32) for labels in held]


def connected_of(fmap, problem: LabelProblem, s, n_jobs: int) -> np.ndarray | None:
    """Return clusters that are apart and connected within, if the rows are such."""
    points = fmap.landmarks
    if not s.connected or "rbf" not in s.kernels or sparse.issparse(points):
        return None
    if (problem.known >= 0).any():
        return None
    weights = problem.similarity.weights
    labels = connected_clusters(np.asarray(points, np.float64), weights, s.n_clusters, n_jobs)
    if labels is None or np.bincount(labels, weights).min() < problem.floor:
        return None
    return labels


def spread_clusters(
    X: np.ndarray, labels: np.ndarray, weights: np.ndarray, k: int
) -> tuple[np.ndarray, np.ndarray]:
    """Labels and squared scales s_h^2 (up to a common factor) of the mixture, by EM.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    labels : ndarray of shape (n,)
        Clusters to start from, none of them empty.
    weights : ndarray of shape (n,)

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(size=(300, 4)), 4.0 * rng.normal(size=(300, 4))])
    >>> labels, scales = spread_clusters(X, (X[:, 0] > 1).astype(int), np.ones(600), 2)
    >>> bool(scales.max() / scales.min() > 10)
    True
    """
    X = np.asarray(X, np.float64)
    # Scaled to about unit size by a power of two: exact, and squares do not overflow.
    X = np.ldexp(X, -int(np.frexp(np.abs(X).max(initial=1e-300))[1]))
    d = X.shape[1]
    share = weights / weights.sum()
    X = X - share @ X
    belongs = (labels[:, None] == np.arange(k)).astype(np.float64)
    scales, before = np.ones(k), -np.inf
    for _ in range(ROUNDS):
        mass = np.maximum(share @ belongs, 1e-12)
        means = (belongs * share[:, None]).T @ X / mass[:, None]
        whitened = _shape(X, means, belongs * share[:, None] / scales)
        Z, centres = X @ whitened, means @ whitened
        distances = (Z**2).sum(axis=1)[:, None] + (centres**2).sum(axis=1) - 2.0 * Z @ centres.T
        distances = np.maximum(distances, 0.0)
        scales = ((belongs * share[:, None] * distances).sum(axis=0) / mass / d).clip(1e-6)
        density = np.log(mass) - 0.5 * (distances / scales + d * np.log(scales))
        top = density.max(axis=1, keepdims=True)
        belongs = np.exp(density - top)
        total = belongs.sum(axis=1, keepdims=True)
        belongs /= total
        # The shape's own scale is common to all clusters.
        log_shape = np.linalg.slogdet(whitened)[1]
        value = float(share @ (top + np.log(total)).ravel() + log_shape)
        if value - before < SETTLED:
            break
        before = value
    return belongs.argmax(axis=1).astype(np.int32), scales


def _shape(X: np.ndarray, means: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Axes that whiten the common shape S, a little shrunk towards a multiple of I."""
    d = X.shape[1]
    # sum_ih c_ih (x_i - mu_h)(x_i - mu_h)' with mu_h the means of the weights c_h.
    total = X.T @ (X * codes.sum(axis=1)[:, None])
    S = total - (means.T * codes.sum(axis=0)) @ means
    # A difference below the rounding of the total is none.
    spread = max(np.trace(S) / d, 1e-12 * np.trace(total) / d, 1e-300)
    lam, V = np.linalg.eigh((1.0 - SHRINKAGE) * S + SHRINKAGE * spread * np.eye(d))
    axes: np.ndarray = V / np.sqrt(np.maximum(lam, SHRINKAGE * spread))
    return axes


# -- clusters that are apart and connected within, whatever their shape ---------------------------
#
# Single linkage of mutual reachability distances (Campello, Moulavi & Sander 2013): rows are joined
# in the order of max(distance, distance of either row to its third neighbour). If at some distance
# k large groups are apart and hold nearly all rows, they are the clusters. Overlapping clusters
# never pass: rows between them join the groups before the tails of the clusters do.


def connected_clusters(
    points: np.ndarray, weights: np.ndarray, k: int, n_jobs: int = 1
) -> np.ndarray | None:
    """Return the labels of k groups of rows that are apart, None if there are none.

    Examples
    --------
    >>> t = np.linspace(0.0, 6.28, 100)
    >>> ring = np.column_stack([np.cos(t), np.sin(t)])
    >>> labels = connected_clusters(np.concatenate([ring, 3.0 * ring]), np.ones(200), 2)
    >>> bool((labels[:100] == labels[0]).all() and (labels[100:] == 1 - labels[0]).all())
    True
    >>> connected_clusters(ring, np.ones(100), 2) is None
    True
    """
    n = len(points)
    # Numbers on a line have large gaps by chance.
    if n < LEAST_ROWS * k or k < 2 or points.shape[1] < 2:
        return None
    tree = _spanning_tree(*neighbours_of(points, min(LINKED, n - 1), n_jobs))
    least = float(weights.sum() * max(LEAST / k, LEAST_ROWS / n))  # of a group that is a cluster
    enough = COVERED * float(weights.sum())
    joined = joined_links(tree.row, tree.col, weights.astype(np.float64), k, least, enough)
    if joined < 0:
        return None
    links = sparse.coo_array((np.ones(joined), (tree.row[:joined], tree.col[:joined])), (n, n))
    groups = connected_components(links, directed=False)[1]
    large = np.flatnonzero(np.bincount(groups, weights) >= least)
    labels = np.full(groups.max() + 1, -1)
    labels[large] = np.arange(k)
    return _spread(labels[groups].astype(np.int32), tree)


def neighbours_of(points: np.ndarray, count: int, n_jobs: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Nearest other rows of each row, and their distances in rising order."""
    n = len(points)
    neighbours, squares = np.empty((n, count), np.int64), np.empty((n, count))
    # Distances that differ by rounding are equal: the order of the rows then decides, not BLAS.
    unit = EQUAL * max(float(np.einsum("ij,ij->i", points, points).max()), np.finfo(float).tiny)

    def strip(i: int) -> None:
        D = negative_squares(points[i : i + STRIP], points)
        D /= unit
        np.rint(D, out=D)
        D *= unit
        nearest(D, i, neighbours[i : i + STRIP])
        squares[i : i + STRIP] = -np.take_along_axis(D, neighbours[i : i + STRIP], axis=1)

    run_all(strip, range(0, n, STRIP), n_jobs)
    return neighbours, np.sqrt(np.maximum(squares, 0.0))


def _spanning_tree(neighbours: np.ndarray, distances: np.ndarray) -> sparse.coo_array:
    """Minimum spanning forest of the graph of neighbours, its links sorted by reachability."""
    n, count = neighbours.shape
    core = distances[:, min(CORE, count) - 1]
    rows, columns = np.repeat(np.arange(n), count), neighbours.ravel()
    reach = np.maximum(distances.ravel(), np.maximum(core[rows], core[columns]))
    # Many links have the same reachability: the shortest of them come first. Zero would be no link.
    reach = np.maximum(reach + TIE * distances.ravel(), np.finfo(float).tiny)
    # A matrix, unlike an array, has int32 indices, which old versions of scipy need here.
    graph = sparse.csr_matrix((reach, (rows, columns)), (n, n))
    tree = minimum_spanning_tree(graph.maximum(graph.T)).tocoo()
    order = np.argsort(tree.data, kind="stable")
    return sparse.coo_array((tree.data[order], (tree.row[order], tree.col[order])), (n, n))


def _spread(labels: np.ndarray, tree: sparse.coo_array) -> np.ndarray | None:
    """Give rows outside of the groups the label of the row that the tree links them to first."""
    while (labels < 0).any():
        a, b = labels[tree.row], labels[tree.col]
        at = np.flatnonzero((a < 0) != (b < 0))
        if len(at) == 0:
            return None  # a few rows that are linked to no group
        first = at[0]
        labels[tree.row[first] if a[first] < 0 else tree.col[first]] = max(a[first], b[first])
    return labels
