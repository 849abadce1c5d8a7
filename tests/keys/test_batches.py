"""Lists, iterables, NumPy arrays and other buffers: the same keys as one by one, or a clear no."""

from __future__ import annotations

import array
import ctypes
import mmap
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from mmbloom import BloomFilter, int_key
from mmbloom.engine import ENGINE
from mmbloom.errors import KeyTypeError, KeyValueError, ParameterError
from mmbloom.keys import batches

if TYPE_CHECKING:
    from collections.abc import Callable

    Check = Callable[..., None]

TEXTS = ["", "a", "a\0b", "key", "\xe9", "\u20ac uro", "\U0001f600", "a" * 300]
BYTES = [*(text.encode() for text in TEXTS), b"\xff\xfe"]
NUMBERS = [0, 1, 2, 255, 256, 30000]

# ---- iterables -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(list, id="list"),
        pytest.param(tuple, id="tuple"),
        pytest.param(dict.fromkeys, id="dict"),
        pytest.param(lambda keys: dict.fromkeys(keys).keys(), id="dict-keys"),
        pytest.param(lambda keys: dict(enumerate(keys)).values(), id="dict-values"),
        pytest.param(lambda keys: (key for key in keys), id="generator"),
        pytest.param(iter, id="iterator"),
        pytest.param(lambda keys: np.array(keys, object), id="numpy-object"),
        pytest.param(lambda keys: np.repeat(np.array(keys, object), 2)[::2], id="numpy-strided"),
    ],
)
@pytest.mark.parametrize("keys", [TEXTS, BYTES], ids=["str", "bytes"])
def test_an_iterable_of_keys_is_a_batch(
    means: Check, make: Callable[[Any], object], keys: list[Any]
) -> None:
    """In the order of iteration. A generator is read once."""
    means(lambda: make(keys), keys)


@pytest.mark.parametrize("kind", [set, frozenset])
def test_a_set_is_a_batch_in_its_own_order(means: Check, kind: type[set[str]]) -> None:
    """Answers come in the order in which the set is iterated over."""
    keys = kind(TEXTS)

    means(keys, list(keys))


def test_text_is_its_utf8_and_bytes_like_are_their_bytes(means: Check) -> None:
    """M1: a str and its UTF-8 are one key; types may be mixed in a batch."""
    means(TEXTS, [text.encode() for text in TEXTS])
    means(
        ["t", b"b", bytearray(b"ba"), memoryview(b"m.v.")[::2], np.str_("ns"), np.bytes_(b"nb")],
        ["t", "b", "ba", "mv", "ns", "nb"],
    )


def test_nul_and_trailing_nul_make_keys_of_their_own(bloom: BloomFilter) -> None:
    """M4: the empty key, and keys that differ in NULs, are keys like any other."""
    keys = [b"", b"a", b"a\0", b"a\0b", b"\0", b"\0\0"]

    assert [bloom.add(key) for key in keys] == [True] * 6
    assert bloom.contains_many(keys).all()
    assert not BloomFilter.in_memory(capacity=10, fpr=1e-9).contains_many(keys).any()


def test_a_key_of_100_megabytes_is_a_key(bloom: BloomFilter) -> None:
    """M4: as text, as bytes, and with another last byte."""
    key = b"0123456789" * 10_000_000

    assert bloom.update([key, key.decode()]) == 1
    assert bloom.contains_many([key[:-1] + b"!", key]).tolist() == [False, True]


def test_an_iterator_is_taken_in_pieces(
    monkeypatch: pytest.MonkeyPatch, bloom: BloomFilter
) -> None:
    """Its memory is bounded; an error names the number of the key, not its place in the piece."""
    monkeypatch.setattr(batches, "PIECE_KEYS", 10)
    keys = [f"key {i}" for i in range(25)]

    assert bloom.update(iter(keys)) == 25
    assert bloom.contains_many(iter(keys)).all()
    with pytest.raises(KeyTypeError, match=r"^key 23 of the batch: "):
        bloom.contains_many(iter([*keys[:23], None]))


def test_of_the_piece_with_a_bad_key_nothing_is_added(
    monkeypatch: pytest.MonkeyPatch, bloom: BloomFilter
) -> None:
    """What update() says of iterators: the pieces before it are in."""
    monkeypatch.setattr(batches, "PIECE_KEYS", 10)

    with pytest.raises(KeyTypeError):
        bloom.update(iter([*map(str, range(15)), None]))

    assert bloom.keys_added == 10
    assert bloom.contains_many([str(i) for i in range(10)]).all()


# ---- arrays and buffers --------------------------------------------------------------------------

