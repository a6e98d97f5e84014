"""From the scores of splits to clusters, their leads, their sizes and their most certain rows."""

from __future__ import annotations

import numpy as np

from ..kernels.decide import decide
from .rows import BLOCK, Rows, over_blocks, tiles_of


def cluster_scores(split_scores: np.ndarray, paths: np.ndarray) -> np.ndarray:
    """Scores (n, k) of the clusters from scores (n, m) of the splits.

    Examples
    --------
    >>> cluster_scores(np.array([[0.5], [-2.0]]), np.array([[-1.0], [1.0]]))
    array([[-0.5,  0.5],
           [ 2. , -2. ]])
    """
    if paths.shape[0] == paths.shape[1]:  # one score per cluster, not a tree
        return split_scores
    out = np.zeros((split_scores.shape[0], paths.shape[0]))
    for cluster, path in enumerate(paths):
        used = np.flatnonzero(path)
        if used.size:
            out[:, cluster] = (split_scores[:, used] * path[used]).min(axis=1)
    return out


def decisions(margins: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Best cluster of every row, and its lead over the next best.

    Examples
    --------
    >>> decisions(np.array([[0.5, 1.0], [2.0, -2.0]]))
    (array([1, 0], dtype=int32), array([0.5, 4. ]))
    """
    labels, lead = np.empty(len(margins), np.int32), np.empty(len(margins))
    decide(margins, labels, lead)
    return labels, lead


def decide_block(block: Rows, parts, coef, levels, paths):
    """Block kernel: the labels and leads of rows, as predict gives them.

    With parts (weights and known labels) also the weight of every cluster, its first row of
    positive weight and its most certain row, with that row's lead.
    """
    n, k = block.shape[0], len(paths)
    labels, lead = np.zeros(n, np.int32), np.zeros(n)
    if len(coef):
        columns = np.ascontiguousarray(coef.T, dtype=block.dtype)
        for i, j in tiles_of(n):
            split_scores = block.tile(i, j).scores(columns).astype(np.float64) + levels
            decide(cluster_scores(split_scores, paths), labels[i:j], lead[i:j])
    if not parts:
        return (labels, lead), None
    weights, known = parts
    lead = np.where((known >= 0) & (known != labels), -lead, lead)
    labels = np.where(known >= 0, known, labels)
    member = labels == np.arange(k)[:, None]
    held = np.where(member, lead, -np.inf)
    counts = member & (weights > 0)
    first = np.where(counts.any(axis=1), counts.argmax(axis=1), n)
    sizes = np.bincount(labels, weights, minlength=k)
    return (), (n, sizes, first, held.argmax(axis=1), held.max(axis=1, initial=-np.inf))


def falling_sizes(labels: np.ndarray, weights: np.ndarray | None, k: int) -> np.ndarray:
    """Cluster order of labels in input order: see :func:`cluster_numbers`.

    Examples
    --------
    >>> falling_sizes(np.array([2, 1, 0, 1, 0]), None, 3)
    array([1, 0, 2])
    >>> falling_sizes(np.array([2, 1, 0, 1, 0]), np.array([1.0, 0.0, 2.0, 2.0, 0.0]), 3)
    array([0, 1, 2])
    """
    first = np.full(k, len(labels))
    for start in range(0, len(labels), BLOCK):
        part = labels[start : start + BLOCK]
        rows = np.arange(len(part))
        if weights is not None:  # a row of weight zero counts like a row left out
            rows = np.flatnonzero(weights[start : start + BLOCK] > 0)
        found, at = np.unique(part[rows], return_index=True)
        first[found] = np.minimum(first[found], start + rows[at])
        if (first < len(labels)).all():
            break
    return cluster_numbers(counted(labels, weights, k), first)


def cluster_numbers(sizes: np.ndarray, first: np.ndarray) -> np.ndarray:
    """Clusters by falling size; equal sizes by the first row of the input that they contain.

    Examples
    --------
    >>> cluster_numbers(np.array([0.1 + 0.2, 0.3, 5.0]), np.array([7, 2, 9]))
    array([2, 1, 0])
    """
    # Sums of the same weights in another order differ in their last digits.
    return np.lexsort((first, -np.round(sizes / sizes.sum(), 12)))


def counted(labels: np.ndarray, weights: np.ndarray | None, k: int) -> np.ndarray:
    """Rows (or weight) of every cluster, block by block: bincount copies what it counts."""

    def block(start, stop):
        part = None if weights is None else weights[start:stop]
        return np.bincount(labels[start:stop], part, minlength=k)

    return sum(over_blocks(len(labels), block))


def exemplars(lead: np.ndarray, labels: np.ndarray, k: int) -> np.ndarray:
    """Most certain row of each cluster: the largest lead of its score over the next best."""
    found, best = np.full(k, -1), np.full(k, -np.inf)
    for start in range(0, len(labels), BLOCK):
        where = slice(start, start + BLOCK)
        for cluster in range(k):
            held = np.where(labels[where] == cluster, lead[where], -np.inf)
            at = int(held.argmax())
            if held[at] > best[cluster]:
                found[cluster], best[cluster] = start + at, held[at]
    return found
