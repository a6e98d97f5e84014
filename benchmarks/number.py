"""The number of clusters: MaxMarginClustering(n_clusters=None) on the sets of obvious.py.

    MAXMARGIN_JOBS=16 python benchmarks/number.py [drawn | many | tables | cost | real ...]

Sections: drawn (blobs, rings, moons and spirals, and data without clusters), many (25 to 300
blobs), tables (clusters of numeric columns beside categories, ratings, dates and gaps), cost (CPU
time of a fit that chooses the number, relative to a fit with that number given) and real (data of
scikit-learn, whose classes need not be clusters). MAXMARGIN_SEED is the first seed of the drawn
sets (default 0), MAXMARGIN_JOBS sets run at once (default 1).
"""

import os
import time
import warnings
from itertools import count, islice

import joblib
import numpy as np
import pandas as pd
from sklearn import datasets
from sklearn.cluster import HDBSCAN
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from _data import run_sections, table
from maxmargin import MaxMarginClustering, choose_n_clusters, table_pipeline
from obvious import (
    ANCHORS,
    N_BLOBS,
    N_SHAPES,
    PERFECT,
    blobs_of,
    separated,
    shapes_of,
    without_clusters_of,
)

SEED = int(os.environ.get("MAXMARGIN_SEED", "0"))
JOBS = int(os.environ.get("MAXMARGIN_JOBS", "1"))
N_CLOUDS = 60
N_TABLES = 20
N_TIMED = 8  # of each kind


def hdbscan_number(X):
    """Number of clusters of HDBSCAN, at least one."""
    return max(int(HDBSCAN(copy=True).fit_predict(X).max()) + 1, 1)


def clear_blobs(seed):
    """Blobs, or None if neither KMeans nor a mixture is perfect on them."""
    drawn = blobs_of(seed)
    names = ("KMeans", "mixture")
    best = max(drawn.score(ANCHORS[name](drawn.X, drawn.k)) for name in names)
    return drawn if best > PERFECT else None


def sets_of(kind, size):
    """Sets of a kind from the first seed on."""
    draw = {"blobs": clear_blobs, "shapes": shapes_of, "without clusters": without_clusters_of}
    sets = (draw[kind](seed) for seed in count(SEED))
    return islice((drawn for drawn in sets if drawn is not None), size)


def counted(drawn):
    """The set without its rows, the choice, HDBSCAN's number and CPU seconds of both."""
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        begin = time.process_time()
        choice = choose_n_clusters(drawn.X, random_state=0)
        middle = time.process_time()
        other = hdbscan_number(drawn.X)
        return drawn.name, drawn.k, choice, other, middle - begin, time.process_time() - middle


def drawn():
    """Table of the drawn sets, and every set on which the number is wrong."""
    rows, wrong, all_right, all_doubt = [], [], [], []
    sizes = {"blobs": N_BLOBS, "shapes": N_SHAPES, "without clusters": N_CLOUDS}
    for kind, size in sizes.items():
        sets = sets_of(kind, size)
        found = joblib.Parallel(JOBS)(joblib.delayed(counted)(one) for one in sets)
        right = np.array([choice.n_clusters == k for _, k, choice, *_ in found])
        doubt = np.array([choice.uncertain for _, _, choice, *_ in found])
        named = np.array([k in choice.candidates for _, k, choice, *_ in found])
        theirs = np.mean([k == other for _, k, _, other, *_ in found])
        seconds = np.mean([one[4:] for one in found], axis=0)
        rows.append((kind, size, *_shares(right, doubt), named.mean(), theirs, *seconds))
        wrong += [one for one, good in zip(found, right) if not good]
        all_right.append(right)
        all_doubt.append(doubt)
    right, doubt = np.concatenate(all_right), np.concatenate(all_doubt)
    rows.append(("all", len(right), *_shares(right, doubt), "", "", "", ""))
    columns = [
        "sets",
        "number",
        "right",
        "right and sure",
        "uncertain if wrong",
        "among candidates",
    ]
    table("The number of clusters", [*columns, "HDBSCAN right", "CPU s", "HDBSCAN CPU s"], rows, 3)
    for name, _, choice, other, *_ in wrong:
        print(f"{name}: {choice.statement} HDBSCAN {other}.")


def _shares(right, doubt):
    """Shares of right answers, of right and certain ones, and of uncertain ones if wrong."""
    return right.mean(), (right & ~doubt).mean(), doubt[~right].mean() if (~right).any() else 1.0


def many():
    """Blobs of equal size: no limit is silent."""
    rows = []
    for k, n in ((25, 1500), (50, 3000), (100, 10_000), (200, 20_000), (300, 30_000)):
        X, _ = datasets.make_blobs(n, 10, centers=k, center_box=(-20, 20), random_state=SEED)
        begin = time.process_time()
        choice = choose_n_clusters(X, random_state=0)
        seconds = time.process_time() - begin
        rows.append((f"{n} rows", k, choice.n_clusters, str(choice.uncertain), seconds))
    table("Many blobs, 10 columns", ["", "blobs", "found", "uncertain", "CPU s"], rows)


