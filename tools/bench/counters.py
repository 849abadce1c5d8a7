"""counters: counting filters, beside a Bloom filter and beside peers."""

from __future__ import annotations

import importlib
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import mmbloom

from . import fuse_peers, sample_keys
from .report import Row, Table, Target
from .timing import Spread, interleaved, list_of_in, loop_call, once

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

    from .report import Cell

    Job = Callable[[Sequence[bytes]], float]

SUMMARY = "counting filters: add, remove and look up, beside line and peers"
NUM_KEYS, QUICK_KEYS = 1_000_000, 50_000
FPR = 0.01
LINE_BOUND, PEER_BOUND = 1.6, 3.0
COLUMNS = ["add", "remove", "hit", "miss"]
LINE, COUNTERS = "line", "counters"
# pyprobables is written in Python, about 10 us per key: it gets fewer keys and a smaller filter.
FEWER_KEYS = 20_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that only this command has."""
    parser.add_argument("--keys", type=int, help=f"default: {NUM_KEYS:,}")


def run(options: argparse.Namespace) -> list[Table]:
    """Return a table beside bits, from Arrow, and one beside peers, from lists of bytes."""
    num_keys = options.keys or (QUICK_KEYS if options.quick else NUM_KEYS)
    return [_beside_bits(num_keys, options.repeats), _beside_peers(num_keys, options.repeats)]


# ---- beside bits ---------------------------------------------------------------------------------


def _beside_bits(num_keys: int, repeats: int) -> Table:
    present = sample_keys.random_16_bytes(0, num_keys)
    absent = sample_keys.random_16_bytes(sample_keys.ABSENT, num_keys)
    asked: dict[str, Any] = {"capacity": num_keys, "fpr": FPR, "overfill": True}
    with (
        mmbloom.BloomFilter.in_memory(layout="line", **asked) as line,
        mmbloom.CountingBloomFilter.in_memory(**asked) as counters,
    ):
        both: dict[str, Any] = {LINE: line, COUNTERS: counters}
        jobs = {
            (name, "add"): partial(_change, each, each.update, present)
            for name, each in both.items()
        }
        jobs[COUNTERS, "remove"] = partial(
            _change, counters, counters.remove_many, present, before=present
        )
        took = interleaved(jobs, repeats)
        for each in both.values():
            each.clear()
            each.update(present)
        rates = {name: _rate(each, present, absent) for name, each in both.items()}
        took |= interleaved(
            {
                (name, which): _lookup(each, keys)
                for name, each in both.items()
                for which, keys in (("hit", present), ("miss", absent))
            },
            repeats,
        )
        bits = {name: each.num_bits / num_keys for name, each in both.items()}
    rows = []
    for name in both:
        cells: dict[str, Cell] = {"bits/key": bits[name], "measured fpr": rates[name]}
        cells |= {column: took.get((name, column)) for column in COLUMNS}
        rows.append(Row(f"mmbloom {name}", ours=True, cells=cells))
    note = (
        f"{num_keys:,} keys of 16 random bytes in Arrow, {100 * FPR:g} %, in memory; ns per key,"
        f" median of {repeats} rounds (quartiles), batches of all keys, one thread."
    )
    columns = ["bits/key", "measured fpr", *COLUMNS]
    return Table("Counters, beside bits", note, columns, [], rows, _line_targets(took))


def _lookup(opened: Any, keys: object) -> Callable[[], float]:  # noqa: ANN401 -- of either kind
    # One buffer for all answers: new pages from the kernel are not part of a look-up.
    out = np.empty(len(keys), dtype=bool)  # type: ignore[arg-type]
    return lambda: once(lambda: opened.contains_many(keys, out=out), len(out))


def _rate(opened: Any, present: object, absent: object) -> float:  # noqa: ANN401 -- of either kind
    if not np.all(opened.contains_many(present)):
        raise AssertionError("a key that was added is answered 'definitely not'")
    return float(np.mean(opened.contains_many(absent)))


def _change(
    found: Any,  # noqa: ANN401 -- of either kind
    change: Callable[[object], object],
    keys: Any,  # noqa: ANN401 -- an Arrow array
    before: object = None,
) -> float:
    """Time a change to a filter that is cleared first, or contains *before*."""
    found.clear()
    if before is not None:
        found.update(before)
    return once(lambda: change(keys), len(keys))


def _line_targets(took: dict[tuple[str, str], Spread]) -> list[Target]:
    found = []
    for done, beside in (("add", "add"), ("remove", "add"), ("hit", "hit"), ("miss", "miss")):
        ratio = took[COUNTERS, done].median / took[LINE, beside].median
        promise = f"counters, {done}: at most {LINE_BOUND}x of {beside} of line"
        found.append(Target(promise, f"{ratio:.2f}x", ratio <= LINE_BOUND))
    return found


# ---- beside peers --------------------------------------------------------------------------------


class Counting(NamedTuple):
    """A counting filter, timed by its quickest calls for a list of bytes."""

    add: Job
    remove: Job
    look_up: Job


def _ours(num_keys: int) -> Counting:
    made = mmbloom.CountingBloomFilter.in_memory(capacity=num_keys, fpr=FPR, overfill=True)
    return Counting(
        lambda keys: once(lambda: made.update(keys), len(keys)),
        lambda keys: once(lambda: made.remove_many(keys), len(keys)),
        lambda keys: once(lambda: made.contains_many(keys), len(keys)),
    )


def _fastbloom(num_keys: int) -> Counting:
    """fastbloom-rs: its Rust class itself; it removes one key a call."""
    module = importlib.import_module("fastbloom_rs")
    made = module.PyFilterBuilder(num_keys, FPR).build_counting_bloom_filter()
    return Counting(
        lambda keys: once(lambda: made.add_bytes_batch(keys), len(keys)),
        lambda keys: loop_call(made.remove_bytes, keys),
        lambda keys: once(lambda: made.contains_bytes_batch(keys), len(keys)),
    )


def _probables(num_keys: int) -> Counting:
    """pyprobables, with XXH3 in place of the hash that it computes in Python."""
    digest = importlib.import_module("xxhash").xxh3_128_intdigest
    low64 = (1 << 64) - 1

    def hashes(key: bytes, depth: int = 1) -> list[int]:
        number = digest(key)
        first, step = number & low64, number >> 64
        return [first + i * step for i in range(depth)]

    module = importlib.import_module("probables")
    made = module.CountingBloomFilter(num_keys, FPR, hash_function=hashes)
    return Counting(
        lambda keys: loop_call(made.add, keys),
        lambda keys: loop_call(made.remove, keys),
        lambda keys: list_of_in(made, keys),
    )


OURS, FASTBLOOM, PROBABLES = "mmbloom counters", "fastbloom-rs", "pyprobables, XXH3 hash_function"
# Row -> the module that it needs, and a function from capacity to an empty filter.
MAKERS: dict[str, tuple[str, Callable[[int], Counting]]] = {
    OURS: ("mmbloom", _ours),
    FASTBLOOM: ("fastbloom_rs", _fastbloom),
    PROBABLES: ("probables", _probables),
}


def _beside_peers(num_keys: int, repeats: int) -> Table:
    present = sample_keys.random_16_bytes(0, num_keys).to_pylist()
    absent = sample_keys.random_16_bytes(sample_keys.ABSENT, num_keys).to_pylist()
    fewer = min(num_keys, FEWER_KEYS)
    jobs: dict[tuple[str, str], Callable[[], float]] = {}
    makers = {
        name: make for name, (module, make) in MAKERS.items() if fuse_peers.is_installed(module)
    }
    for name, make in makers.items():
        count = fewer if name == PROBABLES else num_keys
        jobs |= {
            (name, which): partial(_once, make, which, present[:count], absent[:count])
            for which in COLUMNS
        }
    took = interleaved(jobs, repeats)
    rows = [
        Row(
            name,
            ours=name == OURS,
            cells={column: took[name, column] for column in COLUMNS},
        )
        for name in makers
    ]
    note = (
        f"{num_keys:,} keys of 16 random bytes as a list of `bytes`, {100 * FPR:g} %, in memory;"
        f" ns per key, median of {repeats} rounds (quartiles), one thread. fastbloom-rs has no"
        " batch call to remove, pyprobables no batch calls: these are loops. pyprobables, which is"
        f" written in Python, gets {fewer:,} keys and a filter of that size, which fits in a cache;"
        " more keys would not be cheaper."
    )
    return Table("Counting filters", note, COLUMNS, COLUMNS, rows, _peer_targets(took))


def _once(
    make: Callable[[int], Counting],
    which: str,
    present: Sequence[bytes],
    absent: Sequence[bytes],
) -> float:
    """Time one operation on a new filter."""
    made = make(len(present))
    added = made.add(present)
    if which == "add":
        return added
    if which == "remove":
        return made.remove(present)
    return made.look_up(present if which == "hit" else absent)


def _peer_targets(took: dict[tuple[str, str], Spread]) -> list[Target]:
    found = []
    for column in COLUMNS:
        for peer in (FASTBLOOM, PROBABLES):
            if (peer, column) not in took:
                continue
            ratio = took[peer, column].median / took[OURS, column].median
            promise = f"{column}: at least {PEER_BOUND:g}x faster than {peer}"
            found.append(Target(promise, f"{ratio:.2f}x", ratio >= PEER_BOUND))
    return found
