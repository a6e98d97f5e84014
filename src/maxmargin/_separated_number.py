"""Choose the number of clusters without an estimator, in less time than a fit.

Clusters are modes of the density (:mod:`maxmargin._density_modes`). Modes are sorted by their
separation; the number of clusters is where the separation falls most, relative to the next mode.
Modes that are not better separated than in reference data without clusters do not count, so that
the answer may be one cluster. The choice is uncertain if the separation falls nearly as much at
another number, or if there is one mode but several stable k-means clusters, which overlap.

Word counts have no density worth the name: for the cosine kernel the number is that of stable
k-means clusters of the leading singular vectors.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.cluster import KMeans
from sklearn.decomposition import TruncatedSVD
from sklearn.preprocessing import normalize

from ._cluster_number import (
    LARGEST,
    MOST_CANDIDATES,
    ClusterNumberChoice,
    may_be_stable,
    numbers_in_words,
    shapeless,
    stability_without_clusters,
    stable_number,
    whole_numbers,
)
from ._core.dedup import FitInput, make_input
from ._data.source import MemoryRows
from ._density_modes import CLEAR, separations, whitened, without_steps
from ._files import listed
from .least_squares._confidence import SHARE
from .least_squares._fit import ROWS_PER_COLUMN, WIDEST_WHITENED
from .least_squares._graph import UNLIKE_SCALES, view_axes
from .least_squares._settings import DENSE_SHARE, RBF, Kind
from .least_squares._similarity import column_scales

CHOICE_ROWS = 4000  # of a fit, from which the number of clusters is chosen
TOPICS = (LARGEST, 45, 135)  # largest numbers to try in turn
NOISE_LEVEL = 2.0  # separations below this do not count
TYPICAL = 3.0  # without clusters, if there are no reference data
FEW_VALUES = 20  # of a column that is not continuous
LEFT_OUT = f"Columns of at most {FEW_VALUES} values were left out to compute these falls."
RIVAL = 0.3  # difference of log ratios up to which another number is possible
ABOVE_NOISE = 1.0  # standard errors above data without clusters that make one cluster uncertain
SAMPLED_ROWS = 20  # per cluster, below which a sample may miss clusters
REFERENCE_ROWS = 1500
PARTS, STABILITY_ROWS = 5, 1000  # number of subsamples, and of the rows they are drawn from
MOST_OVERLAPPING = 10
FEW_TEXTS = 10
BEATEN = 0.05  # adjusted Rand index
TREND = 0.35  # stability at the end of the range that is worth a larger range


def number_for_fit(
    data: FitInput, kind: Kind, views: Any, rng: np.random.Generator, max_samples: int,
    pairwise: bool,
) -> ClusterNumberChoice:  # fmt: skip
    """Choose the number of clusters of the rows of a fit, or of a sample if they are many."""
    n, most = data.X.shape[0], max(CHOICE_ROWS, max_samples)
    rows = np.sort(rng.choice(n, min(n, most), replace=False))
    X, weights = data.X.take(rows), data.weights[rows]
    if pairwise:
        X = X[:, data.source[rows]]
    if views is not None:
        X = X @ np.hstack(view_axes(X, weights, views))
    scale = kind is RBF and views is None  # views have been scaled
    return number_of_clusters(X, weights, kind.kernel, rng, None, n > most, scale)


def number_of_clusters(
    X, weights, kernel: Any, rng: np.random.Generator, k_range=None, sampled: bool = False,
    scale: bool = True,
) -> ClusterNumberChoice:  # fmt: skip
    """Choose the number of clusters without an estimator; parameters of :func:`separated_number`.

    For the cosine kernel weights are not used, except that rows of weight zero are left out.
    """
    if not isinstance(kernel, str) or kernel != "cosine":
        return separated_number(X, weights, kernel, rng, k_range, sampled, scale)
    rows = make_input(MemoryRows(X), weights, None, merge=True).X.take(slice(None))
    if rows.shape[0] < FEW_TEXTS:
        statement = f"Uncertain: 1 cluster. There are too few distinct rows ({rows.shape[0]})."
        one = np.ones(1)
        return ClusterNumberChoice(1, True, statement, (1,), one.astype(int), np.nan * one, one)
    for largest in TOPICS:
        choice = _number_of_topics(rows, k_range, largest, rng)
        open_end = choice.uncertain and choice.n_clusters >= 0.9 * largest
        if k_range is not None or not open_end or np.asarray(choice.stability).max() < TREND:
            break
    return choice


def _number_of_topics(X, k_range, largest: int, rng) -> ClusterNumberChoice:
    """Choose the number of stable k-means clusters of the leading singular vectors."""
    Z, rank = normalize(X), 2 * largest
    if min(Z.shape) > rank:
        Z = TruncatedSVD(rank, random_state=int(rng.integers(2**31 - 1))).fit_transform(Z)
        Z = normalize(Z)  # of long and short texts alike
    elif sparse.issparse(Z):
        Z = Z.toarray()
    Z, means = Z - Z.mean(axis=0), KMeans(n_init=2)
    seed = int(rng.integers(2**31 - 1))
    choice = stable_number(Z, means, k_range, PARTS, STABILITY_ROWS, seed, largest)
    if not choice.uncertain:
        return choice
    at = choice.k_values == choice.n_clusters
    stability, null = np.asarray(choice.stability)[at][0], choice.without_clusters.copy()
    if np.isnan(null[at]).all():
        null[at] = stability_without_clusters(means, Z[:STABILITY_ROWS], choice.n_clusters, rng)
    if stability > null[at] + BEATEN:
        return replace(choice, without_clusters=null)
    statement = (
        f"Uncertain: 1 cluster, or {choice.n_clusters}, whose stability under subsampling is "
        f"{stability:.2f} (adjusted Rand index), and {null[at][0]:.2f} on reference "
        "data without clusters."
    )
    candidates = (1, choice.n_clusters)
    return replace(
        choice, n_clusters=1, candidates=candidates, statement=statement, without_clusters=null
    )


def separated_number(
    X, weights, kernel: Any, rng: np.random.Generator, k_range=None, sampled: bool = False,
    scale: bool = True,
) -> ClusterNumberChoice:  # fmt: skip
    """Choose the number of clusters by the separation of density modes.

    Parameters
    ----------
    X : {ndarray, CSR matrix} of shape (n, d)
        Rows, or a kernel matrix.
    weights : ndarray of shape (n,) or None
    kernel : str or callable
        Distances are those of its feature space.
    rng : numpy Generator
    k_range : iterable of int, optional
        Numbers to choose from, by default all.
    sampled : bool
        Whether X is a sample of more rows.
    scale : bool
        Whether columns are standardised if their scales differ much, as in a fit with
        ``kernel="auto"``.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(size=(60, 2)) + 9 * i for i in range(5)])
    >>> separated_number(X, None, "rbf", rng).n_clusters
    5
    """
    precomputed = isinstance(kernel, str) and kernel == "precomputed"
    data = make_input(MemoryRows(X), weights, None, merge=not precomputed)
    if precomputed:
        return _number_of_modes(X[:, data.source], data.weights, kernel, rng, k_range, sampled)
    views = _metrics(data, kernel, rng, scale)
    choice, *more = (
        _number_of_modes(rows, data.weights, kernel, rng, k_range, sampled) for rows in views
    )
    choice = _of_both(choice, *more) if more else choice
    one = choice.n_clusters == 1 and k_range is None and kernel == "rbf"
    if one and not sparse.issparse(views[0]):
        choice = _if_one(choice, views[0], X.toarray() if sparse.issparse(X) else X, rng)
    if more and choice.separation is more[0].separation:
        choice = replace(choice, statement=f"{choice.statement} {LEFT_OUT}")
    return choice


def _if_one(choice: ClusterNumberChoice, rows: np.ndarray, X, rng) -> ClusterNumberChoice:
    """Return one cluster, or what else is possible for distinct rows that have one mode."""
    if len(rows) == 1:
        return replace(choice, uncertain=False, statement="1 cluster: all rows are equal.")
    choice = _if_stable(choice, rows, rng)
    if choice.uncertain or _few_or_many_values(np.asarray(X))[1].any():
        return choice
    reason = f"No column has more than {FEW_VALUES} values"
    if len(rows) <= FEW_VALUES:
        reason = f"There are only {len(rows)} distinct rows"
    statement = (
        f"Uncertain: 1 cluster or more. {reason}: there is no density to look for gaps in. Give "
        "the number of clusters."
    )
    return replace(choice, uncertain=True, statement=statement)


def _number_of_modes(rows, weights, kernel, rng, k_range, sampled: bool) -> ClusterNumberChoice:
    """Choose the number of clusters of distinct rows in one metric."""
    found = separations(rows, weights, kernel, rng)
    null = np.nan if kernel == "precomputed" else _reference_separation(rows, kernel, rng)
    level = _threshold(null)
    ks = np.arange(1, len(found) + 1)
    if k_range is not None:
        ks = np.array(whole_numbers(k_range, 1, len(weights), "X has"))
    heights = np.full(max(ks[-1], len(found)) + 1, level)
    heights[: len(found)] = np.maximum(found, level)
    drops = np.log(heights[ks - 1] / heights[ks])
    order = np.argsort(-drops, kind="stable")
    near = order[drops[order] > drops[order[0]] - RIVAL][:MOST_CANDIDATES]
    candidates = tuple(int(k) for k in ks[near])
    if candidates == (1,) and heights[1] > level + ABOVE_NOISE and 2 in ks:
        candidates = (1, 2)
    if 1 not in candidates and heights[candidates[0] - 1] <= null and 1 in ks:
        candidates = (*candidates[: MOST_CANDIDATES - 1], 1)
    shown = max(int((heights > level).sum()), *candidates) + 1
    curve = np.append(found, np.zeros(shown))[:shown]
    statement, few = _separation_statement(candidates, curve, null), False
    if sampled and len(weights) < SAMPLED_ROWS * candidates[0]:
        few = True
        statement = (
            f"Uncertain: {numbers_in_words(candidates)} or more. A sample of {len(weights)} rows "
            "is too small for so many; raise max_samples."
        )
    return ClusterNumberChoice(
        n_clusters=candidates[0],
        uncertain=few or len(candidates) > 1,
        statement=statement,
        candidates=candidates,
        k_values=np.arange(1, shown + 1),
        without_clusters=np.full(shown, null),
        separation=curve,
    )


def _of_both(whole: ClusterNumberChoice, part: ClusterNumberChoice) -> ClusterNumberChoice:
    """Return the larger number: irrelevant columns hide clusters more often than they create any.

    ``whole`` is the choice by all columns, ``part`` by those of many values.
    """
    if whole.n_clusters == part.n_clusters:
        return part if whole.uncertain else whole
    more = max(whole, part, key=lambda choice: choice.n_clusters)
    k, fewer = more.n_clusters, min(whole.n_clusters, part.n_clusters)
    candidates = tuple(dict.fromkeys((k, fewer, *more.candidates)))[:MOST_CANDIDATES]
    curve, null = np.asarray(more.separation), more.without_clusters[0]
    reason = "irrelevant columns often hide clusters and rarely create any"
    if len(candidates) > 2:
        reason += f"; besides, {_reason(k, curve, null)}"
    statement = (
        f"Uncertain: {numbers_in_words(candidates)}. All columns together show "
        f"{whole.n_clusters}; columns with more than {FEW_VALUES} distinct values show "
        f"{part.n_clusters}. {_falls(candidates, curve, null)} {k} was chosen: {reason}."
    )
    return replace(more, uncertain=True, candidates=candidates, statement=statement)


def _if_stable(choice: ClusterNumberChoice, X: np.ndarray, rng) -> ClusterNumberChoice:
    """Return the number of stable k-means clusters, if any: clusters may overlap without a saddle.

    Reference data without clusters are hardly ever as stable, but the choice remains uncertain.
    """
    most = min(MOST_OVERLAPPING, int(SHARE * len(X)) // 3)
    if most < 3:
        return choice
    means, ks, seed = KMeans(n_init=2), range(2, most + 1), int(rng.integers(2**31 - 1))
    if not may_be_stable(means, X, ks, STABILITY_ROWS, rng):
        return choice
    stable = stable_number(X, means, ks, PARTS, STABILITY_ROWS, seed)
    if stable.uncertain:
        return choice
    k, fall = stable.n_clusters, np.asarray(choice.separation)[1]
    candidates = tuple(dict.fromkeys((k, *choice.candidates)))[:MOST_CANDIDATES]
    statement = (
        f"Uncertain: {numbers_in_words(candidates)}. {k} was chosen: {_told_stability(stable)} "
        f"Between 2 clusters the density of the rows falls by {fall:.1f} standard errors. "
        f"{_told_threshold(choice.without_clusters[0])}"
    )
    return replace(choice, n_clusters=k, uncertain=True, candidates=candidates, statement=statement)


def _told_stability(stable: ClusterNumberChoice) -> str:
    """Say how stable the chosen clusters are, and what is more stable than without clusters."""
    stability, null = np.asarray(stable.stability), stable.without_clusters
    chosen = int(np.flatnonzero(stable.k_values == stable.n_clusters)[0])
    compared = np.flatnonzero(~np.isnan(null))
    # The most stable number is compared as well if the chosen one is no more stable than chance.
    best = next((int(at) for at in compared if at != chosen), chosen)
    told = (
        f"{stable.n_clusters} clusters of k-means are stable: the adjusted Rand index between "
        f"subsamples is {stability[chosen]:.2f}"
    )
    if best != chosen:
        told += f"; of {stable.k_values[best]} clusters it is {stability[best]:.2f}"
    return f"{told}, in similar data without clusters {null[best]:.2f}."


def _metrics(data: FitInput, kernel: Any, rng, scale: bool) -> list[Any]:
    """Return the rows, dense, standardised and whitened if a fit would do the same.

    If some columns have few values, the rows without these columns are the second item: such
    columns, with noise, may hide the clusters of the others.
    """
    rows = data.X.take(slice(None))
    n, d = rows.shape
    if sparse.issparse(rows) and rows.nnz >= DENSE_SHARE * n * d:
        rows = rows.toarray()
    if isinstance(kernel, str) and kernel in ("rbf", "linear"):
        # By a power of two, which is exact: squares do not overflow.
        largest = np.abs(rows.data if sparse.issparse(rows) else rows).max(initial=1e-300)
        rows = rows * np.ldexp(1.0, -int(np.frexp(largest)[1]))
    if scale and kernel == "rbf" and d <= WIDEST_WHITENED and not sparse.issparse(rows):
        scales, ratio = column_scales(rows, data.weights)
        rows = rows / scales if ratio > UNLIKE_SCALES else rows
    narrow = d <= WIDEST_WHITENED and ROWS_PER_COLUMN * d <= n
    if kernel != "rbf" or not narrow or sparse.issparse(rows):
        return [rows]
    rows = np.asarray(rows, np.float64)
    few, many = _few_or_many_values(rows)
    views = [without_steps(rows, few, rng)] + ([rows[:, many]] if few.any() and many.any() else [])
    return [whitened(view, data.weights, rng) for view in views]


def _few_or_many_values(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return which columns have few values, and which have many; constant columns have neither."""
    counts = np.array([len(np.unique(column)) for column in X.T])
    return (counts > 1) & (counts <= FEW_VALUES), counts > FEW_VALUES


