"""The front door: what it chooses, what it tells, and that it does what it says."""

from dataclasses import replace
from itertools import count
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.datasets import load_digits, load_iris, make_blobs, make_moons
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import StandardScaler

from maxmargin import (
    LeastSquaresMarginClustering,
    MaxMarginClustering,
    PairwiseConstraints,
    choose_n_clusters,
)
from maxmargin._auto import kind_of_rows
from maxmargin._core.model import Model
from maxmargin.least_squares._graph import MixedMap
from maxmargin.least_squares._starts import spread_clusters
from maxmargin.metrics import adjusted_rand_score
from maxmargin.persistence import load_model, save_model


def text_like(n=240, seed=0):
    """Word counts of three topics, 97 % zeros."""
    rng = np.random.default_rng(seed)
    topics = rng.random((3, 600)) ** 30
    y = rng.integers(0, 3, n)
    X = rng.poisson(2.0 * topics[y]).astype(float)
    X[np.arange(n), rng.integers(0, 600, n)] += 1.0
    return X, y


# -- what it chooses ------------------------------------------------------------------------------


class Settled(LeastSquaresMarginClustering):
    """Least squares with settings that only the front door has."""

    def _settings(self):
        return replace(super()._settings(), **self.more)


def settled(k, more, **params):
    model = Settled(k, random_state=0, **params)
    model.more = more
    return model


def test_the_answer_is_that_of_the_settings_it_stands_for():
    X, _ = load_iris(return_X_y=True)
    front = MaxMarginClustering(3, n_resamples=0, random_state=0).fit(X)
    more = {"n_neighbors": 10, "size_priors": (0.75,), "whiten": True, "spreads": True}
    room = settled(3, more, balance=0.05).fit(X)
    assert (front.labels_ == room.labels_).all()
    assert (front.decision_function(X) == room.decision_function(X)).all()


def test_one_call_for_moons_digits_and_unequal_blobs():
    moons, y = make_moons(500, noise=0.08, random_state=0)
    model = MaxMarginClustering(2, random_state=0).fit(moons)
    assert adjusted_rand_score(y, model.labels_) > 0.95
    digits, y = load_digits(return_X_y=True)
    model = MaxMarginClustering(10, max_samples=1000, n_resamples=0, random_state=0).fit(digits)
    assert adjusted_rand_score(y, model.labels_) > 0.8
    blobs, y = make_blobs([600, 200, 100, 100], 10, cluster_std=3, random_state=3)
    model = MaxMarginClustering(4, n_resamples=0, random_state=0).fit(blobs)
    assert adjusted_rand_score(y, model.labels_) > 0.95


def test_rows_of_mostly_zeros_are_compared_by_angle_however_they_are_stored():
    X, y = text_like()
    dense, csr = (
        MaxMarginClustering(3, random_state=0).fit(rows) for rows in (X, sparse.csr_matrix(X))
    )
    assert kind_of_rows(X).kernel == "cosine" == kind_of_rows(sparse.csr_matrix(X)).kernel
    assert adjusted_rand_score(y, csr.labels_) > 0.9
    assert (dense.labels_ == csr.labels_).all()
    assert "as in word counts" in csr.report_[0]


def test_a_kernel_can_be_given_or_precomputed():
    X, y = make_moons(300, noise=0.05, random_state=0)
    K = rbf_kernel(X, gamma=3.0)
    model = MaxMarginClustering(2, kernel="precomputed", random_state=0).fit(K)
    assert adjusted_rand_score(y, model.labels_) > 0.9
    assert (model.predict(K) == model.labels_).all()
    assert "X was used as a kernel matrix" in model.report_[0]
    linear = MaxMarginClustering(2, kernel="linear", random_state=0).fit(X)
    assert "mean of kernel='linear'" in linear.report_[0]


