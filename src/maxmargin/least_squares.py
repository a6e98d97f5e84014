r"""Least-squares margin clustering: a search over labels with constant-time tests and shaking.

Pahikkala, Airola, Gieseke & Kramer, "On Unsupervised Training of Multi-Class RLS Classifiers",
Journal of Computer Science and Technology, 2014. Labels c in {1..k}^n, one regularised
least-squares classifier per cluster:

.. math::
    \min_{c, f_1..f_k}\; \sum_h \Big( \sum_i (p_h(c_i) - f_h(x_i))^2 + \lambda |f_h|^2 \Big),
    \qquad p_h(c) = \pm 1

For given labels the classifiers are known in closed form, and with 0/1 indicators y_h

.. math::
    Q(c) = nk + (4 - k)\, 1'R1 - 4 \sum_h y_h' R y_h, \qquad R = K (K + \lambda I)^{-1}

so the method maximises the within-cluster sums of R. By default K is centred, which gives the
classifiers a bias: without it all rows in one cluster are the best labelling.

Beyond the paper, R may be the mean of those of several kernels and of a nearest-neighbour graph
(``engine.mixture``), and sizes may be tempered: with ``size_prior`` = p the search maximises

.. math::
    J_p = \sum_h y_h' R y_h / n_h^p = n^{1-p} \sum_h \pi_h^{1-p} (1 - \pi_h) R^2_h

where the second form, with the shares pi_h and the R^2 of the classifiers, holds for a centred R:
p = 0 is the paper's and for equal sizes, p = 1 (discriminative k-means) indifferent to them.

=====================================  =========================================================
in the paper                           here
=====================================  =========================================================
(5), (16) G and R                      ``engine.similarity.similarity_of`` (no eigendecomposition)
(7), (13), Lemma 1 (constant n)        ``paper_objective``
(9) prediction                         ``Similarity.coefficients``, ``decision_function``
Lemma 2, (17) constant-time test       ``kernels.flips``: gain 2 (T_dj - T_aj + R_jj)
Lemma 3, update of the caches          ``kernels.flips._move``
Algorithm 1, stochastic                ``search="stochastic"``, ``kernels.flips.stochastic_round``
Algorithm 2, steepest                  ``search="steepest"``, ``kernels.flips.steepest_steps``
Algorithm 3, (14), shaking             ``search="shaking"``, ``kernels.flips.shake_round``
balancing constraint b_c               ``balance = 1 - b_c``
section 5, known labels                ``partial_labels``, ``partial_start``
=====================================  =========================================================
"""

from __future__ import annotations

import time
import warnings
from dataclasses import replace
from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from ._base import SHARED_CONSTRAINTS, STRENGTH, BaseMarginClustering, Model
from ._compat import Interval, StrOptions
from .engine.axes import principal_axes, whitening_axes
from .engine.balance import row_losses, size_floor, warn_short
from .engine.blocks import RowBlocks
from .engine.confidence import calibrate
from .engine.decisions import decisions
from .engine.device import DeviceBlocks
from .engine.features import KERNELS, FeatureMap, kernel_basis, kernel_params
from .engine.labels import (
    COARSE,
    GENTLE,
    SHAKES,
    Found,
    LabelProblem,
    SearchSettings,
    adapted_sizes,
    grown_labels,
    keep_known,
    lead_of,
    predictive_score,
    random_labels,
    search_labels,
    settle,
    supervised_labels,
)
from .engine.mixture import MixedMap, mixed_map, mixed_similarity
from .engine.resampling import SHARE, pair_agreement, part_of, resampled_labels
from .engine.similarity import (
    FLOAT64_ROWS,
    Similarity,
    factor_dtype,
    make_similarity,
    similarity_of,
)
from .engine.spreads import spread_clusters

AUTO_STARTS = 10
SIZE_DOUBT = 0.04  # gain in leave-one-out R2 from which on the user is told about sizes
SIZE_CHECK_ROWS = 400
MAX_DESCENT_ROUNDS = 200
TEMPERED_STARTS, TEMPERED_KICKS = 8, 24
FIRST_ROWS = 2000  # rows of the first of two fits
FIRST_SHARE = 0.3  # of the time, for the first of two fits
NO_LIMIT = 10**9
TRUSTED = 1e3  # largest weight over ridge for which labels of many rows come from the caches
RESAMPLED_ROWS, RESAMPLE_STARTS, RESAMPLE_KICKS = 1500, 3, 3
DENSE_SHARE = 0.05  # CSR rows with more non-zeros than this are read as dense ones
WIDEST_WHITENED, ROWS_PER_COLUMN = 100, 5
ROWS_PER_NEIGHBOR = 3  # least number of rows per cluster and neighbour in the graph
SPREAD_RATIO = 2.0  # least ratio of squared scales
WELL_PREDICTED, SPREAD_LOSS = 0.9, 0.06  # leave-one-out R2


