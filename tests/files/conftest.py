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

from mmbloom.format.fields import SEALED
from mmbloom.format.header import Header, new_header
from mmbloom.format.status import Status

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# 200 lines of 64 bytes: three pages of payload and a part of a fourth.
NUM_LINES = 200
PAYLOAD = bytes(range(1, 201)) * 64
# Every call by which this room changes a file or a folder.
STEPS = ("open", "posix_fallocate", "pwrite", "fsync", "fdatasync", "link", "replace", "unlink")


class MakeFile(Protocol):
    """Writes a filter file without the help of the room under test."""

    def __call__(self, name: str = "a.mmb", status: Status | None = None) -> Path:
        """Write it to the folder of the test, and return its path."""


@pytest.fixture
def header() -> Header:
    """Return a header of 200 lines."""
    return new_header(
        layout="line",
        num_bits=512 * NUM_LINES,
        num_probes=7,
        capacity=1000,
        fpr=0.01,
        uuid=bytes(range(16)),
        created_unix_ns=1,
    )


@pytest.fixture
def make_file(tmp_path: Path, header: Header) -> MakeFile:
    """Return a function that writes filter files."""

    def make(name: str = "a.mmb", status: Status | None = None) -> Path:
        path = tmp_path / name
        page = header.pack(status or Status())
        path.write_bytes(page + PAYLOAD + bytes(8 * header.num_checksums))
        return path

    return make


@pytest.fixture
def writable(make_file: MakeFile) -> Path:
    """Write a WRITABLE file."""
    return make_file()


@pytest.fixture
def sealed(make_file: MakeFile) -> Path:
    """Write a SEALED file."""
    return make_file("sealed.mmb", Status(state=SEALED))


@pytest.fixture
def no_tmpfile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a file system without unnamed files."""
    real_open = os.open

    def refuse(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(95, "Operation not supported", path)
        return real_open(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", refuse)


@pytest.fixture(params=["O_TMPFILE", "named"])
def file_kind(request: pytest.FixtureRequest) -> str:
    """Run a test with and without unnamed files."""
    if request.param == "named":
        request.getfixturevalue("no_tmpfile")
    return str(request.param)


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
