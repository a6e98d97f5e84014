"""One small registry of what is run: our estimators, the papers' baselines, the peers of today.

A method takes rows, the number of clusters, a seed and its setting, and returns `Clusters`. Those
with ``links`` need pairs of rows that are known to belong together or apart.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from importlib.util import find_spec

import numpy as np
from scipy import sparse
from sklearn.metrics.pairwise import euclidean_distances

import maxmargin
from maxmargin.least_squares._label_search import make_scratch
from maxmargin.least_squares._numba import shake_round

from . import baselines

__all__ = ["METHODS", "Clusters", "Method"]

OURS, BASELINE, PEER = "ours", "baseline", "peer"
WIDTH_ROWS = 2000  # enough rows for the mean of a kernel and the largest distance


@dataclass(frozen=True)
class Clusters:
    """Labels of the rows, the number of steps where it is known, and how to label new rows.

    ``curves`` are lists of values that a figure draws.
    """

    labels: np.ndarray
    iterations: float = float("nan")
    predict: Callable | None = None
    cuts: float = float("nan")
    objective: float = float("nan")
    curves: dict[str, list[float]] = field(default_factory=dict)


@dataclass(frozen=True)
class Method:
    """An entry of the registry.

    Attributes
    ----------
    kind : str
        "ours", "baseline" (in one of the papers) or "peer" (what users would pick today).
    run : callable
        ``run(X, k, seed, links, **params) -> Clusters``.
    title : str
    package : str or None
        Package that it needs; its rows are skipped with a line where it is not installed.
    install : str
        How to get that package.
    most_rows : int or None
        Not run on more rows: memory or time grow with their square.
    """

    kind: str
    run: Callable[..., Clusters]
    title: str
    package: str | None = None
    install: str = ""
    most_rows: int | None = None

    def missing(self) -> str | None:
        """Say what is missing, or return None."""
        if self.package is None or find_spec(self.package) is not None:
            return None
        return f"{self.title}: skipped, {self.package} is not installed ({self.install})"


# -- ours -----------------------------------------------------------------------------------------


def _ours(name: str, X, k, seed, links, **params) -> Clusters:
    model = getattr(maxmargin, name)(k, random_state=seed, **params)
    model.fit(X) if links is None else model.fit(X, constraints=links)
    return _fitted(model)


def _fitted(model) -> Clusters:
    passes = getattr(model, "n_passes_", getattr(model, "n_iter_", np.nan))
    cuts = getattr(model, "n_cuts_", np.nan)
    objective = float(getattr(model, "objective_", np.nan))
    return Clusters(model.labels_, float(passes), model.predict, float(cuts), objective)


MARGIN_BINS = np.arange(0.0, 4.01, 0.1)
PAPER_C = {"hinge": 10.0, "squared": 100.0, "laplacian": 500.0}


def paper_alternating(X, k, seed, links=None, *, loss, width, **params) -> Clusters:
    """The iterative paper's algorithm: Gaussian kernel of ``width`` median distances, its own C.

    Its kernel is exp(-d^2 / sigma^2).
    """
    gamma = gaussian_gamma(X, width)
    # Centred features have mean square 1 - mean K; alpha = 1 / (nC), 2 / (nC) for the LS-SVM.
    strength = (2.0 if loss == "squared" else 1.0) / (X.shape[0] * PAPER_C[loss])
    alpha = strength / (1.0 - mean_kernel(X, gamma))
    model = maxmargin.AlternatingMarginClustering(
        k,
        loss=loss,
        gamma=gamma,
        alpha=alpha,
        anneal=False,
        multi_class="recursive",
        random_state=seed,
        **params,
    )
    return _fitted(model.fit(X))


def linear_alternating(X, k, seed, links=None, *, C, **params) -> Clusters:
    """The iterative paper's Table I: linear kernel and a given C."""
    mean_square = ((X - X.mean(axis=0)) ** 2).sum(axis=1).mean()
    model = maxmargin.AlternatingMarginClustering(
        k, kernel="linear", alpha=1.0 / (X.shape[0] * C * mean_square), anneal=False,
        multi_class="recursive", random_state=seed, **params,
    )  # fmt: skip
    found = _fitted(model.fit(X))
    # At the end labels are the signs of the scores: y f = |f|.
    margins = np.abs(model.decision_function(X))
    shares = np.histogram(margins, MARGIN_BINS)[0] / margins.size
    return replace(found, curves={"margins": (100.0 * shares).tolist()})


