"""Parameters of a fit, the similarity that suits the rows, and what is told of a fit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from .._core.dedup import FitInput
from .._core.kernels import KERNELS
from .._data.source import MemoryRows, RowSource

N_NEIGHBORS, ROWS_PER_NEIGHBOR = 10, 3
TEXT_RIDGE = 10.0
LOOKED_AT = 4000  # rows, spread over X, whose entries are counted
TEXT_WIDTH = 50  # rows with fewer columns are never treated as word counts
SIZE_PRIORS = (0.75, 0.9, 1.0)  # that are compared
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


@dataclass(frozen=True)
class Details:
    """Results of a fit other than the model."""

    chosen: np.ndarray  # rows of the input that were in the fit
    # labels, margins: label by the model and leave-one-out margin of each of them
    labels: np.ndarray
    margins: np.ndarray
    scores: np.ndarray  # (n_fitted, k): scores of their regressions on the clusters' indicators
    # other clusterings: relative difference of the objective, and labels of the fitted rows
    others: list[tuple[float, np.ndarray]]
    whitened: bool  # whether there was a first fit for the metric
    about_scales: str
    connected: bool  # whether the clusters are connected groups of rows that are apart
    replaced: bool  # whether they are not of the largest J_p, but such groups or of the mixture
    # mean leave-one-out margin for every size prior that was tried
    size_margins: dict[float, float]
    neighbours: np.ndarray | None = None  # of each of them in the graph
    view_weights: dict[str, float] | None = None  # weight of each view
    view_fits: np.ndarray | None = None  # leave-one-out R2 of the labels by each view
    by_links: bool = False  # whether they predict more links than those without links
    link_weight: str | None = None  # the weight of rows with constraints if it is not 1, and why
    doubted: Sequence[int] = ()  # numbers of the constraints that were not used

    def renumbered(self, order: np.ndarray) -> Details:
        """Return the same with the scores in this order of the clusters; labels stay."""
        return replace(self, scores=self.scores[:, order])

    def places(self, data: FitInput) -> np.ndarray:
        """Return, for every row that the user gave, its place among the fitted rows, or -1."""
        fitted = np.full(len(data.weights), -1)
        fitted[self.chosen] = np.arange(len(self.chosen))
        return np.where(data.inverse >= 0, fitted[data.inverse], -1)

    def sentences(self, data: FitInput, extras: dict[str, Any]) -> Iterator[str]:
        """Yield what the clusters are and how they were found."""
        if self.about_scales:
            yield self.about_scales
        if self.view_weights is not None:
            weights = ", ".join(f"{name} {w:.2f}" for name, w in self.view_weights.items())
            yield f"Weights of the views: {weights}."
        if self.whitened:
            yield (
                "The rows were clustered twice, the second time after whitening by the covariance "
                f"within the first clusters: {data.X.shape[1]} columns (after encoding) are few "
                "enough to estimate it."
            )
        if self.replaced and not self.connected:
            yield (
                "The clusters differ in spread, not in location: they are those of a mixture with "
                "a scale per cluster, and their objective need not be the lowest."
            )
        if self.connected:
            told = ", and their objective need not be the lowest" if self.replaced else ""
            yield f"The clusters are connected groups of rows that are apart{told}."
        rounded = {p: f"{margin:.2f}" for p, margin in self.size_margins.items()}
        if len(set(rounded.values())) > 1:
            margins = (f"{margin} with {p:g}" for p, margin in rounded.items())
            rule = (
                "the first that keeps the connected groups"
                if self.connected
                else f"clusters of similar size ({SIZE_PRIORS[0]}) are preferred unless others are "
                "clearly farther apart"
            )
            yield (
                f"size_prior={extras['size_prior_']:g} was used: {rule}. Mean leave-one-out "
                f"margins: {', '.join(margins)}."
            )
        fitted = len(self.chosen)
        if fitted < len(data.weights):
            yield (
                f"The model was fitted on {fitted:,} random rows and predicts the labels of the "
                f"other {len(data.inverse) - fitted:,}."
            )
        count = int((data.known >= 0).sum())
        if count:
            yield f"Known labels kept: {count:,}; clusters are numbered accordingly."
        if self.scores.shape[1] > 1:  # one cluster separates nothing
            yield (
                f"Leave-one-out accuracy: {extras['leave_one_out_']:.0%} of the rows are in the "
                "cluster that the other rows predict. It says how clear the clusters are, not "
                "whether they are right."
            )
