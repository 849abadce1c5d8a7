"""kinds: what fuse and counting filters take, beside a Bloom filter of layout line.

Fuse filters are built from keys in memory by the whole builder, hashing and sorting included, and
written to a file; they are looked up in the page cache. Counting filters are in memory.
"""

from __future__ import annotations

import contextlib
import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import mmbloom

from . import sample_keys
from .report import Row, Table, Target
from .timing import Spread, interleaved, once

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable
    from pathlib import Path

    import pyarrow as pa

    from .report import Cell

SUMMARY = "fuse and counting filters: size, rate, build and look-ups beside line"
COUNTING_FPR = 0.01
LOOKUP_BOUND, COUNTING_BOUND = 3.0, 1.6
# At 8 bits, of a million keys and more; smaller sets take more.
BITS_BOUND = {"fuse3": 9.1, "fuse4": 8.75}
FEWEST_FOR_BITS = 1_000_000
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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that only this command has."""
    parser.add_argument("--keys", type=int, help="of a static list; default: 4 million")
    parser.add_argument("--counted", type=int, help="keys of a counting filter; default: 1 million")
    parser.add_argument("--jobs", type=int, default=1, help="of builds; default: %(default)s")


def run(options: argparse.Namespace) -> list[Table]:
    """Return a table of static filters and one of counting filters."""
    num_keys = options.keys or (100_000 if options.quick else 4_000_000)
    counted = options.counted or (50_000 if options.quick else 1_000_000)
    return [_static(options, num_keys), _counting(options, counted)]


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
    targets = [*_size_targets(bits, num_keys), *_rate_targets(rates, num_keys)]
    targets += _lookup_targets(looked_up)
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


def _size_targets(bits: dict[Case, float], num_keys: int) -> list[Target]:
    if num_keys < FEWEST_FOR_BITS:
        return []
    found = []
    for layout, bound in BITS_BOUND.items():
        taken = bits[Case("fuse", layout, 2.0**-8)]
        promise = f"{layout} at 0.39 %: at most {bound} bits a key"
        found.append(Target(promise, f"{taken:.2f}", taken <= bound))
    return found


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


# ---- counters ------------------------------------------------------------------------------------


def _counting(options: argparse.Namespace, num_keys: int) -> Table:
    present = sample_keys.random_16_bytes(0, num_keys)
    absent = sample_keys.random_16_bytes(sample_keys.ABSENT, num_keys)
    asked: dict[str, Any] = {"capacity": num_keys, "fpr": COUNTING_FPR, "overfill": True}
    with (
        mmbloom.BloomFilter.in_memory(layout="line", **asked) as line,
        mmbloom.CountingBloomFilter.in_memory(**asked) as counters,
    ):
        jobs: dict[str, Callable[[], float]] = {
            "line add": lambda: _change(line, line.update, present),
            "counters add": lambda: _change(counters, counters.update, present),
            "counters remove": lambda: _change(
                counters, counters.remove_many, present, before=present
            ),
        }
        times = interleaved(jobs, options.repeats)
        for found in (line, counters):
            found.clear()
            found.update(present)
        rates = {"line": _rate(line, present, absent), "counters": _rate(counters, present, absent)}
        reads = {
            f"{name} {which}": _lookup(found, keys)
            for name, found in (("line", line), ("counters", counters))
            for which, keys in (("hit", present), ("miss", absent))
        }
        times |= interleaved(reads, options.repeats)
        bits = {"line": line.num_bits / num_keys, "counters": counters.num_bits / num_keys}
    columns = ["add", "remove", "hit", "miss"]
    rows = [
        Row(
            f"mmbloom {name}",
            ours=True,
            cells={
                "bits/key": bits[name],
                "measured fpr": rates[name],
                **{column: times.get(f"{name} {column}") for column in columns},
            },
        )
        for name in ("line", "counters")
    ]
    note = (
        f"{num_keys:,} keys of 16 random bytes in Arrow, {100 * COUNTING_FPR:g} %, in memory; ns "
        f"per key, median of {options.repeats} rounds (quartiles), batches of all keys, one thread."
    )
    title = "Counters, beside bits"
    return Table(
        title, note, ["bits/key", "measured fpr", *columns], [], rows, _counting_targets(times)
    )


def _change(
    found: Any,  # noqa: ANN401 - of either kind
    change: Callable[[object], object],
    keys: pa.Array,
    before: pa.Array | None = None,
) -> float:
    """Time a change to a filter that is emptied first, or filled with *before*."""
    found.clear()
    if before is not None:
        found.update(before)
    return once(lambda: change(keys), len(keys))


def _counting_targets(times: dict[str, Spread]) -> list[Target]:
    found = []
    for done, beside in (("add", "add"), ("remove", "add"), ("hit", "hit"), ("miss", "miss")):
        ratio = times[f"counters {done}"].median / times[f"line {beside}"].median
        promise = f"counters, {done}: at most {COUNTING_BOUND}x of {beside} of line"
        found.append(Target(promise, f"{ratio:.2f}x", ratio <= COUNTING_BOUND))
    return found
