"""threads: two threads that call contains_many on one filter, against one thread."""

from __future__ import annotations

import threading
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

import numpy as np

import mmbloom

from . import floor, sample_keys, sized
from .report import Row, Table, Target
from .timing import Spread, interleaved

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    import pyarrow as pa

    from .report import Cell

SUMMARY = "contains_many from two threads against one"
BOUND = 1.7


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that only this command has."""
    parser.add_argument("--megabytes", default="", help="with commas; default: 24,1200, --quick 6")
    parser.add_argument("--keys", type=int, help="in all; default: 4 million, --quick 400 000")


def run(options: argparse.Namespace) -> list[Table]:
    """Return one table, with a row per size and kind of batch."""
    sizes = options.megabytes or ("6" if options.quick else "24,1200")
    num_keys = options.keys or (400_000 if options.quick else 4_000_000)
    strings = sample_keys.urls(0, num_keys)
    batches: dict[str, Any] = {
        "Arrow": sample_keys.arrow_urls(0, num_keys),
        "list": strings,
        "list, shuffled": sample_keys.rearranged(strings),
    }
    control = _control(batches["Arrow"], options.repeats)
    rows, targets = [control], []
    for size in sizes.split(","):
        path = options.folder / f"{size}.mmb"
        sized.full(path, 1_000_000 * int(size), "line")
        with mmbloom.open(path) as kept:
            jobs = {}
            for name, keys in batches.items():
                kept.contains_many(keys)
                jobs[name, 1] = _job(kept, [keys])
                jobs[name, 2] = _job(kept, [keys[: num_keys // 2], keys[num_keys // 2 :]])
            timed = interleaved(jobs, options.repeats)
        path.unlink()
        for name in batches:
            row, target = _judged(f"{size} MB, {name}", timed[name, 1], timed[name, 2])
            rows.append(row)
            targets.append(target)
    note = (
        f"ns per key, median of {options.repeats} rounds (quartiles); {num_keys:,} URLs of 50"
        " characters, in one call, or in two calls on two threads; layout line. The control shows"
        " the speed-up that the machine allowed at that time."
    )
    return [Table("Threads", note, ["one thread", "two threads", "speed-up"], [], rows, targets)]


def _control(keys: pa.StringArray, repeats: int) -> Row:
    """Hash the keys in C: no shared memory, no interpreter."""
    half, loops = len(keys) // 2, floor.compiled()
    _, offsets, data = keys.buffers()

    def hashes(first: int, count: int) -> Callable[[], object]:
        start = offsets.address + 4 * first  # int32 offsets
        return lambda: loops.floor_hash(data.address, start, count, 0)

    jobs = {
        1: _in_threads([hashes(0, len(keys))], len(keys)),
        2: _in_threads([hashes(0, half), hashes(half, len(keys) - half)], len(keys)),
    }
    timed = interleaved(jobs, repeats)
    row, _ = _judged("", timed[1], timed[2])
    return row._replace(label="control: XXH3 of the keys, in C", ours=False)


def _job(kept: mmbloom.BloomFilter, parts: list[Any]) -> Callable[[], float]:
    def look_up(part: Any) -> Callable[[], object]:  # noqa: ANN401 -- any batch
        out = np.empty(len(part), dtype=bool)
        return lambda: kept.contains_many(part, out=out)

    return _in_threads([look_up(part) for part in parts], sum(len(part) for part in parts))


def _in_threads(calls: list[Callable[[], object]], num_keys: int) -> Callable[[], float]:
    """Return the job that makes the calls at the same time, in a thread each."""

    def job() -> float:
        ready = threading.Barrier(len(calls) + 1)

        def started(call: Callable[[], object]) -> None:
            ready.wait()
            call()

        workers = [threading.Thread(target=started, args=(call,)) for call in calls]
        for worker in workers:
            worker.start()
        ready.wait()
        start = perf_counter_ns()
        for worker in workers:
            worker.join()
        return (perf_counter_ns() - start) / num_keys

    return job


def _judged(label: str, one: Spread, two: Spread) -> tuple[Row, Target]:
    speed_up = one.median / two.median
    cells: dict[str, Cell] = {"one thread": one, "two threads": two, "speed-up": speed_up}
    target = Target(
        f"{label}: two threads at least {BOUND}x one", f"{speed_up:.2f}x", speed_up >= BOUND
    )
    return Row(f"mmbloom {label}", ours=True, cells=cells), target
