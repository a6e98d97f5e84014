"""The tiny QP against clarabel and daqp, and its certificate."""

import clarabel
import daqp
import numpy as np
import pytest

from maxmargin._core.qp import ScoreBalance, solve_qp

from .._solvers import solve_with_clarabel


def random_cuts(rng):
    """Vectors and gains of cuts, some of them repeated, dependent, whole numbers or zero."""
    m, d = rng.integers(1, 40), rng.integers(1, 30)
    A = rng.normal(size=(m, d)) * 10 ** rng.uniform(-2, 1.5)
    gains = rng.random(m)
    kind = rng.integers(5)
    if kind == 1:
        A[rng.integers(m, size=m // 2)] = A[0]
    elif kind == 2:
        A, gains = np.round(A), np.round(gains, 1)
    elif kind == 3:
        A = rng.normal(size=(m, 2)) @ rng.normal(size=(2, d))
    elif kind == 4:
        gains[:] = gains[0]
    return A, gains


def primal_value(A, gains, multipliers):
    """|W|^2 / 2 + max(0, max_c g_c - <A_c, W>) at the W of the multipliers."""
    W = multipliers @ A
    return 0.5 * W @ W + max(0.0, (gains - A @ W).max())


def test_equals_daqp_on_hundreds_of_programs():
    rng = np.random.default_rng(0)
    equal = 0
    for _ in range(200):
        A, gains = random_cuts(rng)
        m = len(gains)
        gram = A @ A.T
        solution = solve_qp(gram, gains)
        assert solution.residual <= 1e-9
        assert solution.multipliers.min() >= 0 and solution.multipliers.sum() <= 1 + 1e-12
        # The primal value at the same W certifies the dual value whatever any solver says.
        scale = max(1.0, np.abs(gram).max())
        gap = primal_value(A, gains, solution.multipliers) - solution.value
        assert abs(gap) <= 1e-9
        assert abs(solution.gap - gap) <= 1e-11 * scale
        constraint = np.vstack([np.eye(m), np.ones((1, m))])
        upper = np.append(np.full(m, 1e30), 1.0)
        lower = np.append(np.zeros(m), -1e30)
        kind = np.zeros(m + 1, np.int32)
        tiny = 1e-12 * scale  # daqp wants a positive definite matrix
        x, _, flag, _ = daqp.solve(gram + tiny * np.eye(m), -gains, constraint, upper, lower, kind)
        if flag == 1:
            x = np.clip(x, 0.0, None)
            x = x / max(1.0, x.sum())
            theirs = gains @ x - 0.5 * x @ gram @ x
            assert solution.value >= theirs - 1e-9
            equal += abs(solution.value - theirs) <= 1e-9
    assert equal >= 150  # daqp itself misses degenerate programs by more


def test_equals_clarabel():
    rng = np.random.default_rng(1)
    for _ in range(300):
        A, gains = random_cuts(rng)
        A = A / np.abs(A).max() if np.abs(A).max() > 0 else A  # clarabel needs tame numbers
        m = len(gains)
        rows = np.vstack([-np.eye(m), np.ones((1, m))])
        cones = [clarabel.NonnegativeConeT(m + 1)]
        _, value = solve_with_clarabel(A @ A.T, -gains, rows, np.append(np.zeros(m), 1.0), cones)
        assert solve_qp(A @ A.T, gains).value == pytest.approx(-value, abs=1e-9)


@pytest.mark.parametrize("k", [2, 3, 5])
@pytest.mark.parametrize("free", [False, True], ids=["literal", "intercepts"])
def test_dual_and_primal_of_problem_20_agree(k, free):
    """Problem (20) as it stands, W and xi and all pairs p, q, against the multipliers' value."""
    rng = np.random.default_rng(k)
    r, alpha = 4, 0.3
    binding = 0
    for trial in range(30):
        m = int(rng.integers(1, 12))
        codes = rng.normal(size=(m, k))
        shares = codes - codes.mean(axis=1, keepdims=True)
        A = rng.normal(size=(m, k, r))
        A -= A.mean(axis=1, keepdims=True)
        gains, bound = rng.random(m), (0.0, 0.01, 0.3)[trial % 3]
        s = rng.normal(size=r) * 10 ** rng.uniform(-1, 1)
        gram = A.reshape(m, -1) @ A.reshape(m, -1).T / alpha
        if free:
            balance = ScoreBalance(bound, shares, None)
        else:
            balance = ScoreBalance(bound, A @ s / alpha, float(s @ s) / alpha)
        solution = solve_qp(gram, gains, balance=balance)
        # Variables: W (k r), b (k), xi.
        size = k * r + k + 1
        P = np.zeros((size, size))
        P[: k * r, : k * r] = alpha * np.eye(k * r)
        if not free:
            P[k * r : -1, k * r : -1] = np.eye(k)  # no intercepts: they stay 0
        cost = np.zeros(size)
        cost[-1] = 1.0
        cuts = np.hstack([-A.reshape(m, -1), -shares if free else 0 * shares, -np.ones((m, 1))])
        pairs = []
        for p in range(k):
            for q in range(k):
                if p != q:
                    row = np.zeros(size)
                    if free:
                        row[k * r + p], row[k * r + q] = 1.0, -1.0
                    else:
                        row[p * r : (p + 1) * r], row[q * r : (q + 1) * r] = s, -s
                    pairs.append(row)
        sign = np.zeros((1, size))
        sign[0, -1] = -1.0
        rows = np.vstack([cuts, np.array(pairs), sign])
        right = np.concatenate([-gains, np.full(len(pairs), bound), [0.0]])
        cones = [clarabel.NonnegativeConeT(len(right))]
        x, value = solve_with_clarabel(P, cost, rows, right, cones)
        assert solution.value == pytest.approx(value, abs=1e-8)
        assert solution.residual <= 1e-9
        W = (np.tensordot(solution.multipliers, A, 1)) / alpha
        if not free:
            W = W - np.outer(solution.tau, s) / alpha
            spread = np.ptp(W @ s)
        else:
            spread = np.ptp(solution.intercept)
        assert spread <= bound + 1e-7
        binding += spread >= bound - 1e-7
        assert pytest.approx(x[: k * r].reshape(k, r), abs=1e-4) == W
    assert binding > 5


def test_a_warm_start_changes_no_solution():
    rng = np.random.default_rng(3)
    for _ in range(100):
        A, gains = random_cuts(rng)
        cold = solve_qp(A @ A.T, gains)
        before = solve_qp(A[:-1] @ A[:-1].T, gains[:-1]).multipliers if len(gains) > 1 else None
        warm = solve_qp(A @ A.T, gains, start=before)
        again = solve_qp(A @ A.T, gains, start=warm.multipliers)
        assert warm.value == pytest.approx(cold.value, abs=1e-11)
        assert again.value == pytest.approx(cold.value, abs=1e-11)
        assert again.n_iter <= cold.n_iter


def test_the_certificate_tells_a_wrong_solution():
    gram, gains = np.array([[2.0, 0.5], [0.5, 1.0]]), np.array([1.0, 0.8])
    right = solve_qp(gram, gains)
    assert right.gap <= 1e-12 and right.residual <= 1e-12
    stopped = solve_qp(gram, gains, tol=10.0)  # every reduced gradient counts as zero
    assert stopped.gap > 0.1 and stopped.residual > 0.1
