"""The input of a fit: distinct rows in a canonical order, with weights and known labels.

Up to ``MERGE_ROWS`` rows, equal rows are merged and sorted by content. A row of weight 2 and a
repeated row are then the same problem, and the order of the rows does not matter.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from .._data.source import MemoryRows, RowSource
from ._numba import fingerprint_csr, fingerprint_dense
from .links import Links

MERGE_ROWS = 10_000


@dataclass(frozen=True)
class FitInput:
    """Input of ``_fit_model``.

    Attributes
    ----------
    X : RowSource
        Rows of positive weight, equal ones merged if there are few.
    weights : ndarray of shape (m,)
    known : ndarray of shape (m,)
        Known label of each row, -1 where unknown.
    whole : bool
        Whether all weights are whole numbers, so that sizes are counts.
    source : ndarray of shape (m,)
        For each row, one of the user's rows that it represents.
    inverse : ndarray of shape (n_given,)
        For each row of the user, its row in X, or -1 if its weight is zero.
    links : Links or None
        Constraints between these rows.
    free : ndarray of shape (m,) or None
        With constraints: the part of each row's weight without links and known labels.
    initial : ndarray of shape (m,) or None
        Labels to start from, given by ``init`` or predicted by an earlier fit.
    rng : numpy Generator
    n_jobs : int
    watch : callable
        Called with the objective after every iteration; returns a reason to stop, or None.
    names : sequence of str or None
        Names of the columns of X.
    constraints : PairwiseConstraints or None
        Constraints between the user's rows.
    """

    X: RowSource
    weights: np.ndarray
    known: np.ndarray
    whole: bool
    source: np.ndarray
    inverse: np.ndarray
    links: Links | None = None
    free: np.ndarray | None = None
    initial: np.ndarray | None = None
    rng: np.random.Generator = None  # type: ignore[assignment]
    n_jobs: int = 1
    watch: Callable[[float], str | None] = lambda _objective: None
    names: Any = None
    constraints: Any = None

    @property
    def n_given(self) -> int:
        """Number of rows the user gave."""
        return len(self.inverse)

    @property
    def has_known(self) -> bool:
        """Whether some labels are known."""
        return bool((self.known >= 0).any())

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
        known = self.rng.permutation(np.flatnonzero(self.known >= 0))
        if self.links is not None:
            linked = np.setdiff1d(self.links.rows(), known)
            known = np.concatenate([known, self.rng.permutation(linked)])
        known = known[:max_samples]
        others = np.setdiff1d(np.arange(n), known)
        more = self.rng.choice(others, max_samples - len(known), replace=False)
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
        # Adding 0.0 turns -0.0, which has other bits, into 0.0.
        bits = (X.data.astype(np.float64) + 0.0).view(np.uint64)
        fingerprint_csr(bits, X.indices, X.indptr, out)
    else:
        values = np.ascontiguousarray(X, np.float64) + 0.0
        fingerprint_dense(values.view(np.uint64), out)
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
    if (weights == 0).any():
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
    free = np.ones(sample.n_given) if weights is None else weights.copy()
    counted = (sample.inverse[links.first] >= 0) & (sample.inverse[links.second] >= 0)
    free[links.take(counted).rows()] = 0.0
    if known is not None:
        free[known >= 0] = 0.0
    kept = sample.inverse >= 0
    merged = np.bincount(sample.inverse[kept], free[kept], minlength=len(sample.weights))
    return replace(sample, links=links.mapped(sample.inverse), free=merged)


def count_distinct(X: RowSource, at_least: int, rows: np.ndarray | None = None) -> int:
    """Return the number of distinct rows, counted no further than to ``at_least``."""
    rows = np.arange(X.shape[0]) if rows is None else rows
    marks = np.empty((0, 2), np.uint64)
    for start in range(0, len(rows), MERGE_ROWS):
        more = row_fingerprints(X.take(rows[start : start + MERGE_ROWS]))
        marks = np.unique(np.concatenate([marks, more]), axis=0)
        if len(marks) >= at_least:
            break
    return len(marks)
