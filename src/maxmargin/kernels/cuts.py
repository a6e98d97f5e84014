"""Compiled per-row rules of cutting-plane clustering: labels, most violated cuts, moved rows.

The code of a row in a cut is 0 where the row says nothing, and 1 + the rival cluster elsewhere.
"""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def cut_rule(scores, weights, fixed, intercept, prices, labels, codes, matrix, sums):
    """Label the rows and find the most violated constraint: equations (4) and (14).

    A row takes the cluster of its largest ``score + intercept + price``, or ``fixed`` where that is
    not negative; its rival is the best other cluster without prices. ``matrix`` receives the
    weight at the label and minus the weight at the rival of every coded row. To ``sums`` are added
    the loss, the weight of coded rows, the weight of every cluster, the columns of ``matrix``.
    """
    n, k = scores.shape
    for i in range(n):
        row = scores[i]
        for p in range(k):
            row[p] += intercept[p]
            matrix[i, p] = 0.0
        own = fixed[i]
        if own < 0:
            own, best = 0, row[0] + prices[0]
            for p in range(1, k):
                value = row[p] + prices[p]
                larger = value > best
                own = p if larger else own
                best = value if larger else best
        mine = row[own]
        row[own] = -np.inf
        rival, top = 0, row[0]
        for p in range(1, k):
            larger = row[p] > top
            rival = p if larger else rival
            top = row[p] if larger else top
        loss = 1.0 + (top - mine)
        weight = weights[i]
        labels[i] = own
        sums[2 + own] += weight
        if loss > 0.0:
            codes[i] = rival + 1
            matrix[i, own] = weight
            matrix[i, rival] = -weight
            sums[0] += weight * loss
            sums[1] += weight
            sums[2 + k + own] += weight
            sums[2 + k + rival] -= weight
        else:
            codes[i] = 0


@njit(cache=True, nogil=True)
def dense_cut_pass(
    data, columns, shift, weights, fixed, intercept, prices, labels, codes, tile, gathered, sums
):
    """:func:`cut_rule` over a block of dense rows in tiles, with both products: one call.

    ``gathered`` (k, r) receives the sum over tiles of ``matrix' data``; ``shift`` is added to the
    scores (that of the rows' centre).
    """
    n, k = data.shape[0], columns.shape[1]
    scores = np.empty((tile, k), data.dtype)
    matrix = np.empty((tile, k), data.dtype)
    part = np.empty((k, data.shape[1]), data.dtype)
    for start in range(0, n, tile):
        stop = min(start + tile, n)
        size = stop - start
        np.dot(data[start:stop], columns, scores[:size])
        for i in range(size):
            for p in range(k):
                scores[i, p] += shift[p]
        cut_rule(
            scores[:size], weights[start:stop], fixed[start:stop], intercept, prices,
            labels[start:stop], codes[start:stop], matrix[:size], sums,
        )  # fmt: skip
        np.dot(matrix[:size].T, data[start:stop], part)
        for p in range(k):
            for j in range(data.shape[1]):
                gathered[p, j] += part[p, j]


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
