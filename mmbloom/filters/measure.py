"""Counts and rates of a payload: the engine counts bits, ``estimates`` says what they mean."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from mmbloom.engine import line_histogram, page_fill, page_halves, popcount
from mmbloom.filters import estimates

if TYPE_CHECKING:
    from mmbloom.filters.sizing import Geometry

_SIGMAS = 4  # one rebuilt count in 30 000 is too high, and then by a fraction of its scatter


def approx_keys(geometry: Geometry, payload: memoryview) -> float:
    """Estimate how many distinct keys set the bits of *payload*. Cost: one pass over it."""
    if geometry.layout == "page":
        return estimates.estimate_keys(geometry, page_halves(payload))
    return estimates.estimate_keys(geometry, (popcount(payload),))


def fewest_keys(geometry: Geometry, payload: memoryview) -> int:
    """Return a count of distinct keys that is not too high: four sigma below the estimate.

    For counts that are to be compared with the capacity, of which a filter promises that it fits:
    a count too high would refuse keys for which there is room. With m bits, k probes, n keys and
    r = k n / m the number of zero bits has the variance m e^-2r (e^r - 1 - r), as in any occupancy
    problem, and one zero bit less is e^r / k keys more. Blocked layouts scatter a few percent more.

    Cost: one pass over the payload.
    """
    keys = approx_keys(geometry, payload)
    load = geometry.num_probes * keys / geometry.num_bits
    sigma = math.sqrt(geometry.num_bits * (math.expm1(load) - load)) / geometry.num_probes
    return max(0, round(keys - _SIGMAS * sigma))


def expected_fpr(geometry: Geometry, payload: memoryview) -> float:
    """Return the chance that a key never added is answered "maybe": exact for this payload.

    Cost: one pass over it.
    """
    if geometry.layout == "classic":
        return float((popcount(payload) / geometry.num_bits) ** geometry.num_probes)
    if geometry.layout == "line":
        return estimates.fpr_from_line_histogram(geometry, line_histogram(payload))
    lower = estimates.power_table((geometry.num_probes + 1) // 2)
    upper = estimates.power_table(geometry.num_probes // 2)
    return page_fill(payload, lower, upper) / geometry.num_blocks
