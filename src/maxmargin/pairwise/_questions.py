"""Which pairs to ask about next: see :mod:`maxmargin.active`."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from .._core.model import lead_of

NEAR_SHARE = 3  # rows with small margins are taken from a random third, so that they differ


def suggested_pairs(scores, n, constraints, random, asked: Iterable = ()) -> np.ndarray:
    """Return pairs to ask about, given the scores (n_samples, k) of a model and the links.

    Examples
    --------
    >>> from maxmargin import PairwiseConstraints
    >>> scores = np.array([[3.0, 0.0], [2.0, 0.0], [0.2, 0.0], [0.0, 3.0]])
    >>> links = PairwiseConstraints(4, cannot_link=[(0, 3)])
    >>> pairs = suggested_pairs(scores, 2, links, np.random.RandomState(0))
    >>> sorted(pairs[:, 0].tolist())
    [1, 2]
    """
    k, asked = scores.shape[1], {tuple(sorted(pair)) for pair in asked}
    groups, apart = constraints.closure()
    # Without links a random row is the first neighbourhood.
    known = neighbourhoods(groups, apart, k) or [int(groups[random.randint(len(groups))])]
    classes = np.full(groups.max() + 1, -1)
    classes[known] = np.arange(len(known))
    excluded = excluded_classes(classes, apart, len(known))
    if len(known) < k:
        rows = _explored(scores, groups, known, excluded, random)
    else:
        rows = _consolidated(scores, groups, classes, excluded, n, random)
    members = [np.flatnonzero(groups == g) for g in known]
    places = np.stack([scores[m].mean(axis=0) for m in members])
    found: list[tuple[int, int]] = []
    for row in rows:
        for c in np.argsort(((scores[row] - places) ** 2).sum(axis=1), kind="stable"):
            pair = (int(row), _representative(members[c], scores, row, random))
            if not excluded[groups[row], c] and tuple(sorted(pair)) not in asked:
                found.append(pair)
                break
        if len(found) >= n:
            break
    return np.array(found, np.int64).reshape(-1, 2)


def _representative(members, scores, row, random) -> int:
    """Return the member of a neighbourhood whose scores are nearest to the row's, among 50."""
    some = members if len(members) <= 50 else random.choice(members, 50, replace=False)
    return int(some[((scores[some] - scores[row]) ** 2).sum(axis=1).argmin()])


def _explored(scores, groups, known, excluded, random) -> np.ndarray:
    """Return rows with answers first, then others, those far from all neighbourhoods rather first.

    A row is a new neighbourhood only once it is known to be apart from all others.
    """
    free = np.flatnonzero(~np.isin(groups, known))
    places = np.stack([scores[groups == g].mean(axis=0) for g in known])
    chances = ((scores[free][:, None] - places[None]) ** 2).sum(axis=2).min(axis=1) + 1e-12
    free = free[np.argsort(-np.log(random.random_sample(len(free))) / chances)]
    return free[np.argsort(-excluded[groups[free]].sum(axis=1), kind="stable")]


def _consolidated(scores, groups, classes, excluded, n, random) -> np.ndarray:
    """Return unassigned rows: those with answers first, then small margins and random in turn."""
    row_class = classes[groups]
    open_rows = excluded[groups].sum(axis=1) < excluded.shape[1] - 1
    free = random.permutation(np.flatnonzero((row_class < 0) & open_rows))
    begun = free[excluded[groups[free]].any(axis=1)]
    fresh = free[~excluded[groups[free]].any(axis=1)]
    lead = lead_of(scores, scores.argmax(axis=1))
    third = fresh[: max(n, len(fresh) // NEAR_SHARE)]
    unsure = third[np.argsort(lead[third], kind="stable")]
    mixed = np.empty(2 * max(len(unsure), len(fresh)), np.int64)
    mixed[:] = -1
    mixed[0 : 2 * len(unsure) : 2] = unsure
    mixed[1 : 2 * len(fresh) : 2] = fresh[::-1]
    ordered = np.concatenate([begun, mixed[mixed >= 0]])
    return ordered[np.sort(np.unique(ordered, return_index=True)[1])]


def neighbourhoods(groups, apart, k: int) -> list[int]:
    """Return at most k groups with cannot-links between all of them, larger ones first."""
    sizes = np.bincount(groups)
    linked = np.unique(apart)
    near: dict[int, set[int]] = {}
    for a, b in apart.tolist():
        near.setdefault(a, set()).add(b)
        near.setdefault(b, set()).add(a)
    candidates = linked[np.lexsort((linked, -sizes[linked]))].tolist()
    best: list[int] = []
    for first in candidates[:50]:
        chosen = [first]
        for group in candidates:
            if len(chosen) == k:
                break
            if near[group].issuperset(chosen):
                chosen.append(group)
        if len(chosen) > len(best):
            best = chosen
        if len(best) == k:
            break
    if not best:
        largest = int(sizes.argmax())
        best = [largest] if sizes[largest] > 1 else []
    return best


def excluded_classes(classes, apart, k: int) -> np.ndarray:
    """Return whether each group (first axis) is known not to belong to each class."""
    out = np.zeros((len(classes), k), bool)
    for a, b in ((0, 1), (1, 0)):
        other = classes[apart[:, b]]
        known = other >= 0
        out[apart[known, a], other[known]] = True
    return out
