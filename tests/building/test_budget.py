"""How much memory and how many threads a build uses."""

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


@pytest.mark.parametrize("asked", [32 * MIB, np.int64(64 * MIB)])
def test_the_memory_asked_for_is_used(asked: int) -> None:
    """Any integer."""
    assert memory_budget(asked) == asked


def test_memory_that_the_machine_does_not_have_is_refused() -> None:
    """All of it can be asked for, and no byte more."""
    most = memory.machine_memory_bytes()
    assert memory_budget(most) == most
    for asked in (most + 1, 1 << 80):
        with pytest.raises(ParameterError, match=f"at most {most} bytes"):
            memory_budget(asked)


@pytest.mark.parametrize("asked", [0, -1, 32 * MIB - 1])
def test_too_little_memory_is_refused_with_the_least_allowed(asked: int) -> None:
    """With less, the first chunk of each partition would not fit."""
    with pytest.raises(ParameterError, match="32 MiB"):
        memory_budget(asked)


@pytest.mark.parametrize("asked", ["1G", 1e9, True, b"1"])
def test_memory_must_be_an_integer(asked: object) -> None:
    """Sizes such as 1G are for the command line only."""
    with pytest.raises(ParameterTypeError, match="memory"):
        memory_budget(asked)  # type: ignore[arg-type]


@pytest.mark.parametrize("asked", [1, 256, np.int64(7)])
def test_the_number_of_threads_asked_for_is_used(asked: int) -> None:
    """Even if there are fewer cores."""
    assert num_jobs(asked, 32 * MIB) == asked


@pytest.mark.parametrize("asked", [0, -1, 257])
def test_too_few_and_too_many_threads_are_refused(asked: int) -> None:
    """Each thread needs memory of its own."""
    with pytest.raises(ParameterError, match="1 to 256"):
        num_jobs(asked, 1 << 40)


@pytest.mark.parametrize("asked", ["2", 2.0, True])
def test_the_number_of_threads_must_be_an_integer(asked: object) -> None:
    """The error names the parameter."""
    with pytest.raises(ParameterTypeError, match="jobs"):
        num_jobs(asked, 1 << 30)  # type: ignore[arg-type]


def test_by_default_there_is_a_thread_per_core_if_memory_allows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Only cores that this process may run on count; with the least memory there is one thread."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)))

    assert num_jobs(None, 8 << 30) == 64
    assert 1 <= num_jobs(None, 32 * MIB) < 64


def test_by_default_a_quarter_of_free_memory_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """And never less than the least allowed."""
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
def test_in_a_container_its_limit_decides_what_is_free(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    limit: bytes | None,
    used: bytes,
    free: int | None,
) -> None:
    """A process that uses a quarter of the machine's memory may be killed."""
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
