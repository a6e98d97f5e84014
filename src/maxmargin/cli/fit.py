"""``maxmargin fit``: cluster the rows of a file."""

from __future__ import annotations

import argparse
import contextlib
import shlex
import sys
import time
import warnings
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from maxmargin._files import DataError, listed, plural

from . import UsageError, data
from .blocks import add_blocks, asked_for, fit_blocks
from .methods import METHODS, add_options, build_estimator, given_options, positive

SUMMARY = "cluster the rows of a file"
EXAMPLE = "maxmargin fit people.csv -k 2 --id-column name --out labels.csv --model people.skops"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments, the commonest first."""
    add = parser.add_argument
    chosen = "number of clusters (default: found by the density of the rows)"
    add("-k", "--n-clusters", type=positive, metavar="K", help=chosen)
    data.add_outputs(parser, "out", "model", "plot")
    data.add_data(parser)
    method = f"{', '.join(METHODS)} (default: auto, which needs no settings)"
    add("--method", choices=list(METHODS), default="auto", help=method, metavar="METHOD")
    add = parser.add_argument_group("what is known about the rows").add_argument
    data.add_known_labels(add)
    links = "must-links and cannot-links between rows, as label writes them (auto, pairwise)"
    add("--links", metavar="FILE", help=links)
    data.add_columns(parser)
    add_blocks(parser)
    add_options(parser)


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Cluster a file and write what was asked for."""
    data.check_outputs(args, "out", "model", "plot")
    estimator = build_estimator(args.method, args.n_clusters, given_options(args))
    start = time.perf_counter()
    if asked_for(args):
        rows, ids = fit_blocks(args, estimator), None
        more: dict[str, Any] = {"known_labels": {}}
        seconds = time.perf_counter() - start
        wrote = data.write_results(args, estimator, estimator.labels_, rows)
    else:
        rows, ids, seconds, wrote, more = _in_memory(args, estimator)
    # -1 stands for the exemplar of a cluster without rows.
    exemplars = [None if i < 0 else i for i in estimator.exemplar_indices_.tolist()]
    return {
        "method": args.method,
        "data": args.data,
        "n_rows": rows.shape[0],
        "n_columns": rows.shape[1],
        "seconds": seconds,
        "n_clusters": len(estimator.cluster_sizes_),
        "cluster_sizes": estimator.cluster_sizes_,
        "exemplars": exemplars if ids is None else [i if i is None else ids[i] for i in exemplars],
        "objective": estimator.objective_,
        "n_iter": estimator.n_iter_,
        "stop_reason": estimator.stop_reason_,
        **_about_certainty(estimator),
        **more,
        "wrote": wrote,
        **({} if args.out else {"labels": estimator.labels_}),
    }


def _in_memory(args: argparse.Namespace, estimator: Any) -> tuple:
    """Read all rows, fit and write; return rows, ids, time, files and what else is told."""
    import numpy as np

    from maxmargin._auto import FAIRLY_STABLE

    rows = data.read_data(args, estimator, args.partial_labels)
    partial, classes = _known_labels(rows, args.partial_labels, args.n_clusters)
    links = _links(args, rows)
    rows.warn()
    model = rows.pipeline(estimator)
    start = time.perf_counter()
    with data.compile_time() as compiled:
        _fit(model, estimator, rows.X, partial_labels=partial, constraints=links)
    seconds = time.perf_counter() - start
    if getattr(estimator, "stability_", 1.0) < FAIRLY_STABLE:
        what = f"the {len(estimator.cluster_sizes_)} clusters are not stable: parts of the rows"
        level = f"only to {estimator.stability_:.2f} (adjusted Rand index)"
        warnings.warn(f"{what} agree on them {level}", UserWarning, stacklevel=2)
    labels = estimator.labels_
    known = {name: int(labels[partial == code][0]) for code, name in enumerate(classes)}
    if classes:  # also names that are numbers, which the estimator does not keep
        estimator.known_names_ = np.asarray(classes)
    more: dict[str, Any] = {
        "columns": [asdict(column) for column in rows.columns],
        "known_labels": known,
        "compile_seconds": sum(compiled),
    }
    if rows.columns:
        from maxmargin.inspection import describe_clusters, explain_clusters

        table = explain_clusters(model, rows.X, labels=labels)
        more["descriptions"] = describe_clusters(model, rows.X, labels=labels, table=table)
        more["advice"] = [*_about_dates(table), *_about_hidden_clusters(args, rows, estimator)]
    return rows.X, rows.ids, seconds, data.write_results(args, model, labels, rows), more


def _about_dates(table: Any) -> Iterator[str]:
    """Say which date is the main difference of several clusters: often it is not what is sought."""
    from maxmargin.inspection import NOTABLE

    first = table[table["difference"].abs() >= NOTABLE].groupby("cluster").first()
    counts = first.loc[first["kind"] == "date", "feature"].value_counts()
    for name, count in counts[counts > 1].items():
        yield (
            f"The date {name!r} sets {count} clusters apart more than any other column; "
            f"to cluster without it, add --drop {shlex.quote(name)}."
        )


