"""Open a file as rows of numbers, and write files whole or not at all.

Every reader ends in the same `_Sheet`, every refusal in the same `Finding`: `read_rows` raises the
first finding that makes a file unusable, `inspect_rows` lists all of them. The csv reader needs
nothing beyond the standard library (pyarrow makes it faster); parquet needs pyarrow.
"""

from __future__ import annotations

import bz2
import contextlib
import csv
import difflib
import gzip
import io
import lzma
import os
import re
import shutil
import uuid
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Literal, TextIO

import numpy as np
from scipy import sparse

__all__ = [
    "DataError",
    "Finding",
    "Inspection",
    "Table",
    "atomic_write",
    "inspect_rows",
    "read_labels",
    "read_rows",
    "write_labels",
]

FORMATS = ("csv", "parquet", "npy", "npz", "svmlight")
LABEL_SUFFIXES = (".csv", ".parquet", ".npy")

_FORMAT_OF_SUFFIX = {
    **dict.fromkeys((".csv", ".tsv", ".txt", ".data", ".dat"), "csv"),
    **dict.fromkeys((".parquet", ".pq"), "parquet"),
    **dict.fromkeys((".svm", ".svmlight", ".libsvm"), "svmlight"),
    ".npy": "npy",
    ".npz": "npz",
}
_DECOMPRESS = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
_CONTENT_OF_FORMAT = {
    "csv": "text",
    "svmlight": "text",
    "parquet": "a parquet file",
    "npy": "a NumPy array (npy)",
    "npz": "a zip archive",
}
_SIGNATURES = (
    (b"\x93NUMPY", "a NumPy array (npy)"),
    (b"PAR1", "a parquet file"),
    (b"PK\x03\x04", "a zip archive"),
    (b"PK\x05\x06", "a zip archive"),
    (b"\x1f\x8b", "gzip-compressed data"),
    (b"BZh", "bzip2-compressed data"),
    (b"\xfd7zXZ", "xz-compressed data"),
    (b"\x89PNG", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"%PDF", "a PDF document"),
    (b"\x89HDF", "an HDF5 file"),
    (b"\xd0\xcf\x11\xe0", "an old Excel or Word file"),
    (b"\xff\xfe", "UTF-16 text"),
    (b"\xfe\xff", "UTF-16 text"),
)
_SVMLIGHT_LINE = re.compile(rb"\s*[-+.,\deE]+(\s+qid:\d+)?\s+\d+:[-+.\deE]+(\s|$)")
_MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "?"})
_BLOCK_CELLS = 1 << 18
_LARGE_CSV = 1 << 20  # bytes; below it, importing pyarrow takes longer than reading
_Record = tuple[int, list[str]]
_DAMAGED = (EOFError, OSError, ValueError, zipfile.BadZipFile, zlib.error, lzma.LZMAError)
_AGAIN = "Get or write the file again"


class DataError(ValueError):
    """A file that cannot be used: what is wrong, and what to do about it.

    Parameters
    ----------
    what : str
        The cause, in the user's words.
    remedy : str, default=""
        What to do about it.

    Examples
    --------
    >>> from maxmargin.io import DataError
    >>> print(DataError("people.csv has no rows", "Is it the right file?"))
    people.csv has no rows. Is it the right file?
    """

    def __init__(self, what: str, remedy: str = ""):
        super().__init__(f"{what}. {remedy}" if remedy else what)
        self.what = what
        self.remedy = remedy


@dataclass(frozen=True)
class Finding:
    """One remark about a file: `error` makes it unusable, `warning` and `note` do not.

    Examples
    --------
    >>> from maxmargin.io import Finding
    >>> Finding("warning", "column 'a' is constant", "drop it").level
    'warning'
    """

    level: Literal["error", "warning", "note"]
    what: str
    remedy: str = ""


@dataclass(frozen=True)
class Table:
    """The rows of a file.

    Attributes
    ----------
    X : ndarray, memmap or csr_matrix of shape (n_rows, n_columns)
        The numbers.
    ids : ndarray or None
        The name of every row, where the file has an id column.
    column_names : tuple of str or None
        The names of the columns of `X`, where the file has any.
    labels : ndarray or None
        The values of the label column, where one was asked for.
    source : str
        The file's name.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.io import Table
    >>> Table(np.eye(2), None, ("a", "b"), None, "memory").column_names
    ('a', 'b')
    """

    X: Any
    ids: np.ndarray | None
    column_names: tuple[str, ...] | None
    labels: np.ndarray | None
    source: str


@dataclass(frozen=True)
class Inspection:
    """What `inspect_rows` found in a file.

    Attributes
    ----------
    source, format : str
        The file's name, and how it was read.
    n_rows, n_columns : int
        The size of what a fit would see.
    findings : tuple of Finding
        Everything worth knowing, errors first.

    Examples
    --------
    >>> from maxmargin.io import Finding, Inspection
    >>> Inspection("a.csv", "csv", 0, 0, (Finding("error", "it is empty"),)).usable
    False
    """

    source: str
    format: str
    n_rows: int
    n_columns: int
    findings: tuple[Finding, ...]

    @property
    def usable(self) -> bool:
        """Whether nothing found is an error."""
        return all(finding.level != "error" for finding in self.findings)


@dataclass(frozen=True)
class _TextColumn:
    """A column that holds more than numbers: the first text in it, and how many there are."""

    name: str
    example: str
    line: int | None
    count: int


