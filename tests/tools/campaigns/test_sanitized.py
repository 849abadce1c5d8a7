"""The campaign sanitized: what it counts, and what is a finding."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

LEAKS = """
=================================================================
==7==ERROR: LeakSanitizer: detected memory leaks

Direct leak of 64 byte(s) in 1 object(s) allocated from:
    #0 0x7f in __interceptor_malloc
    #1 0x7f in PyInit__multiarray (/lib/numpy/_multiarray.cpython-311-x86_64-linux-gnu.so+0x1)
{ours}
SUMMARY: AddressSanitizer: 64 byte(s) leaked in 1 allocation(s).
"""
OURS = """
Direct leak of 33 byte(s) in 1 object(s) allocated from:
    #0 0x7f in __interceptor_malloc
    #1 0x7f in hash_batch (/tree/mmbloom/_kernel.cpython-311-x86_64-linux-gnu.so+0x1)
"""
TESTS = """
import pytest
def test_that_passes(): pass
def test_that_fails(): assert False
def test_that_is_skipped(): pytest.skip("for a reason")
"""


@pytest.fixture
def sanitized(tool: Callable[[str], ModuleType]) -> ModuleType:
    """Return the campaign if the compiler has the libraries of the sanitizers."""
    compiler = os.environ.get("CC", "gcc")
    if shutil.which(compiler) is None:
        pytest.skip("no C compiler found")
    command = [compiler, "-print-file-name=libasan.so"]
    found = subprocess.run(command, capture_output=True, text=True, check=False).stdout  # noqa: S603
    if not Path(found.strip()).is_absolute():
        pytest.skip("this compiler has no libasan.so")
    return tool("campaigns.sanitized")


def test_an_invalid_read_is_a_finding(sanitized: ModuleType, tmp_path: Path) -> None:
    """Reported by the sanitizer and by the exit code."""
    command = [sys.executable, "-c", "import ctypes; ctypes.string_at(1)"]
    outcome = sanitized.run(command, tmp_path, leaks=False)

    assert outcome.exit_code != 0
    assert len(outcome.findings) == 1
    assert "AddressSanitizer: SEGV" in outcome.findings[0]
    assert list(tmp_path.iterdir()) == []


def test_tests_are_counted_with_the_reasons_of_skipped_ones(
    sanitized: ModuleType, tmp_path: Path
) -> None:
    """A skipped test must not count as passed."""
    path = tmp_path / "test_three.py"
    path.write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(path)]
    outcome = sanitized.run(command, tmp_path, leaks=False)

    assert outcome.tests == {"run": 3, "passed": 1, "failed": 1, "skipped": 1}
    assert outcome.skipped == {"for a reason": 1}
    assert outcome.exit_code == 1
    assert outcome.findings == []


@pytest.mark.parametrize(("ours", "number"), [("", 0), (OURS, 1)], ids=["theirs", "ours"])
def test_a_leak_is_a_finding_if_the_extension_is_in_its_stack(
    sanitized: ModuleType, tmp_path: Path, ours: str, number: int
) -> None:
    """Other libraries leak a few blocks when they are imported."""
    (tmp_path / "asan.7").write_text(LEAKS.format(ours=ours))

    assert len(sanitized.findings(tmp_path)) == number
