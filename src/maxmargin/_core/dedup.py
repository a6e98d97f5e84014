"""What a fit works on: distinct rows in an order of their own, with weights and known labels.

Up to ``MERGE_ROWS`` rows, equal rows are merged and sorted by content. A weight of 2 is then the
same problem as the row given twice, and the order of the rows does not matter.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from .._data.source import RowBlocks
from .links import Links
from .numba_fingerprint import fingerprint_csr, fingerprint_dense
from .rows import part_of, repeated

MERGE_ROWS = 10_000


@dataclass(frozen=True)
class Sample:
    """Rows to fit on.

    Attributes
    ----------
    X : ndarray or csr_matrix
    weights : ndarray of shape (m,)
    known : ndarray of shape (m,)
        Known label of each row, -1 where unknown.
    whole : bool
        Whether all weights are whole numbers, so that sizes are counts.
    source : ndarray of shape (m,)
        For each row here, a row of the user's that it stands for.
    inverse : ndarray of shape (n_given,)
        For each row the user gave, its row here, or -1 if its weight is zero.
    links : Links or None
        Links between these rows.
    free : ndarray of shape (m,) or None
        With links: the part of each row's weight that nothing is known about.
    place : torch.device or None
        Device that the user's rows were on.
    """

    X: np.ndarray | sparse.csr_matrix
    weights: np.ndarray
    known: np.ndarray
    whole: bool
    source: np.ndarray
    inverse: np.ndarray
    links: Links | None = None
    free: np.ndarray | None = None
    place: Any = None

    @property
    def n_given(self) -> int:
        """Number of rows the user gave."""
        return len(self.inverse)

    @property
    def is_whole(self) -> bool:
        """Whether these are the user's rows as they came."""
        if self.source is self.inverse:
            return True
        return len(self.source) == self.n_given and bool((np.diff(self.source) == 1).all())


def row_fingerprints(X) -> np.ndarray:
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


def make_sample(X, weights: np.ndarray | None, known: np.ndarray | None, merge: bool) -> Sample:
    """Drop rows of weight zero; merge and sort equal rows where there are few enough."""
    n = X.shape[0]
    whole = weights is None or bool((weights == np.round(weights)).all())
    if weights is None:  # no memory for what is the same for all rows
        weights = np.ones(n) if n <= MERGE_ROWS else repeated(1.0, n)
    known = repeated(-1, n) if known is None else known
    source = np.arange(n, dtype=np.int32 if n < 2**31 else np.int64)
    if (weights == 0).any():
        source = np.flatnonzero(weights)
        X, weights, known = part_of(X, source), weights[source], known[source]
    few = merge and X.shape[0] <= MERGE_ROWS
    if few and isinstance(X, RowBlocks):
        X = X[:]
    if not few and len(source) == n:
        return Sample(X, weights, known, whole, source, source)
    inverse = np.full(n, -1)
    if not few:
        inverse[source] = np.arange(len(source))
        return Sample(X, weights, known, whole, source, inverse)
    marks = row_fingerprints(X)
    order = np.lexsort((known, marks[:, 1], marks[:, 0]))
    marks, sorted_known = marks[order], known[order]
    new = np.ones(len(order), bool)
    new[1:] = (marks[1:] != marks[:-1]).any(axis=1) | (sorted_known[1:] != sorted_known[:-1])
    starts = np.flatnonzero(new)
    merged = np.add.reduceat(weights[order], starts)
    first = order[starts]
    inverse[source[order]] = np.cumsum(new) - 1
    return Sample(X[first], merged, known[first], whole, source[first], inverse)


def linked_sample(sample: Sample, links: Links, weights: np.ndarray | None, known) -> Sample:
    """The sample with links between the user's rows, and the weight of the rows without any.

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


def count_distinct(X, at_least: int) -> int:
    """Number of distinct rows, counted no further than needed to know it is ``at_least``."""
    for rows in (min(X.shape[0], MERGE_ROWS), X.shape[0]):
        distinct = len(np.unique(row_fingerprints(X[:rows]), axis=0))
        if distinct >= at_least:
            break
    return distinct


def count_distinct_blocks(X: RowBlocks, at_least: int) -> int:
    """:func:`count_distinct` for rows in blocks, read no further than needed."""
    marks = np.empty((0, 2), np.uint64)
    for start in range(0, X.shape[0], MERGE_ROWS):
        more = row_fingerprints(X[start : start + MERGE_ROWS])
        marks = np.unique(np.concatenate([marks, more]), axis=0)
        if len(marks) >= at_least:
            break
    return len(marks)
