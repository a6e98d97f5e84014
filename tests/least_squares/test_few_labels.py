"""Classes of which a few labels are known."""

import numpy as np
import pytest
from scipy import sparse
from scipy.special import softmax
from sklearn.datasets import load_digits, make_blobs, make_moons
from sklearn.metrics.pairwise import linear_kernel, rbf_kernel

from maxmargin import MaxMarginClustering, PairwiseConstraints
from maxmargin.least_squares import _few_labels
from maxmargin.least_squares._label_models import (
    CLUSTERS,
    GRAPH,
    PSEUDO,
    RIDGES,
    TEMPERATURES,
    _mixtures,
)


def some_known(y, count, seed=0):
    """Labels of a few random rows, at least one of each class."""
    rows = np.random.default_rng(seed).permutation(len(y))
    first = np.unique(y[rows], return_index=True)[1]
    known = np.full(len(y), -1)
    for part in (rows[:count], rows[first]):
        known[part] = y[part]
    return known


def first_of_classes(y, count, classes):
    """The labels of so many rows of each of these classes."""
    known = np.full(len(y), -1)
    for c in classes:
        known[np.flatnonzero(y == c)[:count]] = c
    return known


def centred(S):
    S = S - S.mean(axis=0) - S.mean(axis=1, keepdims=True) + S.mean()
    return S / np.diag(S).mean()


def graph(points, smoothness, count):
    """The inverse of I + s L, literally."""
    D = ((points[:, None] - points[None]) ** 2).sum(axis=2)
    np.fill_diagonal(D, np.inf)
    A = np.zeros_like(D)
    A[np.arange(len(D))[:, None], np.argsort(D, axis=1, kind="stable")[:, :count]] = 1
    A = np.maximum(A, A.T)
    roots = np.sqrt(A.sum(axis=1))
    L = np.eye(len(A)) - A / np.outer(roots, roots)
    return np.linalg.inv(np.eye(len(A)) + smoothness * L)


def test_probabilities_are_those_of_the_formulas(monkeypatch):
    """Similarities, mixtures, leave-one-out by leaving out, and weights, each written out."""
    X, y = make_blobs([25, 20, 15], 3, cluster_std=3.0, random_state=0)
    known = some_known(y, 7)
    clusterings = []
    plain = _few_labels._without_labels

    def noted(*args):
        found, first = plain(*args)
        clusterings.extend(found)
        return found, first

    monkeypatch.setattr(_few_labels, "_without_labels", noted)
    model = MaxMarginClustering(3, random_state=0).fit(X, partial_labels=known)
    fmap = model.feature_map_
    Z = (X - X.mean(axis=0)) @ fmap.metric.axes
    gammas = [fmap.maps[i].kernels[0].params["gamma"] for i in (0, 1)]
    kernels = [rbf_kernel(X, gamma=gammas[0] * f) for f in (1, 4, 0.25)] + [linear_kernel(X)]
    kernels += [rbf_kernel(Z, gamma=gammas[1]), linear_kernel(Z)]
    count = fmap.maps[0].n_neighbors
    graphs = [graph(X, 10, count), graph(X, 100, count), graph(Z, 10, count)]
    place = np.argsort(model.fitted_indices_)
    common = [np.equal.outer(c[place], c[place]).astype(float) for c in clusterings]
    families = [[centred(S) for S in part] for part in (kernels, graphs, common)]
    means = [np.mean(part, axis=0) for part in families]
    every = np.mean([S for part in families for S in part], axis=0)
    mixtures = [
        (every, 1.0),
        (means[0], 0.0),
        (means[1] + 0.05 * means[0], 0.0),
        (means[2] + 0.1 * np.mean(families[0] + families[1], axis=0), 0.0),
        *((S, -2.0) for S in families[0]),
    ]
    L = np.flatnonzero(known >= 0)
    Y = np.eye(3)[y[L]]

    def share(counts, pseudo):
        if np.isinf(pseudo):
            return np.full(3, 1 / 3)
        return (counts + pseudo) / (counts + pseudo).sum()

    logs, everywhere = [], []
    for S, bonus in mixtures:
        for ridge in RIDGES:
            for pseudo in PSEUDO:

                def predicted(at, of, S=S, ridge=ridge, pseudo=pseudo):
                    m = share(np.eye(3)[y[of]].sum(axis=0), pseudo)
                    A = S[np.ix_(of, of)] + ridge * np.eye(len(of))
                    return S[np.ix_(at, of)] @ np.linalg.solve(A, np.eye(3)[y[of]] - m) + m

                loo = np.concatenate([predicted([i], np.setdiff1d(L, [i])) for i in L])
                likely = [(np.log(softmax(loo / t, axis=1)) * Y).sum() for t in TEMPERATURES]
                best = int(np.argmax(likely))
                own = (softmax(loo / TEMPERATURES[best], axis=1) * Y).sum(axis=1)
                logs.append((own, bonus))
                everywhere.append(softmax(predicted(np.arange(60), L) / TEMPERATURES[best], axis=1))
    p, prior = np.stack([own for own, _ in logs]), np.exp([bonus for _, bonus in logs])
    prior /= prior.sum()
    w = prior
    for _ in range(200):
        w = (w[:, None] * p / (w @ p)).sum(axis=1) + 3 * prior
        w /= w.sum()
    w[w <= 0.02 * w.max()] = 0
    expected = np.einsum("hic,h->ic", everywhere, w / w.sum())
    np.testing.assert_allclose(model.decision_function(X), expected, atol=1e-6)


