"""
Text: what is this function about?
==================================

The docstrings of four parts of scipy, as tf-idf vectors. The rows are sparse, so the front door
uses the cosine kernel. Clusters are named by their words.
"""

# %%
# A document is the docstring of a function or class.
import inspect

import matplotlib.pyplot as plt
import numpy as np
from scipy import linalg, ndimage, signal, stats
from sklearn.cluster import KMeans
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics import adjusted_rand_score

from maxmargin import MaxMarginClustering

modules = [linalg, ndimage, signal, stats]
documents, part = [], []
for number, module in enumerate(modules):
    for name in sorted(module.__all__)[:110]:
        text = inspect.getdoc(getattr(module, name)) or ""
        if len(text) > 300:
            documents.append(text)
            part.append(number)

# %%
words = TfidfVectorizer(sublinear_tf=True, stop_words="english", min_df=5, max_df=0.5)
X = words.fit_transform(documents)
model = MaxMarginClustering(4, random_state=0).fit(X)
kmeans = KMeans(4, n_init=10, random_state=0).fit(X)
print(f"{X.shape[0]} documents, {X.shape[1]} words")
for name, labels in (("maxmargin", model.labels_), ("k-means", kmeans.labels_)):
    print(f"{name}: adjusted Rand index {adjusted_rand_score(part, labels):.2f}")

# %%
# The words with the largest mean weight in each cluster.
names = words.get_feature_names_out()
for h in range(4):
    mean = np.asarray(X[model.labels_ == h].mean(axis=0)).ravel()
    print(h, ", ".join(names[np.argsort(-mean)[:8]]))

# %%
# Which part of scipy is in which cluster.
counts = np.zeros((4, 4), int)
np.add.at(counts, (np.array(part), model.labels_), 1)
figure, ax = plt.subplots(figsize=(4.6, 3.6), layout="constrained")
ax.imshow(counts, cmap="Blues")
for i, j in np.ndindex(4, 4):
    ax.text(j, i, counts[i, j], ha="center", va="center")
ax.set_yticks(range(4), [module.__name__ for module in modules])
ax.set_xticks(range(4), [f"cluster {h}" for h in range(4)])
