"""Agreement of resamples, calibrated confidence, and the choice of the number of clusters."""

from __future__ import annotations

import itertools
import re

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy import sparse, stats
from sklearn.cluster import KMeans
from sklearn.datasets import load_wine, make_blobs
from sklearn.mixture import GaussianMixture
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from maxmargin import LeastSquaresMarginClustering, choose_n_clusters
from maxmargin._cluster_number import _decide, _support, largest_stable, shapeless
from maxmargin.display import plot_n_clusters
from maxmargin.least_squares._confidence import (
    matched,
    pair_agreement,
    subsamples,
    worst_overlap,
)
from maxmargin.metrics import adjusted_rand_score

matplotlib.use("Agg")


# -- agreement ------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_matching_and_worst_overlap_equal_brute_force(seed):
    rng = np.random.default_rng(seed)
    a, b, k = rng.integers(0, 4, 30), rng.integers(0, 4, 30), 4
    agreeing, overlaps = [], []
    for names in itertools.permutations(range(k)):
        renamed = np.array(names)[b]
        agreeing.append((renamed == a).sum())
        jaccard = [
            ((a == h) & (renamed == h)).sum() / max(((a == h) | (renamed == h)).sum(), 1)
            for h in range(k)
        ]
        overlaps.append((sum(jaccard), min(jaccard)))
    assert (matched(a, b, k) == a).sum() == max(agreeing)
    assert worst_overlap(a, b, k) == pytest.approx(max(overlaps)[1])


def test_pairs_are_compared_on_the_rows_they_share():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, (3, 40))
    labels[0, :10] = labels[1, 5:15] = labels[2, 30:] = -1
    found = pair_agreement(labels, 3)
    for (a, b), row in zip(itertools.combinations(labels, 2), found, strict=True):
        both = (a != -1) & (b != -1)
        assert row[0] == adjusted_rand_score(a[both], b[both])
        assert row[1] == worst_overlap(a[both], b[both], 3)


def test_subsamples_have_no_row_twice():
    rows = subsamples(100, 5, np.random.default_rng(0))
    assert [len(np.unique(r)) for r in rows] == [70] * 5
    assert len({tuple(r) for r in rows}) == 5


# -- the number of clusters -----------------------------------------------------------------------


def test_the_rule_takes_the_last_k_that_is_nearly_best():
    stability = np.array([[0.9, 1.0, 0.86, 0.84], [0.3, 0.2, 0.1, 0.1], [1.0, 0.95, 0.95, 0.95]])
    worst = np.array([[1, 1, 1, 1], [0.2, 0.1, 0.1, 0.1], [1, 0.8, 0.7, 0.3]], float)
    np.testing.assert_array_equal(largest_stable(stability, worst), [2, 0, 1])


def test_support_against_a_literal_redraw():
    rng = np.random.default_rng(0)
    agreement = np.clip(rng.normal(0.8, 0.15, size=(4, 6, 2)), 0, 1)
    found = _support(agreement, 4, np.random.default_rng(1))
    pairs, taken = list(itertools.combinations(range(4), 2)), []
    for _ in range(4000):
        drawn = rng.integers(0, 4, 4)
        used = [pairs.index(tuple(sorted(p))) for p in itertools.combinations(drawn, 2)
                if p[0] != p[1]]  # fmt: skip
        if used:
            s, w = agreement[:, used].mean(axis=1).T
            taken.append(largest_stable(s[None], w[None])[0])
    expected = np.bincount(taken, minlength=4) / len(taken)
    np.testing.assert_allclose(found, expected, atol=0.05)
    assert found.sum() == pytest.approx(1)


@pytest.mark.parametrize("kind", ["dense", "sparse", "pipeline"])
def test_clear_clusters_are_counted(kind):
    X, _ = make_blobs([80, 80, 80, 80], 6, cluster_std=1.0, random_state=0)
    estimator = KMeans(n_init=3)
    if kind == "sparse":
        X = sparse.csr_matrix(X)
    if kind == "pipeline":
        estimator = make_pipeline(StandardScaler(), KMeans(n_init=3))
    choice = choose_n_clusters(X, estimator, k_range=range(2, 7), random_state=0)
    assert choice.n_clusters == 4 and not choice.uncertain
    assert choice.statement.startswith("4 clusters: ")
    assert choice.stability[2] > 0.9 and choice.support[2] > 0.9
    assert choice.stability[2] > choice.without_clusters[2]


@pytest.mark.parametrize("shape", ["round", "long", "square"])
def test_data_without_clusters_is_uncertain(shape):
    """In four draws of five: a cloud may be more stable than all of those it is compared with."""
    doubts = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        cloud = {
            "round": rng.normal(size=(150, 4)),
            "long": rng.normal(size=(150, 4)) * [4, 1, 1, 1],
            "square": rng.random((150, 2)),
        }[shape]
        choice = choose_n_clusters(cloud, KMeans(n_init=1), k_range=range(2, 6), random_state=0)
        assert choice.uncertain == choice.statement.startswith("Uncertain")
        doubts.append(choice.uncertain)
    assert sum(doubts) >= 4


def test_an_open_end_and_an_open_choice_are_told():
    X, _ = make_blobs([60] * 6, 5, cluster_std=0.5, random_state=0)
    short = choose_n_clusters(X, KMeans(n_init=5), k_range=[5, 6], random_state=0)
    assert short.n_clusters == 6 and short.uncertain and "Try larger numbers" in short.statement


def decided(stability):
    """The answer to a curve with the given values for every pair of four parts."""
    agreement = np.stack([np.asarray(stability, float), np.ones_like(stability)], axis=2)
    return _decide([2, 3, 4, 5], agreement, 4, np.random.default_rng(0))


