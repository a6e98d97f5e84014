"""Cutting planes against the paper's formulas, generic solvers and all labellings of a few rows."""

import warnings
from dataclasses import replace
from itertools import product

import clarabel
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import linprog
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits, load_iris, make_blobs
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score
from sklearn.preprocessing import StandardScaler

from maxmargin import CuttingPlaneMarginClustering, MultipleKernelMarginClustering
from maxmargin._core import size_floor
from maxmargin._core._numba import fill_clusters
from maxmargin._core.rows import Rows
from maxmargin._core.size_floor import floor_prices
from maxmargin._data.source import MemoryRows
from maxmargin.cutting_plane import _cuts, _search
from maxmargin.cutting_plane._cuts import CutPool, LabelledCuts
from maxmargin.cutting_plane._estimator import default_alpha
from maxmargin.cutting_plane._penalty import Ridge
from maxmargin.cutting_plane._search import Problem, Task
from maxmargin.metrics import clustering_error

from .._solvers import solve_with_clarabel


@pytest.mark.parametrize("k", [2, 3])
def test_a_bound_on_mean_scores_of_centred_columns_says_nothing(k):
    """Mean scores are then zero for any W; what is left of the mean is rounding."""
    X = StandardScaler().fit_transform(load_iris().data)
    given = {"center": False, "random_state": 0} | FLOOR
    model = CuttingPlaneMarginClustering(k, score_balance=0.1, **given).fit(X)
    assert model.cluster_sizes_.min() >= 0.5 * 150 / k
    free = CuttingPlaneMarginClustering(k, **given).fit(X)
    np.testing.assert_array_equal(model.labels_, free.labels_)
    np.testing.assert_allclose(model.coef_, free.coef_)


def margin_objective(Z, labels, W, alpha, weights=None, intercept=0.0):
    """Problem (2) for given labels, written out."""
    S = Z @ W.T + intercept
    own = S[np.arange(len(Z)), labels]
    S[np.arange(len(Z)), labels] = -np.inf
    losses = np.maximum(0.0, 1.0 + S.max(axis=1) - own)
    return 0.5 * alpha * (W**2).sum() + np.average(losses, weights=weights)


def best_margin_objective(Z, labels, k, alpha):
    """The Crammer-Singer problem (1) with one slack per row, by clarabel."""
    n, r = Z.shape
    size = k * r + n
    P = np.zeros((size, size))
    P[: k * r, : k * r] = alpha * np.eye(k * r)
    cost = np.concatenate([np.zeros(k * r), np.full(n, 1.0 / n)])
    rows, right = [], []
    for i, own in enumerate(labels):
        for p in range(k):
            row = np.zeros(size)
            if p != own:
                row[own * r : (own + 1) * r] = -Z[i]
                row[p * r : (p + 1) * r] = Z[i]
            row[k * r + i] = -1.0
            rows.append(row)
            right.append(-1.0 if p != own else 0.0)
    cones = [clarabel.NonnegativeConeT(len(rows))]
    x, value = solve_with_clarabel(P, cost, np.array(rows), np.array(right), cones)
    return x[: k * r].reshape(k, r), value


def features(model, X):
    """Rows as the model's linear part sees them: centred, unit mean square; and its W there."""
    centre, scale = model.feature_map_.offset, model.feature_scale_
    return (X - centre) * scale, model.coef_ / scale


# A linear model without intercepts, and a size floor: the setting of the papers' tables.
FLOOR = {"kernel": "linear", "balance": 0.5}


def clouds(n=60, k=3, seed=0, d=4):
    return make_blobs(n, d, centers=k, cluster_std=3.0, random_state=seed)[0]


# -- the pieces ----------------------------------------------------------------------------------


def test_one_slack_holds_all_constraints():
    """Theorem 2: the largest of all (k + 1)^n constraints is the mean hinge loss."""
    rng = np.random.default_rng(0)
    n, k = 5, 3
    Z, W = rng.normal(size=(n, 2)), rng.normal(size=(k, 2))
    S = Z @ W.T
    labels = S.argmax(axis=1)
    worst = -np.inf
    for codes in product(range(k + 1), repeat=n):  # 0 for the zero vector, p + 1 for e_p
        total = 0.0
        for i, c in enumerate(codes):
            if c:
                z = float(labels[i] == c - 1)
                total += 1.0 - (S[i, labels[i]] + z - S[i, c - 1])
        worst = max(worst, total / n)
    assert worst == pytest.approx(margin_objective(Z, labels, W, 0.0))
    cuts = LabelledCuts(Rows(Z), np.ones(n), np.full(n, -1), k)
    found = cuts.evaluate(W, np.zeros(k), np.zeros(k))
    assert found.loss == pytest.approx(worst)
    assert found.gain - (found.vector * W).sum() == pytest.approx(worst)
    assert (found.labels == labels).all()


