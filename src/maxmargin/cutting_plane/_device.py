"""The pass of the cutting planes in any array namespace, and fused on a CUDA device.

The rule is that of ``_numba.cut_rule``; labels and codes stay on the device.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._core.rows import Block

MOST_VALUES = 2**26  # of the changes of cuts that are multiplied at a time


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
    """Return what rows that change cluster add to every cut: see ``_cuts._moves``."""
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
