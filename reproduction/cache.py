"""Results on the disk, in a `joblib.Memory`: keyed by the unit, the data and the code.

Every result is stored when it is computed, so that Ctrl-C loses at most the unit in work. A result
that cannot be read is computed again, with a line in the log.
"""

from __future__ import annotations

import ast
import hashlib
from functools import cache
from pathlib import Path

import sklearn

import maxmargin

__all__ = ["code_version"]

# What a figure can depend on: the package without its front ends, and what is run for the papers.
FRONT_ENDS = {"app", "cli", "cli.py", "commands", "display.py", "report"}
HERE = ("baselines.py", "measure.py", "methods.py")


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
    return ast.dump(tree)