def paper_generalized(X, k, seed, links=None, *, width, C) -> Clusters:
    """GMMC, problem (7) of the iterative paper, with C_e = C and a slightly regularised kernel."""
    gamma = gaussian_gamma(X, width)
    scale = 1.0 / (1.0 - mean_kernel(X, gamma))
    model = maxmargin.SemidefiniteMarginClustering(
        k, gamma=gamma, balance=0.0, size_penalty=float(X.shape[0]), ridge=1e-3 * scale,
        alpha=2.0 * scale / (X.shape[0] * C),
    )  # fmt: skip
    return _fitted(model.fit(X))


def paper_least_squares(X, k, seed, links=None, *, width, ridge, **params) -> Clusters:
    """The least-squares paper's search: sigma in units of the largest distance, no centring."""
    gamma = 0.5 / (width * largest_distance(X)) ** 2
    settings = {"center": False, "n_init": 1, "n_kicks": 0, "balance": 0} | params
    model = maxmargin.LeastSquaresMarginClustering(
        k, gamma=gamma, ridge=ridge, cluster_sizes=None, random_state=seed, **settings
    )
    return _fitted(model.fit(X))


def counted_shaking(X, k, seed, links=None, *, width, ridge, rounds=21) -> Clusters:
    """Algorithm 3 of the least-squares paper by itself: its iterations are the steps taken."""
    n = X.shape[0]
    gamma = 0.5 / (width * largest_distance(X)) ** 2
    K = np.exp(-gamma * euclidean_distances(X, squared=True))
    R = np.eye(n) - ridge * np.linalg.inv(K + ridge * np.eye(n))
    labels = (np.random.RandomState(seed).permutation(n) % k).astype(np.int32)
    caches = np.stack([R[:, labels == h].sum(axis=1) for h in range(k)])
    sizes, targets = np.bincount(labels, minlength=k).astype(float), np.full(k, n / k)
    state = (R, caches, labels, sizes, np.ones(n), np.zeros(n, bool), 0.0)
    scratch = make_scratch(n, R.dtype)
    steps = sum(shake_round(*state, targets, 0.5**i, scratch) for i in range(rounds))
    return Clusters(labels, float(steps))


def paper_cutting_plane(X, k, seed, links=None, *, rows="raw", **params) -> Clusters:
    """Cutting planes on raw rows, or on rows of unit length."""
    if rows == "unit":
        length = np.sqrt(np.asarray(_squares(X).sum(axis=1)).ravel())
        scale = 1.0 / np.where(length > 0, length, 1.0)
        X = sparse.diags(scale) @ X if sparse.issparse(X) else X * scale[:, None]
    return _ours("CuttingPlaneMarginClustering", X, k, seed, None, kernel="linear", **params)


def gaussian_cutting_plane(X, k, seed, links=None, *, width, **params) -> Clusters:
    """CPM3C with the least-squares paper's kernel, sigma in units of the largest distance."""
    gamma = 0.5 / (width * largest_distance(X)) ** 2
    params = {"kernel": "rbf", "gamma": gamma, "n_init": 1, "balance": 0.5} | params
    return _ours("CuttingPlaneMarginClustering", X, k, seed, None, **params)


def hu_with_links(X, k, seed, links, *, weights=(1.0, 10.0, 100.0), **params) -> Clusters:
    """Hu et al.: the weight of the unlabelled rows, too, is chosen by links that are held out."""
    models = [
        maxmargin.PairwiseMarginClustering(
            k, loss="hu", unlabeled_weight=weight, random_state=seed, **params
        ).fit(X, constraints=links)
        for weight in weights
    ]
    held_out = [max(model.cv_results_["link_accuracy"]) for model in models]
    return _fitted(models[int(np.argmax(held_out))])


