"""Clustering scores against their definitions."""

import itertools

import numpy as np
import pytest

from maxmargin import metrics


def test_one_to_one_accuracy_equals_brute_force_over_permutations():
    rng = np.random.default_rng(0)
    for _ in range(50):
        y, labels = rng.integers(0, 4, 30), rng.integers(0, 4, 30)
        y[:4] = labels[:4] = np.arange(4)
        best = max(np.mean(np.array(p)[labels] == y) for p in itertools.permutations(range(4)))
        assert metrics.clustering_accuracy(y, labels) == pytest.approx(best)


def test_more_clusters_than_classes_leave_some_unmatched():
    y, labels = [0, 0, 0, 1, 1, 1], [0, 0, 1, 2, 2, 2]
    assert metrics.clustering_accuracy(y, labels) == pytest.approx(5 / 6)
    assert metrics.clustering_accuracy(y, labels, mapping="majority") == 1.0


def test_majority_is_high_for_a_dominant_class_and_balanced_error_is_not():
    y, labels = [0] * 9 + [1], [0] * 10
    assert metrics.clustering_accuracy(y, labels, mapping="majority") == 0.9
    assert metrics.balanced_clustering_error(y, labels) == 0.5


def test_balanced_error_averages_over_classes():
    y = [0] * 8 + [1] * 2
    labels = [0] * 6 + [1] * 2 + [1, 0]
    assert metrics.balanced_clustering_error(y, labels) == pytest.approx((0.25 + 0.5) / 2)


def test_rand_index_counts_pairs():
    rng = np.random.default_rng(1)
    y, labels = rng.integers(0, 3, 25), rng.integers(0, 3, 25)
    agree = [
        (y[i] == y[j]) == (labels[i] == labels[j]) for i, j in itertools.combinations(range(25), 2)
    ]
    assert metrics.rand_index(y, labels) == pytest.approx(np.mean(agree))


def test_papers_nmi_written_out():
    """Equation (28) of Zeng & Cheung 2012, with the factor n it leaves out of the logarithm."""
    rng = np.random.default_rng(2)
    y, labels = rng.integers(0, 3, 40), rng.integers(0, 3, 40)
    n = len(y)
    top = sum(
        nij * np.log(n * nij / (np.sum(y == i) * np.sum(labels == j)))
        for i in range(3)
        for j in range(3)
        if (nij := np.sum((y == i) & (labels == j))) > 0
    )
    sides = [sum(c * np.log(c / n) for c in np.bincount(v)) for v in (y, labels)]
    expected = top / np.sqrt(sides[0] * sides[1])
    assert metrics.normalized_mutual_info(y, labels) == pytest.approx(expected)


def test_errors_name_the_cause():
    with pytest.raises(ValueError, match="mapping must be 'one-to-one' or 'majority', got 'best'"):
        metrics.clustering_accuracy([0, 1], [0, 1], mapping="best")
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        metrics.clustering_accuracy([0, 1], [0])
    with pytest.raises(ValueError, match="empty"):
        metrics.clustering_accuracy([], [])
