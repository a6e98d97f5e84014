"""One fit: similarities of the rows, the search over labels, the classifiers of the best labels.

:func:`fit_least_squares` is what :class:`LeastSquaresMarginClustering` (the paper's settings) and
:class:`MaxMarginClustering` (tempered sizes, a graph, a second metric, resamples) both call.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from .._core.dedup import FitInput, make_input
from .._core.features import (
    KERNELS,
    FeatureMap,
    fit_features,
    kernel_basis,
    kernel_params,
    mapped_rows,
)
from .._core.model import Model, lead_of, trained
from .._core.rivals import held_labels, kmeans_partition
from .._core.rows import Rows
from .._core.size_floor import size_floor
from .._data.source import MemoryRows
from ._confidence import Calibration, calibrate
from ._graph import MixedMap, mixed_map, mixed_similarity
from ._label_search import (
    COARSE,
    GENTLE,
    SHAKES,
    Found,
    LabelProblem,
    SearchSettings,
    adapted_sizes,
    grown_labels,
    keep_known,
    predictive_fit,
    promised,
    random_labels,
    search_labels,
    settle,
    supervised_labels,
)
from ._resampling import SHARE, pair_agreement, subsamples
from ._scale_mixture import spread_clusters
from ._similarity import (
    FLOAT64_ROWS,
    Similarity,
    factor_dtype,
    make_similarity,
    principal_axes,
    similarity_of,
    whitening_axes,
)
from ._size_search import SIZE_PRIORS, search_sizes

AUTO_STARTS = 10
SIZE_DOUBT = 0.04  # gain in leave-one-out R2 above which a warning about sizes is raised
SIZE_CHECK_ROWS = 400
TEMPERED_STARTS, TEMPERED_KICKS = 8, 24
FIRST_ROWS = 2000  # rows of the first of two fits
FIRST_SHARE = 0.3  # of the time, for the first of two fits
NO_LIMIT = 10**9
TRUSTED = 1e3  # largest weight over ridge for which labels of many rows come from the caches
RESAMPLED_ROWS, RESAMPLE_STARTS, RESAMPLE_KICKS = 1500, 1, 3
DENSE_SHARE = 0.05  # CSR rows with more non-zeros than this are read as dense ones
WIDEST_WHITENED, ROWS_PER_COLUMN = 100, 5
KMEANS_RANK = 100  # features of a kernel matrix that k-means works on
ROWS_PER_NEIGHBOR = 3  # least number of rows per cluster and neighbour in the graph
SPREAD_RATIO = 2.0  # least ratio of squared scales
WELL_PREDICTED, SPREAD_LOSS = 0.9, 0.06  # leave-one-out R2


@dataclass(frozen=True)
class Settings:
    """Parameters of a fit; those of the paper have their names in the estimator's docstring.

    Attributes
    ----------
    n_neighbors : int
        Neighbours in a graph whose R joins the average; 0 for no graph. Fewer are used if there
        are less than three rows for each of them and each cluster.
    size_prior : float in [0, 1]
        p in J_p: from 0 (equal sizes) to 1 (no preference).
    whiten : bool
        Cluster twice, the second time after whitening by the covariance within the first clusters
        (if there are at most 100 columns and five rows for each). Needs ``size_prior`` > 0.
    spreads : bool
        Whether clusters may differ in spread instead of location. Needs ``whiten``.
    n_resamples : int
        Number of subsamples that are clustered for confidence and stability.
    time_budget : float or None
        Seconds after which no restart or kick starts.
    compared : bool
        Whether to compare the labels with the k-means partition.
    """

    n_clusters: int
    kernels: tuple
    search: str = "shaking"
    gamma: Any = "half-median"
    degree: float = 3
    coef0: float = 1
    ridge: float = 1.0
    center: bool = True
    cluster_sizes: Any = None
    n_init: Any = "auto"
    n_kicks: Any = "auto"
    partial_start: str = "auto"
    max_samples: int = 4000
    n_components: int | None = None
    pca: int | None = None
    balance: float = 0.1
    max_iter: int = 200
    n_neighbors: int = 0
    size_prior: Any = 0.0
    whiten: bool = False
    spreads: bool = False
    n_resamples: int = 0
    time_budget: float | None = None
    compared: bool = True

    @property
    def precomputed(self) -> bool:
        """Whether X is a kernel matrix."""
        return "precomputed" in [k for k in self.kernels if isinstance(k, str)]

    @property
    def mixed(self) -> bool:
        """Whether R is an average."""
        return self.n_neighbors > 0 or len(self.kernels) > 1

    @property
    def priors(self) -> tuple[float, ...]:
        """Values of p to compare, the preferred one first."""
        return SIZE_PRIORS if self.size_prior == "auto" else (self.size_prior,)

    @property
    def tempered(self) -> bool:
        """Whether sizes are tempered: p > 0."""
        return self.priors[0] > 0

    def check(self) -> None:
        """Raise an error for incompatible parameters."""
        allowed = [k for k in KERNELS if k != "precomputed" or len(self.kernels) == 1]
        unknown = [k for k in self.kernels if not callable(k) and k not in allowed]
        if unknown or not self.kernels:
            raise ValueError(
                f"kernel must be one or several of {', '.join(KERNELS[:-1])} or functions, or "
                f"'precomputed' alone; got {list(self.kernels)!r}."
            )
        if self.mixed and (self.n_components is not None or not self.center):
            raise ValueError(
                "Several kernels need center=True and n_components=None; got center="
                f"{self.center} and n_components={self.n_components}."
            )

    def memory(self, n_samples: int, n_features: int) -> int:
        """Return the peak memory in bytes that a fit needs beyond X itself."""
        m = min(n_samples, self.max_samples)
        itemsize = 4 if self.ridge >= 0.25 else 12
        matrices = len(self.kernels) + 1 if self.mixed else 1
        return int(itemsize * matrices * m**2 + 8 * m * n_features + 64 * n_samples)


@dataclass(frozen=True)
class Details:
    """Results of a fit other than the model.

    Attributes
    ----------
    chosen : ndarray
        Rows of the input that were in the fit.
    labels, margins : ndarray
        Label and leave-one-out margin of each of them.
    others : list of (float, ndarray)
        Other clusterings: relative difference of the objective, and labels of the fitted rows.
    by_spread : bool
        Whether the clusters are those of the mixture, not of the largest J_p.
    """

    chosen: np.ndarray
    labels: np.ndarray
    margins: np.ndarray
    others: list[tuple[float, np.ndarray]]
    by_spread: bool

    def places(self, data: FitInput) -> np.ndarray:
        """Return, for every row that the user gave, its place among the fitted rows, or -1."""
        fitted = np.full(len(data.weights), -1)
        fitted[self.chosen] = np.arange(len(self.chosen))
        return np.where(data.inverse >= 0, fitted[data.inverse], -1)


def fit_least_squares(data: FitInput, s: Settings, also: np.ndarray | None = None) -> Model:
    """Find the labels whose one-against-all least-squares classifiers fit best.

    ``also`` are labels of the rows that the search starts from in addition to the usual ones.
    """
    began = time.monotonic()
    s.check()
    chosen = data.chosen(s.max_samples, s.precomputed)
    X = data.X.take(slice(None) if len(chosen) == data.X.shape[0] else chosen)
    weights, known = data.weights[chosen], data.known[chosen]
    fmap, first_labels, sizes = _feature_map(X, weights, known, data, s)
    given = s
    if sizes:  # p is compared before whitening by the clusters of one p
        s = replace(s, size_prior=sizes["size_prior_"])
    similarity, basis = _similarity(fmap, X, weights, s, data.n_jobs, data.X)
    problem = label_problem(similarity, known, data, s)
    settings = search_settings(s, data, began)
    if data.initial is not None:
        gently = SHAKES if s.tempered else GENTLE
        starts = [(keep_known(data.initial[chosen], known), gently)]
    elif (known >= 0).any():
        starts = [(labels, GENTLE) for labels in _from_known(problem, fmap, X, s)]
        settings = replace(settings, n_kicks=0)  # a kick can swap the numbers of two clusters
    else:
        starts = random_starts(problem, s, data.rng)
    for more in (also, first_labels):
        if more is not None:
            # Not to be shaken: their sizes need not be the targets.
            starts.insert(0, (keep_known(more, known), SHAKES))
    rivals = []
    if s.n_clusters > 1 and (s.compared or s.tempered):
        rivals = _rivals(X, problem, data, chosen, s)
    compared: dict[str, Any] = {}
    if s.tempered and s.n_clusters > 1:
        partitions = rivals + _partitions(fmap, problem, data, s)
        problem, found, tried = search_sizes(problem, starts, partitions, settings, s.priors)
        compared = sizes or {"size_prior_": problem.size_prior, "_size_margins": tried}
    else:
        found = search_labels(problem, starts, settings)
    if s.compared and rivals:
        found, comparison = promised(problem, found, rivals, settings)
        compared |= comparison
    by_location = found
    if s.spreads and fmap.axes is not None:
        found = _by_spread(problem, found, fmap, s)
    labels, caches, prices = settle(problem, found.labels)
    coef, intercept = similarity.coefficients(caches, labels)
    loo = similarity.leave_one_out(caches, labels) + prices
    margins = lead_of(loo, labels)
    calibration, stability = None, 0.0
    if s.n_resamples:
        calibration, stability = _resampled(data, chosen, labels, loo, given)
    if data.initial is None and not (known >= 0).any():
        _warn_about_sizes(fmap, X, weights, settings, s)
    others = [(1.0 - other.value / found.value, other.labels) for other in found.others]
    details = Details(chosen, labels, margins, others, found is not by_location)
    scores = similarity.fitted(caches, labels) + prices
    places = details.places(data)
    # If weights are far above the ridge, the caches are more precise than the coefficients.
    exact = data.n_given <= FLOAT64_ROWS or data.weights.max() > TRUSTED * s.ridge
    exact = exact or not data.X.in_memory
    extras = {
        "leave_one_out_": float(np.average(loo.argmax(axis=1) == labels, weights=weights)),
        "leave_one_out_margins_": margins,
        "fitted_indices_": data.source[chosen],
        **compared,
    }
    if calibration is not None:
        extras |= {"stability_": stability, "_calibration": calibration}
    return Model(
        fmap,
        coef=coef if basis is None else coef @ basis,
        intercept=intercept + prices,
        paths=np.eye(s.n_clusters),
        objective=found.history[-1],
        history=found.history,
        n_iter=len(found.history),
        stop_reason=getattr(data.watch, "reason", None) or found.stop_reason,
        scores=None if exact else np.where(places[:, None] >= 0, scores[places], np.nan),
        balance=s.balance if s.cluster_sizes is None else 0.0,
        extras=extras,
        details=details,
    )


# -- rows and similarities -------------------------------------------------------------------------


def _feature_map(X, weights, known, data: FitInput, s: Settings):
    """Return the map to kernel values and neighbours, and labels and p of a first fit if any."""
    if not (s.mixed or s.whiten):
        return kernel_map(X, weights, data.rng, s, s.kernels[0]), None, {}
    dense = sparse.issparse(X) and X.nnz >= DENSE_SHARE * X.shape[0] * X.shape[1]
    rows = X.toarray() if dense else X
    axes, first, sizes = None, None, {}
    n, d = rows.shape
    # There must be enough rows to estimate the covariance within clusters.
    narrow = d <= WIDEST_WHITENED and ROWS_PER_COLUMN * d <= n and s.n_clusters > 1
    if s.whiten and narrow and not sparse.issparse(rows) and not s.precomputed:
        first, sizes = _first_labels(rows, weights, known, data, s)
        axes = whitening_axes(rows, first, weights)
    kernels = [kernel_map(rows, weights, data.rng, s, kernel, axes) for kernel in s.kernels]
    # More neighbours than a cluster has rows would connect clusters.
    most = max(1, len(weights) // (ROWS_PER_NEIGHBOR * s.n_clusters))
    return mixed_map(kernels, X, min(s.n_neighbors, most), dense), first, sizes


def _first_labels(X, weights, known, data: FitInput, s: Settings):
    """Return labels and p of a first, quicker fit, whose clusters give the metric of the second."""
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
        spreads=False,
        compared=False,
        n_resamples=0,
        max_samples=min(s.max_samples, FIRST_ROWS),
        time_budget=None if s.time_budget is None else FIRST_SHARE * s.time_budget,
    )
    model = fit_least_squares(smaller, settings)
    labels = trained(model, rows, weights, known, data.n_jobs).labels
    return labels, {name: model.extras[name] for name in ("size_prior_", "_size_margins")}


def kernel_map(X, weights, rng, s: Settings, kernel, axes=None) -> FeatureMap:
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


def _similarity(fmap, X, weights, s: Settings, n_jobs: int, source=None):
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


def label_problem(similarity: Similarity, known, data: FitInput, s: Settings) -> LabelProblem:
    """Return the objective of the search, with its constraints on sizes."""
    weights = similarity.weights
    total, k = weights.sum(), s.n_clusters
    floor = size_floor(s.balance, total, k, data.whole)
    targets = _targets(total, data.weights.sum(), known, weights, s)
    if (targets < floor - 1e-9).any():
        floor = float(targets.min())
    return LabelProblem(similarity, k, targets, floor, known.astype(np.int32), s.priors[0])


def _targets(total, n, known, weights, s: Settings) -> np.ndarray:
    """Return the target sizes of the clusters."""
    k, given = s.n_clusters, s.cluster_sizes
    if given is None or isinstance(given, str):
        counts = np.bincount(known[known >= 0], weights[known >= 0], minlength=k)
        # With several labels per cluster their proportions are informative.
        enough = counts.min() >= 1 and counts.sum() >= 5 * k
        return total * (counts / counts.sum() if enough else np.full(k, 1.0 / k))
    sizes = np.asarray(given, np.float64)
    if sizes.shape != (k,) or not np.isfinite(sizes).all() or (sizes <= 0).any():
        raise ValueError(
            f"cluster_sizes must be {k} positive numbers, one per cluster; got {given!r}."
        )
    if abs(sizes.sum() - 1.0) > 1e-6 and abs(sizes.sum() - n) > 1e-6 * n:
        raise ValueError(
            f"cluster_sizes must add up to the number of rows ({n:g}) or, as proportions, to "
            f"1; they add up to {sizes.sum():g}."
        )
    return total * sizes / sizes.sum()


def random_starts(problem, s: Settings, rng) -> list[tuple[np.ndarray, int]]:
    """Return random labels, and the first round of shaking for each.

    Shaking leads most of them to the same clusters; with ``size_prior`` > 0, as many again are used
    without shaking, for diversity.
    """
    n_init = s.n_init
    if n_init == "auto":
        n_init = TEMPERED_STARTS if s.tempered else AUTO_STARTS
    starts = [(random_labels(problem, rng), 0) for _ in range(n_init)]
    if s.tempered:
        starts += [(random_labels(problem, rng), SHAKES) for _ in range(n_init)]
    return starts


def _from_known(problem, fmap, X, s: Settings) -> list[np.ndarray]:
    """Return initial labels that follow from the known ones."""
    starts = []
    if s.partial_start != "supervised":
        starts.append(grown_labels(problem))
    if s.partial_start != "grow":
        rows = np.flatnonzero(problem.known >= 0)
        if isinstance(fmap, MixedMap):
            fmap, X = fmap.kernels[0], X.toarray() if fmap.dense else X
        values = mapped_rows(fmap, X).values()
        K = values[:, rows] if fmap.projection is None else values @ values[rows].T
        starts.append(supervised_labels(K, rows, problem, s.ridge))
    return starts


def _rivals(X, problem: LabelProblem, data: FitInput, chosen, s: Settings) -> list[np.ndarray]:
    """Return labels that the search must not be worse than: of k-means, and the initial ones."""
    weights, known = problem.similarity.weights, problem.known
    rng = data.rng.spawn(1)[0]  # the search goes on as it would without
    rows = Rows(X)
    if s.precomputed:
        rows = fit_features(
            MemoryRows(X), weights, kernel="precomputed", params={},
            n_components=KMEANS_RANK, rng=rng,
        )[1]  # fmt: skip
    found = [kmeans_partition(rows, weights, s.n_clusters, rng)]
    if data.initial is not None:
        found.append(data.initial[chosen])
    held = (held_labels(rows, f, weights, known, problem.k, problem.floor) for f in found)
    return [labels.astype(np.int32) for labels in held]


def _partitions(fmap, problem: LabelProblem, data: FitInput, s: Settings) -> list[np.ndarray]:
    """Return partitions of the points that kernels compare: k-means, and a mixture of scales."""
    points, weights, k = fmap.landmarks, problem.similarity.weights, s.n_clusters
    if s.precomputed or sparse.issparse(points):
        return []
    rows, rng, found = Rows(points), data.rng.spawn(1)[0], []
    if fmap.axes is not None:  # else the k-means partition is among the rivals
        found.append(kmeans_partition(rows, weights, k, rng))
    if points.shape[1] <= WIDEST_WHITENED:
        start = found[-1] if found else kmeans_partition(rows, weights, k, rng)
        found.append(spread_clusters(points, start, weights, k)[0])
    held = (held_labels(rows, f, weights, problem.known, k, problem.floor) for f in found)
    return [labels.astype(np.int32) for labels in held]


def search_settings(s: Settings, data: FitInput, began: float) -> SearchSettings:
    """Return the settings of the search."""
    kicks = s.n_kicks
    if kicks == "auto" and s.tempered:
        kicks = TEMPERED_KICKS
    elif kicks == "auto":
        kicks = s.n_clusters // 2 if s.n_clusters >= 3 else 0
    budget = s.time_budget if s.search == "shaking" else None
    if budget is not None and s.n_kicks == "auto":
        kicks = NO_LIMIT
    return SearchSettings(
        search=s.search,
        n_kicks=kicks if s.search == "shaking" and s.n_clusters > 1 else 0,
        deadline=None if budget is None else began + budget,
        max_iter=s.max_iter,
        adaptive=isinstance(s.cluster_sizes, str),
        sized=s.cluster_sizes is not None,
        rng=data.rng,
        watch=data.watch,
        n_jobs=data.n_jobs,
        parallel=getattr(data.watch, "context", None) is None,
    )


def _by_spread(problem, found: Found, fmap, s: Settings) -> Found:
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
    value = problem.value(labels, problem.similarity.caches(labels, k))
    history = [*found.history, problem.paper_value(value)]
    return replace(found, labels=labels, value=value, history=history)


# -- confidence ------------------------------------------------------------------------------------


def _resampled(data: FitInput, chosen, labels, loo, s: Settings) -> tuple[Calibration, float]:
    """Return the calibration of the confidence and the stability, from fits of subsamples."""
    rows = np.arange(len(labels))
    if len(rows) > RESAMPLED_ROWS:
        rows = np.sort(data.rng.choice(len(labels), RESAMPLED_ROWS, replace=False))
    quicker = replace(
        s,
        n_init=RESAMPLE_STARTS,
        n_kicks=RESAMPLE_KICKS,
        compared=False,
        n_resamples=0,
        time_budget=None,
    )
    # Not possible if a subsample has fewer rows than there are clusters.
    count = s.n_resamples if SHARE * len(rows) >= s.n_clusters else 0
    resampled = np.full((count, len(labels)), -1)
    for row, drawn in zip(resampled, subsamples(len(rows), count, data.rng)):
        part = rows[drawn]
        smaller = replace(data.part(chosen[part]), initial=None)
        if s.precomputed:
            smaller = replace(smaller, X=smaller.X.columns(chosen[part]))
        # Subsamples are to differ by their rows, not by a search that is shorter.
        row[part] = fit_least_squares(smaller, quicker, labels[part]).details.labels
    agreement = pair_agreement(resampled, s.n_clusters)[:, 0]
    stability = float(agreement.mean()) if len(agreement) else 0.0
    return calibrate(loo, labels, resampled), stability


def _warn_about_sizes(fmap, X, weights, settings: SearchSettings, s: Settings) -> None:
    """Warn if leave-one-out predictions indicate clusters of unequal size.

    The search is repeated on a few hundred rows with adaptive sizes; equal sizes are wrong if the
    leave-one-out R2 is then clearly higher.
    """
    k, n = s.n_clusters, len(weights)
    if s.search != "shaking" or s.cluster_sizes is not None or s.balance == 1:
        return
    if k == 1 or n < 10 * k:
        return
    if s.mixed or s.tempered:
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
    equal = search_labels(problem, starts, replace(settings, n_kicks=0, parallel=False))
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
