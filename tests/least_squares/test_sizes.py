"""Sizes, shapes and scales that nobody gave: what the search compares, and what it takes."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_wine, make_blobs

from maxmargin import MaxMarginClustering
from maxmargin.least_squares._connected import (
    connected_clusters,
    locally_scaled,
    neighbours_of,
)
from maxmargin.least_squares._label_search import (
    SHAKES,
    Labelling,
    LabelProblem,
    SearchSettings,
    regrouped,
    search_labels,
)
from maxmargin.least_squares._settings import Settings
from maxmargin.least_squares._similarity import column_scales, similarity_of
from maxmargin.least_squares._starts import (
    mean_and_doubt,
    search_sizes,
)
from maxmargin.metrics import adjusted_rand_score


def front_door(k, **params):
    return MaxMarginClustering(k, random_state=0, **({"n_resamples": 0} | params))


def problem_of(X, k, p=0.75):
    distances = ((X[:, None] - X[None]) ** 2).sum(axis=2)
    K = np.exp(-2.0 * distances / np.median(distances[distances > 0]))
    n = len(X)
    similarity = similarity_of(K, 1.0, np.ones(n), 1.0, center=True)
    known = np.full(n, -1, np.int32)
    return LabelProblem(similarity, k, np.full(k, n / k), 0.05 * n / k, known, p)


def quiet(n_kicks=0):
    settings = Settings(2, ("rbf",))
    return SearchSettings(settings, n_kicks, np.random.default_rng(0), lambda value: None, 1)


def rings(sizes, seed=0):
    """Rings of radius 1, 2 .. with a little noise."""
    rng = np.random.default_rng(seed)
    angles = [2 * np.pi * rng.random(m) for m in sizes]
    parts = [(1 + i) * np.stack([np.cos(t), np.sin(t)], axis=1) for i, t in enumerate(angles)]
    y = np.repeat(np.arange(len(sizes)), sizes)
    return np.concatenate(parts) + rng.normal(scale=0.07, size=(len(y), 2)), y


# -- sizes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sizes, d, seed", [([540, 60], 4, 0), ([210, 60, 30], 3, 0), ([285, 15], 6, 1)]
)
def test_uneven_clouds_are_found_and_the_report_says_what_made_a_difference(sizes, d, seed):
    X, y = make_blobs(sizes, d, random_state=seed)
    model = front_door(len(sizes), spreads=False).fit(X)
    assert adjusted_rand_score(y, model.labels_) > 0.98
    told = [s for s in model.report_ if s.startswith("size_prior=")]
    assert len(told) == (sizes == [285, 15]) == (model.size_prior_ > 0.75)
    assert all(f"size_prior={model.size_prior_:g} " in s and "with 0.75" in s for s in told)


def test_a_given_size_prior_is_kept():
    X, _ = make_blobs([180, 20], 4, random_state=0)
    model = front_door(2, size_prior=0.5, spreads=False).fit(X)
    assert model.size_prior_ == 0.5
    assert not any("size_prior=" in s for s in model.report_)
    with pytest.raises(ValueError, match="size_prior"):
        front_door(2, size_prior="some").fit(X)


def test_another_size_prior_needs_a_clearly_higher_margin():
    X, y = make_blobs([180, 20], 2, centers=[[0, 0], [6, 0]], random_state=0)
    problem, starts = problem_of(X, 2), [(np.arange(200, dtype=np.int32) % 2, 0)]
    chosen, found, margins = search_sizes(
        problem, starts, [y.astype(np.int32)], list, None, quiet(), (0.75, 1.0)
    )
    assert chosen.size_prior == 1.0
    assert adjusted_rand_score(y, found.labels) == 1
    assert margins[1.0] > margins[0.75] + 0.06
    assert margins[1.0] == pytest.approx(mean_and_doubt(problem, found.labels)[0])
    cloud = np.random.default_rng(0).normal(size=(200, 2))
    chosen, _, margins = search_sizes(
        problem_of(cloud, 2), starts, [y.astype(np.int32)], list, None, quiet(), (0.75, 1.0)
    )
    assert chosen.size_prior == 0.75 and set(margins) == {0.75, 1.0}


def test_a_partition_given_to_the_search_is_a_start():
    X, y = make_blobs([180, 20], 2, centers=[[0, 0], [6, 0]], random_state=0)
    problem = problem_of(X, 2)
    start = [(np.arange(200, dtype=np.int32) % 2, 0)]
    without = search_sizes(problem, start, [], list, None, quiet(), (1.0,))[1]
    assert adjusted_rand_score(y, without.labels) < 0.5
    found = search_sizes(problem, start, [y.astype(np.int32)], list, None, quiet(), (1.0,))[1]
    assert adjusted_rand_score(y, found.labels) == 1
    assert found.value > without.value


def test_regrouping_undoes_a_merger_and_a_split_which_single_moves_do_not():
    X, y = make_blobs(150, 2, centers=[[0, 0], [9, 0], [0, 9], [9, 9], [20, 20]], random_state=0)
    wrong = y.astype(np.int32)
    wrong[y == 1] = 0
    wrong[(y == 4) & (X[:, 0] > 20)] = 1
    problem = problem_of(X, 5)
    moved = search_labels(problem, [(wrong, SHAKES)], quiet())
    assert adjusted_rand_score(y, moved.labels) < 0.9
    found = regrouped(problem, moved, quiet())
    assert adjusted_rand_score(y, found.labels) > 0.98
    assert found.value == pytest.approx(Labelling(problem, found.labels).value(), rel=1e-6)
    assert found.value > moved.value
    known = np.where(np.arange(150) < 3, y, -1).astype(np.int32)
    named = replace(problem, known=known)  # numbers of clusters mean something
    assert regrouped(named, moved, quiet()) is moved


# -- shapes ----------------------------------------------------------------------------------------


def test_rings_of_uneven_sizes_are_found_and_told():
    X, y = rings([100, 150, 350])
    model = front_door(3).fit(X)
    assert adjusted_rand_score(y, model.labels_) > 0.98
    assert any("connected groups of rows that are apart" in s for s in model.report_)
    new, truth = rings([50, 50, 50], seed=1)
    assert adjusted_rand_score(truth, model.predict(new)) > 0.95


@pytest.mark.parametrize("draw", ["normal", "uniform", "exponential"])
def test_a_cloud_has_no_clusters_that_are_apart(draw):
    for seed in range(4):
        rng = np.random.default_rng(seed)
        for k in (2, 3):
            for d in (1, 2, 3):
                X = getattr(rng, draw)(size=(150, d))
                assert connected_clusters(X, np.ones(150), k) is None


@pytest.mark.parametrize("far", [5e4, 1e5])
def test_a_cloud_on_a_line_and_a_row_far_away_have_no_clusters_that_are_apart(far):
    for seed in (2, 25, 28, 29):
        X = np.random.default_rng(seed).normal(size=(300, 1))
        X[7] = far  # nearly all distances round to 0 beside it
        assert connected_clusters(X - X.mean(), np.ones(300), 2) is None


@pytest.mark.parametrize("d", [1, 2, 5])
def test_a_small_cluster_far_from_the_others_is_found(d):
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], [600, 390, 12])
    X = rng.normal(size=(1002, d)) + np.array([0.0, 12.0, -12.0])[y, None]
    model = front_door(3).fit(X)
    assert adjusted_rand_score(y, model.labels_) > 0.99
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    assert len(model.clusters_on_floor_) == 0
    # A larger balance is kept: no cluster may be that small.
    assert min(front_door(3, balance=0.2).fit(X).cluster_sizes_) >= 0.2 * 1002 // 3


@pytest.mark.parametrize("weight", [1.0, 0.7])
def test_sizes_of_small_clusters_are_not_told_to_miss_the_balance(weight):
    rng = np.random.default_rng(0)
    # With weights of .7, the least size by the default balance is 11.74, of which 11 is whole.
    y = np.repeat([0, 1, 2], [600, 390, 16 if weight < 1 else 12])
    X = rng.normal(size=(len(y), 2)) + np.array([0.0, 12.0, -12.0])[y, None]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = front_door(3).fit(X, sample_weight=np.full(len(y), weight))
    np.testing.assert_allclose(model.cluster_sizes_, weight * np.bincount(y))
    assert len(model.clusters_on_floor_) == 0


def test_subsamples_keep_a_small_cluster():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], [600, 390, 10])
    X = rng.normal(size=(1000, 5)) + np.array([0.0, 12.0, -12.0])[y, None]
    model = front_door(3, n_resamples=6).fit(X)
    assert adjusted_rand_score(y, model.labels_) == 1.0
    assert model.stability_ > 0.95  # .79 if groups of a subsample must have ten rows, too


def test_rows_outside_of_the_groups_join_the_one_they_are_linked_to():
    rng = np.random.default_rng(0)
    left, right = rng.normal(size=(60, 2)), rng.normal((30, 0), size=(60, 2))
    X = np.concatenate([left, right, [[4.5, 0.0], [25.0, 0.0]]])
    labels = connected_clusters(X, np.ones(122), 2)
    assert (labels[:60] == labels[120]).all() and (labels[60:120] == labels[121]).all()
    assert labels[120] != labels[121]
    assert connected_clusters(X, np.ones(122), 3) is None


def test_a_group_of_just_the_least_weight_is_one_in_any_order_of_the_sum():
    for seed in (1, 6, 7):
        X = np.random.default_rng(seed).normal(scale=0.3, size=(120, 2))
        X[:12, 0] += 8.0
        labels = connected_clusters(X, np.full(120, 0.1), 2)
        assert labels is None or (labels == labels[0]).tolist() == [True] * 12 + [False] * 108


def test_arms_that_nearly_touch_keep_their_rows():
    rng = np.random.default_rng(4)
    angle = 9.4 * np.sqrt(rng.random(300)) + 0.5
    arm = np.column_stack([angle * np.cos(angle), angle * np.sin(angle)]) / 3.0
    X = np.concatenate([arm, -arm]) + rng.normal(scale=0.07, size=(600, 2))
    y = np.repeat([0, 1], 300)
    model = front_door(2).fit(X)
    assert adjusted_rand_score(y, model.labels_) > 0.99
    assert any("connected groups" in sentence for sentence in model.report_)
    # The mean similarity would move rows of one arm to the other, the graph alone does not.
    np.testing.assert_array_equal(model.predict(X), model.labels_)


def three_arms(seed):
    """Spirals that meet in the middle; gaps along an arm are as wide as those between arms."""
    rng, y = np.random.default_rng(seed), np.repeat([0, 1, 2], [500, 400, 300])
    angle = 9.4 * np.sqrt(rng.random(1200)) + 0.5
    turned = angle + 2.0 * np.pi * y / 3.0
    X = np.column_stack([angle * np.cos(turned), angle * np.sin(turned)]) / 3.0
    return X + rng.normal(scale=0.07, size=X.shape), y


def test_most_spirals_of_three_arms_are_found():
    found = []
    for seed in range(10):
        X, y = three_arms(seed)
        labels = connected_clusters(X, np.ones(1200), 3)
        found.append(labels is not None and adjusted_rand_score(y, labels) > 0.98)
    assert sum(found) >= 7  # 3 if distances are the same in all directions


def test_connected_clusters_do_not_depend_on_units_order_or_axes():
    X, _ = three_arms(3)
    labels = connected_clusters(X, np.ones(1200), 3)
    order = np.random.default_rng(0).permutation(1200)
    turn = np.array([[0.6, -0.8], [0.8, 0.6]])
    for other in (1e-6 * X, X + 3.0, X @ turn):
        again = connected_clusters(other, np.ones(1200), 3)
        assert adjusted_rand_score(labels, again) == 1.0
    shuffled = connected_clusters(X[order], np.ones(1200), 3)
    assert adjusted_rand_score(labels[order], shuffled) == 1.0


def test_local_distances_are_those_of_their_definition():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2)) * [1.0, 3.0]
    neighbours, distances = neighbours_of(X, 30)
    D = np.linalg.norm(X[:, None] - X[None], axis=2)
    for _ in range(3):
        metrics = []
        for i in range(60):
            nearest = neighbours[i][np.argsort(D[i, neighbours[i]])[:15]]
            C = np.cov(X[[i, *nearest]].T, bias=True)
            C = C / (np.trace(C) / 2) + 0.1 * np.eye(2)
            metrics.append(np.linalg.inv(C) * np.sqrt(np.linalg.det(C)))
        steps = X[:, None] - X[None]
        squares = np.einsum("nmi,nij,nmj->nm", steps, np.array(metrics), steps)
        D = np.sqrt(np.maximum(squares, squares.T))
    near, local = locally_scaled(X, neighbours, distances)
    wanted = np.take_along_axis(D, near, axis=1)
    assert (np.diff(local, axis=1) >= 0).all()
    np.testing.assert_array_equal(np.sort(near, axis=1), np.sort(neighbours, axis=1))
    np.testing.assert_allclose(local, wanted, atol=1e-5 * distances.max())


def test_neighbours_are_those_of_brute_force():
    X = np.random.default_rng(0).normal(size=(300, 3))
    neighbours, distances = neighbours_of(X, 4)
    D = np.linalg.norm(X[:, None] - X[None], axis=2)
    np.fill_diagonal(D, np.inf)
    np.testing.assert_array_equal(neighbours, np.argsort(D, axis=1)[:, :4])
    np.testing.assert_allclose(distances, np.sort(D, axis=1)[:, :4], atol=1e-6)


# -- scales ----------------------------------------------------------------------------------------


def test_tight_clusters_have_no_local_metric():
    spread = 1e-6 * np.random.default_rng(0).normal(size=(100, 2))
    X = spread + np.repeat([[1.0], [-1.0]], 50, axis=0)
    assert front_door(2).fit(X).cluster_sizes_.tolist() == [50, 50]  # warnings are errors
    for d in (3, 4):
        X = np.random.default_rng(d).integers(0, 2, size=(90, d)) + 0.0  # many equal rows
        distances = locally_scaled(X, *neighbours_of(X, 40))[1]
        assert np.isfinite(distances).all() and (np.diff(distances, axis=1) >= 0).all()


def test_columns_that_hardly_count_are_told():
    X = np.random.default_rng(0).normal(size=(60, 5))
    assert not any("hardly counts" in s for s in front_door(2).fit(X).report_)
    model = front_door(2).fit(X * [1.0, 1.0, 50.0, 50.0, 50.0])
    assert any("a quarter of them hardly counts" in s for s in model.report_)


def test_columns_of_other_units_are_standardised_and_told():
    X, y = load_wine(return_X_y=True)
    raw, scaled = front_door(3).fit(X), front_door(3).fit(X / X.std(axis=0))
    assert adjusted_rand_score(y, raw.labels_) > 0.8
    assert adjusted_rand_score(raw.labels_, scaled.labels_) > 0.95
    assert any("columns were standardised" in s for s in raw.report_)
    assert not any("standardised" in s for s in scaled.report_)
    np.testing.assert_array_equal(raw.predict(X), raw.labels_)
    np.testing.assert_array_equal(raw.predict(X[::7] + 1e-9), raw.labels_[::7])
    kept = front_door(3, kernel="rbf").fit(X)
    assert adjusted_rand_score(y, kept.labels_) < 0.6


@pytest.mark.parametrize("far", [1e3, 1e6])
def test_a_mistyped_number_does_not_decide_the_scale_of_its_column(far):
    X, y = make_blobs(300, 2, centers=3, cluster_std=0.8, random_state=1)
    model = front_door(None).fit(np.concatenate([X, [[far, 0.0]]]))
    assert model.n_clusters_ == 3
    assert adjusted_rand_score(y, model.labels_[:300]) > 0.97
    assert not any("standardised" in sentence for sentence in model.report_)


def test_column_scales_limit_extreme_values_with_weights_as_with_copies():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 2)) * [1.0, 3.0]
    X[0, 0] = 1e4
    weights = rng.integers(1, 4, 50).astype(float)
    scales, ratio = column_scales(X, weights)
    assert ratio < 4  # 500 otherwise
    repeated = np.repeat(X, weights.astype(int), axis=0)
    copies, same = column_scales(repeated, np.ones(len(repeated)))
    np.testing.assert_allclose(scales, copies)
    assert same == pytest.approx(ratio)
    others = X[1:].std(axis=0)  # no value of these is extreme
    np.testing.assert_allclose(column_scales(X[1:], np.ones(49))[0], others / others.max())
