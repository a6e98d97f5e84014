"""Clusters that are apart and connected within, whatever their shape.

Single linkage of mutual reachability distances (Campello, Moulavi & Sander 2013): rows are joined
in the order of max(distance, distance of either row to its third neighbour). If at some distance
k large groups are apart and hold nearly all rows, they are the clusters. Overlapping clusters
never pass: rows between them join the groups before the tails of the clusters do. Smaller groups
and those on a line pass only if they are much farther apart than their rows.

In few columns, distances are first those of the rows around each row: a gap along a curve is
then shorter than one as wide between two curves.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components, minimum_spanning_tree
from sklearn.metrics import pairwise_distances_argmin_min

from .._core.kernels import negative_squares
from .._threads import by_strips
from ._numba import joined_links
from ._numba_kernel import nearest

CORE, LINKED = 3, 10  # the neighbour that a row must reach, and neighbours that may be linked
LEAST = 0.2  # rows of a group: share of n / k
COVERED = 0.95  # share of the rows in the groups
# Of small groups: share of the rows in all groups, and least ratio of the distance between groups
# to the largest reachability within them, on a line (where large gaps are common) and elsewhere.
NEARLY_ALL, FAR_ON_A_LINE, FAR = 0.98, 2.0, 1.5
TIE = 1e-6  # weight of the distance beside the reachability
EQUAL = 1e-10  # difference of squared distances that is rounding, as a share of the largest square
# Of local metrics: neighbours that may be linked, and rows that a covariance is estimated from.
REACHED, AROUND = 40, 15
FLATTEST = 0.1  # least local variance: share of the mean one
LOCAL_ROUNDS = 3


def connected_clusters(
    points: np.ndarray, weights: np.ndarray, k: int, n_jobs: int = 1, least_rows: int = 10
) -> np.ndarray | None:
    """Return the labels of k groups of rows that are apart, None if there are none.

    A group has at least ``least_rows`` rows.

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
    n, d = points.shape
    if n < least_rows * k or k < 2:
        return None
    # Not if a local covariance has more entries than rows, or is a number.
    is_local = d > 1 and d * (d + 1) / 2 < AROUND < n
    near = neighbours_of(points, min(REACHED if is_local else LINKED, n - 1), n_jobs)
    if is_local:
        labels = _groups_apart(
            _spanning_tree(*locally_scaled(points, *near)), weights, k, least_rows
        )
        if labels is not None:
            return labels
    tree = _spanning_tree(near[0][:, :LINKED], near[1][:, :LINKED])
    labels = _groups_apart(tree, weights, k, least_rows) if d > 1 else None
    if labels is None:
        labels = _small_groups_apart(points, tree, weights, k, least_rows)
    return labels


def _groups_apart(
    tree: sparse.coo_array, weights: np.ndarray, k: int, least_rows: int
) -> np.ndarray | None:
    """Return the labels of k large groups of rows that are apart at some distance, if any."""
    least, total = max(LEAST / k, least_rows / len(weights)), float(weights.sum())
    joined = joined_links(tree.row, tree.col, weights, k, least * total, COVERED * total)
    if joined < 0:
        return None
    return _spread(_largest_groups(tree, joined, weights, k), tree)


def _small_groups_apart(
    points: np.ndarray, tree: sparse.coo_array, weights: np.ndarray, k: int, least_rows: int
) -> np.ndarray | None:
    """Return the labels of k groups that are far apart, large or small, if any."""
    total = float(weights.sum())
    least, enough = total * least_rows / len(weights), NEARLY_ALL * total
    joined = joined_links(tree.row, tree.col, weights, k, least, enough)
    if joined < 0:
        return None
    labels = _largest_groups(tree, joined, weights, k)
    gap = min(
        pairwise_distances_argmin_min(points[labels == h], points[(labels >= 0) & (labels != h)])[
            1
        ].min()
        for h in range(k)
    )
    # The links that are short, whatever was rounded: the groups must be complete with them.
    reach = np.sqrt(tree.data[:joined] ** 2 + _rounding(points))
    short = reach * (FAR_ON_A_LINE if points.shape[1] == 1 else FAR) <= gap
    row, column = tree.row[:joined][short], tree.col[:joined][short]
    if joined_links(row, column, weights, k, least, enough) < len(row):
        return None
    return _spread(labels, tree)


