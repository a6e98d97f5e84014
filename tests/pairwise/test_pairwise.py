"""Clustering with links: losses and solvers against literal formulas, and what a fit promises."""

import pickle
from dataclasses import replace
from functools import partial
from itertools import product

import clarabel
import numpy as np
import pytest
from scipy import sparse
from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import load_digits, make_blobs
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, KFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from maxmargin import PairwiseConstraints, PairwiseMarginClustering
from maxmargin._core.links import Links
from maxmargin._core.rows import Rows, weighted_sum
from maxmargin.constraints import ContradictionError
from maxmargin.metrics import clustering_accuracy
from maxmargin.pairwise import _search
from maxmargin.pairwise._problem import (
    ball_radius,
    pair_problem,
    solve_bundle,
    solve_subgradient,
)
from maxmargin.pairwise._search import eigenvector_axes
from maxmargin.persistence import load_model, save_model


def random_problem(k=3, n=14, d=4, L=9, alpha=0.1, seed=0, hu=False, known=True):
    rng = np.random.default_rng(seed)
    pairs = np.array([rng.choice(n - 4, 2, replace=False) for _ in range(L)])
    links = Links(*pairs.T, rng.random(L) < 0.5, rng.random(L) + 0.5)
    classes = np.full(n, -1)
    if known:
        classes[-3:] = rng.integers(0, k, 3)
    free = rng.random(n)
    free[links.rows()] = 0.0
    return pair_problem(
        Rows(rng.normal(size=(n, d))),
        rng.random(n),
        k,
        alpha,
        links,
        classes,
        free,
        unlabeled_weight=0.7,
        hu=hu,
    )


# -- literal transcriptions of the paper ----------------------------------------------------------


def literal_link_loss(S, a, b, same, fixed=None):
    """(7): over all pairs of clusters."""
    k = S.shape[1]
    scores = {(y, z): S[a, y] + S[b, z] for y, z in product(range(k), repeat=2)}
    kept = max(v for (y, z), v in scores.items() if (y == z) == same)
    kept = kept if fixed is None else scores[tuple(fixed)]
    broken = max(v for (y, z), v in scores.items() if (y == z) != same)
    return max(0.0, 1.0 - (kept - broken))


def literal_hu_loss(S, a, b, same):
    """(2), (3)."""
    if same:
        return np.abs(S[a] - S[b]).mean()
    both = S[a] + S[b]
    return both.max() - both.mean()


def penalty(p, W):
    return 0.5 * p.alpha * (W**2).sum()


def literal_risk(p, S, at=None):
    """(6), or (21) where ``at`` fixes the clusters."""
    total = 0.0
    for j, (a, b, same, w) in enumerate(
        zip(p.links.first, p.links.second, p.links.same, p.links.weights)
    ):
        if p.hu:
            total += w * literal_hu_loss(S, a, b, same)
        else:
            total += w * literal_link_loss(S, a, b, same, None if at is None else at.desired[j])
    for i, c, w in zip(p.known_rows, p.known, p.known_weights):
        total += w * max(0.0, 1.0 - (S[i, c] - max(np.delete(S[i], c))))
    for i, w in enumerate(p.free_weights):
        own = S[i].max() if at is None else S[i, at.labels[i]]
        total += w * sum(max(0.0, 1.0 - (own - S[i, z])) for z in range(p.k))
    return total


@pytest.mark.parametrize("hu", [False, True])
@pytest.mark.parametrize("k", [2, 3, 5])
def test_losses_equal_brute_force(k, hu):
    for seed in range(4):
        p = random_problem(k, seed=seed, hu=hu)
        rng = np.random.default_rng(seed + 50)
        W = rng.normal(size=(k, 4))
        S, elsewhere = p.scores(W), p.scores(rng.normal(size=(k, 4)))
        assert p.objective(W, S, p.linearise(S)) == pytest.approx(
            0.05 * (W**2).sum() + literal_risk(p, S), abs=1e-12
        )
        at = p.linearise(elsewhere)
        assert p.risk(S, at)[0] == pytest.approx(literal_risk(p, S, at), abs=1e-12)


def test_terms_are_weighed_as_in_the_paper():
    p = random_problem(k=3, known=False)
    assert p.links.weights.sum() == pytest.approx(1.0)
    assert p.free_weights.sum() == pytest.approx(0.7 / 3)
    hu = random_problem(k=3, hu=True, known=False)
    for kind in (True, False):
        assert hu.links.weights[hu.links.same == kind].sum() == pytest.approx(1.0)
    zero = np.zeros((14, 3))
    assert p.at_zero() == pytest.approx(literal_risk(p, zero))
    assert hu.at_zero() == pytest.approx(literal_risk(hu, zero))


