"""The page where a person clusters: what it records and refuses, and a browser that uses it."""

from __future__ import annotations

import asyncio
import io
import json
import os
import re
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest
from sklearn.datasets import make_blobs
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from maxmargin import AlternatingMarginClustering, MaxMarginClustering
from maxmargin._answers import read_answers
from maxmargin.app import ClusterExplorer, Conflict
from maxmargin.app._server import make_app
from maxmargin.app._widget import reply, widget_of
from maxmargin.cli.main import main
from maxmargin.persistence import load_model

from .._browser import Browser, needs_browser

X, Y = make_blobs([30, 25, 20], 3, centers=9 * np.eye(3), random_state=0)


def make_explorer(k=3, **options):
    model = make_pipeline(
        StandardScaler(), MaxMarginClustering(k, n_resamples=0, n_init=1, random_state=0)
    )
    explorer = ClusterExplorer(model, X, **{"refit_every": 0, **options})
    explorer.refit(wait=True)
    return explorer


@pytest.fixture
def explorer(tmp_path):
    made = make_explorer(answers=tmp_path / "a.csv")
    yield made
    made.close()


class Client:
    """Sends requests to the application, without a server."""

    def __init__(self, explorer):
        self.app = make_app(explorer, "secret", {"127.0.0.1:7"})

    def send(self, path, body=None, **headers):
        """Return status, headers and content of the answer; POST if there is a body."""
        sent = []
        scope = {
            "type": "http", "method": "GET" if body is None else "POST", "path": path,
            "query_string": b"", "root_path": "",
            "headers": [
                (name.replace("_", "-").encode(), value.encode())
                for name, value in {"host": "127.0.0.1:7", **headers}.items()
            ],
        }  # fmt: skip
        parts = [(body or b"")[i : i + 65536] for i in range(0, len(body or b"") + 1, 65536)]

        async def receive():
            part = parts.pop(0)
            return {"type": "http.request", "body": part, "more_body": bool(parts)}

        async def send(message):
            sent.append(message)

        asyncio.run(self.app(scope, receive, send))
        content = b"".join(message.get("body", b"") for message in sent[1:])
        return sent[0]["status"], dict(sent[0]["headers"]), content

    def post(self, action, body=None):
        """Return the status and the answer to an action."""
        content = json.dumps({} if body is None else body).encode()
        address, kind = f"/secret/api/{action}", "application/json"
        status, _, answer = self.send(address, content, content_type=kind)
        return status, json.loads(answer)


@pytest.fixture
def client(explorer):
    return Client(explorer)


def said(explorer):
    return [tuple(answer[:3]) for answer in explorer.log.answers]


# -- what is recorded ------------------------------------------------------------------------------


def test_answers_names_and_assignments_are_recorded_and_come_back(tmp_path):
    path = tmp_path / "a.csv"
    first = make_explorer(answers=path)
    a, b = first.handle("question", {})["question"]["rows"]
    first.handle("answer", {"rows": [a, b], "relation": "same" if Y[a] == Y[b] else "different"})
    cluster = int(first.labels[0])
    state = first.handle("name", {"fit": 1, "cluster": cluster, "name": "left, <b>"})
    assert state["names"][cluster] == "left, <b>" and state["pending"] == 2
    other = int(first.labels[40])
    first.handle("assign", {"fit": 1, "rows": [41, 42], "cluster": other})
    kept = said(first)
    assert len(kept) == 5 and sum("name=" in relation for *_, relation in kept) == 2
    first.log.close()  # as a kill would: nothing else is written
    again = make_explorer(answers=path)
    assert said(again) == kept and "left, <b>" in again.names
    # Clusters with different names are apart, for the other commands, too.
    links = read_answers(path)[1]
    assert {(x.row_a, x.row_b) for x in links if x.relation == "different"} >= {
        tuple(row for row, _, relation in kept if "name=" in relation)
    }
    again.close()


