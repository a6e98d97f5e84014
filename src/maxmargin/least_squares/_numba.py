"""Compiled label searches on the caches T_h = R y_h (used by ``_label_search.py``).

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
def add_members(similarity, labels, caches, start, stop):
    """Add the rows of every cluster to its cache, in a fixed order, between two columns."""
    for j in range(len(labels)):
        if labels[j] >= 0:
            # Of a slice of all columns, the compiler would not know that it is contiguous by rows.
            row, cache = similarity[j, start:stop], caches[labels[j], start:stop]
            for i in range(row.shape[0]):
                cache[i] += row[i]


@njit(cache=True, nogil=True)
def submatrix(matrix, rows):
    """Return the entries between some rows; numpy's indexing would hold other threads up."""
    part = np.empty((len(rows), len(rows)), matrix.dtype)
    for i in range(len(rows)):
        row = matrix[rows[i]]
        for j in range(len(rows)):
            part[i, j] = row[rows[j]]
    return part


@njit(cache=True, nogil=True)
def add_products(matrix, columns, rows):
    """Add products of columns and rows to a matrix, which is read once."""
    for i in range(matrix.shape[0]):
        out = matrix[i]
        for m in range(columns.shape[0]):
            factor, row = columns[m, i], rows[m]
            for j in range(out.shape[0]):
                out[j] += factor * row[j]


@njit(cache=True, nogil=True)
def add_scaled(matrix, factor, other):
    """Add a multiple of another matrix, without a copy."""
    for i in range(matrix.shape[0]):
        out, row = matrix[i], other[i]
        for j in range(out.shape[0]):
            out[j] += factor * row[j]


@njit(cache=True, nogil=True)
def cluster_sums(caches, labels, weights):
    """Return the sums y_h' R y_h within the clusters, and the weights of the clusters."""
    within, sizes = np.zeros(len(caches)), np.zeros(len(caches))
    for i in range(len(labels)):
        within[labels[i]] += caches[labels[i], i]
        sizes[labels[i]] += weights[i]
    return within, sizes


@njit(cache=True, nogil=True)
def tempered_value(caches, labels, weights, power):
    """Return J_p = sum_h y_h' R y_h / n_h^p over the clusters that have rows."""
    within, sizes = cluster_sums(caches, labels, weights)
    value = 0.0
    for h in range(len(sizes)):
        if sizes[h] > 0.0:
            value += within[h] / sizes[h] ** power
    return value


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
    moves, k = 0, len(sizes)
    # Powers take most of the time: those of the sizes, with and without a row, and J_h are kept.
    unit, powers, values = -1.0, np.empty((3, k)), np.empty(k)
    shrunk, whole, grown = powers
    for j in order:
        source = labels[j]
        if fixed[j] or sizes[source] <= floor:
            continue
        if power > 0.0:
            if weights[j] != unit:
                unit = weights[j]
                for d in range(k):
                    _set_powers(d, sizes, unit, within, power, powers, values)
            if sizes[source] - unit <= 1e-9 * unit:
                continue  # a cluster is never emptied
            own, target = similarity[j, j], source
            left = (within[source] - 2.0 * caches[source, j] + own) / shrunk[source]
            lost = values[source] - left
            # Gains below the rounding error of the caches would move a row back and forth.
            best = 1e-6 * abs(own) / whole[source]
            for d in range(k):
                if d != source:
                    joined = (within[d] + 2.0 * caches[d, j] + own) / grown[d]
                    if joined - values[d] - lost > best:
                        best, target = joined - values[d] - lost, d
        else:
            stay = caches[source, j] - similarity[j, j]
            best, target = 0.0, source
            for d in range(k):
                if d != source and caches[d, j] - stay > best:
                    best, target = caches[d, j] - stay, d
        if target == source:
            continue
        within[source] += similarity[j, j] - 2.0 * caches[source, j]
        within[target] += similarity[j, j] + 2.0 * caches[target, j]
        _move(similarity, caches, labels, sizes, weights, j, target)
        moves += 1
        if power > 0.0:
            _set_powers(source, sizes, unit, within, power, powers, values)
            _set_powers(target, sizes, unit, within, power, powers, values)
    return moves


@njit(cache=True, nogil=True)
def _set_powers(d, sizes, unit, within, power, powers, values):
    """Set n_d^p with a row of weight ``unit`` less, as it is, and with one more, and J_d."""
    powers[0, d] = max(sizes[d] - unit, 0.0) ** power
    powers[1, d] = sizes[d] ** power
    powers[2, d] = (sizes[d] + unit) ** power
    values[d] = within[d] / powers[1, d] if sizes[d] > 0.0 else 0.0


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


# -- rows with cannot-links ------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _chain(labels, indptr, indices, j, target, alone, chain, side):
    """Find the rows that move with row j to ``target`` so that no cannot-link is newly violated.

    Rows linked to a row that arrives in their cluster go the other way, and so on, unless row j is
    to move ``alone``. ``side`` becomes -1 for rows that leave j's cluster and 1 for those that join
    it. Returns the number of rows.
    """
    source = labels[j]
    chain[0], side[j], length, at = j, -1, 1, 0
    while at < length and not alone:
        r = chain[at]
        arrives = target if side[r] < 0 else source
        for place in range(indptr[r], indptr[r + 1]):
            q = indices[place]
            if side[q] == 0 and labels[q] == arrives:
                side[q] = -side[r]
                chain[length] = q
                length += 1
        at += 1
    return length