@dataclass(frozen=True)
class _Sheet:
    """What every reader hands on: the numbers, what was kept as it is, and what is no number."""

    X: Any
    names: tuple[str, ...] | None = None
    named: bool = False
    text: tuple[_TextColumn, ...] = ()
    kept: dict[str, np.ndarray] = field(default_factory=dict)
    id_column: str | None = None
    lines: np.ndarray | None = None


@dataclass(frozen=True)
class _Wish:
    """Which columns the caller wants for what."""

    id_column: str | None = None
    label_column: str | None = None
    drop: tuple[str, ...] = ()
    columns: tuple[str, ...] | None = None
    header: bool | None = None
    n_features: int | None = None

    def kept(self) -> tuple[str, ...]:
        return tuple(name for name in (self.id_column, self.label_column) if name is not None)


# ----------------------------------------------------------------------
# Reading


def read_rows(
    path: str | os.PathLike[str],
    *,
    id_column: str | None = None,
    label_column: str | None = None,
    drop: Sequence[str] = (),
    columns: Sequence[str] | None = None,
    header: bool | None = None,
    n_features: int | None = None,
    format: str | None = None,
) -> Table:
    """Read a csv, parquet, npy, npz or svmlight file as rows of numbers.

    Parameters
    ----------
    path : path
        The file. Text may be compressed (``.gz``, ``.bz2``, ``.xz``). A ``.npy`` file is
        memory-mapped, so it may be larger than memory. An ``.npz`` file holds a dense array ``X``
        or a sparse matrix (``scipy.sparse.save_npz``). Pickles are never loaded.
    id_column : str, default=None
        The column that names the rows. Without it, a csv file's unnamed first column (the index
        that pandas writes) is taken.
    label_column : str, default=None
        A column to return as `labels` instead of as numbers; ``"target"`` in an svmlight file, an
        array's name in an npz file.
    drop : sequence of str, default=()
        Columns to leave out.
    columns : sequence of str, default=None
        Exactly the columns to read, in this order; ignored where the file has no column names.
        An empty sequence reads ids and labels only.
    header : bool, default=None
        Whether a csv file's first line holds names; None looks at it. Without names columns are
        called ``"1"``, ``"2"`` and so on.
    n_features : int, default=None
        The width of an svmlight file, which does not tell it.
    format : {"csv", "parquet", "npy", "npz", "svmlight"}, default=None
        How to read the file; None goes by its name.

    Returns
    -------
    Table
        The numbers, and the ids, column names and labels where there are any.

    Raises
    ------
    DataError
        When the file cannot be used; the message says why and what to do.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from maxmargin.io import read_rows
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "people.csv")
    ...     _ = path.write_text("name,age,height\\nAnn,31,1.7\\nBob,45,1.8\\n")
    ...     table = read_rows(path, id_column="name")
    >>> table.X.shape, table.column_names, [str(i) for i in table.ids]
    ((2, 2), ('age', 'height'), ['Ann', 'Bob'])
    """
    wish = _Wish(
        id_column,
        label_column,
        tuple(drop),
        None if columns is None else tuple(columns),
        header,
        n_features,
    )
    path = Path(path)
    sheet = _read_sheet(path, _format_of(path, format), wish)
    for finding in _errors(sheet, need_columns=columns is None or len(columns) > 0):
        raise DataError(f"{path}: {finding.what}", finding.remedy)
    return Table(
        sheet.X,
        sheet.kept.get(sheet.id_column) if sheet.id_column else None,
        sheet.names if sheet.named else None,
        sheet.kept.get(label_column) if label_column else None,
        str(path),
    )


