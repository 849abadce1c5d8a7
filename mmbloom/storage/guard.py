"""Maps of files that somebody may cut short: an error instead of SIGBUS, for programs that ask.

A touch behind the end of a file kills a process. The engine can take the signal over; that is a
thing of the whole process, so only install_sigbus_guard() does it. ``mapped`` makes its maps here.
"""

from __future__ import annotations

import mmap

from mmbloom.engine import Guard, guard_is_installed, install_guard
from mmbloom.storage.descriptors import NO_DESCRIPTOR, Descriptor


def install_sigbus_guard() -> None:
    """Make files that are opened for reading from now on safe against being cut short.

    For a file that is cut, or that the disk cannot read, every call then raises TruncatedError or
    OSError, where without this the process would be killed by SIGBUS, or would take the zero bytes
    at the end of the last page for an answer. Batches and verify() look at the length of a file in
    any case; this is for what happens between two looks, and for single look-ups.

    Takes the process's handler of SIGBUS, once, and keeps it. A SIGBUS anywhere else, in another
    map or another library, goes to the handler that was there before, or kills as ever. So call it
    at the start, after faulthandler.enable() and whatever else sets handlers; one that is set later
    takes its place. A forked child inherits it, a spawned one needs its own call. Files that are
    open already, and writers, are not guarded.

    Raises:
        ParameterError: this is the plain Python engine; the guard is part of the kernel.
        OSError: the system refused the handler.

    Cost: an open file needs one descriptor more; each "definitely not" of a single look-up asks the
    system for the length of the file (0.2 to 0.7 us), each batch once.
    """
    install_guard()


class GuardedMap(mmap.mmap):
    """A map of a file that the engine watches, until nobody holds it any more.

    Never closed by hand: the last one that lets go of it ends the watch, then the map, in this
    order. The other way round, the engine might take another map at the same place for it.
    """

    guard: Guard | None = None
    _fd = NO_DESCRIPTOR

    @classmethod
    def of(cls, fd: int, num_bytes: int, *, flags: int, prot: int) -> GuardedMap:
        """Map *num_bytes* of the file behind *fd*, which the caller may close."""
        made = cls(fd, num_bytes, flags=flags, prot=prot)
        made._fd = Descriptor.copied(fd)  # the map's own descriptor is its secret
        made.guard = Guard(made, made._fd)
        return made

    def __del__(self) -> None:
        """End the watch; the map itself ends after this."""
        if self.guard is not None:
            self.guard.forget()
        self._fd.close()


def map_to_read(fd: int, num_bytes: int, *, flags: int, prot: int) -> mmap.mmap:
    """Map *num_bytes* of the file behind *fd*, with a guard if one is installed."""
    if guard_is_installed():
        return GuardedMap.of(fd, num_bytes, flags=flags, prot=prot)
    return mmap.mmap(fd, num_bytes, flags=flags, prot=prot)
