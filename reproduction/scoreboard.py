"""Results beside the printed figures: which of the papers' rows are reached, and which are not.

A printed figure is scored if it is an accuracy, an error, a Rand index or an ARI of the paper's own
method in a table. It is reached within one point of accuracy or error, .02 of a Rand index, .03 of
ARI, or when ours is better. Figures that random labels reach are shown, not counted. Figures that
say the same are counted once, and are reached if each of them is: a repeated row, rows of one table
for which a single fit stands, and the Rand index of two clusters, a function of their accuracy.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from . import Figure, read_figures
from .data import cards
from .plan import CHANCE, K_MEANS, LABEL_FREE, MODES, POST_HOC, Curve, Entry, Series, Unit
from .runner import TIME_IS_UP, Results

__all__ = ["Line", "Row", "Share", "curve_lines", "curve_why", "exponent", "shares", "table_rows"]

TOLERANCE = {"accuracy": 1.0, "error": 1.0, "rand": 0.02, "ari": 0.03}
STRICT = 0.1  # share of the tolerance in the second count
COUNTED = (LABEL_FREE, POST_HOC, K_MEANS)
FALLING = ("error", "balanced_error", "cpu_s", "iterations")  # less is better
SHOWN = (*TOLERANCE, "nmi", "cpu_s", "iterations", "exponent")
ROUNDING = 1e-9


@dataclass(frozen=True)
class Row:
    """A printed figure and ours.

    Attributes
    ----------
    figure : Figure
    label_free, post_hoc, k_means, chance : float or None
        Ours in two ways, k-means, and random labels.
    setting : str
        Where the post hoc value was picked.
    why : str
        Why there is no value of ours: no data, no package, not run.
    cpu_s : float or None
        Seconds of CPU time of all label-free fits behind the row.
    """

    figure: Figure
    label_free: float | None = None
    post_hoc: float | None = None
    k_means: float | None = None
    chance: float | None = None
    setting: str = ""
    why: str = ""
    cpu_s: float | None = None

    def value(self, mode: str) -> float | None:
        """Return the value found in a mode."""
        values = (self.label_free, self.post_hoc, self.k_means, self.chance)
        return dict(zip(MODES, values))[mode]

    def reached(self, mode: str, share: float = 1.0) -> bool | None:
        """Whether a mode reaches the printed figure within a share of the tolerance.

        None where there is nothing to compare.
        """
        found, metric = self.value(mode), self.figure.metric
        if found is None or metric not in TOLERANCE:
            return None
        lead = self.figure.value - found if metric in FALLING else found - self.figure.value
        return lead >= -share * TOLERANCE[metric] - ROUNDING

    @property
    def counted(self) -> bool:
        """Whether the row is in the score: random labels do not reach it."""
        return self.figure.scored and not self.reached(CHANCE)

    @property
    def same(self) -> tuple[str, ...]:
        """Key of the rows that are counted once."""
        figure, card = self.figure, cards().get(self.figure.card)
        metric = figure.metric
        if metric == "rand" and card is not None and card.classes == 2:
            metric = "accuracy"
        return figure.paper, figure.dataset.partition("=")[0], figure.method, metric


@dataclass(frozen=True)
class Share:
    """How many of a paper's scored rows are reached.

    Attributes
    ----------
    paper : str
    figures : int
        Scored figures in the paper.
    printed : int
        Rows that they are counted as.
    with_data : int
        Those for which data are at hand.
    reached, strictly : dict
        Reached, by mode: within the tolerance, and within a tenth of it.
    compared : dict
        Rows that have a value, by mode.
    """

    paper: str
    figures: int
    printed: int
    with_data: int
    reached: dict[str, int]
    strictly: dict[str, int]
    compared: dict[str, int]


@dataclass(frozen=True)
class Line:
    """One computed line of a figure; the exponent is that of a fitted power of x.

    ``spread`` is the standard deviation over seeds at every place; empty with one seed.
    """

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    exponent: float | None = None
    spread: tuple[float, ...] = ()


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
        return Row(figure, lines[place])
    score = module.ACCURACY if figure.metric == "accuracy" else figure.metric
    found = {mode: known[*place, mode] for mode in MODES if (*place, mode) in known}
    values = {mode: picked(entry, score, results) for mode, entry in found.items()}
    label_free, post_hoc, k_means, chance = (values.get(mode, (None, ""))[0] for mode in MODES)
    why = ""
    if label_free is None and post_hoc is None:
        tried = [
            unit for mode in (LABEL_FREE, POST_HOC) if mode in found for unit in found[mode].units
        ]
        why = _why(figure, tried, results)
    setting = values.get(POST_HOC, (None, ""))[1]
    seconds = _seconds(found[LABEL_FREE].units[0], results) if LABEL_FREE in found else None
    return Row(figure, label_free, post_hoc, k_means, chance, setting, why, seconds)


def _seconds(unit: Unit, results: Results) -> float | None:
    """CPU time of all fits of a unit."""
    found = results.of(unit)
    return None if found is None else float(np.sum(found["cpu_s"]))


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
    chosen = _chosen(entry, results)
    if not chosen or any(result.get(score) is None for _, (_, result) in chosen):
        return None, ""
    values = [
        _over_seeds(result[score][task], entry.over_seeds, score) for task, (_, result) in chosen
    ]
    value, told = float(np.mean(values)), _told([unit for _, (unit, _) in chosen], entry)
    late = sum(results.skipped.get(unit.setting()) == TIME_IS_UP for unit in entry.units)
    if late:
        told = f"{told}; {late} of {len(entry.units)} settings not run".lstrip("; ")
    return (value if np.isfinite(value) else None), told


def _chosen(entry: Entry, results: Results) -> list[tuple[int, tuple[Unit, dict[str, Any]]]]:
    """Return for every task the unit that is picked, with its result."""
    found = [(unit, results.of(unit)) for unit in entry.units]
    done = [(unit, result) for unit, result in found if result is not None]
    if not done:
        return []
    sign = -1.0 if entry.pick in FALLING else 1.0
    picks = []
    for task in range(len(done[0][1][entry.pick])):
        means = [sign * _mean(result[entry.pick][task]) for _, result in done]
        picks.append((task, done[int(np.argmax(np.nan_to_num(means, nan=-np.inf)))]))
    return picks


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
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in scored:
        if row.counted:
            groups.setdefault(row.same, []).append(row)
    at_hand = [g for g in groups.values() if g[0].figure.card not in results.absent]

    def count(share: float, wanted: tuple) -> dict[str, int]:
        verdicts = {mode: [_all([r.reached(mode, share) for r in g]) for g in at_hand]
                    for mode in COUNTED}  # fmt: skip
        return {mode: sum(v in wanted for v in found) for mode, found in verdicts.items()}

    return Share(
        paper, len(scored), len(groups), len(at_hand), count(1.0, (True,)),
        count(STRICT, (True,)), count(1.0, (True, False)),
    )  # fmt: skip


def _all(verdicts: list[bool | None]) -> bool | None:
    return None if None in verdicts else all(verdicts)


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
        x, y, spread = POINTS[series.kind](series, results)
        if x:
            fitted = exponent(x, y) if curve.log else None
            found.append(Line(series.label, x, y, fitted, spread if any(spread) else ()))
    return found


def curve_why(curve: Curve, results: Results) -> str:
    """Say why a figure has no line: no data, no package, no time."""
    units = [unit for series in curve.series for place in series.units for unit in place]
    for unit in units:
        why = results.absent.get(unit.data) or results.skipped.get(unit.setting())
        if why:
            return why
    return "not run"


Points = tuple[tuple[float, ...], tuple[float, ...], tuple[float, ...]]


def _seed_points(series: Series, results: Results) -> Points:
    result = results.of(series.units[0][0])
    if result is None:
        return (), (), ()
    values = sorted(v for v in result[series.score][0] if v is not None)
    return tuple(map(float, range(1, len(values) + 1))), tuple(values), ()


def _curve_points(series: Series, results: Results) -> Points:
    result = results.of(series.units[0][0])
    if result is None:
        return (), (), ()
    return series.x, tuple(result[series.score][0][0]), ()


def _points(series: Series, results: Results) -> Points:
    points: list[tuple[float, float, float]] = []
    for x, units in zip(series.x, series.units):
        chosen = _chosen(Entry((), "", "", POST_HOC, units, _by(series.score)), results)
        values = [_of_seeds(result[series.score][task]) for task, (_, result) in chosen]
        value, spread = np.mean([v for v, _ in values] or np.nan), 0.0
        if len(values) == 1:
            spread = values[0][1]
        if np.isfinite(value):
            points.append((x, float(value), float(spread)))
    return _columns(points)


def _total_points(series: Series, results: Results) -> Points:
    points: list[tuple[float, float, float]] = []
    for x, units in zip(series.x, series.units):
        found = [results.of(unit) for unit in units]
        if all(found):
            points.append((x, sum(float(np.mean(f[series.score])) for f in found if f), 0.0))
    return _columns(points)


def _columns(points: list[tuple[float, float, float]]) -> Any:
    return tuple(zip(*points)) if points else ((), (), ())


def _of_seeds(values: list[float | None]) -> tuple[float, float]:
    """Mean and standard deviation over seeds."""
    given = [v for v in values if v is not None]
    return _mean(values), float(np.std(given, ddof=1)) if len(given) > 1 else 0.0


POINTS = {
    "best": _points, "total": _total_points, "seeds": _seed_points, "curve": _curve_points,
}  # fmt: skip


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