def accuracy(model, y, known):
    return np.mean(model.labels_[known < 0] == y[known < 0])


def test_labels_help_and_more_of_them_help_more():
    X, y = load_digits(return_X_y=True)
    few = np.flatnonzero(np.isin(y, (1, 4, 8, 9)))[::2]
    X, y = X[few], np.array([0, 0, 1, 2])[np.searchsorted((1, 4, 8, 9), y[few])]
    found = []
    for count in (6, 30, 120):
        known = some_known(y, count)
        model = MaxMarginClustering(3, random_state=0).fit(X, partial_labels=known)
        found.append(accuracy(model, y, known))
    assert found[2] > 0.9 and found[0] < found[1] < found[2]


def test_wrong_labels_are_found_and_kept():
    X, y = make_moons(300, noise=0.1, random_state=0)
    known, wrong = some_known(y, 60), np.array([], int)
    rows = np.flatnonzero(known >= 0)
    wrong = np.random.default_rng(0).choice(rows, 5, replace=False)
    known[wrong] = 1 - known[wrong]
    model = MaxMarginClustering(2, random_state=0).fit(X, partial_labels=known)
    assert (model.labels_[rows] == known[rows]).all()
    doubted, proposed = model.label_mistakes_.T
    assert set(wrong) <= set(doubted) and len(doubted) <= 8
    assert (proposed == 1 - known[doubted]).all()
    assert accuracy(model, y, known) > 0.98


def test_all_labels_known():
    X, y = make_blobs(80, 3, cluster_std=2.0, random_state=1)
    model = MaxMarginClustering(random_state=0).fit(X, partial_labels=y)
    assert (model.labels_ == y).all() and model.n_clusters_ == 3
    assert np.mean(model.predict(X + 0.01) == y) > 0.9
    assert np.mean(model.leave_one_out_) > 0.9


def test_rows_in_any_form_have_the_same_probabilities():
    X, y = make_blobs([40, 30, 20], 4, cluster_std=3.0, random_state=2)
    known = some_known(y, 10)
    model = MaxMarginClustering(3, random_state=0).fit(X, partial_labels=known)
    P = model.decision_function(X)
    assert P.sum(axis=1) == pytest.approx(1.0) and P.min() > 0
    order = np.random.default_rng(0).permutation(len(X))
    for rows, labels in ((X[order], known[order]), (sparse.csr_array(X[order]), known[order])):
        other = MaxMarginClustering(3, random_state=0).fit(rows, partial_labels=labels)
        assert other.decision_function(X) == pytest.approx(P, abs=1e-8)
    threads = MaxMarginClustering(3, random_state=0, n_jobs=3).fit(X, partial_labels=known)
    assert (threads.decision_function(X) == P).all()


