"""The papers' data and the results that are kept: what is missing, wrong or damaged is told."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from reproduction import cache as cache_module
from reproduction import data as data_module
from reproduction import runner as runner_module
from reproduction.__main__ import main
from reproduction.cache import code_version
from reproduction.data import DataMissing, DataSet, load_data
from reproduction.plan import Unit
from reproduction.runner import Progress, run_units

# -- data -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("slug, part", [("rcv1", "fetch_rcv1"), ("letter-ab", "MAXMARGIN_DATA")])
def test_missing_data_say_what_would_fetch_them(slug, part):
    with pytest.raises(DataMissing, match=f"data not available.*{part}"):
        load_data(slug, online=False)


def test_openml_is_asked_when_online_and_what_comes_is_checked(monkeypatch):
    asked = []

    def fetch(*, data_id, return_X_y, as_frame):
        asked.append(data_id)
        if data_id == 40:
            raise ConnectionError("the line is cut")
        letters = np.repeat(list("AB"), 6)
        return np.arange(12 * 16).reshape(12, 16), letters

    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch)
    monkeypatch.setattr(data_module, "_is_online", lambda: True)
    data_module._fetch.cache_clear()
    X, y = data_module.read_file("letter")
    assert X.dtype == np.float64 and y.tolist() == [0] * 6 + [1] * 6
    with pytest.raises(ValueError, match="letter-ab should have 1555 rows"):
        load_data("letter-ab")
    with pytest.raises(DataMissing, match=r"OpenML did not answer .the line is cut"):
        load_data("sonar")
    assert asked == [6, 40]
    data_module._fetch.cache_clear()


def write_npz(folder, monkeypatch, name, **arrays):
    monkeypatch.setenv("MAXMARGIN_DATA", str(folder))
    np.savez(folder / f"{name}.npz", **arrays)


def test_a_file_of_the_wrong_shape_is_told_with_what_was_expected(tmp_path, monkeypatch):
    write_npz(tmp_path, monkeypatch, "letter", X=np.zeros((9, 4)), y=np.arange(9) % 2)
    with pytest.raises(ValueError, match=r"letter.npz: letter-ab should have 1555 rows.*found 9"):
        load_data("letter-ab")
    unit = Unit("letter-ab", "k-means")
    with pytest.warns(UserWarning, match="1555 rows"):
        results = run_units([unit], tmp_path / "cache")
    assert "1555 rows" in results.absent["letter-ab"]


@pytest.mark.parametrize(
    "arrays, said",
    [
        ({"X": np.zeros((3, 2))}, "holds X. Expected X"),
        ({"X": np.zeros((3, 2)), "y": np.zeros(4)}, r"X has shape \(3, 2\) and y \(4,\)"),
        ({"X": np.zeros(3), "y": np.zeros(3)}, r"X has shape \(3,\)"),
    ],
)
def test_a_file_with_other_arrays_is_told(tmp_path, monkeypatch, arrays, said):
    write_npz(tmp_path, monkeypatch, "sonar", **arrays)
    with pytest.raises(ValueError, match=said):
        load_data("sonar")


def test_a_file_that_is_no_archive_is_told(tmp_path, monkeypatch):
    monkeypatch.setenv("MAXMARGIN_DATA", str(tmp_path))
    (tmp_path / "sonar.npz").write_text("not an archive")
    with pytest.raises(ValueError, match=r"sonar.npz cannot be read"):
        load_data("sonar")


def test_tasks_are_the_pairs_and_the_draws_of_the_papers():
    pairs = load_data("digits-all-pairs-mean", online=False)
    classes = [tuple(np.unique(pairs.task(i)[1])) for i in range(45)]
    assert len(set(classes)) == 45 and all(a < b for a, b in classes)
    draws = load_data("digits-3-8-s", online=False)
    assert [np.bincount(draws.task(i)[1])[[3, 8]].tolist() for i in range(5)] == [[50, 50]] * 5
    assert not np.array_equal(*(draws.task(i)[0] for i in range(2)))


# -- the cache ------------------------------------------------------------------------------------

IRIS = Unit("iris", "k-means", seeds=2)


def test_results_are_kept_by_code_data_and_setting(tmp_path, monkeypatch):
    first = run_units([IRIS], tmp_path, online=False)
    again = run_units([IRIS], tmp_path, online=False)
    assert (first.computed, again.computed) == (1, 0)
    assert first.found == again.found
    assert run_units([IRIS], tmp_path, version="other code").computed == 1
    assert run_units([replace(IRIS, seeds=3)], tmp_path).computed == 1
    iris = load_data("iris")
    monkeypatch.setattr(runner_module, "load_data", lambda *_, **__: replace(iris, X=iris.X + 1))
    assert run_units([IRIS], tmp_path).computed == 1


@pytest.mark.parametrize("damage", ["", "{", "cut short"])
def test_a_damaged_entry_is_said_and_computed_again(tmp_path, caplog, damage):
    good = run_units([IRIS], tmp_path, online=False)
    (path,) = tmp_path.rglob("*.json")
    path.write_bytes(path.read_bytes()[:40] if damage == "cut short" else damage.encode())
    again = run_units([IRIS], tmp_path, online=False)
    assert f"{path} cannot be read" in caplog.text
    assert again.of(IRIS)["ari"] == good.of(IRIS)["ari"]
    assert run_units([IRIS], tmp_path, online=False).computed == 0


def test_the_version_follows_the_program_not_its_comments(monkeypatch):
    bare = cache_module._bare
    assert bare('def f(a):\n    """Doc."""\n    return a') == bare("def f(a):  # why\n    return a")
    assert bare("def f(a):\n    return a") != bare("def f(a):\n    return -a")
    assert re.fullmatch(r"[\w.]+-[0-9a-f]{12}", code_version())


def test_the_hash_sees_rows_classes_and_types():
    X, y, all_rows = np.arange(6.0).reshape(3, 2), np.array([0, 1, 1]), (np.arange(3),)
    sets = [
        DataSet("a", X, y, all_rows), DataSet("a", X + 1, y, all_rows),
        DataSet("a", X, y[::-1], all_rows), DataSet("a", X.astype(np.float32), y, all_rows),
        DataSet("a", X.reshape(2, 3), y[:2], all_rows), DataSet("a", X, y, (np.arange(2),)),
        DataSet("a", csr_matrix(X), y, all_rows), DataSet("a", csr_matrix(X + 1), y, all_rows),
    ]  # fmt: skip
    assert len({data.digest() for data in sets}) == len(sets)
    assert sets[0].digest() == DataSet("b", X.copy(), y.copy(), all_rows).digest()


def test_an_interrupted_run_keeps_what_it_has(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    true_measure, done = runner_module.measure, []

    def measure(unit, data):
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append(unit)
        return true_measure(unit, data)

    monkeypatch.setattr(runner_module, "measure", measure)
    line = ["least_squares:table-1", "--quick", "--offline", "--out", "p"]
    assert main(line) == 130
    assert "goes on there" in capsys.readouterr().err
    assert len(list(Path("p/cache").rglob("*.json"))) == 2 and not Path("p/index.html").exists()
    monkeypatch.setattr(runner_module, "measure", true_measure)
    assert main([*line, "--minutes", "0", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["from_cache"] == 2


def test_a_unit_that_fails_does_not_end_the_run_and_ours_is_told(tmp_path, monkeypatch):
    def fail(unit, data):
        raise ValueError("no such luck")

    monkeypatch.setattr(runner_module, "measure", fail)
    results = run_units([IRIS], tmp_path, online=False)
    assert results.skipped[IRIS.setting()] == "k-means: failed (no such luck)"
    assert not results.failed
    assert run_units([Unit("iris", "least-squares")], tmp_path, online=False).failed


def test_several_processes_find_the_same_and_their_cache_can_be_copied(tmp_path):
    units = [Unit("iris", method) for method in ("k-means", "random labels", "Ward")]
    one = run_units(units, tmp_path / "one", online=False)
    two = run_units(units, tmp_path / "two", online=False, jobs=2)
    shutil.copytree(tmp_path / "two", tmp_path / "three")
    again = run_units(units, tmp_path / "three", online=False, minutes=0)
    assert (one.computed, two.computed, again.computed) == (3, 3, 0)
    for unit in units:
        assert one.of(unit)["ari"] == two.of(unit)["ari"] == again.of(unit)["ari"]


def test_after_the_minutes_only_the_cache_is_read(tmp_path):
    run_units([IRIS], tmp_path, online=False)
    other = replace(IRIS, seeds=1)
    found = run_units([IRIS, other], tmp_path, online=False, minutes=0)
    assert found.of(IRIS) and other.setting() in found.skipped


def test_the_estimate_follows_the_work_that_was_done():
    class Told(list):
        write = list.append

        def isatty(self):
            return True

        def flush(self):
            pass

    told = Told()
    progress = Progress(10, told)
    progress.step(5, "cached", cached=True)
    assert progress.left() == ""
    progress.begin -= 10
    progress.step(1, "new", cached=False)
    assert progress.left() == "about 40 s left"
    assert "60%" in told[-1] and told[-1].startswith("\r[############        ]")
