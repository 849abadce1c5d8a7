"""The campaign follow: its files, and what a reader counts."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import pytest

import mmbloom

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import ModuleType


@pytest.fixture
def files(tool: Callable[[str], ModuleType]) -> ModuleType:
    """Return the module that makes files."""
    return tool("campaigns.follow_files")


@pytest.mark.parametrize("kind", ["bloom", "fuse", "counting"])
def test_a_follower_accepts_every_good_file_and_no_bad_file(
    files: ModuleType, tmp_path: Path, kind: str
) -> None:
    """Each bad file is reported, and the earlier generation stays in use."""
    shelf, path = files.Shelf(tmp_path, kind), tmp_path / "followed.mmb"
    mmbloom.publish(path, shelf.good[-1])
    layouts = set()
    with mmbloom.open(path, follow=0) as found:
        for number, source in enumerate(shelf.good):
            files.publish_next(source, path)
            layouts.add(found.layout)
            assert own_keys(files, found) == [number]
            bad = files.BAD[number % len(files.BAD)]
            bad(shelf, source, path)
            with pytest.warns(RuntimeWarning, match="goes on answering"):
                assert own_keys(files, found) == [number]

    assert len(layouts) == {"bloom": 4, "fuse": 2, "counting": 1}[kind]


def own_keys(files: ModuleType, found: mmbloom.BloomFilter) -> list[int]:
    """Return the numbers of the own keys that are in; all shared keys must be in."""
    answers = found.contains_many(files.SHARED + files.OWN)
    assert answers[: files.NUM_SHARED].all()
    return [int(i) for i in answers[files.NUM_SHARED :].nonzero()[0]]


def test_a_process_that_follows_counts_what_it_saw(
    tool: Callable[[str], ModuleType], files: ModuleType, tmp_path: Path
) -> None:
    """Two generations, one after the other."""
    follow, shelf, path = (
        tool("campaigns.follow"),
        files.Shelf(tmp_path, "fuse"),
        tmp_path / "followed.mmb",
    )
    mmbloom.publish(path, shelf.good[0])

    class Script:
        """Lets the reader run twice, and publishes in between."""

        asked = 0

        def release(self) -> None:
            """Receive the signal that the file is open."""

        def is_set(self) -> bool:
            """Return whether to stop."""
            self.asked += 1
            if self.asked == 3:
                files.publish_next(shelf.good[1], path)
            return self.asked > 3

    script = Script()
    with warnings.catch_warnings():
        seen = follow.read_on(str(path), "map", 0.0, script, script)

    num_keys = len(files.SHARED) + len(files.OWN) + len(files.SHARED[::10])
    assert seen == follow.Seen(2 * num_keys, 2, 0, 0, 0, 0, 0, 0)
