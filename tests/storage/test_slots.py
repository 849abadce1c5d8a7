"""Marks, counts and seals: what is on disk in which order."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Never

import pytest
from file_steps import killed_at_each_step

from mmbloom.errors import (
    NoSpaceError,
    ParameterError,
    ReadOnlyError,
)
from mmbloom.format.fields import KEYS_EXACT, SEALED, SLOT_OFFSETS, WRITER_OPEN
from mmbloom.storage.mapped import MappedFile
from mmbloom.storage.writable import WritableFile

if TYPE_CHECKING:
    from pathlib import Path

    from file_steps import MakeFile

    from mmbloom.format.header import Header
    from mmbloom.format.status import Status


def set_byte(file: WritableFile, position: int, value: int = 255) -> None:
    """Change one byte of the payload and write its page through."""
    file.payload[position] = value
    file.write_through([(position // 4096, 1)])


def status_of(path: Path) -> Status:
    """Return the status that a reader finds."""
    with MappedFile.open(path) as mapped:
        return mapped.status


def test_the_first_change_sets_writer_open_and_close_clears_it(writable: Path) -> None:
    """A reader can tell that the counts are behind."""
    with WritableFile.open(writable) as file:
        assert not status_of(writable).writer_open
        set_byte(file, 0)
        assert status_of(writable).writer_open
        file.flush(file.status._replace(keys_added=1, flags=KEYS_EXACT))
        assert status_of(writable).flags == KEYS_EXACT | WRITER_OPEN
        file.close(file.status)

    assert status_of(writable).flags == KEYS_EXACT


def test_the_mark_is_on_disk_before_the_first_change_is_written(
    writable: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else power loss could keep the keys and lose the mark, and the count would be trusted."""
    order = []
    real_pwrite, real_sync = os.pwrite, os.fdatasync
    monkeypatch.setattr(
        os, "pwrite", lambda fd, data, at: order.append(at) or real_pwrite(fd, data, at)
    )
    monkeypatch.setattr(os, "fdatasync", lambda fd: order.append("sync") or real_sync(fd))
    with WritableFile.open(writable) as file:
        set_byte(file, 0)
        set_byte(file, 0)
        assert order == [SLOT_OFFSETS[1], "sync", 4096, 4096]
        order.clear()
        file.flush(file.status)
        assert order == ["sync", SLOT_OFFSETS[0], "sync"]
        order.clear()
        file.flush(file.status)
        assert order == []


def test_slots_are_written_in_turn_and_a_torn_one_costs_only_the_newer(writable: Path) -> None:
    """The slot that counts is never written over."""
    with WritableFile.open(writable) as file:
        for number in range(1, 6):
            file.flush(file.status._replace(keys_added=number))
        newest = file.status
    content = bytearray(writable.read_bytes())
    assert newest.sequence == 7
    (slot,) = (at for at in SLOT_OFFSETS if content[at] == newest.sequence)
    content[slot + 16] ^= 0xFF
    writable.write_bytes(content)

    with WritableFile.open(writable) as file:
        assert file.status.keys_added == 4
        file.flush(file.status._replace(keys_added=9))
    with MappedFile.open(writable) as mapped:
        assert (mapped.status.keys_added, mapped.status_recovered) == (9, False)


def test_a_writer_that_died_is_known_by_its_mark(writable: Path) -> None:
    """What it had written through is there; its counts are a lower bound."""
    with WritableFile.open(writable) as file:
        set_byte(file, 77)
    with WritableFile.open(writable) as file:
        assert file.status.writer_open
        assert file.payload[77] == 255
        file.close(file.status._replace(keys_added=1))

    assert (status_of(writable).keys_added, status_of(writable).writer_open) == (1, False)


def test_closing_after_a_dead_writer_clears_its_mark_without_a_change(writable: Path) -> None:
    """Who has counted again may say so although the count was right."""
    with WritableFile.open(writable) as file:
        set_byte(file, 77)
    with WritableFile.open(writable) as file:
        file.close(file.status)

    assert not status_of(writable).writer_open


def test_a_sealed_file_never_changes_again(writable: Path, header: Header) -> None:
    """Both slots say so, and every writing call refuses."""
    with WritableFile.open(writable) as file:
        file.write(header.checksums_offset, b"checksum")
        file.seal(file.status._replace(state=SEALED, keys_added=4))
        for call in (
            lambda: file.write_through([(0, 1)]),
            lambda: file.write(header.checksums_offset, bytes(8)),
            lambda: file.flush(file.status),
            lambda: file.seal(file.status),
        ):
            with pytest.raises(ReadOnlyError, match=r"mmbloom\.open"):
                call()
        file.close(file.status._replace(keys_added=99))

    content = writable.read_bytes()
    assert content[512:1024] == content[1024:1536]
    assert content[-8:] == b"checksum"
    found = status_of(writable)
    assert (found.is_sealed, found.keys_added, found.writer_open) == (True, 4, False)
    with pytest.raises(ReadOnlyError, match="a sealed file never changes"):
        WritableFile.open(writable)


def test_sealing_needs_a_sealed_status(writable: Path) -> None:
    """The caller computes what a sealed status says; a writable one is a mistake."""
    with WritableFile.open(writable) as file, pytest.raises(ParameterError, match="SEALED"):
        file.seal(file.status)


def test_a_writer_killed_at_any_step_leaves_a_file_that_opens(
    make_file: MakeFile, header: Header
) -> None:
    """D12: what write_through() had returned for is there, and the next writer carries on."""
    path = make_file()

    def work() -> None:
        with WritableFile.open(path) as file:
            set_byte(file, 0)
            file.flush(file.status._replace(keys_added=1))
            file.payload[9000] = 254
            file.write_through([(2, 1)])
            file.write(header.checksums_offset, b"checksum")
            file.seal(file.status._replace(state=SEALED, flags=0, keys_added=2))

    for code in killed_at_each_step(work):
        with MappedFile.open(path) as mapped:
            found = mapped.status
            keys_there = mapped.payload[0] == 255, mapped.payload[9000] == 254
        assert sum(keys_there) >= found.keys_added
        assert found.is_sealed or not any(keys_there) or found.writer_open
        if code == 0:
            assert found.is_sealed
        elif not found.is_sealed:
            WritableFile.open(path).close()
        make_file()


def test_a_disk_that_is_full_only_at_the_sync_is_full(
    writable: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Network file systems notice it there."""

    def full(_fd: int) -> Never:
        raise OSError(28, "No space left on device")

    with WritableFile.open(writable) as file:
        monkeypatch.setattr(os, "fdatasync", full)
        with pytest.raises(NoSpaceError, match="free"):
            set_byte(file, 0)
