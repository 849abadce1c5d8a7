"""The command that runs campaigns, and the page that describes them."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

CAMPAIGNS = Path(__file__).parents[3] / "tools" / "campaigns"
README = (CAMPAIGNS / "README.md").read_text(encoding="utf-8")


def _names() -> list[str]:
    """Return the modules with a main(), as commands."""
    names = []
    for path in sorted(CAMPAIGNS.glob("[!_]*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        if any(isinstance(node, ast.FunctionDef) and node.name == "main" for node in tree.body):
            names.append(path.stem.replace("_", "-"))
    return names


def run(*words: str) -> subprocess.CompletedProcess[str]:
    """Run the command."""
    command = [sys.executable, str(CAMPAIGNS), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - this Python


def test_every_campaign_has_a_command() -> None:
    """The list of the help page is the list of modules."""
    shown = run("--help").stdout.partition("{")[2].partition("}")[0]

    assert shown.split(",") == _names()


@pytest.mark.parametrize("name", _names())
def test_every_campaign_is_described(name: str) -> None:
    """The page has a row for it."""
    assert f"| `{name}` |" in README


def test_a_campaign_gets_its_own_options() -> None:
    """The help page is that of the campaign, under its name."""
    done = run("find-all", "--help")

    assert done.returncode == 0
    assert done.stdout.startswith("usage: campaigns find-all ")
    assert "--lookups" in done.stdout


def test_an_unknown_campaign_is_refused() -> None:
    """The message lists those that there are."""
    done = run("no-such")

    assert done.returncode == 2
    assert "fuzz-files" in done.stderr
