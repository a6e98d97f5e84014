"""Time of fits beside KMeans and GaussianMixture, on one, two and all threads.

    MAXMARGIN_DATA=folder python benchmarks/speed.py [--quick] [--section NAME ...]

Sections: front-door (clear blobs, small sets), hard (overlapping clusters or MNIST rows; bits),
cutting-plane, bound (what more threads can give, on any machine), number (choose_n_clusters
beside one fit), tasks (CPU beside GaussianMixture), memory (peak beside the estimate). Every ratio
is of times of the same run, after a first run that compiles for each kind of fit. --quick leaves
out the large sizes and takes about a minute; front-door, hard and cutting-plane take about two
minutes on 16 cores without it.
"""

import argparse
import heapq
import subprocess
import sys
import time
import warnings
from functools import partial
from unittest.mock import patch

import numpy as np
from joblib import cpu_count
from sklearn import datasets
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from _data import available, load, table
from maxmargin import (
    CuttingPlaneMarginClustering,
    LeastSquaresMarginClustering,
    MaxMarginClustering,
    _threads,
    choose_n_clusters,
)

THREADS = sorted({1, min(2, cpu_count()), cpu_count()})
SPEED_UP = f"speed-up of {THREADS[-1]}"


def seconds(make, X, threads=1, repeats=2):
    """Least time of several fits on the clock, and the last model."""
    times = []
    with threadpool_limits(threads):
        for _ in range(repeats):
            model = make()
            begin = time.perf_counter()
            model.fit(X)
            times.append(time.perf_counter() - begin)
    return min(times), model


def on_threads(make, X, repeats=2):
    """Times of our fit for each number of threads, and whether all labels are the same."""
    found = [seconds(partial(make, n_jobs=t), X, t, repeats) for t in THREADS]
    same = all((model.labels_ == found[0][1].labels_).all() for _, model in found)
    same = same and len({model.objective_ for _, model in found}) == 1
    return [time for time, _ in found], found[0][1], same


def thread_columns():
    return [f"{t} thread{'s' if t > 1 else ''}" for t in THREADS]


def standardised(load_set):
    X, y = load_set(return_X_y=True)
    return StandardScaler().fit_transform(X), y


def front_door(quick):
    sets = {
        "iris": standardised(datasets.load_iris),
        "moons, 1,000": datasets.make_moons(1000, noise=0.08, random_state=0),
        "blobs, 1,000 x 20": datasets.make_blobs(1000, 20, centers=8, random_state=0),
        "blobs, 4,000 x 20": datasets.make_blobs(4000, 20, centers=8, random_state=0),
        "blobs, 100,000 x 20": datasets.make_blobs(100_000, 20, centers=8, random_state=0),
    }
    if not quick:
        sets["blobs, 1,000,000 x 20"] = datasets.make_blobs(
            1_000_000, 20, centers=8, random_state=0
        )
    rows = []
    for name, (X, y) in sets.items():
        k, small = len(np.unique(y)), len(X) <= 4000
        make = partial(MaxMarginClustering, k, random_state=0)
        times, model, same = on_threads(make, X, 2 if small else 1)
        means, _ = seconds(partial(KMeans, k, n_init=10, random_state=0), X, repeats=1)
        mixture = float("nan")
        if len(X) <= 100_000:
            mixture, _ = seconds(partial(GaussianMixture, k, n_init=3, random_state=0), X, 1, 1)
        ari = adjusted_rand_score(y, model.labels_)
        ratios = times[0] / mixture, times[0] / times[-1]
        rows.append((name, means, mixture, *times, *ratios, f"{ari:.3f}", same))
    table(
        "Front door, s on the clock (rivals on one thread; ratio: one thread / mixture)",
        [
            "rows",
            "KMeans(10)",
            "mixture(3)",
            *thread_columns(),
            "ratio",
            SPEED_UP,
            "ARI",
            "same bits",
        ],
        rows,
    )


def hard_rows(n):
    """MNIST rows if they are there, else overlapping clusters."""
    if available("mnist"):
        X, _ = load("mnist")
        return f"MNIST, {n:,} rows", X[np.random.RandomState(0).choice(len(X), n, replace=False)]
    X, _ = datasets.make_blobs(n, 200, centers=10, cluster_std=12.0, random_state=0)
    return f"overlapping blobs, {n:,} x 200", X


