"""The weight of rows with links, chosen by links held out.

Links decide the labels of their own rows. If the other rows form clusters that are not the user's
classes, these labels must count for more to change the clusters: the linked rows get a weight, as
if they were repeated. It is used if models fitted on half of the links then predict clearly more
of the other half.

A wrong must-link joins two groups of rows, and few of them can join all. A link is doubted if the
clusters found without links contradict it and the other links of its rows support them (see
:func:`doubtful`); then, if they are few, all links that those clusters contradict. Doubted links
are not used if leave-one-out predictions then confirm as many of all links.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from .._core.dedup import FitInput
from .._core.links import Links
from .._core.model import Model, trained
from .._data.source import MemoryRows
from ._fit import FIRST_ROWS, fit_least_squares
from ._links import more_often
from ._settings import Settings

HEAVY = 10.0
ERRORS = 1.0  # standard errors: a wrong choice costs little if the two predict almost as well
MOST_DOUBTED = 0.2  # share of the links
SURPRISES, SURPRISED = 5, 0.05  # least number and share of linked rows that are not predicted


def fit_with_links(data: FitInput, s: Settings) -> Model:
    """Fit with constraints; linked rows get a larger weight if held-out links say so."""
    model = fit_least_squares(data, s)
    if s.n_clusters == 1 or _expected(model, data):
        return model
    model, data = _without_doubtful(model, data, s)
    assert data.links is not None
    if _expected(model, data):
        return model
    order = data.rng.permutation(len(data.links))
    right = np.zeros((2, len(order)), bool)
    for held_out, used in (np.array_split(order, 2), np.array_split(order, 2)[::-1]):
        part = replace(data, links=data.links.take(used))
        quick = s.auxiliary(max_samples=min(s.max_samples, FIRST_ROWS))
        for i, weight in enumerate((1.0, HEAVY)):
            found = fit_least_squares(weighted(part, weight), quick)
            right[i, held_out] = predicted(found, data, data.links.take(held_out))
    if not more_often(right[1], right[0], ERRORS):
        return model
    before, after = right.mean(axis=1)
    told = f"{HEAVY:g}: models then predict {after:.0%} of held-out links instead of {before:.0%}"
    doubted = model.details.doubted
    model = fit_least_squares(weighted(data, HEAVY), s)
    return replace(model, details=replace(model.details, link_weight=told, doubted=doubted))


def _expected(model: Model, data: FitInput) -> bool:
    """Return whether leave-one-out predictions are the labels of nearly all linked rows."""
    assert data.links is not None
    linked = np.isin(model.details.chosen, data.links.rows())
    surprises = (model.details.margins[linked] < 0).sum()
    return bool(surprises < max(SURPRISES, SURPRISED * linked.sum()))


def _without_doubtful(model: Model, data: FitInput, s: Settings) -> tuple[Model, FitInput]:
    """Return a model without doubtful links if it predicts as many of all links, and its input."""
    links = data.constraints.links()
    same_rows = replace(data.part(model.details.chosen), links=None, free=None)
    free = fit_least_squares(same_rows, s.auxiliary())
    against, supported = doubtful(
        links, free.details.places(same_rows), free.details.labels, free.details.margins
    )
    best, used = _predicted_links(model, data, links), data
    some = np.mean(against) <= MOST_DOUBTED
    for doubted in (against & supported, against)[: 1 + some]:
        if not doubted.any() or _expected(model, used):
            break
        rest = links.take(~doubted).mapped(data.inverse)
        fewer = replace(data, links=rest)
        other = fit_least_squares(fewer, s)
        count = _predicted_links(other, data, links)
        if count >= best and len(rest):
            details = replace(other.details, doubted=np.flatnonzero(doubted))
            model, used, best = replace(other, details=details), fewer, count
    return model, used


def doubtful(
    links: Links, places: np.ndarray, labels: np.ndarray, margins: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return whether clusters contradict each link, and whether the other links support them.

    Rows whose other links do not all agree with the clusters may be in the wrong cluster
    themselves. Without other links, a row must be in its cluster by a larger margin than most.
    Links of a weight above 1 are not doubted. ``places`` are the numbers of the rows among the
    fitted ones, -1 if a row is not fitted; labels and leave-one-out margins are of fitted rows.

    Examples
    --------
    >>> rows = np.array([[0, 1], [2, 3], [1, 2], [0, 3]]).T
    >>> links = Links(*rows, np.array([True, True, True, False]), np.ones(4))
    >>> doubtful(links, np.arange(4), np.array([0, 0, 1, 1]), np.ones(4))[0]
    array([False, False,  True, False])
    """
    ends = np.stack([links.first, links.second])
    fitted = (places[ends] >= 0).all(axis=0)
    together = labels[places[links.first]] == labels[places[links.second]]
    agree = fitted & (together == links.same)
    against = fitted & ~agree & (links.weights <= 1.0)
    good = np.bincount(ends.ravel(), np.tile(agree, 2), minlength=len(places))[ends]
    bad = np.bincount(ends.ravel(), np.tile(fitted & ~agree, 2), minlength=len(places))[ends] - 1
    certain = np.zeros(len(places), bool)
    certain[places >= 0] = (margins > np.median(margins))[places[places >= 0]]
    supported = (good > bad) | ((good + bad == 0) & certain[ends])
    return against, supported.all(axis=0)


def _predicted_links(model: Model, data: FitInput, links: Links) -> int:
    """Return the number of links that labels satisfy and leave-one-out predictions confirm."""
    places = model.details.places(data)
    inside = links.mapped(np.where(places >= 0, np.arange(len(places)), -1))
    right = inside.satisfied(model.details.labels[places])
    sure = model.details.margins[places] > 0
    return int((right & sure[inside.first] & sure[inside.second]).sum())


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


def links_told(data: FitInput, labels: np.ndarray, model: Model) -> Iterator[str]:
    """Yield the sentences about the constraints."""
    doubted = len(model.details.doubted)
    numbers = np.arange(data.constraints.n_links)
    used = data.constraints.take(np.setdiff1d(numbers, model.details.doubted))
    yield f"{_constraints(used.n_links)} used; {used.violations(labels).n_links} violated."
    if model.details.link_weight is not None:
        yield f"Rows with constraints have the weight {model.details.link_weight}."
    if doubted:
        yield (
            f"{_constraints(doubted, ' more')} not used, because the clusters and other "
            "constraints contradict them: see doubtful_constraints_."
        )


def _constraints(count: int, more: str = "") -> str:
    return f"{count}{more} constraint{' was' if count == 1 else 's were'}"
