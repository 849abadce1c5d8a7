"""Lists of keys on disk or on standard input: opened, and recognised by content, not by name.

Owns what a list looks like from outside: its compression, whether it is a table, and the archives
that people take for a list. ``compression`` unpacks; text, lines and keys are the business of
``mmbloom.keys.lines``, tables that of ``mmbloom.sources.tables``.
"""

from __future__ import annotations

import io
import os
import select
import stat
from typing import TYPE_CHECKING, Any, Literal, Self

from mmbloom.errors import SourceError
from mmbloom.sources import compression
from mmbloom.storage.closing import Closing
from mmbloom.storage.paths import path_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mmbloom.storage.paths import FilePath

    Read = Callable[[int], bytes]

STDIN = "-"
STDIN_NAME = "standard input"

_PIPE = "give its text on standard input, for instance with: {} | mmbloom ..."
_EXPORT = "export the column of keys as text first, or use mmbloom.build() in Python"
# What is no list, and what to do. Every magic has a byte that text has not, or is too long for
# chance: a password may begin with PAR1.
_REFUSED = {
    b"7z\xbc\xaf\x27\x1c": ("7-Zip", _PIPE.format("7z x -so FILE")),
    b"PK\x03\x04": ("zip", _PIPE.format("unzip -p FILE")),
    b"Rar!\x1a\x07": ("RAR", _PIPE.format("unrar p -inul FILE")),
    b"\x04\x22\x4d\x18": ("LZ4", _PIPE.format("lz4cat FILE")),
    b"\x1f\x9d": ("compress (.Z)", _PIPE.format("zcat FILE")),
    b"LZIP\x01": ("lzip", _PIPE.format("lzip -dc FILE")),
    b"\xff\x06\x00\x00sNaPpY": ("Snappy", "unpack it to text first"),
    b"FEA1\0": ("Feather version 1", _EXPORT),
    b"SQLite format 3\0": ("SQLite", _EXPORT),
    b"%PDF-1.": ("PDF", "export its text first"),
    b"\x89MMB\r\n\x1a\n": (
        "mmbloom filter",
        "a filter does not hold its keys; 'mmbloom merge' unites filters",
    ),
}
# Tables, which pyarrow reads. A stream of Arrow begins with a mark and the length of its schema.
Table = Literal["Parquet", "Arrow file", "Arrow stream"]
_TABLES: dict[bytes, Table] = {b"PAR1\x15": "Parquet", b"ARROW1\0\0": "Arrow file"}
_STREAM_MARK, _STREAM_START_BYTES, _MOST_SCHEMA_BYTES = b"\xff\xff\xff\xff", 8, 1 << 24
_TAR_OFFSET, _TAR = 257, b"ustar"
# What who reads the text looks for at its start: the first read() gives it whole.
_BYTE_ORDER_MARKS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")
_STARTS = (*_REFUSED, *_TABLES, *compression.MAGICS, *_BYTE_ORDER_MARKS)
_START_BYTES = 1 << 14
_SKIPPED_BYTES = 1 << 20


