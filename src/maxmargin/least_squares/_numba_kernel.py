"""Compiled passes over kernel values of new rows: nearest fitted rows, and scores by a Gaussian.

Kernel values of a strip of rows are made, searched and multiplied while they are in a processor's
cache, and a whole tile of rows in one call, so that threads seldom meet at the interpreter's lock.
The loops are written for the vectoriser and without branches that depend on the data: a processor
guesses such branches wrongly, which took most of the time of a search.
"""

import numpy as np
from numba import njit, types
from numba.extending import overload

U = np.uint64  # unsigned places spare the check for negative ones
# Lanes of a row that the largest entries are found of, and their groups, which bound the search.
LANES, GROUPS = 64, 32
MOST_CANDIDATES = 64  # beyond the bound; more of them are equal or share lanes

# -- the exponential function ----------------------------------------------------------------------
# numpy's cannot be called by compiled code, and that of a C library takes one number at a time.
#
# exp(x) = 2^n exp(r) with n = round(x / log 2) and |r| <= log(2) / 2, where a Taylor series of
# degree 7 (13 in float64) is exact to the last bit. Adding SHIFT rounds to an integer, which is
# then in the lowest bits. log 2 is the sum of two numbers, so that n times the first one is exact.

SERIES = tuple(1.0 / float(np.prod(np.arange(1.0, i + 1))) for i in range(14))
SERIES32 = tuple(np.float32(coefficient) for coefficient in SERIES[:8])
PER_LOG2, PER_LOG2_32 = 1.0 / np.log(2.0), np.float32(1.0 / np.log(2.0))
LOG2, REST = 6.93145751953125e-1, 1.428606820309417e-6
LOG2_32, REST_32 = np.float32(355 / 512), np.float32(-2.1219444e-4)
SHIFT, SHIFT_32 = 1.5 * 2**52, np.float32(1.5 * 2**23)
LOWEST, LOWEST_32 = -708.0, np.float32(-87.0)  # below, the result is no normal number


def _exponential(value):
    """Return exp(value) of a value that is not positive; 0 below the smallest normal number."""


@overload(_exponential, inline="always")
def _exponential_compiled(value):
    def single(value):
        x = max(value, LOWEST_32)
        shifted = x * PER_LOG2_32 + SHIFT_32
        n = shifted - SHIFT_32
        r, c = x - n * LOG2_32 - n * REST_32, SERIES32
        series = (((c[7] * r + c[6]) * r + c[5]) * r + c[4]) * r + c[3]
        series = ((series * r + c[2]) * r + c[1]) * r + c[0]
        bits = np.float32(series).view(np.int32) + (np.float32(shifted).view(np.int32) << 23)
        return np.float32(0.0) if value < LOWEST_32 else np.int32(bits).view(np.float32)

    def double(value):
        x = max(value, LOWEST)
        shifted = x * PER_LOG2 + SHIFT
        n = shifted - SHIFT
        r, c = x - n * LOG2 - n * REST, SERIES
        series = (((c[13] * r + c[12]) * r + c[11]) * r + c[10]) * r + c[9]
        series = (((series * r + c[8]) * r + c[7]) * r + c[6]) * r + c[5]
        series = ((((series * r + c[4]) * r + c[3]) * r + c[2]) * r + c[1]) * r + c[0]
        bits = np.float64(series).view(np.int64) + (np.float64(shifted).view(np.int64) << 52)
        return 0.0 if value < LOWEST else np.int64(bits).view(np.float64)

    return single if value == types.float32 else double


@njit(cache=True, nogil=True, fastmath={"contract"})
def exponentials(table):
    """Replace every entry by its exponential; positive entries, which rounding makes, by 1."""
    zero = table.dtype.type(0.0)
    for i in range(table.shape[0]):
        row = table[i]
        for j in range(row.shape[0]):
            row[j] = _exponential(zero if row[j] > zero else row[j])


# -- nearest neighbours by a table of closeness ----------------------------------------------------


@njit(cache=True, nogil=True)
def nearest(closeness, first, out):
    """Fill ``out`` (rows, count) with the columns of the largest entries of every row.

    Row i is column ``first + i`` itself, which is left out (``first`` < 0: none is). Of equal
    entries the first columns count.
    """
    columns, count = closeness.shape[1], out.shape[1]
    maxima, groups = np.empty(LANES, closeness.dtype), np.empty(GROUPS, closeness.dtype)
    values, above = np.empty(MOST_CANDIDATES, closeness.dtype), np.empty(GROUPS, np.int32)
    lanes, places = np.empty(LANES + 1, np.int64), np.empty(columns + 1, np.int64)
    for i in range(closeness.shape[0]):
        row, found = closeness[i], out[i]
        for j in range(count):
            found[j] = 0  # remains if entries are no numbers
        own, kept = first + i if first >= 0 else -1, row[0]
        if own >= 0:
            kept, row[own] = row[own], -np.inf
        held = MOST_CANDIDATES + 1
        if count <= GROUPS:
            bound = _lower_bound(row, count, maxima, groups, above)
            held = _candidates(row, own, bound, maxima, lanes, places)
        if held > MOST_CANDIDATES:
            _search_in_order(row, own, found)
        else:
            _sort_candidates(row, places[:held], values, found)
        if own >= 0:
            row[own] = kept


