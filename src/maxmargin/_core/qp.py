r"""A pool of cuts, and the small quadratic program over it, with a certificate.

Cut c is the lower bound ``gain_c - <A_c, W>`` of the loss. The best W for a pool of cuts

.. math::
    \min_{W, \xi \ge 0}\; \tfrac{1}{2} |W|^2 + \xi \quad\text{with}\quad \xi \ge g_c - <A_c, W>

is W = sum_c a_c A_c, where the multipliers a solve the dual over the capped simplex

.. math::
    \max_{a \ge 0,\; 1'a \le 1}\; g'a - \tfrac{1}{2} a' H a, \qquad H_{cd} = <A_c, A_d>

With ``alpha/2 |W|^2`` instead, H and W are divided by alpha. :class:`CutPool` keeps the vectors A_c
and their products, and drops cuts that have not been used for a while. The value of the dual is a
lower bound on the problem with all cuts.

A bound l on the differences of the clusters' mean scores (equation (16) of Zhao, Wang & Zhang)
adds multipliers tau, one per cluster, with the cost l/2 |tau|_1; see :class:`ScoreBalance`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ._numba_qp import capped_active_set, certified_active_set, complete

SHIFT, GOLDEN = 1e-10, 0.6180339887498949  # of right-hand sides that are zero: see _start
NOISE = 2e-16  # relative rounding error of the gradient
ATTEMPTS, GIVE_UP = 5, 1e-9  # shifts tried until the optimality conditions hold
IDLE = 10  # solutions without use after which a cut is dropped
FIRST_ROOM = 8  # cuts for which a pool has room at first
_Program = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]  # H, q, E, e


@dataclass(frozen=True)
class ScoreBalance:
    """The bound on the differences of mean scores, in terms of the cuts.

    The mean score of cluster p is ``<w_p, s> + b_p`` with the mean row s; it must lie within
    ``bound / 2`` of a common value. Either there are no intercepts b, and the multipliers enter the
    quadratic part (``cross``, ``square``), or the rows are centred, s = 0, and the intercepts are
    free: then tau = sum_c a_c shares_c.
    """

    bound: float  # l, on the difference of two mean scores
    # (m, k): ``<A_c[p], s>``, or the share of the rows that cut c adds to cluster p less those that
    # it takes away (the sum of A_c's codes), where intercepts are free
    cross: np.ndarray
    square: float | None  # ``|s|^2``; None where intercepts are free


@dataclass(frozen=True)
class QpSolution:
    """Multipliers and their optimality gap."""

    multipliers: np.ndarray  # (m,): a, one per cut
    tau: np.ndarray  # (k,): multipliers of the score balance; empty without one
    intercept: np.ndarray  # (k,): free intercepts; zeros where there are none
    value: float  # value of the dual, a lower bound on the problem over all cuts
    residual: float  # largest violation of the optimality conditions, relative to the largest gain
    gap: float  # value of the primal problem over these cuts minus ``value``
    n_iter: int


def solve_qp(
    gram: np.ndarray,
    gains: np.ndarray,
    *,
    start: np.ndarray | None = None,
    balance: ScoreBalance | None = None,
    tol: float = 1e-12,
) -> QpSolution:
    """Best multipliers of the cuts, given their products and their gains at W = 0.

    ``start`` are multipliers of the first cuts, from an earlier solution. Reduced gradients up to
    ``tol``, relative to the largest gain, count as zero.

    Examples
    --------
    >>> solution = solve_qp(np.array([[4.0]]), np.array([1.0]))
    >>> solution.multipliers, solution.value
    (array([0.25]), 0.125)
    """
    m, report = len(gains), np.empty(3)
    if balance is None:
        x = np.zeros(m + 1)
        if start is not None:
            x[: len(start)] = start
        n_iter = capped_active_set(np.ascontiguousarray(gram), gains, x, tol, NOISE, report)
        value, gap, residual = report.tolist()
        return QpSolution(x[:m], np.zeros(0), np.zeros(0), value, residual, gap, n_iter)
    n_iter, (H, q, E, e) = 0, _balanced(gram, gains, balance)
    for attempt in range(ATTEMPTS):
        x, y, shifted = _start(start if attempt == 0 else None, m, e, balance, attempt)
        most = 50 + 20 * len(q)
        given = H, q, E, shifted, e, x, y, m + 1, tol, NOISE, most, report
        n_iter += certified_active_set(*given)
        if report[2] <= GIVE_UP:
            break
    value, gap, residual = report.tolist()
    k, square = balance.cross.shape[1], balance.square
    tau, intercept = x[m + 1 : m + 1 + k] - x[m + 1 + k :], np.zeros(k)
    if square is None:
        intercept = y[1:]
    elif square > 0:  # tau was counted in units of 1/|s|
        tau = tau / np.sqrt(square)
    return QpSolution(x[:m], tau, intercept, value, residual, gap, n_iter)


def _start(
    multipliers: np.ndarray | None, m: int, e: np.ndarray, balance: ScoreBalance, attempt: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Feasible x, zero y, and the right-hand side shifted far below the tolerance.

    Equations of tau that hold with zeros alone would stop every step. A shift leaves each of them a
    positive variable; where the cuts are so regular that it still stops, another one does not.
    """
    k = balance.cross.shape[1]
    x, e = np.zeros(m + 1 + 2 * k), e.copy()
    if multipliers is not None:
        x[: len(multipliers)] = multipliers
    complete(x[: m + 1])
    shift = SHIFT * (1.0 + (GOLDEN * (attempt + 1) * np.arange(len(e) - 1)) % 1.0)
    e[1:] = shift if balance.square is None else -shift
    excess = np.zeros(k)
    if balance.square is None:
        excess = balance.cross.T @ x[:m] - shift
    else:
        excess[attempt % k] = -shift[0]
    x[m + 1 : m + 1 + k] = np.maximum(excess, 0.0)
    x[m + 1 + k :] = np.maximum(-excess, 0.0)
    return x, np.zeros(len(e)), e


