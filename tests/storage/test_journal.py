"""A folder that one process leaves and another takes up."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Never

import pytest
from file_steps import names_in

from mmbloom.errors import LockHeldError, NoSpaceError
from mmbloom.storage import journal as journal_module
from mmbloom.storage.journal import Journal

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Return where the folder will be."""
    return str(tmp_path / ".a.resume")


def test_what_is_saved_is_there_for_the_next(tmp_path: Path, path: str) -> None:
    """Replaced whole; nothing else is in the folder."""
    with Journal(path) as journal:
        assert journal.load("state") is None
        journal.save("state", b"one")
        journal.save("state", b"two")
    with Journal(path) as journal:
        assert journal.load("state") == b"two"
        assert journal.file("state") == os.path.join(path, "state")

    assert names_in(tmp_path / ".a.resume") == ["state"]
    assert os.stat(path).st_mode & 0o777 == 0o700


@pytest.mark.parametrize("is_there", [False, True])
def test_the_folder_itself_is_on_disk_before_anything_is_in_it(
    tmp_path: Path, path: str, monkeypatch: pytest.MonkeyPatch, *, is_there: bool
) -> None:
    """Else a power loss takes it with all that was synced; who made it may have been killed."""
    if is_there:
        os.mkdir(path)
    real, synced = os.fsync, []

    def note(fd: int) -> None:
        synced.append((os.readlink(f"/proc/self/fd/{fd}"), os.path.isdir(path)))
        real(fd)

    monkeypatch.setattr(os, "fsync", note)
    with Journal(path):
        pass
    assert synced == [(str(tmp_path), True)]


def test_removing_takes_what_is_named_and_the_folder(tmp_path: Path, path: str) -> None:
    """In the order that is given: who is killed in between leaves what comes later."""
    with Journal(path) as journal:
        journal.save("state", b"one")
        (tmp_path / ".a.resume" / "spill.tmp").write_bytes(b"x")
        assert journal.names() == ["spill.tmp", "state"]
        journal.remove(["state", "never", "spill"])
    assert names_in(tmp_path) == []


def test_removing_leaves_what_others_have_put_there(tmp_path: Path, path: str) -> None:
    """A folder of that name may be somebody's."""
    with Journal(path) as journal:
        journal.save("state", b"one")
        (tmp_path / ".a.resume" / "thesis").write_bytes(b"x")
        journal.remove(["state"])
    assert names_in(tmp_path / ".a.resume") == ["thesis"]


def test_a_write_that_fails_keeps_what_was_there(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And names the file."""

    def full(_fd: int) -> Never:
        raise OSError(28, "No space left on device")

    with Journal(path) as journal:
        journal.save("state", b"one")
        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(NoSpaceError) as caught:
            journal.save("state", b"two")
        assert path in str(caught.value.filename)
        assert journal.load("state") == b"one"


def test_one_at_a_time(path: str) -> None:
    """The second is refused, by name, until the first lets go."""
    with Journal(path), pytest.raises(LockHeldError) as caught:
        Journal(path)
    assert caught.value.path == path
    with Journal(path):
        pass


def test_a_folder_that_was_removed_before_its_lock_was_taken_is_made_again(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else two processes would hold two folders of one name."""
    real, calls = journal_module.try_flock, []

    def late(fd: int) -> bool:
        calls.append(fd)
        if len(calls) == 1:
            os.rmdir(path)
        return real(fd)

    monkeypatch.setattr(journal_module, "try_flock", late)
    with Journal(path) as journal:
        journal.save("state", b"one")
        assert journal.load("state") == b"one"
    assert len(calls) == 2
