"""The estimator: see the folder's docstring for the problem it solves."""

from __future__ import annotations

from dataclasses import fields
from numbers import Integral, Real
from typing import Any

import numpy as np

from .._base import SHARED_CONSTRAINTS, STRENGTH, BaseMarginClustering
from .._callbacks import Interval, StrOptions
from .._core.dedup import FitInput
from .._core.model import Model
from .._core.size_floor import row_losses
from ._fit import fit_least_squares
from ._label_search import SHAKES
from ._settings import Settings

MAX_DESCENT_ROUNDS = 200


class LeastSquaresMarginClustering(BaseMarginClustering):
    """Margin clustering with one-against-all regularised least-squares classifiers.

    The default assumes clusters of SIMILAR SIZE: the search favours clusters of ``n / k`` rows.
    Otherwise set ``cluster_sizes``; a warning is raised if leave-one-out predictions indicate
    unequal sizes.

    Parameters
    ----------
    n_clusters : int, default=2
        Number of clusters.
    search : {"shaking", "steepest", "stochastic"}, default="shaking"
        The paper's Algorithms 3, 2 and 1. The last two are for comparison: they stop in poor local
        optima.
    kernel : str, callable or list of them, default="rbf"
        As in :func:`sklearn.metrics.pairwise.pairwise_kernels`, or "precomputed". The similarities
        R of several kernels are averaged.
    gamma : "half-median", "median", float or None, default="half-median"
        Width of the kernel. "half-median": exp(-d^2 / (2 sigma^2)) with sigma half the median
        distance; "median": 1 / median squared distance.
    degree, coef0 : float, default=3 and 1
        Of the polynomial and sigmoid kernels.
    ridge : float, default=1.0
        Regularisation strength lambda, from 1e-12 to 1e12, for a kernel with unit mean diagonal.
        Values near 1 are suitable for any number of rows.
    center : bool, default=True
        Whether to centre the kernel, so that the classifiers have an intercept; the paper does not.
    cluster_sizes : None, "adaptive" or array-like of shape (n_clusters,), default=None
        Target sizes of the clusters: equal, estimated from leave-one-out predictions, or given as
        row counts or proportions.
    n_init : int or "auto", default="auto"
        Number of random initialisations; they share R and are cheap. "auto" is 10.
    n_kicks : int or "auto", default="auto"
        Number of attempts to improve the best labels by reassigning the rows of two clusters.
        "auto" is half the number of clusters.
    n_shakes : int, default=21
        Number of rounds of "shaking", at most 1000.
    cooling : float, default=0.5
        Factor below 1 of the number of rows that clusters claim, from one round of "shaking" to the
        next.
    partial_start : {"auto", "supervised", "grow"}, default="auto"
        Initialisation with ``partial_labels``: "supervised" uses the classifiers of the labelled
        rows, "grow" extends the clusters from them, "auto" keeps the better objective of both.
    max_samples : int, default=4000
        Maximum number of rows to fit on (memory is 4 max_samples^2 bytes); the model predicts the
        labels of the other rows.
    n_components : int or None, default=None
        Rank of a low-rank kernel (Nystroem). It lowers the quality, because good settings have a
        high effective rank.
    pca : int or None, default=None
        Reduce dense rows to this many principal components first.
    balance : float, default=0.1
        Every cluster has at least ``balance * n / n_clusters`` of the n fitted rows.
    max_iter : int, default=200
        Maximum number of rounds of "stochastic" and "steepest".
    warm_start : bool, default=False
        Start from the labels that the previous fit predicts.
    verbose : int, default=0
        1 shows a progress bar if scikit-learn >= 1.9 and rich are installed.
    random_state : int, RandomState instance or None, default=None
        Seed. On one machine, results do not depend on the number of threads.
    n_jobs : int or None, default=None
        Number of threads over initialisations and blocks of rows; fits of fewer than 500 rows
        use one.

    Attributes
    ----------
    labels_, cluster_sizes_, exemplar_indices_, clusters_on_floor_
        See :class:`AlternatingMarginClustering`.
    coef_, intercept_ : ndarray of shape (n_clusters, n_fitted) and (n_clusters,)
        Coefficients of the kernel values with the training rows, one classifier per cluster.
    leave_one_out_ : float
        Leave-one-out accuracy on the training rows.
    leave_one_out_margins_ : ndarray of shape (n_fitted,)
        Leave-one-out margin of each training row: score of its cluster minus the best other score.
    fitted_indices_ : ndarray
        Indices of the training rows.
    membership_ : ndarray of shape (n_fitted, n_clusters)
        Partial memberships of the training rows: the scores of the regressions on the clusters'
        indicators, without their negative part, divided by their sum.
    objective_ : float
        The paper's Q, which the search minimises. With ``center=True`` it is that of the centred
        kernel; the loss of the classifiers with their intercepts is lower by
        ``n sum_h (2 n_h / n - 1)^2``, a constant for clusters of given sizes.
    compared_with_kmeans_ : dict
        "objective": that of the k-means partition of the fitted rows, repaired to the size floor;
        "ari": the adjusted Rand index between it and the labels found. ``objective_`` is not above
        it, nor above that of the labels of a warm start, unless ``cluster_sizes`` is given or
        ``search`` is not "shaking". k-means sees at most 2,000 rows.
    history_ : list of float
        Q after each round of the best initialisation.

    See Also
    --------
    MaxMarginClustering : The same method with automatic settings and sizes.
    select_parameters : Select gamma and ridge without labels.

    References
    ----------
    T. Pahikkala, A. Airola, F. Gieseke, O. Kramer. On Unsupervised Training of Multi-Class
    Regularized Least-Squares Classification. Journal of Computer Science and Technology 29, 2014.

    Examples
    --------
    >>> from maxmargin import LeastSquaresMarginClustering
    >>> from maxmargin.metrics import adjusted_rand_score
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LeastSquaresMarginClustering(3, random_state=0).fit(X)
    >>> adjusted_rand_score(y, model.labels_) > 0.85
    True
    """

    _parameter_constraints: dict = {  # noqa: RUF012 - scikit-learn's convention
        **{k: v for k, v in SHARED_CONSTRAINTS.items() if k != "tol"},
        "kernel": [*SHARED_CONSTRAINTS["kernel"], list, tuple],
        "search": [StrOptions({"shaking", "steepest", "stochastic"})],
        "ridge": [STRENGTH],
        "center": ["boolean"],
        "cluster_sizes": [None, StrOptions({"adaptive"}), "array-like"],
        "n_kicks": [StrOptions({"auto"}), Interval(Integral, 0, None, closed="left")],
        "n_shakes": [Interval(Integral, 1, 1000, closed="both")],
        "cooling": [Interval(Real, 0, 1, closed="neither")],
        "partial_start": [StrOptions({"auto", "supervised", "grow"})],
        "max_samples": [Interval(Integral, 2, None, closed="left")],
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "pca": [Interval(Integral, 1, None, closed="left"), None],
    }

    def __init__(
        self,
        n_clusters=2,
        *,
        search="shaking",
        kernel="rbf",
        gamma="half-median",
        degree=3,
        coef0=1,
        ridge=1.0,
        center=True,
        cluster_sizes=None,
        n_init="auto",
        n_kicks="auto",
        n_shakes=SHAKES,
        cooling=0.5,
        partial_start="auto",
        max_samples=4000,
        n_components=None,
        pca=None,
        balance=0.1,
        max_iter=MAX_DESCENT_ROUNDS,
        warm_start=False,
        verbose=0,
        random_state=None,
        n_jobs=None,
    ):
        self.n_clusters = n_clusters
        self.search = search
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.ridge = ridge
        self.center = center
        self.cluster_sizes = cluster_sizes
        self.n_init = n_init
        self.n_kicks = n_kicks
        self.n_shakes = n_shakes
        self.cooling = cooling
        self.partial_start = partial_start
        self.max_samples = max_samples
        self.n_components = n_components
        self.pca = pca
        self.balance = balance
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.verbose = verbose
        self.random_state = random_state
        self.n_jobs = n_jobs

    def estimate_memory(self, n_samples: int, n_features: int, in_blocks: bool = False) -> int:
        return self._settings().memory(n_samples, n_features)

    def _decision_losses(self, decision):
        margins = decision.max(axis=1)
        return row_losses(np.ones(len(margins)), 2.0 * margins - 1.0, "squared")

    def _fit_model(self, data: FitInput) -> Model:
        return fit_least_squares(data, self._settings())

    def _label_attributes(self, labels, found, rows, data, model: Model) -> dict[str, Any]:
        scores = np.maximum(model.details.scores, 0.0)
        total = scores.sum(axis=1, keepdims=True)
        return {"membership_": scores / np.where(total > 0.0, total, 1.0)}

    def _settings(self) -> Settings:
        given = self.get_params(deep=False)
        kernels = self.kernel if isinstance(self.kernel, (list, tuple)) else [self.kernel]
        names = {field.name for field in fields(Settings)}
        chosen = {name: value for name, value in given.items() if name in names}
        return Settings(kernels=tuple(kernels), **chosen)


def paper_objective(K: np.ndarray, labels: np.ndarray, ridge: float, n_clusters: int) -> float:
    """Return Q(c) of equations (7) and (13), computed literally (slow; for tests).

    Examples
    --------
    >>> round(paper_objective(np.eye(2), np.array([0, 1]), ridge=1.0, n_clusters=2), 6)
    2.0
    """
    G = np.linalg.inv(K + ridge * np.eye(len(K)))
    total = 0.0
    for h in range(n_clusters):
        y = np.where(labels == h, 1.0, -1.0)
        residual = y - K @ G @ y
        total += residual @ residual + ridge * y @ G @ K @ G @ y
    return float(total)
