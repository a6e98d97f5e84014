r"""The size floor, and the balanced bias: equations (8) and (9) of Zhang, Tsang & Kwok (2009).

Given scores g without a bias, find labels y in {-1, +1} and a bias b that minimise

    sum_i w_i L(y_i, g_i + b)    with at least ``floor`` of the weight on either side.

By the paper's Propositions 1 and 2 the best labels are a split of the sorted scores. The paper
tries the midpoints between neighbours as biases; here the bias is the exact minimiser at every
split, so that the step never raises the objective.

For several clusters, prices are added to their scores: for a least size of each, or for even sizes
by the soft preference :math:`\tau \sum_h \pi_h \log(k \pi_h)`, the Kullback-Leibler divergence of
the clusters' shares from 1/k.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ._numba import best_piecewise_split, fill_clusters

# With unequal weights, prices cannot always attain exactly this size; then aim higher.
MARGINS = (1.0, 1.02, 1.05, 1.1, 1.2)
LEAST_SHARE = 1e-3  # of 1/k: the share at which the price of a small cluster ends to rise
RAISES, PATIENCE = 100, 20  # of prices, and of those in a row without a smaller shortfall
LOSSES = ("laplacian", "squared", "hinge")


@dataclass(frozen=True)
class Sizes:
    """Minimum sizes of the two sides of a split."""

    floor: float = 0.0  # least weight of a cluster, and so of a side
    # how many clusters of weight ``floor`` the two sides together must have room for
    clusters: int = 2
    # minimum weight of a side if more splits follow, so that splits do not separate one cluster
    # after the other; ignored if it contradicts the other bounds
    side: float = 0.0
    # below, above: minimum number of clusters on the negative and on the positive side
    below: int = 1
    above: int = 1

    def scaled(self, share: float) -> Sizes:
        """The same for a subsample that has ``share`` of the weight."""
        return replace(self, floor=self.floor * share, side=self.side * share)


@dataclass(frozen=True)
class Split:
    """A labelling of the rows by a threshold on their scores."""

    signs: np.ndarray  # (n,): -1 or +1 per row
    bias: float  # the regression's bias: the minimiser of the loss for these labels
    # the bias whose sign rule gives these labels: ``bias`` itself where its sign rule does, else
    # minus the middle of the gap between the two sides
    threshold_bias: float
    cost: float  # total weighted loss at ``bias``
    # by how much weight the smaller side misses the floor: 0 unless tied scores forbid it
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


def row_losses(
    signs: np.ndarray, fitted: np.ndarray, loss: str, epsilon: float = 0.0
) -> np.ndarray:
    """Loss of every row, L(y, f).

    Examples
    --------
    >>> row_losses(np.array([1, -1]), np.array([3.0, 0.0]), "hinge")
    array([0., 1.])
    """
    if loss == "squared":
        return np.asarray((fitted - signs) ** 2)
    kinks = loss_kinks(loss, epsilon)
    low = np.where(signs > 0, kinks[2], kinks[0])
    high = np.where(signs > 0, kinks[3], kinks[1])
    return np.asarray(np.maximum(0.0, np.maximum(low - fitted, fitted - high)))


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
    """Exact joint minimiser over labels and bias, in O(n log n), for scores without a bias.

    ``sizes`` is what is asked of the sides, a number their least weight; ``known`` is -1 or +1
    where the label is given, 0 where it is free. With ``midpoints`` the bias of each split is minus
    the middle between neighbouring scores, as in the paper, instead of the best one.

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
    biases = np.zeros(0)
    if midpoints:  # a step beyond either end, too
        ends = np.concatenate([[g[0] - 1.0], g, [g[-1] + 1.0]])
        biases = -0.5 * (ends[:-1] + ends[1:])
    if loss == "squared":
        position, bias, cost = _best_squared_split(g, allowed, biases, masses)
    else:
        kinks = loss_kinks(loss, epsilon)
        passed = np.where(kinks == np.inf, n, 0).astype(np.int64)
        sums = [_prefix(part) for m in masses for part in (m, m * g)]
        position, bias, cost = best_piecewise_split(g, allowed, biases, kinks, passed, *sums)
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


def _prefix(values: np.ndarray) -> np.ndarray:
    return np.concatenate([[0.0], np.cumsum(values)])


