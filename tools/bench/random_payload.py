"""Fills a filter file with random bits, as a full filter has them, in seconds instead of hours.

For time, a payload of random bits at the right density is a full filter: look-ups read the same
lines and false positives come at the rate density ** num_probes. Keys that must be found are added
afterwards, through the library.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from pathlib import Path

# Written in aligned pieces of this size, as mmbloom publishes its files: the page cache then keeps
# large folios. The bits repeat from piece to piece, which no look-up can notice.
PIECE_BYTES = 8 << 20
# Binary digits of the density: its error is below 2^-12, so below 0.4 % of an fpr with 8 probes.
_DENSITY_DIGITS = 12


def random_bits(num_bytes: int, density: float) -> bytes:
    """Return bytes in which each bit is set with the chance *density*, 0 < density < 1.

    From the last binary digit of the density to the first: a random word is or-ed in for a 1 and
    and-ed in for a 0, which halves the chance so far and adds a half for a 1.
    """
    generator = np.random.default_rng(11)
    bits = np.zeros(num_bytes, dtype=np.uint8)
    digits = round(density * (1 << _DENSITY_DIGITS))
    for digit in range(_DENSITY_DIGITS):
        word = np.frombuffer(generator.bytes(num_bytes), dtype=np.uint8)
        bits = bits | word if digits >> digit & 1 else bits & word
    return bits.tobytes()


def fill(path: Path, payload_offset: int, payload_bytes: int, density: float) -> None:
    """Overwrite the payload but for its last 64 bytes, whose bits past num_bits must stay zero."""
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
