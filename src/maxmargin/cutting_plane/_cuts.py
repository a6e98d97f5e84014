r"""Labels and their cuts, and the pass over the rows that finds the most violated constraint.

For given labels y the mean hinge loss R(W) is convex, and every constraint c of (11) is a cut, a
lower bound R(W) >= g_c - <A_c, W>, with

    A_c[p] = sum_{c_i != 0, y_i = p} v_i z_i - sum_{c_i = p} v_i z_i
    g_c    = sum_{c_i != 0, c_i != y_i} v_i

where v_i is the share of row i in the total weight and c_i its code in the constraint: 0 if its
loss was zero, else the cluster r* of equation (14), stored as 1 + r*. The first sum of A_c is the
subgradient (18), the second the linear part of (11); the constraint of (20) is
xi >= g_c - <A_c, W>. This bound holds for any c and y: when labels change, the codes are kept, and
A_c and g_c change by the rows that change cluster. ``_core.qp.CutPool`` keeps A_c and g_c and finds
the best W for them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .._core.lapack import eigh
from .._core.qp import CutPool
from .._core.rows import Block, Rows
from .._data.source import TILE, MemoryRows, all_equal
from ._numba import csr_cut_pass, csr_move_pass, dense_cut_pass, moved_rule

MOST_VALUES = 2**26  # on a device: of the changes of cuts that are multiplied at a time
WIDE, NARROW = 256, 128  # with more than WIDE columns, labels are compared on NARROW axes

Model = tuple[np.ndarray, np.ndarray]  # coefficients (k, r) and intercepts (k,)


@dataclass(frozen=True)
class Evaluation:
    """Result of one pass over the rows at a given W."""

    model: Model  # W
    # (k,): prices for even sizes and for the size floor, added to the scores to choose labels
    size_prices: np.ndarray
    floor_prices: np.ndarray
    loss: float  # mean hinge loss for the labels of the pass
    sizes: np.ndarray  # (k,): weight of every cluster
    vector: np.ndarray  # (k, r): A_c of the most violated constraint
    gain: float  # its g_c
    shares: np.ndarray  # (k,): its A_c of a constant feature of value 1, for the intercepts
    # columns of n entries, stored with the rows
    labels: Any
    codes: Any
    # changes of the vectors (m, k * r), gains (m,) and shares (m, k) of the earlier cuts under the
    # new labels; None if no row changes cluster, or labels are fixed
    moves: tuple[np.ndarray, np.ndarray, np.ndarray] | None


class LabelledCuts:
    """Labels, and the cuts of their mean hinge loss.

    ``known`` is the known cluster of each row, -1 if unknown. ``blocks`` are features whose
    products are kept apart, such as those of one kernel. ``constant`` is the value of a constant
    feature after the others, whose coefficients give the intercepts; 0 for none.
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
        self.total = float(weights.sum())
        self.dtype = np.dtype(np.int8 if n_clusters < 127 else np.int32)
        unknown = np.broadcast_to(self.dtype.type(-1), len(known))
        self.known = unknown if all_equal(known) and known[0] < 0 else known.astype(self.dtype)
        self.labels: Any = np.broadcast_to(self.dtype.type(0), len(known))
        # The pool has flattened (k, r) vectors, then the k entries of the constant feature.
        places = np.arange(n_clusters * rows.shape[1]).reshape(n_clusters, -1)
        width = places.size + n_clusters * (constant > 0)
        columns = [places[:, block].ravel() for block in blocks or ()]
        if columns and constant:
            columns.append(np.arange(places.size, width))
        self.pool = CutPool(width, tuple(columns) or None)
        self.codes: list[Any] = []  # columns of n entries
        self.origins: list[Model] = []  # model at which each cut was found
        self.shares = np.zeros((0, n_clusters))  # ``Evaluation.shares`` of every cut
        self.n_passes = 0  # over the rows so far

    @property
    def vectors(self) -> np.ndarray:
        """The vectors (m, k, r) of the cuts, if there is no constant feature."""
        return self.pool.vectors.reshape(-1, self.k, self.rows.shape[1])

    def fresh(self, few: np.ndarray | None = None) -> LabelledCuts:
        """Return the same rows, or a few of them, without cuts."""
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
        """One pass at W: labels by scores and prices (or ``fixed``), their loss and a new cut.

        If labels are free, the same pass finds how earlier cuts change on the rows that change
        cluster: rows in a file are read once.
        """
        rows, k, cuts = self.rows, self.k, len(self.codes)
        size_prices = np.zeros(k) if size_prices is None else size_prices
        floor_prices = np.zeros(k) if floor_prices is None else floor_prices
        prices = (size_prices + floor_prices).astype(rows.dtype)
        columns = [self.weights, self.known if fixed is None else fixed]
        if fixed is None and self.codes:
            columns += [self.labels, *self.codes]
        # Z = (X - offset) * scale; near the origin both are applied to products, not to rows.
        offset, scale = np.zeros(rows.shape[1]), rows.scale if rows.block.is_near else 1.0
        if rows.block.is_near and rows.offset is not None:
            offset = rows.offset
        scaled = coef * scale
        shared = scaled, intercept - scaled @ offset, prices, self.dtype
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
            if rows.is_sparse:  # dense rows that move were centred in their tiles
                moved = (moved - np.outer(sums, offset)) * scale
            vectors, shares = moved.reshape(cuts, -1), sums.reshape(cuts, k)
            change = vectors / self.total, gains / self.total, shares / self.total
        gathered, totals = found
        vector = (gathered - np.outer(totals[2 + k :], offset)) * scale / self.total
        mean = totals / self.total
        return Evaluation(
            model=(coef, intercept),
            size_prices=size_prices,
            floor_prices=floor_prices,
            loss=float(mean[0]),
            sizes=totals[2 : 2 + k],
            vector=vector,
            gain=float(mean[1]),
            shares=mean[2 + k :],
            labels=made[0],
            codes=made[1],
            moves=change,
        )

    def adopt(self, found: Evaluation) -> None:
        """Take over the labels of a pass, and update the cuts on the rows that change cluster."""
        if found.moves is not None:
            vectors, gains, shares = found.moves
            self.pool.shift(self._with_constant(vectors, shares), gains)
            self.shares = self.shares + shares
        self.labels = found.labels

    def add(self, found: Evaluation) -> None:
        """Keep the cut of a pass whose labels were adopted, and the model it was found at."""
        self.pool.add(self._with_constant(found.vector.ravel(), found.shares), found.gain)
        self.codes.append(found.codes)
        self.origins.append(found.model)
        self.shares = np.concatenate([self.shares, found.shares[None, :]])

    def _with_constant(self, vectors: np.ndarray, shares: np.ndarray) -> np.ndarray:
        """Return vectors of the pool: with the entries of the constant feature, if there is one."""
        if not self.constant:
            return vectors
        return np.concatenate([vectors, self.constant * shares], axis=-1)

    def prune(self) -> None:
        """Drop cuts that have been idle for long."""
        keep = self.pool.prune()
        if keep.all():
            return
        self.codes = [c for c, kept in zip(self.codes, keep) if kept]
        self.origins = [o for o, kept in zip(self.origins, keep) if kept]
        self.shares = self.shares[keep]


