r"""Constraints in the search over labels: links are respected, and J_p is maximised otherwise.

Rows with must-links between them are one row of the search: with the 0/1 matrix G of groups, the
search maximises J_p for G'RG, which is exact. A cannot-link between the groups a and b subtracts a
penalty from the entries (a, b) and (b, a), which exceeds what a single move can gain. A row whose
move would violate a link is moved together with the rows that have to change places with it
(``_numba.swap_chains``).

The search starts from the labels that were found without links, so that a few links change little.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from .._core.links import Groups
from ._label_search import (
    SHAKES,
    Found,
    LabelProblem,
    SearchSettings,
    _Arrays,
    promised,
    search_labels,
    sums_within,
)
from ._numba import swap_chains
from ._similarity import Similarity

# Moving a row of weight w changes J_p by at most about 4 w / n_h^p, a violated link by twice this.
PENALTY = 10.0
HEAVIEST_LINK = 100.0  # times the lightest one: larger penalties would cost precision
OTHERS = 7  # further local optima of the search without links, to start from


@dataclass(frozen=True)
class GroupedProblem(LabelProblem):
    """The problem whose rows are the groups of another problem's rows."""

    # cannot-links between groups as a CSR matrix: indptr, indices and weights
    cannot: tuple[np.ndarray, np.ndarray, np.ndarray] = ()  # type: ignore[assignment]

    def joint_moves(self, arrays: _Arrays, repair: bool = False) -> int:
        """Swap chains of cannot-linked rows; with ``repair`` only if fewer links are violated."""
        within = sums_within(arrays.caches, arrays.labels)
        return int(swap_chains(*arrays.shared, within, self.size_prior, self.cannot, repair))


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
    """Return the label of most of the weight in every group; those of known rows are kept."""
    votes = np.zeros((links.of_row.max() + 1, problem.k))
    np.add.at(votes, (links.of_row, labels), problem.similarity.weights)
    known = problem.known >= 0
    votes[links.of_row[known], problem.known[known]] = np.inf
    return votes.argmax(axis=1).astype(np.int32)


def repaired(small: GroupedProblem, labels: np.ndarray) -> np.ndarray:
    """Return labels of the groups, changed as little as needed to respect the cannot-links."""
    arrays = _Arrays(small, labels)
    while small.joint_moves(arrays, repair=True):
        pass
    return arrays.labels


def predicts_more(
    problem: LabelProblem, links: Groups, labels: np.ndarray, others: np.ndarray
) -> bool:
    """Return whether classifiers of some labels predict significantly more links than of others.

    Predictions are leave-one-out, labels those of groups.
    """
    pairs, right = links.links(), []
    for of_group in (labels, others):
        of_row = of_group[links.of_row]
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
    result of a wider search replaces them only if it predicts significantly more links.

    Parameters
    ----------
    problem : LabelProblem
        With links; otherwise ``found`` is returned.
    found : Found
        Result of the search without links.
    rivals : list of ndarray, optional
        Labels that the result must not be worse than, after they are made to respect the links.
    keep : bool
        Whether the labels found are not those of the largest J_p: they are not improved then.
    """
    links = problem.links
    if links is None or problem.k == 1:
        return found, {}, False
    small = grouped(problem, links)
    compared: dict[str, dict[str, float]] = {}
    labels = [found.labels, *(other.labels for other in found.others[:OTHERS])]
    starts = [(repaired(small, voted(problem, links, start)), SHAKES) for start in labels]
    if keep:
        value = small.value(starts[0][0], small.similarity.caches(starts[0][0], small.k))
        best = Found(starts[0][0], value, [*found.history, small.paper_value(value)])
    else:
        best = search_labels(small, starts[:1], replace(settings, n_kicks=0))
    other = search_labels(small, starts, settings)
    left = predicts_more(problem, links, other.labels, best.labels)
    best = other if left else best
    others = [replace(one, labels=one.labels[links.of_row]) for one in other.others]
    if rivals:
        held = [repaired(small, voted(problem, links, rival)) for rival in rivals]
        sized = settings.sized or (keep and not left)
        best, compared = promised(small, best, held, replace(settings, sized=sized))
    return replace(best, labels=best.labels[links.of_row], others=others), compared, left
