"""Counts and rates of a payload: the engine counts bits, ``estimates`` says what they mean.

A payload is counted in blocks of BLOCK_BYTES, the last one possibly shorter, whether it lies in
memory or goes by while it is written: so a rate does not depend on who took it, to the last digit.
"""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from mmbloom.engine import (
    counter_histogram,
    line_histogram,
    narrow_histogram,
    page_fill,
    page_halves,
    popcount,
)
from mmbloom.filters.shapes import fuse_fpr
from mmbloom.format.fuse import FuseShape
from mmbloom.sizing import estimates

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mmbloom.filters.shapes import Shape
    from mmbloom.sizing.bloom import Geometry

# FORMAT.md, "The rate that the set bits give". Whole pages, and a size that writes well.
BLOCK_BYTES = 8 << 20
_SIGMAS = 4  # one rebuilt count in 30 000 is too high, and then by a fraction of its scatter


class BlockCounts(NamedTuple):
    """What one block of a payload has."""

    set_bits: tuple[int, ...]  # (all,), or for `page` (in lower halves, in upper halves)
    histogram: Sequence[int]  # of layouts of lines: how many have x bits set; else empty
    fill: float  # `page`: the chances of its pages to answer "maybe", summed; else 0
    num_saturated: int = 0  # `counters`: how many are full


def count_block(geometry: Shape, block: memoryview) -> BlockCounts:
    """Count one block of BLOCK_BYTES, or the last of a payload. Releases the GIL; any thread."""
    if isinstance(geometry, FuseShape) or geometry.layout == "classic":
        return BlockCounts((popcount(block),), (), 0.0)
    if geometry.layout == "counters":
        counted, num_saturated = counter_histogram(block)
        return BlockCounts((_set_places(counted),), counted, 0.0, num_saturated)
    if geometry.layout != "page":
        histogram = fill_histogram(geometry, block)
        return BlockCounts((_set_places(histogram),), histogram, 0.0)
    k = geometry.num_probes
    fill = page_fill(block, _powers((k + 1) // 2), _powers(k // 2))
    return BlockCounts(page_halves(block), (), fill)


def fill_histogram(geometry: Geometry, block: memoryview) -> Sequence[int]:
    """Return how many lines have x places set, bits or counters above 0. For layouts of lines."""
    if geometry.layout == "line":
        return line_histogram(block)
    return counter_histogram(block)[0] if geometry.layout == "counters" else narrow_histogram(block)


def _set_places(histogram: Sequence[int]) -> int:
    return sum(x * lines for x, lines in enumerate(histogram))


def set_counters(payload: memoryview) -> int:
    """Return how many counters of layout `counters` are not zero. Cost: one pass over *payload*."""
    return _set_places(counter_histogram(payload)[0])


class PayloadCounts:
    """The counts of a payload, added up over its blocks.

    Attributes:
        num_saturated: counters that are full; 0 for other kinds.
    """

    def __init__(self, geometry: Shape) -> None:
        """Start with none of the blocks."""
        self._geometry = geometry
        has_halves = not isinstance(geometry, FuseShape) and geometry.layout == "page"
        self._set_bits: tuple[int, ...] = (0, 0) if has_halves else (0,)
        self._histogram: Sequence[int] = ()
        self._fills: list[float] = []
        self.num_saturated = 0

    def add(self, block: BlockCounts) -> None:
        """Add the next block."""
        self._set_bits = tuple(map(sum, zip(self._set_bits, block.set_bits, strict=True)))
        if self._histogram:
            self._histogram = list(map(sum, zip(self._histogram, block.histogram, strict=True)))
        else:
            self._histogram = block.histogram
        self._fills.append(block.fill)
        self.num_saturated += block.num_saturated

    @property
    def set_bits(self) -> tuple[int, ...]:
        """Set bits so far, as estimates.estimate_keys() takes them."""
        return self._set_bits

    def fpr(self) -> float:
        """Return the chance that a key never added is answered "maybe": exact for this payload."""
        if isinstance(self._geometry, FuseShape):
            return fuse_fpr(self._geometry)
        if self._geometry.layout == "classic":
            fill = self._set_bits[0] / self._geometry.num_bits
            return float(fill**self._geometry.num_probes)
        if self._geometry.layout == "page":
            return math.fsum(self._fills) / self._geometry.num_blocks
        return estimates.fpr_from_line_histogram(self._geometry, self._histogram)


def blocks_of(payload: memoryview) -> Iterator[memoryview]:
    """Yield the blocks of a payload, in order."""
    for start in range(0, len(payload), BLOCK_BYTES):
        yield payload[start : start + BLOCK_BYTES]


def expected_fpr(geometry: Shape, payload: memoryview) -> float:
    """Return the chance that a key never added is answered "maybe": exact for this payload.

    Cost: one pass over it.
    """
    counts = PayloadCounts(geometry)
    for block in blocks_of(payload):
        counts.add(count_block(geometry, block))
    return counts.fpr()


def approx_keys(geometry: Geometry, payload: memoryview) -> float:
    """Estimate how many distinct keys set the bits of *payload*. Cost: one pass over it."""
    return estimates.estimate_keys(geometry, set_bits(geometry, payload))


def set_bits(geometry: Geometry, payload: memoryview) -> tuple[int, ...]:
    """Count what is set as estimates.estimate_keys() takes it: (all,), or halves of pages."""
    if geometry.layout == "page":
        return page_halves(payload)
    return (set_counters(payload) if geometry.layout == "counters" else popcount(payload),)


def fewest_keys(geometry: Geometry, payload: memoryview) -> int:
    """Return a count of distinct keys that is not too high. Cost: one pass over the payload."""
    return least_of(geometry, approx_keys(geometry, payload))


def least_of(geometry: Geometry, keys: float) -> int:
    """Return what the estimate *keys* is at least: four sigma less.

    For counts that are to be compared with the capacity, of which a filter promises that it fits:
    a count too high would refuse keys for which there is room. With m bits, k probes, n keys and
    r = k n / m the number of zero bits has the variance m e^-2r (e^r - 1 - r), as in any occupancy
    problem, and one zero bit less is e^r / k keys more. Blocked layouts scatter a few percent more.
    """
    geometry = geometry.flat
    load = geometry.num_probes * keys / geometry.num_bits
    sigma = math.sqrt(geometry.num_bits * (math.expm1(load) - load)) / geometry.num_probes
    return max(0, round(keys - _SIGMAS * sigma))


@cache
def _powers(num_probes: int) -> tuple[float, ...]:
    return tuple(estimates.power_table(num_probes))
