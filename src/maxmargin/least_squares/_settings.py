"""Parameters of a fit, and the similarity that suits the rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from .._core.features import KERNELS
from .._data.source import MemoryRows, RowSource

N_NEIGHBORS, ROWS_PER_NEIGHBOR = 10, 3
TEXT_RIDGE = 10.0
LOOKED_AT = 4000  # rows, spread over X, whose entries are counted
TEXT_WIDTH = 50  # rows with fewer columns are never treated as word counts
DENSE_SHARE = 0.05  # CSR rows with more non-zeros than this are read as dense ones


@dataclass(frozen=True)
class Settings:
    """Parameters of a fit; those of the paper have their names in the estimator's docstring."""

    n_clusters: int
    kernels: tuple[Any, ...]
    search: str = "shaking"
    gamma: Any = "half-median"
    degree: float = 3
    coef0: float = 1
    ridge: float = 1.0
    center: bool = True
    cluster_sizes: Any = None
    n_init: Any = "auto"
    n_kicks: Any = "auto"
    n_shakes: int = 21
    cooling: float = 0.5
    partial_start: str = "auto"
    max_samples: int = 4000
    n_components: int | None = None
    pca: int | None = None
    balance: float = 0.1
    max_iter: int = 200
    # most neighbours in a graph whose R joins the average; 0 for no graph
    n_neighbors: int = 0
    # p in J_p: from 0 (equal sizes) to 1 (no preference); several are compared, the first preferred
    size_priors: tuple[float, ...] = (0.0,)
    # Cluster twice, the second time after whitening by the covariance within the first clusters (if
    # there are at most 100 columns and five rows for each). Needs a size prior above 0.
    whiten: bool = False
    # Whether clusters may differ in spread instead of location. Needs ``whiten``.
    spreads: bool = False
    # whether clusters that are apart and connected within are the answer if there are such,
    # whatever their J_p
    connected: bool = False
    least_rows: int = 10  # of a group that is a connected cluster
    # whether columns are standardised if their scales differ much (at most 100 dense columns)
    scale: bool = False
    n_resamples: int = 0  # number of subsamples that are clustered for confidence and stability
    time_budget: float | None = None  # seconds after which no restart or kick starts
    compared: bool = True  # whether to compare the labels with the k-means partition
    pilot: bool = False  # whether to fit on few rows if the clusters are clear
    only_clear: bool = False  # whether to give up (``NotClear``) unless the clusters are clear
    # columns of each view (``_graph.py``); ``whiten`` then means a second fit with the weights of
    # the views that follow from the first clusters
    views: dict[str, Any] | None = None

    @property
    def precomputed(self) -> bool:
        """Whether X is a kernel matrix."""
        return "precomputed" in [k for k in self.kernels if isinstance(k, str)]

    @property
    def mixed(self) -> bool:
        """Whether R is an average."""
        return self.n_neighbors > 0 or len(self.kernels) > 1

    @property
    def tempered(self) -> bool:
        """Whether sizes are tempered: p > 0."""
        return self.size_priors[0] > 0

    def auxiliary(self, **changes: Any) -> Settings:
        """Return the settings, with changes, of a fit that only serves another one."""
        return replace(self, compared=False, pilot=False, n_resamples=0, **changes)

    def check(self) -> None:
        """Raise an error for incompatible parameters."""
        allowed = [k for k in KERNELS if k != "precomputed" or len(self.kernels) == 1]
        unknown = [k for k in self.kernels if not callable(k) and k not in allowed]
        if unknown or not self.kernels:
            raise ValueError(
                f"kernel must be one or several of {', '.join(KERNELS[:-1])} or functions, or "
                f"'precomputed' alone; got {list(self.kernels)!r}."
            )
        if self.mixed and (self.n_components is not None or not self.center):
            raise ValueError(
                "Several kernels need center=True and n_components=None; got center="
                f"{self.center} and n_components={self.n_components}."
            )

    def memory(self, n_samples: int, n_features: int) -> int:
        """Return the peak memory in bytes that a fit needs beyond X itself."""
        m = min(n_samples, self.max_samples)
        itemsize = 4 if self.ridge >= 0.25 else 12
        matrices = len(self.kernels) + 1 if self.mixed else 1
        strips = 8 * 256 * m  # panels of the inverse, strips of the kernel, links of the graph
        return int(itemsize * (matrices * m**2 + strips) + 8 * m * n_features + 64 * n_samples)


def neighbour_count(n: int, k: int, most: int = N_NEIGHBORS) -> int:
    """Return the number of neighbours of n rows: more than a cluster has rows are in others."""
    return min(most, max(1, n // (ROWS_PER_NEIGHBOR * k)))


@dataclass(frozen=True)
class Kind:
    """The similarity between rows that :class:`MaxMarginClustering` chooses."""

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


def kind_of_rows(X: Any, kernel: Any = "auto") -> Kind:
    """Return the similarity to use for these rows, dense or CSR."""
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
