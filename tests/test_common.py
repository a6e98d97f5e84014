"""The contract every estimator keeps, generated from one list of estimators."""

import inspect
import os
import pickle
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse
from scipy.optimize import linear_sum_assignment
from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import load_digits, make_blobs
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from maxmargin import (
    AlternatingMarginClustering,
    BisectingMarginClustering,
    CuttingPlaneMarginClustering,
    LeastSquaresMarginClustering,
    MaxMarginClustering,
    MultipleKernelMarginClustering,
    PairwiseConstraints,
    PairwiseMarginClustering,
    SemidefiniteMarginClustering,
    TimeLimit,
)
from maxmargin._core import lapack
from maxmargin._core.lapack import interruptible
from maxmargin._data.source import MemoryRows
from maxmargin.persistence import load_model, save_model
from reproduction.data import ringnorm

ESTIMATORS = [
    AlternatingMarginClustering(kernel=kernel, loss=loss)
    for kernel in ("linear", "rbf")
    for loss in ("laplacian", "squared", "hinge")
] + [
    make(kernel)
    for kernel in ("linear", "rbf")
    for make in (
        lambda kernel: BisectingMarginClustering(
            estimator=AlternatingMarginClustering(kernel=kernel)
        ),
        lambda kernel: LeastSquaresMarginClustering(kernel=kernel),
        lambda kernel: PairwiseMarginClustering(kernel=kernel),
        lambda kernel: CuttingPlaneMarginClustering(kernel=kernel),
        # Polynomials depend on the origin, which one of the tests below moves.
        lambda kernel: MultipleKernelMarginClustering(kernels=[kernel, ("rbf", {"width": 2.0})]),
        lambda kernel: SemidefiniteMarginClustering(kernel=kernel),
        lambda kernel: MaxMarginClustering(2, kernel="auto" if kernel == "rbf" else kernel),
    )
]


def quick(estimator):
    """A copy with two starts and two resamples."""
    few = [name for name in estimator.get_params() if re.search(r"\bn_(init|resamples)$", name)]
    return clone(estimator).set_params(**dict.fromkeys(few, 2))


SHORT = [quick(estimator) for estimator in (ESTIMATORS[0], ESTIMATORS[4], *ESTIMATORS[-7:])]


def name(estimator):
    inner = getattr(estimator, "estimator", estimator)
    loss = getattr(inner, "loss", "")
    kernel = getattr(inner, "kernel", None) or inner.kernels[0]
    return f"{type(estimator).__name__}-{kernel}-{loss}"


CUTS = (CuttingPlaneMarginClustering, MultipleKernelMarginClustering)
invariance = pytest.mark.invariance
every = pytest.mark.parametrize("estimator", ESTIMATORS, ids=name)
some = pytest.mark.parametrize("estimator", SHORT, ids=name)


@parametrize_with_checks(SHORT[1:])  # one of each class
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def seeded(estimator, n_clusters=2, **params):
    return clone(estimator).set_params(n_clusters=n_clusters, random_state=0, **params)


# -- the size floor --------------------------------------------------------------------------------


def told_of_sizes(estimator, X, balance):
    """Return a fitted model, and its warnings about ``balance``."""
    model = seeded(estimator, 2)
    getattr(model, "estimator", model).set_params(balance=balance)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X)
    return model, [str(w.message) for w in caught if "balance=" in str(w.message)]


@some
def test_clusters_on_the_size_floor_are_listed_and_told_once(estimator):
    X, _ = make_blobs([75, 15], 3, centers=[[0, 0, 0], [9, 0, 0]], random_state=0)
    model, told = told_of_sizes(estimator, X, 1.0)
    short = 45 - int(model.cluster_sizes_.min())
    few = model.clusters_on_floor_.size
    assert 0 < few <= 2
    what = f"decided the size of {few} of 2 clusters" if short == 0 else "cannot be met"
    assert len(told) == 1 and told[0].startswith(f"balance=1.0 {what}")
    assert short == 0 or f"{short} short of 45" in told[0]
    model, told = told_of_sizes(estimator, X, 0.1)
    assert model.cluster_sizes_.min() > 4
    assert model.clusters_on_floor_.size == 0 and not told


@some
def test_a_size_floor_that_cannot_be_met_is_told_once(estimator):
    X = np.repeat([[0.0, 0.0], [1.0, 1.0]], [9, 1], axis=0)
    model, told = told_of_sizes(estimator, X, 0.8)
    assert model.cluster_sizes_.tolist() == [9, 1]
    assert len(told) == 1 and "cannot be met" in told[0] and "3 short of 4" in told[0]


