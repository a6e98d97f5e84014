"""Figures of the papers that are pictures, not curves; nothing of them is scored."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator

import numpy as np
from sklearn.datasets import load_sample_image, make_blobs

from maxmargin import AlternatingMarginClustering
from maxmargin._threads import one_thread
from maxmargin.segmentation import kmeans_segments

from .methods import counted_shaking

__all__ = ["scenes"]

PHOTOS, STEP = ("china", "flower"), 6  # every sixth pixel in both directions
SIGMA, C, BALANCE = 500.0, 500.0, 0.2  # the paper prints the first two


def scenes(paper: str) -> Iterator[tuple[str, str, bytes]]:
    """Yield the pictures of a paper: figure, what it shows, PNG."""
    if paper == "least_squares":
        yield "figure-2", "Rounds of shaking on three Gaussian clusters", _shaking()
    if paper == "alternating":
        photos = {name: load_sample_image(f"{name}.jpg")[::STEP, ::STEP] for name in PHOTOS}
        said = f"(sigma = C = 500 as in the paper; balance {BALANCE:g}, which it does not print)"
        yield "figure-9", f"A photograph, k-means, iterSVM and iterSVR {said}", _segments(photos)
        yield "figure-10", "Recursive splits by iterSVR into 2, 3 and 4 segments", _splits(photos)


def _shaking() -> bytes:
    X, _ = make_blobs(150, centers=[(0, 0), (4, 0), (2, 3)], cluster_std=0.8, random_state=0)
    rounds = (0, 1, 2, 3, 5, 21)
    labels = [counted_shaking(X, 3, 0, width=0.4, ridge=0.5, rounds=r).labels for r in rounds]
    titles = ["random labels", *(f"after round {r}" for r in rounds[1:])]
    return _panels([titles], lambda ax, _, i: ax.scatter(*X.T, c=labels[i], s=9, cmap="viridis"))


def _segments(photos: dict[str, np.ndarray]) -> bytes:
    rows = [
        [photo, kmeans_segments(photo, 2).flat(), _split(photo, 2, "hinge"),
         _split(photo, 2, "laplacian")]
        for photo in photos.values()
    ]  # fmt: skip
    titles = [["", "k-means", "iterSVM", "iterSVR"]] * len(rows)
    return _panels(titles, lambda ax, row, i: ax.imshow(rows[row][i]))


def _splits(photos: dict[str, np.ndarray]) -> bytes:
    rows = [
        [photo, *(_split(photo, k, "laplacian") for k in (2, 3, 4))] for photo in photos.values()
    ]
    titles = [["", "2", "3", "4"]] * len(rows)
    return _panels(titles, lambda ax, row, i: ax.imshow(rows[row][i]))


def _split(photo: np.ndarray, k: int, loss: str) -> np.ndarray:
    """The segments of a photograph, each in its mean colour, by the paper's kernel and C."""
    pixels = photo.reshape(-1, 3).astype(float)
    some = pixels[:: len(pixels) // 1000]
    squares = ((some[:, None] - some[None]) ** 2).sum(axis=2)
    spread = 1.0 - np.exp(-squares / SIGMA**2).mean()
    model = AlternatingMarginClustering(
        k, loss=loss, gamma=SIGMA**-2, alpha=1.0 / (len(pixels) * C * spread), anneal=False,
        balance=BALANCE, init="k-means", n_init=1, multi_class="recursive", random_state=0,
    )  # fmt: skip
    with warnings.catch_warnings(), one_thread():
        warnings.simplefilter("ignore")  # the balance may decide a size
        labels = model.fit(pixels).labels_
    means = np.stack([pixels[labels == h].mean(axis=0) for h in range(k)])
    return means[labels].round().astype(np.uint8).reshape(photo.shape)


def _panels(titles: list[list[str]], draw) -> bytes:
    from matplotlib.figure import Figure

    rows, columns = len(titles), len(titles[0])
    figure = Figure(figsize=(2.4 * columns, 1.9 * rows), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False)
    for row, names in enumerate(titles):
        for i, name in enumerate(names):
            draw(panels[row, i], row, i)
            panels[row, i].set_title(name, fontsize="small")
            panels[row, i].set_xticks([])
            panels[row, i].set_yticks([])
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=75)
    return out.getvalue()
