"""The regression solver against scikit-learn's Ridge, SVR and SVC, and against clarabel."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.linear_model import Ridge
from sklearn.svm import SVC, SVR

from maxmargin._core.rows import Rows, factorise, fit_squared
from maxmargin._core.size_floor import loss_kinks, row_losses
from maxmargin.alternating import _regression as regression
from maxmargin.alternating._regression import (
    degrees_of_freedom,
    duality_gap,
    fit_piecewise,
    shrinkage_for,
)


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(120, 5))
    y = np.where(Z[:, 0] + 0.5 * rng.normal(size=120) > 0.3, 1, -1).astype(np.int8)
    return Z - Z.mean(axis=0), y


def primal(Z, y, w, b, alpha, loss, epsilon, shares):
    return 0.5 * alpha * w @ w + shares @ row_losses(y, Z @ w + b, loss, epsilon)


def test_squared_loss_equals_ridge(problem):
    Z, y = problem
    alpha = 0.07
    (coef,), (bias,) = fit_squared(factorise(Rows(Z), np.ones(120)), y[:, None], alpha)
    # alpha/2 |w|^2 + mean (f - y)^2, times n
    ridge = Ridge(alpha=0.5 * alpha * 120).fit(Z, y)
    assert coef == pytest.approx(ridge.coef_, abs=1e-10)
    assert bias == pytest.approx(ridge.intercept_, abs=1e-10)


@pytest.mark.parametrize("epsilon", [0.0, 0.05, 0.5])
@pytest.mark.parametrize("alpha", [1.0, 0.01, 1e-4])
def test_laplacian_loss_equals_svr(problem, epsilon, alpha):
    Z, y = problem
    n = len(y)
    fit = fit_piecewise(
        factorise(Rows(Z), np.ones(n)), y, loss_kinks("laplacian", epsilon), alpha, 1e-5
    )
    svr = SVR(kernel="linear", C=1 / (n * alpha), epsilon=epsilon, tol=1e-8).fit(Z, y)
    shares = np.full(n, 1 / n)
    ours = primal(Z, y, fit.coef[0], fit.bias[0], alpha, "laplacian", epsilon, shares)
    theirs = primal(Z, y, svr.coef_[0], svr.intercept_[0], alpha, "laplacian", epsilon, shares)
    # libsvm's own tolerance leaves it above our certified value at small alpha.
    assert theirs * (1 - 1e-4) < ours < theirs * (1 + 1e-5)
    assert fit.gap <= 1e-5


@pytest.mark.parametrize("alpha", [1.0, 0.01, 1e-3])
def test_hinge_loss_equals_svc(problem, alpha):
    Z, y = problem
    n = len(y)
    fit = fit_piecewise(factorise(Rows(Z), np.ones(n)), y, loss_kinks("hinge"), alpha, 1e-6)
    svc = SVC(kernel="linear", C=1 / (n * alpha), tol=1e-8).fit(Z, y)
    shares = np.full(n, 1 / n)
    ours = primal(Z, y, fit.coef[0], fit.bias[0], alpha, "hinge", 0.0, shares)
    theirs = primal(Z, y, svc.coef_[0], svc.intercept_[0], alpha, "hinge", 0.0, shares)
    assert ours == pytest.approx(theirs, rel=2e-6)


@pytest.mark.parametrize("loss", ["laplacian", "hinge"])
def test_weighted_rows_equal_a_conic_solver(problem, loss):
    """clarabel on the primal with slack variables; libsvm's weights would not test ours."""
    import clarabel

    Z, y = problem
    Z, y = Z[:40], y[:40]
    rng = np.random.default_rng(1)
    w = rng.random(40) + 0.2
    shares = w / w.sum()
    Z = Z - shares @ Z
    alpha, epsilon = 0.02, 0.1 if loss == "laplacian" else 0.0
    n, d = Z.shape
    # variables (w, b, xi): xi >= y-side violation(s), xi >= 0
    ones, eye, zero = np.ones((n, 1)), np.eye(n), np.zeros((n, d + 1))
    F = np.hstack([Z, ones])
    if loss == "laplacian":
        A = np.vstack([np.hstack([-F, -eye]), np.hstack([F, -eye]), np.hstack([zero, -eye])])
        rhs = np.concatenate([epsilon - y, epsilon + y, np.zeros(n)])
    else:
        A = np.vstack([np.hstack([-y[:, None] * F, -eye]), np.hstack([zero, -eye])])
        rhs = np.concatenate([-np.ones(n), np.zeros(n)])
    P = sparse.diags(np.concatenate([np.full(d, alpha), np.zeros(n + 1)])).tocsc()
    q = np.concatenate([np.zeros(d + 1), shares])
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    cones = [clarabel.NonnegativeConeT(len(rhs))]
    best = clarabel.DefaultSolver(P, q, sparse.csc_matrix(A), rhs, cones, settings).solve()
    fit = fit_piecewise(factorise(Rows(Z), w), y, loss_kinks(loss, epsilon), alpha, 1e-7)
    ours = primal(Z, y, fit.coef[0], fit.bias[0], alpha, loss, epsilon, shares)
    assert ours == pytest.approx(best.obj_val, rel=1e-6)


