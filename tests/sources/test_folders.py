"""Folders of small files."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from mmbloom.sources.folders import Folder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    """Return an open folder."""
    for name in ("b", "a", ".hidden", "a.lock"):
        (tmp_path / name).write_text(name)
    opened = Folder(tmp_path)
    yield opened
    opened.close()


def test_visible_files_are_listed_in_order(folder: Folder) -> None:
    """Hidden files and lock files are not."""
    assert folder.files == ["a", "b"]


@pytest.mark.parametrize("num_bytes", [0, 1, 65535, 65536, 65537, 200_000])
def test_a_file_is_read_whole(folder: Folder, tmp_path: Path, num_bytes: int) -> None:
    """Whatever its size compared with the size of a read."""
    (tmp_path / "a").write_bytes(b"x" * num_bytes)

    assert folder.read("a") == b"x" * num_bytes


def test_an_error_of_the_system_names_the_file(folder: Folder, tmp_path: Path) -> None:
    """With its folder. No descriptor stays open."""
    (tmp_path / "b").unlink()
    (tmp_path / "b").mkdir()
    before = len(os.listdir("/proc/self/fd"))

    for name, error in {"gone": FileNotFoundError, "b": IsADirectoryError}.items():
        with pytest.raises(error) as caught:
            folder.read(name)
        assert caught.value.filename == str(tmp_path / name)
    assert len(os.listdir("/proc/self/fd")) == before


def test_the_digest_changes_with_the_folder(folder: Folder, tmp_path: Path) -> None:
    """When the size or the date of a file changes."""
    before = folder.digest()
    assert folder.digest() == before

    os.utime(tmp_path / "a", ns=(1, 1))
    dated = folder.digest()
    (tmp_path / "b").write_text("longer")
    assert len({before, dated, folder.digest()}) == 3


def test_a_file_is_not_a_folder(tmp_path: Path) -> None:
    """It is the error of the operating system."""
    (tmp_path / "a").write_text("")

    with pytest.raises(NotADirectoryError):
        Folder(tmp_path / "a")
