"""CSV and TSV: records with quotes, of which one column is the key.

pyarrow reads them, one text block at a time. It does not say where records begin. ``quoting`` finds
out where that is needed: in text blocks with quotes, which may contain line breaks, and for the
line numbers in errors.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, overload

from mmbloom.errors import SourceError
from mmbloom.keys.lines import UTF8_MARK, Block
from mmbloom.keys.records import records_of
from mmbloom.sources.quoting import end_of_well_quoted, record_pattern, torn_field_pattern
from mmbloom.sources.source import NEEDS_PYARROW, FileSource

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mmbloom.sources.bad_lines import BadLines
    from mmbloom.sources.files import ListFile
    from mmbloom.sources.source import KeyBlock

LONGEST_RECORD_BYTES = 1 << 24  # an unclosed quote must not swallow the list
_OFFSET_BYTES = 4
_SHOWN_ERRORS = 5


class Dialect(NamedTuple):
    """How records are written, and which column is the key: by its name, or its number from 1."""

    delimiter: str
    column: str | int | None
    has_header: bool
    comment: str | None = None


class Delimited(FileSource):
    """Records of fields between delimiters. A field may be in double quotes."""

    def __init__(self, file: ListFile, dialect: Dialect, bad: BadLines) -> None:
        super().__init__(file)
        self._dialect, self._bad = dialect, bad
        self._comment = dialect.comment.encode() if dialect.comment else b""
        self._record = record_pattern(dialect.delimiter.encode(), self._comment)
        self._torn_field = torn_field_pattern(dialect.delimiter.encode())
        self._num_fields = self._column = 0  # known when the first record was read
        self._begin = 0

    def skip_to(self, position: Any) -> None:  # noqa: ANN401 - what position was
        """Begin after a *position*. The text before it is read, for the header is there."""
        self.text_bytes, self.lines_read = self.position = position
        self._begin = position[0]

    def blocks(self) -> Iterator[KeyBlock]:
        """Yield the keys of text blocks of records."""
        for block in self._whole_records():
            self.note_end(block)
            if block.end <= self._begin:
                continue
            start = block.end - len(block.data)
            yield self._read(_without(block, max(0, self._begin - start)))

    def _whole_records(self) -> Iterator[Block]:
        """Yield text blocks of whole records, without the header."""
        rest = b""
        for found in self._blocks:
            block = _joined(rest, found)
            if not self._num_fields:
                block = _without(block, self._read_head(block))
            end = self._end_of_records(block)
            rest = bytes(block.data[end:])
            if end:
                yield _cut(block, end)
            if len(rest) > LONGEST_RECORD_BYTES:
                raise self._unclosed(rest)
        if rest:  # under any policy: all records after the quote would be lost
            raise self._unclosed(rest)

    def _unclosed(self, rest: bytes) -> SourceError:
        line = self._blocks.lines_read - rest.count(b"\n") + (1 if rest.endswith(b"\n") else 0)
        return SourceError(
            f"{self.name}, line {line}: unterminated quoted field; everything after it would be "
            "lost. Fix this line"
        )

    def _torn(self, block: Block, start: int) -> SourceError:
        line = block.first_line + bytes(block.data[:start]).count(b"\n")
        return SourceError(
            f"{self.name}, line {line}: a quoted field of several lines is followed by more text: "
            "a stray double quote has swallowed other records. Fix this line"
        )

    def _end_of_records(self, block: Block) -> int:
        """Return where the last complete record of a text block ends."""
        if not _has(block.data, b'"'):
            return len(block.data)
        end = -1
        if not (self._comment and _has(block.data, self._comment)):
            end = end_of_well_quoted(_ended(block.data), self._dialect.delimiter.encode())
        if end >= 0:
            return min(end, len(block.data))
        end = 0
        for match in self._record.finditer(_ended(block.data)):
            if match.start() != end:
                break  # after a quote that is not closed yet
            if self._torn_field.search(match[0]):
                raise self._torn(block, match.start())
            end = match.end()
        return min(end, len(block.data))

    def _read_head(self, block: Block) -> int:
        """Learn the fields from the first record; return where the records with keys begin."""
        start, data = 0, _ended(block.data)
        while match := self._record.match(data, start):
            record = match[0].rstrip(b"\r\n")
            if record and not (self._comment and record.startswith(self._comment)):
                break
            start = match.end()
            if start >= len(data):
                return len(block.data)
        if match is None:
            return 0
        fields = _fields_of(record, self._dialect.delimiter)
        self._num_fields = len(fields)
        self._column = column_number(self.name, self._dialect.column, fields)
        return min(match.end(), len(block.data)) if self._dialect.has_header else start

    def _read(self, block: Block) -> KeyBlock:
        """Return the keys of a text block of whole records."""
        try:
            import pyarrow as pa
            from pyarrow import csv
        except ModuleNotFoundError as exc:
            raise SourceError(f"{self.name}: {NEEDS_PYARROW}") from exc
        data = self._without_comments(block.data)
        rows = _RecordLines(self._record, data, block.first_line)

        def note_bad(row: Any) -> str:  # noqa: ANN401 - pyarrow's InvalidRow
            rows.bad[row.number - 1] = row.actual_columns
            return "skip"

        names = [str(i) for i in range(self._num_fields)]
        wanted = names[self._column]
        try:
            table = csv.read_csv(
                pa.BufferReader(_shielded(data)),
                csv.ReadOptions(use_threads=False, block_size=len(data) + 4, column_names=names),
                csv.ParseOptions(
                    delimiter=self._dialect.delimiter,
                    newlines_in_values=True,
                    invalid_row_handler=note_bad,
                ),
                csv.ConvertOptions(include_columns=[wanted], column_types={wanted: pa.binary()}),
            )
        except pa.ArrowInvalid as exc:
            raise SourceError(f"{self.name}, from line {block.first_line} on: {exc}") from exc
        self._report(rows)
        keys = table.column(0).combine_chunks()
        _, offsets, values = keys.buffers() if len(keys) else (None, bytes(_OFFSET_BYTES), None)
        return records_of(values or b"", offsets, _OFFSET_BYTES, self.name, lines=rows)

    def _report(self, rows: _RecordLines) -> None:
        """Count the records with the wrong number of fields."""
        errors = []
        for row, num_fields in list(rows.bad.items())[:_SHOWN_ERRORS]:
            where = f"{self.name}, line {rows.line_of_record(row)}"
            errors.append(
                SourceError(f"{where}: expected {self._num_fields} fields, found {num_fields}")
            )
        self._bad.add_many(errors, len(rows.bad))

    def _without_comments(self, data: memoryview) -> memoryview | bytes:
        """Make comments empty lines, which are not records, so that line numbers stay right."""
        if not self._comment or not _has(data, self._comment):
            return data
        comment = self._comment

        def emptied(match: re.Match[bytes]) -> bytes:
            return b"\n" if match[0].startswith(comment) else match[0]

        return self._record.sub(emptied, bytes(_ended(data)))


class _RecordLines(Sequence[int]):
    """The line of each good record of a text block, found when it is asked for.

    Attributes:
        bad: for each record, from 0, with the wrong number of fields: that number.
    """

    def __init__(
        self, record: re.Pattern[bytes], data: memoryview | bytes, first_line: int
    ) -> None:
        self.bad: dict[int, int] = {}
        self._record, self._data, self._first_line = record, data, first_line
        self._lines: list[int] = []

    def line_of_record(self, index: int) -> int:
        """Return the line where a record, good or bad, begins."""
        if not self._lines:
            line = self._first_line
            for match in self._record.finditer(_ended(self._data)):
                if match[0].strip(b"\r\n"):
                    self._lines.append(line)
                line += match[0].count(b"\n")
        return self._lines[index]

    def __len__(self) -> int:
        self.line_of_record(0)
        return len(self._lines) - len(self.bad)

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> list[int]: ...
    def __getitem__(self, index: int | slice) -> int | list[int]:
        self.line_of_record(0)
        return [line for i, line in enumerate(self._lines) if i not in self.bad][index]


def column_number(name: str, column: str | int | None, names: Sequence[str]) -> int:
    """Return the number of the column among *names*, from 0.

    Raises:
        SourceError: there is no such column, or more than one.
    """
    there = ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")  # noqa: PLR2004 - enough
    if column is None:
        if len(names) == 1:
            return 0
        raise SourceError(f"{name}: has {len(names)} columns; give one as column: {there}")
    if isinstance(column, int):
        if column > len(names):
            raise SourceError(f"{name}: no column {column}; there are {len(names)}: {there}")
        return column - 1
    count = names.count(column)
    if count != 1:
        what = "no column" if not count else f"{count} columns"
        raise SourceError(f"{name}: {what} named {column!r}; there are: {there}")
    return names.index(column)


def _fields_of(record: bytes, delimiter: str) -> list[str]:
    import csv

    text = record.decode(errors="surrogateescape")
    limit = csv.field_size_limit(len(text) + 1)
    try:
        return next(csv.reader([text], delimiter=delimiter, strict=False))
    finally:
        csv.field_size_limit(limit)


def _has(data: memoryview | bytes, what: bytes) -> bool:
    return re.search(re.escape(what), data) is not None


def _ended(data: memoryview | bytes) -> memoryview | bytes:
    """Return *data* with an end of line at its end, which a list may lack."""
    return data if data[-1:] == b"\n" else bytes(data) + b"\n"


def _shielded(data: memoryview | bytes) -> memoryview | bytes:
    """Return *data* with two marks if it has one: pyarrow drops the first, even if of a key."""
    return UTF8_MARK + data if bytes(data[: len(UTF8_MARK)]) == UTF8_MARK else data


def _joined(rest: bytes, block: Block) -> Block:
    """Return a text block with the rest of the previous one before it."""
    if not rest:
        return block
    num_lines = rest.count(b"\n")
    return Block(
        memoryview(rest + block.data),
        block.first_line - num_lines,
        block.num_lines + num_lines,
        block.end,
    )


def _without(block: Block, start: int) -> Block:
    """Return a text block without its first *start* bytes, which are whole lines."""
    if not start:
        return block
    num_lines = bytes(block.data[:start]).count(b"\n")
    data = block.data[start:]
    return Block(data, block.first_line + num_lines, block.num_lines - num_lines, block.end)


def _cut(block: Block, end: int) -> Block:
    """Return the first *end* bytes of a text block, which are whole lines."""
    if end == len(block.data):
        return block
    num_lines = bytes(block.data[:end]).count(b"\n")
    past = len(block.data) - end
    return Block(block.data[:end], block.first_line, num_lines, block.end - past)
