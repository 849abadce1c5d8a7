"""kinds: what fuse and counting filters take, beside Bloom filters and beside peers.

Five tables' worth of questions: size, whole builds and look-ups of small lists, construction of a
large one, a file of a gigabyte, counters. Each has a module of its own, but for the second: there
fuse filters are built from keys in memory by the whole builder, hashing and sorting included, and
written to a file; they are looked up in the page cache.
"""

from __future__ import annotations

import contextlib
import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import mmbloom

from . import counters, fuse_building, fuse_large, fuse_sizes, sample_keys
from .report import Row, Table, Target
from .timing import Spread, interleaved, once

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable
    from pathlib import Path

    import pyarrow as pa

    from .report import Cell

SUMMARY = "fuse and counting filters: size, rate, build and look-ups beside line"
LOOKUP_BOUND = 3.0
SIGMAS = 4


class Case(NamedTuple):
    """One filter to build: a fuse filter has the rate 2^-w, and line is asked for the same."""

    kind: str
    layout: str
    fpr: float

    @property
    def name(self) -> str:
        """How its row is called."""
        return f"{self.layout} at {self.fpr:.3g}"


CASES = [
    Case(kind, layout, 2.0**-width)
    for width in (8, 10, 16)
    for kind, layout in (("bloom", "line"), ("fuse", "fuse3"), ("fuse", "fuse4"))
]


class Sizes(NamedTuple):
    """How many keys or bytes each table takes."""

    listed: int  # keys of a static list
    counted: int  # keys of a counting filter
    sizes: tuple[int, ...]  # keys whose bits are counted
    constructed: int  # hashes that shards are made of
    peer: int  # hashes of the peer beside that
    large_bytes: int  # payload of the large file
    batch: int  # keys that it is asked


FULL = Sizes(
    4_000_000, 1_000_000, (10**6, 10**8), 100_000_000, 20_000_000, 1_000_000_000, 4_000_000
)
QUICK = Sizes(100_000, 50_000, (10**5,), 2_000_000, 500_000, 60_000_000, 400_000)
TABLES = "sizes,lists,construct,large,counters"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that only this command has."""
    parser.add_argument("--scale", type=float, default=1.0, help="of all sizes, to try it out")
    parser.add_argument("--jobs", type=int, default=1, help="of builds; default: %(default)s")
    parser.add_argument("--processes", type=int, default=21, help="that open; %(default)s")
    parser.add_argument("--tables", default=TABLES, help="with commas; default: %(default)s")
    parser.add_argument(
        "--layouts", default="fuse3,fuse4", help="constructed; default: %(default)s"
    )


def run(options: argparse.Namespace) -> list[Table]:
    """Return the tables that are asked for."""
    sizes = _scaled(QUICK if options.quick else FULL, options.scale)
    wanted = options.tables.split(",")
    tables = []
    if "sizes" in wanted:
        tables.append(fuse_sizes.table(options.folder, sizes.sizes, options.jobs))
    if "lists" in wanted:
        tables.append(_static(options, sizes.listed))
    if "construct" in wanted:
        layouts = options.layouts.split(",")
        repeats = options.repeats
        tables.append(fuse_building.table(sizes.constructed, sizes.peer, repeats, layouts))
    if "large" in wanted:
        large = sizes.large_bytes, sizes.batch, options.repeats, options.processes
        tables += fuse_large.tables(options.folder, *large)
    if "counters" in wanted:
        tables += counters.tables(sizes.counted, options.repeats)
    return tables


def _scaled(full: Sizes, scale: float) -> Sizes:
    scaled = [
        tuple(int(size * scale) for size in each) if isinstance(each, tuple) else int(each * scale)
        for each in full
    ]
    return Sizes(*scaled)  # type: ignore[arg-type]


# ---- static lists --------------------------------------------------------------------------------


def _static(options: argparse.Namespace, num_keys: int) -> Table:
    present = sample_keys.random_16_bytes(0, num_keys)
    absent = sample_keys.random_16_bytes(sample_keys.ABSENT, num_keys)
    paths = {case: options.folder / f"{case.name}.mmb" for case in CASES}
    builds = {case: _build(path, case, present, options.jobs) for case, path in paths.items()}
    built = interleaved(builds, options.repeats)
    with contextlib.ExitStack() as stack:
        kept = {case: stack.enter_context(mmbloom.open(path)) for case, path in paths.items()}
        rates = {case: _rate(opened, present, absent) for case, opened in kept.items()}
        jobs = {}
        for case, opened in kept.items():
            jobs[case, "hit"] = _lookup(opened, present)
            jobs[case, "miss"] = _lookup(opened, absent)
        looked_up = interleaved(jobs, options.repeats)
        bits = {case: opened.num_bits / num_keys for case, opened in kept.items()}
    rows = []
    for case in CASES:
        cells: dict[str, Cell] = {
            "bits/key": bits[case],
            "measured fpr": rates[case],
            "build": built[case],
            "hit": looked_up[case, "hit"],
            "miss": looked_up[case, "miss"],
        }
        rows.append(Row(f"mmbloom {case.name}", ours=True, cells=cells))
    note = (
        f"{num_keys:,} keys of 16 random bytes in Arrow; ns per key, median of {options.repeats} "
        f"rounds (quartiles). build: the whole of it, {options.jobs} thread(s). hit, miss: batches "
        "of all keys, one thread."
    )
    columns = ["bits/key", "measured fpr", "build", "hit", "miss"]
    targets = _rate_targets(rates, num_keys) + _lookup_targets(looked_up)
    return Table("Lists that do not change, in a file", note, columns, [], rows, targets)


def _build(path: Path, case: Case, keys: pa.Array, jobs: int) -> Callable[[], float]:
    asked: dict[str, Any] = {"kind": case.kind, "layout": case.layout, "fpr": case.fpr}

    def build() -> None:
        mmbloom.build(path, keys, jobs=jobs, if_exists="replace", **asked).close()

    return lambda: once(build, len(keys))


def _lookup(opened: Any, keys: pa.Array) -> Callable[[], float]:  # noqa: ANN401 - of any kind
    # The answers go where they went before: new pages from the kernel are no part of a look-up.
    out = np.empty(len(keys), dtype=bool)
    return lambda: once(lambda: opened.contains_many(keys, out=out), len(keys))


def _rate(opened: Any, present: pa.Array, absent: pa.Array) -> float:  # noqa: ANN401 - of any kind
    """Look everything up once, which also maps the file, and return the rate."""
    if not np.all(opened.contains_many(present)):
        message = "a key that was added is answered 'definitely not'"
        raise AssertionError(message)
    return float(np.mean(opened.contains_many(absent)))


def _rate_targets(rates: dict[Case, float], num_absent: int) -> list[Target]:
    found = []
    for case, rate in rates.items():
        if case.kind == "fuse":
            sigma = math.sqrt(case.fpr * (1 - case.fpr) / num_absent)
            off = (rate - case.fpr) / sigma
            promise = f"{case.name}: measured within {SIGMAS} sigma"
            found.append(Target(promise, f"{off:+.1f} sigma", abs(off) <= SIGMAS))
    return found


def _lookup_targets(looked_up: dict[tuple[Case, str], Spread]) -> list[Target]:
    found = []
    for (case, which), took in looked_up.items():
        if case.kind == "fuse":
            line = looked_up[Case("bloom", "line", case.fpr), which].median
            ratio = took.median / line
            promise = f"{case.name}, {which}: at most {LOOKUP_BOUND:g}x of line"
            found.append(Target(promise, f"{ratio:.2f}x", ratio <= LOOKUP_BOUND))
    return found
