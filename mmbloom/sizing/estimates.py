"""Estimates from a filled payload: how many keys it holds, and the fpr it has now.

Lives here: the formulas, on counts of set bits. Not here: counting them (the engine), the fpr to
expect of a capacity (``sizing.py``). A union is a payload like any other: the same calls estimate
its keys and its fpr.
"""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING

from mmbloom.errors import ParameterError
from mmbloom.format.fields import BLOCK_BITS as LINE_BITS
from mmbloom.sizing.bloom import LINES_PER_HALF

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mmbloom.sizing.bloom import Geometry


def estimate_keys(geometry: Geometry, set_bits: Sequence[int]) -> float:
    """Estimate how many distinct keys set these bits.

    A key falls on one of N lines of B bits and throws k, so it spares a given bit with chance
    1 - q/N, q = 1 - (1 - 1/B)^k, and n keys leave the share (1 - q/N)^n of the bits zero. The
    estimate is the n whose expected number of zero bits is the number found. The halves of a
    `page` have a k each; their zero bits are taken together. The usual formula, -m/k ln(share),
    takes the throws of a key as independent: it is low by about (k - 1) / 2B, 0.6 % at k = 7.

    Validity: unbiased to 0.1 % from 2000 keys on, scatter 0.5 % at 2000 keys and falling with the
    square root (tests/sizing/test_estimates.py). With no zero bit left it is a floor: the estimate
    for half a zero bit. Past capacity it holds until then. Not for an intersection: bits in common
    are not keys in common.

    Args:
        geometry: of the payload.
        set_bits: (all,), or for `page` (in lower halves, in upper halves); for `counters` those
            that are not zero.

    Returns:
        0.0 for an empty payload, else at least 1.0.
    """
    if not any(set_bits):
        return 0.0
    if geometry.num_bits == 1:
        return 1.0  # every key sets the only bit
    geometry = geometry.flat
    k = geometry.num_probes
    line_bits, num_lines, probes = geometry.block_bits, geometry.num_blocks, [k]
    if geometry.layout == "page":
        line_bits, num_lines, probes = LINE_BITS, num_lines * LINES_PER_HALF, [k - k // 2, k // 2]
    if not probes[-1]:  # one probe: the upper halves stay empty and say nothing
        probes, set_bits = probes[:1], set_bits[:1]
    bits_each = line_bits * num_lines
    zero_bits = max(bits_each * len(probes) - sum(set_bits), 0.5)
    q = [-math.expm1(i * math.log1p(-1 / line_bits)) for i in probes]
    return max(1.0, _solve([math.log1p(-i / num_lines) for i in q], zero_bits / bits_each))


def _solve(rates: Sequence[float], total: float) -> float:
    """Return the n with sum(exp(rate * n)) = total, all rates being negative.

    Newton on the logarithm of the sum, which is convex, so n closes in from below, and straight for
    one rate: then the first round is exact. Rates of two halves differ by a factor of 2 at most;
    8 rounds then leave nothing to a float.
    """
    n = 0.0
    for _ in range(8):
        powers = [math.exp(rate * n) for rate in rates]
        slope = sum(rate * power for rate, power in zip(rates, powers, strict=True)) / sum(powers)
        n += (math.log(total) - math.log(sum(powers))) / slope
    return n


def power_table(num_probes: int, line_bits: int = LINE_BITS) -> list[float]:
    """Return (x/line_bits)^num_probes for x = 0..line_bits: the chance that a line's probes hit.

    By repeated multiplication, so that engines and machines agree in every bit of the sums.
    """
    table = []
    for set_bits in range(line_bits + 1):
        power = 1.0
        for _ in range(num_probes):
            power *= set_bits / line_bits
        table.append(power)
    return table


def fpr_from_line_histogram(geometry: Geometry, histogram: Sequence[int]) -> float:
    """Return the fpr of this payload: exact for ideal probes and a key drawn at random.

    An absent key meets every line alike, so the fpr of `line` is the mean over lines of fill^k,
    up to 72 % above (mean fill)^k, which is right for `classic` alone.

    Args:
        geometry: of the payload; any but `page`.
        histogram: int[513], how many 64-byte lines have x bits set, x = 0..512; for `narrow` and
            `counters` int[129], how many lines of 128 places have x of them set.

    Raises:
        ParameterError: `page`, whose fpr depends on which lines share a page.
    """
    if geometry.layout == "page":
        hint = "for page, average over pages the product of its halves' mean powers"
        raise ParameterError("layout", "any but page", geometry.layout, hint)
    geometry = geometry.flat
    if geometry.layout == "classic":
        set_bits = sum(x * num_lines for x, num_lines in enumerate(histogram))
        return math.pow(set_bits / geometry.num_bits, geometry.num_probes)
    hits = power_table(geometry.num_probes, geometry.block_bits)
    return math.fsum(map(operator.mul, histogram, hits)) / geometry.num_blocks
