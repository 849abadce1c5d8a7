"""The Bloom filter: the kind that keys can be added to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from mmbloom.filters.changeable import ChangeableFilter
from mmbloom.kinds import BLOOM

if TYPE_CHECKING:
    from mmbloom.filters.opened import Opened
    from mmbloom.sizing.bloom import BloomGeometry


class BloomFilter(ChangeableFilter):
    """A fixed-size Bloom filter, in a mapped file or in memory.

    Guarantee: a key that was added is never answered "definitely not". *capacity* distinct keys
        always fit.
    Durability: what add() and update() have returned for is seen by other processes at once, and
        survives power loss after flush() or close(). A sealed file never changes again.
    Sharing: one writer and any number of readers, on one host. Threads may look up, add and close
        at the same time; batches release the GIL. A forked child may go on with readers, and with
        filters in memory as copies of its own; a writer is closed there, and so is a filter that
        another thread was changing. Pickling a reader stores path and UUID, not the bits.
    Limits: no removal, no growth. A key never added is answered "maybe" with chance expected_fpr();
        somebody who knows the seed can choose keys that always are.
    """

    kind = "bloom"
    _kind = BLOOM

    @property
    def geometry(self) -> BloomGeometry:
        """Layout, num_bits and num_probes together, with the sizes that follow from them."""
        return BLOOM.geometry(self._opened.header)

    def __and__(self, other: object) -> Self:
        """Return the bits that both have, in memory.

        An over-approximation of the filter of the common keys: each of those is "maybe", and other
        keys are so more often than in a filter to which only the common keys were added.
        """
        return self._intersected(other) if isinstance(other, type(self)) else NotImplemented

    def __iand__(self, other: object) -> Self:
        """Keep the bits that *other* has too. ``&`` says what that over-approximates.

        A file is flushed. In memory it takes the payload twice more.
        """
        if not isinstance(other, type(self)):
            return NotImplemented
        self._check_writable()
        # A copy: what is cleared cannot be taken back if the other's file turns out to be cut.
        with other.copy() as theirs, self._intersected(theirs) as common:
            # With the other's bits, not the common ones: keys that another thread adds meanwhile
            # stay if the other has them.
            bits = theirs._opened.payload
            self._clear_bits(lambda mine: _intersect(mine, bits), common.keys_added)
        return self

    def _intersected(self, other: BloomFilter) -> Self:
        def intersect(result: Self, theirs: Opened) -> None:
            mine, before = result.keys_added, result._opened.estimated_keys()
            canaries = result._canary_hashes + other._canary_hashes
            result._change_payload(lambda bits: _intersect(bits, theirs.payload), 0, canaries)
            # As many keys as could be common: the share that the remaining bits speak for.
            share = result._opened.estimated_keys() / before if before else 0.0
            result._num_keys = min(round(mine * share), mine, other._count_now())

        return self._combined(other, intersect)


def _intersect(target: memoryview, other: memoryview) -> None:
    import numpy as np

    bits = np.frombuffer(target, np.uint8)
    np.bitwise_and(bits, np.frombuffer(other, np.uint8), out=bits)
