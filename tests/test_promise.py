"""No fit has a higher objective than the k-means partition or the initial labels it was given."""

import warnings

import clarabel
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.cluster import KMeans
from sklearn.datasets import load_wine, make_blobs
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.metrics import adjusted_rand_score
from sklearn.preprocessing import StandardScaler

from maxmargin import (
    AlternatingMarginClustering,
    BisectingMarginClustering,
    CuttingPlaneMarginClustering,
    LeastSquaresMarginClustering,
    MaxMarginClustering,
    MultipleKernelMarginClustering,
    PairwiseConstraints,
    PairwiseMarginClustering,
    SemidefiniteMarginClustering,
)
from maxmargin._core.init import named

from ._solvers import solve_with_clarabel


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
    "bisecting": BisectingMarginClustering(random_state=0),
    "bisecting by cutting planes": BisectingMarginClustering(
        estimator=CuttingPlaneMarginClustering(), random_state=0
    ),
    "bisecting by least squares": BisectingMarginClustering(
        estimator=LeastSquaresMarginClustering(), random_state=0
    ),
    "pairwise": PairwiseMarginClustering(random_state=0),
    "semidefinite": SemidefiniteMarginClustering(random_state=0),
    "semidefinite, without a floor": SemidefiniteMarginClustering(balance=0.0, random_state=0),
    "semidefinite, full": SemidefiniteMarginClustering(relaxation="full", tol=1e-4, random_state=0),
}


@pytest.mark.parametrize("name", CASES)
@settings(max_examples=4)
@given(seed=st.integers(0, 10**6), k=st.integers(2, 4), n=st.integers(20, 60))
def test_no_fit_is_above_the_kmeans_partition(name, seed, k, n):
    X = rows(seed, n, k)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = CASES[name].set_params(n_clusters=k).fit(X)
    assert kept(model.objective_, model.compared_with_kmeans_["objective"])
    assert -1 <= model.compared_with_kmeans_["ari"] <= 1


def held_objective(Z, labels, k, alpha):
    """Equation (6) of the paper on pairs, without links and with the labels held, by clarabel."""
    n, r = Z.shape
    others = [(i, z) for i in range(n) for z in range(k) if z != labels[i]]
    A = np.zeros((2 * len(others), k * r + len(others)))
    for at, (i, z) in enumerate(others):
        A[at, r * labels[i] : r * (labels[i] + 1)] = -Z[i]
        A[at, r * z : r * (z + 1)] = Z[i]
        A[at, k * r + at] = A[len(others) + at, k * r + at] = -1.0
    P = np.zeros((A.shape[1], A.shape[1]))
    P[: k * r, : k * r] = alpha * np.eye(k * r)
    q = np.r_[np.zeros(k * r), np.full(len(others), 1 / (n * k))]
    b = np.r_[np.full(len(others), -1.0), np.zeros(len(others))]
    cones = [clarabel.NonnegativeConeT(len(b))]
    return solve_with_clarabel(P, q, A, b, cones)[1] + 1 / k


@settings(max_examples=6)
@given(seed=st.integers(0, 10**6), k=st.integers(2, 3), n=st.integers(20, 30))
def test_pairwise_is_not_above_the_initial_labels(seed, k, n):
    X = rows(seed, n, k)
    rng = np.random.default_rng(seed)
    means = KMeans(k, n_init=3, random_state=seed).fit_predict(X)
    for init in (means, np.r_[np.arange(k), rng.integers(k, size=n - k)]):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            model = PairwiseMarginClustering(
                k, kernel="linear", alpha=0.03, balance=0.0, init=init, random_state=0
            ).fit(X)
        Z = (X - X.mean(axis=0)) * model.feature_scale_
        assert kept(model.objective_, held_objective(Z, init, k, 0.03))


