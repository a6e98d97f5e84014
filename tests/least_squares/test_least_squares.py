"""Least-squares margin clustering against the paper's formulas and brute force."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.datasets import load_digits, load_iris, make_blobs, make_moons
from sklearn.metrics.pairwise import rbf_kernel

from maxmargin import LeastSquaresMarginClustering, select_parameters
from maxmargin._core.features import FeatureMap
from maxmargin.least_squares._estimator import paper_objective
from maxmargin.least_squares._label_search import (
    Labelling,
    LabelProblem,
    cluster_prices,
    make_scratch,
    settle,
)
from maxmargin.least_squares._numba import (
    claim,
    shake_round,
    steepest_steps,
    stochastic_round,
)
from maxmargin.least_squares._similarity import make_similarity
from maxmargin.least_squares._starts import random_labels
from maxmargin.metrics import adjusted_rand_score, clustering_accuracy


def kernel_map(X, gamma=0.3):
    n = X.shape[0]
    params = {"gamma": gamma}
    return FeatureMap("rbf", params, X, None, None, np.zeros(n), 1.0, np.dtype(np.float64))


def similarity(X, ridge=0.7, center=True, weights=None, gamma=0.3):
    weights = np.ones(len(X)) if weights is None else weights
    return make_similarity(kernel_map(X, gamma), X, weights, ridge, center)


@pytest.fixture(scope="module")
def X():
    return np.random.default_rng(0).normal(size=(40, 3))


# -- algebra --------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [2, 3, 5])
@pytest.mark.parametrize("ridge", [0.01, 0.7, 4.0])
def test_objective_equals_the_papers_formula(X, k, ridge):
    """Formula F (with the constant n) and Q, for the paper's uncentred kernel."""
    rng = np.random.default_rng(k)
    R = similarity(X, ridge, center=False)
    problem = LabelProblem(R, k, np.full(k, 40 / k), 0.0, np.full(40, -1, np.int32))
    for _ in range(5):
        labels = rng.integers(0, k, 40).astype(np.int32)
        expected = paper_objective(rbf_kernel(X, gamma=0.3), labels, ridge, k)
        assert Labelling(problem, labels).objective() == pytest.approx(expected, abs=1e-8)


def test_fitted_objective_is_the_papers(X):
    model = LeastSquaresMarginClustering(
        3, gamma=0.3, ridge=0.5, center=False, random_state=0, n_kicks=0
    ).fit(X)
    expected = paper_objective(rbf_kernel(X, gamma=0.3), model.labels_, 0.5, 3)
    assert model.objective_ == pytest.approx(expected, abs=1e-6)


def test_the_loss_of_centred_classifiers_is_the_objective_less_that_of_their_intercepts(X):
    model = LeastSquaresMarginClustering(3, gamma=0.3, ridge=0.5, random_state=0).fit(X)
    n, sizes = len(X), model.cluster_sizes_
    H = np.eye(n) - 1 / n
    K = H @ rbf_kernel(X, gamma=0.3) @ H
    loss = 0.0
    for h in range(3):
        y = np.where(model.labels_ == h, 1.0, -1.0)
        a = np.linalg.solve(K + 0.5 * np.eye(n), y - y.mean())
        fitted = y.mean() + K @ a
        assert 2 * model.decision_function(X)[:, h] - 1 == pytest.approx(fitted, abs=1e-6)
        loss += ((y - fitted) ** 2).sum() + 0.5 * a @ K @ a
    intercepts = n * ((2 * sizes / n - 1) ** 2).sum()
    assert model.objective_ - intercepts == pytest.approx(loss, rel=1e-6)


def test_memberships_are_the_positive_scores(X):
    model = LeastSquaresMarginClustering(3, gamma=0.3, center=False, random_state=1).fit(X)
    scores = np.maximum(model.decision_function(X), 0)
    expected = (scores / scores.sum(axis=1, keepdims=True))[model.fitted_indices_]
    assert model.membership_ == pytest.approx(expected, abs=1e-6)
    assert model.membership_.sum(axis=1) == pytest.approx(1.0)


