"""Compiled per-row rules of the solver in ``_core/regression.py``.

A row with label -1 / +1 costs nothing while its score lies in [low, high] and grows with slope one
outside; ``_core/numba_splits.py`` says how hinge, absolute and epsilon-insensitive losses fit in.
"""

from numba import njit


@njit(cache=True, nogil=True)
def admm_rule(scores, weights, signs, target, dual, kinks, bias, relaxation, step, codes, sums):
    """One ADMM update of the rows: over-relax, proximal step, dual update.

    ``target`` (s) and ``dual`` (u) are updated in place; ``codes`` receives weight * (s - u), whose
    weighted sum of rows is the right-hand side of the next ridge step. ``sums`` receives the sum of
    codes, and the weighted squares of f - s, of the change of s, of s and of u.
    """
    for j in range(5):
        sums[j] = 0.0
    for i in range(scores.shape[0]):
        low, high = (kinks[2], kinks[3]) if signs[i] > 0 else (kinks[0], kinks[1])
        fitted = scores[i, 0] + bias
        point = relaxation * fitted + (1.0 - relaxation) * target[i] + dual[i]
        if point < low - step:
            near = point + step
        elif point < low:
            near = low
        elif point <= high:
            near = point
        elif point <= high + step:
            near = high
        else:
            near = point - step
        moved = near - target[i]
        target[i] = near
        dual[i] = point - near
        codes[i, 0] = weights[i] * (near - dual[i])
        sums[0] += codes[i, 0]
        sums[1] += weights[i] * (fitted - near) * (fitted - near)
        sums[2] += weights[i] * moved * moved
        sums[3] += weights[i] * near * near
        sums[4] += weights[i] * dual[i] * dual[i]


@njit(cache=True, nogil=True)
def gap_rule(scores, weights, signs, subgradients, kinks, bias, codes, sums):
    """Primal loss, conjugates and dual masses of the rows, for the duality gap.

    For a subgradient p of each row's loss ``codes`` receives weight * max(p, 0) and
    weight * max(-p, 0); ``sums`` the loss, and conjugate value and mass of both parts.
    """
    for j in range(5):
        sums[j] = 0.0
    for i in range(scores.shape[0]):
        low, high = (kinks[2], kinks[3]) if signs[i] > 0 else (kinks[0], kinks[1])
        fitted = scores[i, 0] + bias
        if fitted < low:
            sums[0] += weights[i] * (low - fitted)
        elif fitted > high:
            sums[0] += weights[i] * (fitted - high)
        p = subgradients[i]
        codes[i, 0] = codes[i, 1] = 0.0
        if p > 0.0:
            codes[i, 0] = weights[i] * p
            sums[1] += codes[i, 0] * high
            sums[2] += codes[i, 0]
        elif p < 0.0:
            codes[i, 1] = -weights[i] * p
            sums[3] -= codes[i, 1] * low
            sums[4] += codes[i, 1]
