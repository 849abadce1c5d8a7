"""The one writer of a file: goes on where the last one ended, and readers see it at once."""

from __future__ import annotations

import errno
import gc
import warnings
from typing import TYPE_CHECKING

import pytest
from filelock import FileLock
from filter_files import NEVER, Program, facts_of, keys, sealed_file, writable_file

import mmbloom
from mmbloom import (
    BloomFilter,
    CapacityError,
    CountingBloomFilter,
    LockHeldError,
    VersionError,
)
from mmbloom.format.fields import HEADER, KEYS_EXACT
from mmbloom.format.rules import page_checksum
from mmbloom.storage.writable import WritableFile

if TYPE_CHECKING:
    from pathlib import Path


def test_a_writer_goes_on_where_the_last_one_ended(tmp_path: Path, layout: str) -> None:
    """Keys, count and capacity; a filter that was closed in between is like one that was not."""
    path = writable_file(tmp_path / "a.mmb", count=40, layout=layout)
    with mmbloom.open_writable(path) as again:
        assert again.keys_added == 40
        assert again.contains_many(keys(40)).all()
        assert again.update(keys(100)) == 60
        with pytest.raises(CapacityError):
            again.add("one too many")
    whole = writable_file(tmp_path / "whole.mmb", count=100, layout=layout)

    with mmbloom.open(path) as found, mmbloom.open(whole) as at_once:
        assert found == at_once
        assert found.keys_added == at_once.keys_added == 100
        assert found.info()["writer_open"] is False


def test_opening_for_writing_and_closing_changes_nothing(tmp_path: Path) -> None:
    """Nor does adding what is in, or a flush without a change."""
    path = writable_file(tmp_path / "a.mmb")
    before = facts_of(path)
    with mmbloom.open_writable(path) as again:
        again.add(keys(1)[0])
        again.update(keys(20))
        again.flush()

    assert facts_of(path) == before


def test_a_second_writer_is_refused_at_once(tmp_path: Path) -> None:
    """In this process and in another one, until the first has closed; readers are welcome."""
    path = tmp_path / "a.mmb"
    try_it = "try: mmbloom.open_writable(sys.argv[1])\nexcept mmbloom.LockHeldError: print('held')"
    with BloomFilter.create(path, capacity=10, fpr=0.1) as first:
        with pytest.raises(LockHeldError, match="read-only") as caught:
            mmbloom.open_writable(path)
        assert caught.value.path == str(path)
        other = Program(try_it, path)
        assert (other.line(), other.end()) == ("held", 0)
        mmbloom.open(path).close()
        assert first.add("still writing")
    mmbloom.open_writable(path).close()


def test_a_file_that_is_being_written_is_not_replaced(tmp_path: Path) -> None:
    """What the writer adds would be lost with the old file."""
    path = tmp_path / "a.mmb"
    with BloomFilter.create(path, capacity=10, fpr=NEVER) as writer:
        writer.add("kept")
        with pytest.raises(LockHeldError):
            mmbloom.build(path, keys(3), fpr=0.1, if_exists="replace")
        with pytest.raises(LockHeldError):
            writer.save(path, if_exists="replace")
    with mmbloom.open(path) as found:
        assert "kept" in found


def test_a_reader_in_another_process_sees_every_key_added_before_it_looked(tmp_path: Path) -> None:
    """At once, without a flush: single keys and batches, the reader having been there before."""
    path = tmp_path / "a.mmb"
    reader = Program(
        "f = mmbloom.open(sys.argv[1])\n"
        "for line in sys.stdin: print(line.strip() in f, flush=True)\n",
        path := writable_file(path, count=0, capacity=1000),
    )
    with mmbloom.open_writable(path) as writer:
        for number, key in enumerate(keys(300)):
            if number % 3:
                writer.add(key)
            else:
                writer.update([key, f"beside {number}"])
            reader.tell(key)
            assert reader.line() == "True"
        reader.tell("absent")
        assert reader.line() == "False"
    reader.kill()


def test_a_writer_whose_file_lost_its_path_says_so(tmp_path: Path) -> None:
    """Nobody would ever see what it adds."""
    path = writable_file(tmp_path / "a.mmb")
    writer = mmbloom.open_writable(path)
    path.unlink()
    writer.add("lost")

    for call in (writer.flush, writer.seal, writer.close):
        with pytest.raises(OSError, match="another file has this path") as caught:
            call()
        assert caught.value.errno == errno.ESTALE
    assert writer.closed


