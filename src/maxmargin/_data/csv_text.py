"""Reader of delimited text: csv, tsv and similar formats.

pyarrow reads files in which all requested cells are plain numbers. All other files are read cell by
cell with Python's csv module, which accepts more and reports line numbers.
"""

from __future__ import annotations

import csv
import io
import re
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice
from pathlib import Path
from typing import BinaryIO

import numpy as np

from .._files import DataError, needed
from .opening import GET_AGAIN, open_bytes
from .sheet import Sheet, TextColumn, Wish, number_columns, rows_of

MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "?"})
_SPELLED = sorted(MISSING | {name.upper() for name in MISSING} | {"NaN", "None", "Null"})
_Record = tuple[int, list[str]]
_Cells = tuple[np.ndarray, dict[str, TextColumn], dict[str, np.ndarray]]


@dataclass(frozen=True)
class Layout:
    """Layout of a file, and its requested columns."""

    delimiter: str
    names: list[str]
    header_lines: int  # 0 if the file has no names
    wanted: list[str]
    wish: Wish
    longest: int  # of the first lines
    quoted: bool  # whether they have quotes

    @property
    def named(self) -> bool:
        """Whether the names are the file's own."""
        return self.header_lines > 0


def read_csv(path: Path, wish: Wish) -> Sheet:
    """Read a text file; separator and header are detected from the first lines."""
    with _open_text(path) as file:
        layout = _layout(list(islice(file, 50)), path, wish)
    X, text, kept = _read_numbers(path, layout) or _read_cells(path, layout)
    names = layout.wanted
    if text:
        numeric = [j for j, name in enumerate(names) if name not in text]
        X, names = X[:, numeric], [names[j] for j in numeric]

    @cache
    def lines() -> array[int]:
        with _open_text(path) as file:
            return array("q", (line for line, _ in _body(file, layout)))

    texts, id_column = tuple(text.values()), layout.wish.id_column
    return Sheet(X, tuple(names), layout.named, texts, kept, id_column, lines)


def _open_text(path: Path) -> io.TextIOWrapper:
    return io.TextIOWrapper(open_bytes(path), encoding="utf-8-sig", newline="")


# -- what the first lines tell ---------------------------------------------------------------------


def _layout(sample: list[str], path: Path, wish: Wish) -> Layout:
    delimiter = "\t" if ".tsv" in path.suffixes else _sniff_delimiter(sample)
    first_two = list(islice(_records(sample, delimiter), 2))
    if not first_two:
        raise DataError("it holds blank lines only", GET_AGAIN)
    line, first = first_two[0]
    named = _has_header([fields for _, fields in first_two], wish)
    names = [name.strip() for name in first] if named else [str(i + 1) for i in range(len(first))]
    if not named:
        wish = replace(wish, columns=None)
    elif not names[0]:
        names[0] = "index"
        # The unnamed first column is what pandas.DataFrame.to_csv writes for its index.
        wish = replace(wish, id_column=wish.id_column or "index")
    wanted, longest = number_columns(names, wish), max(map(len, sample))
    quoted = any('"' in text for text in sample)
    return Layout(delimiter, names, line if named else 0, wanted, wish, longest, quoted)


def _sniff_delimiter(sample: list[str]) -> str:
    """Return the first separator that splits most lines into the same number of fields.

    The comma comes after the semicolon, because files with semicolons often have decimal commas.
    """
    for delimiter in "\t;|, ":
        try:
            widths = Counter(len(fields) for _, fields in _records(sample, delimiter, strict=False))
        except DataError:  # a line that is not split exceeds the longest possible field
            continue
        width, count = widths.most_common(1)[0] if widths else (1, 0)
        if width > 1 and 2 * count >= widths.total():
            return delimiter
    return ","


def _has_header(rows: list[list[str]], wish: Wish) -> bool:
    """Return whether line 1 is all text, has text above a number, or has a requested name."""
    if wish.header is not None:
        return wish.header
    first = [number(cell) for cell in rows[0]]
    words = {cell.strip() for cell, value in zip(rows[0], first) if value is None}
    if all(value is None for value in first) or words & {*wish.kept, *wish.drop}:
        return True
    second = [number(cell) for cell in rows[1]] if len(rows) > 1 else []
    return any(a is None and b is not None and b == b for a, b in zip(first, second))


# -- the rows --------------------------------------------------------------------------------------


