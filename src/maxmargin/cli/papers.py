"""``maxmargin papers``: the tables and figures of the papers, computed beside what they print."""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from . import UsageError
from .data import told_files

SUMMARY = "compute the tables and figures of the five papers beside what they print"
EXAMPLE = "maxmargin papers least_squares alternating:table-4 --quick --out papers"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
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


def _minutes(text: str) -> float:
    value = float(text)
    if not value >= 0:
        raise argparse.ArgumentTypeError(f"must be at least 0, got {text}")
    return value


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Run what is asked for and write pages."""
    from maxmargin.papers.plan import MODES
    from maxmargin.papers.study import parse_names, run_study
    from maxmargin.papers.words import summary_line

    try:
        wanted = parse_names(args.names)
    except ValueError as error:
        raise UsageError(str(error)) from error
    folder = _folder(args.out)
    stream = io.StringIO() if args.json else sys.stderr
    try:
        study = run_study(
            wanted, folder / "cache", quick=args.quick, online=not args.offline,
            minutes=args.minutes, stream=stream,
        )  # fmt: skip
    except KeyboardInterrupt:
        print(f"\nwhat was computed is kept in {folder / 'cache'}: the same command goes on there",
              file=sys.stderr)  # fmt: skip
        raise
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
        "rows": [_plain_row(row, MODES) for r in study.reports for row in r.rows],
        "not_available": study.results.absent,
        "not_run": sorted(set(study.results.skipped.values())),
        "computed": study.results.computed,
        "from_cache": len(study.results.found) - study.results.computed,
        "wrote": _write(study, folder),
    }


def _folder(name: str) -> Path:
    """Make the folder, or say why it cannot be written before work is spent."""
    from maxmargin._files import DataError, check_writable

    folder = Path(name)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        check_writable(folder / "index.html")
    except (OSError, DataError) as error:
        raise UsageError(f"--out {name}: the folder cannot be written to ({error})") from error
    return folder


def _plain_row(row: Any, modes: tuple[str, ...]) -> dict[str, Any]:
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
        "reached": {mode: row.reached(mode) for mode in modes},
        "why": row.why,
    }


def _write(study: Any, folder: Path) -> dict[str, str]:
    from maxmargin._files import atomic_write
    from maxmargin.papers.document import reproduction
    from maxmargin.papers.pages import index_page, paper_page
    from maxmargin.papers.words import csv_text

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
    from maxmargin.papers.pictures import can_draw
    from maxmargin.papers.words import number, table_lines

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
    yield told_files(result["wrote"])
