"""Streams of text -> batches of lines.

A list is read in blocks; a block ends with a whole line, so that the engine can cut it without
knowing of the next one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from mmbloom.engine import LinesBatch, select_lines
from mmbloom.errors import ParameterError, ParameterTypeError, SourceError
from mmbloom.keys.pieces import Piece

if TYPE_CHECKING:
    from collections.abc import Iterator

    from _typeshed import ReadableBuffer as Buffer

BLOCK_BYTES = 1 << 20
LONGEST_LINE_BYTES = 1 << 30
MOST_FIELDS = LONGEST_LINE_BYTES  # a line has no more
UTF8_MARK = b"\xef\xbb\xbf"
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")


class ByteStream(Protocol):
    """What a list is read from."""

    def read(self, size: int, /) -> bytes:
        """Return up to *size* bytes, b"" at the end."""


class LineFormat(NamedTuple):
    """Which part of a line is the key: *field*, from 1, between *delimiter* bytes; 0: all of it."""

    delimiter: int = 0
    field: int = 0


class Lines(NamedTuple):
    """Whole lines of a list: a batch of keys that contains_many(), update() and build() take."""

    data: bytes
    batch: LinesBatch

    def __key_pieces__(self) -> Iterator[Piece]:
        """Yield the one piece that this is; its number of rows is an upper bound."""
        yield Piece(self.batch, len(self.batch))

    def select(self, flags: Buffer, *, wanted: bool = True) -> bytearray:
        """Return the lines whose flag is *wanted*, each with its LF.

        *flags* are as contains_many() answers, one a key.
        """
        return select_lines(self.data, memoryview(flags).cast("B"), wanted)


def line_format(delimiter: str | None, field: int | None) -> LineFormat:
    """Return the format that a user asked for: a delimiter alone means its first field.

    Raises:
        ParameterError: the delimiter is not one ASCII character, or the field is below 1 or given
            without delimiter. ParameterTypeError: no str, no int.
    """
    if delimiter is None:
        if field is not None:
            hint = "for instance ':' or a tab"
            raise ParameterError("field", "a delimiter beside it", field, hint)
        return LineFormat()
    if not isinstance(delimiter, str):
        raise ParameterTypeError("delimiter", "a str", delimiter)
    if len(delimiter) != 1 or not delimiter.isascii() or delimiter in "\r\n":
        rule = "one ASCII character that does not end a line"
        raise ParameterError("delimiter", rule, delimiter)
    number = 1 if field is None else field
    if not isinstance(number, int) or isinstance(number, bool):
        raise ParameterTypeError("field", "an int", number)
    if not 1 <= number <= MOST_FIELDS:
        raise ParameterError("field", f"1 to {MOST_FIELDS}", number)
    return LineFormat(ord(delimiter), number)


def read_lines(stream: ByteStream, name: str, form: LineFormat) -> Iterator[Lines]:
    """Cut *stream* into blocks of whole lines. A UTF-8 byte order mark is no part of a key.

    Raises:
        SourceError: the list is binary (a NUL byte in its first block), UTF-16, or one line takes
            more than 1 GiB.
    """
    first_line = 1
    unfinished: list[bytes] = []  # a line in pieces: joined once, however long it grows
    unfinished_bytes = 0
    for data in _blocks(stream, name):
        end = data.rfind(b"\n") + 1
        if end:
            lines = b"".join([*unfinished, data[:end]])
            yield _lines(lines, name, first_line, form)
            first_line += lines.count(b"\n")
            unfinished, unfinished_bytes = [], 0
        unfinished.append(data[end:])
        unfinished_bytes += len(data) - end
        if unfinished_bytes > LONGEST_LINE_BYTES:
            what = f"longer than {LONGEST_LINE_BYTES} bytes"
            raise SourceError(f"{name}, line {first_line}: {what}: is it a list?")
    if unfinished_bytes:
        yield _lines(b"".join(unfinished), name, first_line, form)


def _lines(data: bytes, name: str, first_line: int, form: LineFormat) -> Lines:
    return Lines(data, LinesBatch(data, name, first_line, form.delimiter, form.field))


def _blocks(stream: ByteStream, name: str) -> Iterator[bytes]:
    data = stream.read(BLOCK_BYTES)
    _refuse_binary(data, name)
    yield data.removeprefix(UTF8_MARK)
    while data := stream.read(BLOCK_BYTES):
        yield data


def _refuse_binary(data: bytes, name: str) -> None:
    if data.startswith(UTF16_MARKS):
        hint = "for instance with iconv -f UTF-16 -t UTF-8"
        raise SourceError(f"{name}: UTF-16 text: convert it first, {hint}")
    offset = data.find(b"\0")
    if offset >= 0:
        raise SourceError(
            f"{name}: binary: a NUL byte at offset {offset}. A list holds one key a line, as text; "
            "for binary keys use the Python interface"
        )
