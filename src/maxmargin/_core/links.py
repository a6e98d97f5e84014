"""Links between rows as plain arrays, and what a set of links implies.

Must-links are edges of an undirected graph whose connected components are the groups of rows that
belong together. Groups and contradictions are found by :mod:`scipy.sparse.csgraph`: no recursion,
linear time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import breadth_first_order, connected_components

# Range of positive weights of rows and links in which sums and ratios keep their precision.
LIGHTEST, HEAVIEST = 1e-12, 1e12
CLIQUE_STEPS = 20_000  # the search for a clique is exponential in the worst case
SHOWN_ROWS = 8  # rows of a chain that a message names


@dataclass(frozen=True)
class Links:
    """Pairs of rows that belong together or apart.

    Unlike in :class:`~maxmargin.PairwiseConstraints`, both rows of a pair may be the same, because
    equal rows are merged.
    """

    first: np.ndarray  # (L,)
    second: np.ndarray  # (L,)
    same: np.ndarray  # (L,): True for a must-link, False for a cannot-link
    weights: np.ndarray  # (L,)

    def __len__(self) -> int:
        return len(self.first)

    def take(self, keep: np.ndarray) -> Links:
        """Return the selected links.

        Examples
        --------
        >>> links = Links(*np.array([[0, 1], [2, 3]]), np.array([True, False]), np.ones(2))
        >>> links.take(links.same).second
        array([2])
        """
        return Links(self.first[keep], self.second[keep], self.same[keep], self.weights[keep])

    def mapped(self, places: np.ndarray) -> Links:
        """Return the links with row i renumbered to places[i]; -1 removes the links of a row."""
        first, second = places[self.first], places[self.second]
        keep = (first >= 0) & (second >= 0)
        return Links(first[keep], second[keep], self.same[keep], self.weights[keep])

    def rows(self) -> np.ndarray:
        """Rows that occur in a link, ascending."""
        return np.unique(np.concatenate([self.first, self.second]))

    def satisfied(self, labels: np.ndarray) -> np.ndarray:
        """Return whether labels satisfy each link.

        Examples
        --------
        >>> links = Links(np.array([0, 0]), np.array([1, 2]), np.array([True, False]), np.ones(2))
        >>> links.satisfied(np.array([0, 0, 0]))
        array([ True, False])
        """
        return np.asarray((labels[self.first] == labels[self.second]) == self.same)

    def accuracy(self, labels: np.ndarray) -> float:
        """Return the weighted fraction of links that labels satisfy; NaN without links."""
        if len(self) == 0:
            return float("nan")
        return float(np.average(self.satisfied(labels), weights=self.weights))


def checked_pairs(pairs: Any, name: str, n: int) -> np.ndarray:
    """Pairs of two different rows of n, or an error that names what is wrong."""
    is_array = isinstance(pairs, Sequence) or hasattr(pairs, "__array__")  # such as a data frame
    given = np.asarray(pairs if is_array else list(pairs))
    if given.size == 0:
        return np.empty((0, 2), np.int64)
    if given.ndim != 2 or given.shape[1] != 2 or given.dtype.kind not in "iuf":
        raise ValueError(
            f"{name} must be pairs of row numbers, an array of shape (m, 2); got shape "
            f"{given.shape} of {given.dtype}."
        )
    bad = np.flatnonzero((~np.isfinite(given) | (given != np.rint(given))).any(axis=1))
    if len(bad):
        raise ValueError(f"{name} must hold whole row numbers, got {given[bad[0]].tolist()}.")
    outside = np.flatnonzero(((given < 0) | (given >= n)).any(axis=1))
    if len(outside):
        raise ValueError(
            f"{name}[{outside[0]}] = {tuple(given[outside[0]].tolist())}: row numbers must lie "
            f"between 0 and n_samples - 1 = {n - 1}."
        )
    whole = given.astype(np.int64)
    itself = np.flatnonzero(whole[:, 0] == whole[:, 1])
    if len(itself):
        raise ValueError(f"{name}[{itself[0]}] links row {whole[itself[0], 0]} with itself.")
    return whole


def checked_weights(weights: Any, name: str, pairs: np.ndarray) -> np.ndarray:
    """Weights of the pairs, or an error that names the first bad one."""
    if weights is None:
        return np.ones(len(pairs))
    given = np.asarray(weights, float)
    if given.ndim == 0:
        given = np.full(len(pairs), float(given))
    if given.shape != (len(pairs),):
        raise ValueError(
            f"{name} must have one entry for each of {len(pairs)} links, got shape {given.shape}."
        )
    bad = np.flatnonzero(~((given >= LIGHTEST) & (given <= HEAVIEST)))
    if len(bad):
        raise ValueError(
            f"{name} must be positive numbers between {LIGHTEST:g} and {HEAVIEST:g}; the link "
            f"between rows {' and '.join(map(str, pairs[bad[0]].tolist()))} has {given[bad[0]]}."
        )
    return given


def recut(
    pairs: np.ndarray, weights: np.ndarray, rows: np.ndarray, order: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Pairs between the chosen ``rows``, numbered by their places; ``order`` sorts the rows."""
    sorted_rows = rows[order]
    begin = np.searchsorted(sorted_rows, pairs)
    counts = np.searchsorted(sorted_rows, pairs, side="right") - begin
    # A row chosen c times and another chosen d times have c d pairs.
    times = counts.prod(axis=1)
    link = np.repeat(np.arange(len(pairs)), times)
    within = np.arange(len(link)) - np.repeat(np.cumsum(times) - times, times)
    first = begin[link, 0] + within // np.maximum(counts[link, 1], 1)
    second = begin[link, 1] + within % np.maximum(counts[link, 1], 1)
    return np.stack([order[first], order[second]], axis=1).reshape(-1, 2), weights[link]


