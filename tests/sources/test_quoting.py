"""Where records of CSV end, compared with Python's csv module."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmbloom.sources.quoting import end_of_well_quoted, record_pattern

RECORD = record_pattern(b",")
FIELDS = st.sampled_from(["", "a", "b c", 'x"y', "1,2", "two\nlines", 'q"\n"', "\r\n", "é"])


def records(text: bytes, pattern: object = RECORD) -> list[bytes]:
    """Return the records of a text as the pattern finds them."""
    found = [match[0] for match in pattern.finditer(text)]  # type: ignore[attr-defined]
    assert b"".join(found) == text
    return found


@given(st.lists(st.lists(FIELDS, min_size=2, max_size=4), min_size=1, max_size=8))
def test_the_output_of_the_csv_module_is_split_into_its_records(rows: list[list[str]]) -> None:
    """By the pattern and by the places of quotes, also with an incomplete record."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows)
    text = out.getvalue().encode()

    assert len(records(text)) == len(rows)
    assert end_of_well_quoted(text, b",") == len(text)
    assert end_of_well_quoted(text + b'a,"open\nstill open\n', b",") == len(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(b'5" pipe,1\nb,2\n', [b'5" pipe,1\n', b"b,2\n"], id="quote-in-a-field"),
        pytest.param(b'"a"b,1\nc,2\n', [b'"a"b,1\n', b"c,2\n"], id="text-after-quotes"),
        pytest.param(b'"a""b\nc",1\n\nd,2\n', [b'"a""b\nc",1\n', b"\n", b"d,2\n"], id="doubled"),
        pytest.param(b"a,1\r\nb,2\r\n", [b"a,1\r\n", b"b,2\r\n"], id="CRLF"),
        pytest.param(b"a,1\rb,2\n", [b"a,1\r", b"b,2\n"], id="CR"),
        pytest.param(b",\n\n", [b",\n", b"\n"], id="empty-fields"),
    ],
)
def test_records_are_the_same_as_for_other_readers(text: bytes, expected: list[bytes]) -> None:
    """Also those that no standard defines."""
    assert records(text) == expected


def test_a_comment_is_a_record_whatever_it_contains() -> None:
    """A quote in it does not open a field."""
    text = b'# it said "\na,1\n#\n'

    assert records(text, record_pattern(b",", b"#")) == [b'# it said "\n', b"a,1\n", b"#\n"]


@pytest.mark.parametrize(
    ("text", "end"),
    [
        pytest.param(b'"open\n', 0, id="no-record-ends"),
        pytest.param(b'a\n"b\n"\n"open\nx\n', 7, id="open-in-the-third"),
        pytest.param(b'a\nb,"c","open\nx\n', 2, id="a-closed-field-before"),
        pytest.param(b'5" pipe\n', -1, id="quote-in-a-field"),
        pytest.param(b'"a"b\n', -1, id="text-after-quotes"),
        pytest.param(b'a"b"\n', -1, id="both-wrong"),
        pytest.param(b"", 0, id="nothing"),
    ],
)
def test_the_end_is_found_by_quotes_if_all_are_in_their_places(text: bytes, end: int) -> None:
    """Otherwise the pattern must find it."""
    assert end_of_well_quoted(text, b",") == end
