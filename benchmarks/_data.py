"""What the benchmarks share: data, from the registry of the reproduction, times and tables."""

import argparse
import sys
import time
import warnings
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))  # reproduction/ is not installed
from reproduction.data import DataError, data_file, load_data, read_file


def available(name):
    """Whether a file of data is there; None stands for data that needs no file."""
    return name is None or data_file(name) is not None


def load(slug):
    """Rows of a data set of the papers and its classes, numbered from 0."""
    return _loaded(lambda: load_data(slug, online=False).task(0))


def load_file(name):
    """All rows of a file and their classes, numbered from 0."""
    return _loaded(lambda: read_file(name, online=False))


def _loaded(read):
    """A missing file ends the program with what to do."""
    try:
        X, y = read()
    except DataError as error:
        sys.exit(str(error))
    return X.astype(np.float64), np.unique(y, return_inverse=True)[1]


def table(title, columns, rows, decimals=2):
    """Print rows under a title, numbers with two decimals unless told otherwise."""
    cells = [[f"{v:.{decimals}f}" if isinstance(v, float) else str(v) for v in r] for r in rows]
    widths = [max(len(row[i]) for row in [columns, *cells]) for i in range(len(columns))]
    print(f"\n{title}")
    if not rows:
        print("no data: name their folder in MAXMARGIN_DATA (see reproduction/data.py)")
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
