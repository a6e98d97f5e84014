"""Compiled single moves on J_p: the ascent of Hartigan and Wong with tempered cluster sizes."""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True, fastmath=True)
def tempered_ascent(points, weights, fixed, labels, k, power, floor, rounds):
    """Move single rows while J_p = sum_h |sum_{i in h} points_i|^2 / W_h^p rises; return J_p.

    ``points`` are multiplied by their weights already; ``labels`` are changed in place. A cluster
    gives up no row that would leave it empty or below ``floor``.
    """
    n, r = points.shape
    sums, sizes, within = np.zeros((k, r)), np.zeros(k), np.zeros(k)
    for i in range(n):
        sizes[labels[i]] += weights[i]
        total = sums[labels[i]]
        for j in range(r):
            total[j] += points[i, j]
    for h in range(k):
        for j in range(r):
            within[h] += sums[h, j] * sums[h, j]
    least = max(floor, 1e-9 * sizes.sum())
    dots = np.empty(k)
    for _ in range(rounds):
        moves = 0
        for i in range(n):
            a, weight, point = labels[i], weights[i], points[i]
            rest = sizes[a] - weight
            if fixed[i] or rest < least:
                continue
            square = 0.0
            for j in range(r):
                square += point[j] * point[j]
            for h in range(k):
                dot, total = 0.0, sums[h]
                for j in range(r):
                    dot += total[j] * point[j]
                dots[h] = dot
            here = within[a] / sizes[a] ** power
            lost = here - (within[a] - 2.0 * dots[a] + square) / rest**power
            # A gain within rounding would let a row go to and fro.
            best, target = lost + 1e-9 * (here + square), a
            for h in range(k):
                if h != a:
                    before = within[h] / sizes[h] ** power if sizes[h] > 0.0 else 0.0
                    joined = (within[h] + 2.0 * dots[h] + square) / (sizes[h] + weight) ** power
                    if joined - before > best:
                        best, target = joined - before, h
            if target != a:
                within[a] += square - 2.0 * dots[a]
                within[target] += square + 2.0 * dots[target]
                sizes[a] -= weight
                sizes[target] += weight
                loser, winner = sums[a], sums[target]
                for j in range(r):
                    loser[j] -= point[j]
                    winner[j] += point[j]
                labels[i] = target
                moves += 1
        if moves == 0:
            break
    value = 0.0
    for h in range(k):
        if sizes[h] > 0.0:
            value += within[h] / sizes[h] ** power
    return value
