"""Arrow data of any library and type: the same keys as one by one, nulls as asked for."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from mmbloom import BloomFilter, int_key
from mmbloom.errors import KeyTypeError, KeyValueError
from mmbloom.keys import arrow, batches

if TYPE_CHECKING:
    from collections.abc import Callable

    Check = Callable[..., None]

pa = pytest.importorskip("pyarrow", reason="Arrow data is read through pyarrow")

TEXTS = ["", "a", "a\0", "key", "\xe9\u20ac", "\U0001f600", "longer than twelve bytes", "key"]
BYTES = [text.encode() for text in TEXTS] + [b"\xff\xfe"]
FOUR = [b"abcd", b"\0\0\0\0", b"ab\0\0", b"\xff\xff\xff\xff"]
NUMBERS = [0, 1, 2, 100, 127]
TEXT_TYPES = [pa.string(), pa.large_string(), pa.string_view()]
BINARY_TYPES = [pa.binary(), pa.large_binary(), pa.binary_view()]
INT_TYPES = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]


def _run_end(values: Any, ends: list[int]) -> Any:  # noqa: ANN401 - pa.Array
    return pa.RunEndEncodedArray.from_arrays(pa.array(ends, pa.int32()), values)


# ---- types ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", TEXT_TYPES + BINARY_TYPES, ids=str)
def test_text_and_binary_arrays_are_batches(means: Check, kind: Any) -> None:  # noqa: ANN401
    """Offsets of 32 and 64 bits, and views."""
    keys = TEXTS if kind in TEXT_TYPES else BYTES

    means(pa.array(keys, kind), keys)


@pytest.mark.parametrize("kind", TEXT_TYPES + BINARY_TYPES, ids=str)
@pytest.mark.parametrize(("start", "stop"), [(0, 3), (2, 5), (3, None), (4, 4), (8, None)])
def test_a_slice_is_the_batch_of_its_rows(
    means: Check,
    kind: Any,  # noqa: ANN401 - pa.DataType
    start: int,
    stop: int | None,
) -> None:
    """Its buffers are those of the whole array."""
    keys = TEXTS if kind in TEXT_TYPES else BYTES
    array = pa.array(keys, kind)

    means(array[start:stop], keys[start:stop])


def test_fixed_size_binary_is_a_batch_of_whole_rows(means: Check) -> None:
    """Trailing NULs count, unlike in NumPy's S."""
    means(pa.array(FOUR, pa.binary(4)), FOUR)
    means(pa.array(FOUR, pa.binary(4))[1:3], FOUR[1:3])
    means(pa.array([b"", b""], pa.binary(0)), [b"", b""])


@pytest.mark.parametrize("kind", INT_TYPES)
def test_integers_are_int_keys_whatever_their_width(means: Check, kind: str) -> None:
    """A filter of an int64 column answers for an int8 column; slices and nulls too."""
    limits = np.iinfo(kind)
    numbers = [*NUMBERS, int(limits.min), int(limits.max)]
    array = pa.array(numbers, kind)

    means(array, [int_key(number) for number in numbers])
    means(array[2:5], [int_key(number) for number in numbers[2:5]])
    means(pa.array([1, None, 3], kind), [int_key(1), None, int_key(3)], nulls="skip")


@pytest.mark.parametrize("values", [*TEXT_TYPES, *BINARY_TYPES, pa.int16(), pa.int64()], ids=str)
@pytest.mark.parametrize("index", [pa.int8(), pa.uint32(), pa.int64()], ids=str)
def test_a_dictionary_is_the_batch_of_its_rows(
    means: Check,
    values: Any,  # noqa: ANN401 - pa.DataType
    index: Any,  # noqa: ANN401 - pa.DataType
) -> None:
    """Polars' categoricals, pandas' categories, Parquet's dictionaries."""
    words = pa.array(NUMBERS if pa.types.is_integer(values) else TEXTS[:5], values)
    rows = [0, 3, 3, 1, 4]
    keys = [words[row].as_py() for row in rows]
    expected = [int_key(key) if isinstance(key, int) else key for key in keys]
    array = pa.DictionaryArray.from_arrays(pa.array(rows, index), words)

    means(array, expected)
    means(array[1:4], expected[1:4])


