"""The command line: ``maxmargin demo | fit | predict | check | info``.

A command is a row of `COMMANDS`: it takes the parsed arguments, returns a dict (what ``--json``
prints) and has a function that tells the same to a person. Exit codes: 0 ok, 1 it ran but failed
(bad data, a fit that cannot be done), 2 bad usage (unknown options, impossible combinations), 130
interrupted. Everything heavy is imported inside the functions, so that ``--help`` is immediate.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib import import_module
from itertools import combinations
from pathlib import Path
from typing import Any

OK, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130
PICTURE_SUFFIXES = (".png", ".pdf", ".svg")


class UsageError(Exception):
    """The command line itself is wrong; exit code 2."""


# ----------------------------------------------------------------------
# Methods and their options


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
    "alternating": Method(
        "maxmargin:AlternatingMarginClustering", (*SHARED, "loss", "epsilon", "alpha")
    ),
    "bisecting": Method("maxmargin:BisectingMarginClustering", ("seed",), wraps="alternating"),
}


def _number_or(*words: str) -> Callable[[str], float | str]:
    def convert(text: str) -> float | str:
        return text if text in words else float(text)

    convert.__name__ = f"number (or {', '.join(words)})"
    return convert


def _count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise ValueError
    return value


_count.__name__ = "whole number above 0"

# What is not given here stays out of the constructor, so that each method keeps its own default.
OPTIONS: dict[str, dict[str, Any]] = {
    "kernel": {
        "choices": ["linear", "rbf", "poly", "sigmoid", "laplacian", "cosine"],
        "help": "how rows are compared (default: rbf)",
    },
    "gamma": {
        "type": _number_or("median"),
        "help": "width of the kernel: a number, or median (default)",
    },
    "degree": {"type": int, "help": "degree of the poly kernel"},
    "coef0": {"type": float, "help": "constant of the poly and sigmoid kernels"},
    "n_components": {"type": _count, "help": "rank of the kernel approximation"},
    "loss": {"choices": ["laplacian", "squared", "hinge"], "help": "loss (default: laplacian)"},
    "epsilon": {"type": float, "help": "width of the zone without loss (laplacian loss)"},
    "alpha": {
        "type": _number_or("auto"),
        "help": "strength of the regulariser: a number or auto (default)",
    },
    "balance": {
        "type": float,
        "help": "every cluster keeps at least this share of an even split, 0 to 1",
    },
    "n_init": {"type": _count, "help": "number of starts"},
    "max_iter": {"type": _count, "help": "most iterations of a start"},
    "seed": {"type": int, "default": 0, "help": "seed of the random numbers (default: 0)"},
    "n_jobs": {"type": int, "help": "threads; -1 uses all"},
}
_PARAMETER = {"seed": "random_state"}


def build_estimator(method: str, n_clusters: int, options: dict[str, Any]) -> Any:
    """Make the estimator of a method from the options given; refuse those that do not apply.

    Examples
    --------
    >>> from maxmargin.cli import build_estimator
    >>> build_estimator("alternating", 3, {"kernel": "linear", "seed": 1}).n_clusters
    3
    """
    entry = METHODS[method]
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


# ----------------------------------------------------------------------
# fit


def add_fit(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``fit``."""
    _add_data(parser)
    parser.add_argument(
        "-k", "--n-clusters", type=_count, required=True, metavar="K", help="number of clusters"
    )
    parser.add_argument(
        "--method",
        choices=list(METHODS),
        default="alternating",
        help="clustering method (default: alternating)",
    )
    parser.add_argument(
        "--partial-labels",
        metavar="COLUMN|FILE",
        help="known labels, kept fixed: a column of DATA, or a file with a column "
        "'label' (and the id column); empty, ? or -1 is unknown",
    )
    parser.add_argument(
        "--standardize", action="store_true", help="bring all columns to unit variance first"
    )
    for name, spec in OPTIONS.items():
        parser.add_argument(f"--{name.replace('_', '-')}", **spec)
    _add_out(parser)
    parser.add_argument("--model", metavar="FILE", help="save the model: .skops, .joblib")
    parser.add_argument("--plot", metavar="FILE", help="draw the clusters: .png, .pdf, .svg")


