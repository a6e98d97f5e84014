"""``maxmargin label``: ask a person about pairs of rows, and cluster with the answers.

Questions and the talk around them go to stderr, so that stdout has the result alone. Every answer
is on the disk before the next question is asked: a killed session goes on where it was.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

from maxmargin._files import plural

from . import data
from .methods import add_options, build_estimator, given_options, positive

SUMMARY = "ask which rows belong together, and cluster with the answers"
EXAMPLE = "maxmargin label people.csv -k 2 --id-column name --out labels.csv"
KEYS = {
    "s": "same", "same": "same", "y": "same", "yes": "same", "same group": "same",
    "d": "different", "different": "different", "n": "different", "no": "different",
    "k": "unknown", "don't know": "unknown", "dont know": "unknown", "u": "undo", "undo": "undo",
    "q": "quit", "quit": "quit",
}  # fmt: skip
QUESTION = "same group? yes [y], no [n], don't know [k], undo [u], quit [q], help [?]"
HELP = (
    "y, s  the two rows belong to the same group",
    "n, d  they belong to different groups",
    "k     you don't know: nothing is concluded",
    "u     take back the last answer",
    "q     stop asking, and cluster with the answers; the same command goes on with the questions",
)
METHODS = ("auto", "pairwise")
SHOWN_COLUMNS = 20
TRIES = 10  # lines that are no answers, of an input that is no person
WIDEST = 36  # characters of a cell


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    data.add_data(parser)
    add = parser.add_argument
    add("-k", "--n-clusters", type=positive, required=True, metavar="K",
        help="number of clusters (required)")  # fmt: skip
    data.add_answers(parser)
    refit = "fit anew after N answers (default: 5)"
    add("--refit", type=positive, default=5, metavar="N", help=refit)
    add("--limit", type=positive, metavar="N", help="stop after N answers")
    method = "auto, as in fit, or pairwise (default: auto, which needs no settings)"
    add("--method", choices=METHODS, default="auto", help=method)
    data.add_columns(parser)
    data.add_outputs(parser, "out", "model")
    add_options(parser, METHODS)


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Ask until the person has had enough, then fit with all answers."""
    from maxmargin._answers import number_of
    from maxmargin.active import PairQueries

    data.check_outputs(args, "out", "model")
    options = given_options(args, METHODS)
    if args.method == "pairwise":
        options = {"on_conflict": "soft", **options}
    estimator = build_estimator(args.method, args.n_clusters, options)
    rows = data.read_data(args, estimator)
    rows.warn()
    # Before the first answer there are none, as a matter of course.
    warnings.filterwarnings("ignore", message="No constraints and no partial_labels")
    steps = rows.transformer
    fitted_on = rows.X if steps is None else steps.fit_transform(rows.X)
    with data.open_answers(args, rows) as log:
        if find_spec("starlette") and find_spec("uvicorn"):
            page = f"maxmargin explore {args.data} -k {args.n_clusters}"
            data.say(f"the same on a page: {page}, with the same options for columns and answers")
        # The seed moves on with the answers: a resumed session does not repeat its first questions.
        seed = (args.random_state or 0) + len(log.answers)
        loop = PairQueries(estimator, fitted_on, random_state=seed)
        estimator.set_params(n_clusters=number_of(log.answers, args.n_clusters))
        _tell_all(loop, log)
        session = _Session(loop, log, rows, args)
        session.ask_on()
        estimator = loop.fit()
        wrote = data.write_results(args, rows.pipeline(estimator), estimator.labels_, rows)
    codes = [answer.code for answer in log.answers if answer.about_pair]
    names = {"same": 1, "different": -1, "unknown": 0}
    return {
        "data": rows.source,
        "n_rows": rows.X.shape[0],
        "answers": {name: codes.count(code) for name, code in names.items()},
        "answers_now": session.given,
        "violated": loop.constraints.violations(estimator.labels_).n_links,
        "cluster_sizes": estimator.cluster_sizes_,
        "wrote": {"answers": args.answers, **wrote},
    }


def _tell_all(loop: Any, log: Any) -> None:
    """Tell the questions' model what is known, also by the names that a page gave."""
    from maxmargin._answers import pairs_of

    pairs = pairs_of(log.answers)
    loop.answers.clear()
    loop.tell([answer[:2] for answer in pairs], [answer.code for answer in pairs])


