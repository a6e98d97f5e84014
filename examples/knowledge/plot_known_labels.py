"""
A few known labels decide between two good answers
==================================================

Data can have more than one wide gap. Four groups on the corners of a rectangle can be split into
left and right or into top and bottom; which split is meant, only the user knows. Two known labels
tell.
"""

# %%
# Four groups; without further knowledge the wider gap wins, between left and right.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_blobs

from maxmargin import AlternatingMarginClustering
from maxmargin.display import plot_clusters

corners = np.array([[-2.5, -2], [-2.5, 2], [2.5, -2], [2.5, 2]])
X, corner = make_blobs(200, centers=corners, cluster_std=0.6, random_state=0)
free = AlternatingMarginClustering(n_clusters=2, balance=0.9, random_state=0).fit(X)

# %%
# One row at the bottom left is known to be in cluster 0, one at the top left in cluster 1. All
# others are -1: unknown.
known = np.full(len(X), -1)
known[np.flatnonzero(corner == 0)[0]] = 0
known[np.flatnonzero(corner == 1)[0]] = 1
told = AlternatingMarginClustering(n_clusters=2, balance=0.9, random_state=0)
told.fit(X, partial_labels=known)
print("bottom is cluster 0:", np.mean(told.labels_[X[:, 1] < 0] == 0))

# %%
# The two known rows turn the boundary.
figure, axes = plt.subplots(1, 2, figsize=(10, 4.4), layout="constrained")
plot_clusters(free, X, ax=axes[0]).set_title("no label known", pad=34)
plot_clusters(told, X, ax=axes[1]).set_title("two labels known", pad=34)
axes[1].scatter(*X[known >= 0].T, s=160, marker="*", color="black", zorder=4)