def run_fit(args: argparse.Namespace) -> dict[str, Any]:
    """Cluster a file and write what was asked for."""
    _check_outputs(args, "out", "model", "plot")
    given = {name: getattr(args, name) for name in OPTIONS if getattr(args, name) is not None}
    estimator = build_estimator(args.method, args.n_clusters, given)
    table, partial, classes = _read_with_labels(args)
    model = _standardized(estimator, table.X) if args.standardize else estimator
    start = time.perf_counter()
    _fit(model, estimator, _named(table), partial)
    seconds = time.perf_counter() - start
    result = {
        "method": args.method,
        "data": table.source,
        "n_rows": table.X.shape[0],
        "n_columns": table.X.shape[1],
        "seconds": seconds,
        **_about_model(estimator, table.ids),
        "known_labels": {
            name: int(estimator.labels_[partial == code][0]) for code, name in enumerate(classes)
        },
    }
    wrote = _write_results(args, model, table, estimator.labels_)
    if args.out is None:
        result["labels"] = estimator.labels_
    return result | {"wrote": wrote}


def _standardized(estimator: Any, X: Any) -> Any:
    from scipy import sparse
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(with_mean=not sparse.issparse(X)), estimator)


def _fit(model: Any, estimator: Any, X: Any, partial: Any) -> None:
    """Fit with a progress bar where a person watches; whatever prints goes to stderr."""
    prefix = "" if model is estimator else f"{model.steps[-1][0]}__"
    known = {} if partial is None else {f"{prefix}partial_labels": partial}
    bar = import_module("maxmargin._compat").progress_callbacks() if sys.stderr.isatty() else []
    if bar and hasattr(estimator, "set_callbacks"):
        estimator.set_callbacks(*bar)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            model.fit(X, **known)
    finally:
        if bar and hasattr(estimator, "set_callbacks"):
            estimator.set_callbacks()


def _read_with_labels(args: argparse.Namespace) -> tuple[Any, Any, tuple[str, ...]]:
    """The rows, their known labels as numbers, and the names of these."""
    from maxmargin.io import read_labels, read_rows

    known = args.partial_labels
    in_file = known is not None and Path(known).exists()
    table = read_rows(args.data, label_column=None if in_file else known, **_reading(args))
    if known is None:
        return table, None, ()
    values: Any = _labels_of_file(known, table, args.id_column) if in_file else table.labels
    partial, classes = read_labels(values)
    if not classes:
        _fail(f"{known} holds no known label", "Give at least one label, or leave the option out")
    return table, partial, classes


def _labels_of_file(path: str, table: Any, id_column: str | None) -> list[Any]:
    from maxmargin.io import read_rows

    known: Any = read_rows(path, label_column="label", id_column=id_column, columns=())
    if id_column is None:
        n_known, n_rows = len(known.labels), table.X.shape[0]
        if n_known != n_rows:
            _fail(
                f"{path} has {n_known} labels, {table.source} has {n_rows} rows",
                "Give one for each row, or match them by id with --id-column",
            )
        return known.labels.tolist()
    label_of = dict(zip(known.ids.tolist(), known.labels.tolist()))
    strangers = set(label_of) - set(table.ids.tolist())
    if strangers:
        _fail(f"{path} has ids that {table.source} has not, for example {min(strangers)!r}",
              "Use the same names in both")  # fmt: skip
    return [label_of.get(name) for name in table.ids.tolist()]


def _about_model(estimator: Any, ids: Any) -> dict[str, Any]:
    # -1 stands for the exemplar of a cluster without rows.
    exemplars = [None if i < 0 else i for i in estimator.exemplar_indices_.tolist()]
    return {
        "n_clusters": len(estimator.cluster_sizes_),
        "cluster_sizes": estimator.cluster_sizes_,
        "exemplars": exemplars if ids is None else [i if i is None else ids[i] for i in exemplars],
        "objective": estimator.objective_,
        "n_iter": estimator.n_iter_,
        "stop_reason": estimator.stop_reason_,
    }


