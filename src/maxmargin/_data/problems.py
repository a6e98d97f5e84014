"""Problems that make a file unusable, each with a remedy."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy import sparse
from sklearn.utils import gen_batches

from .sheet import Lines, Sheet, TextColumn, some

_BLOCK_CELLS = 1 << 18
LISTED = 5  # columns


@dataclass(frozen=True)
class Finding:
    """A finding about a file.

    An `error` makes the file unusable, a `warning` can change the clusters, a `note` is harmless.
    """

    level: Literal["error", "warning", "note"]
    what: str
    remedy: str = ""


def errors(sheet: Sheet) -> Iterator[Finding]:
    """Yield the problems that make a file unusable, in the order in which to fix them."""
    n_rows, n_columns = sheet.X.shape
    if sheet.text:
        yield Finding("error", *_about_text(sheet))
    if n_rows and n_columns == 0:
        yield Finding("error", "it has no columns of numbers", "Clustering needs at least one")
    elif n_rows:
        yield from _nonfinite(sheet)
    yield from table_errors(sheet)


def table_errors(sheet: Sheet) -> Iterator[Finding]:
    """Yield the problems that columns of any type can have: no rows, or bad ids."""
    if sheet.X.shape[0] == 0:
        yield Finding("error", "it has no rows", "Is it the right file, and is it complete?")
    elif sheet.id_column:
        yield from _bad_ids(sheet.kept[sheet.id_column], sheet.lines)


def _about_text(sheet: Sheet) -> tuple[str, str]:
    def about(column: TextColumn) -> str:
        n_rows = sheet.X.shape[0]
        share = f" in {column.count} of {n_rows} rows" if column.count < n_rows else ""
        place = "" if sheet.lines is None else f" {place_of(column.first, sheet.lines)}"
        what = f"column {column.name!r} holds {column.what}{share}"
        return f"{what}, for example {column.example!r}{place}"

    what = joined([about(column) for column in sheet.text])
    names = ",".join(column.name for column in sheet.text)
    quoted = f'"{names}"' if " " in names else names
    remedy = (
        f"Encode it (maxmargin.table_pipeline does), or leave it out (--drop {quoted}), or name "
        "the column that identifies the rows (--id-column)"
    )
    thousands = r"[-+]?\d{1,3}(?:[.,' ]\d{3})+(?:[.,]\d+)?"
    if any(re.fullmatch(thousands, column.example) for column in sheet.text):
        remedy = f"Write numbers without separators of thousands. {remedy}"
    return what, remedy


def joined(told: Sequence[str]) -> str:
    """Return what is told of the first few of some columns."""
    more = [f"and {len(told) - LISTED} more such columns"] if len(told) > LISTED else []
    return "; ".join([*told[:LISTED], *more])


def _nonfinite(sheet: Sheet) -> Iterator[Finding]:
    for what, test, remedy in (
        ("missing", np.isnan, "Fill them in or delete those rows or columns"),
        ("infinite", np.isinf, "Replace them by finite numbers, or delete those rows"),
    ):
        rows, columns = _cells_that(test, sheet.X)
        found = zip(*np.unique(columns, return_index=True, return_counts=True))
        told = [
            f"{column_of(sheet, j)} ({count}, first {place_of(rows[first], sheet.lines)})"
            for j, first, count in found
        ]
        if told:
            verb = "value is" if len(rows) == 1 else "values are"
            yield Finding("error", f"{len(rows)} {verb} {what}: {some(told)}", remedy)


def _cells_that(test: Any, X: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and columns of the cells that pass a test, by rows; X may exceed the memory."""
    if sparse.issparse(X):
        cells = X.tocoo()
        hit = test(cells.data)
        return cells.row[hit], cells.col[hit]
    blocks = gen_batches(X.shape[0], max(1, _BLOCK_CELLS // X.shape[1]))
    hits = [np.argwhere(test(X[block])) + np.array([block.start, 0]) for block in blocks]
    rows, columns = np.concatenate(hits).T
    return rows, columns


def column_of(sheet: Sheet, j: Any) -> str:
    """Return a column by its name, or by its number."""
    return f"column {sheet.names[j]!r}" if sheet.names else f"column {j} (counting from 0)"


def place_of(row: Any, lines: Lines | None, ids: Any = None) -> str:
    """Return where a row stands: by its id, its line or its number."""
    if ids is not None:
        return f"for id {ids[row]!r}"
    return f"in row {row}, counting from 0" if lines is None else f"on line {lines()[row]}"


def _bad_ids(ids: Any, lines: Lines | None) -> Iterator[Finding]:
    """Yield the first problem of an id column: a missing or repeated id."""
    first: dict[Any, int] = {}
    for i, name in enumerate(np.asarray(ids).tolist()):
        if name is None or name == "" or name != name:
            what = f"the id is missing {place_of(i, lines)}"
            yield Finding("error", what, "Give every row a name")
            return
        if first.setdefault(name, i) != i:
            places = place_of(first[name], lines), place_of(i, lines)
            what = f"the id {name!r} stands {' and again '.join(places)}"
            remedy = "Delete the duplicate, or choose a column that names each row once"
            yield Finding("error", what, remedy)
            return
