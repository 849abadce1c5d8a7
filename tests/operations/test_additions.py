"""New keys, counted and weighed before they are added; and hashes gathered from any batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from filter_files import NEVER, facts_of, keys, writable_file

import mmbloom
from mmbloom import (
    Additions,
    BloomFilter,
    CapacityError,
    KeyTypeError,
    KeyValueError,
    MmbloomError,
    ReadOnlyError,
)
from mmbloom.engine import LinesBatch, hash_batch
from mmbloom.format.fields import HASH
from mmbloom.keys.pieces import Piece
from mmbloom.operations.distinct import DistinctHashes, hashes_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    Make = Callable[..., BloomFilter]


class Lines:
    """A list of one block, with a policy for bad lines."""

    class Bad:
        """What becomes of them."""

        def __init__(self, policy: str) -> None:
            """Count from none."""
            self.policy, self.count = policy, 0
            self.messages: list[str] = []

        def add_many(self, errors: Sequence[MmbloomError], count: int) -> None:
            """Count them, or raise the first."""
            if self.policy == "raise":
                raise errors[0]
            self.count += count
            self.messages += map(str, errors)

    def __init__(self, text: bytes, policy: str) -> None:
        """Have this text."""
        self.text, self.bad = text, self.Bad(policy)

    def __key_pieces__(self) -> Iterator[Piece]:
        """Yield the block."""
        batch = LinesBatch(self.text, "list.txt", 1)
        yield Piece(batch, len(batch))


def test_new_keys_are_counted_once_and_without_those_that_are_in(make: Make) -> None:
    """Over all batches, of whatever type."""
    found = make(capacity=1000, fpr=NEVER)
    found.update(keys(100))
    new = Additions(found)

    assert new.take(keys(150)) == 150
    assert new.take([key.encode() for key in keys(100, start=100)]) == 100
    assert new.take(keys(50, start=120) * 2) == 100

    assert (len(new), new.fits()) == (100, True)
    assert found.keys_added == 100
    assert found.contains_many(keys(200)).sum() == 100


def test_they_are_added_all_at_once(make: Make) -> None:
    """The rate that was forecast is about the one that there is then."""
    found = make(capacity=1000, fpr=0.01)
    found.update(keys(500))
    new = Additions(found)
    new.take(keys(1000))
    forecast = new.forecast()

    num_new = len(new)
    assert forecast == found.forecast(num_new)
    assert num_new - 20 <= new.add() <= num_new
    assert found.contains_many(keys(1000)).all()
    assert found.expected_fpr() == pytest.approx(forecast, rel=0.3)
    assert (len(new), new.add()) == (0, 0)


def test_keys_that_do_not_fit_are_refused_all_of_them(make: Make) -> None:
    """With the numbers, and nothing is set; if overfill is allowed they fit."""
    found = make(capacity=100, fpr=NEVER)
    found.update(keys(60))
    before = found.fill_ratio()
    new = Additions(found)
    new.take(keys(41, start=60))

    assert not new.fits()
    with pytest.raises(CapacityError, match="60 keys and 41 new ones") as caught:
        new.add()
    assert (caught.value.capacity, caught.value.num_added) == (100, None)
    assert (found.fill_ratio(), found.keys_added) == (before, 60)
    roomy = make(capacity=10, fpr=NEVER, overfill=True)
    many = Additions(roomy)
    many.take(keys(50))
    assert (many.fits(), many.add()) == (True, 50)


def test_exactly_as_many_as_there_is_room_for_fit(make: Make) -> None:
    """The capacity is a promise."""
    found = make(capacity=100, fpr=NEVER)
    found.update(keys(60))
    new = Additions(found)
    new.take(keys(100))

    assert (new.fits(), new.add(), found.keys_added) == (True, 40, 100)


def test_a_bad_key_adds_nothing(make: Make) -> None:
    """Wherever it is."""
    found = make(capacity=100, fpr=NEVER)
    new = Additions(found)
    new.take(["ada"])

    with pytest.raises(KeyTypeError):
        new.take(["grace", 3])

    assert "ada" not in found
    assert "grace" not in found


def test_a_reader_may_forecast_and_not_add(tmp_path: Path) -> None:
    """The file stays as it is."""
    path = writable_file(tmp_path / "a.mmb")
    before = facts_of(path)
    with mmbloom.open(path) as found:
        new, told = Additions(found), list[int]()
        new.take(keys(40), progress=lambda at: told.append(at.done))
        assert (len(new), told) == (20, [40, 40])
        assert new.forecast() > found.expected_fpr()
        with pytest.raises(ReadOnlyError):
            new.add()
    assert facts_of(path) == before


@pytest.mark.parametrize("key_form", ["raw", "hex"])
def test_hashes_are_those_of_a_batch(key_form: str) -> None:
    """Whoever asks, in whatever pieces."""
    with BloomFilter.in_memory(capacity=10, fpr=0.1, seed=9, key_form=key_form) as found:
        header = found._opened.header
    lines = Lines(b"ab\ncd\n\nef\n", "raise")
    expected = bytes(hash_batch(LinesBatch(lines.text, "", 1), 9, header.key_form))

    assert b"".join(hashes_of(lines, header)) == expected
    assert b"".join(hashes_of(["ab", b"cd", "ef"], header)) == expected
    assert b"".join(hashes_of(iter(["ab", "cd", "ef"]), header)) == expected


def test_bad_lines_are_passed_over_if_the_list_says_so() -> None:
    """And reported to it, with the number of the line."""
    text = b"ab\nxy\ncd\n" + b"0\n" * 30 + b"ef\nab\n"
    with BloomFilter.in_memory(capacity=10, fpr=NEVER, key_form="hex") as found:
        lines = Lines(text, "skip")
        new = Additions(found)
        assert new.take(lines) == 4
        assert (len(new), new.add()) == (3, 3)
        assert found.contains_many(["ab", "CD", "ef"]).all()
        assert lines.bad.count == 31
        assert 5 <= len(lines.bad.messages) <= 8
        assert lines.bad.messages[0].startswith("list.txt, line 2")
        with pytest.raises(KeyValueError, match="line 2"):
            Additions(found).take(Lines(text, "raise"))


def test_distinct_hashes_are_sorted_and_each_is_there_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever the order in which they come, and however often they are sorted on the way."""
    monkeypatch.setattr("mmbloom.operations.distinct._FEWEST_TO_SORT", 64)
    rng = np.random.default_rng(5)
    numbers = rng.integers(0, 500, 3000)
    expected = sorted({HASH.pack(int(number), 7) for number in numbers}, key=HASH.unpack)
    gathered = DistinctHashes()

    for part in np.array_split(numbers, 50):
        gathered.add(b"".join(HASH.pack(int(number), 7) for number in part))

    assert bytes(gathered.sorted()) == b"".join(expected)
    assert len(gathered) == len(expected)
    gathered.add(HASH.pack(1000, 0))
    assert len(gathered) == len(expected) + 1
    assert len(DistinctHashes()) == 0


def test_new_keys_of_a_follower_are_those_of_one_file(tmp_path: Path) -> None:
    """Else one key would be two, by the seeds of two files."""
    path = tmp_path / "a.mmb"
    mmbloom.build(path, keys(3), fpr=NEVER, seed=1).close()
    with mmbloom.open(path, follow=0) as follower:
        new = Additions(follower)
        new.take(["absent"])
        mmbloom.build(path, keys(4), fpr=NEVER, seed=2, if_exists="replace").close()
        assert keys(4)[3] in follower
        new.take(["absent"])

        assert (follower.seed, len(new)) == (2, 1)
