"""The tool that does everything many times: each use works, and what is not given back is seen."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

TIMES = 1000
TOOLS = Path(__file__).parents[2] / "tools"


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


def is_flat(act: str, times: int) -> bool:
    """Measure an expression in a process of its own, which has few objects to count."""
    measured = f"open_many.measure('it', lambda: {act}, {times})"
    code = f"import os, sys, open_many\nkept = []\nsys.exit(3 - {measured})"
    command = [sys.executable, "-c", code]
    path = os.pathsep.join([str(TOOLS), str(TOOLS.parent)])
    done = subprocess.run(  # noqa: S603
        command, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, check=False
    )
    assert done.returncode in {2, 3}, done.stderr
    return done.returncode == 2


@pytest.mark.usefixtures("unsanitized")
@pytest.mark.parametrize(
    ("act", "times", "expected"),
    [
        ("bytes()", TIMES, True),
        ("kept.append(object())", TIMES, False),
        ("kept.append(os.dup(0))", 10, False),
        # A generator of Cython 3.3 keeps a reference to its class when it is gone.
        ("open_many.combine()", 100, True),
    ],
    ids=["nothing", "objects", "descriptors", "unions"],
)
def test_what_is_kept_each_time_is_seen(act: str, times: int, expected: bool) -> None:  # noqa: FBT001 - a row of a table
    """It is done a few times before, for what is taken once."""
    assert is_flat(act, times) == expected
