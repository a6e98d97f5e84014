"""Compiled functions of the modules beside: arrays in, results written in place."""

import numpy as np
from numba import njit

_MIX_A = np.uint64(0x9E3779B97F4A7C15)
_MIX_B = np.uint64(0xC2B2AE3D27D4EB4F)
_S33, _S29, _S32, _S1 = np.uint64(33), np.uint64(29), np.uint64(32), np.uint64(1)
U = np.uint64  # unsigned places spare the check for negative ones: a third of the time


# -- a 128-bit content fingerprint per row ---------------------------------------------------------
# The same for dense and CSR storage. Sorting rows by fingerprint puts equal rows side by side in an
# order that depends on their values alone.


@njit(cache=True, nogil=True, inline="always")
def _mix(h):
    h = (h ^ (h >> _S33)) * _MIX_A
    h = (h ^ (h >> _S29)) * _MIX_B
    return h ^ (h >> _S32)


@njit(cache=True, nogil=True)
def fingerprint_dense(bits, out):
    """Fill ``out`` (n, 2) from the float64 bit patterns ``bits`` (n, d); zeros do not count.

    A shift to the left takes away the sign, so that -0.0 is a zero, too.
    """
    for i in range(bits.shape[0]):
        a, b = _MIX_A, _MIX_B
        for j in range(bits.shape[1]):
            if bits[i, j] << _S1 != 0:
                key = bits[i, j] + _mix(np.uint64(j) + _MIX_B)
                a = _mix(a ^ key)
                b = _mix(b + key)
        out[i, 0], out[i, 1] = a, b


@njit(cache=True, nogil=True)
def fingerprint_csr(bits, indices, indptr, out):
    """The same fingerprint from CSR arrays with sorted indices."""
    for i in range(out.shape[0]):
        a, b = _MIX_A, _MIX_B
        for p in range(indptr[i], indptr[i + 1]):
            if bits[p] << _S1 != 0:
                key = bits[p] + _mix(np.uint64(indices[p]) + _MIX_B)
                a = _mix(a ^ key)
                b = _mix(b + key)
        out[i, 0], out[i, 1] = a, b


# -- products with a range of CSR rows -------------------------------------------------------------


@njit(cache=True, nogil=True)
def csr_row_scores(data, indices, begin, end, flat, shift, row):
    """``row = shift + x @ weights`` for one CSR row; ``flat`` is weights (d, m), row after row.

    Four sums at a time stay in registers; a loop over m inside would go through memory.
    """
    m, p = U(len(row)), U(0)
    while p + U(4) <= m:
        a, b, c, d = shift[p], shift[p + U(1)], shift[p + U(2)], shift[p + U(3)]
        for t in range(U(begin), U(end)):
            value, at = data[t], U(indices[t]) * m + p
            a += value * flat[at]
            b += value * flat[at + U(1)]
            c += value * flat[at + U(2)]
            d += value * flat[at + U(3)]
        row[p], row[p + U(1)], row[p + U(2)], row[p + U(3)] = a, b, c, d
        p += U(4)
    while p + U(2) <= m:
        a, b = shift[p], shift[p + U(1)]
        for t in range(U(begin), U(end)):
            value, at = data[t], U(indices[t]) * m + p
            a += value * flat[at]
            b += value * flat[at + U(1)]
        row[p], row[p + U(1)] = a, b
        p += U(2)
    if p < m:
        a = shift[p]
        for t in range(U(begin), U(end)):
            a += data[t] * flat[U(indices[t]) * m + p]
        row[p] = a


@njit(cache=True, nogil=True)
def csr_scores(data, indices, indptr, start, stop, weights, out):
    """``out[i - start] = x_i @ weights`` for rows ``start <= i < stop``; weights is (d, m)."""
    flat, shift = weights.ravel(), np.zeros(weights.shape[1], weights.dtype)
    for i in range(start, stop):
        csr_row_scores(data, indices, indptr[i], indptr[i + 1], flat, shift, out[i - start])


@njit(cache=True, nogil=True)
def csr_weighted_sum(data, indices, indptr, start, stop, codes, out):
    """``out += sum_i codes[i - start] x_i'`` over the rows; codes is (rows, m), out is (d, m)."""
    m = codes.shape[1]
    for i in range(start, stop):
        row = codes[i - start]
        for p in range(indptr[i], indptr[i + 1]):
            value, target = data[p], out[indices[p]]
            for j in range(m):
                target[j] += value * row[j]


