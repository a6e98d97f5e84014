"""Models of known labels on similarities, and how much each is believed: see ``_few_labels.py``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import log_softmax, softmax

RIDGES = (0.03, 0.3)
PSEUDO = (0.0, 1.0, np.inf)  # labels added to each class before its share is taken
TEMPERATURES = np.geomspace(0.02, 5.0, 48)
# Logarithms of the prior weights of the mean of all similarities, of a family, and of one kernel.
FOR_ALL, FOR_FAMILY, FOR_ONE = 1.0, 0.0, -2.0
PRIOR_LABELS = 3.0  # known labels that the prior weights are worth
ROUNDS = 200
NEGLIGIBLE = 0.02  # weight, relative to the largest, of models that are left out
KERNEL, GRAPH, CLUSTERS = 0, 1, 2


@dataclass(frozen=True)
class Part:
    """One similarity S, centred on both sides, of mean diagonal 1, on the labelled columns."""

    family: int
    columns: np.ndarray  # (m, n_labelled): S[:, L]
    # map, number: the map and, for a kernel, its number there; others are carried to new rows by
    # neighbours
    map: int
    number: int = 0
    # means, level, scale: (m,): weighted means of the rows of the kernel, their mean, and what S
    # was divided by
    means: np.ndarray | None = None
    level: float = 0.0
    scale: float = 1.0
    spread: np.ndarray | None = None  # (m, n_labelled): for the square of a kernel, S = K_c spread


@dataclass(frozen=True)
class Believed:
    """The models that the known labels support."""

    mixtures: np.ndarray  # (n_models, n_parts): share of each similarity
    dual: np.ndarray  # (n_models, n_labelled, k): A^-1 (Y - m)
    shares: np.ndarray  # (n_models, k): m
    temperatures: np.ndarray  # (n_models,)
    weights: np.ndarray  # (n_models,)
    # (n_labelled, k): leave-one-out probabilities of the labelled rows by all models together
    left_out: np.ndarray


def believed(
    parts: list[Part], known: np.ndarray, weights: np.ndarray, labelled: np.ndarray, k: int
) -> Believed:
    """Return the models and how much each is believed."""
    Y = (known[:, None] == np.arange(k)).astype(np.float64)
    counts = weights @ Y
    found = []
    for mixture, prior in _mixtures(np.array([part.family for part in parts])):
        S = sum(c * p.columns[labelled].astype(np.float64) for c, p in zip(mixture, parts) if c)
        for ridge in RIDGES:
            inverse = np.linalg.inv(S + ridge * np.diag(1.0 / weights))
            for pseudo in PSEUDO:
                m = class_shares(counts, pseudo)
                without = class_shares(counts - weights[:, None] * Y, pseudo)
                loo = held_out(inverse, Y, without)
                logs = np.array([_log_own(loo / t, known) for t in TEMPERATURES]) @ weights
                best = int(logs.argmax())
                t = TEMPERATURES[best]
                own = _log_own(loo / t, known)
                found.append((own, prior, mixture, inverse @ (Y - m), m, t, loo))
    logs, priors = np.stack([f[0] for f in found]), np.array([f[1] for f in found])
    w = stacked(logs, priors, weights)
    keep = np.flatnonzero(w > NEGLIGIBLE * w.max())
    w = w[keep] / w[keep].sum()
    mixtures, dual, shares, temperatures, loo = (
        np.stack([found[i][j] for i in keep]) for j in range(2, 7)
    )
    left_out = np.einsum("hic,h->ic", softmax(loo / temperatures[:, None, None], axis=2), w)
    return Believed(mixtures, dual, shares, temperatures, w, left_out)


def stacked(logs: np.ndarray, priors: np.ndarray, counts: np.ndarray) -> np.ndarray:
    r"""Return the weights of models whose mean predicts held-out labels best, and the prior.

    Maximises :math:`\sum_i n_i \log \sum_h w_h p_{hi} + a \sum_h v_h \log w_h` by expectation and
    maximisation: ``logs`` are log p (n_models, n_labelled), ``priors`` the logarithms of the prior
    weights v of ``PRIOR_LABELS`` a, up to a constant, and ``counts`` the weights n of the labels.
    """
    prior = softmax(priors)
    w = prior
    for _ in range(ROUNDS):
        shares = softmax(np.log(w)[:, None] + logs, axis=0) @ counts + PRIOR_LABELS * prior
        w = shares / shares.sum()
    return np.asarray(w)


def _mixtures(family: np.ndarray) -> Iterator[tuple[np.ndarray, float]]:
    """Yield shares of the similarities, and the logarithms of their prior weights."""
    yield np.full(len(family), 1.0 / len(family)), FOR_ALL
    kernels = (family == KERNEL) / max((family == KERNEL).sum(), 1)  # none if all rows are equal
    if kernels.any():
        yield kernels, FOR_FAMILY
    for name, little, of in ((GRAPH, 0.05, kernels), (CLUSTERS, 0.1, None)):
        own = family == name
        if own.any():
            others = ~own / max((~own).sum(), 1) if of is None else of
            yield own / own.sum() + little * others, FOR_FAMILY
    for one in np.flatnonzero(family == KERNEL):
        yield np.eye(len(family))[one], FOR_ONE


def class_shares(counts: np.ndarray, pseudo: float) -> np.ndarray:
    """Return shares of the classes with so many labels added to each.

    Examples
    --------
    >>> class_shares(np.array([3.0, 1.0]), 1.0).round(2)
    array([0.67, 0.33])
    >>> class_shares(np.array([0.0, 0.0]), 0.0)
    array([0.5, 0.5])
    """
    k = counts.shape[-1]
    if np.isinf(pseudo):
        return np.full(counts.shape, 1.0 / k)
    total = np.maximum(counts, 0.0) + pseudo
    whole = total.sum(axis=-1, keepdims=True)
    return np.where(whole > 0, total / np.where(whole > 0, whole, 1.0), 1.0 / k)


def held_out(inverse: np.ndarray, Y: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Return leave-one-out predictions from A^-1; row i of shares leaves out label i, too."""
    own = np.diag(inverse)[:, None]
    ones = inverse.sum(axis=1)[:, None]
    return np.asarray(Y - (inverse @ Y - shares * ones) / own)


def _log_own(scores: np.ndarray, known: np.ndarray) -> np.ndarray:
    return np.asarray(log_softmax(scores, axis=1)[np.arange(len(known)), known])
