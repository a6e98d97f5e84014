"""The command line: ``maxmargin COMMAND``; see `COMMANDS`.

Exit codes: 0 ok, 1 it ran but failed (bad data, a fit that cannot be done), 2 bad usage (unknown
options, impossible combinations), 130 interrupted.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import sys
import traceback
import warnings
from collections.abc import Iterator
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from maxmargin._files import nearest

from . import (
    UsageError,
    check,
    demo,
    explore,
    fit,
    info,
    label,
    predict,
    report,
    segment,
    with_this_python,
)
from .data import show
from .methods import did_you_mean
from .words import in_options, options_by_parameter

OK, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130
COMMANDS: dict[str, ModuleType] = {
    module.__name__.rpartition(".")[2]: module
    for module in (demo, fit, predict, report, explore, label, segment, check, info)
}
OTHER_OPTIONS = {"--constraints": "--links"}
PACKAGES = ("pandas", "pyarrow", "psutil", "rich", "skops")  # the extra "cli"


class _Parser(argparse.ArgumentParser):
    """A parser whose complaints go through the same door as all others."""

    def error(self, message: str):
        if choice := re.search(r"invalid choice: '(.*)' \(choose from (.*)\)", message):
            message += did_you_mean(choice[1], re.findall(r"[\w-]+", choice[2]))
        raise UsageError(f"{message} (see {self.prog} --help)")


def make_parser(only: str | None = None) -> argparse.ArgumentParser:
    """Build the parser of all commands, with the arguments of ``only`` one of them.

    The options of the methods come from their classes, which are slow to import: what is not asked
    for is left out.
    """
    parser = _Parser(
        prog="maxmargin",
        description="Maximum margin clustering: the clusters with the widest gap between them.",
        epilog="Exit codes: 0 ok, 1 failed, 2 bad usage, 130 interrupted.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    for name, command in COMMANDS.items():
        sub = commands.add_parser(
            name,
            help=command.SUMMARY,
            description=f"{command.SUMMARY[0].upper()}{command.SUMMARY[1:]}.",
            epilog=f"Example:\n  {command.EXAMPLE}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        if name == only:
            command.add_arguments(sub)
            sub.add_argument("--json", action="store_true", help="print one JSON object only")
            words = [str(action.metavar) for action in sub._actions if not action.option_strings]
            sub.usage = " ".join([sub.prog, "[options]", *words])
    return parser


def main(argv: list[str] | None = None) -> int:
    """Run a command and return its exit code: 0 ok, 1 failed, 2 bad usage, 130 interrupted."""
    argv = sys.argv[1:] if argv is None else argv
    told: list[Any] = []
    options: dict[str, str] = {}  # of the command, by the parameters that messages name
    with _warnings_in_one_line(options) as warned:
        try:
            code, result, told = _run(argv, options)
        except KeyboardInterrupt:
            code, result = INTERRUPTED, {"error": "interrupted"}
        except UsageError as error:
            code, result = USAGE, {"error": str(error)}
        except (ValueError, OSError, ImportError, MemoryError) as error:
            what = in_options(str(error), options) or type(error).__name__
            code, result = FAILED, {"error": what}
        except Exception as error:
            traceback.print_exc()
            what = f"{type(error).__name__}: {error} (this is a bug in maxmargin; please report it)"
            code, result = FAILED, {"error": what}
    if "error" in result:
        result["error"] = with_this_python(result["error"])
        print(f"maxmargin: {' '.join(result['error'].split())}", file=sys.stderr)
    with _pipe_may_close():
        if "--json" in argv:
            head = {"command": next(iter(argv), None), "ok": code == OK}
            print(json.dumps(_plain(head | result | {"warnings": warned}), allow_nan=False))
        else:
            for part in told:
                show(part, sys.stdout)
        sys.stdout.flush()
    return code


def _run(argv: list[str], options: dict[str, str]) -> tuple[int, dict[str, Any], list[Any]]:
    """Exit code, result and what to tell; nothing is printed before all of it has worked.

    The command's options are added to ``options``, by the parameters that they set.
    """
    parser = make_parser(next((word for word in argv if word in COMMANDS), None))
    try:
        args, unknown = parser.parse_known_args(argv)
    except SystemExit as done:
        return int(done.code or 0), {}, []
    if unknown:
        _refuse(parser, args.command, unknown)
    if args.version:
        from maxmargin.persistence import package_version

        return OK, {}, [f"maxmargin {package_version('maxmargin')}"]
    if args.command is None:
        raise UsageError(f"a command is needed: {', '.join(COMMANDS)} (see maxmargin --help)")
    command = COMMANDS[args.command]
    options |= options_by_parameter(_commands(parser)[args.command])
    missing = [name for name in PACKAGES if find_spec(name) is None]
    if missing and command is not info:
        install = 'Install what commands need: pip install "maxmargin[cli]"'
        raise ImportError(f"{', '.join(missing)} cannot be found. {install}")
    with _compiling_is_told() if sys.stderr.isatty() else contextlib.nullcontext():
        result = command.run(args)
    if "report" in result:
        result["report"] = [in_options(line, options) for line in result["report"]]
    return OK if result.get("ok", True) else FAILED, result, list(command.tell(result))


def _commands(parser: argparse.ArgumentParser) -> Any:
    """Return the parsers of the commands by name."""
    return next(a for a in parser._actions if isinstance(a, argparse._SubParsersAction)).choices


def _refuse(parser: argparse.ArgumentParser, name: str | None, unknown: list[str]) -> None:
    """Refuse arguments that a command does not have, and name the nearest of its options."""
    known = list((_commands(parser)[name] if name else parser)._option_string_actions)
    first = next((word for word in unknown if word.startswith("-")), "").partition("=")[0]
    other = OTHER_OPTIONS.get(first)
    near = other if other in known else nearest(first.replace("_", "-"), known, 0.8)
    hint = f"; did you mean {near}?" if near else ""
    if not first and "--drop" in known:
        hint = "; separate names by commas, and quote names with blanks"
    if not first and name == "info":
        hint = "; info takes no file: use report"
    command = f"maxmargin {name}" if name else "maxmargin"
    raise UsageError(f"unrecognized arguments: {' '.join(unknown)}{hint} (see {command} --help)")


@contextlib.contextmanager
def _warnings_in_one_line(options: dict[str, str]) -> Iterator[list[str]]:
    seen: list[str] = []

    def show(message, category, filename, lineno, file=None, line=None):
        text = in_options(" ".join(str(message).split()), options)
        if text in seen:  # several passes over the same rows
            return
        seen.append(text)
        print(f"maxmargin: warning: {text}", file=sys.stderr)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield seen


@contextlib.contextmanager
def _compiling_is_told() -> Iterator[None]:
    from numba.core import event

    class Teller(event.Listener):
        told = False

        def on_start(self, event):
            if not self.told:
                print("compiling, once after the installation ...", file=sys.stderr, flush=True)
            self.told = True

        def on_end(self, event): ...

    with event.install_listener("numba:compile", Teller()):
        yield


@contextlib.contextmanager
def _pipe_may_close() -> Iterator[None]:
    """A reader such as ``head`` may close the pipe early; that is no failure."""
    try:
        yield
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _plain(value: Any) -> Any:
    """Turn numpy values into what JSON knows; NaN and infinity become null."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not abs(value) < float("inf"):
        return None
    return value
