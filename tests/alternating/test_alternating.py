"""The alternating method against the paper, brute force and literal transcriptions."""

import itertools
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits, make_blobs, make_circles
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC, SVR

from maxmargin import (
    AlternatingMarginClustering,
    BisectingMarginClustering,
    LeastSquaresMarginClustering,
)
from maxmargin._core.descent import descend
from maxmargin._core.rows import Rows, factorise, fit_squared
from maxmargin._core.size_floor import (
    LOSSES,
    Sizes,
    balanced_split,
    loss_kinks,
    row_losses,
    size_floor,
)
from maxmargin.alternating import _search
from maxmargin.alternating._regression import fit_piecewise
from maxmargin.alternating._search import Problem, Stage
from maxmargin.metrics import clustering_error
from reproduction.data import ringnorm


def make_stage(Z, loss, alpha, balance=0.8, gap=1e-3, epsilon=0.05):
    n = len(Z)
    problem = Problem(
        factorise(Rows(Z), np.ones(n)),
        np.ones(n),
        np.zeros(n, np.int8),
        Sizes(size_floor(balance, n, 2)),
        epsilon if loss == "laplacian" else 0.0,
    )
    return Stage(problem, loss, alpha, gap)


# -- the objective ------------------------------------------------------------------------------


@given(
    st.integers(0, 10_000),
    st.sampled_from(LOSSES),
    st.sampled_from([0.0, 0.5, 0.9]),
    st.floats(-5, 0),
)
def test_objective_never_rises_within_a_stage(seed, loss, balance, log_alpha):
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(30, 3)) * rng.choice([0.1, 1.0, 10.0])
    Z -= Z.mean(axis=0)
    stage = make_stage(Z, loss, 10.0**log_alpha, balance)
    start = stage.init(rng.choice([-1, 1], 30))
    history = np.array(descend(stage, start, max_iter=30, tol=0.0).history)
    assert (np.diff(history) <= 1e-9 * np.abs(history[:-1])).all()


@pytest.mark.parametrize("loss", LOSSES)
def test_exact_steps_alone_do_not_raise_the_objective(loss):
    """Without the loop's refusal: each half step is an exact minimisation."""
    rng = np.random.default_rng(0)
    for _ in range(4):
        Z = rng.normal(size=(25, 3))
        Z -= Z.mean(axis=0)
        stage = make_stage(Z, loss, 0.05, gap=1e-9)
        state = stage.step(stage.init(rng.choice([-1, 1], 25)))
        for _ in range(5):
            new = stage.step(state)
            assert new.objective <= state.objective * (1 + 1e-7)
            state = new


def test_exact_steps_with_weights_do_not_raise_the_objective():
    rng = np.random.default_rng(1)
    for _ in range(30):
        w, Z = rng.random(25) + 0.1, rng.normal(size=(25, 3))
        Z -= w @ Z / w.sum()
        free = np.zeros(25, np.int8)
        problem = Problem(factorise(Rows(Z), w), w, free, Sizes(0.4 * w.sum()), 0.0)
        stage = Stage(problem, "squared", 0.05)
        state = stage.step(stage.init(rng.choice([-1, 1], 25)))
        for _ in range(5):
            new = stage.step(state)
            assert stage.objective(new) <= stage.objective(state) * (1 + 1e-12)
            state = new


def exhaustive(Z, loss, alpha, balance, epsilon):
    """Least objective over all labellings within the size floor."""
    n = len(Z)
    floor = size_floor(balance, n, 2)
    factor, kinks = factorise(Rows(Z), np.ones(n)), loss_kinks(loss, epsilon)
    best = np.inf
    for rest in itertools.product([-1, 1], repeat=n - 1):
        y = np.array((1, *rest), np.int8)
        if min((y > 0).sum(), (y < 0).sum()) < floor:
            continue
        if loss == "squared":
            (w,), (b,) = fit_squared(factor, y[:, None], alpha)
        else:
            fit = fit_piecewise(factor, y, kinks, alpha, 1e-6)
            w, b = fit.coef[0], fit.bias[0]
        best = min(best, 0.5 * alpha * w @ w + row_losses(y, Z @ w + b, loss, epsilon).mean())
    return best


