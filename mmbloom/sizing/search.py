"""Search for the smallest number that passes a test, with few evaluations of an expensive test."""

from __future__ import annotations

import math
from itertools import count
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def least_passing(excess: Callable[[int], float], guess: int, slope: float) -> int:
    """Return the smallest n >= 1 with excess(n) <= 0.

    *excess* decreases, approximately like -slope * log(n). The search is a secant method in log(n),
    bounded by the largest n that failed and the smallest n that passed. It ends when these are
    neighbours.
    """
    failed, passed = 0, 0  # passed is 0 until a number has passed
    at, before = guess, (0, 0.0)
    for round_number in count():
        value = excess(at)
        failed, passed = (failed, at) if value <= 0 else (at, passed)
        if passed - failed == 1:
            break
        if before[0] and (before[1] - value) * (at - before[0]) > 0:
            slope = (before[1] - value) / math.log(at / before[0])
        before = at, value
        if round_number < 12:  # noqa: PLR2004 - rarely more than 6 rounds; bisect after 12
            at = math.ceil(at * math.exp(min(max(value / slope, -1.4), 1.4)))
        else:
            at = (failed + passed) // 2 if passed else 2 * at
        at = max(at, failed + 1)
        at = min(at, passed - 1) if passed else at
    return passed
