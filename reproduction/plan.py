"""What is run for a paper, as plain data: units of work, entries of tables, curves of figures.

A `Unit` is the smallest thing that is computed and kept: one method with one setting on one data
set, over several seeds. An `Entry` puts units beside rows of a printed table; a `Curve` draws
them. Several entries may share a unit; it is computed once.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from itertools import product
from typing import Any

__all__ = [
    "CHANCE", "K_MEANS", "LABEL_FREE", "MODES", "POST_HOC", "Curve", "Entry", "Series", "Unit",
    "beside", "grid", "quickened",
]  # fmt: skip

LABEL_FREE, POST_HOC, K_MEANS, CHANCE = "label-free", "post hoc", "k-means", "random labels"
MODES = (LABEL_FREE, POST_HOC, K_MEANS, CHANCE)
BESIDE_SEEDS = 3
QUICK_ROWS, QUICK_GRID, QUICK_TASKS, QUICK_SEEDS = 300, 3, 3, 2


@dataclass(frozen=True)
class Unit:
    """One method with one setting on one data set.

    Attributes
    ----------
    data : str
        Slug of the data set.
    method : str
        Name in the registry of methods.
    params : dict
        The setting: what JSON can hold.
    seeds : int
        How many seeds, from 0 on.
    rows : int or None
        Only that many rows, drawn at random.
    links : int or None
        Pairs of rows drawn at random whose classes are told as links.
    fit_rows : int or None
        Fit on that many rows, drawn at random, and predict the others, too.
    tasks : int or None
        Only the first tasks of a data set that has several (all pairs of digits).
    """

    data: str
    method: str
    params: Mapping[str, Any] = field(default_factory=dict)
    seeds: int = 1
    rows: int | None = None
    links: int | None = None
    fit_rows: int | None = None
    tasks: int | None = None

    def setting(self) -> str:
        """Return the unit as one line of JSON, always the same for the same unit."""
        return json.dumps(asdict(self), sort_keys=True)


@dataclass(frozen=True)
class Entry:
    """Units that stand beside the rows of printed tables with this data set and method.

    Attributes
    ----------
    tables : tuple of str
        Tables that it serves: one fit has an error, a time and a number of iterations.
    data, method : str
        As in the printed figures.
    mode : str
        One of `MODES`: "label-free" is the estimator's defaults and what the paper prints, "post
        hoc" the best setting by the classes; "k-means" and "random labels" stand beside both.
    units : tuple of Unit
        The settings; with several, the best is picked for every task.
    pick : str
        The score by which it is picked, averaged over seeds.
    over_seeds : str
        What is shown of several seeds: their "mean" or their "best".
    """

    tables: tuple[str, ...]
    data: str
    method: str
    mode: str
    units: tuple[Unit, ...]
    pick: str = "accuracy"
    over_seeds: str = "mean"

    def __post_init__(self):
        if self.mode not in MODES:
            raise ValueError(f"mode must be one of {MODES}, got {self.mode!r}.")
        if self.mode != POST_HOC and len(self.units) != 1:
            raise ValueError(
                f"a {self.mode} entry has one setting; more could only be picked by y."
            )


@dataclass(frozen=True)
class Series:
    """One line of a figure.

    Attributes
    ----------
    label : str
    x : tuple of float
        Places on the horizontal axis.
    units : tuple of tuples of Unit
        The settings tried at every place; with several, the best by the classes is shown, and the
        label has to say so.
    score : str
    kind : str
        "best": the best setting by the classes at every place. "total": the sum over the settings.
        "seeds": one place only, the scores of its seeds, sorted, over their rank. "curve": one
        place only, whose score is itself a list of values over ``x``.
    """

    label: str
    x: tuple[float, ...]
    units: tuple[tuple[Unit, ...], ...]
    score: str = "cpu_s"
    kind: str = "best"


@dataclass(frozen=True)
class Curve:
    """A figure of a paper, computed with our estimators.

    Attributes
    ----------
    figure, title, x_label, y_label : str
    series : tuple of Series
    log : bool
        Both axes logarithmic; the exponents of the lines are fitted and told.
    paper : str
        What the paper's figure shows, in words: its values are not printed.
    exponents : tuple of str
        Table and data set whose printed exponents the fitted ones stand beside.
    """

    figure: str
    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    log: bool = False
    paper: str = ""
    exponents: tuple[str, ...] = ()


def grid(unit: Unit, **axes: Iterable[Any]) -> tuple[Unit, ...]:
    """Return the unit at every point of a grid of parameters.

    Examples
    --------
    >>> from reproduction.plan import Unit, grid
    >>> [u.params for u in grid(Unit("iris", "k-means"), a=[1, 2])]
    [{'a': 1}, {'a': 2}]
    """
    points = (dict(zip(axes, values)) for values in product(*axes.values()))
    return tuple(replace(unit, params={**unit.params, **point}) for point in points)


def beside(entry: Entry) -> tuple[Entry, ...]:
    """Return k-means and random labels on the rows of an entry, with at least as many seeds.

    Examples
    --------
    >>> from reproduction.plan import LABEL_FREE, Entry, Unit, beside
    >>> ours = Entry(("table-1",), "iris", "UMC-RLS", LABEL_FREE, (Unit("iris", "least-squares"),))
    >>> [(e.mode, e.units[0].method, e.units[0].seeds) for e in beside(ours)]
    [('k-means', 'k-means', 3), ('random labels', 'random labels', 3)]
    """
    unit = entry.units[0]
    plain = replace(unit, params={}, links=None, seeds=max(unit.seeds, BESIDE_SEEDS))
    return tuple(
        replace(entry, mode=mode, units=(replace(plain, method=mode),))
        for mode in (K_MEANS, CHANCE)
    )


def quickened(entry: Entry) -> Entry:
    """Return the entry for a quick look: fewer rows, tasks and seeds, a thinner grid."""
    keep = min(QUICK_GRID, len(entry.units))
    chosen = [entry.units[i * (len(entry.units) - 1) // max(keep - 1, 1)] for i in range(keep)]
    return replace(entry, units=tuple(quick_unit(unit) for unit in chosen))


def quick_unit(unit: Unit) -> Unit:
    """Return the unit on fewer rows, tasks and seeds."""
    rows = QUICK_ROWS if unit.rows is None else min(unit.rows, QUICK_ROWS)
    links = unit.links if unit.links is None else min(unit.links, QUICK_ROWS // 3)
    fit_rows = unit.fit_rows if unit.fit_rows is None else QUICK_ROWS // 2
    return replace(
        unit, rows=rows, links=links, fit_rows=fit_rows, seeds=min(unit.seeds, QUICK_SEEDS),
        tasks=QUICK_TASKS,
    )  # fmt: skip


def quick_curve(curve: Curve) -> Curve:
    """Return the curve with the first places of every line, one seed each.

    Three places that are row counts, for an exponent, shrink with the rows; otherwise two.
    """
    return replace(curve, series=tuple(_quick_line(line) for line in curve.series))


def _quick_line(line: Series) -> Series:
    if line.kind == "curve":
        return line
    if line.kind == "seeds":
        units = tuple(replace(unit, seeds=5) for unit in line.units[0])
        return replace(line, units=(units,), x=tuple(range(1, 6)))
    places = line.units[:3]
    if all(unit.rows is not None for place in places for unit in place):
        counts = [QUICK_ROWS * (i + 1) for i in range(len(places))]
        shrunk = tuple(
            tuple(replace(unit, rows=rows, seeds=1) for unit in place[:1])
            for rows, place in zip(counts, places)
        )
        return replace(line, units=shrunk, x=tuple(map(float, counts)))
    shrunk = tuple(
        tuple(replace(quick_unit(u), seeds=1) for u in place[:2]) for place in places[:2]
    )
    return replace(line, units=shrunk, x=line.x[:2])
