"""
Which group of columns matters?
===============================

Three groups of columns: one separates the clusters clearly, one a little, one is noise. A weight is
learned for a kernel on each of them, without labels.
"""

# %%
import numpy as np
from sklearn.metrics import adjusted_rand_score

from maxmargin import MultipleKernelMarginClustering
from maxmargin.display import plot_kernel_weights

rng = np.random.default_rng(0)
truth = np.repeat([0, 1], 150)
clear = rng.normal(size=(300, 3)) + 3 * truth[:, None]
weak = rng.normal(size=(300, 3)) + truth[:, None]
noise = rng.normal(size=(300, 6))
X = np.hstack([clear, weak, noise])
groups = {"clear": range(3), "weak": range(3, 6), "noise": range(6, 12)}

# %%
kernels = [(list(columns), "rbf") for columns in groups.values()]
model = MultipleKernelMarginClustering(2, kernels=kernels, random_state=0).fit(X)
print(f"adjusted Rand index {adjusted_rand_score(truth, model.labels_):.2f}")
for name, weight in zip(groups, model.kernel_weights_.values()):
    print(f"{name:6} {weight:.2f}")

# %%
plot_kernel_weights(model)
