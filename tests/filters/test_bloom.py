"""What every Bloom filter does, in each layout, in memory and in a file."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import mmbloom
from mmbloom import (
    BloomFilter,
    CapacityError,
    ClosedError,
    KeyTypeError,
    KeyValueError,
    ParameterError,
    ParameterTypeError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Make = Callable[..., BloomFilter]

LAYOUTS = ("classic", "line", "page")
PLACES = ("in memory", "in a file")
# So low that none of the few thousand absent keys of a test is a false positive.
NEVER = 1e-9


def keys(count: int, start: int = 0) -> list[str]:
    """Return distinct keys, the same ones in every run."""
    return [f"https://example.org/{i}" for i in range(start, start + count)]


def payload_of(filter_: BloomFilter) -> bytes:
    """Return the bits."""
    return bytes(filter_._open_payload())


@pytest.fixture(params=LAYOUTS)
def layout(request: pytest.FixtureRequest) -> str:
    """Run a test once a layout."""
    return str(request.param)


@pytest.fixture(params=PLACES)
def make(request: pytest.FixtureRequest, layout: str, tmp_path: Path) -> Iterator[Make]:
    """Return a function that makes filters of one layout in one place; the end closes them."""
    made: list[BloomFilter] = []

    def make_one(**given: object) -> BloomFilter:
        parameters: Any = {"capacity": 1000, "fpr": 0.01, "layout": layout} | given
        if request.param == "in memory":
            made.append(BloomFilter.in_memory(**parameters))
        else:
            path = tmp_path / f"{len(made)}.mmb"
            made.append(BloomFilter.create(path, **parameters))
        return made[-1]

    yield make_one
    for filter_ in made:
        filter_.close()


# -- keys ------------------------------------------------------------------------------------------


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
    assert found.fill_ratio == 0


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


# -- capacity --------------------------------------------------------------------------------------


@pytest.mark.parametrize("capacity", [1, 2, 100])
def test_as_many_keys_as_the_capacity_fit_and_the_next_changes_nothing(
    make: Make, capacity: int
) -> None:
    """Keys that are in are welcome still: nothing is new about them."""
    found = make(capacity=capacity, fpr=NEVER)
    for key in keys(capacity):
        assert found.add(key)
    before = payload_of(found)

    with pytest.raises(CapacityError) as caught:
        found.add("one too many")

    assert (caught.value.capacity, caught.value.num_added) == (capacity, 0)
    assert payload_of(found) == before
    assert found.keys_added == capacity
    assert "one too many" not in found
    assert found.add(keys(1)[0]) is False
    assert found.update(keys(capacity)) == 0


def test_a_batch_that_does_not_fit_is_added_up_to_the_first_key_without_room(make: Make) -> None:
    """As if its keys had been added one by one; the error says how many were."""
    found = make(capacity=10, fpr=NEVER)
    found.update(keys(4))

    with pytest.raises(CapacityError) as caught:
        found.update(keys(20))

    assert caught.value.num_added == 6
    assert found.contains_many(keys(20)).tolist() == [True] * 10 + [False] * 10
    assert found.keys_added == 10


def test_keys_that_collide_do_not_take_the_room_of_others(make: Make) -> None:
    """At a high rate many keys are false positives when added: all 1000 fit all the same."""
    found = make(capacity=1000, fpr=0.4)

    assert found.update(keys(1000)) <= 1000
    assert found.contains_many(keys(1000)).all()


def test_overfill_lets_more_in_and_expected_fpr_tells_the_truth(make: Make) -> None:
    """4000 absent keys at rate q: mean 4000 q, within five sigma; q is far above the target."""
    found = make(capacity=3000, fpr=0.01, overfill=True)
    found.update(keys(6000))
    rate = found.expected_fpr()

    maybes = int(found.contains_many(keys(4000, start=10_000)).sum())

    assert found.contains_many(keys(6000)).all()
    assert found.keys_added > found.capacity
    assert found.info()["overfill"] is True
    assert rate > 0.05
    assert abs(maybes - 4000 * rate) <= 5 * math.sqrt(4000 * rate * (1 - rate))


# -- counts and rates ------------------------------------------------------------------------------


def test_an_empty_filter_says_no_to_everything(make: Make) -> None:
    """At any rate that may be asked for, also those above one half."""
    for fpr in (0.99, 0.6, 0.01):
        found = make(fpr=fpr)

        assert not found.contains_many(keys(100)).any()
        assert (found.keys_added, found.approx_count()) == (0, 0)
        assert (found.fill_ratio, found.expected_fpr()) == (0.0, 0.0)


@pytest.mark.parametrize("share", [0.01, 0.1, 0.5, 1.0])
def test_the_keys_are_counted_from_the_bits_within_two_percent(make: Make, share: float) -> None:
    """Sigma at 20 000 keys and 1 % is 0.2 % when full, and less below."""
    num_keys = round(20_000 * share)
    found = make(capacity=20_000)
    found.update(keys(num_keys))

    assert found.approx_count() == pytest.approx(num_keys, rel=0.02, abs=2)
    assert found.keys_added == pytest.approx(num_keys, rel=0.005, abs=2)


def test_a_full_filter_has_the_rate_that_was_asked_for(make: Make) -> None:
    """10 000 absent keys at 0.01: mean 100, sigma 10, so at most 150; and expected_fpr agrees."""
    found = make(capacity=5000)
    found.update(keys(5000))

    maybes = int(found.contains_many(keys(10_000, start=50_000)).sum())

    assert maybes <= 150
    assert found.expected_fpr() == pytest.approx(0.01, rel=0.1)
    assert abs(maybes - 10_000 * found.expected_fpr()) <= 50


def test_a_saturated_filter_says_maybe_and_gives_defined_figures(make: Make) -> None:
    """Every bit is set: the rate is 1, and the count a floor instead of an error."""
    found = make(capacity=10, overfill=True)
    found._combine(b"\xff" * found.geometry.payload_bytes, "or", 10)

    assert found.contains_many(keys(50)).all()
    assert (found.fill_ratio, found.expected_fpr()) == (1.0, 1.0)
    assert found.approx_count() > found.capacity
    assert found.info()["fill_ratio"] == 1.0
    assert found.fill_by_region(4) == [1.0] * len(found.fill_by_region(4))
    assert found.add("new") is False


def test_the_fill_by_region_is_even(make: Make) -> None:
    """Its mean is the fill ratio; regions of 1/8 of 20 000 keys scatter by less than a tenth."""
    found = make(capacity=20_000)
    found.update(keys(20_000))

    regions = found.fill_by_region(8)

    assert len(regions) == 8
    assert sum(regions) / 8 == pytest.approx(found.fill_ratio, rel=0.01)
    assert all(share == pytest.approx(found.fill_ratio, rel=0.1) for share in regions)


# -- copy, clear, ==, repr, info -------------------------------------------------------------------


def test_a_copy_is_equal_writable_and_independent(make: Make) -> None:
    """Changing one does not change the other."""
    found = make(fpr=NEVER, seed=7, metadata={"source": "x"})
    found.update(keys(50))
    with found.copy() as copied:
        assert copied == found
        assert (copied.path, copied.writable, copied.keys_added) == (None, True, 50)
        assert (copied.seed, copied.metadata) == (7, {"source": "x"})
        assert copied.uuid != found.uuid

        copied.add("only there")
        found.add("only here")

        assert copied != found
        assert ("only there" in found, "only here" in copied) == (False, False)
        assert (copied.keys_added, found.keys_added) == (51, 51)


def test_a_copy_keeps_the_capacity(make: Make) -> None:
    """What fits is counted from the keys that came with it."""
    found = make(capacity=10, fpr=NEVER)
    found.update(keys(10))

    with found.copy() as copied, pytest.raises(CapacityError):
        copied.add("one too many")


def test_clear_forgets_every_key_and_the_count(make: Make) -> None:
    """And the filter takes as many again."""
    found = make(capacity=20, fpr=NEVER)
    found.update(keys(20))
    found.clear()

    assert not found.contains_many(keys(20)).any()
    assert (found.keys_added, found.approx_count(), found.fill_ratio) == (0, 0, 0.0)
    assert payload_of(found) == bytes(len(payload_of(found)))
    assert found.update(keys(20, start=20)) == 20


def test_filters_are_equal_by_content(make: Make, layout: str) -> None:
    """By parameters and bits, not by where they are, how they came about, or metadata."""
    found = make()
    found.update(keys(30))
    other = make(metadata={"source": "elsewhere"})
    other.update(reversed(keys(30)))
    seeded = make(seed=1)
    seeded.update(keys(30))
    in_memory = BloomFilter.in_memory(capacity=1000, fpr=0.01, layout=layout)

    assert found == other
    assert found != seeded
    assert found != in_memory
    in_memory |= found
    assert found == in_memory
    assert found != "a text"


def test_a_filter_has_no_hash(make: Make) -> None:
    """It is equal by content, and that changes."""
    with pytest.raises(TypeError, match="unhashable"):
        hash(make())


def test_repr_says_what_the_filter_is(make: Make, layout: str) -> None:
    """Also when it is closed."""
    found = make(capacity=77, fpr=0.25)
    found.add("ada")

    assert f"{layout}, 1 of 77 keys at fpr 0.25, writable" in repr(found)
    assert ("in memory" if found.path is None else found.path) in repr(found)
    found.close()
    assert "closed" in repr(found)


def test_info_is_json_and_has_what_the_attributes_say(make: Make, layout: str) -> None:
    """One dictionary for people, scripts and the command line."""
    found = make(capacity=100, fpr=0.05, seed=2**64 - 1, metadata={"list": [1, "é", None]})
    found.update(keys(60))

    facts = json.loads(json.dumps(found.info()))

    for name in ("capacity", "fpr", "layout", "seed", "key_form", "metadata", "uuid", "path"):
        assert facts[name] == getattr(found, name)
    for name in ("num_bits", "num_probes", "keys_added", "fill_ratio"):
        assert facts[name] == getattr(found, name)
    assert facts["layout"] == layout
    assert facts["expected_fpr"] == found.expected_fpr()
    assert facts["bits_set"] == round(found.fill_ratio * found.num_bits)
    assert facts["engine"] == mmbloom.ENGINE
    assert (facts["state"], facts["kind"]) == ("writable", "bloom")


def test_metadata_are_a_copy(make: Make) -> None:
    """Changing them changes nothing."""
    found = make(metadata={"tags": ["a"]})
    found.metadata["tags"].append("b")

    assert found.metadata == {"tags": ["a"]}
    assert make().metadata == {}


# -- parameters ------------------------------------------------------------------------------------


def test_the_layout_is_the_one_that_was_asked_for(make: Make, layout: str) -> None:
    """And geometry has what follows from it."""
    found = make()

    assert found.layout == found.geometry.layout == layout
    assert found.geometry == mmbloom.plan(1000, 0.01, layout)
    assert len(payload_of(found)) == found.geometry.payload_bytes


def test_auto_is_line_for_common_rates_and_page_for_low_ones() -> None:
    """Where line would take many more bits."""
    with (
        BloomFilter.in_memory(capacity=100_000, fpr=0.01) as common,
        BloomFilter.in_memory(capacity=100_000, fpr=0.0001) as low,
    ):
        assert (common.layout, low.layout) == ("line", "page")


def test_seeds_give_other_bits_and_other_false_positives(make: Make) -> None:
    """At fpr 0.3 one seed alone answers 0.3 of absent keys, both at once about 0.09.

    2000 absent keys: 180 of both, sigma 13; 250 would be more than five sigma.
    """
    one, other = make(fpr=0.3, seed=1), make(fpr=0.3, seed=2)
    one.update(keys(1000))
    other.update(keys(1000))
    absent = keys(2000, start=5000)

    both = one.contains_many(absent) & other.contains_many(absent)

    assert payload_of(one) != payload_of(other)
    assert int(both.sum()) <= 250


BAD_PARAMETERS = [
    pytest.param({"fpr": 5}, ParameterError, "fpr.*did you mean 0.05", id="fpr-in-percent"),
    pytest.param({"fpr": 1}, ParameterError, "fpr.*did you mean 0.01", id="fpr-one"),
    pytest.param({"fpr": 0}, ParameterError, "fpr", id="fpr-zero"),
    pytest.param({"fpr": -0.1}, ParameterError, "fpr", id="fpr-negative"),
    pytest.param({"fpr": 1e-80}, ParameterError, "fpr.*1e-12", id="fpr-below-the-floor"),
    pytest.param({"fpr": math.nan}, ParameterError, "fpr", id="fpr-nan"),
    pytest.param({"fpr": math.inf}, ParameterError, "fpr", id="fpr-infinite"),
    pytest.param({"fpr": 10**400}, ParameterError, "fpr", id="fpr-beyond-floats"),
    pytest.param({"fpr": True}, ParameterTypeError, "fpr", id="fpr-bool"),
    pytest.param({"fpr": "0.01"}, ParameterTypeError, "fpr", id="fpr-text"),
    pytest.param({"fpr": None}, ParameterTypeError, "fpr", id="fpr-none"),
    pytest.param({"fpr": 1000, "capacity": 1}, ParameterError, "swapped", id="swapped"),
    pytest.param({"capacity": 0}, ParameterError, "capacity", id="capacity-zero"),
    pytest.param({"capacity": -5}, ParameterError, "capacity", id="capacity-negative"),
    pytest.param({"capacity": 2**48 + 1}, ParameterError, "capacity", id="capacity-too-large"),
    pytest.param({"capacity": 10**30}, ParameterError, "capacity", id="capacity-10^30"),
    pytest.param({"capacity": 1e30}, ParameterTypeError, "capacity", id="capacity-float"),
    pytest.param({"capacity": True}, ParameterTypeError, "capacity", id="capacity-bool"),
    pytest.param({"capacity": "9"}, ParameterTypeError, "capacity", id="capacity-text"),
    pytest.param({"layout": "blocked"}, ParameterError, "layout.*classic", id="layout-unknown"),
    pytest.param({"layout": 2}, ParameterTypeError, "layout", id="layout-number"),
    pytest.param({"seed": -1}, ParameterError, "seed", id="seed-negative"),
    pytest.param({"seed": 2**64}, ParameterError, "seed", id="seed-too-large"),
    pytest.param({"seed": 1.0}, ParameterTypeError, "seed", id="seed-float"),
    pytest.param({"seed": True}, ParameterTypeError, "seed", id="seed-bool"),
    pytest.param({"key_form": "url"}, ParameterError, "key_form.*raw, hex", id="form-unknown"),
    pytest.param({"key_form": None}, ParameterTypeError, "key_form", id="form-none"),
    pytest.param({"key_form": ["raw"]}, ParameterTypeError, "key_form", id="form-list"),
    pytest.param({"metadata": [1]}, ParameterTypeError, "metadata", id="metadata-list"),
    pytest.param({"metadata": {1: 2}}, ParameterError, "metadata", id="metadata-int-key"),
    pytest.param({"metadata": {"a": {1}}}, ParameterError, "metadata", id="metadata-set"),
    pytest.param({"metadata": {"a": "x" * 2048}}, ParameterError, "2048", id="metadata-long"),
    pytest.param({"metadata": {"a": math.nan}}, ParameterError, "metadata", id="metadata-nan"),
]
BAD_OVERFILL = [
    pytest.param({"overfill": 1}, ParameterTypeError, "overfill", id="overfill-int"),
    pytest.param({"overfill": "no"}, ParameterTypeError, "overfill", id="overfill-text"),
]


@pytest.mark.parametrize(("wrong", "error", "text"), BAD_PARAMETERS + BAD_OVERFILL)
def test_a_wrong_parameter_is_named_and_no_file_is_made(
    tmp_path: Path, wrong: dict[str, Any], error: type[ParameterError], text: str
) -> None:
    """With what was expected and what was found; a wrong type is a TypeError too."""
    parameters = {"capacity": 100, "fpr": 0.01} | wrong

    with pytest.raises(error, match=text) as caught:
        BloomFilter.create(tmp_path / "a.mmb", **parameters)
    with pytest.raises(error, match=text):
        BloomFilter.in_memory(**parameters)

    assert isinstance(caught.value, TypeError) == (error is ParameterTypeError)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("wrong", "error", "text"), BAD_PARAMETERS)
def test_build_refuses_the_same_parameters_before_it_reads_a_key(
    tmp_path: Path, wrong: dict[str, Any], error: type[ParameterError], text: str
) -> None:
    """Not after hours of reading."""
    unread = iter(["ada"])

    with pytest.raises(error, match=text):
        mmbloom.build(tmp_path / "a.mmb", unread, **({"fpr": 0.01} | wrong))

    assert list(unread) == ["ada"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("call", [BloomFilter.in_memory, BloomFilter.create, mmbloom.build])
def test_a_misspelt_keyword_is_a_type_error(tmp_path: Path, call: Callable[..., object]) -> None:
    """Never ignored."""
    places = [] if call == BloomFilter.in_memory else [tmp_path / "a.mmb"]
    parameters = {"capacity": 10, "fpr": 0.1, "error_rate": 0.1}

    with pytest.raises(TypeError, match="error_rate"):
        call(*places, **parameters)
    assert list(tmp_path.iterdir()) == []


def test_sizes_are_keywords_so_they_cannot_be_swapped(tmp_path: Path) -> None:
    """create(path, 0.01, 1000) makes nothing."""
    with pytest.raises(TypeError, match="positional"):
        BloomFilter.create(tmp_path / "a.mmb", 0.01, 1000)  # type: ignore[misc]
    assert list(tmp_path.iterdir()) == []


def test_the_class_itself_makes_and_opens_nothing(tmp_path: Path) -> None:
    """BloomFilter(path) would have to guess; the error names the calls that do not."""
    path = tmp_path / "a.mmb"
    BloomFilter.create(path, capacity=10, fpr=0.1).close()
    before = path.read_bytes()

    for arguments in ((), (path,), (1000, 0.01)):
        with pytest.raises(TypeError, match=r"create.*open_writable"):
            BloomFilter(*arguments)
    with pytest.raises(TypeError, match=r"in_memory"):
        BloomFilter(capacity=1000, fpr=0.01)
    assert path.read_bytes() == before


@pytest.mark.parametrize("number", [np.int64(100), np.uint8(100)])
def test_integers_and_floats_of_numpy_are_numbers(number: int) -> None:
    """They come out as Python's."""
    with BloomFilter.in_memory(capacity=number, fpr=np.float64(0.01), seed=number) as found:
        assert (found.capacity, found.seed) == (100, 100)
        assert type(found.capacity) is int
        assert type(found.fpr) is float
        json.dumps(found.info())


