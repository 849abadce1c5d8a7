"""Full disks: an error at once, nothing left, never a SIGBUS."""

from __future__ import annotations

import errno
import os
import pickle
import resource
import subprocess
from typing import TYPE_CHECKING, Never

import numpy as np
import pytest
from file_steps import in_child, names_in

from mmbloom.errors import NoSpaceError
from mmbloom.storage.publish import NewFile
from mmbloom.storage.space import write_all

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from _typeshed import ReadableBuffer

MIB = 1 << 20


def _run(command: list[str]) -> int:
    return subprocess.run(command, check=False, capture_output=True).returncode  # noqa: S603 - mount


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a disk of 2 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or _run(mount):
        pytest.skip("needs the right to mount a tmpfs")
    yield folder
    assert _run(["umount", str(folder)]) == 0


def test_a_file_that_does_not_fit_is_refused_on_entering_and_leaves_nothing(
    small_disk: Path,
) -> None:
    """R11, E2: 12 MiB on a disk of 2; both numbers are in the error."""
    with pytest.raises(NoSpaceError) as caught, NewFile(small_disk / "a.mmb", 12 * MIB):
        pytest.fail("the block was entered")

    assert caught.value.errno == errno.ENOSPC
    assert caught.value.needed_bytes == 12 * MIB
    assert caught.value.free_bytes <= 2 * MIB
    assert names_in(small_disk) == []
    assert os.statvfs(small_disk).f_bfree * os.statvfs(small_disk).f_frsize >= 2 * MIB - 65536


def test_a_full_disk_during_a_write_is_the_same_error(small_disk: Path) -> None:
    """A file system that does not reserve, or a quota, shows it late."""
    fd = os.open(small_disk / "a", os.O_RDWR | os.O_CREAT)
    try:
        with pytest.raises(NoSpaceError) as caught:
            write_all(fd, "a", 0, bytes(3 * MIB))
    finally:
        os.close(fd)

    assert caught.value.path == "a"


def test_the_limit_of_the_process_is_the_same_error(tmp_path: Path) -> None:
    """RLIMIT_FSIZE says EFBIG."""

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (MIB, MIB))
        with pytest.raises(NoSpaceError) as caught, NewFile(tmp_path / "a.mmb", 2 * MIB):
            pass
        assert caught.value.errno == errno.EFBIG

    assert in_child(limited) == 0
    assert names_in(tmp_path) == []


def test_where_nothing_can_be_reserved_zeros_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other C libraries than glibc do not emulate it."""

    def unsupported(_fd: int, _offset: int, _length: int) -> Never:
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    monkeypatch.setattr(os, "posix_fallocate", unsupported)
    with NewFile(tmp_path / "a.mmb", 9 * MIB + 5) as new:
        new.publish()

    assert (tmp_path / "a.mmb").stat().st_size == 9 * MIB + 5
    assert (tmp_path / "a.mmb").stat().st_blocks * 512 >= 9 * MIB


def test_any_other_failure_to_reserve_passes_through_with_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broken disk is no full disk."""

    def broken(_fd: int, _offset: int, _length: int) -> Never:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "posix_fallocate", broken)
    with pytest.raises(OSError, match="Input/output") as caught, NewFile(tmp_path / "a.mmb", MIB):
        pass

    assert caught.value.filename == str(tmp_path / "a.mmb")


@pytest.mark.parametrize(
    "buffer",
    [
        pytest.param(b"\1\2\3\4", id="bytes"),
        pytest.param(np.array([0x04030201], np.uint32), id="numpy"),
        pytest.param(np.array([[1, 2], [3, 4]], np.uint8), id="numpy-2d"),
        pytest.param(memoryview(b"0\1\2\3\0044")[1:5], id="slice"),
    ],
)
def test_any_contiguous_buffer_is_written_whole(tmp_path: Path, buffer: ReadableBuffer) -> None:
    """Lengths are counted in bytes, whatever the type of the elements."""
    with NewFile(tmp_path / "a.mmb", 8) as new:
        new.write(2, buffer)
        new.write(8, np.empty(0, np.uint64))
        new.publish()

    assert (tmp_path / "a.mmb").read_bytes() == b"\0\0\1\2\3\4\0\0"


def test_several_buffers_are_written_one_behind_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the system writes a part of one only."""
    real_pwritev, sizes = os.pwritev, list[int]()

    def writing_less(fd: int, parts: list[memoryview], at: int) -> int:
        sizes.append(sum(map(len, parts)))
        return real_pwritev(fd, [parts[0][:300_000]], at)

    monkeypatch.setattr(os, "pwritev", writing_less)
    rng = np.random.default_rng(1)
    parts = [rng.bytes(size) for size in (4096, 1_000_000, 0, 7, 8 * MIB)]
    with NewFile(tmp_path / "a.mmb", 10 * MIB) as new:
        new.write(100, *parts, np.arange(3, dtype=np.uint16))
        new.publish()

    content = (tmp_path / "a.mmb").read_bytes()
    whole = b"".join(parts) + b"\0\0\1\0\2\0"
    assert content == bytes(100) + whole + bytes(10 * MIB - 100 - len(whole))
    assert sizes[0] == 8 * MIB - 100


def test_a_write_that_the_system_cuts_short_is_continued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pwrite() may write less than it was given."""
    real_pwrite = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: real_pwrite(fd, data[:1000], at))
    content = os.urandom(4500)
    with NewFile(tmp_path / "a.mmb", 5000) as new:
        new.write(500, content)
        new.publish()

    assert (tmp_path / "a.mmb").read_bytes()[500:] == content


def test_large_writes_end_at_multiples_of_8_mib(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that the page cache gets large folios, whatever the pieces of the caller."""
    ends = []
    real_pwrite = os.pwrite

    def recording(fd: int, data: memoryview, at: int) -> int:
        ends.append(at + len(data))
        return real_pwrite(fd, data, at)

    monkeypatch.setattr(os, "pwrite", recording)
    with NewFile(tmp_path / "a.mmb", 18 * MIB) as new:
        new.write(4096, bytes(17 * MIB))

    assert ends == [8 * MIB, 16 * MIB, 17 * MIB + 4096]


def test_the_error_of_a_full_disk_survives_pickling() -> None:
    """Builds run in worker processes."""
    error = pickle.loads(pickle.dumps(NoSpaceError("a.mmb", 12, 3)))  # noqa: S301 - our own

    assert (error.path, error.needed_bytes, error.free_bytes) == ("a.mmb", 12, 3)
