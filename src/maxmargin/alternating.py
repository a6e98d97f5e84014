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
(1) class balance                               ``engine.balance.size_floor``; see Notes of the class
(2) the margin problem                          ``Stage`` with ``loss="hinge"``
(8), (9), Propositions 1 and 2, section III-D   ``engine.balance.balanced_split``
Algorithm 1 (iterSVM)                           ``Stage.step``, ``loss="hinge"``
Algorithm 2 (iterSVR), Laplacian loss           ``Stage.step``, ``loss="laplacian"``
section III-B.2, nonzero epsilon                ``epsilon``
section III-C (iterLS-SVM)                      ``Stage.step``, ``loss="squared"``
SVM / SVR training (step 2)                     ``solve_piecewise`` (ADMM with a duality gap)
LS-SVM training (step 2)                        ``solve_squared``
section III-B, "a sparse classification model"  ``AlternatingMarginClustering.to_svm``
section IV-C, recursive splits                  ``bisecting.grow_tree``
Appendix (CCCP)                                 ``loss="hinge", balance=0``
==============================================  ====================================================
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from numbers import Real

import numpy as np
from scipy import linalg
from scipy.optimize import brentq
from sklearn.svm import SVC

from ._base import SHARED_CONSTRAINTS, BaseMarginClustering, Model
from ._compat import Interval, StrOptions
from .bisecting import cluster_order, grow_tree, two_groups

from .engine.balance import LOSSES, balanced_split, loss_kinks, row_losses, size_floor
from .engine.descent import CONVERGED, MAX_ITER, Outcome, descend
from .engine.features import centred_rows, median_distance
from .engine.rows import Rows, scores, sweep, weighted_gram, weighted_sum
from .engine.starts import SPECTRAL_ROWS, integer_seed, kmeans_labels, random_signs, spectral_signs
from .kernels.regression import admm_rule, gap_rule

