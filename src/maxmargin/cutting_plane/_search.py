r"""Labels and margin models in turn: the search that cutting-plane methods share.

The objective of labels y with shares :math:`\pi` of the rows is

.. math::
    F(y) = \min_W\; \text{penalty}(W) + \frac{1}{n} \sum_i \text{hinge}_i(W, y_i)
    + \tau \sum_h \pi_h \log(k \pi_h)

A method gives the :class:`Penalty`. For labels that are held, F(y) is a convex problem, solved by
cuts to a certified gap (:meth:`Problem.solve`). The labels that the model predicts then replace
them if they lower F (:meth:`Problem.descend`, CCCP with a check), so F never rises.
:func:`search` compares initial labels on few rows, continues with the best two on more rows, and
ensures that neither the k-means partition nor given labels have a lower F.

A *price* is added to the scores of a cluster when labels are chosen; the loss is that of the scores
without prices. Prices enforce the size floor or follow from the preference for even sizes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.metrics import adjusted_rand_score

from .._core.descent import CONVERGED, MAX_ITER, STALLED
from .._core.init import (
    N_STARTS,
    canonical,
    held_labels,
    kicked,
    kmeans_partition,
    label_starts,
    sampled_rows,
)
from .._core.rows import Rows, cluster_means, scores
from .._core.size_floor import divergence_prices, floor_prices, size_divergence, strong_enough
from .._data.source import RowSource, SchedulerLost
from .._threads import in_order, run_all
from ._cuts import Evaluation, LabelledCuts, Model, narrowed
from ._penalty import Penalty

START_ROWS, SAMPLE_ROWS = 1000, 10_000  # rows that starts, then the best of them are compared on
KMEANS_RUNS = 10
PROBE_ROWS = 5000  # rows on which prices for the size floor are found
OPENING, FOLLOWED, COMPARED = 0.1, 0.05, 5e-4  # relative gaps: of candidates, on the way, of rivals
WANDERED = 0.01  # relative gap at which the wandering ends
WANDERERS, FINALISTS = 4, 2  # candidates that are followed on few rows, and on more
PRICE_TRIES, SETTLE_ROUNDS = 6, 10
LOWER = 1e-3  # of the gap that is asked for: a smaller fall of F is no progress
GROWTH = 10  # of the sample, until it is a fifth of the rows or as large as this
SAMPLE_BYTES = 64 * 2**20
SAME_PRICES = 1e-3  # difference of prices at which their fixed point is found
SHORT = 1e-6  # largest coefficient of the first model
PATIENCE, PROGRESS = 15, 1e-3  # passes without a fall of F by this share end the wandering
STALE, SHRUNK = 100, 0.9  # cuts by which the gap of given labels must shrink to this share
CCCP_STOP = 0.01  # of the paper's CCCP


@dataclass(frozen=True)
class Task:
    """An estimator's parameters as the functions below need them."""

    penalty: Penalty
    floor: float  # least weight of a cluster
    entropy: float  # tau, the strength of the preference for even sizes
    tol: float  # relative gap of the result; the paper's epsilon with its nesting
    max_iter: int  # most passes over the rows of a descent
    # Called with the objective after every pass; a string that it returns ends the search.
    watch: Callable[[float], str | None]
    features: Any = None  # the map that the rows come from, for a checkpoint
    nesting: str = "labels"  # or "paper"
    # A simpler penalty, never less than ``penalty``, under which candidates are compared.
    opening: Penalty | None = None


