"""The writer: seen at once, durable when it says so, whole after any crash."""

from __future__ import annotations

import mmap
import os
from typing import TYPE_CHECKING, Never

import pytest
from file_steps import NUM_LINES, PAYLOAD, held_now

from mmbloom.errors import (
    ClosedError,
    LockHeldError,
    ParameterError,
)
from mmbloom.format.status import Status
from mmbloom.storage.mapped import MappedFile
from mmbloom.storage.publish import NewFile
from mmbloom.storage.writable import WritableFile

if TYPE_CHECKING:
    from pathlib import Path

    from mmbloom.format.header import Header


def set_byte(file: WritableFile, position: int, value: int = 255) -> None:
    """Change one byte of the payload and write its page through."""
    file.payload[position] = value
    file.write_through([(position // 4096, 1)])


def status_of(path: Path) -> Status:
    """Return the status that a reader finds."""
    with MappedFile.open(path) as mapped:
        return mapped.status


def test_a_created_file_is_opened_and_takes_keys(tmp_path: Path, header: Header) -> None:
    """The whole way: reserve, publish, open, change, close, read."""
    with NewFile(tmp_path / "a.mmb", header.file_bytes) as new:
        new.write(0, header.pack(Status()))
        new.publish()
    with WritableFile.open(tmp_path / "a.mmb") as file:
        assert bytes(file.payload) == bytes(64 * NUM_LINES)
        set_byte(file, 5000)
        file.close(file.status._replace(keys_added=1))

    with MappedFile.open(tmp_path / "a.mmb") as mapped:
        assert mapped.payload[5000] == 255
        assert (mapped.status.keys_added, mapped.status.writer_open) == (1, False)


def test_a_change_is_private_until_it_is_written_through(writable: Path) -> None:
    """Then every reader sees it at once, also one that was there before."""
    with WritableFile.open(writable) as file, MappedFile.open(writable) as reader:
        file.payload[5000] = 255
        assert reader.payload[5000] == PAYLOAD[5000]
        file.write_through([(1, 1)])
        assert reader.payload[5000] == 255
        assert reader.read_status().writer_open


def test_runs_are_whole_pages_and_end_with_the_payload(writable: Path, header: Header) -> None:
    """The last page is short; the checksum table behind it is not the payload's to write."""
    with WritableFile.open(writable) as file:
        file.payload[:] = b"\xff" * (64 * NUM_LINES)
        file.write_through([(0, 2), (2, 2)])

    content = writable.read_bytes()
    assert content[4096 : header.checksums_offset] == b"\xff" * (64 * NUM_LINES)
    assert content[header.checksums_offset :] == bytes(8)


@pytest.mark.parametrize("run", [(-1, 1), (4, 1), (0, 0), (1, -1)])
def test_a_run_outside_the_payload_is_refused(writable: Path, run: tuple[int, int]) -> None:
    """It would hit the header or the table."""
    with WritableFile.open(writable) as file, pytest.raises(ParameterError, match="runs"):
        file.write_through([run])


def test_only_changed_pages_are_written(writable: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Flush costs what was changed."""
    written = []
    real_pwrite = os.pwrite

    def recording(fd: int, data: memoryview, at: int) -> int:
        written.append((at, len(data)))
        return real_pwrite(fd, data, at)

    with WritableFile.open(writable) as file:
        set_byte(file, 0)
        monkeypatch.setattr(os, "pwrite", recording)
        set_byte(file, 9000)

    assert written == [(4096 + 8192, 4096)]


def test_opening_and_closing_without_a_change_leaves_the_file_untouched(writable: Path) -> None:
    """Not a byte, not a time stamp, with and without a status."""
    before = writable.stat().st_mtime_ns, writable.read_bytes()
    WritableFile.open(writable).close()
    with WritableFile.open(writable) as file:
        file.flush(file.status)
        file.close(file.status)

    assert (writable.stat().st_mtime_ns, writable.read_bytes()) == before


def test_private_copies_are_dropped_once_they_are_in_the_file(
    writable: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a writer of a large file holds all of it twice; the bytes stay what they were."""
    dropped = []
    monkeypatch.setattr("mmbloom.storage.writable._MAX_PRIVATE_BYTES", 8192)

    class Counting(mmap.mmap):
        def madvise(self, option: int, *run: object) -> None:
            if option == mmap.MADV_DONTNEED:
                dropped.append(run)
            super().madvise(option, *run)

    monkeypatch.setattr(mmap, "mmap", Counting)
    with WritableFile.open(writable) as file:
        file.payload[:] = b"\x11" * (64 * NUM_LINES)
        file.write_through([(0, 2)])
        assert dropped == []
        file.write_through([(2, 2)])
        assert dropped == [(4096, 8192), (12288, 64 * NUM_LINES - 8192)]
        assert bytes(file.payload) == b"\x11" * (64 * NUM_LINES)


def test_what_was_not_written_through_is_never_dropped(
    writable: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dropped page would take keys back that were added."""
    monkeypatch.setattr("mmbloom.storage.writable._MAX_PRIVATE_BYTES", 0)
    with WritableFile.open(writable) as file:
        file.payload[0] = 255
        file.payload[9000] = 255
        file.write_through([(0, 1)])

        assert (file.payload[0], file.payload[9000]) == (255, 255)


def test_a_failed_write_through_can_be_repeated(
    writable: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk that copies on write; the changes are still in the private map."""

    def full(_fd: int, _data: object, _at: int) -> Never:
        raise OSError(28, "No space left on device")

    with WritableFile.open(writable) as file:
        set_byte(file, 0)
        file.payload[9000] = 255
        with monkeypatch.context() as patch:
            patch.setattr(os, "pwrite", full)
            with pytest.raises(OSError, match="free"):
                file.write_through([(2, 1)])
        file.write_through([(2, 1)])

    assert writable.read_bytes()[4096 + 9000] == 255


@pytest.mark.parametrize(("offset", "size"), [(0, 1), (4095, 1), (-1, 1), (16896, 9)])
def test_a_write_outside_payload_and_table_is_refused(
    writable: Path, offset: int, size: int
) -> None:
    """The header has its own ways in."""
    with WritableFile.open(writable) as file, pytest.raises(ParameterError, match="offset"):
        file.write(offset, bytes(size))


def test_a_closed_writer_answers_nothing_and_closes_again(writable: Path) -> None:
    """The same words as a closed reader."""
    file = WritableFile.open(writable)
    file.close()
    file.close(Status())
    for call in (lambda: file.payload, file.check_own, lambda: file.advise("normal")):
        with pytest.raises(ClosedError, match="closed before this call"):
            call()


def test_a_payload_that_is_still_held_does_not_keep_the_lock(writable: Path) -> None:
    """The map lives on with the view; the right to write ends with close()."""
    file = WritableFile.open(writable)
    payload = file.payload
    file.close()
    WritableFile.open(writable).close()

    assert bytes(payload) == PAYLOAD


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_forgotten_writer_lets_go_of_everything(writable: Path) -> None:
    """E8: with the last reference go lock, map and descriptors, as for any file object."""
    before = held_now()
    file = WritableFile.open(writable)
    with pytest.raises(LockHeldError):
        WritableFile.open(writable)
    del file

    assert held_now() == before
    WritableFile.open(writable).close()


def test_a_writer_can_be_advised(writable: Path) -> None:
    """Sealing reads the whole payload in order, which random advice makes slow."""
    with WritableFile.open(writable) as file:
        file.advise("preload")
        set_byte(file, 0)
        file.advise("normal")

        assert file.payload[0] == 255