class ListFile(Closing):
    """One list, open for reading as bytes of text.

    Guarantee: all of the text is read, or SourceError is raised: a list that was cut short or
        damaged is never taken for a shorter one.
    Limits: read once, from front to end, by one thread.

    Attributes:
        name: the path, or "standard input".
        compression: "gzip", "xz", "zstd", "bzip2" or None.
        table: what kind of table it is, or None. A table is read through open_table().
    """

    def __init__(self, raw: io.FileIO, name: str) -> None:
        self.name = name
        self._raw = raw
        self._reader = _Reader(raw, name)
        self._texts: Iterator[bytes] | None = None
        self._start = memoryview(_start_of(self._reader.read))
        start = bytes(self._start)
        _refuse_cut_magic(start, name)
        self.compression = _compression_of(start)
        self.table = _table_of(start)
        if self.compression is not None:
            self._texts = self._unpack(self.compression, start)
            start = _start_of(lambda _size: next(self._texts or iter(()), b""))
            self._start = memoryview(start)
            inner = _compression_of(start) or _table_of(start)
            if inner is not None:
                raise SourceError(
                    f"{name}: {inner} data within {self.compression} data: unpack it once first"
                )
        _refuse(start, name)

    @classmethod
    def open(cls, path: FilePath) -> Self:
        """Open the list at *path*; "-" is standard input, descriptor 0.

        Raises:
            OSError: what the operating system says.
            SourceError: a format that is no list, or damage at the start of a compressed one.
        """
        text = path_text(path)
        is_stdin = text == STDIN
        name = STDIN_NAME if is_stdin else text
        try:
            raw = io.FileIO(0 if is_stdin else text, "rb", closefd=not is_stdin)
        except OSError as exc:
            exc.filename = name
            raise
        try:
            return cls(raw, name)
        except BaseException:
            raw.close()
            raise

    @property
    def total_bytes(self) -> int:
        """Size of the file, compressed as it is; 0 for a pipe, a terminal or a device."""
        return self._reader.total_bytes

    @property
    def done_bytes(self) -> int:
        """Bytes read from the file so far, compressed as they are."""
        return self._reader.done_bytes

    def readinto(self, room: memoryview) -> int:
        """Fill *room* with the next text, as far as there is; return how many bytes, 0 at the end.

        A pipe or a terminal is not waited for when it has given something: who writes one key and
        waits for the answer gets it.

        Raises:
            SourceError: the compressed data is damaged, or was cut short.
            OSError: reading failed.
        """
        done = 0
        while done < len(room) and not (done and self._would_wait()):
            count = self._read_some(room[done:])
            if not count:
                break
            done += count
        return done

    def skip(self, num_bytes: int) -> None:
        """Pass over the next *num_bytes* of text, which are there. Plain text is not read for that.

        Raises:
            SourceError: the text ends before, or is damaged. OSError: reading failed.
        """
        left = num_bytes - len(self._start)
        if self._texts is None and left >= 0 and self._reader.can_skip(left):
            self._start = memoryview(b"")
            self._reader.skip(left)
            return
        scratch = memoryview(bytearray(min(num_bytes, _SKIPPED_BYTES)))
        left = num_bytes
        while left:
            count = self.readinto(scratch[:left])
            if not count:
                raise SourceError(
                    f"{self.name}: ends {left} bytes before the place to go on from: it has "
                    "become shorter since it was read. Begin anew"
                )
            left -= count

    def open_table(self) -> io.FileIO:
        """Return the file of a table, at its start; close() closes it.

        Raises:
            SourceError: it is no file with a size: tables are not read front to end.
        """
        if not self._reader.is_regular:
            raise SourceError(
                f"{self.name}: {self.table} data is read here and there, not front to end: give "
                "the name of a file"
            )
        self._raw.seek(0)
        return self._raw

    def close(self) -> None:
        """Close the file; standard input stays open."""
        self._reader.close()

    def _read_some(self, room: memoryview) -> int:
        """Put at least one byte of text into *room*, or return 0 at the end."""
        if not self._start and self._texts is not None:
            self._start = memoryview(next(self._texts, b""))
        elif not self._start:
            return self._reader.read_into(room)
        count = min(len(self._start), len(room))
        room[:count] = self._start[:count]
        self._start = self._start[count:]
        return count

    def _would_wait(self) -> bool:
        return not self._start and self._reader.would_wait()

    def _unpack(self, form: str, start: bytes) -> Iterator[bytes]:
        """Return the texts of packed data, of which *start* has been read."""
        starts = [start]

        def read_packed(size: int) -> bytes:
            return starts.pop() if starts else self._reader.read(size)

        return compression.unpack(form, self.name, read_packed)


