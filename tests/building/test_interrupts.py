"""Builds that end early: interrupts, errors, full disks. No file and no thread remains."""

from __future__ import annotations

import errno
import os
import subprocess
import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from build_steps import (
    IS_KERNEL,
    MANY_KEYS,
    build,
    die,
    keys,
    killed_in_child,
    list_of,
    names_in,
    sha256_of,
)

import mmbloom
from mmbloom import KeyValueError, NoSpaceError, SourceError
from mmbloom.building.hashes import KeyHashes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from mmbloom import Progress

PHASES = ["hash", "spill", "sort", "assemble"]
MIB = 1 << 20


@pytest.fixture(autouse=True)
def no_thread_remains() -> Iterator[None]:
    """Check that no thread of a build outlives it."""
    yield
    assert not [thread.name for thread in threading.enumerate() if "build" in thread.name]


def in_phase(phase: str, act: Callable[[], object]) -> Callable[[Progress], None]:
    """Return a callback that acts in a phase."""

    def watch(state: Progress) -> None:
        if state.phase == phase:
            act()

    return watch


def interrupt() -> None:
    """Raise what Ctrl-C raises."""
    raise KeyboardInterrupt


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.usefixtures("no_pause")
def test_an_interrupt_in_any_phase_leaves_nothing(
    tmp_path: Path, small_store: int, phase: str, jobs: int
) -> None:
    """Ctrl-C is raised in whatever Python code runs, here in the callback."""
    memory = small_store + 4 * MIB * (jobs - 1)
    watch = in_phase(phase, interrupt)

    with pytest.raises(KeyboardInterrupt):
        build(tmp_path / "a.mmb", keys(MANY_KEYS), memory=memory, jobs=jobs, progress=watch)

    assert names_in(tmp_path) == []


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("if_exists", ["raise", "replace"])
@pytest.mark.usefixtures("no_pause")
def test_a_killed_build_leaves_the_old_file_or_none(
    tmp_path: Path, small_store: int, phase: str, if_exists: str
) -> None:
    """In any phase; the next build works."""
    path = tmp_path / "a.mmb"
    before = []
    if if_exists == "replace":
        build(path, keys(3))
        before = [sha256_of(path)]
    asked = {"memory": small_store, "jobs": 1, "if_exists": if_exists}

    killed_in_child(lambda: build(path, keys(MANY_KEYS), progress=in_phase(phase, die), **asked))

    assert [sha256_of(file) for file in tmp_path.iterdir() if file.name == "a.mmb"] == before
    build(path, keys(100), **asked)
    assert names_in(tmp_path) == ["a.mmb"]


# ---- bad lines ----------------------------------------------------------------------------------


def hex_list(path: Path, bad: dict[int, str]) -> Path:
    """Write a list of digests, with others at some line numbers."""
    lines = [f"{i:08x}" for i in range(1, 3001)]
    for number, text in bad.items():
        lines[number - 1] = text
    return list_of(path, lines)


@pytest.mark.parametrize("jobs", [1, 4])
@pytest.mark.parametrize("bad", [(1, 2000), (700, 701, 2999), (1500, 2600), (3000,)], ids=str)
@pytest.mark.usefixtures("small_store")
def test_the_first_bad_line_is_reported(tmp_path: Path, bad: tuple[int, ...], jobs: int) -> None:
    """The first in the list, even if a thread finds another one earlier."""
    lists = hex_list(tmp_path / "list", dict.fromkeys(bad, "none"))

    with (
        mmbloom.read_list(lists) as source,
        pytest.raises(KeyValueError, match=f"list, line {bad[0]}: "),
    ):
        build(tmp_path / "a.mmb", source, key_form="hex", jobs=jobs, memory=64 * MIB)

    assert names_in(tmp_path) == ["list"]


@pytest.mark.parametrize("jobs", [1, 4])
@pytest.mark.usefixtures("small_store")
def test_bad_lines_are_left_out_counted_and_shown_in_order(tmp_path: Path, jobs: int) -> None:
    """Under "skip" the first five are shown; "count" only counts."""
    bad = {number: "none" if number % 2 else "odd" for number in range(100, 3000, 250)}
    lists = hex_list(tmp_path / "list", bad)
    for policy in ("skip", "count"):
        with mmbloom.read_list(lists, on_error=policy) as source:  # type: ignore[arg-type]
            asked = {"key_form": "hex", "jobs": jobs, "memory": 64 * MIB, "if_exists": "replace"}
            report = build(tmp_path / "a.mmb", source, **asked)
            first = source.bad.first

        assert (report.bad_lines, report.keys_added) == (len(bad), 3000 - len(bad))
        numbers = [int(text.split("line ")[1].split(":")[0]) for text in first]
        assert numbers == (list(bad)[:5] if policy == "skip" else [])


def test_a_list_of_only_bad_lines_is_an_error_that_shows_some(tmp_path: Path) -> None:
    """It is not a list of such keys; no file is left."""
    lists = list_of(tmp_path / "list", ["none"] * 7)

    with (
        mmbloom.read_list(lists, on_error="skip") as source,
        pytest.raises(SourceError, match=r"none of the 7 lines is a key: .*list, line 1: "),
    ):
        build(tmp_path / "a.mmb", source, key_form="hex")

    assert names_in(tmp_path) == ["list"]


