"""
Beside scikit-learn's clusterers on toy shapes
==============================================

Six small sets, each with its number of clusters given (HDBSCAN finds its own). Nothing else is set.
"""

# %%
import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import HDBSCAN, KMeans, SpectralClustering
from sklearn.datasets import make_blobs, make_circles, make_moons
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture

from maxmargin import MaxMarginClustering

blobs, blob = make_blobs(240, centers=3, random_state=170)
sets = {
    "rings": make_circles(240, noise=0.05, factor=0.5, random_state=0),
    "moons": make_moons(240, noise=0.07, random_state=0),
    "blobs": (blobs, blob),
    "long": (blobs @ [[0.6, -0.6], [-0.4, 0.8]], blob),
    "uneven sizes": make_blobs([180, 30, 30], cluster_std=0.9, centers=None, random_state=11),
    "uneven spread": make_blobs(240, centers=3, cluster_std=[1.0, 2.2, 0.5], random_state=170),
}

# %%
# The adjusted Rand index with the true groups is in the corner. No method wins everywhere.
warnings.simplefilter("ignore")
figure, axes = plt.subplots(len(sets), 5, figsize=(10, 12), layout="constrained")
for row, (name, (X, y)) in zip(axes, sets.items()):
    k = len(np.unique(y))
    methods = {
        "KMeans": KMeans(k, n_init=10, random_state=0),
        "GaussianMixture": GaussianMixture(k, n_init=3, random_state=0),
        "Spectral": SpectralClustering(k, affinity="nearest_neighbors", random_state=0),
        "HDBSCAN": HDBSCAN(copy=True),
        "maxmargin": MaxMarginClustering(k, n_resamples=0, random_state=0),
    }
    for ax, (title, method) in zip(row, methods.items()):
        labels = method.fit_predict(X)
        colours = np.where(labels < 0, "lightgray", np.array([f"C{h % 10}" for h in labels]))
        ax.scatter(*X.T, s=6, color=colours)
        ax.set(xticks=[], yticks=[])
        ax.text(0.97, 0.03, f"{adjusted_rand_score(y, labels):.2f}", transform=ax.transAxes,
                ha="right", bbox={"color": "white", "alpha": 0.7, "pad": 1})  # fmt: skip
        if row[0] is axes[0, 0]:
            ax.set_title(title)
    row[0].set_ylabel(name)
