"""Reading: O_RDONLY, one page, no trace, no leak."""

from __future__ import annotations

import errno
import faulthandler
import hashlib
import mmap
import os
import signal
from typing import TYPE_CHECKING, Never

import pytest
from file_steps import PAYLOAD, held_now, in_child, names_in

from mmbloom.errors import ClosedError, FormatError, TruncatedError
from mmbloom.storage.mapped import MappedFile, map_file, stamp_at

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from file_steps import MakeFile

    from mmbloom.format.header import Header
    from mmbloom.storage.advice import Advice


def test_an_opened_file_has_its_header_status_and_payload(sealed: Path, header: Header) -> None:
    """Everything a reader needs, from the file alone."""
    with MappedFile.open(sealed) as mapped:
        assert mapped.header == header
        assert mapped.status.is_sealed
        assert bytes(mapped.payload) == PAYLOAD
        assert bytes(mapped.checksums) == bytes(8)
        assert mapped.stamp == stamp_at(sealed)


def test_reading_asks_for_no_right_to_write(sealed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """F1, F2: no write permission is asked for, so none can be used."""
    flags = []
    real_open = os.open

    def recording(path: str, how: int, mode: int = 0o777, **where: int) -> int:
        flags.append(how)
        return real_open(path, how, mode, **where)

    monkeypatch.setattr(os, "open", recording)
    with MappedFile.open(sealed) as mapped:
        assert mapped.payload.readonly
        assert mapped.checksums.readonly
    assert [how & os.O_ACCMODE for how in flags] == [os.O_RDONLY]
    assert not flags[0] & (os.O_CREAT | os.O_TRUNC)


@pytest.mark.parametrize("advice", ["normal", "random", "willneed", "preload"])
def test_reading_leaves_bytes_and_time_stamps(writable: Path, advice: Advice) -> None:
    """F3: open, read all, close; nothing of the file has changed."""
    before = writable.stat(), hashlib.sha256(writable.read_bytes()).digest()
    with MappedFile.open(writable, advice) as mapped:
        assert bytes(mapped.payload) == PAYLOAD
        mapped.read_status()
    after = writable.stat(), hashlib.sha256(writable.read_bytes()).digest()

    assert before[1] == after[1]
    assert before[0].st_mtime_ns == after[0].st_mtime_ns
    assert before[0].st_ctime_ns == after[0].st_ctime_ns
    assert names_in(writable.parent) == [writable.name]


def test_another_user_reads_a_file_of_mode_0444_in_a_folder_of_mode_0555(sealed: Path) -> None:
    """F1, R14: permission to read is all it takes."""
    sealed.chmod(0o444)
    sealed.parent.chmod(0o555)

    def as_nobody() -> None:
        os.chdir(sealed.parent)
        if os.geteuid() == 0:
            os.setuid(65534)
        with MappedFile.open(sealed.name) as mapped:
            assert bytes(mapped.payload) == PAYLOAD

    try:
        assert in_child(as_nobody) == 0
    finally:
        sealed.parent.chmod(0o755)


@pytest.mark.parametrize("num_bytes", [4096, 4097, 12000, -9, -1])
def test_a_file_that_was_cut_short_is_refused_with_both_lengths(
    sealed: Path, header: Header, num_bytes: int
) -> None:
    """R1, D4: wherever it was cut, it never opens."""
    found = num_bytes % header.file_bytes
    os.truncate(sealed, found)
    with pytest.raises(TruncatedError, match=str(header.file_bytes)) as caught:
        MappedFile.open(sealed)

    assert str(found) in str(caught.value)


@pytest.mark.parametrize("num_bytes", [0, 1, 8, 4095])
def test_a_file_without_a_whole_header_page_is_truncated(sealed: Path, num_bytes: int) -> None:
    """R1: from nothing to one byte less than a page."""
    os.truncate(sealed, num_bytes)
    with pytest.raises(TruncatedError):
        MappedFile.open(sealed)


def test_a_file_that_is_a_byte_too_long_is_refused(sealed: Path, header: Header) -> None:
    """R17: it is no longer the file that was written."""
    sealed.write_bytes(sealed.read_bytes() + b"\0")
    with pytest.raises(TruncatedError, match=str(header.file_bytes + 1)):
        MappedFile.open(sealed)


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda path: path.write_bytes(b"not a filter" * 500), id="foreign"),
        pytest.param(lambda path: os.truncate(path, 5000), id="cut"),
        pytest.param(lambda path: os.truncate(path, 0), id="empty"),
    ],
)
def test_500_failed_opens_leave_no_descriptor_and_no_map(
    sealed: Path, damage: Callable[[Path], object]
) -> None:
    """R12, E9."""
    damage(sealed)
    before = held_now()
    for _ in range(500):
        with pytest.raises(FormatError):
            MappedFile.open(sealed)

    assert held_now() == before