@pytest.mark.parametrize("kind", ["dense", "csr", "far"])
def test_cuts_follow_their_formula_under_any_labels(kind):
    rng = np.random.default_rng(1)
    n, k = 3000, 3  # several tiles
    X = rng.normal(size=(n, 5)) + (1e6 if kind == "far" else 0.3)
    offset, scale = X.mean(axis=0), 0.7
    Z = (X - offset) * scale
    data = sparse.csr_matrix(X) if kind == "csr" else X
    rows, weights = Rows(data, offset, scale), rng.random(n)
    assert replace(rows.block, data=data).is_near == (kind != "far")
    cuts = LabelledCuts(rows, weights, np.full(n, -1), k)
    for _ in range(4):
        W = rng.normal(size=(k, 5))
        found = cuts.evaluate(W, np.zeros(k), rng.normal(size=k))
        cuts.adopt(found)
        cuts.add(found)
    v = weights / weights.sum()
    for j, codes in enumerate(cuts.codes):
        A, coded = np.zeros((k, 5)), codes > 0
        for p in range(k):
            A[p] = (v * (coded & (cuts.labels == p))) @ Z - (v * (codes == p + 1)) @ Z
        assert cuts.pool.vectors[j].reshape(k, 5) == pytest.approx(A, abs=1e-9)
        assert cuts.pool.gains[j] == pytest.approx(v[coded & (codes - 1 != cuts.labels)].sum())
        shares = [
            (v * (coded & (cuts.labels == p))).sum() - v[codes == p + 1].sum() for p in range(k)
        ]
        assert cuts.shares[j] == pytest.approx(shares, abs=1e-12)
    gram = cuts.pool.vectors @ cuts.pool.vectors.T
    assert cuts.pool.grams[0] == pytest.approx(gram, abs=1e-9)
    bound = cuts.pool.solve(0.1).value
    for _ in range(50):
        W = rng.normal(size=(k, 5)) * rng.random()
        assert bound <= margin_objective(Z, cuts.labels, W, 0.1, weights) + 1e-9


def test_the_compiled_passes_equal_the_rule_on_tiles():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(5000, 7)) + 0.2
    W, b, prices = rng.normal(size=(4, 7)), rng.normal(size=4), rng.random(4)
    evaluations = []
    offset = X.mean(axis=0)
    for rows in (
        Rows(X, offset, 0.5),
        Rows(sparse.csr_matrix(X), offset, 0.5),
        Rows(X + 1e6, offset + 1e6, 0.5),  # too far to be centred in the products
    ):
        cuts = LabelledCuts(rows, np.ones(5000), np.where(np.arange(5000) % 7, -1, 2), 4)
        evaluations.append(cuts.evaluate(W, b, prices))
    for other in evaluations[1:]:
        for name in ("loss", "sizes", "vector", "gain", "shares"):
            assert getattr(other, name) == pytest.approx(getattr(evaluations[0], name), abs=1e-8)
        for name in ("labels", "codes"):
            assert (getattr(other, name) == getattr(evaluations[0], name)).all()
    assert (evaluations[0].labels[::7] == 2).all()


def test_idle_cuts_go_and_the_bound_stays():
    rng = np.random.default_rng(3)
    pool = CutPool(3)
    for _ in range(30):
        pool.add(rng.normal(size=3), rng.random())
    for _ in range(3):
        before = pool.solve(0.2).value
    kept = pool.prune(idle=3)
    assert 0 < kept.sum() < 30 and len(pool.gains) == kept.sum()
    assert pool.solve(0.2).value == pytest.approx(before, abs=1e-12)
    pool.add(np.zeros(3), 9.0)  # still takes cuts: a loss of 9 at least, whatever W is
    assert pool.solve(0.2).value == pytest.approx(9.0)


