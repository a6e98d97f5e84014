"""What several commands share: the arguments about DATA, the files they write, and their words."""

from __future__ import annotations

import argparse
import contextlib
import shlex
import sys
import warnings
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TextIO

from maxmargin._column_kinds import KINDS
from maxmargin._files import (
    DataError,
    atomic_writes,
    check_suffix,
    check_writable,
    needed,
    plural,
    resolved,
)

from . import UsageError

OUTPUTS = {"out": "labels", "model": "model", "plot": "picture"}
LISTED, LISTED_CLUSTERS = 30, 20  # columns, clusters: more are not listed
PICTURE_SUFFIXES = (".png", ".pdf", ".svg")


def add_data(parser: argparse.ArgumentParser) -> None:
    """Declare DATA and how to read it."""
    add = parser.add_argument
    add("data", metavar="DATA", help="csv, tsv, txt (also .gz), parquet, npy, npz or svmlight file")
    add("--id-column", metavar="NAME", help="the column that names the rows")
    add("--drop", metavar="NAME,...", action="append", default=[], help="columns to leave out")
    add = parser.add_argument_group("how to read DATA").add_argument
    header = "whether the first line of a csv file holds names (default: look)"
    add("--header", action=argparse.BooleanOptionalAction, help=header)
    formats = ["csv", "parquet", "npy", "npz", "svmlight"]
    add("--format", choices=formats, help="how to read DATA (default: by its name)")


def add_known_labels(add: Any) -> None:
    """Declare the column of known labels, by the method that adds arguments."""
    known = "the column of DATA with known labels, kept fixed; empty, ? or -1 is unknown"
    add("--partial-labels", metavar="COLUMN", help=known)


def add_outputs(parser: argparse.ArgumentParser, *names: str) -> None:
    """Declare where labels, the model and a picture go."""
    from maxmargin.persistence import MODEL_SUFFIXES

    about = {
        "out": "write cluster and margin of each row, its class if classes are known, and with the "
        "default method its confidence and whether it is an outlier (0 or 1): .csv, .parquet, or "
        ".npy with the cluster alone",
        "model": f"save the model: {', '.join(MODEL_SUFFIXES)}",
        "plot": f"draw the clusters: {', '.join(PICTURE_SUFFIXES)}",
    }
    for name in names:
        parser.add_argument(f"--{name}", metavar="FILE", help=about[name])


def add_answers(parser: argparse.ArgumentParser) -> None:
    """Declare the file of answers."""
    kept = "where answers are kept and gone on from (default: DATA with the ending .links.csv)"
    parser.add_argument("--answers", metavar="FILE", help=kept)


def add_columns(parser: argparse.ArgumentParser) -> None:
    """Declare what becomes of the columns."""
    add = parser.add_argument_group("what becomes of the columns").add_argument
    about = (
        "bring numbers to unit variance (default: if columns of other kinds are used; the default "
        "method also does it if scales differ much)"
    )
    add("--standardize", action="store_true", help=about)
    kinds = (
        "take a column as number, log (the logarithm of positive numbers), category, date or text, "
        "or drop it (default: by its values)"
    )
    add("--column", metavar="NAME=KIND", action="append", default=[], type=_kind, help=kinds)
    add("--text", metavar="COLUMN", help="cluster the rows by the words of this column alone")


def _kind(text: str) -> tuple[str, str]:
    name, _, kind = text.rpartition("=")
    if not name or kind not in KINDS:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not NAME=KIND with one of {', '.join(KINDS)}"
        )
    return name, kind


def reading(args: argparse.Namespace) -> dict[str, Any]:
    """Return what `add_data` declared as keywords of `read_rows`."""
    drop = [name.strip() for text in args.drop for name in text.split(",") if name.strip()]
    kept = {name: getattr(args, name) for name in ("id_column", "header", "format")}
    return {**kept, "drop": drop}