def random_pairs(n: int, count: int, random: np.random.RandomState) -> np.ndarray:
    """Distinct pairs of n rows, in random order, the smaller row first."""
    possible = n * (n - 1) // 2
    if possible <= 4 * count or possible <= 10_000:
        codes = random.permutation(possible)[:count]
    else:
        codes = np.empty(0, np.int64)
        while len(codes) < count:
            more = random.randint(0, possible, size=2 * (count - len(codes)) + 8, dtype=np.int64)
            together = np.concatenate([codes, more])
            codes = together[np.sort(np.unique(together, return_index=True)[1])]
        codes = codes[:count]
    # Code of (a, b) with a < b: b (b - 1) / 2 + a.
    second = np.floor((1.0 + np.sqrt(1.0 + 8.0 * codes)) / 2.0).astype(np.int64)
    second -= second * (second - 1) // 2 > codes
    second += (second + 1) * second // 2 <= codes
    return np.stack([codes - second * (second - 1) // 2, second], axis=1)


@dataclass(frozen=True)
class Contradiction:
    """Links that cannot all be satisfied.

    Parameters
    ----------
    kind : {"chain", "ring", "clique"}
        "chain": a cannot-link between the ends of a chain of must-links; "ring": a closed chain
        with an odd number of cannot-links (two clusters are too few); "clique": rows with
        cannot-links between all of them (too few clusters).
    rows : list of int
        The rows, in the order of the chain. Numbers from ``n_samples`` on denote known classes.
    n_samples : int
        Number of rows.
    n_clusters : int or None
        Number of clusters that is too small; None for a chain.

    See Also
    --------
    maxmargin.PairwiseConstraints.contradiction : Find a contradiction.
    maxmargin.constraints.ContradictionError : The error that has it.

    Examples
    --------
    >>> from maxmargin import PairwiseConstraints
    >>> links = PairwiseConstraints(3, must_link=[(0, 1), (1, 2)], cannot_link=[(0, 2)])
    >>> found = links.contradiction()
    >>> found.kind, found.rows
    ('chain', [0, 1, 2])
    """

    kind: str
    rows: list[int]
    n_samples: int
    n_clusters: int | None = None

    def __str__(self) -> str:
        names = self._names()
        ends = f"{self._name(self.rows[0])} and {self._name(self.rows[-1])}"
        count = len(self.rows) - 1
        if self.kind == "chain":
            return (
                f"the cannot-link between {ends} contradicts a chain of {count:,} "
                f"must-link{'s' if count > 1 else ''}: {names}"
            )
        if self.kind == "ring":
            return (
                f"n_clusters=2 is too few: a closed chain with an odd number of cannot-links runs "
                f"through {names}"
            )
        return (
            f"n_clusters={self.n_clusters} is too few: there are cannot-links between all of these "
            f"{len(self.rows)} rows: {names}"
        )

    def _name(self, row: int) -> str:
        return f"row {row}" if row < self.n_samples else f"class {row - self.n_samples}"

    def _names(self) -> str:
        joint = ", " if self.kind == "clique" else " - "
        names = [self._name(row) for row in self.rows]
        if len(names) <= SHOWN_ROWS:
            return joint.join(names)
        half = SHOWN_ROWS // 2
        left_out = f"({len(names) - SHOWN_ROWS:,} more)"
        return joint.join([*names[:half], left_out, *names[-half:]])


def _graph(n: int, pairs: np.ndarray) -> sparse.csr_matrix:
    ones = np.ones(len(pairs), np.int8)
    return sparse.csr_matrix((ones, (pairs[:, 0], pairs[:, 1])), shape=(n, n))


def groups_of(n: int, must_link: np.ndarray) -> np.ndarray:
    """Return the group of every row under must-links, numbered by first row.

    Examples
    --------
    >>> groups_of(4, np.array([[2, 0], [3, 2]]))
    array([0, 1, 0, 0])
    """
    labels = connected_components(_graph(n, must_link), directed=False)[1]
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse]


@dataclass(frozen=True)
class Groups:
    """Rows that belong together, and groups that belong apart, without contradictions."""

    of_row: np.ndarray  # (n,): group of every row
    apart: np.ndarray  # (m, 2): pairs of groups with a cannot-link between them
    weights: np.ndarray  # (m,): sum of the weights of these links

    def part(self, rows: np.ndarray) -> Groups:
        """Return the groups of some of the rows, numbered from 0 without gaps.

        Examples
        --------
        >>> groups = Groups(np.array([0, 1, 0, 3]), np.array([[0, 1], [1, 3]]), np.ones(2))
        >>> part = groups.part(np.array([1, 2, 3]))
        >>> part.of_row, part.apart
        (array([1, 0, 2]), array([[0, 1], [1, 2]]))
        """
        present, of_row = np.unique(self.of_row[rows], return_inverse=True)
        place = np.full(len(self.of_row), -1)
        place[present] = np.arange(len(present))
        apart = place[self.apart]
        keep = (apart >= 0).all(axis=1)
        return Groups(of_row, apart[keep], self.weights[keep])

    def linked(self) -> np.ndarray:
        """Return whether each row is in a group with other rows or with a cannot-link."""
        count = np.bincount(self.of_row)
        count[self.apart] += 1
        return np.asarray(count[self.of_row] > 1)

    def links(self) -> Links:
        """Return links that imply the groups, and a cannot-link for each pair that is apart."""
        first = np.unique(self.of_row, return_index=True)[1]
        rows = np.setdiff1d(np.arange(len(self.of_row)), first)
        return Links(
            np.concatenate([rows, first[self.apart[:, 0]]]),
            np.concatenate([first[self.of_row[rows]], first[self.apart[:, 1]]]),
            np.arange(len(rows) + len(self.apart)) < len(rows),
            np.concatenate([np.ones(len(rows)), self.weights]),
        )

    def spread(self, known: np.ndarray) -> np.ndarray:
        """Return known labels, -1 if unknown, also of the other rows in the groups of such rows.

        Examples
        --------
        >>> groups = Groups(np.array([0, 1, 0]), np.empty((0, 2), int), np.empty(0))
        >>> groups.spread(np.array([-1, -1, 1]))
        array([ 1, -1,  1])
        """
        of_group = np.full(self.of_row.max() + 1, -1)
        np.maximum.at(of_group, self.of_row, known)
        return np.asarray(of_group[self.of_row])


def settled_groups(links: Links, known: np.ndarray) -> Groups:
    """Return the groups of rows that links form; heavier links prevail in a contradiction.

    Links are used in the order of falling weight, must-links first among equal ones. A link is left
    out if those used before it, or known labels, imply the opposite. (That k clusters may be too
    few for the cannot-links is not examined.) ``known`` (n,) are known labels, -1 if unknown.

    Examples
    --------
    >>> rows = np.array([[0, 1], [1, 2], [0, 2]]).T
    >>> links = Links(*rows, np.array([True, True, False]), np.array([3.0, 1.0, 2.0]))
    >>> groups = settled_groups(links, np.full(4, -1))
    >>> groups.of_row, groups.apart
    (array([0, 0, 2, 3]), array([[0, 2]]))
    """
    rows = links.rows()
    first, second = np.searchsorted(rows, links.first), np.searchsorted(rows, links.second)
    pairs = np.stack([np.minimum(first, second), np.maximum(first, second), ~links.same])
    pairs, place = np.unique(pairs, axis=1, return_inverse=True)
    weights = np.bincount(place.ravel(), links.weights)
    order = np.lexsort((pairs[2], -weights))  # equal ones: by their rows, not by their order
    parent, label = list(range(len(rows))), known[rows].tolist()
    apart: list[dict[int, float]] = [{} for _ in rows]

    def root(row: int) -> int:
        while parent[row] != row:
            parent[row] = row = parent[parent[row]]
        return row

    for a, b, different, weight in zip(*pairs[:, order].tolist(), weights[order].tolist()):
        a, b = root(a), root(b)
        if different:
            if a != b and not label[a] == label[b] >= 0:
                apart[a][b] = apart[b][a] = apart[a].get(b, 0.0) + weight
            continue
        one = max(label[a], label[b])
        if a == b or b in apart[a] or (label[a] != label[b] and min(label[a], label[b]) >= 0):
            continue
        if one >= 0 and any(label[c] == one for c in (*apart[a], *apart[b])):
            continue
        a, b = (a, b) if len(apart[a]) >= len(apart[b]) else (b, a)
        parent[b], label[a] = a, one
        for c, other in apart[b].items():
            apart[a][c] = apart[c][a] = apart[a].get(c, 0.0) + other
            del apart[c][b]
        apart[b] = {}
    of_row = np.arange(len(known))
    of_row[rows] = rows[[root(row) for row in range(len(rows))]]
    found = [(a, b, w) for a, others in enumerate(apart) for b, w in others.items() if a < b]
    ends = np.array([pair[:2] for pair in found], np.int64).reshape(-1, 2)
    return Groups(of_row, rows[ends], np.array([w for *_, w in found], np.float64))


def shortest_chain(n: int, pairs: np.ndarray, start: int, end: int) -> list[int]:
    """Return the rows along a shortest path from ``start`` to ``end``, which must be connected.

    Examples
    --------
    >>> shortest_chain(5, np.array([[0, 1], [1, 2], [2, 3], [1, 3]]), 0, 3)
    [0, 1, 3]
    """
    _, before = breadth_first_order(_graph(n, pairs), start, directed=False)
    chain = [int(end)]
    while chain[-1] != start:
        chain.append(int(before[chain[-1]]))
    return chain[::-1]


def odd_ring(n: int, must_link: np.ndarray, cannot_link: np.ndarray) -> list[int]:
    """Return a closed chain with an odd number of cannot-links, or [] if two clusters suffice.

    Every row gets two copies, one for each cluster; must-links join equal copies and cannot-links
    unequal ones. Two clusters can satisfy the links unless the copies of a row are connected.

    Examples
    --------
    >>> odd_ring(3, np.empty((0, 2), int), np.array([[0, 1], [1, 2], [0, 2]]))
    [0, 1, 2]
    """
    shift = np.array([n, 0])
    cover = np.concatenate(
        [must_link, must_link + n, cannot_link + shift, cannot_link + shift[::-1]]
    )
    side = connected_components(_graph(2 * n, cover), directed=False)[1]
    bad = np.flatnonzero(side[:n] == side[n:])
    if len(bad) == 0:
        return []
    return [row % n for row in shortest_chain(2 * n, cover, int(bad[0]), int(bad[0]) + n)][:-1]


def cannot_clique(n: int, groups: np.ndarray, cannot_link: np.ndarray, size: int) -> list[int]:
    """Return rows of ``size`` groups with cannot-links between all of them, or [].

    Rows with too few links are removed first; the rest is searched depth first, starting from the
    groups with most links, for at most ``CLIQUE_STEPS`` steps.

    Examples
    --------
    >>> pairs = np.array([[0, 1], [1, 2], [0, 2], [2, 3]])
    >>> cannot_clique(4, np.arange(4), pairs, 3)
    [0, 1, 2]
    """
    edges = np.unique(np.sort(groups[cannot_link], axis=1), axis=0)
    edges = edges[edges[:, 0] != edges[:, 1]]
    while len(edges):
        degree = np.bincount(edges.ravel(), minlength=n)
        keep = (degree[edges] >= size - 1).all(axis=1)
        if keep.all():
            break
        edges = edges[keep]
    found = _search_clique(edges, size) if len(edges) else []
    return sorted(int(np.argmax(groups == g)) for g in found)


def clusters_needed(links: Links, n: int, k: int) -> int:
    """Return how many clusters cannot-links need, as far as cliques of them show, at least k.

    Examples
    --------
    >>> rows = np.array([[0, 1], [1, 2], [0, 2]]).T
    >>> clusters_needed(Links(*rows, np.zeros(3, bool), np.ones(3)), 4, 1)
    3
    """
    pairs = np.stack([links.first, links.second], axis=1)
    groups = groups_of(n, pairs[links.same])
    while cannot_clique(n, groups, pairs[~links.same], k + 1):
        k += 1
    return k


def _search_clique(edges: np.ndarray, size: int) -> list[int]:
    near: dict[int, set[int]] = {}
    for a, b in edges.tolist():
        near.setdefault(a, set()).add(b)
        near.setdefault(b, set()).add(a)
    by_degree = sorted(near, key=lambda v: (-len(near[v]), v))
    # A stack of (clique so far, groups with cannot-links to all of it).
    stack: list[tuple[list[int], set[int]]] = [([v], near[v]) for v in reversed(by_degree)]
    for _ in range(CLIQUE_STEPS):
        if not stack:
            return []
        clique, candidates = stack.pop()
        if len(clique) == size:
            return clique
        if len(clique) + len(candidates) < size:
            continue
        ranked = sorted(candidates, key=lambda v: (len(near[v] & candidates), -v))
        stack += [([*clique, v], near[v] & candidates) for v in ranked]
    return []
