"""The reader of text with a separator: csv, tsv and their relatives."""

from __future__ import annotations

import contextlib
import csv
import io
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import numpy as np

from ..files import DataError
from .opening import GET_AGAIN, open_bytes
from .sheet import Sheet, TextColumn, Wish, number_columns

MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "?"})
_BLOCK_CELLS = 1 << 18
_Record = tuple[int, list[str]]


@dataclass(frozen=True)
class Layout:
    """How a file is laid out, and which of its columns are wanted for what."""

    delimiter: str
    names: list[str]
    named: bool
    wanted: list[str]
    wish: Wish


def read_csv(path: Path, wish: Wish) -> Sheet:
    """Read a text file; the separator and the header are found by looking."""
    try:
        with io.TextIOWrapper(open_bytes(path), encoding="utf-8-sig", newline="") as file:
            sample = list(islice(file, 50))
            delimiter = "\t" if ".tsv" in path.suffixes else _sniff_delimiter(sample)
            first_two = list(islice(_records(sample, delimiter), 2))
            layout = _layout(first_two, delimiter, wish)
            file.seek(0)
            return _sheet_of(_records(file, delimiter), layout)
    except csv.Error as error:
        raise DataError(
            f"it is not readable as csv ({error})", "Look for a quote that is not closed"
        ) from error


def _sniff_delimiter(sample: list[str]) -> str:
    """The first separator that cuts most lines into the same number of fields, more than one.

    The comma comes after the semicolon, because files with semicolons often have decimal commas.
    """
    for delimiter in "\t;|, ":
        try:
            widths = Counter(len(fields) for _, fields in _records(sample, delimiter))
        except csv.Error:  # a long line that this one does not cut is longer than a field may be
            continue
        width, count = widths.most_common(1)[0] if widths else (1, 0)
        if width > 1 and 2 * count >= widths.total():
            return delimiter
    return ","


def _records(lines: Iterable[str], delimiter: str) -> Iterator[_Record]:
    """Line number and fields of every record that is not blank."""
    if delimiter == " ":
        lines = (" ".join(line.split()) for line in lines)
    reader = csv.reader(lines, delimiter=delimiter, skipinitialspace=True)
    for fields in reader:
        if any(fields):
            yield reader.line_num, fields


def _layout(first_two: list[_Record], delimiter: str, wish: Wish) -> Layout:
    if not first_two:
        raise DataError("it holds blank lines only", GET_AGAIN)
    named = _has_header([fields for _, fields in first_two], wish)
    first = first_two[0][1]
    names = [name.strip() for name in first] if named else [str(i + 1) for i in range(len(first))]
    if not named:
        wish = replace(wish, columns=None)
    elif not names[0]:
        names[0] = "index"
        # The unnamed first column is what pandas.DataFrame.to_csv writes for its index.
        wish = replace(wish, id_column=wish.id_column or "index")
    return Layout(delimiter, names, named, number_columns(names, wish), wish)


def _has_header(rows: list[list[str]], wish: Wish) -> bool:
    """A header is all text, or has text above a number, or holds a name the caller used."""
    if wish.header is not None:
        return wish.header
    first = [number(cell) for cell in rows[0]]
    words = {cell.strip() for cell, value in zip(rows[0], first) if value is None}
    if all(value is None for value in first) or words & {*wish.kept, *wish.drop}:
        return True
    second = [number(cell) for cell in rows[1]] if len(rows) > 1 else []
    return any(a is None and b is not None and b == b for a, b in zip(first, second))


def _sheet_of(records: Iterator[_Record], layout: Layout) -> Sheet:
    """Turn records into columns, a block of rows at a time so that strings never pile up."""
    wanted, place = layout.wanted, {name: j for j, name in enumerate(layout.names)}
    kept: dict[str, list[str]] = {name: [] for name in layout.wish.kept}
    text: dict[str, TextColumn] = {}
    blocks, lines = [np.empty((0, len(wanted)))], [np.empty(0, dtype=np.int64)]
    body = _same_width(islice(records, int(layout.named), None), len(place))
    while block := list(islice(body, max(1, _BLOCK_CELLS // len(place)))):
        cells = list(zip(*(fields for _, fields in block)))
        line = np.array([line for line, _ in block])
        numbers = np.empty((len(block), len(wanted)))
        for j, name in enumerate(wanted):
            numbers[:, j], wrong = _numbers(cells[place[name]])
            if wrong:
                example, at = cells[place[name]][wrong[0]].strip(), int(line[wrong[0]])
                first = text.get(name, TextColumn(name, example, at, 0))
                text[name] = replace(first, count=first.count + len(wrong))
        for name in kept:
            kept[name].extend(cell.strip() for cell in cells[place[name]])
        blocks.append(numbers)
        lines.append(line)
    numeric = [j for j, name in enumerate(wanted) if name not in text]
    return Sheet(
        np.concatenate(blocks)[:, numeric] if text else np.concatenate(blocks),
        tuple(wanted[j] for j in numeric),
        layout.named,
        tuple(text.values()),
        {name: np.array(values, dtype=object) for name, values in kept.items()},
        layout.wish.id_column,
        np.concatenate(lines),
    )


def _same_width(records: Iterator[_Record], width: int) -> Iterator[_Record]:
    for line, fields in records:
        if len(fields) == width + 1 and not fields[-1].strip():
            fields = fields[:-1]  # a separator at the end of the line
        if len(fields) != width:
            raise DataError(
                f"line {line} has {len(fields)} fields where the first line has {width}",
                "Look for a missing or extra separator, or a file that was cut off",
            )
        yield line, fields


def _numbers(cells: Sequence[str]) -> tuple[np.ndarray, list[int]]:
    """Cells as float64 with NaN for what is missing, and the positions that hold text."""
    # float() takes "1_000" for a number; in a data file it is a name.
    if "_" not in "".join(cells):
        with contextlib.suppress(ValueError):
            return np.fromiter(map(float, cells), dtype=np.float64, count=len(cells)), []
    values = [number(cell) for cell in cells]
    wrong = [i for i, value in enumerate(values) if value is None]
    return np.array([np.nan if value is None else value for value in values]), wrong


def number(cell: str) -> float | None:
    """Return the number in a cell, NaN where it is missing, None where it is text.

    Examples
    --------
    >>> from maxmargin.formats.csv_text import number
    >>> number(" 1.5 "), number("NA"), number("Oslo")
    (1.5, nan, None)
    """
    if cell.strip().lower() in MISSING:
        return np.nan
    try:
        return None if "_" in cell else float(cell)
    except ValueError:
        return None
