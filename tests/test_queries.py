"""Questions to a person: which pairs, what answers imply, and sessions that survive a kill."""

import io
import json
import os
import signal
import subprocess
import sys
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_digits, make_blobs

from maxmargin import (
    LabelQueries,
    LeastSquaresMarginClustering,
    MaxMarginClustering,
    PairQueries,
    PairwiseConstraints,
    PairwiseMarginClustering,
)
from maxmargin._answers import Answer, AnswerLog, read_answers, write_answers
from maxmargin._files import DataError
from maxmargin.active import implied_classes
from maxmargin.cli.main import main
from maxmargin.least_squares._few_labels import RIDGE, informative_columns
from maxmargin.least_squares._label_models import Believed, Part
from maxmargin.metrics import clustering_accuracy
from maxmargin.pairwise._questions import suggested_pairs

N = 6
labellings = st.lists(st.integers(0, 2), min_size=N, max_size=N)
pairs = st.lists(st.tuples(st.integers(0, N - 1), st.integers(0, N - 1)), max_size=9)


@given(y=labellings, drawn=pairs)
def test_implied_classes_hold_in_every_labelling_that_keeps_the_links(y, drawn):
    drawn = [(a, b) for a, b in drawn if a != b]
    same = [(a, b) for a, b in drawn if y[a] == y[b]]
    apart = [(a, b) for a, b in drawn if y[a] != y[b]]
    classes = implied_classes(PairwiseConstraints(N, same, apart), 3)
    if classes is None:
        return
    first = [int(np.flatnonzero(classes == c)[0]) for c in range(3)]
    for labels in product(range(3), repeat=N):
        if any(labels[a] != labels[b] for a, b in same):
            continue
        if any(labels[a] == labels[b] for a, b in apart):
            continue
        names = [labels[row] for row in first]
        assert len(set(names)) == 3
        for row, c in enumerate(classes):
            assert c < 0 or labels[row] == names[c]


def answer_all(loop, y, budget, batch=10):
    while len(loop.answers) < budget:
        asked = loop.suggest(min(batch, budget - len(loop.answers)))
        if len(asked) == 0:
            break
        loop.tell(asked, [1 if y[a] == y[b] else -1 for a, b in asked])
    return loop


def test_no_question_is_asked_twice_or_whose_answer_is_implied():
    X, y = make_blobs([20, 15, 10], cluster_std=3.0, random_state=0)
    quick = PairwiseMarginClustering(3, kernel="linear", n_init=1, alpha=0.1, random_state=0)
    loop = PairQueries(quick, X, random_state=0)
    seen = set()
    while len(seen) < 60:
        before = loop.constraints
        asked = loop.suggest(1)
        if len(asked) == 0:
            break
        pair = tuple(sorted(asked[0].tolist()))
        assert pair not in seen
        assert before.relation(*pair) == 0
        seen.add(pair)
        loop.tell(asked, [1 if y[pair[0]] == y[pair[1]] else -1])
    assert len(seen) > 40
    classes = implied_classes(loop.constraints, 3)
    known = classes >= 0
    assert clustering_accuracy(y[known], classes[known]) == 1.0


