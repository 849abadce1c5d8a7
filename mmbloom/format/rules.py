"""Every reason to refuse the fixed part of a header page, in the order of the checks.

First whether the page can be read at all (``page_rules``), then each field (``field_rules``):
numbers that a newer release may have given out, then bounds, then what follows from the fields
before. These are generators: a rule is only evaluated when all before it hold, so each may trust
the fields above it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mmbloom.engine import checksum64, hash_key
from mmbloom.errors import FormatError, TruncatedError, VersionError
from mmbloom.format.fields import (
    BLOCK_BITS,
    CHUNK_BYTES,
    FORMAT_VERSION,
    HASH,
    HASH_XXH3_128,
    HEADER,
    HEADER_BYTES,
    KEY_FORM_NAMES,
    KEY_FORMS,
    KIND_FUSE,
    KIND_NAMES,
    KNOWN_ANSWER_KEY,
    LAYOUT_NAMES,
    LAYOUT_RULES,
    MAGIC,
    MAX_CAPACITY,
    MAX_METADATA_BYTES,
    MAX_NUM_BITS,
    SCHEME_NAMES,
    SLOT_OFFSETS,
    Rule,
    is_zero,
)
from mmbloom.format.fuse import FIELDS as FUSE_FIELDS
from mmbloom.format.fuse import fuse_rules
from mmbloom.format.metadata import decode_metadata

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_EMPTY_HINT = "The file is empty: its writer stopped before the first byte. Build it again"
_FOREIGN_HINT = "It is not an mmbloom filter: check the path"
_TEXT_MODE_HINT = (
    "It was copied in text mode (FTP, git autocrlf, a decoder), which changes bytes. "
    "Copy it again in binary mode"
)
_HASH_HINT = (
    "This program hashes keys differently from the builder, so it would miss keys that are in. "
    "Reinstall mmbloom, or build the file again"
)
_FIXED_END, _METADATA_START = SLOT_OFFSETS[0], HEADER.offsets["metadata"]
_CHECKSUM_START = HEADER.offsets["header_checksum"]
# The numbers that this release knows, and how an error names them.
_NUMBERS = {
    field: (names.keys(), " or ".join(f"{number} ({name})" for number, name in names.items()))
    for field, names in {
        "kind": KIND_NAMES,
        "layout": LAYOUT_NAMES,
        "probe_scheme": SCHEME_NAMES,
        "hash_id": {HASH_XXH3_128: "xxh3-128"},
        "key_form": KEY_FORM_NAMES,
    }.items()
}


def page_checksum(page: bytes) -> int:
    """Return the checksum of what never changes: all but the slots and the checksum itself."""
    return checksum64(page[:_FIXED_END] + page[_METADATA_START:_CHECKSUM_START])


def known_answer(seed: int) -> bytes:
    """Return the stored form of the known-answer key's hash under *seed*."""
    return HASH.pack(*hash_key(KNOWN_ANSWER_KEY, seed, KEY_FORMS["raw"]))


