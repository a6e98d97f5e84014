"""``maxmargin demo``: handwritten digits beside k-means, without labels and with twenty."""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from maxmargin._files import atomic_write

from . import with_this_python
from .data import Rows, compile_time, say, table_of, told_files, write_results

SUMMARY = "cluster handwritten digits beside k-means, without labels and with twenty"
EXAMPLE = "maxmargin demo --out demo"
STEP = 2  # every second digit: all of them take twice the time
PER_CLASS = 2  # known labels
SHOWN = 20  # uncertain rows
SUBSAMPLES = 3  # half the default, and half the time of the confidence


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    place = "maxmargin-demo"
    parser.add_argument("--out", metavar="FOLDER", default=place, help=f"where (default: {place})")


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Cluster the digits, learn from twenty labels, and write what was found."""
    say("clustering handwritten digits: about 10 seconds, 20 the first time (code is compiled) ...")
    import sklearn.cluster  # noqa: F401 - what is imported later is not limited

    from maxmargin._threads import one_thread

    folder = Path(args.out)
    folder.mkdir(parents=True, exist_ok=True)
    # Rows are few: threads of k-means that wait for each other take more time than they save.
    with one_thread():
        return _clustered(folder)


def _clustered(folder: Path) -> dict[str, Any]:
    """Return what is found; data, labels, model and pages go to a folder."""
    from sklearn.cluster import KMeans
    from sklearn.datasets import load_digits
    from sklearn.svm import SVC

    from maxmargin import MaxMarginClustering

    X, digit = (array[::STEP] for array in load_digits(return_X_y=True))
    model = MaxMarginClustering(10, n_resamples=SUBSAMPLES, random_state=0, n_jobs=-1)
    free = _compared(
        {"k-means": KMeans(10, n_init=10, random_state=0), "maxmargin": model},
        lambda estimator: estimator.fit(X).labels_,
        digit,
    )
    known = _few_labels(digit)
    hidden = known < 0
    few = MaxMarginClustering(10, random_state=0, n_jobs=-1)
    with_labels = _compared(
        {"SVC": SVC(C=10).fit(X[~hidden], digit[~hidden]), "maxmargin": few},
        lambda e: (e.fit(X, partial_labels=known).labels_ if e is few else e.predict(X))[hidden],
        digit[hidden],
    )
    return {
        "n_rows": len(X),
        "without_labels": free,
        "n_sure": int((model.confidence_ > 0.9).sum()),
        "stability": model.stability_,
        "uncertain": model.confidence_.argsort(kind="stable")[:5].tolist(),
        "n_known": int((~hidden).sum()),
        "with_labels": with_labels,
        "wrote": _write(folder, model, X),
    }


def _compared(estimators: dict[str, Any], labels_of: Any, truth: Any) -> dict[str, Any]:
    """Return the adjusted Rand index, accuracy and wall time of each estimator."""
    from maxmargin.metrics import adjusted_rand_score, clustering_accuracy

    found = {}
    for name, estimator in estimators.items():
        with contextlib.redirect_stdout(sys.stderr), compile_time() as compiled:
            start = time.perf_counter()  # numba is imported by now
            labels = labels_of(estimator)
            seconds = time.perf_counter() - start
        found[name] = {
            "ari": float(adjusted_rand_score(truth, labels)),
            "accuracy": float(clustering_accuracy(truth, labels)),
            "seconds": seconds,
            "compile_seconds": sum(compiled),
        }
    return found


def _few_labels(digit: Any) -> Any:
    """Return the classes of a few rows of each class, drawn at random; -1 for the others."""
    import numpy as np

    rng, known = np.random.default_rng(0), np.full(len(digit), -1)
    for h in range(10):
        rows = rng.choice(np.flatnonzero(digit == h), PER_CLASS, replace=False)
        known[rows] = h
    return known


def _write(folder: Path, model: Any, X: Any) -> dict[str, str]:
    """Write data, labels, model, the page about them and, if possible, a picture."""
    import pandas as pd

    from maxmargin import report

    names = {"data": "digits.csv", "labels": "digits-labels.csv", "model": "digits.skops"}
    wrote = {what: str(folder / name) for what, name in (names | {"report": "report.html"}).items()}
    frame = pd.DataFrame(X.astype(int)).add_prefix("pixel")
    with atomic_write(wrote["data"]) as partial:
        frame.to_csv(partial, index=False)
    outputs = argparse.Namespace(out=wrote["labels"], model=wrote["model"])
    write_results(outputs, model, model.labels_, Rows(X, None, [], None, "id", None, "digits"))
    report(model, X, images=(8, 8), title="Handwritten digits").save(wrote["report"])
    if find_spec("matplotlib"):
        wrote["picture"] = str(folder / "digits.png")
        _draw(wrote["picture"], model, X)
    return wrote


def _draw(path: str, model: Any, X: Any) -> None:
    """Draw the most typical digit of each cluster above the least certain digits."""
    import numpy as np
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.4), layout="constrained")
    above, below = figure.subplots(2, 1, height_ratios=[1, 2])
    rows = {above: model.exemplar_indices_, below: model.confidence_.argsort(kind="stable")[:SHOWN]}
    for ax, title in (
        (above, "the most typical digit of each cluster"),
        (below, "the least certain digits"),
    ):
        tiles = np.pad(X[rows[ax]].reshape(-1, 8, 8), ((0, 0), (1, 1), (2, 2)))
        ax.imshow(np.vstack([np.hstack(list(tiles[i : i + 10])) for i in range(0, len(tiles), 10)]),
                  cmap="gray_r")  # fmt: skip
        ax.set_title(title)
        ax.axis("off")
    with atomic_write(path) as partial:
        figure.savefig(partial, dpi=110)


def tell(result: dict[str, Any]) -> Iterator[Any]:
    """Say what was found."""
    from maxmargin._auto import stability_in_words

    n, wrote = result["n_rows"], result["wrote"]
    folder = Path(wrote["data"]).parent
    yield f"{n:,} of scikit-learn's handwritten digits, every second one; only the number is given:"
    yield _told(result["without_labels"])
    yield (
        f"stability {result['stability']:.2f} ({stability_in_words(result['stability'])}); "
        f"{result['n_sure'] / n:.0%} of the rows have a confidence above 0.9; least certain: rows "
        f"{', '.join(map(str, result['uncertain']))}"
    )
    known = f"{result['n_known']} labels, {PER_CLASS} of each digit"
    yield f"\nThe same with {known}; on the other rows:"
    yield _told(result["with_labels"])
    yield told_files(wrote)
    if "picture" not in wrote:
        yield with_this_python('no picture: pip install "maxmargin[plot]"')
    yield f"\nOpen {wrote['report']} in a browser. Then try:"
    # As it was called: the scripts of an environment need not be on the path.
    called = sys.argv[0] if Path(sys.argv[0]).stem == "maxmargin" else "maxmargin"
    yield f"  {called} check {wrote['data']}"
    labels, model, page = (folder / f"again.{ending}" for ending in ("csv", "skops", "html"))
    yield f"  {called} fit {wrote['data']} -k 10 --out {labels} --model {model}"
    yield f"  {called} report {model} {wrote['data']} --out {page}"


def _told(found: dict[str, Any]) -> Any:
    rows = []
    for name, f in found.items():
        once = f" (includes compiling once: {f['compile_seconds']:.1f})"
        seconds = f"{f['seconds']:.1f}{once if f['compile_seconds'] >= 0.05 else ''}"
        rows.append((name, f"{f['ari']:.2f}", f"{f['accuracy']:.1%}", seconds))
    return table_of(("method", "adjusted Rand index", "accuracy", "seconds"), rows)
