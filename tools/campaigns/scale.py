"""Build one filter of a given size in little memory, and project the cost of a larger one.

    python tools/campaigns scale --folder /a/real/disk     # 8 GB of payload under --memory 1G
    python tools/campaigns scale --folder /a/real/disk --scale 0.01

The keys have 16 bytes. They are made from a counter in NumPy blocks while the build reads them; no
list is read or held. Their number follows from the size and the rate. Unless --tell gives that
number to the build, it keeps 16 bytes per key on the disk meanwhile. This process only builds until
its peak memory is read. Then the file is verified and keys are looked up in it.
"""

from __future__ import annotations

import argparse
import re
import resource
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import mmbloom
from bench.report import Row, Table, Target, markdown, raw
from evidence import record
from evidence.card import machine_card
from make.make_list import drawn
from mmbloom.keys.batches import pieces_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from mmbloom.keys.pieces import Piece

BLOCK_KEYS = 1 << 18
HASH_BYTES = 16
SAMPLE_KEYS = 1_000_000
PROJECTED_KEYS = 10**10
MIB, UNITS = 1 << 20, {"M": 1 << 20, "G": 1 << 30}
# Python, NumPy, a few blocks of keys and the code, in addition to what --memory bounds.
PYTHON_BYTES = 96 * MIB


def keys_by_count(first: int, count: int) -> NDArray[np.uint8]:
    """Return keys from number *first* on: uint8[count, 16], distinct, without a pattern."""
    numbers = np.arange(first, first + count, dtype=np.uint64)
    halves = [drawn(numbers, 0, purpose) for purpose in ("left half", "right half")]
    return np.stack(halves, axis=1).view(np.uint8)


