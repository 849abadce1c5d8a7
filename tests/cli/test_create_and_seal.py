"""A filter file that begins empty, from the shell: create, add, seal."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import mmbloom

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Run


@pytest.mark.parametrize("kind", ["bloom", "counting"])
def test_keys_are_added_to_an_empty_file_which_is_then_sealed(run: Run, kind: str) -> None:
    """A sealed file has checksums, and no key can be added to it."""
    made = run("create", "a.mmb", "--capacity", "1e3", "--kind", kind, "--meta", "source=crawl")
    assert made.code == 0
    assert b"0 of 1,000" in made.out
    assert b"0.001 (1 in 1,000) when full" in made.out
    assert run("add", "a.mmb", "-", "-q", stdin=b"ada\ngrace\n") == (0, b"", "")

    sealed = run("seal", "a.mmb")

    assert sealed.code == 0
    assert b"2 of 1,000" in sealed.out
    with mmbloom.open("a.mmb") as found:
        assert found.sealed
        assert found.kind == kind
        assert found.metadata == {"source": "crawl"}
        assert found.verify() > 0
        assert "ada" in found
    again = run("seal", "a.mmb")
    assert (again.code, again.out) == (2, b"")
    assert again.err == "mmbloom seal: error: a.mmb: already sealed\n"


def test_the_options_of_create_are_stored(run: Run) -> None:
    """As --json prints them."""
    options = ("--layout", "page", "--seed", "7", "--key-form", "hex", "--overfill")
    made = run("create", "a.mmb", "--capacity", "100", "--fpr", "1e-4", *options, "--json")

    facts = json.loads(made.out)

    expected = {"layout": "page", "seed": 7, "key_form": "hex", "overfill": True, "fpr": 1e-4}
    assert {name: facts[name] for name in expected} == expected
    assert (facts["capacity"], facts["keys_added"], facts["state"]) == (100, 0, "writable")
    assert json.loads(run("seal", "a.mmb", "--json").out)["state"] == "sealed"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        pytest.param(["--capacity", "0"], "--capacity: expected 1", id="no-room"),
        pytest.param(["--capacity", "9", "--fpr", "2"], "--fpr: expected", id="rate"),
        pytest.param(["--capacity", "9", "--kind", "fuse"], "invalid choice: 'fuse'", id="kind"),
        pytest.param(["--capacity", "9", "--meta", "x"], "expected NAME=VALUE", id="metadata"),
    ],
)
def test_a_wrong_option_of_create_makes_no_file(
    run: Run, folder: Path, words: list[str], says: str
) -> None:
    """The message names the option."""
    outcome = run("create", "a.mmb", *words)

    assert (outcome.code, outcome.out) == (2, b"")
    assert says in outcome.err
    assert not (folder / "a.mmb").exists()


def test_create_never_replaces_a_file(run: Run, folder: Path) -> None:
    """There is no --force: the keys would be lost."""
    (folder / "a.mmb").write_bytes(b"kept")

    outcome = run("create", "a.mmb", "--capacity", "9")

    assert (outcome.code, outcome.out) == (2, b"")
    assert (folder / "a.mmb").read_bytes() == b"kept"


def test_the_rate_of_a_build_has_a_default_that_is_told(run: Run, folder: Path) -> None:
    """In the summary, in JSON and in the help."""
    (folder / "list.txt").write_bytes(b"ada\ngrace\n")

    assert b"asked for 0.001" in run("build", "list.txt", "-o", "a.mmb").out
    told = run("build", "list.txt", "-o", "b.mmb", "--json").out
    assert json.loads(told)["fpr"] == mmbloom.DEFAULT_FPR
    assert b"false-positive rate (default 0.001)" in run("build", "--help").out
