"""The base class of all estimators.

    fit:  validate -> RowSource -> FitInput -> _fit_model() -> Model -> publish

A method implements ``_fit_model``; the public methods are implemented here. Fitted attributes are
set only after a successful fit, so a fit that fails or is interrupted keeps the previous ones.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import partial
from numbers import Integral, Real
from typing import Any, Self

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
from sklearn.utils.validation import check_is_fitted, validate_data

from ._callbacks import (
    CallbackSupportMixin,
    FitWatch,
    Interval,
    StrOptions,
    progress_callbacks,
    with_callbacks,
)
from ._core.dedup import (
    MERGE_ROWS,
    FitInput,
    check_columns,
    check_no_labels,
    checked_initial_labels,
    checked_partial_labels,
    checked_weights,
    count_distinct,
    make_input,
    with_links,
)
from ._core.descent import MAX_ITER
from ._core.features import FeatureMap, feature_rank, fit_features
from ._core.init import fit_with_known
from ._core.kernels import KERNELS, check_precomputed, kernel_params
from ._core.model import (
    Model,
    host_labels,
    label_block,
    lead_losses,
    loss_block,
    margin_block,
    published,
)
from ._core.rows import Rows
from ._data import row_source, to_host
from ._data.source import (
    MemoryRows,
    RowSource,
    SchedulerLost,
    check_magnitude,
    raise_with_hint,
)
from ._data.source import available_memory as available_memory  # for the command line, too
from ._threads import one_thread

# Regularisation strengths: outside this range solutions are zero or dominated by rounding errors.
STRENGTH = Interval(Real, 1e-12, 1e12, closed="both")

THREADED_ROWS = 500  # fits of fewer rows take longer on several threads: steps last microseconds

COUNT = Interval(Integral, 1, None, closed="left")
POSITIVE = Interval(Real, 0, None, closed="neither")

SHARED_CONSTRAINTS: dict[str, list[Any]] = {
    "n_clusters": [COUNT],
    "kernel": [StrOptions(set(KERNELS)), callable],
    "gamma": [StrOptions({"median", "half-median"}), POSITIVE, None],
    "degree": [Interval(Real, 0, None, closed="left")],
    "coef0": [Interval(Real, None, None, closed="neither")],
    "n_components": [StrOptions({"auto"}), COUNT, None],
    "balance": [Interval(Real, 0, 1, closed="both")],
    "n_init": [StrOptions({"auto"}), COUNT],
    "max_iter": [COUNT],
    "tol": [Interval(Real, 0, None, closed="left")],
    "warm_start": ["boolean"],
    "verbose": ["verbose"],
    "random_state": ["random_state"],
    "n_jobs": [None, COUNT, Interval(Integral, None, -1, closed="right")],
}

# Private attributes of scikit-learn that a fit does not set: set_output, callbacks, routing.
FRAMEWORK = ("_skl", "_callback", "_parent_callback", "_metadata_request")


class BaseMarginClustering(
    CallbackSupportMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    ClusterMixin,
    BaseEstimator,
):
    """Base class of all margin clustering estimators; not for direct use.

    A method implements ``_fit_model(data: FitInput) -> Model``.
    """

    labels_: Any
    warm_start = False
    init: Any = "auto"
    _depends_on_starts = True  # so that known labels could lead to a higher objective
    _takes_blocks = True  # whether rows may be in a file, on a cluster or on a device
    _merges_rows = True  # whether equal rows are merged into one of their total weight
    _on_host = False  # whether rows on a device are copied to the host
    # Methods that only some estimators have: the links of constraints between n rows, and fitted
    # attributes that follow from the final labels.
    _checked_links: Any = None
    _label_attributes: Any = None

    def _fit_model(self, data: FitInput) -> Model:
        """Cluster the rows; set nothing on the estimator."""
        raise NotImplementedError

    def _decision_losses(self, decision: np.ndarray) -> np.ndarray:
        """Return the loss of rows with these scores; here the hinge loss of their leads."""
        return lead_losses(decision)

    @with_callbacks
    def fit(
        self, X: Any, y: Any = None, *, sample_weight: Any = None, partial_labels: Any = None
    ) -> Self:
        """Find the clusters of X.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows to cluster, or a kernel matrix if ``kernel="precomputed"``. Also rows of a file
            (:func:`open_rows`), a dask array or dataframe, a torch tensor or a cupy array;
            ``labels_`` then has the same type.
        y : ignored
            Not used.
        sample_weight : array-like of shape (n_samples,), optional
            Zero, or from 1e-12 to 1e12. A weight of 2 is equivalent to the same row given twice.
        partial_labels : array-like of shape (n_samples,), optional
            Known clusters: numbers from 0, or names; -1, '' or NaN if unknown. They do not change,
            and clusters are numbered accordingly. Names are numbered in alphabetical order, and
            ``known_names_`` has them.

        Returns
        -------
        self : estimator
            The fitted estimator.

        Notes
        -----
        Up to 10,000 rows, the result does not depend on the order of the rows, because equal rows
        are merged and sorted. For more rows it can depend on the order.
        """
        self._validate_params()
        check_no_labels(y, self.n_clusters)
        return self._fit(X, sample_weight, partial_labels)

    def _fit(
        self,
        X: Any,
        sample_weight: Any = None,
        partial_labels: Any = None,
        constraints: Any = None,
        watch: Any = None,
    ) -> Self:
        """Fit with parameters that have been validated."""
        checked = object.__new__(type(self))  # validated attributes are published with the model
        checked.__dict__.update(self.__dict__, known_names_=None)
        source = checked._source(X, reset=True)
        n, k, weights, known = source.shape[0], self.n_clusters, None, None
        if sample_weight is not None:
            weights = checked_weights(host_labels(sample_weight), n)
        if partial_labels is not None:
            known, checked.known_names_ = checked_partial_labels(host_labels(partial_labels), n, k)
        links = self._checked_links and self._checked_links(constraints, n, known)
        rows = source
        if type(source) is not MemoryRows and (source.in_memory or n <= MERGE_ROWS):
            rows = MemoryRows(source.take(slice(None)))  # so that equal ones can be merged
            check_magnitude(rows.X)
        self._check_counts(rows, weights)
        bars = self.verbose and not getattr(self, "_skl_callbacks", None)
        if bars:
            self.set_callbacks(*progress_callbacks())
        own = FitWatch(self) if watch is None and getattr(self, "_skl_callbacks", None) else None
        try:
            # The last digits depend on the number of BLAS threads; we parallelise over blocks.
            with one_thread():
                warm = self._warm_labels(X) if self.warm_start else None
                named = isinstance(self.init, str)  # else equal rows can have different labels
                merge = self._merges_rows and not self._pairwise and named and warm is None
                data = make_input(rows, weights, known, merge)
                if self._pairwise and self._merges_rows:
                    data.check_kernels()
                if links is not None:
                    data = with_links(data, links, weights, known)
                initial = None if warm is None else warm[data.source]
                if not named:
                    initial = checked_initial_labels(host_labels(self.init), n, k)[data.source]
                data = replace(
                    data,
                    initial=initial,
                    rng=self._generator(),
                    n_jobs=effective_n_jobs(self.n_jobs) if n >= THREADED_ROWS else 1,
                    watch=own or watch or data.watch,
                    names=getattr(checked, "feature_names_in_", None),
                    constraints=constraints,
                    n_known=0 if known is None else int(known.max()) + 1,
                )
                if known is None or not self._depends_on_starts:
                    model = self._fit_model(data)
                else:
                    model = fit_with_known(self._fit_model, data, k)
                self._publish(model, data, source, rows, weights, known, checked)
        except SchedulerLost as lost:
            self._keep_checkpoint(lost, checked)
            raise
        except SystemError as error:  # Ctrl-C while numba calls Python from C is its cause
            if isinstance(error.__cause__, KeyboardInterrupt):
                raise KeyboardInterrupt from None
            raise
        finally:
            if bars:
                self.set_callbacks()
        if own is not None:
            own.close()
        return self

    def _features(self, data: FitInput, **options: Any) -> tuple[FeatureMap, Rows]:
        """Return the feature map of the kernel parameters, and the mapped rows."""
        kernel = options.pop("kernel", self.kernel)
        return fit_features(
            data.X,
            data.weights,
            kernel=kernel,
            params=kernel_params(
                data.X, kernel, self.gamma, self.degree, self.coef0, data.rng, data.n_jobs
            ),
            n_components=self.n_components,
            rng=data.rng,
            n_jobs=data.n_jobs,
            **options,
        )

    def _generator(self) -> np.random.Generator:
        return np.random.default_rng(check_random_state(self.random_state).randint(2**31 - 1))

    @property
    def _pairwise(self) -> bool:
        """Whether X is a kernel matrix."""
        return isinstance(self.kernel, str) and self.kernel == "precomputed"

    def _warm_labels(self, X: Any) -> np.ndarray | None:
        """Return the labels that the previous fit's model gives, for ``warm_start``."""
        if not hasattr(self, "_paths") or self._paths.shape[0] != self.n_clusters:
            return None
        try:
            return host_labels(self.predict(X))
        except ValueError:  # X does not fit the previous model
            return None

    # -- checks ---------------------------------------------------------------------------------

    def _source(self, X: Any, reset: bool) -> Any:
        """Return X as a RowSource; the only function that checks the type of X."""
        source: Any = None if isinstance(X, np.ndarray) else row_source(X, lazy=not reset)
        if self._on_host and hasattr(source, "on_host"):
            source = source.on_host()
        if source is None or source.in_memory:
            given = X if source is None else source.take(slice(None))
            try:
                X = validate_data(
                    self, given, reset=reset, accept_sparse="csr", accept_large_sparse=True,
                    dtype=[np.float64, np.float32], ensure_all_finite=False,
                )  # fmt: skip
                check_magnitude(X, effective_n_jobs(self.n_jobs))
            except (ValueError, TypeError) as error:
                raise_with_hint(error, given, "table_pipeline(X, estimator).fit(X)")
            if sparse.issparse(X) and not (X.has_canonical_format and X.has_sorted_indices):
                X = X.copy()
                X.sum_duplicates()
            if reset and self._pairwise:
                check_precomputed(X)
            return MemoryRows(X) if source is None else source.replaced(X)
        if reset and (self._pairwise or not self._takes_blocks):
            what = "kernel='precomputed'" if self._takes_blocks else type(self).__name__
            raise ValueError(
                f"{what} needs all rows in memory as an array, got {type(source).__name__}. Pass "
                "an array, or fit a sample of the rows and predict the rest."
            )
        check_columns(self, source, reset)
        return source

    def _check_counts(self, X: RowSource, weights: np.ndarray | None) -> None:
        n = X.shape[0] if weights is None else int(np.count_nonzero(weights))
        k = self.n_clusters or 1  # None: to be chosen
        if n < k:
            raise ValueError(
                f"n_samples={n} should be >= n_clusters={k}: use more rows or fewer clusters."
            )
        most = getattr(self, "max_samples", None)
        if isinstance(most, Integral) and most < min(k, n):
            raise ValueError(f"max_samples={most} is less than n_clusters={k}.")
        needed = self.estimate_memory(*X.shape, in_blocks=not X.in_memory)
        available = available_memory() if X.local else np.inf
        if needed > available:
            raise MemoryError(
                f"This fit needs about {needed / 2**30:.1f} GiB; {available / 2**30:.1f} GiB are "
                "available. Pass float32, or fit on a sample of the rows and predict the rest."
            )
        if k > 1 and X.local:
            distinct = count_distinct(X, k, None if weights is None else np.flatnonzero(weights))
            if distinct < k:
                raise ValueError(
                    f"X has only {distinct} distinct row{'s' if distinct > 1 else ''}, fewer than "
                    f"n_clusters={k}."
                )

    def estimate_memory(self, n_samples: int, n_features: int, in_blocks: bool = False) -> int:
        """Return the peak memory in bytes that a fit needs beyond X itself.

        Parameters
        ----------
        n_samples, n_features : int
            Shape of X.
        in_blocks : bool, default=False
            Whether X is read block by block; mapped rows are then not stored.

        Returns
        -------
        int
            Bytes.
        """
        rank = feature_rank(n_samples, n_features, self.kernel, self.n_components)
        none_stored = in_blocks or (self.kernel == "linear" and rank == n_features)
        stored, itemsize = 0 if none_stored else n_samples * rank, 4 if n_samples > 100_000 else 8
        merged = n_samples * n_features * 8 if n_samples <= MERGE_ROWS else 0
        return int(stored * itemsize + merged + 12 * 8 * n_samples + 4 * 8 * rank**2)

    # -- results --------------------------------------------------------------------------------

    def _publish(
        self,
        model: Model,
        data: FitInput,
        source: Any,
        rows: RowSource,
        weights: np.ndarray | None,
        known: np.ndarray | None,
        checked: Any,
    ) -> None:
        """Set the fitted attributes; no other function does."""
        scale = model.features.scale
        found, model = published(model.in_raw_rows(), rows, weights, known, data.n_jobs)
        sizes = found.sizes if weights is not None else found.sizes.astype(np.int64)
        lightest, entropy = data.weights.min(), hasattr(self, "size_entropy")
        on_floor, told = model.sizes_told(sizes, lightest, data.whole, entropy)
        attributes = {
            **self._predict_attributes(model, scale, checked),
            "labels_": found.labels if rows is source else source.like(found.labels),
            "cluster_sizes_": sizes,
            "exemplar_indices_": found.exemplars,
            "clusters_on_floor_": on_floor,
            "objective_": float(model.objective),
            "history_": list(model.history),
            "n_iter_": model.n_iter,
            "stop_reason_": model.stop_reason,
            **model.extras,
        }
        if self._label_attributes is not None:
            attributes |= self._label_attributes(attributes["labels_"], found, rows, data, model)
        if told is not None:
            warnings.warn(told, UserWarning, stacklevel=5)
        if model.stop_reason == MAX_ITER:
            warnings.warn(
                f"{type(self).__name__} did not converge within max_iter iterations; raise "
                "max_iter or tol.",
                ConvergenceWarning,
                stacklevel=5,
            )
        for name in list(vars(self)):  # what an earlier fit has set
            if name.endswith("_") or (name.startswith("_") and not name.startswith(FRAMEWORK)):
                delattr(self, name)
        self.__dict__.update(attributes)

    def _predict_attributes(self, model: Model, scale: float, checked: Any) -> dict[str, Any]:
        """Return the fitted attributes that prediction needs, by name."""
        names, given = ("n_features_in_", "feature_names_in_", "known_names_"), vars(checked)
        return {
            **{name: given[name] for name in names if given.get(name) is not None},
            "feature_map_": model.features,
            "feature_scale_": scale,
            "coef_": model.coef,
            "intercept_": model.intercept,
            "_paths": model.paths,
            "_n_features_out": len(model.paths),
        }

    def _keep_checkpoint(self, lost: SchedulerLost, checked: Any) -> None:
        """Keep the best model found before the dask cluster was lost, for a warm start."""
        if lost.found is None:
            return
        model = Model(*lost.found, np.eye(len(lost.found[1])))
        scale = model.features.scale
        self.__dict__.update(self._predict_attributes(model.in_raw_rows(), scale, checked))
        lost.args = (
            f"{lost.args[0]} The best model so far is kept in this estimator: with "
            "warm_start=True the next fit continues from it.",
        )

    # -- prediction -----------------------------------------------------------------------------

    def _mapped(self, X: Any, function: Any, width: int | None = None) -> Any:
        """Apply a block function to every row of X; the result has the type of X."""
        check_is_fitted(self)
        source = self._source(X, reset=False)
        view = self.feature_map_.rows(source, effective_n_jobs(self.n_jobs)).block
        model = Model(self.feature_map_, self.coef_, self.intercept_, self._paths)
        with one_thread():
            return source.map(function, view, model.shared(), width)

    def decision_function(self, X: Any) -> Any:
        """Return the score of every row for every cluster.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows, of any type that ``fit`` accepts.

        Returns
        -------
        ndarray of shape (n_samples, n_clusters)
            A row belongs to the cluster with the largest score; scores of +-1 are on the margin. A
            dask array or tensor if X is one.
        """
        return self._mapped(X, margin_block, len(getattr(self, "_paths", ())))

    def predict(self, X: Any) -> Any:
        """Return the cluster of every row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows, of any type that ``fit`` accepts.

        Returns
        -------
        ndarray of shape (n_samples,)
            Cluster numbers. A dask array or tensor if X is one.
        """
        return self._mapped(X, label_block)

    def transform(self, X: Any) -> Any:
        """Return the scores of :meth:`decision_function` as new features.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_clusters)
            Scores.
        """
        return self.decision_function(X)

    def score(self, X: Any, y: Any = None) -> float:
        """Return minus the mean loss of the rows.

        Do not compare numbers of clusters by it: use :func:`maxmargin.choose_n_clusters`, or, with
        known classes, ``scoring="adjusted_rand_score"``.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows; losses are those of the predicted clusters.
        y : ignored
            Not used.

        Returns
        -------
        float
            Minus the mean loss.
        """
        losses = partial(loss_block, losses=self._decision_losses)
        with np.errstate(over="ignore"):  # minus infinity for rows very far from the training rows
            return -float(self._mapped(X, losses, 1).mean())

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without labels on a dask cluster: predict computes them again."""
        state: dict[str, Any] = super().__getstate__()
        labels = to_host(state.get("labels_"))
        if labels is not None and not isinstance(labels, np.ndarray):
            return {name: value for name, value in state.items() if name != "labels_"}
        return state | {"labels_": labels} if "labels_" in state else state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = self._pairwise
        tags.transformer_tags.preserves_dtype = []
        return tags
