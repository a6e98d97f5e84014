"""What several commands share: the arguments about DATA, and the files they write."""

from __future__ import annotations

import argparse
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from . import UsageError

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


def label_columns(args: argparse.Namespace, model: Any, table: Any, X: Any) -> dict[str, Any]:
    """Return what stands beside the labels in a file: margins and ids."""
    from maxmargin.display import row_margins

    margins = row_margins(model.decision_function(X))
    return {"margins": margins, "ids": table.ids, "id_name": args.id_column or "id"}


def check_outputs(args: argparse.Namespace, *names: str) -> None:
    """Refuse outputs that cannot be written or would destroy an input, before any work is done."""
    from maxmargin._files import DataError, check_suffix, check_writable
    from maxmargin.io import LABEL_SUFFIXES
    from maxmargin.persistence import MODEL_SUFFIXES

    suffixes = {"out": LABEL_SUFFIXES, "model": MODEL_SUFFIXES, "plot": PICTURE_SUFFIXES}
    inputs = [args.data] if "model" in names else [args.data, args.model]
    taken = {Path(path).resolve(): path for path in inputs}
    for name in names:
        path = getattr(args, name)
        if path is None:
            continue
        try:
            suffix = check_suffix(path, suffixes[name])
            check_writable(path)
        except DataError as error:
            raise UsageError(f"--{name} {error}") from error
        if Path(path).resolve() in taken:
            raise UsageError(f"--{name} {path} would overwrite {taken[Path(path).resolve()]}")
        taken[Path(path).resolve()] = f"what --{name} writes"
        needed = _NEEDS.get(name) or _NEEDS.get(suffix)
        if needed and find_spec(needed[0]) is None:
            raise DataError(
                f"--{name} {path} needs {needed[0]}",
                f'Install it: pip install "maxmargin[{needed[1]}]"',
            )


def told_files(wrote: dict[str, str]) -> str:
    """Say which files were written.

    Examples
    --------
    >>> from maxmargin.cli.data import told_files
    >>> told_files({"labels": "l.csv"})
    'wrote l.csv (labels)'
    """
    return "wrote " + ", ".join(f"{path} ({what})" for what, path in wrote.items())


def plural(count: int, noun: str) -> str:
    """Return a count with its noun.

    Examples
    --------
    >>> from maxmargin.cli.data import plural
    >>> plural(1, "row"), plural(2000, "row")
    ('1 row', '2,000 rows')
    """
    return f"{count:,} {noun}" + ("" if count == 1 else "s")
