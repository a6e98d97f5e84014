"""Rows that do not lie in memory: files, dask chunks, worker processes; the result is the same."""

import itertools
import os
import pickle
import re
import subprocess
import sys
import textwrap

import numpy as np
import psutil
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import make_blobs

from maxmargin import (
    BisectingMarginClustering,
    CuttingPlaneMarginClustering,
    MaxMarginClustering,
    open_rows,
)
from maxmargin._core.features import mapped_rows
from maxmargin._core.rows import Rows, scores, weighted_gram, weighted_sum
from maxmargin._data.blocks import RowBlocks
from maxmargin._data.source import available_memory
from maxmargin.cli import main as cli
from maxmargin.cli.blocks import shown_progress

from ._blocks import (
    ESTIMATORS,
    assert_same,
    blocks_of,
    fit,
    fitted_in_memory,
    rows_in_memory,
    with_nan,
)

da = pytest.importorskip("dask.array")


@pytest.fixture
def rows():
    return rows_in_memory()


@pytest.fixture
def fitted():
    return fitted_in_memory


def written(X, folder, kind):
    path = folder / f"rows.{kind}"
    if kind == "npy":
        np.save(path, X)
    elif kind == "parquet":
        pa = pytest.importorskip("pyarrow")
        import pyarrow.parquet as pq

        columns = {f"x{j}": X[:, j] for j in range(X.shape[1])}
        pq.write_table(pa.table(columns), path, row_group_size=4500)
    else:
        zarr = pytest.importorskip("zarr")
        zarr.create_array(store=path, data=X, chunks=(3500, X.shape[1]))
    return path


# -- one machine -------------------------------------------------------------------------


# Every estimator reads rows through one class; two of them try every kind of file.
FILES = [(name, "npy") for name in ESTIMATORS]
FILES += itertools.product(["cutting-plane-rbf", "least-squares"], ["parquet", "zarr"])


@pytest.mark.invariance
@pytest.mark.parametrize(("name", "kind"), FILES)
def test_a_file_gives_the_result_of_memory(name, kind, rows, fitted, tmp_path):
    X = open_rows(written(rows, tmp_path, kind))
    found = fit(ESTIMATORS[name], X)
    assert_same(fitted(name), found)
    np.testing.assert_array_equal(found.predict(X), fitted(name).predict(rows))


@pytest.mark.invariance
@pytest.mark.parametrize("name", ESTIMATORS)
def test_dask_without_a_cluster_gives_the_result_of_memory(name, rows, fitted):
    X = da.from_array(rows, chunks=(5500, 6))
    found = fit(ESTIMATORS[name], X)
    assert_same(fitted(name), found)
    assert isinstance(found.labels_, da.Array)
    assert isinstance(found.predict(X), da.Array)
    np.testing.assert_array_equal(found.predict(X).compute(), found.predict(rows))
    decision = found.decision_function(X)
    assert decision.shape == (20_000, found.n_clusters)
    np.testing.assert_allclose(decision.compute(), found.decision_function(rows), atol=1e-12)


@pytest.mark.invariance
def test_mapped_rows_too_many_for_memory_are_mapped_in_every_pass(rows, fitted, monkeypatch):
    monkeypatch.setattr("maxmargin._data.blocks.available_memory", lambda: 1e6)
    found = fit(ESTIMATORS["cutting-plane-rbf"], blocks_of(rows, 4500))
    assert_same(fitted("cutting-plane-rbf"), found)


@pytest.mark.invariance
def test_sparse_blocks(rows):
    X = sparse.csr_matrix(np.maximum(rows, 0.0))
    estimator = CuttingPlaneMarginClustering(4, random_state=0)
    expected = fit(estimator, X)
    assert_same(expected, fit(estimator, blocks_of(X, 4500)))
    chunked = da.from_array(X.toarray(), chunks=(4500, 6)).map_blocks(sparse.csr_matrix)
    assert_same(expected, fit(estimator, chunked))


@pytest.mark.invariance
def test_two_threads_give_the_bits_of_one(rows):
    one = fit(CuttingPlaneMarginClustering(4, random_state=0), blocks_of(rows, 2500))
    two = fit(CuttingPlaneMarginClustering(4, random_state=0, n_jobs=2), blocks_of(rows, 2500))
    assert_same(one, two, exact=True)