def test_blocks_of_columns_are_weighted_apart():
    rng = np.random.default_rng(4)
    A, gains, weights = rng.normal(size=(6, 5)), rng.random(6), np.array([0.5, 2.0])
    pool, scaled = CutPool(5, (slice(0, 2), slice(2, 5))), CutPool(5)
    for a, g in zip(A, gains):
        pool.add(a, g)
        scaled.add(a * np.sqrt(np.repeat(weights, [2, 3])), g)
    pool.block_weights = weights
    assert pool.solve(0.3).value == pytest.approx(scaled.solve(0.3).value)


def best_assignment(S, weights, floor):
    """Largest sum of scores with whole rows split at will: the linear program of the prices."""
    n, k = S.shape
    equal = np.kron(np.eye(n), np.ones((1, k)))
    sizes = np.tile(np.eye(k), n) * np.repeat(weights, k)
    cost = -(S * weights[:, None]).ravel()
    found = linprog(cost, A_ub=-sizes, b_ub=np.full(k, -floor), A_eq=equal, b_eq=np.ones(n))
    return -found.fun


@pytest.mark.parametrize("k", [2, 3, 5])
def test_prices_meet_the_floor_near_the_best_assignment(k):
    rng = np.random.default_rng(k)
    for _ in range(10):
        n = 20 * k
        S = rng.normal(size=(n, k)) + rng.normal(size=k) * 3.0
        weights = np.ones(n) if rng.random() < 0.5 else rng.random(n) + 0.1
        floor = 0.7 * weights.sum() / k
        prices = floor_prices(S, weights, floor, np.full(n, -1))
        assert prices.min() >= 0
        labels = (S + prices).argmax(axis=1)
        sizes = np.bincount(labels, weights, minlength=k)
        assert sizes.min() >= floor * (1 - 1e-9)
        reached = (S[np.arange(n), labels] * weights).sum()
        best = best_assignment(S, weights, floor)
        free = (S.max(axis=1) * weights).sum()
        assert reached <= best + k * weights.max() * np.ptp(S)  # rows are not split
        assert free - reached <= 1.3 * (free - best) + 2 * k * weights.max() * S.std()


@pytest.mark.parametrize(("k", "balance"), [(10, 1.0), (20, 0.9), (80, 0.5)])
def test_prices_meet_hard_floors_exactly(k, balance):
    rng = np.random.default_rng(0)
    S = rng.normal(size=(1000, 4)) @ rng.normal(size=(4, k)) * 3.0
    floor = int(balance * 1000 / k)
    prices = floor_prices(S, np.ones(1000), floor, np.full(1000, -1))
    assert np.bincount((S + prices).argmax(axis=1), minlength=k).min() >= floor


def test_a_floor_beyond_what_the_weights_allow_is_tried_once(monkeypatch):
    """One row has nearly all of the weight: no more than one cluster can have its share."""
    S, tried = np.random.default_rng(0).normal(size=(30, 20)), []

    def counted(*given):
        tried.append(1)
        return fill_clusters(*given)

    monkeypatch.setattr(size_floor, "fill_clusters", counted)
    weights = np.where(np.arange(30) == 0, 1.0, 1e-12)
    prices = floor_prices(S, weights, 0.02, np.full(30, -1))
    assert len(tried) == 1
    assert np.isfinite(prices).all()


def test_prices_leave_known_rows_and_enough_rows_alone():
    rng = np.random.default_rng(0)
    S = rng.normal(size=(60, 3)) + np.array([4.0, 0.0, 0.0])
    known = np.where(np.arange(60) < 12, 1, -1)
    prices = floor_prices(S, np.ones(60), 10.0, known)
    labels = np.where(known >= 0, known, (S + prices).argmax(axis=1))
    assert np.bincount(labels, minlength=3).min() >= 10
    asked = (S[12:].argmax(axis=1) == 1).sum()
    assert (labels[12:] == 1).sum() <= asked  # the known rows are enough
    even = np.eye(3)[np.arange(60) % 3]
    assert (floor_prices(even, np.ones(60), 20.0, np.full(60, -1)) == 0).all()


