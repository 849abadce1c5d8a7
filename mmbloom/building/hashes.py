"""Pass one: the hashes of all keys, partitioned in memory, and past the budget in a spill file.

Filled by several threads at a time. Knows nothing of filters, and does not sort: ``loading`` does,
``direct`` drains the partitions into a payload instead.
"""

from __future__ import annotations

from array import array
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from mmbloom.building.runs import SLICE_BYTES, SLICE_HASHES, Run, write_partitions
from mmbloom.engine import ObjectBatch, Partitions, RowsBatch, hash_batch
from mmbloom.errors import MemoryBudgetError
from mmbloom.format.fields import HASH
from mmbloom.keys.pieces import PIECE_KEYS
from mmbloom.storage.closing import Closing
from mmbloom.storage.memory import map_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from mmbloom.building.thread_pool import Crew
    from mmbloom.engine import LinesBatch, OffsetsBatch
    from mmbloom.keys.pieces import Piece
    from mmbloom.storage.spill import SpillFile

    MemoryBatch = RowsBatch | OffsetsBatch | LinesBatch

PARTITION_BITS = 10
NUM_PARTITIONS = 1 << PARTITION_BITS
CHUNK_BYTES = 4096
STAGE_BYTES = NUM_PARTITIONS * 256  # of a lane
_ADDED_AT_ONCE = 1 << 18  # hashes of Python objects: all need room at once
_LEAST_ADDED_BYTES = 8 << 20  # hashes of a block of 1 MiB of the shortest lines


class Keying(NamedTuple):
    """What hashing needs to know."""

    seed: int
    key_form: int
    skip_bad: bool


class Added(NamedTuple):
    """What became of a batch: its keys, its bad keys, and why the first of these were bad."""

    num_keys: int
    num_bad: int
    errors: list[Exception]


