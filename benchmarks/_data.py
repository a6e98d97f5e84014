"""Data of the papers for the benchmarks, read where `maxmargin papers` reads them."""

import argparse
import os
import sys
import time
import warnings
from pathlib import Path

import numpy as np

from maxmargin._files import DataError
from maxmargin.papers.data import read_file


def available(name):
    """Whether a data set can be loaded; None stands for data that needs no file."""
    folder = os.environ.get("MAXMARGIN_DATA")
    return name is None or (folder is not None and (Path(folder) / f"{name}.npz").exists())


def load(name):
    """Rows and classes of one data set; a missing file ends the program with what to do."""
    try:
        X, y = read_file(name, online=False)
    except DataError as error:
        sys.exit(str(error))
    return X.astype(np.float64), y


def classes(name, *wanted):
    """Rows of the wanted classes, numbered from 0 in that order."""
    X, y = load(name)
    keep = np.isin(y, wanted)
    return X[keep], np.searchsorted(np.sort(wanted), y[keep])


def sample(name, per_class, seed=0):
    """The same number of random rows of every class."""
    X, y = load(name)
    rng = np.random.RandomState(seed)
    chosen = [rng.choice(np.flatnonzero(y == c), per_class, replace=False) for c in np.unique(y)]
    rows = np.concatenate(chosen)
    return X[rows], y[rows]


def table(title, columns, rows, decimals=2):
    """Print rows under a title, numbers with two decimals unless told otherwise."""
    cells = [[f"{v:.{decimals}f}" if isinstance(v, float) else str(v) for v in r] for r in rows]
    widths = [max(len(c), *(len(r[i]) for r in cells)) for i, c in enumerate(columns)]
    print(f"\n{title}")
    for row in [columns, ["-" * w for w in widths], *cells]:
        print(
            "  ".join(
                c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths))
            )
        )


def best_time(work, *args):
    """Least CPU time of three runs (the first one compiles), and the last result."""
    times = []
    for _ in range(3):
        begin = time.process_time()
        result = work(*args)
        times.append(time.process_time() - begin)
    return min(times), result


def run_sections(sections, description, quiet):
    """Command line of a benchmark: the sections named, or all."""
    parser = argparse.ArgumentParser(description=description.split("\n")[0])
    parser.add_argument("section", nargs="*", choices=[*sections, []], help="which tables to print")
    chosen = parser.parse_args().section or list(sections)
    warnings.simplefilter("ignore", quiet)
    for section in chosen:
        sections[section]()