def hard(quick):
    rows = []
    for n in (2000,) if quick else (2000, 4000):
        name, X = hard_rows(n)
        for kind in (MaxMarginClustering, LeastSquaresMarginClustering):
            make = partial(kind, 10, random_state=0)
            make().fit(X)
            times, _, same = on_threads(make, X, 1)
            rows.append((f"{kind.__name__}, {name}", *times, times[0] / times[-1], same))
    table("Hard data, s", ["fit", *thread_columns(), SPEED_UP, "same bits"], rows)


def overlapping(n, d, k):
    X, _ = datasets.make_blobs(n, d, centers=k, cluster_std=8.0, random_state=0)
    return X.astype(np.float32)


def cutting_plane(quick):
    n, rows = 200_000 if quick else 1_000_000, []
    for k in (2, 4, 10):
        X = overlapping(n, 50, k)
        means, _ = seconds(partial(KMeans, k, n_init=1, random_state=0), X)
        make = partial(CuttingPlaneMarginClustering, k, kernel="linear", random_state=0)
        times, _, same = on_threads(make, X)
        ratios = times[0] / means, times[0] / times[-1]
        rows.append((f"{n:,} x 50, k = {k}; n_init=1", means, *times, *ratios, same))
    if available("coil20"):
        name, X = "coil20, k = 20; n_init=10", load("coil-20")[0]
    else:
        name, X = "1,440 x 1,024, k = 20; n_init=10", overlapping(1440, 1024, 20)
    means, _ = seconds(partial(KMeans, 20, n_init=10, random_state=0), X)
    make = partial(CuttingPlaneMarginClustering, 20, random_state=0)
    make().fit(X)
    times, _, same = on_threads(make, X, 1)
    rows.append((name, means, *times, times[0] / means, times[0] / times[-1], same))
    table(
        "Cutting planes beside KMeans on one thread, s (ratio: one thread / KMeans)",
        ["rows", "KMeans", *thread_columns(), "ratio", SPEED_UP, "same bits"],
        rows,
    )


spared = {2: 0.0, 16: 0.0}  # seconds that so many threads would spare in all queues


class Shared(_threads.Queue):
    """Items that many threads would share, done by one of them, with their times."""

    inside = False

    def __init__(self, *given):
        super().__init__(*given)
        self.times = []

    def wanted(self, n_jobs):
        return 0

    def result(self, i):
        if Shared.inside:
            return super().result(i)
        begin, Shared.inside = time.perf_counter(), True
        try:
            return super().result(i)
        finally:
            Shared.inside = False
            self.times.append(time.perf_counter() - begin)

    def stop(self):
        super().stop()
        for threads in spared:
            ends = [0.0] * threads
            for took in self.times:
                heapq.heapreplace(ends, ends[0] + took)
            spared[threads] += sum(self.times) - max(ends)
        self.times = []


def bound(quick):
    """Amdahl's law: what is not shared takes as long on any number of threads.

    Items are taken for indivisible, though threads share the items within a few of them. Waiting
    for memory and for the interpreter's lock is not counted.
    """
    n, (name, hard) = 200_000 if quick else 1_000_000, hard_rows(4000)
    linear = partial(CuttingPlaneMarginClustering, kernel="linear")
    fits = [
        (f"front door, {name}", MaxMarginClustering, 10, lambda: hard),
        (f"least squares, {name}", LeastSquaresMarginClustering, 10, lambda: hard),
        (f"front door, blobs, {n:,} x 20", MaxMarginClustering, 8,
         lambda: datasets.make_blobs(n, 20, centers=8, random_state=0)[0]),
        *((f"linear cutting planes, {n:,} x 50, k = {k}", linear, k, partial(overlapping, n, 50, k))
          for k in (2, 4, 10)),
    ]  # fmt: skip
    rows = []
    for name, kind, k, made in fits:
        X, make = made(), partial(kind, k, random_state=0)
        alone, two = (seconds(partial(make, n_jobs=t), X, t)[0] for t in (1, 2))
        spared.update(dict.fromkeys(spared, 0.0))
        with patch.object(_threads, "Queue", Shared):
            serial, _ = seconds(partial(make, n_jobs=16), X, repeats=1)
        best = [serial / (serial - s) for s in spared.values()]
        rows.append((name, alone, alone / two, *best))
    table(
        "Speed-up by threads: measured, and by the times of the items that they share",
        ["fit", "1 thread, s", "2 threads", *(f"{n} by items" for n in spared)],
        rows,
    )


