"""Multiple kernels against the paper's cone program, generic solvers and single kernels."""

import warnings
from itertools import pairwise

import clarabel
import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.optimize import minimize
from sklearn.datasets import load_digits, make_blobs
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel

from maxmargin import CuttingPlaneMarginClustering, MultipleKernelMarginClustering
from maxmargin._core.qp import ScoreBalance, solve_qp
from maxmargin.cutting_plane._penalty import (
    BlockBalance,
    KernelWeights,
    solve_cone_program,
    solve_weights,
)
from maxmargin.metrics import clustering_error
from maxmargin.persistence import load_model, save_model


def random_cuts(rng, count, m=None):
    """Vectors (m, k, r) of cuts, their blocks and gains."""
    k, m = int(rng.integers(2, 4)), m or int(rng.integers(1, 15))
    widths = rng.integers(1, 5, size=count)
    ends = np.cumsum([0, *widths])
    blocks = tuple(slice(int(a), int(b)) for a, b in pairwise(ends))
    vectors = rng.normal(size=(m, k, ends[-1])) * np.repeat(rng.random(count) + 0.2, widths)
    return vectors - vectors.mean(axis=1, keepdims=True), blocks, 0.3 + rng.random(m)


def grams_of(vectors, blocks, alpha):
    parts = [vectors[:, :, b].reshape(len(vectors), -1) for b in blocks]
    return np.stack([p @ p.T for p in parts]) / alpha


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("count", [1, 3, 10, 30])
def test_the_reduced_dual_equals_the_cone_program(p, count):
    rng = np.random.default_rng(count)
    for _ in range(4):
        vectors, blocks, gains = random_cuts(rng, count)
        alpha = 10 ** rng.uniform(-2, 0)
        value, coef, _ = solve_cone_program(vectors, gains, blocks, alpha, p)
        grams = grams_of(vectors, blocks, alpha)
        found = solve_weights(grams, gains, float(p), tol=1e-9, rounds=5000)
        assert found.gap <= 1e-7 * found.bound
        assert found.bound == pytest.approx(value, rel=1e-7, abs=1e-10)
        theirs = KernelWeights(alpha, float(p), blocks).weights(coef)
        assert found.weights == pytest.approx(theirs, abs=1e-2)


@pytest.mark.parametrize("p", [1.0, 1.2, 1.5, 2.0, 3.0, 8.0])
def test_weights_and_penalty_in_closed_form(p):
    """beta_k ~ |V_k|^(2 / (p + 1)) against a generic solver of min sum |V_k|^2 / beta_k."""
    rng = np.random.default_rng(0)
    blocks = (slice(0, 2), slice(2, 3), slice(3, 7))
    coef = rng.normal(size=(2, 7))
    penalty = KernelWeights(0.5, p, blocks)
    squares = np.array([(coef[:, b] ** 2).sum() for b in blocks])
    found = minimize(
        lambda beta: (squares / beta).sum(),
        np.full(3, 3 ** (-1 / p)),
        bounds=[(1e-6, 1)] * 3,
        constraints={"type": "ineq", "fun": lambda beta: 1 - (beta**p).sum()},
        options={"ftol": 1e-14, "maxiter": 500},
    )
    assert penalty.weights(coef) == pytest.approx(found.x, abs=1e-4)
    assert penalty.value(coef, np.zeros(2)) == pytest.approx(0.25 * found.fun, rel=1e-6)
    assert (penalty.weights(coef) ** p).sum() == pytest.approx(1.0)


@pytest.mark.parametrize("p", [1.0, 1.3, 2.0, 4.0])
def test_the_dual_bound_holds_and_is_met(p):
    rng = np.random.default_rng(3)
    for _ in range(5):
        vectors, blocks, gains = random_cuts(rng, 4)
        alpha = 0.2
        grams = grams_of(vectors, blocks, alpha)
        found = solve_weights(grams, gains, p, tol=1e-8, rounds=5000)
        penalty = KernelWeights(alpha, p, blocks)
        flat = vectors.reshape(len(gains), -1)

        def value(coef, penalty=penalty, flat=flat, gains=gains):
            return penalty.value(coef, np.zeros(2)) + max(0.0, (gains - flat @ coef.ravel()).max())

        for _ in range(20):
            coef = rng.normal(size=vectors.shape[1:]) * rng.random() * 3
            assert found.bound <= value(coef) + 1e-9
        scale = np.repeat(found.weights, [b.stop - b.start for b in blocks])
        best = (found.solution.multipliers @ flat).reshape(vectors.shape[1:]) * scale / alpha
        assert value(best) == pytest.approx(found.bound, rel=1e-5)


