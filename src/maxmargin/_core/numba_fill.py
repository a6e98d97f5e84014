"""Compiled assignment: fill clusters to their minimum size with the smallest loss of scores."""

import numpy as np
from numba import njit


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
