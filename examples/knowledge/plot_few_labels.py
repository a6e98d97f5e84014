"""
Twenty labels instead of four hundred
=====================================

Digits with one, two and five known labels of each class, beside classifiers that learn from the
known labels only (SVC) or spread them over neighbours (LabelSpreading).
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.semi_supervised import LabelSpreading
from sklearn.svm import SVC

from maxmargin import MaxMarginClustering

X, digit = load_digits(return_X_y=True)
X, digit = X[:400], digit[:400]
rng = np.random.default_rng(0)
order = rng.permutation(len(X))
ranks = np.empty(len(X), int)  # how many rows of the same class come before
for h in range(10):
    members = order[digit[order] == h]
    ranks[members] = np.arange(len(members))

# %%
# -1 marks unknown labels. Accuracy is that on the unknown ones.
per_class = (1, 2, 5)
accuracy = {"maxmargin": [], "SVC": [], "LabelSpreading": []}
for count in per_class:
    known = np.where(ranks < count, digit, -1)
    hidden = known < 0
    model = MaxMarginClustering(10, random_state=0).fit(X, partial_labels=known)
    spread = LabelSpreading(kernel="knn", n_neighbors=7).fit(X, known)
    svc = SVC(C=10).fit(X[~hidden], known[~hidden])
    for name, labels in zip(accuracy, (model.labels_, svc.predict(X), spread.transduction_)):
        accuracy[name].append((labels == digit)[hidden].mean())

# %%
figure, ax = plt.subplots(figsize=(5.5, 3.6), layout="constrained")
for name, values in accuracy.items():
    ax.plot(per_class, values, marker="o", label=name)
ax.set(xlabel="known labels of each class", ylabel="accuracy on the other rows", xticks=per_class)
ax.legend()

# %%
# ``report_`` says how far kernels, neighbours and clusters are believed.
print(*model.report_, sep="\n")
