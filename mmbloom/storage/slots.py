"""The two status slots of an open file, written in turn, each write whole or harmless.

``mmbloom.format.status`` says what a slot holds and which one counts; this is when and in which
order slots reach the disk. Called by ``writable`` only.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from mmbloom.format.fields import SLOT_OFFSETS, WRITER_OPEN
from mmbloom.format.status import Status, pack_status
from mmbloom.storage.space import raise_disk_error, write_all

if TYPE_CHECKING:
    from mmbloom.format.header import HeaderPage
    from mmbloom.storage.writer_claim import Claim


class StatusSlots:
    """The status of a claimed file, in memory and on disk. ``status`` is what the file has."""

    def __init__(self, claim: Claim, page: HeaderPage) -> None:
        """Start from the slot that counts in *page*."""
        self.status = page.status
        self._claim = claim
        self._slot_index = page.slot_index
        self._marked = False  # whether this handle has set WRITER_OPEN

    @property
    def is_marked(self) -> bool:
        """Whether this handle has changed the file, or another one died while it did."""
        return self._marked or self.status.writer_open

    def mark_open(self) -> None:
        """Set WRITER_OPEN, durably, before the first change.

        After a crash the counts are then known to be stale, whatever else reached the disk. What is
        exact only while nothing changes, the count and the sum of the hashes, is given up.
        """
        if self._marked:
            return
        if not self.status.writer_open:
            self.write(self.status._replace(flags=0, key_set=0), WRITER_OPEN)
            self._sync()
        self._marked = True

    def write(self, status: Status, writer_open: int) -> None:
        """Write *status* to the slot that does not count now, with the next sequence.

        Args:
            status: its sequence and its WRITER_OPEN flag are ignored.
            writer_open: WRITER_OPEN or 0, the flag to write.
        """
        flags = status.flags & ~WRITER_OPEN | writer_open
        numbered = status._replace(sequence=self.status.sequence + 1, flags=flags)
        self._write_at(1 - self._slot_index, numbered)
        self.status, self._slot_index = numbered, 1 - self._slot_index

    def write_durably(self, status: Status, writer_open: int) -> None:
        """Sync what has been written to the file, then write() and sync the slot."""
        # In this order: counts on disk without their keys are a promise that a power loss breaks.
        self._sync()
        self.write(status, writer_open)
        self._sync()

    def copy_durably(self) -> None:
        """Write the status that counts to the other slot too, and sync it."""
        self._write_at(1 - self._slot_index, self.status)
        self._sync()

    def differs_from(self, status: Status) -> bool:
        """Whether *status* says anything that the file does not, sequence and WRITER_OPEN apart."""
        return _plain(status) != _plain(self.status)

    def _sync(self) -> None:
        fd = self._claim.fd
        try:
            os.fdatasync(fd)
        except OSError as exc:  # network file systems notice a full disk here
            raise_disk_error(exc, fd, self._claim.path, 0)

    def _write_at(self, index: int, status: Status) -> None:
        claim = self._claim
        write_all(claim.fd, claim.path, SLOT_OFFSETS[index], pack_status(status))


def _plain(status: Status) -> Status:
    return status._replace(sequence=0, flags=status.flags & ~WRITER_OPEN)