def test_rounds_and_cooling_of_the_shaking(X):
    def model(**params):
        return LeastSquaresMarginClustering(
            3, gamma=0.3, n_init=1, n_kicks=0, balance=0, random_state=0, **params
        ).fit(X)

    once, usual = model(n_shakes=1).history_, model().history_
    assert once[0] == once[1] == usual[0] != usual[1]  # one round, then empty clusters are filled
    slow = model(n_shakes=40, cooling=0.9).history_
    assert slow[0] == usual[0] and slow[1] != usual[1] and len(slow) > len(usual)
    with pytest.raises(ValueError, match="cooling"):
        model(cooling=1.0)


def test_without_centring_one_big_cluster_is_best():
    """Why center=True is the default (iris, the paper's kernel)."""
    data, y = load_iris(return_X_y=True)
    K = rbf_kernel(data, gamma=0.05)
    H = np.eye(150) - 1 / 150
    one = np.zeros(150, int)
    assert paper_objective(K, one, 0.5, 3) < paper_objective(K, y, 0.5, 3)
    assert paper_objective(H @ K @ H, one, 0.5, 3) > paper_objective(H @ K @ H, y, 0.5, 3)


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_leave_one_out_equals_refits(X, center, weighted):
    rng = np.random.default_rng(1)
    w = rng.random(40) + 0.5 if weighted else np.ones(40)
    labels = rng.integers(0, 3, 40).astype(np.int32)
    R = similarity(X, 0.4, center, w)
    closed = R.leave_one_out(R.caches(labels, 3), labels)
    for i in range(0, 40, 5):
        keep = np.arange(40) != i
        part = similarity(X[keep], 0.4, center, w[keep])
        coef, intercept = part.coefficients(part.caches(labels[keep], 3), labels[keep])
        refit = rbf_kernel(X[[i]], X[keep], gamma=0.3) @ coef.T + intercept
        assert closed[i] == pytest.approx(refit[0], abs=1e-9)


@pytest.mark.parametrize("center", [True, False])
def test_model_is_weighted_kernel_ridge(X, center):
    """Coefficients from R equal those of the normal equations with an unpenalised bias."""
    rng = np.random.default_rng(2)
    w, labels = rng.integers(1, 4, 40).astype(float), rng.integers(0, 3, 40).astype(np.int32)
    R = similarity(X, 0.4, center, w)
    coef, intercept = R.coefficients(R.caches(labels, 3), labels)
    K, Y = rbf_kernel(X, gamma=0.3), np.eye(3)[labels]
    if center:
        system = np.block(
            [[K + 0.4 * np.diag(1 / w), np.ones((40, 1))], [np.ones((1, 40)), np.zeros((1, 1))]]
        )
        solution = np.linalg.solve(system, np.vstack([Y, np.zeros((1, 3))]))
        expected, bias = solution[:40].T, solution[40]
    else:
        expected, bias = np.linalg.solve(K + 0.4 * np.diag(1 / w), Y).T, np.zeros(3)
    assert coef == pytest.approx(expected, abs=1e-9)
    assert intercept == pytest.approx(bias, abs=1e-9)
    fitted = R.fitted(R.caches(labels, 3), labels)
    assert fitted == pytest.approx(K @ coef.T + intercept, abs=1e-9)


# -- searches -------------------------------------------------------------------------------------


def arrays(R, labels, k, fixed=None, floor=0.0):
    n = len(labels)
    labels = labels.astype(np.int32)
    sizes = np.bincount(labels, R.weights, minlength=k).astype(float)
    fixed = np.zeros(n, bool) if fixed is None else fixed
    shared = (R.matrix, R.caches(labels, k), labels, sizes, R.weights, fixed, floor)
    return shared, make_scratch(n, R.matrix.dtype)


