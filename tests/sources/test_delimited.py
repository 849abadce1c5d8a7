"""CSV and TSV as lists of keys."""

from __future__ import annotations

import csv
import gzip
from typing import TYPE_CHECKING, Any, Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from key_lists import keys_of, read_in_two

import mmbloom
from mmbloom.keys import lines
from mmbloom.sources import delimited

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from mmbloom.sources.bad_lines import OnError

    Write = Callable[[str, bytes], Path]

pytest.importorskip("pyarrow")


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Return a function that makes a list."""

    def written(name: str, data: bytes) -> Path:
        (tmp_path / name).write_bytes(data)
        return tmp_path / name

    return written


@pytest.mark.parametrize(
    ("text", "options", "keys"),
    [
        pytest.param(b"id,u\n1,a\n2,b\n", {"column": "u"}, [b"a", b"b"], id="by-name"),
        pytest.param(b"1,a\n2,b\n", {"column": 2}, [b"a", b"b"], id="by-number"),
        pytest.param(
            b"id,u\n1,a\n", {"column": 2, "header": True}, [b"a"], id="by-number-after-a-header"
        ),
        pytest.param(b"a\nb\n", {"format": "csv"}, [b"a", b"b"], id="only-column"),
        pytest.param(b"u\na", {"column": "u"}, [b"a"], id="no-final-newline"),
        pytest.param(b"u\r\na\r\n\r\nb\r\n", {"column": "u"}, [b"a", b"b"], id="CRLF-and-blank"),
        pytest.param(b"\n\nu\na\n", {"column": "u"}, [b"a"], id="blank-before-the-header"),
        pytest.param(b"\xef\xbb\xbfu\na\n", {"column": "u"}, [b"a"], id="byte-order-mark"),
        pytest.param(b'"u"\n"a"\n', {"column": "u"}, [b"a"], id="quoted"),
        pytest.param(b'u,n\n"a,""b""",1\n', {"column": "u"}, [b'a,"b"'], id="quotes-and-comma"),
        pytest.param(
            b"n\n007\n1.50\nNULL\n", {"column": "n"}, [b"007", b"1.50", b"NULL"], id="text"
        ),
        pytest.param(b"u,n\n,1\nb,2\n", {"column": "u"}, [b"", b"b"], id="empty-key"),
        pytest.param(b"u;n\na,b;1\n", {"column": "u", "delimiter": ";"}, [b"a,b"], id="semicolon"),
        pytest.param(b"u\tn\na,b\t1\n", {"column": "u", "format": "tsv"}, [b"a,b"], id="tab"),
        pytest.param(
            b'# by "\n#\nu,n\na,1\n#b,2\nc,3\n',
            {"column": "u", "comment": "#"},
            [b"a", b"c"],
            id="comments",
        ),
        pytest.param(
            b'u,n\n"a",1\n#"\nc,3\n',
            {"column": "u", "comment": "#"},
            [b"a", b"c"],
            id="quote-in-one",
        ),
        pytest.param(b'u,n\n5" x,1\nb,2\n', {"column": "u"}, [b'5" x', b"b"], id="quote-within"),
        pytest.param(b"u,n\n\xff,1\n", {"column": "u"}, [b"\xff"], id="no-UTF-8"),
    ],
)
def test_the_column_is_the_list(
    write: Write, text: bytes, options: dict[str, Any], keys: list[bytes]
) -> None:
    """As text: 007 stays 007, and a key that other programs take as a null stays a key."""
    with mmbloom.read_list(write("list.csv", text), **options) as found:
        assert keys_of(found) == keys


CELLS = st.sampled_from(["", "a", "b c", "1,2", 'x"y', "two\nlines", "007", "#"])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=30),
    st.sampled_from([8, 40, 1 << 20]),
    st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
)
def test_text_blocks_of_any_size_give_what_the_csv_module_wrote(
    tmp_path: Path, rows: list[tuple[str, str]], block_bytes: int, quoting: Literal[0, 1]
) -> None:
    """A line break within quotes does not end a text block."""
    path = tmp_path / "list.csv"
    with path.open("w", newline="") as out:
        csv.writer(out, quoting=quoting, lineterminator="\n").writerows([("k", "v"), *rows])

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(lines, "BLOCK_BYTES", block_bytes)
        with mmbloom.read_list(path, column="v") as found:
            blocks = [bytes(b.select(b"\1" * len(b.batch))) for b in found]
            # No reader takes an empty line as a record; with two fields no record is an empty line.
            assert b"".join(blocks) == b"".join(f"{value}\n".encode() for _, value in rows)
        assert found.text_bytes == path.stat().st_size


def test_the_name_of_a_compressed_list_decides_its_format(write: Write) -> None:
    """.csv.gz, .tsv.zst and so on; with another name the format must be given."""
    text = gzip.compress(b"u\tn\na\t1\n")

    with mmbloom.read_list(write("list.TSV.gz", text), column="u") as found:
        assert keys_of(found) == [b"a"]
    with pytest.raises(mmbloom.ParameterError, match="column: expected a format with it"):
        mmbloom.read_list(write("list.gz", text), column="u")
    with mmbloom.read_list(write("list.gz", text), column="u", format="tsv") as found:
        assert keys_of(found) == [b"a"]


