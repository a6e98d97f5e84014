"""Rows on a CUDA device: the pass of the cutting planes, whole fits, least squares.

    python benchmarks/gpu.py [section ...]

Sections: passes, fit, agreement, least-squares, front-door. The baseline of a pass is reading the
rows once at the bandwidth of a device-to-device copy (bytes read and written), measured in the same
run; that of a fit and of least squares is the same machine's processor with all its cores.
"""

import sys
import time

import numpy as np
from joblib import effective_n_jobs
from threadpoolctl import threadpool_limits

from _data import run_sections, table
from maxmargin import (
    CuttingPlaneMarginClustering,
    LeastSquaresMarginClustering,
    MaxMarginClustering,
)
from maxmargin._data import row_source
from maxmargin._data.triton import fused_cut_pass
from maxmargin.cutting_plane._cuts import _plain_pass
from maxmargin.least_squares._settings import Settings
from maxmargin.least_squares._similarity import device_similarity, kernel_map, make_similarity
from maxmargin.metrics import adjusted_rand_score

try:
    import array_api_compat.torch as namespace
    import torch
except ImportError:
    sys.exit("torch is not installed: pip install maxmargin[gpu].")

ROWS = 10_000_000
SHAPES = ((64, 2), (64, 10), (100, 10), (128, 2), (128, 10), (128, 20), (256, 10), (512, 10))
FITS = ((ROWS, 10, 0.5), (ROWS, 10, 0.3), (ROWS, 2, 0.3))  # rows, clusters, spread of the centres
PAIRS = ((1_000_000, 10, 0.5), (1_000_000, 10, 0.3), (1_000_000, 2, 0.3), (ROWS, 10, 0.3))


def milliseconds(work, repeats=15):
    """Median time on the device."""
    for _ in range(3):
        work()
    times = []
    for _ in range(repeats):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        work()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end))
    return float(np.median(times))


def seconds(work, *args, repeats=3, **kwargs):
    """Least time on the clock, all work of the device included, and the last result."""
    times = []
    for _ in range(repeats):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        result = work(*args, **kwargs)
        torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    return min(times), result


def bandwidth():
    """Bytes per millisecond of a large copy, read and written."""
    X = torch.randn(ROWS, 128, device="cuda")
    Y = torch.empty_like(X)
    return 2 * X.nbytes / milliseconds(lambda: Y.copy_(X))


def one_pass(X, k, work, weights=None):
    """A pass over the rows of X at a random model: the cut, its sums, labels and codes."""
    d = X.shape[1]
    W = (torch.randn(d, k, device="cuda") / d**0.5).to(X.dtype)
    levels = torch.zeros(k, device="cuda", dtype=X.dtype)
    return lambda: work(X, W, levels, weights)


def cut_pass(X, W, levels, weights):
    """The fused kernel."""
    labels, codes = (torch.empty(len(X), dtype=torch.int8, device="cuda") for _ in range(2))
    return (*fused_cut_pass(X, W, levels, levels, weights, None, labels, codes), labels, codes)


def plain_cut_pass(X, W, levels, weights):
    """The same in plain torch."""
    weights = torch.ones(len(X), device="cuda", dtype=X.dtype) if weights is None else weights
    fixed = torch.full((len(X),), -1, dtype=torch.int8, device="cuda")
    found = _plain_pass(X, W, levels, levels, weights, fixed, torch.int8, namespace)
    return (*found[2:], *found[:2])


