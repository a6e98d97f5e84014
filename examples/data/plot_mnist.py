"""
MNIST, 70,000 digits
====================

All of MNIST in less than a minute: the model is fitted on a sample and predicts the others. This
example downloads MNIST from OpenML and is not run when this site is built.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import KMeans
from sklearn.datasets import fetch_openml
from sklearn.decomposition import PCA
from sklearn.metrics import adjusted_rand_score

from maxmargin import MaxMarginClustering

X, digit = fetch_openml("mnist_784", return_X_y=True, as_frame=False)
X = X.astype(np.float32)
model = MaxMarginClustering(10, random_state=0).fit(X)
kmeans = KMeans(10, n_init=10, random_state=0).fit(PCA(50, random_state=0).fit_transform(X))
for name, labels in (("maxmargin", model.labels_), ("k-means", kmeans.labels_)):
    print(f"{name}: adjusted Rand index {adjusted_rand_score(digit, labels):.2f}")

# %%
# The least certain pictures.
figure, axes = plt.subplots(2, 10, figsize=(9, 2), layout="constrained")
for ax, row in zip(axes.flat, np.argsort(model.confidence_)):
    ax.imshow(X[row].reshape(28, 28), cmap="gray_r")
    ax.axis("off")
