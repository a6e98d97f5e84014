"""Cuts and labels in turn: the search that cutting-plane methods share.

A method gives a :class:`Penalty`: what a model costs beside its loss, and the best model for a pool
of cuts. Here are the passes over the rows, the labels with their size floor, the starts on a
sample, the way to all rows, and the proof that the margin problem of the final labels is solved.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from scipy.optimize import linear_sum_assignment

from .blocks import SchedulerLost
from .cuts import LabelledCuts, Look
from .descent import CONVERGED, MAX_ITER, STALLED, Outcome, descend
from .prices import floor_prices
from .rows import all_equal, cluster_means, scores
from .starts import kmeans_labels

ANNEAL_FROM, ANNEAL_STEPS = 1.0, 4
START_ROWS, GROWTH = 5000, 10  # rows that starts are compared on, then ten times as many, then all
SAMPLE_BYTES = 64 * 2**20  # of a sample of more than START_ROWS * GROWTH rows
PROBE_ROWS = 5000  # rows on which prices for the size floor are found
ROUGH_TOL, ROUGH_PASSES = 0.01, 60  # of the descents that are only compared
OFF_FLOOR = 1e3  # added to the objective of a labelling that misses the size floor
SHORT = 1e-6
PATIENCE = 15
STALE = 200  # cuts for given labels by which the gap does not shrink
CCCP_STOP = 0.01


NOTHING_FOUND = {  # fitted attributes of one cluster, where there is nothing to search
    "gap_": 0.0,
    "best_history_": [],
    "restart_objectives_": np.zeros(1),
    "n_passes_": 0,
    "n_cuts_": 0,
}


class Penalty(Protocol):
    """What a model costs beside its loss."""

    @property
    def alpha(self) -> float:
        """Strength."""

    def at(self, alpha: float) -> Any:
        """The same penalty of another strength."""

    def value(self, coef: np.ndarray) -> float:
        """What coefficients cost."""

    def solve(self, cuts: LabelledCuts) -> tuple[float, tuple[np.ndarray, np.ndarray]]:
        """Lower bound on the objective, and the coefficients and intercepts best for the cuts."""


@dataclass(frozen=True)
class Task:
    """An estimator's parameters as the functions below need them."""

    penalty: Penalty
    floor: float  # least weight of a cluster
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
        """State after a first cut: that of given labels, in the direction of coefficients.

        They are made short, so that every row is within the margin and has a say in the cut.
        """
        coef = coef * (SHORT / max(float(np.abs(coef).max()), 1e-300))
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
        last, steps = np.inf, 0
        while True:
            steps += 1
            look, _ = self._labelled(*ahead)
            self.cuts.adopt(look)
            bound, ahead = self.solve()
            enough = bound >= (1.0 - CCCP_STOP) * last or steps >= self.task.max_iter
            if enough or self.task.watch(bound) is not None:
                return ahead
            last = bound

    def solve(self) -> tuple[float, tuple[np.ndarray, np.ndarray]]:
        """Lower bound for the current labels, and the best model for the cuts."""
        return self.task.penalty.solve(self.cuts)

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

    def prices(self, coef, intercept, exact: bool = False, more: float = 1.0) -> np.ndarray:
        """Prices for the least size of every cluster, found on ``PROBE_ROWS`` rows at most.

        ``more`` than the least size can be asked for, where the probe promised too much.
        """
        cuts, n = self.cuts, self.cuts.rows.shape[0]
        if exact or n <= PROBE_ROWS:
            rows, weights, known, floor = cuts.rows, cuts.weights, cuts.known, self.task.floor
        else:
            few = np.linspace(0, n - 1, PROBE_ROWS).astype(np.int64)
            rows, weights, known = cuts.rows.take(few), cuts.weights[few], cuts.known[few]
            floor = self.task.floor * weights.sum() / cuts.total
            # A cluster this small on the probe may be smaller on all rows.
            floor *= more + 3.0 / np.sqrt(max(floor * PROBE_ROWS / weights.sum(), 9.0))
            floor = min(floor, weights.sum() / cuts.k)
        found = scores(rows, coef) + intercept
        return floor_prices(found, weights, floor, known)

    def filled(self, state: State) -> State:
        """The state with prices found on all rows, where those of the probe missed the floor."""
        if state.missing == 0 or self.cuts.rows.shape[0] <= PROBE_ROWS:
            return state
        point = state.coef, state.intercept
        # The scores of all rows need not fit into memory where the rows do not.
        blocked = self.cuts.rows.is_blocked
        for more in (1.1, 1.3, 1.6, 2.0) if blocked else (1.0,):
            prices = self.prices(*point, exact=not blocked, more=more)
            look = self.cuts.look(*point, prices)
            if self._missing(look) == 0:
                break
        self.cuts.adopt(look)
        return self._state(*point, prices, look, *self.solve())

    def _missing(self, look: Look) -> float:
        short = self.task.floor - float(look.sizes.min())
        return short if short > 1e-9 * self.task.floor else 0.0

    def _state(self, coef, intercept, prices, look: Look, bound, ahead) -> State:
        value = self.task.penalty.value(coef) + look.loss
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
        task, reason = self.task, None
        while True:
            point = state.coef, state.intercept
            look, prices = self._labelled(*point)
            self.cuts.adopt(look)
            self.cuts.add(look, point)
            state = self._state(*point, prices, look, *self.solve())
            history.append(state.value)
            if self.change(state, state) <= task.tol:
                return state, history, CONVERGED
            if reason is not None:
                return state, history, reason
            least, since = state.gap, 0
            while self.change(state, state) > task.tol and reason is None:
                state = self._improved(state, prices)
                history.append(state.value)
                reason = task.watch(state.value) or (MAX_ITER if len(history) >= budget else None)
                least, since = (state.gap, 0) if state.gap < 0.99 * least else (least, since + 1)
                if reason is None and since >= STALE:
                    reason = STALLED  # rounding allows no smaller gap
            if reason is None and len(history) >= budget:
                reason = MAX_ITER
            # The labels of the better model come next, also where time is up.

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
    best, reason = found.state, found.stop_reason
    # Steps off the size floor carry a penalty, which is no objective.
    history = [value for value in found.history if value < OFF_FLOOR]
    certified = stage.change(best, best) <= task.tol
    if reason in (CONVERGED, STALLED, MAX_ITER) and not certified:
        best, settled, reason = stage.settled(best, task.max_iter)
        history = history + settled
    best = stage.filled(best)
    return Outcome(best, stage.objective(best), history, len(history), reason)


