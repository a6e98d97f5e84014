"""The loop: what it keeps, why it stops."""

import numpy as np
import pytest

from maxmargin._core.descent import descend


class Script:
    """A method that plays back objective values."""

    def __init__(self, values, changes=None):
        self.values = values
        self.changes = changes or [1.0] * len(values)

    def step(self, state):
        return state + 1

    def objective(self, state):
        return self.values[state]

    def change(self, old, new):
        return self.changes[new]


def test_a_rise_is_refused_where_none_is_promised():
    out = descend(Script([5.0, 3.0, 4.0, 1.0]), 0, max_iter=10, tol=0.0)
    assert (out.state, out.objective, out.stop_reason) == (1, 3.0, "stalled")
    assert out.history == [5.0, 3.0]


def test_a_rise_is_survived_where_it_may_happen():
    out = descend(Script([5.0, 3.0, 4.0, 1.0]), 0, max_iter=3, tol=0.0, monotone=False)
    assert (out.state, out.objective, out.stop_reason) == (3, 1.0, "max_iter")
    assert out.history == [5.0, 3.0, 4.0, 1.0]


def test_patience_ends_a_wandering_descent_with_its_best_state():
    values = [5.0, 1.0] + [2.0] * 20
    out = descend(Script(values), 0, max_iter=20, tol=0.0, monotone=False, patience=4)
    assert (out.state, out.stop_reason, out.n_iter) == (1, "stalled", 5)


def test_patience_ends_a_descent_that_stands_still():
    out = descend(
        Script([5.0, 1.0] + [1.0] * 20), 0, max_iter=20, tol=0.0, monotone=False, patience=4
    )
    assert (out.stop_reason, out.n_iter) == ("stalled", 5)


def test_converges_when_few_rows_change():
    out = descend(Script([3.0, 2.0, 1.0, 0.5], [1, 1, 0.01, 1]), 0, max_iter=3, tol=0.05)
    assert (out.state, out.stop_reason, out.n_iter) == (2, "converged", 2)


def test_a_watcher_can_stop_it():
    seen = []

    def watch(value):
        seen.append(value)
        return "time" if len(seen) == 2 else None

    out = descend(Script([9.0, 8.0, 7.0, 6.0]), 0, max_iter=3, tol=0.0, watch=watch)
    assert (seen, out.stop_reason, out.objective) == ([8.0, 7.0], "time", 7.0)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_value_that_is_no_number_never_becomes_the_result(bad):
    out = descend(Script([5.0, 4.0, bad]), 0, max_iter=5, tol=0.0, monotone=False)
    assert (out.state, out.objective, out.stop_reason) == (1, 4.0, "stalled")


def test_first_objective_may_be_unknown():
    out = descend(Script([np.inf, 2.0, 2.0], [1, 1, 0]), 0, max_iter=5, tol=0.0)
    assert out.history == [2.0, 2.0]
    assert out.stop_reason == "converged"
