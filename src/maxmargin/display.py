"""Plots of a clustering; matplotlib is imported only when needed."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from ._files import needed, plural
from ._steps import all_numbers, as_rows, column_names, last_step, prepared, quietly
from .inspection import usual_range

__all__ = ["plot_clusters", "plot_comparison", "plot_history", "plot_kernel_weights", "row_margins"]

# Okabe and Ito's palette for colour-blind readers; the last two are for k > 8.
COLOURS = (
    "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#8C6D31", "#999999",
    "#6A3D9A", "#B15928",
)  # fmt: skip
INK = "#333333"
GOLDEN = 0.6180339887  # turn of the hue whose multiples stay apart
MAX_POINTS = 4000
GRID = 240
PAD = 0.06  # beside the rows, as a share of their range


def row_margins(scores: np.ndarray) -> np.ndarray:
    """Return the margin of each row: half the difference of its two largest scores.

    For two clusters with opposite scores this is the absolute score; it is 1 on the margin.

    Parameters
    ----------
    scores : ndarray of shape (n_rows, n_clusters)
        Scores from `decision_function`.

    Returns
    -------
    ndarray of shape (n_rows,)
        Margins, never negative; the score itself if there is only one cluster.

    See Also
    --------
    maxmargin.display.plot_clusters : Plot the clusters of a model.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.display import row_margins
    >>> row_margins(np.array([[1.0, -1.0], [0.25, 0.5]]))
    array([1.   , 0.125])
    """
    if scores.shape[1] == 1:
        return scores[:, 0]
    top_two = np.partition(scores, -2, axis=1)[:, -2:]
    return 0.5 * (top_two[:, 1] - top_two[:, 0])


def scored_rows(model: Any, X: Any) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Return the scores of rows, and their confidence and outliers if the model tells them."""
    model, X = last_step(model), prepared(model, X)
    if hasattr(model, "_calibration"):
        found = np.asarray(model._certainty_columns(X, with_scores=True))
        outliers = found[:, -1] <= model._outliers.level
        return found[:, :-2], {"confidence": found[:, -2], "outliers": outliers}
    # A fit without resamples has outliers only; other methods have neither.
    others = {"outliers": model.is_outlier(X)} if hasattr(model, "_outliers") else {}
    return np.asarray(model.decision_function(X)), others


def plot_clusters(model: Any, X: Any, labels: np.ndarray | None = None, ax: Any = None) -> Any:
    """Plot the rows, coloured by cluster, and the decision boundaries.

    Data with two columns are plotted directly, on the predicted regions, with the boundary (solid)
    and the margins (dashed). With more columns, two clusters are plotted as margin against the
    first principal component, and more clusters on the first two components, of the rows as the
    model compares them (prepared by a pipeline, standardised, whitened). Rings mark the row with
    the largest margin of each cluster.

    Parameters
    ----------
    model : estimator
        A fitted estimator, or a pipeline that ends in one.
    X : array-like or DataFrame of shape (n_rows, n_columns)
        Rows as ``model.predict`` accepts them. At most 4000 of them are plotted. A few rows far
        from all others are drawn at the edge as crosses, if they would squeeze the picture.
    labels : ndarray of shape (n_rows,), default=None
        Colour the rows by these labels instead of their clusters.
    ax : matplotlib.axes.Axes, default=None
        Axes to plot on; None creates a figure.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.

    See Also
    --------
    maxmargin.report : A page about the clusters.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from maxmargin import AlternatingMarginClustering
    >>> from maxmargin.display import plot_clusters
    >>> X, _ = make_moons(60, noise=0.05, random_state=0)
    >>> model = AlternatingMarginClustering(random_state=0).fit(X)
    >>> plot_clusters(model, X).get_xlabel()
    'column 0'
    """
    ax = _axes(ax)
    X = as_rows(X)
    names = column_names(X)
    scores = quietly(model.decision_function, X)
    clusters = scores.argmax(axis=1)
    colours = clusters if labels is None else np.asarray(labels)
    margins = row_margins(scores)
    members = [np.flatnonzero(clusters == j) for j in range(scores.shape[1])]
    exemplars = [rows[margins[rows].argmax()] for rows in members if len(rows)]
    if X.shape[1] == 2 and not sparse.issparse(X) and all_numbers(X):
        points = np.asarray(X, dtype=float)
        ends = _ends(points, clusters)
        _draw_regions(ax, model, ends)
        _name_axes(ax, *names)
    else:
        points, x_name, y_name = _project(_model_space(model, X), scores)
        ends = _ends(points, clusters)
        _name_axes(ax, x_name, y_name)
        if scores.shape[1] == 2:
            ax.axhline(0, color=INK, lw=1.4, zorder=1)
            width = _margin_width(scores)
            for level in (-width, width):
                ax.axhline(level, color=INK, lw=0.9, ls=(0, (4, 3)), zorder=1)
    _draw_points(ax, points, colours, np.array(exemplars, dtype=int), ends)
    return ax


