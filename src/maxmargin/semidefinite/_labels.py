r"""From a solved relaxation to labels: descent in the very objective that is certified.

A partition into k clusters has the relation matrix M with 1 between rows of the same cluster and
-1 / (k - 1) between others. It is positive semi-definite with a unit diagonal, so that every
lower bound of the relaxation is one of its objective (z_h: indicator of cluster h, times u)

.. math::
    \langle A, M \rangle = \frac{k \sum_h z_h'A z_h - u'Au}{k - 1}

which is y'Ay for two clusters. The objective of the full form is that of an SVM without intercept,
for two clusters only.

Both have a linear model that attains them: the ridge regression on the labels, and the SVM. Labels
that no single move improves (and no exchange of two rows, if the size floor forbids moves) are
labels that this model predicts, up to an intercept.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from .._core.size_floor import cluster_prices
from ._relation import margin_solution

Array = NDArray[np.float64]
Labels = NDArray[np.int64]

LEAST_GAIN = 1e-10  # relative to the objective
MOST_SWAPPED = 30  # rows of each side that are tried for an exchange
TRIED = 12  # moves for which an SVM is solved before a descent ends


@dataclass(frozen=True)
class Objective:
    """The certified objective of labels, and the size floor."""

    matrix: Array  # (n, n): A in units of the square roots of the shares, or the kernel (full form)
    shares: Array  # (n,): weights that add up to one
    k: int
    least: float  # least share of a cluster
    fixed: NDArray[np.bool_]  # (n,): rows with known labels
    alpha: float | None = None  # of the SVM of the full form; None in the generalized form

    def value(self, labels: Labels) -> float:
        """Return the objective of a partition."""
        if self.alpha is not None:
            signs = 2.0 * labels - 1.0
            return margin_solution(self.matrix, signs, self.shares, self.alpha)[0]
        u = np.sqrt(self.shares)
        members = (labels[:, None] == np.arange(self.k)) * u[:, None]
        within = float((members * (self.matrix @ members)).sum())
        return (self.k * within - float(u @ self.matrix @ u)) / (self.k - 1)

    def descended(self, labels: Labels) -> tuple[float, Labels]:
        """Return labels that no single move or exchange improves, and their objective."""
        if self.alpha is not None:
            return self._descended_margin(labels)
        labels = labels.copy()
        moves = _Moves(self, labels)
        while moves.move() or moves.swap():
            pass
        return self.value(labels), labels

    def _descended_margin(self, labels: Labels) -> tuple[float, Labels]:
        """Try the moves that cost least at the present model, each with a new model."""
        assert self.alpha is not None
        value, theta = margin_solution(self.matrix, 2.0 * labels - 1.0, self.shares, self.alpha)
        better = True
        while better:
            better = False
            signs = np.where(labels > 0, 1.0, -1.0)
            scores = self.matrix @ (signs * self.shares * theta) / self.alpha
            for rows in self._margin_moves(signs, scores):
                trial = labels.copy()
                trial[rows] = 1 - trial[rows]
                found = margin_solution(self.matrix, 2.0 * trial - 1.0, self.shares, self.alpha)
                if found[0] < value * (1.0 - LEAST_GAIN):
                    (value, theta), labels, better = found, trial, True
                    break
        return value, labels

    def _margin_moves(self, signs: Array, scores: Array) -> list[list[int]]:
        """Return moves and exchanges that keep the floor, the cheapest first."""
        margins = signs * scores
        cost = self.shares * (np.maximum(0, 1 + margins) - np.maximum(0, 1 - margins))
        cost[self.fixed] = np.inf
        sizes = np.array([self.shares[signs < 0].sum(), self.shares[signs > 0].sum()])
        room = sizes[(signs > 0).astype(int)] - self.shares >= self.least - 1e-12
        order = np.argsort(cost, kind="stable")
        moves = [[int(i)] for i in order[room[order]][:TRIED] if np.isfinite(cost[i])]
        if room.all():
            return moves
        below, above = ([i for i in order if signs[i] == side][:TRIED] for side in (-1, 1))
        pairs = [(cost[i] + cost[j], int(i), int(j)) for i in below for j in above]
        for total, i, j in sorted(pairs)[:TRIED]:
            shift = self.shares[j] - self.shares[i]
            kept = min(sizes[0] + shift, sizes[1] - shift) >= self.least - 1e-12
            if kept and np.isfinite(total):
                moves.append([i, j])
        return moves


class _Moves:
    """Labels and the products ``T_h = A z_h``, changed by one row at a time."""

    def __init__(self, objective: Objective, labels: Labels):
        u = np.sqrt(objective.shares)
        self.given, self.labels, self.u = objective, labels, u
        self.A: Array = objective.matrix * u[:, None] * u[None, :]
        members = (labels[:, None] == np.arange(objective.k)).astype(np.float64)
        self.T: Array = self.A @ members
        self.sizes: Array = objective.shares @ members
        self.small = LEAST_GAIN * float(np.abs(self.T).max())

    def costs(self) -> Array:
        """Return the rise of ``sum_h z_h'A z_h`` for every move; infinite for known rows."""
        rows = np.arange(len(self.labels))
        cost = 2.0 * (self.T - self.T[rows, self.labels][:, None] + np.diag(self.A)[:, None])
        cost[rows, self.labels] = np.inf
        cost[self.given.fixed] = np.inf
        return cost

    def to(self, row: int, cluster: int) -> None:
        """Move a row."""
        before = self.labels[row]
        self.T[:, before] -= self.A[row]
        self.T[:, cluster] += self.A[row]
        self.sizes[before] -= self.given.shares[row]
        self.sizes[cluster] += self.given.shares[row]
        self.labels[row] = cluster

    def move(self) -> bool:
        """Make the best single move; return whether there was one."""
        cost = self.costs()
        left = self.sizes[self.labels] - self.given.shares
        # No cluster is emptied, even without a floor.
        cost[(left < self.given.least - 1e-12) | (left <= 1e-12)] = np.inf
        row, cluster = np.unravel_index(int(cost.argmin()), cost.shape)
        if not cost[row, cluster] < -self.small:
            return False
        self.to(int(row), int(cluster))
        return True

    def swap(self) -> bool:
        """Exchange two rows of clusters of which one is at the floor; return whether it paid."""
        k, shares, least = self.given.k, self.given.shares, self.given.least - 1e-12
        cost, best, pair = self.costs(), -self.small, None
        for a in range(k):
            for b in range(a + 1, k):
                i, j = np.flatnonzero(self.labels == a), np.flatnonzero(self.labels == b)
                if not len(i) or not len(j):
                    continue
                loss = min(self.sizes[a] - shares[i].max(), self.sizes[b] - shares[j].max())
                if loss >= least:
                    continue  # single moves between them are free
                i = i[np.argsort(cost[i, b], kind="stable")[:MOST_SWAPPED]]
                j = j[np.argsort(cost[j, a], kind="stable")[:MOST_SWAPPED]]
                # Both rows change sides, so that they meet as little as before.
                total = cost[i, b][:, None] + cost[j, a] - 4.0 * self.A[np.ix_(i, j)]
                shift = shares[j] - shares[i][:, None]
                total[np.minimum(self.sizes[a] + shift, self.sizes[b] - shift) < least] = np.inf
                at = np.unravel_index(int(total.argmin()), total.shape)
                if total[at] < best:
                    best, pair = float(total[at]), (int(i[at[0]]), int(j[at[1]]))
        if pair is None:
            return False
        first, second = self.labels[pair[0]], self.labels[pair[1]]
        self.to(pair[0], int(second))
        self.to(pair[1], int(first))
        return True


def linear_model(objective: Objective, Z: Array, labels: Labels, rho: float) -> tuple[Array, Array]:
    """Return coefficients and intercepts (one row for two clusters) that predict the labels.

    They are those of the objective's own model, with the intercepts moved where needed.
    """
    shares, k = objective.shares, objective.k
    targets = (k * (labels[:, None] == np.arange(k)) - 1.0) / (k - 1)
    if objective.alpha is not None:
        theta = margin_solution(objective.matrix, targets[:, 1], shares, objective.alpha)[1]
        half = Z.T @ (targets[:, 1] * shares * theta) / objective.alpha
        coef, intercept = np.stack([-half, half]), np.zeros(2)
    else:
        scatter = (Z * shares[:, None]).T @ Z
        scatter[np.diag_indices_from(scatter)] += rho
        moment = Z.T @ (shares[:, None] * targets)
        coef = linalg.solve(scatter, moment, assume_a="pos").T
        intercept = shares @ targets
    scores = Z @ coef.T + intercept
    free = ~objective.fixed
    if free.any():
        intercept = intercept + cluster_prices(scores[free], labels[free])
    if k == 2:
        return coef[1:], 0.5 * (intercept[1:] - intercept[:1])
    return coef, intercept
