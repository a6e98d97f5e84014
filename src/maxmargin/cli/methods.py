"""The methods by the names that the command line gives them, and their options.

Options are made of the classes themselves: names and defaults come from the signature, permitted
values from `_parameter_constraints`, and the help from the docstring, unless it is in `ABOUT`.
"""

from __future__ import annotations

import argparse
import contextlib
import inspect
import re
from collections.abc import Iterable
from typing import Any

from maxmargin._files import listed, nearest

from . import UsageError, with_this_python

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
ABOUT = {
    "kernel": "Similarity of two rows; rbf is the Gaussian kernel, and auto chooses by the rows",
    "cluster_sizes": "Target sizes of the clusters: equal if none is given, or adaptive, estimated "
    "from leave-one-out predictions",
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
        cls = _class_of(method)
        described = _described(cls) | ABOUT
        for name, default in options_of(method).items():
            if not only or name in only:
                kind = f"{permitted(cls._parameter_constraints[name])} [{word_of(default)}]"
                values.setdefault(name, {}).setdefault(kind, []).append(method)
                about[name] = about.get(name) or described.get(name, "")
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
            help=with_this_python(
                f"{about[name]} ({'default: 0' if is_seed else told})".replace("%", "%%")
            ),
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


def permitted(rules: Iterable[Any]) -> str:
    """Say which values of a parameter can be typed.

    Examples
    --------
    >>> from numbers import Real
    >>> from sklearn.utils._param_validation import Interval, StrOptions
    >>> permitted([StrOptions({"median", "auto"}), Interval(Real, 0, 1, closed="right"), callable])
    'auto, median or a number above 0 to 1'
    >>> permitted(["boolean", None])
    'yes, no or none'
    """
    from numbers import Integral

    from sklearn.utils._param_validation import Interval, StrOptions

    told: list[str] = []
    for rule in rules:
        if isinstance(rule, StrOptions):
            told += sorted(rule.options)
        elif isinstance(rule, Interval):
            told.append(_range(rule))
        elif rule in ("random_state", Integral):
            told.append("a whole number" + " from 0" * (rule == "random_state"))
        elif rule == "boolean" or rule is None:
            told += ["none"] if rule is None else ["yes", "no"]
    return listed(told, "or")


def _range(rule: Any) -> str:
    from math import inf
    from numbers import Integral

    number = "a whole number" if rule.type is Integral else "a number"
    bounds = []
    if rule.left not in (None, -inf):
        bounds.append(f"{'from' if rule.closed in ('left', 'both') else 'above'} {rule.left:g}")
    if rule.right not in (None, inf):
        bounds.append(f"{'up to' if rule.closed in ('right', 'both') else 'below'} {rule.right:g}")
    return f"{number} {' and '.join(bounds)}".strip().replace("and up to", "to")


def _described(cls: Any) -> dict[str, str]:
    """First sentence of each parameter in a class's docstring."""
    pattern = r"^(\w[\w, ]*) : .+\n((?: +.*\n)*)"
    found: dict[str, str] = {}
    for names, text in re.findall(pattern, inspect.getdoc(cls) or "", re.M):
        words = re.sub(r":\w+:`~?([^`]*)`|``", r"\1", " ".join(text.split()))
        words = words.replace("None", "none")
        first = re.split(r"(?<=[^.][.])\s", words)[0].rstrip(".")
        found.update(dict.fromkeys(names.split(", "), first))
    return found


def _value(text: str) -> Any:
    """Read a word of the command line; the method's own rules say later whether it is permitted."""
    for convert in (int, float):
        with contextlib.suppress(ValueError):
            return convert(text)
    words = {"none": None, "true": True, "yes": True, "false": False, "no": False}
    return words.get(text.lower(), text)


def word_of(value: Any) -> str:
    """Return a value as it is typed."""
    words = ((None, "none"), (True, "yes"), (False, "no"))
    return next((word for known, word in words if value is known), str(value))


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
    cls = _class_of(method)
    model = cls(n_clusters=n_clusters, **settings)
    try:
        model._validate_params()
    except ValueError as error:
        raise UsageError(_in_words(str(error), cls._parameter_constraints, settings)) from error
    return model


def _in_words(error: str, constraints: dict[str, Any], settings: dict[str, Any]) -> str:
    """Say of an option what scikit-learn says of a parameter, and name the word that may be meant.

    Examples
    --------
    >>> from sklearn.utils._param_validation import StrOptions
    >>> constraints = {"kernel": [StrOptions({"rbf", "poly"}), callable]}
    >>> _in_words("The 'kernel' parameter must ...", constraints, {"kernel": "gaussian"})
    "--kernel must be poly or rbf, got 'gaussian'; did you mean rbf?"
    """
    found = re.match(r"The '(\w+)' parameter", error)
    if found is None or found[1] not in settings:
        return error
    value = settings[found[1]]
    kinds = permitted(constraints[found[1]])
    option = "seed" if found[1] == "random_state" else found[1].replace("_", "-")
    near = did_you_mean(OTHER_WORDS.get(value, str(value)), re.split(", | or ", kinds))
    return f"--{option} must be {kinds}, got {word_of(value)!r}{near}"


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return the end of a message that names the nearest of some words, if one is near."""
    near = nearest(word, known)
    return f"; did you mean {near}?" if near else ""
