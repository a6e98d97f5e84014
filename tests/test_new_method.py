"""What CONTRIBUTING promises: a newcomer writes ``_fit_model``, and everything else is there."""

import inspect
import itertools

import dask.array as da
import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import make_blobs

from maxmargin import open_rows
from maxmargin._base import SHARED_CONSTRAINTS, BaseMarginClustering
from maxmargin._core.descent import descend
from maxmargin._core.model import Model
from maxmargin._core.rows import cluster_means, scores
from maxmargin._data import torch as device
from maxmargin.metrics import adjusted_rand_score


class NearestMeanClustering(BaseMarginClustering):
    """k-means in feature space is a linear model too: a mean m has the score z'm - |m|^2 / 2."""

    kernel, gamma, degree, coef0, n_components = "linear", "median", 3, 1, "auto"
    verbose, random_state, n_jobs = 0, None, None
    _parameter_constraints = {"n_clusters": SHARED_CONSTRAINTS["n_clusters"]}  # noqa: RUF012

    def __init__(self, n_clusters=2):
        self.n_clusters = n_clusters

    def _fit_model(self, data):
        fmap, rows = self._features(data)
        stage = Stage(rows, data.weights, self.n_clusters)
        found = descend(stage, stage.of(rows.take(np.arange(20)).values()), max_iter=99, tol=0.0)
        means, _, value = found.state
        return Model(fmap, means, -0.5 * (means**2).sum(axis=1), np.eye(self.n_clusters), value,
                     found.history, found.n_iter, found.stop_reason)  # fmt: skip


class Stage:
    """Lloyd's two steps."""

    def __init__(self, rows, weights, k):
        self.rows, self.weights, self.k = rows, weights, k

    def of(self, candidates):
        """Start from the candidates that are farthest apart."""
        apart = max(itertools.combinations(candidates, self.k), key=lambda c: np.ptp(c, 0).sum())
        return self.labelled(np.array(apart))

    def labelled(self, means):
        lead = scores(self.rows, means) - 0.5 * (means**2).sum(axis=1)
        return means, lead.argmax(axis=1), -float(self.weights @ lead.max(axis=1))

    def step(self, state):
        return self.labelled(cluster_means(self.rows, state[1], self.weights, self.k))

    def objective(self, state):
        return state[2]

    def change(self, old, new):
        return float(np.mean(old[1] != new[1]))


X, Y = make_blobs(12_000, n_features=3, centers=2, cluster_std=0.5, random_state=0)


def in_a_file(tmp_path):
    np.save(tmp_path / "X.npy", X)
    return open_rows(tmp_path / "X.npy")


def on_a_device(_):
    import array_api_strict

    return array_api_strict.asarray(X)


STORAGE = {
    "memory": lambda _: X,
    "csr": lambda _: sparse.csr_array(X),
    "file": in_a_file,
    "dask": lambda _: da.from_array(X, chunks=(5000, 3)),
    "device": on_a_device,
}


def test_the_method_is_short():
    code = inspect.getsource(NearestMeanClustering) + inspect.getsource(Stage)
    assert sum(bool(line.strip()) for line in code.splitlines()) <= 40


@pytest.mark.parametrize("storage", STORAGE)
def test_a_method_of_forty_lines_goes_wherever_rows_are(storage, tmp_path):
    rows = STORAGE[storage](tmp_path)
    model = NearestMeanClustering().fit(rows)
    labels = np.asarray(device.to_host(model.labels_))
    assert adjusted_rand_score(Y, labels) == 1.0
    assert (np.asarray(device.to_host(model.predict(rows))) == labels).all()
    assert (model.predict(X[:7]) == labels[:7]).all()
    assert model.history_ == sorted(model.history_, reverse=True)
    assert model.cluster_sizes_.tolist() == [6000, 6000]


def test_weights_known_labels_and_bad_input_come_with_the_base():
    weights = np.where(Y == 1, 2.0, 0.0)
    weights[:100] = 1.0
    known = np.full(len(X), -1)
    known[0] = 1
    model = NearestMeanClustering().fit(X, sample_weight=weights, partial_labels=known)
    assert model.labels_[0] == 1
    assert model.cluster_sizes_.sum() == pytest.approx(weights.sum())
    with pytest.raises(ValueError, match="n_samples=1 should be >= n_clusters=2"):
        NearestMeanClustering().fit(X[:1])
    with pytest.raises(ValueError, match="NaN"):
        NearestMeanClustering().fit(np.full((4, 2), np.nan))
