"""Row sources: the interface through which methods read rows, and rows in memory.

A pass over the rows is a *block function*

    function(block, parts, *shared) -> (new_parts, sums)

of a block of rows, the corresponding parts of some columns (one entry per row), and arguments that
are the same for all blocks. :meth:`RowSource.run` calls it where the blocks are stored: in threads
of this process, on the workers of a cluster, or on a device. The blocks are fixed and their sums
are returned in order, so the result has the same bits for any number of threads.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn, Protocol, runtime_checkable

import numpy as np
from scipy import sparse
from sklearn import config_context
from sklearn.utils import assert_all_finite

from .._threads import in_order

# OpenBLAS changes kernel with the row count: with tiles of at most 1024 rows the last digits hardly
# depend on how the rows are blocked.
TILE = 1024
BLOCK = 16 * TILE
LARGEST, LARGEST32 = 1e150, 1e18  # squares of these and of their inverses are finite
NOT_NUMBERS = re.compile("NaN|convert|promote")  # in what scikit-learn says of a table

Columns = tuple[Any, ...]  # arrays with an entry for each row
BlockResult = tuple[Columns, Any]  # the columns that a block function makes, and its sums
Pass = tuple[Columns, Iterator[Any]]
BlockFunc = Callable[..., BlockResult]


class SchedulerLost(RuntimeError):
    """The scheduler of a dask cluster no longer responds.

    ``found`` is the best model so far: features, coefficients and intercepts, if there is one.
    """

    found: tuple[Any, np.ndarray, np.ndarray] | None = None


@runtime_checkable
class RowSource(Protocol):
    """Rows in any storage."""

    shape: tuple[int, int]
    dtype: np.dtype[Any]
    is_sparse: bool
    in_memory: bool
    local: bool
    column_names: tuple[str, ...] | None

    def check(self) -> None:
        """Raise an error for values that are not finite, unless reading checks them."""

    def take(self, rows: np.ndarray | slice) -> Any:
        """Return the chosen rows as an array or CSR matrix in memory."""

    def part(self, rows: np.ndarray) -> RowSource:
        """Return the chosen rows (ascending numbers), stored in the same place."""

    def sample(self, rows: np.ndarray) -> RowSource:
        """Return the chosen rows, stored where several passes over them are fastest."""

    def columns(self, chosen: Any) -> RowSource:
        """Return the same rows with some of the columns."""

    def mapped(self, features: Any, n_jobs: int = 1) -> RowSource | None:
        """Return stored features of all rows; None if there is no memory for them."""

    def run(
        self, function: BlockFunc, view: Any, shared: Any = (), columns: Any = (), made: Any = ()
    ) -> Pass:
        """Call a block function on every block; return the columns it makes and all sums."""

    def map(self, function: BlockFunc, view: Any, shared: Any, width: int | None = None) -> Any:
        """Return what a block function gives for every row, in the user's container."""

    def like(self, column: Any, names: np.ndarray | None = None) -> Any:
        """Return a column, renumbered, in the user's container; None if it stays on workers."""


class LocalRows:
    """Base class of rows in memory and in files, which this process reads range by range."""

    in_memory = True
    local = True
    column_names: tuple[str, ...] | None = None
    shape: tuple[int, int]
    dtype: np.dtype[Any]

    def check(self) -> None:
        """Do nothing: the rows have been checked, or are checked when they are read."""

    def take(self, rows: Any) -> Any:
        """Return the chosen rows."""
        raise NotImplementedError

    def run(
        self, function: BlockFunc, view: Any, shared: Any = (), columns: Any = (), made: Any = ()
    ) -> Pass:
        """Call a block function on every block, on ``view.n_jobs`` threads."""
        n = self.shape[0]
        out = tuple(np.empty(n, dtype) for dtype in made)

        def work(where: slice) -> Any:
            parts = [column[where] for column in columns]
            # A column that repeats one value takes no memory until here.
            parts = [np.ascontiguousarray(p) if p.strides[0] == 0 else p for p in parts]
            new, sums = function(view.of(self.take(where)), parts, *shared)
            for column, values in zip(out, new):
                column[where] = values
            return sums

        return out, in_order(work, blocks(n), view.n_jobs)

    def map(self, function: BlockFunc, view: Any, shared: Any, width: int | None = None) -> Any:
        """Return what a block function gives for every row."""
        found = list(self.run(function, view, shared)[1])
        if not found:
            return np.zeros((0,) if width is None else (0, width))
        return np.concatenate(found)

    def mapped(self, features: Any, n_jobs: int = 1) -> MemoryRows:
        """Return the features of all rows in one array, mapped tile by tile."""
        Z = np.empty((self.shape[0], features.rank), features.dtype)

        def work(where: slice) -> None:
            part, out = self.take(where), Z[where]
            for i in range(0, len(out), TILE):
                out[i : i + TILE] = features.values(part[i : i + TILE])

        for _ in in_order(work, blocks(len(Z)), n_jobs):
            pass
        return MemoryRows(Z)

    def like(self, column: Any, names: np.ndarray | None = None) -> Any:
        """Return the column, its entries replaced by ``names[entry]`` if they are given."""
        if names is not None:
            for start in range(0, len(column), BLOCK):  # all at once would copy it twice
                column[start : start + BLOCK] = names[column[start : start + BLOCK]]
        return column


