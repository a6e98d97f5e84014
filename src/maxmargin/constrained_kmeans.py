r"""What others do with links: penalised k-means, with and without a learned metric, and DCA.

These stand beside :class:`~maxmargin.PairwiseMarginClustering` as its paper's comparisons; they are
k-means at heart, with its round clusters.

.. math::
    \sum_i |x_i - \mu_{l_i}|^2_{A_{l_i}} - \log\det A_{l_i}
    + \sum_{M} w\, f_M\, [l_i \ne l_j] + \sum_{C} w\, f_C\, [l_i = l_j]

* :class:`PCKMeans`, Basu, Banerjee & Mooney, SIAM Data Mining 2004: A = I, f_M = f_C = 1 in
  units of the mean squared distance to the mean.
* :class:`MPCKMeans`, Bilenko, Basu & Mooney, ICML 2004: diagonal A_h learned for each cluster; a
  broken must-link costs more between distant rows, a broken cannot-link between near ones.
* :class:`DCA`, Hoi, Liu, Lyu & Ma, CVPR 2006: the linear map that spreads what is linked apart and
  whitens what is linked together.
"""

from __future__ import annotations

from numbers import Integral, Real

import numpy as np
from scipy import sparse
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    TransformerMixin,
)
from sklearn.cluster import kmeans_plusplus
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from ._compat import Interval
from .constraints import PairwiseConstraints
from .engine.links import Links
from .engine.threads import one_thread
from .kernels.pairs import penalised_round

__all__ = ["DCA", "MPCKMeans", "PCKMeans"]


def _checked_constraints(constraints, n: int) -> PairwiseConstraints:
    if constraints is None:
        return PairwiseConstraints(n)
    if not isinstance(constraints, PairwiseConstraints):
        raise ValueError(
            f"constraints must be a PairwiseConstraints, got {type(constraints).__name__}."
        )
    if len(constraints) != n:
        raise ValueError(f"constraints are about {len(constraints)} rows, but X has {n} rows.")
    return constraints


