"""The only place that names scikit-learn's experimental or version-dependent parts."""

from __future__ import annotations

import time

from sklearn.utils._param_validation import Interval, StrOptions

try:  # scikit-learn >= 1.9
    from sklearn.callback import CallbackSupportMixin, with_callbacks

    HAS_CALLBACKS = True
except ImportError:  # pragma: no cover - older scikit-learn
    HAS_CALLBACKS = False

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stand-in without callbacks."""

    def with_callbacks(method):
        """Leave the method as it is."""
        return method


__all__ = [
    "HAS_CALLBACKS",
    "CallbackSupportMixin",
    "FitWatch",
    "Interval",
    "StrOptions",
    "TimeLimit",
    "progress_callbacks",
    "with_callbacks",
]


class TimeLimit:
    """Callback that ends a fit after a number of seconds; the best state so far is kept.

    Parameters
    ----------
    seconds : float
        Wall-clock time after which the fit stops at the end of its current iteration.

    Examples
    --------
    >>> from maxmargin import AlternatingMarginClustering, TimeLimit
    >>> model = AlternatingMarginClustering().set_callbacks(TimeLimit(60))
    """

    def __init__(self, seconds: float):
        if not seconds > 0:
            raise ValueError(f"seconds must be a positive number, got {seconds!r}.")
        self.seconds = seconds
        self._deadline = float("inf")
        self.expired = False

    def setup(self, estimator, context):
        """Start the clock."""
        self._deadline, self.expired = time.monotonic() + self.seconds, False

    def on_fit_task_begin(self, estimator, context):
        """Do nothing."""

    def on_fit_task_end(self, estimator, context):
        """Return True once the time is over."""
        self.expired = time.monotonic() > self._deadline
        return self.expired

    def teardown(self, estimator, context):
        """Do nothing."""


def progress_callbacks() -> list:
    """A progress bar, where scikit-learn and rich can show one."""
    if not HAS_CALLBACKS:  # pragma: no cover - older scikit-learn
        return []
    from sklearn.callback import ProgressBar

    try:
        return [ProgressBar()]
    except ImportError:
        return []


class FitWatch:
    """Reports every iteration of a fit to the estimator's callbacks.

    Calling it returns the reason to stop, or None. Without callbacks it costs nothing.
    """

    def __init__(self, estimator):
        self.estimator = estimator
        self.context = None
        self.reason: str | None = None
        if HAS_CALLBACKS and getattr(estimator, "_skl_callbacks", None):
            self.context = estimator._init_callback_context(max_subtasks=None)
            self.context.call_on_fit_task_begin(estimator=estimator)

    def __call__(self, objective: float) -> str | None:
        """Report one iteration."""
        if self.context is None or self.reason is not None:
            return self.reason
        task = self.context.subcontext(task_name="iteration")
        task.call_on_fit_task_begin(estimator=self.estimator)
        if not task.call_on_fit_task_end(estimator=self.estimator):
            return None
        limits = (getattr(c, "expired", False) for c in self.estimator._skl_callbacks)
        # Kept: a fit has several descents, and all of them must end now.
        self.reason = "time" if any(limits) else "callback"
        return self.reason

    def close(self) -> None:
        """Report the end of the fit."""
        if self.context is not None:
            self.context.call_on_fit_task_end(estimator=self.estimator)
