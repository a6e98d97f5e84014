"""Hostile fits over all estimators: extreme data, parameters, weights, labels and links.

    python tests/fuzz.py --fits 5000 --jobs 2 --seed 0    # a table of outcomes; exit 1 on a defect
    python tests/fuzz.py --seconds 60                     # as many as a minute allows
    python tests/fuzz.py --seed 0 --case 1234             # one case, with its details

A case follows from (seed, index) alone. A fit must end in a model whose numbers are finite and
whose ``labels_`` are its predictions, or in a ValueError or TypeError that this package or the
input validation of scikit-learn raised on purpose. Clusters keep their least size, or a warning
says that they do not. No RuntimeWarning leaks, and no fit takes more than ``CPU_LIMIT`` seconds.
"""

from __future__ import annotations

import argparse
import faulthandler
import itertools
import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
import warnings
from collections import Counter
from dataclasses import dataclass, field
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
from scipy import linalg, sparse
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.utils._param_validation import Interval, StrOptions

import maxmargin
from maxmargin._core.size_floor import size_floor

CPU_LIMIT, KILL_AFTER = 20.0, 60.0  # seconds of CPU
OWN = Path(maxmargin.__file__).parent
VALIDATION = ("sklearn/utils/validation.py", "sklearn/utils/_param_validation.py")
NAMES = (
    "AlternatingMarginClustering",
    "CuttingPlaneMarginClustering",
    "LeastSquaresMarginClustering",
    "PairwiseMarginClustering",
    "MultipleKernelMarginClustering",
    "SemidefiniteMarginClustering",
    "BisectingMarginClustering",
    "MaxMarginClustering",
)
REALS = (
    0.0, 5e-324, 1e-300, 1e-160, 1e-100, 1e-30, 1e-16, 1e-12, 1e-8, 1e-4, 0.01, 0.1, 0.5,
    1 - 1e-16, 1.0, 1 + 1e-9, 2, 10.0, 1e3, 1e6, 1e8, 1e12, 1e16, 1e30, 1e100, 1e160, 1e300,
    1.7e308, -1.0, -1e-300, float("nan"), float("inf"), np.float32(0.5), np.float64(2.0),
)  # fmt: skip
# Whole numbers, and what costs time when it is large: nobody is protected from n_init=10**9.
WHOLE = {
    "n_init": (0, 1, 2),
    "n_kicks": (-1, 0, 1, 3),
    "n_resamples": (-1, 0, 1, 2),
    "max_iter": (0, 1, 2, 5, 1000, 10**6),
    "n_components": (0, 1, 2, 5, 1000, 10**12),
    "max_samples": (1, 2, 3, 10, 10**12),
    "pca": (0, 1, 2, 10**12),
}
BUDGETS = (-1.0, 0.0, 5e-324, 1e-300, 1e-9, 0.02)
DEGREES = (-1, 0, 0.5, 1, 2, 3, 7.5, 50, 300, 1e3, 1e300)
SHIFTS = (-1e300, -1e8, -1.0, 0.0, 1e-300, 1.0, 1e8, 1e100, 1e300)
STRANGE = ("abc", None, [1.0], True, {}, 1j)
LEFT_ALONE = ("verbose", "n_jobs", "random_state", "warm_start", "n_clusters", "estimator")


# -- cases ----------------------------------------------------------------------------------------


@dataclass
class Case:
    """What is fitted."""

    name: str
    params: dict[str, Any]
    X: Any
    fit: dict[str, Any] = field(default_factory=dict)
    links: dict[str, Any] | None = None
    inner: tuple[str, dict[str, Any]] | None = None  # the estimator within a bisecting one


