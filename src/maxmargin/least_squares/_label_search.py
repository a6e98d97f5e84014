"""The search over labels on a similarity matrix, and the way from labels to a model.

Used by ``least_squares.py``; the compiled moves are in ``least_squares/_numba.py``.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from .._core.descent import CONVERGED
from .._core.init import agreement
from .._core.links import Groups
from .._core.size_floor import cluster_prices, floor_prices
from .._threads import in_order
from ._numba import (
    claim,
    cluster_sums,
    least_claim,
    shake_round,
    steepest_steps,
    stochastic_round,
)
from ._similarity import Similarity

SHAKES = 21  # rounds i = 0 .. 20 of Algorithm 3
GENTLE = 2  # first round of shaking if the initial labels are good: amplitude 1/4
ASCENT_ROUNDS = 100
NO_LIMIT = 10**9
AT_ONCE = 6  # kicks of the same labels
TIGHT = 0.95  # share of its target size that a cluster may always fall to while it is shaken
SAME, REGROUPED, RESPLIT, N_KINDS = 0, 1, 2, 3  # perturbations of the best labels
STEEPEST_WORK = 1 << 24  # rows times clusters looked at in one compiled call: about 0.1 s
COARSE, FINE = (0.15, 0.5, 2.0), (0.15, 0.5, 0.8, 1.25, 2.0)  # steps in the size of a cluster


Watch = Callable[[float], str | None]


@dataclass(frozen=True)
class LabelProblem:
    """What the search over labels works on."""

    similarity: Similarity
    k: int
    targets: np.ndarray  # (k,): target weights of the clusters
    floor: float  # least weight of a cluster
    known: np.ndarray  # (n,): known label of each row, -1 where free
    size_prior: float = 0.0  # p in J_p: from 0 (equal sizes) to 1 (no preference)
    # constraints between rows, which ``_links.search_with_links`` respects
    links: Groups | None = None

    @property
    def unit(self) -> float:
        """Least weight that a cluster claims."""
        return float(least_claim(self.similarity.weights))

    def joint_moves(self, arrays: _Arrays) -> int:
        """Move several rows at once if J_p increases; returns the number of such moves."""
        return 0

    def value(self, labels: np.ndarray, caches: np.ndarray) -> float:
        """J_p = sum_h y_h' R y_h / n_h^p."""
        if self.size_prior == 0.0:
            return float(caches[labels, np.arange(len(labels))].sum(dtype=np.float64))
        within, sizes = cluster_sums(caches, labels, self.similarity.weights)
        return float((within / np.maximum(sizes, 1e-300) ** self.size_prior)[sizes > 0].sum())

    def paper_value(self, value: float) -> float:
        """Q from J (a centred R has 1'R1 = 0); minus J_p / n^(1 - p) where sizes are tempered."""
        n, k = self.similarity.weights.sum(), self.k
        if self.size_prior > 0.0:
            return float(-value / n ** (1.0 - self.size_prior))
        whole = (
            0.0
            if self.similarity.row_means is not None
            else float(self.similarity.matrix.sum(dtype=float))
        )
        return float(n * k + (4 - k) * whole - 4 * value)


