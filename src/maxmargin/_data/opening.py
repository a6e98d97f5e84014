"""Detection of a file's format by its name and its first bytes, which must agree."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import lzma
import re
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

from .._files import DataError, check_exists

GET_AGAIN = "Get or write the file again"
_AS_UTF8 = 'Save it again as UTF-8 (in a spreadsheet: "CSV UTF-8")'
# What readers raise for damaged files; numpy parses headers as Python source.
_DAMAGED = (
    EOFError, OSError, ValueError, TypeError, OverflowError, RuntimeError, SyntaxError,
    tokenize.TokenError, zipfile.BadZipFile, zlib.error, lzma.LZMAError,
)  # fmt: skip
_SUFFIXES = {
    "csv": (".csv", ".tsv", ".txt", ".data", ".dat"),
    "parquet": (".parquet", ".pq"),
    "npy": (".npy",),
    "npz": (".npz",),
    "svmlight": (".svm", ".svmlight", ".libsvm"),
}
FORMATS = tuple(_SUFFIXES)
_SPREADSHEETS = (".xlsx", ".xlsm", ".xls", ".ods")
_CONTENT_OF_FORMAT = {
    "csv": "text",
    "svmlight": "text",
    "parquet": "a parquet file",
    "npy": "a NumPy array (npy)",
    "npz": "a zip archive",
}
_DECOMPRESS = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
_SIGNATURES = {
    b"\x93NUMPY": "a NumPy array (npy)",
    b"PAR1": "a parquet file",
    b"PK\x03\x04": "a zip archive",
    b"PK\x05\x06": "a zip archive",
    b"\x1f\x8b": "gzip-compressed data",
    b"BZh": "bzip2-compressed data",
    b"\xfd7zXZ": "xz-compressed data",
    b"\x89PNG": "a PNG image",
    b"\xff\xd8\xff": "a JPEG image",
    b"%PDF": "a PDF document",
    b"\x89HDF": "an HDF5 file",
    b"\xff\xfe": "UTF-16 text",
    b"\xfe\xff": "UTF-16 text",
}
_SVMLIGHT_LINE = re.compile(rb"\s*[-+.,\deE]+(\s+qid:\d+)?\s+\d+:[-+.\deE]+(\s|$)")


def format_of(path: Path, format: str | None = None) -> str:
    """Return the format given by the user, or derived from the name or the content."""
    check_exists(path)
    with explained(path), open_bytes(path) as file:
        head = file.read(4096)
    if not head:
        raise DataError(f"{path} is empty", GET_AGAIN)
    suffix = (path.with_suffix("") if path.suffix in _DECOMPRESS else path).suffix.lower()
    by_name = (name for name, endings in _SUFFIXES.items() if suffix in endings)
    format = format or next(by_name, None)
    content = next((kind for start, kind in _SIGNATURES.items() if head.startswith(start)), "text")
    if content == "text" and b"\0" in head:
        content = "binary data of an unknown kind"
    if format in (None, "csv") and content == "UTF-16 text":
        return "csv"
    if format in (None, "csv") and content == "text" and _SVMLIGHT_LINE.match(head):
        return "svmlight"
    if format is None and suffix in _SPREADSHEETS:
        remedy = 'Open it in the spreadsheet program and save it as csv ("CSV UTF-8")'
        raise DataError(f"{path} is a spreadsheet", remedy)
    if format is None:
        what = f"{path}: cannot tell from the name how to read it (its content is {content})"
        raise DataError(what, f"Give it with --format ({', '.join(FORMATS)})")
    if format not in FORMATS:
        raise DataError(f"unknown format {format!r}", f"Use one of {', '.join(FORMATS)}")
    if content != _CONTENT_OF_FORMAT[format]:
        remedy = "Give it the ending that fits its content, or name the right file"
        if "compressed" in content:
            remedy = "Unpack it, or add .gz, .bz2 or .xz to its name"
        elif content == "a zip archive":
            remedy = "If it is a spreadsheet (xlsx), save it as csv; if an archive, unpack it"
        what = f"{path} should be {_CONTENT_OF_FORMAT[format]} by its name but is {content}"
        raise DataError(what, remedy)
    return format


def open_bytes(path: Path) -> BinaryIO:
    """Open a file, decompressed if its name ends in .gz, .bz2 or .xz."""
    opener: Any = _DECOMPRESS.get(path.suffix, open)
    return cast(BinaryIO, opener(path, "rb"))


def one_line(error: BaseException) -> str:
    """Return the message of an error in one line."""
    return " ".join(str(error).split()) or type(error).__name__


@contextlib.contextmanager
def explained(path: Path) -> Iterator[None]:
    """Add the file's name to errors of its reader, and report damaged files."""
    try:
        yield
    except DataError as error:
        raise DataError(f"{path}: {error.what}", error.remedy) from error
    except UnicodeDecodeError as error:
        what = f"{path} is not UTF-8 text (byte {error.object[error.start]:#04x})"
        raise DataError(what, _AS_UTF8) from error
    except PermissionError as error:
        raise DataError(f"{path} may not be read", "Ask its owner for permission") from error
    except _DAMAGED as error:
        what = f"{path} is truncated or damaged ({one_line(error)})"
        raise DataError(what, GET_AGAIN) from error
