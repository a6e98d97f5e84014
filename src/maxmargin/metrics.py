"""Scores of a clustering against known classes, as the papers define them.

Each takes the classes first and the cluster labels second, as in :mod:`sklearn.metrics`, whose
other scores are re-exported here.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import (
    adjusted_mutual_info_score,
    adjusted_rand_score,
    normalized_mutual_info_score,
    rand_score,
)
from sklearn.metrics.cluster import contingency_matrix
from sklearn.utils import check_consistent_length, column_or_1d

__all__ = [
    "adjusted_mutual_info_score",
    "adjusted_rand_score",
    "balanced_clustering_error",
    "clustering_accuracy",
    "clustering_error",
    "normalized_mutual_info",
    "normalized_mutual_info_score",
    "rand_index",
    "rand_score",
]


def _contingency(y_true, labels) -> np.ndarray:
    y_true, labels = column_or_1d(y_true), column_or_1d(labels)
    check_consistent_length(y_true, labels)
    if len(y_true) == 0:
        raise ValueError("y_true and labels are empty; at least one row is needed.")
    return contingency_matrix(y_true, labels)


def _cluster_classes(table: np.ndarray, mapping: str) -> np.ndarray:
    """Class given to each cluster, -1 for a cluster left over by a one-to-one mapping."""
    if mapping == "majority":
        return table.argmax(axis=0)
    if mapping != "one-to-one":
        raise ValueError(f"mapping must be 'one-to-one' or 'majority', got {mapping!r}.")
    classes, clusters = linear_sum_assignment(-table)
    out = np.full(table.shape[1], -1)
    out[clusters] = classes
    return out


def _hits_per_class(table: np.ndarray, mapping: str) -> np.ndarray:
    hits = np.zeros(table.shape[0])
    for cluster, assigned in enumerate(_cluster_classes(table, mapping)):
        if assigned >= 0:
            hits[assigned] += table[assigned, cluster]
    return hits


def clustering_accuracy(y_true, labels, mapping: str = "one-to-one") -> float:
    """Share of the rows whose cluster is mapped to their class.

    Parameters
    ----------
    y_true, labels : array-like of shape (n,)
    mapping : {"one-to-one", "majority"}
        "one-to-one" gives every cluster a class of its own (the best such matching); "majority"
        gives every cluster its most frequent class, which never scores lower and can be high where
        one class dominates.

    Examples
    --------
    >>> clustering_accuracy([0, 0, 0, 1], [1, 1, 0, 0])
    0.75
    >>> clustering_accuracy([0, 0, 0, 1], [0, 0, 1, 2], mapping="majority")
    1.0
    """
    table = _contingency(y_true, labels)
    return float(_hits_per_class(table, mapping).sum() / table.sum())


def clustering_error(y_true, labels, mapping: str = "one-to-one") -> float:
    """One minus :func:`clustering_accuracy`.

    Examples
    --------
    >>> clustering_error([0, 0, 1, 1], [1, 1, 1, 0])
    0.25
    """
    return 1.0 - clustering_accuracy(y_true, labels, mapping)


def balanced_clustering_error(y_true, labels, mapping: str = "one-to-one") -> float:
    """Error averaged over the classes (Zhang, Tsang & Kwok 2009, section IV-C).

    The mapping is the one that is best for this score, not for plain accuracy.

    Examples
    --------
    >>> balanced_clustering_error([0, 0, 0, 1], [0, 0, 0, 0])
    0.5
    """
    table = _contingency(y_true, labels)
    recall = table / table.sum(axis=1, keepdims=True)
    return float(1.0 - _hits_per_class(recall, mapping).sum() / table.shape[0])


def rand_index(y_true, labels) -> float:
    """Share of the pairs of rows on which classes and clusters agree (not adjusted for chance).

    Examples
    --------
    >>> rand_index([0, 0, 1, 1], [0, 0, 1, 1])
    1.0
    """
    return float(rand_score(y_true, labels))


def normalized_mutual_info(y_true, labels) -> float:
    """Mutual information over the geometric mean of the entropies, the papers' NMI.

    scikit-learn's default divides by the arithmetic mean.

    Examples
    --------
    >>> round(normalized_mutual_info([0, 0, 1, 1], [1, 1, 0, 0]), 6)
    1.0
    """
    return float(normalized_mutual_info_score(y_true, labels, average_method="geometric"))