class _Session:
    """The questions of one session."""

    def __init__(self, loop, log, rows, args):
        self.loop, self.log, self.rows, self.args = loop, log, rows, args
        self.given = 0

    def ask_on(self) -> None:
        """Ask until the person quits, the limit is reached or nothing is left to ask."""
        labels = None
        while not self._done():
            pairs = self.loop.suggest(self.args.refit)
            before, labels = labels, self.loop.labels()
            if before is not None:
                data.say(changes(before, labels))
            if len(pairs) == 0:
                data.say("nothing is left to ask")
                return
            if not self._ask_all(pairs.tolist()):
                return

    def _done(self) -> bool:
        return self.args.limit is not None and self.given >= self.args.limit

    def _ask_all(self, pairs) -> bool:
        """Ask about pairs one after the other; False when the person quits."""
        while pairs and not self._done():
            said = self._asked(pairs[0])
            if said == "quit":
                return False
            if said == "undo":
                last = self.log.undo()
                if last is None:
                    data.say("there is no answer to take back")
                    continue
                _tell_all(self.loop, self.log)
                if last.about_pair:
                    pairs.insert(0, list(last[:2]))
                a, b = (_name(self.rows.ids, row) for row in last[:2])
                data.say(f"taken back: {a} and {b} were {last.relation}")
            else:
                self._note(pairs.pop(0), said)
        return True

    def _note(self, pair, said: str) -> None:
        from maxmargin._answers import Answer

        a, b = pair
        answer = Answer(a, b, said)
        self.log.append(answer)
        self.loop.tell([pair], [answer.code])
        self.given += 1
        data.say(f"noted ({plural(len(self.log.answers), 'answer')}): {said}")

    def _asked(self, pair) -> str:
        data.say(side_by_side(self.rows.X, self.rows.ids, *pair))
        tries = 0
        while True:
            data.say(QUESTION)
            text = sys.stdin.readline()
            word = text.strip().lower() if text else "quit"
            if word in KEYS:
                return KEYS[word]
            tries += 1
            if tries == TRIES and not sys.stdin.isatty():
                what = f"stdin gave {TRIES} lines in a row that are no answers, such as"
                raise ValueError(f"{what} {text.strip()!r}. Each line must be one of y, n, k, u, q")
            if word not in ("?", "h", "help"):
                data.say(f"{text.strip()!r} is none of y, n, k, u, q")
            for line in HELP:
                data.say(line)


def side_by_side(X: Any, ids: Any, a: int, b: int) -> Any:
    """Return a table of two rows: of many columns, those in which they differ most."""
    import pandas as pd
    from scipy import sparse
    from sklearn.utils import _safe_indexing

    names = list(getattr(X, "columns", [str(j + 1) for j in range(X.shape[1])]))
    pair = _safe_indexing(X, [a, b])
    pair, sample = ([pair.toarray()] * 2) if sparse.issparse(X) else (pair, X[:10_000])
    pair, sample = (pd.DataFrame(part).set_axis(names, axis=1) for part in (pair, sample))
    order = sorted(names, key=lambda name: -_apart(pair[name], sample[name]))
    shown = set(order[:SHOWN_COLUMNS])
    rows = [[name, *map(_cell, pair[name].tolist())] for name in names if name in shown]
    if len(names) > len(rows):
        rows.append([f"and {len(names) - len(rows)} more, which differ less", "", ""])
    return data.table_of(["", _name(ids, a), _name(ids, b)], rows, "left", WIDEST)


def _name(ids: Any, row: int) -> str:
    return f"row {row}" if ids is None else str(ids[row])


def _cell(value: Any) -> str:
    """Return a value in few characters; days have no time."""
    if value is None or value != value:
        return "(empty)"
    return f"{value:.6g}" if isinstance(value, float) else str(value).removesuffix(" 00:00:00")


def _apart(two: Any, column: Any) -> float:
    """How far two cells of a column are apart: in its standard deviations, or 1 for other text."""
    import pandas as pd

    a, b = two.tolist()
    if pd.api.types.is_numeric_dtype(column):
        return abs(a - b) / max(float(column.std(ddof=0)), 1e-300) if a == a and b == b else 1.0
    return float(str(a) != str(b))


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


def tell(result: dict[str, Any]) -> Iterator[Any]:
    """Say what came of the answers."""
    counts = ", ".join(f"{count} {name}" for name, count in result["answers"].items())
    if total := sum(result["answers"].values()):
        yield f"{plural(total, 'answer')}: {counts}"
        yield f"answers that the clusters contradict: {result['violated']}"
    else:
        yield "no answer was given: these are the clusters without answers"
    yield from data.told_clusters(result)
    yield data.told_files(result["wrote"])
    yield "to go on with the questions, run the same command again"
    if "labels" not in result["wrote"]:
        yield "to save the clusters of the rows, add --out labels.csv"
