"""
All estimators on toy shapes
============================

The front door and the published methods, each at its defaults. The front door uses more of the data
(neighbours, connected groups, sizes); the others are one method each.
"""

# %%
import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_blobs, make_circles, make_moons
from sklearn.metrics import adjusted_rand_score

import maxmargin

sets = {
    "rings": make_circles(120, noise=0.05, factor=0.5, random_state=0),
    "moons": make_moons(120, noise=0.07, random_state=0),
    "blobs": make_blobs(120, centers=3, random_state=170),
    "uneven sizes": make_blobs([90, 15, 15], cluster_std=0.9, random_state=11),
}
names = [
    "MaxMargin",
    "LeastSquares",
    "Alternating",
    "CuttingPlane",
    "MultipleKernel",
    "Pairwise",
    "Bisecting",
    "Semidefinite",
]

# %%
# The adjusted Rand index with the true groups is in the corner.
warnings.simplefilter("ignore")
figure, axes = plt.subplots(len(sets), len(names), figsize=(14, 7.5), layout="constrained")
for row, (shape, (X, y)) in zip(axes, sets.items()):
    for ax, name in zip(row, names):
        estimator = getattr(maxmargin, f"{name}MarginClustering".replace("MarginMargin", "Margin"))
        labels = estimator(len(np.unique(y)), random_state=0).fit_predict(X)
        ax.scatter(*X.T, s=6, color=[f"C{h}" for h in labels])
        ax.set(xticks=[], yticks=[])
        ax.text(0.97, 0.03, f"{adjusted_rand_score(y, labels):.2f}", transform=ax.transAxes,
                ha="right", bbox={"color": "white", "alpha": 0.7, "pad": 1})  # fmt: skip
        if row[0] is axes[0, 0]:
            ax.set_title(name)
    row[0].set_ylabel(shape)
