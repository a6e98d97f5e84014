"""What several commands share: the arguments about DATA, the files they write, and their words."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from . import UsageError

OUTPUTS = {"out": "labels", "model": "model", "plot": "picture"}
PICTURE_SUFFIXES = (".png", ".pdf", ".svg")


def add_data(parser: argparse.ArgumentParser) -> None:
    """Declare DATA and how to read it."""
    add = parser.add_argument
    add("data", metavar="DATA", help="csv, tsv, txt (also .gz), parquet, npy, npz or svmlight file")
    add("--id-column", metavar="NAME", help="the column that names the rows")
    add("--drop", metavar="NAME,...", action="append", default=[], help="columns to leave out")
    header = "whether the first line of a csv file holds names (default: look)"
    add("--header", action=argparse.BooleanOptionalAction, help=header)
    formats = ["csv", "parquet", "npy", "npz", "svmlight"]
    add("--format", choices=formats, help="how to read DATA (default: by its name)")


def add_outputs(parser: argparse.ArgumentParser, *names: str) -> None:
    """Declare where labels, the model and a picture go."""
    about = {
        "out": "write cluster and margin of each row, with --method auto also its confidence and "
        "whether it is an outlier (0 or 1): .csv, .parquet, or .npy with the cluster alone",
        "model": "save the model: .skops, .joblib",
        "plot": "draw the clusters: .png, .pdf, .svg",
    }
    for name in names:
        parser.add_argument(f"--{name}", metavar="FILE", help=about[name])


def add_standardize(parser: argparse.ArgumentParser) -> None:
    """Declare that columns can be brought to one scale."""
    about = "bring all columns to unit variance first"
    parser.add_argument("--standardize", action="store_true", help=about)


def reading(args: argparse.Namespace) -> dict[str, Any]:
    """Return what `add_data` declared as keywords of `read_rows`."""
    drop = [name for text in args.drop for name in text.split(",") if name]
    kept = {name: getattr(args, name) for name in ("id_column", "header", "format")}
    return {**kept, "drop": drop}


def named_rows(table: Any) -> Any:
    """Return the rows with their column names, so that a model remembers them."""
    if table.column_names is None:
        return table.X
    import pandas as pd

    return pd.DataFrame(table.X, columns=list(table.column_names), copy=False)


def standardizer(X: Any) -> Any:
    """Return what brings columns to unit variance; sparse rows keep their zeros."""
    from scipy import sparse
    from sklearn.preprocessing import StandardScaler

    return StandardScaler(with_mean=not sparse.issparse(X))


def label_columns(args: argparse.Namespace, model: Any, table: Any, X: Any) -> dict[str, Any]:
    """Return what stands beside the labels in a file: margins, certainty and ids."""
    from maxmargin.display import row_margins

    margins = row_margins(model.decision_function(X))
    named = {"ids": table.ids, "id_name": args.id_column or "id"}
    return {"margins": margins, **certainty(model, X), **named}


def certainty(model: Any, X: Any) -> dict[str, Any]:
    """Return confidence and outliers, for the method that tells."""
    if hasattr(model, "steps"):
        model, X = model[-1], model[:-1].transform(X)
    # A fit with constraints or without resamples does not have all of them.
    found = {}
    if hasattr(model, "_calibration"):
        found["confidence"] = model.confidence(X)
    if hasattr(model, "_outliers"):
        found["outliers"] = model.is_outlier(X)
    return found


def check_outputs(args: argparse.Namespace, *names: str) -> None:
    """Refuse outputs that cannot be written or would destroy an input, before any work is done."""
    from maxmargin._files import needed, resolved
    from maxmargin.io import LABEL_SUFFIXES
    from maxmargin.persistence import MODEL_SUFFIXES

    suffixes = {"out": LABEL_SUFFIXES, "model": MODEL_SUFFIXES, "plot": PICTURE_SUFFIXES}
    inputs = [args.data, getattr(args, "links", None), getattr(args, "answers", None)]
    inputs += [] if "model" in names else [args.model]
    taken = {resolved(path): path for path in inputs if path}
    for name in names:
        path = getattr(args, name)
        if path is not None:
            check_output(f"--{name}", path, suffixes[name], taken)
            taken[resolved(path)] = f"what --{name} writes"
            if name == "plot":
                needed("matplotlib", "plot")


def check_output(option: str, path: str, suffixes: tuple[str, ...], taken: dict[Path, str]) -> None:
    """Refuse a file that cannot be written, or that is ``taken``."""
    from maxmargin._files import DataError, check_suffix, check_writable, resolved

    try:
        check_suffix(path, suffixes)
        check_writable(path)
    except DataError as error:
        raise UsageError(f"{option} {error}") from error
    if resolved(path) in taken:
        raise UsageError(f"{option} {path} would overwrite {taken[resolved(path)]}")


def write_results(
    args: argparse.Namespace, model: Any, labels: Any, table: Any = None, X: Any = None
) -> dict[str, str]:
    """Write labels, model and picture, all that were asked for or none; return what is where.

    Rows that were read block by block have no table: their labels are written without margins.
    """
    from maxmargin._files import atomic_writes
    from maxmargin.io import write_labels
    from maxmargin.persistence import save_model

    asked = {name: vars(args)[name] for name in OUTPUTS if vars(args).get(name)}
    with atomic_writes(list(asked.values())) as partials:
        to = dict(zip(asked, partials))
        if "out" in to:
            beside = certainty(model, X) if table is None else label_columns(args, model, table, X)
            write_labels(to["out"], labels, **beside)
        if "model" in to:
            save_model(model, to["model"])
        if "plot" in to:
            # A figure of its own: no window, no global state.
            from matplotlib.figure import Figure

            from maxmargin.display import plot_clusters

            figure = Figure(figsize=(6.4, 4.8), layout="constrained")
            plot_clusters(model, X, labels, ax=figure.subplots())
            figure.savefig(to["plot"], dpi=150)
    return {OUTPUTS[name]: path for name, path in asked.items()}


def told_files(wrote: dict[str, str]) -> str:
    """Say which files were written."""
    return "wrote " + ", ".join(f"{path} ({what})" for what, path in wrote.items())


def table_of(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> Any:
    """Return a table that a command's ``tell`` can yield."""
    from rich.table import Table

    table = Table(box=None)
    for name in columns:
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    return table


def plural(count: int, noun: str) -> str:
    """Return a count with its noun.

    Examples
    --------
    >>> from maxmargin.cli.data import plural
    >>> plural(1, "row"), plural(2000, "row")
    ('1 row', '2,000 rows')
    """
    return f"{count:,} {noun}" + ("" if count == 1 else "s")
