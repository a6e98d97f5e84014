"""The search over labels at several size priors p, and the choice of p.

J_p of different p cannot be compared. The mean leave-one-out margin can: it is near 1 if every row
is closer to its own cluster than to any other, and falls with the share of rows in clusters that
were cut in two. The first p is kept unless another one has a clearly higher mean margin.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .._core.model import lead_of
from .._core.rivals import agreement
from ._label_search import SHAKES, Found, LabelProblem, SearchSettings, search_labels
from ._regroup import regrouped

SIZE_PRIORS = (0.75, 0.9, 1.0)
CLEAR_GAIN = 0.06  # in the mean margin, for another p than the first
SAME = 0.99  # adjusted Rand index between searches that agree
DOUBTFUL, FEW = 0.25, 0.01  # of the median margin; share of such rows if clusters are clear
RUNNERS_UP = 3

Starts = list[tuple[np.ndarray, int]]


def margins_of(problem: LabelProblem, labels: np.ndarray) -> np.ndarray:
    """Leave-one-out margins: score of the own cluster minus the best other score."""
    similarity = problem.similarity
    loo = similarity.leave_one_out(similarity.caches(labels, problem.k), labels)
    return lead_of(loo, labels)


def mean_margin(problem: LabelProblem, labels: np.ndarray) -> float:
    """Weighted mean of the leave-one-out margins."""
    return float(np.average(margins_of(problem, labels), weights=problem.similarity.weights))


def search_sizes(
    problem: LabelProblem,
    starts: Starts,
    partitions: list[np.ndarray],
    settings: SearchSettings,
    priors: tuple[float, ...],
) -> tuple[LabelProblem, Found, dict[float, float]]:
    """Return the problem with the chosen p, the labels found, and the mean margin of every p tried.

    Parameters
    ----------
    problem : LabelProblem
    starts : list of (labels, first round of shaking)
    partitions : list of ndarray
        Labels of other methods, from which single rows are moved at every p.
    settings : SearchSettings
    priors : tuple of float
        Values of p; the first is preferred.
    """
    problem = replace(problem, size_prior=priors[0])
    found = _clear(problem, starts, partitions, settings)
    if found is not None:
        return problem, found, {priors[0]: mean_margin(problem, found.labels)}
    found = search_labels(problem, starts, settings)
    best, chosen = mean_margin(problem, found.labels), (problem, found)
    margins = {priors[0]: best}
    candidates = [found.labels, *partitions, *(f.labels for f in found.others[:RUNNERS_UP])]
    quick = replace(settings, n_kicks=0)
    for p in priors:
        other = replace(problem, size_prior=p)
        again = search_labels(other, [(labels, SHAKES) for labels in candidates], quick)
        again = regrouped(other, again, settings)
        margin = mean_margin(other, again.labels)
        margins[p] = max(margins.get(p, margin), margin)
        if margin > best + CLEAR_GAIN:
            best, chosen = margin, (other, again)
        candidates.append(again.labels)
    return (*chosen, margins)


def _clear(problem, starts: Starts, partitions, settings: SearchSettings) -> Found | None:
    """Return labels on which a few searches agree, if hardly any row is between clusters."""
    found = []
    for start in [(labels, SHAKES) for labels in partitions] + starts[:1]:
        ascended = search_labels(problem, [start], replace(settings, n_kicks=0))
        found.append(regrouped(problem, ascended, settings))
        if agreement(found[0].labels, found[-1].labels, problem.k) < SAME:
            return None
    best = max(found, key=lambda one: one.value)
    margins, w = margins_of(problem, best.labels), problem.similarity.weights
    doubtful = np.average(margins < DOUBTFUL * np.median(margins), weights=w)
    return best if len(found) > 1 and doubtful < FEW else None
