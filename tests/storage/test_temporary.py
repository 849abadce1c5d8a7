"""Files without a name, and what happens where the system has none."""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING, Never

import pytest
from file_steps import in_child, names_in

from mmbloom.storage.locks import try_flock
from mmbloom.storage.publish import NewFile

if TYPE_CHECKING:
    from pathlib import Path

    from mmbloom.storage.paths import FilePath
    from mmbloom.storage.publish import IfExists

SIZE = 4096
UMASKS = pytest.mark.parametrize("umask", [0o022, 0o002, 0o000, 0o077])
pytestmark = pytest.mark.usefixtures("no_tmpfile")


def build(path: FilePath, if_exists: IfExists = "raise") -> None:
    """Publish an empty file of SIZE bytes."""
    with NewFile(path, SIZE, if_exists) as new:
        new.publish()


def leftover(folder: Path, pid: int, target: str = "a.mmb") -> Path:
    """Make what a killed builder of *target* leaves."""
    path = folder / f".{target}.{pid}.{'0' * 16}.tmp"
    path.write_bytes(b"half")
    return path


@pytest.fixture
def dead_pid() -> int:
    """Return the PID of a process that has ended."""
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    return pid


def test_the_temporary_file_is_hidden_and_names_target_and_process(tmp_path: Path) -> None:
    """Somebody who finds it knows whose it is."""
    with NewFile(tmp_path / "a.mmb", SIZE):
        (name,) = names_in(tmp_path)

    assert name.startswith(f".a.mmb.{os.getpid()}.")
    assert name.endswith(".tmp")


def test_what_a_dead_builder_left_is_removed_by_the_next(tmp_path: Path, dead_pid: int) -> None:
    """Else interrupted builds fill the disk."""
    leftover(tmp_path, dead_pid)
    build(tmp_path / "a.mmb")

    assert names_in(tmp_path) == ["a.mmb"]


def test_what_a_live_builder_makes_is_left_alone(tmp_path: Path) -> None:
    """Two builders of one path are a race, which the first to publish wins."""
    with NewFile(tmp_path / "a.mmb", SIZE) as first, NewFile(tmp_path / "a.mmb", SIZE):
        assert len(names_in(tmp_path)) == 2
        first.publish()

    assert names_in(tmp_path) == ["a.mmb"]


def test_what_a_builder_in_another_container_makes_is_left_alone(
    tmp_path: Path, dead_pid: int
) -> None:
    """Its PID means nothing here, but it holds a lock."""
    path = leftover(tmp_path, dead_pid)
    fd = os.open(path, os.O_RDWR)
    assert try_flock(fd)
    try:
        build(tmp_path / "a.mmb")
        assert path.exists()
    finally:
        os.close(fd)


@pytest.mark.parametrize("name", [".b.mmb.1.{}.tmp", ".a.mmb.{}.tmp", "a.mmb.1.{}.tmp", ".a.mmb"])
def test_files_of_other_names_are_left_alone(tmp_path: Path, name: str) -> None:
    """Only leftovers of the same target are anybody's business."""
    other = tmp_path / name.format("0" * 16)
    other.write_bytes(b"mine")
    build(tmp_path / "a.mmb")

    assert other.read_bytes() == b"mine"


def test_leftovers_of_other_users_are_left_alone(tmp_path: Path, dead_pid: int) -> None:
    """What may not be opened is not ours to remove, and no reason to fail."""
    path = leftover(tmp_path, dead_pid)
    path.chmod(0o600)
    tmp_path.chmod(0o777)

    def as_nobody() -> None:
        os.chdir(tmp_path)
        if os.geteuid() == 0:
            os.setuid(65534)
            build("a.mmb")

    assert in_child(as_nobody) == 0
    assert path.exists()


@UMASKS
def test_nobody_else_can_open_a_file_before_it_is_published(
    tmp_path: Path, umask: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the first moment: who has it open could read what is written later."""
    modes = []
    real_open = os.open

    def watch(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        fd = real_open(path, flags, mode, dir_fd=dir_fd)
        modes.append((path, stat.S_IMODE(os.fstat(fd).st_mode)))
        return fd

    monkeypatch.setattr(os, "open", watch)
    before = os.umask(umask)
    try:
        with NewFile(tmp_path / "a.mmb", SIZE) as new:
            (name,) = names_in(tmp_path)
            assert (name, 0o600) in modes
            assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
            new.publish()
    finally:
        os.umask(before)

    assert stat.S_IMODE((tmp_path / "a.mmb").stat().st_mode) == 0o666 & ~umask


def test_a_name_as_long_as_the_file_system_allows_is_built(tmp_path: Path) -> None:
    """The temporary name is longer than the target, so it takes only the start of it."""
    name = "x" * 251 + ".mmb"
    build(tmp_path / name)
    build(tmp_path / name, "replace")

    assert names_in(tmp_path) == [name]


def test_without_proc_a_named_file_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file without a name gets one through /proc only, so it is not begun where there is none."""
    monkeypatch.undo()
    monkeypatch.setattr("mmbloom.storage.temporary._proc_path", lambda fd: f"/none/{fd}")
    with NewFile(tmp_path / "a.mmb", SIZE) as new:
        assert len(names_in(tmp_path)) == 1
        new.publish()

    assert names_in(tmp_path) == ["a.mmb"]


@pytest.fixture
def no_links(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a file system without hard links."""

    def refuse(*_args: object, **_kwargs: object) -> Never:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)


@pytest.mark.usefixtures("no_links")
def test_without_hard_links_a_new_file_is_renamed_and_nothing_replaced(tmp_path: Path) -> None:
    """FAT: rename replaces unless it is told not to."""
    with NewFile(tmp_path / "a.mmb", SIZE) as late:
        build(tmp_path / "a.mmb")
        (tmp_path / "a.mmb").write_bytes(b"first")
        with pytest.raises(FileExistsError):
            late.publish()

    assert (tmp_path / "a.mmb").read_bytes() == b"first"
    assert names_in(tmp_path) == ["a.mmb"]


def test_a_rename_that_fails_leaves_nothing_and_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old file stays; the new one goes."""
    (tmp_path / "a.mmb").write_bytes(b"old")

    def fail(*_args: object, **_kwargs: object) -> Never:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="Input/output"):
        build(tmp_path / "a.mmb", "replace")

    assert names_in(tmp_path) == ["a.mmb"]
    assert (tmp_path / "a.mmb").read_bytes() == b"old"


def test_a_temporary_file_that_another_container_took_for_a_leftover_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between its making and its locking it looks dead to a PID namespace that lacks its maker."""
    taken = []

    def lock_late(fd: int) -> bool:
        if not taken:
            taken.append(names_in(tmp_path)[0])
            (tmp_path / taken[0]).unlink()
        return try_flock(fd)

    monkeypatch.setattr("mmbloom.storage.temporary.try_flock", lock_late)
    with NewFile(tmp_path / "a.mmb", SIZE) as new:
        assert names_in(tmp_path) != taken
        new.publish()

    assert names_in(tmp_path) == ["a.mmb"]


def test_a_process_of_another_user_is_alive(
    tmp_path: Path, dead_pid: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """EPERM from kill() says that it is there."""

    def refuse(_pid: int, _signal: int) -> Never:
        raise PermissionError

    path = leftover(tmp_path, dead_pid)
    monkeypatch.setattr(os, "kill", refuse)
    build(tmp_path / "a.mmb")

    assert path.exists()