@given(st.integers(0, 10_000), st.sampled_from(["hinge", "laplacian"]))
def test_bound_is_below_the_objective_of_every_model(seed, loss):
    """Weak duality: any dual point's value is below any primal value."""
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(15, 3))
    Z -= Z.mean(axis=0)
    y = rng.choice([-1, 1], 15).astype(np.int8)
    kinks = loss_kinks(loss, 0.1)
    fit = fit_piecewise(factorise(Rows(Z), np.ones(15)), y, kinks, 0.05, 0.5)
    factor = factorise(Rows(Z), np.ones(15))
    value, bound = duality_gap(factor, y, kinks, 0.05, fit.coef, fit.bias, fit.dual, fit.step)
    shares = np.full(15, 1 / 15)
    epsilon = 0.0 if loss == "hinge" else 0.1
    assert value == pytest.approx(
        primal(Z, y, fit.coef[0], fit.bias[0], 0.05, loss, epsilon, shares), rel=1e-9
    )
    for _ in range(20):
        w, b = rng.normal(size=3), rng.normal()
        assert bound <= primal(Z, y, w, b, 0.05, loss, epsilon, shares) + 1e-12


def test_warm_start_reaches_the_same_optimum(problem):
    Z, y = problem
    factor, kinks = factorise(Rows(Z), np.ones(120)), loss_kinks("laplacian", 0.05)
    cold = fit_piecewise(factor, y, kinks, 0.01, 1e-7)
    flipped = y.copy()
    flipped[:20] *= -1
    other = fit_piecewise(factor, flipped, kinks, 0.01, 1e-7)
    warm = fit_piecewise(factor, y, kinks, 0.01, 1e-7, warm=other)
    assert warm.coef == pytest.approx(cold.coef, abs=1e-4)


def test_a_gap_that_rounding_hides_ends_the_regression(problem, monkeypatch):
    Z, y = problem
    factor, kinks = factorise(Rows(Z), np.ones(120)), loss_kinks("laplacian", 0.05)
    least = fit_piecewise(factor, y, kinks, 0.01, regression.LEAST_GAP)
    checks = []

    def noisy_gap(*given):
        """Four digits alone are certain."""
        checks.append(1)
        primal, bound = duality_gap(*given)
        return primal, bound - 1e-4 * primal

    monkeypatch.setattr(regression, "duality_gap", noisy_gap)
    found = fit_piecewise(factor, y, kinks, 0.01, 5e-324)
    assert len(checks) < 0.5 * regression.MAX_ITER / regression.CHECK_EVERY
    assert found.coef == pytest.approx(least.coef, abs=1e-3)


def test_shrinkage_gives_the_degrees_of_freedom():
    lam = np.sort(np.random.default_rng(0).random(30))
    for dof in (0.5, 5.0, 25.0):
        assert degrees_of_freedom(lam, shrinkage_for(lam, dof)) == pytest.approx(dof)
    assert degrees_of_freedom(lam, shrinkage_for(lam, 31.0)) == pytest.approx(30.0)


@pytest.mark.parametrize("seed", range(4))
def test_noise_of_the_spectrum_is_not_blown_up(seed):
    """Float32 rows of rank one: the other eigenvalues are rounding, and alpha is far below it."""
    rng = np.random.default_rng(seed)
    Z = (rng.normal(size=(50, 1)) * rng.normal(size=(1, 3))).astype(np.float32)
    Z[3] *= 1e6
    Z -= Z.mean(axis=0)
    y = np.where(np.arange(50) % 3 == 0, 1, -1).astype(np.int8)
    kinks = loss_kinks("laplacian", 0.05)
    found = fit_piecewise(factorise(Rows(Z), np.ones(50)), y, kinks, 1e-12, 0.5)
    assert np.abs(found.coef).max() < 1.0