@pytest.mark.parametrize(("loss", "n"), [("squared", 9), ("laplacian", 7), ("hinge", 7)])
def test_small_problems_equal_exhaustive_search(loss, n):
    rng = np.random.default_rng(7)
    alpha, balance, hits = 0.1, 0.8, 0
    cases = 6 if loss == "squared" else 3
    epsilon = 0.05 if loss == "laplacian" else 0.0
    for case in range(cases):
        X = rng.normal(size=(n, 2))
        model = AlternatingMarginClustering(
            loss=loss, kernel="linear", alpha=alpha, anneal=False, balance=balance,
            init="random", n_init=20, tol=0.0, solver_tol=1e-6, random_state=case,
        ).fit(X)  # fmt: skip
        Z = (X - X.mean(axis=0)) * model.feature_scale_
        best = exhaustive(Z, loss, alpha, balance, epsilon)
        assert model.objective_ >= best * (1 - 1e-5)
        hits += model.objective_ <= best * (1 + 1e-5)
    assert hits >= 0.9 * cases


@pytest.mark.parametrize("loss", LOSSES)
def test_objective_is_what_the_docstring_says(loss, digits_pair):
    X, _ = digits_pair
    model = AlternatingMarginClustering(
        loss=loss, kernel="linear", balance=0.5, random_state=0
    ).fit(X)
    f = model.decision_function(X)[:, 1]
    w = model.coef_[0] / model.feature_scale_
    y = np.where(model.labels_ == 1, 1, -1)
    epsilon = 0.05 if loss == "laplacian" else 0.0
    value = 0.5 * model.alpha_ * w @ w + row_losses(y, f, loss, epsilon).mean()
    # The floor does not bind here, so the threshold is (nearly) the regression's bias.
    assert model.cluster_sizes_.min() > 0.25 * len(X) + 1
    assert model.objective_ == pytest.approx(value, rel=1e-3)
    assert -model.score(X) == pytest.approx(row_losses(y, f, loss, epsilon).mean())


# -- the paper's algorithms, literally ----------------------------------------------------------


def literal_algorithm(X, y, loss, C, sigma, floor, n_iter):
    """Algorithms 1 and 2 with libsvm, and the exact bias search."""
    K = rbf_kernel(X, gamma=1 / sigma**2)
    for _ in range(n_iter):
        if loss == "hinge":
            machine = SVC(C=C, kernel="precomputed", tol=1e-6).fit(K, y)
            g = machine.decision_function(K) - machine.intercept_
        elif loss == "laplacian":
            machine = SVR(C=C, kernel="precomputed", epsilon=0.05, tol=1e-6).fit(K, y)
            g = machine.predict(K) - machine.intercept_
        else:
            n = len(y)
            system = np.block([[K + np.eye(n) / C, np.ones((n, 1))], [np.ones((1, n)), 0]])
            g = K @ np.linalg.solve(system, np.append(y, 0))[:n]
        new = balanced_split(g, loss, sizes=floor, epsilon=0.05).signs
        if (new == y).all():
            break
        y = new
    return y


