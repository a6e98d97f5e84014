"""What is known of some rows: labels, constraints, answers to questions; beside other methods.

    MAXMARGIN_DATA=folder MAXMARGIN_JOBS=16 python benchmarks/knowledge.py [section ...]
    python benchmarks/knowledge.py SECTION --page FILE    # what the line above printed, to the docs

Sections are labels, links, few, nine, both, active, wrong and calibration; each function says what
it measures. Tasks are those of quality.py but blobs and mnist; every figure is the mean of three
draws. What is known is given to all methods alike, and true classes serve to score and to answer
only. MAXMARGIN_JOBS fits run at once (default 1). MAXMARGIN_TASKS can name some of the tasks,
separated by commas. --page reads the stored output of one section, whose first line says when and
on which machine it was measured, and writes its tables into docs/known_labels.md; a minus sign and
red mark an accuracy of more than 0.01 below the best of the others.
"""

import inspect
import os
import re
import sys
import time
import warnings
from itertools import product
from pathlib import Path

import joblib
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import LabelSpreading, SelfTrainingClassifier
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from _data import run_sections, table
from maxmargin import (
    LabelQueries,
    MaxMarginClustering,
    PairwiseConstraints,
    PairwiseMarginClustering,
)
from maxmargin.metrics import adjusted_rand_score, clustering_accuracy
from page import conditions, fill, markdown, shown
from quality import dense, task
from quality import task_names as all_task_names
from reproduction.baselines import PCKMeans
from reproduction.data import load_data

DRAWS = 3
SHARES = {"1 per class": 0.0, "1 %": 0.01, "5 %": 0.05, "20 %": 0.2}
TASKS = ("iris", "wine", "breast_cancer", "digits", "usps", "coil20", "letter", "satellite",
         "segment", "ionosphere", "vehicle", "svmguide1", "ringnorm", "magic", "news20", "ohscal",
         "webkb", "moons")  # fmt: skip


def task_names(*names):
    wanted = os.environ.get("MAXMARGIN_TASKS", "")
    return all_task_names(*(wanted.split(",") if wanted else names))


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


def timed(work, *args):
    """What some work returns, and its CPU seconds on one thread."""
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        begin = time.process_time()
        found = work(*args)
        return found, time.process_time() - begin


def without_labels(name, seed):
    X, _, k = task(name)
    return MaxMarginClustering(k, n_resamples=0, random_state=seed).fit(X).labels_


def answers(name, seed, share, method):
    X, y, k = task(name)
    return METHODS[method](X, known_labels(y, share, seed), k, seed)


def parallel(work, *lists):
    """Results of the work for every combination, as an array of that shape."""
    jobs = int(os.environ.get("MAXMARGIN_JOBS", "1"))
    found = joblib.Parallel(jobs)(joblib.delayed(timed)(work, *args) for args in product(*lists))
    results = np.empty(len(found), object)
    results[:] = found
    return results.reshape([len(values) for values in lists])


def labels():
    """Known labels at random, at least one of each class.

    SVC has `C=10`, LabelSpreading 10 neighbours, self-training is that of a logistic regression;
    named clusters are those of a fit without labels, each with the class that most of its known
    rows have. "Best other" is picked for each task with the true classes in view, and is no method
    that anyone could use. Without a label, clusters are matched one-to-one to the classes.
    """
    names, draws = task_names(*TASKS), range(DRAWS)
    free = parallel(without_labels, names, draws)
    found = parallel(answers, names, draws, list(SHARES.values()), list(METHODS))
    columns = ["task", *METHODS, "named clusters", "best other - ours"]
    truth = {name: task(name)[1:] for name in names}
    for i, (share, of) in enumerate(SHARES.items()):
        rows = []
        for at, name in enumerate(names):
            y, k = truth[name]
            right = np.zeros((DRAWS, len(METHODS) + 1))
            for seed in draws:
                known = known_labels(y, of, seed)
                given = [answer for answer, _ in found[at, seed, i]]
                for j, answer in enumerate([*given, named(free[at, seed][0], known, k)]):
                    right[seed, j] = np.mean((answer == y)[known < 0])
            mean = right.mean(axis=0)
            rows.append((name, *mean, float(mean[1:].max() - mean[0])))
        rows.append(("mean", *np.mean([row[1:] for row in rows], axis=0)))
        table(f"accuracy on the other rows, {share} known", columns, rows, decimals=3)
        close = sum(row[-1] <= 0.01 for row in rows[:-1])
        below = sum(row[-2] - row[1] > 0.02 for row in rows[:-1])
        print(f"Within .01 of the best other on {close} of {len(names)}; ", end="")
        print(f"more than .02 below the named clusters on {below}.")
    rows = []
    for at, name in enumerate(names):
        matched = np.mean([clustering_accuracy(truth[name][0], free[at, s][0]) for s in draws])
        cpu = [np.mean([f[1] for f in part.ravel()]) for part in (free[at], found[at, :, :, 0])]
        rows.append((name, float(matched), cpu[0], cpu[1], cpu[1] / cpu[0]))
    rows.append(("mean", *np.mean([row[1:] for row in rows], axis=0)))
    columns = ["task", "matched accuracy", "CPU s", "CPU s with labels", "ratio"]
    table("no label known, and time", columns, rows, decimals=3)


