"""``maxmargin predict``: put the rows of a file into the clusters of a saved model."""

from __future__ import annotations

import argparse
import io
from collections.abc import Iterator
from typing import Any

from . import data

SUMMARY = "put the rows of a file into the clusters of a saved model"
EXAMPLE = "maxmargin predict people.skops new.csv --id-column name --out new-labels.csv"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("model", metavar="MODEL", help="a model saved by fit --model")
    data.add_data(parser)
    data.add_outputs(parser, "out")


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Put new rows into the clusters of a saved model."""
    from maxmargin.display import scored_rows
    from maxmargin.io import write_labels
    from maxmargin.persistence import load_model

    data.check_outputs(args, "out")
    model = load_model(args.model)
    rows = data.new_rows(args, model)
    scores, certainty = scored_rows(model, rows.X)
    labels = scores.argmax(axis=1)
    beside = data.label_columns(model, labels, rows, scores, certainty)
    result = {"data": rows.source, "model": args.model, "n_rows": len(labels)}
    if args.out:
        write_labels(args.out, labels, **beside)
        return result | {"wrote": {"labels": args.out}}
    return result | {"wrote": {}, "labels": labels, **beside}


def tell(result: dict[str, Any]) -> Iterator[str]:
    """Say what was written, or give the labels as csv."""
    from maxmargin.io import write_labels

    if result["wrote"]:
        yield f"{data.plural(result['n_rows'], 'row')}; {data.told_files(result['wrote'])}"
        return
    text = io.StringIO()
    keys = ("labels", "classes", "margins", "confidence", "outliers", "ids", "id_name")
    write_labels(text, **{key: result[key] for key in keys if key in result})
    yield text.getvalue().rstrip("\n")
