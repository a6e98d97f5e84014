"""Saved models come back equal; files that are something else are refused."""

from __future__ import annotations

import os
import warnings

import joblib
import numpy as np
import pytest
import skops.io
from sklearn.cluster import KMeans
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from maxmargin import AlternatingMarginClustering, BisectingMarginClustering, persistence
from maxmargin.io import DataError
from maxmargin.persistence import load_model, save_model

RNG = np.random.default_rng(0)
X = np.concatenate([RNG.normal(size=(40, 3)), RNG.normal(size=(30, 3)) + 4])
MODELS = {
    "rbf": AlternatingMarginClustering(random_state=0),
    "linear": AlternatingMarginClustering(kernel="linear", loss="squared", random_state=0),
    "bisecting": BisectingMarginClustering(AlternatingMarginClustering(), n_clusters=3),
    "pipeline": make_pipeline(StandardScaler(), AlternatingMarginClustering(random_state=0)),
}


@pytest.fixture(scope="module")
def model():
    return AlternatingMarginClustering(random_state=0).fit(X)


def load_quietly(path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return load_model(path)


@pytest.mark.parametrize("suffix", ["skops", "joblib", "pkl"])
@pytest.mark.parametrize("name", MODELS)
def test_a_saved_model_comes_back_equal(tmp_path, name, suffix):
    model = MODELS[name].fit(X)
    path = tmp_path / f"m.{suffix}"
    save_model(model, path)
    again = load_quietly(path)
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))
    assert vars(again).keys() == vars(model).keys()
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_saving_leaves_the_model_and_its_callbacks_alone(tmp_path, model):
    from maxmargin import TimeLimit

    fitted = AlternatingMarginClustering(random_state=0).fit(X).set_callbacks(TimeLimit(60))
    before = dict(vars(fitted))
    save_model(fitted, tmp_path / "m.skops")
    assert vars(fitted) == before
    assert not vars(load_model(tmp_path / "m.skops")).keys() - vars(model).keys()


def test_pickles_come_with_a_warning_and_skops_files_without(tmp_path, model):
    for name in ("m.joblib", "m.skops"):
        save_model(model, tmp_path / name)
    with pytest.warns(UserWarning, match="can run any code"):
        load_model(tmp_path / "m.joblib")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load_model(tmp_path / "m.skops")


@pytest.mark.parametrize("suffix", ["skops", "joblib"])
def test_another_version_is_told(tmp_path, monkeypatch, model, suffix):
    monkeypatch.setattr(persistence, "package_version", lambda name: "0.0.1")
    save_model(model, tmp_path / f"m.{suffix}")
    monkeypatch.undo()
    with pytest.warns(UserWarning, match=r"saved by maxmargin 0\.0\.1, this is"):
        load_model(tmp_path / f"m.{suffix}")


@pytest.mark.parametrize("suffix", ["skops", "joblib"])
@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.99])
def test_truncated_files_are_told(tmp_path, model, suffix, share):
    path = tmp_path / f"m.{suffix}"
    save_model(model, path)
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(DataError, match=r"truncated|cannot be loaded"):
        load_quietly(path)


class Unknown:
    def predict(self, X):
        return X


def evil(X):
    return X


def test_only_own_and_known_types_are_trusted(tmp_path):
    path = tmp_path / "m.skops"
    skops.io.dump(Unknown(), path)
    with pytest.raises(DataError, match=r"not trusted: .*\.Unknown"):
        load_model(path)
    skops.io.dump(KMeans(2, init=evil, n_init=1), path)
    with pytest.raises(DataError, match=r"not trusted: .*\.evil"):
        load_model(path)


@pytest.mark.parametrize(
    "name, own",
    [
        ("maxmargin.alternating._estimator.AlternatingMarginClustering", True),
        ("maxmargin.io.Table", True),
        ("maxmargin.io.Path", False),  # a class that maxmargin only imports
        ("maxmargin.cli.main", False),  # a function
        ("maxmargin.no_such_module.Thing", False),
        ("maxmarginevil.Thing", False),
        ("os.system", False),
    ],
)
def test_own_classes_are_told_from_imported_ones(name, own):
    assert persistence._is_own_class(name) is own


def test_foreign_files_are_told(tmp_path):
    (tmp_path / "a.skops").write_text("hello")
    with pytest.raises(DataError, match="not a skops file"):
        load_model(tmp_path / "a.skops")
    joblib.dump({"a": 1}, tmp_path / "a.joblib")
    with pytest.raises(DataError, match="holds a dict, not a model"):
        load_quietly(tmp_path / "a.joblib")
    (tmp_path / "b.pkl").write_text("hello")
    with pytest.raises(DataError, match="not a saved model"):
        load_quietly(tmp_path / "b.pkl")
    (tmp_path / "a.csv").write_text("1,2\n")
    with pytest.raises(DataError, match=r"not a model by its name. Models end in \.skops"):
        load_model(tmp_path / "a.csv")
    with pytest.raises(DataError, match="is a folder"):
        load_model(tmp_path)
    with pytest.raises(DataError, match="does not exist"):
        load_model(tmp_path / "none.skops")


def test_nothing_is_written_for_a_model_that_cannot_be_saved(tmp_path, model):
    with pytest.raises(NotFittedError):
        save_model(AlternatingMarginClustering(), tmp_path / "m.skops")
    with pytest.raises(DataError, match=r"write \.txt"):
        save_model(model, tmp_path / "m.txt")
    assert os.listdir(tmp_path) == []


def test_missing_skops_names_the_extra(tmp_path, monkeypatch, model):
    monkeypatch.setitem(__import__("sys").modules, "skops.io", None)
    with pytest.raises(DataError, match=r'pip install "maxmargin\[io\]"'):
        save_model(model, tmp_path / "m.skops")
    assert os.listdir(tmp_path) == []