def wrong_labels(name, seed):
    X, y, k = task(name)
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
    return (*accuracies, hits / len(mistaken), hits / max(len(doubted), 1))


def wrong():
    """A tenth of 5 % known labels are wrong, or a twentieth of n constraints.

    "Mistakes found" is the share of the wrong labels that `label_mistakes_` lists, "precision" the
    share of wrong labels in that list. Accuracy is that on the rows without known labels.
    """
    names = task_names(*TASKS)
    found = parallel(wrong_labels, names, range(DRAWS))
    rows = [(name, *np.mean([f for f, _ in own], axis=0)) for name, own in zip(names, found)]
    rows.append(("mean", *np.mean([row[1:] for row in rows], axis=0)))
    columns = ["task", "all right", "a tenth wrong", "mistakes found", "precision"]
    table("5 % known", columns, rows, decimals=3)
    found = parallel(wrong_links, names, range(DRAWS))
    rows = [
        (name, *map(float, np.mean([f for f, _ in own], axis=0))) for name, own in zip(names, found)
    ]
    rows.append(("mean", *np.mean([row[1:] for row in rows], axis=0)))
    table("n constraints", ["task", "all right", "a twentieth wrong"], rows, decimals=3)


def calibration_error(name, seed, bins=10):
    """Mean difference of confidence and accuracy on rows without known labels, in bins."""
    X, y, k = task(name)
    known = known_labels(y, 0.05, seed)
    P = ours(X, known, k, seed).predict_proba(X)[known < 0]
    sure, right = P.max(axis=1), P.argmax(axis=1) == y[known < 0]
    at = np.minimum((sure * bins).astype(int), bins - 1)
    return np.abs(np.bincount(at, sure - right, minlength=bins)).sum() / len(sure)


def calibration():
    """Expected calibration error: mean difference of probability and accuracy, in ten bins."""
    names = task_names(*TASKS)
    found = parallel(calibration_error, names, range(DRAWS))
    rows = [(name, float(np.mean([e for e, _ in own]))) for name, own in zip(names, found)]
    table("expected calibration error, 5 % known", ["task", "error"], rows, decimals=3)


# -- constraints ---------------------------------------------------------------------------------


def linked(y, count, seed, share=0.0):
    """Random constraints, a share of them wrong."""
    links = PairwiseConstraints.from_labels(y, n_pairs=count, random_state=seed).links()
    wrong = np.random.default_rng(seed).random(count) < share
    pairs, same = np.stack([links.first, links.second], axis=1), links.same ^ wrong
    return PairwiseConstraints(len(y), pairs[same], pairs[~same])


def cop_kmeans(X, k, links, seed, rounds=20):
    """Wagstaff et al. 2001: rows in random order go to the nearest centre that no link forbids."""
    rng, X = np.random.default_rng(seed), dense(X)
    groups, apart = links.closure()
    order = np.argsort(groups, kind="stable")
    starts = np.searchsorted(groups[order], np.arange(groups.max() + 1))
    sizes = np.bincount(groups)
    means = np.add.reduceat(X[order], starts, axis=0) / sizes[:, None]
    near = [[] for _ in sizes]
    for a, b in apart.tolist():
        near[a].append(b)
        near[b].append(a)
    centres = means[rng.choice(len(means), k, replace=False)]
    for _ in range(rounds):
        distances = ((means[:, None] - centres[None]) ** 2).sum(axis=2)
        labels = np.full(len(means), -1)
        for group in rng.permutation(len(means)):
            costs = distances[group].copy()
            taken = labels[near[group]]
            if len(np.unique(taken[taken >= 0])) < k:  # else a link is violated
                costs[taken[taken >= 0]] = np.inf
            labels[group] = costs.argmin()
        total = np.bincount(labels, sizes, minlength=k)
        sums = np.zeros_like(centres)
        np.add.at(sums, labels, means * sizes[:, None])
        centres = np.where(total[:, None] > 0, sums / np.maximum(total, 1)[:, None], centres)
    return labels[groups]


