"""``maxmargin demo``: a comparison with k-means on data that comes with scikit-learn."""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
import warnings
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import combinations
from pathlib import Path
from typing import Any

from .data import table_of, told_files

SUMMARY = "cluster data that comes with scikit-learn and compare with k-means"
EXAMPLE = "maxmargin demo --out demo"
DIGITS = tuple(range(10))
# All that is told about the data: two clusters, about equally large.
BALANCE = 0.94
SHOWN = (3, 8)
METHODS = ("k-means", "maxmargin")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    place = "maxmargin-demo"
    parser.add_argument("--out", metavar="FOLDER", default=place, help=f"where (default: {place})")


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Compare with k-means: on all 45 pairs of digits, not on the ones that look best."""
    from sklearn.datasets import load_digits, make_circles

    folder = Path(args.out)
    folder.mkdir(parents=True, exist_ok=True)
    digits = load_digits()
    rings = make_circles(400, noise=0.06, factor=0.45, random_state=0)
    compare("compile", rings[0][:40], rings[1][:40])
    pairs = [
        compare(f"{a}-{b}", *digit_pair(digits, a, b))
        for a, b in _watched(list(combinations(DIGITS, 2)))
    ]
    clouds, ring = compare("clouds", *ringnorm()), compare("rings", *rings)
    drawn = {run["name"]: run.pop("model") for run in (*pairs, clouds, ring)}
    rows = {"rings": rings[0], "3-8": digit_pair(digits, *SHOWN)[0]}
    wrote = _write_shown(folder, drawn["3-8"], rows["3-8"])
    if find_spec("matplotlib"):
        wrote["picture"] = str(folder / "demo.png")
        _draw(wrote["picture"], [(drawn[name], X) for name, X in rows.items()], pairs)
    return {
        "results": {
            "All 45 pairs of handwritten digits: mean accuracy, total time": pairs,
            "Two clouds of different width in 20 dimensions": [clouds],
            "Two rings, one around the other": [ring],
        },
        "wrote": wrote,
    }


def _watched(pairs: list[Any]) -> Any:
    """Show a bar on a terminal while pairs are clustered."""
    from rich.console import Console
    from rich.progress import track

    console, hidden = Console(stderr=True), not sys.stderr.isatty()
    title = "pairs of handwritten digits"
    return track(pairs, title, console=console, transient=True, disable=hidden)


def digit_pair(digits: Any, a: int, b: int) -> tuple[Any, Any]:
    """Return the images of two digits and which is which."""
    chosen = (digits.target == a) | (digits.target == b)
    return digits.data[chosen], (digits.target[chosen] == b).astype(int)


def ringnorm(n_rows: int = 500, n_columns: int = 20, seed: int = 0) -> tuple[Any, Any]:
    """Return Breiman's ringnorm: a wide normal cloud around a narrow one, n_rows of each."""
    import numpy as np

    rng = np.random.default_rng(seed)
    wide = 2 * rng.normal(size=(n_rows, n_columns))
    narrow = rng.normal(size=(n_rows, n_columns)) + 2 / np.sqrt(n_columns)
    return np.concatenate([wide, narrow]), np.repeat([0, 1], n_rows)


def compare(name: str, X: Any, truth: Any) -> dict[str, Any]:
    """Return accuracy and time of k-means and of ours, each on one thread, and our model."""
    from sklearn.cluster import KMeans

    from maxmargin import AlternatingMarginClustering
    from maxmargin._threads import one_thread
    from maxmargin.metrics import clustering_accuracy

    model = AlternatingMarginClustering(2, balance=BALANCE, random_state=0)
    result: dict[str, Any] = {"name": name, "model": model}
    for method, estimator in zip(METHODS, (KMeans(2, n_init=10, random_state=0), model)):
        start = time.perf_counter()
        with one_thread(), contextlib.redirect_stdout(sys.stderr), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "balance=")  # the closing line says what was given
            labels = estimator.fit(X).labels_
        seconds = time.perf_counter() - start
        result[method] = {"accuracy": clustering_accuracy(truth, labels), "seconds": seconds}
    return result


def _write_shown(folder: Path, model: Any, rows: Any) -> dict[str, str]:
    """Write data, labels and model of one pair, the first in the paper."""
    import pandas as pd

    from maxmargin._files import atomic_write
    from maxmargin.display import row_margins
    from maxmargin.io import write_labels
    from maxmargin.persistence import save_model

    stem = folder / "digits-{}-{}".format(*SHOWN)
    wrote = {"data": f"{stem}.csv", "labels": f"{stem}-labels.csv", "model": f"{stem}.skops"}
    frame = pd.DataFrame(rows.astype(int)).add_prefix("pixel")
    with atomic_write(wrote["data"]) as partial:
        frame.to_csv(partial, index=False)
    margins = row_margins(model.decision_function(rows))
    write_labels(wrote["labels"], model.labels_, margins=margins)
    save_model(model, wrote["model"])
    return wrote


def _draw(path: str, drawn: list[Any], pairs: list[dict[str, Any]]) -> None:
    from matplotlib.figure import Figure

    from maxmargin._files import atomic_write
    from maxmargin.display import plot_clusters, plot_comparison

    figure = Figure(figsize=(13.5, 4.6), layout="constrained")
    axes = figure.subplots(1, 3)
    for ax, (model, X), title in zip(axes, drawn, ("two rings", "handwritten 3 and 8")):
        plot_clusters(model, X, ax=ax).set_title(title, pad=34)
    theirs, ours = ([1 - pair[method]["accuracy"] for pair in pairs] for method in METHODS)
    plot_comparison(theirs, ours, [pair["name"] for pair in pairs], axes[2])
    axes[2].set_title("error on all 45 pairs of digits", pad=34)
    with atomic_write(path) as partial:
        figure.savefig(partial, dpi=120)


def tell(result: dict[str, Any]) -> Iterator[Any]:
    """Say what was found."""
    for title, runs in result["results"].items():
        yield f"{title}:"
        rows = []
        for method in METHODS:
            accuracy = sum(run[method]["accuracy"] for run in runs) / len(runs)
            seconds = sum(run[method]["seconds"] for run in runs)
            rows.append((method, f"{accuracy:.1%}", f"{seconds:.2f}"))
        yield table_of(("method", "accuracy", "seconds"), rows)
        if len(runs) > 1:
            yield _told_contest(runs)
    yield f"maxmargin was told n_clusters=2 and balance={BALANCE} (clusters of about equal size)."
    yield told_files(result["wrote"])
    if "picture" not in result["wrote"]:
        yield 'no picture: pip install "maxmargin[plot]"'
    yield f"next: maxmargin fit {result['wrote']['data']} -k 2 --out labels.csv"


def _told_contest(runs: list[dict[str, Any]]) -> str:
    """On how many sets each is better, and our worst defeat."""
    leads = [run["maxmargin"]["accuracy"] - run["k-means"]["accuracy"] for run in runs]
    better, worse = sum(lead > 0 for lead in leads), sum(lead < 0 for lead in leads)
    last = min(range(len(runs)), key=leads.__getitem__)
    told = f"  maxmargin is better on {better}, equal on {len(runs) - better - worse}"
    defeat = f" (by {-leads[last]:.1%} on {runs[last]['name']})" if worse else ""
    return f"{told}, worse on {worse}{defeat}"
