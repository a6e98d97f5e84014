"""Long LAPACK calls that Ctrl-C can interrupt."""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread
from typing import Any

LONG_ROWS = 400  # up to this a factorisation takes a small fraction of a second


def interruptible(rows: int, work: Callable, *args, **kwargs) -> Any:
    """Return ``work(*args, **kwargs)``, computed in a separate thread if it may take long.

    LAPACK does not check for signals. The calling thread waits and returns immediately when it is
    interrupted; the result of the call is then discarded. The work must not hold the global
    interpreter lock, as scipy.linalg does; see `maxmargin._core.lapack`.

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
