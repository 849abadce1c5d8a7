"""Filter files that are read with pread(2) and never mapped.

A map of a file that somebody cuts, or whose server is gone, kills the process that touches it. A
read returns an error.
"""

from __future__ import annotations

import mmap
import os
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, ClassVar, Self

from mmbloom.errors import ClosedError, TruncatedError
from mmbloom.format.fields import HEADER, HEADER_BYTES
from mmbloom.storage.advice import PAGE_BYTES, Advice, check_advice, runs_of
from mmbloom.storage.descriptors import NO_DESCRIPTOR, Descriptor
from mmbloom.storage.digests import check_digest, digest_of
from mmbloom.storage.in_memory import LoadedFile, read_into
from mmbloom.storage.mapped import MappedFile, check_length, read_page_of, stamp_of
from mmbloom.storage.storage import Storage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from mmbloom.format.header import HeaderPage
    from mmbloom.format.status import Status
    from mmbloom.storage.storage import Mode, Stamp

_MAP_NORESERVE = 0x4000  # linux/mman.h; Python's mmap names it since 3.13


class PreadFile(MappedFile):
    """One filter file, of which a look-up reads the 4 KiB pages that it needs.

    ``payload`` is a window: addresses for the whole payload, with memory behind those pages only
    that ``loaded()`` has read, and only while its block runs. So the engine probes it like any
    other payload.

    Guarantee: a file that is cut short, or a disk that fails, is an error and never a signal.
    Cost: one system call a run of pages, two more to give the memory back.
    Sharing: threads take turns.
    """

    mode: ClassVar[Mode] = "pread"
    names_pages = True

    def __init__(self, path: str, page: HeaderPage, window: mmap.mmap, stamp: Stamp) -> None:
        super().__init__(path, page, window, stamp)
        self._own_fd = NO_DESCRIPTOR
        self._lock = threading.RLock()  # a signal handler may use what its thread is reading
        self._loaded_runs: list[tuple[int, int]] = []
        self._depth = 0  # blocks of loaded() that this thread is in
        self._kept: frozenset[int] = frozenset()  # pages that stay in the window

    @classmethod
    def _hold(
        cls, fd: int, path: str, page: HeaderPage, stamp: Stamp, expected_digest: str | None
    ) -> Self:
        if expected_digest is not None:
            check_digest(digest_of(fd, path), expected_digest, path)
        # No reservation: no more of it is ever used than the pages of a few thousand keys.
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
        try:
            window = mmap.mmap(-1, page.header.file_bytes, flags=flags)
            window.madvise(mmap.MADV_NOHUGEPAGE)  # 4 KiB are read, not 2 MiB zeroed for them
        except OSError as exc:
            exc.filename = path
            raise
        unmapped = cls(path, page, window, stamp)
        try:
            unmapped._own_fd = Descriptor.copied(fd)
        except BaseException:
            unmapped.close()
            raise
        return unmapped

    @property
    def checksums(self) -> memoryview:
        """The checksum table as bytes, read now."""
        header = self.header
        return memoryview(self.read(header.checksums_offset, 8 * header.num_checksums))

    def read(self, offset: int, num_bytes: int) -> bytes:
        """Return bytes of the file as they are now.

        Raises:
            TruncatedError: the file ends before. OSError: what the disk says.
        """
        parts = []
        with self._lock:
            while num_bytes:
                try:
                    part = os.pread(self._fd(), num_bytes, offset)
                except OSError as exc:
                    exc.filename = self.path
                    raise
                if not part:
                    place = HEADER.offsets["file_bytes"]
                    raise TruncatedError(
                        self.path, "file_bytes", place, self.header.file_bytes, offset
                    )
                parts.append(part)
                offset, num_bytes = offset + len(part), num_bytes - len(part)
            self._open_map()  # closed by a signal handler: this may be of another file
        return b"".join(parts)

    @contextmanager
    def loaded(self, page_numbers: Iterable[int]) -> Iterator[None]:
        """Have these 4 KiB pages of the payload, ascending, in the window during the block."""
        with self._lock:
            window = self._open_map()
            self._depth += 1
            try:
                wanted = (page for page in page_numbers if page not in self._kept)
                for start, end in self._runs(wanted):
                    self._loaded_runs.append((start, end))
                    read_into(window, self._fd(), self.path, start, end)
                self._open_map()
                yield
            finally:
                self._depth -= 1
                # Not before the outermost block ends: it may need the same pages.
                if not self._depth:
                    self._empty(window)

    def copy_payload(self, start: int, out: memoryview) -> None:
        """Copy the payload from byte *start* on into *out*, as much as it holds."""
        out[:] = self.read(self.header.payload_offset + start, len(out))

    def keep(self, page_numbers: Iterable[int]) -> None:
        """Have these pages in the window from now on."""
        with self._lock:
            kept = sorted(page_numbers)
            for start, end in self._runs(kept):
                read_into(self._open_map(), self._fd(), self.path, start, end)
            self._kept = frozenset(kept)

    def whole(self) -> LoadedFile:
        """Read the whole file into memory, as it is now, without comparing it with anything."""
        with self._lock:
            fd = self._fd()
            stamp = stamp_of(os.fstat(fd))
            return LoadedFile.load(fd, self.path, read_page_of(fd, self.path), stamp)

    def advise(self, advice: Advice) -> None:
        """Do nothing but check the word: a page is read when it is needed."""
        check_advice(advice)

    # Nothing to do: see loaded().
    pager = Storage.pager
    start_reading = Storage.start_reading

    def is_cold(self) -> bool:
        """Return True: look-ups name their pages."""
        return True

    def read_page(self) -> bytes:
        """Return the header page as it is now."""
        return self.read(0, HEADER_BYTES)

    def read_status(self) -> Status:
        """Return the status that the file has now; a writer may have changed it since opening."""
        with self._lock:
            return read_page_of(self._fd(), self.path).status

    def check_length(self) -> None:
        """Raise TruncatedError if the file has been cut or has grown. Cost: one fstat."""
        with self._lock:
            check_length(os.fstat(self._fd()).st_size, self.path, self.header)

    def close(self) -> None:
        """Let go of the file; may be called again. Waits for the look-up of another thread."""
        with self._lock:
            super().close()
            self._own_fd.close()

    def __del__(self) -> None:
        """Close the file when the last look-up has let go of it."""
        if self._own_fd.is_open:
            self.close()

    def settle_in_child(self) -> None:
        """Go on in a forked child: another thread of the parent may have held the lock."""
        self._lock = threading.RLock()
        self._depth = 0

    def _empty(self, window: mmap.mmap) -> None:
        runs, self._loaded_runs = self._loaded_runs, []
        for start, end in runs:
            lead = start % mmap.PAGESIZE
            if not window.closed:
                window.madvise(mmap.MADV_DONTNEED, start - lead, lead + end - start)

    def _fd(self) -> int:
        if not self._own_fd.is_open:
            message = f"{self.path}: closed before this call; open it again"
            raise ClosedError(message)
        return self._own_fd

    def _runs(self, page_numbers: Iterable[int]) -> Iterator[tuple[int, int]]:
        """Yield (start, end) in bytes of the file, neighbouring pages as one."""
        for first, count in runs_of(page_numbers):
            start = self.header.payload_offset + PAGE_BYTES * first
            # The last page may be shorter; what follows it is the checksum table.
            yield start, min(start + PAGE_BYTES * count, self.header.checksums_offset)
