"""The campaign open-many: every use works, and a leak is noticed."""

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
TOOLS = Path(__file__).parents[3] / "tools"


@pytest.fixture
def open_many(tool: Callable[[str], ModuleType]) -> ModuleType:
    """Return the campaign."""
    return tool("campaigns.open_many")


def test_every_use_works(open_many: ModuleType, tmp_path: Path) -> None:
    """A use that raises at once would not show a leak."""
    names = []
    for name, _, act in open_many.uses(tmp_path):
        act()
        names.append(name)

    assert len(set(names)) == len(names)
    assert {"look-ups, counting, pread", "building, fuse4", "merging, stacks"} < set(names)


def is_flat(act: str, times: int) -> bool:
    """Measure an expression in a new process, which has few objects to count."""
    measured = f"open_many.measure('it', lambda: {act}, {times})"
    code = f"import os, sys\nfrom campaigns import open_many\nkept = []\nsys.exit(3 - {measured})"
    command = [sys.executable, "-c", code]
    path = os.pathsep.join([str(TOOLS), *sys.path])
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
        # A generator of Cython 3.3 leaks a reference to its class.
        ("open_many.combine()", 100, True),
    ],
    ids=["nothing", "objects", "descriptors", "unions"],
)
def test_what_grows_with_every_use_is_noticed(act: str, times: int, expected: bool) -> None:  # noqa: FBT001 - a row of a table
    """A warm-up takes care of what is allocated only once."""
    assert is_flat(act, times) == expected
