"""New keys of a filter, counted and weighed before any of them is added."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmbloom.errors import CapacityError
from mmbloom.filters.gathering import DistinctHashes, hashes_of
from mmbloom.filters.lookup import answer_hashes
from mmbloom.format.fields import HASH

if TYPE_CHECKING:
    from collections.abc import Callable

    from mmbloom.filters.bloom import BloomFilter
    from mmbloom.keys.pieces import Nulls


class NewKeys:
    """Keys that a filter definitely does not have, taken from any number of batches.

    Guarantee: nothing is added before add(), which adds all of them or, where they do not fit, or a
        batch had a bad key, none.
    Sharing: one thread. What others add to the filter meanwhile is not counted as known; it may
        make add() stop at the capacity, as update() does.
    Limits: 16 bytes of memory a new key, 32 while they are sorted.
    """

    def __init__(self, target: BloomFilter) -> None:
        """Begin with none; *target* may be open read-only, for a forecast."""
        self._target = target
        self._hashes = DistinctHashes()

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
        import numpy as np

        target, num_keys = self._target, 0
        target._open_payload()
        for hashes in hashes_of(keys, target._header, nulls):
            count = len(hashes) // HASH.size
            maybe = np.empty(count, np.uint8)
            answer_hashes(target, target._storage, memoryview(hashes), maybe.data)
            rows = np.frombuffer(hashes, f"V{HASH.size}")
            self._hashes.add(rows[maybe == 0].tobytes())
            num_keys += count
            if progress is not None:
                progress(num_keys)
        return num_keys

    def __len__(self) -> int:
        """Return how many distinct new keys there are."""
        return len(self._hashes)

    @property
    def fit(self) -> bool:
        """Whether add() would take them: they are within the capacity, or overfill is allowed."""
        target = self._target
        overfill = bool(target._header.overfill)
        return overfill or target.keys_added + len(self) <= target.capacity

    def forecast(self) -> float:
        """Return the fpr to expect once they are added. Cost: as BloomFilter.forecast()."""
        return self._target.forecast(len(self))

    def add(self) -> int:
        """Add them; return how many set a bit: all, but for a share of about the fpr.

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
        self._hashes = DistinctHashes()
        return added
