r"""How well the modes of the density of some rows are separated, on a nearest-neighbour graph.

The log density of row i with k neighbours is

.. math:: f_i = \log \sum_{j \in N(i)} w_j - \hat d \log r_i,

where r_i is the distance to the farthest of them and d the intrinsic dimension (Levina & Bickel
2004). Its standard error is :math:`1 / \sqrt k` in any dimension. Rows above a level, and the edges
between them, have connected components; as the level falls, each component is born at a mode and
ends at the saddle where it meets a higher one. The separation of a mode is the height of the mode
above that saddle in standard errors (persistence; Chazal, Guibas, Oudot & Skraba, Journal of the
ACM 60, 2013). Clusters of any shape, size and number are modes.

Neighbours are the nearest by :math:`|x_i - x_j|^2 / (s_i s_j)` with the distance s_i to the seventh
neighbour (Zelnik-Manor & Perona 2004): otherwise, in many dimensions, the nearest neighbours of a
wide cluster's rows are in a narrow cluster.

Elongated clusters are made round first, by the covariance of differences between neighbours (Art,
Gnanadesikan & Kettenring, Utilitas Mathematica 21A, 1982), which needs no labels. Noise is
added to columns of few values, such as those of a category, before: otherwise each value is a mode
by itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import minimum_spanning_tree

from ._core.kernels import evaluate_kernel, kernel_diagonal, kernel_params
from ._data.source import MemoryRows
from ._threads import by_strips
from .least_squares._numba_kernel import nearest
from .least_squares._similarity import filled_matrix, whitening_axes

SCALES = (7, 10)  # numbers of neighbours
LOCAL = 7  # the neighbour whose distance is the local scale
LEAST_ROWS = 4  # of a mode
ROWS_PER_NEIGHBOR = 4
WHITENINGS = 2
CLEAR = 8.0  # standard errors; more make no difference


def separations(X: Any, weights: np.ndarray, kernel: Any, rng: np.random.Generator) -> np.ndarray:
    """Return the separation of the modes, in falling order: mean over the scales, at most CLEAR.

    Parameters
    ----------
    X : {ndarray, CSR matrix} of shape (n, d)
        Distinct rows, or a kernel matrix.
    weights : ndarray of shape (n,)
    kernel : str or callable
        Distances are those of its feature space; Euclidean for "rbf".

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(size=(50, 2)), rng.normal(size=(40, 2)) + 9.0])
    >>> separations(X, np.ones(90), "rbf", rng)[:2].round(1).tolist()
    [8.0, 8.0]
    """
    n = len(weights)
    most = max(n // ROWS_PER_NEIGHBOR, 1)
    counts = sorted({min(count, most) for count in SCALES})
    neighbours, distances = scaled_neighbours(squared_distances(X, kernel, rng), counts[-1])
    found = [
        mode_separations(neighbours[:, :count], distances[:, :count], weights) for count in counts
    ]
    curves = np.zeros((len(counts), max(map(len, found))))
    for curve, own in zip(curves, found):
        curve[: len(own)] = np.minimum(own, CLEAR)
    return curves.mean(axis=0)


def without_steps(X: np.ndarray, columns: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return the rows with noise in these columns, so that no value is a mode by itself.

    Two normal densities have one mode if their means differ by at most two standard deviations. The
    levels of a category, a 0/1 column each, are sqrt(2) apart. Therefore the standard deviation of
    the noise is 1 / sqrt(2) of the step to the nearest other value.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = np.column_stack([rng.normal(size=100), np.arange(100) % 2])
    >>> (without_steps(X, np.array([False, True]), rng) != X).mean(axis=0).tolist()
    [0.0, 1.0]
    """
    X = X.copy()
    for j in np.flatnonzero(columns):
        values, places = np.unique(X[:, j], return_inverse=True)
        steps = np.pad(np.diff(values), 1, constant_values=np.inf)
        nearest_step = np.minimum(steps[:-1], steps[1:])[places]
        X[:, j] += np.sqrt(0.5) * nearest_step * rng.normal(size=len(X))
    return X