@pytest.mark.parametrize("jobs", [1, 3])
def test_an_error_in_a_thread_is_the_error_of_the_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jobs: int
) -> None:
    """Any error."""

    def broken(_self: object, _hashes: object) -> None:
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(KeyHashes, "_add_hashes", broken)
    with pytest.raises(OSError, match="broken"):
        build(tmp_path / "a.mmb", keys(100), jobs=jobs, memory=64 * MIB)

    assert names_in(tmp_path) == []


# ---- full disks ---------------------------------------------------------------------------------

RUN_BYTES = 16 * 10_000 if IS_KERNEL else 16 * 300  # spilled at a time, about


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> int:
    """Let files grow to two and a half runs; return the free space that the disk reports."""
    free = RUN_BYTES * 5 // 2
    real_reserve = os.posix_fallocate

    def reserve(fd: int, offset: int, length: int) -> None:
        if offset and offset + length > free:
            raise OSError(errno.ENOSPC, "No space left on device")
        real_reserve(fd, offset, length)

    def free_now(fd: int) -> SimpleNamespace:
        return SimpleNamespace(f_bavail=free - os.fstat(fd).st_size, f_frsize=1)

    monkeypatch.setattr(os, "posix_fallocate", reserve)
    monkeypatch.setattr(os, "fstatvfs", free_now)
    return free


@pytest.mark.usefixtures("full_disk")
def test_a_full_disk_in_the_spill_folder_says_how_much_is_missing(
    tmp_path: Path, small_store: int
) -> None:
    """If the number of keys is not known, that is when the next run does not fit."""
    with pytest.raises(NoSpaceError) as caught:
        build(tmp_path / "a.mmb", iter(keys(MANY_KEYS)), memory=small_store, jobs=1)

    assert caught.value.path == str(tmp_path)
    assert caught.value.needed_bytes > caught.value.free_bytes > 0
    assert caught.value.errno == errno.ENOSPC
    assert names_in(tmp_path) == []


@pytest.mark.skipif(not IS_KERNEL, reason="there the block read ahead is half of what was read")
@pytest.mark.usefixtures("no_pause")
def test_a_full_disk_is_predicted_if_the_length_of_the_list_is_known(
    tmp_path: Path, small_store: int, full_disk: int
) -> None:
    """At the first spill, before a byte of it is written."""
    lists = list_of(tmp_path / "list", keys(MANY_KEYS))
    phases = []

    with mmbloom.read_list(lists) as source, pytest.raises(NoSpaceError) as caught:
        build(
            tmp_path / "a.mmb",
            source,
            memory=small_store,
            jobs=1,
            progress=lambda state: phases.append(state.phase),
        )

    assert caught.value.free_bytes == full_disk
    assert caught.value.needed_bytes == pytest.approx(16 * MANY_KEYS, rel=0.25)
    assert set(phases) == {"hash"}
    assert names_in(tmp_path) == ["list"]


@pytest.mark.skipif(not IS_KERNEL, reason="sorting frees nothing of so few keys there")
def test_a_list_with_repetitions_is_not_refused_for_disk_space_that_it_does_not_need(
    tmp_path: Path, small_store: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """400 000 keys, of which 20 000 are distinct: dropped repetitions are never written."""
    some = [key for i in range(0, 20_000, 500) for key in keys(500, start=i) * 20]
    lists = list_of(tmp_path / "list", some)
    disk = SimpleNamespace(f_bavail=16 * len(some) // 4, f_frsize=1)
    monkeypatch.setattr(os, "fstatvfs", lambda _: disk)

    with mmbloom.read_list(lists) as source:
        report = build(tmp_path / "a.mmb", source, memory=small_store, jobs=1)

    assert report.keys_added == 20_000
    assert 0 < report.spilled_bytes <= disk.f_bavail


def run(command: list[str]) -> int:
    """Run a command; return its exit code."""
    return subprocess.run(command, check=False, capture_output=True).returncode  # noqa: S603 - mount


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a disk of 256 KiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)]
    if os.geteuid() != 0 or run(mount):
        pytest.skip("needs the right to mount a tmpfs")
    yield folder
    assert run(["umount", str(folder)]) == 0


@pytest.mark.skipif(not IS_KERNEL, reason="too few keys to fill a disk")
@pytest.mark.parametrize("is_list", [True, False], ids=["list", "iterator"])
def test_a_full_disk_is_empty_afterwards(
    tmp_path: Path, small_disk: Path, small_store: int, *, is_list: bool
) -> None:
    """The spill file has no name, and its space is given back."""
    lists = list_of(tmp_path / "list", keys(MANY_KEYS))
    asked = {"memory": small_store, "jobs": 1, "spill_folder": small_disk}

    with mmbloom.read_list(lists) as source, pytest.raises(NoSpaceError) as caught:
        build(tmp_path / "a.mmb", source if is_list else iter(keys(MANY_KEYS)), **asked)

    assert caught.value.needed_bytes > caught.value.free_bytes
    assert names_in(small_disk) == []
    disk = os.statvfs(small_disk)
    assert disk.f_bfree == disk.f_blocks
    assert sorted(names_in(tmp_path)) == ["disk", "list"]


def test_a_missing_spill_folder_is_an_error_that_names_it(tmp_path: Path, small_store: int) -> None:
    """It is the operating system's error; no file is left."""
    with pytest.raises(FileNotFoundError, match="nowhere"):
        build(
            tmp_path / "a.mmb",
            keys(MANY_KEYS),
            memory=small_store,
            jobs=1,
            spill_folder=tmp_path / "nowhere",
        )
    assert names_in(tmp_path) == []
