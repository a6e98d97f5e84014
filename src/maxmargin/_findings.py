"""Problems of a file that make it unusable, and warnings before a fit.

Each is a `Finding`: `errors` yields the problems, `inspect_rows` adds the warnings.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from ._column_kinds import MAX_LEVELS, MOST
from ._data.formats import open_frame, open_sheet
from ._data.problems import LISTED, Finding, column_of, errors, joined, place_of, table_errors
from ._data.sheet import Sheet, Wish, some
from ._files import DataError, plural
from .io import read_labels
from .tables import Column, number_reader, table_columns

SCALES, FAR_OUT = "scales differ wildly", "very far from the rest"
SAMPLE_ROWS = 100_000
NEARLY = 0.9  # share of empty cells that is told
FAR, FEW = 10, 0.05  # interquartile ranges; largest share of the rows
EXAMPLES = 3  # cells that are named
LEVELS = ("error", "warning", "note")
UNIT = r"^\s*[-+]?\d[\d.,]*(?:[eE][-+]?\d+)?(\s*[^\W\d_][^\d]*)$"  # after a number
_ANSWERS = {"label", "labels", "class", "target", "y", "cluster"}


@dataclass(frozen=True)
class Inspection:
    """Shape of the data in a file, all findings, errors first, and what becomes of the columns."""

    source: str
    format: str
    n_rows: int
    n_columns: int
    findings: tuple[Finding, ...]
    columns: tuple[Column, ...] = ()

    @property
    def usable(self) -> bool:
        """Whether there are no errors."""
        return all(finding.level != "error" for finding in self.findings)


def inspect_rows(
    path: str | os.PathLike[str],
    *,
    id_column: str | None = None,
    label_column: str | None = None,
    drop: Sequence[str] = (),
    header: bool | None = None,
    format: str | None = None,
    n_clusters: int | None = None,
) -> Inspection:
    """Return the problems of a file, each with a remedy.

    The arguments are those of `maxmargin.io.read_rows`. The first ``SAMPLE_ROWS`` rows are searched
    for duplicates, constant columns and scales.
    """
    wish = Wish(id_column, label_column, tuple(drop), None, header)
    try:
        kind, table = open_frame(Path(path), format, wish)
        sheet = table or open_sheet(Path(path), kind, wish)[1]
    except DataError as error:
        return Inspection(str(path), "unknown", 0, 0, (Finding("error", error.what, error.remedy),))
    n_rows, n_columns = sheet.X.shape
    columns = [] if table is None else table_columns(sheet.X)
    if table is None:
        found = [*errors(sheet), *_about_array(sheet, n_clusters)]
    else:
        n_columns = sum(column.used for column in columns)
        place = partial(place_of, lines=sheet.lines, ids=sheet.kept.get(sheet.id_column))
        in_columns = inspect_frame(sheet.X, columns, place, n_clusters)
        found = [*table_errors(sheet), *in_columns]
    if label_column in sheet.kept and n_rows:
        found.append(known_labels(sheet.kept[label_column], str(label_column), n_clusters))
    found.sort(key=lambda finding: LEVELS.index(finding.level))
    return Inspection(str(path), kind, n_rows, n_columns, tuple(found), tuple(columns))


def known_labels(values: Any, column: str, n_clusters: int | None) -> Finding:
    """Return what is said of a column of known labels: a note, or why it cannot be used."""
    labels, classes = read_labels(values)
    what = f"column {column!r} holds"
    if not classes:
        remedy = "Give at least one label, or leave --partial-labels out"
        return Finding("error", f"{what} no known label", remedy)
    named = f"({some(list(classes))})"
    if n_clusters is not None and len(classes) > n_clusters:
        what = f"{what} {len(classes)} different labels {named}"
        remedy = f"Use -k {len(classes)} or more, or leave some labels empty"
        return Finding("error", f"{what}, but -k {n_clusters} asks for fewer clusters", remedy)
    count = f"{np.count_nonzero(labels >= 0):,} of {plural(len(labels), 'row')}"
    classes_told = f"{len(classes)} class{'es' * (len(classes) > 1)} {named}"
    return Finding("note", f"{what} the known labels of {count}: {classes_told}")


def inspect_frame(
    frame: Any,
    columns: Sequence[Column],
    place: Callable[[int], str],
    n_clusters: int | None = None,
) -> Iterator[Finding]:
    """Yield what is found in a table whose columns are used as decided.

    ``place`` tells where a row stands in the file.
    """
    used = [column for column in columns if column.used]
    if len(frame) == 0:
        return
    yield from _with_units(frame[[column.name for column in columns]][:SAMPLE_ROWS])
    if not used:
        yield Finding("error", "no column can be clustered", "Say how to use one with --column")
        return
    some = frame[[column.name for column in used]][:SAMPLE_ROWS]
    yield from _repeated(some, int(some.duplicated().sum()), n_clusters, len(frame))
    for column in used:
        if column.name.lower() in _ANSWERS:
            what = f"column {column.name!r} looks like the answer, not like a measurement"
            remedy = "Leave it out with --drop, or give it as --partial-labels"
            yield Finding("warning", what, remedy)
        else:
            yield from _nearly_empty(frame[column.name])
    numbers = [column for column in used if column.kind == "number"]
    yield from _far_out(some, numbers)
    yield from _no_numbers(frame, [column for column in numbers if not column.is_plain], place)
    if all(column.is_plain for column in used):
        X = some.to_numpy(dtype=np.float64)
        yield from _too_large(X)
        yield from _scales(*_column_ranges(X), Sheet(X, tuple(some.columns)))


def _nearly_empty(cells: Any) -> Iterator[Finding]:
    """Yield a warning of a column with few values: often the labels that are known."""
    given, option = int(cells.notna().sum()), shlex.quote(str(cells.name))
    if given <= (1 - NEARLY) * len(cells):
        remedy = f"Leave it out with --drop {option}"
        if cells.nunique() <= MAX_LEVELS:
            known = f"Known labels? Use --partial-labels {option}"
            remedy = f"{known}; else leave it out with --drop {option}"
        what = f"column {cells.name!r} has a value in only {given:,} of {len(cells):,} rows"
        yield Finding("warning", what, remedy)


def _far_out(frame: Any, columns: Sequence[Column]) -> Iterator[Finding]:
    """Yield a warning of values such as 999 for an age: codes of missing values, or errors."""
    told, skewed = [], []
    for column in columns:
        name, cells = column.name, frame[column.name]
        values = number_reader(column.options).read(cells)
        low, high = np.nanquantile(values, [0.25, 0.75])
        # Nothing is said of columns with one value in most rows, nor of groups of rows far away.
        far = values[abs(values - (low + high) / 2) > (FAR + 0.5) * (high - low)]
        if high > low and 0 < len(far) <= FEW * len(values):
            count = plural(len(far), "value")
            is_log = column.options.get("log", False)
            example = np.exp(far[0]) if is_log else far[0]
            told.append(f"column {name!r} has {count} {FAR_OUT}, such as {example:.6g}")
            if not is_log and np.nanmin(values) > 0 and far.max() > high:
                skewed.append(f"--column {shlex.quote(f'{name}=log')}")
    if told:
        remedy = "Leave cells empty if such a value stands for a missing one; correct errors"
        if skewed:
            options = " ".join(skewed[:LISTED])
            remedy += f"; if such large values are right, take the logarithm with {options}"
        yield Finding("warning", joined(told), remedy)


def _no_numbers(
    frame: Any, columns: Sequence[Column], place: Callable[[int], str]
) -> Iterator[Finding]:
    """Yield a warning of each column of numbers with cells that are none."""
    for column in columns:
        name, cells, reader = column.name, frame[column.name], number_reader(column.options)
        bad = np.isnan(reader.read(cells)) & cells.notna().to_numpy()
        if bad.any():
            listed = [f"{str(cells.iloc[i])!r} {place(i)}" for i in np.flatnonzero(bad)[:EXAMPLES]]
            more = ["..."] if bad.sum() > EXAMPLES else []
            is_are = "is" if bad.sum() == 1 else "are"
            what = f"column {name!r}: {plural(bad.sum(), 'cell')} that {is_are} no {reader.unit}"
            remedy = "Correct them; the fit treats them as missing"
            yield Finding("warning", f"{what} ({'; '.join(listed + more)})", remedy)


def _with_units(frame: Any) -> Iterator[Finding]:
    """Yield a warning of each column whose cells are numbers with the same unit."""
    for name in frame.columns:
        cells = frame[name].dropna()
        if cells.dtype.kind in "biufcM" or len(cells) == 0:
            continue
        units = cells.astype(str).str.extract(UNIT)[0]
        if units.nunique() == 1 and units.notna().mean() >= MOST:
            unit = units.dropna().iloc[0]
            what = f"column {name!r} looks like a number with a unit, such as {cells.iloc[0]!r}"
            yield Finding("warning", what, f"Remove {unit!r} from its cells")


def _about_array(sheet: Sheet, n_clusters: int | None) -> Iterator[Finding]:
    """Yield problems and warnings of rows of numbers without names of columns."""
    from ._core.dedup import count_distinct
    from ._data.source import MemoryRows

    if 0 in sheet.X.shape:
        return
    X = sheet.X[:SAMPLE_ROWS].astype(np.float64)
    n_rows, n_all = X.shape[0], sheet.X.shape[0]
    yield from _too_large(X)
    repeated = n_rows - count_distinct(MemoryRows(X), at_least=n_rows)
    yield from _repeated(X, repeated, n_clusters, n_all)
    low, high = _column_ranges(X)
    constant = [column_of(sheet, j) for j in np.flatnonzero(low == high)]
    if constant:
        what = f"the same value in every row{_of_sample(n_rows, n_all)}: {some(constant)}"
        yield Finding("warning", what, "Drop constant columns")
    yield from _scales(low, high, sheet)
    counts = [] if sparse.issparse(X) or n_rows < 3 else (np.diff(X, axis=0) == 1).all(axis=0)
    for j in np.flatnonzero(counts):
        what = f"{column_of(sheet, j)} looks like a row number or id"
        yield Finding("warning", what, "Delete it: it says nothing about clusters")


def _too_large(X: Any) -> Iterator[Finding]:
    from ._data.source import check_magnitude

    try:
        check_magnitude(X)
    except ValueError as error:
        what, _, remedy = str(error).rpartition(". ")
        yield Finding("error", what, remedy)


def _of_sample(n_rows: int, n_all: int) -> str:
    return "" if n_rows == n_all else f" (in the first {n_rows} rows)"


def _repeated(rows: Any, repeated: int, n_clusters: int | None, n_all: int) -> Iterator[Finding]:
    n_rows = rows.shape[0]
    distinct = n_rows - repeated
    if n_clusters is not None and distinct < n_clusters and n_rows == n_all:
        what = f"{n_clusters} clusters are wanted but there are only {distinct} distinct rows"
        yield Finding("error", what, "Use fewer clusters")
    if repeated:
        what = f"rows that repeat an earlier one: {repeated:,} of {n_rows:,}"
        remedy = "They get the same cluster; delete them if they are copies by mistake"
        yield Finding("note", what + _of_sample(n_rows, n_all), remedy)


def _scales(low: np.ndarray, high: np.ndarray, sheet: Sheet) -> Iterator[Finding]:
    spread = high - low
    used = np.flatnonzero(spread > 0)
    if len(used) > 1:
        widest, narrowest = used[spread[used].argmax()], used[spread[used].argmin()]
        if spread[widest] > 1000 * spread[narrowest]:
            yield Finding(
                "warning",
                f"{SCALES}: {column_of(sheet, widest)} varies by {spread[widest]:.3g}, "
                f"{column_of(sheet, narrowest)} by {spread[narrowest]:.3g}",
                "The widest columns can determine the result: the default method may standardize "
                "them by itself and says so; else add --standardize",
            )


def _column_ranges(X: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return minimum and maximum of each column; values that are not finite count as zero."""
    if sparse.issparse(X):
        X = sparse.csc_matrix(X, copy=True)
        X.data[~np.isfinite(X.data)] = 0
        return X.min(axis=0).toarray().ravel(), X.max(axis=0).toarray().ravel()
    X = np.where(np.isfinite(X), X, 0)
    return X.min(axis=0), X.max(axis=0)
