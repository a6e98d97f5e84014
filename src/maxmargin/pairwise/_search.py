"""CCCP on a problem with links, its initialisations, and the cross-validation of alpha."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
from scipy import linalg
from scipy.optimize import linear_sum_assignment
from sklearn.exceptions import ConvergenceWarning

from .._core.descent import Outcome, descend
from .._core.init import agreement, canonical, kmeans
from .._core.links import Links
from .._core.rows import scores
from .._core.size_floor import floor_prices
from ._problem import Linearisation, PairProblem, solve_bundle, solve_subgradient

ALPHAS = (0.1, 0.03, 0.01, 0.003, 0.001)
DEFAULT_ALPHA = 0.01  # where there are too few links to cross-validate
ANNEAL_FROM = 0.01  # weaker regularisers are reached from here: see ``Search._followed``
FOLDS = 3
LEAST_ITEMS = 10  # fewer held-out links say nothing of alpha
ENOUGH_ITEMS, MOST_REPEATS = 300, 2  # fewer links than this are dealt into folds several times
START_ROWS = 2000  # rows for k-means, and for comparing starts where links do not suffice
ROUGH_TOL, ROUGH_SOLVER_TOL = 0.01, 0.001  # of the descents that are only compared: the defaults
COMPARED = 1e-3  # gap to which the model of the k-means partition is solved
LITERAL_STEPS = 3  # steps of Algorithm 1 with delta = 0
SHRINKAGE = (0.1, 0.01)  # of the scatter of must-links, in mean eigenvalues
LITERAL = 1e-8  # the paper's inverse of S_m, as far as it exists


def parted(problem: PairProblem) -> bool:
    """Return whether cannot-links or known classes separate the clusters."""
    return not problem.links.same.all() or len(np.unique(problem.known)) > 1


@dataclass(frozen=True)
class State:
    """A model, the linearisation at it, and the number of passes."""

    coef: np.ndarray
    offset: np.ndarray
    scores: np.ndarray
    at: Linearisation
    value: float = np.inf
    convex_value: float = np.nan
    passes: int = 0
    solved: bool = True


@dataclass(frozen=True)
class Stage:
    """CCCP on one problem: Algorithm 1 without its schedule.

    ``floor`` is the minimum weight of a cluster (0: none), enforced by the intercepts.
    """

    problem: PairProblem
    solver: str
    tol: float
    rng: np.random.Generator
    floor: float = 0.0

    def init(self, start: Start) -> State:
        """Return the state of an initialisation; only its linearisation is used, not its scale."""
        S = self.problem.scores(start.coef) + start.intercept
        at = self.problem.linearise(S + self._prices(S))
        return State(np.zeros_like(start.coef), np.zeros(self.problem.k), np.zeros_like(S), at)

    def hold(self, labels: np.ndarray, above: float) -> State:
        """Return the best model for labels that are held; it is not solved far ``above`` a value.

        ``convex_value`` is the objective of the labels. If its intercepts must keep the floor in
        what the model predicts, that is counted.
        """
        problem = self.problem
        at = problem.linearise((labels[:, None] == np.arange(problem.k)).astype(np.float64))
        zero = np.zeros((problem.k, problem.rows.shape[1]))
        found = solve_bundle(problem, at, zero, problem.scores(zero), tol=COMPARED, above=above)
        new = self.resume(found.coef, found.scores)
        value = max(found.value, new.value) if new.offset.any() else found.value
        return replace(new, convex_value=value, passes=found.passes)

    def step(self, state: State) -> State:
        """Solve the convex problem and linearise at its solution."""
        problem = replace(self.problem, offset=state.offset)
        if self.solver == "subgradient":
            found = solve_subgradient(problem, state.at, self.rng, tol=self.tol)
        else:
            found = solve_bundle(problem, state.at, state.coef, state.scores, tol=self.tol)
        new = self.resume(found.coef, found.scores - state.offset)
        passes = state.passes + found.passes
        return replace(new, convex_value=found.value, passes=passes, solved=found.converged)

    def resume(self, coef: np.ndarray, S: np.ndarray | None = None) -> State:
        """Return the state of a model to continue from; S are its scores without intercepts."""
        S = self.problem.scores(coef) if S is None else S
        offset = self._prices(S)
        S = S + offset
        at = self.problem.linearise(S)
        return State(coef, offset, S, at, self.problem.objective(coef, S, at))

    def _prices(self, S: np.ndarray) -> np.ndarray:
        """Intercepts with which every cluster keeps its least weight."""
        if self.floor == 0:
            return np.zeros(self.problem.k)
        return floor_prices(S, self.problem.weights, self.floor, np.full(len(S), -1))

    def objective(self, state: State) -> float:
        """Equation (6)."""
        return state.value

    def change(self, old: State, new: State) -> float:
        """Relative fall of the objective; of the convex problem's for the paper's algorithm.

        The constant part of the objective would hide it, and is left out by ours.
        """
        if self.solver == "subgradient":
            if not new.solved:  # nor would the next problems be, each in as many passes
                return -np.inf
            return abs(old.convex_value - new.convex_value) / max(old.convex_value, 1e-300)
        return (old.value - new.value) / max(old.value - self.problem.constant, 1e-300)


@dataclass(frozen=True)
class Search:
    """Several starts with the links alone, the best continued with all rows.

    ``floor`` is the least weight of a cluster in the search, ``least`` that of the result: if links
    or known classes part the clusters, the floor is needed in few cases.
    """

    problem: PairProblem
    floor: float
    least: float
    solver: str
    init: str
    n_init: int
    max_iter: int
    tol: float
    solver_tol: float
    rng: np.random.Generator
    watch: Callable[[float], str | None]

    def run(
        self, alpha: float, given: list[Start] | None, rivals: list[np.ndarray]
    ) -> tuple[Outcome, dict[str, float]]:
        """Fit at a given alpha, and compare the first of rival labels with the result."""
        problem = replace(self.problem, alpha=alpha)
        stage, starts = self._stage(problem), given
        first = self._first_part(problem)
        if starts is None:
            few = first if parted(problem) else None
            starts = pair_starts(problem, few, self._points(), self.init, self.n_init, self.rng)
        literal = self.solver == "subgradient"  # the paper's algorithm without changes
        if literal:
            early = self._stage(first)
            # The paper makes exactly three steps with the links only.
            states = [
                self._descend(early, early.init(start), max_iter=LITERAL_STEPS, tol=-1.0).state
                for start in starts
            ]
        else:
            alphas = [a for a in ALPHAS if ANNEAL_FROM >= a > alpha] if parted(problem) else []
            states = self._followed(first, starts, [*alphas, alpha])[-1]
        best = min((stage.resume(state.coef) for state in states), key=stage.objective)
        outcome, values = self._descend(stage, best), []
        for labels in rivals:  # whose objective the outcome is not to exceed
            held = stage.hold(labels, above=outcome.objective)
            values.append(held.convex_value)
            if held.value < outcome.objective and not literal:
                outcome = min(outcome, self._descend(stage, held), key=lambda o: o.objective)
        ari = agreement(outcome.state.at.labels, rivals[0], problem.k)
        sizes = np.bincount(outcome.state.at.labels, problem.weights, minlength=problem.k)
        if self.floor < self.least and sizes.min() < self.least:
            return replace(self, floor=self.least).run(alpha, given, rivals)
        if not outcome.state.solved:
            warnings.warn(
                f"solver={self.solver!r} did not reach solver_tol={self.solver_tol:g} in its last "
                "convex problem; raise solver_tol or alpha.",
                ConvergenceWarning,
                stacklevel=2,
            )
        return outcome, {"objective": float(values[0]), "ari": ari}

    def _followed(
        self, problem: PairProblem, starts: list[Start], alphas: Sequence[float]
    ) -> list[list[State]]:
        """Run every initialisation with the links only, from strong to weak regularisation.

        With few links and weak regularisation, many partitions satisfy all links; those that are
        reached from stronger regularisation generalise. Very strong regularisation leaves clusters
        empty if there are many, hence ``ANNEAL_FROM``. For each alpha, the best states of different
        partitions are returned.
        """
        found: list[list[State]] = []
        tolerances = max(self.tol, ROUGH_TOL), max(self.solver_tol, ROUGH_SOLVER_TOL)
        rough = replace(self, tol=tolerances[0], solver_tol=tolerances[1])
        for alpha in alphas:
            stage = rough._stage(replace(problem, alpha=alpha))
            if found and alpha < ANNEAL_FROM:
                states = [stage.resume(state.coef) for state in found[-1]]
            else:
                states = [stage.init(start) for start in starts]
            kept: dict[bytes, State] = {}
            states = [rough._descend(stage, state).state for state in states]
            for state in sorted(states, key=lambda s: s.value):
                kept.setdefault(canonical(state.at.labels).tobytes(), state)
            found.append(list(kept.values()))
        return found

    def _stage(self, problem: PairProblem) -> Stage:
        floor = self.floor * problem.weights.sum() / self.problem.weights.sum()
        return Stage(problem, self.solver, self.solver_tol, self.rng, floor)

    def _descend(self, stage: Stage, state: State, **given: Any) -> Outcome:
        settings: dict[str, Any] = {"max_iter": self.max_iter, "tol": self.tol} | given
        literal = self.solver == "subgradient"
        monotone = not literal and stage.floor == 0
        return descend(
            stage, state, watch=self.watch, monotone=monotone, keep_last=literal, **settings
        )

    def _first_part(self, problem: PairProblem) -> PairProblem:
        """Where starts are compared: the rows with links, or a sample where those do not part."""
        n, few = problem.rows.shape[0], np.union1d(problem.links.rows(), problem.known_rows)
        if parted(problem):
            return problem.part(few, free=problem.hu)
        if n <= START_ROWS:
            return problem
        return problem.part(np.union1d(self.rng.choice(n, START_ROWS, replace=False), few))

    def _points(self) -> np.ndarray:
        """Features of a sample of the rows."""
        n = self.problem.rows.shape[0]
        chosen = np.arange(n)
        if n > START_ROWS:
            chosen = np.sort(self.rng.choice(n, START_ROWS, replace=False))
        return np.asarray(self.problem.part(chosen).rows.values(), np.float64)

    # -- cross-validation over links --------------------------------------------------------------

    def choose_alpha(self) -> tuple[float, dict[str, Any]]:
        """Return the alpha that satisfies most held-out links, and ``cv_results_``."""
        if not parted(self.problem):
            return DEFAULT_ALPHA, {}
        if self.solver == "subgradient":  # the alpha is no part of the paper's algorithm
            return replace(self, solver="bundle").choose_alpha()
        few, points = self._first_part(self.problem), self._points()
        items = len(few.links) + len(few.known)
        if items < LEAST_ITEMS:
            return DEFAULT_ALPHA, {}
        kept: list[list[float]] = []
        for _ in range(max(1, min(MOST_REPEATS, ENOUGH_ITEMS // max(items, 1)))):
            links_fold, known_fold = _folds(few.links.same, self.rng), _folds(few.known, self.rng)
            for fold in range(FOLDS):
                train = few.supervised_by(links_fold != fold, known_fold != fold)
                test = few.supervised_by(links_fold == fold, known_fold == fold)
                if parted(train) and test.supervision > 0:
                    starts = pair_starts(train, train, points, self.init, self.n_init, self.rng)
                    path = self._followed(train, starts, ALPHAS)
                    best = [min(states, key=lambda s: s.value) for states in path]
                    kept.append([])
                    for state in best:
                        labels = state.scores.argmax(axis=1)
                        held = test.links.weights @ test.links.satisfied(labels)
                        held += test.known_weights @ (labels[test.known_rows] == test.known)
                        kept[-1].append(float(held) / test.supervision)
        if not kept:
            return DEFAULT_ALPHA, {}
        accuracy = np.mean(kept, axis=0)
        table = {"alpha": np.array(ALPHAS), "link_accuracy": accuracy}
        return ALPHAS[int(np.argmax(np.round(accuracy, 12)))], {"cv_results_": table}


def _folds(kinds: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A fold for each item, the same number of every kind in each as far as possible."""
    fold = np.zeros(len(kinds), int)
    for kind in np.unique(kinds):
        members = rng.permutation(np.flatnonzero(kinds == kind))
        fold[members] = np.arange(len(members)) % FOLDS
    return fold


