"""Partitions of hashes -> the shards of a fuse payload, each constructed alone.

A shard has the keys of one partition or of several neighbours; with more shards than partitions, a
partition has the keys of several shards. They are loaded and constructed in one task, in memory of
its own, so nothing of the other shards is in memory.
"""

from __future__ import annotations

import math
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from mmbloom.engine import fuse_scratch_bytes, order_by_part
from mmbloom.errors import ConstructionError, MemoryBudgetError
from mmbloom.format.fields import HASH
from mmbloom.kinds.fuse_shards import construct_shard, first_of_shard, fuse_pieces
from mmbloom.kinds.partitions import NUM_PARTITIONS
from mmbloom.sizing import fuse as fuse_sizing
from mmbloom.storage.memory import map_memory

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from _typeshed import ReadableBuffer

    from mmbloom.format.fuse import FuseShape
    from mmbloom.kinds.fuse_shards import Shard
    from mmbloom.kinds.partitions import PartitionReader, Threads

# How far the largest of very many shards may lie above the mean. One set of 2^26 shards in 15 has
# a larger one.
_SIGMAS = 6.0


class _Lane(NamedTuple):
    """Memory in which one thread loads and constructs shards."""

    hashes: memoryview
    scratch: memoryview


class _Run(NamedTuple):
    """Shards that are constructed in one task, and the partitions that have their keys."""

    shards: range
    partitions: range


def lane_bytes(shape: FuseShape, num_keys: int, num_shards: int = 1) -> int:
    """Return the memory to construct *num_shards* shards: their keys, scratch, and two results."""
    scratch = fuse_scratch_bytes(shape.arity, shape.segment_slots, shape.num_segments)
    return HASH.size * num_keys + scratch + 2 * num_shards * shape.shard_bytes


def most_lane_bytes(fpr: float, layout: str) -> int:
    """Return the memory that one thread needs for the shards of any number of keys."""
    largest = _largest_by_chance(fuse_sizing.MOST_SHARD_KEYS)
    return lane_bytes(fuse_sizing.fuse_shape_for(largest, 1, fpr, layout), largest)


def in_memory_bytes(shape: FuseShape, num_keys: int) -> int:
    """Return the memory to build a filter of *num_keys* keys in one thread, without spilling."""
    lane = lane_bytes(shape, -(-num_keys // shape.num_shards)) if shape.num_shards else 0
    return HASH.size * num_keys + lane


class FuseShards:
    """The shards that the keys of a build fall into.

    Attributes:
        shape: of the payload, right for the largest shard.
    """

    def __init__(self, counts: Sequence[int], fpr: float, layout: str) -> None:
        """Divide partitions, each with one of *counts* distinct keys.

        Raises:
            ConstructionError: a shard has more keys than any can hold.
        """
        self._counts = counts
        num_shards = fuse_sizing.num_shards_for(sum(counts))
        self._runs = _runs(num_shards)
        self._most_keys = max(
            (sum(counts[i] for i in run.partitions) for run in self._runs), default=0
        )
        largest = self._most_keys
        if num_shards > NUM_PARTITIONS:  # the counts do not tell how many keys each shard has
            largest = _largest_by_chance(largest * NUM_PARTITIONS / num_shards)
        if largest > fuse_sizing.MAX_SHARD_KEYS:
            raise ConstructionError(largest, 0)
        self.shape = fuse_sizing.fuse_shape_for(largest, num_shards, fpr, layout)

    @property
    def lane_bytes(self) -> int:
        """Memory that one thread needs."""
        if not self._runs:
            return 0
        return lane_bytes(self.shape, self._most_keys, len(self._runs[0].shards))

    def pieces(
        self, shape: FuseShape, reader: PartitionReader, threads: Threads, memory_bytes: int
    ) -> Iterator[ReadableBuffer]:
        """Yield the bytes of the payload.

        Args:
            shape: the one here, or one with more segments.
            reader: of the partitions that were counted.
            threads: of these, as many are used as there is memory for.
            memory_bytes: what the build may use, the reader's memory included.

        Raises:
            ConstructionError: a shard cannot be built in this shape. One more segment may help.
            MemoryBudgetError: there is not enough memory for one thread.
        """
        if not self._runs:
            yield from fuse_pieces(shape, [])
            return
        free = memory_bytes - reader.used_bytes
        num_lanes = min(threads.jobs, len(self._runs), free // self.lane_bytes)
        if num_lanes < 1:
            needed = memory_bytes + self.lane_bytes - free
            raise MemoryBudgetError(memory_bytes, needed, "a shard must be constructed in memory")
        with threads.narrowed(num_lanes) as used:
            yield from fuse_pieces(shape, self._constructed(shape, reader, used))

    def _constructed(
        self, shape: FuseShape, reader: PartitionReader, threads: Threads
    ) -> Iterator[Shard]:
        scratch = fuse_scratch_bytes(shape.arity, shape.segment_slots, shape.num_segments)
        idle = [
            _Lane(
                memoryview(map_memory(HASH.size * self._most_keys)),
                memoryview(map_memory(scratch)),
            )
            for _ in range(threads.jobs)
        ]
        for shards in threads.do(
            partial(self._construct, shape, reader, idle, run) for run in self._runs
        ):
            yield from shards

    def _construct(
        self, shape: FuseShape, reader: PartitionReader, idle: list[_Lane], run: _Run
    ) -> list[Shard]:
        """Return the shards of a run."""
        with _borrowed(idle) as lane:
            at = 0
            for partition in reader.filled_among(run.partitions):
                with reader.counted(partition, self._counts[partition]) as hashes:
                    order_by_part(hashes, shape.num_parts, lane.hashes[at : at + len(hashes)])
                    at += len(hashes)
            return [
                construct_shard(shape, hashes, lane.scratch)
                for hashes in _divided(lane.hashes[:at], run.shards, shape.num_shards)
            ]


def _largest_by_chance(mean_keys: float) -> int:
    """Return how many keys the largest of very many shards may have."""
    return math.ceil(mean_keys + _SIGMAS * math.sqrt(mean_keys))


def _runs(num_shards: int) -> list[_Run]:
    """Return all shards, a power of two of them, in order."""
    if num_shards <= NUM_PARTITIONS:
        width = NUM_PARTITIONS // num_shards if num_shards else 0
        return [_Run(range(i, i + 1), range(i * width, (i + 1) * width)) for i in range(num_shards)]
    width = num_shards // NUM_PARTITIONS
    return [_Run(range(i * width, (i + 1) * width), range(i, i + 1)) for i in range(NUM_PARTITIONS)]


def _divided(hashes: memoryview, shards: range, num_shards: int) -> Iterator[memoryview]:
    """Yield the hashes of each of neighbouring *shards*, given those of all of them."""
    first = 0
    for shard in shards:
        end = first_of_shard(hashes, shard + 1, num_shards, first)
        yield hashes[HASH.size * first : HASH.size * end]
        first = end


@contextmanager
def _borrowed(idle: list[_Lane]) -> Iterator[_Lane]:
    lane = idle.pop()  # there are as many as threads
    try:
        yield lane
    finally:
        idle.append(lane)
