"""The record of a run, and the records that are in the repository."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

TOOLS = Path(__file__).parents[3] / "tools"
RECORDS = sorted((TOOLS / "evidence").glob("*.json"))


@pytest.fixture
def record(tool: Callable[[str], ModuleType]) -> ModuleType:
    """Return the module that writes records."""
    return tool("evidence.record")


def test_a_new_run_replaces_the_record_of_the_run_before(
    record: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One file per command, named after it."""
    monkeypatch.setattr(record, "FOLDER", tmp_path)
    parser = argparse.ArgumentParser()
    record.add_options(parser, "follow")

    for generations in (5, 7):
        path = parser.parse_args(["--save"]).json
        record.write(path, record.text_of("follow", ["--save"], {}, {"published": generations}))

    assert [each.name for each in tmp_path.iterdir()] == ["follow.json"]
    assert json.loads((tmp_path / "follow.json").read_text())["published"] == 7


def test_without_an_option_nothing_is_written(record: ModuleType) -> None:
    """A trial run leaves the evidence as it is."""
    parser = argparse.ArgumentParser()
    record.add_options(parser, "follow")

    assert parser.parse_args([]).json is None
    record.write(None, "text")


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(["--folder", "/a", "--seed", "7", "--save"], id="two-words"),
        pytest.param(["--seed", "7", "--folder=/a", "--json=b.json"], id="with-equals"),
        pytest.param(["--seed", "7", "--tree", "/c", "--json", "b.json"], id="at-the-end"),
    ],
)
def test_a_record_has_the_command_without_paths(record: ModuleType, words: list[str]) -> None:
    """Paths mean nothing on another machine."""
    text = record.text_of("python tools/campaigns follow", words, {"cores": 2}, {})

    assert json.loads(text) == {
        "command": "python tools/campaigns follow --seed 7",
        "machine": {"cores": 2},
    }


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_a_record_belongs_to_a_command_and_has_a_machine_card(path: Path) -> None:
    """A renamed or removed command takes its record with it."""
    found = json.loads(path.read_text())

    room, name = "campaigns", path.stem
    if name.startswith("bench-"):
        room, name = "bench", name.removeprefix("bench-")
    readme = (TOOLS / room / "README.md").read_text()
    assert f"`{name}`" in readme
    assert f"tools/{room} {name}" in found["command"]
    assert found["machine"]["cpu"]
