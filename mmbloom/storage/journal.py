"""A folder in which a long job keeps what it has done, so that a later process can go on.

Files in it are replaced whole, and on disk when the call returns. One process holds the folder at a
time; the lock goes with the process. Knows nothing of what is stored.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from typing import TYPE_CHECKING

from mmbloom.errors import LockHeldError
from mmbloom.storage.closing import Closing
from mmbloom.storage.descriptors import NO_DESCRIPTOR, Descriptor
from mmbloom.storage.locks import try_flock, unlock_and_close
from mmbloom.storage.publish import sync_folder
from mmbloom.storage.space import raise_disk_error, write_all

if TYPE_CHECKING:
    from collections.abc import Iterable

_OWNER_ONLY = 0o700
_FILE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
_FILE_OWNER_ONLY = 0o600
_UNFINISHED = ".tmp"


class Journal(Closing):
    """The folder at *path*, made if it is not there and locked; use it in a ``with`` block.

    remove() takes it away; else it stays, for the next process.
    """

    def __init__(self, path: str) -> None:
        """Make the folder, or take the one that is there.

        Raises:
            LockHeldError: another process is at work in it. OSError: it cannot be made.
        """
        self.path = path
        self._fd, self._pid = NO_DESCRIPTOR, os.getpid()
        while self._fd < 0:
            with suppress(FileExistsError):
                os.mkdir(path, _OWNER_ONLY)
            # Else a power loss may take the folder with all that is synced in it. Also for a folder
            # that was there: its maker may have been killed before this.
            _sync_folder_of(path)
            fd = Descriptor.of_folder(path, os.O_NOFOLLOW)
            if not try_flock(fd):
                fd.close()
                raise LockHeldError(path, path)
            if _is_at(fd, path):
                self._fd = fd
            else:  # who had it before has removed it meanwhile: make another
                fd.close()

    def file(self, name: str) -> str:
        """Return the path of a file in the folder."""
        return os.path.join(self.path, name)

    def save(self, name: str, data: bytes) -> None:
        """Replace the file *name*, in one step.

        Raises:
            NoSpaceError, OSError: the old one is still there.
        """
        temporary = self.file(name + _UNFINISHED)
        with Descriptor.opened(temporary, _FILE_FLAGS, _FILE_OWNER_ONLY) as fd:
            write_all(fd, temporary, 0, data)
            try:
                os.fsync(fd)
            except OSError as exc:  # network file systems notice a full disk here
                raise_disk_error(exc, fd, temporary, len(data))
        os.replace(temporary, self.file(name))
        os.fsync(self._fd)

    def load(self, name: str) -> bytes | None:
        """Return what was saved under *name*, None if nothing was."""
        try:
            with open(self.file(name), "rb") as file:
                return file.read()
        except FileNotFoundError:
            return None

    def remove(self, names: Iterable[str]) -> None:
        """Remove the files *names*, in this order, then the folder if nothing else is in it."""
        for name in names:
            for each in (name, name + _UNFINISHED):
                with suppress(FileNotFoundError):
                    os.unlink(each, dir_fd=self._fd)
        try:
            os.rmdir(self.path)
        except OSError as exc:
            if exc.errno not in {errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT}:
                raise

    def names(self) -> list[str]:
        """Return the names of the files that are there."""
        return sorted(os.listdir(self._fd))

    def close(self) -> None:
        """Let go of the folder."""
        unlock_and_close(self._fd, self._pid)


def _sync_folder_of(path: str) -> None:
    """Put the name of *path* on disk."""
    with Descriptor.of_folder(os.path.dirname(path)) as fd:
        sync_folder(fd)


def _is_at(fd: int, path: str) -> bool:
    """Tell whether *path* still names the folder that is open."""
    try:
        return os.path.samestat(os.fstat(fd), os.stat(path, follow_symlinks=False))
    except FileNotFoundError:
        return False
