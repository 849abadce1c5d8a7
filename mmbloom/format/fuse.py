"""The shape of a fuse payload: how its sizes follow from five header fields, and their bounds.

FORMAT.md, "Fuse filters", is normative. What a fingerprint means is the engine's business.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from mmbloom.format.fields import BLOCK_BITS, LAYOUT_NAMES, Rule

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ARITIES = {"fuse3": 3, "fuse4": 4}
MAX_FINGERPRINT_BITS = 32
MAX_SEGMENT_SLOTS = 1 << 18  # a place within a segment is 18 bits of the mixed hash
MAX_SEGMENTS = 1 << 14  # so a shard has at most 2^32 slots
MAX_SHARDS = 1 << 26
SEED_BYTES = 8
# A fingerprint is read with up to 4 bytes behind it.
READ_AHEAD_BITS = 32
FIELDS = ("fingerprint_bits", "segment_slots", "num_segments", "num_shards")


class FuseShape(NamedTuple):
    """What a reader needs to know of a fuse payload. With num_shards 0 it holds no key."""

    arity: int
    fingerprint_bits: int
    segment_slots: int
    num_segments: int
    num_shards: int

    @property
    def num_slots(self) -> int:
        """Fingerprints in a shard."""
        return self.segment_slots * self.num_segments

    @property
    def num_parts(self) -> int:
        """Parts of the range of hi, ``hi * num_parts >> 64``: keys of one start in one segment."""
        return self.num_shards * (self.num_segments - self.arity + 1)

    @property
    def table_bytes(self) -> int:
        """Bytes of the table of seeds at the end of the payload: whole cache lines."""
        return _lines(8 * SEED_BYTES * self.num_shards)

    @property
    def shard_bytes(self) -> int:
        """Bytes of a shard: whole cache lines."""
        return _lines(self.num_slots * self.fingerprint_bits + READ_AHEAD_BITS)

    @property
    def num_bits(self) -> int:
        """Bits of the whole payload; one line if there are no shards."""
        return 8 * max(BLOCK_BITS // 8, self.table_bytes + self.num_shards * self.shard_bytes)


def _lines(num_bits: int) -> int:
    return -(-num_bits // BLOCK_BITS) * (BLOCK_BITS // 8)


def fuse_shape(values: Mapping[str, Any]) -> FuseShape:
    """Return the shape that the fields of a header of kind 2 give."""
    return FuseShape(values["num_probes"], *(values[name] for name in FIELDS))


def fuse_rules(values: Mapping[str, Any]) -> Iterator[Rule]:
    """Yield the rules of the fields that only kind 2 has; layout and num_probes hold."""
    arity = ARITIES[LAYOUT_NAMES[values["layout"]]]
    shape = fuse_shape(values)
    yield Rule("num_probes", shape.arity == arity, arity, shape.arity)
    width, most = shape.fingerprint_bits, MAX_FINGERPRINT_BITS
    yield Rule("fingerprint_bits", 1 <= width <= most, f"1 to {most}", width)
    shards, empty = shape.num_shards, not shape.num_shards
    yield Rule("num_shards", shards <= MAX_SHARDS, f"at most {MAX_SHARDS}", shards)
    slots = shape.segment_slots
    is_power = not slots & (slots - 1) and 1 <= slots <= MAX_SEGMENT_SLOTS
    expected = "0 without shards" if empty else f"a power of two up to {MAX_SEGMENT_SLOTS}"
    yield Rule("segment_slots", not slots if empty else is_power, expected, slots)
    segments = shape.num_segments
    fits = not segments if empty else arity <= segments <= MAX_SEGMENTS
    expected = "0 without shards" if empty else f"{arity} to {MAX_SEGMENTS}"
    yield Rule("num_segments", fits, expected, segments)
    yield Rule("num_bits", values["num_bits"] == shape.num_bits, shape.num_bits, values["num_bits"])
    yield Rule("overfill", not values["overfill"], "0 for kind fuse", values["overfill"])
