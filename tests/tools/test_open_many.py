"""The tool that does everything many times: each use works, and what is not given back is seen."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import ModuleType

TIMES = 1000


@pytest.fixture
def open_many(tool: Callable[[str], ModuleType]) -> ModuleType:
    """Return the tool."""
    return tool("open_many")


def test_every_use_works(open_many: ModuleType, tmp_path: Path) -> None:
    """What raises at once would be flat."""
    names = []
    for name, _, act in open_many.uses(tmp_path):
        act()
        names.append(name)

    assert len(set(names)) == len(names)
    assert {"look-ups, counting, pread", "building, fuse4", "merging, stacks"} < set(names)


@pytest.mark.usefixtures("unsanitized")
def test_what_gives_back_what_it_takes_is_flat(open_many: ModuleType) -> None:
    """It is done a few times before, for what is taken once."""
    assert open_many.measure("nothing", bytes, TIMES)


@pytest.mark.usefixtures("unsanitized")
def test_an_object_that_is_kept_each_time_is_seen(open_many: ModuleType) -> None:
    """Small as it is."""
    kept: list[object] = []

    assert not open_many.measure("objects", lambda: kept.append(object()), TIMES)


@pytest.mark.usefixtures("unsanitized")
def test_uniting_filters_loses_no_reference_to_any_class(open_many: ModuleType) -> None:
    """A generator of Cython 3.3 keeps one to its class when it is gone."""
    assert open_many.measure("in memory", open_many.combine, 100)


def test_a_descriptor_that_is_kept_is_seen(open_many: ModuleType) -> None:
    """One is enough."""
    kept = []
    assert not open_many.measure("descriptors", lambda: kept.append(os.dup(0)), 10)
    for descriptor in kept:
        os.close(descriptor)
