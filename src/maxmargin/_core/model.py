"""The result of a method, and its decisions: labels, leads, cluster sizes and exemplars."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from .._data import to_host
from .._data.source import TILE, BlockResult, RowSource
from ._numba import decide, dense_margins, summarise
from .descent import CONVERGED
from .rows import Block, concat
from .size_floor import size_floor

PREDICTED = np.dtype(np.int32)
DOUBT = 1e-3  # lead below which a row's label is decided by the predict path
MOST = 0.9  # share of the rows from which on all are scored: their copy would cost more


@dataclass(frozen=True)
class Model:
    """Linear splits in feature space, and how they determine the clusters."""

    features: Any  # from raw rows to the features that the splits are linear in
    # coef, intercept: (m, r) and (m,): one row per split
    coef: np.ndarray
    intercept: np.ndarray
    # (k, m): signs of the splits that lead to each cluster, 0 for splits that are not on its path.
    # The score of a cluster is its smallest signed split score, so the cluster with the largest
    # score is the leaf that a row reaches from the root.
    paths: np.ndarray
    objective: float = 0.0
    history: list[float] = field(default_factory=list)
    n_iter: int = 0
    stop_reason: str = CONVERGED
    # (n_given, k): scores of the training rows if available; NaN for rows that were not in the fit
    scores: np.ndarray | None = None
    # every cluster was to have at least ``balance * n / k`` of the weight; None: not this method
    balance: float | None = None
    # (k,): clusters whose scores were raised to keep that size, if the method knows
    raised: np.ndarray | None = None
    extras: dict[str, Any] = field(default_factory=dict)  # further fitted attributes by name
    # (n_given,): labels of the training rows that constraints decided, -1 elsewhere: they replace
    # the predictions, as known labels do
    held: np.ndarray | None = None
    # intermediate results for attributes that depend on the final labels; not published
    details: Any = None
    # gives the scores of rows as :func:`margin_block`, and behind them further columns
    scored: Any = None

    def in_raw_rows(self) -> Model:
        """Return the model of a linear kernel in terms of raw rows."""
        fmap = self.features
        if fmap is None or fmap.landmarks is not None:
            return self
        coef = self.coef * fmap.scale
        intercept = self.intercept - coef @ fmap.offset
        return replace(self, coef=coef, intercept=intercept, features=replace(fmap, scale=1.0))

    def shared(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return what block functions need to decide: coefficients, levels and paths.

        Levels are added to the scores of centred rows: (x - o)'w + (b + o'w) is more precise than
        x'w + b far from the origin.
        """
        fmap = self.features
        levels = self.intercept + (self.coef @ fmap.offset if fmap.landmarks is None else 0.0)
        return self.coef, levels, self.paths

    def renumbered(self, order: np.ndarray) -> Model:
        """Return the model with clusters in this order; of two, a positive score means 1."""
        extras = {
            name: value.renumbered(order) if hasattr(value, "renumbered") else value
            for name, value in self.extras.items()
        }
        raised, held = None if self.raised is None else self.raised[order], self.held
        if held is not None:
            held = np.where(held >= 0, np.argsort(order)[held], -1)
        details, scores = self.details, None if self.scores is None else self.scores[:, order]
        if hasattr(details, "renumbered"):
            details = details.renumbered(order)
        model = replace(
            self, extras=extras, raised=raised, held=held, details=details, scores=scores
        )
        if self.paths.shape[0] == self.paths.shape[1]:  # one score for each cluster, not a tree
            return replace(model, coef=self.coef[order], intercept=self.intercept[order])
        paths = self.paths[order]
        if len(paths) == 2 and len(self.coef) and paths[0, 0] > 0:
            return replace(model, paths=-paths, coef=-self.coef, intercept=-self.intercept)
        return replace(model, paths=paths)

    def sizes_told(
        self, sizes: np.ndarray, lightest: float, whole: bool, entropy: bool
    ) -> tuple[np.ndarray, str | None]:
        """Return the clusters whose size ``balance`` decided, and what to say about the sizes.

        ``lightest`` is the least weight of a row, ``whole`` whether all weights are whole numbers,
        ``entropy`` whether the method has a soft preference for even sizes, too.
        """
        k, balance = len(sizes), self.balance or 0.0
        floor = size_floor(balance, sizes.sum(), k, whole) if k > 1 else 0.0
        # One row fewer would be too few; a floor of one row tells nothing.
        decided = (sizes - lightest < floor * (1 - 1e-9)) & (floor > lightest)
        if self.raised is not None:
            decided |= self.raised
        missing, empty, count = floor - sizes.min(), int((sizes == 0).sum()), int(decided.sum())
        told = None
        if missing > 1e-9 * floor:
            told = (
                f"balance={balance} cannot be met: equal rows or weights, earlier splits, or rows "
                "beyond max_samples, which the model labels, leave a cluster "
                f"{missing:g} short of {floor:g}. The nearest possible sizes are used."
            )
        elif empty:
            remedy = "raise balance to set a minimum size"
            if self.balance is None:
                remedy = "give partial_labels for rows of every cluster"
            told = (
                f"{empty} of {k} clusters {'has' if empty == 1 else 'have'} no rows; {remedy}, or "
                "ask for fewer clusters."
            )
        elif count and balance == 0:
            told = f"{count} of {k} clusters would be empty, but for one row; try fewer."
        elif count:
            advice = "Lower balance if clusters of such sizes are plausible"
            if entropy and self.raised is not None:
                advice = (
                    "The margin alone prefers uneven clusters, so a lower balance seldom helps; "
                    "set balance=0, which leaves the sizes to size_entropy"
                )
            told = (
                f"balance={balance} decided the size of {count} of {k} clusters: without it, sizes "
                f"would be less even. {advice}, or try fewer clusters."
            )
        return np.flatnonzero(decided), told