@pytest.mark.invariance
def test_passes_over_blocks_equal_plain_products(rows):
    Z = Rows(blocks_of(rows, 3500), offset=rows.mean(axis=0), scale=0.5)
    plain = (rows - rows.mean(axis=0)) * 0.5
    W = np.random.default_rng(0).normal(size=(3, 6))
    np.testing.assert_allclose(scores(Z, W), plain @ W.T, atol=1e-12)
    np.testing.assert_allclose(weighted_sum(Z, plain[:, :2]), plain[:, :2].T @ plain, rtol=1e-12)
    np.testing.assert_allclose(weighted_gram(Z, np.ones(len(plain))), plain.T @ plain, rtol=1e-12)
    few = np.array([3, 15_000, 17])
    np.testing.assert_array_equal(Z.take(few).source.take(slice(None)), rows[few])
    rising = np.array([3, 17, 15_000])
    part = Z.part(rising)
    assert not part.source.in_memory
    np.testing.assert_array_equal(part.source[:], rows[rising])


@pytest.mark.invariance
def test_weights_and_known_labels_travel_with_the_blocks(rows, fitted):
    weights = np.random.default_rng(0).integers(0, 3, len(rows)).astype(float)
    known = np.full(len(rows), -1)
    known[:40] = fitted("cutting-plane").labels_[:40]
    estimator = clone(ESTIMATORS["cutting-plane"])
    expected = clone(estimator).fit(rows, sample_weight=weights, partial_labels=known)
    found = clone(estimator).fit(blocks_of(rows, 4500), sample_weight=weights, partial_labels=known)
    assert_same(expected, found)
    lazy = clone(estimator).fit(
        da.from_array(rows, chunks=(4500, 6)), sample_weight=weights, partial_labels=known
    )
    assert_same(expected, lazy)


def test_dataframes_keep_their_names(rows):
    pd, dd = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    frame = pd.DataFrame(rows[:12_000], columns=list("abcdef"))
    lazy = dd.from_pandas(frame, npartitions=3)
    expected = CuttingPlaneMarginClustering(3, random_state=0).fit(frame)
    found = CuttingPlaneMarginClustering(3, random_state=0).fit(lazy)
    assert list(found.feature_names_in_) == list("abcdef")
    assert_same(expected, found)
    np.testing.assert_array_equal(found.predict(lazy).compute(), expected.labels_)


# -- memory ------------------------------------------------------------------------------


