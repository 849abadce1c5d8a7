"""Two engines, one truth: the kernel and the reference give the same bytes, counts and errors.

Every test asks both and compares. What is right is tested elsewhere, against FORMAT.md's vectors
and an independent reader; here it matters that there is one answer. test_engine_views.py does the
same for whole filters.
"""

from __future__ import annotations

import mmap
import struct
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mmbloom.engine import reference
from mmbloom.errors import KeyTypeError, KeyValueError, SourceError

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from types import ModuleType

    BesideAThread = Callable[[], AbstractContextManager[None]]

kernel = pytest.importorskip("mmbloom.engine._kernel", reason="no kernel was compiled here")

CLASSIC, LINE, PAGE, NARROW = 1, 2, 3, 4
RAW, HEX = 0, 1
SEEDS = st.sampled_from([0, 1, 2**32 - 1, 2**63, 2**64 - 1]) | st.integers(0, 2**64 - 1)
WORDS = st.sampled_from([0, 1, 2**32 - 1, 2**32, 2**63, 2**64 - 1]) | st.integers(0, 2**64 - 1)
FORMS = st.sampled_from([RAW, HEX])

# One alphabet for each way in which CPython stores text: 1 byte (ASCII, Latin-1), 2 and 4 bytes.
ALPHABETS = {
    "ascii": "\0aZ09~\x7f",
    "latin1": "\0a\x80\xe9\xff",
    "ucs2": "a\xff\u0100\u07ff\u0800\ud7ff\ue000\uffff",
    "ucs4": "a\xff\u0800\uffff\U00010000\U0010ffff",
}
TEXTS = st.one_of([st.text(letters, max_size=1000) for letters in ALPHABETS.values()])
BYTES = st.binary(max_size=1000)
HEX_TEXTS = st.text("0123456789abcdefABCDEF", max_size=300)
GOOD_KEYS = st.one_of(
    TEXTS, BYTES, HEX_TEXTS, BYTES.map(bytearray), BYTES.map(memoryview), HEX_TEXTS.map(str.encode)
)
BAD_KEYS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.tuples(),
    st.sampled_from(
        ["\ud800", "ok\udfff", "\ud83d\ude00", "0g", "abc", " 0a1", "é", b"\x000", "0\0"]
    ),
)
KEYS = st.lists(GOOD_KEYS, max_size=20) | st.lists(GOOD_KEYS | BAD_KEYS, max_size=20)


def same(call: Callable[[ModuleType], Any]) -> Any:  # noqa: ANN401 - whatever an engine returns
    """Return what *call* gives with either engine: a value, or the type and text of an error."""
    results = []
    for engine in (kernel, reference):
        try:
            results.append(call(engine))
        except (KeyTypeError, KeyValueError, SourceError, ValueError, KeyError) as exc:
            results.append((type(exc), str(exc)))
    assert results[0] == results[1]
    return results[0]


# ---- keys and batches ----------------------------------------------------------------------------


@pytest.mark.parametrize("letters", [*ALPHABETS.values(), None], ids=[*ALPHABETS, "bytes"])
def test_hashes_agree_for_every_length_from_0_to_1000(letters: str | None) -> None:
    """XXH3 has a rule of its own for 0, 1-3, 4-8, 9-16, 17-128, 129-240 and more bytes."""
    chance = np.random.default_rng(1)
    for length in range(1001):
        key = chance.bytes(length)
        if letters:
            key = "".join(letters[byte % len(letters)] for byte in key)

        same(lambda engine, key=key: engine.hash_key(key, len(key), RAW))


@given(GOOD_KEYS | BAD_KEYS, SEEDS, FORMS)
def test_one_key_has_one_hash_or_one_error(key: object, seed: int, form: int) -> None:
    """str, bytes, bytearray and memoryview, good or bad, in both key forms."""
    same(lambda engine: engine.hash_key(key, seed, form))


@given(keys=KEYS, seed=SEEDS, form=FORMS)
@example(keys=["\ud800", None], seed=0, form=RAW)
@example(keys=["aa", "zz", "\ud800", None], seed=0, form=HEX)
def test_a_batch_of_objects_has_the_hashes_of_its_keys(
    beside_a_thread: BesideAThread, keys: list[object], seed: int, form: int
) -> None:
    """The error of a batch is that of its first bad key, whatever is wrong with the later ones."""
    found = same(lambda engine: bytes(engine.hash_batch(engine.ObjectBatch(keys), seed, form)))
    with beside_a_thread():
        again = same(lambda engine: bytes(engine.hash_batch(engine.ObjectBatch(keys), seed, form)))

    assert again == found
    singles = [same(lambda engine, key=key: engine.hash_key(key, seed, form)) for key in keys]
    for index, (kind, text) in enumerate(singles):
        if isinstance(text, str):
            assert found == (kind, text.replace("key:", f"key {index} of the batch:", 1))
            return
    assert found == b"".join(struct.pack("<QQ", *key) for key in singles)


