"""arrow: contains_many from Arrow on a filter far larger than the caches, against the floor.

The filters are as dense as full ones (sized.py) and in the page cache. The floor is measured with
the file of the first layout, in the same rounds.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import numpy as np

import mmbloom

from . import page_cache, sample_keys, sized
from .floor import Floor
from .report import Row, Table, Target
from .timing import Spread, interleaved, once

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable
    from pathlib import Path

    import pyarrow as pa

    from .report import Cell

SUMMARY = "contains_many from Arrow on a large filter, against the floor of the machine"
LAYOUTS = ("line", "page", "classic")
LINE_BOUND, PAGE_BOUND = 1.5, 1.7


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that only this command has."""
    parser.add_argument("--megabytes", type=int, help="of the payload; default: 1200, --quick 60")
    parser.add_argument("--keys", type=int, help="in a batch; default: 4 million, --quick 400 000")
    parser.add_argument("--layouts", default=",".join(LAYOUTS), help="default: %(default)s")


def run(options: argparse.Namespace) -> list[Table]:
    """Return one table: the floor, then each layout, hits and misses."""
    payload_bytes = 1_000_000 * (options.megabytes or (60 if options.quick else 1200))
    num_keys = options.keys or (400_000 if options.quick else 4_000_000)
    layouts = options.layouts.split(",")
    present = sample_keys.arrow_urls(0, num_keys)
    absent = sample_keys.arrow_urls(sample_keys.ABSENT, num_keys)
    paths = {layout: options.folder / f"{layout}.mmb" for layout in layouts}
    for layout, path in paths.items():
        sized.full(path, payload_bytes, layout, present)

    with contextlib.ExitStack() as stack:
        kept = {name: stack.enter_context(mmbloom.open(path)) for name, path in paths.items()}
        first = kept[layouts[0]]
        floor = Floor(
            paths[layouts[0]], sized.PAYLOAD_OFFSET, sized.payload_bytes_of(first.num_bits)
        )
        stack.callback(floor.close)
        jobs = floor.jobs(present)
        facts: dict[str, dict[str, Cell]] = {}
        for layout, opened in kept.items():
            facts[layout] = _facts(opened, paths[layout], present, absent)
            jobs[f"{layout} hit"] = _lookup(opened, present)
            jobs[f"{layout} miss"] = _lookup(opened, absent)
        timed = interleaved(jobs, options.repeats)
    return [_table(payload_bytes, num_keys, timed, facts, options.repeats)]


def _lookup(opened: mmbloom.BloomFilter, keys: pa.Array) -> Callable[[], float]:
    # One buffer for all answers: new pages from the kernel are not part of a look-up.
    out = np.empty(len(keys), dtype=bool)
    return lambda: once(lambda: opened.contains_many(keys, out=out), len(keys))


def _facts(
    opened: mmbloom.BloomFilter, path: Path, present: pa.Array, absent: pa.Array
) -> dict[str, Cell]:
    """Look up all keys once, which also maps the file; return what was found."""
    if not np.all(opened.contains_many(present)):
        message = "a key that was added is answered 'definitely not'"
        raise AssertionError(message)
    return {
        "measured fpr": float(np.mean(opened.contains_many(absent))),
        "in the page cache": page_cache.resident_pages(path) * 4096 / path.stat().st_size,
    }


def _table(
    payload_bytes: int,
    num_keys: int,
    timed: dict[str, Spread],
    facts: dict[str, dict[str, Cell]],
    repeats: int,
) -> Table:
    hash_and_line = timed["hash"].median + timed["line"].median
    rows = [
        Row("floor: XXH3-128 of the keys, in C", ours=False, cells={"ns/key": timed["hash"]}),
        Row("floor: one random line of the map", ours=False, cells={"ns/key": timed["line"]}),
        Row("floor: sum of the two", ours=False, cells={"ns/key": hash_and_line}),
        Row("floor: both in one loop", ours=False, cells={"ns/key": timed["both"]}),
    ]
    for layout, found in facts.items():
        for kind in ("hit", "miss"):
            took = timed[f"{layout} {kind}"]
            cells = {"ns/key": took, "x floor": took.median / hash_and_line, **found}
            rows.append(Row(f"mmbloom {layout}, {kind}", ours=True, cells=cells))
    note = (
        f"ns per key, median of {repeats} rounds (quartiles), one thread, batches of {num_keys:,}"
        " URLs of 50 characters in an Arrow string array. x floor: against hash + one random line."
    )
    return Table(
        f"contains_many from Arrow, {payload_bytes / 1e6:.0f} MB payload in the page cache",
        note,
        ["ns/key", "x floor", "measured fpr", "in the page cache"],
        [],
        rows,
        _targets(timed, hash_and_line, facts),
    )


def _targets(
    timed: dict[str, Spread], hash_and_line: float, facts: dict[str, dict[str, Cell]]
) -> list[Target]:
    found = []
    for kind in ("hit", "miss") if "line" in facts else ():
        line = timed[f"line {kind}"].median
        ratio = line / hash_and_line
        promise = f"line, {kind}: at most {LINE_BOUND}x of hash + one random line"
        found.append(Target(promise, f"{ratio:.2f}x", ratio <= LINE_BOUND))
        if "page" in facts:
            ratio = timed[f"page {kind}"].median / line
            promise = f"page, {kind}: at most {PAGE_BOUND}x of line"
            found.append(Target(promise, f"{ratio:.2f}x", ratio <= PAGE_BOUND))
    return found
