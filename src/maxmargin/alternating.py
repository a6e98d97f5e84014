r"""Alternating maximum margin clustering with SVM, SVR or LS-SVM.

Zhang, Tsang & Kwok, "Maximum Margin Clustering Made Practical", IEEE Transactions on Neural
Networks 20(4), 2009. Two clusters, labels y in {-1, +1}:

.. math::
    \min_{y, w, b}\; \frac{\alpha}{2} |w|^2 + \frac{1}{n} \sum_i L(y_i, w'z_i + b)
    \quad\text{with at least ``balance * n / 2`` rows on either side.}

The method alternates between a regression on the labels (w, b given y) and the best balanced labels
and bias (y, b given w). With the hinge loss the labels freeze near the start, because rows far on
their own side pull the fit; losses that also punish over-confident scores set them free.

==============================================  ====================================================
in the paper                                    here
==============================================  ====================================================
(1) class balance                               ``engine.balance.size_floor``
(2) the margin problem                          ``Stage`` with ``loss="hinge"``
(8), (9), Propositions 1 and 2, section III-D   ``engine.balance.balanced_split``
Algorithm 1 (iterSVM)                           ``Stage.step``, ``loss="hinge"``
Algorithm 2 (iterSVR), Laplacian loss           ``Stage.step``, ``loss="laplacian"``
section III-B.2, nonzero epsilon                ``epsilon``
section III-C (iterLS-SVM)                      ``Stage.step``, ``loss="squared"``
SVM / SVR training (step 2)                     ``engine.regression.fit_piecewise``
LS-SVM training (step 2)                        ``engine.regression.fit_squared``
section III-B, "a sparse classification model"  ``AlternatingMarginClustering.to_svm``
section IV-C, recursive splits                  ``engine.tree.grow_tree``
Appendix (CCCP)                                 ``loss="hinge", balance=0``
==============================================  ====================================================
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from numbers import Real
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC

from ._base import SHARED_CONSTRAINTS, STRENGTH, BaseMarginClustering, Model
from ._compat import Interval, StrOptions
from .engine.balance import (
    LOSSES,
    Sizes,
    balanced_split,
    loss_kinks,
    row_losses,
    sign_split,
    size_floor,
    warn_short,
)
from .engine.descent import Outcome, descend
from .engine.features import centred_rows, evaluate_kernel
from .engine.regression import (
    Factor,
    PiecewiseFit,
    degrees_of_freedom,
    factorise,
    fit_piecewise,
    fit_squared,
    shrinkage_for,
)
from .engine.rows import Rows, part_of, scores, weighted_sum
from .engine.starts import integer_seed, two_way_starts
from .engine.tree import (
    cluster_order,
    clusters_that_fit,
    even_share,
    grow_tree,
    two_groups,
    worst_reason,
)

TARGET_DOF = 20.0
ANNEAL_FROM, ANNEAL_STEPS = 2.0, 6
OFF_FLOOR = 1e3  # added to the objective of a labelling that misses the size floor
START_ROWS = 5000  # starts are compared on a subsample of this size, then continued on all rows


class AlternatingMarginClustering(BaseMarginClustering):
    """Maximum margin clustering by alternating regression and balanced relabelling.

    Two clusters are separated by the widest margin in feature space; more by recursive splits.

    Parameters
    ----------
    n_clusters : int, default=2
        Number of clusters.
    loss : {"laplacian", "squared", "hinge"}, default="laplacian"
        Loss of the regression: the paper's iterSVR, iterLS-SVM and iterSVM. "squared" is the
        fastest; "hinge" is the maximum margin problem itself, but freezes near its start.
    epsilon : float, default=0.05
        Half width of the zone of the Laplacian loss that costs nothing.
    kernel : str or callable, default="rbf"
        As in :func:`sklearn.metrics.pairwise.pairwise_kernels`, or "precomputed".
    gamma : "median", float or None, default="median"
        Width of the kernel; "median" is 1 / median squared distance.
    degree, coef0 : float, default=3 and 1
        Of the polynomial and sigmoid kernels.
    n_components : int, "auto" or None, default="auto"
        Rank of the feature map; None is exact.
    alpha : float or "auto", default="auto"
        Strength of the regulariser, from 1e-12 to 1e12. "auto" gives the squared-loss fit 20
        effective degrees of freedom (fewer where there are few rows or features).
    anneal : bool or "auto", default="auto"
        Whether starts are also followed from strong to weak regularisation under the squared loss,
        the best then polished with ``loss``. "auto" does so where ``alpha="auto"``.
    balance : float, default=0.7
        Every cluster keeps at least ``balance * n / n_clusters`` rows; 0 asks for nothing.
    bias : {"exact", "midpoint"}, default="exact"
        Bias of each candidate split in the label step: the best one, or the paper's middle between
        two neighbouring scores, with which the objective may rise between steps.
    init : {"auto", "k-means", "spectral", "random"} or array-like of labels, default="auto"
        Start. "auto" tries k-means on the rows and in feature space, the normalized cut, splits of
        the leading principal components and random labels; the start that leads to the lowest
        objective wins.
    n_init : int or "auto", default="auto"
        Number of k-means runs, of components and of random starts; "auto" is 10.
    max_iter : int, default=100
        Most iterations of one descent.
    tol : float, default=1e-4
        A descent ends when at most this share of the rows changes sides.
    solver_tol : float, default=1e-3
        Relative duality gap to which each SVM or SVR is solved.
    warm_start : bool, default=False
        Start from the labels that the previous fit predicts.
    verbose : int, default=0
        1 shows a progress bar where scikit-learn >= 1.9 and rich are installed.
    random_state : int, RandomState instance or None, default=None
        Seed of the starts; on one machine, the same seed gives the same bits for any number of
        threads.
    n_jobs : int or None, default=None
        Threads over blocks of rows.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Cluster of each row; clusters are numbered by falling size, clusters of equal size by
        their first row.
    cluster_sizes_ : ndarray of shape (n_clusters,)
    exemplar_indices_ : ndarray of shape (n_clusters,)
        Most certain row of each cluster.
    coef_, intercept_ : ndarray of shape (n_clusters - 1, n_components) and (n_clusters - 1,)
        One split per row, in feature space; for the linear kernel they apply to X itself.
    alpha_ : float
        The alpha used (of the first split).
    objective_ : float
        ``alpha/2 |w|^2`` plus the mean loss; over several splits, their mean weighted by rows.
    history_ : list of float
        Objective after each iteration of the last stage.
    n_iter_ : int
        Iterations of the last stage.
    stop_reason_ : str
        "converged", "max_iter", "stalled", "time" or "callback".

    Notes
    -----
    In the paper's symbols alpha = s^2 / (n C) for iterSVM and iterSVR and 2 s^2 / (n C) for
    iterLS-SVM, where s is ``feature_scale_``. Its class balance (1) is
    ``balance = 1 - l / n``; its tables agree with ``balance = 1 - 2 l / n``.

    The paper's literal algorithm is ``init="k-means", n_init=1, anneal=False, bias="midpoint"``
    with a number for ``alpha``; ``loss="hinge", balance=0`` is the CCCP of its Appendix.

    References
    ----------
    K. Zhang, I. W. Tsang, J. T. Kwok. Maximum Margin Clustering Made Practical. IEEE Transactions
    on Neural Networks 20(4), 583-596, 2009.

    Examples
    --------
    >>> from maxmargin import AlternatingMarginClustering
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> pair = (y == 2) | (y == 7)
    >>> model = AlternatingMarginClustering(balance=0.94, random_state=0).fit(X[pair])
    >>> from maxmargin.metrics import clustering_error
    >>> clustering_error(y[pair], model.labels_) < 0.03
    True
    """

    _parameter_constraints: dict = {  # noqa: RUF012 - scikit-learn's convention
        **SHARED_CONSTRAINTS,
        "loss": [StrOptions(set(LOSSES))],
        "epsilon": [Interval(Real, 0, 1, closed="left")],
        "alpha": [StrOptions({"auto"}), STRENGTH],
        "anneal": [StrOptions({"auto"}), "boolean"],
        "bias": [StrOptions({"exact", "midpoint"})],
        "init": [StrOptions({"auto", "k-means", "spectral", "random"}), "array-like"],
        "solver_tol": [Interval(Real, 0, 1, closed="neither")],
    }

    def __init__(
        self,
        n_clusters=2,
        *,
        loss="laplacian",
        epsilon=0.05,
        kernel="rbf",
        gamma="median",
        degree=3,
        coef0=1,
        n_components="auto",
        alpha="auto",
        anneal="auto",
        balance=0.7,
        bias="exact",
        init="auto",
        n_init="auto",
        max_iter=100,
        tol=1e-4,
        solver_tol=1e-3,
        warm_start=False,
        verbose=0,
        random_state=None,
        n_jobs=None,
    ):
        self.n_clusters = n_clusters
        self.loss = loss
        self.epsilon = epsilon
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.n_components = n_components
        self.alpha = alpha
        self.anneal = anneal
        self.balance = balance
        self.bias = bias
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.solver_tol = solver_tol
        self.warm_start = warm_start
        self.verbose = verbose
        self.random_state = random_state
        self.n_jobs = n_jobs

    def to_svm(self, X, **svc_params) -> SVC:
        """Fit a sparse :class:`sklearn.svm.SVC` to the labels found (section III-B of the paper).

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The rows the model was fitted on.
        **svc_params
            Parameters of the SVC; by default its kernel is the model's, and its C corresponds to
            the model's alpha.

        Examples
        --------
        >>> from maxmargin import AlternatingMarginClustering
        >>> X = [[0.0, 0.0], [0.2, 0.1], [3.0, 3.0], [3.1, 2.8]]
        >>> svm = AlternatingMarginClustering(random_state=0).fit(X).to_svm(X)
        >>> svm.predict([[0.1, 0.1]]) == svm.predict([[0.0, 0.2]])
        array([ True])
        """
        labels = self.predict(X)
        params = {
            "kernel": self.kernel,
            "C": self.feature_scale_**2 / (len(labels) * self.alpha_),
            **self.feature_map_.params,
        }
        if self.kernel in ("laplacian", "cosine"):  # not among SVC's own
            given = {"kernel": self.kernel, "params": self.feature_map_.params}
            params = {"kernel": partial(evaluate_kernel, **given), "C": params["C"]}
        if len(np.unique(labels)) < 2:
            raise ValueError("to_svm needs at least two clusters with rows, found one.")
        return SVC(**(params | svc_params)).fit(X, labels)

    def _mergeable(self) -> bool:
        return isinstance(self.init, str)

    def _decision_losses(self, decision):
        margins = decision.max(axis=1)
        return row_losses(np.ones(len(margins)), margins, self.loss, self.epsilon)

    def _fit_rows(self, rows, sample, fmap, rng, watch, warm) -> Model:
        given = self._given_labels(sample, warm)
        settings = self._settings(fmap, rng, watch)

        def split(indices, fixed, sizes):
            start = None if given is None else _sides(rows, given[indices], indices, rng)
            start = None if start is None or start.min() == start.max() else start
            return split_rows(rows, sample, indices, fixed, start, sizes, settings)

        return recursive_splits(rows, sample, self.n_clusters, self.balance, rng, split)

    def _settings(self, fmap, rng, watch) -> Settings:
        return Settings(
            loss=self.loss,
            epsilon=self.epsilon if self.loss == "laplacian" else 0.0,
            alpha=self.alpha,
            anneal=self.alpha == "auto" if self.anneal == "auto" else bool(self.anneal),
            balance=self.balance,
            init=self.init if isinstance(self.init, str) else "auto",
            n_init=10 if self.n_init == "auto" else self.n_init,
            max_iter=self.max_iter,
            tol=self.tol,
            gap=self.solver_tol,
            midpoints=self.bias == "midpoint",
            gamma=None if self.gamma == "median" or self.kernel != "rbf" else self.gamma,
            raw=not self._pairwise,
            mapped=fmap.landmarks is not None,
            rng=rng,
            watch=watch,
        )


@dataclass(frozen=True)
class Settings:
    """The estimator's parameters as the functions below need them."""

    loss: str
    epsilon: float
    alpha: float | str
    anneal: bool
    balance: float
    init: str
    n_init: int
    max_iter: int
    tol: float
    gap: float
    midpoints: bool
    gamma: float | None
    raw: bool  # the rows as given have coordinates (are not a kernel matrix)
    mapped: bool  # the features are not those coordinates
    rng: np.random.Generator
    watch: Callable[[float], str | None]


