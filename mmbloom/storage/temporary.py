"""Files that nobody sees yet: made in the folder of their target, then given its name in one step.

Where Linux can, the file has no name at all until it is complete (O_TMPFILE), so a killed builder
leaves nothing. Where it cannot, the name is ``.TARGET.PID.RANDOM.tmp``, and the next builder of
TARGET removes what a dead one left. All names are relative to a descriptor of the folder, so that a
renamed folder does no harm. Until it is published only its owner may open it.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from contextlib import suppress
from typing import NamedTuple

from mmbloom.storage.descriptors import Descriptor
from mmbloom.storage.locks import try_flock

_NEW_FLAGS = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
# EOPNOTSUPP: the file system has no unnamed files. EISDIR, ENOENT: the kernel is older than they
# are. EINVAL: the same from some user-space file systems.
_NO_TMPFILE = frozenset({errno.EOPNOTSUPP, errno.EISDIR, errno.ENOENT, errno.EINVAL})
# What link() says on a file system without hard links (FAT, some shared folders).
_NO_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL})
_PUBLIC_MODE = 0o666  # the umask, or the folder's default ACL, takes its part
_PRIVATE_MODE = 0o600
_MAX_STEM_BYTES = 200  # of the 255 of a file name; the rest is for the PID and the random part
_RENAME_NOREPLACE = 1  # linux/fs.h


class Temporary(NamedTuple):
    """A file in the making.

    Attributes: fd; name in the folder, empty while it has none; mode that it will be published
    with.
    """

    fd: Descriptor
    name: str
    mode: int = 0


def open_temporary(folder_fd: int, target: str) -> Temporary:
    """Make an empty file that will become *target*, open for both, with mode 0600."""
    try:
        fd = Descriptor.opened(".", os.O_TMPFILE | os.O_RDWR, _PUBLIC_MODE, dir_fd=folder_fd)
    except OSError as exc:
        if exc.errno not in _NO_TMPFILE:
            raise
    else:
        if os.path.lexists(_proc_path(fd)):
            mode = _mode_of(fd)
            os.fchmod(fd, _PRIVATE_MODE)  # nobody else could open a file without a name so far
            return Temporary(fd, "", mode)
        fd.close()  # without /proc it could never get a name
    remove_stale(folder_fd, target)
    return _open_named(folder_fd, target)


def make_public(temporary: Temporary) -> None:
    """Give a complete file the mode 0666 & ~umask, and put that on disk."""
    os.fchmod(temporary.fd, temporary.mode)
    os.fsync(temporary.fd)


def publish_new(folder_fd: int, temporary: Temporary, target: str) -> None:
    """Give the file the name *target*, or raise FileExistsError and change nothing."""
    if not temporary.name:
        _link_unnamed(folder_fd, temporary.fd, target)
        return
    try:
        os.link(temporary.name, target, src_dir_fd=folder_fd, dst_dir_fd=folder_fd)
    except OSError as exc:
        if exc.errno not in _NO_LINKS:
            raise
        _rename_new(folder_fd, temporary.name, target)
    else:
        os.unlink(temporary.name, dir_fd=folder_fd)


def publish_over(folder_fd: int, temporary: Temporary, target: str) -> None:
    """Give the file the name *target* in one step; the file that had it keeps its readers."""
    name = temporary.name
    if not name:  # no call links over an existing name, so it needs one of its own for a moment
        name = temporary_name(target)
        try_flock(temporary.fd)  # before it has a name: see remove_stale
        _link_unnamed(folder_fd, temporary.fd, name)
    try:
        os.replace(name, target, src_dir_fd=folder_fd, dst_dir_fd=folder_fd)
    except BaseException:
        os.unlink(name, dir_fd=folder_fd)
        raise


def remove_stale(folder_fd: int, target: str) -> None:
    """Remove what killed builders of *target* left in the folder.

    A leftover is removed when no process here has its PID and nobody holds its lock. The lock is
    for builders in other containers, whose PIDs mean nothing here.
    """
    ours = re.compile(re.escape(_stem(target)) + r"\.(\d+)\.[0-9a-f]{16}\.tmp")
    for name in os.listdir(folder_fd):
        match = ours.fullmatch(name)
        if match and not _is_alive(int(match[1])):
            _remove_unlocked(folder_fd, name)


def _open_named(folder_fd: int, target: str) -> Temporary:
    mode = _mode_of_new_files(folder_fd, target)
    while True:
        name = temporary_name(target)
        fd = Descriptor.opened(name, _NEW_FLAGS, _PRIVATE_MODE, dir_fd=folder_fd)
        # Until it is locked, a builder in another container may take it for a leftover and remove
        # it: then make another one.
        if try_flock(fd) and os.fstat(fd).st_nlink:
            return Temporary(fd, name, mode)
        fd.close()


def _mode_of_new_files(folder_fd: int, target: str) -> int:
    """Return the mode that the system gives a new file here.

    From an empty file that goes at once: who opened the real one while its mode was public could
    read all that is written later, and asking for the umask sets it for all threads.
    """
    name = temporary_name(target)
    try:
        with Descriptor.opened(name, _NEW_FLAGS, _PUBLIC_MODE, dir_fd=folder_fd) as fd:
            return _mode_of(fd)
    finally:
        with suppress(FileNotFoundError):  # another container took it for a leftover
            os.unlink(name, dir_fd=folder_fd)


def _mode_of(fd: int) -> int:
    return stat.S_IMODE(os.fstat(fd).st_mode)


def _link_unnamed(folder_fd: int, fd: int, name: str) -> None:
    # dst_dir_fd makes Python call linkat() with AT_SYMLINK_FOLLOW, which reaches through /proc to
    # the file itself; plain link() would try to link the symbolic link in /proc.
    os.link(_proc_path(fd), name, dst_dir_fd=folder_fd, follow_symlinks=True)


def _rename_new(folder_fd: int, name: str, target: str) -> None:
    """Rename without replacing, for file systems without hard links. Python has no call for it."""
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    old, new = os.fsencode(name), os.fsencode(target)
    if libc.renameat2(folder_fd, old, folder_fd, new, _RENAME_NOREPLACE):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), target)


def _remove_unlocked(folder_fd: int, name: str) -> None:
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
    # FileNotFoundError: another builder was faster. PermissionError: somebody else's, so it stays.
    with (
        suppress(FileNotFoundError, PermissionError),
        Descriptor.opened(name, flags, dir_fd=folder_fd) as fd,
    ):
        if try_flock(fd):
            os.unlink(name, dir_fd=folder_fd)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)  # sends nothing
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass  # it exists, and is somebody else's
    return True


def temporary_name(target: str) -> str:
    """Return a new name for a file that will become *target*; remove_stale() knows it."""
    return f"{_stem(target)}.{os.getpid()}.{os.urandom(8).hex()}.tmp"


def _stem(target: str) -> str:
    return "." + os.fsdecode(os.fsencode(target)[:_MAX_STEM_BYTES])


def _proc_path(fd: int) -> str:
    return f"/proc/self/fd/{fd}"
