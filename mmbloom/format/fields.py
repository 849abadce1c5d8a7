"""The tables of format version 1: every field's place, every number that a file may hold.

FORMAT.md is normative; tests/format/test_format_doc.py fails where its tables and these differ.
All of this is part of the file: a table is never changed once released, only joined by that of a
new format version.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, NamedTuple

from mmbloom.errors import FormatError, ParameterError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

# A byte outside ASCII, CR LF and Ctrl-Z: a copy in text mode changes one of them (the idea of PNG).
MAGIC = b"\x89MMB\r\n\x1a\n"
FORMAT_VERSION = 1
HEADER_BYTES = 4096
CHUNK_BYTES = 1 << 20
KIND_BLOOM, KIND_FUSE, KIND_COUNTING = 1, 2, 3
KIND_NAMES = {KIND_BLOOM: "bloom", KIND_FUSE: "fuse", KIND_COUNTING: "counting"}
COUNTER_BITS = 4
HASH_XXH3_128 = 1
KEY_FORMS = {"raw": 0, "hex": 1}

# 2^53 bits are 1 PiB: exact as a double, and no product of header fields leaves 64 bits.
MAX_NUM_BITS = 1 << 53
MAX_CAPACITY = 1 << 48
MAX_SEED = (1 << 64) - 1
MAX_METADATA_BYTES = 2048
MAX_CANARIES = 8
BLOCK_BITS = 512  # the payload is padded to whole cache lines

# Its hash under the seed is stored: a reader proves in O(1) that it hashes as the builder did.
KNOWN_ANSWER_KEY = b"mmbloom known answer 1"

# How a 128-bit hash is stored: its high half, then its low half.
HASH = struct.Struct("<QQ")

SLOT_OFFSETS = (512, 1024)
SLOT_BYTES = 512
WRITABLE, SEALED = 1, 2
WRITER_OPEN, KEYS_EXACT, FINGERPRINT_KNOWN = 1, 2, 4


class LayoutRule(NamedTuple):
    """What a layout fixes: its numbers, the kind that has it, and the bounds of other fields."""

    number: int
    kind: int
    probe_scheme: int
    block_bytes: int
    max_probes: int

    @property
    def num_bits_step(self) -> int:
        """num_bits is a multiple of this: whole lines, whole pages, or any number of bits."""
        return 8 * self.block_bytes or 1


LAYOUT_RULES = {
    "classic": LayoutRule(1, KIND_BLOOM, 1, 0, 64),
    "line": LayoutRule(2, KIND_BLOOM, 2, 64, 16),
    "page": LayoutRule(3, KIND_BLOOM, 3, 4096, 32),
    "narrow": LayoutRule(4, KIND_BLOOM, 4, 16, 16),
    "fuse3": LayoutRule(5, KIND_FUSE, 5, 0, 3),
    "fuse4": LayoutRule(6, KIND_FUSE, 6, 0, 4),
    # A counter for each bit of `narrow`, and so the same probes.
    "counters": LayoutRule(7, KIND_COUNTING, 4, 64, 16),
}
# Named for the first layout that has it.
SCHEME_NAMES = {rule.probe_scheme: f"{name}-1" for name, rule in reversed(LAYOUT_RULES.items())}
LAYOUT_NAMES = {rule.number: name for name, rule in LAYOUT_RULES.items()}
KEY_FORM_NAMES = {number: name for name, number in KEY_FORMS.items()}


class Rule(NamedTuple):
    """What must hold for a field: a reader raises the first that does not, a writer breaks none."""

    field: str
    holds: bool
    expected: object
    found: object
    hint: str = ""
    error: type[FormatError] = FormatError


def check_parameters(rules: Iterable[Rule]) -> None:
    """Raise ParameterError for the first rule that a reader of what is to be written would miss."""
    for rule in rules:
        if not rule.holds:
            raise ParameterError(rule.field, str(rule.expected), rule.found, rule.hint)


def is_zero(data: bytes) -> bool:
    """Return whether *data* is all zeros; ten times as fast as any()."""
    return data == bytes(len(data))


class Field(NamedTuple):
    """One row: the bytes ``[offset, offset + size)`` and the struct code that reads them."""

    offset: int
    size: int
    code: str
    name: str


class FieldTable:
    """Rows without a gap between them, and the little-endian struct that their codes make."""

    def __init__(self, *fields: Field) -> None:
        """Take the rows in the order of their offsets."""
        self.fields = fields
        self.struct = struct.Struct("<" + "".join(field.code for field in fields))
        self.offsets = {field.name: field.offset for field in fields}

    def unpack(self, data: bytes) -> dict[str, Any]:
        """Return every field of *data*, exactly one table long, by name. Nothing is checked."""
        return dict(zip(self.offsets, self.struct.unpack(data), strict=True))

    def pack(self, values: Mapping[str, object]) -> bytes:
        """Return the bytes of *values*, which must name every field that is not reserved."""
        zeros = {name: b"" for name in self.offsets if name.startswith("reserved")}
        known = zeros | dict(values)
        return self.struct.pack(*(known[name] for name in self.offsets))

    def check(self, rules: Iterable[Rule], path: str, base: int = 0) -> None:
        """Raise the first rule that does not hold; the table starts at *base* of the file."""
        for rule in rules:
            if not rule.holds:
                raise self.error(rule, path, base)

    def error(self, rule: Rule, path: str, base: int = 0) -> FormatError:
        """Return the error of a rule that does not hold."""
        offset = base + self.offsets[rule.field]
        return rule.error(path, rule.field, offset, rule.expected, rule.found, rule.hint)

    def zero_rules(self, values: Mapping[str, Any]) -> Iterator[Rule]:
        """Yield the rule of every reserved field: its bytes are zero."""
        for name, value in values.items():
            if name.startswith("reserved"):
                yield Rule(name, is_zero(value), "zeros", "other bytes")


HEADER = FieldTable(
    Field(0, 8, "8s", "magic"),
    Field(8, 2, "H", "format_version"),
    Field(10, 2, "2s", "reserved0"),
    Field(12, 4, "I", "header_bytes"),
    Field(16, 8, "Q", "incompatible_features"),
    Field(24, 8, "Q", "compatible_features"),
    Field(32, 4, "I", "kind"),
    Field(36, 2, "H", "layout"),
    Field(38, 2, "H", "probe_scheme"),
    Field(40, 2, "H", "hash_id"),
    Field(42, 2, "H", "key_form"),
    Field(44, 4, "I", "num_probes"),
    Field(48, 8, "Q", "seed"),
    Field(56, 8, "Q", "num_bits"),
    Field(64, 4, "I", "block_bytes"),
    Field(68, 4, "I", "overfill"),
    Field(72, 8, "Q", "capacity"),
    Field(80, 8, "d", "fpr"),
    Field(88, 8, "Q", "payload_offset"),
    Field(96, 8, "Q", "payload_bytes"),
    Field(104, 8, "Q", "checksums_offset"),
    Field(112, 8, "Q", "checksum_chunk_bytes"),
    Field(120, 8, "Q", "num_checksums"),
    Field(128, 8, "Q", "file_bytes"),
    Field(136, 16, "16s", "uuid"),
    Field(152, 8, "q", "created_unix_ns"),
    Field(160, 16, "16s", "known_answer"),
    Field(176, 4, "I", "metadata_bytes"),
    Field(180, 4, "I", "fingerprint_bits"),
    Field(184, 4, "I", "segment_slots"),
    Field(188, 4, "I", "num_segments"),
    Field(192, 4, "I", "num_shards"),
    Field(196, 316, "316s", "reserved1"),
    Field(512, 512, "512s", "slot_a"),
    Field(1024, 512, "512s", "slot_b"),
    Field(1536, 2048, "2048s", "metadata"),
    Field(3584, 504, "504s", "reserved2"),
    Field(4088, 8, "Q", "header_checksum"),
)

STATUS = FieldTable(
    Field(0, 8, "Q", "sequence"),
    Field(8, 4, "I", "state"),
    Field(12, 4, "I", "flags"),
    Field(16, 8, "Q", "keys_added"),
    Field(24, 8, "Q", "bits_set"),
    Field(32, 8, "d", "achieved_fpr"),
    Field(40, 8, "Q", "checksum_root"),
    Field(48, 8, "Q", "generation"),
    Field(56, 16, "16s", "key_set"),
    Field(72, 4, "I", "num_canaries"),
    Field(76, 4, "4s", "reserved0"),
    Field(80, 128, "128s", "canaries"),
    Field(208, 8, "Q", "num_saturated"),
    Field(216, 288, "288s", "reserved1"),
    Field(504, 8, "Q", "slot_checksum"),
)
