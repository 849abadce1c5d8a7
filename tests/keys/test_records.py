"""Keys with their offsets."""

from __future__ import annotations

from array import array

import pytest

from mmbloom import BloomFilter, KeyValueError
from mmbloom.keys.records import records_of, records_of_keys


@pytest.mark.parametrize(("code", "offset_bytes"), [("I", 4), ("Q", 8)])
def test_the_keys_are_selected_by_their_answers(
    bloom: BloomFilter, code: str, offset_bytes: int
) -> None:
    """Each with an LF, an empty one too."""
    bloom.update(["a", ""])
    records = records_of(b"xabcc", array(code, [1, 2, 3, 5, 5]), offset_bytes, "list")

    answers = bloom.contains_many(records)

    assert answers.tolist() == [True, False, False, True]
    assert records.select(answers) == b"a\n\n"
    assert records.select(answers, wanted=False) == b"b\ncc\n"


@pytest.mark.parametrize(
    ("lines", "first", "where"),
    [(None, 0, "list, row 2"), (None, 40, "list, row 42"), ([7, 9], 0, "list, line 9")],
)
def test_a_bad_key_is_called_by_its_line_or_its_row(
    lines: list[int] | None, first: int, where: str
) -> None:
    """Whichever the list has."""
    digests = BloomFilter.in_memory(capacity=9, fpr=0.01, key_form="hex")
    offsets = array("I", [0, 2, 3])

    with pytest.raises(KeyValueError, match=f"^{where}: key form hex"):
        digests.update(records_of(b"abc", offsets, 4, "list", first=first, lines=lines))


def test_keys_in_a_list_are_put_end_to_end(bloom: BloomFilter) -> None:
    """None is a batch, too."""
    assert bloom.update(records_of_keys([b"a", b"", b"bc"], "list", [1, 2, 3])) == 3
    assert bloom.update(records_of_keys([], "list", [])) == 0
    assert bloom.contains_many([b"a", b"", b"bc", b"abc"]).tolist() == [True, True, True, False]
