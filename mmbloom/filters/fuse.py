"""The fuse filter: built once from a whole list, smaller than a Bloom filter, never added to.

What a call means and what it refuses. Fingerprints are read by the engine's FuseCore, an ancestor
of FuseFilter, so that ``key in f`` costs no Python frame. ``fuse_sizing`` has the formulas,
``fuse_payload`` makes payloads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from mmbloom.engine import FuseCore
from mmbloom.errors import ReadOnlyError
from mmbloom.filters.reloading import ReloadableHandle
from mmbloom.filters.shapes import fuse_fpr, fuse_shape_of
from mmbloom.storage.advice import PAGE_BYTES

if TYPE_CHECKING:
    from mmbloom.format.fuse import FuseShape


class FuseFilter(ReloadableHandle, FuseCore):
    """A binary fuse filter in a mapped file: the smallest kind, for lists that do not change.

    Guarantee: a key that was in the list is never answered "definitely not".
    Durability: the file is complete when it gets its name, and never changes again.
    Sharing: any number of readers, processes and threads; batches release the GIL. A forked child
        may go on. Pickling stores path and UUID, not the fingerprints.
    Limits: made by build(kind="fuse") only. No adding, no union: build the list again, or put the
        new keys into a filter of their own and ask both with a FilterStack. A key never added is
        answered "maybe" with chance expected_fpr(); somebody who knows the seed can choose keys
        that always are.
    """

    kind = "fuse"

    @property
    def shape(self) -> FuseShape:
        """Width of the fingerprints, slots and segments of a shard, and number of shards."""
        return fuse_shape_of(self._header)

    @property
    def fingerprint_bits(self) -> int:
        """Bits of a fingerprint (w): the false-positive rate is 2^-w."""
        return self._header.fingerprint_bits

    def _attach_payload(self, payload: memoryview) -> None:
        header = self._header
        self._attach(
            payload,
            *self.shape,
            header.seed,
            header.key_form,
            keys_added=self._status.keys_added,
        )

    def _index_pages(self) -> range:
        # The table of the seeds, 512 to a page: a key's slots depend on that of its shard.
        shape = self.shape
        first = shape.num_shards * shape.shard_bytes
        return range(first // PAGE_BYTES, -(-(first + shape.table_bytes) // PAGE_BYTES))

    def _measure_fpr(self, payload: memoryview) -> float:  # noqa: ARG002 - whatever the keys are
        return fuse_fpr(self.shape)

    def _kind_facts(self) -> dict[str, Any]:
        return {
            "bits_per_key": self.num_bits / max(1, self.keys_added),
            "fingerprint_bits": self.fingerprint_bits,
            "num_shards": self.shape.num_shards,
            "num_segments": self.shape.num_segments,
            "segment_slots": self.shape.segment_slots,
        }

    # -- what this kind does not offer -------------------------------------------------------------

    def add(self, key: object, /) -> NoReturn:
        """Refuse: a fuse filter is built from all of its keys at once."""
        self._refuse(f"the key {key!r} cannot be added")

    def update(self, keys: object) -> NoReturn:  # noqa: ARG002 - none of them is looked at
        """Refuse, as add()."""
        self._refuse("keys cannot be added")

    def __or__(self, other: object) -> NoReturn:
        """Refuse: the union of two fuse filters is no fuse filter."""
        self._refuse(f"it cannot be united with {other!r}")

    __ior__ = __ror__ = __or__

    def _refuse(self, what: str) -> NoReturn:
        raise ReadOnlyError(
            f"{self._where()} is a fuse filter, which never changes: {what}. Build it again from "
            "the whole list, or build a filter of the new keys and ask both with "
            "mmbloom.FilterStack"
        )
