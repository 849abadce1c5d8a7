"""Keys to remove from a counting filter: looked up before any of them is removed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from mmbloom.errors import AbsentKeyError, ParameterError
from mmbloom.filters.access import opened_now, remove_hashes, writable_now
from mmbloom.format.fields import HASH
from mmbloom.operations.additions import split
from mmbloom.operations.distinct import DistinctHashes
from mmbloom.storage.progress import Reporter

if TYPE_CHECKING:
    from collections.abc import Callable

    from mmbloom.filters.counting import CountingBloomFilter
    from mmbloom.keys.pieces import Nulls
    from mmbloom.storage.progress import Progress


class RemovalReport(NamedTuple):
    """What a removal did.

    Attributes:
        keys: how many keys were removed, each once.
        gone: how many of these are definitely not in now. The others were added more often, or
            other keys cover them.
        never_added: keys that were "maybe" before, and absent when their turn came. They, or others
            that were removed with them, had never been added. Other keys may now be answered
            "definitely not": build the filter again.
    """

    keys: int
    gone: int
    never_added: int


class Removals:
    """Keys to remove from a counting filter, taken from any number of batches, each once.

    Guarantee: nothing is removed before remove(). Nothing is removed at all if a batch had a bad
        key, or if a key is definitely not in and absent keys are not skipped.
    Sharing: one thread.
    Limits: remove only keys that were added. A key that was never added, and is "maybe" by chance,
        is removed all the same, which damages others. So do not repeat a removal that a kill or a
        power loss has cut short with if_absent="skip": a few of the keys that it had removed, about
        the fpr, are still "maybe" and would be removed twice. 16 bytes of memory for each key, 32
        while they are sorted.
    """

    def __init__(self, target: CountingBloomFilter) -> None:
        """Start with no keys; *target* may be open read-only, to see what would happen."""
        self._target, self._opened = target, opened_now(target)
        self._hashes = DistinctHashes()

    def take(
        self,
        keys: object,
        *,
        nulls: Nulls = "raise",
        progress: Callable[[Progress], object] | None = None,
    ) -> int:
        """Keep the keys of a batch; return how many there are, with repetitions.

        Args:
            keys: as for CountingBloomFilter.update().
            nulls: as for CountingBloomFilter.update().
            progress: called with a Progress from this thread, at most every 0.1 s.

        Raises:
            KeyTypeError, KeyValueError: a bad key.
        """
        opened_now(self._target)  # raises if it is closed
        reporter = Reporter(progress, "read", "keys")
        return self._hashes.take(keys, self._opened.header, nulls, reporter)

    def __len__(self) -> int:
        """Return the number of distinct keys."""
        return len(self._hashes)

    def num_absent(self) -> int:
        """Return how many of them are definitely not in. Cost: one look-up for each."""
        return len(split(self._opened, self._hashes.sorted())[0]) // HASH.size

    def remove(self, *, if_absent: Literal["raise", "skip"] = "raise") -> RemovalReport:
        """Remove each of them once.

        Args:
            if_absent: "raise" removes nothing if a key is definitely not in; "skip" skips such
                keys.

        Raises:
            AbsentKeyError: a key is definitely not in.
            ReadOnlyError: the filter is open read-only. OSError: as CountingBloomFilter.update().
        """
        if if_absent not in ("raise", "skip"):
            raise ParameterError("if_absent", "'raise' or 'skip'", if_absent)
        writable_now(self._target)
        missing, there = split(self._opened, self._hashes.sorted())
        if missing and if_absent == "raise":
            where = f"{self._opened.where}: {len(missing) // HASH.size} of {len(self)} keys"
            raise AbsentKeyError(where, 0)
        self._hashes = DistinctHashes()
        never_added = self._remove_all(memoryview(there))
        removed = len(there) // HASH.size - never_added
        gone = len(split(self._opened, there)[0]) // HASH.size - never_added
        return RemovalReport(removed, gone, never_added)

    def _remove_all(self, hashes: memoryview) -> int:
        """Remove each key that is in when its turn comes; return how many are not."""
        num_absent = 0
        while len(hashes):
            try:
                remove_hashes(self._target, hashes)
                break
            except AbsentKeyError as exc:
                num_absent += 1
                hashes = hashes[HASH.size * (exc.num_removed + 1) :]
        return num_absent
