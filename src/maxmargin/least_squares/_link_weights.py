"""The weight of rows with links, chosen by links held out.

Links decide the labels of their own rows. If the other rows form clusters that are not the user's
classes, these labels must count for more to change the clusters: the linked rows get a weight, as
if they were repeated. It is used if models fitted on half of the links then predict clearly more
of the other half.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .._core.dedup import FitInput
from .._core.links import Links
from .._core.model import Model, trained
from .._data.source import MemoryRows
from ._fit import FIRST_ROWS, Settings, fit_least_squares
from ._links import more_often

HEAVY = 10.0
ERRORS = 1.0  # standard errors: a wrong choice costs little if the two predict almost as well
SURPRISES, SURPRISED = 5, 0.05  # least number and share of linked rows that are not predicted


def fit_with_links(data: FitInput, s: Settings) -> Model:
    """Fit with constraints; linked rows get a larger weight if held-out links say so."""
    model = fit_least_squares(data, s)
    if data.links is None or s.n_clusters == 1:
        return model
    linked = np.isin(model.details.chosen, data.links.rows())
    surprises = (model.details.margins[linked] < 0).sum()
    if surprises < max(SURPRISES, SURPRISED * linked.sum()):
        return model
    order = data.rng.permutation(len(data.links))
    right = np.zeros((2, len(order)), bool)
    for held_out, used in (np.array_split(order, 2), np.array_split(order, 2)[::-1]):
        part = replace(data, links=data.links.take(used))
        most = min(s.max_samples, FIRST_ROWS)
        quick = replace(s, n_resamples=0, compared=False, max_samples=most)
        for i, weight in enumerate((1.0, HEAVY)):
            found = fit_least_squares(weighted(part, weight), quick)
            right[i, held_out] = predicted(found, data, data.links.take(held_out))
    if not more_often(right[1], right[0], ERRORS):
        return model
    model = fit_least_squares(weighted(data, HEAVY), s)
    before, after = right.mean(axis=1)
    told = f"{HEAVY:g}: models then predict {after:.0%} of held-out links instead of {before:.0%}"
    return replace(model, details=replace(model.details, link_weight=told))


def weighted(data: FitInput, weight: float) -> FitInput:
    """Return the input with a larger weight of the rows with links."""
    weights = data.weights.copy()
    if data.links is not None:
        weights[data.links.rows()] *= weight
    return replace(data, weights=weights)


def predicted(model: Model, data: FitInput, links: Links) -> np.ndarray:
    """Return whether the model predicts each link."""
    rows = links.rows()
    X = MemoryRows(data.X.take(rows))
    unknown = np.full(len(rows), -1)
    labels = trained(replace(model, scores=None), X, np.ones(len(rows)), unknown, 1).labels
    return links.mapped(np.searchsorted(rows, np.arange(rows[-1] + 1))).satisfied(labels)