def paper_multiple_kernel(X, k, seed, links=None, *, kernels, width=1.0, **params) -> Clusters:
    """K1, K2, K3 of the multiple kernel paper, alone or together; its Gaussian's width is free."""
    specs = {"K1": "linear", "K2": ("poly", {"degree": 2}), "K3": ("rbf", {"width": width})}
    chosen = [specs[name] for name in kernels]
    return _ours("MultipleKernelMarginClustering", X, k, seed, None, kernels=chosen, **params)


def _gaussian_kernels(X, k, seed, links=None, *, count, **params) -> Clusters:
    kernels = [("rbf", {"width": w}) for w in np.geomspace(1.0, 8.0, count).round(2).tolist()]
    return _ours("MultipleKernelMarginClustering", X, k, seed, None, kernels=kernels, **params)


# -- widths of kernels ----------------------------------------------------------------------------


def _squares(X):
    return X.multiply(X) if sparse.issparse(X) else X * X


def _some_rows(X):
    if X.shape[0] <= WIDTH_ROWS:
        return X
    return X[np.random.RandomState(0).choice(X.shape[0], WIDTH_ROWS, replace=False)]


def gaussian_gamma(X, width: float) -> float:
    """Return 1 / sigma^2 for a sigma of ``width`` median distances."""
    rows = _some_rows(X)
    squares = euclidean_distances(rows, squared=True)[np.triu_indices(rows.shape[0], 1)]
    return 1.0 / (width**2 * float(np.median(squares)))


def mean_kernel(X, gamma: float) -> float:
    """Mean of the Gaussian kernel over all pairs of rows."""
    return float(np.exp(-gamma * euclidean_distances(_some_rows(X), squared=True)).mean())


def largest_distance(X) -> float:
    """Largest distance between two rows."""
    return float(np.sqrt(euclidean_distances(_some_rows(X), squared=True).max()))


# -- the papers' baselines ------------------------------------------------------------------------


def _dense(X):
    return X.toarray() if sparse.issparse(X) else X


def _random_labels(X, k, seed, links=None) -> Clusters:
    return Clusters(
        np.random.RandomState(seed).randint(k, size=X.shape[0]),
        predict=lambda rows: np.random.RandomState(seed).randint(k, size=rows.shape[0]),
    )


def _kmeans(X, k, seed, links=None, *, n_init=10) -> Clusters:
    from sklearn.cluster import KMeans

    model = KMeans(k, n_init=n_init, random_state=seed).fit(X)
    return Clusters(model.labels_, float(model.n_iter_), model.predict)


def kernel_kmeans(X, k, seed, links=None, *, width=1.0, n_init=10) -> Clusters:
    """Lloyd's algorithm in the feature space of a Gaussian kernel, the best of some starts."""
    rng = np.random.RandomState(seed)
    K = np.exp(-gaussian_gamma(X, width) * euclidean_distances(X, squared=True))
    best, least = np.zeros(X.shape[0], int), np.inf
    for _ in range(n_init):
        labels, cost = _lloyd(K, rng.choice(X.shape[0], k, replace=False))
        if cost < least:
            best, least = labels, cost
    return Clusters(best)


def _lloyd(K, seeds, max_iter: int = 100) -> tuple[np.ndarray, float]:
    labels = (np.diag(K)[seeds] - 2.0 * K[:, seeds]).argmin(axis=1)
    cost = np.inf
    for _ in range(max_iter):
        member = (labels[:, None] == np.arange(len(seeds))).astype(K.dtype)
        member /= np.maximum(member.sum(axis=0), 1.0)
        near = K @ member
        distance = np.einsum("ik,ik->k", member, near) - 2.0 * near
        new = distance.argmin(axis=1)
        cost = float(np.take_along_axis(distance, new[:, None], axis=1).sum())
        if (new == labels).all():
            break
        labels = new
    return labels, cost


