"""Filter files for reading: opened O_RDONLY, checked, mapped; never changed, not even a time stamp.

Called by every kind of reader. What the header page means, and every reason to refuse it, is in
``mmbloom.format``.
"""

from __future__ import annotations

import errno
import mmap
import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Self

from mmbloom.errors import ClosedError, FormatError, TruncatedError
from mmbloom.files.advice import PAGE_BYTES, Advice, advise, check_advice, start_reading
from mmbloom.files.paths import FilePath, open_regular, path_text
from mmbloom.format.fields import HEADER, HEADER_BYTES, SLOT_BYTES, SLOT_OFFSETS
from mmbloom.format.header import Header, HeaderPage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import TracebackType

    from mmbloom.format.status import Status

_SLOTS_END = SLOT_OFFSETS[-1] + SLOT_BYTES
# A writer that writes both slots while one page is read makes both look torn, for microseconds.
_NUM_READS = 5
_READ_PAUSE_SECONDS = 0.001


class MappedFile:
    """One filter file, mapped read-only.

    Guarantee: when it was opened, the header was sound and the file as long as it says. The map is
    of that file for ever, even if another file gets its path.
    Cost: one page is read and one descriptor stays open, whatever the size of the file.
    Sharing: any number of processes and threads; a forked child may go on using it.
    Limits: if somebody cuts the file short while it is mapped, the process that touches the missing
    part is killed (SIGBUS); no library can prevent it. So replace a file by rename, as NewFile
    does, never in place. check_length() finds a cut before a touch does.

    Attributes: path; header; status and status_recovered, as on opening; identity, its (device,
    inode).
    """

    def __init__(
        self, path: str, page: HeaderPage, file_map: mmap.mmap, identity: tuple[int, int]
    ) -> None:
        """Hold what open() has checked and mapped."""
        self.path = path
        self.header, self.status = page.header, page.status
        self.status_recovered = page.status_recovered
        self.identity = identity
        self._map: mmap.mmap | None = file_map
        self._view = memoryview(file_map)

    @classmethod
    def open(cls, path: FilePath, advice: Advice = "random") -> Self:
        """Open the file at *path*; nothing stays open when this raises.

        Args:
            path: any path type; the file needs no permission but to be read.
            advice: see advise().

        Raises:
            OSError: FileNotFoundError, PermissionError, IsADirectoryError and the like.
            FormatError: no filter file, or one that cannot be trusted; TruncatedError and
                VersionError are kinds of it.
        """
        text = path_text(path)
        check_advice(advice)
        fd, found = open_regular(text, os.O_RDONLY)
        try:
            page = read_page_of(fd, text)
            file_map = map_file(fd, text, page.header, mmap.MAP_SHARED, mmap.PROT_READ)
        finally:
            os.close(fd)  # the map has its own
        mapped = cls(text, page, file_map, (found.st_dev, found.st_ino))
        try:
            mapped.advise(advice)
        except BaseException:
            mapped.close()
            raise
        return mapped

    @property
    def payload(self) -> memoryview:
        """The payload, read-only."""
        start = self.header.payload_offset
        return self._open_view()[start : start + self.header.payload_bytes]

    @property
    def checksums(self) -> memoryview:
        """The checksum table as bytes, read-only; all zero while the file is WRITABLE."""
        return self._open_view()[self.header.checksums_offset : self.header.file_bytes]

    def advise(self, advice: Advice) -> None:
        """Tell the kernel how the file will be read; the last advice counts.

        normal: one look-up in a cold file reads as much ahead as the device is set up to, often
            several MiB. Soon all of a small file is in memory; a file larger than memory thrashes.
        random: a look-up reads exactly the page it needs, and nothing else ever gets into memory.
        willneed: start reading all of it in the background; then as random.
        preload: read all of it now, in order and in huge pages; then as random.

        Raises:
            ParameterError: another word.
            TruncatedError: ``preload``, and the file has become shorter.
            OSError: EIO, ``preload``, and the disk could not read it.
        """
        file_map = self._open_map()
        try:
            advise(file_map, check_advice(advice))
        except OSError as exc:
            if exc.errno != errno.EFAULT:
                exc.filename = self.path
                raise
            # Where a touch would have been a SIGBUS: the file was cut, or the disk fails.
            self.check_length()
            raise OSError(errno.EIO, os.strerror(errno.EIO), self.path) from exc

    def start_reading(self, page_numbers: Iterable[int]) -> None:
        """Start reading these 4 KiB pages of the payload, and wait for none of them.

        For a batch against a cold file: the disk then answers many pages at a time. A page that is
        in memory already costs a system call (0.5 us) for nothing.
        """
        file_map = self._open_map()
        first = self.header.payload_offset
        start_reading(file_map, (first + PAGE_BYTES * number for number in page_numbers))

    def copy_payload(self, start: int, out: memoryview) -> None:
        """Copy the payload from byte *start* on into *out*, as much as it holds.

        For a sweep over a file of any size: what was copied stays in the page cache, but counts no
        longer as memory of this process. A look-up maps it again by itself.

        Raises:
            TruncatedError: the file has been cut since it was opened.
        """
        self.check_length()
        file_map = self._open_map()
        first = self.header.payload_offset + start
        with self._view[first : first + len(out)] as part:
            out[:] = part
        lead = first % mmap.PAGESIZE
        file_map.madvise(mmap.MADV_DONTNEED, first - lead, lead + len(out))

    def read_status(self) -> Status:
        """Return the status that the file has now; a writer may have changed it since opening."""
        self.check_length()
        file_map = self._open_map()
        return read_page(lambda: (file_map[:HEADER_BYTES], file_map.size()), self.path).status

    def check_length(self) -> None:
        """Raise TruncatedError if the file has been cut or has grown. Cost: one fstat."""
        check_length(self._open_map().size(), self.path, self.header)

    def close(self) -> None:
        """Let go of the file; may be called again.

        A view of the payload that somebody still holds keeps the map, and its descriptor, until it
        goes too: a map is never taken away under a running look-up.
        """
        file_map, self._map = self._map, None
        if file_map is not None:
            release(self._view, file_map)

    def __enter__(self) -> Self:
        """Return the file itself."""
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close it."""
        self.close()

    def _open_map(self) -> mmap.mmap:
        if self._map is None:
            message = f"{self.path}: closed before this call; open it again"
            raise ClosedError(message)
        return self._map

    def _open_view(self) -> memoryview:
        self._open_map()
        return self._view


def identity_of(path: FilePath) -> tuple[int, int]:
    """Return the (device, inode) of the file that has this path now; see MappedFile.identity."""
    found = os.stat(path_text(path))
    return found.st_dev, found.st_ino


def read_page(read: Callable[[], tuple[bytes, int]], path: str) -> HeaderPage:
    """Read and check the header page; *read* returns its bytes and the size of the file.

    A writer may be writing a slot just now, so bad slots are read again before they are believed.
    """
    for _ in range(_NUM_READS - 1):
        try:
            page, file_bytes = read()
            return Header.unpack(page, path, file_bytes)
        except FormatError as exc:
            if not SLOT_OFFSETS[0] <= exc.offset < _SLOTS_END:
                raise
        time.sleep(_READ_PAUSE_SECONDS)
    page, file_bytes = read()
    return Header.unpack(page, path, file_bytes)


def read_page_of(fd: int, path: str) -> HeaderPage:
    """Read and check the header page of the file behind *fd*, as read_page()."""
    return read_page(lambda: (os.pread(fd, HEADER_BYTES, 0), os.fstat(fd).st_size), path)


def map_file(fd: int, path: str, header: Header, flags: int, prot: int) -> mmap.mmap:
    """Map the whole file, whose length the header has been checked against."""
    try:
        return mmap.mmap(fd, header.file_bytes, flags=flags, prot=prot)
    except ValueError:  # Python looked again, and it was shorter
        check_length(os.fstat(fd).st_size, path, header)
        raise
    except OSError as exc:
        exc.filename = path
        raise


def check_length(found_bytes: int, path: str, header: Header) -> None:
    """Raise TruncatedError unless the file is as long as its header says."""
    if found_bytes != header.file_bytes:
        offset = HEADER.offsets["file_bytes"]
        raise TruncatedError(path, "file_bytes", offset, header.file_bytes, found_bytes)


def release(view: memoryview, file_map: mmap.mmap) -> None:
    """Unmap, or leave that to the last of the views that others hold."""
    view.release()
    # BufferError: a payload is still held, perhaps by a running look-up. Unmapping would crash it.
    with suppress(BufferError):
        file_map.close()
