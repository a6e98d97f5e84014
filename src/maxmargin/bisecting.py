"""Many clusters by recursive two-way splits (section IV-C of Zhang, Tsang & Kwok 2009).

A tree is grown one split at a time; each split is a linear function in feature space, and a row
belongs to the leaf whose splits all point its way. The score of a leaf is the smallest signed score
along its path, so that the largest score names the leaf that a walk down the tree reaches.

===========================================  ==========================
in the paper                                 here
===========================================  ==========================
binary clustering performed recursively      ``grow_tree``
===========================================  ==========================
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from scipy import sparse
from sklearn.base import clone
from sklearn.cluster import KMeans
from threadpoolctl import threadpool_limits

from ._base import SHARED_CONSTRAINTS, BaseMarginClustering, Model
from ._compat import FitWatch, StrOptions
from .engine.balance import size_floor
from .engine.descent import CALLBACK, CONVERGED, MAX_ITER, STALLED, TIME
from .engine.samples import make_sample


class BisectingMarginClustering(BaseMarginClustering):
    """Many clusters by recursive splits with any two-way estimator of this package.

    Each split is a fitted copy of ``estimator`` with a feature map of its own, on the rows of the
    cluster it splits.

    Parameters
    ----------
    estimator : estimator, default=None
        Two-way margin clustering; None means ``AlternatingMarginClustering()``. Its ``balance``
        is the size floor ``balance * n / n_clusters`` of every cluster, as far as the splits chosen
        before leave room for it.
    n_clusters : int, default=2
        Number of clusters.
    split_by : {"scatter", "size"}, default="scatter"
        Which cluster to split next: the one with the largest sum of squared distances to its mean
        ("precomputed" kernels: in the kernel's space), or of largest weight.
    verbose : int, default=0
        1 shows a progress bar over the splits.
    random_state : int, RandomState instance or None, default=None
    n_jobs : int or None, default=None
        Threads over blocks of rows, passed to the splits.

    Attributes
    ----------
    splits_ : list of estimators
        The fitted two-way models, in the order of the splits.
    labels_, cluster_sizes_, exemplar_indices_, objective_, history_, n_iter_, stop_reason_
        As for the two-way estimators; ``history_`` has the objective of each split.

    Examples
    --------
    >>> from maxmargin import AlternatingMarginClustering, BisectingMarginClustering
    >>> X = [[0.0], [0.2], [5.0], [5.1], [9.0], [9.1]]
    >>> linear = AlternatingMarginClustering(kernel="linear")
    >>> model = BisectingMarginClustering(linear, n_clusters=3, random_state=0).fit(X)
    >>> model.cluster_sizes_
    array([2, 2, 2])
    """

    _parameter_constraints: dict = {  # noqa: RUF012 - scikit-learn's convention
        **{
            name: SHARED_CONSTRAINTS[name]
            for name in ("n_clusters", "verbose", "random_state", "n_jobs")
        },
        "estimator": [BaseMarginClustering, None],
        "split_by": [StrOptions({"size", "scatter"})],
    }

    def __init__(
        self,
        estimator=None,
        n_clusters=2,
        *,
        split_by="scatter",
        verbose=0,
        random_state=None,
        n_jobs=None,
    ):
        self.estimator = estimator
        self.n_clusters = n_clusters
        self.split_by = split_by
        self.verbose = verbose
        self.random_state = random_state
        self.n_jobs = n_jobs

    # A split starts afresh: there is nothing to warm-start.
    warm_start = False

    @property
    def _pairwise(self) -> bool:
        return self._two_way()._pairwise

    def _two_way(self) -> BaseMarginClustering:
        if self.estimator is not None:
            return self.estimator
        from .alternating import AlternatingMarginClustering

        return AlternatingMarginClustering()

    def estimate_memory(self, n_samples: int, n_features: int) -> int:
        """Peak memory in bytes that a fit needs beyond X itself: that of its first split."""
        return self._two_way().estimate_memory(n_samples, n_features) + n_samples * n_features * 8

    def _margin_losses(self, margins):
        return self._two_way()._margin_losses(margins)

    def _fit_validated(self, X, weights, known, warm) -> None:
        rng = self._generator()
        watch = FitWatch(self)
        weights_or_ones = np.ones(X.shape[0]) if weights is None else weights
        sample = make_sample(X, weights, known, merge=False)

        total, balance = sample.weights.sum(), self._two_way().balance
        floor = size_floor(balance, total, self.n_clusters, sample.whole)

        def split(indices, clusters):
            rows = sample.source[indices]
            w = weights_or_ones[rows]
            # What the smaller side needs, as a balance between the two.
            share = w.sum() / total
            side = max(even_share(share, self.n_clusters), 1.0 / self.n_clusters)
            two_way = min(1.0, 2.0 * balance * side / share)
            return self._split(X, rows, w, sample.known[indices], two_way, rng, watch)

        def capacity(indices):
            weight = sample.weights[indices].sum()
            return clusters_that_fit(weight, floor, len(indices))

        def priority(indices):
            rows = sample.source[indices]
            if len(np.unique(sample.known[indices][sample.known[indices] >= 0])) > 1:
                return np.inf
            if self.split_by == "size":
                return weights_or_ones[rows].sum()
            return _spread(X, rows, self._pairwise)

        tree = grow_tree(len(sample.source), self.n_clusters, split, priority, capacity)
        order = cluster_order(tree.leaves, sample.known, sample.weights, self.n_clusters)
        self.splits_ = [model for model, _ in tree.splits]
        self._split_rows = [rows for _, rows in tree.splits]
        model = Model(
            np.zeros((0, 0)),
            np.zeros(0),
            tree.paths[order].astype(np.float64),
            objective=float(np.mean([m.objective_ for m in self.splits_])) if tree.splits else 0.0,
            history=[m.objective_ for m in self.splits_],
            n_iter=len(self.splits_),
            stop_reason=watch.reason or worst_reason([m.stop_reason_ for m in self.splits_]),
        )
        with threadpool_limits(1):
            split_scores = self._split_scores(X, effective_n_jobs(self.n_jobs))
        self._publish_labels(model, split_scores, weights, known, sample)
        watch.close()

    def _split(self, X, rows, weights, known, balance, rng, watch):
        model = clone(self._two_way()).set_params(
            n_clusters=2,
            balance=balance,
            random_state=int(rng.integers(2**31 - 1)),
            n_jobs=self.n_jobs,
        )
        classes = np.unique(known[known >= 0])
        partial = None
        if len(classes) > 1:
            means = np.stack([_mean(X[rows[known == c]]) for c in classes])
            sides = two_groups(means, int(rng.integers(2**31 - 1)))
            partial = np.full(len(rows), -1)
            for label, side in zip(classes, sides):
                partial[known == label] = int(side > 0)
        model.fit(_rows_of(X, rows, self._pairwise), sample_weight=weights, partial_labels=partial)
        watch(model.objective_)
        return np.where(model.labels_ > 0, 1, -1), (model, rows)

    def _split_scores(self, X, n_jobs: int, rows=None) -> np.ndarray:
        scores = np.zeros((X.shape[0], len(self.splits_)))
        for j, (model, own) in enumerate(zip(self.splits_, self._split_rows)):
            part = X[:, own] if self._pairwise else X
            scores[:, j] = model._split_scores(part, n_jobs)[:, 0]
        return scores


def _rows_of(X, rows, pairwise: bool):
    return X[np.ix_(rows, rows)] if pairwise else X[rows]


def _mean(X) -> np.ndarray:
    return np.asarray(X.mean(axis=0)).ravel()


def _spread(X, rows, pairwise: bool) -> float:
    """Sum of squared distances to the mean, in the kernel's space for a kernel matrix."""
    part = _rows_of(X, rows, pairwise)
    if pairwise:
        return float(np.trace(part) - part.mean() * len(rows))
    mean = _mean(part)
    if sparse.issparse(part):
        return float(part.multiply(part).sum() - len(rows) * mean @ mean)
    return float(((part - mean) ** 2).sum())


@dataclass(frozen=True)
class Tree:
    """A binary tree of splits.

    Attributes
    ----------
    leaves : ndarray of shape (n,)
        Leaf of every row.
    paths : ndarray of shape (k, k - 1), int8
        For each leaf the sign it needs at each split, 0 for splits not on its path.
    splits : list
        What ``split`` returned, in the order of the columns of ``paths``.
    """

    leaves: np.ndarray
    paths: np.ndarray
    splits: list[Any]


def grow_tree(
    n_rows: int,
    n_leaves: int,
    split: Callable[[np.ndarray, int], tuple[np.ndarray, Any]],
    priority: Callable[[np.ndarray], float],
    capacity: Callable[[np.ndarray], int] = len,
) -> Tree:
    """Split the leaf of highest priority until there are ``n_leaves``.

    Parameters
    ----------
    split : callable
        ``split(rows, clusters) -> (signs, model)`` for the row numbers of a leaf, whose two sides
        must together have room for that many clusters.
    priority : callable
        ``priority(rows) -> float``.
    capacity : callable
        ``capacity(rows) -> int``: how many clusters fit into a leaf. While the leaves together can
        hold ``n_leaves``, one of them can be split.

    Examples
    --------
    >>> X = np.array([0.0, 1.0, 10.0, 11.0, 30.0])
    >>> def halve(rows, clusters):
    ...     threshold = X[rows].mean()
    ...     return np.where(X[rows] > threshold, 1, -1), threshold
    >>> grow_tree(5, 3, halve, priority=lambda rows: X[rows].std()).leaves
    array([0, 0, 0, 1, 2])
    """
    leaves = np.zeros(n_rows, np.int64)
    paths = np.zeros((n_leaves, n_leaves - 1), np.int8)
    splits: list[Any] = []
    members = [np.arange(n_rows)]
    urgency, room = [0.0], [n_leaves]
    while len(members) < n_leaves:
        chosen = int(np.argmax(np.where(np.array(room) > 1, urgency, -np.inf)))
        rows = members[chosen]
        elsewhere = sum(room) - room[chosen]
        signs, model = split(rows, max(2, n_leaves - elsewhere))
        new, column = len(members), len(splits)
        paths[new] = paths[chosen]
        paths[chosen, column], paths[new, column] = -1, 1
        leaves[rows[signs > 0]] = new
        members[chosen] = rows[signs < 0]
        members.append(rows[signs > 0])
        urgency.append(0.0)
        room.append(0)
        for leaf in (chosen, new):
            room[leaf] = capacity(members[leaf])
            urgency[leaf] = priority(members[leaf]) if room[leaf] > 1 else -np.inf
        splits.append(model)
    return Tree(leaves, paths, splits)


def clusters_that_fit(weight: float, floor: float, n_rows: int) -> int:
    """How many clusters of weight ``floor`` some rows can be split into.

    Examples
    --------
    >>> clusters_that_fit(10.0, 3.0, n_rows=10)
    3
    """
    return min(n_rows, int(weight / floor + 1e-9)) if floor > 0 else n_rows


def even_share(share: float, n_clusters: int) -> float:
    """Share of all rows in the smaller side when a leaf's clusters are dealt out evenly.

    A leaf with ``share`` of the rows is expected to hold ``c = share * n_clusters`` clusters; for
    two there is nothing to add to the floor of one cluster.

    Examples
    --------
    >>> even_share(1.0, 10), round(even_share(1.0, 3), 3), even_share(1.0, 2)
    (0.5, 0.333, 0.0)
    """
    expected = round(share * n_clusters)
    return share * (expected // 2) / expected if expected > 2 else 0.0


def two_groups(means: np.ndarray, seed: int) -> np.ndarray:
    """Sign of each class when classes, given by their means, must go to two sides.

    Examples
    --------
    >>> two_groups(np.array([[0.0], [1.0], [9.0]]), seed=0)
    array([-1, -1,  1])
    """
    if len(means) == 2:
        return np.array([-1, 1])
    labels = KMeans(2, n_init=10, random_state=seed).fit(means).labels_
    return np.where(labels == labels[0], -1, 1)


def cluster_order(leaves: np.ndarray, known: np.ndarray, weights: np.ndarray, k: int) -> np.ndarray:
    """Leaf of each cluster number: leaves with known labels keep them, the rest by falling size.

    Examples
    --------
    >>> cluster_order(np.array([0, 0, 1, 2]), np.array([-1, -1, -1, 0]), np.ones(4), 3)
    array([2, 0, 1])
    """
    order = np.full(k, -1)
    for leaf, label in zip(leaves[known >= 0], known[known >= 0]):
        order[label] = leaf
    sizes = np.bincount(leaves, weights, minlength=k)
    rest = [leaf for leaf in np.argsort(-sizes, kind="stable") if leaf not in order]
    order[order < 0] = rest
    return order


def worst_reason(reasons: list[str]) -> str:
    """Of the stop reasons of all splits, the one a user must know.

    Examples
    --------
    >>> worst_reason(["converged", "max_iter", "stalled"])
    'max_iter'
    """
    ranked = [CONVERGED, STALLED, CALLBACK, TIME, MAX_ITER]
    return max(reasons, key=ranked.index, default=CONVERGED)
