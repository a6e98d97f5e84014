"""Constraints in the search over labels, and in MaxMarginClustering."""

import warnings
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.datasets import make_blobs, make_moons
from sklearn.metrics import adjusted_rand_score
from sklearn.metrics.pairwise import rbf_kernel

from maxmargin import MaxMarginClustering, PairwiseConstraints
from maxmargin._core.links import Links, settled_groups
from maxmargin.least_squares._label_search import (
    SHAKES,
    Found,
    Labelling,
    LabelProblem,
    SearchSettings,
    search_labels,
)
from maxmargin.least_squares._links import (
    grouped,
    predicts_more,
    repaired,
    search_with_links,
    voted,
)
from maxmargin.least_squares._settings import Settings
from maxmargin.least_squares._similarity import similarity_of
from maxmargin.metrics import clustering_accuracy


def label_problem(X, k, links=None, weights=None, known=None, p=0.75):
    n = len(X)
    weights = np.ones(n) if weights is None else weights
    known = np.full(n, -1, np.int32) if known is None else known
    similarity = similarity_of(rbf_kernel(X), 1.0, weights, 1.0, True)
    targets = np.full(k, weights.sum() / k)
    groups = None if links is None else settled_groups(links, known).part(np.arange(n))
    return LabelProblem(similarity, k, targets, 0.0, known, p, groups)


def search_settings(seed=0, kicks=6):
    rng = np.random.default_rng(seed)
    return SearchSettings(Settings(2, ("rbf",)), kicks, rng, lambda _: None, 1)


def random_links(rng, n, count, k=None):
    """Random pairs: of hidden classes if k is given, so that k clusters satisfy them."""
    pairs = np.array([rng.choice(n, 2, replace=False) for _ in range(count)])
    same = rng.random(count) < 0.4
    if k is not None:
        classes = rng.integers(k, size=n)
        same = classes[pairs[:, 0]] == classes[pairs[:, 1]]
    return Links(pairs[:, 0], pairs[:, 1], same, np.ones(count))


@settings(max_examples=15)
@given(st.integers(0, 10**6), st.integers(2, 4), st.integers(4, 7), st.integers(1, 12))
def test_links_hold_if_any_labels_satisfy_them(seed, k, n, count):
    rng = np.random.default_rng(seed)
    links = random_links(rng, n, count)
    every = np.array(list(product(range(k), repeat=n)))
    together = every[:, links.first] == every[:, links.second]
    possible = (together == links.same).all(axis=1).any()
    problem = label_problem(rng.normal(size=(n, 2)), k, links)
    labels = rng.integers(k, size=n).astype(np.int32)
    found = search_labels(problem, [(labels, 0)], search_settings())
    linked = search_with_links(problem, found, search_settings())[0].labels
    assert links.satisfied(linked).all() == possible


@settings(max_examples=12)
@given(st.integers(0, 10**6), st.integers(2, 3))
def test_the_linked_search_finds_the_best_labels_of_few_rows(seed, k):
    """The largest J_p over all labels that satisfy the links, by brute force."""
    rng, n = np.random.default_rng(seed), 7
    X, weights = rng.normal(size=(n, 2)), rng.integers(1, 4, size=n).astype(float)
    problem = label_problem(X, k, random_links(rng, n, 4, k), weights)
    small, links = grouped(problem, problem.links), problem.links.links()

    def value(labels):
        return Labelling(problem, labels).value()

    allowed = [np.array(c) for c in product(range(k), repeat=n)]
    allowed = [c for c in allowed if links.satisfied(c).all() and len(np.unique(c)) == k]
    start = voted(problem, problem.links, allowed[0])
    starts = [(start, 21), *((rng.integers(k, size=len(start)).astype(np.int32), 0) for _ in "abc")]
    found = search_labels(small, starts, search_settings(kicks=20))
    assert found.value == pytest.approx(value(found.labels[problem.links.of_row]))
    assert found.value == pytest.approx(max(map(value, allowed)))


@settings(max_examples=12)
@given(st.integers(0, 10**6), st.booleans())
def test_swapped_chains_keep_the_caches_and_never_violate_more(seed, repair):
    rng, n, k = np.random.default_rng(seed), 30, 3
    problem = label_problem(rng.normal(size=(n, 2)), k, random_links(rng, n, 25))
    small, links = grouped(problem, problem.links), problem.links.links()
    arrays = Labelling(small, rng.integers(k, size=len(small.known)).astype(np.int32))
    for _ in range(50):
        before = arrays.value(), (~links.satisfied(arrays.labels[problem.links.of_row])).sum()
        swaps = small.joint_moves(arrays, repair)
        again = Labelling(small, arrays.labels)
        np.testing.assert_allclose(arrays.caches, again.caches, atol=1e-9)
        np.testing.assert_allclose(arrays.sizes, again.sizes)
        after = arrays.value(), (~links.satisfied(arrays.labels[problem.links.of_row])).sum()
        assert (after[1], -after[0]) <= (before[1], -before[0])
        if not swaps:
            break
    assert swaps == 0


