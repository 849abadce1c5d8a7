"""Compressed lists: recognised by their first bytes, decompressed frame by frame.

The readers of the standard library take a second frame with a damaged start as the end of the file.
Here the data ends only at the end of the file, after a complete frame. A decompressor returns at
most TEXT_BYTES at a time, however large a frame becomes (with zstd up to 30 000 times). ``files``
opens the lists.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

from mmbloom.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Read = Callable[[int], bytes]

# Large enough that the calls cost nothing, small enough for the cache of a core.
READ_BYTES, TEXT_BYTES = 1 << 16, 1 << 20
# zstd --ultra --long=31 needs a window of 2 GiB. It is allocated only for such a frame.
_LARGEST_WINDOW_LOG = 31

_BZIP2_LEVELS = b"123456789"
_BZIP2_BLOCK, _BZIP2_END = b"1AY&SY", b"\x17rE8P\x90"  # text may begin with "BZh9"
_ZSTD_SKIPPABLE = [
    bytes([0x50 + i]) + b"\x2a\x4d\x18" for i in range(16)
]  # output of parallel zstd begins with one

MAGICS = {
    b"\x1f\x8b": "gzip",
    b"\xfd7zXZ\0": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
    **dict.fromkeys(_ZSTD_SKIPPABLE, "zstd"),
    **{
        b"BZh" + bytes([level]) + behind: "bzip2"
        for level in _BZIP2_LEVELS
        for behind in (_BZIP2_BLOCK, _BZIP2_END)
    },
}


class Frame(Protocol):
    """The decompressor of one frame (gzip calls it member, xz stream)."""

    @property
    def eof(self) -> bool:
        """Whether the frame is complete."""

    @property
    def needs_input(self) -> bool:
        """Whether all text of the input so far has been returned."""

    @property
    def unused_data(self) -> bytes:
        """Input after the end of the frame."""

    def decompress(self, data: bytes, max_length: int) -> bytes:
        """Return the next text, up to *max_length* bytes, and keep the rest of *data*."""


class Format(NamedTuple):
    """How a frame begins, what its damage raises, and what padding may be between frames."""

    start: Callable[[], Frame]
    damage: tuple[type[Exception], ...]
    padding: bytes = b""


def unpack(compression: str, name: str, read: Read) -> Iterator[bytes]:
    """Yield the text of all frames, in pieces that are never empty.

    Args:
        compression: a value of MAGICS.
        name: of the list, for messages.
        read: returns up to a given number of bytes, b"" at the end.

    Raises:
        SourceError: the data is damaged, or ends within a frame.
    """
    form = _FORMATS[compression]()
    frame: Frame | None = form.start()
    num_bytes = 0
    while data := read(READ_BYTES):
        num_bytes += len(data)
        while data:
            if frame is None:
                data = data.lstrip(form.padding) if form.padding else data
                if not data:
                    break
                frame = form.start()
            try:
                yield from _texts(frame, data)
            except form.damage as exc:
                where = num_bytes - len(data)  # close enough, as little is read at a time
                raise SourceError(
                    f"{name}: the {compression} data is damaged near byte {where}: {exc}. "
                    "Copy the file again"
                ) from exc
            data = b""
            if frame.eof:
                data, frame = frame.unused_data, None
    if frame is not None:
        raise SourceError(
            f"{name}: the {compression} data ends within a frame, at byte {num_bytes}: the file "
            "was cut short. Copy it again"
        )


def _texts(frame: Frame, data: bytes) -> Iterator[bytes]:
    """Yield the text of *data*, up to the end of *frame*."""
    while True:
        text = frame.decompress(data, max_length=TEXT_BYTES)
        if text:
            yield text
        if frame.eof or frame.needs_input:
            return
        data = b""


def _gzip() -> Format:
    from isal import igzip_lib

    def start() -> Frame:
        frame: Frame = igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_GZIP)
        return frame

    # Tapes and disks pad with zeros.
    return Format(start, (cast("type[Exception]", igzip_lib.error),), b"\0")


def _xz() -> Format:
    import lzma

    return Format(lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ), (lzma.LZMAError,), b"\0")


def _zstd() -> Format:
    import sys

    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd

    options = {int(zstd.DecompressionParameter.window_log_max): _LARGEST_WINDOW_LOG}
    return Format(lambda: zstd.ZstdDecompressor(options=options), (zstd.ZstdError,))


def _bzip2() -> Format:
    import bz2

    return Format(bz2.BZ2Decompressor, (OSError,))


_FORMATS: dict[str, Callable[[], Format]] = {
    "gzip": _gzip,
    "xz": _xz,
    "zstd": _zstd,
    "bzip2": _bzip2,
}
