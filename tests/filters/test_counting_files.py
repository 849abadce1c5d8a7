"""A counting filter in its file: reopened, read beside its writer, killed, cut off from power."""

from __future__ import annotations

import os
import pickle
import random
import threading
from typing import TYPE_CHECKING

import pytest
from filter_files import Program, in_child, keys, payload_of

import mmbloom
from mmbloom import CountingBloomFilter, LockHeldError, ReadOnlyError
from mmbloom.storage.mapped import MappedFile

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import numpy as np

SECTOR = 512


def stored_canaries(path: Path) -> int:
    """Return how many canaries the file has."""
    with MappedFile.open(path) as found:
        return len(found.status.canaries)


def test_counts_survive_reopening(tmp_path: Path) -> None:
    """Of keys, of full counters, and of how often each key is in."""
    path = tmp_path / "a.mmb"
    with CountingBloomFilter.create(path, capacity=500, fpr=1e-6) as made:
        made.update(keys(100) + keys(50) + ["full"] * 20)
        made.remove_many(keys(20))
        counts = made.keys_added, made.num_saturated
    for open_ in (mmbloom.open, mmbloom.open_writable):
        with open_(path) as found:
            assert isinstance(found, CountingBloomFilter)
            assert (found.keys_added, found.num_saturated) == counts
            assert found.contains_many(keys(100)).all()
            assert [found.count_estimate(key) for key in (*keys(2, start=19), "full")] == [1, 2, 15]
    with mmbloom.open_writable(path) as again:
        assert isinstance(again, CountingBloomFilter)
        again.remove_many(keys(100) + keys(30, start=20))
        assert not again.contains_many(keys(100)).any()
        assert again.keys_added == 1


def test_a_writable_file_stores_no_canary_and_a_sealed_one_does(tmp_path: Path) -> None:
    """A key that is a canary might be removed; then the file would be refused."""
    path = tmp_path / "a.mmb"
    with CountingBloomFilter.create(path, capacity=100, fpr=1e-6) as made:
        made.update(keys(100))
        made.flush()
        assert stored_canaries(path) == 0
    assert stored_canaries(path) == 0
    with CountingBloomFilter.open_writable(path) as again:
        again.remove_many(keys(50))
        again.update(keys(20))
        again.seal()
        assert again.sealed
        assert again.contains_many(keys(20) + keys(50, start=50)).all()
        assert again.verify() > 0
        with pytest.raises(ReadOnlyError):
            again.remove(keys(1)[0])
    assert stored_canaries(path) == 8
    with pytest.raises(ReadOnlyError):
        mmbloom.open_writable(path)


def test_a_reader_sees_what_comes_and_goes(tmp_path: Path) -> None:
    """At once; counts as of the last flush. There is one writer."""
    path = tmp_path / "a.mmb"
    with (
        CountingBloomFilter.create(path, capacity=100, fpr=1e-6) as writer,
        CountingBloomFilter.open(path) as reader,
    ):
        with pytest.raises(LockHeldError):
            mmbloom.open_writable(path)
        writer.update(["ada"] * 15 + ["grace"])
        assert "ada" in reader
        assert reader.count_estimate("grace") == 1
        writer.remove("grace")
        assert "grace" not in reader
        writer.flush()
        facts = reader.info()
        assert (facts["keys_added"], facts["num_saturated"]) == (1, writer.num_saturated)
        assert facts["writer_open"]
        with reader.copy() as copy:
            assert copy.keys_added <= 1
            assert copy.add("grace")


def test_a_copy_of_a_filter_that_is_written_has_room_for_what_it_had_room_for(
    tmp_path: Path,
) -> None:
    """Its count is taken from the counters, and is not too high."""
    path = tmp_path / "a.mmb"
    with CountingBloomFilter.create(path, capacity=200, fpr=0.01) as writer:
        writer.update(keys(200))
        writer.flush()
        writer.remove_many(keys(150))
        with CountingBloomFilter.open(path) as reader, reader.copy() as copy:
            assert 30 <= copy.keys_added <= 50
            copy.update(keys(150))
            assert copy.contains_many(keys(200)).all()


