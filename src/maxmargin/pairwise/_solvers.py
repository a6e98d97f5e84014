"""Two solvers of the convex problem (21): the paper's subgradient projection, and a bundle method.

The bundle method under-estimates the risk R by its tangents ("cuts") at the points seen so far,
minimises ``alpha/2 |W|^2 + max_c (a_c'W + b_c)`` exactly, and moves to the best point on the way
there. That line search needs no pass over the rows: scores are linear in W.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._core.qp import CutPool
from ._problem import Linearisation, PairProblem

LOOK_AHEAD = 0.1  # a cut is taken this far beyond the best point, towards the model's minimum
LINE_STEPS, FLAT = 12, 0.1  # a line search ends where the slope is a tenth of the first one
ROUNDING = 1e-9  # relative to the objective at W = 0: smallest gap that can be required


@dataclass(frozen=True)
class Solution:
    """Where a solver ended.

    Attributes
    ----------
    coef, scores : ndarray
    value : float
        Objective of the convex problem.
    bound : float
        No point has a smaller objective (-inf where the solver has no bound).
    passes : int
        Subgradients taken, each a pass over the rows.
    converged : bool
    """

    coef: np.ndarray
    scores: np.ndarray
    value: float
    bound: float
    passes: int
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
    max_passes: int = 5_000,
) -> Solution:
    """Algorithm 2: W <- projection of W - (1 / (alpha r)) subgradient, r = 1, 2, ...

    Starts from a random W in the ball of Theorem 1 and ends when W changes by at most ``tol`` of
    its norm.
    """
    radius = ball_radius(problem)
    W = rng.normal(size=(problem.k, problem.rows.shape[1]))
    W *= radius * rng.random() / max(float(np.linalg.norm(W)), 1e-300)
    converged = False
    for r in range(1, max_passes + 1):
        _, codes = problem.risk(problem.scores(W), at)
        gradient = problem.alpha * W + problem.gather(codes)
        new = W - gradient / (problem.alpha * r)
        new *= min(1.0, radius / max(float(np.linalg.norm(new)), 1e-300))
        change = np.linalg.norm(new - W)
        largest = max(np.linalg.norm(W), np.linalg.norm(new))
        W = new
        if change <= tol * largest:
            converged = True
            break
    S = problem.scores(W)
    value = problem.penalty(W) + problem.risk(S, at)[0]
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
    best = _Point(coef, S, problem.penalty(coef) + problem.risk(S, at)[0])
    look, bound, converged = best, -np.inf, False
    pool = CutPool(coef.size)
    for passes in range(1, max_passes + 1):  # noqa: B007 - returned
        risk, codes = problem.risk(look.scores, at)
        slope = problem.gather(codes)
        pool.add(-slope.ravel(), risk - floor - float((slope * look.coef).sum()))
        bound = max(bound, pool.solve(problem.alpha).value + floor)
        gap = best.value - bound
        if gap <= max(tol * (zero - best.value), ROUNDING * zero) or bound > above:
            converged = True
            break
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


def _line_search(problem, at, best: _Point, coef, S) -> _Point:
    """Lowest point from ``best`` through ``coef``, on scores alone."""
    step, S_step = coef - best.coef, S - best.scores
    linear = problem.alpha * float((best.coef * step).sum())
    quadratic = problem.alpha * float((step * step).sum())
    values = {}

    def slope(t):
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
    penalty = problem.penalty(best.coef)
    t = min(values, key=lambda t: values[t] + t * linear + 0.5 * t * t * quadratic)
    value = penalty + values[t] + t * linear + 0.5 * t * t * quadratic
    if t == 0.0 or value >= best.value:
        return best
    return _Point(best.coef + t * step, best.scores + t * S_step, value)
