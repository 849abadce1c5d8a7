"""Sizing of fuse filters: widths, shards, and shapes that can be built."""

from __future__ import annotations

import numpy as np
import pytest

from mmbloom.engine import ENGINE, fuse_scratch_bytes, fuse_shard, sort_unique
from mmbloom.errors import ParameterError, ParameterTypeError
from mmbloom.format.fuse import FuseShape, fuse_shape
from mmbloom.format.header import new_header
from mmbloom.sizing import fuse as fuse_sizing
from mmbloom.sizing.fuse import (
    LAYOUTS,
    MOST_SHARD_KEYS,
    fingerprint_bits,
    fuse_shape_for,
    num_shards_for,
    plan_fuse,
)

MAX_SEEDS = 64


def hashes_of(count: int, seed: int) -> bytes:
    """Return distinct random hashes, sorted."""
    words = np.random.default_rng(seed).integers(0, 2**64, size=2 * count, dtype=np.uint64)
    hashes = bytearray(words.tobytes())
    return bytes(hashes[: 16 * sort_unique(hashes, bytearray(len(hashes)))])


def is_built(count: int, seed: int, shape: FuseShape, max_seeds: int = MAX_SEEDS) -> bool:
    """Return whether a random set is built in this shape."""
    scratch = bytearray(fuse_scratch_bytes(shape.arity, shape.segment_slots, shape.num_segments))
    return fuse_shard(hashes_of(count, seed), *shape, max_seeds, scratch) is not None


@pytest.mark.parametrize(
    ("fpr", "width"),
    [
        (0.999, 1),
        (0.5, 1),
        (0.49, 2),
        (0.01, 7),
        (0.004, 8),
        (2**-8, 8),
        (0.0039, 9),
        (0.001, 10),
        (2.0**-12, 12),
        (1e-5, 17),
        (2.0**-32, 32),
    ],
)
def test_the_width_is_the_least_that_keeps_the_rate(fpr: float, width: int) -> None:
    """2^-w <= fpr, exactly, for powers of two also."""
    assert fingerprint_bits(fpr) == width
    assert 2.0**-width <= fpr


@pytest.mark.parametrize("fpr", [2.3e-10, 1e-12])
def test_a_rate_below_32_bits_is_refused_and_the_other_kind_named(fpr: float) -> None:
    """The promise is the rate that was asked for."""
    with pytest.raises(ParameterError, match=r"2\.33e-10") as caught:
        fingerprint_bits(fpr)

    assert caught.value.name == "fpr"
    assert "Bloom" in str(caught.value)


def test_layouts_of_bloom_filters_are_refused_by_name() -> None:
    """They look alike on the command line."""
    with pytest.raises(ParameterError, match="fuse3 or fuse4"):
        plan_fuse(10, 0.01, "line")
    with pytest.raises(ParameterTypeError, match="layout"):
        plan_fuse(10, 0.01, None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("num_keys", "shards"),
    [
        (0, 0),
        (1, 1),
        (MOST_SHARD_KEYS, 1),
        (MOST_SHARD_KEYS + 1, 2),
        (3 * MOST_SHARD_KEYS, 4),
        (4 * MOST_SHARD_KEYS + 1, 8),
        (10**10, 4096),
    ],
)
def test_shards_are_a_power_of_two_of_a_few_million_keys(num_keys: int, shards: int) -> None:
    """So that any partition by the top bits of hi is whole shards, or a part of one."""
    assert num_shards_for(num_keys) == shards


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_shape_is_one_that_a_reader_takes(layout: str) -> None:
    """From no key to as many as a header can count."""
    numbers = [*range(1, 300), *(round(10**e) for e in np.arange(2.5, 14, 0.05)), 1 << 47]
    for capacity in numbers:
        for fpr in (0.9, 0.001, 2.0**-32):
            shape = plan_fuse(capacity, fpr, layout)
            header = new_header(
                layout=layout,
                num_bits=shape.num_bits,
                num_probes=shape.arity,
                capacity=max(1, capacity),
                fpr=fpr,
                uuid=bytes(16),
                created_unix_ns=0,
                own=shape.own_fields,
            )
            assert fuse_shape(header) == shape, (capacity, fpr)


def test_more_than_a_pebibyte_is_refused() -> None:
    """As for Bloom filters: no product of header fields leaves 64 bits."""
    with pytest.raises(ParameterError, match=r"2\*\*53 bits") as caught:
        plan_fuse(1 << 48, 2.0**-32)

    assert caught.value.name == "capacity"


@pytest.mark.parametrize(("layout", "most"), [("fuse3", 9.1), ("fuse4", 8.75)])
@pytest.mark.parametrize("capacity", [10**6, 10**8, 10**9])
def test_large_filters_take_few_bits_a_key(layout: str, most: float, capacity: int) -> None:
    """At 0.39 %, table of seeds and unequal shards included; a Bloom filter takes 11.6."""
    shape = plan_fuse(capacity, 0.00390625, layout)

    assert shape.num_bits / capacity <= most


@pytest.mark.parametrize("layout", LAYOUTS)
def test_no_shape_is_filled_beyond_what_peels(layout: str) -> None:
    """The fill behind the first segments stays below the threshold, also for unlucky sizes."""
    threshold = {"fuse3": 0.918, "fuse4": 0.977}[layout]
    for n in [*range(1, 3000), *range(3000, 30_000, 7), *range(30_000, 5_000_000, 9973)]:
        shape = fuse_shape_for(n, 1, 0.004, layout)
        starts = (shape.num_segments - shape.arity + 1) * shape.segment_slots
        assert n / starts <= threshold * 0.985, n


@pytest.mark.skipif(ENGINE == "python", reason="thousands of filters; the engines build alike")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_small_sets_of_every_number_of_keys_can_be_built(layout: str) -> None:
    """0 to 20 keys, 50 sets each, without a segment more."""
    for n in range(21):
        shape = fuse_shape_for(n, 1, 0.004, layout)._replace(num_shards=1)
        if not n:
            shape = shape._replace(segment_slots=4, num_segments=4)
        for seed in range(50):
            assert is_built(n, 100 * n + seed, shape)


@pytest.mark.skipif(ENGINE == "python", reason="thousands of filters; the engines build alike")
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("num_keys", [11_480, 11_500, 11_504, 11_511, 11_521])
def test_sizes_at_which_the_usual_formula_fails_can_be_built(layout: str, num_keys: int) -> None:
    """There half of all sets are unsolvable with the segments of the formula alone."""
    shape = fuse_shape_for(num_keys, 1, 0.004, layout)
    for seed in range(50):
        assert is_built(num_keys, seed, shape)


@pytest.mark.skipif(ENGINE == "python", reason="long there; the engines build alike")
def test_those_sizes_do_fail_without_the_bound_on_the_fill(monkeypatch: pytest.MonkeyPatch) -> None:
    """So the test above tests something."""
    loose = fuse_sizing._FITS[3]._replace(most_fill=2.0)
    monkeypatch.setitem(fuse_sizing._FITS, 3, loose)
    shape = fuse_shape_for(11_521, 1, 0.004, "fuse3")
    built = [is_built(11_521, seed, shape, 8) for seed in range(12)]

    assert built.count(False) >= 4