@dataclass(frozen=True)
class Problem:
    """One two-way split: factored rows, weights, known sides (0 where free) and sizes."""

    factor: Factor
    weights: np.ndarray
    known: np.ndarray
    sizes: Sizes
    epsilon: float


@dataclass(frozen=True)
class State:
    """Labels and model after a step; ``fit`` warm-starts the next regression."""

    signs: np.ndarray
    coef: np.ndarray
    bias: float = 0.0
    threshold_bias: float = 0.0
    objective: float = np.inf
    shortfall: float = 0.0
    fit: PiecewiseFit | None = None


@dataclass(frozen=True)
class Stage:
    """The alternation at a fixed alpha and loss."""

    problem: Problem
    loss: str
    alpha: float
    gap: float = 1e-3
    midpoints: bool = False

    def init(self, signs: np.ndarray) -> State:
        """A state that has labels but no model yet."""
        return State(signs.astype(np.int8), np.zeros(self.problem.factor.rows.shape[1]))

    def step(self, state: State) -> State:
        """Regression on the labels, then the best balanced labels for its scores."""
        factor = self.problem.factor
        if self.loss == "squared":
            coef, bias = fit_squared(factor, state.signs, self.alpha)
            return self.relabel(coef, bias)
        kinks = loss_kinks(self.loss, self.problem.epsilon)
        fit = fit_piecewise(factor, state.signs, kinks, self.alpha, self.gap, state.fit)
        return self.relabel(fit.coef, fit.bias, fit)

    def relabel(self, coef: np.ndarray, bias: float, fit: PiecewiseFit | None = None) -> State:
        """Best labels and bias for given coefficients: equations (8) and (9)."""
        p = self.problem
        g = scores(p.factor.rows, coef[None, :])[:, 0]
        rows: dict[str, Any] = {"weights": p.weights, "epsilon": p.epsilon, "known": p.known}
        if p.sizes.floor > 0:
            split = balanced_split(g, self.loss, sizes=p.sizes, midpoints=self.midpoints, **rows)
        else:
            split = sign_split(g, bias, self.loss, **rows)
        value = 0.5 * self.alpha * float(coef @ coef) + split.cost / p.weights.sum()
        return State(
            split.signs, coef, split.bias, split.threshold_bias, value, split.shortfall, fit
        )

    def objective(self, state: State) -> float:
        """``alpha/2 |w|^2`` plus the mean loss, and more than any labelling costs off the floor.

        Where all scores are tied, all rows on one side cost nothing; that must not win.
        """
        missing = state.shortfall / self.problem.weights.sum()
        return state.objective + (OFF_FLOOR * (1.0 + missing) if missing > 0 else 0.0)

    def change(self, old: State, new: State) -> float:
        """Share of the weight that changed sides."""
        return float(self.problem.factor.shares[old.signs != new.signs].sum())


