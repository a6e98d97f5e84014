"""What several commands share: the arguments about DATA, and the files they write."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from . import UsageError

OUTPUTS = {"out": "labels", "model": "model", "plot": "picture"}
PICTURE_SUFFIXES = (".png", ".pdf", ".svg")
# What an option or an ending needs: a package, and the extra that brings it.
_NEEDS = {"plot": ("matplotlib", "plot"), ".skops": ("skops", "io")}


def add_data(parser: argparse.ArgumentParser) -> None:
    """Declare DATA and how to read it."""
    parser.add_argument(
        "data", metavar="DATA", help="csv, tsv, txt (also .gz), parquet, npy, npz or svmlight file"
    )
    parser.add_argument("--id-column", metavar="NAME", help="the column that names the rows")
    parser.add_argument(
        "--drop", metavar="NAME,...", action="append", default=[], help="columns to leave out"
    )
    parser.add_argument(
        "--header",
        action=argparse.BooleanOptionalAction,
        help="whether the first line of a csv file holds names (default: look)",
    )
    parser.add_argument(
        "--format",
        choices=["csv", "parquet", "npy", "npz", "svmlight"],
        help="how to read DATA (default: by its name)",
    )


def add_out(parser: argparse.ArgumentParser) -> None:
    """Declare where labels go."""
    parser.add_argument(
        "--out",
        metavar="FILE",
        help="write the cluster and margin of each row: .csv, .parquet, .npy",
    )


def reading(args: argparse.Namespace) -> dict[str, Any]:
    """Return what `add_data` declared as keywords of `read_rows`."""
    return {
        "id_column": args.id_column,
        "drop": [name for text in args.drop for name in text.split(",") if name],
        "header": args.header,
        "format": args.format,
    }


def named_rows(table: Any) -> Any:
    """Return the rows with their column names, so that a model remembers them; needs pandas."""
    if table.column_names is None or find_spec("pandas") is None:
        return table.X
    import pandas as pd

    return pd.DataFrame(table.X, columns=list(table.column_names), copy=False)


def standardizer(X: Any) -> Any:
    """Return what brings columns to unit variance; sparse rows keep their zeros."""
    from scipy import sparse
    from sklearn.preprocessing import StandardScaler

    return StandardScaler(with_mean=not sparse.issparse(X))


def label_columns(args: argparse.Namespace, model: Any, table: Any, X: Any) -> dict[str, Any]:
    """Return what stands beside the labels in a file: margins and ids."""
    from maxmargin.display import row_margins

    margins = row_margins(model.decision_function(X))
    return {"margins": margins, "ids": table.ids, "id_name": args.id_column or "id"}


def check_outputs(args: argparse.Namespace, *names: str) -> None:
    """Refuse outputs that cannot be written or would destroy an input, before any work is done."""
    from maxmargin.files import DataError, check_suffix, check_writable, resolved
    from maxmargin.io import LABEL_SUFFIXES
    from maxmargin.persistence import MODEL_SUFFIXES

    suffixes = {"out": LABEL_SUFFIXES, "model": MODEL_SUFFIXES, "plot": PICTURE_SUFFIXES}
    inputs = [args.data, getattr(args, "links", None), getattr(args, "answers", None)]
    inputs += [] if "model" in names else [args.model]
    taken = {resolved(path): path for path in inputs if path}
    for name in names:
        path = getattr(args, name)
        if path is None:
            continue
        try:
            suffix = check_suffix(path, suffixes[name])
            check_writable(path)
        except DataError as error:
            raise UsageError(f"--{name} {error}") from error
        if resolved(path) in taken:
            raise UsageError(f"--{name} {path} would overwrite {taken[resolved(path)]}")
        taken[resolved(path)] = f"what --{name} writes"
        needed = _NEEDS.get(name) or _NEEDS.get(suffix)
        if needed and find_spec(needed[0]) is None:
            raise DataError(
                f"--{name} {path} needs {needed[0]}",
                f'Install it: pip install "maxmargin[{needed[1]}]"',
            )


@contextlib.contextmanager
def writing(args: argparse.Namespace) -> Iterator[tuple[dict[str, Path], dict[str, str]]]:
    """Write the outputs that were asked for, all of them or none.

    Yields
    ------
    to : dict
        Where to write the output of each option that was given; put in place at the end.
    wrote : dict
        What is written where, for `told_files`.
    """
    from maxmargin.files import atomic_writes

    asked = {name: vars(args)[name] for name in OUTPUTS if vars(args).get(name)}
    with atomic_writes(list(asked.values())) as partials:
        yield dict(zip(asked, partials)), {OUTPUTS[name]: path for name, path in asked.items()}


def write_results(
    args: argparse.Namespace, model: Any, table: Any, X: Any, labels: Any
) -> dict[str, str]:
    """Write labels, model and picture, whichever were asked for; return what is written where."""
    from maxmargin.io import write_labels
    from maxmargin.persistence import save_model

    with writing(args) as (to, wrote):
        if "out" in to:
            write_labels(to["out"], labels, **label_columns(args, model, table, X))
        if "model" in to:
            save_model(model, to["model"])
        if "plot" in to:
            _write_plot(to["plot"], model, X, labels)
    return wrote


def _write_plot(path: Path, model: Any, X: Any, labels: Any) -> None:
    # A figure of its own: no window, no global state.
    from matplotlib.figure import Figure

    from maxmargin.display import plot_clusters

    figure = Figure(figsize=(6.4, 4.8), layout="constrained")
    plot_clusters(model, X, labels, ax=figure.subplots())
    figure.savefig(path, dpi=150)


def told_files(wrote: dict[str, str]) -> str:
    """Say which files were written.

    Examples
    --------
    >>> from maxmargin.commands.data import told_files
    >>> told_files({"labels": "l.csv"})
    'wrote l.csv (labels)'
    """
    return "wrote " + ", ".join(f"{path} ({what})" for what, path in wrote.items())


def plural(count: int, noun: str) -> str:
    """Return a count with its noun.

    Examples
    --------
    >>> from maxmargin.commands.data import plural
    >>> plural(1, "row"), plural(2000, "row")
    ('1 row', '2,000 rows')
    """
    return f"{count:,} {noun}" + ("" if count == 1 else "s")
