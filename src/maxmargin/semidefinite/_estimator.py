"""The estimator: see the folder's docstring for the problem it solves."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy import linalg
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from .._base import SHARED_CONSTRAINTS, STRENGTH, BaseMarginClustering
from .._callbacks import Interval, StrOptions
from .._core.dedup import FitInput
from .._core.descent import STALLED, Outcome
from .._core.init import agreement, held_labels, kicked, kmeans, kmeans_partition
from .._core.model import Model
from .._core.rows import Rows, scores
from .._core.size_floor import row_losses, size_floor
from .._core.tree import SplitState, check_known_sizes, recursive_splits
from ._interior_point import solve_diagonal_sdp
from ._labels import Objective, linear_model
from ._relation import RelationProblem, solve_relation

MOST_ROWS = {"generalized": 2000, "full": 200}  # a minute or so
LEAST_RIDGE = 1e-8
KICKS = 2  # for each cluster, beyond two clusters


@dataclass(frozen=True)
class Certificate:
    """Objective of a labelling and the lower bound of the relaxation.

    Parameters
    ----------
    objective : float
        Objective of the relaxation for the labelling.
    lower_bound : float
        Lower bound on the objective of all labellings.
    """

    objective: float
    lower_bound: float

    @property
    def gap(self) -> float:
        """Relative gap between objective and bound: 0 proves that no labelling is better."""
        return (self.objective - self.lower_bound) / max(self.objective, 1e-300)


class SemidefiniteMarginClustering(BaseMarginClustering):
    """Margin clustering by a convex relaxation, without local optima and with a lower bound.

    Use it for a few hundred rows, or to certify the labels of a faster method. For more rows, a
    sample is solved and the model predicts the labels of the others.

    Parameters
    ----------
    n_clusters : int, default=2
        Number of clusters. More than two are relaxed together in the generalized form and found by
        recursive splits in the full form.
    relaxation : {"generalized", "full"}, default="generalized"
        Valizadegan and Jin's relaxation over n numbers, or Xu et al.'s over n^2, which needs scs
        (``pip install "maxmargin[sdp]"``).
    kernel : str or callable, default="rbf"
        As in :func:`sklearn.metrics.pairwise.pairwise_kernels`, or "precomputed".
    gamma : "median", float or None, default="median"
        Width of the kernel; "median" is 1 / median squared distance.
    degree, coef0 : float, default=3 and 1
        Of the polynomial and sigmoid kernels.
    n_components : int, "auto" or None, default=None
        Rank of the feature map; None is exact.
    alpha : float, default=0.03
        Regularisation strength, from 1e-12 to 1e12. The default was chosen with the labels of a
        dozen small data sets. If alpha is too large, the relaxation degenerates to kernel PCA.
    size_penalty : float, default=10
        Penalty on unequal cluster sizes: weight of the squared mean score, from 1e-12 to 1e12,
        ``"generalized"`` only. Up to 1, the optimum can be a single cluster.
    ridge : float, default=0.1
        Added to the diagonal of a kernel with unit mean diagonal, ``"generalized"`` only, because
        the relaxation needs the inverse of the kernel matrix. Labels hardly depend on it; a smaller
        ridge gives a looser bound. Values below 1e-8 are raised to 1e-8, with a warning; the
        maximum is 1e12.
    balance : float, default=0.7
        Every cluster has at least ``balance * n / n_clusters`` rows. In the full form this is a
        constraint of the relaxation; in the generalized form it only limits the labels.
    max_samples : int or "auto", default="auto"
        Maximum number of distinct rows to solve for; "auto" is 2000, or 200 in the full form. For
        more rows a random sample is solved, and bounds and objectives are those of the sample.
    max_iter : int, default=100
        Most iterations of the interior point; for the full form, hundreds of iterations of scs.
    tol : float, default=1e-6
        Relative duality gap at which to stop; ten times this in the full form.
    verbose : int, default=0
        1 shows a progress bar if scikit-learn >= 1.9 and rich are installed.
    random_state : int, RandomState instance or None, default=None
        Seed of the samples for ``max_samples`` and ``gamma="median"``.
    n_jobs : int or None, default=None
        Number of threads over blocks of rows; fits of fewer than 500 rows use one.

    Attributes
    ----------
    labels_, cluster_sizes_, exemplar_indices_, clusters_on_floor_
        See :class:`AlternatingMarginClustering`. ``labels_`` are the best labels that a descent by
        single moves and exchanges reaches from the relaxation's leading eigenvectors and from the
        k-means partition, in the objective that is bounded.
    coef_, intercept_ : ndarray of shape (m, n_components) and (m,)
        The model of the labels: ridge regressions, one row for two clusters and ``n_clusters`` for
        more; in the full form an SVM for each of ``n_clusters - 1`` splits.
    lower_bound_ : float
        Lower bound on the objective of all labellings (of the first split, for several). It is
        valid even if the solver stopped early.
    objective_ : float
        The same objective for ``labels_``; for several splits, the weighted mean.
    compared_with_kmeans_ : dict
        "objective" of the k-means partition of the solved rows, after repair to the size floor, and
        "ari", its agreement with the labels found; for several splits, weighted means over them.
        ``objective_`` is not above it.
    duality_gap_ : float
        Relative duality gap of the solver.
    alpha_ : float
        The regularisation strength used.
    history_ : list of float
        Lower bound after each iteration.
    n_iter_, stop_reason_
        See :class:`AlternatingMarginClustering`.

    See Also
    --------
    MaxMarginClustering : Automatic settings, confidence and outliers.
    LeastSquaresMarginClustering : Labels by a search, without a bound, for more rows.

    Notes
    -----
    In the paper's symbols, with s = ``feature_scale_``: C = 2 s^2 / (n alpha) is the bound of the
    box in (7) and (17), and C_e = 2 s^2 size_penalty / (n^2 alpha). For (6), C = s^2 / (n alpha)
    and l = n (1 - balance), on centred features.

    References
    ----------
    L. Xu, J. Neufeld, B. Larson, D. Schuurmans. Maximum Margin Clustering. Advances in Neural
    Information Processing Systems 17, 2005.

    H. Valizadegan, R. Jin. Generalized Maximum Margin Clustering and Unsupervised Kernel Learning.
    Advances in Neural Information Processing Systems 19, 2007.

    Examples
    --------
    >>> from maxmargin import SemidefiniteMarginClustering
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = SemidefiniteMarginClustering().fit(X[:100])
    >>> model.cluster_sizes_
    array([50, 50])
    >>> wrong = model.certificate(y[:100] ^ (X[:100, 1] > 3))
    >>> model.lower_bound_ <= model.objective_ < wrong.objective
    True
    """

    # A convex problem needs no initialisation.
    warm_start = _depends_on_starts = False

    _parameter_constraints: dict = {  # noqa: RUF012 - scikit-learn's convention
        **{k: v for k, v in SHARED_CONSTRAINTS.items() if k not in ("n_init", "warm_start")},
        "relaxation": [StrOptions({"generalized", "full"})],
        "alpha": [STRENGTH],
        "size_penalty": [STRENGTH],
        "ridge": [Interval(Real, 0, STRENGTH.right, closed="both")],
        "max_samples": [StrOptions({"auto"}), Interval(Integral, 2, None, closed="left")],
    }

    def __init__(
        self,
        n_clusters=2,
        *,
        relaxation="generalized",
        kernel="rbf",
        gamma="median",
        degree=3,
        coef0=1,
        n_components=None,
        alpha=0.03,
        size_penalty=10.0,
        ridge=0.1,
        balance=0.7,
        max_samples="auto",
        max_iter=100,
        tol=1e-6,
        verbose=0,
        random_state=None,
        n_jobs=None,
    ):
        self.n_clusters = n_clusters
        self.relaxation = relaxation
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.n_components = n_components
        self.alpha = alpha
        self.size_penalty = size_penalty
        self.ridge = ridge
        self.balance = balance
        self.max_samples = max_samples
        self.max_iter = max_iter
        self.tol = tol
        self.verbose = verbose
        self.random_state = random_state
        self.n_jobs = n_jobs

    def certificate(self, labels) -> Certificate:
        """Compare a labelling of the training rows with the lower bound.

        The objective is that of the relaxation: y'Ay in the generalized form (<A, M> for more than
        two clusters), and that of an SVM without intercept in the full form.

        Parameters
        ----------
        labels : array-like of shape (n_samples,)
            Labels from any method; two different values, or up to ``n_clusters`` in the
            generalized form.

        Returns
        -------
        Certificate
            ``objective``, ``lower_bound`` and their relative ``gap``.

        Examples
        --------
        >>> from maxmargin import AlternatingMarginClustering, SemidefiniteMarginClustering
        >>> X = [[0.0, 0.1], [0.2, 0.0], [0.1, 0.2], [3.0, 3.1], [3.1, 2.8], [2.9, 3.0]]
        >>> bound = SemidefiniteMarginClustering(kernel="linear", ridge=1.0).fit(X)
        >>> labels = AlternatingMarginClustering(random_state=0).fit_predict(X)
        >>> bound.certificate(labels).gap < 1e-5  # no labelling is better
        True
        """
        check_is_fitted(self)
        if not hasattr(self, "lower_bound_"):
            raise ValueError("certificate needs n_clusters >= 2: one cluster has no margin.")
        full = self.relaxation == "full"
        objective = Objective(
            self._relaxed, self._relaxed_shares, 2 if full else self.n_clusters, 0.0,
            self._relaxed_known >= 0, float(self.alpha) if full else None,
        )  # fmt: skip
        found = objective.value(self._checked_labels(labels, objective))
        return Certificate(found, self.lower_bound_)

    def _checked_labels(self, labels, objective: Objective) -> np.ndarray:
        """Return the cluster of every row of the relaxation from one label per row of X."""
        labels, rows = np.asarray(labels), self._relaxed_rows
        if labels.shape != rows.shape:
            raise ValueError(f"labels must have shape {rows.shape}, got {labels.shape}.")
        names, codes = np.unique(labels, return_inverse=True)
        if not 2 <= len(names) <= objective.k:
            wanted = "two" if objective.k == 2 else f"2 to {objective.k}"
            raise ValueError(f"labels must have {wanted} different values, got {len(names)}.")
        found = np.zeros(len(objective.shares), np.int64)
        counted = rows >= 0
        found[rows[counted]] = codes[counted]
        if (found[rows[counted]] != codes[counted]).any():
            raise ValueError("labels must be the same for equal rows; the relaxation merges them.")
        known = self._relaxed_known[objective.fixed]
        pairs = {*zip(known, found[objective.fixed])}
        if len(pairs) > min(len({a for a, _ in pairs}), len({b for _, b in pairs})):
            raise ValueError("labels must agree with the partial_labels of the fit.")
        off = abs(float(self._relaxed_shares @ (2.0 * found - 1.0)))
        if self.relaxation == "full" and off > self._relaxed_bound + 1e-9:
            raise ValueError(
                f"labels have {0.5 + 0.5 * off:.1%} of the rows in one cluster; with balance="
                f"{self.balance} the bound is valid for at most "
                f"{0.5 + 0.5 * self._relaxed_bound:.1%}."
            )
        return found

    def estimate_memory(self, n_samples: int, n_features: int, in_blocks: bool = False) -> int:
        # Twelve n x n matrices at the same time; scs keeps some fifty numbers for each entry of M.
        matrices = 12 if self.relaxation == "generalized" else 100
        solved = min(n_samples, self._most())
        return int(8 * matrices * solved**2 + 8 * solved * n_features + 96 * n_samples)

    def _most(self) -> int:
        return MOST_ROWS[self.relaxation] if self.max_samples == "auto" else self.max_samples

    def _decision_losses(self, decision):
        margins = decision.max(axis=1)
        return row_losses(np.ones(len(margins)), margins, "hinge")

    # -- the fit ----------------------------------------------------------------------------------

    def _fit_model(self, data: FitInput) -> Model:
        data = data.part(data.chosen(self._most(), self._pairwise))
        fmap, rows = self._features(data)
        k, solved = self.n_clusters, []

        def clusters(indices, stored, known, k, floor):
            raw = stored if self._pairwise else Rows(data.X).part(indices)
            solved.append(
                self._clustered(stored, raw, data, data.weights[indices], known, k, floor)
            )
            return solved[-1]

        def split(indices, stored, sides, sizes):
            known = np.where(sides == 0, -1, sides > 0)
            floor = max(sizes.floor * max(sizes.below, sizes.above), sizes.side)
            found = clusters(indices, stored, known, 2, floor)
            model = found.coef[0], float(found.intercept[0]), found.objective
            state, r = SplitState(2 * found.labels - 1, *model), found.relaxed
            outcome = Outcome(state, found.objective, r.history, r.n_iter, r.stop_reason)
            return outcome, self.alpha

        if k == 1 or (k > 2 and self.relaxation == "full"):
            model = recursive_splits(rows, data, fmap, k, self.balance, split)
        else:
            floor = size_floor(self.balance, data.weights.sum(), k, data.whole)
            if k == 2:
                check_known_sizes(
                    np.where(data.known < 0, 0, 2 * data.known - 1), data.weights, floor
                )
            found = clusters(np.arange(rows.shape[0]), rows, data.known, k, floor)
            r, paths = found.relaxed, np.eye(k) if k > 2 else np.array([[-1.0], [1.0]])
            model = Model(
                fmap, found.coef, found.intercept, paths, found.objective, r.history, r.n_iter,
                r.stop_reason, balance=self.balance,
            )  # fmt: skip
        extras: dict[str, Any] = {"alpha_": float(self.alpha)}
        if solved:
            extras |= {"_relaxed_rows": data.inverse} | relaxed_attributes(solved)
        reason = getattr(data.watch, "reason", None) or model.stop_reason
        return replace(model, stop_reason=reason, extras=extras)

    def _clustered(self, stored: Rows, raw: Rows, data, weights, known, k, floor) -> Clustered:
        """Solve the relaxation of some rows and descend to labels in its objective."""
        Z, total = np.asarray(stored.values(), np.float64), float(weights.sum())
        shares, rng = weights / total, data.rng.spawn(1)[0]
        ridge = max(self.ridge, LEAST_RIDGE)
        if self.relaxation == "full":
            relaxed = self._solve_full(Z @ Z.T, shares, known, floor / total)
            data.watch(relaxed.lower)
        else:
            if ridge > self.ridge:
                warnings.warn(
                    f"ridge={self.ridge:g} leaves the kernel matrix numerically singular; "
                    f"{ridge:g} is used instead.",
                    UserWarning,
                    stacklevel=2,
                )
            relaxed = self._solve_generalized(Z, shares, known, k, ridge, data.watch)
        objective = Objective(
            relaxed.matrix, shares, k, floor / total, known >= 0,
            float(self.alpha) if self.relaxation == "full" else None,
        )  # fmt: skip

        def held(labels):  # no cluster stays empty, even without a floor
            return held_labels(stored, labels, weights, known, k, max(floor, weights.min()))

        near = held(kmeans_partition(raw, weights, k, rng))
        if k == 2:
            rounded = (relaxed.soft[:, 0] > 0).astype(np.int64)
        else:
            rounded, _ = kmeans(relaxed.soft, k, rng, weights, 3)
        found = [objective.descended(held(rounded)), objective.descended(near)]
        for _ in range(KICKS * k if k > 2 else 0):
            best = min(found, key=lambda pair: pair[0])
            found = [best, objective.descended(held(kicked(best[1], known >= 0, k, rng)))]
        value, labels = min(found, key=lambda pair: pair[0])
        coef, intercept = linear_model(objective, Z, labels, ridge / len(Z))
        fitted = scores(stored, coef) + intercept
        predicted = fitted.argmax(axis=1) if k > 2 else (fitted[:, 0] > 0).astype(np.int64)
        predicted = np.where(known >= 0, known, predicted)
        if (predicted != labels).any():
            labels, value = predicted, objective.value(predicted)
        rival = {"objective": objective.value(near), "ari": agreement(labels, near, k)}
        return Clustered(relaxed, shares, known, labels, coef, intercept, value, rival, total)

    def _solve_generalized(self, Z, shares, known, k: int, ridge: float, watch) -> Relaxed:
        group, sign = movable_groups(known, k)
        A = score_penalty(Z, shares, self.alpha, self.size_penalty, ridge)
        masses = np.bincount(group, shares)
        # In units of the square root of its mass the box of every group is [0, 1].
        to_group = np.zeros((len(masses), len(shares)))
        to_group[group, np.arange(len(shares))] = sign * np.sqrt(shares / masses[group])
        grouped = A if len(masses) == len(shares) else to_group @ A @ to_group.T
        found = solve_diagonal_sdp(
            grouped, masses, tol=self.tol, max_iter=self.max_iter, watch=watch
        )
        if found.stop_reason == STALLED:
            _warn_of_gap(found.gap, self.tol, "ridge or alpha")
        soft = leading_scores(found.Z, k - 1) / np.sqrt(masses)[:, None]
        return Relaxed(
            A, sign[:, None] * soft[group], found.lower, found.gap, 1.0, found.history,
            found.n_iter, found.stop_reason,
        )  # fmt: skip

    def _solve_full(self, K, shares, known, least: float) -> Relaxed:
        group, sign = movable_groups(known, 2)
        bound = max(0.0, 1.0 - 2.0 * least)
        problem = RelationProblem(K, shares, group, sign, float(self.alpha), bound)
        pull = np.abs(problem.pull)
        heaviest = 2.0 * pull.max() - pull.sum()
        if heaviest > bound + 1e-9:
            raise ValueError(
                f"balance={self.balance} cannot be met: rows that must be in one cluster "
                f"have {0.5 + 0.5 * heaviest:.1%} of the weight, and a cluster may have at most "
                f"{0.5 + 0.5 * bound:.1%}. Lower balance."
            )
        found = solve_relation(problem, 10.0 * self.tol, self.max_iter)
        gap = (found.value - found.lower) / max(abs(found.value), 1e-300)
        if found.stop_reason == STALLED:
            _warn_of_gap(gap, self.tol, "alpha")
        return Relaxed(
            K, sign[:, None] * leading_scores(found.M)[group], found.lower, gap, bound,
            [found.lower], found.n_iter, found.stop_reason,
        )  # fmt: skip


@dataclass(frozen=True)
class Relaxed:
    """A solved relaxation."""

    # (n, n): A in units of the square roots of the shares, or the kernel (full form)
    matrix: np.ndarray
    soft: np.ndarray  # (n, k - 1): soft labels: the leading eigenvectors
    lower: float
    gap: float
    bound: float  # largest difference of the shares of two clusters for which ``lower`` is valid
    history: list[float]
    n_iter: int
    stop_reason: str


@dataclass(frozen=True)
class Clustered:
    """Labels found with a relaxation, their linear model, and how k-means compares."""

    relaxed: Relaxed
    shares: np.ndarray
    known: np.ndarray
    labels: np.ndarray
    coef: np.ndarray
    intercept: np.ndarray
    objective: float
    rival: dict[str, float]
    weight: float


def relaxed_attributes(solved: list[Clustered]) -> dict[str, Any]:
    """Return fitted attributes: the relaxation of all rows, and how k-means compares on average."""
    first, weights = solved[0], [found.weight for found in solved]
    return {
        "lower_bound_": first.relaxed.lower,
        "duality_gap_": first.relaxed.gap,
        "compared_with_kmeans_": {
            name: float(np.average([f.rival[name] for f in solved], weights=weights))
            for name in ("objective", "ari")
        },
        "_relaxed": first.relaxed.matrix,
        "_relaxed_shares": first.shares,
        "_relaxed_known": first.known,
        "_relaxed_bound": first.relaxed.bound,
    }


def score_penalty(Z, shares, alpha: float, size_penalty: float, ridge: float) -> np.ndarray:
    """Return A of f'Af, for scores in units of the square roots of the shares, f_i sqrt(s_i).

    With u = sqrt(s) and centred rows, K_s = diag(u) Z Z' diag(u) has K_s u = 0. Minimising over w
    gives (K_s + rho I)^-1, and over b projects u out: the Schur complement of (7) in one step.

    Examples
    --------
    >>> Z = np.array([[1.0], [-1.0]])
    >>> A = score_penalty(Z, np.full(2, 0.5), alpha=2.0, size_penalty=3.0, ridge=1e-6)
    >>> np.round(A, 3)
    array([[2., 1.],
           [1., 2.]])
    """
    u = np.sqrt(shares)
    half = u[:, None] * Z
    rho = ridge / len(u)
    # u is an eigenvector: with eigenvalue 1 + rho instead of rho it can be removed exactly.
    inverse = linalg.inv(half @ half.T + rho * np.eye(len(u)) + np.outer(u, u))
    inverse = 0.5 * alpha * 0.5 * (inverse + inverse.T)
    return inverse + (size_penalty - 0.5 * alpha / (1.0 + rho)) * np.outer(u, u)


def leading_scores(M: np.ndarray, count: int = 1) -> np.ndarray:
    """Return leading eigenvectors as columns, the last of unit length.

    The lengths are in proportion to the roots of the eigenvalues; largest entries are positive.
    """
    n = len(M)
    try:
        lam, vectors = linalg.eigh(M, subset_by_index=[max(n - count, 0), n - 1])
        missed = vectors.shape[1] < min(count, n)
    except linalg.LinAlgError:
        missed = True
    if missed:  # LAPACK's bisection can fail, or miss nearly equal eigenvalues
        lam, vectors = linalg.eigh(M, driver="ev")
        lam, vectors = lam[-count:], vectors[:, -count:]
    largest = np.take_along_axis(vectors, np.abs(vectors).argmax(axis=0)[None, :], axis=0)
    return vectors * np.where(largest < 0, -1.0, 1.0) * np.sqrt(np.maximum(lam, 0.0) / lam[-1])


def movable_groups(known: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the group and sign of each row: rows of known label move together.

    For two clusters all of them do, with a sign; for more, those of the same label.

    Examples
    --------
    >>> movable_groups(np.array([-1, 1, -1, 0]), 2)
    (array([0, 2, 1, 2]), array([ 1.,  1.,  1., -1.]))
    >>> movable_groups(np.array([-1, 1, -1, 0]), 3)[0]
    array([0, 3, 1, 2])
    """
    free = known < 0
    group = np.cumsum(free) - 1
    classes = np.zeros(len(known), np.int64) if k == 2 else known
    group[~free] = free.sum() + np.unique(classes[~free], return_inverse=True)[1]
    return group, np.where(known == 0, -1.0, 1.0) if k == 2 else np.ones(len(known))


def _warn_of_gap(gap: float, tol: float, remedy: str) -> None:
    warnings.warn(
        f"The relaxation stopped at a relative duality gap of {gap:.2g}, not tol={tol:g}: it no "
        f"longer improves. The lower bound is valid; raise {remedy} for a tighter one.",
        ConvergenceWarning,
        stacklevel=2,
    )
