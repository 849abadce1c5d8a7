"""Makes filter files of a wished size: what the benchmarks of large files look into."""

from __future__ import annotations

from typing import TYPE_CHECKING

import mmbloom
import numpy as np

from . import random_payload

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    import pyarrow as pa

FPR = 0.01
PAYLOAD_OFFSET = 4096
# 64 MB of integers at a time: no batch is large against the filter.
_FILLER_BATCH = 8_000_000


def capacity_for(payload_bytes: int, layout: str) -> int:
    """Return the capacity at 1 % whose payload has about this size; bits/key hardly vary."""
    probe = mmbloom.BloomFilter.in_memory(capacity=1_000_000, fpr=FPR, layout=layout)
    bits_per_key = probe.num_bits / 1_000_000
    probe.close()
    return int(payload_bytes * 8 / bits_per_key)


def payload_bytes_of(num_bits: int) -> int:
    """Return the bytes behind num_bits: whole cache lines, in every layout."""
    return -(-num_bits // 512) * 64


def full(path: Path, payload_bytes: int, layout: str, keys: pa.Array) -> None:
    """Build a filter that holds *keys* and integers up to its capacity, and save it."""
    capacity = capacity_for(payload_bytes, layout)
    filler = capacity - len(keys)
    with mmbloom.BloomFilter.in_memory(capacity=capacity, fpr=FPR, layout=layout) as made:
        made.update(keys)
        for start in range(0, filler, _FILLER_BATCH):
            stop = min(start + _FILLER_BATCH, filler)
            made.update(np.arange(start, stop, dtype=np.int64))
        made.save(path)


def random(path: Path, payload_bytes: int, layout: str, keys: Iterable[str]) -> None:
    """Make a file whose payload is random bits, half of them set, and add *keys* to it."""
    capacity = capacity_for(payload_bytes, layout)
    with mmbloom.BloomFilter.create(path, capacity=capacity, fpr=FPR, layout=layout) as made:
        num_bits = made.num_bits
    random_payload.fill(path, PAYLOAD_OFFSET, payload_bytes_of(num_bits), 0.5)
    with mmbloom.open_writable(path) as writable:
        writable.update(list(keys))
