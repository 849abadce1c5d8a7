"""Paths and patterns of lists."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from mmbloom.errors import ParameterError, SourceError
from mmbloom.sources.patterns import facts_of, matching

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with some lists, as the current folder."""
    for name in ("b.txt", "a.txt", "a[1].txt", "c.csv", "deep/d.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("patterns", "paths"),
    [
        (["b.txt", "a.txt"], ["b.txt", "a.txt"]),
        (["?.txt"], ["a.txt", "b.txt"]),
        (["c.csv", "[ab].txt"], ["c.csv", "a.txt", "b.txt"]),
        (["**/d.txt"], ["deep/d.txt"]),
        (["a[1].txt"], ["a[1].txt"]),
        (["-", "a.txt"], ["-", "a.txt"]),
    ],
)
@pytest.mark.usefixtures("folder")
def test_a_pattern_stands_for_its_matches(patterns: list[str], paths: list[str]) -> None:
    """They are sorted, in its place. A path that exists is not taken as a pattern."""
    assert [facts.path for facts in matching(patterns)] == paths


@pytest.mark.usefixtures("folder")
def test_a_pattern_without_a_match_is_an_error() -> None:
    """The shell passes it on as it was typed."""
    with pytest.raises(SourceError, match=r"x\*.txt: no file matches this pattern"):
        matching(["a.txt", "x*.txt"])


@pytest.mark.usefixtures("folder")
def test_a_missing_path_is_an_error_of_the_operating_system() -> None:
    """It names the list."""
    with pytest.raises(FileNotFoundError) as caught:
        matching(["gone.txt"])

    assert caught.value.filename == "gone.txt"


@pytest.mark.usefixtures("folder")
def test_a_list_that_is_given_twice_is_an_error() -> None:
    """Under the same name or another one."""
    os.link("b.txt", "e.log")
    for paths, says in {
        ("b.txt", "b.txt"): "b.txt: the list is given twice; leave one out",
        ("b.txt", "?.txt"): "b.txt: the list is given twice",
        ("b.txt", "./b.txt"): "./b.txt: the list is given twice, the same file as b.txt",
        ("b.txt", "e.log"): "e.log: the list is given twice, the same file as b.txt",
        ("deep", "deep"): "deep: the list is given twice",
    }.items():
        with pytest.raises(SourceError, match=says):
            matching(paths)


def test_no_lists_and_standard_input_twice_are_errors() -> None:
    """The second time it would be empty."""
    with pytest.raises(ParameterError, match="at least one list"):
        matching([])
    with pytest.raises(SourceError, match="standard input can be read only once"):
        matching(["-", "-"])


def test_the_facts_of_a_list_say_what_it_is(folder: Path) -> None:
    """A folder, a file with its size, or neither."""
    found = facts_of(folder / "a.txt")
    assert (found.is_regular, found.is_folder, found.size) == (True, False, 5)
    assert facts_of(folder).is_folder
    assert facts_of("/dev/null")[1:4] == (False, False, 0)
