"""Compiled decisions: the best cluster of every row and its lead over the next best."""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def decide(margins, labels, lead):
    """Write the place of each row's largest margin, the first of equal ones, and its lead.

    With one cluster the lead is the margin itself.
    """
    n, k = margins.shape
    for i in range(n):
        own, best, second = 0, margins[i, 0], -np.inf
        for p in range(1, k):
            value = margins[i, p]
            larger = value > best
            second = best if larger else max(second, value)
            own = p if larger else own
            best = value if larger else best
        labels[i] = own
        lead[i] = best - second if k > 1 else best
