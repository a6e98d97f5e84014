"""
Two links that change the answer
================================

Three groups, two clusters: which two groups belong together? Links between rows say it. The front
door respects them and changes as little else as possible.
"""

# %%
import matplotlib.pyplot as plt
from sklearn.datasets import make_blobs

from maxmargin import MaxMarginClustering, PairwiseConstraints

X, group = make_blobs(
    180, centers=[[0, 0], [3.6, 0], [8, 1]], cluster_std=0.8, shuffle=False, random_state=0
)
free = MaxMarginClustering(2, random_state=0).fit(X)

# %%
# Rows 60 and 61 are in the middle group, row 0 on the left, row 120 on the right.
links = PairwiseConstraints(len(X), must_link=[(60, 120), (61, 121)], cannot_link=[(60, 0)])
linked = MaxMarginClustering(2, random_state=0).fit(X, constraints=links)
print("links that are violated without them:", links.violations(free.labels_).n_links)
print("links that are violated with them:", links.violations(linked.labels_).n_links)

# %%
figure, axes = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained", sharey=True)
for ax, model, title in zip(axes, (free, linked), ("no links", "three links")):
    ax.scatter(*X.T, s=10, color=[f"C{h}" for h in model.labels_])
    ax.set_title(title)
for a, b in [(60, 120), (61, 121)]:
    axes[1].plot(*X[[a, b]].T, color="black")
axes[1].plot(*X[[60, 0]].T, color="black", linestyle=":")
