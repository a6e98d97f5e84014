"""
Clusters of very different size
===============================

K-means cuts a large cluster rather than find a small one. The front door compares preferences for
sizes by the mean leave-one-out margin, and reports which one it used.
"""

# %%
import matplotlib.pyplot as plt
from sklearn.cluster import KMeans
from sklearn.datasets import make_blobs
from sklearn.metrics import adjusted_rand_score

from maxmargin import MaxMarginClustering

X, y = make_blobs([400, 25, 25], centers=[[0, 0], [6, 1], [5, -4]], cluster_std=[2, 0.5, 0.5],
                  random_state=0)  # fmt: skip
kmeans = KMeans(3, n_init=10, random_state=0).fit(X)
model = MaxMarginClustering(3, random_state=0).fit(X)
print("sizes:", model.cluster_sizes_, "size prior:", model.size_prior_)

# %%
figure, axes = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained", sharey=True)
for ax, name, labels in zip(axes, ("k-means", "maxmargin"), (kmeans.labels_, model.labels_)):
    ax.scatter(*X.T, s=8, color=[f"C{h}" for h in labels])
    ax.set_title(f"{name}, adjusted Rand index {adjusted_rand_score(y, labels):.2f}")
