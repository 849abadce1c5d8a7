"""The counting Bloom filter: the kind that keys can be removed from.

A counter of 4 bits stands where a Bloom filter has a bit; a key counts in each of its counters.
Counting is done by the engine's CountingCore, an ancestor of CountingBloomFilter. The rest is as
for ``bloom``, but for what removal changes: no canary is stored while keys can go, and the count of
keys may fall.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from mmbloom.engine import CountingCore, counter_histogram, flatten_counters
from mmbloom.errors import AbsentKeyError, CapacityError
from mmbloom.filters import combining, measure
from mmbloom.filters.adding import AddingHandle
from mmbloom.filters.bloom import BloomFilter
from mmbloom.filters.parameters import fresh
from mmbloom.filters.sealing import write_sealed
from mmbloom.format.fields import COUNTER_BITS, HASH
from mmbloom.format.header import new_header
from mmbloom.format.status import Status
from mmbloom.storage.mapped import MappedFile
from mmbloom.storage.writable import WritableFile

if TYPE_CHECKING:
    from mmbloom.format.header import Header
    from mmbloom.keys.pieces import Nulls
    from mmbloom.storage.paths import FilePath
    from mmbloom.storage.publish import IfExists


class CountingBloomFilter(AddingHandle, CountingCore):
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
    """

    kind = "counting"
    place_bits = COUNTER_BITS

    def _attach_payload(self, payload: memoryview) -> None:
        header, status = self._header, self._status
        facts = self._attachment(payload)
        num_saturated = status.num_saturated
        if isinstance(self._storage, WritableFile) and status.writer_open:
            # The last writer died: keys may have come and gone since it counted.
            facts["keys_added"] = self._fewest_keys(payload)
            num_saturated = counter_histogram(payload)[1]
        self._attach(
            payload,
            header.num_bits // COUNTER_BITS,
            header.num_probes,
            header.seed,
            header.key_form,
            num_saturated=num_saturated,
            **facts,
        )

    # -- facts -------------------------------------------------------------------------------------

    @property
    def num_counters(self) -> int:
        """Counters of the filter: num_bits / 4."""
        return self.num_bits // COUNTER_BITS

    def _count_set(self, payload: memoryview) -> int:
        return measure.set_counters(payload)

    def _kind_facts(self) -> dict[str, Any]:
        facts = super()._kind_facts()
        return {**facts, "num_counters": self.num_counters, "num_saturated": self.num_saturated}

    def _keys_by_estimate(self) -> int:
        return self._fewest_keys(self._open_payload())

    def _count_now(self) -> int:
        """Return keys_added; of a file that others may have changed since, a count not too high."""
        self._check_whole()
        self._read_status()
        if isinstance(self._storage, MappedFile) and self._status.writer_open:
            whole = self._whole()
            with whole._whole_payload() as payload:
                return whole._fewest_keys(payload)
        return self.keys_added

    def _read_status(self) -> None:
        super()._read_status()
        if isinstance(self._storage, MappedFile):
            self.num_saturated = self._status.num_saturated

    # -- keys --------------------------------------------------------------------------------------

    def remove_many(self, keys: object, *, nulls: Nulls = "raise") -> int:
        """Remove a batch of keys; return how many are definitely not in now.

        Args:
            keys: as for update(). A key that is there twice is removed twice.
            nulls: "raise", or "skip" the nulls of Arrow data.

        Raises:
            AbsentKeyError: a KeyError; a key was definitely not in. The keys before it were removed
                (``num_removed`` of them); of it and of the keys behind it nothing was changed.
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

    # -- sets --------------------------------------------------------------------------------------

    def __or__(self, other: object) -> Self:
        """Return the union, in memory: counters are added up, to 15 at most.

        So a key that both have must be removed twice. It may be past the capacity: keys_added and
        expected_fpr() tell. Raises IncompatibleError for the first field that differs,
        ChecksumError as copy().
        """
        if not isinstance(other, CountingBloomFilter):
            return NotImplemented
        mine, other = self._whole(), other._whole()
        combining.check_compatible(mine, other)
        result = mine.copy()
        other.verify()
        with other._whole_payload() as theirs:
            result._combine(theirs, "or", 0)
        result.keys_added = combining.keys_of_union(mine, other, result._open_payload())
        result._canary_hashes = result._found(mine._canary_hashes + other._canary_hashes)
        return result

    def __ior__(self, other: object) -> Self:
        """Add the counters of *other*.

        If by estimate the union does not fit: CapacityError, and nothing is changed. In memory it
        takes the payload twice more.
        """
        if not isinstance(other, CountingBloomFilter):
            return NotImplemented
        self._check_writable()
        with other.copy() as still, self | still as union:
            if union.keys_added > self.capacity and not self._header.overfill:
                where = f"{self._where()}, united with about {union.keys_added} keys in all"
                raise CapacityError(where, self.capacity)
            self._combine(still._open_payload(), "or", union.keys_added)
            with self._mutex:
                self._canary_hashes = union._canary_hashes
        return self

    # -- to the disk -------------------------------------------------------------------------------

    def to_bloom(self, path: FilePath, *, if_exists: IfExists = "raise") -> BloomFilter:
        """Write the filter as it is as a sealed Bloom filter, and open that read-only.

        It has a quarter of the size and gives the same answers: layout "narrow", one bit for each
        counter.

        Args:
            path: where; the file appears complete or not at all.
            if_exists: "raise", or "replace" the file that is there; readers of the old one keep it.

        Raises:
            OSError, NoSpaceError: as create(). ChecksumError: as copy().

        Cost: one pass over the payload, and memory for a quarter of it.
        """
        whole = self._whole()
        whole.verify()
        header = _flat_header(whole._header)
        bits = bytearray(header.payload_bytes)
        # So that the canaries are those of these bits.
        with whole._mutex, whole._whole_payload() as payload:
            flatten_counters(payload, bits)
            canaries = whole._found(whole._canary_hashes)
            status = Status(keys_added=whole._count_now(), canaries=canaries)
        facts = header, status
        write_sealed(path, header, [bits], lambda _: facts, if_exists=if_exists)
        return BloomFilter.open(path)

    def _status_now(self) -> Status:
        """Return the status to store. While keys can be removed it holds no canaries.

        A canary that is stored must be in, and a removal would have to take it back first, with a
        sync.
        """
        status = self._status_to_seal()
        return status if status.is_sealed else status._replace(canaries=())

    def _status_to_seal(self) -> Status:
        status = super()._status_now()
        if status.is_sealed:
            return status
        return status._replace(num_saturated=self.num_saturated)


def _flat_header(header: Header) -> Header:
    """Return the header of the Bloom filter that has a bit for each counter."""
    flat = new_header(
        layout="narrow",
        num_bits=header.num_bits // COUNTER_BITS,
        num_probes=header.num_probes,
        capacity=header.capacity,
        fpr=header.fpr,
        uuid=header.uuid,
        created_unix_ns=header.created_unix_ns,
        seed=header.seed,
        key_form=header.key_form_name,
        metadata=header.metadata,
        overfill=bool(header.overfill),
    )
    return fresh(flat)
