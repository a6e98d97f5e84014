"""Scores that compare clusters with known classes, as defined in the papers.

As in :mod:`sklearn.metrics`, the first argument are the classes and the second the cluster labels.
scikit-learn's own scores for clusterings are re-exported.
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


def _hits(table: np.ndarray, mapping: str) -> float:
    """Return the sum of the entries of every cluster and its class."""
    if mapping == "majority":
        return float(table.max(axis=0).sum())
    if mapping != "one-to-one":
        raise ValueError(f"mapping must be 'one-to-one' or 'majority', got {mapping!r}.")
    return float(table[linear_sum_assignment(table, maximize=True)].sum())


def clustering_accuracy(y_true, labels, mapping: str = "one-to-one") -> float:
    """Return the fraction of rows whose cluster is mapped to their class.

    Parameters
    ----------
    y_true, labels : array-like of shape (n_samples,)
        Class and cluster of every row.
    mapping : {"one-to-one", "majority"}, default="one-to-one"
        "one-to-one" matches each cluster to a different class (the best such matching); "majority"
        assigns each cluster its most frequent class, which never scores lower and can be high if
        one class dominates.

    Returns
    -------
    float
        Accuracy between 0 and 1.

    See Also
    --------
    clustering_error : One minus the accuracy.
    sklearn.metrics.adjusted_rand_score : Agreement adjusted for chance.

    Examples
    --------
    >>> clustering_accuracy([0, 0, 0, 1], [1, 1, 0, 0])
    0.75
    >>> clustering_accuracy([0, 0, 0, 1], [0, 0, 1, 2], mapping="majority")
    1.0
    """
    table = _contingency(y_true, labels)
    return _hits(table, mapping) / float(table.sum())


def clustering_error(y_true, labels, mapping: str = "one-to-one") -> float:
    """Return one minus :func:`clustering_accuracy`.

    Parameters
    ----------
    y_true, labels : array-like of shape (n_samples,)
        Class and cluster of every row.
    mapping : {"one-to-one", "majority"}, default="one-to-one"
        See :func:`clustering_accuracy`.

    Returns
    -------
    float
        Error between 0 and 1.

    See Also
    --------
    clustering_accuracy : One minus the error.
    balanced_clustering_error : The mean of the classes' errors.

    Examples
    --------
    >>> clustering_error([0, 0, 1, 1], [1, 1, 1, 0])
    0.25
    """
    return 1.0 - clustering_accuracy(y_true, labels, mapping)


def balanced_clustering_error(y_true, labels, mapping: str = "one-to-one") -> float:
    """Return the error averaged over the classes (Zhang, Tsang & Kwok 2009, section IV-C).

    The mapping maximises this score, not the plain accuracy.

    Parameters
    ----------
    y_true, labels : array-like of shape (n_samples,)
        Class and cluster of every row.
    mapping : {"one-to-one", "majority"}, default="one-to-one"
        See :func:`clustering_accuracy`.

    Returns
    -------
    float
        Error between 0 and 1.

    See Also
    --------
    clustering_error : The error over all rows.

    Examples
    --------
    >>> balanced_clustering_error([0, 0, 0, 1], [0, 0, 0, 0])
    0.5
    """
    table = _contingency(y_true, labels)
    recall = table / table.sum(axis=1, keepdims=True)
    return 1.0 - _hits(recall, mapping) / len(table)


def rand_index(y_true, labels) -> float:
    """Return the fraction of pairs of rows on which classes and clusters agree.

    It is not adjusted for chance.

    Parameters
    ----------
    y_true, labels : array-like of shape (n_samples,)
        Class and cluster of every row.

    Returns
    -------
    float
        Rand index between 0 and 1.

    See Also
    --------
    sklearn.metrics.adjusted_rand_score : The Rand index adjusted for chance.

    Examples
    --------
    >>> rand_index([0, 0, 1, 1], [0, 0, 1, 1])
    1.0
    """
    return float(rand_score(y_true, labels))


def normalized_mutual_info(y_true, labels) -> float:
    """Return the mutual information divided by the geometric mean of the entropies.

    This is the papers' NMI; scikit-learn divides by the arithmetic mean by default.

    Parameters
    ----------
    y_true, labels : array-like of shape (n_samples,)
        Class and cluster of every row.

    Returns
    -------
    float
        NMI between 0 and 1.

    See Also
    --------
    sklearn.metrics.normalized_mutual_info_score : Other averages of the entropies.

    Examples
    --------
    >>> round(normalized_mutual_info([0, 0, 1, 1], [1, 1, 0, 0]), 6)
    1.0
    """
    return float(normalized_mutual_info_score(y_true, labels, average_method="geometric"))
