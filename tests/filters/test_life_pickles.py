"""Pickled filters: a reader is its path and UUID, a filter in memory its bytes."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

import pytest
from filter_files import NEVER, keys, sealed_file, unpickle

import mmbloom
from mmbloom import BloomFilter, CapacityError, IncompatibleError, ReadOnlyError

if TYPE_CHECKING:
    from pathlib import Path


def test_a_pickled_reader_is_its_path_and_opens_it_again(tmp_path: Path) -> None:
    """Not its bits: less than 1 kB whatever the size; the copy is a handle of its own."""
    path = sealed_file(tmp_path / "a.mmb", count=5000)
    with mmbloom.open(path) as found:
        pickled = pickle.dumps(found)
        with unpickle(pickled) as again:
            assert len(pickled) < 1000
            assert again == found
            assert again.path == str(path)
        assert keys(1)[0] in found


def test_a_pickled_reader_means_the_file_that_it_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Opened by a relative path, pickled in another folder."""
    sealed_file(tmp_path / "a.mmb")
    (tmp_path / "sub").mkdir()
    sealed_file(tmp_path / "sub" / "a.mmb", count=7)
    monkeypatch.chdir(tmp_path)
    with mmbloom.open("a.mmb") as found:
        monkeypatch.chdir(tmp_path / "sub")
        with unpickle(pickle.dumps(found)) as again:
            assert again == found


def test_a_pickle_of_a_file_that_was_replaced_is_refused(tmp_path: Path) -> None:
    """Its answers would be those of another list."""
    path = sealed_file(tmp_path / "a.mmb")
    with mmbloom.open(path) as found:
        pickled = pickle.dumps(found)
    sealed_file(tmp_path / "b.mmb", count=21).replace(path)

    with pytest.raises(IncompatibleError, match="uuid") as caught:
        unpickle(pickled)
    assert str(path) in str(caught.value)
    path.unlink()
    with pytest.raises(FileNotFoundError):
        unpickle(pickled)


def test_a_filter_in_memory_is_pickled_whole(layout: str) -> None:
    """With its count and capacity; the copy can be added to."""
    with BloomFilter.in_memory(capacity=30, fpr=NEVER, layout=layout, seed=3) as found:
        found.update(keys(29))
        with unpickle(pickle.dumps(found)) as again:
            assert again == found
            assert (again.keys_added, again.uuid, again.writable) == (29, found.uuid, True)
            again.add("new")
            assert "new" not in found
            with pytest.raises(CapacityError):
                again.add("one too many")


def test_a_writer_is_not_pickled(tmp_path: Path) -> None:
    """There is one writer; the error says what to pickle."""
    with (
        BloomFilter.create(tmp_path / "a.mmb", capacity=10, fpr=0.1) as writer,
        pytest.raises(ReadOnlyError, match="pickle"),
    ):
        pickle.dumps(writer)
