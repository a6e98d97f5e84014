"""Reports: they agree with the model, hold everything themselves, and open without a complaint."""

from __future__ import annotations

import json
import re
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_digits, load_wine, make_blobs
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import maxmargin
from maxmargin import AlternatingMarginClustering, MaxMarginClustering, report
from maxmargin._report import _view
from maxmargin._report._rows import Rows
from maxmargin.persistence import save_model

from .._browser import Browser, needs_browser

HOSTILE = '</script><script>window.bad = 1</script><img src=x onerror="window.bad=1">'


@pytest.fixture(scope="module")
def wine():
    frame = load_wine(as_frame=True).data
    return MaxMarginClustering(3, n_resamples=2, random_state=0).fit(frame), frame


@pytest.fixture(scope="module")
def mixed():
    """A pipeline over numbers with gaps and a column of names."""
    rng = np.random.default_rng(0)
    size = np.r_[rng.normal(0, 1, 60), rng.normal(7, 1, 40)]
    frame = pd.DataFrame({"size": size, "kind": ["<b>a</b>"] * 60 + ["b"] * 40})
    frame["weight"] = np.where(rng.random(100) < 0.1, np.nan, size + rng.normal(0, 1, 100))
    prepared = make_column_transformer(
        (make_pipeline(SimpleImputer(), StandardScaler()), ["size", "weight"]),
        (OneHotEncoder(), ["kind"]),
    )
    model = make_pipeline(prepared, MaxMarginClustering(2, n_resamples=2, random_state=0))
    return model.fit(frame), frame


def agrees(model, X, page):
    points = page.view["points"]
    predicted = model.predict(X)
    np.testing.assert_array_equal(points["label"], predicted[points["row"]])
    sizes = [cluster["size"] for cluster in page.view["clusters"]]
    assert sizes == np.bincount(predicted, minlength=len(sizes)).tolist()
    for c, cluster in enumerate(page.view["clusters"]):
        assert (predicted[cluster["certain"] + cluster["unsure"]] == c).all()


def test_a_report_agrees_with_predict(wine, mixed):
    for model, X in (wine, mixed):
        page = report(model, X)
        assert page.view["points"]["row"] == list(range(len(X)))
        agrees(model, X, page)
    plain = AlternatingMarginClustering(2, random_state=0).fit(wine[1].to_numpy())
    agrees(plain, wine[1].to_numpy(), report(plain, wine[1].to_numpy()))


def test_maps_and_stability_are_explained_and_one_cluster_is_not_praised(wine):
    view = report(*wine).view
    columns, scores = view["points"]["maps"]
    assert columns["name"] == "principal components"  # the model's own scores flatter it
    assert "corner" in scores["told"] and "farther apart than they are" in scores["told"]
    assert view["stability"] == {"value": wine[0].stability_, "word": "stable"}
    one = MaxMarginClustering(1, n_resamples=2, random_state=0).fit(wine[1])
    view = report(one, wine[1]).view
    assert view["stability"] is None and view["clusters"][0]["level"] is None
    assert [plane["name"] for plane in view["points"]["maps"]] == ["principal components"]
    assert view["clusters"][0]["features"] == []
    assert view["clusters"][0]["certain"] == view["clusters"][0]["unsure"] == []


def test_whole_numbers_of_seven_digits_are_shown_in_full():
    assert _view._told(110172.0) == "110172" and _view._told(-1234567.4) == "-1234567"
    assert _view._told(1.5) == "1.5" and _view._told(0.00018532) == "0.00019"
    assert Rows(np.full((2, 1), 110172.0)).cells([0], [0]) == [[110172]]


def test_cards_are_ordered_by_confidence_and_leave_out_columns_that_tell_nothing(wine):
    X = wine[1].iloc[:, [6, 9, 12]].assign(nothing=1.0)
    model = MaxMarginClustering(3, n_resamples=2, random_state=0).fit(X)
    level = model.confidence(X)
    for c, cluster in enumerate(report(model, X).view["clusters"]):
        mine = np.sort(level[model.labels_ == c])
        np.testing.assert_array_equal(level[cluster["unsure"]], mine[: len(cluster["unsure"])])
        np.testing.assert_array_equal(level[cluster["certain"]], mine[:-7:-1])
        told = [(abs(f["difference"]), f["importance"]) for f in cluster["features"]]
        assert told and all(apart >= 0.5 or share >= 0.01 for apart, share in told)


