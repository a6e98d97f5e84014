"""Alternating margin clustering beside its paper (Zhang, Tsang & Kwok 2009) and k-means.

    MAXMARGIN_DATA=folder python benchmarks/alternating.py [section ...]

Sections: label-free, table-4, table-1, figure-5, table-2, adult, svr-speed, scale. "Label-free"
means that no setting was chosen with the true labels; "post hoc" that the kernel width was, as in
the paper.
"""

import time

import numpy as np
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import euclidean_distances
from sklearn.svm import SVR

from _data import best_time, classes, load, run_sections, sample, table
from maxmargin import AlternatingMarginClustering
from maxmargin.commands.demo import ringnorm
from maxmargin.engine.balance import balanced_split, size_floor
from maxmargin.metrics import balanced_clustering_error, clustering_error

# Paper's C (section IV-B) and its Table IV: k-means, iterSVM, iterLS-SVM, iterSVR, in percent.
PAPER_C = {"hinge": 10.0, "squared": 100.0, "laplacian": 500.0}
SETS = {
    "digits 3-8": (lambda: classes("optdigits_test", 3, 8), 0.94, (5.3, 4.5, 4.2, 3.4)),
    "digits 1-7": (lambda: classes("optdigits_test", 1, 7), 0.94, (0.0, 0.0, 0.0, 0.0)),
    "digits 2-7": (lambda: classes("optdigits_test", 2, 7), 0.94, (3.1, 3.1, 0.6, 0.0)),
    "digits 8-9": (lambda: classes("optdigits_test", 8, 9), 0.94, (9.3, 4.8, 4.2, 3.7)),
    "digits 3-9": (lambda: classes("optdigits_train", 3, 9), 0.94, (20.9, 18.8, 15.6, 9.2)),
    "ionosphere": (lambda: load("ionosphere"), 0.70, (28.8, 28.5, 24.5, 28.2)),
    "svmguide1 (s)": (lambda: sample("svmguide1", 500), 0.94, (23.5, 6.6, 6.0, 6.8)),
    "ringnorm (s)": (lambda: sample("ringnorm", 500), 0.94, (24.0, 23.8, 15.5, 3.2)),
    "letter A-B": (lambda: classes("letter", 0, 1), 0.94, (17.9, 7.4, 7.4, 7.2)),
    "satellite C1-C2": (lambda: classes("satellite", 0, 1), 0.70, (4.1, 3.8, 4.4, 3.6)),
}


def percent(y, labels):
    return 100.0 * clustering_error(y, labels)


def median_distance(X):
    d = euclidean_distances(X, squared=True)[np.triu_indices(X.shape[0], 1)]
    return np.sqrt(np.median(d))


def paper_settings(X, loss, width, **params):
    """The paper's literal algorithm: Gaussian kernel of ``width`` median distances, its own C."""
    n = X.shape[0]
    gamma = 1.0 / (width * median_distance(X)) ** 2
    mean_kernel = np.exp(-gamma * euclidean_distances(X, squared=True)).mean()
    # Centred features have mean square 1 - mean K; alpha = 1 / (nC), 2 / (nC) for the LS-SVM.
    alpha = (2.0 if loss == "squared" else 1.0) / (n * PAPER_C[loss] * (1.0 - mean_kernel))
    return AlternatingMarginClustering(
        loss=loss, gamma=gamma, alpha=alpha, anneal=False, random_state=0, **params
    )


def label_free():
    rows = []
    for name, (read, balance, paper) in SETS.items():
        X, y = read()
        start = time.process_time()
        model = AlternatingMarginClustering(balance=balance, random_state=0).fit(X)
        seconds = time.process_time() - start
        kmeans = KMeans(2, n_init=10, random_state=0).fit(X).labels_
        rows.append((name, percent(y, kmeans), percent(y, model.labels_), paper[3], seconds))
    mean = [float(np.mean([r[i] for r in rows])) for i in range(1, 5)]
    rows.append(("mean", *mean))
    table(
        "Clustering error %, LABEL-FREE defaults (only k and balance given)",
        ["data", "k-means", "ours", "paper's SVR (label-tuned)", "CPU s"],
        rows,
    )
    print(f"target: mean <= 6.0; reached {mean[1]:.2f}")


