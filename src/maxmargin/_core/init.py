"""Initial labels that two or more methods use."""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning


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
    return fitted_kmeans(X, n_clusters, integer_seed(rng), n_init, weights).labels_


def fitted_kmeans(X, n_clusters: int, seed: int, n_init: int = 10, weights=None) -> KMeans:
    """Fit k-means without its warning about few distinct rows, which is harmless here."""
    # The scale of weights changes no partition; their products with squares can overflow.
    weights = None if weights is None else weights / weights.max()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = KMeans(n_clusters, n_init=n_init, random_state=seed)
        return model.fit(X, sample_weight=weights)
