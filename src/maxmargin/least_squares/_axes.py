"""Axes that raw rows are projected on before kernels are evaluated."""

from __future__ import annotations

import numpy as np
from scipy import sparse

SHRINKAGE = 0.05  # of the covariance within clusters towards a multiple of I


def whitening_axes(X, labels, weights, shrinkage: float = SHRINKAGE) -> np.ndarray:
    """Axes (d, d) in which the covariance within clusters, a little shrunk, is the identity.

    Examples
    --------
    >>> X = np.array([[0.0, -1.0], [0.0, 1.0], [9.0, -1.0], [9.0, 1.0]])
    >>> axes = whitening_axes(X, np.array([0, 0, 1, 1]), np.ones(4), shrinkage=0.5)
    >>> np.abs(axes).max(axis=0).round(6)
    array([1.154701, 2.      ])
    """
    share = weights / weights.sum()
    X = np.asarray(X, np.float64)
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
    return V[:, ::-1] / np.sqrt(lam[::-1])


def principal_axes(X, offset, weights, count: int) -> np.ndarray:
    """Leading principal axes (d, count) of weighted dense rows."""
    if sparse.issparse(X):
        raise ValueError(
            "pca needs dense rows; use kernel='cosine' or TruncatedSVD on sparse ones."
        )
    centred = (np.asarray(X, np.float64) - offset) * np.sqrt(weights / weights.sum())[:, None]
    axes = np.linalg.eigh(centred.T @ centred)[1][:, ::-1][:, :count]
    return axes * np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(axes.shape[1])])