# -- closed ----------------------------------------------------------------------------------------


USES: list[tuple[str, Callable[[BloomFilter], object]]] = [
    ("in", lambda f: "a" in f),
    ("might_contain", lambda f: f.might_contain("a")),
    ("contains_many", lambda f: f.contains_many(["a"])),
    ("contains_many-of-nothing", lambda f: f.contains_many([])),
    ("add", lambda f: f.add("a")),
    ("update", lambda f: f.update(["a"])),
    ("update-of-nothing", lambda f: f.update([])),
    ("or", lambda f: f | f),
    ("and", lambda f: f & f),
    ("ior", lambda f: f.__ior__(f)),
    ("iand", lambda f: f.__iand__(f)),
    ("eq", lambda f: f == f),  # noqa: PLR0124 - the point is the closed filter
    ("copy", lambda f: f.copy()),
    ("clear", lambda f: f.clear()),
    ("save", lambda f: f.save("/nowhere/a.mmb")),
    ("flush", lambda f: f.flush()),
    ("seal", lambda f: f.seal()),
    ("fill_ratio", lambda f: f.fill_ratio),
    ("approx_count", lambda f: f.approx_count()),
    ("expected_fpr", lambda f: f.expected_fpr()),
    ("fill_by_region", lambda f: f.fill_by_region()),
    ("info", lambda f: f.info()),
    ("verify", lambda f: f.verify()),
    ("with", lambda f: f.__enter__()),
    ("pickle", lambda f: f.__reduce__()),
]