def test_run_ends_are_expanded(means: Check) -> None:
    """Runs of text, of integers, of dictionary values; sliced in the middle of a run."""
    runs = [2, 3, 7]
    rows = [0, 0, 1, 2, 2, 2, 2]
    for values in (pa.array(["a", "b", "c"]), pa.array(["a", "b", "c"], pa.large_binary())):
        expected = [values[row].as_py() for row in rows]
        means(_run_end(values, runs), expected)
        means(_run_end(values, runs)[1:5], expected[1:5])
    means(_run_end(pa.array([5, 6, 7], pa.int8()), runs), [int_key(5 + row) for row in rows])
    encoded = _run_end(pa.array(["x", "y", "x"]).dictionary_encode(), runs)
    means(encoded, [["x", "y", "x"][row] for row in rows])


def test_an_extension_type_is_its_storage(means: Check) -> None:
    """For instance the 16 bytes of a UUID."""
    uuids = [bytes(range(16)), bytes(16)]

    means(pa.array(uuids, pa.uuid()), uuids)
    means(pa.chunked_array([pa.array(uuids, pa.uuid())]), uuids)


@pytest.mark.parametrize("kind", [*TEXT_TYPES, *BINARY_TYPES, pa.binary(4), *INT_TYPES], ids=str)
def test_an_array_without_rows_is_an_empty_batch(bloom: BloomFilter, kind: Any) -> None:  # noqa: ANN401
    """With missing buffers, as Arrow allows, and as a chunked array without chunks."""
    for empty in (pa.array([], kind), pa.chunked_array([], kind), pa.nulls(0)):
        assert bloom.update(empty) == 0
        assert bloom.contains_many(empty).tolist() == []


# ---- chunks and tables ---------------------------------------------------------------------------


def test_chunks_follow_one_another(means: Check) -> None:
    """Empty ones and slices among them."""
    chunks = [pa.array(TEXTS[:3]), pa.array([], pa.string()), pa.array(TEXTS)[3:5]]

    means(pa.chunked_array(chunks), TEXTS[:5])
    means(pa.chunked_array(chunks)[2:4], TEXTS[2:4])


def test_a_table_of_one_column_is_a_batch(means: Check) -> None:
    """Tables, record batches, and streams of them, which are read once."""
    table = pa.table({"key": pa.chunked_array([TEXTS[:3], TEXTS[3:]])})

    means(table, TEXTS)
    means(table.slice(2, 3), TEXTS[2:5])
    means(pa.record_batch({"key": TEXTS}), TEXTS)
    means(table.to_reader, TEXTS)


@pytest.mark.parametrize("make", [pa.table, pa.record_batch], ids=["table", "record-batch"])
def test_a_table_of_two_columns_is_refused_by_their_names(
    bloom: BloomFilter, make: Callable[[dict[str, list[str]]], object]
) -> None:
    """Which one holds the keys is not guessed; none is not either."""
    with pytest.raises(KeyTypeError, match=r"expected one column, found 2 \(key, count\): select"):
        bloom.update(make({"key": ["a"], "count": ["1"]}))
    with pytest.raises(KeyTypeError, match="expected one column, found 0"):
        bloom.update(make({}))
    assert bloom.keys_added == 0


class Exported:
    """Data of a library that only has the protocol: one of its two methods."""

    def __init__(self, name: str, data: Any) -> None:  # noqa: ANN401 - pyarrow's
        setattr(self, name, getattr(data, name))


def test_objects_that_only_speak_the_protocol_are_batches(means: Check, bloom: BloomFilter) -> None:
    """Arrays, record batches, chunked arrays and tables, by their capsules."""
    array, table = pa.array(TEXTS), pa.table({"key": TEXTS})

    means(Exported("__arrow_c_array__", array), TEXTS)
    means(Exported("__arrow_c_array__", pa.record_batch({"key": TEXTS})), TEXTS)
    means(Exported("__arrow_c_stream__", pa.chunked_array([array])), TEXTS)
    means(Exported("__arrow_c_stream__", table), TEXTS)
    with pytest.raises(KeyTypeError, match=r"found 2 \(a, b\)"):
        bloom.update(Exported("__arrow_c_array__", pa.record_batch({"a": ["x"], "b": ["y"]})))