# -- the estimator -------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:balance=")
@pytest.mark.parametrize(
    "params",
    [
        pytest.param({**FLOOR, "nesting": "paper"}, id="paper"),
        pytest.param(FLOOR, id="floor"),
        pytest.param({"kernel": "linear", "fit_intercept": False}, id="entropy"),
        pytest.param({"kernel": "linear"}, id="intercept"),
    ],
)
@pytest.mark.parametrize("k", [2, 3])
def test_the_margin_problem_of_the_final_labels_is_solved(params, k):
    for seed in range(2):
        X = clouds(60, k, seed)
        model = CuttingPlaneMarginClustering(k, tol=1e-4, n_init=4, random_state=seed, **params)
        model.fit(X)
        assert model.stop_reason_ == "converged"
        Z, W = features(model, X)
        alpha, sizes = default_alpha(k), 0.0
        if params != FLOOR and "nesting" not in params:
            share = model.cluster_sizes_ / len(X)
            sizes = model.size_entropy_ * (share * np.log(k * share)).sum()
        if params == {"kernel": "linear"}:
            # The model's intercepts, without the prices for even sizes, which it does not tell.
            Z = np.column_stack([Z, np.ones(len(Z))])
            _, best = best_margin_objective(Z, model.labels_, k, alpha)
        else:
            reached = margin_objective(Z, model.labels_, W, alpha) + sizes
            _, best = best_margin_objective(Z, model.labels_, k, alpha)
            assert model.objective_ == pytest.approx(reached, rel=1e-9)
        assert best + sizes - 1e-9 <= model.objective_ <= (best + sizes) * (1 + 1e-3)
        assert model.objective_ - model.gap_ <= best + sizes + 1e-9  # the bound is one
        assert model.gap_ <= 1e-4 * (1.0 if "nesting" in params else model.objective_)


def test_the_best_of_all_labellings_is_found():
    X = clouds(9, 2, 5, d=2)
    model = CuttingPlaneMarginClustering(2, n_init=30, tol=1e-5, random_state=0, **FLOOR).fit(X)
    Z, _ = features(model, X)
    values = []
    for signs in product([0, 1], repeat=8):
        labels = np.array([0, *signs])
        if 2 <= labels.sum() <= 7:
            values.append(best_margin_objective(Z, labels, 2, 0.03)[1])
    assert model.objective_ == pytest.approx(min(values), rel=1e-4)


@pytest.mark.filterwarnings("ignore:balance=")
@pytest.mark.parametrize("seed", range(2))
def test_no_cluster_is_empty(seed):
    """``benchmarks/cutting_plane.py empty`` has many more."""
    rng = np.random.default_rng(seed)
    for k in (2, 6, 10):
        X = (
            rng.standard_t(2, size=(150, 6))
            + rng.normal(size=(3, 6))[rng.integers(3, size=150)] * 2
        )
        model = CuttingPlaneMarginClustering(k, n_init=2, random_state=seed, **FLOOR).fit(X)
        assert model.cluster_sizes_.min() >= int(0.5 * 150 / k)
        assert (model.labels_ == model.predict(X)).all()
        soft = CuttingPlaneMarginClustering(k, n_init=2, random_state=seed).fit(X)
        assert soft.cluster_sizes_.min() >= 1
        assert (soft.labels_ == soft.predict(X)).all()


def test_without_a_floor_clusters_may_vanish():
    X = np.random.default_rng(0).standard_t(2, size=(150, 6))
    with pytest.warns(UserWarning, match="clusters (has|have) no rows"):
        model = CuttingPlaneMarginClustering(
            8, kernel="linear", size_entropy=0, n_init=2, random_state=0
        ).fit(X)
    assert model.cluster_sizes_.min() == 0


def test_score_balance_binds_to_the_letter_on_raw_rows():
    """Equation (16): no centring, no intercepts; the mean scores stay within l of one another."""
    X = clouds(80, 3, 1) + 20.0  # far from the origin: mean scores differ freely without a bound
    common = {"center": False, "balance": 0.3, "n_init": 4, "random_state": 0, "tol": 1e-4}
    common |= {"kernel": "linear"}
    loose = CuttingPlaneMarginClustering(3, **common).fit(X)
    scale = loose.feature_scale_
    spread = np.ptp((X * scale).mean(axis=0) @ (loose.coef_ / scale).T)
    bound = 0.3 * spread
    tight = CuttingPlaneMarginClustering(3, score_balance=bound, **common).fit(X)
    means = (X * scale).mean(axis=0) @ (tight.coef_ / scale).T
    assert np.ptp(means) == pytest.approx(bound, rel=1e-3)
    assert (tight.feature_map_.offset == 0).all()


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("kind", [CuttingPlaneMarginClustering, MultipleKernelMarginClustering])
def test_fit_intercept_has_no_effect_with_score_balance(kind, center):
    X = np.random.default_rng(0).normal(size=(60, 3)) + 1.0
    given = {"score_balance": 0.1, "center": center, "random_state": 0}
    some, none = (kind(2, fit_intercept=given_one, **given).fit(X) for given_one in (True, False))
    np.testing.assert_array_equal(some.coef_, none.coef_)
    np.testing.assert_array_equal(some.intercept_, none.intercept_)


