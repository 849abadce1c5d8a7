"""Pass one: the hashes of all keys in partitions, in memory and, past the budget, in a spill file.

Several threads fill the partitions at the same time. Nothing here knows about filters, and nothing
sorts: ``loading`` does, or a direct payload takes the hashes out of the partitions instead.
"""

from __future__ import annotations

from array import array
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from mmbloom.building.runs import PIECE_BYTES, PIECE_HASHES, Run
from mmbloom.engine import ObjectBatch, Partitions, RowsBatch, hash_batch
from mmbloom.errors import MemoryBudgetError
from mmbloom.format.fields import HASH
from mmbloom.keys.pieces import PIECE_KEYS
from mmbloom.kinds.partitions import NUM_PARTITIONS, PARTITION_BITS
from mmbloom.storage.closing import Closing
from mmbloom.storage.memory import map_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from mmbloom.building.thread_pool import ThreadPool
    from mmbloom.engine import LinesBatch, OffsetsBatch
    from mmbloom.keys.pieces import Piece
    from mmbloom.storage.spill import SpillFile

    MemoryBatch = RowsBatch | OffsetsBatch | LinesBatch

CHUNK_BYTES = 4096
LANE_BYTES = NUM_PARTITIONS * 256  # in which a thread collects the hashes of each partition
_MOST_BUFFER_BYTES = 8 << 20
_ADDED_AT_ONCE = 1 << 18  # hashes of Python objects: there must be memory for all of them
_LEAST_ADDED_BYTES = 8 << 20  # hashes of a text block of 1 MiB of the shortest lines


class Keying(NamedTuple):
    """What hashing needs to know."""

    seed: int
    key_form: int
    skip_bad: bool


class Added(NamedTuple):
    """What became of a batch: its keys, its bad keys, and the errors of the first bad ones."""

    num_keys: int
    num_bad: int
    errors: list[Exception]


