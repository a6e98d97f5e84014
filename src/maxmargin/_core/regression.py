"""Regularised regression on labels in feature space: LS-SVM, SVR and SVM on one factorisation.

    min over w, b of   alpha/2 |w|^2 + sum_i share_i L(y_i, w'z_i + b)

with centred features and shares that add up to one. The spectrum of ``Z' diag(share) Z`` is
computed once; it serves every alpha and labelling, and gives the effective degrees of freedom.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq

from .interrupt import interruptible
from .lapack import eigh
from .rows import Rows, concat, sum_block, weighted_gram, weighted_sum

RELAXATION = 1.6
CHECK_EVERY = 10
MAX_ITER = 5000
LEAST_GAP = 1e-13  # below it a relative duality gap is rounding
PROGRESS, PATIENCE = 0.9, 1000  # stop if the gap does not fall to this share in these iterations


@dataclass(frozen=True)
class Factor:
    """Centred rows, their shares and the spectrum of their covariance."""

    rows: Rows
    shares: np.ndarray
    eigenvalues: np.ndarray
    eigenvectors: np.ndarray

    @property
    def noise(self) -> float:
        """Precision to which the eigenvalues are known."""
        return float(np.finfo(self.rows.dtype).eps * self.eigenvalues.max(initial=0.0))

    def ridge(self, right_side: np.ndarray, shrinkage: float) -> np.ndarray:
        """``(Z' diag(share) Z + shrinkage I)^-1 right_side``."""
        V, lam = self.eigenvectors, self.eigenvalues
        shrinkage = max(shrinkage, self.noise)  # less would blow up the noise of eigenvalues
        return V @ ((V.T @ right_side) / (lam + shrinkage))


def factorise(rows: Rows, weights: np.ndarray) -> Factor:
    """Spectrum of the weighted covariance of centred rows."""
    shares = weights / weights.sum()
    lam, V = interruptible(rows.shape[1], eigh, weighted_gram(rows, shares))
    return Factor(rows, shares, np.maximum(lam, 0.0), V)


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

    def excess(log_shrinkage):
        return degrees_of_freedom(eigenvalues, np.exp(log_shrinkage)) - dof

    low, high = np.log(top) - 40.0, np.log(top) + 40.0
    if excess(low) <= 0:
        return float(np.exp(low))
    return float(np.exp(brentq(excess, low, high)))


def fit_squared(factor: Factor, targets: np.ndarray, alpha: float) -> tuple[np.ndarray, float]:
    """LS-SVM with loss (f - y)^2: coefficients and bias, which centred features keep apart."""
    codes = factor.shares * targets
    right_side = weighted_sum(factor.rows, codes[:, None])[0]
    return factor.ridge(right_side, 0.5 * alpha), float(codes.sum())


@dataclass(frozen=True)
class PiecewiseFit:
    """Coefficients of an SVM or SVR, how well it is solved, and what warm-starts the next one.

    ``dual / step`` is a subgradient of the loss of each row.
    """

    coef: np.ndarray
    bias: float
    gap: float
    target: np.ndarray
    dual: np.ndarray
    step: float


def fit_piecewise(
    factor: Factor,
    signs: np.ndarray,
    kinks: np.ndarray,
    alpha: float,
    gap: float,
    warm: PiecewiseFit | None = None,
) -> PiecewiseFit:
    """SVM or SVR by ADMM on the factor of the LS-SVM, down to a relative duality gap.

    The loss is split from the model by s = Zw + b: the w-step is a ridge regression with shrinkage
    alpha * step, the s-step a proximal step per row. Weighted rows keep one
    threshold because their penalty carries the same weight as their loss.

    Parameters
    ----------
    factor : Factor
    signs : ndarray of shape (n,)
        Labels, -1 or +1.
    kinks : ndarray of shape (4,)
        The loss, from :func:`~maxmargin._core.size_floor.loss_kinks`.
    alpha : float
    gap : float
        Relative duality gap at which to stop. A solver that no longer comes nearer stops as well;
        the solution with the smallest gap is returned.
    warm : PiecewiseFit, optional
        Solution for other labels or another alpha.
    """
    shares, rows = factor.shares, factor.rows
    if warm is None:
        # A step of 1 in the scale of the mean loss is right for most problems.
        target, dual, step = signs.astype(np.float64), np.zeros(len(shares)), 1.0
    else:
        target, dual, step = warm.target, warm.dual, warm.step
    right_side, bias = _right_side(rows, shares, target, dual, 1.0)
    shrunk = 1.0  # by which the dual is to be divided, since its column may not be here
    adapt_at = CHECK_EVERY
    best = PiecewiseFit(np.zeros(rows.shape[1]), bias, np.inf, target, dual, step)
    mark, give_up = np.inf, MAX_ITER
    for iteration in range(1, MAX_ITER + 1):
        coef = factor.ridge(right_side, alpha * step)
        if iteration % CHECK_EVERY == 0:
            point = coef, bias, dual, step * shrunk
            primal, bound = duality_gap(factor, signs, kinks, alpha, *point)
            # w = 0 costs at most 1, so 1e-6 is nothing even where the optimum is 0.
            reached = (primal - bound) / max(primal, 1e-6)
            if reached < best.gap:
                best = PiecewiseFit(coef, bias, reached, target, dual, step)
            if best.gap < PROGRESS * mark:  # the step is adapted ever more rarely, so wait longer
                mark, give_up = best.gap, 2 * iteration + PATIENCE
            if best.gap <= max(gap, LEAST_GAP) or iteration >= give_up:
                break
        columns = shares, signs, target, dual
        given = coef, kinks, bias, step, shrunk
        (target, dual), blocks = rows.run(admm_block, given, columns, (np.float64, np.float64))
        gathered, sums = added_pairs(blocks)
        right_side, bias, shrunk = gathered[0], float(sums[0]), 1.0
        if iteration == adapt_at:
            # Ever rarer, because a step that keeps changing need not converge.
            adapt_at *= 2
            ratio = _residual_ratio(sums)
            if not 0.5 <= ratio <= 2.0:
                shrunk, step = ratio, step / ratio
                right_side, bias = _right_side(rows, shares, target, dual, shrunk)
    return best


def _right_side(rows: Rows, shares, target, dual, shrunk: float) -> tuple[np.ndarray, float]:
    """Return the right side of the ridge step, and the bias."""
    columns = shares, target, dual
    gathered, bias = added_pairs(rows.run(code_block, (shrunk,), columns)[1])
    return gathered[0], float(bias)


def code_block(block, parts, shrunk):
    """Block function: weighted sum of rows by ``share * (s - u)``, and of these codes."""
    shares, target, dual = parts
    codes = shares * (target - dual / shrunk)
    return (), (sum_block(block, (codes,))[1], block.xp.sum(codes))


def admm_block(block, parts, coef, kinks, bias, step, shrunk):
    """Block function: one ADMM update of the rows: over-relax, proximal step, dual update.

    Makes the new s and u; sums ``weight * (s - u)`` over the rows, whose weighted sum is the right
    side of the next ridge step, and the weighted squares of f - s, of the change of s, of s, of u.
    """
    shares, signs, target, dual = parts
    xp, columns = block.xp, block.send(coef[:, None])
    near, kept, gathered, sums = [], [], None, 0.0
    for where, tile in block.tiles():
        fitted = xp.asarray(tile.scores(columns)[:, 0], dtype=xp.float64) + bias
        w, s = shares[where], target[where]
        point = RELAXATION * fitted + (1.0 - RELAXATION) * s + dual[where] / shrunk
        low, high = _zone(signs[where], kinks, xp)
        # The proximal point of a loss with slope one outside [low, high].
        outside = point - xp.minimum(xp.maximum(point, low), high)
        new = point - xp.clip(outside, -step, step)
        u = point - new
        part = tile.weighted_sum((w * (new - u))[:, None])
        gathered = part if gathered is None else gathered + part
        squares = ((fitted - new) ** 2, (new - s) ** 2, new**2, u**2)
        sums = sums + xp.stack([xp.sum(w * (new - u)), *(xp.sum(w * q) for q in squares)])
        near.append(new)
        kept.append(u)
    return (concat(near, xp), concat(kept, xp)), (xp.asarray(gathered, dtype=xp.float64), sums)


def _zone(signs, kinks, xp):
    """Return the bounds between which a row of each sign costs nothing."""
    positive = signs > 0
    ends = [xp.full(positive.shape, float(kink), dtype=xp.float64) for kink in kinks]
    if xp is not np:
        ends = [xp.asarray(end, device=signs.device) for end in ends]
    return xp.where(positive, ends[2], ends[0]), xp.where(positive, ends[3], ends[1])


def added_pairs(blocks):
    """Return the sums of two quantities over all blocks, in order."""
    total = None
    for pair in blocks:
        total = pair if total is None else tuple(a + b for a, b in zip(total, pair))
    return total


def _residual_ratio(sums: np.ndarray) -> float:
    """Relative primal over relative dual residual, by which 1 / step should grow."""
    _, misfit, moved, target, dual = sums
    ratio = (misfit * dual) / max(moved * target, 1e-300)
    return float(np.clip(ratio**0.25, 0.1, 10.0))


def duality_gap(factor, signs, kinks, alpha, coef, bias, dual, step) -> tuple[float, float]:
    """Primal value at (w, b) and the value of a feasible dual point made from subgradients.

    A dual point has one number p_i per row in the box of its loss, with sum share_i p_i = 0. The
    heavier of the positive and the negative part is scaled down, which keeps p inside its box, and
    then the whole point to its best length.
    """
    given, columns = (coef, kinks, bias, step), (factor.shares, signs, dual)
    parts, sums = added_pairs(factor.rows.run(gap_block, given, columns)[1])
    loss, up_value, up_mass, down_value, down_mass = sums
    primal = 0.5 * alpha * float(coef @ coef) + loss
    mass = min(up_mass, down_mass)
    if mass <= 0:
        return primal, 0.0
    up, down = mass / up_mass, mass / down_mass
    linear = up * up_value + down * down_value
    direction = up * parts[0] - down * parts[1]
    quadratic = float(direction @ direction) / alpha
    length = 1.0 if quadratic <= 0 else min(1.0, max(0.0, -linear / quadratic))
    return primal, -length * linear - 0.5 * length**2 * quadratic


def gap_block(block, parts, coef, kinks, bias, step):
    """Block function: primal loss, conjugates and dual masses of the rows, for the duality gap.

    For the subgradient p = u / step of each row's loss: weighted sums of rows by max(p, 0) and
    max(-p, 0); the loss, and conjugate value and mass of both parts.
    """
    shares, signs, dual = parts
    xp, columns = block.xp, block.send(coef[:, None])
    gathered, sums = None, 0.0
    for where, tile in block.tiles():
        fitted = xp.asarray(tile.scores(columns)[:, 0], dtype=xp.float64) + bias
        w, p = shares[where], dual[where] / step
        low, high = _zone(signs[where], kinks, xp)
        nothing = xp.zeros_like(p)
        loss = xp.maximum(nothing, xp.maximum(low - fitted, fitted - high))
        up, down = w * xp.maximum(p, nothing), w * xp.maximum(-p, nothing)
        part = tile.weighted_sum(xp.stack([up, down], axis=1))
        gathered = part if gathered is None else gathered + part
        # Where p = 0 a bound may be infinite: 0 inf = 0 here.
        rising = xp.where(up > 0, up * xp.where(up > 0, high, nothing), nothing)
        falling = xp.where(down > 0, down * xp.where(down > 0, low, nothing), nothing)
        parts_of_sum = [w * loss, rising, up, -falling, down]
        sums = sums + xp.stack([xp.sum(part) for part in parts_of_sum])
    return (), (xp.asarray(gathered, dtype=xp.float64), sums)
