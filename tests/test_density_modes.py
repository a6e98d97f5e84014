"""The number of clusters by the separation of density modes."""

from __future__ import annotations

import re

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from sklearn.cluster import KMeans
from sklearn.datasets import make_blobs

from maxmargin import MaxMarginClustering, choose_n_clusters
from maxmargin._cluster_number import doubt_of, may_be_stable
from maxmargin._density_modes import (
    LEAST_ROWS,
    log_density,
    mode_separations,
    scaled_neighbours,
    separations,
    squared_distances,
    whitened,
)
from maxmargin._separated_number import separated_number

matplotlib.use("Agg")


def rings(*sizes, seed=0):
    rng = np.random.default_rng(seed)
    radius = np.repeat(1.0 + np.arange(len(sizes)), sizes)
    angle = rng.uniform(0, 2 * np.pi, sum(sizes))
    X = radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return X + rng.normal(scale=0.07, size=X.shape)


def literal_separations(neighbours, density):
    """Height of every mode above the level at which its component gets a higher row."""
    n, count = neighbours.shape
    links = np.zeros((n, n), bool)
    links[np.repeat(np.arange(n), count), neighbours.ravel()] = True
    found = []
    for i in range(n):
        size = 0
        for level in np.sort(density[density <= density[i]])[::-1]:
            rows = np.flatnonzero(density >= level)
            parts = connected_components(links[np.ix_(rows, rows)], directed=False)[1]
            own = rows[parts == parts[np.flatnonzero(rows == i)[0]]]
            if density[own].max() > density[i]:
                break
            size = len(own)
        else:
            level = -np.inf
        if size >= LEAST_ROWS:
            found.append(density[i] - level)
    return np.sort(found)[::-1]


@pytest.mark.parametrize("apart", [0.0, 3.0, 30.0])
def test_separations_against_the_definition(apart):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(70, 2))
    X[40:, 0] += apart
    neighbours, distances = scaled_neighbours(squared_distances(X, "rbf", rng), 6)
    weights = np.ones(70)
    density, effective = log_density(neighbours, distances, weights)
    np.testing.assert_allclose(effective, 6)
    found = mode_separations(neighbours, distances, weights)
    expected = np.sqrt(6) * literal_separations(neighbours, density)
    np.testing.assert_allclose(found[: len(expected)], expected)
    # A row that is no mode is not above its saddle.
    np.testing.assert_allclose(found[len(expected) :], 0, atol=1e-12)
    assert np.isinf(found).sum() == (2 if apart == 30 else 1)


@pytest.mark.parametrize("d", [1, 3, 8])
def test_the_standard_error_of_the_log_density(d):
    """On a torus, on which nothing but the noise varies."""
    rng = np.random.default_rng(0)
    X = rng.random((1000, d))
    gaps = np.abs(X[:, None] - X[None])
    D = (np.minimum(gaps, 1 - gaps) ** 2).sum(axis=2)
    np.fill_diagonal(D, np.inf)
    neighbours = np.argsort(D, axis=1)[:, :10]
    distances = np.sqrt(np.take_along_axis(D, neighbours, 1))
    density, _ = log_density(neighbours, distances, np.ones(1000))
    assert density.std() == pytest.approx(1 / np.sqrt(10), rel=0.25)


def test_separations_do_not_depend_on_the_unit():
    X = rings(150, 90)
    found = [separations(c * X + 7, np.ones(240), "rbf", np.random.default_rng(0)) for c in (1, 64)]
    np.testing.assert_allclose(*found, rtol=1e-3, atol=1e-3)


CLEAR_SETS = {
    "25 blobs": (make_blobs(750, 6, centers=25, center_box=(-20, 20), random_state=0)[0], 25),
    "40:1": (make_blobs([600, 100, 15], 4, cluster_std=0.5, random_state=1)[0], 3),
    "rings": (rings(300, 300, seed=1), 2),
    "one ring": (rings(200), 1),
    "cloud": (np.random.default_rng(0).normal(size=(300, 4)) * [4, 1, 1, 1], 1),
    "box": (np.random.default_rng(0).random((300, 2)), 1),
}


@pytest.mark.parametrize("name", CLEAR_SETS)
def test_clear_numbers(name):
    X, k = CLEAR_SETS[name]
    choice = choose_n_clusters(X, random_state=0)
    assert choice.n_clusters == choice.candidates[0] == k
    assert choice.uncertain == (len(choice.candidates) > 1) == ("Uncertain" in choice.statement)
    if name != "one ring":
        assert choice.statement.startswith(f"{k} cluster")
        assert (choice.separation[1:] < choice.without_clusters[0] + 1).all() == (k == 1)


