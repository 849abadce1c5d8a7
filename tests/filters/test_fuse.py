"""Fuse filters: what they find, how often they err, and what they refuse."""

from __future__ import annotations

import math
import struct
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import mmbloom
from mmbloom import FuseFilter, ReadOnlyError
from mmbloom.engine import ENGINE, fuse_scratch_bytes, sort_unique
from mmbloom.errors import ChecksumError, ConstructionError, FormatError, ParameterError
from mmbloom.format.fuse import FuseShape
from mmbloom.kinds import fuse_shards
from mmbloom.kinds.fuse_shards import (
    MAX_EXTRA_SEGMENTS,
    construct_shard,
    first_of_shard,
    fuse_pieces,
    shapes_to_try,
)
from mmbloom.sizing import fuse as fuse_sizing

if TYPE_CHECKING:
    from pathlib import Path


LAYOUTS = ("fuse3", "fuse4")
WIDTHS = (1, 4, 7, 8, 10, 12, 16, 25, 26, 32)
MANY = 20_000 if ENGINE == "kernel" else 1000
ABSENT = 1_000_000 if ENGINE == "kernel" else 3000


def keys(count: int, name: str = "key") -> list[str]:
    """Return distinct keys."""
    return [f"{name} {i}" for i in range(count)]


def absent_keys(count: int) -> np.ndarray[Any, Any]:
    """Return integer keys; no text of the tests is one of them."""
    return np.arange(count, dtype=np.int64)


def sorted_distinct(words: np.ndarray[Any, Any]) -> bytes:
    """Return these hashes, two words each, as the engine sorts them."""
    hashes = bytearray(words.tobytes())
    return bytes(hashes[: 16 * sort_unique(hashes, bytearray(len(hashes)))])


def scratch_for(shape: FuseShape) -> bytearray:
    """Return memory to construct a shard in."""
    return bytearray(fuse_scratch_bytes(shape.arity, shape.segment_slots, shape.num_segments))


@pytest.fixture(params=LAYOUTS)
def layout(request: pytest.FixtureRequest) -> str:
    """Run a test for each layout."""
    return str(request.param)


@pytest.fixture
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    """Split a thousand keys as if they were millions."""
    monkeypatch.setattr(fuse_sizing, "MOST_SHARD_KEYS", 300)


@pytest.mark.parametrize("width", WIDTHS)
def test_every_key_is_found_and_others_at_the_rate_of_the_width(
    tmp_path: Path, layout: str, width: int
) -> None:
    """2^-w: of n absent keys n 2^-w are maybe, within 4 sigma of the binomial."""
    members = keys(MANY)
    with mmbloom.build(
        tmp_path / "a.mmb", members, kind="fuse", fpr=2.0**-width, layout=layout
    ) as found:
        assert found.fingerprint_bits == width
        assert found.contains_many(members).all()
        assert all(key in found for key in members[:200])
        maybes = int(found.contains_many(absent_keys(ABSENT)).sum())
        rate = found.expected_fpr()

    assert rate == 2.0**-width
    sigma = math.sqrt(ABSENT * rate * (1 - rate))
    assert abs(maybes - ABSENT * rate) <= 4 * sigma + 1


@pytest.mark.parametrize("count", range(21))
def test_a_few_keys_are_built_and_found(tmp_path: Path, layout: str, count: int) -> None:
    """Also none: then all is definitely not in."""
    members = keys(count)
    with mmbloom.build(
        tmp_path / "a.mmb", members, kind="fuse", fpr=2.0**-32, layout=layout
    ) as found:
        assert found.contains_many(members).tolist() == [True] * count
        assert found.keys_added == count
        assert not found.contains_many(keys(100, "other")).any()
        assert "other" not in found
        assert found.expected_fpr() == (2.0**-32 if count else 0.0)
        assert found.verify() == found.info()["payload_bytes"]


@pytest.mark.usefixtures("small_shards")
def test_a_filter_of_many_shards_finds_every_key(tmp_path: Path, layout: str) -> None:
    """Each look-up goes to its own shard, one by one and in batches."""
    members = keys(4000)
    with mmbloom.build(tmp_path / "a.mmb", members, kind="fuse", fpr=1e-6, layout=layout) as found:
        assert found.shape.num_shards == 16
        assert found.contains_many(members).all()
        assert all(key in found for key in members)
        assert not found.contains_many(keys(1000, "other")).any()


