"""cold: look-ups in a file that is not in the page cache, one at a time and in a batch.

Every figure comes from a new process, after the file was removed from the cache. mincore confirms
that no page was left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import fresh, page_cache, sample_keys, sized
from .report import Row, Table, Target
from .timing import spread

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from pathlib import Path

    from .report import Cell

SUMMARY = "look-ups in a huge file that is not cached"
LAYOUTS = ("line", "page", "classic")
ADVICES = ("random", "normal")
SINGLE_KEYS = 200
NUM_DECOYS = 16
BATCH_FACTOR = 5.0

# The first look-up is not measured: it also loads the code of look-ups.
SNIPPET = """
import mmbloom
path, advice, way, keys_path = sys.argv[1:]
with open(keys_path) as file:
    first, *keys = file.read().split()
start = perf_counter_ns()
kept = mmbloom.open(path, advice=advice)
opened = (perf_counter_ns() - start) / 1e6
times, faults = [], []
if way == "single":
    first in kept
    for key in keys:
        before, start = major_faults(), perf_counter_ns()
        key in kept
        times.append((perf_counter_ns() - start) / 1e3)
        faults.append(major_faults() - before)
else:
    kept.contains_many([first])
    before, start = major_faults(), perf_counter_ns()
    kept.contains_many(keys)
    times.append((perf_counter_ns() - start) / 1e3 / len(keys))
    faults.append((major_faults() - before) / len(keys))
print(json.dumps({"us": times, "faults": faults, "open": opened}))
kept.close()
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that only this command has."""
    parser.add_argument("--megabytes", type=int, help="of the payload; default: 6000, --quick 60")
    parser.add_argument("--batch", type=int, default=20_000, help="keys; default: %(default)s")
    parser.add_argument("--layouts", default=",".join(LAYOUTS), help="default: %(default)s")


def run(options: argparse.Namespace) -> list[Table]:
    """Return one table, with a row per layout and advice. One file at a time: each has 6 GB."""
    payload_bytes = 1_000_000 * (options.megabytes or (60 if options.quick else 6000))
    # The first keys of a file are its canaries: opening looks them up, so they are not cold.
    decoys = sample_keys.urls(2_000_000, NUM_DECOYS)
    single_hits = sample_keys.urls(0, SINGLE_KEYS + 1)
    batch_hits = sample_keys.urls(1_000_000, options.batch + 1)
    single_misses = sample_keys.urls(sample_keys.ABSENT, SINGLE_KEYS + 1)
    rows, targets = [], []
    for layout in options.layouts.split(","):
        path = options.folder / f"{layout}.mmb"
        sized.full(path, payload_bytes, layout, [*decoys, *single_hits, *batch_hits])
        for advice in ADVICES:
            single = _ask(path, advice, "single", single_hits)
            missing = _ask(path, advice, "single", single_misses)
            batch = _ask(path, advice, "batch", batch_hits)
            cells: dict[str, Cell] = {
                "open ms": spread([single["open"], missing["open"], batch["open"]]),
                "hit us": spread(single["us"]),
                "hit faults": sum(single["faults"]) / SINGLE_KEYS,
                "miss us": spread(missing["us"]),
                "miss faults": sum(missing["faults"]) / SINGLE_KEYS,
                "batch us/key": batch["us"][0],
                "batch faults/key": batch["faults"][0],
                "pages left": float(max(single["left"], missing["left"], batch["left"])),
            }
            rows.append(Row(f"mmbloom {layout}, advice {advice}", ours=True, cells=cells))
            if advice == "random" and layout != "classic":
                targets += _targets(layout, single, batch)
        path.unlink()
    note = (
        f"Single look-ups: median of {SINGLE_KEYS} keys (quartiles), major page faults per key."
        f" Batch: one contains_many of a list of {options.batch:,} keys that were added. pages"
        " left: pages of the file in the page cache when the process started, by mincore."
    )
    title = f"Cold look-ups, {payload_bytes / 1e6:.0f} MB payload"
    return [Table(title, note, list(rows[0].cells), [], rows, targets)]


def _ask(path: Path, advice: str, way: str, keys: Sequence[str]) -> dict[str, Any]:
    keys_path = path.with_suffix(".keys")
    keys_path.write_text("\n".join(keys), encoding="ascii")
    left = page_cache.drop(path)
    return {**fresh.ask(SNIPPET, str(path), advice, way, str(keys_path)), "left": left}


def _targets(layout: str, single: dict[str, Any], batch: dict[str, Any]) -> list[Target]:
    exactly_one = sum(count == 1 for count in single["faults"])
    factor = spread(single["us"]).median / batch["us"][0]
    return [
        Target(
            f"{layout}, advice random: exactly one major fault per look-up",
            f"{exactly_one} of {len(single['faults'])} look-ups",
            exactly_one == len(single["faults"]),
        ),
        Target(
            f"{layout}, advice random: a key in a batch at least {BATCH_FACTOR:.0f}x faster",
            f"{factor:.1f}x",
            factor >= BATCH_FACTOR,
        ),
    ]