class CountedKeys:
    """The first *count* keys, made block by block while a build reads them."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.making_seconds = 0.0

    def __key_pieces__(self) -> Iterator[Piece]:
        """Yield the keys as pieces, as lists of keys do."""
        for first in range(0, self.count, BLOCK_KEYS):
            start = time.perf_counter()
            block = keys_by_count(first, min(BLOCK_KEYS, self.count - first))
            self.making_seconds += time.perf_counter() - start
            yield from pieces_of(block)


class Figures(NamedTuple):
    """What the build cost. *written_bytes*: what the kernel wrote to disk for this process."""

    report: mmbloom.BuildReport
    making_seconds: float
    written_bytes: int
    peak_bytes: int


def build(path: Path, num_keys: int, options: argparse.Namespace) -> Figures:
    """Build the filter and measure."""
    asked: dict[str, Any] = {"fpr": options.fpr, "layout": options.layout}
    if options.memory:
        asked |= {"memory": bytes_of(options.memory), "spill_folder": path.parent}
    if options.jobs:
        asked["jobs"] = options.jobs
    if options.tell:
        asked["capacity"] = num_keys
    keys = CountedKeys(num_keys)
    before = _written_bytes()
    with mmbloom.build(path, keys, **asked) as built:
        report = built.report
    peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return Figures(report, keys.making_seconds, _written_bytes() - before, peak_bytes)


def check(path: Path, num_keys: int) -> dict[str, float]:
    """Verify the file; look up keys that were added and keys that were not."""
    sample = min(SAMPLE_KEYS, num_keys)
    with mmbloom.open(path) as built:
        start = time.perf_counter()
        built.verify()
        seconds = time.perf_counter() - start
        first = built.contains_many(keys_by_count(0, sample))
        last = built.contains_many(keys_by_count(num_keys - sample, sample))
        absent = built.contains_many(keys_by_count(num_keys, SAMPLE_KEYS))
        return {
            "verify seconds": seconds,
            "keys lost": float((~first).sum() + (~last).sum()),
            "keys miscounted": float(abs(built.keys_added - num_keys)),
            "measured fpr": float(absent.mean()),
        }


def num_keys_for(payload_bytes: float, fpr: float, layout: str) -> int:
    """Return the number of keys that fill this payload at this rate."""
    sample = 10_000_000  # bits per key hardly vary from here on
    return max(1, int(payload_bytes * 8 * sample / mmbloom.plan(sample, fpr, layout).num_bits))


def bytes_of(size: str) -> int:
    """Read a size such as 512M or 1G.

    Raises:
        SystemExit: *size* is not a size.
    """
    found = re.fullmatch(r"(\d+)([MG])", size.upper())
    if found is None:
        raise SystemExit(f"--memory: expected a size such as 512M or 1G, found {size}")
    return int(found[1]) * UNITS[found[2]]


def _written_bytes() -> int:
    text = Path("/proc/self/io").read_text(encoding="ascii")
    counts = dict(line.split(": ") for line in text.splitlines())
    return int(counts["write_bytes"])


def _refuse_full_disk(folder: Path, num_keys: int, options: argparse.Namespace) -> None:
    """End now, not after an hour, if the disk cannot hold hashes and file."""
    needed = options.payload * options.scale + (0 if options.tell else HASH_BYTES * num_keys)
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise SystemExit(
            f"{num_keys:,} keys need about {needed / 1e9:.0f} GB of disk while building; "
            f"{free / 1e9:.0f} GB are free. Pass another --folder, a smaller --scale, a smaller "
            "--fpr (fewer keys for the same size), or --tell"
        )


def _row(label: str, figures: Figures, times: float) -> Row:
    report = figures.report
    cells: dict[str, Any] = {
        "M keys": report.keys_read * times / 1e6,
        "file GB": report.file_bytes * times / 1e9,
        "seconds": sum(report.seconds.values()) * times,
        **{phase: spent * times for phase, spent in report.seconds.items()},
        "making keys": figures.making_seconds * times,
        "spilled GB": report.spilled_bytes * times / 1e9,
        "written GB": figures.written_bytes * times / 1e9,
        "peak MiB": figures.peak_bytes / MIB,
    }
    return Row(label, ours=True, cells=cells)


def _table(figures: Figures, checked: dict[str, float], options: argparse.Namespace) -> Table:
    report = figures.report
    measured = _row("measured", figures, 1.0)
    measured = measured._replace(cells={**measured.cells, **checked})
    projected = _row(f"{PROJECTED_KEYS:.0e} keys", figures, PROJECTED_KEYS / report.keys_read)
    cost = sum(report.seconds.values()) / report.keys_read * 1e9
    note = (
        f"{report.keys_read:,} keys of 16 bytes at {options.fpr:g}, --memory"
        f" {options.memory or 'not given'}{', --tell' if options.tell else ''},"
        f" {cost:.1f} ns per key. Seconds by phase; making keys is part of that which reads them."
        " written: what the kernel wrote to disk for this process, file and spilled keys. The"
        " second row is the first one multiplied, not a measurement. It holds while phases cost"
        " the same per key, and the peak while the same --memory is enough."
    )
    lost = checked["keys lost"]
    targets = [Target("every key that was looked up is found", f"{lost:.0f} lost", lost == 0)]
    if report.is_exact:
        off = checked["keys miscounted"]
        targets.append(Target("the count is exact", f"off by {off:.0f}", off == 0))
    if options.memory:
        bound = (bytes_of(options.memory) + PYTHON_BYTES) // MIB
        promise = f"--memory and {PYTHON_BYTES // MIB} MiB for Python: at most {bound} MiB"
        peak = figures.peak_bytes // MIB
        targets.append(Target(promise, f"{peak} MiB", peak <= bound))
    rows = [measured, projected]
    return Table("Scale of an offline build", note, list(measured.cells), [], rows, targets)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--payload", type=float, default=8e9, help="bytes; default: 8e9")
    parser.add_argument("--scale", type=float, default=1.0, help="of --payload; default: 1")
    parser.add_argument("--fpr", type=float, default=1e-6, help="default: %(default)s")
    parser.add_argument("--layout", default="auto", help="default: %(default)s")
    parser.add_argument("--memory", default="1G", help="'' leaves it to the build; %(default)s")
    parser.add_argument("--jobs", type=int, help="default: as the build chooses")
    parser.add_argument("--tell", action="store_true", help="give the number of keys as capacity")
    parser.add_argument("--folder", type=Path, help="where to build, on a real disk")
    record.add_options(parser, "scale")
    return parser.parse_args()


def main() -> int:
    """Build, check, report; return 1 if a target was missed."""
    options = _options()
    card = machine_card()
    num_keys = num_keys_for(options.payload * options.scale, options.fpr, options.layout)
    with tempfile.TemporaryDirectory(prefix="scale-", dir=options.folder) as folder:
        _refuse_full_disk(Path(folder), num_keys, options)
        path = Path(folder) / "scale.mmb"
        figures = build(path, num_keys, options)
        table = _table(figures, check(path, num_keys), options)
    print(markdown(table))
    command = "python tools/campaigns scale"
    record.write(options.json, record.text_of(command, sys.argv[1:], card, raw([table])))
    return 0 if all(target.met for target in table.targets) else 1


if __name__ == "__main__":
    sys.exit(main())
