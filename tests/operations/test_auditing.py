"""Rates measured with keys that are no members."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
from filter_files import NEVER, keys

import mmbloom
from mmbloom import (
    AuditReport,
    BloomFilter,
    ClosedError,
    KeyValueError,
    ParameterError,
    ParameterTypeError,
    RandomKeys,
    SourceError,
)
from mmbloom.operations.auditing import wilson_interval

if TYPE_CHECKING:
    from collections.abc import Iterator

CAPACITY = 3000


@pytest.fixture
def full(layout: str) -> Iterator[BloomFilter]:
    """Return a filter with all the keys that it was made for."""
    with BloomFilter.in_memory(capacity=CAPACITY, fpr=0.02, layout=layout) as found:
        found.update(keys(CAPACITY))
        yield found


@pytest.mark.parametrize(
    ("successes", "trials", "low", "high"),
    [
        # Newcombe, Statistics in Medicine 17 (1998), table I, method 3: Wilson, 95 %.
        pytest.param(81, 263, 0.2553, 0.3662, id="81-of-263"),
        pytest.param(15, 148, 0.0624, 0.1605, id="15-of-148"),
        pytest.param(0, 20, 0.0, 0.1611, id="0-of-20"),
        pytest.param(1, 29, 0.0061, 0.1718, id="1-of-29"),
    ],
)
def test_the_interval_is_wilsons(successes: int, trials: int, low: float, high: float) -> None:
    """As published, to the four digits that were."""
    found = wilson_interval(successes, trials, 1.959963984540054)

    assert found == pytest.approx((low, high), abs=0.00005)


@pytest.mark.parametrize(("successes", "trials"), [(0, 7), (3, 7), (7, 7), (1, 10**9)])
def test_the_ends_of_the_interval_are_rates_that_are_so_many_sigma_away(
    successes: int, trials: int
) -> None:
    """The definition; and the interval stays within 0 to 1 and holds what was found."""
    share = successes / trials
    low, high = wilson_interval(successes, trials, 3.0)

    assert 0 <= low <= share <= high <= 1
    for end in (low, high):
        sigmas = abs(share - end) / math.sqrt(end * (1 - end) / trials) if 0 < end < 1 else 3.0
        assert sigmas == pytest.approx(3.0)


def test_an_audit_measures_what_the_bits_say(full: BloomFilter) -> None:
    """20 000 keys at 2 %: within 4 sigma of the exact rate, which is about the target."""
    report = mmbloom.audit(full, keys(20_000, start=CAPACITY))

    sigma = math.sqrt(20_000 * report.expected * (1 - report.expected))
    assert abs(report.maybes - 20_000 * report.expected) <= 4 * sigma
    assert report.measured_fpr == report.maybes / 20_000
    assert (report.looked_up, report.repeated) == (20_000, 0)
    assert report.low < report.measured_fpr < report.high
    assert (report.target, report.expected) == (0.02, full.expected_fpr())
    assert (report.confidence, report.likely_members) == (0.95, 0)
    assert report.maybes == full.contains_many(keys(20_000, start=CAPACITY)).sum()


def test_a_key_that_is_there_several_times_counts_once(full: BloomFilter) -> None:
    """One false positive repeated a thousand times would look like a thousand."""
    others = keys(2000, start=CAPACITY)
    false = next(key for key in others if key in full)

    once = mmbloom.audit(full, others)
    often = mmbloom.audit(full, [*others, *[false] * 1000])

    assert often == once._replace(repeated=1000)


def test_members_among_the_keys_are_noticed(full: BloomFilter) -> None:
    """The set bits explain the rate of other keys exactly, so the rest must be members."""
    report = mmbloom.audit(full, keys(4000, start=CAPACITY - 500))

    sigma = math.sqrt(3500 * report.expected)
    assert report.likely_members == pytest.approx(500, abs=4 * sigma)
    assert not report.passed
    itself = mmbloom.audit(full, keys(CAPACITY))
    assert (itself.maybes, itself.likely_members) == (CAPACITY, CAPACITY)


def test_a_filter_past_its_capacity_fails(layout: str) -> None:
    """Its rate is above the target, and the bits know it: there are no members to blame."""
    with BloomFilter.in_memory(capacity=9000, fpr=0.01, layout=layout, overfill=True) as found:
        found.update(keys(18_000))
        report = mmbloom.audit(found, RandomKeys(20_000))

    assert report.low > 0.01
    assert not report.passed
    assert report.likely_members == 0
    assert report.expected > 0.01


def test_a_higher_confidence_gives_a_wider_interval(full: BloomFilter) -> None:
    """And the report says which."""
    reports = [mmbloom.audit(full, keys(500, 5000), confidence=c) for c in (0.5, 0.95, 0.999)]

    widths = [report.high - report.low for report in reports]
    assert widths == sorted(widths)
    assert [report.confidence for report in reports] == [0.5, 0.95, 0.999]


def test_the_target_is_refuted_only_by_an_interval_above_it() -> None:
    """A rate below the target is no fault."""
    report = AuditReport(100, 0, 0, 0.0, 0.0, 0.04, 0.95, target=0.01, expected=0.0)

    assert report.passed
    assert report._replace(low=0.01).passed
    assert not report._replace(low=0.0101).passed


def test_random_keys_are_the_same_for_one_seed() -> None:
    """And others for another; they are no members of anything."""
    with BloomFilter.in_memory(capacity=3000, fpr=NEVER) as found:
        assert not found.contains_many(RandomKeys(1000)).any()
        assert found.update(RandomKeys(1000)) == 1000
        assert found.contains_many(RandomKeys(1000, seed=0)).all()
        assert not found.contains_many(RandomKeys(1000, seed=1)).any()
        report = mmbloom.audit(found, RandomKeys(2000, seed=2))
        assert (report.looked_up, report.maybes, report.repeated) == (2000, 0, 0)
        assert len(RandomKeys(7)) == 7


def test_random_keys_of_a_filter_of_digests_are_digests(tmp_path: str) -> None:
    """The same bytes, in hexadecimal."""
    with mmbloom.build(f"{tmp_path}/a.mmb", ["ab"], fpr=0.01, key_form="hex") as found:
        assert mmbloom.audit(found, RandomKeys(100, key_form="hex")).looked_up == 100
        with pytest.raises(KeyValueError):
            mmbloom.audit(found, RandomKeys(100))


def test_any_batch_of_keys_will_do_and_progress_is_told(
    full: BloomFilter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here of NumPy, in pieces of 1000."""
    monkeypatch.setattr("mmbloom.keys.batches.PIECE_KEYS", 1000)
    monkeypatch.setattr("mmbloom.storage.progress._PAUSE_SECONDS", -1.0)
    told: list[int] = []

    report = mmbloom.audit(full, np.arange(2005), progress=lambda at: told.append(at.done))

    assert told == [1000, 2000, 2005, 2005]
    assert report.looked_up == 2005


