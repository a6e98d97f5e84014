"""Regularised regression on labels in feature space: LS-SVM, SVR and SVM on one factorisation.

    min over w, b of   alpha/2 |w|^2 + sum_i share_i L(y_i, w'z_i + b)

with centred features and shares that add up to one. The spectrum of ``Z' diag(share) Z`` is
computed once; it serves every alpha and labelling, and gives the effective degrees of freedom.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq

from ..kernels.regression import admm_rule, gap_rule
from .lapack import eigh
from .patience import interruptible
from .rows import Rows, sweep, weighted_gram, weighted_sum

RELAXATION = 1.6
CHECK_EVERY = 10
MAX_ITER = 5000


@dataclass(frozen=True)
class Factor:
    """Centred rows, their shares and the spectrum of their covariance."""

    rows: Rows
    shares: np.ndarray
    eigenvalues: np.ndarray
    eigenvectors: np.ndarray

    def ridge(self, right_side: np.ndarray, shrinkage: float) -> np.ndarray:
        """``(Z' diag(share) Z + shrinkage I)^-1 right_side``."""
        V, lam = self.eigenvectors, self.eigenvalues
        # Eigenvalues are known to this precision: less would blow up their noise.
        shrinkage = max(shrinkage, float(np.finfo(self.rows.dtype).eps * lam.max(initial=0.0)))
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
    alpha * step, the s-step a proximal step per row (``admm_rule``). Weighted rows keep one
    threshold because their penalty carries the same weight as their loss.

    Parameters
    ----------
    factor : Factor
    signs : ndarray of shape (n,)
        Labels, -1 or +1.
    kinks : ndarray of shape (4,)
        The loss, from :func:`~maxmargin.engine.balance.loss_kinks`.
    alpha : float
    gap : float
        Relative duality gap at which to stop.
    warm : PiecewiseFit, optional
        Solution for other labels or another alpha.
    """
    shares = factor.shares
    if warm is None:
        # A step of 1 in the scale of the mean loss is right for most problems.
        target, dual, step = signs.astype(np.float64), np.zeros(len(shares)), 1.0
    else:
        target, dual, step = warm.target.copy(), warm.dual.copy(), warm.step
    codes = np.empty((len(shares), 1))
    codes[:, 0] = shares * (target - dual)
    right_side, bias = weighted_sum(factor.rows, codes)[0], float(codes.sum())

    def rule(tile_scores, where):
        sums = np.empty(5)
        admm_rule(
            tile_scores, shares[where], signs[where], target[where], dual[where],
            kinks, bias, RELAXATION, step, codes[where], sums,
        )  # fmt: skip
        return codes[where], sums

    adapt_at = CHECK_EVERY
    for iteration in range(1, MAX_ITER + 1):
        coef = factor.ridge(right_side, alpha * step)
        if iteration % CHECK_EVERY == 0:
            primal, bound = duality_gap(factor, signs, kinks, alpha, coef, bias, dual / step)
            # w = 0 costs at most 1, so 1e-6 is nothing even where the optimum is 0.
            reached = (primal - bound) / max(primal, 1e-6)
            if reached <= gap:
                break
        gathered, sums = sweep(factor.rows, coef[None, :], rule)
        right_side, bias = gathered[0], float(sums[0])
        if iteration == adapt_at:
            # Ever rarer, because a step that keeps changing need not converge.
            adapt_at *= 2
            ratio = _residual_ratio(sums)
            if not 0.5 <= ratio <= 2.0:
                dual /= ratio
                step /= ratio
                codes[:, 0] = shares * (target - dual)
                right_side, bias = weighted_sum(factor.rows, codes)[0], float(codes.sum())
    return PiecewiseFit(coef, bias, reached, target, dual, step)


def _residual_ratio(sums: np.ndarray) -> float:
    """Relative primal over relative dual residual, by which 1 / step should grow."""
    _, misfit, moved, target, dual = sums
    ratio = (misfit * dual) / max(moved * target, 1e-300)
    return float(np.clip(ratio**0.25, 0.1, 10.0))


def duality_gap(factor, signs, kinks, alpha, coef, bias, subgradient) -> tuple[float, float]:
    """Primal value at (w, b) and the value of a feasible dual point made from subgradients.

    A dual point has one number p_i per row in the box of its loss, with sum share_i p_i = 0. The
    heavier of the positive and the negative part is scaled down, which keeps p inside its box, and
    then the whole point to its best length.
    """
    shares = factor.shares

    def rule(tile_scores, where):
        codes, sums = np.empty((tile_scores.shape[0], 2)), np.empty(5)
        gap_rule(
            tile_scores, shares[where], signs[where], subgradient[where], kinks, bias, codes, sums
        )
        return codes, sums

    parts, sums = sweep(factor.rows, coef[None, :], rule)
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
