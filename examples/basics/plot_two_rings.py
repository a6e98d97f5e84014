"""
Two rings that k-means cannot separate
======================================

One ring lies around the other, so no straight line separates them, and both have the same centre.
K-means cuts both in half. For the front door, connected groups of rows that are apart are clusters.
"""

# %%
# The data: 400 points, half of them in each ring.
from sklearn.cluster import KMeans
from sklearn.datasets import make_circles

from maxmargin import MaxMarginClustering
from maxmargin.metrics import clustering_error

X, rings = make_circles(400, noise=0.06, factor=0.45, random_state=0)

# %%
# Only the number of clusters is given.
kmeans = KMeans(2, n_init=10, random_state=0).fit(X)
model = MaxMarginClustering(2, random_state=0).fit(X)
print(f"k-means:   {clustering_error(rings, kmeans.labels_):.1%} of the rows wrong")
print(f"maxmargin: {clustering_error(rings, model.labels_):.1%} of the rows wrong")

# %%
# The solid line is the boundary, the dashed lines are the margins, and circles mark the most
# certain point of each cluster.
from maxmargin.display import plot_clusters

plot_clusters(model, X)

# %%
# What was chosen, and how stable the clusters are:
print(*model.report_, sep="\n")
