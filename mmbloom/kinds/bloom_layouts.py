"""The layouts of Bloom filters, plain and counting: how a payload of each is counted and rated.

The engine counts bits, ``sizing.estimates`` has the formulas. A payload is counted in blocks of
BLOCK_BYTES, the last one possibly shorter, whether it lies in memory or goes by while it is
written, so that a rate is the same to the last digit whichever way it was counted.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from functools import cache
from typing import TYPE_CHECKING

from mmbloom.engine import (
    counter_histogram,
    line_histogram,
    narrow_histogram,
    page_fill,
    page_halves,
    popcount,
)
from mmbloom.kinds import forecasts
from mmbloom.kinds.kind import Counts, blocks_of
from mmbloom.sizing import estimates

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mmbloom.sizing.bloom import BloomGeometry


class Layout(ABC):
    """One layout: where the probes of a key lie, and so what the set bits tell."""

    @abstractmethod
    def count(self, geometry: BloomGeometry, block: memoryview) -> Counts:
        """Count one block of BLOCK_BYTES, or the last of a payload. Releases the GIL."""

    def places(self, part: memoryview) -> tuple[int, ...]:
        """Count what is set in a part of a payload, as estimate_keys() takes it."""
        return (popcount(part),)

    @abstractmethod
    def fpr(self, geometry: BloomGeometry, counts: Counts) -> float:
        """Return the chance that an absent key is answered "maybe": exact for this payload."""

    @abstractmethod
    def forecast(self, geometry: BloomGeometry, payload: memoryview, num_keys: int) -> float:
        """Return that chance once *num_keys* more keys are in, num_keys > 0."""


class Classic(Layout):
    """Probes anywhere in the payload."""

    def count(self, geometry: BloomGeometry, block: memoryview) -> Counts:  # noqa: ARG002 - one shape
        """Count the set bits."""
        return Counts(self.places(block))

    def fpr(self, geometry: BloomGeometry, counts: Counts) -> float:
        """Return fill^k."""
        return float((counts.total / geometry.num_bits) ** geometry.num_probes)

    def forecast(self, geometry: BloomGeometry, payload: memoryview, num_keys: int) -> float:
        """Take the payload as one line."""
        return forecasts.chances(geometry, num_keys, [popcount(payload)])[0]


class Lines(Layout):
    """All probes of a key in one line of the payload."""

    def __init__(self, histogram_of: Callable[[memoryview], Sequence[int]]) -> None:
        """Count lines with *histogram_of*: how many have x places set."""
        self._histogram_of = histogram_of

    def count(self, geometry: BloomGeometry, block: memoryview) -> Counts:  # noqa: ARG002 - one shape
        """Count lines by the places set in them."""
        histogram = self._histogram_of(block)
        return Counts((_set_places(histogram),), histogram)

    def fpr(self, geometry: BloomGeometry, counts: Counts) -> float:
        """Return the mean over lines of fill^k."""
        return estimates.fpr_from_line_histogram(geometry, counts.histogram)

    def forecast(self, geometry: BloomGeometry, payload: memoryview, num_keys: int) -> float:
        """Average over the lines of the payload."""
        lines = [*map(sum, zip(*map(self._histogram_of, blocks_of(payload)), strict=True))]
        return forecasts.lines_fpr(geometry.flat, lines, num_keys)


class Counters(Lines):
    """A counter of four bits for each bit of a line of 128."""

    def __init__(self) -> None:
        """Count counters that are not zero."""
        super().__init__(lambda block: counter_histogram(block)[0])

    def count(self, geometry: BloomGeometry, block: memoryview) -> Counts:  # noqa: ARG002 - one shape
        """Count full counters too."""
        histogram, num_saturated = counter_histogram(block)
        return Counts((_set_places(histogram),), histogram, num_saturated=num_saturated)

    def places(self, part: memoryview) -> tuple[int, ...]:
        """Count counters that are not zero."""
        return (_set_places(self._histogram_of(part)),)


class Pages(Layout):
    """Half of the probes in one line of the lower half of a page, half in one of the upper."""

    def count(self, geometry: BloomGeometry, block: memoryview) -> Counts:
        """Count the bits of both halves, and the chances of the pages."""
        k = geometry.num_probes
        fill = page_fill(block, _powers((k + 1) // 2), _powers(k // 2))
        return Counts(page_halves(block), fills=(fill,))

    def places(self, part: memoryview) -> tuple[int, ...]:
        """Count the bits of the lower and of the upper halves."""
        return page_halves(part)

    def fpr(self, geometry: BloomGeometry, counts: Counts) -> float:
        """Return the mean over pages of the product of its halves' chances."""
        return math.fsum(counts.fills) / geometry.num_blocks

    def forecast(self, geometry: BloomGeometry, payload: memoryview, num_keys: int) -> float:
        """Average over the pages of the payload."""
        return forecasts.page_fpr(geometry, blocks_of(payload), num_keys)


LAYOUTS: dict[str, Layout] = {
    "classic": Classic(),
    "line": Lines(line_histogram),
    "page": Pages(),
    "narrow": Lines(narrow_histogram),
    "counters": Counters(),
}


def _set_places(histogram: Sequence[int]) -> int:
    return sum(x * lines for x, lines in enumerate(histogram))


@cache
def _powers(num_probes: int) -> tuple[float, ...]:
    return tuple(estimates.power_table(num_probes))
