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

from ._callbacks import (
    CallbackSupportMixin,
    FitWatch,
    Interval,
    StrOptions,
    progress_callbacks,
    with_callbacks,
)
from ._core.dedup import MERGE_ROWS, FitInput, count_distinct, make_input, with_links
from ._core.descent import MAX_ITER
from ._core.features import (
    KERNELS,
    check_magnitude,
    check_precomputed,
    feature_rank,
    fit_features,
    kernel_params,
)
from ._core.links import HEAVIEST, LIGHTEST, Links
from ._core.model import Decided, Model, cluster_numbers, label_block, margin_block, trained
from ._core.size_floor import size_floor
from ._data import row_source
from ._data.source import MemoryRows, RowSource, SchedulerLost, available_memory
from ._data.torch import to_host
from ._threads import one_thread

# Regularisation strengths: outside this range solutions are zero or dominated by rounding errors.
STRENGTH = Interval(Real, 1e-12, 1e12, closed="both")

SHARED_CONSTRAINTS: dict[str, list] = {
    "n_clusters": [Interval(Integral, 1, None, closed="left")],
    "kernel": [StrOptions(set(KERNELS)), callable],
    "gamma": [
        StrOptions({"median", "half-median"}),
        Interval(Real, 0, None, closed="neither"),
        None,
    ],
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

# Private attributes of scikit-learn that a fit does not set: set_output, callbacks, routing.
FRAMEWORK = ("_skl", "_callback", "_parent_callback", "_metadata_request")


def host_labels(labels) -> np.ndarray:
    """Return labels as a numpy array."""
    return np.asarray(to_host(labels))


def loss_block(block, parts, coef, levels, paths, *, losses):
    """Block function: the loss of every row for its predicted cluster."""
    margins = to_host(margin_block(block, parts, coef, levels, paths)[1])
    return (), block.send(losses(margins)[:, None], block.xp.float64)


class BaseMarginClustering(
    CallbackSupportMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    ClusterMixin,
    BaseEstimator,
):
    """Base class of all margin clustering estimators; not for direct use.

    A method implements ``_fit_model(data: FitInput) -> Model`` and ``_decision_losses(decision)``,
    the losses of rows with given scores.
    """

    labels_: Any
    warm_start = False
    init: Any = "auto"
    _takes_blocks = True  # whether rows may be in a file, on a cluster or on a device

    def _fit_model(self, data: FitInput) -> Model:
        """Cluster the rows; set nothing on the estimator."""
        raise NotImplementedError

    def _decision_losses(self, decision: np.ndarray) -> np.ndarray:
        """Return the loss of rows with these scores."""
        raise NotImplementedError

    @with_callbacks
    def fit(self, X, y=None, *, sample_weight=None, partial_labels=None):
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
            Known clusters, numbered from 0; -1 if unknown. Known labels do not change, and clusters
            are numbered accordingly.

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
        return self._fit(X, sample_weight, partial_labels)

    def _fit(self, X, sample_weight=None, partial_labels=None, constraints=None, watch=None):
        """Fit with parameters that have been validated."""
        checked = object.__new__(type(self))  # validated attributes are published with the model
        checked.__dict__.update(self.__dict__)
        source = checked._source(X, reset=True)
        n = source.shape[0]
        weights = None if sample_weight is None else self._checked_weights(sample_weight, n)
        known = None if partial_labels is None else self._checked_partial_labels(partial_labels, n)
        links = self._checked_links(constraints, n, known)
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
                merge = not self._pairwise and warm is None and self._mergeable()
                data = make_input(rows, weights, known, merge)
                if links is not None:
                    data = with_links(data, links, weights, known)
                initial = None if warm is None else warm[data.source]
                if not isinstance(self.init, str):
                    initial = self._initial_labels(n)[data.source]
                data = replace(
                    data,
                    initial=initial,
                    rng=self._generator(),
                    n_jobs=effective_n_jobs(self.n_jobs),
                    watch=own or watch or data.watch,
                    names=getattr(checked, "feature_names_in_", None),
                    constraints=constraints,
                )
                model = self._fit_model(data)
                self._publish(model, data, source, rows, weights, known, checked)
        except SchedulerLost as lost:
            self._keep_checkpoint(lost, checked)
            raise
        finally:
            if bars:
                self.set_callbacks()
        if own is not None:
            own.close()
        return self

    def _features(self, data: FitInput, **options):
        """Return the feature map of the kernel parameters, and the mapped rows."""
        kernel = options.pop("kernel", self.kernel)
        given = kernel, self.gamma, self.degree, self.coef0
        return fit_features(
            data.X,
            data.weights,
            kernel=kernel,
            params=kernel_params(data.X, *given, data.rng),
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

    def _mergeable(self) -> bool:
        """Whether equal rows may be merged: not if the user gave initial labels."""
        return isinstance(self.init, str)

    def _initial_labels(self, n: int) -> np.ndarray:
        """Return the labels that the user gave as ``init``, from 0."""
        labels = np.asarray(to_host(self.init))
        if labels.shape != (n,):
            raise ValueError(
                f"init must have one label for each of the {n} rows of X, got an array of shape "
                f"{labels.shape}."
            )
        if labels.dtype == object or (labels.dtype.kind == "f" and not np.isfinite(labels).all()):
            raise ValueError("init must be labels: integers or strings, without missing values.")
        names, places = np.unique(labels, return_inverse=True)
        if len(names) > self.n_clusters:
            raise ValueError(
                f"init has {len(names)} different labels, more than n_clusters={self.n_clusters}."
            )
        return places

    def _warm_labels(self, X) -> np.ndarray | None:
        """Return the labels that the previous fit's model gives, for ``warm_start``."""
        if not hasattr(self, "_paths") or self._paths.shape[0] != self.n_clusters:
            return None
        try:
            return np.asarray(to_host(self.predict(X)))
        except ValueError:  # X does not fit the previous model
            return None

    # -- checks ---------------------------------------------------------------------------------

    def _source(self, X, reset: bool) -> Any:
        """Return X as a RowSource; the only function that checks the type of X."""
        source = None if isinstance(X, np.ndarray) else row_source(X, lazy=not reset)
        if source is None or source.in_memory:
            with np.errstate(invalid="ignore"):  # the sum that detects inf and NaN
                X = validate_data(
                    self,
                    X if source is None else source.take(slice(None)),
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
            return MemoryRows(X) if source is None else source.replaced(X)
        self._check_source(source, reset)
        return source

    def _check_source(self, source, reset: bool) -> None:
        """Check rows that are not an array: type, shape, column names, values."""
        if reset and (self._pairwise or not self._takes_blocks):
            what = "kernel='precomputed'" if self._takes_blocks else type(self).__name__
            raise ValueError(
                f"{what} needs all rows in memory as an array, got {type(source).__name__}. Pass "
                "an array, or fit a sample of the rows and predict the rest."
            )
        if source.shape[0] == 0 or source.shape[1] == 0:
            raise ValueError(
                f"Found array with {source.shape[0]} sample(s) and {source.shape[1]} feature(s) "
                f"(shape={source.shape}) while a minimum of 1 is required."
            )
        names, here = getattr(self, "feature_names_in_", None), source.column_names
        if reset:
            self.n_features_in_ = source.shape[1]
            self.__dict__.pop("feature_names_in_", None)
            if here is not None:
                self.feature_names_in_ = np.asarray(here, object)
        elif source.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has {source.shape[1]} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input."
            )
        elif names is not None and here is not None and list(names) != list(here):
            raise ValueError(
                "The feature names should match those that were passed during fit, in the same "
                f"order. Expected {', '.join(map(str, names[:8]))}; got {', '.join(here[:8])}."
            )
        if isinstance(source, RowSource):
            source.check()

    def _checked_weights(self, sample_weight, n: int) -> np.ndarray:
        probe = np.broadcast_to(0.0, n)
        weights = _check_sample_weight(np.asarray(to_host(sample_weight)), probe, dtype=np.float64)
        if (weights < 0).any():
            raise ValueError(
                f"sample_weight must not be negative; row {int(np.argmin(weights))} has "
                f"{weights.min():g}."
            )
        if not (weights > 0).any():
            raise ValueError("sample_weight is zero for all rows; at least one must be positive.")
        lightest, heaviest = weights[weights > 0].min(), weights.max()
        if lightest < LIGHTEST or heaviest > HEAVIEST:
            raise ValueError(
                f"sample_weight must be 0 or between {LIGHTEST:g} and {HEAVIEST:g}; got weights "
                f"from {lightest:g} to {heaviest:g}. Multiply all of them by a constant, or set "
                "the smallest to 0."
            )
        return weights

    def _checked_partial_labels(self, partial_labels, n: int) -> np.ndarray | None:
        known = np.asarray(to_host(partial_labels))
        if known.shape != (n,):
            raise ValueError(f"partial_labels must have shape ({n},), got {known.shape}.")
        if known.dtype.kind == "b" or not np.array_equal(known, np.round(known.astype(float))):
            raise ValueError("partial_labels must be integers, with -1 for unknown.")
        known = known.astype(np.int64)
        if known.min() < -1 or known.max() >= self.n_clusters:
            raise ValueError(
                f"partial_labels must lie between 0 and n_clusters - 1 = {self.n_clusters - 1}, "
                f"or be -1 for unknown; got values from {known.min()} to {known.max()}."
            )
        return known if (known >= 0).any() else None

    def _checked_links(self, constraints, n: int, known) -> Links | None:
        """Return constraints between rows, for the methods that use them."""
        return None

    def _check_counts(self, X: RowSource, weights) -> None:
        n = X.shape[0] if weights is None else int(np.count_nonzero(weights))
        k = self.n_clusters
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
                f"available. Lower n_components, pass float32, or fit on a sample of the rows and "
                "predict the rest."
            )
        if k > 1 and X.local:
            rows = None if weights is None else np.flatnonzero(weights)
            distinct = count_distinct(X, k, rows)
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

    def _publish(self, model: Model, data, source, rows, weights, known, checked) -> None:
        """Set the fitted attributes; no other function does."""
        scale = model.features.scale
        found, model = self._decided(model.in_raw_rows(), rows, weights, known)
        sizes = found.sizes if weights is not None else found.sizes.astype(np.int64)
        k, lightest = len(sizes), data.weights.min()
        floor = size_floor(model.balance, sizes.sum(), k, data.whole) if k > 1 else 0.0
        # One row fewer would be too few; a floor of one row tells nothing.
        on_floor = (sizes - lightest < floor * (1 - 1e-9)) & (floor > lightest)
        if model.raised is not None:
            on_floor |= model.raised
        attributes = {
            **self._predict_attributes(model, scale, checked),
            "labels_": found.labels if rows is source else source.like(found.labels),
            "cluster_sizes_": sizes,
            "exemplar_indices_": found.exemplars,
            "clusters_on_floor_": np.flatnonzero(on_floor),
            "objective_": float(model.objective),
            "history_": list(model.history),
            "n_iter_": model.n_iter,
            "stop_reason_": model.stop_reason,
            **model.extras,
        }
        attributes |= self._label_attributes(attributes["labels_"], found.lead, data, model)
        self._warn_about(model, sizes, floor, int(on_floor.sum()))
        for name in list(vars(self)):  # what an earlier fit has set
            if name.endswith("_") or (name.startswith("_") and not name.startswith(FRAMEWORK)):
                delattr(self, name)
        self.__dict__.update(attributes)

    def _label_attributes(self, labels, lead, data: FitInput, model: Model) -> dict[str, Any]:
        """Return fitted attributes that follow from the final labels."""
        return {}

    def _decided(self, model: Model, rows, weights, known) -> tuple[Decided, Model]:
        """Return the predicted labels, and the model with clusters in order of falling size."""
        n, names = rows.shape[0], None
        given = np.broadcast_to(-1, n) if known is None else known
        held = np.broadcast_to(1.0, n) if weights is None else weights
        found = trained(model, rows, held, given, effective_n_jobs(self.n_jobs))
        if known is None:
            order = cluster_numbers(found.sizes, found.first)
            model, names = model.renumbered(order), np.argsort(order).astype(np.int32)
            if found.ties:  # predict breaks ties by the new numbers
                found = trained(model, rows, held, given, effective_n_jobs(self.n_jobs))
                names = None
            else:
                sizes, exemplars = found.sizes[order], found.exemplars[order]
                found = replace(found, sizes=sizes, exemplars=exemplars)
        labels = rows.like(found.labels, names)
        if labels is None:  # they are on a dask cluster: predict computes them again
            labels = rows.map(label_block, model.features.rows(rows).block, model.shared())
            if known is not None:
                fixed = rows.like(known.astype(np.int32))
                labels = labels * (fixed < 0) + fixed * (fixed >= 0)
        return replace(found, labels=labels), model

    def _predict_attributes(self, model: Model, scale: float, checked) -> dict[str, Any]:
        """Return the fitted attributes that prediction needs, by name."""
        names = {"n_features_in_": checked.n_features_in_}
        if hasattr(checked, "feature_names_in_"):
            names["feature_names_in_"] = checked.feature_names_in_
        return {
            **names,
            "feature_map_": model.features,
            "feature_scale_": scale,
            "coef_": model.coef,
            "intercept_": model.intercept,
            "_paths": model.paths,
            "_n_features_out": len(model.paths),
        }

    def _keep_checkpoint(self, lost: SchedulerLost, checked) -> None:
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

    def _warn_about(self, model: Model, sizes: np.ndarray, floor: float, on_floor: int) -> None:
        """Warn if the size floor decided or was missed, and if the fit did not converge."""
        k, balance, missing, told = len(sizes), model.balance, floor - sizes.min(), None
        if missing > 1e-9 * floor:
            told = (
                f"balance={balance} cannot be met: equal rows or weights, or earlier splits, "
                f"leave a cluster {missing:g} short of {floor:g}. The nearest possible sizes are "
                "used."
            )
        elif (sizes == 0).any():
            told = (
                f"{int((sizes == 0).sum())} of {k} clusters have no rows; raise balance to set a "
                "minimum size."
            )
        elif on_floor and balance == 0:
            told = f"{on_floor} of {k} clusters would be empty, but for one row; try fewer."
        elif on_floor:
            advice = "Lower balance if clusters of such sizes are plausible"
            if model.raised is not None and hasattr(self, "size_entropy"):
                advice = (
                    "The margin alone prefers uneven clusters, so a lower balance seldom helps; "
                    "set balance=0, which leaves the sizes to size_entropy"
                )
            told = (
                f"balance={balance} decided the size of {on_floor} of {k} clusters: without it "
                f"they would be smaller. {advice}, or try fewer clusters."
            )
        if told is not None:
            warnings.warn(told, UserWarning, stacklevel=6)
        if model.stop_reason == MAX_ITER:
            warnings.warn(
                f"{type(self).__name__} did not converge within max_iter iterations; raise "
                "max_iter or tol.",
                ConvergenceWarning,
                stacklevel=6,
            )

    # -- prediction -----------------------------------------------------------------------------

    def _mapped(self, X, function, width: int | None = None) -> Any:
        """Apply a block function to every row of X; the result has the type of X."""
        check_is_fitted(self)
        source = self._source(X, reset=False)
        view = self.feature_map_.rows(source).block
        model = Model(self.feature_map_, self.coef_, self.intercept_, self._paths)
        with one_thread():
            jobs = effective_n_jobs(self.n_jobs)
            return source.map(function, view, model.shared(), width, jobs)

    def decision_function(self, X) -> np.ndarray:
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

    def predict(self, X) -> np.ndarray:
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

    def transform(self, X) -> np.ndarray:
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

    def score(self, X, y=None) -> float:
        """Return minus the mean loss of the rows.

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

    def __getstate__(self):
        """Return the state without labels on a dask cluster: predict computes them again."""
        state = super().__getstate__()
        labels = to_host(state.get("labels_"))
        if labels is not None and not isinstance(labels, np.ndarray):
            return {name: value for name, value in state.items() if name != "labels_"}
        return state | {"labels_": labels} if "labels_" in state else state

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = self._pairwise
        tags.transformer_tags.preserves_dtype = []
        return tags
