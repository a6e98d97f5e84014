"""The matrix R of regularised least squares: fitted values of all rows from labels of all rows.

    R = K (K + ridge I)^-1 = I - ridge (K + ridge I)^-1

by Cholesky, in place, without an eigendecomposition. A row of weight w is equivalent to w equal
rows: with V = diag(sqrt(w)), R is computed for V K V. Centring projects out
q = sqrt(w) / |sqrt(w)|, which is equivalent to an unpenalised intercept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy import sparse

from .._core.features import FeatureMap, kernel_basis
from .._core.kernels import DEVICE_KERNELS, kernel_params
from .._core.lapack import invert_definite
from .._data.source import MemoryRows
from .._threads import by_strips, free_threads, run_all
from ._numba import add_members, add_products
from ._settings import Settings

FLOAT32_RIDGE = 0.25  # below this ridge the factor needs float64
EXTREME = 10.0  # distance to the median, in 90 % quantiles of it, of values that are mistakes
LEAST_SCALE = 1e-100  # of a column, relative to the largest, that counts as varying
SHRINKAGE = 0.05  # of a covariance, towards a multiple of the identity
ZERO = "The kernel is zero on all rows; choose another kernel or gamma."
NOT_DEFINITE = (
    "The kernel matrix is not positive semi-definite enough for this ridge; choose another kernel, "
    "or raise ridge in LeastSquaresMarginClustering."
)
FLOAT64_ROWS = 500  # up to this many rows float64 is always used


@dataclass(frozen=True)
class Similarity:
    """R of weighted rows, and the way from labels to a model for new rows."""

    matrix: np.ndarray  # (n, n): ``V R V``: within-cluster sums of it are what the search maximises
    weights: np.ndarray  # (n,)
    ridge: float
    scale: float  # mean diagonal of the kernel, by which it was divided
    # (n,): weighted mean of each kernel column (divided by ``scale``); None if the kernel is not
    # centred, so that the model has no intercept
    row_means: np.ndarray | None
    diagonal: np.ndarray | None = field(default=None, kw_only=True)  # of a matrix that is not kept
    n_jobs: int = field(default=1, kw_only=True)  # threads of a pass over the matrix

    def caches(self, labels: np.ndarray, k: int) -> np.ndarray:
        """T_h = (V R V) y_h for 0/1 indicators, (k, n); a row labelled -1 is in no cluster."""
        found = np.zeros((k, len(labels)), self.matrix.dtype)
        labels = labels.astype(np.int32, copy=False)

        n, n_jobs = len(labels), free_threads(self.n_jobs)
        width = max(1, -(-n // n_jobs))  # of columns: all sums have the same order for any width

        def strip(j: int) -> None:
            add_members(self.matrix, labels, found, j, min(j + width, n))

        run_all(strip, range(0, n, width), n_jobs)
        return found

    def fitted(self, caches: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Scores (n, k) of the rows: the regression on the labels, its bias included."""
        scores: np.ndarray = (caches / self.weights).T + self.biases(labels, caches.shape[0])
        return scores

    def biases(self, labels: np.ndarray, k: int) -> np.ndarray:
        """Share of each cluster where the model has a bias, else 0."""
        if self.row_means is None:
            return np.zeros(k)
        sizes: np.ndarray = np.bincount(labels, self.weights, minlength=k)
        shares: np.ndarray = sizes / self.weights.sum()
        return shares

    def coefficients(self, caches: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients (k, n) on kernel values and intercepts (k,) of the model for new rows.

        ``(K + ridge I)^-1 y = (y - R y) / ridge``: no further factorisation.
        """
        k, roots = caches.shape[0], np.sqrt(self.weights)
        indicators = (labels[None, :] == np.arange(k)[:, None]) * roots
        dual = (indicators - caches / roots) / self.ridge
        if self.row_means is None:
            return dual * roots / self.scale, np.zeros(k)
        q = roots / np.linalg.norm(roots)
        dual -= np.outer(dual @ q, q)
        weighted = dual * roots
        return weighted / self.scale, self.biases(labels, k) - weighted @ self.row_means

    def leave_one_out(self, caches: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Scores (n, k) of each row by the model fitted on all others, in closed form."""
        k, w, diagonal = caches.shape[0], self.weights, self.diagonal
        diagonal = np.diag(self.matrix).astype(np.float64) if diagonal is None else diagonal
        indicators = (labels[None, :] == np.arange(k)[:, None]).astype(np.float64)
        influence = diagonal / w
        fitted = caches / w
        if self.row_means is not None:
            influence = influence + w / w.sum()
            fitted = fitted + self.biases(labels, k)[:, None]
        rest = np.maximum(1.0 - influence, 1e-9)
        scores: np.ndarray = ((fitted - influence * indicators) / rest).T
        return scores


def kernel_map(
    X: Any,
    weights: np.ndarray,
    rng: np.random.Generator,
    s: Settings,
    kernel: Any,
    axes: np.ndarray | None = None,
    n_jobs: int = 1,
) -> FeatureMap:
    """Return the map from rows to their kernel values with all rows."""
    offset = None
    shift = kernel in ("rbf", "laplacian") or (kernel == "linear" and s.center)
    if not sparse.issparse(X) and (s.pca is not None or shift or axes is not None):
        offset = np.average(X, axis=0, weights=weights).astype(X.dtype)
    if s.pca is not None and axes is None:
        axes = principal_axes(X, offset, weights, s.pca).astype(X.dtype)
    dtype = np.dtype(factor_dtype(len(weights), s.ridge))
    plain = FeatureMap(kernel, {}, None, None, offset, np.zeros(0), 1.0, dtype, axes)
    points = np.arange(X.shape[0]) if s.precomputed else plain.points(X)
    params = {}
    if not s.precomputed:
        given = s.gamma, s.degree, s.coef0
        params = kernel_params(MemoryRows(points), kernel, *given, rng, n_jobs)
    fmap = replace(plain, params=params, landmarks=points, offset=np.zeros(X.shape[0]))
    if s.n_components is None or s.n_components >= X.shape[0]:
        return fmap
    few = np.sort(rng.choice(X.shape[0], s.n_components, replace=False))
    fmap = replace(fmap, landmarks=points[few])
    projection = kernel_basis(fmap.kernel_values(X[few]), kernel, dtype)
    return replace(fmap, projection=projection, offset=np.zeros(projection.shape[1]))


def make_similarity(
    fmap: FeatureMap,
    X: Any,
    weights: np.ndarray,
    ridge: float,
    center: bool,
    n_jobs: int = 1,
    source: Any = None,
) -> Similarity:
    """Return R of the rows of X, which are also the landmarks of a map without a projection.

    A device that the rows came from, their ``source``, forms R itself.
    """
    if hasattr(source, "send") and fmap.kernel in DEVICE_KERNELS:
        return device_similarity(source, fmap, X, weights, ridge, center)
    dtype = factor_dtype(len(weights), ridge)
    K, scale = kernel_matrix(fmap, X, weights, dtype, center, n_jobs)
    return similarity_of(K, scale, weights, ridge, center, n_jobs)


def factor_dtype(n: int, ridge: float) -> type:
    """Return the type of the factorisation: float64 for few rows or a small ridge."""
    return np.float32 if n > FLOAT64_ROWS and ridge >= FLOAT32_RIDGE else np.float64


def kernel_matrix(
    fmap: FeatureMap,
    X: Any,
    weights: np.ndarray,
    dtype: Any,
    center: bool,
    n_jobs: int = 1,
) -> tuple[np.ndarray, float]:
    """Kernel with unit mean diagonal, filled in block by block, and the mean it was divided by."""
    K = filled_matrix(X.shape[0], dtype, lambda rows: fmap.kernel_values(X[rows]), n_jobs)
    return K, unit_diagonal(K, weights, center and fmap.kernel == "linear", n_jobs)


def filled_matrix(
    n: int, dtype: Any, values: Callable[[slice], np.ndarray], n_jobs: int = 1
) -> np.ndarray:
    """The matrix (n, n) whose rows in a range are ``values(range)``, strip by strip."""
    K = np.empty((n, n), dtype)

    def strip(rows: slice) -> None:
        K[rows] = values(rows)

    by_strips(strip, n, n_jobs)
    return K


def unit_diagonal(
    K: np.ndarray, weights: np.ndarray, about_mean: bool = False, n_jobs: int = 1
) -> float:
    """Divide the kernel by its mean diagonal, in place; returns the divisor.

    ``about_mean`` takes the mean diagonal of the centred kernel, so that the result for the linear
    kernel does not depend on the origin.
    """
    share = weights / weights.sum()
    scale = float(share @ np.diag(K).astype(np.float64))
    if about_mean:
        scale -= float(share @ product(K, share, n_jobs))
    if scale <= 0 and len(K) > 1:
        raise ValueError(ZERO)
    scale = scale if scale > 0 else 1.0
    by_strips(lambda rows: np.divide(K[rows], K.dtype.type(scale), out=K[rows]), len(K), n_jobs)
    return scale


def product(K: np.ndarray, vector: np.ndarray, n_jobs: int) -> np.ndarray:
    """Return the product of a matrix and a vector, rounded to its type, in float64."""
    found, vector = np.empty(len(K)), vector.astype(K.dtype)

    def strip(rows: slice) -> None:
        found[rows] = K[rows] @ vector

    by_strips(strip, len(K), n_jobs)
    return found


def similarity_of(
    K: np.ndarray, scale: float, weights: np.ndarray, ridge: float, center: bool, n_jobs: int = 1
) -> Similarity:
    """R from the kernel matrix, which is overwritten."""
    n, dtype = len(weights), K.dtype.type
    roots = np.sqrt(weights)
    scale_rows(K, roots)
    row_means = None
    if center:
        q = roots / np.linalg.norm(roots)
        column = product(K, q, n_jobs)
        row_means = column / roots / np.sqrt(weights.sum())
        # (I - q q') K (I - q q')
        rest = column - 0.5 * (q @ column) * q
        add_outer(K, [(-q, rest), (rest, -q)], n_jobs)
    K[np.arange(n), np.arange(n)] += dtype(ridge)
    invert_in_place(K, n_jobs)
    by_strips(lambda rows: np.multiply(K[rows], dtype(-ridge), out=K[rows]), n, n_jobs)
    K[np.arange(n), np.arange(n)] += dtype(1.0)
    scale_rows(K, roots)
    if n > FLOAT64_ROWS:  # the search needs no more
        K = K.astype(np.float32, copy=False)
    return Similarity(K, weights, float(ridge), scale, row_means, n_jobs=n_jobs)


def scale_rows(K: np.ndarray, roots: np.ndarray) -> None:
    """``V K V`` in place for V = diag(roots)."""
    if not (roots == 1.0).all():
        K *= roots.astype(K.dtype)[:, None]
        K *= roots.astype(K.dtype)[None, :]


def device_similarity(
    device: Any, fmap: FeatureMap, X: Any, weights: np.ndarray, ridge: float, center: bool
) -> Similarity:
    """:func:`make_similarity` on a device: R comes to the host once, for the search.

    A step of the search is some 7 us on a core of the host, and as much as 100 us in launches.
    """
    n, stored, xp = len(weights), factor_dtype(len(weights), ridge), device.xp
    dtype = xp.float32 if stored is np.float32 else xp.float64
    with device.working():
        roots = device.send(np.sqrt(weights), dtype)
        K = xp.astype(fmap.sent(device.send, xp).kernel_values(device.send(X, dtype), xp), dtype)
        share = device.send(weights / weights.sum(), dtype)
        scale = float(xp.sum(share * xp.linalg.diagonal(K), dtype=xp.float64))
        if center and fmap.kernel == "linear":
            scale -= float(share @ (K @ share))
        if scale <= 0 and n > 1:
            raise ValueError(ZERO)
        scale = scale if scale > 0 else 1.0
        K = K / scale * roots[:, None] * roots[None, :]
        row_means = None
        if center:
            q = roots / xp.sqrt(xp.sum(roots * roots))
            column = K @ q
            means = device.host(xp.astype(column, xp.float64))
            row_means = means / np.sqrt(weights) / np.sqrt(weights.sum())
            rest = column - 0.5 * (q @ column) * q
            K = K - q[:, None] * rest[None, :] - rest[:, None] * q[None, :]
        eye = xp.eye(n, dtype=dtype, device=K.device)
        R = eye - ridge * device.inverse(K + ridge * eye, NOT_DEFINITE)
        R = R * roots[:, None] * roots[None, :]
        matrix = device.host(R)
    matrix = np.ascontiguousarray(matrix, np.float32 if n > FLOAT64_ROWS else None)
    return Similarity(matrix, weights, float(ridge), scale, row_means)


def add_outer(K: np.ndarray, pairs: list[tuple[np.ndarray, np.ndarray]], n_jobs: int = 1) -> None:
    """``K + sum_m column_m row_m'`` in place, for pairs of a column and a row."""
    left, right = (np.array(half, K.dtype) for half in zip(*pairs))

    def strip(rows: slice) -> None:
        add_products(K[rows], np.ascontiguousarray(left[:, rows]), right)

    by_strips(strip, len(K), n_jobs)


def invert_in_place(A: np.ndarray, n_jobs: int = 1) -> None:
    """Inverse of a symmetric positive definite matrix in its own memory."""
    A = A if A.flags.c_contiguous else A.T  # symmetric, and the same memory
    if invert_definite(A, n_jobs) != 0:
        raise ValueError(NOT_DEFINITE)


# -- axes that raw rows are projected on before kernels are evaluated ------------------------------


def whitening_axes(
    X: np.ndarray, labels: np.ndarray, weights: np.ndarray, shrinkage: float = SHRINKAGE
) -> np.ndarray:
    """Axes (d, d) in which the covariance within clusters, a little shrunk, is the identity.

    Columns of two values are scaled to 0 and 1 only: rows have no spread around their values, and
    whitening would turn the levels of categories into gaps as wide as those between clusters.
    """
    share = weights / weights.sum()
    X = np.asarray(X, np.float64)
    two = two_valued(X)
    if two.any() and not two.all():
        widths = np.ptp(X, axis=0)
        axes = np.diag(1.0 / np.where(widths > 0.0, widths, 1.0))
        axes[np.ix_(~two, ~two)] = whitening_axes(X[:, ~two], labels, weights, shrinkage)
        return axes
    centred = X.copy()
    for cluster in np.unique(labels):
        rows = labels == cluster
        centred[rows] -= np.average(X[rows], axis=0, weights=weights[rows])
    S = centred.T @ (centred * share[:, None])
    spread = np.trace(S) / len(S)
    if spread <= 0:
        return np.eye(len(S))
    S = (1.0 - shrinkage) * S + shrinkage * spread * np.eye(len(S))
    lam, V = np.linalg.eigh(S)
    return np.asarray(V[:, ::-1] / np.sqrt(lam[::-1]))


def two_valued(X: np.ndarray, least: float = 0.0) -> np.ndarray:
    """Whether each column has at most two values, each in at least a share of the rows.

    Examples
    --------
    >>> two_valued(np.array([[0.0, 3.0, 1.0], [1.0, 4.0, 1.0], [0.0, 5.0, 1.0]]))
    array([ True, False,  True])
    >>> two_valued(np.array([[0.0, 3.0, 1.0], [1.0, 4.0, 1.0], [0.0, 5.0, 1.0]]), least=0.1)
    array([ True, False, False])
    """
    lows, highs = X.min(axis=0) == X, X.max(axis=0) == X
    rarer = np.minimum(lows.mean(axis=0), (highs & ~lows).mean(axis=0))
    return np.asarray((lows | highs).all(axis=0) & (rarer >= least))


def column_scales(X: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, float]:
    """Standard deviations of the columns over the largest, and the largest over the median.

    Constant columns have 1, too. Values that are extremely far from the median of their column, as
    a mistyped number is, count as if they were at the limit.

    Examples
    --------
    >>> scales, ratio = column_scales(np.array([[0.0, 0.0, 5.0], [2.0, 60.0, 5.0]]), np.ones(2))
    >>> scales, ratio
    (array([0.03333333, 1.        , 1.        ]), 30.0)
    """
    X = np.asarray(X, np.float64)
    # Scaled by a power of two: exact, and squares do not overflow.
    _, exponent = np.frexp(np.abs(X).max(axis=0, initial=1e-300))
    X = np.ldexp(X, -exponent)
    share = weights / weights.sum()
    X = _without_extremes(X, share)
    spread = np.sqrt(share @ (X - share @ X) ** 2)
    scales = np.where(spread > 1e-12, np.ldexp(spread, exponent), 0.0)
    if not scales.any():
        return np.ones(len(scales)), 1.0
    scales /= scales.max()
    varies = scales > LEAST_SCALE
    known = np.sort(scales[varies])
    return np.where(varies, scales, 1.0), float(1.0 / known[(len(known) - 1) // 2])


def _without_extremes(X: np.ndarray, share: np.ndarray) -> np.ndarray:
    """Return the columns with values beyond ``EXTREME`` spreads of the median moved to this limit.

    The spread is the 90 % quantile of the distances to the median; none of 0 limits a column.
    """
    middle = _weighted_quantile(X, share, 0.5)
    limit = EXTREME * _weighted_quantile(np.abs(X - middle), share, 0.9)
    limit[limit == 0.0] = np.inf
    limited: np.ndarray = np.clip(X, middle - limit, middle + limit)
    return limited


def _weighted_quantile(X: np.ndarray, share: np.ndarray, level: float) -> np.ndarray:
    """Return the least value of each column that so large a share of the rows does not exceed."""
    order = np.argsort(X, axis=0, kind="stable")
    at = (np.cumsum(share[order], axis=0) < level * (1.0 - 1e-9)).sum(axis=0)
    least = order[np.minimum(at, len(X) - 1), np.arange(X.shape[1])]
    values: np.ndarray = X[least, np.arange(X.shape[1])]
    return values


def principal_axes(X: Any, offset: Any, weights: np.ndarray, count: int) -> np.ndarray:
    """Leading principal axes (d, count) of weighted dense rows."""
    if sparse.issparse(X):
        raise ValueError(
            "pca needs dense rows; use kernel='cosine' or TruncatedSVD on sparse ones."
        )
    centred = (np.asarray(X, np.float64) - offset) * np.sqrt(weights / weights.sum())[:, None]
    axes: np.ndarray = np.linalg.eigh(centred.T @ centred)[1][:, ::-1][:, :count]
    axes = axes * np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(axes.shape[1])])
    return axes