class PCKMeans(ClusterMixin, BaseEstimator):
    """k-means that pays for every link it breaks.

    Parameters
    ----------
    n_clusters : int, default=2
    penalty : float, default=1.0
        Cost of a broken link of weight 1, in mean squared distances to the mean.
    n_init : int, default=4
        Starts: the first from the groups of the must-links, others with random seeds for the
        clusters that no group fills. The best by objective is kept.
    max_iter : int, default=100
    random_state : int, RandomState instance or None, default=None

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
    cluster_centers_ : ndarray of shape (n_clusters, n_features)
    violated_links_ : PairwiseConstraints
    objective_ : float
    n_iter_ : int

    Examples
    --------
    >>> from maxmargin import PairwiseConstraints
    >>> from maxmargin.constrained_kmeans import PCKMeans
    >>> X = [[0.0], [1.0], [5.0], [6.0], [3.2]]
    >>> links = PairwiseConstraints(5, must_link=[(4, 0)])
    >>> labels = PCKMeans(2, penalty=10.0, random_state=0).fit_predict(X, constraints=links)
    >>> bool(labels[4] == labels[0])
    True
    """

    _parameter_constraints: dict = {  # noqa: RUF012 - scikit-learn's convention
        "n_clusters": [Interval(Integral, 1, None, closed="left")],
        "penalty": [Interval(Real, 0, None, closed="left")],
        "n_init": [Interval(Integral, 1, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
    }

    def __init__(self, n_clusters=2, *, penalty=1.0, n_init=4, max_iter=100, random_state=None):
        self.n_clusters = n_clusters
        self.penalty = penalty
        self.n_init = n_init
        self.max_iter = max_iter
        self.random_state = random_state

    def fit(self, X, y=None, *, constraints=None):
        """Find the clusters of X.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : ignored
        constraints : PairwiseConstraints, optional

        Returns
        -------
        self : estimator
        """
        self._validate_params()
        X = validate_data(self, X, dtype=[np.float64, np.float32]).astype(np.float64)
        constraints = _checked_constraints(constraints, len(X))
        if len(X) < self.n_clusters:
            raise ValueError(
                f"n_samples={len(X)} should be >= n_clusters={self.n_clusters}: give more rows or "
                "fewer clusters."
            )
        random = check_random_state(self.random_state)
        with one_thread():
            runs = [self._run(X, constraints, random) for _ in range(self.n_init)]
        best = min(runs, key=lambda run: run[0])
        self.objective_, self.labels_, self.cluster_centers_, self.metrics_, self.n_iter_ = best
        self.violated_links_ = constraints.violations(self.labels_)
        return self

    def predict(self, X) -> np.ndarray:
        """Cluster with the nearest centre; links do not reach new rows."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=[np.float64, np.float32])
        return _costs(X, self.cluster_centers_, self.metrics_).argmin(axis=1).astype(np.int32)

    def _run(self, X, constraints, random):
        links, spread = (
            constraints.links(),
            max(float(((X - X.mean(axis=0)) ** 2).sum(1).mean()), 1e-300),
        )
        centres = neighbourhood_centres(X, constraints, self.n_clusters, random)
        metrics = np.ones((self.n_clusters, X.shape[1]))
        labels = np.full(len(X), -1, np.int64)
        indptr, partner, link, same = _link_lists(links, len(X))
        best = (np.inf, labels, centres, metrics)
        for n_iter in range(1, self.max_iter + 1):  # noqa: B007 - returned
            before = labels.copy()
            costs = _costs(X, centres, metrics)
            together, apart = self._pays(X, links, labels, metrics, spread)
            for _ in range(self.max_iter):
                order = random.permutation(len(X))
                if not penalised_round(
                    costs, labels, order, indptr, partner, link, same, together, apart
                ):
                    break
            centres = _means(X, labels, centres)
            metrics = self._metrics(X, links, labels, centres, metrics, spread)
            value = self._objective(X, links, labels, centres, metrics, spread)
            # A learned metric can raise the objective: the farthest pair moves with it.
            if value < best[0]:
                best = (value, labels.copy(), centres, metrics)
            if (labels == before).all():
                break
        value, labels, centres, metrics = best
        return value, labels.astype(np.int32), centres, metrics, n_iter

    def _pays(self, X, links, labels, metrics, spread) -> tuple[np.ndarray, np.ndarray]:
        """Cost of breaking each link, by cluster."""
        pay = np.repeat(self.penalty * spread * links.weights[:, None], self.n_clusters, axis=1)
        return pay, pay

    def _metrics(self, X, links, labels, centres, metrics, spread) -> np.ndarray:
        return metrics

    def _objective(self, X, links, labels, centres, metrics, spread) -> float:
        together, apart = self._pays(X, links, labels, metrics, spread)
        a, b = labels[links.first], labels[links.second]
        at = np.arange(len(links))
        broken_must = 0.5 * (together[at, a] + together[at, b]) * (links.same & (a != b))
        broken_cannot = apart[at, a] * (~links.same & (a == b))
        own = _costs(X, centres, metrics)[np.arange(len(X)), labels]
        return float(own.sum() + broken_must.sum() + broken_cannot.sum())


class MPCKMeans(PCKMeans):
    """PCKMeans with a diagonal metric learned for each cluster.

    Parameters
    ----------
    n_clusters, penalty, n_init, max_iter, random_state
        As for :class:`PCKMeans`.

    Attributes
    ----------
    metrics_ : ndarray of shape (n_clusters, n_features)
        Weight of every column in the distances to each cluster.
    labels_, cluster_centers_, violated_links_, objective_, n_iter_
        As for :class:`PCKMeans`.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin import PairwiseConstraints
    >>> from maxmargin.constrained_kmeans import MPCKMeans
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], 50)
    >>> X = np.column_stack([y + 0.2 * rng.normal(size=100), 3.0 * rng.normal(size=100)])
    >>> links = PairwiseConstraints.from_labels(y, n_pairs=60, random_state=0)
    >>> model = MPCKMeans(2, random_state=0).fit(X, constraints=links)
    >>> bool((model.metrics_[:, 0] > model.metrics_[:, 1]).all())
    True
    """

    def _pays(self, X, links, labels, metrics, spread):
        differences = (X[links.first] - X[links.second]) ** 2
        distances = differences @ metrics.T
        farthest = (_farthest_pairs(X, labels, metrics) * metrics).sum(axis=1)
        weight = self.penalty * links.weights[:, None]
        return weight * distances, weight * np.maximum(farthest - distances, 0.0)

    def _metrics(self, X, links, labels, centres, metrics, spread):
        scatter = np.zeros(metrics.shape)
        np.add.at(scatter, labels, (X - centres[labels]) ** 2)
        differences = (X[links.first] - X[links.second]) ** 2
        weights = self.penalty * links.weights[:, None]
        a, b = labels[links.first], labels[links.second]
        must, cannot = links.same & (a != b), ~links.same & (a == b)
        np.add.at(scatter, a[must], 0.5 * weights[must] * differences[must])
        np.add.at(scatter, b[must], 0.5 * weights[must] * differences[must])
        farthest = _farthest_pairs(X, labels, metrics)[a[cannot]]
        np.add.at(scatter, a[cannot], weights[cannot] * (farthest - differences[cannot]))
        sizes = np.maximum(np.bincount(labels, minlength=len(metrics)), 1)[:, None]
        # Columns that do not vary within a cluster would get an infinite weight.
        least = 1e-3 * np.maximum(X.var(axis=0), 1e-12 * spread)
        return 1.0 / np.maximum(scatter / sizes, least)


def _costs(X, centres, metrics) -> np.ndarray:
    """Squared distances in each cluster's metric, less its log-determinant."""
    costs = (X**2) @ metrics.T - 2.0 * X @ (metrics * centres).T
    costs += (metrics * centres**2).sum(axis=1)
    return np.maximum(costs, 0.0) - np.log(metrics).sum(axis=1)


