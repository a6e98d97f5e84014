"""The pass of cutting-plane clustering as one kernel on a CUDA device: every row is read once.

The rule is that of ``cutting_plane/_numba.py``. A program works on every P-th tile: the tile is
multiplied by the columns of W, its rows are labelled and coded, and it is multiplied by the codes
while it is still on the chip. Programs keep their own sums, which are added in float64 in their
order, so the result has the same bits every time.

The matrix units round factors to 11 bits. A factor is therefore split into what they see and the
rest, x = high + low, and the products with the rest are added: scores and sums have the digits of
float32. Full float32 products (without the matrix units) took 1.4 times as long.

Triton is imported with this module, and this module only where a CUDA tensor came in.
"""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

try:
    import triton
    import triton.language as tl

    jit = triton.jit
except ImportError:
    triton = None

    def jit(function):
        return function


PROGRAMS = 528  # four for every multiprocessor of the largest devices; a constant keeps the bits
TILE = 64
LEAST = 16  # the matrix units work on pieces of 16
WIDEST, MOST_CLUSTERS = 256, 32  # beyond, the tile and the sums do not fit on the chip


@jit
def _low(x):
    """What the matrix units do not see of x."""
    return x - (x.to(tl.int32, bitcast=True) & -8192).to(tl.float32, bitcast=True)


@jit
def _cut_kernel(
    data, columns, levels, prices, weights, fixed, labels, codes, gathered, sums,
    n, width_in_units, stride_in_units,
    ROWS: tl.constexpr, D: tl.constexpr, K: tl.constexpr, UNIT: tl.constexpr,
    STAGES: tl.constexpr, WEIGHTED: tl.constexpr, FIXED: tl.constexpr, FULL: tl.constexpr,
):  # fmt: skip
    """All tiles of one program."""
    program, programs = tl.program_id(0), tl.num_programs(0)
    rows, features, clusters = tl.arange(0, ROWS), tl.arange(0, D), tl.arange(0, K)
    width, stride = width_in_units * UNIT, stride_in_units * UNIT  # so that it is a known multiple
    column = tl.load(columns + features[:, None] * K + clusters[None, :])
    column_low, column_short = _low(column), column.to(tl.bfloat16)
    level = tl.load(levels + clusters)[None, :]
    price = tl.load(prices + clusters)[None, :]
    zero = tl.zeros((ROWS, K), tl.float32)
    total, sizes, shares = tl.zeros((K, D), tl.float32), zero, zero
    losses, coded = tl.zeros((ROWS,), tl.float32), tl.zeros((ROWS,), tl.float32)
    for tile in tl.range(program, tl.cdiv(n, ROWS), programs, num_stages=STAGES):
        at = tile.to(tl.int64) * ROWS + rows
        inside = at < n
        mask = inside[:, None] if FULL else inside[:, None] & (features < width)[None, :]
        x = tl.load(data + at[:, None] * stride + features[None, :], mask=mask, other=0.0)
        if WEIGHTED:
            weight = tl.load(weights + at, mask=inside, other=0.0)
        else:
            weight = inside.to(tl.float32)

        low = _low(x)
        score = tl.dot(low.to(tl.bfloat16), column_short)
        score = tl.dot(x, column_low, score, input_precision="tf32")
        score = tl.dot(x, column, score, input_precision="tf32") + level

        own = tl.argmax(score + price, axis=1)
        if FIXED:
            given = tl.load(fixed + at, mask=inside, other=0).to(tl.int32)
            own = tl.where(given >= 0, given, own)
        is_own = clusters[None, :] == own[:, None]
        mine = tl.sum(tl.where(is_own, score, 0.0), axis=1)
        top, rival = tl.max(tl.where(is_own, float("-inf"), score), axis=1, return_indices=True)
        loss = 1.0 + (top - mine)
        says = loss > 0.0
        share = tl.where(says, weight, 0.0)[:, None]
        is_rival = clusters[None, :] == rival[:, None]
        matrix = tl.where(is_own, share, zero) - tl.where(is_rival, share, zero)
        tl.store(labels + at, own.to(tl.int8), mask=inside)
        tl.store(codes + at, tl.where(says, rival + 1, 0).to(tl.int8), mask=inside)

        # One tile's products on their own: a long sum in the matrix units loses digits.
        turned = tl.trans(matrix)
        part = tl.dot(turned, low, input_precision="tf32")
        if WEIGHTED:
            part = tl.dot(_low(turned), x, part, input_precision="tf32")
        total += tl.dot(turned, x, part, input_precision="tf32")
        sizes += tl.where(is_own, weight[:, None], zero)
        shares += matrix
        losses += tl.where(says, weight * loss, 0.0)
        coded += tl.where(says, weight, 0.0)
    tl.store(gathered + program * K * D + clusters[:, None] * D + features[None, :], total)
    here = sums + program * (2 + 2 * K)
    tl.store(here, tl.sum(losses.to(tl.float64), axis=0))
    tl.store(here + 1, tl.sum(coded.to(tl.float64), axis=0))
    tl.store(here + 2 + clusters, tl.sum(sizes.to(tl.float64), axis=0))
    tl.store(here + 2 + K + clusters, tl.sum(shares.to(tl.float64), axis=0))


