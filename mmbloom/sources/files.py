"""Lists of keys on disk or on standard input: opened, and recognised by content, not by name.

Owns what a list looks like from outside: its compression, whether it is a table, and the archives
that are mistaken for lists. ``compression`` decompresses, ``mmbloom.keys.lines`` splits text into
lines and keys, ``tables`` reads tables.
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

_PIPE = "write its text to standard input, for example: {} | mmbloom ..."
_EXPORT = "export the column of keys as text first, or use mmbloom.build() in Python"
# Formats that are not lists, and what to do. Every magic has a byte that is not in text, or is too
# long to occur by chance: a password may begin with PAR1.
_REFUSED = {
    b"7z\xbc\xaf\x27\x1c": ("7-Zip", _PIPE.format("7z x -so FILE")),
    b"PK\x03\x04": ("zip", _PIPE.format("unzip -p FILE")),
    b"Rar!\x1a\x07": ("RAR", _PIPE.format("unrar p -inul FILE")),
    b"\x04\x22\x4d\x18": ("LZ4", _PIPE.format("lz4cat FILE")),
    b"\x1f\x9d": ("compress (.Z)", _PIPE.format("zcat FILE")),
    b"LZIP\x01": ("lzip", _PIPE.format("lzip -dc FILE")),
    b"\xff\x06\x00\x00sNaPpY": ("Snappy", "decompress it to text first"),
    b"FEA1\0": ("Feather version 1", _EXPORT),
    b"SQLite format 3\0": ("SQLite", _EXPORT),
    b"%PDF-1.": ("PDF", "export its text first"),
    b"\x89MMB\r\n\x1a\n": (
        "mmbloom filter",
        "a filter does not contain its keys; 'mmbloom merge' unites filters",
    ),
}
# Tables, which pyarrow reads. An Arrow stream begins with a mark and the length of its schema.
Table = Literal["Parquet", "Arrow file", "Arrow stream"]
_TABLES: dict[bytes, Table] = {b"PAR1\x15": "Parquet", b"ARROW1\0\0": "Arrow file"}
_STREAM_MARK, _STREAM_START_BYTES, _MOST_SCHEMA_BYTES = b"\xff\xff\xff\xff", 8, 1 << 24
_TAR_OFFSET, _TAR = 257, b"ustar"
# Looked for at the start of text. The first read() returns them whole.
_BYTE_ORDER_MARKS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")
_STARTS = (*_REFUSED, *_TABLES, *compression.MAGICS, *_BYTE_ORDER_MARKS)
_START_BYTES = 1 << 14
_SKIPPED_BYTES = 1 << 20


class ListFile(Closing):
    """One list, open for reading as bytes of text.

    Guarantee: all of the text is read, or SourceError is raised. A list that was cut short or
        damaged is never taken for a shorter list.
    Limits: read once, from start to end, by one thread.

    Attributes:
        name: the path, or "standard input".
        compression: "gzip", "xz", "zstd", "bzip2" or None.
        table: the format of a table, or None. A table is read through open_table().
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
                    f"{name}: {inner} data within {self.compression} data; decompress it once first"
                )
        _refuse(start, name)

    @classmethod
    def open(cls, path: FilePath) -> Self:
        """Open the list at *path*; "-" is standard input, descriptor 0.

        Raises:
            OSError: from the operating system.
            SourceError: the format is not a list, or the start of a compressed list is damaged.
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
        """Size of the file on disk; 0 for a pipe, a terminal or a device."""
        return self._reader.total_bytes

    @property
    def done_bytes(self) -> int:
        """Bytes of the file that were read so far, before decompression."""
        return self._reader.done_bytes

    def readinto(self, buffer: memoryview) -> int:
        """Fill *buffer* with the next text; return the number of bytes, 0 at the end.

        It does not wait for more data from a pipe or a terminal that has returned some, so that a
        program may write one key and wait for the answer.

        Raises:
            SourceError: the compressed data is damaged, or was cut short.
            OSError: reading failed.
        """
        done = 0
        while done < len(buffer) and not (done and self._would_wait()):
            count = self._read_some(buffer[done:])
            if not count:
                break
            done += count
        return done

    def skip(self, num_bytes: int) -> None:
        """Skip the next *num_bytes* of text. Uncompressed text is not read for that.

        Raises:
            SourceError: the text is shorter, or damaged. OSError: reading failed.
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
                    f"{self.name}: ends {left} bytes before the position to continue from: it "
                    "has become shorter since it was read. Build again without resume"
                )
            left -= count

    def open_table(self) -> io.FileIO:
        """Return the file of a table, at its start; close() closes it.

        Raises:
            SourceError: it is a pipe or a device; tables need random access.
        """
        if not self._reader.is_regular:
            raise SourceError(
                f"{self.name}: {self.table} data needs random access and cannot be read from a "
                "pipe; pass a file name"
            )
        self._raw.seek(0)
        return self._raw

    def close(self) -> None:
        """Close the file; standard input stays open."""
        self._raw.close()

    def _read_some(self, buffer: memoryview) -> int:
        """Put at least one byte of text into *buffer*, or return 0 at the end."""
        if not self._start and self._texts is not None:
            self._start = memoryview(next(self._texts, b""))
        elif not self._start:
            return self._reader.read_into(buffer)
        count = min(len(self._start), len(buffer))
        buffer[:count] = self._start[:count]
        self._start = self._start[count:]
        return count

    def _would_wait(self) -> bool:
        return not self._start and self._reader.would_wait()

    def _unpack(self, form: str, start: bytes) -> Iterator[bytes]:
        """Return the texts of compressed data, whose first bytes are *start*."""
        starts = [start]

        def read_compressed(size: int) -> bytes:
            return starts.pop() if starts else self._reader.read(size)

        return compression.unpack(form, self.name, read_compressed)