TARGET_DOF = 20.0
ANNEAL_FROM, ANNEAL_STEPS = 2.0, 6
START_ROWS = 5000  # starts are compared on a subsample of this size, then continued on all rows
ADMM_RELAXATION = 1.6
ADMM_STEP = 1.0  # 1 / rho; rho of 1 to 2 in the scale of the mean loss
ADMM_CHECK = 10
ADMM_MAX_ITER = 2000


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
        Strength of the regulariser. "auto" gives the squared-loss fit 20 effective degrees of
        freedom (fewer where there are few rows or features).
    anneal : bool or "auto", default="auto"
        Whether starts are also followed from strong to weak regularisation under the squared loss,
        the best then polished with ``loss``. "auto" does so where ``alpha="auto"``.
    balance : float, default=0.7
        Least share of the rows on either side of a split, as a fraction of half of them.
    init : {"auto", "k-means", "spectral", "random"} or array-like of labels, default="auto"
        Start. "auto" tries k-means on the rows and in feature space, and the normalized cut.
    n_init : int or "auto", default="auto"
        Number of k-means runs (10) or random starts (10).
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
        Seed of the starts; the same seed gives the same bits on any number of threads.
    n_jobs : int or None, default=None
        Threads over blocks of rows.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Cluster of each row; clusters are numbered by falling size.
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
    In the paper's symbols, before features are scaled to unit mean square (multiply by
    ``feature_map_.scale ** 2`` after it): alpha = 1 / (n C) for iterSVM and iterSVR, 2 / (n C) for
    iterLS-SVM. Its class balance (1) is ``balance = 1 - l / n``; its tables agree with
    ``balance = 1 - 2 l / n``.

    For more than two clusters ``balance`` holds in every split, not over all clusters.

    The paper's literal algorithm is ``init="k-means", n_init=1, anneal=False`` with a number for
    ``alpha``; ``loss="hinge", balance=0`` is the CCCP of its Appendix.

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
        "alpha": [StrOptions({"auto"}), Interval(Real, 0, None, closed="neither")],
        "anneal": [StrOptions({"auto"}), "boolean"],
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
        fmap = self.feature_map_
        scale = fmap.scale if fmap.landmarks is not None else self._unit_scale
        params = {
            "kernel": self.kernel,
            "C": scale**2 / (len(labels) * self.alpha_),
            **{k: v for k, v in fmap.params.items() if v is not None},
        }
        if len(np.unique(labels)) < 2:
            raise ValueError("to_svm needs at least two clusters with rows, found one.")
        return SVC(**(params | svc_params)).fit(X, labels)

    def _mergeable(self) -> bool:
        return isinstance(self.init, str)

    def _margin_losses(self, margins):
        return row_losses(np.ones(len(margins)), margins, self.loss, self.epsilon)

    def _fit_rows(self, rows, sample, fmap, rng, watch, warm) -> Model:
        given = warm if isinstance(self.init, str) else self._checked_init(sample)
        k, known = self.n_clusters, sample.known
        settings = self._settings(rng, watch)

        def split(indices):
            signs = _class_signs(rows, known[indices], indices, rng)
            start = None if given is None else _class_signs(rows, given[indices], indices, rng)
            return split_rows(rows, sample, indices, signs, start, settings)

        def priority(indices):
            # Leaves that still mix known classes come first, then the largest.
            if len(indices) < 2:
                return -np.inf
            mixed = len(np.unique(known[indices][known[indices] >= 0])) > 1
            return np.inf if mixed else sample.weights[indices].sum()

        tree = grow_tree(rows.shape[0], k, split, priority)
        order = cluster_order(tree.leaves, known, sample.weights, k)
        self._unit_scale = fmap.scale
        return _as_model(tree, order, rows.shape[1])

    def _checked_init(self, sample) -> np.ndarray:
        labels = np.asarray(self.init)
        if labels.ndim != 1 or len(labels) <= sample.source.max():
            raise ValueError(
                f"init must have one label per row of X, got an array of shape {labels.shape}."
            )
        return np.unique(labels, return_inverse=True)[1][sample.source]

    def _settings(self, rng, watch) -> Settings:
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
            gamma=None if self.gamma == "median" or self.kernel != "rbf" else self.gamma,
            raw=self.kernel != "precomputed" and not callable(self.kernel),
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
    gamma: float | None
    raw: bool
    rng: np.random.Generator
    watch: Callable[[float], str | None]


@dataclass(frozen=True)
class Problem:
    """Rows, weights and constraints of one two-way split, and the spectrum of its features."""

    rows: Rows
    weights: np.ndarray
    known: np.ndarray
    floor: float
    eigenvalues: np.ndarray
    eigenvectors: np.ndarray
    epsilon: float

    @property
    def shares(self) -> np.ndarray:
        """Weights that add up to one."""
        return self.weights / self.weights.sum()

    def ridge(self, right_side: np.ndarray, shrinkage: float) -> np.ndarray:
        """``(Z'Z / n + shrinkage I)^-1 right_side``: labels touch only the right-hand side."""
        V, lam = self.eigenvectors, self.eigenvalues
        return V @ ((V.T @ right_side) / (lam + shrinkage))


@dataclass(frozen=True)
class State:
    """Labels and model after a step. ``target`` and ``dual`` warm-start the next regression."""

    signs: np.ndarray
    coef: np.ndarray
    bias: float
    threshold_bias: float
    objective: float
    shortfall: float = 0.0
    target: np.ndarray | None = None
    dual: np.ndarray | None = None


