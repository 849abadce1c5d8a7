"""A list whose members leave, from the shell: build, add, remove, check, merge, export."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

import mmbloom
from mmbloom import CountingBloomFilter

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Run

NEVER = "1e-9"


def lines(first: int, end: int) -> bytes:
    """Return a list of numbers."""
    return b"".join(b"%d\n" % number for number in range(first, end))


def words(first: int, end: int) -> list[str]:
    """Return the same as keys."""
    return [str(number) for number in range(first, end)]


@pytest.fixture
def denied(run: Run, folder: Path) -> Path:
    """Return a counting filter of 400 keys with room for 1000."""
    path = folder / "denied.mmb"
    options = ("--fpr", NEVER, "--kind", "counting", "--capacity", "1000", "-q")
    assert run("build", "-", "-o", path, *options, stdin=lines(0, 400) * 2) == (0, b"", "")
    return path


def rows_of(out: bytes) -> dict[str, str]:
    """Return what a command printed, by name: of ``add`` and ``remove``, with 7 letters at most."""
    return {row[:8].strip(): row[8:].strip() for row in out.decode().splitlines()}


def test_build_counts_each_distinct_key_once(run: Run, denied: Path) -> None:
    """A summary as for other kinds; info tells the rest."""
    (denied.parent / "list.txt").write_bytes(lines(0, 50) * 2)
    options = ("list.txt", "-o", "small.mmb", "--fpr", "0.01", "--kind", "counting")
    out = run("build", *options).out.decode()
    assert "50 distinct, 50 repeated" in out
    assert "counters, " in out
    told = run("info", denied).out.decode()
    assert ", writable" in told
    assert "400 distinct, of 1,000" in told
    with mmbloom.open(denied) as found:
        assert isinstance(found, CountingBloomFilter)
        assert {found.count_estimate(key) for key in words(0, 400)} == {1}


def test_a_list_is_added_and_another_removed(run: Run, denied: Path) -> None:
    """Known keys are counted again, so they stay until they are removed again."""
    done = run("add", denied, "-", stdin=lines(300, 500) * 2)
    rows = rows_of(done.out)
    assert done.code == 0
    assert rows["new"] == "100 keys; 300 known or repeated; 100 counted again"
    assert rows["in all"] == "500 of 1,000"

    done = run("remove", denied, "-", stdin=lines(0, 400) + lines(0, 7))

    rows = rows_of(done.out)
    assert done.code == 0
    assert rows["keys"] == "500 of 1,000"
    assert rows["read"] == "400 keys; 7 repeated"
    assert rows["absent"] == "0, definitely not in"
    assert rows["removed"] == "400; 100 of them still 'maybe'"
    assert rows["left"] == "200 of 1,000"
    with mmbloom.open(denied) as found:
        assert not found.contains_many(words(0, 300)).any()
        assert found.contains_many(words(300, 500)).all()
        assert not found.info()["writer_open"]


def test_a_list_with_absent_keys_is_refused_unless_they_may_be_skipped(
    run: Run, denied: Path
) -> None:
    """With the numbers, and the ways out; a dry run says the same and changes nothing."""
    before = denied.read_bytes()
    refused = run("remove", denied, "-", stdin=lines(390, 410))
    dry = run("remove", denied, "-", "--dry-run", stdin=lines(390, 410))
    assert (refused.code, refused.out, dry.code) == (2, b"", 1)
    assert "of 20 distinct keys, 10 definitely not in" in refused.err
    assert (
        "if all others were added, and not removed since, --skip-absent skips them. Nothing"
        in refused.err
    )
    assert "dry run  refused: " in dry.out.decode()
    assert run("remove", denied, "-", "--dry-run", "-q", stdin=lines(390, 400)).code == 0
    assert denied.read_bytes() == before

    skipped = run("remove", denied, "-", "--skip-absent", "--json", stdin=lines(390, 410))

    result = json.loads(skipped.out)
    assert {name: result[name] for name in result if name != "expected_fpr"} == {
        "path": str(denied),
        "keys_read": 20,
        "bad_lines": 0,
        "distinct_keys": 20,
        "absent_keys": 10,
        "keys_before": 400,
        "capacity": 1000,
        "removed_keys": 10,
        "gone_keys": 10,
        "never_added": 0,
        "keys_added": 390,
        "dry_run": False,
        "refused": None,
    }


def test_a_removal_that_was_killed_is_not_repeated_past_what_is_absent(
    run: Run, denied: Path
) -> None:
    """Of what it removed some is "maybe" by chance, and would be removed twice."""
    if (child := os.fork()) == 0:
        writer = CountingBloomFilter.open_writable(denied)
        writer.remove_many(words(0, 50))
        os._exit(0)  # as after a kill: nothing is closed
    os.waitpid(child, 0)
    before = denied.read_bytes()

    skipping = run("remove", denied, "-", "--skip-absent", stdin=lines(0, 100))
    dry = run("remove", denied, "-", "--dry-run", stdin=lines(0, 100))

    assert (skipping.code, dry.code) == (2, 1)
    assert "a writer was killed while it had the file open" in skipping.err
    assert denied.read_bytes() == before
    refused = run("remove", denied, "-", stdin=lines(0, 100))
    assert refused.code == 2
    assert "of 100 distinct keys, 50 definitely not in" in refused.err
    assert "build the filter again, or go back to a copy" in refused.err
    assert "passes over" not in refused.err
    with mmbloom.open(denied) as found:
        assert found.contains_many(words(50, 400)).all()


def test_a_removal_that_shows_keys_were_never_added_says_so(run: Run, folder: Path) -> None:
    """On standard error, with what to do."""
    with CountingBloomFilter.create(folder / "a.mmb", capacity=300, fpr=0.3) as crowded:
        crowded.update(words(0, 300))
        by_chance = [key for key in words(300, 3000) if key in crowded]
    (folder / "wrong.txt").write_text("\n".join(by_chance))

    done = run("remove", "a.mmb", "wrong.txt")

    assert done.code == 0
    assert "were never added" in done.err
    assert "Build the filter again" in done.err


def test_check_tells_how_often_a_key_was_added(run: Run, denied: Path) -> None:
    """Of keys on the command line; of no other kind."""
    run("add", denied, "-", "-q", stdin=b"7\n")
    assert run("check", denied, "--times", "7", "8", "x") == (0, b"2 7\n1 8\n", "")
    assert json.loads(run("check", denied, "7", "x", "--json").out)["times"] == {"7": 2}
    assert "given as KEY" in run("check", denied, "--times", stdin=b"7\n").err
    run("export", denied, "-o", "bits.mmb")
    assert "needs a counting filter" in run("check", "bits.mmb", "--times", "7").err


def test_export_writes_the_bloom_filter_of_the_same_answers(run: Run, denied: Path) -> None:
    """Sealed, a quarter of the size, and the next generation where one is replaced."""
    before = denied.read_bytes()
    rows = dict(
        row.split(None, 1)
        for row in run("export", denied, "-o", "bits.mmb").out.decode().splitlines()
    )
    assert rows["keys"] == "400 of 1,000"
    assert rows["generation"] == "1"
    assert denied.read_bytes() == before
    again = run("export", denied, "-o", "bits.mmb")
    assert again.code == 2
    assert "--force" in again.err
    run("remove", denied, "-", "-q", stdin=lines(0, 100))
    result = json.loads(run("export", denied, "-o", "bits.mmb", "--force", "--json").out)
    assert (result["generation"], result["state"], result["kind"]) == (2, "sealed", "bloom")
    with mmbloom.open("bits.mmb") as served, mmbloom.open(denied) as found:
        some = words(0, 2000)
        assert (served.contains_many(some) == found.contains_many(some)).all()
        assert 4 * served.num_bits == found.num_bits


def test_export_refuses_to_lose_the_counting_filter(run: Run, denied: Path) -> None:
    """And any filter of another kind."""
    before = denied.read_bytes()
    lost = run("export", denied, "-o", "./denied.mmb", "--force")
    assert lost.code == 2
    assert "would be lost" in lost.err
    assert denied.read_bytes() == before
    run("export", denied, "-o", "bits.mmb")
    other = run("export", "bits.mmb", "-o", "more.mmb")
    assert (other.code, other.out) == (2, b"")
    assert "needs a counting filter, and this is a bloom filter" in other.err


@pytest.mark.parametrize("words", [["publish", "denied.mmb", "a.mmb"], ["store", "publish", "."]])
def test_publishing_what_is_not_sealed_names_what_seals_it(
    run: Run, denied: Path, words: list[str]
) -> None:
    """In commands, not in methods."""
    names = ["a", "denied.mmb"] if words[0] == "store" else []
    refused = run(*words, *names)
    assert refused.code == 2
    assert "'mmbloom export denied.mmb -o NEW'" in refused.err
    assert "seal()" not in refused.err
    assert not (denied.parent / "a.mmb").exists()


def test_merge_adds_counters_up(run: Run, denied: Path, folder: Path) -> None:
    """What came of it can be changed, and tells how many counters are full."""
    options = ("--fpr", NEVER, "--kind", "counting", "--capacity", "1000", "-q")
    run("build", "-", "-o", "more.mmb", *options, stdin=lines(300, 500))
    assert run("merge", denied, "more.mmb", "--count-only", "-q").code == 0

    out = run("merge", denied, "more.mmb", "-o", "all.mmb").out.decode()

    assert "0 at their maximum of 15" in out
    assert run("check", "all.mmb", "--times", "299", "300", "499").out == b"1 299\n2 300\n1 499\n"
    assert run("remove", "all.mmb", "-", "-q", stdin=lines(0, 500)).code == 0
    assert run("check", "all.mmb", "299", "300", "499").out == b"300\n"
    mmbloom.build(folder / "bits.mmb", words(0, 5), fpr=1e-9, capacity=1000).close()
    mixed = run("merge", denied, "bits.mmb", "-o", "no.mmb")
    assert "the files differ in kind: counting in" in mixed.err
    assert not (folder / "no.mmb").exists()


@pytest.mark.parametrize("command", ["add", "remove"])
def test_a_sealed_counting_filter_is_refused_with_the_way_out(
    run: Run, denied: Path, command: str
) -> None:
    """Which is a copy that can be changed."""
    with mmbloom.open(denied) as found:
        found.save("sealed.mmb")
    refused = run(command, "sealed.mmb", "-", stdin=b"7\n")
    assert refused.code == 2
    assert "'mmbloom merge sealed.mmb -o NEW'" in refused.err
    assert run("merge", "sealed.mmb", "-o", "new.mmb", "-q").code == 0
    assert run(command, "new.mmb", "-", "-q", stdin=b"7\n").code == 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        pytest.param(["gone.mmb", "-"], "gone.mmb: No such file", id="no-filter"),
        pytest.param(["names.mmb", "-"], "needs a counting filter", id="another-kind"),
        pytest.param(["denied.mmb", "gone.txt"], "gone.txt: No such file", id="no-list"),
        pytest.param(["denied.mmb", "-", "--hibp"], "key form hex", id="no-digests"),
    ],
)
def test_what_cannot_be_removed_is_refused(
    run: Run, denied: Path, names_filter: Path, arguments: list[str], says: str
) -> None:
    """Exit code 2, and nothing is changed."""
    del names_filter
    before = denied.read_bytes()
    done = run("remove", *arguments, stdin=b"7\n")
    assert (done.code, done.out) == (2, b"")
    assert says in done.err
    assert denied.read_bytes() == before


def test_plan_recommends_it_where_keys_leave(run: Run) -> None:
    """With the command that builds it."""
    out = run("plan", "--keys", "1e6", "--fpr", "0.001", "--use", "shrinking").out.decode()
    assert "counters *" in out
    assert "'mmbloom build --kind counting'" in out
    assert "add, remove, unite" in out