def test_a_refit_respects_what_was_said(explorer):
    a, b = 0, int(np.flatnonzero(Y != Y[0])[0])  # a wrong answer, on purpose
    explorer.handle("answer", {"rows": [a, b], "relation": "same"})
    explorer.refit(wait=True)
    state = explorer.handle("state", {})
    assert explorer.labels[a] == explorer.labels[b] and state["moved"]["count"] >= 1
    assert explorer.constraints.violations(explorer.labels).n_links == 0
    np.testing.assert_array_equal(explorer.model.predict(X).shape, (75,))


def test_merge_split_and_number_change_k_and_can_be_taken_back(explorer):
    state = explorer.handle("merge", {"fit": 1, "cluster": 0, "other": 1})
    assert state["n_clusters"] == 2
    assert explorer.handle("question", {})["question"] is not None
    explorer.refit(wait=True)
    assert len(set(explorer.labels.tolist())) == 2
    a, b = explorer.log.answers[0][:2]
    assert explorer.labels[a] == explorer.labels[b]
    cluster = int(explorer.labels[a])
    assert explorer.handle("split", {"fit": 2, "cluster": cluster})["n_clusters"] == 3
    assert explorer.handle("undo", {})["taken"][2] == "split"
    state = explorer.handle("number", {"n_clusters": 5})
    assert state["n_clusters"] == 5
    explorer.refit(wait=True)
    assert len(set(explorer.labels.tolist())) == 5


def test_a_number_that_the_fit_chose_is_recorded_before_it_changes():
    explorer = make_explorer(None)
    assert explorer.n_clusters is None and explorer._k == 3
    explorer.handle("merge", {"fit": 1, "cluster": 0, "other": 1})
    assert explorer.n_clusters == 2 and said(explorer)[0] == (0, 0, "k=3")


def test_any_answer_can_be_taken_back(explorer):
    for pair in ([0, 1], [2, 3]):
        explorer.handle("answer", {"rows": pair, "relation": "same"})
    explorer.handle("undo", {"rows": [0, 1]})
    assert said(explorer) == [(2, 3, "same")]
    explorer.handle("undo", {})
    with pytest.raises(Conflict, match="no answer to take back"):
        explorer.handle("undo", {})
    assert read_answers(explorer.log.file.name) == (75, [])


def test_questions_are_about_pairs_that_were_not_asked(explorer):
    seen = set()
    for _ in range(15):
        a, b = explorer.handle("question", {})["question"]["rows"]
        assert (min(a, b), max(a, b)) not in seen
        seen.add((min(a, b), max(a, b)))
        explorer.handle("answer", {"rows": [a, b], "relation": "unknown"})


