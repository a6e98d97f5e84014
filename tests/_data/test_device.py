"""Rows on a device: block functions in other array namespaces against those in numpy.

Every run has ``array_api_strict``, which refuses what the standard does not have. torch on the CPU,
and on a GPU with the fused kernel, are tried if they are there.
"""

import builtins
import subprocess
import sys
from dataclasses import replace
from importlib.util import find_spec
from itertools import pairwise
from types import SimpleNamespace

import array_api_strict
import numpy as np
import pytest
from sklearn.datasets import make_blobs

from maxmargin import (
    AlternatingMarginClustering,
    CuttingPlaneMarginClustering,
    LeastSquaresMarginClustering,
    MaxMarginClustering,
    MultipleKernelMarginClustering,
    PairwiseMarginClustering,
)
from maxmargin._core.features import centred_rows, fit_features
from maxmargin._core.kernels import evaluate_kernel
from maxmargin._core.model import Model, label_block, margin_block, trained
from maxmargin._core.rows import Block, Rows, cluster_means, scores, weighted_gram, weighted_sum
from maxmargin._data.source import MemoryRows
from maxmargin._data.torch import DeviceRows, TensorRows, as_tensor, is_tensor
from maxmargin.constraints import PairwiseConstraints
from maxmargin.cutting_plane._cuts import LabelledCuts, device_pass
from maxmargin.cutting_plane._search import SAMPLE_ROWS
from maxmargin.least_squares._similarity import kernel_map, make_similarity
from maxmargin.metrics import adjusted_rand_score
from maxmargin.persistence import load_model, save_model

HAS_TORCH = find_spec("torch") is not None
if HAS_TORCH:
    import torch
needs_torch = pytest.mark.skipif(not HAS_TORCH, reason="torch is not installed")
HAS_GPU = HAS_TORCH and torch.cuda.is_available()
needs_gpu = pytest.mark.skipif(not HAS_GPU, reason="no CUDA device")
TENSORS = [pytest.param("cpu", marks=needs_torch), pytest.param("cuda", marks=needs_gpu)]
DEVICES = ["strict", *TENSORS]
K = 4
N = 11_000  # more than are merged, which is done in memory


@pytest.fixture(scope="module")
def data():
    X, _ = make_blobs(N, 6, centers=K, cluster_std=3.0, random_state=0)
    return X + 3.0


@pytest.fixture
def weights(data):
    return np.random.default_rng(1).integers(1, 4, len(data)).astype(np.float64)


def on_device(X, device):
    """Rows on a device, whatever their number."""
    if device == "strict":
        return DeviceRows(array_api_strict.asarray(X), array_api_strict)
    return TensorRows(torch.from_numpy(X).to(device))


@pytest.fixture(params=DEVICES)
def on(request):
    return lambda X: on_device(X, request.param)


def host(array):
    return array.cpu().numpy() if hasattr(array, "cpu") else np.asarray(array)


def close(found, expected, tolerance):
    """Every entry within a tolerance (``pytest.approx`` takes seconds for a million of them)."""
    return np.shape(found) == np.shape(expected) and np.abs(found - expected).max() <= tolerance


def written_rule(S, weights, fixed, intercept, prices):
    """Labels, codes, matrix and sums of the cut, row by row as the rule says."""
    n, k = S.shape
    labels, codes, matrix = np.zeros(n, int), np.zeros(n, int), np.zeros((n, k))
    losses = np.zeros(n)
    for i in range(n):
        row = S[i] + intercept
        own = fixed[i] if fixed[i] >= 0 else int((row + prices).argmax())
        others = row.copy()
        others[own] = -np.inf
        rival = int(others.argmax())
        losses[i] = max(0.0, 1.0 + others[rival] - row[own])
        labels[i] = own
        if losses[i] > 0:
            codes[i] = rival + 1
            matrix[i, own], matrix[i, rival] = weights[i], -weights[i]
    sizes = np.bincount(labels, weights, minlength=k)
    sums = [weights @ losses, weights[losses > 0].sum(), *sizes, *matrix.sum(axis=0)]
    return labels, codes, matrix, np.array(sums)