def _reference_separation(X, kernel, rng) -> float:
    """Return the highest separation of a second mode in reference data without clusters."""
    few = X[np.sort(rng.permutation(X.shape[0])[:REFERENCE_ROWS])]
    clouds = shapeless(few, rng)
    seconds = [separations(cloud, np.ones(cloud.shape[0]), kernel, rng)[1:2] for cloud in clouds]
    return float(max((second[0] for second in seconds if len(second)), default=0.0))


def _threshold(null: float) -> float:
    """Return the separation up to which modes do not count."""
    return max(NOISE_LEVEL, TYPICAL if np.isnan(null) else min(null, CLEAR / 2))


def _told_threshold(null: float) -> str:
    threshold = _threshold(null)
    more = f"; in similar data without clusters it is {null:.1f}" if null > threshold else ""
    return f"A fall of up to {threshold:.1f} can be chance{more}."


def _separation_statement(candidates: tuple[int, ...], curve: np.ndarray, null: float) -> str:
    """Say how far the density falls between the least separated of so many clusters."""
    k, density, falls = candidates[0], "the density of the rows", [f"{fall:.1f}" for fall in curve]
    if len(candidates) > 1:
        told = f"{_falls(candidates, curve, null)} {k} was chosen: {_reason(k, curve, null)}."
        return f"Uncertain: {numbers_in_words(candidates)}. {told}"
    if k == 1:
        by = f"by only {falls[1]} standard errors"
        told = f"1 cluster: with 2, {density} would fall {by} between them. {_told_threshold(null)}"
        if _threshold(null) < curve[1] <= _threshold(null) + ABOVE_NOISE:
            told += f" One that is at most {ABOVE_NOISE:.1f} larger does not count."
        return told
    chance = ", which can be chance"
    if curve[k] > _threshold(null):
        chance = ": a finer division is possible, but much less clear"
    return (
        f"{k} clusters: between them {density} falls by at least {falls[k - 1]} standard errors; "
        f"with {k + 1} clusters, by only {falls[k]}{chance}."
    )


def _falls(candidates: tuple[int, ...], curve: np.ndarray, null: float) -> str:
    """Say how far the density falls at each number but 1, and at one more than the largest."""
    first, *others = sorted({*candidates, max(candidates) + 1} - {1})
    falls = f"clusters the density of the rows falls by at least {curve[first - 1]:.1f}"
    told = [f"{first} {falls} standard errors"]
    told += [f"between {number} by {curve[number - 1]:.1f}" for number in others]
    return f"Between {listed(told, 'and')}. {_told_threshold(null)}"


def _reason(k: int, curve: np.ndarray, null: float) -> str:
    """Say why k was preferred to other numbers of the same curve."""
    if k == 1:
        return (
            f"clusters that are clearly apart have a fall of {CLEAR:.0f} or more, and with 2 "
            f"clusters it is only {curve[1]:.1f}"
        )
    fall = "what can be chance" if curve[k] <= _threshold(null) else f"{curve[k]:.1f}"
    factor = f"by the largest factor, from {curve[k - 1]:.1f} to {fall}"
    return f"one more cluster lowers the fall {factor}"
