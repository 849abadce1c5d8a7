"""Keys that come to a counting filter and leave it, by the list."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from filter_files import NEVER, keys

import mmbloom
from mmbloom import (
    AbsentKeyError,
    Additions,
    CapacityError,
    CountingBloomFilter,
    KeyTypeError,
    ParameterError,
    ReadOnlyError,
    Removals,
)

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def members() -> CountingBloomFilter:
    """Return a filter of 1000 keys with room for as many more, without false positives."""
    made = CountingBloomFilter.in_memory(capacity=2000, fpr=NEVER)
    made.update(keys(1000))
    return made


# ---- keys that come ------------------------------------------------------------------------------


def test_every_distinct_key_of_a_list_counts_once_more(members: CountingBloomFilter) -> None:
    """Known keys too, so that none is lost when others leave."""
    new = Additions(members)
    assert new.take(keys(300, 900) * 2) == 600
    assert (len(new), new.num_to_add, new.fits()) == (200, 300, True)
    assert members.keys_added == 1000

    assert new.add() == 200

    assert (members.keys_added, len(new), new.num_to_add) == (1200, 0, 0)
    counts = [members.count_estimate(key) for key in keys(1200)]
    assert counts == [1] * 900 + [2] * 100 + [1] * 200


def test_a_key_that_is_maybe_by_chance_is_counted() -> None:
    """Else it would be answered "definitely not" when the keys that cover it leave."""
    with CountingBloomFilter.in_memory(capacity=300, fpr=0.2) as crowded:
        crowded.update(keys(300))
        by_chance = [key for key in keys(2000, 300) if key in crowded][:50]
        assert len(by_chance) == 50
        new = Additions(crowded)
        new.take(by_chance)
        assert (len(new), new.add()) == (0, 0)

        crowded.remove_many(keys(300))

        assert crowded.contains_many(by_chance).all()


def test_room_that_others_have_left_is_found(members: CountingBloomFilter) -> None:
    """As update() does; and what does not fit is refused whole."""
    new = Additions(members)
    new.take(keys(1001, 1000))
    assert not new.fits()
    with pytest.raises(CapacityError, match="1000 keys and 1001 new ones"):
        new.add()
    members.remove_many(keys(10))
    members.update(keys(10))
    members._num_keys = 1900  # it has drifted
    new = Additions(members)
    new.take(keys(500, 1000))
    assert new.fits()
    assert new.add() == 500
    assert members.contains_many(keys(1500)).all()


# ---- keys that leave -----------------------------------------------------------------------------


def test_each_key_that_was_taken_leaves_once(members: CountingBloomFilter) -> None:
    """However often it was in the lists; nothing happens before remove()."""
    members.update(keys(10))
    leaving = Removals(members)
    seen: list[int] = []
    assert leaving.take(keys(300) * 2, progress=lambda at: seen.append(at.done)) == 600
    leaving.take(iter(keys(100, 250)))
    assert (len(leaving), leaving.num_absent(), seen) == (350, 0, [600, 600])
    assert members.keys_added == 1000

    assert leaving.remove() == (350, 340, 0)

    assert (len(leaving), members.keys_added) == (0, 660)
    assert members.contains_many(keys(10)).all()
    assert not members.contains_many(keys(340, 10)).any()
    assert members.contains_many(keys(650, 350)).all()


def test_a_list_with_a_key_that_is_not_in_removes_nothing(members: CountingBloomFilter) -> None:
    """Unless such keys may be passed over."""
    with members.copy() as before:
        for if_absent in ("raise", "skip"):
            leaving = Removals(members)
            leaving.take(keys(20, 990))
            assert leaving.num_absent() == 10
            if if_absent == "raise":
                with pytest.raises(AbsentKeyError, match="10 of 20 keys"):
                    leaving.remove()
                assert members == before
        assert leaving.remove(if_absent="skip") == (10, 10, 0)
    assert members.contains_many(keys(990)).all()
    assert members.keys_added == 990
    with pytest.raises(ParameterError, match="'raise' or 'skip'"):
        leaving.remove(if_absent="ignore")  # type: ignore[arg-type]


def test_keys_that_were_never_added_are_told_if_it_shows() -> None:
    """They are "maybe" by chance, and some have lost their counters when it is their turn."""
    with CountingBloomFilter.in_memory(capacity=300, fpr=0.3) as crowded:
        crowded.update(keys(300))
        leaving = Removals(crowded)
        leaving.take([key for key in keys(3000, 300) if key in crowded])
        num_keys = len(leaving)

        removed = leaving.remove()

    assert removed.never_added > 0
    assert removed.keys + removed.never_added == num_keys
    assert 0 < removed.gone <= removed.keys


def test_what_cannot_be_removed_changes_nothing(
    members: CountingBloomFilter, tmp_path: Path
) -> None:
    """A bad key, a file that is only read, one that is sealed."""
    with pytest.raises(KeyTypeError):
        Removals(members).take([*keys(5), 7])
    assert members.keys_added == 1000
    members.save(tmp_path / "sealed.mmb")
    mmbloom.build(tmp_path / "open.mmb", keys(10), kind="counting", fpr=NEVER).close()
    for name in ("sealed.mmb", "open.mmb"):
        with CountingBloomFilter.open(tmp_path / name) as reader:
            leaving = Removals(reader)
            leaving.take(keys(20))
            assert leaving.num_absent() == (0 if name == "sealed.mmb" else 10)
            with pytest.raises(ReadOnlyError):
                leaving.remove()
            assert reader.contains_many(keys(10)).all()
