"""``python -m reproduction``: compute the papers' tables and figures beside what they print.

Exit codes: 0 ok, 1 failed, 2 bad usage, 130 interrupted.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .pictures import can_draw
from .report import write_report
from .study import Study, parse_names, run_study
from .words import own_tables, results_table, summary_line, table_text


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
        "--jobs", type=_jobs, default=1, metavar="N",
        help="compute in N processes, one thread each (default: 1)",
    )  # fmt: skip
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


def _jobs(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {text}")
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
        study = run_study(
            wanted, folder / "cache", quick=args.quick, online=not args.offline,
            minutes=args.minutes, jobs=args.jobs, stream=io.StringIO() if args.json else sys.stderr,
        )  # fmt: skip
    except KeyboardInterrupt:
        print(f"\ninterrupted; what was computed is kept in {folder / 'cache'}: the same command "
              "goes on there", file=sys.stderr)  # fmt: skip
        return 130
    wrote = [str(path) for path in write_report(study, folder)]
    print(json.dumps(plain(study, wrote)) if args.json else "\n".join(lines(study, wrote)))
    return 1 if study.results.failed else 0


def _folder(name: str) -> Path:
    """Make the folder, or say why it cannot be written before work is spent."""
    folder = Path(name)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"--out {name}: the folder cannot be written to ({error})") from error
    if not os.access(folder, os.W_OK):
        raise ValueError(f"--out {name}: the folder cannot be written to")
    return folder


def plain(study: Study, wrote: list[str]) -> dict[str, Any]:
    """Return what ``--json`` prints."""
    results = study.results
    return {
        "summary": summary_line(study),
        "quick": study.quick,
        "scoreboard": [asdict(report.share) for report in study.reports],
        "rows": json.loads(results_table(study).to_json(orient="records")),
        "not_available": results.absent,
        "not_run": sorted(set(results.skipped.values())),
        "computed": results.computed,
        "from_cache": len(results.found) - results.computed,
        "wrote": wrote,
    }


def lines(study: Study, wrote: list[str]) -> Iterator[str]:
    """Yield what the terminal shows: the scored rows, what is missing, the scoreboard."""
    for report in study.reports:
        for table, cells in own_tables(report):
            yield f"{report.name}, {table}:"
            yield table_text(cells.drop(columns="picked at"))
    yield from study.results.absent.values()
    yield from sorted(set(study.results.skipped.values()))
    yield summary_line(study)
    if not can_draw():
        yield 'no pictures: pip install "maxmargin[plot]"'
    yield f"wrote {', '.join(wrote)}"


if __name__ == "__main__":
    sys.exit(main())
