r"""A few known labels: label-free similarities, believed as far as they predict the labels.

.. math::
    F_h = S_h[:, L]\, (S_h[L, L] + \nu I)^{-1} (Y - m) + m, \qquad
    P = \sum_h w_h\, \mathrm{softmax}(F_h / T_h)

L are the rows whose labels are known, Y their indicators, m the shares of the classes among them.
Every S_h is a mean of similarities: kernels, graphs of nearest neighbours, and common clusters of
fits without labels. Models are judged by their leave-one-out predictions of the known labels,

.. math::
    \mathrm{loo}_i = y_i - \big([A^{-1} Y]_i - m_{-i} [A^{-1} 1]_i\big) / [A^{-1}]_{ii},
    \qquad A = S_h[L, L] + \nu I.

The temperature T_h maximises their log-likelihood, and the weights w that of their weighted mean,
with a prior that is worth a few labels: few labels average the models, many select some that
complement one another. Nothing is searched for, and no size of a class is assumed.

The row to label next is the one whose label is expected to change the answer most:

.. math::
    \mathrm{change}_i = \sum_j u_j\, C_{ji}^2 / (C_{ii} + \nu), \qquad
    C = S - S[:, L]\, (S[L, L] + \nu I)^{-1} S[L, :]

S is the mean of the similarities with the weights that the known labels L support. C is the
covariance of scores given these labels, and :math:`C_{ji}^2 / (C_{ii} + \nu)` the expected squared
change of the score of row j by the label of row i. Changes count for rows whose class is uncertain,
:math:`u_j = 1 - |P_j|^2`. C does not depend on the answer, so that a batch of rows is chosen one
after the other.

=========================================  =====================================================
what                                       function
=========================================  =====================================================
similarities S of three families           :func:`_similarities`
mixtures, ridges nu and shares m           :func:`believed` (``_label_models.py``)
leave-one-out predictions                  :func:`held_out` (``_label_models.py``)
weights w                                  :func:`stacked` (``_label_models.py``)
P for any row                              :class:`LabelledMap`
the rows to label next                     :func:`informative_columns`
=========================================  =====================================================
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import softmax

from .._core.dedup import FitInput
from .._core.descent import CONVERGED
from .._core.links import Groups, settled_groups
from .._core.model import Model
from .._core.rows import Rows
from ._graph import MixedMap, MixedTile, graph_similarity, mixed_map
from ._label_models import CLUSTERS, GRAPH, KERNEL, RIDGES, Believed, Part, believed
from ._settings import Details, Settings, neighbour_count
from ._similarity import factor_dtype, filled_matrix, kernel_map
from ._unlabelled import cluster_without_labels, unlabelled_cluster

FLOAT64 = np.dtype(np.float64)
SMOOTHNESS = (10.0, 100.0)  # of the graphs
FINER = (1, 2, 4)  # clusters for each class in the fits without labels
ROWS_PER_CLUSTER = 5  # finer clusterings have at least so many on average
MOST_LABELLED = 1000  # known rows in the models: their cost grows with the cube
MISTAKEN = 5.0  # odds against a known label from which on it is doubted
CANDIDATES = 500  # random rows among which the next ones to label are selected
RIDGE = float(np.sqrt(np.prod(RIDGES)))  # nu of the changes


@dataclass(frozen=True)
class LabelledMap:
    """The map from raw rows to the probabilities of the classes."""

    maps: tuple[MixedMap, ...]
    # (r, n_models * k): coefficients of all models on the features of each map
    columns: tuple[np.ndarray, ...]
    constants: np.ndarray  # (n_models * k,)
    temperatures: np.ndarray  # (n_models,)
    weights: np.ndarray  # (n_models,)
    scale: float = 1.0
    dtype: np.dtype = FLOAT64

    @property
    def landmarks(self) -> Any:
        """Rows that others are compared with."""
        return self.maps[0].landmarks

    @property
    def metric(self) -> MixedMap:
        """The map whose distances tell how isolated a row is."""
        return self.maps[-1]

    @property
    def rank(self) -> int:
        """Number of classes."""
        return len(self.constants) // len(self.weights)

    def rows(self, X: Any, n_jobs: int = 1) -> Rows:
        """Return the probabilities as Rows, computed tile by tile."""
        return Rows(X, n_jobs=n_jobs, features=self)

    def tile(self, X: Any) -> LabelledTile:
        """Return a tile of raw rows."""
        return LabelledTile(self, X, self.metric.own_places(X))

    def probabilities(self, F: np.ndarray) -> np.ndarray:
        """Return the mean of the models' probabilities for their scores (n, n_models * k)."""
        scores = F.reshape(len(F), len(self.weights), -1) / self.temperatures[:, None]
        return np.einsum("ihc,h->ic", softmax(scores, axis=2), self.weights)


