r"""The alternation for more than two clusters at once: one regression for each against the others.

.. math::
    F(y) = \min_{W, b}\; \frac{1}{2} \sum_h \Big( \alpha |w_h|^2
    + \frac{1}{n} \sum_i L(y_{ih}, w_h'z_i + b_h) \Big) + \tau \sum_h \pi_h \log(k \pi_h)

with targets :math:`y_{ih} = \pm 1` and shares :math:`\pi_h` of the rows. Labels are held while the
k regressions are solved on one factor of the rows; then each row goes to the cluster of its largest
score plus a price for even sizes, if that lowers F. So F never rises. Candidates are compared on
few rows, the best two followed on more, and neither the k-means partition nor given labels have a
lower F than the result.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import attrgetter
from typing import Any

import numpy as np
from sklearn.metrics import adjusted_rand_score

from .._core.dedup import FitInput
from .._core.descent import CONVERGED, MAX_ITER
from .._core.features import centred_rows
from .._core.init import kmeans, label_starts, named, sampled_rows
from .._core.rows import Factor, Rows, factorise, fit_squared, scores
from .._core.size_floor import (
    divergence_prices,
    floor_prices,
    loss_kinks,
    row_losses,
    size_divergence,
    strong_enough,
)
from .._core.tree import in_root_features
from .._data.source import RowSource
from ._regression import PiecewiseFit, fit_piecewise

START_ROWS, SAMPLE_ROWS = 1000, 10_000  # rows that candidates, then the best of them, see
OPENED, FINALISTS = 6, 2  # candidates compared by the loss itself, and followed
OPENING, FOLLOWED, COMPARED = 0.1, 0.05, 1e-3  # relative gaps: of candidates, on the way, of rivals
ON_THE_WAY = 0.01  # gap while labels move
LOWER = 5e-4  # of F: a smaller fall is no progress
PRICE_TRIES, SETTLE_ROUNDS = 5, 3


@dataclass(frozen=True)
class Task:
    """The estimator's parameters as the functions below need them; ``floor`` is a weight."""

    k: int
    loss: str
    epsilon: float
    alpha: float
    entropy: float
    floor: float
    gap: float
    max_iter: int
    watch: Callable[[float], str | None]


@dataclass(frozen=True)
class State:
    """Labels, the regressions on them, the prices that lead to them, and F."""

    labels: np.ndarray
    coef: np.ndarray
    bias: np.ndarray
    objective: float
    prices: np.ndarray
    bound: float = -np.inf
    fit: PiecewiseFit | None = None
    history: list[float] = field(default_factory=list)
    reason: str = CONVERGED


class Joint:
    """The problem on some rows, which are centred on their own."""

    def __init__(self, rows: Rows, weights: np.ndarray, known: np.ndarray, task: Task):
        self.rows, self.weights, self.known, self.task = rows, weights, known, task
        self.share = weights / weights.sum()

    @cached_property
    def factor(self) -> Factor:
        """The shared factor of all regressions, made when it is first needed."""
        return factorise(self.rows.stored(), self.weights)

    def part(self, few: np.ndarray) -> Joint:
        """Return the problem on some of the rows."""
        if len(few) == self.rows.shape[0]:
            return self
        weights = self.weights[few]
        task = replace(self.task, floor=self.task.floor * weights.sum() / self.weights.sum())
        rows = centred_rows(self.rows.take(few), weights)[0]
        return Joint(rows, weights, self.known[few], task)

    def sizes(self, labels: np.ndarray) -> np.ndarray:
        """Return the weight of every cluster."""
        return np.bincount(labels, self.weights, minlength=self.task.k)

    def solve(
        self,
        labels: np.ndarray,
        gap: float,
        loss: str | None = None,
        warm: PiecewiseFit | None = None,
        above: float = np.inf,
    ) -> State:
        """Return the k regressions on labels that are held, and F.

        ``loss`` can be another one; a lower bound ``above`` a value of F ends the solution early.
        """
        task, loss = self.task, loss or self.task.loss
        free, divergence = np.zeros(task.k), size_divergence(self.sizes(labels), task.entropy)
        if loss == "squared":
            targets = np.where(labels[:, None] == np.arange(task.k), 1.0, -1.0)
            coef, bias = fit_squared(self.factor, targets, 2.0 * task.alpha)
            fitted = scores(self.factor.rows, coef) + bias
            value = task.alpha * (coef**2).sum() + self.share @ ((fitted - targets) ** 2).sum(
                axis=1
            )
            value = 0.5 * float(value) + divergence
            return State(labels, coef, bias, value, free, value)
        kinks, names = loss_kinks(loss, task.epsilon), tuple(range(task.k))
        above = 2.0 * (above - divergence)
        fit = fit_piecewise(self.factor, labels, kinks, 2.0 * task.alpha, gap, warm, names, above)
        value, bound = (0.5 * float(part.sum()) + divergence
                        for part in (fit.value, fit.bound))  # fmt: skip
        return State(labels, fit.coef, fit.bias, value, free, bound, fit)

    def relabelled(self, state: State) -> State:
        """Return the labels of the model that have the lowest F at it.

        The best prices for even sizes are a fixed point: the sizes that they lead to ask for them.
        """
        task, fixed = self.task, self.known >= 0
        fitted = scores(self.factor.rows, state.coef) + state.bias
        here, there = (0.5 * row_losses(sign, fitted, task.loss, task.epsilon)
                       for sign in (np.array(1), np.array(-1)))  # fmt: skip
        constant = 0.5 * task.alpha * float((state.coef**2).sum()) + self.share @ there.sum(axis=1)
        gain, best = there - here, None
        wanted = divergence_prices(self.sizes(state.labels), task.entropy, slope=1.0)
        for _ in range(PRICE_TRIES if task.entropy else 1):
            prices = wanted
            labels = np.where(fixed, self.known, (fitted + prices).argmax(axis=1))
            if task.floor > 0 and self.sizes(labels).min() < task.floor * (1.0 - 1e-9):
                prices = wanted + floor_prices(
                    fitted + wanted, self.weights, task.floor, self.known
                )
                labels = np.where(fixed, self.known, (fitted + prices).argmax(axis=1))
            own = np.take_along_axis(gain, labels[:, None], axis=1)[:, 0]
            sizes = self.sizes(labels)
            value = float(constant - self.share @ own) + size_divergence(sizes, task.entropy)
            if best is None or value < best.objective:
                best = replace(state, labels=labels, prices=prices, objective=value)
            if value < (1.0 - LOWER) * state.objective:
                break
            wanted = 0.5 * (wanted + divergence_prices(sizes, task.entropy, slope=1.0))
        assert best is not None
        return best

    def descend(self, state: State, gap: float) -> State:
        """Solve and relabel in turn while F falls; at the end the labels are those of the model."""
        history, reason, settled = list(state.history), None, 0
        precise = max(gap, ON_THE_WAY)
        while reason is None:
            state = self.solve(state.labels, precise, warm=state.fit)
            found = self.relabelled(state)
            history.append(min(state.objective, found.objective))
            reason = self.task.watch(history[-1])
            if len(history) >= self.task.max_iter:
                reason = reason or MAX_ITER
            same = (found.labels == state.labels).all()
            if reason is None and (same or found.objective > (1.0 - LOWER) * state.objective):
                # The model's own labels, also if F rises by the rounding to whole rows.
                settled += 1
                near = found.objective <= (1.0 + 0.1 * COMPARED) * state.objective
                if precise <= gap and (near or settled > SETTLE_ROUNDS):
                    reason = CONVERGED
                precise = gap
            state = found
        return replace(state, history=history, reason=reason)

    def carried(self, state: State, local: Joint) -> State:
        """Return the model of a problem on fewer rows with the labels it gives to all."""
        if local is self:
            return state
        coef, bias = in_root_features(state.coef, state.bias, self.rows, local.rows)
        fixed = self.known >= 0
        found = scores(self.rows, coef) + bias + state.prices
        labels = np.where(fixed, self.known, found.argmax(axis=1))
        return State(labels, coef, bias, np.inf, state.prices)