@dataclass(frozen=True)
class FittedSplit:
    """One split in the coordinates of the root's features."""

    coef: np.ndarray
    intercept: float
    outcome: Outcome
    alpha: float
    weight: float


def recursive_splits(
    rows: Rows, sample, n_clusters: int, balance: float, rng, split_leaf: Callable
) -> Model:
    """Clusters by two-way splits of the most scattered leaf.

    ``split_leaf(indices, known, sizes) -> (signs, FittedSplit)`` splits some rows, of which the
    side is known where ``known`` is -1 or +1.
    """
    known, total = sample.known, sample.weights.sum()
    floor = size_floor(balance, total, n_clusters, sample.whole)

    def split(indices, clusters):
        fixed = _sides(rows, known[indices], indices, rng)
        classes = [len(np.unique(known[indices][fixed == side])) for side in (-1, 1)]
        share = sample.weights[indices].sum() / total
        side = balance * total * even_share(share, n_clusters)
        sizes = Sizes(floor, clusters, side, *np.maximum(classes, 1))
        return split_leaf(indices, fixed, sizes)

    def capacity(indices):
        # Known classes must part, room or not.
        classes = len(np.unique(known[indices][known[indices] >= 0]))
        if len(indices) < 2:
            return max(len(indices), classes)
        if _scatter(rows.part(indices), sample.weights[indices]) == 0:
            return max(1, classes)
        room = clusters_that_fit(sample.weights[indices].sum(), floor, len(indices))
        return max(room, classes)

    def priority(indices):
        # Leaves that still mix known classes come first, then the most scattered.
        if len(np.unique(known[indices][known[indices] >= 0])) > 1:
            return np.inf
        return _scatter(rows.part(indices), sample.weights[indices])

    tree = grow_tree(rows.shape[0], n_clusters, split, priority, capacity)
    order = cluster_order(tree.leaves, sample, n_clusters)
    return _as_model(tree, order, rows.shape[1])