def test_repair_changes_no_more_than_it_must():
    X, y = make_blobs(40, centers=[[0, 0], [9, 9]], cluster_std=0.5, random_state=0)
    a, b = np.flatnonzero(y == 0)[:2], np.flatnonzero(y == 1)[:2]
    links = Links(np.r_[a[0], a[0]], np.r_[a[1], b[0]], np.array([True, False]), np.ones(2))
    wrong = y.astype(np.int32)
    wrong[b[0]] = 0
    problem = label_problem(X, 2, links)
    groups = problem.links
    labels = repaired(grouped(problem, groups), voted(problem, groups, wrong))
    assert (labels[groups.of_row] == y).all()


def test_other_labels_are_taken_only_if_links_say_so():
    """Four blobs in two halves, left and right or top and bottom: one link does not tell."""
    X, y = make_blobs(80, centers=[[0, 0], [0, 5], [5, 0], [5, 5]], cluster_std=0.3, random_state=0)
    sides, other = (y >= 2).astype(np.int32), (y % 2).astype(np.int32)
    for count, truth in ((1, sides), (40, other)):
        links = PairwiseConstraints.from_labels(truth, n_pairs=count, random_state=0).links()
        problem = label_problem(X, 2, links)
        groups = problem.links
        ours, theirs = (voted(problem, groups, labels) for labels in (sides, other))
        of_rows = theirs[groups.of_row], ours[groups.of_row]
        assert predicts_more(problem, *of_rows) == (truth is other)
        value = Labelling(problem, sides).value()
        start = Found(sides, value, [0.0], others=[Found(other, value - 1e-3, [0.0])])
        found, *_ = search_with_links(problem, start, search_settings())
        assert adjusted_rand_score(found.labels, truth) == 1.0


def test_the_same_labels_found_again_do_not_count_as_others():
    """Objectives of the same labels differ in the last bit if the searches went other ways."""
    for seed in (1, 2, 10, 11):
        centers = [[0, 0], [6, 6], [0, 6]]
        X, y = make_blobs(60, centers=centers, cluster_std=0.6, random_state=seed)
        links = PairwiseConstraints.from_labels(y, n_pairs=6, random_state=0).links()
        problem, rng = label_problem(X, 3, links), np.random.default_rng(0)
        starts = [(rng.integers(3, size=60).astype(np.int32), 0) for _ in range(6)]
        starts.insert(0, (y.astype(np.int32), SHAKES))
        start = search_labels(problem, starts, search_settings())
        found, _, others = search_with_links(problem, start, search_settings())
        assert adjusted_rand_score(found.labels, start.labels) == 1.0
        assert not others


def test_known_labels_and_heavier_links_prevail():
    known = np.array([0, -1, 1, -1, 0])
    rows = np.array([[0, 1], [1, 2], [2, 3], [3, 4]])
    links = Links(*rows.T, np.array([True, True, True, True]), np.array([2.0, 1.0, 1.0, 3.0]))
    groups = settled_groups(links, known)
    assert groups.of_row[0] == groups.of_row[1] != groups.of_row[2]
    assert groups.of_row[3] == groups.of_row[4] != groups.of_row[2]
    assert groups.spread(known).tolist() == [0, 0, 1, 0, 0]
    # Row 1 may not join row 2 of class 1 if it is apart from row 3, which is of class 1, too.
    apart = Links(np.array([1, 1]), np.array([3, 2]), np.array([False, True]), np.array([2.0, 1.0]))
    assert len(np.unique(settled_groups(apart, np.array([0, -1, 1, 1])).of_row)) == 4


# -- MaxMarginClustering ---------------------------------------------------------------------------


def clouds(n=90, seed=0, std=1.0):
    return make_blobs(n, centers=[[0, 0], [6, 0], [0, 6]], cluster_std=std, random_state=seed)


def fitted(X, links, k=3, **params):
    return MaxMarginClustering(k, n_resamples=0, random_state=0, **params).fit(X, constraints=links)


@pytest.mark.parametrize("kind", ["must", "cannot"])
def test_one_true_link_changes_nothing(kind):
    for X, y in (clouds(), make_moons(200, noise=0.06, random_state=0)):
        k = len(np.unique(y))
        pair = (0, np.flatnonzero((y == y[0]) == (kind == "must"))[-1])
        plain = MaxMarginClustering(k, n_resamples=0, random_state=0).fit_predict(X)
        links = PairwiseConstraints(len(X), **{f"{kind}_link": [pair]})
        model = fitted(X, links, k)
        assert adjusted_rand_score(plain, y) > 0.95
        assert (model.labels_ == plain).all()
        assert "1 constraint was used; 0 violated." in model.report_