def cluster_scores(split_scores: Any, paths: np.ndarray, xp: Any = np) -> Any:
    """Return scores (n, k) of the clusters from scores (n, m) of the splits.

    Examples
    --------
    >>> cluster_scores(np.array([[0.5], [-2.0]]), np.array([[-1.0], [1.0]]))
    array([[-0.5,  0.5],
           [ 2. , -2. ]])
    """
    columns = []
    for path in paths:
        signed = [split_scores[:, s] * float(path[s]) for s in np.flatnonzero(path).tolist()]
        columns.append(xp.min(xp.stack(signed), axis=0))
    return xp.stack(columns, axis=1)


def decisions(margins: Any, xp: Any = np) -> tuple[Any, Any]:
    """Return the best cluster of every row, and its lead over the next best.

    Examples
    --------
    >>> decisions(np.array([[0.5, 1.0], [2.0, -2.0]]))
    (array([1, 0], dtype=int32), array([0.5, 4. ]))
    """
    if xp is np:
        labels, lead = np.empty(len(margins), PREDICTED), np.empty(len(margins))
        decide(margins, labels, lead)
        return labels, lead
    labels, lead = xp.argmax(margins, axis=1), xp.max(margins, axis=1)
    if margins.shape[1] > 1:
        own = labels[:, None] == xp.arange(margins.shape[1], device=margins.device)
        lead = lead - xp.max(xp.where(own, xp.full_like(margins, -np.inf), margins), axis=1)
    return xp.asarray(labels, dtype=xp.int32), lead


def margin_block(
    block: Block, _parts: Any, coef: np.ndarray, levels: np.ndarray, paths: np.ndarray
) -> BlockResult:
    """Block function: scores of the clusters, in float64."""
    xp = block.xp
    if not len(coef):
        return (), xp.zeros((block.shape[0], len(paths)), dtype=xp.float64)
    columns, level = block.send(coef.T), block.send(levels, xp.float64)
    if xp is np and block.features is None and not block.is_sparse:
        offset = np.zeros(len(columns)) if block.offset is None else block.offset
        found = np.empty((block.shape[0], len(coef)))
        stored, scale = np.ascontiguousarray(block.data), block.dtype.type(block.scale)
        dense_margins(stored, block.send(offset), scale, columns, level, TILE, found)
    else:
        tiles = (tile.scores(columns) for _, tile in block.tiles())
        found = concat([xp.asarray(tile, dtype=xp.float64) + level for tile in tiles], xp)
    is_tree = paths.shape[0] != paths.shape[1]  # else there is one score for each cluster
    return (), cluster_scores(found, paths, xp) if is_tree else found


def label_block(block: Block, parts: Any, *model: np.ndarray) -> BlockResult:
    """Block function: the cluster of every row."""
    return (), decisions(margin_block(block, parts, *model)[1], block.xp)[0]


def loss_block(block: Block, parts: Any, *model: Any, losses: Callable[..., Any]) -> BlockResult:
    """Block function: the loss of every row for its predicted cluster."""
    margins = margin_block(block, parts, *model)[1]
    margins = margins if block.xp is np else to_host(margins)
    return (), block.send(losses(margins)[:, None], block.xp.float64)


