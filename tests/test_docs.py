"""The pages of the manual: examples run, and commands, tables and mentions are right."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from doc_examples import PAGES, blocks, check_command, check_sizes, commands_of, run_session

import mmbloom
from mmbloom.cli import COMMANDS

if TYPE_CHECKING:
    from pathlib import Path

WITH_EXAMPLES = [page for page, text in PAGES.items() if blocks(text, "python")]
SHOWN = [(page, words) for page, text in PAGES.items() for words in commands_of(text)]


def test_the_package_has_its_pages() -> None:
    """Also the installed one; and most of them have examples, so that the tests have cases."""
    assert len(PAGES) > 5
    assert all(page.endswith(".md") for page in PAGES)
    assert len(WITH_EXAMPLES) > 5
    assert len(SHOWN) > 20


@pytest.mark.parametrize("page", WITH_EXAMPLES)
def test_the_examples_of_a_page_print_what_it_says(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The blocks of a page are one session, in an empty folder."""
    monkeypatch.chdir(tmp_path)

    assert run_session(page, PAGES[page]) > 1


@pytest.mark.parametrize(
    ("page", "command"), SHOWN, ids=[f"{page}: {' '.join(words)}" for page, words in SHOWN]
)
def test_a_command_of_a_page_has_the_options_that_it_shows(page: str, command: list[str]) -> None:
    """Its words are parsed; nothing runs."""
    del page
    check_command(command)


def test_the_page_of_commands_shows_every_command() -> None:
    """A new command gets an example there."""
    assert {words[0] for words in commands_of(PAGES["commands.md"])} == set(COMMANDS)


@pytest.mark.parametrize("page", PAGES)
def test_the_pages_that_a_page_mentions_exist(page: str) -> None:
    """As "see `mmbloom help TOPIC`"."""
    mentioned = re.findall(r"mmbloom\s+help\s+([a-z]+)", PAGES[page])

    assert {f"{topic}.md" for topic in mentioned} <= set(PAGES)


@pytest.mark.parametrize("page", PAGES)
def test_the_public_names_that_a_page_mentions_exist(page: str) -> None:
    """Classes and errors of mmbloom, in backquotes or in examples as ``mmbloom.NAME``."""
    used = re.findall(
        r"\bmmbloom\.([A-Za-z_]+)\b(?!/|\.py)", "".join(blocks(PAGES[page], "python"))
    )

    assert set(used) <= set(mmbloom.__all__)


@pytest.mark.parametrize("page", PAGES)
def test_a_page_fits_a_terminal(page: str) -> None:
    """Text within 80 columns, tables and examples within 100."""
    prose = re.sub(r"^```.*?^```$", "", PAGES[page], flags=re.DOTALL | re.MULTILINE)
    rows = [line for line in prose.splitlines() if not line.startswith("|")]

    assert max(map(len, rows)) <= 80
    assert max(map(len, PAGES[page].splitlines())) <= 100


def test_the_sizes_of_kinds_are_those_of_plan(capsys: pytest.CaptureFixture[str]) -> None:
    """Bits per key for many keys, for every layout."""
    check_sizes(PAGES["kinds.md"], capsys)


def test_the_table_of_exceptions_is_complete() -> None:
    """Every public exception, with classes that it really inherits from."""
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \|", PAGES["failures.md"], re.MULTILINE)
    errors = {
        name
        for name in mmbloom.__all__
        if isinstance(found := getattr(mmbloom, name), type)
        and issubclass(found, mmbloom.MmbloomError)
    }

    assert sorted(name for name, _ in rows) == sorted(errors - {"MmbloomError"})
    for name, parents in rows:
        inherited = {kind.__name__ for kind in getattr(mmbloom, name).__mro__}
        assert set(re.findall(r"`(\w+)`", parents)) <= inherited, name