def test_one_kernel_is_the_plain_problem():
    rng = np.random.default_rng(1)
    vectors, blocks, gains = random_cuts(rng, 1, m=8)
    grams = grams_of(vectors, blocks, 0.1)
    found = solve_weights(grams, gains, 2.0)
    assert found.weights == pytest.approx([1.0])
    assert found.bound == pytest.approx(solve_qp(grams[0], gains).value)


def test_a_value_that_rounding_hides_needs_no_more_weights():
    """Cuts without a gain: the best value is 0, which the bound on mean scores shifts a little."""
    rng = np.random.default_rng(0)
    vectors, blocks, _ = random_cuts(rng, 5, m=8)
    balance = ScoreBalance(2.0, 1e-3 * rng.normal(size=(8, 2)), None)
    given = grams_of(vectors, blocks, 1e-6), np.zeros(8), 2.0
    found = solve_weights(*given, balance=balance)
    assert abs(found.bound) < 1e-9
    assert found.rounds < 5


def test_the_cone_program_knows_idle_cuts():
    rng = np.random.default_rng(0)
    vectors, blocks, gains = random_cuts(rng, 3, m=6)
    vectors[4], gains[4] = vectors[3], gains[3] - 0.3  # never violated most
    multipliers = solve_cone_program(vectors, gains, blocks, 0.1, 2)[2]
    assert multipliers[4] == 0.0
    assert multipliers.max() > 0.01


def test_a_cone_program_that_is_not_solved_is_told(monkeypatch):
    settings = clarabel.DefaultSettings()
    settings.max_iter = 1
    monkeypatch.setattr("clarabel.DefaultSettings", lambda: settings)
    vectors, blocks, gains = random_cuts(np.random.default_rng(0), 3, m=6)
    with pytest.warns(ConvergenceWarning, match="did not solve a cone program .MaxIterations"):
        solve_cone_program(vectors, gains, blocks, 0.1, 2)


def test_the_cone_program_leads_to_the_same_clusters():
    X, y = load_digits(return_X_y=True)
    pair = (y == 2) | (y == 7)
    X = X[pair][:120]
    common = {"n_components": 5, "n_init": 2, "balance": 0.8, "random_state": 0}
    fast = MultipleKernelMarginClustering(**common).fit(X)
    cone = MultipleKernelMarginClustering(solver="socp", **common).fit(X)
    assert (fast.labels_ == cone.labels_).mean() > 0.98
    assert cone.objective_ == pytest.approx(fast.objective_, rel=0.02)
    assert (cone.coef_ != fast.coef_).any()  # the model is that of the cone program


def test_noise_kernels_weigh_less():
    X, y = load_digits(return_X_y=True)
    pair = (y == 2) | (y == 7)
    X, y = X[pair], y[pair]
    noise = np.random.default_rng(0).normal(size=(len(X), 25))
    wide = np.hstack([X, noise])
    real = [(slice(0, 64), "linear"), (slice(0, 64), "rbf")]
    noisy = [(slice(64 + 5 * j, 69 + 5 * j), "rbf") for j in range(5)]
    model = MultipleKernelMarginClustering(kernels=real + noisy, balance=0.9, random_state=0)
    weights = list(model.fit(wide).kernel_weights_.values())
    assert max(weights[2:]) < min(weights[:2])
    assert clustering_error(y, model.labels_) < 0.02


def test_two_clusters_never_rise():
    X, y = load_digits(return_X_y=True)
    pair = (y == 3) | (y == 8)
    model = MultipleKernelMarginClustering(random_state=1, tol=1e-3).fit(X[pair])
    assert len(model.history_) > 3
    assert (np.diff(model.history_) <= 1e-12).all()
    assert model.objective_ == pytest.approx(model.history_[-1], rel=1e-9)


