r"""Labels and their cuts, and the pass over the rows that finds the most violated one.

For labels y the mean hinge loss R(W) is convex, and cuts bound it from below,
R(W) >= g_c - <A_c, W>; ``_core.qp.CutPool`` keeps A_c and g_c and finds the best W for them. A
constraint stays a valid cut under any labels, so it is kept, and only rows that change cluster are
touched:

    A_c[p] = sum_{c_i != 0, y_i = p} v_i z_i - sum_{c_i = p} v_i z_i
    g_c    = sum_{c_i != 0, c_i != y_i} v_i

with the rows' shares v of the total weight and the code c_i of row i in the constraint: 0 if its
loss was zero, else the cluster r* of equation (14), stored as 1 + r*. The first sum of A_c is the
subgradient (18), the second the linear part of (11): constraint (20) is xi >= g_c - <A_c, W>.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .._core.lapack import eigh
from .._core.qp import CutPool
from .._core.rows import Block, Rows
from .._data.source import TILE, MemoryRows, all_equal, total_of
from ._device import device_moves, device_pass
from ._numba import csr_cut_pass, csr_move_pass, cut_rule, dense_cut_pass, moved_rule

WIDE, NARROW = 256, 128  # columns from which on starts are compared on so many principal axes

Model = tuple[np.ndarray, np.ndarray]  # coefficients (k, r) and intercepts (k,)


@dataclass(frozen=True)
class Evaluation:
    """What one pass over the rows at a given W found.

    Attributes
    ----------
    model : tuple of ndarray
        W: coefficients (k, r) and intercepts (k,).
    size_prices, floor_prices : ndarray of shape (k,)
        Prices for even sizes and for the size floor: added to the scores to choose labels.
    loss : float
        Mean hinge loss for the labels of the pass.
    sizes : ndarray of shape (k,)
        Weight of every cluster.
    vector : ndarray of shape (k, r)
        The most violated cut.
    gain : float
    shares : ndarray of shape (k,)
        The cut's product with a constant feature of value 1, for the intercepts.
    labels, codes : column of n entries
        Stored with the rows.
    moves : tuple of ndarray or None
        What the rows that change cluster add to the vectors (m, k * r), gains (m,) and shares
        (m, k) of the cuts so far; None if none does, or labels are fixed.
    """

    model: Model
    size_prices: np.ndarray
    floor_prices: np.ndarray
    loss: float
    sizes: np.ndarray
    vector: np.ndarray
    gain: float
    shares: np.ndarray
    labels: Any
    codes: Any
    moves: tuple[np.ndarray, np.ndarray, np.ndarray] | None


class LabelledCuts:
    """Labels, and the cuts of the margin problem that they pose.

    Parameters
    ----------
    rows : Rows
    weights : ndarray of shape (n,)
    known : ndarray of shape (n,)
        Known cluster of each row, -1 if unknown.
    n_clusters : int
    blocks : tuple of slices, optional
        Features whose products are kept apart, such as those of one kernel.
    constant : float
        Value of a constant feature behind the others, whose coefficients are the intercepts; 0 for
        none.

    Attributes
    ----------
    labels : column of n entries
    pool : CutPool
    codes : list of columns of n entries
    origins : list
        Model at which each cut was found.
    shares : ndarray of shape (m, k)
        ``Evaluation.shares`` of every cut.
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
        constant: float = 0.0,
    ):
        self.rows, self.weights, self.k, self.blocks = rows, weights, n_clusters, blocks
        self.constant = constant
        self.total = total_of(weights)
        self.dtype = np.dtype(np.int8 if n_clusters < 127 else np.int32)
        unknown = np.broadcast_to(self.dtype.type(-1), len(known))
        self.known = unknown if all_equal(known) and known[0] < 0 else known.astype(self.dtype)
        self.labels: Any = np.broadcast_to(self.dtype.type(0), len(known))
        # Flattened (k, r) vectors; the coefficients of the constant feature come last.
        places = np.arange(n_clusters * rows.shape[1]).reshape(n_clusters, -1)
        width = places.size + n_clusters * (constant > 0)
        columns = [places[:, block].ravel() for block in blocks or ()]
        if columns and constant:
            columns.append(np.arange(places.size, width))
        self.pool = CutPool(width, tuple(columns) or None)
        self.codes: list[Any] = []
        self.origins: list[Model] = []
        self.shares = np.zeros((0, n_clusters))
        self.n_passes = 0

    def fresh(self, few: np.ndarray | None = None) -> LabelledCuts:
        """Return the rows, or some of them in memory, without cuts."""
        given = self.rows, self.weights, self.known
        if few is not None:
            given = self.rows.take(few), self.weights[few], self.known[few]
        return LabelledCuts(*given, self.k, self.blocks, self.constant)

    def split(self, flat: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the coefficients (k, r) and intercepts (k,) of a vector of the pool."""
        end = self.k * self.rows.shape[1]
        intercept = self.constant * flat[end:] if self.constant else np.zeros(self.k)
        return flat[:end].reshape(self.k, -1), intercept

    def host_labels(self) -> np.ndarray:
        """Return the labels, brought to the host."""
        return np.concatenate(list(self.rows.run(column_block, (), (self.labels,))[1]))

    def evaluate(
        self,
        coef: np.ndarray,
        intercept: np.ndarray,
        size_prices: np.ndarray | None = None,
        floor_prices: np.ndarray | None = None,
        fixed: Any = None,
    ) -> Evaluation:
        """One pass at W: labels by scores and prices (or ``fixed``), loss, the most violated cut.

        If labels are free, the same pass finds how the cuts change on the rows that change cluster:
        rows in a file are read once.
        """
        rows, k, cuts = self.rows, self.k, len(self.codes)
        size_prices = np.zeros(k) if size_prices is None else size_prices
        floor_prices = np.zeros(k) if floor_prices is None else floor_prices
        prices = (size_prices + floor_prices).astype(rows.dtype)
        columns = [self.weights, self.known if fixed is None else fixed]
        if fixed is None and self.codes:
            columns += [self.labels, *self.codes]
        shared = coef, intercept.astype(rows.dtype), prices, self.dtype
        made, parts = rows.run(cut_block, shared, tuple(columns), (self.dtype, self.dtype))
        found: list[np.ndarray] = []
        moved: np.ndarray | None = None
        sums, gains = np.zeros(cuts * k), np.zeros(cuts)
        for *totals, moves in parts:
            found = [a + b for a, b in zip(found, totals)] if found else totals
            if moves is not None:
                moved = np.zeros((cuts * k, rows.shape[1])) if moved is None else moved
                touched, vectors, more, gained = moves
                moved[:, slice(None) if touched is None else touched] += vectors
                sums += more
                gains += gained
        self.n_passes += 1
        change = None
        if moved is not None:
            if rows.is_sparse:  # they were added up as they are stored
                offset = np.zeros(rows.shape[1]) if rows.offset is None else rows.offset
                moved = (moved - np.outer(sums, offset)) * rows.scale
            changes = moved.reshape(cuts, -1), gains, sums.reshape(cuts, k)
            change = changes[0] / self.total, changes[1] / self.total, changes[2] / self.total
        vector, mean = found[0] / self.total, found[1] / self.total
        return Evaluation(
            model=(coef, intercept),
            size_prices=size_prices,
            floor_prices=floor_prices,
            loss=float(mean[0]),
            sizes=found[1][2 : 2 + k],
            vector=vector,
            gain=float(mean[1]),
            shares=mean[2 + k :],
            labels=made[0],
            codes=made[1],
            moves=change,
        )

    def adopt(self, found: Evaluation) -> None:
        """Take over the labels of a pass, and correct the cuts on the rows that moved."""
        if found.moves is not None:
            vectors, gains, shares = found.moves
            moved = [vectors, self.constant * shares]
            self.pool.shift(np.hstack(moved[: 2 if self.constant else 1]), gains)
            self.shares = self.shares + shares
        self.labels = found.labels

    def add(self, found: Evaluation) -> None:
        """Keep the cut of a pass whose labels were adopted, and the model it was found at."""
        vector = [found.vector.ravel(), self.constant * found.shares]
        self.pool.add(np.concatenate(vector[: 2 if self.constant else 1]), found.gain)
        self.codes.append(found.codes)
        self.origins.append(found.model)
        self.shares = np.concatenate([self.shares, found.shares[None, :]])

    def prune(self) -> None:
        """Forget idle cuts."""
        keep = self.pool.prune()
        self.codes = [c for c, kept in zip(self.codes, keep) if kept]
        self.origins = [o for o, kept in zip(self.origins, keep) if kept]
        self.shares = self.shares[keep]


def narrowed(cuts: LabelledCuts) -> tuple[LabelledCuts, np.ndarray | None]:
    """Return rows of many columns on their leading principal axes, and these axes (r, few)."""
    rows = cuts.rows
    if rows.is_sparse or cuts.blocks is not None or rows.shape[1] <= WIDE:
        return cuts, None
    Z = rows.values()
    axes = eigh(Z.T @ Z)[1] if Z.shape[0] >= Z.shape[1] else Z.T @ eigh(Z @ Z.T)[1]
    axes = axes[:, ::-1][:, :NARROW]
    axes = axes / np.maximum(np.linalg.norm(axes, axis=0), 1e-300)
    few = Rows(MemoryRows((Z @ axes).astype(rows.dtype)), n_jobs=rows.n_jobs)
    return LabelledCuts(few, cuts.weights, cuts.known, cuts.k, None, cuts.constant), axes


def column_block(_block: Any, parts: tuple[Any, ...]) -> tuple[tuple[()], Any]:
    """Block function: the part of a column, which is brought to the host."""
    return (), parts[0]


def cut_block(
    block: Block,
    parts: tuple[Any, ...],
    coef: np.ndarray,
    intercept: np.ndarray,
    prices: np.ndarray,
    dtype: np.dtype,
) -> tuple[tuple[Any, Any], tuple[Any, Any, Any]]:
    """Block function: labels and codes; the weighted sum of rows, the sums of the rule, the moves.

    ``parts`` are weights and fixed labels, and with free labels also the old ones and the codes of
    every cut so far.
    """
    k = len(coef)
    weights, fixed, *before = parts
    if block.xp is not np:
        given = weights, fixed, intercept, prices
        labels, codes, gathered, sums = device_pass(block, coef, given, dtype)
        moves = device_moves(block, weights, labels, before, k) if before else None
        return (labels, codes), (gathered, sums, moves)
    n, width = block.shape
    labels, codes, sums = np.empty(n, dtype), np.empty(n, dtype), np.zeros(2 + 2 * k)
    rule = weights, fixed, prices
    if not block.is_near:
        gathered = _tiled_pass(block, coef, intercept, rule, labels, codes, sums)
    else:
        # Rows are read as they are stored, and centred in the products.
        offset = np.zeros(width) if block.offset is None else np.asarray(block.offset)
        scaled = coef * block.scale
        shift = block.send(intercept - scaled @ offset)
        if block.is_sparse:
            X, flat = block.data, np.zeros(width * k, block.dtype)
            matrix, columns = (X.data, X.indices, X.indptr), block.send(scaled.T).ravel()
            csr_cut_pass(matrix, columns, shift, rule, labels, codes, TILE, flat, sums)
            gathered = flat.reshape(width, k).T.astype(np.float64)
        else:
            gathered, stored = np.zeros((k, width)), np.ascontiguousarray(block.data)
            columns = block.send(scaled)
            dense_cut_pass(stored, columns, shift, rule, labels, codes, TILE, gathered, sums)
        gathered = (gathered - np.outer(sums[2 + k :], offset)) * block.scale
    moves = _moves(block, weights, labels, before, k) if before else None
    return (labels, codes), (gathered, sums, moves)


def _tiled_pass(
    block: Block,
    coef: np.ndarray,
    intercept: np.ndarray,
    rule: tuple[np.ndarray, ...],
    labels: np.ndarray,
    codes: np.ndarray,
    sums: np.ndarray,
) -> np.ndarray:
    """Make the pass over rows that must be centred, or mapped, before they are multiplied."""
    columns = block.send(coef.T)
    weights, fixed, prices = rule
    gathered = np.zeros((len(coef), block.shape[1]))
    for where, tile in block.tiles():
        scores = np.ascontiguousarray((tile.scores(columns) + intercept).T)
        matrix = np.empty(scores.shape, scores.dtype)
        given = weights[where], fixed[where], prices
        cut_rule(scores, *given, labels[where], codes[where], matrix, sums)
        gathered += tile.weighted_sum(matrix.T)
    return gathered


def _moves(
    block: Block, weights: np.ndarray, labels: np.ndarray, before: list[np.ndarray], k: int
) -> tuple[Any, ...] | None:
    """Return columns, products, sums of codes and changes of gains of rows that change cluster."""
    old, codes = before[0], before[1:]
    moved = np.flatnonzero(labels != old)
    if not moved.size:
        return None
    chosen = block.taken(moved)
    given = weights[moved], old[moved], labels[moved], np.stack([c[moved] for c in codes])
    gains, cuts = np.zeros(len(codes)), len(codes)
    if not chosen.is_sparse:
        gathered, sums = np.zeros((cuts * k, chosen.shape[1])), np.zeros(cuts * k)
        for where, tile in chosen.tiles():
            some, was, now, ruled = (np.ascontiguousarray(column[..., where]) for column in given)
            matrix, part = np.empty((len(some), cuts * k), chosen.dtype), np.empty(cuts)
            moved_rule(some, was, now, ruled, matrix, part)
            gathered += tile.weighted_sum(matrix)
            sums += matrix.sum(axis=0, dtype=np.float64)
            gains += part
        return None, gathered, sums, gains
    # Few rows touch few columns: the rest of the wide sums would be zeros.
    X = chosen.data
    touched, places = np.unique(X.indices, return_inverse=True)
    gathered, sums = np.zeros((cuts, k, len(touched))), np.zeros((cuts, k))
    csr_move_pass((X.data, places, X.indptr), *given, gathered, sums, gains)
    return touched, gathered.reshape(cuts * k, -1), sums.ravel(), gains
