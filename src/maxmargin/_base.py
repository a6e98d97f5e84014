"""The one estimator class the methods share: validate, map, fit, predict.

A method's module gives ``_fit_rows``, which turns mapped rows into a :class:`Model`; everything a
user calls is written here, once.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from numbers import Integral, Real
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from scipy import sparse
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    TransformerMixin,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import (
    _check_sample_weight,
    check_is_fitted,
    validate_data,
)

from ._compat import (
    CallbackSupportMixin,
    FitWatch,
    Interval,
    StrOptions,
    progress_callbacks,
    with_callbacks,
)
from ._elsewhere import (
    lazy_rows,
    nameless,
    of_tensor,
    predicted_blocks,
    publish_apart,
    validated_blocks,
)
from .engine.blocks import RowBlocks, SchedulerLost, available_memory
from .engine.cluster import DaskBlocks, as_dask_array, is_dask, lazily, like_dask
from .engine.decisions import cluster_scores, counted, decide_block, exemplars, falling_sizes
from .engine.descent import CONVERGED, MAX_ITER
from .engine.device import (
    device_rows,
    is_tensor,
    like,
    place_of,
    to_host,
)
from .engine.device_passes import device_labels, device_margins
from .engine.features import (
    FLOAT32_ROWS,
    KERNELS,
    FeatureMap,
    check_magnitude,
    check_precomputed,
    feature_rank,
    fit_features,
    kernel_params,
)
from .engine.links import HEAVIEST, LIGHTEST, Links
from .engine.rows import BLOCK, Rows, run, scores
from .engine.samples import (
    MERGE_ROWS,
    Sample,
    count_distinct,
    count_distinct_blocks,
    linked_sample,
    make_sample,
)
from .engine.threads import one_thread

# Strengths of regularisers: beyond this range solutions are zero, or rounding decides.
STRENGTH = Interval(Real, 1e-12, 1e12, closed="both")

SHARED_CONSTRAINTS: dict[str, list] = {
    "n_clusters": [Interval(Integral, 1, None, closed="left")],
    "kernel": [StrOptions(set(KERNELS)), callable],
    "gamma": [StrOptions({"median"}), Interval(Real, 0, None, closed="neither"), None],
    "degree": [Interval(Real, 0, None, closed="left")],
    "coef0": [Interval(Real, None, None, closed="neither")],
    "n_components": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left"), None],
    "balance": [Interval(Real, 0, 1, closed="both")],
    "n_init": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
    "max_iter": [Interval(Integral, 1, None, closed="left")],
    "tol": [Interval(Real, 0, None, closed="left")],
    "warm_start": ["boolean"],
    "verbose": ["verbose"],
    "random_state": ["random_state"],
    "n_jobs": [None, Integral],
}

# Private attributes of scikit-learn, which are not of a fit: set_output, callbacks, routing.
FRAMEWORK = ("_skl", "_callback", "_parent_callback", "_metadata_request")


@dataclass(frozen=True)
class Model:
    """What a method returns: linear splits in feature space and how clusters follow from them.

    Attributes
    ----------
    coef, intercept : ndarray of shape (m, r) and (m,)
        One row per split.
    paths : ndarray of shape (k, m)
        Signs of the splits that lead to each cluster, 0 where a split does not matter. The score of
        a cluster is its smallest signed split score, so the cluster with the largest score is the
        one a walk down the tree ends in.
    """

    coef: np.ndarray
    intercept: np.ndarray
    paths: np.ndarray
    objective: float = 0.0
    history: list[float] = field(default_factory=list)
    n_iter: int = 0
    stop_reason: str = CONVERGED
    extras: dict[str, Any] = field(default_factory=dict)


@contextmanager
def earlier_fit_kept(estimator):
    """Put the fitted attributes back if the fit does not come to its end."""
    before = estimator.__dict__.copy()
    try:
        yield
    except BaseException as error:
        if isinstance(error, SchedulerLost) and error.found is not None:
            raise  # the model so far is there to go on from
        callbacks = {k: v for k, v in estimator.__dict__.items() if k.startswith("_callback")}
        to_teardown = estimator.__dict__.get("_skl_callbacks_to_teardown")
        estimator.__dict__.clear()
        estimator.__dict__.update(before | callbacks)
        if to_teardown is not None:
            estimator._skl_callbacks_to_teardown = to_teardown
        raise


def forget_fit(estimator) -> None:
    """Remove all that an earlier fit has set, public or private."""
    for name in list(vars(estimator)):
        if name.endswith("_") or (name.startswith("_") and not name.startswith(FRAMEWORK)):
            delattr(estimator, name)


class BaseMarginClustering(
    CallbackSupportMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    ClusterMixin,
    BaseEstimator,
):
    """Base of all margin clustering estimators; not for direct use.

    A method gives ``_fit_rows(rows, sample, fmap, rng, watch, warm) -> Model``, the clustering of
    mapped rows, and ``_decision_losses(decision)``, the loss of rows with given scores.
    """

    labels_: Any
    _takes_blocks = True  # whether rows may come in blocks, from a file or a dask array
    _fit_rows: Callable[..., Model]
    _decision_losses: Callable[[np.ndarray], np.ndarray]

    @with_callbacks
    def fit(self, X, y=None, *, sample_weight=None, partial_labels=None):
        """Find the clusters of X.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows to cluster, or the kernel between them for ``kernel="precomputed"``. A torch tensor
            or cupy array is worked on where it is, and ``labels_`` are there, too.
        y : ignored
        sample_weight : array-like of shape (n_samples,), optional
            A weight of 2 counts like the row given twice, 0 like the row left out. Other weights
            lie between 1e-9 and 1e9.
        partial_labels : array-like of shape (n_samples,), optional
            Known clusters, numbered from 0; -1 where unknown. They are kept, and the clusters are
            numbered accordingly.

        Returns
        -------
        self : estimator

        Notes
        -----
        Up to 10,000 rows, equal rows are merged and sorted, and the order of the rows does not
        matter. More rows are used in the order given, and another order may give other clusters.
        """
        with earlier_fit_kept(self), one_thread():
            self._validate_params()
            self._fit(X, sample_weight, partial_labels)
        return self

    def _fit(
        self, X, sample_weight, partial_labels, watch: FitWatch | None = None, constraints=None
    ) -> None:
        """Fit within a watch: that of a fit around this one, or a new one."""
        given, warm = X, self._warm_labels(X)
        forget_fit(self)
        X = self._validated(X, reset=True)
        weights = self._checked_weights(sample_weight, X)
        known = self._checked_partial_labels(partial_labels, X.shape[0])
        links = self._checked_links(constraints, X.shape[0], known)
        self._check_counts(X, weights)
        if self.verbose and not getattr(self, "_skl_callbacks", None):
            self.set_callbacks(*progress_callbacks())
            try:
                self._fit_validated(X, weights, known, links, warm, watch, place_of(given))
            finally:
                self.set_callbacks()
        else:
            self._fit_validated(X, weights, known, links, warm, watch, place_of(given))
        if is_tensor(given) and not is_tensor(self.labels_):
            self.labels_ = like(self.labels_, given)
        if is_dask(given) and not is_dask(self.labels_):
            self.labels_ = like_dask(self.labels_, given)

    def _fit_validated(self, X, weights, known, links, warm, watch, place=None) -> None:
        rng = self._generator()
        n_jobs = effective_n_jobs(self.n_jobs)
        merge = not self._pairwise and warm is None and self._mergeable()
        sample = replace(make_sample(X, weights, known, merge), place=place)
        if links is not None:
            sample = linked_sample(sample, links, weights, known)
        fmap, rows = self._fit_features(sample, rng, n_jobs)
        own = FitWatch(self) if watch is None else watch
        try:
            model = self._fit_rows(rows, sample, fmap, rng, own, warm)
        except SchedulerLost as lost:
            self._publish_checkpoint(lost, fmap)
            raise
        self._publish(model, fmap, rows, X, weights, known, n_jobs, sample)
        if watch is None:
            own.close()

    def _generator(self) -> np.random.Generator:
        return np.random.default_rng(check_random_state(self.random_state).randint(2**31 - 1))

    @property
    def _pairwise(self) -> bool:
        """Whether X is a kernel matrix."""
        return self.kernel == "precomputed"

    def _mergeable(self) -> bool:
        """Whether equal rows may be merged (not where the user gave something row by row)."""
        return True

    def _given_labels(self, sample: Sample, warm) -> np.ndarray | None:
        """Labels to start from, one per row of the sample: ``init`` or those of a warm start."""
        if isinstance(self.init, str):
            return None if warm is None else warm[sample.source]
        labels = np.asarray(to_host(self.init))
        if labels.shape != (sample.n_given,):
            raise ValueError(
                f"init must have one label for each of the {sample.n_given} rows of X, got an "
                f"array of shape {labels.shape}."
            )
        if labels.dtype == object or (labels.dtype.kind == "f" and not np.isfinite(labels).all()):
            raise ValueError("init must be labels: whole numbers or names, none of them missing.")
        names, places = np.unique(labels, return_inverse=True)
        if len(names) > self.n_clusters:
            raise ValueError(
                f"init has {len(names)} different labels, more than n_clusters={self.n_clusters}."
            )
        return places[sample.source]

    def _fit_features(self, sample: Sample, rng, n_jobs) -> tuple[FeatureMap, Rows]:
        params = kernel_params(sample.X, self.kernel, self.gamma, self.degree, self.coef0, rng)
        return fit_features(
            sample.X,
            sample.weights,
            kernel=self.kernel,
            params=params,
            n_components=self.n_components,
            rng=rng,
            n_jobs=n_jobs,
        )

    # -- checks ---------------------------------------------------------------------------------

    def _validated(self, X, reset: bool):
        if is_tensor(X):
            X = device_rows(X)
        if is_dask(X):
            names = tuple(getattr(X, "columns", ()))
            plain = len(names) == 0 or not all(isinstance(name, str) for name in names)
            X = DaskBlocks(as_dask_array(X, lengths=True), column_names=None if plain else names)
        if isinstance(X, RowBlocks):
            return validated_blocks(self, X, reset)
        with np.errstate(invalid="ignore"):  # the sum by which inf and NaN are found
            X = validate_data(
                self,
                X,
                reset=reset,
                accept_sparse="csr",
                dtype=[np.float64, np.float32],
                accept_large_sparse=True,
            )
        if sparse.issparse(X) and not (X.has_canonical_format and X.has_sorted_indices):
            X = X.copy()
            X.sum_duplicates()
        check_magnitude(X)
        if reset and self._pairwise:
            check_precomputed(X)
        return X

    def _checked_weights(self, sample_weight, X) -> np.ndarray | None:
        if sample_weight is None:
            return None
        weights = _check_sample_weight(np.asarray(to_host(sample_weight)), X, dtype=np.float64)
        if (weights < 0).any():
            raise ValueError(
                f"sample_weight must not be negative; row {int(np.argmin(weights))} has "
                f"{weights.min():g}."
            )
        if not (weights > 0).any():
            raise ValueError("sample_weight is zero everywhere; at least one row must count.")
        lightest, heaviest = weights[weights > 0].min(), weights.max()
        if lightest < LIGHTEST or heaviest > HEAVIEST:
            raise ValueError(
                f"sample_weight must be 0 or between {LIGHTEST:g} and {HEAVIEST:g}; got weights "
                f"from {lightest:g} to {heaviest:g}. Multiply all of them by a constant, or set "
                "the smallest to 0."
            )
        return weights

    def _checked_partial_labels(self, partial_labels, n: int) -> np.ndarray | None:
        if partial_labels is None:
            return None
        known = np.asarray(to_host(partial_labels))
        if known.shape != (n,):
            raise ValueError(f"partial_labels must have shape ({n},), got {known.shape}.")
        if known.dtype.kind == "b" or not np.array_equal(known, np.round(known.astype(float))):
            raise ValueError("partial_labels must be whole numbers, with -1 for unknown.")
        known = known.astype(np.int64)
        if known.min() < -1 or known.max() >= self.n_clusters:
            raise ValueError(
                f"partial_labels must lie between 0 and n_clusters - 1 = {self.n_clusters - 1}, "
                f"or be -1 for unknown; got values from {known.min()} to {known.max()}."
            )
        return known if (known >= 0).any() else None

    def _checked_links(self, constraints, n: int, known) -> Links | None:
        """Links between rows, for the methods that take them."""
        return None

    def _check_counts(self, X, weights) -> None:
        n = X.shape[0] if weights is None else int(np.count_nonzero(weights))
        k = self.n_clusters
        if n < k:
            raise ValueError(
                f"n_samples={n} should be >= n_clusters={k}: give more rows or fewer clusters."
            )
        if isinstance(X, RowBlocks):
            if not X.is_remote:
                self._check_memory(X.shape, in_blocks=True)
                self._check_distinct(count_distinct_blocks(X, k) if k > 1 else k)
            return
        rows = X if weights is None else X[np.flatnonzero(weights)]
        distinct = count_distinct(rows, k) if k > 1 else k
        self._check_distinct(distinct)
        self._check_memory(X.shape)

    def _check_distinct(self, distinct: int) -> None:
        k = self.n_clusters
        if distinct < k:
            raise ValueError(
                f"X has only {distinct} distinct row{'s' if distinct > 1 else ''}, fewer than "
                f"n_clusters={k}."
            )

    def _check_memory(self, shape: tuple[int, int], in_blocks: bool = False) -> None:
        needed, available = self.estimate_memory(*shape, in_blocks=in_blocks), available_memory()
        if needed > available:
            raise MemoryError(
                f"This fit needs about {needed / 2**30:.1f} GiB; {available / 2**30:.1f} GiB are "
                f"available. Lower n_components, pass float32, or fit on a sample of the rows and "
                "predict the rest."
            )

    def estimate_memory(self, n_samples: int, n_features: int, in_blocks: bool = False) -> int:
        """Peak memory in bytes that a fit needs beyond X itself.

        Parameters
        ----------
        n_samples, n_features : int
            Shape of X.
        in_blocks : bool, default=False
            Whether X is read block by block: then mapped rows are not kept.

        Examples
        --------
        >>> from maxmargin import AlternatingMarginClustering
        >>> AlternatingMarginClustering(n_components=128).estimate_memory(1_000_000, 20) / 2**30 < 1
        True
        """
        rank = feature_rank(n_samples, n_features, self.kernel, self.n_components)
        stored = 0 if self.kernel == "linear" and rank == n_features else n_samples * rank
        itemsize = 4 if n_samples > 100_000 else 8
        if in_blocks:
            stored = 0
        merged = n_samples * n_features * 8 if n_samples <= MERGE_ROWS else 0
        return int(stored * itemsize + merged + 12 * 8 * n_samples + 4 * 8 * rank**2)

    # -- results --------------------------------------------------------------------------------

    def _publish(self, model, fmap, rows, X, weights, known, n_jobs, sample) -> None:
        """Set the fitted attributes of a model on one feature map."""
        self._publish_model(model, fmap)
        if isinstance(X, RowBlocks) and X.is_remote:
            self._publish_apart(model, X, weights, known, sample, n_jobs)
            return
        labels, lead = self._training_decisions(X, rows, sample, n_jobs)
        self._publish_labels(model, labels, lead, X, weights, known, n_jobs)

    def _publish_model(self, model: Model, fmap) -> None:
        """Set what the predict path needs."""
        self.feature_scale_ = fmap.scale
        if fmap.landmarks is None:
            # coef_ and intercept_ of the linear kernel apply to raw rows.
            coef = model.coef * fmap.scale
            model = replace(model, coef=coef, intercept=model.intercept - coef @ fmap.offset)
            fmap = replace(fmap, scale=1.0)
        self.feature_map_ = fmap
        self.coef_, self.intercept_, self._paths = model.coef, model.intercept, model.paths

    def _publish_checkpoint(self, lost: SchedulerLost, fmap) -> None:
        """Set what predict needs, from the best model before the cluster went away."""
        if lost.found is None:
            return
        coef, intercept = lost.found
        model = Model(coef, intercept, np.eye(len(coef)))
        self._publish_model(model, fmap)
        lost.args = (
            f"{lost.args[0]} With warm_start=True the next fit goes on from the model found so "
            "far, which is kept in this estimator.",
        )

    def _publish_apart(self, model, X, weights, known, sample, n_jobs) -> None:
        """Set the fitted attributes where the rows are elsewhere."""
        publish_apart(self, model, X, weights, known, sample, n_jobs)

    def _training_decisions(self, X, rows: Rows, sample: Sample, n_jobs: int):
        """What the predict path gives for the rows of the fit: labels, and their leads.

        Mapped training rows are those that mapping X again would give.
        """
        mapped = self.feature_map_.landmarks is not None and rows.shape[0] == X.shape[0]
        reusable = sample.is_whole and mapped
        rows = rows if reusable else self.feature_map_.rows(X, n_jobs)
        single = rows.shape[0] > FLOAT32_ROWS
        made = (np.dtype(np.int32), np.dtype(np.float32 if single else np.float64))
        shared = self.coef_, self._levels(), self._paths
        (labels, lead), blocks = run(rows, decide_block, shared, (), made)
        for _ in blocks:
            pass
        return labels, lead

    def _publish_labels(self, model, labels, lead, X, weights, known, n_jobs) -> None:
        """Set what follows from the decisions of the predict path; clusters by falling size."""
        self._paths = model.paths
        order = np.arange(len(model.paths))
        if known is None:
            order = falling_sizes(labels, weights, len(order))
        self._renumber(order)
        renamed = np.argsort(order).astype(np.int32)
        self.labels_ = labels if known is None else labels.copy()
        for start in range(0, len(labels), BLOCK):  # all at once would copy the labels twice
            self.labels_[start : start + BLOCK] = renamed[labels[start : start + BLOCK]]
        # Of clusters with equal scores, predict takes the first by its new number.
        tied = np.flatnonzero(lead == 0.0)
        if tied.size and self.n_clusters > 1:
            margins = cluster_scores(self._split_scores(X[tied], n_jobs), self._paths)
            self.labels_[tied] = margins.argmax(axis=1)
        if known is not None:
            self.labels_[known >= 0] = known[known >= 0]
            lead = np.where((known >= 0) & (known != labels), -lead, lead)
        self.cluster_sizes_ = counted(self.labels_, weights, self.n_clusters)
        self._warn_about_empty_clusters()
        self.exemplar_indices_ = exemplars(lead, self.labels_, self.n_clusters)
        self._publish_run(model)

    def _warn_about_empty_clusters(self) -> None:
        if (self.cluster_sizes_ == 0).any():
            warnings.warn(
                f"{int((self.cluster_sizes_ == 0).sum())} of {self.n_clusters} clusters have no "
                "rows; raise balance to ask for a least size.",
                UserWarning,
                stacklevel=5,
            )

    def _publish_run(self, model: Model) -> None:
        """Set what is known of the way to the model."""
        self._n_features_out = self.n_clusters
        self.objective_ = float(model.objective)
        self.history_ = list(model.history)
        self.n_iter_ = model.n_iter
        self.stop_reason_ = model.stop_reason
        for name, value in model.extras.items():
            setattr(self, name, value)
        if model.stop_reason == MAX_ITER:
            warnings.warn(
                f"{type(self).__name__} stopped after max_iter iterations before the labels "
                "settled; raise max_iter or tol.",
                ConvergenceWarning,
                stacklevel=4,
            )

    def _renumber(self, order: np.ndarray) -> None:
        """Put the clusters in this order; two clusters of one split so that positive means 1."""
        k, n_splits = self._paths.shape
        if k == n_splits:
            # One score per cluster: its coefficients move along with its number.
            self.coef_, self.intercept_ = self.coef_[order], self.intercept_[order]
            return
        self._paths = self._paths[order]
        if hasattr(self, "coef_") and k == 2 and self._paths[0, 0] > 0:
            self._paths = -self._paths
            self.coef_, self.intercept_ = -self.coef_, -self.intercept_

    def _split_scores(self, X, n_jobs: int) -> np.ndarray:
        """Score of every row at every split, (n_samples, n_splits)."""
        fmap = self.feature_map_
        if self.coef_.shape[0] == 0:
            return np.zeros((X.shape[0], 0))
        return scores(fmap.rows(X, n_jobs), self.coef_) + self._levels()

    def _levels(self) -> np.ndarray:
        """What is added to the scores of centred rows.

        (x - o)'w + (b + o'w): far from the origin this keeps the digits that x'w + b loses.
        """
        fmap = self.feature_map_
        return self.intercept_ + (self.coef_ @ fmap.offset if fmap.landmarks is None else 0.0)

    def decision_function(self, X) -> np.ndarray:
        """Score of every row for every cluster, (n_samples, n_clusters).

        A row belongs to the cluster of its largest score; scores near +-1 are on the margin.
        """
        check_is_fitted(self)
        if is_dask(X):
            rows = lazy_rows(self, X)
            return lazily(nameless(self).decision_function, rows, self.n_clusters)
        if is_tensor(X):
            return of_tensor(self, X, self.decision_function, device_margins)
        X = self._validated(X, reset=False)
        with one_thread():
            split_scores = self._split_scores(X, effective_n_jobs(self.n_jobs))
        return cluster_scores(split_scores, self._paths)

    def predict(self, X) -> np.ndarray:
        """Cluster of every row: an array, or a dask array for a dask array."""
        check_is_fitted(self)
        if is_dask(X):
            return lazily(nameless(self).predict, lazy_rows(self, X))
        if is_tensor(X):
            return of_tensor(self, X, self.predict, device_labels)
        if isinstance(X, RowBlocks) and X.shape[0] > MERGE_ROWS:
            return predicted_blocks(self, self._validated(X, reset=False))
        return self.decision_function(X).argmax(axis=1).astype(np.int32)

    def transform(self, X) -> np.ndarray:
        """Scores of :meth:`decision_function` as new features."""
        return self.decision_function(X)

    def score(self, X, y=None) -> float:
        """Minus the mean loss of the rows, each counted for the cluster it is predicted in."""
        decision = to_host(self.decision_function(X))
        if is_dask(decision):
            return -float(lazily(self._decision_losses, decision, dtype=np.float64).mean())
        with np.errstate(over="ignore"):  # rows very far from those of the fit: minus infinity
            return -float(self._decision_losses(decision).mean())

    def _warm_labels(self, X) -> np.ndarray | None:
        """Labels of the previous fit's model on the new rows, for ``warm_start``."""
        if not self.warm_start or not hasattr(self, "_paths"):
            return None
        if self._paths.shape[0] != self.n_clusters:
            return None
        try:
            return np.asarray(to_host(self.predict(X)))
        except ValueError:  # rows of another kind: nothing to start from
            return None

    def __getstate__(self):
        """Labels that are on a cluster stay there: predict gives them again."""
        state = super().__getstate__()
        if is_tensor(state.get("labels_")):
            state = state | {"labels_": to_host(self.labels_)}
        if is_dask(state.get("labels_")):
            state = {name: value for name, value in state.items() if name != "labels_"}
        return state

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = self._pairwise
        tags.transformer_tags.preserves_dtype = []
        return tags