def decide_block(block: Block, parts: Any, *model: np.ndarray, scored: Any) -> BlockResult:
    """Block function: labels and leads, and what they say of the clusters: see :func:`summary`.

    ``parts`` are weights and known labels, which replace the model's; ``scored`` is that of
    :class:`Model`, whose further columns come with the sums.
    """
    k, found = len(model[-1]), (scored or margin_block)(block, parts, *model)[1]
    weights, known = parts
    columns, sums = summary(*decisions(found[:, :k], block.xp), weights, known, k, block.xp)
    return columns, (sums, found[:, k:] if scored else None)


def summary(
    labels: Any, lead: Any, weights: np.ndarray, known: np.ndarray, k: int, xp: Any = np
) -> tuple[tuple[Any, Any], tuple[Any, ...]]:
    """Return labels and leads, corrected for known labels, and a summary of the clusters.

    The summary has the number of rows, the weight of every cluster, its first row of positive
    weight, its row with the largest lead, that lead, and the number of rows with ties.
    """
    n = labels.shape[0]
    if xp is np:
        sizes, first = np.zeros(k), np.full(k, n)
        certain, best = np.zeros(k, np.int64), np.full(k, -np.inf)
        ties = summarise(labels, lead, weights, known, sizes, first, certain, best)
        return (labels, lead), (n, sizes, first, certain, best, ties if k > 1 else 0)
    ties = xp.sum(xp.asarray((lead == 0.0) & (k > 1), dtype=xp.int64))
    is_known = known >= 0
    lead = xp.where(is_known & (known != labels), -lead, lead)
    labels = xp.where(is_known, xp.asarray(known, dtype=labels.dtype), labels)
    member = labels[:, None] == xp.arange(k, dtype=labels.dtype, device=labels.device)
    places = xp.broadcast_to(xp.arange(n, device=labels.device)[:, None], (n, k))
    none, weight = xp.full_like(places, n), xp.broadcast_to(weights[:, None], (n, k))
    sizes = xp.sum(xp.where(member, weight, xp.zeros_like(weight)), axis=0)
    first = xp.min(xp.where(member & (weight > 0), places, none), axis=0)
    held = xp.broadcast_to(lead[:, None], (n, k))
    held = xp.where(member, held, xp.full_like(held, -np.inf))
    best = xp.max(held, axis=0)
    certain = xp.min(xp.where(held == best, places, none), axis=0)
    return (labels, lead), (n, sizes, first, certain, best, ties)


@dataclass(frozen=True)
class Decided:
    """Labels of all rows and a summary of the clusters."""

    labels: Any  # labels, stored with the rows
    # lead of each row's cluster over the next best; negative where a known label contradicts
    lead: Any
    sizes: np.ndarray  # (k,)
    # first, exemplars: (k,): first row of positive weight, and row with the largest lead; n and -1
    # for an empty cluster
    first: np.ndarray
    exemplars: np.ndarray
    ties: int  # rows whose two best clusters have the same score
    # (n, n_further): columns beside the scores of the rows that the model has scored; NaN for other
    # rows
    further: np.ndarray | None = None


def trained(
    model: Model,
    rows: RowSource,
    weights: np.ndarray | None,
    known: np.ndarray | None,
    n_jobs: int,
) -> Decided:
    """Return the predictions for the training rows.

    If the method returned their scores, only rows with small leads are mapped again.
    """
    shared, n, k, scores = model.shared(), rows.shape[0], len(model.paths), model.scores
    weights = np.broadcast_to(1.0, n) if weights is None else weights
    known = np.broadcast_to(-1, n) if known is None else known
    further = None
    if scores is None:
        mapped = model.features.rows(rows, n_jobs)
        made = PREDICTED, np.dtype(np.float32 if n > 100_000 else np.float64)
        decide_rows = partial(decide_block, scored=model.scored)
        (labels, lead), found = mapped.run(decide_rows, shared, (weights, known), made)
        blocks, beside = zip(*found)
        if model.scored is not None:
            further = np.concatenate(beside)
    else:
        doubt = np.isnan(scores[:, 0])
        if k > 1:
            doubt |= ~(decisions(np.nan_to_num(scores))[1] >= DOUBT)
        at = np.flatnonzero(doubt)
        if len(at):
            at = np.arange(n) if len(at) > MOST * n else at
            part = model.features.rows(rows.sample(at), n_jobs)
            found = np.concatenate(list(part.run(model.scored or margin_block, shared)[1]))
            scores[at] = found[:, :k]
            if model.scored is not None:
                further = np.full((n, found.shape[1] - k), np.nan)
                further[at] = found[:, k:]
        (labels, lead), sums = summary(*decisions(scores), weights, known, k)
        blocks = (sums,)
    start, ties = 0, 0
    sizes, first = np.zeros(k), np.full(k, n)
    exemplars, best = np.full(k, -1), np.full(k, -np.inf)
    for count, held, earliest, certain, leads, tied in blocks:
        sizes += held
        better = leads > best
        exemplars[better], best[better] = start + certain[better], leads[better]
        first = np.where((earliest < count) & (first == n), start + earliest, first)
        start, ties = start + count, ties + tied
    return Decided(labels, lead, sizes, first, exemplars, ties, further)


