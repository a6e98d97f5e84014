r"""The label relation matrix of Xu et al. as a semidefinite program, handed to scs.

With G = M o K and centred features, problem (6) of Zhang, Tsang & Kwok (2009) in the units of this
package (``alpha/2 |w|^2`` plus the mean hinge loss, no bias, shares s that add up to one) is

    min over M, eta, nu, tau of   tau + s'nu
    [ G        c eta ]
    [ c eta'   tau   ] >= 0,   nu >= 0,   nu >= 1 - eta,   M >= 0,   diag(M) = 1,   |M s| <= bound

with c = sqrt(alpha / 2): the paper's eta is 1 + mu - nu, its C is 1 / (n alpha) and its
delta is 2 / alpha times this value. Rows with known labels move together, so M has one row and
column for all of them.

For scs the variables are scaled to T = q tau, q nu and c sqrt(q) eta with q = alpha n^2. All
numbers then have the scale of M and K, also in the dual, where (K o lam lam') / (2 alpha) with lam
near 1 / n would be tiny. This saves nine tenths of the iterations.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg, sparse

from .._core.descent import CONVERGED, MAX_ITER, STALLED
from .._core.lapack import interruptible
from ._interior_point import solve_diagonal_sdp, step_room

# Iterations of scs (each a factored solve and two eigendecompositions) for one of ours. Data sets
# need up to 3200 in all; after FIRST, scs must halve its residuals every MORE or is stopped.
STEPS, FIRST, MORE = 100, 4000, 2000
SOLVED, INACCURATE, INTERRUPTED = 1, 2, -5
DUAL_STEPS = 100

Scs = dict[str, Any]  # what scs takes and returns


@dataclass(frozen=True)
class RelationProblem:
    """Problem (6) for some rows."""

    K: np.ndarray  # (n, n): kernel of centred features
    shares: np.ndarray  # (n,): weights that add up to one
    # group, sign: (n,): row i of the label relation is ``sign_i M[group_i]``; rows with known
    # labels share a group
    group: np.ndarray
    sign: np.ndarray
    alpha: float
    bound: float  # largest difference of the shares of the two clusters

    @property
    def unit(self) -> float:
        """What scs's objective is multiplied by."""
        return self.alpha * len(self.K) ** 2

    @property
    def pull(self) -> np.ndarray:
        """Signed share of each group."""
        return np.bincount(self.group, self.sign * self.shares)


@dataclass(frozen=True)
class RelationSolution:
    """The label relation M of the groups, a proven lower bound, and how scs ended."""

    M: np.ndarray
    lower: float
    value: float
    n_iter: int
    stop_reason: str


def solve_relation(problem: RelationProblem, accuracy: float, max_iter: int) -> RelationSolution:
    """Solve the program with scs, and prove a lower bound from the multipliers it returns."""
    found, n_iter, reason = None, 0, MAX_ITER
    while n_iter < STEPS * max_iter:
        before = np.inf if found is None else _residual(found)
        count = min(FIRST if found is None else MORE, STEPS * max_iter - n_iter)
        found = _run_scs(problem, accuracy, count, found)
        n_iter += int(found["info"]["iter"])
        lower = proven_bound(problem, found["y"] / problem.unit)
        value = float(found["info"]["pobj"]) / problem.unit
        proven = abs(value - lower) <= accuracy * abs(value)
        if found["info"]["status_val"] == SOLVED or proven:
            reason = CONVERGED
        elif _residual(found) > 0.5 * before:
            reason = STALLED
        if reason != MAX_ITER:
            break
    assert found is not None
    return RelationSolution(
        relation_of(found["x"], len(problem.pull)), lower, value, n_iter, reason
    )


def _run_scs(problem: RelationProblem, accuracy: float, max_iters: int, start: Scs | None) -> Scs:
    """Run scs for so many iterations, from where it was left."""
    try:
        import scs
    except ImportError:
        raise ImportError(
            "relaxation='full' needs scs. Install it: pip install \"maxmargin[sdp]\", or use "
            "relaxation='generalized'."
        ) from None
    data, cone = scs_form(problem)
    solver = scs.SCS(
        data, cone, eps_abs=accuracy, eps_rel=accuracy, max_iters=max_iters, verbose=False
    )
    given = {} if start is None else {key: start[key] for key in "xys"}
    found: Scs = interruptible(
        10 * len(problem.K), solver.solve, warm_start=start is not None, **given
    )
    if found["info"]["status_val"] == INTERRUPTED:
        raise KeyboardInterrupt
    if found["info"]["status_val"] not in (SOLVED, INACCURATE):
        raise ValueError(
            f"scs found no solution of the relaxation: {found['info']['status']}. Lower balance or "
            "raise alpha."
        )
    return found