class Problem:
    """Labels, their cuts, and the best model so far, on given rows.

    Attributes
    ----------
    model : tuple of ndarray
        Coefficients (k, r) and intercepts (k,).
    prices : ndarray of shape (k,)
        Added to the model's scores to predict the labels of the cuts.
    floor_prices : ndarray of shape (k,)
        The part of the prices that enforces the size floor.
    ahead : tuple of ndarray
        The solution of (20): the model that is best for the cuts, which are not all constraints.
    objective, bound : float
        F of the labels at the model, and a lower bound on F of the labels.
    sizes : ndarray of shape (k,)
    history : list of float
        Objective after every pass.
    reason : str or None
        Why to stop; None to go on.
    """

    def __init__(self, cuts: LabelledCuts, task: Task, penalty: Penalty | None = None):
        self.cuts, self.task = cuts, task
        self.penalty = task.penalty if penalty is None else penalty
        self.prices = self.floor_prices = np.zeros(cuts.k)
        self.model: Model = np.zeros((cuts.k, cuts.rows.shape[1])), np.zeros(cuts.k)
        self.ahead: Model = self.model
        self.objective, self.bound = np.inf, -np.inf
        self.sizes = np.zeros(cuts.k)
        self.history: list[float] = []
        self.reason: str | None = None

    @property
    def gap(self) -> float:
        """How far F can be above the best value for these labels."""
        return self.objective - self.bound

    @property
    def solved(self) -> bool:
        """Whether the gap is within the tolerance: relative, but absolute in the paper."""
        unit = 1.0 if self.task.nesting == "paper" else self.objective
        return self.gap <= self.task.tol * unit

    def hold(self, labels: np.ndarray) -> Problem:
        """Take labels over, with one cut at a short model in the direction of the cluster means.

        Short, so that every row is within the margin and counts in the cut.
        """
        cuts = self.cuts
        coef = cluster_means(cuts.rows, labels, cuts.weights, cuts.k)
        model = coef * (SHORT / max(float(np.abs(coef).max()), 1e-300)), np.zeros(cuts.k)
        self.take(cuts.evaluate(*model, fixed=labels.astype(cuts.dtype)))
        return self

    def follow(self, other: Problem) -> Problem:
        """Take over the model of a problem on fewer rows, its labels here, and its cuts anew.

        The cuts in use there are found again here, at the models that they came from; without them
        the first models on all rows would be those of one or two cuts.
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
        """Write the models in the columns that the axes (r, few) are made of."""
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
        self._count()

    def _count(self) -> None:
        """Note the objective after a pass; see whether to stop."""
        self.history.append(self.objective)
        limit = MAX_ITER if len(self.history) >= self.task.max_iter else None
        self.reason = self.task.watch(self.objective) or self.reason or limit

    def _value(self, found: Evaluation) -> float:
        """Return F of the labels of a pass at its model."""
        size_term = size_divergence(found.sizes, self.task.entropy)
        return self.penalty.value(*found.model) + found.loss + size_term

    def _solve_cuts(self) -> None:
        """Find the best model for the cuts, and with it the bound."""
        bound, self.ahead = self.penalty.solve(self.cuts)
        self.bound = bound + size_divergence(self.sizes, self.task.entropy)

    def solve(self, gap: float, above: float = np.inf) -> None:
        """Solve the problem of the labels to a relative gap, or until its bound is ``above``.

        The next cut is made halfway between the best model and the solution of (20), which alone
        would oscillate while cuts are few.
        """
        least, since = self.gap, 0
        while self.gap > gap * self.objective and self.bound < above and self.reason is None:
            point = halfway(self.model, self.ahead)
            found = self.cuts.evaluate(*point, fixed=self.cuts.labels)
            self.cuts.add(found)
            self._solve_cuts()
            value = self._value(found)
            if value < self.objective:
                self.model, self.objective = point, value
            self.cuts.prune()
            self._count()
            least, since = (self.gap, 0) if self.gap < SHRUNK * least else (least, since + 1)
            if since >= STALE:
                self.reason = self.reason or STALLED  # rounding allows no smaller gap

    def descend(self, gap: float) -> None:
        """Solve, relabel, and so on while F falls: CCCP.

        At the end the labels are those of the model, and F that of both.
        """
        for _ in range(SETTLE_ROUNDS):
            while True:
                self.solve(0.95 * gap)
                enough = (1.0 - LOWER * gap) * self.objective
                found = self._relabelled(enough)
                if found.moves is None or self._value(found) > enough:
                    break
                self.take(found)
                if self.reason is not None:
                    return
            # The labels of the model, also if F rises by the rounding to whole rows.
            self.take(found)
            if self.gap <= gap * self.objective or self.reason is not None:
                return

    def wander(self) -> None:
        """Add one cut and relabel in every pass; end at the best model that was found.

        F may rise in between, so this leaves local minima at which :meth:`descend` stops.
        """
        if self.penalty is not self.task.penalty:  # the simpler one was not below it
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
            if self.gap <= WANDERED * self.objective:
                break
            point = halfway(best.model, self.ahead)
        if self.objective > lowest:
            self.take(self.cuts.evaluate(*best.model, best.size_prices, best.floor_prices))

    def follow_paper(self) -> None:
        """Algorithm 1: cuts outside, CCCP inside; it ends when the gap is epsilon at most, (15)."""
        free, lowest, since = np.zeros(self.cuts.k), np.inf, 0
        while self.reason is None:
            last, steps, point = np.inf, 0, self.ahead
            while True:  # Algorithm 2: labels, then (20), in turn, while that gains 1 %
                self.cuts.adopt(self._labelled(point, free))
                bound, point = self.penalty.solve(self.cuts)
                steps += 1
                if steps > 1 and last - bound <= CCCP_STOP * abs(last):  # a bound can be negative
                    break
                if steps >= self.task.max_iter:
                    break
                last = bound
            found = self._labelled(point, free)
            self.cuts.adopt(found)
            # It stops when the new constraint is violated by epsilon at most: before it is added.
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
        if not self.solved:  # the labels of the best model are held, and its problem solved
            self.reason = None if self.reason == STALLED else self.reason
            self.descend(self.task.tol / self.objective)

    def _relabelled(self, enough: float) -> Evaluation:
        """Return the pass whose labels have the lowest F at the model.

        The search for prices ends when F is ``enough``.
        The best prices for even sizes are a fixed point: the sizes that they lead to ask for them.
        """
        tau, lowest = self.task.entropy, np.inf
        size_prices = divergence_prices(self.sizes, tau)
        for _ in range(PRICE_TRIES if tau else 1):
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
            if found.sizes.min() >= self.task.floor * (1.0 - 1e-9):
                return found
        return self.cuts.evaluate(*model, size_prices, self._floor_prices(model, size_prices))

    def _floor_prices(
        self, model: Model, size_prices: np.ndarray, exact: bool = False, more: float = 1.0
    ) -> np.ndarray:
        """Return prices for the least size of every cluster, found on ``PROBE_ROWS`` at most.

        ``more`` multiplies the least size, if prices from the probe were too low for all rows.
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

    def fill(self) -> None:
        """Find prices on all rows if those of the probe missed the floor."""
        reached = self.sizes.min() >= self.task.floor * (1.0 - 1e-9)
        if reached or self.cuts.rows.shape[0] <= PROBE_ROWS:
            return
        size_prices = self.prices - self.floor_prices
        # If the rows do not fit into memory, their scores may not, either.
        blocked = not self.cuts.rows.source.in_memory
        for more in (1.1, 1.3, 1.6, 2.0) if blocked else (1.0,):
            floor_prices = self._floor_prices(self.model, size_prices, exact=not blocked, more=more)
            found = self.cuts.evaluate(*self.model, size_prices, floor_prices)
            if found.sizes.min() >= self.task.floor * (1.0 - 1e-9):
                break
        self.take(found)