def test_a_killed_writer_leaves_what_it_was_told_is_in(tmp_path: Path) -> None:
    """And what it had removed is gone; the counts are taken anew from the counters."""
    path = tmp_path / "a.mmb"
    writer = Program(
        "f = mmbloom.CountingBloomFilter.create(sys.argv[1], capacity=400, fpr=1e-6)\n"
        "f.update(f'flushed {i}' for i in range(300))\n"
        "f.flush()\n"
        "f.remove_many(f'flushed {i}' for i in range(200))\n"
        "f.update(['full'] * 30)\n"
        "print('done', flush=True)\n"
        "sys.stdin.read()\n",
        path,
    )
    assert writer.line() == "done"
    writer.kill()

    with CountingBloomFilter.open(path) as found:
        assert found.keys_added == 300  # as of the flush
        assert found.info()["writer_open"]
        assert found.contains_many([f"flushed {i}" for i in range(200, 300)]).all()
        assert not found.contains_many([f"flushed {i}" for i in range(200)]).any()
        assert found.approx_count() == pytest.approx(101, abs=3)
    with CountingBloomFilter.open_writable(path) as again:
        assert 90 <= again.keys_added <= 101
        assert 1 <= again.num_saturated <= again.num_probes
        again.update(keys(299))
        assert again.contains_many(keys(299)).all()


def changes(path: Path, steps: Callable[[CountingBloomFilter], object]) -> list[tuple[int, bytes]]:
    """Return the writes to the payload that *steps* makes, in order, as (offset, bytes)."""
    written: list[tuple[int, bytes]] = []
    real = os.pwrite

    def pwrite(fd: int, data: bytes, offset: int) -> int:
        if offset >= 4096:
            written.append((offset, bytes(data)))
        return real(fd, data, offset)

    with CountingBloomFilter.open_writable(path) as writer, pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "pwrite", pwrite)
        steps(writer)
    return written


def test_a_power_loss_at_any_moment_takes_no_key_that_stays(tmp_path: Path) -> None:
    """Of the sectors written since the last flush any may be on the disk, as of any write.

    Keys that were in and were not removed are in, whatever else came and went; that is so because
    all counters of a key lie in one sector.
    """
    path = tmp_path / "a.mmb"
    staying, leaving, passing = keys(300), keys(100, start=300), keys(100, start=400)
    with CountingBloomFilter.create(path, capacity=600, fpr=0.01) as made:
        made.update(staying + leaving)
    before = path.read_bytes()

    def steps(writer: CountingBloomFilter) -> None:
        writer.remove_many(leaving[:50])
        writer.update(passing)
        for key in leaving[50:]:
            writer.remove(key)
        writer.remove_many(passing)

    written = changes(path, steps)
    after = path.read_bytes()
    assert len(written) > 50
    chance = random.Random(2)  # noqa: S311 - a test
    for _ in range(200 if mmbloom.ENGINE == "kernel" else 10):
        disk = bytearray(before)
        for offset, data in written[: chance.randrange(len(written) + 1)]:
            for start in range(0, len(data), SECTOR):
                sector = data[start : start + SECTOR]
                if chance.random() < 0.5:
                    disk[offset + start : offset + start + len(sector)] = sector
        disk[:4096] = after[:4096] if chance.random() < 0.5 else before[:4096]
        path.write_bytes(disk)
        with mmbloom.open(path) as found:
            assert found.contains_many(staying).all()


def test_keys_that_stay_are_seen_while_others_come_and_go(tmp_path: Path) -> None:
    """By another thread, in the same handle and in a reader of its own: never a false "no"."""
    path = tmp_path / "a.mmb"
    staying, passing = keys(1000), keys(1000, start=1000)
    misses: list[np.ndarray] = []
    is_over = threading.Event()
    with (
        CountingBloomFilter.create(path, capacity=2500, fpr=0.05) as writer,
        CountingBloomFilter.open(path) as reader,
    ):
        writer.update(staying)

        def look_up() -> None:
            while not is_over.is_set():
                for found in (writer, reader):
                    answers = found.contains_many(staying)
                    if not answers.all():
                        misses.append(answers)

        threads = [threading.Thread(target=look_up) for _ in range(2)]
        for thread in threads:
            thread.start()
        for _ in range(20):
            writer.update(passing)
            writer.remove_many(passing)
        is_over.set()
        for thread in threads:
            thread.join()
    assert not misses


