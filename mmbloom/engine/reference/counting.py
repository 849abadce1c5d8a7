"""Counters of four bits, and whole payloads of them: FORMAT.md, "Counting filters"."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmbloom.engine.reference.hashes import HASH
from mmbloom.engine.reference.probes import NARROW, NARROW_BITS, probes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from _typeshed import ReadableBuffer as Buffer
    from _typeshed import WriteableBuffer

MOST = 15  # a full counter never changes: the number of keys that it counts is unknown
LINE_BYTES = NARROW_BITS // 2


class Counters:
    """Counters of four bits: a Bloom filter that keys can be removed from."""

    skips_known = False  # a key that is "maybe" is counted once more

    def __init__(self, num_counters: int, num_probes: int) -> None:
        self.geometry = NARROW, num_counters, num_probes
        self.num_bytes = num_counters // 2

    def contains(self, payload: memoryview, hi: int, lo: int) -> bool:
        """Return whether no counter is zero."""
        return self.least(payload, hi, lo) > 0

    def least(self, payload: memoryview, hi: int, lo: int) -> int:
        """Return the least counter of a key."""
        return min(payload[i >> 1] >> 4 * (i & 1) & MOST for i in probes(*self.geometry, hi, lo))

    def bytes_read(self, payload: memoryview, hi: int, lo: int) -> list[int]:  # noqa: ARG002
        """Return where the counters lie."""
        return [i >> 1 for i in probes(*self.geometry, hi, lo)]

    def add(self, payload: memoryview, hi: int, lo: int) -> int:
        """Count a key in; return how many counters became full."""
        return self._step(payload, hi, lo, 1)

    def remove(self, payload: memoryview, hi: int, lo: int) -> int:
        """Count a key out; return 0: no counter becomes full."""
        return self._step(payload, hi, lo, -1)

    def _step(self, payload: memoryview, hi: int, lo: int, step: int) -> int:
        """Count up or down, once for each counter of the key; a full one stays as it is."""
        num_full = 0
        for i in set(probes(*self.geometry, hi, lo)):
            shift = 4 * (i & 1)
            if payload[i >> 1] >> shift & MOST != MOST:
                payload[i >> 1] += step << shift
                num_full += payload[i >> 1] >> shift & MOST == MOST
        return num_full


def _each(payload: Buffer) -> Iterator[int]:
    """Yield every counter in order."""
    for byte in memoryview(payload).cast("B"):
        yield byte & MOST
        yield byte >> 4


def counter_histogram(payload: Buffer) -> tuple[list[int], int]:
    """Return how many lines have x counters that are not zero, x = 0..128; how many are full."""
    histogram = [0] * (NARROW_BITS + 1)
    num_saturated = 0
    view = memoryview(payload).cast("B")
    for end in range(LINE_BYTES, len(view) + 1, LINE_BYTES):
        counters = list(_each(view[end - LINE_BYTES : end]))
        histogram[NARROW_BITS - counters.count(0)] += 1
        num_saturated += counters.count(MOST)
    return histogram, num_saturated


def count_part(
    target: WriteableBuffer, first: int, num_bits: int, num_probes: int, hashes: Buffer
) -> None:
    """Count the keys whose line falls into *target*, the payload from byte *first* on."""
    view = memoryview(target).cast("B")
    if first % LINE_BYTES or len(view) % LINE_BYTES:
        whole = f"not whole blocks of {LINE_BYTES}"
        raise ValueError(f"bytes {first} to {first + len(view)}: {whole}")
    for hi, lo in HASH.iter_unpack(bytes(hashes)):
        for i in set(probes(NARROW, num_bits // 4, num_probes, hi, lo)):
            byte, shift = (i >> 1) - first, 4 * (i & 1)
            if 0 <= byte < len(view) and view[byte] >> shift & MOST != MOST:
                view[byte] += 1 << shift


def unite_counters(target: WriteableBuffer, other: Buffer) -> None:
    """Add every counter of *other* to that of *target*, to 15 at most."""
    view, operand = memoryview(target).cast("B"), memoryview(other).cast("B")
    if len(view) != len(operand):
        raise ValueError(f"payloads of {len(view)} and {len(operand)} bytes")
    sums = (min(sum(pair), MOST) for pair in zip(_each(view), _each(operand), strict=True))
    view[:] = bytes(low | high << 4 for low, high in zip(sums, sums, strict=True))


def flatten_counters(payload: Buffer, bits: WriteableBuffer) -> None:
    """Write one bit a counter: 1 where it is not zero."""
    target = memoryview(bits).cast("B")
    for i, eight in enumerate(zip(*[(c > 0 for c in _each(payload))] * 8, strict=True)):
        target[i] = sum(bit << j for j, bit in enumerate(eight))
