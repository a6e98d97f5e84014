"""Reader of delimited text: csv, tsv and similar formats; and a writer.

pyarrow reads files in which all requested cells are plain numbers, and tables of any columns. What
it cannot read is read cell by cell with Python's csv module, which accepts more and reports line
numbers.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from .._files import DataError, needed
from .opening import GET_AGAIN, open_bytes
from .sheet import Sheet, TextColumn, Wish, number_columns, rows_of, table_sheet

MISSING = frozenset({"", "na", "n/a", "#n/a", "nan", "null", "none", "?", "-"})
_SPELLED = sorted(MISSING | {name.upper() for name in MISSING} | {"NaN", "None", "Null"})
_Record = tuple[int, list[str]]
_Cells = tuple[np.ndarray, list[TextColumn], dict[str, np.ndarray]]


@dataclass(frozen=True)
class Layout:
    """Layout of a file, and its requested columns."""

    delimiter: str
    names: list[str]
    header_lines: int  # lines above the rows
    wanted: list[str]
    wish: Wish
    longest: int  # of the first lines
    quoted: bool  # whether they have quotes
    encoding: str
    decimal: str  # point or comma
    trailing: bool  # whether rows end in a separator that the header lacks
    named: bool  # whether the names are the file's own


def read_csv(path: Path, wish: Wish) -> Sheet:
    """Read numbers from a text file; separator and header are detected from the first lines."""
    layout = _layout(path, wish)
    X, text, kept = _read_numbers(path, layout) or _numbers_of_cells(path, layout)
    names = tuple(name for name in layout.wanted if name not in {column.name for column in text})
    if X[-1:].size and np.isnan(X[-1:]).all() and not text:
        filled = ~np.isnan(X).all(axis=1)
        for cells in kept.values():
            filled |= np.array([cell.lower() not in MISSING for cell in cells])
        end = _end_of(filled)
        X, kept = X[:end], {name: cells[:end] for name, cells in kept.items()}
    lines = _RowLines(path, layout)
    return Sheet(X, names, layout.named, tuple(text), kept, layout.wish.id_column, lines)


def read_csv_frame(path: Path, wish: Wish) -> Sheet:
    """Return all columns as a DataFrame.

    Columns of numbers, dates and truth values have these types; all others are text.
    """
    pa, pc = needed("pyarrow"), needed("pyarrow.csv")
    layout = _layout(path, wish)
    lines = _RowLines(path, layout)
    try:
        table = _typed(_source(path, layout), layout)
        if layout.encoding == "utf-8-sig" and any(map(pa.types.is_binary, table.schema.types)):
            layout = replace(layout, encoding="cp1252")  # text that is not UTF-8, far down
            table = _typed(_source(path, layout), layout)
    except pa.ArrowInvalid:
        table = pa.table(_read_cells(path, layout))
        text = pa.BufferOutputStream()
        pc.write_csv(table, text)  # for the types of the columns
        layout = replace(layout, delimiter=",", encoding="utf-8-sig", quoted=True, trailing=False)
        table = _typed(pa.BufferReader(text.getvalue()), replace(layout, header_lines=1))
    asked = {*layout.wanted, *layout.wish.kept}
    # A separator at the end of each line makes a column without name and content.
    names = [
        name
        for name, column in zip(layout.names, table.columns)
        if name in asked
        and not (re.fullmatch(r"column \d+", name) and column.null_count == len(column))
    ]
    frame = table.select(names).to_pandas(date_as_object=False)
    if frame[-1:].isna().all(axis=None):
        frame = frame[: _end_of(frame.notna().any(axis=1))]
    return table_sheet(frame, layout.wish, layout.named, lines)


def _end_of(filled: Any) -> int:
    """Return the number of rows up to the last filled one: spreadsheets write empty lines below."""
    return int(np.max(np.flatnonzero(filled) + 1, initial=0))


@dataclass(frozen=True)
class _RowLines:
    """Finds the line of each row when it is first asked for; a class, so that tables pickle."""

    path: Path
    layout: Layout

    def __call__(self) -> list[int]:
        return self._found

    @cached_property
    def _found(self) -> list[int]:
        with _open_text(self.path, self.layout.encoding, "replace") as file:
            return [line for line, _ in _below_header(file, self.layout, strict=False)]


def _open_text(path: Path, encoding: str, errors: str = "strict") -> io.TextIOWrapper:
    return io.TextIOWrapper(open_bytes(path), encoding, errors, newline="")


# -- what the first lines tell ---------------------------------------------------------------------


def _layout(path: Path, wish: Wish) -> Layout:
    with open_bytes(path) as file:
        encoding = _encoding(file.read(1 << 16))
    with _open_text(path, encoding) as text:
        sample = list(islice(text, 50))
    told = re.fullmatch(r"\s*sep=(.)\s*", sample[0]) if sample else None  # for Excel
    if told:
        sample[0] = "\n"
    delimiter = told[1] if told else "\t" if ".tsv" in path.suffixes else _sniff_delimiter(sample)
    list(islice(_records(sample, delimiter), 2))  # damaged quotes are errors
    records = [record for record in _records(sample, delimiter, strict=False) if any(record[1])]
    if not records:
        raise DataError("it holds blank lines only", GET_AGAIN)
    line, first = records[0]
    cells = [cell for _, fields in records for cell in fields]
    found = (re.fullmatch(r"\s*[-+]?\d+([.,])\d+\s*", cell) for cell in cells)
    marks = Counter(match[1] for match in found if match)
    decimal = "," if delimiter != "," and marks[","] > marks["."] else "."
    named = _has_header([fields for _, fields in records[:2]], wish, decimal)
    names = [name.strip() for name in first] if named else [str(i + 1) for i in range(len(first))]
    if not named:
        wish = replace(wish, columns=None)
    else:
        if not names[0]:
            names[0] = "index"
            # The unnamed first column is what pandas.DataFrame.to_csv writes for its index.
            wish = replace(wish, id_column=wish.id_column or "index")
        names = [name or f"column {j + 1}" for j, name in enumerate(names)]
    body = records[int(named) :]
    longer = [fields for _, fields in body if len(fields) == len(names) + 1 and not fields[-1]]
    return Layout(
        delimiter,
        names,
        line if named else int(bool(told)),
        number_columns(names, wish),
        wish,
        longest=max(map(len, sample)),
        quoted=any('"' in text for text in sample),
        encoding=encoding,
        decimal=decimal,
        trailing=bool(body) and len(longer) == len(body),
        named=named,
    )


def _encoding(head: bytes) -> str:
    """Return UTF-8, UTF-16 if the text begins with its mark, or that of Windows."""
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    try:
        head[: head.rfind(b"\n") + 1 or None].decode()
    except UnicodeDecodeError:
        return "cp1252"
    return "utf-8-sig"


def _sniff_delimiter(sample: list[str]) -> str:
    """Return the first separator that splits most lines into the same number of fields.

    The comma comes after the semicolon, because files with semicolons often have decimal commas.
    """
    for delimiter in "\t;|, ":
        try:
            records = _records(sample, delimiter, strict=False)
            widths = Counter(len(fields) for _, fields in records if any(fields))
        except DataError:  # a line that is not split exceeds the longest possible field
            continue
        width, count = widths.most_common(1)[0] if widths else (1, 0)
        if width > 1 and 2 * count >= widths.total():
            return delimiter
    return ","


def _has_header(rows: list[list[str]], wish: Wish, decimal: str) -> bool:
    """Return whether line 1 is all text, has text above a number, or has a requested name."""
    if wish.header is not None:
        return wish.header
    first = [number(cell, decimal) for cell in rows[0]]
    words = {cell.strip() for cell, value in zip(rows[0], first) if value is None}
    if all(value is None for value in first) or words & {*wish.kept, *wish.drop}:
        return True
    second = [number(cell, decimal) for cell in rows[1]] if len(rows) > 1 else []
    return any(a is None and b is not None and b == b for a, b in zip(first, second))


# -- the rows --------------------------------------------------------------------------------------


def _read_numbers(path: Path, layout: Layout) -> _Cells | None:
    """Return numbers and other requested columns, read by pyarrow; None if there is text."""
    pa = needed("pyarrow")
    kept: dict[str, list[str]] = {name: [] for name in layout.wish.kept}
    types = dict.fromkeys(kept, pa.string()) | dict.fromkeys(layout.wanted, pa.float64())
    blocks = []
    try:
        options = _options(_source(path, layout), layout, types)
        # Block by block: the memory of the columns is reused, and the rows fit the cache.
        for batch in needed("pyarrow.csv").open_csv(*options):
            table = pa.Table.from_batches([batch])
            blocks.append(rows_of(table, layout.wanted, np.float64))
            for name, column in kept.items():
                column += [cell.strip() for cell in table.column(name).to_pylist()]
    except pa.ArrowInvalid:
        return None
    if any(column and "\n" in column[-1] for column in kept.values()):
        return None  # perhaps an unclosed quote, which pyarrow reads as one long cell
    columns = {name: np.array(column, dtype=object) for name, column in kept.items()}
    return np.concatenate([np.empty((0, len(layout.wanted))), *blocks]), [], columns


def _typed(source: Any, layout: Layout) -> Any:
    """Return all columns with the types that pyarrow finds."""
    pa = needed("pyarrow")
    table = needed("pyarrow.csv").read_csv(*_options(source, layout))
    for j, column in enumerate(table.columns):
        if pa.types.is_string(column.type) and len(column) and "\n" in str(column[-1]):
            raise pa.ArrowInvalid("perhaps an unclosed quote, which is read as one long cell")
        if pa.types.is_time(column.type):
            table = table.set_column(j, table.field(j).name, column.cast(pa.string()))
    return table


def _options(source: Any, layout: Layout, types: dict[str, Any] | None = None) -> Any:
    """Return the arguments of pyarrow's readers; types of the columns are found if not given."""
    pc = needed("pyarrow.csv")
    return (
        source,
        pc.ReadOptions(
            column_names=layout.names + [""] * layout.trailing,
            skip_rows=layout.header_lines,
            block_size=max(1 << 20, 8 * layout.longest),  # no row may be longer
        ),
        pc.ParseOptions(delimiter=layout.delimiter, newlines_in_values=layout.quoted),
        pc.ConvertOptions(
            column_types=types or {},
            include_columns=layout.names if types is None else list(types),
            null_values=_SPELLED,
            strings_can_be_null=types is None,
            decimal_point=layout.decimal,
        ),
    )