class KeyHashes(Closing):
    """The hashes of the keys of one build. Use it in a ``with`` block.

    Memory: what it was given, and 16 bytes for each key of a list of Python objects.
    """

    def __init__(
        self, memory_bytes: int, pool: ThreadPool, make_spill: Callable[[], SpillFile]
    ) -> None:
        """Reserve memory, which is not touched yet. *make_spill* is called when it is full."""
        self._pool, self._make_spill = pool, make_spill
        self.memory_bytes = memory_bytes
        # The rest is for a buffer for each thread, and for the text blocks that are being read.
        buffer_bytes = min(_MOST_BUFFER_BYTES, memory_bytes // (8 * pool.jobs))
        self.buffer_bytes = max(1, buffer_bytes // PIECE_BYTES) * PIECE_BYTES
        arena_bytes = memory_bytes - pool.jobs * self.buffer_bytes - memory_bytes // 16
        least = pool.jobs * (LANE_BYTES + NUM_PARTITIONS * CHUNK_BYTES) + _LEAST_ADDED_BYTES
        if arena_bytes < least:
            needed = memory_bytes + (least - arena_bytes) * 4 // 3
            reason = f"each of {pool.jobs} jobs needs memory of its own"
            raise MemoryBudgetError(memory_bytes, needed, reason)
        self._arena_bytes = arena_bytes // CHUNK_BYTES * CHUNK_BYTES
        self.partitions = Partitions(map_memory(self._arena_bytes), PARTITION_BITS, pool.jobs)
        self._lanes = list(range(pool.jobs))
        self._keys_of_lane = [0] * pool.jobs
        self._most_chunks = self._needed_chunks = 0
        self._barrier_is_wanted = False
        self.spill: SpillFile | None = None
        self.runs: list[Run] = []

    @property
    def keys_read(self) -> int:
        """Keys that were added, repetitions included."""
        return sum(self._keys_of_lane)

    @property
    def num_in_memory(self) -> int:
        """Hashes that are in memory now. No task may run."""
        return sum(map(self.partitions.count, range(NUM_PARTITIONS)))

    @property
    def used_bytes(self) -> int:
        """Memory that the hashes take, in chunks. No task may run."""
        chunks = self._arena_bytes // CHUNK_BYTES - self.partitions.chunks_left
        return chunks * CHUNK_BYTES

    @property
    def spilled_bytes(self) -> int:
        """Bytes in the spill file."""
        return 0 if self.spill is None else self.spill.num_bytes

    @property
    def spare_bytes(self) -> int:
        """Memory for buffers while the partitions are in memory."""
        return self.buffer_bytes * self._pool.jobs

    @property
    def is_full(self) -> bool:
        """Whether the next keys do not fit. No task may run."""
        return self._needed_chunks > self.partitions.chunks_left

    def ask_for_barrier(self) -> None:
        """Let tasks() put a barrier before the next task."""
        self._barrier_is_wanted = True

    def tasks(
        self, pieces: Iterable[Piece], keying: Keying
    ) -> Iterator[Callable[[], Added] | None]:
        """Yield tasks that add each of *pieces*, for ``ThreadPool.results``.

        At a barrier, None, no task runs. If ``is_full`` then, hashes must be taken out of the
        partitions.

        Raises:
            MemoryBudgetError: a piece does not fit even in empty partitions.
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
        """Return the spill file; make it if there is none yet."""
        if self.spill is None:
            self.spill = self._make_spill()
        return self.spill

    def restore(self, spill: SpillFile, runs: list[Run]) -> None:
        """Continue with hashes that another process has spilled."""
        self.spill, self.runs = spill, runs

    def spill_all(self, tell: Callable[[int, int], object]) -> None:
        """Write all partitions to the spill file, and clear them. No task may run.

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
        for written in self._pool.do(self._spill_tasks(spill, run)):
            done += written
            tell(done, total)
        self.runs.append(run)
        self.partitions.clear()

    def release_memory(self) -> int:
        """Drop the partitions, which are empty, and their memory; return its size in bytes."""
        del self.partitions
        return self._arena_bytes

    def close(self) -> None:
        """Close the spill file. The memory is freed when nothing uses it."""
        if self.spill is not None:
            self.spill.close()

    def _barrier_before(self, num_keys: int) -> Iterator[None]:
        """Yield a barrier if *num_keys* may not fit beside the keys of tasks that run."""
        self._needed_chunks = self.partitions.chunks_for(num_keys)
        self._most_chunks = max(self._most_chunks, self._needed_chunks)
        would_fit = (self._pool.num_running + 1) * self._most_chunks <= self.partitions.chunks_left
        if would_fit and not self._barrier_is_wanted:
            return
        self._barrier_is_wanted = False
        yield None
        if self.is_full:
            more = (self._needed_chunks - self.partitions.chunks_left) * CHUNK_BYTES * 4 // 3
            reason = f"{num_keys} keys must be added at once"
            raise MemoryBudgetError(self.memory_bytes, self.memory_bytes + more, reason)

    def _add_batch(self, batch: MemoryBatch, keying: Keying) -> Added:
        with self._lane() as lane:
            added = Added(*self.partitions.add_batch(lane, batch, *keying))
            self._keys_of_lane[lane] += added.num_keys
        return added

    def _add_hashes(self, hashes: memoryview) -> Added:
        with self._lane() as lane:
            self.partitions.add_hashes(lane, hashes)
            self._keys_of_lane[lane] += len(hashes) // HASH.size
        return Added(len(hashes) // HASH.size, 0, [])

    @contextmanager
    def _lane(self) -> Iterator[int]:
        lane = self._lanes.pop()  # there are as many as threads
        try:
            yield lane
        finally:
            self._lanes.append(lane)

    def _spill_tasks(self, spill: SpillFile, run: Run) -> Iterator[Callable[[], int]]:
        """Yield tasks that write neighbouring partitions, about a buffer full of them each."""
        offsets, pieces = run.starts()
        most = self.buffer_bytes // HASH.size
        first = count = 0
        for partition in range(NUM_PARTITIONS + 1):
            is_end = partition == NUM_PARTITIONS
            if partition > first and (is_end or count + run.counts[partition] > most):
                yield partial(
                    self._spill_partitions,
                    spill,
                    run,
                    range(first, partition),
                    offsets[first],
                    pieces[first],
                )
                first, count = partition, 0
            if not is_end:
                count += run.counts[partition]

    def _spill_partitions(
        self, spill: SpillFile, run: Run, partitions: range, offset: int, first_piece: int
    ) -> int:
        counts = run.counts[partitions.start : partitions.stop]
        total = sum(counts) * HASH.size
        data = memoryview(bytearray(min(total, self.buffer_bytes)))
        if len(data) < total:  # one partition, larger than all buffers: some key is repeated
            done = 0
            while copied := self.partitions.copy(partitions.start, data, done):
                at, number = offset + done * HASH.size, first_piece + done // PIECE_HASHES
                run.write(spill, at, number, data, array("Q", [copied]))
                done += copied
            return total
        at = 0
        for partition in partitions:
            at += self.partitions.copy(partition, data[at:]) * HASH.size
        run.write(spill, offset, first_piece, data, counts)
        return total