def test_text_kernel_matrices_and_rows_outside_the_fit():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 60)
    words = sparse.random_array((120, 400), density=0.02, rng=rng, format="csr")
    own = sparse.csr_array(
        (rng.random((120, 400)) < 0.06) * ((np.arange(400) // 200) == y[:, None])
    )
    text, known = sparse.csr_array(words + own), some_known(y, 8)
    model = MaxMarginClustering(2, random_state=0).fit(text, partial_labels=known)
    assert accuracy(model, y, known) > 0.9
    X, y = make_blobs([60, 60], 3, centers=[[0] * 3, [3] * 3], random_state=0)
    known = some_known(y, 6)
    K = rbf_kernel(X, gamma=0.1)
    model = MaxMarginClustering(2, kernel="precomputed", random_state=0).fit(
        K, partial_labels=known
    )
    assert (
        accuracy(model, y, known) > 0.95
        and (model.predict(K)[known < 0] == model.labels_[known < 0]).all()
    )
    part = MaxMarginClustering(2, max_samples=40, random_state=0).fit(X, partial_labels=known)
    assert accuracy(part, y, known) > 0.95 and len(part.fitted_indices_) == 40
    assert set(np.flatnonzero(known >= 0)) <= set(part.fitted_indices_)


def test_a_class_that_nobody_labelled():
    X, y = make_blobs([80, 80, 80], 3, cluster_std=0.8, random_state=0)
    known = np.where(some_known(y, 60) == 2, -1, some_known(y, 60))
    with pytest.warns(UserWarning, match="nobody has labelled"):
        model = MaxMarginClustering(random_state=0).fit(X, partial_labels=known)
    assert model.n_clusters_ == 2 and any("nobody has labelled" in told for told in model.report_)
    model = MaxMarginClustering(3, random_state=0).fit(X, partial_labels=known)  # the rest
    assert accuracy(model, y, known) > 0.99


@pytest.mark.parametrize("named", [(0, 1), (0,)])
def test_a_clear_cluster_of_which_finer_clusters_are_small(named):
    X, y = make_blobs(300, centers=3, cluster_std=0.4, random_state=0)
    model = MaxMarginClustering(n_resamples=0, random_state=0)
    with pytest.warns(UserWarning, match=r"33% of the rows .* nobody has labelled") as caught:
        model.fit(X, partial_labels=first_of_classes(y, 8, named))
    assert str(caught[0].message) in model.report_
    assert model.n_clusters_ == len(named)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("seed", range(4))
def test_classes_with_labels_are_not_told_as_missing(seed):
    """Also classes of two clusters."""
    X, y = make_blobs(200, 3, centers=2 + 2 * seed, cluster_std=0.5, random_state=8)
    model = MaxMarginClustering(n_resamples=0, random_state=0)
    for classes in (y, y % 2):
        model.fit(X, partial_labels=some_known(classes, 10, seed))


def test_links_together_with_labels():
    X, y = make_moons(200, noise=0.2, random_state=0)
    known = some_known(y, 6)
    plain = MaxMarginClustering(2, random_state=0).fit(X, partial_labels=known)
    assert accuracy(plain, y, known) < 0.95
    links = PairwiseConstraints.from_labels(y, n_pairs=150, random_state=0)
    model = MaxMarginClustering(2, random_state=0).fit(X, partial_labels=known, constraints=links)
    assert links.violations(model.labels_).n_links == 0
    assert (model.labels_[known >= 0] == y[known >= 0]).all()
    assert accuracy(model, y, known) > accuracy(plain, y, known)
    assert any("150 constraints were used; 0 violated" in told for told in model.report_)


@pytest.mark.parametrize("sizes", [(100, 100, 100), (120, 120, 60)])
@pytest.mark.parametrize("count", [4, 8, 20])
def test_clusters_without_labels_have_rows_however_many_labels_the_others_have(sizes, count):
    X, y = make_blobs(sizes, centers=None, cluster_std=0.4, random_state=0)
    known = first_of_classes(y, count, (0, 1))
    model = MaxMarginClustering(3, n_resamples=0, random_state=0).fit(X, partial_labels=known)
    assert (model.labels_ == y).all()


def test_a_rare_class_without_labels():
    """Asked for, it has rows; otherwise it does not spoil the others."""
    X, y = make_blobs([60, 60, 2], 3, cluster_std=3.0, random_state=0)
    known = np.where(some_known(y, 30) == 2, -1, some_known(y, 30))
    model = MaxMarginClustering(3, balance=0.3, random_state=0).fit(X, partial_labels=known)
    assert model.cluster_sizes_.min() >= int(0.3 * 122 / 3)
    two = MaxMarginClustering(2, random_state=0).fit(X, partial_labels=known)
    assert accuracy(two, y, known) > accuracy(model, y, known)
    assert not hasattr(two, "size_prior_")  # a classifier, not a search


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_mixtures_without_a_kernel():
    shares = [mixture for mixture, _ in _mixtures(np.array([GRAPH, GRAPH, CLUSTERS]))]
    np.testing.assert_allclose(shares, [[1 / 3] * 3, [0.5, 0.5, 0.0], [0.05, 0.05, 1.0]])


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("seed", range(4))
def test_rows_that_differ_by_rounding_only_have_no_kernel(seed):
    rng = np.random.default_rng(seed)
    X, known = 1.0 + 1e-15 * rng.normal(size=(40, 5)), np.arange(40) % 3
    weights = np.exp(rng.normal(0.0, 2.0, 40))
    model = MaxMarginClustering(3, kernel="cosine", random_state=0)
    model.fit(X, partial_labels=known, sample_weight=weights)
    np.testing.assert_array_equal(model.labels_, known)
    assert np.isfinite(model.decision_function(X)).all()