@pytest.mark.parametrize(("loss", "C"), [("hinge", 10), ("laplacian", 500), ("squared", 100)])
def test_literal_algorithm_gives_the_same_labels(digits_pair, loss, C):
    X, _ = digits_pair
    n = len(X)
    sigma = 16 * np.sqrt(np.median(((X[:, None] - X[None]) ** 2).sum(-1)[np.triu_indices(n, 1)]))
    K = rbf_kernel(X, gamma=1 / sigma**2)
    scale2 = 1 / (1 - K.mean())  # features centred, unit mean square
    start = KMeans(2, n_init=1, random_state=0).fit(X).labels_
    model = AlternatingMarginClustering(
        loss=loss, gamma=1 / sigma**2, alpha=(2 if loss == "squared" else 1) * scale2 / (n * C),
        balance=0.94, init=start, anneal=False, n_components=None, tol=0.0, solver_tol=1e-5,
    ).fit(X)  # fmt: skip
    y = literal_algorithm(
        X, np.where(start == 1, 1, -1), loss, C, sigma, size_floor(0.94, n, 2), 50
    )
    assert clustering_error(y, model.labels_) <= 0.003


def test_hinge_without_balance_is_the_cccp_of_the_appendix():
    """Step for step: an SVM on the signs of the last SVM's scores."""
    rng = np.random.default_rng(3)
    Z = np.vstack([rng.normal(size=(20, 2)), rng.normal(size=(20, 2)) + 2.5])
    Z -= Z.mean(axis=0)
    stage = make_stage(Z, "hinge", 0.05, balance=0.0, gap=1e-8)
    signs = np.where(Z[:, 0] > 0.4, 1, -1).astype(np.int8)
    state = stage.init(signs)
    for _ in range(6):
        state = stage.step(state)
        svm = SVC(C=1 / (40 * 0.05), kernel="linear", tol=1e-9).fit(Z, signs)
        signs = np.where(svm.decision_function(Z) > 0, 1, -1)
        assert (state.signs == signs).all()
        assert state.coef == pytest.approx(svm.coef_[0], abs=2e-3)


def test_papers_point_svr_moves_where_svm_freezes():
    """Table I on digits that scikit-learn ships: 5 against 9, linear kernel, spectral start."""
    X, y = load_digits(return_X_y=True)
    pair = (y == 5) | (y == 9)
    X, y = X[pair], y[pair]
    alpha = 1 / (len(X) * 0.1 * ((X - X.mean(axis=0)) ** 2).sum(axis=1).mean())  # C = 0.1
    common = dict(kernel="linear", alpha=alpha, anneal=False, balance=0.94, init="spectral")
    errors = {
        loss: clustering_error(
            y, AlternatingMarginClustering(loss=loss, random_state=0, **common).fit(X).labels_
        )
        for loss in ("hinge", "laplacian")
    }
    assert errors["hinge"] > 0.1 > 0.05 > errors["laplacian"]


# -- what users rely on -------------------------------------------------------------------------


def test_beats_kmeans_on_digits_and_rings(digits_pair):
    X, y = digits_pair
    ours = AlternatingMarginClustering(balance=0.94, random_state=0).fit(X)
    assert clustering_error(y, ours.labels_) < 0.05
    X, y = ringnorm(500)
    ours = AlternatingMarginClustering(balance=0.94, random_state=0).fit(X)
    theirs = KMeans(2, n_init=10, random_state=0).fit(X)
    assert clustering_error(y, ours.labels_) < 0.06
    assert clustering_error(y, theirs.labels_) > 0.2
    X, y = make_circles(300, factor=0.4, noise=0.06, random_state=0)
    ours = AlternatingMarginClustering(balance=0.94, random_state=0).fit(X)
    assert clustering_error(y, ours.labels_) == 0.0


@pytest.mark.parametrize("balance", [0.5, 0.8, 1.0])
@pytest.mark.parametrize("loss", LOSSES)
def test_size_floor_and_predict_hold_at_once(blobs, balance, loss):
    X, _ = blobs
    model = AlternatingMarginClustering(loss=loss, balance=balance, random_state=0).fit(X)
    assert model.cluster_sizes_.min() >= int(balance * len(X) / 2)
    assert (model.predict(X) == model.labels_).all()


