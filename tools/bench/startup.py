"""startup: the time to start the command line and to import mmbloom."""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING

import mmbloom

from . import fresh
from .report import Row, Table, Target
from .timing import interleaved

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

SUMMARY = "cold start of the command line, and of the import"
CHECK_BOUND_MS, IMPORT_BOUND_MS = 120.0, 30.0
KEY = "a key that is in"
IMPORT = """
start = perf_counter_ns()
import mmbloom
took = (perf_counter_ns() - start) / 1e6
heavy = [name for name in ("numpy", "pyarrow", "rich") if name in sys.modules]
print(json.dumps({"ms": took, "heavy": heavy}))
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that only this command has."""
    parser.add_argument("--processes", type=int, default=21, help="default: %(default)s")


def run(options: argparse.Namespace) -> list[Table]:
    """Return one table: the bare interpreter, the import, and one look-up from the shell."""
    path = options.folder / "one.mmb"
    mmbloom.build(path, [KEY], fpr=0.01).close()
    command = [str(Path(sysconfig.get_path("scripts")) / "mmbloom"), "check", str(path)]
    python = [sys.executable, "-P", "-c", "pass"]
    heavy: set[str] = set()

    def import_ms() -> float:
        answer = fresh.ask(IMPORT)
        heavy.update(answer["heavy"])
        return float(answer["ms"])

    jobs: dict[str, Callable[[], float]] = {
        "python -c pass": lambda: fresh.wall_ms(python),
        "import mmbloom, in the process": import_ms,
        "mmbloom check, one key": lambda: fresh.wall_ms(command, KEY + "\n"),
    }
    timed = interleaved(jobs, options.processes)
    rows = [Row(name, name != "python -c pass", {"ms": took}) for name, took in timed.items()]
    check, imported = timed["mmbloom check, one key"], timed["import mmbloom, in the process"]
    targets = [
        _under("mmbloom check of one key, Python included", check.median, CHECK_BOUND_MS),
        _under("import mmbloom", imported.median, IMPORT_BOUND_MS),
        Target(
            "import mmbloom loads no numpy, pyarrow or rich",
            ", ".join(sorted(heavy)) or "none",
            not heavy,
        ),
    ]
    note = f"Median of {options.processes} new processes (quartiles), ms."
    return [Table("Start-up", note, ["ms"], [], rows, targets)]


def _under(what: str, found_ms: float, bound_ms: float) -> Target:
    return Target(f"{what}: < {bound_ms:.0f} ms", f"{found_ms:.1f} ms", found_ms < bound_ms)
