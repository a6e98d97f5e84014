"""Reading and writing of image files, with Pillow."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from .._files import DataError, atomic_write, check_exists, check_suffix, needed

IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg")


def read_image(path: str | os.PathLike[str]) -> np.ndarray:
    """Read an image as an array for :func:`~maxmargin.segment_image`, rotated upright.

    Parameters
    ----------
    path : path
        png, jpeg, or any format of Pillow: grey, colour, palette, alpha, 8 or 16 bit.

    Returns
    -------
    ndarray of shape (height, width) or (height, width, channels), uint8 or uint16
    """
    path = Path(path)
    Image, ImageOps = needed("PIL.Image", "images"), needed("PIL.ImageOps", "images")
    check_exists(path)
    try:
        with warnings.catch_warnings():
            # Large images are allowed up to the size at which Pillow raises an error.
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            with Image.open(path) as file:
                return _as_array(ImageOps.exif_transpose(file))
    except Image.UnidentifiedImageError as error:
        raise DataError(f"{path} is not a picture", "Give a png or jpeg file") from error
    except Image.DecompressionBombError as error:
        limit = 2 * Image.MAX_IMAGE_PIXELS
        raise DataError(f"{path} has more than {limit:,} pixels", "Make it smaller") from error
    except (OSError, SyntaxError, ValueError) as error:
        what = f"{path} is damaged or cut short ({error})"
        raise DataError(what, "Copy or download it again") from error


def _as_array(image: Any) -> np.ndarray:
    mode = image.mode
    if mode.startswith("I"):  # 16-bit grey, in 16 or 32 bits
        deep: np.ndarray = np.clip(np.asarray(image), 0, 65535).astype(np.uint16)
        return deep
    if mode in ("L", "RGB", "RGBA", "LA"):
        return np.asarray(image)
    transparent = mode in ("PA", "La", "RGBa") or "transparency" in image.info
    return np.asarray(image.convert("RGBA" if transparent else "RGB"))


def write_image(path: str | os.PathLike[str], pixels: np.ndarray) -> None:
    """Write an image atomically; transparent pixels become white in a jpeg file."""
    Image = needed("PIL.Image", "images")
    suffix = check_suffix(path, IMAGE_SUFFIXES)
    image = Image.fromarray(pixels)
    if suffix != ".png" and image.mode == "RGBA":
        ground = Image.new("RGB", image.size, (255, 255, 255))
        ground.paste(image, mask=image.getchannel("A"))
        image = ground
    with atomic_write(path) as partial:
        image.save(partial)
