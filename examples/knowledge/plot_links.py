"""
Which clusters are meant: links between rows, and which pair to ask about
=========================================================================

Digits fall into ten groups, but somebody may want odd and even. No method can guess that; a few
answers to "do these two belong together?" tell.
"""

# %%
# Answers about 100 random pairs of rows: must-links and cannot-links.
import matplotlib.pyplot as plt
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits

from maxmargin import PairwiseConstraints, PairwiseMarginClustering
from maxmargin.active import PairQueries
from maxmargin.metrics import clustering_accuracy

X, digit = load_digits(return_X_y=True)
X, digit = X[:300], digit[:300]
odd = digit % 2
links = PairwiseConstraints.from_labels(odd, n_pairs=100, random_state=0)
print(links)
model = PairwiseMarginClustering(2, random_state=0).fit(X, constraints=links)
blind = KMeans(2, n_init=10, random_state=0).fit(X).labels_
print(f"k-means {clustering_accuracy(odd, blind):.3f}")
print(f"with links {clustering_accuracy(odd, model.labels_):.3f}, alpha {model.alpha_}")
print("broken links:", model.violated_links_)

# %%
# Links that contradict each other are refused, with the proof.
try:
    PairwiseConstraints(9, must_link=[(0, 1), (1, 8)], cannot_link=[(8, 0)]).check()
except ValueError as error:
    print(error)

# %%
# Instead of random pairs, ask what tells most: suggest, answer, tell. The person is played by the
# true classes here; on the command line it is ``maxmargin label``.
budgets, reached = (20, 40, 60), {"random": [], "neighbourhoods": []}
for strategy, found in reached.items():
    estimator = PairwiseMarginClustering(2, alpha=0.003, random_state=0)
    loop = PairQueries(estimator, X, strategy=strategy, random_state=0)
    for budget in budgets:
        while len(loop.answers) < budget:
            pairs = loop.suggest(min(20, budget - len(loop.answers)))
            loop.tell(pairs, [1 if odd[a] == odd[b] else -1 for a, b in pairs])
        found.append(clustering_accuracy(odd, loop.fit().predict(X)))

# %%
figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
for strategy, found in reached.items():
    ax.plot(budgets, found, marker="o", label=f"{strategy} pairs")
ax.axhline(clustering_accuracy(odd, blind), color="gray", linestyle=":", label="k-means")
ax.set_xlabel("answers")
ax.set_ylabel("accuracy, odd against even")
ax.legend()
