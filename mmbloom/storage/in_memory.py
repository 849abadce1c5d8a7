"""Filters whose bytes lie in the memory of this process: made there, or read whole from a file.

The latter is for network and user-space file systems, where a map can fail (SIGBUS) or change at
any time.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, ClassVar, Self

from mmbloom.errors import ParameterError, TruncatedError
from mmbloom.format.checksums import check_payload
from mmbloom.format.fields import HEADER
from mmbloom.format.status import Status
from mmbloom.storage.advice import Advice, check_advice
from mmbloom.storage.digests import check_digest, digest_of_bytes
from mmbloom.storage.mapped import MappedFile
from mmbloom.storage.memory import map_memory
from mmbloom.storage.storage import Mode, Stamp, Storage

if TYPE_CHECKING:
    import mmap

    from mmbloom.format.header import Header, HeaderPage

_PIECE_BYTES = 8 << 20  # other threads and Ctrl-C get their turn in between


class MemoryStorage(Storage):
    """A filter without a file, empty at first."""

    is_writable = True

    def __init__(self, header: Header, status: Status | None = None) -> None:
        """Take memory for the payload.

        Raises:
            MemoryError: more than this machine has.
        """
        self.header, self._status = header, status or Status()
        self._payload = memoryview(map_memory(header.payload_bytes))

    @property
    def status(self) -> Status:
        """The status that the filter began with."""
        return self._status

    @property
    def payload(self) -> memoryview:
        """The payload, writable."""
        return self._payload

    def close(self) -> None:
        """Let go of the memory, which lives as long as somebody reads it."""
        self._payload = memoryview(b"")


class LoadedFile(MappedFile):
    """One sealed filter file, as a copy in anonymous memory that has been verified.

    Guarantee: every byte was compared with its checksum. Whatever is done to the file later,
    answers stay the same. No descriptor stays open.
    Cost: the file is read once, and takes its size in memory of this process.
    """

    mode: ClassVar[Mode] = "ram"

    @classmethod
    def _hold(
        cls, fd: int, path: str, page: HeaderPage, stamp: Stamp, expected_digest: str | None
    ) -> Self:
        if not page.status.is_sealed:
            hint = "it has no checksums yet, and a copy would miss the keys that are added later"
            raise ParameterError("mode", "'map' or 'pread' for a file not sealed", "ram", hint)
        loaded = cls.load(fd, path, page, stamp)
        try:
            if expected_digest is not None:  # of the bytes that will be looked up, not of the disk
                check_digest(digest_of_bytes(loaded._open_view()), expected_digest, path)
            loaded._verify()
        except BaseException:
            loaded.close()
            raise
        return loaded

    @classmethod
    def load(cls, fd: int, path: str, page: HeaderPage, stamp: Stamp) -> Self:
        """Read the file behind *fd* without comparing it with anything."""
        memory = map_memory(page.header.file_bytes)
        read_into(memory, fd, path, 0, len(memory))
        loaded = cls(path, page, memory, stamp)
        loaded._view = loaded._view.toreadonly()
        return loaded

    def advise(self, advice: Advice) -> None:
        """Do nothing but check the word: all of it is in memory."""
        check_advice(advice)

    # All of it is in memory, so there is nothing to read ahead.
    start_reading = Storage.start_reading
    is_cold = Storage.is_cold
    pager = Storage.pager

    def copy_payload(self, start: int, out: memoryview) -> None:
        """Copy the payload from byte *start* on into *out*, as much as it holds."""
        first = self.header.payload_offset + start
        # Not as of a map: to give this memory back would be to lose it.
        with self._open_view()[first : first + len(out)] as part:
            out[:] = part

    def read_status(self) -> Status:
        """Return the status: what was read never changes."""
        return self.status

    def check_length(self) -> None:
        """Do nothing: nobody can cut this copy."""
        self._open_map()

    def _verify(self) -> None:
        with self.payload as payload:
            num_threads = len(os.sched_getaffinity(0))
            table = bytes(self.checksums)
            check_payload(
                payload, table, self.header, self.status, self.path, num_threads=num_threads
            )


def read_into(memory: mmap.mmap, fd: int, path: str, start: int, end: int) -> None:
    """Read the bytes *start* to *end* of a file to the same place in *memory*.

    Raises:
        TruncatedError: the file ends before. OSError: what the disk or the server says.
    """
    with memoryview(memory) as view:
        done = start
        while done < end:
            with view[done : min(end, done + _PIECE_BYTES)] as piece:
                try:
                    count = os.preadv(fd, [piece], done)
                except OSError as exc:
                    exc.filename = path
                    raise
            if not count:
                offset = HEADER.offsets["file_bytes"]
                raise TruncatedError(path, "file_bytes", offset, f"at least {end}", done)
            done += count