class LabelledTile(MixedTile):
    """A tile whose features are probabilities."""

    def scores_and_neighbours(self, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Products of the probabilities and columns (k, c), and the nearest landmarks."""
        F = self.map.constants
        for fmap, own in zip(self.map.maps, self.map.columns):
            part, neighbours = fmap.tile(self.X, self.own).scores_and_neighbours(own)
            F = F + part
        return self.map.probabilities(F) @ columns, neighbours


def fit_known_labels(data: FitInput, s: Settings) -> Model:
    """Return a model of the classes of which some labels are known; each class has at least one."""
    groups = None if data.links is None else settled_groups(data.links, data.known)
    if groups is not None:
        data = replace(data, known=groups.spread(data.known))
    free = label_free(data, s)
    chosen, weights, known = free.chosen, free.weights, data.known[free.chosen]
    labelled = labelled_rows(known, data.rng)
    parts = list(_similarities(free, labelled, data.n_jobs))
    models = believed(parts, known[labelled], weights[labelled], labelled, s.n_clusters)
    fmap = _labelled_map(free.maps, parts, models, labelled, weights)
    held = None
    if groups is not None:
        place = np.full(len(data.weights) + 1, -1)
        place[chosen] = linked_labels(groups.part(chosen), fmap, free.X, known)
        held = place[data.inverse]
    share = weights[labelled] / weights[labelled].sum()
    own = models.left_out[np.arange(len(labelled)), known[labelled]]
    objective = float(-share @ np.log(np.maximum(own, 1e-300)))
    accuracy = float(share @ (models.left_out.argmax(axis=1) == known[labelled]))
    unnamed = unlabelled_cluster(free.clusterings, weights, labelled, data.source[chosen])
    doubted = np.flatnonzero(models.left_out.max(axis=1) > MISTAKEN * own)
    doubted = doubted[np.argsort(own[doubted])]
    return Model(
        fmap,
        coef=np.eye(s.n_clusters),
        intercept=np.zeros(s.n_clusters),
        paths=np.eye(s.n_clusters),
        objective=objective,
        history=[objective],
        n_iter=1,
        stop_reason=getattr(data.watch, "reason", None) or CONVERGED,
        extras={
            "leave_one_out_": accuracy,
            "fitted_indices_": data.source[chosen],
            "_calibration": Probabilities(),
            "label_mistakes_": np.stack(
                [data.source[chosen][labelled[doubted]], models.left_out[doubted].argmax(axis=1)],
                axis=1,
            ),
        },
        held=held,
        scores=np.full((len(data.inverse), s.n_clusters), np.nan) if data.X.in_memory else None,
        details=KnownDetails(chosen, _sentences(parts, models, accuracy, unnamed), unnamed),
    )


@dataclass(frozen=True)
class LabelFree:
    """What does not depend on labels: the rows of the fit, their clusters and their maps."""

    chosen: np.ndarray
    X: Any
    weights: np.ndarray
    clusterings: list[np.ndarray]
    maps: tuple[MixedMap, ...]


def label_free(data: FitInput, s: Settings) -> LabelFree:
    """Cluster the rows of the fit without labels, and return what similarities are made of."""
    chosen = data.chosen(s.max_samples, s.precomputed)
    X = data.X.take(slice(None) if len(chosen) == data.X.shape[0] else chosen)
    weights = data.weights[chosen]
    clusterings, first = _without_labels(X, weights, data, s)
    dense = bool(getattr(first.features, "dense", False))
    maps = tuple(_maps(X.toarray() if dense else X, X, weights, dense, first, data, s))
    return LabelFree(chosen, X, weights, clusterings, maps)


@dataclass(frozen=True)
class Probabilities:
    """The calibration of scores that are probabilities."""

    def of_scores(self, scores: np.ndarray, own: np.ndarray) -> np.ndarray:
        """Return the scores."""
        return scores


@dataclass(frozen=True)
class KnownDetails:
    """Results of a fit to known labels other than the model."""

    chosen: np.ndarray
    told: list[str]  # sentences about the fit
    unnamed: str | None  # the sentence about a class that may have no known labels
    # There is no other clustering, and all constraints are used with the same weight.
    others: tuple = ()
    link_weight: str | None = None
    doubted: tuple = ()
    neighbours: None = None

    places = Details.places

    def sentences(self, _data: FitInput, _extras: dict[str, Any]) -> list[str]:
        """Return the sentences about the fit."""
        return self.told


def _sentences(parts: list[Part], models: Believed, right: float, unnamed: str | None) -> list[str]:
    family = np.array([part.family for part in parts])
    mixed = models.weights @ (models.mixtures / models.mixtures.sum(axis=1, keepdims=True))
    kernels, graphs, common = (mixed[family == f].sum() for f in (KERNEL, GRAPH, CLUSTERS))
    sentences = [
        f"{len(models.left_out)} known labels set the weights of the similarities: kernels "
        f"{kernels:.0%}, nearest neighbours {graphs:.0%}, clusters found without labels "
        f"{common:.0%}.",
        f"Leave-one-out accuracy on the known labels: {right:.0%}.",
    ]
    return sentences if unnamed is None else [*sentences, unnamed]


def linked_labels(groups: Groups, fmap: LabelledMap, X: Any, known: np.ndarray) -> np.ndarray:
    """Return the most probable labels of linked rows that keep the links; -1 for other rows.

    The surest groups come first; later ones avoid the classes of those they must be apart from.
    """
    rows = np.flatnonzero(groups.linked())
    of_row = groups.of_row[rows]
    P = fmap.tile(X[rows]).scores(np.eye(fmap.rank))
    logs = np.zeros((groups.of_row.max() + 1, fmap.rank))
    np.add.at(logs, of_row, np.log(np.maximum(P, 1e-300)))
    decided = known[rows] >= 0
    logs[of_row[decided], known[rows][decided]] = np.inf
    best = np.sort(logs, axis=1)
    lead = best[:, -1] - best[:, -2]
    apart: dict[int, list[int]] = {}
    for a, b in groups.apart.tolist():
        apart.setdefault(a, []).append(b)
        apart.setdefault(b, []).append(a)
    labels = np.full(len(logs), -1)
    for group in np.unique(of_row)[np.argsort(-lead[np.unique(of_row)], kind="stable")].tolist():
        taken = labels[apart.get(group, [])]
        allowed = logs[group].copy()
        allowed[taken[taken >= 0]] = -np.inf
        labels[group] = int((allowed if allowed.max() > -np.inf else logs[group]).argmax())
    found = np.full(len(known), -1)
    found[rows] = labels[of_row]
    return found


def labelled_rows(known: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return the rows whose labels are used: all, or a random choice with the same shares."""
    rows = np.flatnonzero(known >= 0)
    if len(rows) <= MOST_LABELLED:
        return rows
    rows = rng.permutation(rows)
    # Class by class, the same share of each, and at least one row.
    rows = rows[np.argsort(known[rows], kind="stable")]
    starts = np.searchsorted(known[rows], np.unique(known[rows]))
    even = np.linspace(0, len(rows) - 1, MOST_LABELLED).astype(np.int64)
    return np.sort(rows[np.union1d(even, starts)])


def _without_labels(
    X: Any, weights: np.ndarray, data: FitInput, s: Settings
) -> tuple[list[np.ndarray], Model]:
    """Return clusterings into k, 2 k and 4 k clusters, and the model of the first."""
    found: list[np.ndarray] = []
    first, n = None, len(weights)
    for times, rng in zip(FINER, data.rng.spawn(len(FINER))):
        k = max(times * s.n_clusters, 2)
        if found and k * ROWS_PER_CLUSTER > n:
            break
        settings = replace(
            s,
            n_clusters=k,
            n_init=s.n_init if times == 1 else 2,
            n_kicks=s.n_kicks if times == 1 else 0,
            spreads=s.spreads and times == 1,
            time_budget=None if s.time_budget is None else s.time_budget / len(FINER),
        )
        labels, model = cluster_without_labels(X, weights, replace(data, rng=rng), settings)
        first = first or model
        found.append(labels)
    assert first is not None
    return found, first


# -- similarities ----------------------------------------------------------------------------------


def _maps(
    rows: Any, X: Any, weights: np.ndarray, dense: bool, first: Model, data: FitInput, s: Settings
) -> Iterator[MixedMap]:
    """Yield the map of the raw rows, and that of the metric of the clusters if they have one."""
    count = neighbour_count(len(weights), s.n_clusters)
    axes = first.features.axes
    rng, kernel = data.rng, s.kernels[0]
    half = kernel_map(rows, weights, rng, s, kernel)
    kernels = [half]
    if kernel == "rbf":
        gamma = half.params["gamma"]
        kernels += [replace(half, params={"gamma": times * gamma}) for times in (4.0, 0.25)]
        kernels.append(kernel_map(rows, weights, rng, s, "linear"))
    yield mixed_map(kernels, X, count, dense)
    if axes is not None and kernel == "rbf":
        both = [kernel_map(rows, weights, rng, s, name, axes) for name in ("rbf", "linear")]
        yield mixed_map(both, X, count, dense)


def _similarities(free: LabelFree, labelled: np.ndarray, n_jobs: int) -> Iterator[Part]:
    """Yield all similarities to the labelled rows."""
    X, weights = free.X, free.weights
    n, share = len(weights), weights / weights.sum()
    dtype = np.dtype(factor_dtype(n, min(RIDGES)))
    roots = np.sqrt(weights)
    for at, fmap in enumerate(free.maps):
        rows = X.toarray() if fmap.dense and sparse.issparse(X) else X
        K, neighbours = fmap.first_kernel(rows, dtype, n_jobs)
        for number, kernel in enumerate(fmap.kernels):
            if number > 0:
                K = filled_matrix(n, dtype, lambda some: kernel.kernel_values(rows[some]), n_jobs)  # noqa: B023
            yield from _kernel_parts(K, share, labelled, at, number, kernel.kernel == "cosine")
        for smoothness in SMOOTHNESS[: None if at == 0 else 1]:
            S = graph_similarity(neighbours, weights, dtype.type, smoothness)
            scale = float(share @ (np.diag(S) / weights))
            columns = S[:, labelled] / (scale * roots[:, None] * roots[labelled])
            yield Part(GRAPH, columns, at)
    for clusters in free.clusterings:
        sizes = np.bincount(clusters, share)
        scale = 1.0 - float(sizes @ sizes)
        if scale > 1e-9:
            same = (clusters[:, None] == clusters[labelled]).astype(np.float64)
            own = sizes[clusters]
            same -= own[:, None] + own[labelled] - float(sizes @ sizes)
            yield Part(CLUSTERS, same / scale, 0)


def _kernel_parts(
    K: np.ndarray, share: np.ndarray, labelled: np.ndarray, at: int, number: int, squared: bool
) -> Iterator[Part]:
    """Yield the centred kernel and, if wanted, its square."""
    means = (K @ share.astype(K.dtype)).astype(np.float64)
    level = float(share @ means)
    scale = float(share @ (np.diag(K) - 2.0 * means + level))
    if scale <= 0:
        return
    columns = K[:, labelled] - means[:, None] - means[labelled] + level
    yield Part(KERNEL, columns / scale, at, number, means, level, scale)
    if squared:
        spread = share[:, None] * columns
        # The diagonal of the square: sums of squares of the rows of the centred kernel.
        centred = K - means[:, None] - means + level
        norm = float(share @ (centred**2 @ share))
        square = centred @ spread
        yield Part(KERNEL, square / norm, at, number, means, level, norm, spread)


# -- the map -----------------------------------------------------------------------------------


def _labelled_map(
    maps: tuple[MixedMap, ...], parts: list[Part], models: Believed, labelled: np.ndarray,
    weights: np.ndarray,
) -> LabelledMap:  # fmt: skip
    """Return the map whose coefficients are those of all models."""
    n, share = len(weights), weights / weights.sum()
    count, _, k = models.dual.shape
    columns = [np.zeros((fmap.rank, count * k)) for fmap in maps]
    constants = models.shares.ravel().copy()
    for j, part in enumerate(parts):
        scaled = models.mixtures[:, j, None, None] * models.dual
        dual = scaled.transpose(1, 0, 2).reshape(len(labelled), count * k)
        block = columns[part.map]
        if part.family != KERNEL:
            block[len(maps[part.map].kernels) * n :] += part.columns @ dual
            continue
        assert part.means is not None
        if part.spread is None:
            E = np.zeros((n, count * k))
            E[labelled] = dual / part.scale
        else:
            E = part.spread @ dual / part.scale
        total = E.sum(axis=0)
        block[part.number * n : (part.number + 1) * n] += E - share[:, None] * total
        constants += part.level * total - part.means @ E
    return LabelledMap(maps, tuple(columns), constants, models.temperatures, models.weights)


# -- which row to label next -----------------------------------------------------------------------


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
    """Rows to ask about, and their similarities, which do not depend on labels."""

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
            self.parts = list(_similarities(self.free, self.columns, self.data.n_jobs))
        self.at = np.searchsorted(self.columns, used)
        if len(used):
            own = [replace(part, columns=part.columns[:, self.at]) for part in self.parts]
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

    ``columns`` are the rows that the columns of the parts are about, ``known`` the numbers of those
    whose labels the models know, and ``closed`` says which ones are not to be asked about.
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
