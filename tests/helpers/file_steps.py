"""Small filter files, children that get killed, and counts of what a process holds."""

from __future__ import annotations

import gc
import os
import signal
import traceback
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mmbloom.format.status import Status

# 200 lines of 64 bytes: three pages of payload and a part of a fourth.
NUM_LINES = 200
PAYLOAD = bytes(range(1, 201)) * 64
# Every call by which this room changes a file or a folder.
STEPS = ("open", "posix_fallocate", "pwrite", "fsync", "fdatasync", "link", "replace", "unlink")


class MakeFile(Protocol):
    """Writes a filter file without the help of the room under test."""

    def __call__(self, name: str = "a.mmb", status: Status | None = None) -> Path:
        """Write it to the folder of the test, and return its path."""


def in_child(act: Callable[[], object]) -> int:
    """Run *act* in a forked child; return 0, 1 if it raised, or minus the signal that killed it."""
    pid = os.fork()
    if pid == 0:
        try:
            act()
        except BaseException:  # noqa: BLE001 - the parent needs the code, the reader the text
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def killed_at_each_step(act: Callable[[], object]) -> Iterator[int]:
    """Run *act* in children that kill themselves before their first, second ... step, to the end.

    Yields the exit code after each, the last time 0, for the caller to look at what is left.
    """
    for fatal in range(1, 1000):
        code = in_child(partial(_die_at, fatal, act))
        yield code
        if code == 0:
            return
        assert code == -signal.SIGKILL
    pytest.fail("the child never came to its end")


def _die_at(fatal: int, act: Callable[[], object]) -> None:
    counter = iter(range(1, 1000))

    def dying(real: Callable[..., object]) -> Callable[..., object]:
        def step(*args: object, **kwargs: object) -> object:
            if next(counter) == fatal:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*args, **kwargs)

        return step

    for name in STEPS:
        setattr(os, name, dying(getattr(os, name)))
    act()


class Held(NamedTuple):
    """What this process holds of the system."""

    num_descriptors: int
    num_maps: int


def held_now() -> Held:
    """Count after the garbage is gone, which may hold maps of earlier tests."""
    gc.collect()
    # Of filter files: the memory allocator maps and unmaps as it likes.
    num_maps = sum(".mmb" in line for line in Path("/proc/self/maps").read_text().splitlines())
    return Held(len(list(Path("/proc/self/fd").iterdir())), num_maps)


def names_in(folder: Path) -> list[str]:
    """List a folder, hidden files too."""
    return sorted(path.name for path in folder.iterdir())