def _write_results(args: argparse.Namespace, model: Any, table: Any, labels: Any) -> dict[str, str]:
    from maxmargin.display import row_margins
    from maxmargin.io import write_labels
    from maxmargin.persistence import save_model

    if args.out:
        margins = row_margins(model.decision_function(_named(table)))
        write_labels(args.out, labels, margins=margins, ids=table.ids, id_name=_id_name(args))
    if args.model:
        save_model(model, args.model)
    if args.plot:
        _write_plot(args.plot, model, _named(table), labels)
    asked = {"labels": args.out, "model": args.model, "picture": args.plot}
    return {what: path for what, path in asked.items() if path}


def _write_plot(path: str | Path, model: Any, X: Any, labels: Any) -> None:
    from maxmargin.display import plot_clusters
    from maxmargin.io import atomic_write

    figure = _figure(6.4, 4.8)
    plot_clusters(model, X, labels, ax=figure.subplots())
    with atomic_write(path) as partial:
        figure.savefig(partial, dpi=150)


def _figure(width: float, height: float) -> Any:
    """A figure of its own: no window, no global state."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def tell_fit(result: dict[str, Any]) -> Iterator[str]:
    """Say what ``fit`` found."""
    yield (
        f"{result['method']}: {result['n_rows']:,} rows, {result['n_columns']:,} columns -> "
        f"{_plural(result['n_clusters'], 'cluster')} in {result['seconds']:.2f} s "
        f"({result['stop_reason']} after {_plural(result['n_iter'], 'iteration')})"
    )
    yield "  cluster      rows   share  most certain row"
    for j, (size, row) in enumerate(zip(result["cluster_sizes"], result["exemplars"])):
        yield f"  {j:>7}{size:>10,}{size / result['n_rows']:>8.1%}  {row}"
    yield f"objective {result['objective']:.6g}"
    for name, cluster in result["known_labels"].items():
        yield f"known label {name!r} is cluster {cluster}"
    yield _told_files(result["wrote"]) or (
        "nothing written: add --out labels.csv, --model model.skops or --plot picture.png"
    )


# ----------------------------------------------------------------------
# predict


def add_predict(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``predict``."""
    parser.add_argument("model", metavar="MODEL", help="a model saved by fit --model")
    _add_data(parser)
    _add_out(parser)


def run_predict(args: argparse.Namespace) -> dict[str, Any]:
    """Put new rows into the clusters of a saved model."""
    from maxmargin.display import row_margins
    from maxmargin.io import read_rows, write_labels
    from maxmargin.persistence import load_model

    _check_outputs(args, "out")
    model = load_model(args.model)
    names = getattr(model, "feature_names_in_", None)
    table = read_rows(
        args.data, columns=names, n_features=getattr(model, "n_features_in_", None),
        **_reading(args),
    )  # fmt: skip
    X = table.X if names is None else _named(table)
    labels, margins = model.predict(X), row_margins(model.decision_function(X))
    result = {"data": table.source, "model": args.model, "n_rows": len(labels)}
    written: dict[str, Any] = {"margins": margins, "ids": table.ids, "id_name": _id_name(args)}
    if args.out:
        write_labels(args.out, labels, **written)
        return result | {"wrote": {"labels": args.out}}
    return result | {"wrote": {}, "labels": labels, **written}


def tell_predict(result: dict[str, Any]) -> Iterator[str]:
    """Say what ``predict`` wrote, or print the labels as csv."""
    if result["wrote"]:
        yield f"{result['n_rows']:,} rows; {_told_files(result['wrote'])}"
        return
    import io

    from maxmargin.io import write_labels

    text = io.StringIO()
    keys = ("labels", "margins", "ids", "id_name")
    write_labels(text, **{key: result[key] for key in keys})
    yield text.getvalue().rstrip("\n")


# ----------------------------------------------------------------------
# check


