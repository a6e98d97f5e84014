"""
A file that need not fit into memory
====================================

Rows are read from a file block by block, with the same result as from memory. Here the file is
small; 20 GiB are fitted within 2 GiB by the same lines.
"""

# %%
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_blobs

from maxmargin import CuttingPlaneMarginClustering, open_rows

folder = tempfile.TemporaryDirectory()
path = Path(folder.name) / "rows.npy"
X, _ = make_blobs(40_000, n_features=8, centers=4, cluster_std=3, random_state=0)
np.save(path, X.astype(np.float32))

# %%
# ``open_rows`` reads npy, parquet and zarr.
rows = open_rows(path)
model = CuttingPlaneMarginClustering(4, kernel="linear", random_state=0)
print(rows.shape, f"{model.estimate_memory(*rows.shape, in_blocks=True) / 2**20:.0f} MiB needed")
model.fit(rows)
print("sizes:", model.cluster_sizes_)

# %%
# New rows may be in memory or in a file.
some = X[:2000]
labels = model.predict(some)
figure, ax = plt.subplots(figsize=(5, 4), layout="constrained")
ax.scatter(some[:, 0], some[:, 1], s=4, color=[f"C{h}" for h in labels])
ax.set(xlabel="first column", ylabel="second column")
folder.cleanup()
