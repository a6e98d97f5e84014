"""Kernels: their values between rows, their parameters, and distances."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.metrics.pairwise import euclidean_distances, manhattan_distances, pairwise_kernels

from .._data.source import RowSource
from .._threads import by_strips
from .lapack import interruptible

Kernel = str | Callable[..., Any]
KERNELS = ("linear", "rbf", "poly", "sigmoid", "laplacian", "cosine", "precomputed")
SHIFT_INVARIANT, _USES_GAMMA = ("rbf", "laplacian"), ("rbf", "poly", "sigmoid", "laplacian")
SCALE_POWERS = {"rbf": 2, "laplacian": 1, "cosine": 0}  # c X has the kernel of X at gamma / c^power
DEVICE_KERNELS = ("linear", "rbf", "poly", "sigmoid", "laplacian", "cosine")
MEDIAN_ROWS = 1000  # 500k pairs give the median distance to about one part in a thousand
CHECKED_ROWS = 10_000  # a precomputed kernel up to this size is checked by a Cholesky factor


def evaluate_kernel(X: Any, Y: Any, kernel: Kernel, params: dict[str, Any], xp: Any = np) -> Any:
    """Return the kernel matrix between two sets of rows; a value that is not finite is an error.

    Examples
    --------
    >>> evaluate_kernel(np.eye(2), np.eye(2), "linear", {})
    array([[1., 0.],
           [0., 1.]])
    """
    with np.errstate(over="ignore", invalid="ignore"):
        if xp is not np:
            K = _device_kernel(X, Y, kernel, params, xp)
        elif kernel == "rbf" and not (sparse.issparse(X) or sparse.issparse(Y)):
            K = gaussian_of(negative_squares(X, Y), params["gamma"])
        elif kernel == "rbf":
            K = gaussian_of(-euclidean_distances(X, Y, squared=True), params["gamma"])
        else:
            K = np.asarray(pairwise_kernels(X, Y, metric=kernel, **params))
    if not bool(xp.all(xp.isfinite(K))):
        raise ValueError(
            f"kernel={kernel!r} gave values that are not finite on these rows; scale X first "
            "(for example with sklearn.preprocessing.StandardScaler) or choose kernel='rbf'."
        )
    return K


def _device_kernel(X: Any, Y: Any, kernel: Kernel, params: dict[str, Any], xp: Any) -> Any:
    """Return a kernel of scikit-learn's by its formula, in any array namespace."""
    if kernel == "rbf":
        return gaussian_of(negative_squares(X, Y, xp), params["gamma"], xp)
    if kernel == "laplacian":
        D = xp.zeros((X.shape[0], Y.shape[0]), dtype=X.dtype, device=X.device)
        for j in range(X.shape[1]):
            D -= xp.abs(X[:, j, None] - Y[None, :, j])
        return xp.exp(D * params["gamma"])
    if kernel == "cosine":
        squares = (xp.sum(side * side, axis=1)[:, None] for side in (X, Y))
        # A row of zeros has no direction.
        X, Y = (s / xp.sqrt(xp.where(q > 0, q, 1.0)) for s, q in zip((X, Y), squares))
    K = X @ Y.T
    if kernel in ("poly", "sigmoid"):
        K = K * params["gamma"] + params["coef0"]
        K = K ** params["degree"] if kernel == "poly" else xp.tanh(K)
    return K


def gaussian_of(D: Any, gamma: Any, xp: Any = np) -> Any:
    """Return ``exp(gamma D)`` of minus the squared distances D; of several gammas, the mean.

    Examples
    --------
    >>> gaussian_of(np.array([-2.0, 0.0]), (0.0, 1e3))
    array([0.5, 1. ])
    """
    if isinstance(gamma, tuple):
        return sum(xp.exp(D * one) for one in gamma) / len(gamma)
    if xp is not np:
        return xp.exp(D * gamma)
    with np.errstate(over="ignore"):
        D *= gamma
        return np.exp(D, out=D)


def negative_squares(X: Any, Y: Any, xp: Any = np) -> Any:
    """Return minus the squared Euclidean distances between two sets of dense rows.

    Examples
    --------
    >>> negative_squares(np.array([[0.0]]), np.array([[3.0], [4.0]]))
    array([[ -9., -16.]])
    """
    D = X @ Y.T
    D *= 2.0
    if xp is np:
        D -= np.einsum("ij,ij->i", X, X)[:, None]
        D -= np.einsum("ij,ij->i", Y, Y)[None, :]
        return np.minimum(D, 0.0, out=D)
    D = D - xp.sum(X * X, axis=1)[:, None] - xp.sum(Y * Y, axis=1)[None, :]
    return xp.where(D > 0.0, xp.zeros_like(D), D)


