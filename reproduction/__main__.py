"""``python -m reproduction``: compute the papers' tables and figures beside what they print.

Exit codes: 0 ok, 1 failed, 2 bad usage, 130 interrupted.
"""

from __future__ import annotations

import argparse
import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from maxmargin.files import DataError, atomic_write, check_writable

from .document import reproduction
from .pages import index_page, paper_page
from .pictures import can_draw
from .plan import MODES
from .study import Wanted, parse_names, run_study
from .words import csv_text, number, summary_line, table_lines


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m reproduction",
        description="Compute the tables and figures of the five papers beside what they print.",
        epilog="Example: python -m reproduction least_squares alternating:table-4 --quick",
        allow_abbrev=False,
    )
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help="papers (alternating, cutting_plane, pairwise, least_squares, multiple_kernel), or "
        "tables such as alternating:table-4 (default: all)",
    )
    parser.add_argument(
        "--quick", action="store_true", help="fewer rows, seeds and settings: a look in minutes"
    )
    parser.add_argument(
        "--out",
        metavar="FOLDER",
        default="maxmargin-papers",
        help="where to write pages, results and the cache (default: maxmargin-papers)",
    )
    parser.add_argument(
        "--minutes",
        type=_minutes,
        default=float("inf"),
        metavar="M",
        help="stop computing after M minutes and show what there is; the same command goes on",
    )
    parser.add_argument(
        "--offline", action="store_true", help="do not ask OpenML for data that are not at hand"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object, nothing else")
    return parser


def _minutes(text: str) -> float:
    value = float(text)
    if not value >= 0:
        raise argparse.ArgumentTypeError(f"must be at least 0, got {text}")
    return value


def main(argv: list[str] | None = None) -> int:
    """Run the command and return its exit code."""
    parser = make_parser()
    args = parser.parse_args(argv)
    try:
        wanted, folder = parse_names(args.names), _folder(args.out)
    except ValueError as error:
        parser.error(str(error))
    try:
        result = run(args, wanted, folder)
    except KeyboardInterrupt:
        print(f"\ninterrupted; what was computed is kept in {folder / 'cache'}: the same command "
              "goes on there", file=sys.stderr)  # fmt: skip
        return 130
    print(json.dumps(result) if args.json else "\n".join(tell(result)))
    return 0


def run(args: argparse.Namespace, wanted: list[Wanted], folder: Path) -> dict[str, Any]:
    """Run what is wanted, write pages and return what ``--json`` prints."""
    stream = io.StringIO() if args.json else sys.stderr
    study = run_study(
        wanted, folder / "cache", quick=args.quick, online=not args.offline,
        minutes=args.minutes, stream=stream,
    )  # fmt: skip
    return {
        "summary": summary_line(study),
        "quick": args.quick,
        "scoreboard": [
            {
                "paper": r.name,
                "printed": r.share.printed,
                "with_data": r.share.with_data,
                "reached": r.share.reached,
            }
            for r in study.reports
        ],
        "rows": [_plain_row(row) for r in study.reports for row in r.rows],
        "not_available": study.results.absent,
        "not_run": sorted(set(study.results.skipped.values())),
        "computed": study.results.computed,
        "from_cache": len(study.results.found) - study.results.computed,
        "wrote": _write(study, folder),
    }


def _folder(name: str) -> Path:
    """Make the folder, or say why it cannot be written before work is spent."""
    folder = Path(name)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        check_writable(folder / "index.html")
    except (OSError, DataError) as error:
        raise ValueError(f"--out {name}: the folder cannot be written to ({error})") from error
    return folder


def _plain_row(row: Any) -> dict[str, Any]:
    figure = row.figure
    return {
        "paper": figure.paper,
        "table": figure.table,
        "dataset": figure.dataset,
        "method": figure.method,
        "metric": figure.metric,
        "paper_value": figure.value,
        "label_free": row.label_free,
        "post_hoc": row.post_hoc,
        "scored": figure.scored,
        "reached": {mode: row.reached(mode) for mode in MODES},
        "why": row.why,
    }


def _write(study: Any, folder: Path) -> dict[str, str]:
    texts = {
        "index": ("index.html", index_page(study)),
        "results": ("results.csv", csv_text(study)),
        "document": ("reproduction.md", reproduction(study)),
    }
    for report in study.reports:
        texts[report.name] = (f"{report.name}.html", paper_page(report, study.quick))
    wrote = {}
    for what, (name, text) in texts.items():
        with atomic_write(folder / name) as partial:
            partial.write_text(text, encoding="utf-8")
        wrote[what] = str(folder / name)
    return wrote


def tell(result: dict[str, Any]) -> Iterator[str]:
    """Say what was found: the scored rows, then the scoreboard."""
    said = {True: "reached", False: "not reached", None: "-"}
    for paper in dict.fromkeys(row["paper"] for row in result["rows"]):
        scored = [row for row in result["rows"] if row["paper"] == paper and row["scored"]]
        for table in dict.fromkeys(row["table"] for row in scored):
            yield f"{paper}, {table}:"
            cells = [
                (row["dataset"], row["method"], row["metric"], f"{row['paper_value']:g}",
                 number(row["label_free"], row["metric"]), number(row["post_hoc"], row["metric"]),
                 said[row["reached"]["post hoc"]] if not row["why"] else row["why"])
                for row in scored
                if row["table"] == table
            ]  # fmt: skip
            head = ("data", "method", "metric", "paper", "label-free", "post hoc", "")
            yield from (f"  {line}" for line in table_lines(head, cells))
    yield from result["not_available"].values()
    yield from result["not_run"]
    yield result["summary"]
    if not can_draw():
        yield 'no pictures: pip install "maxmargin[plot]"'
    yield "wrote " + ", ".join(f"{path} ({what})" for what, path in result["wrote"].items())


if __name__ == "__main__":
    sys.exit(main())
