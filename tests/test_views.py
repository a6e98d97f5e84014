"""Views: groups of columns, each with a similarity of its own."""

import numpy as np
import pytest
from scipy import sparse

from maxmargin import MaxMarginClustering
from maxmargin.least_squares._graph import checked_views, view_axes, view_weights
from maxmargin.metrics import adjusted_rand_score


@pytest.fixture(scope="module")
def rows():
    """Three clusters; "good" has them all, "part" one of them, "noise" none in many columns."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 240)
    good = rng.normal(size=(240, 3)) + 4.0 * np.eye(3)[y]
    part = rng.normal(size=(240, 2)) + 3.0 * (y == 0)[:, None]
    noise = 300.0 * rng.normal(size=(240, 40))
    return np.hstack([good, 1e-3 * part, noise]), y


VIEWS = {"good": [0, 1, 2], "part": [3, 4], "noise": list(range(5, 45))}


def views_of(X, k=3, **params):
    return MaxMarginClustering(k, random_state=0, n_resamples=0, **params).fit(X)


def test_views_that_do_not_have_the_clusters_lose_their_weight(rows):
    X, y = rows
    model = views_of(X, views=VIEWS)
    assert adjusted_rand_score(y, model.labels_) > 0.9
    assert adjusted_rand_score(y, views_of(X).labels_) < 0.5
    weights = model.view_weights_
    assert weights["good"] > weights["part"] > weights["noise"]
    assert weights["noise"] < 0.05
    assert sum(weights.values()) == pytest.approx(1.0)
    told = f"Weights of the views: good {weights['good']:.2f}, part {weights['part']:.2f}"
    assert any(told in sentence for sentence in model.report_)
    np.testing.assert_array_equal(model.predict(X), model.labels_)


def test_names_indices_and_units_of_a_view_do_not_matter(rows):
    pd = pytest.importorskip("pandas")
    X, _ = rows
    first = views_of(X[:, :5], views={"good": [0, 1, 2], "part": [3, 4]})
    frame = pd.DataFrame(X[:, :5], columns=list("abcde"))
    named = views_of(frame, views={"good": ["a", "b", "c"], "part": ["d", "e"]})
    np.testing.assert_array_equal(named.labels_, first.labels_)
    np.testing.assert_array_equal(named.predict(frame), named.labels_)
    units = X[:, :5] * np.array([1, 1, 1, 2.0**20, 2.0**20])
    other = views_of(units, views={"good": [0, 1, 2], "part": [3, 4]})
    assert other.view_weights_ == pytest.approx(first.view_weights_, abs=1e-6)
    np.testing.assert_array_equal(other.labels_, first.labels_)


def test_every_view_has_unit_variance(rows):
    X, _ = rows
    axes = view_axes(X, np.ones(240), VIEWS)
    for own in axes:
        assert (X @ own).var(axis=0).sum() == pytest.approx(1.0)


def test_weights_are_proportional_to_fits_and_equal_without_any():
    assert view_weights(np.array([0.6, 0.2, 0.0])) == pytest.approx([0.75, 0.25, 0.0])
    assert view_weights(np.zeros(2)) == pytest.approx([0.5, 0.5])


def test_the_number_of_clusters_is_that_of_the_views(rows):
    model = views_of(rows[0], k=None, views={"good": [0, 1, 2]})
    assert model.n_clusters_ == 3
    assert model.view_weights_ == {"good": 1.0}


@pytest.mark.parametrize(
    ("views", "message"),
    [
        ({}, "views must be a dict"),
        ({"a": []}, "at least one column"),
        ({"a": [1, 1]}, "each once"),
        ({"a": [3]}, "integers from 0 to 2"),
        ({"a": [-1]}, "contains -1"),
        ({"a": [True]}, "contains True"),
        ({"a": ["x"]}, "contains 'x'"),
    ],
)
def test_wrong_views_are_named(views, message):
    with pytest.raises(ValueError, match=message):
        checked_views(views, 3, None)


def test_views_need_dense_rows_and_a_gaussian_kernel(rows):
    X = rows[0][:60, :5]
    with pytest.raises(ValueError, match="sparse X"):
        views_of(sparse.csr_matrix(X), views={"a": [0]})
    with pytest.raises(ValueError, match="kernel='cosine'"):
        views_of(X, views={"a": [0]}, kernel="cosine")
    with pytest.raises(ValueError, match="known labels of every cluster"):
        MaxMarginClustering(2, views={"a": [0]}).fit(X, partial_labels=[0, 1] + [-1] * 58)


def test_the_number_of_clusters_is_that_of_the_scaled_views():
    """Columns of noise hardly count beside one that is wider, also in the choice of the number."""
    rng, y = np.random.default_rng(0), np.repeat([-1.0, 1.0], 100)
    X = rng.normal(scale=0.11, size=(200, 81))
    X[:, [0, 80]] = 2.0 * X[:, [0, 80]] + y[:, None]
    views = {"wide": range(80), "single": [80]}
    model = MaxMarginClustering(views=views, n_resamples=0, random_state=0).fit(X)
    assert model.n_clusters_ == 2
