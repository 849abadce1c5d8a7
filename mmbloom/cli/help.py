"""``mmbloom help``: the pages of the manual, which ship with the package."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING

from mmbloom.cli import COMMANDS, main, output, streams
from mmbloom.cli.options import UsageError

if TYPE_CHECKING:
    import argparse

DESCRIPTION = """\
Print a page of the manual, or without TOPIC list the pages. Pages are Markdown
text. For the name of a command it prints what 'mmbloom COMMAND --help' does.
"""
EPILOG = """\
examples:
  mmbloom help
  mmbloom help kinds
  mmbloom help build        # the same as 'mmbloom build --help'
"""

_SUFFIX = ".md"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    parser.add_argument("topic", nargs="?", metavar="TOPIC", help="a page or a command")
    output.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print one page, or the list of pages."""
    pages = _pages()
    topic = arguments.topic
    if topic is None:
        titles = {name: _title(text) for name, text in pages.items()}
        if arguments.json:
            output.print_json({"topics": titles})
        else:
            output.print_rows(titles.items())
        return 0
    if topic in COMMANDS and topic not in pages:
        return main([topic, "--help"])
    if topic not in pages:
        raise UsageError(f"no page {topic!r}; the pages are {', '.join(pages)}")
    if arguments.json:
        output.print_json({"topic": topic, "text": pages[topic]})
    else:
        streams.write(pages[topic])
    return 0


def _pages() -> dict[str, str]:
    """Return the text of every page by its topic, sorted."""
    found = (files("mmbloom") / "docs").iterdir()
    texts = {
        page.name.removesuffix(_SUFFIX): page.read_text(encoding="utf-8")
        for page in found
        if page.name.endswith(_SUFFIX)
    }
    return dict(sorted(texts.items()))


def _title(text: str) -> str:
    """Return what a page is about: its heading behind the colon."""
    return text.partition("\n")[0].partition(": ")[2]
