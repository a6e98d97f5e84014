"""Ordinary tables with their troubles are clustered by the file's name alone, and say how."""

from __future__ import annotations

import io
import json
import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn import config_context

import maxmargin
from maxmargin import MaxMarginClustering, choose_n_clusters, table_pipeline
from maxmargin._answers import AnswerLog, read_answers
from maxmargin.cli import label
from maxmargin.cli import main as cli
from maxmargin.io import read_rows, read_table
from maxmargin.persistence import load_model
from maxmargin.tables import table_columns

pd = pytest.importorskip("pandas")

# What fit sets for tables with categories: 0/1 columns leave gaps that are none between clusters.
SETTINGS = {"n_clusters": 2, "n_resamples": 0, "spreads": False, "random_state": 0}
ROOT = Path(__file__).parents[2]
N = 36
RNG = np.random.default_rng(0)
OLD = np.arange(N) % 3 > 0  # 24 and 12 rows
AGE = np.where(OLD, 70.0, 20.0) + RNG.normal(size=N).round(2)
PAY = np.where(OLD, 9000.0, 1000.0) + RNG.normal(size=N).round(2) * 100
NOISE = RNG.normal(size=N).round(3)


def text(*columns, sep=",", header="age,noise", end=""):
    """A csv file of columns of strings."""
    lines = [sep.join(cells) + end for cells in zip(*columns)]
    return "\n".join([header.replace(",", sep) + end, *lines, ""])


def numbers(values):
    return [str(value) for value in values.tolist()]


def comma(values):
    return [cell.replace(".", ",") for cell in numbers(values)]


def thousands(values):
    return [f"{value:,.2f}".translate(str.maketrans(",.", ".,")) for value in values.tolist()]


def holes(cells, mark):
    return [mark if i % 9 == 4 else cell for i, cell in enumerate(cells)]


DAYS = [f"{1 + i % 28:02}.{1 + i % 12:02}.{2020 if old else 2001}" for i, old in enumerate(OLD)]
TOWN = np.where(OLD, "Oslo", "São Paulo").tolist()
SAID = np.where(OLD, "old wine tastes of dark wood", "young cheese with fresh white milk").tolist()
SAID = [" ".join(RNG.permutation(words.split())) for words in SAID]
MANY = [f"code{i % 30}" for i in range(N)]
QUOTED = [f'"a, ""b"" {i}"' for i in range(N)]

