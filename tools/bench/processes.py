"""Runs a command as a process of its own, and tells what it cost: time, processor, peak memory."""

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

# The command is started by a small Python, not by this one: Linux counts the memory of the process
# that starts another as the other's peak (signal->maxrss is carried through exec), and this one has
# NumPy and more. So no peak below that of the small Python, some 10 MiB, can be seen.
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
        cpu_seconds: of all cores, of the command and the processes that it waited for.
        peak_bytes: resident memory at its peak, mapped files included, of the largest of those
            processes.
        out: what it printed.

    """

    seconds: float
    cpu_seconds: float
    peak_bytes: int
    out: str


def cost_of(command: Sequence[str], folder: Path) -> Cost:
    """Run the command in the system's folder for temporary files and return its cost.

    Raises:
        RuntimeError: it failed; what it said of that went to our standard error.
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
    """Run a command whose output is large and of no use; else as cost_of()."""
    return cost_of(["sh", "-c", f"exec {shlex.join(command)} > /dev/null"], folder)
