"""Compressed lists: every byte of the text, or an error, never a shorter list."""

from __future__ import annotations

import bz2
import gzip
import itertools
import lzma
import random
from typing import TYPE_CHECKING

import pytest
import zstandard

from mmbloom.errors import SourceError
from mmbloom.sources import compression
from mmbloom.sources.files import ListFile

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Pack = Callable[[bytes], bytes]

TEXT = b"".join(b"line %d\n" % i for i in range(40))
MORE = b"and a second frame\n" * 9


def zstd(text: bytes) -> bytes:
    """Compress as the program zstd does, with a checksum."""
    return zstandard.ZstdCompressor(write_checksum=True).compress(text)


PACKS = {"gzip": gzip.compress, "xz": lzma.compress, "zstd": zstd, "bzip2": bz2.compress}
# Bytes that do not change the text: some of a header (gzip: date and system), and the one with the
# bits that fill the last byte.
MEANINGLESS = {"gzip": 10, "xz": 0, "zstd": 0, "bzip2": 8}

every_pack = pytest.mark.parametrize(
    ("name", "pack"), [pytest.param(name, pack, id=name) for name, pack in PACKS.items()]
)


@pytest.fixture
def text_of(tmp_path: Path) -> Callable[[bytes], bytes]:
    """Return a function that reads compressed data as a list does."""

    def read(compressed: bytes) -> bytes:
        path = tmp_path / "list"
        path.write_bytes(compressed)
        with ListFile.open(path) as opened:
            return b"".join(iter(lambda: block_of(opened), b""))

    return read


def block_of(opened: ListFile) -> bytes:
    """Return the next text of a list, up to 1 MiB."""
    buffer = bytearray(1 << 20)
    return bytes(buffer[: opened.readinto(memoryview(buffer))])


@every_pack
def test_the_text_comes_back(text_of: Pack, tmp_path: Path, name: str, pack: Pack) -> None:
    """In text blocks that are much larger than the input of a decompressor."""
    noise = random.Random(7).randbytes(300_000).hex().encode()  # noqa: S311 - a list for show

    assert text_of(pack(noise)) == noise
    with ListFile.open(tmp_path / "list") as opened:
        assert opened.compression == name


@every_pack
def test_an_empty_list_is_empty(text_of: Pack, name: str, pack: Pack) -> None:
    """A complete file without text is not damaged."""
    del name
    assert text_of(pack(b"")) == b""


@every_pack
def test_frames_one_after_the_other_are_one_list(text_of: Pack, name: str, pack: Pack) -> None:
    """As from ``cat a.gz b.gz``, and programs that compress in parallel."""
    del name
    assert text_of(pack(TEXT) + pack(b"") + pack(MORE)) == TEXT + MORE


@every_pack
@pytest.mark.parametrize("num_frames", [1, 2])
def test_a_list_that_was_cut_short_is_refused_at_every_length(
    text_of: Pack, name: str, pack: Pack, num_frames: int
) -> None:
    """In the first frame or the second: half a list would lead to false "definitely not"."""
    before = pack(TEXT) if num_frames == 2 else b""
    whole = before + pack(MORE)
    recognisable = max(map(len, compression.MAGICS)) if not before else 1

    for length in range(len(before) + recognisable, len(whole)):
        with pytest.raises(SourceError, match=f"{name} data ends within a frame, at byte {length}"):
            text_of(whole[:length])


@every_pack
@pytest.mark.parametrize("num_frames", [1, 2])
def test_a_flipped_bit_is_found_or_changes_nothing(
    text_of: Pack, name: str, pack: Pack, num_frames: int
) -> None:
    """Also at the start of a second frame, which other readers take as the end of the list."""
    before = pack(TEXT) if num_frames == 2 else b""
    whole = before + pack(MORE)
    first = len(before) + (0 if before else max(map(len, compression.MAGICS)))
    unnoticed = 0

    for offset, bit in itertools.product(range(first, len(whole)), [1, 0x40]):
        damaged = bytearray(whole)
        damaged[offset] ^= bit
        try:
            text = text_of(bytes(damaged))
        except SourceError as exc:
            assert f"{name} data" in str(exc)  # noqa: PT017 - one of two right outcomes
        else:
            assert text == whole_text(num_frames)
            unnoticed += 1
    assert unnoticed <= 2 * MEANINGLESS[name]


def whole_text(num_frames: int) -> bytes:
    """Return the text of a number of frames."""
    return MORE if num_frames == 1 else TEXT + MORE


@every_pack
def test_other_data_after_the_last_frame_is_refused(text_of: Pack, name: str, pack: Pack) -> None:
    """Keys that were appended to a compressed list are not silently dropped."""
    with pytest.raises(SourceError, match=f"{name} data is damaged near byte {len(pack(TEXT))}"):
        text_of(pack(TEXT) + b"ada\ngrace\n" * 9)


@pytest.mark.parametrize("name", ["gzip", "xz"])
def test_zeros_between_and_after_frames_are_padding(text_of: Pack, name: str) -> None:
    """Tapes pad gzip with them; the format of xz allows them."""
    pack = PACKS[name]

    assert text_of(pack(TEXT) + bytes(4) + pack(MORE) + bytes(20_000)) == TEXT + MORE


def test_frames_that_zstd_skips_are_skipped(text_of: Pack) -> None:
    """Parallel and seekable zstd put them first or last."""
    skipped = b"\x57\x2a\x4d\x18" + (30_000).to_bytes(4, "little") + bytes(30_000)

    assert text_of(skipped + zstd(TEXT) + skipped + zstd(MORE) + skipped) == TEXT + MORE


def test_a_window_of_two_gib_is_read(text_of: Pack) -> None:
    """Breach lists are compressed with ``zstd --long=31``."""
    parameters = zstandard.ZstdCompressionParameters.from_level(3, window_log=31)
    packer = zstandard.ZstdCompressor(compression_params=parameters).compressobj()

    assert text_of(packer.compress(TEXT) + packer.flush()) == TEXT


@pytest.mark.parametrize("name", PACKS)
def test_data_that_grows_a_lot_is_decompressed_in_pieces(name: str) -> None:
    """30 MB of text come from a few kB of data, 1 MiB at a time."""
    compressed = iter([PACKS[name](bytes(30_000_000))])

    lengths = [
        len(text) for text in compression.unpack(name, "list", lambda _: next(compressed, b""))
    ]

    assert sum(lengths) == 30_000_000
    assert max(lengths) <= compression.TEXT_BYTES


def test_one_byte_at_a_time_gives_the_same_text() -> None:
    """A pipe may cut anywhere."""
    for name, pack in PACKS.items():
        compressed = iter(pack(TEXT) + pack(MORE))
        texts = compression.unpack(
            name, "list", lambda _, compressed=compressed: bytes(itertools.islice(compressed, 1))
        )
        assert b"".join(texts) == TEXT + MORE
