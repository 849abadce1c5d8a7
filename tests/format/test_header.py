"""The header page: what is written can be read, and everything else is refused by name."""

from __future__ import annotations

import math
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmbloom.engine import checksum64
from mmbloom.errors import (
    FormatError,
    ParameterError,
    ParameterTypeError,
    TruncatedError,
    VersionError,
)
from mmbloom.format.fields import (
    HEADER,
    HEADER_BYTES,
    KEY_FORMS,
    KEY_SET_KNOWN,
    KEYS_EXACT,
    KIND_COUNTING,
    KIND_FUSE,
    MAGIC,
    MAX_NUM_BITS,
    SEALED,
    SLOT_OFFSETS,
    STATUS,
    WRITABLE,
    WRITER_OPEN,
)
from mmbloom.format.fuse import FuseShape, fuse_shape
from mmbloom.format.header import Header, HeaderPage, check_seed, new_header
from mmbloom.format.kinds import LAYOUT_RULES
from mmbloom.format.rules import page_checksum
from mmbloom.format.status import Status, pack_status

PATH = "seen.mmb"
SHAPELESS_LAYOUTS = [name for name, rule in LAYOUT_RULES.items() if rule.kind != KIND_FUSE]
U64 = (1 << 64) - 1
LINE = new_header(
    layout="line",
    num_bits=5120,
    num_probes=7,
    capacity=500,
    fpr=0.01,
    uuid=bytes(range(16)),
    created_unix_ns=1_700_000_000_000_000_000,
    seed=42,
    metadata={"source": "a list", "naïve": [1, 2.5, None, True]},
)
SEALED_STATUS = Status(
    sequence=6,
    state=SEALED,
    flags=KEYS_EXACT | KEY_SET_KNOWN,
    keys_added=3,
    bits_set=21,
    achieved_fpr=0.004,
    checksum_root=77,
    generation=2,
    key_set=(5 << 64) | 9,
    canaries=((1, 2), (3, 4)),
)
OPEN_STATUS = Status(sequence=5, flags=WRITER_OPEN, keys_added=2, canaries=((1, 2),))


def unpack(page: bytes, file_bytes: int = LINE.file_bytes) -> HeaderPage:
    """Read *page* as the start of a file of that size."""
    return Header.unpack(page, PATH, file_bytes)


def refusal(page: bytes, file_bytes: int = LINE.file_bytes) -> FormatError:
    """Return the error with which *page* is refused."""
    with pytest.raises(FormatError) as caught:
        unpack(page, file_bytes)
    assert caught.value.path == PATH
    return caught.value


def with_fields(page: bytes, **changes: object) -> bytes:
    """Return *page* with other values, and a header checksum that fits them."""
    return sealed_again(HEADER.pack(HEADER.unpack(page) | changes))


def sealed_again(page: bytes) -> bytes:
    """Return *page* with the header checksum that its bytes have."""
    return page[:-8] + page_checksum(page).to_bytes(8, "little")


def with_slots(slot_a: bytes, slot_b: bytes) -> bytes:
    """Return a page of the line header with these two slots."""
    return with_fields(LINE.pack(Status()), slot_a=slot_a, slot_b=slot_b)


def slot_with(status: Status, **changes: object) -> bytes:
    """Return the slot of *status* with other values, and a slot checksum that fits them."""
    slot = STATUS.pack(STATUS.unpack(pack_status(status)) | changes)
    return slot[:-8] + checksum64(slot[:-8]).to_bytes(8, "little")


def flipped(data: bytes, offset: int, mask: int = 0xFF) -> bytes:
    """Return *data* with one byte changed."""
    return data[:offset] + bytes([data[offset] ^ mask]) + data[offset + 1 :]


# ---- what is written can be read -----------------------------------------------------------------


