"""Threads of this package: a pool that keeps the order, and one BLAS and OpenMP thread in fits."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import partial
from queue import SimpleQueue
from threading import Lock, Thread, local
from typing import Any

from threadpoolctl import ThreadpoolController

AHEAD = 2  # items for each thread whose results may be kept

_lock = Lock()
_inside = 0  # threads that are inside one_thread
_outer: list[tuple[Any, int]] = []  # process-wide libraries, with their counts before the limit
_own = local()  # .inside: whether this thread is one of them; .depth: 0, or 1 + that of its caller
_process_wide: dict[str, bool] = {}  # by path of the library
# By depth and number of threads: starting threads takes longer than a short pass.
_pools: dict[tuple[int, int], ThreadPoolExecutor] = {}


def _pool(n_jobs: int) -> ThreadPoolExecutor:
    """Return the pool of so many threads for the depth of this one: none waits for its own pool."""
    key = depth, _ = getattr(_own, "depth", 0), n_jobs
    with _lock:
        if key not in _pools:
            begin = partial(setattr, _own, "depth", depth + 1)
            _pools[key] = ThreadPoolExecutor(n_jobs, initializer=begin)
    return _pools[key]


def in_order(
    work: Callable[[Any], Any], items: Iterable[Any], n_jobs: int, ahead: int = AHEAD
) -> Iterator[Any]:
    """Yield ``work(item)`` of every item in order, computed by ``n_jobs`` threads.

    Work starts when the first result is requested, and for each thread it is at most ``ahead``
    items ahead of the last result that was requested.

    Examples
    --------
    >>> list(in_order(abs, [-1, 2, -3], 2))
    [1, 2, 3]
    """
    items = list(items)
    if n_jobs == 1 or len(items) == 1:
        yield from map(work, items)
        return
    queue, pool = Queue(work, items, ahead * n_jobs), _pool(n_jobs)
    helpers: list[Future[None]] = []
    try:
        for i in range(len(items)):
            for _ in range(queue.wanted(n_jobs)):
                helpers.append(pool.submit(queue.help))
            yield queue.result(i)
    finally:
        queue.stop()
        wait([helper for helper in helpers if not helper.cancel()])


def run_all(work: Callable[[Any], Any], items: Iterable[Any], n_jobs: int) -> None:
    """Call ``work(item)`` for every item on ``n_jobs`` threads, and wait.

    Examples
    --------
    >>> squares = [0, 0]
    >>> run_all(lambda i: squares.__setitem__(i, i * i), range(2), 2)
    >>> squares
    [0, 1]
    """
    items = list(items)
    for _ in in_order(work, items, n_jobs, len(items)):
        pass


def by_strips(work: Callable[[slice], Any], n: int, n_jobs: int, size: int = 256) -> None:
    """Call ``work`` for ranges of ``size`` of n rows on ``n_jobs`` threads, and wait.

    Examples
    --------
    >>> by_strips(print, 300, 1)
    slice(0, 256, None)
    slice(256, 300, None)
    """
    run_all(work, [slice(i, min(i + size, n)) for i in range(0, n, size)], n_jobs)


class Queue:
    """Items that several threads work on, and their results until they are requested.

    A future for every item would take longer than a small one. The thread that requests results
    works, too: it need not be woken, and does not depend on others, which may be busy. Helpers do
    not wait, since nobody may request the results that are left: they leave and are called again.
    """

    def __init__(self, work: Callable[[Any], Any], items: list[Any], ahead: int) -> None:
        self.work, self.items, self.ahead = work, items, ahead
        self.taken = self.given = self.helping = 0
        self.lock = Lock()
        self.done: SimpleQueue[tuple[int, Any, BaseException | None]] = SimpleQueue()
        self.found: dict[int, tuple[Any, BaseException | None]] = {}  # done, not requested yet

    def wanted(self, n_jobs: int) -> int:
        """Return how many helpers to call now."""
        with self.lock:
            count = min(n_jobs - 1 - self.helping, len(self.items) - self.taken - 1)
            self.helping += max(count, 0)
        return count

    def help(self) -> None:
        """Work on items while there are any."""
        while (i := self._take()) is not None:
            self._do(i)
        with self.lock:
            self.helping -= 1

    def result(self, i: int) -> Any:
        """Return the result of item ``i``; work on items until it is there."""
        depth = getattr(_own, "depth", 0)
        while i not in self.found:
            if self.done.empty() and (mine := self._take()) is not None:
                try:
                    _own.depth = depth + 1
                    self._do(mine)
                finally:
                    _own.depth = depth
            number, result, error = self.done.get()
            self.found[number] = result, error
        result, error = self.found.pop(i)
        if error is not None:
            raise error
        with self.lock:
            self.given = i + 1
        return result

    def stop(self) -> None:
        """Begin no more items."""
        with self.lock:
            self.taken = len(self.items)

    def _take(self) -> int | None:
        """Return the next item to begin, if there is one."""
        with self.lock:
            if self.taken >= min(len(self.items), self.given + self.ahead):
                return None
            self.taken += 1
            return self.taken - 1

    def _do(self, i: int) -> None:
        """Items are begun in order: those before one that fails are done, as by one thread."""
        try:
            self.done.put((i, self.work(self.items[i]), None))
        except BaseException as error:
            self.stop()
            self.done.put((i, None, error))
            if isinstance(error, KeyboardInterrupt):  # at once, not in the order of the items
                raise


def free_threads(n_jobs: int) -> int:
    """Return the number of threads for work within other work: one if that has threads already."""
    return 1 if getattr(_own, "depth", 0) > 0 else n_jobs


def later(work: Callable[[], Any], n_jobs: int) -> Callable[[], Any]:
    """Return a function for the result of ``work()``, which a thread begins now if there are more.

    Examples
    --------
    >>> later(lambda: 1 + 1, 2)()
    2
    """
    if free_threads(n_jobs) == 1:
        return work
    return _pool(n_jobs).submit(work).result


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit BLAS and OpenMP to one thread, because the last digits depend on their number.

    Some libraries have one thread count for the whole process (OpenBLAS), others one for every
    thread (OpenMP). The last of several overlapping uses restores the former, whatever order they
    end in; every use restores the latter. ``threadpool_limits`` would restore what it found at its
    start, which may be the limit of another use, and end the limit for those that go on.

    Examples
    --------
    >>> from threadpoolctl import threadpool_info
    >>> with one_thread():
    ...     {library["num_threads"] for library in threadpool_info()}
    {1}
    """
    global _inside
    if getattr(_own, "inside", False):
        yield
        return
    own: list[tuple[Any, int]] = []  # libraries that this use restores
    libraries = ThreadpoolController().lib_controllers
    with _lock:
        for library in libraries:
            count = library.num_threads
            if count is not None and count > 1:
                _set_count(library, 1)
                if library.filepath not in _process_wide:
                    _process_wide[library.filepath] = _seen_by_others(library)
                process_wide = _process_wide[library.filepath]
                (_outer if process_wide else own).append((library, count))
        _inside += 1
        _own.inside = True
    try:
        yield
    finally:
        with _lock:
            _own.inside = False
            _inside -= 1
            counts = own + _outer if _inside == 0 else own
            for library, count in reversed(counts):
                _set_count(library, count)
            if _inside == 0:
                _outer.clear()


def _set_count(library: Any, count: int) -> None:
    # From 3.7 on, threadpoolctl ignores calls while another thread is in charge of OpenBLAS.
    release = getattr(library, "clear_controlling_thread", None)
    if release is not None:
        release(force=True)
    library.set_num_threads(count)
    if release is not None:
        release(force=True)


def _seen_by_others(library: Any) -> bool:
    """Whether another thread sees the limit that this one has set."""
    seen: list[int] = []
    other = Thread(target=lambda: seen.append(library.num_threads))
    other.start()
    other.join()
    return seen == [1]


def _after_fork() -> None:
    """Only the thread that forked goes on in the child: the uses by all others have ended."""
    global _inside
    _inside = int(getattr(_own, "inside", False))
    _pools.clear()
    _lock.release()
    while _outer and _inside == 0:
        _set_count(*_outer.pop())


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(
        before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_after_fork
    )
