"""The page of ``maxmargin explore``, used by a simulated person, and its speed on many rows.

    python benchmarks/explore.py person    # digits: accuracy after answers, by kind of question
    python benchmarks/explore.py speed     # 100,000 x 50: time of requests, memory of the server

Both start ``maxmargin explore`` as a user does and send what the page sends.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import numpy as np
import psutil
from sklearn.datasets import load_digits, make_blobs

from maxmargin.metrics import clustering_accuracy

FITTED_AFTER = 25  # answers


class Server:
    """``maxmargin explore`` in a process of its own."""

    def __init__(self, path: Path, *options: str):
        line = [sys.executable, "-m", "maxmargin", "explore", str(path), "--refit", "0", *options]
        self.process = subprocess.Popen(line, stderr=subprocess.PIPE, text=True)
        self.address = next(
            found[1]
            for line in self.process.stderr
            if (found := re.search(r"open (http://\S+)", line))
        )

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.process.kill()
        self.process.wait()

    def get(self, path: str) -> bytes:
        return urllib.request.urlopen(self.address + path).read()

    def post(self, action: str, **body) -> dict:
        request = urllib.request.Request(
            f"{self.address}api/{action}",
            json.dumps(body).encode(),
            {"Content-Type": "application/json"},
        )
        return json.loads(urllib.request.urlopen(request).read())

    def wait(self) -> dict:
        """Wait until no fit runs."""
        while (state := self.post("state"))["running"]:
            time.sleep(0.2)
        return state

    def labels(self) -> np.ndarray:
        lines = self.get("export/labels.csv").decode().splitlines()[1:]
        return np.array([int(line.split(",")[1]) for line in lines])


class Person:
    """Knows the classes; names every cluster by its most certain rows, then answers questions."""

    def __init__(self, server: Server, y: np.ndarray, kind: str, seed: int):
        self.server, self.y, self.kind = server, y, kind
        self.random, self.answers = np.random.default_rng(seed), 0

    def name_clusters(self) -> None:
        view = json.loads(self.server.get("view"))
        taken = set()
        for c, cluster in enumerate(view["clusters"]):
            seen = np.bincount(self.y[cluster["certain"]]).argmax()
            if seen not in taken:
                self.server.post("name", fit=view["fit"], cluster=c, name=str(seen))
                taken.add(seen)
                self.answers += 1

    def answer(self) -> None:
        """Answer one question: the page's or a random row's, by a pair or by the cluster."""
        state = self.server.post("question")
        a, b = state["question"]["rows"]
        if self.kind == "random rows":
            a = int(self.random.integers(len(self.y)))
        if self.kind == "random pairs":
            a, b = map(int, self.random.choice(len(self.y), 2, replace=False))
        if self.kind in ("pairs", "random pairs"):
            relation = "same" if self.y[a] == self.y[b] else "different"
            self.server.post("answer", rows=[a, b], relation=relation)
        elif str(self.y[a]) in state["names"]:
            cluster = state["names"].index(str(self.y[a]))
            self.server.post("assign", fit=state["fit"], rows=[a], cluster=cluster)
        self.answers += 1


def person(answers: int, kinds: list[str], seed: int) -> None:
    X, y = load_digits(return_X_y=True)
    with tempfile.TemporaryDirectory() as folder:
        for kind in kinds:
            path = Path(folder, f"{kind.replace(' ', '-')}.csv")
            names = ",".join(f"pixel_{i}_{j}" for i in range(8) for j in range(8))
            np.savetxt(path, X, delimiter=",", header=names, comments="", fmt="%g")
            with Server(path, "-k", "10", "--seed", str(seed)) as server:
                server.wait()
                start = clustering_accuracy(y, server.labels())
                print(f"{kind}: {start:.4f} before the first answer", flush=True)
                someone = Person(server, y, kind, seed)
                if kind != "random pairs":
                    someone.name_clusters()
                while someone.answers < answers:
                    someone.answer()
                    if someone.answers % FITTED_AFTER == 0:
                        server.post("refit")
                        state = server.wait()
                        accuracy = clustering_accuracy(y, server.labels())
                        told = f"  {someone.answers} answers: {accuracy:.4f}"
                        print(told, state["error"] or "", flush=True)


def speed(n: int, d: int) -> None:
    X, _ = make_blobs(n, d, centers=8, cluster_std=6.0, random_state=0)
    data = X.nbytes / 1e6
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "rows.npy")
        np.save(path, X)
        with Server(path, "-k", "8") as server:
            memory = psutil.Process(server.process.pid).memory_info
            peak, started = 0.0, time.perf_counter()
            while server.post("state")["running"]:
                peak = max(peak, memory().rss / 1e6)
                time.sleep(0.05)
            print(
                f"{n:,} x {d}: data {data:.0f} MB; first fit {time.perf_counter() - started:.1f} s"
            )
            timed: dict[str, list[float]] = {}

            def request(action, **body):
                begin = time.perf_counter()
                found = server.get(action) if action == "view" else server.post(action, **body)
                timed.setdefault(action, []).append(1000 * (time.perf_counter() - begin))
                return found

            for c in range(8):
                request("name", fit=1, cluster=c, name=f"group {c}")
            for i in range(40):
                rows = request("question")["question"]["rows"]
                request("answer", rows=rows, relation=("same", "different", "unknown")[i % 3])
                request("assign", fit=1, rows=[1000 + i], cluster=i % 8)
                request("rows", rows=[i, 2 * i])
                request("state")
                request("undo")
            for _ in range(5):
                request("view")
            for action, times in timed.items():
                print(
                    f"  {action:<9} median {np.median(times):6.1f} ms, slowest {max(times):6.1f} ms"
                )
            rest = memory().rss / 1e6
            print(f"  server: {peak:.0f} MB at most during the fit, {rest:.0f} MB afterwards")
            bare = [sys.executable, "-c", "import psutil, maxmargin.app, maxmargin.app._server, "
                    "maxmargin.inspection, pandas, uvicorn, starlette.applications; "
                    "from maxmargin import MaxMarginClustering as M; M(2).fit([[0.], [1.], [2.]]); "
                    "print(psutil.Process().memory_info().rss)"]  # fmt: skip
            empty = int(subprocess.run(bare, capture_output=True, text=True).stdout) / 1e6
            print(
                f"  without data {empty:.0f} MB: the rest is {(rest - empty) / data:.1f} x the data"
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["person", "speed"])
    parser.add_argument("--answers", type=int, default=150)
    kinds = ["clusters", "pairs", "random rows", "random pairs"]
    parser.add_argument("--kinds", nargs="*", default=kinds, choices=kinds)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rows", type=int, default=100_000)
    args = parser.parse_args()
    if args.what == "person":
        person(args.answers, args.kinds, args.seed)
    else:
        speed(args.rows, 50)
