"""``maxmargin report``: a page about a model and its rows, as one html file."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from maxmargin._files import plural, resolved

from . import data

SUMMARY = "write a page about a saved model and the rows of a file"
EXAMPLE = "maxmargin report people.skops people.csv --id-column name --out report.html"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("model", metavar="MODEL", help="a model saved by fit --model")
    data.add_data(parser)
    add = parser.add_argument
    add("--out", metavar="FILE", default="report.html", help="the page (default: report.html)")
    add_pictures(parser)


def add_pictures(parser: argparse.ArgumentParser) -> None:
    """Declare how rows are shown as pictures."""
    about = "the numbers of a row are the pixels of a picture, such as 28x28 or 32x32x3"
    parser.add_argument("--image-shape", metavar="HxW", type=_shape, help=about)


def _shape(text: str) -> tuple[int, ...]:
    if not re.fullmatch(r"\d+x\d+(x[1-4])?", text):
        raise ValueError
    return tuple(map(int, text.split("x")))


_shape.__name__ = "shape such as 28x28"


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Write the page."""
    from maxmargin._report import PAGE_SUFFIXES, Rows, make_report
    from maxmargin.persistence import load_model

    inputs = {resolved(path): path for path in (args.model, args.data)}
    data.check_output("--out", args.out, PAGE_SUFFIXES, inputs)
    model = load_model(args.model)
    table = data.new_rows(args, model)
    rows = Rows(table.X, None, args.image_shape, table.ids)
    page = make_report(model, rows, Path(args.data).name)
    page.save(args.out)
    sizes = [cluster["size"] for cluster in page.view["clusters"]]
    size = Path(args.out).stat().st_size
    return {"n_rows": rows.n, "cluster_sizes": sizes, "bytes": size, "wrote": {"page": args.out}}


def tell(result: dict[str, Any]) -> Iterator[str]:
    """Say what was written."""
    yield (
        f"{plural(result['n_rows'], 'row')} in "
        f"{plural(len(result['cluster_sizes']), 'cluster')}; "
        f"{data.told_files(result['wrote'])}, {data.told_bytes(result['bytes'])}"
    )
