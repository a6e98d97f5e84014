"""Readers of files that are larger than memory: npy, parquet and zarr, block by block.

A reader is called with the number of a block. It is opened once, remembers the file as it was then,
and can travel to another process, where it opens the file again.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .._files import DataError
from .arrays import _check_array, _objects_or
from .blocks import RowBlocks
from .opening import damaged, format_of
from .sheet import Wish, number_columns, refuse_names
from .source import BLOCK

NPY_BYTES = 16 * 2**20  # of a block of a npy file, rounded to blocks of the engine
TRANSPOSED = 4096  # rows of parquet columns that are brought together at a time: they fit the cache


def open_blocks(path: Path, wish: Wish, format: str | None = None) -> RowBlocks:
    """Open a file as rows in blocks."""
    path = path.resolve()  # workers, and this process later, may be in another folder
    if path.is_dir() and format in (None, "zarr"):
        format = "zarr"
    else:
        format = format_of(path, format)
    if format == "npy":
        return _open_npy(path, wish)
    if format == "parquet":
        return _open_parquet(path, wish)
    if format == "zarr":
        return _open_zarr(path, wish)
    raise DataError(
        f"{path}: {format} files cannot be read block by block",
        "Write the rows as parquet, npy or zarr",
    )


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
    with open(path, "rb") as file:
        version = np.lib.format.read_magic(file)
        read = {(1, 0): np.lib.format.read_array_header_1_0}.get(
            version, np.lib.format.read_array_header_2_0
        )
        try:
            shape, fortran, dtype = read(file)
        except ValueError as error:
            raise _objects_or(error) from error
        offset = file.tell()
    _check_array(dtype, shape)
    if fortran and shape[1] > 1:
        raise DataError(
            f"{path} is stored column by column", "Store it again: np.save(path, X.copy('C'))"
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
        with _parquet_file(self.path) as file:
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
    try:
        return pq.ParquetFile(path, memory_map=False, pre_buffer=False)
    except (OSError, ValueError) as error:  # ArrowInvalid is a ValueError
        raise damaged(path, error) from error


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
            f"{path}: column {text[0]!r}{more} holds {schema.field(text[0]).type} values, not "
            "numbers",
            f"Leave it out (--drop {text[0]}) or turn it into numbers",
        )
    if not columns:
        raise DataError(f"{path} has no columns of numbers", "Name the right file")
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
        raise DataError(f"{path} is a folder, but no zarr array", "Name the right file") from error
    if not hasattr(found, "chunks"):
        raise DataError(f"{path} is a zarr group", "Name the array in it: path/of/group/array")
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