def plot_history(model: Any, ax: Any = None) -> Any:
    """Plot the objective after each iteration.

    Parameters
    ----------
    model : estimator
        A fitted estimator with `history_`, or a pipeline that ends in one.
    ax : matplotlib.axes.Axes, default=None
        Axes to plot on; None creates a figure.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.

    See Also
    --------
    maxmargin.TimeLimit : Stop a fit after some seconds.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> from maxmargin.display import plot_history
    >>> model = SimpleNamespace(history_=[3.0, 2.0, 1.9], stop_reason_="converged")
    >>> plot_history(model).get_ylabel()
    'objective'
    """
    ax = _axes(ax)
    model = last_step(model)
    history = np.asarray(model.history_, dtype=float)
    steps = np.arange(len(history))
    dotted = "o-" if len(history) <= 60 else "-"
    ax.plot(steps, history, dotted, color=COLOURS[0], lw=1.6, ms=4)
    _name_axes(ax, "iteration", "objective")
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.set_xlim(-0.3, max(len(history) - 1, 1) + 0.3)
    ax.grid(True, axis="y", color="#DDDDDD", lw=0.6)
    ax.set_axisbelow(True)
    ax.set_title(f"{history[-1]:.6g} ({model.stop_reason_})", fontsize=10, color=INK)
    return ax


def plot_comparison(
    baseline: Any, ours: Any, names: Any, ax: Any = None, *, baseline_name: str = "k-means"
) -> Any:
    """Plot the errors of two methods on many data sets against each other.

    Points below the diagonal are data sets on which the second method is better. The names of those
    farthest from it are shown. The axes have square-root scales to separate small errors.

    Parameters
    ----------
    baseline, ours : array-like of shape (n_sets,)
        Errors from 0 to 1.
    names : sequence of str
        Names of the data sets.
    ax : matplotlib.axes.Axes, default=None
        Axes to plot on; None creates a figure.
    baseline_name : str, default="k-means"
        Name of the first method, for the axis label.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.

    See Also
    --------
    maxmargin.display.plot_clusters : Plot the clusters of one model.

    Examples
    --------
    >>> from maxmargin.display import plot_comparison
    >>> plot_comparison([0.2, 0.1], [0.1, 0.1], ["a", "b"]).get_xlabel()
    'error of k-means'
    """
    ax = _axes(ax)
    x, y = 100 * np.asarray(baseline, dtype=float), 100 * np.asarray(ours, dtype=float)
    high = 1.15 * max(x.max(), y.max(), 1.0)
    ax.plot([0, high], [0, high], color="#AAAAAA", lw=1, zorder=0)
    ax.scatter(x, y, s=30, color=COLOURS[0], alpha=0.75, edgecolors="white", lw=0.5, clip_on=False)
    for i in np.argsort(-abs(x - y), kind="stable")[:6]:
        ax.annotate(
            names[i], (x[i], y[i]), xytext=(5, -3) if y[i] < x[i] else (-5, 4),
            textcoords="offset points", ha="left" if y[i] < x[i] else "right", fontsize=8,
            color=INK,
        )  # fmt: skip
    _name_axes(ax, f"error of {baseline_name}", "error of maxmargin")
    roots = (lambda values: np.sqrt(np.maximum(values, 0))), np.square
    ax.set_xscale("function", functions=roots)
    ax.set_yscale("function", functions=roots)
    ticks = [tick for tick in (0, 1, 5, 10, 20, 30, 40, 60, 80) if tick < high]
    for axis, set_limits in ((ax.xaxis, ax.set_xlim), (ax.yaxis, ax.set_ylim)):
        axis.set_ticks(ticks, [f"{tick} %" for tick in ticks])
        set_limits(0, high)
    ax.set_aspect("equal")
    return ax