@pytest.mark.parametrize("seed", range(2))
def test_links_change_nothing_about_it(seed):
    X, rng = rows(seed, 60, 3), np.random.default_rng(seed)
    classes = KMeans(3, n_init=3, random_state=0).fit_predict(X[:, :2])
    links = PairwiseConstraints.from_labels(classes, n_pairs=20, random_state=seed)
    for init in ("auto", rng.integers(3, size=60)):
        model = PairwiseMarginClustering(3, alpha=0.01, init=init, random_state=0)
        model.fit(X, constraints=links)
        assert kept(model.objective_, model.compared_with_kmeans_["objective"])
    front = MaxMarginClustering(3, random_state=0).fit(X, constraints=links)
    assert kept(front.objective_, front.compared_with_kmeans_["objective"])


def test_the_tree_of_the_kmeans_clusters_is_a_candidate():
    """Splits that cost least one by one cut a class of wine in two: ARI .63, k-means .90."""
    X, y = load_wine(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    model = BisectingMarginClustering(3, random_state=0).fit(X)
    assert adjusted_rand_score(y, model.labels_) > 0.85
    shares = [1.0, model.splits_[1].cluster_sizes_.sum() / len(X)]
    losses = [split.objective_ for split in model.splits_]
    assert model.objective_ == pytest.approx(np.dot(shares, losses))
    for split_by in ("scatter", "size"):
        other = BisectingMarginClustering(3, split_by=split_by, random_state=0).fit(X)
        assert kept(other.objective_, other.compared_with_kmeans_["objective"])


@pytest.mark.parametrize(
    "estimator",
    [
        AlternatingMarginClustering(3),
        CuttingPlaneMarginClustering(3),
        MultipleKernelMarginClustering(3),
        LeastSquaresMarginClustering(3),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_known_labels_do_no_harm(estimator):
    """The clusters found without labels, renumbered by them, have no lower objective."""
    for seed in (0, 4):
        X, y = make_blobs([30, 30, 30], 2, cluster_std=1.5, random_state=seed)
        given = np.random.default_rng(seed).permutation(90)[:5]
        known = np.full(90, -1)
        known[given] = y[given]
        estimator.set_params(random_state=seed)
        renumbered = named(estimator.fit(X).labels_, known, np.ones(90), 3)
        # With all labels known, the objective is that of these labels.
        rival = estimator.fit(X, partial_labels=renumbered).objective_
        model = estimator.fit(X, partial_labels=known)
        assert model.objective_ <= rival * (1 + 1e-4)
        assert (model.labels_[given] == y[given]).all()


@pytest.mark.parametrize(
    ("estimator", "seed", "n_words", "length"),
    [
        (CuttingPlaneMarginClustering, 1, 2000, 25),
        (MultipleKernelMarginClustering, 0, 3000, 20),
        (AlternatingMarginClustering, 0, 3000, 20),
    ],
)
def test_two_topics_do_not_end_as_one_cluster(estimator, seed, n_words, length):
    """All rows in one cluster had a lower objective than any partition of such rows."""
    rng, own = np.random.default_rng(seed), n_words // 10
    y, words = np.arange(1000) % 2, rng.permutation(n_words)
    shares = np.tile(1.0 / np.arange(1, n_words + 1), (2, 1))
    for topic in (0, 1):
        shares[topic, words[own * topic : own * (topic + 1)]] *= 8 if length == 20 else 6
    shares /= shares.sum(axis=1, keepdims=True)
    counts = np.stack([rng.multinomial(length, shares[topic]) for topic in y])
    X = TfidfTransformer(sublinear_tf=True).fit_transform(sparse.csr_matrix(counts))
    model = estimator(2, random_state=0).fit(X)
    assert model.size_entropy_ == pytest.approx(1 / np.log(2))
    assert adjusted_rand_score(y, model.labels_) > 0.8
    blobs, _ = make_blobs(100, centers=2, random_state=0)
    assert estimator(2, random_state=0).fit(blobs).size_entropy_ == 0.3
