"""Passes over rows on a device: what the block kernels do in memory, in plain torch.

Each takes :class:`.device.OnDevice` rows and the columns (tensors, or a number where a column
repeats one) and returns what it makes for every row, on the device, and sums, on the host.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .device import OnDevice, bounds_of, device_work, host
from .rows import Rows


def score_rows(place: OnDevice, _columns, weights):
    """Counterpart of ``rows.score_block``: to the host."""
    columns = place.send(weights.T)
    return (), [host(Z @ columns) for _, Z in place.blocks(len(weights))]


def sum_rows(place: OnDevice, columns):
    """Counterpart of ``rows.sum_block``."""
    import torch

    total: Any = 0.0
    for where, Z in place.blocks():
        codes = columns[0]
        if isinstance(codes, np.generic):
            total = total + Z.sum(dim=0, keepdim=True, dtype=torch.float64) * float(codes)
        else:
            codes = codes[where].to(Z.dtype)
            total = total + ((codes if codes.ndim == 2 else codes[:, None]).T @ Z).double()
    return (), [host(total)]


def member_rows(place: OnDevice, columns, k: int):
    """Counterpart of ``rows.member_block``."""
    import torch

    total: Any = 0.0
    sizes: Any = 0.0
    for where, Z in place.blocks(k):
        labels, weights = columns[0][where].long(), _weights(columns[1], where, Z)
        member = Z.new_zeros((len(Z), k)).scatter_(1, labels[:, None], weights[:, None])
        total = total + (member.T @ Z).double()
        sizes = sizes + member.sum(dim=0, dtype=torch.float64)
    return (), [(host(total), host(sizes))]


def gram_rows(place: OnDevice, columns):
    """Counterpart of ``rows.gram_block``."""
    total: Any = 0.0
    for where, Z in place.blocks(place.width):
        total = total + ((Z * _weights(columns[0], where, Z)[:, None]).T @ Z).double()
    return (), [host(total)]


def square_rows(place: OnDevice, columns, total: float):
    """Counterpart of ``features.square_block``."""
    mean: Any = 0.0
    for where, Z in place.blocks(place.width):
        Z = Z.double()
        mean = mean + (Z * Z).sum(dim=1) @ (_weights(columns[0], where, Z) / total)
    return (), [np.array([float(mean), 0.0])]


def decide_rows(place: OnDevice, columns, coef, levels, paths):
    """Counterpart of ``decisions.decide_block``: labels and leads, or what they say of clusters."""
    import torch

    k, n = len(paths), place.n
    labels = torch.zeros(n, dtype=torch.int32, device=place.device)
    lead = torch.zeros(n, dtype=torch.float64 if n < 10**5 else torch.float32, device=place.device)
    if len(coef):
        for where, margins in margins_of(place, coef, levels, paths):
            top = margins.topk(min(2, k), dim=1, sorted=True)
            labels[where] = margins.argmax(dim=1)
            lead[where] = top.values[:, 0] - (top.values[:, 1] if k > 1 else 0.0)
    if not columns:
        return (labels, lead), [None]
    weights, known = columns
    if not isinstance(known, np.generic):
        lead = torch.where((known >= 0) & (known != labels), -lead, lead)
        labels = torch.where(known >= 0, known.to(labels.dtype), labels)
    sizes, first, certain, best = np.zeros(k), np.full(k, n), np.zeros(k, int), np.full(k, -np.inf)
    for cluster in range(k):
        held = labels == cluster
        count = int(held.sum())
        one = isinstance(weights, np.generic)
        sizes[cluster] = count * float(weights) if one else float(weights[held].double().sum())
        if count:
            counts = held if one else held & (weights > 0)
            if bool(counts.any()):
                first[cluster] = int(counts.to(torch.int8).argmax())
            found = torch.where(held, lead, -torch.inf).max(dim=0)
            certain[cluster], best[cluster] = int(found.indices), float(found.values)
    return (), [(n, sizes, first, certain, best)]


def device_labels(rows: Rows, coef, levels, paths):
    """Cluster of every row, as predict gives them."""
    with device_work():
        return decide_rows(OnDevice(rows, rows.data), (), coef, levels, paths)[0][0]


def device_margins(rows: Rows, coef, levels, paths):
    """Score of every row for every cluster, in float64."""
    import torch

    place = OnDevice(rows, rows.data)
    out = torch.zeros((place.n, len(paths)), dtype=torch.float64, device=place.device)
    if len(coef):
        with device_work():
            for where, margins in margins_of(place, coef, levels, paths):
                out[where] = margins
    return out


def margins_of(place: OnDevice, coef, levels, paths) -> Iterator[tuple[slice, Any]]:
    """Scores of the clusters in float64, block by block: ``decisions.cluster_scores``."""
    import torch

    columns, level = place.send(coef.T), place.send(levels, torch.float64)
    for where, Z in place.blocks(4 * len(paths)):
        scores = (Z @ columns).double() + level
        if paths.shape[0] == paths.shape[1]:  # one score per cluster, not a tree
            yield where, scores
            continue
        out = scores.new_zeros((len(Z), len(paths)))
        for cluster, path in enumerate(paths):
            used = np.flatnonzero(path)
            if used.size:
                sign = place.send(path[used], torch.float64)
                out[:, cluster] = (scores[:, used.tolist()] * sign).amin(dim=1)
        yield where, out


def cut_rows(place: OnDevice, columns, coef, levels, dtype):
    """Counterpart of ``cuts.cut_block``."""
    import torch

    k, rows = len(coef), place.rows
    kind = torch.int8 if np.dtype(dtype) == np.int8 else torch.int32
    labels = torch.empty(place.n, dtype=kind, device=place.device)
    codes = torch.empty_like(labels)
    weights, fixed, *before = columns
    plain = isinstance(weights, np.generic) and float(weights) == 1.0
    free = isinstance(fixed, np.generic) and int(fixed) < 0
    whole = place.map is None and rows.is_near
    if whole:
        # Centred in the products: the rows are read as they are.
        offset = np.zeros(place.width) if rows.offset is None else rows.offset
        wide, shift = coef.T * rows.scale, -(offset @ (coef.T * rows.scale))
        parts: Any = [(slice(0, place.n), place.X)]
    else:
        offset, wide, shift = np.zeros(place.width), coef.T, 0.0
        parts = place.blocks(4 * k)
    given = place.send(wide), place.send(levels[0] + shift), place.send(levels[1])
    gathered: Any = 0.0
    sums: Any = 0.0
    for where, Z in parts:
        held = None if plain else _weights(weights, where, Z)
        known = None if free else _column(fixed, where, labels)
        part, part_sums = cut_pass(Z, *given, held, known, labels[where], codes[where])
        gathered, sums = gathered + part, sums + part_sums
    gathered, sums = host(gathered), host(sums)
    if whole:
        gathered = (gathered - np.outer(sums[2 + k :], offset)) * rows.scale
    moves = _moves(place, weights, labels, before, k) if before else None
    return (labels, codes), [(gathered, sums, moves)]


def cut_pass(Z, columns, levels, prices, weights, fixed, labels, codes):
    """Scores, the rule of ``kernels.cuts.cut_rule`` and the weighted sum of rows.

    Writes labels and codes; returns the sums as float64 tensors.
    """
    from ..kernels.gpu import can_fuse, fused_cut_pass

    if can_fuse(Z, columns.shape[1]):
        return fused_cut_pass(Z, columns, levels, prices, weights, fixed, labels, codes)
    return plain_cut_pass(Z, columns, levels, prices, weights, fixed, labels, codes)


def plain_cut_pass(Z, columns, levels, prices, weights, fixed, labels, codes):
    """:func:`cut_pass` in plain torch: on any device, for any width and number of clusters."""
    gathered: Any = 0.0
    sums: Any = 0.0
    k = columns.shape[1]
    for start, stop in bounds_of(len(Z), 6 * k * Z.element_size() + 16):
        where = slice(start, stop)
        part, part_sums = _plain_block(
            Z[where], columns, levels, prices,
            None if weights is None else weights[where], None if fixed is None else fixed[where],
            labels[where], codes[where],
        )  # fmt: skip
        gathered, sums = gathered + part, sums + part_sums
    return gathered, sums


def _plain_block(Z, columns, levels, prices, weights, fixed, labels, codes):
    import torch

    scores = Z @ columns
    scores += levels
    own = (scores + prices).max(dim=1).indices
    if fixed is not None:
        own = torch.where(fixed >= 0, fixed.long(), own)
    own = own[:, None]
    mine = scores.gather(1, own)
    scores.scatter_(1, own, -torch.inf)
    top, rival = scores.max(dim=1, keepdim=True)
    loss = 1.0 + (top - mine)
    says = loss > 0
    weight = torch.ones_like(loss) if weights is None else weights[:, None]
    share = torch.where(says, weight, 0.0)
    matrix = torch.zeros_like(scores).scatter_(1, own, share).scatter_(1, rival, -share)
    member = torch.zeros_like(scores).scatter_(1, own, weight)
    labels[:] = own[:, 0]
    codes[:] = torch.where(says, rival + 1, 0)[:, 0]
    sums = [
        torch.where(says, weight * loss, 0.0).sum(dim=0, dtype=torch.float64),
        share.sum(dim=0, dtype=torch.float64),
        member.sum(dim=0, dtype=torch.float64),
        matrix.sum(dim=0, dtype=torch.float64),
    ]
    return (matrix.T @ Z).double(), torch.cat(sums)


def _moves(place: OnDevice, weights, labels, before, k: int):
    """What rows that change cluster add to every cut: see ``cuts._moves``."""
    import torch

    old, codes = _column(before[0], slice(None), labels), before[1:]
    moved = (labels != old).nonzero()[:, 0]
    if not len(moved):
        return None
    cuts = len(codes)
    gathered: Any = 0.0
    sums: Any = 0.0
    gains: Any = 0.0
    for start, stop in bounds_of(len(moved), (3 * cuts * k + 2 * place.width) * 8):
        at = moved[start:stop]
        Z = place.values(place.X[at])
        weight = _weights(weights, at, Z)
        here, there = labels[at].long()[:, None], old[at].long()[:, None]
        step = Z.new_zeros((len(at), k)).scatter_(1, here, weight[:, None])
        step.scatter_(1, there, -weight[:, None])
        code = torch.stack([c[at] for c in codes], dim=1).long()
        coded = (code > 0).to(Z.dtype)
        matrix = (coded[:, :, None] * step[:, None, :]).reshape(len(at), cuts * k)
        gathered = gathered + (matrix.T @ Z).double()
        sums = sums + matrix.sum(dim=0, dtype=torch.float64)
        gain = (code - 1 != here).to(Z.dtype) - (code - 1 != there).to(Z.dtype)
        gains = gains + (weight[:, None] * coded * gain).sum(dim=0, dtype=torch.float64)
    return None, host(gathered), host(sums), host(gains)


def _weights(column, where, Z):
    """Weights of some rows, in the type of Z."""
    if isinstance(column, np.generic):
        return Z.new_full((len(Z),), float(column))
    return column[where].to(Z.dtype)


def _column(column, where, labels):
    """Given labels of some rows, in the type of ``labels``."""
    if isinstance(column, np.generic):
        return labels.new_full(labels[where].shape, int(column))
    return column[where].to(labels.dtype)


COUNTERPARTS: dict[str, Callable] = {
    "score_block": score_rows,
    "sum_block": sum_rows,
    "member_block": member_rows,
    "gram_block": gram_rows,
    "square_block": square_rows,
    "decide_block": decide_rows,
    "cut_block": cut_rows,
}
