"""Probabilities of clusters, calibrated on subsamples, and rows far from all others."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_digits, make_blobs
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.neighbors import NearestNeighbors

from maxmargin import MaxMarginClustering, PairwiseConstraints
from maxmargin._core.model import lead_of
from maxmargin.least_squares import _fit
from maxmargin.least_squares._confidence import calibrate, rematched, subsamples
from maxmargin.persistence import load_model, save_model

CENTERS = [[0, 0], [6, 0], [0, 6]]


def scores_of(margins, labels, k):
    """Scores of which each row's own is ahead by its margin."""
    return np.where(labels[:, None] == np.arange(k), margins[:, None], 0.0)


def clouds(n=240, seed=0):
    return make_blobs(n, centers=CENTERS, random_state=seed)[0]


@pytest.fixture(scope="module")
def model():
    return MaxMarginClustering(3, random_state=0).fit(clouds())


# -- curves ----------------------------------------------------------------------------------------


def test_the_curve_is_the_best_rising_one():
    """By brute force over partitions; within a step, the level below counts once."""
    rng = np.random.default_rng(3)
    margins, labels = rng.permutation(8) / 8.0, np.zeros(8, int)
    kept = rng.random((6, 8)) < 0.8
    assert (kept.mean(axis=1) >= 0.5).all(), "the matching must not swap the names"
    found = calibrate(scores_of(margins, labels, 2), labels, np.where(kept, 0, 1))
    order = np.argsort(margins)
    times, successes = np.full(8, 6.0), kept.sum(axis=0)[order].astype(float)
    best = (np.inf, None)
    for cuts in itertools.product([False, True], repeat=7):
        groups = np.concatenate([[0], np.cumsum(cuts)])
        level = (np.bincount(groups, successes) / np.bincount(groups, times))[groups]
        if (np.diff(level) >= 0).all():
            best = min(
                best, (float((times * (level - successes / times) ** 2).sum()), tuple(level))
            )
    expected, below, seen = [], 0.5, 0.0
    for i, level in enumerate(best[1]):
        if i and level > best[1][i - 1]:
            below, seen = best[1][i - 1], 0.0
        seen += times[i]
        expected.append((level * seen + below) / (seen + 1.0))
    levels = found.confidence(margins, labels)[order]
    np.testing.assert_allclose(levels, expected, atol=1e-5)


def test_the_curve_never_falls_with_the_margin():
    rng = np.random.default_rng(0)
    labels, margins = rng.integers(0, 3, 200), rng.normal(size=200)
    resampled = np.where(rng.random((7, 200)) < 0.5 + 0.2 * np.tanh(margins), labels, -1)
    resampled = np.where(rng.random((7, 200)) < 0.3, (labels + 1) % 3, resampled)
    calibration = calibrate(scores_of(margins, labels, 3), labels, resampled)
    grid = np.linspace(-9, 9, 500)
    for cluster in range(3):
        levels = calibration.confidence(grid, np.full(500, cluster))
        assert (np.diff(levels) >= 0).all() and levels[0] > 1 / 3 and levels[-1] < 1


def test_many_rows_that_always_stay_are_certain_and_a_cluster_without_rows_is_not():
    labels = np.repeat([0, 1], 50)
    resampled = np.tile(labels, (6, 1))
    sure = calibrate(scores_of(np.linspace(0, 1, 100), labels, 3), labels, resampled)
    levels = sure.confidence(np.array([0.05, 0.1, 0.49]), np.zeros(3, int))
    assert levels[0] < levels[1] < levels[2] and levels[2] > 0.998
    assert sure.confidence(np.ones(1), np.array([2])) == pytest.approx(1 / 3, abs=1e-5)


def test_the_temperature_is_that_of_the_moves():
    """Rows that leave their cluster go to the others as a softmax of temperature 1/2 says."""
    rng = np.random.default_rng(0)
    n, truth = 4000, 0.5
    scores = rng.normal(size=(n, 4))
    labels = np.zeros(n, int)
    scores[:, 0] = 5.0
    shares = np.exp(scores[:, 1:] / truth)
    shares /= shares.sum(axis=1, keepdims=True)
    goes = 1 + (rng.random(n)[:, None] > np.cumsum(shares, axis=1)).sum(axis=1)
    found = calibrate(scores, labels, np.where(rng.random(n) < 0.6, 0, goes)[None])
    assert found.temperature == pytest.approx(truth, rel=0.1)