@pytest.mark.parametrize("hu", [False, True])
@pytest.mark.parametrize("k", [2, 4])
def test_linearised_risk_lies_above_and_touches(k, hu):
    p = random_problem(k, hu=hu)
    rng = np.random.default_rng(3)
    S = p.scores(rng.normal(size=(k, 4)))
    at = p.linearise(S)
    assert p.risk(S, at)[0] == pytest.approx(literal_risk(p, S), abs=1e-12)
    for _ in range(20):
        other = p.scores(2.0 * rng.normal(size=(k, 4)))
        assert p.risk(other, at)[0] >= literal_risk(p, other) - 1e-12


@pytest.mark.parametrize("hu", [False, True])
@pytest.mark.parametrize("k", [2, 3, 5])
def test_subgradients_equal_central_differences(k, hu):
    p = random_problem(k, hu=hu)
    rng = np.random.default_rng(1)
    for scale in (0.2, 1.0, 3.0):
        W = scale * rng.normal(size=(k, 4))
        at = p.linearise(p.scores(rng.normal(size=(k, 4))))
        gradient = weighted_sum(p.rows, p.risk(p.scores(W), at)[1])
        for i, j in product(range(k), range(4)):
            step = np.zeros_like(W)
            step[i, j] = 1e-6
            up, down = (p.risk(p.scores(W + s * step), at)[0] for s in (1, -1))
            assert gradient[i, j] == pytest.approx((up - down) / 2e-6, abs=1e-8)


def interior_point(p, at):
    """(17) as a quadratic program with a slack for each loss, by another solver."""
    k, (n, d) = p.k, p.rows.shape
    Z = p.rows.values()

    def phi(i, z):
        out = np.zeros((k, d))
        out[z] = Z[i]
        return out.ravel()

    rows, weights = [], []
    for j, (a, b, same) in enumerate(zip(p.links.first, p.links.second, p.links.same)):
        y, z = at.desired[j]
        wrong = [(s, t) for s, t in product(range(k), repeat=2) if (s == t) != same]
        rows.append([phi(a, y) + phi(b, z) - phi(a, s) - phi(b, t) for s, t in wrong])
        weights.append(p.links.weights[j])
    for i, c, w in zip(p.known_rows, p.known, p.known_weights):
        rows.append([phi(i, c) - phi(i, z) for z in range(k) if z != c])
        weights.append(w)
    for i in range(n):
        for z in range(k):
            rows.append([phi(i, at.labels[i]) - phi(i, z)])
            weights.append(p.free_weights[i])
    m, size = len(rows), k * d
    A = [np.concatenate([-r, -np.eye(m)[j]]) for j, group in enumerate(rows) for r in group]
    A += [np.concatenate([np.zeros(size), -np.eye(m)[j]]) for j in range(m)]
    b = np.concatenate([np.full(len(A) - m, -1.0), np.zeros(m)])
    P = sparse.csc_matrix(np.diag(np.concatenate([np.full(size, p.alpha), np.zeros(m)])))
    q = np.concatenate([np.zeros(size), weights])
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    cone = [clarabel.NonnegativeConeT(len(b))]
    solver = clarabel.DefaultSolver(P, q, sparse.csc_matrix(np.array(A)), b, cone, settings)
    return solver.solve().obj_val


@pytest.mark.parametrize("alpha", [1e-3, 0.1, 1.0])
@pytest.mark.parametrize("k", [2, 3])
def test_bundle_finds_the_optimum_of_the_convex_problem(k, alpha):
    p = random_problem(k, alpha=alpha)
    W = np.random.default_rng(5).normal(size=(k, 4))
    at = p.linearise(p.scores(W))
    best = interior_point(p, at)
    found = solve_bundle(p, at, W, p.scores(W), tol=1e-7)
    assert found.converged
    assert found.value == pytest.approx(best, rel=1e-6)
    assert found.bound <= best + 1e-7
    assert found.value == pytest.approx(penalty(p, found.coef) + literal_risk(p, found.scores, at))
    assert found.scores == pytest.approx(p.scores(found.coef))


