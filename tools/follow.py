"""Readers under load while generations are published: errors, false "no"s, mixed answers, leaks.

    python tools/follow.py [--processes 8] [--generations 100] [--mode map] [--bad-every 10]

Each process looks up without a pause, single keys and batches, through one handle that follows the
path. Every generation has the shared keys and one key of its own, another seed, and often another
layout and size; a batch asks for all of them, so one that mixes two generations shows. Every tenth
time a damaged file is renamed onto the path first: the readers must go on with what they have.
Prints one JSON object; exits with 1 if anything was wrong.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import mmbloom

if TYPE_CHECKING:
    from multiprocessing.synchronize import Event

LAYOUTS = ("line", "page", "classic")
NUM_SHARED, NUM_FILES = 1000, 12
SHARED = [f"shared {number}" for number in range(NUM_SHARED)]
OWN = [f"own {number}" for number in range(NUM_FILES)]
FPR = 1e-9  # of all look-ups of keys that are not in, one in 1e9 is "maybe" by chance


class Seen(NamedTuple):
    """What one process has seen."""

    keys: int
    swaps: int
    errors: int
    false_noes: int
    mixed_batches: int
    reports: int
    leaked_descriptors: int
    leaked_maps: int


def held(path: str) -> tuple[int, int]:
    """Return how many descriptors, and maps of the path, this process has."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        num_maps = sum(path in line for line in maps)
    return len(os.listdir("/proc/self/fd")), num_maps


def read_on(path: str, mode: str, follow: float, stop: Event) -> Seen:
    """Look up until told to stop."""
    keys = errors = false_noes = mixed = reports = 0
    swaps, last = 0, ""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with mmbloom.open(path, mode=mode, follow=follow) as found:
            found.contains_many(SHARED)
            stop.is_set()  # opens a connection the first time
            before = held(path)
            while not stop.is_set():
                try:
                    answers = found.contains_many(SHARED + OWN)
                    singles = [key in found for key in SHARED[::10]]
                except Exception as exc:  # noqa: BLE001 - counted
                    print(f"{os.getpid()}: {exc!r}", file=sys.stderr)
                    errors += 1
                    continue
                keys += len(answers) + len(singles)
                false_noes += int((~answers[:NUM_SHARED]).sum()) + singles.count(False)
                mixed += int(answers[NUM_SHARED:].sum()) != 1
                swaps, last = swaps + (found.uuid != last), found.uuid
            after = held(path)
        reports = len(caught)
    descriptors, maps = (now - then for now, then in zip(after, before, strict=True))
    return Seen(keys, swaps, errors, false_noes, mixed, reports, max(0, descriptors), max(0, maps))


def build_files(folder: Path) -> list[Path]:
    """Build what is published in turn."""
    paths = []
    for number, own in enumerate(OWN):
        path = folder / f"new-{number}.mmb"
        mmbloom.build(
            path,
            [*SHARED, own],
            fpr=FPR,
            seed=number,
            layout=LAYOUTS[number % len(LAYOUTS)],
            capacity=(NUM_SHARED + 1) * (1 + number % 4),
        ).close()
        paths.append(path)
    return paths


def damage(path: Path, source: Path) -> None:
    """Rename a file onto *path* that lacks its last bytes."""
    other = path.with_name("bad.tmp")
    other.write_bytes(source.read_bytes()[:-64])
    other.replace(path)


def publish_all(arguments: argparse.Namespace, path: Path, files: list[Path]) -> int:
    """Publish every generation, with damaged files in between; return how many of those."""
    num_bad = 0
    for number in range(arguments.generations):
        source = files[number % len(files)]
        if arguments.bad_every and number % arguments.bad_every == arguments.bad_every - 1:
            damage(path, source)
            num_bad += 1
            time.sleep(arguments.pause)
        mmbloom.publish(source, path)
        time.sleep(arguments.pause)
    return num_bad


def main() -> int:
    """Run the campaign and print its figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--generations", type=int, default=100)
    parser.add_argument("--mode", default="map", choices=["map", "ram", "pread"])
    parser.add_argument("--follow", type=float, default=0.0, metavar="SECONDS")
    parser.add_argument("--bad-every", type=int, default=10, help="0 for no damaged files")
    parser.add_argument("--pause", type=float, default=0.1, help="seconds between publications")
    arguments = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        files, path = build_files(Path(name)), Path(name, "followed.mmb")
        mmbloom.publish(files[-1], path)
        stop = context.Manager().Event()
        with context.Pool(arguments.processes) as pool:
            given = (str(path), arguments.mode, arguments.follow, stop)
            running = [pool.apply_async(read_on, given) for _ in range(arguments.processes)]
            num_bad = publish_all(arguments, path, files)
            stop.set()
            seen = [each.get() for each in running]
    totals = {name: sum(getattr(each, name) for each in seen) for name in Seen._fields}
    fewest = min(each.swaps for each in seen)
    figures = {
        "processes": arguments.processes,
        "mode": arguments.mode,
        "published": arguments.generations,
        "damaged_files_in_between": num_bad,
        "seconds": round(time.monotonic() - started, 1),
        "fewest_swaps_of_a_process": fewest,
        **totals,
    }
    print(json.dumps(figures, indent=2))
    wrong = ("errors", "false_noes", "mixed_batches", "leaked_descriptors", "leaked_maps")
    return int(any(figures[name] for name in wrong))


if __name__ == "__main__":
    sys.exit(main())