def _means(X, labels, centres) -> np.ndarray:
    """Mean of every cluster; an empty one stays where it was."""
    sums = np.zeros(centres.shape)
    np.add.at(sums, labels, X)
    sizes = np.bincount(labels, minlength=len(centres))[:, None]
    return np.where(sizes > 0, sums / np.maximum(sizes, 1), centres)


def _farthest_pairs(X, labels, metrics) -> np.ndarray:
    """Squared differences of two distant rows in each metric, found in two sweeps."""
    out = np.empty(metrics.shape)
    for h, metric in enumerate(metrics):
        first = X[(((X - X.mean(axis=0)) ** 2) @ metric).argmax()]
        differences = (X - first) ** 2
        out[h] = differences[(differences @ metric).argmax()]
    return out


def _link_lists(links: Links, n: int):
    """Links by row: where each row's begin, the other row, the link and its kind."""
    rows = np.concatenate([links.first, links.second])
    order = np.argsort(rows, kind="stable")
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n))])
    partner = np.concatenate([links.second, links.first])[order]
    link = np.concatenate([np.arange(len(links))] * 2)[order]
    return indptr, partner, link, links.same[link]


def neighbourhood_centres(X, constraints, k: int, random) -> np.ndarray:
    """Means of must-linked groups, large and far from each other; then k-means++ seeds.

    Examples
    --------
    >>> X = np.array([[0.0], [0.2], [9.0], [9.2], [5.0]])
    >>> links = PairwiseConstraints(5, must_link=[(0, 1), (2, 3)])
    >>> neighbourhood_centres(X, links, 2, np.random.RandomState(0)).ravel()
    array([0.1, 9.1])
    """
    groups = constraints.groups()
    sizes = np.bincount(groups)
    large = np.flatnonzero(sizes > 1)
    members = sparse.csr_matrix((np.ones(len(X)), (groups, np.arange(len(X)))))
    means = (members @ X)[large] / sizes[large, None]
    chosen: list[int] = []
    while len(chosen) < min(k, len(large)):
        if not chosen:
            gain = sizes[large].astype(float)
        else:
            distances = ((means[:, None] - means[chosen][None]) ** 2).sum(axis=2).min(axis=1)
            gain = sizes[large] * distances
            gain[chosen] = -1.0
        chosen.append(int(gain.argmax()))
    missing = k - len(chosen)
    if missing == 0:
        return means[chosen]
    seeds = kmeans_plusplus(X, missing, random_state=random)[0]
    return np.concatenate([means[chosen], seeds])


class DCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Discriminative component analysis: a linear map learned from links.

    Parameters
    ----------
    n_components : int or None, default=None
        Most components; None keeps all in which linked-apart groups differ.
    shrinkage : float, default=0.01
        Multiple of the mean variance added to the scatter within groups, which few links leave
        singular.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
    mean_ : ndarray of shape (n_features,)

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin import PairwiseConstraints
    >>> from maxmargin.constrained_kmeans import DCA
    >>> X = np.array([[0.0, 0.0], [0.0, 9.0], [1.0, 0.0], [1.0, 9.0]])
    >>> links = PairwiseConstraints(4, must_link=[(0, 1), (2, 3)], cannot_link=[(0, 2)])
    >>> weights = np.abs(DCA().fit(X, constraints=links).components_[0])
    >>> bool(weights[0] > 3 * weights[1])
    True
    """

    _parameter_constraints: dict = {  # noqa: RUF012 - scikit-learn's convention
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "shrinkage": [Interval(Real, 0, None, closed="left")],
    }

    def __init__(self, n_components=None, *, shrinkage=0.01):
        self.n_components = n_components
        self.shrinkage = shrinkage

    def fit(self, X, y=None, *, constraints=None):
        """Learn the map; without links it is the identity on centred rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : ignored
        constraints : PairwiseConstraints, optional

        Returns
        -------
        self : estimator
        """
        self._validate_params()
        X = validate_data(self, X, dtype=[np.float64, np.float32]).astype(np.float64)
        constraints = _checked_constraints(constraints, len(X))
        self.mean_ = X.mean(axis=0)
        with one_thread():
            self.components_ = self._components(X - self.mean_, constraints)
        self._n_features_out = len(self.components_)
        return self

    def transform(self, X) -> np.ndarray:
        """Coordinates of the rows."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=[np.float64, np.float32])
        return (X - self.mean_) @ self.components_.T

    def _components(self, X, constraints) -> np.ndarray:
        d = X.shape[1]
        between, within = discriminative_scatters(X, constraints)
        if not between.any():
            return np.eye(d)[: self.n_components]
        within[np.diag_indices(d)] += self.shrinkage * max(np.trace(X.T @ X) / X.size, 1e-300)
        values, axes = np.linalg.eigh(between)
        keep = values > 1e-10 * values[-1]
        basis = axes[:, keep] / np.sqrt(values[keep])
        spread, turn = np.linalg.eigh(basis.T @ within @ basis)
        count = len(spread) if self.n_components is None else self.n_components
        # Smallest scatter within groups first: those directions tell most.
        return (basis @ (turn / np.sqrt(spread)))[:, :count].T


def discriminative_scatters(X, constraints) -> tuple[np.ndarray, np.ndarray]:
    """Scatter between groups that are linked apart, and within groups linked together.

    Rows that occur only in cannot-links are groups of one.

    Examples
    --------
    >>> X = np.array([[0.0], [2.0], [5.0]])
    >>> links = PairwiseConstraints(3, must_link=[(0, 1)], cannot_link=[(1, 2)])
    >>> discriminative_scatters(X, links)
    (array([[16.]]), array([[1.]]))
    """
    groups, apart = constraints.closure()
    sizes = np.bincount(groups, minlength=len(X))
    sums = np.zeros((len(sizes), X.shape[1]))
    np.add.at(sums, groups, X)
    means = sums / np.maximum(sizes, 1)[:, None]
    differences = means[apart[:, 0]] - means[apart[:, 1]]
    between = differences.T @ differences / max(len(apart), 1)
    rows = np.flatnonzero(sizes[groups] > 1)
    inside = X[rows] - means[groups[rows]]
    within = inside.T @ inside / max(len(rows), 1)
    return between, within
