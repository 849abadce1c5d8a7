"""Partitions of hashes -> the bytes of a Bloom payload, plain or counting, in order, written once.

In a layout with blocks, neighbouring partitions fall on neighbouring blocks. So each piece of the
payload is made alone, in a buffer that fits in a cache. Bits take hashes as they come, repetitions
included; counters take each distinct key once, from sorted partitions.

In layout classic a key may fall anywhere. So as much of the payload as memory allows is made at a
time, and all keys are read again for each piece: one pass for a payload of half the memory, two for
one twice as large, and so on.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from mmbloom.engine import add_part, count_part, span, unite_counters
from mmbloom.format.kinds import LAYOUT_RULES
from mmbloom.kinds.partitions import NUM_PARTITIONS, PARTITION_BITS
from mmbloom.storage.memory import map_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from mmbloom.format.header import Header
    from mmbloom.kinds.partitions import PartitionReader, Threads

    Fill = Callable[[range, memoryview, int], object]
    Unite = Callable[[memoryview, memoryview], object]

PIECE_BYTES = 8 << 20  # of layout classic
CACHED_BYTES = 1 << 20  # of other layouts: about what a cache holds beside the hashes
_CACHE_LINE_BYTES = 64
_RUN_PARTITIONS = 16  # in layout classic: between two runs the caller's thread can be interrupted
_SHIFT = 64 - PARTITION_BITS
_PAGE_BYTES = 4096


class _Piece(NamedTuple):
    """A piece of the payload, whole blocks, from byte *first* on."""

    first: int
    data: memoryview


def bit_pieces(
    header: Header, reader: PartitionReader, threads: Threads, memory_bytes: int
) -> Iterator[memoryview]:
    """Yield the payload of a plain Bloom filter with the keys of all partitions."""
    fill = partial(_set_bits, header, reader)
    if header.block_bytes:
        return _block_pieces(header, header.layout, threads, fill, _set_bits_of)
    most = max(PIECE_BYTES, memory_bytes // 2 // _PAGE_BYTES * _PAGE_BYTES)
    return _classic_pieces(header.payload_bytes, most, threads, fill)


def counter_pieces(
    header: Header, reader: PartitionReader, threads: Threads
) -> Iterator[memoryview]:
    """Yield the payload of a counting Bloom filter with the keys of all partitions."""
    # A line of counters is as long as a line of layout line, and hi selects it in the same way.
    layout = LAYOUT_RULES["line"].number
    fill = partial(_count_keys, header, reader)
    return _block_pieces(header, layout, threads, fill, unite_counters)


def _set_bits(
    header: Header, reader: PartitionReader, run: range, target: memoryview, first: int
) -> None:
    """Set the bits of a run of partitions that fall in *target*, the payload from *first* on."""
    for partition in reader.filled_among(run):
        for hashes in reader.raw(partition):
            add_part(target, first, header.layout, header.num_bits, header.num_probes, hashes)


def _count_keys(
    header: Header, reader: PartitionReader, run: range, target: memoryview, first: int
) -> None:
    """Count the distinct keys of a run of partitions, which fall in *target*."""
    for partition in reader.filled_among(run):
        with reader.distinct(partition) as hashes:
            count_part(target, first, header.num_bits, header.num_probes, hashes)


def _set_bits_of(target: memoryview, other: memoryview) -> None:
    """Set the bits of *other* in *target*; without NumPy, which takes long to load."""
    bits = int.from_bytes(target, "little") | int.from_bytes(other, "little")
    target[:] = bits.to_bytes(len(target), "little")


def _block_pieces(
    header: Header, layout: int, threads: Threads, fill: Fill, unite: Unite
) -> Iterator[memoryview]:
    """Yield a payload in which each run of partitions falls on blocks of its own."""

    def make(run: range) -> _Piece:
        first, end = span(layout, header.num_bits, run.start << _SHIFT, (run.stop << _SHIFT) - 1)
        data = memoryview(bytearray(end - first))
        fill(run, data, first)
        return _Piece(first, data)

    length = max(1, NUM_PARTITIONS * CACHED_BYTES // header.payload_bytes)
    pieces = threads.do(partial(make, run) for run in _runs(length))
    return _stitched(pieces, header.block_bytes, unite)


def _stitched(pieces: Iterable[_Piece], block_bytes: int, unite: Unite) -> Iterator[memoryview]:
    """Yield the bytes of consecutive pieces. Neighbours may share the block between them."""
    held = memoryview(b"")  # the last block so far: the next piece may have keys in it
    held_first = 0
    for first, data in pieces:
        if held and first == held_first:
            unite(data[:block_bytes], held)
        elif held:
            yield held
        yield data[:-block_bytes]
        held, held_first = data[-block_bytes:], first + len(data) - block_bytes
    yield held


def _classic_pieces(
    payload_bytes: int, most_bytes: int, threads: Threads, fill: Fill
) -> Iterator[memoryview]:
    """Yield a payload in which each key may fall anywhere, *most_bytes* in memory at a time."""
    most_bytes = min(payload_bytes, most_bytes)
    for first in range(0, payload_bytes, most_bytes):
        num_bytes = min(most_bytes, payload_bytes - first)
        data = memoryview(map_memory(num_bytes))
        # Each thread has bytes of its own, so no bit is lost.
        step = -(-num_bytes // threads.jobs // _CACHE_LINE_BYTES) * _CACHE_LINE_BYTES
        for run in _runs(_RUN_PARTITIONS):
            for _ in threads.do(
                partial(fill, run, data[at : at + step], first + at)
                for at in range(0, num_bytes, step)
            ):
                pass
        for at in range(0, num_bytes, PIECE_BYTES):
            yield data[at : at + PIECE_BYTES]


def _runs(length: int) -> Iterator[range]:
    """Yield all partitions in runs of *length*, the last possibly shorter."""
    for first in range(0, NUM_PARTITIONS, length):
        yield range(first, min(first + length, NUM_PARTITIONS))
