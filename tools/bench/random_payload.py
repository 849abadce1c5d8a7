"""Fills a filter file with random bits of the density of a full filter, in seconds, not hours.

Look-ups in it cost the same as in a full filter: they read the same cache lines, and the rate of
false positives is density ** num_probes. Keys that must be found are added afterwards, through the
library.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from pathlib import Path

# Written in aligned pieces of this size, as mmbloom publishes its files: the page cache then has
# large folios. All pieces are equal, which makes no difference to look-ups.
PIECE_BYTES = 8 << 20
# Binary digits of the density: its error is below 2^-12, so below 0.4 % of an fpr with 8 probes.
_DENSITY_DIGITS = 12


def random_bits(num_bytes: int, density: float) -> bytes:
    """Return bytes in which each bit is set with probability *density*, 0 < density < 1.

    From the last binary digit of the density to the first: random bits are combined by OR for a 1
    and by AND for a 0. Either halves the probability so far; OR also adds a half.
    """
    generator = np.random.default_rng(11)
    bits = np.zeros(num_bytes, dtype=np.uint8)
    digits = round(density * (1 << _DENSITY_DIGITS))
    for digit in range(_DENSITY_DIGITS):
        word = np.frombuffer(generator.bytes(num_bytes), dtype=np.uint8)
        bits = bits | word if digits >> digit & 1 else bits & word
    return bits.tobytes()


def fill(path: Path, payload_offset: int, payload_bytes: int, density: float) -> None:
    """Overwrite the payload except its last 64 bytes, where bits after num_bits must be zero."""
    piece = memoryview(random_bits(PIECE_BYTES, density))
    end = payload_offset + payload_bytes - 64
    descriptor = os.open(path, os.O_WRONLY)
    try:
        at = payload_offset
        while at < end:
            in_piece = at % PIECE_BYTES
            at += os.pwrite(descriptor, piece[in_piece : in_piece + end - at], at)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
