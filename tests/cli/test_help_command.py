"""``mmbloom help``: the pages of the manual, and the list of them."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import Run

PAGES = {
    page.name.removesuffix(".md"): page.read_text(encoding="utf-8")
    for page in (files("mmbloom") / "docs").iterdir()
}


@pytest.mark.parametrize("topic", sorted(PAGES))
def test_a_page_is_printed_as_it_is(run: Run, topic: str) -> None:
    """Byte for byte, so that it can be piped into a program for Markdown."""
    assert run("help", topic) == (0, PAGES[topic].encode(), "")


def test_without_a_topic_every_page_is_listed_with_its_title(run: Run) -> None:
    """One line for each page, sorted, within 80 columns."""
    outcome = run("help")

    lines = outcome.out.decode().splitlines()
    assert outcome.code == 0
    assert [line.split()[0] for line in lines] == sorted(PAGES)
    for line in lines:
        topic, _, title = line.partition(" ")
        assert PAGES[topic].startswith(f"# {topic.capitalize()}: {title.strip()}\n")
        assert title.strip()
        assert len(line) <= 80


def test_an_unknown_topic_is_an_error_that_names_the_pages(run: Run) -> None:
    """With exit code 2 and nothing on standard output."""
    code, out, err = run("help", "kind")

    assert (code, out) == (2, b"")
    assert f"mmbloom help: error: no page 'kind'; the pages are {', '.join(sorted(PAGES))}" in err


def test_the_name_of_a_command_prints_its_help(run: Run) -> None:
    """The same text as --help."""
    assert run("help", "build") == run("build", "--help")


def test_pages_as_json(run: Run) -> None:
    """The list is an object of titles; a page comes with its text."""
    listed = json.loads(run("help", "--json").out)
    page = json.loads(run("help", "kinds", "--json").out)

    assert sorted(listed["topics"]) == sorted(PAGES)
    assert page == {"topic": "kinds", "text": PAGES["kinds"]}
