"""Model selection without labels: the number of clusters, and gamma and ridge of least squares."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
from sklearn.metrics import adjusted_rand_score
from sklearn.utils import check_array, check_random_state
from threadpoolctl import threadpool_limits

from ._cluster_number import ClusterNumberChoice, check_count, stable_number
from ._core.dedup import FitInput, make_input
from ._core.kernels import median_distance
from ._data.source import raise_with_hint
from ._separated_number import CHOICE_ROWS, number_of_clusters
from ._threads import one_thread
from .least_squares import LeastSquaresMarginClustering
from .least_squares._label_search import label_problem, search_labels, search_settings
from .least_squares._settings import Settings, kind_of_rows
from .least_squares._similarity import factor_dtype, kernel_map, kernel_matrix, similarity_of
from .least_squares._starts import random_starts

__all__ = ["ClusterNumberChoice", "ParameterChoice", "choose_n_clusters", "select_parameters"]

WIDTHS = (0.15, 0.25, 0.35, 0.5, 0.7, 1.0)
RIDGES = (0.25, 0.5, 1.0, 2.0)  # larger ones find only the coarsest split, which is always stable


@dataclass(frozen=True)
class ParameterChoice:
    """Result of :func:`select_parameters`.

    Parameters
    ----------
    best : dict
        ``gamma`` and ``ridge`` with the highest score, for :class:`LeastSquaresMarginClustering`.
    table : list of dict
        For each setting: gamma, ridge, stability (mean adjusted Rand index between restarts),
        leave_one_out (accuracy of the best restart) and score, their product.

    See Also
    --------
    maxmargin.select_parameters : Choose gamma and ridge.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> X, _ = make_moons(100, noise=0.05, random_state=0)
    >>> grid = {"gamma": [1.0, 10.0], "ridge": [1.0]}
    >>> choice = select_parameters(X, 2, grid, random_state=0)
    >>> sorted(choice.best), len(choice.table)
    (['gamma', 'ridge'], 2)
    """

    best: dict[str, float]
    table: list[dict[str, float]]

    def plot(self, ax: Any = None) -> Any:
        """Plot the score of every setting and mark the best.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, default=None
            Axes to plot on; None creates a figure.

        Returns
        -------
        matplotlib.axes.Axes
            The axes.
        """
        from .display import plot_parameter_choice

        return plot_parameter_choice(self, ax)


def select_parameters(
    X: Any,
    n_clusters: int,
    grid: dict[str, Any] | None = None,
    *,
    n_restarts: int = 10,
    **params: Any,
) -> ParameterChoice:
    """Select gamma and ridge by stability times leave-one-out accuracy, without labels.

    With a good setting all random restarts find the same clusters, and the leave-one-out accuracy
    of the classifiers is high. Kernels are shared by all ridges, and R by all restarts.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Rows to cluster.
    n_clusters : int
        Number of clusters.
    grid : dict, optional
        Lists of values under "gamma" and "ridge". By default widths sigma from 0.15 to 1 times the
        median distance, for exp(-d^2 / (2 sigma^2)), and ridges from 1/4 to 2.
    n_restarts : int, default=10
        Number of random restarts for each setting.
    **params
        Further parameters of :class:`LeastSquaresMarginClustering`, such as ``random_state``.

    Returns
    -------
    ParameterChoice
        The best setting and the scores of all.

    See Also
    --------
    LeastSquaresMarginClustering : The estimator whose parameters are chosen.
    maxmargin.model_selection.ParameterChoice : The result.
    choose_n_clusters : Choose the number of clusters.

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
    source = model._source(X, reset=True)
    model._check_counts(source, None)
    settings = model._settings()
    data = make_input(source, None, None, merge=not model._pairwise)
    data = replace(data, rng=model._generator())
    with threadpool_limits(1):
        chosen = data.chosen(settings.max_samples, settings.precomputed)
        rows, weights = data.X.take(chosen), data.weights[chosen]
        gammas, ridges = _grid(grid, rows, data.rng)
        table = []
        for gamma in gammas:
            given = replace(settings, gamma=gamma)
            fmap = kernel_map(rows, weights, data.rng, given, given.kernels[0])
            dtype = factor_dtype(len(weights), min(ridges))
            K, scale = kernel_matrix(fmap, rows, weights, dtype, settings.center)
            for ridge in ridges:
                similarity = similarity_of(K.copy(), scale, weights, ridge, settings.center)
                quality = _quality(similarity, data, chosen, given)
                table.append({"gamma": gamma, "ridge": ridge, **quality})
    best = max(table, key=lambda row: row["score"])
    return ParameterChoice({"gamma": best["gamma"], "ridge": best["ridge"]}, table)


