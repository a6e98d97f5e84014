"""The data pass against plain numpy, on any storage and any number of threads."""

import numpy as np
import pytest
from scipy import sparse

from maxmargin._core.rows import Rows, scores, weighted_gram, weighted_sum

N, D = 40_000, 7
pytestmark = pytest.mark.invariance


def bent_block(block, parts, W):
    """Scores, a rule, a weighted sum of rows; and one of the scores as a column."""
    found, total = [], 0.0
    for _, tile in block.tiles():
        S = tile.scores(np.ascontiguousarray(W.T))
        total = total + tile.weighted_sum(np.tanh(S))
        found.append(S[:, 0])
    return (np.concatenate(found),), total


def failing_block(block, parts):
    if parts[0][0] > 20_000:
        raise ZeroDivisionError
    return (), 0.0


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, D)) * (rng.random((N, D)) < 0.4)
    return X, X.mean(axis=0), rng.normal(size=(3, D)), rng.random(N)


def storages(X, tmp_path):
    path = tmp_path / "rows.npy"
    np.save(path, X)
    return {
        "memory": X,
        "memmap": np.load(path, mmap_mode="r"),
        "csr": sparse.csr_matrix(X),
    }


@pytest.mark.parametrize("storage", ["memory", "memmap", "csr"])
def test_products_equal_numpy(data, storage, tmp_path):
    X, offset, W, w = data
    rows = Rows(storages(X, tmp_path)[storage], offset, 1.7, n_jobs=2)
    Z = (X - offset) * 1.7
    assert scores(rows, W) == pytest.approx(Z @ W.T, abs=1e-11)
    assert weighted_sum(rows, w[:, None])[0] == pytest.approx(w @ Z, abs=1e-8)
    assert weighted_gram(rows, w) == pytest.approx((Z * w[:, None]).T @ Z, abs=1e-8)
    few = np.array([3, 39_999, 17])
    assert scores(rows.take(few), W) == pytest.approx(Z[few] @ W.T, abs=1e-11)


@pytest.mark.parametrize("storage", ["memory", "memmap", "csr"])
def test_threads_change_no_bit(data, storage, tmp_path):
    X, offset, W, _ = data

    def one_pass(n_jobs):
        rows = Rows(storages(X, tmp_path)[storage], offset, 1.7, n_jobs=n_jobs)
        (column,), sums = rows.run(bent_block, (W,), (), (np.float64,))
        return sum(sums), column

    first = one_pass(1)
    for n_jobs in (2, 8):
        other = one_pass(n_jobs)
        assert (first[0] == other[0]).all()
        assert (first[1] == other[1]).all()


def test_float32_rows_sum_in_float64(data):
    X, offset, _, w = data
    rows = Rows(X.astype(np.float32), offset)
    total = weighted_sum(rows, w[:, None])
    assert total.dtype == np.float64
    assert total[0] == pytest.approx(w @ (X - offset), rel=1e-4, abs=0.05)


def test_an_error_in_a_block_function_reaches_the_caller(data):
    X, *_ = data
    rows = Rows(X, n_jobs=2)
    with pytest.raises(ZeroDivisionError):
        list(rows.run(failing_block, (), (np.arange(N),))[1])
