"""Writers that are killed and disks that fail: no key is lost that somebody was told is in."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest
from filter_files import NEVER, Program, in_child, keys, writable_file

import mmbloom
from mmbloom import BloomFilter
from mmbloom.filters.opened import Opened
from mmbloom.format.fields import SLOT_OFFSETS
from mmbloom.storage.writable import WritableFile

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def test_flush_survives_kill_9_with_keys_and_count(tmp_path: Path, layout: str) -> None:
    """What was added after it is there too, if not counted: the process died, not the system."""
    path = tmp_path / "a.mmb"
    writer = Program(
        "f = mmbloom.BloomFilter.create(sys.argv[1], capacity=400, fpr=1e-9, layout=sys.argv[2])\n"
        "f.update(f'flushed {i}' for i in range(100))\n"
        "f.flush()\n"
        "f.update(f'added {i}' for i in range(200))\n"
        "print('done', flush=True)\n"
        "sys.stdin.read()\n",
        path,
        layout,
    )
    assert writer.line() == "done"
    writer.kill()

    with mmbloom.open(path) as found:
        assert found.keys_added == 100
        assert found.info()["writer_open"] is True
        assert all(f"flushed {i}" in found for i in range(100))
        assert all(f"added {i}" in found for i in range(200))
        assert found.approx_count() == pytest.approx(300, abs=10)
    with mmbloom.open_writable(path) as again:
        assert 270 <= again.keys_added <= 300
        again.add("one more")
    with mmbloom.open(path) as found:
        assert found.info()["writer_open"] is False
        assert 270 <= found.keys_added <= 301


def test_a_writer_killed_anywhere_loses_no_key_that_it_was_told_is_in(tmp_path: Path) -> None:
    """Four times, each killed at another point of adding; every key that came back is found."""
    path = tmp_path / "a.mmb"
    BloomFilter.create(path, capacity=20_000, fpr=0.001).close()
    told: list[str] = []
    for round_number in range(4):
        writer = Program(
            "f = mmbloom.open_writable(sys.argv[1])\n"
            "for i in range(2000):\n"
            "    key = f'{sys.argv[2]}-{i}'\n"
            "    f.add(key)\n"
            "    if i % 50 == 0: f.flush()\n"
            "    print(key, flush=True)\n",
            path,
            round_number,
        )
        told += [writer.line() for _ in range(20 + 37 * round_number)]
        writer.process.kill()
        # By the reader that line() has used: it holds what it has read ahead.
        told += writer.process.stdout.read().splitlines()[:-1]  # the last line may be cut
        writer.process.communicate()
        with mmbloom.open(path) as found:
            assert found.contains_many(told).all()

    with mmbloom.open_writable(path) as again:
        assert again.contains_many(told).all()
        assert 0.9 * len(told) <= again.keys_added <= len(told) + 4 * 60


@pytest.mark.parametrize("seed", range(5))
def test_a_count_that_was_rebuilt_takes_no_room_away(layout: str, seed: int) -> None:
    """After a crash the same list is added again: all of it must fit.

    The rebuilt count is never above the truth, and at most eight sigma below; with 1000 keys at
    1 % sigma is 7.7.
    """
    with BloomFilter.in_memory(capacity=1000, fpr=0.01, layout=layout, seed=seed) as found:
        for count in (1, 10, 100, 999, 1000):
            found.update(keys(count))
            rebuilt = found._opened.fewest_keys()
            assert count - 62 <= rebuilt <= count


def test_a_list_added_again_after_a_crash_fits(tmp_path: Path) -> None:
    """Although the count had to be estimated."""
    path = writable_file(tmp_path / "a.mmb", count=0, capacity=500, fpr=0.01)

    def die_while_adding() -> None:
        mmbloom.open_writable(path).update(keys(450))
        os._exit(0)

    assert in_child(die_while_adding) == 0
    with mmbloom.open_writable(path) as again:
        assert 400 <= again.keys_added <= 450
        again.update(keys(500))
        assert again.contains_many(keys(500)).all()


def test_flush_makes_keys_and_count_durable_in_that_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The keys are synced before the slot that counts them is written, and the slot after it."""
    steps = []
    for name in ("pwrite", "fdatasync"):
        real = getattr(os, name)

        def step(
            *arguments: object, name: str = name, real: Callable[..., object] = real
        ) -> object:
            where = (
                "" if name == "fdatasync" else "slot" if arguments[2] in SLOT_OFFSETS else "keys"
            )  # type: ignore[comparison-overlap]
            steps.append(f"{name} {where}".strip())
            return real(*arguments)

        monkeypatch.setattr(os, name, step)
    with BloomFilter.create(tmp_path / "a.mmb", capacity=10, fpr=0.1) as writer:
        writer.add("first")  # sets WRITER_OPEN, durably, before it
        writer.add("second")
        steps.clear()
        writer.flush()
        assert steps == ["fdatasync", "pwrite slot", "fdatasync"]
        writer.flush()
        assert len(steps) == 3


