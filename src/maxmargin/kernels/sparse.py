"""Compiled products with a range of CSR rows: scores and weighted sums, nothing densified."""

from numba import njit


@njit(cache=True, nogil=True)
def csr_scores(data, indices, indptr, start, stop, weights, out):
    """``out[i - start] = x_i @ weights`` for rows ``start <= i < stop``; weights is (d, m)."""
    m = weights.shape[1]
    for i in range(start, stop):
        row = out[i - start]
        row[:] = 0
        for p in range(indptr[i], indptr[i + 1]):
            value, source = data[p], weights[indices[p]]
            for j in range(m):
                row[j] += value * source[j]


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