def plot_parameter_choice(choice: Any, ax: Any = None) -> Any:
    """Plot the score of every gamma and ridge of a `ParameterChoice` and mark the best."""
    ax = _axes(ax)
    gammas = sorted({row["gamma"] for row in choice.table})
    ridges = sorted({row["ridge"] for row in choice.table})
    scores = np.full((len(gammas), len(ridges)), np.nan)
    for row in choice.table:
        scores[gammas.index(row["gamma"]), ridges.index(row["ridge"])] = row["score"]
    image = ax.imshow(scores, origin="lower", cmap="Blues", vmin=0, vmax=1, aspect="auto")
    for (i, j), value in np.ndenumerate(scores):
        shade = "white" if value > 0.6 else INK
        ax.text(j, i, f"{value:.2f}", ha="center", va="center", fontsize=9, color=shade)
    best = (ridges.index(choice.best["ridge"]), gammas.index(choice.best["gamma"]))
    ax.plot(*best, "s", ms=26, mfc="none", mec=COLOURS[1], mew=2)
    ax.set_xticks(range(len(ridges)), [f"{r:g}" for r in ridges])
    ax.set_yticks(range(len(gammas)), [f"{g:.3g}" for g in gammas])
    _name_axes(ax, "ridge", "gamma")
    ax.figure.colorbar(image, ax=ax, label="stability x leave-one-out accuracy")
    return ax


def plot_n_clusters(choice: Any, ax: Any = None, nearly: float = 0.85) -> Any:
    """Plot the separation or stability of each number of clusters and mark the chosen number.

    Without an estimator: the curve is the separation of the weakest of k clusters; the dashed
    line is that of two clusters in data without clusters. With an estimator: the band is one
    standard deviation of the agreement between two subsamples; numbers above the dashed line, at
    `nearly` times the highest one, count as nearly as stable as the best.
    """
    ax = _axes(ax)
    k = choice.k_values
    ring = {"ms": 14, "mfc": "none", "mec": COLOURS[4], "mew": 2, "ls": ""}
    doubt = " (uncertain)" if choice.uncertain else ""
    name = f"{choice.n_clusters} cluster{'s' * (choice.n_clusters > 1)}{doubt}"
    if choice.separation is not None:
        heights, unit = choice.separation, "fall of the density (standard errors)"
        ax.plot(k, heights, "o-", color=COLOURS[0], lw=1.6, ms=4, label="between k clusters")
        level = choice.without_clusters[0]
        if np.isfinite(level):
            told = {"label": "data without clusters"}
            ax.axhline(level, color="#AAAAAA", lw=1, ls=(0, (4, 3)), zorder=0, **told)
        ax.set_ylim(0.0, 1.05 * float(heights.max()))
    else:
        heights, unit = choice.stability, "adjusted Rand index, Jaccard index"
        low, high = heights - choice.spread, np.minimum(heights + choice.spread, 1.0)
        ax.fill_between(k, low, high, color=COLOURS[0], alpha=0.15, lw=0)
        ax.plot(k, heights, "o-", color=COLOURS[0], lw=1.6, ms=4, label="agreement of two parts")
        worst = {"color": COLOURS[2], "lw": 1.4, "label": "cluster found again least"}
        ax.plot(k, choice.worst_cluster, ":", **worst)
        null = choice.without_clusters
        if np.isfinite(null).any():
            ax.plot(k, null, "_", color=INK, ms=14, mew=2, label="without clusters")
        ax.axhline(nearly * heights.max(), color="#AAAAAA", lw=1, ls=(0, (4, 3)), zorder=0)
        ax.set_ylim(min(0.0, float(low.min())), 1.03)
    at = k == choice.n_clusters
    ax.plot(k[at], heights[at], "o", label=name, **ring)
    _name_axes(ax, "number of clusters", unit)
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.legend(frameon=False, fontsize=9, loc="best")
    return ax


