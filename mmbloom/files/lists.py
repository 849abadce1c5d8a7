"""Lists of keys on disk or on standard input: opened, and decompressed by what they contain, not by their name."""

from __future__ import annotations

import io
import os
import sys
import zlib
from typing import IO, TYPE_CHECKING, Any, Self, cast

from mmbloom.errors import SourceError
from mmbloom.files.paths import path_text

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from mmbloom.files.paths import FilePath

STDIN = "-"
READ_BYTES = 1 << 18
# What a decompressor is fed at a time. A frame of zstd can grow 20 000-fold, so small.
_COMPRESSED_BYTES = 1 << 14

_UNKNOWN = {
    b"7z\xbc\xaf\x27\x1c": "7-Zip",
    b"PK\x03\x04": "zip",
    b"Rar!\x1a\x07": "RAR",
    b"\x04\x22\x4d\x18": "LZ4",
    b"\x1f\x9d": "compress (.Z)",
    b"LZIP": "lzip",
    b"\xff\x06\x00\x00sNaPpY": "Snappy",
    b"PAR1": "Parquet",
    b"ARROW1": "Arrow",
    b"%PDF": "PDF",
    b"SQLite format 3\0": "SQLite",
    b"\x89MMB\r\n\x1a\n": "mmbloom filter",
}
_BZIP2_BLOCK = b"1AY&SY"  # behind "BZh" and a digit; text may well start with the first three


class ListFile:
    """One list, open for reading as bytes of text.

    Attributes:
        name: the path, or "standard input".
        compression: "gzip", "xz", "zstd", "bzip2" or None.
        total_bytes: size of the file, compressed as it is; 0 if it is a pipe.
    """

    def __init__(self, raw: IO[bytes], name: str, total_bytes: int) -> None:
        self.name, self.total_bytes = name, total_bytes
        self._raw = raw
        self._counted = _Counter(raw)
        source = io.BufferedReader(self._counted, READ_BYTES)
        self.compression, opener = _recognise(source.peek(16)[:16], name)
        self._stream = opener(source)

    @classmethod
    def open(cls, path: FilePath) -> Self:
        """Open the list at *path*; "-" is standard input.

        Raises:
            OSError: what the operating system says. SourceError: a compression or a format that is no list.
        """
        text = path_text(path)
        if text == STDIN:
            return cls(sys.stdin.buffer, "standard input", 0)
        raw = open(text, "rb", buffering=0)  # noqa: SIM115 - closed by close()
        try:
            return cls(cast("IO[bytes]", raw), text, os.fstat(raw.fileno()).st_size)
        except BaseException:
            raw.close()
            raise

    @property
    def done_bytes(self) -> int:
        """Bytes read from the file so far, compressed as they are."""
        return self._counted.num_bytes

    def read(self, size: int, /) -> bytes:
        """Return up to *size* bytes of text, b"" at the end.

        Raises:
            SourceError: the compressed data is damaged, or ends too early.
        """
        try:
            return cast("bytes", self._stream.read(size))
        except EOFError as exc:
            message = f"{self.name}: the {self.compression} data ends too early: the file was cut short. Copy it again"
            raise SourceError(message) from exc
        except _damage() as exc:
            if isinstance(exc, OSError) and exc.errno is not None:
                raise  # the disk, not the data
            raise SourceError(f"{self.name}: the {self.compression} data is damaged: {exc}") from exc

    def close(self) -> None:
        """Close the file; standard input stays open."""
        if self._raw is not sys.stdin.buffer:
            self._raw.close()

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


class _Counter(io.RawIOBase):
    """A raw stream that counts what went through it."""

    def __init__(self, raw: IO[bytes]) -> None:
        super().__init__()
        self._raw = raw
        self.num_bytes = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401 - a writable buffer
        count = self._raw.readinto(buffer)  # type: ignore[attr-defined]
        self.num_bytes += count
        return int(count)


class _ZstdStream:
    """Frames of zstd, one after the other. The library's own reader takes a frame that was cut short for its end."""

    def __init__(self, source: io.BufferedReader) -> None:
        from zstandard import ZstdDecompressor  # noqa: PLC0415 - loads only when used

        self._start: Callable[[], Any] = ZstdDecompressor().decompressobj
        self._source = source
        self._frame = self._start()
        self._waiting = b""

    def read(self, _size: int, /) -> bytes:
        """Return what the next compressed bytes decode to, b"" at the end of the last frame."""
        while True:
            data = self._waiting or self._source.read(_COMPRESSED_BYTES)
            self._waiting = b""
            if not data:
                if self._frame is not None:
                    raise EOFError
                return b""
            if self._frame is None:
                self._frame = self._start()
            text = cast("bytes", self._frame.decompress(data))
            if self._frame.eof:
                self._waiting = self._frame.unused_data
                self._frame = None
            if text:
                return text


def _damage() -> tuple[type[Exception], ...]:
    """Return what the decompressors raise for damaged data. bzip2 and gzip raise OSError without errno."""
    import lzma  # noqa: PLC0415 - loads only when used

    from isal import isal_zlib  # noqa: PLC0415 - as above
    from zstandard import ZstdError  # noqa: PLC0415 - as above

    return (zlib.error, isal_zlib.error, lzma.LZMAError, ZstdError, OSError)


def _open_gzip(source: io.BufferedReader) -> Any:  # noqa: ANN401 - a stream
    from isal import igzip  # noqa: PLC0415 - loads only when used

    return igzip.IGzipFile(fileobj=source, mode="rb")


def _open_xz(source: io.BufferedReader) -> Any:  # noqa: ANN401 - a stream
    import lzma  # noqa: PLC0415 - loads only when used

    return lzma.LZMAFile(source)


def _open_bzip2(source: io.BufferedReader) -> Any:  # noqa: ANN401 - a stream
    import bz2  # noqa: PLC0415 - loads only when used

    return bz2.BZ2File(source)


def _recognise(start: bytes, name: str) -> tuple[str | None, Callable[[io.BufferedReader], Any]]:
    """Return the compression that *start* shows, and how to read it."""
    if start.startswith(b"\x1f\x8b"):
        return "gzip", _open_gzip
    if start.startswith(b"\xfd7zXZ\0"):
        return "xz", _open_xz
    if start.startswith(b"\x28\xb5\x2f\xfd"):
        return "zstd", _ZstdStream
    if start.startswith(b"BZh") and start[4:10] == _BZIP2_BLOCK:
        return "bzip2", _open_bzip2
    for magic, what in _UNKNOWN.items():
        if start.startswith(magic):
            raise SourceError(
                f"{name}: {what} data, not a list of keys: unpack or export it to text first "
                "(gzip, xz, zstd and bzip2 are read as they are)"
            )
    return None, lambda source: source