def test_other_front_ends_go_on_from_the_answers(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    np.savetxt("d.csv", X, delimiter=",")
    explorer = make_explorer(answers="d.links.csv")
    for c in range(3):
        explorer.handle("name", {"fit": 1, "cluster": c, "name": f"cluster {c}"})
    explorer.close()
    monkeypatch.setattr("sys.stdin", io.StringIO("s\nu\nu\nd\nq\n"))
    assert main(["label", "d.csv", "-k", "3", "--no-header", "--out", "l.csv"]) == 0
    err = capsys.readouterr().err
    assert "going on from 3 answers" in err and "name=cluster 2" in err
    again = make_explorer(answers="d.links.csv")
    assert [relation for *_, relation in said(again)][2:] == ["different"]
    again.close()


def test_answers_by_row_number_are_refused_for_other_data(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    np.savetxt("d.csv", X, delimiter=",")

    def serve(explorer, port, ready):
        pair = {"rows": [0, 1], "relation": "same"}
        assert explorer.handle("answer", pair)

    monkeypatch.setattr("maxmargin.app._server.serve", serve)
    monkeypatch.setattr("sys.stdin", io.StringIO("q\n"))
    line = "d.csv -k 3 --no-header --answers"
    explore = ["explore", *line.split(), "a.csv", "--no-browser"]
    assert main(explore) == 0
    assert main(["label", *line.split(), "a.csv"]) == 0  # the same data
    assert capsys.readouterr().err.count("going on from 1 answer in a.csv") == 1
    np.savetxt("d.csv", X[::-1], delimiter=",")
    for command in (explore, ["label", *line.split(), "a.csv"], ["fit", *line.split(), "a.csv"]):
        assert main([word.replace("--answers", "--links") if command[0] == "fit" else word
                     for word in command]) == 1  # fmt: skip
        assert "the data have changed since these answers were given" in capsys.readouterr().err


# -- what is refused -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shared():
    """An explorer that refused requests must not change."""
    return make_explorer()


@pytest.mark.parametrize(
    "path, headers, status",
    [
        ("/wrong/", {}, 403),
        ("/", {}, 404),
        ("/secret/", {"host": "evil.example"}, 421),
        ("/secret/view", {"host": "127.0.0.1:8"}, 421),
        ("/secret/", {"origin": "http://evil.example"}, 403),
        ("/secret/export/passwd", {}, 404),
        ("/secret/api/state", {}, 405),
    ],
)
def test_requests_from_elsewhere_are_refused(shared, path, headers, status):
    found, sent, content = Client(shared).send(path, **headers)
    assert found == status and b"clusters" not in content
    assert not [name for name in sent if name.startswith(b"access-control")]


def test_the_page_itself_may_request_nothing_else(shared):
    status, headers, content = Client(shared).send("/secret/")
    assert status == 200 and headers[b"x-frame-options"] == b"DENY"
    assert b"connect-src 'self'" in content and b"secret" not in content


@pytest.mark.parametrize(
    "action, body, told",
    [
        ("answer", {"rows": [0, 75], "relation": "same"}, "there is no row 75"),
        ("answer", {"rows": [0, -1], "relation": "same"}, "there is no row -1"),
        ("answer", {"rows": [0, "1"], "relation": "same"}, "rows must be a list of 2 row numbers"),
        ("answer", {"rows": [0, 1], "relation": "undo"}, "relation must be one of"),
        ("answer", {"rows": [4, 4], "relation": "same"}, "two different rows"),
        ("answer", [1, 2], "must be a JSON object"),
        ("name", {"fit": 1, "cluster": 3, "name": "x"}, "cluster must be a number from 0 to 2"),
        ("name", {"fit": 1, "cluster": 0, "name": ""}, "name must be a text"),
        ("number", {"n_clusters": 0}, "n_clusters must be a whole number from 1 to 75"),
        ("merge", {"fit": 1, "cluster": 0, "other": 0}, "two different clusters"),
        ("burn", {}, "unknown action 'burn'"),
    ],
)
def test_malformed_requests_are_explained_and_change_nothing(shared, action, body, told):
    status, answer = Client(shared).post(action, body)
    assert status == 400 and told in answer["error"]
    assert said(shared) == []


def test_bodies_that_are_no_json_or_too_large_are_refused(shared):
    client, address, kind = Client(shared), "/secret/api/answer", "application/json"
    assert client.send(address, b"{", content_type=kind)[0] == 400
    assert client.send(address, b"[" * 100_000, content_type=kind)[0] == 400
    assert (
        client.send(address, b"rows=0", content_type="application/x-www-form-urlencoded")[0] == 415
    )
    status, _, answer = client.send(address, b" " * 10_000_000, content_type=kind)
    assert status == 413 and b"at most 1,000,000 bytes" in answer
    assert client.post("state")[0] == 200


def test_contradictions_two_tabs_and_stale_clusters_are_told(client, explorer):
    pair = {"rows": [0, 1], "relation": "same"}
    assert client.post("answer", pair)[0] == 200
    status, twice = client.post("answer", pair)
    assert status == 200 and "answered already" in twice["message"]
    status, other = client.post("answer", pair | {"relation": "different"})
    assert status == 409 and "answered already: same" in other["error"]
    client.post("answer", {"rows": [1, 2], "relation": "same"})
    status, chain = client.post("answer", {"rows": [0, 2], "relation": "different"})
    assert status == 409 and "row 0 - row 1 - row 2" in chain["error"]
    status, stale = client.post("name", {"fit": 0, "cluster": 0, "name": "x"})
    assert status == 409 and "fitted again" in stale["error"]
    assert said(explorer) == [(0, 1, "same"), (1, 2, "same")]


def test_a_refit_while_another_runs_follows_it_and_a_failed_one_is_told(client, explorer):
    may_fit, prepared = threading.Event(), explorer._prepared_rows
    explorer._prepared_rows = lambda: may_fit.wait() and prepared()
    for _ in range(3):
        assert client.post("refit")[0] == 200
    may_fit.set()
    explorer._wait()
    assert explorer.fit_number == 3  # the running fit, and one for all that came during it
    explorer._prepared_rows = lambda: 1 / 0
    with pytest.raises(ValueError, match="The fit failed: division by zero"):
        explorer.refit(wait=True)
    state = client.post("state")[1]
    assert state["fit"] == 3 and "division by zero" in state["error"]


def test_only_models_with_constraints_are_explored():
    with pytest.raises(ValueError, match="model must be a MaxMarginClustering"):
        ClusterExplorer(AlternatingMarginClustering(2), X)


# -- what comes out --------------------------------------------------------------------------------


def test_exports_are_labels_answers_and_a_model(client, explorer, tmp_path):
    def exported(name):
        return client.send(f"/secret/export/{name}")[2]

    client.post("name", {"fit": 1, "cluster": 0, "name": "first"})
    head, *lines = exported("labels.csv").decode().splitlines()
    assert head == "row,cluster,name" and len(lines) == 75
    assert lines[0] == f"0,{explorer.labels[0]},{explorer.names[explorer.labels[0]]}"
    (tmp_path / "answers.csv").write_bytes(exported("answers.csv"))
    assert read_answers(tmp_path / "answers.csv", everything=True)[1] == explorer.log.answers
    (tmp_path / "m.skops").write_bytes(exported("model.skops"))
    np.testing.assert_array_equal(load_model(tmp_path / "m.skops").predict(X), explorer.labels)


def test_a_fitted_model_is_shown_as_it_is_and_a_widget_talks_to_it():
    model = MaxMarginClustering(3, n_resamples=0, n_init=1, random_state=0).fit(X)
    explorer = ClusterExplorer(model, X, images=np.zeros((75, 2, 2)))
    assert explorer.fit_number == 1 and explorer.labels is model.labels_
    assert reply(explorer, {"id": 1, "action": "view"})["content"]["n_rows"] == 75
    found = reply(explorer, {"id": 2, "action": "rows", "body": {"rows": [3]}})
    assert found["id"] == 2 and list(found["content"]["pictures"]) == ["3"]
    assert (
        "there is no row 80" in reply(explorer, {"action": "rows", "body": {"rows": [80]}})["error"]
    )
    page = widget_of(explorer)
    assert "startExplorer(el" in page._esm and ".mm" in page._css
    assert "application/vnd.jupyter.widget-view+json" in explorer._repr_mimebundle_()[0]


# -- a person with a browser -----------------------------------------------------------------------


def started(folder):
    """A server as a user starts it, and its address."""
    command = "explore d.csv -k 3 --no-header --n-init 1 --n-resamples 0 --refit 0"
    process = subprocess.Popen(
        [sys.executable, "-m", "maxmargin", *command.split()],
        cwd=folder, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    for line in process.stderr:
        if found := re.search(r"open (http://127\.0\.0\.1:\S+)", line):
            return process, found[1]
    raise AssertionError("no address was printed")


def attack(browser, address, answers):
    """Two tabs, contradictions and two fits at once, after 11 answers: the page explains each."""

    def link(pair, word):
        for row in pair:
            browser.click(f'.card [data-row="{row}"]')
        buttons = "[...document.querySelectorAll('.side button')]"
        browser.run(f"{buttons}.find((button) => button.textContent === '{word}').click()")

    def told(text):
        browser.wait(f"document.querySelector('.notices').textContent.includes('{text}')")

    def recorded(number):
        answers(number)
        browser.wait("document.querySelector('.side > section[hidden]')")  # nothing is selected

    a, b, c = json.loads(
        browser.run("JSON.stringify([...document.querySelectorAll('.card .chip[data-row]')]"
                    ".slice(0, 3).map((chip) => +chip.dataset.row))")
    )  # fmt: skip
    link((a, b), "together")
    recorded(12)
    first = browser.new_tab()
    browser.open(address)
    link((a, b), "apart")
    told(f"Rows {a} and {b} were answered already: same")
    browser.session = first
    link((b, c), "together")
    recorded(13)
    link((a, c), "apart")
    told("This contradicts what was said")
    browser.run("[1, 2].forEach(() => document.querySelector('#refit').click())")
    browser.wait("document.body.innerText.includes('The last fit moved')")
    browser.click("#undo")
    browser.click("#undo")
    answers(11)


@needs_browser
def test_a_person_clusters_in_a_browser_and_a_kill_loses_nothing(tmp_path):
    np.savetxt(tmp_path / "d.csv", X, delimiter=",")
    log = tmp_path / "d.links.csv"

    def answers(number):
        noun = "answer" if number == 1 else "answers"
        browser.wait(f"document.querySelector('#count').textContent.startsWith('{number} {noun}')")

    def press(key):
        event = f"new KeyboardEvent('keydown', {{key: '{key}', bubbles: true}})"
        browser.run(f"document.body.dispatchEvent({event})")

    def answer(number):
        # In one step of the page, which may replace the question when a fit ends.
        browser.wait(
            f"""(() => {{ const y = {Y.tolist()};
            const rows = document.querySelector('.question[data-rows]')?.dataset.rows.split(',');
            const key = rows && y[rows[0]] === y[rows[1]] ? 's' : 'd';
            const event = new KeyboardEvent('keydown', {{key, bubbles: true}});
            if (rows) document.body.dispatchEvent(event);
            return Boolean(rows); }})()"""
        )
        answers(number)

    process, address = started(tmp_path)
    try:
        with Browser() as browser:
            browser.open(address)
            browser.run(
                "(() => { const field = document.querySelector('input.name');"
                "field.value = '<i>first</i>'; field.dispatchEvent(new Event('change')); })()"
            )
            answers(1)
            for number in range(2, 12):
                answer(number)
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            press("s")
            browser.wait("document.body.innerText.includes('The server does not answer')")
            assert len(read_answers(log, everything=True)[1]) == 11
            process, address = started(tmp_path)
            browser.open(address)
            answers(11)
            attack(browser, address, answers)
            browser.console.clear()  # of the page without a server, and of what was refused
            assert browser.run(
                "[...document.querySelectorAll('input.name')].some(f => f.value === '<i>first</i>')"
            )
            for number in range(12, 22):
                answer(number)
            press("u")
            answers(20)
            browser.click("#refit")
            browser.wait("document.body.innerText.includes('The last fit moved')")
            browser.click("#more")
            browser.wait("document.querySelectorAll('.card').length === 4")
            file = "document.querySelector('a[download]').href"
            text = browser.run(f"fetch({file}).then((answer) => answer.text())")
            assert text.startswith("row,cluster,name\n0,") and "<i>first</i>" in text
            assert browser.console == []
            assert all(url.startswith((address, "data:")) for url in browser.requests[-20:])
    finally:
        process.kill()
        process.wait()
    relations = [a.relation for a in read_answers(log, everything=True)[1]]
    assert len(relations) == 21 and relations[-1] == "k=4"


@needs_browser
def test_the_widget_draws_the_page_and_talks_by_messages(shared):
    view = reply(shared, {"action": "view"})["content"]
    asked = reply(shared, {"action": "question", "body": {}})["content"]
    model = """{
        sent: [], on(name, act) { this.act = act; },
        send(message) { this.sent.push(message.action);
            const content = message.action === "view" ? VIEW : ASKED;
            setTimeout(() => this.act({ id: message.id, content })); } }"""
    model = model.replace("VIEW", json.dumps(view)).replace("ASKED", json.dumps(asked))
    script = json.dumps(widget_of(shared)._esm)
    with Browser() as browser:
        browser.run(
            f"""(async () => {{
            const file = URL.createObjectURL(new Blob([{script}], {{ type: "text/javascript" }}));
            window.model = {model};
            const el = document.body.appendChild(document.createElement("div"));
            (await import(file)).default.render({{ model, el }}); }})()"""
        )
        browser.wait("document.querySelectorAll('.card').length === 3")
        assert browser.run("document.querySelector('.question[data-rows]') !== null")
        assert browser.run("model.sent.slice(0, 3).join()") == "state,view,question"
        assert browser.run("document.querySelector('a[download]')") is None
        assert browser.console == []
