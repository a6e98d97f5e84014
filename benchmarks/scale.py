"""Rows that do not fit: out of core, dask, worker processes, and the memory of a fit.

    python benchmarks/scale.py [section ...]

Sections: out-of-core, memory, dask, workers, parquet. Data are made up in a temporary folder.
Ratios of CPU times: the machine may be shared. ``benchmarks/gpu.py`` has the GPU's figures.
"""

import os
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from _data import run_sections, table
from maxmargin import CuttingPlaneMarginClustering, open_rows

MIB = 2**20


def write_rows(path, n, d, centers=10, dtype=np.float32):
    """A npy file of Gaussian clusters that overlap."""
    rng = np.random.default_rng(0)
    means = 2.0 * rng.standard_normal((centers, d), dtype=np.float32)
    out = np.lib.format.open_memmap(path, "w+", dtype, (n, d))
    for start in range(0, n, 50_000):
        size = min(50_000, n - start)
        noise = 3.0 * rng.standard_normal((size, d), dtype=np.float32)
        out[start : start + size] = means[rng.integers(0, centers, size)] + noise
    out.flush()


class Counted:
    """Counts the blocks that are read."""

    def __init__(self, rows):
        self.read, self.count = rows.read, 0

    def __call__(self, i):
        self.count += 1
        return self.read(i)


def out_of_core():
    """A fit on a file against reading the file as often, and multiplying it with W each time."""
    lines = []
    with tempfile.TemporaryDirectory() as folder, threadpool_limits(1):
        path = Path(folder, "rows.npy")
        for n, d, k in [(2_000_000, 50, 4), (2_000_000, 50, 10), (300_000, 784, 10)]:
            write_rows(path, n, d)
            model = CuttingPlaneMarginClustering(k, kernel="linear", random_state=0)
            model.fit(np.load(path, mmap_mode="r")[:20_000])  # compiles
            rows = open_rows(path)
            rows.read = Counted(rows)
            begin = time.process_time()
            model.fit(rows)
            fit = time.process_time() - begin
            passes = rows.read.count / len(rows.sizes)
            W = np.ascontiguousarray(model.coef_.T, np.float32)
            plain = open_rows(path).read
            begin = time.process_time()
            for i in range(len(rows.sizes)):
                X = plain(i)
                for start in range(0, len(X), 1024):
                    X[start : start + 1024] @ W
            once = time.process_time() - begin
            name = f"{n:,} x {d}, k = {k}"
            lines.append([name, passes, fit, once, fit / (passes * once)])
    table(
        "out of core, file in the page cache: CPU s of a fit and of a plain pass, ratio",
        ["rows", "passes", "fit", "plain pass", "ratio"],
        lines,
    )


def memory():
    """Peak memory beyond the program itself against the documented formula."""
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "rows.npy")
        for n, d, k in [(2_000_000, 50, 4), (8_000_000, 20, 4), (8_000_000, 20, 10)]:
            write_rows(path, n, d)
            code = f"""
                import numpy as np
                import psutil
                from maxmargin import CuttingPlaneMarginClustering, open_rows
                from maxmargin.cli.blocks import least_memory
                model = CuttingPlaneMarginClustering({k}, kernel="linear", random_state=0)
                model.fit(np.random.default_rng(0).standard_normal((12_000, {d})).astype("f4"))
                rows = open_rows({str(path)!r})
                before = psutil.Process().memory_info().rss
                least = least_memory(rows, model)
                model.fit(rows)
                status = dict(line.split(":", 1) for line in open("/proc/self/status"))
                peak = int(status["VmHWM"].split()[0]) * 1024
                print(peak - before, least - before, model.n_cuts_)
            """
            limits = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
            done = subprocess.run(
                [sys.executable, "-c", textwrap.dedent(code)],
                capture_output=True,
                text=True,
                check=True,
                env={**os.environ, **limits},
            )
            peak, formula, cuts = map(int, done.stdout.split())
            lines.append([f"{n:,} x {d}, k = {k}", cuts, peak / MIB, formula / MIB, peak / formula])
    table(
        "peak memory (MiB) beyond the program, and the formula",
        ["rows", "cuts", "peak", "formula", "ratio"],
        lines,
    )