@pytest.mark.usefixtures("small_shards")
def test_the_file_depends_on_the_set_of_keys_alone(
    tmp_path: Path, layout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not on their order, nor on repetitions, nor on how many threads there are."""
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    members = keys(1000)
    mmbloom.build(tmp_path / "a.mmb", members, kind="fuse", fpr=0.01, layout=layout).close()
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0})
    mmbloom.build(
        tmp_path / "b.mmb", members[::-1] + members, kind="fuse", fpr=0.01, layout=layout
    ).close()

    assert (tmp_path / "a.mmb").read_bytes() == (tmp_path / "b.mmb").read_bytes()


def test_a_filter_says_what_it_is(tmp_path: Path) -> None:
    """All that plan() would need to be compared with."""
    path = tmp_path / "a.mmb"
    with mmbloom.build(
        path, keys(1000), kind="fuse", fpr=0.001, seed=3, metadata={"list": 9}
    ) as found:
        facts = found.info()
        assert (
            repr(found)
            == f"<FuseFilter {str(path)!r}, fuse3, 1000 of 1000 keys at fpr 0.001, read-only>"
        )

    assert (facts["kind"], facts["layout"], facts["state"]) == ("fuse", "fuse3", "sealed")
    assert (facts["keys_added"], facts["keys_exact"], facts["capacity"]) == (1000, True, 1000)
    assert (facts["fingerprint_bits"], facts["num_probes"], facts["num_shards"]) == (10, 3, 1)
    assert facts["bits_per_key"] == facts["num_bits"] / 1000
    assert facts["num_bits"] == 8 * facts["payload_bytes"]
    assert (facts["fpr"], facts["expected_fpr"]) == (0.001, 2.0**-10)
    assert (facts["seed"], facts["metadata"]) == (3, {"list": 9})
    assert path.stat().st_size == facts["file_bytes"]


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(lambda found: found.add("new"), id="add"),
        pytest.param(lambda found: found.update(["new"]), id="update"),
        pytest.param(lambda found: found | found, id="or"),
        pytest.param(lambda found: found.__ior__(found), id="ior"),
    ],
)
def test_what_would_add_is_refused_with_what_to_do_instead(tmp_path: Path, call: Any) -> None:  # noqa: ANN401 - a case
    """Build it again, or stack a filter of the new keys."""
    with (
        mmbloom.build(tmp_path / "a.mmb", keys(10), kind="fuse", fpr=0.01) as found,
        pytest.raises(ReadOnlyError, match=r"Build it again .*FilterStack"),
    ):
        call(found)


def test_it_is_not_made_by_its_class(tmp_path: Path) -> None:
    """Nor opened for writing: the errors say how it is made."""
    mmbloom.build(tmp_path / "a.mmb", keys(10), kind="fuse", fpr=0.01).close()

    with pytest.raises(TypeError, match=r"mmbloom\.build\(path, keys, kind=\"fuse\""):
        FuseFilter()
    with pytest.raises(ReadOnlyError, match="sealed"):
        mmbloom.open_writable(tmp_path / "a.mmb")


@pytest.mark.parametrize(
    ("given", "name"),
    [
        pytest.param({"fpr": 1e-10}, "fpr", id="rate-too-low"),
        pytest.param({"fpr": 2}, "fpr", id="rate-no-rate"),
        pytest.param({"layout": "line"}, "layout", id="layout-of-a-bloom-filter"),
        pytest.param({"seed": -1}, "seed", id="seed"),
        pytest.param({"key_form": "url"}, "key_form", id="key-form"),
    ],
)
def test_bad_parameters_are_known_before_a_key_is_read(
    tmp_path: Path, given: dict[str, Any], name: str
) -> None:
    """No file is left."""
    unread = iter(keys(3))
    parameters: dict[str, Any] = {"fpr": 0.01} | given
    with pytest.raises(ParameterError) as caught:
        mmbloom.build(tmp_path / "a.mmb", unread, kind="fuse", **parameters)

    assert caught.value.name == name
    assert len(list(unread)) == 3
    assert not list(tmp_path.iterdir())


def test_a_damaged_payload_is_found(tmp_path: Path) -> None:
    """By verify any byte; by opening what the canaries touch: zeros in the place of all."""
    path = tmp_path / "a.mmb"
    mmbloom.build(path, keys(5000), kind="fuse", fpr=1e-6).close()
    whole = path.read_bytes()
    length = 8 * -(-len(whole) // (1 << 20))  # of the table of checksums

    path.write_bytes(whole[:5000] + bytes([whole[5000] ^ 1]) + whole[5001:])
    with mmbloom.open(path) as found, pytest.raises(ChecksumError):
        found.verify()
    path.write_bytes(whole[:4096] + bytes(len(whole) - 4096 - length) + whole[-length:])
    with pytest.raises(FormatError, match="canaries"):
        mmbloom.open(path)


# ---- shards --------------------------------------------------------------------------------------


@pytest.mark.parametrize("num_shards", [1, 2, 4, 64])
def test_sorted_hashes_are_divided_by_the_first_of_each_shard(num_shards: int) -> None:
    """Every hash goes to its shard; a shard may be empty."""
    words = np.random.default_rng(1).integers(0, 2**64, size=400, dtype=np.uint64)
    words[:80] = 5  # none between the lowest hash and the others
    hashes = sorted_distinct(words)

    firsts = [first_of_shard(hashes, shard, num_shards) for shard in range(num_shards + 1)]

    assert (firsts[0], firsts[-1]) == (0, len(hashes) // 16)
    for shard, (first, end) in enumerate(pairwise(firsts)):
        own = struct.iter_unpack("<QQ", hashes[16 * first : 16 * end])
        assert all(hi * num_shards >> 64 == shard for hi, _ in own)
        assert first_of_shard(hashes, shard + 1, num_shards, first) == end


def test_a_payload_is_its_shards_and_the_table_of_their_seeds() -> None:
    """As long as the header says."""
    hashes = sorted_distinct(np.random.default_rng(1).integers(0, 2**64, 400, np.uint64))
    shape = fuse_sizing.fuse_shape_for(200, 2, 0.001, "fuse3")
    middle = first_of_shard(hashes, 1, 2)
    halves = hashes[: 16 * middle], hashes[16 * middle :]
    shards = [construct_shard(shape, half, scratch_for(shape)) for half in halves]

    payload = b"".join(bytes(piece) for piece in fuse_pieces(shape, shards))

    table = struct.pack("<QQ", *(seed for seed, _ in shards)).ljust(64, b"\0")
    assert payload == bytes(shards[0][1]) + bytes(shards[1][1]) + table
    assert len(payload) == shape.num_bits // 8


# ---- sets that cannot be built -------------------------------------------------------------------


def chosen_hashes(count: int) -> bytes:
    """Return hashes that all begin in one slot: more than a slot can count."""
    return b"".join(struct.pack("<QQ", 5, i) for i in range(count))


def test_a_shard_that_no_seed_fits_is_an_error_with_its_number_of_keys() -> None:
    """Bounded in time: so many seeds."""
    shape = fuse_sizing.fuse_shape_for(400, 1, 0.01, "fuse3")

    with pytest.raises(ConstructionError, match="another seed") as caught:
        construct_shard(shape, chosen_hashes(400), scratch_for(shape))

    assert (caught.value.num_keys, caught.value.num_seeds) == (400, fuse_shards.MAX_SEEDS)


def test_equal_hashes_end_in_an_error_too() -> None:
    """They are sorted out before; but if not, nothing hangs."""
    shape = fuse_sizing.fuse_shape_for(2, 1, 0.01, "fuse3")

    with pytest.raises(ConstructionError):
        construct_shard(shape, chosen_hashes(1) * 2, scratch_for(shape))


def test_after_all_seeds_a_segment_is_added_and_that_ends() -> None:
    """Each shape has one segment more than the last."""
    shapes = list(shapes_to_try(FuseShape(3, 8, 64, 10, 1)))

    assert shapes == [FuseShape(3, 8, 64, 10 + i, 1) for i in range(MAX_EXTRA_SEGMENTS + 1)]


def test_a_file_that_cannot_be_built_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the file nor a temporary one."""
    monkeypatch.setattr(fuse_shards, "MAX_SEEDS", 0)

    with pytest.raises(ConstructionError):
        mmbloom.build(tmp_path / "a.mmb", keys(100), kind="fuse", fpr=0.01)
    assert not list(tmp_path.iterdir())
