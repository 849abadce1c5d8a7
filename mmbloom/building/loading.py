"""Pass two: the partitions one by one, and how many distinct keys they have.

What was in memory stays as it is; what was spilled is read each time it is asked for. Repetitions
do no harm to a payload of bits, so sorting serves the count alone.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol, Self

from mmbloom.building.hashes import CHUNK_BYTES, NUM_PARTITIONS
from mmbloom.building.runs import SLICE_HASHES, RunReader
from mmbloom.engine import sort_unique, sum_hashes
from mmbloom.errors import MemoryBudgetError
from mmbloom.format.fields import HASH, MAX_CANARIES
from mmbloom.storage.memory import map_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from mmbloom.building.hashes import HashStore
    from mmbloom.building.thread_pool import Crew
    from mmbloom.engine import Partitions

    Free = Callable[[int], memoryview]

_LEAST_HASHES = 2 * SLICE_HASHES  # of a buffer: a slice is read whole
_FULL_SHARE = 7 / 8  # of a buffer, distinct hashes: more will hardly do
_COUNTED_AT_ONCE = 16  # partitions; as hashes are uniform, they are a sample of all keys
_WORTH_DROPPING = 0.5  # share of repetitions from which sorting in memory is better than spilling


class Counted(NamedTuple):
    """The distinct keys: how many each partition has, the sum of all hashes mod 2^128, canaries."""

    counts: list[int]
    key_set: int
    canaries: tuple[tuple[int, int], ...]

    @property
    def num_keys(self) -> int:
        """How many there are in all."""
        return sum(self.counts)


class _Some(NamedTuple):
    """The same of some partitions, with their first hashes, from which canaries are chosen."""

    counts: list[int]
    hash_sum: int
    first: bytes


class _Buffers(NamedTuple):
    """Room for the hashes of a partition, and as much to sort them."""

    hashes: memoryview
    scratch: memoryview


class _Origin(Protocol):
    """Where the hashes of a partition come from."""

    memory_bytes: int  # that they take
    sizes: list[int]  # how many each partition has, with repetitions

    def fill(self, partition: int, free: Free) -> Iterator[int]:
        """Put all hashes of a partition into memory, by parts; yield how many each has.

        *free* returns memory for so many hashes, or more.
        """


class _InMemory:
    """Partitions that fit in memory."""

    def __init__(self, partitions: Partitions, memory_bytes: int) -> None:
        self._partitions, self.memory_bytes = partitions, memory_bytes
        self.sizes = [*map(partitions.count, range(NUM_PARTITIONS))]

    def fill(self, partition: int, free: Free) -> Iterator[int]:
        done = 0
        while copied := self._partitions.copy(partition, free(SLICE_HASHES), done):
            yield copied
            done += copied


class _Spilled:
    """Partitions in the runs of a spill file."""

    memory_bytes = 0

    def __init__(self, runs: RunReader) -> None:
        self._runs = runs
        self.sizes = [*map(runs.count, range(NUM_PARTITIONS))]

    def fill(self, partition: int, free: Free) -> Iterator[int]:
        for part in self._runs.slices(partition):
            part.read(free(part.num_hashes))
            yield part.num_hashes


class _Room:
    """A buffer that is filled by and by, and drops repetitions when it is full."""

    def __init__(self, buffers: _Buffers, memory_bytes: int) -> None:
        self._buffers, self._memory_bytes = buffers, memory_bytes
        self._num_bytes = 0

    def free(self, num_hashes: int) -> memoryview:
        """Return room for so many hashes at least, behind those that are in it.

        Raises:
            MemoryBudgetError: there is none, though no hash is there twice.
        """
        if len(self._buffers.hashes) - self._num_bytes < num_hashes * HASH.size:
            self.sort()
            most = int(len(self._buffers.hashes) * _FULL_SHARE)
            if self._num_bytes > most - num_hashes * HASH.size:
                needed = self._memory_bytes + 8 * len(self._buffers.hashes)
                reason = "a partition is sorted in memory"
                raise MemoryBudgetError(self._memory_bytes, needed, reason)
        return self._buffers.hashes[self._num_bytes :]

    @property
    def hashes(self) -> memoryview:
        """The hashes, in any order."""
        return self._buffers.hashes[: self._num_bytes]

    def take_in(self, num_hashes: int) -> None:
        """Count what was written to free()."""
        self._num_bytes += num_hashes * HASH.size

    def sort(self) -> memoryview:
        """Sort, drop repetitions, and return the hashes."""
        self._num_bytes = sort_unique(self.hashes, self._buffers.scratch) * HASH.size
        return self.hashes


def drop_repetitions(store: HashStore, crew: Crew) -> None:
    """Sort the partitions in memory if, as some of them show, half of the hashes are repetitions.

    A list that repeats its keys often needs no spill file then.
    """
    partitions = store.partitions
    loader = Loader(_InMemory(partitions, 0), store.memory_bytes, store.spare_bytes, crew)
    before = sum(map(partitions.count, range(_COUNTED_AT_ONCE)))
    if sum(loader.count_some(0).counts) <= before * (1 - _WORTH_DROPPING):
        for _ in crew.do(partial(loader.compact, partitions, i) for i in range(NUM_PARTITIONS)):
            pass


class Loader:
    """The hashes of a store that has been filled, by partition in ascending order.

    Threads may load at the same time, as many as the crew has.
    """

    def __init__(self, origin: _Origin, memory_bytes: int, spare_bytes: int, crew: Crew) -> None:
        """Load from *origin*, with buffers in *spare_bytes* of memory, or a little more."""
        self._origin, self._memory_bytes, self._crew = origin, memory_bytes, crew
        most = spare_bytes // (2 * crew.jobs * HASH.size)
        num_hashes = max(_LEAST_HASHES, min(most, max(origin.sizes) + SLICE_HASHES))
        num_bytes = -(-num_hashes * HASH.size // CHUNK_BYTES) * CHUNK_BYTES
        self._buffers = [
            _Buffers(memoryview(map_memory(num_bytes)), memoryview(map_memory(num_bytes)))
            for _ in range(crew.jobs)
        ]
        self._lanes = list(range(crew.jobs))

    @classmethod
    def of_store(cls, store: HashStore, crew: Crew, reserved_bytes: int = 0) -> Self:
        """Take over what *store* holds; a store that has spilled must have spilled all.

        *reserved_bytes* of its memory are for others then.
        """
        if store.spill is None:
            origin = _InMemory(store.partitions, store.used_bytes)
            return cls(origin, store.memory_bytes, store.spare_bytes, crew)
        runs = _Spilled(RunReader(store.spill, store.runs))
        spare_bytes = max(0, store.release_memory() - reserved_bytes)
        return cls(runs, store.memory_bytes, spare_bytes, crew)

    @property
    def used_bytes(self) -> int:
        """Memory that hashes and buffers take."""
        buffers = sum(2 * len(each.hashes) for each in self._buffers)
        return self._origin.memory_bytes + buffers

    def filled_among(self, partitions: Iterable[int]) -> Iterator[int]:
        """Yield those of *partitions* that have hashes: in a small set most have none."""
        return (partition for partition in partitions if self._origin.sizes[partition])

    def raw(self, partition: int) -> Iterator[memoryview]:
        """Yield the hashes of a partition, with repetitions, by parts; each until the next.

        Raises:
            SpillError, OSError: they cannot be read back.
        """
        with self._borrowed() as buffers:
            for num_hashes in self._origin.fill(partition, lambda _: buffers.hashes):
                yield buffers.hashes[: num_hashes * HASH.size]

    @contextmanager
    def distinct(self, partition: int) -> Iterator[memoryview]:
        """Yield the sorted distinct hashes of a partition; they are gone when the block is left.

        Raises:
            SpillError, OSError: as raw(). MemoryBudgetError: too many for memory.
        """
        with self._filled(partition) as room:
            yield room.sort()

    @contextmanager
    def counted(self, partition: int, num_keys: int) -> Iterator[memoryview]:
        """Yield the distinct hashes of a partition, which are so many, in any order.

        Raises:
            SpillError, OSError, MemoryBudgetError: as distinct().
        """
        with self._filled(partition) as room:
            yield room.hashes if len(room.hashes) == num_keys * HASH.size else room.sort()

    def count(self, tell: Callable[[int, int], object]) -> Counted:
        """Count the distinct hashes. *tell* is called with (partitions done, partitions in all)."""
        key_set, counts = 0, list[int]()
        first: list[bytes] = []
        groups = range(0, NUM_PARTITIONS, _COUNTED_AT_ONCE)
        for some in self._crew.do(partial(self.count_some, group) for group in groups):
            counts += some.counts
            key_set = (key_set + some.hash_sum) % (1 << 128)
            first.append(some.first)
            tell(len(counts), NUM_PARTITIONS)
        return Counted(counts, key_set, _spread(b"".join(first)))

    def count_some(self, first: int) -> _Some:
        """Count the distinct hashes of neighbouring partitions, from number *first* on."""
        counts, hash_sum, firsts = [0] * _COUNTED_AT_ONCE, 0, list[bytes]()
        for partition in self.filled_among(range(first, first + _COUNTED_AT_ONCE)):
            with self.distinct(partition) as hashes:
                counts[partition - first] = len(hashes) // HASH.size
                hash_sum += sum_hashes(hashes)
                firsts.append(bytes(hashes[: MAX_CANARIES * HASH.size]))
        return _Some(counts, hash_sum, b"".join(firsts))

    def compact(self, partitions: Partitions, partition: int) -> None:
        """Drop the repetitions of a partition where it is, in memory."""
        lane = self._lanes.pop()  # as many lanes as threads
        try:
            with self._borrowed() as buffers:
                room = _Room(buffers, self._memory_bytes)
                while taken := partitions.take(partition, room.free(SLICE_HASHES)):
                    room.take_in(taken)
                partitions.put_back(lane, partition, room.sort())
        finally:
            self._lanes.append(lane)

    @contextmanager
    def _filled(self, partition: int) -> Iterator[_Room]:
        """Yield a buffer with the hashes of a partition."""
        with self._borrowed() as buffers:
            room = _Room(buffers, self._memory_bytes)
            for num_hashes in self._origin.fill(partition, room.free):
                room.take_in(num_hashes)
            yield room

    @contextmanager
    def _borrowed(self) -> Iterator[_Buffers]:
        buffers = self._buffers.pop()
        try:
            yield buffers
        finally:
            self._buffers.append(buffers)


def _spread(hashes: bytes) -> tuple[tuple[int, int], ...]:
    """Return up to 8 of *hashes*, evenly spread: those of members, so their places are too."""
    found = list(HASH.iter_unpack(hashes))
    count = min(MAX_CANARIES, len(found))
    return tuple(found[len(found) * i // count] for i in range(count))
