"""The estimator with one kernel: problem (2), see the docstring of the folder."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np

from .._base import SHARED_CONSTRAINTS, STRENGTH, BaseMarginClustering
from .._callbacks import Interval, StrOptions
from .._core.dedup import FitInput
from .._core.descent import CONVERGED, MAX_ITER, STALLED
from .._core.features import centre_of
from .._core.kernels import KERNELS
from .._core.model import Model
from .._core.size_floor import size_floor
from .._data.source import RowSource
from ._cuts import LabelledCuts
from ._penalty import Penalty, Ridge
from ._search import SAMPLE_ROWS, Problem, Task, search

# Bytes for each row: three columns of labels and the codes of forty cuts take one each, and at the
# end a label, the difference of the two largest scores and a row number take four each.
ROW_BYTES = 3 + 40 + 3 * 4

NOTHING_FOUND: dict[str, Any] = {  # fitted attributes of one cluster, which needs no search
    "gap_": 0.0,
    "restart_objectives_": np.zeros(1),
    "n_passes_": 0,
    "n_cuts_": 0,
    "compared_with_kmeans_": {"objective": 0.0, "ari": 1.0},
    "size_entropy_": 0.0,
}
CONSTANT = 1.0  # value of the constant feature, whose coefficients are the intercepts
FEW_BYTES = 4 * 2**20  # memory that a fit of few rows needs
ZERO_MEAN = 100  # machine epsilons: a shorter mean of rows of unit mean square is rounding error


class CuttingPlaneMarginClustering(BaseMarginClustering):
    """Maximum margin clustering by cutting planes: linear in the number of rows.

    Parameters
    ----------
    n_clusters : int, default=2
        Number of clusters.
    kernel : "auto", str or callable, default="auto"
        "auto": the mean of two Gaussian kernels, sigma 0.5 and 1 median distance, through the
        leading 100 features of 400 random landmarks; the cosine kernel on 100 principal axes if X
        has at least 50 columns and fewer than 5 % of its entries are not zero. "linear" works on X
        itself, dense or CSR, and is the fastest for many rows. Others are as in
        :func:`sklearn.metrics.pairwise.pairwise_kernels`, or "precomputed".
    gamma : "median", float or None, default="median"
        Width of the kernel; "median" is 1 / median squared distance. Not used by "auto".
    degree, coef0 : float, default=3 and 1
        Of the polynomial and sigmoid kernels.
    n_components : int, "auto" or None, default="auto"
        Rank of the feature map; None is exact. For kernel="auto", "auto" is 100.
    alpha : float or "auto", default="auto"
        Strength of the regulariser, from 1e-12 to 1e12, on features of unit mean square. "auto" is
        0.03 for two clusters and ``0.03 k / (2 (k - 1)^2)`` for k.
    size_entropy : float or "auto", default="auto"
        Strength tau of the preference for even sizes, ``tau sum_h pi_h log(k pi_h)``; "auto" is
        0.3, and 0 if ``balance`` is positive or ``nesting="paper"``; it is ``1 / log(k)`` if the
        k-means partition costs more than one cluster of all rows, ``0.3 log(k)``. With 0 and no
        ``balance``, the lowest objective often has an empty cluster.
    balance : float, default=0
        Every cluster keeps at least ``balance * n / n_clusters`` rows; 0 asks for one row, and for
        none if ``size_entropy`` is 0, too. The margin prefers uneven clusters, so several often end
        at the floor: then see ``clusters_on_floor_``, and rather use ``size_entropy`` than a lower
        floor.
    fit_intercept : bool or "auto", default="auto"
        Whether scores have intercepts, penalised like the coefficient of a feature of value 1.
        "auto" is True, and False if ``balance``, ``score_balance`` or ``nesting="paper"`` is given,
        which have intercepts of their own or none. True has no effect with ``score_balance``.
    score_balance : float or None, default=None
        Largest difference between the mean scores of two clusters. On centred features it frees
        intercepts within this range; with ``center=False`` there are none, and it is the paper's
        constraint (16), which holds for any model if the columns of X have mean zero. Intercepts
        that ``balance`` needs are added.
    center : bool, default=True
        Whether features are centred. Without centring and ``score_balance`` one cluster tends to
        take all rows.
    nesting : {"labels", "paper"}, default="labels"
        "labels" solves the problem of the labels before it changes them; "paper" is the paper's
        order, cuts outside and CCCP inside; its objective can exceed that of k-means.
    init : {"auto", "k-means", "random"} or array-like of labels, default="auto"
        Initial labels. "auto" improves the k-means partition, labels seeded as in k-means++ and
        random labels by single moves on a cheaper criterion, and compares the best. "k-means" has
        no random ones, "random" no others. Given labels replace all of them.
    n_init : int or "auto", default="auto"
        Number of initial labels that are improved; "auto" is 15. If ``size_entropy`` is 0, the best
        labels are also kicked (two clusters merged, another one split) until half as many kicks in
        a row have not lowered the objective.
    max_iter : int, default=1000
        Most passes over the rows of a descent.
    tol : float, default=0.01
        A descent ends when the gap, relative to the objective, is at most this. With
        ``nesting="paper"`` it is the paper's epsilon, the gap itself.
    warm_start : bool, default=False
        Start from the labels that the previous fit predicts.
    verbose : int, default=0
        1 shows a progress bar if scikit-learn >= 1.9 and rich are installed.
    random_state : int, RandomState instance or None, default=None
        Seed of the starts; on one machine, the same seed gives the same bits for any number of
        threads.
    n_jobs : int or None, default=None
        Threads over blocks of rows; fits of fewer than 500 rows use one.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Cluster of each row; clusters are numbered by falling size, clusters of equal size by
        their first row.
    cluster_sizes_ : ndarray of shape (n_clusters,)
    exemplar_indices_ : ndarray of shape (n_clusters,)
        Most certain row of each cluster.
    coef_, intercept_ : ndarray of shape (n_clusters, n_components) and (n_clusters,)
        One score per cluster, in feature space; for the linear kernel they apply to X itself. The
        intercepts hold what ``balance`` needs to keep every cluster at its least size.
    objective_ : float
        ``alpha/2 |W|^2``, plus the mean hinge loss for the final labels, plus the size term.
    size_entropy_ : float
        The strength of the preference for even sizes that was used.
    gap_ : float
        How far ``objective_`` can be above the best value for the final labels.
    compared_with_kmeans_ : dict
        "objective": that of the k-means partition of X under this model, with a size floor after
        its repair; "ari": the adjusted Rand index between it and ``labels_``. ``objective_`` is not
        above it, nor above that of labels given as ``init``. More than 10,000 rows are compared on
        a sample of 10,000.
    clusters_on_floor_ : ndarray of int
        Clusters whose size the floor of ``balance`` decided; empty without a floor.
    history_ : list of float
        Objective after every pass of the last descent.
    restart_objectives_ : ndarray
        Objective of each candidate when its labels were held, on the rows that candidates were
        compared on: upper bounds, known to a gap of 30 % for the best candidates.
    n_passes_ : int
        Passes over all rows on the way to the result.
    n_cuts_ : int
        Cuts kept at the end.
    n_iter_ : int
        Passes of the last descent.
    stop_reason_ : str
        "converged", "max_iter", "stalled", "time" or "callback".

    See Also
    --------
    MultipleKernelMarginClustering : Learn the weights of several kernels.
    open_rows : Rows of a file larger than memory.
    MaxMarginClustering : Automatic settings, confidence and outliers.

    Notes
    -----
    In the paper's symbols alpha = beta * s^2, where s is ``feature_scale_``, and
    ``score_balance`` = l / n. ``kernel="linear", nesting="paper", tol=0.01`` has its absolute
    epsilon and its 1 % stop of the CCCP. Two clusters: w_1 = -w_0, and the form with
    one vector w = 2 w_1 and ``|w'z|`` has C = 2 / alpha.

    References
    ----------
    B. Zhao, F. Wang, C. Zhang. Efficient MultiClass Maximum Margin Clustering. ICML, 2008.

    Examples
    --------
    >>> from maxmargin import CuttingPlaneMarginClustering
    >>> from maxmargin.metrics import clustering_error
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> four = (y == 0) | (y == 6) | (y == 8) | (y == 9)
    >>> model = CuttingPlaneMarginClustering(n_clusters=4, random_state=0).fit(X[four])
    >>> clustering_error(y[four], model.labels_) < 0.06
    True
    """

    _parameter_constraints: dict[str, Any] = {  # noqa: RUF012 - scikit-learn's convention
        **SHARED_CONSTRAINTS,
        "alpha": [StrOptions({"auto"}), STRENGTH],
        "kernel": [StrOptions({"auto", *KERNELS}), callable],
        "size_entropy": [StrOptions({"auto"}), Interval(Real, 0, 1e3, closed="both")],
        "fit_intercept": [StrOptions({"auto"}), "boolean"],
        "score_balance": [Interval(Real, 0, 1e3, closed="both"), None],
        "center": ["boolean"],
        "nesting": [StrOptions({"labels", "paper"})],
        "init": [StrOptions({"auto", "k-means", "random"}), "array-like"],
    }

    def __init__(
        self,
        n_clusters=2,
        *,
        kernel="auto",
        gamma="median",
        degree=3,
        coef0=1,
        n_components="auto",
        alpha="auto",
        size_entropy="auto",
        balance=0.0,
        fit_intercept="auto",
        score_balance=None,
        center=True,
        nesting="labels",
        init="auto",
        n_init="auto",
        max_iter=1000,
        tol=0.01,
        warm_start=False,
        verbose=0,
        random_state=None,
        n_jobs=None,
    ):
        self.n_clusters = n_clusters
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.n_components = n_components
        self.alpha = alpha
        self.size_entropy = size_entropy
        self.balance = balance
        self.fit_intercept = fit_intercept
        self.score_balance = score_balance
        self.center = center
        self.nesting = nesting
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.warm_start = warm_start
        self.verbose = verbose
        self.random_state = random_state
        self.n_jobs = n_jobs

    def estimate_memory(self, n_samples: int, n_features: int, in_blocks: bool = False) -> int:
        cuts = 40 * self.n_clusters * 8  # bytes per feature
        if self.kernel == "linear" and self.n_components in ("auto", None):
            sample = FEW_BYTES + 3 * min(n_samples, SAMPLE_ROWS) * 8 * n_features
            return int(ROW_BYTES * n_samples + 4 * cuts * n_features + sample)
        mapped = super().estimate_memory(n_samples, n_features, in_blocks)
        return int(mapped + ROW_BYTES * n_samples + 4 * cuts * 512)

    def _fit_model(self, data: FitInput) -> Model:
        # No matrix of columns is factorised, so a linear kernel keeps X of any number of columns.
        fmap, rows = self._features(data, center=self.center, widest=None)
        k, weights = self.n_clusters, data.weights
        if k == 1:
            return Model(fmap, np.zeros((1, rows.shape[1])), np.zeros(1), np.eye(1),
                         extras=NOTHING_FOUND)  # fmt: skip
        alpha = default_alpha(k) if self.alpha == "auto" else self.alpha
        penalty = Ridge(alpha, *intercept_terms(self, rows, weights))
        cuts = LabelledCuts(rows, weights, data.known, k, constant=penalty.constant)
        raw = None if self._pairwise else data.X
        problem, report = run_search(self, data, cuts, penalty, raw, data.initial, fmap)
        return fitted_model(problem, fmap, self.balance, report)


def intercept_terms(
    estimator: Any, rows: Any, weights: np.ndarray
) -> tuple[float | None, np.ndarray | None, float]:
    """Return the last three parameters of ``Ridge``: ``bound``, ``mean`` and ``constant``."""
    bound, intercept = estimator.score_balance, estimator.fit_intercept
    if intercept == "auto":
        plain = estimator.nesting != "paper" and getattr(estimator, "solver", "qp") == "qp"
        intercept = estimator.balance == 0 and bound is None and plain
    constant = CONSTANT if intercept and bound is None else 0.0
    if bound is None or estimator.center:
        return bound, None, constant
    mean = centre_of(rows, weights)
    if np.linalg.norm(mean) <= ZERO_MEAN * np.finfo(rows.dtype).eps:
        return None, None, constant  # all mean scores are zero: (16) holds for any W
    return bound, mean, constant


def run_search(
    estimator: Any,
    data: FitInput,
    cuts: LabelledCuts,
    penalty: Penalty,
    raw: RowSource | None,
    given: np.ndarray | None,
    features: Any,
    opening: Penalty | None = None,
) -> tuple[Problem, dict[str, Any]]:
    """Call :func:`search` with the parameters of an estimator.

    size_entropy="auto" is 0.3, and 0 with ``balance`` or the paper's nesting. With a preference for
    even sizes and no ``balance``, the size floor is one row.
    """
    entropy, paper = estimator.size_entropy, estimator.nesting == "paper"
    if paper and entropy not in ("auto", 0):
        raise ValueError(
            f"nesting='paper' has no preference for even sizes, got size_entropy={entropy}; use "
            "balance or score_balance, or nesting='labels'."
        )
    if entropy == "auto":
        entropy = 0.0 if paper or estimator.balance else 0.3
    floor = size_floor(estimator.balance, cuts.total, cuts.k, data.whole)
    task = Task(
        penalty=penalty,
        floor=float(cuts.weights.min()) if floor == 0 and entropy > 0 else floor,
        entropy=float(entropy),
        tol=estimator.tol,
        max_iter=estimator.max_iter,
        watch=data.watch,
        features=features,
        nesting=estimator.nesting,
        opening=opening,
    )
    adapt = bool(entropy) and estimator.size_entropy == "auto"
    return search(cuts, task, raw, given, estimator.init, estimator.n_init, adapt, data.rng)


def fitted_model(problem: Problem, features: Any, balance: float, extras: dict[str, Any]) -> Model:
    """Return the model of a problem, with one score per cluster."""
    cuts, (coef, intercept) = problem.cuts, problem.model
    # A small gap means convergence, even if the last pass also reached a limit.
    spent = problem.reason in (None, MAX_ITER, STALLED)
    return Model(
        features,
        coef,
        intercept + problem.prices,
        np.eye(cuts.k),
        problem.objective,
        problem.history,
        len(problem.history),
        CONVERGED if problem.solved and spent else problem.reason or STALLED,
        balance=balance,
        raised=problem.floor_prices > problem.floor_prices.min(),
        extras={
            **extras,
            "gap_": float(problem.gap),
            "n_passes_": cuts.n_passes,
            "n_cuts_": len(cuts.codes),
        },
    )


def default_alpha(k: int) -> float:
    """Return the alpha at which unit margins have the same penalty for any number of clusters.

    With k cluster means of squared length B at equal distances, unit margins need
    ``|W|^2 = (k - 1)^2 / (k B)``. For two clusters alpha is 0.03.

    Examples
    --------
    >>> round(default_alpha(2), 3), round(default_alpha(10), 5)
    (0.03, 0.00185)
    """
    return 0.03 * k / (2.0 * (k - 1) ** 2)
