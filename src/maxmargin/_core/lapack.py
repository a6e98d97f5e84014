"""Inverses by tiles on several threads, and long LAPACK calls that Ctrl-C can interrupt.

scipy's wrappers hold the global interpreter lock until LAPACK returns, so that even a waiting
thread cannot react to Ctrl-C. ``eigh`` calls the same routine of the same library without the lock.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from threading import Thread
from typing import Any

import numpy as np
from numba.extending import get_cython_function_address

from .._threads import run_all
from ._numba import mirror_upper

TILE, WIDE = 256, 1024  # rows and columns of a tile; up to WIDE rows are one tile
KINDS = {"f": "s", "d": "d"}  # letters of routines
LONG_ROWS = 400  # up to this a factorisation takes a small fraction of a second


def interruptible(rows: int, work: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Return ``work(*args, **kwargs)``, computed in a separate thread if it may take long.

    LAPACK does not check for signals. The calling thread waits and returns immediately when it is
    interrupted; the result of the call is then discarded. The work must not hold the global
    interpreter lock.

    Examples
    --------
    >>> interruptible(5000, sum, [1, 2, 3])
    6
    """
    if rows <= LONG_ROWS:
        return work(*args, **kwargs)
    outcome: dict[str, Any] = {}

    def run() -> None:
        try:
            outcome["result"] = work(*args, **kwargs)
        except BaseException as error:
            outcome["error"] = error

    thread = Thread(target=run, daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(0.1)
    if "error" in outcome:
        raise outcome["error"]
    return outcome["result"]


@cache
def _routine(library: str, name: str, count: int) -> Any:
    """Return a routine of scipy's BLAS or LAPACK with ``count`` arguments."""
    address = get_cython_function_address(f"scipy.linalg.cython_{library}", name)
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * count)(address)


def _call(library: str, name: str, *args: bytes | int | float | np.ndarray) -> None:
    """Call a routine with arrays, characters and numbers."""
    kinds: dict[type, Any] = {bytes: ctypes.c_char, int: ctypes.c_int, float: ctypes.c_double}
    values: list[Any] = [kinds.get(type(arg), np.asarray)(arg) for arg in args]
    pointers = [v.ctypes.data if isinstance(v, np.ndarray) else ctypes.addressof(v) for v in values]
    _routine(library, name, len(args))(*pointers)


def _lapack(name: str, *args: bytes | int | float | np.ndarray) -> int:
    """Call a LAPACK routine and return its error code, its last argument."""
    info = np.zeros(1, np.intc)
    _call("lapack", name, *args, info)
    return int(info[0])


