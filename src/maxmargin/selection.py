"""Label-free choice of the kernel width and the ridge of least-squares margin clustering."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from sklearn.metrics import adjusted_rand_score

from .engine.features import median_distance
from .engine.labels import search_labels
from .engine.samples import make_sample
from .engine.similarity import factor_dtype, kernel_matrix, similarity_of
from .engine.threads import one_thread
from .least_squares import LeastSquaresMarginClustering

WIDTHS = (0.15, 0.25, 0.35, 0.5, 0.7, 1.0)
RIDGES = (0.25, 0.5, 1.0, 2.0)  # more leaves only the coarsest split, which is always stable


@dataclass(frozen=True)
class ParameterChoice:
    """The chosen parameters and the table they were chosen from.

    Attributes
    ----------
    best : dict
        ``gamma`` and ``ridge``, to be passed to :class:`LeastSquaresMarginClustering`.
    table : list of dict
        For every setting: gamma, ridge, stability (mean agreement of the restarts, as adjusted Rand
        index), leave_one_out (accuracy of the best restart) and score, their product.
    """

    best: dict[str, float]
    table: list[dict[str, float]]

    def plot(self, ax=None):
        """Draw the score of every setting as a picture, the best one marked."""
        from .display import plot_parameter_choice

        return plot_parameter_choice(self, ax)


def select_parameters(
    X, n_clusters: int, grid: dict | None = None, *, n_restarts: int = 10, **params
) -> ParameterChoice:
    """Choose (gamma, ridge) by stability times leave-one-out accuracy, without labels.

    A good setting gives the same clusters from every random start, and classifiers that predict a
    row's cluster without having seen it. Kernels are shared by all ridges, and R by all restarts.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
    n_clusters : int
    grid : dict, optional
        Lists under "gamma" and "ridge". By default widths sigma from 0.15 to 1 median distance, for
        exp(-d^2 / (2 sigma^2)), and ridges from 1/4 to 2.
    n_restarts : int, default=10
    **params
        Further parameters of :class:`LeastSquaresMarginClustering`, such as ``random_state``.

    Returns
    -------
    ParameterChoice

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(200, noise=0.05, random_state=0)
    >>> choice = select_parameters(X, 2, random_state=0)
    >>> model = LeastSquaresMarginClustering(2, **choice.best, random_state=0).fit(X)
    >>> adjusted_rand_score(y, model.labels_)
    1.0
    """
    model = LeastSquaresMarginClustering(n_clusters, n_init=n_restarts, n_kicks=0, **params)
    model._validate_params()
    X = model._validated(X, reset=True)
    model._check_counts(X, None)
    rng = model._generator()
    with one_thread():
        sample = make_sample(X, None, None, merge=not model._pairwise)
        chosen = model._subset(sample, rng)
        rows, weights = sample.X[chosen], sample.weights[chosen]
        gammas, ridges = _grid(grid, rows, rng)
        table = []
        for gamma in gammas:
            model.set_params(gamma=gamma)
            fmap = model._kernel_map(rows, weights, rng)
            dtype = factor_dtype(len(weights), min(ridges))
            K, scale = kernel_matrix(fmap, rows, weights, dtype)
            for ridge in ridges:
                similarity = similarity_of(K.copy(), scale, weights, ridge, model.center)
                quality = _quality(model, similarity, sample, chosen, rng)
                table.append({"gamma": gamma, "ridge": ridge, **quality})
    best = max(table, key=lambda row: row["score"])
    return ParameterChoice({"gamma": best["gamma"], "ridge": best["ridge"]}, table)


def _grid(grid, rows, rng) -> tuple[list[float], list[float]]:
    grid = grid or {}
    unknown = set(grid) - {"gamma", "ridge"}
    if unknown:
        raise ValueError(f"grid takes the keys 'gamma' and 'ridge', got {sorted(unknown)}.")
    gammas = grid.get("gamma")
    if gammas is None:
        distance = median_distance(rows, rng)
        gammas = [0.5 / (width**2 * distance) for width in WIDTHS]
    return [float(g) for g in gammas], [float(r) for r in grid.get("ridge", RIDGES)]


def _quality(model, similarity, sample, chosen, rng) -> dict[str, float]:
    """Stability of the restarts and leave-one-out accuracy of the best."""
    problem = model._problem(similarity, sample.known[chosen], sample)
    found = []
    for start in model._starts(problem, rng):
        found.append(search_labels(problem, [start], model._settings(rng, _no_watch, 1)))
    pairs = list(combinations(found, 2))
    agreement = [adjusted_rand_score(a.labels, b.labels) for a, b in pairs]
    best = max(found, key=lambda f: f.value)
    caches = similarity.caches(best.labels, problem.k)
    predicted = similarity.leave_one_out(caches, best.labels).argmax(axis=1)
    accuracy = float(np.average(predicted == best.labels, weights=similarity.weights))
    stability = float(np.mean(agreement)) if pairs else 1.0
    return {"stability": stability, "leave_one_out": accuracy, "score": stability * accuracy}


def _no_watch(_objective: float) -> None:
    return None