@pytest.mark.filterwarnings("ignore:balance=")
@pytest.mark.parametrize("seed", range(2))
def test_no_cluster_is_empty(seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_t(3, size=(120, 5))
    for k in (3, 6):
        model = MultipleKernelMarginClustering(k, balance=0.5, n_init=2, random_state=seed).fit(X)
        assert model.cluster_sizes_.min() >= int(0.5 * 120 / k)
        assert model.objective_ == pytest.approx(min(model.history_), rel=1e-9)


def test_transform_is_the_learned_kernel():
    X = load_digits(return_X_y=True)[0][:60]
    kernels = ["linear", ("rbf", {"gamma": 1e-3})]
    model = MultipleKernelMarginClustering(kernels=kernels, n_components=None, random_state=0).fit(
        X
    )
    Z = model.transform(X)
    centring = np.eye(60) - 1 / 60
    K = np.zeros((60, 60))
    for weight, raw in zip(model.kernel_weights_.values(), (X @ X.T, rbf_kernel(X, gamma=1e-3))):
        centred = centring @ raw @ centring
        K += weight * centred / (np.trace(centred) / 60)
    assert Z @ Z.T == pytest.approx(K, abs=1e-6)


def test_precomputed_matrices_side_by_side_label_new_rows():
    X, y = load_digits(return_X_y=True)
    pair = (y == 1) | (y == 7)
    X, y = X[pair], y[pair]
    old, new = X[:200], X[200:]
    stack = np.hstack([rbf_kernel(old, old, g) for g in (1e-4, 1e-3)])
    model = MultipleKernelMarginClustering(kernels="precomputed", balance=0.8, random_state=0)
    model.fit(stack)
    found = model.predict(np.hstack([rbf_kernel(new, old, g) for g in (1e-4, 1e-3)]))
    assert clustering_error(y[200:], found) < 0.05
    assert len(model.kernel_weights_) == 2


def test_columns_by_name_and_names_of_kernels():
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(50, 3)), columns=["a", "b", "c"])
    kernels = [(["a", "b"], "linear"), (["c"], ("rbf", {"gamma": 0.5})), "linear", "linear"]
    model = MultipleKernelMarginClustering(kernels=kernels, random_state=0).fit(frame)
    names = ["linear[a, b]", "rbf(gamma=0.5)[c]", "linear", "linear (2)"]
    assert list(model.kernel_weights_) == names
    assert model.feature_map_.maps[0].rank == 2


def test_a_column_called_precomputed_is_a_column():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(60, 3)), columns=["precomputed", "b", "c"])
    kernels = [(["precomputed", "b"], "linear"), "rbf"]
    weights = np.r_[np.ones(50), np.zeros(10)]
    model = MultipleKernelMarginClustering(kernels=kernels, random_state=0)
    model.fit(frame, sample_weight=weights)
    assert list(model.kernel_weights_) == ["linear[precomputed, b]", "rbf"]
    plain = MultipleKernelMarginClustering(kernels=[([0, 1], "linear"), "rbf"], random_state=0).fit(
        frame.to_numpy(), sample_weight=weights
    )
    assert (model.labels_ == plain.labels_).all()


def test_a_subset_labels_the_rest():
    X, y = load_digits(return_X_y=True)
    pair = (y == 0) | (y == 1)
    model = MultipleKernelMarginClustering(max_samples=100, balance=0.8, random_state=0).fit(
        X[pair]
    )
    assert len(model.labels_) == pair.sum()
    assert clustering_error(y[pair], model.labels_) < 0.03
    assert model.feature_map_.maps[-1].landmarks.shape[0] <= 100


def test_known_rows_name_the_clusters_of_a_subset():
    X, y = load_digits(return_X_y=True)
    three = np.isin(y, [0, 1, 6])
    X, y = X[three], np.searchsorted([0, 1, 6], y[three])
    known = np.full(len(y), -1)
    for c in range(3):
        known[np.flatnonzero(y == c)[:2]] = (c + 1) % 3
    for seed in range(2):
        model = MultipleKernelMarginClustering(3, max_samples=60, random_state=seed)
        model.fit(X, partial_labels=known)
        assert (model.predict(X) == (y + 1) % 3).mean() > 0.9


def test_zero_weights_and_matrices_are_refused():
    K = np.eye(20)
    weights = np.r_[np.ones(15), np.zeros(5)]
    for kernels in ("precomputed", ["precomputed"], [(slice(0, 20), "precomputed")]):
        with pytest.raises(ValueError, match="leave out those rows, and their columns"):
            MultipleKernelMarginClustering(kernels=kernels).fit(K, sample_weight=weights)


def test_models_of_sparse_rows_can_be_saved(tmp_path):
    X = sparse.csr_matrix(load_digits(return_X_y=True)[0][:100])
    model = MultipleKernelMarginClustering(random_state=0).fit(X)
    save_model(model, tmp_path / "m.skops")
    assert (load_model(tmp_path / "m.skops").predict(X) == model.labels_).all()


def test_score_balance_frees_intercepts():
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(size=(150, 3)), rng.normal(size=(50, 3)) + np.array([6, 0, 0])])
    common = {"alpha": 0.5, "random_state": 0, "tol": 1e-3}
    plain = MultipleKernelMarginClustering(**common).fit(X)
    free = MultipleKernelMarginClustering(score_balance=0.5, **common).fit(X)
    assert free.objective_ < plain.objective_


