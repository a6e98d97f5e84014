"""The search over labels on a similarity matrix, and the way from labels to a model.

Used by ``least_squares.py``; the compiled moves are in ``kernels/flips.py``.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import numpy as np

from ..kernels.flips import (
    claim,
    least_claim,
    make_scratch,
    shake_round,
    steepest_steps,
    stochastic_round,
)
from .descent import CONVERGED
from .similarity import Similarity

SHAKES = 21  # rounds i = 0 .. 20 of Algorithm 3
GENTLE = 2  # first round of a shake that starts from labels worth keeping: amplitude 1/4
ASCENT_ROUNDS = 100
STEEPEST_WORK = 1 << 24  # rows times clusters looked at in one compiled call: about 0.1 s
COARSE, FINE = (0.15, 0.5, 2.0), (0.15, 0.5, 0.8, 1.25, 2.0)  # steps in the size of a cluster


@dataclass(frozen=True)
class LabelProblem:
    """What the search over labels works on.

    Attributes
    ----------
    similarity : Similarity
    k : int
    targets : ndarray of shape (k,)
        Weights the clusters are pulled to.
    floor : float
        Least weight of a cluster.
    known : ndarray of shape (n,), int32
        Known label of each row, -1 where free.
    size_prior : float
        p in J_p: 0 is for clusters of equal size, 1 indifferent to sizes.
    """

    similarity: Similarity
    k: int
    targets: np.ndarray
    floor: float
    known: np.ndarray
    size_prior: float = 0.0

    @property
    def unit(self) -> float:
        """Least weight that a cluster claims."""
        return float(least_claim(self.similarity.weights))

    def value(self, labels: np.ndarray, caches: np.ndarray) -> float:
        """J_p = sum_h y_h' R y_h / n_h^p."""
        if self.size_prior == 0.0:
            return float(caches[labels, np.arange(len(labels))].sum(dtype=np.float64))
        sizes = np.bincount(labels, self.similarity.weights, minlength=self.k)
        within = sums_within(caches, labels)
        return float((within / np.maximum(sizes, 1e-300) ** self.size_prior)[sizes > 0].sum())

    def paper_value(self, value: float) -> float:
        """Q from J (a centred R has 1'R1 = 0); minus J_p / n^(1 - p) where sizes are tempered."""
        n, k = self.similarity.weights.sum(), self.k
        if self.size_prior > 0.0:
            return float(-value / n ** (1.0 - self.size_prior))
        whole = 0.0 if self.similarity.centred else float(self.similarity.matrix.sum(dtype=float))
        return float(n * k + (4 - k) * whole - 4 * value)


