"""Keys of a filter that are to come, counted and weighed before any of them is added."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmbloom.engine import CountingCore
from mmbloom.errors import CapacityError
from mmbloom.filters.lookup import answer_hashes
from mmbloom.format.fields import HASH
from mmbloom.operations.distinct import DistinctHashes, hashes_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from mmbloom.filters.bloom import BloomFilter
    from mmbloom.filters.counting import CountingBloomFilter
    from mmbloom.keys.pieces import Nulls


class NewKeys:
    """Keys that a filter definitely does not have, taken from any number of batches.

    Guarantee: nothing is added before add(), which adds all of them or, where they do not fit, or a
        batch had a bad key, none.
    Counting filters: add() counts every distinct key that was taken once more, also one that is
        "maybe" already. That may be so by chance, and a key that is not counted would be answered
        "definitely not" when those that cover it leave. So a key that was in must be removed twice.
    Sharing: one thread. What others add to the filter meanwhile is not counted as known; it may
        make add() stop at the capacity, as update() does.
    Limits: 16 bytes of memory a new key, 32 while they are sorted; of a counting filter a key.
    """

    def __init__(self, target: BloomFilter | CountingBloomFilter) -> None:
        """Begin with none; *target* may be open read-only, for a forecast.

        Of a reader that follows its path, the file that it has now is the target.
        """
        self._target = target._steady()
        self._takes_all = target.kind == "counting"
        self._hashes = DistinctHashes()
        self._num_new: int | None = 0  # None: to be counted

    def take(
        self,
        keys: object,
        *,
        nulls: Nulls = "raise",
        progress: Callable[[int], object] | None = None,
    ) -> int:
        """Look up a batch, keep what is new; return how many keys it has, with repetitions.

        Args:
            keys: as for BloomFilter.update().
            nulls: as for BloomFilter.update().
            progress: called as ``progress(num_keys)`` while they are looked up.

        Raises:
            KeyTypeError, KeyValueError: a bad key.
        """
        target, num_keys = self._target, 0
        target._check_open()
        self._num_new = None
        for hashes in hashes_of(keys, target._header, nulls):
            self._hashes.add(hashes if self._takes_all else absent(target, hashes))
            num_keys += len(hashes) // HASH.size
            if progress is not None:
                progress(num_keys)
        return num_keys

    def __len__(self) -> int:
        """Return how many distinct new keys there are."""
        if self._num_new is None:
            hashes = self._hashes.sorted()
            new = absent(self._target, hashes) if self._takes_all else hashes
            self._num_new = len(new) // HASH.size
        return self._num_new

    @property
    def num_to_add(self) -> int:
        """Keys that add() adds: the new ones; of a counting filter all distinct ones."""
        return len(self._hashes)

    @property
    def fit(self) -> bool:
        """Whether add() would take them: they are within the capacity, or overfill is allowed.

        Cost: where a counting filter seems to be full, a pass over the payload: its count drifts
        when keys leave, and the counters tell.
        """
        target = self._target
        if isinstance(target, CountingCore):
            return target._has_room_for(len(self))
        overfill = bool(target._header.overfill)
        return overfill or target.keys_added + len(self) <= target.capacity

    def forecast(self) -> float:
        """Return the fpr to expect once they are added. Cost: as BloomFilter.forecast()."""
        return self._target.forecast(len(self))

    def add(self) -> int:
        """Add them; return how many of them were new: all, but for a share of about the fpr.

        Raises:
            CapacityError: they do not fit; none was added.
            ReadOnlyError: the filter is open read-only. OSError: as BloomFilter.update().
        """
        self._target._check_writable()
        if not self.fit:
            known = self._target.keys_added
            where = f"{self._target._where()}: {known} keys and {len(self)} new ones"
            raise CapacityError(where, self._target.capacity)
        added = self._target._add_hashes(self._hashes.sorted())
        self._hashes, self._num_new = DistinctHashes(), 0
        return added


def absent(target: BloomFilter | CountingBloomFilter, hashes: bytearray) -> bytes:
    """Return those of *hashes* that are definitely not in, in the same order."""
    return split(target, hashes)[0]


def split(target: BloomFilter | CountingBloomFilter, hashes: bytearray) -> tuple[bytes, bytes]:
    """Return those of *hashes* that are definitely not in, and those that may be."""
    import numpy as np

    maybe = np.empty(len(hashes) // HASH.size, np.uint8)
    answer_hashes(target, target._storage, memoryview(hashes), maybe.data)
    rows = np.frombuffer(hashes, f"V{HASH.size}")
    return rows[maybe == 0].tobytes(), rows[maybe == 1].tobytes()
