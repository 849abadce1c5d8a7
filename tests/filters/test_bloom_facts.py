"""What a Bloom filter is and says of itself: copies, equality, repr, info."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from filter_files import NEVER, keys, payload_of

import mmbloom
from mmbloom import BloomFilter, CapacityError

if TYPE_CHECKING:
    from collections.abc import Callable

    Make = Callable[..., BloomFilter]


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
    assert (found.keys_added, found.approx_count(), found.fill_ratio()) == (0, 0, 0.0)
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
    for name in ("num_bits", "num_probes", "keys_added"):
        assert facts[name] == getattr(found, name)
    assert facts["layout"] == layout
    assert facts["expected_fpr"] == found.expected_fpr()
    assert facts["bits_set"] == round(found.fill_ratio() * found.num_bits)
    assert facts["engine"] == mmbloom.ENGINE
    assert (facts["state"], facts["kind"]) == ("writable", "bloom")


def test_metadata_are_a_copy(make: Make) -> None:
    """Changing them changes nothing."""
    found = make(metadata={"tags": ["a"]})
    found.metadata["tags"].append("b")

    assert found.metadata == {"tags": ["a"]}
    assert make().metadata == {}