@dataclass(frozen=True)
class Stage:
    """The alternation at a fixed alpha and loss."""

    problem: Problem
    loss: str
    alpha: float
    gap: float = 1e-3

    def init(self, signs: np.ndarray) -> State:
        """A state that has labels but no model yet."""
        width = self.problem.rows.shape[1]
        return State(signs.astype(np.int8), np.zeros(width), 0.0, 0.0, np.inf)

    def step(self, state: State) -> State:
        """Regression on the labels, then the best balanced labels for its scores."""
        solve = solve_squared if self.loss == "squared" else solve_piecewise
        coef, target, dual = solve(self, state)
        return self.relabel(coef, target, dual)

    def relabel(self, coef, target=None, dual=None) -> State:
        """Best labels and bias for given coefficients: equations (8) and (9)."""
        p = self.problem
        split = balanced_split(
            scores(p.rows, coef[None, :])[:, 0],
            self.loss,
            floor=p.floor,
            weights=p.weights,
            epsilon=p.epsilon,
            known=p.known,
        )
        value = 0.5 * self.alpha * float(coef @ coef) + split.cost / p.weights.sum()
        return State(
            split.signs, coef, split.bias, split.threshold_bias, value, split.shortfall,
            target, dual,
        )  # fmt: skip

    def objective(self, state: State) -> float:
        """``alpha/2 |w|^2`` plus the mean loss."""
        return state.objective

    def change(self, old: State, new: State) -> float:
        """Share of the weight that changed sides."""
        return float(self.problem.shares[old.signs != new.signs].sum())


def solve_squared(stage: Stage, state: State):
    """LS-SVM: with centred features the bias drops out, and one factorisation serves all labels."""
    p = stage.problem
    right_side = weighted_sum(p.rows, (p.shares * state.signs)[:, None])[0]
    return p.ridge(right_side, 0.5 * stage.alpha), None, None


def solve_piecewise(stage: Stage, state: State):
    """SVM or SVR training by ADMM on the factor of the LS-SVM, to a relative duality gap.

    Splits s = Zw + b from the loss: the w-step is a ridge regression with shrinkage alpha / rho,
    the s-step a proximal step per row (``admm_rule``). Weighted rows keep one threshold because
    their penalty carries the same weight as their loss.
    """
    p, alpha, step = stage.problem, stage.alpha, ADMM_STEP
    shares, kinks = p.shares, loss_kinks(stage.loss, p.epsilon)
    if state.target is None:
        target, dual = state.signs.astype(np.float64), np.zeros(len(shares))
    else:
        target, dual = state.target.copy(), state.dual.copy()
    codes = np.empty((len(shares), 1))
    start = (shares * (target - dual))[:, None]
    right_side, bias = weighted_sum(p.rows, start)[0], float(start.sum())

    def rule(tile_scores, where):
        total = admm_rule(
            tile_scores, shares[where], state.signs[where], target[where], dual[where],
            kinks, bias, ADMM_RELAXATION, step, codes[where],
        )  # fmt: skip
        return codes[where], total

    for iteration in range(1, ADMM_MAX_ITER + 1):
        coef = p.ridge(right_side, alpha * step)
        if iteration % ADMM_CHECK == 0:
            primal, dual_value = duality_gap(stage, state.signs, coef, bias, dual)
            if primal - dual_value <= stage.gap * abs(primal):
                break
        gathered, bias = sweep(p.rows, coef[None, :], rule)
        right_side = gathered[0]
    return coef, target, dual


def duality_gap(stage: Stage, signs, coef, bias, dual) -> tuple[float, float]:
    """Primal value at (w, b) and the value of a feasible dual point made from the ADMM dual.

    The dual needs sum p = 0: the heavier of the positive and the negative part is scaled down, which
    keeps every p inside its box, and then the whole point to the best length.
    """
    p, shares = stage.problem, stage.problem.shares
    kinks = loss_kinks(stage.loss, p.epsilon)

    def rule(tile_scores, where):
        codes, sums = np.empty((tile_scores.shape[0], 2)), np.empty(5)
        gap_rule(
            tile_scores, shares[where], signs[where], dual[where], kinks, bias, ADMM_STEP,
            codes, sums,
        )  # fmt: skip
        return codes, sums

    parts, sums = sweep(p.rows, coef[None, :], rule)
    loss, up_value, up_mass, down_value, down_mass = sums
    primal = 0.5 * stage.alpha * float(coef @ coef) + loss
    mass = min(up_mass, down_mass)
    if mass <= 0:
        return primal, 0.0
    up, down = mass / up_mass, mass / down_mass
    linear = up * up_value + down * down_value
    direction = up * parts[0] - down * parts[1]
    quadratic = float(direction @ direction) / stage.alpha
    length = 1.0 if quadratic <= 0 else min(1.0, max(0.0, -linear / quadratic))
    return primal, -length * linear - 0.5 * length**2 * quadratic


