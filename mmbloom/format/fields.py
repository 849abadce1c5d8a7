"""The field tables of format version 1: where each field is, and the numbers it may hold.

FORMAT.md is normative; tests/format/test_format_doc.py fails where its tables and these differ. All
of this is part of the file format: a released table never changes. A new format version adds its
own table. The kinds and their layouts are in ``kinds``.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, Protocol

from mmbloom.errors import FormatError, ParameterError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# A byte outside ASCII, CR LF and Ctrl-Z: a copy in text mode changes one of them (the idea of PNG).
MAGIC = b"\x89MMB\r\n\x1a\n"
FORMAT_VERSION = 1
HEADER_BYTES = 4096
CHUNK_BYTES = 1 << 20
KIND_BLOOM, KIND_FUSE, KIND_COUNTING = 1, 2, 3
COUNTER_BITS = 4
HASH_XXH3_128 = 1
KEY_FORMS = {"raw": 0, "hex": 1}
KEY_FORM_NAMES = {number: name for name, number in KEY_FORMS.items()}

# 2^53 bits are 1 PiB: exact as a double, and no product of header fields leaves 64 bits.
MAX_NUM_BITS = 1 << 53
MAX_CAPACITY = 1 << 48
MAX_SEED = (1 << 64) - 1
MAX_METADATA_BYTES = 2048
MAX_CANARIES = 8
LINE_BITS = 512  # the payload is padded to whole cache lines

# The header stores the hash of this key: a reader proves in O(1) that it hashes as the builder did.
KNOWN_ANSWER_KEY = b"mmbloom known answer 1"

# How a 128-bit hash is stored: its high half, then its low half.
HASH = struct.Struct("<QQ")

SLOT_OFFSETS = (512, 1024)
SLOT_BYTES = 512
WRITABLE, SEALED = 1, 2
WRITER_OPEN, KEYS_EXACT, KEY_SET_KNOWN = 1, 2, 4


class Refuse(Protocol):
    """What a check calls when a field breaks its rule. It raises, so the check ends there.

    Writer and reader share every check: a reader passes FieldTable.refuse() for its file, a writer
    passes refuse_parameter().
    """

    def __call__(
        self,
        field: str,
        expected: object,
        found: object,
        hint: str = "",
        error: type[FormatError] = FormatError,
    ) -> NoReturn:
        """Raise the error for *field*."""


def refuse_parameter(
    field: str,
    expected: object,
    found: object,
    hint: str = "",
    error: type[FormatError] = FormatError,  # noqa: ARG001 - the call is wrong, not a file
) -> NoReturn:
    """Raise ParameterError: a reader would refuse what is about to be written."""
    raise ParameterError(field, str(expected), found, hint)


class Field(NamedTuple):
    """One row: a field in bytes ``[offset, offset + size)``, and the struct code that reads it."""

    offset: int
    size: int
    code: str
    name: str


class FieldTable:
    """Fields without gaps between them, and the little-endian struct that reads them all."""

    def __init__(self, *fields: Field) -> None:
        """Take the rows in the order of their offsets."""
        self.fields = fields
        self.struct = struct.Struct("<" + "".join(field.code for field in fields))
        self.offsets = {field.name: field.offset for field in fields}
        self.reserved = tuple(
            (name, offset, offset + size)
            for offset, size, _, name in fields
            if name.startswith("reserved")
        )

    def unpack(self, data: bytes) -> dict[str, Any]:
        """Return every field of *data* by name, unchecked. *data* is exactly one table long."""
        return dict(zip(self.offsets, self.struct.unpack(data), strict=True))

    def pack(self, values: Mapping[str, object]) -> bytes:
        """Return the bytes of *values*, which must name every field that is not reserved."""
        zeros = {name: b"" for name, _, _ in self.reserved}
        known = zeros | dict(values)
        return self.struct.pack(*(known[name] for name in self.offsets))

    def select(self, names: Sequence[str]) -> struct.Struct:
        """Return a struct that reads only the fields in *names*, in the order of the table."""
        codes = (field.code if field.name in names else f"{field.size}x" for field in self.fields)
        return struct.Struct("<" + "".join(codes))

    def refuse(  # noqa: PLR0913, PLR0917 - where the table is, and what Refuse takes
        self,
        path: str,
        base: int,
        field: str,
        expected: object,
        found: object,
        hint: str = "",
        error: type[FormatError] = FormatError,
    ) -> NoReturn:
        """Raise *error* for a field of the table that starts at byte *base* of the file."""
        raise error(path, field, base + self.offsets[field], expected, found, hint)


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
