"""A folder in which a long job keeps what it has done, so that a later process can go on.

Files in it are replaced whole, and on disk when the call returns. One process holds the folder at a
time; the lock goes with the process. Knows nothing of what is stored.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Self

from mmbloom.errors import LockHeldError
from mmbloom.files.locks import try_flock

if TYPE_CHECKING:
    from types import TracebackType

_OWNER_ONLY = 0o700


class Journal:
    """The folder at *path*, made if it is not there and locked; use it in a ``with`` block.

    remove() takes it away; else it stays, for the next process.
    """

    def __init__(self, path: str) -> None:
        """Make the folder, or take the one that is there.

        Raises:
            LockHeldError: another process is at work in it. OSError: it cannot be made.
        """
        self.path = path
        with suppress(FileExistsError):
            os.mkdir(path, _OWNER_ONLY)
        self._fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        if not try_flock(self._fd):
            os.close(self._fd)
            raise LockHeldError(path, path)

    def file(self, name: str) -> str:
        """Return the path of a file in the folder."""
        return os.path.join(self.path, name)

    def save(self, name: str, data: bytes) -> None:
        """Replace the file *name*, in one step. Raises: OSError, the old one is still there."""
        temporary = self.file(name + ".tmp")
        try:
            with open(temporary, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, self.file(name))
        except OSError as exc:
            exc.filename = exc.filename or temporary
            raise
        os.fsync(self._fd)

    def load(self, name: str) -> bytes | None:
        """Return what was saved under *name*, None if nothing was."""
        try:
            with open(self.file(name), "rb") as file:
                return file.read()
        except FileNotFoundError:
            return None

    def remove(self) -> None:
        """Take the folder away, with all that is in it."""
        from shutil import rmtree  # which loads the modules of all archives

        rmtree(self.path)

    def __enter__(self) -> Self:
        """Return the journal; leaving the block lets go of it."""
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Let go of the folder."""
        os.close(self._fd)


def remove_stale_journal(path: str) -> None:
    """Take away the folder at *path* that a dead process left; one that is in use stays."""
    if not os.path.isdir(path):
        return
    try:
        with Journal(path) as journal:
            journal.remove()
    except LockHeldError:
        pass
    except OSError as exc:
        # Somebody else's, or a symbolic link: it stays.
        if exc.errno not in {errno.EACCES, errno.EPERM, errno.ELOOP, errno.ENOTDIR}:
            raise
