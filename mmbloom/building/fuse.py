"""Partitions of hashes -> the shards of a fuse payload, each constructed alone.

A shard is a run of neighbouring partitions; with more shards than partitions, a part of one. It is
loaded and constructed in one task, in memory of its own, and nothing is held of the others.
"""

from __future__ import annotations

import math
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from mmbloom.building.hashes import NUM_PARTITIONS
from mmbloom.building.thread_pool import Crew
from mmbloom.engine import fuse_scratch_bytes, order_by_part
from mmbloom.errors import ConstructionError, MemoryBudgetError
from mmbloom.filters.fuse_payload import construct_shard, first_of_shard, fuse_pieces
from mmbloom.format.fields import HASH
from mmbloom.sizing import fuse as fuse_sizing
from mmbloom.storage.memory import map_memory

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from _typeshed import ReadableBuffer

    from mmbloom.building.loading import Loader
    from mmbloom.filters.fuse_payload import Shard
    from mmbloom.format.fuse import FuseShape

# Of the largest of very many shards, above the mean: one set of 2^26 shards in 15 has a larger one.
_SIGMAS = 6.0


class _Lane(NamedTuple):
    """Memory that one thread loads and constructs shards in."""

    hashes: memoryview
    scratch: memoryview


class _Run(NamedTuple):
    """Shards that are constructed in one task, and the partitions that they lie in."""

    shards: range
    partitions: range


def most_lane_bytes(fpr: float, layout: str) -> int:
    """Return the memory that one thread needs for the shards of any number of keys."""
    keys = fuse_sizing.MOST_SHARD_KEYS
    largest = math.ceil(keys + _SIGMAS * math.sqrt(keys))
    return _lane_bytes(fuse_sizing.fuse_shape_for(largest, 1, fpr, layout), largest)


def in_memory_bytes(shape: FuseShape, num_keys: int) -> int:
    """Return the memory to build a filter of so many keys in one thread, without a spill file."""
    lane = _lane_bytes(shape, -(-num_keys // shape.num_shards)) if shape.num_shards else 0
    return HASH.size * num_keys + lane


def _lane_bytes(shape: FuseShape, num_keys: int, num_shards: int = 1) -> int:
    """Return the memory for so many keys in so many shards: they, scratch, and two results."""
    scratch = fuse_scratch_bytes(shape.arity, shape.segment_slots, shape.num_segments)
    return HASH.size * num_keys + scratch + 2 * num_shards * shape.shard_bytes


class FuseShards:
    """The shards that the keys of a build fall into.

    Attributes:
        shape: of the payload, right for the largest shard.
    """

    def __init__(self, counts: Sequence[int], fpr: float, layout: str) -> None:
        """Divide partitions of so many distinct keys.

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
        if num_shards > NUM_PARTITIONS:  # how many each has is not known, but by chance
            mean = largest * NUM_PARTITIONS / num_shards
            largest = math.ceil(mean + _SIGMAS * math.sqrt(mean))
        if largest > fuse_sizing.MAX_SHARD_KEYS:
            raise ConstructionError(largest, 0)
        self.shape = fuse_sizing.fuse_shape_for(largest, num_shards, fpr, layout)

    @property
    def lane_bytes(self) -> int:
        """Memory that one thread needs."""
        if not self._runs:
            return 0
        return _lane_bytes(self.shape, self._most_keys, len(self._runs[0].shards))

    def pieces(
        self, shape: FuseShape, loader: Loader, jobs: int, memory_bytes: int
    ) -> Iterator[ReadableBuffer]:
        """Yield the bytes of the payload.

        Args:
            shape: the one here, or one with more segments.
            loader: the partitions that were counted.
            jobs: threads, as far as there is memory for them.
            memory_bytes: what the build may use, the loader included.

        Raises:
            ConstructionError: a shard cannot be built in this shape: a segment more may help.
            MemoryBudgetError: there is no memory for one thread.
        """
        if self._runs:
            free = memory_bytes - loader.used_bytes
            lanes = min(jobs, len(self._runs), free // self.lane_bytes)
            if lanes < 1:
                needed = memory_bytes + self.lane_bytes - free
                raise budget_error(memory_bytes, needed)
            with Crew(lanes) as crew:
                yield from fuse_pieces(shape, self._constructed(shape, loader, crew))
        else:
            yield from fuse_pieces(shape, [])

    def _constructed(self, shape: FuseShape, loader: Loader, crew: Crew) -> Iterator[Shard]:
        scratch = fuse_scratch_bytes(shape.arity, shape.segment_slots, shape.num_segments)
        idle = [
            _Lane(
                memoryview(map_memory(HASH.size * self._most_keys)),
                memoryview(map_memory(scratch)),
            )
            for _ in range(crew.jobs)
        ]
        for shards in crew.do(
            partial(self._construct, shape, loader, idle, run) for run in self._runs
        ):
            yield from shards

    def _construct(
        self, shape: FuseShape, loader: Loader, idle: list[_Lane], run: _Run
    ) -> list[Shard]:
        """Return the shards of a run."""
        with _borrowed(idle) as lane:
            at = 0
            for partition in loader.filled_among(run.partitions):
                with loader.counted(partition, self._counts[partition]) as some:
                    order_by_part(some, shape.num_parts, lane.hashes[at : at + len(some)])
                    at += len(some)
            return [
                construct_shard(shape, part, lane.scratch)
                for part in _parts(lane.hashes[:at], run.shards, shape.num_shards)
            ]


def budget_error(memory_bytes: int, needed_bytes: int) -> MemoryBudgetError:
    """Return the error of a build whose shards do not fit in its memory."""
    return MemoryBudgetError(memory_bytes, needed_bytes, "a shard is constructed in memory")


def _runs(num_shards: int) -> list[_Run]:
    """Return all shards, a power of two of them, in order."""
    if num_shards <= NUM_PARTITIONS:
        width = NUM_PARTITIONS // num_shards if num_shards else 0
        return [_Run(range(i, i + 1), range(i * width, (i + 1) * width)) for i in range(num_shards)]
    width = num_shards // NUM_PARTITIONS
    return [_Run(range(i * width, (i + 1) * width), range(i, i + 1)) for i in range(NUM_PARTITIONS)]


def _parts(hashes: memoryview, shards: range, num_shards: int) -> Iterator[memoryview]:
    """Yield the hashes of each of neighbouring shards, out of those of all."""
    first = 0
    for shard in shards:
        end = first_of_shard(hashes, shard + 1, num_shards, first)
        yield hashes[HASH.size * first : HASH.size * end]
        first = end


@contextmanager
def _borrowed(idle: list[_Lane]) -> Iterator[_Lane]:
    lane = idle.pop()  # as many as threads
    try:
        yield lane
    finally:
        idle.append(lane)