def broken_disk(*_arguments: object) -> int:
    """Fail as a disk does."""
    raise OSError(errno.EIO, os.strerror(errno.EIO))


def test_keys_that_the_disk_refused_are_written_by_the_flush(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """add() raised, so nothing was promised; what flush() returns for is in the file."""
    path = tmp_path / "a.mmb"
    with BloomFilter.create(path, capacity=10, fpr=NEVER) as writer:
        writer.add("before")
        with monkeypatch.context() as patch:
            patch.setattr(os, "pwrite", broken_disk)
            with pytest.raises(OSError, match="Input/output error"):
                writer.add("during")
            with pytest.raises(OSError, match="Input/output error"):
                writer.flush()
        with mmbloom.open(path) as reader:
            assert "during" not in reader
            writer.add("during")
            writer.flush()
            assert "during" in reader
    with mmbloom.open(path) as reader:
        assert ("before" in reader, "during" in reader) == (True, True)


def test_close_tells_that_the_disk_failed_and_closes_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is left as after a crash: it opens, and its keys are found."""
    path = tmp_path / "a.mmb"
    writer = BloomFilter.create(path, capacity=10, fpr=NEVER)
    writer.add("ada")
    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", broken_disk)
        with pytest.raises(OSError, match="Input/output error"):
            writer.close()

    assert writer.closed
    with mmbloom.open_writable(path) as again:
        assert "ada" in again
        assert again.keys_added == 1


def test_a_reader_that_meets_a_writer_clearing_looks_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has read the canaries, then the writer took them back and cleared the bits."""
    path = writable_file(tmp_path / "a.mmb")
    real = Opened.with_checked_canaries
    writer = mmbloom.open_writable(path)

    def check_slowly(self: Opened) -> Opened:
        monkeypatch.undo()
        writer.clear()
        return real(self)

    monkeypatch.setattr(Opened, "with_checked_canaries", check_slowly)
    with mmbloom.open(path) as reader:
        assert reader == writer
    writer.close()


def test_flushes_during_a_clear_store_no_canary_of_what_is_cleared(tmp_path: Path) -> None:
    """Between taking canaries back and clearing the bits another thread adds a key and flushes."""
    path = writable_file(tmp_path / "a.mmb")
    with mmbloom.open_writable(path) as writer:
        real_change = writer._change_payload

        def change_late(*arguments: object) -> None:
            writer.add("between")
            writer.flush()
            real_change(*arguments)  # type: ignore[arg-type]

        writer._change_payload = change_late  # type: ignore[method-assign]
        writer.clear()
        with mmbloom.open(path) as reader:
            assert "between" not in reader
    mmbloom.open_writable(path).close()


@pytest.mark.parametrize("shrink", [BloomFilter.clear, lambda f: f.__iand__(f.copy())])
@pytest.mark.parametrize("moment", ["before the payload is written", "after it"])
def test_a_writer_killed_while_it_clears_bits_leaves_a_file_that_opens(
    tmp_path: Path, shrink: Callable[[BloomFilter], object], moment: str
) -> None:
    """At no moment a canary is stored whose bits may be gone."""
    path = writable_file(tmp_path / "a.mmb", count=50)
    real_write = WritableFile.write_through

    def write_and_die(self: WritableFile, runs: list[tuple[int, int]]) -> None:
        if moment == "after it":
            real_write(self, runs)
        os._exit(7)

    def die() -> None:
        with mmbloom.open_writable(path) as writer:
            WritableFile.write_through = write_and_die  # type: ignore[method-assign]
            shrink(writer)

    assert in_child(die) == 7
    with mmbloom.open(path) as reader:
        assert reader._opened.status.canaries == ()
        found = reader.contains_many(keys(50))
        assert found.all() or not found.any()
    with mmbloom.open_writable(path) as again:
        assert again.keys_added in range(40, 51) if found.all() else again.keys_added == 0
        again.update(keys(100))
