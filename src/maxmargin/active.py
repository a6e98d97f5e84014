"""Questions to a person about pairs of rows, or about the classes of rows.

Both classes have the same loop: ``suggest``, answer, ``tell``. :class:`LabelQueries` asks for the
class of a row, the one whose label is expected to change the answer most
(``least_squares/_few_labels.py``). :class:`PairQueries` asks whether two rows belong together.

With many clusters, random pairs are mostly cannot-links, which carry little information. Here rows
are assigned to neighbourhoods: groups of rows with known must-links inside a group and known
cannot-links between groups (Basu, Banerjee & Mooney, SIAM Data Mining 2004):

1. explore: rows far from all neighbourhoods are compared with each of them, until there are as many
   neighbourhoods as clusters;
2. consolidate: rows are compared with the neighbourhood of the cluster that the current model
   predicts and, after the answer "different", with the next most likely one. Half of the rows are
   those with the smallest margins, half are random, because the smallest margins alone are a biased
   sample.

A row assigned to a neighbourhood has a known class, which is more informative than a link.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from sklearn.base import clone
from sklearn.utils import check_random_state

from ._auto import MaxMarginClustering
from ._core.dedup import make_input
from ._core.links import Links
from ._threads import one_thread
from .constraints import PairwiseConstraints
from .least_squares._few_labels import LabelQuestions
from .least_squares._settings import kind_of_rows
from .pairwise._questions import excluded_classes, neighbourhoods, suggested_pairs

__all__ = ["LabelQueries", "PairQueries", "implied_classes"]

SAME, DIFFERENT, UNKNOWN = 1, -1, 0
LOOP_ALPHA, LOOP_ROWS = 0.01, 2000  # of the models that only select queries


def implied_classes(constraints: PairwiseConstraints, n_clusters: int) -> np.ndarray | None:
    """Return the classes that links imply.

    Groups with cannot-links between all of them are different classes; a row with cannot-links to
    all classes but one belongs to that one.

    Parameters
    ----------
    constraints : PairwiseConstraints
        The links.
    n_clusters : int
        Number of clusters.

    Returns
    -------
    ndarray of shape (n_samples,) or None
        Classes, -1 if unknown; None if fewer than ``n_clusters`` such groups are known.

    See Also
    --------
    maxmargin.PairQueries : Ask a person about pairs of rows.
    maxmargin.PairwiseConstraints : Must-links and cannot-links.

    Examples
    --------
    >>> links = PairwiseConstraints(5, must_link=[(0, 1)], cannot_link=[(1, 2), (3, 2)])
    >>> implied_classes(links, 2)
    array([ 0,  0,  1,  0, -1])
    """
    groups, apart = constraints.closure()
    found = neighbourhoods(groups, apart, n_clusters)
    if len(found) < n_clusters:
        return None
    classes = np.full(groups.max() + 1, -1)
    classes[found] = np.arange(n_clusters)
    while True:
        excluded = excluded_classes(classes, apart, n_clusters)
        decided = np.flatnonzero((excluded.sum(axis=1) == n_clusters - 1) & (classes < 0))
        if len(decided) == 0:
            return classes[groups]
        classes[decided] = excluded[decided].argmin(axis=1)


class PairQueries:
    """Active learning of pairwise constraints, with an ask-and-tell interface.

    Parameters
    ----------
    estimator : PairwiseMarginClustering or MaxMarginClustering
        Cloned; :meth:`fit` fits it with all answers.
    X : array-like of shape (n_samples, n_features)
        Rows to cluster.
    constraints : PairwiseConstraints, optional
        Links known in advance.
    strategy : {"neighbourhoods", "random"}, default="neighbourhoods"
        "random" suggests random pairs, for comparison.
    random_state : int, RandomState instance or None, default=None
        Seed of the suggestions.

    See Also
    --------
    LabelQueries : Ask for the class of a row.
    PairwiseConstraints : The answers as constraints.
    maxmargin.active.implied_classes : The classes that the answers imply.

    Examples
    --------
    >>> from maxmargin import PairQueries, PairwiseMarginClustering
    >>> from sklearn.datasets import make_blobs
    >>> X, y = make_blobs(60, centers=3, random_state=0)
    >>> loop = PairQueries(PairwiseMarginClustering(3, random_state=0), X, random_state=0)
    >>> for _ in range(4):
    ...     pairs = loop.suggest(5)
    ...     loop = loop.tell(pairs, [1 if y[a] == y[b] else -1 for a, b in pairs])
    >>> loop.constraints.n_links
    20
    """

    def __init__(
        self, estimator, X, *, constraints=None, strategy="neighbourhoods", random_state=None
    ):
        if strategy not in ("neighbourhoods", "random"):
            raise ValueError(f"strategy must be 'neighbourhoods' or 'random', got {strategy!r}.")
        self.estimator, self.X, self.strategy = estimator, X, strategy
        n = X.shape[0] if hasattr(X, "shape") else len(X)
        self.given = PairwiseConstraints(n) if constraints is None else constraints
        if len(self.given) != n:
            raise ValueError(f"constraints are about {len(self.given)} rows, but X has {n} rows.")
        self.answers: list[tuple[int, int, int]] = []
        self._random = check_random_state(random_state)
        self._model: Any = None

    @property
    def constraints(self) -> PairwiseConstraints:
        """All links: the initial ones and the answers "same" and "different"."""
        answers = np.array([a for a in self.answers if a[2] != UNKNOWN], np.int64).reshape(-1, 3)
        first, second, code = answers.T
        given = self.given.links()
        links = Links(
            np.append(given.first, first),
            np.append(given.second, second),
            np.append(given.same, code == SAME),
            np.append(given.weights, np.ones(len(answers))),
        )
        return PairwiseConstraints._of_links(self.given.n_samples, links)

    def tell(self, pairs: Iterable, answers: Iterable) -> PairQueries:
        """Add answers.

        Parameters
        ----------
        pairs : array-like of shape (m, 2)
            Pairs of row numbers.
        answers : array-like of shape (m,)
            1 for same, -1 for different, 0 for unknown.

        Returns
        -------
        self : PairQueries
            This object.
        """
        pairs, answers = np.asarray(pairs).reshape(-1, 2), np.asarray(answers).ravel()
        if len(pairs) != len(answers) or not np.isin(answers, (SAME, DIFFERENT, UNKNOWN)).all():
            raise ValueError(
                "tell needs one answer for each pair: 1 same, -1 different, 0 don't know; got "
                f"{len(pairs)} pairs and the answers {np.unique(answers).tolist()}."
            )
        PairwiseConstraints(self.given.n_samples, pairs)  # refuses bad rows
        self.answers += [(int(a), int(b), int(v)) for (a, b), v in zip(pairs, answers)]
        self._model = None
        return self

    def undo(self) -> tuple[int, int, int] | None:
        """Remove the last answer.

        Returns
        -------
        tuple of int or None
            The pair and the answer that were removed; None if there was none.
        """
        self._model = None
        return self.answers.pop() if self.answers else None

    def fit(self):
        """Fit a clone of the estimator with all links and the classes that they imply.

        Returns
        -------
        estimator
            The fitted clone.
        """
        return self._fitted(clone(self.estimator))

    def _fitted(self, model):
        links = self.constraints
        k = model.n_clusters
        classes = None if k is None else implied_classes(links, k)
        if classes is not None and links.contradiction(k, classes) is None:
            # Links that follow from the classes are left out: held out, they would still be known.
            pairs = links.links()
            both = (classes[pairs.first] >= 0) & (classes[pairs.second] >= 0)
            return model.fit(self.X, constraints=links.take(~both), partial_labels=classes)
        return model.fit(self.X, constraints=links)

    def suggest(self, n: int = 1) -> np.ndarray:
        """Suggest pairs to ask about next.

        Parameters
        ----------
        n : int, default=1
            Number of pairs.

        Returns
        -------
        ndarray of shape (m, 2)
            Pairs of row numbers, most informative first: a new row and a row of a neighbourhood.
            Fewer than ``n`` pairs if no more are left.
        """
        if self.strategy == "random":
            return self._random_pairs(n)
        scores = self._loop_model().decision_function(self.X)
        return suggested_pairs(scores, n, self.constraints, self._random, self._asked())

    def labels(self) -> np.ndarray:
        """Return the labels of the model that selects the queries.

        Returns
        -------
        ndarray of shape (n_samples,)
            Cluster of every row.
        """
        return self._loop_model().labels_

    def _loop_model(self):
        """Return a quickly fitted model that selects the queries."""
        if self._model is None:
            quick = clone(self.estimator)
            given = quick.get_params()
            changed = {"on_conflict": "soft", "n_resamples": 0}
            if given.get("alpha") == "cv":
                changed["alpha"] = LOOP_ALPHA
            if given["kernel"] != "precomputed" and "max_samples" in given:
                changed["max_samples"] = min(LOOP_ROWS, given["max_samples"] or LOOP_ROWS)
            quick.set_params(**{name: changed[name] for name in changed if name in given})
            with warnings.catch_warnings():
                # The first fits have no links, and clusters may be empty.
                warnings.simplefilter("ignore", UserWarning)
                self._model = self._fitted(quick)
                if getattr(self._model, "n_clusters_", 2) == 1:  # pairs can tell of a second one
                    self._model = self._fitted(quick.set_params(n_clusters=2))
        return self._model

    def _asked(self) -> set[tuple[int, int]]:
        return {(min(a, b), max(a, b)) for a, b, _ in self.answers}

    def _random_pairs(self, n: int) -> np.ndarray:
        asked, rows = self._asked(), self.given.n_samples
        found: list[tuple[int, int]] = []
        for _ in range(100 * n):
            a, b = sorted(self._random.choice(rows, 2, replace=False).tolist())
            if (a, b) not in asked and len(found) < n:
                asked.add((a, b))
                found.append((a, b))
        return np.array(found, np.int64).reshape(-1, 2)


class LabelQueries:
    """Active learning of labels, with an ask-and-tell interface: which class is this row?

    Rows are selected by the expected change of the answer (see :meth:`suggest`), with the
    similarities of :class:`MaxMarginClustering`, whichever estimator is fitted at the end.

    Parameters
    ----------
    estimator : MaxMarginClustering, or another estimator with ``partial_labels``
        Cloned; :meth:`fit` fits it with all answers.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Rows to cluster, or a kernel matrix if ``kernel="precomputed"``.
    partial_labels : array-like of shape (n_samples,), optional
        Labels known in advance, -1 if unknown.
    tol : float, default=0.005
        Stop if this fraction of the rows, or less, changed their classes during the last answers:
        ten, or two for each class if those are more. 0 asks on as long as there are rows.
    random_state : int, RandomState instance or None, default=None
        Seed of the candidates and of the clusters among which questions are selected.

    Attributes
    ----------
    answers : list of tuple of int
        Rows and their classes, in the order of the answers; -1 for "don't know".
    statement : str or None
        Why no more questions are suggested; None as long as there are some.

    See Also
    --------
    PairQueries : Ask whether two rows belong together.
    MaxMarginClustering : Takes the answers as partial_labels.

    Examples
    --------
    >>> from maxmargin import LabelQueries, MaxMarginClustering
    >>> from sklearn.datasets import make_blobs
    >>> X, y = make_blobs(60, centers=3, cluster_std=0.5, random_state=0)
    >>> loop = LabelQueries(MaxMarginClustering(3, random_state=0), X, random_state=0)
    >>> rows = loop.suggest(3)
    >>> sorted(y[rows].tolist())
    [0, 1, 2]
    >>> model = loop.tell(rows, y[rows]).fit()
    >>> float((model.labels_ == y).mean()) > 0.9
    True
    """

    def __init__(self, estimator, X, *, partial_labels=None, tol=0.005, random_state=None):
        if not isinstance(tol, int | float) or not 0 <= tol < 1:
            raise ValueError(f"tol must be a number from 0 to 1, got {tol!r}.")
        self.estimator, self.X, self.tol = estimator, X, tol
        n = X.shape[0] if hasattr(X, "shape") else len(X)
        self.given = np.full(n, -1)
        if partial_labels is not None:
            self.given[:] = self._checked(np.arange(n), partial_labels)[1]
        self.answers: list[tuple[int, int]] = []
        self.statement: str | None = None
        self._random = check_random_state(random_state)
        self._rows: LabelQuestions | None = None
        self._seen: list[tuple[int, np.ndarray]] = []  # numbers of answers, and labels with them

    @property
    def partial_labels(self) -> np.ndarray:
        """All known labels: the initial ones and the answers; -1 if unknown."""
        known = self.given.copy()
        for row, c in self.answers:
            known[row] = c if c >= 0 else known[row]
        return known

    def tell(self, rows: Iterable, classes: Iterable) -> LabelQueries:
        """Add answers.

        Parameters
        ----------
        rows : array-like of shape (m,)
            Row numbers; of any rows, suggested or not.
        classes : array-like of shape (m,)
            Their classes, numbered from 0; -1 for "don't know".

        Returns
        -------
        self : LabelQueries
            This object.
        """
        self.answers += zip(*(part.tolist() for part in self._checked(rows, classes)))
        self.statement = None
        return self

    def _checked(self, rows, classes) -> tuple[np.ndarray, np.ndarray]:
        rows, classes, n = np.asarray(rows).ravel(), np.asarray(classes).ravel(), len(self.given)
        k = self.estimator.n_clusters
        whole = rows.dtype.kind in "iu" and classes.dtype.kind in "iu"
        if len(rows) != len(classes) or (len(rows) and not whole):
            raise ValueError(
                f"one class, a whole number, is needed for each row; got {len(rows)} rows and "
                f"{len(classes)} classes of type {classes.dtype}."
            )
        if len(rows) and not 0 <= rows.min() <= rows.max() < n:
            raise ValueError(f"row numbers must lie between 0 and {n - 1}, got {rows.tolist()}.")
        if len(rows) and (classes.min() < -1 or (k is not None and classes.max() >= k)):
            most = "" if k is None else f" and {k - 1} (n_clusters - 1)"
            raise ValueError(
                f"classes must lie between 0{most}, or be -1 for unknown; got "
                f"{np.unique(classes).tolist()}."
            )
        return rows, classes

    def undo(self) -> tuple[int, int] | None:
        """Remove the last answer.

        Returns
        -------
        tuple of int or None
            The row and the class that were removed; None if there was no answer.
        """
        self.statement = None
        last = self.answers.pop() if self.answers else None
        self._seen = [one for one in self._seen if one[0] <= len(self.answers)]
        return last

    def fit(self):
        """Fit a clone of the estimator with all known labels.

        Returns
        -------
        estimator
            The fitted clone.
        """
        return clone(self.estimator).fit(self.X, partial_labels=self.partial_labels)

    def suggest(self, n: int = 1) -> np.ndarray:
        """Suggest rows to ask about next.

        The expected change by the label of a row is large if many rows whose classes are uncertain
        are similar to it, and to no row whose label is known. The rows of one batch are selected
        one after the other, each given that the labels of those before it will be known.

        Parameters
        ----------
        n : int, default=1
            Number of rows.

        Returns
        -------
        ndarray of shape (m,)
            Row numbers, most informative first. Fewer than ``n`` if few are left; none if answers
            no longer change the classes (see ``statement``).
        """
        if not isinstance(n, Integral) or n < 1:
            raise ValueError(f"n must be an integer of at least 1, got {n!r}.")
        rows = self._question_rows()
        with one_thread():
            P = rows.update(self.partial_labels)
        self.statement = self._settled(P.argmax(axis=1), P.shape[1])
        if self.statement is not None:
            return np.empty(0, np.int64)
        with one_thread():
            found = rows.most_informative([row for row, _ in self.answers], n)
        if len(found) == 0:
            self.statement = "No row is left to ask about."
        return found

    def labels(self) -> np.ndarray:
        """Return the classes that the model which selects the questions predicts.

        Returns
        -------
        ndarray of shape (n_samples,)
            Class of every row, -1 for rows beyond ``max_samples``; clusters in an arbitrary order
            as long as no label is known.
        """
        known, rows = self.partial_labels, self._question_rows()
        with one_thread():
            return np.where(known >= 0, known, rows.labels(known))

    def _question_rows(self) -> LabelQuestions:
        if self._rows is None:
            self._rows = _label_questions(self.estimator, self.X, self.partial_labels, self._random)
        return self._rows

    def _settled(self, labels: np.ndarray, k: int) -> str | None:
        """Return the statement that the last answers changed little, or None."""
        count = len(self.answers)
        self._seen = [*(one for one in self._seen if one[0] < count), (count, labels)]
        window = max(10, 2 * k)
        earlier = [one for one in self._seen if one[0] <= count - window]
        if not earlier or self.tol == 0:
            return None
        before, old = earlier[-1]
        changed = int((old != labels).sum())
        if changed > float(self.tol) * len(labels):
            return None
        unnamed = np.setdiff1d(np.arange(k), self.partial_labels)
        rest = f" No row of class {', '.join(map(str, unnamed))} is known." if len(unnamed) else ""
        return (
            f"The last {count - before} answers changed the classes of {changed:,} of "
            f"{len(labels):,} rows: more answers will probably change little.{rest}"
        )


def _label_questions(estimator, X, known, random) -> LabelQuestions:
    """Return the rows to ask about, with the settings of the front door."""
    front = MaxMarginClustering(
        kernel="precomputed" if estimator.kernel == "precomputed" else "auto"
    )
    if isinstance(estimator, MaxMarginClustering):
        front = clone(estimator)
    front.set_params(n_resamples=0, random_state=random.randint(2**31 - 1))
    k = estimator.n_clusters
    with one_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        if k is None:
            k = max(front.fit(X).n_clusters_, 2)
        k = max(k, int(known.max()) + 1)
        source = front._source(X, reset=True)
        if not source.in_memory:
            raise ValueError(f"LabelQueries needs rows in memory, got {type(X).__name__}.")
        data = make_input(source, None, None, merge=not front._pairwise)
        data = replace(data, known=known[data.source], rng=front._generator())
        data = replace(data, n_jobs=effective_n_jobs(front.n_jobs))
        return LabelQuestions(data, front._settings(k, kind_of_rows(data.X, front.kernel)))
