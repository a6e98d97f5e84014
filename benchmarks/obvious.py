"""Data on which anyone sees the clusters: MaxMarginClustering beside scikit-learn's clusterers.

    MAXMARGIN_JOBS=16 python benchmarks/obvious.py [blobs | shapes | arms | many ...]
    MAXMARGIN_SEEDS=5000-5199 python benchmarks/obvious.py shapes

Sections: blobs (200 random sets of separated clouds on which KMeans or GaussianMixture is perfect;
sizes from equal to 50:1, spreads up to 3:1, every fifth with 5 % uniform noise), shapes (rings,
moons and spirals of uneven sizes, also without local metrics), arms (spirals of three arms: the
best settings of others, found with the classes) and many (100 clouds of 10,000 rows). Classes and
numbers of clusters come from the generator; noise is not scored. MAXMARGIN_JOBS sets run at once
(default 1); MAXMARGIN_SEEDS are the first and last seed of the shapes (default 0-59).
"""

import os
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, islice, product
from unittest.mock import patch

import joblib
import numpy as np
from sklearn.cluster import HDBSCAN, KMeans, SpectralClustering
from sklearn.datasets import make_blobs
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture
from threadpoolctl import threadpool_limits

from _data import run_sections, table
from maxmargin import MaxMarginClustering

N_BLOBS, N_SHAPES = 200, 60
SEEDS = os.environ.get("MAXMARGIN_SEEDS", f"0-{N_SHAPES - 1}")
N_ARMS, FIRST_ARM = 24, 6000  # spirals of three arms, from this seed on
NOISE = 0.05
RIGHT, RIGHT_SHAPE = 0.98, 0.95
PERFECT = 0.995  # a few rows lie between the clouds


@dataclass(frozen=True)
class Drawn:
    """A random set: rows, their classes (-1: noise), and the number of clusters."""

    name: str
    X: np.ndarray
    y: np.ndarray
    k: int

    def score(self, labels):
        """Adjusted Rand index on the rows that belong to a cluster."""
        real = self.y >= 0
        return adjusted_rand_score(self.y[real], np.asarray(labels)[real])


def separated(rng, k, d, spreads):
    """Centres at random, each pair at least 4 to 6 spreads apart, more in many columns."""
    apart = 4.0 + 2.0 * rng.random()
    side = 1.0
    while True:
        centers = rng.uniform(-side, side, size=(k, d)) * spreads.mean()
        gaps = np.linalg.norm(centers[:, None] - centers[None], axis=2)
        reach = (spreads[:, None] + spreads[None]) * (1.0 + 0.15 * np.sqrt(d))
        if (gaps + np.eye(k) * 1e9 >= apart * reach / 2).all():
            return centers
        side *= 1.05


def blobs_of(seed):
    """Clouds of random number, size and spread."""
    rng = np.random.default_rng(seed)
    k = int(np.round(np.exp(rng.uniform(np.log(2), np.log(30)))))
    d = int(rng.integers(2, 31))
    ratio = np.exp(rng.uniform(0, np.log(50)))
    shares = ratio ** rng.uniform(0, 1, k)
    shares[:2] = 1.0, ratio  # the ends occur
    n = int(rng.integers(max(300, 30 * k), 3001))
    sizes = np.maximum((n * shares / shares.sum()).astype(int), 12)
    spreads = 3.0 ** (rng.random() * rng.random(k))
    centers = separated(rng, k, d, spreads)
    X = np.concatenate(
        [c + s * rng.normal(size=(m, d)) for c, s, m in zip(centers, spreads, sizes)]
    )
    y = np.repeat(np.arange(k), sizes)
    if seed % 5 == 0:
        count = int(NOISE * len(y))
        X = np.concatenate([X, rng.uniform(X.min(axis=0), X.max(axis=0), size=(count, d))])
        y = np.concatenate([y, np.full(count, -1)])
    return Drawn(f"blobs-{seed} k={k} d={d} {ratio:.0f}:1", X, y, k)


def shapes_of(seed):
    """Two or three rings, two moons or two or three spirals of uneven sizes."""
    rng = np.random.default_rng([1, seed])
    kind = ("rings", "moons", "spirals")[seed % 3]
    k = 2 if kind == "moons" else int(rng.integers(2, 4))
    n = int(rng.integers(400, 2001))
    shares = rng.uniform(1, 4, k)
    parts = []
    for i, m in enumerate((n * shares / shares.sum()).astype(int)):
        t = rng.random(m)
        if kind == "rings":
            radius, angle = 1.0 + i, 2 * np.pi * t
        elif kind == "moons":
            radius, angle = 1.0, np.pi * (t + i)
        else:
            angle = 3 * np.pi * np.sqrt(t) + 0.5
            radius, angle = angle / 3, angle + 2 * np.pi * i / k
        part = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
        if kind == "moons":
            part += [i, 0.5 * i]
        parts.append(part + rng.normal(scale=0.07, size=part.shape))
    y = np.repeat(np.arange(k), [len(part) for part in parts])
    return Drawn(f"{kind}-{seed} k={k} n={n}", np.concatenate(parts), y, k)


def without_clusters_of(seed):
    """One cloud: Gaussian, uniform or heavy-tailed, of any shape."""
    rng = np.random.default_rng([2, seed])
    n, d = int(rng.integers(300, 2001)), int(rng.integers(2, 31))
    kind = ("gauss", "uniform", "tails")[seed % 3]
    draw = {
        "gauss": lambda: rng.normal(size=(n, d)),
        "uniform": lambda: rng.uniform(-1, 1, size=(n, d)),
        "tails": lambda: rng.standard_t(5, size=(n, d)),
    }[kind]
    X = draw() * np.exp(rng.uniform(0, 1, d)) @ np.linalg.qr(rng.normal(size=(d, d)))[0]
    return Drawn(f"{kind}-{seed} k=1 d={d}", X, np.zeros(n, int), 1)


