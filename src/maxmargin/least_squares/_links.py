r"""Constraints in the search over labels: links are respected, and J_p is maximised otherwise.

Rows with must-links between them are one row of the search: with the 0/1 matrix G of groups, the
search maximises J_p for G'RG, which is exact. A cannot-link between the groups a and b subtracts a
penalty from the entries (a, b) and (b, a), which exceeds what a single move can gain. A row whose
move would violate a link is moved together with the rows that have to change places with it
(``_numba.swap_chains``).

The search starts from the labels that were found without links, so that a few links change little.
Their metric and their sample of the rows are also kept if links are few (``_fit._first_fit``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from .._core.init import agreement
from .._core.links import Groups
from ._label_search import (
    MIN_GAIN,
    SHAKES,
    Found,
    Labelling,
    LabelProblem,
    SearchSettings,
    promised,
    search_labels,
)
from ._numba import cluster_sums, swap_chains
from ._similarity import Similarity

# Moving a row of weight w changes J_p by at most about 4 w / n_h^p, a violated link by twice this.
PENALTY = 10.0
HEAVIEST_LINK = 100.0  # times the lightest one: larger penalties would cost precision
OTHERS = 7  # further local optima of a search, to start another one from


@dataclass(frozen=True)
class GroupedProblem(LabelProblem):
    """The problem whose rows are the groups of another problem's rows."""

    # cannot-links between groups as a CSR matrix: indptr, indices and weights
    cannot: tuple[np.ndarray, np.ndarray, np.ndarray] = ()  # type: ignore[assignment]

    def joint_moves(self, state: Labelling, repair: bool = False) -> int:
        """Swap chains of cannot-linked rows; with ``repair`` only if fewer links are violated."""
        within = cluster_sums(state.caches, state.labels, self.similarity.weights)[0]
        return int(swap_chains(*state.shared, within, self.size_prior, self.cannot, repair))


def grouped(problem: LabelProblem, links: Groups) -> GroupedProblem:
    """Return the problem with one row for each group of rows."""
    whole, of_row = problem.similarity, links.of_row
    order = np.argsort(of_row, kind="stable")
    starts = np.searchsorted(of_row[order], np.arange(of_row.max() + 1))
    matrix = np.add.reduceat(whole.matrix[order], starts, axis=0)
    matrix = np.ascontiguousarray(np.add.reduceat(matrix[:, order], starts, axis=1))
    weights = np.bincount(of_row, whole.weights)
    known = np.full(len(weights), -1, np.int32)
    np.maximum.at(known, of_row, problem.known)
    ends, strengths = np.concatenate([links.apart, links.apart[:, ::-1]]).T, np.empty(0)
    if len(links.apart):
        strengths = np.tile(np.minimum(links.weights / links.weights.min(), HEAVIEST_LINK), 2)
        penalties = PENALTY * strengths * weights[ends].max(axis=0)
        matrix[ends[0], ends[1]] -= penalties.astype(matrix.dtype)
    csr = sparse.csr_matrix((strengths, (ends[0], ends[1])), shape=matrix.shape)
    return GroupedProblem(
        # Only whether R is centred counts here.
        Similarity(matrix, weights, whole.ridge, whole.scale, whole.row_means),
        problem.k,
        problem.targets,
        problem.floor,
        known,
        problem.size_prior,
        cannot=(csr.indptr, csr.indices, csr.data),
    )


def voted(problem: LabelProblem, links: Groups, labels: np.ndarray) -> np.ndarray:
    """Return the label of most of the weight in every group; those of known rows are kept.

    Among labels of equal weight, that of the largest sum of leave-one-out scores is taken.
    """
    similarity, k = problem.similarity, problem.k
    votes, scores = np.zeros((2, links.of_row.max() + 1, k))
    np.add.at(votes, (links.of_row, labels), similarity.weights)
    known = problem.known >= 0
    votes[links.of_row[known], problem.known[known]] = np.inf
    first = votes >= (1.0 - 1e-9) * votes.max(axis=1, keepdims=True)
    if (first.sum(axis=1) > 1).any():
        loo = similarity.leave_one_out(similarity.caches(labels, k), labels)
        np.add.at(scores, links.of_row, similarity.weights[:, None] * loo)
    return np.where(first, scores, -np.inf).argmax(axis=1).astype(np.int32)


def repaired(small: GroupedProblem, labels: np.ndarray) -> np.ndarray:
    """Return labels of the groups, changed as little as needed to respect the cannot-links."""
    state = Labelling(small, labels)
    while small.joint_moves(state, repair=True):
        pass
    return state.labels


def predicts_more(problem: LabelProblem, labels: np.ndarray, others: np.ndarray) -> bool:
    """Return whether classifiers of some labels predict significantly more links than of others.

    Predictions are leave-one-out.
    """
    assert problem.links is not None
    pairs, right = problem.links.links(), []
    for of_row in (labels, others):
        caches = problem.similarity.caches(of_row, problem.k)
        predicted = problem.similarity.leave_one_out(caches, of_row).argmax(axis=1)
        right.append(pairs.satisfied(predicted))
    return more_often(right[0], right[1])


def more_often(right: np.ndarray, before: np.ndarray, errors: float = 2.0) -> bool:
    """Return whether the first is right more often, by some standard errors (McNemar's test).

    Examples
    --------
    >>> before = np.arange(9) > 4
    >>> more_often(np.ones(9, bool), before), more_often(before, before)
    (True, False)
    """
    won, lost = (right & ~before).sum(), (before & ~right).sum()
    return bool(won - lost > errors * np.sqrt(won + lost))


def search_with_links(
    problem: LabelProblem,
    found: Found,
    settings: SearchSettings,
    rivals: list[np.ndarray] | None = None,
    keep: bool = False,
) -> tuple[Found, dict[str, dict[str, float]], bool]:
    """Return labels that respect the links, how they compare with rivals, and if they are others.

    The labels found without links are made to respect the links and improved by single moves. The
    result of a wider search replaces them only if it predicts significantly more links, or has a
    larger J_p and is as near to the labels found without links. It is not worse than ``rivals``
    that are made to respect the links. With ``keep``, the labels found are not those of the largest
    J_p, and only linked rows are moved.
    """
    links = problem.links
    if links is None or problem.k == 1:
        return found, {}, False
    small = first = grouped(problem, links)
    compared: dict[str, dict[str, float]] = {}
    labels = [found.labels, *(other.labels for other in found.others[:OTHERS])]
    starts = [(repaired(small, voted(problem, links, start)), SHAKES) for start in labels]
    if keep:
        linked = np.bincount(links.of_row, links.linked()) > 0
        first = replace(small, known=np.where(linked, small.known, starts[0][0]))
    best = search_labels(first, starts[:1], replace(settings, n_kicks=0))
    other = search_labels(small, starts, settings)
    of_rows = [one.labels[links.of_row] for one in (other, best)]
    as_near, near = (agreement(found.labels, labels, problem.k) for labels in of_rows)
    left = other.value > best.value * (1.0 + MIN_GAIN) and as_near >= near
    left = left or predicts_more(problem, *of_rows)
    best = other if left else best
    others = [replace(one, labels=one.labels[links.of_row]) for one in other.others]
    if rivals:
        held = [repaired(small, voted(problem, links, rival)) for rival in rivals]
        best, compared = promised(small, best, held, settings, keep and not left)
    return replace(best, labels=best.labels[links.of_row], others=others), compared, left
