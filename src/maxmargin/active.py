"""Active learning of pairwise constraints: suggest -> answer -> tell.

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
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state

from ._core.model import lead_of
from .constraints import PairwiseConstraints

__all__ = ["PairQueries", "implied_classes"]

SAME, DIFFERENT, UNKNOWN = 1, -1, 0
LOOP_ALPHA = 0.01  # of the models that only select queries
NEAR_SHARE = 3  # rows with small margins are taken from a random third, so that they differ


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

    Examples
    --------
    >>> links = PairwiseConstraints(5, must_link=[(0, 1)], cannot_link=[(1, 2), (3, 2)])
    >>> implied_classes(links, 2)
    array([ 0,  0,  1,  0, -1])
    """
    groups, apart = constraints.closure()
    found = _neighbourhoods(groups, apart, n_clusters)
    if len(found) < n_clusters:
        return None
    classes = np.full(groups.max() + 1, -1)
    classes[found] = np.arange(n_clusters)
    while True:
        excluded = _excluded(classes, apart, n_clusters)
        decided = np.flatnonzero((excluded.sum(axis=1) == n_clusters - 1) & (classes < 0))
        if len(decided) == 0:
            return classes[groups]
        classes[decided] = excluded[decided].argmin(axis=1)


def _neighbourhoods(groups, apart, k: int) -> list[int]:
    """Return at most k groups with cannot-links between all of them, larger ones first."""
    sizes = np.bincount(groups)
    linked = np.unique(apart)
    near: dict[int, set[int]] = {}
    for a, b in apart.tolist():
        near.setdefault(a, set()).add(b)
        near.setdefault(b, set()).add(a)
    candidates = linked[np.lexsort((linked, -sizes[linked]))].tolist()
    best: list[int] = []
    for first in candidates[:50]:
        chosen = [first]
        for group in candidates:
            if len(chosen) == k:
                break
            if near[group].issuperset(chosen):
                chosen.append(group)
        if len(chosen) > len(best):
            best = chosen
        if len(best) == k:
            break
    if not best:
        largest = int(sizes.argmax())
        best = [largest] if sizes[largest] > 1 else []
    return best


def _excluded(classes, apart, k: int) -> np.ndarray:
    """Return whether each group (first axis) is known not to belong to each class."""
    out = np.zeros((len(classes), k), bool)
    for a, b in ((0, 1), (1, 0)):
        other = classes[apart[:, b]]
        known = other >= 0
        out[apart[known, a], other[known]] = True
    return out


