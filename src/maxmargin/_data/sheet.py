"""The request to a reader of files, and its result."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .._files import DataError

TRANSPOSED = 4096  # rows that are transposed at a time: they fit the cache


@dataclass(frozen=True)
class TextColumn:
    """A column with text: the first text, its line, and the number of such cells."""

    name: str
    example: str
    line: int | None
    count: int
    what: str = "text"


@dataclass(frozen=True)
class Sheet:
    """The content of a file: numbers, columns returned unchanged, and columns with text."""

    X: Any
    names: tuple[str, ...] | None = None  # of the columns of X; numbers if the file has none
    named: bool = False  # whether the file has column names
    text: tuple[TextColumn, ...] = ()
    kept: dict[str, np.ndarray] = field(default_factory=dict)
    id_column: str | None = None
    lines: Callable[[], Sequence[int]] | None = None  # finds the line of each row, for messages


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


def number_columns(names: Sequence[str], wish: Wish) -> list[str]:
    """Return the columns to read as numbers, in order; unknown names are errors."""
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise DataError(f"two columns have the same name {twice[0]!r}", "Rename one of them")
    known = set(names)
    for name in (*wish.kept, *wish.drop, *(wish.columns or ())):
        if name not in known:
            near = difflib.get_close_matches(name, names, n=1)
            raise DataError(
                f"there is no column {name!r}",
                f"Did you mean {near[0]!r}?" if near else f"It has {some(names)}",
            )
    if wish.columns is not None:
        return list(wish.columns)
    return [name for name in names if name not in {*wish.kept, *wish.drop}]


def refuse_names(wish: Wish, labels: str | None = None) -> None:
    """Raise an error for column names, which the format lacks, except that of the labels."""
    unknown = [name for name in (*wish.kept, *wish.drop) if name != labels]
    if unknown:
        raise DataError(
            f"it has no column names, so there is no column {unknown[0]!r}",
            "Omit the option, or use a csv or parquet file with a header",
        )


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
