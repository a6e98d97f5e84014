"""The commands of the command line, one module each.

A command's module has `SUMMARY`, `EXAMPLE`, ``add_arguments(parser)``, ``run(args)``, which returns
a dict (what ``--json`` prints), and ``tell(result)``, which yields the same in lines for a person.
Everything heavy is imported inside the functions, so that ``--help`` is immediate.
"""

from __future__ import annotations

import shlex
import sys


class UsageError(Exception):
    """The command line itself is wrong; exit code 2."""


def with_this_python(text: str) -> str:
    """Let the commands of a text install into this environment: a plain pip may be of another."""
    return text.replace("pip install", f"{shlex.quote(sys.executable)} -m pip install")
