"""The header page beside a writer at work."""

from __future__ import annotations

import os
import signal
import struct
from typing import TYPE_CHECKING

import pytest
from file_steps import PAYLOAD

from mmbloom.errors import FormatError
from mmbloom.format.fields import WRITER_OPEN
from mmbloom.format.status import Status
from mmbloom.storage.mapped import MappedFile, read_page
from mmbloom.storage.slots import StatusSlots
from mmbloom.storage.writer_claim import Claim

if TYPE_CHECKING:
    from pathlib import Path

    from mmbloom.format.header import Header


def torn(page: bytes, *slots: int) -> bytes:
    """Return *page* with the checksums of *slots* wrong."""
    damaged = bytearray(page)
    for slot in slots:
        damaged[512 * (slot + 1) + 504] ^= 1
    return bytes(damaged)


def test_slots_that_a_writer_is_writing_are_read_again(
    header: Header, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both slots torn in one read is a writer at work; the next read is whole."""
    pauses = []
    monkeypatch.setattr("time.sleep", pauses.append)
    page = header.pack(Status(keys_added=7))
    pages = iter([torn(page, 0, 1), torn(page, 0, 1), page])

    found = read_page(lambda: (next(pages), header.file_bytes), "a.mmb")

    assert found.status.keys_added == 7
    assert pauses == [0.001, 0.001]


def test_slots_that_stay_bad_are_an_error_after_five_reads(
    header: Header, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is damage then."""
    monkeypatch.setattr("time.sleep", lambda _seconds: None)
    page = torn(header.pack(Status()), 0, 1)
    reads = []
    with pytest.raises(FormatError, match="slot_checksum"):
        read_page(lambda: (reads.append(1) or page, header.file_bytes), "a.mmb")

    assert len(reads) == 5


def test_other_damage_is_an_error_at_once(header: Header) -> None:
    """Only the slots change after the file was made, so nothing else is worth a second look."""
    page = bytearray(header.pack(Status()))
    struct.pack_into("<Q", page, 128, 5)
    reads = []
    with pytest.raises(FormatError):
        read_page(lambda: (reads.append(1) or bytes(page), header.file_bytes), "a.mmb")

    assert len(reads) == 1


def test_a_reader_beside_a_writer_never_meets_an_error(writable: Path) -> None:
    """G1: 500 opens while a child writes slots as fast as it can."""

    def write_for_ever() -> None:
        slots = StatusSlots(*Claim.take(str(writable)))
        while True:
            changed = slots.status._replace(keys_added=slots.status.keys_added + 1)
            slots.write(changed, WRITER_OPEN)

    pid = os.fork()
    if pid == 0:
        try:
            write_for_ever()
        finally:
            os._exit(1)
    try:
        for _ in range(500):
            with MappedFile.open(writable) as mapped:
                assert bytes(mapped.payload[:64]) == PAYLOAD[:64]
                assert mapped.read_status().keys_added >= mapped.status.keys_added
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
