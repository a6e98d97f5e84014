"""Recursive two-way splits: a tree of linear functions whose leaves are the clusters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .decisions import falling_sizes
from .descent import CALLBACK, CONVERGED, MAX_ITER, STALLED, TIME
from .samples import Sample
from .starts import fitted_kmeans


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
        What ``split`` returned, in the order of the columns of ``paths``; None for a split that no
        row passes.
    """

    leaves: np.ndarray
    paths: np.ndarray
    splits: list[Any]


def grow_tree(
    n_rows: int,
    n_leaves: int,
    split: Callable[[np.ndarray, int], tuple[np.ndarray, Any]],
    priority: Callable[[np.ndarray], float],
    capacity: Callable[[np.ndarray], int] = len,
) -> Tree:
    """Split the leaf of highest priority until there are ``n_leaves``.

    Parameters
    ----------
    split : callable
        ``split(rows, clusters) -> (signs, model)`` for the row numbers of a leaf, whose two sides
        must together have room for that many clusters.
    priority : callable
        ``priority(rows) -> float``.
    capacity : callable
        ``capacity(rows) -> int``: how many clusters fit into a leaf. While the leaves together can
        hold ``n_leaves``, one of them can be split.

    Examples
    --------
    >>> X = np.array([0.0, 1.0, 10.0, 11.0, 30.0])
    >>> def halve(rows, clusters):
    ...     threshold = X[rows].mean()
    ...     return np.where(X[rows] > threshold, 1, -1), threshold
    >>> grow_tree(5, 3, halve, priority=lambda rows: X[rows].std()).leaves
    array([0, 0, 0, 1, 2])
    """
    leaves = np.zeros(n_rows, np.int64)
    paths = np.zeros((n_leaves, n_leaves - 1), np.int8)
    splits: list[Any] = []
    members = [np.arange(n_rows)]
    urgency, room = [0.0], [n_leaves]
    while len(members) < n_leaves:
        chosen = _next_leaf(urgency, room)
        rows = members[chosen]
        elsewhere = sum(room) - room[chosen]
        if len(rows) < 2:
            # Nothing left to split: a cluster that stays empty.
            signs, model = np.full(len(rows), -1), None
        else:
            signs, model = split(rows, max(2, n_leaves - elsewhere))
        new, column = len(members), len(splits)
        paths[new] = paths[chosen]
        paths[chosen, column], paths[new, column] = -1, 1
        leaves[rows[signs > 0]] = new
        members[chosen] = rows[signs < 0]
        members.append(rows[signs > 0])
        urgency.append(0.0)
        room.append(0)
        for leaf in (chosen, new):
            room[leaf] = capacity(members[leaf])
            urgency[leaf] = priority(members[leaf]) if len(members[leaf]) > 1 else -np.inf
        splits.append(model)
    return Tree(leaves, paths, splits)


def _next_leaf(urgency: list[float], room: list[int]) -> int:
    """The most urgent leaf with room for two clusters, else the most urgent of all.

    The latter happens where equal rows have made the sizes asked for impossible.
    """
    enough = np.array(room) > 1
    return int(np.argmax(np.where(enough | ~enough.any(), urgency, -np.inf)))


def clusters_that_fit(weight: float, floor: float, n_rows: int) -> int:
    """How many clusters of weight ``floor`` some rows can be split into.

    Examples
    --------
    >>> clusters_that_fit(10.0, 3.0, n_rows=10)
    3
    """
    return min(n_rows, int(weight / floor + 1e-9)) if floor > 0 else n_rows


def even_share(share: float, n_clusters: int) -> float:
    """Share of all rows in the smaller side when a leaf's clusters are dealt out evenly.

    A leaf with ``share`` of the rows is expected to hold ``c = share * n_clusters`` clusters; for
    two there is nothing to add to the floor of one cluster.

    Examples
    --------
    >>> even_share(1.0, 10), round(even_share(1.0, 3), 3), even_share(1.0, 2)
    (0.5, 0.333, 0.0)
    """
    expected = round(share * n_clusters)
    return share * (expected // 2) / expected if expected > 2 else 0.0


def two_groups(means: np.ndarray, seed: int) -> np.ndarray:
    """Sign of each class when classes, given by their means, must go to two sides.

    Examples
    --------
    >>> two_groups(np.array([[0.0], [1.0], [9.0]]), seed=0)
    array([-1, -1,  1])
    """
    if len(means) == 2:
        return np.array([-1, 1])
    labels = fitted_kmeans(means, 2, seed).labels_
    if (labels == labels[0]).all():  # classes must part, be their means equal or not
        labels = np.arange(len(means)) > 0
    return np.where(labels == labels[0], -1, 1)


def cluster_order(leaves: np.ndarray, sample: Sample, k: int) -> np.ndarray:
    """Leaf of each cluster number: leaves with known labels keep them, the rest by falling size.

    Examples
    --------
    >>> from maxmargin.engine.samples import make_sample
    >>> X = np.arange(4.0)[:, None]
    >>> sample = make_sample(X, None, np.array([-1, -1, -1, 0]), merge=False)
    >>> cluster_order(np.array([0, 0, 1, 2]), sample, 3)
    array([2, 0, 1])
    """
    order, known = np.full(k, -1), sample.known
    for leaf, label in zip(leaves[known >= 0], known[known >= 0]):
        order[label] = leaf
    rows = slice(None) if sample.is_whole else np.argsort(sample.source)
    sizes = falling_sizes(leaves[rows], sample.weights[rows], k)
    order[order < 0] = [leaf for leaf in sizes if leaf not in order]
    return order


def worst_reason(reasons: list[str]) -> str:
    """Of the stop reasons of all splits, the one a user must know.

    Examples
    --------
    >>> worst_reason(["converged", "max_iter", "stalled"])
    'max_iter'
    """
    ranked = [CONVERGED, STALLED, CALLBACK, TIME, MAX_ITER]
    return max(reasons, key=ranked.index, default=CONVERGED)
