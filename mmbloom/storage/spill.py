"""Spill files: what a build cannot hold in memory, written once and read back.

Where Linux allows it, the file has no name (see ``temporary``), so a kill leaves nothing behind.
A checkpointed build keeps its file under a name of its own instead.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Self

from mmbloom.errors import SpillError
from mmbloom.storage.closing import Closing
from mmbloom.storage.descriptors import NO_DESCRIPTOR, Descriptor
from mmbloom.storage.paths import FilePath, path_text
from mmbloom.storage.space import raise_disk_error, write_all
from mmbloom.storage.temporary import open_temporary

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer

_NO_FALLOCATE = frozenset({errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS})
_OWNER_ONLY = 0o600  # others must not read the hashes of keys


class SpillFile(Closing):
    """A file that grows by whole stretches, each reserved before it is written.

    Guarantee: reserve() finds a full disk before anything is written; what is read is what was
        written, as far as the disk is honest (the builder has checksums).
    Limits: one process. Threads may write and read different stretches at the same time.

    Attributes:
        where: the folder or the path, for messages.
        num_bytes: what has been reserved.
    """

    def __init__(self, where: str, fd: Descriptor, num_bytes: int) -> None:
        """Take over a descriptor."""
        self.where, self.num_bytes, self._fd = where, num_bytes, fd

    @classmethod
    def unnamed(cls, folder: FilePath) -> Self:
        """Make a file in *folder* that is gone when it is closed, or when the process dies.

        Raises:
            OSError: the folder does not exist, or cannot be written.
        """
        where = path_text(folder) or "."
        with Descriptor.of_folder(where) as folder_fd:
            try:
                temporary = open_temporary(folder_fd, "mmbloom-spill")
                if temporary.name:  # a system without unnamed files: now the name, later the file
                    os.unlink(temporary.name, dir_fd=folder_fd)
            except OSError as exc:
                exc.filename = where
                raise
        return cls(where, temporary.fd, 0)

    @classmethod
    def named(cls, path: str, num_bytes: int) -> Self:
        """Open the file at *path*, or make it; keep its first *num_bytes* and drop the rest."""
        fd = Descriptor.opened(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, _OWNER_ONLY)
        try:
            found = os.fstat(fd).st_size
            os.ftruncate(fd, min(found, num_bytes))
        except OSError as exc:
            fd.close()
            exc.filename = path
            raise
        if found < num_bytes:
            fd.close()
            raise SpillError(path, f"it has {found} bytes, {num_bytes} at the last checkpoint")
        return cls(path, fd, num_bytes)

    def free_bytes(self) -> int:
        """Return how much the file system has left."""
        disk = os.fstatvfs(self._fd)
        return disk.f_bavail * disk.f_frsize

    def reserve(self, num_bytes: int) -> int:
        """Make the file longer by *num_bytes*; return where they begin.

        Raises:
            NoSpaceError: they do not fit; the file is as it was.
        """
        start = self.num_bytes
        try:
            os.posix_fallocate(self._fd, start, num_bytes)
        except OSError as exc:
            if exc.errno not in _NO_FALLOCATE:  # there, writing will tell
                os.ftruncate(self._fd, start)
                raise_disk_error(exc, self._fd, self.where, num_bytes)
        self.num_bytes += num_bytes
        return start

    def write(self, offset: int, buffer: ReadableBuffer) -> None:
        """Write within what is reserved. Raises: NoSpaceError, OSError."""
        write_all(self._fd, self.where, offset, buffer)

    def read(self, offset: int, buffer: WriteableBuffer) -> None:
        """Fill *buffer*. Raises: SpillError if the file has become shorter, OSError."""
        view = memoryview(buffer).cast("B")
        while len(view):
            try:
                done = os.preadv(self._fd, [view], offset)
            except OSError as exc:
                exc.filename = self.where
                raise
            if not done:
                raise SpillError(self.where, "it was cut short while the build ran")
            offset, view = offset + done, view[done:]

    def sync(self) -> None:
        """Put everything on disk."""
        try:
            os.fsync(self._fd)
        except OSError as exc:
            raise_disk_error(exc, self._fd, self.where, self.num_bytes)

    def close(self) -> None:
        """Give the space back, unless the file has a name."""
        fd, self._fd = self._fd, NO_DESCRIPTOR
        fd.close()