# -- the same result however the rows come --------------------------------------------------------


def matched_numbers(labels, other):
    """Number in ``labels`` of each cluster of ``other``: another one only among equal sizes.

    Clusters of equal size are numbered by their first row, and rows may come in another order.
    """
    sizes, other_sizes = np.bincount(labels), np.bincount(other)
    numbers = np.arange(len(sizes))
    for size in np.unique(sizes):
        tied, found = np.flatnonzero(sizes == size), np.flatnonzero(other_sizes == size)
        if len(tied) == len(found):
            shared = [[np.sum((labels == a) & (other == b)) for a in tied] for b in found]
            numbers[found] = tied[linear_sum_assignment(shared, maximize=True)[1]]
    return numbers


@invariance
@some
@pytest.mark.parametrize("k", [2, 3])
def test_equal_sizes_are_numbered_by_their_first_row(estimator, k):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12 * k, 2)) + 50.0 * np.eye(3)[np.arange(12 * k) % k, :2]
    for rows in (X, X[::-1]):
        model = seeded(estimator, k).fit(rows)
        assert model.cluster_sizes_.tolist() == [12] * k
        assert model.labels_[:k].tolist() == list(range(k))
    # The first row has no weight, the last ones of the other clusters have none, and the sums of
    # the weights differ in their last digits.
    weights = np.tile(np.arange(12.0)[::-1, None] / 10, k)
    weights[:, 0] = weights[::-1, 0]
    model = seeded(estimator, k).fit(X, sample_weight=weights.ravel())
    assert model.labels_[1 : k + 1].tolist() == list(range(k))


def hurried(estimator, **params):
    """A copy with one start and few features: for tests that need many rows, not good clusters."""
    model = seeded(estimator, **params)
    inner = getattr(model, "estimator", model)
    if isinstance(inner, (LeastSquaresMarginClustering, MaxMarginClustering)):
        return model.set_params(n_init=2, max_samples=1100)
    if isinstance(inner, (CuttingPlaneMarginClustering, MultipleKernelMarginClustering)):
        return model.set_params(n_init=2, n_components=8)
    if isinstance(inner, SemidefiniteMarginClustering):
        return model.set_params(tol=1e-2)
    inner.set_params(alpha=0.01, init="random", n_init=1, n_components=8, solver_tol=0.05)
    return model


@some
def test_threads_change_no_bit(estimator):
    X, _ = ringnorm(2_200, seed=3)  # three tiles
    X = X[:, :4]
    few = X[::20] if isinstance(estimator, SemidefiniteMarginClustering) else X
    one, many = (hurried(estimator, n_clusters=3, n_jobs=jobs).fit(few) for jobs in (1, 5))
    assert (one.labels_ == many.labels_).all()
    assert (one.decision_function(X) == many.decision_function(X)).all()
    assert (one.coef_ == many.coef_).all()
    assert (one.intercept_ == many.intercept_).all()


@some
@invariance
def test_dense_csr_and_memmap_agree(estimator, digits_pair, tmp_path):
    X = digits_pair[0][::2]
    np.save(tmp_path / "X.npy", X)
    dense = seeded(estimator, 3).fit(X)
    for other in (sparse.csr_array(X), np.load(tmp_path / "X.npy", "r")):
        model = seeded(estimator, 3).fit(other)
        assert (model.labels_ == dense.labels_).all()
        scores = model.decision_function(other)
        assert scores == pytest.approx(dense.decision_function(X), abs=1e-10)


@some
def test_untidy_csr_is_tidied(estimator):
    X = sparse.random(60, 8, density=0.4, random_state=0, format="csr")
    untidy = sparse.csr_matrix(
        (
            np.concatenate([X.data, [0.5, 0.5, 0.0]]),
            np.concatenate([X.indices, [7, 7, 0]]).astype(np.int64),
            np.append(X.indptr[:-1], X.indptr[-1] + 3).astype(np.int64),
        ),
        shape=X.shape,
    )
    untidy.has_sorted_indices = False
    tidy = sparse.csr_matrix(untidy.toarray())
    before = untidy.data.copy()
    a, b = seeded(estimator).fit(untidy), seeded(estimator).fit(tidy)
    assert (a.labels_ == b.labels_).all()
    assert (untidy.data == before).all(), "the user's matrix was changed"


@invariance
@every
def test_row_order_does_not_matter(estimator, digits_pair):
    X = digits_pair[0][::2]
    order = np.random.default_rng(0).permutation(len(X))
    a, b = seeded(estimator).fit(X), seeded(estimator).fit(X[order])
    numbers = matched_numbers(a.labels_[order], b.labels_)
    if isinstance(estimator, BisectingMarginClustering):
        assert np.mean(a.labels_[order] == numbers[b.labels_]) > 0.99
    else:
        assert (a.labels_[order] == numbers[b.labels_]).all()
        expected = a.decision_function(X)[:, numbers]
        assert b.decision_function(X) == pytest.approx(expected, abs=1e-10)


