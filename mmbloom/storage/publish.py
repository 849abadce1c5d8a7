"""New files: complete and on disk before anybody can see them.

Called by build, create and save. Knows nothing of what is in the file. ``temporary`` has the steps
of the trick.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING, Literal, Self

from mmbloom.errors import LockHeldError, ParameterError
from mmbloom.storage.descriptors import NO_DESCRIPTOR, Descriptor
from mmbloom.storage.locks import unlock_and_close, writers_kept_out
from mmbloom.storage.paths import FilePath, path_text
from mmbloom.storage.space import raise_disk_error, reserve, write_all
from mmbloom.storage.temporary import (
    Temporary,
    make_public,
    open_temporary,
    publish_new,
    publish_over,
    remove_stale,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from _typeshed import ReadableBuffer

IfExists = Literal["raise", "replace"]
Inode = tuple[int, int]  # device and number
_EXISTS = (
    "exists, and is never replaced unasked: open it, choose another path, or, when building or "
    "saving, pass if_exists='replace'"
)


class NewFile:
    """A file of a known length in the making; use it in a ``with`` block.

    Guarantee: if the process is killed at any moment, the path has either what it had before or
    the complete file. Leaving the block without publish() leaves nothing behind.
    Durability: after publish() the file and its name survive power loss.
    Secrecy: until publish() only the owner may open it; then its mode is 0666 without the umask.
    Sharing: of two that publish one new path, one wins and the other gets FileExistsError. With
    ``replace``, readers of the old file keep it, and a file that a writer has open is refused.
    Limits: ``replace`` replaces a symbolic link itself, not what it points to, and does not take
    over mode or owner.
    """

    def __init__(self, path: FilePath, file_bytes: int, if_exists: IfExists = "raise") -> None:
        """Describe the file; nothing is made before the block is entered.

        Args:
            path: where the file will appear; its folder must exist.
            file_bytes: the exact length, at least 1.
            if_exists: ``"raise"`` refuses a path that exists, a dangling symbolic link too;
                ``"replace"`` replaces a file.
        """
        if if_exists not in ("raise", "replace"):
            raise ParameterError("if_exists", "'raise' or 'replace'", if_exists)
        if file_bytes < 1:
            raise ParameterError("file_bytes", "at least 1", file_bytes)
        self.path = path_text(path)
        self.file_bytes = file_bytes
        self._replaces = if_exists == "replace"
        self._folder, self._name = os.path.split(self.path)
        self._folder_fd = NO_DESCRIPTOR
        self._temporary = Temporary(NO_DESCRIPTOR, "")
        self._pid = os.getpid()

    def __enter__(self) -> Self:
        """Make the file, with all its space, all zeros; refuse what would fail later.

        Raises:
            OSError: FileExistsError, IsADirectoryError, FileNotFoundError for a missing folder,
                PermissionError for one that cannot be written.
            NoSpaceError: the file does not fit.
            LockHeldError: ``replace``, and a writer has the old file open.
        """
        if not self.path:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self.path)
        self._folder_fd = self._open_folder()
        try:
            self._refuse_existing()
            if self._replaces:
                remove_stale(self._folder_fd, self._name)
                with writers_kept_out(self.path):
                    pass  # better now than after hours of building
            self._temporary = self._open_temporary()
            reserve(self._temporary.fd, self.path, self.file_bytes)
        except BaseException:
            self._discard()
            raise
        return self

    def __exit__(self, *exc_info: object) -> None:
        """Discard what has not been published."""
        self._discard()

    def write(self, offset: int, *buffers: ReadableBuffer) -> None:
        """Write *buffers*, contiguous bytes, one behind the other at *offset* of the file.

        Pieces of a few MiB in ascending order are best, for the disk and for later readers.
        """
        num_bytes = sum(memoryview(buffer).nbytes for buffer in buffers)
        if not 0 <= offset <= self.file_bytes - num_bytes:
            rule = f"{num_bytes} bytes within the {self.file_bytes} of the file"
            raise ParameterError("offset", rule, offset)
        write_all(self._temporary.fd, self.path, offset, *buffers)

    def inode(self) -> Inode:
        """Return which file this is, for withdraw()."""
        found = os.fstat(self._temporary.fd)
        return found.st_dev, found.st_ino

    def rename(self, name: str) -> None:
        """Choose another name in the same folder, before publish()."""
        self._name = name
        self.path = os.path.join(self._folder, name)

    def publish(self, finish: Callable[[], object] | None = None) -> None:
        """Put everything on disk, then make it visible under the path. Call it once, last.

        Args:
            finish: for ``replace``, called while no writer can open the old file: it may write what
                depends on that file, for instance the generation.

        Raises:
            FileExistsError: somebody else made the path meanwhile. Theirs stays, ours goes.
            LockHeldError: ``replace``, and a writer opened the old file meanwhile.
            OSError: the disk failed. Nothing was published, unless only the folder was not synced.
        """
        try:
            os.fsync(self._temporary.fd)
        except OSError as exc:  # network file systems notice a full disk here
            raise_disk_error(exc, self._temporary.fd, self.path, self.file_bytes)
        if self._replaces:
            self._refuse_existing()  # a directory may have taken the name since
            # A writer that opened the old file before the rename would add to a file without name.
            with writers_kept_out(self.path):
                if finish is not None:
                    finish()
                make_public(self._temporary)
                publish_over(self._folder_fd, self._temporary, self._name)
        else:
            make_public(self._temporary)
            try:
                publish_new(self._folder_fd, self._temporary, self._name)
            except FileExistsError as exc:
                raise FileExistsError(errno.EEXIST, _EXISTS, self.path) from exc
        self._temporary = self._temporary._replace(name="")
        sync_folder(self._folder_fd)

    def _open_folder(self) -> Descriptor:
        try:
            return Descriptor.of_folder(self._folder)
        except FileNotFoundError as exc:
            text = "the folder does not exist: make it first"
            raise FileNotFoundError(errno.ENOENT, text, self._folder) from exc

    def _refuse_existing(self) -> None:
        if self._name in {"", ".", ".."}:
            raise IsADirectoryError(errno.EISDIR, "names a folder: add a file name", self.path)
        try:
            mode = os.lstat(self._name, dir_fd=self._folder_fd).st_mode
        except FileNotFoundError:
            return
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, "is a directory: add a file name", self.path)
        if not self._replaces:
            raise FileExistsError(errno.EEXIST, _EXISTS, self.path)
        if not (stat.S_ISREG(mode) or stat.S_ISLNK(mode)):
            text = "is no regular file, so it is not replaced: choose another path"
            raise FileExistsError(errno.EEXIST, text, self.path)

    def _open_temporary(self) -> Temporary:
        try:
            return open_temporary(self._folder_fd, self._name)
        except OSError as exc:
            exc.filename = self._folder or "."  # it is the folder that is read-only or forbidden
            raise

    def _discard(self) -> None:
        """Let go of everything; what has not been published is gone with it."""
        temporary, self._temporary = self._temporary, Temporary(NO_DESCRIPTOR, "")
        folder_fd, self._folder_fd = self._folder_fd, NO_DESCRIPTOR
        # A forked child that leaves the block must not take its parent's file away.
        if temporary.name and os.getpid() == self._pid:
            with suppress(FileNotFoundError):
                os.unlink(temporary.name, dir_fd=folder_fd)
        unlock_and_close(temporary.fd, self._pid)
        folder_fd.close()


def withdraw(path: FilePath, inode: Inode) -> None:
    """Remove the file at *path* that was published just now, as it could not be used.

    Not if another file has the path by now, or somebody writes to it.
    """
    text = path_text(path)
    with suppress(OSError, LockHeldError), writers_kept_out(text):
        found = os.lstat(text)
        if (found.st_dev, found.st_ino) == inode:
            os.unlink(text)


def sync_folder(folder_fd: int) -> None:
    """Put the names of a folder on disk."""
    try:
        os.fsync(folder_fd)
    except OSError as exc:
        if exc.errno != errno.EINVAL:  # a file system that cannot sync folders: no more to be done
            raise