def table_4():
    """Each width of the kernel is tried from ten k-means starts, the best kept by objective."""
    rows = []
    for name in SETS:
        read, balance, paper = SETS[name]
        X, y = read()
        row = [name]
        for loss, theirs in (("hinge", paper[1]), ("squared", paper[2]), ("laplacian", paper[3])):
            best = np.inf
            for width in (1, 2, 4, 8, 16, 32):
                model = paper_settings(
                    X, loss, width, balance=balance, init="k-means", n_init=10, bias="midpoint"
                )
                best = min(best, percent(y, model.fit(X).labels_))
            row += [best, theirs]
        rows.append(row)
    table(
        "Table IV, clustering error %, POST HOC (best sigma by the true labels, as in the paper; "
        "best of 10 k-means starts by objective)",
        ["data", "SVM", "paper", "LS-SVM", "paper", "SVR", "paper"],
        rows,
    )


def table_1():
    X, y = classes("optdigits_train", 3, 9)
    mean_square = ((X - X.mean(axis=0)) ** 2).sum(axis=1).mean()
    paper = {
        "hinge": (31.13, 21.27, 19.7, 19.2, 19.7, 19.46, 19.46),
        "laplacian": (14.01, 2.98, 2.85, 3.24, 3.76, 3.5, 3.5),
    }
    rows = []
    for i, C in enumerate((1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 100.0)):
        row = [f"{C:g}"]
        for loss in ("hinge", "laplacian"):
            model = AlternatingMarginClustering(
                loss=loss, kernel="linear", epsilon=0.0, alpha=1.0 / (len(X) * C * mean_square),
                anneal=False, balance=0.94, init="spectral", random_state=0,
            )  # fmt: skip
            row += [percent(y, model.fit(X).labels_), paper[loss][i]]
        rows.append(row)
    table(
        "Table I, digits 3-9, linear kernel, spectral start, clustering error %",
        ["C", "SVM", "paper", "SVR", "paper"],
        rows,
    )


def figure_5():
    X, y = classes("optdigits_train", 3, 9)
    mean_square = ((X - X.mean(axis=0)) ** 2).sum(axis=1).mean()
    rows = []
    for loss, epsilon in (("hinge", 0.0), *(("laplacian", e) for e in (0.0, 0.05, 0.5, 0.9))):
        model = AlternatingMarginClustering(
            loss=loss, epsilon=epsilon, kernel="linear", alpha=1.0 / (len(X) * mean_square),
            anneal=False, balance=0.94, init="spectral", random_state=0,
        ).fit(X)  # fmt: skip
        svm = model.to_svm(X, C=1.0)
        w = svm.coef_[0]
        slack = np.maximum(0.0, 1.0 - np.where(model.labels_, 1, -1) * svm.decision_function(X))
        objective = w @ w + 2.0 * slack.sum()
        name = "SVM" if loss == "hinge" else f"SVR eps={epsilon:g}"
        rows.append((name, percent(y, model.labels_), float(objective), model.n_iter_))
    table(
        "Fig. 5, digits 3-9, C = 1: error % and SVM objective of the final labels",
        ["method", "error", "objective (2)", "iterations"],
        rows,
    )


def table_2():
    """All 45 digit pairs at one fixed width (16 medians): initial and final error by start."""
    X, y = load("optdigits_test")
    errors = {init: [] for init in ("random", "k-means", "spectral")}
    for a in range(10):
        for b in range(a):
            keep = (y == a) | (y == b)
            pair, truth = X[keep], y[keep] == a
            for init, found in errors.items():
                model = paper_settings(
                    pair, "laplacian", 16, balance=0.94, init=init, n_init=1
                ).fit(pair)
                found.append(percent(truth, model.labels_))
    paper = {"random": 28.57, "k-means": 1.92, "spectral": 0.91}
    rows = [(init, float(np.mean(found)), paper[init]) for init, found in errors.items()]
    table(
        "Table II, 45 digit pairs, SVR at C = 500, sigma = 16 medians (one start each), error %",
        ["start", "ours", "paper (best sigma)"],
        rows,
    )


