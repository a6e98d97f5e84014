r"""Alternating maximum margin clustering with SVM, SVR or LS-SVM.

Zhang, Tsang & Kwok, "Maximum Margin Clustering Made Practical", IEEE Transactions on Neural
Networks 20(4), 2009. Two clusters, labels y in {-1, +1}:

.. math::
    \min_{y, w, b}\; \frac{\alpha}{2} |w|^2 + \frac{1}{n} \sum_i L(y_i, w'z_i + b)
    \quad\text{with at least ``balance * n / 2`` rows on either side.}

The method alternates between a regression on the labels (w, b given y) and the best balanced labels
and bias (y, b given w). With the hinge loss the labels freeze near the start, because rows far on
their own side pull the fit; losses that also punish over-confident scores set them free.

==============================================  ====================================================
in the paper                                    here
==============================================  ====================================================
(1) class balance                               ``engine.balance.size_floor``; see Notes of the class
(2) the margin problem                          ``Stage`` with ``loss="hinge"``
(8), (9), Propositions 1 and 2, section III-D   ``engine.balance.balanced_split``
Algorithm 1 (iterSVM)                           ``Stage.step``, ``loss="hinge"``
Algorithm 2 (iterSVR), Laplacian loss           ``Stage.step``, ``loss="laplacian"``
section III-B.2, nonzero epsilon                ``epsilon``
section III-C (iterLS-SVM)                      ``Stage.step``, ``loss="squared"``
SVM / SVR training (step 2)                     ``solve_piecewise`` (ADMM with a duality gap)
LS-SVM training (step 2)                        ``solve_squared``
section III-B, "a sparse classification model"  ``AlternatingMarginClustering.to_svm``
section IV-C, recursive splits                  ``bisecting.grow_tree``
Appendix (CCCP)                                 ``loss="hinge", balance=0``
==============================================  ====================================================
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy import linalg
from scipy.optimize import brentq

from .engine.balance import balanced_split, row_losses
from .engine.descent import Outcome, descend
from .engine.rows import Rows, scores, sweep, weighted_gram, weighted_sum
from .kernels.regression import admm_rule, gap_rule

TARGET_DOF = 20.0
ADMM_RELAXATION = 1.6
ADMM_STEP = 1.0  # 1 / rho; rho of 1 to 2 in the scale of the mean loss
ADMM_CHECK = 10
ADMM_MAX_ITER = 2000


@dataclass(frozen=True)
class Problem:
    """Rows, weights and constraints of one two-way split, and the spectrum of its features."""

    rows: Rows
    weights: np.ndarray
    known: np.ndarray
    floor: float
    eigenvalues: np.ndarray
    eigenvectors: np.ndarray
    epsilon: float

    @property
    def shares(self) -> np.ndarray:
        """Weights that add up to one."""
        return self.weights / self.weights.sum()

    def ridge(self, right_side: np.ndarray, shrinkage: float) -> np.ndarray:
        """``(Z'Z / n + shrinkage I)^-1 right_side``: labels touch only the right-hand side."""
        V, lam = self.eigenvectors, self.eigenvalues
        return V @ ((V.T @ right_side) / (lam + shrinkage))


@dataclass(frozen=True)
class State:
    """Labels and model after a step. ``target`` and ``dual`` warm-start the next regression."""

    signs: np.ndarray
    coef: np.ndarray
    bias: float
    threshold_bias: float
    objective: float
    target: np.ndarray | None = None
    dual: np.ndarray | None = None


@dataclass(frozen=True)
class Stage:
    """The alternation at a fixed alpha and loss."""

    problem: Problem
    loss: str
    alpha: float
    gap: float = 1e-4

    def init(self, signs: np.ndarray) -> State:
        """A state that has labels but no model yet."""
        width = self.problem.rows.shape[1]
        return State(signs.astype(np.int8), np.zeros(width), 0.0, 0.0, np.inf)

    def step(self, state: State) -> State:
        """Regression on the labels, then the best balanced labels for its scores."""
        solve = solve_squared if self.loss == "squared" else solve_piecewise
        coef, target, dual = solve(self, state)
        return self.relabel(coef, target, dual)

    def relabel(self, coef, target=None, dual=None) -> State:
        """Best labels and bias for given coefficients: equations (8) and (9)."""
        p = self.problem
        split = balanced_split(
            scores(p.rows, coef[None, :])[:, 0],
            self.loss,
            floor=p.floor,
            weights=p.weights,
            epsilon=p.epsilon,
            known=p.known,
        )
        value = 0.5 * self.alpha * float(coef @ coef) + split.cost / p.weights.sum()
        return State(split.signs, coef, split.bias, split.threshold_bias, value, target, dual)

    def objective(self, state: State) -> float:
        """``alpha/2 |w|^2`` plus the mean loss."""
        return state.objective

    def change(self, old: State, new: State) -> float:
        """Share of the weight that changed sides."""
        return float(self.problem.shares[old.signs != new.signs].sum())


def solve_squared(stage: Stage, state: State):
    """LS-SVM: with centred features the bias drops out, and one factorisation serves all labels."""
    p = stage.problem
    right_side = weighted_sum(p.rows, (p.shares * state.signs)[:, None])[0]
    return p.ridge(right_side, 0.5 * stage.alpha), None, None


def solve_piecewise(stage: Stage, state: State):
    """SVM or SVR training by ADMM on the factor of the LS-SVM, to a relative duality gap.

    Splits s = Zw + b from the loss: the w-step is a ridge regression with shrinkage alpha / rho,
    the s-step a proximal step per row (``admm_rule``). Weighted rows keep one threshold because
    their penalty carries the same weight as their loss.
    """
    from .engine.balance import loss_kinks

    p, alpha, step = stage.problem, stage.alpha, ADMM_STEP
    shares, kinks = p.shares, loss_kinks(stage.loss, p.epsilon)
    if state.target is None:
        target, dual = state.signs.astype(np.float64), np.zeros(len(shares))
    else:
        target, dual = state.target.copy(), state.dual.copy()
    codes = np.empty((len(shares), 1))
    start = (shares * (target - dual))[:, None]
    right_side, bias = weighted_sum(p.rows, start)[0], float(start.sum())

    def rule(tile_scores, where):
        total = admm_rule(
            tile_scores, shares[where], state.signs[where], target[where], dual[where],
            kinks, bias, ADMM_RELAXATION, step, codes[where],
        )  # fmt: skip
        return codes[where], total

    for iteration in range(1, ADMM_MAX_ITER + 1):
        coef = p.ridge(right_side, alpha * step)
        if iteration % ADMM_CHECK == 0:
            primal, dual_value = duality_gap(stage, state.signs, coef, bias, dual)
            if primal - dual_value <= stage.gap * abs(primal):
                break
        gathered, bias = sweep(p.rows, coef[None, :], rule)
        right_side = gathered[0]
    return coef, target, dual


def duality_gap(stage: Stage, signs, coef, bias, dual) -> tuple[float, float]:
    """Primal value at (w, b) and the value of a feasible dual point made from the ADMM dual.

    The dual needs sum p = 0: the heavier of the positive and the negative part is scaled down, which
    keeps every p inside its box, and then the whole point to the best length.
    """
    from .engine.balance import loss_kinks

    p, shares = stage.problem, stage.problem.shares
    kinks = loss_kinks(stage.loss, p.epsilon)

    def rule(tile_scores, where):
        codes, sums = np.empty((tile_scores.shape[0], 2)), np.empty(5)
        gap_rule(
            tile_scores, shares[where], signs[where], dual[where], kinks, bias, ADMM_STEP,
            codes, sums,
        )  # fmt: skip
        return codes, sums

    parts, sums = sweep(p.rows, coef[None, :], rule)
    loss, up_value, up_mass, down_value, down_mass = sums
    primal = 0.5 * stage.alpha * float(coef @ coef) + loss
    mass = min(up_mass, down_mass)
    if mass <= 0:
        return primal, 0.0
    up, down = mass / up_mass, mass / down_mass
    linear = up * up_value + down * down_value
    direction = up * parts[0] - down * parts[1]
    quadratic = float(direction @ direction) / stage.alpha
    length = 1.0 if quadratic <= 0 else min(1.0, max(0.0, -linear / quadratic))
    return primal, -length * linear - 0.5 * length**2 * quadratic


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


def make_problem(rows: Rows, weights, known, floor, epsilon) -> Problem:
    """Factor the features once: the same spectrum serves every alpha and every labelling."""
    gram = weighted_gram(rows, weights / weights.sum())
    lam, V = linalg.eigh(gram)
    return Problem(rows, weights, known, floor, np.maximum(lam, 0.0), V, epsilon)