def test_balance_zero_may_put_all_rows_together():
    X = np.random.default_rng(0).normal(size=(30, 2))
    model = AlternatingMarginClustering(
        loss="hinge", balance=0, init=np.r_[np.ones(29), 0], alpha=1.0, anneal=False
    )
    with pytest.warns(UserWarning, match="1 of 2 clusters has no rows"):
        model.fit(X)
    assert model.cluster_sizes_.tolist() == [30, 0]
    assert model.objective_ == pytest.approx(0.0, abs=1e-6)
    assert model.exemplar_indices_[1] == -1


def test_many_clusters(blobs):
    X, y = blobs
    for model in (
        AlternatingMarginClustering(n_clusters=4, balance=0.3, random_state=0),
        BisectingMarginClustering(
            4, estimator=AlternatingMarginClustering(balance=0.3), random_state=0
        ),
    ):
        model.fit(X)
        assert clustering_error(y, model.labels_) == 0.0
        assert (np.diff(model.cluster_sizes_) <= 0).all()
        assert (model.predict(X) == model.labels_).all()
        assert model.decision_function(X).shape == (150, 4)
        lead = np.sort(model.decision_function(X), axis=1)
        assert (lead[:, -1] > 0).all() and (lead[:, -2] < 0).all()


@pytest.mark.parametrize("balance", [0.5, 0.94, 1.0])
@pytest.mark.parametrize("k", [3, 5, 6])
def test_size_floor_holds_for_many_clusters(k, balance):
    """A third cannot be cut off at the middle: the first split must leave room for the others."""
    X, y = make_blobs([20] * k, n_features=4, cluster_std=0.5, random_state=k)
    model = AlternatingMarginClustering(k, balance=balance, random_state=0).fit(X)
    assert model.cluster_sizes_.min() >= int(balance * 20)
    assert clustering_error(y, model.labels_) == 0.0
    noise = np.random.default_rng(k).normal(size=(100, 3))
    model = AlternatingMarginClustering(k, balance=balance, random_state=0).fit(noise)
    assert model.cluster_sizes_.min() >= int(balance * 100 / k)


def test_bisecting_by_size_and_its_floor():
    X, y = make_blobs([20] * 3, n_features=4, cluster_std=0.5, random_state=0)
    two_way = AlternatingMarginClustering(balance=0.94)
    model = BisectingMarginClustering(3, estimator=two_way, split_by="size", random_state=0).fit(X)
    assert clustering_error(y, model.labels_) == 0.0
    assert model.cluster_sizes_.min() >= int(0.94 * 20)
    missed = 0
    for seed in range(6):
        X = np.random.default_rng(seed).normal(size=(10, 2))
        tight = BisectingMarginClustering(3, estimator=AlternatingMarginClustering(balance=1.0))
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            tight.set_params(random_state=0).fit(X)
        short = tight.cluster_sizes_.min() < 3
        assert short == any("could not be met by these splits" in str(w.message) for w in said)
        missed += short
    assert missed < 6


def test_bisecting_with_least_squares():
    X, y = make_blobs([40] * 4, n_features=4, cluster_std=0.5, random_state=2)
    two_way = LeastSquaresMarginClustering(balance=0.5)
    model = BisectingMarginClustering(4, estimator=two_way, random_state=0).fit(X)
    assert clustering_error(y, model.labels_) == 0.0
    assert (model.predict(X) == model.labels_).all()


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_known_labels_are_kept_and_name_the_clusters(digits_pair, kernel):
    X, y = digits_pair
    known = np.full(len(y), -1)
    known[:40:4] = y[:40:4]
    known[0] = 1 - y[0]  # a wrong one stays too
    model = AlternatingMarginClustering(kernel=kernel, balance=0.9, random_state=0)
    model.fit(X, partial_labels=known)
    assert (model.labels_[known >= 0] == known[known >= 0]).all()
    assert np.mean(model.labels_ == y) > 0.93


