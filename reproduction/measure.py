"""One unit of work: a method over tasks and seeds, scored against the classes."""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np

from maxmargin._threads import one_thread
from maxmargin.constraints import PairwiseConstraints
from maxmargin.metrics import (
    adjusted_rand_score,
    balanced_clustering_error,
    clustering_accuracy,
    normalized_mutual_info,
    rand_index,
)

from .data import DataSet
from .methods import METHODS
from .plan import Unit

__all__ = ["measure", "scores"]

LARGE = 4_000_000  # numbers in the rows


def scores(y, labels) -> dict[str, float]:
    """All scores of the papers, accuracies and errors in percent.

    Examples
    --------
    >>> from reproduction.measure import scores
    >>> scores([0, 0, 1, 1], [1, 1, 1, 0])["error"]
    25.0
    """
    accuracy = 100.0 * clustering_accuracy(y, labels)
    return {
        "accuracy": accuracy,
        "majority": 100.0 * clustering_accuracy(y, labels, "majority"),
        "error": 100.0 - accuracy,
        "balanced_error": 100.0 * balanced_clustering_error(y, labels),
        "ari": float(adjusted_rand_score(y, labels)),
        "rand": rand_index(y, labels),
        "nmi": normalized_mutual_info(y, labels),
    }


def measure(unit: Unit, data: DataSet) -> dict[str, Any]:
    """Run a unit: every score as a list over tasks of lists over seeds.

    Examples
    --------
    >>> from reproduction.data import load_data
    >>> from reproduction.measure import measure
    >>> from reproduction.plan import Unit
    >>> found = measure(Unit("iris", "k-means", seeds=2), load_data("iris", online=False))
    >>> [[round(ari, 2) for ari in task] for task in found["ari"]]
    [[0.73, 0.73]]
    """
    count = len(data.parts) if unit.tasks is None else min(unit.tasks, len(data.parts))
    with warnings.catch_warnings(), one_thread():
        warnings.simplefilter("ignore")  # a fit at the edge of a grid need not converge
        tasks = [
            [_once(unit, *data.task(i), seed) for seed in range(unit.seeds)] for i in range(count)
        ]
    names = tasks[0][0].keys()
    return {name: [[run[name] for run in task] for task in tasks] for name in names}


def _once(unit: Unit, X, y, seed: int) -> dict[str, Any]:
    rng = np.random.RandomState(seed)
    if unit.rows is not None and unit.rows < len(y):
        drawn = rng.permutation(len(y))[: unit.rows]
        X, y = X[drawn], y[drawn]
    X, y = _floats(X), np.unique(y, return_inverse=True)[1]
    order = rng.permutation(len(y)) if unit.fit_rows is not None else np.arange(len(y))
    fitted, new = np.split(order, [len(y) if unit.fit_rows is None else unit.fit_rows])
    method, k = METHODS[unit.method], len(np.unique(y))
    links = None
    if unit.links is not None:
        links = PairwiseConstraints.from_labels(y[fitted], n_pairs=unit.links, random_state=seed)
    begin = time.process_time()
    found = method.run(X[fitted], k, seed, links, **unit.params)
    seconds = time.process_time() - begin
    result = scores(y[fitted], found.labels)
    if len(new):
        assert found.predict is not None
        labels = found.predict(X)
        result = scores(y, labels)
        result |= {f"new_{name}": v for name, v in scores(y[new], labels[new]).items()}
        result |= {f"seen_{name}": v for name, v in scores(y[fitted], labels[fitted]).items()}
    extra = {"iterations": found.iterations, "cuts": found.cuts, "cpu_s": seconds}
    extra["objective"] = found.objective
    numbers = {name: _number(value) for name, value in (result | extra).items()}
    return numbers | found.curves


def _floats(X):
    """Large rows in single precision: MNIST would not fit otherwise."""
    return X.astype(np.float32 if X.shape[0] * X.shape[1] > LARGE else np.float64)


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
