"""Makes filter files of a given size, for the benchmarks of large files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import mmbloom

from . import random_payload

if TYPE_CHECKING:
    from pathlib import Path

FPR = 0.01
PAYLOAD_OFFSET = 4096


def capacity_for(payload_bytes: int, layout: str) -> int:
    """Return the capacity at 1 % with a payload of about this size."""
    probe = mmbloom.BloomFilter.in_memory(capacity=1_000_000, fpr=FPR, layout=layout)
    bits_per_key = probe.num_bits / 1_000_000
    probe.close()
    return int(payload_bytes * 8 / bits_per_key)


def payload_bytes_of(num_bits: int) -> int:
    """Return the payload bytes for num_bits: whole cache lines, in every layout."""
    return -(-num_bits // 512) * 64


def full(path: Path, payload_bytes: int, layout: str, keys: object = ()) -> None:
    """Make a file as dense as a full filter of this size, and add *keys*, any batch, to it.

    The payload is random bits, as adding a thousand million keys takes minutes.
    """
    capacity = capacity_for(payload_bytes, layout)
    with mmbloom.BloomFilter.create(path, capacity=capacity, fpr=FPR, layout=layout) as made:
        num_bits, num_probes = made.num_bits, made.num_probes
    density = FPR ** (1 / num_probes)
    random_payload.fill(path, PAYLOAD_OFFSET, payload_bytes_of(num_bits), density)
    with mmbloom.open_writable(path) as writable:
        writable.update(keys)