def halfway(model: Model, ahead: Model) -> Model:
    """Return the model halfway between the best one and the solution of (20)."""
    return 0.5 * (model[0] + ahead[0]), 0.5 * (model[1] + ahead[1])


def search(
    cuts: LabelledCuts,
    task: Task,
    raw: RowSource | None,
    *,
    given: np.ndarray | None,
    init: str,
    n_init: int | str,
    adapt: bool,
    rng: np.random.Generator,
) -> tuple[Problem, dict[str, Any]]:
    """Return the problem of the lowest F that was found, and how candidates compare.

    Parameters
    ----------
    cuts : LabelledCuts
        All rows; no cuts yet.
    task : Task
    raw : RowSource or None
        The rows before they were mapped, for k-means; None for k-means on the mapped rows.
    given : ndarray of shape (n,) or None
        Labels to start from instead.
    init : {"auto", "k-means", "random"}
    n_init : int or "auto"
        Labels that the search for candidates starts from.
    adapt : bool
        Whether a preference for even sizes that is too weak for these rows is made stronger.
    rng : numpy Generator
    """
    some, task_there, at = subsample(cuts, task, SAMPLE_ROWS, rng)
    few, task_few, within = subsample(some, task_there, START_ROWS, rng)
    points = some.rows if raw is None else Rows(raw.sample(at))
    seen = np.arange(len(at)) if some is cuts else within
    kmeans = kmeans_partition(points, some.weights, some.k, rng, seen, KMEANS_RUNS)
    kmeans = held(some, kmeans, task_there)
    if adapt:
        rival = Problem(some.fresh(), task_there, task.opening).hold(kmeans)
        rival.solve(OPENING)
        tau = strong_enough(task.entropy, some.k, rival.objective)
        task, task_there, task_few = (replace(t, entropy=tau) for t in (task, task_there, task_few))
    rivals, axes, paper = [kmeans], None, task.nesting == "paper"
    if given is None:
        if not paper and getattr(task.penalty, "mean", None) is None:
            few, axes = narrowed(few)
        starts = label_starts(
            few.rows, few.weights, few.k, rng, known=np.asarray(few.known),
            kmeans=kmeans[within], init=init, n_init=n_init, floor=task_few.floor,
        )  # fmt: skip
        kept = [held(few, labels, task_few) for labels in starts]
        candidates = list({canonical(labels).tobytes(): labels for labels in kept}.values())
    else:
        few, task_few = some, task_there
        candidates = [held(some, given[at], task_there)]
        rivals += candidates
    # The candidates' criterion prefers even sizes. If F does not, their descents end close to one
    # another; kicks of the best labels find a lower F.
    n_starts = N_STARTS if isinstance(n_init, str) else n_init
    n_kicks = 0 if task.entropy or given is not None else n_starts // 2
    ranked, objectives = explored(candidates, few, task_few, n_kicks, rng)
    finalists = []
    for problem in ranked[: 1 if paper else FINALISTS]:
        finalists.append(problem)
        if few is not some:
            if axes is not None:
                problem.widen(axes)
            problem = Problem(some.fresh(), task_there).follow(problem)
            finalists[-1] = problem
        elif paper:
            break
        problem.history, problem.reason = [], None
        problem.follow_paper() if paper else problem.descend(FOLLOWED)
    best = min(finalists, key=lambda problem: problem.objective)
    if not paper:
        best.descend(task.tol)
    best, compared = promised(best, rivals, some, task_there)
    if some is not cuts:
        best = followed_on_all(best, cuts, task, rng)
    return best, {"restart_objectives_": np.array(objectives), "compared_with_kmeans_": compared,
                  "size_entropy_": task.entropy}  # fmt: skip


