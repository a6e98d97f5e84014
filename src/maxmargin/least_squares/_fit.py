"""One fit: similarities of the rows, the search over labels, the classifiers of the best labels.

:func:`fit_least_squares` is what :class:`LeastSquaresMarginClustering` (the paper's settings) and
:class:`MaxMarginClustering` (tempered sizes, a graph, a second metric, resamples) both call.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np
from scipy import sparse

from .._core.dedup import FitInput, make_input
from .._core.features import mapped_rows
from .._core.init import agreement, kmeans_partition
from .._core.links import Links, settled_groups
from .._core.model import MOST, Model, lead_of, trained
from .._core.rows import Rows
from .._core.size_floor import size_floor
from .._data.source import MemoryRows
from .._threads import in_order, one_thread
from ._confidence import Calibration, Resamples, calibrate, pair_agreement, subsamples
from ._graph import (
    UNLIKE_SCALES,
    MixedMap,
    about_scales,
    mixed_map,
    mixed_similarity,
    view_axes,
    view_fits,
    view_weights,
)
from ._label_search import (
    GENTLE,
    SETTLE_ROUNDS,
    SHAKES,
    Found,
    LabelProblem,
    SearchSettings,
    keep_known,
    label_problem,
    promised,
    search_labels,
    search_settings,
    settle,
    with_labels,
)
from ._links import OTHERS, more_often, predicts_more, search_with_links
from ._settings import DENSE_SHARE, Details, Settings, neighbour_count
from ._similarity import (
    FLOAT64_ROWS,
    column_scales,
    kernel_map,
    make_similarity,
    similarity_of,
    two_valued,
    whitening_axes,
)
from ._starts import (
    AGREEING,
    NotClear,
    Starts,
    by_spread,
    connected_of,
    later_kmeans,
    partitions_of,
    random_starts,
    rivals_of,
    search_sizes,
    starts_from_known,
    warn_about_sizes,
    with_connected,
)

FIRST_ROWS = 2000  # rows of the first of two fits
PILOT_ROWS, PILOT_ROWS_PER_CLUSTER = 1000, 40  # rows that are enough if the clusters are clear
PILOT_GAIN = 1.5  # least number of rows, in those of a pilot, for which it saves time
FIRST_SHARE = 0.3  # of the time, for the first of two fits
TRUSTED = 1e3  # largest weight over ridge for which labels of many rows come from the caches
RESAMPLED_ROWS, RESAMPLE_STARTS, RESAMPLE_KICKS = 1500, 1, 3
ALIKE_ENOUGH = 0.9  # stability from which on no more subsamples are needed
WIDEST_WHITENED, ROWS_PER_COLUMN = 100, 5
LEVEL = 0.05  # least share of the rows for each value of a column that is a category


def fit_least_squares(data: FitInput, s: Settings, also: Sequence[np.ndarray] = ()) -> Model:
    """Find the labels whose one-against-all least-squares classifiers fit best.

    The search also starts from the labels of the rows in ``also``.
    """
    s.check()
    few = max(PILOT_ROWS, PILOT_ROWS_PER_CLUSTER * s.n_clusters)
    free = data.initial is None and not (data.known >= 0).any()
    if s.pilot and free and min(len(data.weights), s.max_samples) >= PILOT_GAIN * few:
        rng = data.rng.spawn(1)[0]  # also with links: the search then goes on as without
        pilot = replace(s, max_samples=few, only_clear=True)
        if data.links is None:
            with suppress(NotClear):
                return _fit(replace(data, rng=rng), pilot, also)
    return _fit(data, s, also)


@dataclass(frozen=True)
class Fit:
    """The rows of a fit, and their metric once it is known."""

    data: FitInput
    s: Settings
    chosen: np.ndarray  # rows of the input that are in the fit
    # X, weights, known: of these rows
    X: Any
    weights: np.ndarray
    known: np.ndarray
    fmap: Any = None  # map to kernel values and neighbours
    about_scales: str = ""  # a sentence for the user if scales of columns differ much
    # labels, first: labels and model of the fit that the metric comes from, if there was one
    labels: Any = None
    first: Model | None = None


@dataclass(frozen=True)
class Searched:
    """The clusters found; ``replaced``: they are not those of the largest J_p."""

    problem: LabelProblem
    found: Found
    rivals: list[np.ndarray]  # that they were compared with
    extras: dict[str, Any]
    size_margins: dict[float, float]
    connected: np.ndarray | None
    replaced: bool
    by_links: bool = False  # they predict significantly more links than those without links


def _fit(data: FitInput, s: Settings, also: Sequence[np.ndarray]) -> Model:
    """One fit, or, if the metric depends on the clusters, two."""
    began = time.monotonic()
    chosen = data.chosen(s.max_samples, s.precomputed)
    X = data.X.take(slice(None) if len(chosen) == data.X.shape[0] else chosen)
    weights, known = data.weights[chosen], data.known[chosen]
    links = None if data.links is None else settled_groups(data.links, data.known).part(chosen)
    known = known if links is None else links.spread(known)
    if s.connected and not (sparse.issparse(X) or s.precomputed) and two_valued(X, LEVEL).any():
        s = replace(s, connected=False, spreads=False)  # rows of different levels are apart anyway
    fit, given = _in_metric(Fit(data, s, chosen, X, weights, known)), s
    if fit.first is not None and "size_prior_" in fit.first.extras:
        # Sizes are compared before whitening by the clusters of one p.
        s = replace(s, size_priors=(fit.first.extras["size_prior_"],))
        fit = replace(fit, s=s)
    kmeans = None
    if s.n_clusters > 1 and (s.compared or s.tempered):
        kmeans = later_kmeans(X, weights, data, s)
    similarity, basis = _similarity(fit)
    problem = replace(label_problem(similarity, known, data, s), links=links)
    settings, free = search_settings(s, data, began), not (known >= 0).any()
    if data.initial is None and not free:
        settings = replace(settings, n_kicks=0)  # a kick can swap the numbers of two clusters
    found = _searched(fit, problem, settings, _starts(fit, problem, also), kmeans)
    if links is not None:
        whole = search_settings(s, replace(data, links=None), began)
        found = _linked(found, replace(settings, deadline=whole.deadline))
    if data.initial is None and free and not (s.mixed or s.tempered):
        warn_about_sizes(fit.fmap, X, weights, settings, s)
    return _model(fit, found, basis, given)


def _starts(fit: Fit, problem: LabelProblem, also: Sequence[np.ndarray]) -> Starts:
    """Return the initial labels, with the first round of shaking of each."""
    initial, s, known = fit.data.initial, fit.s, problem.known
    if initial is not None:
        gently = SHAKES if s.tempered else GENTLE
        starts = [(keep_known(initial[fit.chosen], known), gently)]
    elif (known >= 0).any():
        starts = [(labels, GENTLE) for labels in starts_from_known(problem, fit.fmap, fit.X, s)]
    else:
        starts = random_starts(problem, s, fit.data.rng)
    # Not to be shaken: their sizes need not be the targets.
    more = [labels for labels in (fit.labels, *also) if labels is not None]
    return [(keep_known(labels, known), SHAKES) for labels in more] + starts


def _searched(
    fit: Fit, problem: LabelProblem, settings: SearchSettings, starts: Starts, kmeans: Any
) -> Searched:
    """Return the clusters of the largest J_p, or connected ones, or those of a mixture."""
    data, s, k, first = fit.data, fit.s, fit.s.n_clusters, fit.first
    connected, margins = None, dict[float, float]()
    extras: dict[str, Any] = {}
    if k > 1 and s.tempered:
        if first is not None and first.details.connected:
            connected = fit.labels
        else:
            connected = connected_of(fit.fmap, problem, s, data.n_jobs)
        if connected is not None:
            problem, connected = with_connected(problem, connected, s.balance)
    rivals = cache(partial(rivals_of, kmeans, problem, data, fit.chosen))
    if k > 1 and s.tempered:
        others = cache(partial(partitions_of, fit.fmap, problem, data, s))
        problem, found, margins = search_sizes(
            problem, starts, rivals(), others, connected, settings, s.size_priors
        )
        margins = margins if first is None else first.details.size_margins
        extras = {"size_prior_": problem.size_prior}
    else:
        found = search_labels(problem, starts, settings)
    compared = rivals() if s.compared and kmeans is not None else []
    if compared:
        found, comparison = promised(problem, found, compared, settings)
        extras |= comparison
    best = found
    if connected is not None:
        if agreement(found.labels, connected, k) <= AGREEING:
            found = with_labels(problem, found, connected)
    elif s.spreads and k > 1 and fit.fmap.axes is not None:
        found = by_spread(problem, found, fit.fmap.landmarks)
    return Searched(problem, found, compared, extras, margins, connected, found is not best)


def _linked(searched: Searched, settings: SearchSettings) -> Searched:
    """Return clusters that respect the links."""
    found, comparison, left = search_with_links(
        searched.problem, searched.found, settings, searched.rivals, searched.replaced
    )
    by_links = predicts_more(searched.problem, found.labels, searched.found.labels)
    if left:
        searched = replace(searched, connected=None, replaced=False)
    return replace(searched, found=found, extras=searched.extras | comparison, by_links=by_links)


# -- rows and similarities -------------------------------------------------------------------------


def _in_metric(fit: Fit) -> Fit:
    """Return the fit with the map of its rows, and the first fit that the map follows."""
    X, weights, data, s = fit.X, fit.weights, fit.data, fit.s
    if not (s.mixed or s.whiten):
        alone = kernel_map(X, weights, data.rng, s, s.kernels[0], n_jobs=data.n_jobs)
        return replace(fit, fmap=alone)
    count = neighbour_count(len(weights), s.n_clusters, s.n_neighbors)
    if s.views is not None:
        return _in_views(fit, s.views, count)
    dense = sparse.issparse(X) and X.nnz >= DENSE_SHARE * X.shape[0] * X.shape[1]
    rows = X.toarray() if dense else X
    labels, first, (n, d) = None, None, rows.shape
    plain = not sparse.issparse(rows) and not s.precomputed and d <= WIDEST_WHITENED
    scales, told = None, ""
    if s.scale and plain:
        scales, ratio = column_scales(rows, weights)
        told = about_scales(scales, ratio)
        scales = scales if ratio > UNLIKE_SCALES else None
    axes = None if scales is None else np.diag(1.0 / scales)
    # There must be enough rows to estimate the covariance within clusters.
    if s.whiten and plain and ROWS_PER_COLUMN * d <= n and s.n_clusters > 1:
        scaled = rows if scales is None else rows / scales
        if 0 < np.count_nonzero(two_valued(scaled, LEVEL)) < d:
            # A first fit would follow the levels of a category, which are apart.
            labels = kmeans_partition(Rows(scaled), weights, s.n_clusters, data.rng.spawn(1)[0])
        else:
            labels, first = _first_fit(fit, scaled)
        white = whitening_axes(scaled, labels, weights)
        axes = white if axes is None else axes @ white
    kernels = [
        kernel_map(rows, weights, data.rng, s, kernel, axes, data.n_jobs) for kernel in s.kernels
    ]
    fmap = mixed_map(kernels, X, count, dense)
    return replace(fit, fmap=fmap, about_scales=told, labels=labels, first=first)


def _in_views(fit: Fit, views: dict[str, np.ndarray], count: int) -> Fit:
    """Return the fit with the map of the views, weighted by a first fit with equal weights."""
    X, weights, s = fit.X, fit.weights, fit.s
    labels, first, shares = None, None, np.full(len(views), 1.0 / len(views))
    if s.whiten and len(shares) > 1 and s.n_clusters > 1:
        labels, first = _first_fit(fit, X)
        shares = view_weights(first.details.view_fits)
    axes = view_axes(X, weights, views)
    joint = np.hstack([np.sqrt(share) * own for share, own in zip(shares, axes)])
    # The first kernel only has the points of all views, for the graph.
    kernels = [
        kernel_map(X, weights, fit.data.rng, s, "rbf", own, fit.data.n_jobs)
        for own in (joint, *axes)
    ]
    fmap = mixed_map(kernels, X, count, dense=False)
    fmap = replace(fmap, shares=(0.0, *(shares / 2.0).tolist(), 0.5))
    return replace(fit, fmap=fmap, labels=labels, first=first)


def _first_fit(fit: Fit, X: Any) -> tuple[np.ndarray, Any]:
    """Return labels and model of a quicker fit, whose clusters give the metric of the second.

    Links change the metric only if the clusters then predict significantly more of them: another
    metric leads to other clusters, also far from the linked rows.
    """
    data, s, known = fit.data, fit.s, fit.known
    seed = np.random.RandomState(int(data.rng.integers(2**31 - 1))).randint(2**31 - 1)
    rows = MemoryRows(X)
    smaller = replace(
        make_input(rows, fit.weights, known if (known >= 0).any() else None, not s.precomputed),
        n_jobs=data.n_jobs,
    )
    settings = s.auxiliary(
        whiten=False,
        scale=False,
        spreads=False,
        max_samples=min(s.max_samples, FIRST_ROWS),
        time_budget=None if s.time_budget is None else FIRST_SHARE * s.time_budget,
    )

    def found(links: Links | None) -> tuple[np.ndarray, Model]:
        own = replace(smaller, links=links, rng=np.random.default_rng(seed))
        model = fit_least_squares(own, settings)
        labels = trained(model, rows, fit.weights, model.held, data.n_jobs).labels
        return np.where(known >= 0, known, labels).astype(labels.dtype), model

    labels, model = found(None)
    if data.links is not None:
        places = np.full(len(data.weights), -1)
        places[fit.chosen] = smaller.inverse
        links = data.links.mapped(places)
        if more_often(np.ones(len(links), bool), links.satisfied(labels[smaller.source])):
            linked = found(links)
            labels, model = linked if linked[1].details.by_links else (labels, model)
    return labels, model


def _similarity(fit: Fit) -> tuple[Any, np.ndarray | None]:
    """Return R, and for a low-rank kernel the features that coefficients are folded into."""
    fmap, X, weights, s, data = fit.fmap, fit.X, fit.weights, fit.s, fit.data
    if isinstance(fmap, MixedMap):
        X = X.toarray() if fmap.dense else X
        return mixed_similarity(fmap, X, weights, s.ridge, data.n_jobs), None
    if fmap.projection is None:
        return make_similarity(fmap, X, weights, s.ridge, s.center, data.n_jobs, data.X), None
    basis = mapped_rows(fmap, X, data.n_jobs).values()
    K = basis @ basis.T
    scale = float(np.average(np.diag(K), weights=weights)) or 1.0  # of rows that are all equal: 0
    K /= K.dtype.type(scale)
    return similarity_of(K, scale, weights, s.ridge, s.center), basis


# -- the model and what is told of it --------------------------------------------------------------


def _model(fit: Fit, searched: Searched, basis: np.ndarray | None, given: Settings) -> Model:
    """Return the least-squares classifiers of the clusters.

    ``given`` are the settings before they followed a first fit.
    """
    data, s, chosen, found = fit.data, fit.s, fit.chosen, searched.found
    problem, held, connected = searched.problem, fit.known, searched.connected is not None
    similarity: Any = problem.similarity
    links = problem.links
    usual = size_floor(s.balance, fit.weights.sum(), s.n_clusters, data.whole)
    smaller = connected and problem.floor < usual
    if links is not None:
        held = np.where(links.linked(), found.labels, held)
    elif connected and searched.replaced:  # the mean R would smooth them where they are close
        similarity = similarity.last_alone()
    settled = replace(problem, known=held, similarity=similarity)
    # Connected clusters are kept, whatever the model predicts.
    rounds = 1 if connected and searched.replaced else SETTLE_ROUNDS
    targets, caches, prices = settle(settled, found.labels, rounds)
    coef, intercept = similarity.coefficients(caches, targets)
    loo = similarity.leave_one_out(caches, targets) + prices
    scores = similarity.fitted(caches, targets) + prices
    if isinstance(fit.fmap, MixedMap):
        # Equal rows that were not merged can have other neighbours in the graph: as for new rows,
        # the first of them counts.
        scores = scores[fit.fmap.own_places(fit.X)]
    labels = keep_known(scores.argmax(axis=1), held)
    details = _details(fit, searched, targets, labels, lead_of(loo, labels), similarity, caches)
    places = details.places(data)
    # If weights are far above the ridge, the caches are more precise than the coefficients.
    exact = len(data.inverse) <= FLOAT64_ROWS or data.weights.max() > TRUSTED * s.ridge
    exact = exact or not data.X.in_memory
    # Rows that were not in the fit are all scored again.
    exact = exact or len(chosen) < (1.0 - MOST) * len(data.inverse)
    extras = {
        "leave_one_out_": float(np.average(loo.argmax(axis=1) == labels, weights=fit.weights)),
        "leave_one_out_margins_": details.margins,
        "fitted_indices_": data.source[chosen],
        **searched.extras,
    }
    if s.n_resamples:
        again = replace(given, connected=connected and links is None)
        starts = [labels, *(other.labels for other in found.others[:OTHERS])]
        extras["_calibration"] = _resamples(data, chosen, starts, loo, again)
    return Model(
        fit.fmap,
        coef=coef if basis is None else coef @ basis,
        intercept=intercept + prices,
        paths=np.eye(s.n_clusters),
        objective=found.history[-1],
        history=found.history,
        n_iter=len(found.history),
        stop_reason=getattr(data.watch, "reason", None) or found.stop_reason,
        scores=None if exact else np.where(places[:, None] >= 0, scores[places], np.nan),
        balance=s.balance if s.cluster_sizes is None and not smaller else None,
        extras=extras,
        details=details,
        held=None if links is None else np.where(places >= 0, held[places], -1),
    )


def _details(
    fit: Fit, searched: Searched, targets: np.ndarray, labels: np.ndarray, margins: np.ndarray,
    similarity: Any, caches: np.ndarray,
) -> Details:  # fmt: skip
    """Return the results other than the model."""
    s, found = fit.s, searched.found
    lower = [other for other in found.others if other.value < found.value]
    apart = searched.connected  # links may have divided these clusters
    connected = apart is not None and agreement(found.labels, apart, s.n_clusters) > AGREEING
    return Details(
        fit.chosen, labels, margins,
        scores=similarity.fitted(caches, targets),
        others=[(1.0 - other.value / found.value, other.labels) for other in lower],
        whitened=fit.labels is not None and s.views is None,
        about_scales=fit.about_scales, connected=connected,
        replaced=searched.replaced and (connected or apart is None),
        size_margins=searched.size_margins,
        neighbours=getattr(similarity, "neighbours", None),
        view_weights=s.views and {v: 2.0 * w for v, w in zip(s.views, fit.fmap.shares[1:])},
        by_links=searched.by_links,
        view_fits=None if s.views is None else view_fits(similarity, caches, targets),
    )  # fmt: skip


# -- confidence ------------------------------------------------------------------------------------


def _resamples(
    data: FitInput, chosen: np.ndarray, starts: list[np.ndarray], loo: np.ndarray, s: Settings
) -> Resamples:
    """Return the calibration of the confidence and the stability, from fits of subsamples.

    Subsamples are to differ by rows, not by a search that is shorter: it begins at the labels, the
    first of ``starts``, and at others that were found, or the labels would be kept too often.
    """
    rng, labels = data.rng.spawn(1)[0], starts[0]
    rows = np.arange(len(labels))
    if len(rows) > RESAMPLED_ROWS:
        rows = np.sort(rng.choice(len(labels), RESAMPLED_ROWS, replace=False))
    X, places = data.X.take(chosen[rows]), np.arange(len(rows))  # a copy: the caller's may change
    part = replace(
        data.part(chosen[rows]),
        X=MemoryRows(X[:, chosen[rows]] if s.precomputed else X),
        source=places, inverse=places, initial=None, constraints=None, n_jobs=1,
        watch=FitInput.watch,
    )  # fmt: skip
    quicker = s.auxiliary(
        n_init=RESAMPLE_STARTS, n_kicks=RESAMPLE_KICKS, only_clear=False, time_budget=None,
        least_rows=s.least_rows // 2,  # a subsample has fewer rows of a small cluster
    )  # fmt: skip
    count = s.n_resamples
    some = subsamples(len(rows), 2 * count, rng, least=s.n_clusters)
    drawn = list(zip(some, rng.spawn(2 * count)))

    def fitted(one: Any) -> np.ndarray:
        some, own_rng = one
        smaller = replace(part.part(some), rng=deepcopy(own_rng))  # for a second time
        if s.precomputed:
            smaller = replace(smaller, X=smaller.X.columns(some))
        also = [one[rows[some]] for one in starts]
        with one_thread():
            return np.asarray(fit_least_squares(smaller, quicker, also).details.labels)

    def compute() -> tuple[Calibration, float]:
        resampled: list[np.ndarray] = []
        for some_drawn in (drawn[:count], drawn[count:]):
            for (some, _), found in zip(some_drawn, in_order(fitted, some_drawn, data.n_jobs)):
                resampled.append(np.full(len(labels), -1))
                resampled[-1][rows[some]] = found
            agreement = pair_agreement(resampled, s.n_clusters)[:, 0]
            stability = float(agreement.mean()) if len(agreement) else 0.0
            if stability > ALIKE_ENOUGH:  # else a few do not determine the probabilities
                break
        return calibrate(loo, labels, np.reshape(resampled, (-1, len(labels)))), stability

    return Resamples(compute)
