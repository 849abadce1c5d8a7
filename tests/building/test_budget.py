"""How much memory and how many threads a build takes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np
import pytest

from mmbloom import ParameterError, ParameterTypeError
from mmbloom.building import budget
from mmbloom.building.budget import memory_budget, num_jobs
from mmbloom.storage import memory

if TYPE_CHECKING:
    from pathlib import Path

MIB = 1 << 20


@pytest.mark.parametrize("asked", [32 * MIB, np.int64(64 * MIB), 1 << 50])
def test_what_was_asked_for_is_taken(asked: int) -> None:
    """Any integer; more than there is, too: it is not touched before it is needed."""
    assert memory_budget(asked) == asked


@pytest.mark.parametrize("asked", [0, -1, 32 * MIB - 1])
def test_too_little_is_refused_with_the_least_there_is(asked: int) -> None:
    """Below it not even the ends of the partitions have room."""
    with pytest.raises(ParameterError, match="32 MiB"):
        memory_budget(asked)


@pytest.mark.parametrize("asked", ["1G", 1e9, True, b"1"])
def test_what_is_no_integer_is_no_memory(asked: object) -> None:
    """Sizes in words are the command line's."""
    with pytest.raises(ParameterTypeError, match="memory"):
        memory_budget(asked)  # type: ignore[arg-type]


@pytest.mark.parametrize("asked", [1, 256, np.int64(7)])
def test_as_many_threads_as_asked_for(asked: int) -> None:
    """Whether there are cores for them or not."""
    assert num_jobs(asked, 32 * MIB) == asked


@pytest.mark.parametrize("asked", [0, -1, 257])
def test_no_thread_and_too_many_are_refused(asked: int) -> None:
    """A mistake; each has a share of the memory."""
    with pytest.raises(ParameterError, match="1 to 256"):
        num_jobs(asked, 1 << 40)


@pytest.mark.parametrize("asked", ["2", 2.0, True])
def test_what_is_no_integer_is_no_number_of_threads(asked: object) -> None:
    """By name."""
    with pytest.raises(ParameterTypeError, match="jobs"):
        num_jobs(asked, 1 << 30)  # type: ignore[arg-type]


def test_by_default_there_is_a_thread_a_core_that_has_its_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of the cores that this process may run on; a build with the least memory still runs."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)))

    assert num_jobs(None, 8 << 30) == 64
    assert 1 <= num_jobs(None, 32 * MIB) < 64


def test_by_default_it_is_a_quarter_of_what_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    """And never less than the least."""
    monkeypatch.setattr(budget, "free_memory_bytes", lambda: 4 << 30)
    assert memory_budget(None) == 1 << 30
    monkeypatch.setattr(budget, "free_memory_bytes", lambda: 1 << 20)
    assert memory_budget(None) == 32 * MIB


@pytest.mark.parametrize(
    ("limit", "used", "free"),
    [
        pytest.param(b"300000000\n", b"100000000\n", 200_000_000, id="limited"),
        pytest.param(b"300000000\n", b"400000000\n", 0, id="beyond-its-limit"),
        pytest.param(b"max\n", b"100000000\n", None, id="no-limit"),
        pytest.param(None, b"100000000\n", None, id="no-file"),
    ],
)
def test_in_a_container_what_is_free_is_what_its_limit_leaves(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    limit: bytes | None,
    used: bytes,
    free: int | None,
) -> None:
    """The machine's memory is not its own: who takes a quarter of that is killed."""
    if limit is not None:
        (tmp_path / "limit").write_bytes(limit)
    (tmp_path / "used").write_bytes(used)
    files = ((str(tmp_path / "limit"), str(tmp_path / "used")),)
    monkeypatch.setattr(memory, "_CGROUP_FILES", files)

    found = memory.free_memory_bytes()

    if free is None:
        assert 0 < found <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    else:
        assert found == free
