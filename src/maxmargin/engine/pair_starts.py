"""Where the search for a clustering with links starts from.

A start is a linear model (W, b): only the labels and desired clusters at its scores matter.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import linalg
from scipy.optimize import linear_sum_assignment
from sklearn.cluster import KMeans

from .links import Links
from .pair_problem import PairProblem
from .rows import Rows, scores
from .starts import integer_seed

SHRINKAGE = (0.1, 0.01)  # of the scatter of must-links, in mean eigenvalues
KMEANS_ROWS = 2000


@dataclass(frozen=True)
class Start:
    """Coefficients (k, r) and intercepts (k,)."""

    coef: np.ndarray
    intercept: np.ndarray


def link_scatter(Z: np.ndarray, links: Links, same: bool) -> np.ndarray:
    """Mean of (x - x')(x - x')' over the links of one kind: (19), (20).

    Without such links, that of all rows of Z.

    Examples
    --------
    >>> links = Links(np.array([0]), np.array([1]), np.array([True]), np.ones(1))
    >>> link_scatter(np.array([[0.0, 1.0], [2.0, 1.0]]), links, True)
    array([[4., 0.],
           [0., 0.]])
    """
    chosen = links.take(links.same == same)
    if len(chosen) == 0:
        return 2.0 * np.cov(Z.T, bias=True).reshape(Z.shape[1], -1)
    differences = Z[chosen.first] - Z[chosen.second]
    return (chosen.weights[:, None] * differences).T @ differences / chosen.weights.sum()


def eigenvector_axes(Z, links: Links, k: int, shrinkage: float) -> np.ndarray:
    """The k leading eigenvectors of S_m^-1 S_c (18), as rows; fewer where Z has fewer columns.

    S_m is singular where there are fewer links than features: a multiple of the identity is added.
    """
    together = link_scatter(Z, links, True)
    apart = link_scatter(Z, links, False)
    mean = max(np.trace(together) / len(together), 1e-300)
    together[np.diag_indices_from(together)] += shrinkage * mean
    r = Z.shape[1]
    axes = linalg.eigh(apart, together, subset_by_index=[max(r - k, 0), r - 1])[1].T[::-1]
    # LAPACK's signs are arbitrary: the largest entry is made positive.
    largest = np.take_along_axis(axes, np.abs(axes).argmax(axis=1)[:, None], axis=1)
    return axes * np.where(largest < 0, -1.0, 1.0)


def eigenvector_start(Z, links, k, shrinkage, sign=1.0) -> Start:
    """The eigenvectors as the coefficients of the clusters, the paper's W(0)."""
    axes = sign * eigenvector_axes(Z, links, k, shrinkage)
    padded = np.zeros((k, Z.shape[1]))
    padded[: len(axes)] = axes
    return Start(padded, np.zeros(k))


def centroid_start(rows: Rows, labels: np.ndarray, weights: np.ndarray, k: int) -> Start:
    """Scores whose largest is the nearest centroid."""
    from .rows import weighted_sum

    codes = (labels[:, None] == np.arange(k)) * weights[:, None]
    centres = weighted_sum(rows, codes) / np.maximum(codes.sum(axis=0), 1e-300)[:, None]
    return Start(centres, -0.5 * (centres**2).sum(axis=1))


def projected_kmeans_start(Z, axes: np.ndarray, k: int, rng) -> Start:
    """k-means on the projections of rows Z; nearest centre as a linear score in Z."""
    points = Z @ axes.T
    model = KMeans(k, n_init=1, random_state=integer_seed(rng)).fit(points)
    centres = model.cluster_centers_
    return Start(centres @ axes, -0.5 * (centres**2).sum(axis=1))


def random_start(k: int, rank: int, rng) -> Start:
    """Random directions."""
    return Start(rng.normal(size=(k, rank)), np.zeros(k))


def pair_starts(problem: PairProblem, few: PairProblem, sample: np.ndarray, kind, n_init, rng):
    """Starts of one kind, or of all kinds for "auto".

    Parameters
    ----------
    problem, few : PairProblem
        On all rows, and on those with links or known classes.
    sample : ndarray of shape (m, r)
        Rows for k-means.
    """
    k, rank = problem.k, problem.rows.shape[1]
    Z = few.rows.data
    starts = []
    if kind in ("auto", "eigenvector"):
        for shrinkage in SHRINKAGE:
            axes = eigenvector_axes(Z, few.links, k, shrinkage)
            for sign in (1.0, -1.0):
                padded = np.zeros((k, rank))
                padded[: len(axes)] = sign * axes
                starts.append(Start(padded, np.zeros(k)))
            starts.append(projected_kmeans_start(sample, axes, k, rng))
    if kind in ("auto", "k-means"):
        starts.append(projected_kmeans_start(sample, np.eye(rank), k, rng))
    while len(starts) < n_init:
        starts.append(random_start(k, rank, rng))
    return starts[:n_init]
