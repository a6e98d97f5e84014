"""Compiled label searches on the caches T_h = R y_h (used by ``least_squares.py``).

With 0/1 indicators y_h the search maximises J = sum_h y_h' R y_h. Moving row j from cluster a to d
changes J by 2 (T_dj - T_aj + R_jj) and the caches by one row of R: O(1) to test, O(n) to do. The
tempered J_p = sum_h y_h' R y_h / n_h^p is tested in O(1), too, from the sums within the clusters.

The loops are written for the vectoriser: one operation per loop, labels as int32, a sentinel in
``barrier`` in place of a branch, maxima of integers (those of floats stay scalar), and the position
of a maximum looked up in the one block that holds it.
"""

import numpy as np
from numba import njit, types
from numba.extending import overload

NEVER = 1e30  # barrier of a row that must not move
BLOCK = 256


def make_scratch(n, dtype):
    """Work space of the searches: the barrier, and how floats are ordered by their bits."""
    whole = np.int32 if np.dtype(dtype).itemsize == 4 else np.int64
    sign = 8 * np.dtype(dtype).itemsize - 1
    return np.empty(n, dtype), np.array([sign, 2**sign - 1], whole)


def _bits(value):
    """Bit pattern of a float as an integer of its width (compiled code only)."""


@overload(_bits, inline="always")
def _bits_compiled(value):
    if value == types.float32:
        return lambda value: np.float32(value).view(np.int32)
    return lambda value: np.float64(value).view(np.int64)


@njit(cache=True, nogil=True, inline="always")
def _ordered(value, kind):
    """An integer that orders floats as their values do: its maximum vectorises.

    ``kind`` holds the sign's place and the other bits, as integers as wide as the floats.
    """
    bits = _bits(value)
    return bits ^ ((bits >> kind[0]) & kind[1])


@njit(cache=True, nogil=True, fastmath=True)
def _best_claim(scores, barrier, kind):
    """First row with the largest ``scores - barrier``."""
    n = scores.shape[0]
    best, block = ~kind[1], 0
    for start in range(0, n, BLOCK):
        # Slices of their own: a bound computed in the loop keeps it from being vectorised.
        some, given_up = scores[start : start + BLOCK], barrier[start : start + BLOCK]
        top = ~kind[1]
        for i in range(some.shape[0]):
            top = max(top, _ordered(some[i] - given_up[i], kind))
        if top > best:
            best, block = top, start
    for i in range(block, n):
        if _ordered(scores[i] - barrier[i], kind) == best:
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
    """Update the barrier of the rows of ``source``, which has lost a row."""
    for i in range(row.shape[0]):
        barrier[i] -= row[i] * (labels[i] == source)


@njit(cache=True, nogil=True)
def _set_barrier(similarity, caches, labels, sizes, fixed, floor, target, barrier):
    """Set the loss of each row when it leaves its cluster; NEVER for rows that must stay."""
    for i in range(labels.shape[0]):
        source = labels[i]
        if source == target or fixed[i] or (source >= 0 and sizes[source] <= floor):
            barrier[i] = NEVER
        elif source < 0:
            barrier[i] = -similarity[i, i]
        else:
            barrier[i] = caches[source, i] - similarity[i, i]


@njit(cache=True, nogil=True)
def least_claim(weights):
    """Weight below which nothing is claimed: one row, or the mean weight if that is less."""
    return min(1.0, weights.sum() / len(weights))