def pairwise(X, k, links, seed):
    model = PairwiseMarginClustering(k, on_conflict="soft", random_state=seed)
    return model.fit(X, constraints=links).labels_


def front_door(X, k, links, seed, known=None):
    model = MaxMarginClustering(k, n_resamples=0, random_state=seed)
    return model.fit(X, constraints=links, partial_labels=known).labels_


LINK_METHODS = {
    "maxmargin": front_door,
    "Pairwise": pairwise,
    "PCKMeans": lambda X, k, links, seed: (
        PCKMeans(k, random_state=seed).fit(dense(X), constraints=links).labels_
    ),
    "COP-k-means": cop_kmeans,
}


def linked_accuracy(name, seed, of, method):
    X, y, k = task(name)
    return clustering_accuracy(
        y, LINK_METHODS[method](X, k, linked(y, int(of * len(y)), seed), seed)
    )


def links():
    """Random constraints; accuracy of clusters matched one-to-one to the classes.

    "None" is a fit without constraints, "Pairwise" is PairwiseMarginClustering.
    """
    names, sizes = task_names(*TASKS), {"n/2": 0.5, "n": 1.0, "2n": 2.0}
    free = parallel(without_labels, names, range(DRAWS))
    found = parallel(linked_accuracy, names, range(DRAWS), list(sizes.values()), list(LINK_METHODS))
    for i, size in enumerate(sizes):
        rows = []
        for at, name in enumerate(names):
            none = np.mean([clustering_accuracy(task(name)[1], f) for f, _ in free[at]])
            values = np.mean([[f for f, _ in own] for own in found[at, :, i]], axis=0)
            rows.append((name, float(none), *map(float, values)))
        rows.append(("mean", *np.mean([row[1:] for row in rows], axis=0)))
        table(f"{size} random constraints", ["task", "none", *LINK_METHODS], rows, decimals=3)


FEW = (1, 5, 20, 200)  # constraints


def changed_by_few(name, seed):
    """ARI without constraints, and its change with so many true ones."""
    X, y, k = task(name)
    free = adjusted_rand_score(y, without_labels(name, seed))
    linked_fits = (front_door(X, k, linked(y, count, seed), seed) for count in FEW)
    return [free, *(adjusted_rand_score(y, labels) - free for labels in linked_fits)]


def few():
    """A few true constraints, at random: change of the ARI, mean and worst of the draws."""
    names = task_names("digits", "moons", "iris", "breast_cancer")
    found = np.array(
        [[one for one, _ in own] for own in parallel(changed_by_few, names, range(DRAWS))]
    )
    rows = [
        (name, float(own[:, 0].mean()), *(f"{m:+.3f} ({w:+.3f})" for m, w in
         zip(own[:, 1:].mean(axis=0), own[:, 1:].min(axis=0))))
        for name, own in zip(names, found)
    ]  # fmt: skip
    table(
        "Change of the ARI, mean (worst draw)", ["task", "none", *map(str, FEW)], rows, decimals=3
    )


NINE = ("letter-ijl", "vehicle", "ionosphere", "sonar", "bci", "mnist-0689", "coil-3",
        "digits-odd-even", "segment")  # fmt: skip


def papers_accuracy(slug, seed, method):
    X, y = load_data(slug, online=False).task(0)
    classes, y = np.unique(y, return_inverse=True)
    found = LINK_METHODS[method](X, len(classes), linked(y, len(y), seed), seed)
    return clustering_accuracy(y, found)


def nine():
    """N random constraints on nine sets of the pairwise paper; clusters matched one-to-one."""
    found = parallel(papers_accuracy, NINE, range(DRAWS), list(LINK_METHODS))
    rows = [
        (slug, *map(float, np.mean([[f for f, _ in own] for own in draws], axis=0)))
        for slug, draws in zip(NINE, found)
    ]
    rows.append(("mean", *np.mean([row[1:] for row in rows], axis=0)))
    table("n random constraints, sets of the paper", ["task", *LINK_METHODS], rows, decimals=3)


