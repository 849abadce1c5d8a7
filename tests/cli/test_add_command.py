"""``mmbloom add``: a forecast first, then all keys or none."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING

import pytest

import mmbloom

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Run

CAPACITY = 1000


def lines(first: int, end: int) -> bytes:
    """Return a list of numbers."""
    return b"".join(b"%d\n" % number for number in range(first, end))


@pytest.fixture
def crawl(folder: Path) -> Path:
    """Return a writable filter with 400 keys of 1000, and a list of which 100 are new."""
    path = folder / "crawl.mmb"
    with mmbloom.BloomFilter.create(path, capacity=CAPACITY, fpr=1e-6, layout="line") as made:
        made.update([str(number) for number in range(400)])
    (folder / "more.txt").write_bytes(lines(350, 500))
    return path


def test_new_keys_are_added_after_a_forecast(run: Run, crawl: Path) -> None:
    """What was there, what is new, what the rate was, will be and is."""
    outcome = run("add", crawl, "more.txt")

    rows = dict(line.split("  ", 1) for line in outcome.out.decode().splitlines())
    assert outcome.code == 0
    assert [name.strip() for name in rows] == [
        "file",
        "keys",
        "new",
        "fpr now",
        "forecast",
        "in all",
        "fpr",
    ]
    assert rows["keys"].strip() == "400 of 1,000"
    assert rows["new"].strip() == "100 keys; 50 known or repeated"
    assert rows["in all"].strip() == "500 of 1,000"
    with mmbloom.open(crawl) as found:
        assert found.contains_many([str(number) for number in range(500)]).all()
        assert (found.keys_added, found.info()["writer_open"]) == (500, False)


def test_json_has_every_figure(run: Run, crawl: Path, folder: Path) -> None:
    """For a program that adds every day; lists may be packed, and standard input."""
    (folder / "more.gz").write_bytes(gzip.compress(lines(480, 520)))
    with mmbloom.open(crawl) as found:
        before, forecast = found.expected_fpr(), found.forecast(120)

    outcome = run("add", "crawl.mmb", "more.txt", "more.gz", "-", "--json", stdin=lines(0, 5))

    result = json.loads(outcome.out)
    with mmbloom.open(crawl) as found:
        after = found.expected_fpr()
    assert outcome.code == 0
    assert result == {
        "path": "crawl.mmb",
        "keys_read": 150 + 40 + 5,
        "bad_lines": 0,
        "new_keys": 120,
        "keys_to_add": 120,
        "keys_before": 400,
        "capacity": CAPACITY,
        "fpr": 1e-6,
        "expected_fpr_before": before,
        "forecast_fpr": forecast,
        "keys_added": 520,
        "expected_fpr": after,
        "dry_run": False,
        "refused": None,
    }


def test_a_dry_run_changes_nothing(run: Run, crawl: Path) -> None:
    """Not a byte, nor a time stamp; while somebody else writes, too."""
    before = crawl.read_bytes(), crawl.stat().st_mtime_ns
    with mmbloom.open_writable(crawl):
        outcome = run("add", crawl, "more.txt", "--dry-run")

    assert outcome.code == 0
    assert "new       100 keys" in outcome.out.decode()
    assert "dry run   nothing was added\n" in outcome.out.decode()
    assert (crawl.read_bytes(), crawl.stat().st_mtime_ns) == before


def test_keys_that_do_not_fit_are_refused_before_any_is_set(run: Run, crawl: Path) -> None:
    """With what is there, what is new and what there is room for."""
    before = crawl.read_bytes()

    outcome = run("add", crawl, "-", stdin=lines(300, 1001))
    dry = run("add", crawl, "-", "--dry-run", stdin=lines(300, 1001))

    assert (outcome.code, outcome.out) == (2, b"")
    assert (
        "400 keys and 601 new ones are more than its capacity of 1,000. "
        "Make a larger filter. Nothing was added\n"
    ) in outcome.err
    assert dry.code == 1
    assert "dry run   refused: " in dry.out.decode()
    assert crawl.read_bytes() == before
    assert run("add", crawl, "-", "-q", stdin=lines(300, 1000)) == (0, b"", "")


def test_an_overfilled_filter_takes_them(run: Run, folder: Path) -> None:
    """It was made for that; the forecast says at what rate."""
    path = folder / "open.mmb"
    mmbloom.BloomFilter.create(path, capacity=10, fpr=0.01, overfill=True).close()

    result = json.loads(run("add", path, "-", "--json", stdin=lines(0, 50)).out)

    assert result["new_keys"] == 50
    assert result["forecast_fpr"] > 0.02


def test_a_rate_above_what_is_allowed_is_refused(run: Run, crawl: Path) -> None:
    """--max-fpr is compared with the forecast."""
    with mmbloom.open(crawl) as found:
        forecast = found.forecast(100)
    before = crawl.read_bytes()

    refused = run("add", crawl, "more.txt", "--max-fpr", forecast / 2)

    assert refused.code == 2
    assert f"its rate would be {forecast:.3g}, above --max-fpr" in refused.err
    assert crawl.read_bytes() == before
    assert run("add", crawl, "more.txt", "--max-fpr", forecast * 2, "-q").code == 0


def test_a_bad_line_anywhere_adds_nothing(run: Run, folder: Path) -> None:
    """Lists are read whole first; or bad lines are left out when asked."""
    path = folder / "digests.mmb"
    mmbloom.BloomFilter.create(path, capacity=10, fpr=0.01, key_form="hex").close()
    (folder / "good.txt").write_text(f"{'AB' * 20}:1\n")
    (folder / "bad.txt").write_text(f"{'CD' * 20}:1\nno digest:1\n")
    before = path.read_bytes()

    refused = run("add", path, "good.txt", "bad.txt", "--hibp")

    assert refused.code == 2
    assert "bad.txt, line 2" in refused.err
    assert path.read_bytes() == before
    added = run("add", path, "good.txt", "bad.txt", "--hibp", "--on-error", "skip")
    assert added.code == 0
    assert "mmbloom add: left out: bad.txt, line 2" in added.err
    assert "2 keys; 0 known or repeated; 1 bad line left out" in added.out.decode()


@pytest.mark.parametrize("options", [[], ["--dry-run"]], ids=["add", "dry-run"])
def test_a_sealed_file_is_refused_with_the_ways_out(
    run: Run, names_filter: Path, names: Path, options: list[str]
) -> None:
    """It never changes: a new one, or a union."""
    outcome = run("add", names_filter, names, *options)

    assert outcome.code == 2
    assert "sealed" in outcome.err
    assert "'mmbloom merge'" in outcome.err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        pytest.param(["gone.mmb", "more.txt"], "gone.mmb: No such file", id="no-filter"),
        pytest.param(["crawl.mmb", "gone.txt"], "gone.txt: No such file", id="no-list"),
        pytest.param(["crawl.mmb", "empty.txt"], "empty.txt: no keys", id="empty-list"),
        pytest.param(["crawl.mmb", "more.txt", "--max-fpr", "0"], "--max-fpr", id="no-rate"),
        pytest.param(["crawl.mmb", "more.txt", "--hibp"], "key form hex", id="no-digests"),
        pytest.param(["crawl.mmb", "-", "-"], "standard input", id="stdin-twice"),
    ],
)
def test_what_cannot_be_added_is_refused(
    run: Run, crawl: Path, folder: Path, arguments: list[str], says: str
) -> None:
    """Exit code 2, and the filter is as it was."""
    (folder / "empty.txt").touch()
    before = crawl.read_bytes()

    outcome = run("add", *arguments)

    assert (outcome.code, outcome.out) == (2, b"")
    assert says in outcome.err
    assert crawl.read_bytes() == before


def test_a_second_writer_is_refused(run: Run, crawl: Path) -> None:
    """As everywhere."""
    with mmbloom.open_writable(crawl):
        outcome = run("add", crawl, "more.txt")

    assert outcome.code == 2
    assert "another writer holds" in outcome.err
