"""
How many clusters are there?
============================

Clusters are modes of the density. How far it falls between them is measured in standard errors and
compared with data without clusters. One cluster is a possible answer.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_blobs, make_moons

from maxmargin import choose_n_clusters

rng = np.random.default_rng(0)
sets = {
    "seven clouds": make_blobs(420, centers=7, cluster_std=0.5, random_state=6)[0],
    "two moons": make_moons(400, noise=0.07, random_state=0)[0],
    "one cloud": rng.normal(size=(400, 2)) @ [[2, 0.5], [0, 0.7]],
}

# %%
# Above: the data. Below: the evidence, where a large drop says "so many and no more".
figure, axes = plt.subplots(2, 3, figsize=(11, 6), layout="constrained")
for column, (name, X) in zip(axes.T, sets.items()):
    choice = choose_n_clusters(X, random_state=0)
    print(f"{name}: {choice.statement}")
    column[0].scatter(*X.T, s=5, color="gray")
    column[0].set_title(f"{name}: {choice.n_clusters}")
    choice.plot(ax=column[1])
