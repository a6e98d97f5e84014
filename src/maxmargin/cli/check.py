"""``maxmargin check``: what is wrong with a file, and what to do about it."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from maxmargin._files import plural

from .data import add_data, add_known_labels, reading, told_bytes, told_columns
from .methods import build_estimator, positive

SUMMARY = "say what is wrong with a file, and what to do about it"
EXAMPLE = "maxmargin check people.csv -k 2"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_data(parser)
    add_known_labels(parser.add_argument)
    parser.add_argument(
        "-k", "--n-clusters", type=positive, metavar="K", help="number of clusters wanted"
    )


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Inspect a file, and compare what `fit` without options needs with what the machine has."""
    from maxmargin import _base
    from maxmargin._findings import inspect_rows

    given = {"label_column": args.partial_labels, "n_clusters": args.n_clusters}
    found = inspect_rows(args.data, **given, **reading(args))
    about = asdict(found)
    result = {"ok": found.usable, "data": about.pop("source"), **about}
    if found.n_rows and found.n_columns:
        estimator = build_estimator("auto", args.n_clusters, {})
        result |= {
            "memory_needed": estimator.estimate_memory(found.n_rows, found.n_columns),
            "memory_available": _base.available_memory(),
        }
    return result


def tell(result: dict[str, Any]) -> Iterator[Any]:
    """Say what was found."""
    if result["format"] != "unknown":
        size = f"{plural(result['n_rows'], 'row')}, {plural(result['n_columns'], 'column')}"
        what = "to cluster" if result["columns"] else "of numbers"
        yield f"{result['data']}: {size} {what}, read as {result['format']}"
        yield from told_columns(result["columns"])
    for finding in result["findings"]:
        yield f"  {finding['level']}: {finding['what']}"
        if finding["remedy"]:
            yield f"    what to do: {finding['remedy']}"
    if "memory_needed" in result:
        need, have = result["memory_needed"], result["memory_available"]
        yield f"  fit needs about {told_bytes(need)} of memory"
        if need > have:
            yield f"    but {told_bytes(have)} are free: lower --max-samples, or fit fewer rows"
    yield "usable" if result["ok"] else "not usable as it is"
