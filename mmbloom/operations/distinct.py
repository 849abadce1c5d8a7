"""Batches of keys of any type -> distinct hashes.

Bad keys of a list are skipped if its ``on_error`` says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmbloom.engine import ObjectBatch, Partitions, hash_batch, sort_unique
from mmbloom.errors import MmbloomError
from mmbloom.format.fields import HASH
from mmbloom.keys.batches import pieces_of
from mmbloom.storage.memory import map_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mmbloom.engine import LinesBatch, OffsetsBatch, RowsBatch
    from mmbloom.format.header import Header
    from mmbloom.keys.pieces import Nulls
    from mmbloom.sources.bad_lines import BadLines
    from mmbloom.storage.progress import Reporter

    MemoryBatch = RowsBatch | OffsetsBatch | LinesBatch

# The engine's partitions, here used for what they do with bad keys: two of them, filled in chunks
# of a page, each of 256 hashes, behind a page of scratch.
_PARTITION_BITS = 1
_CHUNK_BYTES = 4096
_SPARE_CHUNKS = 8
_FEWEST_TO_SORT = 1 << 20


def hashes_of(keys: object, header: Header, nulls: Nulls = "raise") -> Iterator[bytearray]:
    """Yield the hashes of a batch of keys, piece by piece; with repetitions, in any order.

    Args:
        keys: as for BloomFilter.contains_many(), or a list whose ``bad`` says what to do about its
            bad lines.
        header: of the filter: its seed and its key form.
        nulls: as for contains_many().

    Raises:
        KeyTypeError, KeyValueError, SourceError: a bad key, unless the list skips it.
    """
    bad: BadLines | None = getattr(keys, "bad", None)
    for piece in pieces_of(keys, nulls):
        if bad is None:
            yield hash_batch(piece.batch, header.seed, header.key_form)
        elif bad.policy == "raise" or isinstance(piece.batch, ObjectBatch):
            try:
                yield hash_batch(piece.batch, header.seed, header.key_form)
            except MmbloomError as exc:
                bad.add_many([exc], 1)  # names the file better than the engine can
                raise
        else:
            yield _good_hashes(piece.batch, header, bad)


def _good_hashes(batch: MemoryBatch, header: Header, bad: BadLines) -> bytearray:
    """Return the hashes of the good keys, and report the bad ones."""
    chunks = len(batch) * HASH.size // _CHUNK_BYTES + _SPARE_CHUNKS
    partitions = Partitions(map_memory(chunks * _CHUNK_BYTES), _PARTITION_BITS, 1)
    num_keys, num_bad, errors = partitions.add_batch(
        0, batch, header.seed, header.key_form, skip_bad=True
    )
    bad.add_many([error for error in errors if isinstance(error, MmbloomError)], num_bad)
    hashes = bytearray(HASH.size * num_keys)
    view, done = memoryview(hashes), 0
    for partition in range(1 << _PARTITION_BITS):
        done += partitions.copy(partition, view[HASH.size * done :])
    return hashes


class DistinctHashes:
    """A set of hashes. Memory: 16 bytes for each, and 16 more while they are sorted."""

    def __init__(self) -> None:
        """Start with no hashes."""
        self._hashes = bytearray()
        self._num_sorted = 0

    def add(self, hashes: bytes | bytearray) -> None:
        """Add hashes; repetitions count once."""
        self._hashes += hashes
        # When as many are new as are sorted: then every hash is sorted a few times in all.
        if len(self._hashes) // HASH.size >= max(_FEWEST_TO_SORT, 2 * self._num_sorted):
            self._sort()

    def take(
        self,
        keys: object,
        header: Header,
        nulls: Nulls,
        reporter: Reporter,
        choose: Callable[[bytearray], bytes | bytearray] = lambda hashes: hashes,
    ) -> int:
        """Add what *choose* returns for the hashes of *keys*; return the number of keys."""
        num_keys = 0
        for hashes in hashes_of(keys, header, nulls):
            self.add(choose(hashes))
            num_keys += len(hashes) // HASH.size
            reporter.tell(num_keys)
        reporter.tell(num_keys, num_keys)
        return num_keys

    def sorted(self) -> bytearray:
        """Return all hashes, sorted. The result must not be changed."""
        if len(self._hashes) != HASH.size * self._num_sorted:
            self._sort()
        return self._hashes

    def __len__(self) -> int:
        """Return the number of hashes."""
        return len(self.sorted()) // HASH.size

    def _sort(self) -> None:
        self._num_sorted = sort_unique(self._hashes, bytearray(len(self._hashes)))
        del self._hashes[HASH.size * self._num_sorted :]
