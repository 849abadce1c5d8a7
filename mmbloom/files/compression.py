"""Compressed lists: recognised by their first bytes, unpacked frame by frame.

The readers of the standard library take a second frame with a damaged start for the end of the
file, and the one of zstandard takes a frame that was cut short for a whole one. Here only the end
of the file behind a complete frame is an end. Opens nothing: ``lists`` does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

from mmbloom.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Read = Callable[[int], bytes]

# A frame of zstd can grow 20 000-fold, so a decompressor is fed little at a time.
PACKED_BYTES = 1 << 14
# zstd --ultra --long=31 needs a window of 2 GiB. It is allocated for such a frame only.
_LARGEST_WINDOW_BYTES = 1 << 31

_BZIP2_LEVELS = b"123456789"
_BZIP2_BLOCK, _BZIP2_END = b"1AY&SY", b"\x17rE8P\x90"  # text may well start with "BZh9"
_ZSTD_SKIPPABLE = [
    bytes([0x50 + i]) + b"\x2a\x4d\x18" for i in range(16)
]  # parallel zstd begins so

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
    def unused_data(self) -> bytes:
        """What was given beyond the end of the frame."""

    def decompress(self, data: bytes, /) -> bytes:
        """Return the text of the next bytes."""


class Format(NamedTuple):
    """What begins a frame, what its damage raises, and what may lie between frames."""

    start: Callable[[], Frame]
    damage: tuple[type[Exception], ...]
    padding: bytes = b""


def unpack(compression: str, name: str, read: Read) -> Iterator[bytes]:
    """Yield the text of all frames, in pieces that are not empty.

    Args:
        compression: a value of MAGICS.
        name: of the list, for messages.
        read: returns up to so many bytes, b"" at the end.

    Raises:
        SourceError: the data is damaged, or ends within a frame.
    """
    form = _FORMATS[compression]()
    frame: Frame | None = form.start()
    num_bytes = 0
    while data := read(PACKED_BYTES):
        while data:
            if frame is None:
                data = data.lstrip(form.padding) if form.padding else data
                if not data:
                    break
                frame = form.start()
            try:
                text = frame.decompress(data)
            except form.damage as exc:
                raise SourceError(
                    f"{name}: the {compression} data is damaged near byte {num_bytes}: {exc}. "
                    "Copy the file again"
                ) from exc
            if text:
                yield text
            num_bytes += len(data)
            data = b""
            if frame.eof:
                data = frame.unused_data
                num_bytes -= len(data)
                frame = None
    if frame is not None:
        raise SourceError(
            f"{name}: the {compression} data ends within a frame, at byte {num_bytes}: the file "
            "was cut short. Copy it again"
        )


def _gzip() -> Format:
    import zlib

    from isal import isal_zlib

    def start() -> Frame:
        frame: Frame = isal_zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
        return frame

    damage = (cast("type[Exception]", isal_zlib.error), zlib.error)
    return Format(start, damage, b"\0")  # tapes and disks pad with zeros


def _xz() -> Format:
    import lzma

    return Format(lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ), (lzma.LZMAError,), b"\0")


def _zstd() -> Format:
    from zstandard import ZstdDecompressor, ZstdError

    opened = ZstdDecompressor(max_window_size=_LARGEST_WINDOW_BYTES)
    return Format(opened.decompressobj, (ZstdError,))


def _bzip2() -> Format:
    import bz2

    return Format(bz2.BZ2Decompressor, (OSError,))


_FORMATS: dict[str, Callable[[], Format]] = {
    "gzip": _gzip,
    "xz": _xz,
    "zstd": _zstd,
    "bzip2": _bzip2,
}
