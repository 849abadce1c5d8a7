"""Spill files: reserved before they are written, gone when they are closed."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Never

import pytest
from file_steps import names_in

from mmbloom.errors import NoSpaceError, SpillError
from mmbloom.storage.spill import SpillFile

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.usefixtures("file_kind")
def test_an_unnamed_file_is_seen_by_nobody(tmp_path: Path) -> None:
    """On file systems that have such files, and on others; only its owner may read it."""
    with SpillFile.unnamed(tmp_path) as spill:
        assert spill.reserve(8192) == 0
        assert spill.reserve(10) == 8192
        spill.write(8192, b"0123456789")
        spill.write(5, b"abc")
        found = bytearray(12)
        spill.read(8190, found)
        assert found == b"\0\x000123456789"
        spill.read(5, memoryview(found)[:3])
        assert found[:3] == b"abc"
        assert os.fstat(spill._fd).st_mode & 0o777 == 0o600
        assert (spill.num_bytes, spill.where) == (8202, str(tmp_path))
        assert spill.free_bytes() > 0
        assert names_in(tmp_path) == []
    assert names_in(tmp_path) == []


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    """Not the descriptor, of which nobody knows."""
    with pytest.raises(FileNotFoundError, match="nowhere"):
        SpillFile.unnamed(tmp_path / "nowhere")


def test_what_cannot_be_reserved_leaves_the_file_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk is an error with both numbers."""

    def full(_fd: int, _offset: int, _length: int) -> Never:
        raise OSError(errno.ENOSPC, "No space left on device")

    with SpillFile.unnamed(tmp_path) as spill:
        spill.reserve(100)
        monkeypatch.setattr(os, "posix_fallocate", full)
        with pytest.raises(NoSpaceError) as caught:
            spill.reserve(1 << 40)

        assert (caught.value.path, caught.value.needed_bytes) == (str(tmp_path), 1 << 40)
        assert spill.num_bytes == os.fstat(spill._fd).st_size == 100


def test_where_nothing_can_be_reserved_writing_makes_the_file_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other C libraries than glibc do not emulate it."""

    def unsupported(_fd: int, _offset: int, _length: int) -> Never:
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    monkeypatch.setattr(os, "posix_fallocate", unsupported)
    with SpillFile.unnamed(tmp_path) as spill:
        assert spill.reserve(5) == 0
        spill.write(0, b"01234")
        found = bytearray(5)
        spill.read(0, found)
        assert found == b"01234"


def test_a_file_that_has_become_shorter_is_an_error(tmp_path: Path) -> None:
    """Not a stretch of zeros."""
    with SpillFile.unnamed(tmp_path) as spill:
        spill.reserve(100)
        os.ftruncate(spill._fd, 50)
        with pytest.raises(SpillError, match="cut short"):
            spill.read(40, bytearray(20))


def test_reads_that_the_system_cuts_short_are_continued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """preadv() may read less than it was given room for."""
    real_preadv = os.preadv
    with SpillFile.unnamed(tmp_path) as spill:
        spill.reserve(1000)
        content = os.urandom(1000)
        spill.write(0, content)
        monkeypatch.setattr(os, "preadv", lambda fd, views, at: real_preadv(fd, [views[0][:7]], at))
        found = bytearray(1000)
        spill.read(0, found)
    assert found == content


def test_a_named_file_keeps_what_it_is_told_and_drops_the_rest(tmp_path: Path) -> None:
    """Behind the last checkpoint may be anything."""
    path = str(tmp_path / "spill")
    with SpillFile.named(path, 0) as spill:
        spill.reserve(100)
        spill.write(0, b"a" * 100)
        spill.sync()
    with SpillFile.named(path, 60) as spill:
        assert spill.num_bytes == os.stat(path).st_size == 60
        assert spill.reserve(10) == 60

    assert os.stat(path).st_mode & 0o777 == 0o600
    assert names_in(tmp_path) == ["spill"]


@pytest.mark.parametrize("size", [0, 59])
def test_a_named_file_that_is_too_short_is_an_error_every_time(tmp_path: Path, size: int) -> None:
    """It stays as it is."""
    (tmp_path / "spill").write_bytes(b"a" * size)
    for _ in range(2):
        with pytest.raises(SpillError, match=f"{size} bytes, 60"):
            SpillFile.named(str(tmp_path / "spill"), 60)
        assert (tmp_path / "spill").read_bytes() == b"a" * size


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    """Somebody else's file is not written to."""
    (tmp_path / "precious").write_bytes(b"precious")
    (tmp_path / "spill").symlink_to("precious")

    with pytest.raises(OSError, match="spill"):
        SpillFile.named(str(tmp_path / "spill"), 0)

    assert (tmp_path / "precious").read_bytes() == b"precious"


def test_closing_twice_does_no_harm(tmp_path: Path) -> None:
    """The descriptor may be somebody else's by then."""
    spill = SpillFile.unnamed(tmp_path)
    spill.close()
    spill.close()