@every
def test_unit_and_origin_do_not_matter(estimator):
    X, y = load_digits(return_X_y=True)
    X = X[(y == 2) | (y == 7)][::2]  # 3 and 8 have two optima nearly as good
    # The objective is known to the tolerance of the solver.
    exact = {"tol": 1e-4} if isinstance(estimator, CUTS) else {}
    plain = seeded(estimator, **exact).fit(X)
    moved = seeded(estimator, **exact).fit(X * 1024.0 + 4096.0)
    assert np.mean(plain.labels_ == moved.labels_) > 0.99
    assert plain.objective_ == pytest.approx(moved.objective_, rel=1e-3)


@invariance
@every
def test_rotation_does_not_matter(estimator, blobs):
    X = blobs[0]
    Q = np.linalg.qr(np.random.default_rng(0).normal(size=(5, 5)))[0]
    a, b = seeded(estimator).fit(X), seeded(estimator).fit(X @ Q)
    assert (a.labels_ == b.labels_).all()


@some
def test_float32_finds_the_same_clusters(estimator, digits_pair):
    X = digits_pair[0][::2]
    a, b = seeded(estimator).fit(X), seeded(estimator).fit(X.astype(np.float32))
    assert np.mean(a.labels_ == b.labels_) > 0.98


@invariance
@every
def test_weight_two_equals_row_twice(estimator, digits_pair):
    X = digits_pair[0][:150]
    w = np.random.default_rng(1).integers(0, 4, 150)
    a = seeded(estimator).fit(X, sample_weight=w)
    b = seeded(estimator).fit(np.repeat(X, w, axis=0))
    assert (a.predict(X) == b.predict(X)).all()
    assert a.decision_function(X) == pytest.approx(b.decision_function(X), abs=1e-6)


@some
def test_same_seed_same_bits(estimator, blobs):
    X = blobs[0]
    a, b = seeded(estimator, 3).fit(X), seeded(estimator, 3).fit(X)
    assert (a.labels_ == b.labels_).all()
    assert (a.decision_function(X) == b.decision_function(X)).all()


# -- what fitted models promise -------------------------------------------------------------------


@some
@pytest.mark.parametrize("k", [1, 2, 4])
def test_fitted_attributes(estimator, blobs, k):
    X = blobs[0]
    model = seeded(estimator, k).fit(X)
    assert (model.predict(X) == model.labels_).all()
    assert (model.fit_predict(X) == model.labels_).all()
    assert (model.cluster_sizes_ == np.bincount(model.labels_, minlength=k)).all()
    assert (np.diff(model.cluster_sizes_) <= 0).all()
    scores = model.decision_function(X)
    assert scores.shape == (len(X), k)
    if isinstance(model, MultipleKernelMarginClustering):
        assert model.transform(X).shape == (len(X), len(model.get_feature_names_out()))
    else:
        assert (model.transform(X) == scores).all()
        names = model.get_feature_names_out()
        assert list(names) == [f"{type(model).__name__.lower()}{i}" for i in range(k)]
    assert (model.labels_[model.exemplar_indices_] == np.arange(k)).all()
    if k > 1:
        lead = np.sort(scores, axis=1)[:, -1] - np.sort(scores, axis=1)[:, -2]
        for cluster, row in enumerate(model.exemplar_indices_):
            assert lead[row] == lead[model.labels_ == cluster].max()
    assert np.isfinite(model.objective_)
    assert model.score(X) <= 0
    assert model.stop_reason_ in {"converged", "max_iter", "stalled"}


@some
def test_a_saved_model_predicts_the_same_bits(estimator, blobs, tmp_path):
    X = blobs[0]
    model = seeded(estimator, 3).fit(X)
    for kind in ("skops", "joblib"):
        save_model(model, tmp_path / f"m.{kind}")
    with pytest.warns(UserWarning, match="pickle"):
        joblib = load_model(tmp_path / "m.joblib")
    for again in (load_model(tmp_path / "m.skops"), joblib, pickle.loads(pickle.dumps(model))):
        assert (again.decision_function(X) == model.decision_function(X)).all()
        assert again.get_params(deep=False).keys() == model.get_params(deep=False).keys()


