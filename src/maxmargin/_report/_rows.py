"""Rows as a page shows them: cells for a table, and pictures of rows that are images."""

from __future__ import annotations

import base64
import re
import struct
import zlib
from collections.abc import Iterable, Iterator
from functools import cached_property
from io import BytesIO
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import _safe_indexing

from .._data.images import IMAGE_SUFFIXES, read_image
from .._files import DataError, needed
from .._steps import as_rows, column_names

LONGEST = 400  # characters of a cell
LARGEST_SIDE = 64  # pixels of a picture of numbers
PHOTO_SIDE = 96  # pixels of a picture from a file
PIXEL_NAME = re.compile(r"(pixel|px)[_ ]?\d+([_ ]\d+)?", re.I)


class Rows:
    """The rows of X, with names, cells and pictures; the arguments are those of `report`."""

    def __init__(self, X, feature_names=None, images=None, ids=None):
        X = as_rows(X)
        self.X: Any = X.tocsr() if sparse.issparse(X) else X
        self.n = X.shape[0]
        self.names = column_names(X, feature_names)
        self.ids = None if ids is None else [str(i) for i in ids]
        self._pixels, self._files = self._pictures(images)

    def take(self, rows: Any) -> Any:
        """Return some rows in the container of X."""
        return _safe_indexing(self.X, rows)

    # -- cells ------------------------------------------------------------------------------------

    @property
    def has_cells(self) -> bool:
        """Whether rows are shown as cells: pixels are not."""
        return self._pixels is not self.X

    def all_cells(self, rows: Iterable[int], columns: list[int]) -> Iterator[tuple[int, list]]:
        """Yield rows and their cells, read a few hundred at a time; none for pixels."""
        rows = list(rows) if self.has_cells else []
        for start in range(0, len(rows), 500):
            part = rows[start : start + 500]
            yield from zip(part, self.cells(part, columns))

    def cells(self, rows: list[int], columns: list[int]) -> list[list[Any]]:
        """Return the cells of rows, as values for JSON; of sparse rows the largest in words."""
        if sparse.issparse(self.X):
            return [[self._words(row)] for row in rows]
        part = self.take(rows)
        held = [_safe_indexing(part, j, axis=1).tolist() for j in columns]
        return [[_cell(value) for value in row] for row in zip(*held)]

    def _words(self, row: int) -> str:
        part = self.X[[row]]
        order = np.argsort(-abs(part.data), kind="stable")[:30]
        return ", ".join(f"{self.names[part.indices[i]]} {part.data[i]:.3g}" for i in order)

    def spread(self, columns: list[int], rows: Any) -> list[float | None]:
        """Return the standard deviations of columns of numbers; None for other columns."""
        if sparse.issparse(self.X):
            return [None]
        out: list[float | None] = []
        part = self.take(rows)
        for j in columns:
            try:
                values = np.asarray(_safe_indexing(part, j, axis=1), dtype=float)
                out.append(float(np.nanstd(values)))
            except (TypeError, ValueError):
                out.append(None)
        return out

    # -- pictures ---------------------------------------------------------------------------------

    def _pictures(self, images: Any) -> tuple[Any, Any]:
        """Return the pixels of all rows, or their files."""
        if images is None:
            return self._guessed()
        if isinstance(images, tuple) and all(isinstance(side, int) for side in images):
            if sparse.issparse(self.X) or int(np.prod(images)) != self.X.shape[1]:
                raise ValueError(f"images={images} does not fit rows of {self.X.shape[1]} columns.")
            self._shape = images
            return self.X, None
        if len(images) != self.n:
            raise ValueError(f"images has {len(images)} pictures; X has {self.n} rows.")
        if isinstance(images[0], str) or hasattr(images[0], "__fspath__"):
            return None, [str(path) for path in images]
        pixels = np.asarray(images)
        if pixels.ndim not in (3, 4):
            raise ValueError(
                "images must be a shape, file names, or an array of shape (n_samples, height, "
                f"width) or (n_samples, height, width, channels); got shape {pixels.shape}."
            )
        self._shape = pixels.shape[1:]
        return pixels.reshape(self.n, -1), None

    def _guessed(self) -> tuple[Any, Any]:
        side = int(np.sqrt(self.X.shape[1]))
        if side > 3 and side**2 == len(self.names) and all(map(PIXEL_NAME.fullmatch, self.names)):
            self._shape = (side, side)
            return self.X, None
        if hasattr(self.X, "iloc"):
            for j in range(self.X.shape[1]):
                first = self.X.iloc[:20, j].tolist()
                if all(isinstance(v, str) and v.lower().endswith(IMAGE_SUFFIXES) for v in first):
                    return None, self.X.iloc[:, j].tolist()
        return None, None

    @property
    def has_pictures(self) -> bool:
        """Whether rows have pictures."""
        return self._pixels is not None or self._files is not None

    def picture(self, row: int) -> str | None:
        """Return the picture of a row as a data URI, or None."""
        if self._files is not None:
            return _photo(self._files[row])
        if self._pixels is None:
            return None
        part = np.asarray(_safe_indexing(self._pixels, [row]), dtype=float)
        return picture_of(part.reshape(self._shape), *self._range)

    @cached_property
    def _range(self) -> tuple[float, float]:
        some = np.linspace(0, self.n - 1, min(self.n, 500)).astype(int)
        part = np.asarray(_safe_indexing(self._pixels, some), float)
        return float(np.nanmin(part)), float(np.nanmax(part))


