"""Rows that are not in memory here: what an estimator does with blocks, dask arrays and tensors.

The functions belong to :class:`~maxmargin._base.BaseMarginClustering`, which calls them.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy

import numpy as np
from sklearn.utils.validation import _check_feature_names

from .engine.blocks import RowBlocks
from .engine.cluster import as_dask_array
from .engine.decisions import cluster_numbers, decide_block
from .engine.device import DeviceBlocks, device_rows, like, returned
from .engine.features import check_magnitude
from .engine.rows import BLOCK, repeated, run
from .engine.samples import MERGE_ROWS


def validated_blocks(estimator, X: RowBlocks, reset: bool, here: bool = True):
    """Rows in blocks; few of them are brought into memory, where equal rows are merged."""
    if estimator._pairwise or not estimator._takes_blocks:
        what = "kernel='precomputed'" if estimator._takes_blocks else type(estimator).__name__
        raise ValueError(
            f"{what} needs all rows in memory, got rows in {len(X.sizes)} blocks. Pass an "
            "array, or fit a sample of the rows and predict the rest."
        )
    if X.shape[0] == 0 or X.shape[1] == 0:
        raise ValueError(
            f"Found array with {X.shape[0]} sample(s) and {X.shape[1]} feature(s) "
            f"(shape={X.shape}) while a minimum of 1 is required."
        )
    if reset:
        estimator.n_features_in_ = X.shape[1]
        if X.column_names is not None:
            estimator.feature_names_in_ = np.asarray(X.column_names, object)
    else:
        _check_width(estimator, X)
        names = getattr(estimator, "feature_names_in_", None)
        if (
            names is not None
            and X.column_names is not None
            and (list(names) != list(X.column_names))
        ):
            raise ValueError(
                "The feature names should match those that were passed during fit, in the same "
                f"order. Expected {', '.join(map(str, names[:8]))}; got "
                f"{', '.join(X.column_names[:8])}."
            )
    if X.is_remote:
        X.check()
    if here and X.shape[0] <= MERGE_ROWS:
        X = X[:]
        check_magnitude(X)
    return X


def publish_apart(estimator, model, X, weights, known, sample, n_jobs) -> None:
    """Set the fitted attributes where the rows are elsewhere: so are their labels."""
    k, start = estimator.n_clusters, 0
    sizes, first = np.zeros(k), np.full(k, X.shape[0])
    exemplars, best = np.full(k, -1), np.full(k, -np.inf)
    n_rows = X.shape[0]
    rows = estimator.feature_map_.rows(X, n_jobs)
    shared = estimator.coef_, estimator._levels(), model.paths
    # All rows, as in memory: one of weight 0 may be the most certain of its cluster.
    columns = (
        repeated(1.0, n_rows) if weights is None else weights,
        repeated(-1, n_rows) if known is None else known,
    )
    for n, held, earliest, certain, leads in run(rows, decide_block, shared, columns)[1]:
        sizes += held
        better = leads > best
        exemplars[better], best[better] = start + certain[better], leads[better]
        first = np.where((earliest < n) & (first == X.shape[0]), start + earliest, first)
        start += n
    order = np.arange(k) if known is not None else cluster_numbers(sizes, first)
    estimator._renumber(order)
    estimator.cluster_sizes_ = sizes[order] if weights is not None else sizes[order].astype(int)
    estimator.exemplar_indices_ = exemplars[order]
    estimator._warn_about_empty_clusters()
    estimator._publish_run(model)
    labels = estimator.predict(X.array)
    if known is not None:
        given = X.like(known.astype(np.int32))
        labels = labels * (given < 0) + given * (given >= 0)
    estimator.labels_ = labels


def of_tensor(estimator, X, on_host: Callable, on_device: Callable):
    """What a method gives for the rows of a tensor, where they are."""
    rows = device_rows(X)
    if not isinstance(rows, DeviceBlocks):
        return like(on_host(rows), X)
    checked = validated_blocks(estimator, rows, reset=False, here=False)
    rows = estimator.feature_map_.rows(checked)
    return returned(on_device(rows, estimator.coef_, estimator._levels(), estimator._paths), X)


def predicted_blocks(estimator, X: RowBlocks) -> np.ndarray:
    """Labels of rows in blocks, without the scores of all of them."""
    model = nameless(estimator)
    parts = [model.predict(X[i : i + BLOCK]) for i in range(0, X.shape[0], BLOCK)]
    return np.concatenate(parts)


def nameless(estimator):
    """This model for chunks, which are arrays without names; checked beforehand."""
    model = copy(estimator)
    for name in ("feature_names_in_", "labels_"):
        model.__dict__.pop(name, None)
    return model


def lazy_rows(estimator, X):
    """A dask array of rows of the right width, still to be computed."""
    if hasattr(X, "columns"):
        _check_feature_names(estimator, X._meta, reset=False)
    X = as_dask_array(X)
    _check_width(estimator, X)
    return X


def _check_width(estimator, X) -> None:
    if X.shape[1] != estimator.n_features_in_:
        raise ValueError(
            f"X has {X.shape[1]} features, but {type(estimator).__name__} is expecting "
            f"{estimator.n_features_in_} features as input."
        )