@some
def test_frames_in_and_out(estimator, blobs):
    X, columns = blobs[0], list("abcde")
    plain = seeded(estimator, 3).fit(X)
    frame = (
        seeded(estimator, 3).set_output(transform="pandas").fit(pd.DataFrame(X, columns=columns))
    )
    out = frame.transform(pd.DataFrame(X, columns=columns))
    assert isinstance(out, pd.DataFrame)
    assert out.to_numpy() == pytest.approx(plain.transform(X), abs=1e-10)
    assert list(frame.feature_names_in_) == columns
    polars = (
        seeded(estimator, 3).set_output(transform="polars").fit(pl.DataFrame(X, schema=columns))
    )
    assert isinstance(polars.transform(pl.DataFrame(X, schema=columns)), pl.DataFrame)
    with pytest.raises(ValueError, match="feature names"):
        frame.predict(pd.DataFrame(X, columns=list("edcba")))


def test_lives_in_a_pipeline_and_a_grid_search(digits_pair):
    X = digits_pair[0]
    pipeline = make_pipeline(StandardScaler(), AlternatingMarginClustering(random_state=0))
    assert (pipeline.fit(X).predict(X) == pipeline[-1].labels_).all()
    X, gammas = X[:150], [1e-4, 1e-3]
    estimator = AlternatingMarginClustering(loss="squared", n_init=1, random_state=0)
    search = GridSearchCV(estimator, {"gamma": gammas}, cv=KFold(2), error_score="raise").fit(X)
    folds = list(KFold(2).split(X))
    expected = [
        np.mean([clone(estimator).set_params(gamma=g).fit(X[a]).score(X[b]) for a, b in folds])
        for g in gammas
    ]
    assert expected[0] != expected[1]
    assert search.cv_results_["mean_test_score"] == pytest.approx(expected)
    assert search.best_params_ == {"gamma": gammas[np.argmax(expected)]}


# -- callbacks and stopping -----------------------------------------------------------------------


