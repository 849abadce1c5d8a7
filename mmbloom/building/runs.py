"""Runs: partitions of hashes in the spill file, as they were in memory when it was full.

A run holds all partitions one behind the other. Each partition is cut into slices with a checksum
each, so that a disk that lies is found out before it makes a filter lie.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, NamedTuple

from mmbloom.engine import checksum64
from mmbloom.errors import SpillError
from mmbloom.format.fields import HASH

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mmbloom.storage.spill import SpillFile

SLICE_HASHES = 1 << 16
SLICE_BYTES = SLICE_HASHES * HASH.size


class Run(NamedTuple):
    """One run: where it begins, how many hashes each partition has, a checksum for each slice."""

    start: int
    counts: array[int]
    checksums: array[int]

    @classmethod
    def of_counts(cls, start: int, counts: array[int]) -> Run:
        """Return a run that is to be written at *start*."""
        return cls(start, counts, array("Q", bytes(8 * sum(map(_num_slices, counts)))))

    def starts(self) -> tuple[list[int], list[int]]:
        """Return where each partition begins in the file, and the number of its first slice."""
        offsets, slices = [self.start], [0]
        for count in self.counts:
            offsets.append(offsets[-1] + count * HASH.size)
            slices.append(slices[-1] + _num_slices(count))
        return offsets, slices


class RunReader:
    """Reads the partitions of runs; threads may share it."""

    def __init__(self, spill: SpillFile, runs: list[Run]) -> None:
        self._spill = spill
        self._runs = [(run, *run.starts()) for run in runs]

    def count(self, partition: int) -> int:
        """Return how many hashes all runs have of a partition."""
        return sum(run.counts[partition] for run, _, _ in self._runs)

    def slices(self, partition: int) -> Iterator[Slice]:
        """Yield the slices of a partition, in the order in which they were written."""
        for run, offsets, firsts in self._runs:
            left, offset = run.counts[partition], offsets[partition]
            for number in range(firsts[partition], firsts[partition + 1]):
                count = min(left, SLICE_HASHES)
                yield Slice(self._spill, offset, count, run.checksums[number])
                left, offset = left - count, offset + count * HASH.size


class Slice(NamedTuple):
    """Some hashes in the spill file."""

    spill: SpillFile
    offset: int
    num_hashes: int
    checksum: int

    def read(self, out: memoryview) -> None:
        """Read the slice to the front of *out*. Raises: SpillError if it is damaged."""
        view = out[: self.num_hashes * HASH.size]
        self.spill.read(self.offset, view)
        if checksum64(view) != self.checksum:
            reason = f"the {len(view)} bytes at offset {self.offset} do not match their checksum"
            raise SpillError(self.spill.where, reason)


def write_partitions(  # noqa: PLR0913, PLR0917 - a stretch of a run has these parts
    spill: SpillFile, run: Run, offset: int, first_slice: int, data: memoryview, counts: array[int]
) -> None:
    """Write neighbouring partitions of *run*, which lie one behind the other in *data*."""
    at, number = 0, first_slice
    for count in counts:
        for done in range(0, count, SLICE_HASHES):
            num_bytes = min(SLICE_HASHES, count - done) * HASH.size
            run.checksums[number] = checksum64(data[at : at + num_bytes])
            at, number = at + num_bytes, number + 1
    spill.write(offset, data[:at])


def _num_slices(count: int) -> int:
    return -(-count // SLICE_HASHES)
