"""Long LAPACK calls that Ctrl-C can leave."""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread
from typing import Any

LONG_ROWS = 400  # up to this a factorisation takes a small fraction of a second


def interruptible(rows: int, work: Callable, *args, **kwargs) -> Any:
    """``work(*args, **kwargs)``, in a thread of its own where it may take long.

    LAPACK does not look for signals. The calling thread waits instead, and leaves at once when it
    is interrupted; the call then ends on its own and its result is dropped. The work must not hold
    the interpreter's lock, as scipy.linalg does; see `maxmargin.engine.lapack`.

    Examples
    --------
    >>> interruptible(5000, sum, [1, 2, 3])
    6
    """
    if rows <= LONG_ROWS:
        return work(*args, **kwargs)
    outcome: dict[str, Any] = {}

    def run():
        try:
            outcome["result"] = work(*args, **kwargs)
        except BaseException as error:
            outcome["error"] = error

    thread = Thread(target=run, daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(0.1)
    if "error" in outcome:
        raise outcome["error"]
    return outcome["result"]
