"""Threads that look up, add, seal and close at the same time."""

from __future__ import annotations

import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np
import pytest
from filter_files import NEVER, held_now, keys, sealed_file, writable_file

import mmbloom
from mmbloom import ENGINE, BloomFilter, ClosedError, CountingBloomFilter

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Kind = type[BloomFilter] | type[CountingBloomFilter]


@pytest.mark.parametrize("place", ["memory", "writer", "reader"])
def test_a_filter_closed_while_eight_threads_look_up_gives_no_wrong_answer(
    tmp_path: Path, place: str
) -> None:
    """Each look-up is right, or says that the filter is closed."""
    path = writable_file(tmp_path / "a.mmb", count=50)
    for _ in range(5):
        if place == "memory":
            with mmbloom.open(path) as stored:
                found = stored.copy()
        else:
            found = mmbloom.open(path) if place == "reader" else mmbloom.open_writable(path)
        started = threading.Barrier(9)

        def look_until_closed(
            number: int, found: BloomFilter = found, started: threading.Barrier = started
        ) -> int:
            present, absent = keys(50), keys(2000, start=1000)
            started.wait()
            for rounds in range(1_000_000):
                try:
                    if number == 0:
                        assert found.approx_count() == pytest.approx(50, abs=3)
                    elif number % 2:
                        assert found.contains_many(present).all()
                        assert not found.contains_many(absent).any()
                    else:
                        assert all(key in found for key in present)
                except ClosedError:
                    return rounds
            return -1

        with ThreadPoolExecutor(8) as pool:
            looking = [pool.submit(look_until_closed, number) for number in range(8)]
            started.wait()
            threading.Event().wait(0.01)
            found.close()
            assert all(future.result() >= 0 for future in looking)


def test_sixteen_threads_get_the_answers_of_one(tmp_path: Path, layout: str) -> None:
    """Look-ups share nothing that they write."""
    path = sealed_file(tmp_path / "a.mmb", count=500, layout=layout, fpr=0.3)
    asked = keys(2000)
    with mmbloom.open(path) as found, ThreadPoolExecutor(16) as pool:
        serial = found.contains_many(asked).tolist()
        batches = [pool.submit(found.contains_many, asked) for _ in range(16)]
        singles = [pool.submit(lambda: [key in found for key in asked]) for _ in range(4)]

        assert all(future.result().tolist() == serial for future in batches)
        assert all(future.result() == serial for future in singles)
    assert serial[:500] == [True] * 500
    assert False in serial


@pytest.mark.parametrize("place", ["memory", "file"])
def test_threads_that_add_lose_no_bit_and_no_count(tmp_path: Path, layout: str, place: str) -> None:
    """Single adds and batches mixed, four threads each, with readers among them."""
    parameters = {"capacity": 4000, "fpr": NEVER, "layout": layout}
    if place == "memory":
        found = BloomFilter.in_memory(**parameters)  # type: ignore[arg-type]
    else:
        found = BloomFilter.create(tmp_path / "a.mmb", **parameters)  # type: ignore[arg-type]
    count = 400 if place == "memory" else 100

    def add_singly(start: int) -> None:
        for key in keys(count, start):
            assert found.add(key)
            assert key in found

    def add_in_batches(start: int) -> None:
        for first in range(start, start + count, 20):
            assert found.update(keys(20, first)) == 20
            assert found.contains_many(keys(20, first)).all()

    with found, ThreadPoolExecutor(8) as pool:
        calls = [
            pool.submit(add_singly if number % 2 else add_in_batches, number * count)
            for number in range(8)
        ]
        for call in calls:
            call.result()
        assert found.keys_added == 8 * count
        with BloomFilter.in_memory(**parameters) as serial:  # type: ignore[arg-type]
            serial.update(keys(8 * count))
            assert found == serial
        if place == "file":
            with mmbloom.open(tmp_path / "a.mmb") as reader:
                assert reader == found