# -- probabilities ---------------------------------------------------------------------------------


def test_probabilities_sum_to_1_and_the_largest_is_that_of_the_prediction(model):
    rng = np.random.default_rng(0)
    for X in (clouds(), rng.uniform(-4, 10, size=(300, 2))):
        P = model.predict_proba(X)
        np.testing.assert_allclose(P.sum(axis=1), 1.0)
        assert (P > 0).all() and (P.argmax(axis=1) == model.predict(X)).all()
    # A cloud without clusters: hardly any cluster is kept.
    cloud = rng.normal(size=(120, 3))
    unsure = MaxMarginClustering(5, random_state=0).fit(cloud)
    P = unsure.predict_proba(cloud)
    assert (P.argmax(axis=1) == unsure.predict(cloud)).all() and P.max() < 0.999
    assert 0.2 < P.max(axis=1).min() < 0.5


def test_fitted_rows_are_judged_by_the_scores_without_them(model):
    X = clouds()
    P, typical = model.predict_proba(X), ~model.is_outlier_
    np.testing.assert_array_equal(P.max(axis=1)[typical], model.confidence_[typical])
    assert (P.max(axis=1)[~typical] > model.confidence_[~typical]).all()
    np.testing.assert_array_equal(model.confidence(X), model.confidence_)
    order = model._calibration.found()[0].held_out[np.argsort(model.fitted_indices_)]
    assert (lead_of(order, model.labels_) == model.leave_one_out_margins_[
        np.argsort(model.fitted_indices_)]).all()  # fmt: skip


def test_certain_rows_reach_1_and_rows_between_clusters_do_not(model):
    between = np.array([[3.0, 0.0], [3.0, 3.0]])
    assert model.confidence(np.array(CENTERS, float)).min() > 0.99
    assert model.confidence(between).max() < 0.95
    assert model.confidence_.max() > 0.99


def test_probabilities_are_calibrated_on_fits_of_other_subsamples():
    X, _ = make_blobs([150, 100, 80], 5, cluster_std=3.5, random_state=1)
    model = MaxMarginClustering(3, random_state=0).fit(X)
    parts = np.full((5, len(X)), -1)
    for row, part in zip(parts, subsamples(len(X), 5, np.random.default_rng(1))):
        again = MaxMarginClustering(3, n_resamples=0, random_state=1).fit(X[part])
        row[part] = again.labels_
    kept = np.where(parts >= 0, rematched(model.labels_, parts, 3) == model.labels_, np.nan)
    high = model.confidence_ > 0.9
    assert np.nanmean(kept[:, high]) > 0.9 > np.nanmean(kept[:, ~high])


def test_probabilities_need_resamples_but_outliers_do_not(model):
    X = clouds()
    plain = MaxMarginClustering(3, n_resamples=0, random_state=0).fit(X)
    for name in ("predict_proba", "confidence"):
        with pytest.raises(ValueError, match=rf"{name} needs a fit with n_resamples > 0.*=0"):
            getattr(plain, name)(X)
    assert not hasattr(plain, "confidence_")
    assert plain.outlier_score_.shape == (240,) and plain.is_outlier([[99.0, 99.0]]).all()
    # A fit leaves nothing of an earlier one.
    again = MaxMarginClustering(3, random_state=0).fit(X).set_params(n_resamples=0).fit(X)
    assert not hasattr(again, "confidence_") and not hasattr(again, "_calibration")


def test_subsamples_that_were_interrupted_are_the_same_when_they_are_clustered_again(monkeypatch):
    X = np.random.default_rng(0).normal(size=(60, 4))
    model, again = (MaxMarginClustering(4, n_resamples=3, random_state=0).fit(X) for _ in "ab")

    def stop(*_args):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(_fit, "calibrate", stop)
        with pytest.raises(KeyboardInterrupt):
            again.stability_  # noqa: B018
    assert again.stability_ == model.stability_
    assert (again.confidence_ == model.confidence_).all()


