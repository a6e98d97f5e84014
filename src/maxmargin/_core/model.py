"""The result of a method."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from .descent import CONVERGED


@dataclass(frozen=True)
class Model:
    """Linear splits in feature space, and how they determine the clusters.

    Attributes
    ----------
    features : feature map
        From raw rows to the features that the splits are linear in.
    coef, intercept : ndarray of shape (m, r) and (m,)
        One row per split.
    paths : ndarray of shape (k, m)
        Signs of the splits that lead to each cluster, 0 for splits that are not on its path. The
        score of a cluster is its smallest signed split score, so the cluster with the largest score
        is the leaf that a row reaches from the root.
    scores : ndarray of shape (n_given, k) or None
        Scores of the training rows if available; NaN for rows that were not in the fit.
    extras : dict
        Further fitted attributes by name.
    details : object
        Intermediate results for attributes that depend on the final labels; not published.
    """

    features: Any
    coef: np.ndarray
    intercept: np.ndarray
    paths: np.ndarray
    objective: float = 0.0
    history: list[float] = field(default_factory=list)
    n_iter: int = 0
    stop_reason: str = CONVERGED
    scores: np.ndarray | None = None
    extras: dict[str, Any] = field(default_factory=dict)
    details: Any = None

    @property
    def is_tree(self) -> bool:
        """Whether clusters are leaves of a tree; else there is one score for each."""
        return self.paths.shape[0] != self.paths.shape[1]

    def in_raw_rows(self) -> Model:
        """Return the model of a linear kernel in terms of raw rows."""
        fmap = self.features
        if fmap is None or fmap.landmarks is not None:
            return self
        coef = self.coef * fmap.scale
        intercept = self.intercept - coef @ fmap.offset
        return replace(self, coef=coef, intercept=intercept, features=replace(fmap, scale=1.0))

    def levels(self) -> np.ndarray:
        """Return what is added to the scores of centred rows.

        (x - o)'w + (b + o'w) is more precise than x'w + b far from the origin.
        """
        fmap = self.features
        return self.intercept + (self.coef @ fmap.offset if fmap.landmarks is None else 0.0)

    def shared(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return what block functions need to decide: coefficients, levels and paths."""
        return self.coef, self.levels(), self.paths

    def renumbered(self, order: np.ndarray) -> Model:
        """Return the model with clusters in this order; of two, a positive score means 1."""
        renumber = {name: value.renumbered(order) for name, value in self.extras.items()
                    if hasattr(value, "renumbered")}  # fmt: skip
        model = replace(self, extras=self.extras | renumber)
        if not self.is_tree:
            return replace(model, coef=self.coef[order], intercept=self.intercept[order])
        paths = self.paths[order]
        if len(paths) == 2 and len(self.coef) and paths[0, 0] > 0:
            return replace(model, paths=-paths, coef=-self.coef, intercept=-self.intercept)
        return replace(model, paths=paths)