def _allowed_splits(
    g: np.ndarray, masses: list[np.ndarray], sizes: Sizes
) -> tuple[np.ndarray, float]:
    """Splits between distinct scores that meet the sizes, or else miss the floor by the least."""
    free, negative, positive = masses
    floor = sizes.floor
    below = _prefix(free) + negative.sum()
    above = below[-1] - below + positive.sum()
    smaller = np.minimum(below, above)
    missing = np.maximum(0.0, floor * sizes.below - below)
    missing = np.maximum(missing, floor * sizes.above - above)
    if sizes.clusters > 2 and floor > 0:
        # Clusters of this weight that there is room for on either side, counted up to their number.
        fits = [np.minimum(weight, sizes.clusters * floor) / floor for weight in (below, above)]
        room = np.floor(fits[0] + 1e-9) + np.floor(fits[1] + 1e-9)
        missing = np.maximum(missing, floor * np.maximum(0.0, sizes.clusters - room))
    # A cut inside a group of tied scores breaks the sign rule.
    missing[1:-1][g[:-1] == g[1:]] = np.inf
    least = missing.min()
    slack = 1e-9 * (below[-1] + positive.sum())
    allowed = missing <= least + slack
    even = allowed & (smaller >= sizes.side - slack)
    return even if even.any() else allowed, float(least) if least > slack else 0.0


def _best_squared_split(
    g: np.ndarray, allowed: np.ndarray, biases: np.ndarray, masses: list[np.ndarray]
) -> tuple[int, float, float]:
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


# -- several clusters: prices on the scores --------------------------------------------------------


def size_divergence(sizes: np.ndarray, strength: float) -> float:
    """Return ``strength * sum_h pi_h log(k pi_h)`` of the clusters' shares: 0 for even sizes.

    Examples
    --------
    >>> size_divergence(np.array([5.0, 5.0]), 1), round(size_divergence(np.array([8.0, 0.0]), 1), 3)
    (0.0, 0.693)
    """
    if strength == 0:
        return 0.0
    share = sizes / sizes.sum()
    return strength * float((share * np.log(np.maximum(len(sizes) * share, 1e-300))).sum())


def strong_enough(strength: float, k: int, cost: float) -> float:
    """Return a preference for even sizes under which k clusters can win against one.

    All rows in one cluster cost ``strength * log(k)`` and no margin. If the k-means partition costs
    more, a search would be paid for emptying clusters; then one cluster is made to cost 1, which is
    also what even clusters cost without a model.

    Examples
    --------
    >>> strong_enough(0.3, 2, cost=0.1), round(strong_enough(0.3, 2, cost=0.4), 3)
    (0.3, 1.443)
    """
    return strength if cost <= strength * np.log(k) else max(strength, float(1.0 / np.log(k)))


def divergence_prices(sizes: np.ndarray, strength: float, slope: float = 2.0) -> np.ndarray:
    """Return the prices by which the best labels for given scores follow the divergence.

    A row on the margin loses ``slope`` times its lead when it goes to the next best cluster: 2 for
    the margin of Crammer and Singer. The divergence gains ``strength * log(pi_a / pi_b)``.

    Examples
    --------
    >>> divergence_prices(np.array([3.0, 1.0]), 0.3).round(3)
    array([-0.061,  0.104])
    """
    share = len(sizes) * sizes / sizes.sum()
    return np.asarray(-strength / slope * np.log(np.maximum(share, LEAST_SHARE)))


