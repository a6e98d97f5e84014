"""Initialisations of the search with links.

An initialisation is a linear model (W, b), of which only the labels and desired clusters are used.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
from scipy import linalg
from scipy.optimize import linear_sum_assignment

from .._core.init import fitted_kmeans
from .._core.links import Links
from .._core.rows import Rows, cluster_means, scores
from ._problem import PairProblem

SHRINKAGE = (0.1, 0.01)  # of the scatter of must-links, in mean eigenvalues
LITERAL = 1e-8  # the paper's inverse of S_m, as far as it exists


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
    # Links between equal rows alone have no scatter to take a share of.
    mean = max(np.trace(together), 1e-12 * np.trace(apart)) / len(together) or 1.0
    together[np.diag_indices_from(together)] += shrinkage * mean
    r = Z.shape[1]
    axes = linalg.eigh(apart, together, subset_by_index=[max(r - k, 0), r - 1])[1].T[::-1]
    # LAPACK's signs are arbitrary: the largest entry is made positive.
    largest = np.take_along_axis(axes, np.abs(axes).argmax(axis=1)[:, None], axis=1)
    return axes * np.where(largest < 0, -1.0, 1.0)


def eigenvector_start(axes: np.ndarray, k: int, sign: float = 1.0) -> Start:
    """The eigenvectors as the coefficients of the clusters, the paper's W(0)."""
    coef = np.zeros((k, axes.shape[1]))
    coef[: len(axes)] = sign * axes
    return Start(coef, np.zeros(k))


def nearest_centre_start(centres: np.ndarray, axes: np.ndarray | None = None) -> Start:
    """Scores of which the largest belongs to the nearest centre (of projections on the axes)."""
    coef = centres if axes is None else centres @ axes
    return Start(coef, -0.5 * (centres**2).sum(axis=1))


def labels_start(rows: Rows, labels: np.ndarray, weights: np.ndarray, k: int) -> Start:
    """Nearest centroid of given labels."""
    return nearest_centre_start(cluster_means(rows, labels, weights, k))


def kmeans_start(points: np.ndarray, k: int, rng, axes: np.ndarray | None = None) -> Start:
    """One run of k-means on the points, or on their projections on the axes."""
    projected = points if axes is None else points @ axes.T
    model = fitted_kmeans(projected, k, int(rng.integers(2**31 - 1)), n_init=1)
    return nearest_centre_start(model.cluster_centers_, axes)


def random_start(k: int, rank: int, rng) -> Start:
    """Random directions."""
    return Start(rng.normal(size=(k, rank)), np.zeros(k))


def pair_starts(
    problem: PairProblem, few: PairProblem | None, points: np.ndarray, kind: str, n_init: int, rng
) -> list[Start]:
    """Return ``n_init`` initialisations of one kind, or of all kinds for "auto".

    Their clusters are numbered to fit the known classes.

    Parameters
    ----------
    problem : PairProblem
    few : PairProblem or None
        The problem on the rows with links or known classes; None where nothing parts the clusters.
    points : ndarray of shape (m, r)
        Features of rows for k-means.
    kind : {"auto", "eigenvector", "k-means", "random"}
    """
    if kind == "eigenvector" and n_init == 1:
        links = problem.links if few is None else few.links
        Z = points if few is None else few.rows.values()
        starts = [eigenvector_start(eigenvector_axes(Z, links, problem.k, LITERAL), problem.k)]
    else:
        starts = list(islice(_all_starts(problem, few, points, kind, n_init, rng), n_init))
    return [_named(start, few or problem) for start in starts]


def _all_starts(problem, few, points, kind, n_init, rng) -> Iterator[Start]:
    """Yield initialisations in order of usefulness, ending in infinitely many random ones."""
    k, rank = problem.k, problem.rows.shape[1]
    if kind in ("auto", "eigenvector") and few is not None:
        for shrinkage in SHRINKAGE:
            axes = eigenvector_axes(few.rows.values(), few.links, k, shrinkage)
            if kind == "auto":
                yield kmeans_start(points, k, rng, axes)
            yield eigenvector_start(axes, k)
            yield eigenvector_start(axes, k, -1.0)
    if kind in ("auto", "k-means"):
        count = n_init if kind == "k-means" else 1 if few is not None else (n_init + 1) // 2
        for _ in range(count):
            yield kmeans_start(points, k, rng)
    while True:
        yield random_start(k, rank, rng)


def _named(start: Start, problem: PairProblem) -> Start:
    """Return the initialisation with clusters in the order that fits the known classes best."""
    if len(problem.known_rows) == 0:
        return start
    S = scores(problem.rows.take(problem.known_rows), start.coef) + start.intercept
    S -= S.mean(axis=1, keepdims=True)
    fit = np.zeros((problem.k, problem.k))
    np.add.at(fit, problem.known, S * problem.known_weights[:, None])
    order = linear_sum_assignment(-fit)[1]
    return Start(start.coef[order], start.intercept[order])
