"""``maxmargin label``: ask a person about pairs of rows, and cluster with the answers.

Questions and the talk around them go to stderr, so that stdout has the result alone. Every answer
is on the disk before the next question is asked: a killed session goes on where it was.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .data import (
    add_data,
    add_out,
    check_outputs,
    named_rows,
    plural,
    reading,
    standardizer,
    told_files,
    write_results,
)
from .methods import OPTIONS, build_estimator, positive

SUMMARY = "ask which rows belong together, and cluster with the answers"
EXAMPLE = "maxmargin label people.csv -k 3 --id-column name --out labels.csv"
TAKEN = ("kernel", "gamma", "n_components", "seed", "n_jobs")
KEYS = {
    "s": "same", "same": "same", "d": "different", "different": "different",
    "?": "unknown", "k": "unknown", "don't know": "unknown", "dont know": "unknown",
    "u": "undo", "undo": "undo", "q": "quit", "quit": "quit",
}  # fmt: skip
SHOWN_COLUMNS = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_data(parser)
    parser.add_argument(
        "-k", "--n-clusters", type=positive, required=True, metavar="K", help="number of clusters"
    )
    parser.add_argument(
        "--answers",
        metavar="FILE",
        help="where answers are kept and gone on from (default: DATA with the ending .links.csv)",
    )
    parser.add_argument(
        "--refit",
        type=positive,
        default=5,
        metavar="N",
        help="fit anew after N answers (default: 5)",
    )
    parser.add_argument("--limit", type=positive, metavar="N", help="stop after N answers")
    parser.add_argument(
        "--standardize", action="store_true", help="bring all columns to unit variance first"
    )
    for name in TAKEN:
        parser.add_argument(f"--{name.replace('_', '-')}", **OPTIONS[name])
    add_out(parser)
    parser.add_argument("--model", metavar="FILE", help="save the model: .skops, .joblib")


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Ask until the person has had enough, then fit with all answers."""
    from sklearn.pipeline import make_pipeline

    from maxmargin.answers import AnswerLog
    from maxmargin.io import read_rows
    from maxmargin.queries import PairQueries

    args.answers = args.answers or str(Path(args.data).with_suffix(".links.csv"))
    check_outputs(args, "out", "model")
    given = {name: getattr(args, name) for name in TAKEN if getattr(args, name) is not None}
    estimator = build_estimator("pairwise", args.n_clusters, given)
    estimator.set_params(on_conflict="soft")
    table = read_rows(args.data, **reading(args))
    X = named_rows(table)
    scaler = standardizer(X) if args.standardize else None
    fitted_on = X if scaler is None else scaler.fit_transform(X)
    with AnswerLog.open(args.answers, X.shape[0]) as log:
        if log.answers:
            _say(f"going on from {plural(len(log.answers), 'answer')} in {args.answers}")
        # The seed moves on with the answers: a resumed session does not repeat its first questions.
        loop = PairQueries(estimator, fitted_on, random_state=args.seed + len(log.answers))
        for answer in log.answers:
            loop.tell([answer[:2]], [_code(answer.relation)])
        session = _Session(loop, log, table, args)
        session.ask_on()
        estimator = loop.fit()
        model = estimator if scaler is None else make_pipeline(scaler, estimator)
        wrote = {"answers": args.answers, **write_results(args, model, table, X, estimator.labels_)}
    return _result(session, estimator, table) | {"wrote": wrote}


def _code(relation: str) -> int:
    """1 for same, -1 for different, 0 for don't know, however a file names them."""
    from maxmargin.answers import CANNOT, MUST

    return 1 if relation in MUST else -1 if relation in CANNOT else 0


