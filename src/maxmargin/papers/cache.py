"""Results on the disk, by what they depend on: the code, the data and the setting.

Each result is a file of its own, written whole, so that Ctrl-C loses at most the unit in work. A
file that cannot be read, or whose content does not fit its check sum, counts as absent.
"""

from __future__ import annotations

import ast
import hashlib
import json
import warnings
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from .._files import atomic_write
from .plan import Unit

__all__ = ["ResultCache", "code_version", "data_hash"]

# What a figure can depend on; reports and reading of users' files are left out.
COMPUTING = ("*.py", "engine/*.py", "kernels/*.py", "papers/methods.py", "papers/measure.py")
NOT_COMPUTING = {"cli.py", "display.py", "inspection.py", "io.py", "persistence.py", "queries.py"}


@cache
def code_version() -> str:
    """Version of the package and a digest of the code that figures depend on.

    Examples
    --------
    >>> from maxmargin.papers.cache import code_version
    >>> code_version().startswith("0.1.0-")
    True
    """
    import sklearn

    from .. import __version__

    root = Path(__file__).parents[1]
    digest = hashlib.sha256(sklearn.__version__.encode())
    for path in sorted({p for pattern in COMPUTING for p in root.glob(pattern)}):
        if path.name not in NOT_COMPUTING:
            digest.update(_bare(path.read_text(encoding="utf-8")).encode())
    return f"{__version__}-{digest.hexdigest()[:12]}"


def _bare(source: str) -> str:
    """The program without comments and docstrings: a better explanation changes no figure."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(
            node
        ):
            node.body = node.body[1:]
    return ast.dump(tree)


def data_hash(tasks: list[tuple[Any, np.ndarray]]) -> str:
    """Digest of rows and classes.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.papers.cache import data_hash
    >>> one = data_hash([(np.zeros((2, 1)), np.zeros(2))])
    >>> one == data_hash([(np.ones((2, 1)), np.zeros(2))])
    False
    """
    digest = hashlib.sha256()
    for X, y in tasks:
        parts = (X.data, X.indices, X.indptr) if sparse.issparse(X) else (X,)
        for part in (*parts, y):
            array = np.ascontiguousarray(part)
            digest.update(f"{array.dtype}{array.shape}".encode())
            digest.update(array.data)
    return digest.hexdigest()[:16]


@dataclass
class ResultCache:
    """Results in a folder.

    Parameters
    ----------
    folder : Path
    version : str, default=None
        Version of the code; None takes the present one.
    """

    folder: Path
    version: str = field(default_factory=code_version)

    def get(self, unit: Unit, data: str) -> dict[str, Any] | None:
        """Return the result of a unit on data of that hash, or None."""
        path = self._path(unit, data)
        try:
            kept = json.loads(path.read_text(encoding="utf-8"))
            if kept["check"] != _check(kept["result"]) or kept["setting"] != unit.setting():
                raise ValueError("its content does not fit its check sum")
            return kept["result"]
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError, OSError) as error:
            warnings.warn(
                f"{path.name} in the cache is damaged and is computed again ({error})",
                stacklevel=2,
            )
            return None

    def put(self, unit: Unit, data: str, result: dict[str, Any]) -> None:
        """Keep a result."""
        self.folder.mkdir(parents=True, exist_ok=True)
        kept = {"setting": unit.setting(), "code": self.version, "data": data}
        with atomic_write(self._path(unit, data)) as partial:
            text = json.dumps(kept | {"check": _check(result), "result": result})
            partial.write_text(text, encoding="utf-8")

    def _path(self, unit: Unit, data: str) -> Path:
        key = f"{self.version}|{data}|{unit.setting()}".encode()
        return self.folder / f"{unit.data}-{hashlib.sha256(key).hexdigest()[:20]}.json"


def _check(result: Any) -> str:
    return hashlib.sha256(json.dumps(result, sort_keys=True).encode()).hexdigest()[:16]
