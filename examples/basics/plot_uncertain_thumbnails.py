"""
Which pictures is it not sure about?
====================================

The most typical picture of every cluster, and the pictures with the least confidence: the ones to
look at, or to label first.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from maxmargin import MaxMarginClustering

digits = load_digits()
images, X = digits.images[:500], digits.data[:500]
model = MaxMarginClustering(10, random_state=0).fit(X)


def show(rows, titles, columns=10):
    """Draw pictures side by side."""
    _, axes = plt.subplots(
        -(-len(rows) // columns), columns, figsize=(9, 1.15 * -(-len(rows) // columns)),
        layout="constrained", squeeze=False,
    )  # fmt: skip
    for ax in axes.flat:
        ax.axis("off")
    for ax, row, title in zip(axes.flat, rows, titles):
        ax.imshow(images[row], cmap="gray_r")
        ax.set_title(title, fontsize=8)


# %%
# The exemplar of a cluster is its row with the largest margin.
show(model.exemplar_indices_, [f"cluster {h}" for h in range(10)])

# %%
# The twenty least certain pictures, with the two clusters that compete and their probabilities.
uncertain = np.argsort(model.confidence_)[:20]
probabilities = model.predict_proba(X[uncertain])
titles = []
for row in probabilities:
    first, second = np.argsort(-row)[:2]
    titles.append(f"{first}: {row[first]:.0%}\n{second}: {row[second]:.0%}")
show(uncertain, titles)