def brute_value(matrix, labels, k):
    return sum(matrix[np.ix_(labels == h, labels == h)].sum() for h in range(k))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_every_claim_is_the_best_by_brute_force(X, dtype):
    R = similarity(X)
    R = type(R)(R.matrix.astype(dtype), R.weights, R.ridge, R.scale, R.row_means)
    labels = np.random.default_rng(3).integers(0, 3, 40)
    shared, scratch = arrays(R, labels, 3)
    for _ in range(25):
        before = shared[2].copy()
        gains = np.full(40, -np.inf)
        for j in np.flatnonzero(before != 1):
            moved = before.copy()
            moved[j] = 1
            gains[j] = brute_value(R.matrix, moved, 3) - brute_value(R.matrix, before, 3)
        assert claim(*shared, 1, 1.0, scratch) == 1
        (j,) = np.flatnonzero(shared[2] != before)
        assert gains[j] == pytest.approx(gains.max(), abs=1e-4)
        assert shared[1] == pytest.approx(R.caches(shared[2], 3), abs=1e-4)
        assert (shared[3] == np.bincount(shared[2], minlength=3)).all()
        if shared[3][1] > 35:
            break


def literal_shaking(matrix, labels, k, rounds):
    """Algorithm 3, word for word, with brute-force objectives left to the caches' definition."""
    c, n = labels.copy(), len(labels)
    for i in range(rounds):
        for d in range(k):
            alpha = n / (2**i * k) + n / k - np.sum(c == d)
            for _ in range(int(alpha)):
                T = np.array([matrix[:, c == h].sum(axis=1) for h in range(k)])
                gain = T[d] - T[c, np.arange(n)] + np.diag(matrix)
                gain[c == d] = -np.inf
                if not np.isfinite(gain.max()):
                    break
                c[np.argmax(gain)] = d
    return c


@pytest.mark.parametrize("k", [2, 4])
def test_shaking_is_algorithm_3(X, k):
    R = similarity(X)
    labels = np.random.default_rng(4).integers(0, k, 40)
    shared, scratch = arrays(R, labels, k)
    for i in range(21):
        shake_round(*shared, np.full(k, 40 / k), 0.5**i, scratch)
    assert (shared[2] == literal_shaking(R.matrix, labels, k, 21)).all()


@pytest.mark.parametrize("search", ["stochastic", "steepest"])
def test_descents_end_where_no_single_move_helps(X, search):
    R = similarity(X)
    labels = np.random.default_rng(5).integers(0, 3, 40)
    shared, scratch = arrays(R, labels, 3)
    values = [brute_value(R.matrix, shared[2], 3)]
    while True:
        if search == "stochastic":
            moves = stochastic_round(*shared, np.arange(40), np.zeros(3), 0.0)
        else:
            moves = steepest_steps(*shared, scratch, 1e-9, 1)
        values.append(brute_value(R.matrix, shared[2], 3))
        if moves == 0:
            break
    assert (np.diff(values) >= -1e-12).all() and values[-1] > values[0]
    for j, d in itertools.product(range(40), range(3)):
        moved = shared[2].copy()
        moved[j] = d
        assert brute_value(R.matrix, moved, 3) <= values[-1] + 1e-7


def test_floor_and_fixed_rows_hold_in_every_search(X):
    R = similarity(X)
    labels = np.random.default_rng(6).integers(0, 3, 40)
    fixed = np.zeros(40, bool)
    fixed[:12] = True
    for search in ("shake", "stochastic", "steepest"):
        shared, scratch = arrays(R, labels, 3, fixed, floor=8.0)
        before = shared[2].copy()
        for i in range(10):
            if search == "shake":
                shake_round(*shared, np.array([30.0, 6.0, 4.0]), 0.5**i, scratch)
            elif search == "stochastic":
                stochastic_round(*shared, np.arange(40), np.zeros(3), 0.0)
            else:
                steepest_steps(*shared, scratch, 1e-9, 20)
            assert (shared[2][:12] == before[:12]).all()
            assert shared[3].min() >= min(8, np.bincount(before, minlength=3).min())


@given(st.integers(0, 5000), st.integers(2, 5))
def test_prices_reproduce_any_labels_that_prices_can(seed, k):
    rng = np.random.default_rng(seed)
    scores, hidden = rng.normal(size=(30, k)), rng.normal(size=k)
    labels = (scores + hidden).argmax(axis=1)
    prices = cluster_prices(scores, labels)
    assert ((scores + prices).argmax(axis=1) == labels).all()