def explored(
    candidates: list[np.ndarray],
    cuts: LabelledCuts,
    task: Task,
    n_kicks: int,
    rng: np.random.Generator,
) -> tuple[list[Problem], list[float]]:
    """Return problems on few rows by rising F, and the objective of each candidate's labels.

    Only the best candidates are followed. Kicks end after ``n_kicks`` in a row without progress.
    """
    opened: list[Problem] = []
    above = np.inf
    # Callbacks are called for passes in order.
    n_jobs = 1 if hasattr(task.watch, "context") else cuts.rows.n_jobs

    def begun(labels: np.ndarray) -> Problem:
        problem = Problem(cuts.fresh(), task, task.opening).hold(labels)
        if task.nesting == "paper":
            problem.follow_paper()
        else:  # no further than it takes to see that others are better
            problem.solve(OPENING, above=above)
        return problem

    for at in range(0, len(candidates), WANDERERS):
        opened += in_order(begun, candidates[at : at + WANDERERS], n_jobs)
        objectives = [problem.objective for problem in opened]
        above = sorted(objectives)[WANDERERS - 1] if len(opened) >= WANDERERS else np.inf
    ranked = [opened[at] for at in np.argsort(objectives, kind="stable")]
    if task.nesting == "paper":
        return ranked, objectives
    ranked = ranked[:WANDERERS]
    run_all(Problem.wander, ranked, n_jobs)
    problem = ranked[-1]
    ranked.sort(key=lambda problem: problem.objective)
    since = 0
    while since < n_kicks and problem.reason in (None, MAX_ITER):
        best = ranked[0]
        labels = kicked(best.cuts.host_labels(), np.asarray(cuts.known) >= 0, cuts.k, rng)
        problem = Problem(cuts.fresh(), task, task.opening).hold(held(cuts, labels, task))
        problem.solve(OPENING)
        problem.wander()
        since = 0 if problem.objective < (1.0 - PROGRESS) * best.objective else since + 1
        ranked = sorted([*ranked, problem], key=lambda problem: problem.objective)
    return ranked, objectives


