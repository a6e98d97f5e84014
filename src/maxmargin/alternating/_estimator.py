"""The estimator: see the folder's docstring for the problem it solves."""

from __future__ import annotations

from functools import partial
from numbers import Real

import numpy as np
from sklearn.svm import SVC

from .._base import SHARED_CONSTRAINTS, STRENGTH, BaseMarginClustering
from .._callbacks import Interval, StrOptions
from .._core.dedup import FitInput
from .._core.features import evaluate_kernel
from .._core.model import Model
from .._core.size_floor import LOSSES, row_losses
from .._core.tree import recursive_splits, sides_of
from ._search import Settings, split_rows


class AlternatingMarginClustering(BaseMarginClustering):
    """Maximum margin clustering by alternating regression and balanced relabelling.

    Two clusters are separated by the widest margin in feature space; more clusters are found by
    recursive splits.

    Parameters
    ----------
    n_clusters : int, default=2
        Number of clusters.
    loss : {"laplacian", "squared", "hinge"}, default="laplacian"
        Loss of the regression: the paper's iterSVR, iterLS-SVM and iterSVM. "squared" is the
        fastest; "hinge" is the maximum margin problem itself, but stops near its initial labels.
    epsilon : float, default=0.05
        Half width of the insensitive zone of the Laplacian loss.
    kernel : str or callable, default="rbf"
        As in :func:`sklearn.metrics.pairwise.pairwise_kernels`, or "precomputed".
    gamma : "median", float or None, default="median"
        Width of the kernel; "median" is 1 / median squared distance.
    degree, coef0 : float, default=3 and 1
        Of the polynomial and sigmoid kernels.
    n_components : int, "auto" or None, default="auto"
        Rank of the feature map; None is exact.
    alpha : float or "auto", default="auto"
        Regularisation strength, from 1e-12 to 1e12. "auto" gives the squared-loss fit 20 effective
        degrees of freedom (fewer if there are few rows or features).
    anneal : bool or "auto", default="auto"
        Whether to also run each initialisation with decreasing regularisation under the squared
        loss, and to refine the best with ``loss``. "auto" does so if ``alpha="auto"``.
    balance : float, default=0.7
        Every cluster has at least ``balance * n / n_clusters`` rows; 0 sets no minimum size.
    bias : {"exact", "midpoint"}, default="exact"
        Intercept of each candidate split in the label step: the optimal one, or the paper's
        midpoint between neighbouring scores, with which the objective may increase.
    init : {"auto", "k-means", "spectral", "random"} or array-like of labels, default="auto"
        Initialisation. "auto" tries k-means on the rows and in feature space, the normalized cut,
        splits of the leading principal components and random labels; the result with the lowest
        objective is kept.
    n_init : int or "auto", default="auto"
        Number of k-means runs, of components and of random labellings; "auto" is 10.
    max_iter : int, default=100
        Maximum number of iterations of one descent.
    tol : float, default=1e-4
        Fraction of rows that change their label at which a descent stops.
    solver_tol : float, default=1e-3
        Relative duality gap to which each SVM or SVR is solved.
    warm_start : bool, default=False
        Start from the labels that the previous fit predicts.
    verbose : int, default=0
        1 shows a progress bar if scikit-learn >= 1.9 and rich are installed.
    random_state : int, RandomState instance or None, default=None
        Seed. On one machine, results do not depend on the number of threads.
    n_jobs : int or None, default=None
        Number of threads over blocks of rows.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Cluster of each row; clusters are numbered by falling size, clusters of equal size by
        their first row.
    cluster_sizes_ : ndarray of shape (n_clusters,)
        Number of rows (or sum of weights) of each cluster.
    exemplar_indices_ : ndarray of shape (n_clusters,)
        Row with the largest margin of each cluster.
    coef_, intercept_ : ndarray of shape (n_clusters - 1, n_components) and (n_clusters - 1,)
        One split per row, in feature space; for the linear kernel they apply to X itself.
    alpha_ : float
        The regularisation strength used (of the first split).
    objective_ : float
        ``alpha/2 |w|^2`` plus the mean loss; over several splits, their mean weighted by rows.
    history_ : list of float
        Objective after each iteration of the last stage.
    n_iter_ : int
        Iterations of the last stage.
    stop_reason_ : str
        "converged", "max_iter", "stalled", "time" or "callback".

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

    _parameter_constraints: dict = {  # noqa: RUF012 - scikit-learn's convention
        **SHARED_CONSTRAINTS,
        "loss": [StrOptions(set(LOSSES))],
        "epsilon": [Interval(Real, 0, 1, closed="left")],
        "alpha": [StrOptions({"auto"}), STRENGTH],
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
        kernel="rbf",
        gamma="median",
        degree=3,
        coef0=1,
        n_components="auto",
        alpha="auto",
        anneal="auto",
        balance=0.7,
        bias="exact",
        init="auto",
        n_init="auto",
        max_iter=100,
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
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.n_components = n_components
        self.alpha = alpha
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

    def to_svm(self, X, **svc_params) -> SVC:
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
        labels = self.predict(X)
        params = {
            "kernel": self.kernel,
            "C": self.feature_scale_**2 / (len(labels) * self.alpha_),
            **self.feature_map_.params,
        }
        if self.kernel in ("laplacian", "cosine"):  # not among SVC's own
            given = {"kernel": self.kernel, "params": self.feature_map_.params}
            params = {"kernel": partial(evaluate_kernel, **given), "C": params["C"]}
        if len(np.unique(labels)) < 2:
            raise ValueError("to_svm needs at least two non-empty clusters, found one.")
        return SVC(**(params | svc_params)).fit(X, labels)

    def _decision_losses(self, decision):
        margins = decision.max(axis=1)
        return row_losses(np.ones(len(margins)), margins, self.loss, self.epsilon)

    def _fit_model(self, data: FitInput) -> Model:
        fmap, rows = self._features(data)
        settings = self._settings(fmap, data)

        def split(indices, fixed, sizes):
            start = None
            if data.initial is not None:
                start = sides_of(rows, data.initial[indices], indices, data.rng)
                start = None if start.min() == start.max() else start
            return split_rows(rows, data, indices, fixed, start, sizes, settings)

        return recursive_splits(rows, data, fmap, self.n_clusters, self.balance, split)

    def _settings(self, fmap, data: FitInput) -> Settings:
        return Settings(
            loss=self.loss,
            epsilon=self.epsilon if self.loss == "laplacian" else 0.0,
            alpha=self.alpha,
            anneal=self.alpha == "auto" if self.anneal == "auto" else bool(self.anneal),
            balance=self.balance,
            init=self.init if isinstance(self.init, str) else "auto",
            n_init=10 if self.n_init == "auto" else self.n_init,
            max_iter=self.max_iter,
            tol=self.tol,
            gap=self.solver_tol,
            midpoints=self.bias == "midpoint",
            gamma=None if self.gamma == "median" or self.kernel != "rbf" else self.gamma,
            raw=not self._pairwise,
            mapped=fmap.landmarks is not None,
            rng=data.rng,
            watch=data.watch,
        )
