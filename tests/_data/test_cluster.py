"""The same fits on worker processes: equal results, lost workers, a lost scheduler."""

import os
import pickle
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.metrics import adjusted_rand_score

from maxmargin import CuttingPlaneMarginClustering
from maxmargin._data import dask as cluster
from maxmargin._data.source import BLOCK, SchedulerLost

from ._blocks import ESTIMATORS, assert_same, fit, fitted_in_memory, rows_in_memory, with_nan

da = pytest.importorskip("dask.array")


@pytest.fixture
def rows():
    return rows_in_memory()


@pytest.fixture
def fitted():
    return fitted_in_memory


@pytest.fixture(scope="module")
def workers():
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            dashboard_address=None,
            silence_logs=50,
        ) as local,
        distributed.Client(local, set_as_default=False) as client,
    ):
        yield client


# The passes of the others are tried without workers.
@pytest.mark.parametrize("name", ["cutting-plane", "cutting-plane-rbf", "laplacian", "front-door"])
def test_worker_processes_give_the_result_of_memory(name, rows, fitted, workers):
    size = BLOCK if name != "cutting-plane-rbf" else 4500
    X = da.from_array(rows, chunks=(size, 6))
    with workers.as_current():
        found = fit(ESTIMATORS[name], X)
    assert_same(fitted(name), found)
    assert isinstance(found.labels_, da.Array)


def test_labels_and_codes_stay_on_the_workers(rows, workers, monkeypatch):
    """What comes back in a pass is no longer than the sums of its blocks."""
    received = []
    plain = cluster._computed

    def counted(*tasks):
        results = plain(*tasks)
        received.append(len(pickle.dumps(results)))
        return results

    passes = []
    run = cluster.DaskRows.run

    def watched(self, *args):
        passes.append(1)
        monkeypatch.setattr(cluster, "_computed", counted)
        try:
            return run(self, *args)
        finally:
            monkeypatch.setattr(cluster, "_computed", plain)

    monkeypatch.setattr(cluster.DaskRows, "run", watched)
    estimator = CuttingPlaneMarginClustering(2, random_state=0)
    with workers.as_current():
        estimator.fit(da.from_array(rows, chunks=(4500, 6)))
    assert len(passes) > 3
    assert max(received) < len(rows)  # less than one byte per row, while rows have 48


def test_a_worker_killed_during_the_fit_is_survived(rows, fitted, workers, monkeypatch):
    run, calls = cluster.DaskRows.run, []

    def deadly(self, *args):
        calls.append(1)
        if len(calls) == 3:
            pids = workers.run(os.getpid)
            os.kill(sorted(pids.values())[0], 9)
        return run(self, *args)

    monkeypatch.setattr(cluster.DaskRows, "run", deadly)
    with workers.as_current():
        found = fit(ESTIMATORS["cutting-plane"], da.from_array(rows, chunks=(BLOCK, 6)))
    assert len(calls) > 3
    assert_same(fitted("cutting-plane"), found)


def test_a_lost_scheduler_leaves_a_model_to_go_on_from(rows, fitted, monkeypatch):
    """The scheduler is a process of its own here, and is killed between two passes."""
    distributed = pytest.importorskip("distributed")
    code = textwrap.dedent(
        """
        import sys
        from distributed import LocalCluster
        if __name__ == "__main__":
            local = LocalCluster(n_workers=1, threads_per_worker=1, processes=False,
                                 protocol="tcp", dashboard_address=None, silence_logs=50)
            print(local.scheduler_address, flush=True)
            sys.stdin.read()
        """
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    run, calls = cluster.DaskRows.run, []

    def deadly(self, *args):
        calls.append(1)
        if len(calls) == 5:
            process.kill()
            process.wait()
        return run(self, *args)

    monkeypatch.setattr(cluster.DaskRows, "run", deadly)
    estimator = clone(ESTIMATORS["cutting-plane"]).set_params(warm_start=True, tol=1e-4)
    client = distributed.Client(process.stdout.readline().strip(), timeout=20, set_as_default=False)
    try:
        message = r"scheduler does not answer.*warm_start=True"
        with client.as_current(), pytest.raises(SchedulerLost, match=message):
            estimator.fit(da.from_array(rows, chunks=(BLOCK, 6)))
    finally:
        client.close(timeout=1)
        process.kill()
        process.wait()
    before = estimator.predict(rows)
    estimator.fit(rows)
    # A few passes lead from the model that was left to the one of an undisturbed fit.
    assert adjusted_rand_score(before, estimator.labels_) > 0.9
    assert estimator.objective_ <= fitted("cutting-plane").objective_ * 1.001


def test_nan_on_a_worker_is_named(rows, workers):
    X = da.from_array(with_nan(rows, 15_005), chunks=(5000, 6))
    message = r"block 3: row 5 \(row 15005 of all\) contains NaN"
    with workers.as_current(), pytest.raises(ValueError, match=message):
        CuttingPlaneMarginClustering(3, random_state=0).fit(X)


def test_known_labels_and_weights_on_workers(rows, workers):
    """Known labels against the model, and on rows that do not count, as in memory."""
    weights = np.random.default_rng(0).integers(0, 3, len(rows)).astype(float)
    known = np.full(len(rows), -1)
    known[:60] = np.arange(60) % 4
    estimator = clone(ESTIMATORS["cutting-plane"])
    given = {"sample_weight": weights, "partial_labels": known}
    expected = clone(estimator).fit(rows, **given)
    with workers.as_current():
        found = clone(estimator).fit(da.from_array(rows, chunks=(4500, 6)), **given)
    assert_same(expected, found)
    assert found.labels_.dtype == expected.labels_.dtype
    assert found.cluster_sizes_.dtype == expected.cluster_sizes_.dtype


@pytest.mark.parametrize("name", ["cutting-plane", "cutting-plane-rbf"])
def test_empty_chunks_on_workers(name, rows, fitted, workers):
    X = da.concatenate([da.from_array(rows[:BLOCK]), da.zeros((0, 6)), da.from_array(rows[BLOCK:])])
    with workers.as_current():
        assert_same(fitted(name), fit(ESTIMATORS[name], X))


def test_features_of_the_learned_kernel_on_workers(rows, fitted, workers):
    """``transform`` has the columns that ``get_feature_names_out`` names, and stays lazy."""
    X = da.from_array(rows, chunks=(4500, 6))
    expected = fitted("multiple-kernel").transform(rows)
    with workers.as_current():
        found = fit(ESTIMATORS["multiple-kernel"], X)
        features = found.transform(X)
        assert isinstance(features, da.Array)
        assert features.dtype == expected.dtype
        np.testing.assert_allclose(features.compute(), expected, rtol=0, atol=1e-9)
    names = found.get_feature_names_out()
    assert len(names) == expected.shape[1] > 2
    assert list(found.set_output(transform="pandas").transform(rows[:5]).columns) == list(names)
