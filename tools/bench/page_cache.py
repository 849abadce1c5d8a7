"""Figures of the kernel: cached pages, page faults, bytes written to disk."""

from __future__ import annotations

import ctypes
import mmap
import os
import re
from pathlib import Path

import numpy as np

_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
_SECTOR_BYTES = 512  # the unit of /sys/dev/block/*/stat for every disk


def resident_pages(path: Path) -> int:
    """Return how many pages of the file are in the page cache, by mincore."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapping:
        num_bytes = len(mapping)
        pages = np.empty(-(-num_bytes // mmap.PAGESIZE), dtype=np.uint8)
        view = np.frombuffer(mapping, dtype=np.uint8)
        failed = _LIBC.mincore(view.ctypes.data, num_bytes, pages.ctypes.data)
        del view  # it exports the mapping, which could not be closed
    if failed:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error), str(path))
    return int(np.count_nonzero(pages & 1))


def drop(path: Path) -> int:
    """Remove the file from the page cache; return the number of pages that are still there.

    POSIX_FADV_DONTNEED reports no error if it does nothing (for dirty or mapped pages), so the
    caller must check the result. Root also uses drop_caches.
    """
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    left = resident_pages(path)
    lever = Path("/proc/sys/vm/drop_caches")
    if left and os.access(lever, os.W_OK):
        lever.write_text("1\n", encoding="ascii")
        left = resident_pages(path)
    return left


def disk_bytes_written(path: Path) -> int | None:
    """Return the bytes written to the disk of *path* since boot; None if that is unknown."""
    device = path.stat().st_dev
    stat = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}/stat")
    if not stat.exists():
        return None
    return int(stat.read_text(encoding="ascii").split()[6]) * _SECTOR_BYTES


def process_bytes_written() -> int:
    """Return the bytes that the kernel wrote, or will write, to disk for this process."""
    text = Path("/proc/self/io").read_text(encoding="ascii")
    found = re.search(r"^write_bytes: (\d+)", text, re.MULTILINE)
    if found is None:
        message = "/proc/self/io has no write_bytes: the kernel was built without task accounting"
        raise OSError(message)
    return int(found[1])