def split_rows(
    rows: Rows, sample, indices, known, start, sizes: Sizes, settings: Settings
) -> tuple[np.ndarray, FittedSplit]:
    """Split some rows in two, in features centred and scaled on those rows alone."""
    weights = sample.weights[indices]
    everything = len(indices) == rows.shape[0]
    local, stored = leaf_rows(rows, indices, weights)
    check_known_sizes(known, weights, sizes.floor)
    problem = Problem(factorise(stored, weights), weights, known, sizes, settings.epsilon)
    shrinkage, alpha = _strength(problem, settings)
    X = (sample.X if everything else part_of(sample.X, indices)) if settings.raw else None
    outcome = search(problem, X, start, shrinkage, alpha, settings)
    _warn_about(outcome.state, sizes.floor, settings)
    return oriented_split(outcome, rows, local, weights, alpha)


def leaf_rows(rows: Rows, indices: np.ndarray, weights: np.ndarray) -> tuple[Rows, Rows]:
    """Rows of a leaf, centred and scaled on their own: as they are read, and stored."""
    if len(indices) == rows.shape[0]:
        return rows, rows
    local = centred_rows(rows.part(indices), weights)[0]
    return local, local.stored()


def oriented_split(
    outcome: Outcome, rows: Rows, local: Rows, weights, alpha: float
) -> tuple[np.ndarray, FittedSplit]:
    """Labels and model of a split, the model in terms of the root's features."""
    coef, intercept = _in_root_features(outcome.state, rows, local)
    signs = outcome.state.signs
    # A direction of its own for every split, whatever way the search came: the lighter side is +.
    balance = float(weights @ signs)
    if balance > 0 or (balance == 0 and signs[0] > 0):
        signs, coef, intercept = -signs, -coef, -intercept
    return signs, FittedSplit(coef, intercept, outcome, alpha, float(weights.sum()))


