"""New files: the path has what it had before, or the complete file."""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING, Never

import pytest
from file_steps import PAYLOAD, held_now, in_child, killed_at_each_step, names_in

from mmbloom.errors import LockHeldError, NoSpaceError, ParameterError, ParameterTypeError
from mmbloom.format.status import Status
from mmbloom.storage.mapped import MappedFile
from mmbloom.storage.publish import NewFile
from mmbloom.storage.writable import WritableFile

if TYPE_CHECKING:
    from pathlib import Path

    from mmbloom.format.header import Header
    from mmbloom.storage.paths import FilePath
    from mmbloom.storage.publish import IfExists

SIZE = 3 * 4096


def build(path: FilePath, content: bytes = b"new", if_exists: IfExists = "raise") -> None:
    """Publish a file of SIZE bytes that starts with *content*."""
    with NewFile(path, SIZE, if_exists) as new:
        new.write(0, content)
        new.publish()


@pytest.mark.usefixtures("file_kind")
def test_a_published_file_has_its_bytes_its_length_and_nothing_beside_it(tmp_path: Path) -> None:
    """Both ways of making a file end alike."""
    build(tmp_path / "a.mmb")

    assert (tmp_path / "a.mmb").read_bytes() == b"new" + bytes(SIZE - 3)
    assert names_in(tmp_path) == ["a.mmb"]


@pytest.mark.usefixtures("file_kind")
@pytest.mark.parametrize("umask", [0o022, 0o077, 0o002])
def test_the_mode_of_a_new_file_is_0666_without_the_umask(tmp_path: Path, umask: int) -> None:
    """F5: a data file is not executable, and as private as the user wants."""
    before = os.umask(umask)
    try:
        build(tmp_path / "a.mmb")
    finally:
        os.umask(before)

    assert stat.S_IMODE((tmp_path / "a.mmb").stat().st_mode) == 0o666 & ~umask


@pytest.mark.usefixtures("file_kind")
def test_only_its_owner_may_open_a_file_that_is_not_published(tmp_path: Path) -> None:
    """A file without a name can be reached through /proc too."""
    with NewFile(tmp_path / "a.mmb", SIZE) as new:
        assert stat.S_IMODE(os.fstat(new._temporary.fd).st_mode) == 0o600
        new.publish()


@pytest.mark.usefixtures("file_kind")
def test_leaving_the_block_without_publish_leaves_nothing(tmp_path: Path) -> None:
    """Neither the file nor a temporary one, nor a descriptor."""
    before = held_now()
    with NewFile(tmp_path / "a.mmb", SIZE) as new:
        new.write(0, b"half")

    assert names_in(tmp_path) == []
    assert held_now() == before


def test_all_the_space_is_reserved_before_anything_is_written(tmp_path: Path) -> None:
    """R11: a hole is a SIGBUS on a full disk."""
    with NewFile(tmp_path / "a.mmb", 1 << 20) as new:
        new.publish()

    assert (tmp_path / "a.mmb").stat().st_blocks * 512 >= 1 << 20


def test_bytes_and_pathlike_paths_are_taken(tmp_path: Path) -> None:
    """R14."""
    build(os.fsencode(tmp_path / "a.mmb"))
    build(tmp_path / "b.mmb")
    build(str(tmp_path / "c.mmb"))

    assert names_in(tmp_path) == ["a.mmb", "b.mmb", "c.mmb"]