def test_records_with_a_wrong_number_of_fields_are_bad(write: Write) -> None:
    """Errors name the line where it begins, even after records with line breaks."""
    text = b'u,n\n"a\nb",1\n\nc\n"d\n",2\ne,3,4\nf,5\n'

    with mmbloom.read_list(write("list.csv", text), column="u", on_error="skip") as found:
        assert len(keys_of(found)) == 3 + 2  # two keys have a line break
        assert found.bad.num_bad == 2
        assert [message.rpartition("/")[2] for message in found.bad.first] == [
            "list.csv, line 5: expected 2 fields, found 1",
            "list.csv, line 8: expected 2 fields, found 3",
        ]
        assert found.lines_read == 9
    with (
        mmbloom.read_list(write("list.csv", text), column="u") as found,
        pytest.raises(mmbloom.SourceError, match=r"list.csv, line 5: expected 2 fields, found 1"),
    ):
        keys_of(found)


def test_a_key_that_the_filter_refuses_is_named_by_its_line(write: Write) -> None:
    """Lines of bad records, and line breaks within records, are counted."""
    text = b'u,n\nab,"1\n\n"\nodd\ncd,2\nxy,3\n'
    digests = mmbloom.BloomFilter.in_memory(capacity=10, fpr=0.01, key_form="hex")

    with (
        mmbloom.read_list(write("list.csv", text), column="u", on_error="skip") as found,
        pytest.raises(mmbloom.KeyValueError, match=r"list.csv, line 7: key form hex"),
    ):
        digests.update(found)


@pytest.mark.parametrize(
    ("options", "text", "says"),
    [
        ({"column": "v"}, b"u,n\n", "list.csv: no column named 'v'; there are: u, n"),
        ({"column": "u"}, b"u,u\n", "list.csv: 2 columns named 'u'; there are: u, u"),
        ({"column": 3}, b"u,n\n", "list.csv: no column 3; there are 2: u, n"),
        ({"format": "csv"}, b"u,n\n", "list.csv: has 2 columns; give one as column: u, n"),
    ][::1],
)
def test_the_error_for_a_missing_column_lists_the_columns(
    write: Write, options: dict[str, Any], text: bytes, says: str
) -> None:
    """So it says what to type instead."""
    with (
        mmbloom.read_list(write("list.csv", text), **options) as found,
        pytest.raises(mmbloom.SourceError, match=says),
    ):
        keys_of(found)


def test_an_unterminated_quoted_field_does_not_swallow_the_list(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The search ends at the longest record allowed; the keys after it are never left out."""
    text = b'u,n\na,1\n"b,2\nc,3\n'
    says = "list.csv, line 3: unterminated quoted field"

    for _ in range(2):
        with (
            mmbloom.read_list(write("list.csv", text), column="u", on_error="skip") as found,
            pytest.raises(mmbloom.SourceError, match=says),
        ):
            keys_of(found)
        monkeypatch.setattr(delimited, "LONGEST_RECORD_BYTES", 5)


@pytest.mark.parametrize("on_error", ["raise", "skip", "count"])
def test_a_stray_quote_that_swallows_records_is_an_error(write: Write, on_error: OnError) -> None:
    """The next quote seems to end the field, but text follows it: keys would be silently lost."""
    text = b'n,u\n1,a\n2,"b\n3,c\n4,"d"\n5,e\n'
    with (
        mmbloom.read_list(write("list.csv", text), column="u", on_error=on_error) as found,
        pytest.raises(mmbloom.SourceError, match=r"list.csv, line 3: .*stray double quote"),
    ):
        keys_of(found)


@pytest.mark.parametrize("num_blocks", [0, 1, 3])
@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_a_list_is_continued_from_a_position(
    write: Write, monkeypatch: pytest.MonkeyPatch, num_blocks: int, pack: Callable[[bytes], bytes]
) -> None:
    """The header is read again, the keys before the position are not."""
    monkeypatch.setattr(lines, "BLOCK_BYTES", 64)
    rows = [f'{i},"key ""{i}"""' for i in range(100)]
    path = write("list.csv", pack("\n".join(["n,k", *rows]).encode()))
    first, second = (mmbloom.read_list(path, column="k", format="csv") for _ in range(2))

    with first, second:
        assert read_in_two(first, second, num_blocks) == [b'key "%d"' % i for i in range(100)]
        assert second.lines_read == 101


def test_a_quote_as_delimiter_is_refused(write: Write) -> None:
    """It would be the quote."""
    with pytest.raises(mmbloom.ParameterError, match="delimiter: expected a character other than"):
        mmbloom.read_list(write("list.csv", b"a\n"), format="csv", delimiter='"')