def _axes(ax: Any) -> Any:
    if ax is not None:
        return ax
    pyplot = needed("matplotlib.pyplot", "plot")
    return pyplot.subplots(figsize=(6.4, 4.8), layout="constrained")[1]


def _model_space(model: Any, X: Any) -> Any:
    """Return rows as the model compares them: prepared, standardised and whitened."""
    X = prepared(model, X)
    X = X if sparse.issparse(X) else np.asarray(X)
    features = getattr(getattr(last_step(model), "feature_map_", None), "metric", None)
    if features is None or sparse.issparse(X) or features.kernels[0].kernel == "precomputed":
        return X
    return features.kernels[0].points(X)


def _project(X: Any, scores: np.ndarray) -> tuple[np.ndarray, str, str]:
    """Return two coordinates per row: principal components, or one and the margin."""
    from sklearn.decomposition import PCA

    by_margin = scores.shape[1] == 2 or X.shape[1] == 1
    if X.shape[1] == 1:
        main, x_name = X.toarray() if sparse.issparse(X) else X, "the column"
    else:
        pca = PCA(1 if by_margin else 2, svd_solver="arpack", random_state=0)
        main, x_name = pca.fit_transform(X), "first principal component"
    if not by_margin:
        return main, x_name, "second principal component"
    if scores.shape[1] == 2:
        # Half the lead, not the score: it changes its sign at the boundary for every estimator.
        return np.column_stack([main[:, 0], _lead(scores, 1)]), x_name, "margin of cluster 1"
    return np.column_stack([main[:, 0], row_margins(scores)]), x_name, "margin"


def _lead(scores: np.ndarray, cluster: int) -> np.ndarray:
    """Return half the lead of a cluster's score over the best other: 0 on the boundary."""
    return 0.5 * (scores[:, cluster] - np.delete(scores, cluster, axis=1).max(axis=1))


def _margin_width(scores: np.ndarray) -> float:
    """Return half the lead on the margin: scores 1 and 0 (if they sum to 1), or 1 and -1."""
    return 0.5 if np.allclose(scores.sum(axis=1), 1.0, atol=1e-3) else 1.0


def _ends(points: np.ndarray, clusters: np.ndarray) -> np.ndarray:
    """Return the low and the high ends of the axes: a few rows far away would squeeze the others.

    An axis leaves such rows out if they take more than a third of it. At least half of the rows of
    every cluster remain inside.
    """
    low, high = np.array([usual_range(column) for column in points.T]).T
    inside = ((points >= low) & (points <= high)).all(axis=1)
    for j in np.unique(clusters):
        if inside[clusters == j].mean() < 0.5:
            inside |= clusters == j
    least, most = points.min(axis=0), points.max(axis=0)
    low, high = points[inside].min(axis=0), points[inside].max(axis=0)
    squeezed = high - low < (most - least) * 2 / 3
    low, high = np.where(squeezed, low, least), np.where(squeezed, high, most)
    pad = np.where(high > low, PAD * (high - low), 1.0)
    return np.array([low - pad, high + pad])


def _draw_regions(ax: Any, model: Any, ends: np.ndarray) -> None:
    """Colour the plane by cluster and draw the boundary and the margins."""
    x, y = (np.linspace(a, b, GRID) for a, b in ends.T)
    grid = np.column_stack([axis.ravel() for axis in np.meshgrid(x, y)])
    scores = quietly(model.decision_function, grid)
    n_clusters = scores.shape[1]
    winner = scores.argmax(axis=1).reshape(GRID, GRID)
    levels = np.arange(n_clusters + 1) - 0.5
    colours = [_colour(j) for j in range(n_clusters)]
    ax.contourf(x, y, winner, levels=levels, colors=colours, alpha=0.13, zorder=0)
    width = _margin_width(scores)
    margins = [-width, width] if n_clusters == 2 else [width]
    for j in range(n_clusters if n_clusters > 2 else n_clusters - 1):
        lead = _lead(scores, j).reshape(GRID, GRID)
        for heights, line, style in (([0], 1.4, "solid"), (margins, 0.9, "dashed")):
            inside = [height for height in heights if lead.min() < height < lead.max()]
            if inside:
                ax.contour(
                    x, y, lead, inside, colors=INK, zorder=1, linewidths=line, linestyles=style
                )
    ax.set_xlim(x[0], x[-1])
    ax.set_ylim(y[0], y[-1])