def test_a_relative_path_is_made_in_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bare name has no folder part."""
    monkeypatch.chdir(tmp_path)
    build("a.mmb")

    assert names_in(tmp_path) == ["a.mmb"]


def test_an_existing_file_is_never_replaced_unasked(writable: Path) -> None:
    """R5, F4: its bytes stay, and the message says what to do."""
    before = writable.read_bytes()
    with pytest.raises(FileExistsError, match="if_exists='replace'") as caught:
        build(writable)

    assert (caught.value.errno, caught.value.filename) == (errno.EEXIST, str(writable))
    assert writable.read_bytes() == before


def test_a_dangling_symbolic_link_exists(tmp_path: Path) -> None:
    """Otherwise the file would appear where the link points, not where it was asked for."""
    (tmp_path / "link.mmb").symlink_to(tmp_path / "nowhere.mmb")
    with pytest.raises(FileExistsError):
        build(tmp_path / "link.mmb")

    assert names_in(tmp_path) == ["link.mmb"]


@pytest.mark.parametrize("if_exists", ["raise", "replace"])
@pytest.mark.parametrize("name", ["folder", "", ".", "folder/", "folder/.."])
def test_a_directory_as_path_is_refused_as_one(
    tmp_path: Path, name: str, if_exists: IfExists
) -> None:
    """Before any work is done."""
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError):
        build(os.path.join(tmp_path, name), if_exists=if_exists)


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    """R14: not "Invalid argument"."""
    with pytest.raises(FileNotFoundError, match="make it first") as caught:
        build(tmp_path / "none" / "a.mmb")

    assert caught.value.filename == str(tmp_path / "none")


def test_an_empty_path_is_not_found() -> None:
    """As open("") says."""
    with pytest.raises(FileNotFoundError):
        build("")


def test_a_folder_that_may_not_be_written_is_named(tmp_path: Path) -> None:
    """PermissionError on entering the block, before hours of building; root is told the same."""

    def as_nobody() -> None:
        os.chdir(tmp_path)
        tmp_path.chmod(0o555)
        if os.geteuid() == 0:
            os.setuid(65534)
        with pytest.raises(PermissionError) as caught, NewFile("a.mmb", SIZE):
            pass
        assert caught.value.filename == "."

    assert in_child(as_nobody) == 0


def test_replace_leaves_the_old_file_to_its_readers(sealed: Path, header: Header) -> None:
    """E3: the reader goes on with the old bits, who opens now gets the new ones."""
    with MappedFile.open(sealed) as old:
        with NewFile(sealed, header.file_bytes, "replace") as new:
            new.write(0, header.pack(Status()))
            new.publish()
        with MappedFile.open(sealed) as fresh:
            assert bytes(fresh.payload) == bytes(len(PAYLOAD))
            assert fresh.stamp != old.stamp
        assert bytes(old.payload) == PAYLOAD


def test_replace_makes_a_file_where_there_was_none(tmp_path: Path) -> None:
    """Asking to replace is no demand that there be something."""
    build(tmp_path / "a.mmb", if_exists="replace")

    assert names_in(tmp_path) == ["a.mmb"]


def test_replace_takes_the_place_of_a_link_and_leaves_its_target(
    sealed: Path, tmp_path: Path
) -> None:
    """The path is what was asked for; the file behind the link keeps its own name."""
    before = sealed.read_bytes()
    (tmp_path / "link.mmb").symlink_to(sealed)
    build(tmp_path / "link.mmb", if_exists="replace")

    assert not (tmp_path / "link.mmb").is_symlink()
    assert sealed.read_bytes() == before


def test_replace_refuses_what_is_no_file(tmp_path: Path) -> None:
    """A FIFO that somebody reads from is not in the way by accident."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FileExistsError, match="no regular file"):
        build(tmp_path / "pipe", if_exists="replace")


@pytest.mark.parametrize("when", ["before", "while building"])
def test_a_file_that_a_writer_has_open_is_not_replaced(writable: Path, when: str) -> None:
    """Its adds would go to a file without a name: lost keys, without an error."""
    if when == "before":
        with WritableFile.open(writable), pytest.raises(LockHeldError):
            build(writable, if_exists="replace")
    else:
        with (
            NewFile(writable, SIZE, "replace") as new,
            WritableFile.open(writable),
            pytest.raises(LockHeldError),
        ):
            new.publish()

    assert writable.stat().st_size != SIZE
    assert names_in(writable.parent) == ["a.mmb", "a.mmb.lock"]


