"""The only module that imports experimental or version-dependent parts of scikit-learn."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any, Self

from sklearn.utils._param_validation import Interval, StrOptions

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # scikit-learn < 1.9

    class _Task:
        """Context of a fit or of one of its iterations: it calls the callbacks."""

        def __init__(self, callbacks: list[Any]) -> None:
            self.callbacks = callbacks

        def subcontext(self, task_name: str) -> _Task:
            """Context of a part of this task."""
            return _Task(self.callbacks)

        def call_on_fit_task_begin(self, estimator: Any) -> None:
            """Report the start of the task."""
            for callback in self.callbacks:
                callback.on_fit_task_begin(estimator, self)

        def call_on_fit_task_end(self, estimator: Any) -> bool:
            """Report the end of the task; return whether a callback requests a stop."""
            # Every callback is called, even if the first one requests a stop.
            answers = [callback.on_fit_task_end(estimator, self) for callback in self.callbacks]
            return any(answers)

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """The part of scikit-learn's class of the same name that the estimators use."""

        def set_callbacks(self, *callbacks: Any) -> Self:
            """Set the callbacks of subsequent fits; without arguments, remove them.

            Parameters
            ----------
            *callbacks : objects
                With the methods ``setup``, ``on_fit_task_begin``, ``on_fit_task_end`` and
                ``teardown``, each with the arguments ``estimator`` and ``context``.

            Returns
            -------
            self : estimator
                The estimator.
            """
            hooks = ("setup", "on_fit_task_begin", "on_fit_task_end", "teardown")
            for callback in callbacks:
                if isinstance(callback, type) or not all(hasattr(callback, h) for h in hooks):
                    raise TypeError(
                        f"callbacks must be objects with the methods {', '.join(hooks)}, "
                        f"got {callback!r}."
                    )
            self.__dict__.pop("_skl_callbacks", None)
            if callbacks:
                self._skl_callbacks = list(callbacks)
            return self

        def _init_callback_context(self, max_subtasks: Any = None) -> Any:
            self._callback_fit_ctx = _Task(self._skl_callbacks)
            self._skl_callbacks_to_teardown = []
            for callback in self._skl_callbacks:
                self._skl_callbacks_to_teardown.append(callback)
                callback.setup(self, self._callback_fit_ctx)
            return self._callback_fit_ctx

    def with_callbacks(method: Callable[..., Any]) -> Any:
        """Call the callbacks' ``teardown`` when the method ends."""

        @functools.wraps(method)
        def managed(estimator: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                return method(estimator, *args, **kwargs)
            finally:
                context = estimator.__dict__.pop("_callback_fit_ctx", None)
                for callback in estimator.__dict__.pop("_skl_callbacks_to_teardown", []):
                    callback.teardown(estimator, context)

        return managed


__all__ = [
    "CallbackSupportMixin",
    "FitWatch",
    "Interval",
    "StrOptions",
    "TimeLimit",
    "progress_callbacks",
    "with_callbacks",
]


class TimeLimit:
    """Callback that stops a fit after a number of seconds and keeps the best state so far.

    Parameters
    ----------
    seconds : float
        Wall-clock time after which the fit stops at the end of its current iteration.

    See Also
    --------
    MaxMarginClustering : Has the parameter time_budget.

    Examples
    --------
    >>> from maxmargin import AlternatingMarginClustering, TimeLimit
    >>> model = AlternatingMarginClustering().set_callbacks(TimeLimit(60))
    """

    def __init__(self, seconds: float) -> None:
        if not seconds > 0:
            raise ValueError(f"seconds must be a positive number, got {seconds!r}.")
        self.seconds = seconds
        self._deadline = float("inf")
        self.expired = False

    def setup(self, estimator: Any, context: Any) -> None:
        """Start the clock.

        Parameters
        ----------
        estimator, context : object
            Not used.
        """
        self._deadline, self.expired = time.monotonic() + self.seconds, False

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None:
        """Do nothing.

        Parameters
        ----------
        estimator, context : object
            Not used.
        """

    def on_fit_task_end(self, estimator: Any, context: Any) -> bool:
        """Request a stop once the time limit is exceeded.

        Parameters
        ----------
        estimator, context : object
            Not used.

        Returns
        -------
        bool
            Whether to stop.
        """
        self.expired = time.monotonic() > self._deadline
        return self.expired

    def teardown(self, estimator: Any, context: Any) -> None:
        """Do nothing.

        Parameters
        ----------
        estimator, context : object
            Not used.
        """


def progress_callbacks() -> list[Any]:
    """Return a progress bar, if scikit-learn >= 1.9 and rich are installed."""
    try:
        from sklearn.callback import ProgressBar

        return [ProgressBar()]
    except ImportError:  # scikit-learn < 1.9, or no rich
        return []


class FitWatch:
    """Reports every iteration of a fit to the estimator's callbacks.

    Calling it returns the reason to stop, or None. Without callbacks it costs nothing.
    """

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator
        self.context = None
        self.reason: str | None = None
        if getattr(estimator, "_skl_callbacks", None):
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
        # Kept, because a fit has several descents, and all of them must stop now.
        self.reason = "time" if any(limits) else "callback"
        return self.reason

    def close(self) -> None:
        """Report the end of the fit."""
        if self.context is not None:
            self.context.call_on_fit_task_end(estimator=self.estimator)
