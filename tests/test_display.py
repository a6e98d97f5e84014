"""Pictures show what the model says: points, regions, margins, exemplars."""

from __future__ import annotations

import sys
import warnings

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy import sparse
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from maxmargin import (
    AlternatingMarginClustering,
    BisectingMarginClustering,
    CuttingPlaneMarginClustering,
    LeastSquaresMarginClustering,
    MaxMarginClustering,
    MultipleKernelMarginClustering,
    PairwiseMarginClustering,
    SemidefiniteMarginClustering,
    display,
    table_pipeline,
)
from maxmargin.display import plot_clusters, plot_comparison, plot_history, row_margins

matplotlib.use("Agg")
RNG = np.random.default_rng(0)
CENTRES = np.array([[0, 0], [6, 0], [0, 6]])
PLANE = np.concatenate([RNG.normal(size=(30 - 5 * j, 2)) + CENTRES[j] for j in range(3)])
TWO = PLANE[:55]
WIDE = np.concatenate([RNG.normal(size=(30, 5)), RNG.normal(size=(20, 5)) + 5])


@pytest.fixture
def ax():
    return Figure().subplots()


def points_of(ax):
    """Drawn points by legend entry."""
    return {c.get_label(): c.get_offsets().data for c in ax.collections if c.get_offsets().size > 2}


