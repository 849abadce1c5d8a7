"""README: its examples run, its commands exist, its figures of sizes and its links are right."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

import pytest
from doc_examples import PAGES, check_command, check_sizes, commands_of, run_session

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = commands_of(README)


def test_the_examples_print_what_readme_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The blocks are one session, in an empty folder."""
    monkeypatch.chdir(tmp_path)

    assert run_session("README.md", README) > 8


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_command_of_readme_has_the_options_that_it_shows(command: list[str]) -> None:
    """Its words are parsed; nothing runs."""
    check_command(command)


def test_readme_shows_commands() -> None:
    """The test above has cases."""
    assert len(COMMANDS) > 8


def test_the_sizes_of_readme_are_those_of_plan(capsys: pytest.CaptureFixture[str]) -> None:
    """Bits per key for many keys, for every layout."""
    check_sizes(README, capsys)


def test_readme_is_short() -> None:
    """What is longer is a page of the manual."""
    assert len(README.splitlines()) <= 250


def test_the_links_of_readme_lead_to_files() -> None:
    """To files of the repository; those of the package may be installed elsewhere."""
    links = [link for link in re.findall(r"\]\(([^)]+)\)", README) if "://" not in link]

    assert {f"mmbloom/docs/{page}" for page in PAGES} <= set(links)
    for link in links:
        room, _, below = link.partition("/")
        root = files("mmbloom") if room == "mmbloom" else ROOT / room
        assert (root / below).is_file(), link
