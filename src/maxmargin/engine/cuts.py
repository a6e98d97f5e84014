r"""The cut pool: what is known of a hinge loss, and the best model for it.

A convex loss R(W) is bounded from below by cuts, R(W) >= gain_c - <A_c, W>. The pool keeps their
vectors A_c and products, solves

.. math::
    \min_W\; \frac{\alpha}{2} |W|^2 + \max(0, \max_c\, g_c - <A_c, W>)

through the tiny QP of ``engine/qp.py``, and forgets cuts that have not been of use for a while. The
value is a lower bound on ``alpha/2 |W|^2 + R(W)``; evaluated at any W, the rest is the gap.

:class:`LabelledCuts` holds the cuts of a margin problem with labels y. A constraint stays a valid
cut under any labels, so it is kept, and only rows that change cluster are touched:

    A_c[p] = sum_{c_i != 0, y_i = p} v_i z_i - sum_{c_i = p} v_i z_i
    g_c    = sum_{c_i != 0, c_i != y_i} v_i

with the rows' shares v of the total weight.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..kernels.cuts import csr_cut_pass, csr_move_pass, cut_rule, dense_cut_pass, moved_rule
from .qp import QpSolution, ScoreBalance, solve_qp
from .rows import TILE, Rows, sweep, sweep_stored

IDLE = 10  # solutions without use after which a cut is dropped


class CutPool:
    """Cuts with their products, in blocks of columns.

    Parameters
    ----------
    width : int
        Length of the cuts' vectors.
    blocks : sequence of slices or index arrays, optional
        Columns whose products are kept apart, such as those of one kernel; all by default.

    Examples
    --------
    >>> pool = CutPool(2)
    >>> pool.add(np.array([2.0, 0.0]), 1.0)
    >>> pool.solve(alpha=1.0).value, pool.coef(alpha=1.0)
    (0.125, array([0.5, 0. ]))
    """

    def __init__(self, width: int, blocks: tuple | None = None):
        self.blocks: tuple = (slice(0, width),) if blocks is None else tuple(blocks)
        self.vectors = np.empty((0, width))
        self.gains = np.empty(0)
        self.grams = np.empty((len(self.blocks), 0, 0))
        self.multipliers = np.empty(0)
        self.block_weights = np.ones(len(self.blocks))
        self.idle = np.empty(0, np.int64)

    def __len__(self) -> int:
        return len(self.gains)

    def add(self, vector: np.ndarray, gain: float) -> None:
        """Append a cut; its products with the others are one row of the Gram matrices."""
        m = len(self)
        self.vectors = np.concatenate([self.vectors, vector[None, :]])
        self.gains = np.append(self.gains, gain)
        self.multipliers = np.append(self.multipliers, 0.0)
        self.idle = np.append(self.idle, 0)
        grown = np.zeros((len(self.blocks), m + 1, m + 1))
        for gram, old, block in zip(grown, self.grams, self.blocks):
            gram[:m, :m] = old
            gram[m] = gram[:, m] = self.vectors[:, block] @ vector[block]
        self.grams = grown

    def shift(self, change: np.ndarray, gains: np.ndarray) -> None:
        """Add to every cut's vector and gain."""
        self.vectors = self.vectors + change
        self.gains = self.gains + gains
        self.grams = np.stack([self.vectors[:, b] @ self.vectors[:, b].T for b in self.blocks])

    def solve(self, alpha: float, balance: ScoreBalance | None = None) -> QpSolution:
        """Best multipliers for these cuts; ``value`` is a lower bound on the whole problem."""
        gram = np.tensordot(self.block_weights, self.grams, 1) / alpha
        solution = solve_qp(gram, self.gains, start=self.multipliers, balance=balance)
        self.keep(solution.multipliers)
        return solution

    def keep(self, multipliers: np.ndarray) -> None:
        """Take over the multipliers of a solution; count for how long each cut was of no use."""
        self.multipliers = multipliers
        self.idle = np.where(multipliers > 0, 0, self.idle + 1)

    def coef(self, alpha: float) -> np.ndarray:
        """The best W for these cuts (without score balance)."""
        return self.multipliers @ self.vectors / alpha

    def prune(self, idle: int = IDLE) -> np.ndarray:
        """Drop cuts that were of no use in the last ``idle`` solutions; return which were kept."""
        keep = self.idle < idle
        if not keep.all():
            self.vectors, self.gains = self.vectors[keep], self.gains[keep]
            self.multipliers, self.idle = self.multipliers[keep], self.idle[keep]
            self.grams = self.grams[:, keep][:, :, keep]
        return keep