# -- decisions -------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def decide(margins, labels, lead):
    """Write the place of each row's largest margin, the first of equal ones, and its lead.

    With one cluster the lead is the margin itself.
    """
    n, k = margins.shape
    for i in range(n):
        own, best, second = 0, margins[i, 0], -np.inf
        for p in range(1, k):
            value = margins[i, p]
            larger = value > best
            second = best if larger else max(second, value)
            own = p if larger else own
            best = value if larger else best
        labels[i] = own
        lead[i] = best - second if k > 1 else best


@njit(cache=True, nogil=True)
def dense_margins(data, offset, scale, columns, levels, tile, out):
    """``out = (data - offset) scale columns + levels``, tile by tile: rows are far from zero."""
    n, width = data.shape
    values = np.empty((min(tile, n), width), data.dtype)
    part = np.empty((min(tile, n), columns.shape[1]), data.dtype)
    for start in range(0, n, tile):
        size = min(start + tile, n) - start
        for i in range(size):
            for j in range(width):
                values[i, j] = (data[start + i, j] - offset[j]) * scale
        np.dot(values[:size], columns, part[:size])
        for i in range(size):
            for p in range(columns.shape[1]):
                out[start + i, p] = part[i, p] + levels[p]


@njit(cache=True, nogil=True)
def summarise(labels, lead, weights, known, sizes, first, certain, best):
    """Known labels replace others, their leads turned if they differ; sums by cluster.

    ``sizes`` receives weights, ``first`` the first row of positive weight, ``certain`` the row of
    the largest lead and ``best`` that lead. Returns the number of ties.
    """
    ties = 0
    for i in range(len(labels)):
        ties += lead[i] == 0.0
        if known[i] >= 0:
            lead[i] = lead[i] if known[i] == labels[i] else -lead[i]
            labels[i] = known[i]
        own = labels[i]
        sizes[own] += weights[i]
        if weights[i] > 0 and first[own] == len(labels):
            first[own] = i
        if lead[i] > best[own]:
            certain[own], best[own] = i, lead[i]
    return ties


@njit(cache=True, nogil=True)
def row_moments(data, shares, pivot, sums):
    """Add weighted sums of the rows' differences from a pivot, and of their squares."""
    for i in range(data.shape[0]):
        for j in range(data.shape[1]):
            value = np.float64(data[i, j]) - pivot[j]
            sums[0, j] += shares[i] * value
            sums[1, j] += shares[i] * value * value


@njit(cache=True, nogil=True)
def mirror_upper(A):
    """Copy the upper triangle of a square matrix into the lower one, in pieces that stay cached."""
    n = A.shape[0]
    for i in range(0, n, 32):
        for j in range(0, i + 1, 32):
            for a in range(i, min(i + 32, n)):
                for b in range(j, min(j + 32, a)):
                    A[a, b] = A[b, a]


# -- minimum sizes ---------------------------------------------------------------------------------
# Clusters are filled with the smallest loss of scores.


@njit(cache=True, nogil=True)
def _best_moves(scores, labels, fixed, stale, cost, row):
    """For stale clusters: least loss of moving one of their rows to each other one, and the row."""
    n, k = scores.shape
    for a in range(k):
        if stale[a]:
            cost[a] = np.inf
            row[a] = -1
    for i in range(n):
        a = labels[i]
        if stale[a] and not fixed[i]:
            for p in range(k):
                loss = scores[i, a] - scores[i, p]
                if loss < cost[a, p]:
                    cost[a, p] = loss
                    row[a, p] = i
    stale[:] = False


@njit(cache=True, nogil=True)
def _cheapest_path(cost, sizes, floor, weights, row, target, before):
    """Bellman-Ford from every cluster that can spare a row to ``target``; whether there is one."""
    k = len(sizes)
    distance = np.full(k, np.inf)
    before[:] = -1
    for a in range(k):
        if sizes[a] > floor:
            distance[a] = 0.0
    for _ in range(k):
        changed = False
        for a in range(k):
            if distance[a] < np.inf:
                for p in range(k):
                    if p == a or row[a, p] < 0:
                        continue
                    spared = sizes[a] - weights[row[a, p]] >= floor * (1.0 - 1e-9)
                    if before[a] < 0 and not spared:
                        continue
                    reach = distance[a] + cost[a, p]
                    if reach < distance[p] - 1e-12 * (1.0 + abs(reach)):
                        distance[p], before[p] = reach, a
                        changed = True
        if not changed:
            break
    return before[target] >= 0


