"""The files of a store: which names are names, and which file is the current one at every step."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from file_steps import names_in as all_names

from mmbloom.errors import LockHeldError, ParameterError, ParameterTypeError
from mmbloom.storage.writable import WritableFile
from mmbloom.store.generations import Generations, check_name, names_in

if TYPE_CHECKING:
    from pathlib import Path

    from file_steps import MakeFile

BAD_NAMES = {
    "nothing": "",
    "the folder": ".",
    "its parent": "..",
    "a path upwards": "../a",
    "a path downwards": "a/b",
    "an absolute path": "/etc/passwd",
    "a backslash": "..\\a",
    "hidden": ".a",
    "NUL": "a\0b",
    "a line end": "a\nb",
    "an escape": "a\x1b[2J",
    "a lone surrogate": "a\udcff",
    "201 bytes": "x" * 201,
    "201 bytes of UTF-8": "é" * 100 + "x",
}


@pytest.mark.parametrize("name", BAD_NAMES.values(), ids=BAD_NAMES)
def test_what_could_lead_elsewhere_is_no_name(name: str) -> None:
    """Or could not be shown, or not be made."""
    with pytest.raises(ParameterError, match="name"):
        check_name(name)


@pytest.mark.parametrize("name", ["a", "breach", "é" * 100, "x" * 200, "-v", "a b", "a.mmb.3", "~"])
def test_all_else_is_a_name(tmp_path: Path, name: str) -> None:
    """The longest fits with the longest number."""
    files = Generations(str(tmp_path), check_name(name))
    (tmp_path / files.file_name((1 << 64) - 1)).write_bytes(b"")
    files.make_current((1 << 64) - 1)

    assert names_in(str(tmp_path)) == [name]
    assert files.current() == (1 << 64) - 1


def test_a_name_is_text() -> None:
    """Bytes and paths have no one meaning here."""
    with pytest.raises(ParameterTypeError):
        check_name(b"a")  # type: ignore[arg-type]


def test_names_are_those_of_regular_files(tmp_path: Path) -> None:
    """No links, no folders, nothing hidden, nothing else."""
    (tmp_path / "b.mmb").touch()
    (tmp_path / "a.mmb").touch()
    (tmp_path / "link.mmb").symlink_to("a.mmb")
    (tmp_path / "folder.mmb").mkdir()
    (tmp_path / ".hidden.mmb").touch()
    (tmp_path / "a.mmb.lock").touch()

    assert names_in(str(tmp_path)) == ["a", "b"]


def test_numbers_are_those_of_this_name_only(tmp_path: Path) -> None:
    """A name may look like a generation of another."""
    for name in (".a.mmb.2", ".a.mmb.10", ".a.mmb.0", ".a.mmb.01", ".a.mmb.x", ".a.mmb.3.mmb.4"):
        (tmp_path / name).touch()

    assert Generations(str(tmp_path), "a").numbers() == [2, 10]
    assert Generations(str(tmp_path), "a.mmb.3").numbers() == [4]


def test_making_the_current_one_current_again_leaves_nothing_behind(tmp_path: Path) -> None:
    """Renaming a file onto another name of it does nothing, not even to the old name."""
    files = Generations(str(tmp_path), "a")
    (tmp_path / ".a.mmb.1").write_bytes(b"1")
    for _ in range(2):
        files.make_current(1)

    assert all_names(tmp_path) == [".a.mmb.1", "a.mmb"]


def test_a_removal_ends_with_the_name_and_is_on_disk_when_it_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who is killed before leaves a name that can be removed once more, and no hidden files."""
    files = Generations(str(tmp_path), "a")
    for number in (1, 2):
        (tmp_path / f".a.mmb.{number}").write_bytes(b"1")
    files.make_current(2)
    steps: list[str] = []
    unlink, fsync = os.unlink, os.fsync

    def note_unlink(path: str) -> None:
        steps.append(os.path.basename(path))
        unlink(path)

    def note_fsync(fd: int) -> None:
        steps.append("sync of " + os.readlink(f"/proc/self/fd/{fd}"))
        fsync(fd)

    monkeypatch.setattr(os, "unlink", note_unlink)
    monkeypatch.setattr(os, "fsync", note_fsync)
    files.remove()

    assert steps == [".a.mmb.1", ".a.mmb.2", "a.mmb", f"sync of {tmp_path}"]
    assert all_names(tmp_path) == []


def test_what_killed_publishers_have_left_goes_with_the_name(tmp_path: Path) -> None:
    """It may be as large as the filter, or a link to one; a name that is longer keeps its own."""
    files = Generations(str(tmp_path), "a")
    (tmp_path / ".a.mmb.1").write_bytes(b"1")
    files.make_current(1)
    pid, rest = 1 << 22, f"{'0' * 16}.tmp"  # more than any PID
    left = [f".a.mmb.{pid}.{rest}", f"..a.mmb.0.{pid}.{rest}", f".ab.mmb.{pid}.{rest}"]
    for name in left:
        (tmp_path / name).touch()
    files.remove()

    assert all_names(tmp_path) == left[2:]


def test_a_file_that_somebody_writes_is_not_replaced(make_file: MakeFile) -> None:
    """What it adds afterwards would be lost."""
    path = make_file()
    files = Generations(str(path.parent), "a")
    (path.parent / ".a.mmb.2").write_bytes(b"2")
    with WritableFile.open(path):
        with pytest.raises(LockHeldError):
            files.make_current(2)
        with pytest.raises(LockHeldError):
            files.remove()

    assert os.path.samefile(path, files.path)
    assert all_names(path.parent) == [".a.mmb.2", "a.mmb", "a.mmb.lock"]
