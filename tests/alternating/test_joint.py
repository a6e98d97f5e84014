"""Joint clusters of the alternating method: objective, promise, sizes, settings."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.cluster import KMeans
from sklearn.datasets import make_blobs, make_moons
from sklearn.metrics import adjusted_rand_score

from maxmargin import AlternatingMarginClustering
from maxmargin._core.features import centred_rows
from maxmargin._core.rows import Rows
from maxmargin._core.size_floor import row_losses
from maxmargin.alternating._joint import Joint, Task

LOSSES = ("laplacian", "hinge", "squared")


def task(k, loss="laplacian", **changed):
    plain = dict(k=k, loss=loss, epsilon=0.05 if loss == "laplacian" else 0.0, alpha=0.05)
    plain |= dict(entropy=0.3, floor=0.0, gap=1e-7, max_iter=100, watch=lambda objective: None)
    return Task(**{**plain, **changed})


def problem(X, k, loss="laplacian", weights=None, **changed):
    weights = np.ones(len(X)) if weights is None else weights
    rows = centred_rows(Rows(np.asarray(X, float)), weights)[0]
    return Joint(rows, weights, np.full(len(X), -1), task(k, loss, **changed))


def written_objective(Z, weights, labels, coef, bias, given):
    """F as the docstring of the module writes it."""
    share, total = weights / weights.sum(), 0.0
    for h in range(given.k):
        signs = np.where(labels == h, 1, -1)
        loss = row_losses(signs, Z @ coef[h] + bias[h], given.loss, given.epsilon)
        total += 0.5 * (given.alpha * coef[h] @ coef[h] + share @ loss)
    pi = np.array([share[labels == h].sum() for h in range(given.k)])
    return total + given.entropy * sum(p * np.log(given.k * p) for p in pi if p > 0)


@pytest.mark.parametrize("loss", LOSSES)
def test_objective_is_what_the_docstring_says(loss):
    rng = np.random.default_rng(0)
    X, weights = rng.normal(size=(40, 3)), rng.random(40) + 0.5
    joint = problem(X, 3, loss, weights)
    state = joint.solve(rng.integers(0, 3, 40), 1e-7)
    Z = joint.rows.values()
    args = Z, weights, state.labels, state.coef, state.bias, joint.task
    assert state.objective == pytest.approx(written_objective(*args), rel=1e-9)
    found = joint.relabelled(state)
    args = Z, weights, found.labels, found.coef, found.bias, joint.task
    assert found.objective == pytest.approx(written_objective(*args), rel=1e-9)
    assert (found.labels == (Z @ found.coef.T + found.bias + found.prices).argmax(axis=1)).all()


@pytest.mark.parametrize("loss", LOSSES)
def test_the_regressions_of_held_labels_are_the_best(loss):
    """No nearby model is better, and the lower bound is below."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(30, 2))
    joint = problem(X, 3, loss)
    labels = np.arange(30) % 3
    state, Z = joint.solve(labels, 1e-7), joint.rows.values()
    assert state.bound <= state.objective <= state.bound * (1 + 1e-5) + 1e-12
    for scale in (1e-3, 0.1, 1.0):
        coef = state.coef + scale * rng.normal(size=state.coef.shape)
        bias = state.bias + scale * rng.normal(size=3)
        other = written_objective(Z, joint.weights, labels, coef, bias, joint.task)
        assert other >= state.objective * (1 - 1e-6)


def test_small_problems_equal_exhaustive_search():
    rng, hits = np.random.default_rng(7), 0
    for case in range(4):
        X = rng.normal(size=(7, 2)) + 2.0 * rng.integers(0, 3, size=(7, 1))
        joint = problem(X, 3, "squared", entropy=0.3)
        every = [np.array(y) for y in itertools.product(range(3), repeat=7) if len(set(y)) == 3]
        best = min(joint.solve(labels, 1e-6).objective for labels in every)
        model = AlternatingMarginClustering(
            3, loss="squared", kernel="linear", alpha=0.05, size_entropy=0.3, random_state=case
        ).fit(X)
        assert model.objective_ >= best * (1 - 1e-6)
        hits += model.objective_ <= best * 1.02
    assert hits >= 3


@settings(max_examples=15)
@given(st.integers(0, 10_000), st.integers(2, 5), st.sampled_from(LOSSES), st.booleans())
def test_no_worse_than_k_means_nor_than_given_labels(seed, k, loss, blobs):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 3))
    X = X + 4.0 * rng.normal(size=(k, 3))[rng.integers(0, k, 60)] if blobs else X
    start = rng.permutation(np.arange(60) % k)
    for init in ("auto", start):
        model = AlternatingMarginClustering(
            k, loss=loss, multi_class="joint", init=init, random_state=seed
        ).fit(X)
        assert model.objective_ <= model.compared_with_kmeans_["objective"] * (1 + 1e-3)
        assert (np.diff(model.history_) <= 1e-3 * np.abs(model.history_[:-1])).all()
    fmap = model.feature_map_
    joint = Joint(
        Rows(fmap.values(X)), np.ones(60), np.full(60, -1),
        task(k, loss, alpha=model.alpha_, epsilon=model.epsilon if loss == "laplacian" else 0.0),
    )  # fmt: skip
    assert model.objective_ <= joint.solve(start, 1e-3).objective * (1 + 1e-3)


@pytest.mark.parametrize("seed", range(3))
def test_separated_blobs_are_found(seed):
    X, y = make_blobs(400, centers=4 + seed, n_features=5, cluster_std=0.7, random_state=seed)
    if adjusted_rand_score(y, KMeans(4 + seed, n_init=10, random_state=0).fit_predict(X)) == 1.0:
        model = AlternatingMarginClustering(4 + seed, random_state=0).fit(X)
        assert adjusted_rand_score(y, model.labels_) > 0.99


def test_two_moons():
    X, y = make_moons(400, noise=0.06, random_state=0)
    model = AlternatingMarginClustering(random_state=0).fit(X)
    assert adjusted_rand_score(y, model.labels_) > 0.95
    assert model.coef_.shape[0] == 2


def test_floor_known_labels_and_weights():
    X = make_blobs([100, 30, 20], n_features=3, random_state=2)[0]
    known = np.full(150, -1)
    known[[0, 60, 120]] = [1, 2, 0]
    weights = np.random.default_rng(0).random(150)
    model = AlternatingMarginClustering(3, balance=0.8, multi_class="joint", random_state=0)
    model.fit(X, partial_labels=known, sample_weight=weights)
    assert model.labels_[[0, 60, 120]].tolist() == [1, 2, 0]
    assert model.cluster_sizes_.min() >= 0.8 * weights.sum() / 3 * (1 - 1e-6)


def test_the_papers_settings_for_two_clusters_mean_the_paper():
    X = make_blobs(60, centers=2, n_features=2, random_state=0)[0]
    for setting in ({"balance": 0.9}, {"alpha": 0.1}, {"anneal": False}, {"bias": "midpoint"}):
        assert AlternatingMarginClustering(**setting).fit(X).coef_.shape[0] == 1
    assert AlternatingMarginClustering(multi_class="recursive").fit(X).coef_.shape[0] == 1


@pytest.mark.parametrize("setting", [{"anneal": True}, {"bias": "midpoint"}, {"init": "spectral"}])
def test_settings_of_splits_are_refused_for_joint_clusters(setting):
    with pytest.raises(ValueError, match=r"is for two-way splits.*multi_class='recursive'"):
        AlternatingMarginClustering(3, **setting).fit(np.eye(10))
