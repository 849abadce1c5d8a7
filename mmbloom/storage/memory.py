"""Memory without a file: filters in memory, filters that are being built, and how much there is.

Never a map of the file that is to be written: with large folios in the page cache each scattered
store dirties 2 MiB.
"""

from __future__ import annotations

import mmap
import os
from contextlib import suppress

# Where a container's limit and use stand: cgroup version 2, then 1.
_CGROUP_FILES = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    (
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
        "/sys/fs/cgroup/memory/memory.usage_in_bytes",
    ),
)


def map_memory(num_bytes: int) -> mmap.mmap:
    """Return *num_bytes* zero bytes of private memory, in huge pages where the system has them.

    Cost: none until the bytes are touched. A forked child's changes stay its own.

    Raises:
        MemoryError: more than the memory of this machine, or more than it has left.
    """
    memory_bytes = machine_memory_bytes()
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


def machine_memory_bytes() -> int:
    """Return how much memory this machine has."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def free_memory_bytes() -> int:
    """Return what could be allocated without swapping: the machine's, or less in a container."""
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with suppress(OSError, ValueError, StopIteration), open("/proc/meminfo", "rb") as lines:
        line = next(line for line in lines if line.startswith(b"MemAvailable:"))
        free = int(line.split()[1]) * 1024
    for limit_path, used_path in _CGROUP_FILES:
        # ValueError: the limit is the word "max".
        with (
            suppress(OSError, ValueError),
            open(limit_path, "rb") as limit,
            open(used_path, "rb") as used,
        ):
            return max(0, min(free, int(limit.read()) - int(used.read())))
    return free
