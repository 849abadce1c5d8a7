"""Whole files written in one sweep, from pieces of any lengths."""

from __future__ import annotations

import os
import tracemalloc
from typing import TYPE_CHECKING

import numpy as np
import pytest
from filter_files import header_for, rate_of

import mmbloom
from mmbloom import BloomFilter, CapacityError
from mmbloom.filters.sealing import Measured, measure_payload, write_sealed
from mmbloom.format.status import Status
from mmbloom.kinds.bloom_layouts import LAYOUTS
from mmbloom.kinds.kind import BLOCK_BYTES
from mmbloom.sizing.bloom import BloomGeometry
from mmbloom.storage.publish import NewFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from mmbloom.format.header import Header

MIB = 1 << 20
TWO_BLOCKS_KEYS = 7_800_000  # at 1 % a little more than 8 MiB, in each layout


def random_payload(header: Header) -> bytes:
    """Return a payload with 1 bit in 16 set, the same for one header in every run."""
    rng = np.random.default_rng(header.payload_bytes)
    words = rng.integers(0, 1 << 64, (4, header.payload_bytes // 8), dtype=np.uint64)
    found = bytearray(np.bitwise_and.reduce(words).tobytes())
    for bit in range(header.num_bits, 8 * len(found)):  # of classic: past the end
        found[bit >> 3] &= ~(1 << (bit & 7))
    return bytes(found)


def cut(payload: bytes, size: int) -> Iterator[memoryview]:
    """Yield it in pieces, in one buffer that is used again: as a builder does."""
    buffer = bytearray(size)
    for start in range(0, len(payload), size):
        piece = payload[start : start + size]
        buffer[: len(piece)] = piece
        yield memoryview(buffer)[: len(piece)]


def write(path: Path, header: Header, pieces: Iterable[memoryview | bytes]) -> Status:
    """Write a file of a few facts."""
    return write_sealed(
        path, header, pieces, lambda _: (header, Status(keys_added=7)), if_exists="raise"
    )


@pytest.mark.parametrize("size", [5 * MIB + 1, 8 * MIB, 64 * MIB])
def test_pieces_of_any_lengths_give_the_same_file(tmp_path: Path, size: int, layout: str) -> None:
    """Those of one piece; the rate and the checksums too."""
    header = header_for(capacity=TWO_BLOCKS_KEYS, fpr=0.01, layout=layout)
    payload = random_payload(header)
    geometry = BloomGeometry(layout, header.num_bits, header.num_probes)

    status = write(tmp_path / "a.mmb", header, cut(payload, size))

    assert len(payload) > BLOCK_BYTES
    data = (tmp_path / "a.mmb").read_bytes()
    assert data[4096 : 4096 + len(payload)] == payload
    measured, table = measure_payload(header, memoryview(payload))
    assert data[4096 + len(payload) :] == table
    assert status.achieved_fpr == measured.achieved_fpr
    assert status.achieved_fpr == rate_of(geometry, payload)
    assert status.bits_set == measured.counts.total
    assert status.checksum_root == measured.checksum_root
    assert measured.counts.places == LAYOUTS[layout].places(memoryview(payload))
    with mmbloom.open(tmp_path / "a.mmb") as found:
        assert found.verify() == len(payload)
        assert (found.keys_added, found._opened.status) == (7, status)


def test_pieces_of_a_byte_and_empty_ones_are_pieces_too(tmp_path: Path) -> None:
    """Arrays of numbers as well."""
    header = header_for(capacity=20, fpr=0.01, layout="line")
    payload = random_payload(header)
    pieces: list[memoryview | bytes] = [payload[:1], b"", memoryview(b""), payload[1:-8]]
    pieces.append(np.frombuffer(payload[-8:], np.uint32).data)

    write(tmp_path / "a.mmb", header, pieces)

    assert (tmp_path / "a.mmb").read_bytes()[4096 : 4096 + len(payload)] == payload


@pytest.mark.parametrize("num_bytes", [0, 63, 65, 2 * MIB])
def test_more_or_fewer_bytes_than_the_payload_has_are_refused(
    tmp_path: Path, num_bytes: int
) -> None:
    """Nothing is published."""
    header = header_for(capacity=5, fpr=0.01, layout="line")

    with pytest.raises(ValueError, match=f"for a payload of {header.payload_bytes}"):
        write(tmp_path / "a.mmb", header, [bytes(num_bytes)])

    assert header.payload_bytes == 64
    assert list(tmp_path.iterdir()) == []


def failing(header: Header) -> Iterator[memoryview]:
    """Yield half of a payload, then fail as a disk does."""
    yield memoryview(bytes(header.payload_bytes // 2))
    raise OSError(5, "Input/output error")


@pytest.mark.parametrize("capacity", [1000, TWO_BLOCKS_KEYS], ids=["small", "with a second thread"])
def test_what_fails_on_the_way_leaves_nothing(tmp_path: Path, capacity: int) -> None:
    """The pieces, or whoever decides at the end that the file must not be."""
    header = header_for(capacity=capacity, fpr=0.01, layout="classic")

    def refuse(measured: Measured) -> tuple[Header, Status]:
        raise CapacityError(f"{measured.counts.total} bits", 3)

    with pytest.raises(OSError, match="Input/output"):
        write(tmp_path / "a.mmb", header, failing(header))
    pieces = [bytes(header.payload_bytes)]
    with pytest.raises(CapacityError, match="0 bits"):
        write_sealed(tmp_path / "a.mmb", header, pieces, refuse, if_exists="raise")

    assert list(tmp_path.iterdir()) == []


def test_who_finishes_may_name_the_file(tmp_path: Path) -> None:
    """Its UUID may depend on what was written."""
    header = header_for(capacity=10, fpr=0.01)

    def named(measured: Measured) -> tuple[Header, Status]:
        return header._replace(uuid=measured.counts.total.to_bytes(16, "big")), Status()

    payload = b"\1" + bytes(header.payload_bytes - 1)
    write_sealed(tmp_path / "a.mmb", header, [payload], named, if_exists="raise")

    with mmbloom.open(tmp_path / "a.mmb") as found:
        assert found.uuid == f"{1:032x}"


def test_writes_begin_and_end_at_multiples_of_8_mib(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But for the header, which comes last: so the page cache gets large folios."""
    writes: list[tuple[int, int]] = []
    real_pwrite, real_pwritev = os.pwrite, os.pwritev

    def one(fd: int, data: memoryview, at: int) -> int:
        writes.append((at, len(data)))
        return real_pwrite(fd, data, at)

    def several(fd: int, parts: list[memoryview], at: int) -> int:
        writes.append((at, sum(map(len, parts))))
        return real_pwritev(fd, parts, at)

    monkeypatch.setattr(os, "pwrite", one)
    monkeypatch.setattr(os, "pwritev", several)
    header = header_for(capacity=15_000_000, fpr=0.01, layout="classic")
    write(tmp_path / "a.mmb", header, cut(bytes(header.payload_bytes), BLOCK_BYTES))

    assert writes[:2] == [(0, BLOCK_BYTES), (BLOCK_BYTES, BLOCK_BYTES)]
    assert writes[2][0] == 2 * BLOCK_BYTES
    assert writes[-1] == (0, 4096)
    assert sum(size for _, size in writes) == header.file_bytes + 4096


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    """40 MiB of payload; no more than three blocks at a time, one of them the engine's."""
    header = header_for(capacity=35_000_000, fpr=0.01, layout="classic")
    piece = memoryview(bytes(BLOCK_BYTES))
    sizes = [BLOCK_BYTES] * (header.payload_bytes // BLOCK_BYTES)
    pieces = [piece[:size] for size in (*sizes, header.payload_bytes % BLOCK_BYTES)]
    assert header.payload_bytes > 39 * MIB
    tracemalloc.start()
    try:
        write(tmp_path / "a.mmb", header, pieces)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak_bytes < 3 * BLOCK_BYTES


def test_a_seal_and_a_save_store_the_same_rate(tmp_path: Path, layout: str) -> None:
    """Of one payload of more than a block."""
    path = tmp_path / "a.mmb"
    with BloomFilter.create(path, capacity=TWO_BLOCKS_KEYS, fpr=0.01, layout=layout) as made:
        made.update([f"/{i}" for i in range(20_000)])
        made.save(tmp_path / "saved.mmb")
        made.seal()
        with mmbloom.open(tmp_path / "saved.mmb") as saved:
            assert saved.expected_fpr() == made.expected_fpr() > 0
            assert saved._opened.status.checksum_root == made._opened.status.checksum_root


def test_a_file_that_replaces_what_another_has_just_published_is_the_next_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The generation is chosen while nobody else can take the path."""
    path = tmp_path / "a.mmb"
    mmbloom.build(path, ["first"], fpr=0.01).close()
    real = NewFile.publish

    def publish_after_another(new: NewFile, finish: Callable[[], object]) -> None:
        monkeypatch.setattr(NewFile, "publish", real)
        mmbloom.build(path, ["second"], fpr=0.01, if_exists="replace").close()
        real(new, finish)

    monkeypatch.setattr(NewFile, "publish", publish_after_another)
    with mmbloom.build(path, ["third"], fpr=0.01, if_exists="replace") as built:
        assert ("third" in built, built.generation) == (True, 3)
