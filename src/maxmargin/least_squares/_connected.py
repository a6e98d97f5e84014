"""Clusters that are apart and connected within, whatever their shape.

Single linkage of mutual reachability distances (Campello, Moulavi & Sander 2013): rows are joined
in the order of max(distance, distance of either row to its third neighbour). If at some distance k
large groups are apart and hold nearly all rows, they are the clusters. Overlapping clusters never
pass: rows between them join the groups before the tails of the clusters do.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components, minimum_spanning_tree

from .._core.features import negative_squares
from .._threads import run_all
from ._numba import nearest
from ._similarity import STRIP

CORE, LINKED = 3, 10  # the neighbour that a row must reach, and neighbours that may be linked
LEAST, LEAST_ROWS = 0.2, 10  # rows of a group: share of n / k, and number
COVERED = 0.95  # share of the rows in the groups
TIE = 1e-6  # weight of the distance beside the reachability
EQUAL = 1e-10  # difference of squared distances that is rounding, as a share of the largest square


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
    joined = _joined(tree, weights, k, least)
    if joined is None:
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


def _joined(tree: sparse.coo_array, weights: np.ndarray, k: int, least: float) -> int | None:
    """Number of the tree's links after which k groups of a ``least`` weight hold nearly all."""
    total = float(weights.sum())
    parent, size = list(range(len(weights))), weights.tolist()
    large, covered = sum(w >= least for w in size), sum(w for w in size if w >= least)
    found, complete = None, False

    def root(i: int) -> int:
        while parent[i] != i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        return i

    for at, (i, j) in enumerate(zip(tree.row.tolist(), tree.col.tolist())):
        a, b = root(i), root(j)
        before = [size[a] >= least, size[b] >= least]
        if all(before):
            found = at if complete else found
            large -= 1
        covered -= sum(s for s, counted in zip((size[a], size[b]), before) if counted)
        parent[b] = a
        size[a] += size[b]
        if size[a] >= least:
            covered += size[a]
            large += not any(before)
        complete = large == k and covered >= COVERED * total
    return tree.nnz if complete else found


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