def best_start(cuts: LabelledCuts, starts: list, task: Task) -> tuple[Stage, State, list[float]]:
    """Follow every start roughly; the stage and state of the lowest objective, and all of them."""
    last = task.penalty.alpha
    ways = [[last]]
    if task.anneal and last < ANNEAL_FROM:
        ways.append(np.geomspace(ANNEAL_FROM, last, ANNEAL_STEPS).tolist())
    rough = replace(_rough(task), max_iter=min(task.max_iter, ROUGH_PASSES))
    objectives: list[float] = []
    for labels, coef in starts:
        led = []
        for alphas in ways:
            trial = cuts.fresh()
            state = Stage(trial, rough).opened(labels, coef)
            for alpha in alphas:
                stage = Stage(trial, replace(rough, penalty=task.penalty.at(alpha)))
                outcome = _run(stage, replace(state, ahead=stage.solve()[1], value=np.inf))
                state = outcome.state
            led.append(outcome.objective)
            if outcome.objective <= min(objectives + led):
                best = Stage(trial, task), replace(state, ahead=stage.solve()[1])
        objectives.append(min(led))
    return *best, objectives


def _rough(task: Task) -> Task:
    """The task where its result is only compared, or continued on more rows."""
    return replace(task, tol=max(task.tol, ROUGH_TOL)) if task.nesting == "merged" else task


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
    """Labels and coefficients to start from: k-means runs, then random directions.

    Where features come in blocks, k-means sees all of them, then each block by itself.
    """
    k, rows, weights, known = cuts.k, cuts.rows, cuts.weights, cuts.known
    n_kmeans = {"k-means": n_starts, "random": 0}.get(init, (n_starts + 1) // 2)
    points = rows.data.astype(np.float64, copy=False)  # few rows; the same starts for any type
    views = [points, *(points[:, block] for block in cuts.blocks or ())]
    starts = []
    for j in range(n_kmeans):
        labels = kmeans_labels(views[j % len(views)], k, weights, rng, n_init=1)
        starts.append(_from_labels(cuts, labels))
    for _ in range(n_starts - n_kmeans):
        coef = rng.standard_normal((k, rows.shape[1]))
        found = scores(rows, coef)
        found += floor_prices(found, weights, task.floor, known)
        starts.append((np.where(known >= 0, known, found.argmax(axis=1)), coef))
    return starts


def _from_labels(cuts: LabelledCuts, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Labels, renamed to agree with known ones, and the means of their clusters."""
    rows, weights, known, k = cuts.rows, cuts.weights, cuts.known, cuts.k
    if (known >= 0).any():
        agreement = np.zeros((k, k))
        np.add.at(agreement, (labels[known >= 0], known[known >= 0]), weights[known >= 0])
        labels = linear_sum_assignment(-agreement)[1][labels]
        labels = np.where(known >= 0, known, labels)
    return labels, cluster_means(rows, labels, weights, k)


@dataclass(frozen=True)
class Found:
    """Where the search ended, and what every start led to."""

    stage: Stage
    outcome: Outcome
    objectives: list[float]

    @property
    def fields(self) -> dict[str, Any]:
        """The model found, one score per cluster, and how."""
        state, outcome = self.outcome.state, self.outcome
        return {
            "coef": state.coef,
            "intercept": state.intercept + state.prices,
            "paths": np.eye(len(state.coef)),
            "objective": state.value,
            "history": outcome.history,
            "n_iter": outcome.n_iter,
            "stop_reason": outcome.stop_reason,
        }

    @property
    def report(self) -> dict[str, Any]:
        """Fitted attributes that the methods share."""
        history = self.outcome.history
        return {
            "gap_": float(self.outcome.state.gap),
            "best_history_": np.minimum.accumulate(history).tolist() if history else [],
            "restart_objectives_": np.array(self.objectives),
            "n_passes_": self.stage.cuts.n_passes,
            "n_cuts_": len(self.stage.cuts.codes),
        }


def search(
    cuts: LabelledCuts, task: Task, *, given: np.ndarray | None, init: str, n_starts: int, rng
) -> Found:
    """Best start on a sample of the rows, continued on more and then on all of them.

    Parameters
    ----------
    cuts : LabelledCuts
        All rows; no cuts yet.
    task : Task
    given : ndarray of shape (n,) or None
        Labels to start from instead.
    init : {"auto", "k-means", "random"}
    n_starts : int
    rng : numpy Generator
    """
    if given is not None:
        plain = replace(task, anneal=False)  # strong regularisation would forget the labels
        stage, state, objectives = best_start(cuts, [_from_labels(cuts, given)], plain)
        return Found(stage, conclude(stage, state), objectives)
    first, *larger = growing(cuts.rows.shape, cuts.rows.dtype.itemsize)
    some, part = _subsample(cuts, task, first, rng)
    stage, state, objectives = best_start(some, starts_of(some, part, init, n_starts, rng), part)
    for size in larger:
        state = conclude(stage, state).state
        hints = stage.cuts.hints()
        del stage, some  # the smaller sample is given back before the larger one is drawn
        some, part = _subsample(cuts, task, size, rng)
        stage = Stage(some, part)
        with _model_kept(stage, state):
            state = stage.continued(state, hints)
    with _model_kept(stage, state):
        return Found(stage, conclude(stage, state), objectives)


@contextmanager
def _model_kept(stage: Stage, state: State):
    """Let the loss of a cluster carry the best model so far."""
    try:
        yield
    except SchedulerLost as lost:
        best = state if stage.best is None else stage.best
        lost.found = best.coef, best.intercept + best.prices
        raise


def growing(shape: tuple[int, int], itemsize: int) -> list[int]:
    """Numbers of rows to work on: enough to compare starts, then more, then all.

    A sample has a fifth of the rows at most, and does not fill the memory.

    Examples
    --------
    >>> growing((3_000_000, 10), 8), growing((3_000_000, 100), 8)
    ([5000, 50000, 500000, 3000000], [5000, 50000, 3000000])
    """
    n, width = shape
    sizes, size = [], START_ROWS
    while size < n / (1 if size == START_ROWS else GROWTH / 2):
        if size > START_ROWS * GROWTH and size * width * itemsize > SAMPLE_BYTES:
            break
        sizes.append(size)
        size *= GROWTH
    return [*sizes, n]


def _subsample(cuts: LabelledCuts, task: Task, size: int, rng) -> tuple[LabelledCuts, Task]:
    """Cuts on so many random rows, and the task with the floor in proportion."""
    n = cuts.rows.shape[0]
    if size == n:
        return cuts, task
    # One row from each of ``size`` stretches: in order, and no permutation of all rows. Known rows
    # come along: they name the clusters.
    few = ((np.arange(size) + rng.random(size)) * (n / size)).astype(np.int64)
    known = np.flatnonzero((cuts.known[:1] if all_equal(cuts.known) else cuts.known) >= 0)
    if len(known) > size:
        known = known[((np.arange(size) + 0.5) * (len(known) / size)).astype(np.int64)]
    few = few[np.diff(few, prepend=-1) > 0]
    some = cuts.taken(np.union1d(few, known) if known.size else few)
    return some, replace(_rough(task), floor=task.floor * some.total / cuts.total)
