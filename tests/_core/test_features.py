"""Feature maps: Z Z' is the centred kernel, scaled to unit mean square."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics.pairwise import pairwise_kernels, rbf_kernel

from maxmargin._core.features import fit_features
from maxmargin._core.kernels import kernel_params, median_distance
from maxmargin._core.rows import scores
from maxmargin._data.source import MemoryRows


def features(X, kernel="rbf", n_components=None, gamma="median", weights=None, **more):
    rng = np.random.default_rng(0)
    weights = np.ones(X.shape[0]) if weights is None else weights
    X = MemoryRows(X)
    params = kernel_params(X, kernel, gamma, 3, 1, rng)
    return fit_features(
        X, weights, kernel=kernel, params=params, n_components=n_components, rng=rng, **more
    )


def dense(rows):
    return rows.values()


@pytest.fixture(scope="module")
def X():
    return np.random.default_rng(1).normal(size=(60, 4)) + 2.0


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_matrix], ids=["dense", "csr"])
@pytest.mark.parametrize("unit", [2.0**-450, 2.0**-90, 2.0**90, 2.0**450], ids=float.hex)
@pytest.mark.parametrize(("kernel", "power"), [("rbf", 2), ("laplacian", 1), ("cosine", 0)])
def test_squares_in_single_precision_neither_overflow_nor_underflow(X, make, unit, kernel, power):
    fmap = features(make(X), kernel)[0]
    fmap = replace(fmap, dtype=np.dtype(np.float32), projection=None)
    K = fmap.kernel_values(make(X))
    params = {name: gamma / unit**power for name, gamma in fmap.params.items()}
    offset = None if fmap.input_offset is None else fmap.input_offset * unit
    other = replace(fmap, landmarks=fmap.landmarks * unit, input_offset=offset, params=params)
    assert (other.kernel_values(make(X * unit)) == K).all()
    assert kernel == "cosine" or (other.kernel_values(make(X * 1e150)) == 0.0).all()


@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly", "laplacian", "cosine"])
def test_exact_map_reproduces_the_centred_kernel(X, kernel):
    fmap, rows = features(X, kernel)
    K = pairwise_kernels(X, X, metric=kernel, **fmap.params)
    H = np.eye(60) - 1 / 60
    K = H @ K @ H
    Z = dense(rows)
    assert Z @ Z.T == pytest.approx(K * 60 / np.trace(K), abs=1e-6)
    assert Z.mean(axis=0) == pytest.approx(np.zeros(Z.shape[1]), abs=1e-9)
    assert (Z**2).sum(axis=1).mean() == pytest.approx(1.0)


def test_callable_and_precomputed_kernels(X):
    gamma = 0.3
    expected = dense(features(X, "rbf", gamma=gamma)[1])
    called = features(X, lambda a, b: float(np.exp(-gamma * ((a - b) ** 2).sum())))
    given = features(rbf_kernel(X, gamma=gamma), "precomputed")
    for fmap, rows in (called, given):
        Z = dense(rows)
        assert Z @ Z.T == pytest.approx(expected @ expected.T, abs=1e-8)
        assert fmap.rank <= 60


def test_sigmoid_is_indefinite_and_says_so(X):
    with pytest.warns(UserWarning, match="not positive semi-definite: its smallest eigenvalue"):
        features(X, "sigmoid")


@pytest.mark.invariance
def test_training_rows_map_to_the_same_bits(X):
    for kernel in ("rbf", "linear"):
        fmap, rows = features(X, kernel, "auto")
        assert (dense(fmap.rows(X)) == dense(rows)).all()


def test_pivoted_cholesky_is_exact_to_its_tolerance():
    X = np.random.default_rng(2).normal(size=(400, 3))
    fmap, rows = features(X, "rbf", "auto", gamma=0.02)
    assert fmap.rank < 200
    K = rbf_kernel(X, gamma=0.02)
    H = np.eye(400) - 1 / 400
    K = H @ K @ H
    Z = dense(rows)
    assert Z @ Z.T == pytest.approx(K * 400 / np.trace(K), abs=1e-3)


def test_nystroem_takes_the_rank_asked_for_and_is_close():
    X = np.random.default_rng(3).normal(size=(6000, 3))
    fmap, rows = features(X, "rbf", 50, gamma=0.05)
    assert fmap.landmarks.shape == (50, 3)
    few = dense(rows.take(np.arange(200)))
    K = rbf_kernel(X[:200], X, gamma=0.05)
    centred = K[:, :200] - K.mean(axis=1)[:, None] - K.mean(axis=1)[None, :]
    centred += rbf_kernel(X, gamma=0.05).mean()
    exact = centred * fmap.scale**2
    assert np.linalg.norm(few @ few.T - exact) < 0.003 * np.linalg.norm(exact)


@pytest.mark.invariance
@pytest.mark.parametrize("kernel", ["linear", "rbf", "cosine"])
def test_dense_equals_csr(kernel):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(80, 6)) * (rng.random((80, 6)) < 0.5)
    X[:, 0] += 1.0
    A = dense(features(X, kernel)[1])
    _, rows = features(sparse.csr_matrix(X), kernel)
    B = scores(rows, np.eye(rows.shape[1]))
    assert A @ A.T == pytest.approx(B @ B.T, abs=1e-9)


def test_wide_linear_data_go_through_landmarks():
    X = np.random.default_rng(5).normal(size=(50, 1500))
    fmap, rows = features(X, "linear", "auto")
    assert fmap.rank <= 50
    Z = dense(rows)
    K = X - X.mean(axis=0)
    K = K @ K.T
    assert Z @ Z.T == pytest.approx(K * 50 / np.trace(K), abs=1e-6)


def test_weights_centre_as_repeated_rows(X):
    w = np.random.default_rng(6).integers(1, 4, 60)
    Z = dense(features(X, "linear", weights=w.astype(float))[1])
    R = dense(features(np.repeat(X, w, axis=0), "linear")[1])
    assert np.repeat(Z, w, axis=0) == pytest.approx(R, abs=1e-10)


def test_far_from_the_origin_nothing_is_lost(X):
    near, far = features(X)[1], features(X + 1e7)[1]
    A, B = dense(near), dense(far)
    assert A @ A.T == pytest.approx(B @ B.T, abs=1e-6)


def test_median_distance_is_the_median(X):
    d = ((X[:, None] - X[None]) ** 2).sum(-1)[np.triu_indices(60, 1)]
    assert median_distance(X, np.random.default_rng(0)) == pytest.approx(np.median(d))
    doubled = np.vstack([X, X])
    pairs = ((doubled[:, None] - doubled[None]) ** 2).sum(-1)[np.triu_indices(120, 1)]
    expected = np.median(pairs[pairs > 1e-20])
    assert median_distance(doubled, np.random.default_rng(0)) == pytest.approx(expected)
