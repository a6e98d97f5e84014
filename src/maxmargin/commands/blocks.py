"""What ``fit`` does with files that do not fit into memory: blocks, dask, and how far it is."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import time
from collections.abc import Iterator
from typing import Any

from . import UsageError

# Passes over all rows that a fit takes, about: centring, cuts until the gap closes, final labels.
FIRST_PASSES, PASSES_PER_CLUSTER = 8, 2
COPIES = 4  # of a block while it is read: two kept, one as the file has it, one in the making
NOT_IN_BLOCKS = ("partial_labels", "links", "standardize", "plot", "id_column")


def add_blocks(parser: argparse.ArgumentParser) -> None:
    """Declare how to read files that do not fit into memory."""
    parser.add_argument(
        "--memory",
        metavar="SIZE",
        type=_size,
        help="read DATA (parquet, npy, zarr) block by block, within this much memory: 2GiB",
    )
    parser.add_argument(
        "--dask",
        metavar="ADDRESS",
        help="spread the work over a dask cluster: tcp://host:8786, or local",
    )


def _size(text: str) -> int:
    from maxmargin.formats.blocks import size_of

    try:
        return size_of(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def asked_for(args: argparse.Namespace) -> bool:
    """Whether DATA is to be read block by block."""
    asked = args.memory is not None or args.dask is not None or os.path.isdir(args.data)
    if not asked:
        return False
    for name in NOT_IN_BLOCKS:
        if getattr(args, name, None):
            option = name.replace("_", "-")
            raise UsageError(f"--{option} does not go with --memory and --dask")
    return True


def open_data(args: argparse.Namespace, estimator: Any) -> Any:
    """Open DATA, and refuse a limit that is too small for it."""
    from maxmargin.files import DataError
    from maxmargin.io import open_rows

    from .data import reading

    rows = open_rows(args.data, drop=reading(args)["drop"], format=args.format)
    if args.memory is not None and args.dask is None:
        least = least_memory(rows, estimator)
        rows.room = max(0, args.memory - least)
        if args.memory < least:
            raise DataError(
                f"--memory {args.memory / 2**20:,.0f} MiB is too little for {args.data} with "
                f"{rows.shape[0]:,} rows in blocks of up to {rows.sizes.max():,}",
                f"Give at least {least / 2**20 + 1:,.0f}MiB, or write smaller row groups",
            )
    return rows


def least_memory(rows: Any, estimator: Any) -> int:
    """Bytes that a fit on rows in blocks needs: this program, columns of all rows, some blocks."""
    block = int(rows.sizes.max(initial=0)) * rows.shape[1] * rows.dtype.itemsize
    columns = estimator.estimate_memory(*rows.shape, in_blocks=True)
    return _own_size() + columns + COPIES * block


def _own_size() -> int:
    """Bytes of memory that this program has taken so far."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096
    except OSError:  # no Linux
        return 200 * 2**20


@contextlib.contextmanager
def cluster_of(address: str | None) -> Iterator[Any]:
    """A client of a dask cluster for the time of a fit; None where none is asked for."""
    if address is None:
        yield None
        return
    from maxmargin.files import DataError

    try:
        from distributed import Client
    except ImportError:
        raise DataError("--dask needs dask", 'Install it: pip install "maxmargin[dask]"') from None
    try:
        client = (
            Client(dashboard_address=None) if address == "local" else Client(address, timeout=10)
        )
    except (OSError, ValueError, TypeError) as error:
        raise DataError(
            f"--dask {address}: no scheduler answers ({' '.join(str(error).split())})",
            "Start one with 'dask scheduler', or use --dask local",
        ) from error
    with client, client.as_current():
        yield client


class Progress:
    """Says on stderr how far a fit over blocks is, and about how long it will take.

    Parameters
    ----------
    rows : RowBlocks
        Its blocks are counted as they are read.
    n_clusters : int
        More clusters need more passes.
    """

    def __init__(self, rows: Any, n_clusters: int):
        self.rows, self.read = rows, rows.read
        self.expected = FIRST_PASSES + PASSES_PER_CLUSTER * n_clusters
        self.shown = self.started = time.monotonic()
        self.count = 0

    def __call__(self, i: int) -> Any:
        """Read a block, and say so once a second."""
        block = self.read(i)
        self.count += 1
        if time.monotonic() - self.shown > 1.0:
            self.shown = time.monotonic()
            sys.stderr.write(f"\r{self.told():<78}")
            sys.stderr.flush()
        return block

    def told(self) -> str:
        """One line: the pass, how much of it is read, and an estimate of the rest."""
        blocks = len(self.rows.sizes)
        passes = self.count / blocks
        whole = max(self.expected, int(passes) + 2)
        seconds = (time.monotonic() - self.started) / max(passes, 1e-9) * (whole - passes)
        rest = f"{seconds / 60:.0f} min" if seconds > 90 else f"{seconds:.0f} s"
        share = passes - int(passes)
        return f"pass {int(passes) + 1} of about {whole}: {share:4.0%} read, about {rest} left"

    def close(self) -> None:
        """Leave the line."""
        if self.shown > self.started:
            sys.stderr.write("\n")


def fit_blocks(args: argparse.Namespace, estimator: Any) -> Any:
    """Fit on DATA block by block, here or on a cluster; return the rows."""
    import numpy as np

    rows = open_data(args, estimator)
    with cluster_of(args.dask) as client:
        if client is not None:
            estimator.fit(rows.to_dask())
            estimator.labels_ = np.asarray(estimator.labels_)
            if rows.column_names is not None:
                estimator.feature_names_in_ = np.asarray(rows.column_names, object)
            return rows
        progress = None
        if sys.stderr.isatty():
            progress = rows.read = Progress(rows, args.n_clusters or 2)
        try:
            estimator.fit(rows)
        finally:
            if progress is not None:
                progress.close()
    return rows
