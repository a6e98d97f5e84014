r"""The front door: margin clusters of any rows, with nothing to set but how many.

The clusters are those whose least-squares classifiers fit best (:mod:`maxmargin.least_squares`),
with choices made for the user that did best over twenty different data sets:

.. math::
    \max_c\; J_p(c) = \sum_h y_h' R\, y_h / n_h^p, \qquad
    R = \tfrac12 \big( K_c (K_c + I)^{-1} + (I + 10 L)^{-1} \big)

=========================================  =====================================================
what                                       why
=========================================  =====================================================
the mean of a Gaussian kernel's R and a    one sees round clusters, the other winding ones; the
nearest-neighbour graph's                  mean does nearly as well as the better of the two
tempered sizes, p = 3/4                    p = 0 forces equal sizes, p = 1 finds tiny clusters
a second pass in the metric in which the   columns of different scale, and clusters that are long
first clusters are round                   in the same direction
unit rows, cosine kernel, ridge 10         rows of mostly zeros, such as word counts
a mixture with a scale per cluster, where  clusters that differ in spread, not in place
it is predicted nearly as well
at most ``max_exact`` rows fitted on       R costs the cube of their number; the model labels the
                                           other rows
links between rows                         :class:`PairwiseMarginClustering`
=========================================  =====================================================

What was tried, with figures: ``docs/front_door.md``.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.metrics import adjusted_rand_score

from ._base import SHARED_CONSTRAINTS, BaseMarginClustering, earlier_fit_kept
from ._compat import FitWatch, Interval, StrOptions, with_callbacks
from .constraints import PairwiseConstraints
from .engine.blocks import RowBlocks
from .engine.features import KERNELS
from .engine.labels import lead_losses
from .engine.resampling import matched
from .engine.threads import one_thread
from .least_squares import DENSE_SHARE, LeastSquaresMarginClustering
from .pairwise import PairwiseMarginClustering

N_NEIGHBORS = 10
TEXT_RIDGE = 10.0
LOOKED_AT = 4000
QUICK = {"n_init": 4, "n_kicks": 12, "n_resamples": 0}  # where many fits are compared
ALIKE = 0.95  # adjusted Rand index of answers that count as the same
CHOICE_ROWS = 5000  # brought into memory to choose the number of clusters by
SURE, STABLE = 0.9, 0.75
TEXT_WIDTH = 50  # rows with fewer columns are not taken for word counts, however many are zero
ADOPTED = (
    "labels_", "cluster_sizes_", "exemplar_indices_", "coef_", "intercept_", "objective_",
    "history_", "n_iter_", "stop_reason_", "feature_map_", "feature_scale_", "_paths",
    "_n_features_out", "confidence_", "stability_", "_calibration",
)  # fmt: skip


class MaxMarginClustering(BaseMarginClustering):
    """Margin clusters without settings: give the rows and, if known, the number of clusters.

    Parameters
    ----------
    n_clusters : int or None, default=None
        None chooses the number by the stability of the answer (:func:`choose_n_clusters`) and
        says how sure that is.
    kernel : "auto", str or callable, default="auto"
        "auto": cosine for rows of mostly zeros, else Gaussian; or a kernel of
        :func:`sklearn.metrics.pairwise.pairwise_kernels`, or "precomputed".
    size_prior : float in [0, 1], default=0.75
        p above: 0 is for clusters of equal size, 1 indifferent to sizes.
    spreads : bool, default=True
        Whether clusters may differ in spread instead of place, such as a narrow cloud within a
        wide one; looked for where clusters by place are not predicted well.
    balance : float, default=0.05
        Every cluster keeps at least ``balance * n / n_clusters`` rows.
    n_init : int or "auto", default="auto"
        Random starts; "auto" is 8, and as many again that are not shaken.
    max_exact : int, default=4000
        Most rows to fit on; more are subsampled, and the model labels the rest.
    n_resamples : int, default=6
        Random parts of the data that are clustered again, to tell how sure the answer is; 0 leaves
        ``confidence_``, ``stability_`` and ``alternatives_`` out.
    time_budget : float or None, default=None
        Seconds to search for: as many attempts to improve the clusters as fit in. The answer then
        depends on the speed of the machine; None makes a fixed number of attempts.
    warm_start : bool, default=False
        Start from the labels that the previous fit predicts.
    verbose : int, default=0
        1 shows a progress bar where scikit-learn >= 1.9 and rich are installed.
    random_state : int, RandomState instance or None, default=None
        Seed; on one machine, the same seed gives the same bits for any number of threads.
    n_jobs : int or None, default=None
        Threads over starts and blocks of rows.

    Attributes
    ----------
    n_clusters_ : int
        The number of clusters.
    labels_, cluster_sizes_, exemplar_indices_
        As in the other estimators.
    report_ : list of str
        What was chosen and why, in sentences.
    confidence_ : ndarray of shape (n_samples,)
        How sure each row's cluster is: share of resamples in which rows of that cluster with such
        a leave-one-out margin kept theirs.
    stability_ : float
        Mean adjusted Rand index between the answers to two resamples.
    alternatives_ : list of Alternative
        The runner-up, if the search ended with other clusters from other starts.
    coef_, intercept_, objective_, history_, n_iter_, stop_reason_
        Of the estimator that was chosen.

    Examples
    --------
    >>> from maxmargin import MaxMarginClustering
    >>> from maxmargin.metrics import adjusted_rand_score
    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(300, noise=0.08, random_state=0)
    >>> model = MaxMarginClustering(2, random_state=0).fit(X)
    >>> adjusted_rand_score(y, model.labels_) > 0.95
    True
    >>> len(model.report_) > 1
    True
    """

    _parameter_constraints: dict = {  # noqa: RUF012 - scikit-learn's convention
        **{
            name: SHARED_CONSTRAINTS[name]
            for name in ("balance", "n_init", "warm_start", "verbose", "random_state", "n_jobs")
        },
        "n_clusters": [Interval(Integral, 1, None, closed="left"), None],
        "kernel": [StrOptions({"auto", *KERNELS}), callable],
        "size_prior": [Interval(Real, 0, 1, closed="right")],
        "spreads": ["boolean"],
        "max_exact": [Interval(Integral, 2, None, closed="left")],
        "n_resamples": [Interval(Integral, 0, None, closed="left")],
        "time_budget": [Interval(Real, 0, None, closed="neither"), None],
    }

    def __init__(
        self,
        n_clusters=None,
        *,
        kernel="auto",
        size_prior=0.75,
        spreads=True,
        balance=0.05,
        n_init="auto",
        max_exact=4000,
        n_resamples=6,
        time_budget=None,
        warm_start=False,
        verbose=0,
        random_state=None,
        n_jobs=None,
    ):
        self.n_clusters = n_clusters
        self.kernel = kernel
        self.size_prior = size_prior
        self.spreads = spreads
        self.balance = balance
        self.n_init = n_init
        self.max_exact = max_exact
        self.n_resamples = n_resamples
        self.time_budget = time_budget
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
            Rows to cluster, or the kernel between them for ``kernel="precomputed"``.
        y : ignored
        constraints : PairwiseConstraints, optional
            Links between rows; they are learned from by :class:`PairwiseMarginClustering`.
        partial_labels : array-like of shape (n_samples,), optional
            Known clusters, numbered from 0; -1 where unknown. They are kept.
        sample_weight : array-like of shape (n_samples,), optional
            A weight of 2 counts like the row given twice, 0 like the row left out. Other weights
            lie between 1e-9 and 1e9.

        Returns
        -------
        self : estimator
        """
        with earlier_fit_kept(self), one_thread():
            self._validate_params()
            self._fit(X, sample_weight, partial_labels, constraints=constraints)
        return self

    def estimate_memory(self, n_samples: int, n_features: int, in_blocks: bool = False) -> int:
        """Peak memory in bytes that a fit needs beyond X itself."""
        return self._least_squares(2).estimate_memory(n_samples, n_features, in_blocks)

    def _decision_losses(self, decision):
        return lead_losses(decision)

    @property
    def _pairwise(self) -> bool:
        return isinstance(self.kernel, str) and self.kernel == "precomputed"

    # -- checks while the number of clusters is open ----------------------------------------------

    def _checked_partial_labels(self, partial_labels, n: int) -> np.ndarray | None:
        if self.n_clusters is not None or partial_labels is None:
            return super()._checked_partial_labels(partial_labels, n)
        # Any number of clusters will do, as long as the labels are labels.
        return self._least_squares(2**31)._checked_partial_labels(partial_labels, n)

    def _checked_links(self, constraints, n: int, known) -> Any:
        if constraints is None:
            return None
        if isinstance(constraints, PairwiseConstraints) and constraints.n_links == 0:
            return None
        k = self.n_clusters or 2**31
        PairwiseMarginClustering(k)._checked_links(constraints, n, known)
        return constraints

    def _check_counts(self, X, weights) -> None:
        self._least_squares(self.n_clusters or 2)._check_counts(X, weights)

    # -- the fit ----------------------------------------------------------------------------------

    def _fit_validated(self, X, weights, known, links, warm, watch, place=None) -> None:
        outer, watch = watch, FitWatch(self) if watch is None else watch
        kind = kind_of_rows(X, self.kernel)
        report = [kind.sentence]
        k = self.n_clusters
        if k is None:
            k, sentence = self._chosen_number(X, kind, known)
            report.append(sentence)
        model = self._least_squares(k, kind) if links is None else self._with_links(k, kind)
        among = None if links is None else model._checked_links(links, X.shape[0], known)
        model.n_features_in_ = self.n_features_in_
        model._fit_validated(X, weights, known, among, warm, watch, place)
        self.n_clusters_ = k
        for name in ADOPTED:
            if hasattr(model, name):
                setattr(self, name, getattr(model, name))
        self.alternatives_ = _alternatives(getattr(model, "_rivals", []), self.labels_, k)
        self.report_ = report + list(self._sentences(model, X.shape, known, links))
        if outer is None:
            watch.close()

    def _least_squares(self, k: int, kind: Kind | None = None) -> LeastSquaresMarginClustering:
        kind = Kind("rbf", 1.0, N_NEIGHBORS, "") if kind is None else kind
        return LeastSquaresMarginClustering(
            k,
            kernel=kind.kernel,
            ridge=kind.ridge,
            n_neighbors=kind.n_neighbors,
            size_prior=self.size_prior,
            whiten=True,
            spreads=self.spreads,
            balance=self.balance,
            n_init=self.n_init,
            max_exact=self.max_exact,
            n_resamples=self.n_resamples,
            time_budget=self.time_budget,
            random_state=self.random_state,
            n_jobs=self.n_jobs,
        )

    def _with_links(self, k: int, kind: Kind) -> PairwiseMarginClustering:
        return PairwiseMarginClustering(
            k, kernel=kind.kernel, random_state=self.random_state, n_jobs=self.n_jobs
        )

    def _chosen_number(self, X, kind: Kind, known) -> tuple[int, str]:
        """The number of clusters, and the sentence about it."""
        if known is not None:
            k = int(known.max()) + 1
            return k, f"The known labels name {k} clusters."
        from .cluster_number import choose_n_clusters

        if isinstance(X, RowBlocks):
            few = self._generator().choice(X.shape[0], CHOICE_ROWS, replace=False)
            X = X[np.sort(few)]
        quick = self._least_squares(2, kind).set_params(time_budget=None, **QUICK)
        choice = choose_n_clusters(X, quick, random_state=self.random_state)
        if choice.uncertain:
            warnings.warn(choice.statement, UserWarning, stacklevel=6)
        return choice.n_clusters, choice.statement

    def _sentences(self, model, shape: tuple[int, int], known, links) -> Iterator[str]:
        """What was done and why."""
        n, d = shape
        if links is not None:
            broken = links.violations(self.labels_).n_links
            yield (
                f"{links.n_links} links between rows were given: the clusters are those of "
                f"PairwiseMarginClustering, which learns from them; {broken} of them are broken."
            )
            return
        if model.feature_map_.axes is not None:
            yield (
                "The rows were clustered twice, the second time in the metric in which the "
                f"first clusters are round: {d} columns are few enough to tell it from."
            )
        fitted = len(model.fitted_indices_)
        if n > self.max_exact:
            yield (
                f"The clusters were found on {fitted:,} random rows, and their classifiers label "
                f"the other {n - fitted:,}."
            )
        if known is not None:
            count = int((known >= 0).sum())
            yield f"{count} known labels were kept; the clusters are numbered after them."
        yield (
            f"Classifiers that did not see a row give it its own cluster in "
            f"{model.leave_one_out_:.0%} of the cases."
        )
        if self.n_resamples:
            yield from self._certainty()

    def _certainty(self) -> Iterator[str]:
        told = "stable" if self.stability_ >= STABLE else "not stable: take them with care"
        parts = (
            f"The clusters are {told}. Two random parts of the rows agree on them "
            f"to {self.stability_:.2f} (adjusted Rand index)"
        )
        if hasattr(self, "confidence_"):
            sure = float(np.mean(self.confidence_ > SURE))
            yield f"{parts}; {sure:.0%} of the rows have a confidence above {SURE}."
        else:  # the rows are on a cluster, and so would be their confidence
            yield f"{parts}."
        for other in self.alternatives_:
            yield (
                f"The runner-up has an objective {other.shortfall:.1%} below the best and agrees "
                f"with it to {other.agreement:.2f} (adjusted Rand index)."
            )

    confidence = LeastSquaresMarginClustering.confidence