def subtract_product(A: np.ndarray, K: np.ndarray, Q: np.ndarray) -> None:
    """``A - K' Q`` in place, for parts of matrices in C order; numpy's product would be a copy.

    Examples
    --------
    >>> A = np.eye(2)
    >>> subtract_product(A, np.array([[1.0, 2.0]]), np.array([[1.0, 1.0]]))
    >>> A.tolist()
    [[0.0, -1.0], [-2.0, -1.0]]
    """
    kind, ((depth, n), m) = KINDS[A.dtype.char], (Q.shape, K.shape[1])
    one = np.ones(1, A.dtype)
    q, k, a = (matrix.strides[0] // A.itemsize for matrix in (Q, K, A))
    # BLAS goes by columns: what it sees is A' - Q' K.
    _call("blas", f"{kind}gemm", b"N", b"T", n, m, depth, -one, Q, q, K, k, one, A, a)


def invert_definite(A: np.ndarray, n_jobs: int = 1) -> int:
    """Replace a symmetric positive definite matrix by its inverse, tile by tile.

    A block of rows K at a time is swept (Goodnight 1979), in the upper triangle:

        A_IJ - A_IK D A_KJ,    D A_KJ,    -D    with D = A_KK^-1

    in place of A_IJ, A_KJ and A_KK; at the end A is minus the inverse. Tiles and their order are
    fixed, so the result has the same bits for any number of threads.

    Returns 0, or LAPACK's error code if the matrix is not positive definite.

    Examples
    --------
    >>> A = np.array([[4.0, 2.0], [2.0, 2.0]])
    >>> invert_definite(A), A.tolist()
    (0, [[0.5, -0.5], [-0.5, 1.0]])
    """
    if not (A.flags.c_contiguous and A.flags.writeable):
        raise ValueError("invert_definite needs an array in C order that can be written to.")
    n = len(A)
    if n <= WIDE:
        return _invert_tile(A)
    starts = range(0, n, TILE)
    tiles = [(i, j) for i in starts for j in range(i, n, WIDE)]
    panel, swept = np.empty((2, TILE, n), A.dtype)

    def inverted(first: int) -> tuple[np.ndarray, int]:
        rows = slice(first, first + TILE)
        inverse = A[rows, rows].copy()
        return inverse, _invert_tile(inverse)

    following = {0: inverted(0)}
    for first in starts:
        inverse, info = following.pop(first)
        if info != 0:
            return info
        K, Q = panel[: len(inverse)], swept[: len(inverse)]

        def sweep(
            i: int, first: int = first, K: Any = K, Q: Any = Q, inverse: Any = inverse
        ) -> None:
            here, at = slice(i, i + TILE), slice(first, first + TILE)
            K[:, here] = A[here, at].T if i < first else A[at, here]
            if i == first:
                mirror_upper(K[:, here])
            np.matmul(inverse, K[:, here], out=Q[:, here])

        def update(at: tuple[int, int], first: int = first, K: Any = K, Q: Any = Q) -> None:
            i, j = at
            if i != first:
                tile = A[i : i + TILE, j : j + WIDE]
                subtract_product(tile, K[:, i : i + TILE], Q[:, j : j + WIDE])
            if i == j == first + TILE:  # while other threads update the rest
                following[i] = inverted(i)

        def store(i: int, first: int = first, Q: Any = Q, inverse: Any = inverse) -> None:
            here, at = slice(i, i + TILE), slice(first, first + TILE)
            if i < first:
                A[here, at] = Q[:, here].T
            else:
                A[at, here] = -inverse if i == first else Q[:, here]

        run_all(sweep, starts, n_jobs)
        # The row of tiles with the next diagonal one first.
        run_all(update, sorted(tiles, key=lambda tile: tile[0] != first + TILE), n_jobs)
        run_all(store, starts, n_jobs)

    def fill(i: int) -> None:  # the lower triangle, and the sign
        rows = slice(i, i + TILE)
        mirror_upper(A[rows, rows])
        A[i + TILE :, rows] = A[rows, i + TILE :].T

    run_all(fill, starts, n_jobs)
    run_all(lambda i: np.negative(A[i : i + TILE], out=A[i : i + TILE]), starts, n_jobs)
    return 0


def _invert_tile(A: np.ndarray) -> int:
    """Replace a small symmetric positive definite matrix, given by its upper triangle."""
    n, kind = len(A), KINDS[A.dtype.char]
    # LAPACK goes by columns: its lower triangle is the upper one here.
    args = b"L", n, A, n
    info = _lapack(f"{kind}potrf", *args) or _lapack(f"{kind}potri", *args)
    mirror_upper(A)
    return info


def eigh(A: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return eigenvalues, rising, and eigenvectors of a symmetric matrix's lower triangle.

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
    _lapack("dsyevr", *head, size, -1, whole, -1)  # asks for the best size of the work space
    lwork, liwork = int(size[0]), int(whole[0])
    space = np.empty(lwork), lwork, np.empty(liwork, np.intc), liwork
    info = interruptible(n, _lapack, "dsyevr", *head, *space)
    if info != 0:
        raise np.linalg.LinAlgError(f"the eigenvalues were not found (LAPACK error {info})")
    return w, Z
