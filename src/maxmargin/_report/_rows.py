"""Rows as a page shows them: cells for a table, and pictures of rows that are images."""

from __future__ import annotations

import base64
import re
import struct
import zlib
from collections.abc import Iterable
from io import BytesIO
from typing import Any

import numpy as np
from scipy import sparse

from .._data.images import IMAGE_SUFFIXES, read_image
from .._files import DataError, needed

LONGEST = 400  # characters of a cell
LARGEST_SIDE = 64  # pixels of a picture of numbers
PHOTO_SIDE = 96  # pixels of a picture from a file
PIXEL_NAME = re.compile(r"(pixel|px)[_ ]?\d+([_ ]\d+)?", re.I)


class Rows:
    """The rows of X, with names, cells and pictures.

    Parameters
    ----------
    X : DataFrame, array-like or sparse matrix of shape (n_samples, n_features)
        The rows, as the model accepts them.
    feature_names : sequence of str, optional
        Names of the columns; by default those of the DataFrame.
    images : tuple of int, array-like or sequence of path, optional
        Shape of the picture that a row's numbers form, pictures of all rows, or their files.
    ids : sequence, optional
        Names of the rows.
    """

    def __init__(self, X, feature_names=None, images=None, ids=None):
        X = X.tocsr() if sparse.issparse(X) else X if hasattr(X, "iloc") else np.asarray(X)
        self.X: Any = X
        if self.X.ndim != 2:
            raise ValueError(f"X must have rows and columns, got {self.X.ndim} dimension(s).")
        self.n, n_columns = self.X.shape
        self.named = feature_names is not None or hasattr(X, "columns")
        given = getattr(X, "columns", None) if feature_names is None else feature_names
        self.names = [f"column {j}" for j in range(n_columns)] if given is None else list(given)
        self.names = [str(name) for name in self.names]
        if len(self.names) != n_columns:
            raise ValueError(
                f"feature_names has {len(self.names)} names; X has {n_columns} columns."
            )
        self.ids = None if ids is None else [str(i) for i in ids]
        self._pixels, self._files = self._pictures(images)

    def take(self, rows: Any) -> Any:
        """Return some rows in the container of X."""
        return self.X.iloc[rows] if hasattr(self.X, "iloc") else self.X[rows]

    # -- cells ------------------------------------------------------------------------------------

    @property
    def has_cells(self) -> bool:
        """Whether rows are shown as cells: pixels are not."""
        return self._pixels is not self.X

    def cells(self, rows: Iterable[int], columns: list[int]) -> list[list[Any]]:
        """Return the cells of rows, as values for JSON; of sparse rows the largest in words."""
        rows = list(rows)
        if sparse.issparse(self.X):
            return [[self._words(row)] for row in rows]
        if hasattr(self.X, "iloc"):
            part = self.X.iloc[rows, columns]
            held = [part.iloc[:, j].tolist() for j in range(part.shape[1])]
            return [[_cell(value) for value in row] for row in zip(*held)]
        return [[_cell(v) for v in row] for row in self.X[np.ix_(rows, columns)].tolist()]

    def _words(self, row: int) -> str:
        part = self.X[[row]]
        order = np.argsort(-abs(part.data), kind="stable")[:30]
        return ", ".join(f"{self.names[part.indices[i]]} {part.data[i]:.3g}" for i in order)

    def spread(self, columns: list[int], rows: Any) -> list[float | None]:
        """Return the standard deviations of columns of numbers; None for other columns."""
        if sparse.issparse(self.X):
            return [None]
        out: list[float | None] = []
        for j in columns:
            values = self.X.iloc[rows, j] if hasattr(self.X, "iloc") else self.X[rows, j]
            try:
                out.append(float(np.nanstd(np.asarray(values, dtype=float))))
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
        part = self._pixels.iloc[[row]] if hasattr(self._pixels, "iloc") else self._pixels[[row]]
        return picture_of(np.asarray(part, dtype=float).reshape(self._shape), *self._range())

    def _range(self) -> tuple[float, float]:
        if not hasattr(self, "_limits"):
            some = np.linspace(0, self.n - 1, min(self.n, 500)).astype(int)
            pixels = self._pixels
            part = np.asarray(pixels.iloc[some] if hasattr(pixels, "iloc") else pixels[some], float)
            self._limits = float(np.nanmin(part)), float(np.nanmax(part))
        return self._limits


def _cell(value: Any) -> Any:
    if value is None or value != value:  # also NaN and NaT
        return None
    if isinstance(value, bool | int):
        return value if abs(value) < 2**53 else str(value)
    if isinstance(value, float):
        return float(f"{value:.5g}") if abs(value) < float("inf") else str(value)
    text = str(value)
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def picture_of(pixels: np.ndarray, low: float, high: float) -> str:
    """Return numbers of shape (height, width) or (height, width, channels) as a data URI.

    Examples
    --------
    >>> picture_of(np.eye(4), 0.0, 1.0)[:22]
    'data:image/png;base64,'
    """
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
