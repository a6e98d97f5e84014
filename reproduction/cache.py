"""Results on the disk: one JSON file for each unit, keyed by the unit, the data and the code.

Every result is stored when it is computed, so that Ctrl-C loses at most the units in work. A result
that cannot be read is computed again, with a line in the log. Folders of several runs, also on
other machines, can be copied into one another.
"""

from __future__ import annotations

import ast
import hashlib
import json
import logging
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import sklearn

import maxmargin

__all__ = ["Store", "code_version"]

# What a figure can depend on: the package without its front ends, and what is run for the papers.
FRONT_ENDS = {"_report", "app", "cli", "display.py", "export.py", "inspection.py"}
HERE = ("baselines.py", "measure.py", "methods.py")


@dataclass(frozen=True)
class Store:
    """Results of one version of the code in a folder.

    Attributes
    ----------
    folder : Path
    version : str
    """

    folder: Path
    version: str

    def path(self, setting: str, digest: str) -> Path:
        """Return the file of a unit's setting on data with this digest."""
        name = hashlib.sha256(f"{setting} {digest}".encode()).hexdigest()[:24]
        return self.folder / self.version / f"{name}.json"

    def read(self, setting: str, digest: str) -> dict[str, Any] | None:
        """Return a stored result, or None."""
        path = self.path(setting, digest)
        try:
            return dict(json.loads(path.read_text(encoding="utf-8"))["result"])
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            logging.getLogger(__name__).warning(
                "%s cannot be read (%s): computed again", path, error
            )
            return None

    def write(self, setting: str, digest: str, result: dict[str, Any]) -> None:
        """Store a result; a reader sees all of it or nothing."""
        path = self.path(setting, digest)
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(f".{os.getpid()}")
        part.write_text(json.dumps({"unit": json.loads(setting), "result": result}), "utf-8")
        part.replace(path)


@cache
def code_version() -> str:
    """Version of the package and a digest of the code that figures depend on.

    Examples
    --------
    >>> import maxmargin
    >>> from reproduction.cache import code_version
    >>> code_version().startswith(f"{maxmargin.__version__}-")
    True
    """
    root, here = Path(maxmargin.__file__).parent, Path(__file__).parent
    package = [p for p in root.rglob("*.py") if not FRONT_ENDS & set(p.relative_to(root).parts)]
    digest = hashlib.sha256(sklearn.__version__.encode())
    for path in [*sorted(package), *(here / name for name in HERE)]:
        digest.update(_bare(path.read_text(encoding="utf-8")).encode())
    return f"{maxmargin.__version__}-{digest.hexdigest()[:12]}"


def _bare(source: str) -> str:
    """The program without comments and docstrings: a better explanation changes no figure."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            node.body = node.body[ast.get_docstring(node) is not None :]
    return _dump(tree)


def _dump(node: object) -> str:
    """``ast.dump``, whose treatment of empty fields depends on the version of Python."""
    if isinstance(node, list):
        return f"[{', '.join(map(_dump, node))}]"
    if not isinstance(node, ast.AST):
        return repr(node)
    fields = [
        f"{name}={_dump(value)}" for name, value in ast.iter_fields(node) if value not in (None, [])
    ]
    return f"{type(node).__name__}({', '.join(fields)})"
