"""No guard against SIGBUS: Python cannot have one, as its handlers run after the faulting access.

The names are there so that both engines have the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmbloom.errors import ParameterError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer as Buffer


class Guard:
    """The record of a map; never made, as no guard can be installed."""

    def __init__(self, mapped: Buffer, fd: int) -> None:
        """Take what the kernel's takes."""
        del mapped, fd
        install_guard()

    def forget(self) -> None:
        """Stop watching."""

    def is_whole(self) -> bool:
        """Return whether nothing of the map was made up."""
        return True


def install_guard() -> None:
    """Refuse."""
    rule, hint = "'kernel': the guard is a part of it", "use it where a C compiler is at hand"
    raise ParameterError("MMBLOOM_ENGINE", rule, "python", hint)


def guard_is_installed() -> bool:
    """Return False."""
    return False
