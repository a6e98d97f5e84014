"""The request to a reader of files, and its result."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .._files import DataError, nearest

Lines = Callable[[], Sequence[int]]  # finds the line of each row of a text file, for messages
TRANSPOSED = 4096  # rows that are transposed at a time: they fit the cache


@dataclass(frozen=True)
class TextColumn:
    """A column with text: the first text, its row, and the number of such cells."""

    name: str
    example: str
    first: int
    count: int
    what: str = "text"


@dataclass(frozen=True)
class Sheet:
    """The content of a file: numbers, columns returned unchanged, and columns with text."""

    X: Any
    names: tuple[str, ...] | None = None  # of the columns of X; numbers if the file has none
    named: bool = False  # whether the file has column names
    text: tuple[TextColumn, ...] = ()
    kept: dict[Any, np.ndarray] = field(default_factory=dict)
    id_column: str | None = None
    lines: Lines | None = None


@dataclass(frozen=True)
class Wish:
    """The columns that the caller requests; None for the default of the format."""

    id_column: str | None = None
    label_column: str | None = None
    drop: tuple[str, ...] = ()
    columns: tuple[str, ...] | None = None
    header: bool | None = None
    n_features: int | None = None

    @property
    def kept(self) -> tuple[str, ...]:
        """Columns to return unchanged."""
        return tuple(name for name in (self.id_column, self.label_column) if name is not None)


def table_sheet(frame: Any, wish: Wish, named: bool = True, lines: Lines | None = None) -> Sheet:
    """Return a table as a sheet: ids and labels are kept apart from its other columns."""
    kept = {name: frame.pop(name).to_numpy(dtype=object) for name in dict.fromkeys(wish.kept)}
    return Sheet(frame, tuple(frame.columns), named, (), kept, wish.id_column, lines)


def number_columns(names: Sequence[str], wish: Wish) -> list[str]:
    """Return the columns to read as numbers, in order; unknown names are errors."""
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise DataError(f"two columns have the same name {twice[0]!r}", "Rename one of them")
    if lost := absent_columns((*wish.kept, *wish.drop, *(wish.columns or ())), names):
        raise DataError(*lost)
    if wish.columns is not None:
        return list(wish.columns)
    return [name for name in names if name not in {*wish.kept, *wish.drop}]


def absent_columns(
    wanted: Sequence[str], names: Sequence[str], unused: Sequence[str] | None = None
) -> tuple[str, str] | None:
    """Return which columns there are not, and which may be meant, or None if there are all.

    The latter are among the columns ``unused``, by default among all.
    """
    known = set(names)
    lost = list(dict.fromkeys(name for name in wanted if name not in known))
    if not lost:
        return None
    quoted = [repr(name) for name in lost]
    what = f"there is no column {quoted[0]}"
    if len(lost) > 1:
        what = f"there are no columns {some(quoted)}"
    for parts in (re.split(r"[;\s]+", name) for name in lost):
        if len(parts) > 1 and known.issuperset(parts):
            return what, f"Separate the names by commas: {','.join(parts)}"
    unused, meant = list(names if unused is None else unused), []
    for name in lost:
        if (near := nearest(name, unused)) is not None:
            meant.append(f"{near!r}" + f" for {name!r}" * (len(lost) > 1))
            unused.remove(near)
    return what, f"Did you mean {', '.join(meant)}?" if meant else f"It has {some(names)}"


def refuse_absent(wanted: Iterable[str], names: Iterable[str], source: str, mixed: bool) -> None:
    """Refuse a table that lacks columns with which a model was fitted."""
    wanted, names = list(wanted), list(names)
    others = [name for name in names if name not in set(wanted)]
    if lost := absent_columns(wanted, names, others):
        empty = " (cells may be empty)" if mixed else ""
        remedy = f"Rename or add what is missing{empty}, or fit again without it. {lost[1]}"
        raise DataError(f"{source}: {lost[0]}, which the model was fitted with", remedy)


def refuse_names(wish: Wish, labels: str | None = None) -> None:
    """Raise an error for column names, which the format lacks, except that of the labels."""
    unknown = [name for name in (*wish.kept, *wish.drop) if name != labels]
    if unknown:
        what = f"it has no column names, so there is no column {unknown[0]!r}"
        raise DataError(what, "Omit the option, or use a csv or parquet file with a header")


def rows_of(table: Any, columns: Sequence[str], dtype: Any) -> np.ndarray:
    """Return numeric columns of a pyarrow table as rows, with NaN for missing values."""
    out = np.empty((table.num_rows, len(columns)), dtype)
    start = 0
    for batch in table.select(columns).to_batches(max_chunksize=TRANSPOSED):
        for j, column in enumerate(batch.columns):
            if column.null_count:
                column = column.cast("float64", safe=False)
            out[start : start + len(batch), j] = column.to_numpy(zero_copy_only=False)
        start += len(batch)
    return out


def some(names: Sequence[Any], limit: int = 8) -> str:
    """List the first few of many names."""
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(str(name) for name in names[:limit]) + more
