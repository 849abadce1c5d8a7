"""Whole payloads: checksums, counts, fill."""

from __future__ import annotations

from typing import TYPE_CHECKING

import xxhash

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from _typeshed import ReadableBuffer as Buffer

LINE_BYTES, LINE_BITS = 64, 512
NARROW_BYTES, PAGE_BYTES = 16, 4096


def checksum64(data: Buffer) -> int:
    """Return XXH3-64 under seed 0."""
    return xxhash.xxh3_64_intdigest(data)


def popcount(data: Buffer) -> int:
    """Return the number of set bits."""
    return int.from_bytes(data, "little").bit_count()


def line_histogram(data: Buffer) -> list[int]:
    """Return how many 64-byte lines have x set bits, for x = 0..512."""
    histogram = [0] * (LINE_BITS + 1)
    for line in _blocks(data, LINE_BYTES):
        histogram[popcount(line)] += 1
    return histogram


def narrow_histogram(data: Buffer) -> list[int]:
    """Return how many 16-byte lines have x set bits, for x = 0..128."""
    histogram = [0] * (8 * NARROW_BYTES + 1)
    for line in _blocks(data, NARROW_BYTES):
        histogram[popcount(line)] += 1
    return histogram


def _blocks(data: Buffer, num_bytes: int) -> Iterator[memoryview]:
    """Yield the whole blocks of *data*."""
    view = memoryview(data).cast("B")
    for end in range(num_bytes, len(view) + 1, num_bytes):
        yield view[end - num_bytes : end]


def page_fill(data: Buffer, lower: Sequence[float], upper: Sequence[float]) -> float:
    """Sum over pages of mean(lower[x]) * mean(upper[x]), in the order of the payload."""
    total = 0.0
    for page in _blocks(data, PAGE_BYTES):
        counts = [popcount(line) for line in _blocks(page, LINE_BYTES)]
        sums = [0.0, 0.0]  # added one by one: sum() compensates, and gives another last bit
        for a, b in zip(counts[:32], counts[32:], strict=True):
            sums[0] += lower[a]
            sums[1] += upper[b]
        total += (sums[0] / 32) * (sums[1] / 32)
    return total


def page_halves(data: Buffer) -> tuple[int, int]:
    """Return the set bits of the lower and of the upper halves of all pages."""
    halves = [popcount(half) for page in _blocks(data, PAGE_BYTES) for half in _blocks(page, 2048)]
    return sum(halves[::2]), sum(halves[1::2])


def payloads_equal(left: Buffer, right: Buffer) -> bool:
    """Return whether two payloads are the same bytes."""
    return memoryview(left).cast("B") == memoryview(right).cast("B")