@pytest.mark.parametrize("num_keys", [0, 1, 255, 256, 257, 511, 512, 513, 16383, 16384, 16385])
def test_hashes_agree_at_the_borders_of_pieces_and_chunks(
    beside_a_thread: BesideAThread, num_keys: int
) -> None:
    """Objects are gathered 16 384 at a time, hashed 512 at a time; below 257 the GIL is kept."""
    keys = [f"key {i}" for i in range(num_keys)]

    same(lambda engine: bytes(engine.hash_batch(engine.ObjectBatch(keys), 7, RAW)))
    with beside_a_thread():
        same(lambda engine: bytes(engine.hash_batch(engine.ObjectBatch(keys), 7, RAW)))


@pytest.mark.parametrize("bad", [None, 1, 1.5, "\ud800"])
@pytest.mark.parametrize("at", [0, 1, 16383, 16384, 16385])
def test_a_bad_key_is_named_by_its_number_in_the_batch(
    beside_a_thread: BesideAThread, at: int, bad: object
) -> None:
    """In a later piece of a large batch, and in a piece that begins at *first*, too."""
    keys: list[object] = [b"key"] * 16400
    keys[at] = bad

    found = same(lambda engine: engine.hash_batch(engine.ObjectBatch(keys), 0, RAW))
    with beside_a_thread():
        later = same(lambda engine: engine.hash_batch(engine.ObjectBatch(keys, 1000), 0, RAW))

    assert found[1].startswith(f"key {at} of the batch: ")
    assert later[1].startswith(f"key {1000 + at} of the batch: ")