# The file's bytes, and what is said of its columns.
FILES = {
    "separator and decimal comma": (
        text(comma(AGE), comma(NOISE), sep=";"),
        {"age": "", "noise": ""},
    ),
    "thousands": (
        text(thousands(PAY), thousands(NOISE), sep=";", header="pay,noise"),
        {"pay": "number decimal comma; unit variance", "noise": ""},
    ),
    "Windows encoding": (
        text(numbers(AGE), TOWN, header="age,città").encode("cp1252"),
        {"age": "number unit variance", "città": "category 2 levels"},
    ),
    "UTF-16 from a spreadsheet": (
        text(numbers(AGE), TOWN, sep="\t", header="age,town").encode("utf-16"),
        {"age": "number unit variance", "town": "category 2 levels"},
    ),
    "quotes": (
        text(numbers(AGE), QUOTED, header="age,who"),
        {"age": "number", "who": "left out names the rows"},
    ),
    "missing values": (
        text(numbers(PAY), holes(numbers(AGE), "#N/A"), holes(numbers(NOISE), ""),
             header="pay,age,noise"),
        {"age": "number 4 missing values; median and a 0/1 column for missing; unit variance",
         "noise": "number 4 missing values"},
    ),
    "words among numbers": (
        text([*numbers(AGE)[:-1], "unknown"], numbers(NOISE)),
        {"age": "number 1 cell that is no number", "noise": "number unit variance"},
    ),
    "dates": (
        text([*DAYS[:-1], "soon"], numbers(AGE), header="since,age"),
        {"since": r"date days, month \(%d.%m.%Y\), 1 cell that cannot", "age": "number unit"},
    ),
    "booleans": (
        text(numbers(AGE), np.where(OLD, "true", "false").tolist(), header="age,alive"),
        {"age": "number unit variance", "alive": "category 2 levels"},
    ),
    "separators at line ends": (
        text(numbers(AGE), numbers(NOISE), sep=";", end=";"),
        {"age": "", "noise": ""},
    ),
    "categories, constants and ids": (
        text(numbers(np.arange(N)), numbers(AGE), ["x"] * N, MANY, header="PersonId,age,all,code"),
        {"PersonId": "left out names or counts the rows", "all": "left out the same value",
         "code": r"left out names or codes: 30 different values", "age": "number"},
    ),
    "free text": (
        text(numbers(AGE), SAID, header="age,said"),
        {"age": "number unit variance", "said": "text 12 words"},
    ),
    "the line for Excel": (
        "sep=;\n" + text(numbers(AGE), numbers(NOISE), sep=";"),
        {"age": "", "noise": ""},
    ),
}  # fmt: skip


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Run a command in an empty folder; returns what --json prints."""
    monkeypatch.chdir(tmp_path)

    def call(line):
        capsys.readouterr()
        code = cli.main([*line.split(), "--json"])
        told = json.loads(capsys.readouterr().out)
        assert code == 0, told
        return told

    return call


def put(name, content):
    Path(name).write_bytes(content.encode() if isinstance(content, str) else content)


def said(told):
    """What the command line prints of the columns."""

    from rich.console import Console

    out = io.StringIO()
    for part in cli.COMMANDS["check"].told_columns(told["columns"]):
        Console(width=200, file=out).print(part)
    return " ".join(out.getvalue().split())


@pytest.mark.parametrize("trouble", FILES)
def test_hostile_but_ordinary_files_need_only_their_name(run, trouble):
    content, columns = FILES[trouble]
    put("d.csv", content)
    told = run("fit d.csv --n-resamples 0")
    # The two groups are far apart in what the file holds of them.
    assert told["cluster_sizes"] == [24, 12], told
    assert [told["labels"][i] for i in range(3)] == [1, 0, 0]
    line = said(told)
    for name, what in columns.items():
        assert name in [column["name"] for column in told["columns"]]
        assert not what or re.search(rf"{name} {what}", line), line
    assert bool(line) == any(columns.values())
    assert said(run("check d.csv")) == line
    assert all(sentence.startswith("cluster ") for sentence in told["descriptions"])


def titanic(n=90, seed=0):
    rng = np.random.default_rng(seed)
    first = rng.random(n) < 0.4
    return first, pd.DataFrame({
        "PassengerId": np.arange(1, n + 1) + 1000 * seed,
        "Name": [f"Name{i}, Mr. First{i}" for i in range(n)],
        "Age": pd.Series(np.where(first, 55, 25) + rng.normal(size=n)).where(rng.random(n) > 0.2),
        "Fare": np.where(first, 90, 10) + rng.exponential(4, n),
        "Sex": rng.choice(["male", "female"], n),
        "Cabin": np.where(rng.random(n) < 0.7, None, [f"C{i}" for i in range(n)]),
        "Embarked": np.where(first, "C", "S"),
    })  # fmt: skip


def census(n=90, seed=0):
    rng = np.random.default_rng(seed)
    city = rng.random(n) < 0.5
    towns = np.array([f"town{i}" for i in range(40)])
    since = pd.Timestamp("1990-01-01") + pd.to_timedelta(rng.integers(9000, size=n), unit="D")
    return city, pd.DataFrame({
        "hours": np.where(city, 40, 10) + rng.normal(size=n),
        "town": np.where(city, rng.choice(towns[:3], n), rng.choice(towns[3:], n)),
        "owner": np.where(city, "no", "yes"),
        "since": since,
        "weight": rng.lognormal(size=n),
        "job": [" ".join(rng.permutation(words.split())) for words in np.where(
            city, "office desk computer meeting phone paper coffee",
            "field tractor harvest barn cattle milk fence").tolist()],
    })  # fmt: skip


@pytest.mark.parametrize("make", [titanic, census])
def test_mixed_tables_and_new_rows(make):
    truth, frame = make()
    model = table_pipeline(frame, MaxMarginClustering(**SETTINGS)).fit(frame)
    labels = model[-1].labels_
    assert max((labels == truth).mean(), (labels != truth).mean()) > 0.97
    truth, new = make(60, seed=1)
    new["new column"] = 1
    category = "Embarked" if make is titanic else "town"
    new[category] = new[category].astype(object)
    new.loc[:9, category] = "never seen"
    new.loc[10:19] = None
    predicted = model.predict(new)
    assert max((predicted[20:] == truth[20:]).mean(), (predicted[20:] != truth[20:]).mean()) > 0.97
    assert set(predicted[:20]) <= {0, 1}
    # The order of columns and types that another reader chose do not matter.
    strings = new.astype({"new column": str}).sample(frac=1, axis=1, random_state=0)
    strings = strings.astype(object).where(strings.notna(), None)
    np.testing.assert_array_equal(model.predict(strings), predicted)


def test_fit_predict_label_and_python_agree_on_all_rows(run, monkeypatch):
    _, frame = census(40)
    frame.loc[:5, "hours"] = None
    frame.to_csv("t.csv", index=False)
    read = read_table("t.csv").X
    for options in ("", " --standardize --column hours=number", " --text job", " --drop job,town"):
        told = run(f"fit t.csv -k 2 --n-resamples 0 --model m.skops{options}")
        assert run("predict m.skops t.csv")["labels"] == told["labels"]
        run(f"fit t.csv -k 2 --n-resamples 1 --out f.csv --model n.skops{options}")
        run("predict n.skops t.csv --out p.csv")  # also equal confidence and outliers
        assert Path("p.csv").read_text() == Path("f.csv").read_text()
        model = load_model("m.skops")
        assert model.predict(read).tolist() == told["labels"]
        assert model.predict(frame).tolist() == told["labels"]  # types of another reader
        estimator = MaxMarginClustering(**SETTINGS)
        kinds = {"hours": "number"} if "column" in options else {}
        if "text" in options:
            estimator.set_params(spreads=True)
            kinds = dict.fromkeys(frame.columns, "drop") | {"job": "text"}
        if "drop" in options:
            kinds = {"job": "drop", "town": "drop"}
        python = table_pipeline(read, estimator, kinds).fit(read)
        assert python.predict(read).tolist() == told["labels"]
    monkeypatch.setattr("sys.stdin", io.StringIO("s\nd\nq\n"))
    run("label t.csv -k 2 --out l.csv --model m.skops --standardize")
    labels = read_rows("l.csv").X[:, 1].astype(int).tolist()
    assert run("predict m.skops t.csv")["labels"] == labels
    assert load_model("m.skops").predict(frame).tolist() == labels


def test_predict_tells_cells_that_it_cannot_read(run):
    _, frame = census(40)
    frame.to_csv("t.csv", index=False)
    run("fit t.csv -k 2 --drop job --n-resamples 0 --model m.skops")
    assert run("predict m.skops t.csv")["warnings"] == []
    strings = frame.astype(str)
    strings.loc[3, "since"], strings.loc[4:5, "owner"], strings.loc[6, "hours"] = "May", "?!", "x"
    strings.loc[7:8, "town"], strings.loc[9, "since"] = "Rome", ""
    strings.to_csv("n.csv", index=False)
    told = sorted(run("predict m.skops n.csv")["warnings"])
    missing = "they are treated as missing"
    assert told == [
        f"column 'hours': 1 cell with no number, such as 'x'; {missing}",
        "column 'owner': 2 cells with a level not seen in the fit, such as '?!'; they count as no "
        "level",
        f"column 'since': 1 cell with no date that can be read, such as 'May'; {missing}",
        "column 'town': 2 cells with a level not seen in the fit, such as 'Rome'; they count as "
        "rare levels",
    ]


def test_label_shows_rows_in_columns_and_says_how_to_go_on(run, monkeypatch, capsys):
    _, frame = census(40)
    frame.insert(0, "who", [f"person number {i}" for i in range(40)])
    frame.to_csv("t.csv", index=False)
    monkeypatch.setattr("sys.stdin", io.StringIO("q\n"))
    assert cli.main(["label", "t.csv", "-k", "2", "--drop", "job"]) == 0
    out, err = capsys.readouterr()
    shown = err[err.index(" " * 6) :].splitlines()[:6]
    starts = [[m.start() for m in re.finditer(r"(?<=  )\S", line)] for line in shown]
    assert all(row == starts[0] for row in starts) and len(starts[0]) == 2
    assert "No constraints" not in err and "these are the clusters without answers" in out
    assert "wrote t.links.csv (answers)" in out and "run the same command again" in out


def test_label_shows_columns_in_the_order_of_the_file():
    frame = pd.DataFrame({f"c{j:02}": [0.0, float(j > 4)] for j in range(25)})
    frame.loc[0, "c24"] = np.nan
    names, cells = (list(c.cells) for c in label.side_by_side(frame, None, 0, 1).columns[:2])
    assert names == [*frame.columns[5:], "and 5 more, which differ less"]
    assert cells[names.index("c24")] == "(empty)"


def test_words_of_text_tell_the_clusters(run):
    _, frame = census(40)
    frame.to_csv("t.csv", index=False)
    told = run("fit t.csv -k 2 --text job --n-resamples 0")
    assert [c["name"] for c in told["columns"] if c["used"]] == ["job"]
    assert any("tractor" in line or "barn" in line for line in told["descriptions"])


def test_tables_are_refused_with_the_call_that_takes_them():
    frame = pd.DataFrame({"way": ["web", "shop"] * 10, "spent": range(20)})
    for function in (MaxMarginClustering().fit, choose_n_clusters):
        with pytest.raises(ValueError, match=r"to float: 'web'. For a table .* use .*table_pip"):
            function(frame)
        with pytest.raises(ValueError, match=r"contains NaN. For a table .* use .*table_pipeline"):
            function(frame[["spent"]].where(frame["spent"] > 3))
        with pytest.raises(ValueError, match=r"contains NaN. Impute them \(sklearn.impute.Simple"):
            function(np.where(NOISE > 0, NOISE, np.nan)[:, None])
    with pytest.raises(ValueError, match=r"'web'$"):
        choose_n_clusters(frame.to_numpy())
    prepared = table_pipeline(frame, MaxMarginClustering())[:-1].fit_transform(frame)
    assert choose_n_clusters(prepared, random_state=0).n_clusters >= 1


def test_kinds_can_be_given_and_are_checked(run, capsys):
    frame = pd.DataFrame(
        {"zip": [1010, 1020] * 10, "x": NOISE[:20], "who": [f"w{i}" for i in range(20)]}
    )
    assert [c.kind for c in table_columns(frame, {"zip": "category"})] == [
        "category",
        "number",
        "category",
    ]
    assert table_columns(frame, {"who": "category"})[2].used
    frame.to_csv("z.csv", index=False)
    told = run("fit z.csv -k 2 --column zip=category --column x=drop --n-resamples 0")
    assert told["cluster_sizes"] == [10, 10] and told["exemplars"][0].startswith("w")
    for line, code, message in (
        ("fit z.csv --column zip=colour", 2, "'zip=colour' is not NAME=KIND"),
        ("fit z.csv --column zap=number", 1, "there is no column 'zap'. Did you mean 'zip'?"),
        ("fit z.csv --text whom", 1, "Did you mean 'who'?"),
        ("fit z.csv --column who=number", 1, "'who' is to be used as number, but no cell is"),
        ("fit z.csv --column who=date", 1, "'who' is to be used as date, but no cell is"),
        ("fit z.csv --drop x,zip", 1, "--column who=category"),
    ):
        assert cli.main(line.split()) == code
        assert message in capsys.readouterr().err
    with pytest.raises(ValueError, match=r"kinds names 'zap'.* Did you mean 'zip'?"):
        table_columns(frame, {"zap": "number"})
    with pytest.raises(ValueError, match="must be one of"):
        table_columns(frame, {"zip": "zebra"})
    with pytest.raises(ValueError, match="frame must be a DataFrame, got list"):
        table_pipeline([1], None)
    with pytest.raises(TypeError, match=r"an instance: MaxMarginClustering\(\), not the"):
        table_pipeline(frame, MaxMarginClustering)
    with pytest.raises(TypeError, match=r"a clusterer such as MaxMarginClustering\(3\), got 3"):
        table_pipeline(frame, 3)
    with pytest.raises(TypeError, match="The frame comes first"):
        table_pipeline(MaxMarginClustering(), frame)
    with pytest.raises(ValueError, match="no column can be clustered"):
        table_pipeline(frame[["who"]], None)


def test_columns_that_new_rows_lack_are_told(run, capsys):
    kinds, notes = ["a", "b"] * 10, ["good warm wine", "cold dry beer"] * 10
    days = pd.date_range("2024-01-01", periods=20).astype(str)
    frame = pd.DataFrame({"x": NOISE[:20], "y": np.arange(20.0) % 2, "kind": kinds, "day": days})
    frame["note"] = notes
    frame.to_csv("f.csv", index=False)
    run("fit f.csv -k 2 --column note=text --column day=date --n-resamples 0 --model f.skops")
    frame.assign(x=np.nan, kind=np.nan, day=np.nan, note=np.nan).to_csv("g.csv", index=False)
    frame.drop(columns="x").to_csv("h.csv", index=False)
    capsys.readouterr()
    assert cli.main(["predict", "f.skops", "g.csv"]) == 0
    told = capsys.readouterr().err
    for name in ("x", "kind", "day", "note"):
        assert f"column {name!r} is empty, although the model was fitted" in told
    assert cli.main(["predict", "f.skops", "h.csv"]) == 1
    told = capsys.readouterr().err
    assert "no column 'x', which the model was fitted with" in told and "may be empty" in told


def test_cells_that_cannot_be_read_and_absent_columns_are_told_in_python_too(run):
    frame = pd.DataFrame({"age": AGE, "noise": NOISE, "town": TOWN, "all": ["x"] * N})
    pipe = table_pipeline(frame, MaxMarginClustering(**SETTINGS)).fit(frame)
    told = "column 'age': 36 cells with no number, such as 'abc'; they are treated as missing"
    with pytest.warns(UserWarning) as seen:
        pipe.predict(frame.assign(age="abc"))
    assert [str(warning.message) for warning in seen] == [told]
    some = frame.assign(age=[*numbers(AGE)[:-1], "n/a?"])
    with pytest.warns(UserWarning, match="column 'age': 1 cell with no number, such as 'n/a\\?'"):
        table_pipeline(frame, MaxMarginClustering(**SETTINGS)).fit(some)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pipe.predict(frame.drop(columns="all"))  # which is not used
    missing = r"there is no column 'age', which the model was fitted with. .* Did you mean 'AGE'\?"
    with pytest.raises(ValueError, match=missing):
        pipe.predict(frame.rename(columns={"age": "AGE"}))
    with pytest.raises(ValueError, match=r"there is no column 'age', which .* It has 0, noise"):
        pipe.predict(frame.rename(columns={"age": 0}))
    for method in (pipe.predict, pipe.fit):
        with pytest.raises(ValueError, match="DataFrame with the columns of the fit, got nd"):
            method(frame.to_numpy())
    frame.to_csv("f.csv", index=False)
    frame.assign(age="abc").to_csv("g.csv", index=False)
    run("fit f.csv -k 2 --n-resamples 1 --model m.skops")
    for command in ("predict m.skops g.csv", "report m.skops g.csv"):
        assert run(command)["warnings"].count(told) == 1


def test_check_names_cells_that_are_no_numbers_and_units(run):
    cells = [*numbers(PAY), *numbers(PAY)]
    cells[5], cells[17] = "n/a?", "1,450"
    frame = pd.DataFrame({"pay": cells, "noise": [*NOISE, *NOISE[::-1]]})
    frame["speed"] = [f"{1500 + i % 7} rpm" for i in range(2 * N)]
    frame["flat"] = [f"{i % 7}{'ab'[i % 2]}" for i in range(2 * N)]
    frame.to_csv("d.csv", index=False)
    Path("d.csv").write_text(Path("d.csv").read_text().replace("\n", "\n\n", 1))
    found = {told["what"]: told for told in run("check d.csv")["findings"]}
    (second, first) = (told for what, told in found.items() if "pay" in what or "speed" in what)
    assert first["level"] == second["level"] == "warning"
    assert first["what"] == (
        "column 'pay': 2 cells that are no number ('n/a?' on line 8; '1,450' on line 20)"
    )
    assert second["what"] == "column 'speed' looks like a number with a unit, such as '1500 rpm'"
    assert second["remedy"] == "Remove ' rpm' from its cells"
    assert not any("flat" in what for what in found)
    # fit warns of the same, once, and names ids if they are given.
    frame.insert(0, "who", [f"w{i}" for i in range(2 * N)])
    frame.to_csv("e.csv", index=False)
    told = run("fit e.csv -k 2 --id-column who --n-resamples 0")["warnings"]
    (named,) = (line for line in told if "'pay'" in line)
    assert "2 cells that are no number ('n/a?' for id 'w5'; '1,450' for id 'w17')" in named
    frame.to_parquet("f.parquet")
    told = run("fit f.parquet -k 2 --drop speed --n-resamples 0")["warnings"]
    assert len(told) == 1 and "('n/a?' in row 5, counting from 0; '1,450' in row" in told[0]


def test_fit_warns_of_codes_of_missing_values_but_not_of_repeated_rows(run):
    age = np.tile(AGE, 2)
    age[3], age[8] = 999, -999
    pd.DataFrame({"age": age, "noise": np.tile(NOISE, 2)}).to_csv("d.csv", index=False)
    (told,) = run("fit d.csv -k 2 --n-resamples 0")["warnings"]
    more = "(maxmargin check d.csv says more)"
    assert told == f"column 'age' has 2 values very far from the rest, such as 999 {more}"
    found = {told["what"]: told["level"] for told in run("check d.csv")["findings"]}
    assert found["rows that repeat an earlier one: 34 of 72"] == "note"


def test_logarithms_of_a_skewed_column(run):
    pay = np.exp(np.where(OLD, 9.0, 5.0) + 0.3 * NOISE)
    pay[3] = 1e9
    frame = pd.DataFrame({"pay": pay, "noise": NOISE, "comma": comma(pay.round(2))})
    model = table_pipeline(frame, MaxMarginClustering(**SETTINGS), {"pay": "log", "comma": "log"})
    features = model.fit(frame)[:-1].transform(frame)
    logs = (np.log(pay) - np.log(pay).mean()) / np.log(pay).std()
    np.testing.assert_allclose(features[:, 0], features[:, 2], atol=1e-3)
    assert min(abs(features - logs[:, None]).max(axis=0)) < 1e-12
    new = frame.assign(pay=[0.0, -1.0, *pay[2:]])
    with pytest.warns(UserWarning, match="'pay': 2 cells with no positive number, such as '0.0'"):
        np.testing.assert_array_equal(model.predict(new)[2:], model[-1].labels_[2:])
    (column, *_) = table_columns(new, {"pay": "log"})
    assert column.note == "logarithm, 2 cells that are no positive number"
    with pytest.raises(ValueError, match="used as log, but no cell is a positive number"):
        table_columns(-frame[["noise", "pay"]].abs(), {"pay": "log"})
    frame[["pay", "noise"]].to_csv("d.csv", index=False)
    (far,) = (told for told in run("check d.csv")["findings"] if "far from" in told["what"])
    option = far["remedy"].rpartition("take the logarithm with ")[2]
    assert option == "--column pay=log"
    told = run(f"fit d.csv -k 2 --n-resamples 0 {option} --model m.skops")
    assert not any("far from" in line for line in told["warnings"])
    assert told["labels"] == run("predict m.skops d.csv")["labels"]
    new[["pay", "noise"]].to_csv("e.csv", index=False)
    told = run(f"fit e.csv -k 2 --n-resamples 0 {option}")["warnings"]
    assert "column 'pay': 2 cells that are no positive number ('0.0' on line 2" in told[0]


def test_one_cluster_has_neither_margins_nor_confidence(run):
    pd.DataFrame({"x": NOISE, "y": NOISE[::-1]}).to_csv("n.csv", index=False)
    told = run("fit n.csv --out l.csv --model m.skops")
    assert told["n_clusters"] == 1 and told["stability"] is None and told["confidence"] == [None]
    run("predict m.skops n.csv --out p.csv")
    for name in ("l.csv", "p.csv"):
        head, first, *_ = Path(name).read_text().splitlines()
        assert head == "row,cluster,margin,confidence,outlier" and first[:-1] == "0,0,,,"
    told = run("predict m.skops n.csv")
    assert set(told["margins"]) == set(told["confidence"]) == {None}
    np.save("n.npy", np.column_stack([NOISE, NOISE[::-1]]))
    told = run("fit n.npy --memory 2GiB --out b.csv")
    assert told["confidence"] == [None] and told["n_clusters"] == 1
    assert Path("b.csv").read_text().splitlines()[1].startswith("0,0,,")


@pytest.mark.parametrize("container", ["pandas", "polars"])
def test_features_have_names(container):
    needed = pytest.importorskip(container)
    _, frame = census(40)
    frame["since"] = pd.to_datetime(frame["since"]) + pd.Timedelta(hours=1) * (frame.index % 24)
    frame.loc[3, "since"] = frame.loc[5, "hours"] = None
    frame.index = frame.index[::-1] + 7
    pipe = table_pipeline(frame, MaxMarginClustering(**SETTINGS), {"weight": "log"}).fit(frame)
    plain, labels = pipe[:-1].transform(frame), pipe[-1].labels_
    names = pipe[:-1].get_feature_names_out().tolist()
    assert len(set(names)) == len(names) == plain.shape[1]
    ours = {"number 0__hours", "number 1__weight", "missing 0__missingindicator_hours"}
    dates = {f"date since__since_{part}" for part in ("days", "cos_month", "sin_time", "missing")}
    assert ours | dates | {"text job__textaxes0"} <= set(names)
    pipe[:-1].set_output(transform=container)
    named = pipe[:-1].transform(frame)
    assert isinstance(named, needed.DataFrame) and list(named.columns) == names
    np.testing.assert_array_equal(named.to_numpy(), plain)
    if container == "pandas":
        assert named.index.equals(frame.index)
    again = pipe.set_output(transform=container).fit(frame)
    assert again[-1].labels_.tolist() == labels.tolist() == again.predict(frame).tolist()
    assert list(again[-1].feature_names_in_) == names
    with config_context(transform_output=container):
        again = table_pipeline(frame, MaxMarginClustering(**SETTINGS)).fit(frame)
        assert list(again[:-1].transform(frame).columns) == list(again[-1].feature_names_in_)


def test_errors_of_options_are_told_alone(run, capsys):
    age = [999, *AGE[1:]]
    pd.DataFrame({"age": age, "town": TOWN, "x": NOISE}).to_csv("d.csv", index=False)
    np.save("d.npy", np.column_stack([AGE, NOISE]))
    commands = "fit d.csv -k 99", "label d.csv -k 99", "fit d.npy -k 99 --memory 2GiB"
    for command in (*commands, "fit d.csv -k 1 --partial-labels town"):
        assert cli.main(command.split()) == 1
        error = capsys.readouterr().err
        assert error.count("\n") == 1 and "fewer" in error, error


def test_the_library_speaks_of_options(run, monkeypatch):
    def fit(self, X, y=None, **known):
        warnings.warn("Uncertain. report_ says why.", UserWarning, stacklevel=2)
        return original(self, X, y, **known)

    original = MaxMarginClustering.fit
    pd.DataFrame({"x": NOISE, "y": NOISE[::-1]}).to_csv("n.csv", index=False)
    told = run("fit n.csv")["warnings"]
    assert told[-1].endswith("all labels are 0. Give -k to divide the rows anyway.")
    monkeypatch.setattr(MaxMarginClustering, "fit", fit)
    pd.DataFrame({"age": AGE, "pay": PAY, "x": NOISE}).to_csv("p.csv", index=False)
    told = run("fit p.csv -k 2 --n-resamples 0")
    assert "Uncertain. The report says why." in told["warnings"]
    assert any("--kernel rbf keeps them" in line for line in told["report"])
    told = run("fit p.csv -k 8 --method alternating --balance 0 --standardize")["warnings"]
    assert any("raise --balance" in line for line in told), told


def test_check_knows_known_labels(run, capsys):
    frame = pd.DataFrame({"age": AGE, "x": NOISE, "my group": [""] * N, "rare": [np.nan] * N})
    frame.loc[[0, 1], "my group"], frame["rare"] = ["young", "old"], np.where(NOISE > 1, NOISE, "")
    frame.to_csv("d.csv", index=False)
    for command in ("check d.csv", "fit d.csv -k 2 --n-resamples 0 --drop rare"):
        told = run(command)
        said = [f"{f['what']}. {f['remedy']}" for f in told.get("findings", [])] + told["warnings"]
        assert (
            "column 'my group' has a value in only 2 of 36 rows. Known labels? Use "
            + ("--partial-labels 'my group'; else leave it out with --drop 'my group'")
            in said
        )
    for column in ("my group", "rare", "age"):
        assert cli.main(["check", "d.csv", "-k", "2", "--json", "--partial-labels", column]) == (
            column != "my group"
        )
        told = json.loads(capsys.readouterr().out)
        assert column not in [c["name"] for c in told["columns"]]
        (about,) = (f for f in told["findings"] if f"{column!r} holds" in f["what"])
        if column == "my group":
            what = "holds the known labels of 2 of 36 rows: 2 classes (old, young)"
            assert (about["level"], about["what"]) == ("note", f"column 'my group' {what}")
        else:
            assert about["what"].endswith("but -k 2 asks for fewer clusters")


def test_number_formats():
    def numbers_of(*cells):
        frame = pd.DataFrame({"a": cells})
        pipeline = table_pipeline(frame, None, {"a": "number"})
        return pipeline[0].transformers[0][1][0].transform(frame)[:, 0].tolist()

    assert numbers_of("1.234,5", "2,25") == [1234.5, 2.25]
    assert numbers_of("1,234.5", "2.25") == [1234.5, 2.25]
    assert numbers_of("1,5", "2,25", "3,125") == [1.5, 2.25, 3.125]
    assert numbers_of(" 12 %", "€ 5", "+1e3") == [12.0, 5.0, 1000.0]
    assert numbers_of("12 000", "5") == [12000.0, 5.0]


def test_the_public_name():
    assert maxmargin.table_pipeline is table_pipeline


def test_names_of_columns_are_shown_as_they_are(run, capsys):
    put("d.csv", text(numbers(AGE), TOWN, header="[red]age,:smile: [/red]"))
    assert cli.main(["check", "d.csv"]) == 0
    out = capsys.readouterr().out
    assert "[red]age" in out and ":smile: [/red]" in out


def test_links_and_answers_follow_the_ids(run, monkeypatch, capsys):
    frame = pd.DataFrame({"who": [f"w, {i}" for i in range(N)], "age": AGE, "noise": NOISE})
    frame.to_csv("t.csv", index=False)
    monkeypatch.setattr("sys.stdin", io.StringIO("d\nd\nd\nq\n"))
    run("label t.csv -k 2 --answers a.csv --refit 3")
    with AnswerLog.open("a.csv", N, frame["who"].tolist()) as log:
        before = {frozenset(frame["who"].iloc[list(answer[:2])]) for answer in log.answers}
    assert len(before) == 3
    other = frame.sample(frac=1, random_state=1, ignore_index=True)
    other.to_csv("t.csv", index=False)
    with AnswerLog.open("a.csv", N, other["who"].tolist()) as log:
        assert {frozenset(other["who"].iloc[list(a[:2])]) for a in log.answers} == before
    ids = other["who"].tolist()
    told = run("fit t.csv -k 2 --links a.csv --n-resamples 0")
    for pair in before:
        a, b = (told["labels"][ids.index(name)] for name in pair)
        assert a != b
    # Rows that are gone are told; a file without ids must not have changed.
    gone = min(min(before, key=sorted))
    lost = sum(gone in pair for pair in before)
    with pytest.warns(UserWarning, match=f"answers about rows that are gone: {lost}, the first"):
        n, links = read_answers("a.csv", ids=[name for name in ids if name != gone])
    assert n == N - 1 and len(links) == 3 - lost
    nameless = frame.drop(columns="who")
    nameless.to_csv("n.csv", index=False)
    monkeypatch.setattr("sys.stdin", io.StringIO("d\nq\n"))
    run("label n.csv -k 2 --answers b.csv")
    run("fit n.csv -k 2 --links b.csv --n-resamples 0")
    nameless[::-1].to_csv("n.csv", index=False)
    for line in ("fit n.csv -k 2 --links b.csv", "label n.csv -k 2 --answers b.csv"):
        assert cli.main(line.split()) == 1
        assert "the data have changed since these answers were given" in capsys.readouterr().err
    Path("b.csv").write_text(re.sub(", file = .*", "", Path("b.csv").read_text()))
    run("fit n.csv -k 2 --links b.csv --n-resamples 0")


@pytest.mark.parametrize(
    "column", [["x", "y"] * 5, [1.0, np.nan] * 5, pd.date_range("2024", periods=10)]
)
def test_a_frame_that_is_not_all_numbers_is_refused_with_the_cure(column):
    frame = pd.DataFrame({"a": np.arange(10.0), "b": column})
    with pytest.raises(ValueError, match=r"use table_pipeline\(X, estimator\)"):
        MaxMarginClustering(2).fit(frame)


def test_the_commands_of_the_readme_work_on_the_sample(run, monkeypatch):
    for name in ("people.csv", "new.csv"):
        put(name, (ROOT / "examples" / name).read_bytes())
    blocks = re.findall(r"```sh\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
    lines = [line for block in blocks for line in block.splitlines()]
    commands = [line.partition("#")[0] for line in lines if re.match("maxmargin .*people", line)]
    assert len(commands) >= 5
    for command in commands:
        monkeypatch.setattr("sys.stdin", io.StringIO("s\nq\n"))
        run(command.removeprefix("maxmargin "))
    assert len(read_table("new-labels.csv").X) == 12
    told = run("fit people.csv -k 3 --n-resamples 0")
    sentences = " ".join(told["descriptions"])
    assert "high age" in sentences and "low age" in sentences and "income" in sentences


@pytest.mark.parametrize(
    "line, code, message",
    [
        ("fit d.csv --standardise", 2, "did you mean --standardize? (see maxmargin fit --help)"),
        ("fit d.csv --id_column who", 2, "did you mean --id-column? (see maxmargin fit --help)"),
        (
            "check d.csv --colour red",
            2,
            "unrecognized arguments: --colour red (see maxmargin check",
        ),
        ("fit d.csv --id-column whom", 1, "there is no column 'whom'. Did you mean 'who'?"),
        ("fit d.csv -k 2 --seed -5", 2, "--seed must be a whole number from 0, got '-5'"),
        ("fit d.csv -k 2 --balance 2", 2, "--balance must be a number from 0 to 1"),
        ("fit d.csv -k 2 --n-jobs 0", 2, "--n-jobs must be none, a whole number from 1"),
        ("fit d.csv -k 2 --partial-labels kind", 1, "holds 3 different labels (a, b, c), but -k 2"),
        ("fit nosuch.csv", 1, "nosuch.csv does not exist. Check the spelling and the folder\n"),
        ("fit c.csv", 1, "did you mean d.csv?"),
    ],
)
def test_messages_of_the_command_line(run, capsys, line, code, message):
    kinds = ["a", "b", "c", ""] * 9
    frame = pd.DataFrame({"who": range(N), "age": AGE, "kind": kinds})
    frame.astype({"who": str}).to_csv("d.csv", index=False)
    put("mnos.csv", "x\n")
    assert cli.main(line.split()) == code
    assert message in capsys.readouterr().err


def test_messages_in_python():
    X = np.column_stack([AGE, NOISE])
    quick = {"n_resamples": 0, "random_state": 0}
    for model, message in (
        (MaxMarginClustering(2, n_jobs=0), "'n_jobs' parameter"),
        (MaxMarginClustering(True), "n_clusters must be a whole number, got True"),
        (MaxMarginClustering(2, size_prior=0), "'size_prior' parameter"),
    ):
        with pytest.raises(ValueError, match=message):
            model.fit(X)
    names = np.full(N, "", dtype=object)
    names[0], names[1], names[2] = "young", "old", None
    model = MaxMarginClustering(2, **quick).fit(X, partial_labels=names)
    assert model.known_names_.tolist() == ["old", "young"]
    assert model.labels_.tolist() == np.where(OLD, 0, 1).tolist()
    with pytest.raises(
        ValueError, match=r"2 different names \(old, young\), more than n_clusters=1"
    ):
        MaxMarginClustering(1, **quick).fit(X, partial_labels=names)
    with pytest.warns(UserWarning, match="as partial_labels"):
        MaxMarginClustering(2, **quick).fit(X, np.where(np.arange(N) < 3, 0, -1))
    with pytest.raises(AttributeError, match="n_resamples > 0"):
        _ = MaxMarginClustering(2, **quick).fit(X).confidence_
    assert maxmargin.PairQueries.__name__ == "PairQueries"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda frame: frame.set_axis(range(2), axis=1), r"must be strings, got 0. Set frame"),
        (lambda frame: frame.set_axis(["a", "a"], axis=1), "Several columns are named 'a'"),
        (lambda frame: frame.assign(b=[[1], [2]] * 10), "Column 'b' has lists, dicts or arrays"),
    ],
    ids=["numbers", "twice", "lists"],
)
def test_columns_that_cannot_be_used_are_refused_by_name(change, message):
    frame = change(pd.DataFrame(np.random.default_rng(0).normal(size=(20, 2)), columns=["a", "b"]))
    with pytest.raises(ValueError, match=message):
        table_pipeline(frame, MaxMarginClustering(2))
