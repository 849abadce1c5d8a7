"""Partitions of hashes -> the bytes of a Bloom payload, in order, in pieces, written once.

`line`, `page` and `counters`: partitions are neighbouring stretches of the payload, so each piece
is made alone, in a buffer that fits in a cache. Counters take each distinct key once, from sorted
partitions; bits take all hashes as they come. `classic`: probes fall anywhere, so as much of the
payload as memory allows is made at a time, and all keys are gone through for each such part: one
pass for a payload of half the memory, two for one twice as large, and so on.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from mmbloom.building.hashes import NUM_PARTITIONS, PARTITION_BITS
from mmbloom.engine import add_part, count_part, span, unite_counters
from mmbloom.format.fields import KIND_COUNTING, LAYOUT_RULES
from mmbloom.storage.memory import map_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mmbloom.building.loading import Loader
    from mmbloom.building.thread_pool import Crew
    from mmbloom.format.header import Header

PIECE_BYTES = 8 << 20
STRETCH_BYTES = 1 << 20  # about what a cache holds beside the hashes
_SHIFT = 64 - PARTITION_BITS
_GROUPS = 64  # of partitions, for `classic`: between two of them the caller's thread can be stopped


class _Stretch(NamedTuple):
    """A part of the payload, whole blocks, from byte *first* on."""

    first: int
    data: memoryview


def payload_pieces(
    header: Header, loader: Loader, crew: Crew, memory_bytes: int
) -> Iterator[memoryview]:
    """Yield the payload of *header* with all hashes in it.

    Raises:
        SpillError, OSError: spilled hashes cannot be read back.
    """
    if header.block_bytes == 0:
        yield from _classic_pieces(header, loader, crew, memory_bytes)
        return
    is_counting = header.kind == KIND_COUNTING
    stretch, unite = (_counted_stretch, unite_counters) if is_counting else (_stretch, _set_too)
    tasks = (partial(stretch, header, loader, some) for some in _neighbours(header.payload_bytes))
    yield from _stitched(crew.do(tasks), header.block_bytes, unite)


def _neighbours(payload_bytes: int) -> Iterator[range]:
    """Yield runs of partitions, each about a piece of the payload."""
    per_group = max(1, NUM_PARTITIONS * STRETCH_BYTES // payload_bytes)
    for first in range(0, NUM_PARTITIONS, per_group):
        yield range(first, min(first + per_group, NUM_PARTITIONS))


def _stretch(header: Header, loader: Loader, some: range) -> _Stretch:
    """Return the blocks of neighbouring partitions, with their keys."""
    first, data = _empty_stretch(header.layout, header.num_bits, some)
    for partition in loader.filled_among(some):
        for hashes in loader.raw(partition):
            add_part(data, first, header.layout, header.num_bits, header.num_probes, hashes)
    return _Stretch(first, data)


def _counted_stretch(header: Header, loader: Loader, some: range) -> _Stretch:
    """Return the lines of counters of neighbouring partitions, with each distinct key once."""
    # A line of counters is as long as one of the layout `line`, and hi falls on it alike.
    first, data = _empty_stretch(LAYOUT_RULES["line"].number, header.num_bits, some)
    for partition in loader.filled_among(some):
        with loader.distinct(partition) as hashes:
            count_part(data, first, header.num_bits, header.num_probes, hashes)
    return _Stretch(first, data)


def _empty_stretch(layout: int, num_bits: int, some: range) -> _Stretch:
    lowest, highest = some.start << _SHIFT, (some.stop << _SHIFT) - 1
    first, end = span(layout, num_bits, lowest, highest)
    return _Stretch(first, memoryview(bytearray(end - first)))


def _stitched(
    stretches: Iterator[_Stretch],
    block_bytes: int,
    unite: Callable[[memoryview, memoryview], object],
) -> Iterator[memoryview]:
    """Yield the bytes of consecutive stretches; neighbours may share the block between them."""
    held = memoryview(b"")  # the last block so far: the next stretch may have keys in it
    held_first = 0
    for first, data in stretches:
        if held and first == held_first:
            unite(data[:block_bytes], held)
        elif held:
            yield held
        yield data[:-block_bytes]
        held, held_first = data[-block_bytes:], first + len(data) - block_bytes
    yield held


def _set_too(target: memoryview, other: memoryview) -> None:
    """Set the bits of *other* in *target*, which is as long."""
    bits = int.from_bytes(target, "little") | int.from_bytes(other, "little")
    target[:] = bits.to_bytes(len(target), "little")


def _classic_pieces(
    header: Header, loader: Loader, crew: Crew, memory_bytes: int
) -> Iterator[memoryview]:
    part_bytes = min(header.payload_bytes, max(PIECE_BYTES, memory_bytes // 2 // 4096 * 4096))
    for first in range(0, header.payload_bytes, part_bytes):
        num_bytes = min(part_bytes, header.payload_bytes - first)
        part = memoryview(map_memory(num_bytes))
        share = (
            -(-num_bytes // crew.jobs // 64) * 64
        )  # each thread has its own bytes: no bit is lost
        for some in _shares(NUM_PARTITIONS, _GROUPS):
            tasks = (
                partial(_add_share, header, loader, some, first + at, part[at : at + share])
                for at in range(0, num_bytes, share)
            )
            for _ in crew.do(tasks):
                pass
        for at in range(0, num_bytes, PIECE_BYTES):
            yield part[at : at + PIECE_BYTES]


def _shares(total: int, count: int) -> Iterator[range]:
    step = total // count
    for first in range(0, total, step):
        yield range(first, first + step)


def _add_share(header: Header, loader: Loader, some: range, first: int, target: memoryview) -> None:
    for partition in loader.filled_among(some):
        for hashes in loader.raw(partition):
            add_part(target, first, header.layout, header.num_bits, header.num_probes, hashes)
