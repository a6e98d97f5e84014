"""Explanations of clusters find the columns that make them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.cluster import KMeans
from sklearn.compose import make_column_transformer
from sklearn.datasets import make_circles
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from maxmargin import MaxMarginClustering
from maxmargin.inspection import describe_clusters, explain_clusters

pd = pytest.importorskip("pandas")


def planted(rng, n_columns=10):
    """Rows of three clusters that differ in three of the columns, and those columns."""
    truth = rng.integers(3, size=90)
    columns = rng.choice(n_columns, 3, replace=False)
    X = rng.normal(size=(90, n_columns))
    X[:, columns] += 6 * np.eye(3)[truth]
    return X, columns


def test_planted_columns_come_first_over_fifty_draws():
    hits = 0.0
    for seed in range(50):
        X, columns = planted(np.random.default_rng(seed))
        model = KMeans(3, n_init=2, random_state=0).fit(X)
        table = explain_clusters(model, X, np.arange(10))
        best = table.groupby("feature")[["difference", "importance"]].agg(lambda c: c.abs().max())
        top = best.sort_values(["difference", "importance"]).index[-3:]
        hits += len(set(map(int, top)) & set(columns.tolist())) / 3
        first = table.groupby("cluster").head(1)["feature"].astype(int)
        assert set(first) <= set(columns.tolist())
    assert hits / 50 >= 0.9


def test_the_order_of_the_rows_does_not_matter():
    rng = np.random.default_rng(0)
    X, _ = planted(rng)
    frame = pd.DataFrame(X, columns=list("abcdefghij"))
    model = MaxMarginClustering(3, random_state=0).fit(frame)
    order = rng.permutation(90)
    there = explain_clusters(model, frame)
    pd.testing.assert_frame_equal(there, explain_clusters(model, frame.iloc[order]))
    assert list(there.columns[:6]) == [
        "cluster", "feature", "difference", "importance", "typical", "rest",
    ]  # fmt: skip
    assert len(there) == 30 and there["importance"].between(0, 1).all()


def test_a_difference_is_in_standard_deviations_and_typical_values_are_medians():
    X = np.array([[0.0, 1.0], [2.0, 1.0], [10.0, 1.0], [12.0, 1.0]])
    model = KMeans(2, n_init=1, random_state=0).fit(X)
    table = explain_clusters(model, X, labels=[0, 0, 1, 1]).set_index(["cluster", "feature"])
    row = table.loc[0, "column 0"]
    assert (row["difference"], row["typical"], row["rest"]) == (-10.0, 1.0, 11.0)
    assert table.loc[(1, "column 1"), "difference"] == 0.0
    assert table.loc[0, "column 1"]["importance"] == 0.0 < row["importance"]


def test_a_few_huge_values_hide_no_difference():
    rng = np.random.default_rng(0)
    rich = np.arange(300) < 100
    income = rng.normal(np.where(rich, 59_000, 24_000), 5_000)
    usual = _difference(income, rich)
    income[[3, 40, 77, 250]] = 950_000, 2e6, 1e6, 870_000
    found = _difference(income, rich)
    assert found == pytest.approx(_difference(np.minimum(income, 150_000), rich), rel=0.3)
    assert found > 2 and usual > 5


def _difference(column, own):
    class Model:
        def predict(self, rows):
            return np.zeros(len(rows), dtype=int)

    table = explain_clusters(Model(), column[:, None], labels=(~own).astype(int))
    return table.set_index("cluster").loc[0, "difference"]


@pytest.mark.parametrize("share", [0.004, 0.1, 0.4])
def test_differences_without_outliers_are_those_of_means(share):
    rng = np.random.default_rng(0)
    own = np.arange(500) < 500 * share
    for column in (
        rng.normal(3 * own),
        (rng.random(500) < np.where(own, 0.9, 0.01)).astype(float),  # 0/1
        np.where(own, rng.uniform(1, 2, 500), 0.0),  # sparse
        np.where(own, 1.0, 0.0),
    ):
        within = (own.sum() * column[own].var() + (~own).sum() * column[~own].var()) / 500
        plain = column[own].mean() - column[~own].mean()
        expected = plain / max(np.sqrt(within), abs(plain) / 10)
        assert _difference(column, own) == pytest.approx(expected)


def test_columns_that_decide_without_a_difference_are_named():
    X, _ = make_circles(200, noise=0.03, factor=0.3, random_state=0)
    model = MaxMarginClustering(2, random_state=0).fit(X)
    X = np.column_stack([X, np.zeros(200)])

    class Plane:
        def predict(self, rows):
            return model.predict(rows[:, :2])

    table = explain_clusters(Plane(), X, ["x", "y", "nothing"])
    assert set(table.groupby("cluster").head(2)["feature"]) == {"x", "y"}
    for sentence in describe_clusters(Plane(), X, ["x", "y", "nothing"]):
        assert "matter, though the average differs little" in sentence and "nothing" not in sentence


def test_a_cluster_in_the_middle_is_decided_by_its_column():
    place = np.repeat([-10.0, 0.0, 10.0], 40)
    X = np.random.default_rng(0).normal(size=(120, 2)) + np.c_[place, place == 0]

    class Middle:
        def predict(self, rows):
            return (np.abs(rows[:, 0]) < 5).astype(int)

    told = describe_clusters(Middle(), X, ["place", "height"])[1]
    assert (
        told == "cluster 1: high height; place matters, though the average differs little; 40 rows"
    )


class KMeansOfAge:
    def predict(self, frame):
        return (frame["age"] > 45).astype(int).to_numpy()


def people():
    rng = np.random.default_rng(1)
    old = np.arange(80) < 50
    words = np.where(
        old, "grand piano music lessons every week", "engine oil wheel repair shop manual"
    )
    return pd.DataFrame({
        "age": np.where(old, 70.0, 20.0) + rng.normal(size=80),
        "town": np.where(old, "Oslo", "Rome"),
        "hobby": [" ".join(rng.permutation(text.split())) for text in words.tolist()],
        "noise": rng.normal(size=80),
        "since": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(900, size=80), unit="D"),
    })  # fmt: skip


def test_a_pipeline_is_explained_by_the_columns_of_the_table():
    frame = people()
    frame.loc[3, "noise"] = np.nan
    encoded = make_column_transformer(
        (StandardScaler(), ["age"]), (OneHotEncoder(), ["town"]), (TfidfVectorizer(), "hobby")
    )
    model = make_pipeline(encoded, KMeans(2, n_init=1, random_state=0)).fit(frame)
    table = explain_clusters(model, frame)
    first = int(model.predict(frame)[0])
    about = table[table["cluster"] == first].set_index("feature")
    # Columns that the pipeline leaves out are left out.
    assert about["kind"].to_dict() == {"age": "number", "town": "category", "hobby": "text"}
    assert about.loc["age", "typical"] > 60 > 30 > about.loc["age", "rest"]
    assert about.loc["town", ["typical", "rest"]].tolist() == ["Oslo (100%)", "Oslo (0%)"]
    assert about.loc["hobby", "typical"] == "grand, lessons, music, piano, week"
    assert about.loc["hobby", "rest"] == "wheel, shop, repair, oil, manual"
    told = describe_clusters(model, frame)[first]
    assert "high age" in told and "town Oslo (100%)" in told and told.endswith("; 50 rows")
    assert 'hobby "grand lessons music"' in told
    table = explain_clusters(KMeansOfAge(), frame).set_index(["cluster", "feature"])
    assert table.loc[(1, "noise"), "importance"] == 0.0 < table.loc[(1, "age"), "importance"]
    assert table.loc[(0, "since"), "typical"].startswith("202")


def test_a_table_for_a_step_of_a_pipeline_is_refused_with_the_cure():
    frame = people()[["age", "town"]]
    encoded = make_column_transformer((StandardScaler(), ["age"]), (OneHotEncoder(), ["town"]))
    model = make_pipeline(encoded, KMeans(2, n_init=1, random_state=0)).fit(frame)
    for labels in (None, model[-1].labels_):
        with pytest.raises(ValueError, match="pass the pipeline itself instead of this step"):
            explain_clusters(model[-1], frame, labels=labels)
    with pytest.raises(ValueError, match=r"no column 'town'\. Did you mean 'Town'") as error:
        explain_clusters(model, frame.rename(columns={"town": "Town"}))
    assert "pipeline itself" not in str(error.value)


def test_wide_and_sparse_rows():
    X = sparse.random(90, 300, density=0.05, random_state=0, format="lil")
    X[:45, :3], X[45:, 3:6] = 2.0, 2.0
    X = X.tocsr()
    model = KMeans(2, n_init=3, random_state=0).fit(X)
    table = explain_clusters(model, X)
    top = table.groupby("cluster").head(6)["feature"]
    assert set(top) == {f"column {j}" for j in range(6)}
    found = table["importance"].notna().groupby(table["feature"]).all()
    assert 6 <= found.sum() <= 20
    same = explain_clusters(model, X.toarray())
    np.testing.assert_allclose(same["difference"].abs().max(), table["difference"].abs().max())


def test_one_cluster_and_wrong_arguments():
    X = np.arange(12.0).reshape(6, 2)
    model = KMeans(1, n_init=1).fit(X)
    table = explain_clusters(model, X)
    assert (table["difference"] == 0).all() and table["rest"].isna().all()
    assert describe_clusters(model, X) == ["cluster 0: no column is high or low; 6 rows"]
    with pytest.raises(ValueError, match="feature_names has 1 names; X has 2 columns"):
        explain_clusters(model, X, ["a"])
    with pytest.raises(ValueError, match="one value for each of the 6 rows"):
        explain_clusters(model, X, labels=[0, 1])
    with pytest.raises(ValueError, match="rows and columns"):
        explain_clusters(model, [1.0, 2.0])
