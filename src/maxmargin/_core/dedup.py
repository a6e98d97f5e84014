"""The input of a fit: distinct rows in a canonical order, with weights and labels, and its checks.

Up to ``MERGE_ROWS`` rows, equal rows are merged and sorted by content. A row of weight 2 and a
repeated row are then the same problem, and the order of the rows does not matter.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.validation import _check_sample_weight

from .._data.source import MemoryRows, RowSource
from ._numba import fingerprint_csr, fingerprint_dense
from .links import HEAVIEST, LIGHTEST, Links

MERGE_ROWS = 10_000
UNKNOWN = ("-1", "?", "nan", "None", "<NA>", "NaT")  # names of labels that are not known


@dataclass(frozen=True)
class FitInput:
    """Input of ``_fit_model``."""

    X: RowSource  # rows of positive weight, equal ones merged if there are few
    weights: np.ndarray  # (m,)
    known: np.ndarray  # (m,): known label of each row, -1 where unknown
    whole: bool  # whether all weights are whole numbers, so that sizes are counts
    source: np.ndarray  # (m,): for each row, one of the user's rows that it represents
    # (n_given,): for each row of the user, its row in X, or -1 if its weight is zero
    inverse: np.ndarray
    links: Links | None = None  # constraints between these rows
    # (m,): with constraints: the part of each row's weight without links and known labels
    free: np.ndarray | None = None
    # (m,): labels to start from, given by ``init`` or predicted by an earlier fit
    initial: np.ndarray | None = None
    rng: np.random.Generator = None  # type: ignore[assignment]
    n_jobs: int = 1
    # called with the objective after every iteration; returns a reason to stop, or None
    watch: Callable[[float], str | None] = lambda _objective: None
    names: Any = None  # names of the columns of X
    constraints: Any = None  # constraints between the user's rows
    n_known: int = 0  # clusters that the known labels need, also those of rows of weight zero

    def check_kernels(self) -> None:
        """Raise an error if rows of precomputed kernels are left out: their columns are not."""
        if len(self.weights) < len(self.inverse):
            raise ValueError(
                "sample_weight is 0 for some rows, which does not go with precomputed kernels: "
                "leave out those rows, and their columns of every kernel."
            )

    def chosen(self, max_samples: int | None, precomputed: bool = False) -> np.ndarray:
        """Return rows to fit on: all, or those with known labels, with links and random others."""
        n = len(self.weights)
        if max_samples is None or n <= max_samples:
            return np.arange(n)
        if precomputed:
            raise ValueError(
                f"kernel='precomputed' needs max_samples >= n_samples = {n}, got "
                f"max_samples={max_samples}: columns of a kernel matrix cannot be left out."
            )
        known = self.rng.permutation(np.flatnonzero(self.known >= 0))[:max_samples]
        free = np.ones(n, bool)
        free[known] = False
        others = np.flatnonzero(free)
        more = self.rng.choice(others, max_samples - len(known), replace=False)
        if self.links is not None:
            # They take the places of other rows, so that few links change few of the rows.
            missing = np.setdiff1d(self.links.rows(), np.concatenate([known, more]))
            spare = np.flatnonzero(~np.isin(more, self.links.rows()))[: len(missing)]
            if len(missing) > len(spare):
                missing = self.rng.permutation(missing)
            more[spare] = missing[: len(spare)]
        return np.sort(np.concatenate([known, more]))

    def part(self, rows: np.ndarray) -> FitInput:
        """Return some of the rows as a separate input, in memory."""
        if len(rows) == len(self.weights) and self.X.in_memory:
            return self
        place = np.full(len(self.weights) + 1, -1)
        place[rows] = np.arange(len(rows))
        links = None if self.links is None else self.links.mapped(place)
        return replace(
            self,
            X=MemoryRows(self.X.take(rows)),
            weights=self.weights[rows],
            known=self.known[rows],
            source=self.source[rows],
            inverse=place[self.inverse],
            links=links if links is not None and len(links) else None,
            free=None if self.free is None else self.free[rows],
            initial=None if self.initial is None else self.initial[rows],
        )


def row_fingerprints(X: Any) -> np.ndarray:
    """128 bits per row that depend on its values alone, (n, 2) uint64.

    Examples
    --------
    >>> dense = row_fingerprints(np.array([[0.0, 1.5], [-0.0, 1.5]]))
    >>> bool((dense[0] == dense[1]).all())
    True
    >>> csr = row_fingerprints(sparse.csr_matrix([[0.0, 1.5]]))
    >>> bool((csr[0] == dense[0]).all())
    True
    """
    out = np.empty((X.shape[0], 2), np.uint64)
    if sparse.issparse(X):
        bits = X.data.astype(np.float64, copy=False).view(np.uint64)
        fingerprint_csr(bits, X.indices, X.indptr, out)
    else:
        fingerprint_dense(np.ascontiguousarray(X, np.float64).view(np.uint64), out)
    return out


def make_input(
    X: RowSource, weights: np.ndarray | None, known: np.ndarray | None, merge: bool
) -> FitInput:
    """Drop rows of weight zero; merge and sort equal rows if there are few enough."""
    n = X.shape[0]
    whole = weights is None or bool((weights == np.round(weights)).all())
    if weights is None:  # no memory for what is the same for all rows
        weights = np.ones(n) if n <= MERGE_ROWS else np.broadcast_to(1.0, n)
    known = np.broadcast_to(-1, n) if known is None else known
    source = np.arange(n, dtype=np.int32 if n < 2**31 else np.int64)
    if weights.min() == 0:
        source = np.flatnonzero(weights)
        X, weights, known = X.part(source), weights[source], known[source]
    few = merge and X.shape[0] <= MERGE_ROWS
    if not few and len(source) == n:
        return FitInput(X, weights, known, whole, source, source)
    inverse = np.full(n, -1)
    if not few:
        inverse[source] = np.arange(len(source))
        return FitInput(X, weights, known, whole, source, inverse)
    values = X.take(slice(None))
    marks = row_fingerprints(values)
    order = np.lexsort((known, marks[:, 1], marks[:, 0]))
    marks, sorted_known = marks[order], known[order]
    new = np.ones(len(order), bool)
    new[1:] = (marks[1:] != marks[:-1]).any(axis=1) | (sorted_known[1:] != sorted_known[:-1])
    starts = np.flatnonzero(new)
    merged = np.add.reduceat(weights[order], starts)
    first = order[starts]
    inverse[source[order]] = np.cumsum(new) - 1
    return FitInput(MemoryRows(values[first]), merged, known[first], whole, source[first], inverse)


def with_links(
    sample: FitInput, links: Links, weights: np.ndarray | None, known: np.ndarray | None
) -> FitInput:
    """Add links between the user's rows, and the weight of the rows without any.

    ``weights`` and ``known`` are the user's, before equal rows were merged: one of two equal rows
    may have links and the other none.
    """
    free = np.ones(len(sample.inverse)) if weights is None else weights.copy()
    counted = (sample.inverse[links.first] >= 0) & (sample.inverse[links.second] >= 0)
    free[links.take(counted).rows()] = 0.0
    if known is not None:
        free[known >= 0] = 0.0
    kept = sample.inverse >= 0
    merged = np.bincount(sample.inverse[kept], free[kept], minlength=len(sample.weights))
    return replace(sample, links=links.mapped(sample.inverse), free=merged)


def count_distinct(X: RowSource, at_least: int, rows: np.ndarray | None = None) -> int:
    """Return the number of distinct rows, counted no further than to ``at_least``."""
    n = X.shape[0] if rows is None else len(rows)
    marks, start, size = np.empty((0, 2), np.uint64), 0, 4 * at_least
    while start < n and len(marks) < at_least:
        few = slice(start, start + size)
        more = row_fingerprints(X.take(few if rows is None else rows[few]))
        marks = np.unique(np.concatenate([marks, more]), axis=0)
        start, size = start + size, MERGE_ROWS
    return len(marks)


# -- checks of what users pass to fit beside the rows ----------------------------------------------


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
    numbers = isinstance(y, list) and all(isinstance(value, Real) for value in y)
    values = np.asarray(y) if numbers or isinstance(y, np.ndarray) else np.empty(0)
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
    if known.dtype.kind in "bc" or not np.array_equal(known, np.round(known.astype(float))):
        raise ValueError("partial_labels must be integers, or names; -1, '' or NaN if unknown.")
    most, what = (n, "n_samples") if n_clusters is None else (n_clusters, "n_clusters")
    if known.min() < -1 or known.max() >= most:
        raise ValueError(
            f"partial_labels must lie between 0 and {what} - 1 = {most - 1}, or be -1 for "
            f"unknown; got values from {known.min():g} to {known.max():g}."
        )
    return known.astype(np.int64) if (known >= 0).any() else None, names


def label_codes(known: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    """Return labels as numbers, and the names that they stand for if they are text."""
    if known.dtype.kind == "S":
        known = np.char.decode(known, "utf-8", "replace")
    if known.dtype.kind == "f":
        return np.where(np.isnan(known), -1.0, known), None
    if known.dtype.kind not in "OUST":
        return known, None
    texts = np.array([str(v).strip() for v in known.tolist()])
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