class MemoryRows(LocalRows):
    """Rows of an array, a memory-mapped file or a CSR matrix.

    Examples
    --------
    >>> rows = MemoryRows(np.arange(6.0).reshape(3, 2))
    >>> rows.part(np.array([0, 2])).take(slice(None)).tolist()
    [[0.0, 1.0], [4.0, 5.0]]
    """

    def __init__(self, X: Any, column_names: tuple[str, ...] | None = None) -> None:
        self.X, self.column_names = X, column_names
        self.shape, self.dtype, self.is_sparse = X.shape, X.dtype, sparse.issparse(X)

    def replaced(self, X: Any) -> MemoryRows:
        """Return other values with the same user's container."""
        return MemoryRows(X)

    def take(self, rows: Any) -> Any:
        """Return the chosen rows; ranges are not copied."""
        if not isinstance(rows, slice):
            numbered = isinstance(rows, np.ndarray) and rows.dtype.kind == "i"
            if numbered and isinstance(self.X, np.ndarray) and self.X.flags.c_contiguous:
                return np.asarray(self.X).take(rows, axis=0)  # in a third of the time
            return self.X[rows]
        start, stop, step = rows.indices(self.shape[0])
        if start == 0 and stop == self.shape[0] and step == 1:
            return self.X
        if not self.is_sparse or step != 1:
            return self.X[rows]
        first, last = self.X.indptr[start], self.X.indptr[stop]
        view = sparse.csr_matrix((stop - start, self.shape[1]), dtype=self.dtype)
        view.data, view.indices = self.X.data[first:last], self.X.indices[first:last]
        view.indptr = self.X.indptr[start : stop + 1] - first
        return view

    def part(self, rows: np.ndarray) -> MemoryRows:
        """Return the chosen rows."""
        return self if len(rows) == self.shape[0] else MemoryRows(self.take(rows))

    sample = part

    def columns(self, chosen: Any) -> MemoryRows:
        """Return the same rows with some of the columns."""
        return MemoryRows(self.X[:, chosen])


def blocks(n_rows: int) -> list[slice]:
    """Return the blocks of a pass over rows in memory: about 16, but of 2 to 16 tiles.

    Examples
    --------
    >>> blocks(3000)
    [slice(0, 2048, None), slice(2048, 3000, None)]
    """
    size = TILE * min(max(2, -(-n_rows // BLOCK)), 16)
    return [slice(i, min(i + size, n_rows)) for i in range(0, n_rows, size)]


def all_equal(column: np.ndarray) -> bool:
    """Return whether a column repeats one value, stored once."""
    return column.strides[0] == 0


def check_magnitude(X: Any, n_jobs: int = 1) -> None:
    """Raise an error for values whose squares overflow or underflow, or that are not finite."""
    values = X.data if sparse.issparse(X) else X
    ranges = in_order(lambda at: (values[at].max(), -values[at].min()), blocks(len(values)), n_jobs)
    largest = float(np.max([*ranges])) if values.size else 0.0  # NaN if there is one
    if not np.isfinite(largest):
        # scikit-learn adds up inf and -inf, and has a setting that all values are finite.
        with np.errstate(invalid="ignore"), config_context(assume_finite=False):
            assert_all_finite(X, input_name="X")
    limit = LARGEST if values.dtype == np.float64 else LARGEST32
    if largest > limit or 0.0 < largest < 1.0 / limit:
        raise ValueError(
            f"The largest absolute value in X is {largest:.3g}, outside {1.0 / limit:g} to "
            f"{limit:g}: squares overflow or underflow in {values.dtype}. Rescale X."
        )


def raise_with_hint(error: Exception, X: Any, call: str) -> NoReturn:
    """Raise an error; if it is about missing values or a table that is not numbers, with a remedy.

    ``call`` is what takes a table.
    """
    said = str(error).split("\n")[0]
    if hasattr(X, "columns") and NOT_NUMBERS.search(said):
        remedy = f"For a table with categories, dates, text or gaps use {call}."
    elif "NaN" in said:
        impute = "Impute them (sklearn.impute.SimpleImputer)"
        remedy = f"{impute}, or pass a DataFrame through table_pipeline."
    else:
        raise error
    raise ValueError(f"{said.rstrip('.')}. {remedy}") from None


def available_memory(
    root: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")
) -> float:
    """Return the bytes that this process can still allocate; infinity without psutil.

    This is the machine's free memory, or what the limits of Linux control groups (containers) leave
    if that is less.
    """
    try:
        import psutil
    except ImportError:
        return float("inf")
    room = float(psutil.virtual_memory().available)
    for line in own.read_text().splitlines() if own.exists() else ():
        _, kinds, name = line.split(":", 2)
        if kinds not in ("", "memory"):  # version 2, or version 1 with a folder for each kind
            continue
        group = root / kinds / name.lstrip("/")
        names = (("max", "current"), ("limit_in_bytes", "usage_in_bytes"))
        for folder in (group, *group.parents[: len(Path(name).parents)]):
            for limit, used in names:
                with contextlib.suppress(OSError, ValueError):  # no such file, or "max"
                    most = int((folder / f"memory.{limit}").read_text())
                    if most < 2**60:  # version 1 writes a huge number for no limit
                        stat = (folder / "memory.stat").read_text()
                        pages = dict(line.split() for line in stat.splitlines())
                        taken = int((folder / f"memory.{used}").read_text())
                        # Unused pages of files count as used, but are given up on demand.
                        room = min(room, most - taken + int(pages.get("inactive_file", 0)))
    return max(0.0, room)
