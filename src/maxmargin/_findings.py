"""Problems of a file that make it unusable, and warnings before a fit.

Each is a `Finding`: `errors` yields the problems, `inspect_rows` adds the warnings.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from scipy import sparse

from ._column_kinds import MAX_LEVELS, MOST
from ._data.csv_text import _layout, _records
from ._data.formats import open_frame, open_sheet
from ._data.opening import format_of, open_bytes
from ._data.sheet import Sheet, TextColumn, Wish, some
from ._files import DataError, plural
from .tables import Column, number_reader, table_columns

_BLOCK_CELLS = 1 << 18
NO_ROWS = ("it has no rows", "Is it the right file, and is it complete?")
SCALES, FAR_OUT = "scales differ wildly", "very far from the rest"
NEARLY = 0.9  # share of empty cells that is told
FAR, FEW = 10, 0.05  # interquartile ranges; largest share of the rows
EXAMPLES = 3  # cells that are named
LISTED = 5  # columns
LEVELS = ("error", "warning", "note")
UNIT = r"^\s*[-+]?\d[\d.,]*(?:[eE][-+]?\d+)?(\s*[^\W\d_][^\d]*)$"  # after a number
_ANSWERS = {"label", "labels", "class", "target", "y", "cluster"}


@dataclass(frozen=True)
class Finding:
    """A finding about a file.

    An `error` makes the file unusable, a `warning` can change the clusters, a `note` is harmless.
    """

    level: Literal["error", "warning", "note"]
    what: str
    remedy: str = ""


@dataclass(frozen=True)
class Origin:
    """The file of a table, and the ids of its rows if it has any: they tell where a cell is."""

    path: Path
    format: str | None
    wish: Wish
    ids: Any = None

    def places(self, cells: Any) -> list[str]:
        """Return the place of each of some cells of a column: its id, its line or its row."""
        if self.ids is not None:
            return [f"for id {self.ids[i]!r}" for i in cells.index]
        lines = self._lines(cells) if format_of(self.path, self.format) == "csv" else []
        return [f"on line {line}" for line in lines] or [_row(None, i) for i in cells.index]

    def _lines(self, cells: Any) -> list[int]:
        """Return the lines of these cells of a text file, in order; none if one is not found."""
        found: list[int] = []
        layout = _layout(self.path, self.wish)
        j, sought = layout.names.index(cells.name), [str(cell).strip() for cell in cells]
        with (
            contextlib.suppress(DataError),
            io.TextIOWrapper(open_bytes(self.path), layout.encoding, "replace", "") as file,
        ):
            for line, fields in _records(file, layout.delimiter, strict=False):
                cell = fields[j].strip() if line > layout.header_lines and j < len(fields) else None
                if cell == sought[len(found)]:
                    found.append(line)
                if len(found) == len(sought):
                    return found
        return []


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
    sample_rows: int = 100_000,
) -> Inspection:
    """Return the problems of a file, each with a remedy.

    The arguments are those of `maxmargin.io.read_rows`. The first ``sample_rows`` rows are searched
    for duplicates, constant columns and scales.
    """
    wish = Wish(id_column, label_column, tuple(drop), None, header)
    columns: list[Column] = []
    try:
        kind, table = open_frame(Path(path), format, wish)
        if table is None:
            kind, sheet = open_sheet(Path(path), kind, wish)
    except DataError as error:
        return Inspection(str(path), "unknown", 0, 0, (Finding("error", error.what, error.remedy),))
    if table is None:
        found = [*errors(sheet), *_about_array(sheet, n_clusters, sample_rows)]
        n_rows, n_columns = sheet.X.shape
        labels = sheet.kept.get(label_column)
    else:
        ids = table.X.pop(table.id_column).to_numpy(dtype=object) if table.id_column else []
        labels = table.X.pop(label_column).to_numpy(dtype=object) if label_column else None
        columns = table_columns(table.X)
        n_rows, n_columns = len(table.X), sum(column.used for column in columns)
        found = [*bad_ids(ids)] if n_rows else [Finding("error", *NO_ROWS)]
        origin = Origin(Path(path), kind, wish, ids if table.id_column else None)
        found += inspect_frame(table.X, columns, origin, n_clusters, sample_rows)
    if label_column is not None and labels is not None and n_rows:
        found.append(known_labels(labels, label_column, n_clusters))
    found.sort(key=lambda finding: LEVELS.index(finding.level))
    return Inspection(str(path), kind, n_rows, n_columns, tuple(found), tuple(columns))


def known_labels(values: Any, column: str, n_clusters: int | None) -> Finding:
    """Return what is said of a column of known labels: a note, or why it cannot be used."""
    from .io import read_labels

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
    origin: Origin,
    n_clusters: int | None = None,
    sample_rows: int = 100_000,
) -> Iterator[Finding]:
    """Yield what is found in a table whose columns are used as decided."""
    used = [column for column in columns if column.used]
    if len(frame) == 0:
        return
    yield from _with_units(frame[[column.name for column in columns]][:sample_rows])
    if not used:
        yield Finding("error", "no column can be clustered", "Say how to use one with --column")
        return
    some = frame[[column.name for column in used]][:sample_rows]
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
    yield from _no_numbers(frame, [column for column in numbers if not column.is_plain], origin)
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
        yield Finding("warning", _joined(told), remedy)


def _no_numbers(frame: Any, columns: Sequence[Column], origin: Origin) -> Iterator[Finding]:
    """Yield a warning of each column of numbers with cells that are none."""
    for column in columns:
        name, cells, reader = column.name, frame[column.name], number_reader(column.options)
        bad = np.isnan(reader.read(cells)) & cells.notna().to_numpy()
        if bad.any():
            named = cells[bad][:EXAMPLES]
            listed = [f"{str(cell)!r} {at}" for cell, at in zip(named, origin.places(named))]
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


def errors(sheet: Sheet) -> Iterator[Finding]:
    """Yield the problems that make a file unusable, in the order in which to fix them."""
    n_rows, n_columns = sheet.X.shape
    if sheet.text:
        yield Finding("error", *_about_text(sheet.text, n_rows))
    if n_rows == 0:
        yield Finding("error", *NO_ROWS)
    elif n_columns == 0:
        yield Finding("error", "it has no columns of numbers", "Clustering needs at least one")
    else:
        yield from _nonfinite(sheet)
    if sheet.id_column and n_rows:
        yield from bad_ids(sheet.kept[sheet.id_column], sheet)


def _about_text(text: tuple[TextColumn, ...], n_rows: int) -> tuple[str, str]:
    def about(column: TextColumn) -> str:
        share = f" in {column.count} of {n_rows} rows" if column.count < n_rows else ""
        where = "" if column.line is None else f" on line {column.line}"
        what = f"column {column.name!r} holds {column.what}{share}"
        return f"{what}, for example {column.example!r}{where}"

    what = _joined([about(column) for column in text])
    names = ",".join(column.name for column in text)
    quoted = f'"{names}"' if " " in names else names
    remedy = (
        f"Encode it (maxmargin.table_pipeline does), or leave it out (--drop {quoted}), or name "
        "the column that identifies the rows (--id-column)"
    )
    if any(re.fullmatch(r"[-+]?\d{1,3}(?:[.,' ]\d{3})+(?:[.,]\d+)?", c.example) for c in text):
        remedy = f"Write numbers without separators of thousands. {remedy}"
    return what, remedy


def _joined(told: Sequence[str]) -> str:
    """Return what is told of the first few of some columns."""
    more = [f"and {len(told) - LISTED} more such columns"] if len(told) > LISTED else []
    return "; ".join([*told[:LISTED], *more])


def _nonfinite(sheet: Sheet) -> Iterator[Finding]:
    for what, test, remedy in (
        ("missing", np.isnan, "Fill them in or delete those rows or columns"),
        ("infinite", np.isinf, "Replace them by finite numbers, or delete those rows"),
    ):
        counts, first = _count_cells(sheet.X, test)
        columns = np.flatnonzero(counts)
        if len(columns) == 0:
            continue
        listed = some(
            [f"{_column(sheet, j)} ({counts[j]}, first {_row(sheet, first[j])})" for j in columns]
        )
        verb = "value is" if counts.sum() == 1 else "values are"
        yield Finding("error", f"{counts.sum()} {verb} {what}: {listed}", remedy)


def _count_cells(X: Any, test: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return how many cells of each column pass the test, and the first row that does."""
    n_rows, n_columns = X.shape
    counts, first = np.zeros(n_columns, np.int64), np.full(n_columns, n_rows)
    if sparse.issparse(X):
        cells = X.tocoo()
        hit = test(cells.data)
        np.add.at(counts, cells.col[hit], 1)
        np.minimum.at(first, cells.col[hit], cells.row[hit])
        return counts, first
    step = max(1, _BLOCK_CELLS // n_columns)
    for start in range(0, n_rows, step):
        hit = test(X[start : start + step])
        if hit.any():
            counts += hit.sum(axis=0)
            rows = np.where(hit.any(axis=0), start + hit.argmax(axis=0), n_rows)
            first = np.minimum(first, rows)
    return counts, first


def _column(sheet: Sheet, j: Any) -> str:
    return f"column {sheet.names[j]!r}" if sheet.names else f"column {j} (counting from 0)"


def _row(sheet: Sheet | None, i: Any) -> str:
    if sheet is None or sheet.lines is None:
        return f"in row {i}, counting from 0"
    return f"on line {sheet.lines()[i]}"


def bad_ids(ids: Any, sheet: Sheet | None = None) -> Iterator[Finding]:
    """Yield the first problem of an id column: a missing or repeated id."""
    first: dict[Any, int] = {}
    for i, name in enumerate(np.asarray(ids).tolist()):
        if name is None or name == "" or name != name:
            yield Finding("error", f"the id is missing {_row(sheet, i)}", "Give every row a name")
            return
        if first.setdefault(name, i) != i:
            what = f"the id {name!r} stands {_row(sheet, first[name])} and again {_row(sheet, i)}"
            remedy = "Delete the duplicate, or choose a column that names each row once"
            yield Finding("error", what, remedy)
            return


def _about_array(sheet: Sheet, n_clusters: int | None, sample_rows: int) -> Iterator[Finding]:
    """Yield problems and warnings of rows of numbers without names of columns."""
    from ._core.dedup import count_distinct
    from ._data.source import MemoryRows

    if 0 in sheet.X.shape:
        return
    X = sheet.X[:sample_rows].astype(np.float64)
    n_rows, n_all = X.shape[0], sheet.X.shape[0]
    yield from _too_large(X)
    repeated = n_rows - count_distinct(MemoryRows(X), at_least=n_rows)
    yield from _repeated(X, repeated, n_clusters, n_all)
    low, high = _column_ranges(X)
    constant = [_column(sheet, j) for j in np.flatnonzero(low == high)]
    if constant:
        what = f"the same value in every row{_of_sample(n_rows, n_all)}: {some(constant)}"
        yield Finding("warning", what, "Drop constant columns")
    yield from _scales(low, high, sheet)
    counts = [] if sparse.issparse(X) or n_rows < 3 else (np.diff(X, axis=0) == 1).all(axis=0)
    for j in np.flatnonzero(counts):
        what = f"{_column(sheet, j)} looks like a row number or id"
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
                f"{SCALES}: {_column(sheet, widest)} varies by {spread[widest]:.3g}, "
                f"{_column(sheet, narrowest)} by {spread[narrowest]:.3g}",
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