def _normalized_cut(X, k, seed, links=None, *, width=1.0, unit="median") -> Clusters:
    from sklearn.cluster import SpectralClustering

    gamma = gaussian_gamma(X, width)
    if unit == "largest":
        gamma = 1.0 / (width * largest_distance(X)) ** 2
    K = np.exp(-gamma * euclidean_distances(X, squared=True))
    cut = SpectralClustering(k, affinity="precomputed", random_state=seed)
    return Clusters(cut.fit_predict(np.maximum(K, 1e-300)))


def _mixture(X, k, seed, links=None) -> Clusters:
    from sklearn.decomposition import PCA
    from sklearn.mixture import GaussianMixture

    if X.shape[1] > 100:  # a full covariance needs more rows than columns
        X = PCA(min(50, X.shape[0]), random_state=0).fit_transform(_dense(X))
    X = X.astype(np.float64)
    return Clusters(GaussianMixture(k, random_state=seed, reg_covar=1e-3).fit_predict(X))


def _nearest_neighbours(X, k, seed, links=None) -> Clusters:
    from sklearn.cluster import SpectralClustering

    cut = SpectralClustering(k, affinity="nearest_neighbors", random_state=seed)
    return Clusters(cut.fit_predict(X))


def _with_links(name: str, X, k, seed, links) -> Clusters:
    model = getattr(baselines, name)(k, random_state=seed)
    return Clusters(model.fit(_dense(X), constraints=links).labels_)


def _dca(X, k, seed, links) -> Clusters:
    mapped = baselines.DCA().fit(_dense(X), constraints=links).transform(_dense(X))
    return _kmeans(mapped, k, seed)


def _without_links(X, k, seed, links=None, **params) -> Clusters:
    params = {"kernel": "linear", "balance": 0.5} | params
    return _ours("CuttingPlaneMarginClustering", X, k, seed, None, **params)


# -- peers of today -------------------------------------------------------------------------------


def _of_sklearn(name: str, seeded: bool, X, k, seed, links=None, **params) -> Clusters:
    kind = getattr(import_module("sklearn.cluster"), name)
    given = {"random_state": seed} if seeded else {}
    return Clusters(kind(k, **given, **params).fit_predict(_dense(X)))


def _hdbscan(X, k, seed, links=None) -> Clusters:
    """Finds the number of clusters itself; rows that it calls noise are a cluster of their own."""
    from sklearn.cluster import HDBSCAN

    return Clusters(HDBSCAN(copy=True).fit_predict(_dense(X)))


def _gemclus(X, k, seed, links=None) -> Clusters:
    model = import_module("gemclus.linear").LinearMMD
    return Clusters(model(n_clusters=k, random_state=seed).fit_predict(_dense(X)))


def _rlscore(X, k, seed, links=None) -> Clusters:
    learner = import_module("rlscore.learner").MMC
    found = learner(_dense(X), regparam=1.0, number_of_clusters=k, kernel="GaussianKernel")
    signs = np.asarray(found.results["predicted_clusters_for_training_data"])
    return Clusters(signs.argmax(axis=1) if signs.ndim == 2 else (signs > 0).astype(int))


def _active_pckmeans(X, k, seed, links=None) -> Clusters:
    kind = import_module("active_semi_clustering.semi_supervised.pairwise_constraints").PCKMeans
    model = kind(n_clusters=k)
    with np.errstate():  # its import turns numpy's warnings into errors for the whole process
        model.fit(_dense(X), ml=links.must_link.tolist(), cl=links.cannot_link.tolist())
    return Clusters(np.asarray(model.labels_))


