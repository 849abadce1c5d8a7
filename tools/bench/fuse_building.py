"""fuse-build: how fast fuse filters are constructed from hashes in memory, in partitions.

This is one phase of a build, after reading, hashing and counting, before writing. Each partition is
copied, sorted, and constructed with its neighbours as a shard. The floor of the machine and
pyfusefilter's C function are measured in the same rounds.
"""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, NoReturn

import numpy as np

from mmbloom.building.hashes import KeyHashes
from mmbloom.building.loading import Loader
from mmbloom.building.thread_pool import ThreadPool
from mmbloom.format.fields import HASH
from mmbloom.kinds import FUSE
from mmbloom.kinds.partitions import NUM_PARTITIONS
from mmbloom.kinds.spec import FilterSpec

from . import fuse_peers, sample_keys
from .report import Row, Table, Target
from .timing import interleaved, once, spread

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

    from .report import Cell
    from .timing import Spread

FPR = 2.0**-8
THREADS = (1, 2)
KEY_NS_BOUND, SPEED_UP_BOUND, EXTRA_GIB_BOUND = 65.0, 1.7, 1.0
GIB = 1 << 30
ADDED_AT_ONCE = 1 << 18
CHANGES = 20_000_000
SUMMARY = "construction of fuse filters from hashes in memory"
LAYOUTS = "fuse3,fuse4"
NUM_HASHES, PEER_HASHES = 100_000_000, 20_000_000
QUICK_HASHES, QUICK_PEER_HASHES = 2_000_000, 500_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that only this command has."""
    parser.add_argument("--hashes", type=int, help=f"default: {NUM_HASHES:,}")
    parser.add_argument("--peer-hashes", type=int, help=f"of the peer; default: {PEER_HASHES:,}")
    parser.add_argument("--layouts", default=LAYOUTS, help="with commas; default: %(default)s")


def run(options: argparse.Namespace) -> list[Table]:
    """Construct filters of every layout with one and two threads."""
    num_keys = options.hashes or (QUICK_HASHES if options.quick else NUM_HASHES)
    peer_keys = options.peer_hashes or (QUICK_PEER_HASHES if options.quick else PEER_HASHES)
    return [_table(num_keys, peer_keys, options.repeats, options.layouts.split(","))]


class Case(NamedTuple):
    """A layout, and the number of threads."""

    layout: str
    jobs: int

    @property
    def name(self) -> str:
        """The label of its row."""
        return f"mmbloom {self.layout}, {self.jobs} thread{'s' if self.jobs > 1 else ''}"


class Hashes:
    """Random hashes in partitions, and the number of distinct hashes of each."""

    def __init__(self, num_keys: int) -> None:
        self.num_keys = num_keys
        # The hashes, the free part of their chunks, and more than the bound on extra memory.
        self.memory_bytes = HASH.size * num_keys * 5 // 4 + 2 * GIB
        with ThreadPool(max(THREADS)) as pool:  # its buffers are for so many
            self.hashes = KeyHashes(self.memory_bytes, pool, _no_spilling)
            random = np.random.default_rng(13)
            for first in range(0, num_keys, ADDED_AT_ONCE):
                count = min(ADDED_AT_ONCE, num_keys - first)
                self.hashes.partitions.add_hashes(0, random.bytes(HASH.size * count))
            self.counted = self.loader(pool).count(lambda _done, _total: None)

    def loader(self, pool: ThreadPool) -> Loader:
        """Return a loader of the partitions, for the threads of *pool*."""
        return Loader.of_hashes(self.hashes, pool)


class Samples:
    """What the runs of one case cost besides time."""

    def __init__(self) -> None:
        self.cpu_ns: list[float] = []
        self.extra_gib: list[float] = []
        self.payload_bytes = 0


def _table(num_keys: int, peer_keys: int, repeats: int, layouts: Sequence[str]) -> Table:
    """Construct all cases, in the same rounds as floor and peer."""
    hashes = Hashes(num_keys)
    cases = [Case(layout, jobs) for jobs in THREADS for layout in layouts]
    samples = {case: Samples() for case in cases}
    ours: dict[object, Callable[[], float]] = {
        case: partial(_construct, hashes, case, samples[case]) for case in cases
    }
    floor = fuse_peers.Floor()
    floors: dict[object, Callable[[], float]] = {
        "floor: change 4 random bytes in 512 KiB": lambda: once(
            lambda: floor.change(CHANGES), CHANGES
        ),
        "floor: copy and sort the same hashes": partial(_sort, hashes),
    }
    peers: dict[object, Callable[[], float]] = {}
    if fuse_peers.is_installed("pyfusefilter"):
        name = f"pyfusefilter, {peer_keys:,} hashes of 8 bytes"
        peers[name] = partial(_populate, peer_keys)
    took = interleaved(ours | floors | peers, repeats)
    rows = [_row(case, took[case], samples[case], num_keys) for case in cases]
    rows += [Row(str(name), ours=False, cells={"ns/key": took[name]}) for name in peers]
    # In a column of their own: nothing can beat a floor, so floors are not rivals.
    rows += [Row(str(name), ours=False, cells={"floor ns": took[name]}) for name in floors]
    note = (
        f"{num_keys:,} distinct hashes of 16 bytes in memory, in {NUM_PARTITIONS} partitions, to"
        f" the payload, at 8 bits: the steps of the builder, without writing. Median of {repeats}"
        " rounds (quartiles). extra GiB: peak of resident memory above that of the hashes."
        " Every key changes 3 or 4 slots twice and reads them once; the first floor is"
        " ns per change. pyfusefilter: its C function populate with an array, without Python."
    )
    columns = ["ns/key", "CPU ns/key", "extra GiB", "bits/key", "floor ns"]
    targets = _targets(took, samples)
    return Table("Constructing fuse filters", note, columns, ["ns/key"], rows, targets)


def _construct(hashes: Hashes, case: Case, samples: Samples) -> float:
    """Make a payload, piece by piece; return ns a key, and add to *samples*."""
    with ThreadPool(case.jobs) as pool:
        before = _reset_peak()
        start, cpu_start = time.perf_counter_ns(), time.process_time_ns()
        loader = hashes.loader(pool)
        spec = FilterSpec(kind="fuse", fpr=FPR, layout=case.layout)
        attempts = FUSE.attempts(spec, hashes.counted, loader, pool, hashes.memory_bytes)
        _, pieces = next(attempts)
        samples.payload_bytes = sum(memoryview(piece).nbytes for piece in pieces)
        took, cpu = time.perf_counter_ns() - start, time.process_time_ns() - cpu_start
    samples.cpu_ns.append(cpu / hashes.num_keys)
    samples.extra_gib.append((_resident("VmHWM") - before) / GIB)
    return took / hashes.num_keys


def _sort(hashes: Hashes) -> float:
    with ThreadPool(1) as pool:
        loader = hashes.loader(pool)

        def sort_all() -> None:
            for partition in range(NUM_PARTITIONS):
                with loader.distinct(partition):
                    pass

        return once(sort_all, hashes.num_keys)


def _populate(num_keys: int) -> float:
    keys = sample_keys.mixed(0, num_keys)
    peer = fuse_peers.CFuse(num_keys)
    took = once(lambda: peer.populate(keys), num_keys)
    peer.close()
    return took


def _resident(field: str) -> int:
    """Return bytes of resident memory: VmRSS is now, VmHWM the most since _reset_peak()."""
    with Path("/proc/self/status").open(encoding="ascii") as lines:
        line = next(line for line in lines if line.startswith(f"{field}:"))
    return 1024 * int(line.split()[1])


def _reset_peak() -> int:
    """Reset the measured peak; return the resident memory now."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # proc(5): resets VmHWM
    return _resident("VmRSS")


