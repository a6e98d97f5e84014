"""
Any similarity: words by their letters
======================================

Rows need not be vectors. A kernel matrix is enough: here the number of common pairs of letters of
two words.
"""

# %%
from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np

from maxmargin import MaxMarginClustering

text = """
    aquarius aqueduct equator antiquity quality quantum quarter quiet equal liquid
    physics psychology graph phase philosophy photograph sphere phrase phantom morph
"""
words = text.split()


def pairs(word):
    """Return the pairs of neighbouring letters."""
    return {a + b for a, b in pairwise(word)}


def similarity(first, second):
    """Return the cosine between sets of pairs, a positive definite kernel."""
    return np.array(
        [
            [len(pairs(a) & pairs(b)) / np.sqrt(len(pairs(a)) * len(pairs(b))) for b in second]
            for a in first
        ]
    )


# %%
K = similarity(words, words)
model = MaxMarginClustering(2, kernel="precomputed", random_state=0).fit(K)
for h in range(2):
    print(h, [word for word, label in zip(words, model.labels_) if label == h])

# %%
# New words are given as their similarities to the fitted ones.
new = ["quantity", "graphics"]
print(dict(zip(new, model.predict(similarity(new, words)))))

# %%
order = np.argsort(model.labels_, kind="stable")
figure, ax = plt.subplots(figsize=(5.4, 4.6), layout="constrained")
ax.imshow(K[np.ix_(order, order)], cmap="Blues")
ax.set_yticks(range(len(words)), [words[i] for i in order])
ax.set_xticks([])
