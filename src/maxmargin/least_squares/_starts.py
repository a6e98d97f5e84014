"""Initial labels, and the search from them at several size priors p.

Initial labels are random, follow from known ones, or are partitions by other methods: k-means, a
mixture with a scale per cluster, and connected groups of rows that are apart.

J_p of different p cannot be compared. The mean leave-one-out margin can: it is near 1 if every row
is closer to its own cluster than to any other, and falls with the share of rows in clusters that
were cut in two. The first p is kept unless another one has a clearly higher mean margin and fewer
rows of small margin.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from .._core.dedup import FitInput
from .._core.features import fit_features, mapped_rows
from .._core.init import agreement, held_labels, kmeans_partition
from .._core.model import lead_of
from .._core.rows import Rows
from .._data.source import MemoryRows
from .._threads import in_order, later, one_thread
from ._connected import connected_clusters
from ._graph import MixedMap
from ._label_search import (
    COARSE,
    SHAKES,
    Found,
    LabelProblem,
    SearchSettings,
    adapted_sizes,
    keep_known,
    predictive_fit,
    regrouped,
    search_labels,
    with_labels,
)
from ._similarity import SHRINKAGE, similarity_of

AUTO_STARTS, TEMPERED_STARTS = 10, 8
GROWTH_STEPS = 30  # of clusters from known labels
KMEANS_RANK = 100  # features of a kernel matrix that k-means works on
WIDEST_MIXTURE = 100  # columns
ROUNDS = 200  # of the mixture
SETTLED = 1e-6  # change of the mean log-likelihood
SPREAD_RATIO = 2.0  # least ratio of squared scales
WELL_PREDICTED, SPREAD_LOSS = 0.9, 0.06  # leave-one-out R2
# To leave the first p: gain in the mean margin, fall of the share of doubtful rows; and the same
# times the number of clusters, if there are many, since one that is cut has few of the rows then.
GAIN, FALL = (0.06, 0.5), (0.03, 0.25)
AGREEING = 0.99  # adjusted Rand index of searches that agree
DOUBTFUL, FEW = 0.25, 0.01  # of the median margin; share of such rows if clusters are clear
RUNNERS_UP = 3
SMALL_BALANCE = 0.05  # up to which connected clusters may be smaller
RIVALS = 3  # random starts that connected clusters are compared with
SIZE_DOUBT = 0.04  # gain in leave-one-out R2 above which a warning about sizes is raised
SIZE_CHECK_ROWS = 400

Starts = list[tuple[np.ndarray, int]]


def random_starts(problem, s, rng) -> Starts:
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


def random_labels(problem: LabelProblem, rng: np.random.Generator) -> np.ndarray:
    """Return random labels in proportion to the targets."""
    n = len(problem.known)
    bounds = np.cumsum(problem.targets) / problem.targets.sum()
    places = (np.arange(n) + 0.5) / n
    return np.searchsorted(bounds[:-1], places[rng.permutation(n)]).astype(np.int32)


def starts_from_known(problem, fmap, X, s) -> list[np.ndarray]:
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


def supervised_labels(
    K: np.ndarray, rows: np.ndarray, problem: LabelProblem, ridge: float
) -> np.ndarray:
    """Labels by least-squares classifiers of the labelled ``rows`` alone; K is (n, labelled)."""
    K = np.asarray(K, np.float64) / problem.similarity.scale
    targets = (problem.known[rows][:, None] == np.arange(problem.k)).astype(np.float64)
    coef = np.linalg.solve(K[rows] + ridge * np.eye(len(rows)), targets - targets.mean(axis=0))
    return keep_known((K @ coef).argmax(axis=1), problem.known)


def grown_labels(problem: LabelProblem) -> np.ndarray:
    """Grow clusters from the labelled rows; rows with the largest margins join first."""
    labels, n = problem.known.copy(), len(problem.known)
    for count in np.geomspace(max((labels >= 0).sum(), 1), n, GROWTH_STEPS + 1)[1:].astype(int):
        sizes = np.bincount(labels[labels >= 0], minlength=problem.k)
        # The mean similarity to the members: a sum would favour large clusters.
        scores = problem.similarity.caches(labels, problem.k).T / np.maximum(sizes, 1)
        ranked = np.sort(scores, axis=1)
        sure = ranked[:, -1] - ranked[:, -2] if problem.k > 1 else ranked[:, -1]
        free = np.flatnonzero(labels < 0)
        joining = free[np.argsort(-sure[free], kind="stable")][: max(count - n + len(free), 0)]
        labels[joining] = scores[joining].argmax(axis=1)
    return labels


def later_kmeans(X, weights: np.ndarray, data: FitInput, s) -> Callable[[], Any]:
    """Return a function for rows and their k-means partition, which a thread begins to find."""
    rng = data.rng.spawn(1)[0]  # the search goes on as it would without

    def found() -> tuple[Rows, np.ndarray]:
        rows = Rows(X)
        with one_thread():
            if s.precomputed:
                rows = fit_features(
                    MemoryRows(X), weights, kernel="precomputed", params={},
                    n_components=KMEANS_RANK, rng=rng,
                )[1]  # fmt: skip
            return rows, kmeans_partition(rows, weights, s.n_clusters, rng)

    return later(found, data.n_jobs)


def rivals_of(kmeans, problem: LabelProblem, data: FitInput, chosen) -> list[np.ndarray]:
    """Return labels that the search must not be worse than: of k-means, and the initial ones."""
    weights, known = problem.similarity.weights, problem.known
    rows, labels = kmeans()
    found = [labels]
    if data.initial is not None:
        found.append(data.initial[chosen])
    held = (held_labels(rows, f, weights, known, problem.k, problem.floor) for f in found)
    return [labels.astype(np.int32) for labels in held]


def partitions_of(fmap, problem: LabelProblem, data: FitInput, s) -> list[np.ndarray]:
    """Return partitions of the points that kernels compare: k-means, and a mixture of scales."""
    points, weights, k = fmap.landmarks, problem.similarity.weights, s.n_clusters
    if s.precomputed or sparse.issparse(points):
        return []
    rows, rng, found = Rows(points), data.rng.spawn(1)[0], []
    if fmap.axes is not None:  # else the k-means partition is among the rivals
        found.append(kmeans_partition(rows, weights, k, rng))
    if points.shape[1] <= WIDEST_MIXTURE:
        start = found[-1] if found else kmeans_partition(rows, weights, k, rng)
        found.append(spread_clusters(points, start, weights, k)[0])
    held = (held_labels(rows, f, weights, problem.known, k, problem.floor) for f in found)
    return [labels.astype(np.int32) for labels in held]


def connected_of(fmap, problem: LabelProblem, s, n_jobs: int) -> np.ndarray | None:
    """Return clusters that are apart and connected within, if the rows are such."""
    points, known = fmap.landmarks, (problem.known >= 0).any()
    if known or not s.connected or "rbf" not in s.kernels or sparse.issparse(points):
        return None
    weights = problem.similarity.weights.astype(np.float64)
    points = np.asarray(points, np.float64)
    return connected_clusters(points, weights, s.n_clusters, n_jobs, s.least_rows)


def with_connected(
    problem: LabelProblem, labels: np.ndarray, balance: float
) -> tuple[LabelProblem, np.ndarray | None]:
    """Return the problem and connected clusters, or None if these are too small for ``balance``.

    If ``balance`` is at most the default one, they may be smaller: it keeps the search from
    splitting a few rows off a cluster, and these are apart.
    """
    lightest = float(np.bincount(labels, problem.similarity.weights, minlength=problem.k).min())
    if lightest >= problem.floor:
        return problem, labels
    if lightest == 0.0 or balance > SMALL_BALANCE:
        return problem, None
    return replace(problem, floor=lightest), labels


def spread_clusters(
    X: np.ndarray, labels: np.ndarray, weights: np.ndarray, k: int
) -> tuple[np.ndarray, np.ndarray]:
    """Labels and squared scales s_h^2 (up to a common factor) of a mixture, by EM.

    Its clusters have a common shape S and covariances s_h^2 S; ``labels`` to start from leave none
    of them empty.
    """
    X = np.asarray(X, np.float64)
    # Scaled to about unit size by a power of two: exact, and squares do not overflow.
    X = np.ldexp(X, -int(np.frexp(np.abs(X).max(initial=1e-300))[1]))
    d = X.shape[1]
    share = weights / weights.sum()
    X = X - share @ X
    belongs = (labels[:, None] == np.arange(k)).astype(np.float64)
    scales, before = np.ones(k), -np.inf
    for _ in range(ROUNDS):
        mass = np.maximum(share @ belongs, 1e-12)
        means = (belongs * share[:, None]).T @ X / mass[:, None]
        whitened = _shape(X, means, belongs * share[:, None] / scales)
        Z, centres = X @ whitened, means @ whitened
        distances = (Z**2).sum(axis=1)[:, None] + (centres**2).sum(axis=1) - 2.0 * Z @ centres.T
        distances = np.maximum(distances, 0.0)
        scales = ((belongs * share[:, None] * distances).sum(axis=0) / mass / d).clip(1e-6)
        density = np.log(mass) - 0.5 * (distances / scales + d * np.log(scales))
        top = density.max(axis=1, keepdims=True)
        belongs = np.exp(density - top)
        total = belongs.sum(axis=1, keepdims=True)
        belongs /= total
        # The shape's own scale is common to all clusters.
        log_shape = np.linalg.slogdet(whitened)[1]
        value = float(share @ (top + np.log(total)).ravel() + log_shape)
        if value - before < SETTLED:
            break
        before = value
    return belongs.argmax(axis=1).astype(np.int32), scales


def _shape(X: np.ndarray, means: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Axes that whiten the common shape S, a little shrunk towards a multiple of I."""
    d = X.shape[1]
    # sum_ih c_ih (x_i - mu_h)(x_i - mu_h)' with mu_h the means of the weights c_h.
    total = X.T @ (X * codes.sum(axis=1)[:, None])
    S = total - (means.T * codes.sum(axis=0)) @ means
    # A difference below the rounding of the total is none.
    spread = max(np.trace(S) / d, 1e-12 * np.trace(total) / d, 1e-300)
    lam, V = np.linalg.eigh((1.0 - SHRINKAGE) * S + SHRINKAGE * spread * np.eye(d))
    axes: np.ndarray = V / np.sqrt(np.maximum(lam, SHRINKAGE * spread))
    return axes