def check_cut_pass(device, n, d, k, dtype, weighted, some_fixed):
    rng = np.random.default_rng(n + d + k)
    X, W = rng.normal(size=(n, d)).astype(dtype), rng.normal(size=(k, d)).astype(dtype) / d**0.5
    intercept, prices = rng.normal(size=(2, k)).astype(dtype) * 0.3
    weights = rng.random(n).astype(dtype) if weighted else np.ones(n, dtype)
    fixed = rng.integers(-1, k, n).astype(np.int8) if some_fixed else np.full(n, -1, np.int8)
    rows = on_device(X, device)
    block = Block(xp=rows.xp).of(rows.array)
    rule = rows.send(weights), rows.send(fixed), prices
    given = block, W, intercept, rule, np.int8
    made, codes, found, sums = (host(a) for a in device_pass(*given))
    # The oracle works on the device's own labels where two scores are equal but for rounding.
    exact = X.astype(np.float64) @ W.T.astype(np.float64)
    labels = made.astype(int)
    own, code, matrix, expected = written_rule(exact, weights, fixed, intercept, prices)
    assert (labels != own).mean() < 1e-3
    assert (codes != code).mean() < 2e-3
    own, code, matrix, expected = written_rule(exact, weights, labels, intercept, prices)
    doubt = float(weights[codes != code].sum())
    tight = 1e-5 if dtype is np.float32 else 1e-12
    assert sums == pytest.approx(expected, rel=tight, abs=2 * doubt + tight * n)
    scale = np.abs(matrix).T @ np.abs(X)
    assert np.abs(found - matrix.T @ X.astype(np.float64)).max() <= (
        tight * scale.max() + 10 * doubt
    )


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("weighted, some_fixed", [(False, False), (True, True)])
@pytest.mark.parametrize("n, d, k", [(3000, 7, 3), (2001, 128, 10), (500, 33, 17)])
def test_the_pass_follows_the_rule(device, n, d, k, dtype, weighted, some_fixed):
    check_cut_pass(device, n, d, k, dtype, weighted, some_fixed)


@needs_gpu
@pytest.mark.parametrize("n", [1, 63, 64, 100_001])
@pytest.mark.parametrize("d, k", [(2, 2), (64, 32), (100, 10), (101, 10), (256, 10), (300, 40)])
def test_the_fused_pass_at_the_edges(n, d, k):
    check_cut_pass("cuda", n, d, k, np.float32, True, True)
    check_cut_pass("cuda", n, d, k, np.float32, False, False)


@needs_gpu
def test_the_fused_pass_has_the_same_bits_every_time():
    rng = np.random.default_rng(0)
    rows = on_device(rng.normal(size=(300_000, 64)).astype(np.float32), "cuda")
    W, none = rng.normal(size=(5, 64)), np.zeros(5)
    rule = rows.send(np.ones(300_000)), rows.send(np.full(300_000, -1)), none
    block = Block(xp=rows.xp).of(rows.array)
    found = [device_pass(block, W, none, rule, np.int8) for _ in range(3)]
    for other in found[1:]:
        assert all(torch.equal(a, b) for a, b in zip(found[0], other))


def test_products_equal_numpy(data, on):
    rng = np.random.default_rng(0)
    offset, W, w = data.mean(axis=0), rng.normal(size=(3, 6)), rng.random(len(data))
    rows, Z = Rows(on(data), offset, 1.7), (data - offset) * 1.7
    assert close(scores(rows, W), Z @ W.T, 1e-10)
    assert weighted_sum(rows, w)[0] == pytest.approx(w @ Z, abs=1e-7)
    assert weighted_sum(rows, np.broadcast_to(0.5, len(w)))[0] == pytest.approx(
        Z.sum(axis=0) / 2, abs=1e-7
    )
    assert weighted_gram(rows, w) == pytest.approx((Z * w[:, None]).T @ Z, rel=1e-10)
    labels = rng.integers(0, 3, len(w))
    expected = np.stack(
        [np.average(Z[labels == c], axis=0, weights=w[labels == c]) for c in range(3)]
    )
    assert cluster_means(rows, labels, w, 3) == pytest.approx(expected, abs=1e-10)
    _, centre, scale = centred_rows(Rows(data), w)
    there = centred_rows(Rows(on(data)), w)
    assert there[1] == pytest.approx(centre, rel=1e-12)
    assert there[2] == pytest.approx(scale, rel=1e-12)
    few = np.array([3, N - 1, 17])
    assert scores(rows.take(few), W) == pytest.approx(Z[few] @ W.T, abs=1e-10)
    assert scores(rows.part(few), W) == pytest.approx(Z[few] @ W.T, abs=1e-10)


