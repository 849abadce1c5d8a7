"""The keys of the benchmarks, generated, the same in every run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from .timing import Key

# Keys for misses start here: no benchmark adds this many.
ABSENT = 1 << 40


def mixed(start: int, count: int) -> NDArray[np.uint64]:
    """Return count distinct numbers without a pattern: splitmix64 of start, start + 1, ...

    It is a permutation of 64-bit numbers, so disjoint ranges give disjoint keys.
    Source: Steele, Lea and Flood 2014.
    """
    x = np.arange(start, start + count, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def urls(start: int, count: int) -> list[str]:
    """Return URLs of 50 characters, in the order in which they were allocated."""
    return [f"https://www.example.org/catalogue/{x:016x}" for x in mixed(start, count).tolist()]


def url_bytes(start: int, count: int) -> list[bytes]:
    """Return the same URLs as bytes objects."""
    return [url.encode() for url in urls(start, count)]


def copied(keys: Sequence[Key]) -> list[Key]:
    """Return equal keys in new objects, whose hash is not cached yet."""
    return [key[:1] + key[1:] for key in keys]  # type: ignore[operator]


def rearranged(keys: Sequence[Key]) -> list[Key]:
    """Return the keys in random order, unlike that of their addresses."""
    order = np.random.default_rng(5).permutation(len(keys))
    return [keys[i] for i in order.tolist()]


def arrow_urls(start: int, count: int) -> pa.StringArray:
    """Return URLs as an Arrow string array."""
    parts = [
        pa.array(urls(first, min(1_000_000, start + count - first)))
        for first in range(start, start + count, 1_000_000)
    ]
    return pa.concat_arrays(parts)


def _rows(table: NDArray[np.uint8]) -> pa.FixedSizeBinaryArray:
    count, width = table.shape
    return pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(width), count, [None, pa.py_buffer(np.ascontiguousarray(table))]
    )


def random_16_bytes(start: int, count: int) -> pa.Array:
    """Return keys of 16 random bytes."""
    halves = np.stack([mixed(start, count), mixed(start + (1 << 50), count)], axis=1)
    return _rows(halves.view(np.uint8))


def sequential_decimals(start: int, count: int) -> pa.Array:
    """Return "0", "1", "2", ... as strings."""
    return pc.cast(pa.array(np.arange(start, start + count)), pa.string())


def urls_one_byte_apart(start: int, count: int) -> pa.Array:
    """Return URLs of which each differs from the next in exactly one byte (a Gray code in hex)."""
    counter = np.arange(start, start + count, dtype=np.uint64)
    gray = counter ^ (counter >> np.uint64(1))
    head, tail = b"https://www.example.org/list/", b"/index.html"
    table = np.empty((count, len(head) + 16 + len(tail)), dtype=np.uint8)
    table[:, : len(head)] = np.frombuffer(head, dtype=np.uint8)
    table[:, len(head) + 16 :] = np.frombuffer(tail, dtype=np.uint8)
    digits = np.frombuffer(b"0123456789abcdef", dtype=np.uint8)
    for place in range(16):
        nibble = (gray >> np.uint64(60 - 4 * place)) & np.uint64(15)
        table[:, len(head) + place] = digits[nibble]
    return _rows(table)


def big_endian_counters(start: int, count: int) -> pa.Array:
    """Return 8-byte counters, most significant byte first."""
    return _rows(np.arange(start, start + count, dtype=">u8").view(np.uint8).reshape(count, 8))


def little_endian_counters(start: int, count: int) -> pa.Array:
    """Return 8-byte counters, least significant byte first."""
    return _rows(np.arange(start, start + count, dtype="<u8").view(np.uint8).reshape(count, 8))


FAMILIES: dict[str, Callable[[int, int], pa.Array]] = {
    "random 16 bytes": random_16_bytes,
    "sequential decimals": sequential_decimals,
    "URLs one byte apart": urls_one_byte_apart,
    "8-byte big-endian counter": big_endian_counters,
    "8-byte little-endian counter": little_endian_counters,
}
