r"""Cutting-plane margin clustering: two or many clusters in a handful of passes over the data.

Zhao, Wang & Zhang, "Efficient MultiClass Maximum Margin Clustering", ICML 2008. One weight vector
per cluster, the margin of Crammer & Singer, labels free:

.. math::
    \min_{y, W}\; \frac{\alpha}{2} |W|^2 + \frac{1}{n} \sum_i \max(0,\, 1 - (w_{y_i}'z_i -
    \max_{r \ne y_i} w_r'z_i))
    \quad\text{with at least ``balance * n / k`` rows in every cluster.}

For given labels this is a convex problem with one slack variable and (k + 1)^n constraints, of
which a few dozen matter; each costs one pass over the data. The labels follow W (CCCP). A
constraint found under old labels is still one under new labels, so the cuts are kept and corrected
on the rows that moved.

=========================================  =========================================================
in the paper                               here
=========================================  =========================================================
(4) labels, (14) most violated constraint  ``kernels.cuts.cut_rule``
(11) one slack, (k + 1)^n constraints      ``engine.cuts.LabelledCuts``
(16) class balance                         ``score_balance``, ``engine.qp.ScoreBalance``
(17), (20) and the dual of (20)            ``engine.cuts.CutPool.solve``, ``engine.qp.solve_qp``
(19) linearised constraints                ``LabelledCuts.adopt``: A_c and g_c under new labels
Algorithm 1 (cuts outside)                 ``PaperNesting``, ``nesting="paper"``
Algorithm 2 (CCCP)                         ``PaperNesting.follow_labels``
section 3, linear time                     ``n_passes_``
=========================================  =========================================================

The paper starts from an empty set of constraints, whose solution W = 0 has no labels: here the
first cut comes from initial labels. By default cuts and labels are merged: every pass brings one
cut and new labels (``Merged``), and labels are settled at the end (``settle``), so that the final
margin problem is solved to a certified gap.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from numbers import Real

import numpy as np
from scipy.optimize import linear_sum_assignment

from ._base import SHARED_CONSTRAINTS, BaseMarginClustering, Model
from ._compat import Interval, StrOptions
from .engine.balance import row_losses, size_floor, warn_short
from .engine.cuts import LabelledCuts, Look
from .engine.descent import CONVERGED, MAX_ITER, STALLED, Outcome, descend
from .engine.features import fit_features, kernel_params
from .engine.labels import lead_of
from .engine.prices import floor_prices
from .engine.qp import ScoreBalance
from .engine.rows import Rows, scores, weighted_sum
from .engine.samples import Sample
from .engine.starts import kmeans_labels

ANNEAL_FROM, ANNEAL_STEPS = 1.0, 4
START_ROWS, GROWTH = 5000, 10  # rows that starts are compared on, then ten times as many, then all
PROBE_ROWS = 5000  # rows on which prices for the size floor are found
ROUGH_TOL, ROUGH_PASSES = 0.01, 60  # of the descents that are only compared
OFF_FLOOR = 1e3  # added to the objective of a labelling that misses the size floor
PATIENCE = 15
CCCP_STOP = 0.01


class CuttingPlaneMarginClustering(BaseMarginClustering):
    """Maximum margin clustering by cutting planes: linear in the number of rows.

    Parameters
    ----------
    n_clusters : int, default=2
        Number of clusters.
    kernel : str or callable, default="linear"
        As in :func:`sklearn.metrics.pairwise.pairwise_kernels`, or "precomputed". The linear kernel
        works on X itself, dense or CSR; others through an explicit feature map.
    gamma : "median", float or None, default="median"
        Width of the kernel; "median" is 1 / median squared distance.
    degree, coef0 : float, default=3 and 1
        Of the polynomial and sigmoid kernels.
    n_components : int, "auto" or None, default="auto"
        Rank of the feature map; None is exact.
    alpha : float, default=0.03
        Strength of the regulariser, on features of unit mean square.
    balance : float, default=0.5
        Every cluster keeps at least ``balance * n / n_clusters`` rows; 0 asks for nothing. Without
        it the lowest objective often has an empty cluster.
    score_balance : float or None, default=None
        Largest difference between the mean scores of two clusters. On centred features it frees
        intercepts within this range; with ``center=False`` there are none, and it is the paper's
        constraint (16) to the letter.
    center : bool, default=True
        Whether features are centred. Without centring and ``score_balance`` one cluster tends to
        take all rows.
    nesting : {"merged", "paper"}, default="merged"
        One cut and new labels in every pass, or the paper's cuts outside and CCCP inside.
    anneal : bool or "auto", default="auto"
        Whether starts are followed from strong to weak regularisation; "auto" does so for two
        clusters (for many it was measured to harm).
    init : {"auto", "k-means", "random"} or array-like of labels, default="auto"
        Start. "auto" tries k-means labels and random directions; the lowest objective wins.
    n_init : int or "auto", default="auto"
        Number of starts; "auto" is 10.
    max_iter : int, default=200
        Most passes over the data of one descent.
    tol : float, default=0.01
        A descent ends when the gap, relative to the objective, and the share of the rows that
        change cluster are at most this. With ``nesting="paper"`` it is the paper's epsilon, the
        gap itself.
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
    coef_, intercept_ : ndarray of shape (n_clusters, n_components) and (n_clusters,)
        One score per cluster, in feature space; for the linear kernel they apply to X itself. The
        intercepts hold what ``balance`` needs to keep every cluster at its least size.
    objective_ : float
        ``alpha/2 |W|^2`` plus the mean hinge loss for the final labels.
    gap_ : float
        How far ``objective_`` can be above the best value for the final labels.
    history_ : list of float
        Objective of every pass of the last descent; it may rise.
    best_history_ : list of float
        The lowest objective so far; it does not rise.
    restart_objectives_ : ndarray
        Objective that each start led to, on the rows the starts were compared on.
    n_passes_ : int
        Passes over all rows (those over a subsample are not counted).
    n_cuts_ : int
        Cuts kept at the end.
    n_iter_ : int
        Passes of the last descent.
    stop_reason_ : str
        "converged", "max_iter", "stalled", "time" or "callback".

    Notes
    -----
    In the paper's symbols alpha = beta / s^2, where s is ``feature_scale_``, and
    ``score_balance`` = l / n. ``nesting="paper", tol=0.01`` has its absolute epsilon and its 1 %
    stop of the CCCP. Two clusters: w_1 = -w_0, and the form with one vector w = 2 w_1 and
    ``|w'z|`` has C = 2 / alpha.

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
    >>> model = CuttingPlaneMarginClustering(n_clusters=4, balance=0.9, random_state=0).fit(X[four])
    >>> clustering_error(y[four], model.labels_) < 0.06
    True
    """

    _parameter_constraints: dict = {  # noqa: RUF012 - scikit-learn's convention
        **SHARED_CONSTRAINTS,
        "alpha": [StrOptions({"auto"}), Interval(Real, 0, None, closed="neither")],
        "score_balance": [Interval(Real, 0, None, closed="left"), None],
        "center": ["boolean"],
        "nesting": [StrOptions({"merged", "paper"})],
        "anneal": [StrOptions({"auto"}), "boolean"],
        "init": [StrOptions({"auto", "k-means", "random"}), "array-like"],
    }

    def __init__(
        self,
        n_clusters=2,
        *,
        kernel="linear",
        gamma="median",
        degree=3,
        coef0=1,
        n_components="auto",
        alpha="auto",
        balance=0.5,
        score_balance=None,
        center=True,
        nesting="merged",
        anneal="auto",
        init="auto",
        n_init="auto",
        max_iter=200,
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
        self.balance = balance
        self.score_balance = score_balance
        self.center = center
        self.nesting = nesting
        self.anneal = anneal
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.warm_start = warm_start
        self.verbose = verbose
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _mergeable(self) -> bool:
        return isinstance(self.init, str)

    def _decision_losses(self, decision):
        lead = lead_of(decision, decision.argmax(axis=1))
        return row_losses(np.ones(len(lead)), lead, "hinge")

    def _fit_features(self, sample: Sample, rng, n_jobs):
        params = kernel_params(sample.X, self.kernel, self.gamma, self.degree, self.coef0, rng)
        return fit_features(
            sample.X,
            sample.weights,
            kernel=self.kernel,
            params=params,
            n_components=self.n_components,
            rng=rng,
            n_jobs=n_jobs,
            center=self.center,
            widest=None,  # nothing here is factored: a linear problem stays as wide as it is
        )

    def _fit_rows(self, rows, sample, fmap, rng, watch, warm) -> Model:
        k, width = self.n_clusters, rows.shape[1]
        if k == 1:
            return Model(np.zeros((1, width)), np.zeros(1), np.eye(1), extras=_extras())
        mean = None
        if self.score_balance is not None and not self.center:
            mean = weighted_sum(rows, (sample.weights / sample.weights.sum())[:, None])[0]
        task = Task(
            alpha=default_alpha(k) if self.alpha == "auto" else self.alpha,
            floor=size_floor(self.balance, sample.weights.sum(), k, sample.whole),
            bound=self.score_balance,
            mean=mean,
            nesting=self.nesting,
            anneal=k == 2 if self.anneal == "auto" else bool(self.anneal),
            tol=self.tol,
            max_iter=self.max_iter,
            watch=watch,
        )
        stage, state, objectives = self._started(rows, task, sample, rng, warm)
        fitted = conclude(stage, state)
        if fitted.state.missing > 0:
            warn_short(self.balance, fitted.state.missing, task.floor)
        return Model(
            coef=fitted.state.coef,
            intercept=fitted.state.intercept + fitted.state.prices,
            paths=np.eye(k),
            objective=fitted.state.value,
            history=fitted.history,
            n_iter=fitted.n_iter,
            stop_reason=fitted.stop_reason,
            extras=_extras(
                fitted.state.gap,
                fitted.history,
                objectives,
                stage.cuts.n_passes,
                len(stage.cuts.codes),
            ),
        )

    def _started(self, rows, task: Task, sample, rng, warm) -> tuple[Stage, State, list[float]]:
        """The stage on all rows, where the best start leads to, and what every start led to."""
        k = self.n_clusters
        given = self._given_labels(sample, warm)
        if given is not None:
            starts = [_from_labels(rows, given, sample.weights, sample.known, k)]
            return best_start(LabelledCuts(rows, sample.weights, sample.known, k), starts, task)
        first, *larger = _growing(rows.shape[0])
        cuts, part = _subsample(rows, sample, task, k, first, rng)
        n_starts = 10 if self.n_init == "auto" else self.n_init
        starts = starts_of(cuts, part, self.init, n_starts, rng)
        stage, state, objectives = best_start(cuts, starts, part)
        for size in larger:
            state = conclude(stage, state).state
            hints = stage.cuts.hints()
            del stage, cuts  # the smaller sample is given back before the larger one is drawn
            cuts, part = _subsample(rows, sample, task, k, size, rng)
            stage = Stage(cuts, part)
            state = stage.continued(state, hints)
        return stage, state, objectives


def _growing(n: int) -> list[int]:
    """Numbers of rows to work on: enough to compare starts, then more, then all."""
    sizes = []
    size = START_ROWS
    while size < n / (1 if size == START_ROWS else GROWTH / 2):
        sizes.append(size)
        size *= GROWTH
    return [*sizes, n]


def _subsample(rows: Rows, sample: Sample, task: Task, k: int, size: int, rng):
    """Cuts on so many random rows, and the task with the floor in proportion."""
    if size == rows.shape[0]:
        return LabelledCuts(rows, sample.weights, sample.known, k), task
    # One row from each of ``size`` stretches: distinct, in order, and no permutation of all rows.
    few = ((np.arange(size) + rng.random(size)) * (rows.shape[0] / size)).astype(np.int64)
    weights = sample.weights[few]
    share = float(weights.sum() / sample.weights.sum())
    cuts = LabelledCuts(rows.take(few), weights, sample.known[few], k)
    return cuts, replace(task, floor=task.floor * share)


def default_alpha(k: int) -> float:
    """Strength at which unit margins cost the same for any number of clusters.

    With k cluster means of equal length B^(1/2), evenly apart, unit margins need
    ``|W|^2 = (k - 1)^2 / (k B)``. Two clusters get 0.03.

    Examples
    --------
    >>> round(default_alpha(2), 3), round(default_alpha(10), 5)
    (0.03, 0.00185)
    """
    return 0.03 * k / (2.0 * (k - 1) ** 2)


def _extras(gap=0.0, history=(), objectives=(0.0,), n_passes=0, n_cuts=0) -> dict:
    return {
        "gap_": float(gap),
        "best_history_": np.minimum.accumulate(history).tolist() if len(history) else [],
        "restart_objectives_": np.array(objectives),
        "n_passes_": n_passes,
        "n_cuts_": n_cuts,
    }


@dataclass(frozen=True)
class Task:
    """The estimator's parameters as the functions below need them."""

    alpha: float
    floor: float  # least weight of a cluster
    bound: float | None  # on the difference of two mean scores
    mean: np.ndarray | None  # mean row where features are not centred
    nesting: str
    anneal: bool
    tol: float
    max_iter: int
    watch: Callable[[float], str | None]


