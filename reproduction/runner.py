"""Do the units of a plan: cached ones are read, missing data and packages are told, not raised."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, TextIO

from .cache import Store, code_version
from .data import DataError, DataMissing, DataSet, cards, load_data
from .measure import measure
from .methods import METHODS, OURS
from .plan import Unit

__all__ = ["Progress", "Results", "run_units"]

TIME_IS_UP = "not run: the time was up; the same command goes on from here"
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
    failed : bool
        Whether a method of ours raised an error.
    deadline : float
        Nothing is begun after it.
    """

    found: dict[str, dict[str, Any]] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    computed: int = 0
    failed: bool = False
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
    cache: Path,
    *,
    version: str | None = None,
    online: bool = True,
    minutes: float = float("inf"),
    jobs: int = 1,
    stream: TextIO | None = None,
) -> Results:
    """Run units in the order given, each once.

    Parameters
    ----------
    units : iterable of Unit
    cache : Path
        Folder of stored results.
    version : str, default=None
        Version of the code; None takes the present one.
    online : bool, default=True
        Whether OpenML may be asked for data.
    minutes : float
        When they are over, what is not in the cache is left out, and so are units in work in other
        processes.
    jobs : int, default=1
        Number of processes; 1 computes in this one.
    stream : file, default=None
        Where progress is told; None is the standard error.

    Returns
    -------
    Results
    """
    store = Store(cache, code_version() if version is None else version)
    results = Results(deadline=time.monotonic() + 60.0 * minutes)
    wanted = {unit.setting(): unit for unit in units}
    progress = Progress(sum(map(_weight, wanted.values())), stream)
    _loaded.cache_clear()
    try:
        todo = _not_stored(wanted, store, online, results, progress)
        for unit, found, why in _computed(todo, jobs, results.deadline):
            if found is None:
                results.skipped[unit.setting()] = why
                results.failed |= METHODS[unit.method].kind == OURS
            else:
                results.found[unit.setting()] = found
                results.computed += 1
            progress.step(_weight(unit), f"{unit.data}: {unit.method}", cached=False)
    finally:
        progress.close()
    for setting in wanted.keys() - results.found.keys() - results.skipped.keys():
        if wanted[setting].data not in results.absent:
            results.skipped[setting] = TIME_IS_UP
    return results


@dataclass(frozen=True)
class _Job:
    """A unit to compute, and where its result goes."""

    unit: Unit
    digest: str
    store: Store
    online: bool


@lru_cache(maxsize=2)
def _loaded(slug: str, online: bool) -> DataSet:
    return load_data(slug, online=online)


def _not_stored(wanted, store, online, results: Results, progress: Progress) -> list[_Job]:
    """Take what is stored; return what is left to compute."""
    by_data: dict[str, list[Unit]] = {}
    for unit in wanted.values():
        by_data.setdefault(unit.data, []).append(unit)
    left = set()
    for slug, units in by_data.items():
        try:
            data = _loaded(slug, online)
        except DataError as error:
            if not isinstance(error, DataMissing):  # a damaged file is worth a word at once
                warnings.warn(str(error), stacklevel=3)
            results.absent[slug] = str(error)
            progress.step(sum(map(_weight, units)), slug, cached=True)
            continue
        digest = data.digest()
        for unit in units:
            setting, why = unit.setting(), _not_run(unit, data)
            found = None if why else store.read(setting, digest)
            if why:
                results.skipped[setting] = why
            elif found is not None:
                results.found[setting] = found
            else:
                left.add((setting, digest))
                continue
            progress.step(_weight(unit), f"{slug}: {unit.method}", cached=True)
    digests = dict(left)
    return [_Job(u, digests[s], store, online) for s, u in wanted.items() if s in digests]


def _computed(todo: list[_Job], jobs: int, deadline: float) -> Iterator[tuple]:
    """Yield (unit, result, why there is none) until the deadline."""
    if jobs == 1:
        for job in todo:
            if time.monotonic() > deadline:
                return
            yield _work(job)
        return
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"  # of the processes that are started now
    with multiprocessing.get_context("spawn").Pool(
        jobs, signal.signal, (signal.SIGINT, signal.SIG_IGN)
    ) as pool:
        found = pool.imap_unordered(_work, todo)
        for _ in todo:
            left = deadline - time.monotonic()
            try:
                yield found.next(None if left == float("inf") else max(left, 0.0))
            except multiprocessing.TimeoutError:  # leaving the block ends the processes
                return


def _work(job: _Job) -> tuple[Unit, dict[str, Any] | None, str]:
    """Measure a unit and store the result."""
    unit, method = job.unit, METHODS[job.unit.method]
    try:
        found = measure(unit, _loaded(unit.data, job.online))
    except Exception as error:  # one unit must not end the run
        said = " ".join(str(error).split()) or type(error).__name__
        return unit, None, f"{method.title}: failed ({said:.80})"
    job.store.write(unit.setting(), job.digest, found)
    return unit, found, ""


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
