"""Penalties, and the best model for a pool of cuts (A_c, g_c of ``_cuts``) under each.

With the loss replaced by its cuts, the problem of given labels is

    min_W, xi >= 0   penalty(W) + xi    with  xi >= g_c - <A_c, W>  for every cut c

:class:`Ridge` is the penalty of one kernel: problem (20). :class:`KernelWeights` is that of several
kernels: (2.13) and (4.35). Their weights are found by tiny QPs (:func:`solve_weights`) or, as a
check, by the paper's cone program (:func:`solve_cone_program`). The docstring of
:mod:`maxmargin.cutting_plane` has the duals.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from .._core.qp import QpSolution, ScoreBalance, solve_qp
from ._cuts import LabelledCuts, Model

WEIGHT_TOL, WEIGHT_ROUNDS = 1e-6, 200  # relative gap of the weights, and most QPs that find them
OVERRELAXATION = 1.8  # exponent of the steps of the weights for p < 3/2
UNUSED = 1e-7  # smaller multipliers of the cone program count as zero


class Penalty(Protocol):
    """What the search needs of a penalty."""

    @property
    def mean(self) -> np.ndarray | None:
        """The mean row, whose scores (16) bounds, if features are not centred."""

    def value(self, coef: np.ndarray, intercept: np.ndarray) -> float:
        """Return the penalty of coefficients and intercepts."""

    def solve(self, cuts: LabelledCuts) -> tuple[float, Model]:
        """Return a lower bound on penalty plus loss, and the best model for the cuts."""


@dataclass(frozen=True)
class Ridge:
    """``alpha/2 |W|^2``, with the bound (16) on mean scores if there is one: problem (20)."""

    alpha: float
    bound: float | None = None  # on the difference of two mean scores
    # the mean row if features are not centred; None if intercepts are free instead
    mean: np.ndarray | None = None
    # value of the constant feature whose coefficients are the intercepts; 0 for none
    constant: float = 0.0

    def value(self, coef: np.ndarray, intercept: np.ndarray) -> float:
        """Return the penalty of coefficients and intercepts."""
        square = float((coef * coef).sum())
        if self.constant:
            square += float(intercept @ intercept) / self.constant**2
        return 0.5 * self.alpha * square

    def solve(self, cuts: LabelledCuts) -> tuple[float, Model]:
        """Return the value of problem (20) for the cuts, and its solution.

        W = (sum_c a_c A_c - tau s') / alpha with the multipliers a of the cuts and, if features are
        not centred, tau of (16) and the mean row s.
        """
        k, alpha, pool = cuts.k, self.alpha, cuts.pool
        if self.bound is None:
            solution = pool.solve(alpha)
            return solution.value, cuts.split(pool.coef(alpha))
        if self.mean is None:
            solution = pool.solve(alpha, ScoreBalance(self.bound, cuts.shares, None))
            return solution.value, (pool.coef(alpha).reshape(k, -1), solution.intercept)
        square = float(self.mean @ self.mean) / alpha
        cross = cuts.vectors @ self.mean / alpha
        solution = pool.solve(alpha, ScoreBalance(self.bound, cross, square))
        coef = pool.coef(alpha).reshape(k, -1) - np.outer(solution.tau, self.mean) / alpha
        return solution.value, (coef, np.zeros(k))


@dataclass(frozen=True)
class KernelWeights:
    """The penalty ``alpha/2 sum_k |V_k|^2 / beta_k`` of (2.6) and (4.31) under the best weights."""

    alpha: float
    p: float  # norm of the weights: ``sum beta^p <= 1``
    blocks: tuple[slice, ...]  # features of each kernel
    bound: float | None = None  # on the difference of two mean scores
    # the mean row if features are not centred; None if intercepts are free instead
    mean: np.ndarray | None = None
    solver: str = "qp"  # {"qp", "socp"}
    # value of the constant feature whose coefficients are the intercepts; 0 for none
    constant: float = 0.0
    even: bool = False  # keep all weights equal

    def weights(self, coef: np.ndarray) -> np.ndarray:
        """Return the best weights for given coefficients: beta_k ~ |V_k|^(2 / (p + 1)).

        Examples
        --------
        >>> two = KernelWeights(1.0, 2.0, (slice(0, 1), slice(1, 2)))
        >>> two.weights(np.array([[3.0, 0.0]]))
        array([1., 0.])
        """
        squares = self._squares(coef)
        if squares.max() == 0 or self.even:
            return np.full(len(squares), len(squares) ** (-1.0 / self.p))
        return normalised((squares / squares.max()) ** (1.0 / (self.p + 1.0)), self.p)

    def value(self, coef: np.ndarray, intercept: np.ndarray) -> float:
        """Return the penalty at the best weights: alpha/2 (sum |V_k|^(2p/(p+1)))^((p+1)/p)."""
        power, squares = self.p / (self.p + 1.0), self._squares(coef)
        if self.even:
            total = float(squares.sum()) * len(squares) ** (1.0 / self.p)
        else:
            total = float((squares**power).sum() ** (1.0 / power))
        if self.constant:
            total += float(intercept @ intercept) / self.constant**2
        return float(0.5 * self.alpha * total)

    def solve(self, cuts: LabelledCuts) -> tuple[float, Model]:
        """Return a lower bound for the cuts, and the best model: (2.13), (4.35).

        V_k = beta_k (sum_c a_c A_c,k - tau s_k') / alpha, as in :class:`Ridge`.
        """
        pool, k, count = cuts.pool, cuts.k, len(self.blocks)
        if self.solver == "socp" and not self.even:
            value, coef, multipliers = solve_cone_program(
                cuts.vectors, pool.gains, self.blocks, self.alpha, int(self.p)
            )
            pool.keep(multipliers)
            return value, (coef, np.zeros(k))
        balance: ScoreBalance | BlockBalance | None = None
        if self.mean is not None and self.bound is not None:
            means = [self.mean[block] for block in self.blocks]
            crosses = np.stack([cuts.vectors[:, :, b] @ s for b, s in zip(self.blocks, means)])
            squares = np.array([s @ s for s in means])
            balance = BlockBalance(self.bound, crosses / self.alpha, squares / self.alpha)
        elif self.bound is not None:
            balance = ScoreBalance(self.bound, cuts.shares, None)
        grams = pool.grams / self.alpha
        start = pool.block_weights[:count]
        found = solve_weights(
            grams[:count], pool.gains, self.p, pool.multipliers,
            None if self.even or start.min() <= 0 else start, balance,
            rounds=1 if self.even else WEIGHT_ROUNDS,
            constant=grams[-1] if self.constant else 0.0,
        )  # fmt: skip
        pool.keep(found.solution.multipliers)
        pool.block_weights[:count] = found.weights
        coef, intercept = cuts.split(pool.coef(self.alpha))
        if self.mean is not None:
            coef = coef - np.outer(found.solution.tau, self.mean) / self.alpha
        coef = coef * np.repeat(found.weights, [b.stop - b.start for b in self.blocks])
        if balance is not None:
            intercept = found.solution.intercept
        return found.solution.value if self.even else found.bound, (coef, intercept)

    def _squares(self, coef: np.ndarray) -> np.ndarray:
        return np.array([(coef[:, block] ** 2).sum() for block in self.blocks])


@dataclass(frozen=True)
class BlockBalance:
    """The bound (2.3), (4.31) on differences of mean scores if features are not centred."""

    bound: float
    crosses: np.ndarray  # (M, m, k): products of the cuts with the mean row, divided by alpha
    squares: np.ndarray  # (M,): squared length of the mean row, divided by alpha

    def at(self, beta: np.ndarray) -> ScoreBalance:
        """Return the bound for kernels with weights beta."""
        return ScoreBalance(
            self.bound, np.tensordot(beta, self.crosses, 1), float(beta @ self.squares)
        )

    def correct(self, q: np.ndarray, solution: QpSolution) -> np.ndarray:
        """Return q_k with tau: alpha q_k = |sum_c a_c A_c,k - tau s_k'|^2."""
        tau = solution.tau
        cross = (solution.multipliers @ self.crosses) @ tau
        corrected: np.ndarray = q - 2.0 * cross + self.squares * (tau @ tau)
        return corrected


@dataclass(frozen=True)
class WeightedSolution:
    """Weights of kernels for a pool of cuts, and how far they are from the best."""

    weights: np.ndarray
    solution: QpSolution  # of the QP at these weights
    bound: float  # lower bound on the values of the QPs at all weights
    gap: float  # value of this QP minus ``bound``
    rounds: int  # number of QPs solved


def solve_weights(
    grams: np.ndarray,
    gains: np.ndarray,
    p: float,
    multipliers: np.ndarray | None = None,
    weights: np.ndarray | None = None,
    balance: ScoreBalance | BlockBalance | None = None,
    tol: float = WEIGHT_TOL,
    rounds: int = WEIGHT_ROUNDS,
    constant: np.ndarray | float = 0.0,
) -> WeightedSolution:
    """Minimise over beta the value of the QP with ``sum_k beta_k G_k``: (2.13), (4.35).

    For any a, ``max over beta of beta'q = |q|``, the norm dual to p. So the multipliers a of the QP
    at beta are feasible in the dual, and ``(|q| - beta'q) / 2`` is the gap of beta.

    ``grams`` (M, m, m) are products of the cuts in each kernel's features, and ``constant`` (m, m)
    those in the intercepts' feature, whose weight is 1; all are divided by alpha. The search starts
    from ``multipliers`` and ``weights``, and ends at the gap ``tol``, relative to the value, or
    after solving ``rounds`` QPs.

    Examples
    --------
    >>> grams = np.array([[[4.0]], [[0.0]]])
    >>> solve_weights(grams, np.array([1.0]), 2.0).weights.round(2)
    array([1., 0.])
    """
    beta = normalised(np.ones(len(grams)) if weights is None else weights, p)
    best: WeightedSolution | None = None
    for round_ in range(1, rounds + 1):
        gram = np.tensordot(beta, grams, 1) + constant
        bound = balance.at(beta) if isinstance(balance, BlockBalance) else balance
        solution = solve_qp(gram, gains, start=multipliers, balance=bound)
        multipliers = solution.multipliers
        q = multipliers @ grams @ multipliers
        if isinstance(balance, BlockBalance):
            q = balance.correct(q, solution)
        q = np.maximum(q, 0.0)
        norm = top = float(q.max())
        if p > 1 and top > 0:  # the norm dual to p, free of overflow
            norm = float(top * ((q / top) ** (p / (p - 1.0))).sum() ** ((p - 1.0) / p))
        gap = 0.5 * (norm - float(beta @ q))
        if best is None or gap < best.gap:
            best = WeightedSolution(beta, solution, solution.value - gap, gap, round_)
        # A value near 0 is only as precise as the QP.
        if gap <= max(tol * solution.value, solution.gap, 1e-300) or top <= 0:
            break
        beta = _next_weights(beta, q / top, p)
    assert best is not None
    return replace(best, rounds=round_)


def _next_weights(beta: np.ndarray, q: np.ndarray, p: float) -> np.ndarray:
    """Return weights closer to the maximiser of beta'q, beta_k^(p-1) ~ q_k.

    For p >= 3/2 this is a step of half the distance. Near p = 1 the maximiser is a single kernel;
    then it is a step to the weights that are best for the model of the QP, over-relaxed:
    beta_k^(p+1) ~ |V_k|^2 ~ beta_k^2 q_k.
    """
    if p >= 1.5:
        return normalised(0.5 * (beta + normalised(q ** (1.0 / (p - 1.0)), p)), p)
    best = (beta * beta * q) ** (1.0 / (p + 1.0))
    ratio = np.divide(best, beta, out=np.zeros_like(beta), where=beta > 1e-100)
    return normalised(beta * ratio**OVERRELAXATION, p)


def normalised(weights: np.ndarray, p: float) -> np.ndarray:
    """Return the weights, scaled to p-norm one."""
    length = float((weights**p).sum() ** (1.0 / p))
    return weights / length


def solve_cone_program(
    vectors: np.ndarray, gains: np.ndarray, blocks: tuple[slice, ...], alpha: float, p: int
) -> tuple[float, np.ndarray, np.ndarray]:
    """Solve the subproblem as the paper does: the second-order cone program (2.14), by clarabel.

    Returns its value, the coefficients (k, r) and the multipliers of the cuts. The variables are V,
    beta, the upper bounds t_k of |V_k|^2 / beta_k, and xi. The best V_k is a linear combination of
    the cuts, so V_k has coordinates in their span, which has at most m dimensions instead of k r.
    """
    import clarabel

    m, k, r = vectors.shape
    count = len(blocks)
    in_blocks = [vectors[:, :, block].reshape(m, -1) for block in blocks]
    bases = [np.linalg.qr(part.T)[0] for part in in_blocks]
    cuts = np.hstack([part @ basis for part, basis in zip(in_blocks, bases)])
    width = cuts.shape[1]
    ends = np.cumsum([0, *(basis.shape[1] for basis in bases)])
    beta, t, xi = width, width + count, width + 2 * count
    size = xi + 1
    cost = np.zeros(size)
    cost[t:xi], cost[xi] = 0.5 * alpha, 1.0
    # Cuts, xi >= 0, beta >= 0.
    linear = np.zeros((m + 1 + count, size))
    linear[:m, :width], linear[:m, xi] = -cuts, -1.0
    linear[m, xi] = -1.0
    linear[m + 1 :, beta:t] = -np.eye(count)
    parts, right = [linear], [np.concatenate([-gains, np.zeros(1 + count)])]
    cones = [clarabel.NonnegativeConeT(m + 1 + count)]
    if p == 1:
        row = np.zeros((1, size))
        row[0, beta:t] = 1.0
        parts, right = [*parts, row], [*right, np.ones(1)]
        cones.append(clarabel.NonnegativeConeT(1))
    else:
        ball = np.zeros((1 + count, size))
        ball[1:, beta:t] = -np.eye(count)
        parts, right = [*parts, ball], [*right, np.eye(1 + count)[0]]
        cones.append(clarabel.SecondOrderConeT(1 + count))
    for j in range(count):
        mine = np.arange(ends[j], ends[j + 1])
        cone = np.zeros((2 + len(mine), size))  # |(2 V_k, beta_k - t_k)| <= beta_k + t_k, (2.15)
        cone[0, beta + j], cone[0, t + j] = -1.0, -1.0
        cone[1, beta + j], cone[1, t + j] = -1.0, 1.0
        cone[np.arange(2, 2 + len(mine)), mine] = -2.0
        parts.append(cone)
        right.append(np.zeros(len(cone)))
        cones.append(clarabel.SecondOrderConeT(len(cone)))
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-10
    matrix = sparse.csc_matrix(np.vstack(parts))
    empty = sparse.csc_matrix((size, size))
    solver = clarabel.DefaultSolver(empty, cost, matrix, np.concatenate(right), cones, settings)
    solution = solver.solve()
    if "Solved" not in str(solution.status):
        warnings.warn(
            f"clarabel did not solve a cone program ({solution.status}): the penalty may be too "
            "weak. Raise alpha, or use solver='qp'.",
            ConvergenceWarning,
            stacklevel=2,
        )
    x = np.array(solution.x)
    coef = np.zeros((k, r))
    for j, (block, basis) in enumerate(zip(blocks, bases)):
        coef[:, block] = (basis @ x[ends[j] : ends[j + 1]]).reshape(k, -1)
    # Multipliers of an interior point method are never zero; without zeros no cut is dropped.
    multipliers = np.array(solution.z)[:m]
    multipliers[multipliers < UNUSED] = 0.0
    return float(solution.obj_val), coef, multipliers