def test_a_writer_that_nobody_closes_warns_and_is_closed(tmp_path: Path) -> None:
    """Its keys are safe; what is lost is the error that close() would have raised."""
    path = tmp_path / "a.mmb"

    def forget_to_close() -> None:
        BloomFilter.create(path, capacity=10, fpr=NEVER).add("ada")

    with pytest.warns(ResourceWarning, match=r"a\.mmb was not closed"):
        forget_to_close()
    with mmbloom.open_writable(path) as again:
        assert ("ada" in again, again.keys_added) == (True, 1)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_writer_that_nobody_closes_is_closed_where_warnings_are_errors(tmp_path: Path) -> None:
    """As by python -W error: the count of its keys is stored all the same."""
    path = tmp_path / "a.mmb"

    with warnings.catch_warnings():
        warnings.simplefilter("error", ResourceWarning)
        BloomFilter.create(path, capacity=10, fpr=NEVER).add("ada")
        gc.collect()

    with mmbloom.open(path) as again:
        assert again.keys_added == 1
        assert not again.info()["writer_open"]


def test_readers_and_filters_in_memory_need_not_be_closed(tmp_path: Path) -> None:
    """There is nothing to tell."""
    path = sealed_file(tmp_path / "a.mmb")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mmbloom.open(path).contains_many(keys(3))
        BloomFilter.in_memory(capacity=10, fpr=0.1).add("a")
        gc.collect()


def test_counts_that_were_exact_are_not_claimed_after_an_add(tmp_path: Path) -> None:
    """A file of another writer may count exactly; this one cannot vouch for that."""
    path = writable_file(tmp_path / "a.mmb", count=5)
    with WritableFile.open(path) as file:
        file.close(file.status._replace(flags=KEYS_EXACT, keys_added=5))
    before = facts_of(path)
    mmbloom.open_writable(path).close()
    assert facts_of(path) == before
    with mmbloom.open(path) as found:
        assert found.info()["keys_exact"] is True

    with mmbloom.open_writable(path) as writer:
        writer.add("new")
    with mmbloom.open(path) as found:
        assert found.info()["keys_exact"] is False


def test_a_file_with_a_feature_of_a_newer_release_is_read_and_not_written(tmp_path: Path) -> None:
    """A compatible one: readers may pass over it, writers would break its promise."""
    path = writable_file(tmp_path / "a.mmb")
    page = bytearray(path.read_bytes()[:4096])
    offset = HEADER.offsets["compatible_features"]
    page[offset : offset + 8] = (0b100).to_bytes(8, "little")
    page[4088:] = page_checksum(bytes(page)).to_bytes(8, "little")
    path.write_bytes(bytes(page) + path.read_bytes()[4096:])
    before = facts_of(path)

    with pytest.raises(VersionError, match=r"compatible_features.*bit 2"):
        mmbloom.open_writable(path)
    with mmbloom.open(path) as found:
        assert found.contains_many(keys(20)).all()
        found.save(tmp_path / "b.mmb")
    assert facts_of(path) == before
    with mmbloom.open(tmp_path / "b.mmb") as saved:
        assert saved._opened.header.compatible_features == 0


@pytest.mark.parametrize("kind", [BloomFilter, CountingBloomFilter])
def test_a_file_that_could_not_be_opened_for_writing_is_not_left(
    tmp_path: Path, kind: type[BloomFilter | CountingBloomFilter]
) -> None:
    """create() makes the file and its lock, or neither: it can be called again."""
    path = tmp_path / "a.mmb"
    lock = tmp_path / "a.mmb.lock"
    lock.mkdir()
    with pytest.raises(IsADirectoryError):
        kind.create(path, capacity=10, fpr=0.01)
    assert not path.exists()

    lock.rmdir()
    with FileLock(lock), pytest.raises(LockHeldError):
        kind.create(path, capacity=10, fpr=0.01)
    assert not path.exists()
    kind.create(path, capacity=10, fpr=0.01).close()


def test_a_new_file_that_another_writer_got_hold_of_is_left_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between making it and locking it anybody may open it: what they add is theirs."""
    path, others = tmp_path / "a.mmb", list[BloomFilter]()
    real = BloomFilter.open_writable

    def be_slower(where: Path) -> BloomFilter:
        others.append(real(where))
        return real(where)

    monkeypatch.setattr(BloomFilter, "open_writable", be_slower)
    with pytest.raises(LockHeldError):
        BloomFilter.create(path, capacity=10, fpr=0.01)
    others[0].add("key")
    others[0].close()
    with BloomFilter.open(path) as found:
        assert "key" in found
