"""The search for the least number that passes, in few evaluations of something dear."""

from __future__ import annotations

import math
from itertools import count
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def least_passing(excess: Callable[[int], float], guess: int, slope: float) -> int:
    """Return the least n >= 1 with excess(n) <= 0, for excess falling about like -slope * log(n).

    A secant in log(n), kept between what failed and what passed: it ends when they are neighbours.
    """
    failed, passed = 0, 0  # no size yet that passed
    at, before = guess, (0, 0.0)
    for round_number in count():
        value = excess(at)
        failed, passed = (failed, at) if value <= 0 else (at, passed)
        if passed - failed == 1:
            break
        if before[0] and (before[1] - value) * (at - before[0]) > 0:
            slope = (before[1] - value) / math.log(at / before[0])
        before = at, value
        if round_number < 12:  # noqa: PLR2004 - seldom more than 6; then halve
            at = math.ceil(at * math.exp(min(max(value / slope, -1.4), 1.4)))
        else:
            at = (failed + passed) // 2 if passed else 2 * at
        at = max(at, failed + 1)
        at = min(at, passed - 1) if passed else at
    return passed
