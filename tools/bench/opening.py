"""open: the cost of opening a file in a new process, for 1 MB and 6 GB."""

from __future__ import annotations

from typing import TYPE_CHECKING

import mmbloom

from . import fresh, sized
from .report import Row, Table, Target
from .timing import spread

if TYPE_CHECKING:
    import argparse

    from .report import Cell

SUMMARY = "opening a file in a new process, small and huge"
BOUND_MS, BOUND_MIB = 1.0, 1.0
SNIPPET = """
import mmbloom
before = private_bytes()
start = perf_counter_ns()
kept = mmbloom.open(sys.argv[1])
took = perf_counter_ns() - start
grown = private_bytes() - before
start = perf_counter_ns()
"never added" in kept
first = perf_counter_ns() - start
kept.close()
print(json.dumps({"ms": took / 1e6, "mib": grown / 2**20, "first": first / 1e3}))
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that only this command has."""
    parser.add_argument("--processes", type=int, default=21, help="default: %(default)s")


def run(options: argparse.Namespace) -> list[Table]:
    """Return one table, with a row per size."""
    sizes = {"1 MB": 1_000_000, "6 GB": 6_000_000_000}
    if options.quick:
        sizes = {"1 MB": 1_000_000, "60 MB": 60_000_000}
    rows, targets = [], []
    for name, payload_bytes in sizes.items():
        path = options.folder / f"{payload_bytes}.mmb"
        capacity = sized.capacity_for(payload_bytes, "line")
        mmbloom.BloomFilter.create(path, capacity=capacity, fpr=sized.FPR, layout="line").close()
        answers = [fresh.ask(SNIPPET, str(path)) for _ in range(options.processes)]
        took = spread([answer["ms"] for answer in answers])
        grown = spread([answer["mib"] for answer in answers])
        first = spread([answer["first"] for answer in answers])
        file_bytes = path.stat().st_size
        cells: dict[str, Cell] = {
            "file bytes": f"{file_bytes:,}",
            "open ms": took,
            "private MiB": grown,
            "first look-up us": first,
        }
        rows.append(Row(f"mmbloom, {name}", ours=True, cells=cells))
        targets += [
            Target(
                f"{name}: open in < {BOUND_MS} ms", f"{took.median:.3f} ms", took.median < BOUND_MS
            ),
            Target(
                f"{name}: < {BOUND_MIB} MiB of private memory",
                f"{grown.median:.3f} MiB",
                grown.median < BOUND_MIB,
            ),
        ]
    note = (
        f"Median of {options.processes} new processes (quartiles); time of mmbloom.open alone."
        " The files are empty: their space is reserved, their bytes are zero."
    )
    columns = ["file bytes", "open ms", "private MiB", "first look-up us"]
    return [Table("Opening", note, columns, columns[1:], rows, targets)]