class LeastSquaresMarginClustering(BaseMarginClustering):
    """Clusters whose one-against-all least-squares classifiers fit best.

    The default assumes clusters of SIMILAR SIZE: shaking pulls all of them towards ``n / k`` rows.
    Give ``cluster_sizes`` where that is wrong; a warning is issued where leave-one-out predictions
    contradict the sizes.

    Parameters
    ----------
    n_clusters : int, default=2
    search : {"shaking", "steepest", "stochastic"}, default="shaking"
        The paper's Algorithms 3, 2 and 1. The last two are there for comparison: they get stuck.
    kernel : str, callable or list of them, default="rbf"
        As in :func:`sklearn.metrics.pairwise.pairwise_kernels`, or "precomputed". The similarities
        R of several kernels are averaged.
    gamma : "auto", "median", float or None, default="auto"
        Width of the kernel. "auto": exp(-d^2 / (2 sigma^2)) with sigma half the median distance;
        "median": 1 / median squared distance.
    degree, coef0 : float, default=3 and 1
        Of the polynomial and sigmoid kernels.
    ridge : float, default=1.0
        lambda above, from 1e-12 to 1e12, for a kernel with unit mean diagonal. Values near 1 are
        good for any n.
    n_neighbors : int, default=0
        Neighbours in a graph whose R joins the average; 0 for no graph. Fewer are used where there
        are less than three rows for each of them and each cluster.
    size_prior : float in [0, 1], default=0.0
        p in J_p: 0 is for clusters of equal size, 1 indifferent to sizes; 0.75 suits most data of
        unknown sizes.
    whiten : bool, default=False
        Cluster twice: the second time in the metric in which the first clusters are round (where
        there are at most 100 columns and five rows for each). Needs ``size_prior`` > 0.
    spreads : bool, default=False
        Whether clusters may differ in spread instead of place (a narrow cloud within a wide one):
        where a mixture of one shape and several scales finds that they do, and the clusters by
        place are not predicted well, its clusters are taken. Needs ``whiten``.
    center : bool, default=True
        Whether the classifiers have a bias (the kernel is centred); False is the paper's kernel.
    cluster_sizes : None, "adaptive" or array-like of shape (n_clusters,), default=None
        Sizes that shaking pulls the clusters to: equal, taken from leave-one-out predictions, or
        given as row counts or proportions.
    n_init : int or "auto", default="auto"
        Random starts; they share R and cost little. "auto" is 10. With ``size_prior`` > 0
        it is 8, and as many again that are not shaken.
    n_kicks : int or "auto", default="auto"
        Attempts to improve the best labels by re-dealing two clusters. "auto" is half the number of
        clusters; with ``size_prior`` > 0 it is 24, and clusters are merged and split, too.
    partial_start : {"auto", "supervised", "grow"}, default="auto"
        With ``partial_labels``: start from the classifiers of the labelled rows, let clusters grow
        from them, or try both and keep the better objective.
    max_exact : int, default=4000
        Most rows to fit on (memory is 4 max_exact^2 bytes); more are subsampled, and the model
        labels the rest.
    n_components : int or None, default=None
        Rank of a low-rank kernel (Nystroem); loses quality, because good settings have a high
        effective rank.
    pca : int or None, default=None
        Reduce dense rows to this many principal components first.
    balance : float, default=0.1
        Every cluster keeps at least ``balance * n / n_clusters`` rows.
    n_resamples : int, default=0
        Random parts of the data that are clustered again, for ``confidence_`` and ``stability_``.
    time_budget : float or None, default=None
        With ``search="shaking"``: seconds after which no start or kick begins; kicks go on until
        then unless ``n_kicks`` is given. The answer then depends on the speed of the machine.
    max_iter : int, default=200
        Most rounds of "stochastic" and "steepest".
    warm_start : bool, default=False
        Start from the labels that the previous fit predicts, and shake them gently.
    verbose : int, default=0
    random_state : int, RandomState instance or None, default=None
    n_jobs : int or None, default=None
        Threads over starts and blocks of rows.

    Attributes
    ----------
    labels_, cluster_sizes_, exemplar_indices_
        As everywhere.
    coef_, intercept_ : ndarray of shape (n_clusters, n_fitted) and (n_clusters,)
        The classifiers in terms of kernel values to the rows fitted on.
    confidence_ : ndarray of shape (n_samples,)
        With ``n_resamples`` > 0: share of resamples in which rows of that cluster with such a
        leave-one-out margin kept their cluster.
    stability_ : float
        With ``n_resamples`` > 0: mean adjusted Rand index between the answers to two resamples.
    leave_one_out_ : float
        Share of the rows fitted on that the classifiers trained without them label alike.
    leave_one_out_margins_ : ndarray of shape (n_fitted,)
        Lead of each row's own cluster in that prediction.
    fitted_indices_ : ndarray
        Rows the classifiers were fitted on.
    objective_ : float
        The paper's Q.
    history_ : list of float
        Q after each round of the best start.

    References
    ----------
    T. Pahikkala, A. Airola, F. Gieseke, O. Kramer. On Unsupervised Training of Multi-Class
    Regularized Least-Squares Classification. Journal of Computer Science and Technology 29, 2014.

    Examples
    --------
    >>> from maxmargin import LeastSquaresMarginClustering
    >>> from maxmargin.metrics import adjusted_rand_score
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LeastSquaresMarginClustering(3, random_state=0).fit(X)
    >>> adjusted_rand_score(y, model.labels_) > 0.85
    True
    """

    _parameter_constraints: dict = {  # noqa: RUF012 - scikit-learn's convention
        **{k: v for k, v in SHARED_CONSTRAINTS.items() if k != "tol"},
        "gamma": [StrOptions({"auto", "median"}), Interval(Real, 0, None, closed="neither"), None],
        "kernel": [*SHARED_CONSTRAINTS["kernel"], list, tuple],
        "search": [StrOptions({"shaking", "steepest", "stochastic"})],
        "n_neighbors": [Interval(Integral, 0, None, closed="left")],
        "size_prior": [Interval(Real, 0, 1, closed="both")],
        "whiten": ["boolean"],
        "spreads": ["boolean"],
        "ridge": [STRENGTH],
        "center": ["boolean"],
        "cluster_sizes": [None, StrOptions({"adaptive"}), "array-like"],
        "n_kicks": [StrOptions({"auto"}), Interval(Integral, 0, None, closed="left")],
        "partial_start": [StrOptions({"auto", "supervised", "grow"})],
        "max_exact": [Interval(Integral, 2, None, closed="left")],
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "pca": [Interval(Integral, 1, None, closed="left"), None],
        "n_resamples": [Interval(Integral, 0, None, closed="left")],
        "time_budget": [Interval(Real, 0, None, closed="neither"), None],
    }

    def __init__(
        self,
        n_clusters=2,
        *,
        search="shaking",
        kernel="rbf",
        gamma="auto",
        degree=3,
        coef0=1,
        ridge=1.0,
        n_neighbors=0,
        size_prior=0.0,
        whiten=False,
        spreads=False,
        center=True,
        cluster_sizes=None,
        n_init="auto",
        n_kicks="auto",
        partial_start="auto",
        max_exact=4000,
        n_components=None,
        pca=None,
        n_resamples=0,
        time_budget=None,
        balance=0.1,
        max_iter=MAX_DESCENT_ROUNDS,
        warm_start=False,
        verbose=0,
        random_state=None,
        n_jobs=None,
    ):
        self.n_clusters = n_clusters
        self.search = search
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.ridge = ridge
        self.n_neighbors = n_neighbors
        self.size_prior = size_prior
        self.whiten = whiten
        self.spreads = spreads
        self.center = center
        self.cluster_sizes = cluster_sizes
        self.n_init = n_init
        self.n_kicks = n_kicks
        self.partial_start = partial_start
        self.max_exact = max_exact
        self.n_components = n_components
        self.pca = pca
        self.n_resamples = n_resamples
        self.time_budget = time_budget
        self.balance = balance
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.verbose = verbose
        self.random_state = random_state
        self.n_jobs = n_jobs

    def estimate_memory(self, n_samples: int, n_features: int, in_blocks: bool = False) -> int:
        """Peak memory in bytes that a fit needs beyond X itself."""
        m = min(n_samples, self.max_exact)
        itemsize = 4 if self.ridge >= 0.25 else 12
        matrices = len(self._kernels()) + 1 if self._mixed() else 1
        return int(itemsize * matrices * m**2 + 8 * m * n_features + 64 * n_samples)

    def _mergeable(self) -> bool:
        return True

    def _kernels(self) -> list:
        return list(self.kernel) if isinstance(self.kernel, (list, tuple)) else [self.kernel]

    def _mixed(self) -> bool:
        """Whether R is an average."""
        return self.n_neighbors > 0 or len(self._kernels()) > 1

    def _decision_losses(self, decision):
        margins = decision.max(axis=1)
        return row_losses(np.ones(len(margins)), 2.0 * margins - 1.0, "squared")

    # -- the fit ----------------------------------------------------------------------------------

    def _fit_features(self, sample, rng, n_jobs):
        self._check_combination()
        self._began = time.monotonic()
        chosen = self._subset(sample, rng)
        self._fitted_rows = chosen
        X = rows_in_memory(sample.X, chosen)
        self._first_labels = None
        fmap: FeatureMap | MixedMap
        if (self._mixed() or self.whiten) and isinstance(sample.X, DeviceBlocks):
            raise ValueError(
                "Several kernels, n_neighbors > 0 and whiten=True work on rows of the host: pass "
                "X.cpu().numpy()."
            )
        if self._mixed() or self.whiten:
            fmap = self._mixed_map(X, sample, chosen, rng)
        else:
            fmap = self._kernel_map(X, sample.weights[chosen], rng)
        return fmap, fmap.rows(sample.X, n_jobs)

    def _check_combination(self) -> None:
        """Refuse parameters that do not go together."""
        kernels = self._kernels()
        allowed = [k for k in KERNELS if k != "precomputed" or len(kernels) == 1]
        unknown = [k for k in kernels if not callable(k) and k not in allowed]
        if unknown or not kernels:
            raise ValueError(
                f"kernel must be one or several of {', '.join(KERNELS[:-1])} or functions, or "
                f"'precomputed' alone; got {self.kernel!r}."
            )
        if self._mixed() and (self.n_components is not None or not self.center):
            raise ValueError(
                "n_neighbors > 0 and several kernels need center=True and n_components=None; got "
                f"center={self.center} and n_components={self.n_components}."
            )
        if self.size_prior > 0 and self.search == "steepest":
            raise ValueError("size_prior > 0 goes with search='shaking' or 'stochastic'.")
        if self.whiten and (self.size_prior == 0 or self.search != "shaking"):
            raise ValueError("whiten=True needs size_prior > 0 and search='shaking'.")
        if self.spreads and not self.whiten:
            raise ValueError("spreads=True needs whiten=True.")

    def _mixed_map(self, X, sample, chosen, rng) -> MixedMap:
        """Map of the averaged similarities, in the metric of the first clusters if asked for."""
        weights = sample.weights[chosen]
        dense = sparse.issparse(X) and X.nnz >= DENSE_SHARE * X.shape[0] * X.shape[1]
        rows = X.toarray() if dense else X
        axes = None
        if self.whiten and not sparse.issparse(rows) and _can_whiten(rows.shape, self):
            axes = self._metric(rows, weights, sample.known[chosen], rng)
        kernels = [self._kernel_map(rows, weights, rng, kernel, axes) for kernel in self._kernels()]
        # More neighbours than a cluster has rows would tie clusters together.
        most = max(1, len(weights) // (ROWS_PER_NEIGHBOR * self.n_clusters))
        return mixed_map(kernels, X, min(self.n_neighbors, most), dense)

    def _metric(self, X, weights, known, rng) -> np.ndarray | None:
        """Axes in which the clusters of a first fit are round; its labels become a start."""
        first = clone(self).set_params(
            whiten=False,
            spreads=False,
            n_resamples=0,
            max_exact=min(self.max_exact, FIRST_ROWS),
            time_budget=None if self.time_budget is None else FIRST_SHARE * self.time_budget,
            warm_start=False,
            verbose=0,
        )
        first.set_params(random_state=int(rng.integers(2**31 - 1)))
        partial = known if (known >= 0).any() else None
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "balance=")  # sizes count in the second fit
            first._fit(X, weights, partial)
        self._first_labels = first.labels_
        return whitening_axes(X, first.labels_, weights)

    def _subset(self, sample, rng) -> np.ndarray:
        """Rows to fit on: all, or all with known labels and a random choice of the others."""
        n = len(sample.weights)
        if n <= self.max_exact:
            return np.arange(n)
        if self._pairwise:
            raise ValueError(
                f"kernel='precomputed' with {n} rows needs max_exact >= {n} "
                f"({4 * n**2 / 2**30:.1f} GiB), got max_exact={self.max_exact}."
            )
        known = rng.permutation(np.flatnonzero(sample.known >= 0))[: self.max_exact]
        others = np.setdiff1d(np.arange(n), known)
        more = rng.choice(others, self.max_exact - len(known), replace=False)
        return np.sort(np.concatenate([known, more]))

    def _kernel_map(self, X, weights, rng, kernel=None, axes=None) -> FeatureMap:
        kernel, offset = kernel or self._kernels()[0], None
        shift = kernel in ("rbf", "laplacian") or (kernel == "linear" and self.center)
        if not sparse.issparse(X) and (self.pca is not None or shift or axes is not None):
            offset = np.average(X, axis=0, weights=weights).astype(X.dtype)
        if self.pca is not None and axes is None:
            axes = principal_axes(X, offset, weights, self.pca).astype(X.dtype)
        dtype = np.dtype(factor_dtype(len(weights), self.ridge))
        plain = FeatureMap(kernel, {}, None, None, offset, np.zeros(0), 1.0, dtype, axes)
        points = np.arange(X.shape[0]) if self._pairwise else plain.points(X)
        params = {}
        if not self._pairwise:
            given = (kernel, self.gamma, self.degree, self.coef0)
            params = kernel_params(points, *given, rng)
        fmap = replace(plain, params=params, landmarks=points, offset=np.zeros(X.shape[0]))
        if self.n_components is None or self.n_components >= X.shape[0]:
            return fmap
        few = np.sort(rng.choice(X.shape[0], self.n_components, replace=False))
        fmap = replace(fmap, landmarks=points[few])
        projection = kernel_basis(fmap.kernel_values(X[few]), kernel, dtype)
        return replace(fmap, projection=projection, offset=np.zeros(projection.shape[1]))

    def _fit_rows(self, rows, sample, fmap, rng, watch, warm) -> Model:
        chosen = self._fitted_rows
        X = rows_in_memory(sample.X, chosen)
        weights, known = sample.weights[chosen], sample.known[chosen]
        similarity, basis = self._similarity(fmap, X, weights, rows.n_jobs, sample.place)
        problem = self._problem(similarity, known, sample)
        settings = self._settings(rng, watch, rows.n_jobs)
        if warm is not None:
            gently = GENTLE if self.size_prior == 0 else SHAKES
            starts = [(keep_known(warm[sample.source[chosen]], known), gently)]
        elif (known >= 0).any():
            starts = [(labels, GENTLE) for labels in self._from_known(problem, fmap, X)]
            settings = replace(settings, n_kicks=0)  # a kick can swap the names of two clusters
        else:
            starts = self._starts(problem, rng)
        if self._first_labels is not None:
            # Not to be shaken: their sizes need not be the targets.
            starts.insert(0, (keep_known(self._first_labels, known), SHAKES))
        del self._first_labels, self._began
        found = search_labels(problem, starts, settings)
        if self.spreads and fmap.axes is not None:
            found = self._by_spread(problem, found, fmap)
        labels, caches, prices = settle(problem, found.labels)
        coef, intercept = similarity.coefficients(caches, labels)
        scores = similarity.fitted(caches, labels) + prices
        self._fitted_scores = scores
        loo = similarity.leave_one_out(caches, labels) + prices
        margins = lead_of(loo, labels)
        sureness = self._sureness(problem, settings, labels, margins, found, fmap, X)
        if warm is None and not (known >= 0).any():
            self._warn_about_sizes(fmap, X, weights, settings)
        return Model(
            coef=coef if basis is None else coef @ basis,
            intercept=intercept + prices,
            paths=np.eye(self.n_clusters),
            objective=found.history[-1],
            history=found.history,
            n_iter=len(found.history),
            stop_reason=watch.reason or found.stop_reason,
            extras={
                "leave_one_out_": float(np.average(loo.argmax(axis=1) == labels, weights=weights)),
                "leave_one_out_margins_": margins,
                "fitted_indices_": sample.source[chosen],
                **sureness,
            },
        )

    def _by_spread(self, problem, found, fmap) -> Found:
        """Clusters by spread instead, where they differ in it and are predicted as well, nearly.

        Only where clusters by place leave something unexplained: what is predicted well is not a
        matter of spread.
        """
        k, weights = self.n_clusters, problem.similarity.weights
        fit = predictive_score(problem, found.labels) / (k - 1)
        if fit >= WELL_PREDICTED:
            return found
        labels, scales = spread_clusters(fmap.landmarks, found.labels, weights, k)
        labels = keep_known(labels, problem.known)
        sizes = np.bincount(labels, weights, minlength=k)
        alike = scales.max() < SPREAD_RATIO * scales.min()
        if alike or sizes.min() < max(problem.floor, problem.unit):
            return found
        if predictive_score(problem, labels) / (k - 1) < fit - SPREAD_LOSS:
            return found
        value = problem.value(labels, problem.similarity.caches(labels, k))
        history = [*found.history, problem.paper_value(value)]
        return replace(found, labels=labels, value=value, history=history)

    def _sureness(self, problem, settings, labels, margins, found, fmap, X) -> dict:
        """What resamples say about the clusters, and how margins become confidence."""
        if self.n_resamples == 0:
            return {}
        self._margins, self._found = margins, found
        rows = np.arange(len(labels))
        if len(rows) > RESAMPLED_ROWS:
            rows = np.sort(settings.rng.choice(len(labels), RESAMPLED_ROWS, replace=False))
        weights = problem.similarity.weights[rows]
        labels, margins = labels[rows], margins[rows]

        def similarity(part):
            smaller = fmap.part(rows[part])
            return self._similarity(smaller, X[rows[part]], weights[part], settings.n_jobs)[0]

        resampled = resampled_labels(
            part_of(problem, rows),
            replace(settings, n_kicks=min(settings.n_kicks, RESAMPLE_KICKS), deadline=None),
            # Of so few rows that a part has less than one a cluster, nothing can be said.
            self.n_resamples if SHARE * len(labels) >= self.n_clusters else 0,
            RESAMPLE_STARTS,
            labels if (problem.known >= 0).any() else None,
            similarity,
        )
        self._calibration = calibrate(margins, labels, resampled, self.n_clusters)
        agreement = pair_agreement(resampled, self.n_clusters)[:, 0]
        return {"stability_": float(agreement.mean()) if len(agreement) else 0.0}

    def _similarity(self, fmap, X, weights, n_jobs, place=None) -> tuple[Similarity, Any]:
        """R, and for a low-rank kernel the features that coefficients are folded into."""
        if isinstance(fmap, MixedMap):
            X = X.toarray() if fmap.dense else X
            return mixed_similarity(fmap, X, weights, self.ridge, n_jobs), None
        if fmap.projection is None:
            how = self.ridge, self.center, n_jobs, place
            return make_similarity(fmap, X, weights, *how), None
        basis = fmap.stored_rows(X, n_jobs).data
        K = basis @ basis.T
        scale = float(np.average(np.diag(K), weights=weights))
        K /= K.dtype.type(scale)
        return similarity_of(K, scale, weights, self.ridge, self.center), basis

    def _problem(self, similarity, known, sample) -> LabelProblem:
        weights = similarity.weights
        total, k = weights.sum(), self.n_clusters
        floor = size_floor(self.balance, total, k, sample.whole)
        targets = self._targets(total, sample.weights.sum(), known, weights)
        if (targets < floor - 1e-9).any():
            floor = float(targets.min())
        known = known.astype(np.int32)
        return LabelProblem(similarity, k, targets, floor, known, self.size_prior)

    def _targets(self, total, n, known, weights) -> np.ndarray:
        k, given = self.n_clusters, self.cluster_sizes
        if given is None or isinstance(given, str):
            counts = np.bincount(known[known >= 0], weights[known >= 0], minlength=k)
            # With a handful of labels per cluster their proportions mean something.
            enough = counts.min() >= 1 and counts.sum() >= 5 * k
            return total * (counts / counts.sum() if enough else np.full(k, 1.0 / k))
        sizes = np.asarray(given, np.float64)
        if sizes.shape != (k,) or not np.isfinite(sizes).all() or (sizes <= 0).any():
            raise ValueError(
                f"cluster_sizes must be {k} positive numbers, one per cluster; got {given!r}."
            )
        if abs(sizes.sum() - 1.0) > 1e-6 and abs(sizes.sum() - n) > 1e-6 * n:
            raise ValueError(
                f"cluster_sizes must add up to the number of rows ({n:g}) or, as proportions, to "
                f"1; they add up to {sizes.sum():g}."
            )
        return total * sizes / sizes.sum()

    def _starts(self, problem, rng) -> list[tuple[np.ndarray, int]]:
        """Random labels, and the first round of shaking for each.

        Shaking leads most starts to the same clusters; where sizes are tempered, as many starts
        again go without, for others.
        """
        n_init = self.n_init
        if n_init == "auto":
            n_init = AUTO_STARTS if self.size_prior == 0 else TEMPERED_STARTS
        starts = [(random_labels(problem, rng), 0) for _ in range(n_init)]
        if self.size_prior > 0:
            starts += [(random_labels(problem, rng), SHAKES) for _ in range(n_init)]
        return starts

    def _from_known(self, problem, fmap, X) -> list[np.ndarray]:
        starts = []
        if self.partial_start != "supervised":
            starts.append(grown_labels(problem))
        if self.partial_start != "grow":
            rows = np.flatnonzero(problem.known >= 0)
            if isinstance(fmap, MixedMap):
                fmap, X = fmap.kernels[0], X.toarray() if fmap.dense else X
            values = fmap.stored_rows(X).data
            K = values[:, rows] if fmap.projection is None else values @ values[rows].T
            starts.append(supervised_labels(K, rows, problem, self.ridge))
        return starts

    def _settings(self, rng, watch, n_jobs) -> SearchSettings:
        kicks = self.n_kicks
        if kicks == "auto" and self.size_prior > 0:
            kicks = TEMPERED_KICKS
        elif kicks == "auto":
            kicks = self.n_clusters // 2 if self.n_clusters >= 3 else 0
        budget = self.time_budget if self.search == "shaking" else None
        if budget is not None and self.n_kicks == "auto":
            kicks = NO_LIMIT
        return SearchSettings(
            search=self.search,
            n_kicks=kicks if self.search == "shaking" and self.n_clusters > 1 else 0,
            deadline=None if budget is None else getattr(self, "_began", 0.0) + budget,
            max_iter=self.max_iter,
            adaptive=isinstance(self.cluster_sizes, str),
            rng=rng,
            watch=watch,
            n_jobs=n_jobs,
            parallel=getattr(watch, "context", None) is None,
        )

    def _warn_about_sizes(self, fmap, X, weights, settings) -> None:
        """Say so where leave-one-out predictions speak against clusters of equal size.

        On a few hundred rows the sizes are set free: if the labels are then predicted clearly
        better, equal sizes were wrong.
        """
        k, n = self.n_clusters, len(weights)
        if self.search != "shaking" or self.cluster_sizes is not None or k == 1 or n < 10 * k:
            return
        if self._mixed() or self.size_prior > 0:
            return
        few = np.sort(settings.rng.choice(n, min(n, SIZE_CHECK_ROWS), replace=False))
        if fmap.projection is None:
            K = replace(fmap, landmarks=fmap.landmarks[few]).kernel_values(X[few])
        else:
            features = fmap.stored_rows(X[few]).data
            K = features @ features.T
        K = np.array(K, np.float64) / np.average(np.diag(K), weights=weights[few])
        similarity = similarity_of(K, 1.0, weights[few], self.ridge, self.center)
        total = weights[few].sum()
        targets, known = np.full(k, total / k), np.full(len(few), -1, np.int32)
        problem = LabelProblem(similarity, k, targets, self.balance * total / k, known)
        starts = [(random_labels(problem, settings.rng), 0) for _ in range(5)]
        equal = search_labels(problem, starts, replace(settings, n_kicks=0, parallel=False))
        free = adapted_sizes(problem, equal, settings, rounds=8, clusters=2, factors=COARSE)
        before, after = (predictive_score(problem, f.labels) / (k - 1) for f in (equal, free))
        if after > before + SIZE_DOUBT:
            sizes = np.sort(np.bincount(free.labels, weights[few], minlength=k) / total)[::-1]
            shares = ", ".join(f"{share:.0%}" for share in sizes)
            warnings.warn(
                f"Leave-one-out predictions speak against clusters of equal size: with shares of "
                f"about {shares} they explain {after:.0%} of the labels instead of {before:.0%}. "
                "Set cluster_sizes='adaptive' or give the sizes.",
                UserWarning,
                stacklevel=2,
            )

    def _publish_labels(self, model, labels, lead, X, weights, known, n_jobs) -> None:
        super()._publish_labels(model, labels, lead, X, weights, known, n_jobs)
        if self.cluster_sizes is None:
            whole = weights is None or bool((weights == np.round(weights)).all())
            total = float(self.cluster_sizes_.sum())
            floor = size_floor(self.balance, total, self.n_clusters, whole)
            missing = floor - float(self.cluster_sizes_.min())
            if missing > 1e-9 * floor:
                warn_short(self.balance, missing, floor)

    def _publish_apart(self, model, X, weights, known, sample, n_jobs) -> None:
        for name in ("_fitted_scores", "_fitted_rows", "_margins", "_found"):
            self.__dict__.pop(name, None)
        super()._publish_apart(model, X, weights, known, sample, n_jobs)

    def _training_decisions(self, X, rows, sample, n_jobs):
        """Decisions from the caches, and from the predict path where they leave a doubt."""
        fitted = np.full(len(sample.weights), -1)
        fitted[self._fitted_rows] = np.arange(len(self._fitted_rows))
        place = np.where(sample.inverse >= 0, fitted[sample.inverse], -1)
        known_scores = self._fitted_scores
        del self._fitted_scores, self._fitted_rows
        if isinstance(X, RowBlocks):  # too many for the scores of all of them
            labels, lead = super()._training_decisions(X, rows, sample, n_jobs)
        else:
            scores = known_scores[place]
            # Weights far above the ridge cost the coefficients the digits that the caches have.
            exact = len(place) <= FLOAT64_ROWS or sample.weights.max() > TRUSTED * self.ridge
            doubt = (place < 0) | exact
            if self.n_clusters > 1:
                doubt |= decisions(scores)[1] < 1e-3
            doubtful = np.flatnonzero(doubt)
            if len(doubtful):
                scores[doubtful] = self._split_scores(X[doubtful], n_jobs)
            labels, lead = decisions(scores)
        if self.n_resamples:
            # Rows not fitted on were left out anyhow: their lead is what the margin is to others.
            margins = np.where(place >= 0, self._margins[place], lead)
            self.confidence_ = self._calibration.confidence(margins, labels)
            best = self._found
            self._rivals = [
                (1.0 - other.value / best.value, np.where(place >= 0, other.labels[place], -1))
                for other in best.others
            ]
            del self._margins, self._found
        return labels, lead

    def _renumber(self, order) -> None:
        super()._renumber(order)
        if self.n_resamples:
            self._calibration = self._calibration.renumbered(order)

    def confidence(self, X) -> np.ndarray:
        """How sure the cluster of every row is: how often rows with such margins keep theirs.

        Rows of the fit have theirs, more carefully, in ``confidence_``. Needs ``n_resamples`` > 0
        at fit.
        """
        check_is_fitted(self)
        if not hasattr(self, "_calibration"):
            raise ValueError(
                "confidence needs a fit with n_resamples > 0 and without links between rows."
            )
        return self._calibration.confidence(*decisions(self.decision_function(X))[::-1])


def rows_in_memory(X, chosen: np.ndarray):
    """Chosen rows of X; X itself where it is in memory and these are all."""
    return X[chosen] if len(chosen) < X.shape[0] or isinstance(X, RowBlocks) else X


def paper_objective(K: np.ndarray, labels: np.ndarray, ridge: float, n_clusters: int) -> float:
    """Q(c) of equations (7) and (13), written out: slow, for checking.

    Examples
    --------
    >>> round(paper_objective(np.eye(2), np.array([0, 1]), ridge=1.0, n_clusters=2), 6)
    2.0
    """
    G = np.linalg.inv(K + ridge * np.eye(len(K)))
    total = 0.0
    for h in range(n_clusters):
        y = np.where(labels == h, 1.0, -1.0)
        residual = y - K @ G @ y
        total += residual @ residual + ridge * y @ G @ K @ G @ y
    return float(total)


def _can_whiten(shape: tuple[int, int], model) -> bool:
    """Whether a covariance within clusters can be told from that many rows."""
    n, d = shape
    wide = d > WIDEST_WHITENED or ROWS_PER_COLUMN * d > n
    return not wide and not model._pairwise and model.n_clusters > 1
