"""README is run: its examples, its commands, and its figures of sizes."""

from __future__ import annotations

import doctest
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mmbloom import plan
from mmbloom.cli import main

if TYPE_CHECKING:
    from collections.abc import Iterator

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
COMMANDS = re.findall(r"^mmbloom (\w+)", README, re.MULTILINE)
TESTS = re.findall(r"`(test_\w+)`", README)
RATES = (0.01, 0.001, 0.0001, 0.00001)


def _layout_rows() -> Iterator[tuple[str, list[float]]]:
    for layout in ("line", "page", "classic"):
        row = re.search(rf"^\| `{layout}` \|[^|]*\|([^|]*)\|", README, re.MULTILINE)
        assert row is not None
        yield layout, [float(figure) for figure in row[1].split("/")]


def test_the_examples_print_what_readme_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The blocks are one session, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    session = doctest.DocTestParser().get_doctest("\n".join(EXAMPLES), {}, "README.md", None, 0)
    runner = doctest.DocTestRunner()

    runner.run(session)

    assert runner.summarize(verbose=False).failed == 0
    assert runner.tries > 8


@pytest.mark.parametrize("command", sorted(set(COMMANDS)))
def test_a_command_of_readme_exists(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each has a help page."""
    assert main([command, "--help"]) == 0
    assert command in capsys.readouterr().out


def test_the_options_of_readme_exist(capsys: pytest.CaptureFixture[str]) -> None:
    """Every option that README shows is on the help page of its command."""
    lines = [line for line in README.splitlines() if line.startswith("mmbloom ")]
    for line in lines:
        words = shlex.split(line, comments=True)
        assert main([words[1], "--help"]) == 0
        page = capsys.readouterr().out
        for word in words:
            if word.startswith("-") and word != "-":
                assert word in page, (line, word)


def test_every_test_that_readme_names_is_collected(collected: list[str]) -> None:
    """What is said to be tested is tested, by the command that README gives."""
    found = {test.split("::")[1].partition("[")[0] for test in collected}

    assert len(TESTS) > 30
    assert set(TESTS) <= found


@pytest.mark.parametrize(("layout", "figures"), list(_layout_rows()))
def test_the_sizes_of_readme_are_those_of_plan(layout: str, figures: list[float]) -> None:
    """Bits a key for many keys, to two digits."""
    planned = [plan(10**9, fpr, layout).num_bits / 10**9 for fpr in RATES]

    assert figures == pytest.approx(planned, abs=0.006)
