"""Draw docs/images/readme.png: k-means, a Gaussian mixture, HDBSCAN and maxmargin on known data.

python docs/make_readme_picture.py
"""

import argparse
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from PIL import Image
from sklearn.cluster import HDBSCAN, KMeans
from sklearn.datasets import load_digits, load_wine, make_moons
from sklearn.manifold import TSNE
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture
from sklearn.preprocessing import StandardScaler

from maxmargin import MaxMarginClustering
from maxmargin.display import COLOURS

TARGET = Path(__file__).parent / "images" / "readme.png"


def data():
    """Yield the name of each set, its rows, classes, and points to draw."""
    X, y = make_moons(400, noise=0.08, random_state=0)
    yield "two moons", X, y, X
    X, y = load_wine(return_X_y=True)
    yield "wine", X, y, StandardScaler().fit_transform(X)
    X, y = load_digits(return_X_y=True)
    yield "handwritten digits", X, y, X


def methods(k):
    """All that is given is the number of clusters; HDBSCAN does not take it."""
    return {
        "KMeans": KMeans(k, n_init=10, random_state=0),
        "GaussianMixture": GaussianMixture(k, n_init=3, random_state=0),
        "HDBSCAN": HDBSCAN(copy=True),
        "maxmargin": MaxMarginClustering(k, n_resamples=0, random_state=0),
    }


def drawn(points):
    """Return two coordinates: a map by t-SNE if there are more columns."""
    return points if points.shape[1] == 2 else TSNE(random_state=0).fit_transform(points)


def main():
    figure = Figure(figsize=(9, 6.6), layout="constrained")
    axes = figure.subplots(3, 4)
    for row, (name, X, y, points) in zip(axes, data()):
        places = drawn(points)
        for ax, (title, method) in zip(row, methods(len(np.unique(y))).items()):
            labels = method.fit_predict(X)
            score = adjusted_rand_score(y, labels)
            colours = [COLOURS[h % len(COLOURS)] if h >= 0 else "#cccccc" for h in labels]
            ax.scatter(*places.T, s=3, color=colours)
            ax.set(xticks=[], yticks=[])
            ax.set_xlabel(f"adjusted Rand index {score:.2f}")
            print(f"{name}: {title} {score:.3f}")
            if row[0] is axes[0, 0]:
                ax.set_title(title, fontweight="bold")
        row[0].set_ylabel(name)
    figure.savefig(TARGET, dpi=110)
    Image.open(TARGET).convert("RGB").quantize(64).save(TARGET, optimize=True)


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    main()