def add_check(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``check``."""
    _add_data(parser)
    parser.add_argument(
        "-k", "--n-clusters", type=_count, metavar="K", help="number of clusters wanted"
    )


def run_check(args: argparse.Namespace) -> dict[str, Any]:
    """Say what is wrong with a file."""
    from maxmargin.io import inspect_rows

    found = inspect_rows(args.data, n_clusters=args.n_clusters, **_reading(args))
    findings = [asdict(finding) for finding in found.findings]
    result = {
        "ok": found.usable,
        "data": found.source,
        "format": found.format,
        "n_rows": found.n_rows,
        "n_columns": found.n_columns,
        "findings": findings,
    }
    if found.n_rows and found.n_columns:
        findings += _about_memory(found.n_rows, found.n_columns, result)
    return result


def _about_memory(n_rows: int, n_columns: int, result: dict[str, Any]) -> list[dict[str, str]]:
    """Add what a fit would need to the result; a remark where the machine has less."""
    need = int(build_estimator("alternating", 2, {}).estimate_memory(n_rows, n_columns))
    have = import_module("maxmargin._base")._available_memory()
    result |= {"memory_needed": need, "memory_available": have}
    if need <= have:
        return []
    return [{
        "level": "warning",
        "what": f"a fit would need about {_bytes(need)}, {_bytes(have)} are free",
        "remedy": "Use the linear kernel or a smaller --n-components, or fit a part of the rows",
    }]  # fmt: skip


def tell_check(result: dict[str, Any]) -> Iterator[str]:
    """Say what ``check`` found."""
    if result["format"] != "unknown":
        size = f"{_plural(result['n_rows'], 'row')}, {_plural(result['n_columns'], 'column')}"
        yield f"{result['data']}: {size} of numbers, read as {result['format']}"
    for finding in result["findings"]:
        yield f"  {finding['level']}: {finding['what']}"
        if finding["remedy"]:
            yield f"    what to do: {finding['remedy']}"
    if result.get("memory_needed"):
        yield f"  a fit needs about {_bytes(result['memory_needed'])} of memory"
    yield "usable" if result["ok"] else "not usable as it is"


# ----------------------------------------------------------------------
# info


def add_info(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``info``."""


def run_info(args: argparse.Namespace) -> dict[str, Any]:
    """Collect what a bug report needs."""
    import platform

    import numba
    from threadpoolctl import threadpool_info

    from maxmargin.persistence import package_version

    numba_config: Any = numba.config
    libraries = ("numpy", "scipy", "scikit-learn", "numba")
    return {
        "maxmargin": package_version("maxmargin"),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "libraries": {name: package_version(name) for name in libraries},
        "extras": _extras(),
        "processors": os.cpu_count(),
        "numba_threads": numba_config.NUMBA_NUM_THREADS,
        "blas_threads": {i["internal_api"]: i["num_threads"] for i in threadpool_info()},
        "numba_cache": numba_config.CACHE_DIR or "in __pycache__ beside the package",
        "gpu": _gpu(),
    }


def _extras() -> dict[str, dict[str, str | None]]:
    """The optional packages by extra, as the package's own metadata names them."""
    import re
    from importlib.metadata import PackageNotFoundError, requires

    from maxmargin.persistence import package_version

    extras: dict[str, dict[str, str | None]] = {}
    with contextlib.suppress(PackageNotFoundError):
        for line in requires("maxmargin") or ():
            match = re.match(r"([\w.-]+).*extra == ['\"](\w+)['\"]", line)
            if match and match[2] not in {"docs", "test", "lint"} and match[1] != "maxmargin":
                extras.setdefault(match[2], {})[match[1]] = package_version(match[1])
    return extras


def _gpu() -> str | None:
    try:
        import torch
    except ImportError:
        return None
    return torch.cuda.get_device_name() if torch.cuda.is_available() else None


def tell_info(result: dict[str, Any]) -> Iterator[str]:
    """Say what ``info`` collected."""
    yield f"maxmargin {result['maxmargin'] or '(not installed)'}, Python {result['python']}"
    yield result["platform"]
    yield ", ".join(f"{name} {version}" for name, version in result["libraries"].items())
    for extra, packages in result["extras"].items():
        told = ", ".join(f"{name} {version or 'missing'}" for name, version in packages.items())
        hint = "" if all(packages.values()) else f'  (pip install "maxmargin[{extra}]")'
        yield f"  {extra}: {told}{hint}"
    blas = ", ".join(f"{name} {count}" for name, count in result["blas_threads"].items())
    yield f"{result['processors']} processors; threads: numba {result['numba_threads']}, {blas}"
    yield f"numba cache: {result['numba_cache']}"
    yield f"GPU: {result['gpu'] or 'none in use (no torch with CUDA)'}"


# ----------------------------------------------------------------------
# Parts of several commands


def _add_data(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "data", metavar="DATA", help="csv, tsv, txt (also .gz), parquet, npy, npz or svmlight file"
    )
    parser.add_argument("--id-column", metavar="NAME", help="the column that names the rows")
    parser.add_argument(
        "--drop", metavar="NAME,...", action="append", default=[], help="columns to leave out"
    )
    parser.add_argument(
        "--header",
        action=argparse.BooleanOptionalAction,
        help="whether the first line of a csv file holds names (default: look)",
    )
    parser.add_argument(
        "--format",
        choices=["csv", "parquet", "npy", "npz", "svmlight"],
        help="how to read DATA (default: by its name)",
    )


def _add_out(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--out",
        metavar="FILE",
        help="write the cluster and margin of each row: .csv, .parquet, .npy",
    )


def _reading(args: argparse.Namespace) -> dict[str, Any]:
    return {
        "id_column": args.id_column,
        "drop": [name for text in args.drop for name in text.split(",") if name],
        "header": args.header,
        "format": args.format,
    }


def _id_name(args: argparse.Namespace) -> str:
    return args.id_column or "id"


def _named(table: Any) -> Any:
    """The rows with their column names, so that a model remembers them; needs pandas."""
    if table.column_names is None:
        return table.X
    try:
        import pandas as pd
    except ImportError:
        return table.X
    return pd.DataFrame(table.X, columns=list(table.column_names), copy=False)


def _check_outputs(args: argparse.Namespace, *names: str) -> None:
    """Refuse outputs that cannot be written or would destroy an input, before any work is done."""
    from maxmargin.io import LABEL_SUFFIXES, DataError, check_suffix, check_writable
    from maxmargin.persistence import MODEL_SUFFIXES

    suffixes = {"out": LABEL_SUFFIXES, "model": MODEL_SUFFIXES, "plot": PICTURE_SUFFIXES}
    inputs = [args.data, getattr(args, "partial_labels", None)]
    if "model" not in names:
        inputs.append(args.model)
    taken = {Path(path).resolve(): path for path in inputs if path}
    for name in names:
        path = getattr(args, name)
        if path is None:
            continue
        try:
            check_suffix(path, suffixes[name])
            check_writable(path)
        except DataError as error:
            raise UsageError(f"--{name} {error}") from error
        if Path(path).resolve() in taken:
            raise UsageError(f"--{name} {path} would overwrite {taken[Path(path).resolve()]}")
        taken[Path(path).resolve()] = f"what --{name} writes"
    if getattr(args, "plot", None):
        _need("matplotlib", "--plot", "plot")
    if "model" in names and str(args.model).endswith(".skops"):
        _need("skops", "--model with .skops", "io")


def _need(package: str, option: str, extra: str) -> None:
    from importlib.util import find_spec

    if find_spec(package) is None:
        _fail(f"{option} needs {package}", f'Install it: pip install "maxmargin[{extra}]"')


def _fail(what: str, remedy: str) -> None:
    from maxmargin.io import DataError

    raise DataError(what, remedy)


def _told_files(wrote: dict[str, str]) -> str:
    return "wrote " + ", ".join(f"{path} ({what})" for what, path in wrote.items()) if wrote else ""


def _plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def _bytes(count: float) -> str:
    units = ["bytes", "KB", "MB", "GB", "TB"]
    while count >= 1000 and len(units) > 1:
        count, units = count / 1000, units[1:]
    return f"{count:.3g} {units[0]}"


# ----------------------------------------------------------------------
# demo


def add_demo(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``demo``."""
    parser.add_argument(
        "--out",
        metavar="FOLDER",
        default="maxmargin-demo",
        help="where to write (default: maxmargin-demo)",
    )


DIGITS = tuple(range(10))
# Two size floors: the default, and the one that says what is known of these data, that both
# clusters are about equally large.
FLOORS: dict[str, dict[str, Any]] = {"balance=0.7": {}, "balance=0.94": {"balance": 0.94}}
STARTS: dict[str, dict[str, Any]] = {
    "default start": {"balance": 0.94},
    "100 random starts": {"balance": 0.94, "init": "random", "n_init": 100},
}


def run_demo(args: argparse.Namespace) -> dict[str, Any]:
    """Compare with k-means on data that comes with scikit-learn.

    All 45 pairs of digits are shown, not the ones that look best.
    """
    from sklearn.datasets import load_digits, make_circles

    folder = Path(args.out)
    folder.mkdir(parents=True, exist_ok=True)
    digits = load_digits()
    with contextlib.redirect_stdout(sys.stderr):
        _compare("compile", digits.data[:60], digits.target[:60] % 2, FLOORS)
        pairs = [
            _compare(f"{a}-{b}", *_digit_pair(digits, a, b), FLOORS)
            for a, b in combinations(DIGITS, 2)
        ]
        clouds = _compare("clouds", *_clouds(), FLOORS)
        rings = make_circles(400, noise=0.06, factor=0.45, random_state=0)
        ring = _compare("rings", rings[0], rings[1], STARTS)
    shown = {"3-8": _digit_pair(digits, 3, 8)[0], "rings": rings[0]}
    drawn = [(run["model"], shown[run["name"]]) for run in (ring, *pairs) if run["name"] in shown]
    wrote = _write_demo(folder, drawn, pairs)
    runs = {
        "All 45 pairs of handwritten digits (mean of 45 fits, sum of their times)": pairs,
        "Two clouds of different width in 20 dimensions": [clouds],
        "Two rings, one around the other": [ring],
    }
    told = {title: [_without_model(run) for run in group] for title, group in runs.items()}
    return {"results": told, "wrote": wrote}


def _without_model(run: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in run.items() if key != "model"}


def _digit_pair(digits: Any, a: int, b: int) -> tuple[Any, Any]:
    chosen = (digits.target == a) | (digits.target == b)
    return digits.data[chosen], (digits.target[chosen] == b).astype(int)


def _clouds(n_rows: int = 500, n_columns: int = 20) -> tuple[Any, Any]:
    """Breiman's ringnorm: a wide normal cloud around a narrow one."""
    import numpy as np

    rng = np.random.default_rng(0)
    wide = 2 * rng.normal(size=(n_rows, n_columns))
    narrow = rng.normal(size=(n_rows, n_columns)) + 2 / np.sqrt(n_columns)
    return np.concatenate([wide, narrow]), np.repeat([0, 1], n_rows)


def _compare(name: str, X: Any, truth: Any, variants: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Accuracy, Rand index and time of k-means and of variants of ours, each on one thread."""
    from sklearn.cluster import KMeans
    from threadpoolctl import threadpool_limits

    from maxmargin import AlternatingMarginClustering
    from maxmargin.metrics import adjusted_rand_score, clustering_accuracy

    models = {"k-means": KMeans(2, n_init=10, random_state=0)} | {
        f"maxmargin, {variant}": AlternatingMarginClustering(2, random_state=0, **options)
        for variant, options in variants.items()
    }
    methods = {}
    for method, model in models.items():
        start = time.perf_counter()
        with threadpool_limits(1):
            labels = model.fit(X).labels_
        methods[method] = {
            "accuracy": clustering_accuracy(truth, labels),
            "adjusted_rand": adjusted_rand_score(truth, labels),
            "seconds": time.perf_counter() - start,
        }
    return {"name": name, "methods": methods, "model": model}


def _write_demo(folder: Path, drawn: list[Any], pairs: list[dict[str, Any]]) -> dict[str, str]:
    """Write data, labels and model of one pair (3 and 8, the first in the paper), and a picture."""
    from importlib.util import find_spec

    from maxmargin.display import row_margins
    from maxmargin.io import atomic_write, write_labels
    from maxmargin.persistence import save_model

    model, rows = drawn[-1]
    ending = "skops" if find_spec("skops") else "joblib"
    wrote = {
        "data": folder / "digits-3-8.csv",
        "labels": folder / "digits-3-8-labels.csv",
        "model": folder / f"digits-3-8.{ending}",
    }
    with atomic_write(wrote["data"]) as partial:
        header = ",".join(f"pixel{j}" for j in range(rows.shape[1]))
        lines = (",".join(f"{value:g}" for value in row) for row in rows.tolist())
        partial.write_text("\n".join([header, *lines]) + "\n", encoding="utf-8")
    margins = row_margins(model.decision_function(rows))
    write_labels(wrote["labels"], model.labels_, margins=margins)
    save_model(model, wrote["model"])
    if find_spec("matplotlib"):
        wrote["picture"] = folder / "demo.png"
        _draw_demo(wrote["picture"], drawn, pairs)
    return {what: str(path) for what, path in wrote.items()}


def _draw_demo(path: Path, drawn: list[Any], pairs: list[dict[str, Any]]) -> None:
    from maxmargin.display import plot_clusters, plot_comparison
    from maxmargin.io import atomic_write

    figure = _figure(13.5, 4.6)
    axes = figure.subplots(1, 3)
    for ax, (model, X), title in zip(axes, drawn, ("two rings", "handwritten 3 and 8")):
        plot_clusters(model, X, ax=ax).set_title(title, pad=34)
    theirs, ours = (
        [1 - pair["methods"][method]["accuracy"] for pair in pairs]
        for method in ("k-means", "maxmargin, balance=0.94")
    )
    plot_comparison(theirs, ours, [pair["name"] for pair in pairs], axes[2])
    axes[2].set_title("error on all 45 pairs of digits", pad=34)
    with atomic_write(path) as partial:
        figure.savefig(partial, dpi=120)


def tell_demo(result: dict[str, Any]) -> Iterator[str]:
    """Say what ``demo`` found."""
    for title, runs in result["results"].items():
        yield f"{title}:"
        against = "  better / worse than k-means" if len(runs) > 1 else ""
        yield f"  {'':<30}accuracy  Rand index      time{against}"
        yield from (_told_row(method, runs) for method in runs[0]["methods"])
    yield "balance=0.94 says that both clusters are about equally large; k-means cannot be told so."
    yield from (f"wrote {path} ({what})" for what, path in result["wrote"].items())
    if "picture" not in result["wrote"]:
        yield 'no picture: pip install "maxmargin[plot]"'
    yield f"next: maxmargin fit {result['wrote']['data']} -k 2 --out labels.csv"


def _told_row(method: str, runs: list[dict[str, Any]]) -> str:
    mine, other = ([run["methods"][name] for run in runs] for name in (method, "k-means"))
    accuracy = sum(run["accuracy"] for run in mine) / len(mine)
    rand = sum(run["adjusted_rand"] for run in mine) / len(mine)
    seconds = sum(run["seconds"] for run in mine)
    better = sum(a["accuracy"] > b["accuracy"] for a, b in zip(mine, other))
    worse = sum(a["accuracy"] < b["accuracy"] for a, b in zip(mine, other))
    against = "" if method == "k-means" or len(runs) == 1 else f"  {better} / {worse}"
    return f"  {method:<30}{accuracy:>8.1%}{rand:>12.3f}{seconds:>8.2f} s{against}"


# ----------------------------------------------------------------------
# The program


@dataclass(frozen=True)
class Command:
    """A command: its help, its arguments, what it does and how it tells."""

    summary: str
    example: str
    add: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], dict[str, Any]]
    tell: Callable[[dict[str, Any]], Iterator[str]]


COMMANDS = {
    "demo": Command(
        "cluster data that comes with scikit-learn and compare with k-means",
        "maxmargin demo --out demo",
        add_demo, run_demo, tell_demo,
    ),
    "fit": Command(
        "cluster the rows of a file",
        "maxmargin fit people.csv -k 2 --id-column name --out labels.csv --model people.skops",
        add_fit, run_fit, tell_fit,
    ),
    "predict": Command(
        "put the rows of a file into the clusters of a saved model",
        "maxmargin predict people.skops new.csv --id-column name --out new-labels.csv",
        add_predict, run_predict, tell_predict,
    ),
    "check": Command(
        "say what is wrong with a file, and what to do about it",
        "maxmargin check people.csv -k 2",
        add_check, run_check, tell_check,
    ),
    "info": Command(
        "versions, extras, threads, GPU: what a bug report needs",
        "maxmargin info --json",
        add_info, run_info, tell_info,
    ),
}  # fmt: skip


class _Parser(argparse.ArgumentParser):
    """A parser whose complaints go through the same door as all others."""

    def error(self, message: str):
        raise UsageError(f"{message} (see {self.prog} --help)")


def make_parser() -> argparse.ArgumentParser:
    """Build the parser of all commands.

    Examples
    --------
    >>> from maxmargin.cli import make_parser
    >>> make_parser().parse_args(["fit", "a.csv", "-k", "3"]).n_clusters
    3
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
            help=command.summary,
            description=command.summary[0].upper() + command.summary[1:] + ".",
            epilog=f"Example:\n  {command.example}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        command.add(sub)
        sub.add_argument("--json", action="store_true", help="print one JSON object, nothing else")
    return parser


def main(argv: list[str] | None = None) -> int:
    """Run a command and return its exit code.

    Parameters
    ----------
    argv : list of str, default=None
        The arguments; None takes those of the process.

    Returns
    -------
    int
        0 ok, 1 failed, 2 bad usage, 130 interrupted.

    Examples
    --------
    >>> from maxmargin.cli import main
    >>> main(["fit", "no-such-file.csv", "-k", "2"])
    1
    """
    argv = sys.argv[1:] if argv is None else argv
    with _warnings_in_one_line() as warned:
        try:
            code, result, lines = _run(argv)
        except KeyboardInterrupt:
            code, result, lines = INTERRUPTED, {"error": "interrupted"}, ()
        except UsageError as error:
            code, result, lines = USAGE, {"error": str(error)}, ()
        except (ValueError, OSError, ImportError, MemoryError) as error:
            code, result, lines = FAILED, {"error": str(error) or type(error).__name__}, ()
        except Exception as error:
            traceback.print_exc()
            what = f"{type(error).__name__}: {error} (this is a bug in maxmargin; please report it)"
            code, result, lines = FAILED, {"error": what}, ()
    if "error" in result:
        print(f"maxmargin: {' '.join(result['error'].split())}", file=sys.stderr)
    with _pipe_may_close():
        if "--json" in argv:
            head = {"command": next(iter(argv), None), "ok": code == OK}
            print(json.dumps(_plain(head | result | {"warnings": warned}), allow_nan=False))
        else:
            for line in lines:
                print(line)
        sys.stdout.flush()
    return code


def _run(argv: list[str]) -> tuple[int, dict[str, Any], Any]:
    """Exit code, result and lines to tell; nothing is printed before all of it has worked."""
    parser = make_parser()
    try:
        args = parser.parse_args(argv)
    except SystemExit as done:
        return int(done.code or 0), {}, ()
    if args.version:
        from maxmargin.persistence import package_version

        return OK, {}, [f"maxmargin {package_version('maxmargin')}"]
    if args.command is None:
        raise UsageError(f"a command is needed: {', '.join(COMMANDS)} (see maxmargin --help)")
    command = COMMANDS[args.command]
    result = command.run(args)
    return OK if result.get("ok", True) else FAILED, result, list(command.tell(result))


@contextlib.contextmanager
def _warnings_in_one_line() -> Iterator[list[str]]:
    seen: list[str] = []

    def show(message, category, filename, lineno, file=None, line=None):
        text = " ".join(str(message).split())
        seen.append(text)
        print(f"maxmargin: warning: {text}", file=sys.stderr)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield seen


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
