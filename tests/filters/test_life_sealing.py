"""Files that are finished: sealed, saved, replaced by the next one."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from filter_files import NEVER, facts_of, keys, sealed_file, writable_file

import mmbloom
from mmbloom import BloomFilter, IncompatibleError, ReadOnlyError
from mmbloom.storage.writable import WritableFile

if TYPE_CHECKING:
    from pathlib import Path


def test_a_seal_stores_counts_rate_and_checksums(tmp_path: Path, layout: str) -> None:
    """The handle becomes a reader, and the file never changes again."""
    path = tmp_path / "a.mmb"
    with BloomFilter.create(path, capacity=300, fpr=0.01, layout=layout) as made:
        made.update(keys(300))
        rate, ratio, count = made.expected_fpr(), made.fill_ratio(), made.keys_added
        assert made.verify() == 0
        made.seal()
        before = facts_of(path)
        assert (made.sealed, made.writable, made.closed) == (True, False, False)
        assert made.contains_many(keys(300)).all()
        with pytest.raises(ReadOnlyError):
            made.add("new")

    with mmbloom.open(path) as found:
        assert found.sealed
        assert (found.expected_fpr(), found.fill_ratio(), found.keys_added) == (rate, ratio, count)
        assert found.verify() == found.geometry.payload_bytes
        assert found.info()["state"] == "sealed"
    assert facts_of(path) == before


def test_a_seal_gives_the_writers_place_free(tmp_path: Path) -> None:
    """Nothing is locked any more, and nothing stays open but the map of the reader."""
    path = tmp_path / "a.mmb"
    with BloomFilter.create(path, capacity=10, fpr=NEVER) as made:
        made.add("ada")
        made.seal()
        mmbloom.build(path, ["grace"], fpr=NEVER, if_exists="replace").close()
        assert ("ada" in made, "grace" in made) == (True, False)


def test_a_reader_learns_that_the_file_was_sealed(tmp_path: Path) -> None:
    """From info() and verify(), which look again."""
    path = tmp_path / "a.mmb"
    with BloomFilter.create(path, capacity=10, fpr=0.1) as writer, mmbloom.open(path) as reader:
        writer.add("ada")
        writer.flush()
        assert (reader.info()["keys_added"], reader.info()["state"]) == (1, "writable")
        assert reader.verify() == 0
        writer.seal()
        assert reader.info()["state"] == "sealed"
        assert reader.verify() == reader.geometry.payload_bytes


def test_a_file_replaced_during_its_seal_is_not_taken_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The handle would answer for another list."""
    path = tmp_path / "a.mmb"
    other = sealed_file(tmp_path / "other.mmb")
    real_seal = WritableFile.seal

    def seal_and_lose(self: WritableFile, status: object) -> None:
        real_seal(self, status)  # type: ignore[arg-type]
        other.replace(path)

    monkeypatch.setattr(WritableFile, "seal", seal_and_lose)
    with (
        BloomFilter.create(path, capacity=10, fpr=0.1) as writer,
        pytest.raises(IncompatibleError, match="uuid"),
    ):
        writer.seal()


@pytest.mark.parametrize("source", ["memory", "writer", "reader of a writable file", "sealed"])
def test_save_writes_a_sealed_file_of_what_is_in_now(tmp_path: Path, source: str) -> None:
    """From any handle, which stays what it was."""
    if source == "memory":
        found = BloomFilter.in_memory(capacity=100, fpr=NEVER)
        found.update(keys(20))
    elif source == "writer":
        found = mmbloom.open_writable(writable_file(tmp_path / "a.mmb"))
    elif source == "sealed":
        found = mmbloom.open(sealed_file(tmp_path / "a.mmb"))
    else:
        found = mmbloom.open(writable_file(tmp_path / "a.mmb"))
    with found:
        found.save(tmp_path / "saved.mmb")
        assert found.writable == (source in {"memory", "writer"})
        with mmbloom.open(tmp_path / "saved.mmb") as saved:
            assert saved == found
            assert (saved.sealed, saved.keys_added) == (True, 20)
            assert saved.uuid != found.uuid
            assert saved.info()["keys_exact"] == (source == "sealed")
            assert saved.verify() == saved.geometry.payload_bytes
            assert len(saved._opened.status.canaries) == 8


def test_save_is_sound_while_another_thread_adds(tmp_path: Path) -> None:
    """The checksums are those of what was written, and keys added before the call are in."""
    stop = threading.Event()
    with (
        BloomFilter.in_memory(capacity=1_000_000, fpr=0.01, overfill=True) as found,
        ThreadPoolExecutor(1) as pool,
    ):

        def add_on() -> None:
            number = 0
            while not stop.is_set():
                found.add(f"late {number}")
                number += 1

        found.update(keys(1000))
        adding = pool.submit(add_on)
        for number in range(5):
            found.save(tmp_path / f"{number}.mmb")
        stop.set()
        adding.result()

    for number in range(5):
        with mmbloom.open(tmp_path / f"{number}.mmb") as saved:
            assert saved.verify() > 0
            assert saved.contains_many(keys(1000)).all()


def test_a_file_that_replaces_another_has_the_next_generation(tmp_path: Path) -> None:
    """Whoever publishes it; one that is no filter is not counted."""
    path = tmp_path / "a.mmb"
    path.write_bytes(b"no filter")
    generations = []
    for _ in range(2):
        mmbloom.build(path, keys(3), fpr=0.1, if_exists="replace").close()
        with mmbloom.open(path) as found:
            generations.append(found.info()["generation"])
            found.save(path, if_exists="replace")
        with mmbloom.open(path) as found:
            generations.append(found.info()["generation"])

    assert generations == [1, 2, 3, 4]


def test_a_replaced_file_keeps_its_readers_and_new_ones_get_the_new_one(tmp_path: Path) -> None:
    """Replaced by rename, as every published file is."""
    path = sealed_file(tmp_path / "a.mmb")
    with mmbloom.open(path) as old:
        mmbloom.build(path, ["new"], fpr=NEVER, if_exists="replace").close()
        with mmbloom.open(path) as new:
            assert ("new" in new, keys(1)[0] in new) == (True, False)
        assert ("new" in old, keys(1)[0] in old) == (False, True)
        assert old.contains_many(keys(20)).all()
        assert old.verify() > 0
