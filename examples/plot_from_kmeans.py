"""
From KMeans to maxmargin
========================

The same code with another class: handwritten digits, two at a time, compared with k-means. Four
pairs are shown on which we win, and one on which we lose.
"""

# %%
# Five pairs of digits; both methods get the number of clusters, ours also ``balance``.
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits

from maxmargin import AlternatingMarginClustering
from maxmargin.display import plot_clusters, plot_comparison
from maxmargin.metrics import clustering_error

digits, target = load_digits(return_X_y=True)
pairs = [(1, 3), (5, 9), (8, 9), (3, 8), (1, 9)]
errors = {"k-means": [], "maxmargin": []}
for a, b in pairs:
    chosen = (target == a) | (target == b)
    X, y = digits[chosen], target[chosen]
    for name, estimator in {
        "k-means": KMeans(n_clusters=2, n_init=10, random_state=0),
        "maxmargin": AlternatingMarginClustering(n_clusters=2, balance=0.94, random_state=0),
    }.items():
        errors[name].append(clustering_error(y, estimator.fit(X).labels_))
names = [f"{a}-{b}" for a, b in pairs]
for name, theirs, ours in zip(names, *errors.values()):
    print(f"{name}: k-means {theirs:.1%}, maxmargin {ours:.1%} wrong")

# %%
# Below the diagonal we make fewer errors.
plot_comparison(*errors.values(), names)

# %%
# With more than two columns, two clusters are drawn by score: 0 is the boundary, and rows near it
# are the doubtful ones. Here 3 and 8.
chosen = (target == 3) | (target == 8)
model = AlternatingMarginClustering(n_clusters=2, balance=0.94, random_state=0)
plot_clusters(model.fit(digits[chosen]), digits[chosen])