def passes():
    rate = bandwidth()
    print(f"{torch.cuda.get_device_name()}: a copy moves {rate / 1e9:.2f} TB/s, read and written")
    rows = []
    for d, k in SHAPES:
        X = torch.randn(min(ROWS, ROWS * 128 // d), d, device="cuda")
        once = X.nbytes / rate
        fused, plain = (milliseconds(one_pass(X, k, work)) for work in (cut_pass, plain_cut_pass))
        rows.append((f"{len(X):,} x {d}, k = {k}", once, fused, fused / once, plain, plain / once))
        del X
    table(
        "One pass, ms, and its ratio to reading the rows once",
        ["rows", "read once", "pass", "ratio", "plain torch", "ratio"],
        rows,
    )
    X = torch.randn(ROWS, 128, device="cuda")
    weighted = milliseconds(one_pass(X, 10, cut_pass, torch.rand(ROWS, device="cuda")))
    print(f"with weights, {ROWS:,} x 128, k = 10: {weighted:.2f} ms")
    digits()


def digits():
    """How far the fused pass is from one in float64, at the same model."""
    X, found = torch.randn(1_000_000, 128, device="cuda"), []
    for kind, work in ((torch.float32, cut_pass), (torch.float64, plain_cut_pass)):
        torch.manual_seed(0)
        found.append(one_pass(X.to(kind), 10, work)())
    (vector, sums, labels, codes), (_, exact_sums, *others) = found
    # The cut of these very labels and codes, in float64.
    own, rival = (torch.nn.functional.one_hot(c.long(), 11)[:, -10:] for c in (labels + 1, codes))
    exact = ((own - rival) * (codes > 0)[:, None]).double().T @ X.double()
    error = float((vector - exact).norm() / exact.norm())
    loss = float((sums[0] - exact_sums[0]).abs() / exact_sums[0])
    rows = (int((labels != others[0]).sum()), int((codes != others[1]).sum()))
    print(f"against float64: {rows[0]} labels and {rows[1]} codes of {len(X):,} differ,", end=" ")
    print(f"the cut is off by {error:.1e} of its length, the loss by {loss:.1e}")


def blobs(n, d, k, spread=0.5, seed=0):
    """Clusters of unit variance, made on the device; a small spread makes them overlap."""
    made = torch.Generator(device="cuda").manual_seed(seed)
    centres = spread * torch.randn(k, d, generator=made, device="cuda")
    classes = torch.randint(k, (n,), generator=made, device="cuda")
    X = torch.randn(n, d, generator=made, device="cuda")
    return X.add_(centres[classes]), classes


def fit():
    rows = []
    for n, k, spread in FITS:
        X, classes = blobs(n, 128, k, spread)
        model = CuttingPlaneMarginClustering(k, kernel="linear", random_state=0, n_jobs=-1)
        first, _ = seconds(model.fit, X, repeats=1)
        again, _ = seconds(model.fit, X, repeats=1)
        predict, _ = seconds(model.predict, X)
        agreed = adjusted_rand_score(classes.cpu().numpy(), model.labels_.cpu().numpy())
        name = f"{n:,} x 128, k = {k}, spread {spread}"
        rows.append((name, first, again, model.n_passes_, predict, f"{agreed:.4f}"))
        del X, classes
    table(
        "Whole fits, s (the first one compiles), and predict",
        ["rows", "first", "fit", "passes over all", "predict", "ARI with the blobs"],
        rows,
    )


def agreement():
    rows = []
    for n, k, spread in PAIRS:
        X, _ = blobs(n, 128, k, spread, seed=1)
        host = X.cpu().numpy()
        model = CuttingPlaneMarginClustering(k, kernel="linear", random_state=0, n_jobs=-1)
        there, _ = seconds(model.fit, X, repeats=2)
        labels, objective = model.labels_.cpu().numpy(), model.objective_
        here, _ = seconds(model.fit, host, repeats=1)
        rows.append(
            (f"{n:,} x 128, k = {k}, spread {spread}", here, there, here / there,
             adjusted_rand_score(labels, model.labels_), model.objective_, objective)
        )  # fmt: skip
    table(
        f"The same fit on {effective_n_jobs(-1)} cores and on the device, s",
        ["rows", "processor", "device", "ratio", "ARI of the two", "objective", "on the device"],
        [(*row[:4], *(f"{value:.5f}" for value in row[4:])) for row in rows],
    )


def least_squares():
    cores, rows = effective_n_jobs(-1), []
    for n in (4000, 8000, 16000):
        X, _ = blobs(n, 64, 10)
        host, weights = X.cpu().numpy(), np.ones(n)
        settings = Settings(10, ("rbf",))
        fmap = kernel_map(host, weights, np.random.default_rng(0), settings, "rbf")
        given = fmap, host, weights, 1.0, True
        there, R = seconds(device_similarity, row_source(X), *given)
        with threadpool_limits(cores):
            here, expected = seconds(make_similarity, *given, n_jobs=cores, repeats=1)
        error = np.abs(R.matrix - expected.matrix).max()
        rows.append((n, here * 1e3, there * 1e3, here / there, f"{error:.1e}"))
    table(
        f"Kernel, factor and R of least squares, ms, beside {cores} cores",
        ["rows", "processor", "device, R brought to the host", "ratio", "difference"],
        rows,
    )
    rows = []
    for n in (8000, 16000, 200_000):
        X, classes = blobs(n, 64, 10)
        model = LeastSquaresMarginClustering(10, max_samples=16000, random_state=0, n_jobs=-1)
        there, _ = seconds(model.fit, X, repeats=1)
        labels = model.labels_.cpu().numpy()
        agreed = adjusted_rand_score(classes.cpu().numpy(), labels)
        line = [f"{n:,} x 64", there, f"{agreed:.4f}", "", ""]
        if n <= 8000:
            here, _ = seconds(model.fit, X.cpu().numpy(), repeats=1)
            line[3:] = [here, f"{adjusted_rand_score(labels, model.labels_):.4f}"]
        rows.append(tuple(line))
    table(
        "Least-squares clustering, k = 10, at most 16,000 rows fitted, s",
        ["rows", "device", "ARI with the blobs", "processor", "ARI of the two"],
        rows,
    )


def front_door():
    X, classes = blobs(200_000, 64, 10)
    model = MaxMarginClustering(10, random_state=0, n_jobs=-1).fit(X[:2000])  # compiles
    there, _ = seconds(model.fit, X, repeats=2)
    labels = model.labels_.cpu().numpy()
    here, _ = seconds(model.fit, X.cpu().numpy(), repeats=2)
    agreed = adjusted_rand_score(labels, model.labels_)
    right = adjusted_rand_score(classes.cpu().numpy(), labels)
    table(
        f"Front door, 200,000 x 64, k = 10, s ({effective_n_jobs(-1)} cores)",
        ["rows on the device", "on the host", "ARI of the two", "ARI with the blobs"],
        [(f"{there:.2f}", here, f"{agreed:.4f}", f"{right:.4f}")],
    )


SECTIONS = {
    "passes": passes,
    "fit": fit,
    "agreement": agreement,
    "least-squares": least_squares,
    "front-door": front_door,
}

if __name__ == "__main__":
    if not torch.cuda.is_available():
        sys.exit("torch finds no CUDA device: there is nothing to measure.")
    run_sections(SECTIONS, __doc__, UserWarning)
