"""
Stable clusters, and clusters that are not there
================================================

A clustering always has an answer. Stability under subsampling, and the number of clusters that the
density supports, say what it is worth.
"""

# %%
import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_blobs

from maxmargin import MaxMarginClustering, choose_n_clusters

warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
sets = {
    "four clouds": make_blobs(300, centers=4, cluster_std=0.7, random_state=2)[0],
    "one cloud": rng.normal(size=(300, 2)),
}

# %%
# Four clusters are asked for in both; the size of a point is its confidence.
figure, axes = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
for ax, (name, X) in zip(axes, sets.items()):
    model = MaxMarginClustering(4, random_state=0).fit(X)
    number = choose_n_clusters(X, random_state=0).n_clusters
    ax.scatter(*X.T, s=2 + 25 * model.confidence_**2, color=[f"C{h}" for h in model.labels_])
    ax.set_title(f"{name}: stability {model.stability_:.2f}, supported number {number}")
