"""
Select a kernel width without labels
====================================

``select_parameters`` compares settings of ``LeastSquaresMarginClustering`` by the agreement of
random restarts and by the leave-one-out accuracy. No labels are needed.
"""

# %%
from sklearn.datasets import make_moons
from sklearn.metrics import adjusted_rand_score

from maxmargin import LeastSquaresMarginClustering, select_parameters

X, moon = make_moons(200, noise=0.05, random_state=0)
choice = select_parameters(X, 2, random_state=0)
choice.plot()

# %%
# The best setting, and what it is worth by the true groups.
print(choice.best)
for params in ({}, choice.best):
    model = LeastSquaresMarginClustering(2, random_state=0, **params).fit(X)
    print(params or "defaults", f"ARI {adjusted_rand_score(moon, model.labels_):.2f}")
