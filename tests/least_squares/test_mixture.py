"""Averaged similarities and tempered sizes against brute force and dense formulas."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_digits, make_blobs, make_moons
from sklearn.metrics.pairwise import cosine_similarity, euclidean_distances, rbf_kernel
from sklearn.neighbors import kneighbors_graph

from maxmargin import LeastSquaresMarginClustering
from maxmargin._core.features import FeatureMap
from maxmargin.least_squares import _graph
from maxmargin.least_squares._graph import graph_similarity, mixed_map, mixed_similarity
from maxmargin.least_squares._label_search import (
    REGROUPED,
    RESPLIT,
    SAME,
    Labelling,
    LabelProblem,
    SearchSettings,
    perturbed,
    search_labels,
)
from maxmargin.least_squares._numba import cluster_sums, stochastic_round
from maxmargin.least_squares._numba_kernel import nearest
from maxmargin.least_squares._settings import Settings
from maxmargin.least_squares._similarity import whitening_axes
from maxmargin.least_squares._starts import random_labels
from maxmargin.metrics import adjusted_rand_score


@pytest.fixture(scope="module")
def X():
    return np.random.default_rng(0).normal(size=(40, 3))


def plain_map(X, kernel="rbf", gamma=0.3):
    params = {"gamma": gamma} if kernel == "rbf" else {}
    n = X.shape[0]
    return FeatureMap(kernel, params, X, None, None, np.zeros(n), 1.0, np.dtype(np.float64))


def mixture(X, weights=None, kernels=("rbf",), n_neighbors=5, ridge=0.7):
    fmap = mixed_map([plain_map(X, kernel) for kernel in kernels], X, n_neighbors, dense=False)
    weights = np.ones(len(X)) if weights is None else weights
    return fmap, mixed_similarity(fmap, X, weights, ridge)


def dense_parts(X, w, kernels, n_neighbors, ridge):
    """V R V of every part, written out."""
    n, V = len(X), np.diag(np.sqrt(w))
    q = np.sqrt(w / w.sum())
    P = np.eye(n) - np.outer(q, q)
    parts = []
    for kernel in kernels:
        K = rbf_kernel(X, gamma=0.3) if kernel == "rbf" else cosine_similarity(X)
        K = P @ V @ K @ V @ P
        parts.append(V @ K @ np.linalg.inv(K + ridge * np.eye(n)) @ V)
    A = kneighbors_graph(X, n_neighbors).toarray()
    A = np.maximum(A, A.T)
    d = A.sum(axis=1)
    L = np.eye(n) - A / np.sqrt(np.outer(d, d))
    inner = np.linalg.inv(np.eye(n) + 10.0 * np.linalg.inv(V) @ L @ np.linalg.inv(V))
    parts.append(V @ P @ inner @ P @ V)
    return parts


# -- the average of several R ---------------------------------------------------------------------


@pytest.mark.parametrize("kernels", [("rbf",), ("rbf", "cosine")])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_matrix_is_the_mean_of_the_parts(X, kernels, weighted):
    w = np.random.default_rng(1).integers(1, 4, 40).astype(float) if weighted else np.ones(40)
    parts = dense_parts(X, w, kernels, 5, 0.7)
    R = mixture(X, w, kernels)[1]
    assert R.matrix == pytest.approx(np.mean(parts, axis=0), abs=1e-10)
    assert R.matrix.sum() == pytest.approx(0.0, abs=1e-9)
    labels = np.random.default_rng(2).integers(0, 3, 40).astype(np.int32)
    for own, part in zip(R.part_caches(R.caches(labels, 3), labels), parts, strict=True):
        assert own == pytest.approx(np.eye(3)[labels].T @ part, abs=1e-9)


def test_coefficients_give_the_fitted_values_of_the_rows(X):
    w = np.random.default_rng(1).random(40) + 0.5
    fmap, R = mixture(X, w, ("rbf", "cosine"))
    labels = np.random.default_rng(2).integers(0, 3, 40).astype(np.int32)
    caches = R.caches(labels, 3)
    coef, intercept = R.coefficients(caches, labels)
    scores = fmap.tile(X).scores(np.ascontiguousarray(coef.T)) + intercept
    assert scores == pytest.approx(R.fitted(caches, labels), abs=1e-9)


def test_new_rows_have_the_kernels_score_and_the_mean_of_their_neighbours(X):
    fmap, R = mixture(X)
    labels = (X[:, 0] > 0).astype(np.int32)
    caches = R.caches(labels, 2)
    coef, intercept = R.coefficients(caches, labels)
    new = np.random.default_rng(3).normal(size=(7, 3))
    kernel, graph = R.part_caches(caches, labels)
    alpha, level = R.parts[0].coefficients(kernel, labels)
    near = np.argsort(euclidean_distances(new, X), axis=1)[:, :5]
    by_graph = graph.T[near].mean(axis=1) + np.bincount(labels) / 40
    expected = 0.5 * (rbf_kernel(new, X, gamma=0.3) @ alpha.T + level) + 0.5 * by_graph
    found = fmap.tile(new).scores(np.ascontiguousarray(coef.T)) + intercept
    assert found == pytest.approx(expected, abs=1e-10)


def test_leave_one_out_of_the_graph_is_the_fit_without_that_label(X):
    """(W + s L)^-1 W y with the weight of one row set to zero, centred by hand."""
    R = mixture(X)[1]
    labels = np.random.default_rng(2).integers(0, 2, 40).astype(np.int32)
    caches = R.caches(labels, 2)
    scores = R.leave_one_out(caches, labels)
    parts = R.part_caches(caches, labels)
    kernel = R.parts[0].leave_one_out(parts[0], labels)
    graph = R.parts[1].leave_one_out(parts[1], labels)
    assert scores == pytest.approx(0.5 * (kernel + graph))
    # A row left out has the score that makes its own label not matter.
    for i in (0, 11, 39):
        other = labels.copy()
        other[i] = 1 - other[i]
        changed = R.parts[1].leave_one_out(R.part_caches(R.caches(other, 2), other)[1], other)
        assert changed[i] == pytest.approx(graph[i], abs=1e-9)


@pytest.mark.parametrize("first", [-1, 0])
def test_nearest_neighbours(X, first):
    closeness = -euclidean_distances(X, squared=True)
    closeness[3, 7] = closeness[3, 5]  # of equals the first counts
    found = np.empty((40, 6), np.int64)
    nearest(closeness, first, found)
    if first == 0:
        np.fill_diagonal(closeness, -np.inf)
    expected = np.argsort(-closeness, axis=1, kind="stable")[:, :6]
    assert (found == expected).all()


@pytest.mark.parametrize("count", [1, 10])
def test_nearest_neighbours_of_many_with_equal_entries(count):
    closeness = np.random.default_rng(0).integers(-40, 0, (30, 300)).astype(np.float32)
    found = np.empty((30, count), np.int64)
    for first in (-1, 100):
        before = closeness.copy()
        nearest(closeness, first, found)
        assert (closeness == before).all()
        if first >= 0:
            before[np.arange(30), first + np.arange(30)] = -np.inf
        assert (found == np.argsort(-before, axis=1, kind="stable")[:, :count]).all()


def test_scores_in_strips_are_those_of_kernel_and_neighbours(X, monkeypatch):
    fmap, _ = mixture(X)
    new = np.random.default_rng(3).normal(size=(100, X.shape[1]))
    columns = np.random.default_rng(4).normal(size=(fmap.rank, 3))
    K, neighbours = fmap.kernel_and_neighbours(new)
    m = len(X)
    expected = K @ columns[:m] + columns[m:][neighbours].mean(axis=1)
    monkeypatch.setattr(_graph, "STRIP_VALUES", 40 * m)
    scores, found = fmap.tile(new).scores_and_neighbours(columns)
    assert scores == pytest.approx(expected)
    assert (found == neighbours).all() and (fmap.tile(new).neighbours() == neighbours).all()


def test_a_graph_of_two_parts_smooths_within_them():
    neighbours = np.array([[1], [0], [3], [2]])
    R = graph_similarity(neighbours, np.ones(4), np.float64)
    labels = np.array([0.0, 0.0, 1.0, 1.0]) - 0.5
    assert R @ labels == pytest.approx(labels)  # constant on each part: smooth already
    assert np.abs(R @ np.array([1.0, -1.0, 1.0, -1.0])).max() < 0.1


# -- tempered sizes -------------------------------------------------------------------------------


def tempered(matrix, w, labels, k, p):
    """J_p, written out."""
    within = [matrix[np.ix_(labels == h, labels == h)].sum() for h in range(k)]
    sizes = [w[labels == h].sum() for h in range(k)]
    return sum(s / n**p for s, n in zip(within, sizes) if n > 0)


def shared_arrays(R, labels, k, floor=0.0):
    labels = labels.astype(np.int32)
    sizes = np.bincount(labels, R.weights, minlength=k).astype(float)
    fixed = np.zeros(len(labels), bool)
    return (R.matrix, R.caches(labels, k), labels, sizes, R.weights, fixed, floor)


@pytest.mark.parametrize("p", [0.25, 0.75, 1.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_every_move_is_the_best_by_brute_force_and_never_lowers_the_objective(X, p, weighted):
    w = np.random.default_rng(1).integers(1, 4, 40).astype(float) if weighted else np.ones(40)
    R = mixture(X, w)[1]
    shared = shared_arrays(R, np.random.default_rng(4).integers(0, 3, 40), 3)
    matrix, caches, labels, sizes = shared[:4]
    moved = 0
    for j in list(range(40)) * 3:
        before, value = labels.copy(), tempered(matrix, w, labels, 3, p)
        values = []
        for d in range(3):
            trial = before.copy()
            trial[j] = d
            values.append(tempered(matrix, w, trial, 3, p))
        moves = stochastic_round(*shared, np.array([j]), cluster_sums(caches, labels, w)[0], p)
        after = tempered(matrix, w, labels, 3, p)
        assert after == pytest.approx(max(values), abs=1e-5)
        assert after >= value and (labels != before).sum() == moves
        assert caches == pytest.approx(R.caches(labels, 3), abs=1e-9)
        assert sizes == pytest.approx(np.bincount(labels, w, minlength=3))
        moved += moves
    assert moved > 10


@pytest.mark.parametrize("p", [0.5, 0.75])
def test_the_ascent_keeps_its_sums_and_ends_where_no_single_move_helps(X, p):
    R = mixture(X)[1]
    shared = shared_arrays(R, np.random.default_rng(5).integers(0, 3, 40), 3)
    labels, within = shared[2], cluster_sums(shared[1], shared[2], R.weights)[0]
    values = [tempered(R.matrix, R.weights, labels, 3, p)]
    while stochastic_round(*shared, np.arange(40), within, p):
        values.append(tempered(R.matrix, R.weights, labels, 3, p))
    assert (np.diff(values) > 0).all() and len(values) > 1
    again = cluster_sums(R.caches(labels, 3), labels, R.weights)[0]
    assert within == pytest.approx(again, abs=1e-9)
    for j, d in itertools.product(range(40), range(3)):
        trial = labels.copy()
        trial[j] = d
        assert tempered(R.matrix, R.weights, trial, 3, p) <= values[-1] + 1e-5


def settings(rng):
    return SearchSettings(Settings(3, ("rbf",)), 24, rng, watch=lambda _: None, n_jobs=1)


def test_the_search_finds_the_best_of_all_labellings():
    X = np.random.default_rng(0).normal(size=(10, 2))
    R = mixture(X, n_neighbors=3)[1]
    rng = np.random.default_rng(0)
    problem = LabelProblem(R, 3, np.full(3, 10 / 3), 1.0, np.full(10, -1, np.int32), 0.75)
    starts = [(random_labels(problem, rng), 0) for _ in range(8)]
    found = search_labels(problem, starts, settings(rng))
    best = max(
        tempered(R.matrix, R.weights, np.array(labels), 3, 0.75)
        for labels in itertools.product(range(3), repeat=10)
        if len(set(labels)) == 3
    )
    assert found.value == pytest.approx(best, rel=1e-5)
    assert found.value == pytest.approx(tempered(R.matrix, R.weights, found.labels, 3, 0.75))


@pytest.mark.parametrize("kind", [SAME, REGROUPED, RESPLIT])
def test_kicks_move_free_rows_only(X, kind):
    R, known = mixture(X)[1], np.full(40, -1, np.int32)
    known[:10] = np.arange(10) % 4
    problem = LabelProblem(R, 4, np.full(4, 10.0), 1.0, known, 0.75)
    for seed in range(5):
        rng = np.random.default_rng(seed)
        labels = random_labels(problem, rng)
        labels[:10] = known[:10]
        kicked, first_round = perturbed(problem, labels.copy(), rng, kind)
        assert 0 <= first_round < 21
        assert (kicked[:10] == known[:10]).all()
        assert (kicked < 4).all() and (kicked >= 0).all()


def test_the_objective_is_the_tempered_r_squared():
    """J_p / n^(1-p) = sum_h pi_h^(1-p) (1 - pi_h) R2_h for a centred R."""
    X, _ = make_blobs([30, 20, 10], 3, cluster_std=2, random_state=0)
    R = mixture(X)[1]
    labels = np.random.default_rng(0).integers(0, 3, 60).astype(np.int32)
    problem = LabelProblem(R, 3, np.full(3, 20.0), 1.0, np.full(60, -1, np.int32), 0.75)
    share, Y = np.bincount(labels) / 60, np.eye(3)[labels]
    centred = Y - share
    explained = np.array([y @ R.matrix @ y for y in centred.T]) / (centred**2).sum(axis=0)
    expected = (share**0.25 * (1 - share) * explained).sum()
    value = Labelling(problem, labels).objective()
    assert value == pytest.approx(-expected)


# -- the estimator --------------------------------------------------------------------------------


class Mixed(LeastSquaresMarginClustering):
    """Least squares with settings that only the front door has."""

    def _settings(self):
        return replace(super()._settings(), **self.more)


def mixed(k, more=None, **params):
    model = Mixed(k, **({"balance": 0.05, "random_state": 0} | params))
    model.more = {"n_neighbors": 10, "size_priors": (0.75,)} | (more or {})
    return model


WHITE = {"whiten": True}


def test_unequal_sizes_are_found_without_being_told():
    X, y = make_blobs([600, 200, 100, 100], 10, cluster_std=3, random_state=3)
    assert adjusted_rand_score(y, mixed(4).fit(X).labels_) > 0.95


def test_whitening_finds_long_clusters():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 200)
    X = rng.normal(size=(400, 2)) * [10.0, 1.0]
    X[:, 1] += 5.0 * y
    plain, white = mixed(2).fit(X), mixed(2, WHITE).fit(X)
    assert adjusted_rand_score(y, white.labels_) > 0.95
    axes = white.feature_map_.axes
    assert axes.shape == (2, 2) and plain.feature_map_.axes is None
    moved = mixed(2, WHITE).fit(X * [1.0, 50.0])  # another unit of one column
    assert adjusted_rand_score(white.labels_, moved.labels_) > 0.95


def test_whitened_clusters_have_unit_covariance(X):
    labels = (X[:, 0] > 0).astype(int)
    w = np.random.default_rng(0).random(40)
    Z = X @ whitening_axes(X, labels, w, shrinkage=0.0)
    for h in (0, 1):
        Z[labels == h] -= np.average(Z[labels == h], axis=0, weights=w[labels == h])
    assert (Z.T * w) @ Z / w.sum() == pytest.approx(np.eye(3), abs=1e-10)


def test_rows_beyond_the_subset_are_predicted_by_kernel_and_graph():
    X, y = make_moons(6000, noise=0.08, random_state=0)
    model = mixed(2, WHITE, max_samples=800, random_state=1).fit(X)
    assert adjusted_rand_score(y, model.labels_) > 0.95
    assert (model.predict(X) == model.labels_).all()
    assert model.coef_.shape == (2, 1600)


def test_precomputed_and_several_kernels():
    X, y = make_moons(300, noise=0.05, random_state=0)
    gamma = 0.5 / (0.25 * np.median(euclidean_distances(X, squared=True)))
    K = rbf_kernel(X, gamma=gamma)
    known = mixed(2, kernel="precomputed").fit(K)
    assert adjusted_rand_score(y, known.labels_) > 0.9
    assert (known.predict(K) == known.labels_).all()
    several = mixed(2, kernel=["rbf", "cosine"]).fit(X)
    assert several.coef_.shape == (2, 900)
    assert (several.predict(X) == several.labels_).all()


def test_csr_rows_with_few_zeros_are_read_as_dense_ones():
    digits = load_digits().data[:300]
    dense, csr = mixed(5).fit(digits), mixed(5).fit(sparse.csr_matrix(digits))
    assert (dense.labels_ == csr.labels_).all()
    assert (dense.decision_function(digits) == csr.decision_function(digits)).all()


def test_known_labels_are_kept():
    X, y = load_digits(return_X_y=True)
    X, y = X[y < 4], y[y < 4]
    known = np.full(len(y), -1)
    known[:20] = y[:20]
    model = mixed(4, WHITE).fit(X, partial_labels=known)
    assert np.mean(model.labels_ == y) > 0.95
    assert (model.labels_[:20] == y[:20]).all()


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"kernel": ["rbf", "linear"], "center": False}, "need center=True and n_components=None"),
        (
            {"kernel": ["rbf", "linear"], "n_components": 5},
            "need center=True and n_components=None",
        ),
        ({"kernel": ["rbf", "gauss"]}, "kernel must be one or several of linear, rbf"),
        ({"kernel": ["rbf", "precomputed"]}, "or 'precomputed' alone"),
        ({"kernel": []}, "kernel must be one or several"),
    ],
)
def test_bad_parameters(X, params, message):
    with pytest.raises(ValueError, match=message):
        LeastSquaresMarginClustering(**params).fit(X)