@dataclass(frozen=True)
class Rows:
    """The rows of DATA: as the model takes them, what prepares them, and what stands beside them.

    ``columns`` says what became of each column; it is empty for files without column names.
    """

    X: Any
    transformer: Any = None
    columns: Sequence[Any] = ()
    ids: Any = None
    id_name: str = "id"
    labels: Any = None
    source: str = ""
    warnings: tuple[str, ...] = ()

    def warn(self) -> None:
        """Warn of what ``check`` finds; errors about options are to be raised before."""
        if self.warnings:  # The fit warns of cells that are no number again, without their places.
            warnings.filterwarnings("ignore", message=r"column .* with no (positive )?number")
        for told in self.warnings:
            warnings.warn(told, UserWarning, stacklevel=2)

    def pipeline(self, estimator: Any) -> Any:
        """Return the model: the estimator, after what prepares the rows."""
        from sklearn.pipeline import Pipeline

        if self.transformer is None:
            return estimator
        return Pipeline([("columns", self.transformer), ("cluster", estimator)])


def read_data(args: argparse.Namespace, estimator: Any, label_column: str | None = None) -> Rows:
    """Read DATA for a fit, and decide what becomes of its columns.

    What it warns of is told by the method `warn`, after options have been checked.
    """
    from scipy import sparse
    from sklearn.preprocessing import StandardScaler

    from maxmargin._data.sheet import absent_columns
    from maxmargin.io import read_table
    from maxmargin.tables import table_columns

    table = read_table(args.data, label_column=label_column, **reading(args))
    id_name, frame = args.id_column or "id", table.X
    check_number(args, frame.shape[0])
    if not hasattr(frame, "iloc"):
        if args.column or args.text:
            option = "--column" if args.column else "--text"
            raise UsageError(f"{option} needs a csv or parquet file; {args.data} has no columns")
        # Sparse rows keep their zeros.
        scaler = StandardScaler(with_mean=not sparse.issparse(frame)) if args.standardize else None
        return Rows(frame, scaler, [], table.ids, id_name, table.labels, table.source)
    kinds = dict(args.column)
    if args.text:
        kinds = dict.fromkeys(frame.columns, "drop") | {args.text: "text"}
    if lost := absent_columns(list(kinds), list(frame.columns)):
        raise DataError(f"{args.data}: {lost[0]}", lost[1])
    columns = table_columns(frame, kinds)
    used = [column.name for column in columns if column.used]
    if not used:
        raise DataError(
            f"{args.data}: no column can be clustered ({columns[0].name!r}: {columns[0].note})",
            f"Say how to use one, for example --column {columns[0].name}=category",
        )
    wanted = [column for column in columns if kinds.get(column.name) != "drop"]
    found = tuple(_warnings(args, table, wanted))
    zero_one = any(c.used and (c.kind == "category" or c.options.get("missing")) for c in columns)
    if zero_one and hasattr(estimator, "spreads") and not hasattr(args, "spreads"):
        estimator.spreads = False  # gaps between the rows of 0/1 columns are not those of clusters
    ids, id_name = found_ids(frame.drop(columns=used), table.ids, id_name)
    steps = prepared_by(columns, args.standardize)
    plain = steps is None
    X = plain_rows(frame[used], table.column_names is not None) if plain else frame[used]
    return Rows(X, steps, columns, ids, id_name, table.labels, table.source, found)


def check_number(args: argparse.Namespace, n_rows: int) -> None:
    """Refuse more clusters than rows."""
    if n_rows < (args.n_clusters or 1):
        what = f"{args.data} has {plural(n_rows, 'row')}, fewer than -k {args.n_clusters}"
        raise DataError(what, "Ask for fewer clusters")


def prepared_by(columns: list[Any], standardize: bool) -> Any:
    """Return what prepares the columns of a table; None for numbers that are used as they are."""
    from maxmargin.tables import column_transformer

    plain = all(column.is_plain for column in columns if column.used) and not standardize
    return None if plain else column_transformer(columns)


