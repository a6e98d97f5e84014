"""Recursive two-way splits: a tree of linear functions whose leaves are the clusters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .dedup import FitInput
from .descent import CALLBACK, CONVERGED, MAX_ITER, STALLED, TIME, Outcome
from .features import centred_rows
from .init import fitted_kmeans
from .model import Model, falling_sizes
from .rows import Rows, weighted_sum
from .size_floor import Sizes, size_floor

OFF_FLOOR = 1e3  # added to the objective of a labelling that misses the size floor


@dataclass(frozen=True)
class Tree:
    """A binary tree of splits."""

    leaves: np.ndarray  # (n,): leaf of every row
    # (k, k - 1): for each leaf the sign it needs at each split, 0 for splits not on its path
    paths: np.ndarray
    # what ``split`` returned, in the order of the columns of ``paths``; None for a split that no
    # row passes
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
        # Without room in any leaf (equal rows forbid the sizes), the most urgent of all.
        roomy = np.array(room) > 1
        chosen = int(np.argmax(np.where(roomy | ~roomy.any(), urgency, -np.inf)))
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


def clusters_that_fit(weight: float, floor: float, n_rows: int) -> int:
    """How many clusters of weight ``floor`` some rows can be split into.

    Examples
    --------
    >>> clusters_that_fit(10.0, 3.0, n_rows=10)
    3
    """
    if floor <= 0:
        return n_rows
    return min(n_rows, int(min(weight, (n_rows + 1) * floor) / floor + 1e-9))


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
    if (labels == labels[0]).all():  # classes must be separated even if their means are equal
        labels = np.arange(len(means)) > 0
    return np.where(labels == labels[0], -1, 1)


def cluster_order(leaves: np.ndarray, sample: FitInput, k: int) -> np.ndarray:
    """Leaf of each cluster number: leaves with known labels keep them, the rest by falling size.

    Examples
    --------
    >>> from maxmargin._core.dedup import make_input
    >>> from maxmargin._data.source import MemoryRows
    >>> X = MemoryRows(np.arange(4.0)[:, None])
    >>> sample = make_input(X, None, np.array([-1, -1, -1, 0]), merge=False)
    >>> cluster_order(np.array([0, 0, 1, 2]), sample, 3)
    array([2, 0, 1])
    """
    order, known = np.full(k, -1), sample.known
    for leaf, label in zip(leaves[known >= 0], known[known >= 0]):
        order[label] = leaf
    rows = np.argsort(sample.source)
    sizes = falling_sizes(leaves[rows], sample.weights[rows], k)
    order[order < 0] = [leaf for leaf in sizes if leaf not in order]
    return order


def worst_reason(reasons: list[str]) -> str:
    """Return the most serious stop reason of all splits.

    Examples
    --------
    >>> worst_reason(["converged", "max_iter", "stalled"])
    'max_iter'
    """
    ranked = [CONVERGED, STALLED, CALLBACK, TIME, MAX_ITER]
    return max(reasons, key=ranked.index, default=CONVERGED)


# -- splits in feature space ---------------------------------------------------------------------


@dataclass(frozen=True)
class SplitState:
    """Labels and linear model of a two-way split."""

    signs: np.ndarray
    coef: np.ndarray
    bias: float = 0.0
    threshold_bias: float = 0.0
    objective: float = np.inf


@dataclass(frozen=True)
class FittedSplit:
    """One split in the coordinates of the root's features."""

    coef: np.ndarray
    intercept: float
    outcome: Outcome
    alpha: float
    weight: float


def recursive_splits(
    rows: Rows,
    sample: FitInput,
    fmap: Any,
    n_clusters: int,
    balance: float,
    split_leaf: Callable[..., tuple[np.ndarray, FittedSplit]],
) -> Model:
    """Return clusters by two-way splits of the most scattered leaf (section IV-C).

    ``split_leaf(indices, known, sizes) -> (signs, FittedSplit)`` splits some rows, of which the
    side is known where ``known`` is -1 or +1.
    """
    known, total = sample.known, sample.weights.sum()
    floor = size_floor(balance, total, n_clusters, sample.whole)

    def split(indices: np.ndarray, clusters: int) -> tuple[np.ndarray, Any]:
        fixed = sides_of(rows, known[indices], indices, sample.rng)
        classes = [len(np.unique(known[indices][fixed == side])) for side in (-1, 1)]
        share = sample.weights[indices].sum() / total
        side = balance * total * even_share(share, n_clusters)
        sizes = Sizes(floor, clusters, side, *np.maximum(classes, 1))
        return split_leaf(indices, fixed, sizes)

    def capacity(indices: np.ndarray) -> int:
        # Known classes must be separated even if there is no room.
        classes = len(np.unique(known[indices][known[indices] >= 0]))
        if len(indices) < 2:
            return max(len(indices), classes)
        if _scatter(rows.part(indices), sample.weights[indices]) == 0:
            return max(1, classes)
        room = clusters_that_fit(sample.weights[indices].sum(), floor, len(indices))
        return max(room, classes)

    def priority(indices: np.ndarray) -> float:
        # Leaves that still mix known classes come first, then the most scattered.
        if len(np.unique(known[indices][known[indices] >= 0])) > 1:
            return np.inf
        return _scatter(rows.part(indices), sample.weights[indices])

    tree = grow_tree(rows.shape[0], n_clusters, split, priority, capacity)
    order = cluster_order(tree.leaves, sample, n_clusters)
    return replace(_as_model(tree, order, fmap, rows.shape[1]), balance=balance)