def _read_sheet(path: Path, format: str, wish: _Wish) -> _Sheet:
    try:
        return _READERS[format](path, wish)
    except DataError:
        raise
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path} is not UTF-8 text (byte {error.object[error.start]:#04x})",
            'Save it again as UTF-8 (in a spreadsheet: "CSV UTF-8")',
        ) from error
    except _DAMAGED as error:
        raise DataError(f"{path} is truncated or damaged ({_one_line(error)})", _AGAIN) from error


def _format_of(path: Path, format: str | None) -> str:
    """The format by name, or by content where the name says little; they may not disagree."""
    if not path.exists():
        raise DataError(
            f"{path} does not exist", "Check the spelling and the folder" + _siblings(path)
        )
    if path.is_dir():
        raise DataError(f"{path} is a folder", "Name one file in it")
    head = _head(path)
    if not head:
        raise DataError(f"{path} is empty", _AGAIN)
    suffix = path.with_suffix("").suffix if path.suffix in _DECOMPRESS else path.suffix
    format = format or _FORMAT_OF_SUFFIX.get(suffix.lower())
    content = _content_of(head)
    if format in (None, "csv") and content == "text" and _SVMLIGHT_LINE.match(head):
        return "svmlight"
    if format is None:
        raise DataError(
            f"{path}: cannot tell from the name how to read it (its content is {content})",
            f"Say so with --format ({', '.join(FORMATS)})",
        )
    if format not in _READERS:
        raise DataError(f"unknown format {format!r}", f"Use one of {', '.join(FORMATS)}")
    if content != _CONTENT_OF_FORMAT[format]:
        raise DataError(
            f"{path} should be {_CONTENT_OF_FORMAT[format]} by its name but is {content}",
            _content_remedy(content),
        )
    return format


def _siblings(path: Path) -> str:
    if not path.parent.is_dir():
        return f": there is no folder {path.parent}"
    near = difflib.get_close_matches(path.name, [p.name for p in path.parent.iterdir()], n=1)
    return f": did you mean {near[0]}?" if near else ""


def _content_of(head: bytes) -> str:
    for signature, kind in _SIGNATURES:
        if head.startswith(signature):
            return kind
    return "binary data of an unknown kind" if b"\0" in head else "text"


def _content_remedy(content: str) -> str:
    if content == "UTF-16 text":
        return 'Save it again as UTF-8 (in a spreadsheet: "CSV UTF-8")'
    if content.endswith("compressed data"):
        return "Unpack it, or add .gz, .bz2 or .xz to its name"
    if content == "a zip archive":
        return "If it is a spreadsheet (xlsx), save it as csv; if it is an archive, unpack it"
    return "Give it the ending that fits its content, or name the right file"


def _open_bytes(path: Path) -> BinaryIO:
    return _DECOMPRESS.get(path.suffix, open)(path, "rb")  # type: ignore[operator]


def _head(path: Path, size: int = 4096) -> bytes:
    try:
        with _open_bytes(path) as file:
            return file.read(size)
    except PermissionError as error:
        raise DataError(f"{path} may not be read", "Ask its owner for permission") from error
    except (EOFError, OSError, zlib.error, lzma.LZMAError) as error:
        raise DataError(f"{path} is truncated or damaged ({_one_line(error)})", _AGAIN) from error


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__


# ----------------------------------------------------------------------
# Tables with named columns: csv and parquet


def _wanted(names: Sequence[str], wish: _Wish) -> list[str]:
    """The columns to read as numbers, in order; refuses names that the file does not have."""
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise DataError(f"two columns have the same name {twice[0]!r}", "Rename one of them")
    for name in (*wish.kept(), *wish.drop, *(wish.columns or ())):
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1)
            raise DataError(
                f"there is no column {name!r}",
                f"Did you mean {near[0]!r}?" if near else f"It has {_some(names)}",
            )
    if wish.columns is not None:
        return list(wish.columns)
    return [name for name in names if name not in {*wish.kept(), *wish.drop}]


def _read_csv(path: Path, wish: _Wish) -> _Sheet:
    try:
        with io.TextIOWrapper(_open_bytes(path), encoding="utf-8-sig", newline="") as file:
            sample = list(islice(file, 50))
            delimiter = "\t" if ".tsv" in path.suffixes else _sniff_delimiter(sample)
            first_two = list(islice(_csv_records(sample, delimiter), 2))
            layout = _layout(first_two, delimiter, wish)
            simple = delimiter != " " and first_two[0][0] == 1
            large = path.stat().st_size > _LARGE_CSV
            sheet = _arrow_csv(path, layout) if large and simple else None
            if sheet is None or any(_errors(sheet)):
                # Slower, but it knows the lines, so it can tell what is wrong.
                file.seek(0)
                sheet = _plain_csv(_csv_records(file, delimiter), layout)
            return sheet
    except csv.Error as error:
        raise DataError(f"{path} is not readable as csv ({error})", "Look at the quotes") from error
    except DataError as error:
        raise DataError(f"{path}: {error.what}", error.remedy) from error


def _sniff_delimiter(sample: list[str]) -> str:
    """The first separator that cuts most lines into the same number of fields, more than one.

    The comma comes after the semicolon, because files with semicolons often have decimal commas.
    """
    for delimiter in "\t;|, ":
        widths = Counter(len(fields) for _, fields in _csv_records(sample, delimiter))
        width, count = widths.most_common(1)[0] if widths else (1, 0)
        if width > 1 and 2 * count >= widths.total():
            return delimiter
    return ","


def _csv_records(lines: Iterable[str], delimiter: str) -> Iterator[_Record]:
    """Line number and fields of every record that is not blank."""
    if delimiter == " ":
        lines = (" ".join(line.split()) for line in lines)
    reader = csv.reader(lines, delimiter=delimiter, skipinitialspace=True)
    for fields in reader:
        if any(fields):
            yield reader.line_num, fields


@dataclass(frozen=True)
class _Layout:
    """How a csv file is laid out, and which of its columns are wanted for what."""

    delimiter: str
    names: list[str]
    named: bool
    wanted: list[str]
    wish: _Wish


def _layout(first_two: list[_Record], delimiter: str, wish: _Wish) -> _Layout:
    if not first_two:
        raise DataError("it holds blank lines only", _AGAIN)
    named = _has_header([fields for _, fields in first_two], wish)
    first = first_two[0][1]
    names = [name.strip() for name in first] if named else [str(i + 1) for i in range(len(first))]
    if not named:
        wish = replace(wish, columns=None)
    elif not names[0]:
        names[0] = "index"
        # The unnamed first column is what pandas.DataFrame.to_csv writes for its index.
        wish = replace(wish, id_column=wish.id_column or "index")
    return _Layout(delimiter, names, named, _wanted(names, wish), wish)


