"""Keys to add to a filter: counted, with a forecast, before any of them is added."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmbloom.errors import CapacityError
from mmbloom.filters.access import add_hashes, has_room_for, opened_now, writable_now
from mmbloom.filters.lookup import answer_hashes
from mmbloom.format.fields import HASH
from mmbloom.operations.distinct import DistinctHashes
from mmbloom.storage.progress import Reporter

if TYPE_CHECKING:
    from collections.abc import Callable

    from mmbloom.filters.changeable import ChangeableFilter
    from mmbloom.filters.opened import Opened
    from mmbloom.keys.pieces import Nulls
    from mmbloom.storage.progress import Progress


class Additions:
    """Keys that a filter definitely does not have, taken from any number of batches.

    Guarantee: nothing is added before add(). It adds all keys, or none if they do not fit or a
        batch had a bad key.
    Counting filters: add() counts every distinct key once more, even if it is "maybe" already. It
        may be "maybe" by chance. If it were not counted, it would be answered "definitely not"
        once the keys that cover it are removed. A key that was in must then be removed twice.
    Sharing: one thread. Keys that others add to the filter meanwhile are not taken into account;
        they may make add() stop at the capacity, as update() does.
    Limits: 16 bytes of memory for each new key, 32 while they are sorted. For a counting filter
        this is for each key.
    """

    def __init__(self, target: ChangeableFilter) -> None:
        """Start with no keys; *target* may be open read-only, for a forecast.

        For a reader that follows its path, the file that it has open now is the target.
        """
        self._target, self._opened = target, opened_now(target)
        self._takes_all = self._opened.kind.needs_distinct
        self._hashes = DistinctHashes()
        self._num_new: int | None = 0  # None: to be counted

    def take(
        self,
        keys: object,
        *,
        nulls: Nulls = "raise",
        progress: Callable[[Progress], object] | None = None,
    ) -> int:
        """Look up a batch and keep what is new. Return the number of its keys, with repetitions.

        Args:
            keys: as for BloomFilter.update().
            nulls: as for BloomFilter.update().
            progress: called with a Progress from this thread, at most every 0.1 s.

        Raises:
            KeyTypeError, KeyValueError: a bad key.
        """
        opened_now(self._target)  # raises if it is closed
        self._num_new = None
        reporter = Reporter(progress, "look up", "keys")
        if self._takes_all:
            return self._hashes.take(keys, self._opened.header, nulls, reporter)
        return self._hashes.take(
            keys, self._opened.header, nulls, reporter, lambda each: split(self._opened, each)[0]
        )

    def __len__(self) -> int:
        """Return the number of distinct new keys."""
        if self._num_new is None:
            hashes = self._hashes.sorted()
            new = split(self._opened, hashes)[0] if self._takes_all else hashes
            self._num_new = len(new) // HASH.size
        return self._num_new

    @property
    def num_to_add(self) -> int:
        """Keys that add() adds: the new ones; for a counting filter all distinct ones."""
        return len(self._hashes)

    def fits(self) -> bool:
        """Return whether add() would add them: there is room, or overfill is allowed.

        Cost: if a counting filter seems to be full, one pass over the payload, because its stored
        count drifts when keys are removed.
        """
        return has_room_for(self._target, len(self))

    def forecast(self) -> float:
        """Return the fpr to expect once they are added. Cost: as BloomFilter.forecast()."""
        return self._target.forecast(len(self))

    def add(self) -> int:
        """Add them; return how many were new, as update() does.

        Raises:
            CapacityError: they do not fit; none was added.
            ReadOnlyError: the filter is open read-only. OSError: as BloomFilter.update().
        """
        writable_now(self._target)
        if not self.fits():
            known = self._target.keys_added
            where = f"{self._opened.where}: {known} keys and {len(self)} new ones"
            raise CapacityError(where, self._target.capacity)
        added = add_hashes(self._target, self._hashes.sorted())
        self._hashes, self._num_new = DistinctHashes(), 0
        return added


def split(opened: Opened, hashes: bytes | bytearray) -> tuple[bytes, bytes]:
    """Return the *hashes* that are definitely not in the filter, and those that may be."""
    import numpy as np

    maybe = np.empty(len(hashes) // HASH.size, np.uint8)
    answer_hashes(opened, memoryview(hashes), maybe.data)
    rows = np.frombuffer(hashes, f"V{HASH.size}")
    return rows[maybe == 0].tobytes(), rows[maybe == 1].tobytes()
