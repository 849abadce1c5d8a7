"""flush: what 1000 scattered adds to a large writable file write to disk.

The rival is the usual way: a shared map of the same file, one bit set in each of 1000 places, and
msync. Both start with the file in the page cache.
"""

from __future__ import annotations

import mmap
import os
from time import perf_counter_ns
from typing import TYPE_CHECKING

import mmbloom

from . import page_cache, sample_keys, sized
from .report import Row, Table, Target

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable
    from pathlib import Path

    from .report import Cell

SUMMARY = "bytes written by 1000 scattered adds and a flush"
NUM_ADDS = 1000
BOUND_BYTES = 16_000_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that only this command has."""
    parser.add_argument("--megabytes", type=int, help="of the payload; default: 1200, --quick 60")


def run(options: argparse.Namespace) -> list[Table]:
    """Return one table: a row per layout, and the plain map."""
    payload_bytes = 1_000_000 * (options.megabytes or (60 if options.quick else 1200))
    keys = sample_keys.urls(0, NUM_ADDS)
    rows, targets = [], []
    for layout in ("line", "page", "classic"):
        path = options.folder / f"{layout}.mmb"
        sized.full(path, payload_bytes, layout)
        with mmbloom.open_writable(path) as writable:
            rows.append(
                _measured(f"mmbloom {layout}", path, _add_each(writable, keys), writable.flush)
            )
        targets.append(_target(layout, rows[-1]))
        if layout == "line":
            rows.append(_plain_map(path))
        path.unlink()
    note = (
        f"{NUM_ADDS} adds, one call each, then flush. by disk: what the block device wrote"
        " meanwhile, for all processes, with a sync before and after. charged: write_bytes of"
        " /proc/self/io, which counts a whole folio of the page cache for each changed byte in it."
    )
    columns = ["MB written by disk", "MB charged to process", "us per add", "flush ms"]
    title = f"{NUM_ADDS} scattered adds to a file of {payload_bytes / 1e6:.0f} MB"
    judged = [column for column in columns if "charged" not in column]
    return [Table(title, note, columns, judged, rows, targets)]


def _add_each(writable: mmbloom.BloomFilter, keys: list[str]) -> Callable[[], None]:
    def adds() -> None:
        for key in keys:
            writable.add(key)

    return adds


def _plain_map(path: Path) -> Row:
    places = sample_keys.mixed(0, NUM_ADDS) % path.stat().st_size
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapping:

        def adds() -> None:
            for place in places.tolist():
                mapping[place] |= 1

        row = _measured("plain shared map, msync", path, adds, mapping.flush)
    return row._replace(ours=False)


def _measured(label: str, path: Path, adds: Callable[[], None], flush: Callable[[], object]) -> Row:
    os.sync()
    disk, process, start = (
        page_cache.disk_bytes_written(path),
        page_cache.process_bytes_written(),
        perf_counter_ns(),
    )
    adds()
    added = perf_counter_ns()
    flush()
    flushed = perf_counter_ns()
    written = page_cache.process_bytes_written() - process
    os.sync()
    disk_after = page_cache.disk_bytes_written(path)
    cells: dict[str, Cell] = {
        "MB charged to process": written / 1e6,
        "MB written by disk": None
        if disk is None or disk_after is None
        else (disk_after - disk) / 1e6,
        "us per add": (added - start) / 1e3 / NUM_ADDS,
        "flush ms": (flushed - added) / 1e6,
    }
    return Row(label, ours=True, cells=cells)


def _target(layout: str, row: Row) -> Target:
    # A file system without its own disk (an overlay) only has the charge.
    by_disk, charged = row.cells["MB written by disk"], row.cells["MB charged to process"]
    megabytes = by_disk if isinstance(by_disk, float) else charged
    assert isinstance(megabytes, float)  # noqa: S101 -- for the type checker: it holds by construction
    return Target(
        f"{layout}: at most {BOUND_BYTES / 1e6:.0f} MB written",
        f"{megabytes:.1f} MB",
        megabytes * 1e6 <= BOUND_BYTES,
    )