def test_no_prices_where_none_are_needed():
    scores = np.random.default_rng(0).normal(size=(20, 3))
    assert (cluster_prices(scores, scores.argmax(axis=1)) == 0).all()


def test_settled_labels_are_what_the_model_predicts(X):
    R = similarity(X)
    problem = LabelProblem(R, 3, np.full(3, 40 / 3), 4.0, np.full(40, -1, np.int32))
    labels, caches, prices = settle(problem, random_labels(problem, np.random.default_rng(0)))
    assert ((R.fitted(caches, labels) + prices).argmax(axis=1) == labels).all()


@pytest.mark.parametrize("rounds", [1, 2])
def test_labels_that_do_not_settle_are_those_of_the_model(X, rounds):
    problem = LabelProblem(similarity(X), 3, np.full(3, 40 / 3), 0.0, np.full(40, -1, np.int32))
    labels, caches, _ = settle(problem, random_labels(problem, np.random.default_rng(0)), rounds)
    np.testing.assert_array_equal(caches, problem.similarity.caches(labels, 3))


# -- what users rely on ---------------------------------------------------------------------------


def test_digits_iris_and_moons_without_settings():
    digits, y = load_digits(return_X_y=True)
    model = LeastSquaresMarginClustering(10, random_state=0).fit(digits)
    assert adjusted_rand_score(y, model.labels_) > 0.85
    assert (model.predict(digits) == model.labels_).all()
    assert model.leave_one_out_ > 0.97
    iris, y = load_iris(return_X_y=True)
    model = LeastSquaresMarginClustering(3, random_state=0).fit(iris)
    assert adjusted_rand_score(y, model.labels_) > 0.88


def test_shaking_beats_the_plain_descents():
    """Table 1's point."""
    iris, _ = load_iris(return_X_y=True)
    values = {
        search: LeastSquaresMarginClustering(
            3, search=search, n_init=1, n_kicks=0, random_state=0
        ).fit(iris).objective_
        for search in ("shaking", "steepest", "stochastic")
    }  # fmt: skip
    assert values["shaking"] <= min(values.values())


def test_no_empty_clusters():
    digits, _ = load_digits(return_X_y=True)
    for seed in range(5):
        model = LeastSquaresMarginClustering(20, n_init=1, n_kicks=0, random_state=seed)
        assert model.fit(digits[:300]).cluster_sizes_.min() > 0


def test_an_empty_cluster_is_told_with_a_remedy_that_helps():
    """Given sizes replace the size floor: balance has no effect."""
    X = np.random.default_rng(8).normal(size=(8, 2)).round()
    sizes, known = (0.45, 0.45, 0.0999, 0.0001), np.full(8, -1)
    model = LeastSquaresMarginClustering(4, cluster_sizes=sizes, random_state=0)
    with pytest.warns(UserWarning, match="1 of 4 clusters has no rows; give partial_labels"):
        model.fit(X)
    known[np.unique(X, axis=0, return_index=True)[1][:4]] = range(4)
    assert model.fit(X, partial_labels=known).cluster_sizes_.min() > 0


@pytest.mark.parametrize("centers", [[900, 100], [600, 200, 100, 100]])
def test_unequal_sizes(centers):
    seed = 0 if len(centers) == 2 else 3
    X, y = make_blobs(centers, 10, cluster_std=3, random_state=seed)
    k = len(centers)
    with pytest.warns(UserWarning, match="probably not of equal size"):
        equal = LeastSquaresMarginClustering(k, random_state=0).fit(X)
    adaptive = LeastSquaresMarginClustering(k, cluster_sizes="adaptive", random_state=0).fit(X)
    given = LeastSquaresMarginClustering(k, cluster_sizes=centers, random_state=0).fit(X)
    share = LeastSquaresMarginClustering(
        k, cluster_sizes=np.array(centers) / sum(centers), random_state=0
    ).fit(X)
    scores = [adjusted_rand_score(y, m.labels_) for m in (equal, adaptive, given)]
    assert scores[1] > scores[0]
    assert scores[2] > (0.95 if k == 2 else scores[0])
    assert (given.labels_ == share.labels_).all()


