"""Files are written whole or not at all, and what is wrong with one is said in the user's words."""

from __future__ import annotations

import contextlib
import difflib
import os
import shutil
import stat
import uuid
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any


class DataError(ValueError):
    """A file that cannot be used.

    Parameters
    ----------
    what : str
        What is wrong.
    remedy : str
        What to do about it.

    See Also
    --------
    maxmargin.io.read_rows : Raises it for a file that cannot be read.

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


def plural(count: int, noun: str) -> str:
    """Return a count with its noun.

    Examples
    --------
    >>> plural(1, "row"), plural(2000, "row")
    ('1 row', '2,000 rows')
    """
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def listed(items: Iterable[Any], word: str) -> str:
    """Return items with commas and a word before the last one.

    Examples
    --------
    >>> listed([2, 3, 5], "or")
    '2, 3 or 5'
    """
    *others, last = map(str, items)
    return f"{', '.join(others)} {word} {last}" if others else last


def nearest(name: str, names: Iterable[Any], cutoff: float = 0.6) -> Any:
    """Return the name that is most like another one, whatever their case, or None.

    Examples
    --------
    >>> nearest("rmp", ["noise", "RPM"]), nearest("x", ["noise", "RPM"])
    ('RPM', None)
    """
    spelt = {str(known).lower(): known for known in names}  # a table can have numbers as names
    near = difflib.get_close_matches(name.lower(), spelt, 1, cutoff)
    return spelt[near[0]] if near else None


def needed(module: str, extra: str = "cli") -> Any:
    """Import an optional package, or say which extra brings it."""
    try:
        return import_module(module)
    except ImportError as error:
        package = {"PIL": "Pillow"}.get(name := module.partition(".")[0], name)
        install = f'Install it: pip install "maxmargin[{extra}]"'
        raise ImportError(f"this needs {package}, which is missing. {install}") from error


@contextlib.contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Write a file whole or not at all; see `atomic_writes`."""
    with atomic_writes([path]) as [partial]:
        yield partial


@contextlib.contextmanager
def atomic_writes(paths: Sequence[str | os.PathLike[str]]) -> Iterator[list[Path]]:
    """Write several files, all of them or none; yields where to write them, with the same endings.

    Whatever ends the block early, also Ctrl-C, removes the temporary files and leaves earlier files
    as they were. If one of them cannot be put in place, those that are new are removed again.
    """
    for path in paths:
        check_writable(path)
    targets = [resolved(path) for path in paths]
    partials = [_partial(target) for target in targets]
    placed: list[Path] = []
    try:
        yield partials
        for target, partial in zip(targets, partials):
            if target.exists():
                shutil.copymode(target, partial)
            with open(partial, "rb+") as file:
                os.fsync(file.fileno())
        for target, partial in zip(targets, partials):
            is_new = not target.exists()
            os.replace(partial, target)
            if is_new:
                placed.append(target)
    except BaseException:
        for target in placed:
            target.unlink(missing_ok=True)
        raise
    finally:
        for partial in partials:
            partial.unlink(missing_ok=True)


def _partial(target: Path) -> Path:
    # Of fixed length: the longest name that the file system takes must not become too long.
    return target.with_name(f".maxmargin-{uuid.uuid4().hex[:8]}{target.suffix}")


def resolved(path: str | os.PathLike[str]) -> Path:
    """Return the absolute path that links lead to; refuse links that lead to themselves."""
    try:
        found = Path(path).resolve()
        if os.path.islink(found):  # Python 3.13 and later raise no error
            raise RuntimeError
    except RuntimeError as error:
        what = f"{path} is a symbolic link that leads to itself"
        raise DataError(what, "Name the file itself") from error
    return found


def check_writable(path: str | os.PathLike[str]) -> None:
    """Refuse a place where no file can be put, before work is spent on its content."""
    target = resolved(path)
    for place in (target, _partial(target)):
        try:
            place.stat()
        except (FileNotFoundError, NotADirectoryError):
            pass
        except OSError as error:  # the name or the whole path is too long, for example
            raise DataError(f"{path}: {error.strerror}", "Choose another name") from error
    if not target.parent.is_dir():
        raise DataError(f"{path}: there is no folder {Path(path).parent}", "Create it first")
    if target.exists() and not target.is_file():
        raise DataError(f"{path} is not a plain file", "Choose another name")
    if not os.access(target.parent, os.W_OK):
        raise DataError(f"{path}: the folder may not be written to", "Choose another folder")


def check_suffix(path: str | os.PathLike[str], suffixes: Sequence[str]) -> str:
    """Return the ending of a file's name, or refuse it."""
    suffix = Path(path).suffix.lower()
    if suffix not in suffixes:
        what = f"{path}: do not know how to write {suffix or 'a file without ending'}"
        raise DataError(what, f"Use one of {', '.join(suffixes)}")
    return suffix


def check_exists(path: Path) -> None:
    """Refuse a path that names no plain file."""
    try:
        mode = resolved(path).stat().st_mode
    except (FileNotFoundError, NotADirectoryError) as error:
        remedy = f"Check the spelling and the folder{_near(path)}"
        raise DataError(f"{path} does not exist", remedy) from error
    except OSError as error:
        what = f"{path}: {error.strerror}"
        raise DataError(what, "Check the name and the permissions") from error
    if stat.S_ISDIR(mode):
        raise DataError(f"{path} is a folder", "Name one file in it")
    if not stat.S_ISREG(mode):  # a pipe, for example: without a writer its reader waits forever
        raise DataError(f"{path} is not a plain file", "Save what it holds to a file first")


def _near(path: Path) -> str:
    if not path.parent.is_dir():
        return f": there is no folder {path.parent}"
    near = nearest(path.name, (other.name for other in path.parent.iterdir()), 0.8)
    return f": did you mean {near}?" if near else ""
