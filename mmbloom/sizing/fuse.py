"""Sizing of fuse filters: from a false-positive rate and a number of keys to a shape.

A fingerprint of w bits gives the rate 2^-w for any keys. The number of slots that n keys need, so
that peeling removes all of them, depends on two things:

- In a long row of segments, peeling succeeds below a threshold of 0.918 keys per slot (3 slots per
  key) or 0.977 (4 slots per key): the thresholds of spatial coupling (Walzer, ESA 2021). The fill,
  n / (slots in which a key can start), must stay below it.
- Small sets vary more. The formulas for slots and segments are those of Graf and Lemire (2022,
  section 4), which were fitted to sets of any size. Alone they give too few slots to a set that has
  just enough keys for the next segment size: up to half of the sets of 11 480 to 11 521 keys cannot
  be built. The limit on the fill fixes that.

If a set still cannot be built, the builder adds a segment.
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
# Shards of 2 to 4 million keys: two need less than 256 MiB of scratch memory, and the construction
# of one works in a window that fits into a cache.
MOST_SHARD_KEYS = 1 << 22
MAX_SHARD_KEYS = (1 << 24) - 1  # the engine numbers them with 24 bits
_LEAST_SEGMENT_SLOTS = 4


class _Fit(NamedTuple):
    """The constants in the formulas of Graf and Lemire for one arity, and the safe fill."""

    growth: float  # segments double about each time the number of keys grows by this factor
    offset: float
    least_slots: float  # slots per key of large sets
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
    """Return the smallest width w with 2^-w <= *fpr*, from 1 to 32.

    Raises:
        ParameterError: *fpr* is below 2^-32 = 2.33e-10.
    """
    fpr = check_fpr(fpr)
    width = 1
    while 2.0**-width > fpr:
        width += 1
    if width > MAX_FINGERPRINT_BITS:
        rule = "at least 2.33e-10 (2**-32) for kind fuse"
        raise ParameterError("fpr", rule, fpr, "a Bloom filter supports 1e-12")
    return width


def check_fuse_layout(layout: object) -> str:
    """Return "fuse3" or "fuse4"; "auto" gives "fuse3"."""
    if not isinstance(layout, str):
        raise ParameterTypeError("layout", "a str", layout)
    if layout not in ("auto", *LAYOUTS):
        raise ParameterError("layout", f"auto, {' or '.join(LAYOUTS)} for kind fuse", layout)
    return LAYOUTS[0] if layout == "auto" else layout


def num_shards_for(num_keys: int) -> int:
    """Return the number of shards for *num_keys* keys: a power of two, or 0 without keys."""
    shards = -(-num_keys // MOST_SHARD_KEYS)
    return 1 << (shards - 1).bit_length() if shards else 0


def fuse_shape_for(shard_keys: int, num_shards: int, fpr: float, layout: str) -> FuseShape:
    """Return the shape of a payload whose largest shard has n = *shard_keys* keys.

    With the constants of the arity k (see _Fit), by Graf and Lemire (2022, section 4):

        segment_slots = 2^floor(ln n / ln growth + offset), but 4 to 2^18
        slots         = n * max(least_slots, base + bend * ln bend_keys / ln n)

    num_segments is the smallest number with room for these slots, with n / (fill * segment_slots)
    segments in which a key can start, and with at least k segments.
    """
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
    """Return the expected shape for *capacity* keys, of which the shards get random shares.

    The largest shard is taken to have its mean number of keys plus four standard deviations.

    Args:
        capacity: distinct keys, 1 to 2**48.
        fpr: 2**-32 <= fpr < 1.
        layout: "fuse3", "fuse4", or "auto", which is "fuse3".

    Raises:
        ParameterError, ParameterTypeError: naming the parameter; also if it would take more than
            2**53 bits.
    """
    capacity = check_capacity(capacity)
    shards = num_shards_for(capacity)
    mean = capacity / shards
    largest = capacity if shards == 1 else math.ceil(mean + 4 * math.sqrt(mean))
    shape = fuse_shape_for(largest, shards, fpr, layout)
    if shape.num_bits > MAX_NUM_BITS:
        rule = f"at most 2**53 bits (1 PiB) at fpr {fpr:g}"
        raise ParameterError("capacity", rule, capacity, f"it takes {shape.num_bits:.3g} bits")
    return shape