@pytest.mark.parametrize("far", [False, True])
def test_looks_and_moves_equal_those_in_memory(data, weights, on, far):
    """Three cuts with free labels: every pass moves rows, and the cuts follow."""
    X = data + 1e6 * far
    rng = np.random.default_rng(2)
    known = np.where(rng.random(len(X)) < 0.01, rng.integers(0, K, len(X)), -1)
    centred, _, _ = centred_rows(Rows(X), weights)
    here = LabelledCuts(centred, weights, known, K)
    there = LabelledCuts(replace(centred, source=on(X)), weights, known, K)
    for _ in range(3):
        coef, intercept, prices = rng.normal(size=(K, 6)), rng.normal(size=K), rng.random(K)
        evaluations = [cuts.evaluate(coef, intercept, prices) for cuts in (here, there)]
        for cuts, found in zip((here, there), evaluations):
            cuts.adopt(found)
            cuts.add(found)
        assert (host(there.labels) == here.labels).all()
        assert (host(evaluations[1].codes) == evaluations[0].codes).all()
        assert evaluations[1].loss == pytest.approx(evaluations[0].loss, rel=1e-9)
        assert evaluations[1].vector == pytest.approx(evaluations[0].vector, abs=1e-9)
        assert there.pool.vectors == pytest.approx(here.pool.vectors, abs=1e-9)
        assert there.pool.gains == pytest.approx(here.pool.gains, rel=1e-9)
        assert there.shares == pytest.approx(here.shares, abs=1e-9)


@pytest.mark.parametrize("paths", [np.eye(3), np.array([[-1.0, 0.0], [1.0, -1.0], [1.0, 1.0]])])
def test_decisions_equal_those_in_memory(data, weights, on, paths):
    rng = np.random.default_rng(3)
    coef, levels = rng.normal(size=(paths.shape[1], 6)), rng.normal(size=paths.shape[1])
    known = np.where(rng.random(len(data)) < 0.1, rng.integers(0, 3, len(data)), -1)
    features = SimpleNamespace(landmarks=(), rows=lambda X, n_jobs: Rows(X))
    fitted, model = Model(features, coef, levels, paths), (coef, levels, paths)
    for columns in (
        (np.broadcast_to(1.0, len(data)), np.broadcast_to(-1, len(data))),
        (weights, known),  # known labels that contradict the model's
    ):
        here, there = (trained(fitted, X, *columns, 1) for X in (MemoryRows(data), on(data)))
        assert (host(there.labels) == here.labels).all()
        assert close(host(there.lead), here.lead, 1e-9)
        assert there.sizes == pytest.approx(here.sizes, rel=1e-12)
        assert (there.first == here.first).all()
        assert (there.exemplars == here.exemplars).all()
        assert there.ties == here.ties
    source, view = on(data), Rows(data).block
    here = MemoryRows(data)
    found = host(source.map(margin_block, view, model, 3))
    assert close(found, here.map(margin_block, view, model, 3), 1e-9)
    found = host(source.map(label_block, view, model))
    assert (found == here.map(label_block, view, model)).all()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly", "sigmoid", "laplacian", "cosine"])
def test_kernels_equal_those_in_memory(kernel, device):
    X, Y = np.random.default_rng(0).normal(size=(2, 30, 5))
    params = {"gamma": 0.3} if kernel in ("rbf", "poly", "sigmoid", "laplacian") else {}
    params |= {"coef0": 1.0} if kernel in ("poly", "sigmoid") else {}
    params |= {"degree": 3} if kernel == "poly" else {}
    rows = on_device(X, device)
    there = evaluate_kernel(rows.array, rows.send(Y), kernel, params, rows.xp)
    assert host(there) == pytest.approx(evaluate_kernel(X, Y, kernel, params), rel=1e-10)


def test_mapped_features_equal_those_in_memory(data, on):
    how = {"kernel": "rbf", "params": {"gamma": 0.01}, "n_components": 20}
    ones = np.broadcast_to(1.0, len(data))
    fmap, rows = fit_features(MemoryRows(data), ones, rng=np.random.default_rng(0), **how)
    other, there = fit_features(on(data), ones, rng=np.random.default_rng(0), **how)
    W = np.random.default_rng(1).normal(size=(2, rows.shape[1]))
    assert close(scores(there, W), scores(rows, W), 1e-6)
    assert close(scores(other.rows(on(data)), W), scores(rows, W), 1e-6)
    assert other.scale == pytest.approx(fmap.scale, rel=1e-9)


