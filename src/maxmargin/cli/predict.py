"""``maxmargin predict``: put the rows of a file into the clusters of a saved model."""

from __future__ import annotations

import argparse
import io
import warnings
from collections.abc import Iterator
from typing import Any

from maxmargin._files import plural

from . import data

SUMMARY = "put the rows of a file into the clusters of a saved model"
EXAMPLE = "maxmargin predict people.skops new.csv --id-column name --out new-labels.csv"
MANY_OUTLIERS = 0.2  # share of the rows that is suspicious


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("model", metavar="MODEL", help="a model saved by fit --model")
    data.add_data(parser)
    data.add_outputs(parser, "out")


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Put new rows into the clusters of a saved model."""
    import numpy as np

    from maxmargin.display import scored_rows
    from maxmargin.io import write_labels
    from maxmargin.persistence import load_model

    data.check_outputs(args, "out")
    model = load_model(args.model)
    rows = data.new_rows(args, model)
    scores, certainty = scored_rows(model, rows.X)
    labels = scores.argmax(axis=1)
    beside = data.label_columns(model, labels, rows, scores, certainty)
    result = {
        "data": rows.source,
        "model": args.model,
        "n_rows": len(labels),
        "known_labels": {name: j for j, name in enumerate(data.known_names(model))},
        "cluster_sizes": np.bincount(labels, minlength=scores.shape[1]),
    }
    if "outliers" in certainty:
        result["n_outliers"] = int(certainty["outliers"].sum())
        _warn_of_outliers(args.data, model, result["n_outliers"], len(labels))
    if args.out:
        write_labels(args.out, labels, **beside)
        return result | {"wrote": {"labels": args.out}}
    return result | {"wrote": {}, "labels": labels, **beside}


def _warn_of_outliers(source: str, model: Any, found: int, n_rows: int) -> None:
    """Warn if far more rows are outliers than the model's level says."""
    from maxmargin._steps import last_step

    expected = last_step(model).outlier_level * n_rows
    if found > max(1, n_rows * MANY_OUTLIERS, 2 * expected):
        what = f"{found:,} of {n_rows:,} rows are outliers (about {expected:,.0f} are expected)"
        asked = f"does {source} have the same columns in the same units as the fit?"
        warnings.warn(f"{what}: {asked}", UserWarning, stacklevel=2)


def tell(result: dict[str, Any]) -> Iterator[Any]:
    """Say what was found and written, or give the labels as csv."""
    from maxmargin.io import write_labels

    if result["wrote"]:
        found = [plural(result["n_rows"], "row")]
        found += [plural(result["n_outliers"], "outlier")] if "n_outliers" in result else []
        yield ", ".join(found)
        yield from data.told_clusters(result)
        yield data.told_files(result["wrote"])
        return
    text = io.StringIO()
    keys = ("labels", "classes", "margins", "confidence", "outliers", "ids", "id_name")
    write_labels(text, **{key: result[key] for key in keys if key in result})
    yield text.getvalue().rstrip("\n")
