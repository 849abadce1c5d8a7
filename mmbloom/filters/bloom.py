"""The Bloom filter: the kind that can be added to.

What a call means and what it refuses. Bits are set and read by the engine's BloomCore, an ancestor
of BloomFilter, so that ``key in f`` costs no Python frame. ``bloom_facts`` has what a filter tells
of itself, ``handle`` and ``changing`` its life while it is open, ``adding`` its batches,
``combining`` what two of them have in common, and ``sizing`` and ``estimates`` the formulas.
"""

from __future__ import annotations

from typing import Self

from mmbloom.engine import BloomCore
from mmbloom.errors import CapacityError
from mmbloom.filters import combining
from mmbloom.filters.adding import AddingHandle


class BloomFilter(AddingHandle, BloomCore):
    """A fixed-size Bloom filter, in a mapped file or in memory.

    Guarantee: a key that was added is never answered "definitely not". *capacity* distinct keys
        always fit.
    Durability: what add() and update() have returned for is seen by other processes at once, and
        survives power loss after flush() or close(). A sealed file never changes again.
    Sharing: one writer and any number of readers, on one host. Threads may look up, add and close
        at the same time; batches release the GIL. A forked child may go on with readers, and with
        filters in memory as copies of its own; a writer is closed there, and so is what another
        thread was changing. Pickling a reader stores path and UUID, not the bits.
    Limits: no removal, no growth. A key never added is answered "maybe" with chance expected_fpr();
        somebody who knows the seed can choose keys that always are.
    """

    kind = "bloom"

    def _attach_payload(self, payload: memoryview) -> None:
        header = self._header
        self._attach(
            payload,
            header.layout,
            header.num_bits,
            header.num_probes,
            header.seed,
            header.key_form,
            **self._attachment(payload),
        )

    # -- sets --------------------------------------------------------------------------------------

    def __or__(self, other: object) -> Self:
        """Return the union, in memory: exactly the filter of the keys of both.

        It may be past the capacity: keys_added and expected_fpr() tell. Raises IncompatibleError
        for the first field that differs, ChecksumError as copy().
        """
        return self._combined(other, "or") if isinstance(other, BloomFilter) else NotImplemented

    def __and__(self, other: object) -> Self:
        """Return the bits that both have, in memory.

        An over-approximation of the filter of the common keys: each of those is "maybe", and other
        keys are so more often than in a filter to which only the common keys were added.
        """
        return self._combined(other, "and") if isinstance(other, BloomFilter) else NotImplemented

    def __ior__(self, other: object) -> Self:
        """Add every key of *other*.

        If by estimate the union does not fit: CapacityError, and nothing is changed. In memory it
        takes the payload once more.
        """
        if not isinstance(other, BloomFilter):
            return NotImplemented
        self._check_writable()
        with self | other as union:
            if union.keys_added > self.capacity and not self._header.overfill:
                where = f"{self._where()}, united with about {union.keys_added} keys in all"
                raise CapacityError(where, self.capacity)
            self._combine(union._open_payload(), "or", union.keys_added)
            with self._mutex:
                self._canary_hashes = union._canary_hashes
        return self

    def __iand__(self, other: object) -> Self:
        """Keep the bits that *other* has too. ``&`` says what that over-approximates.

        A file is flushed. In memory it takes the payload twice more.
        """
        if not isinstance(other, BloomFilter):
            return NotImplemented
        self._check_writable()
        # A copy: what is cleared cannot be taken back if the other's file turns out to be cut.
        with other.copy() as theirs, self & theirs as common:
            # With the other's bits, not the common ones: keys that another thread adds meanwhile
            # stay if the other has them.
            self._clear_bits(theirs._open_payload(), "and", common.keys_added)
        return self

    def _combined(self, other: BloomFilter, operation: str) -> Self:
        mine, other = self._whole(), other._whole()
        combining.check_compatible(mine, other)
        result = mine.copy()
        other.verify()
        with other._whole_payload() as theirs:
            result._combine(theirs, operation, 0)
        count = combining.keys_of_union if operation == "or" else combining.keys_of_intersection
        result.keys_added = count(mine, other, result._open_payload())
        result._canary_hashes = result._found(mine._canary_hashes + other._canary_hashes)
        return result
