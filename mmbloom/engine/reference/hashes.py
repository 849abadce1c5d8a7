"""Canonical bytes -> hashes: FORMAT.md, "Hash"."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import xxhash

from mmbloom.engine.reference.keys import canonical_bytes
from mmbloom.errors import KeyTypeError, KeyValueError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from _typeshed import ReadableBuffer as Buffer
    from _typeshed import WriteableBuffer

    from mmbloom.engine.reference.keys import Batch

HASH = struct.Struct("<QQ")  # hi, lo
MASK64 = (1 << 64) - 1


def hash_bytes(data: bytes, seed: int) -> tuple[int, int]:
    """Return XXH3-128 as (hi, lo): hi says where, lo says which bits."""
    digest = xxhash.xxh3_128_intdigest(data, seed)
    return digest >> 64, digest & MASK64


def hash_key(key: object, seed: int, key_form: int) -> tuple[int, int]:
    """Return the hash of one key."""
    return hash_bytes(canonical_bytes(key, key_form), seed)


def batch_hashes(batch: Batch, seed: int, key_form: int) -> Iterator[tuple[int, int]]:
    """Yield the hash of every key in order."""
    for index, key in enumerate(batch.keys()):
        try:
            data = canonical_bytes(key, key_form)
        except (KeyTypeError, KeyValueError):
            data = canonical_bytes(key, key_form, batch.describe(index))
        yield hash_bytes(data, seed)


def hash_batch(batch: Batch, seed: int, key_form: int) -> bytearray:
    """Return the hashes of a batch, 16 bytes each."""
    return bytearray().join(HASH.pack(*key) for key in batch_hashes(batch, seed, key_form))


def sort_unique(hashes: WriteableBuffer, scratch: WriteableBuffer) -> int:
    """Sort hashes by (hi, lo), drop repetitions, return how many are left at the front."""
    view = memoryview(hashes).cast("B")
    if len(memoryview(scratch).cast("B")) < len(view):
        raise ValueError("scratch is smaller than the hashes")
    distinct = sorted(set(HASH.iter_unpack(bytes(view))))
    view[: len(distinct) * HASH.size] = b"".join(HASH.pack(*key) for key in distinct)
    return len(distinct)


def order_by_part(hashes: Buffer, num_parts: int, out: WriteableBuffer) -> None:
    """Write hashes to *out* in the order of the parts of the range of hi in which they lie."""
    view = memoryview(out).cast("B")
    packed = bytes(hashes)
    if len(view) < len(packed):
        raise ValueError("out is smaller than the hashes")
    if num_parts <= 0:
        raise ValueError(f"{num_parts} parts: at least one")
    ordered = sorted(HASH.iter_unpack(packed), key=lambda key: key[0] * num_parts >> 64)
    view[: len(packed)] = b"".join(HASH.pack(*key) for key in ordered)


def sum_hashes(hashes: Buffer) -> int:
    """Return the sum of hashes modulo 2^128."""
    total: int = sum((hi << 64) + lo for hi, lo in HASH.iter_unpack(bytes(hashes)))
    return total % (1 << 128)
