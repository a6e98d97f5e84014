"""Image segmentation by maximum margin clustering of the colours of the pixels.

Section IV-C of Zhang, Tsang & Kwok, "Maximum Margin Clustering Made Practical", IEEE Transactions
on Neural Networks 20(4), 2009. Pixels of the same colour are merged into one weighted row. The
model is fitted on a sample of the pixels and predicts the segment of every pixel.

=====================================  ===========================================
in the paper                           here
=====================================  ===========================================
RGB values as features                 ``pixel_features``
Gaussian kernel, sigma = 500           ``GAMMA``
Fig. 9, two segments                   ``segment_image``
Fig. 10, binary clustering recursively ``n_segments`` > 2, the most scattered first
=====================================  ===========================================
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.cluster import KMeans

from ._base import BaseMarginClustering
from ._bisecting import BisectingMarginClustering
from ._core.model import falling_sizes
from ._threads import one_thread
from .alternating._estimator import AlternatingMarginClustering

__all__ = ["FEATURES", "Segmentation", "as_pixels", "kmeans_segments", "segment_image"]

FEATURES = ("rgb", "lab", "rgb+xy")
GAMMA = 1.0 / 500.0**2  # colours between 0 and 255
FIT_PIXELS = 1000
# Two starts of every kind are enough for three columns, and a coarse tolerance changes few pixels;
# regions are seldom of equal size.
SETTINGS: dict[str, Any] = {
    "balance": 0.5, "n_init": 2, "tol": 1e-3, "solver_tol": 1e-2, "cluster_sizes": "adaptive"
}  # fmt: skip
# With "rgb+xy" the longer side of the image is scaled to half the range of a colour.
POSITION = 0.5
PALETTE = np.array(
    [
        [230, 159, 0], [0, 114, 178], [0, 158, 115], [204, 121, 167],
        [86, 180, 233], [213, 94, 0], [240, 228, 66], [120, 120, 120],
    ],
    np.uint8,
)  # fmt: skip


@dataclass(frozen=True)
class Segmentation:
    """An image and the segment of each of its pixels.

    Parameters
    ----------
    pixels : ndarray of shape (height, width, 3), uint8
        The image in RGB.
    labels : ndarray of shape (height, width), int32
        Segment of every pixel, -1 for transparent pixels.
    shares : ndarray of shape (n_segments,)
        Fraction of the visible pixels in each segment.
    model : estimator or None
        The estimator that labelled the pixels.

    See Also
    --------
    maxmargin.segment_image : Segment an image.

    Examples
    --------
    >>> found = segment_image(np.array([[0, 0, 200]], np.uint8))
    >>> found.labels.tolist(), found.shares.round(2).tolist()
    ([[0, 0, 1]], [0.67, 0.33])
    """

    pixels: np.ndarray
    labels: np.ndarray
    shares: np.ndarray
    model: Any = None

    def overlay(self, strength: float = 0.6) -> np.ndarray:
        """Return the image with each segment tinted in a different colour.

        Parameters
        ----------
        strength : float, default=0.6
            Opacity of the tint, from 0 to 1.

        Returns
        -------
        ndarray of shape (height, width, 3), uint8
            The tinted image.

        Examples
        --------
        >>> found = segment_image(np.array([[0, 0, 200]], np.uint8))
        >>> found.overlay(strength=1.0)[0].tolist()
        [[230, 159, 0], [230, 159, 0], [0, 114, 178]]
        """
        colours = PALETTE[self.labels % len(PALETTE)].astype(np.float64)
        mixed = strength * colours + (1.0 - strength) * self.pixels
        mixed[self.labels < 0] = 255.0
        return np.round(mixed).astype(np.uint8)

    def cut_out(self, segment: int) -> np.ndarray:
        """Return one segment on a transparent background.

        Parameters
        ----------
        segment : int
            Number of the segment.

        Returns
        -------
        ndarray of shape (height, width, 4), uint8
            RGBA image.
        """
        last = len(self.shares) - 1
        if not 0 <= segment <= last:
            raise ValueError(f"segment must lie between 0 and {last}, got {segment}.")
        alpha = np.where(self.labels == segment, 255, 0).astype(np.uint8)
        return np.dstack([self.pixels, alpha])

    def flat(self) -> np.ndarray:
        """Return the image with every segment in its mean colour.

        Returns
        -------
        ndarray of shape (height, width, 3), uint8
            RGB image.
        """
        out = np.full_like(self.pixels, 255)
        for segment in range(len(self.shares)):
            inside = self.labels == segment
            if inside.any():
                out[inside] = np.round(self.pixels[inside].mean(axis=0))
        return out


def segment_image(
    image,
    n_segments: int = 2,
    *,
    estimator: BaseMarginClustering | None = None,
    features: str = "rgb",
    fit_pixels: int = FIT_PIXELS,
    random_state: int = 0,
    n_jobs: int | None = None,
) -> Segmentation:
    """Segment an image by maximum margin clustering of its colours.

    Parameters
    ----------
    image : array-like of shape (height, width) or (height, width, channels)
        Grey, grey with alpha, RGB or RGBA: uint8, uint16, bool, or floats between 0 and 1.
        Transparent pixels get the label -1.
    n_segments : int, default=2
        Number of segments. More than two are found by recursive splits of the segment with the
        largest scatter.
    estimator : estimator, optional
        Two-way margin clustering; by default :class:`~maxmargin.AlternatingMarginClustering` with
        the paper's kernel and ``balance=0.5``. ``balance`` is the most important parameter: lower
        it to segment a small object.
    features : {"rgb", "lab", "rgb+xy"}, default="rgb"
        Features of a pixel: its RGB colour, its CIELAB colour (perceptual distances), or RGB colour
        and position, which gives smoother regions.
    fit_pixels : int, default=1000
        Number of pixels to fit on; all pixels are labelled.
    random_state : int, default=0
        Seed of the sample and of the estimator.
    n_jobs : int or None, default=None
        Threads over blocks of pixels; the result does not depend on it.

    Returns
    -------
    Segmentation
        The segments.

    See Also
    --------
    maxmargin.segmentation.kmeans_segments : The same by k-means.
    maxmargin.segmentation.Segmentation : The result.

    Examples
    --------
    >>> from sklearn.datasets import load_sample_image
    >>> flower = load_sample_image("flower.jpg")
    >>> found = segment_image(flower)
    >>> found.labels.shape == flower.shape[:2], found.shares.round(1).tolist()
    (True, [0.8, 0.2])
    """
    if features not in FEATURES:
        raise ValueError(f"features must be one of {', '.join(FEATURES)}, got {features!r}.")
    if not (isinstance(n_segments, int | np.integer) and n_segments >= 1):
        raise ValueError(f"n_segments must be a whole number above 0, got {n_segments!r}.")
    pixels, visible = as_pixels(image)
    points, inverse, counts = _distinct_points(pixels, visible, features)
    if len(points) < n_segments:
        size = " x ".join(map(str, pixels.shape[:2]))
        n_colours = len(np.unique(pixels.reshape(-1, 3), axis=0))
        colours = "one colour" if n_colours == 1 else f"{n_colours} colours"
        few = f"too few for n_segments={n_segments}"
        raise ValueError(f"image has {size} pixels of {colours}, {few}.")
    rng = np.random.default_rng(random_state)
    rows, weights = _sample(points, inverse, counts, fit_pixels, n_segments, rng)
    model = _segmenter(estimator, n_segments).set_params(random_state=random_state, n_jobs=n_jobs)
    model.fit(rows, sample_weight=weights)
    return _painted(pixels, visible, model.predict(points)[inverse], n_segments, model)


def kmeans_segments(
    image, n_segments: int = 2, *, features: str = "rgb", random_state: int = 0
) -> Segmentation:
    """Segment an image by k-means on all pixels, for comparison with :func:`segment_image`.

    Parameters
    ----------
    image, n_segments, features, random_state : optional
        See :func:`segment_image`.

    Returns
    -------
    Segmentation
        The segments.

    See Also
    --------
    maxmargin.segment_image : The same by the margin.

    Examples
    --------
    >>> kmeans_segments(np.array([[0, 10, 200]], np.uint8)).labels.tolist()
    [[0, 0, 1]]
    """
    pixels, visible = as_pixels(image)
    points = pixel_features(pixels, features)[visible.ravel()]
    with one_thread():
        found = KMeans(n_segments, n_init=10, random_state=random_state).fit(points)
    rank = np.argsort(falling_sizes(found.labels_, None, n_segments))
    return _painted(pixels, visible, rank[found.labels_], n_segments, found)


def as_pixels(image) -> tuple[np.ndarray, np.ndarray]:
    """Convert an image to RGB.

    Parameters
    ----------
    image : array-like of shape (height, width) or (height, width, channels)
        See :func:`segment_image`.

    Returns
    -------
    pixels : ndarray of shape (height, width, 3), uint8
        RGB colours.
    visible : ndarray of shape (height, width), bool
        False for transparent pixels.

    Examples
    --------
    >>> as_pixels(np.array([[0.0, 1.0]]))[0].tolist()
    [[[0, 0, 0], [255, 255, 255]]]
    """
    array = np.asarray(image)
    if array.ndim == 2:
        array = array[:, :, None]
    if array.ndim != 3 or not 1 <= array.shape[2] <= 4 or array.size == 0:
        raise ValueError(
            "image must have shape (height, width) or (height, width, channels) with 1 to 4 "
            f"channels, got {np.shape(image)}."
        )
    array = _as_bytes(array)
    visible = np.ones(array.shape[:2], bool)
    if array.shape[2] in (2, 4):
        visible = array[:, :, -1] > 0
        array = array[:, :, :-1]
    if not visible.any():
        raise ValueError("image is completely transparent.")
    return np.ascontiguousarray(np.broadcast_to(array, (*array.shape[:2], 3))), visible


def _as_bytes(array: np.ndarray) -> np.ndarray:
    if array.dtype == np.uint8:
        return array
    if array.dtype == bool:
        return array.astype(np.uint8) * 255
    if array.dtype == np.uint16:
        return (array // 257).astype(np.uint8)
    if array.dtype.kind == "f":
        if not np.isfinite(array).all() or array.min() < 0 or array.max() > 1:
            raise ValueError(
                "image of floats must have values between 0 and 1; divide it by its largest value, "
                "or pass uint8."
            )
        return np.round(array * 255).astype(np.uint8)
    raise ValueError(f"image must be uint8, uint16, bool or float, got {array.dtype}.")


def pixel_features(pixels: np.ndarray, features: str) -> np.ndarray:
    """Return one row per pixel, on the scale of colours between 0 and 255."""
    colours = pixels.reshape(-1, 3)
    if features == "lab":
        return cielab(colours)
    rows = colours.astype(np.float64)
    if features == "rgb":
        return rows
    height, width = pixels.shape[:2]
    y, x = np.divmod(np.arange(height * width), width)
    step = 255.0 * POSITION / max(height, width)
    return np.column_stack([rows, step * x, step * y])


def cielab(colours: np.ndarray) -> np.ndarray:
    """Convert sRGB colours to CIELAB (D65), times 2.55 so that lightness is from 0 to 255."""
    c = np.asarray(colours, np.float64) / 255.0
    linear = np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)
    to_xyz = np.array(
        [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750],
         [0.0193339, 0.1191920, 0.9503041]]
    )  # fmt: skip
    relative = linear @ (to_xyz / to_xyz.sum(axis=1, keepdims=True)).T
    small = relative <= (6.0 / 29.0) ** 3
    f = np.where(small, relative * (29.0 / 6.0) ** 2 / 3.0 + 4.0 / 29.0, np.cbrt(relative))
    lab = [116.0 * f[:, 1] - 16.0, 500.0 * (f[:, 0] - f[:, 1]), 200.0 * (f[:, 1] - f[:, 2])]
    return 2.55 * np.stack(lab, axis=1)


def _distinct_points(pixels, visible, features) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return distinct rows, the row of every visible pixel, and the number of pixels per row."""
    if features == "rgb+xy":  # all pixels have different positions
        points = pixel_features(pixels, features)[visible.ravel()]
        return points, np.arange(len(points)), np.ones(len(points))
    seen = pixels[visible].astype(np.int32)
    codes = (seen[:, 0] << 16) | (seen[:, 1] << 8) | seen[:, 2]
    distinct, inverse, counts = np.unique(codes, return_inverse=True, return_counts=True)
    colours = np.stack([distinct >> 16, (distinct >> 8) & 255, distinct & 255], axis=1)
    return pixel_features(colours[:, None, :], features), inverse, counts.astype(np.float64)