def quick_clusterer(X) -> LeastSquaresMarginClustering:
    """What clusters rows like these, to be fitted many times."""
    return MaxMarginClustering()._least_squares(2, kind_of_rows(X)).set_params(**QUICK)


@dataclass(frozen=True)
class Kind:
    """How rows are compared."""

    kernel: Any
    ridge: float
    n_neighbors: int
    sentence: str


@dataclass(frozen=True)
class Alternative:
    """Other clusters that the search ended with.

    Attributes
    ----------
    labels : ndarray of shape (n_samples,)
        Numbered so that they agree with ``labels_`` as far as possible; -1 for rows not fitted on.
    agreement : float
        Adjusted Rand index with ``labels_``.
    shortfall : float
        By which share its objective is worse.
    """

    labels: np.ndarray
    agreement: float
    shortfall: float


def _alternatives(rivals, labels: np.ndarray, k: int) -> list[Alternative]:
    """The best of the other answers that is really another one."""
    for shortfall, other in rivals:
        rows = np.flatnonzero(other >= 0)
        agreement = float(adjusted_rand_score(labels[rows], other[rows]))
        if agreement < ALIKE:
            renamed = np.full(len(other), -1)
            renamed[rows] = matched(labels[rows], other[rows], k)
            return [Alternative(renamed, agreement, shortfall)]
    return []