def narrowed(cuts: LabelledCuts) -> tuple[LabelledCuts, np.ndarray | None]:
    """Project rows of many columns on their leading principal axes; return also the axes (r, few).

    Other rows are returned as they are, with None.
    """
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
    shift: np.ndarray,
    prices: np.ndarray,
    dtype: np.dtype,
) -> tuple[tuple[Any, Any], tuple[Any, Any, Any]]:
    """Block function: labels and codes; the weighted sum of rows, the sums of the rule, the moves.

    ``parts`` are weights and fixed labels, and with free labels also the old ones and the codes of
    every cut so far. The sum of rows near the origin is neither centred nor scaled.
    """
    weights, fixed, *before = parts
    rule = weights, fixed, prices
    if block.xp is not np:
        labels, codes, gathered, sums = device_pass(block, coef, shift, rule, dtype)
        moves = device_moves(block, weights, labels, before, len(coef)) if before else None
        return (labels, codes), (gathered, sums, moves)
    n, (k, width) = len(weights), coef.shape
    labels, codes, sums = np.empty(n, dtype), np.empty(n, dtype), np.zeros(2 + 2 * k)
    shift = block.send(shift)
    if block.is_sparse:
        X, flat = block.data, np.zeros(width * k, block.dtype)
        matrix, columns = (X.data, X.indices, X.indptr), block.send(coef.T).ravel()
        csr_cut_pass(matrix, columns, shift, rule, labels, codes, TILE, flat, sums)
        gathered = flat.reshape(width, k).T.astype(np.float64)
    else:
        columns, gathered = block.send(coef), np.zeros((k, width))
        whole = [(slice(None), np.ascontiguousarray(block.data))]
        tiles = ((where, tile.values) for where, tile in block.tiles())
        for where, values in whole if block.is_near else tiles:
            rule = weights[where], fixed[where], prices
            made = labels[where], codes[where]
            dense_cut_pass(values, columns, shift, rule, *made, TILE, gathered, sums)
    moves = _moves(block, weights, labels, before, k) if before else None
    return (labels, codes), (gathered, sums, moves)


def _moves(
    block: Block, weights: np.ndarray, labels: np.ndarray, before: list[np.ndarray], k: int
) -> tuple[Any, ...] | None:
    """Return what rows that change cluster add to every cut; None if there are no such rows.

    The columns that they touch (None for all), and there the vectors; shares; gains.
    """
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
    # Few rows touch few columns; the other columns of the sums would be zeros.
    X = chosen.data
    touched, places = np.unique(X.indices, return_inverse=True)
    gathered, sums = np.zeros((cuts, k, len(touched))), np.zeros((cuts, k))
    csr_move_pass((X.data, places, X.indptr), *given, gathered, sums, gains)
    return touched, gathered.reshape(cuts * k, -1), sums.ravel(), gains


