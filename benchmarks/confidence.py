"""Whether the confidence of MaxMarginClustering is meant: calibration and outliers.

    MAXMARGIN_DATA=folder python benchmarks/confidence.py [calibration | outliers ...]

Sections: calibration (expected calibration error of ``predict_proba`` in ten bins, against the
labels of fresh fits on other subsamples of 70 %, matched to ``labels_``) and outliers (rows of a
box five times as wide as the data, outside the data's own box, and held-out rows of the same data).
No section uses the classes. At most 2,000 rows of each set are used.
"""

import warnings

import numpy as np
from sklearn.datasets import make_blobs

from _data import run_sections, table
from maxmargin import MaxMarginClustering
from maxmargin.least_squares._confidence import rematched, subsamples
from quality import some, task, task_names

MOST_ROWS, N_FITS, N_BINS = 2000, 20, 10
SEEDS = (0, 1, 2)


def rows_of(name):
    """Rows, at most 2,000 of them, and the number of clusters."""
    X, y, k = task(name)
    return (X if len(y) <= MOST_ROWS else some(X, y, MOST_ROWS)[0]), k


def calibration_error(probabilities, right):
    """Mean difference between probability and frequency, over bins of the probability."""
    place = np.minimum((probabilities * N_BINS).astype(int), N_BINS - 1)
    sums = [np.bincount(place, values, N_BINS) for values in (probabilities, right)]
    return float(np.abs(sums[0] - sums[1]).sum() / len(place))


def fresh_labels(X, k, count):
    """Labels of fits of other subsamples with other seeds; -1 where a row was not drawn."""
    parts = np.full((count, X.shape[0]), -1)
    drawn = subsamples(X.shape[0], count, np.random.default_rng(1000))
    for number, (row, part) in enumerate(zip(parts, drawn)):
        model = MaxMarginClustering(k, n_resamples=0, random_state=1000 + number)
        row[part] = model.fit(X[part]).labels_
    return parts


def calibration():
    body = []
    for name in task_names("digits", "usps", "letter"):
        X, k = rows_of(name)
        parts = fresh_labels(X, k, N_FITS)
        for seed in SEEDS:
            model = MaxMarginClustering(k, random_state=seed).fit(X)
            P = model.predict_proba(X)
            found = rematched(model.labels_, parts, k)
            rows = np.nonzero(found >= 0)[1]
            kept = (found == model.labels_)[found >= 0].astype(float)
            chance = P[rows, found[found >= 0]]
            error = calibration_error(P.max(axis=1)[rows], kept)
            sure = float((model.confidence_ > 0.9).mean())
            body.append((name, seed, error, P.max(), P.max(axis=1)[rows].mean(), kept.mean(),
                         -np.log(chance).mean(), sure))  # fmt: skip
    table(
        "Calibration against fresh fits of 70 % (target: error <= .05)",
        ["data", "seed", "error", "largest", "mean", "kept", "log loss", "share > .9"],
        body,
        decimals=3,
    )


def far_rows(X, rng, times=5.0, count=1000):
    """Uniform rows of a wider box, outside the data's own."""
    low, high = X.min(axis=0), X.max(axis=0)
    middle, half = (low + high) / 2, np.maximum(high - low, 1e-9) / 2
    unit = times * rng.uniform(-1, 1, size=(count, X.shape[1]))
    return middle + half * unit[(np.abs(unit) > 1).any(axis=1)]


def outliers():
    rng, body = np.random.default_rng(0), []
    sets = {"blobs": (make_blobs(2000, 3, centers=5, random_state=0)[0], 5)}
    sets |= {name: rows_of(name) for name in task_names("digits", "letter")}
    for name, (X, k) in sets.items():
        order = rng.permutation(X.shape[0])
        fitted, new = X[order[::2]], X[order[1::2]]
        model = MaxMarginClustering(k, random_state=0).fit(fitted)
        far = far_rows(fitted, rng)
        body.append((name, model.is_outlier(far).mean(), model.confidence(far).max(),
                     model.is_outlier(new).mean(), model.is_outlier_.mean()))  # fmt: skip
    table(
        "Outliers at the level .01 (targets: far rows >= .95, held-out rows <= .02)",
        ["data", "far rows", "their largest confidence", "held-out rows", "fitted rows"],
        body,
        decimals=3,
    )


SECTIONS = {"calibration": calibration, "outliers": outliers}


if __name__ == "__main__":
    warnings.simplefilter("ignore", RuntimeWarning)
    run_sections(SECTIONS, __doc__, UserWarning)
