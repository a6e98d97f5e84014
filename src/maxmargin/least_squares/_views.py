r"""Views: groups of columns that describe the same rows, each with a similarity of its own.

.. math:: R = \tfrac12 \sum_v w_v\, R_v + \tfrac12 R_\mathrm{graph}

R_v is the R of a Gaussian kernel of the columns of view v, whose width is that of the view. The
graph has the nearest neighbours by :math:`\sum_v w_v |x_v - x_v'|^2`, where every view is scaled
to unit variance. Weights are equal in a first fit; in a second one they are proportional to the
leave-one-out R2 with which each R_v predicts the first clusters, so that a view of noise has none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy import sparse

from .._core.dedup import FitInput
from ._graph import MixedSimilarity
from ._similarity import column_scales

UNLIKE_SCALES = 10.0  # of the largest column over the median: distances are those of one column


def views_of(views: Any, kernel: Any, n_clusters: int | None, data: FitInput) -> Any:
    """Return the column indices of each view, None without views, or raise an error."""
    if views is None:
        return None
    gaussian = isinstance(kernel, str) and kernel in ("auto", "rbf")
    if not gaussian or sparse.issparse(data.X.take(slice(0, 1))):
        got = "sparse X" if gaussian else f"kernel={kernel!r}"
        raise ValueError(f'views needs dense X and kernel="auto" or "rbf"; got {got}.')
    known = np.unique(data.known[data.known >= 0])
    if len(known) and len(known) == (n_clusters or known.max() + 1):
        raise ValueError("views cannot be combined with known labels of every cluster.")
    return checked_views(views, data.X.shape[1], data.names)


def checked_views(views: Any, d: int, names: np.ndarray | None) -> dict[str, np.ndarray]:
    """Return the column indices of each view, or raise an error.

    Examples
    --------
    >>> checked_views({"size": ["a", "c"], "rest": [1]}, 3, np.array(["a", "b", "c"], object))
    {'size': array([0, 2]), 'rest': array([1])}
    """
    if not isinstance(views, Mapping) or not views:
        raise ValueError(
            "views must be a dict of view names to lists of columns, with one view at least; got "
            f"{views!r}."
        )
    return {str(view): _indices(view, columns, d, names) for view, columns in views.items()}


def _indices(view, columns, d: int, names) -> np.ndarray:
    columns = [columns] if isinstance(columns, str) else list(columns)
    places = {} if names is None else {name: i for i, name in enumerate(names)}
    found = [places.get(c, c) for c in columns]
    for given, i in zip(columns, found):
        if isinstance(i, bool) or not isinstance(i, int | np.integer) or not 0 <= i < d:
            named = "" if names is None else "column names of X, and "
            raise ValueError(
                f"views[{view!r}] contains {given!r}; accepted are {named}integers from 0 to "
                f"{d - 1}."
            )
    if not found or len(set(found)) < len(found):
        raise ValueError(
            f"views[{view!r}] must contain at least one column, each once; got {columns!r}."
        )
    return np.array(found, np.intp)


def view_axes(X: np.ndarray, weights: np.ndarray, views: dict[str, np.ndarray]):
    """Return, for each view, axes (d, d_v) onto its columns, scaled to a total variance of 1.

    Columns of very different scales are standardised within the view.
    """
    found = []
    for columns in views.values():
        part = np.asarray(X[:, columns], np.float64)
        scales, ratio = column_scales(part, weights)
        part = part / scales if ratio > UNLIKE_SCALES else part
        share = weights / weights.sum()
        total = float(np.sqrt((share @ (part - share @ part) ** 2).sum())) or 1.0
        axes = np.zeros((X.shape[1], len(columns)))
        axes[columns, np.arange(len(columns))] = 1.0 / total
        found.append(axes / scales if ratio > UNLIKE_SCALES else axes)
    return found


def view_fits(similarity: MixedSimilarity, caches: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the leave-one-out R2 of the labels by each view; not below 0."""
    k, w = len(caches), similarity.weights / similarity.weights.sum()
    indicators = labels[:, None] == np.arange(k)
    share = w @ indicators
    spread = max(float((share * (1.0 - share)).sum()), 1e-12)
    found = similarity.part_caches(caches, labels)[1:-1]
    scores = [p.leave_one_out(own, labels) for p, own in zip(similarity.parts[1:], found)]
    fits = [1.0 - float((w @ (indicators - score) ** 2).sum()) / spread for score in scores]
    return np.maximum(fits, 0.0)


def view_weights(fits: np.ndarray) -> np.ndarray:
    """Return weights proportional to the R2, equal ones if all are zero."""
    fits = fits if fits.any() else np.ones(len(fits))
    weights: np.ndarray = fits / fits.sum()
    return weights
