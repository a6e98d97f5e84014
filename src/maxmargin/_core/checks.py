"""Checks of what users pass to ``fit`` beside the rows: weights, labels, column names."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.utils.validation import _check_sample_weight

from .._data.source import RowSource
from .links import HEAVIEST, LIGHTEST

UNKNOWN = ("-1", "?", "nan", "None")


def check_columns(estimator: Any, source: Any, reset: bool) -> None:
    """Check rows that are not an array: shape, column names, values."""
    n, d = source.shape
    if n == 0 or d == 0:
        raise ValueError(
            f"Found array with {n} sample(s) and {d} feature(s) (shape={source.shape}) while a "
            "minimum of 1 is required."
        )
    names, here = getattr(estimator, "feature_names_in_", None), source.column_names
    if reset:
        estimator.n_features_in_ = d
        vars(estimator).pop("feature_names_in_", None)
        if here is not None:
            estimator.feature_names_in_ = np.asarray(here, object)
    elif d != estimator.n_features_in_:
        raise ValueError(
            f"X has {d} features, but {type(estimator).__name__} is expecting "
            f"{estimator.n_features_in_} features as input."
        )
    elif names is not None and here is not None and list(names) != list(here):
        raise ValueError(
            "The feature names should match those that were passed during fit, in the same "
            f"order. Expected {', '.join(map(str, names[:8]))}; got {', '.join(here[:8])}."
        )
    if isinstance(source, RowSource):
        source.check()


def checked_weights(sample_weight: np.ndarray, n: int) -> np.ndarray:
    """Return ``sample_weight`` in float64, or raise an error."""
    probe = np.broadcast_to(0.0, n)
    weights: np.ndarray = _check_sample_weight(sample_weight, probe, dtype=np.float64)
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


def check_no_labels(y: Any, n_clusters: Any) -> None:
    """Warn of known labels that were passed as y, which clustering ignores.

    A truth value for the number of clusters is an error; scikit-learn takes it for a number.
    """
    if isinstance(n_clusters, bool):
        raise ValueError(f"n_clusters must be a whole number, got {n_clusters}.")
    values = np.asarray(y) if isinstance(y, list | np.ndarray) else np.empty(0)
    if values.dtype.kind in "if" and {-1, 0} <= set(values.ravel()[:10_000].tolist()):
        warnings.warn(
            "y is ignored. Pass known labels, with -1 for unknown, as partial_labels.",
            UserWarning,
            stacklevel=4,
        )


def checked_partial_labels(
    given: np.ndarray, n: int, n_clusters: int | None
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Return known labels as numbers, None if all are unknown, and their names if they are text.

    Examples
    --------
    >>> checked_partial_labels(np.array(["b", "", "a", "b"]), 4, 2)
    (array([ 1, -1,  0,  1]), array(['a', 'b'], dtype='<U1'))
    """
    if given.shape != (n,):
        raise ValueError(f"partial_labels must have shape ({n},), got {given.shape}.")
    known, names = label_codes(given)
    if names is not None and n_clusters is not None and len(names) > n_clusters:
        raise ValueError(
            f"partial_labels has {len(names)} different names ({', '.join(names[:8])}), more than "
            f"{n_clusters=}."
        )
    if known.dtype.kind == "b" or not np.array_equal(known, np.round(known.astype(float))):
        raise ValueError("partial_labels must be integers, with -1 for unknown.")
    known = known.astype(np.int64)
    most = (2**31 if n_clusters is None else n_clusters) - 1
    if known.min() < -1 or known.max() > most:
        raise ValueError(
            f"partial_labels must lie between 0 and n_clusters - 1 = {most}, or be -1 for "
            f"unknown; got values from {known.min()} to {known.max()}."
        )
    return known if (known >= 0).any() else None, names


def label_codes(known: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    """Return labels as numbers, and the names that they stand for if they are text."""
    if known.dtype.kind not in "OUS":
        return known, None
    texts = np.array(["" if v is None or v != v else str(v).strip() for v in known.tolist()])
    texts[np.isin(texts, UNKNOWN)] = ""
    try:
        return np.where(texts == "", "-1", texts).astype(float), None
    except ValueError:
        names = np.unique(texts[texts != ""])
    return np.where(texts == "", -1, np.searchsorted(names, texts)), names


def checked_initial_labels(labels: np.ndarray, n: int, n_clusters: int) -> np.ndarray:
    """Return the labels that the user gave as ``init``, numbered from 0."""
    if labels.shape != (n,):
        raise ValueError(
            f"init must have one label for each of the {n} rows of X, got an array of shape "
            f"{labels.shape}."
        )
    if labels.dtype == object or (labels.dtype.kind == "f" and not np.isfinite(labels).all()):
        raise ValueError("init must be labels: integers or strings, without missing values.")
    names, numbers = np.unique(labels, return_inverse=True)
    if len(names) > n_clusters:
        raise ValueError(f"init has {len(names)} different labels, more than {n_clusters=}.")
    return numbers