ANCHORS = {
    "KMeans": lambda X, k: KMeans(k, n_init=10, random_state=0).fit_predict(X),
    "mixture": lambda X, k: GaussianMixture(k, n_init=3, random_state=0).fit_predict(X),
    "HDBSCAN": lambda X, k: HDBSCAN(copy=True).fit_predict(X),
}
METHODS = ANCHORS | {
    "maxmargin": lambda X, k: MaxMarginClustering(k, random_state=0).fit(X).labels_
}


def without_local_metrics(X, k):
    """The clusters if connected groups are those of Euclidean distances."""
    with patch("maxmargin.least_squares._connected.AROUND", 0):
        return METHODS["maxmargin"](X, k)


OF_SHAPES = METHODS | {"no local metrics": without_local_metrics}
SETTINGS = {
    "HDBSCAN": [
        HDBSCAN(min_cluster_size=size, min_samples=near, copy=True)
        for size, near in product((5, 10, 20, 30, 40, 60, 80, 100, 120, 150), (1, 3, 5, 10, 20))
    ],
    "spectral": [
        SpectralClustering(3, affinity="nearest_neighbors", n_neighbors=near, random_state=0)
        for near in (3, 5, 8, 10, 15, 20)
    ],
}


def blob_sets(count=N_BLOBS) -> Iterator[Drawn]:
    """Sets on which KMeans or a mixture is perfect."""
    seed = 0
    while count:
        drawn = blobs_of(seed)
        seed += 1
        best = max(drawn.score(ANCHORS[name](drawn.X, drawn.k)) for name in ("KMeans", "mixture"))
        if best > PERFECT:
            count -= 1
            yield drawn


def compared(drawn, names=tuple(METHODS), methods=METHODS):
    """Score and CPU seconds of these methods on one set."""
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = []
        for name in names:
            begin = time.process_time()
            labels = methods[name](drawn.X, drawn.k)
            found.append((drawn.score(labels), time.process_time() - begin))
    return found


def _parallel(work, sets, *args):
    jobs = int(os.environ.get("MAXMARGIN_JOBS", "1"))
    return np.array(joblib.Parallel(jobs)(joblib.delayed(work)(drawn, *args) for drawn in sets))


def _table(title, methods, found, right):
    scores = found[:, :, 0]
    rows = [
        (name, f"{(scores[:, i] > right).mean():.1%}", scores[:, i].mean(), found[:, i, 1].mean())
        for i, name in enumerate(methods)
    ]
    title = f"{len(found)} {title}"
    table(title, ["method", f"ARI > {right}", "mean ARI", "CPU s"], rows, decimals=3)


def _failures(sets, methods, found, right):
    last = list(methods).index("maxmargin")
    for drawn, row in zip(sets, found[:, :, 0]):
        if row[last] <= right:
            print(drawn.name, " ".join(f"{m} {s:.2f}" for m, s in zip(methods, row)))


def blobs():
    sets = list(blob_sets())
    found = _parallel(compared, sets)
    _table("sets of separated blobs", METHODS, found, RIGHT)
    _failures(sets, METHODS, found, RIGHT)


def has_three_arms(drawn):
    """Whether it is a spiral of three arms."""
    return drawn.name.startswith("spirals") and drawn.k == 3


def shapes():
    first, last = map(int, SEEDS.split("-"))
    sets = [shapes_of(seed) for seed in range(first, last + 1)]
    found = _parallel(compared, sets, tuple(OF_SHAPES), OF_SHAPES)
    _table("rings, moons and spirals", OF_SHAPES, found, RIGHT_SHAPE)
    if len(three := found[[has_three_arms(drawn) for drawn in sets]]):
        _table("of them spirals of three arms", OF_SHAPES, three, RIGHT_SHAPE)
    _failures(sets, OF_SHAPES, found, RIGHT_SHAPE)


def best_of(drawn, models):
    """Highest score of these settings on one set."""
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return max(drawn.score(model.fit_predict(drawn.X)) for model in models)


def arms():
    sets = list(islice(filter(has_three_arms, map(shapes_of, count(FIRST_ARM))), N_ARMS))
    rows = []
    for name, models in SETTINGS.items():
        best = _parallel(best_of, sets, models)
        rows.append((f"best of {len(models)} of {name}", f"{(best > RIGHT_SHAPE).mean():.1%}"))
    own = _parallel(compared, sets, ("maxmargin",))[:, 0, 0]
    rows.append(("maxmargin", f"{(own > RIGHT_SHAPE).mean():.1%}"))
    table(f"{N_ARMS} spirals of three arms", ["method", f"ARI > {RIGHT_SHAPE}"], rows)


def many():
    rows = []
    for spread in (0.5, 1.0):
        X, y = make_blobs(10_000, 10, centers=100, cluster_std=spread, random_state=0)
        found = compared(Drawn("many", X, y, 100), ("KMeans", "maxmargin"))
        for name, (score, seconds) in zip(("KMeans(n_init=10)", "maxmargin"), found):
            rows.append((spread, name, score, seconds, seconds / found[0][1]))
    header = ["spread", "method", "ARI", "CPU s", "times KMeans"]
    table("100 clusters, 10,000 rows, 10 columns", header, rows, decimals=3)


SECTIONS = {"blobs": blobs, "shapes": shapes, "arms": arms, "many": many}


if __name__ == "__main__":
    run_sections(SECTIONS, __doc__, UserWarning)