def test_links_change_the_answer_and_known_labels_are_kept():
    X, y = make_blobs(120, centers=[[0, 0], [0, 6], [6, 0], [6, 6]], random_state=0)
    for side in (y >= 2, y % 2):
        links = PairwiseConstraints.from_labels(side, n_pairs=60, random_state=0)
        model = MaxMarginClustering(2, n_resamples=2, random_state=0).fit(X, constraints=links)
        assert adjusted_rand_score(side, model.labels_) > 0.9
        assert any("60 constraints were used" in s for s in model.report_)
    with pytest.raises(ValueError, match="n_resamples > 0"):
        MaxMarginClustering(2, n_resamples=0, random_state=0).fit(X).confidence(X)
    known = np.where(np.arange(120) < 20, y, -1)
    model = MaxMarginClustering(random_state=0).fit(X, partial_labels=known)
    assert model.n_clusters_ == 4
    assert (model.labels_ == y).mean() > 0.95
    assert (model.labels_[:20] == y[:20]).all()
    assert any("The known labels have 4 clusters" in s for s in model.report_)


def test_names_of_known_labels_are_those_of_the_last_fit_that_succeeded():
    X, names = np.array([[0.0], [0.1], [5.0], [5.1]]), ["b", "", "a", None]
    model = LeastSquaresMarginClustering(2).fit(X, partial_labels=names)
    assert model.known_names_.tolist() == ["a", "b"]
    assert model.labels_.tolist() == [1, 1, 0, 0]
    with pytest.raises(ValueError, match="3 different names"):
        model.fit(X, partial_labels=["c", "", "a", "b"])
    assert model.known_names_.tolist() == ["a", "b"]
    assert not hasattr(model.fit(X), "known_names_")


def test_missing_values_are_labels_that_are_not_known():
    X = np.array([[0.0], [0.1], [5.0], [5.1]])
    for known in ([1, np.nan, 0, np.nan], pd.array([1, None, 0, None], "Int64"),
                  pd.Series([1, None, 0, None]), [1, None, 0, ""]):  # fmt: skip
        model = LeastSquaresMarginClustering(2).fit(X, partial_labels=known)
        assert model.labels_.tolist() == [1, 1, 0, 0]
    names = pd.Series(["b", pd.NA, "a", None], dtype="string")
    model = LeastSquaresMarginClustering(2).fit(X, partial_labels=names)
    assert model.known_names_[model.labels_].tolist() == ["b", "b", "a", "a"]
    model = LeastSquaresMarginClustering(2).fit(X, partial_labels=["b", pd.NaT, "a", pd.NaT])
    assert model.known_names_.tolist() == ["a", "b"]
    if hasattr(np.dtypes, "StringDType"):
        texts = np.array(["b", "", "a", ""], np.dtypes.StringDType())
        assert model.fit(X, partial_labels=texts).known_names_.tolist() == ["a", "b"]
    written = np.array(["b", "", "ä", ""]).astype("U").tolist()
    model = model.fit(X, partial_labels=np.char.encode(written, "utf-8"))
    assert model.known_names_.tolist() == ["b", "ä"]
    links = PairwiseConstraints(4, must_link=[(0, 2)])
    for known in names, [1, np.nan, 0, np.nan]:
        assert links.contradiction(partial_labels=known) is not None
    with pytest.raises(ValueError, match="partial_labels must be integers, or names"):
        model.fit(X, partial_labels=[0.5, np.nan, 0, 1])
    with pytest.raises(ValueError, match="between 0 and"):
        model.fit(X, partial_labels=[np.inf, np.nan, 0, 1])


def test_rows_whose_squares_do_not_fit_into_single_precision():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], [250, 200, 150])
    X = rng.normal(size=(600, 120)) + np.array([0.0, 1.5, -1.0])[y, None]
    for unit in (1e-30, 1e25):
        model = MaxMarginClustering(3, n_resamples=0, random_state=0).fit(X * unit)
        assert adjusted_rand_score(y, model.labels_) == 1.0
        assert np.isfinite(model.decision_function(X[:9] * 1e140)).all()


def test_many_rows_are_fitted_in_part_and_the_report_says_so():
    X, y = make_blobs(5000, centers=3, random_state=1)
    model = MaxMarginClustering(3, max_samples=600, random_state=0).fit(X)
    assert adjusted_rand_score(y, model.labels_) > 0.95
    assert (model.predict(X) == model.labels_).all()
    assert "fitted on 600 random rows" in " ".join(model.report_)
    assert model.confidence_.shape == (5000,)