def sums_within(caches: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """y_h' R y_h of every cluster."""
    within: np.ndarray = cluster_sums(caches, labels, np.broadcast_to(1.0, len(labels)))[0]
    return within


@dataclass(frozen=True)
class SearchSettings:
    """How to search."""

    search: str
    n_kicks: int
    max_iter: int
    adaptive: bool
    rng: np.random.Generator
    watch: Watch
    n_jobs: int
    parallel: bool  # callbacks are called for iterations in order
    deadline: float | None = None  # on the monotonic clock: no start or kick begins after it
    sized: bool = False  # the sizes of the clusters are given or adapted
    n_shakes: int = SHAKES
    cooling: float = 0.5  # factor of the amplitude after each round
    only_clear: bool = False  # give up unless the clusters are clear
    patience: int = NO_LIMIT  # kicks in a row without success

    def in_time(self) -> bool:
        """Whether there is time for another start or kick."""
        return self.deadline is None or time.monotonic() < self.deadline


@dataclass(frozen=True)
class Found:
    """Labels a search ended with, their J, and Q after each round."""

    labels: np.ndarray
    value: float
    history: list[float]
    stop_reason: str = CONVERGED
    others: list[Found] = field(default_factory=list)  # of other starts, best first


def search_labels(
    problem: LabelProblem, starts: list[tuple[np.ndarray, int]], settings: SearchSettings
) -> Found:
    """Best labels over all starts, then kicks and adapted sizes."""

    run = partial(_search_from, problem, settings)
    if settings.deadline is not None:
        outcomes = [run(start) for i, start in enumerate(starts) if i == 0 or settings.in_time()]
    else:
        outcomes = list(in_order(run, starts, settings.n_jobs if settings.parallel else 1))
    best = max(outcomes, key=lambda found: found.value)
    at_once, failed, kick = AT_ONCE if problem.size_prior > 0.0 else 1, 0, 0
    while kick < settings.n_kicks and settings.in_time() and failed < settings.patience:
        better = _kicked(
            problem, best, settings, range(kick, min(kick + at_once, settings.n_kicks))
        )
        failed = failed + at_once if better is best else 0
        best, kick = better, kick + at_once
    if settings.adaptive:
        best = adapted_sizes(problem, best, settings)
    ranked = sorted(outcomes, key=lambda found: -found.value)
    return replace(best, others=[found for found in ranked if found.value < best.value])


def promised(
    problem: LabelProblem, found: Found, rivals: list[np.ndarray], settings: SearchSettings
) -> tuple[Found, dict[str, dict[str, float]]]:
    """Return labels whose J is not below that of rival labels, and how the first rival compares.

    A better rival is improved by single moves. It is not taken if the labels found are not those of
    the largest J: those of given or adapted sizes, and of the paper's simpler algorithms.
    """
    largest = settings.search == "shaking" and not settings.sized
    values = []
    for labels in rivals:
        arrays = _Arrays(problem, labels.copy())
        values.append(arrays.value())
        if largest and arrays.value() > found.value:
            shaken = _shake(problem, _Arrays(problem, labels.copy()), GENTLE, settings)
            moved = _ascended(problem, arrays, settings.watch, [])
            better = max(shaken, moved, key=lambda other: other.value)
            found = replace(better, history=found.history + better.history, others=found.others)
    compared = {
        "objective": problem.paper_value(values[0]),
        "ari": agreement(found.labels, rivals[0], problem.k),
    }
    return found, {"compared_with_kmeans_": compared}


def _search_from(
    problem: LabelProblem, settings: SearchSettings, start: tuple[np.ndarray, int]
) -> Found:
    labels, first_round = start
    arrays = _Arrays(problem, labels.copy())
    if settings.search == "shaking":
        return _shake(problem, arrays, first_round, settings)
    history = []
    reason: str | None = "max_iter"
    for _ in range(settings.max_iter):
        moves = arrays.descend(settings.search)
        history.append(problem.paper_value(arrays.value()))
        reason = settings.watch(history[-1]) or (CONVERGED if moves == 0 else None)
        if reason is not None:
            break
    return Found(arrays.labels, arrays.value(), history, reason or "max_iter")


def _shake(
    problem: LabelProblem, arrays: _Arrays, first_round: int, settings: SearchSettings
) -> Found:
    """Algorithm 3: clusters claim fewer and fewer rows, then empty clusters are filled again.

    With ``size_prior`` > 0, single rows are then moved while J_p increases (Hartigan's method).
    """
    history: list[float] = []
    watch, amplitude = settings.watch, 0.5**first_round
    for _ in range(settings.n_shakes - first_round if first_round < SHAKES else 0):
        claimed = arrays.shake(amplitude)
        amplitude *= settings.cooling
        history.append(problem.paper_value(arrays.value()))
        if watch(history[-1]) is not None or claimed == 0:
            break
    arrays.fill_small_clusters()
    history.append(problem.paper_value(arrays.value()))
    if problem.size_prior > 0.0:
        return _ascended(problem, arrays, watch, history)
    return Found(arrays.labels, arrays.value(), history)


def _ascended(problem: LabelProblem, arrays: _Arrays, watch: Watch, history: list[float]) -> Found:
    """Move single rows while J_p increases."""
    for _ in range(ASCENT_ROUNDS):
        moves = arrays.descend("stochastic") or problem.joint_moves(arrays)
        history.append(problem.paper_value(arrays.value()))
        if watch(history[-1]) is not None or moves == 0:
            break
    return Found(arrays.labels, arrays.value(), history)


def _kicked(problem: LabelProblem, best: Found, settings: SearchSettings, numbers: range) -> Found:
    """Perturb the best labels, shake with a small amplitude, and keep the best improvement.

    With ``size_prior`` > 0, three kinds of perturbation alternate, and each keeps its sizes.
    """
    tempered = problem.size_prior > 0.0
    kinds = [number % N_KINDS if tempered else RESPLIT for number in numbers]
    drawn = [perturbed(problem, best.labels.copy(), settings.rng, kind) for kind in kinds]

    def shaken(start: tuple[np.ndarray, int]) -> Found:
        labels, first_round = start
        own = problem
        if tempered:
            sizes = np.bincount(labels, problem.similarity.weights, minlength=problem.k)
            own = replace(problem, targets=np.maximum(sizes, problem.floor).astype(np.float64))
        return _shake(own, _Arrays(own, labels), first_round, settings)

    n_jobs = settings.n_jobs if settings.parallel else 1
    found = max(in_order(shaken, drawn, n_jobs), key=lambda found: found.value)
    if found.value <= best.value:
        return best
    return Found(found.labels, found.value, best.history + found.history)


def perturbed(
    problem: LabelProblem, labels: np.ndarray, rng: np.random.Generator, kind: int
) -> tuple[np.ndarray, int]:
    """Return changed labels and the first round of shaking.

    SAME: the labels as they are, shaken by a random amplitude. REGROUPED: two clusters are merged
    and a third one is split. RESPLIT: the rows of two clusters are dealt out anew, in a random
    proportion if sizes are tempered.
    """
    if kind == SAME:
        return labels, int(rng.integers(2 * GENTLE + 1))
    free = problem.known < 0
    if kind == REGROUPED and problem.k > 2:
        a, b, c = rng.choice(problem.k, 3, replace=False)
        labels[(labels == b) & free] = a
        a, rows, share = c, labels == c, 0.5
    else:
        share = rng.uniform(0.1, 0.9) if problem.size_prior > 0.0 else 0.5
        a, b = rng.choice(problem.k, 2, replace=False)
        rows = (labels == a) | (labels == b)
    rows = np.flatnonzero(rows & free)
    labels[rows] = np.where(rng.random(len(rows)) < share, a, b)
    return labels, GENTLE


def predictive_fit(problem: LabelProblem, labels: np.ndarray) -> tuple[float, np.ndarray]:
    """Return sum_h (1 - pi_h) R2_h, and the leave-one-out R2 of each cluster's classifier.

    The sum decreases if one cloud is split in two, and if a few outliers form a cluster.
    """
    similarity, k = problem.similarity, problem.k
    w = similarity.weights / similarity.weights.sum()
    loo = similarity.leave_one_out(similarity.caches(labels, k), labels)
    indicators = labels[:, None] == np.arange(k)
    share = w @ indicators
    error = w @ (indicators - loo) ** 2
    fit = 1.0 - error / np.maximum(share * (1.0 - share), 1e-12)
    return float(((1.0 - share) * fit).sum()), fit


def adapted_sizes(
    problem: LabelProblem,
    best: Found,
    settings: SearchSettings,
    rounds: int = 20,
    clusters: int | None = None,
    factors: tuple[float, ...] = FINE,
) -> Found:
    """Change one target size at a time and keep it if the leave-one-out score increases.

    ``clusters`` limits the trials to the clusters with the lowest leave-one-out R2.
    """
    (score, fit), history = predictive_fit(problem, best.labels), list(best.history)
    least = max(problem.floor, problem.unit)
    for _ in range(rounds):
        trials = []
        for cluster in np.argsort(fit)[:clusters]:
            for factor in factors:
                targets = problem.targets * np.where(np.arange(problem.k) == cluster, factor, 1.0)
                targets *= problem.targets.sum() / targets.sum()
                trial = replace(problem, targets=np.maximum(targets, least))
                found = _shake(trial, _Arrays(trial, best.labels.copy()), GENTLE, settings)
                trials.append((*predictive_fit(trial, found.labels), trial, found))
        top, top_fit, trial, found = max(trials, key=lambda t: t[0])
        if top <= score + 1e-3:
            break
        score, fit, problem, best = top, top_fit, trial, found
        history += found.history
    return Found(best.labels, best.value, history)


class _Arrays:
    """Labels, caches and sizes of one search, changed in place by the compiled functions."""

    def __init__(self, problem: LabelProblem, labels: np.ndarray):
        similarity = problem.similarity
        self.problem = problem
        self.labels = labels
        self.caches = similarity.caches(labels, problem.k)
        self.fixed = problem.known >= 0
        assigned = labels >= 0
        self.sizes = np.bincount(
            labels[assigned], similarity.weights[assigned], minlength=problem.k
        ).astype(np.float64)
        self.scratch = make_scratch(len(labels), similarity.matrix.dtype)
        self.shared = (
            similarity.matrix, self.caches, labels, self.sizes, similarity.weights, self.fixed,
            problem.floor,
        )  # fmt: skip

    def value(self) -> float:
        return self.problem.value(self.labels, self.caches)

    def shake(self, amplitude: float) -> int:
        problem = self.problem
        # No cluster could give up a row at a floor that equals its target; it gets others back.
        tight = problem.floor > TIGHT * problem.targets.min()
        floor = TIGHT * problem.targets.min() if tight else problem.floor
        return int(shake_round(*self.shared[:-1], floor, problem.targets, amplitude, self.scratch))

    def descend(self, search: str) -> int:
        if search == "stochastic":
            within, power = sums_within(self.caches, self.labels), self.problem.size_prior
            order = np.arange(len(self.labels))
            return int(stochastic_round(*self.shared, order, within, power))
        # A few steps at a time: compiled code does not check for signals.
        n, done = len(self.labels), 0
        some = max(1, STEEPEST_WORK // (n * self.problem.k))
        while done < n:
            steps = steepest_steps(*self.shared, self.scratch, 1e-9, min(some, n - done))
            done += steps
            if steps < some:
                break
        return done

    def fill_small_clusters(self) -> None:
        """A cluster below the floor (or empty) claims its target again."""
        unit = self.problem.unit
        least = max(self.problem.floor, unit) - 1e-9 * unit
        for _ in range(self.problem.k):
            small = np.flatnonzero(self.sizes < least)
            if len(small) == 0:
                return
            for d in small:
                amount = self.problem.targets[d] - self.sizes[d]
                claim(*self.shared, d, max(amount, unit), self.scratch)


def make_scratch(n: int, dtype: Any) -> tuple[np.ndarray, np.ndarray]:
    """Work space of the searches: the barrier, and how floats are ordered by their bits."""
    whole = np.int32 if np.dtype(dtype).itemsize == 4 else np.int64
    sign = 8 * np.dtype(dtype).itemsize - 1
    return np.empty(n, dtype), np.array([sign, 2**sign - 1], whole)


def random_labels(problem: LabelProblem, rng: np.random.Generator) -> np.ndarray:
    """Return random labels in proportion to the targets."""
    n = len(problem.known)
    bounds = np.cumsum(problem.targets) / problem.targets.sum()
    places = (np.arange(n) + 0.5) / n
    return np.searchsorted(bounds[:-1], places[rng.permutation(n)]).astype(np.int32)


def keep_known(labels: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Return labels with the known ones restored."""
    return np.where(known >= 0, known, labels).astype(np.int32)


def supervised_labels(
    K: np.ndarray, rows: np.ndarray, problem: LabelProblem, ridge: float
) -> np.ndarray:
    """Labels by least-squares classifiers of the labelled ``rows`` alone; K is (n, labelled)."""
    K = np.asarray(K, np.float64) / problem.similarity.scale
    targets = (problem.known[rows][:, None] == np.arange(problem.k)).astype(np.float64)
    coef = np.linalg.solve(K[rows] + ridge * np.eye(len(rows)), targets - targets.mean(axis=0))
    return keep_known((K @ coef).argmax(axis=1), problem.known)


def grown_labels(problem: LabelProblem, steps: int = 30) -> np.ndarray:
    """Grow clusters from the labelled rows; rows with the largest margins join first."""
    labels, n = problem.known.copy(), len(problem.known)
    for count in np.geomspace(max((labels >= 0).sum(), 1), n, steps + 1)[1:].astype(int):
        sizes = np.bincount(labels[labels >= 0], minlength=problem.k)
        # The mean similarity to the members: a sum would favour large clusters.
        scores = problem.similarity.caches(labels, problem.k).T / np.maximum(sizes, 1)
        ranked = np.sort(scores, axis=1)
        sure = ranked[:, -1] - ranked[:, -2] if problem.k > 1 else ranked[:, -1]
        free = np.flatnonzero(labels < 0)
        joining = free[np.argsort(-sure[free], kind="stable")][: max(count - n + len(free), 0)]
        labels[joining] = scores[joining].argmax(axis=1)
    return labels


def settle(
    problem: LabelProblem, labels: np.ndarray, rounds: int = 20, keep: bool = False
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return labels, caches and prices such that the model predicts the labels.

    The size constraints of the search become prices of the clusters. If no prices reproduce the
    labels, the predictions replace the labels until both agree, or the prices keep the floor. With
    ``keep`` the model of the given labels is taken, whatever it predicts.
    """
    similarity = problem.similarity
    for _ in range(rounds):
        caches = similarity.caches(labels, problem.k)
        scores = similarity.fitted(caches, labels)
        prices = cluster_prices(scores, labels)
        new = keep_known((scores + prices).argmax(axis=1), problem.known)
        sizes = np.bincount(new, similarity.weights, minlength=problem.k)
        if keep or (new == labels).all():
            break
        if (sizes < max(problem.floor, 1e-12)).any():
            least = max(problem.floor, problem.unit)
            prices = floor_prices(scores, similarity.weights, least, problem.known)
            break
        labels = new
    return labels, caches, prices
