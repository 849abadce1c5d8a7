"""Descriptors: none is left open, whatever strikes."""

from __future__ import annotations

import fcntl
import os
import sys
from typing import TYPE_CHECKING

import pytest

import mmbloom
from mmbloom.storage.descriptors import NO_DESCRIPTOR, Descriptor

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import FrameType


class Interruption(BaseException):
    """As a signal handler raises it."""


def open_descriptors() -> set[str]:
    """Return the open descriptors of this process."""
    return set(os.listdir("/proc/self/fd"))


def test_a_descriptor_is_closed_with_its_object(tmp_path: Path) -> None:
    """And its lock is free again."""
    (tmp_path / "a").touch()
    first = Descriptor.opened(str(tmp_path / "a"), os.O_RDWR)
    fcntl.flock(first, fcntl.LOCK_EX)
    del first

    with Descriptor.opened(str(tmp_path / "a"), os.O_RDWR) as second:
        fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)
        assert not os.get_inheritable(second)
    assert not second.is_open


def test_a_descriptor_is_closed_once(tmp_path: Path) -> None:
    """Its number may belong to another file by then."""
    first = Descriptor.of_folder(str(tmp_path))
    first.close()
    with Descriptor.of_folder(str(tmp_path)) as second:
        assert second == first
        first.close()
        del first
        os.fstat(second)


def test_no_descriptor_is_never_closed() -> None:
    """It stands where there is none."""
    NO_DESCRIPTOR.close()
    assert not NO_DESCRIPTOR.is_open


def read(path: Path) -> None:
    """Open for reading."""
    with mmbloom.open(path) as found:
        assert "ada" in found


def read_without_mapping(path: Path) -> None:
    """Open for reading, without a map."""
    with mmbloom.open(path, mode="pread") as found:
        assert "ada" in found


def write(path: Path) -> None:
    """Open for writing."""
    with mmbloom.open_writable(path) as found:
        found.add("grace")


def build(path: Path) -> None:
    """Replace the file."""
    mmbloom.build(path, ["ada"], fpr=0.01, if_exists="replace").close()


def interrupt_after_open(at: int) -> tuple[Callable[..., object], list[int]]:
    """Return a profile function that raises when the *at*-th os.open() has returned, and a count.

    This is where a signal that arrives during the system call is handled.
    """
    seen = [0]

    def watch(_frame: FrameType, event: str, called: object) -> None:
        if event == "c_return" and called in {os.open, next}:
            seen[0] += 1
            if seen[0] == at:
                raise Interruption

    return watch, seen


@pytest.mark.parametrize("act", [read, read_without_mapping, write, build])
def test_an_interruption_after_any_open_leaves_nothing_open(
    tmp_path: Path, act: Callable[[Path], None]
) -> None:
    """No descriptor stays, and no lock: the next call does its work."""
    path = tmp_path / "a.mmb"
    with mmbloom.BloomFilter.create(path, capacity=10, fpr=0.01) as made:
        made.add("ada")
    act(path)
    before = open_descriptors()

    at = 0
    while True:
        at += 1
        watch, seen = interrupt_after_open(at)
        sys.setprofile(watch)
        try:
            act(path)
        except Interruption:
            pass
        finally:
            sys.setprofile(None)
        assert open_descriptors() == before, f"after open {at}"
        if seen[0] < at:
            break
    assert at > 2
    act(path)
