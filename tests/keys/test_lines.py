"""Lists of lines: blocks of whole lines, whatever the stream hands over."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmbloom import BloomFilter
from mmbloom.engine import hash_batch, hash_key
from mmbloom.errors import KeyValueError, ParameterError, ParameterTypeError, SourceError
from mmbloom.format.fields import HASH
from mmbloom.keys import lines
from mmbloom.keys.batches import pieces_of
from mmbloom.keys.lines import Blocks, LineFormat, Lines, line_format, lines_of

if TYPE_CHECKING:
    from collections.abc import Iterator

WHOLE_LINE = LineFormat()


class Text(io.BytesIO):
    """A stream of text."""

    def skip(self, num_bytes: int, /) -> None:
        """Pass over so many bytes."""
        self.seek(num_bytes, io.SEEK_CUR)


class Dribble:
    """A stream that hands over what it wants to: a pipe, or a decompressor."""

    def __init__(self, parts: list[bytes]) -> None:
        self._parts = [part for part in parts if part]

    def readinto(self, room: memoryview, /) -> int:
        """Hand over the next part."""
        part = self._parts.pop(0) if self._parts else b""
        room[: len(part)] = part
        return len(part)

    def skip(self, num_bytes: int, /) -> None:
        """Pass over so many bytes."""
        self._parts = [b"".join(self._parts)[num_bytes:]]


def read_lines(
    stream: lines.ByteStream, name: str, form: LineFormat = WHOLE_LINE
) -> Iterator[Lines]:
    """Return the lines of a stream."""
    return (lines_of(block, name, form) for block in Blocks(stream, name))


def _hashes(blocks: Iterator[Lines]) -> bytes:
    found = [hash_batch(piece.batch, 0, 0) for block in blocks for piece in pieces_of(block)]
    return b"".join(found)


def _expected(keys: list[bytes]) -> bytes:
    return b"".join(HASH.pack(*hash_key(key, 0, 0)) for key in keys)


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        pytest.param(b"", [], id="empty"),
        pytest.param(b"\n\r\n\n", [], id="only-empty-lines"),
        pytest.param(b"a", [b"a"], id="no-final-newline"),
        pytest.param(b"a\nb\n", [b"a", b"b"], id="LF"),
        pytest.param(b"a\r\nb\r\n", [b"a", b"b"], id="CRLF"),
        pytest.param(b"a\r\nb\r", [b"a", b"b"], id="CR-at-the-end"),
        pytest.param(b"\n\na\n\nb", [b"a", b"b"], id="empty-lines-between"),
        pytest.param(b" a \n\tb\n", [b" a ", b"\tb"], id="white-space-is-kept"),
        pytest.param("\xe9\n\u20ac\n".encode(), ["\xe9".encode(), "\u20ac".encode()], id="UTF-8"),
        pytest.param(b"\xff\n", [b"\xff"], id="no-UTF-8"),
    ],
)
@pytest.mark.parametrize("block_bytes", [1, 2, 3, 5, 1 << 20])
def test_a_line_is_a_key_wherever_a_block_ends(
    monkeypatch: pytest.MonkeyPatch, text: bytes, keys: list[bytes], block_bytes: int
) -> None:
    """Empty lines are none; a line keeps all but its LF or CR LF."""
    monkeypatch.setattr(lines, "BLOCK_BYTES", block_bytes)

    assert _hashes(read_lines(Text(text), "list", WHOLE_LINE)) == _expected(keys)


def test_a_byte_order_mark_is_no_part_of_the_first_key() -> None:
    """Editors write one before UTF-8; the key behind it would be found by nobody."""
    for text, keys in ((b"\xef\xbb\xbfa\nb", [b"a", b"b"]), (b"\xef\xbb\xbf", [])):
        assert _hashes(read_lines(Text(text), "list", WHOLE_LINE)) == _expected(keys)


@given(
    st.lists(st.sampled_from([b"\n", b"\r\n", b"ab", b"c:d", b"", b"x" * 20]), max_size=40),
    st.sampled_from([WHOLE_LINE, LineFormat(ord(":"), 1)]),
)
def test_blocks_of_any_size_give_the_keys_of_the_text(parts: list[bytes], form: LineFormat) -> None:
    """A decompressor's pieces are cut anywhere: also between CR and LF."""
    text = b"".join(parts)
    keys = [line.removesuffix(b"\r") for line in text.split(b"\n")]
    keys = [key.split(b":")[0] if form.field else key for key in keys if key]

    blocks = list(read_lines(Dribble(parts), "list", form))

    assert b"".join(block.data for block in blocks) == text
    assert all(block.data[-1:] == b"\n" for block in blocks[:-1])
    assert _hashes(iter(blocks)) == _expected(keys)


