"""What a set of links implies: groups of rows, and the shortest contradiction.

Must-links are edges of an undirected graph whose connected components are the groups of rows that
belong together. Everything here runs on :mod:`scipy.sparse.csgraph`: no recursion, linear time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import breadth_first_order, connected_components

CLIQUE_STEPS = 20_000  # the search for a clique is exponential in the worst case
SHOWN_ROWS = 8  # rows of a chain that a message names


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
    found = _search_clique(edges, size)
    first_row = {int(g): int(r) for r, g in reversed(list(enumerate(groups)))} if found else {}
    return sorted(first_row[g] for g in found)


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
