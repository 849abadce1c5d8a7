"""Runs: partitions of hashes in the spill file, as they were in memory when it was full.

A run holds all partitions one after the other. Each partition is divided into pieces with a
checksum each, so that a disk that returns wrong data cannot lead to a wrong filter.
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

PIECE_HASHES = 1 << 16
PIECE_BYTES = PIECE_HASHES * HASH.size


class Run(NamedTuple):
    """One run: where it begins, the number of hashes of each partition, a checksum per piece."""

    start: int
    counts: array[int]
    checksums: array[int]

    @classmethod
    def of_counts(cls, start: int, counts: array[int]) -> Run:
        """Return a run that will be written at *start*."""
        return cls(start, counts, array("Q", bytes(8 * sum(map(_num_pieces, counts)))))

    def starts(self) -> tuple[list[int], list[int]]:
        """Return where each partition begins in the file, and the number of its first piece."""
        offsets, pieces = [self.start], [0]
        for count in self.counts:
            offsets.append(offsets[-1] + count * HASH.size)
            pieces.append(pieces[-1] + _num_pieces(count))
        return offsets, pieces

    def write(
        self, spill: SpillFile, offset: int, first_piece: int, data: memoryview, counts: array[int]
    ) -> None:
        """Write neighbouring partitions of the run, one after the other in *data*."""
        at, number = 0, first_piece
        for count in counts:
            for done in range(0, count, PIECE_HASHES):
                num_bytes = min(PIECE_HASHES, count - done) * HASH.size
                self.checksums[number] = checksum64(data[at : at + num_bytes])
                at, number = at + num_bytes, number + 1
        spill.write(offset, data[:at])


class RunReader:
    """Reads the partitions of runs. Threads may share it."""

    def __init__(self, spill: SpillFile, runs: list[Run]) -> None:
        self._spill = spill
        self._runs = [(run, *run.starts()) for run in runs]

    def count(self, partition: int) -> int:
        """Return how many hashes of a partition there are in all runs."""
        return sum(run.counts[partition] for run, _, _ in self._runs)

    def pieces(self, partition: int) -> Iterator[SpilledPiece]:
        """Yield the pieces of a partition, in the order in which they were written."""
        for run, offsets, firsts in self._runs:
            left, offset = run.counts[partition], offsets[partition]
            for number in range(firsts[partition], firsts[partition + 1]):
                count = min(left, PIECE_HASHES)
                yield SpilledPiece(self._spill, offset, count, run.checksums[number])
                left, offset = left - count, offset + count * HASH.size


class SpilledPiece(NamedTuple):
    """Some hashes in the spill file."""

    spill: SpillFile
    offset: int
    num_hashes: int
    checksum: int

    def read(self, out: memoryview) -> None:
        """Read the piece to the start of *out*. Raises: SpillError if it is damaged."""
        view = out[: self.num_hashes * HASH.size]
        self.spill.read(self.offset, view)
        if checksum64(view) != self.checksum:
            reason = f"the {len(view)} bytes at offset {self.offset} do not match their checksum"
            raise SpillError(self.spill.where, reason)


def _num_pieces(count: int) -> int:
    return -(-count // PIECE_HASHES)
