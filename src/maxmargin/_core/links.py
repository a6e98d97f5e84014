"""Links between rows as plain arrays, for the methods that use them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

# Range of positive weights of rows and links in which sums and ratios keep their precision.
LIGHTEST, HEAVIEST = 1e-12, 1e12


@dataclass(frozen=True)
class Links:
    """Pairs of rows that belong together or apart.

    Unlike in :class:`~maxmargin.PairwiseConstraints`, both rows of a pair may be the same, because
    equal rows are merged.

    Attributes
    ----------
    first, second : ndarray of shape (L,), int
    same : ndarray of shape (L,), bool
        True for a must-link, False for a cannot-link.
    weights : ndarray of shape (L,)
    """

    first: np.ndarray
    second: np.ndarray
    same: np.ndarray
    weights: np.ndarray

    def __len__(self) -> int:
        return len(self.first)

    def take(self, keep: np.ndarray) -> Links:
        """Return the selected links.

        Examples
        --------
        >>> links = Links(*np.array([[0, 1], [2, 3]]), np.array([True, False]), np.ones(2))
        >>> links.take(links.same).second
        array([2])
        """
        return Links(self.first[keep], self.second[keep], self.same[keep], self.weights[keep])

    def mapped(self, places: np.ndarray) -> Links:
        """Return the links with row i renumbered to places[i]; -1 removes the links of a row."""
        first, second = places[self.first], places[self.second]
        keep = (first >= 0) & (second >= 0)
        return Links(first[keep], second[keep], self.same[keep], self.weights[keep])

    def rows(self) -> np.ndarray:
        """Rows that occur in a link, ascending."""
        return np.unique(np.concatenate([self.first, self.second]))

    def satisfied(self, labels: np.ndarray) -> np.ndarray:
        """Return whether labels satisfy each link.

        Examples
        --------
        >>> links = Links(np.array([0, 0]), np.array([1, 2]), np.array([True, False]), np.ones(2))
        >>> links.satisfied(np.array([0, 0, 0]))
        array([ True, False])
        """
        return (labels[self.first] == labels[self.second]) == self.same

    def accuracy(self, labels: np.ndarray) -> float:
        """Return the weighted fraction of links that labels satisfy; NaN without links."""
        if len(self) == 0:
            return float("nan")
        return float(np.average(self.satisfied(labels), weights=self.weights))


def checked_count(n_samples) -> int:
    """A number of rows, or an error."""
    if isinstance(n_samples, bool) or not isinstance(n_samples, int | np.integer) or n_samples < 0:
        raise ValueError(f"n_samples must be a whole number of at least 0, got {n_samples!r}.")
    return int(n_samples)


def checked_pairs(pairs: Any, name: str, n: int) -> np.ndarray:
    """Pairs of two different rows of n, or an error that names what is wrong."""
    given = np.asarray(pairs if isinstance(pairs, np.ndarray | Sequence) else list(pairs))
    if given.size == 0:
        return np.empty((0, 2), np.int64)
    if given.ndim != 2 or given.shape[1] != 2 or given.dtype.kind not in "iuf":
        raise ValueError(
            f"{name} must be pairs of row numbers, an array of shape (m, 2); got shape "
            f"{given.shape} of {given.dtype}."
        )
    whole = given.astype(np.int64)
    if not np.array_equal(whole, given):
        bad = int(np.flatnonzero((whole != given).any(axis=1))[0])
        raise ValueError(f"{name} must hold whole row numbers, got {given[bad].tolist()}.")
    outside = np.flatnonzero(((whole < 0) | (whole >= n)).any(axis=1))
    if len(outside):
        raise ValueError(
            f"{name}[{outside[0]}] = {tuple(whole[outside[0]].tolist())}: row numbers must lie "
            f"between 0 and n_samples - 1 = {n - 1}."
        )
    itself = np.flatnonzero(whole[:, 0] == whole[:, 1])
    if len(itself):
        raise ValueError(f"{name}[{itself[0]}] links row {whole[itself[0], 0]} with itself.")
    return whole


def checked_weights(weights: Any, name: str, pairs: np.ndarray) -> np.ndarray:
    """Weights of the pairs, or an error that names the first bad one."""
    if weights is None:
        return np.ones(len(pairs))
    given = np.asarray(weights, float)
    if given.ndim == 0:
        given = np.full(len(pairs), float(given))
    if given.shape != (len(pairs),):
        raise ValueError(
            f"{name} must have one entry for each of {len(pairs)} links, got shape {given.shape}."
        )
    bad = np.flatnonzero(~((given >= LIGHTEST) & (given <= HEAVIEST)))
    if len(bad):
        raise ValueError(
            f"{name} must be positive numbers between {LIGHTEST:g} and {HEAVIEST:g}; the link "
            f"between rows {' and '.join(map(str, pairs[bad[0]].tolist()))} has {given[bad[0]]}."
        )
    return given


def recut(pairs, weights, rows, order) -> tuple[np.ndarray, np.ndarray]:
    """Pairs between the chosen ``rows``, numbered by their places; ``order`` sorts the rows."""
    sorted_rows = rows[order]
    begin = np.searchsorted(sorted_rows, pairs)
    counts = np.searchsorted(sorted_rows, pairs, side="right") - begin
    # A row chosen c times and another chosen d times have c d pairs.
    times = counts.prod(axis=1)
    link = np.repeat(np.arange(len(pairs)), times)
    within = np.arange(len(link)) - np.repeat(np.cumsum(times) - times, times)
    first = begin[link, 0] + within // np.maximum(counts[link, 1], 1)
    second = begin[link, 1] + within % np.maximum(counts[link, 1], 1)
    return np.stack([order[first], order[second]], axis=1).reshape(-1, 2), weights[link]


def random_pairs(n: int, count: int, random) -> np.ndarray:
    """Distinct pairs of n rows, in random order, the smaller row first."""
    possible = n * (n - 1) // 2
    if possible <= 4 * count or possible <= 10_000:
        codes = random.permutation(possible)[:count]
    else:
        codes = np.empty(0, np.int64)
        while len(codes) < count:
            more = random.randint(0, possible, size=2 * (count - len(codes)) + 8, dtype=np.int64)
            together = np.concatenate([codes, more])
            codes = together[np.sort(np.unique(together, return_index=True)[1])]
        codes = codes[:count]
    # Code of (a, b) with a < b: b (b - 1) / 2 + a.
    second = np.floor((1.0 + np.sqrt(1.0 + 8.0 * codes)) / 2.0).astype(np.int64)
    second -= second * (second - 1) // 2 > codes
    second += (second + 1) * second // 2 <= codes
    return np.stack([codes - second * (second - 1) // 2, second], axis=1)
