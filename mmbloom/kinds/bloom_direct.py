"""A Bloom payload in memory whose size is known, filled while the keys are read.

Partitions that are full are drained into it one after the other: each falls into a part of the
payload that fits in a cache. Nothing is sorted, so repeated keys are not detected, and the number
of keys is estimated from the bits.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from mmbloom.engine import add_part
from mmbloom.format.fields import HASH
from mmbloom.kinds.partitions import NUM_PARTITIONS
from mmbloom.storage.memory import map_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from mmbloom.engine import Partitions
    from mmbloom.format.header import Header
    from mmbloom.kinds.partitions import Threads

_RUN_PARTITIONS = 16
_LEAST_BLOCKS_PER_RUN = 2
_TAKEN_BYTES = 1 << 20
_PIECE_BYTES = 8 << 20
_CACHE_LINE_BYTES = 64
_CANARY_PARTITIONS = range(0, NUM_PARTITIONS, NUM_PARTITIONS // 8)


class DirectPayload:
    """The payload of *header* in memory, filled from partitions."""

    def __init__(self, header: Header, threads: Threads) -> None:
        """Reserve memory for the payload. It is not touched yet."""
        self._header, self._threads = header, threads
        self._payload = memoryview(map_memory(header.payload_bytes))
        self._least: dict[int, tuple[int, int]] = {}

    def drain(self, partitions: Partitions, tell: Callable[[int, int], object]) -> None:
        """Add all hashes of *partitions*, and clear them. No other thread may add to them.

        *tell* is called with (partitions done, partitions in all).
        """
        done = 0
        for tasks in self._rounds(partitions):
            for drained in self._threads.do(tasks):
                done += drained
                tell(min(done, NUM_PARTITIONS), NUM_PARTITIONS)
        partitions.clear()

    def canaries(self) -> tuple[tuple[int, int], ...]:
        """Return the least hash of the first partition of each eighth, where it has one."""
        return tuple(self._least[partition] for partition in sorted(self._least))

    def pieces(self) -> Iterator[memoryview]:
        """Yield the payload."""
        for start in range(0, len(self._payload), _PIECE_BYTES):
            yield self._payload[start : start + _PIECE_BYTES]

    def _rounds(self, partitions: Partitions) -> Iterator[Sequence[Callable[[], int]]]:
        """Yield tasks that may run at the same time: no two of a round share a byte."""
        block_bytes = self._header.block_bytes
        runs = [
            range(first, first + _RUN_PARTITIONS)
            for first in range(0, NUM_PARTITIONS, _RUN_PARTITIONS)
        ]
        if block_bytes == 0:  # a key may fall anywhere: each thread has bytes of its own
            yield from self._classic_rounds(partitions)
        elif len(self._payload) < _LEAST_BLOCKS_PER_RUN * len(runs) * block_bytes:
            yield from ([partial(self._drain, partitions, run)] for run in runs)
        else:  # neighbouring runs share the block between them
            for parity in (0, 1):
                yield [partial(self._drain, partitions, run) for run in runs[parity::2]]

    def _drain(self, partitions: Partitions, run: range) -> int:
        buffer = memoryview(bytearray(_TAKEN_BYTES))
        for partition in run:
            while taken := partitions.take(partition, buffer):
                self._add(partition, 0, self._payload, buffer[: taken * HASH.size])
        return len(run)

    def _classic_rounds(self, partitions: Partitions) -> Iterator[Sequence[Callable[[], int]]]:
        num_lines = -(-len(self._payload) // self._threads.jobs // _CACHE_LINE_BYTES)
        step = num_lines * _CACHE_LINE_BYTES
        buffer = memoryview(bytearray(_TAKEN_BYTES))
        for partition in range(NUM_PARTITIONS):
            while taken := partitions.take(partition, buffer):
                hashes = buffer[: taken * HASH.size]
                yield [
                    partial(self._add, partition, at, self._payload[at : at + step], hashes)
                    for at in range(0, len(self._payload), step)
                ]

    def _add(self, partition: int, first: int, target: memoryview, hashes: memoryview) -> int:
        header = self._header
        add_part(target, first, header.layout, header.num_bits, header.num_probes, hashes)
        if partition in _CANARY_PARTITIONS and not first:
            least = min(HASH.iter_unpack(bytes(hashes)))  # a view in a cycle crashes CPython 3.11
            self._least[partition] = min(least, self._least.get(partition, least))
        return 0