def _no_spilling() -> NoReturn:
    raise MemoryError("the hashes do not fit in memory")


def _row(case: Case, took: Spread, samples: Samples, num_keys: int) -> Row:
    cells: dict[str, Cell] = {
        "ns/key": took,
        "CPU ns/key": spread(samples.cpu_ns),
        "extra GiB": spread(samples.extra_gib),
        "bits/key": 8 * samples.payload_bytes / num_keys,
    }
    return Row(case.name, ours=True, cells=cells)


def _targets(took: dict[object, Spread], samples: dict[Case, Samples]) -> list[Target]:
    found = []
    for layout in dict.fromkeys(case.layout for case in samples):
        alone, both = took[Case(layout, 1)].median, took[Case(layout, 2)].median
        promise = f"{layout}, one thread: at most {KEY_NS_BOUND:g} ns per key"
        found.append(Target(promise, f"{alone:.1f} ns", alone <= KEY_NS_BOUND))
        promise = f"{layout}, two threads: at least {SPEED_UP_BOUND}x as fast as one"
        found.append(Target(promise, f"{alone / both:.2f}x", alone / both >= SPEED_UP_BOUND))
    most = max(max(each.extra_gib) for each in samples.values())
    promise = f"at most {EXTRA_GIB_BOUND:g} GiB of memory beside the hashes"
    found.append(Target(promise, f"{most:.2f} GiB", most <= EXTRA_GIB_BOUND))
    return found
