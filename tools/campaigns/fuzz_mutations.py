"""Filter files with faults of every kind, for the fuzzers.

Knows the offsets of the fields, so that faults are where a reader looks, and can recompute the
checksums, so that faults get past them to the rules of the fields. Every fault comes from the
random generator that is passed in: the same seed gives the same file.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, NamedTuple

import mmbloom
from mmbloom.engine import checksum64
from mmbloom.format.fields import (
    HEADER,
    HEADER_BYTES,
    SEALED,
    SLOT_BYTES,
    SLOT_OFFSETS,
    STATUS,
    WRITABLE,
    FieldTable,
)
from mmbloom.format.kinds import LAYOUT_NAMES, LAYOUT_RULES
from mmbloom.format.rules import implied_fields, page_checksum
from mmbloom.format.status import Status, pack_status

if TYPE_CHECKING:
    import random
    from collections.abc import Callable
    from pathlib import Path

CHECKSUM_AT = HEADER.offsets["header_checksum"]
METADATA_AT = HEADER.offsets["metadata"]
EXTREMES = (0, 1, 2, 255, 4095, 4096, 4097, 2**31, 2**32 - 1, 2**48, 2**53, 2**63, 2**64 - 1)
METADATA = (
    b"{}", b"[]", b"null", b'{"a":1e999}', b'{"a":NaN}', b'{"a":"\\ud800"}', b'{"a":1,"a":2}',
    b"[" * 2048, b'{"a":' * 400, b"9" * 2048, b'{"a":-' + b"9" * 2000 + b"}", b"\xff\xfe{}",
    b"\xef\xbb\xbf{}", b'{"\\u0000":"\xc3\xa9"}', b'{"a":tru', b" {} ", b"",
)  # fmt: skip
# The rest of a longer file is a hole.
MAX_WRITTEN_BYTES = 4 << 20


class Base(NamedTuple):
    """A valid file, and keys that are in it."""

    name: str
    content: bytes
    members: tuple[str, ...]


def make_bases(folder: Path) -> list[Base]:
    """Build one small file for each layout, key form and state, and one of two MiB."""
    bases = []
    for layout in LAYOUT_RULES:
        for key_form in ("raw", "hex"):
            for state in ("sealed",) if layout in _SEALED_ONLY else ("sealed", "writable"):
                name = f"{layout}-{key_form}-{state}"
                bases.append(_make(folder / f"{name}.mmb", layout, key_form, state, 60))
    bases.append(_make(folder / "long.mmb", "line", "raw", "sealed", 60, capacity=900_000))
    return bases


def _make(  # noqa: PLR0913, PLR0917 - a row of the table of bases
    path: Path, layout: str, key_form: str, state: str, count: int, capacity: int = 100
) -> Base:
    texts = [f"member {i} of {path.name}" for i in range(count)]
    if key_form == "hex":
        texts = [hashlib.sha256(text.encode()).hexdigest() for text in texts]
    parameters: dict[str, Any] = {
        "capacity": capacity,
        "fpr": 0.001,
        "layout": layout,
        "key_form": key_form,
        "metadata": {"name": path.name},
    }
    _KIND_MAKERS.get(layout, _make_bloom)(path, texts, state == "sealed", parameters)
    return Base(path.name, path.read_bytes(), tuple(texts))


def _make_bloom(path: Path, texts: list[str], sealed: bool, given: dict[str, Any]) -> None:  # noqa: FBT001 - a row of a table
    _fill(mmbloom.BloomFilter.create(path, **given), texts, sealed=sealed)


def _make_counting(path: Path, texts: list[str], sealed: bool, given: dict[str, Any]) -> None:  # noqa: FBT001 - as above
    del given["layout"]
    _fill(mmbloom.CountingBloomFilter.create(path, **given), texts, sealed=sealed)


def _make_narrow(path: Path, texts: list[str], _sealed: bool, given: dict[str, Any]) -> None:  # noqa: FBT001 - as above
    del given["layout"]
    with mmbloom.CountingBloomFilter.in_memory(**given) as counted:
        counted.update(texts)
        counted.to_bloom(path).close()


def _make_fuse(path: Path, texts: list[str], _sealed: bool, given: dict[str, Any]) -> None:  # noqa: FBT001 - as above
    del given["capacity"]
    mmbloom.build(path, texts, kind="fuse", **given).close()


def _fill(
    made: mmbloom.BloomFilter | mmbloom.CountingBloomFilter, texts: list[str], *, sealed: bool
) -> None:
    with made:
        made.update(texts)
        if sealed:
            made.seal()


_SEALED_ONLY = ("narrow", "fuse3", "fuse4")
_KIND_MAKERS: dict[str, Callable[[Path, list[str], bool, dict[str, Any]], None]] = {
    "counters": _make_counting,
    "narrow": _make_narrow,
    "fuse3": _make_fuse,
    "fuse4": _make_fuse,
}


# ---- one fault in a header page ------------------------------------------------------------------


def flip_bits(rng: random.Random, page: bytearray, _other: bytes) -> None:
    """Flip up to 8 bits anywhere."""
    for _ in range(rng.randint(1, 8) if page else 0):  # an earlier fault may have left nothing
        bit = rng.randrange(8 * len(page))
        page[bit >> 3] ^= 1 << (bit & 7)


def set_field(rng: random.Random, page: bytearray, _other: bytes) -> None:
    """Give a field of the fixed part an extreme value, or change it a little."""
    _set_field(rng, page, HEADER, 0)


def set_slot_field(rng: random.Random, page: bytearray, _other: bytes) -> None:
    """Do the same in one slot, or in both alike."""
    first = rng.choice(SLOT_OFFSETS)
    _set_field(rng, page, STATUS, first)
    if rng.random() < 0.5:  # noqa: PLR2004 - half of the cases
        _copy_slot(page, first)


def _set_field(rng: random.Random, page: bytearray, table: FieldTable, base: int) -> None:
    field = rng.choice(table.fields)
    at = base + field.offset
    if field.size <= 8:  # noqa: PLR2004 - a number
        found = int.from_bytes(page[at : at + field.size], "little")
        near = found + rng.choice((-4096, -512, -64, -8, -1, 1, 8, 64, 512, 4096, found))
        number = rng.choice((rng.choice(EXTREMES), near, 1 << rng.randrange(64)))
        page[at : at + field.size] = (number % (1 << (8 * field.size))).to_bytes(
            field.size, "little"
        )
    else:
        page[at + rng.randrange(field.size)] = rng.randrange(256)


def take_from_other(rng: random.Random, page: bytearray, other: bytes) -> None:
    """Copy a range of bytes, a field or a slot from another file."""
    whole = [(f.offset, f.offset + f.size) for f in HEADER.fields]
    start = rng.randrange(len(page) or 1)
    stretch = (start, min(len(page), start + rng.choice((1, 8, 64, 512, 4096))))
    first, last = rng.choice((stretch, rng.choice(whole)))
    page[first:last] = other[first:last]


def confuse_slots(rng: random.Random, page: bytearray, _other: bytes) -> None:
    """Make the slots equal except for sequence, state or flags."""
    first = rng.choice(SLOT_OFFSETS)
    _copy_slot(page, first)
    name = rng.choice(("sequence", "state", "flags", "num_canaries", "generation"))
    at = first + STATUS.offsets[name]
    page[at] = rng.choice((page[at] + 1, page[at] - 1, 0, 1, 2, 3, 9)) % 256


def lie_about_sizes(rng: random.Random, page: bytearray, _other: bytes) -> None:
    """Claim another layout and size, with all dependent fields consistent."""
    layout = rng.choice(list(LAYOUT_RULES))
    step = LAYOUT_RULES[layout].num_bits_step
    num_bits = step * rng.choice((1, 2, 3, rng.randrange(1, 1 << 20), (1 << 53) // step))
    lies = implied_fields(layout, min(num_bits, 1 << 53)) | {
        "num_bits": num_bits,
        "layout": LAYOUT_RULES[layout].number,
        "num_probes": rng.randint(1, LAYOUT_RULES[layout].max_probes),
    }
    for field in HEADER.fields:
        if field.name in lies:
            number = lies[field.name] % (1 << (8 * field.size))
            page[field.offset : field.offset + field.size] = number.to_bytes(field.size, "little")
    if rng.random() < 0.5:  # noqa: PLR2004 - without canaries, which a lie about sizes loses
        slot = pack_status(Status(state=rng.choice((WRITABLE, SEALED))))
        for at in SLOT_OFFSETS:
            page[at : at + SLOT_BYTES] = slot


def lie_about_metadata(rng: random.Random, page: bytearray, _other: bytes) -> None:
    """Write metadata that are not JSON, or JSON that no writer makes."""
    text = rng.choice(METADATA)[:2048]
    page[METADATA_AT : METADATA_AT + 2048] = text.ljust(2048, b"\0")
    length = rng.choice((len(text), len(text), len(text) + 1, rng.randrange(4096)))
    at = HEADER.offsets["metadata_bytes"]
    page[at : at + 4] = length.to_bytes(4, "little")


def _copy_slot(page: bytearray, first: int) -> None:
    other = sum(SLOT_OFFSETS) - first
    page[other : other + SLOT_BYTES] = page[first : first + SLOT_BYTES]


PAGE_FAULTS: tuple[Callable[[random.Random, bytearray, bytes], None], ...] = (
    *(flip_bits, set_field, set_slot_field, take_from_other, confuse_slots, lie_about_sizes) * 3,
    lie_about_metadata,
)


def forge_checksums(page: bytearray) -> None:
    """Give the page and both slots valid checksums."""
    for at in SLOT_OFFSETS:
        end = at + SLOT_BYTES - 8
        page[end : end + 8] = checksum64(bytes(page[at:end])).to_bytes(8, "little")
    page[CHECKSUM_AT : CHECKSUM_AT + 8] = page_checksum(bytes(page)).to_bytes(8, "little")


class Mutant(NamedTuple):
    """A file with faults. *forged*: checksums were recomputed after some of them.

    It is *file_bytes* long; everything after *content* is a hole.
    """

    content: bytes
    file_bytes: int
    forged: bool


def mutate_header(rng: random.Random, bases: list[Base]) -> tuple[bytes, int]:
    """Return a header page with 1 to 3 faults, and the size to pretend for the file."""
    base, other = rng.choice(bases), rng.choice(bases)
    page = bytearray(base.content[:HEADER_BYTES])
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        rng.choice(PAGE_FAULTS)(rng, page, other.content)
    if rng.random() < 0.75:  # noqa: PLR2004 - most faults are only met behind a sound checksum
        forge_checksums(page)
    at = HEADER.offsets["file_bytes"]
    claimed = int.from_bytes(page[at : at + 8], "little")
    size = rng.choice((claimed, claimed, claimed, len(base.content), claimed - 1))
    if rng.random() < 0.02:  # noqa: PLR2004 - the first rule of all needs few
        del page[rng.randrange(HEADER_BYTES) :]
    return bytes(page), size


# ---- faults in whole files -----------------------------------------------------------------------


def mutate_file(rng: random.Random, base: Base, other: Base) -> Mutant:
    """Return *base* with faults in its header, its payload, its table or its length."""
    content = bytearray(base.content)
    forged, hole_bytes = False, 0
    if rng.random() < 0.6:  # noqa: PLR2004 - the header has most of the rules
        page = content[:HEADER_BYTES]
        for _ in range(rng.choice((1, 1, 2, 3))):
            rng.choice(PAGE_FAULTS)(rng, page, other.content)
        forged = rng.random() < 0.8  # noqa: PLR2004 - see mutate_header
        if forged:
            forge_checksums(page)
        content[:HEADER_BYTES] = page
        if forged and rng.random() < 0.7:  # noqa: PLR2004 - the length is as the header claims
            hole_bytes = _fit_length(content)
    if not forged or rng.random() < 0.3:  # noqa: PLR2004 - and some have both kinds
        _damage_body(rng, content, other.content)
    return Mutant(bytes(content), len(content) + hole_bytes, forged)


def _fit_length(content: bytearray) -> int:
    """Make the file as long as its header claims; return the length of the hole at the end."""
    at = HEADER.offsets["file_bytes"]
    claimed = int.from_bytes(content[at : at + 8], "little")
    written = min(claimed, MAX_WRITTEN_BYTES)
    content[written:] = bytes(max(0, written - len(content)))
    return claimed - written if claimed < 1 << 62 else 0  # the longest file of any file system


def _damage_body(rng: random.Random, content: bytearray, other: bytes) -> None:
    start = rng.randrange(len(content) or 1)
    length = rng.choice((1, 8, 64, 512, 4096))
    kind = rng.randrange(7)
    if kind == 0:
        flip_bits(rng, content, other)
    elif kind == 1:
        del content[start:]
    elif kind == 2:  # noqa: PLR2004 - a sector or a page that was never written
        start -= start % length
        content[start : start + length] = bytes(len(content[start : start + length]))
    elif kind == 3:  # noqa: PLR2004 - as a copy in text mode
        content.insert(start, 13)
    elif kind == 4:  # noqa: PLR2004 - it grew
        content += rng.choice((b"\0", bytes(8), bytes(4096), other[:4096]))
    elif kind == 5:  # noqa: PLR2004 - two halves of two files
        content[start:] = other[start:]
    else:
        stretch = other[start : start + length]
        content[start : start + len(stretch)] = stretch


def describe(page: bytes) -> str:
    """Return the layout of a page, for the report of accepted pages."""
    at = HEADER.offsets["layout"]
    return LAYOUT_NAMES.get(int.from_bytes(page[at : at + 2], "little"), "none")
