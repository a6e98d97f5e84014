"""Saved models come back equal; files that are something else are refused."""

from __future__ import annotations

import contextlib
import io
import json
import os
import warnings
import zipfile

import joblib
import numpy as np
import pandas as pd
import pytest
import skops.io
from scipy import sparse
from sklearn.cluster import KMeans
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from maxmargin import (
    AlternatingMarginClustering,
    BisectingMarginClustering,
    CuttingPlaneMarginClustering,
    LeastSquaresMarginClustering,
    MaxMarginClustering,
    MultipleKernelMarginClustering,
    PairwiseConstraints,
    PairwiseMarginClustering,
    SemidefiniteMarginClustering,
    persistence,
)
from maxmargin.io import DataError
from maxmargin.persistence import TRUSTED, load_model, save_model
from maxmargin.tables import table_pipeline

RNG = np.random.default_rng(0)
X = np.concatenate([RNG.normal(size=(40, 3)), RNG.normal(size=(30, 3)) + 4])
THREE = RNG.normal(size=(30, 3)) + 6 * np.repeat(np.eye(3), 10, axis=0)
LINKS = PairwiseConstraints(30, must_link=[(0, 1)], cannot_link=[(0, 2), (3, 4)])
TABLE = pd.DataFrame(
    {
        "age": [31.0, None, 50.0] * 10,
        "pay": [90.0, 100.0, 800.0] * 10,
        "town": ["Oslo", "Rome", None] * 10,
        "day": pd.date_range("2024-01-01", periods=30, freq="17D"),
        "text": ["ripe red apples", "a red train", "tall green trees"] * 10,
    }
)
MODELS = {
    "rbf": AlternatingMarginClustering(random_state=0),
    "linear": AlternatingMarginClustering(kernel="linear", loss="squared", random_state=0),
    "bisecting": BisectingMarginClustering(3),
    "pipeline": make_pipeline(StandardScaler(), AlternatingMarginClustering(random_state=0)),
}
# Fits that together leave every kind of fitted attribute, on rows of every kind.
FITS = {
    "hinge": lambda: AlternatingMarginClustering(
        3, kernel="poly", loss="hinge", random_state=np.random.RandomState(0)
    ).fit(THREE),
    "csr_matrix": lambda: AlternatingMarginClustering(random_state=0).fit(sparse.csr_matrix(THREE)),
    "csr_array": lambda: AlternatingMarginClustering(random_state=0).fit(sparse.csr_array(THREE)),
    "precomputed": lambda: AlternatingMarginClustering(kernel="precomputed", random_state=0).fit(
        THREE @ THREE.T
    ),
    "bisecting": lambda: BisectingMarginClustering(n_clusters=3, random_state=0).fit(THREE),
    "least squares": lambda: LeastSquaresMarginClustering(3, pca=2, n_init=2, random_state=0).fit(
        THREE
    ),
    "front door": lambda: MaxMarginClustering(2, n_init=4, random_state=0).fit(THREE),
    "front door, linear": lambda: MaxMarginClustering(
        2, kernel="linear", n_init=4, random_state=0
    ).fit(THREE),
    "front door, any number": lambda: MaxMarginClustering(n_init=2, random_state=0).fit(THREE[::3]),
    "front door, links": lambda: MaxMarginClustering(2, n_init=2, random_state=0).fit(
        THREE, constraints=LINKS
    ),
    "front door, known labels": lambda: MaxMarginClustering(2, n_init=2, random_state=0).fit(
        THREE, partial_labels=np.repeat([0, 1, -1], 10)
    ),
    "pairwise": lambda: PairwiseMarginClustering(2, random_state=0).fit(THREE, constraints=LINKS),
    "pairwise, known labels": lambda: PairwiseMarginClustering(2, alpha=0.1, random_state=0).fit(
        THREE, partial_labels=np.repeat([0, 1, -1], 10)
    ),
    "cutting plane": lambda: CuttingPlaneMarginClustering(3, random_state=0).fit(THREE),
    "multiple kernels": lambda: MultipleKernelMarginClustering(
        2, kernels=["linear", "rbf"], random_state=0
    ).fit(THREE),
    "semidefinite": lambda: SemidefiniteMarginClustering(2, random_state=0).fit(THREE),
    "table": lambda: table_pipeline(
        TABLE, CuttingPlaneMarginClustering(3, random_state=0), kinds={"text": "text", "pay": "log"}
    ).fit(TABLE),
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
    with pytest.warns(UserWarning, match="can run arbitrary code"):
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


def test_the_trusted_types_are_those_that_models_consist_of(tmp_path):
    found = set()
    for name, fit in FITS.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            model = fit()
        save_model(model, tmp_path / "m.skops")
        found.update(skops.io.get_untrusted_types(file=tmp_path / "m.skops"))
        again = load_model(tmp_path / "m.skops")
        left_out = getattr(model, "_of_rows", ())
        assert vars(again).keys() == vars(model).keys() - set(left_out), name
    assert found == set(TRUSTED)


def test_files_do_not_grow_with_the_rows_of_the_front_door(tmp_path):
    model = make_pipeline(StandardScaler(), MaxMarginClustering(2, n_init=1, random_state=0))
    model.fit(X)
    Z, last = model[0].transform(X), model[-1]
    save_model(model, tmp_path / "m.skops")
    again = load_model(tmp_path / "m.skops")[-1]
    for name in ("confidence_", "outlier_score_", "is_outlier_"):
        with pytest.raises(AttributeError, match=rf"not kept in model files; call {name[:-1]}\(X"):
            getattr(again, name)
        assert getattr(last, name) == pytest.approx(getattr(again, name[:-1])(Z))
    assert again.report_ == last.report_
    assert again.stability_ == last.stability_


# -- crafted files ---------------------------------------------------------------------------------


def node(loader, name, **more):
    module, _, attribute = name.rpartition(".")
    return {"__loader__": loader, "__module__": module, "__class__": attribute, **more}


def value(it):
    return node("JsonNode", "builtins.str", content=json.dumps(it), is_json=True)


def sequence(*items, loader="TupleNode", name="builtins.tuple"):
    return node(loader, name, content=list(items))


def mapping(items, key_type="builtins.str", name="builtins.dict"):
    types = [node("TypeNode", key_type) for _ in items]
    keys = sequence(*types, loader="ListNode", name="builtins.list")
    return node("DictNode", name, content=items, key_types=keys)


def call(name, *items):
    return node("ConstructorFromReduceNode", name, content=sequence(*items))


def reduced(loader, name, *items, state=()):
    return node(loader, name, content=mapping(dict(state)), __reduce__={"args": sequence(*items)})


def method(name, owner, function):
    return node("MethodNode", name, content={"func": function, "obj": owner})


def craft(path, bad):
    """A model file like any other, with one attribute that is not."""
    genuine = io.BytesIO(skops.io.dumps(AlternatingMarginClustering(random_state=0)))
    with zipfile.ZipFile(genuine) as old, zipfile.ZipFile(path, "w") as new:
        schema = json.loads(old.read("schema.json"))
        schema["content"]["content"]["extra_"] = bad
        schema["content"]["key_types"]["content"].append(node("TypeNode", "builtins.str"))
        new.writestr("schema.json", json.dumps(schema))


OWN = "maxmargin.alternating.AlternatingMarginClustering"
LOG = "maxmargin._answers.AnswerLog"
NPY = "maxmargin._data.files.NpyReader"
ATTACKS = {
    "class called": lambda p: call(LOG, value(p), value(3)),
    "class called as a loss": lambda p: reduced("LossNode", LOG, value(p), value(3)),
    "class by its state": lambda p: node("ObjectNode", LOG, content=mapping({"path": value(p)})),
    "class of a list": lambda p: sequence(value(p), loader="ListNode", name=LOG),
    "class of a dictionary": lambda p: mapping({p: value(3)}, name=LOG),
    "class of its keys": lambda p: mapping({p: value(3)}, key_type=LOG),
    "class itself": lambda p: node("TypeNode", LOG),
    "reader": lambda p: call(NPY, value(p), value(0), value(None), value([]), value(3)),
    "result": lambda p: call("maxmargin.io.Table", *map(value, (1, 2, 3, 4, p))),
    "class that a module imports": lambda p: call("maxmargin._answers.Path", value(p)),
    "function": lambda p: node("FunctionNode", "maxmargin._answers.write_answers"),
    "function called": lambda p: call("maxmargin._answers.write_answers", value(p), value(3)),
    "function of a dictionary": lambda p: mapping({p: value(3)}, "maxmargin._files.check_exists"),
    "command line": lambda p: call("maxmargin.cli.main", value(["demo", "--folder", p])),
    "partial": lambda p: node(
        "PartialNode",
        "functools.partial",
        content={
            "func": node("FunctionNode", "maxmargin._answers.write_answers"),
            "args": sequence(value(p), value(3)),
            "kwds": mapping({}),
            "namespace": value(None),
        },
    ),
    "operator": lambda p: node(
        "OperatorFuncNode", "operator.methodcaller", attrs=sequence(value("touch"), value(p))
    ),
    "method": lambda p: method(OWN, node("ObjectNode", OWN, content=mapping({})), "fit"),
    "method of another class": lambda p: method(
        OWN, node("ObjectNode", OWN, content=mapping({})), "__init__"
    ),
    "builtin": lambda p: call("builtins.open", value(p), value("w")),
    "system": lambda p: call("os.system", value(f"touch {p}")),
    "module of its own": lambda p: call("maxmargin_evil.Thing", value(p)),
}


@pytest.mark.parametrize("there", [False, True], ids=["new", "existing"])
@pytest.mark.parametrize("attack", ATTACKS)
def test_crafted_files_are_refused_and_nothing_is_written(tmp_path, attack, there):
    victim, crafted = tmp_path / "victim.csv", tmp_path / "m.skops"
    if there:
        victim.write_text("# n_samples = 3\nrow_a,row_b,relation,weight\n0,1,same,1.0\n0,2,sa")
    before = victim.read_text() if there else None
    craft(crafted, ATTACKS[attack](str(victim)))
    with pytest.raises(DataError, match="types that are not trusted"):
        load_model(crafted)
    assert victim.exists() == there and (not there or victim.read_text() == before)
    assert len(os.listdir(tmp_path)) == 1 + there


@pytest.mark.parametrize("name", TRUSTED)
def test_trusted_types_do_nothing_whatever_they_are_called_with(tmp_path, name):
    victim, crafted = tmp_path / "victim.csv", tmp_path / "m.skops"
    victim.write_text("torn")
    new = str(tmp_path / "new.csv")
    for path in (str(victim), new):
        for bad in (
            *(call(name, *items) for items in ((), (value(path),), (value(path), value(3)))),
            node("ObjectNode", name, content=mapping({"path": value(path), "file": value(path)})),
            mapping({path: value(3)}, key_type=name),
            sequence(value(path), loader="ListNode", name=name),
        ):
            craft(crafted, bad)
            with contextlib.suppress(DataError):  # arguments that it does not take
                load_model(crafted)
            assert victim.read_text() == "torn"
            assert sorted(os.listdir(tmp_path)) == ["m.skops", "victim.csv"]


def test_foreign_files_are_told(tmp_path):
    (tmp_path / "a.skops").write_text("hello")
    with pytest.raises(DataError, match="not a skops file"):
        load_model(tmp_path / "a.skops")
    joblib.dump({"a": 1}, tmp_path / "a.joblib")
    with pytest.raises(DataError, match="contains a dict, not a model"):
        load_quietly(tmp_path / "a.joblib")
    (tmp_path / "b.pkl").write_text("hello")
    with pytest.raises(DataError, match="not a saved model"):
        load_quietly(tmp_path / "b.pkl")
    (tmp_path / "a.csv").write_text("1,2\n")
    with pytest.raises(DataError, match=r"the suffix of a model. Model files end in \.skops"):
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
    with pytest.raises(DataError, match=r'pip install "maxmargin\[cli\]"'):
        save_model(model, tmp_path / "m.skops")
    assert os.listdir(tmp_path) == []
