"""Runs a command in a new process and measures its time, processor time and peak memory."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

# The command is started by a small Python process, not by this one. Linux counts the memory of the
# parent in the peak of the child (signal->maxrss survives exec), and this process has NumPy and
# more. So a peak below that of the small process, about 10 MiB, cannot be measured.
LAUNCHER = """
import json, os, sys, time
sink = (os.POSIX_SPAWN_OPEN, 1, sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
start = time.perf_counter()
pid = os.posix_spawnp(sys.argv[2], sys.argv[2:], os.environ, file_actions=[sink])
_, status, usage = os.wait4(pid, 0)
print(json.dumps({
    "code": os.waitstatus_to_exitcode(status),
    "seconds": time.perf_counter() - start,
    "cpu_seconds": usage.ru_utime + usage.ru_stime,
    "peak_bytes": usage.ru_maxrss * 1024,
}))
"""


class Cost(NamedTuple):
    """What one run cost.

    Attributes:
        seconds: from start to end.
        cpu_seconds: of all cores, for the command and its child processes.
        peak_bytes: resident memory at its peak, mapped files included, of the largest of those
            processes.
        out: its standard output.

    """

    seconds: float
    cpu_seconds: float
    peak_bytes: int
    out: str


def cost_of(command: Sequence[str], folder: Path) -> Cost:
    """Run the command in the system's folder for temporary files and return its cost.

    Raises:
        RuntimeError: it failed; its error message is on our standard error.
    """
    sink = folder / "printed"
    done = subprocess.run(  # noqa: S603 -- our own command
        [sys.executable, "-I", "-S", "-c", LAUNCHER, str(sink), *command],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        cwd=tempfile.gettempdir(),
    )
    found = json.loads(done.stdout)
    if found["code"]:
        raise RuntimeError(f"exit code {found['code']} of: {shlex.join(command)}")
    return Cost(found["seconds"], found["cpu_seconds"], found["peak_bytes"], sink.read_text())


def drained(command: Sequence[str], folder: Path) -> Cost:
    """Run a command and discard its output; otherwise as cost_of()."""
    return cost_of(["sh", "-c", f"exec {shlex.join(command)} > /dev/null"], folder)