def _source(path: Path, layout: Layout) -> Any:
    """Return the name of the file, or its text in UTF-8 if pyarrow cannot read it by itself.

    Threads of pyarrow keep what they read for a moment after it has been read. If the interpreter
    ends in that moment, a Python object (a file or a codec) makes it abort or hang.
    """
    utf8, spaces = layout.encoding == "utf-8-sig", layout.delimiter == " "
    odd_name = re.search("[\ud800-\udfff]", str(path))  # bytes that are not UTF-8
    if utf8 and not spaces and not odd_name and path.suffix != ".xz":
        return str(path)
    text = needed("pyarrow").BufferOutputStream()
    errors = "surrogateescape" if utf8 else "strict"
    with _open_text(path, layout.encoding, errors) as file:
        while lines := file.readlines(1 << 20):
            part = "".join(lines).encode("utf-8", errors)
            text.write(_single_spaced(part) if spaces else part)
    return needed("pyarrow").BufferReader(text.getvalue())


def _single_spaced(text: bytes) -> bytes:
    """Return the text with single spaces between columns, as pyarrow requires."""
    text = re.sub(rb"[ \t]+", b" ", text)
    return re.sub(rb"^ | $| (?=\r)", b"", text, flags=re.MULTILINE)


def _read_cells(path: Path, layout: Layout) -> dict[str, list[str]]:
    """Return all columns as text, read cell by cell."""
    with _open_text(path, layout.encoding) as file:
        rows = [fields for _, fields in _body(file, layout)]
    while rows and not any(rows[-1]):  # spreadsheets write empty lines at the end
        rows.pop()
    columns = zip(*rows) if rows else [()] * len(layout.names)
    return {name: [c.strip() for c in cells] for name, cells in zip(layout.names, columns)}


