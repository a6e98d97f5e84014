"""The methods by the names that the command line gives them, and their options.

Options are made of the classes themselves: names come from the signature, permitted values from
`_parameter_constraints`, and the help from the docstring.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import inspect
import re
from collections.abc import Iterable
from typing import Any

from . import UsageError

METHODS = {
    "auto": "MaxMarginClustering",
    "alternating": "AlternatingMarginClustering",
    "least-squares": "LeastSquaresMarginClustering",
    "pairwise": "PairwiseMarginClustering",
    "cutting-plane": "CuttingPlaneMarginClustering",
    "multiple-kernel": "MultipleKernelMarginClustering",
    "semidefinite": "SemidefiniteMarginClustering",
    "bisecting": "BisectingMarginClustering",
}
OTHER_WORDS = {"gauss": "rbf", "gaussian": "rbf"}
WRAPPED = {"bisecting": "alternating"}  # takes the options of this method, too
# -k is for n_clusters; one command is one fit, and a bar is shown on a terminal only.
NOT_OPTIONS = {"n_clusters", "warm_start", "verbose"}


def positive(text: str) -> int:
    """Read a whole number above 0."""
    with contextlib.suppress(ValueError):
        if (value := int(text)) > 0:
            return value
    raise argparse.ArgumentTypeError(f"must be a whole number above 0, got {text!r}")


def _class_of(method: str) -> Any:
    import maxmargin

    return getattr(maxmargin, METHODS[method])


def options_of(method: str) -> dict[str, Any]:
    """Return the parameters of a method that can be given as words, with their defaults."""
    from numbers import Integral

    from sklearn.utils._param_validation import Interval, StrOptions

    words = ("boolean", "random_state", Integral)
    cls = _class_of(method)
    return {
        name: parameter.default
        for name, parameter in inspect.signature(cls).parameters.items()
        if name not in NOT_OPTIONS
        and any(
            isinstance(rule, Interval | StrOptions) or rule in words
            for rule in cls._parameter_constraints[name]
        )
    }


def add_options(
    parser: argparse.ArgumentParser, methods: Iterable[str] = METHODS, only: Iterable[str] = ()
) -> None:
    """Declare the options of some methods; ``only`` some of them if they are named."""
    values: dict[str, dict[str, list[str]]] = {}
    about: dict[str, str] = {}
    for method in methods:
        described = _described(_class_of(method))
        for name, default in options_of(method).items():
            if not only or name in only:
                kind, text = described.get(name, ("any", ""))
                values.setdefault(name, {}).setdefault(f"{kind} [{default}]", []).append(method)
                about[name] = about.get(name) or text
    first = next(iter(methods))
    default = parser.add_argument_group(
        f"settings of the default method, {first}, and others, with their values and [defaults]"
    )
    others = parser.add_argument_group("settings of other methods alone")
    for name, kinds in values.items():
        of_first = any(first in those for those in kinds.values())
        told = "; ".join(f"{', '.join(methods)}: {kind}" for kind, methods in kinds.items())
        is_seed = name == "random_state"
        action = (default if of_first else others).add_argument(
            *(["--seed"] if is_seed else []),
            f"--{name.replace('_', '-')}",
            dest=name,
            metavar="VALUE",
            type=_value,
            default=0 if is_seed else argparse.SUPPRESS,
            help=f"{about[name]} ({'default: 0' if is_seed else told})".replace("%", "%%"),
        )
        if not of_first:
            action.in_full, action.help = action.help, argparse.SUPPRESS  # type: ignore[attr-defined]
    if others._group_actions:
        more = "also show the settings of other methods"
        parser.add_argument("--help-all", action=_HelpAll, nargs=0, help=more)


class _HelpAll(argparse.Action):
    def __call__(self, parser, *_given):
        for action in parser._actions:
            action.help = getattr(action, "in_full", action.help)
        parser.print_help()
        parser.exit()


def _described(cls: Any) -> dict[str, tuple[str, str]]:
    """Type and first sentence of each parameter in a class's docstring."""
    pattern = r"^(\w[\w, ]*) : (.+?)(?:, default=.*)?\n((?: +.*\n)*)"
    found = {}
    for names, kind, text in re.findall(pattern, inspect.getdoc(cls) or "", re.M):
        words = re.sub(r":\w+:`~?([^`]*)`|``", r"\1", " ".join(text.split()))
        first = re.split(r"(?<=[^.][.])\s", words)[0].rstrip(".")
        found.update(dict.fromkeys(names.split(", "), (kind, first)))
    return found


def _value(text: str) -> Any:
    """Read a word of the command line; the method's own rules say later whether it is permitted."""
    for convert in (int, float):
        with contextlib.suppress(ValueError):
            return convert(text)
    return {"none": None, "true": True, "false": False}.get(text.lower(), text)


def given_options(args: argparse.Namespace, methods: Iterable[str] = METHODS) -> dict[str, Any]:
    """Return the options that were given, by the names of the parameters."""
    names = {name for method in methods for name in options_of(method)}
    return {name: value for name, value in vars(args).items() if name in names}


def build_estimator(method: str, n_clusters: int | None, options: dict[str, Any]) -> Any:
    """Make the estimator of a method; refuse options that it does not have or permit."""
    if n_clusters is None and method != "auto":
        raise UsageError(f"--method {method} needs -k, the number of clusters")
    own, wrapped = options_of(method), WRAPPED.get(method)
    inner = options_of(wrapped) if wrapped else {}
    for name in options:
        if name not in own | inner:
            raise UsageError(f"--{name.replace('_', '-')} does not apply to --method {method}")
    settings = {name: value for name, value in options.items() if name in own}
    if wrapped:
        rest = {name: value for name, value in options.items() if name in inner}
        settings["estimator"] = build_estimator(wrapped, 2, rest)
    model = _class_of(method)(n_clusters=n_clusters, **settings)
    try:
        model._validate_params()
    except ValueError as error:
        raise UsageError(_with_hint(str(error))) from error
    return model


def _with_hint(error: str) -> str:
    """Sort the values that a parameter permits, and name the one that may be meant.

    Examples
    --------
    >>> _with_hint("The 'kernel' must be among {'rbf', 'poly'}. Got 'gaussian' instead.")
    "The 'kernel' must be among {'poly', 'rbf'}. Got 'gaussian' instead; did you mean rbf?"
    """
    listed, got = re.search(r"\{('[^{}]*')\}", error), re.search(r"Got '(.*)' instead", error)
    if listed is None or got is None:
        return error
    words = sorted(listed[1].split(", "))
    error = error.replace(listed[1], ", ".join(words))
    return error.rstrip(".") + did_you_mean(OTHER_WORDS.get(got[1], got[1]), words)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return the end of a message that names the nearest of some words, if one is near."""
    near = difflib.get_close_matches(word, [name.strip("'") for name in known], 1)
    return f"; did you mean {near[0]}?" if near else ""