@pytest.mark.parametrize("p", [1.0, 2.0])
def test_weights_are_optimal_where_mean_scores_are_bounded(p):
    """(4.31) without centring: the primal at the coefficients found is the dual's lower bound."""
    rng, bound, alpha = np.random.default_rng(0), 0.05, 0.3
    for count in (1, 3):
        vectors, blocks, gains = random_cuts(rng, count, m=6)
        _, k, r = vectors.shape
        mean = rng.normal(size=r)
        crosses = np.stack([vectors[:, :, b] @ mean[b] for b in blocks]) / alpha
        squares = np.array([mean[b] @ mean[b] for b in blocks]) / alpha
        balance = BlockBalance(bound, crosses, squares)
        grams = grams_of(vectors, blocks, alpha)
        found = solve_weights(grams, gains, p, balance=balance, tol=1e-9, rounds=5000)
        a, tau = found.solution.multipliers, found.solution.tau
        coef = (np.tensordot(a, vectors, 1) - np.outer(tau, mean)) / alpha
        coef = coef * np.repeat(found.weights, [b.stop - b.start for b in blocks])
        losses = gains - np.tensordot(vectors, coef, 2)
        primal = KernelWeights(alpha, p, blocks).value(coef, np.zeros(k)) + max(losses.max(), 0)
        assert primal == pytest.approx(found.bound, rel=1e-6)
        assert np.ptp(coef @ mean) == pytest.approx(bound, rel=1e-6)  # it binds


def test_one_kernel_of_the_papers_own_form_is_cutting_planes():
    """Algorithm 1 on raw rows with the constraint on mean scores."""
    rng = np.random.default_rng(1)
    X = np.vstack([rng.normal(size=(40, 3)) + c for c in ([20, 0, 0], [26, 0, 0], [20, 6, 0])])
    common = {"center": False, "score_balance": 0.01, "nesting": "paper", "tol": 1e-3}
    common |= {"balance": 0.5, "n_init": 3, "random_state": 0, "alpha": 1e-3}
    one = MultipleKernelMarginClustering(3, kernels=["linear"], **common).fit(X)
    plain = CuttingPlaneMarginClustering(3, kernel="linear", **common).fit(X)
    assert one.objective_ == pytest.approx(plain.objective_, abs=2e-3)  # the epsilon of both
    common["balance"] = 0.0  # whose prices would come on top of the scores
    several = MultipleKernelMarginClustering(3, kernels="paper", **common).fit(X)
    assert np.ptp(several.decision_function(X).mean(axis=0)) == pytest.approx(0.01, rel=1e-3)


@pytest.mark.invariance
def test_sparse_rows_fit_like_dense_ones():
    X = load_digits(return_X_y=True)[0][:150]
    dense = MultipleKernelMarginClustering(3, random_state=0).fit(X)
    csr = MultipleKernelMarginClustering(3, random_state=0).fit(sparse.csr_matrix(X))
    assert (dense.labels_ == csr.labels_).mean() > 0.99
    assert csr.objective_ == pytest.approx(dense.objective_, rel=1e-2)


def test_a_constant_kernel_gets_no_weight():
    X = np.random.default_rng(0).normal(size=(60, 3))
    wide = np.hstack([X, np.ones((60, 2))])
    kernels = [(slice(0, 3), "linear"), (slice(3, 5), "rbf")]
    with pytest.warns(UserWarning, match="is constant on these rows; its weight is 0"):
        model = MultipleKernelMarginClustering(kernels=kernels, random_state=0).fit(wide)
    assert list(model.kernel_weights_.values()) == pytest.approx([1.0, 0.0], abs=1e-9)


def test_a_trivial_model_is_said_to_be_one():
    X = np.random.default_rng(0).normal(size=(60, 3))
    with pytest.warns(UserWarning, match="no clusters are separated"):
        MultipleKernelMarginClustering(alpha=1e4, random_state=0).fit(X)


