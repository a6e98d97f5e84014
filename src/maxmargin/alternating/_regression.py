"""Regularised regression on labels in feature space: LS-SVM, SVR and SVM on one factorisation.

    min over w, b of   alpha/2 |w|^2 + sum_i share_i L(y_i, w'z_i + b)

for one labelling of two clusters, or for each of several clusters against the others at the same
time, with centred features and shares that add up to one. The spectrum of ``Z' diag(share) Z`` is
computed once; it serves every alpha and labelling, and gives the effective degrees of freedom.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import brentq
from sklearn.exceptions import ConvergenceWarning

from .._core.rows import Block, Factor, added, concat, sum_block
from .._data.source import BlockResult
from ._numba import admm_rule, gap_rule

RELAXATION = 1.6
CHECK_EVERY, WARMED = 10, 3  # iterations between looks at the gap; first look of a warm start
MAX_ITER = 5000
FARTHEST_STEP = 1e6  # from 1; residuals that are rounding alone would call for ever longer steps
LEAST_GAP = 1e-13  # below it a relative duality gap is rounding
PROGRESS, PATIENCE = 0.9, 500  # stop if the gap does not fall to this share in these iterations


def degrees_of_freedom(eigenvalues: np.ndarray, shrinkage: float) -> float:
    """Effective degrees of freedom of a ridge regression: ``sum lambda / (lambda + shrinkage)``.

    Examples
    --------
    >>> degrees_of_freedom(np.array([1.0, 1.0]), 1.0)
    1.0
    """
    return float((eigenvalues / (eigenvalues + shrinkage)).sum())


def shrinkage_for(eigenvalues: np.ndarray, dof: float) -> float:
    """The shrinkage at which a ridge regression has ``dof`` effective degrees of freedom.

    Examples
    --------
    >>> round(shrinkage_for(np.array([1.0, 1.0]), 1.0), 6)
    1.0
    """
    top = float(eigenvalues[-1])
    if top <= 0:
        return 1.0

    def excess(log_shrinkage: float) -> float:
        return degrees_of_freedom(eigenvalues, np.exp(log_shrinkage)) - dof

    low, high = np.log(top) - 40.0, np.log(top) + 40.0
    if excess(low) <= 0:
        return float(np.exp(low))
    return float(np.exp(brentq(excess, low, high)))


@dataclass(frozen=True)
class PiecewiseFit:
    """Coefficients of m SVMs or SVRs, how well they are solved, and what warm-starts the next ones.

    ``dual / step`` is a subgradient of the loss of each row.
    """

    # coef, bias: (m, r) and (m,)
    coef: np.ndarray
    bias: np.ndarray
    gap: float  # the largest of the relative duality gaps
    # value, bound: (m,): objectives, and numbers that no model can be below
    value: np.ndarray
    bound: np.ndarray
    target: tuple[Any, ...]
    dual: tuple[Any, ...]
    step: np.ndarray  # (m,)


def fit_piecewise(
    factor: Factor,
    labels: np.ndarray,
    kinks: np.ndarray,
    alpha: float,
    gap: float,
    warm: PiecewiseFit | None = None,
    names: tuple[int, ...] = (1,),
    above: float = np.inf,
) -> PiecewiseFit:
    """SVMs or SVRs by ADMM on the factor of the LS-SVM, down to a relative duality gap.

    The loss is split from the model by s = Zw + b: the w-step is a ridge regression with shrinkage
    alpha * step, the s-step a proximal step per row. Weighted rows keep one threshold because their
    penalty carries the same weight as their loss.

    Regression j has the target +1 in rows of label ``names[j]``, -1 in the others; ``kinks`` are
    those of the loss. A solver that no longer comes nearer to the ``gap``, or whose lower bounds
    add up to more than ``above``, stops as well; the solution with the smallest gap is returned.
    ``warm`` is a solution for other labels or another alpha.
    """
    shares, rows, m = factor.shares, factor.rows, len(names)
    if warm is None:
        # A step of 1 in the scale of the mean loss is right for most problems.
        target = tuple(np.where(labels == name, 1.0, -1.0) for name in names)
        dual, step = (np.zeros(len(shares)),) * m, np.ones(m)
    else:
        target, dual, step = warm.target, warm.dual, warm.step
    shrunk = np.ones(m)  # by which the dual is to be divided, since its column may not be here
    right_side, bias = added(rows.run(code_block, (shrunk,), (shares, *target, *dual))[1])
    adapt_at = CHECK_EVERY
    zero = np.zeros((m, rows.shape[1]))
    best = PiecewiseFit(zero, bias, np.inf, np.ones(m), np.zeros(m), target, dual, step)
    mark, give_up = np.inf, MAX_ITER
    for iteration in range(1, MAX_ITER + 1):
        coef = factor.ridge(right_side, alpha * step)
        if iteration % CHECK_EVERY == 0 or (iteration == WARMED and warm is not None):
            point = coef, bias, dual, step * shrunk
            primal, bound = duality_gap(factor, labels, kinks, alpha, *point, names)
            # The objective at w = 0 is at most 1, so 1e-6 is negligible even if the optimum is 0.
            reached = float(((primal - bound) / np.maximum(primal, 1e-6)).max())
            if reached < best.gap:
                best = PiecewiseFit(coef, bias, reached, primal, bound, target, dual, step)
            if best.gap < PROGRESS * mark:  # the step is adapted ever more rarely, so wait longer
                mark, give_up = best.gap, 2 * iteration + PATIENCE
            if best.gap <= max(gap, LEAST_GAP) or iteration >= give_up or bound.sum() > above:
                break
        columns = shares, labels, *target, *dual
        given = coef, names, kinks, bias, step, shrunk
        made, blocks = rows.run(admm_block, given, columns, (np.float64,) * (2 * m))
        target, dual = made[:m], made[m:]
        right_side, sums = added(blocks)
        bias, shrunk = sums[0], np.ones(m)
        if iteration == adapt_at:
            # Less and less often: ADMM need not converge if the step keeps changing.
            adapt_at *= 2
            # Relative primal over relative dual residual, by which 1 / step should grow.
            _, misfit, moved, size, dual_size = sums
            ratio = (misfit * dual_size) / np.maximum(moved * size, 1e-300)
            ratio = np.clip(ratio**0.25, 0.1, 10.0)
            ratio = np.where((ratio < 0.5) | (ratio > 2.0), ratio, 1.0)
            ratio = step / np.clip(step / ratio, 1.0 / FARTHEST_STEP, FARTHEST_STEP)
            if (ratio != 1.0).any():
                shrunk, step = ratio, step / ratio
                found = rows.run(code_block, (shrunk,), (shares, *target, *dual))[1]
                right_side, bias = added(found)
    return best


def code_block(block: Block, parts: Any, shrunk: np.ndarray) -> BlockResult:
    """Block function: weighted sum of rows by ``share * (s - u)``, and of these codes."""
    xp, m = block.xp, len(shrunk)
    target, dual = xp.stack(parts[1 : 1 + m], axis=1), xp.stack(parts[1 + m :], axis=1)
    codes = parts[0][:, None] * (target - dual / block.send(shrunk, xp.float64))
    return (), (sum_block(block, (codes,))[1], xp.sum(codes, axis=0))


def admm_block(
    block: Block,
    parts: Any,
    coef: np.ndarray,
    names: tuple[int, ...],
    kinks: np.ndarray,
    bias: np.ndarray,
    step: np.ndarray,
    shrunk: np.ndarray,
) -> BlockResult:
    """Block function: one ADMM update of the rows: over-relax, proximal step, dual update.

    Makes the new s and u; sums ``weight * (s - u)`` over the rows, whose weighted sum is the right
    side of the next ridge step, and the weighted squares of f - s, of the change of s, of s, of u.
    """
    xp, m, columns = block.xp, len(coef), block.send(coef.T)
    bias, step, shrunk = (block.send(a, xp.float64) for a in (bias, step, shrunk))
    target = xp.stack(parts[2 : 2 + m], axis=1)
    dual = xp.stack(parts[2 + m :], axis=1) / shrunk
    near, kept, gathered, sums = [], [], None, xp.zeros((5, m), dtype=xp.float64)
    for where, tile in block.tiles():
        fitted = xp.asarray(tile.scores(columns), dtype=xp.float64) + bias
        w, label, s, u = parts[0][where], parts[1][where], target[where, :], dual[where, :]
        if xp is np:
            codes = np.empty_like(fitted)
            named, label = np.asarray(names), label.astype(np.int64)  # compiled for one type only
            admm_rule(fitted, w, label, named, s, u, kinks, RELAXATION, step, codes, sums)
        else:
            point = RELAXATION * fitted + (1.0 - RELAXATION) * s + u
            low, high = _zone(label, names, kinks, xp)
            # The proximal point of a loss with slope one outside [low, high].
            outside = point - xp.minimum(xp.maximum(point, low), high)
            new = point - xp.minimum(xp.maximum(outside, -step), step)
            squares = (fitted - new) ** 2, (new - s) ** 2, new**2, (point - new) ** 2
            w = w[:, None]
            s, u = new, point - new
            codes = w * (s - u)
            sums = sums + xp.stack([xp.sum(q, axis=0) for q in (codes, *(w * q for q in squares))])
        part = tile.weighted_sum(codes)
        gathered = part if gathered is None else gathered + part
        near.append(s)
        kept.append(u)
    made = concat([concat(near, xp), concat(kept, xp)], xp, axis=1)
    return tuple(made[:, j] for j in range(2 * m)), (xp.asarray(gathered, dtype=xp.float64), sums)


def _zone(labels: Any, names: tuple[int, ...], kinks: np.ndarray, xp: Any) -> tuple[Any, Any]:
    """Return the bounds between which a row costs nothing, in every column."""
    own = xp.stack([labels == name for name in names], axis=1)
    ends = [xp.full(own.shape, float(k), dtype=xp.float64, device=labels.device) for k in kinks]
    return xp.where(own, ends[2], ends[0]), xp.where(own, ends[3], ends[1])


def duality_gap(
    factor: Factor,
    labels: Any,
    kinks: np.ndarray,
    alpha: float,
    coef: np.ndarray,
    bias: np.ndarray,
    dual: tuple[Any, ...],
    step: np.ndarray,
    names: tuple[int, ...] = (1,),
) -> tuple[np.ndarray, np.ndarray]:
    """Primal values at (w, b) and the values of feasible dual points made from subgradients.

    A dual point has one number p_i per row in the box of its loss, with sum share_i p_i = 0. The
    larger of the positive and the negative part is scaled down, which keeps p inside its box, and
    then the whole point is scaled optimally.
    """
    given, columns = (coef, names, kinks, bias, step), (factor.shares, labels, *dual)
    parts, sums = added(factor.rows.run(gap_block, given, columns)[1])
    loss, up_value, up_mass, down_value, down_mass = sums
    primal = 0.5 * alpha * (coef * coef).sum(axis=1) + loss
    mass = np.minimum(up_mass, down_mass)
    some = np.where(mass > 0, mass, 0.0)
    up, down = some / np.maximum(up_mass, 1e-300), some / np.maximum(down_mass, 1e-300)
    linear = up * up_value + down * down_value
    direction = up[:, None] * parts[: len(coef)] - down[:, None] * parts[len(coef) :]
    quadratic = (direction * direction).sum(axis=1) / alpha
    length = np.clip(-linear / np.where(quadratic > 0, quadratic, 1.0), 0.0, 1.0)
    length = np.where(quadratic > 0, length, 1.0)
    return primal, -length * linear - 0.5 * length**2 * quadratic


def gap_block(
    block: Block,
    parts: Any,
    coef: np.ndarray,
    names: tuple[int, ...],
    kinks: np.ndarray,
    bias: np.ndarray,
    step: np.ndarray,
) -> BlockResult:
    """Block function: primal loss, conjugates and dual masses of the rows, for the duality gap.

    For the subgradient p = u / step of each row's loss: weighted sums of rows by max(p, 0) and
    max(-p, 0); the loss, and conjugate value and mass of both parts.
    """
    xp, columns = block.xp, block.send(coef.T)
    bias, step = (block.send(a, xp.float64) for a in (bias, step))
    subgradients = xp.stack(parts[2:], axis=1) / step
    gathered, sums = None, xp.zeros((5, len(coef)), dtype=xp.float64)
    for where, tile in block.tiles():
        fitted = xp.asarray(tile.scores(columns), dtype=xp.float64) + bias
        w, label, p = parts[0][where], parts[1][where], subgradients[where, :]
        if xp is np:
            codes = np.empty((len(w), 2 * len(coef)))
            label = label.astype(np.int64)
            gap_rule(fitted, w, label, np.asarray(names), p, kinks, codes, sums)
        else:
            low, high = _zone(label, names, kinks, xp)
            nothing, w = xp.zeros_like(p), w[:, None]
            loss = xp.maximum(nothing, xp.maximum(low - fitted, fitted - high))
            up, down = w * xp.maximum(p, nothing), w * xp.maximum(-p, nothing)
            codes = concat([up, down], xp, axis=1)
            # Where p = 0 a bound may be infinite: 0 inf = 0 here.
            rising = xp.where(up > 0, up * xp.where(up > 0, high, nothing), nothing)
            falling = xp.where(down > 0, down * xp.where(down > 0, low, nothing), nothing)
            of_sum = [w * loss, rising, up, -falling, down]
            sums = sums + xp.stack([xp.sum(q, axis=0) for q in of_sum])
        part = tile.weighted_sum(codes)
        gathered = part if gathered is None else gathered + part
    return (), (xp.asarray(gathered, dtype=xp.float64), sums)


def warn_unsolved(fit: PiecewiseFit | None, gap: float) -> None:
    """Warn if the regression did not reach its gap."""
    if fit is not None and fit.gap > gap:
        warnings.warn(
            f"The regression on the final labels reached a relative duality gap of "
            f"{fit.gap:.2g}, not solver_tol={gap:g}. Raise solver_tol or alpha.",
            ConvergenceWarning,
            stacklevel=2,
        )
