"""Write docs/benchmarks.md and the README's table: every estimator on every task at its defaults.

    MAXMARGIN_DATA=folder python benchmarks/page.py [--jobs 16] [--tasks iris wine ...]

Tasks are those of quality.py, estimators those of defaults.py, beside scikit-learn's clusterers.
Every fit has a process and one BLAS thread. Classes serve to score the answers only. --tasks prints
a preview of some tasks and writes nothing.
"""

import os

for library in ("OMP", "OPENBLAS", "MKL"):
    os.environ[f"{library}_NUM_THREADS"] = "1"  # read when numpy is imported, here and in workers

import argparse
import functools
import platform
import re
import sys
import warnings
from concurrent.futures import ProcessPoolExecutor
from datetime import date
from importlib import metadata
from pathlib import Path

import numpy as np
from scipy import sparse
from sklearn.datasets import make_blobs
from sklearn.metrics import adjusted_rand_score

import maxmargin
from defaults import LOSS, MOST_ROWS, OURS, clustered
from maxmargin.metrics import clustering_accuracy, normalized_mutual_info
from quality import ANCHORS, SAME_EVERY_TIME, SEEDS, TASKS, compile_first, task, task_names

ROOT = Path(__file__).parents[1]
FIGURES = ("ARI", "Accuracy", "NMI", "CPU seconds")
METHODS = ["front door", *ANCHORS, *(name for name in OURS if name != "front door")]
PAGE = """# Every estimator at its defaults

Nothing is given but the number of clusters (HDBSCAN does not take it). Written by
`python benchmarks/page.py` {conditions}; one thread for each fit, means of {seeds} seeds.
`benchmarks/quality.py` describes the tasks, {tasks} of them{left_out}. Classes serve to score the
answers only.

`KMeans` has `n_init=10`; `mixture` is GaussianMixture with `n_init=3`, on 50 principal components
above 100 columns; `spectral` is SpectralClustering of the 10 nearest neighbours; `Ward` is
AgglomerativeClustering. A minus sign and red mark an ARI of more than {loss} below that of KMeans.
Semidefinite programs have a variable for every pair of rows and are fitted up to {most} rows; other
gaps are fits that failed. CPU seconds are those of `fit`: the front door fits subsamples only when
its confidence is asked for, which takes longer than the fit.

The defaults of our estimators were selected on these tasks with their classes in view: expect
smaller gains on others. Figures with some labels known are on [another page](known_labels.md).
"""


@functools.cache
def warm(method, is_sparse):
    """Load compiled code in this process; that is not the cost of a clustering."""
    X = make_blobs(90, 6, random_state=0)[0]
    clustered(method, sparse.csr_matrix(np.abs(X)) if is_sparse else X, 3, 0)


def fitted(method, name, seed):
    """ARI, accuracy, NMI and CPU seconds of one fit; nan if it is left out or fails."""
    X, y, k = task(name)
    if X.shape[0] > MOST_ROWS.get(method, np.inf):
        return (np.nan,) * 4
    try:
        warm(method, sparse.issparse(X))
        labels, seconds, _ = clustered(method, X, k, seed)
    except Exception as error:
        print(f"{method} on {name}: {error!r}", file=sys.stderr)
        return (np.nan,) * 4
    scores = (adjusted_rand_score, clustering_accuracy, normalized_mutual_info)
    return (*(score(y, labels) for score in scores), seconds)


def measured(names, jobs):
    """Figures of shape (methods, tasks, 4), means over the seeds."""
    compile_first()
    runs = {}
    with ProcessPoolExecutor(jobs, initializer=warnings.simplefilter, initargs=("ignore",)) as pool:
        # Slow methods first, so that no worker is left with one at the end.
        for method in reversed(METHODS):
            for name in names:
                seeds = SEEDS[:1] if method in SAME_EVERY_TIME else SEEDS
                runs[method, name] = [pool.submit(fitted, method, name, seed) for seed in seeds]
        found = {key: np.mean([run.result() for run in some], axis=0) for key, some in runs.items()}
    return np.array([[found[method, name] for name in names] for method in METHODS])


def markdown(columns, rows):
    lines = [columns, ["---", *["---:"] * (len(columns) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def shown(value, lost=False):
    text = "" if np.isnan(value) else f"{value:z.3f}"
    return f'<span class="loss">{text} -</span>' if lost else text


def summary(found):
    """One row for each method: on its tasks, those of KMeans beside them."""
    base, rows = found[METHODS.index("KMeans")], []
    for method, values in zip(METHODS, found):
        here = ~np.isnan(values[:, 0])
        means = values[here].mean(axis=0)
        losses = int((values[here, 0] < base[here, 0] - LOSS).sum())
        ratio = means[3] / base[here, 3].mean()
        figures = (*means[:3], base[here, 0].mean())
        rows.append([method, str(here.sum()), *map(shown, figures), str(losses), f"{ratio:.1f}"])
    columns = (
        "method, tasks, mean ARI, accuracy, NMI, ARI of KMeans there, tasks lost, CPU / KMeans"
    )
    return markdown(columns.split(", "), rows)


def figure_table(names, found, at):
    base, rows = found[METHODS.index("KMeans")], []
    for i, name in enumerate(names):
        lost = (found[:, i, 0] < base[i, 0] - LOSS) & (at == 0)
        rows.append([name, *map(shown, found[:, i, at], lost)])
    rows.append(["mean", *(shown(np.nanmean(values)) for values in found[:, :, at])])
    return markdown(["task", *METHODS], rows)


def machine():
    """The processor and the number of its cores."""
    try:
        model = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())[1]
    except (OSError, TypeError):
        model = platform.processor() or platform.machine()
    return f"{model} ({os.cpu_count()} cores)"


def conditions():
    """Date, versions and machine of a measurement."""
    packages = ", ".join(f"{p} {metadata.version(p)}" for p in ("scikit-learn", "numpy", "scipy"))
    versions = f"maxmargin {maxmargin.__version__}, Python {platform.python_version()}, {packages}"
    return f"on {date.today()} with {versions}, on {machine()}"


def fill(path, mark, content):
    """Replace what a page has between the marks of this name."""
    begin, end = f"<!-- {mark}: begin -->", f"<!-- {mark}: end -->"
    before, rest = path.read_text().split(begin)
    path.write_text(f"{before}{begin}\n\n{content}\n\n{end}{rest.split(end)[1]}")


def page(names, found):
    missing = [name for name in TASKS if name not in names]
    text = PAGE.format(
        conditions=conditions(), seeds=len(SEEDS), tasks=len(names), loss=LOSS,
        left_out=f" (left out, no data: {', '.join(missing)})" if missing else "",
        most=MOST_ROWS["semidefinite"],
    )  # fmt: skip
    parts = [text, "## Summary\n", summary(found), ""]
    for at, figure in enumerate(FIGURES):
        parts += [f"## {figure}\n", figure_table(names, found, at), ""]
    return "\n".join(parts)


def main(jobs, tasks):
    names = task_names(*tasks)
    found = measured(names, jobs)
    text = page(names, found)
    if tasks:
        print(text)
        return
    (ROOT / "docs" / "benchmarks.md").write_text(text)
    fill(ROOT / "README.md", "benchmarks", summary(found))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--tasks", nargs="*", default=())
    main(**vars(parser.parse_args()))
