"""Do the units of a plan: cached ones are read, missing data and packages are told, not raised."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, TextIO

from .._files import DataError
from .cache import ResultCache
from .data import DataMissing, DataSet, cards, load_data
from .measure import measure
from .methods import METHODS, OURS
from .plan import Unit

__all__ = ["Progress", "Results", "run_units"]

TIME_IS_UP = "not run: the time was up; the same command goes on"
GROUND = 200  # rows that even the smallest fit counts for in the estimate of the time left


@dataclass
class Results:
    """What was found: results of units, and why others have none.

    Attributes
    ----------
    found : dict
        By the unit's setting: every score as a list over tasks of lists over seeds.
    absent : dict
        By data set: what would fetch it.
    skipped : dict
        By the unit's setting: why it was not run.
    computed : int
        How many were computed now; the others were in the cache.
    deadline : float
        Nothing is begun after it.
    """

    found: dict[str, dict[str, Any]] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    computed: int = 0
    deadline: float = float("inf")

    def of(self, unit: Unit) -> dict[str, Any] | None:
        """Return the result of a unit, or None."""
        return self.found.get(unit.setting())


class Progress:
    """A bar with an estimate on a terminal; on a file, one line for every tenth.

    Parameters
    ----------
    total : float
        Amount of work.
    stream : file
    """

    def __init__(self, total: float, stream: TextIO | None = None):
        self.total = max(total, 1e-12)
        self.stream = sys.stderr if stream is None else stream
        self.done = self.worked = 0.0
        self.begin = time.monotonic()
        self._told = -1

    def step(self, weight: float, name: str, cached: bool) -> None:
        """Count work as done; only what was not cached tells about the time left."""
        self.done += weight
        self.worked += 0.0 if cached else weight
        share = min(self.done / self.total, 1.0)
        text = f"{share:>4.0%}  {self.left():<22} {name}"
        if self.stream.isatty():
            bar = "#" * round(20 * share)
            self.stream.write(f"\r[{bar:<20}] {text[:58]:<58}")
        elif int(10 * share) > self._told:
            self._told = int(10 * share)
            self.stream.write(f"papers: {text}\n")
        self.stream.flush()

    def left(self) -> str:
        """Return the estimate of the time left, in words."""
        if not self.worked:
            return ""
        rate = (time.monotonic() - self.begin) / self.worked
        seconds = rate * max(self.total - self.done, 0.0)
        return (
            f"about {seconds / 60:.0f} min left" if seconds > 90 else f"about {seconds:.0f} s left"
        )

    def close(self) -> None:
        """End the line."""
        if self.stream.isatty():
            self.stream.write("\r" + " " * 82 + "\r")
            self.stream.flush()


def run_units(
    units: Iterable[Unit],
    cache: ResultCache,
    *,
    later: Iterable[Unit] = (),
    online: bool = True,
    minutes: float = float("inf"),
    stream: TextIO | None = None,
) -> Results:
    """Run units, data set by data set, each once.

    Parameters
    ----------
    units : iterable of Unit
    cache : ResultCache
    later : iterable of Unit
        Those that come after all the others.
    online : bool, default=True
        Whether OpenML may be asked for data.
    minutes : float
        When they are over, what is not in the cache is left out.
    stream : file, default=None
        Where progress is told; None is the standard error.

    Returns
    -------
    Results
    """
    first = _by_data(units, set())
    rest = _by_data(later, {setting for group in first.values() for setting in group})
    results = Results(deadline=time.monotonic() + 60.0 * minutes)
    groups = [*first.items(), *rest.items()]
    progress = Progress(sum(_weight(u) for _, group in groups for u in group.values()), stream)
    try:
        for slug, group in groups:
            _run_group(slug, group, cache, online, results, progress)
    finally:
        progress.close()
    return results


def _by_data(units: Iterable[Unit], known: set[str]) -> dict[str, dict[str, Unit]]:
    found: dict[str, dict[str, Unit]] = {}
    for unit in units:
        if unit.setting() not in known:
            found.setdefault(unit.data, {})[unit.setting()] = unit
    return found


def _run_group(slug, group, cache, online, results: Results, progress: Progress) -> None:
    try:
        data = load_data(slug, online=online)
    except DataError as error:
        if not isinstance(error, DataMissing):  # a damaged file is worth a word at once
            warnings.warn(str(error), stacklevel=3)
        results.absent[slug] = str(error)
        progress.step(sum(map(_weight, group.values())), slug, cached=True)
        return
    digest = data.digest()
    for setting, unit in group.items():
        why = _not_run(unit, data)
        kept = None if why else cache.get(unit, digest)
        if why:
            results.skipped[setting] = why
        elif kept is not None:
            results.found[setting] = kept
        elif time.monotonic() > results.deadline:
            results.skipped[setting] = TIME_IS_UP
        else:
            _compute(unit, data, digest, cache, results)
            results.computed += 1
        progress.step(_weight(unit), f"{slug}: {unit.method}", bool(why) or kept is not None)


def _compute(unit: Unit, data: DataSet, digest: str, cache: ResultCache, results: Results) -> None:
    try:
        result = measure(unit, data)
    except Exception as error:
        if METHODS[unit.method].kind == OURS:
            raise
        # What others do on some data must not end the run.
        said = " ".join(str(error).split()) or type(error).__name__
        results.skipped[unit.setting()] = f"{METHODS[unit.method].title}: failed ({said:.80})"
        return
    cache.put(unit, digest, result)
    results.found[unit.setting()] = result


def _not_run(unit: Unit, data: DataSet) -> str | None:
    method = METHODS[unit.method]
    rows = max(len(part) for part in data.parts)
    rows = rows if unit.rows is None else min(rows, unit.rows)
    if method.most_rows is not None and rows > method.most_rows:
        return f"{method.title}: not run on more than {method.most_rows} rows"
    return method.missing()


def _weight(unit: Unit) -> float:
    """Rough amount of work: rows, tasks and seeds."""
    card = cards().get(unit.data)
    rows = (card.n if card and card.n else None) or 1000
    rows = rows if unit.rows is None else min(rows, unit.rows)
    tasks = {"digits-all-pairs-mean": 9, "mnist-all-pairs-mean": 9}.get(unit.data, 1)
    return (GROUND + rows) * tasks * unit.seeds