def _largest_groups(tree: sparse.coo_array, joined: int, weights: np.ndarray, k: int) -> np.ndarray:
    """Return the labels of the k largest groups after so many links, -1 for other rows."""
    n = len(weights)
    links = sparse.coo_array((np.ones(joined), (tree.row[:joined], tree.col[:joined])), (n, n))
    groups = connected_components(links, directed=False)[1]
    # joined_links adds up the weights in another order, so that a sum may just miss its bound here.
    sizes = np.bincount(groups, weights)
    large = np.sort(np.argsort(-sizes, kind="stable")[:k])
    labels = np.full(len(sizes), -1)
    labels[large] = np.arange(k)
    return labels[groups].astype(np.int32)


def locally_scaled(
    points: np.ndarray, neighbours: np.ndarray, distances: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return these neighbours in the order of their distances in local metrics, and the distances.

    The metric of a row is the inverse covariance of the rows around it, scaled to determinant 1;
    the distance of two rows is the larger of those in their metrics. The rows around a row are its
    nearest in this distance, which a few rounds find.

    Examples
    --------
    >>> line = np.column_stack([np.arange(40.0), 0.01 * np.sin(np.arange(40.0))])
    >>> neighbours, distances = neighbours_of(line, 20)
    >>> closer = locally_scaled(line, neighbours, distances)[1]
    >>> bool((closer < distances).all())
    True
    """
    n, d = points.shape
    unit = float(distances.max())
    if unit == 0.0:
        return neighbours, distances
    steps = (points[neighbours] - points[:, None]) / unit
    order = np.broadcast_to(np.arange(neighbours.shape[1]), neighbours.shape)
    for _ in range(LOCAL_ROUNDS):
        around = np.take_along_axis(steps, order[:, :AROUND, None], axis=1)
        around = np.concatenate([np.zeros((n, 1, d)), around], axis=1)
        around -= around.mean(axis=1, keepdims=True)
        covariance = np.einsum("nai,naj->nij", around, around)
        trace = np.trace(covariance, axis1=1, axis2=2)
        covariance /= np.maximum(trace, np.finfo(float).tiny)[:, None, None] / d
        covariance += FLATTEST * np.eye(d)
        metric = np.linalg.inv(covariance) * np.linalg.det(covariance)[:, None, None] ** (1.0 / d)
        own = np.einsum("nai,nij,naj->na", steps, metric, steps)
        theirs = np.einsum("nai,naij,naj->na", steps, metric[neighbours], steps)
        squares = np.rint(np.maximum(own, theirs) / EQUAL)  # as in neighbours_of
        order = np.argsort(squares, axis=1, kind="stable")
    squares = np.take_along_axis(squares, order, axis=1)
    return np.take_along_axis(neighbours, order, axis=1), unit * np.sqrt(EQUAL * squares)


def neighbours_of(points: np.ndarray, count: int, n_jobs: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Nearest other rows of each row, and their distances in rising order."""
    n = len(points)
    neighbours, squares = np.empty((n, count), np.int64), np.empty((n, count))
    # Distances that differ by rounding are equal: the order of the rows then decides, not BLAS.
    unit = _rounding(points)

    def strip(rows: slice) -> None:
        D = negative_squares(points[rows], points)
        D /= unit
        np.rint(D, out=D)
        D *= unit
        nearest(D, rows.start, neighbours[rows])
        squares[rows] = -np.take_along_axis(D, neighbours[rows], axis=1)

    by_strips(strip, n, n_jobs)
    return neighbours, np.sqrt(np.maximum(squares, 0.0))


def _rounding(points: np.ndarray) -> float:
    """Return the unit to which squared distances are rounded."""
    largest = float(np.einsum("ij,ij->i", points, points).max())
    return EQUAL * max(largest, np.finfo(float).tiny)


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