def legend_of(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def test_row_margins_against_a_sort():
    scores = RNG.normal(size=(50, 4))
    ordered = np.sort(scores, axis=1)
    np.testing.assert_array_equal(row_margins(scores), (ordered[:, -1] - ordered[:, -2]) / 2)
    f = scores[:, :1]
    np.testing.assert_array_equal(row_margins(np.hstack([-f, f])), abs(f[:, 0]))
    np.testing.assert_array_equal(row_margins(f), f[:, 0])


@pytest.mark.parametrize("n_clusters", [2, 3])
def test_the_plane_is_drawn_as_it_is(ax, n_clusters):
    X = TWO if n_clusters == 2 else PLANE
    model = BisectingMarginClustering(n_clusters).fit(X)
    assert plot_clusters(model, X, ax=ax) is ax
    sizes = np.bincount(model.labels_)
    names = [f"cluster {j}: {size} rows" for j, size in enumerate(sizes)]
    assert legend_of(ax) == [*names, "most certain"]
    drawn = points_of(ax)
    for j, name in enumerate(names):
        np.testing.assert_array_equal(drawn[name], X[model.labels_ == j])
    np.testing.assert_array_equal(drawn["most certain"], X[model.exemplar_indices_])


def test_the_boundary_is_where_the_scores_are_equal(ax):
    two_way = AlternatingMarginClustering(multi_class="recursive", kernel="linear", random_state=0)
    model = two_way.fit(TWO)
    plot_clusters(model, TWO, ax=ax)
    levels = {}
    for lines in ax.collections:
        if hasattr(lines, "levels") and not lines.filled:
            for level, path in zip(lines.levels, lines.get_paths()):
                levels[float(level)] = model.decision_function(path.vertices)[:, 0]
    assert set(levels) == {-1.0, 0.0, 1.0}
    for level, scores in levels.items():
        np.testing.assert_allclose(scores, level, atol=1e-6)


TWO_WAY = [
    AlternatingMarginClustering(random_state=0),
    BisectingMarginClustering(n_clusters=2, random_state=0),
    CuttingPlaneMarginClustering(2, random_state=0),
    LeastSquaresMarginClustering(2, random_state=0),
    MaxMarginClustering(2, random_state=0),
    MultipleKernelMarginClustering(2, kernels=["linear", "rbf"], random_state=0),
    PairwiseMarginClustering(2, alpha=0.01, random_state=0),
    SemidefiniteMarginClustering(2, random_state=0),
]
every = pytest.mark.parametrize("estimator", TWO_WAY, ids=lambda model: type(model).__name__)


@every
@pytest.mark.filterwarnings("ignore:No constraints")
def test_the_decision_changes_at_the_boundary_in_the_plane(ax, estimator):
    X = TWO / [3, 1]
    model = clone(estimator).fit(X)
    plot_clusters(model, X, ax=ax)
    solid = [
        path.vertices
        for lines in ax.collections
        if hasattr(lines, "levels") and not lines.filled and lines.levels.tolist() == [0]
        for path in lines.get_paths()
    ]
    at = np.concatenate(solid)
    step = X.max(axis=0) - X.min(axis=0)
    near = np.stack([model.predict(at + step / 100 * [a, b]) for a in (-1, 1) for b in (-1, 0, 1)])
    assert len(at) and (near.min(axis=0) == 0).all() and (near.max(axis=0) == 1).all()


@every
@pytest.mark.filterwarnings("ignore:No constraints")
def test_the_decision_changes_at_the_boundary_among_many_columns(ax, estimator):
    X = WIDE - WIDE.mean(axis=0)
    model = clone(estimator).fit(X)
    predicted = model.predict(X)
    plot_clusters(model, X, predicted, ax=ax)
    low, boundary, high = sorted(line.get_ydata()[0] for line in ax.lines)
    drawn = points_of(ax)
    below, above = (drawn[name][:, 1] for name in legend_of(ax)[:2])
    assert below.max() < boundary < above.min()
    # The rows that are fitted best lie about on their margins.
    assert low == -high and abs(np.concatenate([above, -below]).max() / high - 1) < 0.5
    # Halfway between two rows of different clusters the score decides in the same way.
    pairs = X[predicted == 0][:10] + np.linspace(0, 1, 21)[:, None, None] * (
        X[predicted == 1][:10] - X[predicted == 0][:10]
    )
    line = pairs.reshape(-1, X.shape[1])
    margins = display._project(line, model.decision_function(line))[0][:, 1]
    np.testing.assert_array_equal(margins > boundary, model.predict(line) == 1)


def test_many_columns_are_drawn_by_margin(ax):
    model = AlternatingMarginClustering(multi_class="recursive", random_state=0).fit(WIDE)
    plot_clusters(model, WIDE, ax=ax)
    drawn = points_of(ax)
    scores = model.decision_function(WIDE)[:, 1]
    for j, name in enumerate(legend_of(ax)[:2]):
        np.testing.assert_allclose(drawn[name][:, 1], scores[model.labels_ == j])
    assert ax.get_ylabel() == "margin of cluster 1"
    assert sorted(line.get_ydata()[0] for line in ax.lines) == [-1, 0, 1]


def test_dense_and_sparse_rows_give_the_same_picture():
    three = np.concatenate([WIDE, RNG.normal(size=(15, 5)) - 5])
    pictures = []
    for X in (three, sparse.csr_matrix(three)):
        model = BisectingMarginClustering(3).fit(X)
        ax = plot_clusters(model, X, ax=Figure().subplots())
        assert ax.get_ylabel() == "second principal component"
        pictures.append(np.concatenate(list(points_of(ax).values())))
    np.testing.assert_allclose(*np.abs(pictures), atol=1e-6)


def test_one_column_and_given_labels(ax):
    X = np.concatenate([RNG.normal(size=20), RNG.normal(size=20) + 9])[:, None]
    model = AlternatingMarginClustering(random_state=0).fit(X)
    labels = np.arange(40) % 4
    plot_clusters(model, X, labels, ax=ax)
    assert legend_of(ax)[:4] == [f"cluster {j}: 10 rows" for j in range(4)]
    np.testing.assert_array_equal(points_of(ax)["cluster 1: 10 rows"][:, 0], X[labels == 1, 0])


def test_names_of_columns_and_pipelines(ax):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(TWO, columns=["width", "height"])
    model = make_pipeline(StandardScaler(), AlternatingMarginClustering(random_state=0)).fit(frame)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plot_clusters(model, frame, ax=ax)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("width", "height")
    np.testing.assert_array_equal(points_of(ax)["most certain"], TWO[model[-1].exemplar_indices_])


def test_many_rows_are_thinned_but_counted(ax, monkeypatch):
    monkeypatch.setattr(display, "MAX_POINTS", 10)
    model = AlternatingMarginClustering(random_state=0).fit(TWO)
    plot_clusters(model, TWO, ax=ax)
    drawn = points_of(ax)
    names = legend_of(ax)[:2]
    assert sum(len(drawn[name]) for name in names) == 10
    assert names == [f"cluster {j}: {size} rows" for j, size in enumerate(model.cluster_sizes_)]


def test_history_is_drawn_as_recorded(ax):
    model = AlternatingMarginClustering(random_state=0).fit(WIDE)
    plot_history(model, ax=ax)
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), model.history_)
    assert model.stop_reason_ in ax.get_title()


