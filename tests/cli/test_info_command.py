"""``mmbloom info``: facts and the chart."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import mmbloom
from mmbloom.format.fields import HEADER_BYTES

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Run

NUM_KEYS = 40_000


@pytest.fixture
def large_filter(folder: Path) -> Path:
    """Return a filter whose chart has 64 columns of some hundred keys each."""
    path = folder / "large.mmb"
    mmbloom.build(path, map(str, range(NUM_KEYS)), fpr=0.001, layout="page").close()
    return path


def chart_of(out: str) -> list[str]:
    """Return the rows of the chart, without scale and frame."""
    return [line.split("|")[1] for line in out.splitlines() if " %  |" in line or " % |" in line]


def test_every_fact_has_a_row(run: Run, names_filter: Path) -> None:
    """Two columns, and the chart behind them."""
    out = run("info", names_filter).out.decode()

    facts = dict(line.split("  ", 1) for line in out.splitlines()[:12])
    facts = {name: value.strip() for name, value in facts.items()}
    assert facts["file"].startswith(f"{names_filter}, 4.")
    assert facts["file"].endswith(", sealed")
    assert facts["keys"] == "5 distinct, of 5"
    assert facts["fpr"].endswith("as it is; 1e-09 when full")
    assert facts["key form"] == "raw"
    assert facts["metadata"] == "none"


def test_a_counting_filter_tells_of_its_counters(run: Run, folder: Path) -> None:
    """How many, how many are full, and how many keys that speaks for."""
    path = folder / "sessions.mmb"
    with mmbloom.CountingBloomFilter.create(path, capacity=1000, fpr=0.01) as writer:
        writer.update(["ada"] * 20 + [str(i) for i in range(99)])
        writer.flush()
        writer.remove("50")
        out = run("info", path).out.decode()
        full = writer.num_saturated

    assert "about 99 of 1,000 (a writer has it open, or died; 100 at its last flush)" in out
    assert f"counters  10,880 of 4 bits, {full} at their maximum of 15\n" in out
    assert "99 as far as the counters tell, of 1,000" in run("info", path).out.decode()
    assert run("check", path, "ada", "50").out == b"ada\n"
    assert run("verify", path).code == 0


def test_json_has_every_fact_and_the_fill(run: Run, names_filter: Path) -> None:
    """The same as BloomFilter.info(), and the chart as numbers."""
    result = json.loads(run("info", names_filter, "--json").out)

    fill = result.pop("fill_by_region")
    with mmbloom.open(names_filter) as opened:
        assert result == opened.info()
        assert fill == opened.fill_by_region()


def test_the_chart_of_a_sound_filter_is_level(run: Run, large_filter: Path) -> None:
    """Half of the bits are set, everywhere: two rows of four are full."""
    out = run("info", large_filter).out.decode()

    rows = chart_of(out)
    assert [len(row) for row in rows] == [64] * 4
    assert rows[:2] == [" " * 64] * 2
    assert rows[3] == "█" * 64
    assert "hole" not in out


def test_lost_data_shows_as_a_dip_and_is_named(run: Run, large_filter: Path) -> None:
    """A stretch without bits between two canaries, which opening does not notice."""
    with large_filter.open("r+b") as file:
        file.seek(HEADER_BYTES + 4096)
        file.write(bytes(4096))

    outcome = run("info", large_filter)

    out = outcome.out.decode()
    assert " " in chart_of(out)[3]
    assert "hole" in out
    assert "0.0 % set near byte 4," in out
    assert f"mmbloom verify {large_filter}" in out


def test_a_terminal_that_knows_ascii_only_gets_a_chart_too(
    run: Run,
    large_filter: Path,
    capsysbinary: pytest.CaptureFixture[bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """LC_ALL=POSIX, serial lines, log files."""
    del capsysbinary
    import sys

    monkeypatch.setattr(type(sys.stdout), "encoding", "ascii", raising=False)

    out = run("info", large_filter).out.decode("ascii")

    assert chart_of(out)[3] == "#" * 64


def test_what_others_wrote_into_the_file_cannot_steer_the_terminal(run: Run, folder: Path) -> None:
    """Metadata with escape sequences are shown, not obeyed."""
    metadata = {"title": "\x1b[2J\n", "\x1b": [None, 1.5]}
    mmbloom.build(folder / "a.mmb", ["ada"], fpr=0.1, metadata=metadata).close()

    out = run("info", "a.mmb").out.decode()

    assert "metadata  \\x1b: [null, 1.5]\n          title: \\x1b[2J\\n\n" in out


def test_a_filter_that_is_still_written_says_so(run: Run, folder: Path) -> None:
    """The count in the file is that of the last flush; the bits tell of more."""
    path = folder / "growing.mmb"
    with mmbloom.BloomFilter.create(path, capacity=10, fpr=0.01, overfill=True) as growing:
        growing.add("ada")
        growing.flush()
        growing.add("grace")
        out = run("info", path).out.decode()

    assert ", writable\n" in out
    text = "about 2 of 10, more are let in (a writer has it open, or died; 1 at its last flush)"
    assert text in out
    assert "keys      2 that set a bit, of 10, more are let in\n" in run("info", path).out.decode()