def number(quick):
    sets = {"wine": standardised(datasets.load_wine)[0]}
    if not quick:
        sets["digits"] = datasets.load_digits(return_X_y=True)[0]
        if available("news20_rec"):
            sets["news20"] = load("news-rec")[0]
    rows = []
    for name, X in sets.items():
        with threadpool_limits(1):
            begin = time.process_time()
            choice = choose_n_clusters(X, random_state=0)
            chosen = time.process_time() - begin
            k = choice.n_clusters
            begin = time.process_time()
            MaxMarginClustering(k, random_state=0).fit(X)
            fit = time.process_time() - begin
        rows.append((name, k, chosen, fit, chosen / fit))
    table("The number of clusters, CPU s", ["rows", "k", "choose", "one fit", "ratio"], rows)


def tasks(quick):
    """CPU of the front door over those quality tasks that scikit-learn has."""
    sets = {
        "iris": standardised(datasets.load_iris),
        "wine": standardised(datasets.load_wine),
        "breast_cancer": standardised(datasets.load_breast_cancer),
        "moons": datasets.make_moons(1000, noise=0.08, random_state=0),
        "blobs": datasets.make_blobs([600, 200, 100, 100], 10, cluster_std=3, random_state=3),
    }
    if not quick:
        sets["digits"] = datasets.load_digits(return_X_y=True)
    rows = []
    with threadpool_limits(1):
        for name, (X, y) in sets.items():
            k, found = len(np.unique(y)), []
            for make in (
                partial(GaussianMixture, k, n_init=3, random_state=0),
                partial(MaxMarginClustering, k, random_state=0),
            ):
                begin = time.process_time()
                labels = make().fit_predict(X)
                found += [time.process_time() - begin, adjusted_rand_score(y, labels)]
            rows.append((name, found[0], found[2], found[2] / found[0], found[1], found[3]))
    mean = np.mean([row[1:] for row in rows], axis=0)
    rows.append(("mean", mean[0], mean[1], mean[1] / mean[0], mean[3], mean[4]))
    table(
        "Front door beside GaussianMixture(n_init=3), CPU s and ARI",
        ["task", "mixture", "ours", "ratio", "ARI mixture", "ARI ours"],
        rows,
    )


PEAK = """
import re
from pathlib import Path
from sklearn.datasets import make_blobs
from maxmargin import CuttingPlaneMarginClustering, MaxMarginClustering

def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])

X = make_blobs({n}, 20, centers=8, random_state=0)[0]
{model}.fit(X[:500])
Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
before = peak()
{model}.fit(X)
print(peak() - before)
"""


def memory(quick):
    """Linux only."""
    rows = []
    models = (
        MaxMarginClustering(8, random_state=0),
        CuttingPlaneMarginClustering(8, kernel="linear", random_state=0),
    )
    for n in (4000,) if quick else (4000, 100_000, 1_000_000):
        for model in models:
            program = [sys.executable, "-c", PEAK.format(n=n, model=model)]
            told = subprocess.run(program, capture_output=True, text=True, check=True).stdout
            estimate = model.estimate_memory(n, 20)
            name = f"{type(model).__name__}, {n:,} x 20"
            rows.append((name, int(told) / 2**10, estimate / 2**20))
    table("Peak memory of a fit, MiB", ["fit", "measured", "estimate"], rows, decimals=0)


SECTIONS = {
    "front-door": front_door,
    "hard": hard,
    "cutting-plane": cutting_plane,
    "bound": bound,
    "number": number,
    "tasks": tasks,
    "memory": memory,
}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="leave out the large sizes")
    parser.add_argument("--section", nargs="+", choices=SECTIONS, default=list(SECTIONS))
    options = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    MaxMarginClustering(3, random_state=0).fit(datasets.make_blobs(1200, 5, random_state=0)[0])
    for section in options.section:
        begin = time.perf_counter()
        SECTIONS[section](options.quick)
        print(f"({section}: {time.perf_counter() - begin:.0f} s)", flush=True)