@njit(cache=True, nogil=True)
def fill_clusters(scores, weights, fixed, floor, labels):
    """Move rows along successive shortest paths until no cluster is below the floor.

    Starting from every row at its best score, this keeps the assignment optimal for its sizes.
    Returns whether all clusters reached the floor.
    """
    n, k = scores.shape
    sizes = np.zeros(k)
    for i in range(n):
        sizes[labels[i]] += weights[i]
    cost, row = np.empty((k, k)), np.empty((k, k), np.int64)
    stale, before = np.ones(k, np.bool_), np.empty(k, np.int64)
    for _ in range(4 * n):
        target = 0
        for p in range(1, k):
            if sizes[p] < sizes[target]:
                target = p
        if sizes[target] >= floor * (1.0 - 1e-9):
            return True
        _best_moves(scores, labels, fixed, stale, cost, row)
        if not _cheapest_path(cost, sizes, floor, weights, row, target, before):
            return False
        p, steps = target, 0
        while before[p] >= 0 and steps <= k:
            a = before[p]
            i = row[a, p]
            labels[i] = p
            sizes[a] -= weights[i]
            sizes[p] += weights[i]
            stale[a], stale[p] = True, True
            p = a
            steps += 1
        if steps > k:  # a circle of equal losses
            return False
    return False


# -- single moves on J_p ---------------------------------------------------------------------------
# The ascent of Hartigan and Wong with tempered cluster sizes.


@njit(cache=True, nogil=True, fastmath=True)
def tempered_ascent(points, weights, fixed, labels, k, power, floor, rounds):
    """Move single rows while J_p = sum_h |sum_{i in h} points_i|^2 / W_h^p rises; return J_p.

    ``points`` are multiplied by their weights already; ``labels`` are changed in place. A cluster
    gives up no row that would leave it empty or below ``floor``.
    """
    n, r = points.shape
    sums, sizes, within = np.zeros((k, r)), np.zeros(k), np.zeros(k)
    for i in range(n):
        sizes[labels[i]] += weights[i]
        total = sums[labels[i]]
        for j in range(r):
            total[j] += points[i, j]
    for h in range(k):
        for j in range(r):
            within[h] += sums[h, j] * sums[h, j]
    least = max(floor, 1e-9 * sizes.sum())
    # Powers of the sizes as they are, with a row less and with a row more: they would take longer
    # than all else, and change only with the sizes and the weight of the row. -1: not known.
    last, same, fewer, more = -1.0, sizes**power, np.empty(k), np.empty(k)
    dots = np.empty(k)
    for _ in range(rounds):
        moves = 0
        for i in range(n):
            a, weight, point = labels[i], weights[i], points[i]
            if fixed[i] or sizes[a] - weight < least:
                continue
            if weight != last:
                last = weight
                fewer[:] = -1.0
                more[:] = -1.0
            if fewer[a] < 0.0:
                fewer[a] = (sizes[a] - weight) ** power
            square = 0.0
            for j in range(r):
                square += point[j] * point[j]
            for h in range(k):
                dot, total = 0.0, sums[h]
                for j in range(r):
                    dot += total[j] * point[j]
                dots[h] = dot
            here = within[a] / same[a]
            lost = here - (within[a] - 2.0 * dots[a] + square) / fewer[a]
            # A gain within rounding would let a row go to and fro.
            best, target = lost + 1e-9 * (here + square), a
            for h in range(k):
                if h != a:
                    if more[h] < 0.0:
                        more[h] = (sizes[h] + weight) ** power
                    before = within[h] / same[h] if sizes[h] > 0.0 else 0.0
                    joined = (within[h] + 2.0 * dots[h] + square) / more[h]
                    if joined - before > best:
                        best, target = joined - before, h
            if target != a:
                within[a] += square - 2.0 * dots[a]
                within[target] += square + 2.0 * dots[target]
                sizes[a] -= weight
                sizes[target] += weight
                for h in (a, target):
                    same[h], fewer[h], more[h] = sizes[h] ** power, -1.0, -1.0
                loser, winner = sums[a], sums[target]
                for j in range(r):
                    loser[j] -= point[j]
                    winner[j] += point[j]
                labels[i] = target
                moves += 1
        if moves == 0:
            break
    value = 0.0
    for h in range(k):
        if sizes[h] > 0.0:
            value += within[h] / sizes[h] ** power
    return value


# -- the best split of sorted scores ---------------------------------------------------------------
# Given scores g sorted upwards, a split at position m labels the free rows before m with -1 and the
# rest with +1; a common bias b is added to all scores. Each row then costs
#
#     0                 while  low <= g + b <= high        (low, high depend on its label)
#     low - (g + b)     below low,      (g + b) - high     above high
#
# which is the epsilon-insensitive loss for (y - eps, y + eps), the absolute loss for eps = 0, and
# the hinge loss for (-inf, -1) and (1, +inf). Giving one more row the label -1 only raises the
# slope of the total cost in b, so the best bias falls as m grows: all splits are searched by one
# walk down the kinks, O(n) after the sort.


