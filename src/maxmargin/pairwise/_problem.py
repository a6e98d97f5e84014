"""The objective with links on given rows: losses, subgradients and their linearisation.

Everything works on scores S = Z W' + b of the rows (n, k). Losses that are a difference of convex
functions are linearised at some scores: the labels y of free rows and the desired clusters z of
links are fixed there, and what is left is convex.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from .._core.links import Links
from .._core.qp import CutPool
from .._core.rows import Rows, scores, weighted_sum
from .._data.source import BLOCK
from .._threads import in_order
from ._numba import class_losses, desired_clusters, free_losses, hu_losses, link_losses


@dataclass(frozen=True)
class Linearisation:
    """Clusters fixed at a point: of free rows (11), and of links (15), (16)."""

    labels: np.ndarray  # (n,)
    desired: np.ndarray  # (L, 2)


@dataclass(frozen=True)
class PairProblem:
    """``alpha/2 |W|^2 + sum_j v_j eta_j + sum_i u_i sum_z xi_iz``, equation (6)."""

    rows: Rows
    weights: np.ndarray  # (n,)
    k: int
    alpha: float
    links: Links  # between these rows; their weights v are those of the objective
    # known_rows, known: rows whose class is known, and the class
    known_rows: np.ndarray
    known: np.ndarray
    known_weights: np.ndarray
    # (n,): u above: the unlabelled weight of each row over the number of clusters
    free_weights: np.ndarray
    offset: np.ndarray  # (k,): b above
    hu: bool = False  # whether links have the losses of Hu et al., equation (2)

    @property
    def constant(self) -> float:
        """Lower bound of the risk: the terms z = y of free rows, which are always 1."""
        return float(self.free_weights.sum())

    def scores(self, coef: np.ndarray) -> np.ndarray:
        """``Z W' + b``, one half of a pass."""
        found: np.ndarray = scores(self.rows, coef) + self.offset
        return found

    def linearise(self, S: np.ndarray) -> Linearisation:
        """Fix labels and desired clusters at the scores: (11), (15), (16)."""
        desired = np.zeros((len(self.links), 2), np.int64)
        if not self.hu:
            links = self.links
            desired_clusters(S, links.first, links.second, links.same, desired)
        return Linearisation(S.argmax(axis=1), desired)

    def risk(self, S: np.ndarray, at: Linearisation) -> tuple[float, np.ndarray]:
        """Losses linearised ``at`` a point, and their subgradient in the scores: (21), (25)."""
        codes = np.zeros(S.shape)
        links, total = self.links, 0.0
        if self.constant > 0.0:

            def block(start: int) -> float:
                part = slice(start, start + BLOCK)
                rows = S[part], at.labels[part], self.free_weights[part], codes[part]
                return float(free_losses(*rows))

            total += float(sum(in_order(block, range(0, len(S), BLOCK), self.rows.n_jobs)))
        ends = (links.first, links.second, links.same, links.weights)
        if self.hu:
            total += hu_losses(S, *ends, codes)
        else:
            total += link_losses(S, *ends, at.desired, codes)
        total += class_losses(S, self.known_rows, self.known, self.known_weights, codes)
        return total, codes

    def objective(self, coef: np.ndarray, S: np.ndarray, at: Linearisation) -> float:
        """Equation (21); linearised where it is evaluated, equation (6) itself."""
        return 0.5 * self.alpha * float((coef * coef).sum()) + self.risk(S, at)[0]

    def at_zero(self) -> float:
        """Objective of W = 0 without intercepts: every loss is 1, Hu's links cost nothing."""
        links = 0.0 if self.hu else float(self.links.weights.sum())
        return links + float(self.known_weights.sum()) + self.k * self.constant

    def part(self, chosen: np.ndarray, free: bool = True) -> PairProblem:
        """The problem on some rows, in memory; their unlabelled weights keep their sum, or go."""
        places = np.full(self.rows.shape[0], -1)
        places[chosen] = np.arange(len(chosen))
        rows = self.rows.take(chosen)
        weights = self.free_weights[chosen] if free else np.zeros(len(chosen))
        if weights.sum() > 0:
            weights = weights * (self.constant / weights.sum())
        kept = places[self.known_rows] >= 0
        return replace(
            self,
            rows=Rows(rows.values(), n_jobs=rows.n_jobs),
            weights=self.weights[chosen],
            links=self.links.mapped(places),
            known_rows=places[self.known_rows][kept],
            known=self.known[kept],
            known_weights=self.known_weights[kept],
            free_weights=weights,
        )

    @property
    def supervision(self) -> float:
        """Weight of all links and known classes."""
        return float(self.links.weights.sum() + self.known_weights.sum())

    def supervised_by(self, links: np.ndarray, known: np.ndarray) -> PairProblem:
        """Return the problem with some of the links and known classes and the same total weight."""
        chosen = replace(
            self,
            links=self.links.take(links),
            known_rows=self.known_rows[known],
            known=self.known[known],
            known_weights=self.known_weights[known],
        )
        factor = self.supervision / max(chosen.supervision, 1e-300)
        weights = chosen.links.weights * factor
        return replace(
            chosen,
            links=replace(chosen.links, weights=weights),
            known_weights=chosen.known_weights * factor,
        )