@pytest.mark.parametrize(
    ("kernels", "message"),
    [
        ([], "list of kernels"),
        (["gauss"], r"kernels\[0\] must be a kernel's name"),
        ([("rbf", {"sigma": 1.0})], "sigma"),
        (["linear", (slice(0, 0), "rbf")], r"kernels\[1\] sees no column"),
        ([([9], "rbf")], "column 9"),
        ([(["a"], "rbf")], "no column names"),
        (["precomputed"], r"kernels\[0\].*square matrix at fit, got shape \(20, 4\)"),
        ([("rbf", {"width": 0})], "width must be a number above 0"),
        ([("rbf", {"gamma": -1.0})], "gamma must be a number above 0"),
        ([("poly", {"degree": "a"})], "degree must be a number"),
        ([("rbf", {"width": 1e-300})], "width=1e-300 is out of range for these rows"),
        ([("rbf", {"gamma": 1.0, "width": 1.0})], "both gamma and width"),
        ([("linear", {"width": 1.0})], "not with 'linear'"),
        ([([0.5], "rbf")], "whole numbers"),
    ],
)
def test_wrong_kernels_are_named(kernels, message):
    X = np.random.default_rng(0).normal(size=(20, 4))
    with pytest.raises(ValueError, match=message):
        MultipleKernelMarginClustering(kernels=kernels).fit(X)


def test_wrong_matrices_are_named():
    rng = np.random.default_rng(0)
    good = np.eye(20)
    lopsided, indefinite = good.copy(), good.copy()
    lopsided[0, 1] = 0.5
    indefinite[0, 1] = indefinite[1, 0] = 3.0
    for bad, message in ((lopsided, "symmetric"), (indefinite, "smallest eigenvalue is -2")):
        with pytest.raises(ValueError, match=rf"kernels\[1\].*{message}"):
            MultipleKernelMarginClustering(kernels="precomputed").fit(np.hstack([good, bad]))
    with pytest.raises(ValueError, match="multiple of 20 columns"):
        MultipleKernelMarginClustering(kernels="precomputed").fit(rng.normal(size=(20, 30)))


def test_solver_limits_are_said():
    X = np.random.default_rng(0).normal(size=(20, 4))
    with pytest.raises(ValueError, match="weight_norm 1 or 2"):
        MultipleKernelMarginClustering(solver="socp", weight_norm=3).fit(X)
    with pytest.raises(ValueError, match="has no intercepts; got fit_intercept=True"):
        MultipleKernelMarginClustering(solver="socp", fit_intercept=True).fit(X)
    with pytest.raises(ValueError, match="nesting='paper' has no preference for even sizes"):
        MultipleKernelMarginClustering(nesting="paper", size_entropy=0.1).fit(X)


def test_one_linear_kernel_is_cutting_planes():
    X, y = load_digits(return_X_y=True)
    pair = (y == 3) | (y == 8)
    one = MultipleKernelMarginClustering(kernels=["linear"], random_state=0, tol=1e-3).fit(X[pair])
    plain = CuttingPlaneMarginClustering(kernel="linear", random_state=0, tol=1e-3).fit(X[pair])
    assert one.objective_ == pytest.approx(plain.objective_, rel=5e-3)
    assert (one.labels_ == plain.labels_).mean() > 0.98


@pytest.mark.parametrize("seed", [0, 3])
def test_learned_weights_are_no_worse_than_equal_ones_or_kmeans(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(80, 3)) + rng.normal(size=(3, 3))[rng.integers(3, size=80)] * seed
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = MultipleKernelMarginClustering(3, random_state=0).fit(X)
        even = MultipleKernelMarginClustering(3, random_state=0)
        equal = even.set_params(init=model.labels_, weight_norm=2).fit(X)
    assert model.objective_ <= model.compared_with_kmeans_["objective"] * (1 + 1e-3)
    assert equal.objective_ <= model.objective_ * (1 + 1e-2)
    assert model.clusters_on_floor_.size == 0 or model.cluster_sizes_.min() >= 1


def test_equal_weights_bound_the_penalty():
    rng = np.random.default_rng(0)
    blocks = (slice(0, 2), slice(2, 3), slice(3, 7))
    learned = KernelWeights(0.5, 2.0, blocks, constant=1.0)
    even = KernelWeights(0.5, 2.0, blocks, constant=1.0, even=True)
    for _ in range(20):
        coef, intercept = rng.normal(size=(2, 7)) * rng.random(7), rng.normal(size=2)
        beta = np.full(3, 3**-0.5)
        squares = np.array([(coef[:, b] ** 2).sum() for b in blocks])
        written_out = 0.25 * ((squares / beta).sum() + intercept @ intercept)
        assert even.value(coef, intercept) == pytest.approx(written_out)
        assert learned.value(coef, intercept) <= even.value(coef, intercept) + 1e-12


def test_separated_blobs_are_found():
    X, y = make_blobs(400, centers=6, n_features=5, random_state=0)
    model = MultipleKernelMarginClustering(6, random_state=0).fit(X)
    assert clustering_error(y, model.labels_) < 0.01