def both_accuracies(name, seed):
    """Labels alone, constraints alone, and both: accuracy, clusters matched to the classes."""
    X, y, k = task(name)
    known, some = known_labels(y, 0.05, seed), linked(y, len(y) // 2, seed)
    given = (None, known), (some, None), (some, known)
    return [clustering_accuracy(y, front_door(X, k, a, seed, b)) for a, b in given]


def both():
    """5 % of the labels, n/2 random constraints, and both together."""
    names = task_names(*TASKS)
    found = parallel(both_accuracies, names, range(DRAWS))
    rows = [
        (name, *map(float, np.mean([f for f, _ in own], axis=0))) for name, own in zip(names, found)
    ]
    kept = sum(row[3] >= max(row[1:3]) - 0.01 for row in rows)
    rows.append(("mean", *np.mean([row[1:] for row in rows], axis=0)))
    columns = ["task", "5 % labels", "n/2 constraints", "both"]
    table("labels and constraints", columns, rows, decimals=3)
    print(f"At least the better of the two less .01 on {kept} of {len(names)}.")


# -- questions -----------------------------------------------------------------------------------


def asked(name, seed):
    """Accuracy with 5 k questions, their number, and with 5 k and 10 k random labels."""
    X, y, k = task(name)
    model = MaxMarginClustering(k, n_resamples=0, random_state=seed)
    loop = LabelQueries(model, X, random_state=seed)
    while len(loop.answers) < 5 * k and len(
        rows := loop.suggest(min(k, 5 * k - len(loop.answers)))
    ):
        loop.tell(rows, y[rows])
    found = []
    for known in (loop.partial_labels, drawn(y, 5 * k, seed), drawn(y, 10 * k, seed)):
        rest = known < 0
        found.append(np.mean(ours(X, known, k, seed).labels_[rest] == y[rest]))
    return found[0], len(loop.answers) / k, *found[1:]


def drawn(y, count, seed):
    """So many labels of random rows, at least one of each class."""
    rows = np.random.default_rng(seed).permutation(len(y))
    first = rows[np.unique(y[rows], return_index=True)[1]]
    rows = np.concatenate([first, np.setdiff1d(rows[:count], first, assume_unique=True)])[:count]
    known = np.full(len(y), -1)
    known[rows] = y[rows]
    return known


def active():
    """Five questions of LabelQueries for each class, beside five and ten random labels."""
    names = task_names(*TASKS)
    found = parallel(asked, names, range(DRAWS))
    rows = [
        (name, *map(float, np.mean([f for f, _ in own], axis=0))) for name, own in zip(names, found)
    ]
    won = sum(row[1] >= row[4] for row in rows)
    rows.append(("mean", *np.mean([row[1:] for row in rows], axis=0)))
    columns = ["task", "5 k questions", "asked / k", "5 k random", "10 k random"]
    table("questions about labels", columns, rows, decimals=3)
    print(f"At least as good as twice as many random labels on {won} of {len(names)}.")


def wrong_links(name, seed):
    X, y, k = task(name)
    found = [front_door(X, k, linked(y, len(y), seed, share), seed) for share in (0.0, 0.05)]
    return [clustering_accuracy(y, labels) for labels in found]


SECTIONS = {"labels": labels, "links": links, "few": few, "nine": nine, "both": both,
            "active": active, "wrong": wrong, "calibration": calibration}  # fmt: skip
HEADINGS = {"few": "A few constraints", "nine": "Links on nine data sets",
            "both": "Labels and links together", "active": "Questions",
            "wrong": "Wrong labels"}  # fmt: skip
COMPARED = {  # columns of ours, and those that they are compared with
    "maxmargin": ("none", "SVC", "LabelSpreading", "self-training", "named clusters", "Pairwise",
                  "PCKMeans", "COP-k-means"),
    "both": ("5 % labels", "n/2 constraints"),
    "5 k questions": ("10 k random",),
}  # fmt: skip


def marked(line, columns):
    """Cells of a row, ours marked if it is more than 0.01 below the best of the others."""
    cells = dict(zip(columns, line))
    for ours, others in COMPARED.items():
        best = max((float(cells[other]) for other in others if other in cells), default=0.0)
        if ours in cells and round(best - float(cells[ours]), 3) > 0.01:
            cells[ours] = shown(float(cells[ours]), lost=True)
    return list(cells.values())


def section_text(section, printed):
    """The section of the page, from what its function printed."""
    told, *tables = re.split("\n\n+", printed.strip())
    description = inspect.getdoc(SECTIONS[section])
    heading = HEADINGS.get(section, section.capitalize())
    parts = [f"### {heading}", f"{description}\n\n{told}"]
    for text in tables:
        title, header, _, *lines = text.split("\n")
        columns, *rows = [re.split("  +", line) for line in (header, *lines)]
        figures = [marked(row, columns) for row in rows if len(row) == len(columns)]
        notes = [row[0] for row in rows if len(row) == 1]
        parts += [f"**{title[0].upper()}{title[1:]}**", markdown(columns, figures), *notes]
    return "\n\n".join(parts)


if __name__ == "__main__":
    if "--page" in sys.argv:
        section, _, path = sys.argv[1:]
        page = Path(__file__).parents[1] / "docs" / "known_labels.md"
        fill(page, section, section_text(section, Path(path).read_text()))
    else:
        print(f"Measured {conditions()}.", flush=True)
        run_sections(SECTIONS, __doc__, UserWarning)
