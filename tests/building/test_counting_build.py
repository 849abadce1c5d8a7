"""Counting filters from the builder: each distinct key once, in a file that can be changed."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
from build_steps import (
    MANY_KEYS,
    TARGET,
    build,
    die,
    keys,
    killed_in_child,
    list_of,
    names_in,
    payload_of,
    sha256_of,
)

import mmbloom
from mmbloom import CapacityError, CountingBloomFilter, ParameterError, SourceError

if TYPE_CHECKING:
    from pathlib import Path

    from mmbloom import BuildReport, Progress


def build_counting(path: Path, some: object, **asked: Any) -> BuildReport:  # noqa: ANN401 - passed on
    """Build a counting filter."""
    return build(path, some, kind="counting", **asked)


def shuffled() -> list[str]:
    """Return many keys in another order, a fifth of them twice."""
    some = keys(MANY_KEYS) + keys(MANY_KEYS // 5)
    random.Random(3).shuffle(some)  # noqa: S311 - the same order in every run
    return some


def test_a_built_filter_has_the_counters_of_one_that_was_filled(tmp_path: Path) -> None:
    """Repetitions count once: when each key was removed once, the filter is empty."""
    path, some = tmp_path / "a.mmb", keys(3000)
    report = build_counting(path, some * 2 + some[:10], capacity=4000)
    assert (report.keys_read, report.keys_added, report.is_exact) == (6010, 3000, True)
    with CountingBloomFilter.in_memory(capacity=4000, fpr=TARGET) as filled:
        filled.update(some)
        with mmbloom.open(path) as built:
            assert built == filled
            assert built.num_saturated == filled.num_saturated
    with mmbloom.open_writable(path) as writer:
        assert isinstance(writer, CountingBloomFilter)
        assert (writer.keys_added, writer.sealed) == (3000, False)
        writer.remove_many(some)
        assert writer.fill_ratio() == 0
        assert (writer.keys_added, writer.update(keys(4000))) == (0, 4000)


def test_a_built_filter_has_an_exact_count_until_it_changes(
    tmp_path: Path,
) -> None:
    """No writer has it open, and only a change makes the count inexact."""
    path = tmp_path / "a.mmb"
    build_counting(path, keys(100))
    mmbloom.open_writable(path).close()
    with mmbloom.open(path) as built:
        facts = built.info()
    assert (facts["state"], facts["writer_open"]) == ("writable", False)
    assert (facts["keys_added"], facts["keys_exact"], facts["capacity"]) == (100, True, 100)

    with mmbloom.open_writable(path) as writer:
        writer.remove(keys(1)[0])
        writer.add("another")
    with mmbloom.open(path) as changed:
        assert (changed.keys_added, changed.info()["keys_exact"]) == (100, False)


def test_the_payload_does_not_depend_on_order_memory_or_threads(
    tmp_path: Path, small_store: int
) -> None:
    """In memory, through a spill file, and from a list by two threads."""
    whole, spilled, listed = (tmp_path / f"{name}.mmb" for name in ("whole", "spilled", "listed"))
    build_counting(whole, keys(MANY_KEYS))

    report = build_counting(spilled, shuffled(), memory=small_store, jobs=1)
    with mmbloom.read_list(list_of(tmp_path / "keys.txt", shuffled())) as some:
        build_counting(listed, some, jobs=2)

    assert report.spilled_bytes > 0
    assert report.keys_added == MANY_KEYS
    assert payload_of(whole) == payload_of(spilled) == payload_of(listed)


def test_pieces_that_share_a_line_are_added_up(tmp_path: Path) -> None:
    """The payload has few lines, each with the keys of many partitions; some counters are full."""
    path, some = tmp_path / "a.mmb", keys(2000)
    for fpr, capacity in ((0.9, 2000), (0.01, 2000), (0.5, 2000)):
        build_counting(path, some, fpr=fpr, capacity=capacity, if_exists="replace")
        with (
            mmbloom.open(path) as built,
            CountingBloomFilter.in_memory(fpr=fpr, capacity=capacity) as filled,
        ):
            filled.update(some)
            assert built == filled


def test_a_file_that_replaces_another_is_its_next_generation(tmp_path: Path) -> None:
    """As for the other kinds; without if_exists="replace" it is an error."""
    path = tmp_path / "a.mmb"
    build_counting(path, keys(5))
    with pytest.raises(FileExistsError):
        build_counting(path, keys(6))
    build_counting(path, keys(6), if_exists="replace")
    with mmbloom.open(path) as built:
        assert (built.generation, built.keys_added) == (2, 6)


def test_the_same_keys_give_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the environment gives the date."""
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    for name in ("a", "b"):
        build_counting(tmp_path / f"{name}.mmb", shuffled() if name == "a" else keys(MANY_KEYS))
    assert sha256_of(tmp_path / "a.mmb") == sha256_of(tmp_path / "b.mmb")


def test_a_builder_killed_while_it_writes_leaves_nothing(tmp_path: Path) -> None:
    """The path has the whole file, or none."""

    def stop(state: Progress) -> None:
        if state.phase == "assemble":
            die()

    def work() -> None:
        build_counting(tmp_path / "a.mmb", keys(3000), progress=stop)

    killed_in_child(work)
    assert not (tmp_path / "a.mmb").exists()
    build_counting(tmp_path / "a.mmb", keys(3000))
    assert (tmp_path / "a.mmb").exists()


def test_an_interrupted_build_can_be_resumed(tmp_path: Path, small_store: int) -> None:
    """As for the other kinds."""
    source = list_of(tmp_path / "keys.txt", keys(MANY_KEYS))
    asked = {"kind": "counting", "fpr": TARGET, "resume": True, "memory": small_store, "jobs": 1}

    def stop(state: Progress) -> None:
        if state.phase == "assemble":
            raise KeyboardInterrupt

    with mmbloom.read_list(source) as some, pytest.raises(KeyboardInterrupt):
        mmbloom.build(tmp_path / "a.mmb", some, progress=stop, **asked)
    with mmbloom.read_list(source) as some:
        report = build(tmp_path / "a.mmb", some, **asked)
    assert (report.keys_resumed, report.keys_added) == (MANY_KEYS, MANY_KEYS)
    with mmbloom.open(tmp_path / "a.mmb") as built:
        assert built.contains_many(keys(MANY_KEYS)).all()


def test_a_failed_build_leaves_no_file(tmp_path: Path) -> None:
    """Too many keys, no keys, and a layout of another kind."""
    with pytest.raises(CapacityError, match="6 distinct keys"):
        build_counting(tmp_path / "a.mmb", keys(6) * 2, capacity=5)
    with pytest.raises(SourceError, match="no keys"):
        build_counting(tmp_path / "a.mmb", [])
    with pytest.raises(ParameterError, match="counters"):
        build_counting(tmp_path / "a.mmb", keys(1), layout="page")
    assert names_in(tmp_path) == []
