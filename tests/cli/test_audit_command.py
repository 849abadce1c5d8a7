"""``mmbloom audit``: figures, hints and exit codes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import mmbloom

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Run


@pytest.fixture
def digits(folder: Path) -> Path:
    """Return a filter of 1000 numbers, full, with a rate of 5 %."""
    path = folder / "digits.mmb"
    mmbloom.build(path, map(str, range(1000)), fpr=0.05, layout="line").close()
    return path


@pytest.fixture
def crowded(folder: Path) -> Path:
    """Return a filter with three times the keys that it was made for."""
    path = folder / "crowded.mmb"
    with mmbloom.BloomFilter.create(path, capacity=1000, fpr=0.01, overfill=True) as made:
        made.update(map(str, range(3000)))
    return path


def write_numbers(path: Path, first: int, end: int) -> Path:
    """Write a list of numbers."""
    path.write_text("".join(f"{number}\n" for number in range(first, end)))
    return path


def test_a_list_of_others_measures_the_rate(run: Run, digits: Path, folder: Path) -> None:
    """Every figure stands beside what it is compared with."""
    others = write_numbers(folder / "others.txt", 1000, 6000)

    outcome = run("audit", digits, "--negatives", others)

    rows = dict(line.split("  ", 1) for line in outcome.out.decode().splitlines())
    names = ["file", "looked up", "maybe", "measured", "interval", "target", "expected"]
    assert outcome.code == 0
    assert [name.strip() for name in rows] == names
    assert rows["looked up"].strip() == "5,000 distinct keys"
    assert rows["interval"].strip().endswith(", 95 % (Wilson)")
    assert "not above the target" in rows["measured"]
    with mmbloom.open(digits) as found:
        maybes = int(found.contains_many([str(number) for number in range(1000, 6000)]).sum())
    assert int(rows["maybe"]) == maybes


def test_random_keys_need_no_list(run: Run, digits: Path) -> None:
    """Equal seeds give equal answers."""
    results = [
        json.loads(run("audit", digits, "--random", "2e3", *options, "--json").out)
        for options in ([], ["--seed", "0"], ["--seed", "1"])
    ]

    assert results[0] == results[1]
    assert results[0]["maybes"] != results[2]["maybes"]
    assert set(results[0]) == {
        *("looked_up", "repeated", "maybes", "measured_fpr", "low", "high", "confidence"),
        *("target", "expected", "passed", "likely_members"),
    }
    assert (results[0]["looked_up"], results[0]["passed"]) == (2000, True)


def test_a_rate_above_the_target_is_told_by_the_exit_code(run: Run, crowded: Path) -> None:
    """1, and no note of members: the set bits explain it."""
    outcome = run("audit", crowded, "--random", "1e4", "--confidence", "0.99")

    out = outcome.out.decode()
    assert outcome.code == 1
    assert "; above the target" in out
    assert ", 99 % (Wilson)" in out
    assert "note" not in out
    assert run("audit", crowded, "--random", "1e4", "-q") == (1, b"", "")


def test_a_list_with_members_is_noticed(run: Run, digits: Path, folder: Path) -> None:
    """Such as the list that the filter was built from."""
    own = write_numbers(folder / "own.txt", 0, 1000)

    outcome = run("audit", digits, "--negatives", own)

    assert outcome.code == 1
    assert "about 1,000 of the keys are members" in outcome.out.decode()


def test_lists_are_read_as_everywhere(run: Run, folder: Path) -> None:
    """HASH:count, several of them, bad lines left out if asked."""
    path = folder / "pwned.mmb"
    mmbloom.build(path, ["AB" * 20], fpr=0.01, key_form="hex").close()
    (folder / "a.txt").write_text(f"{'00' * 20}:7\n{'11' * 20}:7\n{'00' * 20}:9\n")
    (folder / "b.txt").write_text(f"{'22' * 20}:1\nno digest:3\n")
    lists = ["--negatives", "a.txt", "--negatives", "b.txt"]

    outcome = run("audit", path, "--hibp", *lists, "--on-error", "skip", "--json")

    result = json.loads(outcome.out)
    assert (result["looked_up"], result["repeated"]) == (3, 1)
    assert "left out: b.txt, line 2" in outcome.err
    refused = run("audit", path, "--hibp", *lists)
    assert refused.code == 2
    assert "b.txt, line 2" in refused.err
    assert run("audit", path, "--random", "100").code == 0


@pytest.mark.parametrize(
    ("options", "says"),
    [
        pytest.param([], "--negatives LIST or --random N", id="nothing-to-ask"),
        pytest.param(["--random", "9", "--negatives", "a"], "or --random N", id="both"),
        pytest.param(["--negatives", "a", "--seed", "3"], "--seed is for --random", id="seed"),
        pytest.param(["--random", "9", "--field", "2"], "no options for lists", id="field"),
        pytest.param(["--random", "0"], "--random", id="no-keys"),
        pytest.param(["--random", "9", "--confidence", "95"], "--confidence", id="percent"),
        pytest.param(["--negatives", "empty.txt"], "empty.txt: no keys", id="empty-list"),
        pytest.param(["--negatives", "gone.txt"], "gone.txt: No such file", id="no-list"),
        pytest.param(["--negatives", "empty.txt", "--hibp"], "key form hex", id="no-digests"),
    ],
)
def test_what_cannot_be_asked_is_refused(
    run: Run, digits: Path, folder: Path, options: list[str], says: str
) -> None:
    """Exit code 2, no figures."""
    (folder / "empty.txt").touch()

    outcome = run("audit", digits, *options)

    assert (outcome.code, outcome.out) == (2, b"")
    assert says in outcome.err
