"""Compiled rules of the regressions: arrays in, results written in place.

A row costs nothing in a column while its score lies in [low, high], and grows with slope one
outside; ``size_floor.loss_kinks`` has both bounds, for rows of the column's cluster and for others.
"""

from numba import njit


@njit(cache=True, nogil=True)
def admm_rule(fitted, weights, labels, names, target, dual, kinks, relaxation, step, codes, sums):
    """One ADMM update: over-relax, proximal step, dual update; see ``_regression.admm_block``.

    ``target`` (s) and ``dual`` (u) are updated in place.
    """
    for i in range(fitted.shape[0]):
        for h in range(fitted.shape[1]):
            own = labels[i] == names[h]
            low, high = (kinks[2], kinks[3]) if own else (kinks[0], kinks[1])
            point = relaxation * fitted[i, h] + (1.0 - relaxation) * target[i, h] + dual[i, h]
            if point < low:
                near = min(point + step[h], low)
            elif point > high:
                near = max(point - step[h], high)
            else:
                near = point
            moved = near - target[i, h]
            target[i, h] = near
            dual[i, h] = point - near
            codes[i, h] = weights[i] * (near - dual[i, h])
            sums[0, h] += codes[i, h]
            sums[1, h] += weights[i] * (fitted[i, h] - near) ** 2
            sums[2, h] += weights[i] * moved * moved
            sums[3, h] += weights[i] * near * near
            sums[4, h] += weights[i] * dual[i, h] ** 2


@njit(cache=True, nogil=True)
def gap_rule(fitted, weights, labels, names, subgradients, kinks, codes, sums):
    """Primal loss, conjugates and dual masses; see ``_regression.gap_block``."""
    m = fitted.shape[1]
    for i in range(fitted.shape[0]):
        for h in range(m):
            own = labels[i] == names[h]
            low, high = (kinks[2], kinks[3]) if own else (kinks[0], kinks[1])
            if fitted[i, h] < low:
                sums[0, h] += weights[i] * (low - fitted[i, h])
            elif fitted[i, h] > high:
                sums[0, h] += weights[i] * (fitted[i, h] - high)
            p = subgradients[i, h]
            codes[i, h] = codes[i, m + h] = 0.0
            if p > 0.0:
                codes[i, h] = weights[i] * p
                sums[1, h] += codes[i, h] * high
                sums[2, h] += codes[i, h]
            elif p < 0.0:
                codes[i, m + h] = -weights[i] * p
                sums[3, h] -= codes[i, m + h] * low
                sums[4, h] += codes[i, m + h]
