"""Payloads without a file: filters in memory, and filters that are being built.

Never a map of the file that is to be written: with large folios in the page cache each scattered
store dirties 2 MiB.
"""

from __future__ import annotations

import mmap
import os
from contextlib import suppress


def map_memory(num_bytes: int) -> mmap.mmap:
    """Return *num_bytes* zero bytes of private memory, in huge pages where the system has them.

    Cost: none until the bytes are touched. A forked child's changes stay its own.

    Raises:
        MemoryError: more than the memory of this machine, or more than it has left.
    """
    memory_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    # The kernel lends more than it has, and kills somebody when it is used.
    if num_bytes > memory_bytes:
        message = (
            f"the filter needs {num_bytes} bytes of memory, this machine has {memory_bytes}: "
            "use a higher fpr or a smaller capacity, or let it live in a file"
        )
        raise MemoryError(message)
    try:
        # MAP_PRIVATE: Python's default, MAP_SHARED, is a file in memory and gets no huge pages.
        memory = mmap.mmap(-1, num_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError as exc:
        message = f"the system refused {num_bytes} bytes of memory: {exc.strerror}"
        raise MemoryError(message) from exc
    with suppress(OSError):  # EINVAL: a kernel without huge pages, which is slower and not wrong
        memory.madvise(mmap.MADV_HUGEPAGE)
    return memory