def degrees_of_freedom(eigenvalues: np.ndarray, shrinkage: float) -> float:
    """Effective degrees of freedom of a ridge regression: ``sum lambda / (lambda + shrinkage)``.

    Examples
    --------
    >>> degrees_of_freedom(np.array([1.0, 1.0]), 1.0)
    1.0
    """
    return float((eigenvalues / (eigenvalues + shrinkage)).sum())


def shrinkage_for(eigenvalues: np.ndarray, dof: float) -> float:
    """The shrinkage at which a ridge regression has ``dof`` effective degrees of freedom.

    Examples
    --------
    >>> round(shrinkage_for(np.array([1.0, 1.0]), 1.0), 6)
    1.0
    """
    top = float(eigenvalues[-1])
    if top <= 0:
        return 1.0

    def excess(log_shrinkage):
        return degrees_of_freedom(eigenvalues, np.exp(log_shrinkage)) - dof

    low, high = np.log(top) - 40.0, np.log(top) + 40.0
    if excess(low) <= 0:
        return float(np.exp(low))
    return float(np.exp(brentq(excess, low, high)))


def make_problem(rows: Rows, weights, known, floor, epsilon) -> Problem:
    """Factor the features once: the same spectrum serves every alpha and every labelling."""
    gram = weighted_gram(rows, weights / weights.sum())
    lam, V = linalg.eigh(gram)
    return Problem(rows, weights, known, floor, np.maximum(lam, 0.0), V, epsilon)


@dataclass(frozen=True)
class FittedSplit:
    """One split in the coordinates of the root's features."""

    coef: np.ndarray
    intercept: float
    outcome: Outcome
    alpha: float
    weight: float


def split_rows(rows, sample, indices, known, start, settings) -> tuple[np.ndarray, FittedSplit]:
    """Split some rows in two, in features centred and scaled on those rows alone."""
    weights = sample.weights[indices]
    whole = len(indices) == rows.shape[0]
    local = rows if whole else centred_rows(rows.take(indices), weights)[0]
    floor = size_floor(settings.balance, weights.sum(), 2, sample.whole)
    _check_known_sizes(known, weights, floor)
    problem = make_problem(local, weights, known, floor, settings.epsilon)
    shrinkage, alpha = _strength(problem, settings)
    X = (sample.X if whole else sample.X[indices]) if settings.raw else None
    outcome = search(problem, X, start, shrinkage, alpha, settings)
    state = outcome.state
    if state.shortfall > 0:
        warnings.warn(
            f"balance={settings.balance} cannot be met: tied rows leave the smaller side "
            f"{state.shortfall:g} short of {floor:g}. The nearest sizes are kept.",
            UserWarning,
            stacklevel=2,
        )
    # Back to the root's features: local z = (z_root - o) s.
    factor = local.scale / rows.scale
    shift = 0.0 if whole else _root_offset(rows, local)
    coef = state.coef * factor
    intercept = state.threshold_bias - float(np.dot(coef, np.broadcast_to(shift, coef.shape)))
    signs = state.signs if (known != 0).any() else _sign(state, problem)
    return signs, FittedSplit(coef, intercept, outcome, alpha, float(weights.sum()))


def _root_offset(rows: Rows, local: Rows) -> np.ndarray:
    """Centre of the local rows in the root's features."""
    root = 0.0 if rows.offset is None else rows.offset
    return (local.offset - root) * rows.scale


def _sign(state: State, problem: Problem) -> np.ndarray:
    fitted = scores(problem.rows, state.coef[None, :])[:, 0] + state.threshold_bias
    return np.where(fitted > 0, 1, -1).astype(np.int8)


