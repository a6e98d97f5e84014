"""The estimator: see the folder's docstring for the problem it solves."""

from __future__ import annotations

import warnings
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from .._base import SHARED_CONSTRAINTS, STRENGTH, BaseMarginClustering
from .._callbacks import Interval, StrOptions, with_callbacks
from .._core.dedup import FitInput, check_no_labels
from .._core.init import held_labels, kmeans_partition
from .._core.links import Links
from .._core.model import Model, host_labels
from .._core.rows import Rows, cluster_means
from .._core.size_floor import size_floor
from ..constraints import PairwiseConstraints, checked_constraints
from ._problem import pair_problem
from ._questions import suggested_pairs
from ._search import DEFAULT_ALPHA, Search, nearest_centre_start, parted

SOLVER_TOL, FINE_TOL = 1e-2, 1e-3
STORED = 20_000_000  # numbers, 160 MB
LEAST_BALANCE = 0.05  # with cannot-links: no cluster may vanish


class PairwiseMarginClustering(BaseMarginClustering):
    """Maximum margin clustering with must-links and cannot-links between rows.

    Parameters
    ----------
    n_clusters : int, default=2
        Number of clusters.
    alpha : float or "cv", default="cv"
        Regularisation strength, from 1e-12 to 1e12. "cv" selects the value that satisfies most
        held-out links (and known classes) in three-fold cross-validation; with fewer than ten of
        them it is 0.01.
    unlabeled_weight : float, default=1.0
        Weight delta of the rows without links or known classes, up to 1e6.
    loss : {"pairwise", "hu"}, default="pairwise"
        Loss of the links: that of Zeng and Cheung (2012), or of Hu et al. (2008) for comparison.
    kernel : str or callable, default="rbf"
        As in :func:`sklearn.metrics.pairwise.pairwise_kernels`, or "precomputed".
    gamma : "half-median", "median", float or None, default="half-median"
        Width of the kernel. "half-median": exp(-d^2 / (2 sigma^2)) with sigma half the median
        distance; "median": 1 / median squared distance.
    degree, coef0 : float, default=3 and 1
        Of the polynomial and sigmoid kernels.
    n_components : int, "auto" or None, default="auto"
        Rank of the feature map; None is exact.
    balance : float, default=0.5
        Every cluster has at least ``balance * n / n_clusters`` rows, because the clusters could
        otherwise collapse; at most 0.05 counts with cannot-links or two known classes.
    on_conflict : {"raise", "soft"}, default="raise"
        If links contradict each other, raise an error that names them, or minimise the objective
        and allow violated links.
    solver : {"bundle", "subgradient"}, default="bundle"
        "subgradient" is the paper's Algorithm 2.
    init : {"auto", "eigenvector", "k-means", "random"} or array-like of labels, default="auto"
        Initialisation. "auto": the paper's eigenvectors with both signs and two shrinkages, k-means
        on their projections, k-means, and random directions.
    n_init : int or "auto", default="auto"
        Number of initialisations; "auto" is 8. The one with the lowest objective is kept.
    max_iter : int, default=50
        Maximum number of CCCP iterations of one descent.
    tol : float, default=0.01
        Relative decrease of the objective at which a descent stops.
    solver_tol : float or "auto", default="auto"
        Tolerance of the convex problems: for the bundle method the gap relative to the gain over
        W = 0, for the subgradient method the relative change of W. "auto" is the paper's 0.01, and
        0.001 for the bundle method without cannot-links and known classes.
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
    labels_, cluster_sizes_, exemplar_indices_, clusters_on_floor_
        See :class:`AlternatingMarginClustering`.
    coef_, intercept_ : ndarray of shape (n_clusters, n_components) and (n_clusters,)
        One linear score per cluster. On centred features the intercepts are zero unless ``balance``
        is active.
    violated_links_ : PairwiseConstraints
        Links that ``labels_`` violates.
    alpha_ : float
        The regularisation strength used.
    cv_results_ : dict
        With ``alpha="cv"``: the values tried ("alpha") and the fraction of held-out links that
        were satisfied ("link_accuracy").
    objective_ : float
        Value of equation (6).
    compared_with_kmeans_ : dict
        "objective" of the k-means partition under the same model (after repair to the size floor,
        and with the intercepts that keep it, if there is one), and "ari", its agreement with the
        labels found. ``objective_`` is not above it, nor above that of labels given as ``init``,
        except with ``solver="subgradient"``. k-means sees at most 2,000 rows.
    n_passes_ : int
        Passes over all rows in the last descent.
    history_, n_iter_, stop_reason_
        Of the last descent.

    See Also
    --------
    PairwiseConstraints : Must-links and cannot-links.
    PairQueries : Select the pairs to ask about.
    MaxMarginClustering : Automatic settings; takes constraints, too.

    Notes
    -----
    In the paper's symbols alpha = lambda s^2, where s is ``feature_scale_``, and
    ``unlabeled_weight`` is delta. The ``sample_weight`` of a row with links or a known class has no
    effect, except that the links of rows with weight zero are left out.

    The paper's Algorithm 1 is ``init="eigenvector", n_init=1, solver="subgradient"`` with a number
    for ``alpha``.

    Without constraints and known classes only the loss of the unlabelled rows is minimised, and a
    warning is raised.

    References
    ----------
    H. Zeng, Y.-M. Cheung. Semi-Supervised Maximum Margin Clustering with Pairwise Constraints. IEEE
    Transactions on Knowledge and Data Engineering 24(5), 926-939, 2012.

    Examples
    --------
    >>> from maxmargin import PairwiseConstraints, PairwiseMarginClustering
    >>> from maxmargin.metrics import clustering_accuracy
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> odd = y % 2
    >>> links = PairwiseConstraints.from_labels(odd, n_pairs=300, random_state=0)
    >>> model = PairwiseMarginClustering(2, alpha=0.003, random_state=0).fit(X, constraints=links)
    >>> clustering_accuracy(odd, model.labels_) > 0.96
    True
    """

    _depends_on_starts = False  # alpha can be chosen by known labels: objectives are not comparable
    _parameter_constraints: dict = {  # noqa: RUF012 - scikit-learn's convention
        **SHARED_CONSTRAINTS,
        "alpha": [StrOptions({"cv"}), STRENGTH],
        "unlabeled_weight": [Interval(Real, 0, 1e6, closed="both")],
        "loss": [StrOptions({"pairwise", "hu"})],
        "on_conflict": [StrOptions({"raise", "soft"})],
        "solver": [StrOptions({"bundle", "subgradient"})],
        "init": [StrOptions({"auto", "eigenvector", "k-means", "random"}), "array-like"],
        "solver_tol": [StrOptions({"auto"}), Interval(Real, 0, 1, closed="neither")],
    }

    def __init__(
        self,
        n_clusters=2,
        *,
        alpha="cv",
        unlabeled_weight=1.0,
        loss="pairwise",
        kernel="rbf",
        gamma="half-median",
        degree=3,
        coef0=1,
        n_components="auto",
        balance=0.5,
        on_conflict="raise",
        solver="bundle",
        init="auto",
        n_init="auto",
        max_iter=50,
        tol=0.01,
        solver_tol="auto",
        warm_start=False,
        verbose=0,
        random_state=None,
        n_jobs=None,
    ):
        self.n_clusters = n_clusters
        self.alpha = alpha
        self.unlabeled_weight = unlabeled_weight
        self.loss = loss
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.n_components = n_components
        self.balance = balance
        self.on_conflict = on_conflict
        self.solver = solver
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.solver_tol = solver_tol
        self.warm_start = warm_start
        self.verbose = verbose
        self.random_state = random_state
        self.n_jobs = n_jobs

    @with_callbacks
    def fit(self, X, y=None, *, constraints=None, partial_labels=None, sample_weight=None):
        """Find the clusters of X.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows to cluster, or a kernel matrix if ``kernel="precomputed"``.
        y : ignored
            Not used.
        constraints : PairwiseConstraints, optional
            Links between the rows. In a pipeline, grid search or cross-validation, request them
            with ``set_fit_request(constraints=True)``.
        partial_labels : array-like of shape (n_samples,), optional
            Known clusters: numbers from 0, or names; -1, '' or NaN if unknown.
        sample_weight : array-like of shape (n_samples,), optional
            Zero, or from 1e-12 to 1e12. A weight of 2 is equivalent to the same row given twice.

        Returns
        -------
        self : estimator
            The fitted estimator.
        """
        self._validate_params()
        check_no_labels(y, self.n_clusters)
        return self._fit(X, sample_weight, partial_labels, constraints)

    def _label_attributes(self, labels, found, rows, data, model: Model) -> dict[str, Any]:
        constraints = data.constraints or PairwiseConstraints(len(data.inverse))
        return {"violated_links_": constraints.violations(host_labels(labels))}

    def score(self, X, y=None, *, constraints=None) -> float:
        """Return the fraction of links that the predicted labels satisfy.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.
        y : ignored
            Not used.
        constraints : PairwiseConstraints, optional
            Links between these rows, such as links held out from the fit.

        Returns
        -------
        float
            Weighted fraction of satisfied links; without links, minus the mean loss.
        """
        if constraints is None or constraints.n_links == 0:
            return super().score(X)
        return constraints.accuracy(self.predict(X))

    def next_pairs(self, X, n=1, *, constraints=None, random_state=None) -> np.ndarray:
        """Suggest pairs of rows to ask about next.

        :class:`~maxmargin.active.PairQueries` also stores the answers and refits the model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.
        n : int, default=1
            Number of pairs.
        constraints : PairwiseConstraints, optional
            Links known so far.
        random_state : int, RandomState instance or None, default=None
            Seed of the suggestions.

        Returns
        -------
        ndarray of shape (m, 2)
            Row numbers, most informative pair first; fewer than ``n`` pairs if no more are left.
        """
        if not isinstance(n, Integral) or n < 1:
            raise ValueError(f"n must be an integer of at least 1, got {n!r}.")
        scores = self.decision_function(X)
        known = PairwiseConstraints(len(scores)) if constraints is None else constraints
        if not isinstance(known, PairwiseConstraints) or len(known) != len(scores):
            raise ValueError(
                f"constraints must be PairwiseConstraints for the {len(scores)} rows of X, got "
                f"{known!r}."
            )
        return suggested_pairs(scores, n, known, check_random_state(random_state))

    def _checked_links(self, constraints, n: int, known) -> Links | None:
        if constraints is None:
            constraints = PairwiseConstraints(n)
        checked_constraints(constraints, n)
        if self.on_conflict == "raise":
            constraints.check(self.n_clusters, known)
        if constraints.n_links == 0 and known is None and self.n_clusters > 1:
            warnings.warn(
                "No constraints and no partial_labels were given: only the loss of the unlabelled "
                "rows is minimised.",
                UserWarning,
                stacklevel=5,
            )
        return constraints.links()

    # -- the fit ----------------------------------------------------------------------------------

    def _fit_model(self, data: FitInput) -> Model:
        fmap, rows = self._features(data)
        k = self.n_clusters
        if k == 1:
            extras: dict[str, Any] = {"alpha_": DEFAULT_ALPHA, "n_passes_": 0}
            return Model(fmap, np.zeros((1, rows.shape[1])), np.zeros(1), np.eye(1), extras=extras)
        search = self._search(rows, data)
        alpha, extras = search.choose_alpha() if self.alpha == "cv" else (self.alpha, {})
        raw, rng = rows if self._pairwise else Rows(data.X), data.rng.spawn(1)[0]
        rivals, given = [kmeans_partition(raw, data.weights, k, rng)], None
        if data.initial is not None:
            rivals.append(data.initial)
            given = [nearest_centre_start(cluster_means(rows, data.initial, data.weights, k))]
        rivals = [held_labels(raw, r, data.weights, data.known, k, search.floor) for r in rivals]
        outcome, compared = search.run(float(alpha), given, rivals)
        state = outcome.state
        extras |= {
            "alpha_": float(alpha), "n_passes_": state.passes, "compared_with_kmeans_": compared
        }  # fmt: skip
        return Model(
            fmap,
            state.coef,
            state.offset,
            np.eye(k),
            outcome.objective,
            outcome.history,
            outcome.n_iter,
            outcome.stop_reason,
            balance=self.balance if search.floor > 0 or state.offset.any() else 0.0,
            raised=state.offset > state.offset.min(),
            extras=extras,
        )

    def _search(self, rows: Rows, sample: FitInput) -> Search:
        """Return the search on equation (6), with its settings."""
        hu, links = self.loss == "hu", sample.links
        assert links is not None
        if rows.shape[0] * rows.shape[1] <= STORED:
            rows = rows.stored()  # centred once instead of in every pass
        nothing_known = len(links) == 0 and not (sample.known >= 0).any()
        free = sample.weights if hu else sample.free
        assert free is not None
        problem = pair_problem(
            rows, sample.weights, self.n_clusters, DEFAULT_ALPHA, links, sample.known, free,
            unlabeled_weight=1.0 if nothing_known else self.unlabeled_weight, hu=hu,
        )  # fmt: skip
        floor, precision, apart = 0.0, SOLVER_TOL, parted(problem)
        balance = min(self.balance, LEAST_BALANCE) if apart else self.balance
        least = size_floor(balance, sample.weights.sum(), self.n_clusters, sample.whole)
        if not apart:
            # The local optima differ by less than 1 %.
            precision = FINE_TOL if self.solver == "bundle" else SOLVER_TOL
            floor = least
        return Search(
            problem,
            floor=floor,
            least=least if self.solver == "bundle" else floor,
            solver=self.solver,
            init=self.init if isinstance(self.init, str) else "auto",
            n_init=8 if self.n_init == "auto" else self.n_init,
            max_iter=self.max_iter,
            tol=self.tol,
            solver_tol=precision if self.solver_tol == "auto" else self.solver_tol,
            rng=sample.rng,
            watch=sample.watch,
        )
