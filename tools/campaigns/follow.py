"""Readers under load while generations are published: errors, false "no"s, mixed answers, leaks.

    python tools/campaigns follow                         # every kind in every mode
    python tools/campaigns follow --kinds fuse --modes map --processes 8 --bad-every 10

Each process looks up single keys and batches without a pause, through one handle that follows the
path. A batch asks for the shared keys and for the own keys of all generations, so an answer that
mixes two generations is noticed. Every fifth time (--bad-every) a bad file comes first
(follow_files.py): cut, damaged, of another kind or key form, not a filter, or missing. The readers
must keep the generation they have and warn once. Prints one JSON object; exits with 1 if anything
was wrong.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import tempfile
import time
import warnings
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import mmbloom
from evidence import record
from evidence.card import machine_card

from .follow_files import BAD, KINDS, NUM_SHARED, OWN, SHARED, Shelf, publish_next

if TYPE_CHECKING:
    from multiprocessing.synchronize import Event, Semaphore

MODES = ("map", "ram", "pread")
WRONG = ("errors", "false_noes", "mixed_batches", "leaked_descriptors", "leaked_maps")


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


def read_on(
    path: str,
    mode: Any,  # noqa: ANN401 - a literal
    follow: float,
    ready: Semaphore,
    stop: Event,
) -> Seen:
    """Signal that the file is open, and look up keys until told to stop."""
    keys = errors = false_noes = mixed = reports = 0
    swaps, last = 0, ""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with mmbloom.open(path, mode=mode, follow=follow) as found:
            found.contains_many(SHARED)
            stop.is_set()  # opens a connection the first time
            ready.release()
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


def publish_all(arguments: argparse.Namespace, shelf: Shelf, path: Path) -> int:
    """Publish every generation, with bad files in between; return the number of bad files."""
    num_bad = 0
    for number in range(arguments.generations):
        source = shelf.good[number % len(shelf.good)]
        if arguments.bad_every and number % arguments.bad_every == arguments.bad_every - 1:
            BAD[num_bad % len(BAD)](shelf, source, path)
            num_bad += 1
            time.sleep(arguments.pause)
        publish_next(source, path)
        time.sleep(arguments.pause)
    return num_bad


def follow_kind(arguments: argparse.Namespace, kind: str, mode: str) -> dict[str, Any]:
    """Let all processes follow files of one kind; return the sum of what they saw."""
    context = multiprocessing.get_context("spawn")
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        shelf, path = Shelf(Path(name), kind), Path(name, "followed.mmb")
        mmbloom.publish(path, shelf.good[-1])
        manager = context.Manager()
        ready, stop = manager.Semaphore(0), manager.Event()
        with context.Pool(arguments.processes) as pool:
            given = (str(path), mode, arguments.follow, ready, stop)
            running = [pool.apply_async(read_on, given) for _ in range(arguments.processes)]
            for _ in running:
                ready.acquire()
            num_bad = publish_all(arguments, shelf, path)
            stop.set()
            seen = [each.get() for each in running]
    return {
        "kind": kind,
        "mode": mode,
        "processes": arguments.processes,
        "published": arguments.generations,
        "bad_in_between": num_bad,
        "seconds": round(time.monotonic() - started, 1),
        "fewest_swaps_of_a_process": min(each.swaps for each in seen),
        "fewest_reports_of_a_process": min(each.reports for each in seen),
        **{name: sum(getattr(each, name) for each in seen) for name in Seen._fields},
    }


def main() -> int:
    """Run the campaign and print its figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--generations", type=int, default=100)
    parser.add_argument("--modes", nargs="+", default=MODES, choices=MODES)
    parser.add_argument("--kinds", nargs="+", default=KINDS, choices=KINDS)
    parser.add_argument("--follow", type=float, default=0.0, metavar="SECONDS")
    parser.add_argument("--bad-every", type=int, default=5, help="0 for no bad files")
    parser.add_argument("--pause", type=float, default=0.1, help="seconds between publications")
    record.add_options(parser, "follow")
    arguments = parser.parse_args()
    card = machine_card()
    report: dict[str, Any] = {"runs": []}
    for kind, mode in product(arguments.kinds, arguments.modes):
        report["runs"].append(run := follow_kind(arguments, kind, mode))
        wrong = sum(run[name] for name in WRONG)
        print(f"{kind}, {mode}: {run['keys']} keys, {wrong} wrong", file=sys.stderr, flush=True)
    for name in ("published", "bad_in_between", "keys", "reports", *WRONG):
        report[name] = sum(run[name] for run in report["runs"])
    text = record.text_of("python tools/campaigns follow", sys.argv[1:], card, report)
    print(text, end="")
    record.write(arguments.json, text)
    return int(any(report[name] for name in WRONG))


if __name__ == "__main__":
    sys.exit(main())
