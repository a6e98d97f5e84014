"""``maxmargin fit``: cluster the rows of a file."""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
import warnings
from collections.abc import Iterator
from typing import Any

from . import UsageError
from .blocks import add_blocks, asked_for, fit_blocks
from .data import (
    add_data,
    add_out,
    check_outputs,
    named_rows,
    plural,
    reading,
    standardizer,
    told_files,
    write_results,
    writing,
)
from .methods import METHODS, OPTIONS, build_estimator, positive

SUMMARY = "cluster the rows of a file"
EXAMPLE = "maxmargin fit people.csv -k 2 --id-column name --out labels.csv --model people.skops"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_data(parser)
    parser.add_argument(
        "-k",
        "--n-clusters",
        type=positive,
        metavar="K",
        help="number of clusters (default: chosen by how stable they are)",
    )
    parser.add_argument(
        "--method",
        choices=list(METHODS),
        default="auto",
        help="clustering method (default: auto, which needs no settings)",
    )
    parser.add_argument(
        "--partial-labels",
        metavar="COLUMN",
        help="the column of DATA with known labels, kept fixed; empty, ? or -1 is unknown",
    )
    parser.add_argument(
        "--links",
        metavar="FILE",
        help="must-links and cannot-links between the rows, as label writes them (auto, pairwise)",
    )
    parser.add_argument(
        "--standardize", action="store_true", help="bring all columns to unit variance first"
    )
    for name, spec in OPTIONS.items():
        parser.add_argument(f"--{name.replace('_', '-')}", **spec)
    add_blocks(parser)
    add_out(parser)
    parser.add_argument("--model", metavar="FILE", help="save the model: .skops, .joblib")
    parser.add_argument("--plot", metavar="FILE", help="draw the clusters: .png, .pdf, .svg")


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Cluster a file and write what was asked for."""
    from sklearn.pipeline import make_pipeline

    from maxmargin.io import read_rows

    check_outputs(args, "out", "model", "plot")
    given = {name: getattr(args, name) for name in OPTIONS if getattr(args, name) is not None}
    estimator = build_estimator(args.method, args.n_clusters, given)
    if asked_for(args):
        return _in_blocks(args, estimator)
    table = read_rows(args.data, label_column=args.partial_labels, **reading(args))
    partial, classes = _known_labels(table, args.partial_labels)
    links = _links(args, table)
    X = named_rows(table)
    model = make_pipeline(standardizer(X), estimator) if args.standardize else estimator
    start = time.perf_counter()
    _fit(model, estimator, X, partial_labels=partial, constraints=links)
    seconds = time.perf_counter() - start
    _warn_if_unstable(estimator)
    labels = estimator.labels_
    return {
        "method": args.method,
        "data": table.source,
        "n_rows": table.X.shape[0],
        "n_columns": table.X.shape[1],
        "seconds": seconds,
        **_about_model(estimator, table.ids),
        "known_labels": {
            name: int(labels[partial == code][0]) for code, name in enumerate(classes)
        },
        "wrote": write_results(args, model, table, X, labels),
        **({} if args.out else {"labels": labels}),
    }


def _in_blocks(args: argparse.Namespace, estimator: Any) -> dict[str, Any]:
    """Cluster a file that need not fit into memory; labels are written without margins."""
    from maxmargin.io import write_labels
    from maxmargin.persistence import save_model

    start = time.perf_counter()
    rows = fit_blocks(args, estimator)
    seconds = time.perf_counter() - start
    with writing(args) as (to, wrote):
        if "out" in to:
            write_labels(to["out"], estimator.labels_)
        if "model" in to:
            save_model(estimator, to["model"])
    return {
        "method": args.method,
        "data": args.data,
        "n_rows": rows.shape[0],
        "n_columns": rows.shape[1],
        "seconds": seconds,
        **_about_model(estimator, None),
        "known_labels": {},
        "wrote": wrote,
        **({} if args.out else {"labels": estimator.labels_}),
    }


def _known_labels(table: Any, column: str | None) -> tuple[Any, tuple[str, ...]]:
    from maxmargin.io import DataError, read_labels

    if column is None:
        return None, ()
    partial, classes = read_labels(table.labels)
    if not classes:
        raise DataError(
            f"{table.source}: column {column!r} holds no known label",
            "Give at least one label, or leave --partial-labels out",
        )
    return partial, classes


def _links(args: argparse.Namespace, table: Any) -> Any:
    from maxmargin import PairwiseConstraints

    if args.links is None:
        return None
    if args.method not in ("auto", "pairwise"):
        raise UsageError(f"--links does not apply to --method {args.method}; use pairwise")
    return PairwiseConstraints.load(args.links)


def _fit(model: Any, estimator: Any, X: Any, **known: Any) -> None:
    """Fit with a progress bar where a person watches; whatever prints goes to stderr."""
    from maxmargin import _compat

    prefix = "" if model is estimator else f"{model.steps[-1][0]}__"
    given = {f"{prefix}{name}": value for name, value in known.items() if value is not None}
    bar = _compat.progress_callbacks() if sys.stderr.isatty() else []
    if bar:
        estimator.set_callbacks(*bar)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            model.fit(X, **given)
    finally:
        if bar:
            estimator.set_callbacks()


def _warn_if_unstable(estimator: Any) -> None:
    from maxmargin.max_margin import STABLE

    if getattr(estimator, "stability_", 1.0) < STABLE:
        warnings.warn(
            f"the {len(estimator.cluster_sizes_)} clusters are not stable: parts of the rows agree "
            f"on them only to {estimator.stability_:.2f} (adjusted Rand index)",
            UserWarning,
            stacklevel=2,
        )


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
        **_about_certainty(estimator),
    }


def _about_certainty(estimator: Any) -> dict[str, Any]:
    """What was chosen, and how sure the answer is, for the method that tells."""
    import numpy as np

    told: dict[str, Any] = {}
    if hasattr(estimator, "report_"):
        told["report"] = estimator.report_
    if hasattr(estimator, "confidence_"):
        sums = np.bincount(estimator.labels_, estimator.confidence_, len(estimator.cluster_sizes_))
        sizes = np.bincount(estimator.labels_, minlength=len(sums))
        told["confidence"] = sums / np.maximum(sizes, 1)
        told["stability"] = estimator.stability_
    return told


def tell(result: dict[str, Any]) -> Iterator[str]:
    """Say what was found."""
    yield (
        f"{result['method']}: {result['n_rows']:,} rows, {result['n_columns']:,} columns -> "
        f"{plural(result['n_clusters'], 'cluster')} in {result['seconds']:.2f} s "
        f"({result['stop_reason']} after {plural(result['n_iter'], 'iteration')})"
    )
    sure = result.get("confidence")
    yield f"  cluster      rows   share{'' if sure is None else '  confidence'}  most certain row"
    for j, (size, row) in enumerate(zip(result["cluster_sizes"], result["exemplars"])):
        level = "" if sure is None else f"{sure[j]:>12.2f}"
        yield f"  {j:>7}{size:>10,}{size / result['n_rows']:>8.1%}{level}  {row}"
    yield from result.get("report", [])
    yield f"objective {result['objective']:.6g}"
    for name, cluster in result["known_labels"].items():
        yield f"known label {name!r} is cluster {cluster}"
    if result["wrote"]:
        yield told_files(result["wrote"])
    else:
        yield "nothing written: add --out labels.csv, --model model.skops or --plot picture.png"