def with_known(y, per_class, seed):
    rng, known = np.random.default_rng(seed), np.full(len(y), -1)
    for c in np.unique(y):
        known[rng.choice(np.flatnonzero(y == c), per_class, replace=False)] = c
    return known


@pytest.mark.parametrize(("per_class", "least"), [(1, 0.85), (5, 0.94)])
def test_a_few_known_labels_name_and_find_the_digits(per_class, least):
    X, y = load_digits(return_X_y=True)
    known = with_known(y, per_class, 0)
    model = LeastSquaresMarginClustering(10, random_state=0).fit(X, partial_labels=known)
    assert (model.labels_[known >= 0] == known[known >= 0]).all()
    assert np.mean((model.labels_ == y)[known < 0]) > least


@pytest.mark.parametrize("start", ["supervised", "grow"])
def test_both_starts_from_known_labels(start):
    X, y = load_iris(return_X_y=True)
    known = with_known(y, 3, 0)
    known[0] = 2  # a wrong one stays too
    model = LeastSquaresMarginClustering(3, partial_start=start, random_state=0)
    model.fit(X, partial_labels=known)
    assert (model.labels_[known >= 0] == known[known >= 0]).all()
    assert np.mean(model.labels_ == y) > 0.9


def test_rows_beyond_max_samples_are_predicted(tmp_path):
    X, y = make_blobs([3000, 3000, 3000], 5, cluster_std=1.0, random_state=0)
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    model = LeastSquaresMarginClustering(3, max_samples=500, random_state=0).fit(mapped)
    assert len(model.fitted_indices_) == 500
    assert model.coef_.shape == (3, 500)
    assert clustering_accuracy(y, model.labels_) > 0.99
    assert (model.predict(X) == model.labels_).all()


def test_sparse_text_like_rows():
    rng = np.random.default_rng(0)
    topics = rng.random((3, 200)) ** 6
    y = rng.integers(0, 3, 240)
    X = sparse.csr_matrix(rng.poisson(3 * topics[y]).astype(float))
    for kernel in ("cosine", "linear"):
        model = LeastSquaresMarginClustering(3, kernel=kernel, random_state=0).fit(X)
        assert clustering_accuracy(y, model.labels_) > 0.95


def test_pca_and_low_rank():
    X, y = load_digits(return_X_y=True)
    reduced = LeastSquaresMarginClustering(10, pca=30, random_state=0).fit(X)
    assert reduced.feature_map_.axes.shape == (64, 30)
    assert adjusted_rand_score(y, reduced.labels_) > 0.8
    low = LeastSquaresMarginClustering(10, n_components=100, random_state=0).fit(X)
    assert low.coef_.shape == (10, 100)
    assert (low.predict(X) == low.labels_).all()
    assert adjusted_rand_score(y, low.labels_) > 0.5


def test_low_rank_at_nearly_full_rank_is_nearly_exact():
    X, _ = make_blobs([30, 30, 30], 3, random_state=1)
    exact = LeastSquaresMarginClustering(3, gamma=0.3, random_state=0).fit(X)
    full = LeastSquaresMarginClustering(3, gamma=0.3, n_components=89, random_state=0).fit(X)
    assert clustering_accuracy(exact.labels_, full.labels_) > 0.97
    a, b = np.sort(exact.decision_function(X), axis=1), np.sort(full.decision_function(X), axis=1)
    assert a == pytest.approx(b, abs=0.1)


def test_select_parameters_judges_sparse_and_dense_rows_alike():
    """Also far from the origin, where the diagonal of the linear kernel is mostly the mean's."""
    X = np.random.default_rng(0).normal(size=(60, 4)) + 30.0
    params = dict(grid={"gamma": [1.0]}, kernel="linear", random_state=0)
    dense, csr = (select_parameters(rows, 2, **params).table for rows in (X, sparse.csr_array(X)))
    for one, other in zip(dense, csr):
        assert one == pytest.approx(other)


