"""Clusters found without labels, and those of them that may be a class that nobody has labelled."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from .._cluster_number import ClusterNumberChoice
from .._core.dedup import FitInput, make_input
from .._core.model import Model, trained
from .._data.source import MemoryRows
from ._fit import fit_least_squares
from ._settings import Settings

CLUSTERED_ROWS = 2000  # of fits without labels; others are predicted
# Probability of a cluster without labels by chance, below which it is told of. Clusters that are
# apart are few, so that chance has few opportunities; of others there are many.
BY_CHANCE, APART_BY_CHANCE = 1e-3, 0.05


def cluster_without_labels(
    X: Any, weights: np.ndarray, data: FitInput, s: Settings
) -> tuple[np.ndarray, Model]:
    """Cluster rows X, and return their labels and the model; ``data`` has threads and seed."""
    rows = MemoryRows(X)
    given = make_input(rows, weights, None, merge=not s.precomputed)
    given = replace(given, rng=data.rng, n_jobs=data.n_jobs, watch=data.watch)
    fewer = min(s.max_samples, CLUSTERED_ROWS)
    model = fit_least_squares(given, replace(s, max_samples=fewer, compared=False, n_resamples=0))
    found = trained(model, rows, weights, np.full(len(weights), -1), data.n_jobs)
    return np.asarray(found.labels), model


def unlabelled_cluster(
    clusterings: list[np.ndarray],
    weights: np.ndarray,
    labelled: np.ndarray,
    source: np.ndarray,
    by_chance: float = BY_CHANCE,
) -> str | None:
    """Return a sentence about the largest cluster without known labels, if that is no chance."""
    found = []
    for clusters in clusterings:
        share = np.bincount(clusters, weights) / weights.sum()
        missed = np.setdiff1d(np.flatnonzero(share), clusters[labelled])
        found += [(share[c], source[clusters == c].min()) for c in missed]
    share, row = max(found, default=(0.0, 0))
    if (1.0 - share) ** len(labelled) >= by_chance:
        return None
    return (
        f"{share:.0%} of the rows form a cluster without a known label (row {row} is in it), where "
        f"about {share * len(labelled):.0f} are expected if rows to label were chosen at random: "
        "there may be a class that nobody has labelled. Raise n_clusters to separate it."
    )


def unlabelled_apart(data: FitInput, s: Settings, apart: ClusterNumberChoice) -> str | None:
    """Return the sentence about clusters that are apart if there are more of them than of labels.

    Finer clusterings may divide a cluster without labels into parts so small that each can be
    without labels by chance.
    """
    if apart.uncertain or apart.n_clusters <= s.n_clusters:
        return None
    chosen = data.chosen(s.max_samples, s.precomputed)
    X, weights = data.X.take(chosen), data.weights[chosen]
    # Clusters that are apart need no long search.
    settings = replace(s, n_clusters=apart.n_clusters, n_kicks=0, time_budget=None)
    data = replace(data, rng=data.rng.spawn(1)[0])
    labels, _ = cluster_without_labels(X, weights, data, settings)
    labelled = np.flatnonzero(data.known[chosen] >= 0)
    source = data.source[chosen]
    return unlabelled_cluster([labels], weights, labelled, source, APART_BY_CHANCE)
