"""Nearest neighbours by a table of closeness, compiled."""

from numba import njit


@njit(cache=True, nogil=True)
def nearest(closeness, first, out):
    """Fill ``out`` (rows, count) with the columns of the largest entries of every row.

    Row i is column ``first + i`` itself, which is left out (``first`` < 0: none is). Of equal
    entries the first columns count.
    """
    rows, columns = closeness.shape
    count = out.shape[1]
    for i in range(rows):
        own = first + i if first >= 0 else -1
        held = 0
        least = closeness[i, 0]
        for j in range(columns):
            value = closeness[i, j]
            if (held == count and value <= least) or j == own:
                continue
            place = held if held < count else count - 1
            while place > 0 and closeness[i, out[i, place - 1]] < value:
                out[i, place] = out[i, place - 1]
                place -= 1
            out[i, place] = j
            if held < count:
                held += 1
            least = closeness[i, out[i, held - 1]]


@njit(cache=True, nogil=True)
def neighbour_means(neighbours, own, values, out):
    """Fill ``out`` with the means of the neighbours' values, or a row's own where it has one."""
    count = neighbours.shape[1]
    for i in range(neighbours.shape[0]):
        for h in range(values.shape[1]):
            if own[i] >= 0:
                out[i, h] = values[own[i], h]
            else:
                total = values[neighbours[i, 0], h]
                for j in range(1, count):
                    total += values[neighbours[i, j], h]
                out[i, h] = total / count