@dataclass(frozen=True)
class State:
    """A model, what a pass found at it, and the model that the cuts suggest next.

    Attributes
    ----------
    coef, intercept : ndarray of shape (k, r) and (k,)
    prices : ndarray of shape (k,)
        Added to the scores in the label step, so that every cluster keeps its least size.
    value : float
        Objective for the labels of the pass.
    gap : float
        How far ``value`` can be above the best value for those labels.
    missing : float
        Weight that the smallest cluster misses: 0 unless equal rows forbid it.
    ahead : tuple of ndarray
        Coefficients and intercepts that are best for the cuts so far.
    """

    coef: np.ndarray
    intercept: np.ndarray
    prices: np.ndarray
    value: float
    gap: float
    missing: float
    ahead: tuple[np.ndarray, np.ndarray]


class Stage:
    """The method on given rows: what ``descend`` runs. Its cuts and labels grow with every step."""

    def __init__(self, cuts: LabelledCuts, task: Task):
        self.cuts, self.task = cuts, task
        self.best: State | None = None
        self.last_prices = np.zeros(cuts.k)  # not zero where the size floor held back the labels

    def opened(self, labels: np.ndarray, coef: np.ndarray, intercept=None) -> State:
        """State after a first cut: that of given labels, at given coefficients."""
        intercept = np.zeros(self.cuts.k) if intercept is None else intercept
        free = np.zeros(self.cuts.k)
        look = self.cuts.look(coef, intercept, free, fixed=labels.astype(self.cuts.dtype))
        self.cuts.adopt(look)
        self.cuts.add(look, (coef, intercept))
        bound, ahead = self.solve()
        return self._state(coef, intercept, free, look, bound, ahead)

    def continued(self, state: State, hints: list[tuple[np.ndarray, np.ndarray]]) -> State:
        """State on these rows from one on a part of them: its model, and its cuts anew.

        The cuts in use there are found again here, at the models that they came from; without them
        the first models on all rows would be those of one or two cuts.
        """
        point = state.coef, state.intercept
        look, prices = self._labelled(*point)
        self.cuts.adopt(look)
        self.cuts.add(look, point)
        state = self._state(*point, prices, look, *self.solve())
        for origin in hints:
            if self.change(state, state) <= self.task.tol:
                break
            coef, intercept = origin
            look_there = self.cuts.look(coef, intercept, prices, fixed=self.cuts.labels)
            self.cuts.add(look_there, origin)
            state = self._state(*point, prices, look, *self.solve())
        return state

    def step(self, state: State) -> State:
        """One pass, new labels, one cut; the paper's nesting first lets the labels settle."""
        point, bound = state.ahead, None
        if self.task.nesting == "paper":
            point = self._followed(point)
        look, prices = self._labelled(*point)
        self.cuts.adopt(look)
        if self.task.nesting == "paper":
            # It stops where the new constraint is violated by epsilon at most: before it is added.
            bound, _ = self.solve()
        self.cuts.add(look, point)
        value, ahead = self.solve()
        self.cuts.prune()
        return self._state(*point, prices, look, value if bound is None else bound, ahead)

    def _followed(self, ahead):
        """Algorithm 2, CCCP: labels and model in turn, without new cuts, while it gains 1 %."""
        last = np.inf
        while True:
            look, _ = self._labelled(*ahead)
            self.cuts.adopt(look)
            bound, ahead = self.solve()
            if bound > (1.0 - CCCP_STOP) * last or self.cuts.n_passes > self.task.max_iter:
                return ahead
            last = bound

    def solve(self) -> tuple[float, tuple[np.ndarray, np.ndarray]]:
        """Lower bound for the current labels, and the best model for the cuts."""
        task, cuts = self.task, self.cuts
        k, alpha = cuts.k, task.alpha
        if task.bound is None:
            solution = cuts.pool.solve(alpha)
            return solution.value, (cuts.pool.coef(alpha).reshape(k, -1), np.zeros(k))
        if task.mean is None:
            solution = cuts.pool.solve(alpha, ScoreBalance(task.bound, cuts.shares, None))
            return solution.value, (cuts.pool.coef(alpha).reshape(k, -1), solution.intercept)
        square = float(task.mean @ task.mean) / alpha
        cross = cuts.pool.vectors.reshape(-1, k, cuts.rows.shape[1]) @ task.mean / alpha
        solution = cuts.pool.solve(alpha, ScoreBalance(task.bound, cross, square))
        coef = cuts.pool.coef(alpha).reshape(k, -1) - np.outer(solution.tau, task.mean) / alpha
        return solution.value, (coef, np.zeros(k))

    def _labelled(self, coef, intercept) -> tuple[Look, np.ndarray]:
        """One pass with free labels that respect the size floor."""
        free = np.zeros(self.cuts.k)
        prices = self.prices(coef, intercept) if self.last_prices.any() else free
        look = self.cuts.look(coef, intercept, prices)
        if not prices.any() and self._missing(look) > 0:
            prices = self.prices(coef, intercept)
            look = self.cuts.look(coef, intercept, prices)
        self.last_prices = prices
        return look, prices

    def prices(self, coef, intercept, exact: bool = False) -> np.ndarray:
        """Prices for the least size of every cluster, found on ``PROBE_ROWS`` rows at most."""
        cuts, n = self.cuts, self.cuts.rows.shape[0]
        if exact or n <= PROBE_ROWS:
            rows, weights, known, floor = cuts.rows, cuts.weights, cuts.known, self.task.floor
        else:
            few = np.linspace(0, n - 1, PROBE_ROWS).astype(np.int64)
            rows, weights, known = cuts.rows.take(few), cuts.weights[few], cuts.known[few]
            floor = self.task.floor * weights.sum() / cuts.total
            # A cluster this small on the probe may be smaller on all rows.
            floor *= 1.0 + 3.0 / np.sqrt(max(floor * PROBE_ROWS / weights.sum(), 9.0))
            floor = min(floor, weights.sum() / cuts.k)
        found = scores(rows, coef) + intercept
        return floor_prices(found, weights, floor, known, self.last_prices)

    def filled(self, state: State) -> State:
        """The state with prices found on all rows, where those of the probe missed the floor."""
        if state.missing == 0 or self.cuts.rows.shape[0] <= PROBE_ROWS:
            return state
        prices = self.prices(state.coef, state.intercept, exact=True)
        look = self.cuts.look(state.coef, state.intercept, prices)
        self.cuts.adopt(look)
        return self._state(state.coef, state.intercept, prices, look, *self.solve())

    def _missing(self, look: Look) -> float:
        short = self.task.floor - float(look.sizes.min())
        return short if short > 1e-9 * self.task.floor else 0.0

    def _state(self, coef, intercept, prices, look: Look, bound, ahead) -> State:
        value = 0.5 * self.task.alpha * float((coef * coef).sum()) + look.loss
        state = State(coef, intercept, prices, value, value - bound, self._missing(look), ahead)
        if self.best is None or self.objective(state) <= self.objective(self.best):
            self.best = state
        if self.task.nesting == "paper":
            return state
        return replace(state, ahead=_between(self.best, ahead))

    def objective(self, state: State) -> float:
        """Value of a state, and more than any labelling costs off the size floor."""
        share = state.missing / self.cuts.total
        return state.value + (OFF_FLOOR * (1.0 + share) if share > 0 else 0.0)

    def change(self, _old: State, new: State) -> float:
        """The gap, which proves that the model solves the problem of its own labels."""
        return new.gap if self.task.nesting == "paper" else new.gap / max(new.value, 1e-300)

    def settled(self, state: State, budget: int) -> tuple[State, list[float], str]:
        """Solve the margin problem of the labels to the tolerance; relabel until they stay.

        The value does not rise from one labelling to the next: this is CCCP with exact steps.
        """
        history: list[float] = []
        point, task = (state.coef, state.intercept), self.task
        while True:
            look, prices = self._labelled(*point)
            self.cuts.adopt(look)
            self.cuts.add(look, point)
            state = self._state(*point, prices, look, *self.solve())
            history.append(self.objective(state))
            if self.change(state, state) <= task.tol:
                return state, history, CONVERGED
            while self.change(state, state) > task.tol:
                reason = task.watch(state.value) or (MAX_ITER if len(history) >= budget else None)
                if reason is not None:
                    return state, history, reason
                state = self._improved(state, prices)
                history.append(self.objective(state))
            point = (state.coef, state.intercept)

    def _improved(self, state: State, prices) -> State:
        """One pass and one cut for the labels as they are."""
        look = self.cuts.look(*state.ahead, prices, fixed=self.cuts.labels)
        self.cuts.add(look, state.ahead)
        bound, ahead = self.solve()
        new = self._state(*state.ahead, prices, look, bound, ahead)
        self.cuts.prune()
        if new.value > state.value:
            new = replace(state, gap=state.value - bound)
        return replace(new, ahead=_between(new, ahead))