def leaf_rows(rows: Rows, indices: np.ndarray, weights: np.ndarray) -> tuple[Rows, Rows]:
    """Rows of a leaf, centred and scaled on their own: as they are read, and stored."""
    if len(indices) == rows.shape[0]:
        return rows, rows
    local = centred_rows(rows.part(indices), weights)[0]
    return local, local.stored()


def oriented_split(
    outcome: Outcome, rows: Rows, local: Rows, weights: np.ndarray, alpha: float
) -> tuple[np.ndarray, FittedSplit]:
    """Labels and model of a split, the model in terms of the root's features."""
    state = outcome.state
    coef, intercept = in_root_features(state.coef, state.threshold_bias, rows, local)
    signs = state.signs
    # A direction of its own for every split, whatever way the search came: the lighter side is +.
    balance = float(weights @ signs)
    if balance > 0 or (balance == 0 and signs[0] > 0):
        signs, coef, intercept = -signs, -coef, -intercept
    return signs, FittedSplit(coef, intercept, outcome, alpha, float(weights.sum()))


def in_root_features(coef: np.ndarray, bias: Any, rows: Rows, local: Rows) -> tuple[Any, Any]:
    """Models of some rows, ``(x - o) s`` with their own centre and scale, in terms of all rows'."""
    # Rows that are all equal have the scale 0: no direction of theirs counts.
    coef = coef * (local.scale / rows.scale if rows.scale > 0 else 0.0)
    if local is rows:
        return coef, bias
    assert local.offset is not None
    root_offset = 0.0 if rows.offset is None else rows.offset
    centre = (local.offset - root_offset) * rows.scale
    return coef, bias - coef @ centre


def check_known_sizes(known: np.ndarray, weights: np.ndarray, floor: float) -> None:
    """Raise an error if known labels leave one side of a split below its floor."""
    heavier = max(weights[known < 0].sum(), weights[known > 0].sum())
    if heavier > 0 and heavier > weights.sum() - floor + 1e-9 * floor:
        raise ValueError(
            f"partial_labels put a weight of {heavier:g} of {weights.sum():g} on one side of a "
            f"split, but balance requires at least {floor:g} on the other. Lower balance."
        )


def sides_of(
    rows: Rows, labels: np.ndarray, indices: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Side of every row of a leaf by its class, 0 where unknown; one class alone stays together."""
    classes = np.unique(labels[labels >= 0])
    sides = np.zeros(len(indices), np.int8)
    if len(classes) == 1:
        sides[labels >= 0] = -1
    elif len(classes) > 1:
        members = [rows.take(indices[labels == c]) for c in classes]
        shares = [np.full((part.shape[0], 1), 1.0 / part.shape[0]) for part in members]
        means = np.stack([weighted_sum(*pair)[0] for pair in zip(members, shares)])
        for label, side in zip(classes, two_groups(means, int(rng.integers(2**31 - 1)))):
            sides[labels == label] = side
    return sides


def _scatter(rows: Rows, weights: np.ndarray) -> float:
    """Weighted sum of squared distances to the mean: tight clusters are left whole."""
    scale = centred_rows(rows, weights)[2]
    return float(weights.sum() / scale**2) if scale > 0 else 0.0


def _as_model(tree: Tree, order: np.ndarray, fmap: Any, width: int) -> Model:
    stump = FittedSplit(
        np.zeros(width), -1.0, Outcome(SplitState(np.zeros(0), np.zeros(0)), 0.0), 0.0, 0.0
    )
    splits = [stump if s is None else s for s in tree.splits]
    total = sum(s.weight for s in splits)
    return Model(
        features=fmap,
        coef=np.array([s.coef for s in splits]).reshape(len(splits), width),
        intercept=np.array([s.intercept for s in splits]),
        paths=tree.paths[order].astype(np.float64),
        objective=sum(s.weight * s.outcome.state.objective for s in splits if s.weight)
        / max(total, 1e-300),
        # Steps below the size floor include a penalty, which is not part of the objective.
        history=[value for s in splits for value in s.outcome.history if value < OFF_FLOOR],
        n_iter=sum(s.outcome.n_iter for s in splits),
        stop_reason=worst_reason([s.outcome.stop_reason for s in splits]),
        extras={"alpha_": splits[0].alpha if splits else 0.0},
    )
