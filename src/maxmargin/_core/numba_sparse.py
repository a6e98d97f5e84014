"""Compiled products with a range of CSR rows: scores and weighted sums, nothing densified."""

import numpy as np
from numba import njit

U = np.uint64  # unsigned places spare the check for negative ones: a third of the time


@njit(cache=True, nogil=True)
def csr_row_scores(data, indices, begin, end, flat, shift, row):
    """``row = shift + x @ weights`` for one CSR row; ``flat`` is weights (d, m), row after row.

    Four sums at a time stay in registers; a loop over m inside would go through memory.
    """
    m, p = U(len(row)), U(0)
    while p + U(4) <= m:
        a, b, c, d = shift[p], shift[p + U(1)], shift[p + U(2)], shift[p + U(3)]
        for t in range(U(begin), U(end)):
            value, at = data[t], U(indices[t]) * m + p
            a += value * flat[at]
            b += value * flat[at + U(1)]
            c += value * flat[at + U(2)]
            d += value * flat[at + U(3)]
        row[p], row[p + U(1)], row[p + U(2)], row[p + U(3)] = a, b, c, d
        p += U(4)
    while p + U(2) <= m:
        a, b = shift[p], shift[p + U(1)]
        for t in range(U(begin), U(end)):
            value, at = data[t], U(indices[t]) * m + p
            a += value * flat[at]
            b += value * flat[at + U(1)]
        row[p], row[p + U(1)] = a, b
        p += U(2)
    if p < m:
        a = shift[p]
        for t in range(U(begin), U(end)):
            a += data[t] * flat[U(indices[t]) * m + p]
        row[p] = a


@njit(cache=True, nogil=True)
def csr_scores(data, indices, indptr, start, stop, weights, out):
    """``out[i - start] = x_i @ weights`` for rows ``start <= i < stop``; weights is (d, m)."""
    flat, shift = weights.ravel(), np.zeros(weights.shape[1], weights.dtype)
    for i in range(start, stop):
        csr_row_scores(data, indices, indptr[i], indptr[i + 1], flat, shift, out[i - start])


@njit(cache=True, nogil=True)
def csr_weighted_sum(data, indices, indptr, start, stop, codes, out):
    """``out += sum_i codes[i - start] x_i'`` over the rows; codes is (rows, m), out is (d, m)."""
    m = codes.shape[1]
    for i in range(start, stop):
        row = codes[i - start]
        for p in range(indptr[i], indptr[i + 1]):
            value, target = data[p], out[indices[p]]
            for j in range(m):
                target[j] += value * row[j]
