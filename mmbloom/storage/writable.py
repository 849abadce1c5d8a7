"""The one writer of a filter file that still grows: private map, write-through, flush, seal.

Changes are made in a private map (copy on write, 4 KiB at a time) and written with pwrite(). A
shared map would be simpler and much dearer: the page cache holds a file in folios of up to 2 MiB
and a store dirties a whole one, so 1000 scattered adds to a 1.2 GB file wrote 956 MiB to disk. This
way they write 3.9 MiB.
"""

from __future__ import annotations

import mmap
import os
from typing import TYPE_CHECKING, Self

from mmbloom.errors import ClosedError, ParameterError
from mmbloom.format.fields import WRITER_OPEN
from mmbloom.storage.advice import PAGE_BYTES, Advice, advise, check_advice
from mmbloom.storage.mapped import check_length, map_file, release
from mmbloom.storage.paths import FilePath, open_regular, path_text
from mmbloom.storage.slots import StatusSlots
from mmbloom.storage.space import write_all, write_page
from mmbloom.storage.storage import Storage
from mmbloom.storage.writer_claim import Claim, refuse_sealed, replaced

if TYPE_CHECKING:
    from collections.abc import Iterable

    from _typeshed import ReadableBuffer

    from mmbloom.format.header import HeaderPage
    from mmbloom.format.status import Status

_MAP_NORESERVE = 0x4000  # linux/mman.h; Python's mmap names it since 3.13
# Private copies of pages that the file has too are dead weight: past this much they are dropped.
_MAX_PRIVATE_BYTES = 64 << 20


