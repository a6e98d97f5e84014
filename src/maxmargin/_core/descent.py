"""The iteration shared by all methods: ``descend`` runs the ``step`` of a method.

It rejects steps that increase the objective of a monotone method, keeps the best state, and records
the history and the reason for stopping. Callbacks observe the iterations and can stop them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

CONVERGED, MAX_ITER, STALLED = "converged", "max_iter", "stalled"
TIME, CALLBACK = "time", "callback"
ROUNDING = 1e-12  # relative decrease of the objective that counts as progress


class Stage(Protocol):
    """What ``descend`` needs of a method at fixed settings."""

    def step(self, state: Any) -> Any:
        """Return the next state."""

    def objective(self, state: Any) -> float:
        """Value that must not rise."""

    def change(self, old: Any, new: Any) -> float:
        """Share of the rows (by weight) whose label differs."""


@dataclass(frozen=True)
class Outcome:
    """Result of a descent."""

    state: Any
    objective: float
    history: list[float] = field(default_factory=list)
    n_iter: int = 0
    stop_reason: str = CONVERGED


def descend(
    method: Stage,
    state: Any,
    *,
    max_iter: int,
    tol: float,
    watch: Callable[[float], str | None] = lambda objective: None,
    monotone: bool = True,
    patience: int = 10,
    keep_last: bool = False,
) -> Outcome:
    """Iterate ``method.step`` from ``state`` until at most ``tol`` of the rows change label.

    Parameters
    ----------
    state : object
        Initial state.
    tol : float
        Share of the rows that may change in the last step.
    watch : callable
        Called with the objective after each step; a string it returns is the reason to stop.
    monotone : bool
        Whether the objective cannot increase in theory. A step that increases it, because of
        rounding or an inexact inner solver, is then rejected. Otherwise the best state is kept, and
        the descent stops after ``patience`` steps without improvement.
    keep_last : bool
        Return the last state instead of the best, as in the published algorithms.

    Examples
    --------
    >>> class Halve:
    ...     def step(self, x): return x / 2
    ...     def objective(self, x): return x * x
    ...     def change(self, old, new): return abs(old - new)
    >>> descend(Halve(), 8.0, max_iter=50, tol=0.3).stop_reason
    'converged'
    """
    best, best_value = state, method.objective(state)
    history = [best_value] if np.isfinite(best_value) else []
    since_best = 0
    for n_iter in range(1, max_iter + 1):
        new = method.step(state)
        value = method.objective(new)
        if not np.isfinite(value) or (monotone and value > best_value + 1e-10 * abs(best_value)):
            return Outcome(best, best_value, history, n_iter, STALLED)
        history.append(value)
        since_best += 1
        if best_value - value > ROUNDING * abs(value) or keep_last:
            since_best = 0
        if value <= best_value or keep_last:
            best, best_value = new, value
        reason = watch(value)
        if reason is None and method.change(state, new) <= tol:
            reason = CONVERGED
        if reason is None and since_best >= patience:
            reason = STALLED
        if reason is not None:
            return Outcome(best, best_value, history, n_iter, reason)
        state = new
    return Outcome(best, best_value, history, max_iter, MAX_ITER)
