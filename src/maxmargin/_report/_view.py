"""What a page shows of a model and its rows, as values for JSON.

The labels are those of ``predict`` on all rows. Points, cells and pictures are those of a sample.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import zip_longest
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import softmax
from sklearn.decomposition import PCA
from sklearn.metrics import confusion_matrix

from .._auto import stability_in_words
from .._core.model import lead_of
from .._density_modes import CLEAR
from .._steps import last_step, prepared, quietly
from ..display import _project, row_margins, scored_rows
from ._rows import Rows

SHOWN_ROWS = 4000
SHOWN_COLUMNS = 40
FEATURES = 8  # of a cluster's card
LEAST_IMPORTANCE = 0.01  # of a column on a card that hardly differs
CARD_ROWS = 6  # most and least certain rows of a card
CELL_BYTES = PICTURE_BYTES = 3_500_000
# What the axes of a map are.
OF_SCORES = "The axes are scores of the model, so clusters look farther apart than they are."
OF_CORNERS = (
    "Every cluster is a corner; a row is the nearer to a corner, the clearer its cluster, and "
    "between two corners if it may belong to either. " + OF_SCORES
)
OF_MARGINS = (
    "Upwards is the margin: rows above 0 are in cluster 1, and the farther a row is from 0, the "
    "clearer its cluster. " + OF_SCORES
)
OF_STABILITY = "Height: mean adjusted Rand index between the clusters of two subsamples."
OF_SEPARATION = (
    "Height: how far the density falls between k clusters, at least, in standard errors; more than "
    f"{CLEAR:g} is shown as {CLEAR:g}. A single cluster has no height."
)
OF_OBJECTIVES = (
    "Objectives compare fits of the same rows with the same settings; they do not say how clear "
    "the clusters are."
)
OF_COLUMNS = "The axes are the two columns, as the model takes them."
OF_COMPONENTS = "The axes are the two directions in which the rows differ most."


def fitted_view(
    model: Any, rows: Rows, labels: Any = None, scored: Any = None, explain: bool = True
) -> dict[str, Any]:
    """Return everything that the data and the fitted model determine.

    ``labels`` are those of ``predict`` and ``scored`` is that of `scored_rows`, unless they are
    given; with ``explain``, the columns that set clusters apart are found.
    """
    scores, told = scored or quietly(scored_rows, model, rows.X)
    labels = scores.argmax(axis=1) if labels is None else np.asarray(labels)
    k, last = scores.shape[1], last_step(model)
    measure, level = _certainty(scores, told)
    certain, unsure = _card_rows(labels, scores, level)
    shown = _shown(rows.n, np.concatenate([*certain, *unsure]))
    Z = prepared(model, rows.take(shown))
    features, told_of = _explained(model, rows, labels, shown) if explain and k > 1 else ({}, {})
    names, places, spreads = _columns(rows, features)
    sizes = np.bincount(labels, minlength=k)
    return {
        "n_rows": rows.n,
        "n_columns": rows.X.shape[1],
        "n_clusters": k,
        "names": [] if (known := getattr(last, "known_names_", None)) is None else known.tolist(),
        "points": {
            "row": shown.tolist(),
            "label": labels[shown].tolist(),
            "level": np.round(level[shown], 3).tolist(),
            "maps": _maps(Z, scores[shown]),
        },
        "measure": measure,
        "clusters": [
            {
                "size": int(sizes[c]),
                "level": _mean(level[labels == c]) if k > 1 else None,
                "certain": certain[c].tolist(),
                "unsure": unsure[c].tolist(),
                "features": features.get(c, []),
                "description": told_of.get(c, ""),
            }
            for c in range(k)
        ],
        "columns": names,
        "spreads": spreads,
        "has_pictures": rows.has_pictures,
        **row_content(rows, places, np.concatenate([*certain, *unsure, shown]).tolist()),
        "confusion": _confusion(last, Z, labels[shown], k),
        "runner_up": _runner_up(last, labels, shown, k),
        "sentences": list(getattr(last, "report_", [])),
        "stability": _stability(last) if k > 1 else None,
        "history": _history(last),
        "settings": _settings(model),
    }


def _stability(last: Any) -> dict[str, Any] | None:
    """Return the stability with its word; one that is computed here is computed for good."""
    value = getattr(last, "stability_", None)
    return None if value is None else {"value": float(value), "word": stability_in_words(value)}


def number_view(model: Any, rows: Rows, max_samples: int | None = None) -> dict[str, Any] | None:
    """Return how sure the number of clusters is, by the density of a sample of the rows."""
    from ..model_selection import choose_n_clusters

    last = last_step(model)
    if getattr(last, "kernel", None) == "precomputed" or rows.n < 10:
        return None
    sample = rows.take(_shown(rows.n, np.empty(0, int)))
    try:
        choice = choose_n_clusters(prepared(model, sample), max_samples=max_samples, random_state=0)
    except ValueError:  # columns that are no numbers, for a model that prepares them itself
        return None
    unit, what, curve = "adjusted Rand index", OF_STABILITY, choice.stability
    if choice.separation is not None:
        unit, what = "standard errors", OF_SEPARATION
        curve = np.where(choice.k_values == 1, np.nan, choice.separation)
    statement, own = choice.statement, len(getattr(last, "cluster_sizes_", ()))
    if (given := last.get_params(deep=False).get("n_clusters")) is not None:
        found = statement.replace(" was chosen", " is preferred")
        statement = f"You gave {given}. The density of the rows says: {found}"
    elif own not in (0, choice.n_clusters):
        statement += f" This is the opinion of the density alone; the model has {own} clusters."
    return {
        "k": choice.k_values.tolist(),
        "height": [_number(v) for v in np.asarray(curve).tolist()],
        "unit": unit,
        "what": what,
        "chosen": int(choice.n_clusters),
        "uncertain": bool(choice.uncertain),
        "statement": statement,
    }


def _shown(n: int, needed: np.ndarray) -> np.ndarray:
    if n <= SHOWN_ROWS:
        return np.arange(n)
    sample = np.random.default_rng(0).choice(n, SHOWN_ROWS, replace=False)
    return np.union1d(sample, needed).astype(np.int64)


def _card_rows(labels: np.ndarray, scores: np.ndarray, level: np.ndarray) -> tuple[list, list]:
    """Return the most and the least certain rows of every cluster; equal ones by their margins.

    The rows of a single cluster are in it for certain.
    """
    if scores.shape[1] == 1:
        return [np.empty(0, int)], [np.empty(0, int)]
    margins = lead_of(scores, labels)
    certain, unsure = [], []
    for cluster in range(scores.shape[1]):
        mine = np.flatnonzero(labels == cluster)
        order = mine[np.lexsort((-margins[mine], -level[mine]))]
        certain.append(order[:CARD_ROWS])
        unsure.append(order[CARD_ROWS:][::-1][:CARD_ROWS])
    return certain, unsure


def _certainty(scores: np.ndarray, told: dict[str, np.ndarray]) -> tuple[str, np.ndarray]:
    """Return what points show by their size, and its values from 0 to 1."""
    if "confidence" in told:
        return "confidence", told["confidence"]
    margins = np.maximum(row_margins(scores), 0.0)
    return "relative margin", np.minimum(margins / max(np.quantile(margins, 0.95), 1e-300), 1.0)


def _maps(Z: Any, scores: np.ndarray) -> list[dict[str, Any]]:
    """Return coordinates: by the columns, and by the scores of the model."""
    Z = Z if sparse.issparse(Z) else np.asarray(Z, dtype=float)
    k, found = scores.shape[1], []
    if Z.shape[1] == 2 and not sparse.issparse(Z):
        found = [("columns", OF_COLUMNS, "first column", "second column", Z)]
    elif min(Z.shape) > 2:
        axes = "first principal component", "second principal component"
        plane = PCA(2, svd_solver="arpack", random_state=0).fit_transform(Z)
        found = [("principal components", OF_COMPONENTS, *axes, plane)]
    if k > 2:
        found.append(("scores of the model", OF_CORNERS, "", "", _star(scores)))
    elif k == 2 or not found:
        told = OF_MARGINS if k == 2 else ""
        found.append(("scores of the model", told, *_margin_map(Z, scores)))
    return [
        {
            "name": name,
            "told": told,
            "axes": [x, y],
            "x": _short(plane[:, 0]),
            "y": _short(plane[:, 1]),
        }
        for name, told, x, y, plane in found
    ]


def _star(scores: np.ndarray) -> np.ndarray:
    """Return points between the corners of a polygon, one for each cluster, by their scores."""
    k, labels = scores.shape[1], scores.argmax(axis=1)
    plane = PCA(2, random_state=0).fit_transform(scores)
    middles = np.array(
        [plane[labels == c].mean(axis=0) if c in labels else (0, 0) for c in range(k)]
    )
    # Clusters that are neighbours in the plane become neighbours on the circle.
    place = np.argsort(np.argsort(np.arctan2(middles[:, 1], middles[:, 0])))
    angles = 2 * np.pi * place / k
    # The scale at which a typical row is near its corner, but not on it.
    unit = max(float(np.median(lead_of(scores, labels))) / 2, 1e-12)
    return softmax(scores / unit, axis=1) @ np.column_stack([np.cos(angles), np.sin(angles)])


def _margin_map(Z: Any, scores: np.ndarray) -> tuple[str, str, np.ndarray]:
    if min(Z.shape) < 2 and Z.shape[1] > 1:  # one row: no component
        return "", "margin", np.column_stack([np.zeros(len(scores)), scores[:, 0]])
    plane, x, y = _project(Z, scores)
    return x, y, plane


def _short(values: np.ndarray) -> list[float]:
    """Return numbers with as many digits as a screen has pixels."""
    spread = float(np.ptp(values)) or 1.0
    return np.round(values, max(0, 4 - int(np.floor(np.log10(spread))))).tolist()


def _explained(
    model: Any, rows: Rows, labels: np.ndarray, shown: np.ndarray
) -> tuple[dict[int, list], dict[int, str]]:
    """Return the columns that set every cluster apart, and the same in words."""
    if getattr(last_step(model), "kernel", None) == "precomputed":
        return {}, {}
    from ..inspection import describe_clusters, explain_clusters

    table = explain_clusters(model, rows.take(shown), rows.names, labels=labels[shown])
    sentences = describe_clusters(model, rows.X, labels=labels, table=table)
    # Number and size stand above the words.
    words = [sentence.partition(": ")[2].rpartition("; ")[0] for sentence in sentences]
    return _features(table), dict(zip(sorted(set(table["cluster"])), words))


def _features(table: Any) -> dict[int, list]:
    """Return the columns that set every cluster apart, at least one; others are left out."""
    from ..inspection import NOTABLE

    found: dict[int, list] = {}
    for record in table.to_dict("records"):
        mine = found.setdefault(int(record["cluster"]), [])
        tells = abs(record["difference"]) >= NOTABLE or record["importance"] >= LEAST_IMPORTANCE
        if not mine or (tells and len(mine) < FEATURES):
            mine.append(
                {
                    "feature": record["feature"],
                    "difference": _number(record["difference"]),
                    "importance": _number(record["importance"]),
                    "typical": _told(record["typical"]),
                    "rest": _told(record["rest"]),
                }
            )
    return found


def _columns(rows: Rows, features: dict[int, list]) -> tuple[list, list, list]:
    """Return name, place and spread of the columns shown: all, or those that set clusters apart."""
    if not rows.has_cells:
        return [], [], []
    if sparse.issparse(rows.X):
        return ["largest values"], [], [None]
    places = list(range(len(rows.names)))
    if len(places) > SHOWN_COLUMNS:
        cards = (item["feature"] for c in zip_longest(*features.values()) for item in c if item)
        at = {name: j for j, name in enumerate(rows.names)}
        first = dict.fromkeys(at[name] for name in cards)
        places = sorted(list(dict.fromkeys([*first, *places]))[:SHOWN_COLUMNS])
    some = np.linspace(0, rows.n - 1, min(rows.n, SHOWN_ROWS)).astype(int)
    return [rows.names[j] for j in places], places, rows.spread(places, some)


def row_content(rows: Rows, places: list[int], order: list[int]) -> dict[str, Any]:
    """Return cells and pictures of rows, the first ones up to a number of bytes, and their ids."""
    order = list(dict.fromkeys(order))
    pictures = ((row, rows.picture(row)) for row in (order if rows.has_pictures else ()))
    return {
        "cells": _within(CELL_BYTES, rows.all_cells(order, places)),
        "pictures": _within(PICTURE_BYTES, pictures),
        "ids": {} if rows.ids is None else {str(row): rows.ids[row] for row in order},
    }


def _within(budget: int, content: Iterable[tuple[int, Any]]) -> dict[str, Any]:
    """Return the content of rows, but for None, as long as it fits into a number of bytes."""
    kept = {}
    for row, value in content:
        if value is not None:
            budget -= len(json.dumps(value)) + 12
            if budget <= 0:
                break
            kept[str(row)] = value
    return kept


def _confusion(last: Any, Z: Any, labels: np.ndarray, k: int) -> list[list[float]] | None:
    """Return the mean probability of all clusters for the rows of each, under resampling."""
    if not hasattr(last, "_calibration") or k < 2:
        return None
    chances = np.asarray(quietly(last.predict_proba, Z))
    mine = [chances[labels == c] for c in range(k)]
    return [_shares(p.mean(axis=0)) if len(p) else [0.0] * k for p in mine]


def _shares(chances: np.ndarray) -> list[float]:
    """Return probabilities in thousandths whose sum is 1 as it is shown, too."""
    whole = np.round(1000 * chances).astype(int)
    whole[chances.argmax()] += 1000 - whole.sum()
    return (whole / 1000).tolist()


def _runner_up(last: Any, labels: np.ndarray, shown: np.ndarray, k: int) -> dict[str, Any] | None:
    """Return the second-best clustering, if the rows are those of the fit."""
    others = getattr(last, "alternatives_", [])
    if not others or len(others[0].labels) != len(labels):
        return None
    other = others[0]
    both = other.labels >= 0
    counts = confusion_matrix(labels[both], other.labels[both], labels=np.arange(k))
    return {
        "label": other.labels[shown].tolist(),
        "agreement": round(float(other.agreement), 3),
        "shortfall": float(other.shortfall),
        "counts": counts.tolist(),
    }


def _history(last: Any) -> dict[str, Any] | None:
    """Return the course of the objective, and what it says, for methods that have one."""
    values = [_number(v) for v in np.asarray(getattr(last, "history_", ())).tolist()]
    if len(set(values)) < 2 or hasattr(last, "split_by"):  # objectives of splits are of other rows
        return None
    title, notes = "Objective after each iteration (lower is better)", []
    if hasattr(last, "lower_bound_"):
        title = "Lower bound of the objective after each iteration (higher is better)"
    elif np.any(np.diff(np.array(values, dtype=float)) > 0):
        notes = ["The curve can rise: the search also goes through labels of a higher objective."]
    reason, value = getattr(last, "stop_reason_", ""), _told(_number(last.objective_))
    notes.insert(0, f"Final objective: {value}" + f" ({reason})" * bool(reason) + ".")
    return {"title": title, "told": " ".join([*notes, OF_OBJECTIVES]), "values": values}


def _settings(model: Any) -> list[list[str]]:
    last = last_step(model)
    steps = [] if last is model else [[name, _line(step)] for name, step in model.steps[:-1]]
    own = [[name, _line(value)] for name, value in sorted(last.get_params(deep=False).items())]
    return [["estimator", type(last).__name__], *steps, *own]


def _line(value: Any) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= 200 else text[:199] + "…"


def _told(value: Any) -> str:
    if not isinstance(value, float):
        return "" if value is None else str(value)[:120]
    if 1e4 <= abs(value) < 1e7:
        return f"{value:.0f}"
    return f"{value:.4g}" if abs(value) >= 0.1 else f"{value:.2g}"  # 0.00018532 needs much room


def _number(value: Any) -> float | None:
    return float(value) if value is not None and np.isfinite(value) else None


def _mean(values: np.ndarray) -> float | None:
    return round(float(values.mean()), 3) if len(values) else None
