"""What a Bloom filter is made with, and every parameter that is refused."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from filter_files import keys, payload_of

import mmbloom
from mmbloom import BloomFilter, ParameterError, ParameterTypeError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Make = Callable[..., BloomFilter]


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