def _read_numbers(path: Path, layout: Layout) -> _Cells | None:
    """Return numbers and other requested columns, read by pyarrow; None if there is text."""
    pa, pc = needed("pyarrow"), needed("pyarrow.csv")
    kept: dict[str, list[str]] = {name: [] for name in layout.wish.kept}
    types = dict.fromkeys(kept, pa.string()) | dict.fromkeys(layout.wanted, pa.float64())
    options = (
        pc.ReadOptions(
            column_names=layout.names,
            skip_rows=layout.header_lines,
            block_size=max(1 << 20, 8 * layout.longest),  # no row may be longer
        ),
        pc.ParseOptions(delimiter=layout.delimiter, newlines_in_values=layout.quoted),
        pc.ConvertOptions(column_types=types, include_columns=list(types), null_values=_SPELLED),
    )
    blocks = []
    try:
        with open_bytes(path) as file:
            # Block by block: the memory of the columns is reused, and the rows fit the cache.
            source = _single_spaced(file) if layout.delimiter == " " else file
            for batch in pc.open_csv(source, *options):
                table = pa.Table.from_batches([batch])
                blocks.append(rows_of(table, layout.wanted, np.float64))
                for name, column in kept.items():
                    column += [cell.strip() for cell in table.column(name).to_pylist()]
    except pa.ArrowInvalid:
        return None
    if any(column and "\n" in column[-1] for column in kept.values()):
        return None  # perhaps an unclosed quote, which pyarrow reads as one long cell
    return np.concatenate([np.empty((0, len(layout.wanted))), *blocks]), {}, _as_arrays(kept)


def _single_spaced(file: BinaryIO) -> BinaryIO:
    """Return the text with single spaces between columns, as pyarrow requires."""
    text = re.sub(rb"[ \t]+", b" ", file.read())
    return io.BytesIO(re.sub(rb"^ | $| (?=\r)", b"", text, flags=re.MULTILINE))


def _read_cells(path: Path, layout: Layout) -> _Cells:
    """Return numbers, text columns and other requested columns, read cell by cell."""
    place = {name: j for j, name in enumerate(layout.names)}
    wanted = [(name, place[name]) for name in layout.wanted]
    kept: dict[str, list[str]] = {name: [] for name in layout.wish.kept}
    text: dict[str, TextColumn] = {}
    cells = array("d")
    with _open_text(path) as file:
        for line, fields in _body(file, layout):
            for name, j in wanted:
                value = number(fields[j])
                if value is None:
                    first = text.get(name, TextColumn(name, fields[j].strip(), line, 0))
                    text[name] = replace(first, count=first.count + 1)
                cells.append(np.nan if value is None else value)
            for name, column in kept.items():
                column.append(fields[place[name]].strip())
    X = np.array(cells).reshape(-1, len(wanted)) if wanted else np.empty((0, 0))
    return X, text, _as_arrays(kept)


def _as_arrays(kept: dict[str, list[str]]) -> dict[str, np.ndarray]:
    return {name: np.array(column, dtype=object) for name, column in kept.items()}


def _body(lines: Iterable[str], layout: Layout) -> Iterator[_Record]:
    """Yield the records below the header, which must have the same number of fields."""
    width = len(layout.names)
    for line, fields in islice(_records(lines, layout.delimiter), int(layout.named), None):
        if len(fields) == width + 1 and not fields[-1].strip():
            fields = fields[:-1]  # a separator at the end of the line
        if len(fields) != width:
            raise DataError(
                f"line {line} has {len(fields)} fields where the first line has {width}",
                "Look for a missing or extra separator, or a file that was cut off",
            )
        yield line, fields


def _records(lines: Iterable[str], delimiter: str, strict: bool = True) -> Iterator[_Record]:
    """Yield line number and fields of every record that is not blank."""
    if delimiter == " ":
        lines = (" ".join(line.split()) for line in lines)
    reader = csv.reader(lines, delimiter=delimiter, skipinitialspace=True, strict=strict)
    line = 0
    try:
        for fields in reader:
            line = reader.line_num
            if any(fields):
                yield line, fields
    except csv.Error as error:
        raise DataError(
            f"what begins on line {line + 1} is not readable as csv ({error})",
            "Look for a quote that is not closed",
        ) from error


def number(cell: str) -> float | None:
    """Return the number in a cell, NaN if it is missing, None if it is text.

    Examples
    --------
    >>> from maxmargin._data.csv_text import number
    >>> number(" 1.5 "), number("NA"), number("Oslo")
    (1.5, nan, None)
    """
    if cell.strip().lower() in MISSING:
        return np.nan
    try:
        # float() takes "1_000" for a number; in a data file it is a name.
        return None if "_" in cell else float(cell)
    except ValueError:
        return None