def _sample(points, inverse, counts, fit_pixels, n_segments, rng):
    """Return rows to fit on and their weights: all distinct rows, or those of random pixels."""
    if len(points) <= fit_pixels:
        return points, counts
    chosen = rng.choice(len(inverse), max(fit_pixels, 10 * n_segments), replace=False)
    rows, weights = np.unique(inverse[chosen], return_counts=True)
    return points[rows], weights.astype(np.float64)


def picture_settings(estimator: BaseMarginClustering, **given) -> BaseMarginClustering:
    """Set the parameters for images that a method has; ``given`` ones take precedence."""
    known = estimator.get_params()
    settings = {k: v for k, v in (SETTINGS | given).items() if k in known}
    if isinstance(estimator, AlternatingMarginClustering):
        settings["gamma"] = GAMMA  # the paper's; other methods keep their defaults
    return estimator.set_params(**settings)


def _segmenter(estimator, n_segments) -> Any:
    """Return the estimator for n_segments; other methods than the default use recursive splits."""
    if estimator is None:
        estimator = picture_settings(AlternatingMarginClustering())
    if n_segments <= 2 or isinstance(estimator, AlternatingMarginClustering):
        return clone(estimator).set_params(n_clusters=n_segments)
    return BisectingMarginClustering(n_segments, estimator=clone(estimator))


def _painted(pixels, visible, found, n_segments, model) -> Segmentation:
    labels = np.full(pixels.shape[:2], -1, np.int32)
    labels[visible] = found
    shares = np.bincount(found, minlength=n_segments) / len(found)
    return Segmentation(pixels, labels, shares, model)