@njit(cache=True, nogil=True)
def _newly_violated(labels, indptr, indices, strengths, chain, side, source, target):
    """Weight of the violated cannot-links after a chain has moved, minus that before."""
    change = 0.0
    for r in chain:
        arrives = target if side[r] < 0 else source
        for place in range(indptr[r], indptr[r + 1]):
            q = indices[place]
            share = strengths[place] * (1.0 if side[q] == 0 else 0.5)  # both ends count it
            goes = labels[q]
            if side[q] != 0:
                goes = target if side[q] < 0 else source
            change += share * ((goes == arrives) - (labels[q] == labels[r]))
    return change


@njit(cache=True, nogil=True)
def swap_chains(
    similarity, caches, labels, sizes, weights, fixed, floor, within, power, cannot, repair
):
    """Swap chains of cannot-linked rows between two clusters. Returns the number of swaps.

    A single row can rarely move if a cannot-link is then violated; a chain of rows (Kempe's) can.
    A swap is made if fewer links are violated or, unless only to ``repair`` them, J_p rises.
    ``cannot`` has the links in CSR form.
    """
    indptr, indices, strengths = cannot
    n, k = len(labels), len(caches)
    chain, side = np.empty(n, np.int64), np.zeros(n, np.int8)
    tried = np.zeros((n, k), np.bool_)
    swaps = 0
    for j in range(n):
        if fixed[j] or indptr[j] == indptr[j + 1]:
            continue
        source, best, least, gain = labels[j], labels[j], 0.0, NEVER if repair else 0.0
        by_itself = False
        for d in range(k):
            for alone in (False, True):
                if d == source or (tried[j, d] and not alone):
                    continue
                length = _chain(labels, indptr, indices, j, d, alone, chain, side)
                some = chain[:length]
                joined, sums, cross, own, free = 0.0, 0.0, 0.0, 0.0, True
                for r in some:
                    if not alone:
                        tried[r, d if side[r] < 0 else source] = True
                    free = free and not fixed[r]
                    joined += side[r] * weights[r]
                    sums += side[r] * caches[source, r]
                    cross += side[r] * caches[d, r]
                    own += abs(similarity[r, r])
                left, filled = sizes[source] + joined, sizes[d] - joined
                held = left >= min(floor, sizes[source]) and filled >= min(floor, sizes[d])
                held = held and min(left, filled) > 1e-9 * weights[j]
                change = _newly_violated(labels, indptr, indices, strengths, some, side, source, d)
                if free and held and change < least + 1e-9:
                    square = 0.0
                    for r in some:
                        for q in some:
                            square += side[r] * side[q] * similarity[r, q]
                    rise = (within[source] + 2.0 * sums + square) / left**power
                    rise += (within[d] - 2.0 * cross + square) / filled**power
                    rise -= within[source] / sizes[source] ** power
                    if sizes[d] > 0.0:
                        rise -= within[d] / sizes[d] ** power
                    # Gains below the rounding error of the caches would move rows back and forth.
                    rounding = 1e-6 * own / sizes[source] ** power
                    if change < least - 1e-9 or rise > max(gain, rounding):
                        best, by_itself, gain, least = d, alone, rise, min(least, change)
                for r in some:
                    side[r] = 0
        if best != source:
            length = _chain(labels, indptr, indices, j, best, by_itself, chain, side)
            for r in chain[:length]:
                goes = best if side[r] < 0 else source
                came = labels[r]
                within[came] += similarity[r, r] - 2.0 * caches[came, r]
                within[goes] += similarity[r, r] + 2.0 * caches[goes, r]
                _move(similarity, caches, labels, sizes, weights, r, goes)
                side[r] = 0
            swaps += 1
    return swaps


# -- groups along the shortest links ---------------------------------------------------------------


@njit(cache=True, nogil=True)
def joined_links(rows, columns, weights, k, least, enough):
    """Return the number of links after which k groups of a ``least`` weight hold ``enough``.

    Links are those of a tree, the shortest first; -1 if there is no such number.
    """
    parent, size = np.arange(len(weights)), weights.copy()
    large, covered, found, complete = 0, 0.0, -1, False
    for i in range(len(weights)):
        if size[i] >= least:
            large, covered = large + 1, covered + size[i]
    for at in range(len(rows)):
        a, b = rows[at], columns[at]
        while parent[a] != a:
            parent[a] = parent[parent[a]]
            a = parent[a]
        while parent[b] != b:
            parent[b] = parent[parent[b]]
            b = parent[b]
        first, second = size[a] >= least, size[b] >= least
        if first and second:
            found = at if complete else found
            large -= 1
        covered -= (size[a] if first else 0.0) + (size[b] if second else 0.0)
        parent[b] = a
        size[a] += size[b]
        if size[a] >= least:
            covered += size[a]
            large += not (first or second)
        complete = large == k and covered >= enough
    return len(rows) if complete else found