def test_a_file_ten_times_the_room_of_the_process(tmp_path):
    """Addresses are limited to what the program has, and a tenth of the file."""
    rng = np.random.default_rng(0)
    path, n, d = tmp_path / "big.npy", 1_600_000, 32
    X = np.lib.format.open_memmap(path, "w+", np.float32, (n, d))
    for start in range(0, n, 100_000):
        part = rng.standard_normal((100_000, d), dtype=np.float32)
        part[::2, 0] += 6.0
        X[start : start + 100_000] = part
    X.flush()
    size = path.stat().st_size
    del X
    code = f"""
        import resource, numpy as np
        from maxmargin import CuttingPlaneMarginClustering, open_rows
        warm = np.random.default_rng(0).standard_normal((20_000, {d})).astype(np.float32)
        warm[::2, 0] += 6
        model = CuttingPlaneMarginClustering(
            2, kernel="linear", n_init=1, tol=0.1, random_state=0
        ).fit(warm)
        rows = open_rows({str(path)!r})
        pages = int(open("/proc/self/statm").read().split()[0])
        room = {size} // 10
        limit = pages * 4096 + room + model.estimate_memory(*rows.shape, in_blocks=True)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        try:
            np.load({str(path)!r}, mmap_mode="r")
            raise SystemExit("the file fits after all")
        except (MemoryError, OSError):
            pass
        model.fit(rows)
        truth = np.arange({n}) % 2
        agree = (model.labels_ == truth).mean()
        assert max(agree, 1 - agree) > 0.99, agree
        print("fits")
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
    )
    assert done.stdout.strip() == "fits", done.stderr[-2000:]


# -- bad input ---------------------------------------------------------------------------


def test_nan_in_one_block_is_named(rows, tmp_path):
    X = with_nan(rows, 15_005)
    estimator = CuttingPlaneMarginClustering(3, random_state=0)
    for given, block, row in [
        (blocks_of(X, 5000), 3, 5),
        (da.from_array(X, chunks=(5000, 6)), 3, 5),
        (open_rows(written(X, tmp_path, "parquet")), 3, 1505),
    ]:
        message = rf"block {block}: row {row} \(row 15005 of all\) contains NaN"
        with pytest.raises(ValueError, match=message):
            estimator.fit(given)


def test_unknown_chunk_sizes_are_computed(rows):
    X = da.from_array(rows, chunks=(4500, 6))
    X = X[da.ones(len(rows), dtype=bool, chunks=4500)]
    assert np.isnan(X.shape[0])
    found = fit(ESTIMATORS["cutting-plane"], X)
    assert found.cluster_sizes_.sum() == len(rows)


def test_unknown_chunk_sizes_that_cannot_be_computed():
    broken = da.ones((20_000, 2), chunks=(5000, 2)).map_blocks(
        lambda X: 1 / 0, meta=np.ones((0, 2))
    )
    broken._chunks = ((np.nan,) * 4, (2,))
    with pytest.raises(ValueError, match="compute_chunk_sizes"):
        CuttingPlaneMarginClustering(2).fit(broken)


def test_chunks_split_over_columns_are_joined_with_a_warning(rows, fitted):
    X = da.from_array(rows, chunks=(5500, 2))
    with pytest.warns(UserWarning, match="split over its columns into 3 chunks"):
        found = clone(ESTIMATORS["cutting-plane"]).fit(X)
    assert_same(fitted("cutting-plane"), found)


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (lambda i: np.ones((9000, 3 if i == 1 else 2)), r"block 1 has shape \(9000, 3\); 2 col"),
        (lambda i: np.ones((8999 if i == 1 else 9000, 2)), "block 1 has 8999 rows; 9000"),
        (lambda i: np.full((9000, 2), "a" if i == 1 else 1), "block 1 holds <U1 values"),
        (
            lambda i: np.full((9000, 2), 1e200 if i == 1 else 1.0),
            r"block 1: row 0 .* above 1e\+150",
        ),
        (
            lambda i: sparse.csr_matrix((9000, 2)) if i == 1 else np.ones((9000, 2)),
            "block 1 is sparse, the first block is dense",
        ),
    ],
)
def test_blocks_of_another_kind_are_named(read, message):
    X = RowBlocks(read, [9000, 9000], 2, np.float64)
    with pytest.raises(ValueError, match=message):
        CuttingPlaneMarginClustering(2, random_state=0).fit(X)


def test_blocks_of_another_float_type_are_converted(rows, fitted):
    single = rows.astype(np.float32).astype(float)

    def read(i):
        part = single[i * 4000 : (i + 1) * 4000]
        return part.astype(np.float32) if i == 2 else part

    X = RowBlocks(read, [4000] * 5, 6, np.float64)
    assert_same(fit(ESTIMATORS["cutting-plane"], single), fit(ESTIMATORS["cutting-plane"], X))


def test_a_file_that_changes_is_noticed(rows, tmp_path, monkeypatch):
    monkeypatch.setattr("maxmargin._data.files.NPY_BYTES", 1)
    X = open_rows(written(rows, tmp_path, "npy"))
    X[:10]
    np.save(tmp_path / "rows.npy", rows[:10_000])
    with pytest.raises(ValueError, match="changed while it was being read"):
        X[19_000:]


def test_text_columns_of_parquet_are_named(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": [1.0, 2.0], "who": ["a", "b"]}), path)
    with pytest.raises(ValueError, match=r"column 'who' holds .*string values.*--drop who"):
        open_rows(path)
    assert open_rows(path, drop=["who"]).shape == (2, 1)


def test_files_that_cannot_be_read_in_blocks(tmp_path):
    (tmp_path / "a.csv").write_text("1,2\n3,4\n")
    with pytest.raises(ValueError, match="csv files cannot be read block by block"):
        open_rows(tmp_path / "a.csv")
    np.save(tmp_path / "f.npy", np.asfortranarray(np.ones((3, 2))))
    with pytest.raises(ValueError, match="stored column by column"):
        open_rows(tmp_path / "f.npy")
    (tmp_path / "folder").mkdir()
    for format in (None, "zarr"):  # also without the package
        with pytest.raises(ValueError, match=r"is a folder\. Name one file in it"):
            open_rows(tmp_path / "folder", format=format)
    (tmp_path / "folder" / ".zarray").write_text("{")
    pytest.importorskip("zarr")
    with pytest.raises(ValueError, match="no zarr array"):
        open_rows(tmp_path / "folder")


def test_methods_that_need_all_rows_say_so(rows):
    X = blocks_of(rows, 4500)
    with pytest.raises(ValueError, match="BisectingMarginClustering needs all rows in memory"):
        BisectingMarginClustering(n_clusters=2).fit(X)
    with pytest.raises(ValueError, match="kernel='precomputed' needs all rows in memory"):
        CuttingPlaneMarginClustering(2, kernel="precomputed").fit(X)


def test_predict_checks_the_width(rows, fitted):
    model = fitted("cutting-plane")
    for X in (blocks_of(rows[:, :5], 4500), da.from_array(rows[:, :5], chunks=(4500, 5))):
        with pytest.raises(ValueError, match=r"X has 5 features, but Cutting.* expecting 6"):
            model.predict(X)


# -- afterwards --------------------------------------------------------------------------


def test_a_model_fitted_on_dask_loads_where_there_is_no_dask(rows, tmp_path):
    from maxmargin.persistence import save_model

    model = fit(ESTIMATORS["cutting-plane"], da.from_array(rows, chunks=(4500, 6)))
    (tmp_path / "model.pickle").write_bytes(pickle.dumps(model))
    pytest.importorskip("skops")
    save_model(model, tmp_path / "model.skops")
    np.save(tmp_path / "rows.npy", rows[:100])
    code = f"""
        import importlib.abc, sys, pickle

        class Absent(importlib.abc.MetaPathFinder):
            def find_spec(self, name, path=None, target=None):
                if name.partition(".")[0] in ("dask", "distributed", "torch"):
                    raise ModuleNotFoundError(name)

        sys.meta_path.insert(0, Absent())
        import numpy as np
        from maxmargin.persistence import load_model
        rows = np.load({str(tmp_path / "rows.npy")!r})
        for model in (pickle.load(open({str(tmp_path / "model.pickle")!r}, "rb")),
                      load_model({str(tmp_path / "model.skops")!r})):
            print(*model.predict(rows))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True
    )
    expected = " ".join(map(str, model.predict(rows[:100])))
    assert done.stdout.splitlines() == [expected, expected], done.stderr[-2000:]


