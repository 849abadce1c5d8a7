"""Hashes -> probes: FORMAT.md, "Probes"."""

from __future__ import annotations

CLASSIC, LINE, PAGE, NARROW = 1, 2, 3, 4
MAX_PROBES = {CLASSIC: 64, LINE: 16, PAGE: 32, NARROW: 16}
LINE_BITS, PAGE_BITS, NARROW_BITS = 512, 32768, 128

MASK32, MASK64 = (1 << 32) - 1, (1 << 64) - 1
# floor(2^64 / golden ratio) and floor(2^32 / golden ratio), both odd: Fibonacci hashing,
# Knuth TAOCP 3, 6.4.
GOLDEN64 = 0x9E3779B97F4A7C15
GOLDEN32 = 0x9E3779B9
MULTIPLIERS = [pow(GOLDEN32, i, 1 << 32) for i in range(16)]
ADDENDS = [(i + 1) * GOLDEN32 & MASK32 for i in range(16)]


def probes(layout: int, num_bits: int, num_probes: int, hi: int, lo: int) -> list[int]:
    """Return the bit numbers of a hash, or the numbers of its counters: FORMAT.md, "Probes"."""
    if num_probes > MAX_PROBES[layout]:
        raise ValueError(f"num_probes is {num_probes}, at most {MAX_PROBES[layout]}")
    if layout == CLASSIC:
        return _classic_probes(num_bits, num_probes, hi, lo)
    low, high = lo & MASK32, lo >> 32
    if layout == LINE:
        line = hi * (num_bits // LINE_BITS) >> 64
        words = [low] * 8 + [high] * 8
        return [LINE_BITS * line + (_mix(words[i], i) >> 23) for i in range(num_probes)]
    if layout == NARROW:
        line = hi * (num_bits // NARROW_BITS) >> 64
        words = [low] * 8 + [high] * 8
        return [NARROW_BITS * line + (_mix(words[i], i) >> 25) for i in range(num_probes)]
    product = hi * (num_bits // PAGE_BITS)
    page, fraction = product >> 64, product & MASK64
    lines = (64 * page + (fraction >> 59), 64 * page + 32 + (fraction >> 54 & 31))
    halves = (low, high)
    bits = [_mix(halves[i % 2], i // 2) >> 23 for i in range(num_probes)]
    return [LINE_BITS * lines[i % 2] + bit for i, bit in enumerate(bits)]


def _classic_probes(num_bits: int, num_probes: int, x: int, y: int) -> list[int]:
    bits = []
    z = GOLDEN64
    for _ in range(num_probes):
        mixed = (x ^ x >> 32) * GOLDEN64 & MASK64
        bits.append(mixed * num_bits >> 64)
        y = (y + z) & MASK64
        x = (x + y) & MASK64
        z = (z + GOLDEN64) & MASK64
    return bits


def _mix(h: int, i: int) -> int:
    """Return probe i of the word h, whose upper bits say where."""
    return h * MULTIPLIERS[i] + ADDENDS[i] & MASK32
