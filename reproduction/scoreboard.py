"""Results beside the printed figures: which of the papers' rows are reached, and which are not.

A scored row is (table, data set, the paper's own method, one of accuracy / error / ARI). It is
reached within one point of accuracy or error, within .03 of ARI, or when ours is better.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from . import Figure, read_figures
from .plan import LABEL_FREE, MODES, POST_HOC, Curve, Entry, Series, Unit
from .runner import Results

__all__ = ["Line", "Row", "Share", "curve_lines", "curve_why", "exponent", "shares", "table_rows"]

TOLERANCE = {"accuracy": 1.0, "error": 1.0, "ari": 0.03}
FALLING = ("error", "balanced_error", "cpu_s", "iterations")  # less is better
SHOWN = (*TOLERANCE, "rand", "nmi", "cpu_s", "iterations", "exponent")
ROUNDING = 1e-9


@dataclass(frozen=True)
class Row:
    """A printed figure and ours.

    Attributes
    ----------
    figure : Figure
    label_free, post_hoc : float or None
    setting : str
        Where the post hoc value was picked.
    why : str
        Why there is no value of ours: no data, no package, not run.
    """

    figure: Figure
    label_free: float | None
    post_hoc: float | None
    setting: str = ""
    why: str = ""

    def reached(self, mode: str) -> bool | None:
        """Whether ours reaches the printed figure; None where there is nothing to compare."""
        ours = self.post_hoc if mode == POST_HOC else self.label_free
        metric = self.figure.metric
        if ours is None or metric not in TOLERANCE:
            return None
        lead = self.figure.value - ours if metric in FALLING else ours - self.figure.value
        return lead >= -TOLERANCE[metric] - ROUNDING


@dataclass(frozen=True)
class Share:
    """How many of a paper's scored rows are reached.

    Attributes
    ----------
    paper : str
    printed : int
        Scored rows in the paper.
    with_data : int
        Those for which data are at hand.
    reached : dict
        Reached, by mode.
    compared : dict
        Rows that have a value of ours, by mode.
    """

    paper: str
    printed: int
    with_data: int
    reached: dict[str, int]
    compared: dict[str, int]


@dataclass(frozen=True)
class Line:
    """One computed line of a figure; the exponent is that of a fitted power of x."""

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    exponent: float | None = None


# -- tables ---------------------------------------------------------------------------------------


def table_rows(
    paper: str, module: ModuleType, entries: Iterable[Entry], results: Results, lines: dict
) -> list[Row]:
    """Lay the results of a paper beside its printed figures.

    Parameters
    ----------
    paper : str
    module : module
        The paper's module, which says how it measures accuracy.
    entries : iterable of Entry
    results : Results
    lines : dict
        From (table, data set, label) to a fitted exponent.

    Returns
    -------
    list of Row
        One for every printed figure of an accuracy, an error, an index, a time or a count.
    """
    known: dict[tuple[str, str, str, str], Entry] = {}
    for entry in entries:
        for table in entry.tables:
            known[table, entry.data, entry.method, entry.mode] = entry
    printed = read_figures(paper)  # what the text says of figures stands beside the curves
    figures = [f for f in printed if f.metric in SHOWN and f.table.startswith("table-")]
    return [_row(figure, module, known, results, lines) for figure in figures]


def _row(figure: Figure, module, known, results: Results, lines) -> Row:
    place = (figure.table, figure.dataset, figure.method)
    if place in lines:
        return Row(figure, lines[place], None)
    score = module.ACCURACY if figure.metric == "accuracy" else figure.metric
    values: dict[str, float | None] = {}
    settings: dict[str, str] = {}
    tried: list[Unit] = []
    for mode in MODES:
        entry = known.get((*place, mode))
        values[mode], settings[mode] = (
            (None, "") if entry is None else picked(entry, score, results)
        )
        tried += [] if entry is None else entry.units
    nothing = all(value is None for value in values.values())
    why = _why(figure, tried, results) if nothing else ""
    return Row(figure, values[LABEL_FREE], values[POST_HOC], settings[POST_HOC], why)


def _why(figure: Figure, tried: list[Unit], results: Results) -> str:
    if figure.card in results.absent:
        return results.absent[figure.card]
    for unit in tried:
        if unit.setting() in results.skipped:
            return results.skipped[unit.setting()]
    return "" if tried else "not run"


def picked(entry: Entry, score: str, results: Results) -> tuple[float | None, str]:
    """Value of a score where an entry picks its setting, averaged over tasks, and the setting.

    The setting is picked for every task by the mean over seeds.
    """
    found = [(unit, results.of(unit)) for unit in entry.units]
    done = [(unit, result) for unit, result in found if result is not None]
    if not done or any(result.get(score) is None for _, result in done):
        return None, ""
    values, where = [], []
    sign = -1.0 if entry.pick in FALLING else 1.0
    for task in range(len(done[0][1][score])):
        means = [sign * _mean(result[entry.pick][task]) for _, result in done]
        unit, best = done[int(np.nanargmax(means))]
        values.append(_over_seeds(best[score][task], entry.over_seeds, score))
        where.append(unit)
    value = float(np.mean(values))
    return (value if np.isfinite(value) else None), _told(where, entry)


def _mean(values: list[float | None]) -> float:
    given = [v for v in values if v is not None]
    return float(np.mean(given)) if given else float("nan")


def _over_seeds(values: list[float | None], how: str, score: str) -> float:
    if how == "mean":
        return _mean(values)
    given = [v for v in values if v is not None]
    return (min(given) if score in FALLING else max(given)) if given else float("nan")


def _told(where: list[Unit], entry: Entry) -> str:
    """The picked setting: what differs between the units of the entry."""
    if len({unit.setting() for unit in where}) > 1:
        return "picked for every task"
    varied = [
        key for key, value in where[0].params.items()
        if any(unit.params.get(key) != value for unit in entry.units)
    ]  # fmt: skip
    return ", ".join(f"{key} {where[0].params[key]:.4g}" if isinstance(where[0].params[key], float)
                     else f"{key} {where[0].params[key]}" for key in varied)  # fmt: skip


def shares(paper: str, rows: Iterable[Row], results: Results) -> Share:
    """Count the scored rows of a paper.

    Parameters
    ----------
    paper : str
    rows : iterable of Row
    results : Results

    Returns
    -------
    Share
    """
    scored = [row for row in rows if row.figure.scored]
    at_hand = [row for row in scored if row.figure.card not in results.absent]
    verdicts = {mode: [row.reached(mode) for row in at_hand] for mode in MODES}
    return Share(
        paper,
        len(scored),
        len(at_hand),
        {mode: sum(v is True for v in found) for mode, found in verdicts.items()},
        {mode: sum(v is not None for v in found) for mode, found in verdicts.items()},
    )


# -- figures --------------------------------------------------------------------------------------


def curve_lines(curve: Curve, results: Results) -> list[Line]:
    """Compute the lines of a figure; those without a result are left out.

    Parameters
    ----------
    curve : Curve
    results : Results

    Returns
    -------
    list of Line
    """
    found = []
    for series in curve.series:
        x, y = _seed_points(series, results) if series.per_seed else _points(series, results)
        if x:
            found.append(Line(series.label, x, y, exponent(x, y) if curve.log else None))
    return found


def curve_why(curve: Curve, results: Results) -> str:
    """Say why a figure has no line: no data, no package, no time."""
    units = [unit for series in curve.series for place in series.units for unit in place]
    for unit in units:
        why = results.absent.get(unit.data) or results.skipped.get(unit.setting())
        if why:
            return why
    return "not run"


def _seed_points(series: Series, results: Results) -> tuple[Any, Any]:
    result = results.of(series.units[0][0])
    if result is None:
        return (), ()
    values = sorted(v for v in result[series.score][0] if v is not None)
    return tuple(map(float, range(1, len(values) + 1))), tuple(values)


def _points(series: Series, results: Results) -> tuple[Any, Any]:
    points = []
    for x, units in zip(series.x, series.units):
        entry = Entry((), "", "", POST_HOC, units, _by(series.score))
        value, _ = picked(entry, series.score, results)
        if value is not None:
            points.append((x, value))
    return tuple(p[0] for p in points), tuple(p[1] for p in points)


def _by(score: str) -> str:
    """Times and indices are shown where the accuracy is best."""
    return "majority" if score in ("cpu_s", "nmi", "majority") else score


def exponent(x, y) -> float | None:
    """Fit y ~ x^p and return p; None with fewer than three points.

    Examples
    --------
    >>> from reproduction.scoreboard import exponent
    >>> round(exponent([1, 2, 4], [3, 12, 48]), 6)
    2.0
    """
    if len(x) < 3 or min(x) <= 0 or min(y) <= 0:
        return None
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])