def test_the_bound_is_below_every_objective_seen():
    rng = np.random.default_rng(0)
    for seed in range(5):
        p = random_problem(3, n=40, L=25, alpha=0.02, seed=seed)
        at = p.linearise(p.scores(rng.normal(size=(3, 4))))
        zero = np.zeros((3, 4))
        bounds = []
        for tol in (0.5, 0.1, 1e-2, 1e-4):
            found = solve_bundle(p, at, zero, p.scores(zero), tol=tol)
            bounds.append(found.bound)
            assert found.value - found.bound <= tol * (p.at_zero() - found.value) + 1e-9
        assert (np.diff(bounds) >= -1e-12).all()
        points = [s * rng.normal(size=(3, 4)) for s in (0.1, 1.0, 3.0) for _ in range(30)]
        points += [found.coef, solve_subgradient(p, at, rng).coef]
        seen = [penalty(p, W) + p.risk(p.scores(W), at)[0] for W in points]
        assert max(bounds) <= min(seen) + 1e-12


@pytest.mark.parametrize("alpha", [0.1, 1.0])
def test_both_solvers_agree(alpha):
    for seed in range(3):
        p = random_problem(3, n=60, L=40, alpha=alpha, seed=seed)
        W = np.random.default_rng(seed).normal(size=(3, 4))
        at = p.linearise(p.scores(W))
        bundle = solve_bundle(p, at, W, p.scores(W), tol=1e-4)
        paper = solve_subgradient(p, at, np.random.default_rng(0), tol=1e-4)
        assert paper.value == pytest.approx(bundle.value, rel=1e-3)
        assert np.linalg.norm(bundle.coef) <= ball_radius(p)


def test_bundle_needs_an_eighth_of_the_passes():
    X, y = (a[::3] for a in load_digits(return_X_y=True))
    links = PairwiseConstraints.from_labels(y % 2, n_pairs=200, random_state=0)
    common = dict(kernel="linear", alpha=1e-3, random_state=0, init="eigenvector", n_init=1)
    bundle = PairwiseMarginClustering(2, **common).fit(X, constraints=links)
    paper = PairwiseMarginClustering(2, solver="subgradient", **common).fit(X, constraints=links)
    assert bundle.objective_ <= paper.objective_
    assert 8 * bundle.n_passes_ <= paper.n_passes_


# -- Algorithm 1 to the letter --------------------------------------------------------------------


def literal_algorithm(X, links, k, lam, delta0, rng):
    """Algorithms 1 and 2 in plain loops; tolerances .01, step index from 1."""
    linked = set(links.first) | set(links.second)
    free = [i for i in range(len(X)) if i not in linked]
    pairs = list(zip(links.first, links.second, links.same))
    W = eigenvector_axes(X, links, k, 1e-8)
    history, t = [], 0
    while True:
        delta = 0.0 if t < 3 else delta0
        S = X @ W.T
        y = S.argmax(axis=1)
        z = []
        for a, b, same in pairs:
            options = [(s, t) for s, t in product(range(k), repeat=2) if (s == t) == same]
            z.append(max(options, key=lambda o: S[a, o[0]] + S[b, o[1]]))

        def subgradient(W, y=y, z=z, delta=delta):
            S, G, value = X @ W.T, lam * W, 0.5 * lam * (W**2).sum()
            for (a, b, same), (z1, z2) in zip(pairs, z):
                options = [(s, t) for s, t in product(range(k), repeat=2) if (s == t) != same]
                s1, s2 = max(options, key=lambda o: S[a, o[0]] + S[b, o[1]])
                loss = 1.0 - (S[a, z1] + S[b, z2] - S[a, s1] - S[b, s2])
                if loss > 0:
                    value += loss / len(pairs)
                    for sign, i, c in ((1, a, s1), (1, b, s2), (-1, a, z1), (-1, b, z2)):
                        G[c] += sign * X[i] / len(pairs)
            for i in free:
                for c in range(k):
                    loss = 1.0 - (S[i, y[i]] - S[i, c])
                    if loss > 0:
                        value += delta * loss / (len(free) * k)
                        G[c] += delta * X[i] / (len(free) * k)
                        G[y[i]] -= delta * X[i] / (len(free) * k)
            return G, value

        rho = np.sqrt((1.0 + delta) / lam)
        W = rng.normal(size=(k, X.shape[1]))
        W *= rho * rng.random() / np.linalg.norm(W)
        r = 1
        while True:
            new = W - subgradient(W)[0] / (lam * r)
            new *= min(1.0, rho / np.linalg.norm(new))
            moved = np.linalg.norm(W - new) / max(np.linalg.norm(W), np.linalg.norm(new))
            W, r = new, r + 1
            if moved <= 0.01:
                break
        history.append(subgradient(W)[1])
        t += 1
        if t >= 5 and abs(history[-2] - history[-1]) / history[-2] <= 0.01:
            return W, t


