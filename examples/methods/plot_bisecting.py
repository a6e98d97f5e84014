"""
Splits of splits
================

``BisectingMarginClustering`` splits the rows in two, then one of the parts, and so on. Every split
has its own kernel width, so clusters of different kinds can be found.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_blobs, make_circles

from maxmargin import BisectingMarginClustering

rings, _ = make_circles(160, noise=0.05, factor=0.4, random_state=0)
clouds, _ = make_blobs([60, 60], centers=[[5, -1], [5, 1.5]], cluster_std=0.4, random_state=0)
X = np.r_[rings, clouds]

# %%
# The same splits with two, three and four clusters.
figure, axes = plt.subplots(1, 3, figsize=(11, 3.4), layout="constrained", sharey=True)
for ax, k in zip(axes, (2, 3, 4)):
    labels = BisectingMarginClustering(k, random_state=0).fit_predict(X)
    ax.scatter(*X.T, s=8, color=[f"C{h}" for h in labels])
    ax.set_title(f"{k} clusters")
