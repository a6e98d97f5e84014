"""
Two rings that k-means cannot separate
======================================

One ring lies around the other, so no straight line separates them, and both have the same centre.
K-means cuts them in half. With the default kernel, the widest margin runs between the rings.
"""

# %%
# The data: 400 points, half of them in each ring.
from sklearn.cluster import KMeans
from sklearn.datasets import make_circles

from maxmargin import AlternatingMarginClustering
from maxmargin.metrics import clustering_error

X, rings = make_circles(400, noise=0.06, factor=0.45, random_state=0)

# %%
# Both methods know that there are two clusters; ours also that they are about equally large.
kmeans = KMeans(2, n_init=10, random_state=0).fit(X)
model = AlternatingMarginClustering(n_clusters=2, balance=0.94, random_state=0).fit(X)
print(f"k-means:   {clustering_error(rings, kmeans.labels_):.1%} of the rows wrong")
print(f"maxmargin: {clustering_error(rings, model.labels_):.1%} of the rows wrong")

# %%
# The solid line is the boundary, the dashed lines are the margins, and circles mark the most
# certain point of each cluster.
from maxmargin.display import plot_clusters

plot_clusters(model, X)

# %%
# The objective falls with every step of the last stage.
from maxmargin.display import plot_history

plot_history(model)
