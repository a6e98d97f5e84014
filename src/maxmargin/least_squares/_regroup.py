"""Regrouping: split the cluster that gains most by it and merge the two that lose least.

Single moves cannot turn one of two merged clusters and two halves of another into three. Both
changes of J_p = sum_h J_h, J_h = y_h' R y_h / n_h^p, are known in advance: that of a merger from
the sums y_a' R y_b, that of a split from a search over the rows of the cluster alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ._label_search import Found, LabelProblem, SearchSettings, _Arrays, _ascended

POWER_STEPS = 8
SPLIT_ROUNDS = 10
TRIES = 3  # regroupings tried in a row without success
MIN_GAIN = 1e-6  # of J


def regrouped(problem: LabelProblem, best: Found, settings: SearchSettings) -> Found:
    """Return labels that no tried regrouping improves, nor single moves."""
    if problem.k < 3 or (problem.known >= 0).any():  # numbers of clusters would be swapped
        return best
    halves: dict[bytes, tuple[float, np.ndarray]] = {}  # by the rows of the cluster
    for _ in range(4 * problem.k):
        better = _one_regrouping(problem, best, settings, halves)
        if better is None:
            break
        best = replace(better, history=best.history + better.history)
    return best


def _one_regrouping(problem, best: Found, settings: SearchSettings, halves) -> Found | None:
    for labels in _regroupings(problem, best.labels, halves):
        if not settings.in_time():
            return None
        found = _ascended(problem, _Arrays(problem, labels), settings.watch, [])
        if found.value > best.value * (1.0 + MIN_GAIN):
            return found
    return None


def _regroupings(problem: LabelProblem, labels: np.ndarray, halves) -> Iterator[np.ndarray]:
    """Yield labels after the most promising pairs of a split and a merger."""
    k, p, weights = problem.k, problem.size_prior, problem.similarity.weights
    caches = problem.similarity.caches(labels, k)
    sums = np.stack([caches[:, labels == h].sum(axis=1, dtype=np.float64) for h in range(k)])
    sizes = np.bincount(labels, weights, minlength=k)
    if sizes.min() <= 0:  # equal rows can leave a cluster empty
        return
    own = np.diag(sums) / sizes**p
    together = np.diag(sums)[:, None] + np.diag(sums) + sums + sums.T
    loss = own[:, None] + own - together / (sizes[:, None] + sizes) ** p
    loss[np.tril_indices(k)] = np.inf
    gains, parts = np.full(k, -np.inf), []
    for h in range(k):
        rows = np.flatnonzero(labels == h)
        key = rows.tobytes()
        if key not in halves:
            halves[key] = _halves(problem, rows)
        value, half = halves[key]
        gains[h] = value - own[h]
        parts.append(rows[half])
    pairs = np.column_stack(np.unravel_index(np.argsort(loss, axis=None)[: 2 * TRIES], (k, k)))
    found = [
        (gains[c] - loss[a, b], c, a, b)
        for a, b in pairs
        for c in range(k)
        if c not in (a, b) and a < b and np.isfinite(gains[c])
    ]
    for _, c, a, b in sorted(found, reverse=True)[:TRIES]:
        changed = labels.copy()
        changed[labels == b] = a
        changed[parts[c]] = b
        yield changed


def _halves(problem: LabelProblem, rows: np.ndarray) -> tuple[float, np.ndarray]:
    """Return J_p of the best two parts of these rows, and the mask of the second."""
    whole = problem.similarity
    weights, n = whole.weights[rows], len(rows)
    floor = max(problem.floor, problem.unit)
    if weights.sum() < 2.0 * floor + weights.max() or n < 4:
        return -np.inf, np.zeros(n, bool)
    matrix = np.ascontiguousarray(whole.matrix[np.ix_(rows, rows)])
    part = replace(
        problem,
        similarity=replace(whole, matrix=matrix, weights=weights),
        k=2,
        targets=np.full(2, weights.sum() / 2),
        known=problem.known[rows],
    )
    labels = _two_sides(matrix, weights)
    if np.bincount(labels, weights, minlength=2).min() < floor:
        return -np.inf, np.zeros(n, bool)
    arrays = _Arrays(part, labels)
    for _ in range(SPLIT_ROUNDS):
        if arrays.descend("stochastic") == 0:
            break
    return arrays.value(), arrays.labels == 1


def _two_sides(matrix: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Labels by the sign of the leading eigenvector of the matrix, centred on its rows."""
    q = np.sqrt(weights / weights.sum()).astype(matrix.dtype)
    v = np.linspace(-1.0, 1.0, len(q), dtype=matrix.dtype)
    v = np.sin(7.0 * np.arange(len(q), dtype=matrix.dtype)) + v
    for _ in range(POWER_STEPS):
        v -= (q @ v) * q
        v /= max(np.linalg.norm(v), np.finfo(v.dtype).tiny)
        v = matrix @ v
    v -= (q @ v) * q
    return (v > 0).astype(np.int32)
