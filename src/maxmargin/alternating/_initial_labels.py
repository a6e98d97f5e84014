"""Initial labels of a two-way split: k-means, normalized cut, principal components, random.

The caller selects among them by the objective after the descent.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import ArpackError, eigsh

from .._core.features import evaluate_kernel, median_distance
from .._core.init import kmeans_labels
from .._core.regression import Factor, shrinkage_for
from .._core.rows import scores, weighted_sum
from .._core.size_floor import Sizes, balanced_split

SPECTRAL_ROWS = 2000
CARRY_DOF = 20.0  # degrees of freedom of the ridge fit that carries a cut to the other rows


def spectral_signs(X, kernel_gamma: float, weights, sizes: Sizes, rng) -> np.ndarray:
    """Two-way normalized cut (Shi & Malik) with the Gaussian affinity between all rows.

    The second eigenvector of D^-1/2 K D^-1/2, scaled by D^-1/2, is split where two levels fit it
    best within the required sizes. A row of weight w is equivalent to w rows.
    """
    X = X if sparse.issparse(X) else X - X.mean(axis=0)
    K = evaluate_kernel(X, X, "rbf", {"gamma": kernel_gamma})
    np.fill_diagonal(K, 1.0)  # in spite of rounding and a large gamma
    root = np.sqrt(weights / (K @ weights))
    K = root[:, None] * K * root[None, :]
    if K.shape[0] < 20:
        vectors = np.linalg.eigh(K)[1][:, -2:]
    else:
        start = rng.random(K.shape[0])
        try:
            vectors = eigsh(K, k=2, which="LA", v0=start, tol=1e-6)[1]
        except ArpackError:  # no convergence, or a start in an invariant subspace
            vectors = np.linalg.eigh(K)[1][:, -2:]
    vector = vectors[:, 0] * root / weights
    spread = np.sqrt(np.average((vector - vector.mean()) ** 2, weights=weights))
    vector = vector / max(spread, 1e-300)
    return balanced_split(vector, "squared", sizes=sizes, weights=weights).signs


def random_signs(n: int, rng) -> np.ndarray:
    """A random labelling with halves of equal size.

    Examples
    --------
    >>> int(random_signs(4, np.random.default_rng(0)).sum())
    0
    """
    signs = np.ones(n, np.int8)
    signs[rng.permutation(n)[: n // 2]] = -1
    return signs


def two_way_starts(
    kind: str,
    factor: Factor,
    points,
    *,
    weights: np.ndarray,
    known: np.ndarray,
    sizes: Sizes,
    n_init: int,
    gamma: float | None,
    rng: np.random.Generator,
) -> list[np.ndarray]:
    """Return distinct initial labellings of a two-way split that agree with known labels.

    Parameters
    ----------
    kind : {"auto", "k-means", "spectral", "random"}
    factor : Factor
        Features of the rows.
    points : array-like or None
        The rows as given, where they have coordinates other than the features.
    weights, known, sizes
        Weights, known sides (0 where free) and what is asked of the sides.
    n_init : int
        Number of k-means runs, principal components and random labellings.
    gamma : float or None
        Width of the Gaussian affinity; None for 1 / median squared distance.
    rng : numpy Generator
    """
    features = factor.rows.values()
    rows = features if points is None else points
    if kind == "random":
        signs = [random_signs(len(weights), rng) for _ in range(n_init)]
    elif kind == "spectral":
        signs = [_carried_cut(rows, factor, weights, sizes, gamma, rng)]
    elif kind == "k-means":
        signs = [_two(kmeans_labels(rows, 2, weights, rng, n_init=1)) for _ in range(n_init)]
    else:
        signs = [_two(kmeans_labels(rows, 2, weights, rng, n_init))]
        if points is not None:
            signs.append(_two(kmeans_labels(features, 2, weights, rng, n_init)))
        signs.append(_carried_cut(rows, factor, weights, sizes, gamma, rng))
        signs += principal_signs(factor, weights, sizes, n_init)
        signs += [random_signs(len(weights), rng) for _ in range(n_init)]
    return _distinct([_respecting(known, s, weights) for s in signs])


def principal_signs(factor: Factor, weights, sizes: Sizes, count: int) -> list[np.ndarray]:
    """Balanced splits of the leading principal components, which solve the relaxed problem.

    Without the constraint that labels are +-1, the leading eigenvectors minimise the squared loss.
    This finds rings, for example, which k-means does not.
    """
    axes = factor.eigenvectors[:, ::-1][:, :count]
    lengths = np.sqrt(np.maximum(factor.eigenvalues[::-1][:count], 1e-12))
    components = scores(factor.rows, (axes / lengths).T)
    return [balanced_split(c, "squared", sizes=sizes, weights=weights).signs for c in components.T]


def _carried_cut(points, factor: Factor, weights, sizes: Sizes, gamma, rng) -> np.ndarray:
    """Normalized cut on at most ``SPECTRAL_ROWS`` rows, carried to the others by a ridge fit."""
    n = len(weights)
    few = np.arange(n)
    if n > SPECTRAL_ROWS:
        few = np.sort(rng.choice(n, SPECTRAL_ROWS, replace=False))
    some = weights[few]
    gamma = gamma or 1.0 / median_distance(points[few], rng)
    signs = spectral_signs(points[few], gamma, some, sizes.scaled(some.sum() / weights.sum()), rng)
    if len(few) == n:
        return signs
    targets = np.zeros(n)
    targets[few] = some * signs / some.sum()
    right_side = weighted_sum(factor.rows, targets[:, None])
    coef = factor.ridge(right_side, shrinkage_for(factor.eigenvalues, CARRY_DOF))
    return np.where(scores(factor.rows, coef)[:, 0] > 0, 1, -1).astype(np.int8)


def _two(labels: np.ndarray) -> np.ndarray:
    return np.where(labels == labels[0], -1, 1).astype(np.int8)


def _respecting(known: np.ndarray, signs: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the labelling with the sign that agrees with most known rows, and known labels."""
    if (weights * known * signs).sum() < 0:
        signs = -signs
    return np.where(known == 0, signs, known).astype(np.int8)


def _distinct(candidates: list[np.ndarray]) -> list[np.ndarray]:
    """Return labellings that differ by more than a swap of the two labels."""
    kept: dict[bytes, np.ndarray] = {}
    for signs in candidates:
        kept.setdefault((signs * signs[0]).astype(np.int8).tobytes(), signs)
    return list(kept.values())
