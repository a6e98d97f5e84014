"""The objective with links on given rows: losses, subgradients and their linearisation.

Everything works on scores S = Z W' + b of the rows (n, k). Losses that are a difference of convex
functions are linearised at some scores: the labels y of free rows and the desired clusters z of
links are fixed there, and what is left is convex.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from .._core.links import Links
from .._core.rows import Rows, scores, weighted_sum
from .._data.source import each_block
from ._numba import class_losses, desired_clusters, free_losses, hu_losses, link_losses


@dataclass(frozen=True)
class Linearisation:
    """Clusters fixed at a point: of free rows (11), and of links (15), (16).

    Attributes
    ----------
    labels : ndarray of shape (n,)
    desired : ndarray of shape (L, 2)
    """

    labels: np.ndarray
    desired: np.ndarray


@dataclass(frozen=True)
class PairProblem:
    """``alpha/2 |W|^2 + sum_j v_j eta_j + sum_i u_i sum_z xi_iz``, equation (6).

    Attributes
    ----------
    rows : Rows
    k : int
    alpha : float
    links : Links
        Between these rows; their weights v are those of the objective.
    known_rows, known : ndarray
        Rows whose class is known, and the class.
    known_weights : ndarray
    free_weights : ndarray of shape (n,)
        u above: the unlabelled weight of each row over the number of clusters.
    offset : ndarray of shape (k,)
        b above.
    hu : bool
        Whether links have the losses of Hu et al., equation (2).
    """

    rows: Rows
    k: int
    alpha: float
    links: Links
    known_rows: np.ndarray
    known: np.ndarray
    known_weights: np.ndarray
    free_weights: np.ndarray
    offset: np.ndarray
    hu: bool = False

    @property
    def constant(self) -> float:
        """Lower bound of the risk: the terms z = y of free rows, which are always 1."""
        return float(self.free_weights.sum())

    def scores(self, coef: np.ndarray) -> np.ndarray:
        """``Z W' + b``, one half of a pass."""
        return scores(self.rows, coef) + self.offset

    def gather(self, codes: np.ndarray) -> np.ndarray:
        """``codes' Z``, the other half: subgradient of the risk in W from that in the scores."""
        return weighted_sum(self.rows, codes)

    def linearise(self, S: np.ndarray) -> Linearisation:
        """Fix labels and desired clusters at the scores: (11), (15), (16)."""
        desired = np.zeros((len(self.links), 2), np.int64)
        if not self.hu:
            links = self.links
            desired_clusters(S, links.first, links.second, links.same, desired)
        return Linearisation(S.argmax(axis=1), desired)

    def risk(self, S: np.ndarray, at: Linearisation) -> tuple[float, np.ndarray]:
        """Losses linearised ``at`` a point, and their subgradient in the scores: (21), (25)."""
        codes = np.zeros(S.shape)
        links, total = self.links, 0.0
        if self.constant > 0.0:
            total += self._free_risk(S, at.labels, codes)
        ends = (links.first, links.second, links.same, links.weights)
        if self.hu:
            total += hu_losses(S, *ends, codes)
        else:
            total += link_losses(S, *ends, at.desired, codes)
        total += class_losses(S, self.known_rows, self.known, self.known_weights, codes)
        return total, codes

    def _free_risk(self, S, labels, codes) -> float:
        def block(start, stop):
            part = slice(start, stop)
            return free_losses(S[part], labels[part], self.free_weights[part], codes[part])

        return float(sum(each_block(len(S), block, self.rows.n_jobs)))

    def objective(self, coef: np.ndarray, S: np.ndarray) -> float:
        """Equation (6) itself: the risk linearised where it is evaluated."""
        return self.penalty(coef) + self.risk(S, self.linearise(S))[0]

    def penalty(self, coef: np.ndarray) -> float:
        """``alpha/2 |W|^2``."""
        return 0.5 * self.alpha * float((coef * coef).sum())

    def at_zero(self) -> float:
        """Objective of W = 0 without intercepts: every loss is 1, Hu's links cost nothing."""
        links = 0.0 if self.hu else float(self.links.weights.sum())
        return links + float(self.known_weights.sum()) + self.k * self.constant

    @property
    def supervised_rows(self) -> np.ndarray:
        """Rows that occur in links or have a known class."""
        return np.union1d(self.links.rows(), self.known_rows).astype(np.int64)

    def part(self, chosen: np.ndarray, free: bool = True) -> PairProblem:
        """The problem on some rows, in memory; their unlabelled weights keep their sum, or go."""
        places = np.full(self.rows.shape[0], -1)
        places[chosen] = np.arange(len(chosen))
        rows = self.rows.take(chosen)
        weights = self.free_weights[chosen] if free else np.zeros(len(chosen))
        if weights.sum() > 0:
            weights = weights * (self.constant / weights.sum())
        kept = places[self.known_rows] >= 0
        return replace(
            self,
            rows=Rows(rows.values(), n_jobs=rows.n_jobs),
            links=self.links.mapped(places),
            known_rows=places[self.known_rows][kept],
            known=self.known[kept],
            known_weights=self.known_weights[kept],
            free_weights=weights,
        )

    @property
    def supervision(self) -> float:
        """Weight of all links and known classes."""
        return float(self.links.weights.sum() + self.known_weights.sum())

    def supervised_by(self, links: np.ndarray, known: np.ndarray) -> PairProblem:
        """Return the problem with some of the links and known classes and the same total weight."""
        chosen = replace(
            self,
            links=self.links.take(links),
            known_rows=self.known_rows[known],
            known=self.known[known],
            known_weights=self.known_weights[known],
        )
        factor = self.supervision / max(chosen.supervision, 1e-300)
        weights = chosen.links.weights * factor
        return replace(
            chosen,
            links=replace(chosen.links, weights=weights),
            known_weights=chosen.known_weights * factor,
        )

    def kept_share(self, S: np.ndarray) -> float:
        """Return the weighted fraction of links and known classes that the scores satisfy."""
        labels = S.argmax(axis=1)
        kept = self.links.weights @ self.links.satisfied(labels)
        kept += self.known_weights @ (labels[self.known_rows] == self.known)
        return float(kept) / max(self.supervision, 1e-300)


