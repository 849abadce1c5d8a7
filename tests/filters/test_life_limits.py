"""What a process and a disk have not enough of: descriptors, maps, space."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
from filter_files import held_now, keys, open_read_only, open_to_write, sealed_file, writable_file

import mmbloom
from mmbloom import BloomFilter, NoSpaceError
from mmbloom.errors import MmbloomError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def test_nothing_stays_open_after_opens_that_succeed_or_fail(tmp_path: Path) -> None:
    """400 that succeed and 600 that fail: as many descriptors and maps as before."""
    path = sealed_file(tmp_path / "a.mmb")
    unsealed = writable_file(tmp_path / "b.mmb")
    damaged = tmp_path / "damaged.mmb"
    damaged.write_bytes(path.read_bytes()[:-1])
    lost = tmp_path / "lost.mmb"
    lost.write_bytes(path.read_bytes()[:4096] + bytes(path.stat().st_size - 4096))

    def open_all() -> None:
        mmbloom.open(path).close()
        with mmbloom.open(path) as found:
            found.contains_many(keys(3))
        mmbloom.open_writable(unsealed).close()
        mmbloom.open(path)  # closed by its end
        for refused in (damaged, lost, tmp_path / "missing.mmb"):
            for open_ in (open_read_only, open_to_write):
                try:
                    open_(refused)
                except (MmbloomError, OSError):
                    continue
                pytest.fail("it opened")

    open_all()
    before = held_now()
    for _ in range(100):
        open_all()
    assert held_now() == before


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a disk of 2 MB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount, unmount = shutil.which("mount"), shutil.which("umount")
    if mount is None or unmount is None or os.geteuid():
        pytest.skip("mounting a small disk needs root")
    command = [mount, "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(disk)]
    if subprocess.run(command, check=False, capture_output=True).returncode:  # noqa: S603 - as above
        pytest.skip("this root may not mount")
    yield disk
    subprocess.run([unmount, str(disk)], check=True)  # noqa: S603 - as above


def test_a_full_disk_is_an_error_and_nothing_is_left(small_disk: Path) -> None:
    """12 MB on a disk of 2: at once, with both numbers, and not while adding."""
    with BloomFilter.in_memory(capacity=10_000_000, fpr=0.01) as found:
        for make in (
            lambda: BloomFilter.create(small_disk / "a.mmb", capacity=10_000_000, fpr=0.01),
            lambda: mmbloom.build(small_disk / "a.mmb", ["a"], fpr=0.01, capacity=10_000_000),
            lambda: found.save(small_disk / "a.mmb"),
        ):
            with pytest.raises(NoSpaceError, match="free") as caught:
                make()
            assert caught.value.needed_bytes > 10_000_000 > caught.value.free_bytes
            assert isinstance(caught.value, OSError)
            assert list(small_disk.iterdir()) == []


def test_a_created_filter_has_its_space_and_never_fails_while_adding(small_disk: Path) -> None:
    """A disk that fills up later does not matter: the space was reserved."""
    with BloomFilter.create(small_disk / "a.mmb", capacity=1_000_000, fpr=0.01) as made:
        blocker = small_disk / "blocker"
        with blocker.open("wb") as file, pytest.raises(OSError, match="No space"):
            file.write(bytes(2 << 20))
        made.update(keys(2000))
        made.seal()
    with mmbloom.open(small_disk / "a.mmb") as found:
        assert found.contains_many(keys(2000)).all()