@njit(cache=True, nogil=True)
def _lower_bound(row, count, maxima, groups, above):
    """Return the count-th largest of the maxima of GROUPS groups: so many entries are as large.

    ``maxima`` receives the maxima of every LANES-th entry.
    """
    for lane in range(len(maxima)):
        maxima[lane] = -np.inf
    for start in range(0, len(row), LANES):
        part = row[start : start + LANES]
        for lane in range(len(part)):
            maxima[lane] = part[lane] if part[lane] > maxima[lane] else maxima[lane]
    first, second = maxima[:GROUPS], maxima[GROUPS:]
    for lane in range(len(groups)):
        groups[lane] = first[lane] if first[lane] > second[lane] else second[lane]
        above[lane] = 0
    for value in groups:
        for lane in range(len(above)):
            above[lane] += value > groups[lane]
    bound = groups.dtype.type(np.inf)
    for lane in range(len(above)):
        value = groups[lane] if above[lane] < count else bound
        bound = value if value < bound else bound
    return bound


@njit(cache=True, nogil=True)
def _candidates(row, own, bound, maxima, lanes, places):
    """Fill in the places of the entries from the bound on; return their number."""
    used, held = U(0), U(0)
    for lane in range(LANES):
        lanes[used] = lane
        used += U(maxima[lane] >= bound)
    for lane in lanes[:used]:
        for j in range(U(lane), U(len(row)), U(LANES)):
            places[held] = j
            held += U((row[j] >= bound) & (j != U(own)))
    return held


@njit(cache=True, nogil=True)
def _sort_candidates(row, places, values, found):
    """Fill in the places of the largest entries, by the number of those before each."""
    for a in range(len(places)):
        values[a] = row[places[a]]
    for a in range(len(places)):
        value, place, rank = values[a], places[a], 0
        for b in range(len(places)):
            rank += (values[b] > value) | ((values[b] == value) & (places[b] < place))
        if rank < len(found):
            found[rank] = place


@njit(cache=True, nogil=True)
def _search_in_order(row, own, found):
    """Fill in the places of the largest entries by insertion, which many equal ones keep short."""
    count, held = len(found), 0
    for j in range(len(row)):
        if j == own or (held == count and not row[j] > row[found[held - 1]]):
            continue
        place = min(held, count - 1)
        while place > 0 and row[found[place - 1]] < row[j]:
            found[place] = found[place - 1]
            place -= 1
        found[place] = j
        held = min(held + 1, count)


# -- tiles of new rows -----------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def gaussian_tile(points, landmarks, root, size, columns, neighbours, out):
    """Fill ``out`` with ``exp(-|root x - root l|^2) columns``, and in the nearest landmarks.

    Both go strip by strip of ``size`` rows. Either is left out if it has no columns.
    """
    count, width = len(landmarks), points.shape[1] + 2
    left, right = np.empty((size, width), out.dtype), np.empty((count, width), out.dtype)
    table = np.empty((size, count), out.dtype)
    _with_squares(landmarks, root, np.int64(1), right)
    for start in range(0, len(points), size):
        held = min(size, len(points) - start)
        _with_squares(points[start : start + held], root, np.int64(2), left)
        np.dot(left[:held], right.T, table[:held])
        if neighbours.shape[1]:
            nearest(table[:held], np.int64(-1), neighbours[start : start + held])
        if columns.shape[1]:
            exponentials(table[:held])
            np.dot(table[:held], columns, out[start : start + held])


@njit(cache=True, nogil=True)
def _with_squares(points, root, times, out):
    """Fill in a side of (2x, -|x|^2, 1)'(l, 1, -|l|^2) = -|x - l|^2: the left one for 2 times.

    Points are multiplied by ``root`` first.
    """
    width, factor = points.shape[1], out.dtype.type(times)
    to_square, to_one = width + 2 - times, width + times - 1
    for i in range(len(points)):
        point, row, square = points[i], out[i], out.dtype.type(0.0)
        for j in range(width):
            value = out.dtype.type(root * point[j])
            row[j] = factor * value
            square += value * value
        row[to_square], row[to_one] = -square, 1.0


@njit(cache=True, nogil=True)
def find_marks(marks, known, places, out):
    """Fill in the places of the known marks (m, 2), in ascending order, that are equal; else -1."""
    for i in range(len(marks)):
        low, rest = 0, len(known)
        while rest > 1:
            half = rest // 2
            low += half * (known[low + half - 1, 0] < marks[i, 0])
            rest -= half
        same = known[low, 0] == marks[i, 0] and known[low, 1] == marks[i, 1]
        out[i] = places[low] if same else -1


@njit(cache=True, nogil=True)
def distances_to(points, landmarks, places, out):
    """Fill in the distances of points to the landmarks at these places."""
    for i in range(len(points)):
        point, landmark, total = points[i], landmarks[places[i]], 0.0
        for j in range(len(point)):
            total += (point[j] - landmark[j]) ** 2
        out[i] = np.sqrt(total)


@njit(cache=True, nogil=True)
def add_neighbour_means(neighbours, own, values, out):
    """Add the means of the neighbours' values to ``out``, or a row's own value where it has one."""
    some, count = np.zeros(values.shape[1], values.dtype), values.dtype.type(neighbours.shape[1])
    for i in range(neighbours.shape[0]):
        near = neighbours[i]
        for j in range(len(near) if own[i] < 0 else 0):
            row = values[near[j]]
            for h in range(len(some)):
                some[h] += row[h]
        for h in range(len(some)):
            out[i, h] += some[h] / count if own[i] < 0 else values[own[i], h]
            some[h] = 0.0
