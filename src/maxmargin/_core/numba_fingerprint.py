"""A 128-bit content fingerprint per row, the same for dense and CSR storage.

Sorting rows by fingerprint puts equal rows side by side in an order that depends on nothing but
their values: a weight of 2 and a repeated row, or two row orders, become the same problem.
"""

import numpy as np
from numba import njit

_MIX_A = np.uint64(0x9E3779B97F4A7C15)
_MIX_B = np.uint64(0xC2B2AE3D27D4EB4F)
_S33, _S29, _S32 = np.uint64(33), np.uint64(29), np.uint64(32)


@njit(cache=True, nogil=True, inline="always")
def _mix(h):
    h = (h ^ (h >> _S33)) * _MIX_A
    h = (h ^ (h >> _S29)) * _MIX_B
    return h ^ (h >> _S32)


@njit(cache=True, nogil=True)
def fingerprint_dense(bits, out):
    """Fill ``out`` (n, 2) from the float64 bit patterns ``bits`` (n, d); zeros do not count."""
    for i in range(bits.shape[0]):
        a, b = _MIX_A, _MIX_B
        for j in range(bits.shape[1]):
            if bits[i, j] != 0:
                key = bits[i, j] + _mix(np.uint64(j) + _MIX_B)
                a = _mix(a ^ key)
                b = _mix(b + key)
        out[i, 0], out[i, 1] = a, b


@njit(cache=True, nogil=True)
def fingerprint_csr(bits, indices, indptr, out):
    """The same fingerprint from CSR arrays with sorted indices."""
    for i in range(out.shape[0]):
        a, b = _MIX_A, _MIX_B
        for p in range(indptr[i], indptr[i + 1]):
            if bits[p] != 0:
                key = bits[p] + _mix(np.uint64(indices[p]) + _MIX_B)
                a = _mix(a ^ key)
                b = _mix(b + key)
        out[i, 0], out[i, 1] = a, b
