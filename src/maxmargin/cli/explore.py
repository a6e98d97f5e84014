"""``maxmargin explore``: a page on this machine where a person names and corrects clusters.

What is said there goes to the same file as the answers of ``maxmargin label``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from maxmargin._files import needed, plural

from . import data
from .methods import add_options, build_estimator, given_options, positive
from .report import add_pictures

SUMMARY = "open a page where you see, name and correct the clusters of a file"
EXAMPLE = "maxmargin explore people.csv -k 2 --id-column name"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    data.add_data(parser)
    add = parser.add_argument
    chosen = "number of clusters to start with (default: found by the density of the rows)"
    add("-k", "--n-clusters", type=positive, metavar="K", help=chosen)
    data.add_answers(parser)
    add("--refit", type=int, default=10, metavar="N", help="fit anew after N answers (default: 10)")
    add("--port", type=int, default=0, help="port on 127.0.0.1 (default: a free one)")
    shown = "open the page in a browser (default: if this is a terminal)"
    add("--browser", action=argparse.BooleanOptionalAction, default=sys.stderr.isatty(), help=shown)
    data.add_columns(parser)
    add_pictures(parser)
    data.add_outputs(parser, "out", "model")
    add_options(parser, ["auto"])


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Serve the page until Ctrl-C, then write what was asked for."""
    from maxmargin.app import ClusterExplorer
    from maxmargin.app._server import serve

    needed("starlette", "app")
    needed("uvicorn", "app")
    data.check_outputs(args, "out", "model")
    estimator = build_estimator("auto", args.n_clusters, given_options(args, ["auto"]))
    table = data.read_data(args, estimator)
    table.warn()
    with data.open_answers(args, table) as log:
        explorer = ClusterExplorer(
            table.pipeline(estimator), table.X, images=args.image_shape, ids=table.ids,
            answers=log, refit_every=args.refit, title=Path(args.data).name,
            random_state=args.random_state or 0,
        )  # fmt: skip
        try:
            explorer.refit()
            serve(explorer, args.port, lambda address: _opened(address, args.browser))
        finally:
            explorer.close()
    wrote = {}
    if explorer.labels is not None:
        wrote = data.write_results(args, explorer.model, explorer.labels, table)
    return {
        "data": table.source,
        "n_rows": explorer.rows.n,
        "n_answers": len(explorer.log.answers),
        "names": explorer.names,
        "wrote": {"answers": args.answers, **wrote},
    }


def _opened(address: str, browser: bool) -> None:
    data.say(f"open {address} (Ctrl-C ends; everything said is saved)")
    if browser:
        import webbrowser

        webbrowser.open(address)


def tell(result: dict[str, Any]) -> Iterator[str]:
    """Say what came of it."""
    yield plural(result["n_answers"], "answer")
    yield data.told_files(result["wrote"])