@dataclass(frozen=True)
class Look:
    """What one pass over the rows at a given W found.

    Attributes
    ----------
    loss : float
        Mean hinge loss for the labels of the pass.
    sizes : ndarray of shape (k,)
        Weight of every cluster.
    vector : ndarray of shape (k, r)
        The most violated cut.
    gain : float
    shares : ndarray of shape (k,)
        Sums of the cut's codes: its product with a constant feature.
    labels, codes : ndarray of shape (n,)
    """

    loss: float
    sizes: np.ndarray
    vector: np.ndarray
    gain: float
    shares: np.ndarray
    labels: np.ndarray
    codes: np.ndarray


class LabelledCuts:
    """Labels, and the cuts of the margin problem that they pose.

    Parameters
    ----------
    rows : Rows
    weights : ndarray of shape (n,)
    known : ndarray of shape (n,)
        Known cluster of each row, -1 where unknown.
    n_clusters : int
    blocks : tuple of slices, optional
        Features whose products are kept apart, such as those of one kernel.

    Attributes
    ----------
    labels : ndarray of shape (n,)
    pool : CutPool
    codes : list of ndarray of shape (n,)
    origins : list
        Model at which each cut was found.
    shares : ndarray of shape (m, k)
        Sums of every cut's codes.
    n_passes : int
        Passes over the rows so far.
    """

    def __init__(
        self,
        rows: Rows,
        weights: np.ndarray,
        known: np.ndarray,
        n_clusters: int,
        blocks: tuple[slice, ...] | None = None,
    ):
        self.rows, self.weights, self.k, self.blocks = rows, weights, n_clusters, blocks
        self.total = float(weights.sum())
        self.dtype = np.dtype(np.int8 if n_clusters < 127 else np.int32)
        self.known = known.astype(self.dtype, copy=False)
        self.labels = np.zeros(rows.shape[0], self.dtype)
        self.pool = CutPool(n_clusters * rows.shape[1], self._pool_blocks())
        self.codes: list[np.ndarray] = []
        self.origins: list = []
        self.shares = np.zeros((0, n_clusters))
        self.n_passes = 0

    def _pool_blocks(self):
        """Columns of the flattened (k, r) vectors that belong to each block of features."""
        if self.blocks is None:
            return None
        places = np.arange(self.k * self.rows.shape[1]).reshape(self.k, -1)
        return tuple(places[:, block].ravel() for block in self.blocks)

    def fresh(self) -> LabelledCuts:
        """The same rows without cuts."""
        return LabelledCuts(self.rows, self.weights, self.known, self.k, self.blocks)

    def taken(self, few: np.ndarray) -> LabelledCuts:
        """Some of the rows, in memory, without cuts."""
        chosen = self.rows.take(few), self.weights[few], self.known[few]
        return LabelledCuts(*chosen, self.k, self.blocks)

    def look(
        self,
        coef: np.ndarray,
        intercept: np.ndarray,
        prices: np.ndarray,
        fixed: np.ndarray | None = None,
    ) -> Look:
        """One pass at W: labels (or ``fixed`` ones), loss and the most violated cut."""
        fixed = self.known if fixed is None else fixed
        n, k = self.rows.shape[0], self.k
        labels, codes = np.empty(n, self.dtype), np.empty(n, self.dtype)
        levels = intercept.astype(self.rows.dtype), prices.astype(self.rows.dtype)

        def rule(scores, where):
            matrix, sums = np.empty(scores.shape, scores.dtype), np.zeros(2 + 2 * k)
            given = self.weights[where], fixed[where], *levels
            cut_rule(scores, *given, labels[where], codes[where], matrix, sums)
            return matrix, sums

        def work(columns, shift, where):
            X, width, sums = self.rows.data, self.rows.shape[1], np.zeros(2 + 2 * k)
            given = self.weights[where], fixed[where], *levels
            found = labels[where], codes[where]
            if self.rows.is_sparse:
                matrix, flat = (X.data, X.indices, X.indptr), np.zeros(width * k, X.dtype)
                csr_cut_pass(matrix, where.start, columns.ravel(), shift, given, *found, flat, sums)
                gathered = flat.reshape(width, k).T.astype(np.float64)
            else:
                gathered = np.zeros((k, width))
                stored = np.ascontiguousarray(X[where])
                dense_cut_pass(stored, columns, shift, given, *found, TILE, gathered, sums)
            return gathered, sums[2 + k :], sums

        if self.rows.is_near:
            vector, sums = sweep_stored(self.rows, coef, work)
        else:
            vector, sums = sweep(self.rows, coef, rule)
        self.n_passes += 1
        mean = sums / self.total
        return Look(
            loss=float(mean[0]),
            sizes=sums[2 : 2 + k],
            vector=vector / self.total,
            gain=float(mean[1]),
            shares=mean[2 + k :],
            labels=labels,
            codes=codes,
        )

    def adopt(self, look: Look) -> None:
        """Take over the labels of a pass, and correct the cuts on the rows that moved."""
        if self.codes:
            moved = np.flatnonzero(look.labels != self.labels)
            if moved.size:
                self._move(moved, look.labels)
        self.labels = look.labels

    def _move(self, moved: np.ndarray, new: np.ndarray) -> None:
        """Correct the cuts on the rows that change cluster, and on no others."""
        cuts, k = len(self.codes), self.k
        chosen = self.rows.take(moved)
        codes = np.stack([c[moved] for c in self.codes])
        old, new, weights = self.labels[moved], new[moved], self.weights[moved]

        def rule(_, where):
            matrix = np.empty((where.stop - where.start, cuts * k), self.rows.dtype)
            sums = np.empty(cuts)
            part = np.ascontiguousarray(codes[:, where])
            moved_rule(weights[where], old[where], new[where], part, matrix, sums)
            return matrix, np.concatenate([sums, matrix.sum(axis=0, dtype=np.float64)])

        def work(_columns, _shift, where):
            X, gathered = chosen.data, np.zeros((cuts, k, chosen.shape[1]))
            code_sums, sums = np.zeros((cuts, k)), np.zeros(cuts)
            given = weights[where], old[where], new[where], np.ascontiguousarray(codes[:, where])
            matrix = X.data, X.indices, X.indptr
            csr_move_pass(matrix, where.start, *given, gathered, code_sums, sums)
            flat = code_sums.ravel()
            return gathered.reshape(cuts * k, -1), flat, np.concatenate([sums, flat])

        if chosen.is_sparse:
            gathered, sums = sweep_stored(chosen, np.zeros((1, chosen.shape[1])), work)
        else:
            gathered, sums = sweep(chosen, None, rule)
        change = gathered.reshape(cuts, -1) / self.total
        self.pool.shift(change, sums[:cuts] / self.total)
        self.shares = self.shares + sums[cuts:].reshape(cuts, k) / self.total

    def add(self, look: Look, origin) -> None:
        """Keep the cut of a pass whose labels were adopted, and the model it was found at."""
        self.pool.add(look.vector.ravel(), look.gain)
        self.codes.append(look.codes)
        self.origins.append(origin)
        self.shares = np.concatenate([self.shares, look.shares[None, :]])

    def hints(self) -> list:
        """Models at which the cuts in use were found, the most used first."""
        use = self.pool.multipliers
        return [self.origins[j] for j in np.argsort(-use, kind="stable") if use[j] > 0]

    def prune(self) -> None:
        """Forget idle cuts."""
        keep = self.pool.prune()
        self.codes = [c for c, kept in zip(self.codes, keep) if kept]
        self.origins = [o for o, kept in zip(self.origins, keep) if kept]
        self.shares = self.shares[keep]
