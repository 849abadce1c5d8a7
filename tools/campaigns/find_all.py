"""Look up a thousand million keys that were added, in filters of every kind: none may be missed.

    python tools/campaigns find-all --lookups 1e9 --folder /dev/shm --json found.json
    MMBLOOM_ENGINE=python python tools/campaigns find-all --lookups 1e5 --largest 300

Each round makes filters of every kind and size, with new keys, another form of key, another rate or
fingerprint width. In each filter all keys are looked up at least twice, in batches of different
shapes, in order and shuffled, through a map and from memory, and some of them one by one. Small
files are also opened by a process with the other engine. 16 rounds cover all widths of fuse
filters. Prints a tally as JSON, writes it after each round (--json, --save), and exits with 1 if a
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

import mmbloom
from evidence import record
from evidence.card import machine_card

from .present_keys import FORMS, Handed, KeySet

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .present_keys import Rows

SMALL_SIZES = (0, 1, 2, 3, 20, 100, 300, 1000)
# Here the segment size changes, where fuse filters are hardest to construct.
HARD_SIZES = range(11_480, 11_522)
LARGE_SIZES = (100_000,)
ROTATING_SIZE = 1_000_000  # every other time
# For one kind per round: several shards; exactly the keys of one shard; one key more.
HUGE_SIZES = (10_000_000, 1 << 22, (1 << 22) + 1)
FPRS = (0.01, 0.3, 1e-3, 1e-5, 0.05, 1e-9)
COUNTING_FPRS = (0.01, 0.1, 1e-3, 1e-4)
WIDTHS = range(1, 33)
LAYOUTS = ("line", "page", "classic")
MOST_SINGLE, MOST_OBJECTS, MOST_BY_CALLS, MOST_OF_OTHER_ENGINE = 1000, 20_000, 2000, 300
MODES = ("map", "ram", "pread")
REMOVED_SHARE = 4  # in a counting filter one key in 4 is added and removed again


class Case(NamedTuple):
    """One filter. *number* is unique in a campaign, and selects what else varies."""

    number: int
    kind: str
    layout: str
    fpr: float
    keys: KeySet

    @property
    def label(self) -> str:
        """The line of the tally that counts it."""
        return (
            f"{self.layout}, {-round(np.log2(self.fpr))} bits"
            if self.kind == "fuse"
            else self.layout
        )

    def shape(self, nth: int) -> str:
        """Return a shape for the batches; Python objects only for small sets of keys."""
        shapes = list(FORMS[self.keys.form].batches)
        if self.keys.count > MOST_OBJECTS:
            shapes = shapes[: 1 if self.keys.form == "varied" else 2]
        return shapes[(self.number + nth) % len(shapes)]


class Tally:
    """Look-ups and misses, by kind."""

    def __init__(self) -> None:
        self.lookups: Counter[str] = Counter()
        self.misses: Counter[str] = Counter()
        self.missed: list[str] = []

    def count(self, what: str, label: str, lookups: int, misses: int) -> None:
        """Count a batch of look-ups."""
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
    """Make the filter and look up all of its keys; keep the file in *folder* if it is small."""
    path = folder / f"{case.number}.mmb"
    for label, made in _make(case, path):
        ask_file(made, label, case, tally)
        if case.keys.count > MOST_OF_OTHER_ENGINE:
            made.unlink()


def _make(case: Case, path: Path) -> list[tuple[str, Path]]:
    """Make the files of a case; return each with the line of the tally that counts it."""
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
    """Look up all keys, in order and shuffled, in other shapes than they were added in."""
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
    """Look up the keys of every file in a folder; its metadata says which they are."""
    for path in sorted(folder.glob("*.mmb")):
        with mmbloom.open(path) as found:
            noted = found.metadata["case"]
        case = Case(**{**noted, "keys": KeySet(**noted["keys"])})
        label = "narrow" if path.name.endswith(".narrow.mmb") else case.label
        ask_file(path, label, case, tally)


def ask_other_engine(folder: Path, tally: Tally) -> None:
    """Check the files of a folder in a process with the other engine, then remove them."""
    other = "python" if mmbloom.ENGINE == "kernel" else "kernel"
    done = subprocess.run(  # noqa: S603 -- this Python, this campaign
        [sys.executable, str(Path(__file__).parent), "find-all", "--ask", str(folder)],
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
    """Run rounds until --lookups is reached; write the tally after each."""
    tally, card = Tally(), machine_card()
    for turn, found in enumerate(cases(options.seed, options.largest), 1):
        for case in found:
            run_case(case, folder, tally)
            if tally.lookups.total() >= options.lookups:
                break
        if options.other_engine:
            ask_other_engine(folder, tally)
        words, figures = sys.argv[1:], _figures(tally, options, turn)
        text = record.text_of("python tools/campaigns find-all", words, card, figures)
        record.write(options.json, text)
        print(f"round {turn}: {tally.lookups.total():,}", file=sys.stderr, flush=True)
        if tally.lookups.total() >= options.lookups:
            break
    return tally


def _figures(tally: Tally, options: argparse.Namespace, rounds: int) -> dict[str, object]:
    return {
        "seed": options.seed,
        "engine": mmbloom.ENGINE,
        "asked_for": int(options.lookups),
        "largest": int(options.largest),
        "rounds": rounds,
        "lookups": tally.lookups.total(),
        "misses": tally.misses.total(),
        "missed": tally.missed,
        "lookups_by_kind": dict(sorted(tally.lookups.items())),
    }


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--lookups", type=float, default=1e9, help="look-ups to make; default: 1e9")
    parser.add_argument("--seed", type=int, default=2026, help="default: %(default)s")
    parser.add_argument(
        "--largest", type=float, default=1e7, help="most keys of a filter; default: 1e7"
    )
    parser.add_argument("--folder", type=Path, help="folder for the filters, made one by one")
    record.add_options(parser, "find-all")
    parser.add_argument(
        "--one-engine",
        dest="other_engine",
        action="store_false",
        help="do not check the small files with the other engine",
    )
    parser.add_argument("--ask", type=Path, help="only look up the keys of the files in a folder")
    return parser.parse_args()


def main() -> int:
    """Run a campaign, or check a folder; return 1 if a key was missed."""
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
