"""The alternation of one two-way split, its initial labels, and the search around it.

Section III of Zhang, Tsang & Kwok (2009): regression on the labels, then the best balanced labels
for its scores. Initial labels come from k-means, the normalized cut, principal components and at
random; the lowest objective after the descent is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import ArpackError, eigsh

from .._core.descent import Outcome, descend
from .._core.features import centred_rows
from .._core.init import kmeans
from .._core.kernels import evaluate_kernel, median_distance
from .._core.rows import Factor, Rows, factorise, fit_squared, scores, weighted_sum
from .._core.size_floor import Sizes, balanced_split, loss_kinks, sign_split
from .._core.tree import OFF_FLOOR, SplitState, in_root_features
from .._data.source import RowSource
from ._regression import PiecewiseFit, degrees_of_freedom, fit_piecewise, shrinkage_for

TARGET_DOF = 20.0
ANNEAL_FROM, ANNEAL_STEPS = 2.0, 6
START_ROWS = 5000  # initial labels are compared on a subsample of this size
SPECTRAL_ROWS = 2000
CARRY_DOF = 20.0  # degrees of freedom of the ridge fit that carries a cut to the other rows


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
    midpoints: bool
    gamma: float | None
    rng: np.random.Generator
    watch: Callable[[float], str | None]


@dataclass(frozen=True)
class Problem:
    """One two-way split: factored rows, weights, known sides (0 where free) and sizes."""

    factor: Factor
    weights: np.ndarray
    known: np.ndarray
    sizes: Sizes
    epsilon: float


@dataclass(frozen=True)
class State(SplitState):
    """Labels and model after a step; ``fit`` warm-starts the next regression."""

    shortfall: float = 0.0
    fit: PiecewiseFit | None = None


@dataclass(frozen=True)
class Stage:
    """The alternation at a fixed alpha and loss."""

    problem: Problem
    loss: str
    alpha: float
    gap: float = 1e-3
    midpoints: bool = False

    def init(self, signs: np.ndarray) -> State:
        """A state that has labels but no model yet."""
        return State(signs.astype(np.int8), np.zeros(self.problem.factor.rows.shape[1]))

    def step(self, state: State) -> State:
        """Regression on the labels, then the best balanced labels for its scores."""
        factor = self.problem.factor
        if self.loss == "squared":
            coef, bias = fit_squared(factor, state.signs[:, None], self.alpha)
            return self.relabel(coef[0], float(bias[0]))
        kinks = loss_kinks(self.loss, self.problem.epsilon)
        fit = fit_piecewise(factor, state.signs, kinks, self.alpha, self.gap, state.fit)
        return self.relabel(fit.coef[0], float(fit.bias[0]), fit)

    def relabel(self, coef: np.ndarray, bias: float, fit: PiecewiseFit | None = None) -> State:
        """Best labels and bias for given coefficients: equations (8) and (9)."""
        p = self.problem
        g = scores(p.factor.rows, coef[None, :])[:, 0]
        rows: dict[str, Any] = {"weights": p.weights, "epsilon": p.epsilon, "known": p.known}
        if p.sizes.floor > 0:
            split = balanced_split(g, self.loss, sizes=p.sizes, midpoints=self.midpoints, **rows)
        else:
            split = sign_split(g, bias, self.loss, **rows)
        value = 0.5 * self.alpha * float(coef @ coef) + split.cost / p.weights.sum()
        return State(split.signs, coef, split.threshold_bias, value, split.shortfall, fit)

    def objective(self, state: State) -> float:
        """Return ``alpha/2 |w|^2`` plus the mean loss, plus a penalty below the size floor.

        If all scores are tied, a single cluster has zero loss; it must not be selected.
        """
        missing = state.shortfall / self.problem.weights.sum()
        return state.objective + (OFF_FLOOR * (1.0 + missing) if missing > 0 else 0.0)

    def change(self, old: State, new: State) -> float:
        """Share of the weight that changed sides."""
        return float(self.problem.factor.shares[old.signs != new.signs].sum())


def strength(problem: Problem, settings: Settings) -> tuple[float, float]:
    """Ridge shrinkage and the alpha of the requested loss that goes with it."""
    factor = 2.0 if settings.loss == "squared" else 1.0
    if settings.alpha != "auto":
        return float(settings.alpha) / factor, float(settings.alpha)
    lam = problem.factor.eigenvalues
    rank = int(np.count_nonzero(lam > max(1e-10 * lam[-1], problem.factor.noise)))
    # With a degree of freedom for every other row any labels at all would fit.
    dof = min(TARGET_DOF, len(problem.weights) / 3.0, 0.9 * rank)
    shrinkage = shrinkage_for(lam, max(dof, 0.5))
    return shrinkage, factor * shrinkage


def search(
    problem: Problem,
    X: RowSource | None,
    start: np.ndarray | None,
    shrinkage: float,
    alpha: float,
    settings: Settings,
) -> Outcome:
    """Best outcome over the starts by objective; on a subsample first if rows are many."""
    n = len(problem.weights)
    final = Stage(problem, settings.loss, alpha, settings.gap, settings.midpoints)
    if start is not None:
        return _best_start([start], shrinkage, final, settings)
    if n <= START_ROWS:
        everything = None if X is None else X.take(slice(None))
        return _best_start(starts_of(problem, everything, settings), shrinkage, final, settings)
    # Fewer rows, centred on their own, and the same problem on them.
    few = np.sort(settings.rng.choice(n, START_ROWS, replace=False))
    weights = problem.weights[few]
    local = centred_rows(problem.factor.rows.take(few), weights)[0]
    small = replace(
        problem,
        factor=factorise(local.stored(), weights),
        weights=weights,
        known=problem.known[few],
        sizes=problem.sizes.scaled(weights.sum() / problem.weights.sum()),
    )
    signs = starts_of(small, None if X is None else X.take(few), settings)
    rough = replace(settings, loss="squared") if settings.anneal else settings
    trial = replace(final, problem=small, loss=rough.loss)
    best = _best_start(signs, shrinkage, trial, rough)
    found = best.state.coef, best.state.threshold_bias
    start_coef = in_root_features(*found, problem.factor.rows, local)
    squared = Stage(problem, "squared", 2.0 * shrinkage)
    near = _run(squared, squared.relabel(*start_coef), settings)
    if settings.loss == "squared":
        return near
    return _run(final, final.init(near.state.signs), settings)


def starts_of(problem: Problem, X: Any, settings: Settings) -> list[np.ndarray]:
    """Return distinct initial labellings of the requested kind that agree with known labels.

    ``X`` has the rows as given, None if they have no coordinates other than the features.
    """
    factor, weights, sizes, known = problem.factor, problem.weights, problem.sizes, problem.known
    kind, count, rng = settings.init, settings.n_init, settings.rng
    features = factor.rows.values()
    points = features if X is None else X

    def kmeans_signs(where: Any, n_runs: int) -> np.ndarray:
        labels, _ = kmeans(where, 2, rng, weights, n_runs)
        return np.where(labels == labels[0], -1, 1).astype(np.int8)

    signs: list[np.ndarray] = []
    if kind == "k-means":
        signs += [kmeans_signs(points, 1) for _ in range(count)]
    if kind == "auto":
        signs.append(kmeans_signs(points, count))
        if points is not features:
            signs.append(kmeans_signs(features, count))
    if kind in ("auto", "spectral"):
        signs.append(_carried_cut(points, problem, settings))
    if kind == "auto":
        # Without the constraint that labels are +-1, the leading eigenvectors minimise the squared
        # loss. Balanced splits of them find rings, for example, which k-means does not.
        axes = factor.eigenvectors[:, ::-1][:, :count]
        lengths = np.sqrt(np.maximum(factor.eigenvalues[::-1][:count], 1e-12))
        components = scores(factor.rows, (axes / lengths).T).T
        signs += [balanced_split(c, "squared", sizes=sizes, weights=weights).signs
                  for c in components]  # fmt: skip
    if kind in ("auto", "random"):
        n = len(weights)
        for _ in range(count):
            halves = np.ones(n, np.int8)
            halves[rng.permutation(n)[: n // 2]] = -1
            signs.append(halves)
    kept: dict[bytes, np.ndarray] = {}  # which differ by more than a swap of the two labels
    for found in signs:
        agreeing = -found if (weights * known * found).sum() < 0 else found
        agreeing = np.where(known == 0, agreeing, known).astype(np.int8)
        kept.setdefault((agreeing * agreeing[0]).tobytes(), agreeing)
    return list(kept.values())


def _carried_cut(points: Any, problem: Problem, settings: Settings) -> np.ndarray:
    """Normalized cut on at most ``SPECTRAL_ROWS`` rows, carried to the others by a ridge fit."""
    factor, weights, rng = problem.factor, problem.weights, settings.rng
    n = len(weights)
    few = np.arange(n)
    if n > SPECTRAL_ROWS:
        few = np.sort(rng.choice(n, SPECTRAL_ROWS, replace=False))
    some = weights[few]
    gamma = settings.gamma or 1.0 / median_distance(points[few], rng)
    sizes = problem.sizes.scaled(some.sum() / weights.sum())
    signs = spectral_signs(points[few], gamma, some, sizes, rng)
    if len(few) == n:
        return signs
    targets = np.zeros(n)
    targets[few] = some * signs / some.sum()
    shrinkage = shrinkage_for(factor.eigenvalues, CARRY_DOF)
    coef = factor.ridge(weighted_sum(factor.rows, targets), shrinkage)
    return np.where(scores(factor.rows, coef)[:, 0] > 0, 1, -1).astype(np.int8)


def spectral_signs(
    X: Any, gamma: float, weights: np.ndarray, sizes: Sizes, rng: np.random.Generator
) -> np.ndarray:
    """Two-way normalized cut (Shi & Malik) with the Gaussian affinity between all rows.

    The second eigenvector of D^-1/2 K D^-1/2, scaled by D^-1/2, is split where two levels fit it
    best within the required sizes. A row of weight w is equivalent to w rows.
    """
    X = X if sparse.issparse(X) else X - X.mean(axis=0)
    K = evaluate_kernel(X, X, "rbf", {"gamma": gamma})
    np.fill_diagonal(K, 1.0)  # in spite of rounding and a large gamma
    root = np.sqrt(weights / (K @ weights))
    K = root[:, None] * K * root[None, :]
    if K.shape[0] < 20:
        vectors = np.linalg.eigh(K)[1][:, -2:]
    else:
        start = rng.random(K.shape[0])
        try:
            vectors = eigsh(K, k=2, which="LA", v0=start, tol=1e-6)[1]
        except ArpackError:  # no convergence, or a start in an invariant subspace
            vectors = np.linalg.eigh(K)[1][:, -2:]
    vector = vectors[:, 0] * root / weights
    spread = np.sqrt(np.average((vector - vector.mean()) ** 2, weights=weights))
    vector = vector / max(spread, 1e-300)
    return balanced_split(vector, "squared", sizes=sizes, weights=weights).signs


def _run(stage: Stage, state: State, settings: Settings) -> Outcome:
    return descend(
        stage,
        state,
        max_iter=settings.max_iter,
        tol=settings.tol,
        watch=settings.watch,
        # The paper's midpoints are not optimal biases: the objective may increase.
        monotone=not stage.midpoints,
    )


def _best_start(
    signs: list[np.ndarray], shrinkage: float, final: Stage, settings: Settings
) -> Outcome:
    if not settings.anneal:
        outcomes = [_run(final, final.init(s), settings) for s in signs]
        return min(outcomes, key=lambda o: o.objective)
    rough = Stage(_compressed(final.problem, shrinkage), "squared", 2.0 * shrinkage)
    outcomes = [_run(rough, rough.init(s), settings) for s in signs]
    outcomes += [_annealed(rough, s, settings) for s in signs]
    best = min(outcomes, key=lambda o: o.objective)
    return _run(final, final.init(best.state.signs), settings)


def _compressed(problem: Problem, shrinkage: float) -> Problem:
    """The problem on its principal axes, without those that the ridge shrinks to a hundredth.

    The initial labels are compared on a quarter of the features or less.
    """
    factor = problem.factor
    keep = factor.eigenvalues > 0.01 * shrinkage
    if 2 * np.count_nonzero(keep) > len(keep) or not factor.rows.source.local:
        return problem
    axes = factor.eigenvectors[:, keep]
    rows = Rows(scores(factor.rows, axes.T), n_jobs=factor.rows.n_jobs)
    lam = factor.eigenvalues[keep]
    return replace(problem, factor=Factor(rows, factor.shares, lam, np.eye(len(lam))))


def _annealed(final: Stage, signs: np.ndarray, settings: Settings) -> Outcome:
    """Follow the squared-loss solution from few degrees of freedom to those of ``final``."""
    lam = final.problem.factor.eigenvalues
    last = degrees_of_freedom(lam, 0.5 * final.alpha)
    if last <= 0:  # equal rows
        return _run(final, final.init(signs), settings)
    for dof in np.geomspace(min(ANNEAL_FROM, last), last, ANNEAL_STEPS)[:-1]:
        stage = replace(final, alpha=2.0 * shrinkage_for(lam, dof))
        signs = _run(stage, stage.init(signs), settings).state.signs
    return _run(final, final.init(signs), settings)
