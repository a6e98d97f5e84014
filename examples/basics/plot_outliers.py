"""
Rows that belong to no cluster
==============================

Every row gets a cluster, and rows far from all others are marked: ``is_outlier_`` for the fitted
rows, ``is_outlier(X)`` for new ones.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons

from maxmargin import MaxMarginClustering

rng = np.random.default_rng(0)
X, _ = make_moons(300, noise=0.07, random_state=0)
X = np.r_[X, rng.uniform([-2, -1.5], [3, 2], size=(12, 2))]
model = MaxMarginClustering(2, random_state=0).fit(X)
print(f"{model.is_outlier_.sum()} outliers; the last 12 rows are noise:", model.is_outlier_[-12:])

# %%
# The shaded region is where a new row would be ordinary.
x, y = np.meshgrid(np.linspace(-2.2, 3.2, 120), np.linspace(-1.7, 2.2, 90))
outside = model.is_outlier(np.c_[x.ravel(), y.ravel()]).reshape(x.shape)
figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
ax.contourf(x, y, outside, levels=[-0.5, 0.5], colors=["#e8eef4"])
ax.scatter(*X.T, s=9, color=[f"C{h}" for h in model.labels_])
ax.scatter(*X[model.is_outlier_].T, s=70, facecolors="none", edgecolors="black", label="outlier")
ax.legend()
