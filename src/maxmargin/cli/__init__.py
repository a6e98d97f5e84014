"""The commands of the command line, one module each.

A command's module has `SUMMARY`, `EXAMPLE`, ``add_arguments(parser)``, ``run(args)``, which returns
a dict (what ``--json`` prints), and ``tell(result)``, which yields the same in lines for a person.
Everything heavy is imported inside the functions, so that ``--help`` is immediate.
"""

from __future__ import annotations


class UsageError(Exception):
    """The command line itself is wrong; exit code 2."""
