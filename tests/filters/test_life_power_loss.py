"""Power loss at every step of a file's life; the campaign crash-files does it many more times."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

TOOLS = Path(__file__).parents[2] / "tools"
LIVES = (
    *("create_and_add", "create_and_seal", "add_to_old", "count_and_remove"),
    *("replace_by_save", "save_new_and_to_bloom", "build_new", "build_new_fuse"),
    *("replace_by_build", "replace_by_spilled_build", "replace_by_spilled_fuse"),
    *("replace_by_direct_build", "resume_build", "resume_fuse"),
    *("merge_new", "replace_by_merge"),
    *("publish_over_and_over", "publish_fuse", "publish_counting", "save_stack"),
    *("store_publish", "store_publish_keep_none", "store_takes_up", "store_roll_back"),
    "store_remove",
)
# One step in so many is taken: the tool takes all, many times. What is slow builds after each.
EVERY, EVERY_OF_SLOW, EVERY_WITHOUT_UNNAMED = 4, 30, 8


@pytest.fixture(scope="module")
def crash_files() -> Iterator[Any]:
    """Import the tool."""
    sys.path.insert(0, str(TOOLS))
    from campaigns import crash_files

    yield crash_files
    sys.path.remove(str(TOOLS))


@pytest.mark.parametrize("name", LIVES)
def test_power_loss_at_any_step_leaves_no_file_the_old_one_or_a_valid_one(
    crash_files: Any,  # noqa: ANN401 - a module
    name: str,
) -> None:
    """Every key that a call had returned for is found, whatever the disk kept of the rest."""
    life = lives_of(crash_files)[name]
    every = EVERY_OF_SLOW if life in crash_files.SLOW_LIVES else EVERY
    steps, outcomes, findings = crash_files.crash_life(life, 1, seed=5, every=every)

    assert findings == []
    assert sum(outcomes.values()) == steps // every >= 2


@pytest.mark.parametrize("name", [name for name in LIVES if not name.startswith("resume")])
def test_power_loss_where_every_file_has_a_name_from_the_beginning_leaves_no_more(
    crash_files: Any,  # noqa: ANN401 - a module
    name: str,
) -> None:
    """On a disk without unnamed files; what lies about is removed by who comes next."""
    life = lives_of(crash_files)[name]
    asked = {"has_unnamed_files": False, "every": EVERY_WITHOUT_UNNAMED}
    assert crash_files.crash_life(life, 1, seed=5, **asked)[2] == []


def test_every_life_of_the_tool_is_tested(crash_files: Any) -> None:  # noqa: ANN401 - a module
    """A new one is not forgotten here."""
    assert tuple(lives_of(crash_files)) == LIVES


@pytest.mark.parametrize(
    "name", ["create_and_add", "create_and_seal", "replace_by_save", "save_stack", "store_publish"]
)
def test_the_simulated_disk_notices_when_nothing_is_synced(
    crash_files: Any,  # noqa: ANN401 - a module
    name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So the tests above would fail without the syncs."""
    monkeypatch.setattr(crash_files.SimulatedDisk, "_fsync", lambda *_: None)
    monkeypatch.setattr(crash_files.SimulatedDisk, "_fdatasync", lambda *_: None)

    assert crash_files.crash_life(lives_of(crash_files)[name], 1, seed=5)[2]


def test_the_simulated_disk_notices_what_is_written_past_it(
    crash_files: Any,  # noqa: ANN401 - a module
) -> None:
    """Else it would lose in silence what a program does in a new way."""

    def life(folder: Path, _promise: object) -> None:
        (folder / "a.mmb").write_bytes(b"by the calls of io, not of os")

    with pytest.raises(RuntimeError, match=r"past the recorder: \['a.mmb'\]"):
        crash_files.crash_life(life, 1, seed=5)


def lives_of(crash_files: Any) -> dict[str, Any]:  # noqa: ANN401 - a module
    """Return the lives by their names."""
    return {life.__name__: life for life in crash_files.LIVES}
