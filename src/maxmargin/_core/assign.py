r"""Prices on clusters, added to the scores: for a least size, or for even sizes.

The soft preference for even sizes is :math:`\tau \sum_h \pi_h \log(k \pi_h)`, the Kullback-Leibler
divergence of the clusters' shares from 1/k.
"""

from __future__ import annotations

import numpy as np

from .numba_fill import fill_clusters

# With unequal weights, prices cannot always attain exactly this size; then aim higher.
MARGINS = (1.0, 1.02, 1.05, 1.1, 1.2)
LEAST_SHARE = 1e-3  # of 1/k: the share at which the price of a small cluster ends to rise


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
    return -strength / slope * np.log(np.maximum(share, LEAST_SHARE))


def floor_prices(
    scores: np.ndarray, weights: np.ndarray, floor: float, known: np.ndarray
) -> np.ndarray:
    """Return prices with which ``argmax(scores + prices)`` leaves no cluster below the floor.

    The rows are assigned with the smallest loss of scores by successive shortest paths; the prices
    are the dual variables of this assignment. They are zero if no cluster is below the floor.

    Parameters
    ----------
    scores : ndarray of shape (n, k)
    weights : ndarray of shape (n,)
    floor : float
        Least weight of a cluster.
    known : ndarray of shape (n,)
        Known cluster of a row, -1 if unknown.

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
    return spread * _floor_prices(scores / spread, weights, floor, known)


def _floor_prices(scores, weights, floor, known) -> np.ndarray:
    """Prices for scores of about unit size."""
    S = np.ascontiguousarray(scores, np.float64)
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
            return best
    return _raised(S, weights, floor, known, best)


def _raised(S, weights, floor, known, prices, most: int = 100, patience: int = 20) -> np.ndarray:
    """Raise the price of the cluster that misses most until the rows nearest to it fill it up."""
    best, least, found = prices, np.inf, 0
    for attempt in range(most):
        priced = S + prices
        labels = np.where(known >= 0, known, priced.argmax(axis=1))
        missing = floor - np.bincount(labels, weights, minlength=len(prices))
        if missing.max() < least:
            best, least, found = prices, float(missing.max()), attempt
        needy = int(missing.argmax())
        others = np.flatnonzero((labels != needy) & (known < 0))
        if least <= 1e-9 * floor or not others.size or attempt >= found + patience:
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
        longest = _longest_paths(among)
        if needed.max() <= 0:
            return prices
        if (np.diag(longest) <= 1e-12).all():
            prices[used] = _middle(longest)
            empty = np.setdiff1d(np.arange(len(prices)), used)
            prices[empty] = (prices[used][:, None] - needed[:, empty]).min(axis=0) - 1e-3
            return prices
    return prices


def _longest_paths(lengths: np.ndarray) -> np.ndarray:
    """Longest path between all pairs (Floyd & Warshall)."""
    longest = lengths.copy()
    for via in range(len(longest)):
        longest = np.maximum(longest, longest[:, via, None] + longest[None, via, :])
    return longest


def _middle(longest: np.ndarray) -> np.ndarray:
    """Mean of the extreme solutions b_a = D[a, r] and b_a = -D[r, a] over the references r."""
    solutions = np.concatenate([longest.T, -longest])
    return (solutions - solutions.mean(axis=1, keepdims=True)).mean(axis=0)
