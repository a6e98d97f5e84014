"""Clusters that differ in spread: a Gaussian mixture with one shape and a scale per cluster.

    x_i in cluster h ~ N(mu_h, s_h^2 S)

Least squares separates clusters by location. A narrow cloud inside a wide one has the same centre;
this mixture, initialised with the least-squares clusters, separates the two by scale.
"""

from __future__ import annotations

import numpy as np

ROUNDS = 200
SHRINKAGE = 0.05
SETTLED = 1e-6  # change of the mean log-likelihood


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
    k : int

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
        distances = _squared_distances(X @ whitened, means @ whitened)
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


def _squared_distances(X: np.ndarray, means: np.ndarray) -> np.ndarray:
    squares: np.ndarray = (X**2).sum(axis=1)[:, None] + (means**2).sum(axis=1) - 2.0 * X @ means.T
    squares = np.maximum(squares, 0.0)
    return squares