def make_case(seed: int, index: int) -> Case:
    """The case of this number."""
    rng = np.random.default_rng([seed, index])
    name = NAMES[index % len(NAMES)]
    X = hostile_rows(rng)
    k = hostile_count(rng, distinct_rows(X))
    accepted = rng.random() < 0.9  # parameters within their documented range
    params = hostile_params(rng, name, X, accepted)
    inner = None
    if name == "BisectingMarginClustering":
        two_way = str(rng.choice([n for n in NAMES if n not in (name, "MaxMarginClustering")]))
        inner = two_way, hostile_params(rng, two_way, X, accepted)
        inner[1].pop("init", None)
    if name == "MaxMarginClustering" and rng.random() < 0.25:
        k = None
    params |= {"n_clusters": k, "random_state": int(rng.integers(1000))}
    kernels = inner[1] if inner else params
    X = as_kernel_matrix(rng, X, kernels)
    case = Case(name, params, X, inner=inner)
    n, k = X.shape[0], k if isinstance(k, int) and k > 0 else 2
    if rng.random() < 0.4:
        case.fit["sample_weight"] = hostile_weights(rng, n)
    if rng.random() < 0.25:
        case.fit["partial_labels"] = hostile_labels(rng, n, k)
    often = {"PairwiseMarginClustering": 0.85, "MaxMarginClustering": 0.3}.get(name, 0.0)
    if rng.random() < often:
        case.links = hostile_links(rng, n, k)
    return case


def pick(rng, options):
    """One of the options, as it is."""
    return options[int(rng.integers(len(options)))]


def distinct_rows(X) -> int:
    return len(np.unique(X.toarray() if sparse.issparse(X) else X, axis=0))


