"""Make the golden files of the format. They are written once, then only read by tests.

    python tools/make/make_golden.py tests/golden bloom
    python tools/make/make_golden.py tests/golden/counting counting
    python tools/make/make_golden.py tests/golden/fuse fuse

One file for each layout and key form, one that is still WRITABLE, and answers.json, which has the
answers that readers must give. It is an error if one of them exists: a golden file that is made
again proves nothing. For a new layout or format version add a set and a folder.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import mmbloom
from mmbloom.sizing import fuse as fuse_sizing

if TYPE_CHECKING:
    from collections.abc import Iterator

FPR = 0.05  # high, so that the answers include false positives
NUM_ABSENT = 300
DATE = "1700000000"
ANSWERS = "answers.json"


class Golden(NamedTuple):
    """One file. Two pages of the page layout take 9000 keys at this rate, three lines 200."""

    name: str
    layout: str
    key_form: str
    num_keys: int
    seed: int
    sealed: bool = True
    fpr: float = FPR


SETS = {
    "bloom": (
        Golden("classic-raw.mmb", "classic", "raw", 200, 0),
        Golden("classic-hex.mmb", "classic", "hex", 200, 1),
        Golden("line-raw.mmb", "line", "raw", 200, 2**64 - 1),
        Golden("line-hex.mmb", "line", "hex", 200, 2**63),
        Golden("page-raw.mmb", "page", "raw", 9000, 7),
        Golden("page-hex.mmb", "page", "hex", 9000, 0),
        Golden("line-raw-writable.mmb", "line", "raw", 200, 3, sealed=False),
    ),
    "counting": (
        Golden("counters-raw.mmb", "counters", "raw", 200, 2**64 - 1),
        Golden("counters-hex.mmb", "counters", "hex", 200, 5),
        Golden("counters-raw-writable.mmb", "counters", "raw", 200, 0, sealed=False),
        Golden("narrow-raw.mmb", "narrow", "raw", 200, 2**63),
        Golden("narrow-hex.mmb", "narrow", "hex", 200, 1),
    ),
    # Fingerprints of 5, 8, 6 and 7 bits; the last one in 4 shards.
    "fuse": (
        Golden("fuse3-raw.mmb", "fuse3", "raw", 200, 2**64 - 1),
        Golden("fuse3-hex.mmb", "fuse3", "hex", 200, 9, fpr=0.004),
        Golden("fuse4-hex.mmb", "fuse4", "hex", 200, 2**63, fpr=0.02),
        Golden("fuse4-raw-shards.mmb", "fuse4", "raw", 1000, 0, fpr=0.01),
    ),
}
GOLDEN_SHARD_KEYS = 300


def key(kind: str, number: int, key_form: str) -> str:
    """Return the key "member 5" or "absent 7", under hex the SHA-1 of that text."""
    text = f"{kind} {number}"
    if key_form == "raw":
        return text
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


def make(folder: Path, golden: Golden) -> dict[str, Any]:
    """Write one file; return what readers must find in it."""
    path = folder / golden.name
    members = [key("member", i, golden.key_form) for i in range(golden.num_keys)]
    parameters: dict[str, Any] = {
        "fpr": golden.fpr,
        "layout": golden.layout,
        "seed": golden.seed,
        "key_form": golden.key_form,
        "metadata": {"golden": golden.name, "é": [1, None]},
    }
    if golden.layout in {"counters", "narrow"}:
        make_counting(path, golden, parameters)
    elif golden.layout in fuse_sizing.LAYOUTS:
        fuse_sizing.MOST_SHARD_KEYS = (
            GOLDEN_SHARD_KEYS  # several shards would need megabytes otherwise
        )
        mmbloom.build(path, members, kind="fuse", **parameters).close()
    elif golden.sealed:
        mmbloom.build(path, members, **parameters).close()
    else:
        capacity = golden.num_keys + 100
        with mmbloom.BloomFilter.create(path, capacity=capacity, **parameters) as written:
            written.update(members)
    with mmbloom.open(path) as found:
        facts = found.info()
        counts = {}
        if isinstance(found, mmbloom.CountingBloomFilter):
            counts = {"counts": [found.count_estimate(member) for member in members]}
        maybes = [i for i in range(NUM_ABSENT) if key("absent", i, golden.key_form) in found]
    left_out = ("path", "engine", "format_version")
    return {
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "members": golden.num_keys,
        "absent": NUM_ABSENT,
        "absent_but_maybe": maybes,
        "info": {name: value for name, value in facts.items() if name not in left_out},
        **counts,
    }


def make_counting(path: Path, golden: Golden, parameters: dict[str, Any]) -> None:
    """Write a counting filter, or the Bloom filter made from one.

    The first member is added 20 times, the second 5 times, the others once; 100 keys come and go.
    """
    members = [key("member", i, golden.key_form) for i in range(golden.num_keys)]
    gone = [key("gone", i, golden.key_form) for i in range(100)]
    del parameters["layout"]
    counting = mmbloom.CountingBloomFilter
    capacity = golden.num_keys + (0 if golden.sealed else 100)
    with counting.in_memory(capacity=capacity, **parameters) as made:
        made.update(gone)
        made.update([*members[:1] * 19, *members[1:2] * 4])
        made.remove_many(gone)
        made.update(members)
        if golden.layout == "narrow":
            made.to_bloom(path).close()
        elif golden.sealed:
            made.save(path)
        else:
            written = counting.create(path, capacity=capacity, **parameters)
            written |= made
            written.close()


def existing(folder: Path, files: tuple[Golden, ...]) -> Iterator[Path]:
    """Yield each file that exists already."""
    for name in (*(golden.name for golden in files), ANSWERS):
        if (folder / name).exists():
            yield folder / name


def main() -> int:
    """Make all files of a set, or none."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("set", choices=SETS)
    arguments = parser.parse_args()
    folder, files = arguments.folder, SETS[arguments.set]
    in_the_way = list(existing(folder, files))
    if in_the_way:
        print(f"{in_the_way[0]} exists; golden files are never made again", file=sys.stderr)
        return 1
    folder.mkdir(parents=True, exist_ok=True)
    os.environ["SOURCE_DATE_EPOCH"] = DATE
    answers = {golden.name: make(folder, golden) for golden in files}
    for lock in folder.glob("*.lock"):
        lock.unlink()
    with (folder / ANSWERS).open("x") as file:
        json.dump(answers, file, indent=1, sort_keys=True)
        file.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