def test_comparison_names_the_farthest(ax):
    plot_comparison([0.3] + [0.1] * 9, [0.1] * 9 + [0.4], list("abcdefghij"), ax=ax)
    named = {text.get_text(): text.xy for text in ax.texts}
    assert named["a"] == (30, 10) and named["j"] == (10, 40)
    assert ax.get_xlim() == ax.get_ylim()


def test_missing_matplotlib_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.delitem(sys.modules, "matplotlib.pyplot", raising=False)
    with pytest.raises(ImportError, match=r'pip install "maxmargin\[plot\]"'):
        plot_history(None)


def test_some_of_the_rows_and_lists_of_rows(ax):
    model = AlternatingMarginClustering(random_state=0).fit(TWO)
    plot_clusters(model, TWO[:20], ax=ax)  # fewer rows than the exemplars' numbers
    assert len(points_of(ax)) == len(np.unique(model.labels_[:20]))
    plot_clusters(model, TWO.tolist(), ax=Figure().subplots())
    with pytest.raises(ValueError, match="X must have rows and columns"):
        plot_clusters(model, [1.0, 2.0])


def test_the_plane_of_a_model_is_that_of_its_own_scaled_rows(ax):
    wide = WIDE * [1, 1, 1, 1, 1e4]
    model = MaxMarginClustering(2, n_resamples=0, random_state=0).fit(wide)
    plot_clusters(model, wide, ax=ax)
    x = np.concatenate(list(points_of(ax).values()))[:, 0]
    assert x.max() - x.min() < 100  # not that of the column of large numbers


def test_tables_are_drawn_as_the_pipeline_prepares_them(ax):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": WIDE[:, 0], "town": np.where(np.arange(50) < 30, "x", "y")})
    frame.loc[3, "a"] = np.nan
    model = table_pipeline(frame, AlternatingMarginClustering(random_state=0)).fit(frame)
    assert plot_clusters(model, frame, ax=ax).get_ylabel() == "margin of cluster 1"


@pytest.mark.parametrize("columns", [2, 4])
def test_a_few_rows_far_away_do_not_squeeze_the_picture(ax, columns):
    X = np.tile(np.repeat(PLANE, 3, axis=0), (1, columns // 2))
    X += 0.1 * RNG.normal(size=X.shape)
    usual = np.ptp(X[:, 0])
    X[[5, 50, 120], 0] = 900, 800, -700
    model = AlternatingMarginClustering(3, random_state=0)
    model.fit(X[X[:, 0] ** 2 < 1e4])
    plot_clusters(model, X, ax=ax)
    assert "3 rows outside" in legend_of(ax)
    assert np.ptp(ax.get_xlim()) < 2 * usual
    away = points_of(ax)["3 rows outside"]
    assert len(away) == 3 and set(away[:, 0]) == set(ax.get_xlim())
    inside = sum(len(part) for name, part in points_of(ax).items() if "cluster" in name)
    assert inside == len(X) - 3
    assert f"cluster 0: {(model.predict(X) == 0).sum()} rows" in legend_of(ax)


def test_a_small_cluster_far_away_is_in_the_picture(ax):
    X = np.concatenate([np.tile(TWO, (4, 1)), RNG.normal(size=(5, 2)) + 500])
    model = AlternatingMarginClustering(3, balance=0, random_state=0).fit(X)
    model.decision_function = lambda rows: np.eye(3)[(rows[:, 0] > 3) * 1 + (rows[:, 0] > 90)]
    plot_clusters(model, X, ax=ax)
    assert ax.get_xlim()[1] > 490 and not any("outside" in name for name in legend_of(ax))


def test_many_clusters_have_many_colours():
    colours = [matplotlib.colors.to_hex(display._colour(j)) for j in range(40)]
    assert len(set(colours)) == 40