ROWS = np.frombuffer(b"abcdefgh" * 2 + b"\0\0\0\0cd\0\0" + b"\xff" * 8, np.uint8).reshape(4, 8)
ROW_KEYS = [bytes(row) for row in ROWS]
PADDED = np.array([b"a", b"key", b"", b"\xffx", b"a\0b"], "S7")
WIDE = np.array([*TEXTS, "x\0y", "\U0010ffff"])
C_ROWS = ((ctypes.c_char * 8) * 4).from_buffer_copy(ROWS.tobytes())

CHARACTER_ARRAYS = {
    "S": (PADDED, PADDED.tolist()),
    "S-strided": (PADDED[::2], PADDED[::2].tolist()),
    "S-reversed": (PADDED[::-1], PADDED[::-1].tolist()),
    "S-column": (np.stack([PADDED, PADDED[::-1]], axis=1)[:, 1], PADDED[::-1].tolist()),
    "S-read-only": (np.frombuffer(b"abcdef", "S3"), [b"abc", b"def"]),
    "S-only-nuls": (np.zeros(3, "S4"), [b""] * 3),
    "U": (WIDE, WIDE.tolist()),
    "U-strided": (WIDE[1::3], WIDE[1::3].tolist()),
    "U-big-endian": (WIDE.astype(">U300"), WIDE.tolist()),
    "U-little-endian": (WIDE.astype("<U300"), WIDE.tolist()),
    "U-without-width": (np.zeros(3, "U0"), [""] * 3),
    "StringDType": (np.array(TEXTS, np.dtypes.StringDType()), TEXTS),
    "StringDType-strided": (np.array(TEXTS, np.dtypes.StringDType())[::3], TEXTS[::3]),
    "V": (ROWS.copy().view("V8").reshape(-1), ROW_KEYS),
    "V-strided": (ROWS.copy().view("V8").reshape(-1)[::2], ROW_KEYS[::2]),
    "records": (np.array([(1, 2), (3, 4)], "<u4,<u4"), [int_key(1 + 2**33), int_key(3 + 2**34)]),
    "rows": (ROWS, ROW_KEYS),
    "rows-strided": (ROWS[::-2], ROW_KEYS[::-2]),
    "rows-by-column": (np.asfortranarray(ROWS), ROW_KEYS),
    "rows-cut": (ROWS[:, 2:5], [key[2:5] for key in ROW_KEYS]),
    "rows-without-width": (np.zeros((3, 0), np.uint8), [b""] * 3),
    "rows-of-S1": (ROWS.view("S1"), ROW_KEYS),
    "rows-of-V1": (ROWS.view("V1"), ROW_KEYS),
    "buffer-of-rows": (memoryview(ROWS.tobytes()).cast("B", (4, 8)), ROW_KEYS),
    "buffer-of-chars": (memoryview(ROWS.tobytes()).cast("c", (4, 8)), ROW_KEYS),
    "ctypes-rows": (C_ROWS, ROW_KEYS),
}


@pytest.mark.parametrize(
    ("keys", "expected"), CHARACTER_ARRAYS.values(), ids=CHARACTER_ARRAYS.keys()
)
def test_an_array_of_characters_is_a_batch(
    means: Check, keys: object, expected: list[object]
) -> None:
    """NumPy's S and U end before their trailing NULs, as NumPy has it; rows of bytes are whole."""
    means(keys, expected)


@pytest.mark.parametrize("dtype", ["i2", "i4", "i8", "u2", "u4", "u8"])
@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("step", [1, 3, -1])
def test_an_array_of_integers_is_a_batch_of_int_keys(
    means: Check, dtype: str, order: str, step: int
) -> None:
    """Whatever the width, the byte order and the strides: 7 is one key."""
    lowest, highest = np.iinfo(dtype).min, np.iinfo(dtype).max
    keys = np.array([*NUMBERS, lowest, highest, highest - 1], order + dtype)[::step]

    means(keys, [int_key(number) for number in keys.tolist()])


@pytest.mark.parametrize("code", "hHiIlLqQ")
def test_an_array_of_the_standard_library_is_a_batch_of_int_keys(means: Check, code: str) -> None:
    """Through the buffer protocol, as a memoryview of it."""
    numbers = array.array(code, NUMBERS)

    means(numbers, [int_key(number) for number in NUMBERS])
    means(memoryview(numbers)[::2], [int_key(number) for number in NUMBERS[::2]])


