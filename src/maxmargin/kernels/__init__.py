"""Compiled functions on arrays: ``njit(cache=True, nogil=True)``, never ``parallel=True``."""
