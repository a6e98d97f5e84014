r"""A semidefinite program with a diagonal, solved by a predictor-corrector interior point.

    max over gamma of   prices' gamma      with   S = A - diag(gamma) >= 0,   0 <= gamma <= 1

and its dual

    min over Z of   <A, Z> + sum_i t_i     with   diag(Z) + t - s = prices,   Z >= 0, s, t >= 0

Every iterate gamma is feasible, and every Z is feasible with t = (prices - diag(Z))_+, so there are
always a lower and an upper bound. A general solver has n^2 unknowns and factorises their Newton
system; here dS is diagonal, so the Newton system in gamma is

    (Z o S^-1 + diag(s / gamma + t / (1 - gamma))) dgamma = ...

of size n, and one iteration needs a few n x n products and factorisations.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg

from .._core.descent import CONVERGED, MAX_ITER, STALLED

LANCZOS_STEPS = 30
PATIENCE = 5
SMALLEST_STEP = 1e-8
ROUNDING = 1e-14  # of the trace: smaller eigenvalues are not known

Way = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]  # changes of gamma, Z, s and t


@dataclass(frozen=True)
class Point:
    """An iterate: gamma, Z and the multipliers of the box."""

    gamma: np.ndarray  # (n,)
    Z: np.ndarray  # (n, n)
    # below, above: (n,): multipliers s and t of ``gamma >= 0`` and ``gamma <= 1``
    below: np.ndarray
    above: np.ndarray
    root: np.ndarray  # (n, n): lower Cholesky factor of S
    inverse: np.ndarray  # (n, n): S^-1


@dataclass(frozen=True)
class Solution:
    """Result of the iteration: ``lower <= optimum <= upper``."""

    gamma: np.ndarray
    Z: np.ndarray
    lower: float
    upper: float
    history: list[float]
    n_iter: int
    stop_reason: str

    @property
    def gap(self) -> float:
        """Relative duality gap."""
        return (self.upper - self.lower) / max(abs(self.upper), 1e-300)


def solve_diagonal_sdp(
    A: np.ndarray,
    prices: np.ndarray,
    *,
    tol: float = 1e-6,
    max_iter: int = 100,
    watch: Callable[[float], str | None] = lambda bound: None,
) -> Solution:
    """Maximise ``prices' gamma`` with ``A - diag(gamma)`` positive semi-definite and a unit box.

    A is positive definite, the prices are positive. ``tol`` is the relative duality gap at which to
    stop; ``watch`` is called with the bound after each iteration and may return a reason to stop.

    Examples
    --------
    >>> solution = solve_diagonal_sdp(np.array([[0.5, 0.2], [0.2, 0.5]]), np.ones(2))
    >>> round(solution.lower, 4), solution.stop_reason
    (0.6, 'converged')
    """
    point = starting_point(A, prices)
    history: list[float] = []
    gaps: list[float] = []
    reason, n_iter = None, 0
    while reason is None:
        # gamma gives a lower bound, Z with its best t an upper one.
        excess = np.maximum(0.0, prices - np.diag(point.Z))
        lower, upper = float(prices @ point.gamma), float(np.vdot(A, point.Z) + excess.sum())
        history.append(lower)
        gaps.append(upper - lower)
        small = gaps[-1] <= 1e-3 * abs(upper) and len(gaps) > PATIENCE
        if gaps[-1] <= tol * abs(upper):
            reason = CONVERGED
        elif small and gaps[-1] > 0.5 * gaps[-1 - PATIENCE]:  # lost to rounding
            reason = STALLED
        elif n_iter == max_iter:
            reason = MAX_ITER
        else:
            reason = watch(lower)
        if reason is None:
            new = step(A, prices, point)
            n_iter += 1
            reason = STALLED if new is None else None
            point = point if new is None else new
    return Solution(point.gamma, point.Z, lower, upper, history, n_iter, reason)


def starting_point(A: np.ndarray, prices: np.ndarray) -> Point:
    """Half of the smallest eigenvalue (or of the box) as gamma, and the Z that belongs to it."""
    lowest = float(linalg.eigvalsh(A, subset_by_index=[0, 0])[0])
    if not lowest > ROUNDING * np.trace(A):
        raise ValueError(
            f"The matrix of the relaxation is singular to working precision: its smallest "
            f"eigenvalue is {lowest:.3g}, its trace {np.trace(A):.3g}. Raise ridge, or choose "
            "alpha and size_penalty closer to each other."
        )
    gamma = np.full(len(A), 0.5 * min(lowest, 1.0))
    root, inverse = _factored(A - np.diag(gamma))
    # All products of complementary pairs equal mu, with Z of the size that the prices ask for. The
    # multipliers need not fit: their steps repair that.
    mu = float(prices.sum() / np.trace(inverse))
    return Point(gamma, mu * inverse, mu / gamma, mu / (1.0 - gamma), root, inverse)


def _factored(S: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Lower Cholesky factor and inverse; LinAlgError where S is not positive definite."""
    root = linalg.cholesky(S, lower=True, check_finite=False)
    inverse, info = linalg.lapack.dpotri(root, lower=1)
    if info != 0:
        raise linalg.LinAlgError("singular")
    return root, np.tril(inverse) + np.tril(inverse, -1).T


