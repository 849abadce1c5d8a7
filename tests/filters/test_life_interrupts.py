"""What strikes in the middle of a call: signals, disk errors, keys that run code, other threads."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

import mmbloom
from mmbloom import BloomFilter, ClosedError
from mmbloom.storage.writable import WritableFile

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Runs = list[tuple[int, int]]


class Interruption(BaseException):
    """As a signal handler raises it."""


@pytest.fixture
def writer(tmp_path: Path) -> BloomFilter:
    """Make a filter in a file."""
    return BloomFilter.create(tmp_path / "a.mmb", capacity=10_000, fpr=0.001)


def _interrupt_once(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Let the next write to the file do *act* and raise, before it has written anything."""
    write = WritableFile.write_through

    def interrupted(_self: WritableFile, _runs: Runs) -> None:
        monkeypatch.setattr(WritableFile, "write_through", write)
        act()
        raise Interruption

    monkeypatch.setattr(WritableFile, "write_through", interrupted)


def _add_all(found: BloomFilter) -> None:
    found.update([f"key {i}" for i in range(100)])


def _add_one(found: BloomFilter) -> None:
    found.add("key 7")


def _unite(found: BloomFilter) -> None:
    with found.copy() as other:
        other.update([f"key {i}" for i in range(100)])
        found |= other


@pytest.mark.parametrize("change", [_add_all, _add_one, _unite])
def test_what_an_interruption_kept_from_the_file_is_written_by_the_next_call(
    writer: BloomFilter, monkeypatch: pytest.MonkeyPatch, change: Callable[[BloomFilter], None]
) -> None:
    """Keys that were set in memory count as known: they must not be forgotten on the disk."""
    _interrupt_once(monkeypatch, lambda: None)
    with pytest.raises(Interruption):
        change(writer)

    known = writer.add("key 7")

    assert not known
    with mmbloom.open(str(writer.path)) as reader:
        assert "key 7" in reader
    writer.close()
    with mmbloom.open(str(writer.path)) as reader:
        assert "key 7" in reader


def test_a_flush_writes_what_an_interruption_left(
    writer: BloomFilter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The counts and canaries that it stores are those of keys that are in the file."""
    _interrupt_once(monkeypatch, lambda: None)
    with pytest.raises(Interruption):
        _add_all(writer)

    writer.flush()

    with mmbloom.open(str(writer.path)) as reader:
        assert reader.keys_added == writer.keys_added
        assert reader.contains_many([f"key {i}" for i in range(100)]).all()
    writer.close()


def test_a_signal_handler_may_close_the_filter_that_is_being_added_to(
    writer: BloomFilter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It neither hangs nor loses the key: the handler's close writes it."""
    _interrupt_once(monkeypatch, writer.close)

    with pytest.raises(Interruption):
        writer.add("ada")

    with mmbloom.open(str(writer.path)) as reader:
        assert "ada" in reader
        assert not reader.info()["writer_open"]


def test_a_signal_handler_may_add_to_the_filter_that_is_being_added_to(
    writer: BloomFilter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both keys are in the file."""
    _interrupt_once(monkeypatch, lambda: writer.add("grace"))

    with pytest.raises(Interruption):
        writer.add("ada")

    with mmbloom.open(str(writer.path)) as reader:
        assert "ada" in reader
        assert "grace" in reader
    writer.close()


@pytest.mark.parametrize("method", ["__contains__", "add", "might_contain"])
def test_a_key_that_closes_the_filter_gets_an_error(method: str) -> None:
    """Turning a key into bytes may run its own code."""
    found = BloomFilter.in_memory(capacity=10, fpr=0.01)

    class Closer(bytearray):
        def __bytes__(self) -> bytes:
            found.close()
            return b"x"

    with pytest.raises(ClosedError):
        getattr(found, method)(Closer(b"x"))


@pytest.mark.parametrize("kind", [list, tuple])
@pytest.mark.parametrize("length", [0, 10**6])
def test_a_sequence_is_as_long_as_it_is(kind: type[Any], length: int) -> None:
    """Whatever the __len__ of a subclass says."""

    class Liar(kind):  # type: ignore[misc]
        def __len__(self) -> int:
            return length

    with BloomFilter.in_memory(capacity=10, fpr=0.01) as found:
        assert found.update(Liar(("ada", "grace"))) == 2
        assert found.contains_many(Liar(("ada", "grace"))).tolist() == [True, True]


def test_two_threads_may_read_one_block_of_lines(tmp_path: Path) -> None:
    """Each has its own place in it."""
    names = [f"{i}{'k' * (i % 7)}" for i in range(50_000)]
    (tmp_path / "names.txt").write_text("\n".join(names), encoding="ascii")
    filters = [BloomFilter.in_memory(capacity=60_000, fpr=0.01, seed=seed) for seed in (1, 2)]

    with mmbloom.read_list(tmp_path / "names.txt") as blocks:
        for block in blocks:
            threads = [threading.Thread(target=each.update, args=(block,)) for each in filters]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

    assert all(each.contains_many(names).all() for each in filters)
