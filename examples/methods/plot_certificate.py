"""
How far from the optimum?
=========================

Clustering is a hard problem, and a search can miss the optimum. The semidefinite relaxation has a
lower bound that no labels can beat, also for the labels of other methods.
"""

# %%
import matplotlib.pyplot as plt
from sklearn.cluster import KMeans
from sklearn.datasets import make_moons

from maxmargin import SemidefiniteMarginClustering

X, _ = make_moons(80, noise=0.08, random_state=0)
model = SemidefiniteMarginClustering(2, random_state=0).fit(X)
labelled = {
    "ours": model.labels_,
    "k-means": KMeans(2, n_init=10, random_state=0).fit(X).labels_,
    "left and right": (X[:, 0] > 0.5).astype(int),
}

# %%
# The objective of each labelling above the bound: small is nearly optimal.
objectives = {name: model.certificate(labels).objective for name, labels in labelled.items()}
figure, ax = plt.subplots(figsize=(5.5, 3.2), layout="constrained")
ax.bar(list(objectives), list(objectives.values()))
ax.axhline(model.lower_bound_, color="black", linestyle="--", label="no labels are below this")
ax.set_ylabel("objective")
figure.legend(loc="outside upper center")
