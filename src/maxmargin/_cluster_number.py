"""Choose the number of clusters of an estimator by stability under subsampling.

For every number k of clusters, random subsamples (70 % of the rows) are clustered, and the labels
are compared on the rows that two subsamples share. Stability(k) is the mean adjusted Rand index
over pairs of subsamples. A coarse division into a few well separated groups is stable, too.
Therefore the rule takes the largest k that is nearly as stable as the best and whose clusters are
all stable by their Jaccard index (Hennig, "Cluster-wise assessment of cluster stability",
Computational Statistics & Data Analysis 52, 2007).

The choice is marked uncertain if stability is low, if it does not decrease within the range of k,
or if it is not higher than for reference data without clusters.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.utils import check_array, check_random_state, get_tags

from ._core.dedup import count_distinct
from ._data.source import MemoryRows
from ._files import listed
from .least_squares._confidence import pair_agreement, subsamples

LARGEST = 15
NEARLY = 0.85  # of the greatest stability
FOUND_AGAIN = 0.75  # Jaccard index of a stable cluster (Hennig 2007)
SOLID = 0.75  # a lower stability makes the choice uncertain
SCREEN = 0.65  # stability of a pair of subsamples from which on more are worth their time
DECIDED = 0.75  # fraction of bootstrap samples that must choose the same number
CLOUDS = 4  # reference data sets of each kind
CLOUD_PARTS = 3
REDRAWS = 1000
FEW_ROWS, MANY_PARTS, FEW_PARTS = 500, 10, 6
MOST_CANDIDATES = 3


@dataclass(frozen=True)
class ClusterNumberChoice:
    """Result of :func:`maxmargin.choose_n_clusters`.

    Parameters
    ----------
    n_clusters : int
        The number of clusters.
    uncertain : bool
        Whether the data do not determine the number; ``statement`` gives the reason.
    statement : str
        The result in one or two sentences.
    candidates : tuple of int
        Numbers that are possible, at most three, ``n_clusters`` first.
    k_values : ndarray of shape (n_k,)
        Numbers of clusters that were compared.
    separation : ndarray of shape (n_k,) or None
        Without an estimator: separation of the weakest of so many clusters, at most 8, that is the
        difference of log density between its mode and the saddle to a higher mode, in standard
        errors.
    without_clusters : ndarray of shape (n_k,)
        The highest separation, or stability, in reference data without clusters. With an estimator
        it is computed at the chosen k and, if needed, at the most stable k, and NaN at other k and
        if the choice was uncertain before this comparison. NaN for kernel matrices.
    stability, spread : ndarray of shape (n_k,) or None
        With an estimator: mean and standard deviation of the adjusted Rand index between two
        subsamples.
    worst_cluster : ndarray of shape (n_k,) or None
        With an estimator: mean Jaccard index of the least stable cluster.
    support : ndarray of shape (n_k,) or None
        With an estimator: fraction of bootstrap samples of the subsamples for which the rule
        chooses this k.

    See Also
    --------
    maxmargin.choose_n_clusters : Choose the number of clusters.

    Examples
    --------
    >>> from maxmargin import choose_n_clusters
    >>> from sklearn.datasets import make_blobs
    >>> X, _ = make_blobs(300, centers=4, cluster_std=0.5, random_state=1)
    >>> choice = choose_n_clusters(X, random_state=0)
    >>> choice.n_clusters, choice.candidates, choice.uncertain
    (4, (4,), False)
    """

    n_clusters: int
    uncertain: bool
    statement: str
    candidates: tuple[int, ...]
    k_values: np.ndarray
    without_clusters: np.ndarray
    separation: np.ndarray | None = None
    stability: np.ndarray | None = None
    spread: np.ndarray | None = None
    worst_cluster: np.ndarray | None = None
    support: np.ndarray | None = None

    def plot(self, ax=None):
        """Plot separation or stability against the number of clusters and mark the choice.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, default=None
            Axes to plot on; None creates a figure.

        Returns
        -------
        matplotlib.axes.Axes
            The axes.
        """
        from .display import plot_n_clusters

        return plot_n_clusters(self, ax, nearly=NEARLY)


def numbers_in_words(candidates: Iterable[int]) -> str:
    """Return possible numbers of clusters in words.

    Examples
    --------
    >>> numbers_in_words((3, 1)), numbers_in_words([1])
    ('1 or 3 clusters', '1 cluster')
    """
    numbers = sorted(candidates)
    return f"{listed(numbers, 'or')} cluster{'s' * (numbers != [1])}"


def doubt_of(choice: ClusterNumberChoice) -> str | None:
    """Return a warning for users of the number, if it may surprise them."""
    if choice.uncertain and choice.candidates == (1,):
        return (
            "Uncertain whether there are clusters: all labels are 0. Give n_clusters to divide "
            "the rows."
        )
    if choice.uncertain:
        possible = numbers_in_words(choice.candidates)
        return f"Uncertain: {possible}; {choice.n_clusters} used (see report_)."
    if choice.n_clusters == 1:
        return (
            "No clusters that are apart were found: all labels are 0. Give n_clusters to divide "
            "the rows anyway."
        )
    return None


def stable_number(
    X,
    estimator: Any,
    k_range=None,
    n_subsamples=None,
    max_samples: int = 1000,
    random_state=None,
    largest: int = LARGEST,
) -> ClusterNumberChoice:
    """Choose the number of clusters: see :func:`maxmargin.choose_n_clusters`.

    Without ``k_range`` the numbers from 2 to ``largest`` are tried, fewer if there are few rows.
    """
    X = check_array(X, accept_sparse="csr", dtype=[np.float64, np.float32])
    _last_step(estimator)
    pairwise = get_tags(estimator).input_tags.pairwise
    if n_subsamples is None:
        n_subsamples = MANY_PARTS if X.shape[0] <= FEW_ROWS else FEW_PARTS
    check_count("n_subsamples", n_subsamples, 3)
    check_count("max_samples", max_samples, 10)
    rng = np.random.default_rng(check_random_state(random_state).randint(2**31 - 1))
    rows = np.sort(rng.permutation(X.shape[0])[:max_samples])
    X = _part(X, rows, pairwise)
    parts = subsamples(X.shape[0], n_subsamples, rng)
    distinct = len(parts[0])
    if not pairwise:
        distinct = min(count_distinct(MemoryRows(X[part]), distinct) for part in parts)
    ks = _numbers_to_try(k_range, distinct, largest)
    agreement = np.stack([_agreement(estimator, X, parts, k, pairwise, rng) for k in ks])
    choice = _decide(ks, agreement, n_subsamples, rng)
    if choice.uncertain or pairwise:
        return choice
    return _compared(choice, estimator, X, n_subsamples, rng)


def may_be_stable(estimator: Any, X, ks, max_samples: int, rng) -> bool:
    """Return whether two of three subsamples have similar clusters for any of these numbers.

    If not, :func:`stable_number` would hardly be certain of one.
    """
    X = X[np.sort(rng.permutation(X.shape[0])[:max_samples])]
    parts = subsamples(X.shape[0], 3, rng)
    return any(_agreement(estimator, X, parts, k, False, rng)[:, 0].max() >= SCREEN for k in ks)


def _last_step(estimator: Any) -> Any:
    """Return the step that has the parameter ``n_clusters``."""
    last = estimator[-1] if hasattr(estimator, "steps") else estimator
    if not hasattr(last, "fit_predict") or "n_clusters" not in last.get_params(deep=False):
        raise ValueError(
            "estimator must be a clusterer with fit_predict and the parameter n_clusters, or a "
            f"pipeline that ends in one; got {type(estimator).__name__}."
        )
    return last


def check_count(name: str, value: Any, least: int) -> None:
    """Raise an error unless the value is a whole number that is large enough."""
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} must be a whole number, at least {least}; got {value!r}.")


def _numbers_to_try(k_range, most: int, largest: int) -> list[int]:
    """Return the sorted numbers of clusters to try, none above the number of distinct rows."""
    if most < 2:
        raise ValueError("X has too few distinct rows: a subsample has fewer than two.")
    if k_range is None:
        return list(range(2, max(min(largest, most // 3), 2) + 1))
    return whole_numbers(k_range, 2, most, "a subsample has")


def whole_numbers(k_range, least: int, most: int, what_has: str) -> list[int]:
    """Return the sorted numbers of ``k_range``; raise an error if one is out of bounds."""
    ks = sorted(set(k_range))
    if not ks or any(not isinstance(k, (int, np.integer)) or k < least for k in ks):
        raise ValueError(f"k_range must be whole numbers, each at least {least}; got {k_range!r}.")
    if ks[-1] > most:
        raise ValueError(f"k_range goes up to {ks[-1]}, but {what_has} only {most} distinct rows.")
    return [int(k) for k in ks]


def _part(X, rows: np.ndarray, pairwise: bool):
    return X[np.ix_(rows, rows)] if pairwise else X[rows]


# -- the curve ------------------------------------------------------------------------------------


def _labels(estimator, X, parts, k: int, pairwise: bool, rng) -> np.ndarray:
    """Return the labels of the subsamples, (n_parts, n), -1 for rows outside a subsample."""
    found = np.full((len(parts), X.shape[0]), -1)
    for row, part in zip(found, parts):
        model = clone(estimator)
        last = _last_step(model).set_params(n_clusters=k)
        if "random_state" in last.get_params(deep=False):
            last.set_params(random_state=int(rng.integers(2**31 - 1)))
        with warnings.catch_warnings():
            # Estimators may warn if the number of clusters is wrong.
            warnings.simplefilter("ignore", UserWarning)
            labels = model.fit_predict(_part(X, part, pairwise))
        # Labels may be any values, and fewer than k if clusters are empty.
        row[part] = np.unique(labels, return_inverse=True)[1]
    return found


def _agreement(estimator, X, parts, k: int, pairwise: bool, rng) -> np.ndarray:
    labels = _labels(estimator, X, parts, k, pairwise, rng)
    return pair_agreement(labels, max(k, int(labels.max()) + 1))


def _compared(choice, estimator, X, n_parts: int, rng) -> ClusterNumberChoice:
    """Mark the choice uncertain unless the chosen or the most stable k beats reference data.

    An elongated cloud is split in two as stably as two clusters, but not in four as four clusters.
    """
    null = np.full(len(choice.k_values), np.nan)
    chosen = int(np.flatnonzero(choice.k_values == choice.n_clusters)[0])
    floor = choice.stability - choice.spread / np.sqrt(n_parts)
    for at in (chosen, int(choice.stability.argmax())):
        if np.isnan(null[at]):
            null[at] = stability_without_clusters(estimator, X, int(choice.k_values[at]), rng)
        if floor[at] > null[at]:
            return replace(choice, without_clusters=null)
    statement = (
        f"Uncertain whether there are clusters: the stability of {choice.n_clusters} clusters "
        f"under subsampling is {choice.stability[chosen]:.2f} (adjusted Rand index), and "
        f"{null[chosen]:.2f} on reference data without clusters."
    )
    return replace(choice, uncertain=True, statement=statement, without_clusters=null)


def stability_without_clusters(estimator, X, k: int, rng) -> float:
    """Return the highest stability of k clusters on reference data without clusters."""
    found = []
    for cloud in shapeless(X, rng, CLOUDS):
        parts = subsamples(X.shape[0], CLOUD_PARTS, rng)
        found.append(_agreement(estimator, cloud, parts, k, False, rng)[:, 0].mean())
    return float(max(found))


def shapeless(X, rng, count: int = 1) -> Iterator[Any]:
    """Yield reference data without clusters.

    Dense rows: Gaussian samples with the mean and covariance of X and, if there are at most as many
    columns as rows, uniform samples along the principal axes. Sparse rows: the column indices are
    shuffled, which keeps the values of each row and the number of entries of each column.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 1)) * [1.0, 2.0] + [0.0, 5.0]
    >>> [cloud.mean(axis=0).round().tolist() for cloud in shapeless(X, rng)]
    [[-0.0, 5.0], [-0.0, 5.0]]
    """
    if sparse.issparse(X):
        for _ in range(count):
            yield _shuffled(X, rng)
        return
    n, mean = X.shape[0], X.mean(axis=0)
    centred = (X - mean) / np.sqrt(n)
    for _ in range(count):
        # Random linear combinations of the rows have their covariance; nothing is factorised.
        yield rng.normal(size=(n, n)) @ centred + mean
    if X.shape[1] <= n:
        scale, axes = np.linalg.svd(centred, full_matrices=False)[1:]
        for _ in range(count):
            sides = rng.uniform(-np.sqrt(3.0), np.sqrt(3.0), size=(n, len(scale)))
            yield sides * scale @ axes + mean


def _shuffled(X, rng):
    shuffled = X.copy()
    shuffled.indices = rng.permutation(X.indices)
    shuffled.has_sorted_indices = shuffled.has_canonical_format = False
    shuffled.sum_duplicates()
    return shuffled


# -- the answer -----------------------------------------------------------------------------------


def largest_stable(stability: np.ndarray, worst: np.ndarray) -> np.ndarray:
    """Return the index of the largest k that is nearly as stable as the best.

    All its clusters must be stable, too.

    Examples
    --------
    >>> stability = np.array([[1.0, 0.6, 0.95, 0.93]])
    >>> largest_stable(stability, np.array([[1.0, 0.5, 0.9, 0.2]]))
    array([2])
    """
    top = stability.max(axis=1, keepdims=True)
    nearly = (stability >= NEARLY * top) & ((worst >= FOUND_AGAIN) | (stability == top))
    return stability.shape[1] - 1 - nearly[:, ::-1].argmax(axis=1)


def _decide(ks, agreement, n_parts: int, rng) -> ClusterNumberChoice:
    values = np.array(ks)
    stability, worst = agreement.mean(axis=1).T
    at = int(largest_stable(stability[None], worst[None])[0])
    support = _support(agreement, n_parts, rng)
    spread = agreement[:, :, 0].std(axis=1)
    likely = np.argsort(-support, kind="stable")[:MOST_CANDIDATES]
    likely = likely[(support[likely] > 1.0 - DECIDED) & (likely != at)]
    if support[at] < DECIDED and not len(likely):
        likely = np.array([np.where(np.arange(len(ks)) == at, -1.0, support).argmax()])
    doubt = _doubt(values, at, likely, stability, support)
    return ClusterNumberChoice(
        n_clusters=int(values[at]),
        uncertain=doubt is not None,
        statement=doubt or _certainty(values[at], stability[at], support[at]),
        candidates=(int(values[at]), *values[likely].tolist()),
        k_values=values,
        stability=stability,
        spread=spread,
        worst_cluster=worst,
        support=support,
        without_clusters=np.full(len(ks), np.nan),
    )


def _support(agreement: np.ndarray, n_parts: int, rng) -> np.ndarray:
    """Return the fraction of bootstrap samples for which the rule chooses each k.

    Subsamples, not pairs, are drawn with replacement: pairs with a common subsample are dependent.
    """
    counts = rng.multinomial(n_parts, np.full(n_parts, 1.0 / n_parts), size=REDRAWS)
    first, second = np.array(list(combinations(range(n_parts), 2))).T
    weights = (counts[:, first] * counts[:, second]).astype(float)
    weights = weights[weights.sum(axis=1) > 0]
    weights /= weights.sum(axis=1, keepdims=True)
    stability, worst = (weights @ agreement[:, :, i].T for i in (0, 1))
    taken = largest_stable(stability, worst)
    return np.bincount(taken, minlength=len(agreement)) / len(taken)


def _doubt(values, at: int, likely, stability, support) -> str | None:
    """Return the reason why the choice is uncertain, or None."""
    k = values[at]
    if stability[at] < SOLID:
        return (
            f"Uncertain: {k} clusters are the best choice, but their stability under subsampling "
            f"is only {stability[at]:.2f} (adjusted Rand index)."
        )
    if at == len(values) - 1 and len(values) > 1:
        return (
            f"Uncertain: {k} clusters, the largest number tried, are still stable. Try larger "
            "numbers."
        )
    if support[at] < DECIDED:
        others = [f"{support[other]:.0%} choose {values[other]}" for other in likely]
        return (
            f"Uncertain: {numbers_in_words((k, *values[likely]))}. {support[at]:.0%} of the "
            f"bootstrap samples choose {k} clusters, {listed(others, 'and')}."
        )
    return None


def _certainty(k: int, stability: float, support: float) -> str:
    return (
        f"{k} clusters: stability under subsampling {stability:.2f} (adjusted Rand index); "
        f"{support:.0%} of the bootstrap samples choose this number."
    )
