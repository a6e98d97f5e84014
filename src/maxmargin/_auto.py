r"""Margin clustering with default settings for any data; only the number of clusters is given.

The method is :mod:`maxmargin.least_squares` with settings that were best on average over twenty
data sets:

.. math::
    \max_c\; J_p(c) = \sum_h y_h' R\, y_h / n_h^p, \qquad
    R = \tfrac12 \big( K_c (K_c + I)^{-1} + (I + 10 L)^{-1} \big)

=========================================  =====================================================
what                                       why
=========================================  =====================================================
mean of R of a Gaussian kernel and of a    one finds convex clusters, the other non-convex ones; the
nearest-neighbour graph                    mean is nearly as good as the better of the two
``size_prior`` p: 3/4, .9 or 1             p = 0 forces equal sizes, p = 1 finds tiny clusters; 3/4
                                           unless the mean leave-one-out margin of another p is
                                           higher by .06 and fewer rows are between clusters
initial labels of k-means and a mixture,   random initial labels miss small clusters, or one of many
regrouping (split one, merge two)
connected groups of rows that are apart,   rings, moons and spirals; the data say where they end
if k of them hold 95 % of the rows
standardised columns if the largest scale  otherwise distances are those of one column
is ten times the median one
second pass in the metric that whitens     columns of different scale, and clusters elongated in the
the first clusters                         same direction
unit rows, cosine kernel, ridge 10         rows of mostly zeros, such as word counts
mixture with a scale per cluster, if its   clusters that differ in spread, not in location
leave-one-out accuracy is nearly as high
at most ``max_samples`` rows in the fit    R costs the cube of their number; the model predicts the
                                           labels of the other rows
constraints: must-linked rows move         a few of them change little; the search starts from the
together, cannot-links are penalised       answer without (``least_squares/_links.py``)
known labels of every cluster: no search   the clusters are classes then; the labels decide how far
                                           kernels, neighbours and clusters are believed
                                           (``least_squares/_few_labels.py``)
=========================================  =====================================================

Measurements and alternatives that were tried: ``docs/front_door.md``.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import cached_property, partial
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils import ClassifierTags
from sklearn.utils.validation import check_is_fitted

from ._base import SHARED_CONSTRAINTS, BaseMarginClustering
from ._callbacks import Interval, StrOptions, with_callbacks
from ._cluster_number import ClusterNumberChoice, doubt_of
from ._core.dedup import FitInput, check_no_labels
from ._core.kernels import KERNELS
from ._core.links import Links, clusters_needed
from ._core.model import Model, NotKept, host_labels, not_kept
from ._separated_number import number_for_fit
from .constraints import checked_constraints
from .least_squares._confidence import (
    Resamples,
    alternative_clusterings,
    certainty_block,
    fit_outliers,
    outlier_block,
    probability_block,
    row_certainty,
    scored_block,
)
from .least_squares._few_labels import fit_known_labels
from .least_squares._fit import fit_least_squares
from .least_squares._graph import views_of
from .least_squares._link_weights import fit_with_links, links_told
from .least_squares._settings import RBF, SIZE_PRIORS, Kind, Settings, kind_of_rows
from .least_squares._unlabelled import unlabelled_apart

SURE = 0.9
STABLE, FAIRLY_STABLE = 0.85, 0.65  # least stability of clusters that are called so
ONE_CLUSTER = "One cluster separates nothing: its stability and confidence have no meaning."
MOSTLY = 0.5  # share of sure rows from which on stable clusters are stable row by row


def stability_in_words(stability: float) -> str:
    """Return "stable", "fairly stable" or "not stable"."""
    if stability >= STABLE:
        return "stable"
    return "fairly stable" if stability >= FAIRLY_STABLE else "not stable"


class MaxMarginClustering(BaseMarginClustering):
    """Margin clustering with automatic settings; only the number of clusters is given, if known.

    Parameters
    ----------
    n_clusters : int or None, default=None
        Number of clusters. None chooses it by the separation of density modes
        (:func:`choose_n_clusters`); a warning is raised if the choice is uncertain.
    kernel : "auto", str or callable, default="auto"
        "auto": cosine for rows of mostly zeros, else Gaussian, of standardised columns if the
        largest scale of at most 100 columns is more than ten times the median one; or a kernel of
        :func:`sklearn.metrics.pairwise.pairwise_kernels`, or "precomputed".
    views : dict of str to list of columns, default=None
        Groups of columns that describe the rows in different ways (indices, or names if X has
        them). Each has a similarity of its own, whatever its number of columns and their units;
        their mean is weighted by the leave-one-out R2 of a first fit with equal weights. Other
        columns are not used. Needs dense X and ``kernel="auto"`` or "rbf".
    size_prior : "auto" or float in (0, 1], default="auto"
        Preference for cluster sizes: from near 0 (equal sizes) to 1 (no preference). "auto" is 0.75
        unless the mean leave-one-out margin is clearly higher with 0.9 or 1.
    spreads : bool, default=True
        Whether clusters may be other than those of the largest objective: connected groups of rows
        that are apart, such as rings; or, if the leave-one-out accuracy is low, clusters that
        differ in spread instead of location, such as a narrow cloud within a wide one.
    balance : float, default=0.05
        Every cluster has at least ``balance * n / n_clusters`` of the n fitted rows, unless every
        cluster has known labels. If it is at most 0.05, connected groups of ten rows or more that
        are far apart may be smaller (see ``spreads``).
    n_init : int or "auto", default="auto"
        Number of random initialisations; "auto" is 8. As many again are refined without shaking.
        One is used if k-means, a mixture and the first of them agree and the clusters are clear.
    max_samples : int, default=4000
        Maximum number of rows to fit on; the model predicts the labels of the other rows. Rows with
        known labels, then those with constraints, are fitted first. If clusters are clear, 1000
        rows, or 40 for each cluster, are fitted.
    n_resamples : int, default=6
        Number of subsamples that are clustered to estimate stability and to calibrate
        probabilities (twice as many if the stability of these is below 0.9). This is done when
        ``confidence_``, ``stability_``, ``report_`` or ``predict_proba`` is first used. Without
        subsamples ``confidence_`` and ``stability_`` are not available.
    outlier_level : float in (0, 1), default=0.01
        Rows whose distance to their neighbours is as unusual as that of this fraction of the
        fitted rows are outliers.
    time_budget : float or None, default=None
        Search time in seconds. The result then depends on the speed of the machine; None makes a
        fixed number of attempts to improve the clusters.
    warm_start : bool, default=False
        Start from the labels that the previous fit predicts.
    verbose : int, default=0
        1 shows a progress bar if scikit-learn >= 1.9 and rich are installed.
    random_state : int, RandomState instance or None, default=None
        Seed. On one machine, results do not depend on the number of threads.
    n_jobs : int or None, default=None
        Number of threads over initialisations and blocks of rows; fits of fewer than 500 rows
        use one.

    Attributes
    ----------
    n_clusters_ : int
        The number of clusters.
    size_prior_ : float
        The preference for cluster sizes that was used.
    view_weights_ : dict of str to float
        With ``views``: the weight of each; they add up to 1.
    labels_, cluster_sizes_, exemplar_indices_, clusters_on_floor_
        See :class:`AlternatingMarginClustering`.
    report_ : list of str
        Sentences about the choices that were made and the stability of the result.
    confidence_ : ndarray of shape (n_samples,)
        Confidence in the cluster of each row, from 0 to 1: its probability (see
        :meth:`predict_proba`), reduced for outliers.
    outlier_score_ : ndarray of shape (n_samples,)
        Distance of each row to its tenth nearest fitted row, other than itself, divided by the
        lower quartile of the same distance of these ten: about 1 within a cluster. Fewer neighbours
        are used if there are less than three rows for each of them and each cluster.
    is_outlier_ : ndarray of shape (n_samples,)
        Whether the score is beyond those of all but ``outlier_level`` of the fitted rows.
    stability_ : float
        Mean adjusted Rand index between two subsamples.
    label_mistakes_ : ndarray of shape (n_mistakes, 2)
        With known labels of every cluster: rows whose known labels are improbable by leave-one-out
        predictions (odds of 5 to 1 against them), the least probable first, and the label that is
        most probable instead. Known labels are kept all the same.
    doubtful_constraints_ : PairwiseConstraints
        With constraints: those that were not used, because the clusters and the other constraints
        of their rows contradict them. Constraints of a weight above 1 are always used.
    alternatives_ : list of Alternative
        The second-best clustering, if other initialisations led to different clusters.
    compared_with_kmeans_ : dict
        "objective" of the k-means partition, and "ari", its agreement with the labels found.
        ``objective_`` is not above it unless ``report_`` says that it need not be the lowest.
    coef_, intercept_, objective_, history_, n_iter_, stop_reason_
        See :class:`LeastSquaresMarginClustering`.

    See Also
    --------
    choose_n_clusters : Choose the number of clusters.
    LeastSquaresMarginClustering : The same objective for clusters of similar size.
    PairwiseMarginClustering : Learn from hundreds of constraints.
    report : A page about a fitted model.

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

    _on_host = True  # the nearest-neighbour graph is searched there
    _depends_on_starts = False  # clusters need not be those of the lowest objective
    # Not in model files: methods compute them again for any rows.
    _of_rows = ("confidence_", "outlier_score_", "is_outlier_", "_certainty")
    outlier_score_, is_outlier_ = NotKept(), NotKept()
    _parameter_constraints: dict = {  # noqa: RUF012 - scikit-learn's convention
        **{
            name: SHARED_CONSTRAINTS[name]
            for name in ("balance", "n_init", "warm_start", "verbose", "random_state", "n_jobs")
        },
        "n_clusters": [Interval(Integral, 1, None, closed="left"), None],
        "kernel": [StrOptions({"auto", *KERNELS}), callable],
        "views": [dict, None],
        "size_prior": [StrOptions({"auto"}), Interval(Real, 0, 1, closed="right")],
        "spreads": ["boolean"],
        "max_samples": [Interval(Integral, 2, None, closed="left")],
        "n_resamples": [Interval(Integral, 0, None, closed="left")],
        "outlier_level": [Interval(Real, 0, 1, closed="neither")],
        "time_budget": [Interval(Real, 0, None, closed="neither"), None],
    }

    def __init__(
        self,
        n_clusters=None,
        *,
        kernel="auto",
        views=None,
        size_prior="auto",
        spreads=True,
        balance=0.05,
        n_init="auto",
        max_samples=4000,
        n_resamples=6,
        outlier_level=0.01,
        time_budget=None,
        warm_start=False,
        verbose=0,
        random_state=None,
        n_jobs=None,
    ):
        self.n_clusters = n_clusters
        self.kernel = kernel
        self.views = views
        self.size_prior = size_prior
        self.spreads = spreads
        self.balance = balance
        self.n_init = n_init
        self.max_samples = max_samples
        self.n_resamples = n_resamples
        self.outlier_level = outlier_level
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
            Rows to cluster, or a kernel matrix if ``kernel="precomputed"``.
        y : ignored
            Not used.
        constraints : PairwiseConstraints, optional
            Links between rows, which ``labels_`` respects but for ``doubtful_constraints_``. If
            they contradict each other, lighter ones are violated, with a warning. A prediction for
            a row with links can differ from its label. Links of rows that are not fitted (see
            ``max_samples``) are ignored.
        partial_labels : array-like of shape (n_samples,), optional
            Known clusters: numbers from 0, or names; -1, '' or NaN if unknown. They do not change.
            If every cluster has known labels, the model is a classifier: the labels set the weights
            of kernels, nearest neighbours and clusters found without labels,
            ``confidence_`` is the probability of the label, ``objective_`` is minus the mean log
            probability of the known labels by leave-one-out predictions, and there are no
            subsamples. Clusters without known labels are found by the search.
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

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # The checks of sparse rows read this tag of every estimator with predict_proba.
        tags.classifier_tags = ClassifierTags(multi_class=False)
        return tags

    def estimate_memory(self, n_samples: int, n_features: int, in_blocks: bool = False) -> int:
        return self._settings(2, RBF).memory(n_samples, n_features)

    def _checked_links(self, constraints, n: int, known) -> Links | None:
        if constraints is None or checked_constraints(constraints, n).n_links == 0:
            return None
        contradiction = constraints.contradiction(self.n_clusters, known)
        if contradiction is not None:
            warnings.warn(
                f"constraints contradict each other: {contradiction}. Links of less weight are "
                "violated; report_ says how many.",
                UserWarning,
                stacklevel=5,
            )
        return constraints.links()

    # -- the fit ----------------------------------------------------------------------------------

    def _fit_model(self, data: FitInput) -> Model:
        views = None
        if self.views is not None:
            views = views_of(self.views, self.kernel, self.n_clusters, data)
        kind = kind_of_rows(data.X, self.kernel) if views is None else RBF
        k, told = self._number(data, kind, views)
        settings = replace(self._settings(k, kind), views=views)
        # The model of known labels leaves other classes empty; the search has a size floor.
        if len(np.unique(data.known[data.known >= 0])) == k > 1:
            model = fit_known_labels(data, settings)
        else:
            fit = fit_least_squares if data.links is None else fit_with_links
            model = fit(data, settings)
        if self.n_clusters is None and data.n_known:
            unnamed = getattr(model.details, "unnamed", None)
            if unnamed is None:
                unnamed = unlabelled_apart(data, settings, self._separated(data, kind, views))
                told += [] if unnamed is None else [unnamed]
            if unnamed is not None:
                warnings.warn(unnamed, UserWarning, stacklevel=5)
        extras = {**model.extras, "n_clusters_": k, "_told": [kind.sentence, *told]}
        if views is not None:
            extras["view_weights_"] = model.details.view_weights
        chosen = model.details.chosen
        fitted = model.features.metric, data.X.take(chosen), data.weights[chosen], k
        outliers = fit_outliers(*fitted, self.outlier_level, data.n_jobs, model.details.neighbours)
        once = outliers.has_neighbours_of(model.features.metric)
        scored = partial(scored_block, outliers=outliers) if once else None
        return replace(model, extras=extras | {"_outliers": outliers}, scored=scored)

    def _settings(self, k: int, kind: Kind) -> Settings:
        return Settings(
            k,
            (kind.kernel,),
            ridge=kind.ridge,
            n_neighbors=kind.n_neighbors,
            size_priors=SIZE_PRIORS if self.size_prior == "auto" else (self.size_prior,),
            whiten=True,
            spreads=self.spreads,
            connected=self.spreads,
            scale=kind is RBF,
            balance=self.balance,
            n_init=self.n_init,
            max_samples=self.max_samples,
            pilot=not self._pairwise,
            n_resamples=self.n_resamples,
            time_budget=self.time_budget,
        )

    def _number(self, data: FitInput, kind: Kind, views) -> tuple[int, list[str]]:
        """Return the number of clusters, and the sentence about it if it was chosen."""
        if self.n_clusters is not None:
            return self.n_clusters, []
        if data.n_known:
            return data.n_known, [f"The known labels have {data.n_known} clusters."]
        choice = self._separated(data, kind, views)
        k, n = choice.n_clusters, len(data.weights)
        if data.links is not None and (needed := clusters_needed(data.links, n, k)) != k:
            return needed, [choice.statement, f"Cannot-links need {needed} clusters."]
        if n > 1 and (doubt := doubt_of(choice)) is not None:
            warnings.warn(doubt, UserWarning, stacklevel=6)
        return k, [choice.statement]

    def _separated(self, data: FitInput, kind: Kind, views) -> ClusterNumberChoice:
        pairwise, rng = self._pairwise, self._generator()
        return number_for_fit(data, kind, views, rng, self.max_samples, pairwise)

    def _label_attributes(self, labels, decided, rows, data, model: Model) -> dict[str, Any]:
        found: dict[str, Any] = {"alternatives_": []}
        if rows.in_memory:
            own = host_labels(labels)
            found |= row_certainty(own, decided, rows, data, model)
            if "_calibration" in model.extras:
                known = model.details.places(data), model.details.others, len(model.paths)
                found["alternatives_"] = alternative_clusterings(own, *known)
        outliers, flags = model.extras["_outliers"], found.get("is_outlier_")
        if flags is None:
            flags = outliers.p_values(outliers.scores, True) <= outliers.level
        sentences = [
            *model.details.sentences(data, model.extras),
            f"Outliers at the level of {self.outlier_level:.2g}: {flags.sum():,} of "
            f"{len(flags):,} rows; about {self.outlier_level * len(flags):,.0f} are expected "
            "by chance.",
        ]
        if data.links is not None:
            doubted = np.array(model.details.doubted, np.int64)
            found["doubtful_constraints_"] = data.constraints.take(doubted)
            sentences = [*links_told(data, host_labels(labels), model), *sentences]
        return found | {"_told": model.extras["_told"] + sentences}

    # -- attributes that need subsamples, which are clustered when first needed -------------------

    @cached_property
    def stability_(self) -> float:
        """Mean adjusted Rand index between two subsamples."""
        return self._resamples().found()[1]

    @cached_property
    def confidence_(self) -> np.ndarray:
        """Confidence in the cluster of each row."""
        if "_certainty" not in vars(self):
            raise not_kept("confidence_", " and n_resamples > 0")
        margins, typicality = self._certainty
        calibration = self._resamples().found()[0]
        return calibration.confidence(margins, host_labels(self.labels_)) * typicality

    @cached_property
    def report_(self) -> list[str]:
        """Sentences about the choices that were made and the stability of the result."""
        if "_told" not in vars(self):
            raise AttributeError("report_ is set by fit.")
        sentences = list(self._told)
        if not isinstance(vars(self).get("_calibration"), Resamples):
            return sentences
        if len(self._paths) == 1:
            return [*sentences, ONE_CLUSTER]
        word = stability_in_words(self.stability_)
        told = f": the mean adjusted Rand index between two subsamples is {self.stability_:z.2f}"
        if "_certainty" in vars(self):
            share = float(np.mean(self.confidence_ > SURE))
            told += f"; {share:.0%} of the rows have a confidence above {SURE}"
            if word != "not stable" and share < MOSTLY:
                word += " on the whole, but not row by row"
        sentences.append(f"The clusters are {word}{told}.")
        for other in self.alternatives_:
            worse = f"{other.shortfall:.1%}"
            told = "as good as this one" if worse == "0.0%" else f"{worse} worse by the objective"
            sentences.append(
                f"The second-best clustering is {told}. The adjusted Rand index between the two is "
                f"{other.agreement:z.2f}."
            )
        return sentences

    def _resamples(self) -> Resamples:
        """Return the subsamples, if the fit has any."""
        found = vars(self).get("_calibration")
        if not isinstance(found, Resamples):
            raise AttributeError("stability_ and confidence_ need a fit with n_resamples > 0.")
        return found

    def predict_proba(self, X) -> Any:
        """Return the probability of every cluster for every row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows, of any type that ``fit`` accepts.

        Returns
        -------
        ndarray of shape (n_samples, n_clusters)
            Rows sum to 1, and the largest probability is that of the predicted cluster: the
            fraction of subsamples in which rows of this cluster with a similar margin kept it. The
            other clusters share the rest according to their scores. A fitted row is judged by its
            leave-one-out scores. A dask array if X is one.
        """
        calibration = self._fitted_with_resamples("predict_proba")
        block = partial(probability_block, calibration=calibration)
        return self._mapped(X, block, len(self._paths))

    def confidence(self, X) -> Any:
        """Return the confidence in the predicted cluster of every row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows, of any type that ``fit`` accepts.

        Returns
        -------
        ndarray of shape (n_samples,)
            Largest probability of :meth:`predict_proba`; for outliers it is reduced, to 0 far from
            all fitted rows.
        """
        return self._certainty_columns(X)[:, 0]

    def _certainty_columns(self, X, with_scores: bool = False) -> Any:
        """Return scores if asked for, confidence and p-value as an outlier, in one pass."""
        known = {"calibration": self._fitted_with_resamples("confidence")}
        known |= {"outliers": self._outliers, "with_scores": with_scores}
        width = len(self._paths) * with_scores + 2
        return self._mapped(X, partial(certainty_block, **known), width)

    def outlier_score(self, X) -> Any:
        """Return how isolated every row is, compared with the fitted rows near it.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows, of any type that ``fit`` accepts.

        Returns
        -------
        ndarray of shape (n_samples,)
            See ``outlier_score_``: about 1 within a cluster, large far from all fitted rows.
        """
        return self._outlier_columns(X)[:, 0]

    def is_outlier(self, X) -> Any:
        """Return whether every row is an outlier.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows, of any type that ``fit`` accepts.

        Returns
        -------
        ndarray of shape (n_samples,)
            True for about ``outlier_level`` of new rows from the distribution of the fitted rows,
            and for rows far from all of them.
        """
        return self._outlier_columns(X)[:, 1] <= self._outliers.level

    def _outlier_columns(self, X) -> Any:
        """Return the columns of ``Outliers.of_rows``."""
        check_is_fitted(self)
        return self._mapped(X, partial(outlier_block, outliers=self._outliers), 3)

    def _fitted_with_resamples(self, name: str) -> Any:
        """Return the calibration, which needs resamples."""
        check_is_fitted(self)
        if not hasattr(self, "_calibration"):
            raise ValueError(
                f"{name} needs a fit with n_resamples > 0; got n_resamples={self.n_resamples}."
            )
        found = self._calibration
        return found.found()[0] if isinstance(found, Resamples) else found
