"""Many clusters by recursive two-way splits (section IV-C of Zhang, Tsang & Kwok 2009).

A tree is grown one split at a time; each split is a linear function in feature space, and a row
belongs to the leaf whose splits all point its way. The score of a leaf is the smallest signed score
along its path, so that the largest score names the leaf that a walk down the tree reaches.

===========================================  ==========================
in the paper                                 here
===========================================  ==========================
binary clustering performed recursively      ``grow_tree``
===========================================  ==========================
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.cluster import KMeans


@dataclass(frozen=True)
class Tree:
    """A binary tree of splits.

    Attributes
    ----------
    leaves : ndarray of shape (n,)
        Leaf of every row.
    paths : ndarray of shape (k, k - 1), int8
        For each leaf the sign it needs at each split, 0 for splits not on its path.
    splits : list
        What ``split`` returned, in the order of the columns of ``paths``.
    """

    leaves: np.ndarray
    paths: np.ndarray
    splits: list[Any]


def grow_tree(
    n_rows: int,
    n_leaves: int,
    split: Callable[[np.ndarray], tuple[np.ndarray, Any]],
    priority: Callable[[np.ndarray], float],
) -> Tree:
    """Split the leaf of highest priority until there are ``n_leaves``.

    Parameters
    ----------
    split : callable
        ``split(rows) -> (signs, model)`` for the row numbers of a leaf.
    priority : callable
        ``priority(rows) -> float``; a leaf with -inf is never split.

    Examples
    --------
    >>> X = np.array([0.0, 1.0, 10.0, 11.0, 30.0])
    >>> def halve(rows):
    ...     threshold = X[rows].mean()
    ...     return np.where(X[rows] > threshold, 1, -1), threshold
    >>> grow_tree(5, 3, halve, priority=lambda rows: X[rows].std()).leaves
    array([0, 0, 2, 2, 1])
    """
    leaves = np.zeros(n_rows, np.int64)
    paths = np.zeros((n_leaves, n_leaves - 1), np.int8)
    splits: list[Any] = []
    members = [np.arange(n_rows)]
    while len(members) < n_leaves:
        chosen = int(np.argmax([priority(rows) for rows in members]))
        rows = members[chosen]
        signs, model = split(rows)
        new, column = len(members), len(splits)
        paths[new] = paths[chosen]
        paths[chosen, column], paths[new, column] = -1, 1
        leaves[rows[signs > 0]] = new
        members[chosen] = rows[signs < 0]
        members.append(rows[signs > 0])
        splits.append(model)
    return Tree(leaves, paths, splits)


def two_groups(means: np.ndarray, seed: int) -> np.ndarray:
    """Sign of each class when classes, given by their means, must go to two sides.

    Examples
    --------
    >>> two_groups(np.array([[0.0], [1.0], [9.0]]), seed=0)
    array([-1, -1,  1])
    """
    if len(means) == 2:
        return np.array([-1, 1])
    labels = KMeans(2, n_init=10, random_state=seed).fit(means).labels_
    return np.where(labels == labels[0], -1, 1)


def cluster_order(leaves: np.ndarray, known: np.ndarray, weights: np.ndarray, k: int) -> np.ndarray:
    """Leaf of each cluster number: leaves with known labels keep them, the rest by falling size.

    Examples
    --------
    >>> cluster_order(np.array([0, 0, 1, 2]), np.array([-1, -1, -1, 0]), np.ones(4), 3)
    array([2, 0, 1])
    """
    order = np.full(k, -1)
    for leaf, label in zip(leaves[known >= 0], known[known >= 0]):
        order[label] = leaf
    sizes = np.bincount(leaves, weights, minlength=k)
    rest = [leaf for leaf in np.argsort(-sizes, kind="stable") if leaf not in order]
    order[order < 0] = rest
    return order