def test_subsamples_are_fitted_when_needed_with_the_same_result_on_any_path():
    X = clouds()
    early, late = (MaxMarginClustering(3, random_state=0).fit(X) for _ in range(2))
    assert not {"confidence_", "stability_", "report_"} & set(vars(early))
    expected = early.confidence_
    X[:] = 0.0  # the caller's rows are no longer needed
    stored = pickle.loads(pickle.dumps(late))
    on_threads = late.set_params(n_jobs=2).fit(clouds())
    for model in (stored, on_threads):
        np.testing.assert_array_equal(model.confidence_, expected)
        assert model.report_ == early.report_ and model.stability_ == early.stability_
    kernel = rbf_kernel(clouds(), gamma=0.1)
    models = [MaxMarginClustering(3, kernel="precomputed", random_state=0) for _ in range(2)]
    expected = models[0].fit(kernel).confidence_
    models[1].fit(kernel)
    kernel[:] = 0.0
    np.testing.assert_array_equal(models[1].confidence_, expected)


# -- outliers --------------------------------------------------------------------------------------


def test_the_score_is_the_relative_distance_to_the_tenth_neighbour(model):
    """By scikit-learn's neighbours in the whitened metric."""
    new = np.random.default_rng(0).uniform(-9, 15, size=(50, 2))
    points = (clouds() - clouds().mean(axis=0)) @ model.feature_map_.axes
    near = NearestNeighbors(n_neighbors=11).fit(points)
    spacing = near.kneighbors(points)[0][:, 10]
    distances, at = near.kneighbors((new - clouds().mean(axis=0)) @ model.feature_map_.axes, 10)
    expected = distances[:, 9] / np.sort(spacing[at], axis=1)[:, 2]
    np.testing.assert_allclose(model.outlier_score(new), expected, rtol=1e-6)
    own = spacing / np.sort(spacing[near.kneighbors(points)[1][:, 1:]], axis=1)[:, 2]
    np.testing.assert_allclose(model.outlier_score_, own, rtol=1e-6)


def test_rows_ten_radii_away_are_outliers_without_confidence_and_inliers_are_not(model):
    angle = np.linspace(0, 2 * np.pi, 40)
    far = np.mean(CENTERS, axis=0) + 36.0 * np.column_stack([np.cos(angle), np.sin(angle)])
    assert model.is_outlier(far).all() and model.confidence(far).max() < 0.01
    assert model.is_outlier(clouds(1000, seed=1)).mean() <= 0.02
    assert model.is_outlier_.mean() <= 0.01 + 1e-9


def test_many_distant_rows_in_the_fit_do_not_hide_each_other():
    rng = np.random.default_rng(0)
    X = np.concatenate([clouds(), rng.choice([-1, 1], (12, 2)) * rng.uniform(20, 60, (12, 2))])
    model = MaxMarginClustering(3, random_state=0).fit(X)
    assert model.is_outlier_[240:].all() and model.confidence_[240:].max() < 0.1
    assert model.is_outlier_[:240].mean() <= 0.02
    told = f"Outliers at the level of 0.01: {model.is_outlier_.sum()} of 252 rows; about 3 are "
    assert f"{told}expected by chance." in model.report_


def test_wide_and_narrow_clusters_are_treated_alike():
    rng = np.random.default_rng(0)
    narrow, wide = rng.normal(size=(300, 2)), 8.0 * rng.normal(size=(300, 2)) + [60, 0]
    model = MaxMarginClustering(2, n_resamples=0, outlier_level=0.1, random_state=0)
    flags = model.fit(np.concatenate([narrow, wide])).is_outlier_
    assert flags.mean() == pytest.approx(0.1, abs=0.01)
    assert abs(flags[:300].mean() - flags[300:].mean()) < 0.08


