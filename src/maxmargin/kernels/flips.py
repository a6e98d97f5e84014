"""Compiled label searches on the caches T_h = R y_h (used by ``least_squares.py``).

With 0/1 indicators y_h the search maximises J = sum_h y_h' R y_h. Moving row j from cluster a to d
changes J by 2 (T_dj - T_aj + R_jj) and the caches by one row of R: O(1) to test, O(n) to do.

The loops are written for the vectoriser: one operation per loop, labels as int32, a sentinel in
``barrier`` in place of a branch, maxima of integers (those of floats stay scalar), and the position
of a maximum looked up in the one block that holds it.
"""

import numpy as np
from numba import njit

NEVER = 1e30  # barrier of a row that must not move
BLOCK = 512


def make_scratch(n, dtype):
    """Work space of the searches: barrier, gains, the bits of the gains, and how to order them."""
    gains = np.empty(n, dtype)
    whole = np.int32 if gains.itemsize == 4 else np.int64
    sign = 8 * gains.itemsize - 1
    return np.empty(n, dtype), gains, gains.view(whole), np.array([sign, 2**sign - 1], whole)


@njit(cache=True, nogil=True, inline="always")
def _ordered(bits, shift, mask):
    """An integer that orders bit patterns of floats as their values: its maximum vectorises."""
    return bits ^ ((bits >> shift) & mask)


@njit(cache=True, nogil=True, fastmath=True)
def _best_claim(scores, scratch):
    """First row with the largest ``scores - barrier``."""
    barrier, gains, bits, order = scratch
    shift, mask = order[0], order[1]
    n = scores.shape[0]
    for i in range(n):
        gains[i] = scores[i] - barrier[i]
    best, block = ~mask, 0
    for start in range(0, n, BLOCK):
        top = ~mask
        for i in range(start, min(start + BLOCK, n)):
            top = max(top, _ordered(bits[i], shift, mask))
        if top > best:
            best, block = top, start
    for i in range(block, n):
        if _ordered(bits[i], shift, mask) == best:
            return i
    return block


@njit(cache=True, nogil=True, fastmath=True)
def _move(similarity, caches, labels, sizes, weights, j, target):
    """Give row j to another cluster and update the two caches."""
    row, source = similarity[j], labels[j]
    if source >= 0:
        loser = caches[source]
        for i in range(row.shape[0]):
            loser[i] -= row[i]
        sizes[source] -= weights[j]
    winner = caches[target]
    for i in range(row.shape[0]):
        winner[i] += row[i]
    sizes[target] += weights[j]
    labels[j] = target


@njit(cache=True, nogil=True, fastmath=True)
def _lower_barrier(barrier, row, labels, source):
    """After ``source`` lost a row: its other rows now give up less by leaving."""
    for i in range(row.shape[0]):
        barrier[i] -= row[i] * (labels[i] == source)


@njit(cache=True, nogil=True)
def _set_barrier(similarity, caches, labels, sizes, fixed, floor, target, barrier):
    """What each row gives up by leaving its cluster; NEVER for rows that stay where they are."""
    for i in range(labels.shape[0]):
        source = labels[i]
        if source == target or fixed[i] or (source >= 0 and sizes[source] <= floor):
            barrier[i] = NEVER
        elif source < 0:
            barrier[i] = -similarity[i, i]
        else:
            barrier[i] = caches[source, i] - similarity[i, i]


@njit(cache=True, nogil=True)
def claim(similarity, caches, labels, sizes, weights, fixed, floor, target, amount, scratch):
    """Cluster ``target`` claims rows of weight ``amount``, best gain first, whatever it costs.

    Clusters at the size floor lose no more rows. Returns the number of rows claimed.
    """
    barrier = scratch[0]
    _set_barrier(similarity, caches, labels, sizes, fixed, floor, target, barrier)
    claimed = 0
    while amount >= 1.0:
        j = _best_claim(caches[target], scratch)
        if barrier[j] >= 0.5 * NEVER:
            break
        source = labels[j]
        _move(similarity, caches, labels, sizes, weights, j, target)
        amount -= weights[j]
        claimed += 1
        barrier[j] = NEVER
        if source >= 0:
            if sizes[source] <= floor:
                for i in range(labels.shape[0]):
                    if labels[i] == source:
                        barrier[i] = NEVER
            else:
                _lower_barrier(barrier, similarity[j], labels, source)
    return claimed


@njit(cache=True, nogil=True)
def shake_round(
    similarity, caches, labels, sizes, weights, fixed, floor, targets, amplitude, scratch
):
    """One round of Algorithm 3: every cluster claims the amount of equation (14)."""
    claimed = 0
    for d in range(targets.shape[0]):
        amount = amplitude * targets[d] + targets[d] - sizes[d]
        claimed += claim(
            similarity, caches, labels, sizes, weights, fixed, floor, d, amount, scratch
        )
    return claimed


@njit(cache=True, nogil=True)
def stochastic_round(similarity, caches, labels, sizes, weights, fixed, floor, order):
    """One round of Algorithm 1: each row in turn goes where J rises most. Returns the moves."""
    moves = 0
    for j in order:
        source = labels[j]
        if fixed[j] or sizes[source] <= floor:
            continue
        stay = caches[source, j] - similarity[j, j]
        best, target = 0.0, source
        for d in range(caches.shape[0]):
            if d != source and caches[d, j] - stay > best:
                best, target = caches[d, j] - stay, d
        if target != source:
            _move(similarity, caches, labels, sizes, weights, j, target)
            moves += 1
    return moves


@njit(cache=True, nogil=True)
def steepest_steps(
    similarity, caches, labels, sizes, weights, fixed, floor, scratch, least_gain, max_steps
):
    """Up to ``max_steps`` steps of Algorithm 2: the single move by which J rises most."""
    barrier, gains = scratch[0], scratch[1]
    for step in range(max_steps):
        best, row, target = least_gain, -1, -1
        for d in range(caches.shape[0]):
            _set_barrier(similarity, caches, labels, sizes, fixed, floor, d, barrier)
            j = _best_claim(caches[d], scratch)
            if gains[j] > best:
                best, row, target = gains[j], j, d
        if row < 0:
            return step
        _move(similarity, caches, labels, sizes, weights, row, target)
    return max_steps