def can_fuse(data: Any, k: int) -> bool:
    """Whether a pass over these rows fits the kernel: float32, not too wide, matrix units there."""
    if not (triton and getattr(data, "is_cuda", False)):
        return False
    import torch

    if not (torch.version.cuda and data.dtype == torch.float32):
        return False
    if data.shape[1] > WIDEST or not 2 <= k <= MOST_CLUSTERS:
        return False
    modern = torch.cuda.get_device_capability(data.device) >= (8, 0)
    return modern and _compiles(data.device, data.shape[1], k)


@cache
def _compiles(device, width: int, k: int) -> bool:
    """Whether the kernel runs here: it takes a C compiler, and room on the chip."""
    import torch

    rows, few = (torch.zeros((64, size), device=device) for size in (width, k))
    labels, codes = (torch.zeros(64, dtype=torch.int8, device=device) for _ in range(2))
    try:
        fused_cut_pass(rows, few[:1].expand(width, k), few[0], few[0], None, None, labels, codes)
    except torch.cuda.OutOfMemoryError:
        raise
    except Exception as error:  # whatever stops a compiler is no reason to stop
        warnings.warn(
            "The fused kernel cannot be compiled here; passes run in plain torch, several "
            f"times slower: {' '.join(str(error).split())[:200]}",
            UserWarning,
            stacklevel=2,
        )
        return False
    return True


def fused_cut_pass(data, columns, levels, prices, weights, fixed, labels, codes) -> tuple[Any, Any]:
    """``_numba.dense_cut_pass`` over rows on a device (n, d), by one kernel.

    ``levels`` are added to the scores with ``columns`` (d, k), ``prices`` only when labels are
    chosen. ``weights`` are None if all are 1, ``fixed`` if no label is fixed. ``labels`` and
    ``codes`` (n,), int8, are written. Returns the float64 sums of ``dense_cut_pass``: ``gathered``
    (k, d) and ``sums`` (2 + 2 k,).
    """
    import torch

    (n, width), k = data.shape, columns.shape[1]
    data = data if data.stride(1) == 1 else data.contiguous()
    D, K = max(LEAST, _power_of_two(width)), max(LEAST, _power_of_two(k))
    like = {"dtype": torch.float32, "device": data.device}
    wide = torch.zeros((D, K), **like)
    wide[:width, :k] = columns
    level, price = torch.full((K,), -torch.inf, **like), torch.zeros(K, **like)
    level[:k], price[:k] = levels, prices
    programs = min(PROGRAMS, -(-n // TILE))
    gathered = torch.empty((programs, K, D), **like)
    sums = torch.empty((programs, 2 + 2 * K), dtype=torch.float64, device=data.device)
    stride = data.stride(0)
    unit = 4 if width % 4 == 0 and stride % 4 == 0 else 1
    stages = 3 if D <= 64 else 2
    with torch.cuda.device(data.device):
        _cut_kernel[(programs,)](
            data, wide, level, price, data if weights is None else weights,
            labels if fixed is None else fixed, labels, codes, gathered, sums,
            n, width // unit, stride // unit,
            ROWS=TILE, D=D, K=K, UNIT=unit, STAGES=stages, WEIGHTED=weights is not None,
            FIXED=fixed is not None, FULL=width == D, num_warps=4, num_stages=stages,
        )  # fmt: skip
    total = sums.sum(dim=0)
    found = torch.cat([total[: 2 + k], total[2 + K : 2 + K + k]])
    return gathered.sum(dim=0, dtype=torch.float64)[:k, :width], found


def _power_of_two(size: int) -> int:
    return 1 << max(size - 1, 0).bit_length()
