"""The fuse filter: built once from a whole list, smaller than a Bloom filter, never added to."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from mmbloom.errors import ReadOnlyError
from mmbloom.filters.filter import Filter
from mmbloom.kinds import FUSE

if TYPE_CHECKING:
    from mmbloom.format.fuse import FuseShape


class FuseFilter(Filter):
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
    _kind = FUSE
    _ways_to_make = ('mmbloom.build(path, keys, kind="fuse", fpr=...)',)

    @property
    def shape(self) -> FuseShape:
        """Width of the fingerprints, slots and segments of a shard, and number of shards."""
        return FUSE.shape(self._opened.header)

    @property
    def fingerprint_bits(self) -> int:
        """Bits of a fingerprint (w): the false-positive rate is 2^-w."""
        return self._opened.header.fingerprint_bits

    def add(self, key: object, /) -> NoReturn:
        """Refuse: a fuse filter is built from all of its keys at once."""
        self._refuse(f"the key {key!r} cannot be added")

    def update(self, keys: object) -> NoReturn:  # noqa: ARG002 - none of them is looked at
        """Refuse, as add()."""
        self._refuse("keys cannot be added")

    def __or__(self, other: object) -> NoReturn:
        """Refuse: the union of two fuse filters is not a fuse filter."""
        self._refuse(f"it cannot be united with {other!r}")

    __ior__ = __ror__ = __or__

    def _refuse(self, what: str) -> NoReturn:
        raise ReadOnlyError(f"{self._where()}: {what}: {FUSE.why_fixed}")