def _in_root_features(state: State, rows: Rows, local: Rows) -> tuple[np.ndarray, float]:
    """``(x - o) s`` with a leaf's own centre and scale, in terms of the root's."""
    coef = state.coef * (local.scale / rows.scale)
    if local is rows:
        return coef, state.threshold_bias
    assert local.offset is not None
    root_offset = 0.0 if rows.offset is None else rows.offset
    centre = (local.offset - root_offset) * rows.scale
    return coef, state.threshold_bias - float(coef @ centre)


def check_known_sizes(known, weights, floor) -> None:
    """Refuse known labels that leave one side of a split below its floor."""
    heavier = max(weights[known < 0].sum(), weights[known > 0].sum())
    if heavier > 0 and heavier > weights.sum() - floor + 1e-9 * floor:
        raise ValueError(
            f"partial_labels put a weight of {heavier:g} of {weights.sum():g} on one side of a "
            f"split, but balance asks for at least {floor:g} on the other. Lower balance."
        )


def _warn_about(state: State, floor: float, settings: Settings) -> None:
    if state.shortfall > 0:
        warn_short(settings.balance, state.shortfall, floor)
    if state.fit is not None and state.fit.gap > settings.gap:
        warnings.warn(
            f"The regression on the final labels reached a relative duality gap of "
            f"{state.fit.gap:.2g}, not solver_tol={settings.gap:g}. Raise solver_tol or alpha.",
            ConvergenceWarning,
            stacklevel=2,
        )