def test_a_few_rows_and_equal_rows():
    X = np.array([[0.0], [0.1], [0.2], [5.0], [5.1], [5.2]])
    model = MaxMarginClustering(2, random_state=0).fit(X)
    assert not model.is_outlier_.any() and model.is_outlier([[1000.0]]).all()
    one = MaxMarginClustering(1, random_state=0).fit(np.ones((4, 2)))
    assert (one.predict_proba(np.ones((2, 2))) == 1).all() and not one.is_outlier_.any()


def test_many_copies_of_a_row_are_no_outliers_and_do_not_make_others_outliers():
    X = np.concatenate([clouds(), np.tile(clouds()[:1], (60, 1))])
    model = MaxMarginClustering(3, random_state=0).fit(X)
    once = MaxMarginClustering(3, random_state=0).fit(clouds())
    assert not model.is_outlier_[240:].any() and model.is_outlier_.mean() <= 0.02
    assert (model.outlier_score_[1:240] <= 2 * once.outlier_score_[1:]).all()


def test_fits_of_fewest_rows_have_a_confidence():
    X = np.array([[0.0], [0.1], [5.0], [9.0]])
    model = MaxMarginClustering(4, n_resamples=2, random_state=0).fit(X)
    assert np.isfinite(model.confidence_).all() and 0 <= model.stability_ <= 1


def test_a_row_of_weight_zero_is_judged_as_a_new_row():
    X = np.concatenate([clouds(), [[50.0, 50.0]]])
    weights = np.append(np.ones(240), 0.0)
    model = MaxMarginClustering(3, random_state=0).fit(X, sample_weight=weights)
    without = MaxMarginClustering(3, random_state=0).fit(X[:240])
    np.testing.assert_array_equal(model.outlier_score_[:240], without.outlier_score_)
    assert model.outlier_score_[240] == without.outlier_score(X[240:]) and model.is_outlier_[240]


# -- kinds of rows ---------------------------------------------------------------------------------


def test_text_and_kernel_matrices():
    rng = np.random.default_rng(0)
    topics = rng.random((3, 300)) ** 20
    y = rng.integers(0, 3, 150)
    X = sparse.csr_matrix(rng.poisson(3.0 * topics[y]).astype(float))
    X = X[np.asarray(X.sum(axis=1)).ravel() > 0]
    model = MaxMarginClustering(3, random_state=0).fit(X)
    dense = MaxMarginClustering(3, random_state=0).fit(X.toarray())
    np.testing.assert_allclose(model.predict_proba(X), dense.predict_proba(X.toarray()))
    np.testing.assert_allclose(model.outlier_score_, dense.outlier_score_, atol=1e-7)
    assert (model.predict_proba(X).argmax(axis=1) == model.predict(X)).all()
    X, new = clouds(), np.array([[0.0, 0.0], [40.0, -30.0]])
    kernel = MaxMarginClustering(3, kernel="precomputed", random_state=0).fit(
        rbf_kernel(X, gamma=0.5)
    )
    values = rbf_kernel(new, X, gamma=0.5)
    assert kernel.is_outlier(values).tolist() == [False, True]
    assert kernel.confidence(values)[0] > 0.9 > kernel.confidence(values)[1]
    np.testing.assert_array_equal(kernel.confidence(rbf_kernel(X, gamma=0.5)), kernel.confidence_)


def test_rows_that_are_not_in_the_fit():
    X, y = load_digits(n_class=3, return_X_y=True)
    model = MaxMarginClustering(3, max_samples=200, n_resamples=2, random_state=0).fit(X)
    assert model.confidence_.shape == model.outlier_score_.shape == y.shape
    np.testing.assert_array_equal(model.is_outlier(X), model.is_outlier_)
    np.testing.assert_allclose(model.outlier_score(X), model.outlier_score_)
    np.testing.assert_allclose(model.confidence(X), model.confidence_, rtol=1e-6)