def _numbers_of_cells(path: Path, layout: Layout) -> _Cells:
    """Return numbers, text columns and other requested columns, read cell by cell."""
    cells = _read_cells(path, layout)
    columns, text = [], []
    for name in layout.wanted:
        values = [number(cell, layout.decimal) for cell in cells[name]]
        bad = [i for i, value in enumerate(values) if value is None]
        if bad:
            text.append(TextColumn(name, cells[name][bad[0]], bad[0], len(bad)))
        else:
            columns.append(values)
    X = np.array(columns, float).reshape(len(columns), len(cells[layout.names[0]])).T.copy()
    return X, text, {name: np.array(cells[name], dtype=object) for name in layout.wish.kept}


def _body(lines: Iterable[str], layout: Layout) -> Iterator[_Record]:
    """Yield the records below the header, which must have the same number of fields."""
    width = len(layout.names)
    for line, fields in _below_header(lines, layout):
        if len(fields) == width + 1 and not fields[-1].strip():
            fields = fields[:-1]  # a separator at the end of the line
        if len(fields) != width:
            what = f"line {line} has {len(fields)} fields where the first line has {width}"
            remedy = "Look for a missing or extra separator, or a file that was cut off"
            raise DataError(what, remedy)
        yield line, fields


def _below_header(lines: Iterable[str], layout: Layout, strict: bool = True) -> Iterator[_Record]:
    """Yield the records below the header that pyarrow counts as rows, also of empty cells."""
    for line, fields in _records(lines, layout.delimiter, strict):
        blank = len(fields) == 1 < len(layout.names) and not fields[0]
        if line > layout.header_lines and not blank:
            yield line, fields


def _records(lines: Iterable[str], delimiter: str, strict: bool = True) -> Iterator[_Record]:
    """Yield line number and fields of every record but empty lines; cells may be empty."""
    if delimiter == " ":
        lines = (" ".join(line.split()) for line in lines)
    reader = csv.reader(lines, delimiter=delimiter, skipinitialspace=True, strict=strict)
    line = 0
    try:
        for fields in reader:
            line = reader.line_num
            if fields:
                yield line, fields
    except csv.Error as error:
        what = f"what begins on line {line + 1} is not readable as csv ({error})"
        raise DataError(what, "Look for a quote that is not closed") from error


def number(cell: str, decimal: str = ".") -> float | None:
    """Return the number in a cell, NaN if it is missing, None if it is text."""
    if cell.strip().lower() in MISSING:
        return np.nan
    try:
        # float() takes "1_000" for a number; in a data file it is a name.
        return None if "_" in cell else float(cell.replace(decimal, "."))
    except ValueError:
        return None


def write_csv(file: TextIO, columns: dict[str, np.ndarray]) -> None:
    """Write columns under their names; NaN is an empty cell."""
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*map(_cells, columns.values())))


def _cells(column: np.ndarray) -> Any:
    if column.dtype.kind == "f" and np.isnan(column).any():
        column = np.where(np.isnan(column), "", column.astype(object))
    return column.tolist()
