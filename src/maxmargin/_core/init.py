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
    model = KMeans(n_clusters, n_init=n_init, random_state=integer_seed(rng))
    with warnings.catch_warnings():
        # Few distinct rows in a sample: fewer clusters are a start, too.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X, sample_weight=weights).labels_
