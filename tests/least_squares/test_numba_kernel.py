"""Compiled passes over kernel values, against numpy."""

import numpy as np
import pytest

from maxmargin.least_squares._numba_kernel import exponentials, find_marks, gaussian_tile, nearest

FLOATS = [np.float32, np.float64]


@pytest.mark.parametrize("dtype", FLOATS)
def test_exponentials_are_exact_to_the_last_bit(dtype):
    lowest = -87.0 if dtype is np.float32 else -708.0
    values = np.linspace(lowest, 0.0, 200_001).astype(dtype)
    values = np.append(values, -np.logspace(-9, 0, 1001)).astype(dtype)[None]
    found = values.copy()
    exponentials(found)
    exact = np.exp(values.astype(np.longdouble))
    assert np.abs(found / exact - 1.0).max() <= np.finfo(dtype).eps


@pytest.mark.parametrize("dtype", FLOATS)
def test_exponentials_of_extreme_values(dtype):
    values = np.array([[0.0, 1e-9, 5.0, -1e4, -1e30, -np.inf, np.nan]], dtype)
    exponentials(values)
    assert np.array_equal(values, [[1.0, 1.0, 1.0, 0.0, 0.0, 0.0, np.nan]], equal_nan=True)


def closeness_of(kind, n, dtype):
    rng = np.random.default_rng(n)
    if kind == "distinct":
        return -(rng.exponential(size=(40, n)).astype(dtype) ** 3)
    if kind == "ties":
        return rng.integers(0, 3, (40, n)).astype(dtype)
    return np.zeros((40, n), dtype)


@pytest.mark.parametrize("kind", ["distinct", "ties", "equal"])
@pytest.mark.parametrize("n", [41, 64, 65, 200, 1000])
@pytest.mark.parametrize("count", [1, 10, 32, 40])
def test_nearest_is_a_stable_sort(kind, n, count):
    for dtype in FLOATS:
        for first in (-1, 0):
            closeness = closeness_of(kind, n, dtype)
            found = np.empty((40, count), np.int64)
            nearest(closeness, first, found)
            if first == 0:
                np.fill_diagonal(closeness, -np.inf)
            expected = np.argsort(-closeness, axis=1, kind="stable")[:, :count]
            assert (found == expected).all()


def test_nearest_of_entries_that_are_no_numbers_are_columns():
    found = np.full((2, 3), -7)
    nearest(np.array([[np.nan] * 100, [-np.inf] * 100]), -1, found)
    assert (found == [[0, 0, 0], [0, 1, 2]]).all()


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("size", [7, 64, 200])
def test_scores_and_neighbours_of_a_tile_do_not_depend_on_the_strips(dtype, size):
    rng = np.random.default_rng(0)
    points, landmarks = rng.normal(size=(100, 5)), rng.normal(size=(80, 5))
    columns = rng.normal(size=(80, 3)).astype(dtype)
    squares = ((points[:, None] - landmarks) ** 2).sum(axis=2)
    neighbours, out = np.empty((100, 6), np.int64), np.empty((100, 3), dtype)
    gaussian_tile(points, landmarks, 0.5, size, columns, neighbours, out)
    assert out == pytest.approx(
        np.exp(-0.25 * squares) @ columns, abs=100 * float(np.finfo(dtype).eps)
    )
    assert (neighbours == np.argsort(squares, axis=1)[:, :6]).all()


@pytest.mark.parametrize("n", [1, 2, 7, 64])
def test_marks_are_found(n):
    rng = np.random.default_rng(n)
    known = rng.integers(0, 2**64, (n, 2), np.uint64)
    known = known[np.argsort(known[:, 0])]
    places, out = rng.permutation(n), np.empty(n + 2, np.int64)
    others = np.array([[known[0, 0], known[0, 1] + np.uint64(1)], [0, 0]], np.uint64)
    find_marks(np.concatenate([known, others]), known, places, out)
    assert (out == np.append(places, [-1, -1])).all()
