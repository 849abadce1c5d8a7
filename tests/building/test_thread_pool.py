"""A few threads, and results in the order of the tasks."""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING, Never

import pytest

from mmbloom.building.thread_pool import ThreadPool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

WAIT = 30  # seconds: a test that waits longer has failed


@pytest.fixture(params=[1, 2, 5])
def pool(request: pytest.FixtureRequest) -> Iterator[ThreadPool]:
    """Start a pool of some size; check that its threads end with it."""
    before = threading.active_count()
    with ThreadPool(request.param) as some:
        yield some
    assert threading.active_count() == before


def test_results_come_in_the_order_of_the_tasks(pool: ThreadPool) -> None:
    """Even if a later one ends first."""
    chance = [3, 1, 4, 1, 5, 9, 2, 6] * 20

    found = pool.do(partial(lambda i: sum(range(chance[i] * 1000)) and i, i) for i in range(160))

    assert list(found) == list(range(160))


def test_at_the_end_the_caller_takes_over_waiting_tasks() -> None:
    """Otherwise it would be idle while the other thread still has tasks."""
    all_done = threading.Event()
    done_by = dict[int, int]()

    def quick(number: int) -> int:
        done_by[number] = threading.get_ident()
        if len(done_by) == 3:
            all_done.set()
        return number

    with ThreadPool(2) as pool:
        found = list(
            pool.do([partial(all_done.wait, WAIT), *(partial(quick, i) for i in range(3))])
        )

    assert found == [True, 0, 1, 2]
    assert set(done_by.values()) == {threading.get_ident()}


def test_tasks_are_fetched_only_when_a_thread_can_do_them(pool: ThreadPool) -> None:
    """Each task holds memory, so even an endless list is no problem."""
    num_fetched = 0

    def endless() -> Iterator[Callable[[], int]]:
        nonlocal num_fetched
        while True:
            num_fetched += 1
            yield partial(int, num_fetched)

    results = pool.do(endless())
    for i in range(1, 50):
        assert next(results) == i
    results.close()  # type: ignore[attr-defined] - a generator

    assert pool.num_running == 0
    assert num_fetched < 50 + 30


def test_at_a_barrier_no_task_runs(pool: ThreadPool) -> None:
    """Tasks after it begin when the next result is asked for."""
    begun = []

    def tasks() -> Iterator[Callable[[], int] | None]:
        for i in range(30):
            if i % 10 == 5:
                yield None
            begun.append(i)
            yield partial(int, i)

    found = []
    for result in pool.results(tasks()):
        if result is None:
            assert pool.num_running == 0
            assert begun == [*range(len(found))]
        else:
            found.append(result)
    assert found == list(range(30))


def fail(number: int) -> Never:
    """Raise an error with the number of the task."""
    raise ValueError(f"task {number}")


def test_the_first_error_in_order_is_raised(pool: ThreadPool) -> None:
    """Results before it are yielded; the pool can be used again."""
    found = []
    with pytest.raises(ValueError, match="task 7"):
        found.extend(pool.do(partial(fail if i in {7, 8, 20} else int, i) for i in range(40)))

    assert pool.num_running == 0
    assert list(pool.do([partial(int, 5)])) == [5]


def test_after_an_error_while_fetching_running_tasks_are_waited_for(pool: ThreadPool) -> None:
    """So that no thread writes to memory that was freed."""
    ended = []

    def tasks() -> Iterator[Callable[[], None]]:
        yield partial(ended.append, 1)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(pool.do(tasks()))

    assert pool.num_running == 0


def test_a_slow_task_does_not_let_results_pile_up() -> None:
    """The caller's thread does other tasks meanwhile, but not without limit."""
    is_free = threading.Event()
    num_fetched = 0

    def tasks() -> Iterator[Callable[[], object]]:
        nonlocal num_fetched
        yield partial(is_free.wait, WAIT)
        for num_fetched in range(1, 1001):
            if num_fetched == 3:
                threading.Timer(0.05, is_free.set).start()
            yield partial(int, 0)

    with ThreadPool(2) as pool:
        results = pool.do(tasks())
        assert next(results) is True
        assert num_fetched < 50
        assert list(results) == [0] * 1000


def test_after_an_interrupt_running_tasks_are_waited_for() -> None:
    """Waiting tasks are dropped."""
    begun, ended = threading.Event(), []

    def slow() -> None:
        begun.set()
        is_free.wait(WAIT)
        ended.append("slow")

    is_free = threading.Event()

    def tasks() -> Iterator[Callable[[], object]]:
        yield slow
        begun.wait(WAIT)
        yield partial(ended.append, "dropped, or done by the caller")
        threading.Timer(0.05, is_free.set).start()
        raise KeyboardInterrupt

    def work() -> None:
        with ThreadPool(2) as pool:
            list(pool.do(tasks()))

    with pytest.raises(KeyboardInterrupt):
        work()

    assert "slow" in ended
    assert not [thread for thread in threading.enumerate() if "build" in thread.name]


def test_there_are_no_more_threads_than_jobs() -> None:
    """This includes the caller's thread; with one job it does everything."""
    seen: dict[int, set[int]] = {}
    for jobs in (1, 2, 4):
        with ThreadPool(jobs) as pool:
            seen[jobs] = set(pool.do(threading.get_ident for _ in range(500)))
    assert seen[1] == {threading.get_ident()}
    assert all(len(threads) <= jobs for jobs, threads in seen.items())