@given(st.data(), SEEDS, FORMS)
def test_rows_of_one_width_agree(data: st.DataObject, seed: int, form: int) -> None:
    """Whole rows, NumPy's S without trailing NULs, NumPy's U with any number as code point."""
    kind = data.draw(st.sampled_from(["bytes", "trimmed", "ucs4"]))
    width = data.draw(st.integers(0, 40)) * (4 if kind == "ucs4" else 1)
    letters = st.sampled_from([0, 0x30, 0x66, 0xE9, 0xFFFF, 0x10FFFF]) | st.integers(0, 2**32 - 1)
    units = letters.map(lambda c: struct.pack("=I", c)) if kind == "ucs4" else st.binary(max_size=1)
    content = data.draw(st.lists(units | st.just(b"0000"), max_size=300).map(b"".join))
    num_rows = data.draw(st.integers(0, len(content) // width if width else 9))

    same(lambda engine: bytes(_hash_rows(engine, content, width, num_rows, kind, seed, form)))


def _hash_rows(engine: ModuleType, *args: Any) -> bytes:  # noqa: ANN401 - passed on
    content, width, num_rows, kind, seed, form = args
    return bytes(engine.hash_batch(engine.RowsBatch(content, width, num_rows, kind, 5), seed, form))


@pytest.mark.parametrize(
    ("code_point", "is_text"),
    [(0xD7FF, True), (0xD800, False), (0xDFFF, False), (0x10FFFF, True), (0x110000, False)],
    ids=hex,
)
def test_what_is_no_code_point_has_no_hash(code_point: int, is_text: bool) -> None:  # noqa: FBT001
    """A NumPy array of text can hold any number; two of them must never be one key."""
    row = struct.pack("=I", code_point)

    found = same(lambda engine: _hash_rows(engine, row, 4, 1, "ucs4", 0, RAW))

    if is_text:
        assert found == struct.pack("<QQ", *reference.hash_key(chr(code_point), 0, RAW))
    else:
        assert found[0] is KeyValueError


@pytest.mark.parametrize(
    ("content", "width", "num_rows"), [(b"abc", 2, 2), (b"", 1, 1), (b"a", -1, 1), (b"a", 1, -1)]
)
def test_rows_that_leave_their_memory_are_refused(
    content: bytes, width: int, num_rows: int
) -> None:
    """Bounds are checked before a byte is read."""
    found = same(lambda engine: len(engine.RowsBatch(content, width, num_rows, "bytes")))

    assert found[0] is ValueError
    assert "do not fit" in found[1]


@given(st.lists(st.binary(max_size=60), max_size=30), st.sampled_from([4, 8]), SEEDS, FORMS)
def test_keys_between_offsets_agree(
    keys: list[bytes], offset_bytes: int, seed: int, form: int
) -> None:
    """Arrow's layout, with 32- and with 64-bit offsets; empty keys are keys."""
    ends = [sum(map(len, keys[:i])) for i in range(len(keys) + 1)]
    offsets = struct.pack(f"={len(ends)}{'I' if offset_bytes == 4 else 'Q'}", *ends)
    content = b"".join(keys)

    found = same(lambda engine: _hash_offsets(engine, content, offsets, offset_bytes, seed, form))

    if form == RAW:
        assert found == b"".join(struct.pack("<QQ", *reference.hash_bytes(k, seed)) for k in keys)


def _hash_offsets(engine: ModuleType, *args: Any) -> bytes:  # noqa: ANN401 - passed on
    content, offsets, offset_bytes, seed, form = args
    batch = engine.OffsetsBatch(content, offsets, offset_bytes)
    return bytes(engine.hash_batch(batch, seed, form))


@pytest.mark.parametrize(
    "offsets",
    [[], [0, 5], [3, 2], [0, 3, 1], [0, 2**32 - 1], [2, 2, 1]],
    ids=["none", "past-the-end", "falling", "falling-later", "wrapped", "falling-behind"],
)
@pytest.mark.parametrize("code", ["I", "Q"])
def test_offsets_that_leave_their_memory_are_refused(offsets: list[int], code: str) -> None:
    """Arrow data comes from other libraries: no offset is trusted."""
    packed = struct.pack(f"={len(offsets)}{code}", *offsets)
    found = same(lambda engine: len(engine.OffsetsBatch(b"four", packed, struct.calcsize(code))))

    assert found[0] is ValueError


LINE_TEXT = st.lists(
    st.sampled_from([b"\n", b"\r\n", b"\r", b"ab", b"0F", b":", b"\0", b"\xff", b"key:1:2"]),
    max_size=60,
).map(b"".join)


@given(LINE_TEXT, st.integers(0, 3), st.sampled_from([b":", b"\0", b"a"]), SEEDS, FORMS)
@example(b"a\n\nb", 0, b":", 0, RAW)
@example(b"a:1\r\nb:2", 2, b":", 0, RAW)
@example(b"a:1\nb", 2, b":", 0, RAW)
@example(b"\r\r\n", 0, b":", 0, RAW)
def test_lines_agree(text: bytes, field: int, delimiter: bytes, seed: int, form: int) -> None:
    """LF, CR LF, no final newline, empty lines, fields: the same keys, or the same error."""
    same(lambda engine: _hash_lines(engine, text, delimiter[0], field, seed, form))


def _hash_lines(engine: ModuleType, *args: Any) -> bytes:  # noqa: ANN401 - passed on
    text, delimiter, field, seed, form = args
    batch = engine.LinesBatch(text, "list.txt", 11, delimiter, field)
    hashes = bytes(engine.hash_batch(batch, seed, form))
    assert len(hashes) <= 16 * len(batch)  # its length is an upper bound
    return hashes


@given(
    st.lists(st.sampled_from([b"\n", b"\r\n", b"#", b"a:b", b"#x\n", b"0F"]), max_size=40),
    st.sampled_from([0, ord("#")]),
    st.sampled_from([0, 1, 2]),
    st.integers(0, 2),
)
@example([b"a:b\n", b"\r\n", b"#\n", b"\n"], ord("#"), 1, 2)
@example([b"a:b\n", b"\n"], 0, 2, 0)
def test_comments_and_blank_lines_agree(
    parts: list[bytes], comment: int, blank: int, field: int
) -> None:
    """A comment is no key; an empty line is none, or the empty key, or a bad line."""
    text = b"".join(parts)

    def ask(engine: ModuleType) -> tuple[object, ...]:
        batch = engine.LinesBatch(text, "list.txt", 11, ord(":"), field, comment, blank)
        hashes = bytes(engine.hash_batch(batch, 0, RAW))
        num_keys = len(hashes) // 16
        assert num_keys <= min(len(batch), batch.most_keys)
        places = [batch.describe(i) for i in range(num_keys)]
        flags = bytes(i % 2 for i in range(num_keys))
        return hashes, places, batch.select(flags, wanted=True), batch.select(flags, wanted=False)

    same(ask)


@given(LINE_TEXT, st.integers(0, 2), st.integers(0, 2), FORMS)
def test_most_keys_agree_and_bound_the_keys(text: bytes, blank: int, field: int, form: int) -> None:
    """Room is set aside by it before a line is looked at."""
    batches = [
        engine.LinesBatch(text, "", 1, ord(":"), field, 0, blank) for engine in (kernel, reference)
    ]

    assert batches[0].most_keys >= text.count(b"\n")
    for engine, batch in zip((kernel, reference), batches, strict=True):
        partitions = engine.Partitions(_page_memory(), 1, 1)
        num_keys, num_bad, _ = partitions.add_batch(0, batch, 0, form, skip_bad=True)
        assert num_keys + num_bad <= batch.most_keys


@given(LINE_TEXT, st.integers(0, 5000))
def test_counts_of_lines_agree(text: bytes, repeats: int) -> None:
    """Of LF bytes, in any number of them: counted 16 at a time, 4080 at a time."""
    for some in (text, text * (repeats // 40), b"\n" * repeats, b"x" * repeats + b"\n"):
        assert same(lambda engine, some=some: engine.count_lines(some)) == some.count(b"\n")


@pytest.mark.parametrize(
    ("arguments", "place"),
    [
        ((), "key 2 of the batch"),
        ((40,), "key 42 of the batch"),
        ((40, "a.parquet"), "a.parquet, row 43"),
        ((40, "a.csv", [7, 9, 12]), "a.csv, line 12"),
    ],
    ids=str,
)
def test_a_key_between_offsets_is_named_as_its_list_names_it(
    arguments: tuple[Any, ...], place: str
) -> None:
    """By its row or by its line, where there is a list."""
    offsets = struct.pack("=4I", 0, 2, 4, 6)

    def ask(engine: ModuleType) -> str:
        batch = engine.OffsetsBatch(b"0102zz", offsets, 4, *arguments)
        assert (batch.most_keys, batch.describe(2)) == (3, place)
        return str(engine.hash_batch(batch, 0, HEX))

    kind, text = same(ask)
    assert kind is KeyValueError
    assert text.startswith(f"{place}: ")


@pytest.mark.parametrize("num_lines", [1, 511, 512, 513, 1500])
def test_a_bad_line_is_named_by_its_number_in_the_list(num_lines: int) -> None:
    """Empty lines are no keys, but they are lines; so is what came before this block."""
    text = b"a:1\n\n" * num_lines + b"no field\n"

    found = same(lambda engine: _hash_lines(engine, text, ord(":"), 2, 0, RAW))

    assert found[0] is SourceError
    assert found[1].startswith(f"list.txt, line {11 + 2 * num_lines}: ")


@given(LINE_TEXT, st.binary(max_size=40), st.booleans())
@example(text=b"a\n\r\nb", noise=b"\0\1", wanted=True)
def test_selected_lines_agree(text: bytes, noise: bytes, wanted: bool) -> None:  # noqa: FBT001
    """Lines that have no flag are left out; a flag is 0 or 1."""
    flags = bytes(byte & 1 for byte in noise)

    same(lambda engine: engine.LinesBatch(text, "", 1).select(flags, wanted))


# ---- hashes --------------------------------------------------------------------------------------

HASHES = st.lists(st.tuples(WORDS, WORDS), max_size=200)


def _packed(hashes: list[tuple[int, int]]) -> bytearray:
    return bytearray().join(struct.pack("<QQ", *key) for key in hashes)


def _sorted_by(engine: ModuleType, hashes: list[tuple[int, int]]) -> bytearray:
    packed = _packed(hashes)
    num_left = engine.sort_unique(packed, bytearray(len(packed)))
    return packed[: 16 * num_left]


@given(HASHES)
def test_sorting_and_sums_agree(hashes: list[tuple[int, int]]) -> None:
    """Sorted by (hi, lo), each once; the sum is modulo 2^128."""
    found = same(lambda engine: _sorted_by(engine, hashes))

    assert found == _packed(sorted(set(hashes)))
    total = same(lambda engine: engine.sum_hashes(bytes(found)))
    assert total == sum((hi << 64) + lo for hi, lo in set(hashes)) % 2**128


@pytest.mark.parametrize("shared_bits", [0, 8, 56, 64, 72, 120, 128])
def test_sorting_agrees_for_hashes_with_a_common_prefix(shared_bits: int) -> None:
    """Hashes that differ in their last bytes only take the radix sort through every level."""
    chance = np.random.default_rng(shared_bits)
    numbers = [int.from_bytes(chance.bytes(16), "big") >> shared_bits for _ in range(3000)]
    hashes = [(number >> 64, number & (2**64 - 1)) for number in numbers + numbers[::7]]

    assert same(lambda engine: _sorted_by(engine, hashes)) == _packed(sorted(set(hashes)))


@pytest.mark.parametrize("num_hashes", [0, 1, 2, 31, 32, 33, 64, 1000])
@pytest.mark.parametrize("num_distinct", [1, 2, 40])
def test_sorting_agrees_for_a_few_hashes_repeated(num_hashes: int, num_distinct: int) -> None:
    """A list may hold one key a million times; small groups take another path from 33 on."""
    chance = np.random.default_rng(num_hashes)
    few = [tuple(pair) for pair in chance.integers(0, 2**63, (num_distinct, 2)).tolist()]
    hashes = [few[i] for i in chance.integers(0, num_distinct, num_hashes)]

    assert same(lambda engine: _sorted_by(engine, hashes)) == _packed(sorted(set(hashes)))


def _ordered_by(engine: ModuleType, hashes: list[tuple[int, int]], num_parts: int) -> bytearray:
    out = bytearray(16 * len(hashes))
    engine.order_by_part(_packed(hashes), num_parts, out)
    return out


@given(HASHES, st.integers(1, 2**17))
def test_an_order_by_part_agrees(hashes: list[tuple[int, int]], num_parts: int) -> None:
    """By the part in which hi lies; within a part as they came."""
    found = same(lambda engine: _ordered_by(engine, hashes, num_parts))

    assert found == _packed(sorted(hashes, key=lambda pair: pair[0] * num_parts >> 64))


@pytest.mark.parametrize("num_parts", [1, 7, 2**14, 2**14 + 1, 3 * 2**14])
def test_an_order_by_more_parts_than_there_are_counters_agrees(num_parts: int) -> None:
    """Then the kernel goes through the hashes more than once."""
    chance = np.random.default_rng(num_parts)
    hashes = [tuple(pair) for pair in chance.integers(0, 2**64, (3000, 2), np.uint64).tolist()]

    found = same(lambda engine: _ordered_by(engine, hashes, num_parts))

    assert found == _packed(sorted(hashes, key=lambda pair: pair[0] * num_parts >> 64))


def test_an_order_without_room_or_parts_is_refused() -> None:
    """Nothing is written then."""
    for engine in (kernel, reference):
        hashes, out = _packed([(2, 0), (1, 0)]), bytearray(32)
        with pytest.raises(ValueError, match="out"):
            engine.order_by_part(hashes, 1, bytearray(31))
        with pytest.raises(ValueError, match="0 parts"):
            engine.order_by_part(hashes, 0, out)
        assert out == bytes(32)


def test_sorting_without_room_for_it_is_refused() -> None:
    """As much scratch as there are hashes; the hashes are as they were."""
    for engine in (kernel, reference):
        hashes = _packed([(2, 0), (1, 0)])
        with pytest.raises(ValueError, match="scratch"):
            engine.sort_unique(hashes, bytearray(31))
        assert hashes == _packed([(2, 0), (1, 0)])


# ---- probes --------------------------------------------------------------------------------------

BORDERS = [2**31, 2**32 - 1, 2**32, 2**32 + 1, 2**32 + 2**20, 2**40, 2**53]


@given(st.data(), WORDS, WORDS)
def test_probes_agree_for_every_layout_k_and_size(data: st.DataObject, hi: int, lo: int) -> None:
    """From one probe to the most of the layout; sizes from 1 bit to 2^53, both sides of 2^32."""
    layout, step, most = data.draw(
        st.sampled_from([(CLASSIC, 1, 64), (LINE, 512, 16), (PAGE, 32768, 32), (NARROW, 128, 16)])
    )
    sizes = st.sampled_from(BORDERS) | st.integers(1, 2**53) | st.integers(1, 100000)
    num_bits = -(-data.draw(sizes) // step) * step

    longest = same(lambda engine: engine.probes(layout, num_bits, most, hi, lo))

    assert all(0 <= bit < num_bits for bit in longest)
    for num_probes in range(1, most):
        shorter = same(lambda engine, k=num_probes: engine.probes(layout, num_bits, k, hi, lo))
        assert shorter == longest[:num_probes]


@pytest.mark.parametrize(("layout", "most"), [(CLASSIC, 64), (LINE, 16), (PAGE, 32), (NARROW, 16)])
@pytest.mark.parametrize("too_many", [1, 1000, 2**31])
def test_more_probes_than_the_layout_has_are_refused(layout: int, most: int, too_many: int) -> None:
    """The kernel's tables end there."""
    found = same(lambda engine: engine.probes(layout, 32768, most + too_many, 0, 0))

    assert found == (ValueError, f"num_probes is {most + too_many}, at most {most}")


# ---- partitions ---------------------------------------------------------------------------------


def _page_memory(num_pages: int = 2000) -> mmap.mmap:
    return mmap.mmap(-1, 4096 * num_pages)


def _contents(partitions: Any, bits: int) -> list[list[bytes]]:  # noqa: ANN401 - of either engine
    """Return the hashes of each partition, in order."""
    found = []
    for partition in range(1 << bits):
        out = bytearray(16 * partitions.count(partition))
        assert partitions.copy(partition, out) == partitions.count(partition)
        found.append(sorted(bytes(out[i : i + 16]) for i in range(0, len(out), 16)))
    return found


@pytest.mark.parametrize("bits", [1, 3, 10])
@pytest.mark.parametrize("num_hashes", [0, 1, 15, 16, 17, 255, 256, 257, 5000])
def test_every_hash_is_in_the_partition_that_its_top_bits_name(bits: int, num_hashes: int) -> None:
    """Whichever lane it came by; copied out, none is missing and none is twice."""
    chance = np.random.default_rng(num_hashes)
    data = chance.bytes(16 * num_hashes)

    def ask(engine: ModuleType) -> list[list[bytes]]:
        partitions = engine.Partitions(_page_memory(6000), bits, 3)
        for lane in range(3):
            partitions.add_hashes(lane, data[lane * 16 * (num_hashes // 3) :])
        return _contents(partitions, bits)

    found = same(ask)
    third = 16 * (num_hashes // 3)
    added = data + data[third:] + data[2 * third :]
    assert sum(map(len, found)) == len(added) // 16
    for partition, hashes in enumerate(found):
        assert all(struct.unpack_from("<Q", h)[0] >> (64 - bits) == partition for h in hashes)
    assert sorted(h for hashes in found for h in hashes) == sorted(
        added[i : i + 16] for i in range(0, len(added), 16)
    )


@given(LINE_TEXT, st.integers(0, 2), st.integers(0, 2), FORMS, st.booleans(), st.booleans())
@example(text=b"0F\nab:\n\n", blank=2, field=0, form=HEX, skip=True, digests=False)
@example(text=b"key:1:2\n" * 20 + b"ab", blank=0, field=2, form=HEX, skip=True, digests=False)
@example(text=b":1\nab:2\n\n:3", blank=1, field=1, form=HEX, skip=True, digests=True)
def test_batches_go_to_partitions_alike_with_their_bad_keys(  # noqa: PLR0913, PLR0917 - drawn
    text: bytes,
    blank: int,
    field: int,
    form: int,
    skip: bool,  # noqa: FBT001 - drawn
    digests: bool,  # noqa: FBT001 - drawn
) -> None:
    """Counted and passed over if asked for, the first 8 with reasons; else the first ends it."""

    def ask(engine: ModuleType) -> tuple[object, ...]:
        partitions = engine.Partitions(_page_memory(), 1, 1)
        batch = engine.LinesBatch(text, "list.txt", 11, ord(":"), field, 0, blank, digests=digests)
        num_keys, num_bad, errors = partitions.add_batch(0, batch, 9, form, skip)
        assert len(errors) == min(num_bad, 8)
        reasons = [(type(error), str(error)) for error in errors]
        return num_keys, num_bad, reasons, _contents(partitions, 1)

    same(ask)


@pytest.mark.parametrize("num_lines", [511, 512, 513, 1100])
def test_bad_lines_beyond_a_chunk_are_named_by_their_numbers(num_lines: int) -> None:
    """The kernel hashes 512 keys at a time; the last or the first of them may be bad."""
    lines = [b"%04x" % i for i in range(num_lines)]
    for bad in (0, 1, 510, 511, 512, num_lines - 1):
        if bad < num_lines:
            lines[bad] = b"none"

    def ask(engine: ModuleType) -> tuple[object, ...]:
        partitions = engine.Partitions(_page_memory(), 1, 1)
        batch = engine.LinesBatch(b"\n".join(lines), "list.txt", 1)
        num_keys, num_bad, errors = partitions.add_batch(0, batch, 0, HEX, skip_bad=True)
        return num_keys, num_bad, [str(error) for error in errors], _contents(partitions, 1)

    num_keys, num_bad, errors, _ = same(ask)
    expected = [i + 1 for i, line in enumerate(lines) if line == b"none"]
    assert (num_keys, num_bad) == (num_lines - len(expected), len(expected))
    assert [int(text.split("line ")[1].split(":")[0]) for text in errors] == expected


@pytest.mark.parametrize("num_hashes", [1, 16, 17, 256, 300, 2000])
def test_partitions_are_taken_sorted_and_put_back(num_hashes: int) -> None:
    """Taken until nothing is left, put back by any lane, and taken again."""
    data = bytearray(np.random.default_rng(num_hashes).bytes(16 * num_hashes))
    for i in range(num_hashes):
        data[16 * i + 7] |= 0x80  # the upper of two partitions

    def ask(engine: ModuleType) -> list[list[bytes]]:
        partitions = engine.Partitions(_page_memory(), 1, 2)
        partitions.add_hashes(0, data[: 16 * (num_hashes // 2)])
        partitions.add_hashes(1, data[16 * (num_hashes // 2) :])
        before = _contents(partitions, 1)
        left = partitions.chunks_left
        room, taken = bytearray(16 * 272), bytearray()
        while count := partitions.take(1, room):
            taken += room[: 16 * count]
        assert partitions.count(1) == 0
        assert partitions.take(1, room) == 0
        assert partitions.chunks_left >= left
        num_left = engine.sort_unique(taken, bytearray(len(taken)))
        partitions.put_back(1, 1, taken[: 16 * num_left])
        assert _contents(partitions, 1) == before
        partitions.clear()
        assert _contents(partitions, 1) == [[], []]
        return before

    assert len(same(ask)[1]) == num_hashes


def test_what_partitions_cannot_do_they_refuse() -> None:
    """Too little memory, lanes and partitions that are not there, no room: nothing is written."""
    for engine in (kernel, reference):
        with pytest.raises(ValueError, match="memory"):
            engine.Partitions(_page_memory(4), 10, 1)
        for bits, lanes in ((0, 1), (17, 1), (1, 0)):
            with pytest.raises(ValueError, match="at least 1"):
                engine.Partitions(_page_memory(), bits, lanes)
        partitions = engine.Partitions(_page_memory(8), 1, 1)
        with pytest.raises(IndexError, match="lane 1 of 1"):
            partitions.add_hashes(1, bytes(16))
        with pytest.raises(MemoryError, match="spill first"):
            partitions.add_hashes(0, bytes(16 * 5000))
        assert partitions.count(0) == 0
        with pytest.raises(MemoryError, match="spill first"):
            partitions.add_batch(0, engine.LinesBatch(b"a\n" * 5000, "", 1), 0, RAW, skip_bad=True)
        partitions.add_hashes(0, bytes(16 * 3))
        with pytest.raises(ValueError, match="out holds 271 hashes"):
            partitions.take(0, bytearray(16 * 271))
        with pytest.raises(ValueError, match="partition 1"):
            partitions.put_back(0, 1, bytes(16))
        assert partitions.count(0) == 3


@pytest.mark.parametrize("room", [1, 5, 16, 100, 256, 300, 1000])
def test_partitions_are_copied_in_portions(room: int) -> None:
    """As many as fit behind those that were copied before; all of them, whatever lane has them."""
    data = np.random.default_rng(room).bytes(16 * 700)

    def ask(engine: ModuleType) -> list[bytes]:
        partitions = engine.Partitions(_page_memory(), 1, 2)
        partitions.add_hashes(0, data[: 16 * 300])
        partitions.add_hashes(1, data[16 * 300 :])
        out, copied = bytearray(16 * room), bytearray()
        while count := partitions.copy(1, out, len(copied) // 16):
            assert count == min(room, partitions.count(1) - len(copied) // 16)
            copied += out[: 16 * count]
        assert len(copied) == 16 * partitions.count(1)
        return sorted(bytes(copied[i : i + 16]) for i in range(0, len(copied), 16))

    same(ask)


def test_what_chunks_for_promises_is_enough() -> None:
    """So many hashes fit whenever so many chunks are left, spread as unluckily as can be."""
    for engine in (kernel, reference):
        partitions = engine.Partitions(_page_memory(64), 4, 1)
        num_added = 0
        spread = _packed([(i % 16 << 60 | i, 0) for i in range(100)])
        while partitions.chunks_for(100) <= partitions.chunks_left:
            partitions.add_hashes(0, spread)
            num_added += 100
        assert num_added >= 100
        assert sum(map(partitions.count, range(16))) == num_added


# ---- payloads in parts --------------------------------------------------------------------------

PARTS = [
    (CLASSIC, 7 * 512 - 5, 5),
    (LINE, 512 * 20, 9),
    (PAGE, 32768 * 3, 11),
    (NARROW, 128 * 37, 9),
]


@pytest.mark.parametrize(
    ("layout", "num_bits", "num_probes"), PARTS, ids=["classic", "line", "page", "narrow"]
)
def test_parts_of_a_payload_are_the_whole_of_it(
    layout: int, num_bits: int, num_probes: int
) -> None:
    """Cut at any block, each part made alone from all hashes: the bits that the probes name."""
    num_bytes = -(-num_bits // 512) * 64
    block_bytes = {CLASSIC: 1, NARROW: 16, LINE: 64, PAGE: 4096}[layout]
    chance = np.random.default_rng(layout)
    pairs = [tuple(p) for p in chance.integers(0, 2**64, (120, 2), np.uint64).tolist()]
    pairs += [(0, 0), (2**64 - 1, 2**64 - 1)]
    expected = bytearray(num_bytes)
    for hi, lo in pairs:
        for bit in reference.probes(layout, num_bits, num_probes, hi, lo):
            expected[bit >> 3] |= 1 << (bit & 7)
    for cut in range(0, num_bytes + 1, block_bytes * max(1, num_bytes // block_bytes // 20)):
        parts = []
        for first, end in ((0, cut), (cut, num_bytes)):
            part = bytearray(end - first)
            arguments = (first, layout, num_bits, num_probes, bytes(_packed(pairs)))

            def ask(engine: ModuleType, part: bytearray = part, args: Any = arguments) -> bytes:  # noqa: ANN401
                copy = bytearray(part)
                engine.add_part(copy, *args)
                return bytes(copy)

            parts.append(same(ask))
        assert b"".join(parts) == expected


@pytest.mark.parametrize(("layout", "block_bytes"), [(NARROW, 16), (LINE, 64), (PAGE, 4096)])
def test_a_part_is_whole_blocks(layout: int, block_bytes: int) -> None:
    """Else a key would lose some of its bits."""
    num_bits = 8 * 4 * block_bytes
    for first, length in ((1, block_bytes), (0, block_bytes - 1), (block_bytes, 1)):
        found = same(
            lambda engine, at=first, n=length: engine.add_part(
                bytearray(n), at, layout, num_bits, 4, bytes(16)
            )
        )
        assert found[0] is ValueError


@given(st.sampled_from(PARTS), WORDS, WORDS, WORDS)
def test_the_span_of_a_range_has_the_probes_of_all_its_keys(
    part: tuple[int, int, int], one: int, other: int, lo: int
) -> None:
    """From the block of its lowest to that of its highest hash; `classic` has no place."""
    layout, num_bits, num_probes = part
    lowest, highest = sorted((one, other))

    first, end = same(lambda engine: engine.span(layout, num_bits, lowest, highest))

    for hi in (lowest, (lowest + highest) // 2, highest):
        for bit in reference.probes(layout, num_bits, num_probes, hi, lo):
            assert 8 * first <= bit < 8 * end


@pytest.mark.parametrize("num_blocks", [1, 2, 3, 7, 64, 65, 2**33])
@pytest.mark.parametrize(("layout", "block_bytes"), [(NARROW, 16), (LINE, 64), (PAGE, 4096)])
def test_the_spans_of_neighbours_leave_no_gap(
    layout: int, block_bytes: int, num_blocks: int
) -> None:
    """Each begins where the one before ends, or with its last block; together they are all."""
    num_bits = 8 * block_bytes * num_blocks
    last_end = 0
    for partition in range(64):
        lowest, highest = partition << 58, (partition + 1 << 58) - 1
        first, end = same(lambda engine, a=lowest, b=highest: engine.span(layout, num_bits, a, b))
        assert first in {last_end, last_end - block_bytes} - {-block_bytes}
        assert first < end
        last_end = end
    assert 8 * last_end == num_bits


# ---- payloads ------------------------------------------------------------------------------------


def _payload(num_bytes: int, share: float, seed: int) -> bytes:
    """Return bytes of which about *share* of the bits are set."""
    chance = np.random.default_rng(seed)
    noise = [int.from_bytes(chance.bytes(num_bytes), "little") for _ in range(3)]
    few, many = noise[0] & noise[1] & noise[2], noise[0] | noise[1] | noise[2]
    full = 256**num_bytes - 1
    value = {0.0: 0, 0.125: few, 0.5: noise[0], 0.875: many, 1.0: full}[share]
    return value.to_bytes(num_bytes, "little")


SHARES = st.sampled_from([0.0, 0.125, 0.5, 0.875, 1.0])


@given(st.integers(0, 5), SHARES, st.integers(0, 9))
def test_counts_of_a_payload_agree(num_pages: int, share: float, seed: int) -> None:
    """popcount, the histogram of lines, the halves of pages."""
    payload = _payload(4096 * num_pages, share, seed)

    total = same(lambda engine: engine.popcount(payload))
    histogram = same(lambda engine: engine.line_histogram(payload))
    halves = same(lambda engine: engine.page_halves(payload))

    assert total == sum(halves) == sum(x * count for x, count in enumerate(histogram))
    assert sum(histogram) == 64 * num_pages


@given(st.integers(0, 5), SHARES, st.integers(0, 9))
def test_the_fill_of_pages_is_the_same_double(num_pages: int, share: float, seed: int) -> None:
    """Added in one order, never contracted: rates in a file do not depend on who computed them."""
    payload = _payload(4096 * num_pages, share, seed)
    lower, upper = np.random.default_rng(seed).random((2, 513)).tolist()

    same(lambda engine: engine.page_fill(payload, lower, upper).hex())


@pytest.mark.parametrize("num_bytes", [*range(130), 4095, 4097])
def test_counts_of_any_number_of_bytes_agree(num_bytes: int) -> None:
    """A tail shorter than a line counts as bits, but is no line."""
    payload = _payload(num_bytes, 0.5, num_bytes)

    same(lambda engine: engine.popcount(payload))
    same(lambda engine: engine.line_histogram(payload))
    same(lambda engine: engine.page_halves(payload))


def test_checksums_agree_for_every_length_from_0_to_1000() -> None:
    """And for the MiB that is a chunk of a file."""
    for num_bytes in [*range(1001), 1 << 20]:
        payload = _payload(num_bytes, 0.5, 3)
        same(lambda engine, payload=payload: engine.checksum64(payload))


@given(st.binary(max_size=200), st.binary(max_size=200), st.booleans())
def test_equality_of_payloads_agrees(left: bytes, right: bytes, equal: bool) -> None:  # noqa: FBT001
    """Of another length, too."""
    right = bytes(left) if equal else right

    assert same(lambda engine: engine.payloads_equal(left, bytearray(right))) == (left == right)
