"""What only a counting filter can do: keys are removed, counted, and come to an end."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from filter_files import NEVER, keys, payload_of

import mmbloom
from mmbloom import (
    AbsentKeyError,
    BloomFilter,
    CapacityError,
    CountingBloomFilter,
    IncompatibleError,
    KeyTypeError,
    ParameterError,
    ParameterTypeError,
    ReadOnlyError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Make = Callable[..., CountingBloomFilter]


@pytest.fixture(params=["in memory", "in a file"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Make]:
    """Return a function that makes counting filters in one place; the end closes them."""
    made: list[CountingBloomFilter] = []

    def make_one(**given: object) -> CountingBloomFilter:
        parameters: Any = {"capacity": 1000, "fpr": 0.01} | given
        if request.param == "in memory":
            made.append(CountingBloomFilter.in_memory(**parameters))
        else:
            path = tmp_path / f"{len(made)}.mmb"
            made.append(CountingBloomFilter.create(path, **parameters))
        return made[-1]

    yield make_one
    for filter_ in made:
        filter_.close()


# ---- adding and removing -------------------------------------------------------------------------


def test_a_key_that_is_removed_is_gone(make: Make) -> None:
    """And the others are still there."""
    found = make(fpr=1e-6)
    found.update(keys(100))

    assert found.remove(keys(1)[0])
    assert keys(1)[0] not in found
    assert found.contains_many(keys(99, start=1)).all()
    assert found.keys_added == 99


def test_a_key_that_was_added_n_times_is_in_until_it_was_removed_n_times(make: Make) -> None:
    """Up to 14 times: 15 is where a counter ends."""
    found = make()
    for times in (1, 2, 14):
        assert [found.add("ada") for _ in range(times)] == [True] + [False] * (times - 1)
        assert found.count_estimate("ada") == times
        assert [found.remove("ada") for _ in range(times)] == [False] * (times - 1) + [True]
        assert "ada" not in found
    assert found.keys_added == 0
    assert found.num_saturated == 0
    assert not any(payload_of(found))


def test_a_key_that_is_certainly_absent_cannot_be_removed(make: Make) -> None:
    """KeyError, as of a set; not a byte has changed."""
    found = make(fpr=1e-6)
    found.update(keys(50))
    before = payload_of(found), found.keys_added

    for _ in range(2):
        with pytest.raises(
            KeyError, match="cannot remove a key that is not in the filter"
        ) as caught:
            found.remove("never added")
        assert isinstance(caught.value, AbsentKeyError)
        assert caught.value.num_removed == 0
    assert (payload_of(found), found.keys_added) == before


def test_keys_that_share_a_counter_do_not_remove_each_other(make: Make) -> None:
    """In a filter of one line nearly all do; each is in until it is removed itself."""
    found = make(capacity=9, fpr=0.3)
    assert found.num_counters == 128
    some = keys(9)
    found.update(some)
    for at, key in enumerate(some):
        assert found.contains_many(some[at:]).all()
        found.remove(key)
    assert not any(payload_of(found))


def test_a_full_counter_stays_full(make: Make) -> None:
    """300 adds, 299 removes: the key is in, whatever else is added and removed beside it."""
    found = make(capacity=100)
    for _ in range(300):
        found.add("often")
    full = found.num_saturated
    assert 1 <= full <= found.num_probes
    found.update(keys(90))
    for _ in range(299):
        found.remove("often")
    found.remove_many(keys(90))

    assert "often" in found
    assert found.count_estimate("often") == 15
    assert found.num_saturated == full
    assert found.fill_ratio() == full / found.num_counters


def test_a_batch_is_removed_as_its_keys_would_be(make: Make) -> None:
    """Repetitions included; the count is of those that are definitely not in afterwards."""
    one, other = make(fpr=1e-6), make(fpr=1e-6)
    for found in (one, other):
        found.update(keys(200) + keys(50))

    assert one.remove_many(keys(120)) == 70
    assert sum(other.remove(key) for key in keys(120)) == 70
    assert payload_of(one) == payload_of(other)
    assert one.keys_added == other.keys_added == 130
    assert one.remove_many(np.array(keys(50))) == 50
    assert one.remove_many(iter(keys(80, start=120))) == 80
    assert one.remove_many([]) == 0
    assert not any(payload_of(one))


def test_a_batch_stops_at_the_first_key_that_is_absent(make: Make) -> None:
    """The error says how many were removed before it; of it and the rest nothing was changed."""
    found = make(fpr=1e-6)
    found.update(keys(100))

    with pytest.raises(AbsentKeyError, match="40 keys of this call were removed first") as caught:
        found.remove_many([*keys(40), "absent", *keys(60, start=40)])
    assert caught.value.num_removed == 40
    assert found.keys_added == 60
    assert found.contains_many(keys(60, start=40)).all()
    assert not found.contains_many(keys(40)).any()


def test_a_long_iterator_says_how_many_of_all_were_removed(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Although it is taken a piece at a time."""
    monkeypatch.setattr("mmbloom.keys.batches.PIECE_KEYS", 100)
    found = make(fpr=1e-6)
    found.update(keys(350))

    with pytest.raises(AbsentKeyError) as caught:
        found.remove_many(iter([*keys(250), "absent", *keys(99, start=250)]))
    assert caught.value.num_removed == 250
    assert found.keys_added == 100