def test_600_opens_leave_no_descriptor_and_no_map(sealed: Path) -> None:
    """E8: closed by close(), or by nobody."""
    MappedFile.open(sealed).close()
    before = held_now()
    for number in range(600):
        mapped = MappedFile.open(sealed)
        if number % 2:
            mapped.close()
        del mapped

    assert held_now() == before


def test_one_open_file_costs_one_descriptor(sealed: Path) -> None:
    """A service opens hundreds of filters."""
    before = held_now().num_descriptors
    with MappedFile.open(sealed):
        assert held_now().num_descriptors == before + 1


def test_a_closed_file_answers_nothing_and_closes_again(sealed: Path) -> None:
    """No call after close() reads the map."""
    mapped = MappedFile.open(sealed)
    mapped.close()
    mapped.close()
    for call in (
        lambda: mapped.payload,
        lambda: mapped.checksums,
        mapped.check_length,
        mapped.read_status,
        lambda: mapped.advise("normal"),
        lambda: mapped.start_reading([0]),
    ):
        with pytest.raises(ClosedError, match="closed before this call"):
            call()


def test_a_payload_that_is_still_held_outlives_close(sealed: Path) -> None:
    """E11: the map is never taken away under a look-up that runs; it goes with the last view."""
    before = held_now()
    mapped = MappedFile.open(sealed)
    payload = mapped.payload
    mapped.close()
    assert bytes(payload) == PAYLOAD
    del payload, mapped

    assert held_now() == before


def test_the_map_is_of_the_file_that_was_opened(sealed: Path, make_file: MakeFile) -> None:
    """E3: after a rename over its path the reader has the old file, and can tell."""
    with MappedFile.open(sealed) as mapped:
        os.replace(make_file("other.mmb"), sealed)
        assert bytes(mapped.payload) == PAYLOAD
        mapped.check_length()
        assert stamp_at(sealed) != mapped.stamp


def test_a_file_cut_under_a_reader_is_noticed_by_check_length(sealed: Path, header: Header) -> None:
    """R10, E1: before a touch, it is an error with both lengths."""
    with MappedFile.open(sealed) as mapped:
        os.truncate(sealed, 4096)
        with pytest.raises(TruncatedError, match=f"expected {header.file_bytes}, found 4096"):
            mapped.check_length()
        with pytest.raises(TruncatedError):
            mapped.advise("preload")
        with pytest.raises(TruncatedError):
            mapped.read_status()


def test_touching_what_was_cut_kills_the_process_as_documented(sealed: Path) -> None:
    """R10, E1: no library can prevent it; that is why files are replaced by rename only."""

    def touch() -> None:
        faulthandler.disable()  # it would print the death that is expected
        mapped = MappedFile.open(sealed)
        os.truncate(sealed, 4096)
        mapped.payload[8192]

    assert in_child(touch) == -signal.SIGBUS
    assert "SIGBUS" in str(MappedFile.__doc__)


def test_a_file_cut_between_check_and_map_is_truncated(sealed: Path, header: Header) -> None:
    """Python looks at the length again when it maps, and says ValueError."""
    os.truncate(sealed, 8192)
    with sealed.open("rb") as file, pytest.raises(TruncatedError, match="found 8192"):
        map_file(file.fileno(), str(sealed), header, mmap.MAP_SHARED, mmap.PROT_READ)


def test_a_file_system_without_maps_is_an_error_with_the_path(
    sealed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ENODEV means nothing without it."""

    def refuse(*_args: object, **_kwargs: object) -> Never:
        raise OSError(errno.ENODEV, "No such device")

    monkeypatch.setattr(mmap, "mmap", refuse)
    with pytest.raises(OSError, match="No such device") as caught:
        MappedFile.open(sealed)

    assert caught.value.filename == str(sealed)


def test_a_file_longer_than_the_addresses_of_the_process_is_an_error(
    sealed: Path, header: Header
) -> None:
    """On a machine of 32 bits: Python then says OverflowError, which names no file."""

    def refuse(*_given: object, **_named: object) -> mmap.mmap:
        raise OverflowError("Python int too large to convert to C ssize_t")

    with sealed.open("rb") as file, pytest.raises(OSError, match="64-bit Python") as caught:
        map_file(file.fileno(), str(sealed), header, mmap.MAP_SHARED, mmap.PROT_READ, refuse)
    assert caught.value.filename == str(sealed)
