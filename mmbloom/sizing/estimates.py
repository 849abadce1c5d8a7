"""Estimates from a filled payload: how many keys it holds, and its current fpr.

The formulas take counts of set bits, which the engine provides. The expected fpr for a capacity is
in ``bloom.py``. A union is a payload like any other, so the same formulas apply to it.
"""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING

from mmbloom.errors import ParameterError
from mmbloom.format.fields import LINE_BITS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mmbloom.sizing.bloom import BloomGeometry


def estimate_keys(geometry: BloomGeometry, set_bits: Sequence[int]) -> float:
    """Estimate how many distinct keys set these bits.

    Legend: N lines of B bits, k probes per key, n keys. A key selects one of the N lines and k bits
    of it. It leaves a given bit unset with probability 1 - q/N, where q = 1 - (1 - 1/B)^k. So n
    keys leave the share (1 - q/N)^n of all bits zero. The estimate is the n for which the expected
    number of zero bits equals the actual number. For `page`, each half has its own k, and the zero
    bits of both halves are added. The usual formula, -m/k ln(share), treats the probes of a key as
    independent: its result is too low by about (k - 1) / 2B, which is 0.6 % at k = 7.

    Validity: from 2000 keys on, unbiased to 0.1 %. The standard deviation is 0.5 % at 2000 keys and
    falls with the square root of the number of keys (tests/sizing/test_estimates.py). The formula
    also holds past the capacity, while there are zero bits. Without zero bits the result is a lower
    bound: the estimate for half a zero bit. Do not use it for an intersection: common bits do not
    mean common keys.

    Args:
        geometry: the geometry of the payload.
        set_bits: (all,), or for `page` (in lower halves, in upper halves); for `counters` the
            number of counters that are not zero.

    Returns:
        0.0 for an empty payload, otherwise at least 1.0.
    """
    if not any(set_bits):
        return 0.0
    if geometry.num_bits == 1:
        return 1.0  # every key sets the only bit
    geometry = geometry.flat
    k = geometry.num_probes
    line_bits = geometry.model.line_bits or geometry.num_bits
    num_lines = geometry.num_blocks * geometry.model.choices
    probes = [i for i in geometry.model.split(k) if i]  # a single one: upper halves are empty
    set_bits = set_bits[: len(probes)]
    bits_each = line_bits * num_lines
    zero_bits = max(bits_each * len(probes) - sum(set_bits), 0.5)
    q = [-math.expm1(i * math.log1p(-1 / line_bits)) for i in probes]
    return max(1.0, _solve([math.log1p(-i / num_lines) for i in q], zero_bits / bits_each))


def _solve(rates: Sequence[float], total: float) -> float:
    """Return the n with sum(exp(rate * n)) = total. All rates are negative.

    Newton's method on the logarithm of the sum. The logarithm is convex, so n approaches the
    solution from below. For a single rate it is linear, so the first round is exact. Two rates
    differ by a factor of at most 2, for which 8 rounds reach the precision of a float.
    """
    n = 0.0
    for _ in range(8):
        powers = [math.exp(rate * n) for rate in rates]
        slope = sum(rate * power for rate, power in zip(rates, powers, strict=True)) / sum(powers)
        n += (math.log(total) - math.log(sum(powers))) / slope
    return n


def power_table(num_probes: int, line_bits: int = LINE_BITS) -> list[float]:
    """Return (x / line_bits)^num_probes for x = 0..line_bits.

    This is the probability that all probes of a random key hit on a line with x set bits. It is
    computed by repeated multiplication, so that all engines and machines get identical sums.
    """
    table = []
    for set_bits in range(line_bits + 1):
        power = 1.0
        for _ in range(num_probes):
            power *= set_bits / line_bits
        table.append(power)
    return table


def fpr_from_line_histogram(geometry: BloomGeometry, histogram: Sequence[int]) -> float:
    """Return the fpr of this payload, exact for ideal probes and a random absent key.

    Such a key selects every line with the same probability, so the fpr of `line` is the mean of
    fill^k over all lines. That is up to 72 % more than (mean fill)^k, which is correct only for
    `classic`.

    Args:
        geometry: the geometry of the payload, in any layout except `page`.
        histogram: int[513], the number of 64-byte lines with x bits set, x = 0..512; for `narrow`
            int[129], the number of lines of 128 bits with x bits set, and for `counters` the number
            of lines of 128 counters with x counters that are not zero.

    Raises:
        ParameterError: the layout is `page`; its fpr depends on which lines share a page.
    """
    geometry = geometry.flat
    if geometry.model.num_halves > 1:
        hint = "for page, take the mean over all pages of the product of the halves' mean powers"
        raise ParameterError("layout", "any layout except page", geometry.layout, hint)
    if not geometry.model.line_bits:
        set_bits = sum(x * num_lines for x, num_lines in enumerate(histogram))
        return math.pow(set_bits / geometry.num_bits, geometry.num_probes)
    hits = power_table(geometry.num_probes, geometry.block_bits)
    return math.fsum(map(operator.mul, histogram, hits)) / geometry.num_blocks