def joint_search(
    rows: Rows,
    data: FitInput,
    task: Task,
    raw: RowSource | None,
    *,
    init: str,
    n_init: int | str,
    adapt: bool,
    rng: np.random.Generator,
) -> tuple[State, dict[str, Any]]:
    """Return the best state found, and how the k-means partition compares.

    k-means sees ``raw``, the rows before they were mapped, if there are such. ``adapt``: whether a
    preference for even sizes that is too weak for these rows is made stronger.
    """
    lowest = attrgetter("objective")
    whole = Joint(rows, data.weights, data.known, task)
    at = sampled_rows(data.known, SAMPLE_ROWS, rng)
    some = whole.part(at)
    points = some.rows.values() if raw is None else raw.take(at)
    near = named(kmeans(points, task.k, rng, some.weights)[0], some.known, some.weights, task.k)
    if adapt:
        cost = some.solve(near, OPENING).objective
        tau = strong_enough(task.entropy, task.k, cost)
        for problem in (whole, some):
            problem.task = replace(problem.task, entropy=tau)
    rivals = [near]
    if data.initial is not None:
        rivals.append(named(data.initial[at], some.known, some.weights, task.k))
        finalists = [some.solve(rivals[1], FOLLOWED)]
    else:
        within = sampled_rows(some.known, START_ROWS, rng)
        few = some.part(within)
        candidates = label_starts(
            few.rows, few.weights, task.k, rng, known=few.known,
            kmeans=near[within], init=init, n_init=n_init, floor=few.task.floor,
        )  # fmt: skip
        rough = [few.solve(labels, OPENING, "squared").objective for labels in candidates]
        ranked = [candidates[j] for j in np.argsort(rough, kind="stable")[:OPENED]]
        opened = sorted((few.solve(labels, OPENING) for labels in ranked), key=lowest)
        finalists = [some.carried(state, few) for state in opened[:FINALISTS]]
    best = min((some.descend(state, FOLLOWED) for state in finalists), key=lowest)
    best = some.descend(best, task.gap)
    for number, labels in enumerate(rivals):
        rival = some.solve(labels, COMPARED, above=best.objective)
        if number == 0:
            ari = float(adjusted_rand_score(best.labels, labels))
            compared = {"objective": rival.objective, "ari": ari}
        if rival.objective < best.objective:
            best = min(best, some.descend(rival, task.gap), key=lowest)
    if some is not whole:
        best = whole.descend(whole.carried(best, some), task.gap)
    extras = {"alpha_": task.alpha, "size_entropy_": whole.task.entropy}
    return best, {"compared_with_kmeans_": compared, **extras}
