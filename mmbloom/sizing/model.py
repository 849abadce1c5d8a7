"""The exact probability of "maybe" for a key that was never added, for ideal probes.

This module has the formula and its arithmetic; ``bloom.py`` applies it to the layouts.

A *line* of B bits receives t random bit settings (*throws*); a query tests k random bits of it. Let
S(k,j) be the Stirling numbers of the second kind and B_(j) = B(B-1)...(B-j+1). The k tests select j
distinct bits with probability S(k,j) B_(j) / B^k, and j given bits are all set with probability
sum_l (-1)^l C(j,l) (1 - l/B)^t. The sum over j is sum_l c_l (1 - l/B)^t with exact c_l. A key makes
its k throws if it selects the line. Keys are independent, so (1 - l/B)^t becomes the n-th power of
the mean for one key:

    one of N lines  sum_l c_l (1 - q_l / N)^n  where q_l = 1 - (1 - l/B)^k

    two lines of    sum_l sum_j c_l c'_j (1 - (1 - (1 - s q_l)(1 - s q'_j)) / N)^n
    one of N blocks     k tests go to one line and k' to the other; a key that selects the block
                        selects each of these lines independently with probability s

The formula uses no Poisson limit and no expansion. It holds from 1 key on, and takes into account
that the load of a block varies as a whole. Sources: Bose et al., IPL 2008 (the exact rate of one
line); Putze, Sanders, Singler, WEA 2007 (blocks). tests/sizing/test_sizing_bloom.py compares it
with a count of all outcomes and with simulation.
"""

from __future__ import annotations

import math
from decimal import ROUND_HALF_EVEN, Context, Decimal, localcontext
from functools import cache, lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def chance(  # noqa: PLR0913 - the letters of the formula
    *,
    line_bits: int,
    probes: tuple[int, int],
    choices: int,
    num_blocks: int,
    num_keys: int,
    leading_zeros: int,
) -> Decimal:
    """Evaluate the second sum. The first sum is its special case k' = 0, s = 1.

    Args:
        line_bits: B.
        probes: (k, k').
        choices: 1 / s.
        num_blocks: N.
        num_keys: n >= 1.
        leading_zeros: the result has 17 exact digits if it has at most this many zeros after the
            decimal point. A smaller result has an absolute error of 10^-(leading_zeros + 17), and
            may be negative.

    Cost: (k + 1)(k' + 1) powers of 3 to 20 us each, half of them if k = k'.
    """
    # The absolute values of the c_l sum to 2^k, and an n-th power multiplies the relative error of
    # its base by k n. A bit is 1/3 of a decimal digit.
    bits_lost = sum(probes) + sum(probes).bit_length() + num_keys.bit_length()
    digits = 22 + leading_zeros + bits_lost // 3
    with localcontext(_exact(digits)):
        share = 1 / Decimal(choices)
        first = _terms(line_bits, probes[0], share, digits)
        second = _terms(line_bits, probes[1], share, digits)
        mirrored = first is second  # terms (i, j) and (j, i) are equal: compute one, count it twice
        total = Decimal(0)
        for i, (weight, kept) in enumerate(first):
            for j, (other_weight, other_kept) in enumerate(second[: i + 1] if mirrored else second):
                times = 2 if mirrored and j < i else 1
                one_key = 1 - (1 - kept * other_kept) / num_blocks
                total += times * weight * other_weight * one_key**num_keys
        return total


def later_chances(  # noqa: PLR0913 - the letters of the formula
    *,
    line_bits: int,
    num_probes: int,
    num_lines: int,
    num_keys: float,
    fills: Iterable[int],
    leading_zeros: int,
) -> list[Decimal]:
    """Evaluate the first sum for a line that already has bits set, after n more keys.

    If x random bits of its B bits are set, l given bits are clear with probability
    u_l(x) = (B-x)_(l) / B_(l). More keys are independent of these bits, so the l bits are still
    clear after n more keys with probability u_l(x) (1 - q_l / N)^n. The sum becomes
    sum_l c_l u_l(x) (1 - q_l / N)^n. For n = 0 this is (x/B)^k; for x = 0 it is chance().

    Args:
        line_bits: B.
        num_probes: k.
        num_lines: N; a key selects one of them.
        num_keys: n > 0; a fractional n interpolates.
        fills: every x to evaluate.
        leading_zeros: as in chance().

    Cost: 1 us for each pair of x and l.
    """
    bits_lost = num_probes + num_probes.bit_length() + int(num_keys).bit_length()
    digits = 22 + leading_zeros + bits_lost // 3
    with localcontext(_exact(digits)):
        terms = _terms(line_bits, num_probes, 1 / Decimal(num_lines), digits)
        factors = [weight * kept ** Decimal(num_keys) for weight, kept in terms]
        chances = []
        for x in fills:
            clear, total = Decimal(1), Decimal(0)
            for l, factor in enumerate(factors):  # noqa: E741 - the l of the formula
                total += factor * clear
                if l < line_bits:
                    clear = clear * max(0, line_bits - x - l) / (line_bits - l)
            chances.append(total)
        return chances


def _exact(digits: int) -> Context:
    # All settings are given, because a caller may have changed the defaults of `decimal`.
    return Context(prec=digits, rounding=ROUND_HALF_EVEN, Emin=-999999, Emax=999999, traps=[])


@lru_cache(maxsize=256)  # line and page always use 512 bits, classic a new size each time
def _terms(
    line_bits: int, num_probes: int, share: Decimal, digits: int
) -> tuple[tuple[Decimal, Decimal], ...]:
    """Return the pairs (c_l, 1 - s q_l), l = 0 to k. Requires: a decimal context of *digits*."""
    weights = [Decimal(0)] * (num_probes + 1)
    falling = Decimal(line_bits) ** -num_probes  # B_(j) / B^k, for j = 0, 1, ...
    for j, stirling in enumerate(_stirling_row(num_probes)):
        met = stirling * falling  # the probability that the tests select j distinct bits
        if met and met.adjusted() >= -digits:  # on a large line nearly always j = k
            for l, ways in enumerate(_signed_binomials(j)):  # noqa: E741 - the l of the formula
                weights[l] += met * ways
        falling *= line_bits - j
    return tuple(
        (weight, 1 - share * (1 - (1 - Decimal(l) / line_bits) ** num_probes))
        for l, weight in enumerate(weights)  # noqa: E741 - as above
    )


@cache
def _stirling_row(k: int) -> tuple[int, ...]:
    """Return S(k, j) for j = 0..k: the number of ways to split k probes into j groups."""
    if k == 0:
        return (1,)
    above = (*_stirling_row(k - 1), 0)
    return tuple(above[j] * j + (above[j - 1] if j else 0) for j in range(k + 1))


@cache
def _signed_binomials(j: int) -> tuple[Decimal, ...]:
    """Return (-1)^l C(j, l) for l = 0..j."""
    return tuple(Decimal((-1) ** l * math.comb(j, l)) for l in range(j + 1))  # noqa: E741 - as above
