"""The kernel alone, here and on emulated machines: big-endian, and 32 bits."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
CAMPAIGNS = ROOT / "tools" / "campaigns"
NOT_HERE = 3


@pytest.mark.parametrize("machine", ["native", "s390x", "i386"])
def test_files_of_this_machine_are_read_by_one_of_another_kind(machine: str) -> None:
    """The golden files are valid there, and give the same answers as here."""
    if not (ROOT / "mmbloom" / "engine" / "kernel").is_dir():
        pytest.skip("the kernel's sources are not here: an installed wheel has none")
    if shutil.which(os.environ.get("CC", "cc")) is None:
        pytest.skip("no C compiler here")

    done = subprocess.run(  # noqa: S603 - this Python
        [sys.executable, CAMPAIGNS, "other-machines", "--quick", machine],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == NOT_HERE:
        pytest.skip(done.stdout.strip())

    assert done.returncode == 0, done.stdout + done.stderr
    assert "7 golden files" in done.stdout
