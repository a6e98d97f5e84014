"""Shared settings and data of the tests."""

import os
import signal

# Before numpy is imported: BLAS threads of one worker would wait for those of the others.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import pytest
from hypothesis import HealthCheck, settings
from sklearn.datasets import load_digits, make_blobs

settings.register_profile(
    "maxmargin",
    deadline=None,
    derandomize=True,
    max_examples=40,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("maxmargin")


@pytest.fixture(autouse=True)
def threads_for_few_rows(monkeypatch):
    """Fits of a few rows use threads, too: tests of threads need no large data."""
    monkeypatch.setattr("maxmargin._base.THREADED_ROWS", 0)


@pytest.fixture(scope="session")
def digits_pair():
    """Handwritten 3s and 8s: 357 rows, 64 columns."""
    X, y = load_digits(return_X_y=True)
    pair = (y == 3) | (y == 8)
    return X[pair], (y[pair] == 8).astype(int)


@pytest.fixture(scope="session")
def blobs():
    """Four well separated blobs of unequal size."""
    return make_blobs([60, 45, 30, 15], n_features=5, cluster_std=0.6, random_state=3)


@pytest.fixture
def ctrl_c():
    """Programs started in the background ignore Ctrl-C; tests of it must not."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Keep a file in one process, which compiles its functions and makes its data once."""
    from xdist.scheduler import LoadFileScheduling

    return LoadFileScheduling(config, log) if config.option.dist == "load" else None