def _check_known_sizes(known, weights, floor) -> None:
    heavier = max(weights[known < 0].sum(), weights[known > 0].sum())
    if heavier > weights.sum() - floor + 1e-9 * floor:
        raise ValueError(
            f"partial_labels put a weight of {heavier:g} of {weights.sum():g} into one cluster, but "
            f"balance asks for at least {floor:g} in the other. Lower balance."
        )


def _strength(problem: Problem, settings: Settings) -> tuple[float, float]:
    """Ridge shrinkage and the alpha of the requested loss that goes with it."""
    factor = 2.0 if settings.loss == "squared" else 1.0
    if settings.alpha != "auto":
        return float(settings.alpha) / factor, float(settings.alpha)
    rank = int(np.count_nonzero(problem.eigenvalues > 1e-10 * problem.eigenvalues[-1]))
    dof = min(TARGET_DOF, len(problem.weights) / 5.0, 0.9 * rank)
    shrinkage = shrinkage_for(problem.eigenvalues, max(dof, 0.5))
    return shrinkage, factor * shrinkage


def search(problem, X, start, shrinkage, alpha, settings) -> Outcome:
    """Best outcome over the starts, compared by objective; on a subsample first if rows are many."""
    n = problem.rows.shape[0]
    final = Stage(problem, settings.loss, alpha, settings.gap)
    if n <= START_ROWS or start is not None:
        signs = _starts(problem, X, settings) if start is None else [start]
        return _best_start(problem, signs, shrinkage, final, settings)
    few = np.sort(settings.rng.choice(n, START_ROWS, replace=False))
    share = problem.weights[few].sum() / problem.weights.sum()
    small = replace(
        problem,
        rows=problem.rows.take(few),
        weights=problem.weights[few],
        known=problem.known[few],
        floor=problem.floor * share,
    )
    signs = _starts(small, None if X is None else X[few], settings)
    best = _best_start(small, signs, shrinkage, replace(final, problem=small), settings)
    squared = Stage(problem, "squared", 2.0 * shrinkage)
    near = _run(squared, squared.relabel(best.state.coef), settings)
    return _run(final, final.init(near.state.signs), settings)


def _run(stage: Stage, state: State, settings: Settings) -> Outcome:
    return descend(
        stage, state, max_iter=settings.max_iter, tol=settings.tol, watch=settings.watch
    )


def _best_start(problem, signs, shrinkage, final: Stage, settings) -> Outcome:
    if not settings.anneal:
        outcomes = [_run(final, final.init(s), settings) for s in signs]
        return min(outcomes, key=lambda o: o.objective)
    squared = Stage(problem, "squared", 2.0 * shrinkage)
    outcomes = [_run(squared, squared.init(s), settings) for s in signs]
    outcomes += [_annealed(problem, s, shrinkage, settings) for s in signs]
    best = min(outcomes, key=lambda o: o.objective)
    if settings.loss == "squared":
        return best
    return _run(final, final.init(best.state.signs), settings)


def _annealed(problem, signs, shrinkage, settings) -> Outcome:
    """Follow the squared-loss solution from few degrees of freedom to many."""
    last = degrees_of_freedom(problem.eigenvalues, shrinkage)
    for dof in np.geomspace(min(ANNEAL_FROM, last), last, ANNEAL_STEPS)[:-1]:
        stage = Stage(problem, "squared", 2.0 * shrinkage_for(problem.eigenvalues, dof))
        signs = _run(stage, stage.init(signs), settings).state.signs
    stage = Stage(problem, "squared", 2.0 * shrinkage)
    return _run(stage, stage.init(signs), settings)


