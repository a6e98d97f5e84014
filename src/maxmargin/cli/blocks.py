"""What ``fit`` does with files that do not fit into memory: blocks, dask, and how far it is."""

from __future__ import annotations

import argparse
import contextlib
import re
import sys
from collections.abc import Iterator
from itertools import count
from typing import Any

from maxmargin._files import DataError, needed

from . import UsageError
from .data import check_number, reading

# Passes over all rows that a fit takes, about: centring, cuts until the gap closes, final labels.
FIRST_PASSES, PASSES_PER_CLUSTER = 8, 2
COPIES = 4  # of a block while it is read: two kept, one as the file has it, one in the making
NOT_IN_BLOCKS = ("partial_labels", "links", "standardize", "plot", "id_column")


def add_blocks(parser: argparse.ArgumentParser) -> None:
    """Declare how to read files that do not fit into memory."""
    add = parser.add_argument_group("files larger than memory").add_argument
    within = "read DATA (parquet, npy, zarr) block by block, within this much memory: 2GiB"
    add("--memory", metavar="SIZE", type=size_of, help=within)
    where = "spread the work over a dask cluster: tcp://host:8786, or local"
    add("--dask", metavar="ADDRESS", help=where)


def size_of(text: str) -> int:
    """Read a size in bytes.

    Examples
    --------
    >>> size_of("2GiB"), size_of("1.5 kB"), size_of("64m")
    (2147483648, 1500, 67108864)
    """
    match = re.fullmatch(r"(\d+\.?\d*|\.\d+) *([kmgt]?)(i?b?)", text.strip().lower())
    number, letter, unit = match.groups() if match else ("0", "", "")
    base = 1000 if unit == "b" else 1024
    size = int(float(number) * base ** (1 + "kmgt".index(letter) if letter else 0))
    if size < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no size; give one like 2GiB or 500MB")
    return size


def asked_for(args: argparse.Namespace) -> bool:
    """Whether DATA is to be read block by block."""
    from maxmargin._data.files import is_zarr

    if args.memory is None and args.dask is None and not is_zarr(args.data):
        return False
    for name in NOT_IN_BLOCKS:
        if getattr(args, name):
            option = name.replace("_", "-")
            raise UsageError(f"--{option} does not go with --memory and --dask")
    return True


def open_data(args: argparse.Namespace, estimator: Any) -> Any:
    """Open DATA, and refuse a limit that is too small for it."""
    from maxmargin.io import open_rows

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
    import psutil

    block = int(rows.sizes.max(initial=0)) * rows.shape[1] * rows.dtype.itemsize
    columns = estimator.estimate_memory(*rows.shape, in_blocks=True)
    return psutil.Process().memory_info().rss + columns + COPIES * block


@contextlib.contextmanager
def cluster_of(address: str) -> Iterator[None]:
    """Connect to a dask cluster for the time of a fit."""
    Client = needed("distributed", "dask").Client
    try:
        local = address == "local"
        client = Client(dashboard_address=None) if local else Client(address, timeout=10)
    except (OSError, ValueError, TypeError) as error:
        raise DataError(
            f"--dask {address}: no scheduler answers ({' '.join(str(error).split())})",
            "Start one with 'dask scheduler', or use --dask local",
        ) from error
    with client, client.as_current():
        yield


@contextlib.contextmanager
def shown_progress(rows: Any, n_clusters: int) -> Iterator[None]:
    """Show on a terminal how far a fit over blocks is, and about how long it will take."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.progress import Progress

    read, n_blocks, done = rows.read, len(rows.sizes), count(1)
    expected = FIRST_PASSES + PASSES_PER_CLUSTER * n_clusters
    with Progress(console=Console(stderr=True)) as bar:
        task = bar.add_task("pass 1", total=expected * n_blocks)

        def counted(i: int) -> Any:
            block, passes = read(i), 1 + next(done) // n_blocks
            whole = max(expected, passes + 1)
            told = f"pass {passes} of about {whole}"
            bar.advance(task)
            bar.update(task, description=told, total=whole * n_blocks)
            return block

        rows.read = counted
        try:
            yield
        finally:
            rows.read = read


def fit_blocks(args: argparse.Namespace, estimator: Any) -> Any:
    """Fit on DATA block by block, here or on a cluster; return the rows."""
    import numpy as np

    rows = open_data(args, estimator)
    check_number(args, rows.shape[0])
    if args.dask is None:
        with shown_progress(rows, args.n_clusters or 2):
            estimator.fit(rows)
        return rows
    with cluster_of(args.dask):
        estimator.fit(rows.to_dask())
        estimator.labels_ = np.asarray(estimator.labels_)
    if rows.column_names is not None:
        estimator.feature_names_in_ = np.asarray(rows.column_names, object)
    return rows
