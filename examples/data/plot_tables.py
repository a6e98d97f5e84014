"""
A table with units
==================

Chemical measurements of wines, in units that differ by a factor of thousands. The front door
standardises such columns; k-means sees only the largest one unless you do it.
"""

# %%
import matplotlib.pyplot as plt
from sklearn.cluster import KMeans
from sklearn.datasets import load_wine
from sklearn.metrics import adjusted_rand_score

from maxmargin import MaxMarginClustering

wine = load_wine(as_frame=True)
model = MaxMarginClustering(3, random_state=0).fit(wine.data)
kmeans = KMeans(3, n_init=10, random_state=0).fit(wine.data)
print(f"maxmargin: adjusted Rand index {adjusted_rand_score(wine.target, model.labels_):.2f}")
print(f"k-means:   adjusted Rand index {adjusted_rand_score(wine.target, kmeans.labels_):.2f}")
print(model.report_[1])

# %%
# Describe clusters by their means, in standard deviations of the column.
scaled = (wine.data - wine.data.mean()) / wine.data.std()
means = scaled.groupby(model.labels_).mean().T
figure, ax = plt.subplots(figsize=(6, 4.4), layout="constrained")
image = ax.imshow(means, cmap="RdBu", vmin=-1.5, vmax=1.5, aspect="auto")
ax.set_yticks(range(len(means)), means.index)
ax.set_xticks(range(3), [f"cluster {h}" for h in range(3)])
figure.colorbar(image, label="mean, in standard deviations")