def _draw_points(
    ax: Any, points: np.ndarray, labels: np.ndarray, exemplars: np.ndarray, ends: np.ndarray
) -> None:
    """Draw the rows; those beyond the ends of the axes at the edge, with another marker."""
    n_rows = len(points)
    outside = ((points < ends[0]) | (points > ends[1])).any(axis=1)
    points = np.clip(points, *ends)
    shown = np.unique(np.linspace(0, n_rows - 1, min(n_rows, MAX_POINTS)).astype(int))
    size = float(np.clip(6000 / len(shown), 6, 34))
    for j in np.unique(labels):
        mine = shown[(labels[shown] == j) & ~outside[shown]]
        # All rows, not only the plotted ones: the legend shows the size of the cluster.
        name = f"cluster {j}: {np.count_nonzero(labels == j):,} rows"
        ax.scatter(
            *points[mine].T, s=size, color=_colour(int(j)), label=name,
            edgecolors="white", linewidths=0.4 if size > 10 else 0, alpha=0.9, zorder=2,
        )  # fmt: skip
    if outside.any():
        ax.set(xlim=ends[:, 0], ylim=ends[:, 1])
        away, name = shown[outside[shown]], plural(int(outside.sum()), "row")
        ax.scatter(
            *points[away].T, s=40, marker="X", color=[_colour(int(j)) for j in labels[away]],
            label=f"{name} outside", linewidths=0, clip_on=False, zorder=3,
        )  # fmt: skip
    if len(exemplars):
        ax.scatter(
            *points[exemplars].T, s=120, facecolors="none", edgecolors=INK, linewidths=1.6,
            label="most certain", zorder=3,
        )  # fmt: skip
    ax.legend(
        frameon=False, fontsize=9, loc="lower center", bbox_to_anchor=(0.5, 1.0),
        ncols=3, handletextpad=0.3, columnspacing=1.4, markerscale=1.0,
    )  # fmt: skip


def _colour(j: int) -> Any:
    """Return the colour of a cluster: of the palette, then hues that differ from the last."""
    if j < len(COLOURS):
        return COLOURS[j]
    from matplotlib.colors import hsv_to_rgb

    return hsv_to_rgb(((j * GOLDEN) % 1, 0.45 + 0.2 * (j % 3), 0.9 - 0.2 * (j % 2)))


def _name_axes(ax: Any, x_name: str, y_name: str) -> None:
    ax.set_xlabel(x_name, color=INK)
    ax.set_ylabel(y_name, color=INK)
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color("#888888")
    ax.tick_params(colors="#666666", labelsize=9)


def plot_kernel_weights(model: Any, ax: Any = None) -> Any:
    """Plot the weight of every kernel as a bar.

    Parameters
    ----------
    model : MultipleKernelMarginClustering
        A fitted model.
    ax : matplotlib.axes.Axes, default=None
        Axes to plot on; None creates a figure.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.

    See Also
    --------
    maxmargin.MultipleKernelMarginClustering : Learns the weights.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> from maxmargin.display import plot_kernel_weights
    >>> model = SimpleNamespace(kernel_weights_={"linear": 0.6, "rbf": 0.8})
    >>> len(plot_kernel_weights(model).patches)
    2
    """
    ax = _axes(ax)
    names = list(model.kernel_weights_)
    places = np.arange(len(names))[::-1]
    ax.barh(places, list(model.kernel_weights_.values()), color=COLOURS[0])
    ax.set_yticks(places, names)
    _name_axes(ax, "weight", "")
    return ax
