"""Progress of a build while it runs, and its report at the end."""

from __future__ import annotations

import threading
from itertools import pairwise
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from build_steps import MANY_KEYS, build, keys, list_of

import mmbloom
from mmbloom import Progress
from mmbloom.storage import progress
from mmbloom.storage.progress import Reporter

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.usefixtures("no_pause")
def test_a_build_goes_through_its_phases_in_the_calling_thread(
    tmp_path: Path, small_store: int
) -> None:
    """Each counts up to its total, if that is known, and its time never goes back."""
    lists = list_of(tmp_path / "list", keys(MANY_KEYS))
    seen: list[Progress] = []
    threads = set()

    def watch(state: Progress) -> None:
        seen.append(state)
        threads.add(threading.get_ident())

    with mmbloom.read_list(lists) as source:
        asked = {"memory": small_store, "jobs": 1, "progress": watch}
        report = build(tmp_path / "a.mmb", source, **asked)

    assert threads == {threading.get_ident()}
    assert list(dict.fromkeys(state.phase for state in seen)) == [
        "hash",
        "spill",
        "sort",
        "assemble",
    ]
    for phase, unit, total in (
        ("hash", "bytes", lists.stat().st_size),
        ("sort", "partitions", 1024),
        ("assemble", "bytes", report.file_bytes),
    ):
        states = [state for state in seen if state.phase == phase]
        done = [state.done for state in states]
        assert {state.unit for state in states} == {unit}
        assert {state.total for state in states} <= {total, total - 4096 - 8}
        assert done == sorted(done)
        assert states[-1].done == states[-1].total
        assert [state.seconds for state in states] == sorted(state.seconds for state in states)
    assert [state.keys for state in seen] == sorted(state.keys for state in seen)
    assert seen[-1].keys == MANY_KEYS


@pytest.mark.usefixtures("no_pause")
def test_keys_are_counted_if_the_end_is_not_known(tmp_path: Path) -> None:
    """The keys come from an iterator."""
    seen: list[Progress] = []
    build(tmp_path / "a.mmb", iter(keys(100)), progress=seen.append)

    first = seen[0]
    assert (first.phase, first.done, first.total, first.unit) == ("hash", 100, 0, "keys")
    assert first.seconds_left is None


@pytest.mark.parametrize(
    ("done", "total", "seconds", "rate", "left"),
    [
        (50, 200, 2.0, 25.0, 6.0),
        (200, 200, 2.0, 100.0, 0.0),
        (300, 200, 2.0, 150.0, 0.0),
        (50, 0, 2.0, 25.0, None),
        (0, 200, 2.0, 0.0, None),
        (0, 200, 0.0, 0.0, None),
    ],
)
def test_rate_and_time_left_follow_from_the_units_done(
    done: int, total: int, seconds: float, rate: float, left: float | None
) -> None:
    """They are unknown if nothing was done yet, or the total is not known."""
    state = Progress("hash", done, total, "keys", seconds, 5)

    assert state.rate == rate
    assert state.seconds_left == left


def test_progress_is_called_two_to_ten_times_a_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However often tell() is called."""
    now = 100.0
    monkeypatch.setattr(progress, "time", SimpleNamespace(perf_counter=lambda: now))
    seen: list[Progress] = []
    reporter = Reporter(seen.append, "sort", "partitions")
    for step in range(1000):
        now = 100.0 + step / 200
        reporter.tell(step, 1000)

    gaps = [b.seconds - a.seconds for a, b in pairwise(seen)]
    assert min(gaps) > 0.09
    assert max(gaps) < 0.5


def test_the_times_of_a_repeated_phase_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hashing continues after each spill."""
    now = 0.0
    monkeypatch.setattr(progress, "time", SimpleNamespace(perf_counter=lambda: now))
    reporter = Reporter(None, "hash", "keys")
    for at, phase in ((1.0, "spill"), (3.0, "hash"), (7.0, "sort"), (7.5, "assemble")):
        now = at
        reporter.begin(phase, "keys")
    now = 10.0

    assert reporter.end() == {"hash": 5.0, "spill": 2.0, "sort": 0.5, "assemble": 2.5}


def test_the_report_says_what_was_read_and_written(tmp_path: Path, small_store: int) -> None:
    """For a list with bad lines, and with a spill file."""
    digests = [key.encode().hex() for key in keys(MANY_KEYS)]
    lists = list_of(tmp_path / "list", [*digests[:500], "none", *digests[400:], "odd"])
    with mmbloom.read_list(lists, on_error="count") as source:
        asked = {"memory": small_store, "jobs": 1, "key_form": "hex"}
        report = build(tmp_path / "a.mmb", source, **asked)
        assert (source.bad.num_bad, source.bad.first) == (2, [])

    assert (report.keys_read, report.keys_added) == (MANY_KEYS + 100, MANY_KEYS)
    assert (report.lines_read, report.bad_lines) == (MANY_KEYS + 102, 2)
    assert report.bytes_read == lists.stat().st_size
    assert report.file_bytes == (tmp_path / "a.mmb").stat().st_size
    assert 0 < report.spilled_bytes <= 16 * report.keys_read
    assert report.spilled_bytes % 16 == 0
    assert report.peak_memory_bytes > 1 << 20
    assert list(report.seconds) == ["hash", "spill", "sort", "assemble"]
    assert all(seconds >= 0 for seconds in report.seconds.values())


def test_keys_from_python_have_no_lines_and_no_bytes(tmp_path: Path) -> None:
    """Only the keys are counted."""
    report = build(tmp_path / "a.mmb", keys(100) * 2)

    assert (report.keys_read, report.keys_added, report.is_exact) == (200, 100, True)
    assert (report.lines_read, report.bytes_read, report.bad_lines) == (0, 0, 0)
    assert report.spilled_bytes == 0
    assert list(report.seconds) == ["hash", "sort", "assemble"]
