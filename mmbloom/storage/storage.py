"""Where the bytes of an open filter lie: one protocol for maps, copies in memory, and reads.

What is here is true of bytes in the memory of this process. Files add what can happen to a file.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

from mmbloom.storage.closing import Closing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from contextlib import AbstractContextManager

    from mmbloom.engine import Guard
    from mmbloom.format.header import Header
    from mmbloom.format.status import Status
    from mmbloom.storage.advice import Advice

Mode = Literal["map", "ram", "pread"]


class Stamp(NamedTuple):
    """Which file a path leads to, and whether somebody has written to it since."""

    device: int
    inode: int
    file_bytes: int
    mtime_ns: int


class Storage(Closing):
    """The header, the status and the payload of one open filter.

    Attributes:
        mode: how the file of a reader is read; None for a writer and for a filter in memory.
        is_writable: whether the payload may be changed.
        names_pages: whether a look-up must name its pages to loaded() before it reads them.
        path: of the file, None without one.
        header: of the filter.
        stamp: of the file that a reader opened, as it was then; else None.
    """

    mode: ClassVar[Mode | None] = None
    is_writable: ClassVar[bool] = False
    names_pages: ClassVar[bool] = False
    path: str | None = None
    header: Header
    stamp: Stamp | None = None

    # Properties, for a writer changes both.

    @property
    def status(self) -> Status:
        """The status: that of a writer as it is now, else as it was on opening."""
        raise NotImplementedError

    @property
    def payload(self) -> memoryview:
        """The payload, writable if the filter is."""
        raise NotImplementedError

    @property
    def checksums(self) -> memoryview:
        """The checksum table of a file as bytes; all zero until it is sealed."""
        raise NotImplementedError

    @property
    def guard(self) -> Guard | None:
        """What watches the map, if install_sigbus_guard() was called before the file was opened."""
        return None

    def report_cut(self) -> None:
        """Raise for a map in which something was missing."""

    def whole(self) -> Storage:
        """Return a storage whose payload can be read from end to end: this one, or a copy."""
        return self

    def check_length(self) -> None:
        """Raise TruncatedError if the file has been cut or has grown."""

    def advise(self, advice: Advice) -> None:
        """Tell the kernel how the file will be read."""

    def pager(self) -> Callable[[int, int], None]:
        """Return a function that brings bytes of the payload into memory before they are read."""
        return lambda _start, _num_bytes: None

    def start_reading(self, page_numbers: Iterable[int]) -> None:
        """Start reading these 4 KiB pages of the payload, and wait for none of them."""

    def is_cold(self) -> bool:
        """Return whether some of the payload is on disk only, and worth reading ahead."""
        return False

    def loaded(self, page_numbers: Iterable[int]) -> AbstractContextManager[object]:  # noqa: ARG002
        """Have these pages of the payload, ascending, in memory during the block."""
        return nullcontext()

    def keep(self, page_numbers: Iterable[int]) -> None:
        """Have these pages in memory from now on."""

    def copy_payload(self, start: int, out: memoryview) -> None:
        """Copy the payload from byte *start* on into *out*, as much as it holds."""
        out[:] = self.payload[start : start + len(out)]

    def read_page(self) -> bytes:
        """Return the header page of a file as it is now."""
        raise NotImplementedError

    def read_status(self) -> Status:
        """Return the status that the file has now; a writer may have changed it since opening."""
        return self.status

    def settle_in_child(self) -> None:
        """Get ready to be used in a forked child."""
