"""The methods by the names that the command line gives them, and their options."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from . import UsageError


@dataclass(frozen=True)
class Method:
    """A clustering method: where its class is, which options it takes, which method it wraps."""

    path: str
    options: tuple[str, ...]
    wraps: str | None = None


SHARED = (
    "kernel", "gamma", "degree", "coef0", "n_components", "balance", "n_init", "max_iter", "seed",
    "n_jobs",
)  # fmt: skip
METHODS = {
    "auto": Method(
        "maxmargin:MaxMarginClustering",
        ("kernel", "balance", "n_init", "seed", "n_jobs", "max_samples", "time_budget"),
    ),
    "alternating": Method(
        "maxmargin:AlternatingMarginClustering", (*SHARED, "loss", "epsilon", "alpha")
    ),
    "least-squares": Method(
        "maxmargin:LeastSquaresMarginClustering", (*SHARED, "ridge", "search", "max_samples", "pca")
    ),
    "pairwise": Method(
        "maxmargin:PairwiseMarginClustering",
        (*SHARED, "alpha", "unlabeled_weight", "solver", "on_conflict"),
    ),
    "cutting-plane": Method(
        "maxmargin:CuttingPlaneMarginClustering",
        (*SHARED, "alpha", "size_entropy", "score_balance", "nesting"),
    ),
    "multiple-kernel": Method(
        "maxmargin:MultipleKernelMarginClustering",
        (
            "n_components",
            "balance",
            "n_init",
            "max_iter",
            "seed",
            "n_jobs",
            "alpha",
            "size_entropy",
            "score_balance",
            "weight_norm",
            "subset",
        ),
    ),
    "semidefinite": Method(
        "maxmargin:SemidefiniteMarginClustering",
        (
            *(name for name in SHARED if name != "n_init"),
            "alpha",
            "ridge",
            "relaxation",
            "size_penalty",
            "max_rows",
        ),
    ),
    "bisecting": Method("maxmargin:BisectingMarginClustering", ("seed",), wraps="alternating"),
}


def _number_or(*words: str) -> Callable[[str], float | str]:
    def convert(text: str) -> float | str:
        return text if text in words else float(text)

    convert.__name__ = f"number (or {', '.join(words)})"
    return convert


def positive(text: str) -> int:
    """Read a whole number above 0."""
    value = int(text)
    if value < 1:
        raise ValueError
    return value


positive.__name__ = "whole number above 0"

# What is not given here stays out of the constructor, so that each method keeps its own default.
OPTIONS: dict[str, dict[str, Any]] = {
    "kernel": {
        "choices": ["linear", "rbf", "poly", "sigmoid", "laplacian", "cosine"],
        "help": "how rows are compared (default: by the rows for auto and cutting-plane, else rbf)",
    },
    "gamma": {
        "type": _number_or("median"),
        "help": "width of the kernel: a number, or median (default: the method's own)",
    },
    "degree": {"type": int, "help": "degree of the poly kernel"},
    "coef0": {"type": float, "help": "constant of the poly and sigmoid kernels"},
    "n_components": {"type": positive, "help": "rank of the kernel approximation"},
    "ridge": {
        "type": float,
        "help": "regulariser of least-squares (default: 1) and semidefinite (default: 0.1)",
    },
    "relaxation": {
        "choices": ["generalized", "full"],
        "help": "relaxation of semidefinite (default: generalized; full needs scs)",
    },
    "size_penalty": {
        "type": float,
        "help": "how much semidefinite is for clusters of equal size (default: 10)",
    },
    "max_rows": {"type": positive, "help": "most rows that semidefinite takes (default: 2000)"},
    "search": {
        "choices": ["shaking", "steepest", "stochastic"],
        "help": "label search of least-squares (default: shaking)",
    },
    "max_samples": {
        "type": positive,
        "help": "most rows that auto and least-squares fit on (default: 4000)",
    },
    "time_budget": {
        "type": float,
        "help": "seconds that auto searches for (default: a fixed number of attempts)",
    },
    "pca": {"type": positive, "help": "reduce rows to this many principal components first"},
    "loss": {"choices": ["laplacian", "squared", "hinge"], "help": "loss (default: laplacian)"},
    "epsilon": {"type": float, "help": "width of the zone without loss (laplacian loss)"},
    "alpha": {
        "type": _number_or("auto", "cv"),
        "help": "strength of the regulariser: a number, auto, or cv (pairwise); default: the "
        "method's own",
    },
    "unlabeled_weight": {"type": float, "help": "weight of rows without links (pairwise)"},
    "solver": {"choices": ["bundle", "subgradient"], "help": "solver of pairwise"},
    "on_conflict": {
        "choices": ["raise", "soft"],
        "help": "refuse links that contradict each other, or let them be outvoted (pairwise)",
    },
    "size_entropy": {
        "type": _number_or("auto"),
        "help": "strength of the preference for even sizes (cutting-plane, multiple-kernel)",
    },
    "score_balance": {
        "type": float,
        "help": "largest difference of two clusters' mean scores (cutting-plane)",
    },
    "weight_norm": {
        "type": float,
        "help": "p >= 1 in sum beta^p <= 1 of multiple-kernel; 1 selects few kernels (default: 2)",
    },
    "subset": {"type": positive, "help": "rows that multiple-kernel fits on (default: all)"},
    "nesting": {
        "choices": ["labels", "paper"],
        "help": "order of cuts and labels of cutting-plane (default: labels)",
    },
    "balance": {
        "type": float,
        "help": "every cluster keeps at least this share of an even split, 0 to 1",
    },
    "n_init": {"type": positive, "help": "number of starts"},
    "max_iter": {"type": positive, "help": "most iterations of a start"},
    "seed": {"type": int, "default": 0, "help": "seed of the random numbers (default: 0)"},
    "n_jobs": {"type": int, "help": "threads; -1 uses all"},
}
_PARAMETER = {"seed": "random_state"}


def build_estimator(method: str, n_clusters: int | None, options: dict[str, Any]) -> Any:
    """Make the estimator of a method from the options given; refuse those that do not apply.

    Examples
    --------
    >>> from maxmargin.cli.methods import build_estimator
    >>> build_estimator("alternating", 3, {"kernel": "linear", "seed": 1}).n_clusters
    3
    """
    entry = METHODS[method]
    if n_clusters is None and method != "auto":
        raise UsageError(f"--method {method} needs -k, the number of clusters")
    inner = METHODS[entry.wraps].options if entry.wraps else ()
    for name in options:
        if name not in (*entry.options, *inner):
            raise UsageError(f"--{name.replace('_', '-')} does not apply to --method {method}")
    own = {_PARAMETER.get(name, name): options[name] for name in entry.options if name in options}
    if entry.wraps:
        inner_options = {name: value for name, value in options.items() if name in inner}
        own["estimator"] = build_estimator(entry.wraps, 2, inner_options)
    module, _, name = entry.path.partition(":")
    return getattr(import_module(module), name)(n_clusters=n_clusters, **own)