MODELS = [
    CuttingPlaneMarginClustering(K, n_init=2, random_state=0),
    CuttingPlaneMarginClustering(K, kernel="rbf", n_components=20, n_init=2, random_state=0),
    AlternatingMarginClustering(2, kernel="linear", loss="squared", n_init=2, random_state=0),
    AlternatingMarginClustering(3, kernel="linear", loss="squared", n_init=2, random_state=0),
]


@pytest.mark.parametrize("model", MODELS, ids=lambda m: f"{type(m).__name__}-{m.kernel}")
def test_a_fit_on_a_device_is_the_fit_in_memory(data, on, model):
    here = model.fit(data)
    labels, coef, sizes = here.labels_, here.coef_, here.cluster_sizes_
    X = on(data)
    there = model.fit(X)
    assert type(there.labels_) is type(X.array[:, 0])
    found = host(there.labels_)
    assert adjusted_rand_score(labels, found) > 0.999
    assert np.abs(there.coef_ - coef).max() < 1e-3 * np.abs(coef).max()
    assert (there.cluster_sizes_ == np.bincount(found)).all()
    assert np.abs(there.cluster_sizes_ - sizes).max() < 20
    assert (found[there.exemplar_indices_] == np.arange(len(sizes))).all()
    assert isinstance(there.coef_, np.ndarray)


