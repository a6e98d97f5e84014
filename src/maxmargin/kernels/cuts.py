"""Compiled per-row rules of cutting-plane clustering: labels, most violated cuts, moved rows.

The code of a row in a cut is 0 where the row says nothing, and 1 + the rival cluster elsewhere.
"""

from numba import njit


@njit(cache=True, nogil=True)
def cut_rule(scores, weights, fixed, intercept, prices, labels, codes, matrix, sums):
    """Label the rows and find the most violated constraint: equations (4) and (14).

    A row takes the cluster of its largest ``score + intercept + price``, or ``fixed`` where that is
    not negative; its rival is the best other cluster without prices. ``matrix`` receives the
    weight at the label and minus the weight at the rival of every coded row; ``sums`` the loss, the
    weight of coded rows, then the weight of every cluster.
    """
    k = scores.shape[1]
    for j in range(2 + k):
        sums[j] = 0.0
    for i in range(scores.shape[0]):
        row = scores[i]
        for p in range(k):
            matrix[i, p] = 0.0
        own = fixed[i]
        if own < 0:
            own = 0
            best = row[0] + intercept[0] + prices[0]
            for p in range(1, k):
                value = row[p] + intercept[p] + prices[p]
                if value > best:
                    own, best = p, value
        rival = 1 if own == 0 else 0
        top = row[rival] + intercept[rival]
        for p in range(rival + 1, k):
            if p != own and row[p] + intercept[p] > top:
                rival, top = p, row[p] + intercept[p]
        loss = 1.0 + top - (row[own] + intercept[own])
        labels[i] = own
        codes[i] = 0
        sums[2 + own] += weights[i]
        if loss > 0.0:
            codes[i] = rival + 1
            matrix[i, own] = weights[i]
            matrix[i, rival] = -weights[i]
            sums[0] += weights[i] * loss
            sums[1] += weights[i]


@njit(cache=True, nogil=True)
def moved_rule(weights, old, new, codes, matrix, sums):
    """What rows that change cluster add to every cut: ``matrix`` is (rows, cuts * k).

    ``codes`` is (cuts, rows); ``sums`` receives the change of each cut's gain.
    """
    cuts = codes.shape[0]
    k = matrix.shape[1] // cuts
    matrix[:] = 0.0
    sums[:] = 0.0
    for c in range(cuts):
        for i in range(len(old)):
            rival = codes[c, i] - 1
            if rival >= 0:
                matrix[i, c * k + new[i]] += weights[i]
                matrix[i, c * k + old[i]] -= weights[i]
                sums[c] += weights[i] * ((rival != new[i]) * 1.0 - (rival != old[i]) * 1.0)
