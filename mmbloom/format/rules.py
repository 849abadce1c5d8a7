"""Every reason to refuse the fixed part of a header page, in the order of the checks.

First whether the page can be read at all (``check_page``), then each field (``check_fields``):
numbers that a newer release may have defined, then bounds, then what follows from earlier fields.
Each check may trust the fields that were checked before it. Opening a file runs all of this, so a
check builds its message only when it fails.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmbloom.engine import checksum64, hash_key
from mmbloom.errors import FormatError, TruncatedError, VersionError
from mmbloom.format.fields import (
    CHUNK_BYTES,
    FORMAT_VERSION,
    HASH,
    HASH_XXH3_128,
    HEADER,
    HEADER_BYTES,
    KEY_FORM_NAMES,
    KEY_FORMS,
    KNOWN_ANSWER_KEY,
    LINE_BITS,
    MAGIC,
    MAX_CAPACITY,
    MAX_METADATA_BYTES,
    MAX_NUM_BITS,
    SLOT_OFFSETS,
)
from mmbloom.format.kinds import (
    KIND_NAMES,
    KIND_ROWS,
    LAYOUT_NAMES,
    LAYOUT_RULES,
    OWN_FIELDS,
    SCHEME_NAMES,
)
from mmbloom.format.metadata import decode_metadata

if TYPE_CHECKING:
    from mmbloom.format.fields import Refuse
    from mmbloom.format.header import Header

_EMPTY_HINT = "The file is empty: its writer stopped before the first byte. Build it again"
_FOREIGN_HINT = "It is not an mmbloom filter: check the path"
_TEXT_MODE_HINT = (
    "It was copied in text mode (FTP, git autocrlf, a decoder), which changes bytes. "
    "Copy it again in binary mode"
)
_HASH_HINT = (
    "This program hashes keys differently from the builder, so it would miss keys that the filter "
    "contains. Reinstall mmbloom, or build the file again"
)
_FIXED_END, _METADATA_START = SLOT_OFFSETS[0], HEADER.offsets["metadata"]
_METADATA_END = _METADATA_START + MAX_METADATA_BYTES
_CHECKSUM_START = HEADER.offsets["header_checksum"]
_ZEROS = bytes(HEADER_BYTES)
# The numbers that this release knows, with their names.
_NUMBERS = {
    "kind": KIND_NAMES,
    "layout": LAYOUT_NAMES,
    "probe_scheme": SCHEME_NAMES,
    "hash_id": {HASH_XXH3_128: "xxh3-128"},
    "key_form": KEY_FORM_NAMES,
}
_FOREIGN_FIELDS = {
    row.number: tuple(name for name in OWN_FIELDS if name not in row.own_fields)
    for row in KIND_ROWS.values()
}


def page_checksum(page: bytes) -> int:
    """Return the checksum of what never changes: all but the slots and the checksum itself."""
    return checksum64(page[:_FIXED_END] + page[_METADATA_START:_CHECKSUM_START])


def known_answer(seed: int) -> bytes:
    """Return the hash of the known-answer key under *seed*, as the header stores it."""
    return HASH.pack(*hash_key(KNOWN_ANSWER_KEY, seed, KEY_FORMS["raw"]))


def implied_fields(layout: str, num_bits: int) -> dict[str, int]:
    """Return every field that *layout* and *num_bits* fix; all fit 64 bits up to 2^53 bits."""
    payload_bytes = -(-num_bits // LINE_BITS) * (LINE_BITS // 8)
    num_checksums = -(-payload_bytes // CHUNK_BYTES)
    checksums_offset = HEADER_BYTES + payload_bytes
    return {
        "header_bytes": HEADER_BYTES,
        "probe_scheme": LAYOUT_RULES[layout].probe_scheme,
        "block_bytes": LAYOUT_RULES[layout].block_bytes,
        "payload_offset": HEADER_BYTES,
        "payload_bytes": payload_bytes,
        "checksums_offset": checksums_offset,
        "checksum_chunk_bytes": CHUNK_BYTES,
        "num_checksums": num_checksums,
        "file_bytes": checksums_offset + 8 * num_checksums,
    }


def check_page(page: bytes, refuse: Refuse) -> None:
    """Check that *page* is the undamaged start of a file that this release can read."""
    magic = page[: len(MAGIC)]
    if len(page) != HEADER_BYTES:
        hint = _EMPTY_HINT if not page else "" if magic == MAGIC else _magic_hint(magic)
        expected, found = f"a page of {HEADER_BYTES} bytes", f"{len(page)} bytes"
        refuse("header_bytes", expected, found, hint, TruncatedError)
    if magic != MAGIC:
        refuse("magic", MAGIC.hex(" "), magic.hex(" "), _magic_hint(magic))
    # The version decides what all other bytes mean, even where the checksum is: so it comes first.
    version = int.from_bytes(page[8:10], "little")
    if version != FORMAT_VERSION:
        error = VersionError if version > FORMAT_VERSION else FormatError
        refuse("format_version", FORMAT_VERSION, version, error=error)
    computed = page_checksum(page)
    stored = int.from_bytes(page[_CHECKSUM_START:], "little")
    if computed != stored:
        refuse("header_checksum", f"{computed:#018x}", f"{stored:#018x}")


def check_fields(header: Header, refuse: Refuse) -> None:
    """Check each field of a header that was read, or that is to be written."""
    _check_numbers(header, refuse)
    kind, layout, num_bits = KIND_ROWS[header.kind], LAYOUT_NAMES[header.layout], header.num_bits
    rule = LAYOUT_RULES[layout]
    if layout not in kind.layouts:
        found = f"{layout}, of {KIND_NAMES[rule.kind]}"
        refuse("layout", f"a layout of kind {kind.name}", found)
    if not 1 <= header.num_probes <= rule.max_probes:
        refuse("num_probes", f"1 to {rule.max_probes}", header.num_probes)
    if not 1 <= num_bits <= MAX_NUM_BITS:
        refuse("num_bits", f"1 to {MAX_NUM_BITS}", num_bits)
    if num_bits % rule.num_bits_step:
        refuse("num_bits", f"a multiple of {rule.num_bits_step}", num_bits)
    kind.check_own(header, rule, refuse)
    for name in _FOREIGN_FIELDS[header.kind]:
        if getattr(header, name):
            refuse(name, f"0 for kind {kind.name}", getattr(header, name))
    for name, implied in implied_fields(layout, num_bits).items():
        if getattr(header, name) != implied:
            refuse(name, implied, getattr(header, name))
    _check_parameters(header, refuse)
    _check_metadata(header, refuse)


def check_zeros(page: bytes, header: Header, refuse: Refuse) -> None:
    """Check that the padding behind the metadata and the reserved fields are zero."""
    if not _is_zero(page, _METADATA_START + header.metadata_bytes, _METADATA_END):
        padding = f"zeros after the first {header.metadata_bytes} bytes"
        refuse("metadata", padding, "other bytes")
    for name, start, end in HEADER.reserved:
        if not _is_zero(page, start, end):
            refuse(name, "zeros", "other bytes")


def _is_zero(page: bytes, start: int, end: int) -> bool:
    return page[start:end] == _ZEROS[start:end]


def _check_numbers(header: Header, refuse: Refuse) -> None:
    """Check the features and the defined numbers: an unknown one is newer, not damage."""
    features = header.incompatible_features
    if features:
        lowest = f"bit {(features & -features).bit_length() - 1}"
        known = "none, as this release knows none"
        refuse("incompatible_features", known, lowest, error=VersionError)
    for field, names in _NUMBERS.items():
        if getattr(header, field) not in names:
            known = " or ".join(f"{number} ({name})" for number, name in names.items())
            refuse(field, known, getattr(header, field), error=VersionError)


def _check_parameters(header: Header, refuse: Refuse) -> None:
    """Check the parameters that the builder was given, and that this program hashes as it did."""
    if not 0 <= header.overfill <= 1:
        refuse("overfill", "0 to 1", header.overfill)
    if not 1 <= header.capacity <= MAX_CAPACITY:
        refuse("capacity", f"1 to {MAX_CAPACITY}", header.capacity)
    if not 0 < header.fpr < 1:
        refuse("fpr", "more than 0 and less than 1", header.fpr)
    if len(header.uuid) != HASH.size:
        refuse("uuid", "16 bytes", header.uuid)
    computed = known_answer(header.seed)
    if computed != header.known_answer:
        refuse("known_answer", computed.hex(), header.known_answer.hex(), _HASH_HINT)


def _check_metadata(header: Header, refuse: Refuse) -> None:
    if header.metadata_bytes > MAX_METADATA_BYTES:
        refuse("metadata_bytes", f"at most {MAX_METADATA_BYTES}", header.metadata_bytes)
    try:
        decode_metadata(header.metadata_json)
    except ValueError as exc:
        problem = str(exc)
    else:
        return
    refuse("metadata", "a JSON object in UTF-8", problem)


def _magic_hint(magic: bytes) -> str:
    """Say what happened to these eight bytes: with the letters in them, they were the magic."""
    return _TEXT_MODE_HINT if MAGIC[1:4] in magic else _FOREIGN_HINT