@pytest.mark.parametrize("kind", [BloomFilter, CountingBloomFilter])
def test_long_batches_beside_single_adds_lose_no_key(kind: Kind) -> None:
    """Two threads with one batch each, and two with single keys, in the same milliseconds.

    Each batch runs for so long without the GIL that others meet it in the same byte: adding that
    is not serialised loses some of the keys in most of the rounds.
    """
    count = 100_000 if ENGINE == "kernel" else 200
    asked = np.arange(4 * count)
    parts, tokens = asked.reshape(4, count), [mmbloom.int_key(each) for each in range(4 * count)]
    layout = {"layout": "classic"} if kind is BloomFilter else {}
    for _ in range(4 if ENGINE == "kernel" else 1):
        started = threading.Barrier(4)
        with kind.in_memory(capacity=4 * count, fpr=1e-4, **layout) as found:  # type: ignore[arg-type]

            def add(
                number: int, found: BloomFilter | CountingBloomFilter, started: threading.Barrier
            ) -> None:
                started.wait()
                if number < 2:
                    found.update(parts[number])
                else:
                    for token in tokens[number * count : (number + 1) * count]:
                        found.add(token)

            with ThreadPoolExecutor(4) as pool:
                for call in [pool.submit(add, number, found, started) for number in range(4)]:
                    call.result()
            assert found.contains_many(asked).all()
            assert found.keys_added == pytest.approx(4 * count, abs=40)  # "maybe" before: 1e-4


CHANGES: dict[str, tuple[Kind, Callable[..., object]]] = {
    "update": (BloomFilter, lambda found, _: found.update(["grace"])),
    "union": (BloomFilter, lambda found, other: found.__ior__(other)),
    "intersection": (BloomFilter, lambda found, other: found.__iand__(other)),
    "clear": (BloomFilter, lambda found, _: found.clear()),
    "counters-update": (CountingBloomFilter, lambda found, _: found.update(["grace"])),
    "counters-remove": (CountingBloomFilter, lambda found, _: found.remove_many(["ada"])),
    "counters-union": (CountingBloomFilter, lambda found, other: found.__ior__(other)),
    "counters-clear": (CountingBloomFilter, lambda found, _: found.clear()),
}


@pytest.mark.parametrize(("kind", "change"), CHANGES.values(), ids=CHANGES)
def test_a_change_waits_until_the_one_before_is_over(
    kind: Kind, change: Callable[..., object]
) -> None:
    """Batches change the payload without the GIL: only the mutex keeps them apart."""
    with (
        kind.in_memory(capacity=10, fpr=0.01) as found,
        kind.in_memory(capacity=10, fpr=0.01) as other,
        ThreadPoolExecutor(1) as pool,
    ):
        found.add("ada")
        other.add("alan")
        before = bytes(found._opened.payload)
        with found._mutex:
            waiting = pool.submit(change, found, other)
            with contextlib.suppress(TimeoutError):
                waiting.result(timeout=0.1)
            assert not waiting.done()
            assert bytes(found._opened.payload) == before
        waiting.result()
        assert bytes(found._opened.payload) != before


def test_a_file_is_sealed_while_threads_look_up(tmp_path: Path) -> None:
    """Answers before and after are right; in the moment between, it may be closed."""
    path = writable_file(tmp_path / "a.mmb", count=50)
    asked = np.array(keys(50) * 400)
    stop = threading.Event()
    with mmbloom.open_writable(path) as found, ThreadPoolExecutor(4) as pool:

        def look() -> int:
            rounds = 0
            while not stop.is_set():
                try:
                    assert found.contains_many(asked).all()
                    rounds += 1
                except ClosedError:
                    continue
            return rounds

        looking = [pool.submit(look) for _ in range(4)]
        threading.Event().wait(0.02)
        found.seal()
        threading.Event().wait(0.02)
        stop.set()
        assert all(future.result() > 0 for future in looking)
        assert found.sealed
        mmbloom.build(path, keys(2), fpr=0.1, if_exists="replace").close()
    assert held_now()[1] == 0  # the map of the writer went with the last batch that read it
