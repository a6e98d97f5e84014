"""k-means with links, as the paper compares with."""

from itertools import product

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.datasets import load_iris, make_blobs
from sklearn.utils.estimator_checks import parametrize_with_checks

from maxmargin import PairwiseConstraints
from maxmargin.metrics import adjusted_rand_score, clustering_accuracy
from reproduction.baselines import DCA, MPCKMeans, PCKMeans, discriminative_scatters


@parametrize_with_checks([PCKMeans(n_init=1), MPCKMeans(n_init=1), DCA()])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def pck_objective(X, labels, links, penalty):
    """Literal: squared distances to the means plus what broken links cost."""
    spread = ((X - X.mean(axis=0)) ** 2).sum(axis=1).mean()
    total = sum(
        ((X[labels == c] - X[labels == c].mean(axis=0)) ** 2).sum() for c in np.unique(labels)
    )
    broken = links.violations(labels)
    return total + penalty * spread * (broken.must_weight.sum() + broken.cannot_weight.sum())


def test_pckmeans_objective_and_brute_force():
    rng = np.random.default_rng(0)
    for seed in range(4):
        X = rng.normal(size=(9, 2))
        links = PairwiseConstraints.from_labels(rng.integers(0, 2, 9), n_pairs=8, random_state=seed)
        model = PCKMeans(2, n_init=20, penalty=0.5, random_state=0).fit(X, constraints=links)
        assert model.objective_ == pytest.approx(pck_objective(X, model.labels_, links, 0.5))
        best = min(
            pck_objective(X, np.array(labels), links, 0.5)
            for labels in product((0, 1), repeat=9)
            if len(set(labels)) == 2
        )
        assert best - 1e-9 <= model.objective_ <= 1.2 * best


def test_pckmeans_without_links_is_kmeans():
    X, _ = make_blobs(150, centers=3, cluster_std=1.5, random_state=0)
    ours = PCKMeans(3, n_init=10, random_state=0).fit(X)
    theirs = KMeans(3, n_init=10, random_state=0).fit(X)
    assert ours.objective_ == pytest.approx(theirs.inertia_, rel=1e-3)
    assert adjusted_rand_score(ours.labels_, theirs.labels_) > 0.95
    assert (ours.predict(X) == ours.labels_).all()


def test_a_high_penalty_keeps_all_links():
    X, y = make_blobs(80, centers=2, cluster_std=6.0, random_state=0)
    links = PairwiseConstraints.from_labels(y, n_pairs=40, random_state=0)
    model = PCKMeans(2, penalty=1e3, random_state=0).fit(X, constraints=links)
    assert model.violated_links_.n_links == 0
    free = PCKMeans(2, penalty=0.0, random_state=0).fit(X, constraints=links)
    assert free.violated_links_.n_links > 0


def test_mpckmeans_learns_which_column_matters():
    gains = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        y = np.repeat([0, 1], 60)
        X = np.column_stack([y + 0.2 * rng.normal(size=120), 2.0 * rng.normal(size=120)])
        links = PairwiseConstraints.from_labels(y, n_pairs=120, random_state=0)
        metric = MPCKMeans(2, random_state=0).fit(X, constraints=links)
        plain = PCKMeans(2, random_state=0).fit(X, constraints=links)
        assert (metric.metrics_[:, 0] > 5 * metric.metrics_[:, 1]).all()
        gains.append(clustering_accuracy(y, metric.labels_) - clustering_accuracy(y, plain.labels_))
    assert np.mean(gains) > 0.1


def test_mpckmeans_metric_against_the_formula():
    rng = np.random.default_rng(0)
    X, labels = rng.normal(size=(40, 3)), rng.integers(0, 2, 40)
    links = PairwiseConstraints.from_labels(rng.integers(0, 2, 40), n_pairs=30, random_state=0)
    centres = np.array([X[labels == h].mean(axis=0) for h in (0, 1)])
    found = MPCKMeans(2, penalty=0.3)._metrics(
        X, links.links(), labels, centres, np.ones((2, 3)), 1.0
    )
    far = X[((X - X.mean(axis=0)) ** 2).sum(axis=1).argmax()]
    farther = X[((X - far) ** 2).sum(axis=1).argmax()]
    for h in (0, 1):
        total = ((X[labels == h] - centres[h]) ** 2).sum(axis=0)
        for a, b in links.must_link:
            if labels[a] != labels[b]:
                total = total + 0.5 * 0.3 * (X[a] - X[b]) ** 2
        for a, b in links.cannot_link:
            if labels[a] == labels[b] == h:
                total = total + 0.3 * ((far - farther) ** 2 - (X[a] - X[b]) ** 2)
        assert found[h] == pytest.approx((labels == h).sum() / total)


def test_dca_against_the_formulas():
    X, y = load_iris(return_X_y=True)
    links = PairwiseConstraints.from_labels(y, n_pairs=60, random_state=0)
    groups, apart = links.closure()
    means = np.array([X[groups == g].mean(axis=0) for g in range(groups.max() + 1)])
    between = sum(np.outer(means[a] - means[b], means[a] - means[b]) for a, b in apart) / len(apart)
    rows = [i for i in range(150) if (groups == groups[i]).sum() > 1]
    within = sum(np.outer(X[i] - means[groups[i]], X[i] - means[groups[i]]) for i in rows)
    found = discriminative_scatters(X, links)
    assert found[0] == pytest.approx(between)
    assert found[1] == pytest.approx(within / len(rows))
    model = DCA(shrinkage=0.0).fit(X, constraints=links)
    A = model.components_
    # What is linked together is white in the new coordinates.
    assert A @ found[1] @ A.T == pytest.approx(np.eye(len(A)), abs=1e-8)
    spread = np.diag(A @ found[0] @ A.T)
    assert (np.diff(spread) <= 1e-8).all()
    kmeans = KMeans(3, n_init=10, random_state=0)
    better = clustering_accuracy(
        y, kmeans.fit(DCA().fit(X, constraints=links).transform(X)).labels_
    )
    assert better > clustering_accuracy(y, kmeans.fit(X).labels_)


@pytest.mark.parametrize("make", [PCKMeans, MPCKMeans, DCA])
def test_bad_constraints_are_named(make):
    X = np.random.default_rng(0).normal(size=(20, 2))
    with pytest.raises(ValueError, match="constraints are about 5 rows, but X has 20 rows"):
        make().fit(X, constraints=PairwiseConstraints(5))
    with pytest.raises(ValueError, match="constraints must be a PairwiseConstraints, got list"):
        make().fit(X, constraints=[(0, 1)])