def test_a_filter_in_memory_is_pickled_with_its_counters() -> None:
    """A writer of a file cannot be."""
    with CountingBloomFilter.in_memory(capacity=100, fpr=0.01, seed=3) as made:
        made.update(keys(50) + keys(10) + ["full"] * 20)
        with pickle.loads(pickle.dumps(made)) as again:  # noqa: S301 - made here
            assert again == made
            assert (again.keys_added, again.num_saturated) == (made.keys_added, made.num_saturated)
            again.remove_many(keys(10) + keys(50))
            assert made.contains_many(keys(50)).all()
            assert payload_of(again) != payload_of(made)


def test_a_writer_cannot_be_pickled(tmp_path: Path) -> None:
    """It holds the lock."""
    with (
        CountingBloomFilter.create(tmp_path / "a.mmb", capacity=9, fpr=0.1) as writer,
        pytest.raises(ReadOnlyError, match="pickled"),
    ):
        pickle.dumps(writer)


def test_a_forked_child_has_counters_of_its_own_in_memory_and_no_writer(tmp_path: Path) -> None:
    """What it removes stays in for the parent; the writer's file is the parent's alone."""
    with (
        CountingBloomFilter.in_memory(capacity=100, fpr=1e-6) as memory,
        CountingBloomFilter.create(tmp_path / "a.mmb", capacity=100, fpr=1e-6) as writer,
    ):
        memory.update(keys(50))
        writer.update(keys(50))

        def change() -> None:
            memory.remove_many(keys(50))
            assert not memory.contains_many(keys(50)).any()
            with pytest.raises(mmbloom.ClosedError):
                writer.remove(keys(1)[0])

        assert in_child(change) == 0
        assert memory.contains_many(keys(50)).all()
        assert writer.contains_many(keys(50)).all()
        writer.remove_many(keys(50))


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_a_removal_that_could_not_be_written_is_written_later(
    tmp_path: Path, error: type[BaseException]
) -> None:
    """By whatever is called next; the key is out of the writer's memory, and so of the file."""
    path = tmp_path / "a.mmb"
    with CountingBloomFilter.create(path, capacity=100, fpr=1e-6) as writer:
        writer.update(keys(50))
        writer.flush()

        def fail(*_: object) -> int:
            raise error  # made here: one that outlives the test would keep the file mapped

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(os, "pwrite", fail)
            with pytest.raises(error):
                writer.remove(keys(1)[0])
        with CountingBloomFilter.open(path) as reader:
            assert reader.contains_many(keys(50)).all()
            writer.flush()
            assert reader.contains_many(keys(50)).tolist() == [False] + [True] * 49


def test_a_later_writer_keeps_the_mark_of_a_killed_one(tmp_path: Path) -> None:
    """A removal that was cut short is never repeated, however often the file was opened since."""
    path = tmp_path / "a.mmb"
    with CountingBloomFilter.create(path, capacity=100, fpr=0.001) as made:
        made.update(keys(50))

    def die_while_removing() -> None:
        writer = CountingBloomFilter.open_writable(path)
        writer.remove(keys(1)[0])
        os._exit(0)  # as after a kill: nothing is closed

    assert in_child(die_while_removing) == 0
    for _ in range(2):
        with CountingBloomFilter.open_writable(path) as writer:
            writer.add("another")
            writer.flush()
        with CountingBloomFilter.open(path) as reader:
            assert reader.info()["writer_open"]

    with CountingBloomFilter.open_writable(path) as writer:
        writer.clear()
    with CountingBloomFilter.open(path) as reader:
        assert not reader.info()["writer_open"]
