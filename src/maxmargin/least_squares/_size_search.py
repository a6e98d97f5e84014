"""The search over labels at several size priors p, and the choice of p.

J_p of different p cannot be compared. The mean leave-one-out margin can: it is near 1 if every row
is closer to its own cluster than to any other, and falls with the share of rows in clusters that
were cut in two. The first p is kept unless another one has a clearly higher mean margin and fewer
rows of small margin.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from .._core.features import mapped_rows
from .._core.init import agreement
from .._core.model import lead_of
from .._threads import in_order
from ._label_search import (
    COARSE,
    SHAKES,
    Found,
    LabelProblem,
    SearchSettings,
    _Arrays,
    _ascended,
    adapted_sizes,
    predictive_fit,
    random_labels,
    search_labels,
)
from ._similarity import similarity_of

SIZE_PRIORS = (0.75, 0.9, 1.0)
# To leave the first p: gain in the mean margin, fall of the share of doubtful rows; and the same
# times the number of clusters, if there are many, since one that is cut has few of the rows then.
GAIN, FALL = (0.06, 0.5), (0.03, 0.25)
SAME = 0.99  # adjusted Rand index of searches that agree
DOUBTFUL, FEW = 0.25, 0.01  # of the median margin; share of such rows if clusters are clear
RUNNERS_UP = 3
RIVALS = 3  # random starts that connected clusters are compared with
SIZE_DOUBT = 0.04  # gain in leave-one-out R2 above which a warning about sizes is raised
SIZE_CHECK_ROWS = 400
POWER_STEPS = 8
SPLIT_ROUNDS = 10
TRIES = 3  # regroupings tried in a row without success
MIN_GAIN = 1e-6  # of J

Starts = list[tuple[np.ndarray, int]]


class NotClear(Exception):
    """Searches do not agree, or rows are between clusters."""


def mean_and_doubt(problem: LabelProblem, labels: np.ndarray) -> tuple[float, float]:
    """Mean of the leave-one-out margins: score of the own cluster minus the best other score.

    And the share of doubtful rows, which are between clusters or parts of one.
    """
    similarity, w = problem.similarity, problem.similarity.weights
    loo = similarity.leave_one_out(similarity.caches(labels, problem.k), labels)
    margins = lead_of(loo, labels)
    doubtful = margins < DOUBTFUL * np.median(margins)
    return float(np.average(margins, weights=w)), float(np.average(doubtful, weights=w))


def search_sizes(
    problem: LabelProblem,
    starts: Starts,
    rivals: list[np.ndarray],
    others: Callable[[], list[np.ndarray]],
    connected: np.ndarray | None,
    settings: SearchSettings,
    priors: tuple[float, ...],
) -> tuple[LabelProblem, Found, dict[float, float]]:
    """Return the problem with the chosen p, the labels found, and the mean margin of every p tried.

    Parameters
    ----------
    starts : list of (labels, first round of shaking)
    rivals : list of ndarray
        Labels of k-means, from which single rows are moved at every p.
    others : callable
        Returns labels of further methods, for the same.
    connected : ndarray or None
        Clusters that are apart. The first p whose largest J_p has nearly these clusters is taken.
    priors : tuple of float
        Values of p; the first is preferred.
    """
    if connected is not None:
        more = [(labels, SHAKES) for labels in rivals + others()] + starts[:RIVALS]
        chosen, found, margins = _of_connected(problem, connected, more, settings, priors)
        clear = agreement(found.labels, connected, problem.k) > SAME
        if settings.only_clear and not (clear and mean_and_doubt(chosen, found.labels)[1] < FEW):
            raise NotClear
        return chosen, found, margins
    problem = replace(problem, size_prior=priors[0])
    partitions = list(rivals)
    found = _clear(problem, starts, partitions, others, settings)
    if found is not None:
        return problem, found, {priors[0]: mean_and_doubt(problem, found.labels)[0]}
    if settings.only_clear:
        raise NotClear
    partitions += others()
    found = search_labels(problem, starts, settings)
    best, doubt = mean_and_doubt(problem, found.labels)
    chosen, margins = (problem, found), {priors[0]: best}
    candidates = [found.labels, *partitions, *(f.labels for f in found.others[:RUNNERS_UP])]
    quick = replace(settings, n_kicks=0)
    gain, fall = (min(least, cut / problem.k) for least, cut in (GAIN, FALL))
    for p in priors:
        other = replace(problem, size_prior=p)
        # Runners-up are optima of the first p already.
        some = candidates[: 1 + len(partitions)] if p == priors[0] else candidates
        again = search_labels(other, [(labels, SHAKES) for labels in some], quick)
        again = regrouped(other, again, settings)
        margin, doubtful = mean_and_doubt(other, again.labels)
        margins[p] = max(margins.get(p, margin), margin)
        # Margins also grow if clusters are merged and a tiny one is found, but not by few rows.
        if margin > best + gain and doubtful < doubt - fall:
            best, doubt, chosen = margin, doubtful, (other, again)
        candidates.append(again.labels)
    return (*chosen, margins)


def _of_connected(problem, connected, rivals: Starts, settings: SearchSettings, priors):
    """Search from the connected clusters, and from others that may have a larger J_p."""
    margins, found = {}, {}
    for p in priors:
        problem = replace(problem, size_prior=p)
        starts = [(connected, SHAKES), *rivals]
        again = search_labels(problem, starts, replace(settings, n_kicks=0))
        margins[p], found[p] = mean_and_doubt(problem, again.labels)[0], again
        if agreement(again.labels, connected, problem.k) > SAME:
            return problem, again, margins
    return replace(problem, size_prior=priors[0]), found[priors[0]], margins


def _clear(
    problem: LabelProblem,
    starts: Starts,
    partitions: list[np.ndarray],
    others: Callable[[], list[np.ndarray]],
    settings: SearchSettings,
) -> Found | None:
    """Return labels on which a few searches agree, if hardly any row is between clusters."""
    found: list[Found] = []

    def candidates() -> Iterator[tuple[np.ndarray, int]]:
        """Yield the quick ones first: others take longer, and few data are clear."""
        yield from [(labels, SHAKES) for labels in partitions] + starts[:1]
        yield from [(labels, SHAKES) for labels in others()]

    for start in candidates():
        ascended = search_labels(problem, [start], replace(settings, n_kicks=0))
        found.append(regrouped(problem, ascended, settings))
        if agreement(found[0].labels, found[-1].labels, problem.k) < SAME:
            return None
    best = max(found, key=lambda one: one.value)
    return best if len(found) > 1 and mean_and_doubt(problem, best.labels)[1] < FEW else None


def warn_about_sizes(fmap, X, weights, settings: SearchSettings, s) -> None:
    """Warn if leave-one-out predictions indicate clusters of unequal size.

    The search is repeated on a few hundred rows with adaptive sizes; equal sizes are wrong if the
    leave-one-out R2 is then clearly higher.
    """
    k, n = s.n_clusters, len(weights)
    if s.search != "shaking" or s.cluster_sizes is not None or s.balance == 1:
        return
    if k == 1 or n < 10 * k:
        return
    few = np.sort(settings.rng.choice(n, min(n, SIZE_CHECK_ROWS), replace=False))
    if fmap.projection is None:
        K = replace(fmap, landmarks=fmap.landmarks[few]).kernel_values(X[few])
    else:
        features = mapped_rows(fmap, X[few]).values()
        K = features @ features.T
    K = np.array(K, np.float64) / np.average(np.diag(K), weights=weights[few])
    similarity = similarity_of(K, 1.0, weights[few], s.ridge, s.center)
    total = weights[few].sum()
    targets, known = np.full(k, total / k), np.full(len(few), -1, np.int32)
    problem = LabelProblem(similarity, k, targets, s.balance * total / k, known)
    starts = [(random_labels(problem, settings.rng), 0) for _ in range(5)]
    equal = search_labels(problem, starts, replace(settings, n_kicks=0))
    free = adapted_sizes(problem, equal, settings, rounds=8, clusters=2, factors=COARSE)
    before, after = (predictive_fit(problem, f.labels)[0] / (k - 1) for f in (equal, free))
    if after > before + SIZE_DOUBT:
        sizes = np.sort(np.bincount(free.labels, weights[few], minlength=k) / total)[::-1]
        shares = ", ".join(f"{share:.0%}" for share in sizes)
        warnings.warn(
            f"Clusters are probably not of equal size: sizes of about {shares} raise the "
            f"leave-one-out R2 from {before:.2f} to {after:.2f}. Set cluster_sizes='adaptive' or "
            "give the sizes.",
            UserWarning,
            stacklevel=2,
        )


# -- regrouping ------------------------------------------------------------------------------------


def regrouped(problem: LabelProblem, best: Found, settings: SearchSettings) -> Found:
    """Split the cluster that gains most by it and merge the two that lose least, while it helps.

    Single moves cannot turn one of two merged clusters and two halves of another into three. Both
    changes of J_p = sum_h J_h, J_h = y_h' R y_h / n_h^p, are known in advance: that of a merger
    from the sums y_a' R y_b, that of a split from a search over the rows of the cluster alone.
    """
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
    n_jobs = settings.n_jobs if settings.parallel else 1
    for labels in _regroupings(problem, best.labels, halves, n_jobs):
        if not settings.in_time():
            return None
        found = _ascended(problem, _Arrays(problem, labels), settings.watch, [])
        if found.value > best.value * (1.0 + MIN_GAIN):
            return found
    return None


def _regroupings(
    problem: LabelProblem, labels: np.ndarray, halves, n_jobs: int
) -> Iterator[np.ndarray]:
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
    members = [np.flatnonzero(labels == h) for h in range(k)]
    new = [rows for rows in members if rows.tobytes() not in halves]
    for rows, found in zip(new, in_order(partial(_halves, problem), new, n_jobs)):
        halves[rows.tobytes()] = found
    for h, rows in enumerate(members):
        value, half = halves[rows.tobytes()]
        gains[h] = value - own[h]
        parts.append(rows[half])
    pairs = np.column_stack(np.unravel_index(np.argsort(loss, axis=None)[: 2 * TRIES], (k, k)))
    pairs_of = [
        (gains[c] - loss[a, b], c, a, b)
        for a, b in pairs
        for c in range(k)
        if c not in (a, b) and a < b and np.isfinite(gains[c])
    ]
    for _, c, a, b in sorted(pairs_of, reverse=True)[:TRIES]:
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