def _strength(problem: Problem, settings: Settings) -> tuple[float, float]:
    """Ridge shrinkage and the alpha of the requested loss that goes with it."""
    factor = 2.0 if settings.loss == "squared" else 1.0
    if settings.alpha != "auto":
        return float(settings.alpha) / factor, float(settings.alpha)
    lam = problem.factor.eigenvalues
    rank = int(np.count_nonzero(lam > 1e-10 * lam[-1]))
    # With a degree of freedom for every other row any labels at all would fit.
    dof = min(TARGET_DOF, len(problem.weights) / 3.0, 0.9 * rank)
    shrinkage = shrinkage_for(lam, max(dof, 0.5))
    return shrinkage, factor * shrinkage


def search(problem, X, start, shrinkage, alpha, settings) -> Outcome:
    """Best outcome over the starts by objective; on a subsample first if rows are many."""
    n = len(problem.weights)
    final = Stage(problem, settings.loss, alpha, settings.gap, settings.midpoints)
    if start is not None:
        return _best_start([start], shrinkage, final, settings)
    if n <= START_ROWS:
        return _best_start(starts_of(problem, X, settings), shrinkage, final, settings)
    few = np.sort(settings.rng.choice(n, START_ROWS, replace=False))
    local, small = _subsample(problem, few)
    signs = starts_of(small, None if X is None else X[few], settings)
    rough = replace(settings, loss="squared") if settings.anneal else settings
    trial = replace(final, problem=small, loss=rough.loss)
    best = _best_start(signs, shrinkage, trial, rough)
    start_coef = _in_root_features(best.state, problem.factor.rows, local)
    squared = Stage(problem, "squared", 2.0 * shrinkage)
    near = _run(squared, squared.relabel(*start_coef), settings)
    if settings.loss == "squared":
        return near
    return _run(final, final.init(near.state.signs), settings)


def _subsample(problem: Problem, few: np.ndarray) -> tuple[Rows, Problem]:
    """Fewer rows, centred on their own, and the same problem on them."""
    weights = problem.weights[few]
    local = centred_rows(problem.factor.rows.take(few), weights)[0]
    return local, replace(
        problem,
        factor=factorise(local.stored(), weights),
        weights=weights,
        known=problem.known[few],
        sizes=problem.sizes.scaled(weights.sum() / problem.weights.sum()),
    )


def starts_of(problem: Problem, X, settings: Settings) -> list[np.ndarray]:
    """Initial labels of the requested kind."""
    return two_way_starts(
        settings.init,
        problem.factor,
        X if settings.mapped else None,
        weights=problem.weights,
        known=problem.known,
        sizes=problem.sizes,
        n_init=settings.n_init,
        gamma=settings.gamma,
        rng=settings.rng,
    )


def _run(stage: Stage, state: State, settings: Settings) -> Outcome:
    return descend(
        stage,
        state,
        max_iter=settings.max_iter,
        tol=settings.tol,
        watch=settings.watch,
        # The paper's midpoints are not the best biases: the objective may rise between steps.
        monotone=not stage.midpoints,
    )


