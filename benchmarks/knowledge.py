"""A few known labels: accuracy on the other rows, beside classifiers and named clusters.

    MAXMARGIN_DATA=folder MAXMARGIN_JOBS=16 python benchmarks/knowledge.py [section ...]

Sections: labels (one for each class, 1 %, 5 % and 20 % of the rows, and none: clusters matched
one-to-one to the classes), wrong (a tenth of 5 % known labels are wrong), calibration (expected
calibration error of the probabilities at 5 %). Tasks are those of quality.py but blobs and mnist;
every figure is the mean of three draws. Known labels are given to all methods alike, and true
classes serve to score only. MAXMARGIN_JOBS tasks run at once (default 1).
"""

import os
import time
import warnings

import joblib
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import LabelSpreading, SelfTrainingClassifier
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from _data import run_sections, table
from maxmargin import MaxMarginClustering
from maxmargin.metrics import clustering_accuracy
from quality import dense, task, task_names

DRAWS = 3
SHARES = {"1 per class": 0.0, "1 %": 0.01, "5 %": 0.05, "20 %": 0.2}
TASKS = ("iris", "wine", "breast_cancer", "digits", "usps", "coil20", "letter", "satellite",
         "segment", "ionosphere", "vehicle", "svmguide1", "ringnorm", "magic", "news20", "ohscal",
         "webkb", "moons")  # fmt: skip


def known_labels(y, share, seed):
    """Labels of a random share of the rows, at least one of each class; -1 elsewhere."""
    rows = np.random.default_rng(seed).permutation(len(y))
    known = np.full(len(y), -1)
    first = rows[np.unique(y[rows], return_index=True)[1]]
    for part in (first, rows[: int(share * len(y))]):
        known[part] = y[part]
    return known


def ours(X, known, k, seed):
    return MaxMarginClustering(k, n_resamples=0, random_state=seed).fit(X, partial_labels=known)


def svc(X, known, k, seed):
    rows = known >= 0
    return SVC(C=10).fit(X[rows], known[rows]).predict(X)


def spreading(X, known, k, seed):
    return LabelSpreading(kernel="knn", n_neighbors=10).fit(dense(X), known).transduction_


def self_training(X, known, k, seed):
    steps = make_pipeline(StandardScaler(with_mean=False), LogisticRegression(max_iter=500))
    return SelfTrainingClassifier(steps).fit(X, known).predict(X)


def named(labels, known, k):
    """Clusters, each with the class that most of its known rows have."""
    votes = np.zeros((labels.max() + 1, k))
    rows = known >= 0
    np.add.at(votes, (labels[rows], known[rows]), 1)
    shares = np.bincount(known[rows], minlength=k) / rows.sum()
    return (votes + 1e-3 * shares).argmax(axis=1)[labels]


METHODS = {
    "maxmargin": lambda *args: ours(*args).labels_,
    "SVC": svc,
    "LabelSpreading": spreading,
    "self-training": self_training,
}


def scores(name):
    """Accuracy of (share, method) on rows without known labels, and CPU seconds of ours."""
    X, y, k = task(name)
    found = np.zeros((len(SHARES), len(METHODS) + 1))
    free, cpu = [], np.zeros(2)
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(DRAWS):
            begin = time.process_time()
            labels = MaxMarginClustering(k, n_resamples=0, random_state=seed).fit(X).labels_
            cpu[0] += time.process_time() - begin
            free.append(clustering_accuracy(y, labels))
            for i, share in enumerate(SHARES.values()):
                known = known_labels(y, share, seed)
                rest = known < 0
                for j, method in enumerate(METHODS.values()):
                    begin = time.process_time()
                    answer = method(X, known, k, seed)
                    cpu[1] += (j == 0) * (time.process_time() - begin) / len(SHARES)
                    found[i, j] += np.mean(answer[rest] == y[rest]) / DRAWS
                found[i, -1] += np.mean(named(labels, known, k)[rest] == y[rest]) / DRAWS
    return found, np.mean(free), cpu[1] / cpu[0]


def parallel(work, names):
    jobs = int(os.environ.get("MAXMARGIN_JOBS", "1"))
    return joblib.Parallel(jobs)(joblib.delayed(work)(name) for name in names)


def labels():
    names = task_names(*TASKS)
    results = parallel(scores, names)
    columns = ["task", *METHODS, "named clusters", "best other - ours"]
    for i, share in enumerate(SHARES):
        rows = []
        for name, (found, *_) in zip(names, results):
            rows.append((name, *found[i], float(found[i, 1:].max() - found[i, 0])))
        rows.append(("mean", *np.mean([row[1:] for row in rows], axis=0)))
        table(f"accuracy on the other rows, {share} known", columns, rows, decimals=3)
        close = sum(row[-1] <= 0.01 for row in rows[:-1])
        print(f"within .01 of the best other on {close} of {len(names)}")
    rows = [(name, free, ratio) for name, (_, free, ratio) in zip(names, results)]
    table("no label known", ["task", "matched accuracy", "CPU, with / without labels"], rows, 3)


def wrong_labels(name):
    X, y, k = task(name)
    found = []
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(DRAWS):
            known = known_labels(y, 0.05, seed)
            rest, rows = known < 0, np.flatnonzero(known >= 0)
            rng = np.random.default_rng(seed)
            mistaken = rng.choice(rows, max(len(rows) // 10, 1), replace=False)
            spoilt = known.copy()
            spoilt[mistaken] = (spoilt[mistaken] + rng.integers(1, k, len(mistaken))) % k
            right, model = ours(X, known, k, seed), ours(X, spoilt, k, seed)
            doubted = model.label_mistakes_[:, 0]
            hits = np.isin(doubted, mistaken).sum()
            accuracies = [np.mean(m.labels_[rest] == y[rest]) for m in (right, model)]
            found.append((*accuracies, hits / len(mistaken), hits / max(len(doubted), 1)))
    return np.mean(found, axis=0)


def wrong():
    names = task_names(*TASKS)
    rows = [(name, *found) for name, found in zip(names, parallel(wrong_labels, names))]
    rows.append(("mean", *np.mean([row[1:] for row in rows], axis=0)))
    columns = ["task", "all right", "a tenth wrong", "mistakes found", "precision"]
    table("5 % known", columns, rows, decimals=3)


def calibration_error(name, bins=10):
    """Mean difference of confidence and accuracy on rows without known labels, in bins."""
    X, y, k = task(name)
    errors = []
    for seed in range(DRAWS):
        known = known_labels(y, 0.05, seed)
        P = ours(X, known, k, seed).predict_proba(X)[known < 0]
        sure, right = P.max(axis=1), P.argmax(axis=1) == y[known < 0]
        at = np.minimum((sure * bins).astype(int), bins - 1)
        gaps = np.bincount(at, sure - right, minlength=bins)
        errors.append(np.abs(gaps).sum() / len(sure))
    return np.mean(errors)


def calibration():
    names = task_names(*TASKS)
    rows = list(zip(names, map(float, parallel(calibration_error, names))))
    table("expected calibration error, 5 % known", ["task", "error"], rows, decimals=3)


SECTIONS = {"labels": labels, "wrong": wrong, "calibration": calibration}


if __name__ == "__main__":
    run_sections(SECTIONS, __doc__, UserWarning)