@pytest.mark.parametrize(
    "curve, chosen, told",
    [
        ([0.9, 0.95, 0.6, 0.5], 3, "3 clusters: stability"),
        ([0.5, 0.7, 0.55, 0.5], 3, "best choice, but .* only 0.70"),
        ([0.9, 0.9, 0.9, 0.9], 5, "5 clusters, the largest number tried"),
        ([0.95, 0.9, 0.6, 0.5], 3, "3 clusters: stability"),
    ],
)
def test_what_the_curve_says(curve, chosen, told):
    choice = decided(np.repeat(np.array(curve)[:, None], 6, axis=1))
    assert choice.n_clusters == chosen and re.search(told, choice.statement)
    assert choice.uncertain == choice.statement.startswith("Uncertain")


def test_a_choice_that_depends_on_the_parts_is_told():
    """Three clusters are found again between some of the parts only."""
    curve = np.array([[1.0] * 6, [1.0, 1.0, 0.75, 1.0, 0.75, 0.75], [0.5] * 6, [0.5] * 6])
    choice = decided(curve)
    assert choice.uncertain and 0.25 < choice.support[1] < 0.75
    assert "Uncertain: 2 or 3 clusters." in choice.statement and choice.candidates == (3, 2)


def test_same_seed_same_choice_and_wine_has_three():
    X = StandardScaler().fit_transform(load_wine().data)
    estimator = KMeans(n_init=2)
    choices = [choose_n_clusters(X, estimator, k_range=[2, 3, 4], random_state=1) for _ in "ab"]
    np.testing.assert_array_equal(choices[0].stability, choices[1].stability)
    assert choices[0].statement == choices[1].statement
    assert choices[0].n_clusters == choices[0].candidates[0] == 3


def test_few_rows_limit_the_numbers_tried():
    X = np.random.default_rng(0).normal(size=(18, 2))
    choice = choose_n_clusters(X, KMeans(n_init=1), random_state=0)
    assert choice.k_values.tolist() == [2, 3, 4]
    with pytest.raises(ValueError, match=r"k_range goes up to 13, but .* 12 distinct rows"):
        choose_n_clusters(X, KMeans(n_init=1), k_range=[2, 13])
    with pytest.raises(ValueError, match="too few distinct rows"):
        choose_n_clusters(np.ones((20, 2)), KMeans(n_init=1))


def test_a_kernel_is_cut_on_both_sides():
    X, _ = make_blobs([50, 50, 50], 3, cluster_std=0.5, random_state=1)
    K = np.exp(-0.05 * ((X[:, None] - X[None]) ** 2).sum(axis=2))
    estimator = LeastSquaresMarginClustering(kernel="precomputed", n_init=3, n_kicks=0)
    choice = choose_n_clusters(K, estimator, k_range=range(2, 6), random_state=0)
    assert choice.n_clusters == 3 and np.isnan(choice.without_clusters).all()


@pytest.mark.parametrize(
    "given, told",
    [
        ({"estimator": GaussianMixture()}, "estimator must be a clusterer"),
        ({"estimator": KMeans(), "k_range": [1, 2]}, "k_range .* numbers, each at least 2"),
        ({"k_range": [0, 2]}, "k_range must be whole numbers, each at least 1"),
        ({"k_range": []}, "k_range must be whole numbers"),
        ({"estimator": KMeans(), "n_subsamples": 2}, "n_subsamples .* at least 3; got 2"),
        ({"n_subsamples": 5}, "n_subsamples=5 needs an estimator"),
        ({"max_samples": 2.5}, "max_samples must be a whole number"),
    ],
)
def test_wrong_settings_are_named(given, told):
    with pytest.raises(ValueError, match=told):
        choose_n_clusters(np.random.default_rng(0).normal(size=(30, 2)), **given)


def test_a_shapeless_cloud_keeps_the_moments():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(900, 3)), rng.normal(size=(900, 3)) + 9]) * [1, 2, 3]
    gaussian, box = shapeless(X, rng)

    def middle(rows):
        scaled = (rows - X.mean(axis=0)) / X.std(axis=0)
        return (np.abs(scaled).max(axis=1) < 0.7).mean()

    for cloud in (gaussian, box):
        np.testing.assert_allclose(np.cov(cloud.T), np.cov(X.T), rtol=0.15)
        assert middle(X) < 0.02 < 0.1 < middle(cloud)  # where the two clusters leave a gap
    axes = np.linalg.eigh(np.cov(X.T))[1]
    kurtosis = [stats.kurtosis((rows @ axes)[:, -1]) for rows in (gaussian, box)]
    np.testing.assert_allclose(kurtosis, [0, -1.2], atol=0.25)
    assert len(list(shapeless(X[:2], rng, 3))) == 3
    counts = sparse.random(50, 20, 0.2, format="csr", random_state=0)
    (shuffled,) = shapeless(counts, rng)
    np.testing.assert_allclose(shuffled.sum(axis=1), counts.sum(axis=1))
    assert (shuffled != counts).nnz > 0 and shuffled.has_canonical_format


def test_the_picture_shows_the_curve_and_the_choice():
    X, _ = make_blobs([60, 60, 60], 4, random_state=0)
    choice = choose_n_clusters(X, KMeans(n_init=2), k_range=range(2, 7), random_state=0)
    ax = Figure().subplots()
    assert choice.plot(ax) is ax is plot_n_clusters(choice, ax)
    np.testing.assert_array_equal(ax.lines[0].get_xydata()[:, 1], choice.stability)
    ring = next(line for line in ax.lines if line.get_markerfacecolor() == "none")
    assert ring.get_xdata() == [choice.n_clusters]
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    assert any(text.startswith(f"{choice.n_clusters} clusters") for text in texts)
