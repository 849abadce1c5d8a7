"""Kill builds at random moments, and check what they leave.

    python tools/campaigns kill-builds --rounds 50

Each scenario is first built twice without a kill; the shorter time counts. Then `mmbloom build` is
started many times, and killed (SIGKILL) at a random moment within that time. After each kill:

- the target is absent, or unchanged, or complete: it verifies, has every key of the list, and
  equals the file of the undisturbed build except for the header, which has date and generation;
- beside it there are only temporary files whose names the next build recognizes and removes;
- the folder for spilled keys is empty; with --resume it may hold the checkpoint of the next build;
- the same command, not killed, succeeds and leaves a complete file and nothing else.

Prints a tally. Exits with 1 if a check failed. A scenario that spills needs a list with more bytes
of hashes (16 per line) than --memory.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import mmbloom
from bench.report import Row, Table, Target, figure, markdown, raw
from evidence import record
from evidence.card import machine_card
from make import make_list

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

FPR = 0.001
HEADER_BYTES = 4096
TARGET = "built.mmb"
LEFTOVER = re.compile(rf"\.{re.escape(TARGET)}\.\d+\.[0-9a-f]{{16}}\.tmp")
CHECKPOINT = f".{TARGET}.resume"
# Some kills come late: a build that has just ended, or is about to end, is worth testing.
LATEST = 1.05
FOUND = ("absent", "old", "complete")
BESIDE = ("leftovers", "checkpoints")


class Scenario(NamedTuple):
    """One way to build."""

    name: str
    spills: bool
    replaces: bool
    packed: bool
    resumes: bool = False


SCENARIOS = (
    Scenario("new", spills=False, replaces=False, packed=False),
    Scenario("over", spills=False, replaces=True, packed=False),
    Scenario("spill-new", spills=True, replaces=False, packed=False),
    Scenario("spill-over", spills=True, replaces=True, packed=False),
    Scenario("gz-new", spills=False, replaces=False, packed=True),
    Scenario("gz-spill-over", spills=True, replaces=True, packed=True),
    Scenario("resume-new", spills=True, replaces=False, packed=False, resumes=True),
)


class Wrong(Exception):  # noqa: N818 -- a finding, not an error of this program
    """A check after a kill failed."""


class Workshop:
    """The folders, the lists and the old filter that all scenarios of a run share."""

    def __init__(self, folder: Path, num_lines: int, memory: str) -> None:
        """Make them in *folder*, which must be empty."""
        self.targets, self.spills = folder / "targets", folder / "spills"
        self.targets.mkdir()
        self.spills.mkdir()
        self.target = self.targets / TARGET
        self.memory = memory
        shape = make_list.ListShape("hibp", num_lines, duplicates=0.1, shuffle=True)
        self.num_keys = shape.num_distinct
        self.lines = folder / "list.txt"
        make_list.write(str(self.lines), shape)
        self.packed = folder / "list.txt.gz"
        with self.lines.open("rb") as plain, gzip.open(self.packed, "wb", 1) as packed:
            shutil.copyfileobj(plain, packed)
        self.old = folder / "old.mmb"
        mmbloom.build(self.old, ["an old key"], fpr=FPR).close()

    def prepare(self, scenario: Scenario) -> None:
        """Restore the state before the build."""
        for folder in (self.targets, self.spills):
            shutil.rmtree(folder)
            folder.mkdir()
        if scenario.replaces:
            shutil.copyfile(self.old, self.target)

    def start(self, scenario: Scenario, *, force: bool) -> subprocess.Popen[bytes]:
        """Start the build."""
        source = self.packed if scenario.packed else self.lines
        command = [sys.executable, "-P", "-m", "mmbloom", "build", str(source), "--hibp", "-q"]
        command += ["-o", str(self.target), "--fpr", str(FPR)]
        if scenario.spills:
            # Two jobs on any machine: the memory is too small to be divided among more.
            command += ["--memory", self.memory, "--jobs", "2", "--spill-folder", str(self.spills)]
        command += ["--resume"] * scenario.resumes + ["--force"] * force
        return subprocess.Popen(command, cwd=self.targets.parent)  # noqa: S603 -- our own

    def finish(self, scenario: Scenario, *, force: bool) -> float:
        """Build without a kill; return the seconds. It must succeed and leave nothing else."""
        start = time.perf_counter()
        code = self.start(scenario, force=force).wait()
        seconds = time.perf_counter() - start
        if code:
            raise Wrong(f"a build that was not killed ended with exit code {code}")
        beside = sorted(path.name for path in self.targets.iterdir() if path != self.target)
        if beside:
            raise Wrong(f"a build that was not killed left {', '.join(beside)}")
        self.refuse_spills("a build that was not killed")
        return seconds

    def refuse_spills(self, what: str) -> None:
        """Raise Wrong unless the folder for spilled keys is empty."""
        left = sorted(path.name for path in self.spills.iterdir())
        if left:
            raise Wrong(f"{what} left in the folder for spilled keys: {', '.join(left)}")

    def body_of_complete(self) -> str:
        """Check that the target is complete; return the digest of its bytes after the header."""
        with mmbloom.open(self.target) as built:
            built.verify()
            if built.keys_added != self.num_keys:
                raise Wrong(f"keys_added: expected {self.num_keys}, found {built.keys_added}")
            with mmbloom.read_list(self.lines, delimiter=":") as keys:
                missing = int((~built.contains_many(keys)).sum())
            if missing:
                raise Wrong(f"{missing} keys of the list are not found")
        return _digest(self.target, HEADER_BYTES)

    def state(self, body: str) -> str:
        """Return whether the target is "absent", the "old" file, or "complete" with this body."""
        if not self.target.exists():
            return "absent"
        if _digest(self.target) == _digest(self.old):
            return "old"
        try:
            found = self.body_of_complete()
        except (mmbloom.MmbloomError, OSError) as exc:
            raise Wrong(f"the target is neither the old file nor a valid one: {exc}") from exc
        if found != body:
            raise Wrong("the target is valid but differs from the file of the undisturbed build")
        return "complete"


def _digest(path: Path, first: int = 0) -> str:
    with path.open("rb") as file:
        file.seek(first)
        return hashlib.file_digest(file, "sha256").hexdigest()


def _kill_once(shop: Workshop, scenario: Scenario, moment: float, body: str) -> Iterator[str]:
    """Kill one build after *moment* seconds; yield what to count."""
    shop.prepare(scenario)
    build = shop.start(scenario, force=scenario.replaces)
    with suppress(subprocess.TimeoutExpired):
        build.wait(moment)
    build.kill()
    code = build.wait()
    yield "killed" if code < 0 else "ended before"
    state = shop.state(body)
    yield state
    if state == ("absent" if scenario.replaces else "old"):
        raise Wrong(f"the target is {state}")
    if code == 0 and state != "complete":
        raise Wrong(f"the build had ended but the target is {state}")
    for path in shop.targets.iterdir():
        if path != shop.target and not LEFTOVER.fullmatch(path.name):
            raise Wrong(f"{path.name} was left beside the target")
        if path != shop.target:
            yield "leftovers"
    if scenario.resumes and (shop.spills / CHECKPOINT).exists():
        yield "checkpoints"
    else:
        shop.refuse_spills("the killed build")
    shop.finish(scenario, force=state != "absent")
    if shop.state(body) != "complete":
        raise Wrong("the next build did not make a new file")


def run_scenario(shop: Workshop, scenario: Scenario, rounds: int, seed: int) -> Row:
    """Kill *rounds* builds; return the tally, with the seconds of an undisturbed build."""
    undisturbed = []
    for _ in range(2):  # the first warms the page cache; the machine may be busy during either
        shop.prepare(scenario)
        undisturbed.append(shop.finish(scenario, force=scenario.replaces))
    seconds = min(undisturbed)
    body = shop.body_of_complete()
    moments = random.Random(f"{seed} {scenario.name}")  # noqa: S311 -- a moment, not a secret
    tally: Counter[str] = Counter()
    wrong: list[str] = []
    for number in range(rounds):
        moment = moments.uniform(0, LATEST * seconds)
        try:
            for found in _kill_once(shop, scenario, moment, body):
                tally[found] += 1
        except Wrong as exc:
            wrong.append(f"{scenario.name}, round {number}, killed after {moment:.3f} s: {exc}")
            print(wrong[-1], file=sys.stderr, flush=True)
    counts = {name: tally[name] for name in ("killed", "ended before", *FOUND, *BESIDE)}
    cells = {"rounds": rounds, "seconds": round(seconds, 3), **counts, "wrong": len(wrong)}
    return Row(scenario.name, ours=True, cells={**cells, "what was wrong": "\n".join(wrong)})


def _table(rows: Sequence[Row], options: argparse.Namespace) -> Table:
    note = (
        f"{options.lines:,} lines, a tenth of them repeated; --memory {options.memory} where keys"
        " are spilled. absent, old, complete: the target after the kill. leftovers: temporary"
        " files beside it, which the next build removed. checkpoints: what --resume keeps."
    )
    columns = ["rounds", "seconds", "killed", "ended before", *FOUND, *BESIDE, "wrong"]
    wrong = int(sum(figure(row.cells["wrong"]) or 0 for row in rows))
    promise = "after every kill: the file before or the complete one, and nothing else"
    targets = [Target(promise, f"{wrong} times otherwise", wrong == 0)]
    return Table("Builds killed at random moments", note, columns, [], rows, targets)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    names = ",".join(scenario.name for scenario in SCENARIOS)
    parser.add_argument("--rounds", type=int, default=50, help="per scenario; %(default)s")
    parser.add_argument("--lines", type=int, default=4_000_000, help="default: %(default)s")
    parser.add_argument("--memory", default="32M", help="of builds that spill; %(default)s")
    parser.add_argument("--scenarios", default=names, help="with commas; default: %(default)s")
    parser.add_argument("--seed", type=int, default=0, help="of the moments; default: %(default)s")
    parser.add_argument("--folder", type=Path, help="where to work, on a real disk")
    record.add_options(parser, "kill-builds")
    options = parser.parse_args()
    unknown = set(options.scenarios.split(",")) - set(names.split(","))
    if unknown:
        parser.error(f"--scenarios: expected some of {names}; found {', '.join(sorted(unknown))}")
    return options


def main() -> int:
    """Run the scenarios; return 1 if a check failed."""
    options = _options()
    card = machine_card()
    chosen = [scenario for scenario in SCENARIOS if scenario.name in options.scenarios.split(",")]
    with tempfile.TemporaryDirectory(prefix="kill-builds-", dir=options.folder) as folder:
        shop = Workshop(Path(folder), options.lines, options.memory)
        rows = [run_scenario(shop, scenario, options.rounds, options.seed) for scenario in chosen]
    table = _table(rows, options)
    print(markdown(table))
    command = "python tools/campaigns kill-builds"
    record.write(options.json, record.text_of(command, sys.argv[1:], card, raw([table])))
    return 0 if all(target.met for target in table.targets) else 1


if __name__ == "__main__":
    sys.exit(main())