def test_large_arrays_are_taken_in_pieces(monkeypatch: pytest.MonkeyPatch, means: Check) -> None:
    """With nulls in some pieces, in all, in none; borders of pieces are no borders of keys."""
    monkeypatch.setattr(arrow, "PIECE_KEYS", 4)
    keys = [None if i in {1, 4, 5, 6, 7, 13} else f"key {i}" for i in range(19)]
    for kind in (pa.string(), pa.string_view(), pa.large_binary()):
        means(pa.array(keys, kind), keys, nulls="skip")
    numbers = pa.array([None if key is None else int(key[4:]) for key in keys], pa.int32())
    means(numbers, [None if n is None else int_key(n) for n in numbers.to_pylist()], nulls="skip")


# ---- nulls ---------------------------------------------------------------------------------------

NULLS = {
    "text": pa.array(["a", "b", None, "c", None]),
    "view": pa.array(["a", "b", None, "c", None], pa.string_view()),
    "fixed": pa.array([b"a", b"b", None, b"c", None], pa.binary(1)),
    "sliced": pa.array(["x", None, "a", "b", None, "c", None])[2:],
    "chunks": pa.chunked_array([["a"], ["b", None], [], ["c", None]]),
    "dictionary": pa.array(["a", "b", None, "c", None]).dictionary_encode(),
    "null-in-the-dictionary": pa.DictionaryArray.from_arrays(
        pa.array([0, 1, 2, 3, 2]), pa.array(["a", "b", None, "c"])
    ),
    "run-ends": _run_end(pa.array(["a", "b", None, "c", None]), [1, 2, 3, 4, 5]),
    "table": pa.table({"key": ["a", "b", None, "c", None]}),
}


@pytest.mark.parametrize("keys", NULLS.values(), ids=NULLS.keys())
def test_a_null_is_refused_by_its_row_and_nothing_added(
    bloom: BloomFilter,
    keys: Any,  # noqa: ANN401 - pyarrow's
) -> None:
    """M9: a null is no key, not even the empty one."""
    for call in (bloom.update, bloom.contains_many):
        with pytest.raises(KeyValueError, match=r"^keys: row 2 is null: .* nulls='skip'"):
            call(keys)
    assert bloom.keys_added == 0
    assert bloom.fill_ratio() == 0


@pytest.mark.parametrize("keys", NULLS.values(), ids=NULLS.keys())
def test_a_null_is_skipped_on_request(
    means: Check,
    bloom: BloomFilter,
    keys: Any,  # noqa: ANN401 - pyarrow's
) -> None:
    """It adds nothing, and its answer is False: rows and answers stay side by side."""
    means(keys, ["a", "b", None, "c", None], nulls="skip")

    bloom.add("")  # what a null might be taken for
    assert not bloom.contains_many(keys, nulls="skip").any()


def test_a_column_of_nulls_has_no_keys(bloom: BloomFilter) -> None:
    """The null type, that an empty column of a table may have."""
    assert bloom.update(pa.nulls(3), nulls="skip") == 0
    assert bloom.contains_many(pa.nulls(3), nulls="skip").tolist() == [False] * 3
    with pytest.raises(KeyValueError, match="row 0 is null"):
        bloom.update(pa.nulls(3))


# ---- refusals ------------------------------------------------------------------------------------

NO_KEYS = {
    "double": pa.array([1.5]),
    "bool": pa.array([True]),
    "list": pa.array([["a"]]),
    "timestamp": pa.array([0], pa.timestamp("s")),
    "date32": pa.array([0], pa.date32()),
    "decimal128": pa.array([1], pa.decimal128(5)),
    "dictionary": pa.array([1.5, 2.5]).dictionary_encode(),
    "struct": pa.array([{"a": [1]}]),
}


@pytest.mark.parametrize(("name", "keys"), NO_KEYS.items(), ids=NO_KEYS.keys())
def test_a_type_without_canonical_bytes_is_refused(
    bloom: BloomFilter,
    name: str,
    keys: Any,  # noqa: ANN401 - pyarrow's
) -> None:
    """The error says which, and what would do."""
    shown = "double" if name == "dictionary" else name
    with pytest.raises(
        KeyTypeError, match=f"of Arrow type {shown}.* cannot be keys: cast it to text, binary or"
    ):
        bloom.update(keys)
    assert bloom.keys_added == 0


