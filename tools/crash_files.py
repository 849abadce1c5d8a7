"""Cut the power at every step of a file's life, and look whether what was promised is still there.

    python tools/crash_files.py                    # every step of every life, 20 times
    python tools/crash_files.py --rounds 1000 --json result.json

Each life runs once on a disk that records (simulated_disk.py). Then, for every prefix of its
writes, what a disk may have kept is written out and opened: the path must be absent, the old file
or a valid new one; every key that flush(), close(), seal(), save() or build() had returned for is
found; a file that is not sealed opens for writing, takes a key, and still has all others. One
exception is known and documented: a disk that tears the second slot of a seal leaves a file that is
refused, and whole again once the first slot is copied over it. It is checked by doing that.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from bench.card import machine_card
from simulated_disk import SimulatedDisk

import mmbloom
from mmbloom.format.fields import SLOT_BYTES, SLOT_OFFSETS

if TYPE_CHECKING:
    from collections.abc import Callable

    Life = Callable[[Path, Callable[[object], None]], None]

NAME = "a.mmb"
ROUNDS = 20


class Promise(NamedTuple):
    """What must be found: the keys of one of the alternatives; where *absent*, or no file."""

    alternatives: tuple[tuple[str, ...], ...]
    absent: bool = False


def keys(first: int, count: int) -> list[str]:
    """Return the same keys in every run."""
    return [f"key {i}" for i in range(first, first + count)]


OLD, NEW = tuple(keys(0, 300)), tuple(keys(1000, 400))
GEOMETRY: dict[str, Any] = {"capacity": 2000, "fpr": 0.001}


# ---- lives ---------------------------------------------------------------------------------------


def create_and_add(path: Path, promise: Callable[[object], None]) -> None:
    """Create, add, flush, add one by one, close."""
    promise(Promise(((),), absent=True))
    with mmbloom.BloomFilter.create(path, **GEOMETRY) as made:
        promise(Promise(((),)))
        for first in range(0, 300, 100):
            made.update(keys(first, 100))
            made.flush()
            promise(Promise((OLD[: first + 100],)))
        for key in NEW[:5]:
            made.add(key)
    promise(Promise(((*OLD, *NEW[:5]),)))


def create_and_seal(path: Path, promise: Callable[[object], None]) -> None:
    """Create, add, seal."""
    promise(Promise(((),), absent=True))
    with mmbloom.BloomFilter.create(path, **GEOMETRY) as made:
        made.update(OLD)
        made.flush()
        promise(Promise((OLD,)))
        made.seal()
        promise(Promise((OLD,)))


def add_to_old(path: Path, promise: Callable[[object], None]) -> None:
    """Open a file that has keys, add, flush, clear, add, seal."""
    with mmbloom.BloomFilter.create(path, **GEOMETRY) as made:
        made.update(OLD)
    promise(Promise((OLD,)))
    with mmbloom.open_writable(path) as writer:
        writer.update(NEW)
        writer.flush()
        promise(Promise(((*OLD, *NEW),)))
        promise(Promise(((),)))
        writer.clear()
        writer.update(NEW)
        writer.seal()
    promise(Promise((NEW,)))


def replace_by_save(path: Path, promise: Callable[[object], None]) -> None:
    """Save a filter of memory over a sealed file."""
    mmbloom.build(path, OLD, fpr=0.001).close()
    promise(Promise((OLD, NEW)))
    with mmbloom.BloomFilter.in_memory(**GEOMETRY) as made:
        made.update(NEW)
        made.save(path, if_exists="replace")
    promise(Promise((NEW,)))


def build_new(path: Path, promise: Callable[[object], None]) -> None:
    """Build a file."""
    promise(Promise(((),), absent=True))
    mmbloom.build(path, NEW, fpr=0.001).close()
    promise(Promise((NEW,)))


def replace_by_build(path: Path, promise: Callable[[object], None]) -> None:
    """Build over an older file."""
    mmbloom.build(path, OLD, fpr=0.001).close()
    promise(Promise((OLD, NEW)))
    mmbloom.build(path, NEW, fpr=0.001, if_exists="replace").close()
    promise(Promise((NEW,)))


LIVES: tuple[Life, ...] = (
    *(create_and_add, create_and_seal, add_to_old),
    *(replace_by_save, build_new, replace_by_build),
)


# ---- after the crash -----------------------------------------------------------------------------


def look(path: Path, promise: Promise) -> str:
    """Check what is left of the file; return what it was. Raises AssertionError, or what open()."""
    if not path.exists():
        require(promise.absent, "the file is gone")
        return "absent"
    with mmbloom.open(path) as reader:
        check_keys(reader, promise)
        reader.verify(num_threads=1)
        reader.info()
        if reader.sealed:
            return "sealed"
    with mmbloom.open_writable(path) as writer:
        counted = writer.keys_added
        require(counted <= writer.capacity, f"{counted} keys counted")
        writer.add("one more")
        writer.flush()
    with mmbloom.open(path) as reader:
        check_keys(reader, promise)
        require("one more" in reader, "a key added after the crash is lost")
    return "writable"


def check_keys(reader: mmbloom.BloomFilter, promise: Promise) -> None:
    """Require that all keys of one alternative are found."""
    found = [all(reader.contains_many(list(each)).tolist()) for each in promise.alternatives]
    require(any(found), "keys that were promised are lost")


def require(holds: bool, problem: str) -> None:  # noqa: FBT001 - an assertion that -O keeps
    """Raise AssertionError unless it holds."""
    if not holds:
        raise AssertionError(problem)


def look_with_repair(path: Path, promise: Promise, *, torn: bool) -> str:
    """Check the file; where a torn sector made it refused as documented, repair it first."""
    try:
        return look(path, promise)
    except mmbloom.FormatError as exc:
        if not torn or exc.field != "slot_checksum":
            raise
        refused = exc
    content = bytearray(path.read_bytes())
    bad = SLOT_OFFSETS[refused.offset >= SLOT_OFFSETS[1]]
    good = sum(SLOT_OFFSETS) - bad
    content[bad : bad + SLOT_BYTES] = content[good : good + SLOT_BYTES]
    path.write_bytes(content)
    return f"refused over its slot, repaired: {look(path, promise)}"


def crash_life(life: Life, rounds: int, seed: int) -> tuple[int, Counter[str], list[str]]:
    """Cut the power at every step of one life, *rounds* times; return steps, outcomes, findings."""
    outcomes: Counter[str] = Counter()
    findings = []
    with tempfile.TemporaryDirectory() as name, tempfile.TemporaryDirectory() as where:
        disk = SimulatedDisk(Path(name))
        with disk.recording():
            life(Path(name) / NAME, disk.promise)
        first = next(i for i, event in enumerate(disk.events) if event.kind == "promise")
        for step in range(first + 1, len(disk.events) + 1):
            promise = next(e.promise for e in disk.events[step - 1 :: -1] if e.kind == "promise")
            for number in range(rounds):
                rng = random.Random(f"{seed} {life.__name__} {step} {number}")  # noqa: S311
                torn = number % 2 == 1
                try:
                    outcome = crash_once(disk, step, rng, Path(where), promise, torn=torn)
                except (AssertionError, OSError, mmbloom.MmbloomError) as exc:
                    last = disk.events[step - 1]
                    findings.append(f"{life.__name__}, step {step} ({last.kind}), {number}: {exc}")
                else:
                    outcomes[outcome] += 1
    return len(disk.events) - first, outcomes, findings


def crash_once(  # noqa: PLR0913 - one case has these parts
    disk: SimulatedDisk,
    step: int,
    rng: random.Random,
    folder: Path,
    promise: Promise,
    *,
    torn: bool,
) -> str:
    """Write out one state of the disk after power loss, and look at it."""
    for path in folder.iterdir():
        path.unlink()
    left = disk.crash(step, rng, torn=torn)
    if NAME in left:
        (folder / NAME).write_bytes(left[NAME])
    return look_with_repair(folder / NAME, promise, torn=torn)


def main() -> int:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description="Cut the power at every step of a file's life.")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="crashes at each step")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, help="where the figures go")
    given = parser.parse_args()
    report: dict[str, Any] = {
        "what": "crash_files",
        "command": "python tools/crash_files.py " + " ".join(sys.argv[1:]),
        "machine": machine_card(),
        "lives": {},
        "findings": [],
    }
    start = time.monotonic()
    for life in LIVES:
        steps, outcomes, findings = crash_life(life, given.rounds, given.seed)
        report["lives"][life.__name__] = {"steps": steps, "outcomes": dict(outcomes)}
        report["findings"] += findings
    report["crashes"] = sum(sum(e["outcomes"].values()) for e in report["lives"].values())
    report["crashes"] += len(report["findings"])
    report["seconds"] = round(time.monotonic() - start, 1)
    text = json.dumps(report, indent=1)
    print(text)
    if given.json is not None:
        given.json.write_text(text + "\n", encoding="utf-8")
    return int(bool(report["findings"]))


if __name__ == "__main__":
    sys.exit(main())