def found_ids(others: Any, ids: Any, id_name: str) -> tuple[Any, str]:
    """Return ids as given, or else the first column that names the rows and is not clustered."""
    from maxmargin.tables import table_columns

    named = next((column for column in table_columns(others) if column.is_id), None)
    if ids is not None or named is None:
        return ids, id_name
    return others[named.name].to_numpy(dtype=object), named.name


def _warnings(args: argparse.Namespace, table: Any, columns: list[Any]) -> Iterator[str]:
    """Yield warnings of ``check``; of scales only if the method does not choose them itself."""
    from maxmargin._data.problems import place_of
    from maxmargin._findings import FAR_OUT, SCALES, inspect_frame

    place = partial(place_of, lines=table.lines, ids=table.ids)
    chosen = getattr(args, "method", None) == "auto" or args.standardize
    for finding in inspect_frame(table.X, columns, place):
        if finding.level != "warning" or (chosen and finding.what.startswith(SCALES)):
            continue
        if FAR_OUT in finding.what:
            yield f"{finding.what} (maxmargin check {shlex.quote(args.data)} says more)"
        else:
            yield f"{finding.what}. {finding.remedy}"


def checksum(path: str) -> str:
    """Return a checksum of a file, by which a changed one is noticed."""
    crc = 0
    with open(path, "rb") as file:  # which may be larger than memory
        while block := file.read(1 << 22):
            crc = zlib.crc32(block, crc)
    return f"{crc:08x}"


def open_answers(args: argparse.Namespace, rows: Rows) -> Any:
    """Open the file of answers about DATA, and tell how many it has."""
    from maxmargin._answers import AnswerLog

    log = AnswerLog.open(args.answers, rows.X.shape[0], rows.ids, checksum(args.data))
    if log.answers:
        say(f"going on from {plural(len(log.answers), 'answer')} in {args.answers}")
    return log


def new_rows(args: argparse.Namespace, model: Any) -> Rows:
    """Read DATA as a saved model takes its rows."""
    from sklearn.compose import ColumnTransformer

    from maxmargin._data.sheet import refuse_absent
    from maxmargin._steps import all_numbers
    from maxmargin.io import read_rows, read_table

    names: Any = getattr(model, "feature_names_in_", None)
    id_name = args.id_column or "id"
    mixed = hasattr(model, "steps") and isinstance(model[0], ColumnTransformer)
    table: Any = None if names is None else read_table(args.data, **reading(args))
    if mixed and not hasattr(table.X, "iloc"):
        needs = f"The model needs a table with the columns {', '.join(names)}"
        raise DataError(f"{args.data} has no column names", needs)
    if table is None or (table.column_names is None and not mixed):
        n_features = getattr(model, "n_features_in_", None)
        table = read_rows(args.data, n_features=n_features, **reading(args))
        return Rows(table.X, ids=table.ids, id_name=id_name, source=table.source)
    frame, names = table.X, list(names)
    refuse_absent(names, frame.columns, args.data, mixed)
    if not mixed and not all_numbers(frame[names]):
        read_rows(args.data, columns=names, **reading(args))  # says what is wrong
    ids, id_name = found_ids(frame.drop(columns=names), table.ids, id_name)
    X = frame[names] if mixed else plain_rows(frame[names])
    return Rows(X, ids=ids, id_name=id_name, source=table.source)


def plain_rows(frame: Any, named: bool = True) -> Any:
    """Return numbers, with their names if the file has any, as an array has them in memory."""
    import numpy as np
    import pandas as pd

    dtype = np.float32 if all(frame.dtypes == np.float32) else np.float64
    X = np.ascontiguousarray(frame.to_numpy(dtype))
    return pd.DataFrame(X, columns=frame.columns, copy=False) if named else X