def by_spread(problem: LabelProblem, found: Found, points: np.ndarray) -> Found:
    """Return clusters that differ in spread, if their leave-one-out R2 is nearly as high.

    They are tried only if the leave-one-out R2 of clusters that differ in location is not high.
    """
    k, weights = problem.k, problem.similarity.weights
    fit = predictive_fit(problem, found.labels)[0] / (k - 1)
    if fit >= WELL_PREDICTED:
        return found
    labels, scales = spread_clusters(points, found.labels, weights, k)
    labels = keep_known(labels, problem.known)
    sizes = np.bincount(labels, weights, minlength=k)
    alike = scales.max() < SPREAD_RATIO * scales.min()
    if alike or sizes.min() < max(problem.floor, problem.unit):
        return found
    if predictive_fit(problem, labels)[0] / (k - 1) < fit - SPREAD_LOSS:
        return found
    return with_labels(problem, found, labels)


# -- several size priors ---------------------------------------------------------------------------


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

    Single rows are moved at every p also from ``rivals``, labels of k-means, and those of further
    methods that ``others`` returns. If clusters are ``connected``, the first p whose largest J_p
    has nearly these clusters is taken; else the first of ``priors`` is preferred.
    """
    if connected is not None:
        more = [(labels, SHAKES) for labels in rivals + others()] + starts[:RIVALS]
        chosen, found, margins = _of_connected(problem, connected, more, settings, priors)
        clear = agreement(found.labels, connected, problem.k) > AGREEING
        if settings.s.only_clear and not (clear and mean_and_doubt(chosen, found.labels)[1] < FEW):
            raise NotClear
        return chosen, found, margins
    problem = replace(problem, size_prior=priors[0])
    partitions = list(rivals)
    found = _clear(problem, starts, partitions, others, settings)
    if found is not None:
        return problem, found, {priors[0]: mean_and_doubt(problem, found.labels)[0]}
    if settings.s.only_clear:
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
        if agreement(again.labels, connected, problem.k) > AGREEING:
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
    quick = replace(settings, n_kicks=0)

    def searched(start: tuple[np.ndarray, int]) -> Found:
        return regrouped(problem, search_labels(problem, [start], quick), settings)

    def candidates() -> Iterator[Found]:
        """Yield those of quick starts first: others take longer, and few data are clear."""
        first = [(labels, SHAKES) for labels in partitions] + starts[:1]
        yield from in_order(searched, first, settings.n_jobs, ahead=1)
        for labels in others():
            yield searched((labels, SHAKES))

    found: list[Found] = []
    for one in candidates():
        found.append(one)
        if agreement(found[0].labels, one.labels, problem.k) < AGREEING:
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
