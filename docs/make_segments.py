"""Draw docs/images/segments/: photographs, our segments and those of k-means.

Needs Pillow and scikit-image, whose pictures and those of scikit-learn are used; every picture is
segmented with the same settings, the defaults.
"""

import argparse
from pathlib import Path

import numpy as np
import skimage.data
from PIL import Image
from sklearn.datasets import load_sample_image

from maxmargin import segment_image
from maxmargin.segmentation import as_pixels, kmeans_segments

TARGET = Path(__file__).parent / "images" / "segments"
SHIPPED = (
    "astronaut", "camera", "cat", "cell", "coffee", "coins", "hubble_deep_field",
    "immunohistochemistry", "retina", "rocket",
)  # fmt: skip
SIZE = 260  # pixels of the longer side of a panel


def photographs():
    """Name and pixels of each picture."""
    for name in SHIPPED:
        yield name, getattr(skimage.data, name)()
    for name in ("china", "flower"):
        yield name, load_sample_image(f"{name}.jpg")


def main():
    TARGET.mkdir(parents=True, exist_ok=True)
    for name, photo in photographs():
        image = Image.fromarray(as_pixels(photo)[0])
        image.thumbnail((SIZE, SIZE))
        pixels = np.asarray(image)
        gap = np.full((pixels.shape[0], 6, 3), 255, np.uint8)
        ours, theirs = segment_image(pixels), kmeans_segments(pixels)
        row = np.hstack([pixels, gap, ours.flat(), gap, theirs.flat()])
        Image.fromarray(row).save(TARGET / f"{name}.jpg", quality=82, optimize=True)


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    main()