@njit(cache=True, nogil=True, inline="always")
def _between(prefix, start, stop):
    """Sum over positions ``start <= i < stop`` from prefix sums; 0 if the range is empty."""
    return prefix[stop] - prefix[start] if stop > start else 0.0


@njit(cache=True, nogil=True)
def _slope(m, at, free, negative, positive):
    """Slope of the total cost in ``b`` on the open interval below the current kink."""
    n = free.shape[0] - 1
    rising = _between(free, at[1], m) + _between(negative, at[1], n)
    rising += _between(free, max(m, at[3]), n) + _between(positive, at[3], n)
    falling = _between(free, 0, min(m, at[0])) + negative[at[0]]
    falling += _between(free, m, at[2]) + positive[at[2]]
    return rising - falling


@njit(cache=True, nogil=True)
def _next_kink(g, kinks, at):
    """Largest kink not yet passed, or -inf."""
    n = g.shape[0]
    best = -np.inf
    for c in range(4):
        if np.isfinite(kinks[c]) and at[c] < n and kinks[c] - g[at[c]] > best:
            best = kinks[c] - g[at[c]]
    return best


@njit(cache=True, nogil=True)
def _pass_kink(g, kinks, at, b):
    n = g.shape[0]
    for c in range(4):
        if np.isfinite(kinks[c]):
            while at[c] < n and kinks[c] - g[at[c]] >= b:
                at[c] += 1


@njit(cache=True, nogil=True)
def _cost(m, b, at, kinks, free, free_g, negative, negative_g, positive, positive_g):
    """Total cost of split ``m`` at bias ``b`` from prefix sums of weights and weighted scores."""
    n = free.shape[0] - 1
    total = 0.0
    if at[1] < m:
        total += _between(free_g, at[1], m) + (b - kinks[1]) * _between(free, at[1], m)
    total += _between(negative_g, at[1], n) + (b - kinks[1]) * _between(negative, at[1], n)
    if at[0] > 0:
        stop = min(m, at[0])
        total += (kinks[0] - b) * (free[stop] + negative[at[0]]) - free_g[stop] - negative_g[at[0]]
    if at[3] < n:
        start = max(m, at[3])
        total += _between(free_g, start, n) + _between(positive_g, at[3], n)
        total += (b - kinks[3]) * (_between(free, start, n) + _between(positive, at[3], n))
    if at[2] > m:
        total += (kinks[2] - b) * _between(free, m, at[2]) - _between(free_g, m, at[2])
    total += (kinks[2] - b) * positive[at[2]] - positive_g[at[2]]
    return total


@njit(cache=True, nogil=True)
def best_piecewise_split(
    g, allowed, biases, kinks, at, free, free_g, negative, negative_g, positive, positive_g
):
    """Best (split, bias, cost) over the allowed splits of sorted scores ``g``.

    ``biases`` holds one falling bias per split to use as it is; empty, the best one is searched.
    ``kinks`` are (low, high) of label -1 and (low, high) of label +1; ``at`` is scratch that holds,
    per kink, how many rows lie past it and must come in as 0 (n for an infinite upper kink). The
    remaining arrays are prefix sums (length n + 1) of the weights, and of weight times score, of
    the free rows and of the rows whose label is fixed to -1 and to +1.
    """
    n = g.shape[0]
    b = _next_kink(g, kinks, at)
    _pass_kink(g, kinks, at, b)
    best_m, best_b, best_cost = -1, 0.0, np.inf
    given = biases.shape[0] > 0
    for m in range(n + 1):
        if given:
            b = biases[m]
            _pass_kink(g, kinks, at, b)
        slope = _slope(m, at, free, negative, positive)
        while slope > 0.0 and not given:
            ahead = _next_kink(g, kinks, at)
            if ahead == -np.inf:  # all kinks are passed: rounding alone keeps the slope positive
                break
            b = ahead
            _pass_kink(g, kinks, at, b)
            slope = _slope(m, at, free, negative, positive)
        if not allowed[m]:
            continue
        cost = _cost(m, b, at, kinks, free, free_g, negative, negative_g, positive, positive_g)
        if cost < best_cost:
            best_m, best_cost, best_b = m, cost, b
            # A flat stretch of minimisers: its middle does not depend on the direction of the walk.
            if slope == 0.0 and not given:
                left = _next_kink(g, kinks, at)
                if np.isfinite(left):
                    best_b = 0.5 * (b + left)
    return best_m, best_b, best_cost
