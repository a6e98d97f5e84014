"""Pairwise constraints: must-links and cannot-links between rows.

A :class:`PairwiseConstraints` has one entry for each row of X. Indexed together with X (by a grid
search, a cross-validation or a pipeline) it keeps the links between the selected rows and renumbers
them, so that links always refer to the right rows.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from ._answers import CANNOT, MUST, Answer, places_of, read_answers, relations_of, write_answers
from ._core.dedup import checked_partial_labels
from ._core.links import (
    Contradiction,
    Links,
    cannot_clique,
    checked_pairs,
    checked_weights,
    groups_of,
    odd_ring,
    random_pairs,
    recut,
    shortest_chain,
)
from ._files import DataError, plural

__all__ = ["Contradiction", "ContradictionError", "PairwiseConstraints"]


class ContradictionError(ValueError):
    """Raised if links cannot all be satisfied.

    Parameters
    ----------
    contradiction : Contradiction
        Links that contradict each other; kept as an attribute.

    See Also
    --------
    PairwiseConstraints.check : Raises it.
    maxmargin.constraints.Contradiction : The links that contradict each other.

    Examples
    --------
    >>> links = PairwiseConstraints(3, must_link=[(0, 1), (1, 2)], cannot_link=[(0, 2)])
    >>> try:
    ...     links.check()
    ... except ContradictionError as error:
    ...     print(error.contradiction.kind)
    chain
    """

    def __init__(self, contradiction: Contradiction) -> None:
        super().__init__(
            f"constraints contradict each other: {contradiction}. Correct the links, or set "
            "on_conflict='soft' to allow violated links."
        )
        self.contradiction = contradiction


class PairwiseConstraints:
    """Must-links and cannot-links between the rows of a data set.

    Parameters
    ----------
    n_samples : int
        Number of rows of X.
    must_link, cannot_link : array-like of shape (m, 2), default=()
        Pairs of row numbers, from 0.
    must_weight, cannot_weight : array-like of shape (m,), float or None, default=None
        Confidence in each link, from 1e-12 to 1e12; None means 1. A link of weight 2 is equivalent
        to the same link given twice.

    Attributes
    ----------
    must_link, cannot_link : ndarray of shape (m, 2)
        The links.
    must_weight, cannot_weight : ndarray of shape (m,)
        Their weights.
    shape : tuple
        ``(n_samples,)``: links are indexed like an array with one entry for each row.

    See Also
    --------
    MaxMarginClustering : Takes up to about a hundred constraints.
    PairwiseMarginClustering : Learns from hundreds of constraints.
    PairQueries : Ask a person about pairs of rows.

    Examples
    --------
    >>> from maxmargin import PairwiseConstraints
    >>> links = PairwiseConstraints(5, must_link=[(0, 1), (1, 4)], cannot_link=[(1, 3)])
    >>> links
    PairwiseConstraints(5, 2 must-links, 1 cannot-link)
    >>> links.relation(0, 3)
    -1
    >>> links[[1, 3, 4]].must_link
    array([[0, 2]])
    """

    def __init__(
        self,
        n_samples: Any,
        must_link: Any = (),
        cannot_link: Any = (),
        *,
        must_weight: Any = None,
        cannot_weight: Any = None,
    ) -> None:
        number = isinstance(n_samples, int | np.integer) and not isinstance(n_samples, bool)
        if not number or n_samples < 0:
            raise ValueError(f"n_samples must be a whole number of at least 0, got {n_samples!r}.")
        self.n_samples = int(n_samples)
        self.must_link = checked_pairs(must_link, "must_link", self.n_samples)
        self.cannot_link = checked_pairs(cannot_link, "cannot_link", self.n_samples)
        self.must_weight = checked_weights(must_weight, "must_weight", self.must_link)
        self.cannot_weight = checked_weights(cannot_weight, "cannot_weight", self.cannot_link)

    # -- as an array with one entry for each row --------------------------------------------------

    @property
    def shape(self) -> tuple[int]:
        """``(n_samples,)``."""
        return (self.n_samples,)

    @property
    def n_links(self) -> int:
        """Number of links of both kinds."""
        return len(self.must_link) + len(self.cannot_link)

    def __len__(self) -> int:
        return self.n_samples

    def __getitem__(self, key: Any) -> PairwiseConstraints:
        """Return the links between the selected rows, renumbered.

        The links of a row selected twice are repeated. Links implied through rows that are not
        selected are lost.
        """
        if isinstance(key, tuple):  # scikit-learn asks for array[key, ...]
            key = next(part for part in key if part is not Ellipsis)
        rows = np.atleast_1d(np.arange(self.n_samples)[key])
        order = np.argsort(rows, kind="stable")
        must, must_weight = recut(self.must_link, self.must_weight, rows, order)
        cannot, cannot_weight = recut(self.cannot_link, self.cannot_weight, rows, order)
        return PairwiseConstraints(
            len(rows), must, cannot, must_weight=must_weight, cannot_weight=cannot_weight
        )

    def __eq__(self, other: Any) -> bool:
        if not isinstance(other, PairwiseConstraints):
            return NotImplemented
        mine, theirs = vars(self), vars(other)
        return all(np.array_equal(mine[name], theirs[name]) for name in mine)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        must, cannot = plural(len(self.must_link), "must-link"), len(self.cannot_link)
        return f"PairwiseConstraints({self.n_samples}, {must}, {plural(cannot, 'cannot-link')})"

    # -- made from something else -----------------------------------------------------------------

    @classmethod
    def from_labels(cls, y: Any, *, n_pairs: int, random_state: Any = None) -> PairwiseConstraints:
        """Draw random pairs of rows whose classes are known, without replacement.

        Parameters
        ----------
        y : array-like of shape (n_samples,)
            Classes; -1, NaN and None mean unknown.
        n_pairs : int
            Number of pairs (the paper's L).
        random_state : int, RandomState instance or None, default=None
            Seed of the draw.

        Returns
        -------
        PairwiseConstraints
            A must-link for each pair of equal classes, a cannot-link for each other pair.

        Examples
        --------
        >>> links = PairwiseConstraints.from_labels([0, 1, 0, -1], n_pairs=3, random_state=0)
        >>> links.must_link
        array([[0, 2]])
        """
        y = np.asarray(y)
        if y.ndim != 1:
            raise ValueError(f"y must have one dimension, got shape {y.shape}.")
        known = np.flatnonzero([v is not None and v == v and v != -1 for v in y.tolist()])
        possible = len(known) * (len(known) - 1) // 2
        if not 0 <= n_pairs <= possible:
            raise ValueError(
                f"n_pairs={n_pairs}: {len(known)} rows with a known class have {possible} pairs."
            )
        pairs = known[random_pairs(len(known), int(n_pairs), check_random_state(random_state))]
        same = y[pairs[:, 0]] == y[pairs[:, 1]]
        return cls(len(y), pairs[same], pairs[~same])

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        row_ids: Any = None,
        n_samples: Any = None,
        columns: Any = None,
        weight: Any = None,
    ) -> PairwiseConstraints:
        """Read links from a table with two columns of row ids and a column of relations.

        Parameters
        ----------
        frame : DataFrame or dict of columns
            The table.
        row_ids : array-like of shape (n_samples,), optional
            Ids of the rows of X, in order. By default the columns contain row numbers.
        n_samples : int, optional
            Number of rows of X; required without ``row_ids``.
        columns : sequence of three names, optional
            The two columns of ids and the column of relations; the first three by default.
        weight : str, optional
            Name of the column of weights.

        Returns
        -------
        PairwiseConstraints
            The links.

        Notes
        -----
        Relations are "must-link", "same", 1 or True, and "cannot-link", "different", -1, 0 or
        False.

        Examples
        --------
        >>> answers = {"a": ["ann", "ann"], "b": ["bob", "eve"], "relation": ["same", "different"]}
        >>> links = PairwiseConstraints.from_frame(answers, row_ids=["eve", "ann", "bob"])
        >>> links.must_link, links.cannot_link
        (array([[1, 2]]), array([[1, 0]]))
        """
        names = list(getattr(frame, "columns", frame))[:3] if columns is None else list(columns)
        if len(names) != 3:
            raise ValueError(f"columns must name two columns of ids and a relation, got {names}.")
        first, second, relation = (np.asarray(frame[name]) for name in names)
        if row_ids is not None:
            n_samples = len(row_ids)
            ids = np.asarray(row_ids).tolist()
            first, second = (
                np.array(places_of(ids, column.tolist(), name), np.int64)
                for column, name in zip((first, second), names)
            )
        elif n_samples is None:
            raise ValueError("from_frame needs row_ids or n_samples.")
        same = np.array(relations_of(relation.tolist()), bool)
        weights = np.ones(len(same)) if weight is None else np.asarray(frame[weight], float)
        return cls._of_links(n_samples, Links(first, second, same, weights))

    @classmethod
    def _of_links(cls, n_samples: Any, links: Links) -> PairwiseConstraints:
        pairs, same = np.stack([links.first, links.second], axis=1), links.same
        weights = {"must_weight": links.weights[same], "cannot_weight": links.weights[~same]}
        return cls(n_samples, pairs[same], pairs[~same], **weights)

    @classmethod
    def _of_answers(cls, n_samples: int, answers: list[Answer]) -> PairwiseConstraints:
        """Return the links of answers "same" and "different"."""
        first, second = np.array([a[:2] for a in answers], np.int64).reshape(-1, 2).T
        same = np.array([answer.code == 1 for answer in answers], bool)
        weights = np.array([answer.weight for answer in answers], float)
        return cls._of_links(n_samples, Links(first, second, same, weights))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the links as csv: ``row_a, row_b, relation, weight`` under a line with n_samples.

        Parameters
        ----------
        path : path
            Name of the file.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> links = PairwiseConstraints(3, must_link=[(0, 1)], cannot_link=[(1, 2)])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     links.save(pathlib.Path(folder, "links.csv"))
        ...     again = PairwiseConstraints.load(pathlib.Path(folder, "links.csv"))
        >>> again == links
        True
        """
        links = self.links()
        words = np.where(links.same, MUST[0], CANNOT[0])
        columns = links.first, links.second, words, links.weights
        answers = map(Answer, *(column.tolist() for column in columns))
        write_answers(path, self.n_samples, answers)

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], ids: Sequence[Any] | None = None
    ) -> PairwiseConstraints:
        """Read links that :meth:`save` or ``maxmargin label`` wrote.

        Parameters
        ----------
        path : path
            Name of the file.
        ids : sequence, optional
            Names of the rows, one for each. Links that were saved with ids are between the rows
            that have them now.

        Returns
        -------
        PairwiseConstraints
            The links; answers "unknown" are left out.
        """
        n_samples, answers = read_answers(path, ids=ids)
        try:
            return cls._of_answers(n_samples, answers)
        except ValueError as error:
            raise DataError(f"{path}: {error}") from error

    # -- what follows from the links --------------------------------------------------------------

    def links(self) -> Links:
        """Return all links as arrays.

        Returns
        -------
        Links
            Arrays ``first``, ``second``, ``same`` and ``weights``, must-links first.
        """
        pairs = np.concatenate([self.must_link, self.cannot_link])
        same = np.arange(len(pairs)) < len(self.must_link)
        weights = np.concatenate([self.must_weight, self.cannot_weight])
        return Links(pairs[:, 0], pairs[:, 1], same, weights)

    def groups(self) -> np.ndarray:
        """Return the group of every row under the transitive closure of the must-links.

        Returns
        -------
        ndarray of shape (n_samples,)
            Group numbers, in the order of the first row of each group.

        Examples
        --------
        >>> PairwiseConstraints(4, must_link=[(0, 2), (2, 3)]).groups()
        array([0, 1, 0, 0])
        """
        return groups_of(self.n_samples, self.must_link)

    def closure(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the groups of the must-links and the pairs of groups that are cannot-linked.

        Together they represent all implied links without listing each pair of rows.

        Returns
        -------
        groups : ndarray of shape (n_samples,)
            Group of every row.
        apart : ndarray of shape (m, 2)
            Distinct pairs of groups, the smaller number first.

        Examples
        --------
        >>> links = PairwiseConstraints(4, must_link=[(0, 2)], cannot_link=[(2, 3), (3, 0)])
        >>> links.closure()
        (array([0, 1, 0, 2]), array([[0, 2]]))
        """
        groups = self.groups()
        apart = np.sort(groups[self.cannot_link], axis=1)
        codes = np.unique(apart[:, 0] * self.n_samples + apart[:, 1])
        return groups, np.stack([codes // self.n_samples, codes % self.n_samples], axis=1)

    def relation(self, row_a: int, row_b: int) -> int:
        """Return the relation between two rows that the links imply.

        Parameters
        ----------
        row_a, row_b : int
            Row numbers.

        Returns
        -------
        int
            1 for a must-link, -1 for a cannot-link, 0 for neither.
        """
        groups, apart = self.closure()
        pair = np.sort(groups[[row_a, row_b]])
        if pair[0] == pair[1]:
            return 1
        return -1 if (apart == pair).all(axis=1).any() else 0

    def contradiction(
        self, n_clusters: int | None = None, partial_labels: Any = None
    ) -> Contradiction | None:
        """Return links that contradict each other, or None.

        Parameters
        ----------
        n_clusters : int, optional
            If given, also detect cannot-links that require more clusters. The test is exact for two
            clusters; for more, it searches for a clique of cannot-links.
        partial_labels : array-like of shape (n_samples,), optional
            Known classes: numbers from 0, or names; -1, '' or NaN if unknown.

        Returns
        -------
        Contradiction or None
            None if no contradiction was found.

        Examples
        --------
        >>> links = PairwiseConstraints(9, must_link=[(0, 1), (1, 8)], cannot_link=[(8, 0)])
        >>> print(links.contradiction())
        the cannot-link between row 8 and row 0 contradicts a chain of 2 must-links: row 8 - row 1
        - row 0
        """
        n, must, cannot = self.n_samples, self.must_link, self.cannot_link
        known = None
        if partial_labels is not None:
            known = checked_partial_labels(np.asarray(partial_labels), n, None)[0]
        if known is not None:  # one more row per known class, which its rows are linked to
            rows = np.flatnonzero(known >= 0)
            classes = (n + np.unique(known[rows])).tolist()
            apart = np.array(list(combinations(classes, 2)), np.int64).reshape(-1, 2)
            must = np.concatenate([must, np.stack([rows, n + known[rows]], axis=1)])
            cannot = np.concatenate([cannot, apart])
            n += int(known.max()) + 1
        groups = groups_of(n, must)
        broken = np.flatnonzero(groups[cannot[:, 0]] == groups[cannot[:, 1]])
        if len(broken):
            chain = shortest_chain(n, must, *cannot[broken[0]].tolist())
            return Contradiction("chain", chain, self.n_samples)
        if n_clusters == 2 and len(cannot):
            ring = odd_ring(n, must, cannot)
            return Contradiction("ring", ring, self.n_samples, 2) if ring else None
        if n_clusters is not None and len(cannot):
            clique = cannot_clique(n, groups, cannot, n_clusters + 1)
            found = Contradiction("clique", clique, self.n_samples, n_clusters)
            return found if clique else None
        return None

    def check(self, n_clusters: int | None = None, partial_labels: Any = None) -> None:
        """Raise a :class:`ContradictionError` if the links cannot all be satisfied.

        Parameters
        ----------
        n_clusters, partial_labels : optional
            See :meth:`contradiction`.
        """
        found = self.contradiction(n_clusters, partial_labels)
        if found is not None:
            raise ContradictionError(found)

    def violations(self, labels: Any) -> PairwiseConstraints:
        """Return the links that labels violate.

        Parameters
        ----------
        labels : array-like of shape (n_samples,)
            Cluster of every row.

        Returns
        -------
        PairwiseConstraints
            The violated links.

        Examples
        --------
        >>> links = PairwiseConstraints(3, must_link=[(0, 1)], cannot_link=[(1, 2)])
        >>> links.violations([0, 1, 1])
        PairwiseConstraints(3, 1 must-link, 1 cannot-link)
        """
        return self.take(~self.links().satisfied(self._checked_labels(labels)))

    def accuracy(self, labels: Any) -> float:
        """Return the weighted fraction of links that labels satisfy.

        Parameters
        ----------
        labels : array-like of shape (n_samples,)
            Cluster of every row.

        Returns
        -------
        float
            Between 0 and 1; NaN if there are no links.

        Examples
        --------
        >>> PairwiseConstraints(3, must_link=[(0, 1)], cannot_link=[(1, 2)]).accuracy([0, 0, 0])
        0.5
        """
        return self.links().accuracy(self._checked_labels(labels))

    def take(self, keep: np.ndarray) -> PairwiseConstraints:
        """Return a subset of the links, between the same rows.

        Parameters
        ----------
        keep : ndarray
            Mask or indices into the links, must-links first.

        Returns
        -------
        PairwiseConstraints
            The selected links.
        """
        return self._of_links(self.n_samples, self.links().take(keep))

    def _checked_labels(self, labels: Any) -> np.ndarray:
        given = np.asarray(labels)
        if given.shape != (self.n_samples,):
            rows = f"each of the {self.n_samples} rows"
            raise ValueError(f"labels must have one entry for {rows}, got shape {given.shape}.")
        return given


def checked_constraints(constraints: Any, n_samples: int) -> PairwiseConstraints:
    """Return the constraints of a fit, or raise an error if they are not about its rows."""
    if not isinstance(constraints, PairwiseConstraints):
        raise ValueError(
            f"constraints must be a PairwiseConstraints, got {type(constraints).__name__}. Use "
            "PairwiseConstraints(n_samples, must_link=..., cannot_link=...)."
        )
    if constraints.n_samples != n_samples:
        raise ValueError(
            f"constraints are about {constraints.n_samples} rows, but X has {n_samples} rows."
        )
    return constraints