def implied_fields(layout: str, num_bits: int) -> dict[str, int]:
    """Return every field that *layout* and *num_bits* fix; none leaves 64 bits up to 2^53 bits."""
    payload_bytes = -(-num_bits // BLOCK_BITS) * (BLOCK_BITS // 8)
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


def page_rules(page: bytes) -> Iterator[Rule]:
    """Yield what makes *page* the start of a sound file that this release can read."""
    magic = page[: len(MAGIC)]
    whole = len(page) == HEADER_BYTES
    hint = _EMPTY_HINT if not page else "" if magic == MAGIC else _magic_hint(magic)
    length = f"a page of {HEADER_BYTES} bytes"
    yield Rule("header_bytes", whole, length, f"{len(page)} bytes", hint, TruncatedError)
    yield Rule("magic", magic == MAGIC, MAGIC.hex(" "), magic.hex(" "), _magic_hint(magic))
    # The version decides what all other bytes mean, even where the checksum is: so it comes first.
    version = int.from_bytes(page[8:10], "little")
    error = VersionError if version > FORMAT_VERSION else FormatError
    yield Rule("format_version", version == FORMAT_VERSION, FORMAT_VERSION, version, error=error)
    computed = page_checksum(page)
    stored = int.from_bytes(page[_CHECKSUM_START:], "little")
    yield Rule("header_checksum", computed == stored, f"{computed:#018x}", f"{stored:#018x}")


def field_rules(values: Mapping[str, Any]) -> Iterator[Rule]:
    """Yield each field's rule, for a page whose checksum holds or one that is to be written."""
    yield from _number_rules(values)
    layout = LAYOUT_NAMES[values["layout"]]
    rule, num_bits = LAYOUT_RULES[layout], values["num_bits"]
    kind, its_kind = KIND_NAMES[values["kind"]], KIND_NAMES[rule.kind]
    yield Rule("layout", kind == its_kind, f"a layout of kind {kind}", f"{layout}, of {its_kind}")
    yield _bounded("num_probes", values, 1, rule.max_probes)
    yield _bounded("num_bits", values, 1, MAX_NUM_BITS)
    step = rule.num_bits_step
    yield Rule("num_bits", num_bits % step == 0, f"a multiple of {step}", num_bits)
    yield from _kind_rules(values)
    for name, implied in implied_fields(layout, num_bits).items():
        yield Rule(name, values[name] == implied, implied, values[name])
    yield _bounded("overfill", values, 0, 1)
    yield _bounded("capacity", values, 1, MAX_CAPACITY)
    yield Rule("fpr", 0 < values["fpr"] < 1, "more than 0 and less than 1", values["fpr"])
    yield Rule("uuid", len(values["uuid"]) == HASH.size, "16 bytes", values["uuid"])
    computed, stored = known_answer(values["seed"]), values["known_answer"]
    yield Rule("known_answer", computed == stored, computed.hex(), stored.hex(), _HASH_HINT)
    yield from _metadata_rules(values["metadata"], values["metadata_bytes"])
    yield from HEADER.zero_rules(values)


def _number_rules(values: Mapping[str, Any]) -> Iterator[Rule]:
    """Yield the rules of given-out numbers: an unknown one is from a newer release, not damage."""
    features = values["incompatible_features"]
    lowest = f"bit {(features & -features).bit_length() - 1}"
    known = "none, as this release knows none"
    yield Rule("incompatible_features", not features, known, lowest, error=VersionError)
    for field, (numbers, known) in _NUMBERS.items():
        yield Rule(field, values[field] in numbers, known, values[field], error=VersionError)


def _kind_rules(values: Mapping[str, Any]) -> Iterator[Rule]:
    """Yield the rules of the fields that only some kinds have."""
    if values["kind"] == KIND_FUSE:
        yield from fuse_rules(values)
        return
    for name in FUSE_FIELDS:
        yield Rule(name, not values[name], "0 but for kind fuse", values[name])


def _metadata_rules(metadata: bytes, metadata_bytes: int) -> Iterator[Rule]:
    most = f"at most {MAX_METADATA_BYTES}"
    yield Rule("metadata_bytes", metadata_bytes <= MAX_METADATA_BYTES, most, metadata_bytes)
    problem = ""
    try:
        decode_metadata(metadata[:metadata_bytes])
    except ValueError as exc:
        problem = str(exc)
    yield Rule("metadata", not problem, "a JSON object in UTF-8", problem)
    padding = f"zeros after the first {metadata_bytes} bytes"
    yield Rule("metadata", is_zero(metadata[metadata_bytes:]), padding, "other bytes")


def _bounded(field: str, values: Mapping[str, Any], lowest: int, highest: int) -> Rule:
    found = values[field]
    return Rule(field, lowest <= found <= highest, f"{lowest} to {highest}", found)


def _magic_hint(magic: bytes) -> str:
    """Say what happened to these eight bytes: with the letters in them, they were the magic."""
    return _TEXT_MODE_HINT if MAGIC[1:4] in magic else _FOREIGN_HINT
