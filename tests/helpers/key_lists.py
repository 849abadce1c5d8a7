"""What a list of keys gives: the keys themselves, by way of the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmbloom.engine import hash_batch

if TYPE_CHECKING:
    from mmbloom import ListReader


def keys_of(keys: ListReader) -> list[bytes]:
    """Return all keys of lists of lines or of records."""
    found = []
    for block in keys:
        num_keys = len(hash_batch(block.batch, 0, 0)) // 16
        found += bytes(block.select(b"\1" * num_keys)).split(b"\n")[:-1]
    return found


def read_in_two(first: ListReader, second: ListReader, num_blocks: int) -> list[bytes]:
    """Return the keys of a list that is left after some blocks, and gone on with in another."""
    found = []
    for _ in range(num_blocks):
        block = next(iter(first), None)
        if block is None:
            break
        num_keys = len(hash_batch(block.batch, 0, 0)) // 16
        found += bytes(block.select(b"\1" * num_keys)).split(b"\n")[:-1]
    second.skip_to(first.position)
    return found + keys_of(second)