def _arrow_csv(path: Path, layout: _Layout) -> _Sheet | None:
    """Read a clean file with pyarrow, ten times as fast; None where either is not there."""
    try:
        from pyarrow import ArrowInvalid, csv, float64, string
    except ImportError:
        return None
    types = dict.fromkeys(layout.wanted, float64()) | dict.fromkeys(layout.wish.kept(), string())
    try:
        with _open_bytes(path) as file:
            arrow = csv.read_csv(
                file,
                csv.ReadOptions(column_names=layout.names, skip_rows=int(layout.named)),
                csv.ParseOptions(delimiter=layout.delimiter),
                csv.ConvertOptions(column_types=types, include_columns=list(types), null_values=[]),
            )
    except ArrowInvalid:
        return None
    return _sheet_of_arrow(arrow, layout.wanted, layout.wish, layout.named)


def _has_header(rows: list[list[str]], wish: _Wish) -> bool:
    """A header is all text, or has text above a number, or holds a name the caller used."""
    if wish.header is not None:
        return wish.header
    first = [_number(cell) for cell in rows[0]]
    words = {cell.strip() for cell, value in zip(rows[0], first) if value is None}
    if all(value is None for value in first) or words & {*wish.kept(), *wish.drop}:
        return True
    second = [_number(cell) for cell in rows[1]] if len(rows) > 1 else []
    return any(a is None and b is not None and b == b for a, b in zip(first, second))


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