@pytest.mark.parametrize("key_form", KEY_FORMS)
@pytest.mark.parametrize("layout", SHAPELESS_LAYOUTS)
@pytest.mark.parametrize("status", [Status(), OPEN_STATUS, SEALED_STATUS])
def test_a_page_reads_back_as_it_was_written(layout: str, key_form: str, status: Status) -> None:
    """Unpack is the inverse of pack, for every layout, key form and state."""
    header = new_header(
        layout=layout,
        num_bits=65536,
        num_probes=4,
        capacity=1,
        fpr=0.5,
        uuid=bytes(16),
        created_unix_ns=-1,
        key_form=key_form,
        overfill=True,
    )

    if header.kind == KIND_COUNTING and not status.is_sealed:
        status = status._replace(canaries=(), num_saturated=9)

    page = header.pack(status)

    assert len(page) == HEADER_BYTES
    assert unpack(page, header.file_bytes) == (header, status, 0, False)
    assert (header.layout_name, header.key_form_name) == (layout, key_form)
    assert header.metadata == {}


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64)
    | st.floats(allow_nan=False).filter(math.isfinite)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.text(st.characters(exclude_categories=["Cs"]), max_size=4), inner, max_size=3
        )
    ),
    max_leaves=6,
)
hashes = st.tuples(st.integers(0, U64), st.integers(0, U64))


