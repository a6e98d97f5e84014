"""The size floor, and the balanced bias: equations (8) and (9) of Zhang, Tsang & Kwok (2009).

Given scores g without a bias, find labels y in {-1, +1} and a bias b that minimise

    sum_i w_i L(y_i, g_i + b)    with at least ``floor`` of the weight on either side.

By the paper's Propositions 1 and 2 the best labels are a split of the sorted scores. The paper
tries the midpoints between neighbours as biases; here the bias is the exact minimiser at every
split, so that the step never raises the objective.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace

import numpy as np

from .numba_splits import best_piecewise_split

LOSSES = ("laplacian", "squared", "hinge")


@dataclass(frozen=True)
class Sizes:
    """Minimum sizes of the two sides of a split.

    Attributes
    ----------
    floor : float
        Least weight of a cluster, and so of a side.
    clusters : int
        How many clusters of weight ``floor`` the two sides together must have room for.
    side : float
        Minimum weight of a side if more splits follow, so that splits do not separate one cluster
        after the other; ignored if it contradicts the other bounds.
    below, above : int
        Minimum number of clusters on the negative and on the positive side.
    """

    floor: float = 0.0
    clusters: int = 2
    side: float = 0.0
    below: int = 1
    above: int = 1

    def scaled(self, share: float) -> Sizes:
        """The same for a subsample that has ``share`` of the weight."""
        return replace(self, floor=self.floor * share, side=self.side * share)


@dataclass(frozen=True)
class Split:
    """A labelling of the rows by a threshold on their scores.

    Attributes
    ----------
    signs : ndarray of shape (n,), int8
        -1 or +1 per row.
    bias : float
        The regression's bias: the minimiser of the loss for these labels.
    threshold_bias : float
        The bias whose sign rule gives these labels: ``bias`` itself where its sign rule does, else
        minus the middle of the gap between the two sides.
    cost : float
        Total weighted loss at ``bias``.
    shortfall : float
        By how much weight the smaller side misses the floor: 0 unless tied scores forbid it.
    """

    signs: np.ndarray
    bias: float
    threshold_bias: float
    cost: float
    shortfall: float


def size_floor(balance: float, total: float, n_clusters: int, whole: bool = True) -> float:
    """Least weight of a cluster: ``int(balance * n / k)``, not rounded for fractional weights.

    Any balance above 0 requires at least one row.

    Examples
    --------
    >>> size_floor(0.94, 357, 2)
    167.0
    """
    floor = balance * total / n_clusters
    if not whole or floor == 0:
        return floor
    return float(max(1, int(floor + 1e-9)))


def warn_short(balance: float, missing: float, floor: float) -> None:
    """Warn that a cluster is smaller than its minimum size."""
    warnings.warn(
        f"balance={balance} cannot be met: equal rows or weights leave a cluster {missing:g} short "
        f"of {floor:g}. The nearest possible sizes are used.",
        UserWarning,
        stacklevel=3,
    )


def loss_kinks(loss: str, epsilon: float = 0.0) -> np.ndarray:
    """(low, high) of a row labelled -1, then of one labelled +1, between which it costs nothing.

    Examples
    --------
    >>> loss_kinks("hinge")
    array([-inf,  -1.,   1.,  inf])
    """
    if loss == "hinge":
        return np.array([-np.inf, -1.0, 1.0, np.inf])
    return np.array([-1.0 - epsilon, -1.0 + epsilon, 1.0 - epsilon, 1.0 + epsilon])


def row_losses(signs: np.ndarray, fitted: np.ndarray, loss: str, epsilon: float = 0.0):
    """Loss of every row, L(y, f).

    Examples
    --------
    >>> row_losses(np.array([1, -1]), np.array([3.0, 0.0]), "hinge")
    array([0., 1.])
    """
    if loss == "squared":
        return (fitted - signs) ** 2
    kinks = loss_kinks(loss, epsilon)
    low = np.where(signs > 0, kinks[2], kinks[0])
    high = np.where(signs > 0, kinks[3], kinks[1])
    return np.maximum(0.0, np.maximum(low - fitted, fitted - high))


def balanced_split(
    scores: np.ndarray,
    loss: str,
    *,
    sizes: Sizes | float = 0.0,
    weights: np.ndarray | None = None,
    epsilon: float = 0.0,
    known: np.ndarray | None = None,
    midpoints: bool = False,
) -> Split:
    """Exact joint minimiser over labels and bias, in O(n log n).

    Parameters
    ----------
    scores : ndarray of shape (n,)
        Scores without a bias.
    loss : {"laplacian", "squared", "hinge"}
    sizes : Sizes or float
        What is asked of the sides; a number is their least weight.
    weights : ndarray of shape (n,), optional
    epsilon : float
        Half width of the insensitive zone of the Laplacian loss.
    known : ndarray of shape (n,), optional
        -1 or +1 where the label is given, 0 where it is free.
    midpoints : bool
        Take minus the middle between neighbouring scores as the bias of each split, as the paper
        does, instead of the best bias.

    Examples
    --------
    >>> split = balanced_split(np.array([-2.0, -1.0, 0.5, 3.0]), "squared", sizes=2)
    >>> split.signs
    array([-1, -1,  1,  1], dtype=int8)
    """
    if not np.isfinite(scores).all():
        raise ValueError("scores must be finite numbers to be split; raise alpha or rescale X.")
    n = scores.shape[0]
    weights = np.ones(n) if weights is None else weights
    known = np.zeros(n, np.int8) if known is None else known
    order = np.argsort(scores)
    g, w, fixed = scores[order], weights[order], known[order]
    masses = [np.where(fixed == side, w, 0.0) for side in (0, -1, 1)]
    sizes = sizes if isinstance(sizes, Sizes) else Sizes(float(sizes))
    allowed, shortfall = _allowed_splits(g, masses, sizes)
    search = _best_squared_split if loss == "squared" else _best_piecewise
    biases = _midpoint_biases(g) if midpoints else np.zeros(0)
    position, bias, cost = search(g, allowed, biases, masses, loss_kinks(loss, epsilon))
    sorted_signs = np.where(np.arange(n) < position, -1, 1).astype(np.int8)
    sorted_signs = np.where(fixed == 0, sorted_signs, fixed).astype(np.int8)
    signs = np.empty(n, np.int8)
    signs[order] = sorted_signs
    free = g[fixed == 0]
    below = int(np.count_nonzero(fixed[:position] == 0))
    return Split(signs, bias, _threshold_bias(free, below, bias), max(cost, 0.0), shortfall)


def sign_split(
    scores: np.ndarray,
    bias: float,
    loss: str,
    *,
    weights: np.ndarray,
    epsilon: float = 0.0,
    known: np.ndarray,
) -> Split:
    """Best labels for scores and a given bias: their signs, without a minimum size.

    Without a minimum size the joint minimiser over labels and bias is a single cluster.

    Examples
    --------
    >>> free = np.zeros(2, np.int8)
    >>> sign_split(np.array([-1.0, 3.0]), 0.5, "hinge", weights=np.ones(2), known=free).cost
    0.5
    """
    fitted = scores + bias
    signs = np.where(known == 0, np.where(fitted > 0, 1, -1), known).astype(np.int8)
    cost = float(weights @ row_losses(signs, fitted, loss, epsilon))
    return Split(signs, bias, bias, cost, 0.0)


def signed_or_balanced_split(
    scores: np.ndarray,
    bias: float,
    loss: str,
    *,
    sizes: Sizes,
    weights: np.ndarray,
    known: np.ndarray,
) -> Split:
    """Signs of ``scores + bias`` where they meet the sizes, else the best cut that does.

    Examples
    --------
    >>> g, rows = np.array([1.0, 2.0, 3.0, -1.0]), {"weights": np.ones(4), "known": np.zeros(4)}
    >>> signed_or_balanced_split(g, 0.0, "hinge", sizes=Sizes(floor=2), **rows).signs
    array([-1,  1,  1, -1], dtype=int8)
    """
    split = sign_split(scores, bias, loss, weights=weights, known=known)
    if meets_sizes(split.signs, weights, sizes):
        return split
    # At least one row on either side in any case.
    wanted = replace(sizes, floor=max(sizes.floor, float(weights.min())))
    return balanced_split(scores, loss, sizes=wanted, weights=weights, known=known)


def meets_sizes(signs: np.ndarray, weights: np.ndarray, sizes: Sizes) -> bool:
    """Whether both sides have rows, and room for the clusters they shall hold.

    Examples
    --------
    >>> signs, weights = np.array([1, 1, -1, -1, -1]), np.ones(5)
    >>> meets_sizes(signs, weights, Sizes(floor=2)), meets_sizes(signs, weights, Sizes(floor=3))
    (True, False)
    """
    sides = np.array([weights[signs < 0].sum(), weights[signs > 0].sum()]) * (1 + 1e-9)
    if sides.min() <= 0 or sides.min() < sizes.side:
        return False
    if sizes.floor == 0:
        return True
    room = _room(sides, sizes.floor, sizes.clusters)
    least = np.array([sizes.below, sizes.above])
    return bool((room >= least).all() and room.sum() >= sizes.clusters)


def _room(weight: np.ndarray, floor: float, most: int) -> np.ndarray:
    """How many clusters of weight ``floor`` there is room for, counted up to ``most``."""
    return np.floor(np.minimum(weight, most * floor) / floor + 1e-9)


def _prefix(values: np.ndarray) -> np.ndarray:
    return np.concatenate([[0.0], np.cumsum(values)])


def _allowed_splits(g, masses, sizes: Sizes) -> tuple[np.ndarray, float]:
    """Splits between distinct scores that meet the sizes, or else miss the floor by the least."""
    free, negative, positive = masses
    floor = sizes.floor
    below = _prefix(free) + negative.sum()
    above = below[-1] - below + positive.sum()
    smaller = np.minimum(below, above)
    missing = np.maximum(0.0, floor * sizes.below - below)
    missing = np.maximum(missing, floor * sizes.above - above)
    if sizes.clusters > 2 and floor > 0:
        room = _room(below, floor, sizes.clusters) + _room(above, floor, sizes.clusters)
        missing = np.maximum(missing, floor * np.maximum(0.0, sizes.clusters - room))
    # A cut inside a group of tied scores breaks the sign rule.
    missing[1:-1][g[:-1] == g[1:]] = np.inf
    least = missing.min()
    slack = 1e-9 * (below[-1] + positive.sum())
    allowed = missing <= least + slack
    even = allowed & (smaller >= sizes.side - slack)
    return even if even.any() else allowed, float(least) if least > slack else 0.0


def _midpoint_biases(g: np.ndarray) -> np.ndarray:
    """Minus the middle of each gap between sorted scores, and a step beyond either end."""
    ends = np.concatenate([[g[0] - 1.0], g, [g[-1] + 1.0]])
    return -0.5 * (ends[:-1] + ends[1:])


def _best_piecewise(g, allowed, biases, masses, kinks) -> tuple[int, float, float]:
    counters = np.where(kinks == np.inf, g.shape[0], 0).astype(np.int64)
    sums = [_prefix(part) for m in masses for part in (m, m * g)]
    return best_piecewise_split(g, allowed, biases, kinks, counters, *sums)


def _best_squared_split(g, allowed, biases, masses, _kinks) -> tuple[int, float, float]:
    """At every split b = mean(y - g) and the cost is the variance of y - g, from prefix sums."""
    free, negative, positive = masses
    total = free.sum() + negative.sum() + positive.sum()
    # Targets t = y - g: with all free rows at +1, then one more at -1 per split.
    all_up = g * (free + negative + positive)
    sum_t = positive.sum() + free.sum() - negative.sum() - all_up.sum() - 2.0 * _prefix(free)
    squares = (free * (1 - g) ** 2 + positive * (1 - g) ** 2 + negative * (1 + g) ** 2).sum()
    # (-1 - g)^2 - (1 - g)^2 = 4 g
    cost = squares + 4.0 * _prefix(free * g) - sum_t**2 / total
    best = sum_t / total
    if biases.size:
        cost = cost + total * (biases - best) ** 2
        best = biases
    position = int(np.argmin(np.where(allowed, cost, np.inf)))
    return position, float(best[position]), float(cost[position])


def _threshold_bias(free: np.ndarray, below: int, bias: float) -> float:
    """A bias whose sign rule puts ``below`` of the sorted free scores on the negative side."""
    if free.size == 0:
        return bias
    if below == 0:
        return bias if free[0] + bias > 0 else 1.0 - free[0]
    if below == free.size:
        return bias if free[-1] + bias < 0 else -1.0 - free[-1]
    low, high = -free[below], -free[below - 1]
    gap = high - low
    if low < bias < high:
        # Not too close to the edges: predict must give the same labels in spite of rounding.
        return float(np.clip(bias, low + 0.01 * gap, high - 0.01 * gap))
    return float(0.5 * (low + high))
