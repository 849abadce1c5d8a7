"""The fields that only kind 2, fuse, has: their bounds, and the payload sizes that they imply.

FORMAT.md, "Fuse filters", is normative. The engine defines what a fingerprint means.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mmbloom.format.fields import LINE_BITS

if TYPE_CHECKING:
    from mmbloom.format.fields import Refuse
    from mmbloom.format.header import Header
    from mmbloom.format.kinds import LayoutRule

ARITIES = {"fuse3": 3, "fuse4": 4}
MAX_FINGERPRINT_BITS = 32
MAX_SEGMENT_SLOTS = 1 << 18  # a place within a segment is 18 bits of the mixed hash
MAX_SEGMENTS = 1 << 14  # so a shard has at most 2^32 slots
MAX_SHARDS = 1 << 26
SEED_BYTES = 8
# A fingerprint is read with up to 4 bytes behind it.
READ_AHEAD_BITS = 32


class FuseShape(NamedTuple):
    """The dimensions of a fuse payload. If num_shards is 0, the filter holds no keys."""

    arity: int
    fingerprint_bits: int
    segment_slots: int
    num_segments: int
    num_shards: int

    @property
    def own_fields(self) -> dict[str, int]:
        """The header fields that only a fuse filter has, for new_header()."""
        return dict(zip(FIELDS, self[1:], strict=True))

    @property
    def num_slots(self) -> int:
        """Fingerprints in a shard."""
        return self.segment_slots * self.num_segments

    @property
    def num_parts(self) -> int:
        """Parts of the range of hi. Keys of part ``hi * num_parts >> 64`` start in one segment."""
        return self.num_shards * (self.num_segments - self.arity + 1)

    @property
    def table_bytes(self) -> int:
        """Bytes of the seed table at the end of the payload, padded to whole cache lines."""
        return _lines(8 * SEED_BYTES * self.num_shards)

    @property
    def shard_bytes(self) -> int:
        """Bytes of a shard, padded to whole cache lines."""
        return _lines(self.num_slots * self.fingerprint_bits + READ_AHEAD_BITS)

    @property
    def num_bits(self) -> int:
        """Bits of the whole payload; one cache line if there are no shards."""
        return 8 * max(LINE_BITS // 8, self.table_bytes + self.num_shards * self.shard_bytes)


FIELDS = FuseShape._fields[1:]


def _lines(num_bits: int) -> int:
    return -(-num_bits // LINE_BITS) * (LINE_BITS // 8)


def fuse_shape(header: Header) -> FuseShape:
    """Return the shape that the fields of a fuse header give."""
    return FuseShape(
        header.num_probes,
        header.fingerprint_bits,
        header.segment_slots,
        header.num_segments,
        header.num_shards,
    )


def check_fuse(header: Header, layout: LayoutRule, refuse: Refuse) -> None:
    """Check the fields that only a fuse filter has, and num_bits, which follows from them.

    Requires: layout, num_probes and num_bits are within the bounds of *layout*.
    """
    arity, width, slots, segments, shards = shape = fuse_shape(header)
    if arity != layout.max_probes:
        refuse("num_probes", layout.max_probes, arity)
    if not 1 <= width <= MAX_FINGERPRINT_BITS:
        refuse("fingerprint_bits", f"1 to {MAX_FINGERPRINT_BITS}", width)
    if shards:
        _check_segments(shape, refuse)
    else:
        for field, found in (("segment_slots", slots), ("num_segments", segments)):
            if found:
                refuse(field, "0 without shards", found)
    if header.num_bits != shape.num_bits:
        refuse("num_bits", shape.num_bits, header.num_bits)
    if header.overfill:
        refuse("overfill", "0 for kind fuse", header.overfill)


def _check_segments(shape: FuseShape, refuse: Refuse) -> None:
    """Check the numbers of shards, slots and segments of a filter that has shards."""
    arity, _, slots, segments, shards = shape
    if shards > MAX_SHARDS:
        refuse("num_shards", f"at most {MAX_SHARDS}", shards)
    if slots & (slots - 1) or not 1 <= slots <= MAX_SEGMENT_SLOTS:
        refuse("segment_slots", f"a power of two up to {MAX_SEGMENT_SLOTS}", slots)
    if not arity <= segments <= MAX_SEGMENTS:
        refuse("num_segments", f"{arity} to {MAX_SEGMENTS}", segments)