def _best_start(signs, shrinkage, final: Stage, settings) -> Outcome:
    if not settings.anneal:
        outcomes = [_run(final, final.init(s), settings) for s in signs]
        return min(outcomes, key=lambda o: o.objective)
    rough = Stage(_compressed(final.problem, shrinkage), "squared", 2.0 * shrinkage)
    outcomes = [_run(rough, rough.init(s), settings) for s in signs]
    outcomes += [_annealed(rough, s, settings) for s in signs]
    best = min(outcomes, key=lambda o: o.objective)
    return _run(final, final.init(best.state.signs), settings)


def _compressed(problem: Problem, shrinkage: float) -> Problem:
    """The problem on its principal axes, without those that the ridge shrinks to a hundredth.

    The starts are compared there: many descents on a quarter of the features or less.
    """
    factor = problem.factor
    keep = factor.eigenvalues > 0.01 * shrinkage
    if 2 * np.count_nonzero(keep) > len(keep) or factor.rows.is_blocked:
        return problem
    axes = factor.eigenvectors[:, keep]
    rows = Rows(scores(factor.rows, axes.T), n_jobs=factor.rows.n_jobs)
    lam = factor.eigenvalues[keep]
    return replace(problem, factor=Factor(rows, factor.shares, lam, np.eye(len(lam))))


def _annealed(final: Stage, signs, settings) -> Outcome:
    """Follow the squared-loss solution from few degrees of freedom to those of ``final``."""
    lam = final.problem.factor.eigenvalues
    last = degrees_of_freedom(lam, 0.5 * final.alpha)
    if last <= 0:  # equal rows
        return _run(final, final.init(signs), settings)
    for dof in np.geomspace(min(ANNEAL_FROM, last), last, ANNEAL_STEPS)[:-1]:
        stage = replace(final, alpha=2.0 * shrinkage_for(lam, dof))
        signs = _run(stage, stage.init(signs), settings).state.signs
    return _run(final, final.init(signs), settings)


def _sides(rows: Rows, labels: np.ndarray, indices: np.ndarray, rng) -> np.ndarray:
    """Side of every row of a leaf by its class, 0 where unknown; one class alone stays together."""
    classes = np.unique(labels[labels >= 0])
    sides = np.zeros(len(indices), np.int8)
    if len(classes) == 1:
        sides[labels >= 0] = -1
    elif len(classes) > 1:
        means = np.stack([_mean_row(rows, indices[labels == c]) for c in classes])
        for label, side in zip(classes, two_groups(means, integer_seed(rng))):
            sides[labels == label] = side
    return sides


def _scatter(rows: Rows, weights: np.ndarray) -> float:
    """Weighted sum of squared distances to the mean: tight clusters are left whole."""
    scale = centred_rows(rows, weights)[2]
    return float(weights.sum() / scale**2) if scale > 0 else 0.0


def _mean_row(rows: Rows, indices: np.ndarray) -> np.ndarray:
    chosen = rows.take(indices)
    return weighted_sum(chosen, np.full((len(indices), 1), 1.0 / len(indices)))[0]


def _as_model(tree, order, width) -> Model:
    stump = FittedSplit(
        np.zeros(width), -1.0, Outcome(State(np.zeros(0), np.zeros(0)), 0.0), 0.0, 0.0
    )
    splits = [stump if s is None else s for s in tree.splits]
    total = sum(s.weight for s in splits)
    return Model(
        coef=np.array([s.coef for s in splits]).reshape(len(splits), width),
        intercept=np.array([s.intercept for s in splits]),
        paths=tree.paths[order].astype(np.float64),
        objective=sum(s.weight * s.outcome.state.objective for s in splits if s.weight)
        / max(total, 1e-300),
        # Steps off the size floor carry a penalty, which is no objective.
        history=[value for s in splits for value in s.outcome.history if value < OFF_FLOOR],
        n_iter=sum(s.outcome.n_iter for s in splits),
        stop_reason=worst_reason([s.outcome.stop_reason for s in splits]),
        extras={"alpha_": splits[0].alpha if splits else 0.0},
    )