def _about_hidden_clusters(args: argparse.Namespace, rows: data.Rows, model: Any) -> Iterator[str]:
    """Say which dates and categories may hide clusters if one was found, and what others show."""
    from maxmargin._cluster_number import numbers_in_words

    chosen = args.method == "auto" and args.n_clusters is None and args.partial_labels is None
    if not chosen or len(model.cluster_sizes_) > 1:
        return
    used = [column for column in rows.columns if column.used]
    left_out: list[str] = []
    for kinds in ("date",), ("date", "category"):
        names = [column.name for column in used if column.kind in kinds]
        if names == left_out or len(names) == len(used):
            continue
        left_out = names
        choice = _number_without(rows, used, left_out, args.standardize)
        if choice.n_clusters > 1:
            yield (
                f"Without {_quoted(left_out)} the density of the rows shows "
                f"{numbers_in_words(choice.candidates)}; to cluster without, add --drop "
                f"{shlex.quote(','.join(left_out))}."
            )
            return
    if left_out:
        yield (
            "Dates and categories can hide clusters, but the density of the rows shows 1 cluster "
            f"also without {_quoted(left_out)}."
        )


def _number_without(rows: data.Rows, used: list[Any], names: list[str], standardize: bool) -> Any:
    """Choose the number of clusters as a fit without these columns does."""
    from maxmargin import choose_n_clusters

    rest = [column for column in used if column.name not in names]
    steps = data.prepared_by(rest, standardize)
    frame = rows.X[[column.name for column in rest]]
    X = data.plain_rows(frame) if steps is None else steps.fit_transform(frame)
    return choose_n_clusters(X, random_state=0)


def _quoted(names: list[str]) -> str:
    return listed(map(repr, names), "and")


def _known_labels(
    rows: data.Rows, column: str | None, n_clusters: int | None
) -> tuple[Any, tuple[str, ...]]:
    from maxmargin._findings import known_labels
    from maxmargin.io import read_labels

    if column is None:
        return None, ()
    found = known_labels(rows.labels, column, n_clusters)
    if found.level == "error":
        raise DataError(f"{rows.source}: {found.what}", found.remedy)
    return read_labels(rows.labels)


def _links(args: argparse.Namespace, rows: data.Rows) -> Any:
    from maxmargin import PairwiseConstraints
    from maxmargin._answers import read_answers

    if args.links is None:
        return None
    if args.method not in ("auto", "pairwise"):
        raise UsageError(f"--links does not apply to --method {args.method}; use pairwise")
    read_answers(args.links, ids=rows.ids, mark=data.checksum(args.data))  # of these rows?
    return PairwiseConstraints.load(args.links, rows.ids)


def _fit(model: Any, estimator: Any, X: Any, **known: Any) -> None:
    """Fit with a progress bar if a person watches; whatever prints goes to stderr."""
    from maxmargin import _callbacks

    prefix = "" if model is estimator else f"{model.steps[-1][0]}__"
    given = {f"{prefix}{name}": value for name, value in known.items() if value is not None}
    bar = _callbacks.progress_callbacks() if sys.stderr.isatty() else []
    if bar:
        estimator.set_callbacks(*bar)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            model.fit(X, **given)
    finally:
        if bar:
            estimator.set_callbacks()


def _about_certainty(estimator: Any) -> dict[str, Any]:
    """What was chosen, and how sure the answer is, for the method that tells."""
    import numpy as np

    k = len(estimator.cluster_sizes_)
    told: dict[str, Any] = {}
    if hasattr(estimator, "report_"):
        told["report"] = estimator.report_
    if hasattr(estimator, "stability_"):
        told["stability"] = data.comparing(k, estimator.stability_)
    if hasattr(estimator, "confidence_"):
        sums = np.bincount(estimator.labels_, estimator.confidence_, k)
        sizes = np.bincount(estimator.labels_, minlength=k)
        told["confidence"] = data.comparing(k, sums / np.maximum(sizes, 1))
    if hasattr(estimator, "is_outlier_"):
        told["n_outliers"] = int(estimator.is_outlier_.sum())
    return told


def tell(result: dict[str, Any]) -> Iterator[Any]:
    """Say what was found."""
    yield from data.told_columns(result.get("columns", []))
    compiled = result.get("compile_seconds", 0)
    once = f", {compiled:.1f} s of it compiling, once" if compiled >= 0.05 else ""
    yield (
        f"{result['method']}: {plural(result['n_rows'], 'row')}, "
        f"{plural(result['n_columns'], 'column')} -> "
        f"{plural(result['n_clusters'], 'cluster')} in {result['seconds']:.2f} s{once} "
        f"({result['stop_reason']} after {plural(result['n_iter'], 'iteration')})"
    )
    columns = {}
    if "confidence" in result and result["n_clusters"] > 1:
        pairs = zip(result["confidence"], result["cluster_sizes"])
        columns["confidence"] = [f"{level:.2f}" if size else "" for level, size in pairs]
    if result["n_clusters"] > 1:  # of a single cluster, no row is more certain than another
        columns["most certain row"] = ["" if i is None else str(i) for i in result["exemplars"]]
    yield from data.told_clusters(result, columns)
    yield from result.get("advice", [])
    yield from result.get("report", [])
    if result["wrote"]:
        yield data.told_files(result["wrote"])
    else:
        yield "nothing written: add --out labels.csv, --model model.skops or --plot picture.png"