@pytest.mark.parametrize("n, k", [(9000, 3), (10_000, 2)])
def test_balance_is_kept_where_floors_are_probed_on_some_rows(n, k):
    X = np.random.default_rng(0).normal(size=(n, 4))
    model = CuttingPlaneMarginClustering(k, kernel="linear", balance=1.0, random_state=0).fit(X)
    assert model.cluster_sizes_.min() >= n // k


def test_score_balance_frees_intercepts_on_centred_rows():
    X, y = make_blobs([150, 50], 3, centers=[[0, 0, 0], [6, 0, 0]], random_state=0)
    common = {"alpha": 0.3, "random_state": 0, "tol": 1e-4} | FLOOR
    plain = CuttingPlaneMarginClustering(**common).fit(X)
    free = CuttingPlaneMarginClustering(score_balance=0.5, **common).fit(X)
    shut = CuttingPlaneMarginClustering(score_balance=0.0, **common).fit(X)
    assert free.objective_ < plain.objective_ - 1e-3
    assert shut.objective_ == pytest.approx(plain.objective_, rel=1e-3)
    means = free.decision_function(X).mean(axis=0)
    assert np.ptp(means) <= 0.5 + 1e-6
    assert clustering_error(y, free.labels_) == 0


def test_the_objective_does_not_rise():
    X = load_digits(return_X_y=True)[0][:400]
    model = CuttingPlaneMarginClustering(6, random_state=1).fit(X)
    assert model.objective_ == pytest.approx(model.history_[-1], rel=1e-9)
    assert (np.diff(model.history_) <= 1e-3 * model.objective_).all()  # but for whole rows
    assert model.objective_ <= min(model.restart_objectives_)
    assert len(model.history_) == model.n_iter_
    assert 0 < model.n_cuts_ <= model.n_passes_


def test_float32_agrees_with_float64():
    data, y = load_digits(return_X_y=True)
    for digits in ([0, 6], [0, 4, 6, 7]):  # far apart: no label depends on rounding
        X, k = data[np.isin(y, digits)], len(digits)
        one = CuttingPlaneMarginClustering(k, random_state=0).fit(X)
        half = CuttingPlaneMarginClustering(k, random_state=0).fit(X.astype(np.float32))
        assert (one.labels_ == half.labels_).mean() >= 0.999
        assert half.objective_ == pytest.approx(one.objective_, rel=1e-3)


def test_known_labels_stay_and_name_the_clusters():
    X, y = load_digits(return_X_y=True)
    few = np.isin(y, [0, 6, 9])
    X, y = X[few], np.searchsorted([0, 6, 9], y[few])
    known = np.full(len(y), -1)
    known[:15] = y[:15]
    model = CuttingPlaneMarginClustering(3, random_state=0).fit(X, partial_labels=known)
    assert (model.labels_[:15] == y[:15]).all()
    assert (model.labels_ == y).mean() > 0.97  # no matching: the names are the known ones


def test_a_few_known_rows_name_the_clusters_of_many():
    """The known rows must be among those that starts are compared on."""
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=12_000)
    X = rng.normal(size=(12_000, 4)) + 8.0 * np.eye(3, 4)[y]
    for seed in range(2):
        known = np.full(len(y), -1)
        for c, name in enumerate((2, 0, 1)):
            known[np.flatnonzero(y == c)[seed]] = name
        model = CuttingPlaneMarginClustering(3, random_state=seed).fit(X, partial_labels=known)
        assert (model.labels_ == np.array([2, 0, 1])[y]).mean() > 0.99