def _residual(found: Scs) -> float:
    """Largest of the residuals that scs brings to zero."""
    info = found["info"]
    return float(max(info["res_pri"], info["res_dual"], abs(info["gap"])))


def relation_of(x: np.ndarray, m: int) -> np.ndarray:
    """M from the entries below its diagonal, moved towards I until it is positive semi-definite."""
    M = np.eye(m)
    below = _below(m)
    M[below] = M[below[::-1]] = x[: len(below[0])]
    lowest = min(0.0, float(linalg.eigvalsh(M, subset_by_index=[0, 0])[0]))
    return (M - lowest * np.eye(m)) / (1.0 - lowest)


def _below(m: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns of the entries below the diagonal, column by column."""
    columns, rows = np.triu_indices(m, 1)
    return rows, columns


def _packed(rows: np.ndarray, columns: np.ndarray, m: int) -> np.ndarray:
    """Place of the entries (row >= column) of a symmetric matrix in scs's vector."""
    places: np.ndarray = columns * m - columns * (columns - 1) // 2 + rows - columns
    return places


def scs_form(problem: RelationProblem) -> tuple[Scs, Scs]:
    """Data and cones of ``min c'x with b - A x in the cones``.

    x holds M below the diagonal, eta, nu and T.
    """
    s, n, m = problem.shares, len(problem.K), len(problem.pull)
    n_pairs = m * (m - 1) // 2
    eta, nu, tau = n_pairs + np.arange(n), n_pairs + n + np.arange(n), n_pairs + 2 * n
    one, size = np.ones(n), n_pairs + 2 * n + 1
    blocks, right = [], []

    def add(
        height: int, rows: np.ndarray, columns: np.ndarray, values: np.ndarray, b: np.ndarray
    ) -> None:
        blocks.append(sparse.csc_matrix((values, (rows, columns)), shape=(height, size)))
        right.append(b)

    i = np.arange(n)
    add(n, i, nu, -one, np.zeros(n))
    add(n, np.concatenate([i, i]), np.concatenate([nu, eta]), -np.ones(2 * n), -one)
    # bound -+ (M s)_a >= 0, the diagonal of M being constant.
    a, b = _below(m)
    pull, pair = problem.pull, np.arange(n_pairs)
    rows, columns = np.concatenate([a, b]), np.concatenate([pair, pair])
    values = np.concatenate([pull[b], pull[a]])
    for side in (1.0, -1.0):
        add(m, rows, columns, side * values, problem.bound - side * pull)
    add(*_margin_block(problem, eta, tau))
    # M itself.
    height = m * (m + 1) // 2
    unit = np.zeros(height)
    unit[_packed(np.arange(m), np.arange(m), m)] = 1.0
    add(height, _packed(a, b, m), pair, np.full(n_pairs, -np.sqrt(2.0)), unit)
    cost = np.zeros(size)
    cost[nu], cost[tau] = problem.unit * s, 1.0
    data = {"A": sparse.vstack(blocks, format="csc"), "b": np.concatenate(right), "c": cost}
    return data, {"l": 2 * n + 2 * m, "s": [n + 1, m]}


def _margin_block(
    problem: RelationProblem, eta: np.ndarray, tau: int
) -> tuple[int, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The (n + 1) x (n + 1) block of M o K, c eta and tau."""
    K, n, m = problem.K, len(problem.K), len(problem.pull)
    i, j = _below(n)
    group, root2 = problem.group, np.sqrt(2.0)
    signed = problem.sign[i] * problem.sign[j] * K[i, j] * root2
    high, low = np.maximum(group[i], group[j]), np.minimum(group[i], group[j])
    apart = high > low
    place = _packed(i, j, n + 1)
    # Entries below the diagonal of M come column by column.
    pair = low * m - low * (low + 1) // 2 + high - low - 1
    last = np.full(n, n)
    edge = _packed(last, np.arange(n), n + 1)
    corner = _packed(np.array([n]), np.array([n]), n + 1)
    height = (n + 1) * (n + 2) // 2
    constant = np.zeros(height)
    constant[_packed(np.arange(n), np.arange(n), n + 1)] = np.diag(K)
    constant[place[~apart]] = signed[~apart]
    rows = np.concatenate([place[apart], edge, corner])
    columns = np.concatenate([pair[apart], eta, [tau]])
    c = np.sqrt(0.5 * problem.alpha * problem.unit)
    values = np.concatenate([-signed[apart], np.full(n, -root2 * c), [-1.0]])
    return height, rows, columns, values, constant


def proven_bound(problem: RelationProblem, multipliers: np.ndarray) -> float:
    """Return a lower bound that is valid for any output of scs.

    For any dual variables 0 <= lam <= s of the SVM the value is at least
    ``sum(lam) - max over M of <M, Q>`` with Q = (K o lam lam') / (2 alpha). And for any r,

        <M, Q> <= sum(d) + bound |r|_1   if   diag(d) + (r p' + p r') / 2 - Q >= 0,

    because diag(M) = 1 and |M p| <= bound. lam and r are taken from scs, and the best d for them is
    a program of the interior point's own kind. Errors of lam and r count only to second order.
    """
    n, m = len(problem.K), len(problem.pull)
    lam = np.clip(multipliers[n : 2 * n], 0.0, problem.shares)
    r = multipliers[2 * n : 2 * n + m] - multipliers[2 * n + m : 2 * n + 2 * m]
    to_group = sparse.csr_matrix((problem.sign * lam, (problem.group, np.arange(n))), (m, n))
    Q = to_group @ (to_group @ problem.K).T / (2.0 * problem.alpha)
    cross = 0.5 * (np.outer(r, problem.pull) + np.outer(problem.pull, r))
    return float(lam.sum() - least_diagonal(Q - cross) - problem.bound * np.abs(r).sum())


def least_diagonal(B: np.ndarray) -> float:
    """Least ``sum(d)`` with ``diag(d) - B`` positive semi-definite, from above.

    Examples
    --------
    >>> round(least_diagonal(np.array([[0.0, 1.0], [1.0, 0.0]])), 4)
    2.0
    """
    top = float(linalg.eigvalsh(B, driver="ev")[-1])  # bisection for one of them can fail
    width = top - float(np.diag(B).min())
    if width <= 0:  # a multiple of I
        return float(len(B) * top)
    # d = high - span gamma lies between the smallest B_ii and high, with 0 <= gamma <= 1.
    high, span = top + width, 2.0 * width
    found = solve_diagonal_sdp((high * np.eye(len(B)) - B) / span, np.ones(len(B)))
    return float(len(B) * high - span * found.lower)


def margin_solution(
    K: np.ndarray, signs: np.ndarray, shares: np.ndarray, alpha: float
) -> tuple[float, np.ndarray]:
    """Return ``alpha/2 |w|^2 + sum share_i (1 - y_i w'z_i)_+`` of the best w, and its dual theta.

    An SVM without an intercept. Solved in its dual, ``max sum(lam) - lam'(K o yy')lam / (2 alpha)``
    with 0 <= lam = theta share <= share, by an interior point; the value is that of
    w = sum lam_i y_i z_i / alpha, never below the optimum.

    Examples
    --------
    >>> value, theta = margin_solution(np.eye(2), np.array([1, -1]), np.full(2, 0.5), alpha=1.0)
    >>> round(value, 6), theta.round(3)
    (0.75, array([1., 1.]))
    """
    # In theta = lam / share: min theta'H theta / 2 - share'theta in the unit box, whose multipliers
    # ``low`` and ``high`` always satisfy H theta - share = low - high.
    y = signs * shares
    H = K * np.outer(y, y) / alpha
    theta = np.full(len(K), 0.5)
    slope = H @ theta - shares
    low, high = np.maximum(slope, 0.0) + shares, np.maximum(-slope, 0.0) + shares
    for _ in range(DUAL_STEPS):
        room = 1.0 - theta
        mean = (low @ theta + high @ room) / (2 * len(theta))
        if mean <= 1e-12:
            break
        target = 0.1 * mean
        system = H + np.diag(low / theta + high / room)
        pull = shares - H @ theta + target / theta - target / room
        try:
            change = linalg.cho_solve(linalg.cho_factor(system, check_finite=False), pull)
        except linalg.LinAlgError:  # rounding allows no more steps; any theta gives a value
            break
        d_low = (target - low * change) / theta - low
        d_high = (target + high * change) / room - high
        length = min(
            1.0,
            0.95 * min(
                step_room(theta, change), step_room(room, -change),
                step_room(low, d_low), step_room(high, d_high),
            ),
        )  # fmt: skip
        theta, low, high = theta + length * change, low + length * d_low, high + length * d_high
    product = H @ theta / shares
    value = 0.5 * theta @ H @ theta + shares @ np.maximum(0.0, 1.0 - product)
    return float(value), theta
