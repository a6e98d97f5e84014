"""Compiled rules for every row: its label, its code in the most violated constraint, its moves.

The code of a row is 0 if its loss is zero, otherwise 1 + the rival cluster. Cuts and their A_c, g_c
are defined in ``_cuts``.
"""

import numpy as np
from numba import njit

from .._core._numba import U, csr_row_scores


@njit(cache=True, nogil=True, fastmath={"reassoc"})
def cut_rule(scores, weights, fixed, prices, labels, codes, matrix, sums):
    """Label the rows and find the most violated constraint: equations (4) and (14).

    A row takes the cluster of the largest ``score + price``, or ``fixed`` if that is not negative;
    its rival r* is the other cluster of the largest score. Its loss is (8) if the label has the
    largest score, and otherwise (5) for the label. Loops over rows are inside those over clusters,
    so that the compiler vectorises them.

    Parameters
    ----------
    scores : ndarray of shape (k, n)
    matrix : ndarray of shape (k, n)
        Receives the weight at the label and minus the weight at the rival of every row with a loss.
    sums : ndarray of shape (2 + 2 k,)
        To it are added the loss, the weight of rows with a loss (g_c), the weight of every
        cluster, and the sums of ``matrix`` over the rows.
    """
    k, n = scores.shape
    own, rival = np.zeros(n, np.int32), np.zeros(n, np.int32)
    mine, best = np.zeros(n, scores.dtype), np.full(n, -np.inf, scores.dtype)
    for p in range(k):
        score, price = scores[p], prices[p]
        for i in range(n):
            value = score[i] + price
            larger = value > best[i]
            own[i] = p if larger else own[i]
            best[i] = value if larger else best[i]
    for i in range(n):
        own[i] = fixed[i] if fixed[i] >= 0 else own[i]
    best[:] = -np.inf
    for p in range(k):
        score = scores[p]
        for i in range(n):
            is_own = own[i] == p
            larger = (score[i] > best[i]) & (not is_own)
            mine[i] = score[i] if is_own else mine[i]
            rival[i] = p + 1 if larger else rival[i]
            best[i] = score[i] if larger else best[i]
    loss_sum, coded_sum, one = 0.0, 0.0, scores.dtype.type(1.0)
    for i in range(n):
        loss = one + (best[i] - mine[i])
        share = weights[i] if loss > 0 else 0.0
        loss_sum += share * loss
        coded_sum += share
        mine[i] = share
        labels[i], codes[i] = own[i], rival[i] if loss > 0 else 0
    sums[0] += loss_sum
    sums[1] += coded_sum
    for p in range(k):
        column, size, shares = matrix[p], 0.0, 0.0
        for i in range(n):
            gained, lost = mine[i] if own[i] == p else 0, mine[i] if rival[i] == p + 1 else 0
            column[i] = gained - lost
            shares += column[i]
            size += weights[i] if own[i] == p else 0.0
        sums[2 + p] += size
        sums[2 + k + p] += shares


@njit(cache=True, nogil=True)
def csr_cut_pass(matrix, flat, shift, rule, labels, codes, tile, gathered, sums):
    """:func:`cut_rule` over CSR rows, with the scores before and the weighted sum of rows after.

    ``matrix`` is (data, indices, indptr) and ``rule`` is (weights, fixed, prices). ``flat`` is W'
    (r, k), flattened, and ``gathered``, in the same order, receives A_c: a row with a loss is added
    at its label and subtracted at its rival.
    """
    data, indices, indptr = matrix
    weights, fixed, prices = rule
    n, k = len(labels), len(shift)
    row = np.empty(k, data.dtype)
    for start in range(0, n, tile):
        stop = min(start + tile, n)
        scores = np.empty((k, stop - start), data.dtype)
        codings = np.empty_like(scores)
        for j in range(start, stop):
            csr_row_scores(data, indices, indptr[j], indptr[j + 1], flat, shift, row)
            for p in range(k):
                scores[p, j - start] = row[p]
        cut_rule(
            scores, weights[start:stop], fixed[start:stop], prices, labels[start:stop],
            codes[start:stop], codings, sums,
        )  # fmt: skip
        for j in range(start, stop):
            if codes[j] > 0:
                here, there, weight = U(labels[j]), U(codes[j] - 1), weights[j]
                for t in range(U(indptr[j]), U(indptr[j + 1])):
                    part, at = weight * data[t], U(indices[t]) * U(k)
                    gathered[at + here] += part
                    gathered[at + there] -= part


@njit(cache=True, nogil=True)
def dense_cut_pass(data, columns, shift, rule, labels, codes, tile, gathered, sums):
    """:func:`cut_rule` over tiles of dense rows, with the scores before and the sums of rows after.

    ``columns`` is W (k, r) and ``rule`` is (weights, fixed, prices). ``shift`` is added to the
    scores: intercepts, less the scores of the offset. ``gathered`` (k, r) receives A_c, the sum
    over tiles of ``matrix data``.
    """
    weights, fixed, prices = rule
    n, k = data.shape[0], columns.shape[0]
    scores = np.empty((k, min(tile, n)), data.dtype)
    matrix = np.empty_like(scores)
    part = np.empty((k, data.shape[1]), data.dtype)
    for start in range(0, n, tile):
        stop = min(start + tile, n)
        if stop - start < tile:
            scores = np.empty((k, stop - start), data.dtype)
            matrix = np.empty_like(scores)
        np.dot(columns, data[start:stop].T, scores)
        for p in range(k):
            scores[p] += shift[p]
        cut_rule(
            scores, weights[start:stop], fixed[start:stop], prices, labels[start:stop],
            codes[start:stop], matrix, sums,
        )  # fmt: skip
        np.dot(matrix, data[start:stop], part)
        for p in range(k):
            for j in range(data.shape[1]):
                gathered[p, j] += part[p, j]


@njit(cache=True, nogil=True)
def moved_rule(weights, old, new, codes, matrix, sums):
    """Change of every cut on the rows that change cluster from ``old`` to ``new``.

    ``codes`` is (cuts, rows). ``matrix`` (rows, cuts * k) receives the coefficients of the rows in
    the change of A_c, and ``sums`` the change of g_c.
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
    """:func:`moved_rule` over CSR rows, with the change of A_c, ``gathered`` (cuts, k, r).

    ``codes`` is (cuts, rows), and ``code_sums`` (cuts, k) receives the change of the shares.
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