@pytest.mark.filterwarnings("ignore:balance=")
@pytest.mark.parametrize("max_iter", [2, 5, 20])
@pytest.mark.parametrize("nesting", ["labels", "paper"])
def test_a_fit_cut_short_keeps_its_promises(max_iter, nesting):
    X = np.random.default_rng(0).standard_t(2, size=(300, 6))
    model = CuttingPlaneMarginClustering(
        6, kernel="linear", balance=0.9, max_iter=max_iter, n_init=2, random_state=0,
        nesting=nesting,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X)
    assert model.cluster_sizes_.min() >= 45
    Z, W = features(model, X)
    value = margin_objective(Z, model.labels_, W, default_alpha(6))
    assert model.objective_ == pytest.approx(value, rel=1e-9)
    assert max(model.history_) < 100


def test_init_with_too_many_labels_is_refused():
    X = clouds(60, 3)
    with pytest.raises(ValueError, match="init has 10 different labels"):
        CuttingPlaneMarginClustering(3, init=np.arange(60) % 10).fit(X)
    with pytest.raises(ValueError, match="init"):
        CuttingPlaneMarginClustering(3, init=np.full(60, np.nan)).fit(X)


@pytest.mark.invariance
def test_weights_count_like_copies():
    X = clouds(60, 3, 2)
    weights = np.arange(60) % 3 + 1
    weighted = CuttingPlaneMarginClustering(3, random_state=0).fit(X, sample_weight=weights)
    copies = CuttingPlaneMarginClustering(3, random_state=0).fit(np.repeat(X, weights, axis=0))
    assert (weighted.predict(X) == copies.predict(X)).all()
    assert weighted.objective_ == pytest.approx(copies.objective_, rel=1e-9)


@pytest.mark.filterwarnings("ignore:balance=")
def test_many_rows_start_on_a_sample_and_keep_the_floor():
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(3, 5)) * 3
    y = rng.choice(3, size=12_000, p=[0.5, 0.45, 0.05])
    X = (rng.normal(size=(12_000, 5)) + centres[y]).astype(np.float32)
    model = CuttingPlaneMarginClustering(3, kernel="linear", balance=0.6, random_state=0).fit(X)
    assert model.cluster_sizes_.min() >= int(0.6 * 4000)
    assert model.n_passes_ < 200  # the floor binds hard here
    assert (model.labels_ == model.predict(X)).all()


def test_a_single_pass_limit_warns():
    with pytest.warns(UserWarning, match="max_iter"):
        model = CuttingPlaneMarginClustering(4, max_iter=1, tol=1e-6, random_state=0)
        model.fit(clouds(80, 4))
    assert model.stop_reason_ == "max_iter"


def test_kernels_part_rings():
    t = np.linspace(0, 2 * np.pi, 150)
    ring = np.column_stack([np.cos(t), np.sin(t)])
    X = np.vstack([ring, 4.0 * ring])
    y = np.repeat([0, 1], 150)
    model = CuttingPlaneMarginClustering(kernel="rbf", gamma=0.3, n_init=30, random_state=0)
    assert clustering_error(y, model.fit(X).labels_) < 0.05
    linear = CuttingPlaneMarginClustering(kernel="linear", random_state=0)
    assert clustering_error(y, linear.fit(X).labels_) > 0.3
    assert clustering_error(y, CuttingPlaneMarginClustering(random_state=0).fit(X).labels_) < 0.05


@pytest.mark.parametrize(
    "params", [{"nesting": "inside"}, {"alpha": 0}, {"score_balance": -1}, {"size_entropy": -1}]
)
def test_wrong_parameters_are_named(params):
    with pytest.raises(ValueError, match=next(iter(params))):
        CuttingPlaneMarginClustering(**params).fit(clouds())


@pytest.mark.filterwarnings("ignore:balance=")
@pytest.mark.filterwarnings("ignore:.*clusters (has|have) no rows")
def test_max_iter_is_no_promise_to_go_on_without_progress():
    """The gap asked for is below what rounding allows."""
    X = np.random.default_rng(0).normal(size=(50, 6)) * np.geomspace(1, 1e4, 50)[:, None]
    model = CuttingPlaneMarginClustering(5, alpha=1e-8, tol=0.0, n_init=1, max_iter=10**6, **FLOOR)
    model.set_params(random_state=0).fit(X, partial_labels=np.zeros(50, int))
    assert model.n_iter_ < 20_000


# -- the promise ---------------------------------------------------------------------------------


