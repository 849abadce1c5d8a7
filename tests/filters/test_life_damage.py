"""Damaged files: refused, or found by verify, and never answered from."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from filter_files import (
    NEVER,
    TAIL,
    in_child,
    keys,
    open_read_only,
    open_to_write,
    sealed_file,
    writable_file,
)

import mmbloom
from mmbloom import BloomFilter, ChecksumError, FormatError, TruncatedError
from mmbloom.format.fields import SLOT_OFFSETS
from mmbloom.format.status import pack_status
from mmbloom.storage import mapped

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.mark.parametrize("make", [sealed_file, writable_file])
def test_a_file_cut_at_any_length_is_refused(tmp_path: Path, make: Callable[[Path], Path]) -> None:
    """Every one of them, and one byte longer too; never an open filter that misses keys."""
    path = make(tmp_path / "a.mmb")
    size = path.stat().st_size
    with path.open("ab") as file:
        file.write(b"\0")
    with pytest.raises(TruncatedError, match=str(size)):
        mmbloom.open(path)

    for length in range(size - 1, -1, -1):
        os.truncate(path, length)
        with pytest.raises(TruncatedError):
            mmbloom.open(path)


def test_any_byte_of_a_sealed_header_changed_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All 4096, each in one way."""
    monkeypatch.setattr(mapped, "_READ_PAUSE_SECONDS", 0)  # a bad slot is read five times
    path = sealed_file(tmp_path / "a.mmb")
    content = path.read_bytes()
    with path.open("r+b", buffering=0) as file:
        for offset in range(4096):
            file.seek(offset)
            file.write(bytes([content[offset] ^ (1 << offset % 8)]))
            with pytest.raises(FormatError):
                mmbloom.open(path)
            file.seek(offset)
            file.write(content[offset : offset + 1])
    mmbloom.open(path).close()


def test_any_byte_of_a_writable_header_changed_is_refused_or_harmless(
    tmp_path: Path,
) -> None:
    """One damaged slot is a torn write: the other counts, and every key is found."""
    path = writable_file(tmp_path / "a.mmb")
    content = path.read_bytes()
    slots = range(SLOT_OFFSETS[0], SLOT_OFFSETS[1] + 512)
    with path.open("r+b", buffering=0) as file:
        for offset in range(0, 4096, 3):
            file.seek(offset)
            file.write(bytes([content[offset] ^ 0x55]))
            if offset in slots:
                with mmbloom.open(path) as found:
                    assert found.contains_many(keys(20)).all()
            else:
                with pytest.raises(FormatError):
                    mmbloom.open(path)
            file.seek(offset)
            file.write(content[offset : offset + 1])


@pytest.mark.parametrize("mib", [0, 1, 2])
def test_verify_finds_a_flipped_bit_and_names_its_mib(tmp_path: Path, mib: int) -> None:
    """Opening does not look there; reading everything does."""
    path = tmp_path / "a.mmb"
    with BloomFilter.in_memory(capacity=2_000_000, fpr=0.01) as made:
        made.update(keys(100))
        made.save(path)
    with path.open("r+b") as file:
        file.seek(4096 + (mib << 20) + 12_345)
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 0x10]))

    with mmbloom.open(path) as found, pytest.raises(ChecksumError, match=f"MiB {mib} ") as caught:
        found.verify()
    assert caught.value.offset == 4096 + (mib << 20)


def test_verify_says_what_it_has_read(tmp_path: Path) -> None:
    """Bytes done and in all, up to the end; the result is what was compared."""
    path = sealed_file(tmp_path / "a.mmb", count=5000, layout="page")
    seen: list[tuple[int, int]] = []
    with mmbloom.open(path) as found:
        checked = found.verify(progress=lambda at: seen.append((at.done, at.total)))

    assert seen[-1] == (checked, checked)
    assert checked == found.geometry.payload_bytes


def test_verify_finds_a_cut_before_it_touches_what_is_gone(tmp_path: Path) -> None:
    """Touching it would kill the process."""
    path = sealed_file(tmp_path / "a.mmb", count=5000)
    with mmbloom.open(path) as found:
        os.truncate(path, 4096)
        with pytest.raises(TruncatedError):
            found.verify()


def test_a_table_of_checksums_that_was_changed_is_found(tmp_path: Path) -> None:
    """It has a checksum of its own."""
    path = sealed_file(tmp_path / "a.mmb")
    with path.open("r+b") as file:
        file.seek(-TAIL, os.SEEK_END)
        file.write(bytes(TAIL))

    with mmbloom.open(path) as found, pytest.raises(ChecksumError, match="table"):
        found.verify()


def test_counts_that_do_not_fit_the_payload_are_found(tmp_path: Path) -> None:
    """Every checksum holds, and still the slots say something else than the bits."""
    path = sealed_file(tmp_path / "a.mmb")
    with mmbloom.open(path) as found:
        status = found._opened.status
    slot = pack_status(status._replace(bits_set=status.bits_set - 1))
    content = bytearray(path.read_bytes())
    for offset in SLOT_OFFSETS:
        content[offset : offset + 512] = slot
    path.write_bytes(content)

    with mmbloom.open(path) as found, pytest.raises(FormatError, match="as counted") as caught:
        found.verify()
    assert caught.value.field == "bits_set"


def file_of_a_dead_writer(path: Path) -> Path:
    """Leave a file as a writer does that is killed after a flush."""

    def die() -> None:
        with BloomFilter.create(path, capacity=100, fpr=NEVER) as writer:
            writer.update(keys(20))
            writer.flush()
            writer.add("more")
            os._exit(0)

    assert in_child(die) == 0
    return path


@pytest.mark.parametrize(
    ("make", "open_"),
    [
        (sealed_file, open_read_only),
        (writable_file, open_read_only),
        (writable_file, open_to_write),
        (file_of_a_dead_writer, open_read_only),
        (file_of_a_dead_writer, open_to_write),
    ],
)
def test_a_payload_of_zeros_is_refused_by_the_canaries(
    tmp_path: Path, make: Callable[[Path], Path], open_: Callable[[Path], BloomFilter]
) -> None:
    """Lost by a copy, or a hole in the disk: opening proves that member keys are still found."""
    path = make(tmp_path / "a.mmb")
    content = path.read_bytes()
    path.write_bytes(content[:4096] + bytes(len(content) - 4096 - TAIL) + content[-TAIL:])
    before = path.read_bytes()

    with pytest.raises(FormatError, match="canar") as caught:
        open_(path)

    assert caught.value.field == "canaries"
    assert path.read_bytes() == before