def mixed_table(seed, cats=False, ratings=False, date=False, gaps=False):
    """Table of 1 to 5 clusters that are clear in 2 to 5 numeric columns, and their number."""
    rng = np.random.default_rng([seed, 7])
    n, k, d = int(rng.integers(200, 1201)), int(rng.integers(1, 6)), int(rng.integers(2, 6))
    shares = rng.uniform(1, 3, k)
    group, spread = rng.choice(k, n, p=shares / shares.sum()), np.ones(k)
    Z = separated(rng, k, d, spread)[group] + rng.normal(size=(n, d))
    columns = {f"number {j}": np.exp(Z[:, j] / 4) if rng.random() < 0.3 else Z[:, j]
               for j in range(d)}  # fmt: skip
    columns |= {f"noise {j}": rng.random(n) for j in range(rng.integers(0, 3))}
    for j in range(rng.integers(1, 4) if cats else 0):
        levels = int(rng.integers(2, 7))
        chances = rng.dirichlet(np.full(levels, 0.7), k)
        if rng.random() < 0.4:  # tells nothing about the clusters
            chances = np.tile(chances[:1], (k, 1))
        columns[f"category {j}"] = [f"v{rng.choice(levels, p=chances[g])}" for g in group]
    for j in range(rng.integers(1, 4) if ratings else 0):
        most, noise = int(rng.integers(2, 7)), rng.normal(size=n)
        middle = rng.uniform(0, most, k) if rng.random() < 0.5 else np.full(k, most / 2)
        columns[f"rating {j}"] = np.clip(np.round(middle[group] + noise), 0, most)
    if date:
        days = rng.integers(0, rng.integers(200, 2500), n)
        columns["date"] = pd.Timestamp("2020-01-01") + pd.to_timedelta(days, unit="D")
    frame = pd.DataFrame(columns)
    for j in range(rng.integers(1, d + 1) if gaps else 0):
        frame.loc[rng.random(n) < rng.uniform(0.02, 0.15), f"number {j}"] = np.nan
    return frame, k


def tables():
    """Columns without clusters of their own must not make or hide any."""
    every = ("cats", "ratings", "date", "gaps")
    rows = []
    for kinds in ((), *((kind,) for kind in every), every):
        found = []
        for seed in range(SEED, SEED + N_TABLES):
            frame, k = mixed_table(seed, **dict.fromkeys(kinds, True))
            X = table_pipeline(frame, MaxMarginClustering())[:-1].fit_transform(frame)
            choice = choose_n_clusters(X, random_state=0)
            found.append((choice.n_clusters == k, choice.uncertain, choice.n_clusters - k))
        right, doubt, off = np.array(found, dtype=int).T
        rows.append((", ".join(kinds) or "numbers", *_shares(right == 1, doubt == 1), off.mean()))
    header = ["also", "right", "right and sure", "uncertain if wrong", "mean error"]
    table(f"{N_TABLES} tables of each kind", header, rows)


def cost():
    """CPU time of n_clusters=None beside that of the number it finds."""
    rows = []
    for kind in ("blobs", "shapes", "without clusters"):
        ratios, beside_two = [], []
        for one in sets_of(kind, N_TIMED):
            chosen, model = _fit_seconds(one.X, None)
            given, _ = _fit_seconds(one.X, one.k)
            ratios.append(chosen / given if model.n_clusters_ == one.k else np.nan)
            if one.k == 1:  # for which a fit does no search
                beside_two.append(chosen / _fit_seconds(one.X, 2)[0])
        rows.append((kind, float(np.nanmedian(ratios)), float(np.nanmax(ratios))))
    rows.append((f"{kind}, 2 given", float(np.median(beside_two)), float(np.max(beside_two))))
    table("CPU of a fit that chooses k / with k given (target 6)", ["sets", "median", "most"], rows)


def _fit_seconds(X, k):
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        begin = time.process_time()
        model = MaxMarginClustering(k, random_state=0).fit(X)
        return time.process_time() - begin, model


def real():
    """What is said about data with classes."""
    loaded = {
        name: getattr(datasets, f"load_{name}")(return_X_y=True)
        for name in ("iris", "wine", "breast_cancer", "digits")
    }
    sets = {
        name: (X if name == "digits" else StandardScaler().fit_transform(X), y)
        for name, (X, y) in loaded.items()
    }
    sets["moons"] = datasets.make_moons(400, noise=0.08, random_state=0)
    for name, (X, y) in sets.items():
        choice = choose_n_clusters(X, random_state=0)
        print(f"{name} ({len(set(y))} classes): {choice.statement} HDBSCAN {hdbscan_number(X)}.")


SECTIONS = {"drawn": drawn, "many": many, "tables": tables, "cost": cost, "real": real}


if __name__ == "__main__":
    run_sections(SECTIONS, __doc__, UserWarning)