@pytest.mark.parametrize("bad", [None, 5, "\ud800"])
def test_a_bad_key_removes_nothing(make: Make, bad: object) -> None:
    """Neither by itself nor in a batch."""
    found = make()
    found.update(keys(10))
    before = payload_of(found)

    for call in (found.remove, found.add, found.count_estimate):
        with pytest.raises((KeyTypeError, mmbloom.KeyValueError)):
            call(bad)
    with pytest.raises((KeyTypeError, mmbloom.KeyValueError), match="key 10"):
        found.remove_many([*keys(10), bad])
    assert payload_of(found) == before


def test_a_multiset_says_the_same_through_100_000_adds_and_removes() -> None:
    """Never a false "no", never an estimate below the truth, and empty at the end.

    At most 1000 distinct keys are in, so the filter is never past its capacity; a key is in up to 3
    times, so no counter comes to its end, not even one that several keys share.
    """
    chance = random.Random(1)  # noqa: S311 - a test
    members: Counter[str] = Counter()
    num_distinct = 0
    some = keys(1200)
    with CountingBloomFilter.in_memory(capacity=1000, fpr=0.001) as found:
        for step in range(100_000 if mmbloom.ENGINE == "kernel" else 5_000):
            key = chance.choice(some)
            times = members[key]
            if times == 3 or (times and chance.random() < 0.5):
                found.remove(key)
                members[key] -= 1
                num_distinct -= times == 1
            elif times or num_distinct < 1000:
                found.add(key)
                members[key] += 1
                num_distinct += times == 0
            assert (key in found) or not members[key]
            assert found.count_estimate(key) >= members[key]
            if step % 5000 == 0:
                assert found.contains_many(list(+members)).all()
                assert found.keys_added == pytest.approx(num_distinct, abs=40)
        assert found.num_saturated == 0
        found.remove_many(list(members.elements()))
        assert not any(payload_of(found))
        assert found.approx_count() == 0


# ---- room ----------------------------------------------------------------------------------------


def test_capacity_distinct_keys_fit_and_the_next_is_refused(make: Make) -> None:
    """Which changes nothing; a key that is in may be added again, and a removal makes room."""
    found = make(capacity=50, fpr=1e-6)
    found.update(keys(50))
    before = payload_of(found)

    for add in (lambda: found.add("one more"), lambda: found.update([keys(1)[0], "one more"])):
        with pytest.raises(CapacityError):
            add()
    found.remove(keys(1)[0])
    assert payload_of(found) == before
    found.remove(keys(1)[0])
    assert found.add("one more")


def test_after_removals_the_counters_tell_when_it_is_full(make: Make) -> None:
    """A new key is refused at the latest when they speak for more keys than the capacity."""
    found = make(capacity=1000, fpr=0.01)
    found.update(keys(1000))
    found.remove_many(keys(500))

    with pytest.raises(CapacityError) as caught:
        found.update(keys(1000, start=1000))
    assert 480 <= caught.value.num_added <= 570  # 500, eight sigma, and those that seem known
    assert found.approx_count() == pytest.approx(1000, abs=70)


def test_a_filter_made_to_be_overfilled_takes_more(make: Make) -> None:
    """At a rising rate, which it tells."""
    found = make(capacity=50, overfill=True)
    before = found.expected_fpr()
    found.update(keys(500))

    assert found.contains_many(keys(500)).all()
    assert found.expected_fpr() > 5 * 0.01 > before


def test_a_count_that_has_drifted_refuses_no_key_that_fits() -> None:
    """Where new keys seem known and gone ones seem in, the count drifts; then it is taken anew."""
    with CountingBloomFilter.in_memory(capacity=300, fpr=0.2) as found:
        window = keys(40_000 if mmbloom.ENGINE == "kernel" else 5_000)
        found.update(window[:300])
        for i in range(300, len(window)):
            found.remove(window[i - 300])
            found.add(window[i])
        assert found.contains_many(window[-300:]).all()
        assert found.approx_count() == pytest.approx(300, abs=60)
        assert found.keys_added <= 300


