"""Read a file of any format as a `Sheet`.

Each format has a reader ``(path, wish) -> Sheet`` that says what is wrong without naming the file;
`open_sheet` adds its name. Only parquet needs a package beyond the required ones, pyarrow.
"""

from __future__ import annotations

from pathlib import Path

from .arrays import read_npy, read_npz, read_parquet, read_svmlight
from .csv_text import read_csv
from .opening import explained, format_of
from .sheet import Sheet, Wish

_READERS = {
    "csv": read_csv,
    "parquet": read_parquet,
    "npy": read_npy,
    "npz": read_npz,
    "svmlight": read_svmlight,
}


def open_sheet(path: Path, format: str | None, wish: Wish) -> tuple[str, Sheet]:
    """Return the format of a file and its content, or say why it cannot be read."""
    format = format_of(path, format)
    with explained(path):
        return format, _READERS[format](path, wish)