@njit(cache=True, nogil=True)
def claim(similarity, caches, labels, sizes, weights, fixed, floor, target, amount, scratch):
    """Move rows of weight ``amount`` to cluster ``target``, best gain first, even at a loss.

    Clusters at the size floor lose no more rows. Returns the number of rows claimed.
    """
    barrier, kind = scratch
    _set_barrier(similarity, caches, labels, sizes, fixed, floor, target, barrier)
    claimed, unit = 0, least_claim(weights)
    while amount >= unit and claimed < len(labels):
        j = _best_claim(caches[target], barrier, kind)
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
def stochastic_round(
    similarity, caches, labels, sizes, weights, fixed, floor, order, within, power
):
    """One round of Algorithm 1: each row moves where J_p increases most. Returns the moves.

    ``within`` holds the sums y_h' R y_h, which are kept up to date for ``power`` = p > 0.
    """
    moves = 0
    for j in order:
        source = labels[j]
        if fixed[j] or sizes[source] <= floor:
            continue
        if power > 0.0:
            target = _best_tempered(similarity, caches, sizes, weights[j], within, power, j, source)
            if target != source:
                within[source] += similarity[j, j] - 2.0 * caches[source, j]
                within[target] += similarity[j, j] + 2.0 * caches[target, j]
        else:
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
def _best_tempered(similarity, caches, sizes, weight, within, power, j, source):
    """Cluster to which row j goes for the largest rise of J_p; its own where none rises."""
    rest = sizes[source] - weight
    if rest <= 1e-9 * weight:
        return source  # a cluster is never emptied
    own = similarity[j, j]
    left = (within[source] - 2.0 * caches[source, j] + own) / rest**power
    lost = within[source] / sizes[source] ** power - left
    # Gains below the rounding error of the caches would move a row back and forth.
    best, target = 1e-6 * abs(own) / sizes[source] ** power, source
    for d in range(caches.shape[0]):
        if d != source:
            before = within[d] / sizes[d] ** power if sizes[d] > 0.0 else 0.0
            joined = (within[d] + 2.0 * caches[d, j] + own) / (sizes[d] + weight) ** power
            if joined - before - lost > best:
                best, target = joined - before - lost, d
    return target


@njit(cache=True, nogil=True)
def steepest_steps(
    similarity, caches, labels, sizes, weights, fixed, floor, scratch, least_gain, max_steps
):
    """Up to ``max_steps`` steps of Algorithm 2: the single move by which J rises most."""
    barrier, kind = scratch
    for step in range(max_steps):
        best, row, target = least_gain, -1, -1
        for d in range(caches.shape[0]):
            _set_barrier(similarity, caches, labels, sizes, fixed, floor, d, barrier)
            j = _best_claim(caches[d], barrier, kind)
            gain = caches[d, j] - barrier[j]
            if gain > best:
                best, row, target = gain, j, d
        if row < 0:
            return step
        _move(similarity, caches, labels, sizes, weights, row, target)
    return max_steps


# -- nearest neighbours by a table of closeness ----------------------------------------------------


@njit(cache=True, nogil=True)
def nearest(closeness, first, out):
    """Fill ``out`` (rows, count) with the columns of the largest entries of every row.

    Row i is column ``first + i`` itself, which is left out (``first`` < 0: none is). Of equal
    entries the first columns count.
    """
    rows, columns = closeness.shape
    count = out.shape[1]
    for i in range(rows):
        own = first + i if first >= 0 else -1
        held = 0
        least = closeness[i, 0]
        for j in range(columns):
            value = closeness[i, j]
            if (held == count and value <= least) or j == own:
                continue
            place = held if held < count else count - 1
            while place > 0 and closeness[i, out[i, place - 1]] < value:
                out[i, place] = out[i, place - 1]
                place -= 1
            out[i, place] = j
            if held < count:
                held += 1
            least = closeness[i, out[i, held - 1]]


@njit(cache=True, nogil=True)
def neighbour_means(neighbours, own, values, out):
    """Fill ``out`` with the means of the neighbours' values, or a row's own where it has one."""
    count = neighbours.shape[1]
    for i in range(neighbours.shape[0]):
        for h in range(values.shape[1]):
            if own[i] >= 0:
                out[i, h] = values[own[i], h]
            else:
                total = values[neighbours[i, 0], h]
                for j in range(1, count):
                    total += values[neighbours[i, j], h]
                out[i, h] = total / count
