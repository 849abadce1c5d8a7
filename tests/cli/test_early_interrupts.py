"""Ctrl-C while the modules of the command are still being loaded."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

# Python runs this before anything else: the signal comes when a module is looked for.
HOOK = """
import os, signal, sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == os.environ["MODULE"]:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Finder())
"""
SCRIPT = "import sys\nfrom mmbloom.cli import main\nsys.exit(main())\n"


@pytest.mark.parametrize("module", ["mmbloom.engine", "argparse", "mmbloom.cli.plan"])
@pytest.mark.parametrize("started", ["python-m", "console-script"])
def test_an_interrupt_while_modules_load_ends_by_the_signal_without_a_traceback(
    tmp_path: Path, module: str, started: str
) -> None:
    """A shell leaves its loop if the command was ended by SIGINT."""
    (tmp_path / "sitecustomize.py").write_text(HOOK)
    (tmp_path / "mmbloom").write_text(SCRIPT)
    command = ["-m", "mmbloom"] if started == "python-m" else [str(tmp_path / "mmbloom")]
    done = subprocess.run(  # noqa: S603 - this Python
        [sys.executable, "-P", *command, "plan", "--keys", "9", "--fpr", "0.1"],
        env={**os.environ, "PYTHONPATH": str(tmp_path), "MODULE": module},
        capture_output=True,
        check=False,
    )

    assert done.returncode == -signal.SIGINT
    assert done.stdout == b""
    assert done.stderr in {b"", b"mmbloom plan: interrupted\n"}