def test_a_violated_link_changes_hardly_any_other_row():
    """Overlapping clusters: another metric would lead to others."""
    X, _ = make_blobs(700, 8, centers=6, cluster_std=5.0, random_state=2)
    model = MaxMarginClustering(6, n_resamples=0, random_state=0).fit(X)
    plain, sure = model.labels_, np.argsort(-model.decision_function(X).max(axis=1))
    for row in sure[[0, 50, 100]]:
        other = sure[plain[sure] != plain[row]][3]
        linked = PairwiseConstraints(len(X), must_link=[(row, other)])
        labels = fitted(X, linked, 6).labels_
        assert labels[row] == labels[other]
        assert adjusted_rand_score(labels, plain) > 0.98


def test_tied_votes_go_to_the_cluster_that_fits_better():
    X, y = make_blobs(60, centers=[[0, 0], [9, 0], [0, 9]], random_state=0)
    wrong = y.astype(np.int32)
    row = np.flatnonzero(y == 2)[0]
    wrong[row] = 0
    links = Links(np.array([row]), np.flatnonzero(y == 2)[1:2], np.array([True]), np.ones(1))
    problem = label_problem(X, 3, links)
    assert (voted(problem, problem.links, wrong)[problem.links.of_row] == y).all()


def test_false_links_hold_and_only_their_rows_differ_from_predictions():
    X, y = clouds()
    a, b, c = (np.flatnonzero(y == h)[0] for h in range(3))
    links = PairwiseConstraints(
        90, must_link=[(a, b)], cannot_link=[(c, np.flatnonzero(y == 2)[1])]
    )
    model = fitted(X, links)
    assert links.accuracy(model.labels_) == 1.0
    different = np.flatnonzero(model.predict(X) != model.labels_)
    assert len(different) and set(different) <= set(links.links().rows())


def test_the_heavier_of_two_contradictory_links_holds():
    X, y = clouds()
    a, b = np.flatnonzero(y == 0)[:2]
    for heavy in ("must", "cannot"):
        weight = {f"{kind}_weight": 3.0 if kind == heavy else 1.0 for kind in ("must", "cannot")}
        links = PairwiseConstraints(90, [(a, b)], [(b, a)], **weight)
        with pytest.warns(UserWarning, match="contradict each other: the cannot-link between row"):
            model = fitted(X, links)
        assert (model.labels_[a] == model.labels_[b]) == (heavy == "must")
        assert "2 constraints were used; 1 violated." in model.report_


def test_three_rows_apart_in_two_clusters_violate_the_lightest_link():
    X, y = make_blobs(40, centers=[[0, 0], [9, 0]], random_state=0)
    a, b, c = np.flatnonzero(y == 0)[:3]
    for light in range(3):
        weights = np.where(np.arange(3) == light, 1.0, 5.0)
        pairs = np.array([(a, b), (b, c), (a, c)])
        links = PairwiseConstraints(40, cannot_link=pairs, cannot_weight=weights)
        with pytest.warns(UserWarning, match="n_clusters=2 is too few"):
            labels = fitted(X, links, 2).labels_
        assert links.violations(labels).cannot_link.tolist() == [pairs[light].tolist()]


def test_sparse_rows_and_order_do_not_matter():
    X, y = clouds(std=2.0)
    links = PairwiseConstraints.from_labels(y, n_pairs=30, random_state=1)
    labels = fitted(X, links).labels_
    assert (fitted(sparse.csr_matrix(X), links).labels_ == labels).all()
    order = np.random.default_rng(0).permutation(90)
    assert adjusted_rand_score(fitted(X[order], links[order]).labels_, labels[order]) == 1.0


def test_linked_rows_are_in_the_sample():
    X, y = clouds(300, std=2.0)
    links = PairwiseConstraints.from_labels(y, n_pairs=20, random_state=0)
    model = fitted(X, links, max_samples=80)
    assert len(model.fitted_indices_) == 80
    assert np.isin(links.links().rows(), model.fitted_indices_).all()
    assert links.accuracy(model.labels_) == 1.0
    plain = MaxMarginClustering(3, n_resamples=0, random_state=0, max_samples=80).fit(X)
    replaced = np.setdiff1d(model.fitted_indices_, plain.fitted_indices_)
    assert len(replaced) and np.isin(replaced, links.links().rows()).all()
    few = fitted(X, links, max_samples=20)  # not all linked rows fit
    assert len(few.labels_) == 300 and len(few.fitted_indices_) == 20