def objective_of(model, X, labels, k):
    """F of a partition under the linear model with intercepts, by a generic solver."""
    Z = np.column_stack([features(model, X)[0], np.ones(len(X))])
    share = np.bincount(labels, minlength=k) / len(X)
    divergence = (share * np.log(np.maximum(k * share, 1e-300))).sum()
    return (
        best_margin_objective(Z, labels, k, default_alpha(k))[1] + model.size_entropy_ * divergence
    )


@settings(max_examples=12)
@given(seed=st.integers(0, 10**6), k=st.integers(2, 4), n=st.integers(20, 60))
def test_neither_kmeans_nor_the_initial_labels_have_a_lower_objective(seed, k, n):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)) + rng.normal(size=(k, 3))[rng.integers(k, size=n)] * rng.uniform(
        0, 4
    )
    init = np.r_[np.arange(k), rng.integers(k, size=n - k)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = CuttingPlaneMarginClustering(k, kernel="linear", random_state=0).fit(X)
        means = KMeans(k, n_init=10, random_state=seed).fit_predict(X)
        # Other runs of k-means may end elsewhere: theirs come as initial labels below.
        assert model.objective_ <= model.compared_with_kmeans_["objective"] * (1 + 1e-3)
        for given_labels in (init, means):
            model = CuttingPlaneMarginClustering(k, kernel="linear", init=given_labels).fit(X)
            assert model.objective_ <= objective_of(model, X, given_labels, k) * (1 + 1e-3)


def test_good_initial_labels_are_kept():
    """With one cut for the first model they were lost, and a higher objective was returned."""
    X, y = make_blobs(400, centers=6, n_features=5, random_state=0)
    for params in ({}, {"kernel": "linear"}, {"init": y}):
        model = CuttingPlaneMarginClustering(6, random_state=0, **params).fit(X)
        assert adjusted_rand_score(y, model.labels_) > 0.99
        assert model.compared_with_kmeans_["ari"] > 0.99


def test_the_first_model_is_that_of_ridge_regression_at_its_best_multiple():
    rng = np.random.default_rng(0)
    Z, labels, w = rng.normal(size=(40, 5)), rng.integers(3, size=40), rng.integers(1, 4, 40)
    Z -= w @ Z / w.sum()
    cuts = LabelledCuts(Rows(Z), w.astype(float), np.full(40, -1), 3, constant=1.0)
    task = Task(Ridge(0.02, constant=1.0), 0.0, 0.0, 0.01, 999, lambda objective: None)
    squares = Problem(cuts.fresh(), task).hold(labels, _search.least_squares_factor(cuts, task))
    D = np.hstack([Z, np.ones((40, 1))]) * np.sqrt(w / w.sum())[:, None]
    targets = (np.eye(3)[labels] - 1 / 3) * np.sqrt(w / w.sum())[:, None]
    shrink = np.diag([0.01] * 5 + [0.0])  # alpha/2 |W|^2 + squares; means are not shrunk
    W = np.linalg.solve(D.T @ D + shrink, D.T @ targets).T
    steep = squares.model[0][0, 0] / W[0, 0]
    assert squares.model[0] == pytest.approx(steep * W[:, :5])
    assert squares.model[1] == pytest.approx(steep * W[:, 5])
    S, own = Z @ W[:, :5].T + W[:, 5], np.eye(3)[labels] > 0
    lead = S[own] - np.where(own, -np.inf, S).max(axis=1)
    costs = [0.01 * s * s * (W**2).sum() + w / w.sum() @ np.maximum(0, 1 - s * lead)
             for s in np.linspace(0.05, 6, 500)]  # fmt: skip
    assert squares.objective == pytest.approx(min(costs), rel=5e-3)
    short = Problem(cuts.fresh(), task).hold(labels, None)
    for problem in (squares, short):
        problem.solve(1e-4)
    assert squares.objective == pytest.approx(short.objective, rel=2e-4)


def test_the_comparison_is_with_the_kmeans_partition_of_the_rows():
    X, y = load_digits(return_X_y=True)
    X = X[np.isin(y, [3, 8, 9])]
    model = CuttingPlaneMarginClustering(3, random_state=0).fit(X)
    means = KMeans(3, n_init=10, random_state=1).fit_predict(X)
    assert model.compared_with_kmeans_["ari"] == pytest.approx(
        adjusted_rand_score(means, model.labels_), abs=0.02
    )
    assert model.objective_ < model.compared_with_kmeans_["objective"]
    assert model.clusters_on_floor_.size == 0


def test_a_floor_that_decides_sizes_is_told():
    X, y = make_blobs([150, 30], 3, centers=[[0, 0, 0], [9, 0, 0]], random_state=0)
    with pytest.warns(UserWarning, match="decided the size of 1 of 2 clusters") as caught:
        model = CuttingPlaneMarginClustering(balance=0.8, kernel="linear", random_state=0).fit(X)
    assert "set balance=0" in str(caught[0].message)
    assert model.clusters_on_floor_.tolist() == [1]
    assert model.cluster_sizes_.tolist() == [108, 72]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = CuttingPlaneMarginClustering(
            balance=0.2, kernel="linear", fit_intercept=True, random_state=0
        ).fit(X)
    assert model.clusters_on_floor_.size == 0
    assert clustering_error(y, model.labels_) == 0


def test_too_many_clusters_keep_a_row_each_and_are_told():
    X, _ = make_blobs([60, 45, 30, 15], n_features=5, cluster_std=0.6, random_state=3)
    with pytest.warns(UserWarning, match="try fewer"):
        model = CuttingPlaneMarginClustering(5, kernel="linear", random_state=0).fit(X)
    assert model.cluster_sizes_.min() >= 1


@pytest.mark.parametrize("seed", [0])
def test_under_a_floor_the_search_finds_what_the_classes_lead_to(seed):
    X, y = load_digits(return_X_y=True)
    X, y = X[np.isin(y, (0, 6, 8, 9))], y[np.isin(y, (0, 6, 8, 9))]
    params = {"n_clusters": 4, "kernel": "linear", "balance": 0.9, "random_state": seed}
    told = CuttingPlaneMarginClustering(**params, init=np.unique(y, return_inverse=True)[1]).fit(X)
    found = CuttingPlaneMarginClustering(**params).fit(X)
    assert found.objective_ < 1.01 * told.objective_


def test_uneven_sizes_are_found_without_a_floor():
    X, y = make_blobs([600, 200, 100, 100], 10, cluster_std=3, random_state=3)
    model = CuttingPlaneMarginClustering(4, random_state=0).fit(X)
    assert adjusted_rand_score(y, model.labels_) > 0.95


def test_rows_of_text_take_the_cosine_kernel_however_they_are_stored():
    rng = np.random.default_rng(0)
    y = np.arange(300) % 3
    words = rng.poisson(0.02 + 0.3 * (np.arange(200) // 20 == y[:, None]), size=(300, 200))
    dense = CuttingPlaneMarginClustering(3, random_state=0).fit(words.astype(float))
    csr = CuttingPlaneMarginClustering(3, random_state=0).fit(sparse.csr_matrix(words, dtype=float))
    assert dense.feature_map_.kernel == csr.feature_map_.kernel == "cosine"
    assert (dense.labels_ == csr.labels_).all()
    assert adjusted_rand_score(y, csr.labels_) > 0.9


def test_the_preference_for_even_sizes_is_not_in_the_paper():
    with pytest.raises(ValueError, match=r"size_entropy=0\.5"):
        CuttingPlaneMarginClustering(nesting="paper", size_entropy=0.5).fit(clouds())


def test_starts_of_wide_rows_are_compared_on_principal_axes(monkeypatch):
    """The scores of a model on the axes are those of the widened model on all columns."""

    monkeypatch.setattr(_cuts, "WIDE", 10)
    monkeypatch.setattr(_cuts, "NARROW", 5)
    X, y = make_blobs(120, 30, centers=3, random_state=0)
    for n in (120, 20):  # more rows than columns, and fewer
        rows = Rows(MemoryRows(X[:n] - X[:n].mean(axis=0)))
        cuts = LabelledCuts(rows, np.ones(n), np.full(n, -1), 3)
        few, axes = _cuts.narrowed(cuts)
        assert few.rows.shape == (n, 5) and axes.T @ axes == pytest.approx(np.eye(5), abs=1e-9)
        assert rows.values() @ axes == pytest.approx(few.rows.values())
        kept = np.linalg.norm(few.rows.values()) ** 2
        expected = (np.linalg.svd(rows.values(), compute_uv=False)[:5] ** 2).sum()
        assert kept == pytest.approx(expected)
    labels = CuttingPlaneMarginClustering(3, kernel="linear", random_state=0).fit(X).labels_
    assert adjusted_rand_score(y, labels) == 1.0