def pair_problem(
    rows: Rows,
    weights: np.ndarray,
    k: int,
    alpha: float,
    links: Links,
    known: np.ndarray,
    free: np.ndarray,
    *,
    unlabeled_weight: float = 1.0,
    hu: bool = False,
) -> PairProblem:
    """Weigh the terms as in equation (6), or (2) for the losses of Hu et al.

    Weights of links and of rows of ``known`` class are brought to sum 1 (the paper's 1/L), for Hu
    et al. each kind of link by itself; ``free``, those of unlabelled rows, to
    ``unlabeled_weight / k``.
    """
    rows_known = np.flatnonzero(known >= 0)
    class_weights = weights[rows_known]
    if hu:
        kinds = [max(links.weights[links.same == kind].sum(), 1e-300) for kind in (False, True)]
        links = replace(links, weights=links.weights / np.where(links.same, kinds[1], kinds[0]))
        class_weights = class_weights / max(class_weights.sum(), 1e-300)
    else:
        total = max(links.weights.sum() + class_weights.sum(), 1e-300)
        links = replace(links, weights=links.weights / total)
        class_weights = class_weights / total
    free = free * (unlabeled_weight / (k * max(free.sum(), 1e-300)))
    return PairProblem(
        rows, weights, k, alpha, links, rows_known, known[rows_known], class_weights, free,
        np.zeros(k), hu,
    )  # fmt: skip


# -- two solvers of the convex problem (21) --------------------------------------------------------
#
# The paper's subgradient projection, and a bundle method, which under-estimates the risk R by its
# tangents ("cuts") at the points seen so far, minimises alpha/2 |W|^2 + max_c (a_c'W + b_c)
# exactly, and moves to the best point on the way there. That line search needs no pass over the
# rows: scores are linear in W.

MOST_STEPS = 5000  # of the subgradient projection
LOOK_AHEAD = 0.1  # a cut is taken this far beyond the best point, towards the model's minimum
STALL = 50  # passes in which the gap must shrink by a tenth
LINE_STEPS, FLAT = 12, 0.1  # a line search ends where the slope is a tenth of the first one
ROUNDING = 1e-9  # relative to the objective at W = 0: smallest gap that can be required


@dataclass(frozen=True)
class Solution:
    """Where a solver ended."""

    coef: np.ndarray
    scores: np.ndarray
    value: float  # objective of the convex problem
    bound: float  # no point has a smaller objective (-inf where the solver has no bound)
    passes: int  # subgradients taken, each a pass over the rows
    converged: bool


def ball_radius(problem: PairProblem) -> float:
    """Theorem 1: the optimum has no larger norm."""
    return float(np.sqrt(problem.at_zero() / problem.alpha))


def solve_subgradient(
    problem: PairProblem,
    at: Linearisation,
    rng: np.random.Generator,
    *,
    tol: float = 0.01,
) -> Solution:
    """Algorithm 2: W <- projection of W - (1 / (alpha r)) subgradient, r = 1, 2, ...

    Starts from a random W in the ball of Theorem 1 and ends when W changes by at most ``tol`` of
    its norm.
    """
    radius = ball_radius(problem)
    W = rng.normal(size=(problem.k, problem.rows.shape[1]))
    W *= radius * rng.random() / max(float(np.linalg.norm(W)), 1e-300)
    converged = False
    for r in range(1, MOST_STEPS + 1):
        _, codes = problem.risk(problem.scores(W), at)
        gradient = problem.alpha * W + weighted_sum(problem.rows, codes)
        new = W - gradient / (problem.alpha * r)
        new *= min(1.0, radius / max(float(np.linalg.norm(new)), 1e-300))
        change = np.linalg.norm(new - W)
        largest = max(np.linalg.norm(W), np.linalg.norm(new))
        W = new
        if change <= tol * largest:
            converged = True
            break
    S = problem.scores(W)
    value = problem.objective(W, S, at)
    return Solution(W, S, value, -np.inf, r, converged)


