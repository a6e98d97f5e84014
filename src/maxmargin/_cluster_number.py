"""How many clusters: the largest number that different parts of the data agree on.

For every number k of clusters, random parts of the rows (70 %) are clustered, and the answers are
compared on the rows that two parts share. Stability(k) is the mean adjusted Rand index over the
pairs. A coarse division into a few well separated groups is stable as well, so not the most stable
k is taken but the largest that is nearly as stable, and of which every cluster is found again
(Hennig, "Cluster-wise assessment of cluster stability", Computational Statistics & Data Analysis
52, 2007: by its Jaccard index to its counterpart).

Stability also has its blind spots, and the answer says where: the curve may be flat, fall only
after the end of the range, or be no higher than that of a cloud without clusters.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.utils import check_array, check_random_state, get_tags

from ._core.dedup import count_distinct
from ._data.source import MemoryRows
from .least_squares._resampling import pair_agreement, subsamples

LARGEST = 15
NEARLY = 0.85  # of the greatest stability
FOUND_AGAIN = 0.75  # Jaccard index from which on a cluster is stable (Hennig 2007)
SOLID = 0.75  # stability below which an answer is not to be relied on
DECIDED = 0.75  # share of redraws that must agree on the number
CLOUDS = 4  # of each kind without clusters
CLOUD_PARTS = 3
REDRAWS = 1000
FEW_ROWS, MANY_PARTS, FEW_PARTS = 500, 10, 6


@dataclass(frozen=True)
class ClusterNumberChoice:
    """The chosen number of clusters, the curve behind it, and how sure it is.

    Attributes
    ----------
    n_clusters : int
        The largest number that is nearly as stable as the most stable one.
    uncertain : bool
        Whether the data leave the number open; ``statement`` says why.
    statement : str
        The answer in a sentence or two.
    k_values : ndarray of shape (n_k,)
    stability, spread : ndarray of shape (n_k,)
        Mean and standard deviation of the adjusted Rand index between two parts of the data.
    worst_cluster : ndarray of shape (n_k,)
        Mean Jaccard index of the cluster that is found again least.
    support : ndarray of shape (n_k,)
        Share of redraws of the parts (with replacement) in which the rule takes this k.
    without_clusters : ndarray of shape (n_k,)
        Greatest stability that a few clouds without clusters reached at the chosen k, and at the
        most stable one if that was not enough; nan elsewhere, where the number is in doubt anyway,
        and for a kernel, of which no such cloud can be made.
    """

    n_clusters: int
    uncertain: bool
    statement: str
    k_values: np.ndarray
    stability: np.ndarray
    spread: np.ndarray
    worst_cluster: np.ndarray
    support: np.ndarray
    without_clusters: np.ndarray

    def plot(self, ax=None):
        """Draw stability against the number of clusters, the chosen one marked.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default new axes.

        Returns
        -------
        matplotlib Axes
            The axes drawn on.
        """
        from .display import plot_n_clusters

        return plot_n_clusters(self, ax, nearly=NEARLY)


def stable_number(
    X, estimator: Any, k_range=None, n_subsamples=None, max_samples: int = 1000, random_state=None
) -> ClusterNumberChoice:
    """Choose the number of clusters: see :func:`maxmargin.choose_n_clusters`."""
    X = check_array(X, accept_sparse="csr", dtype=[np.float64, np.float32])
    _last_step(estimator)
    pairwise = get_tags(estimator).input_tags.pairwise
    if n_subsamples is None:
        n_subsamples = MANY_PARTS if X.shape[0] <= FEW_ROWS else FEW_PARTS
    _check_count("n_subsamples", n_subsamples, 3)
    _check_count("max_samples", max_samples, 10)
    rng = np.random.default_rng(check_random_state(random_state).randint(2**31 - 1))
    rows = np.sort(rng.permutation(X.shape[0])[:max_samples])
    X = _part(X, rows, pairwise)
    parts = subsamples(X.shape[0], n_subsamples, rng)
    ks = _numbers_to_try(k_range, min(_distinct(X, part, pairwise) for part in parts))
    agreement = np.stack([_agreement(estimator, X, parts, k, pairwise, rng) for k in ks])
    choice = _decide(ks, agreement, n_subsamples, rng)
    if choice.uncertain or pairwise:
        return choice
    return _compared(choice, estimator, X, n_subsamples, rng)


def _last_step(estimator: Any) -> Any:
    """What has the parameter ``n_clusters``."""
    last = estimator[-1] if hasattr(estimator, "steps") else estimator
    if not hasattr(last, "fit_predict") or "n_clusters" not in last.get_params(deep=False):
        raise ValueError(
            "estimator must be a clusterer with fit_predict and the parameter n_clusters, or a "
            f"pipeline that ends in one; got {type(estimator).__name__}."
        )
    return last


def _check_count(name: str, value: Any, least: int) -> None:
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} must be a whole number, at least {least}; got {value!r}.")


def _numbers_to_try(k_range, most: int) -> list[int]:
    """Sorted numbers of clusters, none larger than the parts of the data allow."""
    if most < 2:
        raise ValueError("X has too few distinct rows: a part of them has less than two.")
    if k_range is None:
        return list(range(2, max(min(LARGEST, most // 3), 2) + 1))
    ks = sorted(set(k_range))
    if not ks or any(not isinstance(k, (int, np.integer)) or k < 2 for k in ks):
        raise ValueError(f"k_range must be whole numbers, each at least 2; got {k_range!r}.")
    if ks[-1] > most:
        raise ValueError(
            f"k_range goes up to {ks[-1]}, but a part of the data has only {most} distinct rows."
        )
    return [int(k) for k in ks]


def _part(X, rows: np.ndarray, pairwise: bool):
    return X[np.ix_(rows, rows)] if pairwise else X[rows]


def _distinct(X, rows: np.ndarray, pairwise: bool) -> int:
    return len(rows) if pairwise else count_distinct(MemoryRows(X[rows]), len(rows))


# -- the curve ------------------------------------------------------------------------------------


def _labels(estimator, X, parts, k: int, pairwise: bool, rng) -> np.ndarray:
    """Labels of the parts, (n_parts, n), -1 where a row is in another part only."""
    found = np.full((len(parts), X.shape[0]), -1)
    for row, part in zip(found, parts):
        model = clone(estimator)
        last = _last_step(model).set_params(n_clusters=k)
        if "random_state" in last.get_params(deep=False):
            last.set_params(random_state=int(rng.integers(2**31 - 1)))
        with warnings.catch_warnings():
            # Of a wrong number of clusters an estimator may well complain.
            warnings.simplefilter("ignore", UserWarning)
            labels = model.fit_predict(_part(X, part, pairwise))
        # Names may be anything, and fewer than k where clusters stay empty.
        row[part] = np.unique(labels, return_inverse=True)[1]
    return found


def _agreement(estimator, X, parts, k: int, pairwise: bool, rng) -> np.ndarray:
    labels = _labels(estimator, X, parts, k, pairwise, rng)
    return pair_agreement(labels, max(k, int(labels.max()) + 1))


def _compared(choice, estimator, X, n_parts: int, rng) -> ClusterNumberChoice:
    """The choice in doubt unless the chosen or the most stable k beats clouds without clusters.

    A long cloud is cut in two as stably as two clusters are told apart, but not in four as four.
    """
    null = np.full(len(choice.k_values), np.nan)
    chosen = int(np.flatnonzero(choice.k_values == choice.n_clusters)[0])
    floor = choice.stability - choice.spread / np.sqrt(n_parts)
    for at in (chosen, int(choice.stability.argmax())):
        if np.isnan(null[at]):
            null[at] = _without_clusters(estimator, X, int(choice.k_values[at]), rng)
        if floor[at] > null[at]:
            return replace(choice, without_clusters=null)
    statement = (
        f"Uncertain whether there are clusters: parts of the data agree on "
        f"{choice.n_clusters} to {choice.stability[chosen]:.2f} (adjusted Rand index), and parts "
        f"of a cloud without clusters to {null[chosen]:.2f}."
    )
    return replace(choice, uncertain=True, statement=statement, without_clusters=null)


def _without_clusters(estimator, X, k: int, rng) -> float:
    """Greatest stability of k clusters in a few clouds like X but without clusters."""
    found = []
    for cloud in shapeless(X, rng, CLOUDS):
        parts = subsamples(X.shape[0], CLOUD_PARTS, rng)
        found.append(_agreement(estimator, cloud, parts, k, False, rng)[:, 0].mean())
    return float(max(found))


def shapeless(X, rng, count: int = 1) -> Iterator[Any]:
    """Rows without clusters: Gaussian clouds with the mean and covariance of X, and boxes.

    A box has uniform rows along the principal axes; of more columns than rows none is made. Of
    sparse rows, each keeps its values and each column its number of entries, but which columns a
    row has is shuffled.

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
        # Random sums of the rows have their covariance, without a factorisation.
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
    """Place of the last k that is nearly as stable as the best and whose clusters all stay.

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
    doubt = _doubt(values, at, stability, support)
    return ClusterNumberChoice(
        n_clusters=int(values[at]),
        uncertain=doubt is not None,
        statement=doubt or _certainty(values[at], stability[at], support[at]),
        k_values=values,
        stability=stability,
        spread=spread,
        worst_cluster=worst,
        support=support,
        without_clusters=np.full(len(ks), np.nan),
    )


def _support(agreement: np.ndarray, n_parts: int, rng) -> np.ndarray:
    """Share of redraws in which the rule takes each k.

    Parts are drawn with replacement, and a pair counts as often as both of its parts were drawn:
    pairs with a part in common are not independent.
    """
    counts = rng.multinomial(n_parts, np.full(n_parts, 1.0 / n_parts), size=REDRAWS)
    first, second = np.array(list(combinations(range(n_parts), 2))).T
    weights = (counts[:, first] * counts[:, second]).astype(float)
    weights = weights[weights.sum(axis=1) > 0]
    weights /= weights.sum(axis=1, keepdims=True)
    stability, worst = (weights @ agreement[:, :, i].T for i in (0, 1))
    taken = largest_stable(stability, worst)
    return np.bincount(taken, minlength=len(agreement)) / len(taken)


def _doubt(values, at: int, stability, support) -> str | None:
    """Why the number is open, or None."""
    k = values[at]
    if stability[at] < SOLID:
        return (
            f"Uncertain: {k} clusters are the best found, but parts of the data agree on them "
            f"only to {stability[at]:.2f} (adjusted Rand index)."
        )
    if at == len(values) - 1 and len(values) > 1:
        return (
            f"Uncertain: up to {k} clusters, the most that were tried, are about equally stable; "
            "try more."
        )
    if support[at] < DECIDED:
        rival = int(np.where(np.arange(len(values)) == at, -1.0, support).argmax())
        low, high = sorted((int(k), int(values[rival])))
        return (
            f"Uncertain: the data do not decide between {low} and {high} clusters; redrawn parts "
            f"choose {k} in {support[at]:.0%} and {values[rival]} in {support[rival]:.0%} of the "
            "cases."
        )
    return None


def _certainty(k: int, stability: float, support: float) -> str:
    return (
        f"{k} clusters: parts of the data agree on them to {stability:.2f} (adjusted Rand index), "
        f"and {support:.0%} of redrawn parts choose this number."
    )