def test_known_labels_of_one_class_only(digits_pair):
    X, y = digits_pair
    known = np.where((np.arange(len(y)) % 7 == 0) & (y == 1), 1, -1)
    model = AlternatingMarginClustering(balance=0.9, random_state=0).fit(X, partial_labels=known)
    assert (model.labels_[known >= 0] == 1).all()
    assert np.mean(model.labels_ == y) > 0.93


@pytest.mark.parametrize("make", [AlternatingMarginClustering, BisectingMarginClustering])
def test_known_labels_with_many_clusters(blobs, make):
    X, y = blobs
    known = np.full(len(y), -1)
    for c in range(4):
        known[np.flatnonzero(y == c)[:3]] = c
    if make is AlternatingMarginClustering:
        model = make(n_clusters=4, balance=0.2, random_state=0)
    else:
        model = make(4, estimator=AlternatingMarginClustering(balance=0.2), random_state=0)
    model.fit(X, partial_labels=known)
    assert (model.labels_ == y).all()
    assert (model.predict(X) == y).all()


@pytest.mark.parametrize("balance", [0.7, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_each_known_class_gets_a_cluster_of_its_own(balance, seed):
    """One known row per class, in the way of the balance or not."""
    rng = np.random.default_rng(seed)
    X, y = make_blobs([20] * 4, n_features=2, cluster_std=2.0, random_state=seed)
    known = np.full(80, -1)
    for c in range(4):
        known[rng.choice(np.flatnonzero(y == c))] = c
    model = AlternatingMarginClustering(4, balance=balance, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model.fit(X, partial_labels=known)
    assert (model.labels_[known >= 0] == known[known >= 0]).all()
    assert len(np.unique(model._paths, axis=0)) == 4
    assert set(model.predict(X)) == {0, 1, 2, 3}


def test_known_rows_at_one_end():
    X, known = np.linspace(0, 1, 30)[:, None], np.full(30, -1)
    known[[0, 25, 29]] = [0, 1, 2]
    model = AlternatingMarginClustering(3, balance=0.7, random_state=0)
    model.fit(X, partial_labels=known)
    assert model.cluster_sizes_.min() >= 7
    assert set(model.predict(X)) == {0, 1, 2}


@pytest.mark.parametrize("first", [40, 12_000])
def test_repeated_rows_that_forbid_the_sizes_give_the_nearest(first):
    X = np.repeat([[0.0, 0], [1, 0], [5, 5]], [first, 3, 2], axis=0)
    recursive = AlternatingMarginClustering(3, multi_class="recursive")
    splits = BisectingMarginClustering(3, estimator=AlternatingMarginClustering(balance=0.7))
    for model in (recursive, splits):
        with pytest.warns(UserWarning, match=r"balance=0.7 (cannot|could not) be met"):
            model.set_params(random_state=0).fit(X)
        assert model.cluster_sizes_.tolist() == [first, 3, 2]


def test_tiny_weights_keep_the_floor(digits_pair):
    X = digits_pair[0][:60]
    plain = AlternatingMarginClustering(balance=0.9, random_state=0).fit(X)
    tiny = AlternatingMarginClustering(balance=0.9, random_state=0)
    tiny.fit(X, sample_weight=np.full(60, 1e-12))
    assert (tiny.cluster_sizes_ > 0.45 * 60e-12).all()
    assert np.mean(plain.labels_ == tiny.labels_) > 0.95


def test_gamma_none_is_one_over_the_columns(digits_pair):
    X = digits_pair[0]
    a = AlternatingMarginClustering(gamma=None, random_state=0).fit(X)
    b = AlternatingMarginClustering(gamma=1 / 64, random_state=0).fit(X)
    assert (a.coef_ == b.coef_).all()


@pytest.mark.parametrize("kernel", ["laplacian", "cosine", "linear"])
def test_to_svm_takes_every_kernel(digits_pair, kernel):
    X = digits_pair[0]
    model = AlternatingMarginClustering(kernel=kernel, balance=0.9, random_state=0).fit(X)
    assert np.mean(model.to_svm(X).predict(X) == model.labels_) > 0.95


def test_known_labels_that_break_the_balance_are_refused(digits_pair):
    X, _ = digits_pair
    known = np.zeros(len(X), int)
    known[:10] = -1
    with pytest.raises(ValueError, match="balance requires at least"):
        AlternatingMarginClustering(balance=0.9).fit(X, partial_labels=known)


def test_to_svm_labels_like_the_model(digits_pair):
    X, _ = digits_pair
    model = AlternatingMarginClustering(loss="hinge", balance=0.9, random_state=0).fit(X)
    svm = model.to_svm(X)
    assert isinstance(svm, SVC)
    assert len(svm.support_) < len(X)
    assert np.mean(svm.predict(X) == model.labels_) > 0.97
    f, g = model.decision_function(X)[:, 1], svm.decision_function(X)
    assert np.corrcoef(f, g)[0, 1] > 0.99


def test_warm_start_continues_from_the_previous_labels(digits_pair):
    X, _ = digits_pair
    model = AlternatingMarginClustering(
        balance=0.94, warm_start=True, alpha=0.02, anneal=False, random_state=0
    ).fit(X)
    before = model.labels_
    model.set_params(alpha=0.021, random_state=5).fit(X)
    assert np.mean(before == model.labels_) > 0.97
    assert model.n_iter_ <= 3


def test_linear_coefficients_apply_to_raw_rows(digits_pair):
    X, _ = digits_pair
    model = AlternatingMarginClustering(kernel="linear", balance=0.9, random_state=0).fit(X)
    raw = X @ model.coef_[0] + model.intercept_[0]
    assert model.decision_function(X)[:, 1] == pytest.approx(raw, abs=1e-9)
    joint = AlternatingMarginClustering(kernel="linear", random_state=0).fit(X)
    raw = X @ joint.coef_.T + joint.intercept_
    assert joint.decision_function(X) == pytest.approx(raw, abs=1e-9)


def test_precomputed_kernel_equals_its_own_kernel(digits_pair):
    X, _ = digits_pair
    gamma = 1e-3
    K = rbf_kernel(X, gamma=gamma)
    given = AlternatingMarginClustering(kernel="precomputed", balance=0.9, random_state=0).fit(K)
    assert (given.predict(K) == given.labels_).all()
    assert given.predict(K[:5]).tolist() == given.labels_[:5].tolist()
    named = AlternatingMarginClustering(gamma=gamma, balance=0.9, random_state=0).fit(X)
    assert clustering_error(named.labels_, given.labels_) < 0.03


def test_tied_rows_that_forbid_the_floor_warn():
    X = np.r_[np.zeros((9, 2)), np.ones((1, 2))]
    with pytest.warns(UserWarning, match=r"balance=1.0 cannot be met.*4 short of 5"):
        model = AlternatingMarginClustering(balance=1.0, random_state=0).fit(X)
    assert model.cluster_sizes_.tolist() == [9, 1]


def test_unsolved_regression_warns(digits_pair, monkeypatch):
    import maxmargin.alternating._regression as regression

    monkeypatch.setattr(regression, "MAX_ITER", 10)
    with pytest.warns(Warning, match="reached a relative duality gap of"):
        AlternatingMarginClustering(solver_tol=1e-9, random_state=0).fit(digits_pair[0])


def test_large_data_start_on_a_subsample(monkeypatch):
    monkeypatch.setattr(_search, "START_ROWS", 1000)
    X, y = ringnorm(2000, seed=4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = AlternatingMarginClustering(loss="squared", balance=0.9, random_state=0).fit(X)
    assert clustering_error(y, model.labels_) < 0.06
    assert (model.predict(X) == model.labels_).all()


@pytest.mark.parametrize("init", ["k-means", "spectral", "random"])
def test_each_start_leads_somewhere_sensible(blobs, init):
    X, y = blobs
    two = np.isin(y, [0, 1])
    model = AlternatingMarginClustering(init=init, balance=0.5, random_state=0).fit(X[two])
    assert clustering_error(y[two], model.labels_) == 0.0


def test_best_start_is_kept_by_objective():
    X, _ = ringnorm(100, seed=2)
    common = dict(alpha=0.01, anneal=False, init="random", balance=0.9, random_state=0)
    one = AlternatingMarginClustering(n_init=1, **common).fit(X)
    many = AlternatingMarginClustering(n_init=15, **common).fit(X)
    assert many.objective_ < one.objective_


def test_a_vanishing_regulariser_is_refused():
    """Its scores overflowed, and no signal ended the search for their best split."""
    X = np.random.default_rng(0).normal(size=(20, 2))
    given = {"loss": "hinge", "n_components": 1000, "random_state": 0}
    with pytest.raises(ValueError, match="'alpha' parameter"):
        AlternatingMarginClustering(5, alpha=1e-300, **given).fit(X)
    model = AlternatingMarginClustering(5, alpha=1e-12, **given).fit(X)
    assert np.isfinite(model.coef_).all()


@pytest.mark.filterwarnings("ignore:balance=")
def test_known_classes_with_equal_means_are_parted():
    X = np.array([[-1.0], [1.0], [-2.0], [2.0], [-3.0], [3.0]])
    known = np.array([0, 0, 1, 1, 2, 2])
    model = AlternatingMarginClustering(3, kernel="linear", balance=0.0, random_state=0)
    assert model.fit(X, partial_labels=known).labels_.tolist() == known.tolist()


def test_parameters_of_the_splitting_estimator_are_validated_first():
    model = BisectingMarginClustering(2, estimator=LeastSquaresMarginClustering(ridge=None))
    with pytest.raises(ValueError, match="'ridge' parameter of LeastSquaresMarginClustering"):
        model.fit(np.eye(5))


@pytest.mark.filterwarnings("ignore:balance=")
@pytest.mark.filterwarnings("ignore:.*clusters (has|have) no rows")
def test_rows_that_differ_by_rounding_alone_are_one_cluster():
    X = (1.0 + 1e-7 * np.arange(8).reshape(-1, 1)).astype(np.float32)
    model = AlternatingMarginClustering(2, kernel="linear", random_state=0).fit(X)
    assert model.cluster_sizes_.tolist() == [8, 0]
    assert (model.labels_ == model.predict(X)).all()


def test_half_the_median_distance_is_a_width(digits_pair):
    model = AlternatingMarginClustering(gamma="half-median", balance=0.9, random_state=0)
    wide = AlternatingMarginClustering(balance=0.9, random_state=0).fit(digits_pair[0])
    narrow = model.fit(digits_pair[0]).feature_map_.params["gamma"]
    assert narrow == pytest.approx(2.0 * wide.feature_map_.params["gamma"])


@pytest.mark.parametrize("settings", [{"multi_class": "recursive"}, {"gamma": 0.5}, {"alpha": 0.1}])
def test_the_memory_of_two_way_splits_is_that_of_their_kernel(settings):
    given = AlternatingMarginClustering(**settings)
    named = AlternatingMarginClustering(**settings, kernel="rbf")
    joint = AlternatingMarginClustering()
    for n in (1000, 1_000_000):
        assert given.estimate_memory(n, 20) == named.estimate_memory(n, 20)
        assert given.estimate_memory(n, 20) > 1.5 * joint.estimate_memory(n, 20)
    X = np.random.default_rng(0).normal(size=(600, 20))
    mapped = AlternatingMarginClustering(**settings, n_init=1, random_state=0).fit(X)
    assert given.estimate_memory(600, 20) > 8 * 600 * mapped.coef_.shape[1]
