"""
Pipelines and grid search
=========================

An estimator is a transformer, too: its scores are features for a classifier. The number of clusters
and the kernel are then selected by cross-validation, as any other parameter.
"""

# %%
import matplotlib.pyplot as plt
from sklearn.datasets import make_moons
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from maxmargin import CuttingPlaneMarginClustering

X, y = make_moons(300, noise=0.2, random_state=0)
pipeline = Pipeline(
    [
        ("scale", StandardScaler()),
        ("clusters", CuttingPlaneMarginClustering(n_init=2, random_state=0)),
        ("classify", LogisticRegression()),
    ]
)

# %%
# Few clusters are too coarse for the moons; the linear model on the columns themselves reaches the
# dotted line.
numbers = [2, 4, 8, 12]
search = GridSearchCV(pipeline, {"clusters__n_clusters": numbers}, cv=3).fit(X, y)
plain = GridSearchCV(LogisticRegression(), {"C": [1.0]}, cv=3).fit(X, y).best_score_
print(search.best_params_, f"{search.best_score_:.2f}")

# %%
figure, ax = plt.subplots(figsize=(5.5, 3.4), layout="constrained")
ax.plot(numbers, search.cv_results_["mean_test_score"], marker="o")
ax.axhline(plain, color="gray", linestyle=":")
ax.set(xlabel="clusters", ylabel="accuracy, 3-fold cross-validation", xticks=numbers)