@pytest.mark.parametrize("confidence", [0, 1, -0.5, 95, math.nan, 1 - 1e-17])
def test_a_confidence_that_is_no_chance_is_refused(confidence: float) -> None:
    """Before a key is read."""
    with BloomFilter.in_memory(capacity=10, fpr=0.1) as found:
        with pytest.raises(ParameterError, match="confidence: expected 0 < confidence < 1"):
            mmbloom.audit(found, iter([3]), confidence=confidence)
        with pytest.raises(ParameterTypeError, match="confidence"):
            mmbloom.audit(found, ["ada"], confidence="high")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "error"),
    [
        pytest.param({"num_keys": 0}, ParameterError, id="none"),
        pytest.param({"num_keys": 1.0}, ParameterTypeError, id="float"),
        pytest.param({"num_keys": 1, "seed": -1}, ParameterError, id="negative-seed"),
        pytest.param({"num_keys": 1, "seed": "0"}, ParameterTypeError, id="seed-of-text"),
        pytest.param({"num_keys": 1, "key_form": "url"}, ParameterError, id="no-key-form"),
    ],
)
def test_random_keys_that_cannot_be_are_refused(
    given: dict[str, object], error: type[Exception]
) -> None:
    """Where they are described."""
    with pytest.raises(error, match=list(given)[-1]):
        RandomKeys(**given)  # type: ignore[arg-type]


def test_no_keys_are_no_audit() -> None:
    """0 of 0 is no rate."""
    with BloomFilter.in_memory(capacity=10, fpr=0.1) as found, pytest.raises(SourceError):
        mmbloom.audit(found, [])


def test_a_closed_filter_says_so() -> None:
    """As look-ups do."""
    found = BloomFilter.in_memory(capacity=10, fpr=0.1)
    found.close()

    with pytest.raises(ClosedError):
        mmbloom.audit(found, ["ada"])
