"""The estimator: see the folder's docstring for the problem it solves."""

from __future__ import annotations

from functools import partial
from numbers import Real
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.svm import SVC

from .._base import SHARED_CONSTRAINTS, STRENGTH, BaseMarginClustering
from .._callbacks import Interval, StrOptions
from .._core.dedup import FitInput
from .._core.kernels import KERNELS, evaluate_kernel
from .._core.model import Model
from .._core.rows import factorise
from .._core.size_floor import LOSSES, row_losses, size_floor
from .._core.tree import recursive_splits, sides_of
from ._joint import Task, joint_search
from ._regression import warn_unsolved
from ._search import Problem, Settings, search, strength

JOINT_ALPHA, JOINT_ENTROPY = 0.003, 0.3
LEAST_BALANCE = 0.05  # no joint cluster may vanish


class AlternatingMarginClustering(BaseMarginClustering):
    """Maximum margin clustering by alternating regression and balanced relabelling.

    Two clusters are separated by the widest margin in feature space, more by a regression for each
    against the others.

    Parameters
    ----------
    n_clusters : int, default=2
        Number of clusters.
    loss : {"laplacian", "squared", "hinge"}, default="laplacian"
        Loss of the regression: the paper's iterSVR, iterLS-SVM and iterSVM. "squared" is the
        fastest; "hinge" is the maximum margin problem itself, but stops near its initial labels.
    epsilon : float, default=0.05
        Half width of the zone of the Laplacian loss that costs nothing.
    multi_class : {"auto", "joint", "recursive"}, default="auto"
        "joint": all clusters at once, a regression for each against the others; "recursive": the
        paper's two-way splits, and splits of those; "auto": "joint" for more than two clusters.
        For two, "auto" is "joint", but "recursive" where ``alpha``, ``balance``, ``anneal``,
        ``bias``, ``epsilon`` or ``init="spectral"`` ask for the paper's problem.
    kernel : str or callable, default="auto"
        As in :func:`sklearn.metrics.pairwise.pairwise_kernels`, or "precomputed". "auto" is "rbf"
        for two-way splits; for joint clusters the mean of two Gaussian kernels whose widths are
        half the median distance and the whole, or the cosine for rows of mostly zeros ("rbf" where
        ``gamma`` is given).
    gamma : "median", float or None, default="median"
        Width of the kernel; "median" is 1 / median squared distance.
    degree, coef0 : float, default=3 and 1
        Of the polynomial and sigmoid kernels.
    n_components : int, "auto" or None, default="auto"
        Rank of the feature map; None is exact.
    alpha : float or "auto", default="auto"
        Strength of the regulariser, from 1e-12 to 1e12. "auto" gives the squared-loss fit 20
        effective degrees of freedom (fewer if there are few rows or features); 0.003 for joint
        clusters.
    size_entropy : float or "auto", default="auto"
        Soft preference of joint clusters for even sizes, tau in the objective. "auto" is 0.3, and
        0 where ``balance`` is a number; ``1 / log(k)`` if the k-means partition costs more than
        one cluster of all rows, ``0.3 log(k)``.
    anneal : bool or "auto", default="auto"
        Whether starts are also followed from strong to weak regularisation under the squared loss,
        the best then polished with ``loss``. "auto" does so where ``alpha="auto"``.
    balance : float or "auto", default="auto"
        Every cluster keeps at least ``balance * n / n_clusters`` rows; 0 asks for nothing. "auto"
        is 0.7 for two-way splits and 0.05 for joint clusters.
    bias : {"exact", "midpoint"}, default="exact"
        Intercept of each candidate split in the label step: the optimal one, or the paper's
        midpoint between neighbouring scores, with which the objective may increase.
    init : {"auto", "k-means", "spectral", "random"} or array-like of labels, default="auto"
        Initialisation. "auto" tries k-means on the rows and in feature space, the normalized cut,
        splits of the leading principal components and random labels; the result with the lowest
        objective is kept.
    n_init : int or "auto", default="auto"
        Number of k-means runs, of components and of random starts; "auto" is 10.
    max_iter : int, default=300
        Most iterations of one descent.
    tol : float, default=1e-4
        A descent ends when at most this share of the rows changes sides.
    solver_tol : float, default=1e-3
        Relative duality gap to which each SVM or SVR is solved.
    warm_start : bool, default=False
        Start from the labels that the previous fit predicts.
    verbose : int, default=0
        1 shows a progress bar if scikit-learn >= 1.9 and rich are installed.
    random_state : int, RandomState instance or None, default=None
        Seed. On one machine, results do not depend on the number of threads.
    n_jobs : int or None, default=None
        Number of threads over blocks of rows; fits of fewer than 500 rows use one.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Cluster of each row; clusters are numbered by falling size, clusters of equal size by
        their first row.
    cluster_sizes_ : ndarray of shape (n_clusters,)
        Number of rows (or sum of weights) of each cluster.
    exemplar_indices_ : ndarray of shape (n_clusters,)
        Most certain row of each cluster.
    clusters_on_floor_ : ndarray of int
        Clusters whose size ``balance`` decided.
    coef_, intercept_ : ndarray of shape (m, n_components) and (m,)
        In feature space; for the linear kernel they apply to X itself. Joint clusters have one row
        each, two-way splits ``m = n_clusters - 1``.
    alpha_ : float
        The regularisation strength used (of the first split).
    objective_ : float
        ``alpha/2 |w|^2`` plus the mean loss; over several splits, their mean weighted by rows.
    size_entropy_ : float
        Joint clusters only: the strength of the preference for even sizes that was used.
    compared_with_kmeans_ : dict
        Joint clusters only: "objective" of the k-means partition of (at most 10,000 of) the rows in
        the same model, and "ari", its agreement with the labels found.
    history_ : list of float
        Objective after each iteration of the last stage.
    n_iter_ : int
        Iterations of the last stage.
    stop_reason_ : str
        "converged", "max_iter", "stalled", "time" or "callback".

    See Also
    --------
    MaxMarginClustering : Automatic settings, confidence and outliers.
    CuttingPlaneMarginClustering : Fewer passes over many rows.
    BisectingMarginClustering : Recursive splits by any estimator.

    Notes
    -----
    In the paper's symbols alpha = s^2 / (n C) for iterSVM and iterSVR and 2 s^2 / (n C) for
    iterLS-SVM, where s is ``feature_scale_``. Its class balance (1) is
    ``balance = 1 - l / n``; its tables agree with ``balance = 1 - 2 l / n``.

    The paper's algorithm is ``init="k-means", n_init=1, anneal=False, bias="midpoint"`` with a
    number for ``alpha``; ``loss="hinge", balance=0`` is the CCCP of its Appendix.

    References
    ----------
    K. Zhang, I. W. Tsang, J. T. Kwok. Maximum Margin Clustering Made Practical. IEEE Transactions
    on Neural Networks 20(4), 583-596, 2009.

    Examples
    --------
    >>> from maxmargin import AlternatingMarginClustering
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> pair = (y == 2) | (y == 7)
    >>> model = AlternatingMarginClustering(balance=0.94, random_state=0).fit(X[pair])
    >>> from maxmargin.metrics import clustering_error
    >>> clustering_error(y[pair], model.labels_) < 0.03
    True
    """

    _parameter_constraints: dict[str, Any] = {  # noqa: RUF012 - scikit-learn's convention
        **SHARED_CONSTRAINTS,
        "loss": [StrOptions(set(LOSSES))],
        "epsilon": [Interval(Real, 0, 1, closed="left")],
        "alpha": [StrOptions({"auto"}), STRENGTH],
        "kernel": [StrOptions({"auto", *KERNELS}), callable],
        "multi_class": [StrOptions({"auto", "joint", "recursive"})],
        "size_entropy": [StrOptions({"auto"}), Interval(Real, 0, 1e3, closed="both")],
        "balance": [StrOptions({"auto"}), *SHARED_CONSTRAINTS["balance"]],
        "anneal": [StrOptions({"auto"}), "boolean"],
        "bias": [StrOptions({"exact", "midpoint"})],
        "init": [StrOptions({"auto", "k-means", "spectral", "random"}), "array-like"],
        "solver_tol": [Interval(Real, 0, 1, closed="neither")],
    }

    def __init__(
        self,
        n_clusters=2,
        *,
        loss="laplacian",
        epsilon=0.05,
        multi_class="auto",
        kernel="auto",
        gamma="median",
        degree=3,
        coef0=1,
        n_components="auto",
        alpha="auto",
        size_entropy="auto",
        anneal="auto",
        balance="auto",
        bias="exact",
        init="auto",
        n_init="auto",
        max_iter=300,
        tol=1e-4,
        solver_tol=1e-3,
        warm_start=False,
        verbose=0,
        random_state=None,
        n_jobs=None,
    ):
        self.n_clusters = n_clusters
        self.loss = loss
        self.epsilon = epsilon
        self.multi_class = multi_class
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.n_components = n_components
        self.alpha = alpha
        self.size_entropy = size_entropy
        self.anneal = anneal
        self.balance = balance
        self.bias = bias
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.solver_tol = solver_tol
        self.warm_start = warm_start
        self.verbose = verbose
        self.random_state = random_state
        self.n_jobs = n_jobs

    def to_svm(self, X: Any, **svc_params: Any) -> SVC:
        """Fit a sparse :class:`sklearn.svm.SVC` to the labels (section III-B of the paper).

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows that the model was fitted on.
        **svc_params
            Parameters of the SVC; by default the kernel of this model, and C according to its
            alpha.

        Returns
        -------
        SVC
            The fitted classifier.

        Examples
        --------
        >>> from maxmargin import AlternatingMarginClustering
        >>> X = [[0.0, 0.0], [0.2, 0.1], [3.0, 3.0], [3.1, 2.8]]
        >>> svm = AlternatingMarginClustering(random_state=0).fit(X).to_svm(X)
        >>> svm.predict([[0.1, 0.1]]) == svm.predict([[0.0, 0.2]])
        array([ True])
        """
        X = X if sparse.issparse(X) else np.asarray(X)
        labels = self.predict(X)
        kernel, given = self.feature_map_.kernel, self.feature_map_.params
        C = self.feature_scale_**2 / (len(labels) * self.alpha_)
        params = {"kernel": kernel, "C": C, **given}
        own = kernel in ("linear", "poly", "rbf", "sigmoid", "precomputed") or callable(kernel)
        if not own or isinstance(given.get("gamma"), tuple):
            params = {"kernel": partial(evaluate_kernel, kernel=kernel, params=given), "C": C}
        if len(np.unique(labels)) < 2:
            raise ValueError("to_svm needs at least two non-empty clusters, found one.")
        return SVC(**(params | svc_params)).fit(X, labels)

    def _decision_losses(self, decision):
        margins = decision.max(axis=1)
        return row_losses(np.ones(len(margins)), margins, self.loss, self.epsilon)

    def estimate_memory(self, n_samples: int, n_features: int, in_blocks: bool = False) -> int:
        if self._kernel() == self.kernel:
            return super().estimate_memory(n_samples, n_features, in_blocks)
        # "auto" is another kernel for two-way splits, whose feature map is wider.
        named = type(self)(**{**self.get_params(deep=False), "kernel": self._kernel()})
        return named.estimate_memory(n_samples, n_features, in_blocks)

    def _fit_model(self, data: FitInput) -> Model:
        if self._is_joint():
            return self._fit_joint(data)
        kernel = self._kernel()
        fmap, rows = self._features(data, kernel=kernel)
        settings = Settings(
            loss=self.loss,
            epsilon=self.epsilon if self.loss == "laplacian" else 0.0,
            alpha=self.alpha,
            anneal=self.alpha == "auto" if self.anneal == "auto" else bool(self.anneal),
            balance=0.7 if self.balance == "auto" else self.balance,
            init=self.init if isinstance(self.init, str) else "auto",
            n_init=10 if self.n_init == "auto" else self.n_init,
            max_iter=self.max_iter,
            tol=self.tol,
            gap=self.solver_tol,
            midpoints=self.bias == "midpoint",
            gamma=None if isinstance(self.gamma, str) or kernel != "rbf" else self.gamma,
            rng=data.rng,
            watch=data.watch,
        )

        def split(indices, stored, known, sizes):
            weights, start, X = data.weights[indices], None, None
            if data.initial is not None:
                start = sides_of(rows, data.initial[indices], indices, data.rng)
                start = None if start.min() == start.max() else start
            if fmap.landmarks is not None and not self._pairwise:  # features are not coordinates
                X = data.X if stored is rows else data.X.part(indices)
            problem = Problem(factorise(stored, weights), weights, known, sizes, settings.epsilon)
            shrinkage, alpha = strength(problem, settings)
            outcome = search(problem, X, start, shrinkage, alpha, settings)
            warn_unsolved(outcome.state.fit, settings.gap)
            return outcome, alpha

        return recursive_splits(rows, data, fmap, self.n_clusters, settings.balance, split)

    def _two_way_settings(self) -> list[str]:
        """Return the parameters that only two-way splits have."""
        spectral = isinstance(self.init, str) and self.init == "spectral"
        given = {"anneal": self.anneal != "auto", "bias": self.bias != "exact", "init": spectral}
        return [name for name, is_given in given.items() if is_given]

    def _is_joint(self) -> bool:
        if self.multi_class != "auto" or self.n_clusters != 2:
            return bool(self.n_clusters > 1 and self.multi_class != "recursive")
        asked = (self.alpha, self.balance, self.epsilon) != ("auto", "auto", 0.05)
        return not asked and not self._two_way_settings()

    def _kernel(self) -> Any:
        if not (isinstance(self.kernel, str) and self.kernel == "auto"):
            return self.kernel
        return "auto" if self._is_joint() and self.gamma == "median" else "rbf"

    def _fit_joint(self, data: FitInput) -> Model:
        for name in self._two_way_settings():
            raise ValueError(
                f"{name}={getattr(self, name)!r} is for two-way splits: with n_clusters="
                f"{self.n_clusters} it needs multi_class='recursive'."
            )
        fmap, rows = self._features(data, kernel=self._kernel())
        free = self.balance == "auto"
        balance, entropy = LEAST_BALANCE if free else self.balance, self.size_entropy
        task = Task(
            k=self.n_clusters,
            loss=self.loss,
            epsilon=self.epsilon if self.loss == "laplacian" else 0.0,
            alpha=JOINT_ALPHA if self.alpha == "auto" else float(self.alpha),
            entropy=JOINT_ENTROPY * free if entropy == "auto" else float(entropy),
            floor=size_floor(balance, data.weights.sum(), self.n_clusters, data.whole),
            gap=self.solver_tol,
            max_iter=self.max_iter,
            watch=data.watch,
        )
        state, extras = joint_search(
            rows, data, task, data.X if not self._pairwise else None,
            init=self.init if isinstance(self.init, str) else "auto", n_init=self.n_init,
            adapt=free and entropy == "auto", rng=data.rng,
        )  # fmt: skip
        warn_unsolved(state.fit, task.gap)
        return Model(
            fmap, state.coef, state.bias + state.prices, np.eye(task.k), state.objective,
            state.history, len(state.history), state.reason, balance=balance, extras=extras,
        )  # fmt: skip