class Counter:
    """A callback that counts iterations and may ask to stop."""

    def __init__(self, stop_after=None):
        self.stop_after, self.begun, self.ended, self.torn_down = stop_after, 0, 0, 0

    def setup(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        self.begun += 1

    def on_fit_task_end(self, estimator, context):
        self.ended += 1
        return self.stop_after is not None and self.ended >= self.stop_after

    def teardown(self, estimator, context):
        self.torn_down += 1


@some
def test_callbacks_see_iterations_and_change_nothing(estimator, blobs):
    X, counter = blobs[0], Counter()
    plain = seeded(estimator, 3).fit(X)
    watched = seeded(estimator, 3).set_callbacks(counter).fit(X)
    assert counter.begun == counter.ended >= 3
    assert counter.torn_down == 1
    assert (plain.labels_ == watched.labels_).all()


def test_a_callback_can_stop_the_fit(digits_pair):
    X, counter = digits_pair[0], Counter(stop_after=1)
    model = AlternatingMarginClustering(random_state=0).set_callbacks(counter).fit(X)
    assert model.stop_reason_ == "callback"
    assert model.cluster_sizes_.sum() == len(X)


def test_time_limit_ends_every_split(digits_pair):
    X = digits_pair[0]
    counter = Counter()
    model = BisectingMarginClustering(4, random_state=0)
    model.set_callbacks(TimeLimit(1e-9), counter).fit(X)
    assert model.stop_reason_ == "time"
    assert counter.ended <= 3, "iterations went on after the time was over"
    assert all(split.stop_reason_ == "time" for split in model.splits_)


def test_time_limit(digits_pair):
    X = digits_pair[0]
    model = AlternatingMarginClustering(random_state=0).set_callbacks(TimeLimit(1e-9)).fit(X)
    assert model.stop_reason_ == "time"
    free = AlternatingMarginClustering(random_state=0).set_callbacks(TimeLimit(1e9)).fit(X)
    assert free.stop_reason_ == "converged"
    with pytest.raises(ValueError, match="seconds must be a positive number, got 0"):
        TimeLimit(0)


def test_not_converging_is_said(digits_pair):
    X, _ = ringnorm(150)
    model = AlternatingMarginClustering(
        loss="squared", alpha=1e-3, init="random", n_init=1, max_iter=1, random_state=0
    )
    with pytest.warns(ConvergenceWarning, match="did not converge within max_iter iterations"):
        model.fit(X)
    assert model.stop_reason_ == "max_iter"


INTERRUPTED = """
    import sys, time, threading, os, signal
    import numpy as np
    from maxmargin import AlternatingMarginClustering
    rng = np.random.default_rng(0)
    small = np.vstack([rng.normal(size=(50, 3)), rng.normal(size=(50, 3)) + 5])
    model = AlternatingMarginClustering(random_state=0, n_jobs=2, solver_tol=1e-9).fit(small)
    before = model.labels_.copy(), model.coef_.copy(), model.n_features_in_
    big = rng.normal(size=(400_000, 30)).astype(np.float32)
    print("ready", flush=True)
    try:
        model.fit(big)
        print("finished")
    except KeyboardInterrupt:
        t = time.monotonic()
        ok = (model.labels_ == before[0]).all() and (model.coef_ == before[1]).all()
        ok = ok and model.n_features_in_ == before[2] and len(model.predict(small)) == 100
        print("interrupted", "kept" if ok else "lost", flush=True)
"""


def test_ctrl_c_stops_a_long_fit_and_keeps_the_earlier_one(ctrl_c):
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(INTERRUPTED)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline().strip() == "ready"
    time.sleep(1.5)
    os.kill(process.pid, signal.SIGINT)
    out, _ = process.communicate(timeout=30)
    assert out.strip() == "interrupted kept"


COMPILING = """
    import signal
    import numpy as np
    from numba.core.registry import cpu_target
    from maxmargin import AlternatingMarginClustering

    signal.signal(signal.SIGINT, signal.default_int_handler)
    X = np.vstack([np.eye(10), np.eye(10) + 5])
    codegen = cpu_target.target_context.codegen()
    library = codegen._library_class

    def compiled(module, code):
        signal.raise_signal(signal.SIGINT)  # as if it had come while LLVM was at work
        library._object_compiled_hook(module, code)

    codegen._engine.set_object_cache(compiled, library._object_getbuffer_hook)
    model = AlternatingMarginClustering(2, loss="squared", alpha=0.1, random_state=0)
    try:
        model.fit(X)
    except BaseException as error:
        print(type(error).__name__)
    codegen._engine.set_object_cache(library._object_compiled_hook, library._object_getbuffer_hook)
    print(model.fit(X).cluster_sizes_.tolist())
"""


def test_ctrl_c_during_a_compilation_is_a_keyboard_interrupt(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(COMPILING)],
        env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.stdout.split("\n") == ["KeyboardInterrupt", "[10, 10]", ""], done.stderr


def test_long_compiled_searches_return_now_and_then(monkeypatch):
    from maxmargin.least_squares import _label_search as labels

    X = np.random.default_rng(0).normal(size=(300, 3))
    model = LeastSquaresMarginClustering(4, search="steepest", n_init=1, random_state=0)
    whole = clone(model).fit(X)
    asked = []

    def steps(*args):
        asked.append(args[-1])
        return compiled(*args)

    compiled = labels.steepest_steps
    monkeypatch.setattr(labels, "steepest_steps", steps)
    monkeypatch.setattr(labels, "STEEPEST_WORK", 10 * 300 * 4)
    few = clone(model).fit(X)
    assert max(asked) == 10 and len(asked) > 3
    assert (few.labels_ == whole.labels_).all() and few.history_ == whole.history_


def test_other_threads_go_on_while_lapack_works():
    A = np.random.default_rng(0).normal(size=(400, 400))
    A = A @ A.T + 400 * np.eye(400)
    lapack._lapack("dpotrf", b"L", 400, A.copy(), 400)  # imports what it needs
    ticks, over = [0], threading.Event()

    def tick():
        while not over.wait(0.0005):
            ticks[0] += 1

    def passed():
        factor, before = A.copy(), ticks[0]
        assert lapack._lapack("dpotrf", b"L", 400, factor, 400) == 0
        return ticks[0] - before

    thread = threading.Thread(target=tick)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(60)  # a thread runs only while this one waits or gives up the lock
    thread.start()
    try:
        # One call may end before the other thread wakes up.
        assert any(passed() for _ in range(2000))
    finally:
        sys.setswitchinterval(interval)
        over.set()
        thread.join()


def test_eigenvectors_and_inverses_of_lapack():
    A = np.random.default_rng(0).normal(size=(400, 400))
    A = A @ A.T + 400 * np.eye(400)
    values, vectors = lapack.eigh(A)
    assert (np.diff(values) >= 0).all()
    assert A @ vectors == pytest.approx(vectors * values, abs=1e-8)
    assert vectors.T @ vectors == pytest.approx(np.eye(400), abs=1e-10)
    inverse = A.copy()
    assert lapack.invert_definite(inverse) == 0
    assert A @ inverse == pytest.approx(np.eye(400), abs=1e-10)
    assert lapack.invert_definite(-np.eye(3)) != 0


@pytest.mark.parametrize(
    "kind",
    [
        AlternatingMarginClustering,
        CuttingPlaneMarginClustering,
        LeastSquaresMarginClustering,
        MaxMarginClustering,
        PairwiseMarginClustering,
        SemidefiniteMarginClustering,
    ],
)
def test_rows_of_weight_zero_are_refused_in_a_kernel_matrix(kind):
    weights = np.ones(len(GOOD))
    weights[0] = 0
    model = kind(2, kernel="precomputed", random_state=0)
    with pytest.raises(ValueError, match="leave out those rows, and their columns"):
        model.fit(GOOD @ GOOD.T, sample_weight=weights)


def test_bisecting_leaves_out_rows_and_columns_of_weight_zero():
    K, weights = GOOD @ GOOD.T + np.eye(len(GOOD)), np.ones(len(GOOD))
    weights[[0, 4]] = 0
    kept = weights > 0
    one = CuttingPlaneMarginClustering(kernel="precomputed")
    model = BisectingMarginClustering(3, estimator=one, random_state=0)
    few = model.fit(K[np.ix_(kept, kept)]).labels_
    np.testing.assert_array_equal(model.fit(K, sample_weight=weights).labels_[kept], few)


def test_ctrl_c_that_compiled_code_hides_is_a_keyboard_interrupt(monkeypatch):
    def interrupted(*_args):
        raise SystemError("returned a result with an exception set") from KeyboardInterrupt()

    monkeypatch.setattr(AlternatingMarginClustering, "_fit_model", interrupted)
    with pytest.raises(KeyboardInterrupt):
        AlternatingMarginClustering().fit(GOOD)


def test_rows_are_checked_whatever_scikit_learn_assumes():
    bad = np.where(np.arange(GOOD.size).reshape(GOOD.shape) == 3, np.nan, GOOD)
    with config_context(assume_finite=True), pytest.raises(ValueError, match="X contains NaN"):
        AlternatingMarginClustering().fit(bad)


def test_long_factorisations_are_left_when_interrupted(ctrl_c):
    started = threading.Event()

    def endless():
        started.set()
        time.sleep(60)

    def interrupt():
        started.wait()
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        interruptible(5000, endless)
    with pytest.raises(ZeroDivisionError):
        interruptible(5000, lambda: 1 / 0)


def test_warm_start_on_other_columns_starts_afresh(blobs):
    X = blobs[0]
    model = AlternatingMarginClustering(warm_start=True, random_state=0).fit(X)
    model.fit(X[:, :3])
    assert model.n_features_in_ == 3


@some
def test_a_failed_fit_keeps_the_earlier_one(estimator, blobs):
    X = blobs[0]
    model = seeded(estimator).fit(X)
    before = model.__dict__.copy()
    with pytest.raises(ValueError):
        model.fit(np.full((5, 2), np.nan))
    assert model.__dict__.keys() == before.keys()
    assert model.n_features_in_ == 5
    assert (model.predict(X) == before["labels_"]).all()


RICH = {
    MaxMarginClustering: {"n_resamples": 3},
    PairwiseMarginClustering: {"alpha": "cv"},
}


@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.parametrize(
    ("estimator", "links"),
    [
        pytest.param(estimator, links, id=f"{name(estimator)}-{links}")
        for estimator in SHORT
        for links in {False, "constraints" in inspect.signature(estimator.fit).parameters}
    ],
)
@pytest.mark.filterwarnings("ignore:No constraints:UserWarning")
def test_a_fit_leaves_nothing_of_the_fit_before(estimator, blobs, k, links):
    """Other parameters, other columns with names, links: then all attributes are of the new fit."""
    X, y = blobs
    plain = {"n_resamples": 0, "alpha": 0.1}
    plain = {name: value for name, value in plain.items() if name in estimator.get_params()}
    rich = RICH.get(type(estimator), {})
    model = seeded(estimator, 3).set_params(**rich)
    if links:
        model.fit(X, constraints=PairwiseConstraints.from_labels(y, n_pairs=20, random_state=0))
    else:
        model.fit(pd.DataFrame(X[:, :4], columns=list("abcd")))
    model.set_params(n_clusters=k, **plain).fit(X)
    fresh = seeded(estimator, k).set_params(**plain).fit(X)
    assert vars(model).keys() == vars(fresh).keys()
    assert (model.decision_function(X) == fresh.decision_function(X)).all()


def test_callbacks_routing_and_output_survive_a_refit(blobs):
    X, counter = blobs[0], Counter()
    model = PairwiseMarginClustering(2, n_init=1, random_state=0).set_output(transform="pandas")
    model.set_callbacks(counter)
    with config_context(enable_metadata_routing=True):
        model.set_fit_request(constraints=True)
    links = PairwiseConstraints(len(X), must_link=[(0, 1)])
    model.fit(X, constraints=links).fit(X, constraints=links)
    assert counter.torn_down == 2
    assert isinstance(model.transform(X), pd.DataFrame)
    assert model.get_metadata_routing().fit.requests["constraints"] is True


# -- bad input ------------------------------------------------------------------------------------

GOOD = np.random.default_rng(0).normal(size=(20, 3))
BAD = {
    "nan": (np.where(GOOD > 1.5, np.nan, GOOD), "NaN"),
    "inf": (np.where(GOOD > 1.5, np.inf, GOOD), "infinity"),
    "complex": (GOOD + 1j, "[Cc]omplex"),
    "text": (np.full((5, 2), "a"), "dtype|convert"),
    "object": (np.array([[1, {}], [2, 3]], dtype=object), "dict"),
    "one row of numbers": (GOOD[:, 0], "2D array"),
    "infinity of both signs": (
        np.tile([[-np.inf, np.inf]], (8, 30)).astype(np.float32),
        "infinity",
    ),
    "no rows": (np.zeros((0, 3)), "0 sample"),
    "no columns": (np.zeros((3, 0)), "0 feature"),
    "more clusters than rows": (GOOD[:1], "n_samples=1 should be >= n_clusters=2"),
    "all rows equal": (np.ones((9, 2)), "only 1 distinct row, fewer than n_clusters=2"),
    "too large": (GOOD * 1e200, "largest absolute value in X is"),
    "too small": (GOOD * 1e-200, "largest absolute value in X is"),
}


@some
@pytest.mark.parametrize("case", BAD)
def test_bad_rows_are_refused_with_the_cause(estimator, case):
    X, message = BAD[case]
    with pytest.raises((ValueError, TypeError), match=message):
        seeded(estimator).fit(X)


@some
def test_bad_rows_at_predict(estimator):
    model = seeded(estimator).fit(GOOD)
    with pytest.raises(ValueError, match=r"X has 2 features, but .* is expecting 3"):
        model.predict(GOOD[:, :2])
    with pytest.raises(ValueError, match="NaN"):
        model.predict(np.full((2, 3), np.nan))
    with pytest.raises(NotFittedError):
        seeded(estimator).predict(GOOD)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"n_clusters": 0}, "'n_clusters' parameter .* must be an int in the range"),
        ({"loss": "huber"}, "'loss' parameter .* must be a str among"),
        ({"kernel": "gauss"}, "'kernel' parameter"),
        ({"gamma": -1.0}, "'gamma' parameter"),
        ({"balance": 1.5}, "'balance' parameter .* Got 1.5 instead"),
        ({"balance": -0.1}, "'balance' parameter"),
        ({"alpha": 0.0}, "'alpha' parameter"),
        ({"epsilon": 1.0}, "'epsilon' parameter"),
        ({"init": "best"}, "'init' parameter"),
        ({"init": [0, 1]}, "init must have one label for each of the 20 rows"),
        ({"n_init": 0}, "'n_init' parameter"),
        ({"max_iter": 0}, "'max_iter' parameter"),
        ({"n_components": 0}, "'n_components' parameter"),
        ({"solver_tol": 0.0}, "'solver_tol' parameter"),
    ],
)
def test_bad_parameters_are_named(params, message):
    with pytest.raises(ValueError, match=message):
        AlternatingMarginClustering(**params).fit(GOOD)