@pytest.mark.parametrize("seed", [0, 1])
def test_algorithm_1_to_the_letter(seed):
    X, truth = make_blobs([14, 13, 13], n_features=3, cluster_std=3.0, random_state=seed)
    X = X - X.mean(axis=0)
    X /= np.sqrt((X**2).sum(axis=1).mean())
    links = PairwiseConstraints.from_labels(truth, n_pairs=18, random_state=seed)
    model = PairwiseMarginClustering(
        3, kernel="linear", alpha=0.1, init="eigenvector", n_init=1, solver="subgradient",
        random_state=seed,
    ).fit(X, constraints=links)  # fmt: skip
    W, steps = literal_algorithm(X, links.links(), 3, 0.1, 1.0, model._generator())
    assert model.n_iter_ == steps - 3
    order = np.argsort(-np.bincount((X @ W.T).argmax(axis=1), minlength=3), kind="stable")
    assert model.coef_ == pytest.approx(W[order], abs=1e-6)


# -- what a fit promises --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def odd_even():
    X, y = load_digits(return_X_y=True)
    return X[:600], y[:600] % 2


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_links_say_which_clusters_are_meant(odd_even, kernel):
    X, y = odd_even
    links = PairwiseConstraints.from_labels(y, n_pairs=300, random_state=0)
    model = PairwiseMarginClustering(2, kernel=kernel, random_state=0).fit(X, constraints=links)
    alone = PairwiseMarginClustering(2, kernel=kernel, random_state=0)
    with pytest.warns(UserWarning, match="No constraints and no partial_labels"):
        alone.fit(X)
    reached = clustering_accuracy(y, model.labels_)
    assert reached > (0.85 if kernel == "linear" else 0.93)
    assert reached > clustering_accuracy(y, alone.labels_) + 0.02
    assert model.violated_links_ == links.violations(model.labels_)
    assert model.score(X, constraints=links) == links.accuracy(model.labels_)
    best = model.cv_results_["alpha"][model.cv_results_["link_accuracy"].argmax()]
    assert model.alpha_ == best


def test_held_out_links_are_kept(odd_even):
    X, y = odd_even
    links = PairwiseConstraints.from_labels(y, n_pairs=400, random_state=0)
    shown = np.arange(400) % 2 == 0
    model = PairwiseMarginClustering(2, random_state=0).fit(X, constraints=links.take(shown))
    assert links.take(~shown).accuracy(model.labels_) > 0.85


def test_weights_decide_between_disagreeing_links():
    X, y = make_blobs([30, 30], centers=[[-3, 0], [3, 0]], random_state=0)
    apart = [(int(a), int(b)) for a, b in zip(np.flatnonzero(y == 0)[:8], np.flatnonzero(y == 1))]
    for heavy, kept in ((5.0, 0.2), (0.2, 5.0)):
        links = PairwiseConstraints(60, apart, apart, must_weight=heavy, cannot_weight=kept)
        model = PairwiseMarginClustering(2, alpha=0.01, on_conflict="soft", random_state=0)
        labels = model.fit(X, constraints=links).labels_
        broken = model.violated_links_
        same = np.mean([labels[a] == labels[b] for a, b in apart])
        assert same == (1.0 if heavy > kept else 0.0)
        assert len(broken.must_link) == (0 if heavy > kept else 8)


def test_contradictions_raise_unless_soft(odd_even):
    X, _ = odd_even
    links = PairwiseConstraints(600, [(0, 1), (1, 2)], [(2, 0), (5, 6)])
    with pytest.raises(ContradictionError, match=r"row 2 - row 1 - row 0.*on_conflict='soft'"):
        PairwiseMarginClustering(2).fit(X, constraints=links)
    PairwiseMarginClustering(2, on_conflict="soft", alpha=0.1, n_init=2).fit(X, constraints=links)
    triangle = PairwiseConstraints(600, [], [(3, 4), (4, 9), (9, 3)])
    with pytest.raises(ValueError, match=r"n_clusters=2 is too few.*row 3 - row 4 - row 9"):
        PairwiseMarginClustering(2).fit(X, constraints=triangle)
    PairwiseMarginClustering(3, alpha=0.1, n_init=2).fit(X, constraints=triangle)
    with pytest.raises(ValueError, match="class 0 - row 0 - row 1 - row 2 - class 1"):
        known = np.full(600, -1)
        known[0], known[2] = 0, 1
        must = PairwiseConstraints(600, [(0, 1), (1, 2)])
        PairwiseMarginClustering(2).fit(X, constraints=must, partial_labels=known)


