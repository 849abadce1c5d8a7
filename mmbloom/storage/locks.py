"""Locks between processes: the writer's lock beside a file, and the lock on a file itself.

``WriterLock`` is ``PATH.lock``, taken with ``filelock``, so that other programs can take it too. It
has two gaps: hard links of one file have different lock files, and a program that replaces a file
would have to leave a lock file beside everything it replaces. So a writer also holds ``flock`` on
the file itself. The kernel drops both when a process dies, however it dies.
"""

from __future__ import annotations

import errno
import fcntl
import os
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from mmbloom.errors import LockHeldError
from mmbloom.storage.descriptors import NO_DESCRIPTOR, Descriptor

if TYPE_CHECKING:
    from collections.abc import Iterator

    from filelock import BaseFileLock

LOCK_SUFFIX = ".lock"
# Some network and user-space file systems have no flock, or none for a read-only descriptor.
_NO_FLOCK = frozenset({errno.EBADF, errno.EINVAL, errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP})


class WriterLock:
    """The lock file ``PATH.lock``, held by at most one handle of one process.

    The lock file stays when the lock is released. Removing it would let a second writer lock the
    removed file while a third makes and locks a new one: two writers.
    """

    def __init__(self, path: str) -> None:
        """Hold nothing yet; *path* is that of the filter file."""
        # Here: filelock takes longer to import than all of mmbloom, and readers do not need it.
        from filelock import FileLock

        self.path = path
        self.lock_path = path + LOCK_SUFFIX
        # Not thread-local: another thread than the one that opened the filter may close it. Not a
        # singleton either, which is the default: two handles of a process would share the lock.
        self._lock: BaseFileLock = FileLock(self.lock_path, timeout=0, thread_local=False)
        self._pid = os.getpid()

    def acquire(self) -> None:
        """Take the lock, or raise LockHeldError at once."""
        from filelock import Timeout

        try:
            self._lock.acquire(timeout=0)
        except Timeout as exc:
            raise LockHeldError(self.path, self.lock_path) from exc

    def release(self) -> None:
        """Give the lock back. A forked child does nothing: it would unlock its parent's."""
        if os.getpid() == self._pid:
            self._lock.release(force=True)


def try_flock(fd: int) -> bool:
    """Lock the file behind *fd* until its last descriptor is closed. False: another holds it.

    True also where the file system has no such locks: then nobody can hold one.
    """
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as exc:
        if exc.errno not in _NO_FLOCK:
            raise
    return True


def unlock_and_close(fd: Descriptor, pid: int) -> None:
    """Give the lock of try_flock() back, and close. *pid* is that of the process that took it.

    Closing alone leaves the lock to the children that were forked meanwhile, by whatever thread,
    for as long as they live. A child closes only: it would unlock its parent's.
    """
    try:
        if fd.is_open and os.getpid() == pid:
            with suppress(OSError):  # where there are no such locks
                fcntl.flock(fd, fcntl.LOCK_UN)
    finally:
        fd.close()


@contextmanager
def writers_kept_out(path: str) -> Iterator[None]:
    """Let no writer open the file at *path*, if there is one, during the block.

    Raises:
        LockHeldError: a writer has it open now.
    """
    fd, pid = _lock_in_place(path), os.getpid()
    try:
        yield
    finally:
        unlock_and_close(fd, pid)


@contextmanager
def folder_locked(folder: str) -> Iterator[None]:
    """Wait until nobody else is in such a block for *folder*, and keep others out meanwhile.

    By flock on the folder itself, which leaves no file. Where there is no such lock nobody waits.
    """
    fd, pid = Descriptor.of_folder(folder), os.getpid()
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
        except OSError as exc:
            if exc.errno not in _NO_FLOCK:
                raise
        yield
    finally:
        unlock_and_close(fd, pid)


def _lock_in_place(path: str) -> Descriptor:
    """Return a locked descriptor of the file at *path*; NO_DESCRIPTOR where nothing is to lock.

    The file may be replaced between opening and locking; then a writer can open the new one.
    """
    while (fd := _open_to_lock(path)) >= 0:
        keeps = False
        try:
            keeps = _lock(fd, path)
        finally:
            if not keeps:
                fd.close()
        if keeps:
            break
    return fd


def _lock(fd: int, path: str) -> bool:
    """Lock the file behind *fd*; return whether *path* still leads to it."""
    if not try_flock(fd):
        raise LockHeldError(path, path + LOCK_SUFFIX)
    try:
        return os.path.samestat(os.fstat(fd), os.lstat(path))
    except FileNotFoundError:
        return False


def _open_to_lock(path: str) -> Descriptor:
    """Return a descriptor of the file at *path*; NO_DESCRIPTOR where nothing is to lock."""
    try:
        return Descriptor.opened(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except (FileNotFoundError, PermissionError):  # no file, or one that only its owner may open
        return NO_DESCRIPTOR
    except OSError as exc:
        if exc.errno != errno.ELOOP:
            raise
        return NO_DESCRIPTOR  # a symbolic link: the file keeps its name, its writer loses nothing
