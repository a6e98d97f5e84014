"""The mean of several similarities R, of kernels and of a nearest-neighbour graph.

    R = (R_1 + .. + R_M) / M,    R_kernel = K_c (K_c + ridge I)^-1,    R_graph = (I + s L)^-1

K_c is a centred kernel, L the symmetric normalised Laplacian of the unweighted, symmetrised graph
of nearest neighbours; R_graph is centred on both sides. For weighted rows the matrix is V R V, as
in ``_similarity.py``, with V^-1 L V^-1 instead of L.

Prediction for new rows: kernels use their coefficients; the graph uses the mean of the fitted
values of the nearest training rows. A training row keeps its own fitted value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from operator import call
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.metrics.pairwise import euclidean_distances

from .._core.dedup import FitInput, row_fingerprints
from .._core.features import FeatureMap
from .._core.kernels import gaussian_of, kernel_diagonal, negative_squares
from .._core.lapack import WIDE
from .._core.rows import Rows
from .._threads import by_strips, in_order
from ._numba import add_scaled
from ._numba_kernel import add_neighbour_means, distances_to, find_marks, gaussian_tile, nearest
from ._similarity import (
    FLOAT64_ROWS,
    Similarity,
    add_outer,
    column_scales,
    factor_dtype,
    filled_matrix,
    invert_in_place,
    make_similarity,
    product,
    scale_rows,
    similarity_of,
    unit_diagonal,
)

SMOOTHNESS = 10.0  # s above
UNLIKE_SCALES = 10.0  # of the largest column over the median: distances are those of one column
# Kernel values of new rows are made in strips that a processor's second-level cache can hold.
STRIP_VALUES, LEAST_STRIP = 2**17, 32


def about_scales(scales: np.ndarray, ratio: float) -> str:
    """Return what becomes of columns of unlike scales; they are often better kept than not."""
    if ratio > UNLIKE_SCALES:
        return (
            "The columns were standardised, because the largest scale is more than "
            f"{UNLIKE_SCALES:g} times the median one; kernel='rbf' keeps them as they are."
        )
    if np.quantile(scales, 0.25, method="lower") * UNLIKE_SCALES >= 1.0:
        return ""
    return (
        "The columns were used as they are, so that a quarter of them hardly counts: the largest "
        f"scale is more than {UNLIKE_SCALES:g} times theirs. Standardise X if units are arbitrary."
    )


@dataclass(frozen=True)
class MixedMap:
    """Kernel values to the landmarks, kernel after kernel, then the weights of neighbours."""

    # maps without a projection, with the same landmarks in the same order
    kernels: tuple[FeatureMap, ...]
    # neighbours of a row among the landmarks, by the first kernel's distance; 0 for no graph
    n_neighbors: int
    diagonal: np.ndarray  # (m,): values of the first kernel between each landmark and itself
    # marks, places: (m, 2) and (m,): sorted fingerprints of the landmarks' raw rows, and the
    # landmark each belongs to
    marks: np.ndarray
    places: np.ndarray
    dense: bool  # whether CSR rows are made dense, tile by tile
    scale: float = 1.0
    # weights of the R of each kernel and the graph; None for equal ones
    shares: tuple[float, ...] | None = None

    @property
    def landmarks(self) -> Any:
        """Rows that others are compared with."""
        return self.kernels[0].landmarks

    @property
    def metric(self) -> MixedMap:
        """The map whose distances tell how isolated a row is."""
        return self

    @property
    def axes(self) -> np.ndarray | None:
        """Axes that raw rows are projected on first."""
        return self.kernels[0].axes

    @property
    def dtype(self) -> np.dtype:
        """Type of the kernel values."""
        return self.kernels[0].dtype

    @property
    def rank(self) -> int:
        """Number of features."""
        return len(self.places) * (len(self.kernels) + (self.n_neighbors > 0))

    def rows(self, X: Any, n_jobs: int = 1) -> Rows:
        """Return rows of the features, made tile by tile as they are read."""
        return Rows(X, n_jobs=n_jobs, features=self)

    def sent(self, send: Any, xp: Any) -> MixedMap:
        """Raise an error: neighbours cannot be searched for on a device."""
        raise ValueError(
            "The nearest-neighbour graph is not available on a device: pass X.cpu().numpy()."
        )

    def tile(self, X: Any, own: np.ndarray | None = None) -> MixedTile:
        """Features of a tile of raw rows, and the landmarks that they are, if known."""
        if own is None:
            own = self.own_places(X) if self.n_neighbors else np.full(X.shape[0], -1)
        X = X.toarray() if self.dense and sparse.issparse(X) else X
        return MixedTile(self, X, own)

    def kernel_and_neighbours(self, X: Any, first: int = -1) -> tuple[np.ndarray, np.ndarray]:
        """Values (rows, m) of the first kernel, and the rows' nearest landmarks.

        ``first`` is the landmark that the first row is (and so on), which is not its own neighbour.
        """
        kernel = self.kernels[0]
        neighbours = np.empty((X.shape[0], self.n_neighbors), np.int64)
        if self.n_neighbors == 0:
            return kernel.kernel_values(X), neighbours
        if kernel.kernel == "rbf" and not sparse.issparse(X):
            points, landmarks, gamma = kernel.sides(X)
            # By distances, not kernel values, which are all zero far from the landmarks.
            D = negative_squares(points, landmarks)
            nearest(D, first, neighbours)
            return gaussian_of(D, gamma), neighbours
        K = kernel.kernel_values(X)
        nearest(2.0 * K - self.diagonal.astype(K.dtype), first, neighbours)
        return K, neighbours

    def first_kernel(self, X: Any, dtype: Any, n_jobs: int) -> tuple[np.ndarray, np.ndarray]:
        """Matrix of the first kernel between the landmarks X, and the other nearest landmarks."""
        neighbours = np.empty((X.shape[0], self.n_neighbors), np.int64)

        def strip(rows: slice) -> np.ndarray:
            K, neighbours[rows] = self.kernel_and_neighbours(X[rows], first=rows.start)
            return K

        return filled_matrix(X.shape[0], dtype, strip, n_jobs), neighbours

    def own_places(self, X: Any) -> np.ndarray:
        """The landmark that each raw row is, or -1."""
        found = np.empty(X.shape[0], np.int64)
        find_marks(row_fingerprints(X), self.marks, self.places, found)
        return found


def mixed_map(kernels: Any, X: Any, n_neighbors: int, dense: bool) -> MixedMap:
    """The map of kernels whose landmarks are the raw rows X, with so many neighbours at most."""
    first = kernels[0]
    if first.kernel == "precomputed":
        diagonal = np.array(np.diag(X), np.float64)
    else:
        diagonal = kernel_diagonal(first.landmarks, first.kernel, first.params)
    marks = row_fingerprints(X)
    order = np.lexsort((marks[:, 1], marks[:, 0]))
    count = min(n_neighbors, X.shape[0] - 1)
    return MixedMap(tuple(kernels), count, diagonal, marks[order], order, dense)


@dataclass(frozen=True)
class MixedTile:
    """Raw rows, their map and, for rows that are landmarks, their places."""

    map: Any
    X: Any
    own: np.ndarray

    def scores(self, columns: np.ndarray) -> np.ndarray:
        """Scores (rows, k) for coefficients (r, k)."""
        return self.scores_and_neighbours(columns)[0]

    def scores_and_neighbours(self, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Scores (rows, k) for coefficients (r, k), and the nearest landmarks."""
        n, m, kernels = len(self.own), len(self.map.places), self.map.kernels
        out = np.zeros((n, columns.shape[1]), columns.dtype)
        neighbours = np.empty((n, self.map.n_neighbors), np.int64)
        for number, kernel in enumerate(kernels):
            part = columns[number * m : (number + 1) * m]
            if kernel.kernel == "rbf" and not sparse.issparse(self.X):
                near = neighbours if number == 0 else np.empty((n, 0), np.int64)
                out += self._gaussian(kernel, part, near)
            elif number == 0:
                K, neighbours = self.map.kernel_and_neighbours(self.X)
                out += K @ part
            else:
                out += kernel.kernel_values(self.X) @ part
        if neighbours.shape[1]:
            add_neighbour_means(neighbours, self.own, columns[len(kernels) * m :], out)
        return out, neighbours

    def neighbours(self) -> np.ndarray:
        """The nearest landmarks of dense rows by a Gaussian kernel."""
        kernel, n, m = self.map.kernels[0], len(self.own), len(self.map.places)
        found = np.empty((n, self.map.n_neighbors), np.int64)
        self._gaussian(kernel, np.empty((m, 0)), found)
        return found

    def _gaussian(
        self, kernel: FeatureMap, columns: np.ndarray, neighbours: np.ndarray
    ) -> np.ndarray:
        """Return products of the values of a Gaussian kernel, and fill in neighbours."""
        # A gamma beyond the bound makes all kernel values 0 or 1, as the bound does.
        largest = float(np.finfo(kernel.dtype).max) / 16.0 / kernel.landmarks.shape[1]
        widest = max(float(np.abs(kernel.landmarks).max()), 1e-150)
        gamma = min(kernel.params["gamma"], largest / widest**2)
        # Beyond it, squares would overflow. Infinite without a warning: Python's floats.
        farthest = np.float64(math.sqrt(largest) / math.sqrt(gamma))
        points = np.clip(kernel.points(self.X), -farthest, farthest)
        points, landmarks = map(np.ascontiguousarray, (points, kernel.landmarks))
        size = max(STRIP_VALUES // len(landmarks), LEAST_STRIP)
        out = np.empty((len(points), columns.shape[1]), kernel.dtype)
        columns = np.ascontiguousarray(columns, kernel.dtype)
        gaussian_tile(points, landmarks, np.sqrt(gamma), size, columns, neighbours, out)
        return out


@dataclass(frozen=True)
class GraphSimilarity(Similarity):
    """R of a graph: the score of a new row is the mean of the fitted values of its neighbours."""

    def coefficients(self, caches: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Fitted values (k, n) without the intercepts, and intercepts (k,)."""
        return caches / self.weights, self.biases(labels, len(caches))


@dataclass(frozen=True)
class MixedSimilarity(Similarity):
    """A weighted mean of several R; other inherited attributes are those of the first kernel."""

    # In the order of the features of :class:`MixedMap`. The matrix of the last one is not kept.
    parts: tuple[Similarity, ...]
    shares: np.ndarray  # weight of each part; they add up to 1
    neighbours: np.ndarray | None = None  # of every row in the graph

    def part_caches(self, caches: np.ndarray, labels: np.ndarray) -> list[np.ndarray]:
        """Caches of each R on its own."""
        found = [part.caches(labels, len(caches)) for part in self.parts[:-1]]
        rest = caches - sum(share * own for share, own in zip(self.shares, found))
        return [*found, rest / self.shares[-1]]

    def coefficients(self, caches: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients (k, r) on the features of :class:`MixedMap` and intercepts (k,)."""
        pairs = [
            part.coefficients(own, labels)
            for part, own in zip(self.parts, self.part_caches(caches, labels))
        ]
        blocks = [share * coef for share, (coef, _) in zip(self.shares, pairs)]
        return np.concatenate(blocks, axis=1), self.shares @ [level for _, level in pairs]

    def leave_one_out(self, caches: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Mean of the leave-one-out scores (n, k) of the parts, each in closed form."""
        found = self.part_caches(caches, labels)
        scores = (part.leave_one_out(own, labels) for part, own in zip(self.parts, found))
        return np.asarray(sum(share * score for share, score in zip(self.shares, scores)))

    def last_alone(self) -> MixedSimilarity:
        """Return the R of the last part, with weights of zero for the others."""
        matrix = self.matrix.copy()
        for share, part in zip(self.shares, self.parts[:-1]):
            matrix -= matrix.dtype.type(share) * part.matrix
        matrix /= matrix.dtype.type(self.shares[-1])
        return replace(self, matrix=matrix, shares=np.eye(len(self.shares))[-1])


def mixed_similarity(
    fmap: MixedMap, X: Any, weights: np.ndarray, ridge: float, n_jobs: int = 1
) -> MixedSimilarity:
    """The mean R of the rows of X, which are also the landmarks of the map."""
    n, dtype = X.shape[0], factor_dtype(len(weights), ridge)
    K, neighbours = fmap.first_kernel(X, dtype, n_jobs)
    scale = unit_diagonal(K, weights, fmap.kernels[0].kernel == "linear", n_jobs)
    # An inverse of few rows has one tile: then several inverses share the threads.
    at_once, inside = (n_jobs, 1) if n <= WIDE else (1, n_jobs)
    given = weights, ridge, True, inside
    made: list[Callable[[], Any]] = [partial(similarity_of, K, scale, *given)]
    made += [partial(make_similarity, other, X, *given) for other in fmap.kernels[1:]]
    if fmap.n_neighbors:
        made.append(partial(graph_similarity, neighbours, weights, dtype, n_jobs=inside))
    parts = list(in_order(call, made, at_once))
    first: Similarity = parts[0]
    if fmap.n_neighbors:
        matrix = parts.pop()
        own, no = np.diag(matrix).astype(np.float64), np.zeros((0, 0))
        parts.append(GraphSimilarity(no, weights, ridge, 1.0, np.zeros(0), diagonal=own))
    else:
        matrix = np.zeros((n, n), first.matrix.dtype)
    shares = np.full(len(parts), 1.0 / len(parts)) if fmap.shares is None else fmap.shares
    factors = np.asarray(shares, matrix.dtype)

    def mix(rows: slice) -> None:
        mixed = matrix[rows]
        mixed *= factors[-1]
        for factor, kernel in zip(factors, parts[: len(fmap.kernels)]):
            add_scaled(mixed, factor, kernel.matrix[rows])

    by_strips(mix, n, n_jobs)
    shares = np.asarray(shares, np.float64)
    return MixedSimilarity(
        matrix, weights, ridge, first.scale, first.row_means, tuple(parts), shares, neighbours,
        n_jobs=n_jobs,
    )  # fmt: skip


def graph_similarity(
    neighbours: np.ndarray,
    weights: np.ndarray,
    dtype: Any,
    smoothness: float = SMOOTHNESS,
    n_jobs: int = 1,
) -> np.ndarray:
    """``V R_graph V``, doubly centred, of the graph that links rows and their neighbours.

    With B = I + s V^-1 L V^-1, q = sqrt(w) / |sqrt(w)|, P = I - q q' and M = (B + q q')^-1,

        P B^-1 P = P M P + (P M q)(P M q)' / (1 - q' M q).

    Entries of B^-1 fall exponentially along the graph; products of such entries are denormal
    numbers, which take a processor many times longer. M has none.
    """
    n = len(neighbours)
    laplacian = normalised_laplacian(neighbours)
    roots = np.sqrt(weights)
    q = roots / np.linalg.norm(roots)
    B = np.empty((n, n), dtype)

    def strip(rows: slice) -> None:
        B[rows] = 0.0
        links = laplacian[rows].tocoo()
        at = rows.start + links.row
        B[at, links.col] = smoothness * links.data / (roots[at] * roots[links.col])

    by_strips(strip, n, n_jobs)
    B[np.arange(n), np.arange(n)] += dtype(1.0)
    add_outer(B, [(q, q)], n_jobs)
    invert_in_place(B, n_jobs)
    column = product(B, q, n_jobs)
    both, rest = column - 0.5 * (q @ column) * q, column - (q @ column) * q
    pairs = [(-q, both), (both, -q), (rest, rest / (1.0 - q @ column))]
    add_outer(B, pairs, n_jobs)
    scale_rows(B, roots)
    return B.astype(np.float32, copy=False) if n > FLOAT64_ROWS else B


def normalised_laplacian(neighbours: np.ndarray) -> sparse.csr_matrix:
    """``I - D^-1/2 A D^-1/2`` with A = 1 where one row is a neighbour of the other."""
    n, count = neighbours.shape
    rows = np.repeat(np.arange(n), count)
    links = sparse.csr_matrix((np.ones(n * count), (rows, neighbours.ravel())), shape=(n, n))
    links = links.maximum(links.T)
    roots = np.sqrt(np.maximum(np.asarray(links.sum(axis=1)).ravel(), 1e-300))
    scaling = sparse.diags_array(1.0 / roots)
    return sparse.csr_matrix(sparse.eye_array(n) - scaling @ links @ scaling)


# -- views: groups of columns that describe the same rows, each with a similarity of its own -------
#
#     R = 1/2 sum_v w_v R_v + 1/2 R_graph
#
# R_v is the R of a Gaussian kernel of the columns of view v, whose width is that of the view. The
# graph has the nearest neighbours by sum_v w_v |x_v - x_v'|^2, where every view is scaled to unit
# variance. Weights are equal in a first fit; in a second one they are proportional to the
# leave-one-out R2 with which each R_v predicts the first clusters; a view of noise has none.


def views_of(views: Any, kernel: Any, n_clusters: int | None, data: FitInput) -> Any:
    """Return the column indices of each view, or raise an error."""
    gaussian = isinstance(kernel, str) and kernel in ("auto", "rbf")
    if not gaussian or sparse.issparse(data.X.take(slice(0, 1))):
        got = "sparse X" if gaussian else f"kernel={kernel!r}"
        raise ValueError(f'views needs dense X and kernel="auto" or "rbf"; got {got}.')
    known = np.unique(data.known[data.known >= 0])
    if len(known) and len(known) == (n_clusters or known.max() + 1):
        raise ValueError("views cannot be combined with known labels of every cluster.")
    return checked_views(views, data.X.shape[1], data.names)


def checked_views(views: Any, d: int, names: np.ndarray | None) -> dict[str, np.ndarray]:
    """Return the column indices of each view, or raise an error.

    Examples
    --------
    >>> checked_views({"size": ["a", "c"], "rest": [1]}, 3, np.array(["a", "b", "c"], object))
    {'size': array([0, 2]), 'rest': array([1])}
    """
    if not isinstance(views, Mapping) or not views:
        raise ValueError(
            "views must be a dict of view names to lists of columns, with one view at least; got "
            f"{views!r}."
        )
    return {str(view): _indices(view, columns, d, names) for view, columns in views.items()}


def _indices(view: Any, columns: Any, d: int, names: Any) -> np.ndarray:
    columns = [columns] if isinstance(columns, str) else list(columns)
    places = {} if names is None else {name: i for i, name in enumerate(names)}
    found = [places.get(c, c) for c in columns]
    for given, i in zip(columns, found):
        if isinstance(i, bool) or not isinstance(i, int | np.integer) or not 0 <= i < d:
            named = "" if names is None else "column names of X, and "
            raise ValueError(
                f"views[{view!r}] contains {given!r}; accepted are {named}integers from 0 to "
                f"{d - 1}."
            )
    if not found or len(set(found)) < len(found):
        raise ValueError(
            f"views[{view!r}] must contain at least one column, each once; got {columns!r}."
        )
    return np.array(found, np.intp)


def view_axes(X: np.ndarray, weights: np.ndarray, views: dict[str, np.ndarray]) -> list[np.ndarray]:
    """Return, for each view, axes (d, d_v) onto its columns, scaled to a total variance of 1.

    Columns of very different scales are standardised within the view.
    """
    found = []
    for columns in views.values():
        part = np.asarray(X[:, columns], np.float64)
        scales, ratio = column_scales(part, weights)
        part = part / scales if ratio > UNLIKE_SCALES else part
        share = weights / weights.sum()
        total = float(np.sqrt((share @ (part - share @ part) ** 2).sum())) or 1.0
        axes = np.zeros((X.shape[1], len(columns)))
        axes[columns, np.arange(len(columns))] = 1.0 / total
        found.append(axes / scales if ratio > UNLIKE_SCALES else axes)
    return found


def view_fits(similarity: MixedSimilarity, caches: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the leave-one-out R2 of the labels by each view; not below 0."""
    k, w = len(caches), similarity.weights / similarity.weights.sum()
    indicators = labels[:, None] == np.arange(k)
    share = w @ indicators
    spread = max(float((share * (1.0 - share)).sum()), 1e-12)
    found = similarity.part_caches(caches, labels)[1:-1]
    scores = [p.leave_one_out(own, labels) for p, own in zip(similarity.parts[1:], found)]
    fits = [1.0 - float((w @ (indicators - score) ** 2).sum()) / spread for score in scores]
    return np.maximum(fits, 0.0)


def view_weights(fits: np.ndarray) -> np.ndarray:
    """Return weights proportional to the R2, equal ones if all are zero."""
    fits = fits if fits.any() else np.ones(len(fits))
    weights: np.ndarray = fits / fits.sum()
    return weights


# -- distances to nearest fitted rows --------------------------------------------------------------


def is_by_distance(fmap: MixedMap) -> bool:
    """Return whether neighbours are found by distances between dense rows."""
    return fmap.kernels[0].kernel == "rbf" and not sparse.issparse(fmap.landmarks)


def spacings(fmap: MixedMap, X: Any, count: int, first: int = -1) -> tuple[np.ndarray, np.ndarray]:
    """Nearest fitted rows (n, count) of a tile of raw rows, and the distance to the last of them.

    ``first`` is the fitted row that the first row is (and so on), which is not its own neighbour.
    """
    kernel, neighbours = fmap.kernels[0], np.empty((X.shape[0], count), np.int64)
    X = X.toarray() if fmap.dense and sparse.issparse(X) else X
    if kernel.kernel != "rbf":
        return _kernel_spacings(fmap, X, neighbours, first)
    points, landmarks = kernel.points(X), kernel.landmarks
    if sparse.issparse(points):
        closeness = -euclidean_distances(points, landmarks, squared=True)
    else:
        closeness = negative_squares(*kernel.sides(X)[:2])
    nearest(closeness, first, neighbours)
    return neighbours, _last_distances(points, landmarks, neighbours)


def _last_distances(points: Any, landmarks: Any, neighbours: np.ndarray) -> np.ndarray:
    """Distances to the last of the neighbours, more precise than those of the search."""
    last = np.ascontiguousarray(neighbours[:, -1])
    if sparse.issparse(points):
        apart = points - landmarks[last]
        return np.sqrt(np.asarray(apart.multiply(apart).sum(axis=1), np.float64).ravel())
    found = np.empty(len(points))
    distances_to(*map(np.ascontiguousarray, (points, landmarks)), last, found)
    return found


def metric_distances(fmap: MixedMap, X: Any, neighbours: np.ndarray) -> np.ndarray:
    """Distances of raw rows to the last of their neighbours, by the first kernel."""
    points = fmap.kernels[0].points(X.toarray() if sparse.issparse(X) else X)
    return _last_distances(points, fmap.landmarks, neighbours)


def _kernel_spacings(
    fmap: MixedMap, X: Any, neighbours: np.ndarray, first: int
) -> tuple[np.ndarray, np.ndarray]:
    """The same in the feature space of the kernel."""
    kernel, rows = fmap.kernels[0], np.arange(len(neighbours))
    K = kernel.kernel_values(X).astype(np.float64)
    nearest(2.0 * K - fmap.diagonal, first, neighbours)
    last = neighbours[:, -1]
    if kernel.kernel != "precomputed":
        own = kernel_diagonal(kernel.points(X), kernel.kernel, kernel.params)
    elif first >= 0:
        own = fmap.diagonal[first + rows]
    else:
        # Not in the matrix: that of the nearest row, or more by the inequality of Cauchy-Schwarz.
        used = fmap.diagonal > 1e-12 * fmap.diagonal.max()
        least = (K[:, used] ** 2 / fmap.diagonal[used]).max(axis=1, initial=0.0)
        own = np.maximum(fmap.diagonal[neighbours[:, 0]], least)
    return neighbours, np.sqrt(np.maximum(own + fmap.diagonal[last] - 2.0 * K[rows, last], 0.0))
