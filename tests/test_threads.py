"""Fits that overlap in threads: BLAS has one thread count for the whole process."""

import os
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from itertools import permutations
from threading import Barrier, Event
from time import sleep

import numpy as np
import pytest
from sklearn.datasets import load_digits
from threadpoolctl import threadpool_info, threadpool_limits

from maxmargin import (
    AlternatingMarginClustering,
    BisectingMarginClustering,
    CuttingPlaneMarginClustering,
    LeastSquaresMarginClustering,
    MaxMarginClustering,
    MultipleKernelMarginClustering,
)
from maxmargin._threads import in_order, later, one_thread, run_all

DIGITS = load_digits().data


def counts(api="blas"):
    """Thread counts of the libraries, as the calling thread sees them."""
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == api]


@pytest.fixture
def two():
    """More than one BLAS thread, on any machine."""
    with threadpool_limits(2):
        outer = counts()
        assert max(outer) == 2  # the BLAS that comes with some solvers has one thread only
        yield outer


class Held(CuttingPlaneMarginClustering):
    """A fit that goes on when it is told to, and tells the thread counts that it works with."""

    def hold(self):
        self.entered, self.go, self.seen = Event(), Event(), []
        return self

    def _fit_model(self, data):
        self.entered.set()
        assert self.go.wait(60)
        self.seen.extend([*counts("blas"), *counts("openmp")])
        if self.max_iter == 1:
            raise RuntimeError("stopped")
        return super()._fit_model(data)


@pytest.mark.parametrize("order", [*permutations(range(3))], ids=str)
@pytest.mark.parametrize("fails", [False, True])
def test_overlapping_fits_restore_the_thread_count_in_any_order(two, order, fails):
    X = DIGITS[:60]
    limits = [1 if fails and i == order[0] else 200 for i in range(3)]
    models = [Held(n_init=1, max_iter=limit).hold() for limit in limits]
    between = []
    with ThreadPoolExecutor(3) as pool:
        fits = []
        for model in models:
            fits.append(pool.submit(model.fit, X))
            assert model.entered.wait(60)
        for i in order:
            between.append(set(counts()))
            models[i].go.set()
            error = fits[i].exception()
            assert (error is not None) == (fails and i == order[0])
    assert between == [{1}] * 3
    assert [set(model.seen) for model in models] == [{1}] * 3
    assert counts() == two


MODELS = [
    AlternatingMarginClustering(2, n_init=2),
    LeastSquaresMarginClustering(3, n_init=2),
    CuttingPlaneMarginClustering(3, n_init=2),
    BisectingMarginClustering(3, estimator=AlternatingMarginClustering(n_init=1)),
    MaxMarginClustering(3, n_init=2, n_resamples=0),
    MultipleKernelMarginClustering(2, n_components=10, n_init=2),
]


def fitted(job):
    number, seed = job
    X = DIGITS[: 200 + 50 * seed]
    model = type(MODELS[number])(**MODELS[number].get_params(deep=False))
    return model.set_params(random_state=seed).fit(X).decision_function(X)


def test_overlapping_fits_have_the_bits_of_serial_ones(two):
    jobs = [(number, seed) for seed in range(2) for number in range(len(MODELS))]
    serial = [fitted(job) for job in jobs]
    with ThreadPoolExecutor(4) as pool:
        overlapping = list(pool.map(fitted, jobs))
    assert [np.array_equal(a, b) for a, b in zip(serial, overlapping)] == [True] * len(jobs)
    assert counts() == two


def test_every_item_is_done_once_and_an_error_ends_the_others():
    done = []
    run_all(done.append, range(500), 3)
    assert sorted(done) == list(range(500))

    def fail(item):
        done.append(item)
        if item == 3:
            raise IndexError("of the work")

    for n_jobs in (1, 2):
        done.clear()
        with pytest.raises(IndexError, match="of the work"):
            run_all(fail, range(100_000), n_jobs)
        assert 3 in done and len(done) < 100_000


def test_work_within_work_and_beside_a_long_one_does_not_wait_for_ever():
    rows = [*range(4)]

    def sums(item):
        found = []
        run_all(found.append, rows, 2)
        return sum(in_order(lambda row: row * item, found, 2))

    begun, go = Event(), Event()

    def long():
        begun.set()
        return go.wait(60)

    long_one = later(long, 2)  # takes one of the two threads
    assert begun.wait(60)
    assert list(in_order(sums, rows, 2)) == [0, 6, 12, 18]
    run_all(rows.append, [4, 5, 6], 2)
    assert sorted(rows) == [*range(7)]
    go.set()
    assert long_one()