def kind_of_rows(X, kernel="auto") -> Kind:
    """How to compare these rows, dense or CSR alike.

    Examples
    --------
    >>> kind_of_rows(np.ones((5, 3))).kernel
    'rbf'
    >>> kind_of_rows(sparse.eye_array(100, format="csr")).kernel
    'cosine'
    """
    if kernel == "precomputed":
        told = "X was taken as the kernel between the rows, with a graph of nearest neighbours."
        return Kind(kernel, 1.0, N_NEIGHBORS, told)
    if kernel == "auto" and X.shape[1] >= TEXT_WIDTH and _filled(X) < DENSE_SHARE:
        told = (
            f"Only {_filled(X):.1%} of the entries are not zero, as in word counts: rows were "
            "compared by the angle between them."
        )
        return Kind("cosine", TEXT_RIDGE, 0, told)
    if kernel == "auto":
        told = (
            "Rows were compared by distance, with a Gaussian kernel and a graph of the "
            f"{N_NEIGHBORS} nearest neighbours in equal parts."
        )
        return Kind("rbf", 1.0, N_NEIGHBORS, told)
    told = (
        f"Rows were compared with kernel={kernel!r}, as asked, and a graph of the "
        f"{N_NEIGHBORS} nearest neighbours in equal parts."
    )
    return Kind(kernel, 1.0, N_NEIGHBORS, told)


def _filled(X) -> float:
    """Share of entries that are not zero, in some thousand rows spread over X."""
    some = X[:: max(1, X.shape[0] // LOOKED_AT)]
    count = some.nnz if sparse.issparse(some) else np.count_nonzero(some)
    return count / (some.shape[0] * some.shape[1])