class _Reader:
    """A descriptor that counts what is read, knows whether it would wait, and names its errors."""

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
        """Return up to *size* bytes with one system call; b"" at the end and after it."""
        data: bytes = self._ask(self._raw.read, size) or b""
        self._note(len(data))
        return data

    def read_into(self, buffer: memoryview) -> int:
        """Put bytes into *buffer* with one system call; return how many, 0 at the end."""
        count: int = self._ask(self._raw.readinto, buffer) or 0
        self._note(count)
        return count

    def can_skip(self, num_bytes: int) -> bool:
        """Return whether the next *num_bytes* exist and can be skipped without reading them."""
        return self.is_regular and self.done_bytes + num_bytes <= self.total_bytes

    def skip(self, num_bytes: int) -> None:
        """Skip the next *num_bytes*."""
        self.done_bytes = self._raw.seek(num_bytes, io.SEEK_CUR)

    def _ask(self, call: Callable[[Any], Any], argument: object) -> Any:  # noqa: ANN401 - either call
        """Read with one system call, waiting for data; None at the end."""
        if self._has_ended:  # a terminal would continue
            return None
        try:
            answer = call(argument)
            while answer is None:  # another process made the pipe non-blocking: this is not the end
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
                    f"{self._name}: cut to {end} of its {self.total_bytes} bytes while it was "
                    "read; read it again when it is complete"
                )

    def would_wait(self) -> bool:
        """Return whether the next read would have to wait."""
        if self.is_regular or self._has_ended:
            return False
        return not self._poll.poll(0)


def _start_of(read: Read) -> bytes:
    """Read until no magic can be cut off: a slow pipe may return one byte at a time."""
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
    """Raise for a file that ends within its magic. If that is ASCII, it may be a key: "7z"."""
    if len(start) < 2 or start.isascii():  # noqa: PLR2004 - one byte is not enough
        return
    forms = {magic: what for magic, (what, _) in _REFUSED.items()}
    forms |= compression.MAGICS | _TABLES
    for magic, what in forms.items():
        if len(start) < len(magic) and magic.startswith(start):
            raise SourceError(
                f"{name}: {what} data of only {len(start)} bytes: the file was cut short. Copy "
                "it again"
            )


def _refuse(start: bytes, name: str) -> None:
    """Raise for data that is not text."""
    for magic, (what, remedy) in _REFUSED.items():
        if start.startswith(magic):
            raise SourceError(f"{name}: {what} data, not a list of keys: {remedy}")
    if start.startswith(_TAR, _TAR_OFFSET):
        raise SourceError(
            f"{name}: a tar archive, not a list of keys: {_PIPE.format('tar -xOf FILE')}"
        )
