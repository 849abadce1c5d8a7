"""Power loss at every step of a file's life; tools/crash_files.py does the same many more times."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

TOOLS = Path(__file__).parents[2] / "tools"
LIVES = (
    "create_and_add",
    "create_and_seal",
    "add_to_old",
    "replace_by_save",
    "build_new",
    "replace_by_build",
)


@pytest.fixture(scope="module")
def crash_files() -> Iterator[Any]:
    """Import the tool."""
    sys.path.insert(0, str(TOOLS))
    import crash_files

    yield crash_files
    sys.path.remove(str(TOOLS))


@pytest.mark.parametrize("name", LIVES)
def test_power_loss_at_any_step_leaves_no_file_the_old_one_or_a_valid_one(
    crash_files: Any,  # noqa: ANN401 - a module
    name: str,
) -> None:
    """Every key that a call had returned for is found, whatever the disk kept of the rest."""
    steps, outcomes, findings = crash_files.crash_life(getattr(crash_files, name), 1, seed=5)

    assert findings == []
    assert sum(outcomes.values()) == steps >= 10


def test_every_life_of_the_tool_is_tested(crash_files: Any) -> None:  # noqa: ANN401 - a module
    """A new one is not forgotten here."""
    assert tuple(life.__name__ for life in crash_files.LIVES) == LIVES


@pytest.mark.parametrize("name", ["create_and_add", "create_and_seal", "replace_by_save"])
def test_the_simulated_disk_notices_when_nothing_is_synced(
    crash_files: Any,  # noqa: ANN401 - a module
    name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So the tests above would fail without the syncs."""
    monkeypatch.setattr(crash_files.SimulatedDisk, "_fsync", lambda *_: None)
    monkeypatch.setattr(crash_files.SimulatedDisk, "_fdatasync", lambda *_: None)

    assert crash_files.crash_life(getattr(crash_files, name), 1, seed=5)[2]
