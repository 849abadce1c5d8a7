"""Open and close filters many times, and fail to: descriptors, maps and memory must stay flat.

python tools/open_many.py            # 10 000 opens, 10 000 with the guard, 1 000 failures
"""

from __future__ import annotations

import gc
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import mmbloom

if TYPE_CHECKING:
    from collections.abc import Callable

NUM_OPENS, NUM_FAILURES = 10_000, 1000
# The allocator keeps some of what it was given back; a leak of 100 bytes an open is more.
MAX_GROWTH_BYTES = 1 << 20


class Held(NamedTuple):
    """What the process holds."""

    descriptors: int
    maps: int
    resident_bytes: int


def held_now() -> Held:
    """Count, after the garbage is gone."""
    gc.collect()
    maps = Path("/proc/self/maps").read_text(encoding="utf-8").count(".mmb")
    pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1])
    return Held(len(os.listdir("/proc/self/fd")), maps, pages * os.sysconf("SC_PAGE_SIZE"))


def measure(name: str, act: Callable[[], None], count: int) -> bool:
    """Do something many times; print what is held before and after; return whether it is flat."""
    for _ in range(count // 10):
        act()
    before = held_now()
    for _ in range(count):
        act()
    after = held_now()
    flat = before[:2] == after[:2]
    flat = flat and after.resident_bytes - before.resident_bytes < MAX_GROWTH_BYTES
    row = {"what": name, "count": count, "before": before, "after": after, "flat": flat}
    print(json.dumps(row))
    return flat


def main() -> int:
    """Run all."""
    with tempfile.TemporaryDirectory() as name:
        path, damaged = Path(name, "a.mmb"), Path(name, "damaged.mmb")
        mmbloom.build(path, [f"key {i}" for i in range(1000)], fpr=0.01).close()
        damaged.write_bytes(path.read_bytes()[:-9])

        def open_and_close() -> None:
            with mmbloom.open(path) as found:
                assert "key 1" in found  # noqa: S101 - this is a check

        def fail_to_open() -> None:
            try:
                mmbloom.open(damaged)
            except mmbloom.TruncatedError:
                return
            raise AssertionError(damaged)

        flat = [
            measure("opens", open_and_close, NUM_OPENS),
            measure("failures", fail_to_open, NUM_FAILURES),
        ]
        if mmbloom.ENGINE == "kernel":
            mmbloom.install_sigbus_guard()
            flat.append(measure("opens with the guard", open_and_close, NUM_OPENS))
    return int(not all(flat))


if __name__ == "__main__":
    sys.exit(main())
