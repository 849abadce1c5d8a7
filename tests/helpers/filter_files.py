"""Small filters in files, other processes, and what must not change when somebody reads."""

from __future__ import annotations

import gc
import hashlib
import os
import pickle
import signal
import subprocess
import sys
import traceback
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

import mmbloom
from mmbloom import BloomFilter, FilterSpec
from mmbloom.kinds import KINDS
from mmbloom.kinds.bloom_layouts import LAYOUTS
from mmbloom.kinds.kind import Counts, blocks_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from mmbloom.format.header import Header
    from mmbloom.sizing.bloom import BloomGeometry

NEVER = 1e-9  # no false positive among the few thousand absent keys of a test
TAIL = 8  # a checksum table of one MiB or less


def keys(count: int, start: int = 0) -> list[str]:
    """Return distinct keys, the same ones in every run."""
    return [f"/srv/pages/{i}.html" for i in range(start, start + count)]


def payload_of(filter_: BloomFilter) -> bytes:
    """Return the bits."""
    return bytes(filter_._opened.payload)


def counts_of(geometry: BloomGeometry, payload: bytes | bytearray | memoryview) -> Counts:
    """Count a payload, block by block."""
    layout = LAYOUTS[geometry.layout]
    blocks = blocks_of(memoryview(payload).cast("B"))
    return reduce(Counts.plus, (layout.count(geometry, block) for block in blocks))


def rate_of(geometry: BloomGeometry, payload: bytes | bytearray | memoryview) -> float:
    """Return the rate that a payload gives."""
    return LAYOUTS[geometry.layout].fpr(geometry, counts_of(geometry, payload))


def header_for(**options: Any) -> Header:  # noqa: ANN401 - those of FilterSpec
    """Return the header of a new filter."""
    spec = FilterSpec(**options)
    return KINDS[spec.kind].header(spec)


def sealed_file(path: Path, count: int = 20, layout: str = "line", fpr: float = NEVER) -> Path:
    """Build a small file."""
    mmbloom.build(path, keys(count), fpr=fpr, layout=layout).close()
    return path


def writable_file(path: Path, count: int = 20, **parameters: object) -> Path:
    """Make a small file that can be added to."""
    given: dict[str, object] = {"capacity": 100, "fpr": NEVER, "layout": "line"} | parameters
    with BloomFilter.create(path, **given) as made:  # type: ignore[arg-type]
        made.update(keys(count))
    return path


class Facts(NamedTuple):
    """What must not change when somebody reads."""

    sha256: str
    mtime_ns: int
    ctime_ns: int
    mode: int


def facts_of(path: Path) -> Facts:
    """Return them."""
    found = path.stat()
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return Facts(digest, found.st_mtime_ns, found.st_ctime_ns, found.st_mode)


def in_child(act: Callable[[], object], seconds: int = 0) -> int:
    """Run *act* in a forked child; return its exit code, 1 if it raised.

    A child that takes longer than *seconds*, if given, is ended by SIGALRM.
    """
    pid = os.fork()
    if pid == 0:
        code = 1
        signal.alarm(seconds)
        try:
            act()
            code = 0
        except BaseException:  # noqa: BLE001 - the parent needs the exit code, the reader the text
            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def unpickle(pickled: bytes) -> BloomFilter:
    """Return what was pickled."""
    found = pickle.loads(pickled)  # noqa: S301 - made by this test
    assert isinstance(found, BloomFilter)
    return found


class Program:
    """Another Python process that runs a few lines, and says so when it is done with them."""

    def __init__(self, code: str, *arguments: object) -> None:
        """Start it; *code* finds its arguments in sys.argv and mmbloom imported."""
        self.process = subprocess.Popen(  # noqa: S603 - this Python
            [sys.executable, "-P", "-c", f"import sys, mmbloom\n{code}", *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def line(self) -> str:
        """Wait for the next line that it prints."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().rstrip("\n")

    def tell(self, text: str) -> None:
        """Send it a line."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{text}\n")
        self.process.stdin.flush()

    def kill(self) -> None:
        """Kill it, as kill -9 does."""
        self.process.kill()
        self.process.communicate()
        assert self.process.returncode == -signal.SIGKILL

    def end(self) -> int:
        """Wait for its end; return the exit code."""
        self.process.communicate()
        return self.process.returncode


def open_read_only(path: Path) -> BloomFilter:
    """Open to read."""
    return mmbloom.open(path)


def open_to_write(path: Path) -> BloomFilter:
    """Open to write."""
    return mmbloom.open_writable(path)


OPENS = pytest.mark.parametrize("open_", [open_read_only, open_to_write])


def held_now() -> tuple[int, int]:
    """Return how many descriptors and file maps this process has."""
    gc.collect()
    maps = [line for line in Path("/proc/self/maps").read_text().splitlines() if ".mmb" in line]
    return len(os.listdir("/proc/self/fd")), len(maps)