@pytest.mark.parametrize("k", [3, 5])
def test_a_row_is_compared_with_all_neighbourhoods_before_the_next_one(k):
    """Otherwise somebody who answers "different" is asked about new rows for ever."""
    scores, random = np.random.default_rng(k).normal(size=(40, k)), np.random.RandomState(0)
    apart = []
    for _ in range(k * (k - 1) // 2):
        links = PairwiseConstraints(40, cannot_link=apart)
        apart += suggested_pairs(scores, 1, links, random, apart).tolist()
    assert len(np.unique(apart)) == k  # all pairs of k rows


def test_suggested_pairs_beat_random_ones():
    X, y = load_digits(return_X_y=True)
    few = np.flatnonzero(np.isin(y, (3, 8, 9)))[::2]
    X, y = X[few], y[few]
    reached = {}
    for strategy in ("neighbourhoods", "random"):
        found = []
        for seed in range(2):
            model = PairwiseMarginClustering(3, alpha=0.01, n_init=4, random_state=seed)
            loop = PairQueries(model, X, strategy=strategy, random_state=seed)
            fitted = answer_all(loop, y, 50).fit()
            found.append(clustering_accuracy(y, fitted.predict(X)))
        reached[strategy] = np.mean(found)
    assert reached["neighbourhoods"] > reached["random"]


def test_dont_know_and_undo():
    X, _ = make_blobs(30, random_state=0)
    loop = PairQueries(PairwiseMarginClustering(3, n_init=1), X, random_state=0)
    loop.tell([(0, 1), (2, 3), (4, 5)], [1, 0, -1])
    assert loop.constraints.n_links == 2
    assert loop.undo() == (4, 5, -1)
    assert loop.constraints == PairwiseConstraints(30, [(0, 1)])
    assert loop.undo() and loop.undo() and loop.undo() is None
    with pytest.raises(ValueError, match="one answer for each pair"):
        loop.tell([(0, 1)], [2])
    with pytest.raises(ValueError, match="row numbers must lie between"):
        loop.tell([(0, 99)], [1])
    with pytest.raises(ValueError, match="strategy must be"):
        PairQueries(PairwiseMarginClustering(2), X, strategy="best")


def test_a_fitted_model_suggests_pairs():
    X, y = make_blobs(40, centers=2, random_state=0)
    links = PairwiseConstraints.from_labels(y, n_pairs=10, random_state=0)
    model = PairwiseMarginClustering(2, alpha=0.01, random_state=0).fit(X, constraints=links)
    found = model.next_pairs(X, 6, constraints=links, random_state=0)
    assert found.shape == (6, 2)
    assert all(links.relation(a, b) == 0 for a, b in found)
    again = model.next_pairs(X, 6, constraints=links, random_state=0)
    assert (again == found).all()


def test_pairs_with_the_front_door():
    X, y = make_blobs([12, 12, 12], 2, cluster_std=1.0, random_state=3)
    front = MaxMarginClustering(3, n_init=1, n_resamples=0, random_state=0)
    loop = PairQueries(front, X, random_state=0)
    model = answer_all(loop, y, 12, batch=6).fit()
    assert loop.constraints.violations(model.labels_).n_links == 0
    assert clustering_accuracy(y, model.labels_) > 0.9
    noise = np.random.default_rng(0).normal(size=(30, 2))
    loop = PairQueries(front.set_params(n_clusters=None), noise, random_state=0)
    assert len(loop.suggest(3)) == 3  # although there is one cluster


# -- labels of rows -------------------------------------------------------------------------------


def test_the_next_row_is_that_of_the_largest_expected_change():
    rng = np.random.default_rng(0)
    parts = []
    for family in range(3):
        B = rng.normal(size=(30, 5))
        parts.append(Part(family, B @ B.T / 5, 0))
    columns, known, k = np.arange(0, 30, 2), np.array([3, 7]), 3
    P = rng.dirichlet(np.ones(k), 30)
    mixtures = rng.dirichlet(np.ones(3), 2)
    empty = np.empty(0)
    models = Believed(mixtures, empty, empty, empty, np.array([0.3, 0.7]), empty)
    of = [Part(p.family, p.columns[:, columns], 0) for p in parts]
    closed = np.isin(np.arange(15), [*known, 5])
    found = informative_columns(of, columns, models, P, known, closed, 3)
    S = sum(s * p.columns for s, p in zip([0.3, 0.7] @ mixtures, parts))
    labelled = list(columns[known])
    for column in found:
        inner = np.linalg.inv(S[np.ix_(labelled, labelled)] + RIDGE * np.eye(len(labelled)))
        C = S - S[:, labelled] @ inner @ S[labelled]
        changes = (1 - (P**2).sum(axis=1)) @ C**2 / (np.diag(C) + RIDGE)
        free = np.setdiff1d(columns, [*labelled, columns[5]])
        assert columns[column] == free[changes[free].argmax()]
        labelled.append(columns[column])


def test_labels_of_suggested_rows_are_worth_more_than_of_random_ones():
    X, y = load_digits(return_X_y=True)
    few = np.flatnonzero(np.isin(y, (1, 4, 8, 9)))[::4]
    X, y = X[few], np.searchsorted((1, 4, 8, 9), y[few])
    quick = MaxMarginClustering(4, n_init=1, random_state=0)
    loop = LabelQueries(quick, X, random_state=0)
    while len(loop.answers) < 20:
        rows = loop.suggest(5)
        loop.tell(rows, y[rows])
    assert len({row for row, _ in loop.answers}) == 20
    reached = np.mean(loop.fit().labels_ == y)
    by_chance = []
    for seed in range(2):
        known = np.full(len(y), -1)
        rows = np.random.default_rng(seed).permutation(len(y))[:20]
        known[rows] = y[rows]
        model = quick.fit(X, partial_labels=known)
        by_chance.append(np.mean(model.labels_ == y))
    assert reached > np.mean(by_chance)


def test_questions_end_when_answers_change_nothing():
    X, y = make_blobs([40, 40, 40], 2, cluster_std=0.5, random_state=3)
    X = np.concatenate([X, X[:5]])  # equal rows are one question
    y = np.append(y, y[:5])
    loop = LabelQueries(LeastSquaresMarginClustering(3, random_state=0), X, random_state=0)
    assert clustering_accuracy(y, loop.labels()) == 1.0
    while len(rows := loop.suggest(3)):
        loop.tell(rows, y[rows])
        assert loop.statement is None
    assert 10 <= len(loop.answers) <= 18
    assert "changed the classes of 0 of 120 rows" in loop.statement
    assert (loop.labels() == y).all() and (loop.fit().labels_ == y).all()
    row, c = loop.undo()
    assert c == y[row] and loop.statement is None
    endless = LabelQueries(MaxMarginClustering(2), X[:9], tol=0, random_state=0)
    while len(rows := endless.suggest(4)):
        endless.tell(rows, np.full(len(rows), -1))  # don't know
    assert sorted(row for row, _ in endless.answers) == list(range(9))
    assert endless.statement == "No row is left to ask about."
    assert (endless.partial_labels == -1).all()


def test_classes_beyond_the_number_of_clusters_found():
    X, y = make_blobs([30, 30], 2, cluster_std=0.5, random_state=0)
    known = np.full(60, -1)
    known[:4] = y[:4]
    loop = LabelQueries(MaxMarginClustering(random_state=0), X, partial_labels=known)
    loop.tell([7], [2])
    assert loop.suggest(1) not in (0, 1, 2, 3, 7)
    assert loop.fit().n_clusters_ == 3 and loop.labels()[7] == 2
    assert loop.undo() == (7, 2) and loop.undo() is None
    with pytest.raises(ValueError, match="classes must lie between 0 and 1"):
        LabelQueries(MaxMarginClustering(2), X).tell([0], [2])
    with pytest.raises(ValueError, match="row numbers must lie between 0 and 59"):
        loop.tell([60], [0])
    with pytest.raises(ValueError, match="one class, a whole number"):
        loop.tell([1], ["a"])
    with pytest.raises(ValueError, match="n must be an integer"):
        loop.suggest(0)
    with pytest.raises(ValueError, match="tol must be"):
        LabelQueries(MaxMarginClustering(2), X, tol=-1)


# -- files of answers -----------------------------------------------------------------------------


def test_answers_come_back_as_links(tmp_path):
    path = tmp_path / "a.csv"
    log = AnswerLog.open(path, 9)
    for answer in (Answer(0, 1, "same"), Answer(2, 3, "unknown"), Answer(4, 5, "different")):
        log.append(answer)
    assert log.undo() == Answer(4, 5, "different")
    log.append(Answer(6, 7, "different"))
    log.close()
    with AnswerLog.open(path, 9) as again:
        assert again.answers == log.answers
    assert [a.relation for a in again.answers] == ["same", "unknown", "different"]
    assert PairwiseConstraints.load(path) == PairwiseConstraints(9, [(0, 1)], [(6, 7)])
    with pytest.raises(DataError, match="answers about 9 rows, but the data have 8"):
        AnswerLog.open(path, 8)


@pytest.mark.filterwarnings("ignore:.*has no line end")
def test_a_torn_line_is_no_answer(tmp_path):
    path = tmp_path / "a.csv"
    write_answers(path, 30, [Answer(0, 1, "same"), Answer(10, 12, "different")])
    whole = path.read_bytes()
    last = whole.rstrip(b"\n").rfind(b"\n") + 1
    for cut in range(last, len(whole)):
        path.write_bytes(whole[:cut])
        assert read_answers(path)[1] == [Answer(0, 1, "same")]
        with AnswerLog.open(path, 30) as log:
            assert log.answers == [Answer(0, 1, "same")]
            log.append(Answer(4, 5, "same"))
        assert read_answers(path)[1] == [Answer(0, 1, "same"), Answer(4, 5, "same")]


def test_a_log_whose_maker_was_killed_is_made_again(tmp_path):
    write_answers(tmp_path / "whole.csv", 30, [])
    whole = (tmp_path / "whole.csv").read_bytes()
    path = tmp_path / "a.csv"
    for cut in range(len(whole) + 1):
        path.write_bytes(whole[:cut])
        with AnswerLog.open(path, 30) as log:
            assert log.answers == []
        assert path.read_bytes() == whole


def test_the_header_names_all_columns_also_of_a_file_that_was_written_without_ids(tmp_path):
    path, ids = tmp_path / "a.csv", ["Ann", "Bob", "Cem"]
    first = "# n_samples = 3\nrow_a,row_b,relation,weight\n0,1,same,1.0,Ann,Bob\n"
    path.write_text(first)  # as version 0.1 wrote it
    assert read_answers(path, ids=ids) == (3, [Answer(0, 1, "same")])
    for known in (first, None):
        path.write_text(known) if known else path.unlink()
        with AnswerLog.open(path, 3, ids) as log:
            log.append(Answer(1, 2, "different"))
            with pytest.raises(DataError, match="in use by another program"):
                AnswerLog.open(path, 3, ids)
        lines = [line.split(",") for line in path.read_text().splitlines()[1:]]
        assert lines[0][4:] == ["id_a", "id_b"] and {len(line) for line in lines} == {6}
        assert len(read_answers(path, ids=ids)[1]) == len(lines) - 1 == (2 if known else 1)


def test_another_file_named_as_a_log_is_left_alone(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text("a,b\n1,2\n3,4")
    with pytest.raises(DataError, match="does not hold links"):
        AnswerLog.open(path, 2)
    assert path.read_text() == "a,b\n1,2\n3,4"
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DataError, match="not a plain file"):
        AnswerLog.open(tmp_path / "pipe", 2)


@pytest.mark.parametrize("weight", ["0", "0.0", "-1", "nan", "inf"])
def test_weights_of_links_in_files_are_positive(tmp_path, weight):
    path = tmp_path / "a.csv"
    write_answers(path, 9, [])
    with open(path, "a") as file:
        file.write(f"0,1,same,{weight}\n")
    for read in (read_answers, PairwiseConstraints.load, lambda path: AnswerLog.open(path, 9)):
        with pytest.raises(DataError, match=f"weight of answer 0 is {weight}"):
            read(path)


def test_a_log_is_open_once(tmp_path):
    path = tmp_path / "a.csv"
    with AnswerLog.open(path, 9) as log:
        log.append(Answer(0, 1, "same"))
        with pytest.raises(DataError, match=r"a\.csv is in use by another program"):
            AnswerLog.open(path, 9)
        assert read_answers(path)[1] == log.answers  # others may read it
    AnswerLog.open(path, 9).close()


def test_bad_answer_files(tmp_path):
    path = tmp_path / "a.csv"
    write_answers(path, 9, [])
    with open(path, "a") as file:
        file.write("0,one,same,1.0\n")
    with pytest.raises(DataError, match="answer 0 is '0,one,same"):
        read_answers(path)
    with pytest.raises(DataError, match="does not exist"):
        read_answers(tmp_path / "none.csv")


# -- maxmargin label ------------------------------------------------------------------------------


@pytest.fixture
def people(tmp_path):
    X, y = make_blobs([20, 20], centers=[[0, 0], [4, 4]], random_state=0)
    lines = ["name,height,weight"]
    lines += [f"p{i},{a:.4f},{b:.4f}" for i, (a, b) in enumerate(X)]
    path = tmp_path / "people.csv"
    path.write_text("\n".join(lines) + "\n")
    return path, y


def command(people, *more):
    arguments = ["label", str(people), "-k", "2", "--id-column", "name", "--refit", "3", *more]
    return [sys.executable, "-m", "maxmargin", *arguments]


@pytest.fixture
def talk(monkeypatch, capsys):
    """Run the command in this process; return its exit code, output and messages."""

    def talk(people, said, *more):
        monkeypatch.setattr("sys.stdin", io.StringIO(said))
        return main(command(people, *more)[3:]), *capsys.readouterr()

    return talk


def test_label_asks_and_writes(people, talk, tmp_path):
    path, _ = people
    said = "y\nwhat\nd\nu\n?\nk\nn\nq\n"
    code, out, told = talk(path, said, "--json", "--out", str(tmp_path / "labels.csv"))
    assert code == 0, told
    result = json.loads(out)
    assert result["answers"] == {"same": 1, "different": 1, "unknown": 1}
    assert "fitted anew:" in told and "sizes" in told
    assert "height" in told and "'what' is none of" in told
    assert told.count("the two rows belong to the same group") == 2  # after "what" and "?"
    assert "taken back" in told
    assert len((tmp_path / "labels.csv").read_text().splitlines()) == 41
    assert PairwiseConstraints.load(path.with_suffix(".links.csv")).n_links == 2
    code, out, told = talk(path, "q\n", "--json", "--method", "pairwise")
    assert code == 0 and json.loads(out)["violated"] == 0, told


def test_label_killed_after_any_answer_keeps_every_answer(people, talk):
    path, y = people
    log = path.with_suffix(".links.csv")
    given = []
    for _ in range(2):
        process = subprocess.Popen(
            command(path), stdin=subprocess.PIPE, stderr=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True, bufsize=1,
        )  # fmt: skip
        rows = []
        for _ in range(2 + len(given) % 3):
            for line in process.stderr:
                if line.startswith("same group?"):
                    break
                words = line.split()
                if len(words) == 2 and all(w[0] == "p" and w[1:].isdigit() for w in words):
                    rows = [int(w[1:]) for w in words]
            said = "same" if y[rows[0]] == y[rows[1]] else "different"
            process.stdin.write(f"{said}\n")
            process.stdin.flush()
            for line in process.stderr:
                if line.startswith("noted"):
                    break
            given.append((*rows, said))
            kept = [tuple(a[:3]) for a in read_answers(log)[1]]
            assert kept == given
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
    _, out, told = talk(path, "q\n", "--json")
    result = json.loads(out)
    assert sum(result["answers"].values()) == len(given)
    assert f"going on from {len(given)} answers" in told
    assert result["violated"] == 0


def test_two_sessions_do_not_share_a_file(people, talk):
    path, _ = people
    links = path.with_suffix(".links.csv")
    with AnswerLog.open(links, 40) as first:
        code, _, told = talk(path, "s\nq\n")
        assert code == 1 and "in use by another program" in told
        first.append(Answer(0, 1, "different"))
    assert [a.relation for a in read_answers(links)[1]] == ["different"]


def test_a_model_of_standardized_rows_keeps_the_scaler(tmp_path, monkeypatch, capsys):
    X, y = make_blobs([60, 60], centers=[[0, 0, 0], [3, 3, 3]], random_state=0)
    X = X * [1, 1000, 0.001] + [5, 7000, 1]
    lines = ["a,b,c", *(",".join(map(str, row)) for row in X.tolist())]
    monkeypatch.chdir(tmp_path)
    Path("d.csv").write_text("\n".join(lines) + "\n")
    PairwiseConstraints.from_labels(y, n_pairs=12, random_state=0).save("d.links.csv")
    monkeypatch.setattr("sys.stdin", io.StringIO("q\n"))
    label = "label d.csv -k 2 --standardize --out l.csv --model m.skops"
    assert main(label.split()) == 0
    # Columns are found by their names, as after fit.
    Path("e.csv").write_text("\n".join(",".join(reversed(line.split(","))) for line in lines))
    for data in ("d.csv", "e.csv"):
        assert main(["predict", "m.skops", data, "--out", "p.csv"]) == 0
        assert Path("p.csv").read_text() == Path("l.csv").read_text()


def test_fit_takes_the_answers(people, capsys):
    path, y = people
    links = path.with_suffix(".links.csv")
    PairwiseConstraints.from_labels(y, n_pairs=30, random_state=0).save(links)
    fit = ["fit", str(path), "-k", "2", "--id-column", "name", "--links", str(links), "--json"]
    assert main([*fit, "--method", "pairwise", "--alpha", "0.01", "--standardize"]) == 0
    labels = json.loads(capsys.readouterr().out)["labels"]
    assert clustering_accuracy(y, labels) == 1.0
    assert main(fit) == 0  # without a method, too
    labels = json.loads(capsys.readouterr().out)["labels"]
    assert clustering_accuracy(y, labels) == 1.0
    links.write_text(links.read_text() + "3,1")  # label was killed while it wrote
    assert main(fit) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["labels"] == labels and "last line '3,1' has no line end" in told["warnings"][0]
    assert main([*fit, "--method", "alternating"]) == 2
    assert "--links does not apply to --method alternating" in capsys.readouterr().err
