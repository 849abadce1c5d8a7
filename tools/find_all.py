"""Look up keys that are in filters of every kind, by the thousand million: none may be missed.

    python tools/find_all.py --lookups 1e9 --folder /dev/shm --json found.json
    MMBLOOM_ENGINE=python python tools/find_all.py --lookups 1e5 --largest 300

Round after round: every kind with every size, other keys, another form of key, another rate or
width of fingerprints. Each filter is asked for all of its keys at least twice, in batches of
different shapes, in order and shuffled, through a map and from memory, and for some of them one by
one; small files are also asked by a process with the other engine. 16 rounds have all widths of
fuse filters. Prints a tally as JSON, leaves it after each round in --json, and exits with 1 if a
key was missed. The same seed gives the same campaign.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from bench.card import machine_card
from present_keys import FORMS, Handed, KeySet

import mmbloom

if TYPE_CHECKING:
    from collections.abc import Iterator

    from present_keys import Rows

SMALL_SIZES = (0, 1, 2, 3, 20, 100, 300, 1000)
# Around here sets of keys just have enough for the next size of segment, which is the hardest.
HARD_SIZES = range(11_480, 11_522)
LARGE_SIZES = (100_000,)
ROTATING_SIZE = 1_000_000  # every other time
# One kind a round: several shards, and as many keys as one shard holds, and one more.
HUGE_SIZES = (10_000_000, 1 << 22, (1 << 22) + 1)
FPRS = (0.01, 0.3, 1e-3, 1e-5, 0.05, 1e-9)
COUNTING_FPRS = (0.01, 0.1, 1e-3, 1e-4)
WIDTHS = range(1, 33)
LAYOUTS = ("line", "page", "classic")
MOST_SINGLE, MOST_OBJECTS, MOST_BY_CALLS, MOST_OF_OTHER_ENGINE = 1000, 20_000, 2000, 300
MODES = ("map", "ram", "pread")
REMOVED_SHARE = 4  # of a counting filter: one key in so many is added and removed again


class Case(NamedTuple):
    """One filter: *number* is different for each of a campaign, and chooses what else varies."""

    number: int
    kind: str
    layout: str
    fpr: float
    keys: KeySet

    @property
    def label(self) -> str:
        """The line of the tally that it counts for."""
        return (
            f"{self.layout}, {-round(np.log2(self.fpr))} bits"
            if self.kind == "fuse"
            else self.layout
        )

    def shape(self, nth: int) -> str:
        """Return a shape to hand the keys over in; one of Python objects for few keys only."""
        shapes = list(FORMS[self.keys.form].batches)
        if self.keys.count > MOST_OBJECTS:
            shapes = shapes[: 1 if self.keys.form == "varied" else 2]
        return shapes[(self.number + nth) % len(shapes)]


class Tally:
    """What was asked and missed, by kind."""

    def __init__(self) -> None:
        self.lookups: Counter[str] = Counter()
        self.misses: Counter[str] = Counter()
        self.missed: list[str] = []

    def count(self, what: str, label: str, lookups: int, misses: int) -> None:
        """Take in a batch of look-ups."""
        self.lookups[label] += lookups
        self.misses[label] += misses
        if misses:
            self.missed.append(f"{misses} of {lookups} in {what}")


# ---- the campaign --------------------------------------------------------------------------------


def cases(seed: int, largest: int) -> Iterator[list[Case]]:
    """Yield the cases of each round, without end."""
    numbers = itertools.count()
    forms = list(FORMS)
    for turn in itertools.count():
        found = []
        for i, (kind, layout, fpr) in enumerate(_kinds(turn)):
            for size in _sizes(turn, i):
                if size > largest:
                    continue
                number = next(numbers)
                form = forms[number % len(forms)]
                found.append(
                    Case(number, kind, layout, fpr, KeySet(seed << 40 | number, form, size))
                )
        yield found


def _kinds(turn: int) -> Iterator[tuple[str, str, float]]:
    for i, layout in enumerate(LAYOUTS):
        yield "bloom", layout, FPRS[(turn + i) % len(FPRS)]
    for layout, half in itertools.product(("fuse3", "fuse4"), (7, 23)):
        yield "fuse", layout, 2.0 ** -WIDTHS[(turn + half) % len(WIDTHS)]
    yield "counting", "counters", COUNTING_FPRS[turn % len(COUNTING_FPRS)]


def _sizes(turn: int, nth_kind: int) -> Iterator[int]:
    yield from (*SMALL_SIZES, *HARD_SIZES, *LARGE_SIZES)
    if (turn + nth_kind) % 2 == 0:
        yield ROTATING_SIZE
    if turn % 8 == nth_kind:
        yield HUGE_SIZES[turn // 8 % len(HUGE_SIZES)]


def run_case(case: Case, folder: Path, tally: Tally) -> None:
    """Make the filter, ask it for all of its keys, and leave it in *folder* if it is small."""
    path = folder / f"{case.number}.mmb"
    for label, made in _make(case, path):
        ask_file(made, label, case, tally)
        if case.keys.count > MOST_OF_OTHER_ENGINE:
            made.unlink()


def _make(case: Case, path: Path) -> list[tuple[str, Path]]:
    """Make the files of a case; return each with the line of the tally that it counts for."""
    keys = Handed(case.keys, case.shape(0))
    asked: dict[str, Any] = {
        "fpr": case.fpr,
        "key_form": FORMS[case.keys.form].key_form,
        "seed": case.number,
        "metadata": {"case": _noted(case)},
    }
    if case.kind == "counting":
        return _make_counting(case, path, keys, asked)
    if case.kind == "fuse" or (case.number % 2 and case.keys.count):
        kind = {"kind": case.kind, "layout": case.layout, "jobs": 1 + case.number % 2}
        mmbloom.build(path, keys, **kind, **asked).close()
    else:
        size = {"capacity": max(1, case.keys.count), "layout": case.layout, "overfill": True}
        with mmbloom.BloomFilter.create(path, **size, **asked) as made:
            made.update(keys)
            if case.number % 4:
                made.seal()
    return [(case.label, path)]


def _make_counting(
    case: Case, path: Path, keys: Handed, asked: dict[str, Any]
) -> list[tuple[str, Path]]:
    others = case.keys._replace(first=case.keys.count, count=case.keys.count // REMOVED_SHARE)
    leaving = Handed(others, case.shape(1))
    flat = path.with_suffix(".narrow.mmb")
    capacity = max(1, case.keys.count + others.count)
    with mmbloom.CountingBloomFilter.create(
        path, capacity=capacity, overfill=True, **asked
    ) as made:
        made.update(leaving)
        made.update(keys)
        made.remove_many(leaving)
        made.to_bloom(flat).close()
    return [("counters", path), ("narrow", flat)]


def _noted(case: Case) -> dict[str, Any]:
    return {**case._asdict(), "keys": case.keys._asdict()}


# ---- asking --------------------------------------------------------------------------------------


def ask_file(path: Path, label: str, case: Case, tally: Tally) -> None:
    """Ask for all keys in order and shuffled, in other shapes than they were added in."""
    with mmbloom.open(path) as found:
        mode = _second_mode(case, sealed=found.sealed)
        _ask(found, f"{label}, map", label, case, 1, tally)
    with mmbloom.open(path, mode=mode) as found:
        _ask(found, f"{label}, {mode}", label, case, 2, tally)


def _second_mode(case: Case, *, sealed: bool) -> str:
    """Return the mode of the second opening: system calls for few keys, memory if sealed."""
    mode = MODES[case.number % len(MODES)]
    if mode == "pread" and case.keys.count > MOST_BY_CALLS:
        mode = "ram"
    return "map" if mode == "ram" and not sealed else mode


def _ask(found: Any, what: str, label: str, case: Case, nth: int, tally: Tally) -> None:  # noqa: ANN401, PLR0913, PLR0917 -- of any kind; one pass
    form, shape = FORMS[case.keys.form], case.shape(nth)
    for rows in _shuffled(case.keys) if nth > 1 else case.keys.blocks():
        answers = found.contains_many(form.batches[shape](rows))
        if len(answers) != len(rows):
            raise AssertionError(f"{len(answers)} answers for {len(rows)} keys: {case}, {what}")
        tally.count(f"{case}, {what}, {shape}", label, len(answers), int(np.sum(~answers)))
    if case.keys.count:
        singles = form.single(case.keys.rows(0, min(MOST_SINGLE, case.keys.count)))
        misses = sum(key not in found for key in singles)
        tally.count(f"{case}, {what}, one by one", f"{label}, one by one", len(singles), misses)


def _shuffled(keys: KeySet) -> Iterator[Rows]:
    random = np.random.default_rng(keys.seed)
    for rows in keys.blocks():
        yield random.permutation(rows)


def ask_folder(folder: Path, tally: Tally) -> None:
    """Ask every file in a folder for the keys that its metadata tells."""
    for path in sorted(folder.glob("*.mmb")):
        with mmbloom.open(path) as found:
            noted = found.metadata["case"]
        case = Case(**{**noted, "keys": KeySet(**noted["keys"])})
        label = "narrow" if path.name.endswith(".narrow.mmb") else case.label
        ask_file(path, label, case, tally)


def ask_other_engine(folder: Path, tally: Tally) -> None:
    """Have a process with the other engine ask the files of a folder, then remove them."""
    other = "python" if mmbloom.ENGINE == "kernel" else "kernel"
    done = subprocess.run(  # noqa: S603 -- this Python, this program
        [sys.executable, __file__, "--ask", str(folder)],
        env={**os.environ, "MMBLOOM_ENGINE": other},
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    answer = json.loads(done.stdout)
    label = f"asked by the {other} engine"
    tally.count("", label, answer["lookups"], 0)
    tally.misses[label] += answer["misses"]
    tally.missed += answer["missed"]
    for path in folder.iterdir():
        path.unlink()


# ---- the program ---------------------------------------------------------------------------------


def campaign(folder: Path, options: argparse.Namespace) -> Tally:
    """Run rounds until there were so many look-ups; leave the tally after each."""
    tally = Tally()
    for turn, found in enumerate(cases(options.seed, options.largest), 1):
        for case in found:
            run_case(case, folder, tally)
            if tally.lookups.total() >= options.lookups:
                break
        if options.other_engine:
            ask_other_engine(folder, tally)
        if options.json is not None:
            options.json.write_text(_report(tally, options, turn), encoding="utf-8")
        print(f"round {turn}: {tally.lookups.total():,}", file=sys.stderr, flush=True)
        if tally.lookups.total() >= options.lookups:
            break
    return tally


def _report(tally: Tally, options: argparse.Namespace, rounds: int) -> str:
    facts = {
        "what": "look-ups of keys that are in, and how many were answered 'definitely not'",
        "seed": options.seed,
        "engine": mmbloom.ENGINE,
        "asked_for": int(options.lookups),
        "largest": int(options.largest),
        "rounds": rounds,
        "lookups": tally.lookups.total(),
        "misses": tally.misses.total(),
        "missed": tally.missed,
        "lookups_by_kind": dict(sorted(tally.lookups.items())),
        "machine": machine_card(),
    }
    return json.dumps(facts, indent=1) + "\n"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--lookups", type=float, default=1e9, help="to make at least; 1e9")
    parser.add_argument("--seed", type=int, default=2026, help="default: %(default)s")
    parser.add_argument("--largest", type=float, default=1e7, help="keys of a filter; 1e7")
    parser.add_argument("--folder", type=Path, help="where the filters are made, one by one")
    parser.add_argument("--json", type=Path, help="where the tally goes, after each round")
    parser.add_argument(
        "--one-engine",
        dest="other_engine",
        action="store_false",
        help="do not ask the small files with the other engine, too",
    )
    parser.add_argument("--ask", type=Path, help="only ask the files that are in a folder")
    return parser.parse_args()


def main() -> int:
    """Run a campaign, or ask a folder; 1 when a key was missed."""
    options = _options()
    if options.ask is not None:
        tally = Tally()
        ask_folder(options.ask, tally)
    else:
        with tempfile.TemporaryDirectory(prefix="find-all-", dir=options.folder) as folder:
            tally = campaign(Path(folder), options)
    found = {"lookups": tally.lookups.total(), "misses": tally.misses.total()}
    print(json.dumps({**found, "missed": tally.missed}))
    return 1 if tally.misses.total() else 0


if __name__ == "__main__":
    sys.exit(main())