class _Reader:
    """A descriptor: counts what it gives, says whether it would wait, is named in errors."""

    def __init__(self, raw: io.FileIO, name: str) -> None:
        self._raw = raw
        self._name = name
        found = os.fstat(raw.fileno())
        self.is_regular = stat.S_ISREG(found.st_mode)
        self._has_ended = False
        self._poll = select.poll()
        self._poll.register(raw, select.POLLIN)
        self.total_bytes = found.st_size if self.is_regular else 0
        self.done_bytes = 0

    def read(self, size: int) -> bytes:
        """Return up to *size* bytes in one call of the system, b"" at the end and ever after."""
        data: bytes = self._ask(self._raw.read, size) or b""
        self._note(len(data))
        return data

    def read_into(self, room: memoryview) -> int:
        """Put bytes into *room* in one call of the system; return how many, 0 at the end."""
        count: int = self._ask(self._raw.readinto, room) or 0
        self._note(count)
        return count

    def can_skip(self, num_bytes: int) -> bool:
        """Tell whether so many bytes are there, and need not be read to get past them."""
        return self.is_regular and self.done_bytes + num_bytes <= self.total_bytes

    def skip(self, num_bytes: int) -> None:
        """Go on behind the next *num_bytes*."""
        self.done_bytes = self._raw.seek(num_bytes, io.SEEK_CUR)

    def _ask(self, call: Callable[[Any], Any], argument: object) -> Any:  # noqa: ANN401 - either call
        """Read in one call of the system, waiting for data; None at the end."""
        if self._has_ended:  # a terminal would go on
            return None
        try:
            answer = call(argument)
            while answer is None:  # another process made the pipe non-blocking: no data is no end
                self._poll.poll()
                answer = call(argument)
        except OSError as exc:
            exc.filename = self._name
            raise
        return answer

    def _note(self, num_bytes: int) -> None:
        self._has_ended = not num_bytes
        self.done_bytes += num_bytes
        if self._has_ended and self.is_regular:
            end = self._raw.tell()
            if end < self.total_bytes:
                raise SourceError(
                    f"{self._name}: it was cut to {end} of its {self.total_bytes} bytes while it "
                    "was read: read it again when it is whole"
                )

    def would_wait(self) -> bool:
        """Tell whether the next read has nothing to return yet."""
        if self.is_regular or self._has_ended:
            return False
        return not self._poll.poll(0)

    def close(self) -> None:
        self._raw.close()


def _start_of(read: Read) -> bytes:
    """Read until it is clear what the data starts with. A slow pipe may give one byte at a time."""
    start = b""
    while more := read(_START_BYTES):
        start += more
        if not any(len(start) < len(magic) and magic.startswith(start) for magic in _STARTS):
            break
    return start


def _compression_of(start: bytes) -> str | None:
    matches = (form for magic, form in compression.MAGICS.items() if start.startswith(magic))
    return next(matches, None)


def _table_of(start: bytes) -> Table | None:
    length = int.from_bytes(start[len(_STREAM_MARK) : _STREAM_START_BYTES], "little")
    if start.startswith(_STREAM_MARK) and 0 < length < _MOST_SCHEMA_BYTES:
        return "Arrow stream"
    matches = (what for magic, what in _TABLES.items() if start.startswith(magic))
    return next(matches, None)


def _refuse_cut_magic(start: bytes, name: str) -> None:
    """Raise for a file that ends within its magic. One that is ASCII so far may be a key: "7z"."""
    if len(start) < 2 or start.isascii():  # noqa: PLR2004 - one byte says nothing
        return
    forms = {magic: what for magic, (what, _) in _REFUSED.items()}
    forms |= compression.MAGICS | _TABLES
    for magic, what in forms.items():
        if len(start) < len(magic) and magic.startswith(start):
            raise SourceError(
                f"{name}: {what} data, of which there are {len(start)} bytes only: the file was "
                "cut short. Copy it again"
            )


def _refuse(start: bytes, name: str) -> None:
    """Raise for data that is no text."""
    for magic, (what, remedy) in _REFUSED.items():
        if start.startswith(magic):
            raise SourceError(f"{name}: {what} data, not a list of keys: {remedy}")
    if start.startswith(_TAR, _TAR_OFFSET):
        raise SourceError(
            f"{name}: a tar archive, not a list of keys: {_PIPE.format('tar -xOf FILE')}"
        )
