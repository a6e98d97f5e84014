"""
Dask arrays
===========

Chunks are read where they are; with a ``distributed.Client`` the same line runs on a cluster, and
labels stay on its workers. Needs ``pip install "maxmargin[dask]"``.
"""

# %%
import dask.array as da
import matplotlib.pyplot as plt
from sklearn.datasets import make_blobs

from maxmargin import CuttingPlaneMarginClustering

points, _ = make_blobs(30_000, n_features=6, centers=3, cluster_std=2, random_state=1)
X = da.from_array(points, chunks=(5_000, 6))
model = CuttingPlaneMarginClustering(3, kernel="linear", random_state=0).fit(X)
labels = model.predict(X)
print(labels)

# %%
# Predictions are lazy, in the chunks of the rows.
shown = slice(0, 3000)
figure, ax = plt.subplots(figsize=(5, 4), layout="constrained")
ax.scatter(*points[shown, :2].T, s=4, color=[f"C{h}" for h in labels[shown].compute()])
ax.set(xlabel="first column", ylabel="second column")
