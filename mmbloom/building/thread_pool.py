"""A few threads that do tasks, and hand out the results in the order of the tasks.

Engines release the GIL, so threads are enough. The caller's thread works too: it fetches the next
task (which may read a file, or run the caller's own iterator), does it itself when the others are
busy, and at the end takes over tasks that no thread has begun. So *jobs* threads run in all, and
one job starts no thread.
"""

from __future__ import annotations

import os
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from concurrent.futures import Future, ThreadPoolExecutor

_MOST_AHEAD = 4  # results per thread that wait for an earlier one: each holds memory

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class _Outcome(Protocol[T_co]):
    """A result, or an error, now or later. Futures have these methods."""

    def done(self) -> bool: ...
    def result(self) -> T_co: ...


class _Done(Generic[T]):
    """The outcome of a task that the caller's thread did."""

    def __init__(self, task: Callable[[], T]) -> None:
        try:
            self._value = task()
        except Exception as exc:  # noqa: BLE001 - raised by result(), in its turn
            self._error: Exception | None = exc
        else:
            self._error = None

    def done(self) -> bool:
        return True

    def result(self) -> T:
        if self._error is not None:
            raise self._error
        return self._value


class _Queued(Generic[T]):
    """The outcome of a task that was given to another thread."""

    def __init__(self, task: Callable[[], T], future: Future[T]) -> None:
        self._task, self._future = task, future

    def done(self) -> bool:
        return self._future.done()

    def result(self) -> T:
        return self._future.result()

    def taken_over(self) -> _Done[T] | None:
        """Do the task now, in this thread; None if another thread has begun it."""
        return _Done(self._task) if self._future.cancel() else None


class ThreadPool:
    """*jobs* threads, including the caller's. Use it in a ``with`` block, from one thread."""

    def __init__(self, jobs: int) -> None:
        self.jobs, self._pid = jobs, os.getpid()
        self._pool: ThreadPoolExecutor | None = None
        self._waiting: deque[Future[Any]] = deque()

    def __enter__(self) -> Self:
        """Start the threads."""
        if self.jobs > 1:
            from concurrent.futures import ThreadPoolExecutor  # imports logging, which is slow

            self._pool = ThreadPoolExecutor(self.jobs - 1, "mmbloom-build")
        return self

    def __exit__(self, *exc_info: object) -> None:
        """Wait for tasks that run, and drop the others."""
        self._drop()
        if self._pool is not None:
            self._pool.shutdown()

    def narrowed(self, jobs: int) -> ThreadPool:
        """Return a pool of fewer threads to use instead, for tasks that need more memory each."""
        return ThreadPool(jobs)

    def results(self, tasks: Iterable[Callable[[], T] | None]) -> Iterator[T | None]:
        """Do *tasks*; yield the result of each, in order.

        None among the tasks is a barrier: all tasks before it are done and their results yielded,
        then None is yielded. The tasks after it begin when the next result is asked for.

        If tasks raise, the error of the first of them, in order, is raised, and no more tasks are
        begun. Tasks that have begun are always waited for, so their memory may be reused.
        """
        outcomes: deque[_Outcome[T]] = deque()
        try:
            for task in tasks:
                self._check_process()
                if task is None:
                    yield from _finished(outcomes)
                    yield None
                    continue
                outcomes.append(self._begin(task))
                most = _MOST_AHEAD * self.jobs
                while outcomes and (len(outcomes) > most or outcomes[0].done()):
                    yield outcomes.popleft().result()
            yield from _finished(outcomes)
        finally:
            self._drop()

    def do(self, tasks: Iterable[Callable[[], T]]) -> Iterator[T]:
        """Do *tasks* without barriers; see results()."""
        yield from cast("Iterator[T]", self.results(tasks))  # no barrier, so no None from one

    @property
    def num_running(self) -> int:
        """Tasks that run, or may begin at any time."""
        while self._waiting and self._waiting[0].done():
            self._waiting.popleft()
        return sum(not future.done() for future in self._waiting)

    def _check_process(self) -> None:
        if os.getpid() != self._pid:  # a fork has no copy of the threads, so it would wait forever
            raise RuntimeError("a build cannot continue in a forked child")

    def _begin(self, task: Callable[[], T]) -> _Outcome[T]:
        # Each thread has tasks waiting, so that none is idle while the next one is fetched.
        if self._pool is None or self.num_running >= 3 * (self.jobs - 1):
            return _Done(task)
        future = self._pool.submit(task)
        self._waiting.append(future)
        return _Queued(task, future)

    def _drop(self) -> None:
        """Cancel tasks that have not begun, and wait for the rest."""
        for future in self._waiting:
            future.cancel()
        while self._waiting:
            with suppress(Exception):  # raised with its result, unless nobody asks for that now
                self._waiting.popleft().result()


def _finished(outcomes: deque[_Outcome[T]]) -> Iterator[T]:
    """Yield all results in order. Instead of waiting, do tasks that have not begun, last first."""
    while outcomes:
        while not outcomes[0].done() and _take_over(outcomes):
            pass
        yield outcomes.popleft().result()


def _take_over(outcomes: deque[_Outcome[T]]) -> bool:
    """Do the last of the tasks that no thread has begun; return whether there was one."""
    for i in reversed(range(len(outcomes))):
        outcome = outcomes[i]
        if isinstance(outcome, _Queued) and (done := outcome.taken_over()) is not None:
            outcomes[i] = done
            return True
    return False