def test_select_parameters_solves_moons_and_shows_its_table():
    X, y = make_moons(500, noise=0.05, random_state=0)
    grid = {"gamma": [0.01, 5.0, 20.0], "ridge": [0.25, 1.0]}
    choice = select_parameters(X, 2, grid, random_state=0)
    assert len(choice.table) == 6
    best = max(choice.table, key=lambda row: row["stability"] * row["leave_one_out"])
    assert choice.best == {"gamma": best["gamma"], "ridge": best["ridge"]}
    model = LeastSquaresMarginClustering(2, **choice.best, random_state=0).fit(X)
    assert adjusted_rand_score(y, model.labels_) == 1.0
    axes = choice.plot()
    assert len(axes.texts) == 6


# -- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"cluster_sizes": [20, 10]}, r"add up to the number of rows \(40\).*they add up to 30"),
        ({"cluster_sizes": [40, 0]}, "cluster_sizes must be 2 positive numbers"),
        ({"cluster_sizes": [10, 10, 20]}, "cluster_sizes must be 2 positive numbers"),
        ({"cluster_sizes": "guess"}, "'cluster_sizes' parameter"),
        ({"ridge": 0.0}, "'ridge' parameter"),
        ({"search": "random"}, "'search' parameter"),
        ({"gamma": "scale"}, "'gamma' parameter"),
        ({"pca": 2, "sparse": True}, "pca needs dense rows"),
    ],
)
def test_bad_parameters(X, params, message):
    params = dict(params)
    data = sparse.csr_matrix(X) if params.pop("sparse", False) else X
    with pytest.raises(ValueError, match=message):
        LeastSquaresMarginClustering(**params).fit(data)


def test_bad_grid_and_too_large_precomputed(X):
    with pytest.raises(ValueError, match="grid accepts the keys"):
        select_parameters(X, 2, {"sigma": [1.0]})
    with pytest.raises(ValueError, match="needs max_samples >= n_samples = 40"):
        LeastSquaresMarginClustering(kernel="precomputed", max_samples=10).fit(X @ X.T)


def test_all_labels_unknown_is_no_knowledge(X):
    known = np.full(40, -1)
    a = LeastSquaresMarginClustering(3, random_state=0).fit(X)
    b = LeastSquaresMarginClustering(3, random_state=0).fit(X, partial_labels=known)
    assert (a.labels_ == b.labels_).all()


@pytest.mark.parametrize("weight", [1e-12, 1e-3, 1e3, 1e12])
@pytest.mark.filterwarnings("ignore:Leave-one-out predictions")
def test_labels_are_predictions_whatever_all_rows_weigh(weight):
    """Also where the ridge is nothing beside the weights, or they are nothing beside it."""
    X = make_blobs([30, 30, 30], cluster_std=0.5, random_state=0)[0]
    model = LeastSquaresMarginClustering(3, random_state=0).fit(X, sample_weight=[weight] * 90)
    assert (model.labels_ == model.predict(X)).all()
    if weight <= 1e3:
        np.testing.assert_allclose(model.cluster_sizes_, 30 * weight)


def test_a_size_that_cannot_be_met_is_said():
    X = np.random.default_rng(0).normal(size=(20, 2))
    weights = np.where(np.arange(20) == 3, 1.0, 1e-12)
    with pytest.warns(UserWarning, match="balance=0.1 cannot be met"):
        LeastSquaresMarginClustering(2, random_state=0).fit(X, sample_weight=weights)


def test_a_floor_equal_to_the_target_sizes_leaves_room_to_search():
    """No cluster could give up a row: the random labels of the start were returned."""
    X, y = make_blobs(60, centers=3, cluster_std=0.5, random_state=0)
    model = LeastSquaresMarginClustering(3, balance=1.0, random_state=0).fit(X)
    assert adjusted_rand_score(y, model.labels_) == 1.0
    assert model.cluster_sizes_.tolist() == [20, 20, 20]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("gamma", [5e-324, 1.7e308])
def test_extreme_widths_give_finite_scores(gamma):
    X = np.random.default_rng(0).normal(size=(60, 5))
    model = LeastSquaresMarginClustering(3, kernel=["rbf", "linear"], gamma=gamma, random_state=0)
    assert np.isfinite(model.fit(X).decision_function(X)).all()
    assert (model.predict(X) == model.labels_).all()
