"""Compiled search for the best balanced split of a line (used by ``engine/balance.py``).

Given scores ``g`` sorted upwards, a split at position ``m`` labels the free rows before ``m``
with -1 and the rest with +1; a common bias ``b`` is added to all scores. Each row then costs

    0                 while  low <= g + b <= high        (low, high depend on its label)
    low - (g + b)     below low,      (g + b) - high     above high

which is the epsilon-insensitive loss for (y - eps, y + eps), the absolute loss for eps = 0, and
the hinge loss for (-inf, -1) and (1, +inf).

Giving one more row the label -1 only raises the slope of the total cost in ``b``, so the best bias
falls as ``m`` grows: all splits are searched by one walk down the kinks, O(n) after the sort.
"""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True, inline="always")
def _between(prefix, start, stop):
    """Sum over positions ``start <= i < stop`` from prefix sums; 0 if the range is empty."""
    return prefix[stop] - prefix[start] if stop > start else 0.0


@njit(cache=True, nogil=True)
def _slope(m, at, free, negative, positive):
    """Slope of the total cost in ``b`` on the open interval below the current kink."""
    n = free.shape[0] - 1
    rising = _between(free, at[1], m) + _between(negative, at[1], n)
    rising += _between(free, max(m, at[3]), n) + _between(positive, at[3], n)
    falling = _between(free, 0, min(m, at[0])) + negative[at[0]]
    falling += _between(free, m, at[2]) + positive[at[2]]
    return rising - falling


@njit(cache=True, nogil=True)
def _next_kink(g, kinks, at):
    """Largest kink not yet passed, or -inf."""
    n = g.shape[0]
    best = -np.inf
    for c in range(4):
        if np.isfinite(kinks[c]) and at[c] < n and kinks[c] - g[at[c]] > best:
            best = kinks[c] - g[at[c]]
    return best


@njit(cache=True, nogil=True)
def _pass_kink(g, kinks, at, b):
    n = g.shape[0]
    for c in range(4):
        if np.isfinite(kinks[c]):
            while at[c] < n and kinks[c] - g[at[c]] >= b:
                at[c] += 1


@njit(cache=True, nogil=True)
def _cost(m, b, at, kinks, free, free_g, negative, negative_g, positive, positive_g):
    """Total cost of split ``m`` at bias ``b`` from prefix sums of weights and weighted scores."""
    n = free.shape[0] - 1
    total = 0.0
    if at[1] < m:
        total += _between(free_g, at[1], m) + (b - kinks[1]) * _between(free, at[1], m)
    total += _between(negative_g, at[1], n) + (b - kinks[1]) * _between(negative, at[1], n)
    if at[0] > 0:
        stop = min(m, at[0])
        total += (kinks[0] - b) * (free[stop] + negative[at[0]]) - free_g[stop] - negative_g[at[0]]
    if at[3] < n:
        start = max(m, at[3])
        total += _between(free_g, start, n) + _between(positive_g, at[3], n)
        total += (b - kinks[3]) * (_between(free, start, n) + _between(positive, at[3], n))
    if at[2] > m:
        total += (kinks[2] - b) * _between(free, m, at[2]) - _between(free_g, m, at[2])
    total += (kinks[2] - b) * positive[at[2]] - positive_g[at[2]]
    return total


@njit(cache=True, nogil=True)
def best_piecewise_split(
    g, allowed, biases, kinks, at, free, free_g, negative, negative_g, positive, positive_g
):
    """Best (split, bias, cost) over the allowed splits of sorted scores ``g``.

    ``biases`` holds one falling bias per split to use as it is; empty, the best one is searched.
    ``kinks`` are (low, high) of label -1 and (low, high) of label +1; ``at`` is scratch that holds,
    per kink, how many rows lie past it and must come in as 0 (n for an infinite upper kink). The
    remaining arrays are prefix sums (length n + 1) of the weights, and of weight times score, of
    the free rows and of the rows whose label is fixed to -1 and to +1.
    """
    n = g.shape[0]
    b = _next_kink(g, kinks, at)
    _pass_kink(g, kinks, at, b)
    best_m, best_b, best_cost = -1, 0.0, np.inf
    given = biases.shape[0] > 0
    for m in range(n + 1):
        if given:
            b = biases[m]
            _pass_kink(g, kinks, at, b)
        slope = _slope(m, at, free, negative, positive)
        while slope > 0.0 and not given:
            ahead = _next_kink(g, kinks, at)
            if ahead == -np.inf:  # all kinks are passed: rounding alone keeps the slope positive
                break
            b = ahead
            _pass_kink(g, kinks, at, b)
            slope = _slope(m, at, free, negative, positive)
        if not allowed[m]:
            continue
        cost = _cost(m, b, at, kinks, free, free_g, negative, negative_g, positive, positive_g)
        if cost < best_cost:
            best_m, best_cost, best_b = m, cost, b
            # A flat stretch of minimisers: its middle does not depend on the direction of the walk.
            if slope == 0.0 and not given:
                left = _next_kink(g, kinks, at)
                if np.isfinite(left):
                    best_b = 0.5 * (b + left)
    return best_m, best_b, best_cost
