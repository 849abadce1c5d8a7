"""fuse-sizes: the size of fuse filters as built, for a million and a hundred million keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import mmbloom
from mmbloom.keys.batches import pieces_of

from . import fuse_peers, sample_keys
from .report import Row, Table, Target, figure

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from mmbloom.keys.pieces import Piece

    from .report import Cell

# At 8 bits, for a million keys or more; smaller sets take more.
BITS_BOUND = {"fuse3": 9.1, "fuse4": 8.75}
FEWEST_FOR_BITS = 1_000_000
MOST_FOR_PEERS = 2_000_000
BLOCK_KEYS = 1 << 18
ABSENT_KEYS = 1_000_000
SUMMARY = "bits per key and measured rate of fuse filters, Bloom filters and peers"
SIZES, QUICK_SIZES = (10**6, 10**8), (10**5,)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that only this command has."""
    parser.add_argument("--keys", type=int, nargs="+", help="sizes; default: 1e6 and 1e8")
    parser.add_argument("--jobs", type=int, default=1, help="threads of a build; %(default)s")


def run(options: argparse.Namespace) -> list[Table]:
    """Build fuse filters of every size, and compare them with other filters."""
    sizes = options.keys or (QUICK_SIZES if options.quick else SIZES)
    return [_table(options.folder, sizes, options.jobs)]


class CountedKeys:
    """The first *count* keys of 16 random bytes, made block by block while a build reads them."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __key_pieces__(self) -> Iterator[Piece]:
        """Yield the keys as pieces, as lists of keys do."""
        for first in range(0, self.count, BLOCK_KEYS):
            block = sample_keys.random_16_bytes(first, min(BLOCK_KEYS, self.count - first))
            yield from pieces_of(block)


class Wanted(NamedTuple):
    """A column: *num_keys* keys at the rate 2^-width."""

    num_keys: int
    width: int

    @property
    def name(self) -> str:
        """The heading of the column."""
        return f"{self.num_keys:.0e} keys, {self.width} bits".replace("e+0", "e")


def _table(folder: Path, sizes: Sequence[int], jobs: int) -> Table:
    wanted = [Wanted(size, 8) for size in sizes] + [Wanted(sizes[0], 16)]
    rows = [_ours(layout, wanted, folder, jobs) for layout in BITS_BOUND]
    rows += [_bloom(layout, wanted) for layout in ("line", "classic")]
    if fuse_peers.is_installed("pyfusefilter"):
        rows.append(_py_fuse(wanted))
    if fuse_peers.is_installed("binary_fuse"):
        rows.append(_binary_fuse(wanted))
    columns = [f"{which}{each.name}" for which in ("bits/key at ", "fpr at ") for each in wanted]
    note = (
        f"Bits per key of the whole payload. fpr: measured with {ABSENT_KEYS:,} absent keys. Bloom:"
        " as planned for the same rate. pyfusefilter: its fingerprints; filled, and its rate"
        f" measured, up to {MOST_FOR_PEERS:,} keys. binaryfuse: the size that it reports."
    )
    targets = _targets(rows[: len(BITS_BOUND)], wanted)
    less = [column for column in columns if column.startswith("bits")]
    return Table("Size of static filters", note, columns, less, rows, targets)


def _ours(layout: str, wanted: Sequence[Wanted], folder: Path, jobs: int) -> Row:
    cells: dict[str, Cell] = {}
    for each in wanted:
        path = folder / "sizes.mmb"
        asked: dict[str, Any] = {"kind": "fuse", "layout": layout, "fpr": 2.0**-each.width}
        absent = sample_keys.random_16_bytes(sample_keys.ABSENT, ABSENT_KEYS)
        present = sample_keys.random_16_bytes(0, min(each.num_keys, ABSENT_KEYS))
        with mmbloom.build(path, CountedKeys(each.num_keys), jobs=jobs, **asked) as built:
            if built.keys_added != each.num_keys or not np.all(built.contains_many(present)):
                raise AssertionError(f"{layout}: a key of {each.num_keys} is lost")
            cells[f"bits/key at {each.name}"] = built.num_bits / each.num_keys
            cells[f"fpr at {each.name}"] = float(np.mean(built.contains_many(absent)))
        path.unlink()
    return Row(f"mmbloom {layout}", ours=True, cells=cells)


def _bloom(layout: str, wanted: Sequence[Wanted]) -> Row:
    cells: dict[str, Cell] = {
        f"bits/key at {each.name}": mmbloom.plan(each.num_keys, 2.0**-each.width, layout).num_bits
        / each.num_keys
        for each in wanted
    }
    return Row(f"Bloom, {layout}", ours=False, cells=cells)  # the comparison for fuse filters


def _py_fuse(wanted: Sequence[Wanted]) -> Row:
    cells: dict[str, Cell] = {}
    for each in wanted:
        peer = fuse_peers.CFuse(each.num_keys, each.width)
        cells[f"bits/key at {each.name}"] = peer.num_bits / each.num_keys
        if each.num_keys <= MOST_FOR_PEERS:
            peer.populate(sample_keys.mixed(0, each.num_keys))
            out = np.zeros(ABSENT_KEYS, dtype=np.uint8)
            peer.contains_many(sample_keys.mixed(sample_keys.ABSENT, ABSENT_KEYS), out)
            cells[f"fpr at {each.name}"] = float(np.mean(out))
        peer.close()
    return Row("pyfusefilter", ours=False, cells=cells)


def _binary_fuse(wanted: Sequence[Wanted]) -> Row:
    cells: dict[str, Cell] = {}
    for each in wanted:
        if each.width == 8 and each.num_keys <= MOST_FOR_PEERS:  # noqa: PLR2004 -- BinaryFuse8
            peer = fuse_peers.binary_fuse8(sample_keys.mixed(0, each.num_keys).tolist())
            cells[f"bits/key at {each.name}"] = 8 * peer.memory_usage_bytes() / each.num_keys
    return Row("binaryfuse", ours=False, cells=cells)


def _targets(rows: Sequence[Row], wanted: Sequence[Wanted]) -> list[Target]:
    found = []
    for row, (layout, bound) in zip(rows, BITS_BOUND.items(), strict=True):
        for each in wanted:
            if each.num_keys >= FEWEST_FOR_BITS and each.width == 8:  # noqa: PLR2004 -- the bound's
                taken = figure(row.cells[f"bits/key at {each.name}"]) or 0.0
                promise = f"{layout}, {each.name}: at most {bound} bits per key"
                found.append(Target(promise, f"{taken:.3f}", taken <= bound))
    return found
