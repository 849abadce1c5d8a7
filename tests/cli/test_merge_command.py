"""``mmbloom merge``: what it counts, and what it says."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import mmbloom

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Run


@pytest.fixture
def week(folder: Path) -> Path:
    """Return a folder with filters of two days, made to be united, and of two that are full."""
    days = {
        "monday": range(3),
        "tuesday": range(2, 6),
        "saturday": range(10, 100),
        "sunday": range(100, 190),
    }
    for day, keys in days.items():
        path = folder / f"{day}.mmb"
        mmbloom.build(path, map(str, keys), fpr=1e-6, capacity=90, layout="line").close()
    return folder


def test_the_union_can_be_counted_before_it_is_written(run: Run, week: Path) -> None:
    """Keys in all, keys repeated, and whether they fit; nothing is written."""
    outcome = run("merge", "monday.mmb", "tuesday.mmb", "--count-only")

    rows = outcome.out.decode().splitlines()
    assert outcome.code == 0
    assert rows[0] == "keys      about 6 of 90"
    assert rows[1] == "repeated  about 1"
    assert rows[3:] == ["file      monday.mmb, 3 keys", "file      tuesday.mmb, 4 keys"]
    assert len([path for path in week.iterdir() if path.suffix == ".mmb"]) == 4


def test_a_union_that_does_not_fit_is_told_by_the_exit_code(run: Run, week: Path) -> None:
    """1, and in JSON; --overfill is content with it."""
    del week
    outcome = run("merge", "saturday.mmb", "sunday.mmb", "--count-only", "--json")

    result = json.loads(outcome.out)
    assert outcome.code == 1
    assert (result["fits"], result["keys_each"], result["exact"]) == (False, [90, 90], False)
    assert (result["repeated"], result["capacity"]) == (180 - result["keys"], 90)
    assert 160 <= result["keys"] <= 180
    assert run("merge", "saturday.mmb", "sunday.mmb", "--count-only", "--overfill", "-q").code == 0
    assert b"too many" in run("merge", "saturday.mmb", "sunday.mmb", "--count-only").out


def test_a_refused_union_is_told_with_both_numbers(run: Run, week: Path) -> None:
    """The estimate and the capacity, and the ways out."""
    estimated = json.loads(
        run("merge", "saturday.mmb", "sunday.mmb", "--count-only", "--json").out
    )["keys"]

    outcome = run("merge", "saturday.mmb", "sunday.mmb", "-o", "c.mmb")

    assert (outcome.code, outcome.out) == (2, b"")
    text = f"c.mmb: the union of 2 files, with about {estimated} keys, and they are sized for 90"
    assert text in outcome.err
    assert "--capacity" in outcome.err
    assert "--overfill" in outcome.err
    assert not (week / "c.mmb").exists()


def test_the_union_of_one_list_is_counted_exactly(run: Run, week: Path) -> None:
    """And info says whether it is exact."""
    (week / "copy.mmb").write_bytes((week / "monday.mmb").read_bytes())

    same = run("merge", "monday.mmb", "copy.mmb", "-o", "same.mmb")
    other = run("merge", "monday.mmb", "tuesday.mmb", "-o", "other.mmb")

    assert "keys  3 of 90\n" in same.out.decode()
    assert "keys  about 6 of 90\n" in other.out.decode()
    assert "keys      3 distinct, of 90\n" in run("info", "same.mmb").out.decode()
    assert "keys      about 6, of 90\n" in run("info", "other.mmb").out.decode()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        pytest.param([], "-o/--output: name the file to write", id="nowhere-to-write"),
        pytest.param(["--count-only", "-o", "c.mmb"], "writes nothing", id="count-and-output"),
        pytest.param(["--count-only", "--force"], "writes nothing", id="count-and-force"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    run: Run, week: Path, options: list[str], says: str
) -> None:
    """With the way out, before a file is read."""
    del week
    outcome = run("merge", "monday.mmb", *options)

    assert outcome.code == 2
    assert says in outcome.err
