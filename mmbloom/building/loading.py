"""Pass two: the partitions one by one, and how many distinct keys they have.

Hashes in memory stay where they are; spilled hashes are read each time they are needed. Repetitions
make no difference to a payload of bits, so sorting is for the count alone there.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol, Self

from mmbloom.building.hashes import CHUNK_BYTES
from mmbloom.building.runs import PIECE_HASHES, RunReader
from mmbloom.engine import sort_unique, sum_hashes
from mmbloom.errors import MemoryBudgetError
from mmbloom.format.fields import HASH, MAX_CANARIES
from mmbloom.kinds.partitions import NUM_PARTITIONS, Counted
from mmbloom.storage.memory import map_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from mmbloom.building.hashes import KeyHashes
    from mmbloom.building.thread_pool import ThreadPool
    from mmbloom.engine import Partitions

    Free = Callable[[int], memoryview]

_LEAST_HASHES = 2 * PIECE_HASHES  # in the buffer of a lane: a piece is read as a whole
_MOST_FILL = 7 / 8  # of a buffer, by distinct hashes: with more, sorting again would free nothing
_RUN_PARTITIONS = 16  # counted in one task; as hashes are uniform, they are a sample of all keys
_WORTH_DROPPING = 0.5  # fraction of repetitions from which sorting beats spilling


class _RunCount(NamedTuple):
    """The counts of a run of partitions, and their first hashes, from which canaries are chosen."""

    counts: list[int]
    hash_sum: int
    first: bytes


class _Origin(Protocol):
    """Where the hashes of partitions are."""

    memory_bytes: int  # that they take
    sizes: list[int]  # number of hashes of each partition, repetitions included

    def fill(self, partition: int, free: Free) -> Iterator[int]:
        """Put all hashes of a partition into memory, in pieces; yield the size of each.

        *free* returns memory for a number of hashes, or more.
        """


class _InMemory:
    """Partitions that fit in memory."""

    def __init__(self, partitions: Partitions, memory_bytes: int) -> None:
        self._partitions, self.memory_bytes = partitions, memory_bytes
        self.sizes = [*map(partitions.count, range(NUM_PARTITIONS))]

    def fill(self, partition: int, free: Free) -> Iterator[int]:
        done = 0
        while copied := self._partitions.copy(partition, free(PIECE_HASHES), done):
            yield copied
            done += copied


class _Spilled:
    """Partitions in the runs of a spill file."""

    memory_bytes = 0

    def __init__(self, runs: RunReader) -> None:
        self._runs = runs
        self.sizes = [*map(runs.count, range(NUM_PARTITIONS))]

    def fill(self, partition: int, free: Free) -> Iterator[int]:
        for piece in self._runs.pieces(partition):
            piece.read(free(piece.num_hashes))
            yield piece.num_hashes


class _Lane:
    """Buffers of one thread: hashes of a partition, filled piece by piece, and scratch memory.

    Attributes:
        number: of the lane in the engine's Partitions.
        buffer: memory for the hashes.
    """

    def __init__(self, number: int, num_bytes: int, memory_bytes: int) -> None:
        self.number, self._memory_bytes = number, memory_bytes
        self.buffer = memoryview(map_memory(num_bytes))
        self._scratch = memoryview(map_memory(num_bytes))
        self._num_bytes = 0

    def clear(self) -> None:
        """Begin another partition."""
        self._num_bytes = 0

    def free(self, num_hashes: int) -> memoryview:
        """Return memory behind the hashes, for at least *num_hashes* more.

        A buffer that is full is sorted first, to drop repetitions.

        Raises:
            MemoryBudgetError: it is full of distinct hashes.
        """
        if len(self.buffer) - self._num_bytes < num_hashes * HASH.size:
            self.sort()
            most = int(len(self.buffer) * _MOST_FILL)
            if self._num_bytes > most - num_hashes * HASH.size:
                needed = self._memory_bytes + 8 * len(self.buffer)
                reason = "a partition must be sorted in memory"
                raise MemoryBudgetError(self._memory_bytes, needed, reason)
        return self.buffer[self._num_bytes :]

    @property
    def hashes(self) -> memoryview:
        """The hashes, in any order."""
        return self.buffer[: self._num_bytes]

    def append(self, num_hashes: int) -> None:
        """Count hashes that were written to free()."""
        self._num_bytes += num_hashes * HASH.size

    def sort(self) -> memoryview:
        """Sort, drop repetitions, and return the hashes."""
        self._num_bytes = sort_unique(self.hashes, self._scratch) * HASH.size
        return self.hashes


def drop_repetitions(hashes: KeyHashes, pool: ThreadPool) -> None:
    """Sort the partitions in memory if half of the hashes are repetitions, judging by some.

    A list that repeats its keys often needs no spill file then.
    """
    partitions = hashes.partitions
    loader = Loader(_InMemory(partitions, 0), hashes.memory_bytes, hashes.spare_bytes, pool)
    before = sum(map(partitions.count, range(_RUN_PARTITIONS)))
    if sum(loader.count_run(0).counts) <= before * (1 - _WORTH_DROPPING):
        for _ in pool.do(partial(loader.compact, partitions, i) for i in range(NUM_PARTITIONS)):
            pass


class Loader:
    """Reads the hashes of a build, partition by partition.

    Threads may read at the same time, as many as the pool has. It is the PartitionReader of
    ``mmbloom.kinds``.
    """

    def __init__(
        self, origin: _Origin, memory_bytes: int, spare_bytes: int, pool: ThreadPool
    ) -> None:
        """Read from *origin*, with buffers in *spare_bytes* of memory, or a little more."""
        self._origin, self._pool = origin, pool
        most = spare_bytes // (2 * pool.jobs * HASH.size)
        num_hashes = max(_LEAST_HASHES, min(most, max(origin.sizes) + PIECE_HASHES))
        num_bytes = -(-num_hashes * HASH.size // CHUNK_BYTES) * CHUNK_BYTES
        self._lanes = [_Lane(number, num_bytes, memory_bytes) for number in range(pool.jobs)]
        self._buffer_bytes = 2 * num_bytes * pool.jobs

    @classmethod
    def of_hashes(cls, hashes: KeyHashes, pool: ThreadPool, reserved_bytes: int = 0) -> Self:
        """Read what *hashes* holds. If any were spilled, all must be spilled.

        *reserved_bytes* of its memory are for others then.
        """
        if hashes.spill is None:
            origin = _InMemory(hashes.partitions, hashes.used_bytes)
            return cls(origin, hashes.memory_bytes, hashes.spare_bytes, pool)
        runs = _Spilled(RunReader(hashes.spill, hashes.runs))
        spare_bytes = max(0, hashes.release_memory() - reserved_bytes)
        return cls(runs, hashes.memory_bytes, spare_bytes, pool)

    @property
    def used_bytes(self) -> int:
        """Memory that hashes and buffers take."""
        return self._origin.memory_bytes + self._buffer_bytes

    def filled_among(self, partitions: Iterable[int]) -> Iterator[int]:
        """Yield those of *partitions* that have hashes: in a small set most have none."""
        return (partition for partition in partitions if self._origin.sizes[partition])

    def raw(self, partition: int) -> Iterator[memoryview]:
        """Yield all hashes of a partition in pieces; each is valid until the next.

        Raises:
            SpillError, OSError: they cannot be read back.
        """
        with self._lane() as lane:
            for num_hashes in self._origin.fill(partition, lambda _: lane.buffer):
                yield lane.buffer[: num_hashes * HASH.size]

    @contextmanager
    def distinct(self, partition: int) -> Iterator[memoryview]:
        """Yield the distinct hashes of a partition, sorted, valid within the ``with`` block.

        Raises:
            SpillError, OSError: as raw(). MemoryBudgetError: too many for memory.
        """
        with self._filled(partition) as lane:
            yield lane.sort()

    @contextmanager
    def counted(self, partition: int, num_keys: int) -> Iterator[memoryview]:
        """Yield the distinct hashes of a partition, which are *num_keys*, in any order.

        Raises:
            SpillError, OSError, MemoryBudgetError: as distinct().
        """
        with self._filled(partition) as lane:
            yield lane.hashes if len(lane.hashes) == num_keys * HASH.size else lane.sort()

    def count(self, tell: Callable[[int, int], object]) -> Counted:
        """Count the distinct hashes. *tell* is called with (partitions done, partitions in all)."""
        key_set, counts = 0, list[int]()
        first: list[bytes] = []
        starts = range(0, NUM_PARTITIONS, _RUN_PARTITIONS)
        for found in self._pool.do(partial(self.count_run, start) for start in starts):
            counts += found.counts
            key_set = (key_set + found.hash_sum) % (1 << 128)
            first.append(found.first)
            tell(len(counts), NUM_PARTITIONS)
        return Counted(counts, key_set, _spread(b"".join(first)))

    def count_run(self, first: int) -> _RunCount:
        """Count the distinct hashes of a run of partitions, from number *first* on."""
        counts, hash_sum, firsts = [0] * _RUN_PARTITIONS, 0, list[bytes]()
        for partition in self.filled_among(range(first, first + _RUN_PARTITIONS)):
            with self.distinct(partition) as hashes:
                counts[partition - first] = len(hashes) // HASH.size
                hash_sum += sum_hashes(hashes)
                firsts.append(bytes(hashes[: MAX_CANARIES * HASH.size]))
        return _RunCount(counts, hash_sum, b"".join(firsts))

    def compact(self, partitions: Partitions, partition: int) -> None:
        """Drop the repetitions of a partition in memory."""
        with self._lane() as lane:
            while taken := partitions.take(partition, lane.free(PIECE_HASHES)):
                lane.append(taken)
            partitions.put_back(lane.number, partition, lane.sort())

    @contextmanager
    def _filled(self, partition: int) -> Iterator[_Lane]:
        """Yield a lane with the hashes of a partition."""
        with self._lane() as lane:
            for num_hashes in self._origin.fill(partition, lane.free):
                lane.append(num_hashes)
            yield lane

    @contextmanager
    def _lane(self) -> Iterator[_Lane]:
        """Yield an empty lane."""
        lane = self._lanes.pop()  # there are as many as threads
        lane.clear()
        try:
            yield lane
        finally:
            self._lanes.append(lane)


def _spread(hashes: bytes) -> tuple[tuple[int, int], ...]:
    """Return up to 8 of *hashes*, evenly spread, so that their blocks are spread too."""
    found = list(HASH.iter_unpack(hashes))
    count = min(MAX_CANARIES, len(found))
    return tuple(found[len(found) * i // count] for i in range(count))
