"""Compiled functions on arrays: ``njit(cache=True, nogil=True)``, never ``parallel=True``."""

import sys
import threading
from typing import Any

from numba.core import event


class _Interrupts(event.Listener):
    """Raises KeyboardInterrupt for a Ctrl-C during compilation by LLVM.

    LLVM passes its code to numba in a callback, in which Python ignores exceptions, including
    KeyboardInterrupt; numba then lacks the code and raises a RuntimeError. Here the ignored
    exception is recorded and raised when numba is done. Only the main thread receives Ctrl-C.
    """

    depth = 0
    dropped = False

    def on_start(self, event: Any) -> None:
        """Note exceptions that are dropped from now on."""
        if threading.current_thread() is threading.main_thread():
            if self.depth == 0:
                self.hook, sys.unraisablehook = sys.unraisablehook, self.note
            self.depth += 1

    def on_end(self, event: Any) -> None:
        """Raise what was dropped."""
        if threading.current_thread() is threading.main_thread():
            self.depth -= 1
            if self.depth == 0:
                sys.unraisablehook = self.hook
            if self.dropped:
                self.dropped = False
                raise KeyboardInterrupt

    def note(self, unraisable: Any) -> None:
        """Note KeyboardInterrupt; leave everything else to the earlier hook."""
        if issubclass(unraisable.exc_type, KeyboardInterrupt):
            self.dropped = True
        else:
            self.hook(unraisable)


event.register("numba:compiler_lock", _Interrupts())
