"""Streams of text -> batches of lines.

A list is read in blocks; a block ends with a whole line, so that the engine can cut it without knowing of the next one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from mmbloom.engine import LinesBatch, select_lines
from mmbloom.errors import ParameterError, SourceError
from mmbloom.keys.batches import Piece

if TYPE_CHECKING:
    from collections.abc import Iterator

    from _typeshed import ReadableBuffer as Buffer

BLOCK_BYTES = 1 << 20
LONGEST_LINE_BYTES = 1 << 30


class ByteStream(Protocol):
    """What a list is read from."""

    def read(self, size: int, /) -> bytes:
        """Return up to *size* bytes, b"" at the end."""


class LineFormat(NamedTuple):
    """Which part of a line is the key: *field* (from 1) between *delimiter* bytes, or with field 0 the whole line."""

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
        """Return the lines whose flag is *wanted*, each with its LF; flags as contains_many() answers, one a key."""
        return select_lines(self.data, memoryview(flags).cast("B"), wanted)


def line_format(delimiter: str | None, field: int | None) -> LineFormat:
    """Return the format that a user asked for: a delimiter alone means its first field.

    Raises:
        ParameterError: the delimiter is not one ASCII character, or the field is below 1 or given without delimiter.
    """
    if delimiter is None:
        if field is not None:
            raise ParameterError("field", "a delimiter beside it", field, "for instance ':' or a tab")
        return LineFormat()
    if len(delimiter) != 1 or not delimiter.isascii() or delimiter in "\r\n":
        raise ParameterError("delimiter", "one ASCII character that does not end a line", delimiter)
    number = 1 if field is None else field
    if number < 1:
        raise ParameterError("field", "1 or more", number)
    return LineFormat(ord(delimiter), number)


def read_lines(stream: ByteStream, name: str, form: LineFormat) -> Iterator[Lines]:
    """Cut *stream* into blocks of whole lines.

    Raises:
        SourceError: the list is binary (a NUL byte in its first block), UTF-16, or one line takes more than 1 GiB.
    """
    rest = b""
    first_line = 1
    while True:
        data = stream.read(BLOCK_BYTES)
        if first_line == 1 and not rest:
            _refuse_binary(data, name)
        end = data.rfind(b"\n") + 1
        if end == 0 and data:
            rest += data
            if len(rest) > LONGEST_LINE_BYTES:
                raise SourceError(f"{name}, line {first_line}: longer than {LONGEST_LINE_BYTES} bytes: is it a list?")
            continue
        lines = rest + data[:end]
        rest = data[end:]
        if lines:
            yield Lines(lines, LinesBatch(lines, name, first_line, form.delimiter, form.field))
            first_line += lines.count(b"\n")
        if not data:
            return


def _refuse_binary(data: bytes, name: str) -> None:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise SourceError(f"{name}: UTF-16 text: convert it first, for instance with iconv -f UTF-16 -t UTF-8")
    if b"\0" in data:
        offset = data.index(b"\0")
        raise SourceError(
            f"{name}: binary: a NUL byte at offset {offset}. A list holds one key a line, as text; "
            "for binary keys use the Python interface"
        )
