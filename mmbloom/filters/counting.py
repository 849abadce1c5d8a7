"""The counting Bloom filter: the kind that keys can be removed from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmbloom.engine import hash_key
from mmbloom.errors import AbsentKeyError
from mmbloom.filters.bloom import BloomFilter
from mmbloom.filters.changeable import ChangeableFilter
from mmbloom.filters.sealing import write_sealed
from mmbloom.format.fields import COUNTER_BITS, HASH
from mmbloom.format.status import Status
from mmbloom.kinds import COUNTING

if TYPE_CHECKING:
    from typing import Any

    from mmbloom.keys.pieces import Nulls
    from mmbloom.sizing.bloom import BloomGeometry
    from mmbloom.storage.paths import FilePath
    from mmbloom.storage.publish import IfExists


class CountingBloomFilter(ChangeableFilter):
    """A Bloom filter of fixed size that keys can be removed from, in a mapped file or in memory.

    Guarantee: a key that was added more often than it was removed is never answered "definitely
        not", as long as only keys are removed that were added. *capacity* distinct keys always fit.
    Counts: a key that is added n times must be removed n times. A counter ends at 15 and then stays
        there for good, so a key that was added 15 times or more can no longer be removed entirely;
        ``num_saturated`` tells how many counters that concerns.
    Durability: as for BloomFilter. What was added, or removed, since the last flush() may or may
        not be in a file after power loss, each key for itself; keys that were in before, and were
        not removed, are in.
    Sharing: as for BloomFilter. A reader beside the writer sees every key that stays in, whatever
        is added and removed meanwhile.
    Limits: four times the size of the bits that it stands for, which to_bloom() leaves for serving:
        a key takes 43 bits at 0.01, 76 at 0.001, 124 at 0.0001. No intersection. Removing a key
        that was never added, but is answered "maybe", damages others: see remove().

    ``keys_added`` counts the distinct keys as far as counters tell: up by one when an added key was
    certainly absent, down by one when a removed key is so afterwards. Either is missed with the
    false-positive rate, so with removals the count drifts, up or down alike.
    """

    kind = "counting"
    _kind = COUNTING

    @property
    def geometry(self) -> BloomGeometry:
        """Layout, num_bits and num_probes together, with the sizes that follow from them."""
        return COUNTING.geometry(self._opened.header)

    @property
    def num_counters(self) -> int:
        """Counters of the filter: num_bits / 4."""
        return self.num_bits // COUNTER_BITS

    @property
    def num_saturated(self) -> int:
        """Counters that have reached 15, where they stay."""
        opened = self._opened
        return self._num_saturated if self.writable else opened.status.num_saturated

    def info(self) -> dict[str, Any]:
        """Return everything that the filter says of itself; see Filter.info()."""
        return super().info() | {"num_saturated": self.num_saturated}

    def count_estimate(self, key: object, /) -> int:
        """Return an upper bound of how often *key* was added and not removed, 0 to 15.

        15 stands for 15 or more. The answer is too high with about the false-positive rate.

        Raises:
            KeyTypeError, KeyValueError: not a key. ClosedError.
        """
        opened = self._now()
        digest = HASH.pack(*hash_key(key, opened.header.seed, opened.header.key_form))
        view = opened.attached
        with opened.storage.loaded(view.pages_of(digest)):
            return view.count_of(digest)

    def remove(self, key: object, /) -> bool:
        """Remove one key; return whether it is definitely not in now.

        It may still be "maybe": added more often, or covered by other keys. A key that was never
        added but is answered "maybe" is removed all the same: that takes counts from keys that are
        in, which may then be answered "definitely not". Remove only what was added.

        Raises:
            AbsentKeyError: a KeyError; *key* is definitely not in, and nothing was changed.
            KeyTypeError, KeyValueError: not a key. ReadOnlyError, ClosedError.
        """
        return self._remove(key)

    def remove_many(self, keys: object, *, nulls: Nulls = "raise") -> int:
        """Remove a batch of keys; return how many are definitely not in now.

        Args:
            keys: as for update(). A key that is there twice is removed twice.
            nulls: "raise", or "skip" the nulls of Arrow data.

        Raises:
            AbsentKeyError: a KeyError; a key was definitely not in. The keys before it were removed
                (``num_removed`` of them); it and the keys after it were not.
            KeyTypeError, KeyValueError: a bad key, as for update(): nothing of its piece was
                removed.

        Cost: as update().
        """
        num_gone = num_removed = 0
        for hashes in self._hashes_to_change(keys, nulls):
            try:
                num_gone += self._remove_hashes(hashes)
            except AbsentKeyError as exc:
                raise AbsentKeyError(exc.where, num_removed + exc.num_removed) from None
            num_removed += len(hashes) // HASH.size
        return num_gone

    def _remove_one(self, digest: bytes) -> bool:
        return self._remove_hashes(digest) == 1

    def _remove_hashes(self, hashes: bytes | bytearray | memoryview) -> int:
        """Remove hashes in order; return how many are certainly absent now."""
        view = memoryview(hashes)
        with self._changing() as opened:
            done, num_gone = opened.attached.remove_many(view)
            self._has_removed = True
            self._num_keys -= min(self._num_keys, num_gone)
        if done < len(view) // HASH.size:
            raise AbsentKeyError(self._where(), done)
        return num_gone

    def to_bloom(self, path: FilePath, *, if_exists: IfExists = "raise") -> BloomFilter:
        """Write the filter as it is as a sealed Bloom filter, and open that read-only.

        It has a quarter of the size and gives the same answers: layout "narrow", one bit for each
        counter.

        Args:
            path: where; the file appears complete or not at all.
            if_exists: "raise", or "replace" the file that is there; its readers keep the old one.

        Raises:
            OSError, NoSpaceError: as create(). ChecksumError: as copy().

        Cost: one pass over the payload, and memory for a quarter of it.
        """
        opened = self._now()
        opened.verify()
        header, count = COUNTING.flat_header(opened.header), self._count_now()
        with self._mutex, opened.whole() as whole:  # so that the canaries are those of these bits
            bits = COUNTING.flat_payload(opened.header, whole.payload)
            status = Status(keys_added=count, canaries=whole.found(self._canary_hashes))
        write_sealed(path, header, [bits], lambda _: (header, status), if_exists=if_exists)
        return BloomFilter.open(path)