def told_columns(columns: list[dict[str, Any]]) -> Iterator[Any]:
    """Say what becomes of the columns; plain numbers are not listed if they are many."""
    plain = [c for c in columns if c["used"] and c["kind"] == "number" and not c["note"]]
    if not columns or len(plain) == len(columns):
        return
    listed = [c for c in columns if len(columns) <= LISTED or c not in plain][:LISTED]
    scaled = len(plain) < sum(c["used"] for c in columns)
    rows = []
    for column in listed:
        notes = [column["note"]] if column["note"] else []
        if column["kind"] == "number" and column["used"] and scaled:
            notes += ["median and a 0/1 column for missing"] if column["options"]["missing"] else []
            notes += ["unit variance"]
        kind = column["kind"] if column["used"] else "left out"
        rows.append((column["name"], kind, "; ".join(notes)))
    yield table_of(("column", "used as", "what"), rows, justify="left")
    if len(listed) < len(columns):
        yield f"and {plural(len(columns) - len(listed), 'more column')}"


def label_columns(
    model: Any, labels: Any, rows: Rows, scores: Any, certainty: dict[str, Any]
) -> dict[str, Any]:
    """Return what stands beside the labels in a file: classes, margins, certainty and ids."""
    import numpy as np

    from maxmargin.display import row_margins

    beside: dict[str, Any] = {"margins": row_margins(scores), **certainty}
    for name in {"margins", "confidence"} & beside.keys():
        beside[name] = comparing(scores.shape[1], beside[name])
    if known := known_names(model):  # clusters without a known label have no name
        names = np.append(known, [""] * (scores.shape[1] - len(known)))
        beside = {"classes": names[labels], **beside}
    return {**beside, "ids": rows.ids, "id_name": rows.id_name}


def known_names(model: Any) -> list[str]:
    """Return the names of the first clusters, if the model was fitted with known labels."""
    from maxmargin._steps import last_step

    known = getattr(last_step(model), "known_names_", None)
    return [] if known is None else [str(name) for name in known]


def comparing(n_clusters: int, values: Any) -> Any:
    """Return values that compare clusters: NaN, an empty cell, if there is only one cluster."""
    import numpy as np

    return values if n_clusters > 1 else np.full(np.shape(values), np.nan)


def fitted_certainty(model: Any) -> dict[str, Any]:
    """Return confidence and outliers of the rows of the fit, for the method that tells."""
    from maxmargin._steps import last_step

    last, names = last_step(model), {"confidence": "confidence_", "outliers": "is_outlier_"}
    return {key: getattr(last, name) for key, name in names.items() if hasattr(last, name)}


def check_outputs(args: argparse.Namespace, *names: str) -> None:
    """Refuse outputs that cannot be written or would destroy an input, before any work is done."""
    from maxmargin.io import LABEL_SUFFIXES
    from maxmargin.persistence import MODEL_SUFFIXES

    suffixes = {"out": LABEL_SUFFIXES, "model": MODEL_SUFFIXES, "plot": PICTURE_SUFFIXES}
    if hasattr(args, "answers"):
        args.answers = args.answers or str(Path(args.data).with_suffix(".links.csv"))
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
    try:
        check_suffix(path, suffixes)
        check_writable(path)
    except DataError as error:
        raise UsageError(f"{option} {error}") from error
    if resolved(path) in taken:
        raise UsageError(f"{option} {path} would overwrite {taken[resolved(path)]}")