def floor_prices(
    scores: np.ndarray, weights: np.ndarray, floor: float, known: np.ndarray
) -> np.ndarray:
    """Return prices with which ``argmax(scores + prices)`` leaves no cluster below the floor.

    The rows are assigned with the smallest loss of scores by successive shortest paths; the prices
    are the dual variables of this assignment. They are zero if no cluster is below the floor.
    ``known`` is the known cluster of each row, -1 if unknown.

    Examples
    --------
    >>> S = np.array([[2.0, 0.0], [1.0, 0.0], [0.6, 0.5]])
    >>> prices = floor_prices(S, np.ones(3), 1.0, np.full(3, -1))
    >>> (S + prices).argmax(axis=1)
    array([0, 0, 1])
    """
    spread = float(np.ptp(scores, axis=0).max())
    if spread == 0.0:  # no price parts rows that score alike
        return np.zeros(scores.shape[1])
    S = np.ascontiguousarray(scores / spread, np.float64)
    weights = np.ascontiguousarray(weights, np.float64)
    fixed = known >= 0
    best, least = np.zeros(S.shape[1]), np.inf
    # A row heavier than the floor fills one cluster alone.
    possible = np.minimum(weights, floor).sum() >= (1.0 - 1e-9) * floor * len(best)
    for margin in MARGINS if possible else MARGINS[:1]:
        labels = np.where(fixed, known, S.argmax(axis=1)).astype(np.int64)
        before = labels.copy()
        fill_clusters(S, weights, fixed, min(margin * floor, weights.sum() / len(best)), labels)
        if (labels == before).all():
            return np.zeros(len(best))
        prices = cluster_prices(S[~fixed], labels[~fixed])
        reached = np.where(fixed, known, (S + prices).argmax(axis=1))
        missing = floor - float(np.bincount(reached, weights, minlength=len(best)).min())
        if missing < least:
            best, least = prices - prices.min(), missing
        if missing <= 1e-9 * floor:
            return spread * best
    return spread * _raised(S, weights, floor, known, best)


def _raised(
    S: np.ndarray, weights: np.ndarray, floor: float, known: np.ndarray, prices: np.ndarray
) -> np.ndarray:
    """Raise the price of the cluster that misses most until the rows nearest to it fill it up."""
    best, least, found = prices, np.inf, 0
    for attempt in range(RAISES):
        priced = S + prices
        labels = np.where(known >= 0, known, priced.argmax(axis=1))
        missing = floor - np.bincount(labels, weights, minlength=len(prices))
        if missing.max() < least:
            best, least, found = prices, float(missing.max()), attempt
        needy = int(missing.argmax())
        others = np.flatnonzero((labels != needy) & (known < 0))
        if least <= 1e-9 * floor or not others.size or attempt >= found + PATIENCE:
            break
        lead = priced[others].max(axis=1) - priced[others, needy]
        order = np.argsort(lead, kind="stable")
        enough = int(np.searchsorted(np.cumsum(weights[others][order]), missing[needy]))
        step = lead[order[min(enough, len(order) - 1)]]
        prices = prices + (step + 1e-9 * max(abs(step), 1.0)) * (np.arange(len(prices)) == needy)
    return best


def cluster_prices(scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return b with which ``argmax_h scores + b`` gives the labels, near the centre of all such b.

    b_a - b_d must be at least the largest lead of d over a among the rows of a; such inequalities
    have a solution unless their bounds add up to a positive number around a cycle. A few rows that
    cause this are ignored.

    Examples
    --------
    >>> scores = np.array([[1.0, 0.0], [0.4, 0.6], [0.0, 1.0]])
    >>> b = cluster_prices(scores, np.array([0, 0, 1]))
    >>> (scores + b).argmax(axis=1)
    array([0, 0, 1])
    """
    used = np.unique(labels)
    leads = scores - scores[np.arange(len(labels)), labels][:, None]
    rising = [np.sort(leads[labels == a], axis=0) for a in used]
    last = np.array([len(of_cluster) - 1 for of_cluster in rising])
    prices = np.zeros(scores.shape[1])
    ranks = np.outer((1.0, 0.999, 0.99, 0.95, 0.9, 0.5), last).astype(np.int64)
    for at in ranks[np.any(np.diff(ranks, axis=0, prepend=-1), axis=1)]:  # each set of ranks once
        needed = np.stack([of_cluster[j] for of_cluster, j in zip(rising, at)])
        among = needed[:, used]
        np.fill_diagonal(among, 0.0)
        longest = among.copy()  # between all pairs, by Floyd and Warshall
        for via in range(len(longest)):
            longest = np.maximum(longest, longest[:, via, None] + longest[None, via, :])
        if needed.max() <= 0:
            return prices
        if (np.diag(longest) <= 1e-12).all():
            # The mean of the extreme solutions b_a = D[a, r] and b_a = -D[r, a] over all r.
            extremes = np.concatenate([longest.T, -longest])
            prices[used] = (extremes - extremes.mean(axis=1, keepdims=True)).mean(axis=0)
            empty = np.setdiff1d(np.arange(len(prices)), used)
            prices[empty] = (prices[used][:, None] - needed[:, empty]).min(axis=0) - 1e-3
            return prices
    return prices
