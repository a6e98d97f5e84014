"""Read a file of any format as a `Sheet`.

Each format has a reader ``(path, wish) -> Sheet`` that says what is wrong without naming the file;
`open_sheet` adds its name. Only parquet needs a package beyond the required ones, pyarrow.
"""

from __future__ import annotations

import lzma
import zipfile
import zlib
from pathlib import Path

from .._files import DataError
from .arrays import read_npy, read_npz, read_parquet, read_svmlight
from .csv_text import read_csv
from .opening import damaged, format_of
from .sheet import Sheet, Wish

_READERS = {
    "csv": read_csv,
    "parquet": read_parquet,
    "npy": read_npy,
    "npz": read_npz,
    "svmlight": read_svmlight,
}
_DAMAGED = (EOFError, OSError, ValueError, zipfile.BadZipFile, zlib.error, lzma.LZMAError)


def open_sheet(path: Path, format: str | None, wish: Wish) -> tuple[str, Sheet]:
    """Return the format of a file and its content, or say why it cannot be read."""
    format = format_of(path, format)
    try:
        return format, _READERS[format](path, wish)
    except DataError as error:
        raise DataError(f"{path}: {error.what}", error.remedy) from error
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path} is not UTF-8 text (byte {error.object[error.start]:#04x})",
            'Save it again as UTF-8 (in a spreadsheet: "CSV UTF-8")',
        ) from error
    except _DAMAGED as error:
        raise damaged(path, error) from error
