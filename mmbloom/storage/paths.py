"""The door for paths: any path type becomes a str once, and only regular files are opened.

Nothing here makes or changes a file.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import NoReturn

from mmbloom.errors import FormatError, ParameterError, ParameterTypeError
from mmbloom.storage.descriptors import Descriptor

FilePath = str | bytes | os.PathLike[str] | os.PathLike[bytes]

_FILE_TYPES = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a character device",
    stat.S_IFBLK: "a block device",
    stat.S_IFLNK: "a symbolic link",
}


def path_text(path: FilePath) -> str:
    """Return *path* as a str; undecodable bytes become surrogate escapes, as in all of Python.

    Raises:
        ParameterTypeError: not a path type. An int could be a descriptor, so it is refused.
        ParameterError: a NUL character, or a surrogate that is no escape: no file can have it.
    """
    try:
        text = os.fsdecode(path)
    except TypeError as exc:
        raise ParameterTypeError("path", "a str, bytes or os.PathLike", path) from exc
    if "\0" in text:
        raise ParameterError("path", "a path without NUL characters", path)
    try:
        os.fsencode(text)
    except UnicodeEncodeError as exc:
        raise ParameterError("path", "a path without lone surrogates", path) from exc
    return text


def open_regular(path: str, flags: int) -> tuple[Descriptor, os.stat_result]:
    """Open an existing regular file; return its descriptor, which the caller closes, and its fstat.

    Raises:
        OSError: FileNotFoundError, PermissionError, IsADirectoryError and the like.
        FormatError: *path* is a FIFO, a socket or a device; or, with O_NOFOLLOW, a symbolic link.
    """
    # O_NONBLOCK: opening a FIFO would wait for its other end, perhaps forever. Regular files
    # ignore it.
    try:
        fd = Descriptor.opened(path, flags | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError as exc:
        if exc.errno == errno.ENXIO:  # a socket, or a device without a driver
            _refuse_type(path, os.stat(path).st_mode)
        if exc.errno == errno.ELOOP and flags & os.O_NOFOLLOW:
            _refuse_type(path, stat.S_IFLNK)
        raise
    found = os.fstat(fd)
    if not stat.S_ISREG(found.st_mode):
        fd.close()
        _refuse_type(path, found.st_mode)
    return fd, found


def _refuse_type(path: str, mode: int) -> NoReturn:
    if stat.S_ISDIR(mode):
        text = "is a directory: give the path of a filter file"
        raise IsADirectoryError(errno.EISDIR, text, path)
    found = _FILE_TYPES.get(stat.S_IFMT(mode), "another kind of file")
    hint = "Give the path of a filter file; a filter is mapped, so it cannot be piped"
    raise FormatError(path, "file type", 0, "a regular file", found, hint)
