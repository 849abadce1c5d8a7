"""Keys of a Bloom filter, in each layout, in memory and in a file: added, found, refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from filter_files import NEVER, keys, payload_of

from mmbloom import BloomFilter, KeyTypeError, KeyValueError, ParameterError

if TYPE_CHECKING:
    from collections.abc import Callable

    Make = Callable[..., BloomFilter]


def test_add_tells_whether_the_key_was_new(make: Make) -> None:
    """The second time it was in already."""
    found = make()

    assert [found.add("ada"), found.add("ada"), found.add("grace")] == [True, False, True]
    assert found.keys_added == 2


def test_what_was_added_is_found_by_every_kind_of_look_up(make: Make) -> None:
    """And what was not is not, at a rate that makes false positives impossible here."""
    found = make(fpr=NEVER)
    found.update(keys(500))

    assert all(key in found for key in keys(500))
    assert all(found.might_contain(key) for key in keys(500))
    assert found.contains_many(keys(500)).all()
    assert not any(key in found for key in keys(500, start=500))
    assert not found.contains_many(keys(500, start=500)).any()


def test_update_counts_every_new_key_once(make: Make) -> None:
    """Repetitions within the batch and keys that are in already are not new."""
    found = make(fpr=NEVER)
    found.add(keys(1)[0])

    assert found.update(keys(10) + keys(10)) == 9
    assert found.update(keys(10)) == 0
    assert found.keys_added == 10


def test_adding_one_key_again_and_again_fills_nothing(make: Make) -> None:
    """Only distinct keys count against the capacity."""
    found = make(capacity=2)
    found.update(["ada"] * 5000)

    assert found.keys_added == 1
    assert found.approx_count() == 1
    assert found.add("grace")


def test_a_text_and_its_utf_8_are_one_key(make: Make) -> None:
    """And so is every bytes-like form of it."""
    found = make(fpr=NEVER)
    found.add("naïve")

    assert "naïve".encode() in found
    assert bytearray("naïve".encode()) in found
    assert memoryview("naïve".encode()) in found
    assert "naive" not in found


@pytest.mark.parametrize("key", ["", "\0", "\0\0", "a\0", b"\xff" * 9, "x" * 100_000])
def test_odd_keys_are_keys_like_any_other(make: Make, key: str | bytes) -> None:
    """The empty one, NUL bytes, no text at all, a very long one."""
    found = make(fpr=NEVER)

    assert key not in found
    assert found.add(key)
    assert key in found
    assert found.contains_many([key, "other"]).tolist() == [True, False]


def test_a_batch_and_single_calls_set_the_same_bits(make: Make) -> None:
    """Whatever comes first."""
    one, other = make(), make()
    one.update(keys(300))
    for key in reversed(keys(300)):
        other.add(key)

    assert payload_of(one) == payload_of(other)
    assert one == other
    assert one.keys_added == pytest.approx(other.keys_added, abs=3)


@pytest.mark.parametrize(
    "batch",
    [
        pytest.param(list, id="list"),
        pytest.param(tuple, id="tuple"),
        pytest.param(iter, id="iterator"),
        pytest.param(dict.fromkeys, id="dict"),
        pytest.param(lambda some: [key.encode() for key in some], id="bytes"),
        pytest.param(np.array, id="numpy-U"),
        pytest.param(lambda some: np.array([key.encode() for key in some]), id="numpy-S"),
    ],
)
def test_a_batch_of_any_type_is_added_and_looked_up_in_order(
    make: Make, batch: Callable[[list[str]], object]
) -> None:
    """The answers are those of `in`, key by key."""
    found = make(fpr=NEVER)
    assert found.update(batch(keys(40))) == 40

    answers = found.contains_many(batch(keys(60, start=20)))

    assert answers.dtype == np.bool_
    assert answers.tolist() == [True] * 20 + [False] * 40


def test_an_empty_batch_changes_nothing_and_has_no_answers(make: Make) -> None:
    """Of any type."""
    found = make()

    for nothing in ([], (), iter(()), np.array([], "S5")):
        assert found.update(nothing) == 0
    assert found.contains_many([]).tolist() == []
    assert payload_of(found) == bytes(len(payload_of(found)))


def test_answers_go_where_out_says(make: Make) -> None:
    """The array itself is returned, and every element of it is written."""
    found = make(fpr=NEVER)
    found.update(keys(5))
    out = np.array([False] * 5 + [True] * 5)

    assert found.contains_many(keys(10), out=out) is out
    assert out.tolist() == [True] * 5 + [False] * 5
    assert found.contains_many(iter(keys(10)), out) is out
    assert found.contains_many([], out=np.empty(0, np.bool_)).size == 0


def test_nulls_are_no_keys(make: Make) -> None:
    """Of Arrow data: refused, or skipped and answered False."""
    pa = pytest.importorskip("pyarrow")
    found = make(fpr=NEVER)
    column = pa.array(["a", None, "b", None])

    for call in (found.update, found.contains_many):
        with pytest.raises(KeyValueError, match="null"):
            call(column)
    assert found.update(column, nulls="skip") == 2
    out = np.ones(5, np.bool_)
    asked = pa.chunked_array([column, ["c"]])
    assert found.contains_many(asked, out=out, nulls="skip").tolist() == [1, 0, 1, 0, 0]
    with pytest.raises(ParameterError, match="nulls"):
        found.update(["a"], nulls="ignore")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "out",
    [
        pytest.param(np.zeros(9, np.bool_), id="too-short"),
        pytest.param(np.zeros(11, np.bool_), id="too-long"),
        pytest.param(np.zeros(10, np.uint8), id="other-dtype"),
        pytest.param(np.zeros((10, 1), np.bool_), id="two-dimensions"),
        pytest.param(np.zeros(20, np.bool_)[::2], id="with-gaps"),
        pytest.param(np.broadcast_to(np.bool_(0), 10), id="read-only-with-gaps"),
        pytest.param(np.frombuffer(bytes(10), np.bool_), id="read-only"),
        pytest.param([False] * 10, id="list"),
    ],
)
def test_an_out_that_does_not_fit_is_refused(out: np.ndarray[Any, Any]) -> None:
    """It is named, and what it should be."""
    found = BloomFilter.in_memory(capacity=10, fpr=0.01)

    with pytest.raises(ParameterError, match="out"):
        found.contains_many(keys(10), out=out)


@pytest.mark.parametrize(
    ("key", "error", "text"),
    [
        pytest.param(None, KeyTypeError, "NoneType", id="none"),
        pytest.param(1.5, KeyTypeError, "float", id="float"),
        pytest.param(True, KeyTypeError, "bool", id="bool"),
        pytest.param(5, KeyTypeError, "int_key", id="int"),
        pytest.param(("a", 1), KeyTypeError, "tuple", id="tuple"),
        pytest.param("\ud800", KeyValueError, "surrogate", id="lone-surrogate"),
    ],
)
def test_what_is_no_key_is_refused_and_nothing_is_added(
    make: Make, key: object, error: type[Exception], text: str
) -> None:
    """By every call, and in a batch the keys beside it are not added either."""
    found = make()

    calls: list[Callable[[], object]] = [
        lambda: key in found,
        lambda: found.might_contain(key),
        lambda: found.add(key),
        lambda: found.update(["a", key, "b"]),
        lambda: found.update(item for item in ["a", key, "b"]),
        lambda: found.contains_many(["a", key, "b"]),
    ]
    for call in calls:
        with pytest.raises(error, match=text):
            call()

    assert found.keys_added == 0
    assert found.fill_ratio() == 0


@pytest.mark.parametrize("batch", ["abc", b"abc", bytearray(b"abc"), 5, None, 1.5, object()])
def test_what_is_no_batch_is_refused(make: Make, batch: object) -> None:
    """Above all one text, which is a key and not a batch of characters."""
    found = make()

    for call in (found.update, found.contains_many):
        with pytest.raises(KeyTypeError, match="batch"):
            call(batch)
    assert found.keys_added == 0


def test_hex_keys_are_the_bytes_that_they_spell(make: Make) -> None:
    """Case-blind, as text or bytes; the form is part of the filter."""
    found = make(key_form="hex", fpr=NEVER)
    found.update(["00FF", b"abcd"])

    assert found.key_form == "hex"
    assert all(key in found for key in ("00ff", b"00fF", "ABCD", "aBcD"))
    assert "00fe" not in found
    raw = make(fpr=NEVER)
    raw.update([b"\x00\xff", b"\xab\xcd"])
    assert payload_of(found) == payload_of(raw)


@pytest.mark.parametrize("key", ["abc", "0g", " 00", "0x00", "00 11", "é"])
def test_a_hex_key_that_is_not_hexadecimal_is_refused(make: Make, key: str) -> None:
    """Not answered: "definitely not" would hide a mistake. Of its batch nothing is added."""
    found = make(key_form="hex")

    for call in (found.add, found.might_contain):
        with pytest.raises(KeyValueError, match="hex"):
            call(key)
    for batch in (["00", key], iter(["00", key]), np.array(["00", key])):
        with pytest.raises(KeyValueError, match="hex"):
            found.update(batch)
    assert found.keys_added == 0
