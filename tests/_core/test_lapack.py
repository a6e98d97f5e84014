"""Inverses by tiles: against scipy, and the same bits on any number of threads."""

import numpy as np
import pytest
from scipy import linalg

from maxmargin._core import lapack


@pytest.mark.parametrize("n", [30, 64, 65, 200])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_inverse_is_that_of_scipy_with_the_same_bits_on_any_number_of_threads(
    n, dtype, monkeypatch
):
    monkeypatch.setattr(lapack, "TILE", 32)
    monkeypatch.setattr(lapack, "WIDE", 64)
    B = np.random.default_rng(n).normal(size=(n, n))
    A = (B @ B.T / n + np.eye(n)).astype(dtype)
    A = (A + A.T) / dtype(2)
    found = []
    for n_jobs in (1, 2, 8):
        found.append(A.copy())
        assert lapack.invert_definite(found[-1], n_jobs) == 0
    assert (found[0] == found[1]).all() and (found[0] == found[2]).all()
    assert (found[0] == found[0].T).all()
    expected = linalg.inv(A.astype(np.float64))
    np.testing.assert_allclose(found[0], expected, atol=1e-10 if dtype is np.float64 else 1e-5)


def test_a_matrix_that_is_not_definite_is_told(monkeypatch):
    monkeypatch.setattr(lapack, "TILE", 32)
    monkeypatch.setattr(lapack, "WIDE", 64)
    A = np.eye(100)
    A[80, 80] = -1.0
    assert lapack.invert_definite(A) != 0
