"""Filter files for reading: opened O_RDONLY, checked, mapped; never changed, not even a time stamp.

Called by every kind of reader. What the header page means, and every reason to refuse it, is in
``mmbloom.format``.
"""

from __future__ import annotations

import errno
import mmap
import os
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, ClassVar, NoReturn, Self

from mmbloom.errors import ClosedError, FormatError, TruncatedError
from mmbloom.format.fields import HEADER, HEADER_BYTES, MAGIC, SLOT_BYTES, SLOT_OFFSETS
from mmbloom.format.header import Header, HeaderPage
from mmbloom.storage.advice import (
    PAGE_BYTES,
    Advice,
    advise,
    check_advice,
    fault_in,
    runs_of,
    start_reading,
)
from mmbloom.storage.digests import check_digest, digest_of
from mmbloom.storage.guard import GuardedMap, map_to_read
from mmbloom.storage.paths import FilePath, open_regular, path_text
from mmbloom.storage.storage import Mode, Stamp, Storage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from mmbloom.engine import Guard
    from mmbloom.format.status import Status

_SLOTS_END = SLOT_OFFSETS[-1] + SLOT_BYTES
# A writer that writes both slots while one page is read makes both look torn, for microseconds.
_NUM_READS = 5
_READ_PAUSE_SECONDS = 0.001
# A smaller file is not worth the question whether it is cold (~10 us).
_SMALLEST_COLD_BYTES = 16 << 20


class MappedFile(Storage):
    """One filter file, mapped read-only.

    Guarantee: when it was opened, the header was sound and the file as long as it says. The map is
    of that file, even if another file gets its path.
    Cost: one page is read and one descriptor stays open, whatever the size of the file.
    Sharing: any number of processes and threads; a forked child may go on using it.
    Limits: if somebody cuts the file short while it is mapped, the process that touches the missing
    part is killed (SIGBUS), unless it has called install_sigbus_guard(). So replace a file by
    rename, as NewFile does, never in place. check_length() finds a cut before a touch does.
    LoadedFile and PreadFile are for files that may be cut.

    Attributes: path; header; status and status_recovered, as on opening; stamp, as on opening.
    """

    mode: ClassVar[Mode] = "map"

    def __init__(self, path: str, page: HeaderPage, file_map: mmap.mmap, stamp: Stamp) -> None:
        """Hold what open() has checked and mapped."""
        self.path: str = path
        self.header, self._status = page.header, page.status
        self.status_recovered = page.status_recovered
        self.stamp = stamp
        self._map: mmap.mmap | None = file_map
        self._view = memoryview(file_map)

    @classmethod
    def open(
        cls,
        path: FilePath,
        advice: Advice = "random",
        *,
        expected_digest: str | None = None,
        follow_links: bool = True,
    ) -> Self:
        """Open the file at *path*; nothing stays open when this raises.

        Args:
            path: any path type; the file needs no permission but to be read.
            advice: see advise().
            expected_digest: what digest_of() must give: the whole file is read and compared.
            follow_links: False refuses a path whose last part is a symbolic link.

        Raises:
            OSError: FileNotFoundError, PermissionError, IsADirectoryError and the like.
            FormatError: no filter file, or one that cannot be trusted; TruncatedError and
                VersionError and ChecksumError are kinds of it.
        """
        text = path_text(path)
        check_advice(advice)
        fd, found = open_regular(text, os.O_RDONLY | (0 if follow_links else os.O_NOFOLLOW))
        with fd:  # what holds the file has its own
            page = read_page_of(fd, text)
            opened = cls._hold(fd, text, page, stamp_of(found), expected_digest)
        try:
            opened.advise(advice)
        except BaseException:
            opened.close()
            raise
        return opened

    @classmethod
    def _hold(
        cls, fd: int, path: str, page: HeaderPage, stamp: Stamp, expected_digest: str | None
    ) -> Self:
        """Take hold of the file behind *fd*, whose header has been checked."""
        if expected_digest is not None:
            check_digest(digest_of(fd, path), expected_digest, path)
        file_map = map_file(fd, path, page.header, mmap.MAP_SHARED, mmap.PROT_READ, map_to_read)
        return cls(path, page, file_map, stamp)

    @property
    def status(self) -> Status:
        """The status, as on opening."""
        return self._status

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
        with self._faults_named(file_map):
            advise(file_map, check_advice(advice))

    def pager(self) -> Callable[[int, int], None]:
        """Return a function that brings *num_bytes* of the payload from *start* on into the map.

        To be called as ``page_in(start, num_bytes)`` just before the bytes are read. Where a touch
        would be a SIGBUS it raises, if the kernel can tell (Linux 5.14): TruncatedError where the
        file was cut, OSError (EIO) where the disk cannot read it. It still works after close(), as
        long as a view of the payload is held. Cost: that of the page faults.
        """
        file_map, first = self._open_map(), self.header.payload_offset

        def page_in(start: int, num_bytes: int) -> None:
            with self._faults_named(file_map):
                fault_in(file_map, first + start, num_bytes)

        return page_in

    def is_cold(self) -> bool:
        """Return whether some of the payload is on disk only, and worth reading ahead."""
        if self.header.payload_bytes < _SMALLEST_COLD_BYTES:
            return False
        from mmbloom.storage.residency import is_cold  # needs ctypes, which takes long to load

        return is_cold(self)

    @contextmanager
    def loaded(self, page_numbers: Iterable[int]) -> Iterator[None]:
        """Have these pages of the payload, ascending, in memory during the block.

        The disk reads many pages at a time. Waits as a touch would, but for an error in place of a
        signal: raises as what pager() returns.
        """
        numbers = list(page_numbers)
        self.start_reading(numbers)
        page_in = self.pager()
        for start, count in runs_of(numbers):
            page_in(PAGE_BYTES * start, PAGE_BYTES * count)
        yield

    @property
    def guard(self) -> Guard | None:
        """What watches the map, if install_sigbus_guard() was called before the file was opened."""
        file_map = self._open_map()
        return file_map.guard if isinstance(file_map, GuardedMap) else None

    def report_cut(self) -> NoReturn:
        """Raise for a map in which something was missing: TruncatedError, or OSError (EIO)."""
        self.check_length()
        text = "could not be read: the disk failed, or the file was cut and has grown again"
        raise OSError(errno.EIO, text, self.path)

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
        self.pager()(start, len(out))
        first = self.header.payload_offset + start
        with self._view[first : first + len(out)] as part:
            out[:] = part
        self.check_length()  # the system fills the last page of a file that was cut with zeros
        lead = first % mmap.PAGESIZE
        file_map.madvise(mmap.MADV_DONTNEED, first - lead, lead + len(out))

    def read_status(self) -> Status:
        """Return the status that the file has now; a writer may have changed it since opening."""
        self.check_length()
        file_map = self._open_map()
        return read_page(lambda: (file_map[:HEADER_BYTES], file_map.size()), self.path).status

    def check_length(self) -> None:
        """Raise TruncatedError if the file has been cut or has grown. Cost: one fstat."""
        file_map = self._open_map()
        try:
            num_bytes = file_map.size()
        except (ValueError, OSError):  # another thread has closed the file just now
            self._open_map()
            raise
        self._open_map()  # if it has, the descriptor may be that of another file by now
        check_length(num_bytes, self.path, self.header)

    def close(self) -> None:
        """Let go of the file; may be called again.

        A view of the payload that somebody still holds keeps the map, and its descriptor, until it
        goes too: a map is never taken away under a running look-up.
        """
        file_map, self._map = self._map, None
        if file_map is not None:
            release(self._view, file_map)

    @contextmanager
    def _faults_named(self, file_map: mmap.mmap) -> Iterator[None]:
        """Say what an EFAULT means: where a touch would have been a SIGBUS."""
        try:
            yield
        except OSError as exc:
            if exc.errno != errno.EFAULT:
                exc.filename = self.path
                raise
            check_length(file_map.size(), self.path, self.header)
            raise OSError(errno.EIO, os.strerror(errno.EIO), self.path) from exc

    def _open_map(self) -> mmap.mmap:
        if self._map is None:
            message = f"{self.path}: closed before this call; open it again"
            raise ClosedError(message)
        return self._map

    def _open_view(self) -> memoryview:
        self._open_map()
        return self._view


