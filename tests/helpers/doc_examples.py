"""Examples in Markdown: Python sessions are run, ``mmbloom`` command lines are parsed."""

from __future__ import annotations

import doctest
import json
import re
import shlex
from importlib import import_module
from importlib.resources import files
from typing import TYPE_CHECKING

import pytest

from mmbloom.cli import COMMANDS, main
from mmbloom.cli.options import Parser

if TYPE_CHECKING:
    from collections.abc import Iterator

# The pages of the installed package, so that a wheel without them fails.
PAGES = {
    page.name: page.read_text(encoding="utf-8")
    for page in sorted((files("mmbloom") / "docs").iterdir(), key=lambda page: page.name)
}

_SUBSTITUTION = re.compile(r"\$\(([^)]*)\)")


def blocks(text: str, language: str) -> list[str]:
    """Return the code blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def run_session(name: str, text: str) -> int:
    """Run the Python blocks of a text as one session; return how many examples it has."""
    session = doctest.DocTestParser().get_doctest(
        "\n".join(blocks(text, "python")), {}, name, None, 0
    )
    runner = doctest.DocTestRunner()
    runner.run(session)
    assert runner.summarize(verbose=False).failed == 0
    return runner.tries


def commands_of(text: str) -> list[list[str]]:
    """Return the words behind ``mmbloom`` of every command in the shell blocks of a text."""
    lines = "".join(blocks(text, "sh")).splitlines()
    return [words for line in lines for words in _commands_in(line)]


def _commands_in(line: str) -> Iterator[list[str]]:
    for inner in _SUBSTITUTION.findall(line):
        yield from _commands_in(inner)
    tokens = shlex.shlex(line, posix=True, punctuation_chars=True)
    tokens.whitespace_split = True
    words: list[str] = []
    takes_file = False
    for token in [*tokens, ";"]:
        if token in {"<", ">"}:
            takes_file = True
        elif takes_file:
            takes_file = False
        elif token in {"|", "&&", ";"}:
            if words[:1] == ["mmbloom"]:
                yield words[1:]
            words = []
        else:
            words.append(token)


def check_command(words: list[str]) -> None:
    """Parse the words as the command does, without running it.

    Raises:
        SystemExit: there is no such command or option, or a value is wrong.
    """
    name, *arguments = words
    assert name in COMMANDS, words
    module = import_module(f"mmbloom.cli.{name}")
    parser = Parser(f"mmbloom {name}", module.DESCRIPTION, module.EPILOG)
    module.add_arguments(parser)
    parser.parse(arguments)


def size_rows(text: str) -> list[tuple[str, list[str]]]:
    """Return the layouts of tables with their bits per key, at 1 %, at 0.1 % and so on."""
    row = r"^\|.*?`(\w+)` *\|(?:.*?\|)? ([\d.]+(?: / [\d.]+)+) *\|"
    found = re.findall(row, text, re.MULTILINE)
    return [(layout, figures.split(" / ")) for layout, figures in found]


def check_sizes(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Compare every layout's bits per key with those of ``mmbloom plan`` for a billion keys."""
    planned = [_planned_bits(fpr, capsys) for fpr in ("0.01", "0.001", "0.0001", "0.00001")]
    rows = size_rows(text)
    assert sorted(layout for layout, _ in rows) == sorted(planned[0])
    for layout, figures in rows:
        for figure, bits in zip(figures, planned, strict=False):
            digits = len(figure.partition(".")[2])
            assert float(figure) == pytest.approx(bits[layout], abs=0.6 / 10**digits), layout


def _planned_bits(fpr: str, capsys: pytest.CaptureFixture[str]) -> dict[str, float]:
    assert main(["plan", "--keys", "1e9", "--fpr", fpr, "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    return {row["layout"]: row["bits_per_key"] for row in plan["layouts"]}