def test_bad_constraints_are_named(odd_even):
    X, _ = odd_even
    with pytest.raises(ValueError, match="constraints are about 5 rows, but X has 600 rows"):
        PairwiseMarginClustering(2).fit(X, constraints=PairwiseConstraints(5, [(0, 1)]))
    with pytest.raises(ValueError, match="constraints must be a PairwiseConstraints, got list"):
        PairwiseMarginClustering(2).fit(X, constraints=[(0, 1)])


def test_known_labels_passed_as_y_are_told(blobs):
    X = blobs[0]
    links = PairwiseConstraints(len(X), must_link=[(0, 1)])
    model = PairwiseMarginClustering(2, alpha=0.01, random_state=0)
    with pytest.warns(UserWarning, match="as partial_labels") as told:
        model.fit(X, np.where(np.arange(len(X)) < 3, 0, -1), constraints=links)
    assert told[0].filename == __file__
    with pytest.raises(ValueError, match="whole number, got True"):
        model.set_params(n_clusters=True).fit(X, constraints=links)


@pytest.mark.parametrize("k", [2, 3])
def test_must_links_alone_do_not_collapse(blobs, k):
    X, y = blobs
    links = PairwiseConstraints.from_labels(y, n_pairs=60, random_state=0)
    links = PairwiseConstraints(len(X), links.must_link)
    model = PairwiseMarginClustering(k, random_state=0, balance=0.6).fit(X, constraints=links)
    assert model.cluster_sizes_.min() >= int(0.6 * len(X) / k)
    assert (model.predict(X) == model.labels_).all()
    assert links.accuracy(model.labels_) > 0.9


def test_known_classes_name_the_clusters(odd_even):
    X, y = odd_even
    known = np.full(600, -1)
    known[:120] = 1 - y[:120]
    model = PairwiseMarginClustering(2, random_state=0).fit(X, partial_labels=known)
    assert np.mean(model.predict(X[120:]) == 1 - y[120:]) > 0.9
    links = PairwiseConstraints.from_labels(y, n_pairs=150, random_state=0)
    both = clone(model).fit(X, partial_labels=known, constraints=links)
    assert np.mean(both.predict(X[120:]) == 1 - y[120:]) > 0.9
    assert both.alpha_ in both.cv_results_["alpha"]


def test_known_classes_are_classified_not_only_parted():
    """Three classes, each known at one row, and nothing else: all three names are right."""
    X, y = make_blobs([20, 20, 20], cluster_std=0.5, random_state=1)
    known = np.full(60, -1)
    for name, c in ((0, 2), (1, 0), (2, 1)):
        known[np.flatnonzero(y == c)[0]] = name
    model = PairwiseMarginClustering(3, kernel="linear", alpha=0.01, random_state=0)
    labels = model.fit(X, partial_labels=known).labels_
    assert (labels == np.array([1, 2, 0])[y]).all()


def test_equal_rows_with_links_count_once_each():
    """Rows that are merged keep their links; one of two equal rows may have none."""
    X, y = make_blobs([25, 25], centers=[[-2, 0], [2, 0]], random_state=2)
    twice, y2 = np.concatenate([X, X]), np.concatenate([y, y])
    links = PairwiseConstraints.from_labels(y2, n_pairs=40, random_state=0)
    params = dict(kernel="linear", alpha=0.01, random_state=0)
    merged = PairwiseMarginClustering(2, **params).fit(twice, constraints=links)
    # Tiny noise keeps the rows apart: the same problem without merging.
    noisy = twice + 1e-9 * np.random.default_rng(0).normal(size=twice.shape)
    plain = PairwiseMarginClustering(2, **params).fit(noisy, constraints=links)
    assert merged.objective_ == pytest.approx(plain.objective_, rel=2e-2)
    assert (merged.labels_ == plain.labels_).all()
    Z = (twice - twice.mean(axis=0)) * merged.feature_scale_
    W = merged.coef_ / merged.feature_scale_
    free = np.ones(100)
    free[links.links().rows()] = 0
    nothing, ones = np.full(100, -1), np.ones(100)
    p = pair_problem(Rows(Z), ones, 2, 0.01, links.links(), nothing, free)
    assert merged.objective_ == pytest.approx(
        penalty(p, W) + literal_risk(p, p.scores(W)), rel=1e-9
    )