def test_known_labels_with_links():
    X, y = clouds(std=2.0)
    known = np.where(np.arange(90) < 6, y, -1)
    row = np.flatnonzero(y == y[0])[-1]
    other = np.flatnonzero((y != y[0]) & (known < 0))[0]
    links = PairwiseConstraints(90, must_link=[(0, row)], cannot_link=[(row, other)])
    model = MaxMarginClustering(3, n_resamples=0, random_state=0)
    model.fit(X, constraints=links, partial_labels=known)
    assert model.labels_[row] == y[0] != model.labels_[other]
    assert (model.labels_[:6] == y[:6]).all()


def test_all_parameters_work_with_constraints():
    X, y = clouds(60)
    links = PairwiseConstraints.from_labels(y, n_pairs=10, random_state=0)
    model = MaxMarginClustering(3, size_prior=1.0, spreads=False, time_budget=0.2, n_resamples=3)
    model.set_params(random_state=0).fit(X, constraints=links)
    assert model.confidence_.shape == (60,) and model.stability_ > 0.9
    assert model.confidence(X[:5]).shape == (5,)
    one = MaxMarginClustering(1, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        report = one.fit(X, constraints=links).report_
    assert f"10 constraints were used; {len(links.cannot_link)} violated." in report


def test_links_between_rows_of_a_cluster_of_machines():
    da = pytest.importorskip("dask.array")
    X, y = clouds(10_100, std=2.0)
    links = PairwiseConstraints.from_labels(y, n_pairs=40, random_state=0)
    model = fitted(da.from_array(X, chunks=(5000, 2)), links, max_samples=120)
    assert links.accuracy(model.labels_.compute()) == 1.0


def test_a_few_wrong_links_are_doubted():
    X, y = make_blobs([40, 25, 15], 3, cluster_std=2.0, random_state=1)
    right = PairwiseConstraints.from_labels(y, n_pairs=120, random_state=0).links()
    wrong = np.arange(len(right)) % 20 == 0
    pairs, same = np.stack([right.first, right.second], axis=1), right.same ^ wrong
    links = PairwiseConstraints(len(y), pairs[same], pairs[~same])
    with pytest.warns(UserWarning, match="contradict each other"):
        model = MaxMarginClustering(3, n_resamples=0, random_state=0).fit(X, constraints=links)
    assert clustering_accuracy(y, model.labels_) > 0.95  # 0.96 without links, 0.65 with all of them
    doubted = model.doubtful_constraints_
    assert doubted.violations(y).n_links >= 5  # of six
    assert doubted.n_links <= 12
    assert any("were not used" in sentence for sentence in model.report_)
    kept = PairwiseConstraints(len(y), pairs[same & ~wrong], pairs[~same & ~wrong])
    model.fit(X, constraints=kept)
    assert model.doubtful_constraints_.n_links == 0
    assert kept.violations(model.labels_).n_links == 0


def test_cannot_links_raise_the_number_of_clusters():
    X = np.random.default_rng(0).normal(size=(60, 2))
    rows = np.argsort(X[:, 0])[[0, 30, 59]]
    links = PairwiseConstraints(60, cannot_link=[rows[[0, 1]], rows[[1, 2]], rows[[0, 2]]])
    model = MaxMarginClustering(n_resamples=0, random_state=0).fit(X, constraints=links)
    assert model.n_clusters_ == 3
    assert any("Cannot-links need 3 clusters" in sentence for sentence in model.report_)


def test_clusters_that_links_have_divided_are_not_called_connected():
    rng = np.random.default_rng(0)
    place = np.repeat([0, 1, 2], [600, 590, 10])
    X = rng.normal(size=(1200, 2)) + np.array([0.0, 12.0, -12.0])[place, None]
    meant = np.where(place == 1, 1, np.where((place == 0) & (X[:, 1] > 0), 2, 0))
    few = np.repeat(np.flatnonzero(place == 2), 6)
    pairs = np.concatenate([rng.integers(0, 1200, (400, 2)), np.c_[few, rng.integers(0, 600, 60)]])
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    same = meant[pairs[:, 0]] == meant[pairs[:, 1]]
    links = PairwiseConstraints(1200, must_link=pairs[same], cannot_link=pairs[~same])
    model = MaxMarginClustering(3, n_resamples=0, random_state=0)
    assert "connected groups" in " ".join(model.fit(X).report_)
    told = " ".join(model.fit(X, constraints=links).report_)
    assert adjusted_rand_score(meant, model.labels_) > 0.9
    assert "connected groups" not in told and "mixture" not in told
