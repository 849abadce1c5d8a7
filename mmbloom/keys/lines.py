"""Streams of text -> batches of text lines.

A list is read in text blocks. Each ends with a complete line, so the engine can split it without
the next one. Text is copied once, from the stream into the text block. Only a line that crosses the
end of a text block is copied again, to the start of the next.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

from mmbloom.engine import LinesBatch, count_lines
from mmbloom.errors import ParameterError, ParameterTypeError, SourceError
from mmbloom.keys.pieces import Piece

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from _typeshed import ReadableBuffer as Buffer

    FindEnd = Callable[[bytearray, int, int], int]

Blank = Literal["skip", "key", "bad"]

BLOCK_BYTES = 1 << 20
LONGEST_LINE_BYTES = 1 << 30
MOST_FIELDS = LONGEST_LINE_BYTES  # a line has no more
UTF8_MARK = b"\xef\xbb\xbf"
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_BLANKS = {"skip": 0, "key": 1, "bad": 2}  # the engine's numbers
_LF = ord("\n")
_KEPT_BUFFERS = 8  # for the text blocks that threads work on, and some that wait


class ByteStream(Protocol):
    """A stream that a list is read from."""

    def readinto(self, room: memoryview, /) -> int:
        """Read at least one byte into *room*, which is not empty; return 0 at the end."""

    def skip(self, num_bytes: int, /) -> None:
        """Skip this many bytes."""


class LineFormat(NamedTuple):
    """Which lines are keys, and which part of a line is the key.

    The key is field number *field*, counted from 1, of the fields that the byte *delimiter*
    separates; with *field* 0 it is the whole line. Lines that start with the byte *comment* are
    ignored; with *comment* 0 there are no comments. *blank* says how to treat an empty line. With
    *digests* a line with an empty key is a bad line.
    """

    delimiter: int = 0
    field: int = 0
    comment: int = 0
    blank: Blank = "skip"
    digests: bool = False


class Lines(NamedTuple):
    """Complete lines of a list: a batch of keys for contains_many(), update() and build()."""

    data: memoryview
    batch: LinesBatch

    def __key_pieces__(self) -> Iterator[Piece]:
        """Yield these lines as one piece; its number of rows is an upper bound."""
        yield Piece(self.batch, len(self.batch))

    def select(self, flags: Buffer, *, wanted: bool = True) -> bytearray:
        """Return the lines whose flag is *wanted*, each with its LF.

        *flags* are the answers of contains_many(), one per key.
        """
        return self.batch.select(memoryview(flags).cast("B"), wanted)


class Block(NamedTuple):
    """A text block: *num_lines* complete lines, the first of which has number *first_line*.

    *end* is the offset in the text of the list at which they end, in bytes.
    """

    data: memoryview
    first_line: int
    num_lines: int
    end: int


def line_format(
    delimiter: str | None = None,
    field: int | None = None,
    comment: str | None = None,
    blank: Blank = "skip",
) -> LineFormat:
    """Return the format for these options. A delimiter without a field selects the first field.

    Raises:
        ParameterError: *delimiter* or *comment* is not one ASCII character, *field* is below 1 or
            was given without a delimiter, or *blank* has another value.
        ParameterTypeError: *delimiter* or *comment* is not a str, or *field* is not an int.
    """
    if blank not in _BLANKS:
        raise ParameterError("blank", "'skip', 'key' or 'bad'", blank)
    mark = 0 if comment is None else ascii_character("comment", comment)
    if delimiter is None:
        if field is not None:
            hint = "for example ':' or a tab"
            raise ParameterError("field", "a delimiter together with it", field, hint)
        return LineFormat(comment=mark, blank=blank)
    number = 1 if field is None else field
    separator = ascii_character("delimiter", delimiter)
    if not isinstance(number, int) or isinstance(number, bool):
        raise ParameterTypeError("field", "an int", number)
    if not 1 <= number <= MOST_FIELDS:
        raise ParameterError("field", f"1 to {MOST_FIELDS}", number)
    return LineFormat(separator, number, mark, blank)


def ascii_character(name: str, text: str) -> int:
    """Return the code of the character that the parameter *name* gives.

    Raises:
        ParameterError: *text* is not one ASCII character, or is one that ends a line.
        ParameterTypeError: *text* is not a str.
    """
    if not isinstance(text, str):
        raise ParameterTypeError(name, "a str", text)
    if len(text) != 1 or not text.isascii() or text in "\r\n\0":
        raise ParameterError(name, "one ASCII character that does not end a line", text)
    return ord(text)


def lines_of(block: Block, name: str, form: LineFormat) -> Lines:
    """Return the keys of a text block of the list *name*."""
    delimiter, field, comment, blank, digests = form
    batch = LinesBatch(
        block.data,
        name,
        block.first_line,
        delimiter,
        field,
        comment,
        _BLANKS[blank],
        block.num_lines,
        digests,
    )
    return Lines(block.data, batch)


class Blocks:
    """A stream of text, split into text blocks of complete lines, in order.

    A UTF-8 byte order mark is not part of a line. A text block stays valid after the next one is
    read. Iterating raises SourceError if the list is binary (a NUL byte in its first text block) or
    UTF-16, or if a line is longer than 1 GiB.

    Attributes:
        text_bytes: the offset at which the last text block ended.
        lines_read: the number of lines up to there.
    """

    def __init__(self, stream: ByteStream, name: str, find_end: FindEnd | None = None) -> None:
        """Read from *stream*.

        *find_end* returns the offset at which the last complete record of a buffer ends, or 0 if
        there is none. Its arguments are the buffer, the offset of the first new byte, and the end
        of the data. By default each line is a record.
        """
        self._stream, self._name = stream, name
        self._find_end: FindEnd = find_end or _end_of_lines
        self._buffers = _Buffers()
        self.text_bytes = 0
        self.lines_read = 0

    def skip_to(self, text_bytes: int, lines_read: int) -> None:
        """Continue after a text block that ended there. Call this before reading the first one."""
        self._stream.skip(text_bytes)
        self.text_bytes, self.lines_read = text_bytes, lines_read

    def __iter__(self) -> Iterator[Block]:
        """Yield the text blocks."""
        buffer = self._buffers.take(BLOCK_BYTES)
        filled = self._read_first(buffer)
        is_new, is_over = 0, not filled
        while not is_over:
            end = self._find_end(buffer, is_new, filled)
            rest = filled - end
            if end:
                yield self._block(memoryview(buffer)[:end])
            elif rest > LONGEST_LINE_BYTES:
                what = f"longer than {LONGEST_LINE_BYTES} bytes"
                raise SourceError(
                    f"{self._name}, line {self.lines_read + 1}: {what}; is this a list of keys?"
                )
            if end or filled == len(buffer):
                unfinished = memoryview(buffer)[end:filled]  # keeps the buffer from being reused
                buffer, filled = self._buffers.take(max(BLOCK_BYTES, 2 * rest)), rest
                buffer[:rest] = unfinished
                del unfinished
            is_new = filled
            filled += self._stream.readinto(memoryview(buffer)[filled:])
            is_over = filled == is_new
        if filled:
            yield self._block(memoryview(buffer)[:filled])

    def _read_first(self, buffer: bytearray) -> int:
        """Read the first bytes, without the byte order mark; return their number."""
        filled = self._stream.readinto(memoryview(buffer))
        _refuse_binary(buffer, filled, self._name)
        if self.text_bytes or not buffer.startswith(UTF8_MARK):
            return filled
        self.text_bytes = len(UTF8_MARK)
        buffer[: filled - self.text_bytes] = buffer[self.text_bytes : filled]
        # A read may return a single byte, so there may be nothing yet after the mark.
        return filled - self.text_bytes or self._stream.readinto(memoryview(buffer))

    def _block(self, data: memoryview) -> Block:
        """Return a text block, and record where it ends. The last line may lack its LF."""
        first_line = self.lines_read + 1
        num_lines = count_lines(data) + (data[-1] != _LF)
        self.lines_read += num_lines
        self.text_bytes += len(data)
        return Block(data, first_line, num_lines, self.text_bytes)


class _Buffers:
    """Buffers, reused when no view of them is left: first access to new memory is slow."""

    def __init__(self) -> None:
        self._kept: list[bytearray] = []

    def take(self, num_bytes: int) -> bytearray:
        """Return a buffer of *num_bytes* bytes that is not in use. Its contents are arbitrary."""
        for buffer in self._kept:
            if len(buffer) == num_bytes and _is_free(buffer):
                return buffer
        fresh = bytearray(num_bytes)
        if num_bytes == BLOCK_BYTES and len(self._kept) < _KEPT_BUFFERS:
            self._kept.append(fresh)
        return fresh


def _is_free(buffer: bytearray) -> bool:
    """Return whether no view of a buffer exists: a buffer with views cannot change its size."""
    try:
        buffer.pop()
    except BufferError:
        return False
    buffer.append(0)  # fits into the allocated memory: nothing is copied
    return True


def _end_of_lines(buffer: bytearray, is_new: int, filled: int) -> int:
    return buffer.rfind(b"\n", is_new, filled) + 1


def _refuse_binary(buffer: bytearray, filled: int, name: str) -> None:
    if buffer.startswith(UTF16_MARKS):
        hint = "for example with iconv -f UTF-16 -t UTF-8"
        raise SourceError(f"{name}: UTF-16 text: convert it first, {hint}")
    offset = buffer.find(b"\0", 0, filled)
    if offset >= 0:
        raise SourceError(
            f"{name}: binary: a NUL byte at offset {offset}. A list is text with one key per line; "
            "for binary keys use the Python interface"
        )
