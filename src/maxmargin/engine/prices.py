"""Prices on clusters: added to the scores, they keep every cluster at its least size."""

from __future__ import annotations

import numpy as np


def floor_prices(
    scores: np.ndarray,
    weights: np.ndarray,
    floor: float,
    known: np.ndarray,
    rounds: int = 200,
) -> np.ndarray:
    """Least-size prices by an ascending auction.

    The cluster that misses most raises its price until the rows that lose least by it make up its
    size; whom it takes them from may have to raise in turn. Prices only rise, and a cluster that
    has enough never does, so that the labels stay as near to the scores as the sizes allow.

    Parameters
    ----------
    scores : ndarray of shape (n, k)
    weights : ndarray of shape (n,)
    floor : float
        Least weight of a cluster.
    known : ndarray of shape (n,)
        Cluster of a row whatever its scores, -1 for none.
    rounds : int
        Most raises for each cluster.

    Examples
    --------
    >>> S = np.array([[2.0, 0.0], [1.0, 0.0], [0.6, 0.5]])
    >>> prices = floor_prices(S, np.ones(3), 1.0, np.full(3, -1))
    >>> (S + prices).argmax(axis=1)
    array([0, 0, 1])
    """
    k = scores.shape[1]
    priced = np.array(scores, np.float64)
    prices = np.zeros(k)
    best, least = prices, np.inf
    for _ in range(rounds * k):
        labels = np.where(known >= 0, known, priced.argmax(axis=1))
        missing = floor - np.bincount(labels, weights, minlength=k)
        shortage = np.maximum(missing, 0.0).sum()
        if shortage < least:
            best, least = prices.copy(), shortage
        needy = int(missing.argmax())
        if missing[needy] <= 1e-9 * floor:
            return prices
        others = np.flatnonzero((labels != needy) & (known < 0))
        lead = priced[others].max(axis=1) - priced[others, needy]
        order = np.argsort(lead, kind="stable")
        enough = np.searchsorted(np.cumsum(weights[others][order]), missing[needy] * (1 - 1e-12))
        if enough >= len(others):
            break
        here = lead[order[enough]]
        beyond = lead[order[enough + 1 :]]
        beyond = beyond[beyond > here]
        raised = 0.5 * (here + beyond[0]) if beyond.size else here + max(1e-6 * abs(here), 1e-9)
        prices[needy] += raised
        priced[:, needy] += raised
    return best
