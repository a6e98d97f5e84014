"""Results of a fit other than the model, and the sentences about them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .._core.dedup import FitInput


@dataclass(frozen=True)
class Details:
    """Results of a fit other than the model.

    Attributes
    ----------
    chosen : ndarray
        Rows of the input that were in the fit.
    labels, margins : ndarray
        Label and leave-one-out margin of each of them.
    scores : ndarray of shape (n_fitted, k)
        Scores of their regressions on the clusters' indicators.
    others : list of (float, ndarray)
        Other clusterings: relative difference of the objective, and labels of the fitted rows.
    whitened, scaled : bool
        Whether there was a first fit for the metric; whether columns were standardised.
    by_spread : bool
        Whether the clusters are those of the mixture, not of the largest J_p.
    by_connection : bool
        Whether they are connected groups of rows that are apart, not of the largest J_p.
    connected : bool
        Whether the clusters are such groups, of the largest J_p or not.
    size_margins : dict of float to float
        Mean leave-one-out margin for every size prior that was compared, if none was given.
    view_weights : dict of str to float, or None
        Weight of each view.
    view_fits : ndarray or None
        Leave-one-out R2 of the labels by each view.
    link_weight : str or None
        The weight of rows with constraints if it is not 1, and why.
    doubted : sequence of int
        Numbers of the constraints that were not used.
    """

    chosen: np.ndarray
    labels: np.ndarray
    margins: np.ndarray
    scores: np.ndarray
    others: list[tuple[float, np.ndarray]]
    whitened: bool
    scaled: bool
    by_spread: bool
    by_connection: bool
    connected: bool
    size_margins: dict[float, float]
    view_weights: dict[str, float] | None = None
    view_fits: np.ndarray | None = None
    link_weight: str | None = None
    doubted: Sequence[int] = ()

    def renumbered(self, order: np.ndarray) -> Details:
        """Return the same with the scores in this order of the clusters; labels stay."""
        return replace(self, scores=self.scores[:, order])

    def places(self, data: FitInput) -> np.ndarray:
        """Return, for every row that the user gave, its place among the fitted rows, or -1."""
        fitted = np.full(len(data.weights), -1)
        fitted[self.chosen] = np.arange(len(self.chosen))
        return np.where(data.inverse >= 0, fitted[data.inverse], -1)

    def sentences(self, data: FitInput, extras: dict[str, Any]) -> Iterator[str]:
        """Yield what the clusters are and how they were found."""
        if self.scaled:
            yield (
                "The columns were standardised, because their scales differ by more than a factor "
                "of 10; kernel='rbf' keeps them as they are."
            )
        if self.view_weights is not None:
            weights = ", ".join(f"{name} {w:.2f}" for name, w in self.view_weights.items())
            yield f"Weights of the views: {weights}."
        if self.whitened:
            yield (
                "The rows were clustered twice, the second time after whitening by the covariance "
                f"within the first clusters: {data.X.shape[1]} columns are few enough to estimate "
                "it."
            )
        if self.by_spread:
            yield (
                "The clusters differ in spread, not in location: they are those of a mixture with "
                "a scale per cluster, and their objective need not be the lowest."
            )
        if self.connected:
            lower = ", and their objective need not be the lowest"
            told = lower if self.by_connection else ""
            yield f"The clusters are connected groups of rows that are apart{told}."
        if len(self.size_margins) > 1:
            margins = (f"{margin:.2f} with {p:g}" for p, margin in self.size_margins.items())
            yield (
                f"size_prior={extras['size_prior_']:g} was used; mean leave-one-out margin: "
                f"{', '.join(margins)}."
            )
        fitted = len(self.chosen)
        if fitted < len(data.weights):
            yield (
                f"The model was fitted on {fitted:,} random rows and predicts the labels of the "
                f"other {data.n_given - fitted:,}."
            )
        if data.has_known:
            count = int((data.known >= 0).sum())
            yield f"Known labels kept: {count:,}; clusters are numbered accordingly."
        yield f"Leave-one-out accuracy: {extras['leave_one_out_']:.0%}."
