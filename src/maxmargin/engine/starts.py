"""Initial labels: k-means, normalized cut, random balanced. Which one to keep is decided by the
objective they lead to, never here.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import eigsh
from sklearn.cluster import KMeans

from .balance import Sizes, balanced_split
from .features import evaluate_kernel

SPECTRAL_ROWS = 2000


def integer_seed(rng: np.random.Generator) -> int:
    """A seed for scikit-learn from our generator."""
    return int(rng.integers(2**31 - 1))


def kmeans_labels(X, n_clusters: int, weights, rng, n_init: int = 10) -> np.ndarray:
    """Labels of the best of ``n_init`` runs of k-means.

    Examples
    --------
    >>> X = np.array([[0.0], [0.1], [5.0], [5.1]])
    >>> labels = kmeans_labels(X, 2, np.ones(4), np.random.default_rng(0))
    >>> bool(labels[0] == labels[1] != labels[2] == labels[3])
    True
    """
    model = KMeans(n_clusters, n_init=n_init, random_state=integer_seed(rng))
    return model.fit(X, sample_weight=weights).labels_


def spectral_signs(X, kernel_gamma: float, weights, sizes: Sizes, rng) -> np.ndarray:
    """Two-way normalized cut (Shi & Malik) with the Gaussian affinity between all rows.

    The second eigenvector of D^-1/2 K D^-1/2, scaled by D^-1/2, is split where two levels fit it
    best within the sizes asked for. A row of weight w counts as w rows.
    """
    X = X if sparse.issparse(X) else X - X.mean(axis=0)
    K = evaluate_kernel(X, X, "rbf", {"gamma": kernel_gamma})
    root = np.sqrt(weights / (K @ weights))
    K = root[:, None] * K * root[None, :]
    if K.shape[0] < 20:
        vectors = np.linalg.eigh(K)[1][:, -2:]
    else:
        vectors = eigsh(K, k=2, which="LA", v0=rng.random(K.shape[0]), tol=1e-6)[1]
    vector = vectors[:, 0] * root / weights
    spread = np.sqrt(np.average((vector - vector.mean()) ** 2, weights=weights))
    vector = vector / max(spread, 1e-300)
    return balanced_split(vector, "squared", sizes=sizes, weights=weights).signs


def random_signs(n: int, rng) -> np.ndarray:
    """A random labelling with halves of equal size.

    Examples
    --------
    >>> int(random_signs(4, np.random.default_rng(0)).sum())
    0
    """
    signs = np.ones(n, np.int8)
    signs[rng.permutation(n)[: n // 2]] = -1
    return signs
