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
from ._core.init import agreement, held_labels, kmeans_partition, nearness
from ._core.model import Model
from ._core.rows import Rows
from ._core.size_floor import size_floor
from ._core.tree import cluster_order, even_share, grow_tree, two_groups, worst_reason
from .alternating import AlternatingMarginClustering

FLOAT64 = np.dtype(np.float64)
FIRST_SPLITS = 2
SIZE_ENTROPY = 0.3  # of a split into two clusters: the default of the two-way estimator


class BisectingMarginClustering(BaseMarginClustering):
    """Hierarchical clustering by recursive splits with any two-way estimator of this package.

    Each split is a clone of ``estimator``, fitted on the rows of the cluster that it splits, with
    its own feature map.

    Parameters
    ----------
    n_clusters : int, default=2
        Number of clusters.
    estimator : estimator, default=None
        Two-way margin clustering; None means
        ``AlternatingMarginClustering(multi_class="joint")`` with a ``size_entropy`` of 0.3 times
        the number of clusters expected on the smaller side. If its ``balance`` is a number, every
        cluster has at least ``balance * n / n_clusters`` rows, as far as earlier splits allow it.
    split_by : {"objective", "scatter", "size"}, default="objective"
        Which cluster to split next. "scatter": the one with the largest sum of squared distances to
        its mean (in feature space if the kernel is "precomputed"). "objective": every cluster is
        split on trial, and the scatter is multiplied by one minus the mean loss of the split.
        "size": the one with the largest weight.
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
    objective_ : float
        Sum of the objectives of the splits, each times its share of the rows: the mean over the
        rows of the losses on their way from the root.
    compared_with_kmeans_ : dict
        "objective": the same sum if each split were the k-means partition of its rows into two,
        which ``objective_`` is not above; "ari": agreement of ``labels_`` with the k-means
        partition of all rows. Only if the splits have this attribute, too.
    history_ : list of float
        Objective of each split.

    See Also
    --------
    AlternatingMarginClustering : The default split.
    MaxMarginClustering : All clusters at once, with automatic settings.

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
    _merges_rows = False  # the splits do if they can
    _parameter_constraints: dict = {  # noqa: RUF012 - scikit-learn's convention
        **{
            name: SHARED_CONSTRAINTS[name]
            for name in ("n_clusters", "verbose", "random_state", "n_jobs")
        },
        "estimator": [BaseMarginClustering, None],
        "split_by": [StrOptions({"objective", "scatter", "size"})],
    }

    def __init__(
        self,
        n_clusters=2,
        *,
        estimator=None,
        split_by="objective",
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

    @property
    def _pairwise(self) -> bool:
        return self._two_way()._pairwise

    def _validate_params(self) -> None:
        super()._validate_params()
        self._two_way()._validate_params()

    def _two_way(self) -> BaseMarginClustering:
        if self.estimator is None:
            return AlternatingMarginClustering(multi_class="joint")
        return self.estimator

    def estimate_memory(self, n_samples: int, n_features: int, in_blocks: bool = False) -> int:
        two_way = self._two_way().estimate_memory(n_samples, n_features, in_blocks)
        return two_way + n_samples * n_features * 8

    def _decision_losses(self, decision):
        return self._two_way()._decision_losses(decision)

    def _fit_model(self, data: FitInput) -> Model:
        X, k = data.X.take(slice(None)), self.n_clusters
        found = Growth(self, X, data)
        kmeans = np.zeros(len(data.weights), np.int64)
        if k > 1:
            raw = Rows(X)
            kmeans = kmeans_partition(raw, data.weights, k, data.rng.spawn(1)[0])
            kmeans = held_labels(raw, kmeans, data.weights, data.known, k, 0.0)
        if k > 2 and "init" in self._two_way().get_params(deep=False):
            # The tree of the k-means clusters, whose splits start from them.
            found = min(found, Growth(self, X, data, kmeans), key=lambda grown: grown.objective)
        tree = found.tree
        models = [None if split is None else split[0] for split in tree.splits]
        splits = SplitModels(
            tuple(models),
            tuple(None if split is None else split[1] for split in tree.splits),
            self._pairwise,
        )
        fitted = [model for model in models if model is not None]
        extras: dict = {"splits_": models}
        if found.rival is not None:
            ari = agreement(tree.leaves, kmeans, k)
            extras["compared_with_kmeans_"] = {"objective": found.rival, "ari": ari}
        reason = getattr(data.watch, "reason", None)
        return Model(
            features=splits,
            coef=np.eye(len(models)),
            intercept=np.zeros(len(models)),
            paths=tree.paths[cluster_order(tree.leaves, data, k)],
            objective=found.objective,
            history=[model.objective_ for model in fitted],
            n_iter=len(fitted),
            stop_reason=reason or worst_reason([m.stop_reason_ for m in fitted]),
            balance=found.balance,
            extras=extras,
        )


class Growth:
    """A tree, whose splits start from clusters to be told apart (``aim``) if given.

    A split of the tree belongs to the aimed-at clusters that have most of their rows in it.
    ``objective`` is that of the tree, ``rival`` that of two-way k-means partitions of the same
    rows, None if the splits do not tell.
    """

    def __init__(self, owner: BisectingMarginClustering, X, sample: FitInput, aim=None):
        self.owner, self.X, self.sample, self.aim = owner, X, sample, aim
        self.k, self.weights, self.total = owner.n_clusters, sample.weights, sample.weights.sum()
        balance = owner._two_way().balance
        self.balance = 0.0 if balance == "auto" else balance  # splits have their own
        floor = size_floor(self.balance, self.total, self.k, sample.whole)
        self.trials: dict = {}
        self.count = 0
        self.tree = grow_tree(sample, self.k, floor, self.split, self.spread, self.priority)
        objective, rival = 0.0, 0.0
        for model, rows in filter(None, self.tree.splits):
            share = self.weights[np.isin(sample.source, rows)].sum() / self.total
            objective += share * model.objective_
            compared = getattr(model, "compared_with_kmeans_", {"objective": np.nan})
            rival += share * compared["objective"]
        self.objective = float(objective)
        self.rival = None if np.isnan(rival) else float(rival)

    def split(self, indices, clusters):
        """Return the sides of some rows, the model and the rows it was fitted on."""
        self.count += 1
        model = self.trials.pop(indices.tobytes(), None) or self.fitted(indices)
        return np.where(model.labels_ > 0, 1, -1), (model, self.sample.source[indices])

    def priority(self, indices, room: int) -> float:
        """Return a number that is largest for the cluster to split next."""
        if len(self.aims(indices)) > 1:
            return np.inf
        split_by = self.owner.split_by
        if split_by == "size":
            return self.weights[indices].sum()
        spread = self.spread(indices)
        known = self.aim is not None or split_by == "scatter" or self.count == self.k - 1
        if known or room < 2:
            return spread
        model = self.trials[indices.tobytes()] = self.fitted(indices)
        return spread * (1.0 + model.score(self.part(indices)))

    def spread(self, indices) -> float:
        """Return the sum of squared distances to the mean, of a kernel matrix in feature space."""
        part = self.part(indices)
        if self.owner._pairwise:
            return float(np.trace(part) - part.mean() * len(part))
        mean = _mean(part)
        if sparse.issparse(part):
            return float(part.multiply(part).sum() - part.shape[0] * mean @ mean)
        return float(((part - mean) ** 2).sum())

    def aims(self, indices) -> np.ndarray:
        """Return the aimed-at clusters that have most of their rows among these."""
        if self.aim is None:
            return np.zeros(0, np.int64)
        inside, all_rows = (np.bincount(c, minlength=self.k) for c in (self.aim[indices], self.aim))
        return np.flatnonzero(2 * inside > all_rows)

    def start(self, indices) -> np.ndarray | None:
        """Return the sides of the aimed-at clusters, if there are two or more."""
        names, aim = self.aims(indices), self.aim
        if len(names) < 2:
            return None
        centres = np.stack([_mean(self.X[aim == name]) for name in names])
        near = nearness(Rows(self.X[indices]), centres).argmax(axis=1)
        mine = np.searchsorted(names, aim[indices]).clip(max=len(names) - 1)
        near = np.where(names[mine] == aim[indices], mine, near)
        return (two_groups(centres, 0)[near] > 0).astype(np.int64)

    def fitted(self, indices) -> BaseMarginClustering:
        """Return the split of some rows."""
        share = self.weights[indices].sum() / self.total
        # The minimum size of the smaller side, as the balance of the two-way estimator.
        side = max(even_share(share, self.k), 1.0 / self.k)
        balance = min(1.0, 2.0 * self.balance * side / share)
        start, clusters = self.start(indices), max(1, round(share * self.k) // 2)
        # Every other split depends on the first: its search is repeated. An estimator that is
        # given has its own n_init.
        first = len(indices) == len(self.weights) and start is None and self.owner.estimator is None
        times = FIRST_SPLITS if first else 1
        found = [self.fit_split(indices, balance, start, clusters) for _ in range(times)]
        return min(found, key=lambda model: model.objective_)

    def part(self, indices):
        """Return some rows; for a kernel matrix, also only their columns."""
        if not self.owner._pairwise:
            return self.X[indices]
        return self.X[np.ix_(indices, self.sample.source[indices])]

    def fit_split(self, indices, balance: float, start, clusters: int) -> BaseMarginClustering:
        """Fit the two-way estimator on some rows."""
        sample, owner = self.sample, self.owner
        seed = int(sample.rng.integers(2**31 - 1))
        model = clone(owner._two_way()).set_params(
            n_clusters=2, random_state=seed, n_jobs=owner.n_jobs
        )
        if model.balance != "auto":
            model.set_params(balance=balance)
        if owner.estimator is None:
            # The sizes of several clusters together vary less than that of one.
            model.set_params(size_entropy=SIZE_ENTROPY * clusters)
        if start is not None and start.min() < start.max():
            model.set_params(init=start)
        known, partial = sample.known[indices], None
        classes = np.unique(known[known >= 0])
        if len(classes) > 1:
            means = np.stack([_mean(self.X[indices[known == c]]) for c in classes])
            partial = np.full(len(indices), -1)
            for label, side in zip(classes, two_groups(means, seed)):
                partial[known == label] = int(side > 0)
        model._validate_params()
        with warnings.catch_warnings():
            # One warning about all clusters follows when the fit is published.
            warnings.filterwarnings("ignore", "balance=")
            model._fit(self.part(indices), sample.weights[indices], partial, watch=sample.watch)
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
