"""before: this version of mmbloom against another one, installed in another environment."""

from __future__ import annotations

import json
import random
import sys
from typing import TYPE_CHECKING

from . import fresh
from .report import Row, Table, Target
from .timing import spread

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

SUMMARY = "ratios to another version of mmbloom"
# The least of five: what the code costs. The rounds and their order take care of the machine.
SNIPPET = """
import os
import mmbloom

folder, num_keys = sys.argv[1], int(sys.argv[2])
keys = [f"https://example.org/{number}" for number in range(num_keys)]
few = keys[:10_000]
nanoseconds = {}

def measure(name, job, count):
    took = []
    for _ in range(5):
        start = perf_counter_ns()
        job()
        took.append(perf_counter_ns() - start)
    nanoseconds[name] = min(took) / count

def empty():
    return mmbloom.BloomFilter.in_memory(capacity=num_keys, fpr=0.01)

def add():
    call = empty().add
    for key in keys:
        call(key)

def look_up(found):
    def job():
        for key in keys:
            key in found
    return job

def open_close(path):
    def job():
        for _ in range(200):
            mmbloom.open(path).close()
    return job

def add_to_file():
    path = os.path.join(folder, "new.mmb")
    with mmbloom.BloomFilter.create(path, capacity=num_keys, fpr=0.01) as made:
        for key in few:
            made.add(key)
    os.unlink(path)

def few_at_a_time(found):
    def job():
        for _ in range(2_000):
            found.contains_many(keys[:3])
    return job

full = empty()
full.update(keys)
paths = {}
for kind in ("bloom", "fuse"):
    paths[kind] = os.path.join(folder, kind)
    mmbloom.build(paths[kind], keys, fpr=0.01, kind=kind, if_exists="replace").close()

measure("add", add, num_keys)
measure("update(list)", lambda: empty().update(keys), num_keys)
measure("key in f", look_up(full), num_keys)
measure("contains_many(list)", lambda: full.contains_many(keys), num_keys)
with mmbloom.open(paths["bloom"]) as found:
    measure("key in f, in a file", look_up(found), num_keys)
    measure("contains_many(list), in a file", lambda: found.contains_many(keys), num_keys)
    measure("contains_many of 3 keys", few_at_a_time(found), 6_000)
measure("add, to a file", add_to_file, len(few))
for kind, path in paths.items():
    measure(f"open, {kind}", open_close(path), 200)
print(json.dumps(nanoseconds))
"""
MOST_RATIO = 1.03
HOT = ("add", "update(list)", "key in f", "contains_many(list)")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that only this command has."""
    parser.add_argument("--keys", type=int, default=200_000, help="default: %(default)s")
    parser.add_argument(
        "--python",
        default=sys.executable,
        metavar="FILE",
        help="interpreter of the environment with the other version; default: this one, "
        "which shows how much the machine varies",
    )


def run(options: argparse.Namespace) -> list[Table]:
    """Return one table: each operation with both versions, and the ratio of the medians."""
    num_keys = 20_000 if options.quick else options.keys
    versions = {"this": sys.executable, "other": options.python}
    samples: dict[str, list[dict[str, float]]] = {name: [] for name in versions}
    shuffler = random.Random(1)  # noqa: S311 -- an order, not a secret
    for _ in range(options.repeats):
        order = list(versions)
        shuffler.shuffle(order)
        for name in order:
            samples[name].append(_nanoseconds(versions[name], options.folder, num_keys))
    rows, targets = [], []
    for operation in samples["this"][0]:
        this = spread([sample[operation] for sample in samples["this"]])
        other = spread([sample[operation] for sample in samples["other"]])
        ratio = this.median / other.median
        cells = {"this": this, "other": other, "ratio": ratio}
        rows.append(Row(operation, ours=True, cells=cells))
        if operation in HOT:
            promise = f"{operation}: at most {MOST_RATIO} times the other version"
            targets.append(Target(promise, f"{ratio:.3f}", ratio <= MOST_RATIO))
    note = (
        f"{num_keys:,} keys; ns per key or per call: median of {options.repeats} new processes for "
        "each version (quartiles), each the least of 5 runs."
    )
    return [Table("Against another version", note, ["this", "other", "ratio"], [], rows, targets)]


def _nanoseconds(python: str, folder: Path, num_keys: int) -> dict[str, float]:
    command = [python, "-P", "-c", fresh.PRELUDE + SNIPPET, str(folder), str(num_keys)]
    found: dict[str, float] = json.loads(fresh.run(command))
    return found