def step(A: np.ndarray, prices: np.ndarray, point: Point) -> Point | None:
    """One step of Mehrotra's predictor and corrector, or None where rounding allows none."""
    gamma, Z, s, t, inverse = point.gamma, point.Z, point.below, point.above, point.inverse
    room = 1.0 - gamma
    if min(gamma.min(), room.min()) <= 0.0:  # rounding has put it on the edge of the box
        return None
    newton = Z * inverse
    newton[np.diag_indices_from(newton)] += s / gamma + t / room
    try:
        system = linalg.cho_factor(newton, lower=True, check_finite=False)
        root_Z = linalg.cholesky(Z, lower=True, check_finite=False)
    except linalg.LinAlgError:
        return None
    n = len(gamma)
    complementarity = np.vdot(Z, A) - gamma @ np.diag(Z)
    mu = (complementarity + s @ gamma + t @ room) / (3 * n)

    def direction(target: float, corrections: tuple[Any, Any, Any]) -> Way:
        """Newton direction towards complementarity products of ``target``."""
        second, second_s, second_t = corrections
        pull = prices - target * np.diag(inverse) - target / room + target / gamma
        pull -= np.einsum("ij,ji->i", second, inverse) if second is not None else 0.0
        pull -= second_t / room - second_s / gamma
        dgamma = linalg.cho_solve(system, pull, check_finite=False)
        product = Z * dgamma if second is None else Z * dgamma + second
        dZ = product @ inverse
        dZ = 0.5 * (dZ + dZ.T) + target * inverse - Z
        ds = (target + second_s - s * dgamma) / gamma - s
        dt = (target + second_t + t * dgamma) / room - t
        return dgamma, dZ, ds, dt

    def lengths(way: Way) -> tuple[float, float]:
        dgamma, dZ, ds, dt = way
        up = min(
            step_room(gamma, dgamma), step_room(room, -dgamma), _room_inside(point.root, -dgamma)
        )
        down = min(step_room(s, ds), step_room(t, dt), _room_inside(root_Z, dZ))
        return up, down

    way = direction(0.0, (None, 0.0, 0.0))
    up, down = (min(1.0, length) for length in lengths(way))
    dgamma, dZ, ds, dt = way
    S_ahead = A - np.diag(gamma + up * dgamma)
    ahead = np.vdot(Z + down * dZ, S_ahead) + (s + down * ds) @ (gamma + up * dgamma)
    ahead += (t + down * dt) @ (room - up * dgamma)
    # The shorter the pure Newton step, the more the next one must stay in the middle.
    power = max(1.0, 3.0 * min(up, down) ** 2)
    centring = min(1.0, max(ahead / (3 * n * mu), 0.0)) ** power * mu
    keep = 0.9 + 0.09 * min(up, down)
    way = direction(centring, (dZ * dgamma, -ds * dgamma, dt * dgamma))
    up, down = (min(1.0, keep * length) for length in lengths(way))
    dgamma, dZ, ds, dt = way
    while up > SMALLEST_STEP:  # shortened until it is inside
        try:
            root, inverse = _factored(A - np.diag(gamma + up * dgamma))
        except linalg.LinAlgError:
            up *= 0.8
            continue
        return Point(
            gamma + up * dgamma, Z + down * dZ, s + down * ds, t + down * dt, root, inverse
        )
    return None


def step_room(values: np.ndarray, change: np.ndarray) -> float:
    """How far positive values can go before one of them reaches zero."""
    falling = change < 0
    return float(np.min(-values[falling] / change[falling], initial=np.inf))


def _room_inside(root: np.ndarray, change: np.ndarray) -> float:
    """How far ``root root'`` can go before it stops being positive definite.

    That is minus one over the smallest eigenvalue of ``root^-1 change root^-T``, from a few Lanczos
    steps; their error bound makes the result conservative. A vector represents a diagonal matrix.
    """

    def product(v: np.ndarray) -> np.ndarray:
        right = linalg.solve_triangular(root, v, lower=True, trans="T", check_finite=False)
        right = change * right if change.ndim == 1 else change @ right
        found: np.ndarray = linalg.solve_triangular(root, right, lower=True, check_finite=False)
        return found

    n = len(root)
    basis = np.zeros((min(n, LANCZOS_STEPS) + 1, n))
    basis[0] = np.cos(np.arange(n)) / np.linalg.norm(np.cos(np.arange(n)))
    diagonal, off = [], []
    for j in range(len(basis) - 1):
        v = product(basis[j])
        diagonal.append(float(v @ basis[j]))
        for _ in range(2):  # once more: orthogonality is lost to rounding
            v -= basis[: j + 1].T @ (basis[: j + 1] @ v)
        off.append(float(np.linalg.norm(v)))
        if off[-1] <= 1e-12 * max(map(abs, diagonal)):
            break
        basis[j + 1] = v / off[-1]
    ritz, vectors = linalg.eigh_tridiagonal(diagonal, off[: len(diagonal) - 1])
    lowest = ritz[0] - off[len(diagonal) - 1] * abs(vectors[-1, 0])
    return -1.0 / lowest if lowest < 0 else np.inf
