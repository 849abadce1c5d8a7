"""Sizing of fuse filters: from a false-positive rate and a number of keys to a shape.

A fingerprint of w bits gives the rate 2^-w, whatever the keys. How many slots n keys need, so that
keys can be taken out one by one until none is left, is a question of thresholds:

- In a long row of segments it works while there are fewer than 0.918 keys a slot (3 slots a key) or
  0.977 (4): the thresholds of spatial coupling (Walzer, ESA 2021). The fill behind the first
  segments, n / (start slots), must stay below.
- Chance disturbs small sets more: the formulas for slots and segments are those of Graf and Lemire
  (2022, section 4), which were fitted to sets of any size. Alone they are too tight where a set has
  just enough keys for the next size of segment: of sets of 11 480 to 11 521 keys up to half cannot
  be built at all. The fill above mends that.

Where a set still cannot be built, the builder adds a segment.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from mmbloom.errors import ParameterError, ParameterTypeError
from mmbloom.format.fields import MAX_NUM_BITS
from mmbloom.format.fuse import ARITIES, MAX_FINGERPRINT_BITS, MAX_SEGMENT_SLOTS, FuseShape
from mmbloom.sizing.bloom import check_capacity, check_fpr

LAYOUTS = tuple(ARITIES)
LEAST_FPR = 2.0**-MAX_FINGERPRINT_BITS
# Shards of 2 to 4 million keys: the scratch memory of two is below 256 MiB, and the work on one
# moves through a window that fits into a cache.
MOST_SHARD_KEYS = 1 << 22
MAX_SHARD_KEYS = (1 << 24) - 1  # the engine numbers them with 24 bits
_LEAST_SEGMENT_SLOTS = 4


class _Fit(NamedTuple):
    """The formulas of Graf and Lemire for one arity, and the fill that is safe."""

    growth: float  # segments double when keys grow by so much, about
    offset: float
    least_slots: float  # a key, of large sets
    base: float
    bend: float
    bend_keys: float
    most_fill: float


_FITS = {
    3: _Fit(3.33, 2.25, 1.125, 0.875, 0.25, 1_000_000, 0.90),
    4: _Fit(2.91, -0.5, 1.075, 0.77, 0.305, 600_000, 0.95),
}
_SMALL_SET = 100_000
_SMALL_FILL = 0.96  # of the safe fill


def fingerprint_bits(fpr: float) -> int:
    """Return the least width w with 2^-w <= *fpr*, 1 to 32.

    Raises:
        ParameterError: *fpr* is below 2^-32 = 2.33e-10.
    """
    fpr = check_fpr(fpr)
    width = 1
    while 2.0**-width > fpr:
        width += 1
    if width > MAX_FINGERPRINT_BITS:
        rule = "at least 2.33e-10 (2**-32) for kind fuse"
        raise ParameterError("fpr", rule, fpr, "a Bloom filter goes down to 1e-12")
    return width


def check_fuse_layout(layout: object) -> str:
    """Return "fuse3" or "fuse4"; "auto" is the first."""
    if not isinstance(layout, str):
        raise ParameterTypeError("layout", "a str", layout)
    if layout not in ("auto", *LAYOUTS):
        raise ParameterError("layout", f"auto, {' or '.join(LAYOUTS)} for kind fuse", layout)
    return LAYOUTS[0] if layout == "auto" else layout


def num_shards_for(num_keys: int) -> int:
    """Return the number of shards of *num_keys* keys: a power of two, 0 for none."""
    shards = -(-num_keys // MOST_SHARD_KEYS)
    return 1 << (shards - 1).bit_length() if shards else 0


def fuse_shape_for(shard_keys: int, num_shards: int, fpr: float, layout: str) -> FuseShape:
    """Return the shape of a payload whose largest shard has *shard_keys* keys."""
    arity, width = ARITIES[check_fuse_layout(layout)], fingerprint_bits(fpr)
    if not num_shards:
        return FuseShape(arity, width, 0, 0, 0)
    fit, log_keys = _FITS[arity], math.log(max(2, shard_keys))
    doublings = math.floor(log_keys / math.log(fit.growth) + fit.offset)
    segment = min(max(_LEAST_SEGMENT_SLOTS, 1 << max(0, doublings)), MAX_SEGMENT_SLOTS)
    a_key = max(fit.least_slots, fit.base + fit.bend * math.log(fit.bend_keys) / log_keys)
    fill = fit.most_fill * (_SMALL_FILL if shard_keys < _SMALL_SET else 1)
    starts = math.ceil(shard_keys / (fill * segment))
    segments = max(arity, math.ceil(a_key * shard_keys / segment), starts + arity - 1)
    return FuseShape(arity, width, segment, segments, num_shards)


def plan_fuse(capacity: int, fpr: float, layout: str = "auto") -> FuseShape:
    """Return the shape to expect for *capacity* keys: four sigma for the largest shard.

    Args:
        capacity: distinct keys, 1 to 2**48.
        fpr: 2**-32 <= fpr < 1.
        layout: "fuse3", "fuse4", or "auto", which is "fuse3".

    Raises:
        ParameterError, ParameterTypeError: naming the parameter. More than 2**53 bits are refused.
    """
    capacity = check_capacity(capacity)
    shards = num_shards_for(capacity)
    mean = capacity / shards
    largest = capacity if shards == 1 else math.ceil(mean + 4 * math.sqrt(mean))
    shape = fuse_shape_for(largest, shards, fpr, layout)
    if shape.num_bits > MAX_NUM_BITS:
        rule = f"few enough keys for 2**53 bits (1 PiB) at fpr {fpr:g}"
        raise ParameterError("capacity", rule, capacity, f"it takes {shape.num_bits:.3g}")
    return shape