def hostile_count(rng, n: int) -> int:
    """Number of clusters for so many distinct rows."""
    if rng.random() < 0.85:
        return int(rng.integers(2, max(3, min(6, n))))
    n = min(n, 30)  # as many clusters as rows take time: the cube of their number
    return pick(rng, (1, 2, 3, n, max(1, n - 1), max(1, n // 2), max(1, n // 3), n + 1, 0))


def hostile_rows(rng):
    n = int(rng.integers(4, 61) if rng.random() < 0.9 else pick(rng, (1, 2, 3, 100, 150)))
    d = int(rng.integers(1, 9) if rng.random() < 0.9 else pick(rng, (1, 20, 60)))
    X = pick(rng, (normal, blobs, lattice, duplicates, heavy_tails, collinear))(rng, n, d)
    with np.errstate(all="ignore"):
        for _ in range(int(rng.integers(0, 3))):
            X = (refused_rows if rng.random() < 0.04 else pick(rng, CHANGES))(rng, X)
    form = rng.random()
    if form < 0.1:
        limit = 1e17 if rng.random() < 0.9 else np.inf
        with np.errstate(over="ignore"):
            return np.clip(X, -limit, limit).astype(np.float32)
    if form < 0.25:
        return sparse.csr_matrix(np.where(rng.random(X.shape) < 0.4, X, 0.0))
    return np.asfortranarray(X) if form < 0.3 else X


def normal(rng, n, d):
    return rng.normal(size=(n, d))


def blobs(rng, n, d):
    centres = rng.normal(size=(4, d)) * 10 ** rng.uniform(-1, 2)
    return centres[rng.integers(4, size=n)] + rng.normal(size=(n, d))


def lattice(rng, n, d):
    return rng.integers(0, 3, size=(n, d)).astype(float)


def duplicates(rng, n, d):
    few = rng.normal(size=(int(rng.integers(1, 12)), d))
    return few[rng.integers(len(few), size=n)]


def heavy_tails(rng, n, d):
    return np.clip(rng.standard_t(pick(rng, (0.3, 1.0)), size=(n, d)), -1e140, 1e140)


def collinear(rng, n, d):
    return rng.normal(size=(n, 1)) * rng.normal(size=(1, d))


def scaled(rng, X):
    return X * 10.0 ** pick(rng, (-140, -100, -30, -8, 8, 30, 70, 100, 140))


def refused_rows(rng, X):
    if rng.random() < 0.5:
        return X * 10.0 ** pick(rng, (-310, -155, 155, 200, 307))
    X = X.copy()
    X[rng.integers(len(X)), 0] = pick(rng, (np.nan, np.inf, -np.inf))
    return X


def mixed_scales(rng, X):
    return X * 10.0 ** (rng.uniform(-1, 1, X.shape[1]) * pick(rng, (3, 12, 60)))


def constant_columns(rng, X):
    chosen = rng.random(X.shape[1]) < 0.5
    return np.where(chosen, pick(rng, (0.0, 1.0, 1e10, -1e-10)), X)


def outlier(rng, X):
    X = X.copy()
    X[rng.integers(len(X))] *= pick(rng, (1e6, 1e12, 1e100))
    X[rng.integers(len(X)), 0] = pick(rng, (1e6, 1e12, -1e12, 1e100))
    return X


def far_away(rng, X):
    return X + pick(rng, (1e4, 1e8, 1e15, -1e100))


def denormals(rng, X):
    return np.where(rng.random(X.shape) < 0.3, 5e-324, X)


def nearly_equal(rng, X):
    return 1.0 + X * pick(rng, (1e-16, 1e-15, 1e-12))


def standardised(rng, X):
    spread = X.std(axis=0)
    return (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1.0)


CHANGES = (
    *(scaled, mixed_scales, constant_columns, outlier, far_away, denormals, nearly_equal),
    *(standardised, standardised),
)


def hostile_params(rng, name: str, X, accepted: bool) -> dict:
    """Values for some parameters; within their range where ``accepted``."""
    cls = getattr(maxmargin, name)
    params = {}
    for key, allowed in cls._parameter_constraints.items():
        if key in LEFT_ALONE:
            continue
        words = sorted(w for a in allowed if isinstance(a, StrOptions) for w in a.options)
        numbers = [a for a in allowed if isinstance(a, Interval)]
        draw = rng.random()
        if words and draw < 0.25:
            params[key] = pick(rng, words)
        elif numbers and draw > 0.82:
            params[key] = hostile_number(rng, key, numbers[0], accepted)
        elif "boolean" in allowed and draw < 0.25:
            params[key] = bool(rng.random() < 0.5)
        elif not accepted and draw < 0.03:
            params[key] = pick(rng, STRANGE)
    if name == "MultipleKernelMarginClustering" and rng.random() < 0.4:
        params["kernels"] = kernel_list(rng, X)
    if name == "LeastSquaresMarginClustering" and rng.random() < 0.3:
        params |= pick(rng, COMBINED)
    if "init" in cls._parameter_constraints and rng.random() < 0.1:
        params["init"] = hostile_labels(rng, X.shape[0], 3)
    return params


COMBINED = (
    {"kernel": ["rbf", "linear"], "center": True, "n_components": None},
    {"cluster_sizes": "adaptive"},
    {"cluster_sizes": [0.5, 0.5]},
)


def hostile_number(rng, key: str, interval: Interval, accepted: bool):
    values: tuple = WHOLE.get(key, REALS)
    values = {"time_budget": BUDGETS, "degree": DEGREES, "coef0": SHIFTS}.get(key, values)
    if values is REALS:
        ends = [float(end) for end in (interval.left, interval.right) if end is not None]
        values += tuple(v for end in ends for v in (end, np.nextafter(end, -1e9), end * 1.001))
        values += tuple(10 ** rng.uniform(-4, 4, size=8))
    if interval.type is Integral and key not in WHOLE:
        values = (-1, 0, 1, 2, 5, 10**12)
    inside = [v for v in values if interval.is_satisfied_by(v)]
    return pick(rng, inside if accepted and inside else values)


def kernel_list(rng, X) -> list:
    """Some kernels, some of them on some columns."""
    entries: list = ["linear", "rbf", "poly", "cosine", "sigmoid", "laplacian"]
    entries += [("rbf", {"gamma": pick(rng, (1e-300, 1e-10, 1.0, 1e10, 1e300))})]
    entries += [("rbf", {"width": pick(rng, (1e-300, 1e-5, 1.0, 1e10, 1e300))})]
    entries += [("poly", {"degree": pick(rng, (0, 1, 30)), "coef0": pick(rng, SHIFTS)})]
    entries += [([0], "linear")]
    return [pick(rng, entries) for _ in range(int(rng.integers(1, 4)))]


def as_kernel_matrix(rng, X, params: dict):
    """The rows, or a kernel between them where a precomputed one is asked for."""
    stacked = params.get("kernels") == "precomputed"
    if not stacked and params.get("kernel") != "precomputed":
        return X
    if X.shape[0] > 100 or rng.random() < 0.05:
        return X
    with np.errstate(all="ignore"):
        rows = np.nan_to_num(X.toarray() if sparse.issparse(X) else np.asarray(X, np.float64))
        largest = np.abs(rows).max()
        rows = rows / (largest if largest > 0 else 1.0)
        kernels = [
            pairwise_kernels(rows, metric=m) * 10.0 ** pick(rng, (-140, -20, 0, 0, 0, 20, 70, 140))
            for m in ("rbf", "linear")
        ]
    if stacked:
        return np.hstack(kernels)
    return kernels[0] if rng.random() < 0.5 else kernels[1]


def hostile_weights(rng, n: int):
    weights = rng.random(n) if rng.random() < 0.5 else np.ones(n)
    kinds = (
        lambda w: np.where(rng.random(n) < 0.4, 0.0, w),
        lambda w: np.clip(w * pick(rng, (1e-12, 1e-6, 1e-3, 1e3, 1e6, 1e12)), 1e-12, 1e12),
        lambda w: np.where(np.arange(n) == rng.integers(n), pick(rng, (1e3, 1e6, 1e12)), w),
        lambda w: np.where(np.arange(n) == rng.integers(n), w, 1e-12),
        lambda w: 10.0 ** rng.uniform(-12, 12, n),
        lambda w: 10.0 ** rng.uniform(-3, 3, n),
        lambda w: rng.integers(0, 4, n),
    )
    refused = (
        lambda w: w * pick(rng, (1e-320, 1e-307, 1e-200, 1e-20, 1e20, 1e200, 1e307)),
        lambda w: np.where(np.arange(n) == rng.integers(n), pick(rng, (1e20, 1e200)), w),
        lambda w: 10.0 ** rng.uniform(-300, 300, n),
        lambda w: np.where(rng.random(n) < 0.1, pick(rng, (-1.0, np.nan, np.inf)), w),
        lambda w: w[:-1],
    )
    return pick(rng, refused if rng.random() < 0.1 else kinds)(weights)


def hostile_labels(rng, n: int, k: int):
    labels = rng.integers(0, k, n)
    kinds = (
        lambda y: np.where(rng.random(n) < 0.8, -1, y),
        lambda y: np.where(rng.random(n) < 0.8, -1, y),
        lambda y: y,
        lambda y: np.where(np.arange(n) == 0, 0, -1),
        lambda y: np.zeros(n, int),
        lambda y: y.astype(float),
        lambda y: np.full(n, -1),
    )
    refused = (
        lambda y: y + 1,
        lambda y: y + pick(rng, (0.5, np.nan)),
        lambda y: y[:-1],
    )
    return pick(rng, refused if rng.random() < 0.1 else kinds)(labels)


def hostile_links(rng, n: int, k: int) -> dict:
    """Arguments of PairwiseConstraints: links of hidden labels, or of none."""
    count = int(rng.integers(0, 12))
    pairs = rng.integers(0, n, size=(count, 2))
    if rng.random() < 0.9:
        pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    hidden = rng.integers(0, k, n)
    same = hidden[pairs[:, 0]] == hidden[pairs[:, 1]]
    if rng.random() < 0.2:
        same = rng.random(len(pairs)) < 0.5
    links = {"must_link": pairs[same], "cannot_link": pairs[~same]}
    if rng.random() < 0.4:
        links["must_weight"] = link_weights(rng, int(same.sum()))
    if rng.random() < 0.4:
        links["cannot_weight"] = link_weights(rng, int((~same).sum()))
    return links


def link_weights(rng, count: int):
    refused = rng.random() < 0.1
    scales = (-1.0, 0.0, 1e-300, 1e200, 1e307) if refused else (2e-12, 1e-8, 1e-3, 1.0, 1e3, 5e11)
    return pick(rng, scales) * (0.5 + rng.random(count))


# -- one fit and its checks -----------------------------------------------------------------------


@dataclass
class Result:
    """How a fit ended."""

    outcome: str  # "fitted", "warned" or "refused"
    defects: list[str] = field(default_factory=list)
    seconds: float = 0.0
    note: str = ""


def run_case(case: Case) -> Result:
    """Fit, and check what comes out of it."""
    result = _tried(case)
    # A flag of a product need not repeat on the same input. The cause is not known: memory that was
    # never written, in BLAS or here, would look like this. It is told, and fails if it repeats.
    once = result.defects and all(d.endswith("encountered in matmul") for d in result.defects)
    if once:
        print(f"{case.name}, tried again: {'; '.join(result.defects)}", file=sys.stderr)
    if once or result.seconds > CPU_LIMIT:  # the first fit may have compiled something
        result = _tried(case)
    if result.seconds > CPU_LIMIT:
        result.defects.append(f"slow: {result.seconds:.0f} s of CPU")
    return result


def _tried(case: Case) -> Result:
    start = time.process_time()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            model = fitted(case)
        except Exception as error:
            result = Result("refused", refusal_defects(error), note=short(error))
        else:
            result = Result("fitted", model_defects(model, case, caught))
            said = [w for w in caught if issubclass(w.category, UserWarning)]
            if said:
                result.outcome, result.note = "warned", short(said[0].message)
    leaked = Counter(leak(w) for w in caught if leak(w))
    result.defects += [f"leaked {text}" for text in leaked]
    result.seconds = time.process_time() - start
    return result


def fitted(case: Case):
    """The estimator of a case after its fit."""
    params = dict(case.params)
    if case.inner is not None:
        params["estimator"] = getattr(maxmargin, case.inner[0])(**case.inner[1])
    more = dict(case.fit)
    if case.links is not None:
        more["constraints"] = maxmargin.PairwiseConstraints(case.X.shape[0], **case.links)
    return getattr(maxmargin, case.name)(**params).fit(case.X, **more)


def refusal_defects(error: Exception) -> list[str]:
    """Nothing where the error was raised on purpose, by us or by scikit-learn's validation."""
    frames = traceback.extract_tb(error.__traceback__)
    last = Path(frames[-1].filename)
    ours = last.is_relative_to(OWN) or str(last).replace(os.sep, "/").endswith(VALIDATION)
    ours = ours and (frames[-1].line or "").lstrip().startswith("raise ")
    kind = isinstance(error, (ValueError, TypeError)) and not isinstance(error, linalg.LinAlgError)
    if ours and kind and str(error):
        return []
    places = [f for f in frames if Path(f.filename).is_relative_to(OWN)] or frames
    place = f"{Path(places[-1].filename).name}:{places[-1].lineno}"
    return [f"{type(error).__name__} from {place} ({last.name}): {short(error)}"]


def leak(warning) -> str:
    """Description of a warning that must not reach the user, or nothing."""
    own = issubclass(warning.category, UserWarning) or warning.category is ImportWarning
    if own and not issubclass(warning.category, linalg.LinAlgWarning):
        return ""
    where = f"{Path(warning.filename).name}:{warning.lineno}"
    return f"{warning.category.__name__} at {where}: {short(warning.message)}"


def model_defects(model, case: Case, caught) -> list[str]:
    """What is wrong with a fitted model."""
    found = [f"not finite: {name}" for name in sorted(not_finite(model))]
    try:
        decision = model.decision_function(case.X)
        predicted = model.predict(case.X)
        if not np.isfinite(decision).all():
            found.append("not finite: decision_function")
        elif np.isnan(model.score(case.X)):
            found.append("not a number: score")
    except Exception as error:
        return [*found, f"predict failed: {refusal_defects(error) or short(error)}"]
    labels = np.asarray(model.labels_)
    known = np.asarray(case.fit.get("partial_labels", np.full(len(labels), -1)))
    free = ~(known >= 0)  # also NaN
    if (labels[~free] != known[~free]).any():
        found.append("partial_labels not kept")
    if case.links is not None and isinstance(model, maxmargin.MaxMarginClustering):
        free = free & ~linked_rows(case)
    if (labels != predicted)[free].any():
        found.append(f"labels_ != predict for {int((labels != predicted)[free].sum())} rows")
    return found + floor_defects(model, case, caught)


def linked_rows(case: Case) -> np.ndarray:
    """Rows whose labels links decide, and rows that are equal to them."""
    rows = maxmargin.PairwiseConstraints(case.X.shape[0], **case.links).links().rows()
    X = case.X.toarray() if sparse.issparse(case.X) else np.asarray(case.X)
    kind = np.unique(X, axis=0, return_inverse=True)[1].ravel()
    return np.isin(kind, kind[rows])


def not_finite(model) -> set[str]:
    """Names of fitted attributes with a number that is NaN or infinite."""
    public = {k: v for k, v in vars(model).items() if k.endswith("_") and not k.startswith("_")}
    found = {name for name, value in public.items() if not finite(value)}
    for j, split in enumerate(getattr(model, "splits_", [])):
        found |= {f"splits_[{j}].{name}" for name in (not_finite(split) if split else ())}
    return found


def finite(value) -> bool:
    if isinstance(value, dict):
        return all(finite(v) for v in value.values())
    if isinstance(value, (list, tuple)):
        return all(finite(v) for v in value)
    if isinstance(value, (float, np.floating)):
        return bool(np.isfinite(value))
    if isinstance(value, np.ndarray) and value.dtype.kind == "f":
        return bool(np.isfinite(value).all())
    return True


def floor_defects(model, case: Case, caught) -> list[str]:
    """The least size of a cluster, where the method promises one and no warning takes it back."""
    inner = model.estimator if case.inner is not None else model
    n = case.X.shape[0]
    most = getattr(inner, "max_samples", None)
    sampled = isinstance(most, Integral) and most < n
    if sampled or getattr(inner, "cluster_sizes", None) is not None:
        return []
    if isinstance(model, maxmargin.PairwiseMarginClustering) or case.links is not None:
        return []  # links part the clusters, not a least size
    if hasattr(model, "label_mistakes_"):
        return []  # known labels of every cluster tell the sizes
    weights = case.fit.get("sample_weight")
    weights = np.ones(n) if weights is None else np.asarray(weights, np.float64)
    total = float(weights.sum())
    k = len(model.cluster_sizes_)
    balance = inner.balance
    if balance == "auto":  # a tree of splits has no floor then: each split has its own
        balance = 0.05 if case.inner is None else 0.0
    floor = size_floor(balance, total, k, bool((weights == np.round(weights)).all()))
    if model.cluster_sizes_.min() >= floor * (1 - 1e-9):
        return []
    if any("balance" in str(w.message) or "no rows" in str(w.message) for w in caught):
        return []
    return [f"least size {floor:g} missed without a warning: {model.cluster_sizes_.tolist()}"]


def short(text) -> str:
    return " ".join(str(text).split())[:150]


# -- many fits ------------------------------------------------------------------------------------


def worker(pipe, seed: int) -> None:
    """Run the cases whose numbers come through the pipe; a fit that does not end is killed."""
    faulthandler.register(signal.SIGPROF, all_threads=False, chain=True)  # says where, then dies
    while True:
        index = pipe.recv()
        if index is None:
            return
        signal.setitimer(signal.ITIMER_PROF, KILL_AFTER)
        try:
            result = run_case(make_case(seed, index))
        except Exception as error:  # of this file
            result = Result("refused", [f"fuzz.py: {type(error).__name__}: {short(error)}"])
        signal.setitimer(signal.ITIMER_PROF, 0)
        pipe.send(result)


class Runner:
    """Workers, each with a thread that feeds it; a worker that dies is replaced."""

    def __init__(self, seed: int):
        self.seed = seed
        self.results: dict[int, Result] = {}
        self.lock = threading.Lock()

    def run(self, indices, jobs: int, deadline: float) -> None:
        """Run cases until they are all done or time is over."""
        numbers = iter(indices)
        threads = [
            threading.Thread(target=self._feed, args=(numbers, deadline)) for _ in range(jobs)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _feed(self, numbers, deadline: float) -> None:
        process = None
        while time.monotonic() < deadline:
            with self.lock:
                index = next(numbers, None)
            if index is None:
                break
            if process is None:
                process, pipe = self._started()
            pipe.send(index)
            try:
                result = pipe.recv()
            except EOFError:
                process.join()
                hung = process.exitcode == -signal.SIGPROF
                what = f"no end after {KILL_AFTER:g} s of CPU" if hung else "the process died"
                result = Result("killed", [f"{what} (exit code {process.exitcode})"], KILL_AFTER)
                process = None
            self._report(index, result)
        if process is not None:
            pipe.send(None)
            process.join()

    def _started(self):
        context = multiprocessing.get_context("spawn")
        pipe, theirs = context.Pipe()
        process = context.Process(target=worker, args=(theirs, self.seed), daemon=True)
        process.start()
        theirs.close()
        return process, pipe

    def _report(self, index: int, result: Result) -> None:
        with self.lock:
            self.results[index] = result
            for defect in result.defects:
                name = NAMES[index % len(NAMES)].removesuffix("MarginClustering")
                print(f"--seed {self.seed} --case {index} {name}: {defect}", flush=True)


def table(results: dict[int, Result]) -> str:
    """Counts by estimator and outcome."""
    columns = ("fitted", "warned", "refused", "killed")
    lines = [f"{'':32}{'fits':>8}" + "".join(f"{c:>9}" for c in columns) + "  defects  most CPU s"]
    for j, name in [*enumerate(NAMES), (-1, "all")]:
        own = [r for i, r in results.items() if j in (-1, i % len(NAMES))]
        counts = Counter(r.outcome for r in own)
        defects = sum(bool(r.defects) for r in own)
        slowest = max((r.seconds for r in own), default=0.0)
        cells = "".join(f"{counts[c]:9}" for c in columns)
        lines.append(f"{name:32}{len(own):8}{cells}{defects:9}{slowest:12.1f}")
    return "\n".join(lines)


def chosen_indices(fits: int | None, only: str | None):
    """Numbers of the cases, all of them or those of one estimator."""
    numbers = itertools.count() if fits is None else range(fits)
    if only is None:
        return numbers
    names = [name for name in NAMES if name.lower().startswith(only.lower())]
    if len(names) != 1:
        raise SystemExit(f"--only {only}: one of {', '.join(NAMES)} is needed.")
    return (i for i in numbers if NAMES[i % len(NAMES)] == names[0])


def main(argv=None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--fits", type=int, help="number of cases; default: 1000 without --seconds")
    parser.add_argument("--seconds", type=float, help="stop to begin cases after this time")
    parser.add_argument("--jobs", type=int, default=1, help="worker processes")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", metavar="ESTIMATOR", help="its name, or the start of it")
    parser.add_argument("--case", type=int, metavar="INDEX", help="run one case and show it")
    given = parser.parse_args(argv)
    if given.case is not None:
        return show_case(given.seed, given.case)
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
    fits = 1000 if given.fits is None and given.seconds is None else given.fits
    deadline = time.monotonic() + (float("inf") if given.seconds is None else given.seconds)
    runner = Runner(given.seed)
    runner.run(chosen_indices(fits, given.only), given.jobs, deadline)
    print(table(runner.results))
    return int(any(r.defects for r in runner.results.values()))


def show_case(seed: int, index: int) -> int:
    """Print a case, its fit in full and its result."""
    case = make_case(seed, index)
    np.set_printoptions(threshold=200, linewidth=110)
    for name, value in vars(case).items():
        print(f"{name} = {value!r}")
    faulthandler.dump_traceback_later(30, exit=False)
    try:
        fitted(case)
    except Exception:
        traceback.print_exc()
    result = run_case(case)
    print(result)
    return int(bool(result.defects))


if __name__ == "__main__":
    sys.exit(main())