@pytest.mark.parametrize("use", [pytest.param(use, id=name) for name, use in USES])
def test_a_closed_filter_answers_nothing(make: Make, use: Callable[[BloomFilter], object]) -> None:
    """Every use says that it is closed; none crashes or makes an answer up."""
    found = make()
    found.add("a")
    found.close()

    with pytest.raises(ClosedError, match="closed"):
        use(found)


def test_an_open_filter_does_not_combine_with_a_closed_one(make: Make) -> None:
    """From either side, and it is as before."""
    found, closed = make(), make()
    found.add("a")
    closed.close()
    before = payload_of(found)

    for use in (
        lambda: found | closed,
        lambda: closed | found,
        lambda: found & closed,
        lambda: found.__ior__(closed),
        lambda: found.__iand__(closed),
        lambda: found == closed,
    ):
        with pytest.raises(ClosedError):
            use()
    assert payload_of(found) == before


def test_parameters_and_counts_outlive_the_close(make: Make) -> None:
    """They need no payload."""
    found = make(capacity=50, metadata={"a": 1})
    found.add("ada")
    before = found.uuid, found.path, found.geometry
    found.close()

    assert (found.uuid, found.path, found.geometry) == before
    assert (found.capacity, found.keys_added, found.metadata) == (50, 1, {"a": 1})
    assert (found.closed, found.writable) == (True, False)


def test_close_may_be_called_again_and_with_calls_it(make: Make) -> None:
    """A block that ends with an error closes too."""
    with make() as found:
        found.add("a")
        assert not found.closed
    assert found.closed
    found.close()

    with pytest.raises(ZeroDivisionError), make() as other:
        other.add(1 / 0)  # type: ignore[arg-type]
    assert other.closed