def test_the_number_of_clusters_is_said_to_be_given_if_it_was(wine):
    page = report(*wine)
    number = page.view["number"]
    assert number["statement"].startswith("You gave 3. ")
    assert [round(1000 * sum(line)) for line in page.view["confusion"]] == [1000] * 3
    assert np.array_equal(np.round(page.view["confusion"], 3), page.view["confusion"])
    free = MaxMarginClustering(n_resamples=0, random_state=0).fit(wine[1])
    assert "You gave" not in report(free, wine[1]).view["number"]["statement"]


def test_an_uncertain_number_is_preferred_if_another_was_given():
    X = make_blobs([400, 100, 50, 50], 4, cluster_std=1.8, random_state=0)[0]
    with pytest.warns(UserWarning, match="Uncertain: 2 or 4 clusters"):
        MaxMarginClustering(n_resamples=0, random_state=0).fit(X)
    told = report(MaxMarginClustering(3, n_resamples=0).fit(X), X).view["number"]["statement"]
    assert " is preferred: one more" in told and "chosen" not in told


def test_one_cluster_has_no_height_because_no_density_falls_within_it(wine):
    number = report(*wine).view["number"]
    assert number["k"][0] == 1 and number["height"][0] is None and None not in number["height"][1:]
    assert number["unit"] == "standard errors"


def test_cards_have_the_sentences_of_describe_clusters(wine, mixed):
    for model, X in (wine, mixed):
        told = [
            f"cluster {c}: {cluster['description']}; {cluster['size']} rows"
            for c, cluster in enumerate(report(model, X).view["clusters"])
        ]
        assert told == maxmargin.describe_clusters(model, X)


def test_the_objective_is_said_to_rise_or_to_be_a_bound_if_so():
    def told(model):
        return _view._history(SimpleNamespace(objective_=2.0, stop_reason_="converged", **model))

    falling, rising = told({"history_": [3.0, 2.0]}), told({"history_": [3.0, 2.0, 2.5]})
    assert "lower is better" in falling["title"] and "can rise" not in falling["told"]
    assert "Final objective: 2 (converged). The curve can rise" in rising["told"]
    bound = told({"history_": [1.0, 2.0], "lower_bound_": 2.0})
    assert bound["title"].startswith("Lower bound") and "can rise" not in bound["told"]
    assert told({"history_": [3.0, 3.0]}) is None
    assert told({"history_": [3.0, 2.0], "split_by": "size"}) is None


def test_a_report_of_many_rows_shows_some_and_counts_all(monkeypatch, wine):
    model, X = wine
    many = pd.concat([X] * 3, ignore_index=True)
    monkeypatch.setattr(_view, "SHOWN_ROWS", 50)
    page = report(model, many)
    assert 50 <= len(page.view["points"]["row"]) < 120
    agrees(model, many, page)


def test_cells_and_pictures_stay_within_their_bytes(monkeypatch):
    X = np.tile(np.arange(16.0), (300, 1))
    monkeypatch.setattr(_view, "PICTURE_BYTES", 10_000)
    monkeypatch.setattr(_view, "CELL_BYTES", 10_000)
    rows, order = Rows(X, images=[f"{i}.png" for i in range(300)]), list(range(300))
    assert 10 < len(_view.row_content(rows, [0, 1], order)["cells"]) < 1000
    found = _view.row_content(Rows(X, images=(4, 4)), [], order)
    assert 10 < len(found["pictures"]) < 100 and not found["cells"]


def test_rows_of_words_are_told_by_their_largest_values():
    X = sparse.csr_matrix(np.array([[0, 2.0, 5.0], [1.0, 0, 0]]))
    assert Rows(X, ["a", "b", "c"]).cells([0], []) == [["c 5, b 2"]]


