"""The estimator with several kernels: problem (4.31), see the docstring of the folder."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import partial
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._base import SHARED_CONSTRAINTS, STRENGTH, BaseMarginClustering
from .._callbacks import Interval, StrOptions
from .._core.dedup import FitInput
from .._core.features import is_text
from .._core.model import Model
from .._core.rows import concat
from .._data.source import RowSource
from ._cuts import LabelledCuts
from ._estimator import (
    NOTHING_FOUND,
    default_alpha,
    fitted_model,
    intercept_terms,
    run_search,
)
from ._kernel_list import fit_stack, kernel_of, read_kernels
from ._penalty import KernelWeights

# Widths of the default Gaussians, in median distances: those of kernel="auto" for one kernel.
WIDTHS = (1.4, 0.7)
TRIVIAL = 0.99  # warn of larger objectives: that of W = 0 is 1
CONE_TOL = 1e-6  # least tol with cone programs: a smaller gap would take minutes


class MultipleKernelMarginClustering(BaseMarginClustering):
    """Maximum margin clustering that learns a weight for every kernel.

    Parameters
    ----------
    n_clusters : int, default=2
        Number of clusters.
    kernels : {"default", "paper", "precomputed"} or list, default="default"
        "default": linear and Gaussians 1.4 and 0.7 median distances wide; for rows of mostly zeros,
        cosine and linear.
        "paper": linear, ``(1 + x'x')^2`` and one Gaussian. "precomputed": X holds
        kernel matrices side by side, (n, M n); for new rows, those against the training rows.
        In a list, each entry is a name, a callable, ``(name, {"gamma": ..})``, or
        ``(columns, any of these)`` for a kernel that sees some columns of X only. "width" instead
        of "gamma" counts in median distances: gamma = 1 / (width * median distance)^2.
    n_components : int, "auto" or None, default="auto"
        Rank of each kernel's feature map; None is exact. "auto" is 100: the leading features of 400
        random landmarks.
    alpha : float or "auto", default="auto"
        Strength of the regulariser, from 1e-12 to 1e12; "auto" is that of
        :class:`CuttingPlaneMarginClustering` if the weights are even: 0.03 M^(1 - 1/p) for two
        clusters and M kernels.
    weight_norm : float, default=2
        p >= 1 in ``sum beta^p <= 1``; 1 gives few kernels a weight, larger values even them out.
    size_entropy : float or "auto", default="auto"
        Strength tau of the preference for even sizes, ``tau sum_h pi_h log(k pi_h)``; "auto" is
        selected as in :class:`CuttingPlaneMarginClustering`.
    balance : float, default=0
        Every cluster keeps at least ``balance * n / n_clusters`` rows; 0 asks for one row, and for
        none if ``size_entropy`` is 0, too.
    fit_intercept : bool or "auto", default="auto"
        Whether scores have lightly penalised intercepts; "auto" is True unless ``balance`` or
        ``score_balance`` is given or ``solver="socp"``, which has none.
    score_balance : float or None, default=None
        Largest difference between the mean scores of two clusters; frees intercepts within it. With
        ``center=False`` there are none, and it is the constraint of (4.31).
    center, normalize : bool, default=True
        Whether each kernel is centred, and scaled to mean square one. The weights mean little
        without: the largest kernel takes them all.
    nesting : {"labels", "paper"}, default="labels"
        As in :class:`CuttingPlaneMarginClustering`: "paper" is the paper's Algorithm 1, with cuts
        outside and CCCP inside.
    solver : {"qp", "socp"}, default="qp"
        How the weights are found for a pool of cuts: tiny QPs, or, after a search with these, the
        paper's cone program through clarabel (``pip install maxmargin[sdp]``), for checking.
    max_samples : int or None, default=None
        Fit on so many random rows and label the rest.
    init : {"auto", "k-means", "random"} or array-like of labels, default="auto"
        As in :class:`CuttingPlaneMarginClustering`; candidates are sought in the features of all
        kernels with equal weights.
    n_init : int or "auto", default="auto"
        As in :class:`CuttingPlaneMarginClustering`.
    max_iter : int, default=1000
        Most passes over the rows of one descent.
    tol : float, default=0.01
        A descent ends when the gap, relative to the objective, is at most this; 1e-6 at least with
        ``solver="socp"``.
    warm_start : bool, default=False
        Start from the labels that the previous fit predicts.
    verbose : int, default=0
        1 shows a progress bar if scikit-learn >= 1.9 and rich are installed.
    random_state : int, RandomState instance or None, default=None
        Seed of the starts; on one machine, the same seed gives the same bits for any number of
        threads.
    n_jobs : int or None, default=None
        Threads over blocks of rows; fits of fewer than 500 rows use one.

    Attributes
    ----------
    kernel_weights_ : dict
        Weight of each kernel by its name.
    labels_, cluster_sizes_, exemplar_indices_, coef_, intercept_
        As in the other estimators; ``coef_`` is in the features of all kernels side by side.
    objective_ : float
        The penalty, plus the mean hinge loss for the final labels, plus the size term.
    size_entropy_, gap_, history_, n_iter_, stop_reason_, restart_objectives_, n_passes_, n_cuts_
        As in :class:`CuttingPlaneMarginClustering`.
    compared_with_kmeans_ : dict
        "objective": that of the k-means partition of X, with weights learned for it; "ari": the
        adjusted Rand index between it and ``labels_``. ``objective_`` is not above the former.
    clusters_on_floor_ : ndarray of int
        Clusters whose size the floor of ``balance`` decided.

    See Also
    --------
    CuttingPlaneMarginClustering : The same problem with one kernel.
    maxmargin.display.plot_kernel_weights : Plot the weights.

    Notes
    -----
    In the paper's symbols alpha = 1 / C for many clusters (2 / C for two, whose form has one
    vector) and ``score_balance`` = l / n. The model means K = sum beta_k K_k: its features are
    sqrt(beta_k) Phi_k, not those of (1.1).

    References
    ----------
    B. Zhao, J. T. Kwok, C. Zhang. Multiple Kernel Clustering. SIAM International Conference on
    Data Mining, 2009.

    Examples
    --------
    >>> from maxmargin import MultipleKernelMarginClustering
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> pair = (y == 2) | (y == 7)
    >>> model = MultipleKernelMarginClustering(random_state=0).fit(X[pair])
    >>> from maxmargin.metrics import clustering_error
    >>> clustering_error(y[pair], model.labels_) < 0.02
    True
    >>> list(model.kernel_weights_)
    ['linear', 'rbf(width=1.4)', 'rbf(width=0.7)']
    >>> round(sum(weight**2 for weight in model.kernel_weights_.values()), 6)
    1.0
    """

    _parameter_constraints: dict[str, Any] = {  # noqa: RUF012 - scikit-learn's convention
        **{
            name: checks
            for name, checks in SHARED_CONSTRAINTS.items()
            if name not in ("kernel", "gamma", "degree", "coef0")
        },
        "kernels": [StrOptions({"default", "paper", "precomputed"}), list, tuple],
        "alpha": [StrOptions({"auto"}), STRENGTH],
        "weight_norm": [Interval(Real, 1, None, closed="left")],
        "size_entropy": [StrOptions({"auto"}), Interval(Real, 0, 1e3, closed="both")],
        "fit_intercept": [StrOptions({"auto"}), "boolean"],
        "score_balance": [Interval(Real, 0, 1e3, closed="both"), None],
        "center": ["boolean"],
        "normalize": ["boolean"],
        "nesting": [StrOptions({"labels", "paper"})],
        "solver": [StrOptions({"qp", "socp"})],
        "max_samples": [Interval(Integral, 2, None, closed="left"), None],
        "init": [StrOptions({"auto", "k-means", "random"}), "array-like"],
    }

    def __init__(
        self,
        n_clusters=2,
        *,
        kernels="default",
        n_components="auto",
        alpha="auto",
        weight_norm=2,
        size_entropy="auto",
        balance=0.0,
        fit_intercept="auto",
        score_balance=None,
        center=True,
        normalize=True,
        nesting="labels",
        solver="qp",
        max_samples=None,
        init="auto",
        n_init="auto",
        max_iter=1000,
        tol=0.01,
        warm_start=False,
        verbose=0,
        random_state=None,
        n_jobs=None,
    ):
        self.n_clusters = n_clusters
        self.kernels = kernels
        self.n_components = n_components
        self.alpha = alpha
        self.weight_norm = weight_norm
        self.size_entropy = size_entropy
        self.balance = balance
        self.fit_intercept = fit_intercept
        self.score_balance = score_balance
        self.center = center
        self.normalize = normalize
        self.nesting = nesting
        self.solver = solver
        self.max_samples = max_samples
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.warm_start = warm_start
        self.verbose = verbose
        self.random_state = random_state
        self.n_jobs = n_jobs

    # A stack of kernels is not one kernel matrix: rows and columns of X are not sliced alike.
    _pairwise = False

    def transform(self, X: Any) -> np.ndarray:
        """Return the features of the learned kernel: sqrt(beta_k) Phi_k(x), side by side.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows, of any kind that ``fit`` takes.

        Returns
        -------
        ndarray of shape (n_samples, n_components)
            Features whose products are ``sum_k beta_k K_k``, up to the rank of the maps.
        """
        check_is_fitted(self)
        weights = np.array(list(self.kernel_weights_.values()))
        roots = np.repeat(np.sqrt(weights), [m.rank for m in self.feature_map_.maps])
        found: np.ndarray = self._mapped(X, partial(feature_block, roots=roots), len(roots))
        return found

    @property
    def _merges_rows(self) -> bool:  # type: ignore[override]
        """Whether equal rows can be merged: not if columns of X are those of kernel matrices."""
        listed = [self.kernels] if isinstance(self.kernels, str) else self.kernels
        return "precomputed" not in [k for k in map(kernel_of, listed) if isinstance(k, str)]

    def estimate_memory(self, n_samples: int, n_features: int, in_blocks: bool = False) -> int:
        count = len(self.kernels)
        if isinstance(self.kernels, str):
            count = 1 if self.kernels == "precomputed" else 3
        rank = {"auto": 100, None: 512}.get(self.n_components, self.n_components)
        stored = 0 if in_blocks else 8 * n_samples * min(rank, n_samples) * (count + 1)
        return int(stored + 100 * n_samples)

    def _listed(self, X: RowSource) -> list[Any]:
        """Return the kernels as a list."""
        if self.kernels == "default":
            if is_text(X):
                return ["cosine", "linear"]
            return ["linear", *(("rbf", {"width": w}) for w in WIDTHS)]
        if self.kernels == "paper":
            return ["linear", ("poly", {"degree": 2, "gamma": 1.0, "coef0": 1.0}), "rbf"]
        if self.kernels == "precomputed":
            n = X.shape[0]
            if X.shape[1] == 0 or X.shape[1] % n:
                raise ValueError(
                    f"kernels='precomputed' needs kernel matrices side by side: X of {n} rows must "
                    f"have a multiple of {n} columns, got {X.shape[1]}."
                )
            starts = range(0, X.shape[1], n)
            return [(slice(start, start + n), "precomputed") for start in starts]
        return list(self.kernels)

    def _fit_model(self, data: FitInput) -> Model:
        self._check_settings(data)
        specs = read_kernels(self._listed(data.X), data.X, data.names)
        chosen = data.chosen(self.max_samples, precomputed=not self._merges_rows)
        X = data.X if len(chosen) == data.X.shape[0] else data.X.sample(chosen)
        k, weights, known = self.n_clusters, data.weights[chosen], data.known[chosen]
        fmap, rows = fit_stack(
            X,
            weights,
            specs,
            n_components=self.n_components,
            rng=data.rng,
            n_jobs=data.n_jobs,
            center=self.center,
            normalize=self.normalize,
        )
        names = [spec.name for spec in fmap.specs]
        count, p = len(names), float(self.weight_norm)
        if k == 1:
            even = dict.fromkeys(names, count ** (-1.0 / p))
            extras = {**NOTHING_FOUND, "kernel_weights_": even, "_n_features_out": fmap.rank}
            return Model(fmap, np.zeros((1, fmap.rank)), np.zeros(1), np.eye(1), extras=extras)
        # With equal weights M^(-1/p) the sum of the kernels has mean square M^(1 - 1/p).
        whole = count ** (1.0 - 1.0 / p)
        alpha = default_alpha(k) * whole if self.alpha == "auto" else self.alpha
        bound, mean, constant = intercept_terms(self, rows, weights)
        penalty = KernelWeights(alpha, p, fmap.blocks, bound, mean, constant=constant)
        cuts = LabelledCuts(rows, weights, known, k, fmap.blocks, constant)
        raw = X if self._merges_rows else None
        given = None if data.initial is None else data.initial[chosen]
        opening = replace(penalty, even=True) if count > 1 and self.nesting != "paper" else None
        problem, report = run_search(self, data, cuts, penalty, raw, given, fmap, opening)
        if self.solver == "socp":  # too slow for the search
            problem.change_penalty(replace(penalty, solver="socp"))
            problem.descend(max(self.tol, CONE_TOL))
            problem.enforce_floor()
        if problem.objective > TRIVIAL:
            warnings.warn(
                f"alpha={alpha:g} is so large that no clusters are separated: the objective is "
                f"{problem.objective:.3g}, and 1 if all coefficients are zero. Lower alpha.",
                UserWarning,
                stacklevel=2,
            )
        constants = np.array([fitted.scale == 0.0 for fitted in fmap.maps])
        beta = np.where(constants, 0.0, penalty.weights(problem.model[0]))
        found = {"kernel_weights_": dict(zip(names, beta.tolist())), "_n_features_out": fmap.rank}
        return fitted_model(problem, fmap, self.balance, {**report, **found})

    def _check_settings(self, data: FitInput) -> None:
        """Raise an error for settings that contradict each other."""
        if not self._merges_rows:
            data.check_kernels()
        if self.solver == "qp":
            return
        if self.weight_norm not in (1, 2) or self.score_balance is not None:
            raise ValueError(
                "solver='socp' takes weight_norm 1 or 2 and no score_balance; got weight_norm="
                f"{self.weight_norm} and score_balance={self.score_balance}."
            )
        if self.fit_intercept is True:
            raise ValueError(
                "solver='socp' has no intercepts; got fit_intercept=True. Use False or 'auto'."
            )
        try:
            import clarabel  # noqa: F401
        except ImportError:
            raise ImportError("solver='socp' needs clarabel: pip install maxmargin[sdp].") from None


def feature_block(block, _parts, *_model, roots):
    """Block function: features of the rows, scaled column by column."""
    scale = block.send(roots)
    return (), concat([tile.values * scale for _, tile in block.tiles()], block.xp)
