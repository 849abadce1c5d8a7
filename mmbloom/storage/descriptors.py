"""File descriptors that cannot be lost."""

from __future__ import annotations

import os
from functools import partial
from typing import Self


class Descriptor(int):
    """A file descriptor that is closed with its object, at the latest. Usable as the int it is.

    It is made in one call of C code, from the system call to the object. So an exception that a
    signal handler raises cannot come between the two, and leave open a descriptor that nobody
    knows: it would hold its lock until the process ends.
    """

    _is_closed = False

    @classmethod
    def opened(cls, path: str, flags: int, mode: int = 0o666, *, dir_fd: int | None = None) -> Self:
        """Call os.open()."""
        flags |= os.O_CLOEXEC
        return next(map(cls, map(partial(os.open, dir_fd=dir_fd), [path], [flags], [mode])))

    @classmethod
    def of_folder(cls, path: str, flags: int = 0) -> Self:
        """Open the folder at *path*, the current one if that is empty."""
        return cls.opened(path or ".", os.O_RDONLY | os.O_DIRECTORY | flags)

    @classmethod
    def copied(cls, fd: int) -> Self:
        """Call os.dup()."""
        return next(map(cls, map(os.dup, [fd])))

    @property
    def is_open(self) -> bool:
        """Whether there is something to close."""
        return self >= 0 and not self._is_closed

    def close(self) -> None:
        """Close it, unless that is done."""
        if self >= 0 and not self._is_closed:
            self._is_closed = True  # first: closed twice, it might be a file of somebody else
            os.close(self)

    def __enter__(self) -> Self:
        """Leave the block to close it."""
        return self

    def __exit__(self, *_exc: object) -> None:
        """Close it."""
        self.close()

    __del__ = close


NO_DESCRIPTOR = Descriptor(-1)
