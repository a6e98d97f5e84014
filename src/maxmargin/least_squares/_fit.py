"""One fit: similarities of the rows, the search over labels, the classifiers of the best labels.

:func:`fit_least_squares` is what :class:`LeastSquaresMarginClustering` (the paper's settings) and
:class:`MaxMarginClustering` (tempered sizes, a graph, a second metric, resamples) both call.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np
from scipy import sparse

from .._core.dedup import FitInput, make_input
from .._core.features import (
    FeatureMap,
    kernel_basis,
    kernel_params,
    mapped_rows,
)
from .._core.init import agreement, kmeans_partition
from .._core.links import settled_groups
from .._core.model import MOST, Model, lead_of, trained
from .._core.rows import Rows
from .._data.source import MemoryRows
from .._threads import in_order, one_thread
from ._confidence import Calibration, calibrate
from ._graph import (
    UNLIKE_SCALES,
    MixedMap,
    mixed_map,
    mixed_similarity,
    view_axes,
    view_fits,
    view_weights,
)
from ._label_search import (
    GENTLE,
    SHAKES,
    Found,
    LabelProblem,
    SearchSettings,
    keep_known,
    predictive_fit,
    promised,
    search_labels,
    settle,
)
from ._links import search_with_links
from ._resampling import SHARE, Resamples, pair_agreement, subsamples
from ._settings import DENSE_SHARE, Details, Settings, label_problem, search_settings
from ._similarity import (
    FLOAT64_ROWS,
    column_scales,
    factor_dtype,
    make_similarity,
    principal_axes,
    similarity_of,
    two_valued,
    whitening_axes,
)
from ._size_search import SAME, NotClear, Starts, search_sizes, warn_about_sizes
from ._starts import (
    connected_of,
    kmeans_rival,
    partitions_of,
    random_starts,
    rivals_of,
    spread_clusters,
    starts_from_known,
)

FIRST_ROWS = 2000  # rows of the first of two fits
PILOT_ROWS, PILOT_ROWS_PER_CLUSTER = 1000, 40  # rows that are enough if the clusters are clear
PILOT_GAIN = 1.5  # least number of rows, in those of a pilot, for which it saves time
FIRST_SHARE = 0.3  # of the time, for the first of two fits
TRUSTED = 1e3  # largest weight over ridge for which labels of many rows come from the caches
RESAMPLED_ROWS, RESAMPLE_STARTS, RESAMPLE_KICKS = 1500, 1, 3
ALIKE_ENOUGH = 0.9  # stability from which on no more subsamples are needed
WIDEST_WHITENED, ROWS_PER_COLUMN = 100, 5
ROWS_PER_NEIGHBOR = 3  # least number of rows per cluster and neighbour in the graph
LEVEL = 0.05  # least share of the rows for each value of a column that is a category
SPREAD_RATIO = 2.0  # least ratio of squared scales
WELL_PREDICTED, SPREAD_LOSS = 0.9, 0.06  # leave-one-out R2


def fit_least_squares(data: FitInput, s: Settings, also: np.ndarray | None = None) -> Model:
    """Find the labels whose one-against-all least-squares classifiers fit best.

    ``also`` are labels of the rows that the search starts from in addition to the usual ones.
    """
    s.check()
    few = max(PILOT_ROWS, PILOT_ROWS_PER_CLUSTER * s.n_clusters)
    free = data.links is None and data.initial is None and not (data.known >= 0).any()
    if s.pilot and free and min(len(data.weights), s.max_samples) >= PILOT_GAIN * few:
        try:
            pilot = replace(s, max_samples=few, only_clear=True)
            return _fit(replace(data, rng=data.rng.spawn(1)[0]), pilot, also)
        except NotClear:
            pass
    return _fit(data, s, also)


@dataclass(frozen=True)
class Fit:
    """The rows of a fit in their metric.

    ``first`` and ``labels`` are the model and the labels of the fit that the metric comes from, if
    there was one; ``given`` are the settings before they followed that model.
    """

    data: FitInput
    s: Settings
    given: Settings
    chosen: np.ndarray
    X: Any
    known: np.ndarray
    fmap: Any
    labels: Any
    first: Model | None
    scaled: bool


@dataclass(frozen=True)
class Searched:
    """The clusters found; ``replaced``: they are not those of the largest J_p."""

    problem: LabelProblem
    found: Found
    rivals: list[np.ndarray]
    compared: dict[str, Any]
    size_margins: dict[float, float]
    connected: np.ndarray | None
    replaced: bool


def _fit(data: FitInput, s: Settings, also: np.ndarray | None) -> Model:
    """One fit, or, if the metric depends on the clusters, two."""
    began = time.monotonic()
    chosen = data.chosen(s.max_samples, s.precomputed)
    X = data.X.take(slice(None) if len(chosen) == data.X.shape[0] else chosen)
    weights, known = data.weights[chosen], data.known[chosen]
    links = None if data.links is None else settled_groups(data.links, data.known).part(chosen)
    known = known if links is None else links.spread(known)
    if s.connected and not (sparse.issparse(X) or s.precomputed) and two_valued(X, LEVEL).any():
        s = replace(s, connected=False, spreads=False)  # rows of different levels are apart anyway
    fmap, labels, first, scaled = _feature_map(X, weights, known, data, s, chosen)
    fit = Fit(data, s, s, chosen, X, known, fmap, labels, first, scaled)
    if first is not None:  # sizes are compared before whitening by the clusters of one p
        s = replace(s, size_prior=first.extras.get("size_prior_", s.size_prior))
        fit = replace(fit, s=s)
    rival = None
    if s.n_clusters > 1 and (s.compared or s.tempered):
        rival = kmeans_rival(X, weights, data, s)
    similarity, basis = _similarity(fmap, X, weights, s, data.n_jobs, data.X)
    problem = replace(label_problem(similarity, known, data, s), links=links)
    settings, free = search_settings(s, data, began), not (known >= 0).any()
    if data.initial is None and not free:
        settings = replace(settings, n_kicks=0)  # a kick can swap the numbers of two clusters
    found = _searched(fit, problem, settings, _starts(fit, problem, also), rival)
    if links is not None:
        whole = search_settings(s, replace(data, links=None), began)
        found = _linked(found, replace(settings, deadline=whole.deadline), s.compared)
    if data.initial is None and free and not (s.mixed or s.tempered):
        warn_about_sizes(fmap, X, weights, settings, s)
    return _model(fit, found, basis)


def _starts(fit: Fit, problem: LabelProblem, also: np.ndarray | None) -> Starts:
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
    more = [
        (keep_known(labels, known), SHAKES) for labels in (fit.labels, also) if labels is not None
    ]
    return more + starts


def _searched(
    fit: Fit, problem: LabelProblem, settings: SearchSettings, starts: Starts, rival: Any
) -> Searched:
    """Return the clusters of the largest J_p, or connected ones, or those of a mixture."""
    s, k, first = fit.s, fit.s.n_clusters, fit.first
    rivals, connected = [], None
    margins: dict[float, float] = {}
    compared: dict[str, Any] = {}
    if rival is not None and s.tempered:
        rivals = rivals_of(rival, problem, fit.data, fit.chosen)
    if k > 1 and s.tempered:
        if first is not None and first.details.connected:
            lightest = np.bincount(fit.labels, problem.similarity.weights, minlength=k).min()
            connected = fit.labels if lightest >= problem.floor else None
        else:
            connected = connected_of(fit.fmap, problem, s, fit.data.n_jobs)
        others_of = cache(partial(partitions_of, fit.fmap, problem, fit.data, s))
        problem, found, margins = search_sizes(
            problem, starts, rivals, others_of, connected, settings, s.priors
        )
        margins = margins if first is None else first.details.size_margins
        compared["size_prior_"] = problem.size_prior
    else:
        found = search_labels(problem, starts, settings)
    if rival is not None and not s.tempered:
        rivals = rivals_of(rival, problem, fit.data, fit.chosen)
    if s.compared and rivals:
        found, comparison = promised(problem, found, rivals, settings)
        compared |= comparison
    best = found
    if connected is not None:
        if agreement(found.labels, connected, k) <= SAME:
            found = _with_labels(problem, found, connected)
    elif s.spreads and k > 1 and fit.fmap.axes is not None:
        found = _by_spread(problem, found, fit.fmap, s)
    return Searched(problem, found, rivals, compared, margins, connected, found is not best)


def _linked(searched: Searched, settings: SearchSettings, compared: bool) -> Searched:
    """Return clusters that respect the links."""
    found, comparison, left = search_with_links(
        searched.problem,
        searched.found,
        settings,
        searched.rivals if compared else [],
        searched.replaced,
    )
    if left:
        searched = replace(searched, connected=None, replaced=False)
    return replace(searched, found=found, compared=searched.compared | comparison)


def _model(fit: Fit, searched: Searched, basis: np.ndarray | None) -> Model:
    """Return the least-squares classifiers of the clusters."""
    data, s, chosen, found = fit.data, fit.s, fit.chosen, searched.found
    problem, held, connected = searched.problem, fit.known, searched.connected is not None
    similarity: Any = problem.similarity
    links = problem.links
    if links is not None:
        held = np.where(links.linked(), found.labels, held)
    elif connected and searched.replaced:  # the mean R would smooth them where they are close
        similarity = similarity.last_alone()
    settled = replace(problem, known=held, similarity=similarity)
    labels, caches, prices = settle(settled, found.labels, keep=connected and searched.replaced)
    coef, intercept = similarity.coefficients(caches, labels)
    loo = similarity.leave_one_out(caches, labels) + prices
    details = _details(fit, searched, labels, lead_of(loo, labels), similarity, caches)
    places = details.places(data)
    # If weights are far above the ridge, the caches are more precise than the coefficients.
    exact = len(data.inverse) <= FLOAT64_ROWS or data.weights.max() > TRUSTED * s.ridge
    exact = exact or not data.X.in_memory
    # Rows that were not in the fit are all scored again.
    exact = exact or len(chosen) < (1.0 - MOST) * len(data.inverse)
    scores = None if exact else (details.scores + prices)[places]
    extras = {
        "leave_one_out_": float(
            np.average(loo.argmax(axis=1) == labels, weights=similarity.weights)
        ),
        "leave_one_out_margins_": details.margins,
        "fitted_indices_": data.source[chosen],
        **searched.compared,
    }
    if s.n_resamples:
        again = replace(fit.given, connected=connected and links is None)
        extras["_calibration"] = _resamples(data, chosen, labels, loo, again)
    return Model(
        fit.fmap,
        coef=coef if basis is None else coef @ basis,
        intercept=intercept + prices,
        paths=np.eye(s.n_clusters),
        objective=found.history[-1],
        history=found.history,
        n_iter=len(found.history),
        stop_reason=getattr(data.watch, "reason", None) or found.stop_reason,
        scores=None if scores is None else np.where(places[:, None] >= 0, scores, np.nan),
        balance=s.balance if s.cluster_sizes is None else 0.0,
        extras=extras,
        details=details,
        held=None if links is None else np.where(places >= 0, held[places], -1),
    )


def _details(
    fit: Fit, searched: Searched, labels: np.ndarray, margins: np.ndarray, similarity: Any,
    caches: np.ndarray,
) -> Details:  # fmt: skip
    s, found = fit.s, searched.found
    lower = [other for other in found.others if other.value < found.value]
    return Details(
        fit.chosen, labels, margins,
        scores=similarity.fitted(caches, labels),
        others=[(1.0 - other.value / found.value, other.labels) for other in lower],
        whitened=fit.labels is not None and s.views is None,
        scaled=fit.scaled,
        by_spread=searched.replaced and searched.connected is None,
        by_connection=searched.replaced and searched.connected is not None,
        connected=searched.connected is not None,
        size_margins=searched.size_margins,
        view_weights=s.views and {v: 2.0 * w for v, w in zip(s.views, fit.fmap.shares[1:])},
        view_fits=None if s.views is None else view_fits(similarity, caches, labels),
    )  # fmt: skip


# -- rows and similarities -------------------------------------------------------------------------


def _feature_map(
    X: Any, weights: np.ndarray, known: np.ndarray, data: FitInput, s: Settings, chosen: np.ndarray
) -> tuple[Any, Any, Any, bool]:
    """Return the map to kernel values and neighbours, labels and model of a first fit, and whether
    columns were standardised.
    """
    if not (s.mixed or s.whiten):
        return kernel_map(X, weights, data.rng, s, s.kernels[0]), None, None, False
    # More neighbours than a cluster has rows would connect clusters.
    most = max(1, len(weights) // (ROWS_PER_NEIGHBOR * s.n_clusters))
    count = min(s.n_neighbors, most)
    if s.views is not None:
        return *_map_of_views(X, weights, known, data, s, chosen, count), False
    dense = sparse.issparse(X) and X.nnz >= DENSE_SHARE * X.shape[0] * X.shape[1]
    rows = X.toarray() if dense else X
    labels, first, (n, d) = None, None, rows.shape
    plain = not sparse.issparse(rows) and not s.precomputed and d <= WIDEST_WHITENED
    scales = None
    if s.scale and plain:
        scales, ratio = column_scales(rows, weights)
        scales = scales if ratio > UNLIKE_SCALES else None
    axes = None if scales is None else np.diag(1.0 / scales)
    # There must be enough rows to estimate the covariance within clusters.
    if s.whiten and plain and ROWS_PER_COLUMN * d <= n and s.n_clusters > 1:
        scaled = rows if scales is None else rows / scales
        if 0 < np.count_nonzero(two_valued(scaled, LEVEL)) < d:
            # A first fit would follow the levels of a category, which are apart.
            labels = kmeans_partition(Rows(scaled), weights, s.n_clusters, data.rng.spawn(1)[0])
        else:
            labels, first = _first_fit(scaled, weights, known, data, s, chosen)
        white = whitening_axes(scaled, labels, weights)
        axes = white if axes is None else axes @ white
    kernels = [kernel_map(rows, weights, data.rng, s, kernel, axes) for kernel in s.kernels]
    return mixed_map(kernels, X, count, dense), labels, first, scales is not None


def _map_of_views(
    X: np.ndarray, weights: np.ndarray, known: np.ndarray, data: FitInput, s: Settings,
    chosen: np.ndarray, count: int,
) -> tuple[MixedMap, np.ndarray | None, Model | None]:  # fmt: skip
    """Return the map of the views, and labels and model of a first fit with equal weights."""
    views = s.views or {}
    labels, first, shares = None, None, np.full(len(views), 1.0 / len(views))
    if s.whiten and len(shares) > 1 and s.n_clusters > 1:
        labels, first = _first_fit(X, weights, known, data, s, chosen)
        shares = view_weights(first.details.view_fits)
    axes = view_axes(X, weights, views)
    joint = np.hstack([np.sqrt(share) * own for share, own in zip(shares, axes)])
    # The first kernel only has the points of all views, for the graph.
    kernels = [kernel_map(X, weights, data.rng, s, "rbf", own) for own in (joint, *axes)]
    fmap = mixed_map(kernels, X, count, dense=False)
    return replace(fmap, shares=(0.0, *(shares / 2.0).tolist(), 0.5)), labels, first


def _first_fit(
    X: Any, weights: np.ndarray, known: np.ndarray, data: FitInput, s: Settings, chosen: np.ndarray
) -> tuple[np.ndarray, Any]:
    """Return labels and model of a quicker fit, whose clusters give the metric of the second."""
    seed = int(data.rng.integers(2**31 - 1))
    given = known if (known >= 0).any() else None
    rows = MemoryRows(X)
    smaller = replace(
        make_input(rows, weights, given, merge=not s.precomputed),
        rng=np.random.default_rng(np.random.RandomState(seed).randint(2**31 - 1)),
        n_jobs=data.n_jobs,
    )
    settings = replace(
        s,
        whiten=False,
        scale=False,
        spreads=False,
        compared=False,
        pilot=False,
        n_resamples=0,
        max_samples=min(s.max_samples, FIRST_ROWS),
        time_budget=None if s.time_budget is None else FIRST_SHARE * s.time_budget,
    )
    if data.links is not None:
        places = np.full(len(data.weights), -1)
        places[chosen] = smaller.inverse
        smaller = replace(smaller, links=data.links.mapped(places))
    model = fit_least_squares(smaller, settings)
    labels = trained(model, rows, weights, model.held, data.n_jobs).labels
    return np.where(known >= 0, known, labels).astype(labels.dtype), model


def kernel_map(
    X: Any,
    weights: np.ndarray,
    rng: np.random.Generator,
    s: Settings,
    kernel: Any,
    axes: np.ndarray | None = None,
) -> FeatureMap:
    """Return the map from rows to their kernel values with all rows."""
    offset = None
    shift = kernel in ("rbf", "laplacian") or (kernel == "linear" and s.center)
    if not sparse.issparse(X) and (s.pca is not None or shift or axes is not None):
        offset = np.average(X, axis=0, weights=weights).astype(X.dtype)
    if s.pca is not None and axes is None:
        axes = principal_axes(X, offset, weights, s.pca).astype(X.dtype)
    dtype = np.dtype(factor_dtype(len(weights), s.ridge))
    plain = FeatureMap(kernel, {}, None, None, offset, np.zeros(0), 1.0, dtype, axes)
    points = np.arange(X.shape[0]) if s.precomputed else plain.points(X)
    params = {}
    if not s.precomputed:
        params = kernel_params(MemoryRows(points), kernel, s.gamma, s.degree, s.coef0, rng)
    fmap = replace(plain, params=params, landmarks=points, offset=np.zeros(X.shape[0]))
    if s.n_components is None or s.n_components >= X.shape[0]:
        return fmap
    few = np.sort(rng.choice(X.shape[0], s.n_components, replace=False))
    fmap = replace(fmap, landmarks=points[few])
    projection = kernel_basis(fmap.kernel_values(X[few]), kernel, dtype)
    return replace(fmap, projection=projection, offset=np.zeros(projection.shape[1]))


def _similarity(
    fmap: Any, X: Any, weights: np.ndarray, s: Settings, n_jobs: int, source: Any = None
) -> tuple[Any, np.ndarray | None]:
    """Return R, and for a low-rank kernel the features that coefficients are folded into."""
    if isinstance(fmap, MixedMap):
        X = X.toarray() if fmap.dense else X
        return mixed_similarity(fmap, X, weights, s.ridge, n_jobs), None
    if fmap.projection is None:
        return make_similarity(fmap, X, weights, s.ridge, s.center, n_jobs, source), None
    basis = mapped_rows(fmap, X, n_jobs).values()
    K = basis @ basis.T
    scale = float(np.average(np.diag(K), weights=weights)) or 1.0  # of rows that are all equal: 0
    K /= K.dtype.type(scale)
    return similarity_of(K, scale, weights, s.ridge, s.center), basis


# -- the search ------------------------------------------------------------------------------------


def _with_labels(problem: LabelProblem, found: Found, labels: np.ndarray) -> Found:
    """Return the search with other labels as its result."""
    value = problem.value(labels, problem.similarity.caches(labels, problem.k))
    history = [*found.history, problem.paper_value(value)]
    return replace(found, labels=labels, value=value, history=history)


def _by_spread(problem: LabelProblem, found: Found, fmap: Any, s: Settings) -> Found:
    """Return clusters that differ in spread, if their leave-one-out R2 is nearly as high.

    They are tried only if the leave-one-out R2 of clusters that differ in location is not high.
    """
    k, weights = s.n_clusters, problem.similarity.weights
    fit = predictive_fit(problem, found.labels)[0] / (k - 1)
    if fit >= WELL_PREDICTED:
        return found
    labels, scales = spread_clusters(fmap.landmarks, found.labels, weights, k)
    labels = keep_known(labels, problem.known)
    sizes = np.bincount(labels, weights, minlength=k)
    alike = scales.max() < SPREAD_RATIO * scales.min()
    if alike or sizes.min() < max(problem.floor, problem.unit):
        return found
    if predictive_fit(problem, labels)[0] / (k - 1) < fit - SPREAD_LOSS:
        return found
    return _with_labels(problem, found, labels)


# -- confidence ------------------------------------------------------------------------------------


def _resamples(
    data: FitInput, chosen: np.ndarray, labels: np.ndarray, loo: np.ndarray, s: Settings
) -> Resamples:
    """Return the calibration of the confidence and the stability, from fits of subsamples."""
    rng = data.rng.spawn(1)[0]
    rows = np.arange(len(labels))
    if len(rows) > RESAMPLED_ROWS:
        rows = np.sort(rng.choice(len(labels), RESAMPLED_ROWS, replace=False))
    X, places = data.X.take(chosen[rows]), np.arange(len(rows))  # a copy: the caller's may change
    part = replace(
        data.part(chosen[rows]),
        X=MemoryRows(X[:, chosen[rows]] if s.precomputed else X),
        source=places, inverse=places, initial=None, constraints=None, n_jobs=1, watch=_unwatched,
    )  # fmt: skip
    quicker = replace(
        s,
        n_init=RESAMPLE_STARTS,
        n_kicks=RESAMPLE_KICKS,
        compared=False,
        pilot=False,
        only_clear=False,
        n_resamples=0,
        time_budget=None,
    )
    # Not possible if a subsample has fewer rows than there are clusters.
    count = s.n_resamples if SHARE * len(rows) >= s.n_clusters else 0
    drawn = list(zip(subsamples(len(rows), 2 * count, rng), rng.spawn(2 * count)))

    def fitted(one: Any) -> np.ndarray:
        some, own_rng = one
        smaller = replace(part.part(some), rng=own_rng)
        if s.precomputed:
            smaller = replace(smaller, X=smaller.X.columns(some))
        # Subsamples are to differ by their rows, not by a search that is shorter.
        with one_thread():
            found = fit_least_squares(smaller, quicker, labels[rows[some]]).details.labels
        return np.asarray(found)

    def compute() -> tuple[Calibration, float]:
        resampled = np.full((0, len(labels)), -1)
        for some_drawn in (drawn[:count], drawn[count:]):
            more = np.full((len(some_drawn), len(labels)), -1)
            for row, (some, _), found in zip(
                more, some_drawn, in_order(fitted, some_drawn, data.n_jobs)
            ):
                row[rows[some]] = found
            resampled = np.concatenate([resampled, more])
            agreement = pair_agreement(resampled, s.n_clusters)[:, 0]
            stability = float(agreement.mean()) if len(agreement) else 0.0
            if stability > ALIKE_ENOUGH:  # else a few do not determine the probabilities
                break
        return calibrate(loo, labels, resampled), stability

    return Resamples(compute)


def _unwatched(_objective: float) -> None:
    """Observe nothing."""