def test_the_rows_stay_where_they_are(on, monkeypatch):
    """Samples of the rows and sums go to the host, and nothing that has an entry for each row."""
    n = 3 * SAMPLE_ROWS
    X = np.random.default_rng(0).normal(size=(n, 3)).astype(np.float32)
    X[: n // 2] += 4.0
    moved = []

    def counted(self, array):
        moved.append(tuple(array.shape))
        return host(array)

    for kind in (DeviceRows, TensorRows):
        monkeypatch.setattr(kind, "host", counted)
    model = CuttingPlaneMarginClustering(2, n_init=1, random_state=0).fit(on(X))
    assert max(shape[0] for shape in moved if shape) <= SAMPLE_ROWS
    assert np.abs(model.cluster_sizes_ - n // 2).max() < 0.02 * n


def test_the_front_door_takes_rows_on_a_device(data, on):
    X = data[:150]
    model = MaxMarginClustering(K, max_samples=90, n_resamples=1, random_state=0)
    expected, probable = model.fit(X).labels_, model.predict_proba(X)
    rows = on(X)
    labels = model.fit(rows).labels_
    assert type(labels) is type(model.predict(rows)) is type(rows.array)
    assert (host(labels) == expected).all() and (host(model.predict(rows)) == expected).all()
    assert (host(model.predict_proba(rows)) == probable).all()
    assert type(model.is_outlier_) is np.ndarray


def test_a_column_that_changes_between_passes_is_sent_again(data, on):
    """The regression of the hinge and Laplacian losses writes into one array of codes."""
    rows, codes = Rows(on(data)), np.ones(len(data))
    first = weighted_sum(rows, codes)
    codes *= 2.0
    assert weighted_sum(rows, codes) == pytest.approx(2.0 * first)
    model = AlternatingMarginClustering(2, kernel="linear", n_init=1, random_state=0)
    labels = model.fit(data).labels_
    assert adjusted_rand_score(host(model.fit(on(data)).labels_), labels) > 0.999


@pytest.mark.parametrize("weighted", [False, True])
def test_weights_and_known_labels_on_a_device(data, weights, on, weighted):
    known = np.full(len(data), -1)
    model = CuttingPlaneMarginClustering(K, kernel="linear", n_init=1, random_state=0)
    known[:40] = (model.fit(data).labels_[:40] + 1) % K  # other numbers than without them
    given = {"partial_labels": known, "sample_weight": weights if weighted else None}
    here = model.fit(data, **given)
    labels, sizes = here.labels_, here.cluster_sizes_
    if HAS_TORCH:
        given = {name: None if v is None else torch.from_numpy(v) for name, v in given.items()}
    found = model.fit(on(data), **given)
    assert (host(found.labels_) == labels).mean() > 0.999
    assert np.abs(found.cluster_sizes_ - sizes).max() < 30
    assert (host(found.labels_)[:40] == known[:40]).all()


@pytest.mark.parametrize("device", TENSORS)
@pytest.mark.parametrize("kind", ["float64", "float32", "int64"])
def test_tensors_in_tensors_out(device, kind):
    dtype = getattr(torch, kind)
    X, _ = make_blobs(300, 4, centers=3, random_state=0)
    X = np.round(10 * X)
    T = torch.from_numpy(X).to(device, dtype)
    model = CuttingPlaneMarginClustering(3, random_state=0)
    labels, margins = model.fit_predict(X), model.decision_function(X)
    found = model.fit(T)
    for made in (found.labels_, found.predict(T), found.decision_function(T), found.transform(T)):
        assert made.device.type == device
    assert (found.labels_.cpu().numpy() == labels).all()
    assert (found.predict(T).cpu().numpy() == labels).all()
    assert found.decision_function(T).cpu().numpy() == pytest.approx(margins, rel=1e-3, abs=1e-3)
    assert found.score(T) == pytest.approx(found.score(X), rel=1e-3)
    again = model.set_params(warm_start=True).fit(T)
    assert adjusted_rand_score(again.labels_.cpu().numpy(), labels) == 1.0


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kernel, center", [("rbf", True), ("rbf", False), ("linear", True)])
def test_least_squares_similarity_on_a_device(device, kernel, center):
    rng = np.random.default_rng(0)
    X, weights = rng.normal(size=(1200, 5)) + 2.0, rng.integers(1, 4, 1200).astype(np.float64)
    settings = LeastSquaresMarginClustering(3, kernel=kernel, center=center)._settings()
    fmap = kernel_map(X, weights, np.random.default_rng(0), settings, kernel)
    here = make_similarity(fmap, X, weights, 1.0, center)
    there = make_similarity(fmap, X, weights, 1.0, center, source=on_device(X, device))
    assert close(there.matrix, here.matrix, 2e-4)
    assert there.matrix.dtype == here.matrix.dtype
    assert there.scale == pytest.approx(here.scale, rel=1e-5)
    if center:
        assert close(there.row_means, here.row_means, 1e-5)


@needs_torch
def test_a_similarity_that_is_not_definite_is_named():
    X = np.random.default_rng(0).normal(size=(50, 3))
    model = LeastSquaresMarginClustering(kernel="sigmoid", gamma=50.0, coef0=-9.0, center=False)
    rng = np.random.default_rng(0)
    fmap = kernel_map(X, np.ones(50), rng, model._settings(), "sigmoid")
    with pytest.raises(ValueError, match="raise ridge"):
        make_similarity(fmap, X, np.ones(50), 1e-3, False, source=on_device(X, "cpu"))


@pytest.mark.parametrize(
    "model",
    [
        LeastSquaresMarginClustering(K, max_samples=300, random_state=0),
        MultipleKernelMarginClustering(
            2, kernels=["linear", ([0, 1], "rbf")], n_components=10, n_init=2, random_state=0
        ),
    ],
    ids=lambda m: type(m).__name__,
)
def test_kernel_methods_on_a_device(data, on, model):
    labels = model.fit(data).labels_
    X = on(data)
    found = model.fit(X)
    assert adjusted_rand_score(labels, host(found.labels_)) > 0.99
    assert (host(found.predict(X)) == host(found.labels_)).all()
    assert found.get_feature_names_out().shape == (found.transform(data[:3]).shape[1],)


def test_features_of_the_learned_kernel_on_a_device(data, on):
    model = MultipleKernelMarginClustering(
        2, kernels=["linear", ([0, 1], "rbf")], n_components=10, n_init=2, random_state=0
    )
    X = on(data)
    model.fit(X)
    expected = model.transform(data)
    features = model.transform(X)
    assert features.device == X.array.device
    assert close(host(features), expected, 1e-6)
    names = model.get_feature_names_out()
    assert len(names) == expected.shape[1] > 2
    assert list(model.set_output(transform="pandas").transform(data[:5]).columns) == list(names)


def test_links_on_a_device(on):
    X, y = make_blobs(N, 4, centers=3, random_state=4)
    known = np.flatnonzero(y < 2)[:40]
    links = PairwiseConstraints(
        N,
        must_link=[(a, b) for a, b in pairwise(known) if y[a] == y[b]],
        cannot_link=[(a, b) for a, b in pairwise(known) if y[a] != y[b]],
    )
    model = PairwiseMarginClustering(3, n_init=1, random_state=0)
    labels = model.fit(X, constraints=links).labels_
    found = model.fit(on(X), constraints=links)
    assert adjusted_rand_score(labels, host(found.labels_)) > 0.999
    assert len(found.violated_links_.must_link) == 0


@needs_gpu
def test_cupy_arrays(data):
    cupy = pytest.importorskip("cupy")
    model = CuttingPlaneMarginClustering(K, n_init=2, random_state=0)
    labels = model.fit(data).labels_
    X = cupy.asarray(data)
    found = model.fit(X)
    assert isinstance(found.labels_, cupy.ndarray)
    assert adjusted_rand_score(labels, cupy.asnumpy(found.labels_)) > 0.999
    assert isinstance(found.predict(X), cupy.ndarray)
    assert isinstance(found.decision_function(X[:5]), cupy.ndarray)


@pytest.mark.filterwarnings("ignore:.* is a pickle")
@pytest.mark.parametrize("suffix", [".skops", ".joblib"])
@needs_torch
def test_a_model_of_a_device_loads_without_torch(data, tmp_path, suffix):
    if suffix == ".skops":
        pytest.importorskip("skops")
    model = CuttingPlaneMarginClustering(2, n_init=1, random_state=0)
    model.fit(on_device(data, "cpu"))
    path = tmp_path / f"model{suffix}"
    save_model(model, path)
    np.save(tmp_path / "X.npy", data[:50])
    program = f"""
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "triton", "cupy"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Missing())
import numpy as np
from maxmargin.persistence import load_model
model = load_model({str(path)!r})
print(*model.predict(np.load({str(tmp_path / "X.npy")!r})))
assert isinstance(model.labels_, np.ndarray)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    expected = model.predict(data[:50])
    assert [int(label) for label in done.stdout.split()] == expected.tolist()
    assert (load_model(path).predict(data) == model.predict(data)).all()


# -- what is refused -------------------------------------------------------------------------------


def test_values_that_are_no_numbers_are_found(data, on):
    X = data.copy()
    X[10_345, 2] = np.nan
    with pytest.raises(ValueError, match=r"row 10345 of all\) contains NaN"):
        CuttingPlaneMarginClustering(K).fit(on(X))
    X[10_345, 2] = 1e160
    with pytest.raises(ValueError, match="squares"):
        CuttingPlaneMarginClustering(K).fit(on(X))
    with pytest.raises(ValueError, match="Rescale X"):
        CuttingPlaneMarginClustering(K).fit(on(data * 1e-200))


@needs_torch
def test_tensors_of_another_kind_are_refused(data):
    model = CuttingPlaneMarginClustering(K, n_init=2, random_state=0)
    with pytest.raises(ValueError, match="Expected 2D array, got 1D"):
        TensorRows(torch.zeros(5))
    with pytest.raises(ValueError, match="real numbers"):
        TensorRows(torch.zeros(5, 2, dtype=torch.complex64))
    with pytest.raises(ValueError, match="layout"):
        model.fit(torch.eye(30).to_sparse())
    model.fit(torch.from_numpy(data))
    with pytest.raises(ValueError, match="6 features"):
        model.predict(torch.zeros(5, 3))


def test_a_callable_kernel_is_refused(data, on):
    with pytest.raises(ValueError, match="does not work on a device"):
        CuttingPlaneMarginClustering(
            K, kernel=lambda a, b: float(a @ b), n_components=5, random_state=0
        ).fit(on(data))


@needs_torch
def test_memory_of_a_device_that_runs_out_is_an_error_to_act_on(data, monkeypatch):
    def out_of_memory(*_):
        raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 9 GiB. GPU 0 has")

    monkeypatch.setattr(TensorRows, "_each", out_of_memory)
    with pytest.raises(MemoryError, match=r"Tried to allocate 9 GiB\. Pass float32"):
        CuttingPlaneMarginClustering(K).fit(on_device(data, "cpu"))


class cupy_array:
    """What a cupy array is to a machine without a GPU."""

    shape = (3, 2)


cupy_array.__module__ = "cupy"


@needs_torch
def test_no_gpu_is_said(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert is_tensor(cupy_array())
    with pytest.raises(ValueError, match=r"finds no GPU.*X\.get\(\)"):
        CuttingPlaneMarginClustering().fit(cupy_array())


def test_no_torch_is_said(monkeypatch):
    real = builtins.__import__

    def without_torch(name, *args, **kwargs):
        if name == "torch":
            raise ImportError
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without_torch)
    with pytest.raises(ValueError, match=r"maxmargin\[gpu\]"):
        as_tensor(cupy_array())