# -- initialisations: linear models of which only the labels and desired clusters are used --------


@dataclass(frozen=True)
class Start:
    """Coefficients (k, r) and intercepts (k,)."""

    coef: np.ndarray
    intercept: np.ndarray


def link_scatter(Z: np.ndarray, links: Links, same: bool) -> np.ndarray:
    """Mean of (x - x')(x - x')' over the links of one kind: (19), (20).

    Without such links, that of all rows of Z.

    Examples
    --------
    >>> links = Links(np.array([0]), np.array([1]), np.array([True]), np.ones(1))
    >>> link_scatter(np.array([[0.0, 1.0], [2.0, 1.0]]), links, True)
    array([[4., 0.],
           [0., 0.]])
    """
    chosen = links.take(links.same == same)
    if len(chosen) == 0:
        return 2.0 * np.cov(Z.T, bias=True).reshape(Z.shape[1], -1)
    differences = Z[chosen.first] - Z[chosen.second]
    sums: np.ndarray = (chosen.weights[:, None] * differences).T @ differences
    scatter: np.ndarray = sums / chosen.weights.sum()
    return scatter


def eigenvector_axes(Z: np.ndarray, links: Links, k: int, shrinkage: float) -> np.ndarray:
    """The k leading eigenvectors of S_m^-1 S_c (18), as rows; fewer where Z has fewer columns.

    S_m is singular where there are fewer links than features: a multiple of the identity is added.
    """
    together = link_scatter(Z, links, True)
    apart = link_scatter(Z, links, False)
    # Links between equal rows alone have no scatter to take a share of.
    mean = max(np.trace(together), 1e-12 * np.trace(apart)) / len(together) or 1.0
    together[np.diag_indices_from(together)] += shrinkage * mean
    r = Z.shape[1]
    axes = linalg.eigh(apart, together, subset_by_index=[max(r - k, 0), r - 1])[1].T[::-1]
    # LAPACK's signs are arbitrary: the largest entry is made positive.
    largest = np.take_along_axis(axes, np.abs(axes).argmax(axis=1)[:, None], axis=1)
    signed: np.ndarray = axes * np.where(largest < 0, -1.0, 1.0)
    return signed


