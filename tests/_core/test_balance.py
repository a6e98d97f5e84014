"""The balanced bias against brute force over all splits."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxmargin._core.size_floor import (
    LOSSES,
    Sizes,
    balanced_split,
    loss_kinks,
    row_losses,
    size_floor,
)


def literal_loss(y, f, loss, epsilon):
    """The losses of the paper, written out."""
    if loss == "hinge":
        return max(0.0, 1.0 - y * f)
    if loss == "squared":
        return (f - y) ** 2
    return max(0.0, abs(f - y) - epsilon)


def brute_force(g, loss, floor, w, epsilon, known):
    """Least cost over all labellings by a threshold, with the bias at every kink."""
    free = known == 0
    best = np.inf
    for labels in itertools.product([-1, 1], repeat=len(g)):
        y = np.array(labels)
        if (y[~free] != known[~free]).any():
            continue
        if min(w[y < 0].sum(), w[y > 0].sum()) < floor - 1e-9:
            continue
        low, high = g[free & (y < 0)], g[free & (y > 0)]
        if low.size and high.size and low.max() >= high.min():
            continue
        if loss == "squared":
            biases = [(w * (y - g)).sum() / w.sum()]
        else:
            kinks = loss_kinks(loss, epsilon)
            biases = np.concatenate([k - g for k in kinks[np.isfinite(kinks)]])
        for b in biases:
            cost = sum(wi * literal_loss(yi, gi + b, loss, epsilon) for wi, yi, gi in zip(w, y, g))
            best = min(best, cost)
    return best


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("seed", range(4))
def test_split_equals_brute_force(loss, seed):
    rng = np.random.default_rng(seed)
    compared = 0
    for _ in range(250):
        n = int(rng.integers(1, 8))
        g = rng.normal(size=n) * rng.choice([0.3, 1.0, 3.0])
        if rng.random() < 0.5:
            g = np.round(g)  # ties
        w = rng.integers(1, 4, n).astype(float) if rng.random() < 0.5 else rng.random(n) + 0.1
        known = np.zeros(n, np.int8)
        if rng.random() < 0.4:
            known = rng.choice([0, 0, 0, -1, 1], n).astype(np.int8)
        epsilon = float(rng.choice([0.0, 0.05, 0.5, 0.9])) if loss == "laplacian" else 0.0
        floor = rng.random() * w.sum() / 2
        split = balanced_split(g, loss, sizes=floor, weights=w, epsilon=epsilon, known=known)
        if split.shortfall > 0:
            continue
        compared += 1
        cost = (w * row_losses(split.signs, g + split.bias, loss, epsilon)).sum()
        assert split.cost == pytest.approx(cost, abs=1e-10)
        assert cost == pytest.approx(brute_force(g, loss, floor, w, epsilon, known), abs=1e-10)
        free = known == 0
        assert (np.where(g + split.threshold_bias > 0, 1, -1) == split.signs)[free].all()
        assert (split.signs == known)[~free].all()
        assert min(w[split.signs < 0].sum(), w[split.signs > 0].sum()) >= floor - 1e-9
    assert compared > 100


@pytest.mark.parametrize("loss", LOSSES)
def test_midpoints_are_the_papers_search(loss):
    """Section III-A, literally: every midpoint as the bias, labels by sign, least cost."""
    rng = np.random.default_rng(0)
    for _ in range(100):
        n = int(rng.integers(2, 9))
        g, floor = np.round(rng.normal(size=n), 1), int(rng.integers(1, n // 2 + 1))
        epsilon = 0.2 if loss == "laplacian" else 0.0
        split = balanced_split(g, loss, sizes=floor, epsilon=epsilon, midpoints=True)
        if split.shortfall > 0:
            continue
        s = np.sort(g)
        costs = {}
        for b in -(s[1:] + s[:-1])[s[1:] > s[:-1]] / 2:
            y = np.where(g + b > 0, 1, -1)
            if min((y > 0).sum(), (y < 0).sum()) >= floor:
                costs[b] = sum(literal_loss(*v, loss, epsilon) for v in zip(y, g + b))
        assert split.cost == pytest.approx(min(costs.values()), abs=1e-10)
        assert split.bias == pytest.approx(split.threshold_bias)
        assert min(abs(split.bias - b) for b in costs) < 1e-12


@pytest.mark.parametrize("loss", LOSSES)
def test_row_losses_are_the_papers(loss):
    rng = np.random.default_rng(0)
    y, f = rng.choice([-1, 1], 50), 2 * rng.normal(size=50)
    expected = [literal_loss(yi, fi, loss, 0.3) for yi, fi in zip(y, f)]
    assert row_losses(y, f, loss, 0.3) == pytest.approx(expected)


@given(st.lists(st.integers(-3, 3), min_size=2, max_size=30), st.sampled_from(LOSSES))
def test_turning_scores_round_turns_labels_round(values, loss):
    """Negated scores have the same cost: no side is favoured."""
    g = np.array(values, float)
    there = balanced_split(g, loss, sizes=1.0, epsilon=0.1)
    back = balanced_split(-g, loss, sizes=1.0, epsilon=0.1)
    assert there.cost == pytest.approx(back.cost, abs=1e-9)
    assert there.shortfall == back.shortfall


@pytest.mark.parametrize("loss", LOSSES)
def test_weight_two_equals_row_twice(loss):
    rng = np.random.default_rng(1)
    g, w = rng.normal(size=12), rng.integers(1, 4, 12)
    weighted = balanced_split(g, loss, sizes=5, weights=w.astype(float), epsilon=0.1)
    repeated = balanced_split(np.repeat(g, w), loss, sizes=5, epsilon=0.1)
    assert weighted.cost == pytest.approx(repeated.cost, abs=1e-10)
    assert weighted.bias == pytest.approx(repeated.bias, abs=1e-10)
    assert (np.repeat(weighted.signs, w) == repeated.signs).all()


def test_ties_that_forbid_the_floor_give_the_nearest_sizes():
    split = balanced_split(np.array([0.0, 1.0, 1.0, 1.0, 1.0]), "squared", sizes=2)
    assert split.shortfall == 1
    assert split.signs.tolist() == [-1, 1, 1, 1, 1]


def test_binding_floor_separates_threshold_from_bias():
    """Nine rows belong together; the floor takes some over, and only the threshold moves."""
    g = np.concatenate([np.linspace(-1.1, -0.9, 9), [3.0]])
    split = balanced_split(g, "squared", sizes=4)
    assert (split.signs > 0).sum() == 4
    assert split.bias == pytest.approx((split.signs - g).mean())
    assert (np.where(g + split.bias > 0, 1, -1) != split.signs).any()
    cut = np.sort(g)[5:7].mean()
    assert split.threshold_bias == pytest.approx(-cut)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("loss", LOSSES)
def test_scores_that_are_not_finite_are_refused(loss, bad):
    """Before the compiled walk along the kinks, which has none to go to."""
    with pytest.raises(ValueError, match="scores must be finite"):
        balanced_split(np.array([0.0, 1.0, bad]), loss, sizes=1)


def test_a_tiny_floor_does_not_overflow():
    scores = np.array([0.0, 1.0, 2.0, 3.0])
    split = balanced_split(scores, "hinge", sizes=Sizes(floor=1e-310, clusters=3))
    assert split.shortfall == 0


def test_floor_counts_whole_rows():
    assert size_floor(0.94, 357, 2) == 167
    assert size_floor(0.5, 0.3, 2, whole=False) == pytest.approx(0.075)
    assert size_floor(1.0, 7, 2) == 3