@dataclass(frozen=True)
class _Point:
    """Coefficients with what follows from them on all rows."""

    coef: np.ndarray
    scores: np.ndarray
    value: float


def solve_bundle(
    problem: PairProblem,
    at: Linearisation,
    coef: np.ndarray,
    S: np.ndarray,
    *,
    tol: float = 0.01,
    max_passes: int = 1000,
    above: float = np.inf,
) -> Solution:
    """Minimise the convex problem from ``coef`` (scores ``S``) until the bound is close.

    Stops when the gap is at most ``tol`` times the improvement over W = 0, or when the bound is
    ``above`` some value. Relative to the objective itself, W = 0 would be accepted under strong
    regularisation.
    """
    floor, zero = problem.constant, problem.at_zero()
    best = _Point(coef, S, problem.objective(coef, S, at))
    look, bound, before, converged = best, -np.inf, np.inf, False
    pool = CutPool(coef.size)
    for passes in range(1, max_passes + 1):
        risk, codes = problem.risk(look.scores, at)
        slope = weighted_sum(problem.rows, codes)
        pool.add(-slope.ravel(), risk - floor - float((slope * look.coef).sum()))
        bound = max(bound, pool.solve(problem.alpha).value + floor)
        gap = best.value - bound
        if gap <= max(tol * (zero - best.value), ROUNDING * zero) or bound > above:
            converged = True
            break
        if passes % STALL == 0:
            if gap > 0.9 * before:
                break
            before = gap
        pool.prune()
        model = pool.coef(problem.alpha).reshape(coef.shape)
        model_scores = problem.scores(model)
        best = _line_search(problem, at, best, model, model_scores)
        look = _Point(
            best.coef + LOOK_AHEAD * (model - best.coef),
            best.scores + LOOK_AHEAD * (model_scores - best.scores),
            np.nan,
        )
    return Solution(best.coef, best.scores, best.value, bound, passes, converged)


def _line_search(
    problem: PairProblem, at: Linearisation, best: _Point, coef: np.ndarray, S: np.ndarray
) -> _Point:
    """Lowest point from ``best`` through ``coef``, on scores alone."""
    step, S_step = coef - best.coef, S - best.scores
    linear = problem.alpha * float((best.coef * step).sum())
    quadratic = problem.alpha * float((step * step).sum())
    values: dict[float, float] = {}

    def slope(t: float) -> float:
        risk, codes = problem.risk(best.scores + t * S_step, at)
        values[t] = risk
        return linear + t * quadratic + float(np.einsum("ij,ij->", codes, S_step))

    low, high = 0.0, 1.0
    slope_low, slope_high = slope(low), slope(high)
    flat = FLAT * abs(slope_low)
    while slope_high < 0.0 and high < 1e6:
        low, slope_low, high = high, slope_high, 2.0 * high
        slope_high = slope(high)
    for _ in range(LINE_STEPS):
        if min(-slope_low, slope_high) <= flat or high - low < 1e-4 * high:
            break
        # The slope is monotone: the secant, kept away from the ends of the bracket.
        t = low + (high - low) * np.clip(slope_low / (slope_low - slope_high), 0.1, 0.9)
        here = slope(t)
        if here < 0.0:
            low, slope_low = t, here
        else:
            high, slope_high = t, here
    penalty = 0.5 * problem.alpha * float((best.coef * best.coef).sum())
    t = min(values, key=lambda t: values[t] + t * linear + 0.5 * t * t * quadratic)
    value = penalty + values[t] + t * linear + 0.5 * t * t * quadratic
    if t == 0.0 or value >= best.value:
        return best
    return _Point(best.coef + t * step, best.scores + t * S_step, value)