def write_results(args: argparse.Namespace, model: Any, labels: Any, rows: Any) -> dict[str, str]:
    """Write labels, model and picture, all that were asked for or none; return what is where.

    Labels of rows that were read block by block are written without margins.
    """
    from maxmargin.io import write_labels
    from maxmargin.persistence import save_model

    asked = {name: vars(args)[name] for name in OUTPUTS if vars(args).get(name)}
    with atomic_writes(list(asked.values())) as partials:
        to = dict(zip(asked, partials))
        if "out" in to:
            if isinstance(rows, Rows):
                scores = model.decision_function(rows.X)
                beside = label_columns(model, labels, rows, scores, fitted_certainty(model))
            else:
                beside = {"confidence": model.confidence} if hasattr(model, "_calibration") else {}
                beside |= {"outliers": model.is_outlier} if hasattr(model, "_outliers") else {}
                beside = {key: method(rows) for key, method in beside.items()}
                if "confidence" in beside:
                    n_clusters = len(model.cluster_sizes_)
                    beside["confidence"] = comparing(n_clusters, beside["confidence"])
            write_labels(to["out"], labels, **beside)
        if "model" in to:
            save_model(model, to["model"])
        if "plot" in to:
            # A figure of its own: no window, no global state.
            from matplotlib.figure import Figure

            from maxmargin.display import plot_clusters

            figure = Figure(figsize=(6.4, 4.8), layout="constrained")
            plot_clusters(model, rows.X, labels, ax=figure.subplots())
            figure.savefig(to["plot"], dpi=150)
    return {OUTPUTS[name]: path for name, path in asked.items()}


def told_files(wrote: dict[str, str]) -> str:
    """Say which files were written."""
    return "wrote " + ", ".join(f"{path} ({what})" for what, path in wrote.items())


def table_of(
    columns: Iterable[str],
    rows: Iterable[Iterable[str]],
    justify: Any = "right",
    widest: int | None = None,
) -> Any:
    """Return a table that a command's ``tell`` can yield."""
    from rich.table import Table

    table = Table(box=None)
    for name in columns:
        table.add_column(name, justify=justify, no_wrap=True, max_width=widest)
    for row in rows:
        table.add_row(*row)
    return table


def told_clusters(
    result: dict[str, Any], columns: dict[str, list[str]] | None = None
) -> Iterator[Any]:
    """Tell size and share of each cluster, and further columns; of many, the largest ones.

    A result with "known_labels" has names of clusters, one with "descriptions" a sentence for each
    cluster that has rows.
    """
    sizes, n = result["cluster_sizes"], result["n_rows"]
    largest = sorted(sorted(range(len(sizes)), key=lambda j: -sizes[j])[:LISTED_CLUSTERS])
    head = {
        "cluster": list(map(str, range(len(sizes)))),
        "rows": [f"{size:,}" for size in sizes],
        "share": [f"{size / n:.1%}" for size in sizes],
    }
    if known := {cluster: name for name, cluster in result.get("known_labels", {}).items()}:
        head["class"] = [known.get(j, "") for j in range(len(sizes))]
    head |= columns or {}
    yield table_of(head, ([cells[j] for cells in head.values()] for j in largest))
    filled = (j for j, size in enumerate(sizes) if size)
    sentences = dict(zip(filled, result.get("descriptions", [])))
    yield from (sentences[j] for j in largest if j in sentences)
    if len(sizes) > len(largest):
        left = plural(len(sizes) - len(largest), "smaller cluster")
        yield f"and {left}: add --json to see all"


def show(part: Any, file: TextIO) -> None:
    """Print a line, or a table of rich."""
    if isinstance(part, str):
        print(part, file=file, flush=True)
    else:
        from rich.console import Console

        width = None if file.isatty() else 200
        Console(file=file, width=width, markup=False, emoji=False).print(part)


@contextlib.contextmanager
def compile_time() -> Iterator[list[float]]:
    """Yield a list with, at the end, the seconds of compiling, if anything had to be compiled."""
    from numba.core.event import install_timer

    seconds: list[float] = []
    with install_timer("numba:compile", seconds.append):
        yield seconds


def say(part: Any) -> None:
    """Tell a person something at once, on stderr: stdout has the result alone."""
    show(part, sys.stderr)


def told_bytes(count: float) -> str:
    """Return a number of bytes in a unit in which it can be read."""
    if count < 1e6:
        return f"{count / 1e3:.0f} kB"
    return f"{count / 1e6:.1f} MB" if count < 1e9 else f"{count / 1e9:.1f} GB"