# -- the command line --------------------------------------------------------------------


def test_fit_within_a_memory_limit(rows, fitted, tmp_path, capsys):
    path = written(rows, tmp_path, "parquet")
    out, model = tmp_path / "labels.npy", tmp_path / "model.skops"
    line = f"fit {path} -k 4 --method cutting-plane --kernel linear --seed 0 --memory 4GiB"
    assert cli.main(f"{line} --out {out} --model {model}".split()) == 0
    np.testing.assert_array_equal(np.load(out), fitted("cutting-plane").labels_)
    said = capsys.readouterr()
    assert "20,000 rows, 6 columns -> 4 clusters" in said.out
    assert "pass" not in said.err  # no bar where nobody watches


def test_too_small_a_limit_says_the_least_that_works(rows, tmp_path, capsys):
    path = written(rows, tmp_path, "parquet")
    line = f"fit {path} -k 4 --method cutting-plane --n-components 10 --memory"
    assert cli.main(f"{line} 1MiB".split()) == 1
    said = capsys.readouterr().err
    least = re.search(r"Give at least ([\d,]+MiB)", said)[1].replace(",", "")
    assert cli.main(f"{line} {least}".split()) == 0
    assert cli.main(f"{line} lots".split()) == 2
    assert "'lots' is no size; give one like 2GiB" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--standardize", "--plot a.png", "--id-column x0"])
def test_options_that_need_all_rows_are_refused(option, rows, tmp_path, capsys):
    path = written(rows, tmp_path, "npy")
    line = f"fit {path} -k 2 --method cutting-plane --memory 1GiB {option}"
    assert cli.main(line.split()) == 2
    assert "does not go with --memory and --dask" in capsys.readouterr().err