@some
@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (-np.ones(20), "sample_weight must not be negative; row 0 has -1"),
        (np.zeros(20), "[Zz]ero"),
        (np.ones(19), "shape"),
        (np.full(20, np.nan), "NaN"),
        (np.eye(20)[0], "n_samples=1 should be >= n_clusters=2"),
        (np.full(20, 1e307), "0 or between 1e-12 and 1e\\+12; got weights from 1e\\+307"),
        (np.full(20, 1e20), "0 or between 1e-12 and 1e\\+12; got weights from 1e\\+20"),
        (np.full(20, 1e-307), "0 or between 1e-12 and 1e\\+12; got weights from 1e-307"),
    ],
)
def test_bad_weights(estimator, weights, message):
    with pytest.raises(ValueError, match=message):
        seeded(estimator).fit(GOOD, sample_weight=weights)


@pytest.mark.parametrize("value", [1e-300, 1e-13, 1e13, 1e300])
@pytest.mark.parametrize(
    ("estimator", "parameter"),
    [
        (AlternatingMarginClustering(), "alpha"),
        (PairwiseMarginClustering(), "alpha"),
        (CuttingPlaneMarginClustering(), "alpha"),
        (MultipleKernelMarginClustering(), "alpha"),
        (LeastSquaresMarginClustering(), "ridge"),
        (SemidefiniteMarginClustering(), "alpha"),
        (SemidefiniteMarginClustering(), "size_penalty"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_strengths_have_a_range(estimator, parameter, value):
    with pytest.raises(ValueError, match=f"'{parameter}' parameter .* in the range"):
        clone(estimator).set_params(**{parameter: value}).fit(GOOD)


@pytest.mark.parametrize("gamma", [1e-300, 1e300])
@pytest.mark.parametrize(
    "make",
    [
        AlternatingMarginClustering,
        CuttingPlaneMarginClustering,
        LeastSquaresMarginClustering,
        PairwiseMarginClustering,
        SemidefiniteMarginClustering,
        pytest.param(
            lambda **given: LeastSquaresMarginClustering(**given | {"kernel": ["rbf", "linear"]}),
            id="two kernels",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_kernels_that_compare_nothing_give_finite_models(make, gamma):
    """All rows alike, or each like itself alone."""
    model = make(n_clusters=3, kernel="rbf", gamma=gamma, random_state=0).fit(GOOD)
    assert np.isfinite(model.coef_).all() and np.isfinite(model.objective_)
    assert (model.labels_ == model.predict(GOOD)).all()


@some
@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.zeros(19, int), r"partial_labels must have shape \(20,\)"),
        (np.full(20, 0.5), "partial_labels must be integers"),
        (np.full(20, 2), "between 0 and n_clusters - 1 = 1"),
        (np.full(20, -2), "or be -1 for unknown"),
    ],
)
def test_bad_partial_labels(estimator, labels, message):
    with pytest.raises(ValueError, match=message):
        seeded(estimator).fit(GOOD, partial_labels=labels)


@pytest.mark.parametrize(
    ("K", "message"),
    [
        (GOOD, "needs a square matrix at fit, got shape"),
        (
            GOOD @ GOOD.T + np.triu(np.ones((20, 20)), 1),
            "symmetric matrix; entries differ by up to 1",
        ),
        (GOOD @ GOOD.T - 5 * np.eye(20), "smallest eigenvalue is -5"),
        (np.zeros((20, 20)), "all entries of the kernel matrix are zero"),
        (sparse.csr_matrix(GOOD @ GOOD.T), "dense matrix"),
    ],
)
def test_bad_precomputed_kernels(K, message):
    with pytest.raises(ValueError, match=message):
        AlternatingMarginClustering(kernel="precomputed").fit(K)


def test_a_fit_that_cannot_fit_in_memory_is_refused_before_it_starts():
    model = AlternatingMarginClustering(n_components=4096)
    assert model.estimate_memory(500_000_000, 3) > 2**40
    # Zero strides: a billion rows in 24 bytes.
    huge = np.lib.stride_tricks.as_strided(np.arange(3.0), (2**30, 3), (0, 8), writeable=False)
    with pytest.raises(MemoryError, match=r"needs about \d+.* GiB are available. Pass float32"):
        model._check_counts(MemoryRows(huge), None)


HOSTILE = hnp.arrays(
    np.float64,
    st.tuples(st.integers(1, 12), st.integers(1, 3)),
    elements=st.one_of(
        st.sampled_from([0.0, 1.0, -1.0, 1e-310, 1e-160, 1e150, -1e150, 1e308, 5e-324]),
        st.floats(-3, 3),
    ),
)


@some
@settings(max_examples=12)
@given(X=HOSTILE, k=st.integers(1, 3), balance=st.sampled_from([0.0, 0.5, 1.0]))
@pytest.mark.filterwarnings("ignore:balance=")
@pytest.mark.filterwarnings("ignore:Leave-one-out predictions")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_hostile_rows_are_fitted_or_refused(estimator, X, k, balance):
    """Duplicates, constants, huge and tiny numbers: a model of numbers, or a ValueError."""
    model = seeded(estimator, k)
    inner = getattr(model, "estimator", model)
    inner.set_params(balance=balance)
    if "n_init" in inner.get_params():
        inner.set_params(n_init=2)
    try:
        model.fit(X)
    except ValueError as error:
        assert len(str(error)) > 20
        return
    assert np.isfinite(model.decision_function(X)).all()
    assert np.isfinite(model.objective_)
    scores = np.sort(model.decision_function(X), axis=1)
    clear = scores[:, -1] - scores[:, -2] > 1e-9 if k > 1 else np.ones(len(X), bool)
    assert (model.predict(X) == model.labels_)[clear].all()
    assert model.cluster_sizes_.sum() == len(X)
