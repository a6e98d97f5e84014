"""The feature map X -> Z: every method here is a linear model in an explicit feature space.

A kernel is turned into features by landmarks L (rows of X):

    Z = (K(X, L) M - offset) * scale,       M = U diag(lambda)^(-1/2),   K(L, L) = U diag(lambda) U'

With all rows as landmarks this is exact; with landmarks picked by pivoted Cholesky it is exact up
to a tolerance on the trace; with random landmarks it is the Nystroem method. The linear kernel
needs no landmarks: Z is X itself. Features are centred and have unit mean square, so that a
regularisation strength has the same meaning for any data, unit and number of rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.preprocessing import normalize
from sklearn.utils.extmath import randomized_svd

from .._data.source import TILE, BlockResult, MemoryRows, RowSource
from ._numba import row_moments
from .kernels import (
    DEVICE_KERNELS,
    MEDIAN_ROWS,
    SCALE_POWERS,
    SHIFT_INVARIANT,
    Kernel,
    evaluate_kernel,
    kernel_diagonal,
    kernel_params,
)
from .lapack import eigh
from .rows import Block, Rows, weighted_sum

MAX_LINEAR_WIDTH = 1024  # wider linear problems go through landmarks: the solver factors r x r
GREEDY_ROWS = 5000  # pivoted Cholesky is memory-bound: above this many rows landmarks are random
GREEDY_RANK, NYSTROEM_RANK = 512, 256
TRACE_TOLERANCE = 1e-6
FLOAT32_ROWS = 100_000
AUTO_SIGMAS = (0.5, 1.0)  # in median distances: the Gaussians whose mean is kernel="auto"
AUTO_RANK, AUTO_LANDMARKS, AUTO_ALL = 100, 400, 600  # up to 600 rows all are landmarks
AXES_ROWS = 5000  # rows that the axes of text are found on
TEXT_WIDTH, TEXT_SHARE = 50, 0.05  # text: at least so many columns, fewer non-zeros than this
FAR_CENTRE = 1e6  # mean squares: a centre this far from the first estimate is computed again


@dataclass(frozen=True)
class FeatureMap:
    """A fitted map from raw rows to centred features of unit mean square."""

    kernel: Kernel
    params: dict[str, Any]  # keyword arguments of the kernel
    # Rows the kernel is evaluated against; None for the linear kernel on its own columns. For a
    # precomputed kernel, the column numbers.
    landmarks: Any  # ndarray, csr_matrix or None
    # M above; None for the kernel values themselves, neither centred nor scaled
    projection: np.ndarray | None
    # subtracted from raw rows before a shift-invariant kernel, because distances far from the
    # origin lose precision
    input_offset: np.ndarray | None
    # offset, scale: centre and scale of the features
    offset: np.ndarray
    scale: float
    dtype: np.dtype  # type in which features are stored
    axes: np.ndarray | None = None  # principal axes that raw rows are projected on first

    @property
    def rank(self) -> int:
        """Number of features."""
        return int(self.offset.shape[0])

    def rows(self, X: Any, n_jobs: int = 1) -> Rows:
        """Return rows of Z, mapped tile by tile as they are read: nothing is stored."""
        if self.landmarks is None:
            return Rows(X, self.offset, self.scale, n_jobs)
        return Rows(X, n_jobs=n_jobs, features=self)

    def sent(self, send: Callable[..., Any], xp: Any) -> FeatureMap:
        """Return the map with its arrays in another namespace; ``send`` takes them there."""
        if self.kernel not in DEVICE_KERNELS:
            raise ValueError(
                f"kernel={self.kernel!r} does not work on a device; choose a kernel by its name, "
                "or pass X as a numpy array."
            )
        arrays = ("landmarks", "projection", "input_offset", "offset", "axes")
        dtype = getattr(xp, self.dtype.name)
        moved = {name: send(getattr(self, name), dtype) for name in arrays}
        return replace(self, dtype=dtype, **moved)

    def values(self, X: Any, xp: Any = np) -> Any:
        """Return Z of a tile of raw rows."""
        if self.landmarks is None:
            Z = X.toarray() if sparse.issparse(X) else X
            return xp.asarray((xp.asarray(Z, dtype=self.dtype) - self.offset) * self.scale)
        K = self.kernel_values(X, xp)
        if self.projection is None:
            return K
        Z = xp.asarray(K, dtype=self.dtype) @ xp.asarray(self.projection, dtype=self.dtype)
        Z -= xp.asarray(self.offset, dtype=self.dtype)
        Z *= self.scale
        return Z

    def points(self, X: Any) -> Any:
        """Return raw rows as the kernel sees them: shifted and projected."""
        shifted = X if self.input_offset is None else X - self.input_offset
        return shifted if self.axes is None else shifted @ self.axes

    def kernel_values(self, X: Any, xp: Any = np) -> Any:
        """Return the kernel between raw rows and the landmarks."""
        if self.kernel == "precomputed":
            return np.asarray(X[:, self.landmarks])
        gamma = self.params.get("gamma")
        if xp is np and self.kernel in SCALE_POWERS and not isinstance(gamma, tuple):
            points, landmarks, gamma = self.sides(X)
            params = {"gamma": gamma} if self.params else {}
            return evaluate_kernel(points, landmarks, self.kernel, params)
        points = self.points(X if xp is np else xp.asarray(X, dtype=self.dtype))
        landmarks = self.landmarks
        if xp is np:
            with np.errstate(over="ignore"):  # evaluate_kernel refuses what is not finite
                points, landmarks = (s.astype(self.dtype, copy=False) for s in (points, landmarks))
        return evaluate_kernel(points, landmarks, self.kernel, self.params, xp)

    def sides(self, X: Any) -> tuple[Any, Any, float]:
        """Return points and landmarks whose squares are in the range of ``dtype``, and their gamma.

        Both are multiplied by a power of two, which is exact.
        """
        points, landmarks = self.points(X), self.landmarks
        exponent = int(np.frexp(abs(landmarks).max())[1])
        unit = 2.0 ** -min(max(exponent, -500), 500)  # its square is in the range of float64
        largest = float(np.finfo(self.dtype).max) / 16.0 / landmarks.shape[1]
        points, landmarks = points * unit, landmarks * unit
        values = points.data if sparse.issparse(points) else points  # new rows may be far
        np.clip(values, -np.sqrt(largest), np.sqrt(largest), out=values)
        points, landmarks = (s.astype(self.dtype, copy=False) for s in (points, landmarks))
        gamma = float(self.params.get("gamma", 1.0)) / unit ** SCALE_POWERS[str(self.kernel)]
        return points, landmarks, min(gamma, largest)  # infinite without a warning: Python's floats


def mapped_rows(features: Any, X: Any, n_jobs: int = 1) -> Rows:
    """Return rows of ``features.values``, stored where X is if there is memory for them."""
    X = X if isinstance(X, RowSource) else MemoryRows(X)
    kept = X.mapped(features, n_jobs)
    return Rows(X, n_jobs=n_jobs, features=features) if kept is None else Rows(kept, n_jobs=n_jobs)


def fit_features(
    X: Any,
    weights: np.ndarray,
    *,
    kernel: Kernel,
    params: dict[str, Any],
    n_components: int | str | None,
    rng: np.random.Generator,
    n_jobs: int = 1,
    center: bool = True,
    widest: int | None = MAX_LINEAR_WIDTH,
    truncated: bool = False,
) -> tuple[FeatureMap, Rows]:
    """Choose landmarks, centre and scale; return the map and the mapped training rows.

    ``params`` are from :func:`kernel_params`; ``n_components`` is the largest number of features,
    None keeps all. Linear kernels of more than ``widest`` columns go through landmarks. If
    ``truncated``, n_components="auto" means the leading 100 features of 400 random landmarks, as it
    always does for kernel="auto".
    """
    n, d = X.shape
    all_columns = n_components in ("auto", None) or int(n_components) >= d
    if kernel == "linear" and all_columns and (widest is None or d <= widest):
        rows, centre, scale = centred_rows(Rows(X, n_jobs=n_jobs), weights, center)
        return FeatureMap(kernel, {}, None, None, None, centre, scale, np.dtype(X.dtype)), rows
    dtype = np.dtype(np.float32 if n > FLOAT32_ROWS else X.dtype)
    rank = None
    if kernel == "auto" or (truncated and n_components == "auto" and kernel != "precomputed"):
        rank = AUTO_RANK if isinstance(n_components, str) else n_components
    if kernel == "auto":
        kernel = "cosine" if is_text(X) else "rbf"
        gamma = kernel_params(X, kernel, "median", 3, 1, rng).get("gamma", 0.0)
        params = {"gamma": tuple(0.5 * gamma / sigma**2 for sigma in AUTO_SIGMAS)}
    offset = None
    if kernel in SHIFT_INVARIANT and not X.is_sparse:
        offset = centre_of(Rows(X, n_jobs=n_jobs), weights)
    if rank is not None and kernel == "cosine":
        axes = text_axes(X, rank, rng)
        unit, origin = np.eye(len(axes)), np.zeros(len(axes))
        fmap = FeatureMap(kernel, {}, axes, unit, None, origin, 1.0, dtype)
    else:
        if rank is not None:
            many = AUTO_LANDMARKS if n > AUTO_ALL else n
            chosen = np.sort(rng.choice(n, max(many, min(rank, n)), replace=False))
        elif n_components is None:
            chosen = np.arange(n)
        elif n > GREEDY_ROWS:
            many = feature_rank(n, d, kernel, n_components)
            chosen = np.sort(rng.choice(n, many, replace=False))
        else:
            many = min(n, GREEDY_RANK if n_components == "auto" else int(n_components))
            chosen = pivoted_cholesky(X.take(slice(None)), offset, kernel, params, many)
        picked = X.take(chosen)
        fmap = FeatureMap(kernel, params, None, None, offset, np.zeros(0), 1.0, dtype)
        fmap = replace(fmap, landmarks=chosen if kernel == "precomputed" else fmap.points(picked))
        among = replace(fmap, dtype=np.dtype(X.dtype)).kernel_values(picked)
        projection = kernel_basis(among, kernel, dtype)[:, :rank]
        fmap = replace(fmap, projection=projection, offset=np.zeros(projection.shape[1]))
    kept = X.mapped(fmap, n_jobs)  # None if there is no memory for them
    rows = fmap.rows(X, n_jobs) if kept is None else Rows(kept, n_jobs=n_jobs)
    rows, centre, scale = centred_rows(rows, weights, center)
    fmap = replace(fmap, offset=centre, scale=scale)
    if kept is None:
        return fmap, fmap.rows(X, n_jobs)
    if not rows.source.in_memory:
        return fmap, rows
    Z = rows.source.take(slice(None))  # stored a moment ago: nobody else has it
    Z -= centre.astype(Z.dtype)
    Z *= Z.dtype.type(scale)
    return fmap, Rows(Z, n_jobs=n_jobs)


def is_text(X: RowSource) -> bool:
    """Return whether rows are like word counts: many columns, nearly all of them zero.

    Examples
    --------
    >>> is_text(MemoryRows(np.eye(60))), is_text(MemoryRows(np.ones((5, 60))))
    (True, False)
    """
    some = X.take(np.arange(0, X.shape[0], -(-X.shape[0] // MEDIAN_ROWS)))
    count = some.nnz if sparse.issparse(some) else np.count_nonzero(some)
    share = int(count) / (some.shape[0] * some.shape[1])
    return X.shape[1] >= TEXT_WIDTH and share < TEXT_SHARE


def text_axes(X: RowSource, rank: int, rng: np.random.Generator) -> np.ndarray:
    """Return the leading principal axes of some rows of unit length, as rows.

    The cosine kernel between a row and an axis is the row's coordinate on that axis.
    """
    some = X.take(np.arange(0, X.shape[0], -(-X.shape[0] // AXES_ROWS)))
    unit = normalize(sparse.csr_matrix(some, dtype=np.float64))
    rank, seed = min(rank, *unit.shape), int(rng.integers(2**31 - 1))
    return np.asarray(randomized_svd(unit, rank, n_iter=3, random_state=seed)[2])


def feature_rank(n: int, d: int, kernel: Kernel, n_components: int | str | None) -> int:
    """Upper bound on the number of features of the map."""
    if kernel == "linear" and d <= MAX_LINEAR_WIDTH and n_components in ("auto", None):
        return d
    if isinstance(kernel, str) and kernel == "auto" and n_components == "auto":
        return min(n, AUTO_RANK)
    if n_components is None:
        return n
    if n_components != "auto":
        return min(n, int(n_components))
    return min(n, GREEDY_RANK if n <= GREEDY_ROWS else NYSTROEM_RANK)


def centred_rows(
    rows: Rows, weights: np.ndarray, center: bool = True
) -> tuple[Rows, np.ndarray, float]:
    """Centre rows (optionally) and scale them to unit mean square; one pass if they are dense.

    Returns the rows, and the centre and scale in terms of the stored data; the scale of equal rows
    is 0.
    """
    raw, (n, width) = replace(rows, offset=None, scale=1.0), rows.shape
    centre, total = np.zeros(width), float(weights.sum())
    if rows.is_sparse:
        centre = centre_of(raw, weights) if center else centre
        plain = float(reduce(add, raw.run(square_block, (total,), (weights,))[1]))
        mean_square, rounding = plain - float(centre @ centre), 1e-13 * plain
    else:
        few = raw.take(np.arange(min(n, TILE))).values() if center else centre[None]
        centre, far = few.mean(axis=0, dtype=np.float64), True
        while far:  # as a rule once: the mean of the first rows is near that of all
            sums, squares = reduce(add, raw.run(moment_block, (centre, total), (weights,))[1])
            apart = float(sums @ sums) if center else 0.0
            centre, mean_square = centre + sums * center, float(squares.sum()) - apart
            far = apart > FAR_CENTRE * max(mean_square, float(centre @ centre) * 1e-24)
        rounding = (1e-12 if rows.dtype == np.float64 else 1e-5) ** 2 * float(centre @ centre)
    # Rows that differ only by rounding count as equal: scaled up, the noise would not be centred.
    scale = float(1.0 / np.sqrt(mean_square)) if mean_square > max(rounding, 1e-290) else 0.0
    return replace(raw, offset=centre, scale=scale), centre, scale


def centre_of(rows: Rows, weights: np.ndarray) -> np.ndarray:
    """Weighted mean row."""
    n = len(weights)
    shares = np.broadcast_to(1.0 / n, n) if weights.strides[0] == 0 else weights / weights.sum()
    return np.asarray(weighted_sum(rows, shares)[0])


def square_block(block: Block, parts: Any, total: float) -> BlockResult:
    """Block function: mean square of CSR rows."""
    precise = block.data.astype(np.float64)
    squares = np.asarray(precise.multiply(precise).sum(axis=1)).ravel()
    return (), parts[0] / total @ squares


def moment_block(block: Block, parts: Any, pivot: np.ndarray, total: float) -> BlockResult:
    """Block function: mean differences of dense rows from a pivot, and mean squares of these."""
    xp, shares = block.xp, parts[0] / total
    if xp is not np:
        Z = next(block.tiles())[1].values
        values = xp.astype(Z, xp.float64) - block.send(pivot, xp.float64)
        weighted = values * shares[:, None]
        return (), xp.stack([xp.sum(weighted, axis=0), xp.sum(weighted * values, axis=0)])
    found = np.zeros((2, len(pivot)))
    if block.features is None:
        row_moments(np.ascontiguousarray(block.data), shares, pivot, found)
    else:
        for where, tile in block.tiles():
            row_moments(tile.values, shares[where], pivot, found)
    return (), found


def pivoted_cholesky(
    X: Any, offset: np.ndarray | None, kernel: Kernel, params: dict[str, Any], rank: int
) -> np.ndarray:
    """Greedy landmarks: each is the row worst explained by those before it.

    Stops when the unexplained part of the trace falls below a tolerance.

    Examples
    --------
    >>> X = np.array([[0.0], [0.0], [5.0]])
    >>> pivoted_cholesky(X, None, "rbf", {"gamma": 1.0}, 3)
    array([0, 2])
    """
    shifted = X if offset is None else X - offset
    residual = kernel_diagonal(shifted, kernel, params)
    enough = TRACE_TOLERANCE * max(residual.sum(), 0.0)
    factor = np.zeros((X.shape[0], rank))
    chosen: list[int] = []
    for j in range(rank):
        pivot = int(np.argmax(residual))
        if residual.sum() <= enough or residual[pivot] <= 0:
            break
        if kernel == "precomputed":
            column = np.array(X[:, pivot], np.float64)
        else:
            column = evaluate_kernel(shifted, shifted[[pivot]], kernel, params)[:, 0]
        column = column - factor[:, :j] @ factor[pivot, :j]
        factor[:, j] = column / np.sqrt(residual[pivot])
        residual = np.maximum(residual - factor[:, j] ** 2, 0.0)
        residual[pivot] = 0.0
        chosen.append(pivot)
    return np.array(sorted(chosen) or [0])


def kernel_basis(K: np.ndarray, kernel: Kernel, dtype: Any) -> np.ndarray:
    """M with ``M' K(L, L) M = I`` on the positive part of the spectrum."""
    K = np.asarray(K, np.float64)
    lam, U = eigh(0.5 * (K + K.T))
    top = max(lam[-1], 0.0)
    if lam[0] < -1e-6 * max(top, 1e-300):
        warnings.warn(
            f"kernel={kernel!r} is not positive semi-definite: its smallest eigenvalue is "
            f"{lam[0]:.3g}, its largest {top:.3g}. The negative part is dropped.",
            stacklevel=2,
        )
    # Directions below the rounding error of the kernel are noise, amplified by 1 / sqrt(lambda).
    keep = lam > (1e-10 if dtype == np.float64 else 1e-6) * top
    if not keep.any():
        return np.zeros((K.shape[0], 1))
    # Largest first; a fixed sign makes the features reproducible.
    U, lam = U[:, keep][:, ::-1], lam[keep][::-1]
    U = U * np.sign(U[np.abs(U).argmax(axis=0), np.arange(U.shape[1])])
    return np.asarray(U / np.sqrt(lam))
