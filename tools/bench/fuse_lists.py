"""fuse-lists: static lists as fuse and as Bloom filters, built from keys in memory and looked up.

The builds are complete: hashing, sorting and writing included. The files are looked up in the page
cache.
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

SUMMARY = "static lists: size, rate, build and look-ups of fuse filters beside line"
LOOKUP_BOUND = 3.0
SIGMAS = 4


class Case(NamedTuple):
    """One filter to build. Fuse filters have the rate 2^-w; line is given the same rate."""

    kind: str
    layout: str
    fpr: float

    @property
    def name(self) -> str:
        """The label of its row."""
        return f"{self.layout} at {self.fpr:.3g}"


CASES = [
    Case(kind, layout, 2.0**-width)
    for width in (8, 10, 16)
    for kind, layout in (("bloom", "line"), ("fuse", "fuse3"), ("fuse", "fuse4"))
]


NUM_KEYS, QUICK_KEYS = 4_000_000, 100_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that only this command has."""
    parser.add_argument("--keys", type=int, help=f"of each list; default: {NUM_KEYS:,}")
    parser.add_argument("--jobs", type=int, default=1, help="threads of a build; %(default)s")


def run(options: argparse.Namespace) -> list[Table]:
    """Build every filter from the same keys and look them up."""
    num_keys = options.keys or (QUICK_KEYS if options.quick else NUM_KEYS)
    return [_table(options, num_keys)]


def _table(options: argparse.Namespace, num_keys: int) -> Table:
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
        f"rounds (quartiles). build: complete, {options.jobs} thread(s). hit, miss: batches of all "
        "keys, one thread."
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
    # One buffer for all answers: new pages from the kernel are not part of a look-up.
    out = np.empty(len(keys), dtype=bool)
    return lambda: once(lambda: opened.contains_many(keys, out=out), len(keys))


def _rate(opened: Any, present: pa.Array, absent: pa.Array) -> float:  # noqa: ANN401 - of any kind
    """Look up all keys once, which also maps the file, and return the rate."""
    if not np.all(opened.contains_many(present)):
        raise AssertionError("a key that was added is answered 'definitely not'")
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