class HashStore(Closing):
    """Hashes by the million; use it in a ``with`` block.

    Memory: what it was given; 16 bytes a key of a list of Python objects come on top.
    """

    def __init__(self, memory_bytes: int, crew: Crew, spill: Callable[[], SpillFile]) -> None:
        """Set memory aside, untouched yet. *spill* makes the spill file, when it is needed."""
        self._crew, self._make_spill = crew, spill
        self.memory_bytes = memory_bytes
        # What is left beside the arena: a buffer a job, and the blocks that are being read.
        share = min(8 << 20, memory_bytes // (8 * crew.jobs))
        self.buffer_bytes = max(1, share // SLICE_BYTES) * SLICE_BYTES
        arena_bytes = memory_bytes - crew.jobs * self.buffer_bytes - memory_bytes // 16
        least = crew.jobs * (STAGE_BYTES + NUM_PARTITIONS * CHUNK_BYTES) + _LEAST_ADDED_BYTES
        if arena_bytes < least:
            needed = memory_bytes + (least - arena_bytes) * 4 // 3
            raise MemoryBudgetError(memory_bytes, needed, f"{crew.jobs} jobs have a share each")
        self._arena_bytes = arena_bytes // CHUNK_BYTES * CHUNK_BYTES
        self.partitions = Partitions(map_memory(self._arena_bytes), PARTITION_BITS, crew.jobs)
        self._lanes = list(range(crew.jobs))
        self._keys_of_lane = [0] * crew.jobs
        self._most_chunks = self._needed_chunks = 0
        self._barrier_is_wanted = False
        self.spill: SpillFile | None = None
        self.runs: list[Run] = []

    @property
    def keys_read(self) -> int:
        """Keys that were added, with repetitions."""
        return sum(self._keys_of_lane)

    @property
    def hashes_held(self) -> int:
        """Hashes in memory now. No task may run."""
        return sum(map(self.partitions.count, range(NUM_PARTITIONS)))

    @property
    def used_bytes(self) -> int:
        """Memory that the hashes take, in chunks. No task may run."""
        chunks = self._arena_bytes // CHUNK_BYTES - self.partitions.chunks_left
        return chunks * CHUNK_BYTES

    @property
    def spilled_bytes(self) -> int:
        """What is in the spill file."""
        return 0 if self.spill is None else self.spill.num_bytes

    @property
    def spare_bytes(self) -> int:
        """Memory that is left for buffers while the partitions are in memory."""
        return self.buffer_bytes * self._crew.jobs

    @property
    def is_full(self) -> bool:
        """Whether what comes next has no room. No task may run."""
        return self._needed_chunks > self.partitions.chunks_left

    def ask_for_barrier(self) -> None:
        """Have tasks() put a barrier before the next task."""
        self._barrier_is_wanted = True

    def tasks(
        self, pieces: Iterable[Piece], keying: Keying
    ) -> Iterator[Callable[[], Added] | None]:
        """Yield what adds each of *pieces*, for ``Crew.results``.

        At a barrier, None, no task runs: if the store ``is_full``, room must be made then.

        Raises:
            MemoryBudgetError: even all the memory has no room for a piece.
        """
        for piece in pieces:
            batch = piece.batch
            if isinstance(batch, ObjectBatch) or (
                # Python objects need the GIL, and NumPy text is never cut: hashed here, as a whole.
                isinstance(batch, RowsBatch) and len(batch) > PIECE_KEYS
            ):
                hashes = memoryview(hash_batch(batch, keying.seed, keying.key_form))
                step = _ADDED_AT_ONCE * HASH.size
                for start in range(0, len(hashes), step):
                    some = hashes[start : start + step]
                    yield from self._barrier_before(len(some) // HASH.size)
                    yield partial(self._add_hashes, some)
            else:
                yield from self._barrier_before(batch.most_keys)
                yield partial(self._add_batch, batch, keying)

    def spill_file(self) -> SpillFile:
        """Return the spill file, made if there is none yet."""
        if self.spill is None:
            self.spill = self._make_spill()
        return self.spill

    def restore(self, spill: SpillFile, runs: list[Run]) -> None:
        """Go on with what another process has spilled."""
        self.spill, self.runs = spill, runs

    def spill_all(self, tell: Callable[[int, int], object]) -> None:
        """Write all partitions to the spill file, and forget them. No task may run.

        *tell* is called with (bytes written, bytes in all).

        Raises:
            NoSpaceError: they do not fit.
        """
        counts = array("Q", map(self.partitions.count, range(NUM_PARTITIONS)))
        total = sum(counts) * HASH.size
        if not total:
            return
        spill = self.spill_file()
        run = Run.of_counts(spill.reserve(total), counts)
        done = 0
        for written in self._crew.do(self._spill_tasks(spill, run)):
            done += written
            tell(done, total)
        self.runs.append(run)
        self.partitions.clear()

    def release_memory(self) -> int:
        """Let go of the partitions, which are empty, and their memory; return how many bytes."""
        del self.partitions
        return self._arena_bytes

    def close(self) -> None:
        """Give the spill file back; the memory goes with the last who uses it."""
        if self.spill is not None:
            self.spill.close()

    def _barrier_before(self, num_keys: int) -> Iterator[None]:
        """Yield a barrier if so many keys may not fit beside what tasks that run take meanwhile."""
        self._needed_chunks = self.partitions.chunks_for(num_keys)
        self._most_chunks = max(self._most_chunks, self._needed_chunks)
        would_fit = (self._crew.num_running + 1) * self._most_chunks <= self.partitions.chunks_left
        if would_fit and not self._barrier_is_wanted:
            return
        self._barrier_is_wanted = False
        yield None
        if self.is_full:
            more = (self._needed_chunks - self.partitions.chunks_left) * CHUNK_BYTES * 4 // 3
            reason = f"{num_keys} keys have to be added at once"
            raise MemoryBudgetError(self.memory_bytes, self.memory_bytes + more, reason)

    def _add_batch(self, batch: MemoryBatch, keying: Keying) -> Added:
        lane = self._lanes.pop()  # as many lanes as threads
        try:
            added = Added(*self.partitions.add_batch(lane, batch, *keying))
            self._keys_of_lane[lane] += added.num_keys
        finally:
            self._lanes.append(lane)
        return added

    def _add_hashes(self, hashes: memoryview) -> Added:
        lane = self._lanes.pop()
        try:
            self.partitions.add_hashes(lane, hashes)
            self._keys_of_lane[lane] += len(hashes) // HASH.size
        finally:
            self._lanes.append(lane)
        return Added(len(hashes) // HASH.size, 0, [])

    def _spill_tasks(self, spill: SpillFile, run: Run) -> Iterator[Callable[[], int]]:
        """Yield what writes neighbouring partitions, about a buffer full of them at a time."""
        offsets, slices = run.starts()
        most = self.buffer_bytes // HASH.size
        first = count = 0
        for partition in range(NUM_PARTITIONS + 1):
            is_end = partition == NUM_PARTITIONS
            if partition > first and (is_end or count + run.counts[partition] > most):
                yield partial(
                    self._spill_some,
                    spill,
                    run,
                    range(first, partition),
                    offsets[first],
                    slices[first],
                )
                first, count = partition, 0
            if not is_end:
                count += run.counts[partition]

    def _spill_some(
        self, spill: SpillFile, run: Run, some: range, offset: int, first_slice: int
    ) -> int:
        counts = run.counts[some.start : some.stop]
        total = sum(counts) * HASH.size
        data = memoryview(bytearray(min(total, self.buffer_bytes)))
        if len(data) < total:  # one partition, larger than all buffers: some key is repeated
            self._spill_large(spill, run, some.start, offset, first_slice, data)
            return total
        at = 0
        for partition in some:
            at += self.partitions.copy(partition, data[at:]) * HASH.size
        write_partitions(spill, run, offset, first_slice, data, counts)
        return total

    def _spill_large(  # noqa: PLR0913, PLR0917 - what _spill_some() has
        self,
        spill: SpillFile,
        run: Run,
        partition: int,
        offset: int,
        first_slice: int,
        data: memoryview,
    ) -> None:
        done = 0
        while copied := self.partitions.copy(partition, data, done):
            at, number = offset + done * HASH.size, first_slice + done // SLICE_HASHES
            write_partitions(spill, run, at, number, data, array("Q", [copied]))
            done += copied
