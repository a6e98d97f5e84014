"""
Handwritten digits, with confidence
===================================

Clusters of 1797 digits, and whether the confidence tells where they agree with the true digits.
"""

# %%
# Only the number of clusters is given.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits
from sklearn.metrics import adjusted_rand_score

from maxmargin import MaxMarginClustering

X, digit = load_digits(return_X_y=True)
model = MaxMarginClustering(10, random_state=0).fit(X)
kmeans = KMeans(10, n_init=10, random_state=0).fit(X)
print(f"adjusted Rand index: {adjusted_rand_score(digit, model.labels_):.2f}")
print(f"k-means:             {adjusted_rand_score(digit, kmeans.labels_):.2f}")
print(*model.report_, sep="\n")

# %%
# Rows with low confidence are those whose cluster has most often another digit than the majority.
majority = np.array([np.bincount(digit[model.labels_ == h]).argmax() for h in range(10)])
right = majority[model.labels_] == digit
bins = [0, 0.5, 0.7, 0.9, 0.98, 1.001]
which = np.digitize(model.confidence_, bins) - 1
shares = [right[which == b].mean() if (which == b).any() else np.nan for b in range(len(bins) - 1)]

figure, ax = plt.subplots(figsize=(6, 3.5), layout="constrained")
ax.bar(range(len(shares)), shares)
for b in range(len(shares)):
    ax.text(b, 0.02, f"{(which == b).sum()} rows", ha="center", color="white")
ax.set_xticks(range(len(shares)), ["< 0.5", "0.5-0.7", "0.7-0.9", "0.9-0.98", "> 0.98"])
ax.set(xlabel="confidence", ylabel="share with the cluster's digit")