@pytest.mark.usefixtures("file_kind")
def test_the_loser_of_a_race_is_told_and_leaves_nothing(tmp_path: Path) -> None:
    """Both began when the path was free; the first to publish has it."""
    with NewFile(tmp_path / "a.mmb", SIZE) as late:
        build(tmp_path / "a.mmb", b"first")
        with pytest.raises(FileExistsError):
            late.publish()

    assert (tmp_path / "a.mmb").read_bytes()[:5] == b"first"
    assert names_in(tmp_path) == ["a.mmb"]


@pytest.mark.parametrize("if_exists", ["raise", "replace"])
def test_a_builder_killed_at_any_step_leaves_the_old_or_the_whole_file(
    tmp_path: Path, file_kind: str, if_exists: IfExists
) -> None:
    """D11, D12: kill -9 before each system call; the next build works and cleans up."""
    path = tmp_path / "a.mmb"
    old = b"old" * 1000 if if_exists == "replace" else None
    whole = b"new" + bytes(SIZE - 3)

    def build_again() -> None:
        build(path, if_exists=if_exists)

    if old:
        path.write_bytes(old)
    for code in killed_at_each_step(build_again):
        found = path.read_bytes() if path.exists() else None
        assert found in ([whole] if code == 0 else [old, whole])
        if (file_kind, if_exists) == ("O_TMPFILE", "raise"):
            assert set(names_in(tmp_path)) <= {"a.mmb"}
        path.unlink(missing_ok=True)
        build_again()
        assert names_in(tmp_path) == ["a.mmb"]
        path.unlink()
        if old:
            path.write_bytes(old)


@pytest.mark.usefixtures("no_tmpfile")
def test_a_forked_child_that_leaves_the_block_leaves_its_parents_file(tmp_path: Path) -> None:
    """A fork inside the block inherits the clean-up, and must not do it."""
    with NewFile(tmp_path / "a.mmb", SIZE) as new:
        assert in_child(lambda: new.__exit__(None, None, None)) == 0
        new.publish()

    assert names_in(tmp_path) == ["a.mmb"]


@pytest.mark.parametrize(("offset", "size"), [(-1, 1), (SIZE, 1), (0, SIZE + 1), (SIZE - 1, 2)])
def test_a_write_beyond_the_length_is_refused(tmp_path: Path, offset: int, size: int) -> None:
    """The length is in the header already; a file that grew would not open."""
    with NewFile(tmp_path / "a.mmb", SIZE) as new, pytest.raises(ParameterError, match="offset"):
        new.write(offset, bytes(size))


def test_parameters_are_checked_at_the_door(tmp_path: Path) -> None:
    """Before anything is made."""
    with pytest.raises(ParameterError, match="if_exists"):
        NewFile(tmp_path / "a.mmb", SIZE, "overwrite")
    with pytest.raises(ParameterError, match="file_bytes"):
        NewFile(tmp_path / "a.mmb", 0)
    with pytest.raises(ParameterTypeError, match="path"):
        NewFile(5, SIZE)


def test_a_failing_fsync_publishes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full network disk shows here for the first time."""

    def full(_fd: int) -> Never:
        raise OSError(errno.ENOSPC, "No space left on device")

    with NewFile(tmp_path / "a.mmb", SIZE) as new:
        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(NoSpaceError):
            new.publish()

    assert names_in(tmp_path) == []


def test_a_file_system_that_cannot_sync_folders_is_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """EINVAL from the fsync of a folder: the file is there, and nothing more can be done."""
    real_fsync = os.fsync

    def no_folders(fd: int) -> None:
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            raise OSError(errno.EINVAL, "Invalid argument")
        real_fsync(fd)

    monkeypatch.setattr(os, "fsync", no_folders)
    build(tmp_path / "a.mmb")

    assert (tmp_path / "a.mmb").exists()


def test_a_folder_that_cannot_be_synced_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is there, but its name may not survive power loss."""
    real_fsync = os.fsync

    def broken_folder(fd: int) -> None:
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            raise OSError(errno.EIO, "Input/output error")
        real_fsync(fd)

    monkeypatch.setattr(os, "fsync", broken_folder)
    with pytest.raises(OSError, match="Input/output"):
        build(tmp_path / "a.mmb")

    assert names_in(tmp_path) == ["a.mmb"]