def test_elongated_clusters_are_made_round():
    X, _ = make_blobs([150, 150], 5, centers=[[0] * 5, [9] + [0] * 4], random_state=0)
    X = X * [1, 10, 10, 1, 10]
    rng, weights = np.random.default_rng(0), np.ones(300)
    raw, round_ = (separations(Z, weights, "rbf", rng)[1] for Z in (X, whitened(X, weights, rng)))
    assert raw + 1 < round_
    assert choose_n_clusters(X, random_state=0).n_clusters == 2


def test_nothing_separates_overlapping_clusters():
    """Three candidates at most, and what separates them."""
    X, _ = make_blobs([100] * 6, 3, center_box=(-4, 4), cluster_std=1.2, random_state=1)
    choice = choose_n_clusters(X, random_state=0)
    assert choice.uncertain and 2 <= len(choice.candidates) <= 3
    for k in choice.candidates:
        if k > 1:
            fall = rf"[Bb]etween {k}\b[^,]* by (at least )?{choice.separation[k - 1]:.1f}\b"
            assert re.search(fall, choice.statement)
    assert re.search(r"A fall of up to \d.\d can be chance", choice.statement)


@pytest.mark.parametrize(
    "seed, numbers, reason",
    [
        (8, "1 or 2", "1 was chosen: clusters that are clearly apart have a fall of 8 or more"),
        (10, "2, 3 or 4", "4 was chosen: one more cluster lowers the fall by the largest factor"),
        (
            27,
            "1, 2 or 3",
            "3 was chosen: irrelevant columns often hide clusters and rarely create any; ",
        ),
        (34, "1, 3 or 5", "5 was chosen: 5 clusters of k-means are stable"),
        (44, "1, 3 or 4", "; of 3 clusters it is 0.98, in similar data without clusters 0.82."),
    ],
)
def test_warning_and_statement_name_the_same_numbers(seed, numbers, reason):
    k, rng = 2 + seed % 6, np.random.default_rng(0)
    spread = {"cluster_std": [0.8, 1.3, 1.8][seed % 3], "center_box": (-5, 5)}
    X, _ = make_blobs(60 * k, 2 + seed % 3, centers=k, random_state=seed, **spread)
    if seed == 27:
        X = np.hstack([X / 3, np.eye(3)[rng.integers(3, size=len(X))]])
    choice = choose_n_clusters(X, random_state=0)
    assert choice.statement.startswith(f"Uncertain: {numbers} clusters. ")
    assert doubt_of(choice).startswith(f"Uncertain: {numbers} clusters; {choice.n_clusters} used ")
    assert reason in choice.statement
    left_out = "Columns of at most 20 values were left out to compute these falls."
    assert (left_out in choice.statement) == (seed == 27)
    if seed == 27:
        numeric = choose_n_clusters(X[:, : 2 + seed % 3], random_state=0)
        np.testing.assert_allclose(choice.separation[:3], numeric.separation[:3], atol=1.0)


def test_two_subsamples_settle_that_a_cloud_has_no_stable_clusters(monkeypatch):
    X = np.random.default_rng(0).normal(size=(500, 20))
    monkeypatch.delattr("maxmargin._separated_number.stable_number")  # five, for every number
    assert choose_n_clusters(X, random_state=0).n_clusters == 1


def test_csr_rows_weights_and_kernels():
    X, _ = make_blobs([80, 50, 30], 3, cluster_std=0.5, random_state=3)
    rng = np.random.default_rng
    dense, csr = (separated_number(A, None, "rbf", rng(0)) for A in (X, sparse.csr_matrix(X)))
    assert dense.statement == csr.statement and dense.n_clusters == 3
    twice = separated_number(np.concatenate([X, X[:40]]), None, "rbf", rng(0))
    weighted = separated_number(X, 1.0 + (np.arange(160) < 40), "rbf", rng(0))
    np.testing.assert_array_equal(twice.separation, weighted.separation)
    linear, kernel = (
        separated_number(A, None, name, rng(0))
        for A, name in ((X, "linear"), (X @ X.T, "precomputed"))
    )
    assert kernel.n_clusters == 3 and np.isnan(kernel.without_clusters).all()
    np.testing.assert_allclose(kernel.separation, linear.separation, rtol=1e-3, atol=1e-3)