SQUARE = 4000  # rows up to which an n x n matrix is formed
METHODS: dict[str, Method] = {
    "alternating": Method(
        OURS, partial(_ours, "AlternatingMarginClustering"), "AlternatingMarginClustering"
    ),
    "alternating, paper": Method(OURS, paper_alternating, "iterative SVM, LS-SVM, SVR"),
    "alternating, linear": Method(OURS, linear_alternating, "iterative SVM and SVR, linear kernel"),
    "cutting-plane": Method(
        OURS,
        partial(_ours, "CuttingPlaneMarginClustering"),
        "CuttingPlaneMarginClustering",
    ),
    "cutting-plane, paper": Method(OURS, paper_cutting_plane, "CPM3C"),
    "pairwise": Method(
        OURS, partial(_ours, "PairwiseMarginClustering"), "PairwiseMarginClustering"
    ),
    "least-squares": Method(
        OURS, partial(_ours, "LeastSquaresMarginClustering"), "LeastSquaresMarginClustering"
    ),
    "least-squares, paper": Method(OURS, paper_least_squares, "unsupervised RLS"),
    "least-squares, steps": Method(OURS, counted_shaking, "shaking, steps counted", most_rows=4000),
    "multiple-kernel": Method(
        OURS,
        partial(_ours, "MultipleKernelMarginClustering"),
        "MultipleKernelMarginClustering",
    ),
    "multiple-kernel, paper": Method(OURS, paper_multiple_kernel, "MKC"),
    "multiple-kernel, gaussians": Method(OURS, _gaussian_kernels, "MKC with Gaussian kernels"),
    "semidefinite": Method(
        OURS, partial(_ours, "SemidefiniteMarginClustering"), "SemidefiniteMarginClustering",
        most_rows=1200,
    ),
    "semidefinite, full": Method(
        OURS, partial(_ours, "SemidefiniteMarginClustering"), "MMC (Xu et al.)", "scs",
        "pip install scs", most_rows=150,
    ),
    "semidefinite, paper": Method(OURS, paper_generalized, "GMMC", most_rows=2400),
    "k-means": Method(BASELINE, _kmeans, "k-means"),
    "random labels": Method(BASELINE, _random_labels, "random labels"),
    "kernel k-means": Method(BASELINE, kernel_kmeans, "kernel k-means", most_rows=SQUARE),
    "normalized cut": Method(BASELINE, _normalized_cut, "normalized cut", most_rows=SQUARE),
    "Gaussian mixture": Method(BASELINE, _mixture, "Gaussian mixture", most_rows=20_000),
    "spectral, 10-NN": Method(BASELINE, _nearest_neighbours, "spectral, 10-NN", most_rows=10_000),
    "PCKMeans": Method(BASELINE, partial(_with_links, "PCKMeans"), "PCKMeans"),
    "MPCKMeans": Method(BASELINE, partial(_with_links, "MPCKMeans"), "MPCKMeans", most_rows=2500),
    "DCA + k-means": Method(BASELINE, _dca, "DCA + k-means"),
    "Hu et al.": Method(
        BASELINE, partial(_ours, "PairwiseMarginClustering", loss="hu"), "Hu et al. (CPCMMC)"
    ),
    "Hu et al., chosen": Method(BASELINE, hu_with_links, "Hu et al. (CPCMMC), weights chosen"),
    "cutting planes, Gaussian": Method(BASELINE, gaussian_cutting_plane, "CPMMC, Gaussian kernel"),
    "cutting planes without links": Method(BASELINE, _without_links, "cutting planes (CPMMC)"),
    "MiniBatchKMeans": Method(
        PEER, partial(_of_sklearn, "MiniBatchKMeans", True, n_init=10), "MiniBatchKMeans"
    ),
    "Ward": Method(
        PEER, partial(_of_sklearn, "AgglomerativeClustering", False), "Ward", most_rows=10_000
    ),
    "HDBSCAN": Method(PEER, _hdbscan, "HDBSCAN (finds k itself)", most_rows=10_000),
    "gemclus": Method(
        PEER, _gemclus, "gemclus LinearMMD", "gemclus", "pip install gemclus", most_rows=1000
    ),
    "RLScore": Method(
        PEER, _rlscore, "RLScore MMC", "rlscore", "build it from its repository", most_rows=4000
    ),
    "active-semi-supervised-clustering": Method(
        PEER, _active_pckmeans, "active-semi-supervised-clustering PCKMeans",
        "active_semi_clustering", "pip install active-semi-supervised-clustering", most_rows=2000,
    ),
}  # fmt: skip
