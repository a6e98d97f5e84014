"""The search over labels on a similarity matrix; its compiled moves are in ``_numba.py``."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from .._core.dedup import FitInput
from .._core.descent import CONVERGED, MAX_ITER
from .._core.init import agreement
from .._core.links import Groups
from .._core.size_floor import cluster_prices, floor_prices, size_floor
from .._threads import in_order
from ._numba import (
    claim,
    cluster_sums,
    least_claim,
    shake_round,
    steepest_steps,
    stochastic_round,
    submatrix,
    tempered_value,
)
from ._settings import Settings
from ._similarity import Similarity

SHAKES = 21  # rounds i = 0 .. 20 of Algorithm 3
GENTLE = 2  # first round of shaking if the initial labels are good: amplitude 1/4
ASCENT_ROUNDS = 100
NO_LIMIT = 10**9
TEMPERED_KICKS, PATIENCE = 24, 12  # the search ends after four in a row of each kind that fail
AT_ONCE = 6  # kicks of the same labels
TIGHT = 0.95  # share of its target size that a cluster may always fall to while it is shaken
SAME, REGROUPED, RESPLIT, N_KINDS = 0, 1, 2, 3  # perturbations of the best labels
STEEPEST_WORK = 1 << 24  # rows times clusters looked at in one compiled call: about 0.1 s
COARSE, FINE = (0.15, 0.5, 2.0), (0.15, 0.5, 0.8, 1.25, 2.0)  # steps in the size of a cluster
POWER_STEPS, SPLIT_ROUNDS = 8, 10  # of a cluster in two
SETTLE_ROUNDS = 20
TRIES = 3  # regroupings tried in a row without success
MIN_GAIN = 1e-6  # of J

Watch = Callable[[float], str | None]
Halves = dict[bytes, tuple[float, np.ndarray]]  # by the rows of the cluster


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

    def joint_moves(self, state: Labelling) -> int:
        """Move several rows at once if J_p increases; returns the number of such moves."""
        return 0


def label_problem(
    similarity: Similarity, known: np.ndarray, data: FitInput, s: Settings
) -> LabelProblem:
    """Return the objective of the search, with its constraints on sizes."""
    total, k, given = similarity.weights.sum(), s.n_clusters, s.cluster_sizes
    targets = np.full(k, total / k)  # shares of known labels are no targets
    if given is not None and not isinstance(given, str):
        sizes, n = np.asarray(given, np.float64), data.weights.sum()
        if sizes.shape != (k,) or not np.isfinite(sizes).all() or (sizes <= 0).any():
            raise ValueError(
                f"cluster_sizes must be {k} positive numbers, one per cluster; got {given!r}."
            )
        if abs(sizes.sum() - 1.0) > 1e-6 and abs(sizes.sum() - n) > 1e-6 * n:
            raise ValueError(
                f"cluster_sizes must add up to the number of rows ({n:g}) or, as proportions, to "
                f"1; they add up to {sizes.sum():g}."
            )
        targets = np.asarray(total * sizes / sizes.sum())
    floor = size_floor(s.balance, total, k, data.whole)
    if (targets < floor - 1e-9).any():
        floor = float(targets.min())
    return LabelProblem(similarity, k, targets, floor, known.astype(np.int32), s.size_priors[0])


@dataclass(frozen=True)
class SearchSettings:
    """How to search."""

    s: Settings
    n_kicks: int
    rng: np.random.Generator
    watch: Watch
    n_jobs: int
    deadline: float | None = None  # on the monotonic clock: no start or kick begins after it
    patience: int = NO_LIMIT  # kicks in a row without success

    def in_time(self) -> bool:
        """Whether there is time for another start or kick."""
        return self.deadline is None or time.monotonic() < self.deadline


def search_settings(s: Settings, data: FitInput, began: float) -> SearchSettings:
    """Return the settings of the search."""
    kicks, budget = s.n_kicks, s.time_budget if s.search == "shaking" else None
    if kicks == "auto":
        few = TEMPERED_KICKS if s.tempered else s.n_clusters // 2 * (s.n_clusters > 2)
        kicks = few if budget is None else NO_LIMIT
    return SearchSettings(
        s,
        n_kicks=kicks if s.search == "shaking" and s.n_clusters > 1 else 0,
        # With links, half of the time is for the search that respects them.
        deadline=None if budget is None else began + budget * (1.0 if data.links is None else 0.5),
        rng=data.rng,
        watch=data.watch,
        # Callbacks are called for iterations in order.
        n_jobs=data.n_jobs if getattr(data.watch, "context", None) is None else 1,
        patience=PATIENCE if s.tempered and kicks == TEMPERED_KICKS else NO_LIMIT,
    )


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
    run = partial(_search_from, settings)
    tasks = [(problem, *start) for start in starts]
    outcomes: list[Found]
    if settings.deadline is None:
        outcomes = list(in_order(run, tasks, settings.n_jobs))
    else:
        outcomes = [run(task) for i, task in enumerate(tasks) if i == 0 or settings.in_time()]
    best = max(outcomes, key=lambda found: found.value)
    at_once, failed, kick = AT_ONCE if problem.size_prior > 0.0 else 1, 0, 0
    while kick < settings.n_kicks and settings.in_time() and failed < settings.patience:
        numbers = range(kick, min(kick + at_once, settings.n_kicks))
        better = _kicked(problem, best, settings, numbers)
        failed = failed + at_once if better is best else 0
        best, kick = better, kick + at_once
    if isinstance(settings.s.cluster_sizes, str):
        best = adapted_sizes(problem, best, settings)
    ranked = sorted(outcomes, key=lambda found: -found.value)
    return replace(best, others=[found for found in ranked if found.value < best.value])


def promised(
    problem: LabelProblem, found: Found, rivals: list[np.ndarray], settings: SearchSettings,
    kept: bool = False,
) -> tuple[Found, dict[str, dict[str, float]]]:  # fmt: skip
    """Return labels whose J is not below that of rival labels, and how the first rival compares.

    A better rival is improved by single moves. It is not taken if the labels found are not those of
    the largest J: those of given or adapted sizes, those of the paper's simpler algorithms, and
    those that are ``kept``.
    """
    largest = settings.s.search == "shaking" and settings.s.cluster_sizes is None and not kept
    objectives = []
    for labels in rivals:
        state = Labelling(problem, labels.copy())
        objectives.append(state.objective())
        if largest and state.value() > found.value:
            shaken = _shake(Labelling(problem, labels.copy()), GENTLE, settings)
            moved = _ascended(state, settings.watch, [])
            better = max(shaken, moved, key=lambda other: other.value)
            found = replace(better, history=found.history + better.history, others=found.others)
    ari = agreement(found.labels, rivals[0], problem.k)
    return found, {"compared_with_kmeans_": {"objective": objectives[0], "ari": ari}}


def with_labels(problem: LabelProblem, found: Found, labels: np.ndarray) -> Found:
    """Return the search with other labels as its result."""
    state = Labelling(problem, labels)
    history = [*found.history, state.objective()]
    return replace(found, labels=labels, value=state.value(), history=history)


def _search_from(settings: SearchSettings, task: tuple[LabelProblem, np.ndarray, int]) -> Found:
    problem, labels, first_round = task
    state = Labelling(problem, labels.copy())
    if settings.s.search == "shaking":
        return _shake(state, first_round, settings)
    history = []
    reason: str | None = None
    for _ in range(settings.s.max_iter):
        moves = state.descend(settings.s.search)
        history.append(state.objective())
        reason = settings.watch(history[-1]) or (CONVERGED if moves == 0 else None)
        if reason is not None:
            break
    return Found(state.labels, state.value(), history, reason or MAX_ITER)


def _shake(state: Labelling, first_round: int, settings: SearchSettings) -> Found:
    """Algorithm 3: clusters claim fewer and fewer rows, then empty clusters are filled again.

    With ``size_prior`` > 0, single rows are then moved while J_p increases (Hartigan's method).
    """
    history: list[float] = []
    watch, amplitude = settings.watch, 0.5**first_round
    for _ in range(settings.s.n_shakes - first_round if first_round < SHAKES else 0):
        claimed = state.shake(amplitude)
        amplitude *= settings.s.cooling
        history.append(state.objective())
        if watch(history[-1]) is not None or claimed == 0:
            break
    state.fill_small_clusters()
    history.append(state.objective())
    if state.problem.size_prior > 0.0:
        return _ascended(state, watch, history)
    return Found(state.labels, state.value(), history)


def _ascended(state: Labelling, watch: Watch, history: list[float]) -> Found:
    """Move single rows while J_p increases."""
    for _ in range(ASCENT_ROUNDS):
        moves = state.descend("stochastic") or state.problem.joint_moves(state)
        history.append(state.objective())
        if watch(history[-1]) is not None or moves == 0:
            break
    return Found(state.labels, state.value(), history)


def _kicked(problem: LabelProblem, best: Found, settings: SearchSettings, numbers: range) -> Found:
    """Perturb the best labels, shake with a small amplitude, and keep the best improvement.

    With ``size_prior`` > 0, three kinds of perturbation alternate, and each keeps its sizes.
    """
    tasks = []
    for number in numbers:
        own, kind = problem, number % N_KINDS if problem.size_prior > 0.0 else RESPLIT
        labels, first_round = perturbed(problem, best.labels.copy(), settings.rng, kind)
        if problem.size_prior > 0.0:
            sizes = np.bincount(labels, problem.similarity.weights, minlength=problem.k)
            own = replace(problem, targets=np.maximum(sizes, problem.floor).astype(np.float64))
        tasks.append((own, labels, first_round))
    outcomes = in_order(partial(_search_from, settings), tasks, settings.n_jobs)
    found: Found = max(outcomes, key=lambda found: found.value)
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
    problem: LabelProblem, best: Found, settings: SearchSettings, rounds: int = 20,
    clusters: int | None = None, factors: tuple[float, ...] = FINE,
) -> Found:  # fmt: skip
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
                found = _search_from(settings, (trial, best.labels, GENTLE))
                trials.append((*predictive_fit(trial, found.labels), trial, found))
        top, top_fit, trial, found = max(trials, key=lambda t: t[0])
        if top <= score + 1e-3:
            break
        score, fit, problem, best = top, top_fit, trial, found
        history += found.history
    return Found(best.labels, best.value, history)


class Labelling:
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
        """J_p = sum_h y_h' R y_h / n_h^p."""
        labels, caches, p = self.labels, self.caches, self.problem.size_prior
        if p == 0.0:
            return float(caches[labels, np.arange(len(labels))].sum(dtype=np.float64))
        return float(tempered_value(caches, labels, self.problem.similarity.weights, p))

    def objective(self) -> float:
        """Q from J (a centred R has 1'R1 = 0); minus J_p / n^(1 - p) where sizes are tempered."""
        R, k, p = self.problem.similarity, self.problem.k, self.problem.size_prior
        n, value = R.weights.sum(), self.value()
        if p > 0.0:
            return float(-value / n ** (1.0 - p))
        whole = 0.0 if R.row_means is not None else float(R.matrix.sum(dtype=float))
        return float(n * k + (4 - k) * whole - 4 * value)

    def shake(self, amplitude: float) -> int:
        """Do one round of Algorithm 3 and return the number of rows claimed."""
        problem = self.problem
        # No cluster could give up a row at a floor that equals its target; it gets others back.
        tight = problem.floor > TIGHT * problem.targets.min()
        floor = TIGHT * problem.targets.min() if tight else problem.floor
        return int(shake_round(*self.shared[:-1], floor, problem.targets, amplitude, self.scratch))

    def descend(self, search: str) -> int:
        """Do one round of Algorithm 1, or all steps of Algorithm 2; return the number of moves."""
        if search == "stochastic":
            within = cluster_sums(self.caches, self.labels, self.problem.similarity.weights)[0]
            order, power = np.arange(len(self.labels)), self.problem.size_prior
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
    size = np.dtype(dtype).itemsize
    sign = 8 * size - 1
    return np.empty(n, dtype), np.array([sign, 2**sign - 1], f"i{size}")


def keep_known(labels: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Return labels with the known ones restored."""
    return np.where(known >= 0, known, labels).astype(np.int32)


def settle(
    problem: LabelProblem, labels: np.ndarray, rounds: int = SETTLE_ROUNDS
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return labels, caches and prices such that the model predicts the labels.

    The size constraints of the search become prices of the clusters. If no prices reproduce the
    labels, the predictions replace the labels until both agree, or the prices keep the floor; after
    the last round, whatever the model of the labels predicts.
    """
    similarity = problem.similarity
    for left in reversed(range(rounds)):
        caches = similarity.caches(labels, problem.k)
        scores = similarity.fitted(caches, labels)
        prices = cluster_prices(scores, labels)
        new = keep_known((scores + prices).argmax(axis=1), problem.known)
        sizes = np.bincount(new, similarity.weights, minlength=problem.k)
        if left == 0 or (new == labels).all():
            break
        if (sizes < max(problem.floor, 1e-12)).any():
            least = max(problem.floor, problem.unit)
            prices = floor_prices(scores, similarity.weights, least, problem.known)
            break
        labels = new
    return labels, caches, prices


# -- regrouping ------------------------------------------------------------------------------------


def regrouped(problem: LabelProblem, best: Found, settings: SearchSettings) -> Found:
    """Split the cluster that gains most by it and merge the two that lose least, while it helps.

    Single moves cannot turn one of two merged clusters and two halves of another into three. Both
    changes of J_p = sum_h J_h, J_h = y_h' R y_h / n_h^p, are known in advance: that of a merger
    from the sums y_a' R y_b, that of a split from a search over the rows of the cluster alone.
    """
    if problem.k < 3 or (problem.known >= 0).any():  # numbers of clusters would be swapped
        return best
    halves: Halves = {}
    n_jobs, watch = settings.n_jobs, settings.watch
    for _ in range(4 * problem.k):
        tried = _regroupings(problem, best.labels, halves, n_jobs)
        moved = in_order(
            lambda new: _ascended(Labelling(problem, new), watch, []), tried, n_jobs, ahead=1
        )
        for found in moved:
            if found.value > best.value * (1.0 + MIN_GAIN):
                best = replace(found, history=best.history + found.history)
                break
            if not settings.in_time():
                return best
        else:
            break
    return best


def _regroupings(
    problem: LabelProblem, labels: np.ndarray, halves: Halves, n_jobs: int
) -> Iterator[np.ndarray]:
    """Yield labels after the most promising pairs of a split and a merger."""
    k, p, weights = problem.k, problem.size_prior, problem.similarity.weights
    caches = problem.similarity.caches(labels, k)
    sums = np.stack([caches[:, labels == h].sum(axis=1, dtype=np.float64) for h in range(k)])
    sizes = np.bincount(labels, weights, minlength=k)
    if sizes.min() <= 0:  # equal rows can leave a cluster empty
        return
    own = np.diag(sums) / sizes**p
    together = np.diag(sums)[:, None] + np.diag(sums) + sums + sums.T
    loss = own[:, None] + own - together / (sizes[:, None] + sizes) ** p
    loss[np.tril_indices(k)] = np.inf
    members = [np.flatnonzero(labels == h) for h in range(k)]
    new = [rows for rows in members if rows.tobytes() not in halves]
    for rows, found in zip(new, in_order(partial(_halves, problem), new, n_jobs)):
        halves[rows.tobytes()] = found
    split = [halves[rows.tobytes()] for rows in members]
    gains = np.array([value for value, _ in split]) - own
    parts = [rows[half] for rows, (_, half) in zip(members, split)]
    pairs = np.column_stack(np.unravel_index(np.argsort(loss, axis=None)[: 2 * TRIES], (k, k)))
    pairs_of = [
        (gains[c] - loss[a, b], c, a, b)
        for a, b in pairs
        for c in range(k)
        if c not in (a, b) and a < b and np.isfinite(gains[c])
    ]
    for _, c, a, b in sorted(pairs_of, reverse=True)[:TRIES]:
        changed = labels.copy()
        changed[labels == b] = a
        changed[parts[c]] = b
        yield changed


def _halves(problem: LabelProblem, rows: np.ndarray) -> tuple[float, np.ndarray]:
    """Return J_p of the best two parts of these rows, and the mask of the second."""
    whole = problem.similarity
    weights, n = whole.weights[rows], len(rows)
    floor = max(problem.floor, problem.unit)
    if weights.sum() < 2.0 * floor + weights.max() or n < 4:
        return -np.inf, np.zeros(n, bool)
    matrix = submatrix(whole.matrix, rows)
    part = replace(
        problem,
        similarity=replace(whole, matrix=matrix, weights=weights),
        k=2,
        targets=np.full(2, weights.sum() / 2),
        known=problem.known[rows],
    )
    labels = _two_sides(matrix, weights)
    if np.bincount(labels, weights, minlength=2).min() < floor:
        return -np.inf, np.zeros(n, bool)
    state = Labelling(part, labels)
    for _ in range(SPLIT_ROUNDS):
        if state.descend("stochastic") == 0:
            break
    return state.value(), state.labels == 1


def _two_sides(matrix: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Labels by the sign of the leading eigenvector of the matrix, centred on its rows."""
    q = np.sqrt(weights / weights.sum()).astype(matrix.dtype)
    v = np.linspace(-1.0, 1.0, len(q), dtype=matrix.dtype)
    v = np.sin(7.0 * np.arange(len(q), dtype=matrix.dtype)) + v
    for _ in range(POWER_STEPS):
        v -= (q @ v) * q
        v /= max(np.linalg.norm(v), np.finfo(v.dtype).tiny)
        v = matrix @ v
    v -= (q @ v) * q
    return np.asarray(v > 0, np.int32)
