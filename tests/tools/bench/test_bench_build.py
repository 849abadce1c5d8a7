"""The benchmark of whole builds, and how it measures a process."""

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

BENCH = Path(__file__).parents[3] / "tools" / "bench"
MIB = 1 << 20


@pytest.fixture
def processes(tool: Callable[[str], ModuleType]) -> ModuleType:
    """Return the module that measures processes."""
    return tool("bench.processes")


@pytest.mark.usefixtures("unsanitized")
def test_the_peak_is_that_of_the_process_alone(processes: ModuleType, tmp_path: Path) -> None:
    """Without the parent process, which Linux would count too."""
    ours = bytearray(os.urandom(MIB)) * 150
    small = processes.cost_of([sys.executable, "-S", "-c", "print('out')"], tmp_path)
    large = processes.cost_of([sys.executable, "-S", "-c", f"b'x' * {100 * MIB}"], tmp_path)

    assert len(ours) == 150 * MIB
    assert small.out == "out\n"
    assert small.peak_bytes < 60 * MIB
    assert small.peak_bytes + 90 * MIB < large.peak_bytes < 160 * MIB


def test_a_command_that_fails_is_no_measurement(processes: ModuleType, tmp_path: Path) -> None:
    """Its time means nothing."""
    with pytest.raises(RuntimeError, match="exit code 3 of"):
        processes.cost_of(["sh", "-c", "exit 3"], tmp_path)


def test_a_small_run_prints_the_table_against_wc(tmp_path: Path) -> None:
    """A row for each way to build, with its time as a multiple of that of wc."""
    words = ["build", "--lines", "1000", "--repeats", "1", "--tables", "wc"]
    done = subprocess.run(  # noqa: S603 - this Python
        [sys.executable, str(BENCH), *words, "--folder", str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
    )

    assert "### 1,000 lines" in done.stdout
    assert "x wc -l" in done.stdout
    assert done.stdout.count("| mmbloom build, ") == 4
    assert "MISSED" not in done.stdout
    assert list(tmp_path.iterdir()) == []