def test_a_byte_order_mark_may_come_alone() -> None:
    """From a pipe, before the first key is known."""
    assert _hashes(read_lines(Dribble([b"\xef\xbb\xbf", b"a\n"]), "list")) == _expected([b"a"])


@given(st.lists(st.integers(1, 30), min_size=1, max_size=40), st.integers(0, 39))
def test_text_is_gone_on_with_behind_any_block(lengths: list[int], num_blocks: int) -> None:
    """Bytes and lines are counted on, whatever blocks the rest is cut into."""
    parts = [b"x" * n + (b"\n" if n % 2 else b"") for n in lengths]
    text = b"".join(parts)
    whole = list(Blocks(Dribble(parts), "list"))
    left = whole[: num_blocks + 1][-1]
    rest = Blocks(Text(text), "list")
    rest.skip_to(left.end, left.first_line + left.num_lines - 1)

    assert b"".join(block.data for block in rest) == text[left.end :]
    assert (rest.text_bytes, rest.lines_read) == (
        len(text),
        text.count(b"\n") + text[-1:].count(b"x"),
    )


def test_a_buffer_is_used_again_when_nobody_looks_at_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fresh memory costs a page fault each 4 KiB; a block that somebody has is never changed."""
    monkeypatch.setattr(lines, "BLOCK_BYTES", 8)
    text = b"".join(b"%02d\n" % i for i in range(90))

    kept = list(Blocks(Text(text), "list"))
    assert b"".join(block.data for block in kept) == text
    assert len({id(block.data.obj) for block in kept}) == len(kept)

    buffers = []
    for block in Blocks(Text(text), "list"):
        buffers.append(id(block.data.obj))
        del block
    assert len(set(buffers)) <= 3


def test_a_long_line_is_put_together_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key of 32 MB in 8192 pieces takes a fraction of a second, not minutes of copying."""
    monkeypatch.setattr(lines, "BLOCK_BYTES", 4096)
    key = b"0123456789abcdef" * (1 << 21)

    assert _hashes(read_lines(Text(b"a\n" + key + b"\nb"), "list", WHOLE_LINE)) == _expected(
        [b"a", key, b"b"]
    )