def _grid(
    grid: dict[str, Any] | None, rows: Any, rng: np.random.Generator
) -> tuple[list[float], list[float]]:
    grid = grid or {}
    unknown = set(grid) - {"gamma", "ridge"}
    if unknown:
        raise ValueError(f"grid accepts the keys 'gamma' and 'ridge', got {sorted(unknown)}.")
    gammas = grid.get("gamma")
    if gammas is None:
        distance = median_distance(rows, rng)
        gammas = [0.5 / (width**2 * distance) for width in WIDTHS]
    return [float(g) for g in gammas], [float(r) for r in grid.get("ridge", RIDGES)]


def _quality(
    similarity: Any, data: FitInput, chosen: np.ndarray, settings: Settings
) -> dict[str, float]:
    """Return the stability of the restarts and the leave-one-out accuracy of the best."""
    problem = label_problem(similarity, data.known[chosen], data, settings)
    search = search_settings(settings, data, 0.0)
    starts = random_starts(problem, settings, data.rng)
    found = [search_labels(problem, [start], search) for start in starts]
    pairs = list(combinations(found, 2))
    agreement = [adjusted_rand_score(a.labels, b.labels) for a, b in pairs]
    best = max(found, key=lambda f: f.value)
    caches = similarity.caches(best.labels, problem.k)
    predicted = similarity.leave_one_out(caches, best.labels).argmax(axis=1)
    accuracy = float(np.average(predicted == best.labels, weights=similarity.weights))
    stability = float(np.mean(agreement)) if pairs else 1.0
    return {"stability": stability, "leave_one_out": accuracy, "score": stability * accuracy}


def choose_n_clusters(
    X: Any,
    estimator: Any = None,
    *,
    k_range: Iterable[int] | None = None,
    n_subsamples: int | None = None,
    max_samples: int | None = None,
    random_state: Any = None,
) -> ClusterNumberChoice:
    """Choose the number of clusters; one cluster is a possible answer.

    Without an estimator, clusters are modes of the density of any shape, and the number is where
    their separation falls most (see :class:`maxmargin.model_selection.ClusterNumberChoice`). This
    takes less time than one fit. Columns of very different scales are standardised, as in a fit of
    :class:`maxmargin.MaxMarginClustering`. For rows of mostly zeros, such as word counts, the
    number is that of stable k-means clusters of their leading singular vectors. With an estimator,
    the number is chosen by the stability of its clusters under subsampling.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Rows to cluster, or a kernel matrix if the estimator is pairwise.
    estimator : clusterer, optional
        Any estimator with ``n_clusters`` and ``fit_predict``, or a pipeline that ends in one.
    k_range : iterable of int, optional
        Numbers to choose from. With an estimator, and for word counts, each must be at least 2. By
        default 2 to 15 with an estimator, fewer if there are few rows; any number without.
    n_subsamples : int, optional
        Only with an estimator: number of subsamples clustered for every k, at least 3. By default
        10 for up to 500 rows, because stability varies more on small data sets, and 6 for more.
    max_samples : int, optional
        Maximum number of rows that are used, by default 4000; with an estimator 1000.
    random_state : int, RandomState instance or None, default=None
        Seed of the sample, of reference data, and of the estimator.

    Returns
    -------
    ClusterNumberChoice
        The number, the curve that it was chosen from, and whether the choice is uncertain.

    See Also
    --------
    MaxMarginClustering : Chooses the number in the same way if it is not given.
    maxmargin.model_selection.ClusterNumberChoice : The result.
    select_parameters : Choose gamma and ridge for a given number.

    Examples
    --------
    >>> from maxmargin import choose_n_clusters
    >>> from sklearn.cluster import KMeans
    >>> from sklearn.datasets import make_blobs
    >>> X, y = make_blobs(300, centers=4, cluster_std=0.5, random_state=1)
    >>> choice = choose_n_clusters(X, random_state=0)
    >>> choice.n_clusters, choice.uncertain
    (4, False)
    >>> choice = choose_n_clusters(X, KMeans(n_init=3), k_range=range(2, 8), random_state=0)
    >>> choice.n_clusters, choice.uncertain
    (4, False)
    """
    try:
        X = check_array(X, accept_sparse="csr", dtype=[np.float64, np.float32])
    except (ValueError, TypeError) as error:
        call = "choose_n_clusters(table_pipeline(X, estimator)[:-1].fit_transform(X))"
        raise_with_hint(error, X, call)
    if estimator is not None:
        most = 1000 if max_samples is None else max_samples
        return stable_number(X, estimator, k_range, n_subsamples, most, random_state)
    if n_subsamples is not None:
        raise ValueError(f"n_subsamples={n_subsamples!r} needs an estimator.")
    most = CHOICE_ROWS if max_samples is None else max_samples
    check_count("max_samples", most, 10)
    rng = np.random.default_rng(check_random_state(random_state).randint(2**31 - 1))
    n, kernel = X.shape[0], kind_of_rows(X).kernel
    rows = np.sort(rng.choice(n, min(n, most), replace=False))
    with one_thread():
        return number_of_clusters(X[rows], None, kernel, rng, k_range, sampled=n > most)
