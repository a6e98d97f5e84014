"""Many clusters by recursive two-way splits (section IV-C of Zhang, Tsang & Kwok 2009).

A tree is grown one split at a time. Each split is a linear function in feature space, and the score
of a leaf is the smallest signed score along its path. The leaf with the largest score is therefore
the one that a row reaches from the root.

===========================================  ==========================
in the paper                                 here
===========================================  ==========================
binary clustering performed recursively      ``_core.tree.grow_tree``
===========================================  ==========================
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from scipy import sparse
from sklearn.base import clone

from ._base import SHARED_CONSTRAINTS, BaseMarginClustering
from ._callbacks import StrOptions
from ._core.dedup import FitInput
from ._core.model import Model
from ._core.rows import Rows
from ._core.size_floor import size_floor
from ._core.tree import (
    cluster_order,
    clusters_that_fit,
    even_share,
    grow_tree,
    two_groups,
    worst_reason,
)
from .alternating import AlternatingMarginClustering

FLOAT64 = np.dtype(np.float64)


class BisectingMarginClustering(BaseMarginClustering):
    """Hierarchical clustering by recursive splits with any two-way estimator of this package.

    Each split is a clone of ``estimator``, fitted on the rows of the cluster that it splits, with
    its own feature map.

    Parameters
    ----------
    n_clusters : int, default=2
        Number of clusters.
    estimator : estimator, default=None
        Two-way margin clustering; None means ``AlternatingMarginClustering()``. Its ``balance``
        sets the minimum size ``balance * n / n_clusters`` of every cluster, as far as earlier
        splits allow it.
    split_by : {"scatter", "size"}, default="scatter"
        Which cluster to split next: the one with the largest sum of squared distances to its mean
        (in feature space if the kernel is "precomputed"), or the one with the largest weight.
    verbose : int, default=0
        1 shows a progress bar over the splits.
    random_state : int, RandomState instance or None, default=None
        Seed. On one machine, results do not depend on the number of threads.
    n_jobs : int or None, default=None
        Number of threads over blocks of rows, passed to the splits.

    Attributes
    ----------
    splits_ : list of estimators
        The fitted two-way models, in the order of the splits; None for splits without rows.
    labels_, cluster_sizes_, exemplar_indices_, clusters_on_floor_, n_iter_, stop_reason_
        See :class:`AlternatingMarginClustering`.
    objective_, history_ : float and list of float
        Mean objective of the splits, and the objective of each.

    Examples
    --------
    >>> from maxmargin import AlternatingMarginClustering, BisectingMarginClustering
    >>> X = [[0.0], [0.2], [5.0], [5.1], [9.0], [9.1]]
    >>> linear = AlternatingMarginClustering(kernel="linear")
    >>> model = BisectingMarginClustering(3, estimator=linear, random_state=0).fit(X)
    >>> model.cluster_sizes_
    array([2, 2, 2])
    """

    _takes_blocks = False
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
        n_clusters=2,
        *,
        estimator=None,
        split_by="scatter",
        verbose=0,
        random_state=None,
        n_jobs=None,
    ):
        self.n_clusters = n_clusters
        self.estimator = estimator
        self.split_by = split_by
        self.verbose = verbose
        self.random_state = random_state
        self.n_jobs = n_jobs

    # The splits merge equal rows if they can.
    def _mergeable(self) -> bool:
        return False

    @property
    def _pairwise(self) -> bool:
        return self._two_way()._pairwise

    def _validate_params(self) -> None:
        super()._validate_params()
        self._two_way()._validate_params()

    def _balance(self) -> float:
        balance = self._two_way().balance
        return 0.7 if balance == "auto" else balance

    def _two_way(self) -> BaseMarginClustering:
        return AlternatingMarginClustering() if self.estimator is None else self.estimator

    def estimate_memory(self, n_samples: int, n_features: int, in_blocks: bool = False) -> int:
        two_way = self._two_way().estimate_memory(n_samples, n_features, in_blocks)
        return two_way + n_samples * n_features * 8

    def _decision_losses(self, decision):
        return self._two_way()._decision_losses(decision)

    def _fit_model(self, data: FitInput) -> Model:
        tree = self._grow(data.X.take(slice(None)), data)
        order = cluster_order(tree.leaves, data, self.n_clusters)
        splits = SplitModels(
            tuple(None if split is None else split[0] for split in tree.splits),
            tuple(None if split is None else split[1] for split in tree.splits),
            self._pairwise,
        )
        fitted = [model for model in splits.models if model is not None]
        objectives = [model.objective_ for model in fitted]
        reason = getattr(data.watch, "reason", None)
        return Model(
            features=splits,
            coef=np.eye(len(tree.splits)),
            intercept=np.zeros(len(tree.splits)),
            paths=tree.paths[order].astype(np.float64),
            objective=float(np.mean(objectives)) if objectives else 0.0,
            history=objectives,
            n_iter=len(objectives),
            stop_reason=reason or worst_reason([m.stop_reason_ for m in fitted]),
            balance=self._balance(),
            extras={"splits_": list(splits.models)},
        )

    def _grow(self, X, sample: FitInput):
        k, weights, total = self.n_clusters, sample.weights, sample.weights.sum()
        balance = self._balance()
        floor = size_floor(balance, total, k, sample.whole)

        def split(indices, clusters):
            share = weights[indices].sum() / total
            # The minimum size of the smaller side, as the balance of the two-way estimator.
            side = max(even_share(share, k), 1.0 / k)
            two_way = min(1.0, 2.0 * balance * side / share)
            model = self._fit_split(X, sample, indices, two_way)
            return np.where(model.labels_ > 0, 1, -1), (model, sample.source[indices])

        def capacity(indices):
            known = sample.known[indices]
            classes = len(np.unique(known[known >= 0]))
            if len(indices) < 2:
                return max(len(indices), classes)
            if _spread(self._part(X, sample, indices), self._pairwise) <= 0:
                return max(1, classes)
            return max(classes, clusters_that_fit(weights[indices].sum(), floor, len(indices)))

        def priority(indices):
            known = sample.known[indices]
            if len(np.unique(known[known >= 0])) > 1:
                return np.inf
            if self.split_by == "size":
                return weights[indices].sum()
            return _spread(self._part(X, sample, indices), self._pairwise)

        return grow_tree(len(weights), k, split, priority, capacity)

    def _part(self, X, sample: FitInput, indices):
        """Return some rows; for a kernel matrix, also only their columns."""
        if not self._pairwise:
            return X[indices]
        return X[np.ix_(indices, sample.source[indices])]

    def _fit_split(self, X, sample: FitInput, indices, balance) -> BaseMarginClustering:
        known = sample.known[indices]
        seed = int(sample.rng.integers(2**31 - 1))
        model = clone(self._two_way()).set_params(
            n_clusters=2, balance=balance, random_state=seed, n_jobs=self.n_jobs
        )
        partial = None
        classes = np.unique(known[known >= 0])
        if len(classes) > 1:
            means = np.stack([_mean(X[indices[known == c]]) for c in classes])
            partial = np.full(len(indices), -1)
            for label, side in zip(classes, two_groups(means, seed)):
                partial[known == label] = int(side > 0)
        part = self._part(X, sample, indices)
        model._validate_params()
        with warnings.catch_warnings():
            # One warning about all clusters follows when the fit is published.
            warnings.filterwarnings("ignore", "balance=")
            model._fit(part, sample.weights[indices], partial, watch=sample.watch)
        return model


@dataclass(frozen=True)
class SplitModels:
    """Feature map whose features are the scores of two-way models.

    Column j is half the lead of side 1 in split j, or -1 for a split without rows.
    """

    models: tuple
    own_rows: tuple
    pairwise: bool
    landmarks: tuple = ()
    scale: float = 1.0
    dtype: np.dtype = FLOAT64

    @property
    def rank(self) -> int:
        """Number of splits."""
        return len(self.models)

    def rows(self, X, n_jobs: int = 1) -> Rows:
        """Return the scores as Rows, computed tile by tile."""
        return Rows(X, n_jobs=n_jobs, features=self)

    def values(self, X, xp=np) -> np.ndarray:
        """Return the scores of a tile of raw rows."""
        scores = np.full((X.shape[0], len(self.models)), -1.0)
        for j, (model, own) in enumerate(zip(self.models, self.own_rows)):
            if model is not None:
                part = X[:, own] if self.pairwise else X
                both = model.decision_function(part)
                scores[:, j] = 0.5 * (both[:, 1] - both[:, 0])
        return scores


def _mean(X) -> np.ndarray:
    return np.asarray(X.mean(axis=0)).ravel()


def _spread(part, pairwise: bool) -> float:
    """Return the sum of squared distances to the mean, in feature space for a kernel matrix."""
    if pairwise:
        return float(np.trace(part) - part.mean() * len(part))
    mean = _mean(part)
    if sparse.issparse(part):
        return float(part.multiply(part).sum() - part.shape[0] * mean @ mean)
    return float(((part - mean) ** 2).sum())
