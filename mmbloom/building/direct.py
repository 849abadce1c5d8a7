"""The direct path: a payload in memory whose size is known, filled as the keys come.

Partitions that have filled up in memory are drained into it one after the other: each falls into a
stretch of the payload that a cache holds. Nothing is sorted, so repetitions are not counted: how
many keys there are is estimated from the bits.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from mmbloom.building.hashes import NUM_PARTITIONS
from mmbloom.engine import add_part
from mmbloom.format.fields import HASH
from mmbloom.storage.memory import map_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from mmbloom.building.thread_pool import Crew
    from mmbloom.engine import Partitions
    from mmbloom.format.header import Header

DIRECT_KEYS = 1 << 23  # up to so many, sorting takes less than a second, and the count is exact
_GROUP_PARTITIONS = 16
_LEAST_BLOCKS_A_GROUP = 2
_TAKEN_BYTES = 1 << 20
_PIECE_BYTES = 8 << 20
_CANARY_PARTITIONS = range(0, NUM_PARTITIONS, NUM_PARTITIONS // 8)


def direct_memory_bytes(jobs: int) -> int:
    """Return the memory for partitions, beside the payload: it holds DIRECT_KEYS in any case."""
    return (256 + 16 * jobs) << 20


class DirectPayload:
    """The payload of *header* in memory, filled from partitions."""

    def __init__(self, header: Header, crew: Crew) -> None:
        """Take memory for the payload, untouched yet."""
        self._header, self._crew = header, crew
        self._payload = memoryview(map_memory(header.payload_bytes))
        self._least: dict[int, tuple[int, int]] = {}

    def drain(self, partitions: Partitions, tell: Callable[[int, int], object]) -> None:
        """Add all hashes of *partitions*, and clear them. No lane may be filled meanwhile.

        *tell* is called with (partitions done, partitions in all).
        """
        done = 0
        for tasks in self._rounds(partitions):
            for drained in self._crew.do(tasks):
                done += drained
                tell(min(done, NUM_PARTITIONS), NUM_PARTITIONS)
        partitions.clear()

    def canaries(self) -> tuple[tuple[int, int], ...]:
        """Return the least hash of each eighth of the hashes' range that begins with one."""
        return tuple(self._least[partition] for partition in sorted(self._least))

    def pieces(self) -> Iterator[memoryview]:
        """Yield the payload."""
        for start in range(0, len(self._payload), _PIECE_BYTES):
            yield self._payload[start : start + _PIECE_BYTES]

    def _rounds(self, partitions: Partitions) -> Iterator[Sequence[Callable[[], int]]]:
        """Yield tasks that may run beside each other: no two of a round share a byte."""
        header = self._header
        groups = [
            range(first, first + _GROUP_PARTITIONS)
            for first in range(0, NUM_PARTITIONS, _GROUP_PARTITIONS)
        ]
        if header.block_bytes == 0:  # any key anywhere: each thread has its own bytes of all
            yield from self._classic_rounds(partitions, groups)
        elif len(self._payload) < _LEAST_BLOCKS_A_GROUP * len(groups) * header.block_bytes:
            yield from ([partial(self._drain, partitions, group)] for group in groups)
        else:  # neighbours share the block between them
            for parity in (0, 1):
                yield [partial(self._drain, partitions, group) for group in groups[parity::2]]

    def _drain(self, partitions: Partitions, group: range) -> int:
        buffer = memoryview(bytearray(_TAKEN_BYTES))
        for partition in group:
            while taken := partitions.take(partition, buffer):
                self._add(partition, 0, self._payload, buffer[: taken * HASH.size])
        return len(group)

    def _classic_rounds(
        self, partitions: Partitions, groups: list[range]
    ) -> Iterator[Sequence[Callable[[], int]]]:
        share = -(-len(self._payload) // self._crew.jobs // 64) * 64
        buffer = memoryview(bytearray(_TAKEN_BYTES))
        for partition in (partition for group in groups for partition in group):
            while taken := partitions.take(partition, buffer):
                hashes = buffer[: taken * HASH.size]
                yield [
                    partial(self._add, partition, at, self._payload[at : at + share], hashes)
                    for at in range(0, len(self._payload), share)
                ]

    def _add(self, partition: int, first: int, target: memoryview, hashes: memoryview) -> int:
        header = self._header
        add_part(target, first, header.layout, header.num_bits, header.num_probes, hashes)
        if partition in _CANARY_PARTITIONS and not first:
            least = min(HASH.iter_unpack(bytes(hashes)))  # a view in a cycle crashes CPython 3.11
            self._least[partition] = min(least, self._least.get(partition, least))
        return 0
