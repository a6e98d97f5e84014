"""Readers of files that are larger than memory: npy, parquet and zarr, block by block.

A reader is called with the number of a block. It is opened once, remembers the file as it was then,
and can travel to another process, where it opens the file again.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..engine.blocks import RowBlocks
from ..engine.rows import BLOCK
from ..files import DataError, resolved
from .arrays import _check_array, npy_layout
from .opening import explained, format_of
from .sheet import Wish, number_columns, refuse_names

NPY_BYTES = 16 * 2**20  # of a block of a npy file, rounded to blocks of the engine
TRANSPOSED = 4096  # rows of parquet columns that are brought together at a time: they fit the cache


def open_blocks(path: Path, wish: Wish, format: str | None = None) -> RowBlocks:
    """Open a file as rows in blocks."""
    path = resolved(path)  # workers, and this process later, may be in another folder
    if os.path.isdir(path) and format in (None, "zarr"):
        format = "zarr"
    else:
        format = format_of(path, format)
    openers = {"npy": _open_npy, "parquet": _open_parquet, "zarr": _open_zarr}
    if format not in openers:
        raise DataError(
            f"{path}: {format} files cannot be read block by block",
            "Write the rows as parquet, npy or zarr",
        )
    with explained(path):
        return openers[format](path, wish)


class _Reader:
    """A file that must not change while it is read."""

    def __init__(self, path: Path):
        self.path = path
        self.state = _state(path)

    def check(self) -> None:
        """Refuse a file that is not the one that was opened."""
        if not self.path.exists():
            raise DataError(
                f"{self.path} is not there any more, or not on this machine",
                "Workers of a cluster need the file under the same name",
            )
        if _state(self.path) != self.state:
            raise DataError(
                f"{self.path} changed while it was being read",
                "Start again when nothing writes to it any more",
            )


def _state(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_size, found.st_mtime_ns


# -- npy ---------------------------------------------------------------------------------


class NpyReader(_Reader):
    """Reads ranges of rows of a npy file: no memory map, which would need addresses for all."""

    def __init__(self, path: Path, offset: int, dtype: np.dtype, sizes: Sequence[int], width: int):
        super().__init__(path)
        self.offset, self.dtype, self.width = offset, dtype, width
        self.sizes = tuple(sizes)
        self.step = self.sizes[0] if self.sizes else 0

    def __call__(self, i: int) -> np.ndarray:
        """Rows of block ``i``."""
        self.check()
        count = self.sizes[i] * self.width
        place = self.offset + i * self.step * self.width * self.dtype.itemsize
        values = np.fromfile(self.path, self.dtype, count, offset=place)
        if len(values) < count:
            raise DataError(f"{self.path} is truncated", "Get or write the file again")
        return values.reshape(-1, self.width).astype(self.dtype.newbyteorder("="), copy=False)


def _open_npy(path: Path, wish: Wish) -> RowBlocks:
    refuse_names(wish)
    shape, fortran, dtype, offset = npy_layout(path)
    if fortran and shape[1] > 1:
        raise DataError(
            "it is stored column by column", "Store it again: np.save(path, X.copy('C'))"
        )
    n, width = shape
    rows = max(1, NPY_BYTES // max(BLOCK * width * dtype.itemsize, 1)) * BLOCK
    sizes = [min(rows, n - start) for start in range(0, n, rows)]
    reader = NpyReader(path, offset, dtype, sizes, width)
    return RowBlocks(reader, sizes, width, _float_for([dtype]), name=str(path))


# -- parquet -----------------------------------------------------------------------------


class ParquetReader(_Reader):
    """Reads row groups of a parquet file."""

    def __init__(self, path: Path, columns: Sequence[str], dtype: np.dtype, groups: Sequence[int]):
        super().__init__(path)
        self.columns, self.dtype, self.groups = list(columns), dtype, list(groups)

    def __call__(self, i: int) -> np.ndarray:
        """Rows of row group ``i``."""
        self.check()
        # A reader of its own for every call: threads read different row groups at a time.
        with explained(self.path), _parquet_file(self.path) as file:
            group = self.groups[i]
            table = file.read_row_group(group, columns=self.columns, use_threads=False)
        columns = [table.column(name).to_numpy() for name in self.columns]
        out = np.empty((table.num_rows, len(columns)), self.dtype)
        for start in range(0, len(out), TRANSPOSED):
            for j, column in enumerate(columns):
                out[start : start + TRANSPOSED, j] = column[start : start + TRANSPOSED]
        return out


def _parquet_file(path: Path):
    try:
        import pyarrow.parquet as pq
    except ImportError as error:
        raise DataError(
            "reading parquet needs pyarrow", 'Install it: pip install "maxmargin[io]"'
        ) from error
    return pq.ParquetFile(path, memory_map=False, pre_buffer=False)


def _open_parquet(path: Path, wish: Wish) -> RowBlocks:
    with _parquet_file(path) as file:
        schema, about = file.schema_arrow, file.metadata
        sizes = [about.row_group(i).num_rows for i in range(about.num_row_groups)]
    index = (schema.pandas_metadata or {}).get("index_columns", [])
    columns = number_columns([name for name in schema.names if name not in index], wish)
    kinds = {name: _number_type(schema.field(name).type) for name in columns}
    text = [name for name in columns if kinds[name] is None]
    if text:
        more = f" and {len(text) - 1} more" if len(text) > 1 else ""
        raise DataError(
            f"column {text[0]!r}{more} holds {schema.field(text[0]).type} values, not numbers",
            f"Leave it out (--drop {text[0]}) or turn it into numbers",
        )
    if not columns:
        raise DataError("it has no columns of numbers", "Name the right file")
    dtype = _float_for([np.dtype(kinds[name]) for name in columns])
    groups = [i for i, size in enumerate(sizes) if size]
    return RowBlocks(
        ParquetReader(path, columns, dtype, groups),
        [sizes[i] for i in groups],
        len(columns),
        dtype,
        name=str(path),
        column_names=tuple(columns),
    )


def _number_type(kind: Any) -> np.dtype | None:
    """The type of a column of numbers as NumPy has it; None for any other column."""
    try:
        found = np.dtype(kind.to_pandas_dtype())
    except (NotImplementedError, TypeError):  # dictionaries, structs
        return None
    return found if found.kind in "biuf" else None


# -- zarr --------------------------------------------------------------------------------


class ZarrReader:
    """Reads the rows of one chunk, or of one row of chunks, of a zarr array."""

    def __init__(self, path: Path, step: int):
        self.path, self.step = path, step
        described = [path / name for name in ("zarr.json", ".zarray") if (path / name).exists()]
        self.about = described[0] if described else None
        self.state = None if self.about is None else _state(self.about)

    def __call__(self, i: int) -> np.ndarray:
        """Rows of block ``i``."""
        if self.about is not None and _state(self.about) != self.state:
            raise DataError(
                f"{self.path} changed while it was being read",
                "Start again when nothing writes to it any more",
            )
        with explained(self.path):
            return np.asarray(_zarr_array(self.path)[i * self.step : (i + 1) * self.step])


def _zarr_array(path: Path):
    try:
        import zarr
    except ImportError as error:
        raise DataError(
            "reading zarr needs zarr", 'Install it: pip install "maxmargin[zarr]"'
        ) from error
    try:
        found = zarr.open(path, mode="r")
    except Exception as error:
        raise DataError("it is a folder, but no zarr array", "Name the right file") from error
    if not hasattr(found, "chunks"):
        raise DataError("it is a zarr group", "Name the array in it: path/of/group/array")
    return found


def _open_zarr(path: Path, wish: Wish) -> RowBlocks:
    refuse_names(wish)
    found = _zarr_array(path)
    _check_array(found.dtype, found.shape)
    step = found.chunks[0]
    sizes = [min(step, found.shape[0] - start) for start in range(0, found.shape[0], step)]
    return RowBlocks(
        ZarrReader(path, step), sizes, found.shape[1], _float_for([found.dtype]), name=str(path)
    )


def _float_for(dtypes: Sequence[np.dtype]) -> np.dtype:
    """float32 where all columns are, else float64."""
    single = bool(dtypes) and all(dtype == np.float32 for dtype in dtypes)
    return np.dtype(np.float32 if single else np.float64)


def size_of(text: str) -> int:
    """Bytes of a size like ``2GiB``, ``500MB`` or ``4096``.

    Examples
    --------
    >>> size_of("2GiB"), size_of("1.5 kB"), size_of("64m")
    (2147483648, 1500, 67108864)
    """
    units = {"": 1, "b": 1}
    for power, letter in enumerate("kmgt", start=1):
        units |= {letter: 2 ** (10 * power), f"{letter}ib": 2 ** (10 * power)}
        units[f"{letter}b"] = 10 ** (3 * power)
    given = text.strip().lower()
    digits = given.rstrip("bikmgt ").strip()
    unit = given[len(digits) :].strip()
    try:
        size = float(digits) * units[unit]
    except (ValueError, KeyError):
        raise ValueError(f"{text!r} is no size; give one like 2GiB or 500MB") from None
    if not 0 < size < float("inf"):
        raise ValueError(f"{text!r} is no size; give one like 2GiB or 500MB")
    return int(size)