def test_topics_are_counted():
    rng = np.random.default_rng(0)
    rate = np.full((3, 200), 0.002)
    rate[np.arange(200) % 3, np.arange(200)] = 0.12
    words = sparse.csr_matrix(rng.poisson(np.repeat(rate, 60, axis=0)).astype(float))
    choice = choose_n_clusters(words, k_range=range(2, 6), random_state=0)
    assert choice.n_clusters == 3 and not choice.uncertain and choice.separation is None
    words.indices = rng.permutation(words.indices)
    words.sum_duplicates()
    choice = choose_n_clusters(words, k_range=range(2, 6), random_state=0)
    assert choice.n_clusters == 1 and choice.uncertain
    assert choice.statement.startswith("Uncertain: 1 cluster, or ")


def test_a_sample_that_is_too_small_is_told():
    X, _ = make_blobs(900, 4, centers=15, center_box=(-30, 30), random_state=0)
    small = choose_n_clusters(X, max_samples=200, random_state=0)
    assert small.uncertain and "raise max_samples" in small.statement
    assert not choose_n_clusters(X, max_samples=899, random_state=0).uncertain


def test_the_numbers_to_choose_from():
    X, _ = make_blobs([60] * 4, 3, center_box=(-20, 20), random_state=0)
    assert choose_n_clusters(X, random_state=0).n_clusters == 4
    assert choose_n_clusters(X, k_range=[2, 3], random_state=0).n_clusters in (2, 3)
    assert choose_n_clusters(X, k_range=[9], random_state=0).n_clusters == 9
    with pytest.raises(ValueError, match="k_range goes up to 500, but X has only 240"):
        choose_n_clusters(X, k_range=[500])


@pytest.mark.parametrize("n", [1, 2, 5, 12])
def test_few_rows_are_one_cluster(n):
    X = np.random.default_rng(0).normal(size=(n, 2))
    assert choose_n_clusters(X, random_state=0).n_clusters == 1


def test_the_picture_shows_the_separation():
    choice = choose_n_clusters(rings(200, 200), random_state=0)
    ax = choice.plot(Figure().subplots())
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), choice.separation)
    assert ax.lines[1].get_ydata()[0] == choice.without_clusters[0]
    assert ax.lines[2].get_xdata() == [2]


def test_the_front_door_finds_one_cluster():
    cloud = np.random.default_rng(0).normal(size=(150, 3))
    model = MaxMarginClustering(n_resamples=0, random_state=0).fit(cloud)
    assert model.n_clusters_ == 1 and not model.labels_.any()
    assert model.report_[1].startswith("1 cluster: ")
    assert not model.predict(cloud[:3]).any()


def test_values_of_a_category_and_of_ratings_are_no_clusters():
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(3), 80)
    numbers = rng.normal(size=(240, 2)) + 9.0 * np.eye(3)[group][:, :2]
    levels = np.eye(4)[rng.integers(4, size=240)]
    ratings = rng.integers(5, size=(240, 1))
    mixed = np.hstack([numbers, levels, ratings])
    assert choose_n_clusters(numbers, random_state=0).n_clusters == 3
    assert choose_n_clusters(mixed, random_state=0).n_clusters == 3
    only = choose_n_clusters(np.hstack([levels, ratings, group[:, None]]), random_state=0)
    assert only.uncertain


def test_columns_of_unlike_scales_are_standardised_as_in_a_fit():
    rng = np.random.default_rng(0)
    centers = 3.0 * rng.normal(size=(4, 8))
    X = np.concatenate([c + rng.normal(size=(m, 8)) for c, m in zip(centers, (400, 250, 150, 100))])
    X *= 10.0 ** rng.uniform(-2, 4, 8)
    assert choose_n_clusters(X, random_state=0).n_clusters == 4
    assert MaxMarginClustering(random_state=0, n_resamples=0).fit(X).n_clusters_ == 4
    assert choose_n_clusters(sparse.csr_matrix(X), random_state=0).n_clusters == 4
    as_they_are = separated_number(X, None, "rbf", np.random.default_rng(0), scale=False)
    assert as_they_are.n_clusters != 4


def test_a_few_subsamples_do_not_rule_out_overlapping_clusters():
    means, numbers = KMeans(n_init=2), range(2, 8)
    for seed in range(12):
        k, given = 2 + seed % 3, {"center_box": (-3, 3), "cluster_std": 1.6, "random_state": seed}
        X = make_blobs(60 * k, 2 + seed % 5, centers=k, **given)[0]
        assert may_be_stable(means, X, numbers, 1000, np.random.default_rng(seed))
    for seed in range(3):
        cloud = np.random.default_rng(seed).normal(size=(400, 20))
        assert not may_be_stable(means, cloud, numbers, 1000, np.random.default_rng(seed))
