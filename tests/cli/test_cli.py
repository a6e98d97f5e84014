"""The command line: what it writes, what it says, how it ends."""

from __future__ import annotations

import io
import json
import numbers
import os
import re
import signal
import subprocess
import sys
import threading
import time
import tomllib
import warnings
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import make_blobs
from sklearn.utils._param_validation import Interval, StrOptions, generate_valid_param

import maxmargin
from maxmargin import AlternatingMarginClustering, MaxMarginClustering, PairwiseConstraints
from maxmargin.cli import data, demo, fit, info, methods
from maxmargin.cli import main as cli
from maxmargin.io import read_rows
from maxmargin.persistence import load_model

ROOT = Path(__file__).parents[2]
RNG = np.random.default_rng(0)
X = np.round(np.concatenate([RNG.normal(size=(25, 3)), RNG.normal(size=(15, 3)) + 6]), 3)
NAMES = [f"r{i}" for i in range(40)]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder to work in, with a file of 40 rows in two clear groups."""
    monkeypatch.chdir(tmp_path)
    lines = [f"{name},{a},{b},{c}" for name, (a, b, c) in zip(NAMES, X.tolist())]
    Path("d.csv").write_text("who,a,b,c\n" + "\n".join(lines) + "\n")
    return tmp_path


@pytest.fixture
def run(capsys):
    """Run a command; returns exit code, stdout and stderr."""

    def call(line):
        capsys.readouterr()
        code = cli.main(line.split())
        return code, *capsys.readouterr()

    return call


@pytest.fixture
def run_json(run):
    def call(line):
        code, out, _ = run(line + " --json")
        assert out.count("\n") == 1
        return code, json.loads(out, parse_constant=lambda name: pytest.fail(name))

    return call


def files(folder):
    return sorted(os.listdir(folder))


# -- fit and predict -------------------------------------------------------------------------------


def test_fit_writes_what_was_asked_for_and_predict_agrees(folder, run):
    code, out, err = run(
        "fit d.csv -k 2 --method alternating --id-column who --out l.csv --model m.skops "
        "--plot p.png --seed 3 --balance 0.7"
    )
    assert (code, err) == (0, "")
    assert "40 rows, 3 columns -> 2 clusters" in out
    assert "wrote l.csv (labels), m.skops (model), p.png (picture)" in out
    assert files(folder) == ["d.csv", "l.csv", "m.skops", "p.png"]
    expected = AlternatingMarginClustering(balance=0.7, random_state=3).fit(X)
    labels = read_rows("l.csv", id_column="who")
    assert labels.column_names == ("cluster", "margin") and labels.ids.tolist() == NAMES
    np.testing.assert_array_equal(labels.X[:, 0], expected.labels_)
    np.testing.assert_array_equal(labels.X[:, 1], abs(expected.decision_function(X)[:, 1]))
    assert Path("p.png").read_bytes().startswith(b"\x89PNG")
    code, out, _ = run("predict m.skops d.csv --id-column who")
    assert (code, out) == (0, Path("l.csv").read_text())
    assert run("predict m.skops d.csv --id-column who --out q.csv")[0] == 0
    assert Path("q.csv").read_text() == Path("l.csv").read_text()


def test_fit_without_outputs_says_so_and_json_has_the_labels(folder, run, run_json):
    assert "nothing written: add --out" in run("fit d.csv -k 2 --drop who")[1]
    code, told = run_json("fit d.csv -k 2 --method alternating --id-column who --kernel linear")
    expected = AlternatingMarginClustering(kernel="linear", random_state=0).fit(X)
    assert code == 0 and told["ok"] and told["wrote"] == {} and told["warnings"] == []
    assert told["labels"] == expected.labels_.tolist()
    assert told["cluster_sizes"] == [25, 15]
    assert told["exemplars"] == [NAMES[i] for i in expected.exemplar_indices_]
    assert files(folder) == ["d.csv"]


def test_auto_writes_confidence_and_outliers_also_for_new_rows_and_blocks(folder, run):
    cloud = make_blobs(60, centers=[[0, 0], [9, 9]], random_state=0)[0]
    np.save("e.npy", cloud)
    np.save("new.npy", np.array([[0.0, 0.0], [900.0, -900.0]]))
    for more in ("", " --memory 8GiB", " --standardize"):
        assert run(f"fit e.npy -k 2 --out l.csv --model m.skops{more}")[0] == 0
        table = read_rows("l.csv")
        margin = () if "memory" in more else ("margin",)
        assert table.column_names == ("row", "cluster", *margin, "confidence", "outlier")
        assert table.X[:, -2].max() > 0.99 and table.X[:, -1].mean() <= 0.02
        assert run("predict m.skops new.npy --out n.csv")[0] == 0
        confidence, outlier = read_rows("n.csv").X[:, -2:].T
        assert confidence[0] > 0.95 and confidence[1] < 0.01 and outlier.tolist() == [0, 1]
    assert run("predict m.skops new.npy")[1] == Path("n.csv").read_text()


def test_predict_tells_sizes_and_warns_of_rows_in_other_units(folder, run, run_json):
    assert run("fit d.csv -k 2 --drop who --model m.skops")[0] == 0
    code, out, err = run("predict m.skops d.csv --out l.csv")
    assert (code, err) == (0, "") and out.startswith("40 rows, ")
    assert re.search(r"0 +25 +62.5%\s+1 +15 +37.5%", out)
    lines = [f"{a},{b},{100 * c}" for a, b, c in X.tolist()]
    Path("n.csv").write_text("\n".join(["a,b,c", *lines]))
    code, told = run_json("predict m.skops n.csv")
    assert code == 0 and sum(told["cluster_sizes"]) == 40 and told["n_outliers"] > 30
    assert told["warnings"] == [
        f"{told['n_outliers']} of 40 rows are outliers (about 0 are expected): "
        "does n.csv have the same columns in the same units as the fit?"
    ]


def test_predict_scores_the_rows_once(folder, run, monkeypatch):
    assert run("fit d.csv -k 2 --n-resamples 1 --model m.skops")[0] == 0
    passes, mapped = [], MaxMarginClustering._mapped
    monkeypatch.setattr(
        MaxMarginClustering, "_mapped", lambda *args: passes.append(1) or mapped(*args)
    )
    assert "outlier" in run("predict m.skops d.csv")[1] and len(passes) == 1


def test_fit_without_settings_says_what_it_chose_and_how_sure_it_is(folder, run, run_json):
    four = make_blobs(80, 4, centers=4, center_box=(-20, 20), random_state=2)[0]
    np.save("four.npy", four)
    code, out, err = run("fit four.npy --model m.skops")
    assert (code, err) == (0, "")
    assert "auto: 80 rows, 4 columns -> 4 clusters" in out
    assert re.search(r"cluster +rows +share +confidence +most certain row", out)
    assert "4 clusters: between them the density" in out
    assert "The clusters are stable: " in out
    code, told = run_json("fit d.csv -k 2 --drop who")
    assert told["cluster_sizes"] == [25, 15] and min(told["confidence"]) > 0.9
    assert told["stability"] == 1.0 and len(told["report"]) >= 3
    assert run("predict m.skops four.npy")[0] == 0


def test_fit_warns_of_clusters_that_the_data_do_not_decide(folder, run_json):
    np.save("cloud.npy", np.random.default_rng(0).normal(size=(90, 3)))
    code, told = run_json("fit cloud.npy -k 5")
    assert code == 0 and "not stable" in told["warnings"][0]
    close = make_blobs([100] * 6, 3, center_box=(-4, 4), cluster_std=1.2, random_state=1)[0]
    np.save("close.npy", close)
    code, told = run_json("fit close.npy")
    assert code == 0 and told["warnings"][0].startswith("Uncertain")


def test_one_cluster_is_not_praised(folder, run):
    out = run("fit d.csv -k 1 --drop who")[1]
    assert "One cluster separates nothing" in out
    assert "certain row" not in out
    assert "confidence  " not in out and "stable" not in out and "accuracy" not in out


def test_what_a_cluster_without_rows_does_not_have_is_left_empty(folder, run_json, capsys):
    np.save("plain.npy", X)
    result = run_json("fit plain.npy -k 2")[1]
    for name, value in {"cluster_sizes": 0, "exemplars": None, "confidence": 0.0}.items():
        result[name].append(value)
    for part in fit.tell(result | {"n_clusters": 3}):
        data.show(part, sys.stdout)
    out = capsys.readouterr()[0]
    assert re.search(r"^ +1 +15 +37\.5% +\d\.\d\d +\d+ *$", out, re.M)
    assert re.search(r"^ +2 +0 +0\.0% *$", out, re.M)


def test_of_many_clusters_the_largest_are_listed(folder, run, run_json):
    out = run("fit d.csv -k 25 --id-column who --n-resamples 0")[1]
    assert len(re.findall(r"^ +\d+ +\d+ +\d.*%", out, re.M)) == 20
    assert len(re.findall(r"^cluster \d+: ", out, re.M)) == 20
    assert "and 5 smaller clusters: add --json to see all" in out
    told = run_json("fit d.csv -k 25 --id-column who --n-resamples 0")[1]
    assert len(told["cluster_sizes"]) == len(told["descriptions"]) == 25


def test_label_without_answers_finds_the_clusters_of_fit(folder, run_json, monkeypatch):
    kinds = ["kind", *(["a", "b"] * 20)]  # a category, whose 0/1 columns are not searched for gaps
    lines = Path("d.csv").read_text().splitlines()
    Path("d.csv").write_text("\n".join(f"{line},{kind}" for line, kind in zip(lines, kinds)))
    monkeypatch.setattr("sys.stdin", io.StringIO("q\n"))
    assert run_json("label d.csv -k 2 --n-resamples 0 --model l.skops")[0] == 0
    told = run_json("fit d.csv -k 2 --n-resamples 0 --model m.skops")[1]
    label, fitted = (load_model(f"{name}.skops")[-1] for name in "lm")
    assert label.get_params() == fitted.get_params() and label.labels_.tolist() == told["labels"]


def test_label_stops_at_an_input_that_holds_no_answers(folder, run, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("yess\n" * 100))
    code, out, err = run("label d.csv -k 2 --drop who --n-resamples 0")
    assert (code, out) == (1, "") and err.count("is none of y, n") == 9
    assert "stdin gave 10 lines in a row that are no answers, such as 'yess'" in err


def test_a_date_that_comes_first_in_several_clusters_is_told(folder, run):
    lines = ["since,x"] + [f"{2000 + 20 * (i % 2)}-0{1 + i % 7}-11,{X[i, 0]}" for i in range(40)]
    Path("t.csv").write_text("\n".join(lines))
    out = run("fit t.csv -k 2 --n-resamples 0")[1]
    assert "The date 'since' sets 2 clusters apart" in out and "add --drop since." in out
    assert "sets 2 clusters" not in run("fit d.csv -k 2 --n-resamples 0")[1]


def test_a_date_that_hides_clusters_is_told_with_what_to_type(folder, run):
    rng, y = np.random.default_rng(0), np.repeat([0, 1, 2], [70, 60, 50])
    corners = 5.95 * np.array([[0, 0], [1, 0], [0.5, 0.9]])
    rows = (corners[y] + rng.normal(size=(180, 2))).round(2).tolist()
    days = np.datetime64("2020-01-01") + rng.integers(0, 1400, 180)
    lines = [f"{a},{b},{day}" for (a, b), day in zip(rows, days)]
    Path("t.csv").write_text("\n".join(["spent,visits,signup date", *lines]))
    code, out, err = run("fit t.csv --n-resamples 0")
    assert code == 0 and "-> 1 cluster " in out and "n_clusters" not in err + out
    assert "all labels are 0. Give -k to divide the rows anyway." in err
    assert "One that is at most 1.0 larger does not count." in out
    told = "Without 'signup date' the density of the rows shows 3 clusters; to cluster without, add"
    assert f"{told} --drop 'signup date'." in out
    noise = [f"{a},{b},{day}" for (a, b), day in zip(rng.normal(size=(180, 2)).round(2), days)]
    Path("t.csv").write_text("\n".join(["spent,visits,since", *noise]))
    assert "shows 1 cluster also without 'since'." in run("fit t.csv --n-resamples 0")[1]
    for line in ("fit t.csv -k 1", "fit t.csv --drop since"):
        assert "hide" not in run(f"{line} --n-resamples 0")[1]


def test_links_need_no_method(folder, run_json):
    links = PairwiseConstraints(40, must_link=[(0, 1)], cannot_link=[(0, 30)])
    links.save("links.csv")
    code, told = run_json("fit d.csv -k 2 --drop who --links links.csv")
    assert code == 0 and "2 constraints were used" in " ".join(told["report"])


def test_predict_matches_columns_by_name(folder, run):
    run("fit d.csv -k 2 --id-column who --model m.skops --out l.csv")
    shuffled = ["c,extra,b,who,a"] + [
        f"{c},text,{b},{name},{a}" for name, (a, b, c) in zip(NAMES, X.tolist())
    ]
    Path("s.csv").write_text("\n".join(shuffled))
    code, out, err = run("predict m.skops s.csv --id-column who")
    assert (code, err, out) == (0, "", Path("l.csv").read_text())
    Path("t.csv").write_text("a,b\n1,2\n")
    code, _, err = run("predict m.skops t.csv")
    assert code == 1 and "t.csv: there is no column 'c'" in err
    Path("t.csv").write_text("a,cc\n1,2\n")
    code, _, err = run("predict m.skops t.csv")
    assert "there are no columns 'b', 'c', which" in err and "Did you mean 'cc' for 'c'?" in err
    Path("t.csv").write_text("a,b,C\n1,2,3\n")
    assert "Did you mean 'C'?" in run("predict m.skops t.csv")[2]
    Path("u.csv").write_text("1,2\n3,4\n")
    code, _, err = run("predict m.skops u.csv")
    assert code == 1 and "2 features" in err and "3 features" in err


@pytest.mark.parametrize("suffix", ["npy", "npz", "svm", "parquet"])
def test_every_format_gives_the_same_labels(folder, run_json, suffix):
    if suffix == "npy":
        np.save("e.npy", X)
    elif suffix == "npz":
        sparse.save_npz("e.npz", sparse.csr_matrix(X))
    elif suffix == "svm":
        from sklearn.datasets import dump_svmlight_file

        dump_svmlight_file(X, np.zeros(40), "e.svm")
    else:
        pytest.importorskip("pandas").DataFrame(X, columns=list("abc")).to_parquet("e.parquet")
    assert run_json(f"fit e.{suffix} -k 2 --model m.joblib")[1]["cluster_sizes"] == [25, 15]
    labels = run_json("fit d.csv -k 2 --drop who")[1]["labels"]
    assert run_json(f"predict m.joblib e.{suffix}")[1]["labels"] == labels


def test_bisecting_and_standardize(folder, run_json):
    code, told = run_json(
        "fit d.csv -k 3 --method bisecting --balance 0 --drop who --standardize --model m.skops"
    )
    assert code == 0 and len(told["cluster_sizes"]) == 3 and sum(told["cluster_sizes"]) == 40
    model = load_model("m.skops")
    assert model[-1].estimator.balance == 0 and model[-1].n_clusters == 3
    scaler = model[0].named_transformers_["number 0"][-1]
    np.testing.assert_allclose(scaler.mean_, X.mean(axis=0))
    assert run_json("predict m.skops d.csv")[1]["labels"] == told["labels"]


def put_kinds(known):
    """Add a column of known labels to the file."""
    column = ["kind", *(known.get(i, "") for i in range(40))]
    rows = Path("d.csv").read_text().splitlines()
    Path("d.csv").write_text("\n".join(f"{row},{name}" for row, name in zip(rows, column)))


def test_known_labels_are_kept(folder, run_json):
    # The two known rows of different kind lie in the same group, so only the option can part them.
    put_kinds({0: "red", 1: "blue", 30: "blue"})
    code, told = run_json("fit d.csv -k 2 --id-column who --partial-labels kind")
    labels = told["labels"]
    assert code == 0 and told["known_labels"] == {"blue": labels[30], "red": labels[0]}
    assert labels[0] != labels[1] == labels[30]


def test_names_of_known_labels_are_written(folder, run):
    put_kinds({0: "7", 30: "12"})  # names that are numbers, too
    line = "fit d.csv -k 3 --id-column who --partial-labels kind --n-resamples 0"
    code, out, _ = run(f"{line} --out l.csv --model m.skops")
    assert code == 0 and re.search(r"rows +share +class .*\n +0 .*% +7 .*\n +1 .*% +12 ", out)
    lines = [line.split(",")[:3] for line in Path("l.csv").read_text().splitlines()]
    assert lines[0] == ["who", "cluster", "class"]
    names = dict(line[1:] for line in lines[1:])
    assert names == {lines[1][1]: "7", lines[31][1]: "12"} | {"2": ""}
    again = run("predict m.skops d.csv --id-column who")[1].splitlines()
    assert [line.split(",")[:3] for line in again] == lines
    told = run("predict m.skops d.csv --id-column who --out n.csv")[1]
    assert re.search(r"rows +share +class *\n +0 .*% +7 *\n +1 .*% +12 *\n", told)


def test_bad_known_labels_are_explained(folder, run):
    put_kinds({1: "?"})
    code, _, err = run("fit d.csv -k 2 --id-column who --partial-labels kind")
    assert code == 1 and "column 'kind' holds no known label" in err
    code, _, err = run("fit d.csv -k 2 --id-column who --partial-labels kinds")
    assert code == 1 and "there is no column 'kinds'. Did you mean 'kind'?" in err


# -- how it ends -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line, message",
    [
        ("", "a command is needed"),
        ("fti d.csv", "invalid choice: 'fti'"),
        ("fitt d.csv", "did you mean fit?"),
        ("fit d.csv --method alternate", "did you mean alternating?"),
        ("fit d.csv --constraints l.csv", "did you mean --links?"),
        ("info d.csv", "info takes no file: use report"),
        ("fit d.csv -k three", "must be a whole number above 0, got 'three'"),
        ("fit d.csv --method alternating -k 2 --kernel gaussian", "did you mean rbf?"),
        ("fit d.csv --kernel gauss", "did you mean rbf?"),
        ("fit d.csv --method alternating", "--method alternating needs -k"),
        ("fit d.csv --loss hinge", "--loss does not apply to --method auto"),
        ("fit d.csv -k two", "whole number above 0"),
        ("fit d.csv -k 0", "whole number above 0"),
        ("fit d.csv -k 2 --method pairwise --gamma wide", "a number above 0 or none, got 'wide'"),
        ("fit d.csv -k 2 --balance 2", "--balance must be a number from 0 to 1, got '2'"),
        ("fit d.csv -k 2 --n-init many", "--n-init must be auto or a whole number from 1, got"),
        ("fit d.csv -k 2 --colour red", "unrecognized arguments: --colour red"),
        ("fit d.csv -k 2 --method alternating --loss l1", "must be hinge, laplacian or squared"),
        ("fit d.csv -k 2 --seed x", "--seed must be a whole number from 0, got 'x'"),
        ("fit d.csv -k 2 --out d.csv", "--out d.csv would overwrite d.csv"),
        ("fit d.csv -k 2 --out ./d.csv", "--out ./d.csv would overwrite d.csv"),
        ("fit d.csv -k 2 --out l.csv --plot l.csv", "--plot l.csv: do not know"),
        ("fit d.csv -k 2 --model m.pkl --plot ./m.png --out d.csv", "would overwrite d.csv"),
        ("label d.csv -k 2 --drop a b", "arguments: b; separate names by commas"),
        ("fit d.csv -k 2 --out l.xls", "do not know how to write .xls. Use one of .csv"),
        ("fit d.csv -k 2 --model m.txt", "do not know how to write .txt. Use one of .skops"),
        ("fit d.csv -k 2 --plot none/p.png", "there is no folder none"),
        ("predict m.skops d.csv --out d.csv", "would overwrite d.csv"),
    ],
)
def test_bad_usage_is_code_2(folder, run, line, message):
    code, out, err = run(line)
    assert (code, out) == (2, "") and message in err
    assert err.startswith("maxmargin: ") and err.count("\n") == 1
    assert files(folder) == ["d.csv"]


@pytest.mark.parametrize(
    "line, message",
    [
        ("fit none.csv -k 2", "none.csv does not exist"),
        ("fit d.csv -k 2 --drop a,b,c", "no column can be clustered ('who': names the rows)"),
        ("fit d.csv -k 41 --drop who", "d.csv has 40 rows, fewer than -k 41. Ask for fewer"),
        ("fit d.csv -k 3 --drop who --max-samples 2", "--max-samples 2 is less than -k 3"),
        ("fit d.csv -k 2 --drop whom", "Did you mean 'who'?"),
        ("label d.csv -k 2 --drop a;b", "Separate the names by commas: a,b"),
        ("predict none.skops d.csv", "none.skops does not exist"),
        ("predict d.csv m.skops", "the model comes first, then the data"),
        ("check none.csv", None),
    ],
)
def test_failure_is_code_1_and_writes_nothing(folder, run, run_json, line, message):
    out = "" if line.startswith("check") else " --out l.csv"
    code, stdout, err = run(line + out)
    assert code == 1 and "Traceback" not in err
    if message:
        assert stdout == "" and message in err and err.count("\n") == 1
    code, told = run_json(line + out)
    assert code == 1 and not told["ok"] and told["command"] == line.split()[0]
    assert (message or "does not exist") in json.dumps(told)
    assert files(folder) == ["d.csv"]


def values_for(name, rules):
    """Words for an option, and the values that they stand for, by the rules of the parameter."""
    for rule in rules:
        if isinstance(rule, StrOptions):
            yield from ((word, word) for word in rule.options - {"precomputed"})
        elif isinstance(rule, Interval):
            value = generate_valid_param(rule)
            yield str(value), value
        elif rule is None:
            yield "none", None
        elif rule == "boolean":
            yield from (("true", True), ("false", False), ("yes", True), ("no", False))
        elif rule in ("random_state", numbers.Integral):
            yield "11", 11


@pytest.mark.parametrize("name", methods.METHODS)
def test_every_parameter_is_an_option_with_help(name, run):
    cls = getattr(maxmargin, methods.METHODS[name])
    told = " ".join(run("fit --help-all")[1].split())
    parser = cli.make_parser("fit")
    for option, rules in cls._parameter_constraints.items():
        values = [] if option in methods.NOT_OPTIONS else list(values_for(option, rules))
        if option in ("estimator", "views"):  # no words say what they are
            assert not [value for _, value in values if value is not None]
            continue
        assert values or option in methods.NOT_OPTIONS
        for text, value in values:
            flag = f"--{option.replace('_', '-')}"
            args = parser.parse_args(["fit", "d.csv", "-k", "4", f"{flag}={text}"])
            given = methods.given_options(args)
            assert set(given) == {option, "random_state"}
            model = methods.build_estimator(name, 4, given)
            assert model.n_clusters == 4 and getattr(model, option) == value
            assert re.search(rf"{flag} VALUE \S+ .{{20,}}", told)


def test_options_of_the_two_way_method_reach_it(run):
    options = {"loss": "hinge", "split_by": "size", "random_state": 3}
    model = methods.build_estimator("bisecting", 4, options)
    assert (model.n_clusters, model.split_by, model.random_state) == (4, "size", 3)
    assert (model.estimator.loss, model.estimator.random_state) == ("hinge", 3)
    code, _, err = run("fit d.csv -k 4 --method bisecting --search shaking")
    assert code == 2 and "--search does not apply to --method bisecting" in err


def test_help_tells_what_each_method_takes_and_its_defaults(run):
    short = run("fit --help")[1]
    assert "--help-all" in short and "--balance" in short and "--loss" not in short
    assert "--partial-labels" not in run("label --help")[1]
    told = " ".join(run("fit --help-all")[1].split())
    assert re.search(r"--loss VALUE .* \(alternating: hinge, .* \[laplacian\]; pairwise", told)
    assert told.startswith("usage: maxmargin fit [options] DATA Cluster the rows")
    assert told.index("--out") < told.index("--method METHOD") < told.index("--memory")
    assert re.search(r"--degree VALUE [^()]+ \([^()]+: a number from 0 \[3\]\)", told)
    assert "callable" not in told and "True" not in told and "None" not in told
    assert re.search(r"--seed(?: VALUE)?, --random-state VALUE [^()]+ \(default: 0\)", told)


@pytest.mark.parametrize("package", cli.PACKAGES)
def test_a_missing_package_names_the_extra(folder, run, monkeypatch, package):
    find = cli.find_spec
    monkeypatch.setattr(cli, "find_spec", lambda name: None if name == package else find(name))
    code, out, err = run("check d.csv")
    assert (code, out) == (1, "") and err.count("\n") == 1
    assert package in err and f'{sys.executable} -m pip install "maxmargin[cli]"' in err
    assert run("info")[0] == 0
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    assert [line.partition(">=")[0] for line in extras["cli"]] == list(cli.PACKAGES)


def test_interrupt_is_code_130_and_leaves_no_file(folder, run, ctrl_c):
    assert run("fit d.csv -k 2 --drop who")[0] == 0  # compiles: a signal is lost in there
    np.save("big.npy", RNG.normal(size=(3000, 20)))
    Path("l.csv").write_text("old")
    over = threading.Event()

    def interrupt():
        while not over.wait(1.0):
            os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    start = time.monotonic()
    thread.start()
    try:
        code, out, err = run("fit big.npy -k 2 --n-init 100000 --out l.csv --model m.skops")
    finally:
        over.set()
    thread.join()
    assert (code, out, err) == (130, "", "maxmargin: interrupted\n")
    assert time.monotonic() - start < 5
    assert Path("l.csv").read_text() == "old" and files(folder) == ["big.npy", "d.csv", "l.csv"]


def test_interrupt_while_writing_leaves_no_file(folder, run, monkeypatch):
    def interrupted(file, columns):
        file.write("who,clus")
        raise KeyboardInterrupt

    monkeypatch.setattr("maxmargin.io.write_csv", interrupted)
    assert run("fit d.csv -k 2 --drop who --out l.csv")[0] == 130
    assert files(folder) == ["d.csv"]


@pytest.mark.parametrize("line", ["fit d.csv -k 2 --drop who", "fit e.npy -k 2 --memory 2GiB"])
def test_all_outputs_are_written_or_none(folder, run, monkeypatch, line):
    def full(model, path, **options):
        Path(path).write_text("half")
        raise OSError(28, "No space left on device")

    np.save("e.npy", X)
    Path("l.csv").write_text("old")
    monkeypatch.setattr("skops.io.dump", full)
    code, _, err = run(f"{line} --out l.csv --model m.skops")
    assert code == 1 and "No space left" in err
    assert Path("l.csv").read_text() == "old" and files(folder) == ["d.csv", "e.npy", "l.csv"]
    code, _, err = run(f"{line} --out new.csv --model m.skops")
    assert code == 1 and files(folder) == ["d.csv", "e.npy", "l.csv"]


@pytest.mark.parametrize("option", ["--out", "--model", "--plot"])
def test_names_that_are_too_long_are_refused_before_the_fit(folder, run, monkeypatch, option):
    monkeypatch.setattr("maxmargin.io.read_rows", lambda *a, **k: pytest.fail("it went on"))
    suffix = {"--out": "csv", "--model": "skops", "--plot": "png"}[option]
    code, _, err = run(f"fit d.csv -k 2 {option} {'x' * 252}.{suffix}")
    assert code == 2 and "name too long" in err.lower() and err.count("\n") == 1


def test_links_and_answers_are_not_overwritten(folder, run):
    for line in ("fit d.csv -k 2 --links k.csv", "label d.csv -k 2 --answers k.csv"):
        code, _, err = run(f"{line} --out k.csv")
        assert code == 2 and "--out k.csv would overwrite k.csv" in err
    code, _, err = run("label d.csv -k 2 --out d.links.csv")
    assert code == 2 and "--out d.links.csv would overwrite d.links.csv" in err


def test_what_is_no_file_of_rows_is_explained(folder, run):
    os.mkfifo("pipe.csv")
    Path("loop.csv").symlink_to("loop.csv")
    np.save("e.npy", X)
    content = Path("e.npy").read_bytes()
    claimed = b"(1099511627776, 3), }"
    assert b"(40, 3), }" + b" " * 11 in content
    Path("big.npy").write_bytes(content.replace(b"(40, 3), }" + b" " * 11, claimed))
    Path("bad.npy").write_bytes(content.replace(b"'shape'", b"'sha(e'"))
    os.mkdir("folder")
    for name, message in {
        "folder": "folder is a folder. Name one file in it",
        "pipe.csv": "is not a plain file",
        "loop.csv": "is a symbolic link that leads to itself",
        "big.npy": "damaged",
        "bad.npy": "damaged",
    }.items():
        for more in ("", " --memory 2GiB"):
            code, _, err = run(f"fit {name} -k 2{more}")
            assert code == 1 and message in err and err.count("\n") == 1, err


def test_a_bug_shows_its_traceback_and_still_gives_json(folder, run, monkeypatch):
    def broken(args):
        raise TypeError("oops")

    monkeypatch.setattr(info, "run", broken)
    code, out, err = run("info --json")
    assert code == 1 and "oops" in json.loads(out)["error"] and "Traceback" in err


def test_warnings_are_one_line_on_stderr_and_in_the_json(folder, run, monkeypatch):
    def fit(self, X, y=None, **known):
        warnings.warn("labels\n did not settle", UserWarning, stacklevel=2)
        print("chatter")
        return original(self, X, y, **known)

    original = AlternatingMarginClustering.fit
    monkeypatch.setattr(AlternatingMarginClustering, "fit", fit)
    code, out, err = run("fit d.csv -k 2 --method alternating --drop who --json")
    assert code == 0 and json.loads(out)["warnings"] == ["labels did not settle"]
    assert err == "maxmargin: warning: labels did not settle\nchatter\n"


class Recorder:
    def __init__(self):
        self.iterations = 0

    def setup(self, estimator, context): ...
    def teardown(self, estimator, context): ...
    def on_fit_task_begin(self, estimator, context): ...

    def on_fit_task_end(self, estimator, context):
        self.iterations += 1


@pytest.mark.parametrize("terminal", [True, False])
def test_progress_only_on_a_terminal(folder, run, monkeypatch, terminal):
    recorder = Recorder()
    monkeypatch.setattr("maxmargin._callbacks.progress_callbacks", lambda: [recorder])
    monkeypatch.setattr(type(sys.stderr), "isatty", lambda self: terminal, raising=False)
    monkeypatch.setattr("sys.stderr.isatty", lambda: terminal)
    assert run("fit d.csv -k 2 --drop who --model m.skops")[0] == 0
    assert (recorder.iterations > 0) == terminal
    assert not hasattr(load_model("m.skops"), "_skl_callbacks")


# -- check, info, demo, help -----------------------------------------------------------------------


def test_check_tells_everything_and_its_code(folder, run, run_json):
    code, out, _ = run("check d.csv")
    assert code == 0 and re.search(r"who +left out +names the rows", out)
    code, out, _ = run("check d.csv --drop a,b,c")
    assert code == 1 and "error: no column can be clustered" in out
    assert "what to do: Say how" in out and out.endswith("not usable as it is\n")
    code, out, _ = run("check d.csv --id-column who -k 2")
    assert code == 0 and out.endswith("usable\n") and "40 rows, 3 columns" in out
    code, told = run_json("check d.csv --id-column who -k 41")
    assert code == 1 and not told["ok"]
    assert "only 40 distinct rows" in told["findings"][0]["what"]


def test_check_tells_the_memory_that_fit_needs(folder, run, run_json, monkeypatch):
    np.save("e.npy", X)
    needed = run_json("check e.npy -k 2")[1]["memory_needed"]
    for free, expected in ((needed, 0), (needed - 1, 1)):
        monkeypatch.setattr("maxmargin._base.available_memory", lambda free=free: free)
        code, _, err = run("fit e.npy -k 2")
        assert code == expected and ("are available" in err) == (code == 1)


def test_check_warns_of_a_fit_too_large_for_the_machine(folder, run, monkeypatch):
    monkeypatch.setattr("maxmargin._base.available_memory", lambda: 1000.0)
    code, out, _ = run("check d.csv --id-column who")
    assert code == 0 and "1 kB are free" in out and "--max-samples" in out


def test_info_names_versions_and_extras(run, run_json):
    import sklearn

    code, told = run_json("info")
    assert code == 0 and told["libraries"]["scikit-learn"] == sklearn.__version__
    assert set(told["extras"]["images"]) == {"pillow"}
    assert "lint" not in told["extras"] and told["processors"] == os.cpu_count()
    assert f"maxmargin {told['maxmargin']}, Python 3." in run("info")[1]


def test_demo_compares_and_writes(folder, run, monkeypatch):
    monkeypatch.setattr(demo, "STEP", 9)
    code, out, err = run("demo --out demo")
    assert code == 0 and "k-means" in out and "with 20 labels" in out and "warning" not in err
    for path in ("digits.csv", "digits-labels.csv", "digits.skops", "digits.png", "report.html"):
        assert Path("demo", path).stat().st_size > 0 and f"demo/{path}" in out
    data, model = read_rows("demo/digits.csv"), load_model("demo/digits.skops")
    labels = read_rows("demo/digits-labels.csv")
    assert labels.column_names == ("row", "cluster", "margin", "confidence", "outlier")
    np.testing.assert_array_equal(model.predict(data.X), labels.X[:, 1])
    commands = re.findall(r"^  maxmargin (\w+) (.*)$", out, re.M)
    assert [name for name, _ in commands] == ["check", "fit", "report"]
    for name, rest in commands:
        assert cli.make_parser(name).parse_args([name, *rest.split()]).command == name


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_help_has_an_example_that_parses(run, name):
    code, out, _ = run(f"{name} --help")
    example = cli.COMMANDS[name].EXAMPLE
    assert code == 0 and f"Example:\n  {example}\n" in out
    assert cli.make_parser(name).parse_args(example.split()[1:]).command == name


def test_version(run):
    assert run("--version")[1] == f"maxmargin {maxmargin.__version__}\n"


def test_help_imports_nothing_heavy():
    code = (
        "import sys; from maxmargin.cli.main import main; main(['--help']);"
        "print({'numpy', 'sklearn', 'numba', 'pandas', 'matplotlib'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("set()\n")


def test_module_runs_and_a_closed_pipe_is_no_failure():
    command = [sys.executable, "-m", "maxmargin", "info", "--json"]
    whole = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(whole.stdout)["command"] == "info"
    closed = subprocess.run(
        ["sh", "-c", '"$@" | true', "sh", *command], capture_output=True, text=True
    )
    assert closed.stderr == ""
