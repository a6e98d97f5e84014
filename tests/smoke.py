"""What must work with the lowest versions that pyproject.toml admits: `.ci/run` runs it there."""

import json
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.metrics import adjusted_rand_score

import maxmargin
from maxmargin import CuttingPlaneMarginClustering, PairwiseConstraints, TimeLimit, open_rows
from maxmargin._base import BaseMarginClustering
from maxmargin.cli import main as cli
from maxmargin.cli.methods import METHODS
from maxmargin.persistence import load_model, save_model

PUBLIC = {name: getattr(maxmargin, name) for name in maxmargin.__all__}
ESTIMATORS = [
    name
    for name, what in PUBLIC.items()
    if isinstance(what, type) and issubclass(what, BaseMarginClustering)
]
each = pytest.mark.parametrize("name", ESTIMATORS)


@pytest.fixture(autouse=True)
def no_advice():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


@pytest.fixture(scope="module")
def clouds():
    return make_blobs([25, 25], n_features=3, cluster_std=0.5, center_box=(-9, 9), random_state=4)


@pytest.fixture
def folder(clouds, tmp_path, monkeypatch):
    rows = "\n".join(f"r{i},{a},{b},{c}" for i, (a, b, c) in enumerate(clouds[0].tolist()))
    (tmp_path / "d.csv").write_text(f"who,a,b,c\n{rows}\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(line):
    return cli.main(line.split())


@each
def test_fit_predict_transform_and_verbose(name, clouds):
    X, truth = clouds
    model = PUBLIC[name](n_clusters=2, random_state=0, verbose=1).fit(X)
    assert adjusted_rand_score(truth, model.labels_) == 1.0
    assert (model.predict(X) == model.labels_).all()
    frame = model.set_output(transform="pandas").transform(X)
    assert frame.shape[0] == len(X) and np.isfinite(frame.to_numpy()).all()
    assert "_skl_callbacks" not in vars(model)


@each
def test_a_time_limit_ends_a_fit(name, clouds):
    model = PUBLIC[name](n_clusters=2, random_state=0).set_callbacks(TimeLimit(1e-9))
    model.fit(clouds[0])
    assert model.cluster_sizes_.sum() == len(clouds[0])
    assert model.stop_reason_ == "time"
    assert not [key for key in vars(model) if key.startswith("_callback")]


@each
def test_a_saved_model_predicts_the_same(name, clouds, tmp_path):
    X = clouds[0]
    model = PUBLIC[name](n_clusters=2, random_state=0).fit(X)
    save_model(model, tmp_path / "m.skops")
    assert (load_model(tmp_path / "m.skops").predict(X) == model.labels_).all()


def test_links_are_kept(clouds):
    X, truth = clouds
    one, other = np.flatnonzero(truth == 0)[:2], np.flatnonzero(truth == 1)[:2]
    links = PairwiseConstraints(len(X), must_link=[one, other], cannot_link=[(one[0], other[0])])
    model = maxmargin.PairwiseMarginClustering(2, random_state=0).fit(X, constraints=links)
    assert links.violations(model.labels_).n_links == 0


@pytest.mark.parametrize("kind", ["npy", "parquet", "zarr", "dask"])
def test_rows_in_files_and_chunks(kind, tmp_path):
    X = make_blobs(12_000, n_features=3, centers=3, cluster_std=0.5, random_state=0)[0]
    path = tmp_path / f"rows.{kind}"
    if kind == "npy":
        np.save(path, X)
    elif kind == "parquet":
        import pandas as pd

        pd.DataFrame(X, columns=list("abc")).to_parquet(path)
    elif kind == "zarr":
        import zarr

        zarr.create_array(store=path, data=X, chunks=(5000, 3))
    else:
        import dask.array as da

        rows = da.from_array(X, chunks=(5000, 3))
    model = CuttingPlaneMarginClustering(3, random_state=0)
    expected = clone(model).fit(X).labels_
    found = model.fit(rows if kind == "dask" else open_rows(path)).labels_
    assert (np.asarray(found) == expected).all()


@pytest.mark.parametrize("method", METHODS)
def test_every_method_on_the_command_line(method, folder, clouds, capsys):
    line = f"fit d.csv -k 2 --method {method} --id-column who --out labels.csv --model m.skops"
    assert run(f"{line} --json") == 0
    assert json.loads(capsys.readouterr().out)["cluster_sizes"] == [25, 25]
    assert run("predict m.skops d.csv --id-column who --out again.csv") == 0
    assert (folder / "again.csv").read_text() == (folder / "labels.csv").read_text()


def test_the_other_commands(folder, capsys):
    from PIL import Image

    assert run("check d.csv -k 2 --id-column who") == 0
    assert run("fit d.csv -k 2 --id-column who --plot p.png") == 0
    pixels = np.repeat([[0, 60], [190, 255]], 20, axis=0).repeat(20, axis=1).astype(np.uint8)
    Image.fromarray(pixels).save(folder / "grey.png")
    assert run("segment grey.png -k 2 --out regions.png") == 0
    assert (folder / "p.png").exists() and (folder / "regions.png").exists()
    capsys.readouterr()
    assert run("info --json") == 0
    assert json.loads(capsys.readouterr().out)