def _plain_csv(records: Iterator[_Record], layout: _Layout) -> _Sheet:
    """Turn records into columns, a block of rows at a time so that strings never pile up."""
    wanted, place = layout.wanted, {name: j for j, name in enumerate(layout.names)}
    kept: dict[str, list[str]] = {name: [] for name in layout.wish.kept()}
    text: dict[str, _TextColumn] = {}
    blocks, lines = [np.empty((0, len(wanted)))], [np.empty(0, dtype=np.int64)]
    body = _same_width(islice(records, int(layout.named), None), len(place))
    while block := list(islice(body, max(1, _BLOCK_CELLS // len(place)))):
        cells = list(zip(*(fields for _, fields in block)))
        line = np.array([line for line, _ in block])
        numbers = np.empty((len(block), len(wanted)))
        for j, name in enumerate(wanted):
            numbers[:, j], wrong = _numbers(cells[place[name]])
            if wrong:
                text[name] = _more_text(text.get(name), name, cells[place[name]], wrong, line)
        for name in kept:
            kept[name].extend(cell.strip() for cell in cells[place[name]])
        blocks.append(numbers)
        lines.append(line)
    keep = [j for j, name in enumerate(wanted) if name not in text]
    X = np.concatenate(blocks)
    return _Sheet(
        X[:, keep] if text else X,
        tuple(wanted[j] for j in keep),
        layout.named,
        tuple(text.values()),
        {name: np.array(values, dtype=object) for name, values in kept.items()},
        layout.wish.id_column,
        np.concatenate(lines),
    )


def _more_text(
    known: _TextColumn | None,
    name: str,
    cells: Sequence[str],
    wrong: list[int],
    lines: np.ndarray,
) -> _TextColumn:
    if known is None:
        return _TextColumn(name, cells[wrong[0]].strip(), int(lines[wrong[0]]), len(wrong))
    return _TextColumn(name, known.example, known.line, known.count + len(wrong))


def _numbers(cells: Sequence[str]) -> tuple[np.ndarray, list[int]]:
    """Cells as float64 with NaN for what is missing, and the positions that hold text."""
    # float() takes "1_000" for a number; in a data file it is a name.
    if "_" not in "".join(cells):
        with contextlib.suppress(ValueError):
            return np.fromiter(map(float, cells), dtype=np.float64, count=len(cells)), []
    values = [_number(cell) for cell in cells]
    wrong = [i for i, value in enumerate(values) if value is None]
    return np.array([np.nan if value is None else value for value in values]), wrong


def _number(cell: str) -> float | None:
    """The number in a cell, NaN where it is missing, None where it is text."""
    if cell.strip().lower() in _MISSING:
        return np.nan
    try:
        return None if "_" in cell else float(cell)
    except ValueError:
        return None


def _read_parquet(path: Path, wish: _Wish) -> _Sheet:
    try:
        import pyarrow.parquet as pq
    except ImportError as error:
        raise DataError(
            "reading parquet needs pyarrow", 'Install it: pip install "maxmargin[io]"'
        ) from error
    schema = pq.read_schema(path)
    index = (schema.pandas_metadata or {}).get("index_columns", [])
    names = [name for name in schema.names if name not in index or name in wish.kept()]
    try:
        wanted = _wanted(names, wish)
    except DataError as error:
        raise DataError(f"{path}: {error.what}", error.remedy) from error
    arrow = pq.read_table(path, columns=list(dict.fromkeys([*wanted, *wish.kept()])))
    return _sheet_of_arrow(arrow, wanted, wish, named=True)


def _sheet_of_arrow(arrow: Any, wanted: list[str], wish: _Wish, named: bool) -> _Sheet:
    arrays = {name: arrow.column(name).to_numpy() for name in arrow.column_names}
    numeric = [name for name in wanted if arrays[name].dtype.kind in "biuf"]
    text = [_text_of_array(name, arrays[name]) for name in wanted if name not in numeric]
    return _Sheet(
        _stack([arrays[name] for name in numeric], arrow.num_rows),
        tuple(numeric),
        named,
        tuple(text),
        {name: arrays[name] for name in wish.kept()},
        wish.id_column,
    )


def _stack(columns: list[np.ndarray], n_rows: int) -> np.ndarray:
    single = bool(columns) and all(column.dtype == np.float32 for column in columns)
    X = np.empty((n_rows, len(columns)), dtype=np.float32 if single else np.float64)
    for j, column in enumerate(columns):
        X[:, j] = column
    return X


def _text_of_array(name: str, values: np.ndarray) -> _TextColumn:
    given = [value for value in values if value is not None]
    return _TextColumn(name, str(given[0]) if given else "", None, len(given))


# ----------------------------------------------------------------------
# Arrays: npy, npz, svmlight


def _no_names(path: Path, wish: _Wish, labels: str = "") -> None:
    unknown = [name for name in (wish.id_column, wish.label_column, *wish.drop) if name]
    if unknown and unknown != [labels]:
        raise DataError(
            f"{path} has no column names, so there is no column {unknown[0]!r}",
            "Leave the option out, or use a csv or parquet file with a header",
        )


def _read_npy(path: Path, wish: _Wish) -> _Sheet:
    _no_names(path, wish)
    with open(path, "rb") as file:
        version = np.lib.format.read_magic(file)
        read_header = getattr(
            np.lib.format, f"read_array_header_{version[0]}_0", np.lib.format.read_array_header_2_0
        )
        shape, _, dtype = read_header(file)
        _refuse_array(path, dtype, shape)
        missing = file.tell() + int(np.prod(shape)) * dtype.itemsize - path.stat().st_size
    if missing > 0:
        raise DataError(f"{path} is truncated: {missing} bytes are missing", _AGAIN)
    return _Sheet(np.load(path, mmap_mode="r" if shape[0] else None, allow_pickle=False))


def _refuse_array(path: Path, dtype: np.dtype, shape: tuple[int, ...]) -> None:
    if dtype.kind not in "biuf":
        kind = {"O": "Python objects", "c": "complex numbers"}.get(dtype.kind, f"{dtype} values")
        remedy = {
            "c": "Store real and imaginary part as two columns",
            "O": "Store numbers: X.astype(float)",
        }
        raise DataError(
            f"{path} holds {kind}", remedy.get(dtype.kind, "Turn them into numbers first")
        )
    if len(shape) != 2:
        raise DataError(
            f"{path} holds a {len(shape)}-D array; rows and columns are needed",
            "One column: X.reshape(-1, 1); one row: X.reshape(1, -1)"
            if len(shape) < 2
            else "Flatten each row: X.reshape(len(X), -1)",
        )


def _read_npz(path: Path, wish: _Wish) -> _Sheet:
    with np.load(path, allow_pickle=False) as archive:
        keys = archive.files
        _no_names(path, wish, labels=next((k for k in keys if k == wish.label_column), ""))
        labels = {name: archive[name] for name in keys if name == wish.label_column}
        if {"data", "indices", "indptr", "shape"} <= set(keys):
            return _Sheet(_csr_of(path, archive), kept=labels)
        return _Sheet(_dense_of(path, archive, set(labels)), kept=labels)


def _dense_of(path: Path, archive: Any, other: set[str]) -> np.ndarray:
    keys = [key for key in archive.files if key not in other]
    if "X" not in keys and len(keys) != 1:
        raise DataError(
            f"{path} holds {_some(keys)} and no array called X",
            "Save the rows with np.savez(path, X=X), or a sparse matrix with scipy.sparse.save_npz",
        )
    key = "X" if "X" in keys else keys[0]
    try:
        X = archive[key]
    except ValueError as error:
        if "pickle" in str(error):
            _refuse_array(path, np.dtype(object), ())
        raise
    _refuse_array(path, X.dtype, X.shape)
    return X


def _csr_of(path: Path, archive: Any) -> sparse.csr_matrix:
    """A sparse matrix, with every index checked: compiled code trusts them."""
    if "format" in archive.files:
        X = sparse.load_npz(path).tocsr()
    else:
        X = sparse.csr_matrix(
            (archive["data"], archive["indices"], archive["indptr"]), shape=tuple(archive["shape"])
        )
    X.check_format(full_check=True)
    _refuse_array(path, X.dtype, X.shape)
    X.sum_duplicates()
    return X


def _read_svmlight(path: Path, wish: _Wish) -> _Sheet:
    from sklearn.datasets import load_svmlight_file

    _no_names(path, wish, "target")
    try:
        with _open_bytes(path) as file:
            X, y = load_svmlight_file(file, n_features=wish.n_features)
    except ValueError as error:
        raise DataError(
            f"{path} is not a valid svmlight file ({_one_line(error)})",
            "Each line is: target index:value index:value ..., with rising indices",
        ) from error
    return _Sheet(X.tocsr(), kept={"target": y})


_READERS = {
    "csv": _read_csv,
    "parquet": _read_parquet,
    "npy": _read_npy,
    "npz": _read_npz,
    "svmlight": _read_svmlight,
}


# ----------------------------------------------------------------------
# What is wrong with it


def inspect_rows(
    path: str | os.PathLike[str],
    *,
    id_column: str | None = None,
    drop: Sequence[str] = (),
    header: bool | None = None,
    format: str | None = None,
    n_clusters: int | None = None,
    sample_rows: int = 100_000,
) -> Inspection:
    """Say what is wrong with a file, and what to do about it.

    Parameters
    ----------
    path, id_column, drop, header, format
        As in `read_rows`.
    n_clusters : int, default=None
        The number of clusters wanted; a file with fewer distinct rows is then unusable.
    sample_rows : int, default=100_000
        Duplicates, constant columns and scales are looked for in so many first rows.

    Returns
    -------
    Inspection
        The file's size and the findings, errors first.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from maxmargin.io import inspect_rows
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "people.csv")
    ...     _ = path.write_text("age,town\\n31,Oslo\\n,Rome\\n")
    ...     for finding in inspect_rows(path).findings[:2]:
    ...         print(finding.what)
    column 'town' holds text, for example 'Oslo' on line 2
    1 value is missing: column 'age' (1, first on line 3)
    """
    path = Path(path)
    wish = _Wish(id_column, None, tuple(drop), None, header)
    try:
        kind = _format_of(path, format)
        sheet = _read_sheet(path, kind, wish)
    except DataError as error:
        return Inspection(str(path), "unknown", 0, 0, (Finding("error", error.what, error.remedy),))
    findings = [*_errors(sheet), *_advice(sheet, n_clusters, sample_rows)]
    rank = ("error", "warning", "note").index
    findings.sort(key=lambda finding: rank(finding.level))
    n_rows, n_columns = sheet.X.shape
    return Inspection(str(path), kind, n_rows, n_columns, tuple(findings))


def _errors(sheet: _Sheet, need_columns: bool = True) -> Iterator[Finding]:
    """What makes a file unusable, in the order in which a user would mend it."""
    n_rows, n_columns = sheet.X.shape
    if sheet.text:
        yield Finding("error", *_about_text(sheet.text, n_rows))
    if n_rows == 0:
        yield Finding("error", "it has no rows", "Is it the right file, and is it complete?")
    elif n_columns == 0 and need_columns:
        yield Finding("error", "it has no columns of numbers", "Clustering needs at least one")
    if n_rows and n_columns:
        yield from _nonfinite(sheet)
    if sheet.id_column and n_rows:
        yield from _bad_ids(sheet.kept[sheet.id_column], sheet)


def _about_text(text: tuple[_TextColumn, ...], n_rows: int) -> tuple[str, str]:
    def about(column: _TextColumn) -> str:
        share = f" in {column.count} of {n_rows} rows" if column.count < n_rows else ""
        where = "" if column.line is None else f" on line {column.line}"
        return f"column {column.name!r} holds text{share}, for example {column.example!r}{where}"

    what = "; ".join(about(column) for column in text[:5])
    if len(text) > 5:
        what += f"; and {len(text) - 5} more such columns"
    names = ",".join(column.name for column in text)
    remedy = (
        "Encode text as numbers (one 0/1 column for each value), or leave it out (--drop "
        f"{_quoted(names)}), or name the column that identifies the rows (--id-column)"
    )
    if any(re.fullmatch(r"[-+]?\d+,\d+", column.example) for column in text):
        remedy = "Write numbers with a decimal point instead of a comma. " + remedy
    return what, remedy


def _quoted(names: str) -> str:
    return f'"{names}"' if " " in names else names


def _nonfinite(sheet: _Sheet) -> Iterator[Finding]:
    for what, test, remedy in (
        ("missing", np.isnan, "Fill them in or delete those rows or columns"),
        ("infinite", np.isinf, "Replace them by finite numbers, or delete those rows"),
    ):
        counts, first = _count_cells(sheet.X, test)
        columns = np.flatnonzero(counts)
        if len(columns) == 0:
            continue
        listed = [
            f"{_column(sheet, j)} ({counts[j]}, first {_row(sheet, first[j])})" for j in columns[:8]
        ]
        more = f" and {len(columns) - 8} more columns" if len(columns) > 8 else ""
        total = counts.sum()
        verb = "value is" if total == 1 else "values are"
        yield Finding("error", f"{total} {verb} {what}: {', '.join(listed)}{more}", remedy)


def _count_cells(X: Any, test: Any) -> tuple[np.ndarray, np.ndarray]:
    """How many cells of each column pass the test, and the first row; by blocks for a memmap."""
    n_rows, n_columns = X.shape
    counts = np.zeros(n_columns, dtype=np.int64)
    first = np.full(n_columns, n_rows, dtype=np.int64)
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


def _column(sheet: _Sheet, j: Any) -> str:
    return f"column {sheet.names[j]!r}" if sheet.names else f"column {j} (counting from 0)"


def _row(sheet: _Sheet, i: Any) -> str:
    return f"in row {i}, counting from 0" if sheet.lines is None else f"on line {sheet.lines[i]}"


def _bad_ids(ids: np.ndarray, sheet: _Sheet) -> Iterator[Finding]:
    first: dict[Any, int] = {}
    for i, name in enumerate(ids.tolist()):
        if name is None or name == "" or name != name:
            yield Finding("error", f"the id is missing {_row(sheet, i)}", "Give every row a name")
            return
        if name in first:
            what = f"the id {name!r} stands {_row(sheet, first[name])} and again {_row(sheet, i)}"
            yield Finding(
                "error", what, "Delete the duplicate, or choose a column that names each row once"
            )
            return
        first[name] = i


def _advice(sheet: _Sheet, n_clusters: int | None, sample_rows: int) -> Iterator[Finding]:
    """What a user should know before a fit."""
    n_rows = sheet.X.shape[0]
    if 0 in sheet.X.shape:
        return
    X = sheet.X[:sample_rows]
    if not sparse.issparse(X):
        X = np.asarray(X, dtype=np.float64)
    of_sample = "" if n_rows <= sample_rows else f" (in the first {sample_rows} rows)"
    yield from _about_rows(X, n_rows, n_clusters, of_sample)
    yield from _about_columns(X, sheet, of_sample)


def _about_rows(X: Any, n_rows: int, n_clusters: int | None, of_sample: str) -> Iterator[Finding]:
    distinct = _n_distinct(X)
    if n_clusters is not None and distinct < n_clusters and not of_sample:
        yield Finding(
            "error",
            f"{n_clusters} clusters are wanted but there are only {distinct} distinct rows",
            "Ask for fewer clusters",
        )
    if distinct < X.shape[0]:
        yield Finding(
            "warning",
            f"{X.shape[0] - distinct} of {X.shape[0]} rows repeat an earlier row{of_sample}",
            "Equal rows share a cluster; many of them can make the size bound impossible to meet",
        )
    if n_rows < 20:
        yield Finding(
            "warning",
            f"there are only {n_rows} rows",
            "A margin found in so few rows may be an accident",
        )
    elif n_rows < X.shape[1]:
        yield Finding(
            "note",
            f"there are more columns ({X.shape[1]}) than rows ({n_rows})",
            "Almost any split has a margin then; try the linear kernel, or fewer columns",
        )


def _about_columns(X: Any, sheet: _Sheet, of_sample: str) -> Iterator[Finding]:
    low, high, spread = _column_stats(X)
    constant = np.flatnonzero(low == high)
    if len(constant):
        listed = _some([_column(sheet, j) for j in constant])
        yield Finding(
            "warning", f"the same value in every row{of_sample}: {listed}", "Drop what is constant"
        )
    used = np.flatnonzero(spread > 0)
    if len(used) > 1:
        widest, narrowest = used[spread[used].argmax()], used[spread[used].argmin()]
        if spread[widest] > 1000 * spread[narrowest]:
            yield Finding(
                "warning",
                f"scales differ wildly: {_column(sheet, widest)} varies by {spread[widest]:.3g}, "
                f"{_column(sheet, narrowest)} by {spread[narrowest]:.3g}",
                "The wide columns decide alone; bring them to one scale (fit --standardize)",
            )
    if max(-low.min(), high.max()) > 1e100:
        yield Finding("warning", "there are values beyond 1e100", "Rescale them")
    yield from _odd_columns(X, sheet)


def _column_stats(X: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Least and largest value and deviation of each column; not finite counts as zero."""
    if sparse.issparse(X):
        X = sparse.csc_matrix(X, copy=True)
        X.data[~np.isfinite(X.data)] = 0
        low, high = X.min(axis=0).toarray().ravel(), X.max(axis=0).toarray().ravel()
    else:
        X = np.where(np.isfinite(X), X, 0)
        low, high = X.min(axis=0), X.max(axis=0)
    # Scaled by the largest value, so that squares of huge numbers do not overflow.
    unit = np.maximum(np.maximum(-low, high), np.finfo(float).tiny)
    scaled = X @ sparse.diags(1 / unit) if sparse.issparse(X) else X / unit
    mean = np.asarray(scaled.mean(axis=0)).ravel()
    square = scaled.power(2) if sparse.issparse(scaled) else scaled**2
    variance = np.asarray(square.mean(axis=0)).ravel() - mean**2
    spread = np.where(low == high, 0, unit * np.sqrt(np.maximum(variance, 0)))
    return low, high, spread


def _odd_columns(X: Any, sheet: _Sheet) -> Iterator[Finding]:
    """Columns that are no measurements: row numbers, and the answers themselves."""
    if sparse.issparse(X) or len(X) < 3:
        return
    for j in range(X.shape[1]):
        name = sheet.names[j].lower() if sheet.names else ""
        steps = np.diff(X[:, j])
        if np.all(steps == 1) or name in {"id", "index", "row", "uid", "key"}:
            yield Finding(
                "warning",
                f"{_column(sheet, j)} looks like a row number or id",
                "Name it with --id-column, or leave it out with --drop",
            )
        elif name in {"label", "labels", "class", "target", "y", "cluster"}:
            yield Finding(
                "warning",
                f"{_column(sheet, j)} looks like the answer, not like a measurement",
                "Leave it out with --drop, or give it as --partial-labels",
            )


def _n_distinct(X: Any) -> int:
    if sparse.issparse(X):
        cuts = [slice(*ends) for ends in zip(X.indptr[:-1], X.indptr[1:])]
        return len({(X.indices[cut].tobytes(), X.data[cut].tobytes()) for cut in cuts})
    # Adding zero turns -0.0 into 0.0, which is equal but has other bytes.
    return len({row.tobytes() for row in np.ascontiguousarray(X) + 0.0})


def _some(names: Sequence[str], limit: int = 8) -> str:
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(str(name) for name in names[:limit]) + more


# ----------------------------------------------------------------------
# Labels in and out


def read_labels(values: Iterable[Any]) -> tuple[np.ndarray, tuple[str, ...]]:
    """Turn known labels, of any kind, into numbers for `partial_labels`.

    Parameters
    ----------
    values : iterable
        One value for each row. Empty cells, NaN, None, ``NA``, ``?`` and ``-1`` mean unknown.

    Returns
    -------
    labels : ndarray of int
        0, 1, ... in the order of `classes`, -1 where unknown.
    classes : tuple of str
        The names found, sorted; as numbers where all of them are.

    Examples
    --------
    >>> from maxmargin.io import read_labels
    >>> labels, classes = read_labels(["spam", "", "ham", "spam"])
    >>> labels.tolist(), classes
    ([1, -1, 0, 1], ('ham', 'spam'))
    """
    names = ["" if value is None else _label_name(str(value).strip()) for value in values]
    known = {name for name in names if name.lower() not in _MISSING and name != "-1"}
    numeric = all(_number(name) is not None for name in known)
    classes = tuple(sorted(known, key=float) if numeric else sorted(known))
    code = {name: i for i, name in enumerate(classes)}
    return np.array([code.get(name, -1) for name in names], dtype=np.int64), classes


def _label_name(name: str) -> str:
    """Write whole numbers one way: 1, 1.0 and +1 are the same class."""
    number = _number(name)
    return f"{number:.0f}" if number is not None and number == number // 1 else name


def write_labels(
    path: str | os.PathLike[str] | TextIO,
    labels: np.ndarray,
    *,
    margins: np.ndarray | None = None,
    ids: np.ndarray | None = None,
    id_name: str = "id",
) -> None:
    """Write one line for each row: its id or number (from 0), its cluster and its margin.

    Parameters
    ----------
    path : path or text file
        ``.csv`` or ``.parquet``, or ``.npy`` for the cluster numbers alone. A text file gets csv.
    labels : ndarray of shape (n_rows,)
        The cluster of each row.
    margins : ndarray of shape (n_rows,), default=None
        How far each row is from changing its cluster.
    ids : ndarray of shape (n_rows,), default=None
        The name of each row.
    id_name : str, default="id"
        The header above the ids.

    Examples
    --------
    >>> import sys
    >>> import numpy as np
    >>> from maxmargin.io import write_labels
    >>> write_labels(sys.stdout, np.array([0, 1]), margins=np.array([1.5, 0.25]))
    row,cluster,margin
    0,0,1.5
    1,1,0.25
    """
    columns = {"row": np.arange(len(labels))} if ids is None else {id_name: np.asarray(ids)}
    columns["cluster"] = np.asarray(labels)
    if margins is not None:
        columns["margin"] = np.asarray(margins)
    if not isinstance(path, str | os.PathLike):
        _write_csv(path, columns)
        return
    suffix = check_suffix(path, LABEL_SUFFIXES)
    with atomic_write(path) as partial:
        if suffix == ".npy":
            np.save(partial, columns["cluster"])
        elif suffix == ".parquet":
            _write_parquet(partial, columns)
        else:
            with open(partial, "w", encoding="utf-8", newline="") as file:
                _write_csv(file, columns)


def _write_csv(file: TextIO, columns: dict[str, np.ndarray]) -> None:
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*(column.tolist() for column in columns.values())))


def _write_parquet(path: Path, columns: dict[str, np.ndarray]) -> None:
    try:
        import pyarrow
        import pyarrow.parquet as pq
    except ImportError as error:
        raise DataError(
            "writing parquet needs pyarrow", 'Install it (pip install "maxmargin[io]") or write csv'
        ) from error
    pq.write_table(pyarrow.table(columns), path)


def check_suffix(path: str | os.PathLike[str], suffixes: Sequence[str]) -> str:
    """Return the ending of a file's name, or refuse it.

    Examples
    --------
    >>> from maxmargin.io import check_suffix
    >>> check_suffix("labels.CSV", [".csv", ".npy"])
    '.csv'
    """
    suffix = Path(path).suffix.lower()
    if suffix not in suffixes:
        raise DataError(
            f"{path}: do not know how to write {suffix or 'a file without ending'}",
            f"Use one of {', '.join(suffixes)}",
        )
    return suffix


@contextlib.contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Write a file whole or not at all: under a temporary name, put in place at the end.

    Whatever ends the block early, also Ctrl-C, removes the temporary file and leaves an earlier
    file as it was.

    Parameters
    ----------
    path : path
        Where the file shall stand.

    Yields
    ------
    Path
        Where to write it, with the same ending.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from maxmargin.io import atomic_write
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with atomic_write(pathlib.Path(folder, "a.txt")) as partial:
    ...         _ = partial.write_text("all of it")
    ...     [p.name for p in pathlib.Path(folder).iterdir()]
    ['a.txt']
    """
    target = Path(path).resolve()
    check_writable(path)
    partial = target.with_name(f".{target.stem}.{uuid.uuid4().hex[:8]}{target.suffix}")
    try:
        yield partial
        if target.exists():
            shutil.copymode(target, partial)
        with open(partial, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(partial, target)
    finally:
        partial.unlink(missing_ok=True)


def check_writable(path: str | os.PathLike[str]) -> None:
    """Refuse a place where no file can be put, before work is spent on its content.

    Examples
    --------
    >>> from maxmargin.io import check_writable
    >>> check_writable("no-folder/labels.csv")
    Traceback (most recent call last):
        ...
    maxmargin.io.DataError: no-folder/labels.csv: there is no folder no-folder. Create it first
    """
    target = Path(path).resolve()
    if not target.parent.is_dir():
        raise DataError(f"{path}: there is no folder {Path(path).parent}", "Create it first")
    if target.exists() and not target.is_file():
        raise DataError(f"{path} is not a plain file", "Choose another name")
    if not os.access(target.parent, os.W_OK):
        raise DataError(f"{path}: the folder may not be written to", "Choose another folder")
