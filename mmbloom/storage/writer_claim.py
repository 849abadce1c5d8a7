"""The sole right to write one file: taken whole or not at all, and lost by nobody's mistake.

Puts the two locks of ``locks`` and the descriptor to write to together, for ``writable``.
"""

from __future__ import annotations

import errno
import os
import weakref
from typing import TYPE_CHECKING, Self

from mmbloom.errors import LockHeldError, ReadOnlyError
from mmbloom.storage.locks import WriterLock, try_flock
from mmbloom.storage.mapped import read_page_of
from mmbloom.storage.paths import open_regular

if TYPE_CHECKING:
    from mmbloom.format.header import HeaderPage
    from mmbloom.storage.descriptors import Descriptor

_SEALED = "sealed, and a sealed file never changes: open it with mmbloom.open(), or build a new one"
_REPLACED = (
    "another file has this path now, or none. What was added since is lost with the old file: "
    "open the new one and add it again"
)
_NUM_OPENS = 3  # a file that is replaced between open and lock is opened again


class Claim:
    """The right to write the file at *path* through the descriptor *fd*, until release().

    Guarantee: one claim per file on this host, by whatever name, link or process, and by whatever
    handle of one process. It ends with the process at the latest. A forked child never has it:
    there the descriptor is closed, and check_own() raises.
    """

    def __init__(self, path: str, lock: WriterLock, fd: Descriptor) -> None:
        """Hold what take() has locked and opened."""
        self.path, self.fd = path, fd
        self._lock, self._pid = lock, os.getpid()
        _HELD.add(self)

    @classmethod
    def take(cls, path: str) -> tuple[Self, HeaderPage]:
        """Lock and open the file at *path*, a real path; return the claim and the header page.

        Raises:
            LockHeldError: somebody has it. No waiting.
            ReadOnlyError: the file is SEALED.
            OSError, FormatError: as for reading.
        """
        # Look first: a path that nobody can write gets no lock file beside it.
        _open(path)[0].close()
        lock = WriterLock(path)
        lock.acquire()
        try:
            fd, page = _open(path, lock)
        except BaseException:
            lock.release()
            raise
        return cls(path, lock, fd), page

    @property
    def is_own(self) -> bool:
        """False in a forked child of the process that took the claim."""
        return os.getpid() == self._pid

    def check_own(self) -> None:
        """Raise ReadOnlyError in a forked child."""
        if not self.is_own:
            message = (
                f"{self.path}: opened for writing by process {self._pid}, of which this is a fork: "
                "its copy misses what the parent adds. Open the file again in the child"
            )
            raise ReadOnlyError(message)

    def check_in_place(self) -> None:
        """Raise OSError (ESTALE) if the path leads to another file: nobody would see ours."""
        try:
            in_place = os.path.samestat(os.fstat(self.fd), os.stat(self.path))
        except FileNotFoundError:
            in_place = False
        if not in_place:
            raise replaced(self.path)

    def release(self) -> None:
        """Close and unlock."""
        self.fd.close()  # with it goes the lock on the file itself
        self._lock.release()
        _HELD.discard(self)

    def let_go(self) -> None:
        """Close in a forked child, without unlocking: the lock is its parent's."""
        self.fd.close()


def refuse_sealed(path: str) -> ReadOnlyError:
    """Return the error for a change to a sealed file."""
    return ReadOnlyError(f"{path}: {_SEALED}")


def replaced(path: str) -> OSError:
    """Return the error for a claimed file that has lost its path."""
    return OSError(errno.ESTALE, _REPLACED, path)


def _open(path: str, lock: WriterLock | None = None) -> tuple[Descriptor, HeaderPage]:
    """Open for writing and read the header; with *lock*, lock the file itself before reading."""
    for _ in range(_NUM_OPENS):
        fd, found = open_regular(path, os.O_RDWR)
        try:
            _lock_file(fd, path, lock)
            if os.path.samestat(found, os.stat(path)):
                page = read_page_of(fd, path)
                _check_writable(page, path)
                return fd, page
        except BaseException:
            fd.close()
            raise
        fd.close()
    raise replaced(path)


def _lock_file(fd: int, path: str, lock: WriterLock | None) -> None:
    if lock is not None and not try_flock(fd):
        raise LockHeldError(path, lock.lock_path)


def _check_writable(page: HeaderPage, path: str) -> None:
    if page.status.is_sealed:
        raise refuse_sealed(path)


def _let_go_in_child() -> None:
    # Else the lock on the file would last as long as any child, however the parent ends.
    for claim in list(_HELD):
        claim.let_go()


_HELD: weakref.WeakSet[Claim] = weakref.WeakSet()
os.register_at_fork(after_in_child=_let_go_in_child)
