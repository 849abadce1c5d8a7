"""Files that are replaced, deleted or cut under their writer."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from file_steps import held_now

from mmbloom.errors import (
    TruncatedError,
)
from mmbloom.storage.mapped import MappedFile
from mmbloom.storage.paths import open_regular
from mmbloom.storage.writable import WritableFile

if TYPE_CHECKING:
    from pathlib import Path

    from file_steps import MakeFile

    from mmbloom.format.status import Status


def set_byte(file: WritableFile, position: int, value: int = 255) -> None:
    """Change one byte of the payload and write its page through."""
    file.payload[position] = value
    file.write_through([(position // 4096, 1)])


def status_of(path: Path) -> Status:
    """Return the status that a reader finds."""
    with MappedFile.open(path) as mapped:
        return mapped.status


def test_a_file_replaced_under_its_writer_is_noticed_by_flush(
    writable: Path, make_file: MakeFile
) -> None:
    """Promise 1: what goes to a file without a name is lost, so it must not look durable."""
    with WritableFile.open(writable) as file:
        set_byte(file, 0)
        os.replace(make_file("b.mmb"), writable)
        for call in (file.flush, file.close):
            with pytest.raises(OSError, match="add it again"):
                call(file.status)


def test_a_file_deleted_under_its_writer_is_noticed_by_flush(writable: Path) -> None:
    """As if it had been replaced."""
    with WritableFile.open(writable) as file:
        set_byte(file, 0)
        writable.unlink()
        with pytest.raises(OSError, match="or none"):
            file.flush(file.status)


def test_a_file_cut_under_its_writer_is_noticed_by_flush(writable: Path) -> None:
    """Before the map is touched again."""
    with WritableFile.open(writable) as file:
        os.truncate(writable, 8192)
        with pytest.raises(TruncatedError, match="8192"):
            file.flush(file.status)


def test_a_close_that_fails_still_lets_go(writable: Path) -> None:
    """The error is raised, the lock and the descriptors are not kept."""
    before = held_now()
    file = WritableFile.open(writable)
    set_byte(file, 0)
    moved = writable.rename(writable.with_name("moved.mmb"))
    with pytest.raises(OSError, match="another file has this path"):
        file.close(file.status)

    assert held_now() == before
    assert status_of(moved).writer_open
    file.close()


def test_a_file_replaced_between_lock_and_map_is_refused(
    writable: Path, make_file: MakeFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The map would be of another file than the one that is locked."""

    def open_late(path: str, flags: int) -> tuple[int, os.stat_result]:
        os.replace(make_file("b.mmb"), writable)
        return open_regular(path, flags)

    before = held_now()
    monkeypatch.setattr("mmbloom.storage.writable.open_regular", open_late)
    with pytest.raises(OSError, match="another file has this path"):
        WritableFile.open(writable)

    assert held_now() == before
