"""Streams of text -> batches of lines.

A list is read in blocks; a block ends with a whole line, so that the engine can cut it without
knowing of the next one. Text is copied once, from the stream into the block; only a line that
crosses the end of a block is copied again, to the front of the next.
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
_KEPT_BUFFERS = 8  # as many blocks as threads work on, and some that wait


class ByteStream(Protocol):
    """What a list is read from."""

    def readinto(self, room: memoryview, /) -> int:
        """Put at least one byte into *room*, which is not empty, or return 0 at the end."""

    def skip(self, num_bytes: int, /) -> None:
        """Pass over so many bytes."""


class LineFormat(NamedTuple):
    """Which lines are keys, and which part of them.

    The key is *field*, from 1, between *delimiter* bytes; 0: all of the line. A line that begins
    with the byte *comment* is no key; 0: there is none. *blank* is what an empty line is.
    """

    delimiter: int = 0
    field: int = 0
    comment: int = 0
    blank: Blank = "skip"


class Lines(NamedTuple):
    """Whole lines of a list: a batch of keys that contains_many(), update() and build() take."""

    data: memoryview
    batch: LinesBatch

    def __key_pieces__(self) -> Iterator[Piece]:
        """Yield the one piece that this is; its number of rows is an upper bound."""
        yield Piece(self.batch, len(self.batch))

    def select(self, flags: Buffer, *, wanted: bool = True) -> bytearray:
        """Return the lines whose flag is *wanted*, each with its LF.

        *flags* are as contains_many() answers, one a key.
        """
        return self.batch.select(memoryview(flags).cast("B"), wanted)


class Block(NamedTuple):
    """Whole lines: *num_lines* of them from number *first_line* on.

    *end* is where they end in the text of the list, in bytes.
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
    """Return the format that a user asked for: a delimiter alone means its first field.

    Raises:
        ParameterError: the delimiter or the comment is not one ASCII character, the field is below
            1 or given without delimiter, blank is none of its values. ParameterTypeError: no str,
            no int.
    """
    if blank not in _BLANKS:
        raise ParameterError("blank", "'skip', 'key' or 'bad'", blank)
    mark = 0 if comment is None else ascii_character("comment", comment)
    if delimiter is None:
        if field is not None:
            hint = "for instance ':' or a tab"
            raise ParameterError("field", "a delimiter beside it", field, hint)
        return LineFormat(comment=mark, blank=blank)
    number = 1 if field is None else field
    separator = ascii_character("delimiter", delimiter)
    if not isinstance(number, int) or isinstance(number, bool):
        raise ParameterTypeError("field", "an int", number)
    if not 1 <= number <= MOST_FIELDS:
        raise ParameterError("field", f"1 to {MOST_FIELDS}", number)
    return LineFormat(separator, number, mark, blank)


def ascii_character(name: str, text: str) -> int:
    """Return the number of a character that the parameter *name* gives.

    Raises:
        ParameterError: not one ASCII character, or one that ends a line. ParameterTypeError: no
            str.
    """
    if not isinstance(text, str):
        raise ParameterTypeError(name, "a str", text)
    if len(text) != 1 or not text.isascii() or text in "\r\n\0":
        raise ParameterError(name, "one ASCII character that does not end a line", text)
    return ord(text)


def lines_of(block: Block, name: str, form: LineFormat) -> Lines:
    """Return the keys of a block of the list *name*."""
    delimiter, field, comment, blank = form
    batch = LinesBatch(
        block.data,
        name,
        block.first_line,
        delimiter,
        field,
        comment,
        _BLANKS[blank],
        block.num_lines,
    )
    return Lines(block.data, batch)