def nearest_centre_start(centres: np.ndarray, axes: np.ndarray | None = None) -> Start:
    """Scores of which the largest belongs to the nearest centre (of projections on the axes)."""
    coef = centres if axes is None else centres @ axes
    return Start(coef, -0.5 * (centres**2).sum(axis=1))


def kmeans_start(
    points: np.ndarray, k: int, rng: np.random.Generator, axes: np.ndarray | None = None
) -> Start:
    """One run of k-means on the points, or on their projections on the axes."""
    projected = points if axes is None else points @ axes.T
    return nearest_centre_start(kmeans(projected, k, rng, n_init=1)[1], axes)


def pair_starts(
    problem: PairProblem,
    few: PairProblem | None,
    points: np.ndarray,
    kind: str,
    n_init: int,
    rng: np.random.Generator,
) -> list[Start]:
    """Return ``n_init`` initialisations of one kind, or of all kinds for "auto".

    Their clusters are numbered to fit the known classes. ``few`` is the problem on the rows with
    links or known classes, None where nothing parts the clusters; ``points`` are features of rows
    for k-means.
    """
    k, rank, some = problem.k, problem.rows.shape[1], few or problem

    def in_order_of_usefulness() -> Iterator[Start]:
        literal = kind == "eigenvector" and n_init == 1  # the paper's W(0)
        if kind in ("auto", "eigenvector") and (few is not None or literal):
            Z = points if few is None else few.rows.values()
            for shrinkage in (LITERAL,) if literal else SHRINKAGE:
                axes = eigenvector_axes(Z, some.links, k, shrinkage)
                if kind == "auto":
                    yield kmeans_start(points, k, rng, axes)
                coef = np.concatenate([axes, np.zeros((k - len(axes), rank))])
                yield Start(coef, np.zeros(k))
                yield Start(-coef, np.zeros(k))
        if kind in ("auto", "k-means"):
            count = n_init if kind == "k-means" else 1 if few is not None else (n_init + 1) // 2
            for _ in range(count):
                yield kmeans_start(points, k, rng)
        while True:
            yield Start(rng.normal(size=(k, rank)), np.zeros(k))

    starts = list(islice(in_order_of_usefulness(), n_init))
    return [_named(start, some) for start in starts] if len(some.known) else starts


def _named(start: Start, problem: PairProblem) -> Start:
    """Return the initialisation with clusters in the order that fits the known classes best."""
    S = scores(problem.rows.take(problem.known_rows), start.coef) + start.intercept
    S -= S.mean(axis=1, keepdims=True)
    fit = np.zeros((problem.k, problem.k))
    np.add.at(fit, problem.known, S * problem.known_weights[:, None])
    order = linear_sum_assignment(-fit)[1]
    return Start(start.coef[order], start.intercept[order])
