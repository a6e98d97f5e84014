"""Losses of links, known classes and free rows on their scores, with subgradients.

Each loss function adds weighted subgradients with respect to the scores to ``codes`` (n, k) and
returns its weighted sum of losses. ``first[j], second[j]`` are the rows of link j.
"""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def best_same(S, a, b):
    """Cluster z with the largest S[a, z] + S[b, z]."""
    best = 0
    for z in range(1, S.shape[1]):
        if S[a, z] + S[b, z] > S[a, best] + S[b, best]:
            best = z
    return best


@njit(cache=True, nogil=True)
def best_two(S, row):
    """The two best clusters of a row, better one first."""
    top, next_best = (0, 1) if S[row, 0] >= S[row, 1] else (1, 0)
    for z in range(2, S.shape[1]):
        if S[row, z] > S[row, top]:
            top, next_best = z, top
        elif S[row, z] > S[row, next_best]:
            next_best = z
    return top, next_best


@njit(cache=True, nogil=True)
def best_apart(S, a, b):
    """Clusters y != z with the largest S[a, y] + S[b, z]."""
    top_a, next_a = best_two(S, a)
    top_b, next_b = best_two(S, b)
    if top_a != top_b:
        return top_a, top_b
    if S[a, top_a] - S[a, next_a] >= S[b, top_b] - S[b, next_b]:
        return top_a, next_b
    return next_a, top_b


@njit(cache=True, nogil=True)
def desired_clusters(S, first, second, same, out):
    """Best clusters for each link among those that keep it: (15) and (16), into out (L, 2)."""
    for j in range(first.shape[0]):
        if same[j]:
            z = best_same(S, first[j], second[j])
            out[j, 0], out[j, 1] = z, z
        else:
            out[j, 0], out[j, 1] = best_apart(S, first[j], second[j])


@njit(cache=True, nogil=True)
def link_losses(S, first, second, same, weights, desired, codes):
    """{1 - [score of the desired clusters - best score that breaks the link]}_+ (21)."""
    total = 0.0
    for j in range(first.shape[0]):
        a, b = first[j], second[j]
        if same[j]:
            y, z = best_apart(S, a, b)
        else:
            y = best_same(S, a, b)
            z = y
        loss = 1.0 + S[a, y] + S[b, z] - S[a, desired[j, 0]] - S[b, desired[j, 1]]
        if loss > 0.0:
            w = weights[j]
            total += w * loss
            codes[a, y] += w
            codes[b, z] += w
            codes[a, desired[j, 0]] -= w
            codes[b, desired[j, 1]] -= w
    return total


@njit(cache=True, nogil=True)
def class_losses(S, rows, classes, weights, codes):
    """{1 - [score of the known class - best other score]}_+."""
    total = 0.0
    for j in range(rows.shape[0]):
        i, own = rows[j], classes[j]
        top, next_best = best_two(S, i)
        other = next_best if top == own else top
        loss = 1.0 + S[i, other] - S[i, own]
        if loss > 0.0:
            total += weights[j] * loss
            codes[i, other] += weights[j]
            codes[i, own] -= weights[j]
    return total


@njit(cache=True, nogil=True)
def free_losses(S, labels, weights, codes):
    """Sum over all clusters z of {1 - [score of the label - score of z]}_+ (21)."""
    total = 0.0
    k = S.shape[1]
    for i in range(S.shape[0]):
        w = weights[i]
        if w == 0.0:
            continue
        own = labels[i]
        lead = 0.0
        broken = 0.0
        for z in range(k):
            loss = 1.0 + S[i, z] - S[i, own]
            # z = own has loss 1 for any scores: no subgradient.
            if loss > 0.0:
                lead += loss
                if z != own:
                    codes[i, z] += w
                    broken += w
        codes[i, own] -= broken
        total += w * lead
    return total


@njit(cache=True, nogil=True)
def hu_losses(S, first, second, same, weights, codes):
    """Losses of Hu et al.: (2), must-links sum_z |difference| / k, cannot-links (3)."""
    total = 0.0
    k = S.shape[1]
    for j in range(first.shape[0]):
        a, b, w = first[j], second[j], weights[j]
        if same[j]:
            for z in range(k):
                difference = S[a, z] - S[b, z]
                total += w * abs(difference) / k
                step = w * np.sign(difference) / k
                codes[a, z] += step
                codes[b, z] -= step
        else:
            z = best_same(S, a, b)
            mean = 0.0
            for s in range(k):
                mean += (S[a, s] + S[b, s]) / k
                codes[a, s] -= w / k
                codes[b, s] -= w / k
            total += w * (S[a, z] + S[b, z] - mean)
            codes[a, z] += w
            codes[b, z] += w
    return total
