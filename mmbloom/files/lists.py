"""Lists of keys on disk or on standard input: opened, and recognised by content, not by name.

Owns what a list looks like from outside: its compression, and the archives and tables that people
take for a list. ``compression`` unpacks; text, lines and keys are the business of
``mmbloom.keys.lines``.
"""

from __future__ import annotations

import io
import os
import select
import stat
from typing import TYPE_CHECKING, Self

from mmbloom.errors import SourceError
from mmbloom.files import compression
from mmbloom.files.paths import path_text

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from mmbloom.files.paths import FilePath

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
    b"PAR1\x15": ("Parquet", _EXPORT),
    b"ARROW1\0\0": ("Arrow", _EXPORT),
    b"SQLite format 3\0": ("SQLite", _EXPORT),
    b"%PDF-1.": ("PDF", "export its text first"),
    b"\x89MMB\r\n\x1a\n": (
        "mmbloom filter",
        "a filter does not hold its keys; 'mmbloom merge' unites filters",
    ),
}
_TAR_OFFSET, _TAR = 257, b"ustar"
# What who reads the text looks for at its start: the first read() gives it whole.
_BYTE_ORDER_MARKS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")
_STARTS = (*_REFUSED, *compression.MAGICS, *_BYTE_ORDER_MARKS)


class ListFile:
    """One list, open for reading as bytes of text.

    Guarantee: all of the text is read, or SourceError is raised: a list that was cut short or
        damaged is never taken for a shorter one.
    Limits: read once, from front to end, by one thread.

    Attributes:
        name: the path, or "standard input".
        compression: "gzip", "xz", "zstd", "bzip2" or None.
    """

    def __init__(self, raw: io.FileIO, name: str) -> None:
        self.name = name
        self._reader = _Reader(raw, name)
        self._read_text: Read = self._reader.read
        self._start = _start_of(self._read_text)
        _refuse_cut_magic(self._start, name)
        self.compression = _compression_of(self._start)
        if self.compression is not None:
            self._read_text = self._unpack(self.compression, self._start)
            self._start = _start_of(self._read_text)
            again = _compression_of(self._start)
            if again is not None:
                raise SourceError(
                    f"{name}: {again} data within {self.compression} data: unpack it once first"
                )
        _refuse(self._start, name)

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

    def read(self, size: int, /) -> bytes:
        """Return at least one byte of text and about *size* if they are there, b"" at the end.

        A pipe or a terminal is not waited for when it has given something: who writes one key and
        waits for the answer gets it.

        Raises:
            SourceError: the compressed data is damaged, or was cut short.
            OSError: reading failed.
        """
        part, self._start = self._start, b""
        parts = [part] if part else []
        num_bytes = len(part)
        while num_bytes < size and not (parts and self._reader.would_wait()):
            part = self._read_text(size - num_bytes)
            if not part:
                break
            parts.append(part)
            num_bytes += len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def close(self) -> None:
        """Close the file; standard input stays open."""
        self._reader.close()

    def __enter__(self) -> Self:
        """Return the list; leaving the block closes it."""
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the list."""
        self.close()

    def _unpack(self, form: str, start: bytes) -> Read:
        """Return how to read the text of packed data, of which *start* has been read."""
        starts = [start]

        def read_packed(size: int) -> bytes:
            return starts.pop() if starts else self._reader.read(size)

        texts = compression.unpack(form, self.name, read_packed)
        return lambda _size: next(texts, b"")


class _Reader:
    """A descriptor: counts what it gives, says whether it would wait, is named in errors."""

    def __init__(self, raw: io.FileIO, name: str) -> None:
        self._raw = raw
        self._name = name
        found = os.fstat(raw.fileno())
        self._is_regular = stat.S_ISREG(found.st_mode)
        self._has_ended = False
        self._poll = select.poll()
        self._poll.register(raw, select.POLLIN)
        self.total_bytes = found.st_size if self._is_regular else 0
        self.done_bytes = 0

    def read(self, size: int) -> bytes:
        """Return up to *size* bytes in one call of the system, b"" at the end and ever after."""
        if self._has_ended:  # a terminal would go on
            return b""
        try:
            data = self._raw.read(size)
            while data is None:  # another process made the pipe non-blocking: no data is no end
                self._poll.poll()
                data = self._raw.read(size)
        except OSError as exc:
            exc.filename = self._name
            raise
        self._has_ended = not data
        self.done_bytes += len(data)
        return data

    def would_wait(self) -> bool:
        """Tell whether the next read has nothing to return yet."""
        if self._is_regular or self._has_ended:
            return False
        return not self._poll.poll(0)

    def close(self) -> None:
        self._raw.close()


def _start_of(read: Read) -> bytes:
    """Read until it is clear what the data starts with. A slow pipe may give one byte at a time."""
    start = b""
    while more := read(compression.PACKED_BYTES):
        start += more
        if not any(len(start) < len(magic) and magic.startswith(start) for magic in _STARTS):
            break
    return start


def _compression_of(start: bytes) -> str | None:
    matches = (form for magic, form in compression.MAGICS.items() if start.startswith(magic))
    return next(matches, None)


def _refuse_cut_magic(start: bytes, name: str) -> None:
    """Raise for a file that ends within its magic. One that is ASCII so far may be a key: "7z"."""
    if len(start) < 2 or start.isascii():  # noqa: PLR2004 - one byte says nothing
        return
    forms = compression.MAGICS | {magic: what for magic, (what, _) in _REFUSED.items()}
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