class Blocks:
    """A stream of text, cut into blocks of whole lines, in order.

    A UTF-8 byte order mark is no part of a line. A block stays valid after the next is asked for.
    Iterating raises SourceError: the list is binary (a NUL byte in its first block), UTF-16, or one
    line takes more than 1 GiB.

    Attributes:
        text_bytes: where the last block ended, and
        lines_read: how many lines there were up to there.
    """

    def __init__(self, stream: ByteStream, name: str, find_end: FindEnd | None = None) -> None:
        """Read from *stream*.

        *find_end* returns where the last whole record of a buffer ends, 0 if none does, given the
        buffer, from where on its bytes are new, and where they end. By default a line is one.
        """
        self._stream, self._name = stream, name
        self._find_end: FindEnd = find_end or _end_of_lines
        self._buffers = _Buffers()
        self.text_bytes = 0
        self.lines_read = 0

    def skip_to(self, text_bytes: int, lines_read: int) -> None:
        """Go on behind a block that ended there. Before the first block is asked for."""
        self._stream.skip(text_bytes)
        self.text_bytes, self.lines_read = text_bytes, lines_read

    def __iter__(self) -> Iterator[Block]:
        """Yield the blocks."""
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
                    f"{self._name}, line {self.lines_read + 1}: {what}: is it a list?"
                )
            if end or filled == len(buffer):
                unfinished = memoryview(buffer)[end:filled]  # so that nobody else gets its buffer
                buffer, filled = self._buffers.take(max(BLOCK_BYTES, 2 * rest)), rest
                buffer[:rest] = unfinished
                del unfinished
            is_new = filled
            filled += self._stream.readinto(memoryview(buffer)[filled:])
            is_over = filled == is_new
        if filled:
            yield self._block(memoryview(buffer)[:filled])

    def _read_first(self, buffer: bytearray) -> int:
        """Read the first bytes, without the byte order mark; return how many."""
        filled = self._stream.readinto(memoryview(buffer))
        _refuse_binary(buffer, filled, self._name)
        if self.text_bytes or not buffer.startswith(UTF8_MARK):
            return filled
        self.text_bytes = len(UTF8_MARK)
        buffer[: filled - self.text_bytes] = buffer[self.text_bytes : filled]
        # A stream gives at least one byte unless it is at its end, so the mark may be all so far.
        return filled - self.text_bytes or self._stream.readinto(memoryview(buffer))

    def _block(self, data: memoryview) -> Block:
        """Return a block, and note where it ends. The last line of a list may lack its LF."""
        first_line = self.lines_read + 1
        num_lines = count_lines(data) + (data[-1] != _LF)
        self.lines_read += num_lines
        self.text_bytes += len(data)
        return Block(data, first_line, num_lines, self.text_bytes)


class _Buffers:
    """Buffers that are used again when nobody looks at them: fresh memory is slow to touch."""

    def __init__(self) -> None:
        self._kept: list[bytearray] = []

    def take(self, num_bytes: int) -> bytearray:
        """Return a buffer of so many bytes that nobody else has; what is in it is of no account."""
        for buffer in self._kept:
            if len(buffer) == num_bytes and _is_free(buffer):
                return buffer
        fresh = bytearray(num_bytes)
        if num_bytes == BLOCK_BYTES and len(self._kept) < _KEPT_BUFFERS:
            self._kept.append(fresh)
        return fresh


def _is_free(buffer: bytearray) -> bool:
    """Tell whether no view of a buffer exists: one that is looked at cannot change its size."""
    try:
        buffer.pop()
    except BufferError:
        return False
    buffer.append(0)  # within the memory that it has: nothing moves
    return True


def _end_of_lines(buffer: bytearray, is_new: int, filled: int) -> int:
    return buffer.rfind(b"\n", is_new, filled) + 1


def _refuse_binary(buffer: bytearray, filled: int, name: str) -> None:
    if buffer.startswith(UTF16_MARKS):
        hint = "for instance with iconv -f UTF-16 -t UTF-8"
        raise SourceError(f"{name}: UTF-16 text: convert it first, {hint}")
    offset = buffer.find(b"\0", 0, filled)
    if offset >= 0:
        raise SourceError(
            f"{name}: binary: a NUL byte at offset {offset}. A list holds one key a line, as text; "
            "for binary keys use the Python interface"
        )