class PairQueries:
    """Active learning of pairwise constraints, with an ask-and-tell interface.

    Parameters
    ----------
    estimator : PairwiseMarginClustering
        Cloned; :meth:`fit` fits it with all answers.
    X : array-like of shape (n_samples, n_features)
        Rows to cluster.
    constraints : PairwiseConstraints, optional
        Links known in advance.
    strategy : {"neighbourhoods", "random"}, default="neighbourhoods"
        "random" suggests random pairs, for comparison.
    random_state : int, RandomState instance or None, default=None
        Seed of the suggestions.

    Examples
    --------
    >>> from maxmargin import PairwiseMarginClustering
    >>> from maxmargin.active import PairQueries
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
        answers = np.array(self.answers, np.int64).reshape(-1, 3)
        must = np.concatenate([self.given.must_link, answers[answers[:, 2] == SAME, :2]])
        cannot = np.concatenate([self.given.cannot_link, answers[answers[:, 2] == DIFFERENT, :2]])
        n_must = len(must) - len(self.given.must_link)
        n_cannot = len(cannot) - len(self.given.cannot_link)
        return PairwiseConstraints(
            self.given.n_samples,
            must,
            cannot,
            must_weight=np.append(self.given.must_weight, np.ones(n_must)),
            cannot_weight=np.append(self.given.cannot_weight, np.ones(n_cannot)),
        )

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
        classes = implied_classes(links, model.n_clusters)
        if classes is not None and links.contradiction(model.n_clusters, classes) is None:
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
            quick = clone(self.estimator).set_params(on_conflict="soft")
            if quick.alpha == "cv":
                quick.set_params(alpha=LOOP_ALPHA)
            with warnings.catch_warnings():
                # The first fits have no links, and clusters may be empty.
                warnings.simplefilter("ignore", UserWarning)
                self._model = self._fitted(quick)
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


def suggested_pairs(scores, n, constraints, random, asked: Iterable = ()) -> np.ndarray:
    """Return pairs to ask about, given the scores (n_samples, k) of a model and the links.

    Examples
    --------
    >>> scores = np.array([[3.0, 0.0], [2.0, 0.0], [0.2, 0.0], [0.0, 3.0]])
    >>> links = PairwiseConstraints(4, cannot_link=[(0, 3)])
    >>> pairs = suggested_pairs(scores, 2, links, np.random.RandomState(0))
    >>> sorted(pairs[:, 0].tolist())
    [1, 2]
    """
    k, asked = scores.shape[1], {tuple(sorted(pair)) for pair in asked}
    groups, apart = constraints.closure()
    # Without links a random row is the first neighbourhood.
    known = _neighbourhoods(groups, apart, k) or [int(groups[random.randint(len(groups))])]
    classes = np.full(groups.max() + 1, -1)
    classes[known] = np.arange(len(known))
    excluded = _excluded(classes, apart, len(known))
    if len(known) < k:
        rows = _explored(scores, groups, known, random)
    else:
        rows = _consolidated(scores, groups, classes, excluded, n, random)
    members = [np.flatnonzero(groups == g) for g in known]
    places = np.stack([scores[m].mean(axis=0) for m in members])
    found: list[tuple[int, int]] = []
    for row in rows:
        for c in np.argsort(((scores[row] - places) ** 2).sum(axis=1), kind="stable"):
            pair = (int(row), _representative(members[c], scores, row, random))
            if not excluded[groups[row], c] and tuple(sorted(pair)) not in asked:
                found.append(pair)
                break
        if len(found) >= n:
            break
    return np.array(found, np.int64).reshape(-1, 2)


def _representative(members, scores, row, random) -> int:
    """Return the member of a neighbourhood whose scores are nearest to the row's, among 50."""
    some = members if len(members) <= 50 else random.choice(members, 50, replace=False)
    return int(some[((scores[some] - scores[row]) ** 2).sum(axis=1).argmin()])


def _explored(scores, groups, known, random) -> np.ndarray:
    """Return rows in random order; rows far from all neighbourhoods tend to come first."""
    member = np.isin(groups, known)
    free = np.flatnonzero(~member)
    chances = np.ones(len(free))
    if known:
        places = np.stack([scores[groups == g].mean(axis=0) for g in known])
        chances = ((scores[free][:, None] - places[None]) ** 2).sum(axis=2).min(axis=1) + 1e-12
    return free[np.argsort(-np.log(random.random_sample(len(free))) / chances)]


def _consolidated(scores, groups, classes, excluded, n, random) -> np.ndarray:
    """Return unassigned rows: those with answers first, then small margins and random in turn."""
    row_class = classes[groups]
    open_rows = excluded[groups].sum(axis=1) < excluded.shape[1] - 1
    free = random.permutation(np.flatnonzero((row_class < 0) & open_rows))
    begun = free[excluded[groups[free]].any(axis=1)]
    fresh = free[~excluded[groups[free]].any(axis=1)]
    lead = lead_of(scores, scores.argmax(axis=1))
    third = fresh[: max(n, len(fresh) // NEAR_SHARE)]
    unsure = third[np.argsort(lead[third], kind="stable")]
    mixed = np.empty(2 * max(len(unsure), len(fresh)), np.int64)
    mixed[:] = -1
    mixed[0 : 2 * len(unsure) : 2] = unsure
    mixed[1 : 2 * len(fresh) : 2] = fresh[::-1]
    ordered = np.concatenate([begun, mixed[mixed >= 0]])
    return ordered[np.sort(np.unique(ordered, return_index=True)[1])]