def test_no_scheduler_at_the_address(rows, tmp_path):
    """In a process of its own: a client that never connected stays dask's default."""
    pytest.importorskip("distributed")
    path = written(rows, tmp_path, "npy")
    line = f"fit {path} -k 2 --method cutting-plane --dask not-an-address://"
    done = subprocess.run(
        [sys.executable, "-m", "maxmargin", *line.split()], capture_output=True, text=True
    )
    assert done.returncode == 1
    assert "no scheduler answers" in done.stderr


@pytest.mark.parametrize("version", [1, 2])
def test_memory_limits_of_control_groups_are_respected(version, tmp_path):
    top = tmp_path / "memory" if version == 1 else tmp_path
    limit, used = ("limit_in_bytes", "usage_in_bytes") if version == 1 else ("max", "current")
    none = 2**63 - 4096 if version == 1 else "max"
    for group, most in ((top, 10_000), (top / "a", 2000), (top / "a/b", none)):
        group.mkdir(exist_ok=True)
        (group / f"memory.{limit}").write_text(f"{most}\n")
        (group / f"memory.{used}").write_text("1500\n")
        (group / "memory.stat").write_text("active_file 7\ninactive_file 300\n")
    own = tmp_path / "own"
    own.write_text(f"3:cpu:/\n4:{'memory' if version == 1 else ''}:/a/b\n")
    assert available_memory(tmp_path, own) == 2000 - 1500 + 300
    own.write_text("3:cpu:/\n")
    assert 10_000 < available_memory(tmp_path, own) <= psutil.virtual_memory().total


def test_memory_is_not_guessed_without_psutil(monkeypatch):
    monkeypatch.setitem(sys.modules, "psutil", None)
    assert available_memory() == np.inf


def test_the_bar_counts_passes(monkeypatch):
    told = []
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setattr("rich.progress.Progress.update", lambda bar, task, **to: told.append(to))
    rows = RowBlocks(lambda i: np.full((1, 1), i), [1] * 4, 1, float)
    read = rows.read
    with shown_progress(rows, n_clusters=4):
        assert [rows.read(count % 4)[0, 0] for count in range(64)] == [0, 1, 2, 3] * 16
    assert rows.read is read
    assert told[2] == {"description": "pass 1 of about 16", "total": 64}
    assert told[33] == {"description": "pass 9 of about 16", "total": 64}
    assert told[-1] == {"description": "pass 17 of about 18", "total": 72}  # longer than thought


# -- what a careful reader found ---------------------------------------------------------


def reordered(rows, folder):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = folder / "reordered.parquet"
    pq.write_table(pa.table({f"x{j}": rows[:, j] for j in reversed(range(rows.shape[1]))}), path)
    return path


def test_columns_in_another_order_are_noticed(rows, tmp_path):
    model = fit(ESTIMATORS["cutting-plane"], open_rows(written(rows, tmp_path, "parquet")))
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(open_rows(reordered(rows, tmp_path)))


@pytest.mark.invariance
def test_weights_that_leave_few_rows(rows):
    weights = np.zeros(len(rows))
    weights[:5000] = 1.0
    estimator = CuttingPlaneMarginClustering(3, random_state=0)
    expected = clone(estimator).fit(rows, sample_weight=weights)
    for X in (blocks_of(rows, 9000), da.from_array(rows, chunks=(9000, 6))):
        assert_same(expected, clone(estimator).fit(X, sample_weight=weights))


@pytest.mark.invariance
def test_empty_chunks(rows, fitted):
    X = da.concatenate([da.from_array(rows[:4500]), da.zeros((0, 6)), da.from_array(rows[4500:])])
    found = fit(ESTIMATORS["cutting-plane"], X)
    assert_same(fitted("cutting-plane"), found)
    np.testing.assert_array_equal(found.predict(X).compute(), fitted("cutting-plane").labels_)
    assert found.decision_function(X).compute().shape == (20_000, 4)


@pytest.mark.parametrize("name", ["cutting-plane", "squared", "least-squares", "front-door"])
def test_score_of_a_dask_array(name, rows, fitted):
    model = fitted(name)
    expected = model.score(rows)
    assert model.score(da.from_array(rows, chunks=(4500, 6))) == pytest.approx(expected, rel=1e-9)
    assert model.score(blocks_of(rows, 4500)) == pytest.approx(expected, rel=1e-9)