def dask_threads():
    """Chunks of 64 MiB of a dask array against an array, CPU s."""
    import dask.array as da

    lines = []
    for n, d, k in [(1_000_000, 50, 4), (200_000, 784, 10)]:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "rows.npy")
            write_rows(path, n, d)
            X = np.load(path)
        chunk = 64 * MIB // (4 * d)
        given = {"array": X, "dask": da.from_array(X, chunks=(chunk, d))}
        times = {}
        for name, rows in [("array", X), *given.items()]:
            begin = time.process_time()
            CuttingPlaneMarginClustering(k, kernel="linear", random_state=0, n_jobs=2).fit(rows)
            times[name] = time.process_time() - begin
        ratio = times["dask"] / times["array"]
        lines.append([f"{n:,} x {d}, k = {k}", times["array"], times["dask"], ratio])
    table(
        "dask without a cluster, chunks of 64 MiB, against an array; two threads, CPU s",
        ["rows", "array", "dask", "ratio"],
        lines,
    )


def workers():
    """One and two worker processes on wide rows: wall time, and CPU time of each worker."""
    from distributed import Client, LocalCluster

    lines = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "rows.npy")
        write_rows(path, 150_000, 784)
        rows = open_rows(path)
        for count in (1, 2):
            with (
                LocalCluster(
                    n_workers=count, threads_per_worker=1, processes=True, dashboard_address=None
                ) as local,
                Client(local) as client,
            ):
                X = client.persist(rows.to_dask().rechunk((20_000, 784)))
                CuttingPlaneMarginClustering(10, kernel="linear", random_state=0).fit(X[:20_000])
                before = client.run(time.process_time)
                begin = time.perf_counter()
                model = CuttingPlaneMarginClustering(10, kernel="linear", random_state=0).fit(X)
                wall = time.perf_counter() - begin
                after = client.run(time.process_time)
                used = [after[w] - before[w] for w in before]
                lines.append([count, wall, " / ".join(f"{u:.1f}" for u in used), model.n_passes_])
                del X
    table(
        "150,000 x 784, k = 10 on worker processes",
        ["workers", "wall s", "CPU s of each", "passes"],
        lines,
    )


def parquet():
    """What ``maxmargin fit`` takes on a parquet file, against reading its row groups once."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with tempfile.TemporaryDirectory() as folder:
        path, n, d = Path(folder, "rows.parquet"), 1_000_000, 100
        raw = Path(folder, "rows.npy")
        write_rows(raw, n, d)
        X = np.load(raw)
        pq.write_table(pa.table({f"x{j}": X[:, j] for j in range(d)}), path, row_group_size=65_536)
        with threadpool_limits(1):
            rows = open_rows(path)
            rows.read = Counted(rows)
            model = CuttingPlaneMarginClustering(4, kernel="linear", random_state=0).fit(X[:20_000])
            begin = time.process_time()
            model.fit(rows)
            fit = time.process_time() - begin
            passes = rows.read.count / len(rows.sizes)
            begin = time.process_time()
            for i in range(len(rows.sizes)):
                rows.read.read(i) @ model.coef_.T.astype(np.float32)
            once = time.process_time() - begin
    table(
        "parquet, 1,000,000 x 100: CPU s of a fit, of one plain read and multiply, and their ratio",
        ["passes", "fit", "plain pass", "ratio"],
        [[passes, fit, once, fit / (passes * once)]],
    )


SECTIONS = {
    "out-of-core": out_of_core,
    "memory": memory,
    "dask": dask_threads,
    "workers": workers,
    "parquet": parquet,
}

if __name__ == "__main__":
    run_sections(SECTIONS, __doc__, UserWarning)