def test_pictures_are_found_and_bad_ones_are_refused(tmp_path):
    digits = load_digits(as_frame=True).data[:20]
    assert Rows(digits).picture(3).startswith("data:image/png;base64,")
    from PIL import Image

    path = str(tmp_path / "a.png")
    Image.fromarray(np.zeros((300, 200, 3), np.uint8)).save(path)
    rows = Rows(pd.DataFrame({"file": [path, "missing.png"], "x": [1.0, 2.0]}))
    assert rows.picture(0).startswith("data:image/jpeg") and rows.picture(1) is None
    with pytest.raises(ValueError, match="images=\\(8, 9\\) does not fit rows of 64 columns"):
        report(MaxMarginClustering(2).fit(digits), digits, images=(8, 9))
    with pytest.raises(ValueError, match="images has 2 pictures; X has 20 rows"):
        Rows(digits, images=["a.png", "b.png"])
    with pytest.raises(ValueError, match="feature_names has 1 names; X has 64 columns"):
        Rows(digits, ["a"])


def test_a_page_holds_everything_itself_and_escapes_cells(mixed):
    model, X = mixed
    X = X.assign(kind=["b" if k == "b" else "<b>a</b>" for k in X["kind"]])
    text = report(model, X, title=HOSTILE).html
    assert not re.search(r"(?:src|href)=[\"']?(?:https?:)?//", text)
    assert HOSTILE not in text and "<b>a" not in text
    view = json.loads(re.search(r'id="view">(.*?)</script>', text, re.S)[1])
    assert view["title"] == HOSTILE and view["cells"]["0"][1] == "<b>a</b>"
    assert "<noscript><p>This page is drawn by its own script" in text
    shown = report(model, X)._repr_html_()
    assert shown.startswith("<iframe sandbox=") and "<script" not in shown


def test_the_command_writes_a_page(tmp_path, monkeypatch, capsys, wine):
    from maxmargin.cli.main import main

    monkeypatch.chdir(tmp_path)
    save_model(wine[0], "m.skops")
    wine[1].to_csv("wine.csv", index=False)
    assert main(["report", "m.skops", "wine.csv", "--out", "r.html", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["cluster_sizes"] == wine[0].cluster_sizes_.tolist()
    assert (tmp_path / "r.html").stat().st_size == told["bytes"] < 10_000_000
    for out in ("r.pdf", "no-folder/r.html"):  # before the model is loaded
        assert main(["report", "no-model.skops", "wine.csv", "--out", out]) == 2
    assert main(["report", "m.skops", "wine.csv", "--image-shape", "3by3"]) == 2


def test_unfitted_models_are_refused():
    with pytest.raises(ValueError, match="not fitted"):
        maxmargin.report(MaxMarginClustering(2), np.eye(4))


@needs_browser
def test_reports_open_without_errors_or_requests(tmp_path, mixed, wine):
    report(*mixed, title=HOSTILE).save(tmp_path / "mixed.html")
    report(*wine).save(tmp_path / "wine.html")
    digits = load_digits(n_class=3, as_frame=True).data[:60]
    model = MaxMarginClustering(3, n_resamples=2, random_state=0).fit(digits)
    report(model, digits).save(tmp_path / "digits.html")
    words = sparse.csr_matrix(np.random.default_rng(0).poisson(0.05, (80, 60)).astype(float))
    model = MaxMarginClustering(2, n_resamples=2, random_state=0).fit(words)
    report(model, words, feature_names=[f"<i>{j}" for j in range(60)]).save(tmp_path / "text.html")
    with Browser() as browser:
        for page in sorted(tmp_path.glob("*.html")):
            browser.requests.clear()
            browser.open(page.as_uri())
            fetched = [url for url in browser.requests if not url.startswith("data:")]
            assert fetched == [page.as_uri()]
            assert browser.run(
                "window.bad === undefined && !document.querySelector('td b, th b, td > i')"
            )
            assert browser.run("document.documentElement.scrollWidth - innerWidth") <= 0
            wide = "[...document.querySelectorAll('.scroll, .card')]"
            assert not browser.run(f"{wide}.some((e) => e.scrollWidth > e.clientWidth)")
            assert browser.run("[...document.images].every(i => i.complete && i.naturalWidth > 0)")
            align = "[...e.children].map((cell) => getComputedStyle(cell).textAlign).join()"
            lines = "[...document.querySelectorAll('.features tr')]"
            assert browser.run(f"new Set({lines}.map((e) => {align})).size") == 1
            if page.stem == "wine":  # in the chart and in its legend
                assert browser.run("document.querySelectorAll('svg .used').length") == 2
            browser.click(".chip")  # shows the row
            assert browser.run("document.querySelector('.row-panel h3') !== null")
        assert browser.console == []
