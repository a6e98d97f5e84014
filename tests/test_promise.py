"""No fit has a higher objective than the k-means partition or the initial labels it was given."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maxmargin import (
    LeastSquaresMarginClustering,
    MaxMarginClustering,
    SemidefiniteMarginClustering,
)


def rows(seed, n, k):
    """Clouds that overlap more or less."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X + rng.normal(size=(k, 3))[rng.integers(k, size=n)] * rng.uniform(0, 4)


def kept(objective, rival):
    """Whether the promise is kept; the tempered objective of least squares is negative."""
    return objective <= rival + 1e-3 * abs(rival)


CASES = {
    "least squares": LeastSquaresMarginClustering(random_state=0),
    "least squares, equal sizes": LeastSquaresMarginClustering(balance=1.0, random_state=0),
    "front door": MaxMarginClustering(spreads=False, n_resamples=0, random_state=0),
    "front door, balanced": MaxMarginClustering(
        spreads=False, n_resamples=0, balance=0.9, random_state=0
    ),
    "semidefinite": SemidefiniteMarginClustering(random_state=0),
    "semidefinite, without a floor": SemidefiniteMarginClustering(balance=0.0, random_state=0),
    "semidefinite, full": SemidefiniteMarginClustering(relaxation="full", tol=1e-4, random_state=0),
}


@pytest.mark.parametrize("name", CASES)
@settings(max_examples=15)
@given(seed=st.integers(0, 10**6), k=st.integers(2, 4), n=st.integers(20, 60))
def test_no_fit_is_above_the_kmeans_partition(name, seed, k, n):
    X = rows(seed, n, k)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = CASES[name].set_params(n_clusters=k).fit(X)
    assert kept(model.objective_, model.compared_with_kmeans_["objective"])
    assert -1 <= model.compared_with_kmeans_["ari"] <= 1