def test_rates_are_those_of_the_model_whatever_has_gone(make: Make) -> None:
    """After as many removals as adds a full filter has the rate that it was made for."""
    found = make(capacity=3000, fpr=0.01)
    found.update(keys(3000))
    found.remove_many(keys(2000))
    found.update(keys(2000, start=3000))

    assert found.expected_fpr() == pytest.approx(0.01, rel=0.15)
    share = found.contains_many(keys(50_000, start=10**6)).mean()
    expected = found.expected_fpr()
    assert share == pytest.approx(expected, abs=4 * (expected / 50_000) ** 0.5)
    assert found.approx_count() == pytest.approx(3000, rel=0.02)


# ---- two filters ---------------------------------------------------------------------------------


def test_a_union_counts_the_keys_of_both(make: Make) -> None:
    """A key that both have must be removed twice; the two are as before."""
    left, right = make(fpr=1e-6), make(fpr=1e-6)
    left.update(keys(100))
    right.update(keys(100, start=50))
    before = payload_of(left), payload_of(right)

    with left | right as union:
        assert union.contains_many(keys(150)).all()
        assert union.keys_added == pytest.approx(150, abs=3)
        assert [union.count_estimate(key) for key in keys(150)] == [1] * 50 + [2] * 50 + [1] * 50
        union.remove_many(keys(150))
        assert union.contains_many(keys(150)).tolist() == [False] * 50 + [True] * 50 + [False] * 50
    assert (payload_of(left), payload_of(right)) == before
    left |= right
    assert left.remove_many(keys(100) + keys(100, start=50)) == 150
    assert not any(payload_of(left))


def test_counters_that_are_full_in_one_are_full_in_the_union(make: Make) -> None:
    """And sums past 15 become full."""
    left, right = make(), make()
    left.update(["ada"] * 15 + ["grace"] * 8)
    right.update(["grace"] * 8 + ["alan"])

    left |= right

    assert [left.count_estimate(key) for key in ("ada", "grace", "alan")] == [15, 15, 1]
    assert left.num_saturated >= 2
    left.remove_many(["grace"] * 40)
    assert "grace" in left


def test_a_union_that_does_not_fit_is_refused(make: Make) -> None:
    """CapacityError, and nothing is changed."""
    left, right = make(capacity=100, fpr=0.001), make(capacity=100, fpr=0.001)
    left.update(keys(100))
    right.update(keys(100, start=100))
    before = payload_of(left)

    with pytest.raises(CapacityError, match="united"):
        left |= right
    assert payload_of(left) == before


@pytest.mark.parametrize(
    ("other", "field"),
    [({"seed": 1}, "seed"), ({"capacity": 2000}, "num_bits"), ({"key_form": "hex"}, "key_form")],
)
def test_filters_that_count_elsewhere_are_not_united(
    make: Make, other: dict[str, object], field: str
) -> None:
    """The first field that differs is named."""
    with pytest.raises(IncompatibleError, match=field):
        make() | make(**other)


def test_other_kinds_and_intersections_are_no_operands(make: Make) -> None:
    """TypeError, as of any operator that is not there."""
    found = make()
    with BloomFilter.in_memory(capacity=1000, fpr=0.01) as bloom:
        for combine in (
            lambda: found | bloom,  # type: ignore[operator]
            lambda: bloom | found,  # type: ignore[operator]
            lambda: found & found,  # type: ignore[operator]
        ):
            with pytest.raises(TypeError):
                combine()
        assert found != bloom


def test_equal_filters_have_the_same_counters(make: Make) -> None:
    """Not only the same keys."""
    one, other = make(), make()
    one.update(["ada", "grace"])
    other.update(["grace", "ada"])
    assert one == other
    other.add("ada")
    assert one != other


def test_clear_forgets_everything(make: Make) -> None:
    """Full counters too."""
    found = make()
    found.update(["ada"] * 20 + keys(100))
    found.clear()

    assert not any(payload_of(found))
    assert (found.keys_added, found.num_saturated, "ada" in found) == (0, 0, False)
    assert found.add("ada")


# ---- to_bloom ------------------------------------------------------------------------------------