def test_the_number_of_clusters_is_chosen_and_its_certainty_told():
    X, y = make_blobs(80, 4, centers=4, center_box=(-20, 20), random_state=2)
    model = MaxMarginClustering(random_state=0).fit(X)
    assert model.n_clusters_ == 4
    assert adjusted_rand_score(y, model.labels_) == 1.0
    assert model.report_[1].startswith("4 clusters: between them the density")
    assert model.decision_function(X).shape == (80, 4)
    X, _ = make_blobs([60, 60, 60], 2, cluster_std=2.0, center_box=(-6, 6), random_state=1)
    with pytest.warns(UserWarning, match=r"Uncertain: \d.* or \d clusters"):
        MaxMarginClustering(random_state=0, n_resamples=0).fit(X)
    with pytest.warns(UserWarning, match="No clusters that are apart"):
        MaxMarginClustering(random_state=0).fit(np.random.default_rng(0).normal(size=(300, 2)))


# -- how sure it is -------------------------------------------------------------------------------


def test_warnings_of_the_number_are_of_what_can_be_done(recwarn):
    rng = np.random.default_rng(0)
    model = MaxMarginClustering(n_resamples=0, random_state=0)
    links = PairwiseConstraints(120, cannot_link=[(0, 1), (1, 2), (0, 2)])
    model.fit(rng.normal(size=(120, 4)), constraints=links)
    assert model.n_clusters_ == 3 and "Cannot-links need 3 clusters." in model.report_
    model.fit(np.ones((50, 3)))  # no number divides them
    assert not [w for w in recwarn if "n_clusters" in str(w.message)]
    with pytest.warns(UserWarning, match="Uncertain whether there are clusters: all labels are 0"):
        model.fit(rng.normal(size=(12, 2)))
    assert "There are only 12 distinct rows" in " ".join(model.report_)


def test_the_number_does_not_depend_on_the_storage():
    X = np.random.default_rng(0).integers(0, 5, (300, 3)).astype(float)
    dense, csr = (choose_n_clusters(rows, random_state=0) for rows in (X, sparse.csr_matrix(X)))
    assert dense.statement == csr.statement and "No column has more than 20" in csr.statement


def test_rows_between_two_clusters_are_less_sure():
    X, _ = make_blobs(400, centers=[[0, 0], [4, 0]], random_state=0)
    model = MaxMarginClustering(2, random_state=0).fit(X)
    assert ((model.confidence_ > 0) & (model.confidence_ < 1)).all()
    middle = np.abs(X[:, 0] - 2) < 0.7
    assert model.confidence_[middle].mean() < model.confidence_[~middle].mean() - 0.05
    new = model.confidence(np.array([[0.0, 0.0], [2.0, 0.0], [4.0, 0.0]]))
    assert new[1] < new[0] and new[1] < new[2]
    assert model.stability_ > 0.85


def test_stability_tells_clusters_from_a_cloud():
    rng = np.random.default_rng(0)
    cloud = MaxMarginClustering(5, random_state=0).fit(rng.normal(size=(300, 4)))
    blobs = MaxMarginClustering(5, random_state=0).fit(
        make_blobs(300, 4, centers=5, random_state=0)[0]
    )
    assert cloud.stability_ < 0.75 < 0.95 < blobs.stability_
    assert "not stable" in " ".join(cloud.report_)
    assert "are stable" in " ".join(blobs.report_)
    between = (0.64, "not stable"), (0.66, "fairly stable"), (0.84, "fairly stable")
    for level, word in (*between, (0.86, "stable")):
        vars(blobs).pop("report_")
        blobs.stability_ = level
        assert f"The clusters are {word}: " in " ".join(blobs.report_)


def test_one_cluster_is_not_praised():
    model = MaxMarginClustering(1, random_state=0).fit(
        np.random.default_rng(0).normal(size=(90, 2))
    )
    told = " ".join(model.report_)
    assert "One cluster separates nothing" in told
    assert "stable" not in told and "accuracy" not in told


