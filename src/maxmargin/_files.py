"""Files are written whole or not at all, and what is wrong with one is said in the user's words."""

from __future__ import annotations

import contextlib
import difflib
import os
import shutil
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

__all__ = ["DataError", "atomic_write", "check_exists", "check_suffix", "check_writable"]


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
    >>> from maxmargin._files import DataError
    >>> print(DataError("people.csv has no rows", "Is it the right file?"))
    people.csv has no rows. Is it the right file?
    """

    def __init__(self, what: str, remedy: str = ""):
        super().__init__(f"{what}. {remedy}" if remedy else what)
        self.what = what
        self.remedy = remedy


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
    >>> from maxmargin._files import atomic_write
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
    >>> from maxmargin._files import check_writable
    >>> check_writable("no-folder/labels.csv")
    Traceback (most recent call last):
        ...
    maxmargin._files.DataError: no-folder/labels.csv: there is no folder no-folder. Create it first
    """
    target = Path(path).resolve()
    if not target.parent.is_dir():
        raise DataError(f"{path}: there is no folder {Path(path).parent}", "Create it first")
    if target.exists() and not target.is_file():
        raise DataError(f"{path} is not a plain file", "Choose another name")
    if not os.access(target.parent, os.W_OK):
        raise DataError(f"{path}: the folder may not be written to", "Choose another folder")


def check_suffix(path: str | os.PathLike[str], suffixes: Sequence[str]) -> str:
    """Return the ending of a file's name, or refuse it.

    Examples
    --------
    >>> from maxmargin._files import check_suffix
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


def check_exists(path: Path) -> None:
    """Refuse a path that names no file.

    Examples
    --------
    >>> from pathlib import Path
    >>> from maxmargin._files import check_exists
    >>> check_exists(Path("no-such-file.csv"))
    Traceback (most recent call last):
        ...
    maxmargin._files.DataError: no-such-file.csv does not exist. Check the spelling and the folder
    """
    if not path.exists():
        raise DataError(f"{path} does not exist", f"Check the spelling and the folder{_near(path)}")
    if path.is_dir():
        raise DataError(f"{path} is a folder", "Name one file in it")


def _near(path: Path) -> str:
    if not path.parent.is_dir():
        return f": there is no folder {path.parent}"
    near = difflib.get_close_matches(path.name, [p.name for p in path.parent.iterdir()], n=1)
    return f": did you mean {near[0]}?" if near else ""