def test_a_line_longer_than_any_key_is_refused_by_its_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A file without newlines is no list; it is not read to its end first."""
    monkeypatch.setattr(lines, "BLOCK_BYTES", 10)
    monkeypatch.setattr(lines, "LONGEST_LINE_BYTES", 100)
    stream = Text(b"one\ntwo\n" + b"x" * 1000)

    blocks = read_lines(stream, "big.txt", WHOLE_LINE)

    assert next(blocks).data == b"one\ntwo\n"
    with pytest.raises(
        SourceError, match=r"^big.txt, line 3: longer than 100 bytes; is this a list"
    ):
        next(blocks)
    assert stream.tell() < 200


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("key\n".encode("utf-16"), "UTF-16 text: convert it first", id="UTF-16-LE"),
        pytest.param(b"\xfe\xff\0k", "UTF-16 text", id="UTF-16-BE"),
        pytest.param("key\n".encode("utf-16-le"), "a NUL byte at offset 1", id="UTF-16-unmarked"),
        pytest.param(b"a\nb\0c", "binary: a NUL byte at offset 3", id="NUL"),
        pytest.param(b"\x7fELF\0\0", "binary", id="a-program"),
    ],
)
def test_what_is_no_list_is_refused_before_its_first_key(text: bytes, message: str) -> None:
    """M6: a list in another encoding would be read as other keys, and none of them found."""
    with pytest.raises(SourceError, match=f"^list.bin: .*{message}"):
        next(read_lines(Text(text), "list.bin", WHOLE_LINE))


def test_lines_of_hash_and_count_have_one_key_each() -> None:
    """M6: the form of breach lists, one flag."""
    text = b"0018A45C4D1DEF81644B54AB7F969B88D65:10\r\n00D4F6E8FA6EECAD2A3AA415EEC418D38EC:2\r\n"

    found = _hashes(read_lines(Text(text), "list", line_format(":", None)))

    assert found == _expected([line.split(b":")[0] for line in text.splitlines()])


def test_a_line_with_too_few_fields_is_named_by_its_number(
    monkeypatch: pytest.MonkeyPatch, bloom: BloomFilter
) -> None:
    """Counted over all blocks, empty lines too; of its block nothing is added."""
    monkeypatch.setattr(lines, "BLOCK_BYTES", 10)
    text = b"a:1\n\nb:2\nc:3\nnone\nd:4\n"
    first, second, _third = read_lines(Text(text), "list.csv", LineFormat(58, 2))

    assert bloom.update(first) == 2
    with pytest.raises(SourceError, match=r"^list.csv, line 5: the line has fewer fields"):
        bloom.update(second)
    assert bloom.keys_added == 2


def test_a_line_that_is_no_hexadecimal_is_named_by_its_number() -> None:
    """A digest with a typing error would be a key that nobody finds."""
    digests = BloomFilter.in_memory(capacity=100, fpr=0.01, key_form="hex")
    good, bad = b"00ff\nABCD\n", b"00ff\n\nABCG\n"

    assert digests.update(next(read_lines(Text(good), "list", WHOLE_LINE))) == 2
    with pytest.raises(KeyValueError, match=r"^list, line 3: key form hex: a character"):
        digests.update(next(read_lines(Text(bad), "list", WHOLE_LINE)))
    assert "abcd" in digests
    assert digests.keys_added == 2


def test_the_lines_of_a_block_are_selected_by_their_answers(bloom: BloomFilter) -> None:
    """As they were, with their CR; the last one gets its LF."""
    bloom.update(["a", "c"])
    blocks = list(read_lines(Text(b"a\r\n\nb\nc"), "list", WHOLE_LINE))

    answers = [bloom.contains_many(block) for block in blocks]
    found = [block.select(flags) for block, flags in zip(blocks, answers, strict=True)]
    others = [block.select(~flags) for block, flags in zip(blocks, answers, strict=True)]

    assert [flags.tolist() for flags in answers] == [[True, False], [True]]
    assert found == [b"a\r\n", b"c\n"]
    assert others == [b"b\n", b""]
    assert blocks[0].select(answers[0], wanted=False) == others[0]


def test_a_block_of_empty_lines_has_no_keys(bloom: BloomFilter) -> None:
    """Nothing to add, nothing to answer, nothing to select."""
    block = next(read_lines(Text(b"\n\r\n\n"), "list", WHOLE_LINE))

    assert bloom.update(block) == 0
    assert bloom.contains_many(block).tolist() == []
    assert block.select(np.empty(0, np.bool_)) == b""


@pytest.mark.parametrize(
    ("delimiter", "field", "expected"),
    [
        (None, None, (0, 0)),
        (":", None, (58, 1)),
        (":", 1, (58, 1)),
        ("\t", 3, (9, 3)),
        (" ", 2, (32, 2)),
    ],
)
def test_a_delimiter_alone_means_its_first_field(
    delimiter: str | None, field: int | None, expected: tuple[int, int]
) -> None:
    """Without one the key is the whole line."""
    assert line_format(delimiter, field)[:2] == expected


@pytest.mark.parametrize(
    ("delimiter", "field", "name", "error"),
    [
        (None, 1, "field", ParameterError),
        ("", None, "delimiter", ParameterError),
        ("::", None, "delimiter", ParameterError),
        ("\xe9", None, "delimiter", ParameterError),
        ("\n", None, "delimiter", ParameterError),
        ("\r", None, "delimiter", ParameterError),
        (":", 0, "field", ParameterError),
        (":", -1, "field", ParameterError),
        (":", 1.5, "field", ParameterTypeError),
        (":", "2", "field", ParameterTypeError),
        (":", True, "field", ParameterTypeError),
        (b":", None, "delimiter", ParameterTypeError),
    ],
)
def test_a_wrong_format_of_lines_is_refused_by_the_name_of_the_parameter(
    delimiter: str | None, field: int | None, name: str, error: type[ParameterError]
) -> None:
    """Before the list is opened."""
    with pytest.raises(error) as caught:
        line_format(delimiter, field)

    assert caught.value.name == name
