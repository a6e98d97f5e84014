"""What the library says in the words of the command line: options instead of parameters."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping
from functools import partial

from .methods import word_of

PHRASES = {". report_": ". The report", " report_": " the report"}
OF_LIBRARY = {"constraints": "links"}  # parameters of fit whose option has another name
PLAIN = ("n_clusters", "partial_labels", "links")  # options of fit that are parameters as well
# Words such as "balance" are parameters only if something is to be done with them.
ADVICE = r"(\b(?:[Gg]ive|[Ll]ower|[Rr]aise|[Ss]et|[Uu]se) )"
NOT_A_NAME = r"(?<!['\"\w./-])"  # in front: not part of a quoted name, an option or a file


def options_by_parameter(parser: argparse.ArgumentParser) -> dict[str, str]:
    """Return the option for each parameter of a method that a command takes."""
    options = {
        action.dest: action.option_strings[0]
        for action in parser._actions
        if action.option_strings and (action.metavar == "VALUE" or action.dest in PLAIN)
    }
    renamed = {name: options[to] for name, to in OF_LIBRARY.items() if to in options}
    return options | renamed


def in_options(text: str, options: Mapping[str, str]) -> str:
    """Return a message about parameters as one about options.

    Examples
    --------
    >>> options = {"n_clusters": "-k", "kernel": "--kernel", "balance": "--balance"}
    >>> in_options("Raise balance: kernel='rbf' needs n_clusters=2; see report_", options)
    'Raise --balance: --kernel rbf needs -k 2; see the report'
    >>> in_options("column 'n_clusters' keeps the balance", options)
    "column 'n_clusters' keeps the balance"
    """
    for phrase, words in PHRASES.items():
        text = text.replace(phrase, words)
    for name, option in options.items():
        given = rf"{NOT_A_NAME}{name}=(?:'([^']*)'|\"([^\"]*)\"|([\w+-]+(?:\.\w+)*))"
        text = re.sub(given, partial(_typed, option), text)
        before = NOT_A_NAME if "_" in name else ADVICE
        text = re.sub(rf"{before}{name}\b(?![='\"])", partial(_named, option), text)
    return text


def _typed(option: str, found: re.Match[str]) -> str:
    """Return an option with the value that was found behind a parameter."""
    plain = {"True": True, "False": False, "None": None}
    value = next(group for group in found.groups() if group is not None)
    return f"{option} {word_of(plain.get(value, value))}"


def _named(option: str, found: re.Match[str]) -> str:
    """Return an option after the advice that was found in front of a parameter."""
    return "".join(found.groups()) + option
