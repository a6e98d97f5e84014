"""LAPACK routines that release the global interpreter lock.

scipy's wrappers hold the lock until LAPACK returns, so that even a waiting thread cannot react to
Ctrl-C. These are the same routines of the same library, called without the lock.
"""

from __future__ import annotations

import ctypes

import numpy as np
from numba.extending import get_cython_function_address

__all__ = ["eigh", "invert_definite"]


def _call(name: str, *args) -> int:
    """Call a LAPACK routine with arrays, characters and numbers; return its error code."""
    info = ctypes.c_int(0)
    values = [_value(arg) for arg in args]
    kinds = [ctypes.c_void_p] * (len(args) + 1)
    address = get_cython_function_address("scipy.linalg.cython_lapack", name)
    routine = ctypes.CFUNCTYPE(None, *kinds)(address)
    pointers = [v.ctypes.data if isinstance(v, np.ndarray) else ctypes.addressof(v) for v in values]
    routine(*pointers, ctypes.addressof(info))
    return info.value


def _value(arg):
    if isinstance(arg, bytes):
        return ctypes.c_char(arg)
    if isinstance(arg, int):
        return ctypes.c_int(arg)
    return ctypes.c_double(arg) if isinstance(arg, float) else arg


def invert_definite(A: np.ndarray) -> int:
    """Inverse of a symmetric positive definite matrix, in the upper triangle of its own memory.

    Returns 0, or LAPACK's error code if the matrix is not positive definite.

    Examples
    --------
    >>> A = np.array([[4.0, 0.0], [0.0, 16.0]])
    >>> invert_definite(A), A.diagonal().tolist()
    (0, [0.25, 0.0625])
    """
    n, kind = len(A), {"f": "s", "d": "d"}[A.dtype.char]
    if not (A.flags.c_contiguous and A.flags.writeable):
        raise ValueError("invert_definite needs an array in C order that can be written to.")
    # LAPACK goes by columns: its lower triangle is the upper one here.
    return _call(f"{kind}potrf", b"L", n, A, n) or _call(f"{kind}potri", b"L", n, A, n)


def eigh(A: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues, rising, and eigenvectors of a symmetric matrix, from its lower triangle.

    Examples
    --------
    >>> eigh(np.array([[3.0, 0.0], [0.0, 1.0]]))[0]
    array([1., 3.])
    """
    A = np.array(np.asarray_chkfinite(A), np.float64, order="F")
    n = len(A)
    w, Z = np.empty(n), np.empty((n, n), order="F")
    support, found = np.empty(2 * max(n, 1), np.intc), np.zeros(1, np.intc)
    size, whole = np.empty(1), np.empty(1, np.intc)
    head = (b"V", b"A", b"L", n, A, max(n, 1), 0.0, 1.0, 1, n, 0.0, found, w, Z, max(n, 1), support)
    _call("dsyevr", *head, size, -1, whole, -1)  # asks for the best size of the work space
    lwork, liwork = int(size[0]), int(whole[0])
    info = _call("dsyevr", *head, np.empty(lwork), lwork, np.empty(liwork, np.intc), liwork)
    if info != 0:
        raise np.linalg.LinAlgError(f"the eigenvalues were not found (LAPACK error {info})")
    return w, Z
