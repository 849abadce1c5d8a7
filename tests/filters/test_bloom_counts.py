"""How many keys fit, how many are in, and what false positives that makes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest
from filter_files import NEVER, keys, payload_of

from mmbloom import BloomFilter, CapacityError

if TYPE_CHECKING:
    from collections.abc import Callable

    Make = Callable[..., BloomFilter]


@pytest.mark.parametrize("capacity", [1, 2, 100])
def test_as_many_keys_as_the_capacity_fit_and_the_next_changes_nothing(
    make: Make, capacity: int
) -> None:
    """Keys that are in are welcome still: nothing is new about them."""
    found = make(capacity=capacity, fpr=NEVER)
    for key in keys(capacity):
        assert found.add(key)
    before = payload_of(found)

    with pytest.raises(CapacityError) as caught:
        found.add("one too many")

    assert (caught.value.capacity, caught.value.num_added) == (capacity, 0)
    assert payload_of(found) == before
    assert found.keys_added == capacity
    assert "one too many" not in found
    assert found.add(keys(1)[0]) is False
    assert found.update(keys(capacity)) == 0


def test_a_batch_that_does_not_fit_is_added_up_to_the_first_key_without_room(make: Make) -> None:
    """As if its keys had been added one by one; the error says how many were."""
    found = make(capacity=10, fpr=NEVER)
    found.update(keys(4))

    with pytest.raises(CapacityError) as caught:
        found.update(keys(20))

    assert caught.value.num_added == 6
    assert found.contains_many(keys(20)).tolist() == [True] * 10 + [False] * 10
    assert found.keys_added == 10


def test_keys_that_collide_do_not_take_the_room_of_others(make: Make) -> None:
    """At a high rate many keys are false positives when added: all 1000 fit all the same."""
    found = make(capacity=1000, fpr=0.4)

    assert found.update(keys(1000)) <= 1000
    assert found.contains_many(keys(1000)).all()


def test_overfill_lets_more_in_and_expected_fpr_tells_the_truth(make: Make) -> None:
    """4000 absent keys at rate q: mean 4000 q, within five sigma; q is far above the target."""
    found = make(capacity=3000, fpr=0.01, overfill=True)
    found.update(keys(6000))
    rate = found.expected_fpr()

    maybes = int(found.contains_many(keys(4000, start=10_000)).sum())

    assert found.contains_many(keys(6000)).all()
    assert found.keys_added > found.capacity
    assert found.info()["overfill"] is True
    assert rate > 0.05
    assert abs(maybes - 4000 * rate) <= 5 * math.sqrt(4000 * rate * (1 - rate))


def test_an_empty_filter_says_no_to_everything(make: Make) -> None:
    """At any rate that may be asked for, also those above one half."""
    for fpr in (0.99, 0.6, 0.01):
        found = make(fpr=fpr)

        assert not found.contains_many(keys(100)).any()
        assert (found.keys_added, found.approx_count()) == (0, 0)
        assert (found.fill_ratio(), found.expected_fpr()) == (0.0, 0.0)


@pytest.mark.parametrize("share", [0.01, 0.1, 0.5, 1.0])
def test_the_keys_are_counted_from_the_bits_within_two_percent(make: Make, share: float) -> None:
    """Sigma at 20 000 keys and 1 % is 0.2 % when full, and less below."""
    num_keys = round(20_000 * share)
    found = make(capacity=20_000)
    found.update(keys(num_keys))

    assert found.approx_count() == pytest.approx(num_keys, rel=0.02, abs=2)
    assert found.keys_added == pytest.approx(num_keys, rel=0.005, abs=2)


def test_a_full_filter_has_the_rate_that_was_asked_for(make: Make) -> None:
    """10 000 absent keys at 0.01: mean 100, sigma 10, so at most 150; and expected_fpr agrees."""
    found = make(capacity=5000)
    found.update(keys(5000))

    maybes = int(found.contains_many(keys(10_000, start=50_000)).sum())

    assert maybes <= 150
    assert found.expected_fpr() == pytest.approx(0.01, rel=0.1)
    assert abs(maybes - 10_000 * found.expected_fpr()) <= 50


def _fill(payload: memoryview) -> None:
    payload[:] = b"\xff" * len(payload)


def test_a_saturated_filter_says_maybe_and_gives_defined_figures(make: Make) -> None:
    """Every bit is set: the rate is 1, and the count a floor instead of an error."""
    found = make(capacity=10, overfill=True)
    found._change_payload(_fill, 10, ())

    assert found.contains_many(keys(50)).all()
    assert (found.fill_ratio(), found.expected_fpr()) == (1.0, 1.0)
    assert found.approx_count() > found.capacity
    assert found.info()["fill_ratio"] == 1.0
    assert found.fill_by_region(4) == [1.0] * len(found.fill_by_region(4))
    assert found.add("new") is False


def test_the_fill_by_region_is_even(make: Make) -> None:
    """Its mean is the fill ratio; regions of 1/8 of 20 000 keys scatter by less than a tenth."""
    found = make(capacity=20_000)
    found.update(keys(20_000))

    regions = found.fill_by_region(8)

    assert len(regions) == 8
    assert sum(regions) / 8 == pytest.approx(found.fill_ratio(), rel=0.01)
    assert all(share == pytest.approx(found.fill_ratio(), rel=0.1) for share in regions)
