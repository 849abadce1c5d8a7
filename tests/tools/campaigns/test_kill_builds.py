"""The campaign kill-builds: it notices what a kill must not leave."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

import mmbloom

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import ModuleType

NUM_LINES = 2000


@pytest.fixture
def kill_builds(tool: Callable[[str], ModuleType]) -> ModuleType:
    """Return the campaign."""
    return tool("campaigns.kill_builds")


def test_every_kill_is_counted(
    kill_builds: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Killed or ended before; absent, old or complete; nothing wrong."""
    words = ["--rounds", "2", "--lines", str(NUM_LINES), "--scenarios", "over"]
    monkeypatch.setattr(sys, "argv", ["campaigns kill-builds", *words])

    assert kill_builds.main() == 0

    lines = capsys.readouterr().out.splitlines()
    head, row = (
        next(line for line in lines if "rounds" in line),
        next(line for line in lines if line.startswith("| over")),
    )
    names = [cell.strip() for cell in head.split("|")[2:-1]]
    cells = dict(zip(names, (float(cell) for cell in row.split("|")[2:-1]), strict=True))
    assert cells["killed"] + cells["ended before"] == cells["rounds"] == 2
    assert cells["old"] + cells["complete"] == 2
    assert cells["absent"] == cells["wrong"] == 0


def cut(shop: ModuleType) -> None:
    """Leave a file without its end."""
    shop.target.write_bytes(shop.target.read_bytes()[:-100])


def lose_a_key(shop: ModuleType) -> None:
    """Leave a valid file of another list."""
    shop.target.unlink()
    keys = shop.lines.read_text().splitlines()[1:]
    hashes = [key.partition(":")[0] for key in keys]
    mmbloom.build(shop.target, hashes, fpr=0.001, key_form="hex").close()


def flip(shop: ModuleType) -> None:
    """Leave a file with a wrong byte."""
    found = bytearray(shop.target.read_bytes())
    found[5000] ^= 1
    shop.target.write_bytes(found)


@pytest.mark.parametrize("damage", [cut, lose_a_key, flip])
def test_a_target_that_is_neither_old_nor_complete_is_wrong(
    kill_builds: ModuleType, tmp_path: Path, damage: Callable[[object], None]
) -> None:
    """Whether it can be opened or not."""
    shop = kill_builds.Workshop(tmp_path, NUM_LINES, "32M")
    with mmbloom.read_list(shop.lines, delimiter=":") as keys:
        mmbloom.build(shop.target, keys, fpr=0.001, key_form="hex").close()
    body = shop.body_of_complete()
    assert shop.state(body) == "complete"

    damage(shop)

    with pytest.raises(kill_builds.Wrong):
        shop.state(body)


def test_what_is_left_of_spilled_keys_is_wrong(kill_builds: ModuleType, tmp_path: Path) -> None:
    """Nothing would remove it later."""
    shop = kill_builds.Workshop(tmp_path, 1, "32M")
    shop.refuse_spills("nothing")
    (shop.spills / "keys").touch()

    with pytest.raises(kill_builds.Wrong, match="keys"):
        shop.refuse_spills("a build")
