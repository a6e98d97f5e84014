"""The similarity between rows that :class:`MaxMarginClustering` chooses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from ._data.source import MemoryRows, RowSource
from .least_squares._fit import DENSE_SHARE

N_NEIGHBORS = 10
TEXT_RIDGE = 10.0
LOOKED_AT = 4000  # rows, spread over X, whose entries are counted
TEXT_WIDTH = 50  # rows with fewer columns are never treated as word counts


@dataclass(frozen=True)
class Kind:
    """The similarity between rows."""

    kernel: Any
    ridge: float
    n_neighbors: int
    sentence: str


RBF = Kind(
    "rbf",
    1.0,
    N_NEIGHBORS,
    "The similarity of rows is the mean of a Gaussian kernel and a graph of the "
    f"{N_NEIGHBORS} nearest neighbours.",
)


def kind_of_rows(X, kernel="auto") -> Kind:
    """Return the similarity to use for these rows, dense or CSR.

    Examples
    --------
    >>> kind_of_rows(np.ones((5, 3))).kernel
    'rbf'
    >>> kind_of_rows(sparse.eye_array(100, format="csr")).kernel
    'cosine'
    """
    if callable(kernel) or kernel != "auto":
        if kernel == "precomputed":
            told = "X was used as a kernel matrix, together with a nearest-neighbour graph."
        else:
            told = (
                f"The similarity of rows is the mean of kernel={kernel!r} and a graph of the "
                f"{N_NEIGHBORS} nearest neighbours."
            )
        return Kind(kernel, 1.0, N_NEIGHBORS, told)
    rows = X if isinstance(X, RowSource) else MemoryRows(X)
    some = rows.take(slice(None, None, max(1, X.shape[0] // LOOKED_AT)))
    count = some.nnz if sparse.issparse(some) else np.count_nonzero(some)
    filled = count / (some.shape[0] * some.shape[1])
    if X.shape[1] >= TEXT_WIDTH and filled < DENSE_SHARE:
        told = (
            f"Only {filled:.1%} of the entries are not zero, as in word counts: the cosine kernel "
            "was used."
        )
        return Kind("cosine", TEXT_RIDGE, 0, told)
    return RBF