def test_few_rows_of_dask_give_dask(rows):
    X = da.from_array(rows[:500], chunks=(200, 6))
    labels = CuttingPlaneMarginClustering(3, random_state=0).fit_predict(X)
    assert isinstance(labels, da.Array) and labels.chunks == ((200, 200, 100),)


def test_the_number_of_clusters_is_chosen_on_a_sample(monkeypatch):
    monkeypatch.setattr("maxmargin._separated_number.CHOICE_ROWS", 200)
    X = make_blobs(12_000, n_features=3, centers=3, cluster_std=0.3, random_state=0)[0]
    model = MaxMarginClustering(max_samples=150, n_resamples=0, random_state=0)
    assert model.fit(blocks_of(X, 5000)).n_clusters_ == 3


def test_empty_row_groups(rows, tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "gaps.parquet"
    table = pa.table({f"x{j}": rows[:, j] for j in range(6)})
    with pq.ParquetWriter(path, table.schema) as writer:
        for part in (table[:4500], table[:0], table[4500:]):
            writer.write_table(part)
    np.testing.assert_array_equal(open_rows(path)[4490:4510], rows[4490:4510])


def test_columns_that_are_no_numbers(tmp_path):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": [1.0, 2.0], "kind": pd.Categorical(["x", "y"])})
    frame.to_parquet(tmp_path / "a.parquet")
    with pytest.raises(ValueError, match="column 'kind' holds dictionary"):
        open_rows(tmp_path / "a.parquet")
    dd = pytest.importorskip("dask.dataframe")
    mixed = pd.DataFrame({"a": np.arange(12.0), "b": np.arange(12) > 5, "c": np.arange(12)})
    found = CuttingPlaneMarginClustering(2).fit(dd.from_pandas(mixed, npartitions=2))
    assert found.cluster_sizes_.sum() == 12


def test_a_damaged_parquet_file(rows, tmp_path):
    path = written(rows, tmp_path, "parquet")
    path.write_bytes(path.read_bytes()[:5000])
    with pytest.raises(ValueError, match=r"rows\.parquet is truncated or damaged"):
        open_rows(path)


def test_a_zarr_array_that_changes_is_noticed(rows, tmp_path):
    zarr = pytest.importorskip("zarr")
    X = open_rows(written(rows, tmp_path, "zarr"))
    X[:10]
    array = {"store": tmp_path / "rows.zarr", "chunks": (3500, 6), "overwrite": True}
    zarr.create_array(data=rows[:10_000], **array)
    with pytest.raises(ValueError, match="changed while it was being read"):
        X[19_000:]


def test_rows_in_blocks_are_indexed_like_arrays(rows):
    X = blocks_of(rows, 3500)
    for where in (5, -1, [-1, 3], np.array([19_999, 0]), slice(None, None, 4500)):
        np.testing.assert_array_equal(X[where], rows[where])
    np.testing.assert_array_equal(X[:, 1:3][:3510], rows[:3510, 1:3])
    with pytest.raises(IndexError, match="row 20000 of X, which has 20000 rows"):
        X[[20_000]]
    with pytest.raises(TypeError, match="read block by block"):
        np.asarray(X)


def test_too_few_distinct_rows():
    X = blocks_of(np.ones((20_000, 2)), 9000)
    with pytest.raises(ValueError, match="only 1 distinct row, fewer than n_clusters=2"):
        CuttingPlaneMarginClustering(2).fit(X)


def test_a_folder_changed_in_between(rows, tmp_path, monkeypatch):
    written(rows, tmp_path, "npy")
    monkeypatch.chdir(tmp_path)
    X = open_rows("rows.npy")
    monkeypatch.chdir("/")
    np.testing.assert_array_equal(X[:5], rows[:5])


@pytest.mark.invariance
def test_kernel_features_keep_to_the_memory_limit(rows, fitted, tmp_path):
    X = open_rows(written(rows, tmp_path, "npy"))
    X.room = 0
    assert_same(fitted("cutting-plane-rbf"), fit(ESTIMATORS["cutting-plane-rbf"], X))
    assert mapped_rows(fitted("cutting-plane-rbf").feature_map_, X).features is not None