class _Session:
    """The questions of one session."""

    def __init__(self, loop, log, table, args):
        self.loop, self.log, self.table, self.args = loop, log, table, args
        self.given = 0
        self.labels: Any = None

    def ask_on(self) -> None:
        """Ask until the person quits, the limit is reached or nothing is left to ask."""
        while not self._done():
            pairs = self.loop.suggest(self.args.refit)
            self._show_changes()
            if len(pairs) == 0:
                _say("nothing is left to ask")
                return
            if not self._ask_all(pairs.tolist()):
                return

    def _done(self) -> bool:
        return self.args.limit is not None and self.given >= self.args.limit

    def _ask_all(self, pairs) -> bool:
        """Ask about pairs one after the other; False when the person quits."""
        while pairs and not self._done():
            pair = pairs.pop(0)
            said = self._asked(pair)
            if said == "quit":
                return False
            if said == "undo":
                last = self.log.undo()
                pairs.insert(0, pair)
                if last is None:
                    _say("there is no answer to take back")
                    continue
                self.loop.undo()
                pairs.insert(0, list(last[:2]))
                _say(f"taken back: rows {last.row_a} and {last.row_b} were {last.relation}")
                continue
            self._note(pair, said)
        return True

    def _note(self, pair, said: str) -> None:
        from maxmargin.answers import Answer

        self.log.append(Answer(int(pair[0]), int(pair[1]), said))
        self.loop.tell([pair], [_code(said)])
        self.given += 1
        _say(f"noted ({plural(len(self.log.answers), 'answer')}): {said}")

    def _asked(self, pair) -> str:
        for line in side_by_side(self.table, *pair):
            _say(line)
        while True:
            _say("same [s], different [d], don't know [?], undo [u] or quit [q]?")
            text = sys.stdin.readline()
            if not text:
                return "quit"
            said = KEYS.get(text.strip().lower())
            if said is not None:
                return said
            _say(f"{text.strip()!r} is none of s, d, ?, u, q")

    def _show_changes(self) -> None:
        new = self.loop.labels()
        if self.labels is not None:
            _say(changes(self.labels, new))
        self.labels = new


def side_by_side(table: Any, a: int, b: int) -> Iterator[str]:
    """Two rows in columns, where they differ most first.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.io import Table
    >>> table = Table(np.array([[1.0, 5.0], [1.0, 9.0]]), None, ("a", "b"), None, "t")
    >>> for line in side_by_side(table, 0, 1):
    ...     print(line.split())
    ['row', '0', 'row', '1']
    ['b', '5', '9']
    ['a', '1', '1']
    """
    import numpy as np
    from scipy import sparse

    X = table.X
    pair = [X[[i]].toarray()[0] if sparse.issparse(X) else np.asarray(X[i]) for i in (a, b)]
    names = table.column_names or [str(j + 1) for j in range(len(pair[0]))]
    spread = np.abs(pair[0] - pair[1])
    if not sparse.issparse(X):
        spread = spread / np.maximum(np.asarray(X[:10_000]).std(axis=0), 1e-300)
    heads = [f"row {i}" if table.ids is None else str(table.ids[i]) for i in (a, b)]
    yield f"{'':<10}{heads[0]:>12} {heads[1]:>12}"
    order = np.argsort(-spread, kind="stable")
    for j in order[:SHOWN_COLUMNS]:
        yield f"  {names[j][:14]:<8}{pair[0][j]:>12.6g} {pair[1][j]:>12.6g}"
    if len(order) > SHOWN_COLUMNS:
        yield f"  ... {len(order) - SHOWN_COLUMNS} more columns, which differ less"


def changes(old: Any, new: Any) -> str:
    """Say how clusters changed, whatever their numbers.

    Examples
    --------
    >>> import numpy as np
    >>> changes(np.array([0, 0, 1, 1]), np.array([1, 1, 0, 1]))
    'fitted anew: 1 row changed its cluster; sizes 3, 1'
    """
    import numpy as np

    from maxmargin.metrics import clustering_accuracy

    moved = round((1.0 - clustering_accuracy(old, new)) * len(old))
    sizes = ", ".join(f"{size:,}" for size in sorted(np.bincount(new), reverse=True))
    whose = "its cluster" if moved == 1 else "their clusters"
    return f"fitted anew: {plural(moved, 'row')} changed {whose}; sizes {sizes}"


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _result(session: _Session, model, table) -> dict[str, Any]:
    codes = [_code(answer.relation) for answer in session.log.answers]
    counts = {"same": codes.count(1), "different": codes.count(-1), "unknown": codes.count(0)}
    return {
        "data": table.source,
        "n_rows": table.X.shape[0],
        "answers": counts,
        "answers_now": session.given,
        "violated": session.loop.constraints.violations(model.labels_).n_links,
        "cluster_sizes": model.cluster_sizes_,
    }


def tell(result: dict[str, Any]) -> Iterator[str]:
    """Say what came of the answers."""
    counts = ", ".join(f"{count} {name}" for name, count in result["answers"].items())
    yield f"{plural(sum(result['answers'].values()), 'answer')}: {counts}"
    yield f"{plural(result['violated'], 'link')} broken by the clusters"
    yield "  cluster      rows   share"
    for j, size in enumerate(result["cluster_sizes"]):
        yield f"  {j:>7}{size:>10,}{size / result['n_rows']:>8.1%}"
    yield told_files(result["wrote"])