def _balanced(gram: np.ndarray, gains: np.ndarray, balance: ScoreBalance) -> _Program:
    """Variables a, slack, then the positive and the negative part of tau."""
    m, k = balance.cross.shape
    size = m + 1 + 2 * k
    up, down = slice(m + 1, m + 1 + k), slice(m + 1 + k, size)
    H, q = np.zeros((size, size)), np.zeros(size)
    H[:m, :m], q[:m] = gram, gains
    q[m + 1 :] = -0.5 * balance.bound
    cap = np.zeros((1, size))
    cap[0, : m + 1] = 1.0
    if balance.square is None:
        equal = np.zeros((k, size))
        equal[:, :m], equal[:, up], equal[:, down] = balance.cross.T, -np.eye(k), np.eye(k)
        return H, q, np.concatenate([cap, equal]), np.concatenate([[1.0], np.zeros(k)])
    # tau is counted in units of 1/|s|, as if s had length one: else H mixes scales.
    length = np.sqrt(balance.square)
    unit = 1.0 / length if length > 0 else 0.0
    q[m + 1 :] *= unit
    for part, sign in ((up, 1.0), (down, -1.0)):
        H[:m, part] = -sign * unit * balance.cross
        H[part, :m] = H[:m, part].T
        H[part, part] = np.eye(k) * (unit > 0)
    H[up, down] = H[down, up] = -np.eye(k) * (unit > 0)
    sums = np.zeros((1, size))
    sums[0, up], sums[0, down] = 1.0, -1.0
    return H, q, np.concatenate([cap, sums]), np.array([1.0, 0.0])


class _Room:
    """Arrays for ``size`` cuts."""

    def __init__(self, width: int, blocks: int, size: int) -> None:
        self.vectors, self.gains = np.empty((size, width)), np.empty(size)
        self.grams, self.multipliers = np.empty((blocks, size, size)), np.empty(size)
        self.idle = np.empty(size, np.int64)