def test_the_runner_up_is_another_answer_of_lower_objective():
    X = np.random.default_rng(1).normal(size=(200, 3))
    model = MaxMarginClustering(4, random_state=0).fit(X)
    (other,) = model.alternatives_
    assert other.agreement == pytest.approx(adjusted_rand_score(model.labels_, other.labels))
    assert other.agreement < 0.95 and 0 < other.shortfall < 0.5
    # Numbered to agree with the answer as far as possible.
    assert (other.labels == model.labels_).mean() > 1 / 4
    # One start has nothing to be compared with but its own runs.
    assert MaxMarginClustering(4, n_resamples=0, random_state=0).fit(X).alternatives_ == []


def test_confidence_needs_resamples():
    X = np.random.default_rng(0).normal(size=(50, 2))
    model = MaxMarginClustering(2, n_resamples=0, random_state=0).fit(X)
    assert not hasattr(model, "confidence_")
    with pytest.raises(ValueError, match="n_resamples > 0"):
        model.confidence(X)


def test_a_saved_model_keeps_report_and_confidence(tmp_path):
    X, _ = make_blobs(90, centers=3, random_state=0)
    model = MaxMarginClustering(3, random_state=0).fit(X)
    save_model(model, tmp_path / "m.skops")
    again = load_model(tmp_path / "m.skops")
    assert again.report_ == model.report_
    assert (again.confidence(X) == model.confidence(X)).all()


# -- time and spread ------------------------------------------------------------------------------


def test_a_time_budget_searches_on_and_never_for_worse(monkeypatch):
    """A clock that ticks whenever it is read, so that nothing depends on the machine."""
    clock = count()
    ticking = SimpleNamespace(monotonic=lambda: next(clock))
    monkeypatch.setattr("maxmargin.least_squares._label_search.time", ticking)
    monkeypatch.setattr("maxmargin.least_squares._fit.time", ticking)
    X = load_digits().data[:400]
    objectives, ticks = [], []
    for budget in (0.5, 20, 60):
        before = next(clock)
        more = {"n_neighbors": 10, "size_priors": (0.75,), "time_budget": budget}
        model = settled(10, more).fit(X)
        objectives.append(model.objective_)
        ticks.append(next(clock) - before)
    assert objectives[0] > objectives[1] >= objectives[2]
    assert budget <= ticks[2] <= budget + 10, "the search did not end with its budget"
    assert ticks[0] < ticks[1] < ticks[2]
    model = MaxMarginClustering(10, time_budget=20, random_state=0).fit(X)
    assert model.cluster_sizes_.sum() == 400


def test_clusters_that_differ_in_spread():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(450, 8)), 3.0 * rng.normal(size=(150, 8))])
    y = np.repeat([0, 1], [450, 150])
    place, spread = (
        MaxMarginClustering(2, spreads=spreads, n_resamples=0, random_state=0).fit(X)
        for spreads in (False, True)
    )
    assert adjusted_rand_score(y, spread.labels_) > 0.8
    assert adjusted_rand_score(y, spread.labels_) > adjusted_rand_score(y, place.labels_) + 0.3
    assert (spread.predict(X) == spread.labels_).all()


def test_em_finds_scales_and_shape():
    """N(mu_h, s_h^2 S) with a long S: the likelihood rises, and the scales come back."""
    rng = np.random.default_rng(0)
    A = np.diag([2.0, 1.0, 0.7])
    X = np.concatenate([rng.normal(size=(800, 3)), 3.0 * rng.normal(size=(800, 3))]) @ A
    labels, scales = spread_clusters(X, (X[:, 0] > 2).astype(int), np.ones(1600), 2)
    assert scales.max() / scales.min() == pytest.approx(9.0, rel=0.25)
    inner = (labels == scales.argmin())[:800].mean()
    assert inner > 0.85


# -- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"n_clusters": 0}, "'n_clusters' parameter"),
        ({"time_budget": 0}, "'time_budget' parameter"),
        ({"size_prior": 0.0}, "'size_prior' parameter"),
        ({"kernel": "gauss"}, "'kernel' parameter"),
        ({"n_resamples": -1}, "'n_resamples' parameter"),
    ],
)
def test_bad_parameters(params, message):
    with pytest.raises(ValueError, match=message):
        MaxMarginClustering(**params).fit(np.eye(6))