def kernel_params(
    X: RowSource,
    kernel: Kernel,
    gamma: Any,
    degree: float,
    coef0: float,
    rng: np.random.Generator,
    n_jobs: int = 1,
) -> dict[str, Any]:
    """Return the keyword arguments of the kernel; gamma="median" and "half-median" become numbers.

    Examples
    --------
    >>> from maxmargin._data.source import MemoryRows
    >>> X = MemoryRows(np.array([[0.0], [1.0], [3.0]]))
    >>> kernel_params(X, "rbf", "median", 3, 1, np.random.default_rng(0))
    {'gamma': 0.25}
    """
    if callable(kernel) or kernel not in _USES_GAMMA:
        return {}
    if gamma in ("median", "half-median"):
        squared, n = kernel != "laplacian", X.shape[0]
        few: Any = slice(None)
        if n > MEDIAN_ROWS:
            few = np.sort(rng.choice(n, MEDIAN_ROWS, replace=False))
        narrower = 1.0 if gamma == "median" else 2.0  # either is 1 / (2 sigma^2) or 1 / sigma
        gamma = narrower / median_distance(X.take(few), rng, squared, n_jobs)
    params = {"gamma": 1.0 / X.shape[1] if gamma is None else float(gamma)}
    if kernel in ("poly", "sigmoid"):
        params["coef0"] = float(coef0)
    if kernel == "poly":
        params["degree"] = degree
    return params


def median_distance(
    X: Any, rng: np.random.Generator, squared: bool = True, n_jobs: int = 1
) -> float:
    """Median squared Euclidean (or Manhattan) distance between distinct rows of a subsample.

    Examples
    --------
    >>> float(median_distance(np.array([[0.0], [1.0], [3.0]]), np.random.default_rng(0)))
    4.0
    """
    n = X.shape[0]
    if n > MEDIAN_ROWS:
        X = X[np.sort(rng.choice(n, MEDIAN_ROWS, replace=False))]
    if not sparse.issparse(X):
        X = np.asarray(X, np.float64)
        X = X - X.mean(axis=0)
    if squared and not sparse.issparse(X):
        D = np.empty((len(X), len(X)))

        def strip(rows: slice) -> None:  # above the diagonal
            np.negative(negative_squares(X[rows], X[rows.start :]), out=D[rows, rows.start :])

        by_strips(strip, len(X), n_jobs, MEDIAN_ROWS // 16)
    else:
        D = euclidean_distances(X, squared=True) if squared else manhattan_distances(X)
    distances = D[~np.tri(len(D), dtype=bool)]
    # Because of rounding, distances between equal rows are not exactly zero.
    distances = distances[distances > 1e-14 * distances.max(initial=0.0)]
    return float(np.median(distances)) if distances.size else 1.0


def kernel_diagonal(X: Any, kernel: Kernel, params: dict[str, Any]) -> np.ndarray:
    """Kernel of every row with itself."""
    n = X.shape[0]
    if kernel == "precomputed":
        return np.array(np.diag(X), np.float64)
    if kernel in ("rbf", "laplacian", "cosine"):
        return np.ones(n)
    if kernel == "linear":
        square = X.multiply(X) if sparse.issparse(X) else X * X
        return np.asarray(square.sum(axis=1), np.float64).ravel()
    return np.array([evaluate_kernel(X[[i]], X[[i]], kernel, params)[0, 0] for i in range(n)])


def check_precomputed(K: np.ndarray) -> None:
    """A precomputed kernel must be a symmetric square matrix."""
    if sparse.issparse(K):
        raise ValueError("kernel='precomputed' needs a dense matrix, got a sparse one.")
    if K.shape[0] != K.shape[1]:
        raise ValueError(
            f"kernel='precomputed' needs a square matrix at fit, got shape {K.shape}. "
            "Pass the kernel between all training rows."
        )
    off = float(np.abs(K - K.T).max())
    largest = float(np.abs(K).sum(axis=1).max())  # bounds the largest eigenvalue
    if off > 1e-6 * max(float(np.abs(K).max()), 1e-300):
        raise ValueError(
            f"kernel='precomputed' needs a symmetric matrix; entries differ by up to {off:.3g} "
            "from their mirror image. Pass (K + K.T) / 2 if that is what you mean."
        )
    if largest == 0.0:
        raise ValueError("kernel='precomputed': all entries of the kernel matrix are zero.")
    if K.shape[0] > CHECKED_ROWS:
        return
    try:
        shifted = K + 1e-6 * largest * np.eye(K.shape[0])
        interruptible(len(K), np.linalg.cholesky, shifted)
    except np.linalg.LinAlgError:
        lowest = interruptible(len(K), np.linalg.eigvalsh, K)[0]
        raise ValueError(
            f"kernel='precomputed' is not positive semi-definite: its smallest eigenvalue is "
            f"{lowest:.3g} (largest below {largest:.3g}). Add {-lowest:.3g} to its diagonal."
        ) from None
