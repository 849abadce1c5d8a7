"""Audits: measure whether a filter has the false-positive rate that it was made for.

Keys that were never added are looked up. The share of them that is "maybe" is the rate, within an
interval that follows from their number.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from mmbloom.engine import RowsBatch
from mmbloom.errors import ParameterError, ParameterTypeError, SourceError
from mmbloom.filters.access import opened_now
from mmbloom.filters.lookup import answer_hashes
from mmbloom.format.fields import HASH, KEY_FORMS
from mmbloom.keys.pieces import PIECE_KEYS, Piece
from mmbloom.operations.distinct import DistinctHashes
from mmbloom.sizing.bloom import check_capacity
from mmbloom.storage.progress import Reporter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mmbloom.filters.filter import Filter
    from mmbloom.filters.opened import Opened
    from mmbloom.keys.pieces import Nulls
    from mmbloom.storage.progress import Progress

_RANDOM_KEY_BYTES = 16  # a random key is a member with chance n / 2^128
_LOOKED_UP_AT_ONCE = 1 << 20
_SURE_SIGMAS = 4.0  # one false alarm in 30 000


class AuditReport(NamedTuple):
    """What an audit found.

    Attributes:
        looked_up: distinct keys that were looked up.
        repeated: repetitions of keys, which are not looked up again.
        maybes: how many of the keys are "maybe".
        measured_fpr: maybes / looked_up.
        low: lower end of the confidence interval of the rate, and
        high: upper end.
        confidence: chance that such an interval contains the rate.
        target: the rate that the filter was made for.
        expected: the rate that its bytes give, expected_fpr().
    """

    looked_up: int
    repeated: int
    maybes: int
    measured_fpr: float
    low: float
    high: float
    confidence: float
    target: float
    expected: float

    @property
    def passed(self) -> bool:
        """Whether the interval does not lie above the target."""
        return self.low <= self.target

    @property
    def likely_members(self) -> int:
        """About how many of the keys must have been added; 0 if the set bits explain all answers.

        *expected* is exact for keys that were never added. A rate above it beyond chance (4 sigma)
        has no other cause, unless somebody chose keys that are false positives.
        """
        least, _ = wilson_interval(self.maybes, self.looked_up, _SURE_SIGMAS)
        if least <= self.expected:
            return 0
        false = self.expected * (self.looked_up - self.maybes) / (1 - self.expected)
        return max(1, round(self.maybes - false))


class RandomKeys:
    """Random keys of 16 bytes. The chance that one of them was added is about 2^-128.

    audit(), contains_many() and build() take them, repeatedly. Equal seeds give equal keys.
    """

    def __init__(self, num_keys: int, *, seed: int = 0, key_form: str = "raw") -> None:
        """Describe the keys, which are made when they are used.

        Args:
            num_keys: how many, 1 to 2**48.
            seed: of their generator, at least 0; not the seed of a filter.
            key_form: that of the filter to ask: with "hex" they are 32 hexadecimal digits.
        """
        self.num_keys = check_capacity(num_keys, "num_keys")
        if not isinstance(seed, int) or isinstance(seed, bool):
            raise ParameterTypeError("seed", "an int", seed)
        if seed < 0:
            raise ParameterError("seed", "at least 0", seed)
        if key_form not in KEY_FORMS:
            raise ParameterError("key_form", f"one of {', '.join(KEY_FORMS)}", key_form)
        self.seed, self.key_form = seed, key_form

    def __len__(self) -> int:
        """Return the number of keys."""
        return self.num_keys

    def __key_pieces__(self) -> Iterator[Piece]:
        """Yield the keys as pieces."""
        from random import Random  # loads hashlib, which takes long

        generator = Random(self.seed)  # noqa: S311 - nobody guesses these
        for first in range(0, self.num_keys, PIECE_KEYS):
            count = min(PIECE_KEYS, self.num_keys - first)
            data, width = generator.randbytes(_RANDOM_KEY_BYTES * count), _RANDOM_KEY_BYTES
            if self.key_form == "hex":
                data, width = data.hex().encode(), 2 * width
            yield Piece(RowsBatch(data, width, count, "bytes", first), count)


def audit(
    audited: Filter,
    negatives: object,
    *,
    confidence: float = 0.95,
    nulls: Nulls = "raise",
    progress: Callable[[Progress], object] | None = None,
) -> AuditReport:
    """Look up keys that were never added, and measure the false-positive rate.

    A repeated key counts once: its answer is always the same, and the interval assumes independent
    answers.

    Args:
        audited: the filter, of any kind.
        negatives: keys that were never added, as for contains_many(), or RandomKeys.
        confidence: of the interval, 0 < confidence < 1.
        nulls: as for contains_many(); skipped nulls do not count.
        progress: called with a Progress from this thread, at most every 0.1 s.

    Raises:
        SourceError: there are no keys.
        KeyTypeError, KeyValueError: a bad key. ParameterError: confidence.

    Cost: that of a batch of look-ups, and 32 bytes of memory for each key.
    """
    opened = opened_now(audited)  # all answers are those of one file
    sigmas = _sigmas_of(confidence)
    gathered, reporter = DistinctHashes(), Reporter(progress, "read", "keys")
    num_keys = gathered.take(negatives, opened.header, nulls, reporter)
    looked_up = len(gathered)
    if not looked_up:
        raise SourceError("no keys to audit with: give keys that are no members, or RandomKeys")
    maybes = _count_maybes(opened, memoryview(gathered.sorted()))
    low, high = wilson_interval(maybes, looked_up, sigmas)
    return AuditReport(
        looked_up=looked_up,
        repeated=num_keys - looked_up,
        maybes=maybes,
        measured_fpr=maybes / looked_up,
        low=low,
        high=high,
        confidence=confidence,
        target=opened.header.fpr,
        expected=opened.fpr(),
    )


def wilson_interval(successes: int, trials: int, sigmas: float) -> tuple[float, float]:
    """Return the interval of rates from which *successes* of *trials* are within *sigmas*.

    The rates p with |p' - p| <= z sqrt(p (1 - p) / n), p' being the share found and z the sigmas:
    a quadratic in p. Unlike p' +- z sqrt(p' (1 - p') / n) it has a width even if none was found.
    Source: Wilson 1927.
    """
    share, z2 = successes / trials, sigmas * sigmas
    middle = share + z2 / (2 * trials)
    half = sigmas * math.sqrt(share * (1 - share) / trials + z2 / (4 * trials * trials))
    scale = 1 + z2 / trials
    # At the ends the two terms are equal, but for the last digits.
    low = 0.0 if successes == 0 else (middle - half) / scale
    high = 1.0 if successes == trials else (middle + half) / scale
    return low, high


def _sigmas_of(confidence: float) -> float:
    from statistics import NormalDist  # loads fractions and decimal

    if isinstance(confidence, bool) or not isinstance(confidence, (int, float)):
        raise ParameterTypeError("confidence", "a float", confidence)
    upper = 0.5 + confidence / 2
    if not 0 < confidence < 1 or upper == 1:  # so near to 1 that it rounds to it
        raise ParameterError("confidence", "0 < confidence < 1", confidence)
    return NormalDist().inv_cdf(upper)


def _count_maybes(opened: Opened, hashes: memoryview) -> int:
    """Return how many of the hashes may be in."""
    answers = bytearray(min(_LOOKED_UP_AT_ONCE, len(hashes) // HASH.size))
    maybes = 0
    for start in range(0, len(hashes), HASH.size * _LOOKED_UP_AT_ONCE):
        some = hashes[start : start + HASH.size * _LOOKED_UP_AT_ONCE]
        count = len(some) // HASH.size
        answer_hashes(opened, some, memoryview(answers)[:count])
        maybes += answers.count(1, 0, count)
    return maybes