# -- the pass on a device --------------------------------------------------------------------------
# In any array namespace, and fused on a CUDA device. The rule is that of ``_numba.cut_rule``.
# Labels and codes stay on the device.


def device_pass(
    block: Block,
    coef: np.ndarray,
    shift: np.ndarray,
    rule: tuple[Any, Any, np.ndarray],
    dtype: np.dtype,
) -> tuple[Any, Any, Any, Any]:
    """Return labels, codes, the weighted sum of rows and the sums of the rule.

    ``shift`` is added to the scores, and ``rule`` is (weights, fixed, prices), as for
    ``_numba.dense_cut_pass``.
    """
    from .._data.triton import can_fuse, fused_cut_pass

    xp, k = block.xp, len(coef)
    kind = xp.int8 if np.dtype(dtype) == np.int8 else xp.int32
    weights, fixed, prices = rule
    columns, shift, prices = block.send(coef.T), block.send(shift), block.send(prices)
    Z = block.data if block.is_near else next(block.tiles())[1].values
    if can_fuse(Z, k):
        labels = xp.empty(weights.shape, dtype=kind, device=Z.device)
        codes = xp.empty_like(labels)
        # Columns of stride 0 repeat one value: weights of 1, and labels that are all unknown.
        weights = None if weights.stride(0) == 0 else xp.astype(weights, Z.dtype)
        fixed = None if fixed.stride(0) == 0 else xp.astype(fixed, kind)
        found = fused_cut_pass(Z, columns, shift, prices, weights, fixed, labels, codes)
        return labels, codes, *found
    return _plain_pass(Z, columns, shift, prices, xp.astype(weights, Z.dtype), fixed, kind, xp)


def _plain_pass(
    Z: Any, columns: Any, shift: Any, prices: Any, weights: Any, fixed: Any, kind: Any, xp: Any
) -> tuple[Any, Any, Any, Any]:
    """Return the same in any array namespace."""
    names = xp.arange(columns.shape[1], device=Z.device)[None, :]
    scores = Z @ columns + shift
    own = xp.argmax(scores + prices, axis=1)
    own = xp.where(fixed >= 0, xp.astype(fixed, own.dtype), own)
    mine = own[:, None] == names
    own_score = xp.sum(xp.where(mine, scores, xp.zeros_like(scores)), axis=1)
    others = xp.where(mine, xp.full_like(scores, -np.inf), scores)
    rival = xp.argmax(others, axis=1)
    loss = 1.0 + (xp.max(others, axis=1) - own_score)
    coded = loss > 0
    share = xp.where(coded, weights, xp.zeros_like(weights))
    theirs = rival[:, None] == names
    zero = xp.zeros_like(scores)
    matrix = xp.where(mine, share[:, None], zero) - xp.where(theirs, share[:, None], zero)
    member = xp.where(mine, weights[:, None], zero)
    total = [
        xp.sum(share * loss, dtype=xp.float64)[None],
        xp.sum(share, dtype=xp.float64)[None],
        xp.sum(member, axis=0, dtype=xp.float64),
        xp.sum(matrix, axis=0, dtype=xp.float64),
    ]
    codes = xp.where(coded, rival + 1, xp.zeros_like(rival))
    gathered = xp.astype(matrix.T @ Z, xp.float64)
    return xp.astype(own, kind), xp.astype(codes, kind), gathered, xp.concat(total)


def device_moves(
    block: Block, weights: Any, labels: Any, before: list[Any], k: int
) -> tuple[Any, ...] | None:
    """Return what rows that change cluster add to every cut: see :func:`_moves`."""
    xp, old, codes = block.xp, before[0], before[1:]
    moved = xp.nonzero(labels != old)[0]
    if not moved.shape[0]:
        return None
    Z = next(block.taken(moved).tiles())[1].values
    weight = xp.astype(xp.take(weights, moved), Z.dtype)
    names = xp.arange(k, dtype=labels.dtype, device=Z.device)[None, :]
    here, there = xp.take(labels, moved)[:, None], xp.take(old, moved)[:, None]
    step = xp.astype(here == names, Z.dtype) - xp.astype(there == names, Z.dtype)
    step = (step * weight[:, None]).T
    gathered, sums, gains = [], [], []
    some = max(1, MOST_VALUES // (moved.shape[0] * k))  # cuts at a time
    for start in range(0, len(codes), some):
        rival = xp.stack([xp.take(code, moved) for code in codes[start : start + some]])
        coded = xp.astype(rival > 0, Z.dtype)
        matrix = xp.reshape(coded[:, None, :] * step[None, :, :], (-1, moved.shape[0]))
        gathered.append(xp.astype(matrix @ Z, xp.float64))
        sums.append(xp.sum(matrix, axis=1, dtype=xp.float64))
        gain = xp.astype(rival - 1 != here.T, Z.dtype) - xp.astype(rival - 1 != there.T, Z.dtype)
        gains.append(xp.sum(weight * coded * gain, axis=1, dtype=xp.float64))
    return None, xp.concat(gathered), xp.concat(sums), xp.concat(gains)
