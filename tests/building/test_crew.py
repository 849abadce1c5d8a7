"""A few threads, and results in the order of the tasks."""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING, Never

import pytest

from mmbloom.building.thread_pool import Crew

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

WAIT = 30  # seconds: a test that waits longer has failed


@pytest.fixture(params=[1, 2, 5])
def crew(request: pytest.FixtureRequest) -> Iterator[Crew]:
    """Start a crew of some size; see that its threads end with it."""
    before = threading.active_count()
    with Crew(request.param) as some:
        yield some
    assert threading.active_count() == before


def test_results_come_in_the_order_of_the_tasks(crew: Crew) -> None:
    """Whichever ends first."""
    chance = [3, 1, 4, 1, 5, 9, 2, 6] * 20

    found = crew.do(partial(lambda i: sum(range(chance[i] * 1000)) and i, i) for i in range(160))

    assert list(found) == list(range(160))


def test_what_waits_for_a_busy_thread_is_done_by_the_caller_in_the_end() -> None:
    """Or else one thread would be idle for as long as the other has tasks before it."""
    all_done = threading.Event()
    done_by = dict[int, int]()

    def quick(number: int) -> int:
        done_by[number] = threading.get_ident()
        if len(done_by) == 3:
            all_done.set()
        return number

    with Crew(2) as crew:
        found = list(
            crew.do([partial(all_done.wait, WAIT), *(partial(quick, i) for i in range(3))])
        )

    assert found == [True, 0, 1, 2]
    assert set(done_by.values()) == {threading.get_ident()}


def test_tasks_are_fetched_when_there_is_somebody_to_do_them(crew: Crew) -> None:
    """An endless list of them is no trouble: each holds memory."""
    num_fetched = 0

    def endless() -> Iterator[Callable[[], int]]:
        nonlocal num_fetched
        while True:
            num_fetched += 1
            yield partial(int, num_fetched)

    results = crew.do(endless())
    for i in range(1, 50):
        assert next(results) == i
    results.close()  # type: ignore[attr-defined] - a generator

    assert crew.num_running == 0
    assert num_fetched < 50 + 30


def test_at_a_barrier_no_task_runs(crew: Crew) -> None:
    """What comes behind it begins when the next result is asked for."""
    begun = []

    def tasks() -> Iterator[Callable[[], int] | None]:
        for i in range(30):
            if i % 10 == 5:
                yield None
            begun.append(i)
            yield partial(int, i)

    found = []
    for result in crew.results(tasks()):
        if result is None:
            assert crew.num_running == 0
            assert begun == [*range(len(found))]
        else:
            found.append(result)
    assert found == list(range(30))


def fail(number: int) -> Never:
    """Raise an error that tells which task it was."""
    raise ValueError(f"task {number}")


def test_the_first_error_in_order_is_the_one_that_is_raised(crew: Crew) -> None:
    """Results before it are handed out; the crew may be used again."""
    found = []
    with pytest.raises(ValueError, match="task 7"):
        found.extend(crew.do(partial(fail if i in {7, 8, 20} else int, i) for i in range(40)))

    assert crew.num_running == 0
    assert list(crew.do([partial(int, 5)])) == [5]


def test_an_error_of_who_gives_the_tasks_waits_for_those_that_run(crew: Crew) -> None:
    """So that nobody writes into memory that is let go of."""
    ended = []

    def tasks() -> Iterator[Callable[[], None]]:
        yield partial(ended.append, 1)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(crew.do(tasks()))

    assert crew.num_running == 0


def test_a_slow_task_does_not_let_results_pile_up() -> None:
    """The caller's thread goes on with other tasks meanwhile, but not for ever."""
    is_free = threading.Event()
    num_fetched = 0

    def tasks() -> Iterator[Callable[[], object]]:
        nonlocal num_fetched
        yield partial(is_free.wait, WAIT)
        for num_fetched in range(1, 1001):
            if num_fetched == 3:
                threading.Timer(0.05, is_free.set).start()
            yield partial(int, 0)

    with Crew(2) as crew:
        results = crew.do(tasks())
        assert next(results) is True
        assert num_fetched < 50
        assert list(results) == [0] * 1000


def test_who_stops_asking_waits_for_what_runs() -> None:
    """Tasks that wait are dropped."""
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
        with Crew(2) as crew:
            list(crew.do(tasks()))

    with pytest.raises(KeyboardInterrupt):
        work()

    assert "slow" in ended
    assert not [thread for thread in threading.enumerate() if "build" in thread.name]


def test_as_many_threads_work_as_there_are_jobs() -> None:
    """The caller's one among them; alone, it does everything."""
    seen: dict[int, set[int]] = {}
    for jobs in (1, 2, 4):
        with Crew(jobs) as crew:
            seen[jobs] = set(crew.do(threading.get_ident for _ in range(500)))
    assert seen[1] == {threading.get_ident()}
    assert all(len(threads) <= jobs for jobs, threads in seen.items())