def test_rows_of_weight_zero_lose_their_links():
    X, y = make_blobs([25, 25], centers=[[-2, 0], [2, 0]], random_state=2)
    links = PairwiseConstraints.from_labels(y, n_pairs=40, random_state=0)
    weights = (np.arange(50) % 5 > 0).astype(float)
    kept = np.flatnonzero(weights)
    params = dict(alpha=0.01, random_state=0)
    a = PairwiseMarginClustering(2, **params).fit(X, constraints=links, sample_weight=weights)
    b = PairwiseMarginClustering(2, **params).fit(X[kept], constraints=links[kept])
    assert (a.predict(X) == b.predict(X)).all()
    assert a.objective_ == pytest.approx(b.objective_, rel=1e-9)


def test_threads_change_no_bit_with_links():
    X, y = make_blobs(20_000, n_features=4, centers=3, cluster_std=4.0, random_state=0)
    links = PairwiseConstraints.from_labels(y, n_pairs=100, random_state=0)
    params = dict(alpha=0.01, n_components=8, n_init=2, random_state=0)
    a = PairwiseMarginClustering(3, n_jobs=1, **params).fit(X, constraints=links)
    b = PairwiseMarginClustering(3, n_jobs=3, **params).fit(X, constraints=links)
    assert (a.coef_ == b.coef_).all() and (a.labels_ == b.labels_).all()


@pytest.mark.invariance
def test_sparse_rows_give_the_same(odd_even):
    X, y = odd_even
    links = PairwiseConstraints.from_labels(y, n_pairs=100, random_state=0)
    params = dict(kernel="linear", alpha=0.01, random_state=0)
    a = PairwiseMarginClustering(2, **params).fit(X, constraints=links)
    b = PairwiseMarginClustering(2, **params).fit(sparse.csr_matrix(X), constraints=links)
    assert (a.labels_ == b.labels_).all()
    assert a.coef_ == pytest.approx(b.coef_, abs=1e-8)


def test_hu_keeps_its_own_objective(odd_even):
    X, y = odd_even
    links = PairwiseConstraints.from_labels(y, n_pairs=100, random_state=0)
    model = PairwiseMarginClustering(2, kernel="linear", loss="hu", alpha=0.1, random_state=0)
    model.fit(X, constraints=links)
    Z = (X - X.mean(axis=0)) * model.feature_scale_
    W = model.coef_ / model.feature_scale_
    nothing, ones = np.full(600, -1), np.ones(600)
    p = pair_problem(Rows(Z), ones, 2, 0.1, links.links(), nothing, ones, hu=True)
    assert model.objective_ == pytest.approx(penalty(p, W) + literal_risk(p, p.scores(W)), rel=1e-9)


def test_init_and_warm_start(odd_even):
    X, y = odd_even
    links = PairwiseConstraints.from_labels(y, n_pairs=50, random_state=0)
    params = dict(alpha=0.003, random_state=0)
    given = PairwiseMarginClustering(2, init=y, **params).fit(X, constraints=links)
    assert clustering_accuracy(y, given.labels_) > 0.9
    with pytest.raises(ValueError, match="init must have one label for each of the 600 rows"):
        PairwiseMarginClustering(2, init=[0, 1], **params).fit(X, constraints=links)
    warm = PairwiseMarginClustering(2, warm_start=True, **params).fit(X, constraints=links)
    first = warm.labels_
    more = PairwiseConstraints.from_labels(y, n_pairs=60, random_state=1)
    assert clustering_accuracy(first, warm.fit(X, constraints=more).labels_) > 0.95


@pytest.mark.filterwarnings("ignore:PairwiseMarginClustering stopped after max_iter")
def test_descents_that_are_only_compared_stop_early(odd_even, monkeypatch):
    """However small ``tol`` is, only the last descent goes on."""
    X, y = (a[:150] for a in odd_even)
    links = PairwiseConstraints.from_labels(y, n_pairs=12, random_state=0)
    steps = []

    def counted(*given, **options):
        steps.append(1)
        return solve_bundle(*given, **options)

    monkeypatch.setattr(_search, "solve_bundle", counted)
    counts = []
    for tol in (0.01, 1e-160):
        steps.clear()
        model = PairwiseMarginClustering(2, tol=tol, random_state=0).fit(X, constraints=links)
        counts.append(len(steps) - model.n_iter_)
    assert counts[0] == counts[1]