def adult():
    X, y = load("adult_a9a")
    X, rng = X.toarray(), np.random.RandomState(0)
    order, rows, times = rng.permutation(len(y)), [], []
    for n in (1605, 3185, 6414, 11220, 22696, 32561):
        part, truth = X[order[:n]], y[order[:n]]
        start = time.process_time()
        model = AlternatingMarginClustering(balance=0.7, random_state=0).fit(part)
        seconds = time.process_time() - start
        kmeans = KMeans(2, n_init=10, random_state=0).fit(part).labels_
        errors = [100 * balanced_clustering_error(truth, v) for v in (kmeans, model.labels_)]
        rows.append((str(n), *errors, seconds))
        times.append((n, seconds))
    table(
        "Fig. 8, adult subsets (random subsets of a9a), balanced error %, label-free, balance 0.7",
        ["n", "k-means", "ours", "CPU s"],
        rows,
    )
    n, seconds = np.log(np.array(times)).T
    slope = np.polyfit(n[1:], seconds[1:], 1)[0]
    print(f"exponent of CPU time in n: {slope:.2f} (paper: SVR 2.01, LS-SVM 2.62)")


def through_sklearn(X, start, gamma, C, balance):
    """The same alternation with scikit-learn's SVR."""
    signs = np.where(start == 1, 1, -1)
    for iteration in range(1, 101):  # noqa: B007 - returned
        machine = SVR(gamma=gamma, C=C, epsilon=0.05, cache_size=1000).fit(X, signs)
        g = machine.predict(X) - machine.intercept_[0]
        floor = size_floor(balance, len(X), 2)
        new = balanced_split(g, "laplacian", sizes=floor, epsilon=0.05).signs
        if (new == signs).all():
            break
        signs = new
    return signs, iteration


def svr_speed():
    rows = []
    for name in ("letter A-B", "satellite C1-C2"):
        read, balance, _ = SETS[name]
        X, _ = read()
        start = KMeans(2, n_init=10, random_state=0).fit(X).labels_
        for width in (8, 16):
            ours = paper_settings(X, "laplacian", width, balance=balance, init=start)
            seconds, _ = best_time(ours.fit, X)
            setting = (X, start, ours.gamma, PAPER_C["laplacian"], balance)
            theirs, (signs, iterations) = best_time(through_sklearn, *setting)
            differ = 100.0 * clustering_error(signs, ours.labels_)
            rows.append(
                (name, width, seconds, ours.n_iter_, theirs, iterations, theirs / seconds, differ)
            )
    table(
        "SVR alternation against the same with sklearn.svm.SVR (same start, same C, no annealing)",
        ["data", "sigma/median", "ours s", "iter", "sklearn s", "iter", "ratio", "labels differ %"],
        rows,
    )


def scale():
    rows, ours = [], {}
    for n in (10_000, 100_000, 1_000_000):
        X, y = ringnorm(n // 2)
        for loss in ("squared", "laplacian"):
            model = AlternatingMarginClustering(
                loss=loss, n_components=128, balance=0.94, random_state=0, n_jobs=1
            )
            begin = time.process_time()
            model.fit(X)
            ours[n, loss] = time.process_time() - begin
            rows.append((f"{n:.0e}", f"ours, {loss}", ours[n, loss], percent(y, model.labels_)))
        begin = time.process_time()
        labels = KMeans(2, n_init=10, random_state=0).fit(X).labels_
        kmeans = time.process_time() - begin
        rows.append((f"{n:.0e}", "KMeans(n_init=10)", kmeans, percent(y, labels)))
    table("Scale: ringnorm, d = 20, 128 components", ["n", "method", "CPU s", "error %"], rows)
    growth = ours[1_000_000, "squared"] / ours[100_000, "squared"]
    print(f"squared loss, time(1e6) / time(1e5): {growth:.1f} (target <= 12)")
    print(
        f"squared loss / KMeans(n_init=10) at 1e6: {ours[1_000_000, 'squared'] / kmeans:.2f} (<= 1)"
    )


SECTIONS = {
    "label-free": label_free,
    "table-4": table_4,
    "table-1": table_1,
    "figure-5": figure_5,
    "table-2": table_2,
    "adult": adult,
    "svr-speed": svr_speed,
    "scale": scale,
}


if __name__ == "__main__":
    run_sections(SECTIONS, __doc__, ConvergenceWarning)
