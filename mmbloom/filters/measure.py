"""Counts and rates of a payload: the engine counts bits, ``estimates`` says what they mean."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmbloom.engine import line_histogram, page_fill, page_halves, popcount
from mmbloom.filters import estimates

if TYPE_CHECKING:
    from mmbloom.filters.sizing import Geometry


def approx_keys(geometry: Geometry, payload: memoryview) -> float:
    """Estimate how many distinct keys set the bits of *payload*. Cost: one pass over it."""
    if geometry.layout == "page":
        return estimates.estimate_keys(geometry, page_halves(payload))
    return estimates.estimate_keys(geometry, (popcount(payload),))


def expected_fpr(geometry: Geometry, payload: memoryview) -> float:
    """Return the chance that a key never added is answered "maybe": exact for this payload. Cost: one pass over it."""
    if geometry.layout == "classic":
        return float((popcount(payload) / geometry.num_bits) ** geometry.num_probes)
    if geometry.layout == "line":
        return estimates.fpr_from_line_histogram(geometry, line_histogram(payload))
    lower = estimates.power_table((geometry.num_probes + 1) // 2)
    upper = estimates.power_table(geometry.num_probes // 2)
    return page_fill(payload, lower, upper) / geometry.num_blocks
