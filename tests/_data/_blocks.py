"""Estimators on rows in memory, and what rows elsewhere are compared with."""

import warnings
from functools import cache

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import make_blobs

from maxmargin import (
    AlternatingMarginClustering,
    CuttingPlaneMarginClustering,
    LeastSquaresMarginClustering,
    MaxMarginClustering,
    MultipleKernelMarginClustering,
    PairwiseConstraints,
    PairwiseMarginClustering,
)
from maxmargin._data.blocks import RowBlocks

ESTIMATORS = {
    "cutting-plane": CuttingPlaneMarginClustering(4, kernel="linear", random_state=0),
    "cutting-plane-rbf": CuttingPlaneMarginClustering(
        3, kernel="rbf", n_components=10, random_state=0
    ),
    "multiple-kernel": MultipleKernelMarginClustering(
        2, kernels=["linear", "rbf"], n_components=8, random_state=0
    ),
    "squared": AlternatingMarginClustering(
        3, loss="squared", kernel="linear", n_init=2, random_state=0
    ),
    "laplacian": AlternatingMarginClustering(
        2, loss="laplacian", kernel="linear", n_init=2, solver_tol=0.1, random_state=0
    ),
    "pairwise": PairwiseMarginClustering(3, kernel="linear", n_init=2, alpha=0.01, random_state=0),
    "front-door": MaxMarginClustering(3, max_samples=400, n_resamples=2, random_state=0),
    "least-squares": LeastSquaresMarginClustering(3, max_samples=400, n_init=2, random_state=0),
}


@cache
def rows_in_memory():
    return make_blobs(20_000, n_features=6, centers=4, cluster_std=2.5, random_state=3)[0]


@cache
def fitted_in_memory(name):
    return fit(ESTIMATORS[name], rows_in_memory())


def fit(estimator, X):
    given = {}
    if isinstance(estimator, PairwiseMarginClustering):
        given["constraints"] = PairwiseConstraints(
            20_000, must_link=[(0, 4), (7, 9)], cannot_link=[(0, 7), (4, 10_001)]
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return clone(estimator).fit(X, **given)


def blocks_of(X, size):
    def read(i):
        return X[i * size : (i + 1) * size]

    sizes = [min(size, X.shape[0] - i) for i in range(0, X.shape[0], size)]
    return RowBlocks(read, sizes, X.shape[1], X.dtype, is_sparse=sparse.issparse(X))


def assert_same(a, b, exact=False):
    """Equal labels and coefficients to 1e-10, which holds on any storage, or equal bits."""
    np.testing.assert_array_equal(a.labels_, np.asarray(b.labels_))
    np.testing.assert_array_equal(a.cluster_sizes_, b.cluster_sizes_)
    np.testing.assert_array_equal(a.exemplar_indices_, b.exemplar_indices_)
    if exact:
        np.testing.assert_array_equal(a.coef_, b.coef_)
    np.testing.assert_allclose(a.coef_, b.coef_, rtol=0, atol=1e-10 * np.abs(a.coef_).max())
    np.testing.assert_allclose(a.intercept_, b.intercept_, rtol=0, atol=1e-9)


def with_nan(X, row):
    X = X.copy()
    X[row, 2] = np.nan
    return X
