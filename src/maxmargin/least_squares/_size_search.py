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
CLEAR_GAIN = 0.04  # in the mean margin, for another p than the first
CLEAR, SAME = 0.95, 0.99  # mean margin, and agreement of all searches, of clear clusters
RUNNERS_UP = 3

Starts = list[tuple[np.ndarray, int]]


def mean_margin(problem: LabelProblem, labels: np.ndarray) -> float:
    """Mean leave-one-out margin: score of the own cluster minus the best other score."""
    similarity = problem.similarity
    loo = similarity.leave_one_out(similarity.caches(labels, problem.k), labels)
    return float(np.average(lead_of(loo, labels), weights=similarity.weights))


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
    found = _search(problem, starts, partitions, settings)
    margins = {priors[0]: mean_margin(problem, found.labels)}
    chosen = problem, found
    candidates = [found.labels, *partitions, *(f.labels for f in found.others[:RUNNERS_UP])]
    quick = replace(settings, n_kicks=0)
    for p in priors[1:]:
        if margins[priors[0]] > 1.0 - CLEAR_GAIN:
            break
        other = replace(problem, size_prior=p)
        again = search_labels(other, [(labels, SHAKES) for labels in candidates], quick)
        again = regrouped(other, again, settings)
        margins[p] = mean_margin(other, again.labels)
        if margins[p] > max(margins[priors[0]] + CLEAR_GAIN, margins[chosen[0].size_prior]):
            chosen = other, again
        candidates.append(again.labels)
    return (*chosen, margins)


def _search(problem, starts: Starts, partitions, settings: SearchSettings) -> Found:
    """Search from the partitions and one start, and, unless all agree, from all starts."""
    early = []
    for start in [(labels, SHAKES) for labels in partitions] + starts[:1]:
        found = search_labels(problem, [start], replace(settings, n_kicks=0))
        early.append(regrouped(problem, found, settings))
    best = max(early, key=lambda found: found.value)
    alike = all(agreement(best.labels, f.labels, problem.k) > SAME for f in early)
    if len(early) > 1 and alike and mean_margin(problem, best.labels) > CLEAR:
        return best
    again: Starts = [(found.labels, SHAKES) for found in early]
    return regrouped(problem, search_labels(problem, again + starts[1:], settings), settings)
