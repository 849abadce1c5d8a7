"""The benchmark against another version, here against itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import mmbloom

pytestmark = pytest.mark.skipif(mmbloom.ENGINE == "python", reason="measures the kernel")
BENCH = Path(__file__).parents[3] / "tools" / "bench"


def test_every_operation_has_a_ratio(tmp_path: Path) -> None:
    """And nothing is left in the folder."""
    words = ["before", "--quick", "--repeats", "1", "--folder", str(tmp_path)]
    done = subprocess.run(  # noqa: S603 - this Python
        [sys.executable, str(BENCH), *words], capture_output=True, text=True, check=True
    )

    for operation in ("add", "update(list)", "key in f", "contains_many(list)", "open, fuse"):
        assert f"| {operation} |" in done.stdout
    assert list(tmp_path.iterdir()) == []