def pair_problem(
    rows: Rows,
    k: int,
    alpha: float,
    links: Links,
    known: np.ndarray,
    free: np.ndarray,
    *,
    known_weights: np.ndarray,
    unlabeled_weight: float = 1.0,
    hu: bool = False,
) -> PairProblem:
    """Weigh the terms as in equation (6), or (2) for the losses of Hu et al.

    Parameters
    ----------
    links : Links
        With the user's weights; they and those of the known rows are brought to sum 1 (the
        paper's 1/L). For Hu et al., each kind of link by itself.
    known : ndarray of shape (n,)
        Classes, -1 where unknown.
    free : ndarray of shape (n,)
        Weight of each row among the unlabelled, brought to sum ``unlabeled_weight / k``.
    """
    rows_known = np.flatnonzero(known >= 0)
    class_weights = known_weights[rows_known]
    if hu:
        kinds = [max(links.weights[links.same == kind].sum(), 1e-300) for kind in (False, True)]
        weights = links.weights / np.where(links.same, kinds[1], kinds[0])
        class_weights = class_weights / max(class_weights.sum(), 1e-300)
    else:
        total = max(links.weights.sum() + class_weights.sum(), 1e-300)
        weights, class_weights = links.weights / total, class_weights / total
    share = unlabeled_weight / (k * max(free.sum(), 1e-300))
    return PairProblem(
        rows,
        k,
        alpha,
        replace(links, weights=weights),
        rows_known,
        known[rows_known],
        class_weights,
        free * share,
        np.zeros(k),
        hu,
    )
