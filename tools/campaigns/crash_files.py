"""Cut the power at every step of a file's life, and check that every promise still holds.

    python tools/campaigns crash-files                    # every step of every life, 20 times
    python tools/campaigns crash-files --rounds 1000 --json result.json
    python tools/campaigns crash-files --lives store_publish store_remove

Each life (crash_lives.py) runs once on a disk that records its writes (simulated_disk.py). Then,
for every prefix of these writes, a state that the disk may be left in is written out and used
(crash_promises.py): a path must be absent, the old file or a valid new one; every key that a call
had confirmed is found; a file that is not sealed accepts a key and keeps all others; an interrupted
build continues; a store leads to a valid generation and accepts the next one. One exception is
known and documented: a disk that tears the second slot of a seal leaves a file that is refused. It
is whole again once the first slot is copied over the second, which the campaign does and checks.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import mmbloom
from evidence import record
from evidence.card import machine_card
from mmbloom.storage import temporary

from .crash_lives import LIVES, SLOW_LIVES
from .simulated_disk import SimulatedDisk

if TYPE_CHECKING:
    from .crash_lives import Life

ROUNDS = 20
_SHARE_OF_SLOW = 5
_IN_MEMORY = "/dev/shm"  # noqa: S108 - what is made there is made by tempfile


def crash_life(
    life: Life, rounds: int, seed: int, *, has_unnamed_files: bool = True, every: int = 1
) -> tuple[int, Counter[str], list[str]]:
    """Cut the power at the steps of one life, *rounds* times; return steps, outcomes, findings.

    One step in *every* is tried, chosen at random.
    """
    outcomes: Counter[str] = Counter()
    findings = []
    with ExitStack() as stack:
        name = stack.enter_context(tempfile.TemporaryDirectory(dir=_folder_in_memory()))
        folder = Path(name, "disk").resolve()
        folder.mkdir()
        disk = SimulatedDisk(folder)
        with disk.recording(has_unnamed_files=has_unnamed_files):
            life(folder, disk.promise)
        # The process that made a temporary file counts as dead, though it is this one.
        stack.enter_context(patch.object(temporary, "_is_alive", lambda _: False))
        first = next(i for i, event in enumerate(disk.events) if event.kind == "promise")
        steps = range(first + 1, len(disk.events) + 1)
        for step in random.Random(seed).sample(steps, len(steps) // every):  # noqa: S311
            promise: Any = next(e.promise for e in disk.events[step - 1 :: -1] if e.promise)
            for number in range(rounds):
                rng = random.Random(f"{seed} {life.__name__} {step} {number}")  # noqa: S311
                torn = number % 2 == 1
                disk.put(disk.crash(step, rng, torn=torn))
                try:
                    outcome = promise.check(folder, torn=torn)
                except (AssertionError, OSError, mmbloom.MmbloomError) as exc:
                    last = disk.events[step - 1]
                    findings.append(f"{life.__name__}, step {step} ({last.kind}), {number}: {exc}")
                else:
                    outcomes[outcome] += 1
    return len(steps), outcomes, findings


def _folder_in_memory() -> str | None:
    """Return a folder in memory if there is one: syncs are simulated, so no disk is needed."""
    return _IN_MEMORY if os.access(_IN_MEMORY, os.W_OK) else None


def main() -> int:
    """Run the campaign; return 1 if there is a finding."""
    lives = {life.__name__: life for life in LIVES}
    parser = argparse.ArgumentParser(description="Cut the power at every step of a file's life.")
    parser.add_argument(
        "--rounds",
        type=int,
        default=ROUNDS,
        help="crashes at each step; a fifth of them if a build follows each",
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--lives", nargs="+", choices=lives, default=list(lives), metavar="LIFE")
    record.add_options(parser, "crash-files")
    given = parser.parse_args()
    card = machine_card()
    report: dict[str, Any] = {"lives": {}, "findings": []}
    start = time.monotonic()
    for name, unnamed in product(given.lives, (True, False)):
        life = lives[name]
        rounds = -(-given.rounds // _SHARE_OF_SLOW) if life in SLOW_LIVES else given.rounds
        steps, outcomes, findings = crash_life(life, rounds, given.seed, has_unnamed_files=unnamed)
        title = name if unnamed else f"{name}, no O_TMPFILE"
        report["lives"][title] = {"steps": steps, "outcomes": dict(outcomes)}
        report["findings"] += findings
        print(f"{title}: {steps} steps, {len(findings)} findings", file=sys.stderr, flush=True)
    report["steps"] = sum(each["steps"] for each in report["lives"].values())
    report["crashes"] = sum(sum(e["outcomes"].values()) for e in report["lives"].values())
    report["crashes"] += len(report["findings"])
    report["seconds"] = round(time.monotonic() - start, 1)
    text = record.text_of("python tools/campaigns crash-files", sys.argv[1:], card, report)
    print(text, end="")
    record.write(given.json, text)
    return int(bool(report["findings"]))


if __name__ == "__main__":
    sys.exit(main())