def test_bad_hex_in_a_later_piece_is_named_by_its_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every digest is checked before the first is added."""
    monkeypatch.setattr(arrow, "PIECE_KEYS", 4)
    digests = BloomFilter.in_memory(capacity=100, fpr=0.01, key_form="hex")

    with pytest.raises(KeyValueError, match=r"^key 10 of the batch: key form hex: an odd number"):
        digests.update(pa.array(["00ff"] * 10 + ["0"]))
    assert digests.keys_added == 0


def test_without_pyarrow_the_error_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, bloom: BloomFilter
) -> None:
    """It is an extra: everything else works without it."""
    keys = Exported("__arrow_c_array__", pa.array(TEXTS))
    monkeypatch.setitem(sys.modules, "pyarrow", None)

    with pytest.raises(KeyTypeError, match=r"pip install 'mmbloom\[arrow\]'"):
        bloom.update(keys)


# ---- other libraries -----------------------------------------------------------------------------


def test_polars_columns_are_batches(means: Check) -> None:
    """Series of text, bytes, integers and categories, chunked and sliced; frames of one column."""
    pl = pytest.importorskip("polars")
    text = pl.Series("key", TEXTS)

    means(text, TEXTS)
    means(text[2:5], TEXTS[2:5])
    means(pl.concat([text, text], rechunk=False), TEXTS * 2)
    means(pl.DataFrame({"key": TEXTS}), TEXTS)
    means(pl.Series(BYTES), BYTES)
    means(pl.Series(NUMBERS, dtype=pl.Int16), [int_key(number) for number in NUMBERS])
    means(text.cast(pl.Categorical), TEXTS)
    means(text.cast(pl.Enum(sorted(set(TEXTS)))), TEXTS)
    means(pl.Series(["a", None]), ["a", None], nulls="skip")


def test_polars_nulls_and_other_types_are_refused(bloom: BloomFilter) -> None:
    """By row, and by type."""
    pl = pytest.importorskip("polars")

    with pytest.raises(KeyValueError, match="row 1 is null"):
        bloom.update(pl.Series(["a", None]))
    with pytest.raises(KeyTypeError, match="Arrow type double"):
        bloom.update(pl.Series([1.5]))
    with pytest.raises(KeyTypeError, match=r"found 2 \(a, b\)"):
        bloom.update(pl.DataFrame({"a": ["x"], "b": ["y"]}))
    assert bloom.keys_added == 0


def test_pandas_columns_are_batches(means: Check) -> None:
    """Series of the new string type, of objects, of integers, of categories; frames; indexes."""
    pd = pytest.importorskip("pandas")

    means(pd.Series(TEXTS), TEXTS)
    means(pd.Series(TEXTS)[2:5], TEXTS[2:5])
    means(pd.Series(TEXTS, dtype=object), TEXTS)
    means(pd.Series(BYTES, dtype=object), BYTES)
    means(pd.Series(TEXTS, dtype="category"), TEXTS)
    means(pd.Series(NUMBERS, dtype="int32"), [int_key(number) for number in NUMBERS])
    means(pd.DataFrame({"key": TEXTS}, index=TEXTS), TEXTS)
    means(pd.Index(TEXTS), TEXTS)
    means(pd.Series(["a", None]), ["a", None], nulls="skip")
    means(pd.Series([1, None], dtype="Int64"), [int_key(1), None], nulls="skip")


def test_pandas_nulls_and_mixtures_are_refused(bloom: BloomFilter) -> None:
    """NaN is a null; a column of objects of several types is no column of keys."""
    pd = pytest.importorskip("pandas")

    with pytest.raises(KeyValueError, match="row 1 is null"):
        bloom.update(pd.Series(["a", float("nan")]))
    with pytest.raises(KeyTypeError, match="Arrow data does not have one type"):
        bloom.update(pd.Series(["a", 1], dtype=object))
    with pytest.raises(KeyTypeError, match="Arrow type double"):
        bloom.update(pd.Series([1.0, 2.0]))
    assert bloom.keys_added == 0


def test_duckdb_relations_are_batches(means: Check) -> None:
    """A query with one column, of text, of blobs, of integers."""
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as connection:
        means(lambda: connection.sql("SELECT 'key ' || i FROM range(5) t(i)"), _numbered("key "))
        means(lambda: connection.sql("SELECT 'a'::BLOB"), [b"a"])
        means(lambda: connection.sql("SELECT i FROM range(3) t(i)"), [int_key(i) for i in range(3)])


def _numbered(prefix: str) -> list[str]:
    return [f"{prefix}{i}" for i in range(5)]


def test_pieces_are_as_large_as_everywhere() -> None:
    """One bound for the memory of hashes."""
    assert arrow.PIECE_KEYS == batches.PIECE_KEYS