class WritableFile(Storage):
    """A WRITABLE filter file, held by its one writer.

    Guarantee: at most one of these per file on this host, whichever name or link it is opened by.
    A crash at any point leaves a file that opens and has every key that was written through.
    Durability: what write_through() returned for is seen by readers at once and survives the death
    of this process; what flush(), seal() or close(status) returned for survives power loss.
    Sharing: one thread at a time. A forked child can only close its copy, and opens its own.
    Limits: a process that dies, or close(None) after a change, leaves WRITER_OPEN set. The
    next to open the file finds ``status.writer_open``, and the counts are a lower bound.

    Attributes: path (links resolved), header.
    """

    is_writable = True

    def __init__(self, claim: Claim, page: HeaderPage, file_map: mmap.mmap) -> None:
        """Hold what open() has claimed and mapped."""
        self.path: str = claim.path
        self.header = page.header
        self._claim, self._slots = claim, StatusSlots(claim, page)
        self._map: mmap.mmap | None = file_map
        self._view = memoryview(file_map)
        start = page.header.payload_offset
        self._ends = start, start + page.header.payload_bytes
        self._unsynced = False
        self._copied: dict[int, int] = {}  # start -> bytes: private copies that the file has too
        self._num_copied_bytes = 0

    @classmethod
    def open(cls, path: FilePath) -> Self:
        """Claim and open the file at *path*; nothing stays open or locked when this raises.

        Raises:
            LockHeldError: another handle writes the file, in this process or another. No waiting.
            ReadOnlyError: the file is SEALED.
            OSError: FileNotFoundError and the like; PermissionError also where ``PATH.lock`` cannot
                be made beside the file.
            FormatError: as MappedFile.open().
        """
        # Links to one file lead to one lock, and the path means the same after a chdir.
        claim, page = Claim.take(os.path.realpath(path_text(path)))
        try:
            return cls(claim, page, _map_privately(claim, page))
        except BaseException:
            claim.release()
            raise

    @property
    def status(self) -> Status:
        """The status that the file has now."""
        return self._slots.status

    @property
    def payload(self) -> memoryview:
        """The payload, writable. A change here is in the file after write_through()."""
        self._own_map()
        start = self.header.payload_offset
        return self._view[start : start + self.header.payload_bytes]

    def advise(self, advice: Advice) -> None:
        """Tell the kernel how the payload will be read, as MappedFile.advise(); random at first."""
        advise(self._own_map(), check_advice(advice))

    def check_own(self) -> None:
        """Raise ClosedError or, in a forked child, ReadOnlyError. Cost: one getpid."""
        self._own_map()

    def write_through(self, runs: Iterable[tuple[int, int]]) -> None:
        """Write changed pages to the file, where readers see them at once.

        Args:
            runs: (first_page, num_pages), in 4 KiB pages of the payload: together, every page that
                was changed since the last call. If this raises, the file may lack some of them, and
                the next call must have them again.

        Cost: about 5 us a run of one page; 40 to 80 us where the page cache has the file in large
        folios, as after a copy, or a reader with advice "normal".
        """
        start_of_payload, end_of_payload = self._ends
        fd = self._writing()
        for first_page, num_pages in runs:
            start = start_of_payload + PAGE_BYTES * first_page
            end = min(start + PAGE_BYTES * num_pages, end_of_payload)
            if not start_of_payload <= start < end:
                raise ParameterError("runs", "pages of the payload", (first_page, num_pages))
            if not self._unsynced:
                self._before_change()
            write = write_page if num_pages == 1 else write_all
            write(fd, self.path, start, self._view[start:end])
            num_new_bytes = end - start - self._copied.get(start, 0)
            if num_new_bytes > 0:
                self._copied[start] = end - start
                self._num_copied_bytes += num_new_bytes
        if self._num_copied_bytes > _MAX_PRIVATE_BYTES:
            self._drop_copies()

    def write(self, offset: int, buffer: ReadableBuffer) -> None:
        """Write *buffer* at *offset* of the file, past the header: the checksums before seal()."""
        fd = self._writing()
        num_bytes = memoryview(buffer).nbytes
        if not self.header.payload_offset <= offset <= self.header.file_bytes - num_bytes:
            rule = f"{num_bytes} bytes between the header and the end of the file"
            raise ParameterError("offset", rule, offset)
        self._before_change()
        write_all(fd, self.path, offset, buffer)

    def flush(self, status: Status) -> None:
        """Make everything that was written durable, then *status*; free if nothing has changed.

        Its sequence and WRITER_OPEN flag are set here, as in every method that takes a status.

        Raises:
            OSError: ESTALE, another file has the path by now; what was added is lost with this one.
            TruncatedError: somebody changed the length of the file.
        """
        self._writing()
        self._check_file()
        if self._unsynced or self._slots.differs_from(status):
            self._before_change()
            self._slots.write_durably(status, WRITER_OPEN)
            self._unsynced = False

    def seal(self, status: Status) -> None:
        """End writing for good; write the payload and the checksum table before.

        One slot after the other, with a sync between: one of them is sound at every moment.

        Args:
            status: a SEALED one.
        """
        self._writing()
        if not status.is_sealed:
            raise ParameterError("status", "a SEALED status", status)
        self._check_file()
        self._slots.write_durably(status, 0)
        self._slots.copy_durably()
        self._unsynced = False

    def close(self, status: Status | None = None, *, keep_mark: bool = False) -> None:
        """Unmap, unlock, close; may be called again.

        With *status*: flush it first and clear WRITER_OPEN, unless *keep_mark*. With None, or when
        that flush raises: a file that was changed keeps WRITER_OPEN, as if its writer had died. A
        forked child only lets go of its copy.
        """
        if self._map is None:
            return
        try:
            is_writer = self._claim.is_own and not self.status.is_sealed
            if (
                status is not None
                and is_writer
                and (self._slots.is_marked or self._slots.differs_from(status))
            ):
                self._check_file()
                self._slots.write_durably(status, WRITER_OPEN if keep_mark else 0)
        finally:
            file_map, self._map = self._map, None
            release(self._view, file_map)
            self._claim.release()

    def _own_map(self) -> mmap.mmap:
        if self._map is None:
            message = f"{self.path}: closed before this call; open it again"
            raise ClosedError(message)
        self._claim.check_own()
        return self._map

    def _writing(self) -> int:
        """Return the descriptor to write to, if this handle may write."""
        self._own_map()
        if self._slots.status.is_sealed:
            raise refuse_sealed(self.path)
        return self._claim.fd

    def _before_change(self) -> None:
        if not self._unsynced:
            self._slots.mark_open()
            self._unsynced = True

    def _check_file(self) -> None:
        self._claim.check_in_place()
        check_length(os.fstat(self._claim.fd).st_size, self.path, self.header)

    def _drop_copies(self) -> None:
        # Only what was written: dropping a page that was not would take keys back.
        for start, num_bytes in self._copied.items():
            lead = start % mmap.PAGESIZE  # 0, unless the system's pages are larger than ours
            self._own_map().madvise(mmap.MADV_DONTNEED, start - lead, lead + num_bytes)
        self._copied.clear()
        self._num_copied_bytes = 0


def _map_privately(claim: Claim, page: HeaderPage) -> mmap.mmap:
    # A descriptor of its own: the map keeps a duplicate of it, and a duplicate of the claim's would
    # keep the lock on the file for as long as a view of the payload, or a forked child, lives.
    fd, found = open_regular(claim.path, os.O_RDONLY)
    with fd:
        if not os.path.samestat(found, os.fstat(claim.fd)):
            raise replaced(claim.path)
        flags = mmap.MAP_PRIVATE | _MAP_NORESERVE
        file_map = map_file(fd, claim.path, page.header, flags, mmap.PROT_READ | mmap.PROT_WRITE)
    # Read-ahead would fill the page cache with large folios, where a write of 4 KiB takes 40 us and
    # more: the file system walks all the buffers of the folio. In single pages it takes 3 us.
    file_map.madvise(mmap.MADV_RANDOM)
    return file_map