def followed_on_all(
    best: Problem, cuts: LabelledCuts, task: Task, rng: np.random.Generator
) -> Problem:
    """Follow the best problem of a sample on larger samples, then on all rows."""
    size, n, row_bytes = SAMPLE_ROWS, *cuts.rows.shape
    row_bytes *= cuts.rows.dtype.itemsize
    some = None
    while some is not cuts:
        size *= GROWTH
        more = size if size <= n / 5 and size * row_bytes <= SAMPLE_BYTES else n
        some, task_there, _ = subsample(cuts, task, more, rng)
        try:
            best = Problem(some, task_there).follow(best)
            best.follow_paper() if task.nesting == "paper" else best.descend(task.tol)
            best.fill()
        except SchedulerLost as lost:
            lost.found = task.features, best.model[0], best.model[1] + best.prices
            raise
    return best


def promised(
    best: Problem, rivals: list[np.ndarray], cuts: LabelledCuts, task: Task
) -> tuple[Problem, dict[str, float]]:
    """Return a problem whose F is not above that of rival labels, and how k-means compares."""
    compared: dict[str, float] = {}
    mine = best.cuts.host_labels()
    for number, labels in enumerate(rivals):
        rival = best
        if (canonical(labels) != canonical(mine)).any():
            rival = Problem(cuts.fresh(), task).hold(labels)
            rival.solve(COMPARED, above=best.objective)
        elif task.nesting != "paper":
            best.descend(COMPARED)
        if number == 0:
            ari = float(adjusted_rand_score(mine, labels))
            compared = {"objective": rival.objective, "ari": ari}
        if rival.objective < best.objective and task.nesting != "paper":
            rival.descend(COMPARED)
            if rival.objective < best.objective:
                best = rival
    return best, compared


def held(cuts: LabelledCuts, labels: np.ndarray, task: Task) -> np.ndarray:
    """Return labels that agree with known ones and keep the size floor, changed as needed."""
    known = np.asarray(cuts.known)
    return held_labels(cuts.rows, labels, cuts.weights, known, cuts.k, task.floor)


def subsample(
    cuts: LabelledCuts, task: Task, size: int, rng: np.random.Generator
) -> tuple[LabelledCuts, Task, np.ndarray]:
    """Return cuts on so many random rows, the task with the floor in proportion, and the rows."""
    few = sampled_rows(cuts.known, size, rng)
    if len(few) == cuts.rows.shape[0]:
        return cuts, task, few
    some = cuts.fresh(few)
    return some, replace(task, floor=task.floor * some.total / cuts.total), few
