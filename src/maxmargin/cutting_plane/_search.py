r"""The search for labels, with one kernel or several: labels and margin models in turn.

The objective of labels y, whose clusters have shares :math:`\pi` of the rows, is

.. math::
    F(y) = \min_W\; \text{penalty}(W) + \frac{1}{n} \sum_i \text{hinge}_i(W, y_i)
    + \tau \sum_h \pi_h \log(k \pi_h)

For fixed labels F(y) is the value of a convex problem, which cuts solve to a certified gap
(:meth:`Problem.solve`). The labels that the model predicts then replace the old ones if they lower
F (:meth:`Problem.descend`, CCCP). :func:`search` compares initial labels on few rows, continues the
best two on a sample, compares the result with the k-means partition, and continues on all rows.

A *price* is added to the scores of a cluster when labels are chosen; the loss is that of the scores
without prices. Prices enforce the size floor, or follow from the preference for even sizes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .._core.descent import CONVERGED, MAX_ITER, STALLED
from .._core.init import (
    N_STARTS,
    agreement,
    canonical,
    held_labels,
    kicked,
    kmeans_partition,
    label_starts,
    sampled_rows,
)
from .._core.rows import Factor, Rows, cluster_means, factorise, fit_squared, scores
from .._core.size_floor import divergence_prices, floor_prices, size_divergence, strong_enough
from .._data.source import RowSource, SchedulerLost
from .._threads import in_order
from ._cuts import Evaluation, LabelledCuts, Model, narrowed
from ._penalty import Penalty

CANDIDATE_ROWS, SAMPLE_ROWS = 1000, 10_000  # on which initial labels, then the best are compared
RIVAL_RUNS = 10  # initialisations of the k-means partition that the result is compared with
PROBE_ROWS = 5000  # rows on which prices for the size floor are found
# Relative gaps: to rank initial labels, before labels change, of finalists, of k-means.
CANDIDATE_GAP, ROUGH_GAP, FINALIST_GAP, RIVAL_GAP = 0.3, 0.1, 0.05, 5e-4
RELABELLED_GAP = 0.01  # relative gap that ends relabel_every_pass
FOLLOWED, FINALISTS = 4, 2  # best candidates whose labels are improved: on few rows, on the sample
PRICE_TRIES, SETTLE_ROUNDS = 6, 10  # most passes for prices, most rounds of a descent
LEAST_FALL = 1e-3  # times the relative gap: a smaller relative decrease of F is no progress
GROWTH, SAMPLE_BYTES = 10, 64 * 2**20  # factor between samples, and the size of the largest
SAME_PRICES = 1e-3  # largest change of prices that counts as none
SQUARES_WIDTH = 512  # columns up to which the first model is a multiple of the least-squares model
STEEPNESS = np.geomspace(0.5, 5.0, 30)  # the multiples
SHORT = 1e-6  # otherwise, the largest coefficient of the first model
PATIENCE, PROGRESS = 15, 1e-3  # passes without a relative decrease of F by PROGRESS, until it stops
STALE, SHRUNK = 100, 0.9  # stop if STALE cuts do not reduce the gap to SHRUNK of its value
CCCP_STOP = 0.01  # relative decrease at which the paper's CCCP stops: its alpha %


@dataclass(frozen=True)
class Task:
    """Parameters of the search, from those of the estimator."""

    penalty: Penalty
    floor: float  # least weight of a cluster
    entropy: float  # tau, the strength of the preference for even sizes
    tol: float  # relative gap of the result; with the paper's nesting its epsilon, absolute
    max_iter: int  # most passes over the rows of a descent
    # called with the objective after every pass; a string that it returns ends the search
    watch: Callable[[float], str | None]
    features: Any = None  # the map that the rows come from, for a checkpoint
    nesting: str = "labels"  # or "paper"
    # a simpler upper bound on ``penalty``, under which initial labels are compared
    opening: Penalty | None = None


class Problem:
    """Labels, their cuts, and the best model so far, on given rows."""

    def __init__(self, cuts: LabelledCuts, task: Task, penalty: Penalty | None = None):
        self.cuts, self.task = cuts, task
        self.penalty = task.penalty if penalty is None else penalty
        # Added to the model's scores to predict labels; the part that enforces the size floor.
        self.prices = self.floor_prices = np.zeros(cuts.k)
        self.model: Model = np.zeros((cuts.k, cuts.rows.shape[1])), np.zeros(cuts.k)
        # The solution of (20): the best model if the cuts of the pool were all constraints.
        self.pool_model: Model = self.model
        # Of the labels at ``model``, and a lower bound on F of the labels.
        self.objective, self.bound = np.inf, -np.inf
        self.sizes = np.zeros(cuts.k)
        self.history: list[float] = []  # objective after every pass
        self.reason: str | None = None  # why to stop

    @property
    def gap(self) -> float:
        """How far F can be above the best value for these labels."""
        return self.objective - self.bound

    @property
    def solved(self) -> bool:
        """Whether the gap is within the tolerance: relative, but absolute in the paper."""
        unit = 1.0 if self.task.nesting == "paper" else self.objective
        return self.gap <= self.task.tol * unit

    def hold(self, labels: np.ndarray, factor: Factor | None) -> Problem:
        """Adopt labels, with one cut at the best multiple of their least-squares model.

        Without a factor, the cut is made at a short model in the direction of the cluster means:
        then every row is within the margin and counts in the cut.
        """
        cuts, k, intercept = self.cuts, self.cuts.k, np.zeros(self.cuts.k)
        if factor is None:
            coef = cluster_means(cuts.rows, labels, cuts.weights, k)
            coef *= SHORT / max(float(np.abs(coef).max()), 1e-300)
        else:
            unit, named = np.eye(1, cuts.rows.shape[1]), labels[:, None] == np.arange(k)
            strength = 2.0 * self.penalty.value(unit, intercept)  # in strength/2 |W|^2
            coef, level = fit_squared(factor, named - 1.0 / k, strength)
            intercept = level if cuts.constant else intercept
            found = scores(cuts.rows, coef) + intercept
            lead = found[named] - np.where(named, -np.inf, found).max(axis=1)
            losses = factor.shares @ np.maximum(0.0, 1.0 - np.outer(lead, STEEPNESS))
            costs = self.penalty.value(coef, intercept) * STEEPNESS**2 + losses
            steep = STEEPNESS[int(np.argmin(costs))]
            coef, intercept = steep * coef, steep * intercept
        self.take(cuts.evaluate(coef, intercept, fixed=labels.astype(cuts.dtype)))
        return self

    def change_penalty(self, penalty: Penalty) -> None:
        """Continue with another penalty or solver, from its solution for the same cuts."""
        self.penalty, self.reason = penalty, None
        self._solve_cuts()
        self.take(self._labelled(self.pool_model, self.prices - self.floor_prices))

    def continue_from(self, other: Problem) -> Problem:
        """Adopt the model of a problem on fewer rows, and the labels that it predicts here.

        A cut is then made at every model at which the other problem found a cut that it uses;
        without them the first models here would be those of one or two cuts.
        """
        self.take(self._labelled(other.model, other.prices - other.floor_prices))
        use = other.cuts.pool.multipliers
        for at in np.argsort(-use, kind="stable")[: np.count_nonzero(use > 0)]:
            if self.solved:
                break
            self.cuts.add(self.cuts.evaluate(*other.cuts.origins[int(at)], fixed=self.cuts.labels))
            self._solve_cuts()
        return self

    def widen(self, axes: np.ndarray) -> None:
        """Convert models on principal axes, the columns of ``axes``, to models of all features."""
        self.model = self.model[0] @ axes.T, self.model[1]
        self.cuts.origins = [(coef @ axes.T, level) for coef, level in self.cuts.origins]

    def take(self, found: Evaluation) -> None:
        """Adopt the labels of a pass, its model and its cut."""
        self.cuts.adopt(found)
        self.cuts.add(found)
        self.model, self.sizes = found.model, found.sizes
        self.prices, self.floor_prices = found.size_prices + found.floor_prices, found.floor_prices
        self.objective = self._value(found)
        self._solve_cuts()
        self._end_pass()

    def _end_pass(self) -> None:
        """Record the objective after a pass, and whether to stop."""
        self.history.append(self.objective)
        limit = MAX_ITER if len(self.history) >= self.task.max_iter else None
        self.reason = self.task.watch(self.objective) or self.reason or limit

    def _value(self, found: Evaluation) -> float:
        """Return the objective of a pass: its labels at its model."""
        size_term = size_divergence(found.sizes, self.task.entropy)
        return self.penalty.value(*found.model) + found.loss + size_term

    def _solve_cuts(self) -> None:
        """Find the best model for the pool of cuts, and the lower bound: problem (20)."""
        bound, self.pool_model = self.penalty.solve(self.cuts)
        self.bound = bound + size_divergence(self.sizes, self.task.entropy)

    def solve(self, gap: float, above: float = np.inf) -> None:
        """Solve the problem of the labels to a relative gap, or until its bound reaches ``above``.

        Cuts are made halfway to the solution of (20), which oscillates while there are few cuts.
        """
        least, since = self.gap, 0
        while self.gap > gap * self.objective and self.bound < above and self.reason is None:
            point = halfway(self.model, self.pool_model)
            found = self.cuts.evaluate(*point, fixed=self.cuts.labels)
            self.cuts.add(found)
            self._solve_cuts()
            value = self._value(found)
            if value < self.objective:
                self.model, self.objective = point, value
            self.cuts.prune()
            self._end_pass()
            least, since = (self.gap, 0) if self.gap < SHRUNK * least else (least, since + 1)
            if since >= STALE:
                self.reason = self.reason or STALLED  # rounding errors prevent a smaller gap

    def descend(self, gap: float) -> None:
        """Solve and relabel in turn while F falls: CCCP.

        At the end the labels are those that the model predicts.
        """
        for _ in range(SETTLE_ROUNDS):
            while True:
                self.solve(0.95 * gap)
                enough = (1.0 - LEAST_FALL * gap) * self.objective
                found = self._relabelled(enough)
                if found.moves is None or self._value(found) > enough:
                    break
                self.take(found)
                if self.reason is not None:
                    return
            # With prices, F may rise a little when the labels become those of the model.
            self.take(found)
            if self.gap <= gap * self.objective or self.reason is not None:
                return

    def relabel_every_pass(self) -> None:
        """Solve, then add one cut and relabel in every pass; return to the best model.

        F may rise in between, so this leaves local minima at which :meth:`descend` stops.
        """
        self.solve(ROUGH_GAP)
        if self.penalty is not self.task.penalty:  # continue with the lower one
            self.objective -= self.penalty.value(*self.model)
            self.penalty = self.task.penalty
            self.objective += self.penalty.value(*self.model)
            self._solve_cuts()
        lowest, since, point = np.inf, 0, self.model
        while since < PATIENCE and self.reason is None:
            found = self._labelled(point, divergence_prices(self.sizes, self.task.entropy))
            self.take(found)
            self.cuts.prune()
            since = 0 if self.objective < (1.0 - PROGRESS) * lowest else since + 1
            if self.objective < lowest:
                lowest, best = self.objective, found
            if self.gap <= RELABELLED_GAP * self.objective:
                break
            point = halfway(best.model, self.pool_model)
        if self.objective > lowest:
            self.take(self.cuts.evaluate(*best.model, best.size_prices, best.floor_prices))

    def follow_paper(self) -> None:
        """Algorithm 1: cuts outside, CCCP inside; it stops at a gap of at most epsilon, (15)."""
        free, lowest, since = np.zeros(self.cuts.k), np.inf, 0
        while self.reason is None:
            last, steps, point = np.inf, 0, self.pool_model
            while True:  # Algorithm 2: labels, then (20), in turn, until it decreases by < 1 %
                self.cuts.adopt(self._labelled(point, free))
                bound, point = self.penalty.solve(self.cuts)
                steps += 1
                settled = steps > 1 and last - bound <= CCCP_STOP * abs(last)  # or increases
                if settled or steps >= self.task.max_iter:
                    break
                last = bound
            found = self._labelled(point, free)
            self.cuts.adopt(found)
            # The stopping rule (15) needs the bound without the new constraint.
            bound = self.penalty.solve(self.cuts)[0]
            self.take(replace(found, moves=None))
            self.bound = bound
            self.cuts.prune()
            since += 1
            if self.objective < lowest:
                lowest, best, since = self.objective, found, 0
            if self.solved:
                self.reason = CONVERGED
            elif since >= PATIENCE:
                self.reason = self.reason or STALLED
        if self.objective > lowest:
            self.take(self.cuts.evaluate(*best.model, best.size_prices, best.floor_prices))
        if not self.solved:  # it stalled, or reached a limit, which also ends this descent
            self.reason = None if self.reason == STALLED else self.reason
            self.descend(self.task.tol / self.objective)

    def _relabelled(self, enough: float) -> Evaluation:
        """Return the pass at the model whose labels have the lowest objective.

        The search for the fixed point of prices and sizes ends if the objective is ``enough``.
        """
        tau, lowest = self.task.entropy, np.inf
        size_prices = divergence_prices(self.sizes, tau)
        for _ in range(PRICE_TRIES):
            found = self._labelled(self.model, size_prices)
            value = self._value(found)
            if value < lowest or lowest == np.inf:
                lowest, best = value, found
            asked = divergence_prices(found.sizes, tau)
            settled = np.abs(asked - size_prices).max() < SAME_PRICES
            if value <= enough or found.moves is None or settled:
                break
            size_prices = 0.5 * (size_prices + asked)
        return best

    def _labelled(self, model: Model, size_prices: np.ndarray) -> Evaluation:
        """Return a pass with free labels that respect the size floor."""
        if not self.floor_prices.any():
            found = self.cuts.evaluate(*model, size_prices)
            if self._keeps_floor(found.sizes):
                return found
        return self.cuts.evaluate(*model, size_prices, self._floor_prices(model, size_prices))

    def _keeps_floor(self, sizes: np.ndarray) -> bool:
        return bool(sizes.min() >= self.task.floor * (1.0 - 1e-9))

    def _floor_prices(
        self, model: Model, size_prices: np.ndarray, exact: bool = False, more: float = 1.0
    ) -> np.ndarray:
        """Return prices for the size floor, from at most ``PROBE_ROWS`` rows unless ``exact``.

        ``more`` multiplies the floor, if prices from an earlier probe were too low for all rows.
        """
        cuts, n, (coef, intercept) = self.cuts, self.cuts.rows.shape[0], model
        rows, weights, known, floor = cuts.rows, cuts.weights, cuts.known, self.task.floor
        if n > PROBE_ROWS and not exact:
            few = np.linspace(0, n - 1, PROBE_ROWS).astype(np.int64)
            rows, weights, known = cuts.rows.take(few), cuts.weights[few], cuts.known[few]
            floor = floor * weights.sum() / cuts.total
            # A cluster this small on the probe may be smaller on all rows.
            floor *= more + 3.0 / np.sqrt(max(floor * PROBE_ROWS / weights.sum(), 9.0))
            floor = min(floor, weights.sum() / cuts.k)
        return floor_prices(scores(rows, coef) + intercept + size_prices, weights, floor, known)

    def enforce_floor(self) -> None:
        """Find prices on all rows if those of the probe leave a cluster below the floor."""
        if self._keeps_floor(self.sizes) or self.cuts.rows.shape[0] <= PROBE_ROWS:
            return
        size_prices = self.prices - self.floor_prices
        blocked = not self.cuts.rows.source.in_memory  # their scores may not fit into memory either
        for more in (1.1, 1.3, 1.6, 2.0) if blocked else (1.0,):
            floor_prices = self._floor_prices(self.model, size_prices, exact=not blocked, more=more)
            found = self.cuts.evaluate(*self.model, size_prices, floor_prices)
            if self._keeps_floor(found.sizes):
                break
        self.take(found)


def halfway(first: Model, second: Model) -> Model:
    """Return the mean of two models."""
    return 0.5 * (first[0] + second[0]), 0.5 * (first[1] + second[1])


def search(
    cuts: LabelledCuts,
    task: Task,
    raw: RowSource | None,
    given: np.ndarray | None,
    init: str,
    n_init: int | str,
    adapt: bool,
    rng: np.random.Generator,
) -> tuple[Problem, dict[str, Any]]:
    """Return the problem of the lowest F that was found, and fitted attributes of the search.

    k-means uses the ``raw`` rows, or the features if there are none. ``given`` labels replace all
    other initial labels. ``adapt`` raises a preference for even sizes that is too weak.
    """
    some, task_some, at = subsample(cuts, task, SAMPLE_ROWS, rng)
    few, task_few, within = subsample(some, task_some, CANDIDATE_ROWS, rng)
    points = some.rows if raw is None else Rows(raw.sample(at))
    seen = np.arange(len(at)) if some is cuts else within
    kmeans = kmeans_partition(points, some.weights, some.k, rng, seen, RIVAL_RUNS)
    kmeans = feasible(some, kmeans, task_some)
    factor = least_squares_factor(some, task)
    if adapt:
        rival = Problem(some.fresh(), task_some, task.opening).hold(kmeans, factor)
        rival.solve(ROUGH_GAP)
        tau = strong_enough(task.entropy, some.k, rival.objective)
        task, task_some, task_few = (replace(t, entropy=tau) for t in (task, task_some, task_few))
    rivals, axes, paper = [kmeans], None, task.nesting == "paper"
    if given is None:
        if not paper and task.penalty.mean is None:
            few, axes = narrowed(few)
        starts = label_starts(
            few.rows, few.weights, few.k, rng, known=np.asarray(few.known),
            kmeans=kmeans[within], init=init, n_init=n_init, floor=task_few.floor,
        )  # fmt: skip
        kept = [feasible(few, labels, task_few) for labels in starts]
        candidates = list({canonical(labels).tobytes(): labels for labels in kept}.values())
    else:
        few, task_few = some, task_some
        candidates = [feasible(some, given[at], task_some)]
        rivals += candidates
    # Initial labels are chosen by a criterion that prefers even sizes. If F does not, they lead to
    # nearly the same labels; kicks of the best labels then find a lower F.
    n_starts = N_STARTS if isinstance(n_init, str) else n_init
    n_kicks = 0 if task.entropy or given is not None else n_starts // 2
    few_factor = factor if few is some else least_squares_factor(few, task)
    ranked, objectives = ranked_candidates(candidates, few, task_few, few_factor, n_kicks, rng)

    def improved(problem: Problem) -> Problem:
        if axes is not None:
            problem.widen(axes)
        if few is not some:
            problem = Problem(some.fresh(), task_some).continue_from(problem)
        elif paper:  # follow_paper has been called
            return problem
        problem.history, problem.reason = [], None
        problem.follow_paper() if paper else problem.descend(FINALIST_GAP)
        return problem

    # Callbacks need an order.
    n_jobs = 1 if hasattr(task.watch, "context") else some.rows.n_jobs
    finalists = in_order(improved, ranked[: 1 if paper else FINALISTS], n_jobs)
    best = min(finalists, key=lambda problem: problem.objective)
    if not paper:
        best.descend(task.tol)
    best, compared = compared_with_rivals(best, rivals, some, task_some, factor)
    if some is cuts:
        best.enforce_floor()
    else:
        best = continued_on_all(best, cuts, task, rng)
    return best, {"restart_objectives_": np.array(objectives), "compared_with_kmeans_": compared,
                  "size_entropy_": task.entropy}  # fmt: skip


def ranked_candidates(
    candidates: list[np.ndarray],
    cuts: LabelledCuts,
    task: Task,
    factor: Factor | None,
    n_kicks: int,
    rng: np.random.Generator,
) -> tuple[list[Problem], list[float]]:
    """Return problems on few rows by rising F, and the objective of each candidate's labels.

    Only the best candidates go through ``relabel_every_pass``. The best one of all is then kicked,
    until ``n_kicks`` kicks in a row have not lowered F.
    """
    problems: list[Problem] = []
    above, paper = np.inf, task.nesting == "paper"

    def begun(labels: np.ndarray) -> Problem:
        problem = Problem(cuts.fresh(), task, task.opening).hold(labels, factor)
        if paper:
            problem.follow_paper()
        else:  # until the bound shows that enough others are better
            problem.solve(CANDIDATE_GAP, above=above)
        return problem

    # One after another: passes over few rows are so short that threads would wait for one another.
    for at in range(0, len(candidates), FOLLOWED):
        problems += map(begun, candidates[at : at + FOLLOWED])
        objectives = sorted(problem.objective for problem in problems)
        above = objectives[FOLLOWED - 1] if len(objectives) >= FOLLOWED else np.inf
    objectives = [problem.objective for problem in problems]
    ranked = sorted(problems, key=lambda problem: problem.objective)
    if paper:
        return ranked, objectives
    ranked = ranked[:FOLLOWED]
    for problem in ranked:
        problem.relabel_every_pass()
    ranked.sort(key=lambda problem: problem.objective)
    since = 0
    while since < n_kicks and problem.reason in (None, MAX_ITER):
        best = ranked[0]
        labels = kicked(best.cuts.host_labels(), np.asarray(cuts.known) >= 0, cuts.k, rng)
        problem = Problem(cuts.fresh(), task, task.opening)
        problem.hold(feasible(cuts, labels, task), factor).relabel_every_pass()
        since = 0 if problem.objective < (1.0 - PROGRESS) * best.objective else since + 1
        ranked = sorted([*ranked, problem], key=lambda problem: problem.objective)
    return ranked, objectives


def continued_on_all(
    best: Problem, cuts: LabelledCuts, task: Task, rng: np.random.Generator
) -> Problem:
    """Continue the best problem of a sample on larger samples, then on all rows."""
    size, n, row_bytes = SAMPLE_ROWS, *cuts.rows.shape
    row_bytes *= cuts.rows.dtype.itemsize
    some = None
    while some is not cuts:
        size *= GROWTH
        more = size if size <= n / 5 and size * row_bytes <= SAMPLE_BYTES else n
        some, task_some, _ = subsample(cuts, task, more, rng)
        try:
            best = Problem(some, task_some).continue_from(best)
            best.follow_paper() if task.nesting == "paper" else best.descend(task.tol)
            best.enforce_floor()
        except SchedulerLost as lost:
            lost.found = task.features, best.model[0], best.model[1] + best.prices
            raise
    return best


def compared_with_rivals(
    best: Problem,
    rivals: list[np.ndarray],
    cuts: LabelledCuts,
    task: Task,
    factor: Factor | None,
) -> tuple[Problem, dict[str, float]]:
    """Return a problem whose F is at most that of the rivals, and how the first one compares."""
    lowest = []
    for labels in rivals:
        rival = best
        if (canonical(labels) != canonical(best.cuts.host_labels())).any():
            rival = Problem(cuts.fresh(), task).hold(labels, factor)
            rival.solve(RIVAL_GAP, above=best.objective)
        elif task.nesting != "paper":
            best.descend(RIVAL_GAP)
        lowest.append(rival.objective)
        if rival.objective < best.objective and task.nesting != "paper":
            rival.descend(RIVAL_GAP)
            best = min(best, rival, key=lambda problem: problem.objective)
    ari = agreement(best.cuts.host_labels(), rivals[0], cuts.k)
    return best, {"objective": lowest[0], "ari": ari}


def least_squares_factor(cuts: LabelledCuts, task: Task) -> Factor | None:
    """Return the factorisation for least-squares models; None if rows are wide or (16) applies."""
    wide = cuts.rows.is_sparse or cuts.rows.shape[1] > SQUARES_WIDTH
    if wide or task.penalty.mean is not None or task.nesting == "paper":
        return None
    return factorise(cuts.rows, cuts.weights)


def feasible(cuts: LabelledCuts, labels: np.ndarray, task: Task) -> np.ndarray:
    """Return the labels, changed if they contradict known ones or the size floor."""
    given = cuts.weights, np.asarray(cuts.known), cuts.k, task.floor
    return held_labels(cuts.rows, labels, *given)


def subsample(
    cuts: LabelledCuts, task: Task, size: int, rng: np.random.Generator
) -> tuple[LabelledCuts, Task, np.ndarray]:
    """Return ``size`` random rows without cuts, the task with its floor scaled, and row numbers."""
    few = sampled_rows(cuts.known, size, rng)
    if len(few) == cuts.rows.shape[0]:
        return cuts, task, few
    some = cuts.fresh(few)
    return some, replace(task, floor=task.floor * some.total / cuts.total), few