@st.composite
def headers(draw: st.DrawFn) -> Header:
    """Any header that a writer may write."""
    layout = draw(st.sampled_from(sorted(SHAPELESS_LAYOUTS)))
    rule = LAYOUT_RULES[layout]
    step = rule.num_bits_step
    return new_header(
        layout=layout,
        num_bits=step * draw(st.integers(1, MAX_NUM_BITS // step)),
        num_probes=draw(st.integers(1, rule.max_probes)),
        capacity=draw(st.integers(1, 1 << 48)),
        fpr=draw(st.floats(0, 1, exclude_min=True, exclude_max=True)),
        uuid=draw(st.binary(min_size=16, max_size=16)),
        created_unix_ns=draw(st.integers(-(2**63), 2**63 - 1)),
        seed=draw(st.integers(0, U64)),
        key_form=draw(st.sampled_from(sorted(KEY_FORMS))),
        metadata=draw(st.dictionaries(st.text("abcé", max_size=4), json_values, max_size=3)),
        overfill=draw(st.booleans()),
    )


@st.composite
def statuses(draw: st.DrawFn, header: Header) -> Status:
    """Any status that a writer may write into a file of at least one bit."""
    sealed = draw(st.booleans())
    is_counting = header.kind == KIND_COUNTING
    flags = draw(st.integers(0, 7)) & ~(WRITER_OPEN if sealed else 0)
    return Status(
        sequence=draw(st.integers(0, U64)),
        state=SEALED if sealed else WRITABLE,
        flags=flags,
        keys_added=draw(st.integers(0, U64)),
        bits_set=draw(st.integers(0, 1)) if sealed else 0,
        achieved_fpr=draw(st.floats(0, 1)) if sealed else 0.0,
        checksum_root=draw(st.integers(0, U64)) if sealed else 0,
        generation=draw(st.integers(0, U64)),
        key_set=draw(st.integers(0, 2**128 - 1)) if flags & KEY_SET_KNOWN else 0,
        canaries=tuple(draw(st.lists(hashes, max_size=0 if is_counting and not sealed else 8))),
        num_saturated=draw(st.integers(0, header.num_bits // 4)) if is_counting else 0,
    )


@given(st.data())
def test_any_header_and_status_read_back_equal(data: st.DataObject) -> None:
    """Writer and reader share one set of rules: nothing that can be made is refused."""
    header = data.draw(headers())
    status = data.draw(statuses(header))
    page = header.pack(status)

    assert unpack(page, header.file_bytes) == (header, status, 0, False)
    assert header.pack(status) == page


def test_sizes_beyond_32_bits_read_back() -> None:
    """Section offsets are 64-bit: a file of 1 PiB has a header like any other."""
    huge = new_header(
        layout="page",
        num_bits=MAX_NUM_BITS,
        num_probes=32,
        capacity=1 << 48,
        fpr=1e-12,
        uuid=bytes(16),
        created_unix_ns=0,
    )

    assert huge.payload_bytes == 1 << 50
    assert huge.num_checksums == 1 << 30
    assert unpack(huge.pack(Status()), huge.file_bytes).header == huge


@pytest.mark.parametrize(
    ("num_bits", "payload_bytes"),
    [(1, 64), (511, 64), (512, 64), (513, 128), (2**32 + 1, 2**29 + 64)],
)
def test_the_payload_is_whole_lines(num_bits: int, payload_bytes: int) -> None:
    """payload_bytes is 64 * ceil(num_bits / 512), and the table has 8 bytes a MiB of it."""
    header = new_header(
        layout="classic",
        num_bits=num_bits,
        num_probes=1,
        capacity=1,
        fpr=0.5,
        uuid=bytes(16),
        created_unix_ns=0,
    )

    assert header.payload_bytes == payload_bytes
    assert header.file_bytes == 4096 + payload_bytes + 8 * math.ceil(payload_bytes / 2**20)


def test_metadata_are_decoded_afresh() -> None:
    """A header is immutable: changing the dict that it gives changes nothing."""
    LINE.metadata["source"] = "changed"

    assert LINE.metadata == {"source": "a list", "naïve": [1, 2.5, None, True]}


# ---- damage --------------------------------------------------------------------------------------


@pytest.mark.parametrize("mask", [0x01, 0xFF])
def test_any_changed_byte_of_a_sealed_page_is_refused(mask: int) -> None:
    """Each of the 4096 bytes is under the magic, a checksum or the version; none may change."""
    page = LINE.pack(SEALED_STATUS)

    for offset in range(HEADER_BYTES):
        error = refusal(flipped(page, offset, mask))
        assert error.field in {"magic", "format_version", "header_checksum", "slot_checksum"}


def test_any_changed_byte_of_a_writable_page_is_refused_or_recovered() -> None:
    """While WRITABLE a damaged slot is a torn write, and the other slot counts."""
    page = LINE.pack(OPEN_STATUS)

    for offset in range(HEADER_BYTES):
        damaged = flipped(page, offset)
        if 512 <= offset < 1536:
            other = 1 if offset < 1024 else 0
            assert unpack(damaged) == (LINE, OPEN_STATUS, other, True)
        else:
            refusal(damaged)


@pytest.mark.parametrize("length", [0, 1, 7, 8, 511, 512, 4095])
def test_a_file_cut_inside_the_page_is_truncated(length: int) -> None:
    """Too short for a page: TruncatedError with both lengths, whatever is missing."""
    error = refusal(LINE.pack(Status())[:length], length)

    assert isinstance(error, TruncatedError)
    assert error.field == "header_bytes"
    assert "4096" in str(error)
    assert f"{length} bytes" in str(error)


def test_no_length_below_a_page_opens() -> None:
    """Every cut length gives the same typed error."""
    page = LINE.pack(SEALED_STATUS)

    for length in range(HEADER_BYTES):
        assert isinstance(refusal(page[:length], length), TruncatedError)


@pytest.mark.parametrize("file_bytes", [4096, LINE.file_bytes - 1, LINE.file_bytes + 1, 2**60])
def test_a_file_of_another_length_is_refused_with_both_numbers(file_bytes: int) -> None:
    """The header's file_bytes must be the size of the file, not a byte more or less."""
    error = refusal(LINE.pack(SEALED_STATUS), file_bytes)

    assert isinstance(error, TruncatedError)
    assert (error.field, error.offset) == ("file_bytes", 128)
    assert (error.expected, error.found) == (LINE.file_bytes, file_bytes)


@pytest.mark.parametrize(
    ("start", "hint"),
    [
        pytest.param(b"", "is empty", id="empty-file"),
        pytest.param(b"alan\n", "check the path", id="short-text"),
        pytest.param(b"alan\n" * 1000, "check the path", id="long-text"),
        pytest.param(b"\x1f\x8b\x08" + bytes(5000), "check the path", id="gzip"),
        pytest.param(b"\x89MMB\n\x1a\n" + bytes(5000), "binary mode", id="crlf-to-lf"),
        pytest.param(b"\x89MMB\r\r\n\x1a\r\n" + bytes(5000), "binary mode", id="lf-to-crlf"),
        pytest.param(b"\tMMB\r\n\x1a\n" + bytes(5000), "binary mode", id="7-bit"),
        pytest.param("\x89MMB\r\n\x1a\n".encode() + bytes(5000), "binary mode", id="as-utf-8"),
        pytest.param(b"\xef\xbf\xbdMMB\r\n\x1a\n", "binary mode", id="replacement-character"),
    ],
)
def test_a_foreign_or_text_mode_file_gets_its_own_hint(start: bytes, hint: str) -> None:
    """Not a filter, and a filter that a text-mode copy changed, need different cures."""
    error = refusal(start[:HEADER_BYTES], len(start))

    assert hint in error.hint


# ---- every field ---------------------------------------------------------------------------------

WRONG_FIELDS = [
    ("magic", b"\x89MMA\r\n\x1a\n", FormatError),
    ("format_version", 0, FormatError),
    ("format_version", 2, VersionError),
    ("reserved0", b"\0\1", FormatError),
    ("header_bytes", 8192, FormatError),
    ("header_bytes", 0, FormatError),
    ("incompatible_features", 1, VersionError),
    ("incompatible_features", 1 << 63, VersionError),
    ("kind", 0, VersionError),
    ("kind", 4, VersionError),
    ("layout", 0, VersionError),
    ("layout", 8, VersionError),
    ("layout", 5, FormatError),
    ("layout", 7, FormatError),
    ("probe_scheme", 0, VersionError),
    ("probe_scheme", 7, VersionError),
    ("probe_scheme", 3, FormatError),
    ("probe_scheme", 4, FormatError),
    ("hash_id", 0, VersionError),
    ("hash_id", 2, VersionError),
    ("key_form", 2, VersionError),
    ("num_probes", 0, FormatError),
    ("num_probes", 17, FormatError),
    ("num_probes", 2**32 - 1, FormatError),
    ("num_bits", 0, FormatError),
    ("num_bits", 5121, FormatError),
    ("num_bits", MAX_NUM_BITS + 512, FormatError),
    ("num_bits", U64, FormatError),
    ("block_bytes", 0, FormatError),
    ("block_bytes", 4096, FormatError),
    ("overfill", 2, FormatError),
    ("capacity", 0, FormatError),
    ("capacity", (1 << 48) + 1, FormatError),
    ("fpr", 0.0, FormatError),
    ("fpr", 1.0, FormatError),
    ("fpr", -0.01, FormatError),
    ("fpr", math.nan, FormatError),
    ("fpr", math.inf, FormatError),
    ("payload_offset", 0, FormatError),
    ("payload_offset", 4095, FormatError),
    ("payload_bytes", 0, FormatError),
    ("payload_bytes", 639, FormatError),
    ("payload_bytes", U64, FormatError),
    ("checksums_offset", 4096, FormatError),
    ("checksums_offset", U64, FormatError),
    ("checksum_chunk_bytes", 0, FormatError),
    ("num_checksums", 0, FormatError),
    ("num_checksums", U64, FormatError),
    ("file_bytes", 0, FormatError),
    ("file_bytes", U64, FormatError),
    ("known_answer", bytes(16), FormatError),
    ("metadata_bytes", 2049, FormatError),
    ("metadata_bytes", 2**32 - 1, FormatError),
    ("metadata", b"", FormatError),
    ("metadata", b"[]", FormatError),
    ("metadata", b"{}", FormatError),
    ("fingerprint_bits", 8, FormatError),
    ("segment_slots", 1, FormatError),
    ("num_segments", 3, FormatError),
    ("num_shards", 1, FormatError),
    ("reserved1", b"\1", FormatError),
    ("reserved1", bytes(315) + b"\1", FormatError),
    ("reserved2", bytes(503) + b"\1", FormatError),
]


@pytest.mark.parametrize(("field", "value", "kind"), WRONG_FIELDS)
def test_a_wrong_field_under_a_valid_checksum_is_named(
    field: str, value: object, kind: type[FormatError]
) -> None:
    """Checksums do not excuse a field from its rule; the error has its name and its offset."""
    error = refusal(with_fields(LINE.pack(SEALED_STATUS), **{field: value}))

    assert type(error) is kind
    assert error.field == field
    assert error.offset == HEADER.offsets[field]
    assert str(error).startswith(f"{PATH}: {field} at offset {error.offset}: expected ")


def test_every_field_has_a_wrong_value_in_the_table_above() -> None:
    """Any value is right for these; the seed is held by the known answer, slots by their rules."""
    free = {"compatible_features", "seed", "uuid", "created_unix_ns", "slot_a", "slot_b"}

    tested = {field for field, _, _ in WRONG_FIELDS} | {"header_checksum"}

    assert set(HEADER.offsets) - tested == free


def test_a_wrong_header_checksum_is_named_with_both_values() -> None:
    """The checksum itself is a field like the others."""
    page = LINE.pack(Status())

    error = refusal(page[:-8] + bytes(8))

    assert (error.field, error.offset) == ("header_checksum", 4088)
    assert error.found == "0x0000000000000000"
    assert error.expected == f"{page_checksum(page):#018x}"


def test_unknown_compatible_features_are_ignored() -> None:
    """A reader may pass over what a compatible bit says, and still sees the bit."""
    page = with_fields(LINE.pack(Status()), compatible_features=1 << 40)

    assert unpack(page).header.compatible_features == 1 << 40


def test_a_changed_seed_is_caught_by_the_known_answer() -> None:
    """With another seed no key of the file would be found."""
    error = refusal(with_fields(LINE.pack(Status()), seed=43))

    assert error.field == "known_answer"
    assert "hashes keys differently" in error.hint


def test_a_file_of_a_newer_version_is_refused_naming_both() -> None:
    """Older releases refuse newer files by name, before they look for a checksum."""
    page = bytearray(LINE.pack(Status()))
    page[8:10] = (3).to_bytes(2, "little")

    error = refusal(bytes(page))

    assert isinstance(error, VersionError)
    assert (error.expected, error.found) == (1, 3)
    assert "Upgrade mmbloom" in str(error)


def test_an_unknown_feature_bit_is_named() -> None:
    """The lowest unknown bit of incompatible_features is what the user can ask about."""
    error = refusal(with_fields(LINE.pack(Status()), incompatible_features=0b101000))

    assert error.found == "bit 3"


def test_an_unknown_hash_is_refused_naming_both_ids() -> None:
    """A file with another hash is not damaged; this release cannot hash like its builder."""
    error = refusal(with_fields(LINE.pack(Status()), hash_id=9))

    assert (error.expected, error.found) == ("1 (xxh3-128)", 9)


@pytest.mark.parametrize("num_bits", [1 << 53, 1 << 60, U64 - 511])
@pytest.mark.parametrize("file_bytes", [1024, 5120])
def test_a_lie_about_the_size_is_refused_before_anything_is_allocated(
    num_bits: int, file_bytes: int
) -> None:
    """A header that claims 2^60 bits in a file of some kB costs no memory."""
    payload_bytes = num_bits // 8
    num_checksums = -(-payload_bytes // 2**20)
    page = with_fields(
        LINE.pack(Status()),
        num_bits=num_bits,
        payload_bytes=payload_bytes,
        checksums_offset=4096 + payload_bytes,
        num_checksums=num_checksums,
        file_bytes=4096 + payload_bytes + 8 * num_checksums,
    )
    tracemalloc.start()

    refusal(page[:file_bytes], file_bytes)

    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak_bytes < 200_000


@given(
    st.lists(st.tuples(st.integers(0, 4087), st.integers(1, 255)), min_size=1, max_size=4),
    st.sampled_from([SEALED_STATUS, OPEN_STATUS]),
)
def test_a_mutated_page_with_valid_checksums_opens_as_written_or_is_refused(
    changes: list[tuple[int, int]], status: Status
) -> None:
    """Nothing but FormatError leaves unpack, and a page that opens packs to the same bytes."""
    page = LINE.pack(status)
    for offset, mask in changes:
        page = flipped(page, offset, mask)
    for base in SLOT_OFFSETS:
        checksum = checksum64(page[base : base + 504]).to_bytes(8, "little")
        page = page[: base + 504] + checksum + page[base + 512 :]
    page = sealed_again(page)

    try:
        opened = unpack(page)
    except FormatError:
        return

    base = SLOT_OFFSETS[opened.slot_index]
    packed = opened.header.pack(opened.status)
    assert packed[:512] + packed[1536:] == page[:512] + page[1536:]
    assert packed[base : base + 512] == page[base : base + 512]


# ---- status slots --------------------------------------------------------------------------------

WRONG_STATUS = [
    ("state", 0, OPEN_STATUS),
    ("state", 3, OPEN_STATUS),
    ("flags", 8, OPEN_STATUS),
    ("flags", WRITER_OPEN, SEALED_STATUS),
    ("bits_set", 1, OPEN_STATUS),
    ("bits_set", LINE.num_bits + 1, SEALED_STATUS),
    ("achieved_fpr", 0.5, OPEN_STATUS),
    ("achieved_fpr", 1.5, SEALED_STATUS),
    ("achieved_fpr", -0.5, SEALED_STATUS),
    ("achieved_fpr", math.nan, SEALED_STATUS),
    ("checksum_root", 1, OPEN_STATUS),
    ("key_set", bytes(15) + b"\1", OPEN_STATUS),
    ("num_canaries", 9, SEALED_STATUS),
    ("num_canaries", 2**32 - 1, SEALED_STATUS),
    ("canaries", bytes(127) + b"\1", SEALED_STATUS),
    ("reserved0", b"\1", OPEN_STATUS),
    ("num_saturated", 1, OPEN_STATUS),
    ("num_saturated", 1, SEALED_STATUS),
    ("reserved1", bytes(287) + b"\1", OPEN_STATUS),
]


@pytest.mark.parametrize(("field", "value", "status"), WRONG_STATUS)
@pytest.mark.parametrize("slot_index", [0, 1])
def test_a_wrong_status_field_under_a_valid_checksum_is_named(
    field: str, value: object, status: Status, slot_index: int
) -> None:
    """A sound checksum means that the fault was written: no torn write, so no fallback."""
    slots = [pack_status(status), pack_status(status)]
    slots[slot_index] = slot_with(status, **{field: value})

    error = refusal(with_slots(*slots))

    assert error.field == field
    assert error.offset == SLOT_OFFSETS[slot_index] + STATUS.offsets[field]


def test_every_status_field_has_a_wrong_value_in_the_table_above() -> None:
    """Any value is right for these."""
    tested = {field for field, _, _ in WRONG_STATUS} | {"slot_checksum"}

    assert set(STATUS.offsets) - tested == {"sequence", "keys_added", "generation"}


@pytest.mark.parametrize(
    ("status", "field"),
    [
        pytest.param(Status(canaries=((1, 2),)), "num_canaries", id="canaries-that-may-be-removed"),
        pytest.param(Status(num_saturated=1281), "num_saturated", id="more-than-there-are"),
        pytest.param(Status(num_saturated=U64), "num_saturated", id="far-more"),
    ],
)
def test_a_counting_filter_has_rules_of_its_own(status: Status, field: str) -> None:
    """Keys may be removed while it is WRITABLE, so it holds none; counters can be counted."""
    counters = new_header(
        layout="counters",
        num_bits=5120,
        num_probes=7,
        capacity=100,
        fpr=0.01,
        uuid=bytes(16),
        created_unix_ns=0,
    )

    error = refusal(counters.pack(status), counters.file_bytes)

    assert (error.field, error.offset) == (field, 512 + STATUS.offsets[field])
    kept = Status(num_saturated=1280)
    assert unpack(counters.pack(kept), counters.file_bytes).status == kept


BEFORE = OPEN_STATUS._replace(sequence=5)
AFTER = OPEN_STATUS._replace(sequence=6, keys_added=9)
SEAL = SEALED_STATUS._replace(sequence=6)
TORN = pack_status(AFTER)[:256] + pack_status(BEFORE)[256:]


@pytest.mark.parametrize(
    ("slot_a", "slot_b", "expected"),
    [
        pytest.param(BEFORE, BEFORE, (BEFORE, 0, False), id="new-file"),
        pytest.param(BEFORE, AFTER, (AFTER, 1, False), id="b-is-newer"),
        pytest.param(AFTER, BEFORE, (AFTER, 0, False), id="a-is-newer"),
        pytest.param(
            BEFORE._replace(sequence=1), AFTER, (AFTER, 1, False), id="slots-between-were-lost"
        ),
        pytest.param(TORN, BEFORE, (BEFORE, 1, True), id="a-is-torn"),
        pytest.param(BEFORE, TORN, (BEFORE, 0, True), id="b-is-torn"),
        pytest.param(bytes(512), BEFORE, (BEFORE, 1, True), id="a-is-zeros"),
        pytest.param(SEAL, SEAL, (SEAL, 0, False), id="sealed"),
        pytest.param(SEAL, BEFORE, (SEAL, 0, False), id="seal-interrupted-after-a"),
        pytest.param(BEFORE, SEAL, (SEAL, 1, False), id="seal-interrupted-after-b"),
    ],
)
def test_the_slot_that_counts(
    slot_a: Status | bytes, slot_b: Status | bytes, expected: tuple[Status, int, bool]
) -> None:
    """A crash at any point of a flush or a seal leaves a status that is true."""
    page = with_slots(as_slot(slot_a), as_slot(slot_b))

    assert unpack(page)[1:] == expected


@pytest.mark.parametrize(
    ("slot_a", "slot_b", "field", "base"),
    [
        pytest.param(TORN, bytes(512), "slot_checksum", 512, id="both-damaged"),
        pytest.param(SEAL, TORN, "slot_checksum", 1024, id="b-of-sealed-is-damaged"),
        pytest.param(TORN, SEAL, "slot_checksum", 512, id="a-of-sealed-is-damaged"),
        pytest.param(
            SEAL, SEAL._replace(keys_added=4), "keys_added", 1024, id="two-different-seals"
        ),
        pytest.param(SEAL, SEAL._replace(key_set=4), "key_set", 1024, id="seals-of-other-keys"),
        pytest.param(SEAL, SEAL._replace(sequence=7), "sequence", 1024, id="seal-after-seal"),
        pytest.param(
            SEAL, AFTER._replace(sequence=7), "sequence", 1024, id="writable-after-sealed"
        ),
        pytest.param(BEFORE._replace(sequence=4), SEAL, "sequence", 512, id="seal-skips-one"),
        pytest.param(SEAL, AFTER, "state", 1024, id="sealed-and-writable-at-once"),
        pytest.param(
            BEFORE, BEFORE._replace(keys_added=3), "keys_added", 1024, id="one-sequence-two-counts"
        ),
    ],
)
def test_slots_that_contradict_each_other_are_refused(
    slot_a: Status | bytes, slot_b: Status | bytes, field: str, base: int
) -> None:
    """No crash leaves such a pair, so it is damage: the field that shows it is named."""
    error = refusal(with_slots(as_slot(slot_a), as_slot(slot_b)))

    assert (error.field, error.offset) == (field, base + STATUS.offsets[field])


def as_slot(slot: Status | bytes) -> bytes:
    """Return the bytes of a slot given either way."""
    return pack_status(slot) if isinstance(slot, Status) else slot


def test_flags_have_names() -> None:
    """One property a flag bit."""
    status = Status(flags=WRITER_OPEN | KEY_SET_KNOWN)

    assert (status.writer_open, status.keys_exact, status.key_set_known) == (True, False, True)
    assert not status.is_sealed


# ---- parameters ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"layout": "blocked"}, "layout"),
        ({"key_form": "url"}, "key_form"),
        ({"num_probes": 0}, "num_probes"),
        ({"num_probes": 17}, "num_probes"),
        ({"num_bits": 0}, "num_bits"),
        ({"num_bits": 513}, "num_bits"),
        ({"num_bits": MAX_NUM_BITS + 512}, "num_bits"),
        ({"capacity": 0}, "capacity"),
        ({"fpr": 1.0}, "fpr"),
        ({"fpr": math.nan}, "fpr"),
        ({"uuid": b"short"}, "uuid"),
        ({"seed": -1}, "seed"),
        ({"metadata": {1: 2}}, "metadata"),
    ],
)
def test_a_header_that_a_reader_would_refuse_is_not_made(
    changes: dict[str, Any], name: str
) -> None:
    """ParameterError with the name of the field, before anything is written."""
    parameters: dict[str, Any] = {
        "layout": "line",
        "num_bits": 512,
        "num_probes": 1,
        "capacity": 1,
        "fpr": 0.5,
        "uuid": bytes(16),
        "created_unix_ns": 0,
    }

    with pytest.raises(ParameterError) as caught:
        new_header(**parameters | changes)

    assert caught.value.name == name


@pytest.mark.parametrize(
    ("status", "name"),
    [
        (Status(state=3), "state"),
        (Status(flags=8), "flags"),
        (Status(bits_set=1), "bits_set"),
        (SEALED_STATUS._replace(flags=WRITER_OPEN, key_set=0), "flags"),
        (Status(key_set=1), "key_set"),
        (Status(canaries=((1, 2),) * 9), "canaries"),
        (Status(canaries=((-1, 2),)), "status"),
        (Status(sequence=-1), "status"),
    ],
)
def test_a_status_that_a_reader_would_refuse_is_not_packed(status: Status, name: str) -> None:
    """The writer keeps the reader's rules, so that no slot locks a file."""
    with pytest.raises(ParameterError) as caught:
        pack_status(status)

    assert caught.value.name == name


@pytest.mark.parametrize("seed", [0, 1, U64])
def test_a_seed_of_64_bits_is_taken(seed: int) -> None:
    """Any unsigned 64-bit number is a seed."""
    assert check_seed(seed) == seed


@pytest.mark.parametrize("seed", [-1, U64 + 1])
def test_a_seed_out_of_range_is_refused(seed: int) -> None:
    """The header has 64 bits for it; nothing is cut off in silence."""
    with pytest.raises(ParameterError, match=r"seed: expected 0 to 2\*\*64 - 1"):
        check_seed(seed)


@pytest.mark.parametrize("seed", [True, 1.0, "1", None])
def test_a_seed_that_is_no_int_is_refused(seed: object) -> None:
    """A bool, a float or a text is a mistake, not a number."""
    with pytest.raises(ParameterTypeError, match="seed: expected an int"):
        check_seed(seed)  # type: ignore[arg-type]


def test_the_magic_breaks_in_text_mode() -> None:
    """It holds a byte outside ASCII, CR LF, Ctrl-Z and a lone LF."""
    assert MAGIC[0] >= 0x80
    assert b"\r\n\x1a\n" in MAGIC


# ---- fuse filters --------------------------------------------------------------------------------


def fuse_header(shape: FuseShape, **given: Any) -> Header:  # noqa: ANN401 - passed on
    """Return the header of a fuse filter."""
    parameters: dict[str, Any] = {
        "layout": {3: "fuse3", 4: "fuse4"}[shape.arity],
        "num_bits": shape.num_bits,
        "num_probes": shape.arity,
        "own": shape.own_fields,
        "capacity": 100,
        "fpr": 0.01,
        "uuid": bytes(16),
        "created_unix_ns": 0,
    }
    return new_header(**parameters | given)


FUSE = FuseShape(arity=3, fingerprint_bits=10, segment_slots=64, num_segments=5, num_shards=2)
FUSE_SEALED = Status(state=SEALED, sequence=2)


@pytest.mark.parametrize("shape", [FUSE, FUSE._replace(arity=4), FuseShape(3, 8, 0, 0, 0)])
def test_a_fuse_page_reads_back_as_it_was_written(shape: FuseShape) -> None:
    """Its shape gives every size: 2 shards of 448 bytes (3200 bits and 32 more), and 2 seeds."""
    header = fuse_header(shape)

    found = unpack(header.pack(FUSE_SEALED), header.file_bytes).header

    assert found == header
    assert fuse_shape(found) == shape
    assert header.payload_bytes == (2 * 448 + 64 if shape.num_shards else 64)


@pytest.mark.parametrize(
    ("field", "value", "refused"),
    [
        ("layout", 2, "layout"),
        ("layout", 6, "num_probes"),
        ("num_probes", 2, "num_probes"),
        ("num_probes", 4, "num_probes"),
        ("fingerprint_bits", 0, "fingerprint_bits"),
        ("fingerprint_bits", 33, "fingerprint_bits"),
        ("fingerprint_bits", 13, "num_bits"),
        ("segment_slots", 0, "segment_slots"),
        ("segment_slots", 48, "segment_slots"),
        ("segment_slots", 128, "num_bits"),
        ("segment_slots", 1 << 19, "segment_slots"),
        ("num_segments", 2, "num_segments"),
        ("num_segments", 6, "num_bits"),
        ("num_segments", (1 << 14) + 1, "num_segments"),
        ("num_shards", 1, "num_bits"),
        ("num_shards", 0, "segment_slots"),
        ("num_shards", (1 << 26) + 1, "num_shards"),
        ("num_shards", 2**32 - 1, "num_shards"),
        ("num_bits", 512, "num_bits"),
        ("overfill", 1, "overfill"),
        ("reserved1", b"\1", "reserved1"),
    ],
)
def test_a_wrong_shape_under_a_valid_checksum_is_refused(
    field: str, value: object, refused: str
) -> None:
    """By its own rule, or because sizes do not follow: nothing beside the payload is read."""
    header = fuse_header(FUSE)
    page = with_fields(header.pack(FUSE_SEALED), **{field: value})

    assert refusal(page, header.file_bytes).field == refused


def test_a_fuse_filter_that_could_be_written_is_refused() -> None:
    """It is finished, or no filter at all."""
    header = fuse_header(FUSE)

    error = refusal(header.pack(Status()), header.file_bytes)

    assert (error.field, error.offset) == ("state", 512 + STATUS.offsets["state"])


def test_a_shape_is_for_fuse_filters_only() -> None:
    """A writer can no more mix them than a reader takes a mixture."""
    with pytest.raises(ParameterError, match="fingerprint_bits"):
        fuse_header(FUSE, layout="line", num_bits=512)
    with pytest.raises(ParameterError, match="fingerprint_bits"):
        new_header(
            layout="fuse3",
            num_bits=512,
            num_probes=3,
            capacity=1,
            fpr=0.5,
            uuid=bytes(16),
            created_unix_ns=0,
        )
