"""From names of papers to a report: what to run, running it, laying it beside the papers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, TextIO

from . import PAPERS, read_figures
from .data import cards
from .methods import METHODS, OURS
from .plan import (
    LABEL_FREE,
    POST_HOC,
    Curve,
    Entry,
    Unit,
    beside,
    quick_curve,
    quick_unit,
    quickened,
)
from .runner import Results, run_units
from .scoreboard import Line, Row, Share, curve_lines, curve_why, picked, shares, table_rows

__all__ = ["PaperReport", "PeerRow", "Study", "Wanted", "parse_names", "run_study"]

COUNTS = ("figures", "printed", "with_data")
OURS_NOW = "maxmargin, label-free"
PEERS = ("k-means", "MiniBatchKMeans", "spectral, 10-NN", "Gaussian mixture", "Ward", "HDBSCAN",
         "gemclus", "RLScore")  # fmt: skip
LINK_PEERS = ("k-means", "PCKMeans", "MPCKMeans", "DCA + k-means",
              "active-semi-supervised-clustering")  # fmt: skip


@dataclass(frozen=True)
class Wanted:
    """A paper, and its tables and figures if not all of them are wanted."""

    paper: str
    tables: tuple[str, ...] = ()

    def has(self, table: str) -> bool:
        """Whether a table or figure is wanted."""
        return not self.tables or table in self.tables


@dataclass(frozen=True)
class PeerRow:
    """What users would pick instead, on one data set."""

    data: str
    method: str
    scores: dict[str, float | None]
    why: str = ""


@dataclass(frozen=True)
class PaperReport:
    """All there is to show for one paper.

    Attributes
    ----------
    wanted : Wanted
    module : module
    rows : list of Row
    share : Share
    figures : list of (Curve, lines)
    unseen : list of (Curve, str)
        Figures without a line, and why.
    peers : list of PeerRow
    """

    wanted: Wanted
    module: ModuleType
    rows: list[Row]
    share: Share
    figures: list[tuple[Curve, list[Line]]]
    unseen: list[tuple[Curve, str]]
    peers: list[PeerRow]

    @property
    def name(self) -> str:
        """Name of the paper."""
        return self.wanted.paper


@dataclass(frozen=True)
class Study:
    """Reports on the papers, and what they were made of.

    Attributes
    ----------
    reports : list of PaperReport
    results : Results
    quick : bool
        On subsets of rows and grids: a look at the machinery, not a reproduction.
    """

    reports: list[PaperReport]
    results: Results
    quick: bool

    def total(self) -> Share:
        """Return the shares of all papers together."""
        parts = [report.share for report in self.reports]

        def added(name: str) -> dict[str, int]:
            dicts = [getattr(part, name) for part in parts]
            return {mode: sum(d[mode] for d in dicts) for mode in (dicts[0] if dicts else ())}

        figures, printed, at_hand = (sum(getattr(p, name) for p in parts) for name in COUNTS)
        verdicts = added("reached"), added("strictly"), added("compared")
        return Share("all", figures, printed, at_hand, *verdicts)


def load_paper(name: str) -> ModuleType:
    """Import the module that says what is run for a paper."""
    return import_module(f".{name}", __package__)


def tables_of(paper: str) -> list[str]:
    """Tables and figures of a paper that are computed.

    Examples
    --------
    >>> from reproduction.study import tables_of
    >>> tables_of("least_squares")
    ['table-1', 'table-2', 'figure-3', 'figure-4', 'figure-5']
    """
    module = load_paper(paper)
    tables = sorted({table for entry in module.entries() for table in entry.tables})
    return [*tables, *sorted({curve.figure for curve in module.curves()})]


def parse_names(names: Sequence[str]) -> list[Wanted]:
    """Read names such as ``alternating`` and ``least_squares:table-1``; none means all papers.

    Examples
    --------
    >>> from reproduction.study import parse_names
    >>> parse_names(["least-squares:table-1"])
    [Wanted(paper='least_squares', tables=('table-1',))]
    """
    found: dict[str, list[str]] = {}
    for name in names or PAPERS:
        paper, _, table = name.partition(":")
        paper = paper.replace("-", "_")
        if paper not in PAPERS:
            raise ValueError(f"there is no paper {paper!r}; the papers are {', '.join(PAPERS)}")
        if table and table not in tables_of(paper):
            known = ", ".join(tables_of(paper))
            raise ValueError(f"{paper} has no {table!r} that is computed; it has {known}")
        found.setdefault(paper, []).append(table)
    return [Wanted(p, () if "" in tables else tuple(tables)) for p, tables in found.items()]


def run_study(
    wanted: Sequence[Wanted],
    cache: Path,
    *,
    quick: bool = False,
    online: bool = True,
    minutes: float = float("inf"),
    jobs: int = 1,
    stream: TextIO | None = None,
) -> Study:
    """Run what is wanted and lay it beside the papers.

    Parameters
    ----------
    wanted : list of Wanted
    cache : Path
        Folder of kept results.
    quick : bool, default=False
        Fewer rows, tasks, seeds and settings.
    online : bool, default=True
        Whether OpenML may be asked for data.
    minutes : float
        When they are over, what is not in the cache is left out.
    jobs : int, default=1
        Number of processes.
    stream : file, default=None
        Where progress is told; None is the standard error.

    Returns
    -------
    Study
    """
    plans = [_Plan.of(want, quick) for want in wanted]
    ranked = sorted(
        (item for plan in plans for item in plan.units()),
        key=lambda item: (item[0], _rows(item[1])),
    )
    results = run_units(
        [unit for _, unit in ranked],
        cache,
        online=online,
        minutes=minutes,
        jobs=jobs,
        stream=stream,
    )
    return Study([plan.report(results) for plan in plans], results, quick)


@dataclass(frozen=True)
class _Plan:
    """What is run for one paper."""

    wanted: Wanted
    module: ModuleType
    entries: list[Entry]
    curves: list[Curve]
    peers: dict[str, dict[str, Unit]]

    @classmethod
    def of(cls, wanted: Wanted, quick: bool) -> _Plan:
        module = load_paper(wanted.paper)
        entries = [e for e in module.entries() if any(map(wanted.has, e.tables))]
        ours = {(e.tables, e.data, e.method): e for e in entries if _is_ours(e)}
        entries += [twin for entry in ours.values() for twin in beside(entry)]
        curves = [c for c in module.curves() if wanted.has(c.figure)]
        peers = {} if wanted.tables else {u.data: _beside(u) for u in module.peers()}
        if quick:
            entries, curves = [quickened(e) for e in entries], [quick_curve(c) for c in curves]
            peers = {s: {n: quick_unit(u) for n, u in g.items()} for s, g in peers.items()}
        return cls(wanted, module, entries, curves, peers)

    def units(self) -> Iterable[tuple[int, Unit]]:
        """Yield units with their rank: what is scored comes first, label-free before post hoc."""
        scored = {
            (f.table, f.dataset, f.method) for f in read_figures(self.wanted.paper) if f.scored
        }
        for entry in self.entries:
            counts = any((table, entry.data, entry.method) in scored for table in entry.tables)
            rank = (1 if entry.mode == POST_HOC else 0) if counts else 2
            yield from ((rank, unit) for unit in entry.units)
        for curve in self.curves:
            for line in curve.series:
                yield from ((2, unit) for place in line.units for unit in place)
        for group in self.peers.values():
            yield from ((2, unit) for unit in group.values())

    def report(self, results: Results) -> PaperReport:
        drawn = [(curve, curve_lines(curve, results)) for curve in self.curves]
        figures = [(curve, lines) for curve, lines in drawn if lines]
        unseen = [(curve, curve_why(curve, results)) for curve, lines in drawn if not lines]
        fitted = {
            (*curve.exponents, line.label): line.exponent
            for curve, lines in figures
            if curve.exponents
            for line in lines
        }
        name = self.wanted.paper
        rows = table_rows(name, self.module, self.entries, results, fitted)
        rows = [row for row in rows if self.wanted.has(row.figure.table)]
        peers = [
            _peer_row(slug, label, unit, self.module.ACCURACY, results)
            for slug, group in self.peers.items()
            for label, unit in group.items()
        ]
        share = shares(name, rows, results)
        return PaperReport(self.wanted, self.module, rows, share, figures, unseen, peers)


def _is_ours(entry: Entry) -> bool:
    return METHODS[entry.units[0].method].kind == OURS


def _rows(unit: Unit) -> int:
    """Rows of a unit, for the order of the work."""
    card = cards().get(unit.data)
    return unit.rows or (card.n if card else None) or 0


def _beside(ours: Unit) -> dict[str, Unit]:
    """Ours and the peers on the same rows, seeds and links."""
    group = {OURS_NOW: ours}
    for name in PEERS if ours.links is None else LINK_PEERS:
        links = None if name == "k-means" else ours.links
        group[METHODS[name].title] = replace(ours, method=name, params={}, links=links)
    return group


def _peer_row(slug: str, label: str, unit: Unit, accuracy: str, results: Results) -> PeerRow:
    entry = Entry((), slug, label, LABEL_FREE, (unit,))
    names = {"accuracy": accuracy, "ari": "ari", "nmi": "nmi", "cpu_s": "cpu_s"}
    scores: dict[str, Any] = {name: picked(entry, s, results)[0] for name, s in names.items()}
    why = results.absent.get(slug) or results.skipped.get(unit.setting(), "")
    return PeerRow(slug, label, scores, why)


def missed(study: Study, mode: str) -> list[Row]:
    """Scored rows with data that are not reached."""
    return [
        row
        for report in study.reports
        for row in report.rows
        if row.counted and row.reached(mode) is False
    ]