def test_bad_constraints_and_labels_with_an_open_number():
    X = np.random.default_rng(0).normal(size=(20, 2))
    with pytest.raises(ValueError, match="constraints must be a PairwiseConstraints"):
        MaxMarginClustering(2).fit(X, constraints=[(0, 1)])
    with pytest.raises(ValueError, match="about 5 rows, but X has 20"):
        MaxMarginClustering(2).fit(X, constraints=PairwiseConstraints(5, must_link=[(0, 1)]))
    with pytest.raises(ValueError, match="partial_labels must be integers"):
        MaxMarginClustering().fit(X, partial_labels=np.full(20, 0.5))
    with pytest.raises(ValueError, match="partial_labels must be integers"):
        MaxMarginClustering().fit(X, partial_labels=np.full(20, 1 + 1j))
    with pytest.raises(ValueError, match="between 0 and n_samples - 1 = 19"):
        MaxMarginClustering().fit(X, partial_labels=np.full(20, 10**6))


def test_known_labels_of_rows_without_weight_count_as_clusters():
    X, y = make_blobs(60, centers=[[0, 0], [9, 0], [0, 9]], random_state=0)
    weights, known = np.where(y == 2, 0.0, 1.0), np.full(60, -1)
    known[[np.argmax(y == c) for c in range(3)]] = range(3)
    model = MaxMarginClustering(n_resamples=0, random_state=0)
    model.fit(X, partial_labels=known, sample_weight=weights)
    assert model.n_clusters_ == 3 and "The known labels have 3 clusters." in model.report_


@pytest.mark.parametrize("exponent", [-170, -20, 20, 170])
def test_spreads_do_not_depend_on_the_unit(exponent):
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(80, 3)), 4.0 * rng.normal(size=(80, 3))])
    start, ones = (X[:, 0] > 1).astype(int), np.ones(160)
    labels, scales = spread_clusters(X, start, ones, 2)
    other_labels, other_scales = spread_clusters(X * 2.0 ** (3 * exponent), start, ones, 2)
    np.testing.assert_array_equal(labels, other_labels)
    np.testing.assert_allclose(scales, other_scales)


@pytest.mark.parametrize("seed", range(3))
def test_a_category_without_clusters_does_not_hide_clear_ones(seed):
    """Its levels are apart, too, whatever the rows are."""
    rng = np.random.default_rng(seed)
    y = rng.integers(2, size=300)
    numbers = StandardScaler().fit_transform(5.0 * y[:, None] + rng.normal(size=(300, 2)))
    X = np.hstack([numbers, np.eye(4)[rng.integers(4, size=300)]])
    assert adjusted_rand_score(y, MaxMarginClustering(2, random_state=0).fit_predict(X)) > 0.95


@pytest.mark.parametrize("n_known", [0, 4])
def test_rows_beyond_the_fit_are_scored_once(monkeypatch, n_known):
    """Labels and outliers come from one search for neighbours."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 3)) + 3 * rng.integers(2, size=(2000, 1))
    known = np.where(np.arange(2000) < n_known, X[:, 0] > 1.5, -1)
    model = MaxMarginClustering(2, max_samples=200, n_init=1, n_resamples=0, random_state=0)
    counts, tile = [], MixedMap.tile
    monkeypatch.setattr(
        MixedMap, "tile", lambda *given: counts.append(len(given[1])) or tile(*given)
    )
    model.fit(X, partial_labels=known)
    maps = len(getattr(model.feature_map_, "maps", [0]))
    assert 1800 * maps <= sum(n for n in counts if n > 200) <= 2000 * maps
    assert (model.labels_ == model.predict(X))[known < 0].all()
    assert model.outlier_score_ == pytest.approx(model.outlier_score(X))
    assert (model.is_outlier_ == model.is_outlier(X)).all()


def test_scores_of_training_rows_are_renumbered_with_the_clusters():
    """Otherwise rows with ties, which are decided again, would mix two numberings."""
    model = Model(None, np.eye(3), np.zeros(3), np.eye(3), scores=np.array([[1.0, 2.0, 3.0]]))
    assert model.renumbered(np.array([2, 0, 1])).scores.tolist() == [[3.0, 1.0, 2.0]]
