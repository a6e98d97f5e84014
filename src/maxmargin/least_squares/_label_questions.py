r"""Which row to label next: the one whose label is expected to change the answer most.

.. math::
    \mathrm{change}_i = \sum_j u_j\, C_{ji}^2 / (C_{ii} + \nu), \qquad
    C = S - S[:, L]\, (S[L, L] + \nu I)^{-1} S[L, :]

P are the probabilities of ``_few_labels.py``, S the mean of its similarities with the weights that
the known labels L support. C is the covariance of scores given the labels L, and
:math:`C_{ji}^2 / (C_{ii} + \nu)` the expected squared change of the score of row j by the label of
row i. Changes count for rows whose class is uncertain, :math:`u_j = 1 - |P_j|^2`. C does not depend
on the answer, so that a batch of rows is chosen one after the other.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.special import softmax

from .._core.dedup import FitInput
from ._few_labels import label_free, labelled_rows
from ._label_models import RIDGES, Believed, Part, believed
from ._settings import Settings

CANDIDATES = 500  # random rows among which the next ones to label are selected
RIDGE = float(np.sqrt(np.prod(RIDGES)))


def label_probabilities(parts: list[Part], models: Believed) -> np.ndarray:
    """Return the probabilities of the classes of all rows; columns of parts are labelled rows."""
    P = np.zeros((len(parts[0].columns), models.shares.shape[1]))
    for mixture in np.unique(models.mixtures, axis=0):
        S = _mixed(parts, mixture)
        for h in np.flatnonzero((models.mixtures == mixture).all(axis=1)):
            F = S @ models.dual[h] + models.shares[h]
            P += models.weights[h] * softmax(F / models.temperatures[h], axis=1)
    return P


class LabelQuestions:
    """Rows to ask about, and their similarities, which do not depend on labels.

    Parameters
    ----------
    data : FitInput
    s : Settings
    """

    def __init__(self, data: FitInput, s: Settings) -> None:
        self.free, self.data, self.k = label_free(data, s), data, s.n_clusters
        n = len(self.free.chosen)
        # The place of each of the user's rows among the rows of the models, -1 if it is not there.
        places = np.full(len(data.weights) + 1, -1)
        places[self.free.chosen] = np.arange(n)
        self.place = places[data.inverse]
        self.columns = np.sort(data.rng.choice(n, min(n, CANDIDATES), replace=False))
        self.parts: list[Part] = []

    def update(self, known: np.ndarray) -> np.ndarray:
        """Fit the models to known labels, and return the probabilities of the classes."""
        self.known = np.full(len(self.free.chosen), -1)
        rows = np.flatnonzero((known >= 0) & (self.place >= 0))
        self.known[self.place[rows]] = known[rows]
        self.k = max(self.k, int(known.max()) + 1)
        self.P, self.models = np.full((len(self.known), self.k), 1.0 / self.k), None
        used = labelled_rows(self.known, np.random.default_rng(0))
        if not self.parts or not np.isin(used, self.columns).all():
            self.columns = np.union1d(self.columns, used)
            self.parts = self.free.parts(self.columns, self.data.n_jobs)
        self.at = np.searchsorted(self.columns, used)
        if len(used):
            own = of_columns(self.parts, self.at)
            labels, weights = self.known[used], self.free.weights[used]
            self.models = believed(own, labels, weights, used, self.k)
            self.P = label_probabilities(own, self.models)
            known_rows = np.flatnonzero(self.known >= 0)
            self.P[known_rows] = np.eye(self.k)[self.known[known_rows]]
        return self.P

    def most_informative(self, asked: list[int], count: int) -> np.ndarray:
        """Return rows of the user to ask about next, other than those asked about."""
        closed = (self.known[self.columns] >= 0) | np.isin(self.columns, self.place[asked])
        given = self.parts, self.columns, self.models, self.P, self.at, closed, count
        return self.data.source[self.free.chosen[self.columns[informative_columns(*given)]]]

    def labels(self, known: np.ndarray) -> np.ndarray:
        """Return the classes of the user's rows; -1 for rows that are not in the models."""
        if (known >= 0).any():
            found = self.update(known).argmax(axis=1)
        else:
            found = self.free.clusterings[0]
        return np.where(self.place >= 0, found[self.place], -1)


def informative_columns(
    parts: list[Part],
    columns: np.ndarray,
    models: Believed | None,
    P: np.ndarray,
    known: np.ndarray,
    closed: np.ndarray,
    count: int,
) -> np.ndarray:
    """Return numbers of the columns to label next, the most informative first.

    Parameters
    ----------
    columns : ndarray
        The rows that the columns of the parts are about.
    models : Believed or None
        None without known labels.
    P : ndarray of shape (n, k)
    known : ndarray
        Numbers of the columns whose labels the models know.
    closed : ndarray of bool
        Whether each column is not to be asked about.
    """
    shares = np.full(len(parts), 1.0 / len(parts))
    C = _mixed(parts, shares if models is None else models.weights @ models.mixtures)
    for column in known:
        _condition(C, columns, column)
    uncertain = 1.0 - (P**2).sum(axis=1)
    open_columns = ~closed
    found: list[int] = []
    while len(found) < count and open_columns.any():
        own = np.maximum(C[columns, np.arange(len(columns))], 0.0)
        changes = uncertain @ C**2 / (own + RIDGE)
        column = int(np.where(open_columns, changes, -1.0).argmax())
        found.append(column)
        open_columns[column] = False
        _condition(C, columns, column)
    return np.array(found, np.int64)


def _mixed(parts: list[Part], shares: np.ndarray) -> np.ndarray:
    S = np.zeros(parts[0].columns.shape)
    for share, part in zip(shares, parts):
        if share:
            S += share * part.columns
    return S


def _condition(C: np.ndarray, columns: np.ndarray, column: int) -> None:
    """Turn C into the C after the label of one more column is known."""
    row = C[columns[column]].copy()
    C -= np.outer(C[:, column] / (row[column] + RIDGE), row)


def of_columns(parts: list[Part], columns: np.ndarray) -> list[Part]:
    """Return the parts with some of their columns."""
    return [replace(part, columns=part.columns[:, columns]) for part in parts]
