"""What the kernel is told about a map: how to read ahead, and what to read now.

Works on any file map, shared or private; knows nothing of what is in it. ``mapped`` and
``writable`` call it.
"""

from __future__ import annotations

import errno
import mmap
from typing import TYPE_CHECKING, Literal

from mmbloom.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Advice = Literal["normal", "random", "willneed", "preload"]
ADVICES = ("normal", "random", "willneed", "preload")

PAGE_BYTES = 4096  # of the format; the system's page may be larger, never smaller
_MADV_POPULATE_READ = 22  # linux/mman.h, since Linux 5.14; Python's mmap does not name it
# A call holds the interpreter. In pieces, other threads and Ctrl-C get their turn every 20 ms, and
# it takes no longer.
_PRELOAD_PIECE_BYTES = 64 << 20
# MADV_WILLNEED reads no more than the read-ahead of the device in one call, without a word: 8 MiB
# of a 1.2 GB file on one machine. 128 KiB is the read-ahead that Linux sets by default.
_WILLNEED_PIECE_BYTES = 128 << 10


def check_advice(advice: Advice) -> Advice:
    """Return *advice* if it is one."""
    if advice not in ADVICES:
        raise ParameterError("advice", f"one of {', '.join(ADVICES)}", advice)
    return advice


def advise(file_map: mmap.mmap, advice: Advice) -> None:
    """Follow *advice* for the whole map; the last advice counts.

    normal: the kernel reads ahead as the device is set up, often several MiB for one look-up.
    random: a touch reads exactly the page that is touched.
    willneed: start reading all of it in the background; then as random.
    preload: read all of it now, in order, in huge pages where the file allows; then as random.

    Raises:
        OSError: EFAULT from ``preload`` where a touch would be a SIGBUS: the file is shorter than
            the map, or the disk cannot read it.
    """
    # Populating a map that is set to random reads page by page: 38 s for 1.2 GB, against 0.4 s, and
    # small pages that stay small. So normal comes first, whatever was set before.
    file_map.madvise(mmap.MADV_NORMAL)
    if advice == "preload":
        _populate(file_map)
    elif advice == "willneed":
        _start_reading_range(file_map, 0, len(file_map))
    if advice != "normal":
        file_map.madvise(mmap.MADV_RANDOM)


def start_reading(file_map: mmap.mmap, offsets: Iterable[int]) -> None:
    """Start reading the 4 KiB page at each of *offsets*, and wait for none of them."""
    for offset in offsets:
        lead = offset % mmap.PAGESIZE
        file_map.madvise(mmap.MADV_WILLNEED, offset - lead, lead + PAGE_BYTES)


def fault_in(file_map: mmap.mmap, start: int, num_bytes: int) -> None:
    """Wait until these bytes are in memory and mapped, so that reading them faults no more.

    Raises:
        OSError: EFAULT where a touch would be a SIGBUS. A kernel before 5.14 cannot tell.
    """
    lead = start % mmap.PAGESIZE
    if num_bytes > PAGE_BYTES:  # a map that is set to random would be read page by page
        _start_reading_range(file_map, start - lead, lead + num_bytes)
    try:
        file_map.madvise(_MADV_POPULATE_READ, start - lead, lead + num_bytes)
    except OSError as exc:
        if exc.errno != errno.EINVAL:
            raise


def runs_of(numbers: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Yield (first, count) of the runs without a gap in ascending numbers."""
    first = count = 0
    for number in numbers:
        if count and number == first + count:
            count += 1
            continue
        if count:
            yield first, count
        first, count = number, 1
    if count:
        yield first, count


def _start_reading_range(file_map: mmap.mmap, first: int, num_bytes: int) -> None:
    end = first + num_bytes
    for start in range(first, end, _WILLNEED_PIECE_BYTES):
        file_map.madvise(mmap.MADV_WILLNEED, start, min(_WILLNEED_PIECE_BYTES, end - start))


def _populate(file_map: mmap.mmap) -> None:
    for start in range(0, len(file_map), _PRELOAD_PIECE_BYTES):
        num_bytes = min(_PRELOAD_PIECE_BYTES, len(file_map) - start)
        try:
            file_map.madvise(_MADV_POPULATE_READ, start, num_bytes)
        except OSError as exc:
            if exc.errno != errno.EINVAL:
                raise
            # An older kernel cannot wait for it.
            _start_reading_range(file_map, 0, len(file_map))
            return
