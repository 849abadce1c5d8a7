"""Runs a few lines in a new Python process, as a process that has measured before is not clean."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

# Available to every snippet. Private memory: pages of this process only, from smaps_rollup.
PRELUDE = """
import json, resource, sys
from time import perf_counter_ns

def private_bytes():
    with open("/proc/self/smaps_rollup") as file:
        return 1024 * sum(int(line.split()[1]) for line in file if line.startswith("Private_"))

def major_faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_majflt

private_bytes(), major_faults()  # called once, so that their own memory is not measured
"""


def ask(snippet: str, *arguments: str) -> dict[str, Any]:
    """Run the snippet and return the JSON object that it prints; sys.argv[1:] is *arguments*.

    -P and another working folder prevent the import of mmbloom from the repository, which is not
    compiled.
    """
    done = run([sys.executable, "-P", "-c", PRELUDE + snippet, *arguments])
    answer: dict[str, Any] = json.loads(done)
    return answer


def run(command: Sequence[str], stdin: str = "") -> str:
    """Run the command and return its output; its errors are passed through."""
    done = subprocess.run(  # noqa: S603 -- our own command
        command,
        input=stdin,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        cwd=tempfile.gettempdir(),
    )
    return done.stdout


def wall_ms(command: Sequence[str], stdin: str = "") -> float:
    """Return the time of a command in ms, from start to end."""
    start = perf_counter_ns()
    run(command, stdin)
    return (perf_counter_ns() - start) / 1e6