def whitened(X: np.ndarray, weights: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return the rows in axes in which differences between neighbours have unit covariance.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 2)) * [1.0, 20.0]
    >>> sides = whitened(X, np.ones(400), rng).std(axis=0)
    >>> bool(sides.max() < 10 * sides.min())
    True
    """
    n, d = X.shape
    count = min(LOCAL, n - 1)
    for _ in range(WHITENINGS):
        neighbours, _ = scaled_neighbours(squared_distances(X, "rbf", rng), count)
        steps = X[neighbours] - X[:, None]
        # Rows of wide and of narrow clusters count the same.
        steps /= np.sqrt(np.maximum((steps**2).mean(axis=(1, 2), keepdims=True), 1e-300))
        shares = np.repeat(weights, count)
        X = X @ whitening_axes(steps.reshape(-1, d), np.zeros(n * count), shares)
    return X


def squared_distances(X: Any, kernel: Any, rng: np.random.Generator) -> np.ndarray:
    """Return the matrix of squared distances in the feature space of the kernel, float32."""
    if kernel in ("rbf", "linear") and not sparse.issparse(X):
        X = X - X.mean(axis=0)  # fewer digits cancel
    if kernel == "rbf":
        kernel = "linear"  # the same order, without saturation
    params = {}
    if kernel not in ("linear", "precomputed"):
        params = kernel_params(MemoryRows(X), kernel, "half-median", 3, 1, rng)
    diagonal = kernel_diagonal(X, kernel, params)
    unit = max(float(diagonal.max()), 1e-300)  # squares of any kernel fit into float32

    def block(rows: slice) -> np.ndarray:
        K = X[rows] if kernel == "precomputed" else evaluate_kernel(X[rows], X, kernel, params)
        return np.maximum((diagonal[rows, None] + diagonal - 2.0 * K) / unit, 0.0)

    return filled_matrix(X.shape[0], np.float32, block)


def scaled_neighbours(D: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the nearest rows by locally scaled distance, and distances that do not decrease."""
    n = len(D)
    local = np.empty((n, min(LOCAL, count)), np.int64)
    neighbours = np.empty((n, count), np.int64)
    by_strips(lambda s: nearest(-D[s], s.start, local[s]), n, 1)
    squares = np.take_along_axis(D, local[:, -1:], 1).ravel()
    # Not a fraction of the largest, which a row far away decides.
    tiny = np.float32(1e-9) * np.median(squares) + np.float32(1e-30)
    roots = np.sqrt(np.sqrt(np.maximum(squares, tiny)))
    by_strips(lambda s: nearest(-D[s] / roots / roots[s, None], s.start, neighbours[s]), n, 1)
    squares = np.maximum(np.take_along_axis(D, neighbours, 1), tiny)
    return neighbours, np.maximum.accumulate(np.sqrt(squares.astype(np.float64)), axis=1)


def mode_separations(
    neighbours: np.ndarray, distances: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """Return the separation of every mode from higher ones, in falling order.

    That of the highest mode is infinite, and so is that of each component of the graph.

    Examples
    --------
    >>> neighbours = np.array([[1, 2], [0, 2], [1, 3], [2, 4], [5, 3], [4, 3]])
    >>> distances = np.array([[1, 2], [1, 1], [1, 4], [4, 5], [1, 5], [1, 6]], float)
    >>> mode_separations(neighbours, distances, np.ones(6)).shape
    (1,)
    """
    n, count = neighbours.shape
    density, effective = log_density(neighbours, distances, weights)
    first, second = np.repeat(np.arange(n), count), neighbours.ravel()
    edges = np.unique(np.minimum(first, second) * n + np.maximum(first, second))
    first, second = edges // n, edges % n
    top = density.max() + 1.0  # the tree needs positive lengths
    lengths = top - np.minimum(density[first], density[second])
    tree = minimum_spanning_tree(sparse.csr_matrix((lengths, (first, second)), shape=(n, n)))
    tree = tree.tocoo()
    order = np.argsort(tree.data, kind="stable")
    parent, size, found = list(range(n)), [1] * n, []

    def mode_of(i: int) -> int:
        while parent[i] != i:
            parent[i] = i = parent[parent[i]]
        return i

    ends = zip(tree.row[order].tolist(), tree.col[order].tolist(), top - tree.data[order])
    for i, j, saddle in ends:
        high, low = mode_of(i), mode_of(j)
        if density[high] < density[low]:
            high, low = low, high
        if size[low] >= LEAST_ROWS:
            found.append((density[low] - saddle) * np.sqrt(effective[low]))
        parent[low] = high
        size[high] += size[low]
    found += [np.inf for i in range(n) if parent[i] == i and size[i] >= LEAST_ROWS]
    return np.sort(found)[::-1] if found else np.array([np.inf])


def log_density(
    neighbours: np.ndarray, distances: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the log density of every row and its effective number of neighbours (Kish)."""
    count = neighbours.shape[1]
    logs = np.log(distances)
    spread = float((logs[:, -1:] - logs[:, :-1]).mean()) if count > 1 else 0.0
    # Unbiased for Poisson neighbours; equal distances have no dimension.
    dimension = max(count - 2, 1) / (count - 1) / spread if spread > 0 else 1.0
    near = weights[neighbours]
    total = near.sum(axis=1)
    return np.log(total) - dimension * logs[:, -1], total**2 / (near**2).sum(axis=1)
