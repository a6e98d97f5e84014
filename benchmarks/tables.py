"""Time of tables: reading beside pandas, predicting, and a fit of many rows, with the ratios.

python benchmarks/tables.py [--rows 1000000]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.cluster import KMeans
from sklearn.svm import SVC

from maxmargin import CuttingPlaneMarginClustering, MaxMarginClustering
from maxmargin.io import read_rows, read_table
from maxmargin.tables import table_columns


def seconds(function, repeats=3):
    """Return the least processor time of some calls, and the last result."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        result = function()
        times.append(time.process_time() - start)
    return min(times), result


def told(what, ours, baseline, name):
    print(f"{what:<46}{ours:8.3f} s {baseline:8.3f} s {name:<22} ratio {ours / baseline:.2f}")


def table(n, rng):
    """Twenty columns: numbers, with missing ones, categories and dates."""
    frame = pd.DataFrame(rng.normal(size=(n, 16)).round(6), columns=[f"x{j}" for j in range(16)])
    frame["gap"] = np.where(rng.random(n) < 0.05, np.nan, rng.normal(size=n).round(4))
    frame["town"] = rng.choice(["Oslo", "Rome", "Lima", "Cairo"], n)
    frame["day"] = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(999, size=n), unit="D")
    frame["count"] = rng.integers(1000, size=n)
    return frame


def reading(n, rng):
    with tempfile.TemporaryDirectory() as folder:
        numbers, mixed = Path(folder, "numbers.csv"), Path(folder, "mixed.csv")
        pd.DataFrame(rng.normal(size=(n, 20)).round(6)).to_csv(numbers, index=False)
        table(n, rng).to_csv(mixed, index=False)
        for path, what, read in (
            (numbers, "numbers", read_rows),
            (numbers, "numbers, as a table", read_table),
            (mixed, "mixed columns, as a table", read_table),
        ):
            theirs, _ = seconds(lambda path=path: pd.read_csv(path), 2)
            ours, rows = seconds(lambda path=path, read=read: read(path), 2)
            told(f"read {n:,} x 20, {what}", ours, theirs, "pandas.read_csv")
        ours, _ = seconds(lambda: table_columns(rows.X), 1)
        told("decide what becomes of its columns", ours, theirs, "pandas.read_csv")


def predicting(rng):
    X = np.concatenate([rng.normal(size=(2200, 10)), rng.normal(size=(1800, 10)) + 1.2])
    new = rng.normal(size=(20_000, 10)) + 0.6
    model = MaxMarginClustering(2, n_resamples=0, random_state=0).fit(X)
    svm = SVC().fit(X, model.labels_)
    model.predict(new)
    baseline, _ = seconds(lambda: svm.predict(new))
    ours, _ = seconds(lambda: model.predict(new))
    told("predict 20,000 rows, front door", ours, baseline, "SVC.predict")


def fitting(n, rng):
    X = rng.normal(size=(n, 20)) + 4 * rng.integers(3, size=(n, 1))
    baseline, _ = seconds(lambda: KMeans(3, n_init=10, random_state=0).fit(X), 1)
    front_door = MaxMarginClustering(3, random_state=0)
    for model in (front_door, CuttingPlaneMarginClustering(3, random_state=0)):
        ours, _ = seconds(lambda model=model: model.fit(X), 1)
        told(f"fit {n:,} x 20, {type(model).__name__[:24]}", ours, baseline, "KMeans(n_init=10)")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    n, rng = parser.parse_args().rows, np.random.default_rng(0)
    reading(n, rng)
    predicting(rng)
    fitting(n, rng)


if __name__ == "__main__":
    main()
