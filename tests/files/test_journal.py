"""A folder that one process leaves and another takes up."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Never

import pytest
from file_steps import names_in

from mmbloom.errors import LockHeldError
from mmbloom.files.journal import Journal, remove_stale_journal

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


def test_removing_takes_everything(tmp_path: Path, path: str) -> None:
    """Also what others have put there."""
    with Journal(path) as journal:
        journal.save("state", b"one")
        (tmp_path / ".a.resume" / "spill").write_bytes(b"x")
        journal.remove()
    assert names_in(tmp_path) == []


def test_a_write_that_fails_keeps_what_was_there(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And names the file."""

    def full(_fd: int) -> Never:
        raise OSError(28, "No space left on device")

    with Journal(path) as journal:
        journal.save("state", b"one")
        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space") as caught:
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


def test_a_stale_folder_is_taken_away_and_one_in_use_is_not(tmp_path: Path, path: str) -> None:
    """None at all is fine too."""
    remove_stale_journal(path)
    with Journal(path) as journal:
        journal.save("state", b"one")
        remove_stale_journal(path)
        assert journal.load("state") == b"one"
    remove_stale_journal(path)
    assert names_in(tmp_path) == []


def test_what_is_no_folder_of_ours_stays(tmp_path: Path, path: str) -> None:
    """A file, or a link to somewhere else."""
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").write_bytes(b"precious")
    os.symlink("precious", path)
    remove_stale_journal(path)
    os.unlink(path)
    (tmp_path / ".a.resume").write_bytes(b"x")
    remove_stale_journal(path)

    assert (tmp_path / "precious" / "file").read_bytes() == b"precious"
    assert names_in(tmp_path) == [".a.resume", "precious"]
