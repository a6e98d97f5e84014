"""
Which rows should a person label?
=================================

``LabelQueries`` selects rows whose labels are expected to change the answer most. Here the person
is played by the true classes; random rows are labelled beside it.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from maxmargin import LabelQueries, MaxMarginClustering

X, digit = load_digits(return_X_y=True)
X, digit = X[::7], digit[::7]
queries = LabelQueries(MaxMarginClustering(10, random_state=0), X, tol=0, random_state=0)
order = np.random.default_rng(0).permutation(len(X))


def accuracy(model):
    """Return the share of rows in their class, if all classes are known."""
    return (model.labels_ == digit).mean()


# %%
counts, chosen, random = (20, 40), [], []
for count in counts:
    while len(queries.answers) < count:
        rows = queries.suggest(10)
        queries.tell(rows, digit[rows])
    chosen.append(accuracy(queries.fit()))
    known = np.full(len(X), -1)
    known[order[:count]] = digit[order[:count]]
    random.append(accuracy(MaxMarginClustering(10, random_state=0).fit(X, partial_labels=known)))
print("selected rows:", chosen, "random rows:", random)

# %%
figure, ax = plt.subplots(figsize=(5, 3.2), layout="constrained")
ax.plot(counts, chosen, marker="o", label="selected rows")
ax.plot(counts, random, marker="o", label="random rows")
ax.set(xlabel="labels", ylabel="accuracy", xticks=counts)
ax.legend()