def test_the_bits_that_are_left_answer_alike(make: Make, tmp_path: Path) -> None:
    """A quarter of the size, for serving: the same answer for every key, false positives too."""
    found = make(capacity=2000, fpr=0.05, metadata={"source": "list"}, seed=7)
    found.update(keys(2500)[:1900])
    found.remove_many(keys(400))
    asked = keys(20_000)

    with found.to_bloom(tmp_path / "served.mmb") as served:
        assert isinstance(served, BloomFilter)
        assert (served.contains_many(asked) == found.contains_many(asked)).all()
        assert [key in served for key in asked[:500]] == [key in found for key in asked[:500]]
        assert served.sealed
        assert 4 * served.num_bits == found.num_bits
        assert served.expected_fpr() == found.expected_fpr()
        assert served.keys_added == found.keys_added
        assert (served.seed, served.metadata) == (7, {"source": "list"})
        assert (served.capacity, served.fpr) == (2000, 0.05)
        assert served.verify() == served.info()["payload_bytes"]
        assert len(served._opened.status.canaries) == 8
    with pytest.raises(FileExistsError):
        found.to_bloom(tmp_path / "served.mmb")
    found.add("new")
    with found.to_bloom(tmp_path / "served.mmb", if_exists="replace") as again:
        assert "new" in again
        assert again.info()["generation"] == 2


def test_the_bits_of_a_sealed_and_of_an_empty_filter(tmp_path: Path) -> None:
    """A reader can leave them too."""
    with CountingBloomFilter.in_memory(capacity=10, fpr=0.1) as found:
        with found.to_bloom(tmp_path / "empty.mmb") as served:
            assert not served.contains_many(keys(100)).any()
        found.update(keys(10))
        found.save(tmp_path / "sealed.mmb")
    with CountingBloomFilter.open(tmp_path / "sealed.mmb") as found:
        assert found.contains_many(keys(10)).all()
        with found.to_bloom(tmp_path / "served.mmb") as served:
            assert served.contains_many(keys(10)).all()
            with served.copy() as more:  # and they are a Bloom filter like any other
                assert more.layout == "narrow"
                assert (more | served).contains_many(keys(10)).all()


# ---- parameters ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"capacity": 0}, ParameterError),
        ({"capacity": 2.5}, ParameterTypeError),
        ({"fpr": 0}, ParameterError),
        ({"fpr": 5}, ParameterError),
        ({"fpr": "1%"}, ParameterTypeError),
        ({"seed": -1}, ParameterError),
        ({"key_form": "url"}, ParameterError),
        ({"key_form": 1}, ParameterTypeError),
        ({"overfill": 1}, ParameterTypeError),
        ({"metadata": {"a": object()}}, ParameterError),
        ({"capacity": 2**48, "fpr": 1e-9}, ParameterError),
        ({"layout": "line"}, ParameterError),
        ({"layout": 7}, ParameterError),
    ],
)
def test_a_bad_parameter_makes_no_file(
    given: dict[str, Any], error: type[Exception], tmp_path: Path
) -> None:
    """It is named, whether the filter would be in memory or in a file."""
    parameters: dict[str, Any] = {"capacity": 10, "fpr": 0.01} | given
    for make_one in (
        lambda: CountingBloomFilter.create(tmp_path / "a.mmb", **parameters),
        lambda: CountingBloomFilter.in_memory(**parameters),
    ):
        with pytest.raises(error):
            make_one()
    assert not list(tmp_path.iterdir())


def test_a_filter_is_made_or_opened_but_not_called() -> None:
    """What it would mean is not guessed."""
    with pytest.raises(TypeError, match=r"CountingBloomFilter.create\("):
        CountingBloomFilter()


def test_it_tells_what_it_is(make: Make) -> None:
    """Counters, and how many are full."""
    found = make()
    found.update(["ada"] * 15)
    facts = found.info()

    assert facts["kind"] == "counting"
    assert facts["layout"] == "counters"
    assert facts["num_counters"] == found.num_counters == found.num_bits // 4
    assert facts["num_saturated"] == found.num_saturated > 0
    assert facts["bits_set"] == found.num_saturated
    assert sum(found.fill_by_region(4)) > 0
    assert facts["bits_per_key"] == pytest.approx(43.5, abs=0.5)


def test_what_cannot_be_changed_says_so(tmp_path: Path) -> None:
    """A reader neither adds nor removes."""
    with CountingBloomFilter.create(tmp_path / "a.mmb", capacity=10, fpr=NEVER) as writer:
        writer.add("ada")
    with CountingBloomFilter.open(tmp_path / "a.mmb") as found:
        for change in (
            lambda: found.remove("ada"),
            lambda: found.remove_many(["ada"]),
            lambda: found.add("grace"),
            found.clear,
        ):
            with pytest.raises(ReadOnlyError):
                change()
        assert found.count_estimate("ada") == 1