def _between(state: State, ahead) -> tuple[np.ndarray, np.ndarray]:
    """Halfway from the best model so far to the one that the cuts suggest.

    The suggestion alone leaps about while cuts are few: halfway, ten clusters took a third of the
    passes and ended at a lower objective.
    """
    return 0.5 * (state.coef + ahead[0]), 0.5 * (state.intercept + ahead[1])


def conclude(stage: Stage, state: State) -> Outcome:
    """Descend from a state; then solve the margin problem of the best labels found."""
    task = stage.task
    found = _run(stage, state)
    best, history, reason = found.state, found.history, found.stop_reason
    certified = stage.change(best, best) <= task.tol
    if reason in (CONVERGED, STALLED, MAX_ITER) and not certified:
        best, settled, reason = stage.settled(best, task.max_iter)
        history = history + settled
    best = stage.filled(best)
    return Outcome(best, stage.objective(best), history, len(history), reason)


def best_start(cuts: LabelledCuts, starts: list, task: Task) -> tuple[Stage, State, list[float]]:
    """Follow every start roughly; the stage and state of the lowest objective, and all of them."""
    alphas = [task.alpha]
    if task.anneal and task.alpha < ANNEAL_FROM:
        alphas = np.geomspace(ANNEAL_FROM, task.alpha, ANNEAL_STEPS).tolist()
    tol = max(task.tol, ROUGH_TOL) if task.nesting == "merged" else task.tol
    rough = replace(task, tol=tol, max_iter=min(task.max_iter, ROUGH_PASSES))
    objectives: list[float] = []
    for labels, coef in starts:
        trial = LabelledCuts(cuts.rows, cuts.weights, cuts.known, cuts.k)
        state = Stage(trial, rough).opened(labels, coef)
        for alpha in alphas:
            stage = Stage(trial, replace(rough, alpha=alpha))
            outcome = _run(stage, replace(state, ahead=stage.solve()[1], value=np.inf))
            state = outcome.state
        objectives.append(outcome.objective)
        if outcome.objective <= min(objectives):
            best = Stage(trial, task), replace(state, ahead=stage.solve()[1])
    return *best, objectives


