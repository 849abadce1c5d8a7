"""fuse-large: a fuse file of a gigabyte in the page cache, opened, and looked up in batches.

Its fingerprints are random bytes, and so are those of the peer. This saves minutes of building; a
look-up reads the same slots for any answer. The Bloom filter beside it has the size for the same
keys and rate and the density of a full one, and contains the keys of the hits.
"""

from __future__ import annotations

import contextlib
import math
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

import mmbloom
from mmbloom.filters.sealing import write_sealed
from mmbloom.format.fields import HASH, MAX_CANARIES
from mmbloom.format.status import Status
from mmbloom.kinds import FUSE
from mmbloom.kinds.fuse_shards import fuse_pieces
from mmbloom.kinds.spec import FilterSpec
from mmbloom.sizing.fuse import plan_fuse

from . import fresh, fuse_peers, random_payload, sample_keys, sized
from .opening import BOUND_MIB, BOUND_MS
from .report import Row, Table, Target
from .timing import Spread, interleaved, loop_in, once, spread

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from mmbloom.filters.sealing import Measured
    from mmbloom.format.fuse import FuseShape
    from mmbloom.format.header import Header

    from .report import Cell

SUMMARY = "a fuse file of 1 GB: opening and batches, beside line and peers"
PAYLOAD_BYTES, BATCH_KEYS = 1_000_000_000, 4_000_000
QUICK_BYTES, QUICK_KEYS = 60_000_000, 400_000
FPR = 2.0**-8
LAYOUTS = ("fuse3", "fuse4")
LINE_BOUND, PEER_BOUND = 3.0, 0.7
CHANCE = 0.5  # more than 5 sigma of a rate, times the root of the number of keys
CACHED_KEYS = 1_000_000  # for peers that accept a list of Python objects only
LOOP_KEYS = 200_000  # of the loops in Python
HIT, MISS, HASHED = "keys, hit", "keys, miss", "hashes"
LINE, PY_FUSE, BINARY_FUSE = (
    "mmbloom line",
    "pyfusefilter, key in filter",
    "binaryfuse, key in filter",
)
C_LOOP = "pyfusefilter's function in a loop in C"

# Own memory: pages that belong to no file. The kernel's private memory includes pages of a file
# that no other process has mapped.
SNIPPET = """
import mmbloom
def own_bytes():
    with open("/proc/self/smaps_rollup") as file:
        return 1024 * sum(int(line.split()[1]) for line in file if line.startswith("Anonymous:"))
own_bytes()
before, before_private = own_bytes(), private_bytes()
start = perf_counter_ns()
kept = mmbloom.open(sys.argv[1])
took = perf_counter_ns() - start
own, private = own_bytes() - before, private_bytes() - before_private
start = perf_counter_ns()
"never added" in kept
first = perf_counter_ns() - start
kept.close()
print(json.dumps({
    "ms": took / 1e6, "own": own / 2**20, "private": private / 2**20, "first": first / 1e3
}))
"""

Jobs = dict[tuple[str, str], "Callable[[], float]"]


def capacity_for(payload_bytes: int) -> int:
    """Return how many keys a fuse3 payload of about this size holds."""
    sample = 100_000_000
    return int(payload_bytes * 8 * sample / plan_fuse(sample, FPR).num_bits)


def write_fuse(path: Path, num_keys: int, layout: str) -> None:
    """Write a valid fuse file for *num_keys* keys, with random fingerprints.

    It is written twice. The canaries, which open() looks up, must be in the filter: the second time
    they are hashes that the first file contains by chance.
    """
    _write(path, num_keys, layout, ())
    with mmbloom.open(path) as found:
        hashes = np.random.default_rng(16).integers(1 << 63, size=(20_000, 2), dtype=np.uint64)
        maybe = np.empty(len(hashes), dtype=bool)
        found._opened.view.contains_hashes(hashes.tobytes(), maybe.view(np.uint8))
    some = hashes[maybe][:MAX_CANARIES].tolist()
    _write(path, num_keys, layout, tuple((hi, lo) for hi, lo in some))


def _write(path: Path, num_keys: int, layout: str, canaries: tuple[tuple[int, int], ...]) -> None:
    shape = plan_fuse(num_keys, FPR, layout)
    spec = FilterSpec(kind="fuse", fpr=FPR, layout=layout)
    header = FUSE.header_of_shape(spec, num_keys, shape)

    def finish(_: Measured) -> tuple[Header, Status]:
        return header, Status(keys_added=num_keys, canaries=canaries)

    write_sealed(path, header, fuse_pieces(shape, _shards(shape)), finish, if_exists="replace")


