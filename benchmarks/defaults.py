"""All estimators at their defaults, with nothing given but k, beside scikit-learn's clusterers.

    MAXMARGIN_DATA=folder MAXMARGIN_JOBS=16 python benchmarks/defaults.py [tasks | blobs ...]

Sections: tasks (those of quality.py: ARI, accuracy, CPU seconds, the objective beside that of the
k-means partition; page.py writes docs/benchmarks.md) and blobs (14 seeded sets of separated
clouds that k-means gets right). An ARI of more than .03 below that of k-means is marked. Classes
serve to score the answers only. Fits have one thread each; MAXMARGIN_JOBS of them run at once
(default 1).
"""

import os
import sys
import time
import warnings

import joblib
import numpy as np
from sklearn.cluster import KMeans
from sklearn.datasets import make_blobs
from sklearn.metrics import adjusted_rand_score
from threadpoolctl import threadpool_limits

import maxmargin
from _data import run_sections, table
from maxmargin.metrics import clustering_accuracy
from quality import ANCHORS, SEEDS, compile_first, task, task_names

OURS = {
    "cutting planes": maxmargin.CuttingPlaneMarginClustering,
    "multiple kernels": maxmargin.MultipleKernelMarginClustering,
    "alternating": maxmargin.AlternatingMarginClustering,
    "bisecting": maxmargin.BisectingMarginClustering,
    "least squares": maxmargin.LeastSquaresMarginClustering,
    "pairwise": maxmargin.PairwiseMarginClustering,
    "semidefinite": maxmargin.SemidefiniteMarginClustering,
    "front door": maxmargin.MaxMarginClustering,
}
MOST_ROWS = {"semidefinite": 400}  # a matrix of n^2 variables
LOSS = 0.03
# Number of centres and seed of make_blobs(400, centers, n_features=5): KMeans has ARI 1 on each.
BLOBS = tuple((centers, seed) for centers in range(4, 11) for seed in (0, 1))


def clustered(name, X, k, seed):
    """Labels, CPU seconds, and the objective over that of the k-means partition if it is known."""
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        begin = time.process_time()
        if name not in OURS:
            return ANCHORS[name](X, k, seed), time.process_time() - begin, np.nan
        model = OURS[name](n_clusters=k, random_state=seed).fit(X)
        seconds = time.process_time() - begin
    compared = getattr(model, "compared_with_kmeans_", None)
    ratio = model.objective_ / compared["objective"] if compared else np.nan
    return model.labels_, seconds, ratio


def figures(name, task_name):
    """ARI, accuracy, CPU seconds (means over the seeds) and the worst ratio of objectives."""
    X, y, k = task(task_name)
    if X.shape[0] > MOST_ROWS.get(name, np.inf):
        return (np.nan,) * 4
    found = []
    for seed in SEEDS:
        labels, seconds, ratio = clustered(name, X, k, seed)
        score = adjusted_rand_score(y, labels), clustering_accuracy(y, labels)
        found.append((*score, seconds, ratio))
    print(f"{task_name} {name}: {found[0][2]:.1f} s", file=sys.stderr)
    return (*np.mean(found, axis=0)[:3], np.max(found, axis=0)[3])


FIGURES = ("ARI", "Accuracy", "CPU seconds", "Objective over that of the k-means partition")
METHODS = ["KMeans", "mixture", "spectral", *OURS]


def measured(names):
    """Figures of (method, task)."""
    compile_first()
    parallel = joblib.Parallel(n_jobs=int(os.environ.get("MAXMARGIN_JOBS", "1")))
    found = parallel(joblib.delayed(figures)(m, name) for m in METHODS for name in names)
    return np.array(found).reshape(len(METHODS), len(names), 4)


def all_tables(names, found):
    """Title, columns and rows of each table: one for a figure, and one that sums them up."""
    base = found[0]
    for at, figure in enumerate(FIGURES):
        body = []
        for i, name in enumerate(names):
            row = [name]
            for value in found[:, i, at]:
                lost = at == 0 and value < base[i, 0] - LOSS
                row.append("" if np.isnan(value) else f"{value:.3f}{' -' if lost else ''}")
            body.append(row)
        kept = [values[~np.isnan(values)] for values in found[:, :, at]]
        body.append(["mean", *(f"{v.mean():.3f}" if v.size else "" for v in kept)])
        yield f"{figure}, mean of {len(SEEDS)} seeds", ["task", *METHODS], body
    public = [i for i, name in enumerate(names) if name != "mnist"]
    body = []
    for method, values in zip(METHODS, found):
        here = [i for i in public if not np.isnan(values[i, 0])]
        losses = int((values[here, 0] < base[here, 0] - LOSS).sum())
        ratio = values[here, 2].mean() / base[here, 2].mean()
        means = (f"{v:.3f}" for v in (values[here, 0].mean(), base[here, 0].mean()))
        body.append([method, str(len(here)), *means, str(losses), f"{ratio:.1f}"])
    columns = ["method", "tasks", "mean ARI", "KMeans there", "tasks lost", "CPU / KMeans"]
    yield "Summary, without mnist", columns, body


def tasks():
    names = task_names()
    for title, columns, body in all_tables(names, measured(names)):
        table(title, columns, body)


def blobs():
    rows = []
    for method in OURS:
        scores = []
        for k, seed in BLOBS:
            X, y = make_blobs(400, centers=k, n_features=5, random_state=seed)
            means = KMeans(k, n_init=10, random_state=0).fit_predict(X)
            assert adjusted_rand_score(y, means) == 1.0, (k, seed)
            scores.append(adjusted_rand_score(y, clustered(method, X, k, 0)[0]))
        right = int((np.array(scores) > 0.99).sum())
        rows.append((method, right, " ".join(f"{score:.2f}" for score in scores)))
    table(
        f"Separated blobs: ARI > .99 of {len(BLOBS)} (target 13)", ["method", "right", "ARI"], rows
    )


SECTIONS = {"tasks": tasks, "blobs": blobs}


if __name__ == "__main__":
    run_sections(SECTIONS, __doc__, UserWarning)