def test_arrays_of_bytes_and_numbers_are_taken_in_pieces(
    monkeypatch: pytest.MonkeyPatch, means: Check
) -> None:
    """The memory for hashes is bounded; borders of pieces are no borders of keys."""
    monkeypatch.setattr(batches, "PIECE_KEYS", 7)
    numbers = np.arange(1000, 1050)

    means(numbers, [int_key(number) for number in numbers.tolist()])
    means(numbers.astype("S4"), [str(number) for number in numbers.tolist()])
    means(numbers.astype(">u8").view(np.uint8).reshape(-1, 8), [int_key(n)[::-1] for n in numbers])


def test_bad_hex_in_an_array_is_named_by_its_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a later piece, too; and nothing is added."""
    monkeypatch.setattr(batches, "PIECE_KEYS", 10)
    digests = BloomFilter.in_memory(capacity=100, fpr=0.01, key_form="hex")
    keys = np.array([f"{i:04x}" for i in range(30)] + ["00fg"], "S4")

    with pytest.raises(KeyValueError, match=r"^key 30 of the batch: key form hex: a character"):
        digests.update(keys)
    assert digests.keys_added == 0
    with pytest.raises(KeyValueError, match=r"^key 30 of the batch: "):
        digests.contains_many(keys)


EMPTY = {
    "list": [],
    "tuple": (),
    "set": set(),
    "S": np.array([], "S5"),
    "U": np.array([], "U5"),
    "int64": np.array([], np.int64),
    "object": np.array([], object),
    "StringDType": np.array([], np.dtypes.StringDType()),
    "rows": np.zeros((0, 8), np.uint8),
    "no-rows-no-width": np.zeros((0, 0), np.uint8),
    "array": array.array("q"),
}


@pytest.mark.parametrize("keys", EMPTY.values(), ids=EMPTY.keys())
def test_an_empty_batch_adds_nothing_and_has_no_answers(bloom: BloomFilter, keys: object) -> None:
    """It is a batch all the same."""
    assert bloom.update(keys) == 0
    assert bloom.contains_many(keys).tolist() == []
    assert bloom.contains_many(iter([])).tolist() == []


# ---- refusals ------------------------------------------------------------------------------------

NO_BATCH = {
    "str": ("key", "a single str is a key, not a batch"),
    "bytes": (b"key", "a single bytes is a key, not a batch"),
    "bytearray": (bytearray(b"key"), "a single bytearray is a key, not a batch"),
    "np.str_": (np.str_("key"), "a single str_ is a key, not a batch"),
    "None": (None, "expected a batch of keys, not NoneType"),
    "int": (5, "expected a batch of keys, not int"),
    "float": (1.5, "expected a batch of keys, not float"),
    "bool": (True, "expected a batch of keys, not bool"),
    "object": (object(), "expected a batch of keys, not object"),
    "memoryview": (memoryview(b"key"), "uint8 cannot be keys: reshape"),
    "map": (mmap.mmap(-1, 16), "uint8 cannot be keys: reshape"),
    "uint8": (np.zeros(4, np.uint8), "uint8 cannot be keys: reshape"),
    "int8": (np.zeros(4, np.int8), "int8 cannot be keys: reshape"),
    "float64": (
        np.zeros(4),
        "type float64 cannot be keys: convert them to text, bytes, or integers",
    ),
    "float16": (np.zeros(4, np.float16), "type float16"),
    "bools": (np.zeros(4, bool), "type bool"),
    "complex": (np.zeros(4, complex), "type complex128"),
    "datetime": (np.zeros(4, "M8[s]"), "type datetime64"),
    "timedelta": (np.zeros(4, "m8[s]"), "type timedelta64"),
    "objects-in-records": (np.zeros(4, [("a", "O")]), "elements of type"),
    "0-d": (np.array("key"), "found a scalar"),
    "np.int64": (np.int64(5), "found a scalar"),
    "2-d-numbers": (np.zeros((2, 3), np.int64), "found 2x3 of int64"),
    "2-d-text": (np.zeros((2, 3), "S5"), "found 2x3 of .*S5"),
    "3-d": (np.zeros((2, 3, 4), np.uint8), "found 2x3x4 of uint8"),
    "masked": (np.ma.masked_array([1, 2], [False, True]), "a masked array"),
}


@pytest.mark.parametrize(("keys", "message"), NO_BATCH.values(), ids=NO_BATCH.keys())
def test_what_is_no_batch_is_refused_and_nothing_added(
    bloom: BloomFilter, keys: object, message: str
) -> None:
    """A bare str would be a batch of letters, a float array one of rounding errors."""
    for call in (bloom.update, bloom.contains_many):
        with pytest.raises(KeyTypeError, match=f"^keys: .*{message}"):
            call(keys)
    assert bloom.keys_added == 0
    assert bloom.fill_ratio() == 0


BAD_KEYS = {
    "None": (None, KeyTypeError, "not NoneType: encode it"),
    "int": (7, KeyTypeError, r"not int: encode it with mmbloom.int_key\(\)"),
    "float": (7.5, KeyTypeError, "not float: encode it"),
    "bool": (True, KeyTypeError, "not bool: encode it to str or bytes first"),
    "tuple": (("a",), KeyTypeError, "not tuple"),
    "np.int64": (np.int64(7), KeyTypeError, "not int64"),
    "array": (np.zeros(3, np.uint8), KeyTypeError, "not ndarray"),
    "surrogate": ("bad \ud800", KeyValueError, "a lone surrogate"),
    "surrogate-pair": ("\ud83d\ude00", KeyValueError, "a lone surrogate"),
}


@pytest.mark.parametrize(("key", "error", "message"), BAD_KEYS.values(), ids=BAD_KEYS.keys())
@pytest.mark.parametrize("at", [0, 3])
@pytest.mark.parametrize("kind", [list, tuple, iter, "object array"])
def test_a_bad_key_is_refused_by_its_number_and_nothing_added(  # noqa: PLR0913, PLR0917 - a table
    bloom: BloomFilter, key: object, error: type[Exception], message: str, at: int, kind: object
) -> None:
    """M9: a None is not skipped, and a surrogate not replaced: the error names the first one."""
    keys = [*["good", b"bytes", "more", "last"][:at], key, None]

    for call in (bloom.update, bloom.contains_many):
        if kind == "object array":
            batch = np.empty(len(keys), object)
            batch[:] = keys
        else:
            batch = kind(keys)  # type: ignore[operator]
        with pytest.raises(error, match=f"^key {at} of the batch: .*{message}"):
            call(batch)
    assert bloom.keys_added == 0
    assert bloom.fill_ratio() == 0


@pytest.mark.parametrize(("key", "error", "message"), BAD_KEYS.values(), ids=BAD_KEYS.keys())
def test_a_bad_single_key_is_refused(
    bloom: BloomFilter, key: object, error: type[Exception], message: str
) -> None:
    """The same words for `in`, might_contain and add."""
    for call in (bloom.add, bloom.might_contain, bloom.__contains__):
        with pytest.raises(error, match=f"^key: .*{message}"):
            call(key)
    assert bloom.keys_added == 0


@pytest.mark.parametrize("number", [0xD800, 0xDFFF, 0x110000, 0xFFFFFFFF], ids=hex)
def test_what_is_no_text_in_an_array_of_text_is_refused_by_its_row(
    bloom: BloomFilter, number: int
) -> None:
    """NumPy keeps any number as a code point."""
    numbers = np.full((5, 3), ord("a"), np.uint32)
    numbers[3, 2] = number
    keys = numbers.view("U3").reshape(-1)

    for call in (bloom.update, bloom.contains_many):
        with pytest.raises(KeyValueError, match=r"^key 3 of the batch: a lone surrogate or a num"):
            call(keys)
    assert bloom.fill_ratio() == 0


def test_a_missing_value_in_numpy_strings_is_refused_by_its_row(bloom: BloomFilter) -> None:
    """StringDType has its own null."""
    keys = np.array(["a", "b", None], np.dtypes.StringDType(na_object=None))

    with pytest.raises(KeyTypeError, match=r"^key 2 of the batch: .* not NoneType"):
        bloom.update(keys)
    assert bloom.fill_ratio() == 0


@pytest.mark.parametrize("nulls", ["drop", None, True, "RAISE"])
def test_what_to_do_with_nulls_is_one_of_two_words(bloom: BloomFilter, nulls: Any) -> None:  # noqa: ANN401
    """A misspelt word must not mean the other thing."""
    for call in (bloom.update, bloom.contains_many):
        with pytest.raises(ParameterError, match="nulls: expected 'raise' or 'skip'"):
            call(["a"], nulls=nulls)


def test_a_list_that_changes_while_it_is_read_is_an_error_not_a_crash(bloom: BloomFilter) -> None:
    """A key may run any code: that of its class. The kernel walks the list itself."""
    if ENGINE != "kernel":
        pytest.skip("the Python engine copies the list first")

    class Evil(bytearray):
        def __bytes__(self) -> bytes:
            keys.clear()
            return b"evil"

    keys: list[Any] = ["a", Evil(b"x"), *["b" * i for i in range(100)]]

    with pytest.raises(RuntimeError, match="changed its size"):
        bloom.update(keys)
    assert bloom.keys_added == 0