def _shards(shape: FuseShape) -> Iterator[tuple[int, bytearray]]:
    random = np.random.default_rng(14)
    for _ in range(shape.num_shards):
        yield int(random.integers(1 << 63)), bytearray(random.bytes(shape.shard_bytes))


def write_line(path: Path, num_keys: int, keys: object) -> None:
    """Write a filter of layout line as dense as with *num_keys* keys, and add *keys* to it."""
    with mmbloom.BloomFilter.create(path, capacity=num_keys, fpr=FPR, layout="line") as made:
        num_bits, num_probes = made.num_bits, made.num_probes
    density = FPR ** (1 / num_probes)
    random_payload.fill(path, sized.PAYLOAD_OFFSET, sized.payload_bytes_of(num_bits), density)
    with mmbloom.open_writable(path) as writable:
        writable.update(keys)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that only this command has."""
    parser.add_argument("--payload", type=int, help=f"bytes; default: {PAYLOAD_BYTES:,}")
    parser.add_argument("--keys", type=int, help=f"of a batch; default: {BATCH_KEYS:,}")
    parser.add_argument("--processes", type=int, default=21, help="that open; %(default)s")


def run(options: argparse.Namespace) -> list[Table]:
    """Make the files; return a table of opening and one of look-ups."""
    payload_bytes = options.payload or (QUICK_BYTES if options.quick else PAYLOAD_BYTES)
    batch_keys = options.keys or (QUICK_KEYS if options.quick else BATCH_KEYS)
    folder, repeats, processes = options.folder, options.repeats, options.processes
    num_keys = capacity_for(payload_bytes)
    present = sample_keys.random_16_bytes(0, batch_keys)
    paths = {layout: folder / f"large-{layout}.mmb" for layout in LAYOUTS}
    for layout, path in paths.items():
        write_fuse(path, num_keys, layout)
    line = folder / "large-line.mmb"
    write_line(line, num_keys, present)
    paths_by_row = {LINE: line} | {f"mmbloom {name}": path for name, path in paths.items()}
    opening = _opening(paths_by_row, processes)
    with contextlib.ExitStack() as stack:
        opened = {
            name: stack.enter_context(mmbloom.open(path)) for name, path in paths_by_row.items()
        }
        jobs = _our_jobs(opened, present)
        if fuse_peers.is_installed("pyfusefilter"):
            peer = fuse_peers.CFuse(num_keys)
            stack.callback(peer.close)
            peer.fill_at_random()
            jobs |= _py_fuse_jobs(peer, batch_keys)
        if fuse_peers.is_installed("binary_fuse"):
            jobs |= _binary_fuse_jobs(batch_keys)
        looked_up = interleaved(jobs, repeats)
    return [opening, _table(payload_bytes, num_keys, batch_keys, repeats, looked_up)]


# ---- opening -------------------------------------------------------------------------------------


def _opening(paths: dict[str, Path], processes: int) -> Table:
    """Open each file in new processes, one file after the other in each round."""
    answers: dict[str, list[dict[str, float]]] = {name: [] for name in paths}
    for _ in range(processes):
        for name, path in paths.items():
            answers[name].append(fresh.ask(SNIPPET, str(path)))
    rows, targets = [], []
    for name, path in paths.items():
        took = spread([answer["ms"] for answer in answers[name]])
        grown = spread([answer["own"] for answer in answers[name]])
        cells: dict[str, Cell] = {
            "file bytes": f"{path.stat().st_size:,}",
            "open ms": took,
            "own MiB": grown,
            "private MiB": spread([answer["private"] for answer in answers[name]]),
            "first look-up us": spread([answer["first"] for answer in answers[name]]),
        }
        rows.append(Row(name, ours=True, cells=cells))
        if name != LINE:
            promise = f"{name}: open in < {BOUND_MS:g} ms"
            targets.append(Target(promise, f"{took.median:.3f} ms", took.median < BOUND_MS))
            promise = f"{name}: < {BOUND_MIB:g} MiB of memory of its own"
            targets.append(Target(promise, f"{grown.median:.3f} MiB", grown.median < BOUND_MIB))
    note = (
        f"Median of {processes} new processes (quartiles); time of mmbloom.open alone, which looks"
        f" up {MAX_CANARIES} keys that must be in. own: memory that belongs to no file. private:"
        " as the kernel counts it, which includes pages of the file in the page cache that no other"
        " process has mapped, here huge pages."
    )
    return Table("Opening a large fuse file", note, list(cells), [], rows, targets)


# ---- look-ups ------------------------------------------------------------------------------------


def _our_jobs(opened: dict[str, Any], present: Any) -> Jobs:  # noqa: ANN401 -- an Arrow array
    absent = sample_keys.random_16_bytes(sample_keys.ABSENT, len(present))
    hashes = np.random.default_rng(15).bytes(HASH.size * len(present))
    out = np.empty(len(present), dtype=bool)
    if not np.all(opened[LINE].contains_many(present)):
        raise AssertionError("a key that was added is answered 'definitely not'")
    jobs: Jobs = {}
    for name, each in opened.items():
        rate = np.mean(each.contains_many(absent))  # also maps the file
        if rate > 2 * FPR + CHANCE / math.sqrt(len(absent)):
            raise AssertionError(f"{name}: the measured rate is {rate}")
        jobs[name, HIT] = _timed(partial(each.contains_many, present, out=out), len(out))
        jobs[name, MISS] = _timed(partial(each.contains_many, absent, out=out), len(out))
        # Private, as users have keys, not hashes. But peers can only be asked with hashes.
        ask = partial(each._opened.view.contains_hashes, hashes, out.view(np.uint8))
        jobs[name, HASHED] = _timed(ask, len(out))
    return jobs


def _timed(call: Callable[[], object], num_keys: int) -> Callable[[], float]:
    return lambda: once(call, num_keys)


def _py_fuse_jobs(peer: fuse_peers.CFuse, batch_keys: int) -> Jobs:
    hashes = sample_keys.mixed(0, batch_keys)
    out = np.empty(batch_keys, dtype=np.uint8)
    few = min(CACHED_KEYS, batch_keys)
    urls, others = sample_keys.urls(0, few), sample_keys.urls(sample_keys.ABSENT, few)
    small = fuse_peers.py_fuse8(urls)
    return {
        (C_LOOP, HASHED): _timed(partial(peer.contains_many, hashes, out), batch_keys),
        (PY_FUSE, HIT): partial(loop_in, small, urls[:LOOP_KEYS]),
        (PY_FUSE, MISS): partial(loop_in, small, others[:LOOP_KEYS]),
    }


def _binary_fuse_jobs(batch_keys: int) -> Jobs:
    numbers = sample_keys.mixed(0, min(CACHED_KEYS, batch_keys)).tolist()
    small = fuse_peers.binary_fuse8(numbers)
    return {(BINARY_FUSE, HASHED): partial(loop_in, small, numbers[:LOOP_KEYS])}


def _table(
    payload_bytes: int,
    num_keys: int,
    batch_keys: int,
    repeats: int,
    took: dict[tuple[str, str], Spread],
) -> Table:
    names = list(dict.fromkeys(name for name, _ in took))
    rows = []
    for name in names:
        cells: dict[str, Cell] = {which: took.get((name, which)) for which in (HIT, MISS, HASHED)}
        rows.append(Row(name, ours=name.startswith("mmbloom"), cells=cells))
    few = min(CACHED_KEYS, batch_keys)
    note = (
        f"ns per key, median of {repeats} rounds (quartiles), one thread. {num_keys:,} keys at 8"
        f" bits, files in the page cache. keys: {batch_keys:,} of 16 random bytes in Arrow, hashed"
        " by the filter. hashes: the same number of ready hashes, of 16 bytes for mmbloom and 8 for"
        " peers. The loop in C looks them up in a filter of the same size, in huge pages; the"
        " library does not offer it. It offers `key in filter`, which is measured with a filter of"
        f" only {few:,} keys (URLs of 50 characters, or numbers): that fits in a cache, in"
        " their favour."
    )
    title = f"Batches on a fuse filter of {payload_bytes / 1e9:g} GB"
    return Table(title, note, [HIT, MISS, HASHED], [HIT, MISS, HASHED], rows, _targets(took))


def _targets(took: dict[tuple[str, str], Spread]) -> list[Target]:
    found = []
    for layout in LAYOUTS:
        name = f"mmbloom {layout}"
        for which in (HIT, MISS):
            mine, line = took[name, which].median, took[LINE, which].median
            promise = f"{layout}, {which}: at most {LINE_BOUND:g}x of line"
            found.append(Target(promise, f"{mine / line:.2f}x", mine <= LINE_BOUND * line))
        rivals = [
            (rival, which) for rival, which in took if rival in (PY_FUSE, BINARY_FUSE, C_LOOP)
        ]
        for rival, which in rivals:
            mine, theirs = took[name, which].median, took[rival, which].median
            promise = f"{layout}, {which}: at most {PEER_BOUND}x of {rival}"
            found.append(Target(promise, f"{mine / theirs:.2f}x", mine <= PEER_BOUND * theirs))
    return found
