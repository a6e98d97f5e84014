"""Prices on clusters: added to the scores, they keep every cluster at its least size."""

from __future__ import annotations

import numpy as np

ROUNDS, RAISES = 20, 200


def floor_prices(
    scores: np.ndarray,
    weights: np.ndarray,
    floor: float,
    known: np.ndarray,
    start: np.ndarray | None = None,
) -> np.ndarray:
    """Prices with which ``argmax(scores + prices)`` leaves no cluster below the floor.

    They are the multipliers of the sizes in the best assignment of rows to clusters,

        min over v >= 0 of  sum_i w_i max_p (S_ip + v_p) - floor * sum_p v_p

    found by turns: the price of one cluster is made as low as its size allows, given the others'.
    Where turns do not end, clusters that miss rows only raise their prices, which does.

    Parameters
    ----------
    scores : ndarray of shape (n, k)
    weights : ndarray of shape (n,)
    floor : float
        Least weight of a cluster.
    known : ndarray of shape (n,)
        Cluster of a row whatever its scores, -1 for none.
    start : ndarray of shape (k,), optional
        Prices of similar scores.

    Examples
    --------
    >>> S = np.array([[2.0, 0.0], [1.0, 0.0], [0.6, 0.5]])
    >>> prices = floor_prices(S, np.ones(3), 1.0, np.full(3, -1))
    >>> (S + prices).argmax(axis=1)
    array([0, 0, 1])
    """
    k = scores.shape[1]
    S = np.array(scores.T, np.float64, order="C")
    fixed = known >= 0
    # Known rows score as if they could not be had elsewhere.
    S[:, fixed] = -np.inf
    S[known[fixed], np.flatnonzero(fixed)] = np.inf
    prices = np.zeros(k) if start is None else start.copy()
    slack = 1e-9 * floor
    best, least = np.zeros(k), np.inf
    for turn in range(ROUNDS + RAISES):
        missing = floor - _sizes(S, prices, weights)
        shortage = float(np.maximum(missing, 0.0).sum())
        if shortage < least:
            best, least = prices.copy(), shortage
        settled = missing.max() <= slack
        if settled and (turn >= ROUNDS or not _overpriced(missing, prices).any()):
            return prices
        chosen = np.flatnonzero((missing > slack) | (prices > 0))
        before = prices.copy()
        for p in chosen.tolist() if turn < ROUNDS else [int(missing.argmax())]:
            lowest = _least_price(S, prices, weights, floor, p)
            prices[p] = lowest if turn < ROUNDS else max(lowest, prices[p])
        if np.array_equal(before, prices):
            break
    return best


def _overpriced(missing, prices) -> np.ndarray:
    return (prices > 0) & (missing < 0)


def _sizes(S, prices, weights) -> np.ndarray:
    labels = (S + prices[:, None]).argmax(axis=0)
    return np.bincount(labels, weights, minlength=len(S))


def _least_price(S, prices, weights, floor, p) -> float:
    """Lowest price, not below 0, at which cluster p has its least size, given the others'."""
    priced = S + prices[:, None]
    priced[p] = -np.inf
    with np.errstate(invalid="ignore"):
        lead = np.where(S[p] == np.inf, -np.inf, priced.max(axis=0) - S[p])
    here = _weighted_quantile(lead, weights, floor)
    if here == np.inf:
        return float(prices[p])
    beyond = float(np.min(lead, where=lead > here, initial=np.inf))
    step = 0.5 * (beyond - here) if beyond < np.inf else max(1e-6 * abs(here), 1e-9)
    return max(0.0, here + step) if here > -np.inf else 0.0


def _weighted_quantile(values, weights, mass: float) -> float:
    """Least of the values up to which the weights sum to ``mass``; infinity if they do not."""
    if weights[0] == weights.min() == weights.max():  # a selection instead of a sort
        place = int(np.ceil(mass / weights[0] * (1 - 1e-12))) - 1
        place = max(place, 0)
        return float(np.partition(values, place)[place]) if place < len(values) else np.inf
    order = np.argsort(values, kind="stable")
    place = int(np.searchsorted(np.cumsum(weights[order]), mass * (1 - 1e-12)))
    return float(values[order[place]]) if place < len(values) else np.inf
