"""Recursive two-way splits: a tree of linear functions whose leaves are the clusters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .dedup import FitInput
from .descent import CALLBACK, CONVERGED, MAX_ITER, STALLED, TIME, Outcome
from .features import centre_of, centred_rows
from .init import kmeans
from .model import Model, falling_sizes
from .rows import Rows
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
    data: FitInput,
    k: int,
    floor: float,
    split: Callable[[np.ndarray, int], tuple[np.ndarray, Any]],
    scatter: Callable[[np.ndarray], float],
    priority: Callable[[np.ndarray, int], float] | None = None,
) -> Tree:
    """Split the leaf of highest priority until there are k.

    ``floor`` is the least weight of a cluster: while the leaves together have room for k clusters,
    one of them can be split. ``split(rows, clusters) -> (signs, model)`` gets the row numbers of a
    leaf, whose two sides must together have room for that many clusters. ``scatter(rows)`` is 0 for
    equal rows, which are not split. ``priority(rows, room)``, where ``room`` is the number of
    clusters that fit, is the scatter by default. Leaves that mix known classes come first.

    Examples
    --------
    >>> from maxmargin._core.dedup import make_input
    >>> from maxmargin._data.source import MemoryRows
    >>> X = np.array([0.0, 1.0, 10.0, 11.0, 30.0])
    >>> data = make_input(MemoryRows(X[:, None]), None, None, merge=False)
    >>> def halve(rows, clusters):
    ...     threshold = X[rows].mean()
    ...     return np.where(X[rows] > threshold, 1, -1), threshold
    >>> grow_tree(data, 3, 0.0, halve, lambda rows: X[rows].std()).leaves
    array([0, 0, 0, 1, 2])
    """

    def room_for(rows: np.ndarray, classes: int) -> int:
        """How many clusters fit; known classes must be separated even if there is no room."""
        n = len(rows)
        if n < 2 or scatter(rows) <= 0:
            return max(min(n, 1), classes)
        if floor <= 0:
            return n
        weight = min(data.weights[rows].sum(), (n + 1) * floor)
        return max(classes, min(n, int(weight / floor + 1e-9)))

    leaves = np.zeros(len(data.weights), np.int64)
    paths = np.zeros((k, k - 1))
    splits: list[Any] = []
    members = [np.arange(len(leaves))]
    urgency, room = [0.0], [k]
    while len(members) < k:
        # Without room in any leaf (equal rows forbid the sizes), the most urgent of all.
        roomy = np.array(room) > 1
        chosen = int(np.argmax(np.where(roomy | ~roomy.any(), urgency, -np.inf)))
        rows = members[chosen]
        if len(rows) < 2:
            # Nothing left to split: a cluster that stays empty.
            signs, model = np.full(len(rows), -1), None
        else:
            signs, model = split(rows, max(2, k - sum(room) + room[chosen]))
        new, column = len(members), len(splits)
        paths[new] = paths[chosen]
        paths[chosen, column], paths[new, column] = -1, 1
        leaves[rows[signs > 0]] = new
        members[chosen] = rows[signs < 0]
        members.append(rows[signs > 0])
        urgency.append(0.0)
        room.append(0)
        for leaf in (chosen, new):
            rows = members[leaf]
            classes = len(np.unique(data.known[rows][data.known[rows] >= 0]))
            room[leaf] = room_for(rows, classes)
            urgency[leaf] = -np.inf if len(rows) < 2 else np.inf
            if len(rows) > 1 >= classes:
                urgency[leaf] = priority(rows, room[leaf]) if priority else scatter(rows)
        splits.append(model)
    return Tree(leaves, paths, splits)


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


def two_groups(means: np.ndarray, rng: np.random.Generator | int) -> np.ndarray:
    """Sign of each class when classes, given by their means, must go to two sides.

    Examples
    --------
    >>> two_groups(np.array([[0.0], [1.0], [9.0]]), 0)
    array([-1, -1,  1])
    """
    if len(means) == 2:
        return np.array([-1, 1])
    labels, _ = kmeans(means, 2, rng)
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
    threshold_bias: float = 0.0  # its sign rule gives the labels
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
    data: FitInput,
    fmap: Any,
    k: int,
    balance: float,
    split_leaf: Callable[..., tuple[Outcome, float]],
) -> Model:
    """Return clusters by two-way splits of the most scattered leaf (section IV-C).

    ``split_leaf(indices, stored, known, sizes) -> (outcome, alpha)`` splits some rows, which are
    stored centred and scaled on their own; the side is known where ``known`` is -1 or +1. The state
    of the outcome is a :class:`SplitState`.
    """
    known, total = data.known, data.weights.sum()
    floor = size_floor(balance, total, k, data.whole)

    def split(indices: np.ndarray, clusters: int) -> tuple[np.ndarray, Any]:
        fixed, weights = sides_of(rows, known[indices], indices, data.rng), data.weights[indices]
        classes = [len(np.unique(known[indices][fixed == side])) for side in (-1, 1)]
        side = balance * total * even_share(weights.sum() / total, k)
        sizes = Sizes(floor, clusters, side, *np.maximum(classes, 1))
        check_known_sizes(fixed, weights, floor)
        local = stored = rows
        if len(indices) < rows.shape[0]:
            local = centred_rows(rows.part(indices), weights)[0]
            stored = local.stored()
        outcome, alpha = split_leaf(indices, stored, fixed, sizes)
        signs = outcome.state.signs
        # A direction of its own for every split, whatever way the search came: the lighter side +.
        lead = float(weights @ signs)
        turn = -1 if lead > 0 or (lead == 0 and signs[0] > 0) else 1
        found = outcome.state.coef, outcome.state.threshold_bias
        coef, intercept = in_root_features(*found, rows, local)
        fitted = FittedSplit(turn * coef, turn * intercept, outcome, alpha, float(weights.sum()))
        return turn * signs, fitted

    def scatter(indices: np.ndarray) -> float:
        """Weighted sum of squared distances to the mean: tight clusters are left whole."""
        weights = data.weights[indices]
        scale = centred_rows(rows.part(indices), weights)[2]
        return float(weights.sum() / scale**2) if scale > 0 else 0.0

    tree = grow_tree(data, k, floor, split, scatter)
    fitted = [s for s in tree.splits if s is not None]
    coef, intercept = np.zeros((k - 1, rows.shape[1])), np.full(k - 1, -1.0)
    for number, found in enumerate(tree.splits):
        if found is not None:
            coef[number], intercept[number] = found.coef, found.intercept
    return Model(
        features=fmap,
        coef=coef,
        intercept=intercept,
        paths=tree.paths[cluster_order(tree.leaves, data, k)],
        objective=sum(s.weight * s.outcome.state.objective for s in fitted)
        / max(sum(s.weight for s in fitted), 1e-300),
        # Steps below the size floor include a penalty, which is not part of the objective.
        history=[value for s in fitted for value in s.outcome.history if value < OFF_FLOOR],
        n_iter=sum(s.outcome.n_iter for s in fitted),
        stop_reason=worst_reason([s.outcome.stop_reason for s in fitted]),
        balance=balance,
        extras={"alpha_": fitted[0].alpha if fitted else 0.0},
    )


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
        means = np.stack([centre_of(part, np.ones(part.shape[0])) for part in members])
        for label, side in zip(classes, two_groups(means, int(rng.integers(2**31 - 1)))):
            sides[labels == label] = side
    return sides