class CutPool:
    """Cuts of vectors of length ``width``, with their products.

    ``blocks`` are the columns (slices or index arrays) whose products are kept apart, such as those
    of one kernel; all by default.

    Examples
    --------
    >>> pool = CutPool(2)
    >>> pool.add(np.array([2.0, 0.0]), 1.0)
    >>> pool.solve(alpha=1.0).value, pool.coef(alpha=1.0)
    (0.125, array([0.5, 0. ]))
    """

    def __init__(self, width: int, blocks: tuple[Any, ...] | None = None) -> None:
        self.blocks: tuple[Any, ...] = (slice(0, width),) if blocks is None else tuple(blocks)
        self.block_weights = np.ones(len(self.blocks))
        self._room, self._m = _Room(width, len(self.blocks), FIRST_ROOM), 0

    @property
    def vectors(self) -> np.ndarray:
        """The vectors A_c, (m, width)."""
        return self._room.vectors[: self._m]

    @property
    def gains(self) -> np.ndarray:
        """The gains g_c, (m,)."""
        return self._room.gains[: self._m]

    @property
    def grams(self) -> np.ndarray:
        """Products of the vectors within each block, (blocks, m, m)."""
        return self._room.grams[:, : self._m, : self._m]

    @property
    def multipliers(self) -> np.ndarray:
        """Multipliers of the last solution, (m,)."""
        return self._room.multipliers[: self._m]

    @property
    def idle(self) -> np.ndarray:
        """For how many solutions each cut has been of no use, (m,)."""
        return self._room.idle[: self._m]

    def add(self, vector: np.ndarray, gain: float) -> None:
        """Append a cut; its products with the others are one row of the Gram matrices."""
        m = self._m
        if m == len(self._room.gains):
            self._keep(slice(m), 2 * m)
        room, self._m = self._room, m + 1
        room.vectors[m], room.gains[m], room.multipliers[m], room.idle[m] = vector, gain, 0.0, 0
        for gram, block in zip(self.grams, self.blocks):
            gram[m] = gram[:, m] = self.vectors[:, block] @ vector[block]

    def _keep(self, chosen: Any, size: int) -> None:
        """Move the chosen cuts to arrays with room for ``size`` of them."""
        room, gains = _Room(self.vectors.shape[1], len(self.blocks), size), self.gains[chosen]
        m = len(gains)
        room.vectors[:m], room.gains[:m] = self.vectors[chosen], gains
        room.grams[:, :m, :m] = self.grams[:, chosen][:, :, chosen]
        room.multipliers[:m], room.idle[:m] = self.multipliers[chosen], self.idle[chosen]
        self._room, self._m = room, m

    def shift(self, change: np.ndarray, gains: np.ndarray) -> None:
        """Add to every cut's vector and gain."""
        self._room.vectors[: self._m] += change
        self._room.gains[: self._m] += gains
        for gram, block in zip(self.grams, self.blocks):
            gram[:] = self.vectors[:, block] @ self.vectors[:, block].T

    def solve(self, alpha: float, balance: ScoreBalance | None = None) -> QpSolution:
        """Best multipliers for these cuts; ``value`` is a lower bound on the whole problem."""
        gram = sum(w * block for w, block in zip(self.block_weights, self.grams)) / alpha
        solution = solve_qp(gram, self.gains, start=self.multipliers, balance=balance)
        self.keep(solution.multipliers)
        return solution

    def keep(self, multipliers: np.ndarray) -> None:
        """Take over the multipliers of a solution; count for how long each cut was of no use."""
        self.multipliers[:] = multipliers
        idle = self.idle
        idle += 1
        idle[multipliers > 0] = 0

    def coef(self, alpha: float) -> np.ndarray:
        """The best W for these cuts (without score balance)."""
        coef: np.ndarray = self.multipliers @ self.vectors / alpha
        return coef

    def prune(self, idle: int = IDLE) -> np.ndarray:
        """Drop cuts that were of no use in the last ``idle`` solutions; return which were kept."""
        keep: np.ndarray = self.idle < idle
        if not keep.all():
            self._keep(keep, len(self._room.gains))
        return keep