def test_a_copy_of_a_fitted_row_is_as_sure_as_that_row():
    digits = load_digits(n_class=3)["data"]
    n = len(digits)
    model = MaxMarginClustering(3, max_samples=200, n_resamples=2, random_state=0)
    model.fit(np.tile(digits, (2, 1)), sample_weight=np.repeat([1.0, 0.0], n))
    np.testing.assert_allclose(model.confidence_[n:], model.confidence_[:n])
    np.testing.assert_allclose(model.confidence(digits), model.confidence_[:n], rtol=1e-6)


@pytest.mark.parametrize("seed", [0, 3, 5])
def test_equal_rows_that_are_not_merged_are_equally_sure(seed, monkeypatch):
    monkeypatch.setattr("maxmargin._core.dedup.MERGE_ROWS", 100)
    X = np.random.default_rng(seed).integers(0, 12, (600, 2)).astype(float)
    model = MaxMarginClustering(3, max_samples=400, n_resamples=2, random_state=seed).fit(X)
    _, first, same = np.unique(X, axis=0, return_index=True, return_inverse=True)
    for found in (model.labels_, model.confidence_, model.outlier_score_):
        np.testing.assert_allclose(found, found[first][same.ravel()], rtol=1e-6)
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    np.testing.assert_allclose(model.confidence(X), model.confidence_, rtol=1e-6)
    np.testing.assert_array_equal(model.is_outlier(X), model.is_outlier_)


@pytest.mark.parametrize("named", [2, 3])
def test_known_labels_of_some_or_of_all_clusters(named, tmp_path):
    X, y = make_blobs(240, centers=CENTERS, random_state=0)
    known = np.where((np.arange(240) < 30) & (y < named), y, -1)
    model = MaxMarginClustering(3, n_resamples=2, random_state=0).fit(X, partial_labels=known)
    P = model.predict_proba(X)
    np.testing.assert_allclose(P.sum(axis=1), 1.0)
    assert (P.argmax(axis=1) == model.predict(X)).all() and (model.labels_ == y).mean() > 0.95
    np.testing.assert_allclose(model.confidence(X), model.confidence_)
    far = [[60.0, 60.0]]
    assert model.is_outlier(far).all() and model.confidence(far) < 0.01
    save_model(model, tmp_path / "m.skops")
    again = load_model(tmp_path / "m.skops")
    np.testing.assert_array_equal(again.predict_proba(X), P)


def test_constraints():
    X, y = make_blobs(150, centers=CENTERS, random_state=0)
    links = PairwiseConstraints.from_labels(y, n_pairs=20, random_state=0)
    model = MaxMarginClustering(3, n_resamples=2, random_state=0).fit(X, constraints=links)
    P = model.predict_proba(X)
    assert (P.argmax(axis=1) == model.predict(X)).all()
    assert model.confidence_.max() > 0.95 and model.is_outlier([[60.0, 60.0]]).all()


def test_memory_files_and_dask_give_the_same_probabilities(model, tmp_path):
    da = pytest.importorskip("dask.array")
    X = np.random.default_rng(1).uniform(-9, 15, size=(90, 2))
    np.save(tmp_path / "rows.npy", X)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    chunks = da.from_array(X, chunks=(40, 2))
    for name in ("predict_proba", "confidence", "outlier_score", "is_outlier"):
        expected, found = getattr(model, name)(X), getattr(model, name)(chunks)
        assert isinstance(found, da.Array) and found.shape == expected.shape
        np.testing.assert_allclose(found.compute(), expected, rtol=1e-9)
        np.testing.assert_array_equal(getattr(model, name)(mapped), expected)


def test_a_saved_model_gives_the_same(model, tmp_path):
    X = np.random.default_rng(1).uniform(-9, 15, size=(30, 2))
    save_model(model, tmp_path / "m.skops")
    again = load_model(tmp_path / "m.skops")
    for name in ("predict_proba", "confidence", "outlier_score", "is_outlier"):
        np.testing.assert_array_equal(getattr(again, name)(X), getattr(model, name)(X))


@pytest.mark.parametrize("level", [0, 1, "low"])
def test_a_bad_level_is_named(level):
    with pytest.raises(ValueError, match="'outlier_level' parameter"):
        MaxMarginClustering(2, outlier_level=level).fit(clouds())
