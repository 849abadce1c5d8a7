"""Two engines, one truth, for fuse filters: the same shards, answers, pages and errors."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmbloom.engine import reference
from mmbloom.format.fuse import FuseShape
from mmbloom.sizing.fuse import fuse_shape_for

if TYPE_CHECKING:
    from types import ModuleType

kernel = pytest.importorskip("mmbloom.engine._kernel", reason="no kernel was compiled here")

ENGINES = (kernel, reference)
GOLDEN64 = 0x9E3779B97F4A7C15
WORDS = st.sampled_from([0, 1, 2**63, 2**64 - 1]) | st.integers(0, 2**64 - 1)
PAIRS = st.tuples(WORDS, WORDS)


def hashes_of(count: int, seed: int) -> bytes:
    """Return distinct random hashes, sorted."""
    words = np.random.default_rng(seed).integers(0, 2**64, size=2 * count, dtype=np.uint64)
    hashes = bytearray(words.tobytes())
    return bytes(hashes[: 16 * reference.sort_unique(hashes, bytearray(len(hashes)))])


def packed(pairs: list[tuple[int, int]]) -> bytes:
    """Return hashes as an engine takes them."""
    return b"".join(struct.pack("<QQ", *pair) for pair in pairs)


def built(
    engine: ModuleType, hashes: bytes | bytearray, shape: FuseShape, max_seeds: int
) -> tuple[int, bytearray] | None:
    """Return what an engine makes of a shard."""
    scratch = bytearray(engine.fuse_scratch_bytes(shape.arity, *shape[2:4]))
    found: tuple[int, bytearray] | None = engine.fuse_shard(hashes, *shape, max_seeds, scratch)
    return found


def view_of(engine: ModuleType, payload: bytes, shape: FuseShape) -> Any:  # noqa: ANN401 - either engine's
    """Return a view of *payload*."""
    layout = shape.arity + 2  # fuse3 is 5, fuse4 is 6; their probe schemes have the same numbers
    return engine.View(payload, layout, layout, tuple(shape), 7, 0)


def answers_of(view: Any, hashes: bytes) -> list[int]:  # noqa: ANN401 - as above
    """Return the answers to a batch of hashes."""
    maybe = bytearray(len(hashes) // 16)
    view.contains_hashes(hashes, maybe)
    return list(maybe)


def singles_of(engine: ModuleType, view: Any) -> list[bool]:  # noqa: ANN401 - as above
    """Return the answers to single keys."""
    core = engine.Core()
    core._use(view)
    return [str(i) in core for i in range(50)]


@pytest.mark.parametrize("layout", ["fuse3", "fuse4"])
@pytest.mark.parametrize("num_keys", [0, 1, 2, 3, 10, 100, 1000, 3000])
def test_a_shard_has_the_same_bytes(layout: str, num_keys: int) -> None:
    """The specification and the kernel peel in the same order and try the same seeds."""
    for width in (1, 8, 10, 12, 16, 27, 32):
        shape = fuse_shape_for(num_keys, 1, 2.0**-width, layout)
        hashes = hashes_of(num_keys, num_keys)

        found = [built(engine, hashes, shape, 64) for engine in ENGINES]

        assert found[0] == found[1]
        assert found[0] is not None


def test_a_set_that_needs_a_second_seed_has_the_same_bytes() -> None:
    """Where the first does not work both go on to the second, 2 * C, and so on."""
    seeds = set()
    for number in range(60):
        hashes, shape = hashes_of(15, number), FuseShape(3, 8, 8, 3, 1)
        found = [built(engine, hashes, shape, 5) for engine in ENGINES]
        assert found[0] == found[1]
        seeds.add(found[0] and found[0][0])

    assert {GOLDEN64, 2 * GOLDEN64 % 2**64} < seeds


@given(st.lists(PAIRS, max_size=30), st.sampled_from([1, 2, 7]), st.integers(1, 32))
def test_any_hashes_give_the_same_shard_or_none(
    pairs: list[tuple[int, int]], num_shards: int, width: int
) -> None:
    """Equal hashes, hashes that share a half, hashes of other shards: no engine knows better."""
    shape = FuseShape(3, width, 8, 6, num_shards)
    hashes = packed(sorted(pairs, key=lambda pair: pair[0] * num_shards % 2**64))

    found = [built(engine, hashes, shape, 3) for engine in ENGINES]

    assert found[0] == found[1]


@given(st.lists(PAIRS, max_size=30), st.sampled_from([1, 2, 7]), st.integers(1, 32), st.data())
def test_answers_and_pages_agree_for_any_payload(
    pairs: list[tuple[int, int]], num_shards: int, width: int, data: st.DataObject
) -> None:
    """A reader cannot check seeds and numbers, so it must answer from any."""
    shape = FuseShape(data.draw(st.sampled_from([3, 4])), width, 64, 30, num_shards)
    payload = np.random.default_rng(data.draw(st.integers(0, 9))).bytes(shape.num_bits // 8)
    left, right = views = [view_of(engine, payload, shape) for engine in ENGINES]

    assert answers_of(left, packed(pairs)) == answers_of(right, packed(pairs))
    assert left.pages_of(packed(pairs)) == right.pages_of(packed(pairs))
    singles = [singles_of(*each) for each in zip(ENGINES, views, strict=True)]
    assert singles[0] == singles[1]
    for engine, view, found in zip(ENGINES, views, singles, strict=True):
        maybe = bytearray(50)
        view.contains_batch(engine.ObjectBatch([str(i) for i in range(50)]), maybe)
        assert list(maybe) == found


def test_no_shards_no_keys() -> None:
    """Both answer 0, and read no page."""
    shape = FuseShape(3, 8, 0, 0, 0)
    for engine in ENGINES:
        view = view_of(engine, bytes(64), shape)
        assert answers_of(view, hashes_of(20, 1)) == [0] * 20
        assert view.pages_of(hashes_of(20, 1)) == []
        assert not any(singles_of(engine, view))


def test_a_payload_that_is_too_short_is_refused_alike() -> None:
    """Before anything reads it."""
    shape = FuseShape(3, 8, 64, 30, 2)
    texts = []
    for engine in ENGINES:
        with pytest.raises(ValueError, match="the payload needs") as caught:
            view_of(engine, bytes(shape.num_bits // 8 - 1), shape)
        texts.append(str(caught.value))

    assert texts[0] == texts[1]


@pytest.mark.parametrize("engine", ENGINES, ids=["kernel", "reference"])
def test_hashes_that_are_not_in_order_are_refused(engine: ModuleType) -> None:
    """A key that comes behind its segment would be left out: a false "no"."""
    shape = fuse_shape_for(1000, 1, 0.004, "fuse3")
    hashes = hashes_of(1000, 3)
    with pytest.raises(ValueError, match="not in order"):
        built(engine, hashes[16:] + hashes[:16], shape, 64)


def test_hashes_are_in_order_if_their_segments_are() -> None:
    """Within a segment any order gives the same bytes."""
    shape = fuse_shape_for(1000, 1, 0.004, "fuse3")
    hashes = hashes_of(1000, 3)
    shuffled = np.random.default_rng(3).permutation(np.frombuffer(hashes, "V16")).tobytes()
    coarse = bytearray(len(hashes))
    kernel.order_by_part(shuffled, shape.num_parts, coarse)

    found = [built(engine, some, shape, 64) for engine in ENGINES for some in (hashes, coarse)]

    assert coarse != hashes

    assert found[0] is not None
    assert found == found[:1] * 4


@pytest.mark.parametrize("engine", ENGINES, ids=["kernel", "reference"])
def test_a_fuse_filter_cannot_be_changed(engine: ModuleType) -> None:
    """Its keys are those that it was built from."""
    shape = FuseShape(3, 8, 64, 30, 1)
    view = engine.View(bytearray(shape.num_bits // 8), 5, 5, tuple(shape), 7, 0, True)  # noqa: FBT003
    with pytest.raises(ValueError, match="no key can be added"):
        view.add_many(bytes(16), 1)
    with pytest.raises(ValueError, match="no key can be removed"):
        view.remove_many(bytes(16))
    with pytest.raises(ValueError, match="this layout has no counters"):
        view.count_of(bytes(16))


@pytest.mark.parametrize("engine", ENGINES, ids=["kernel", "reference"])
def test_the_arity_is_that_of_the_layout(engine: ModuleType) -> None:
    """The kernel has room for no more slots of a key."""
    with pytest.raises(ValueError, match="num_probes is 4, not 1 to 3"):
        engine.View(bytes(4096), 5, 5, (4, 8, 64, 30, 1), 7, 0)


def test_too_little_scratch_is_refused_alike() -> None:
    """Before anything is written to it."""
    shape = FuseShape(3, 8, 64, 30, 1)
    texts = []
    for engine in ENGINES:
        with pytest.raises(ValueError, match="scratch") as caught:
            engine.fuse_shard(b"", *shape, 1, bytearray(12 * 64 * 30 + 3))
        texts.append(str(caught.value))

    assert texts[0] == texts[1]