def test_a_solver_that_does_not_converge_is_said(odd_even, monkeypatch):
    X, y = odd_even
    links = PairwiseConstraints.from_labels(y, n_pairs=50, random_state=0)
    monkeypatch.setattr(
        "maxmargin.pairwise._search.solve_bundle", partial(solve_bundle, max_passes=2)
    )
    model = PairwiseMarginClustering(2, alpha=1e-3, n_init=1, random_state=0)
    with pytest.warns(ConvergenceWarning, match="did not reach solver_tol=0.01"):
        model.fit(X, constraints=links)


# -- links travel with their rows -----------------------------------------------------------------


class Witness(PairwiseMarginClustering):
    """Refuses links that contradict the class written in the last column of X."""

    def fit(self, X, y=None, *, constraints=None, partial_labels=None, sample_weight=None):
        classes = np.round(np.asarray(X)[:, -1] / np.abs(np.asarray(X)[:, -1]).max())
        assert constraints is not None and constraints.n_links > 0
        assert len(constraints) == len(X)
        assert constraints.accuracy(classes) == 1.0, "links point at the wrong rows"
        return super().fit(X, constraints=constraints)


@pytest.fixture(scope="module")
def witnessed():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 90)
    X = np.column_stack([rng.normal(size=(90, 3)) + y[:, None], np.where(y, 5.0, -5.0)])
    # As many pairs as rows: plain arrays of pairs would be cut like rows.
    return X, PairwiseConstraints.from_labels(y, n_pairs=90, random_state=0)


def model(cls=Witness):
    made = cls(2, kernel="linear", alpha=0.1, n_init=2, random_state=0)
    return made.set_fit_request(constraints=True).set_score_request(constraints=True)


SPLIT = KFold(3, shuffle=True, random_state=0)


def test_links_survive_a_grid_search(witnessed):
    X, links = witnessed
    with config_context(enable_metadata_routing=True):
        search = GridSearchCV(model(), {"alpha": [0.01, 0.1]}, cv=SPLIT, error_score="raise")
        search.fit(X, constraints=links)
    assert search.best_score_ > 0.9
    assert search.best_estimator_.violated_links_.n_samples == 90


def test_links_survive_a_grid_search_without_routing(witnessed):
    X, links = witnessed
    plain = Witness(2, kernel="linear", n_init=2, random_state=0)
    search = GridSearchCV(plain, {"alpha": [0.01, 0.1]}, cv=SPLIT, error_score="raise")
    search.fit(X, constraints=links)
    # Links reach the fits only: the score is that of rows without links.
    expected = [
        np.mean(
            [
                clone(plain).set_params(alpha=alpha).fit(X[a], constraints=links[a]).score(X[b])
                for a, b in SPLIT.split(X)
            ]
        )
        for alpha in (0.01, 0.1)
    ]
    assert search.cv_results_["mean_test_score"] == pytest.approx(expected)
    assert search.best_estimator_.violated_links_.n_samples == 90


def test_links_survive_cross_validate(witnessed):
    X, links = witnessed
    with config_context(enable_metadata_routing=True):
        found = cross_validate(
            model(), X, params={"constraints": links}, cv=SPLIT, error_score="raise",
            return_estimator=True, return_indices=True,
        )  # fmt: skip
    for test, fitted, score in zip(
        found["indices"]["test"], found["estimator"], found["test_score"]
    ):
        assert score == links[test].accuracy(fitted.predict(X[test]))


def test_links_survive_a_routed_pipeline(witnessed):
    X, links = witnessed
    with config_context(enable_metadata_routing=True):
        pipeline = make_pipeline(StandardScaler(), model())
        pipeline.fit(X, constraints=links)
        assert (pipeline.predict(X) == pipeline[-1].labels_).all()
        for train, test in SPLIT.split(X):
            pipeline.fit(X[train], constraints=links[train])
            assert links[test].accuracy(pipeline.predict(X[test])) > 0.9
        search = GridSearchCV(
            pipeline, {"witness__alpha": [0.01, 0.1]}, cv=SPLIT, error_score="raise",
            scoring=lambda estimator, X, y=None: 0.0,
        )  # fmt: skip
        search.fit(X, constraints=links)
        deeper = make_pipeline(PCA(2), model(PairwiseMarginClustering))
        direct = model(PairwiseMarginClustering).fit(PCA(2).fit_transform(X), constraints=links)
        assert (deeper.fit(X, constraints=links).predict(X) == direct.labels_).all()