def stamp_at(path: FilePath) -> Stamp:
    """Return the stamp of the file that has this path now. Cost: one stat."""
    return stamp_of(os.stat(path_text(path)))


def is_filter(path: FilePath, *, follow_links: bool = True) -> bool:
    """Tell whether the file at *path* starts as a filter file does, sound or not.

    Raises:
        FormatError: no regular file; without *follow_links* also a symbolic link. OSError.
    """
    fd, _ = open_regular(path_text(path), os.O_RDONLY | (0 if follow_links else os.O_NOFOLLOW))
    with fd:
        return os.pread(fd, len(MAGIC), 0) == MAGIC


def stamp_of(found: os.stat_result) -> Stamp:
    """Return the stamp of a file, from what stat() says of it."""
    return Stamp(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


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


def map_file(  # noqa: PLR0913, PLR0917 - a map has these parts
    fd: int,
    path: str,
    header: Header,
    flags: int,
    prot: int,
    make: Callable[..., mmap.mmap] | None = None,
) -> mmap.mmap:
    """Map the whole file, whose length the header has been checked against.

    *make* is called like mmap.mmap, in its place.
    """
    try:
        return (make or mmap.mmap)(fd, header.file_bytes, flags=flags, prot=prot)
    except OverflowError as exc:  # more than the addresses of a 32-bit process
        text = f"{header.file_bytes} bytes are more than this process can map: use a 64-bit Python"
        raise OSError(errno.EFBIG, text, path) from exc
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
    if isinstance(file_map, GuardedMap):
        return  # it goes with its last holder
    # BufferError: a payload is still held, perhaps by a running look-up. Unmapping would crash it.
    with suppress(BufferError):
        file_map.close()