def sums_within(caches: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """y_h' R y_h of every cluster."""
    own = caches[labels, np.arange(len(labels))]
    return np.bincount(labels, own.astype(np.float64), minlength=len(caches))


@dataclass(frozen=True)
class SearchSettings:
    """How to search."""

    search: str
    n_kicks: int
    max_iter: int
    adaptive: bool
    rng: np.random.Generator
    watch: Callable[[float], str | None]
    n_jobs: int
    parallel: bool  # callbacks are told of iterations one after the other
    deadline: float | None = None  # on the monotonic clock: no start or kick begins after it

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


def search_labels(problem: LabelProblem, starts, settings: SearchSettings) -> Found:
    """Best labels over all starts, then kicks and adapted sizes."""

    def run(start):
        labels, first_round = start
        return _search_from(problem, labels, first_round, settings)

    if settings.deadline is not None:
        outcomes = [run(start) for i, start in enumerate(starts) if i == 0 or settings.in_time()]
    elif settings.n_jobs > 1 and len(starts) > 1 and settings.parallel:
        with ThreadPoolExecutor(settings.n_jobs) as pool:
            outcomes = list(pool.map(run, starts))
    else:
        outcomes = [run(start) for start in starts]
    best = max(outcomes, key=lambda found: found.value)
    for kick in range(settings.n_kicks):
        if not settings.in_time():
            break
        best = _kicked(problem, best, settings, kick)
    if settings.adaptive:
        best = adapted_sizes(problem, best, settings)
    ranked = sorted(outcomes, key=lambda found: -found.value)
    return replace(best, others=[found for found in ranked if found.value < best.value])


def _search_from(problem, labels, first_round, settings: SearchSettings) -> Found:
    arrays = _Arrays(problem, labels.copy())
    if settings.search == "shaking":
        return _shake(problem, arrays, first_round, settings.watch)
    history = []
    reason: str | None = "max_iter"
    for _ in range(settings.max_iter):
        moves = arrays.descend(settings.search)
        history.append(problem.paper_value(arrays.value()))
        reason = settings.watch(history[-1]) or (CONVERGED if moves == 0 else None)
        if reason is not None:
            break
    return Found(arrays.labels, arrays.value(), history, reason or "max_iter")


def _shake(problem, arrays, first_round, watch) -> Found:
    """Algorithm 3: claims that grow smaller, then empty clusters are filled again.

    Tempered sizes: then single rows move while J_p rises (Hartigan's ascent).
    """
    history = []
    for i in range(first_round, SHAKES):
        claimed = arrays.shake(0.5**i)
        history.append(problem.paper_value(arrays.value()))
        if watch(history[-1]) is not None or claimed == 0:
            break
    arrays.fill_small_clusters()
    history.append(problem.paper_value(arrays.value()))
    if problem.size_prior > 0.0:
        for _ in range(ASCENT_ROUNDS):
            moves = arrays.descend("stochastic")
            history.append(problem.paper_value(arrays.value()))
            if watch(history[-1]) is not None or moves == 0:
                break
    return Found(arrays.labels, arrays.value(), history)


def _kicked(problem, best: Found, settings: SearchSettings, number: int) -> Found:
    """Change the best labels, shake gently, keep the result if it is better.

    Where sizes are tempered, three kinds of change take turns, and each keeps the sizes it made.
    """
    change = _redealt if problem.size_prior == 0.0 else KICKS[number % len(KICKS)]
    labels, first_round = change(problem, best.labels.copy(), settings.rng)
    if problem.size_prior > 0.0:
        sizes = np.bincount(labels, problem.similarity.weights, minlength=problem.k)
        problem = replace(problem, targets=np.maximum(sizes, problem.floor).astype(np.float64))
    found = _shake(problem, _Arrays(problem, labels), first_round, settings.watch)
    if found.value <= best.value:
        return best
    return Found(found.labels, found.value, best.history + found.history)


def _redealt(problem, labels, rng, share=0.5) -> tuple[np.ndarray, int]:
    """The rows of two clusters dealt out to them at random, and the first round of shaking."""
    a, b = rng.choice(problem.k, 2, replace=False)
    return _dealt(problem, labels, (labels == a) | (labels == b), a, b, share, rng)


def _dealt(problem, labels, rows, a, b, share, rng) -> tuple[np.ndarray, int]:
    rows = np.flatnonzero(rows & (problem.known < 0))
    labels[rows] = np.where(rng.random(len(rows)) < share, a, b)
    return labels, GENTLE


def _kept(problem, labels, rng) -> tuple[np.ndarray, int]:
    """The same labels, to be shaken more or less."""
    return labels, int(rng.integers(2 * GENTLE + 1))


def _resplit(problem, labels, rng) -> tuple[np.ndarray, int]:
    """Two clusters re-dealt at a random proportion."""
    return _redealt(problem, labels, rng, rng.uniform(0.1, 0.9))


def _regrouped(problem, labels, rng) -> tuple[np.ndarray, int]:
    """Two clusters merged, a third one split in their place; of only two, these re-dealt."""
    if problem.k < 3:
        return _resplit(problem, labels, rng)
    a, b, c = rng.choice(problem.k, 3, replace=False)
    labels[(labels == b) & (problem.known < 0)] = a
    return _dealt(problem, labels, labels == c, c, b, 0.5, rng)


KICKS = (_kept, _regrouped, _resplit)


def predictive_score(problem: LabelProblem, labels: np.ndarray) -> float:
    """How well clusters are predicted by models that did not see the row, whatever their sizes.

    sum_h (1 - pi_h) R2_h with the leave-one-out R2 of each cluster's classifier: splitting one
    cloud in two costs more than it gains, and so does a cluster of a few odd rows.
    """
    share, fit = _predictive_fit(problem, labels)
    return float(((1.0 - share) * fit).sum())


def _predictive_fit(problem, labels) -> tuple[np.ndarray, np.ndarray]:
    """Share and leave-one-out R2 of every cluster."""
    similarity, k = problem.similarity, problem.k
    w = similarity.weights / similarity.weights.sum()
    loo = similarity.leave_one_out(similarity.caches(labels, k), labels)
    indicators = labels[:, None] == np.arange(k)
    share = w @ indicators
    error = w @ (indicators - loo) ** 2
    return share, 1.0 - error / np.maximum(share * (1.0 - share), 1e-12)


def _resized(problem: LabelProblem, cluster: int, factor: float) -> LabelProblem:
    """The problem with one target scaled, the others making up for it."""
    targets = problem.targets.copy()
    targets[cluster] *= factor
    targets *= problem.targets.sum() / targets.sum()
    return replace(problem, targets=np.maximum(targets, max(problem.floor, problem.unit)))


def adapted_sizes(problem, best: Found, settings, rounds=20, clusters=None, factors=FINE) -> Found:
    """Shrink or grow one size at a time, shake gently, keep what is predicted better.

    ``clusters`` limits the trials to those that are predicted worst.
    """
    score, history = predictive_score(problem, best.labels), list(best.history)
    for _ in range(rounds):
        trials = []
        for cluster in np.argsort(_predictive_fit(problem, best.labels)[1])[:clusters]:
            for factor in factors:
                trial = _resized(problem, cluster, factor)
                found = _shake(trial, _Arrays(trial, best.labels.copy()), GENTLE, settings.watch)
                trials.append((predictive_score(trial, found.labels), trial, found))
        top, trial, found = max(trials, key=lambda t: t[0])
        if top <= score + 1e-3:
            break
        score, problem, best = top, trial, found
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
        return shake_round(*self.shared, self.problem.targets, amplitude, self.scratch)

    def descend(self, search: str) -> int:
        if search == "stochastic":
            within, power = sums_within(self.caches, self.labels), self.problem.size_prior
            return stochastic_round(*self.shared, np.arange(len(self.labels)), within, power)
        # A few steps at a time: compiled code does not look for signals.
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


def random_labels(problem: LabelProblem, rng) -> np.ndarray:
    """Rows dealt out at random in proportion to the targets."""
    n = len(problem.known)
    bounds = np.cumsum(problem.targets) / problem.targets.sum()
    places = (np.arange(n) + 0.5) / n
    return np.searchsorted(bounds[:-1], places[rng.permutation(n)]).astype(np.int32)


def keep_known(labels: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Labels with the known ones put right."""
    return np.where(known >= 0, known, labels).astype(np.int32)


def supervised_labels(K, rows, problem: LabelProblem, ridge: float) -> np.ndarray:
    """Labels by least-squares classifiers of the labelled ``rows`` alone; K is (n, labelled)."""
    K = np.asarray(K, np.float64) / problem.similarity.scale
    targets = (problem.known[rows][:, None] == np.arange(problem.k)).astype(np.float64)
    coef = np.linalg.solve(K[rows] + ridge * np.eye(len(rows)), targets - targets.mean(axis=0))
    return keep_known((K @ coef).argmax(axis=1), problem.known)


def grown_labels(problem: LabelProblem, steps: int = 30) -> np.ndarray:
    """Clusters grow from the labelled rows: the rows that are surest of theirs join first."""
    labels, n = problem.known.copy(), len(problem.known)
    for count in np.geomspace(max((labels >= 0).sum(), 1), n, steps + 1)[1:].astype(int):
        sizes = np.bincount(labels[labels >= 0], minlength=problem.k)
        # Mean similarity to the members: a sum would favour the cluster that is ahead.
        scores = problem.similarity.caches(labels, problem.k).T / np.maximum(sizes, 1)
        ranked = np.sort(scores, axis=1)
        sure = ranked[:, -1] - ranked[:, -2] if problem.k > 1 else ranked[:, -1]
        free = np.flatnonzero(labels < 0)
        joining = free[np.argsort(-sure[free], kind="stable")][: max(count - n + len(free), 0)]
        labels[joining] = scores[joining].argmax(axis=1)
    return labels


def settle(problem: LabelProblem, labels: np.ndarray, rounds: int = 20):
    """Labels, caches and prices such that the model's predictions are the labels.

    The sizes that the search forces enter as prices on the clusters. Where no prices reproduce the
    labels, the predictions become the labels, and so on until they agree.
    """
    similarity = problem.similarity
    for _ in range(rounds):
        caches = similarity.caches(labels, problem.k)
        scores = similarity.fitted(caches, labels)
        prices = cluster_prices(scores, labels)
        new = keep_known((scores + prices).argmax(axis=1), problem.known)
        sizes = np.bincount(new, similarity.weights, minlength=problem.k)
        if (new == labels).all() or (sizes < max(problem.floor, 1e-12)).any():
            break
        labels = new
    return labels, caches, prices


def cluster_prices(scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Numbers b_h with which ``argmax_h scores + b`` gives the labels, near the middle of all such.

    b_a - b_d must be at least the largest lead of d over a among the rows of a; such differences
    have a solution unless they add up to something positive around a cycle. A few rows that make
    them do so are given up.

    Examples
    --------
    >>> scores = np.array([[1.0, 0.0], [0.4, 0.6], [0.0, 1.0]])
    >>> b = cluster_prices(scores, np.array([0, 0, 1]))
    >>> (scores + b).argmax(axis=1)
    array([0, 0, 1])
    """
    used = np.unique(labels)
    leads = scores - scores[np.arange(len(labels)), labels][:, None]
    prices = np.zeros(scores.shape[1])
    ordered = [np.sort(leads[labels == a], axis=0) for a in used]
    last = np.array([len(rows) - 1 for rows in ordered])
    tried: set[bytes] = set()
    for share in (1.0, 0.999, 0.99, 0.95, 0.9, 0.5):
        places = np.floor(share * last).astype(int)
        if places.tobytes() in tried:
            continue
        tried.add(places.tobytes())
        needed = np.stack([rows[place] for rows, place in zip(ordered, places)])
        among = needed[:, used]
        np.fill_diagonal(among, 0.0)
        longest = _longest_paths(among)
        if needed.max() <= 0:
            return prices
        if (np.diag(longest) <= 1e-12).all():
            prices[used] = _middle(longest)
            empty = np.setdiff1d(np.arange(len(prices)), used)
            prices[empty] = (prices[used][:, None] - needed[:, empty]).min(axis=0) - 1e-3
            return prices
    return prices


def _longest_paths(lengths: np.ndarray) -> np.ndarray:
    """Longest path between all pairs (Floyd & Warshall)."""
    longest = lengths.copy()
    for via in range(len(longest)):
        longest = np.maximum(longest, longest[:, via, None] + longest[None, via, :])
    return longest


def _middle(longest: np.ndarray) -> np.ndarray:
    """Mean of the extreme solutions b_a = D[a, r] and b_a = -D[r, a] over the references r."""
    solutions = np.concatenate([longest.T, -longest])
    return (solutions - solutions.mean(axis=1, keepdims=True)).mean(axis=0)


def lead_losses(scores: np.ndarray) -> np.ndarray:
    """Hinge loss of every row by the lead of its best score, as Crammer and Singer count it.

    Examples
    --------
    >>> lead_losses(np.array([[0.75, 0.25], [2.0, 0.0]]))
    array([0.5, 0. ])
    """
    return np.maximum(0.0, 1.0 - lead_of(scores, scores.argmax(axis=1)))


def lead_of(scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Own score minus the best other one, row by row.

    Examples
    --------
    >>> lead_of(np.array([[0.75, 0.25], [0.5, 0.25]]), np.array([0, 1]))
    array([ 0.5 , -0.25])
    """
    own = scores[np.arange(len(labels)), labels]
    others = scores.copy()
    others[np.arange(len(labels)), labels] = -np.inf
    return own - others.max(axis=1) if scores.shape[1] > 1 else own