def test_uses_within_a_use_and_errors(two):
    with pytest.raises(ZeroDivisionError), one_thread():
        with one_thread():
            pass
        assert set(counts()) == {1}
        1 / 0  # noqa: B018
    assert counts() == two


FORKED = """
    import os, threading
    from threadpoolctl import threadpool_info, threadpool_limits
    import numpy as np
    from maxmargin._threads import in_order, later, one_thread, run_all

    def counts():
        return {i["num_threads"] for i in threadpool_info() if i["user_api"] == "blas"}

    def in_child():
        child = os.fork()
        if child == 0:
            before = counts()
            with one_thread():
                inside = counts()
            print(before, inside, counts(), np.ones((300, 300)).dot(np.ones((300, 300)))[0, 0])
            os._exit(0)
        os.waitpid(child, 0)

    def hold():
        with one_thread():
            entered.set()
            leave.wait()

    threadpool_limits(2)
    entered, leave = threading.Event(), threading.Event()
    other = threading.Thread(target=hold)
    other.start()
    entered.wait()
    print(counts(), flush=True)
    in_child()
    leave.set()
    other.join()
    with one_thread():
        in_child()
    print(counts())
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_process_counts_its_own_uses_only():
    done = subprocess.run(
        [sys.executable, "-u", "-W", "ignore", "-c", textwrap.dedent(FORKED)],
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    assert done.stdout.splitlines() == [
        "{1}",
        "{2} {1} {2} 300.0",  # the use that was going on belongs to a thread of the parent
        "{1} {1} {1} 300.0",  # here to the thread that forked
        "{2}",
    ]


@pytest.mark.parametrize(("n", "threads"), [(499, 1), (500, 3)])
def test_few_rows_are_fitted_on_one_thread(monkeypatch, n, threads):
    seen = []

    class Seen(CuttingPlaneMarginClustering):
        def _fit_model(self, data):
            seen.append(data.n_jobs)
            return super()._fit_model(data)

    monkeypatch.undo()  # the tests' own setting
    Seen(n_init=1, n_jobs=3).fit(DIGITS[:n])
    assert seen == [threads]


def test_results_are_not_far_ahead_of_what_was_asked_for():
    begun = []
    results = in_order(lambda i: begun.append(i) or i, range(100), 2, ahead=3)
    assert next(results) == 0
    sleep(0.1)  # the other thread goes on
    assert len(begun) <= 1 + 2 * 3
    assert list(results) == [*range(1, 100)]
    assert sorted(begun) == [*range(100)]


def test_threads_work_at_the_same_time():
    both = Barrier(2, timeout=20)
    run_all(lambda _: both.wait(), range(2), 2)
    assert [*in_order(lambda i: both.wait() * 0 + i, range(8), 2)] == [*range(8)]


@pytest.mark.parametrize("n_jobs", [1, 2, 5])
def test_results_before_an_error_are_given_and_the_first_error_is_raised(n_jobs):
    def fail(i):
        if i >= 5:
            raise IndexError(i)
        return i

    found = []
    with pytest.raises(IndexError, match="5"):
        for result in in_order(fail, range(50), n_jobs):
            found.append(result)
    assert found == [0, 1, 2, 3, 4]


SUSPENDED = """
from maxmargin._threads import in_order
def consume():
    results = in_order(lambda i: i, range(1000), 2)
    for result in results:
        raise {error}
consume()
"""


@pytest.mark.parametrize("error", ["ValueError", "KeyboardInterrupt"])
def test_a_program_ends_though_results_were_not_asked_for(error):
    # The traceback of the error keeps the generator, which is never closed.
    program = [sys.executable, "-c", SUSPENDED.format(error=error)]
    ended = subprocess.run(program, capture_output=True, text=True, timeout=60)
    assert ended.returncode != 0
    assert ended.stderr.strip().endswith(error)


def test_items_that_are_not_asked_for_are_not_begun():
    begun = []
    results = in_order(lambda i: begun.append(i) or i, range(1000), 2)
    assert [next(results), next(results)] == [0, 1]
    results.close()
    done = len(begun)
    assert done < 20
    assert list(in_order(abs, [-1, -2], 2)) == [1, 2]  # the threads are free again
    assert len(begun) == done
