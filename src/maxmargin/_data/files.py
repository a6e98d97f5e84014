"""Readers of files that are larger than memory: npy, parquet and zarr, block by block.

A reader is called with the number of a block. It stores size and time of the file when it is
created, and can be pickled: another process opens the file again.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .._files import DataError, needed, resolved
from .blocks import RowBlocks
from .formats import check_array, float_for, npy_layout, parquet_columns
from .opening import GET_AGAIN, explained, format_of
from .sheet import Wish, refuse_names, rows_of
from .source import BLOCK

_ZARR_ARRAY = ("zarr.json", ".zarray")  # files that describe an array, of versions 3 and 2
NPY_BYTES = 16 * 2**20  # of a block of a npy file, rounded to a multiple of BLOCK rows


def is_zarr(path: str | os.PathLike[str]) -> bool:
    """Return whether a folder is a zarr array or group, also if the package is missing."""
    return any(os.path.isfile(os.path.join(path, name)) for name in (*_ZARR_ARRAY, ".zgroup"))


def open_blocks(path: Path, wish: Wish, format: str | None = None) -> RowBlocks:
    """Open a file as rows in blocks."""
    path = resolved(path)  # workers, and this process later, may be in another folder
    format = "zarr" if format in (None, "zarr") and is_zarr(path) else format_of(path, format)
    openers = {"npy": _open_npy, "parquet": _open_parquet, "zarr": _open_zarr}
    if format not in openers:
        what = f"{path}: {format} files cannot be read block by block"
        raise DataError(what, "Write the rows as parquet, npy or zarr")
    with explained(path):
        return openers[format](path, wish)


class _Reader:
    """A file that must not change while it is read."""

    def __init__(self, path: Path, watched: Path | None = None) -> None:
        self.path, self.watched = path, watched or path
        self.state = self._state()

    def _state(self) -> tuple[int, int]:
        found = self.watched.stat()
        return found.st_size, found.st_mtime_ns

    def check(self) -> None:
        """Raise an error if the file has changed since it was opened."""
        if not self.watched.exists():
            what = f"{self.path} no longer exists, or not on this machine"
            raise DataError(what, "Workers of a cluster need the file at the same path")
        if self._state() != self.state:
            what = f"{self.path} changed while it was being read"
            raise DataError(what, "Start again when it is complete")


class NpyReader(_Reader):
    """Reads ranges of rows of a npy file, without a memory map of the whole file."""

    def __init__(
        self, path: Path, offset: int, dtype: np.dtype, sizes: Sequence[int], width: int
    ) -> None:
        super().__init__(path)
        self.offset, self.dtype, self.width, self.sizes = offset, dtype, width, tuple(sizes)

    def __call__(self, i: int) -> np.ndarray:
        """Rows of block ``i``."""
        self.check()
        count = self.sizes[i] * self.width
        place = self.offset + i * self.sizes[0] * self.width * self.dtype.itemsize
        values = np.fromfile(self.path, self.dtype, count, offset=place)
        if len(values) < count:
            raise DataError(f"{self.path} is truncated", GET_AGAIN)
        return values.reshape(-1, self.width).astype(self.dtype.newbyteorder("="), copy=False)


def _open_npy(path: Path, wish: Wish) -> RowBlocks:
    refuse_names(wish)
    (n, width), fortran, dtype, offset = npy_layout(path)
    if fortran and width > 1:
        remedy = "Store it again: np.save(path, X.copy('C'))"
        raise DataError("it is stored column by column", remedy)
    sizes = _sizes(n, max(1, NPY_BYTES // max(BLOCK * width * dtype.itemsize, 1)) * BLOCK)
    reader = NpyReader(path, offset, dtype, sizes, width)
    return RowBlocks(reader, sizes, width, float_for([dtype]), name=str(path))


def _sizes(n_rows: int, step: int) -> list[int]:
    return [min(step, n_rows - start) for start in range(0, n_rows, step)]


class ParquetReader(_Reader):
    """Reads row groups of a parquet file."""

    def __init__(
        self, path: Path, columns: Sequence[str], dtype: np.dtype, groups: Sequence[int]
    ) -> None:
        super().__init__(path)
        self.columns, self.dtype, self.groups = list(columns), dtype, list(groups)

    def __call__(self, i: int) -> np.ndarray:
        """Rows of row group ``i``."""
        self.check()
        # Every call opens the file: threads read different row groups at the same time.
        with explained(self.path), _parquet_file(self.path) as file:
            table = file.read_row_group(self.groups[i], columns=self.columns, use_threads=False)
        return rows_of(table, self.columns, self.dtype)


def _parquet_file(path: Path) -> Any:
    return needed("pyarrow.parquet").ParquetFile(path, memory_map=False, pre_buffer=False)


def _open_parquet(path: Path, wish: Wish) -> RowBlocks:
    with _parquet_file(path) as file:
        schema, about = file.schema_arrow, file.metadata
        sizes = [about.row_group(i).num_rows for i in range(about.num_row_groups)]
    columns, types = parquet_columns(schema, wish)
    text = [name for name in columns if name not in types]
    if text:
        more = f" and {len(text) - 1} more" if len(text) > 1 else ""
        raise DataError(
            f"column {text[0]!r}{more} holds {schema.field(text[0]).type} values, not numbers",
            f"Leave out what is no number (--drop {','.join(text)}) or turn it into numbers",
        )
    if not columns:
        raise DataError("it has no columns of numbers", "Name the right file")
    dtype = float_for(list(types.values()))
    groups = [i for i, size in enumerate(sizes) if size]
    reader, kept = ParquetReader(path, columns, dtype, groups), [sizes[i] for i in groups]
    names = tuple(columns)
    return RowBlocks(reader, kept, len(names), dtype, name=str(path), column_names=names)


class ZarrReader(_Reader):
    """Reads the rows of one chunk, or of one row of chunks, of a zarr array."""

    def __init__(self, path: Path, step: int) -> None:
        described = [path / name for name in _ZARR_ARRAY if (path / name).exists()]
        super().__init__(path, *described[:1])
        self.step = step

    def __call__(self, i: int) -> np.ndarray:
        """Rows of block ``i``."""
        self.check()
        with explained(self.path):
            return np.asarray(_zarr_array(self.path)[i * self.step : (i + 1) * self.step])


def _zarr_array(path: Path) -> Any:
    zarr = needed("zarr", "zarr")
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
    check_array(found.dtype, found.shape)
    sizes = _sizes(found.shape[0], found.chunks[0])
    reader = ZarrReader(path, found.chunks[0])
    return RowBlocks(reader, sizes, found.shape[1], float_for([found.dtype]), name=str(path))