def _starts(problem: Problem, X, settings: Settings) -> list[np.ndarray]:
    """Initial labels of the requested kind, known rows put right, no two alike."""
    rng, n_init, weights = settings.rng, settings.n_init, problem.weights
    dense = problem.rows.data
    if settings.init == "random":
        signs = [random_signs(len(weights), rng) for _ in range(n_init)]
    elif settings.init == "spectral":
        signs = [_spectral(problem, X, settings)]
    elif settings.init == "k-means":
        rows = dense if X is None else X
        signs = [_two(kmeans_labels(rows, 2, weights, rng, n_init=1)) for _ in range(n_init)]
    else:
        rows = dense if X is None else X
        signs = [_two(kmeans_labels(rows, 2, weights, rng, n_init))]
        if X is not None and dense is not X:
            signs.append(_two(kmeans_labels(dense, 2, weights, rng, n_init)))
        signs.append(_spectral(problem, X, settings))
    return _distinct([np.where(problem.known == 0, s, problem.known) for s in signs])


def _two(labels: np.ndarray) -> np.ndarray:
    return np.where(labels == labels[0], -1, 1).astype(np.int8)


def _spectral(problem: Problem, X, settings: Settings) -> np.ndarray:
    """Normalized cut on at most ``SPECTRAL_ROWS`` rows, carried to the others by a ridge fit."""
    rows = problem.rows
    points = rows.data if X is None else X
    n = rows.shape[0]
    few = np.arange(n)
    if n > SPECTRAL_ROWS:
        few = np.sort(settings.rng.choice(n, SPECTRAL_ROWS, replace=False))
    gamma = settings.gamma or 1.0 / median_distance(points[few], settings.rng)
    signs = spectral_signs(points[few], gamma, problem.weights[few], settings.rng)
    if len(few) == n:
        return signs
    known = np.zeros(n)
    known[few] = problem.weights[few] * signs
    right_side = weighted_sum(rows, (known / known[few].__abs__().sum())[:, None])[0]
    coef = problem.ridge(right_side, shrinkage_for(problem.eigenvalues, TARGET_DOF))
    return np.where(scores(rows, coef[None, :])[:, 0] > 0, 1, -1).astype(np.int8)


def _distinct(candidates: list[np.ndarray]) -> list[np.ndarray]:
    """Labellings that differ by more than a swap of the two names."""
    kept: dict[bytes, np.ndarray] = {}
    for signs in candidates:
        kept.setdefault((signs * signs[0]).astype(np.int8).tobytes(), signs)
    return list(kept.values())


def _class_signs(rows, labels, indices, rng) -> np.ndarray:
    """Side of every row of a leaf from its class; 0 where unknown or all of one class."""
    classes = np.unique(labels[labels >= 0])
    signs = np.zeros(len(indices), np.int8)
    if len(classes) < 2:
        return signs if len(classes) == 0 or (labels < 0).any() else signs
    means = np.stack([_mean_row(rows, indices[labels == c]) for c in classes])
    for label, side in zip(classes, two_groups(means, integer_seed(rng))):
        signs[labels == label] = side
    return signs


def _mean_row(rows: Rows, indices: np.ndarray) -> np.ndarray:
    chosen = rows.take(indices)
    return weighted_sum(chosen, np.full((len(indices), 1), 1.0 / len(indices)))[0]


def _as_model(tree, order, width) -> Model:
    splits = tree.splits
    total = sum(s.weight for s in splits) or 1.0
    reasons = [s.outcome.stop_reason for s in splits]
    # The least good reason of all splits is the one a user must know.
    ranked = sorted(reasons, key=[CONVERGED, "stalled", "callback", "time", MAX_ITER].index)
    return Model(
        coef=np.array([s.coef for s in splits]).reshape(len(splits), width),
        intercept=np.array([s.intercept for s in splits]),
        paths=tree.paths[order].astype(np.float64),
        objective=sum(s.weight * s.outcome.objective for s in splits) / total,
        history=[value for s in splits for value in s.outcome.history],
        n_iter=sum(s.outcome.n_iter for s in splits),
        stop_reason=ranked[-1] if ranked else CONVERGED,
        extras={"alpha_": splits[0].alpha if splits else 0.0},
    )
