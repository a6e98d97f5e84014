"""Compiled per-row rules of cutting-plane clustering: labels, most violated cuts, moved rows.

The code of a row in a cut is 0 if its loss is zero, otherwise 1 + the rival cluster.
"""

import numpy as np
from numba import njit

from .._core._numba import U, csr_row_scores


@njit(cache=True, nogil=True)
def _row_rule(row, weight, fixed, intercept, prices, sums):
    """Label of a row with given scores and its rival r*, -1 if its loss is zero.

    The loss is (8) for the label of the largest score, and that of Crammer and Singer for others.
    To ``sums`` are added the loss, the weight of rows with a loss, the weight of every cluster, and
    weights at the label minus weights at the rival: 2 + 2 k entries.
    """
    k = len(row)
    for p in range(k):
        row[p] += intercept[p]
    own = fixed
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
    sums[2 + own] += weight
    if loss <= 0.0:
        return own, -1
    sums[0] += weight * loss
    sums[1] += weight
    sums[2 + k + own] += weight
    sums[2 + k + rival] -= weight
    return own, rival


@njit(cache=True, nogil=True)
def cut_rule(scores, weights, fixed, intercept, prices, labels, codes, matrix, sums):
    """Label the rows and find the most violated constraint: equations (4) and (14).

    A row takes the cluster of its largest ``score + intercept + price``, or ``fixed`` if that is
    not negative; its rival is the best other cluster without prices. ``matrix`` receives the
    weight at the label and minus the weight at the rival of every row with a loss. ``sums`` are
    those of :func:`_row_rule`.
    """
    n, k = scores.shape
    for i in range(n):
        for p in range(k):
            matrix[i, p] = 0.0
        own, rival = _row_rule(scores[i], weights[i], fixed[i], intercept, prices, sums)
        labels[i], codes[i] = own, rival + 1
        if rival >= 0:
            matrix[i, own] = weights[i]
            matrix[i, rival] = -weights[i]


@njit(cache=True, nogil=True)
def csr_cut_pass(matrix, flat, shift, rule, labels, codes, gathered, sums):
    """:func:`cut_rule` over CSR rows, with both products: one call.

    ``matrix`` is (data, indices, indptr) and ``rule`` is (weights, fixed, intercept, prices); a
    coded row is added to two places of every column of ``gathered``, (r k) in a row.
    """
    data, indices, indptr = matrix
    weights, fixed, intercept, prices = rule
    k = len(shift)
    row = np.empty(k, data.dtype)
    for j in range(len(labels)):
        begin, end = indptr[j], indptr[j + 1]
        csr_row_scores(data, indices, begin, end, flat, shift, row)
        own, rival = _row_rule(row, weights[j], fixed[j], intercept, prices, sums)
        labels[j], codes[j] = own, rival + 1
        if rival >= 0:
            here, there, weight = U(own), U(rival), weights[j]
            for t in range(U(begin), U(end)):
                part, at = weight * data[t], U(indices[t]) * U(k)
                gathered[at + here] += part
                gathered[at + there] -= part


@njit(cache=True, nogil=True)
def dense_cut_pass(data, columns, shift, rule, labels, codes, tile, gathered, sums):
    """:func:`cut_rule` over a block of dense rows in tiles, with both products: one call.

    ``rule`` is (weights, fixed, intercept, prices); ``gathered`` (k, r) receives the sum over tiles
    of ``matrix' data``; ``shift`` is added to the scores (that of the rows' centre).
    """
    weights, fixed, intercept, prices = rule
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
        given = weights[start:stop], fixed[start:stop]
        found = labels[start:stop], codes[start:stop]
        cut_rule(
            scores[:size], given[0], given[1], intercept, prices, found[0], found[1],
            matrix[:size], sums,
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


@njit(cache=True, nogil=True)
def csr_move_pass(matrix, weights, old, new, codes, gathered, code_sums, sums):
    """:func:`moved_rule` over CSR rows, with the product: nothing dense per row.

    ``codes`` is (cuts, rows), ``gathered`` (cuts, k, r), ``code_sums`` (cuts, k).
    """
    data, indices, indptr = matrix
    for c in range(codes.shape[0]):
        for j in range(len(old)):
            rival = codes[c, j] - 1
            if rival >= 0:
                a, p, weight = old[j], new[j], weights[j]
                sums[c] += weight * ((rival != p) * 1.0 - (rival != a) * 1.0)
                code_sums[c, p] += weight
                code_sums[c, a] -= weight
                target, source = gathered[c, p], gathered[c, a]
                for t in range(U(indptr[j]), U(indptr[j + 1])):
                    part, at = weight * data[t], U(indices[t])
                    target[at] += part
                    source[at] -= part
