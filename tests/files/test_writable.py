"""The writer: seen at once, durable when it says so, whole after any crash."""

from __future__ import annotations

import mmap
import os
from typing import TYPE_CHECKING, Never

import pytest
from conftest import NUM_LINES, PAYLOAD, held_now, killed_at_each_step

from mmbloom.errors import (
    ClosedError,
    LockHeldError,
    NoSpaceError,
    ParameterError,
    ReadOnlyError,
    TruncatedError,
)
from mmbloom.files.mapped import MappedFile
from mmbloom.files.paths import open_regular
from mmbloom.files.publish import NewFile
from mmbloom.files.writable import WritableFile
from mmbloom.format.fields import KEYS_EXACT, SEALED, SLOT_OFFSETS, WRITER_OPEN
from mmbloom.format.status import Status

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import MakeFile

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
            file.write_status(file.status._replace(keys_added=number))
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


def test_a_file_replaced_under_its_writer_is_noticed_by_flush(
    writable: Path, make_file: MakeFile
) -> None:
    """Promise 1: what goes to a file without a name is lost, so it must not look durable."""
    with WritableFile.open(writable) as file:
        set_byte(file, 0)
        os.replace(make_file("b.mmb"), writable)  # noqa: PTH105 - the call that builders make
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


def test_private_copies_are_dropped_once_they_are_in_the_file(
    writable: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a writer of a large file holds all of it twice; the bytes stay what they were."""
    dropped = []
    monkeypatch.setattr("mmbloom.files.writable._MAX_PRIVATE_BYTES", 8192)

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
    monkeypatch.setattr("mmbloom.files.writable._MAX_PRIVATE_BYTES", 0)
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


def test_a_file_replaced_between_lock_and_map_is_refused(
    writable: Path, make_file: MakeFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The map would be of another file than the one that is locked."""

    def open_late(path: str, flags: int) -> tuple[int, os.stat_result]:
        os.replace(make_file("b.mmb"), writable)  # noqa: PTH105 - the call that builders make
        return open_regular(path, flags)

    before = held_now()
    monkeypatch.setattr("mmbloom.files.writable.open_regular", open_late)
    with pytest.raises(OSError, match="another file has this path"):
        WritableFile.open(writable)

    assert held_now() == before


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