def published(
    model: Model, rows: RowSource, weights: np.ndarray | None, known: np.ndarray | None, n_jobs: int
) -> tuple[Decided, Model]:
    """Return the predicted labels, and the model with clusters in order of falling size."""
    if known is not None:
        held = known if model.held is None else np.where(known >= 0, known, model.held)
        model = replace(model, held=held)
    found, names = trained(model, rows, weights, model.held, n_jobs), None
    if known is None:
        order = cluster_numbers(found.sizes, found.first)
        model, names = model.renumbered(order), np.argsort(order).astype(np.int32)
        if found.ties:  # predict breaks ties by the new numbers
            again = trained(model, rows, weights, model.held, n_jobs)
            found, names = replace(again, further=found.further), None
        else:
            found = replace(found, sizes=found.sizes[order], exemplars=found.exemplars[order])
    labels = rows.like(found.labels, names)
    if labels is None:  # they are on a dask cluster: predict computes them again
        labels = rows.map(label_block, model.features.rows(rows).block, model.shared())
        if model.held is not None:
            fixed = rows.like(model.held.astype(np.int32))
            labels = labels * (fixed < 0) + fixed * (fixed >= 0)
    return replace(found, labels=labels), model


def falling_sizes(labels: np.ndarray, weights: np.ndarray | None, k: int) -> np.ndarray:
    """Return the order of clusters of labels in input order: see :func:`cluster_numbers`.

    Examples
    --------
    >>> falling_sizes(np.array([2, 1, 0, 1, 0]), None, 3)
    array([1, 0, 2])
    >>> falling_sizes(np.array([2, 1, 0, 1, 0]), np.array([1.0, 0.0, 2.0, 2.0, 0.0]), 3)
    array([0, 1, 2])
    """
    first, sizes = np.full(k, len(labels)), np.bincount(labels, weights, minlength=k)
    # A row of weight zero counts like a row left out.
    counted = np.arange(len(labels)) if weights is None else np.flatnonzero(weights > 0)
    found, at = np.unique(labels[counted], return_index=True)
    first[found] = counted[at]
    return cluster_numbers(sizes, first)


def cluster_numbers(sizes: np.ndarray, first: np.ndarray) -> np.ndarray:
    """Return clusters by falling size; equal sizes by the first row that they contain.

    Examples
    --------
    >>> cluster_numbers(np.array([0.1 + 0.2, 0.3, 5.0]), np.array([7, 2, 9]))
    array([2, 1, 0])
    """
    # Sums of the same weights in another order differ in their last digits.
    return np.lexsort((first, -np.round(sizes / sizes.sum(), 12)))


def lead_of(scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return each row's own score minus the best other one.

    Examples
    --------
    >>> lead_of(np.array([[0.75, 0.25], [0.5, 0.25]]), np.array([0, 1]))
    array([ 0.5 , -0.25])
    """
    own = scores[np.arange(len(labels)), labels]
    others = scores.copy()
    others[np.arange(len(labels)), labels] = -np.inf
    return np.asarray(own - others.max(axis=1) if scores.shape[1] > 1 else own)


def lead_losses(scores: np.ndarray) -> np.ndarray:
    """Return the hinge loss of every row by the lead of its best score (Crammer and Singer).

    Examples
    --------
    >>> lead_losses(np.array([[0.75, 0.25], [2.0, 0.0]]))
    array([0.5, 0. ])
    """
    return np.maximum(0.0, 1.0 - lead_of(scores, scores.argmax(axis=1)))


def host_labels(labels: Any) -> np.ndarray:
    """Return labels, or other numbers of rows, as a numpy array."""
    return labels if isinstance(labels, np.ndarray) else np.asarray(to_host(labels))


class NotKept:
    """An attribute that fit sets for its rows, and that model files do not contain."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, model: Any, owner: type | None = None) -> Any:
        if model is None:
            return self
        raise not_kept(self.name)  # fit sets an attribute of the instance, which comes first


def not_kept(name: str, more: str = "") -> AttributeError:
    """Return the error for an attribute that a model does not have."""
    return AttributeError(
        f"{name} needs a fit of rows in memory{more}, and is not kept in model files; call "
        f"{name[:-1]}(X)."
    )