def _cell(value: Any) -> Any:
    if value is None or value != value:  # also NaN and NaT
        return None
    if isinstance(value, bool | int):
        return value if abs(value) < 2**53 else str(value)
    if isinstance(value, float):
        if 1e4 <= abs(value) < 1e7:
            return round(value)
        return float(f"{value:.5g}") if abs(value) < float("inf") else str(value)
    text = str(value)
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def picture_of(pixels: np.ndarray, low: float, high: float) -> str:
    """Return numbers of shape (height, width) or (height, width, channels) as a data URI."""
    step = -(-max(pixels.shape[:2]) // LARGEST_SIDE)
    scaled = (pixels[::step, ::step] - low) / max(high - low, 1e-300)
    levels = np.clip(np.nan_to_num(255 * scaled), 0, 255).astype(np.uint8)
    return _uri("png", _png(levels))


def _png(pixels: np.ndarray) -> bytes:
    """Encode grey, RGB or RGBA levels; Pillow is an extra, and this is all that is needed."""
    if pixels.ndim == 3 and pixels.shape[2] == 1:
        pixels = pixels[:, :, 0]
    kind = 0 if pixels.ndim == 2 else {2: 4, 3: 2, 4: 6}[pixels.shape[2]]
    height, width = pixels.shape[:2]
    lines = np.column_stack([np.zeros(height, np.uint8), pixels.reshape(height, -1)])

    def chunk(name: bytes, data: bytes) -> bytes:
        check = zlib.crc32(name + data)
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", check)

    head = struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0)
    body = zlib.compress(lines.tobytes(), 9)
    parts = (b"IHDR", head), (b"IDAT", body), (b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*part) for part in parts)


def _photo(path: str) -> str | None:
    """Return the picture in a file, made small; None if it cannot be read."""
    Image = needed("PIL.Image", "images")
    try:
        image = Image.fromarray(read_image(path)).convert("RGB")
    except (DataError, TypeError, ValueError):
        return None
    image.thumbnail((PHOTO_SIDE, PHOTO_SIDE))
    file = BytesIO()
    image.save(file, "JPEG", quality=80)
    return _uri("jpeg", file.getvalue())


def _uri(kind: str, data: bytes) -> str:
    return f"data:image/{kind};base64,{base64.b64encode(data).decode()}"