def _run(stage: Stage, state: State) -> Outcome:
    task = stage.task
    return descend(
        stage,
        state,
        max_iter=task.max_iter,
        tol=task.tol,
        watch=task.watch,
        monotone=False,
        patience=PATIENCE,
    )


def starts_of(cuts: LabelledCuts, task: Task, init: str, n_starts: int, rng) -> list:
    """Labels and coefficients to start from: k-means runs, then random directions."""
    k, rows, weights, known = cuts.k, cuts.rows, cuts.weights, cuts.known
    n_kmeans = {"k-means": n_starts, "random": 0}.get(init, (n_starts + 1) // 2)
    starts = [
        _from_labels(rows, kmeans_labels(rows.data, k, weights, rng, n_init=1), weights, known, k)
        for _ in range(n_kmeans)
    ]
    for _ in range(n_starts - n_kmeans):
        coef = rng.standard_normal((k, rows.shape[1]))
        found = scores(rows, coef)
        found += floor_prices(found, weights, task.floor, known)
        starts.append((np.where(known >= 0, known, found.argmax(axis=1)), coef))
    return starts


def _from_labels(rows: Rows, labels, weights, known, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Labels, renamed to agree with known ones, and the means of their clusters."""
    if (known >= 0).any():
        agreement = np.zeros((k, k))
        np.add.at(agreement, (labels[known >= 0], known[known >= 0]), weights[known >= 0])
        labels = linear_sum_assignment(-agreement)[1][labels]
        labels = np.where(known >= 0, known, labels)
    member = (labels[:, None] == np.arange(k)) * weights[:, None]
    return labels, weighted_sum(rows, member / np.maximum(member.sum(axis=0), 1e-300))