@pytest.mark.parametrize("kind", ["skops", "pickle"])
def test_links_survive_saving(witnessed, tmp_path, kind):
    X, links = witnessed
    flipped = PairwiseConstraints(90, links.cannot_link[:5], links.cannot_link[5:])
    made = PairwiseMarginClustering(2, alpha=0.1, n_init=2, random_state=0, on_conflict="soft")
    made.fit(X, constraints=flipped)
    assert made.violated_links_.n_links > 0
    if kind == "skops":
        save_model(made, tmp_path / "m.skops")
        again = load_model(tmp_path / "m.skops")
    else:
        again = pickle.loads(pickle.dumps(made))
    assert again.violated_links_ == made.violated_links_
    assert (again.decision_function(X) == made.decision_function(X)).all()
    assert clone(made).fit(X, constraints=flipped).violated_links_ == made.violated_links_


def test_the_witness_sees_wrong_rows(witnessed):
    X, links = witnessed
    with pytest.raises(AssertionError, match="wrong rows"):
        Witness(2).fit(X[:60], constraints=replace_rows(links))


def replace_rows(links):
    """What cutting pairs as plain arrays would give: right pairs of the wrong rows."""
    inside = (links.cannot_link < 60).all(axis=1)
    return PairwiseConstraints(60, [], (links.cannot_link[inside] + 7) % 60)


def test_problem_parts_keep_weights():
    p = random_problem(3)
    half = p.part(np.arange(0, 14, 2))
    assert half.constant == pytest.approx(p.constant)
    supervised = np.union1d(p.links.rows(), p.known_rows)
    alone = p.part(supervised, free=False)
    assert alone.constant == 0.0
    assert len(alone.links) == len(p.links)
    S = p.scores(np.ones((3, 4)) * np.arange(3)[:, None])
    want = literal_risk(replace(p, free_weights=np.zeros(14)), S)
    assert literal_risk(alone, S[supervised]) == pytest.approx(want)


@pytest.mark.parametrize("weight", [1e200, 1e-200, 1e13])
def test_link_weights_have_a_range(weight):
    with pytest.raises(ValueError, match="must_weight must be positive numbers between"):
        PairwiseConstraints(4, must_link=[(0, 1)], must_weight=weight)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:.*clusters (has|have) no rows")
def test_the_papers_solver_on_as_many_clusters_as_rows():
    X = np.random.default_rng(0).normal(size=(4, 2))
    links = PairwiseConstraints(4, cannot_link=[(0, 1), (1, 2), (2, 3)])
    model = PairwiseMarginClustering(4, kernel="poly", solver="subgradient", random_state=0)
    model.fit(X, constraints=links)
    assert np.isfinite(model.coef_).all() and np.isfinite(model.objective_)
    assert (model.labels_ == model.predict(X)).all()


def test_a_convex_problem_that_is_not_solved_ends_the_papers_descent():
    """Each further one would take as many passes."""
    X = np.random.default_rng(0).normal(size=(6, 2))
    links = PairwiseConstraints(6, cannot_link=[(0, 1), (1, 2), (2, 3)])
    model = PairwiseMarginClustering(3, solver="subgradient", alpha=1e-12, n_init=1, random_state=0)
    with pytest.warns(ConvergenceWarning, match="did not reach solver_tol"):
        model.fit(X, constraints=links)
    assert model.n_iter_ == 1


def test_axes_of_links_between_equal_rows_stay_of_the_size_of_the_rows():
    Z = np.random.default_rng(0).normal(size=(8, 3))
    Z[1] = Z[0]
    links = Links(np.array([0, 2]), np.array([1, 3]), np.array([True, False]), np.ones(2))
    assert np.abs(eigenvector_axes(Z, links, 2, 0.1)).max() < 1e10


def test_a_contradictory_pair_empties_no_cluster():
    """The size floor stays on with cannot-links, and with classes that nobody has named."""
    X, y = make_blobs([30, 30, 30], 2, cluster_std=1.0, random_state=3)
    links = PairwiseConstraints(90, must_link=[(0, 1)], cannot_link=[(0, 1)])
    model = PairwiseMarginClustering(3, on_conflict="soft", random_state=0)
    assert model.fit(X, constraints=links).cluster_sizes_.min() >= 1
    known = np.where(np.arange(90) < 4, y, -1)
    known[y == 2] = -1
    model.fit(X, constraints=PairwiseConstraints(90), partial_labels=known)
    assert model.cluster_sizes_.min() >= 1
    assert len(np.unique(model.predict(X))) == 3
